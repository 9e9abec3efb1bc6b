"""Arguments of commands as values: colours, vertices, numbers. What is wrong is said in GNU Go's words where clients
know them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zerogo import coords
from zerogo.errors import InputError
from zerogo.game import Colour

COLOURS = {"b": Colour.BLACK, "black": Colour.BLACK, "w": Colour.WHITE, "white": Colour.WHITE}
BAD_PLACE = "invalid color or coordinate"
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_REAL = re.compile(r"[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?")
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "on": True, "off": False}


def colour(text: str) -> Colour:
    """Returns the player of b, black, w or white in either case."""
    found = COLOURS.get(text.lower())
    if found is None:
        raise InputError(BAD_PLACE)
    return found


def vertex(text: str, size: int) -> int:
    """Returns the action of a vertex or `pass`, in either case."""
    try:
        return coords.from_gtp(text, size)
    except InputError:
        raise InputError(BAD_PLACE) from None


def point(text: str, size: int) -> int:
    """Returns the point of a vertex; a pass is none."""
    found = vertex(text, size)
    if found == size * size:
        raise InputError(BAD_PLACE)
    return found


def integer(text: str, name: str, low: int, high: int) -> int:
    """Returns a whole number from low to high."""
    if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
        raise InputError(f"{name} is {text!r}; allowed are whole numbers from {low} to {high}")
    return int(text)


def real(text: str, name: str, low: float, high: float) -> float:
    """Returns a number from low to high."""
    if not _REAL.fullmatch(text) or not low <= float(text) <= high:
        raise InputError(f"{name} is {text!r}; allowed are numbers from {low:g} to {high:g}")
    return float(text)


def truth(text: str, name: str) -> bool:
    """Returns the value of true or false (also 1, 0, on, off)."""
    found = _TRUTH.get(text.lower())
    if found is None:
        raise InputError(f"{name} is {text!r}; allowed are true and false")
    return found


def only(arguments: Sequence[str], usage: str, least: int, most: int | None = None) -> None:
    """Raises InputError where the number of arguments does not fit; usage: the command as one would write it. most:
    default the least.
    """
    if not least <= len(arguments) <= (least if most is None else most):
        raise InputError(f"syntax error; write: {usage}")


def pairs(arguments: Sequence[str], size: int, words: dict[str, int] | None = None) -> list[tuple[int, int]]:
    """Returns (colour, action) of `COLOUR VERTEX COLOUR VERTEX …`: colours 1 and 2, and those of other words such as
    {"e": 0}.
    """
    if len(arguments) % 2:
        raise InputError(BAD_PLACE)
    found = []
    for name, place in zip(arguments[::2], arguments[1::2], strict=True):
        number = (words or {}).get(name.lower())
        found.append((colour(name).value if number is None else number, vertex(place, size)))
    return found
