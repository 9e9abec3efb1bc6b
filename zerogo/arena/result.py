"""What comes of a match, on the host: its games, and the counts, ratings and sentences that a person asks for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zerogo import sgf
from zerogo.arena import elo
from zerogo.rules import Rules

NO_MOVE = -1
RESIGNED = "resigned"
FORFEIT = "forfeit"
SAME_SCORE = 0.01  # points: an engine that writes one digit agrees


@dataclass(frozen=True)
class Stop:
    """Why a game ended before its board could be counted. kind: RESIGNED or FORFEIT. black_lost: who gave up or was at
    fault. reason: what happened, without the player's name, such as "no answer to 'genmove b' within 60 s"."""

    kind: str
    black_lost: bool
    reason: str = ""


@dataclass(frozen=True)
class PlayedGame:
    """One finished game. number: of the match. moves: actions by ply. score_black: points, komi included; nan where the
    game was stopped. area_black: Black's points of the final board as it is scored, before komi. capped: ended by the
    move cap. stones: int8 [N, N], the final board. stop: None where the board was counted. told: the score by players
    who say one, such as {"gnugo:10": "B+3.5"}."""

    number: int
    a_is_black: bool
    moves: list[int]
    score_black: float
    area_black: int
    capped: bool
    stones: np.ndarray
    stop: Stop | None = None
    told: dict[str, str] = field(default_factory=dict)

    @property
    def outcome_black(self) -> int:
        """1 where Black won, however the game ended, 0 for a draw, -1 where White won."""
        if self.stop is not None:
            return -1 if self.stop.black_lost else 1
        return int(np.sign(self.score_black))

    @property
    def outcome_a(self) -> int:
        """1 where A won, 0 for a draw, -1 where B won."""
        return self.outcome_black if self.a_is_black else -self.outcome_black

    @property
    def result_text(self) -> str:
        """SGF's RE: "B+3.5", "0" for a draw, "W+R" by resignation, "B+F" where White was at fault."""
        if self.stop is None:
            return sgf.result_text(self.score_black)
        return f"{'W' if self.stop.black_lost else 'B'}+{'R' if self.stop.kind == RESIGNED else 'F'}"


