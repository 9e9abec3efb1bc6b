"""The loop that answers requests, and all commands but those that analyse and show moves."""

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from zerogo import __version__, sgf
from zerogo.errors import InputError, quote, shorten_path
from zerogo.game import Colour
from zerogo.gtp import analyze, protocol  # noqa: F401 (the commands of `analyze` join the table)
from zerogo.gtp.clock import COMMAND_KINDS, KATA_KINDS, MAX_NUMBER, MAX_SECONDS, read_time, usage
from zerogo.gtp.engine import ANY, COMMANDS, NAME, TREE_BYTES, Command, GtpEngine, answer, warn_of_bug
from zerogo.gtp.protocol import BAD_VERTEX, colour, integer, moves, real, truth, vertex
from zerogo.players import warning_of_komi
from zerogo.players.katago import model_fields, why_refused
from zerogo.players.live import LiveGame
from zerogo.players.session import AnalysisSession
from zerogo.rules import MOST_KOMI, Rules, coords, rulesets
from zerogo.sgf import result_text
from zerogo.show.picture import board_text
from zerogo.system import bounds
from zerogo.system.runtime import TOO_LONG

# lz-analyze follows Leela Zero's protocol since 0.16. Lizzie takes the number before the first space for Leela Zero's
# version and warns if its second part is below 15. So zerogo's own version follows it.
VERSION = f"0.17 ({NAME} {__version__})"
QUIT = "quit"
COLOUR_NAMES = {0: "empty", 1: "black", 2: "white"}
KGS_RULES = ("japanese", "chinese", "aga", "new_zealand")
NO_LIMIT, NO_CAP = 1e20, 10**9  # seconds, as in KataGo; visits
KATA_SETTINGS = ("allowResignation", "lagBuffer", "maxTime", "maxVisits", "ponderingEnabled", "resignThreshold")


def serve(engine: GtpEngine, source: protocol.Input, write: Callable[[str], None], log: Callable[[str], None]) -> None:
    """Answers every line until `quit` or the end of the input. write: writes and flushes. log: gets each line."""
    engine.interrupted = source.asks_to_stop
    while (line := source.take()) is not None:
        log(line)
        if line == TOO_LONG.decode():
            protocol.Reply("", write, source).send(line, "?")
            continue
        if request := protocol.parse(line):
            answer(engine, request, source, write)
            if request.command == QUIT:
                return
        try:
            engine.ponder(source.is_waiting)
        except Exception as error:  # no game is lost by it
            warn_of_bug(engine, "pondering", error)
            engine.stopped = engine.position


def _offered_names(engine: GtpEngine) -> list[str]:
    return sorted(name for name, command in COMMANDS.items() if command.is_offered(engine) and command.is_listed)


def _stones(engine: GtpEngine) -> list[int]:
    return sum(engine.game.state.stones(), [])


def _legal(engine: GtpEngine, player: Colour) -> list[int]:
    return [point for point in range(engine.size**2) if engine.game.why_illegal(player, point) is None]


def _number_of_moves(text: str) -> int:
    return integer(text, "number of moves", 0, MAX_NUMBER)


# Commands of one expression, and commands without an effect. GoGui sends `# interrupt` to engines that have
# `gogui-interrupt`


Command("protocol_version")(lambda engine: "2")
Command("name")(lambda engine: NAME)
Command("version")(lambda engine: VERSION)
Command("known_command", "NAME", 1)(lambda engine, name: str(name in _offered_names(engine)).lower())
Command("list_commands")(lambda engine: "\n".join(_offered_names(engine)))
Command("clear_board")(lambda engine: engine.begin_game(LiveGame(engine.game.rules)))
Command("query_boardsize")(lambda engine: str(engine.size))
Command("get_komi")(lambda engine: f"{engine.game.rules.komi:g}")
Command("captures", "COLOUR", 1)(lambda engine, player: str(engine.game.state.captures[colour(player)]))
for _name in COMMAND_KINDS:
    Command(_name, usage(_name), 0, ANY)(
        lambda engine, *words, command=_name: engine.clock.restart(read_time(command, words))
    )
