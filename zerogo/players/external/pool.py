"""A few processes of one engine that serve many games at once. They think in parallel, one thread each, which waits for
its process.

A process holds one position, a list of moves. A question about another one that goes on from it costs the moves
between; about any other, the game is replayed from the empty board. An engine with `set_random_seed` is given a seed
before every question, and its caches are cleared, so that its answer is a function of (moves, seed): GNU Go's moves
come out alike whichever process plays them (tried)."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from zerogo import coords, rulesets
from zerogo.players.external.process import EngineFault, EngineProcess, Refusal
from zerogo.rules import Rules

COLOURS = ("b", "w")
GENMOVE = "genmove"


@dataclass(frozen=True)
class Request:
    """A question about one game. moves: actions so far, Black's first. command: such as "genmove" (its colour follows)
    or "final_score".
    """

    game: int
    moves: tuple[int, ...]
    command: str
    seed: int


@dataclass(frozen=True)
class Start:
    """How processes are started: the command line, the rules of the games, seconds for each answer, and for the first
    one.

    Some engines tune themselves to the machine when they first run on it, which takes minutes.
    """

    command: tuple[str, ...]
    rules: Rules
    seconds: float
    start_seconds: float = 600.0


class Seat:
    """The place of one process, which is started when it is first needed and anew after a fault."""

    def __init__(self, start: Start) -> None:
        self.start, self.process, self.is_closed = start, None, False
        self.label = ""
        self._known: set[str] = set()
        self._moves: tuple[int, ...] | None = None  # what stands on the process's board; None where that is not known

    def answer(self, request: Request) -> str | EngineFault:
        """Returns the answer to one request, or what went wrong, after which the process is a new one."""
        try:
            self.open()
            self._go_to(request.moves)
            self.process.ask(self._seeding(request.seed), self.start.seconds)
            return self._question(request)
        except Refusal as refusal:
            if request.command != GENMOVE:  # "? cannot score" is an answer
                return refusal
            self.drop()
            return refusal
        except EngineFault as fault:
            self.drop()
            return fault

    def open(self) -> None:
        """Starts the process, if there is none, and tells it the rules. Raises EngineFault."""
        if self.process is not None:
            return
        if self.is_closed:
            raise EngineFault("was closed")
        self.process = EngineProcess(self.start.command)
        try:
            self._greet()
        except EngineFault:
            self.drop()
            raise

    def drop(self) -> None:
        """Ends the process; the next request starts another."""
        self._moves = None
        if self.process is not None:
            self.process.kill()
            self.process = None

    def _greet(self) -> None:
        """Asks what the engine knows and tells it the rules. A refused size or ruleset is a fault, as no game could be
        played.
        """
        seconds, rules = self.start.seconds, self.start.rules
        self._known = set(self._commands().split())
        self.label = " ".join(self._asked_if_known(command) for command in ("name", "version")).strip()
        self.process.ask([f"boardsize {rules.size}", "clear_board"], seconds)
        if "kata-set-rules" in self._known:
            self.process.ask([f"kata-set-rules {json.dumps(rulesets.to_json(rules))}"], seconds)
        self.process.ask([f"komi {rules.komi:g}"], seconds)
        self._moves = ()

    def _commands(self) -> str:
        """Returns the names of the engine's commands, none where it doesn't tell; GTP asks for it, but it can play
        without.
        """
        for is_numbering in (True, False):  # it may be that it trips over the numbers
            self.process.is_numbering = is_numbering
            with contextlib.suppress(Refusal):
                (listed,) = self.process.ask(["list_commands"], self.start.start_seconds)
                if listed:
                    return listed
        return ""

    def _asked_if_known(self, command: str) -> str:
        return self.process.ask([command], self.start.seconds)[0] if command in self._known else ""

    def _go_to(self, moves: tuple[int, ...]) -> None:
        """Brings the process to a position."""
        size, known = self.start.rules.size, self._moves
        commands = []
        if known is None or moves[: len(known)] != known:
            commands, known = ["clear_board", f"komi {self.start.rules.komi:g}"], ()
        for ply in range(len(known), len(moves)):
            commands.append(f"play {COLOURS[ply % 2]} {coords.to_gtp(moves[ply], size)}")
        self._moves = None  # until all of it has been answered
        self.process.ask(commands, self.start.seconds)
        self._moves = moves

    def _seeding(self, seed: int) -> list[str]:
        if "set_random_seed" not in self._known:
            return []
        return [*(["clear_cache"] if "clear_cache" in self._known else []), f"set_random_seed {seed}"]

    def _question(self, request: Request) -> str:
        """Returns the engine's answer; a move that it says it has played on its own board."""
        if request.command != GENMOVE:
            return self.process.ask([request.command], self.start.seconds)[0]
        self._moves = None
        text = self.process.ask([f"{GENMOVE} {COLOURS[len(request.moves) % 2]}"], self.start.seconds)[0]
        action = move_of(text, self.start.rules.size)
        if action is not None:
            self._moves = (*request.moves, action)
        return text


