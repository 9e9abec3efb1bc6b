"""Pinned positions and sequences that go wrong easily; `game` and `board` must agree on each."""

from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True)
class Case:
    """A start, moves that are legal under every ko rule, and one more move that is legal only under some.

    diagram: the start ("" is an empty 9x9). to_play: 1 or 2. moves: GTP vertices. last: the vertex in question.
    legal_under: the ko rules that allow it. after: the diagram after it where it is legal ("" is not told). suicide:
    whether that is allowed."""

    diagram: str
    to_play: int
    moves: str
    last: str
    legal_under: tuple[str, ...]
    after: str = ""
    suicide: bool = False


# Action sequences of exactly 1, 2, 3, … actions from the empty 2x2 board without suicide, counted by two independent
# programs.
PERFT_2X2 = {
    "positional": [5, 21, 68, 156, 316, 604, 1088, 2184, 4184, 8024, 13800, 23560],
    "situational": [5, 21, 68, 156, 316, 604, 1112, 2312, 4544, 8800, 15248, 26456],
    "simple": [5, 21, 68, 156, 316, 604, 1168, 2592, 5768, 12120, 24248, 47840],
}
ALL, BY_MOVER, NO_SUPERKO = ("simple", "positional", "situational"), ("simple", "situational"), ("simple",)
EMPTY_9 = "\n".join(["." * 9] * 9)

THREE_KOS = """
. X O . . . . . .
X O . O . . . . .
. X O . . . . . .
. X O . . . . . .
X . X O . . . . .
. X O . . . . . .
. X O . . . . . .
X O . O . . . . .
. X O . . . . . .
"""

CORNER = ". . O . . \n O O . . . \n . . . . . \n . . . . . \n . . . . ."
SMALL_CORNER = ". O . \n O . . \n . . ."
KO = ". X O . \n X O . O \n . X O . \n . . . ."
SNAPBACK = ". . X . . \n O O X . . \n X X X . . \n . . . . . \n . . . . ."

CASES = {
    "ko retake": Case(KO, 1, "C3", "B3", ()),
    "ko retake after a threat": Case(KO, 1, "C3 D1 A1", "B3", ALL, ". X O . \n X O . O \n . X O . \n X . . O"),
    # White takes the stone thrown in, and Black takes three back: the position is a new one.
    "snapback": Case(SNAPBACK, 1, "A5 B5", "A5", ALL, SNAPBACK.replace(". . X", "X . X", 1).replace("O O", ". .")),
    # ECOSYSTEM 1.4, tried with GNU Go: the position that comes back had White to move, Black to move.
    "send two, return one, White had moved": Case(EMPTY_9, 1, "A2 C2 E5 D1 E6 B1 B2 A1 C1", "B1", BY_MOVER),
    "send two, return one, Black had moved": Case(EMPTY_9, 1, "A2 C2 B2 D1 E6 B1 pass A1 C1", "B1", NO_SUPERKO),
    # Each move takes one of three kos; the sixth one makes the start again.
    "triple ko": Case(THREE_KOS, 1, "C8 B5 C2 B8 C5", "B2", NO_SUPERKO, THREE_KOS),
    "suicide of two stones": Case(CORNER, 1, "A5 pass", "B5", BY_MOVER, CORNER, True),
    # White passed at the start, so that the position with White to move has been before.
    "suicide of two stones that repeats the situation": Case(CORNER, 2, "pass A5 pass", "B5", NO_SUPERKO, CORNER, True),
    "suicide of two stones, new position": Case(CORNER, 1, "A5 E1", "B5", ALL, CORNER[:-1] + "O", True),
    "suicide of one stone": Case(SMALL_CORNER, 1, "", "A3", BY_MOVER, SMALL_CORNER, True),
    "suicide of one stone that repeats the situation": Case(SMALL_CORNER, 2, "pass", "A3", NO_SUPERKO, "", True),
    "suicide where it is not allowed": Case(CORNER, 1, "A5 E1", "B5", ()),
    "suicide of one stone where it is not allowed": Case(SMALL_CORNER, 1, "", "A3", ()),
}  # fmt: skip


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
