"""Groups: the parts that encoders are made of. Each shows one thing about a batch, on planes or as global inputs.

A group is asked for by its name, `stones`, or by its name and a number, `liberties:8`, where it comes in several
lengths."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from zerogo.errors import InputError
from zerogo.features.view import View


@dataclass(frozen=True)
class Group:
    """One part of an encoder: what its planes or global inputs are called, and the function that computes them.

    form: what `read` returns, zero off the board.
    * ROWS: bit rows int32 [B, c, N], for c planes.
    * COUNTS: a number int16 [B, N, N] for c planes, of which number v sets plane v - 1, any beyond c the last, 0 none.
    * VALUES: the planes themselves, [B, N, N, c], bool or float32.
    * GLOBALS: numbers of whole positions, float32 [B, g].

    tells_komi: whether a network that sees it knows the komi."""

    form: int
    names: tuple[str, ...]
    read: Callable[[View], Tensor]
    tells_komi: bool = False


@dataclass(frozen=True)
class Kind:
    """How groups of one name are made. most: the largest number that may follow the name, 0 where none may; default:
    the number where none is given. names, read: called with that number where there is one."""

    form: int
    names: Callable[[int], tuple[str, ...]]
    read: Callable[..., Tensor]
    default: int
    most: int
    tells_komi: bool


GROUPS: dict[str, Kind] = {}


def group(
    name: str,
    form: int,
    *names: str | Callable[[int], tuple[str, ...]],
    default: int = 0,
    most: int = 0,
    tells_komi: bool = False,
) -> Callable:
    """Enters the decorated function as the group of that name: View -> Tensor, or with `most` (View, number) -> Tensor.

    names: of the planes or inputs; with `most` a function that returns them for a number."""

    def enter(read: Callable[..., Tensor]) -> Callable[..., Tensor]:
        named = names[0] if callable(names[0]) else lambda number: names
        GROUPS[name] = Kind(form, named, read, default, most, tells_komi)
        return read

    return enter


def make_group(text: str) -> Group:
    """Returns the group that is asked for as `name` or `name:number`. Raises InputError for one that there is not."""
    name, colon, number = text.partition(":")
    kind = GROUPS.get(name)
    if kind is None:
        raise InputError(f"features.encoder names the plane group {name!r}; allowed are {', '.join(sorted(GROUPS))}")
    if colon and not kind.most:
        raise InputError(f"features.encoder names the plane group {text!r}; {name} takes no number")
    if colon and not (number.isascii() and number.isdigit() and 1 <= int(number) <= kind.most):
        raise InputError(
            f"features.encoder names the plane group {text!r}; the number is a whole one from 1 to {kind.most}"
        )
    length = int(number) if colon else kind.default
    read = partial(kind.read, number=length) if kind.most else kind.read
    return Group(kind.form, tuple(kind.names(length)), read, kind.tells_komi)


def one_hot(what: str) -> Callable[[int], tuple[str, ...]]:
    """Returns what names the planes for 1, 2, … and `most` or more of something."""
    return lambda most: (*(f"{what} {number}" for number in range(1, most)), f"{what} {most} or more")
