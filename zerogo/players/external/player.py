"""A GTP engine as a player of matches, and the words by which a person names one:

    gnugo:10                          GNU Go at a level from 0 to 15
    pachi:1000                        Pachi with so many playouts a move, from 500
    katago:200[:MODEL[:CONFIG]]       KataGo with so many visits a move
    gtp:/path/engine --any "option"   whatever else speaks GTP on its standard input and output

Everything about a game that GTP has a command for (size, komi, `kata-set-rules`, `set_random_seed`) is told by the
command, not on the command line."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from zerogo import board, draws
from zerogo.draws import Purpose
from zerogo.errors import InputError
from zerogo.players.external.engine import GENMOVE, SHOWN, EngineFault, Worker, move_of
from zerogo.players.player import FORFEIT, RESIGN
from zerogo.rules import Rules
from zerogo.runtime import usable_cores

SEEDS = 2**31 - 1  # what engines take for a seed
MORE_FOLDERS = ("/usr/games", "/usr/local/games")  # where Debian installs GNU Go, and a service's PATH may not look
HOW_TO_INSTALL = {
    "gnugo": "; Debian and Ubuntu have it: apt install gnugo",
    "pachi": "; it is at https://github.com/pasky/pachi (Debian's package pachi is another program)",
    "katago": "; it is at https://github.com/lightvector/KataGo",
}
KINDS = "gnugo:LEVEL, pachi:PLAYOUTS, katago:VISITS (with :MODEL and :CONFIG where it needs them), gtp:COMMAND"
PACHI_LEAST = 500  # playouts; it refuses fewer
GNUGO_SUPERKO = {"simple": "--simple-ko", "positional": "--positional-superko", "situational": "--situational-superko"}
KATAGO_SETTINGS = "maxVisits={},maxPlayouts=1000000000,maxTime=1e9,ponderingEnabled=false,allowResignation=false"
INTERPRETERS = re.compile(r"(python[0-9.]*|bash|sh|env|java|perl|ruby|node|nice)")


@dataclass(frozen=True)
class Program:
    """An engine that can be started. name: what the player is called. command: its start line, for given rules and a
    seed of 31 bits. knows_suicide: whether it can play where that is allowed."""

    name: str
    command: Callable[[Rules, int], list[str]]
    knows_suicide: bool = True


def is_external(spec: str) -> bool:
    """Says whether a player's word means a program outside."""
    return spec.partition(":")[0] in MAKERS


def find(spec: str) -> Program:
    """Returns the engine that a word means. Raises InputError for a word that is none and for a program that is not
    there."""
    kind, _, rest = spec.partition(":")
    if kind not in MAKERS:
        raise InputError(f"there is no engine {spec!r}; allowed are {KINDS}")
    return MAKERS[kind](spec, rest)


def locate(name: str) -> str:
    """Returns the path of a program: a path as it is given, else from PATH or the folders for games. Raises
    InputError."""
    is_path = os.sep in name
    path = shutil.which(name) or (None if is_path else shutil.which(name, path=os.pathsep.join(MORE_FOLDERS)))
    if path is None and is_path:
        raise InputError(f"there is no program at {name}, or it may not be run")
    if path is None:
        places = f"on PATH nor in {', '.join(MORE_FOLDERS)}"
        raise InputError(f"there is no program {name!r} {places}{HOW_TO_INSTALL.get(name, '')}")
    return path


