"""Strength from results of games: win rates with intervals, Elo differences, ratings of a pool (Bradley-Terry), SPRT.

A game gives points: 1 for a win, 0.5 for a draw, 0 for a loss. Elo is logistic: a difference of d is a win rate of 1 /
(1 + 10^(-d / 400)). Intervals are 95 % and two-sided. Everything is numpy or plain numbers in float64."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Z95 = 1.959963984540054
ELO_PER_NAT = 400.0 / math.log(10.0)
PAIR_PRIOR = 4.0  # prior: pairs of independent games, so that a few equal pairs are no certainty
PRIOR_DRAWS = 1.0  # games between any two that met, in ratings
SPREAD = 3000.0  # Elo: standard deviation of ratings where no game says anything, so that a pool in two parts has some
SPRT_BOUND = math.log(0.95 / 0.05)
NEVER_SEEN = 1e-3  # games: count of an outcome that has not come yet in SPRT, as fishtest does


def wilson_interval(points: float, games: float) -> tuple[float, float]:
    """Returns the interval of a win rate by Wilson's score (1927), which lies inside [0, 1] and is also right where all
    games were won or lost. With draws, which vary less than wins and losses, it is too wide; (0, 1) without games."""
    if games <= 0:
        return 0.0, 1.0
    rate, share = points / games, Z95 * Z95 / games
    centre = (rate + share / 2) / (1 + share)
    half = Z95 * math.sqrt(rate * (1 - rate) / games + share / (4 * games)) / (1 + share)
    low = 0.0 if points == 0 else max(0.0, centre - half)  # exactly: rounding would leave 1e-17
    high = 1.0 if points == games else min(1.0, centre + half)
    return low, high


def pair_interval(pair_points: Sequence[float], single_points: Sequence[float] = ()) -> tuple[float, float]:
    """Returns the interval of the win rate where games come in pairs with one opening and colours swapped.

    pair_points: points of each pair, 0 to 2. single_points: points of games without a partner, 0 to 1. The games of a
    pair nearly cancel where the opening or the colour decides, and agree where strength does. So the number of games in
    Wilson's formula is divided by the design effect, which is the variance of the pairs over that of as many
    independent games, estimated with `PAIR_PRIOR` pairs of prior and at most 2. Student's t replaces the normal
    quantile (Abramowitz and Stegun 26.7.5): a few pairs say little about their variance."""
    pairs, singles = np.asarray(pair_points, dtype=np.float64), np.asarray(single_points, dtype=np.float64)
    games, points = 2 * len(pairs) + len(singles), float(pairs.sum() + singles.sum())
    if len(pairs) < 2 or not 0 < points < games:
        return wilson_interval(points, games)
    rate, weight = points / games, len(pairs) + PAIR_PRIOR
    squares = float(((pairs - 2 * rate) ** 2).sum()) / (2 * rate * (1 - rate))
    effect = min(2.0, (squares + PAIR_PRIOR) / weight)
    t_to_normal = 1 + (1.21 + 1.44 / (weight - 1)) / (weight - 1)
    scale = 1 / (effect * t_to_normal**2)
    return wilson_interval(points * scale, games * scale)


def win_rate(elo: float) -> float:
    """Returns the expected points a game of a player that is `elo` stronger."""
    return 0.5 * (1 + math.tanh(elo / (2 * ELO_PER_NAT)))  # no overflow at any difference


def elo_of(rate: float) -> float:
    """Returns the Elo difference of a win rate in [0, 1], infinite at 0 and 1."""
    if rate in (0, 1):
        return math.copysign(math.inf, rate - 0.5)
    return ELO_PER_NAT * math.log(rate / (1 - rate))


@dataclass(frozen=True)
class Ratings:
    """Elo of n players with their intervals, float64 [n] each. The anchor is at 0, its interval too; an interval that
    was not requested is nan."""

    elo: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Meetings:
    """The points of n players against each other, in sparse form. i, j: the players of each pair, int64 [k], each pair
    once. points: of i and of j in their games, float64 [k, 2], draws as half."""

    num_players: int
    i: np.ndarray
    j: np.ndarray
    points: np.ndarray

    @classmethod
    def of_results(cls, names: dict[str, int], results: Iterable[tuple[str, str, float, float]]) -> "Meetings":
        """Returns the sums of results, each (one, other, points of one, points of the other); a pair may have several.
        names: every player's number, 0 to n - 1."""
        sums: dict[tuple[int, int], list[float]] = {}
        for one, other, won, lost in results:
            i, j = names[one], names[other]
            pair = sums.setdefault((min(i, j), max(i, j)), [0.0, 0.0])
            pair[i > j] += won
            pair[i <= j] += lost
        i, j = np.array([*sums], dtype=np.int64).reshape(-1, 2).T
        return cls(len(names), i, j, np.array([*sums.values()], dtype=np.float64).reshape(-1, 2))

    def sums(self, of_i: np.ndarray, of_j: np.ndarray) -> np.ndarray:
        """Returns for each player, float64 [n], the sum over its pairs of of_i where it is i and of_j where it is j,
        both float64 [k]."""
        return np.bincount(self.i, of_i, self.num_players) + np.bincount(self.j, of_j, self.num_players)