class Pool:
    """W seats and their threads. A game stays with its seat unless others have much less to do."""

    def __init__(self, start: Start, processes: int) -> None:
        self.seats = [Seat(start) for _ in range(processes)]
        self._seat_of: dict[int, int] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._is_asking = False

    def ask(self, requests: Sequence[Request]) -> list[str | EngineFault]:
        """Returns the answers, in the order of the requests; those of one seat are asked one after the other."""
        answers: list[str | EngineFault] = [EngineFault("was not asked")] * len(requests)
        queues: list[list[int]] = [[] for _ in self.seats]
        for index, seat in enumerate(self._share_out([request.game for request in requests])):
            queues[seat].append(index)

        def serve(seat: int) -> None:
            for index in queues[seat]:
                answers[index] = self.seats[seat].answer(requests[index])

        busy = [seat for seat, queue in enumerate(queues) if queue]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self.seats), thread_name_prefix="engine")
        self._is_asking = True
        waiting = [self._threads.submit(serve, seat) for seat in busy]
        try:
            for future in waiting:
                future.result()
        except BaseException:
            self._interrupt()
            raise
        self._is_asking = False
        return answers

    def renew(self, game: int) -> None:
        """Ends the process that served a game, as it is not to be relied on any more."""
        self.seats[self._seat_of[game]].drop()

    def forget(self, game: int) -> None:
        """Forgets who served a game that is over."""
        self._seat_of.pop(game, None)

    def close(self) -> None:
        """Ends all processes, also while another thread still asks them."""
        if self._is_asking:
            self._interrupt()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
            self._threads = None
        for seat in self.seats:
            if seat.process is not None:
                seat.process.quit()
            seat.process = None

    def _interrupt(self) -> None:
        """Ends the processes at once, whatever they do, so that the threads which wait for them end too."""
        for seat in self.seats:
            seat.is_closed = True
            if (process := seat.process) is not None:
                process.interrupt()

    def _share_out(self, games: Sequence[int]) -> list[int]:
        """Returns each game's seat: its own as long as that has no more games than are fair, else the one with the
        fewest.
        """
        most = math.ceil(len(games) / len(self.seats))
        load, chosen = [0] * len(self.seats), {}
        for game in games:
            seat = self._seat_of.get(game)
            if seat is not None and load[seat] < most:
                chosen[game] = seat
                load[seat] += 1
        for game in games:
            if game not in chosen:
                chosen[game] = load.index(min(load))
                load[chosen[game]] += 1
        self._seat_of |= chosen
        return [chosen[game] for game in games]


def move_of(text: str, size: int) -> int | None:
    """Returns the action that an answer to `genmove` names, None where it names none (resignation among them)."""
    try:
        return coords.from_gtp(text.strip(), size)
    except ValueError:
        return None
