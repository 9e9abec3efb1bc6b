"""Pinned positions and sequences that go wrong easily (data/tables/pinned.json), for `game`, with which `board` agrees
at every ply."""

from dataclasses import dataclass
from itertools import count

from tables import tables


@dataclass(frozen=True)
class Case:
    """A start, moves that are legal under every ko rule, and one more move that is legal only under some.

    diagram: the start. to_play: 1 or 2. moves: GTP vertices. last: the vertex in question.
    legal_under: the ko rules that allow it. after: the diagram after it where it is legal ("" is not told). suicide:
    whether that is allowed."""

    diagram: str
    to_play: int
    moves: str
    last: str
    legal_under: list[str]
    after: str = ""
    suicide: bool = False


# Action sequences of exactly 1, 2, 3, … actions from the empty 2x2 board without suicide, counted by two independent
# programs.
PERFT_2X2 = {
    "positional": [5, 21, 68, 156, 316, 604, 1088, 2184, 4184, 8024, 13800, 23560],
    "situational": [5, 21, 68, 156, 316, 604, 1112, 2312, 4544, 8800, 15248, 26456],
    "simple": [5, 21, 68, 156, 316, 604, 1168, 2592, 5768, 12120, 24248, 47840],
}
# "send two, return one" was tried with GNU Go; in "triple ko" the sixth move makes the start again.
CASES = {
    name: Case(**fields | {key: "\n".join(fields.get(key, ())) for key in ("diagram", "after")})
    for name, fields in tables("pinned").items()
}


def spiral(size: int) -> tuple[list[list[int]], tuple[int, int]]:
    """Returns stones and an empty point: a spiral of Black's from the corner to the centre, White's string between its
    arms, and the last liberty of both, at the inner end of the spiral: White plays there and takes all of Black's in
    one move."""
    black = [(0, 0)]
    row, column, down, right = 0, 0, 0, 1
    inside = range(size)
    for _ in count():
        ahead, beyond = (row + down, column + right), (row + 2 * down, column + 2 * right)
        if ahead[0] not in inside or ahead[1] not in inside or beyond in black:
            down, right = right, -down
            if (row + 2 * down, column + 2 * right) in black:
                break
            continue
        row, column = ahead
        black.append(ahead)
    last = black.pop()
    stones = [[1 if (r, c) in black else 0 if (r, c) == last else 2 for c in inside] for r in inside]
    return stones, last
