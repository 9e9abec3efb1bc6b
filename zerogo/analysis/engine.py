"""The engine behind KataGo's analysis protocol: it queues the positions of queries, searches many together, replies."""

import hashlib
import heapq
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

import zerogo
from zerogo.analysis.batch import BatchKind, PositionResult, SearchBatch, SearchTask, power_of_two
from zerogo.analysis.query import AnalysisSettings, Query, QueryError, at_field, list_of, parse, quote_json, whole
from zerogo.board import BLACK
from zerogo.board.flood import host_read_is_free
from zerogo.board.symmetry import NUM_SYMMETRIES, transform_planes
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players import katago, warning_of_komi
from zerogo.players.analyst import Analyst
from zerogo.players.live import LiveGame
from zerogo.rules import Rules, coords
from zerogo.sgf import GameRecord
from zerogo.sgf.record import COLOURS
from zerogo.system import bounds, runtime

FIRST_WIDTH = 4  # positions that are searched together before the first reply
# Board points that a network evaluates at a time; a layer of 96 channels then takes 800 MB in float32.
MOST_POINTS = 2**21
READ_POINTS = 2**15  # board points of the positions that are read at a time; up to 16 moves of each are evaluated
MOST_GAMES = 8  # games of earlier queries that are kept with all their positions: some megabytes each on 19x19
# Limits of a line. A query for every turn of a game of 1000 moves has 20,000 bytes and 5,000 values. The parsed line
# takes up to 8 bytes of memory for each of its bytes, and 150 for each value.
MOST_QUERY_BYTES, MOST_QUERY_VALUES = 2**18, 15_000
ACTIONS = ("query_version", "query_models", "clear_cache", "terminate", "terminate_all")