@dataclass
class MatchResult:
    """The games of player A against player B, by rising number. is_self: both players are one and the same.
    is_paired: games 2k and 2k + 1 share an opening, with colours swapped.

    wins, losses: games that A, and B, won. counted: the games whose final boards were counted, those in which nobody
    resigned or was at fault. num_capped: games that ended at the move cap. lengths: plies of each game, int64 [G].
    points_a: 1 where A won, 0.5 for a draw, 0 where B won, float64 [G]."""

    name_a: str
    name_b: str
    rules: Rules
    seed: int
    opening_plies: int
    is_self: bool
    is_paired: bool
    games: list[PlayedGame]

    def __post_init__(self) -> None:
        self.num_games = len(self.games)
        self.wins, self.draws, self.losses = self.by_colour(None)
        self.counted = [game for game in self.games if game.stop is None]
        self.num_capped = sum(game.capped for game in self.games)
        self.lengths = np.array([len(game.moves) for game in self.games], dtype=np.int64)
        self.points_a = np.array([(game.outcome_a + 1) / 2 for game in self.games], dtype=np.float64)

    def by_colour(self, a_is_black: bool | None) -> tuple[int, int, int]:
        """Returns A's (wins, draws, losses) as Black, as White, or for None in all games."""
        outcomes = [game.outcome_a for game in self.games if a_is_black in (None, game.a_is_black)]
        return outcomes.count(1), outcomes.count(0), outcomes.count(-1)

    @property
    def win_rate(self) -> float:
        """A's points a game, 0 to 1; nan without games."""
        return float(self.points_a.mean()) if self.games else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of A's win rate, with regard to how the games of a pair depend on each other."""
        if not self.is_paired:
            return elo.wilson_interval(float(self.points_a.sum()), self.num_games)
        return elo.pair_interval(*self.pair_points())

    def pair_points(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns A's points in each whole pair, 0 to 2, and in games whose partner is not among these."""
        points, begin = self.points_a, self.games[0].number % 2
        end = begin + (self.num_games - begin) // 2 * 2
        return points[begin:end].reshape(-1, 2).sum(1), np.concatenate([points[:begin], points[end:]])

    @property
    def elo_difference(self) -> tuple[float, float, float]:
        """A's Elo less B's, and its 95 % interval; infinite where one won all."""
        low, high = self.interval
        return elo.elo_of(self.win_rate), elo.elo_of(low), elo.elo_of(high)

    @property
    def mean_score(self) -> float:
        """A's mean score in points, komi included, over the games that were counted; nan where none was."""
        scores = [game.score_black if game.a_is_black else -game.score_black for game in self.counted]
        return float(np.mean(scores, dtype=np.float32)) if scores else math.nan

    @property
    def black_win_rate(self) -> float:
        """Black's points a game, 0 to 1, draws as half."""
        return sum((game.outcome_black + 1) / 2 for game in self.games) / self.num_games

    @property
    def whole_board_black(self) -> float:
        """Share of games at whose end every point of the board was Black's."""
        return sum(game.area_black == self.rules.size**2 for game in self.counted) / self.num_games

    @property
    def num_different_games(self) -> int:
        """Number of games that differ in their moves."""
        return len({tuple(game.moves) for game in self.games})

    def stopped(self, kind: str) -> tuple[int, int]:
        """Returns in how many games A, and B, resigned or was at fault: kind RESIGNED or FORFEIT."""
        outcomes = [game.outcome_a for game in self.games if game.stop is not None and game.stop.kind == kind]
        return outcomes.count(-1), outcomes.count(1)

    def faults(self) -> list[str]:
        """Returns what went wrong in each forfeited game, in words."""
        forfeits = [game for game in self.games if game.stop is not None and game.stop.kind == FORFEIT]
        losers = [self.name_a if game.outcome_a < 0 else self.name_b for game in forfeits]
        rows = zip(forfeits, losers, strict=True)
        return [f"game {game.number + 1}: {loser}: {game.stop.reason}" for game, loser in rows]

    def agreement(self, name: str) -> tuple[int, int, int]:
        """Returns how often a player's own score equalled the referee's, how often it named the same winner, and of how
        many it said."""
        said = [(told_score(game.told.get(name, "")), game) for game in self.counted]
        both = [(own, game) for own, game in said if own is not None]
        same = sum(abs(own - game.score_black) < SAME_SCORE for own, game in both)
        return same, sum(int(np.sign(own)) == game.outcome_black for own, game in both), len(both)

    def agreements(self) -> list[str]:
        """Returns in words how often each player that says a score agrees with the referee."""
        counts = {name: self.agreement(name) for name in (self.name_a, self.name_b)}
        return [
            f"{name} agrees with the referee's score in {same} of {said} games, with its winner in {same_winner}"
            for name, (same, same_winner, said) in counts.items()
            if said
        ]

    def disagreements(self) -> list[str]:
        """Returns in words which players name another winner than the referee, and how often."""
        counts = {name: self.agreement(name)[1:] for name in dict.fromkeys((self.name_a, self.name_b))}
        return [
            f"BUT {name} names another winner than the referee in {said - same} of {said} games"
            for name, (same, said) in counts.items()
            if same < said
        ]

    def summary(self) -> dict[str, Any]:
        """Returns the counts as plain values; what is infinite or unknown is None."""
        difference = [value if math.isfinite(value) else None for value in self.elo_difference]
        names = sorted({name for game in self.games for name in game.told})
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
            "mean_score": self.mean_score if self.counted else None,
            "black_win_rate": self.black_win_rate,
            "whole_board_black": self.whole_board_black,
            "different_games": self.num_different_games,
            "mean_length": float(self.lengths.mean()),
            "capped": self.num_capped,
            "resigned": list(self.stopped(RESIGNED)),
            "forfeits": list(self.stopped(FORFEIT)),
            "own_scores": {
                name: dict(zip(("same", "same_winner", "of"), self.agreement(name), strict=True)) for name in names
            },
            "seed": self.seed,
            "opening_plies": self.opening_plies,
        }

    def lines(self) -> list[str]:
        """Returns what a person wants to read: who won, as which colour, by how much, how sure, and what went wrong."""
        low, high = (100 * end for end in self.interval)
        counts = f"{self.wins} won, {self.losses} lost, {self.draws} drawn of {self.num_games}"
        head = f"{self.name_a} against {'itself, as Black' if self.is_self else self.name_b}"
        rate = f"{100 * self.win_rate:.1f} % (95 % interval {low:.1f} to {high:.1f} %)"
        lines = ["; ".join([f"{head}: {counts}: {rate}", *self.disagreements()])]
        for colour, is_black in () if self.is_self else (("Black", True), ("White", False)):
            wins, draws, losses = self.by_colour(is_black)
            if wins + draws + losses:
                lines.append(f"  as {colour}: {wins} won, {losses} lost, {draws} drawn")
        counted = len(self.counted)
        over = "" if counted == self.num_games else f" over the games that were counted ({counted})"
        score = f"  mean score {self.mean_score:+.1f} points{over}; "
        whole = f"Black owned the whole board in {100 * self.whole_board_black:.0f} % of the games"
        lines.append(score + whole if counted else "  no game was counted")
        capped = f"; {self.num_capped} ended at the move cap" if self.num_capped else ""
        different = f"  {self.num_different_games} of {self.num_games} games differ"
        lines.append(f"{different}; {self.lengths.mean():.0f} plies a game{capped}")
        for kind, word in ((RESIGNED, "resigned"), (FORFEIT, "lost by a fault")):
            for name, count in zip((self.name_a, self.name_b), self.stopped(kind), strict=True):
                lines += [f"  {name} {word} in {count} of {self.num_games} games"] if count else []
        lines += [f"    {fault}" for fault in self.faults()]
        return lines + [f"  {agreement}" for agreement in self.agreements()]


