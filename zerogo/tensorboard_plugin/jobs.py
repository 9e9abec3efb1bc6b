"""The process that imports torch, and its jobs: games as trees of positions, evaluations and searches of networks,
moves, scores, the state of a run. The server passes it a connection for each request; messages are JSON objects:

    {"job": "think", "fields": {…}, "client": "…"}  gets {"part": {…}}, any number, and {"done": true}
                                                    or {"error": "a sentence"}

The server cancels a request by closing its connection. The process ends with the server, or after `IDLE_SECONDS`
without a request. Long jobs run one at a time, in the order of their arrival; short jobs run in between. A low priority
and one thread leave the machine to a training run.

Each job yields parts, as dictionaries for JSON, and may be cancelled between any two. A position is {"size", "komi",
"superko", "suicide", "scoring", "start": {"stones", "handicap", "first"}, "moves": [["b", 40], ...]}; stones are N * N
digits of 0, 1 and 2, row by row. Winrates, scores and ownership are Black's, those of candidates the mover's."""

import base64
import dataclasses
import json
import os
import re
import resource
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import NoneType
from typing import Any

import torch

from zerogo import board, checkpoint, scoring, sgf, tuning
from zerogo.analysis.query import list_of, whole
from zerogo.board import flood, symmetry
from zerogo.cli import set_up
from zerogo.config import Config, with_overrides
from zerogo.errors import InputError, quote
from zerogo.features import make_encoder
from zerogo.game import Colour, GameState, Point
from zerogo.players import require_size
from zerogo.players.analyst import Analysis, Analyst, analyst_of_playouts, make_analyst
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import Judge, MoveChoiceSettings, decide
from zerogo.players.session import AnalysisSession
from zerogo.players.status import indices
from zerogo.rules import Rules, coords
from zerogo.sgf.record import COLOURS, LETTERS
from zerogo.show import picture
from zerogo.system import bounds, runtime

MOST_MOVES, MOST_NODES, MOST_LINES = 2000, 5000, 100  # of a game that is shown, with its variations
MOST_VISITS, MOST_SECONDS, MOST_TREE = 10_000, 120.0, 2**29  # of one search; bytes of its tree
KEPT_SESSIONS, KEPT_GAMES, MOST_NETWORKS = 4, 8, 60  # in memory; the networks of `over_time`
REPORT_SECONDS, SLICE_SECONDS = 0.25, 0.08  # between two reports; between two looks at what else is asked
JUDGE_SECONDS = 10.0  # for dead stones
SHOWN_CANDIDATES, SHOWN_OPENINGS, SHOWN_GAMES = 24, 400, 12
METRICS_BYTES, MOST_POOL_BYTES, MAX_SNAPSHOT_BYTES = 2**20, 2**24, 2**30  # the first from the end of the file
NICENESS = 10  # a run with all cores gives it a tenth of one
SEND_TIMEOUT = struct.pack("ll", 2, 0)  # for a part of an answer: seconds and microseconds
IDLE_SECONDS = 900.0  # after which the process ends and gives its memory back
RESULT = re.compile(r"[BW]\+([A-Za-z]{1,7}|\d{1,4}(\.\d{1,2})?)|0|Draw|Void|\?")
Part = dict[str, Any]


