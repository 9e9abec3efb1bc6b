"""Lines in and replies out, as the GTP 2 specification has them (Farnebäck, draft 2, sections 2.5 to 2.7).

A request is `[id] command [arguments]`; its reply is `=[id] text` or `?[id] message` and a blank line, which is why no
reply holds another one. Lines are read by a thread of its own, so that a search can see that the next one has come."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TextIO

INTERRUPT = re.compile(r"\s*#\s*interrupt\s*")  # GoGui's way to stop a genmove; a comment to all who don't know it
_ID = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Request:
    """What one line asks for. id: the digits before the command, as they were written, or empty. command: as written,
    case and all.
    """

    id: str
    command: str
    arguments: list[str]


def parse(line: str) -> Request | None:
    """Returns the request of a line, None for a blank one or a comment alone.

    Control characters are dropped (so CRLF is LF), tabs are spaces, and all from `#` on is a comment.
    """
    printable = "".join(
        " " if sign == "\t" else sign for sign in line if sign == "\t" or (sign >= " " and sign != "\x7f")
    )
    words = printable.partition("#")[0].split()
    if not words:
        return None
    number = words.pop(0) if _ID.fullmatch(words[0]) else ""
    return Request(number, words[0] if words else "", words[1:])


class Input:
    """The lines that have come and are not yet answered. A thread fills it, one reader takes; `note` sees what is
    taken, for a log.
    """

    _END = None

    def __init__(self, lines: Iterable[str], note: Callable[[str], None] | None = None) -> None:
        self._lines, self._note = lines, note
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._interrupts = 0  # among the waiting lines
        self._lock = threading.Lock()
        self._ended = False
        threading.Thread(target=self._read, name="gtp input", daemon=True).start()

    def take(self) -> str | None:
        """Returns the next line as soon as there is one, None at the end of the input."""
        if self._ended:
            return None
        line = self._waiting.get()
        if line is self._END:
            self._ended = True
            return None
        if INTERRUPT.fullmatch(line):
            with self._lock:
                self._interrupts -= 1
        if self._note is not None:
            self._note(line)
        return line

    def is_waiting(self) -> bool:
        """Says whether another line, even an empty one, or the end of the input has come."""
        return self._ended or not self._waiting.empty()

    def asks_to_stop(self) -> bool:
        """Says whether GoGui's `# interrupt` is among the lines that have come."""
        return self._interrupts > 0

    def _read(self) -> None:
        try:
            for line in self._lines:
                if INTERRUPT.fullmatch(line):
                    with self._lock:
                        self._interrupts += 1
                self._waiting.put(line)
        except (OSError, ValueError):
            pass  # a terminal that has gone is the end of the input
        finally:
            self._waiting.put(self._END)


class Output:
    """The replies. Everything is flushed at once; `note` sees what is written, for a log."""

    def __init__(self, file: TextIO, note: Callable[[str], None] | None = None) -> None:
        self._file, self._note = file, note

    def reply(self, number: str, text: str) -> None:
        """Writes a reply of success."""
        self._reply("=", number, text)

    def refuse(self, number: str, text: str) -> None:
        """Writes a reply of failure."""
        self._reply("?", number, text)

    def write(self, text: str) -> None:
        """Writes text as it is and flushes."""
        self._file.write(text)
        self._file.flush()
        if self._note is not None:
            self._note(text)

    def _reply(self, sign: str, number: str, text: str) -> None:
        """Writes one reply; blank lines, which would end it early, are left out. A text that begins with a line end
        begins a line below.
        """
        rows = [row.rstrip() for row in text.splitlines()]
        first, rest = (rows[0], rows[1:]) if rows else ("", [])
        self.write("\n".join([f"{sign}{number} {first}".rstrip(), *(row for row in rest if row)]) + "\n\n")


class Stream:
    """The reply of a command that goes on until the next line comes: `begin`, any number of `line`, `end`."""

    def __init__(self, number: str, output: Output, source: Input) -> None:
        self._number, self._output, self._source = number, output, source
        self.has_begun = self.has_ended = False

    def begin(self) -> None:
        """Writes `=ID`: from here on the command can't be refused any more."""
        assert not self.has_begun, "a reply begins once"
        self.has_begun = True
        self._output.write(f"={self._number}\n")

    def line(self, text: str) -> None:
        """Writes one line at once."""
        assert self.has_begun and not self.has_ended, "a line belongs between begin and end"
        assert text and "\n" not in text, "one line that is not blank"
        self._output.write(f"{text}\n")

    def end(self) -> None:
        """Writes the blank line that closes the reply; a second call does nothing."""
        if self.has_begun and not self.has_ended:
            self.has_ended = True
            self._output.write("\n")

    def interrupted(self) -> bool:
        """Says whether another line, even an empty one, or the end of the input is waiting."""
        return self._source.is_waiting()