Command("kata-list_time_settings")(lambda engine: " ".join(KATA_KINDS))
Command("kata-list-params")(lambda engine: " ".join(KATA_SETTINGS))
Command("kata-get-params")(lambda engine: json.dumps(parameters(engine)))
Command("kata-get-rules")(lambda engine: json.dumps(rulesets.to_json(engine.game.rules), separators=(",", ":")))
Command("is_legal", "COLOUR VERTEX", 2)(
    lambda engine, player, place: str(int(engine.game.why_illegal(colour(player), vertex(place, engine.size)) is None))
)
Command("all_legal", "COLOUR", 1)(lambda engine, player: coords.vertices(_legal(engine, colour(player)), engine.size))
Command("color", "VERTEX", 1)(
    lambda engine, place: COLOUR_NAMES[_stones(engine)[vertex(place, engine.size, may_pass=False)]]
)
Command("final_score")(lambda engine: result_text(engine.score_black()))  # B+3.5, W+0.5, or 0 for a draw
Command("stop")(lambda engine: setattr(engine, "stopped", engine.position))
Command("cgos-opponent_name", "NAME", 0, ANY)(lambda engine, *words: setattr(engine, "opponent", " ".join(words)))
Command("gogui-setup_player", "COLOUR", 1)(
    lambda engine, player: engine.game.set_up(engine.game.state.stones(), colour(player))
)
Command("kata-get-models", needs_search=True)(
    lambda engine: json.dumps([model_fields(engine.name, engine.analyst.search.settings.leaves)])
)
for _name in ("cputime", "gomill-cpu_time"):
    Command(_name)(lambda engine: f"{time.process_time():.2f}")
for _name in ("undo", "gg-undo"):
    Command(_name, "[NUMBER]", 0, 1)(lambda engine, number="1": engine.game.undo(_number_of_moves(number)))
for _name in (QUIT, "kgs-game_over", "cgos-opponent_rating", "cgos-gameover", "gogui-interrupt"):
    Command(_name)(lambda engine: None)


@Command("clear_cache")
def _clear_cache(engine: GtpEngine) -> None:
    engine.judge.clear()
    if engine.session:
        engine.session.clear()


@Command("boardsize", "N", 1, 2)
@Command("rectangular_boardsize", "WIDTH HEIGHT", 2)
def boardsize(engine: GtpEngine, side: str, same: str | None = None) -> None:
    """Clears the board and sets its size, given once or as equal width and height."""
    if same is None and side.count(":") == 1:
        side, same = side.split(":")
    if same not in (None, side):
        raise InputError(f"the sides are {quote(f'{side} {same}')}; zerogo plays on square boards only")
    size = int(side) if re.fullmatch("[0-9]{1,3}", side) else 0
    engine.require_size(size)
    engine.begin_game(LiveGame(replace(engine.game.rules, size=size)))
    engine.warn(warning_of_komi(engine.analyst, engine.game.rules))


@Command("komi", "POINTS", 1)
def komi(engine: GtpEngine, points: str) -> None:
    """Sets komi at any time, also in the middle of a game; `boardsize` and `clear_board` leave it."""
    engine.game.change_rules(komi=real(points, "komi", -MOST_KOMI, MOST_KOMI))
    engine.default_rules = replace(engine.default_rules, komi=engine.game.rules.komi)
    engine.warn(warning_of_komi(engine.analyst, engine.game.rules))


@Command("play", "COLOUR VERTEX", 2)
@Command("gogui-play_sequence", "COLOUR VERTEX…", 0, ANY)
def play_sequence(engine: GtpEngine, *sequence: str) -> None:
    """Plays COLOUR VERTEX pairs, all or none. Clients know only the refusal "illegal move", so the reason is logged."""
    game = engine.game.copy()
    for stone, action in moves(sequence, engine.size):
        player = Colour(stone)
        if reason := game.why_illegal(player, action, allows_repetition=True):
            engine.warn(f"{player.name.lower()} {coords.to_gtp(action, engine.size)} is illegal: {reason}")
            raise InputError("illegal move")
        game.play(player, action, allows_repetition=True)
    engine.game = game


