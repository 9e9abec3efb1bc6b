"""Groups: the parts that encoders are made of. Each shows one thing about a batch, on planes or as global inputs.

A group is asked for by its name, `liberties`, or by its name and a number, `liberties:8`, where it comes in several
lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from zerogo.errors import InputError
from zerogo.features.view import View


class Form(Enum):
    """How a group gives what it shows, so that each kind is unpacked in the fastest way.

    ROWS: bit rows int32 [B, N, c]. COUNTS: a number int16 or uint8 [B, N, N] for c planes, of which number v sets plane
    v - 1, any beyond c the last, 0 none. VALUES: the planes themselves, [B, N, N, c], bool or float32. GLOBALS: numbers
    of whole positions, float32 [B, g]."""

    ROWS = "rows"
    COUNTS = "counts"
    VALUES = "values"
    GLOBALS = "globals"


@dataclass(frozen=True)
class Group:
    """One part of an encoder. names: of its c planes, or of its g global inputs. read: gives them in the `form`, zero
    off the board.

    history: earlier positions that it looks at. tells_komi: whether a network that sees it knows the komi.
    """

    form: Form
    names: tuple[str, ...]
    read: Callable[[View], Tensor]
    history: int = 0
    tells_komi: bool = False

    @property
    def width(self) -> int:
        """How many planes or global inputs it gives."""
        return len(self.names)


@dataclass(frozen=True)
class Kind:
    """How groups of one name are made. meaning: one line for people. lengths: the numbers that may follow the name,
    default first; none where it takes none. make: called with the number, 0 where it takes none."""

    meaning: str
    make: Callable[[int], Group]
    default: int = 0
    most: int = 0


GROUPS: dict[str, Kind] = {}


def one(name: str, meaning: str, form: Form, names: tuple[str, ...], tells_komi: bool = False) -> Callable:
    """Enters the decorated function, View -> Tensor, as the group of that name."""

    def enter(read: Callable[[View], Tensor]) -> Callable[[View], Tensor]:
        GROUPS[name] = Kind(meaning, lambda _: Group(form, names, read, tells_komi=tells_komi))
        return read

    return enter


def several(name: str, meaning: str, default: int, most: int) -> Callable:
    """Enters the decorated function, which makes a group of a given length, under that name."""

    def enter(make: Callable[[int], Group]) -> Callable[[int], Group]:
        GROUPS[name] = Kind(meaning, make, default, most)
        return make

    return enter


def make_group(text: str) -> Group:
    """Returns the group that is asked for as `name` or `name:number`. Raises InputError for one that there is not."""
    name, colon, number = text.partition(":")
    kind = GROUPS.get(name)
    if kind is None:
        raise InputError(f"features.encoder names the plane group {name!r}; allowed are {', '.join(sorted(GROUPS))}")
    if not colon:
        return kind.make(kind.default)
    if not kind.most:
        raise InputError(f"features.encoder names the plane group {text!r}; {name} takes no number")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= kind.most:
        raise InputError(
            f"features.encoder names the plane group {text!r}; the number is a whole one from 1 to {kind.most}"
        )
    return kind.make(int(number))
