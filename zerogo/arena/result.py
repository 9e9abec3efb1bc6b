"""What came of a match, on the host: every game of it, and the counts that a person asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zerogo import elo
from zerogo.rules import Rules

NO_MOVE = -1
RESIGNED = "resigned"
FORFEIT = "forfeit"
SAME_SCORE = 0.01  # points: an engine that writes one digit agrees


@dataclass(frozen=True)
class Stop:
    """Why a game ended before its board could be counted. kind: RESIGNED or FORFEIT. black_lost: who gave up or was at
    fault.

    reason: what happened in a few words, without the player's name, such as "no answer to 'genmove b' within 60 s".
    """

    kind: str
    black_lost: bool
    reason: str = ""


@dataclass(frozen=True)
class Played:
    """One finished game. number: of the match. moves: actions by ply. score_black: points, komi included; nan where it
    was stopped.

    area_black: Black's points of the final board as it is scored, before komi. capped: ended by the move cap. stones:
    int8 [N, N], the final board. stop: None where the board was counted. told: the score by players who say one, such
    as {"gnugo:10": "B+3.5"}."""

    number: int
    a_is_black: bool
    moves: list[int]
    score_black: float
    area_black: int
    capped: bool
    stones: np.ndarray
    stop: Stop | None = None
    told: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MatchResult:
    """G games of player A against player B. Arrays are numpy on the host; one entry is one game, by its number.

    score_black: float32 [G], points, komi included; nan where a game was resigned or forfeited. area_black: int64 [G],
    Black's points of the final board as it is scored, before komi. a_is_black: bool [G]. lengths: int64 [G], plies.
    capped: bool [G], ended by the move cap. moves: int16 [G, T], actions by ply, -1 after the end. stones: int8 [G, N,
    N], the final boards. first_game: the number of the first game here. is_self: both players are one and the same.
    is_paired: games 2k and 2k + 1 share an opening, with colours swapped. stops: why games ended without being counted,
    by their index here. told: what players said of the score, by index and player's name."""

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
    stops: dict[int, Stop] = field(default_factory=dict)
    told: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def num_games(self) -> int:
        return len(self.score_black)

    @property
    def score_a(self) -> np.ndarray:
        """Points for A: float32 [G], komi included; nan where a game was not counted."""
        return np.where(self.a_is_black, self.score_black, -self.score_black)

    @property
    def outcome_black(self) -> np.ndarray:
        """1 where Black won, however the game ended, 0 for a draw, -1 where White won: int8 [G]."""
        outcome = np.sign(np.nan_to_num(self.score_black)).astype(np.int8)
        for game, stop in self.stops.items():
            outcome[game] = -1 if stop.black_lost else 1
        return outcome

    @property
    def outcome_a(self) -> np.ndarray:
        """1 where A won, 0 for a draw, -1 where B won: int8 [G]."""
        return np.where(self.a_is_black, self.outcome_black, -self.outcome_black)

    @property
    def points_a(self) -> np.ndarray:
        """1 where A won, 0.5 for a draw, 0 where B won: float64 [G]."""
        return (self.outcome_a.astype(np.float64) + 1) / 2

    @property
    def wins(self) -> int:
        """Games that A won."""
        return int((self.outcome_a > 0).sum())

    @property
    def draws(self) -> int:
        return int((self.outcome_a == 0).sum())

    @property
    def losses(self) -> int:
        """Games that B won."""
        return int((self.outcome_a < 0).sum())

    def by_colour(self, a_is_black: bool) -> tuple[int, int, int]:
        """Returns A's (wins, draws, losses) as Black, or as White."""
        outcomes = self.outcome_a[self.a_is_black == a_is_black]
        return int((outcomes > 0).sum()), int((outcomes == 0).sum()), int((outcomes < 0).sum())

    @property
    def win_rate(self) -> float:
        """A's points a game, 0 to 1; nan without games."""
        return float(self.points_a.mean()) if self.num_games else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of A's win rate; where games are paired, it heeds that those of a pair depend on each
        other.
        """
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
    def counted(self) -> np.ndarray:
        """Whether the final board was counted, which it is not where someone resigned or was at fault: bool [G]."""
        return np.array([game not in self.stops for game in range(self.num_games)], dtype=bool)

    @property
    def mean_score(self) -> float:
        """A's mean score in points, komi included, over the games that were counted; nan where none was."""
        scores = self.score_a[self.counted]
        return float(scores.mean()) if len(scores) else math.nan

    @property
    def black_win_rate(self) -> float:
        """Black's points a game, 0 to 1, draws as half."""
        return float(((self.outcome_black.astype(np.float64) + 1) / 2).mean())

    @property
    def whole_board_black(self) -> float:
        """Share of games at whose end every point of the board was Black's."""
        return float(((self.area_black == self.rules.size**2) & self.counted).mean())

    @property
    def num_different_games(self) -> int:
        """Number of games that differ in their moves."""
        return len(np.unique(self.moves, axis=0))

    def loser_is_a(self, game: int) -> bool:
        """Says whether A is who resigned or was at fault in a stopped game, by its index here."""
        return self.stops[game].black_lost == bool(self.a_is_black[game])

    def stopped(self, kind: str) -> tuple[int, int]:
        """Returns in how many games A, and B, resigned or was at fault: kind RESIGNED or FORFEIT."""
        by_a = [self.loser_is_a(game) for game, stop in self.stops.items() if stop.kind == kind]
        return sum(by_a), len(by_a) - sum(by_a)

    def agreement(self, name: str) -> tuple[int, int, int]:
        """Returns how often a player's own score equalled the referee's, how often it named the same winner, and of how
        many it said.
        """
        said = [
            (told_score(told[name]), float(self.score_black[game])) for game, told in self.told.items() if name in told
        ]
        said = [(own, counted) for own, counted in said if own is not None and not math.isnan(counted)]
        same = sum(abs(own - counted) < SAME_SCORE for own, counted in said)
        return same, sum(np.sign(own) == np.sign(counted) for own, counted in said), len(said)

    def summary(self) -> dict[str, Any]:
        """Returns the counts as plain values; what is infinite or unknown is None."""
        difference = [value if math.isfinite(value) else None for value in self.elo_difference]
        names = sorted({name for told in self.told.values() for name in told})
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
            "mean_score": self.mean_score if self.counted.any() else None,
            "black_win_rate": self.black_win_rate,
            "whole_board_black": self.whole_board_black,
            "different_games": self.num_different_games,
            "mean_length": float(self.lengths.mean()),
            "capped": int(self.capped.sum()),
            "resigned": list(self.stopped(RESIGNED)),
            "forfeits": list(self.stopped(FORFEIT)),
            "own_scores": {
                name: dict(zip(("same", "same_winner", "of"), map(int, self.agreement(name)), strict=True))
                for name in names
            },
            "seed": self.seed,
            "opening_plies": self.opening_plies,
        }

    def lines(self) -> list[str]:
        """Returns what a person wants to read: who won, as which colour, by how much, how sure, and what went wrong."""
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
        counted = int(self.counted.sum())
        over = "" if counted == self.num_games else f" over the games that were counted ({counted})"
        lines.append(
            f"  mean score {self.mean_score:+.1f} points{over}; {whole}" if counted else "  no game was counted"
        )
        capped = f"; {int(self.capped.sum())} ended at the move cap" if self.capped.any() else ""
        lines.append(
            f"  {self.num_different_games} of {self.num_games} games differ; {self.lengths.mean():.0f} plies a game{capped}"
        )
        return lines + self._lines_of_stops() + self._lines_of_own_scores()

    def _lines_of_stops(self) -> list[str]:
        lines = []
        for kind, word in ((RESIGNED, "resigned"), (FORFEIT, "lost by a fault")):
            for name, count in zip((self.name_a, self.name_b), self.stopped(kind), strict=True):
                if count:
                    lines.append(f"  {name} {word} in {count} of {self.num_games} games")
        for game, stop in sorted(self.stops.items()):
            if stop.kind == FORFEIT:
                name = self.name_a if self.loser_is_a(game) else self.name_b
                lines.append(f"    game {self.first_game + game + 1}: {name}: {stop.reason}")
        return lines

    def _lines_of_own_scores(self) -> list[str]:
        lines = []
        for name in dict.fromkeys((self.name_a, self.name_b)):
            same, same_winner, said = self.agreement(name)
            if said:
                lines.append(
                    f"  {name} agrees with the referee's score in {same} of {said} games, with its winner in {same_winner}"
                )
        return lines