@Command("showboard")
def showboard(engine: GtpEngine) -> str:
    """Returns the board for people, and below it whose turn it is, the captures and the rules."""
    game, rules = engine.game, engine.game.rules
    black, white = game.state.captures.values()
    named = f"{engine.rules_name}: " if engine.rules_name else ""
    rows = [
        "",
        board_text(game.state.stones(), game.last_action),
        f"move {len(game.moves) + 1}, {game.to_play.name.lower()} to play; black has captured {black}, white {white}",
        f"komi {rules.komi:g}; {named}{rulesets.described(rules)}",
        rulesets.deviations(engine.rules_name),
    ]
    return "\n".join(rows)


@Command("list_stones", "COLOUR", 1)
def list_stones(engine: GtpEngine, player: str) -> str:
    """Returns the points of a side's stones."""
    owner = colour(player).value
    return coords.vertices((at for at, stone in enumerate(_stones(engine)) if stone == owner), engine.size)


@Command("last_move")
def last_move(engine: GtpEngine) -> str:
    """Returns colour and vertex of the last move."""
    if not engine.game.moves:
        raise InputError("no previous move known")
    return move_history(engine).split("\n")[0]


@Command("move_history")
def move_history(engine: GtpEngine) -> str:
    """Returns the moves, the last one first, as GNU Go does."""
    played = reversed(engine.game.moves)
    return "\n".join(f"{player.name.lower()} {coords.to_gtp(action, engine.size)}" for player, action in played)


# Positions that no moves lead to


@Command("fixed_handicap", "NUMBER, or place_free_handicap NUMBER", 1)
def fixed_handicap(engine: GtpEngine, number: str) -> str:
    """Puts NUMBER stones on GTP's fixed points and returns these."""
    stones = integer(number, "handicap", 2, engine.size**2 - 1)
    return _put_handicap(engine, coords.fixed_handicap(engine.size, stones))


@Command("place_free_handicap", "NUMBER", 1)
def place_free_handicap(engine: GtpEngine, number: str) -> str:
    """Puts NUMBER stones on points of the engine's choice, and returns the points.

    The fixed points come first; each further stone stands as far from the edge as the third line (the fourth from 13x13
    on) where that is not next to another one, and there as far as possible from all others."""
    size, stones = engine.size, integer(number, "handicap", 2, engine.size**2 - 1)
    rows, columns = np.indices((size, size))
    line = np.minimum.reduce([rows, columns, size - 1 - rows, size - 1 - columns]).clip(max=3 if size >= 13 else 2)
    nearest = np.full((size, size), 9_999)  # square of the distance of each point from the nearest stone
    points = coords.fixed_handicap(size, min(stones, coords.max_fixed_handicap(size)))
    for index in range(stones):
        if index == len(points):
            merit = 10_000 * np.where(nearest > 1, line, -1) + nearest  # least where a stone is; the first of equals
            points.append(int(merit.argmax()))
        row, column = divmod(points[index], size)
        nearest = np.minimum(nearest, (rows - row) ** 2 + (columns - column) ** 2)
    return _put_handicap(engine, points)


@Command("set_free_handicap", "VERTEX…", 2, ANY)
def set_free_handicap(engine: GtpEngine, *places: str) -> None:
    """Puts stones on the given points: two or more, different ones, and one point left empty."""
    _put_handicap(engine, [vertex(place, engine.size, may_pass=False) for place in places])


def _put_handicap(engine: GtpEngine, points: list[int]) -> str:
    engine.game.place_handicap(points)
    return coords.vertices(points, engine.size)


@Command("gogui-setup", "COLOUR VERTEX…", 0, ANY)
def gogui_setup(engine: GtpEngine, *stones: str) -> None:
    """Changes points of the position; `e` removes a stone. Earlier moves can't be taken back afterwards."""
    changes = moves(stones, engine.size, {"e": 0, "empty": 0})
    _set_up(engine, engine.game.state.stones(), changes, engine.game.to_play)