def _number(spec: str, text: str, least: int, most: int, what: str) -> int:
    """Returns the whole number in a player's word, or raises InputError."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise InputError(f"player {spec!r}: allowed is {spec.partition(':')[0]}:N with {what} from {least} to {most}")
    return int(text)


def _gnugo(spec: str, rest: str) -> Program:
    """The referee counts what stands on the board, so GNU Go captures dead stones, and plays on to the end."""
    level, path = _number(spec, rest, 0, 15, "a level"), locate("gnugo")

    def _command(rules: Rules, seed: int) -> list[str]:
        scoring = "--chinese-rules" if rules.scoring == "area" else "--japanese-rules"
        suicide = "--allow-all-suicide" if rules.suicide else "--forbid-suicide"
        flags = (scoring, GNUGO_SUPERKO[rules.superko], suicide, "--capture-all-dead", "--never-resign")
        return [path, "--mode", "gtp", "--quiet", *flags, "--level", str(level), "--seed", str(seed)]

    return Program(spec, _command)


def _pachi(spec: str, rest: str) -> Program:
    playouts, path = _number(spec, rest, PACHI_LEAST, 10**9 - 1, "playouts"), locate("pachi")

    def _command(rules: Rules, seed: int) -> list[str]:
        name = "chinese" if rules.scoring == "area" else "japanese"
        options = ("threads=1", "max_tree_size=100", "resign_threshold=0")
        return [path, "-d0", "-t", f"={playouts}", "-s", str(seed), "-r", name, *options]

    return Program(spec, _command, knows_suicide=False)


def _katago(spec: str, rest: str) -> Program:
    """KataGo finds its network and settings beside itself where they are not named."""
    visits, _, files = rest.partition(":")
    model, _, config = files.partition(":")
    number, path = _number(spec, visits, 1, 10**9 - 1, "visits"), locate("katago")
    for file in (model, config):
        if file and not Path(file).is_file():
            raise InputError(f"player {spec!r}: there is no file {file}")
    chosen = [word for option, file in (("-model", model), ("-config", config)) if file for word in (option, file)]
    start = [path, "gtp", *chosen, "-override-config", KATAGO_SETTINGS.format(number)]
    return Program(f"katago:{number}", lambda rules, seed: [*start[:-1], f"{start[-1]},searchRandSeed={seed}"])


def _any(spec: str, rest: str) -> Program:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise InputError(f"player {spec!r}: its command can't be read: {str(error).lower()}") from None
    if not words:
        raise InputError("player 'gtp:' lacks its command, such as gtp:'gnugo --mode gtp --level 5'")
    words[0] = locate(words[0])
    # It is called by its program, or by the script that an interpreter is to run.
    names = [Path(word).name for word in words if not word.startswith("-")] or ["engine"]
    name = next((name for name in names if not INTERPRETERS.fullmatch(name)), names[0])
    return Program(name.removesuffix(".py"), lambda rules, seed: words)


MAKERS = {"gnugo": _gnugo, "pachi": _pachi, "katago": _katago, "gtp": _any}


class ExternalPlayer:
    """A `StatefulPlayer` that asks a GTP engine: many games at once, each of which stays with its process unless others
    have much less to do, and every fault kept apart from the other games.

    seconds: how long an answer may take before the game is lost. processes: how many think at once, one thread each,
    which waits; 0 for as many as usable cores. label: the engine's own name and version, known after `check`."""

    def __init__(self, program: Program, seconds: float = 60.0, processes: int = 0) -> None:
        self.program, self.seconds, self.processes = program, seconds, processes or usable_cores()
        self.name, self.label = program.name, ""
        self._rules: Rules | None = None
        self._workers: list[Worker] = []
        self._worker_of: dict[int, Worker] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._is_asking = False
        self._moves: dict[int, list[int]] = {}
        self._faults: dict[int, str] = {}

    def check(self, rules: Rules) -> None:
        """Starts a process and tells it the rules. Raises InputError where that fails."""
        if rules.suicide and not self.program.knows_suicide:
            raise InputError(f"{self.name} knows no suicide; set game.suicide=false")
        self._set_up(rules)
        worker = self._workers[0]
        try:
            worker.open()
        except EngineFault as fault:
            self.close()
            raise InputError(f"{self.name} {fault}; it was started as: {' '.join(worker.command)}") from None
        self.label = worker.label

    def begin(self, game_ids: Sequence[int], rules: Rules) -> None:
        """Prepares for games that start now from the empty board."""
        self._set_up(rules)
        for game in game_ids:
            self._moves[game] = []
            self._faults.pop(game, None)

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the engine's moves: int64 [B], RESIGN where it gives up and FORFEIT where it failed (`why` says
        how)."""
        games = game_ids.tolist()
        actions = map(self._action, games, self._ask(games, GENMOVE, seed))
        return torch.tensor(list(actions), dtype=torch.int64, device=states.device)

    def notify(self, game_ids: Sequence[int], actions: Sequence[int]) -> None:
        """Takes note of one move in each game."""
        for game, action in zip(game_ids, actions, strict=True):
            self._moves[game].append(action)

    def why(self, game_id: int) -> str:
        """Returns what went wrong in a game, an empty text where nothing did."""
        return self._faults.get(game_id, "")

    def final_scores(self, game_ids: Sequence[int], seed: int) -> list[str | None]:
        """Returns what the engine answers to `final_score`, None where it refuses or fails, which costs it nothing."""
        answers = self._ask(game_ids, "final_score", seed)
        return [None if isinstance(answer, EngineFault) else answer[:SHOWN] for answer in answers]

    def end(self, game_ids: Sequence[int], at_fault: bool = False) -> None:
        """Forgets games that are over; after a fault the process is replaced."""
        for game in game_ids:
            worker = self._worker_of.pop(game, None)
            if at_fault and worker is not None:
                worker.drop()
            self._moves.pop(game, None)

    def close(self) -> None:
        """Ends all processes, also while another thread still asks them; the next use starts others."""
        if self._is_asking:
            self._interrupt()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.quit()
        self._workers, self._worker_of, self._threads, self._is_asking = [], {}, None, False

    def start_line(self, rules: Rules) -> str:
        """Returns the command that is started, for a report."""
        return " ".join(self.program.command(rules, _seed_of(0)))

    def _set_up(self, rules: Rules) -> None:
        """Makes the workers of games under these rules; no process is started here."""
        if not self._workers or rules != self._rules:
            self.close()
            command, self._rules = self.program.command(rules, _seed_of(0)), rules
            self._workers = [Worker(command, rules, self.seconds) for _ in range(self.processes)]
            self._threads = ThreadPoolExecutor(self.processes, thread_name_prefix="engine")

    def _ask(self, games: Sequence[int], command: str, seed: int) -> list[str | EngineFault]:
        """Returns the answers to a command in each game; those of one worker are asked one after the other."""
        answers: dict[int, str | EngineFault] = {}
        queues = self._share_out(games)

        def _serve(worker: Worker) -> None:
            for game in queues[worker]:
                moves = tuple(self._moves[game])
                answers[game] = worker.answer(moves, command, _seed_of(seed, game, len(moves)))

        self._is_asking = True
        waiting = [self._threads.submit(_serve, worker) for worker in queues]
        try:
            for future in waiting:
                future.result()
        except BaseException:
            self._interrupt()
            raise
        self._is_asking = False
        return [answers[game] for game in games]

    def _share_out(self, games: Sequence[int]) -> dict[Worker, list[int]]:
        """Returns the games of each worker: its own, as long as it has no more of them than are fair, and some of those
        that nobody else has room for."""
        most = math.ceil(len(games) / len(self._workers))
        queues: dict[Worker, list[int]] = {worker: [] for worker in self._workers}
        for game in sorted(games, key=lambda game: game not in self._worker_of):
            worker = self._worker_of.get(game)
            if worker is None or len(queues[worker]) >= most:
                worker = min(self._workers, key=lambda other: len(queues[other]))
            queues[worker].append(game)
            self._worker_of[game] = worker
        return {worker: queue for worker, queue in queues.items() if queue}

    def _interrupt(self) -> None:
        """Ends the processes at once, whatever they do, so that the threads which wait for them end too."""
        for worker in self._workers:
            worker.is_closed = True
            if (process := worker.process) is not None:
                process.interrupt()

    def _action(self, game: int, answer: str | EngineFault) -> int:
        """Returns the action that an answer means, and keeps in mind why where it means none."""
        if isinstance(answer, EngineFault):
            self._faults[game] = str(answer)
            return FORFEIT
        if answer.strip().lower() == "resign":
            return RESIGN
        action = move_of(answer, self._rules.size)
        if action is None:
            self._faults[game] = f"answered {answer[:SHOWN]!r}, which is no move"
        return FORFEIT if action is None else action


def _seed_of(seed: int, *parts: int) -> int:
    """Returns a seed that engines take, from 1."""
    return int(draws.key(seed, *parts, Purpose.MOVE)) % SEEDS + 1