def told_score(text: str) -> float | None:
    """Returns the points for Black that an engine's `final_score` says, "B+3.5", "W+0.5" or "0" for a draw; None where
    it says none.
    """
    if text.strip().lower() in ("0", "draw", "jigo"):
        return 0.0
    winner, plus, points = text.strip().partition("+")
    try:
        score = float(points.split()[0])
    except (ValueError, IndexError):
        return None
    return {"B": score, "W": -score}.get(winner.upper()) if plus and math.isfinite(score) else None


def result_of(games: Sequence[Played], cap: int, **match: Any) -> MatchResult:
    """Returns consecutive games of a match, by rising number, as its result; cap: T of the moves. match: the fields of
    no single game.
    """
    moves = np.full((len(games), cap), NO_MOVE, dtype=np.int16)
    for row, game in zip(moves, games, strict=True):
        row[: len(game.moves)] = game.moves
    return MatchResult(
        **match,
        first_game=games[0].number,
        score_black=np.array([game.score_black for game in games], dtype=np.float32),
        area_black=np.array([game.area_black for game in games], dtype=np.int64),
        a_is_black=np.array([game.a_is_black for game in games], dtype=bool),
        lengths=np.array([len(game.moves) for game in games], dtype=np.int64),
        capped=np.array([game.capped for game in games], dtype=bool),
        moves=moves,
        stones=np.stack([game.stones for game in games]),
        stops={index: game.stop for index, game in enumerate(games) if game.stop is not None},
        told={index: game.told for index, game in enumerate(games) if game.told},
    )
