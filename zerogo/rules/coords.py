"""The one home of point, row and column, GTP vertex and SGF letters, for boards of side 1 to 25.

Points are row-major from the top left: point = row * size + column, and pass is size * size. Row 0 is the top of the
board. GTP counts rows from the bottom and leaves out the letter I, so on 19x19 `A1` is (row 18, column 0) and `T19` is
(row 0, column 18). SGF writes column then row, both from the top left, so `aa` is (row 0, column 0)."""

import re
from collections.abc import Iterable

from zerogo.errors import InputError, quote

GTP_COLUMNS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"  # no I, which is too like J and 1
SGF_LETTERS = "abcdefghijklmnopqrstuvwxy"
GTP_PASS = "pass"
SGF_PASS = ""
SGF_OLD_PASS = "tt"  # FF[3], still written by many programs; on boards larger than 19 a point (FF[4], "Move", Go)
_VERTEX = re.compile(r"([A-HJ-Z])([0-9]{1,2})", re.IGNORECASE | re.ASCII)


def point(row: int, column: int, size: int) -> int:
    """Returns the index of a point, 0 to size * size - 1; raises `InputError` where it is off the board."""
    if not (0 <= row < size and 0 <= column < size):
        where = f"row {row}, column {column} is off the board"
        raise InputError(f"point: {where}; both go from 0 to {size - 1} on {size}x{size}")
    return row * size + column


def on_other_board(action: int, size: int, other_size: int) -> int:
    """Returns the action on a board of another side with the same top left corner; raises `InputError` where it has no
    such point."""
    return other_size * other_size if action == size * size else point(*row_col(action, size), other_size)


def listed(sizes: Iterable[int]) -> str:
    """Returns board sides as a person lists them: "9x9", "7x7 and 9x9", "7x7, 9x9 and 13x13"."""
    *others, last = [f"{size}x{size}" for size in sorted(sizes)]
    return f"{', '.join(others)} and {last}" if others else last


def row_col(point: int, size: int) -> tuple[int, int]:
    """Returns (row, column) of a point; raises `InputError` where it is off the board (a pass has neither)."""
    if not 0 <= point < size * size:
        raise InputError(f"point: {point} is off the board; points go from 0 to {size * size - 1} on {size}x{size}")
    return divmod(point, size)


def to_gtp(action: int, size: int) -> str:
    """Returns the GTP vertex of a point index, as `D4`, or `pass` for size * size."""
    if action == size * size:
        return GTP_PASS
    row, column = row_col(action, size)
    return f"{GTP_COLUMNS[column]}{size - row}"


def vertices(actions: Iterable[int], size: int) -> str:
    """Returns the GTP vertices of actions, separated by spaces."""
    return " ".join(to_gtp(action, size) for action in actions)


def from_gtp(text: str, size: int) -> int:
    """Returns the action of a GTP vertex in either case: a point index, or size * size for `pass`.

    Raises `InputError` for anything else; `resign` is a player's move, not a place, so it is no vertex."""
    if text.lower() == GTP_PASS:
        return size * size
    if match := _VERTEX.fullmatch(text):
        row, column = size - int(match[2]), GTP_COLUMNS.index(match[1].upper())
        if 0 <= row < size and column < size:
            return row * size + column
    last = f"{GTP_COLUMNS[size - 1]}{size}"
    allowed = f"allowed on {size}x{size} are A1 to {last} (no column I) and pass"
    raise InputError(f"GTP vertex: {quote(text)} is not one; {allowed}")


def to_sgf(action: int, size: int) -> str:
    """Returns the two SGF letters of a point index, as `dp`, or the empty text for a pass (size * size)."""
    if action == size * size:
        return SGF_PASS
    row, column = row_col(action, size)
    return SGF_LETTERS[column] + SGF_LETTERS[row]


def from_sgf(text: str, size: int) -> int:
    """Returns the action of an SGF move: a point index, or size * size for a pass, which is empty or up to 19x19 `tt`.

    Raises `InputError` for anything else; capitals name lines beyond the 26th of larger boards, so case matters.
    """
    if text == SGF_PASS or (text == SGF_OLD_PASS and size <= 19):
        return size * size
    if len(text) == 2 and all(letter in SGF_LETTERS[:size] for letter in text):
        return SGF_LETTERS.index(text[1]) * size + SGF_LETTERS.index(text[0])
    last = SGF_LETTERS[size - 1]
    passes = "the empty text or tt" if size <= 19 else "the empty text"
    allowed = f"allowed on {size}x{size} are aa to {last}{last}, and {passes} for a pass"
    raise InputError(f"SGF point: {quote(text)} is not one; {allowed}")


def max_fixed_handicap(size: int) -> int:
    """Returns how many fixed points for handicap stones a board has."""
    return 0 if size < 7 else 4 if size == 7 or size % 2 == 0 else 9


def fixed_handicap(size: int, stones: int) -> list[int]:
    """Returns the points of GTP's fixed handicap (GTP 2 specification, 4.1.1): none for 0 stones, D4 and Q16 for 2 on
    19x19.

    2 to 9 stones on odd boards from 9x9, 2 to 4 on 7x7 and on even boards from 8x8; anything else raises `InputError`.
    """
    highest = max_fixed_handicap(size)
    if stones != 0 and not 2 <= stones <= highest:
        small = "a board so small has no fixed points, so only 0 is allowed"
        allowed = f"allowed are 0 and 2 to {highest}" if highest else small
        raise InputError(f"handicap: {stones} stones on {size}x{size}; {allowed}")
    near = 3 if size >= 13 else 2
    far, middle = size - 1 - near, size // 2
    corners = [(far, near), (near, far), (near, near), (far, far)]
    sides = [(middle, near), (middle, far), (far, middle), (near, middle)]
    chosen = corners[:stones] + sides[: max(0, stones - 4) // 2 * 2] + [(middle, middle)] * (stones > 4 and stones % 2)
    return [row * size + column for row, column in chosen]
