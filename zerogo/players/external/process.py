"""One GTP engine as a process: started, asked with a time limit, and ended. Whatever goes wrong with it is one
`EngineFault`.

Replies are read as GTP 2 has them ("= text" or "? text" up to a blank line, several lines too), with the liberties that
engines take: lines before the first reply, carriage returns, blank lines too many, and any amount of text on stderr,
whose end is kept for reports. Commands are numbered, so that an answer too many, or in the wrong place, is found out
instead of being taken for the next one's; an engine that leaves the numbers out is believed."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

MOST_BYTES = 1 << 22  # of what an engine may say before a reply is complete; beyond it, it is running wild
KEPT_OF_STDERR = 4000  # bytes
QUIT_SECONDS = 1.0
SHOWN = 60  # letters of what an engine says that a report quotes


class EngineFault(Exception):
    """What an engine did wrong, in a few words without its name: it died, was silent for too long, refused, or spoke no
    GTP.
    """


class Refusal(EngineFault):
    """An answer that begins with "?"; the engine lives and goes on."""


class EngineProcess:
    """A running engine. Not for several threads at once.

    is_numbering: whether commands are sent with numbers, which every engine should repeat before its answer.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Starts the program, in a process group of its own, so that it ends with all that it has started. Raises
        EngineFault.
        """
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
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            os.set_blocking(stream.fileno(), False)
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._selector.register(self._process.stderr, selectors.EVENT_READ)

    def ask(self, commands: Sequence[str], seconds: float) -> list[str]:
        """Returns the texts of the answers, all commands being sent at once; seconds: how long each answer may take.

        Raises EngineFault, and Refusal where an answer is a refusal: what was sent after it has been answered then,
        too."""
        first = self._number + 1
        self._number += len(commands)
        for number, command in enumerate(commands, first):
            self._outgoing += (f"{number} {command}\n" if self.is_numbering else f"{command}\n").encode()
        texts, refused = [], None
        for number, command in enumerate(commands, first):
            is_fine, text = self._answer(number, command, seconds)
            texts.append(text)
            if not is_fine and refused is None:
                refused = f"refused {command!r}: {text[:SHOWN] or 'without a word'}"
        if refused is not None:
            raise Refusal(refused)
        return texts

    def quit(self) -> None:
        """Ends the engine in good move_choice: asks it to quit, and kills it when it doesn't."""
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
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def interrupt(self) -> None:
        """Ends the engine and leaves the rest to whoever reads from it, who meets its end; may be called from another
        thread.
        """
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
            if not self._pump(left):
                raise EngineFault(f"{self._ending()} at {command!r}{self._last_words()}")
        is_fine, echo, text = reply
        if self.is_numbering and echo != str(number) and (echo or self._repeats_numbers):
            said = f"{'=' if is_fine else '?'}{echo} {text.partition(chr(10))[0]}"[:SHOWN]
            raise EngineFault(f"said {said!r} where the answer to {command!r} was due")
        self._repeats_numbers |= bool(echo)
        return is_fine, text

    def _pump(self, seconds: float) -> bool:
        """Waits for something to read or write and does it; returns False when the engine will say no more."""
        events = {key.fileobj for key in self._selector.get_map().values()}
        if self._outgoing and self._process.stdin not in events:
            self._selector.register(self._process.stdin, selectors.EVENT_WRITE)
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._process.stdin:
                self._write()
                continue
            chunk = os.read(key.fd, 1 << 16)
            if key.fileobj is self._process.stderr:
                self._stderr = (self._stderr + chunk)[-KEPT_OF_STDERR:]
                if not chunk:
                    self._selector.unregister(key.fileobj)
            elif chunk:
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
        is not whole yet.
        """
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
