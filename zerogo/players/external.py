"""Programs that speak GTP as players of matches. A person names one by

    gnugo:10                          GNU Go at a level from 0 to 15
    pachi:1000                        Pachi with 1000 playouts a move (at least 500)
    katago:200[:MODEL[:CONFIG]]       KataGo with 200 visits a move
    gtp:/path/engine --any "option"   whatever else speaks GTP on its standard input and output

Size, komi, rules (`kata-set-rules`) and seed (`set_random_seed`) are set by GTP commands, not on the command line.
Every failure of an engine is an `EngineFault`.

Replies are those of GTP 2 ("= text" or "? text" up to a blank line, several lines too). Lines before the first reply,
carriage returns, extra blank lines and any amount of text on stderr are accepted; the end of stderr is kept for
reports. Commands are numbered, so that extra or misplaced answers are recognised; an engine may omit the numbers."""

import contextlib
import json
import math
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.errors import InputError, quote
from zerogo.players import FORFEIT, RESIGN
from zerogo.rules import Rules, coords, rulesets
from zerogo.system.runtime import usable_cores

MOST_BYTES = 1 << 18  # of an engine's output before a reply is complete; more is a fault
KEPT_OF_STDERR = 4000  # bytes
START_SECONDS = 120.0  # for a process's first answer, at least: KataGo loads its network
QUIT_SECONDS = 1.0
# A shell beside each engine. When this process ends, however that happens, the pipe to the shell closes and the shell
# kills the engine. PR_SET_PDEATHSIG is no substitute: it follows the thread that started the engine, and does not reach
# the engine's own children.
GUARD = "trap '' HUP INT QUIT TERM; read -r never; kill -9 -{}"
MOST_QUOTED = 60  # characters of an engine's text, in a report
COLOURS = ("b", "w")
GENMOVE = "genmove"
SEEDS = 2**31 - 1  # what engines take for a seed
MORE_FOLDERS = ("/usr/games", "/usr/local/games")  # where Debian installs GNU Go, and a service's PATH may not look
HOW_TO_INSTALL = {
    "gnugo": "; Debian and Ubuntu have it: apt install gnugo",
    "pachi": "; it is at https://github.com/pasky/pachi (Debian's package pachi is another program)",
    "katago": "; it is at https://github.com/lightvector/KataGo",
}
ENGINE_HELP = "gnugo:LEVEL, pachi:PLAYOUTS, katago:VISITS (with :MODEL and :CONFIG where it needs them), gtp:COMMAND"
PACHI_DATA = "patterns*", "book.dat", "joseki*", "*.prototxt"
PACHI_LEAST = 500  # playouts; it refuses fewer
GNUGO_SUPERKO = {"simple": "--simple-ko", "positional": "--positional-superko", "situational": "--situational-superko"}
KATAGO_SETTINGS = "maxVisits={},maxPlayouts=1000000000,maxTime=1e9,ponderingEnabled=false,allowResignation=false"
Games = Mapping[int, Sequence[int]]  # the moves so far by game number
INTERPRETERS = re.compile(r"(python[0-9.]*|bash|sh|env|java|perl|ruby|node|nice|timeout|[0-9.]+[smhd]?|\w+=.*)")


class EngineFault(Exception):
    """A failure of an engine, in a few words without its name."""


class Silence(EngineFault):
    """No answer in time."""


class Refusal(EngineFault):
    """An answer that begins with "?"; the engine continues."""


