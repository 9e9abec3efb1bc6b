"""What came of a match, on the host: every game of it, and the counts that a person asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from zerogo import elo
from zerogo.rules import Rules

NO_MOVE = -1


@dataclass(frozen=True)
class MatchResult:
    """G games of player A against player B. Arrays are numpy on the host; one entry is one game, by its number.

    score_black: float32 [G], points, komi included. area_black: int64 [G], Black's points of the final board as it is scored, before komi.
    a_is_black: bool [G]. lengths: int64 [G], plies. capped: bool [G], ended by the move cap. moves: int16 [G, T], actions by ply, -1 after
    the end. stones: int8 [G, N, N], the final boards. first_game: the number of the first game here. is_self: both players are one and the
    same. is_paired: games 2k and 2k + 1 share an opening, with colours swapped.
    """

    name_a: str
    name_b: str
    rules: Rules
    seed: int
    opening_plies: int
    is_self: bool
    is_paired: bool
    first_game: int
    score_black: np.ndarray
    area_black: np.ndarray
    a_is_black: np.ndarray
    lengths: np.ndarray
    capped: np.ndarray
    moves: np.ndarray
    stones: np.ndarray

    @property
    def num_games(self) -> int:
        return len(self.score_black)

    @property
    def score_a(self) -> np.ndarray:
        """Points for A: float32 [G], komi included."""
        return np.where(self.a_is_black, self.score_black, -self.score_black)

    @property
    def points_a(self) -> np.ndarray:
        """1 where A won, 0.5 for a draw, 0 where B won: float64 [G]."""
        return (np.sign(self.score_a).astype(np.float64) + 1) / 2

    @property
    def wins(self) -> int:
        """Games that A won."""
        return int((self.score_a > 0).sum())

    @property
    def draws(self) -> int:
        return int((self.score_a == 0).sum())

    @property
    def losses(self) -> int:
        """Games that B won."""
        return int((self.score_a < 0).sum())

    def by_colour(self, a_is_black: bool) -> tuple[int, int, int]:
        """Returns A's (wins, draws, losses) as Black, or as White."""
        scores = self.score_a[self.a_is_black == a_is_black]
        return int((scores > 0).sum()), int((scores == 0).sum()), int((scores < 0).sum())

    @property
    def win_rate(self) -> float:
        """A's points a game, 0 to 1; nan without games."""
        return float(self.points_a.mean()) if self.num_games else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of A's win rate; where games are paired, it heeds that those of a pair depend on each other."""
        if not self.is_paired:
            return elo.wilson_interval(float(self.points_a.sum()), self.num_games)
        pairs, singles = self.pair_points()
        return elo.pair_interval(pairs, singles)

    def pair_points(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns A's points in each whole pair, 0 to 2, and in games whose partner is not among these."""
        points = self.points_a
        begin = self.first_game % 2
        end = begin + (self.num_games - begin) // 2 * 2
        return points[begin:end].reshape(-1, 2).sum(1), np.concatenate([points[:begin], points[end:]])

    @property
    def elo_difference(self) -> tuple[float, float, float]:
        """A's Elo less B's, and its 95 % interval; infinite where one won all."""
        return elo.elo_difference(float(self.points_a.sum()), self.num_games, self.interval)

    @property
    def mean_score(self) -> float:
        """A's mean score in points, komi included."""
        return float(self.score_a.mean())

    @property
    def black_win_rate(self) -> float:
        """Black's points a game, 0 to 1, draws as half."""
        return float(((np.sign(self.score_black) + 1) / 2).mean())

    @property
    def whole_board_black(self) -> float:
        """Share of games at whose end every point of the board was Black's."""
        return float((self.area_black == self.rules.size**2).mean())

    @property
    def num_different_games(self) -> int:
        """Number of games that differ in their moves."""
        return len(np.unique(self.moves, axis=0))

    def summary(self) -> dict[str, Any]:
        """Returns the counts as plain values; what is infinite is None."""
        difference = [value if math.isfinite(value) else None for value in self.elo_difference]
        return {
            "players": [self.name_a, self.name_b],
            "games": self.num_games,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "as_black": list(self.by_colour(True)),
            "as_white": list(self.by_colour(False)),
            "win_rate": self.win_rate,
            "win_rate_interval": list(self.interval),
            "elo_difference": difference[0],
            "elo_interval": difference[1:],
            "mean_score": self.mean_score,
            "black_win_rate": self.black_win_rate,
            "whole_board_black": self.whole_board_black,
            "different_games": self.num_different_games,
            "mean_length": float(self.lengths.mean()),
            "capped": int(self.capped.sum()),
            "seed": self.seed,
            "opening_plies": self.opening_plies,
        }

    def lines(self) -> list[str]:
        """Returns what a person wants to read: who won, as which colour, by how much, how sure."""
        low, high = (100 * end for end in self.interval)
        counts = f"{self.wins} won, {self.losses} lost, {self.draws} drawn of {self.num_games}"
        head = f"{self.name_a} against {'itself, as Black' if self.is_self else self.name_b}"
        lines = [f"{head}: {counts}: {100 * self.win_rate:.1f} % (95 % interval {low:.1f} to {high:.1f} %)"]
        if not self.is_self:
            for colour, is_black in (("Black", True), ("White", False)):
                wins, draws, losses = self.by_colour(is_black)
                if wins + draws + losses:
                    lines.append(f"  as {colour}: {wins} won, {losses} lost, {draws} drawn")
        whole = f"Black owned the whole board in {100 * self.whole_board_black:.0f} % of the games"
        lines.append(f"  mean score {self.mean_score:+.1f} points; {whole}")
        capped = f"; {int(self.capped.sum())} ended at the move cap" if self.capped.any() else ""
        lines.append(f"  {self.num_different_games} of {self.num_games} games differ; {self.lengths.mean():.0f} plies a game{capped}")
        return lines


def joined(parts: list[MatchResult]) -> MatchResult:
    """Returns the consecutive parts of one match as one result."""
    if len(parts) == 1:
        return parts[0]
    names = ("score_black", "area_black", "a_is_black", "lengths", "capped", "moves", "stones")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    others = {name: value for name, value in vars(parts[0]).items() if name not in names}
    return MatchResult(**others, **arrays)