def bradley_terry(meetings: Meetings, anchor: int = 0, of: Sequence[int] | None = None) -> Ratings:
    """Returns the ratings of a pool, and the intervals of the players `of`, by default all.

    The ratings maximise the posterior, by Newton's method (Bradley and Terry 1952). The prior is `PRIOR_DRAWS` between
    any two players who met, and a standard deviation of `SPREAD`; it keeps the rating of a player finite who won or
    lost all games. Intervals are relative to the anchor, from the Hessian at the maximum. Time and memory are linear in
    the pairs, and each interval costs one more linear system: a month's run has thousands of players, each of which met
    a few."""
    count, ridge = meetings.num_players, (ELO_PER_NAT / SPREAD) ** 2
    points = meetings.points + PRIOR_DRAWS / 2
    games, nats = points.sum(1), np.zeros(count)
    for _ in range(500):
        expected, solve = _curvature(meetings, nats, games, ridge)
        surplus = points[:, 0] - games * expected
        step = solve(meetings.sums(surplus, -surplus) - ridge * nats)
        nats = nats + step / max(1.0, np.abs(step).max())  # at most 174 Elo: far away the parabola is no guide
        if np.abs(step).max() < 1e-10:
            break
    solve = _curvature(meetings, nats, games, ridge)[1]
    elo = (nats - nats[anchor]) * ELO_PER_NAT
    half = np.full(count, math.nan)
    for player in range(count) if of is None else of:
        difference = np.zeros(count)
        difference[player] += 1
        difference[anchor] -= 1
        half[player] = Z95 * ELO_PER_NAT * math.sqrt(max(0.0, difference @ solve(difference)))
    half[anchor] = 0.0
    return Ratings(elo, elo - half, elo + half)


def _curvature(
    meetings: Meetings, nats: np.ndarray, games: np.ndarray, ridge: float
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Returns the points a game that i expects against j, float64 [k], and a function that solves H x = y for y [n],
    where H is the negative Hessian of the log posterior at these ratings, by conjugate gradients scaled by its
    diagonal."""
    i, j = meetings.i, meetings.j
    expected = 0.5 * (1 + np.tanh((nats[i] - nats[j]) / 2))
    weight = games * expected * (1 - expected)
    diagonal = meetings.sums(weight, weight) + ridge

    def _solve(right: np.ndarray) -> np.ndarray:
        solution, residual = np.zeros_like(right), right.copy()
        scaled = residual / diagonal
        direction, size = scaled, residual @ scaled
        tolerance = 1e-24 * size
        for _ in range(10 * len(right)):
            if size <= tolerance:
                break
            image = diagonal * direction - meetings.sums(weight * direction[j], weight * direction[i])
            length = size / (direction @ image)
            solution, residual = solution + length * direction, residual - length * image
            scaled = residual / diagonal
            before, size = size, residual @ scaled
            direction = scaled + size / before * direction
        return solution

    return expected, _solve


class Sprt(NamedTuple):
    """The state of a sequential test. llr: the log-likelihood ratio of H1 to H0. verdict: "H0" (the difference is elo0
    or less), "H1" (elo1 or more), or "continue" while the ratio lies within `SPRT_BOUND`."""

    llr: float
    verdict: str


def sprt(counts: Sequence[float], elo0: float, elo1: float) -> Sprt:
    """Returns the state of a sequential probability ratio test (Wald 1945) of elo0 against a larger elo1, which may be
    taken after any number of games and errs in 5 % of the cases either way.

    counts: [losses, draws, wins], or for colour-paired games the numbers of pairs that gave [0, 0.5, 1, 1.5, 2] points,
    as the games of a pair depend on each other. The ratio is the generalised one (GSPRT, Van den Bergh; as in
    fishtest), in which each hypothesis has the maximum-likelihood distribution of its mean."""
    if not any(counts):
        return Sprt(0.0, "continue")
    counts = np.maximum(counts, NEVER_SEEN)
    values, shares = np.linspace(0.0, 1.0, len(counts)), counts / counts.sum()
    fitted0, fitted1 = (_fit_distribution(values, shares, win_rate(elo)) for elo in (elo0, elo1))
    llr = float(counts @ np.log(fitted1 / fitted0))
    return Sprt(llr, "H1" if llr >= SPRT_BOUND else "H0" if llr <= -SPRT_BOUND else "continue")


def _fit_distribution(values: np.ndarray, shares: np.ndarray, mean: float) -> np.ndarray:
    """Returns the maximum-likelihood distribution over values [K] with that mean, where the values came up in these
    shares [K]: share / (1 + x (value - mean)); x is the root of a falling function between its poles, found by
    bisection."""
    away = values - mean
    low, high = -1 / away.max(), -1 / away.min()
    for _ in range(60):
        x = (low + high) / 2
        if (shares * away / (1 + x * away)).sum() > 0:
            low = x
        else:
            high = x
    return shares / (1 + (low + high) / 2 * away)