def told_score(text: str) -> float | None:
    """Returns the points for Black that an engine's `final_score` says, "B+3.5", "W+0.5" or "0" for a draw; None where
    it says none."""
    if text.strip().lower() in ("0", "draw", "jigo"):
        return 0.0
    winner, plus, points = text.strip().partition("+")
    try:
        score = float(points.split()[0])
    except (ValueError, IndexError):
        return None
    return {"B": score, "W": -score}.get(winner.upper()) if plus and math.isfinite(score) else None


# The ratings of all who have met


def meetings_of(names: Sequence[str], results: Sequence[MatchResult]) -> elo.Meetings:
    """Returns what each player won against each other in all matches."""
    numbers, won = {name: k for k, name in enumerate(names)}, [float(result.points_a.sum()) for result in results]
    met = [(one.name_a, one.name_b, points, one.num_games - points) for one, points in zip(results, won, strict=True)]
    return elo.Meetings.of_results(numbers, met)


def rate(names: Sequence[str], results: Sequence[MatchResult]) -> elo.Ratings:
    """Returns the players' Elo over the weakest of them, who is at 0 without an interval of its own."""
    meetings = meetings_of(names, results)
    weakest = int(elo.bradley_terry(meetings, of=[]).elo.argmin())
    return elo.bradley_terry(meetings, anchor=weakest)


def rating_rows(
    names: Sequence[str], results: Sequence[MatchResult], ratings: elo.Ratings
) -> Iterator[tuple[int, str, float, float]]:
    """Yields each player's index, the strongest first, with the interval of the Elo in words, points and games."""
    meetings = meetings_of(names, results)
    won, games = meetings.sums(*meetings.points.T), meetings.sums(*2 * [meetings.points.sum(1)])
    for k in np.argsort(-ratings.elo, kind="stable"):
        low, high = ratings.low[k], ratings.high[k]
        yield k, f"{low:.0f} to {high:.0f}" if high > low else "anchor", won[k], games[k]


def rating_lines(names: Sequence[str], results: Sequence[MatchResult], ratings: elo.Ratings) -> list[str]:
    """Returns the lines of the Elo table, the strongest first."""
    width = max(len("player"), *(len(name) for name in names))
    lines = ["", f"{'player':<{width}}  {'Elo':>6}  {'95 % interval':>15}  {'points':>8}  {'games':>6}"]
    for k, interval, won, games in rating_rows(names, results, ratings):
        lines.append(f"{names[k]:<{width}}  {ratings.elo[k]:>6.0f}  {interval:>15}  {won:>8g}  {games:>6g}")
    return lines
