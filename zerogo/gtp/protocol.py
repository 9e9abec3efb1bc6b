"""Lines in, replies out and the values of arguments, as GTP 2 has them (Farnebäck, draft 2, sections 2.5 to 2.11).

A request is `[id] command [arguments]`; its reply is `=[id] text` or `?[id] message` and a blank line, which is why no
reply holds another one. A thread reads the lines, so that a search can see that the next one has come."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from zerogo.cli import LineQueue
from zerogo.errors import InputError, quote
from zerogo.game import Colour
from zerogo.players.katago import COLOUR_WORDS
from zerogo.rules import coords

INTERRUPT = re.compile(r"\s*#\s*interrupt\s*")  # GoGui's way to stop a genmove; a comment to all who don't know it
BAD_VERTEX = "invalid color or coordinate"  # GNU Go's words, which clients know
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "on": True, "off": False}
_ID = re.compile(r"[0-9]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_REAL = re.compile(r"[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?")


class Request(NamedTuple):
    """One line. id: the digits before the command, or empty; command: both as they were written."""

    id: str
    command: str
    arguments: list[str]


def parse(line: str) -> Request | None:
    """Returns the request of a line, None for a blank one or a comment alone. Control characters are dropped (so CRLF
    is LF) and byte order marks, tabs are spaces, and all from `#` on is a comment."""
    printable = "".join(sign for sign in line.replace("\t", " ") if sign >= " " and sign not in "\x7f\ufeff")
    words = printable.partition("#")[0].split()
    if not words:
        return None
    number = words.pop(0) if _ID.fullmatch(words[0]) else ""
    return Request(number, words[0] if words else "", words[1:])


class Input(LineQueue):
    """The lines that have come."""

    def asks_to_stop(self) -> bool:
        """Returns whether GoGui's `# interrupt` is among the lines that have come."""
        with self._waiting.mutex:
            return any(INTERRUPT.fullmatch(line) for line in self._waiting.queue if line is not None)


class Reply:
    """The reply to one request: `send` alone, or `begin`, any number of `line` and `end`, while the search runs."""

    def __init__(self, number: str, write: Callable[[str], None], source: Input) -> None:
        self._number, self._write = number, write
        self.interrupted = source.is_waiting
        self.has_begun = self.has_ended = False

    def send(self, text: str, sign: str = "=") -> None:
        """Writes the whole reply, `?` for a refusal, without blank lines; after a first one the text begins a line."""
        first, *rest = [row.rstrip() for row in text.splitlines()] or [""]
        self._write("\n".join([f"{sign}{self._number} {first}".rstrip(), *filter(None, rest)]) + "\n\n")

    def begin(self) -> None:
        """Writes `=ID`: from here on the command can't be refused any more."""
        assert not self.has_begun, "a reply begins once"
        self.has_begun = True
        self._write(f"={self._number}\n")

    def line(self, text: str) -> None:
        """Writes one line at once."""
        assert self.has_begun and not self.has_ended, "a line belongs between begin and end"
        assert text and "\n" not in text, "one line that is not blank"
        self._write(f"{text}\n")

    def end(self) -> None:
        """Writes the blank line that closes a reply of lines; a second call does nothing."""
        if self.has_begun and not self.has_ended:
            self.has_ended = True
            self._write("\n")


# Values in arguments; wrong ones raise InputError


def colour(text: str) -> Colour:
    """Returns the player of b, black, w or white in either case."""
    if text.lower() not in COLOUR_WORDS:
        raise InputError(BAD_VERTEX)
    return COLOUR_WORDS[text.lower()]


def vertex(text: str, size: int, may_pass: bool = True) -> int:
    """Returns the action of a vertex or `pass`, in either case."""
    with suppress(InputError):
        action = coords.from_gtp(text, size)
        if may_pass or action != size * size:
            return action
    raise InputError(BAD_VERTEX)


def moves(arguments: Sequence[str], size: int, other_colours: dict[str, int] | None = None) -> list[tuple[int, int]]:
    """Returns (colour, action) of `COLOUR VERTEX COLOUR VERTEX …`; colours are 1 and 2, and others such as {"e": 0}."""
    if len(arguments) % 2:
        raise InputError(BAD_VERTEX)
    others = other_colours or {}
    return [
        (others[word.lower()] if word.lower() in others else colour(word).value, vertex(place, size))
        for word, place in zip(arguments[::2], arguments[1::2], strict=True)
    ]


def integer(text: str, name: str, low: int, high: int) -> int:
    """Returns a whole number from low to high; name: of the argument, for the error."""
    if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
        raise InputError(f"{name} is {quote(text)}; allowed are whole numbers from {low} to {high}")
    return int(text)


def real(text: str, name: str, low: float, high: float) -> float:
    """Returns a number from low to high; name: of the argument, for the error."""
    if not _REAL.fullmatch(text) or not low <= float(text) <= high:
        raise InputError(f"{name} is {quote(text)}; allowed are numbers from {low:g} to {high:g}")
    return float(text)


def truth(text: str, name: str) -> bool:
    """Returns the value of true or false (also 1, 0, on, off)."""
    if text.lower() not in _TRUTH:
        raise InputError(f"{name} is {quote(text)}; allowed are true and false")
    return _TRUTH[text.lower()]
