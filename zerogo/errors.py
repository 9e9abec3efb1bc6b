"""The exceptions that are no bugs: bad input, and a signal that ends the process."""

import contextlib
import reprlib
import signal
from collections.abc import Iterator
from typing import Any

MOST_QUOTED = 80  # characters of what was sent, in a message
LONGEST_REASON = 500  # characters of another library's error, in a message
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = MOST_QUOTED


def quote(value: Any) -> str:
    """Returns how a message quotes what a stranger sent: its repr, in at most `MOST_QUOTED` characters."""
    text = _REPR.repr(value)
    return text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 1]}…"


def shorten_path(path: Any) -> str:
    """Returns how a message names a path: as it is, or the last `MOST_QUOTED` characters of it."""
    return str(path) if len(str(path)) <= MOST_QUOTED else f"…{str(path)[1 - MOST_QUOTED :]}"


def one_line(error: object) -> str:
    """Returns how a message names another library's error: its text in one line of at most `LONGEST_REASON`
    characters, or its type if it has none; of an error of the disk the file and the reason."""
    is_of_disk = isinstance(error, OSError) and error.strerror and error.filename is not None
    text = f"{error.filename}: {error.strerror}" if is_of_disk else str(error)
    return " ".join(text.split())[:LONGEST_REASON] or type(error).__name__


class InputError(ValueError):
    """Bad input (config key, checkpoint, shard, SGF, argument): one sentence that names the value, the place and what
    is allowed.

    Scripts print the sentence to stderr and exit with status 2; a traceback is never shown for it."""

    MOST = 2000  # letters; of a longer sentence, which quotes what was given, the middle is left out

    def __init__(self, sentence: str = "") -> None:
        half = self.MOST // 2
        super().__init__(sentence if len(sentence) <= self.MOST else f"{sentence[:half]} … {sentence[-half:]}")


@contextlib.contextmanager
def refuse_os_errors(what: str) -> Iterator[None]:
    """Turns an OSError of the block into InputError. what: could not be done, such as "cannot write games/1.sgf"."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}") from error


class Interrupted(KeyboardInterrupt):
    """A signal asked the process to leave. number: of the signal; scripts exit with 128 more, as shells report it. why:
    what else there is to say."""

    def __init__(self, number: int, why: str = "") -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}{why}")
        self.number = number