class EngineProcess:
    """A running engine, for one thread at a time. is_numbering: whether commands get numbers, to be repeated."""

    def __init__(self, command: Sequence[str]) -> None:
        """Starts the program in a process group, so that it ends with all that it has started. Raises EngineFault."""
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        try:
            self._process = subprocess.Popen(list(command), bufsize=0, start_new_session=True, **pipes)
            guard = ["/bin/sh", "-c", GUARD.format(self._process.pid)]
            silent = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self._guard = subprocess.Popen(guard, start_new_session=True, **silent)
        except OSError as error:
            if hasattr(self, "_process"):  # which nothing would guard
                self._process.kill()
            raise EngineFault(f"could not be started: {error.strerror or error}") from None
        self._incoming, self._outgoing, self._stderr = b"", b"", b""  # _incoming: since the last reply
        self._has_spoken = self._is_closed = self._repeats_numbers = False
        self.is_numbering, self._number = True, 0
        self._selector = selectors.DefaultSelector()
        self._streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        for stream in self._streams:
            os.set_blocking(stream.fileno(), False)
        for stream in self._streams[1:]:
            self._selector.register(stream, selectors.EVENT_READ)

    def ask(self, commands: Sequence[str], seconds: float) -> list[str]:
        """Sends all commands at once and returns the texts of the answers; seconds: time limit of each answer. Raises
        EngineFault, or Refusal after the last answer if one of them is a refusal."""
        numbered = list(enumerate(commands, self._number + 1))
        self._number += len(commands)
        for number, command in numbered:
            self._outgoing += (f"{number} {command}\n" if self.is_numbering else f"{command}\n").encode()
        answers = [self._answer(number, command, seconds) for number, command in numbered]
        for command, (is_fine, text) in zip(commands, answers, strict=True):
            if not is_fine:
                raise Refusal(f"refused {command!r}: {text[:MOST_QUOTED] or 'no reason given'}")
        return [text for _, text in answers]

    def quit(self) -> None:
        """Asks the engine to quit, and kills it when it doesn't."""
        if not self._is_closed:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(b"quit\n")
                self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(QUIT_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kills the engine and all processes that it has started; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.interrupt()
        self._process.wait()
        self._guard.kill()
        self._guard.wait()
        self._selector.close()
        for stream in (*self._streams, self._guard.stdin):
            with contextlib.suppress(OSError):
                stream.close()

    def interrupt(self) -> None:
        """Kills the engine, also from another thread; the thread that reads from it cleans up."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _answer(self, number: int, command: str, seconds: float) -> tuple[bool, str]:
        """Returns the next reply, which must be to the command of this number: whether it is a "=", and its text."""
        deadline = time.monotonic() + seconds
        while (reply := self._next_reply()) is None:
            if (left := deadline - time.monotonic()) <= 0:
                raise Silence(f"no answer to {command!r} within {seconds:g} s")
            if len(self._incoming) > MOST_BYTES:
                raise EngineFault(f"more than {MOST_BYTES} bytes for an answer to {command!r}")
            if not self._read_and_write(left):
                raise EngineFault(f"{self._ending()} at {command!r}{self._last_words()}")
        is_fine, echo, text = reply
        if self.is_numbering and echo != str(number) and (echo or self._repeats_numbers):
            reply_line = f"{'=' if is_fine else '?'}{echo} {text.partition(chr(10))[0]}"[:MOST_QUOTED]
            raise EngineFault(f"said {reply_line!r} where the answer to {command!r} was due")
        self._repeats_numbers |= bool(echo)
        return is_fine, text

    def _read_and_write(self, seconds: float) -> bool:
        """Waits until it can read or write, and does so; returns False when the engine has closed its output."""
        stdin, _, stderr = self._streams
        if self._outgoing and stdin not in (key.fileobj for key in self._selector.get_map().values()):
            self._selector.register(stdin, selectors.EVENT_WRITE)
        for key, _ in self._selector.select(seconds):
            if key.fileobj is stdin:
                try:
                    self._outgoing = self._outgoing[os.write(key.fd, self._outgoing) :]
                except BrokenPipeError:  # the engine has ended, which its output shows
                    self._outgoing = b""
                if not self._outgoing:
                    self._selector.unregister(stdin)
            elif key.fileobj is stderr:
                chunk = os.read(key.fd, 1 << 16)
                self._stderr = (self._stderr + chunk)[-KEPT_OF_STDERR:]
                if not chunk:
                    self._selector.unregister(stderr)
            elif chunk := os.read(key.fd, 1 << 16):
                self._incoming += chunk
            else:
                return False
        return True

    def _next_reply(self) -> tuple[bool, str, str] | None:
        """Returns the next reply, whether it is a "=", its number and its text, None while it is incomplete."""
        start = re.search(rb"^[=?]", self._incoming, re.MULTILINE)
        *lines, _ = self._incoming[: start.start() if start else None].replace(b"\r", b"").split(b"\n")
        for line, after in pairwise(lines):
            if self._has_spoken and line.strip() and not after.strip():
                noise = line.decode("utf-8", "replace")[:MOST_QUOTED]
                raise EngineFault(f"said {noise!r}, but a reply must begin with = or ?")
        end = re.compile(rb"\n[ \t\r]*\n").search(self._incoming, start.start()) if start else None
        if end is None:
            return None
        reply = self._incoming[start.start() : end.start()].decode("utf-8", "replace").replace("\r", "")
        self._incoming, self._has_spoken = self._incoming[end.end() :], True
        number, text = re.fullmatch(r".([0-9]*)(.*)", reply, re.DOTALL).groups()
        return reply[0] == "=", number, text.strip()

    def _ending(self) -> str:
        """Returns how the engine ended, in words."""
        try:
            status = self._process.wait(QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its output"
        return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"

    def _last_words(self) -> str:
        """Returns the last line of stderr in parentheses, with a space before it; empty without one."""
        with contextlib.suppress(OSError):
            self._stderr += os.read(self._process.stderr.fileno(), 1 << 16)
        lines = [line.strip() for line in self._stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        return f" ({lines[-1][: 2 * MOST_QUOTED]})" if lines else ""


def move_of(text: str, size: int) -> int | None:
    """Returns the action that an answer to `genmove` names, None where it names none (resignation among them)."""
    try:
        return coords.from_gtp(text.strip(), size)
    except ValueError:
        return None


class Worker:
    """One process of an engine, started when it is first needed and anew after a fault, and the position that it holds.
    rules: of its games. seconds: for each answer; for the first at least `START_SECONDS`. label: the engine's name and
    version, known once it is started."""

    def __init__(self, command: Sequence[str], rules: Rules, seconds: float) -> None:
        self.command, self.rules, self.seconds = command, rules, seconds
        self.process, self.is_closed, self.label = None, False, ""
        self._known_commands: set[str] = set()
        self._moves: tuple[int, ...] | None = None  # what stands on the process's board; None where that is not known

    def answer(self, moves: tuple[int, ...], command: str, seed: int) -> str | EngineFault:
        """Returns the answer to a command, such as "genmove" (without its colour) or "final_score", in the position
        after some moves, Black's first; or the fault, after which a new process is started when needed."""
        try:
            self.open()
            self._go_to(moves)
            if "set_random_seed" in self._known_commands:
                self._ask(*({"clear_cache"} & self._known_commands), f"set_random_seed {seed}")
            if command != GENMOVE:
                return self._ask(command)[0]
            self._moves = None
            text = self._ask(f"{GENMOVE} {COLOURS[len(moves) % 2]}")[0]
            action = move_of(text, self.rules.size)
            self._moves = None if action is None else (*moves, action)  # the engine has played it on its own board
            return text
        except EngineFault as fault:
            if command == GENMOVE or not isinstance(fault, Refusal):  # "? cannot score" is an answer
                self.drop()
            return fault

    def open(self) -> None:
        """Starts the process if there is none, and sets the rules. Raises EngineFault where that fails."""
        if self.process is not None:
            return
        if self.is_closed:
            raise EngineFault("was closed")
        self.process = EngineProcess(self.command)
        try:
            self._known_commands = set(self._commands().split())
            names = [self._ask(command)[0] for command in ("name", "version") if command in self._known_commands]
            self.label = " ".join(names).strip()
            self._ask(f"boardsize {self.rules.size}", "clear_board")
            if "kata-set-rules" in self._known_commands:
                self._ask(f"kata-set-rules {json.dumps(rulesets.to_json(self.rules))}")
            self._ask(f"komi {self.rules.komi:g}")
        except EngineFault:
            self.drop()
            raise
        self._moves = ()

    def drop(self, kill: bool = True) -> None:
        """Kills the process, or asks it to quit; the next `answer` starts another."""
        if self.process is not None:
            (self.process.kill if kill else self.process.quit)()
        self.process = self._moves = None

    def _ask(self, *commands: str) -> list[str]:
        return self.process.ask(commands, self.seconds)

    def _commands(self) -> str:
        """Returns the names of the engine's commands, empty where it refuses to list them; it can play without."""
        for is_numbering in (True, False):  # some engines can't parse numbers
            self.process.is_numbering = is_numbering
            with contextlib.suppress(Refusal):
                (listed,) = self.process.ask(["list_commands"], max(START_SECONDS, self.seconds))
                if listed:
                    return listed
        return ""

    def _go_to(self, moves: tuple[int, ...]) -> None:
        """Brings the process to a position."""
        played, commands = self._moves, []
        if played is None or moves[: len(played)] != played:
            commands, played = ["clear_board", f"komi {self.rules.komi:g}"], ()
        for ply in range(len(played), len(moves)):
            commands.append(f"play {COLOURS[ply % 2]} {coords.to_gtp(moves[ply], self.rules.size)}")
        self._moves = None  # until all of it has been answered
        self._ask(*commands)
        self._moves = moves


class Program(NamedTuple):
    """An engine that can be started. name: of the player. command: returns its start line for rules and a seed of 31
    bits. knows_suicide: whether it can play under rules with suicide. most_processes: by default,
    as each of KataGo takes memory of the GPU and several threads."""

    name: str
    command: Callable[[Rules, int], list[str]]
    knows_suicide: bool = True
    most_processes: int = 4096


def is_external(spec: str) -> bool:
    """Returns whether a player's word names an external program."""
    return spec.partition(":")[0] in MAKERS


def find_program(spec: str) -> Program:
    """Returns the engine that a word means. Raises InputError where there is no such program."""
    kind, _, rest = spec.partition(":")
    return MAKERS[kind](spec, rest)


def locate_program(name: str) -> str:
    """Returns a program's path, as it is given or from PATH or the folders for games. Raises InputError."""
    if path := shutil.which(name) or shutil.which(name, path=os.pathsep.join(MORE_FOLDERS)):
        return path
    if os.sep in name:
        raise InputError(f"there is no program at {name}, or it may not be run")
    places = f"on PATH nor in {', '.join(MORE_FOLDERS)}"
    raise InputError(f"there is no program {quote(name)} {places}{HOW_TO_INSTALL.get(name, '')}")


def _number(spec: str, text: str, lowest: int, highest: int, what: str) -> int:
    """Returns the whole number in a player's word, or raises InputError."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not lowest <= int(text) <= highest:
        program = spec.partition(":")[0]
        raise InputError(f"player {quote(spec)}: allowed is {program}:N with {what} from {lowest} to {highest}")
    return int(text)


def _gnugo(spec: str, rest: str) -> Program:
    """Returns GNU Go at a level. It captures dead stones before it passes, as the referee counts all stones."""
    level, path = _number(spec, rest, 0, 15, "a level"), locate_program("gnugo")

    def _command(rules: Rules, seed: int) -> list[str]:
        scoring = "--chinese-rules" if rules.scoring == "area" else "--japanese-rules"
        suicide = "--allow-all-suicide" if rules.suicide else "--forbid-suicide"
        flags = (scoring, GNUGO_SUPERKO[rules.superko], suicide, "--capture-all-dead", "--never-resign")
        return [path, "--mode", "gtp", "--quiet", *flags, "--level", str(level), "--seed", str(seed)]

    return Program(spec, _command)


def _pachi(spec: str, rest: str) -> Program:
    """Returns Pachi with a number of playouts. It treats every stone as alive when it passes, as the referee does. Its
    data files, such as patterns, may lie in its folder."""
    playouts, path = _number(spec, rest, PACHI_LEAST, 10**9 - 1, "playouts"), locate_program("pachi")
    folder = Path(path).resolve().parent
    has_data = "DATA_DIR" not in os.environ and any(True for kind in PACHI_DATA for _ in folder.glob(kind))
    start = ["env", f"DATA_DIR={folder}", path] if has_data else [path]

    def _command(rules: Rules, seed: int) -> list[str]:
        name = "chinese" if rules.scoring == "area" else "japanese"
        options = ("threads=1", "max_tree_size=100", "resign_threshold=0")
        options += ("pass_all_alive",) if rules.scoring == "area" else ()
        return [*start, "-d0", "-t", f"={playouts}", "-s", str(seed), "-r", name, *options]

    return Program(spec, _command, knows_suicide=False)


def _katago(spec: str, rest: str) -> Program:
    """Returns KataGo with a number of visits. Network and settings that are not named are those in its folder."""
    visits, _, files = rest.partition(":")
    model, _, config = files.partition(":")
    number, path = _number(spec, visits, 1, 10**9 - 1, "visits"), locate_program("katago")
    for file in (model, config):
        if file and not Path(file).is_file():
            raise InputError(f"player {quote(spec)}: there is no file {file}")
    chosen = [word for option, file in (("-model", model), ("-config", config)) if file for word in (option, file)]
    start = [path, "gtp", *chosen, "-override-config", KATAGO_SETTINGS.format(number)]
    return Program(f"katago:{number}", lambda rules, seed: [*start[:-1], f"{start[-1]},searchRandSeed={seed}"], True, 4)


def _any_command(spec: str, rest: str) -> Program:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise InputError(f"player {quote(spec)}: its command can't be read: {str(error).lower()}") from None
    if not words:
        raise InputError("player 'gtp:' lacks its command, such as gtp:'gnugo --mode gtp --level 5'")
    words[0] = locate_program(words[0])
    # It is called by its program, or by the script that an interpreter is to run.
    names = [Path(word).name for word in words if not word.startswith("-")] or ["engine"]
    name = next((name for name in names if not INTERPRETERS.fullmatch(name)), names[0])
    return Program(name.removesuffix(".py"), lambda rules, seed: words)


MAKERS = {"gnugo": _gnugo, "pachi": _pachi, "katago": _katago, "gtp": _any_command}


class ExternalPlayer:
    """A player that asks a GTP engine in many games at once, given their moves. A game stays with its process unless
    others have much less to do. The player may resign; a fault loses the game in which it happens, and no other.

    seconds: time limit of an answer, after which the game is lost. processes: number of processes, each with a waiting
    thread, 0 for one per usable core, KataGo's at most 4. label, command: the engine's name and version, and how it is
    started, known after `check`. faults: why games were lost by FORFEIT, by number, in a few words without the engine's
    name."""

    def __init__(self, program: Program, seconds: float = 60.0, processes: int = 0) -> None:
        self.program, self.seconds, self.name, self.label = program, seconds, program.name, ""
        self.processes, self.command = processes or min(usable_cores(), program.most_processes), list[str]()
        self._rules: Rules | None = None
        self._workers: list[Worker] = []
        self._worker_of: dict[int, Worker] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._is_asking = False
        self.faults: dict[int, str] = {}

    def check(self, rules: Rules) -> None:
        """Starts a process and sets the rules. Raises InputError where that fails, before any game is played."""
        if rules.suicide and not self.program.knows_suicide:
            raise InputError(f"{self.name} does not support suicide; set game.suicide=false")
        self.begin(rules)
        worker = self._workers[0]
        try:
            worker.open()
        except EngineFault as fault:
            self.close()
            limits = f"evaluation.engine_seconds is {self.seconds:g}; "
            started = f"it was started as: {' '.join(worker.command)}"
            raise InputError(f"{self.name} {fault}; {limits * isinstance(fault, Silence)}{started}") from None
        self.label = worker.label

    def begin(self, rules: Rules) -> None:
        """Makes the workers of games under these rules; no process is started here."""
        if not self._workers or rules != self._rules:
            self.close()
            self.command, self._rules = self.program.command(rules, _seed_of(0)), rules
            self._workers = [Worker(self.command, rules, self.seconds) for _ in range(self.processes)]
            self._threads = ThreadPoolExecutor(self.processes, thread_name_prefix="engine")

    def choose_moves(self, games: Games, seed: int) -> list[int]:
        """Returns the engine's move in each game, whose legality the caller checks: RESIGN where it gives up and
        FORFEIT where it failed, see `faults`."""
        return list(map(self._action, games, self._ask(games, GENMOVE, seed)))

    def final_scores(self, games: Games, seed: int) -> list[str | None]:
        """Returns the engine's answers to `final_score`, None where it refuses or fails; that loses no game."""
        answers = self._ask(games, "final_score", seed)
        return [None if isinstance(answer, EngineFault) else answer[:MOST_QUOTED] for answer in answers]

    def end(self, game: int, at_fault: bool) -> None:
        """Forgets a game that is over; after a fault the process is replaced."""
        if (worker := self._worker_of.pop(game, None)) and at_fault:
            worker.drop()

    def close(self) -> None:
        """Ends all processes, also while another thread waits for them; the next use starts others."""
        if self._is_asking:
            self._interrupt()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.drop(kill=False)
        self._workers, self._worker_of, self._threads, self._is_asking = [], {}, None, False

    def _ask(self, games: Games, command: str, seed: int) -> list[str | EngineFault]:
        """Returns the answers to a command in each game; a worker answers for its games one after the other."""
        answers: dict[int, str | EngineFault] = {}
        queues = self._share_out([*games])

        def _serve(worker: Worker) -> None:
            for game in queues[worker]:
                moves = tuple(games[game])
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
        """Returns the games of each worker: its own up to a fair share, and others that had no worker with room."""
        fair_share = math.ceil(len(games) / len(self._workers))
        queues: dict[Worker, list[int]] = {worker: [] for worker in self._workers}
        for game in sorted(games, key=lambda game: game not in self._worker_of):
            worker = self._worker_of.get(game)
            if worker is None or len(queues[worker]) >= fair_share:
                worker = min(self._workers, key=lambda other: len(queues[other]))
            queues[worker].append(game)
            self._worker_of[game] = worker
        return {worker: queue for worker, queue in queues.items() if queue}

    def _interrupt(self) -> None:
        """Ends the processes at once, whatever they do, so that the threads which wait for them end too."""
        for worker in self._workers:
            worker.is_closed = True
            if process := worker.process:
                process.interrupt()

    def _action(self, game: int, answer: str | EngineFault) -> int:
        """Returns the action that an answer means, and stores the reason in `faults` if it means none."""
        if isinstance(answer, EngineFault):
            self.faults[game] = str(answer)
            return FORFEIT
        if answer.strip().lower() == "resign":
            return RESIGN
        if (action := move_of(answer, self._rules.size)) is not None:
            return action
        self.faults[game] = f"answered {answer[:MOST_QUOTED]!r}, which is no move"
        return FORFEIT


def _seed_of(seed: int, *words: int) -> int:
    """Returns a seed that engines take, from 1."""
    return int(rng.key(seed, *words, Purpose.MOVE)) % SEEDS + 1