@dataclass(eq=False)
class AnalysisEngine:
    """Answers lines of KataGo's analysis protocol.

    write: called with each reply, by default prints it. settings: defaults of a query. positions: the most of one kind
    that are searched at a time. memory: bytes of all trees. nodes: the most of one tree, a power of two. clock: returns
    seconds. warn: called with each warning once; warnings are no replies, as clients expect one for each position.

    Positions are searched by priority, then in the order of arrival. Each step advances the first `_width` of them; the
    others wait, or pause if their search has begun. The width is FIRST_WIDTH at first and grows by two with each reply,
    so that the first replies come early and later steps are efficient. A position of higher priority than all others is
    searched alone. On CUDA, where a step takes as long for few positions as for many, it advances all that have begun.

    A reply depends on its query alone, unless a time limit or an action ends the search. This is exact without a
    network. With one, float32 rounding depends on the size of the batch: of 60 replies most differed in the sixth
    digit, and none in its visits."""

    analyst: Analyst
    write: Callable[[dict[str, Any]], None] = lambda reply: print(json.dumps(reply, separators=(",", ":")), flush=True)
    settings: AnalysisSettings = AnalysisSettings()
    positions: int = 1024
    memory: int = 2**31
    nodes: int = 2**17
    clock: Callable[[], float] = time.monotonic
    warn: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    _waiting: list[SearchTask] = field(default_factory=list, init=False)  # a heap
    _batches: list[SearchBatch] = field(default_factory=list, init=False)
    _open: dict[str, list[SearchTask]] = field(default_factory=dict, init=False)
    _warned: set[str] = field(default_factory=set, init=False)
    _arrived: int = field(default=0, init=False)
    _cpu_width: int = field(default=FIRST_WIDTH, init=False)
    _game_of: Any = field(default_factory=lambda: lru_cache(MOST_GAMES)(_new_game), init=False)

    @property
    def is_busy(self) -> bool:
        """Whether any position waits or is searched."""
        return bool(self._open)

    def take(self, line: str | bytes) -> None:
        """Takes a line: queues the positions of a query; replies to an action or an error at once."""
        fields: dict[str, Any] = {}
        try:
            if not line.strip():
                return
            fields = _object(line)
            if isinstance(fields.get("action"), str):
                self._act(fields)
            else:
                self._queue(parse(fields, self.settings, self.analyst.sizes))
        except QueryError as error:
            self.write({"id": fields["id"], "field": error.field, "error": str(error)})
        except InputError as error:
            self.write({"error": str(error)})
        except RecursionError:  # json can parse deeper nesting than can be checked or sent back
            identity = {"id": fields["id"]} if "id" in fields else {}
            self.write(identity | {"error": "the brackets of the line are nested too deeply"})

    def step(self) -> bool:
        """Starts and advances searches by one step and writes the replies that are due. Returns whether it is busy."""
        self._start_searches()
        first, searched, started = set(heapq.nsmallest(self._width, self._running)), [], self.clock()
        for batch in self._batches:
            if chosen := [*first.intersection(batch.running)]:
                batch.step(chosen)
                searched += chosen
        seconds = self.clock() - started
        for task in searched:
            task.seconds += seconds
        for batch in self._batches:
            self._report_due(batch)
        self._batches = [batch for batch in self._batches if batch.running]
        return self.is_busy

    @property
    def _running(self) -> list[SearchTask]:
        return [task for batch in self._batches for task in batch.running]

    @property
    def _width(self) -> int:
        """How many positions are searched in one step."""
        return self._cpu_width if host_read_is_free(torch.empty(0, device=self.analyst.device)) else sys.maxsize

    def _check_moves(self, record: GameRecord) -> None:
        """Raises QueryError for an illegal move; like KataGo, takes moves that repeat an earlier position, except
        the immediate retaking of a ko. Moves that a kept game shares are not checked again."""
        rules, start = replace(record.rules, superko="simple"), tuple(map(tuple, record.start()))
        game = self._game_of(rules, start, COLOURS[record.first])
        if problem := game.go_to(record.played()):
            turn, action = len(game.moves), record.moves[len(game.moves)]
            raise QueryError(f"Illegal move {turn}: {coords.to_gtp(action, game.size)} ({problem})", "moves")

    def _queue(self, query: Query) -> None:
        """Queues a query's positions and writes its warnings. Raises QueryError for an illegal move."""
        self._check_moves(query.game)
        bytes_a_node = BatchKind(query.game.rules.size, 1, query.restrictions is not None).tree_bytes // 3
        fitting = max(1, self.memory // bytes_a_node)
        limit = min(self.nodes, power_of_two(fitting + 1) // 2)
        visits = min(query.settings.max_visits, limit)
        short = f"memory limits a search here to {limit} visits" if visits < query.settings.max_visits else ""
        komi = warning_of_komi(self.analyst, query.game.rules)
        for name, text in (*query.warnings, ("maxVisits", short), ("komi", komi)):
            if text and text not in self._warned:
                self.warn(f"warning: query {quote_json(query.id)}, {name}: {text}")
                self._warned.add(text)
        if not self.is_busy:
            self._cpu_width = FIRST_WIDTH
        for turn, priority in query.turns:
            task = SearchTask(query, turn, priority, visits, self._arrived)
            self._arrived += 1
            self._open.setdefault(query.id, []).append(task)
            heapq.heappush(self._waiting, task)

    def _act(self, fields: dict[str, Any]) -> None:
        """Performs an action and replies with it."""
        action = fields["action"]
        if action not in ACTIONS:
            raise QueryError(f"action is {quote_json(action)}; allowed are {', '.join(ACTIONS)}", "action")
        if action == "query_version":
            fields = fields | {"version": zerogo.__version__, "git_hash": runtime.code_revision()}
        elif action == "query_models":
            fields = fields | {"models": [katago.model_fields(self.analyst.name, self.positions)]}
        elif action == "clear_cache":
            self._game_of.cache_clear()
        else:
            self._terminate(fields)
        self.write(fields)

    def _terminate(self, fields: dict[str, Any]) -> None:
        """Ends searches: waiting positions are answered at once without results, running ones at the next step with
        the results so far."""
        if (turns := fields.get("turnNumbers")) is not None:
            with at_field("turnNumbers"):
                turns = {whole("a turn", turn, 0, 2**31 - 1) for turn in list_of("turnNumbers", turns, "turn numbers")}
        ids: Iterable[str] = list(self._open)
        if fields["action"] == "terminate":
            if not isinstance(fields.get("terminateId"), str):
                raise QueryError('terminate needs a text "terminateId"', "terminateId")
            ids = [fields["terminateId"]]
        for name in ids:
            for task in list(self._open.get(name, ())):
                if turns is None or task.turn in turns:
                    task.is_stopped = True
                    if task.index < 0:  # `_next_kind` takes it out of the heap
                        self.write({"id": name, "isDuringSearch": False, "turnNumber": task.turn, "noResults": True})
                        self._close(task)

    def _close(self, task: SearchTask) -> None:
        tasks = self._open[task.query.id]
        tasks.remove(task)
        if not tasks:
            del self._open[task.query.id]

    def _start_searches(self) -> None:
        """Moves waiting positions into batches, strictly in their order: a later one never overtakes one that there is
        no memory for yet."""
        while (kind := self._next_kind()) is not None:
            task, running = self._waiting[0], self._running
            if is_urgent := task.priority > max((other.priority for other in running), default=math.inf):
                self._cpu_width = 1
            ahead = sum(other < task for other in running)
            if ahead >= self._width:
                return
            with_room = (batch for batch in self._batches if batch.kind == kind and None in batch.tasks)
            batch = next(with_room, None) or self._new_batch(kind, is_urgent)
            if batch is None:
                return
            tasks, room = [], min(batch.tasks.count(None), self._width - ahead)
            while len(tasks) < room and self._next_kind() == kind:
                task = heapq.heappop(self._waiting)
                task.next_report = task.query.first_report
                tasks.append(task)
            batch.add(tasks)

    def _next_kind(self) -> BatchKind | None:
        """Returns the kind of the first waiting position, None where none waits; removes terminated ones before it."""
        while self._waiting and self._waiting[0].is_stopped:
            heapq.heappop(self._waiting)
        return BatchKind.of(self._waiting[0]) if self._waiting else None

    def _new_batch(self, kind: BatchKind, is_urgent: bool) -> SearchBatch | None:
        """Returns a batch for the waiting positions of a kind, None where the limits leave no room for it now.
        is_urgent: whether the first one has a higher priority than all running ones; its tree may exceed the limits."""
        waiting = sum(not task.is_stopped and BatchKind.of(task) == kind for task in self._waiting)
        existing = sum(len(batch.tasks) for batch in self._batches if batch.kind == kind)
        free = self.memory - sum(len(batch.tasks) * batch.kind.tree_bytes for batch in self._batches)
        fitting = max(1, MOST_POINTS // (kind.size**2 * self.analyst.search.settings.leaves))
        rows = min(max(FIRST_WIDTH, waiting), self.positions - existing, free // kind.tree_bytes, fitting)
        if is_urgent and rows < 1 and free >= 0 and existing <= self.positions:
            rows = 1
        if rows < 1 and self._batches:
            return None
        self._batches.append(SearchBatch(self.analyst, kind, max(1, rows)))
        return self._batches[-1]

    def _report_due(self, batch: SearchBatch) -> None:
        """Writes the reports that are due and the replies of finished positions, and takes these out of the batch."""
        for task in batch.running:
            task.is_stopped = task.is_stopped or task.seconds >= task.query.settings.max_time
        done = batch.finished()
        ended = set(done)
        due = [task for task in batch.running if task.seconds >= task.next_report and task not in ended]
        self._report(batch, due, is_during_search=True)
        self._report(batch, done, is_during_search=False)
        for task in due:
            task.next_report = task.seconds + task.query.report_every
        batch.remove(done)
        self._cpu_width += 2 * len(done)
        for task in done:
            self._close(task)

    def _report(self, batch: SearchBatch, tasks: list[SearchTask], is_during_search: bool) -> None:
        """Writes a reply on each position."""
        at_once = max(1, READ_POINTS // batch.kind.size**2)
        for start in range(0, len(tasks), at_once):
            some = tasks[start : start + at_once]
            for task, result in zip(some, batch.read(some), strict=True):
                self.write(analysis_reply(task, result, is_during_search))


def _new_game(rules: Rules, start: tuple[tuple[int, ...], ...], first: Colour) -> LiveGame:
    game = LiveGame(rules)
    with at_field("initialStones"):
        game.set_up([list(row) for row in start], first)
    return game


def _object(line: str | bytes) -> dict[str, Any]:
    """Returns the JSON object of a line. Raises InputError for another line, and for an object without an id."""
    if line == runtime.TOO_LONG:
        raise InputError(line.decode())
    if len(line) > MOST_QUERY_BYTES:
        raise InputError(f"the line has {len(line)} bytes; a query may have {MOST_QUERY_BYTES}")
    try:
        text = (line.decode() if isinstance(line, bytes) else line).removeprefix("\ufeff")  # Windows begins a file so
        fields = bounds.parse_json(text, MOST_QUERY_VALUES, parse_constant=_finite, parse_float=_finite)
    except ValueError as error:  # of UTF-8, too
        raise InputError(f"could not parse input line as json request: {error}") from None
    if not isinstance(fields, dict):
        raise InputError(f"the line is {quote_json(fields)}; a request must be a JSON object")
    if not isinstance(fields.get("id"), str):
        raise InputError('a request must have a text "id" field')
    return fields


def _finite(text: str) -> float:
    """Returns the number of a text such as 1.5. Raises ValueError for NaN and infinite numbers, such as 1e999."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no JSON number")
    return number


def analysis_reply(task: SearchTask, result: PositionResult, is_during_search: bool) -> dict[str, Any]:
    """Returns the reply on a position, from the perspective that the query's settings name."""
    query, analysis, size = task.query, result.analysis, task.query.game.rules.size
    perspective, is_black = query.settings.perspective, result.to_play == BLACK
    sign = 1 if perspective in ("SIDETOMOVE", "BLACK" if is_black else "WHITE") else -1
    hashes, longest = _hashes(result), query.settings.pv_length + 1
    stones = {"currentPlayer": "B" if is_black else "W", "thisHash": hashes[0], "symHash": min(hashes)}
    root = stones | katago.root_fields(analysis, sign)
    moves = [katago.move_fields(move, order, size, sign, longest) for order, move in enumerate(analysis.candidates)]
    for fields in moves[:1]:  # by its lower bound it may come before a move with more visits
        fields["playSelectionValue"] = max(other["weight"] for other in moves)
    names = [name for name in katago.MOVE_INFO if katago.MOVE_EXTRAS.get(name) in (None, *query.included)]
    reply = {
        **{"id": query.id, "isDuringSearch": is_during_search, "turnNumber": task.turn},
        "moveInfos": [katago.json_fields({"scoreStdev": root["scoreStdev"]} | fields, names) for fields in moves],
        "rootInfo": katago.json_fields(root, katago.ROOT_INFO),
    }
    reply |= katago.json_fields(root, (name for name, key in katago.ROOT_EXTRAS.items() if key in query.included))
    if "includePolicy" in query.included:
        reply["policy"] = katago.json_value(result.policy)
    return reply


def _hashes(result: PositionResult) -> list[str]:
    """Returns hashes of the stones, the side to move and the ko point, 32 hexadecimal digits each, under all eight
    symmetries; the first is that of the board as it stands."""
    board = result.stones.astype(np.int16)
    if result.ko >= 0:
        board.flat[result.ko] = 3
    boards = torch.from_numpy(board).expand(NUM_SYMMETRIES, *board.shape)
    views = transform_planes(boards, torch.arange(NUM_SYMMETRIES)).numpy()
    texts = [bytes([result.to_play]) + view.tobytes() for view in views]
    return [hashlib.blake2b(text, digest_size=16).hexdigest().upper() for text in texts]