class JobCache:
    """What jobs share: networks and games of recent requests. cpu: processor seconds before the present job."""

    def __init__(self) -> None:
        set_up(with_overrides(Config(), ["run.threads=1", "run.device=cpu", "run.precision=float32"]))
        self._session_of = lru_cache(KEPT_SESSIONS)(_load_session)
        self._game_of = lru_cache(KEPT_GAMES)(_new_game)
        self.cpu = 0.0

    def warm(self) -> Iterator[Part]:
        """Yields between two steps that compile features and search, for which a first search would wait."""
        make_encoder("alphago48", False).planes(board.new_games(1, Rules(5)))
        yield {}
        session = AnalysisSession(analyst_of_playouts(8), capacity=64)
        session.set_position(LiveGame(Rules(5)))
        session.run(8)

    def session(self, path: str, game: LiveGame, on_device: Any = False) -> AnalysisSession:
        """Returns the session of the analyst of a checkpoint's file. on_device: true for a GPU where there is one.
        Raises InputError for a file that does not load, and for a network that does not play on the game's board."""
        session = self._session_of(path, _plain(path).stat().st_mtime_ns, bool(on_device))
        require_size(session.analyst, game.size, "this game is on")
        return session

    def game(self, position: Any) -> LiveGame:
        """Returns the game of a request's position, a copy. Raises InputError for bad positions and illegal moves."""
        rules, start, moves = _position(position)
        game = self._game_of(rules, start["stones"], tuple(start["handicap"]), start["first"])
        if problem := game.go_to(moves):
            number, (_, action) = len(game.moves) + 1, moves[len(game.moves)]
            raise InputError(f"move {number}, {coords.to_gtp(action, rules.size)}: {problem}")
        return game.copy()

    def cost(self, began: float) -> Part:
        """Returns the cost of the present job so far, in seconds and bytes. began: its start on the monotonic clock."""
        spent, memory = time.process_time() - self.cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory *= 1 if sys.platform == "darwin" else 1024
        return {"cpu": round(spent, 2), "seconds": round(time.monotonic() - began, 2), "memory": memory}


def _load_session(path: str, changed: int, on_device: bool) -> AnalysisSession:
    """Returns the session of the analyst of a checkpoint's file. changed: when the file was written."""
    saved, device = checkpoint.load(path), runtime.pick_device("auto" if on_device else "cpu")
    precision = f"run.precision={'auto' if on_device else 'float32'}"
    dtype = tuning.pick_proven_dtype(with_overrides(saved.config, [precision]), device, ())
    analyst = make_analyst(saved, saved.config.evaluation, device, dtype)
    return AnalysisSession(analyst, most_bytes=MOST_TREE)


def _new_game(rules: Rules, stones: str, handicap: tuple[int, ...], first: str) -> LiveGame:
    """Returns a game without moves. Raises InputError for stones without a liberty."""
    record = sgf.GameRecord(rules, [], first=first, handicap=list(handicap))
    if not handicap:
        record.setup = [list(map(int, stones[row : row + rules.size])) for row in range(0, rules.size**2, rules.size)]
    return LiveGame.of_record(record)


# The fields of requests


def _position(position: Any) -> tuple[Rules, Part, list[tuple[Colour, int]]]:
    """Returns the rules, the start and the moves of a request's position. Raises InputError where it is malformed."""
    if not isinstance(position, dict):
        raise InputError("a position must be an object with size, komi, start and moves")
    rules = Rules(**{field.name: position[field.name] for field in dataclasses.fields(Rules) if field.name in position})
    points, start, moves = rules.size**2, position.get("start") or {}, position.get("moves", [])
    if wrong := bounds.misfit({"start": start, "moves": moves}, {"start": dict, "moves": [(str, int)]}, "position"):
        raise InputError(wrong)
    start = {"stones": "0" * points, "handicap": [], "first": "b"} | {name: one for name, one in start.items() if one}
    if wrong := bounds.misfit(start, {"stones": str, "handicap": [int], "first": str}, "start"):
        raise InputError(wrong)
    if len(moves) > MOST_MOVES:
        raise InputError(f"the position has {len(moves)} moves; allowed are {MOST_MOVES} at most")
    stones, handicap = start["stones"], start["handicap"]
    colours = {start["first"], *(move[0] for move in moves)}
    if len(stones) != points or not set(stones) <= set("012") or not colours <= {"b", "w"}:
        raise InputError(f"stones must be {points} digits of 0, 1 and 2, colours b or w")
    if len(set(handicap)) < len(handicap) or not all(0 <= point < points for point in handicap):
        raise InputError(f"the handicap must be different points, 0 to {points - 1}")
    return rules, start, [(COLOURS[colour], whole("a move", action, 0, points)) for colour, action, *_ in moves]


def _plain(path: str) -> Path:
    """Returns the path of a file that the server has resolved. Raises InputError where it is no longer a plain file."""
    file = Path(path)
    if file.resolve() != file or not file.is_file():
        raise InputError(f"{file.name} is no plain file any more")
    return file


# Games


