"""A GTP engine: its process (started, asked with a time limit, ended), and the position that it holds. Whatever goes
wrong with it is an `EngineFault`.

Replies are read as GTP 2 has them ("= text" or "? text" up to a blank line, several lines too), with the liberties that
engines take: lines before the first reply, carriage returns, blank lines too many, and any amount of text on stderr,
whose end is kept for reports. Commands are numbered, so that an answer too many, or in the wrong place, is found out
instead of being taken for the next one's; an engine that leaves the numbers out is believed.

A process holds one position, a list of moves. A question about another one that goes on from it costs the moves
between; about any other, the game is replayed from the empty board. An engine with `set_random_seed` is given a seed
before every question, and its caches are cleared, so that its answer is a function of (moves, seed): GNU Go's moves
come out alike whichever process plays them (tried)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

from zerogo import coords, rulesets
from zerogo.rules import Rules

MOST_BYTES = 1 << 22  # of what an engine may say before a reply is complete; beyond it, it is running wild
KEPT_OF_STDERR = 4000  # bytes
QUIT_SECONDS = 1.0
START_SECONDS = 600.0  # for the first answer: some engines tune themselves to the machine when they first run on it
SHOWN = 60  # letters of what an engine says that a report quotes
COLOURS = ("b", "w")
GENMOVE = "genmove"


class EngineFault(Exception):
    """What an engine did wrong, in a few words without its name: it died, was silent for too long, refused, or spoke no
    GTP."""


class Refusal(EngineFault):
    """An answer that begins with "?"; the engine lives and goes on."""


class EngineProcess:
    """A running engine. Not for several threads at once. is_numbering: whether commands are sent with numbers, which
    every engine should repeat before its answer."""

    def __init__(self, command: Sequence[str]) -> None:
        """Starts the program, in a process group of its own, so that it ends with all that it has started. Raises
        EngineFault."""
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        try:
            self._process = subprocess.Popen(list(command), bufsize=0, start_new_session=True, **pipes)
        except OSError as error:
            raise EngineFault(f"could not be started: {error.strerror or error}") from None
        self._incoming, self._outgoing, self._stderr = b"", b"", b""
        self._reply: list[str] = []  # lines of the reply that is being read
        self._noise: list[str] = []  # lines outside of replies
        self._has_spoken, self._is_closed = False, False
        self.is_numbering, self._repeats_numbers, self._number = True, False, 0
        self._selector = selectors.DefaultSelector()
        self._streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        for stream in self._streams:
            os.set_blocking(stream.fileno(), False)
        for stream in self._streams[1:]:
            self._selector.register(stream, selectors.EVENT_READ)

    def ask(self, commands: Sequence[str], seconds: float) -> list[str]:
        """Returns the texts of the answers, all commands being sent at once; seconds: how long each answer may take.

        Raises EngineFault, and Refusal where an answer is a refusal: what was sent after it has been answered then,
        too."""
        numbered = list(enumerate(commands, self._number + 1))
        self._number += len(commands)
        for number, command in numbered:
            self._outgoing += (f"{number} {command}\n" if self.is_numbering else f"{command}\n").encode()
        answers = [self._answer(number, command, seconds) for number, command in numbered]
        for command, (is_fine, text) in zip(commands, answers, strict=True):
            if not is_fine:
                raise Refusal(f"refused {command!r}: {text[:SHOWN] or 'without a word'}")
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
        """Ends the engine and all that it has started at once; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.interrupt()
        self._process.wait()
        self._selector.close()
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()

    def interrupt(self) -> None:
        """Ends the engine and leaves the rest to whoever reads from it, who meets its end; may be called from another
        thread."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _answer(self, number: int, command: str, seconds: float) -> tuple[bool, str]:
        """Returns the next reply, which must be to the command of this number: whether it is a "=", and its text."""
        deadline = time.monotonic() + seconds
        while (reply := self._next_reply()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise EngineFault(f"no answer to {command!r} within {seconds:g} s")
            if len(self._incoming) > MOST_BYTES:
                raise EngineFault(f"more than {MOST_BYTES} bytes for an answer to {command!r}")
            if not self._read_and_write(left):
                raise EngineFault(f"{self._ending()} at {command!r}{self._last_words()}")
        is_fine, echo, text = reply
        if self.is_numbering and echo != str(number) and (echo or self._repeats_numbers):
            said = f"{'=' if is_fine else '?'}{echo} {text.partition(chr(10))[0]}"[:SHOWN]
            raise EngineFault(f"said {said!r} where the answer to {command!r} was due")
        self._repeats_numbers |= bool(echo)
        return is_fine, text

    def _read_and_write(self, seconds: float) -> bool:
        """Waits for something to read or write and does it; returns False when the engine will say no more."""
        stdin, _, stderr = self._streams
        if self._outgoing and stdin not in (key.fileobj for key in self._selector.get_map().values()):
            self._selector.register(stdin, selectors.EVENT_WRITE)
        for key, _ in self._selector.select(seconds):
            if key.fileobj is stdin:
                self._write()
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

    def _write(self) -> None:
        """Writes what the pipe takes; whether the reader has died is seen at its output."""
        try:
            self._outgoing = self._outgoing[os.write(self._process.stdin.fileno(), self._outgoing) :]
        except BrokenPipeError:
            self._outgoing = b""
        if not self._outgoing:
            self._selector.unregister(self._process.stdin)

    def _next_reply(self) -> tuple[bool, str, str] | None:
        """Returns a reply out of what has come: whether it is a "=", its number if it has one, its text. None where it
        is not whole yet."""
        while b"\n" in self._incoming:
            raw, self._incoming = self._incoming.split(b"\n", 1)
            line = raw.decode("utf-8", "replace").replace("\r", "").rstrip()
            if self._reply and not line:
                reply, self._reply, self._noise, self._has_spoken = self._reply, [], [], True
                number, first = re.fullmatch(r".([0-9]*)(.*)", reply[0]).groups()
                return reply[0][0] == "=", number, "\n".join([first.strip(), *reply[1:]]).strip()
            if self._reply or line[:1] in ("=", "?"):
                self._reply.append(line)
            elif line:
                self._noise = [*self._noise[-2:], line]
            elif self._noise and self._has_spoken:
                raise EngineFault(f"said {self._noise[0][:SHOWN]!r} where a reply begins with = or ?")
        return None

    def _ending(self) -> str:
        """Returns how the engine ended, in words."""
        try:
            status = self._process.wait(QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its output"
        return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"

    def _last_words(self) -> str:
        """Returns the last line that an engine left on stderr, if any, to stand behind what it did."""
        with contextlib.suppress(OSError):
            self._stderr += os.read(self._process.stderr.fileno(), 1 << 16)
        lines = [line.strip() for line in self._stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        return f" ({lines[-1][: 2 * SHOWN]})" if lines else ""


def move_of(text: str, size: int) -> int | None:
    """Returns the action that an answer to `genmove` names, None where it names none (resignation among them)."""
    try:
        return coords.from_gtp(text.strip(), size)
    except ValueError:
        return None


class Worker:
    """One process of an engine, started when it is first needed and anew after a fault, and the position that it holds.
    rules: of its games. seconds: for each answer. label: the engine's name and version, known once it is started."""

    def __init__(self, command: Sequence[str], rules: Rules, seconds: float) -> None:
        self.command, self.rules, self.seconds = command, rules, seconds
        self.process, self.is_closed, self.label = None, False, ""
        self._known: set[str] = set()  # the engine's commands
        self._moves: tuple[int, ...] | None = None  # what stands on the process's board; None where that is not known

    def answer(self, moves: tuple[int, ...], command: str, seed: int) -> str | EngineFault:
        """Returns the answer to a command, such as "genmove" (its colour follows) or "final_score", in the position
        after some moves, Black's first; or what went wrong, after which the process is a new one."""
        try:
            self.open()
            self._go_to(moves)
            if "set_random_seed" in self._known:
                self._ask(*(["clear_cache"] if "clear_cache" in self._known else []), f"set_random_seed {seed}")
            return self._genmove(moves) if command == GENMOVE else self._ask(command)[0]
        except EngineFault as fault:
            if command == GENMOVE or not isinstance(fault, Refusal):  # "? cannot score" is an answer
                self.drop()
            return fault

    def open(self) -> None:
        """Starts the process, if there is none, and tells it the rules. Raises EngineFault, also where it refuses the
        size or the rules."""
        if self.process is not None:
            return
        if self.is_closed:
            raise EngineFault("was closed")
        self.process = EngineProcess(self.command)
        try:
            self._known = set(self._commands().split())
            names = [self._ask(command)[0] for command in ("name", "version") if command in self._known]
            self.label = " ".join(names).strip()
            self._ask(f"boardsize {self.rules.size}", "clear_board")
            if "kata-set-rules" in self._known:
                self._ask(f"kata-set-rules {json.dumps(rulesets.to_json(self.rules))}")
            self._ask(f"komi {self.rules.komi:g}")
        except EngineFault:
            self.drop()
            raise
        self._moves = ()

    def drop(self) -> None:
        """Ends the process; the next question starts another."""
        self._moves = None
        if self.process is not None:
            self.process.kill()
            self.process = None

    def quit(self) -> None:
        """Lets the engine go, if there is one."""
        if self.process is not None:
            self.process.quit()
            self.process = None

    def _ask(self, *commands: str) -> list[str]:
        return self.process.ask(commands, self.seconds)

    def _commands(self) -> str:
        """Returns the names of the engine's commands, none where it doesn't tell; GTP asks for it, but it can play
        without."""
        for is_numbering in (True, False):  # it may be that it trips over the numbers
            self.process.is_numbering = is_numbering
            with contextlib.suppress(Refusal):
                (listed,) = self.process.ask(["list_commands"], START_SECONDS)
                if listed:
                    return listed
        return ""

    def _go_to(self, moves: tuple[int, ...]) -> None:
        """Brings the process to a position."""
        known, commands = self._moves, []
        if known is None or moves[: len(known)] != known:
            commands, known = ["clear_board", f"komi {self.rules.komi:g}"], ()
        for ply in range(len(known), len(moves)):
            commands.append(f"play {COLOURS[ply % 2]} {coords.to_gtp(moves[ply], self.rules.size)}")
        self._moves = None  # until all of it has been answered
        self._ask(*commands)
        self._moves = moves

    def _genmove(self, moves: tuple[int, ...]) -> str:
        """Returns the engine's answer; a move that it says it has played on its own board."""
        self._moves = None
        text = self._ask(f"{GENMOVE} {COLOURS[len(moves) % 2]}")[0]
        action = move_of(text, self.rules.size)
        self._moves = None if action is None else (*moves, action)
        return text
