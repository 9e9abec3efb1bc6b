"""Text diagrams of boards for the tests: `.` empty, `X` black, `O` white, one line for a row, the top row first.

Blanks between points and around lines do not matter, so that a diagram may be indented and spaced as it reads best."""

from collections.abc import Iterable

SYMBOLS = ".XO"  # index = colour: 0 empty, 1 black, 2 white


def parse(text: str) -> list[list[int]]:
    """Returns the stones of a diagram: rows from the top, 0 empty, 1 black, 2 white; asserts that it is a square of
    known symbols."""
    lines = ["".join(line.split()) for line in text.strip().splitlines()]
    assert all(len(line) == len(lines) for line in lines), f"not a square diagram:\n{text}"
    assert set("".join(lines)) <= set(SYMBOLS), f"unknown symbol; known are {SYMBOLS!r}:\n{text}"
    return [[SYMBOLS.index(symbol) for symbol in line] for line in lines]


def show(stones: Iterable[Iterable[int]]) -> str:
    """Returns the diagram of stones (rows from the top; lists, arrays or a [N, N] tensor), the inverse of `parse`."""
    return "\n".join("".join(SYMBOLS[int(colour)] for colour in row) for row in stones)