@Command("set_position", "COLOUR VERTEX…", 0, ANY)
def set_position(engine: GtpEngine, *stones: str) -> None:
    """Puts stones on an empty board, as KataGo does; Black is to move."""
    changes = moves(stones, engine.size)
    if len({action for _, action in changes}) < len(changes):
        raise InputError("repeated vertex")
    _set_up(engine, [[0] * engine.size for _ in range(engine.size)], changes, Colour.BLACK)


def _set_up(engine: GtpEngine, rows: list[list[int]], changes: list[tuple[int, int]], to_play: Colour) -> None:
    """Begins from these rows after changes, (colour, point). Raises InputError for a pass among them."""
    for stone, action in changes:
        if action == engine.size**2:
            raise InputError(BAD_VERTEX)
        rows[action // engine.size][action % engine.size] = stone
    engine.game.set_up(rows, to_play)


# Rules. Deviations from a ruleset are reported on stderr and below `showboard`


@Command("kata-set-rules", "NAME, or a JSON object as from kata-get-rules", 1, ANY)
def kata_set_rules(engine: GtpEngine, *words: str) -> None:
    """Takes a ruleset's name or KataGo's object; komi stays."""
    text = " ".join(words)
    rules = rulesets.parse(text, engine.size, engine.game.rules.komi)
    _change_rules(engine, rules, rulesets.canonical(text))


@Command("kata-set-rule", "FIELD VALUE", 2)
def kata_set_rule(engine: GtpEngine, key: str, text: str) -> None:
    """Changes one field of `kata-get-rules`."""
    if key == "komi":
        raise InputError("komi is not one of the rules; write: komi POINTS")
    value = {"true": True, "false": False}.get(text.lower(), text.upper())
    fields = rulesets.to_json(engine.game.rules) | {key: value}
    _change_rules(engine, rulesets.from_json(fields, engine.size, engine.game.rules.komi), "")


@Command("kgs-rules", " | ".join(KGS_RULES), 1)
def kgs_rules(engine: GtpEngine, word: str) -> None:
    """Takes one of KGS's four rulesets; komi stays."""
    if word.lower() not in KGS_RULES:
        raise InputError(f"there are no KGS rules {quote(word)}; allowed are {', '.join(KGS_RULES)}")
    name = "chinese-kgs" if word.lower() == "chinese" else rulesets.canonical(word)
    _change_rules(engine, rulesets.named(name, engine.size, engine.game.rules.komi), name)


def _change_rules(engine: GtpEngine, rules: Rules, name: str) -> None:
    """Changes the rules except size and komi. Warns how zerogo's rules deviate from the named ones."""
    engine.game.change_rules(superko=rules.superko, suicide=rules.suicide, scoring=rules.scoring)
    engine.default_rules, engine.rules_name = replace(rules, komi=engine.default_rules.komi), name
    engine.default_rules_name = name
    engine.warn(rulesets.deviations(name))


@Command("time_settings", "MAIN PERIOD MOVES", 3)
def time_settings(engine: GtpEngine, main: str, period: str, number: str) -> None:
    """Sets both clocks: seconds of main time, seconds of a period, and moves in it; `0 1 0` is no limit."""
    seconds = real(main, "main time", 0, MAX_SECONDS), real(period, "period", 0, MAX_SECONDS)
    engine.clock.set_gtp(*seconds, _number_of_moves(number))


@Command("time_left", "COLOUR SECONDS MOVES", 3)
def time_left(engine: GtpEngine, player: str, seconds: str, number: str) -> None:
    """Sets a clock to the controller's; the number of moves or Japanese periods is 0 in main time."""
    whose, left = colour(player), real(seconds, "time", -MAX_SECONDS, MAX_SECONDS)
    engine.clock.report(whose, left, _number_of_moves(number))


# Moves that the engine chooses; those with lines of analysis are in `analyze`


Command("genmove", "COLOUR", 1)(lambda engine, player: engine.genmove(colour(player)))
# Passes only when no dead stone of the opponent is left, also where both sides have passed.
Command("kgs-genmove_cleanup", "COLOUR", 1)(lambda engine, player: engine.genmove(colour(player), cleanup=True))
Command("kata-search", "COLOUR", 1)(lambda engine, player: engine.genmove(colour(player), plays=False))
Command("reg_genmove", "COLOUR", 1)(lambda engine, player: engine.genmove(colour(player), plays=False, timed=False))
# The next line, even an empty one, cancels it.
Command("kata-search_cancellable", "COLOUR", 1, streams=True)(
    lambda engine, reply, player: engine.genmove(colour(player), plays=False, is_cancelled=reply.interrupted)
)


# The end of a game, and files


@Command("final_status_list", "alive | dead | seki", 1)
def final_status_list(engine: GtpEngine, word: str) -> str:
    """Returns the strings that are dead, alive or in seki, one a line."""
    if word.lower() not in ("alive", "dead", "seki"):
        raise InputError("invalid status")
    (dead, seki), size = engine.verdict(), engine.size
    living = set(range(size * size)) - dead
    points = {"dead": dead, "seki": living & seki, "alive": living - seki}[word.lower()]
    strings = [sorted(coords.point(*at, size) for at in string.stones) for string in engine.game.state.board.strings()]
    return "\n".join(coords.vertices(row, size) for row in sorted(strings) if row[0] in points)


@Command("loadsgf", "FILE [MOVE]", 1, ANY)
def loadsgf(engine: GtpEngine, *arguments: str) -> None:
    """Continues the main line of a file, from its end or from before a move. Rules and komi are the file's; where it
    has none, those of the command line or of the last command that set them. Raises InputError for an illegal move."""
    words, before = list(arguments), sys.maxsize
    if len(words) > 1 and words[-1].isdigit():
        before = integer(words.pop(), "move", 1, MAX_NUMBER) - 1
    path = engine.file(" ".join(words))
    record = sgf.read(path, engine.default_rules)
    engine.require_size(record.rules.size)
    rules = record.rules
    record.rules = replace(rules, superko="simple", suicide=True)  # the game may have been played by any
    try:
        game = LiveGame.of_record(record, min(before, len(record.moves)))
    except InputError as error:
        raise InputError(f"{shorten_path(path)}: {error}") from None
    game.change_rules(superko=rules.superko, suicide=rules.suicide)
    engine.begin_game(game)
    engine.rules_name = engine.default_rules_name
    if record.has_rules:
        engine.rules_name = "japanese" if rules.scoring == "territory" else ""
    engine.warn("\n".join([*record.notes, warning_of_komi(engine.analyst, rules)]))


@Command("printsgf", "[FILE]", 0, ANY)
def printsgf(engine: GtpEngine, *words: str) -> str | None:
    """Returns the game as SGF, or writes it into the file that is named, which must be new or a game record; with the
    sides and the result, if known."""
    player, names, path = engine.own_colour, {}, " ".join(words)
    if player is not None:
        names = {player: f"{NAME} {engine.name}", player.other: engine.opponent}
    black, white = names.get(Colour.BLACK) or "Black", names.get(Colour.WHITE) or "White"
    record = engine.record(black=black, white=white)
    return sgf.to_text(record) if path in ("", "-") else sgf.write(engine.file(path), record)


# Settings that may be changed while the engine runs, under the names that KataGo gave them


def parameters(engine: GtpEngine) -> dict[str, bool | int | float]:
    """Returns the values of KATA_SETTINGS."""
    options = engine.options
    return {
        "allowResignation": options.resign,
        "lagBuffer": engine.clock.lag,
        "maxTime": options.most_seconds or NO_LIMIT,
        "maxVisits": options.most_simulations or (NO_CAP if engine.has_clock else options.simulations),
        "ponderingEnabled": options.ponder,
        "resignThreshold": round(2 * options.resign_winrate - 1, 6),  # KataGo's is a value from -1 to 1
    }


@Command("kata-get-param", "NAME", 1)
def kata_get_param(engine: GtpEngine, name: str) -> str:
    """Returns the value of a setting."""
    if name not in KATA_SETTINGS:
        why = why_refused("param", name, f"there is no parameter {quote(name)}")
        raise InputError(f"{why}; allowed are {', '.join(KATA_SETTINGS)}")
    return json.dumps(parameters(engine)[name])


@Command("kata-set-param", "NAME VALUE", 2)
def kata_set_param(engine: GtpEngine, name: str, text: str) -> None:
    """Changes a setting; maxTime is seconds, resignThreshold a value from -1 to 1."""
    kata_get_param(engine, name)  # refuses unknown names
    options = engine.options
    if name == "allowResignation":
        options.resign = truth(text, name)
    elif name == "ponderingEnabled":
        options.ponder = truth(text, name)
    elif name == "lagBuffer":
        engine.clock.lag = real(text, name, 0, 3600)
    elif name == "maxTime":
        seconds = real(text, name, 0.001, NO_LIMIT)
        options.most_seconds = None if seconds == NO_LIMIT else seconds
    elif name == "maxVisits":
        options.simulations = integer(text, name, 1, NO_CAP)
        options.most_simulations = None if options.simulations == NO_CAP else options.simulations
    else:
        options.resign_winrate = (real(text, name, -1, 1) + 1) / 2


@Command("zerogo-param", "[NAME VALUE]", 0, 2, needs_search=True)
def param(engine: GtpEngine, name: str = "", text: str = "") -> str | None:
    """Returns the settings as GoGui's dialog wants them, or changes one."""
    if name:
        return kata_set_param(engine, name, text)
    rows = [
        f"[bool] {name} {value:d}" if isinstance(value, bool) else f"[string] {name} {json.dumps(value)}"
        for name, value in parameters(engine).items()
    ]
    return "\n".join(["", *rows])


@Command("kata-set-params", "a JSON object as from kata-get-params", 1, ANY)
def kata_set_params(engine: GtpEngine, *words: str) -> None:
    """Changes several settings by a JSON object, all or none."""
    try:
        parsed = bounds.parse_json(" ".join(words))
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise InputError('the parameters must be a JSON object such as {"maxVisits":100}')
    before, lag = vars(engine.options).copy(), engine.clock.lag
    try:
        for name, value in parsed.items():
            kata_set_param(engine, name, value if isinstance(value, str) else json.dumps(value))
    except InputError:
        vars(engine.options).update(before)
        engine.clock.lag = lag
        raise


@Command("kata-benchmark", "VISITS", 1, needs_search=True)
def kata_benchmark(engine: GtpEngine, number: str) -> str:
    """Searches the position from a fresh tree up to VISITS visits, fewer if the tree gets full; returns the speed."""
    visits = integer(number, "visits", 2, 10**6)
    session = AnalysisSession(engine.analyst, seed=engine.options.seed, most_bytes=TREE_BYTES)
    session.set_position(engine.game)
    started = engine.now()
    done = session.run(visits - 1, engine.interrupted)
    seconds = max(engine.now() - started, 1e-9)
    return f"{done + 1} visits in {seconds:.3f} s, {done / seconds:.1f} a second"


@Command("gogui-title")
def gogui_title(engine: GtpEngine) -> str:
    """Returns a title for a window."""
    rules = f", {engine.rules_name} rules" if engine.rules_name else ""
    return f"{NAME} {engine.name}, {engine.size}x{engine.size}, komi {engine.game.rules.komi:g}{rules}"


@Command("kgs-chat", "game | private NAME TEXT", 2, ANY)
def chat(engine: GtpEngine, *_: str) -> str:
    """Returns an answer to somebody on KGS: who this is, and the winrate before its last move if it has searched."""
    text = f"I am {NAME} {engine.name}, a program that learned from its own games."
    if engine.winrate_black is None:
        return text
    black = 100 * engine.winrate_black
    return f"{text} Before my last move I gave Black {black:.0f} % and White {100 - black:.0f} %."