def read_game(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields a game file's tree: its main line, and variations as far as there is room; data: the file in base64."""
    try:
        data = base64.b64decode(request["data"], validate=True)
    except (TypeError, ValueError):
        raise InputError("sgf must be a file in base64") from None
    lines = sgf.variations_text(data, request["name"])
    main = next(lines)
    if len(main.moves) > MOST_MOVES:
        raise InputError(f"the game has {len(main.moves)} moves; shown are games of at most {MOST_MOVES}")
    tree, notes, work = [], list(main.notes), 0
    for number, record in enumerate(chain([main], lines)):
        work += len(record.moves)
        if number == MOST_LINES or (number and work > MOST_NODES):
            notes.append(f"the first {number} variations are shown")
            break
        if problem := _add_line(tree, record):
            notes.append(f"variation {number}: {problem}" if number else problem)
    if not tree:
        raise InputError(notes[-1])
    words = {name: getattr(main, name)[:2000] for name in ("black", "white", "result", "comment")}
    words |= {"date": main.date or "", "name": request["name"], "notes": [note[:300] for note in notes[:20]]}
    yield words | dataclasses.asdict(main.rules) | _board_words(main.rules.size) | {"nodes": tree}


def _add_line(nodes: list[Part], record: sgf.GameRecord) -> str | None:
    """Adds a line of play to a tree, a list of nodes with their parents' indices, up to its first illegal move. Returns
    why that move is illegal, None where all are legal. All lines begin with the same position."""
    states, problem = sgf.replay(record)
    if not nodes and states:
        start = {"stones": "" if record.handicap else _digits(states[0]), "handicap": record.handicap}
        nodes.append(_node(states[0]) | {"start": start | {"first": record.first}})
    edits, at, same = {edit.before for edit in record.edits}, 0, ("parent", "colour", "action", "stones")
    places = {tuple(node.get(name) for name in same): place for place, node in enumerate(nodes)}
    for number, (colour, action, state) in enumerate(zip(record.turns(), record.moves, states[1:], strict=False)):
        comment, winrate, score, visits = record.remarks[number] if number < len(record.remarks) else sgf.Remark()
        fields = {"winrate": winrate, "score": score, "visits": visits, "comment": comment and comment[:1000]}
        node = _node(state) | {"parent": at, "colour": colour, "action": action}
        node |= {name: value for name, value in fields.items() if value is not None}
        if number + 1 in edits:
            node["start"] = {"stones": node["stones"], "handicap": [], "first": node["next"]}
        at = places.get(tuple(node[name] for name in same), len(nodes))
        nodes += [node] if at == len(nodes) else []
    return problem


def _node(state: GameState) -> Part:
    """Returns the fields of a node that are drawn."""
    captures = [state.captures[colour] for colour in Colour]
    return {"stones": _digits(state), "next": LETTERS[state.to_play], "captures": captures}


def _digits(state: GameState) -> str:
    return "".join(str(colour) for row in state.stones() for colour in row)


def _board_words(size: int) -> Part:
    """Returns the fields of an empty board that are drawn: its star points and the letters of its columns."""
    return {"stars": picture.star_points(size), "columns": coords.GTP_COLUMNS[:size]}


def new_game(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the tree of a new game, with the size and rules of the network where the request names one."""
    size = None if request.get("size") is None else whole("size", request["size"], 1, 25)
    if request["networks"]:
        network = checkpoint.load(_plain(request["networks"][0]))
        if network.sizes is not None and size not in (None, *network.sizes):
            raise InputError(f"the network plays on {coords.listed(network.sizes)}, not on {size}")
        rules = network.config.game.rules(size or network.config.game.size)
    else:
        rules = Rules(size=size or 9)
    if request.get("komi") is not None:
        rules = dataclasses.replace(rules, komi=request["komi"])
    stones = whole("the handicap", request.get("handicap", 0), 0, 9)
    handicap = coords.fixed_handicap(rules.size, stones) if stones > 1 else []
    record = sgf.GameRecord(rules, [], first="w" if handicap else "b", handicap=handicap)
    _add_line(tree := [], record)
    yield dataclasses.asdict(rules) | _board_words(rules.size) | {"nodes": tree, "notes": []}


def play_move(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the position after the last move of a position, or the reason why it is illegal."""
    yield _node(cache.game(request["position"]).state)


def write_text(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields a game with its variations as SGF. lines: the positions at their ends, the main line first. left_out in
    the answer: the number of lines that begin with other stones, or exceed the limit of a file."""
    if bounds.misfit(lines := request["lines"], [dict], "lines") or not lines:
        raise InputError("lines must be a list of positions")
    first, *others = [_record(cache, request | {"position": line}) for line in lines[:MOST_LINES]]
    same = [record for record in others if record.start() == first.start() and record.rules == first.rules]
    yield {"sgf": sgf.to_text(first, same), "left_out": len(lines) - 1 - len(same)}


def save_game(cache: JobCache, request: Part) -> Iterator[Part]:
    """Writes a played game into the file that the server has chosen."""
    record = _record(cache, request)
    if not record.moves:
        raise InputError("nothing has been played yet, so there is no game to save")
    path = Path(request["path"])
    if path.parent.resolve() != path.parent:
        raise InputError("the folder for played games is a link, and nothing is written through links")
    sgf.write(runtime.make_directory(path.parent) / path.name, record)
    yield {"saved": path.name}


def _record(cache: JobCache, request: Part) -> sgf.GameRecord:
    """Returns the record of a request's position, with its names and result."""
    names = {name: str(request.get(name, name))[:80] for name in ("black", "white")}
    result = request.get("result") or sgf.UNKNOWN_RESULT
    if not isinstance(result, str) or not RESULT.fullmatch(result):
        raise InputError(f"the result is {quote(result)}; allowed are results such as B+3.5, W+R, 0 or ?")
    date = request.get("date", "")  # see `GameRecord`
    return cache.game(request["position"]).record(result=result, date=date and str(date)[:40], **names)


# Networks and searches


def think(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the evaluations of a position by up to two networks, then reports of their searches until each has its
    visits. `network` in a part is the network's place in the request."""
    game, began = cache.game(request["position"]), time.monotonic()
    visits = whole("visits", request.get("visits", 0), 0, MOST_VISITS)
    sessions = [cache.session(path, game, request.get("on_device")) for path in request["networks"][:2]]
    for place, session in enumerate(sessions):
        yield {"network": place, "name": session.analyst.name} | _evaluated(session.analyst, game) | cache.cost(began)
    if not visits:
        return
    for session in sessions:
        session.set_position(game)
    for place in _searching(sessions, visits, began):
        report = {} if place is None else {"network": place} | _searched(sessions[place].analysis(), game)
        yield report | cache.cost(began)


def _searching(sessions: list[AnalysisSession], visits: int, began: float) -> Iterator[int | None]:
    """Steps searches in turn until each has its visits; yields the place of one that is to report, None in between."""
    going, due = list(range(len(sessions))), [0.0] * len(sessions)
    while going:
        place = going.pop(0)
        session, until = sessions[place], time.monotonic() + SLICE_SECONDS
        while (left := visits - session.visits) > 0 and (done := session.step(left)) and time.monotonic() < until:
            pass
        goes_on = left > 0 and done and time.monotonic() < began + MOST_SECONDS
        going += [place] * bool(goes_on)
        is_due = not goes_on or time.monotonic() > due[place]
        due[place] = time.monotonic() + REPORT_SECONDS if is_due else due[place]
        yield place if is_due else None


def _evaluated(analyst: Analyst, game: LiveGame) -> Part:
    """Returns the fields of a network's evaluation of the present position, without a search."""
    evaluation, sign = analyst.evaluate(game.tensor(analyst.device)), game.to_play.sign
    prior = evaluation.prior[0].float().cpu().tolist()
    tints = [f"#{bytes(picture.heat_colour(picture.HEAT, min(1.0, share) ** 0.5)).hex()}" for share in prior]
    owned = [round(sign * one, 2) for one in evaluation.ownership[0].float().flatten().tolist()]
    winrate, score_black = (1 + sign * float(evaluation.value[0])) / 2, sign * float(evaluation.score[0])
    boards = {"policy": [round(share, 4) for share in prior], "tints": tints, "ownership": owned}
    return boards | {"winrate": winrate, "score": score_black}


def _searched(analysis: Analysis, game: LiveGame) -> Part:
    """Returns the fields of a search; the candidates' winrates and scores are the mover's."""
    names = ("action", "visits", "winrate", "score", "prior", "lcb")
    moves, (winrate, score) = analysis.candidates[:SHOWN_CANDIDATES], analysis.of_black(game.to_play)
    candidates = [{name: getattr(one, name) for name in names} | {"line": one.pv} for one in moves]
    for one in candidates:
        one["tint"] = f"#{bytes(picture.loss_colour(moves[0].winrate - one['winrate'])).hex()}"
    return {"visits": analysis.visits, "searched": {"winrate": winrate, "score": score}, "candidates": candidates}


def over_time(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the evaluation of a position by each of many networks, without a search."""
    game, began = cache.game(request["position"]), time.monotonic()
    for place, path in enumerate(request["networks"][:MOST_NETWORKS]):
        try:
            analyst = cache.session(path, game).analyst
        except InputError as error:  # one of many may be pruned, or of another size
            yield {"network": place, "error": str(error)}
            continue
        fields = _evaluated(analyst, game)
        top = sorted(enumerate(fields["policy"]), key=lambda move: -move[1])[:3]
        yield {"network": place, "name": analyst.name, "moves": top} | fields | cache.cost(began)


def curve(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields a network's winrates and scores of all positions of a line, some at a time."""
    game, began = cache.game(request["position"]), time.monotonic()
    analyst, start = cache.session(request["networks"][0], game).analyst, 0
    for winrates, scores in analyst.evaluate_game(game.record(), len(game.moves), quick=True):
        yield {"name": analyst.name, "from": start, "winrates": winrates, "scores": scores} | cache.cost(began)
        start += len(winrates)


def planes(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the input of a network for a position: its planes, and its inputs of the whole position."""
    game, saved = cache.game(request["position"]), checkpoint.load(_plain(request["networks"][0]))
    encoder, state = saved.encoder(), game.tensor()
    values = encoder.planes(state)[0].flatten(1)
    numbers = zip(encoder.global_names, encoder.globals(state)[0].tolist(), strict=True)
    rounded, inputs = (values * 1000).round().div(1000).tolist(), [[name, round(one, 3)] for name, one in numbers]
    yield {"encoder": encoder.name, "names": list(encoder.plane_names), "planes": rounded, "globals": inputs}


# Play


def choose_move(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the visits of a network's search so far, at last its move: an action, or None where it resigns."""
    game, began = cache.game(request["position"]), time.monotonic()
    visits = whole("visits", request["visits"], 1, MOST_VISITS)
    session = cache.session(request["networks"][0], game, request.get("on_device"))
    session.set_position(game)
    if session.visits > visits:  # of an analysis: more than were chosen for the opponent
        session.clear()
        session.set_position(game)
    for place in _searching([session], visits, began):
        if place is not None:
            yield {"visits": session.visits} | cache.cost(began)
    analysis = session.analysis()
    action = decide(game, game.to_play, analysis, MoveChoiceSettings())
    yield {"action": action} | _searched(analysis, game) | cache.cost(began)


def score(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the score of a position without its dead stones. Dead are the points of `dead`, after the string at
    `toggle` has changed sides between dead and alive; without `dead` the network and searches decide."""
    game = cache.game(request["position"])
    if (dead := request.get("dead")) is None:
        judge = Judge(cache.session(request["networks"][0], game).analyst)
        stones = set(judge(game, time.monotonic() + JUDGE_SECONDS, is_over=True).dead)
    else:
        points = list_of("dead", dead, "points")[: game.size**2]
        stones = {whole("a dead stone", point, 0, game.size**2 - 1) for point in points}
        if request.get("toggle") is not None:
            at = whole("toggle", request["toggle"], 0, game.size**2 - 1)
            string = game.state.board.string_at(Point(*divmod(at, game.size)))
            stones ^= indices(string.stones, game.size) if string else set()
    rows = torch.tensor([game.state.stones()], dtype=torch.int8)
    rows.view(-1)[list(stones)] = 0
    owners = scoring.area_ownership_black(rows).flatten().tolist()
    counted = game.score_black(stones)
    yield {"dead": sorted(stones), "score": counted, "result": sgf.result_text(counted), "ownership": owners}


# Runs


def status(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the newest numbers of a run, its alarms, ratings and matches. metrics, pool: their files, or None."""
    from zerogo.arena import pool  # these two imports take a second, for which a board need not wait
    from zerogo.pipeline.sanity_checks import CHECKS

    latest, rates = _metrics(request["metrics"])
    step = latest.get("step") or 0
    checks = {name: one for name, one in CHECKS.items() if f"sanity/{name}" in latest and step >= one.warm_up}
    alarms = [[name, latest[f"sanity/{name}"], one.low, one.high, one.points_to] for name, one in checks.items()]
    path = request["pool"] and _plain(request["pool"])
    meetings = pool.read(path) if path and path.stat().st_size <= MOST_POOL_BYTES else []
    names, sizes = {name for one in meetings for name in one[:2]}, sorted({one.size for one in meetings})
    ratings = {size: [[row[0], *map(round, row[1:])] for row in pool.rate(meetings, size, names)] for size in sizes}
    matches = [[one.size, one.player, one.opponent, one.points, one.games] for one in meetings]
    yield {"latest": latest, "rates": rates, "alarms": alarms, "ratings": ratings, "matches": matches}


def _metrics(path: str | None) -> tuple[Part, list[list]]:
    """Returns the newest value of each number, None where it is not finite, and its (step, minutes, games a second)."""
    latest, rates, lines = {}, [], []
    if path:
        with _plain(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - METRICS_BYTES))
            lines = file.read(METRICS_BYTES).splitlines()
    for line in lines:
        with suppress(ValueError, AttributeError, KeyError, TypeError):  # the first may be cut, the last unfinished
            numbers = json.loads(line)
            numbers["step"] = max(numbers["step"], latest.get("step", 0))  # matches are of an earlier step
            latest |= {name: value for name, value in numbers.items() if isinstance(value, (int, float, NoneType))}
            rates.append([numbers["step"], numbers.get("time/minutes"), numbers["selfplay/games_per_s"]])
    return latest, [row for row in rates if row[2] is not None]


def openings(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields the openings of games up to symmetry, as a tree: count, wins of Black, move, and children, the most
    frequent first. games: [moves as SGF letters, result's letter] each."""
    size = whole("size", request["size"], 1, 25)
    table = symmetry.action_table(size).tolist()
    lines = []
    for letters, result in request["games"]:
        with suppress(InputError):
            moves = [coords.from_sgf(one, size) for one in letters.split(",")] if letters else []
            lines.append((min([turned[move] for move in moves] for turned in table), result))
    budget = [SHOWN_OPENINGS]
    yield {"size": size, "games": len(lines)} | _branch(lines, 0, budget) | _board_words(size)


def _branch(lines: list[tuple[list[int], str]], depth: int, budget: list[int]) -> Part:
    """Returns the part of the openings' tree that some lines share."""
    wins = sum(result == "B" for _, result in lines) + sum(result == "0" for _, result in lines) / 2
    moves = Counter(line[depth] for line, _ in lines if len(line) > depth)
    children = []
    for move, _ in moves.most_common():
        if budget[0] <= 0:
            break
        budget[0] -= 1
        below = [entry for entry in lines if len(entry[0]) > depth and entry[0][depth] == move]
        children.append({"action": move} | _branch(below, depth + 1, budget))
    return {"count": len(lines), "black": wins, "children": children}


def in_flight(cache: JobCache, request: Part) -> Iterator[Part]:
    """Yields boards of the unfinished games in a run's newest snapshot."""
    path = _plain(request["path"])
    if path.stat().st_size > MAX_SNAPSHOT_BYTES:
        raise InputError("the newest snapshot is larger than 1 GiB; its games are not shown")
    if (unfinished := checkpoint.load(path).run.get("games")) is None:
        raise InputError("this run plays no games itself, so none are under way here")
    states = unfinished["states"]
    black, white = (flood.unpack_rows(states[name][:SHOWN_GAMES]) for name in ("black", "white"))
    sizes, plies, games = states["rules"]["size"].tolist(), states["ply"].tolist(), []
    for size, ply, stones in zip(sizes, plies, black.int() + 2 * white.int(), strict=False):
        digits = "".join(map(str, stones[:size, :size].flatten().tolist()))
        games.append({"size": size, "ply": ply, "stones": digits} | _board_words(size))
    yield {"games": games, "when": int(path.stat().st_mtime), "total": len(states["ply"])}


LONG = (think, over_time, curve, choose_move, score, planes, in_flight)
SHORT = (read_game, new_game, play_move, write_text, save_game, status, openings)
JOBS: dict[str, Callable[[JobCache, Part], Iterator[Part]]] = {job.__name__: job for job in LONG + SHORT}


class JobLoop:
    """Runs jobs. control: the socket over which the server passes a connection for each request."""

    def __init__(self, cache: JobCache, control: socket.socket) -> None:
        self.cache, self.control = cache, control
        # The jobs with their connections and clients; nobody waits for the first one.
        self._long: deque[tuple[Iterator, Connection | None, str]] = deque([(self._begin(), None, "")])

    def run(self) -> None:
        """Runs jobs until no request has come for `IDLE_SECONDS`. Raises EOFError where the server has ended."""
        while self._long or wait([self.control], IDLE_SECONDS):
            if not self._long or wait([self.control], 0):
                self._take()
            elif not self._step(*self._long[0]):
                self._long.popleft()
                self.cache.cpu = time.process_time()

    def _begin(self) -> Iterator:
        """Compiles loops at the usual priority, while nobody waits for a board, and then lowers the priority."""
        yield from self.cache.warm()
        with suppress(OSError):
            os.nice(NICENESS)

    def _take(self) -> None:
        """Takes in the next request, which ends an earlier one of the same client."""
        sign, handles, *_ = socket.recv_fds(self.control, 1, 1)
        if not sign:
            raise EOFError
        with socket.socket(fileno=os.dup(handles[0])) as stream:  # one that reads nothing must not stop the others
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, SEND_TIMEOUT)
        connection = Connection(handles[0])
        with suppress(EOFError, OSError):  # it may be cancelled already
            request = json.loads(connection.recv_bytes())
            for entry in [entry for entry in self._long if entry[2] == request["client"] != ""]:
                if entry is self._long[0]:
                    self.cache.cpu = time.process_time()
                self._long.remove(entry)
                _answer(entry[1], {"done": True})
            job = JOBS[request["job"]]
            entry = job(self.cache, request["fields"]), connection, request["client"]
            if job in LONG:
                self._long.append(entry)
            else:
                while self._step(*entry):
                    pass

    def _step(self, work: Iterator, connection: Connection | None, client: str) -> bool:
        """Sends the next part of a job, or its end; returns whether there is more to do."""
        if connection is not None and connection.poll():
            return False  # the server sends nothing more, so it has closed its end
        answer = {"done": True}
        try:
            if (part := next(work, None)) is not None:
                answer = {"part": part}
        except InputError as error:
            answer = {"error": str(error)}
        except KeyError as error:
            answer = {"error": f"the request lacks {error}"}
        except Exception as error:  # one request must not end the others
            print(f"the Go tab: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            answer = {"error": f"this could not be done ({type(error).__name__})"}
        _answer(connection, answer)
        return "part" in answer and not (connection is not None and connection.closed)


def _answer(connection: Connection | None, fields: dict[str, Any]) -> None:
    """Sends an answer to whoever waits for it, and closes the connection after the last one."""
    try:
        text = json.dumps(fields, allow_nan=False)
    except ValueError:
        text = json.dumps({"error": "the result has NaN or infinite numbers"})
    if connection is not None:
        try:
            connection.send_bytes(text.encode())
        except OSError:
            connection.close()
        if "part" not in fields:
            connection.close()


if __name__ == "__main__":
    with suppress(EOFError, ConnectionError):
        JobLoop(JobCache(), socket.socket(fileno=int(sys.argv[1]))).run()
