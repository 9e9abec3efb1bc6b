"""One game as a file holds it: who played, under which rules, what stood on the board, the moves, and what was thought
of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from zerogo.rules import Rules

COLOURS = ("b", "w")
UNKNOWN_RESULT = "?"


@dataclass
class Edit:
    """Stones that are put down or taken off in the middle of a game, as one does in a commented game; history begins
    anew there.

    before: how many moves come before it. stones: point to colour, 0 (empty), 1 (black) or 2 (white). first: who moves
    next, "b" or "w", empty for whoever's turn it is."""

    before: int
    stones: dict[int, int]
    first: str = ""


@dataclass
class GameRecord:
    """One game as a file holds it.

    rules: size, komi and the rest. moves: actions in turn, point or size * size for a pass; Black's first unless
    `first` is "w". handicap: points of Black's stones before the first move, after which White usually moves first.
    result: SGF's RE, see `result_text`. comments: a text or None for each move, or fewer than the moves. event, round:
    of a match. date: YYYY-MM-DD, empty for today in UTC, None for unknown. comment: a text on the whole game.
    properties: more root properties, such as {"GN": "final"}; they win over all others.

    colours: "b" or "w" of each move, None where the sides take turns (also set to None where given so). setup: what
    stands on the board before the first move, rows from the top (0, 1, 2), None for the handicap stones alone. edits:
    changes in the middle, in order. winrates_black, scores_black, visits: Black's winrate in [0, 1] and lead in points
    after each move as the mover's search saw them, and its size; entries may be None, lists shorter than the moves.
    notes: what a reader had to assume, one sentence each; never written."""

    rules: Rules
    moves: list[int]
    result: str = UNKNOWN_RESULT
    black: str = "Black"
    white: str = "White"
    comments: list[str | None] = field(default_factory=list)
    event: str = ""
    round: str = ""
    date: str | None = ""
    comment: str = ""
    first: str = "b"
    handicap: list[int] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    colours: list[str] | None = None
    setup: list[list[int]] | None = None
    edits: list[Edit] = field(default_factory=list)
    winrates_black: list[float | None] = field(default_factory=list)
    scores_black: list[float | None] = field(default_factory=list)
    visits: list[int | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        if self.colours == alternating(self.first, len(self.moves)):
            self.colours = None

    def turns(self) -> list[str]:
        """Returns who played each move, "b" or "w"."""
        return alternating(self.first, len(self.moves)) if self.colours is None else list(self.colours)

    def start(self) -> list[list[int]]:
        """Returns what stands on the board before the first move, rows from the top: 0 empty, 1 black, 2 white."""
        size = self.rules.size
        if self.setup is not None:
            return [list(row) for row in self.setup]
        return [[int(row * size + column in self.handicap) for column in range(size)] for row in range(size)]


def alternating(first: str, number: int) -> list[str]:
    """Returns the colours of so many moves in turn, from `first` on."""
    other = "w" if first == "b" else "b"
    return [first if ply % 2 == 0 else other for ply in range(number)]


def result_text(score_black: float, by_resignation: bool = False) -> str:
    """Returns SGF's RE: "B+3.5", "W+2", "0" for a draw, "B+R" where White resigned.

    score_black: points, komi included; only its sign counts where someone resigned.
    """
    if score_black == 0:
        return "0"
    winner = "B" if score_black > 0 else "W"
    return f"{winner}+R" if by_resignation else f"{winner}+{abs(score_black):g}"


class Result(NamedTuple):
    """What an RE says. winner: "b", "w", or None for a draw and where nobody has won. points: of the winner, where they
    were counted.

    reason: "score", "resignation", "time", "forfeit", "draw", "void", or "unknown" where the text says nothing, or
    nothing more."""

    winner: str | None
    points: float | None
    reason: str


_WON = re.compile(r"(b|w|黑|白)(?:lack|hite)?\s*(?:\+|wins?\b|胜|勝)\s*(?:by\s+)?(.*)", re.IGNORECASE | re.DOTALL)
_POINTS = re.compile(r"(\d+(?:[.,]\d*)?)")
_REASONS = {
    "r": "resignation",
    "t": "time",
    "f": "forfeit",
    "中盘": "resignation",
    "中盤": "resignation",
    "不计点": "resignation",
}


def parse_result(text: str) -> Result:
    """Returns what an RE says, in the spellings that programs use ("B+3.5", "W+Resign", "Black+Time", "0", "Draw",
    "Void", "?").
    """
    plain = text.strip()
    lowered = plain.lower()
    if lowered in ("0", "draw", "jigo", "b+0", "w+0", "和棋"):
        return Result(None, 0.0, "draw")
    if lowered == "void":
        return Result(None, None, "void")
    match = _WON.match(plain.replace("中盘胜", "胜中盘").replace("中盤勝", "勝中盤"))
    if match is None:
        return Result(None, None, "unknown")
    winner = "b" if match[1].lower() in ("b", "黑") else "w"
    how = match[2].strip().lower()
    points = _POINTS.match(how)
    if points:
        return Result(winner, float(points[1].replace(",", ".")), "score")
    return Result(
        winner, None, next((reason for start, reason in _REASONS.items() if how.startswith(start)), "unknown")
    )


def rules_text(rules: Rules) -> str:
    """Returns the RU that programs understand: "Japanese" for territory, for area "Tromp-Taylor" with suicide and
    "Chinese" without.
    """
    if rules.scoring == "territory":
        return "Japanese"
    return "Tromp-Taylor" if rules.suicide else "Chinese"
