"""Strength from results of games: win rates with intervals, Elo differences, ratings of a pool (Bradley-Terry), SPRT.

A game gives points: 1 for a win, 0.5 for a draw, 0 for a loss. Elo is logistic: a difference of d is a win rate of 1 /
(1 + 10^(-d / 400)). Intervals are 95 % and two-sided. Everything is numpy or plain numbers in
float64."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

Z95 = 1.959963984540054
ELO_PER_NAT = 400.0 / math.log(10.0)
PAIR_PRIOR = 4.0  # prior: pairs of independent games, so that a few equal pairs are no certainty
PRIOR_DRAWS = 1.0  # games between any two that met, in ratings
SPREAD = 3000.0  # Elo: standard deviation of ratings where no game says anything, so that a pool in two parts has some
NEVER_SEEN = 1e-3  # games: count of an outcome that has not come yet in SPRT, as fishtest does


def wilson_interval(points: float, games: float) -> tuple[float, float]:
    """Returns the interval of a win rate by Wilson's score (1927): inside [0, 1], right also at 0 and at all points; on
    the safe side with draws as half points, which vary less; (0, 1) without games."""
    if games <= 0:
        return 0.0, 1.0
    if not 0 <= points <= games:
        raise ValueError(f"wilson_interval: {points} points of {games} games; allowed are 0 to {games}")
    rate, share = points / games, Z95 * Z95 / games
    centre = (rate + share / 2) / (1 + share)
    half = Z95 * math.sqrt(rate * (1 - rate) / games + share / (4 * games)) / (1 + share)
    low = 0.0 if points == 0 else max(0.0, centre - half)  # exactly: rounding would leave 1e-17
    high = 1.0 if points == games else min(1.0, centre + half)
    return low, high


def pair_interval(pair_points: Sequence[float], single_points: Sequence[float] = ()) -> tuple[float, float]:
    """Returns the interval of the win rate where games come in pairs with one opening and colours swapped.

    pair_points: points of each pair, 0 to 2. single_points: points of games without a partner, 0 to 1. Games of a pair
    nearly cancel where the opening or the colour decides, and agree where strength does. So the number of games in
    Wilson's formula is divided by the design effect: the variance of the pairs over that of as many independent games,
    estimated with `PAIR_PRIOR` pairs of prior. A pair counts for at least one game."""
    pairs, singles = np.asarray(pair_points, dtype=np.float64), np.asarray(single_points, dtype=np.float64)
    games = 2 * len(pairs) + len(singles)
    points = float(pairs.sum() + singles.sum())
    if len(pairs) < 2 or not 0 < points < games:
        return wilson_interval(points, games)
    rate = points / games
    independent = 2 * rate * (1 - rate)
    seen = float(((pairs - 2 * rate) ** 2).sum())
    effect = (seen + PAIR_PRIOR * independent) / ((len(pairs) + PAIR_PRIOR) * independent)
    scale = 1 / min(2.0, effect)
    return wilson_interval(points * scale, games * scale)


def win_rate(elo: float) -> float:
    """Returns the expected points a game of a player that is so many Elo stronger."""
    return 0.5 * (1 + math.tanh(elo / (2 * ELO_PER_NAT)))  # no overflow at any difference


def elo_of(rate: float) -> float:
    """Returns the Elo difference of a win rate in [0, 1]: infinite at 0 and 1."""
    if not 0 <= rate <= 1:
        raise ValueError(f"elo_of: the win rate is {rate}; allowed is 0 to 1")
    if rate in (0, 1):
        return math.copysign(math.inf, rate - 0.5)
    return ELO_PER_NAT * math.log(rate / (1 - rate))


@dataclass(frozen=True)
class Ratings:
    """Elo of n players: float64 [n] each, the anchor at 0 without an interval of its own; nan where an interval was not
    asked for."""

    elo: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Meetings:
    """What n players won against each other, in sparse form: i, j int64 [k], each pair once; points float64 [k, 2], of
    i and of j, draws as half."""

    num_players: int
    i: np.ndarray
    j: np.ndarray
    points: np.ndarray

    @classmethod
    def of_results(cls, names: dict[str, int], results: Iterable[tuple[str, str, float, float]]) -> "Meetings":
        """Returns the pairs of results (one, other, points of one, points of the other), any number for each pair.
        names: every player's number."""
        sums: dict[tuple[int, int], list[float]] = {}
        for one, other, won, lost in results:
            i, j = names[one], names[other]
            pair = sums.setdefault((min(i, j), max(i, j)), [0.0, 0.0])
            pair[i > j] += won
            pair[i <= j] += lost
        i, j = np.array([*sums], dtype=np.int64).reshape(-1, 2).T
        return cls(len(names), i, j, np.array([*sums.values()], dtype=np.float64).reshape(-1, 2))

    def sums(self, of_i: np.ndarray, of_j: np.ndarray) -> np.ndarray:
        """Returns for each player the sum over its pairs of what each gives to i and to j: float64 [k] -> [n]."""
        return np.bincount(self.i, of_i, self.num_players) + np.bincount(self.j, of_j, self.num_players)


def bradley_terry(meetings: Meetings, anchor: int = 0, of: Sequence[int] | None = None) -> Ratings:
    """Returns the ratings of a pool, and the intervals of the players `of`, by default all.

    The maximum of the posterior by Newton's method (Bradley and Terry 1952). The prior, `PRIOR_DRAWS` between
    any two that met and a spread of `SPREAD`, keeps whoever won or lost all finite. Intervals come from the
    Hessian there, relative to the anchor. Time and memory are linear in the pairs, an interval costs another solution:
    a month's run has thousands of players, each of which met a few."""
    count, ridge = meetings.num_players, (ELO_PER_NAT / SPREAD) ** 2
    points = meetings.points + PRIOR_DRAWS / 2
    games, nats = points.sum(1), np.zeros(count)
    for _ in range(500):
        expected, solve = _curvature(meetings, nats, games, ridge)
        beyond = points[:, 0] - games * expected
        step = solve(meetings.sums(beyond, -beyond) - ridge * nats)
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
    """Returns the points a game that i expects against j, float64 [k], and what solves the negative Hessian of the log
    posterior at these ratings for a right side [n]: conjugate gradients, scaled by the diagonal."""
    i, j = meetings.i, meetings.j
    expected = 0.5 * (1 + np.tanh((nats[i] - nats[j]) / 2))
    weight = games * expected * (1 - expected)
    diagonal = meetings.sums(weight, weight) + ridge

    def solve(right: np.ndarray) -> np.ndarray:
        solution, residual = np.zeros_like(right), right.copy()
        scaled = residual / diagonal
        direction, size = scaled, residual @ scaled
        least = 1e-24 * size
        for _ in range(10 * len(right)):
            if size <= least:
                break
            image = diagonal * direction - meetings.sums(weight * direction[j], weight * direction[i])
            length = size / (direction @ image)
            solution, residual = solution + length * direction, residual - length * image
            scaled = residual / diagonal
            before, size = size, residual @ scaled
            direction = scaled + size / before * direction
        return solution

    return expected, solve


@dataclass(frozen=True)
class Sprt:
    """What a sequential test says. llr: log-likelihood ratio of H1 to H0; the test ends where it leaves (lower, upper).
    verdict: "H0" (the difference is elo0 or less), "H1" (elo1 or more) or "continue"."""

    llr: float
    lower: float
    upper: float
    verdict: str


def sprt(counts: Sequence[float], elo0: float, elo1: float, alpha: float = 0.05, beta: float = 0.05) -> Sprt:
    """Returns the state of a sequential probability ratio test (Wald 1945) of "elo0" against "elo1", to be asked after
    any number of games.

    counts: [losses, draws, wins], or for colour-paired games the pairs that gave [0, 0.5, 1, 1.5, 2] points, which is
    right where the games of a pair depend on each other. alpha, beta: chance to accept H1 under H0, and H0 under H1.
    The ratio is the generalised one (GSPRT, Van den Bergh; as in fishtest): either hypothesis with the likeliest
    distribution of its mean."""
    if len(counts) not in (3, 5):
        raise ValueError(f"sprt: {len(counts)} counts; allowed are 3 (losses, draws, wins) and 5 (pairs by points)")
    if not elo0 < elo1 or not 0 < alpha < 0.5 or not 0 < beta < 0.5:
        values = f"elo0 {elo0}, elo1 {elo1}, alpha {alpha}, beta {beta}"
        raise ValueError(f"sprt: {values}; allowed are elo0 < elo1, alpha and beta in (0, 0.5)")
    lower, upper = math.log(beta / (1 - alpha)), math.log((1 - beta) / alpha)
    llr = _log_likelihood_ratio(np.asarray(counts, dtype=np.float64), win_rate(elo0), win_rate(elo1))
    verdict = "H1" if llr >= upper else "H0" if llr <= lower else "continue"
    return Sprt(llr, lower, upper, verdict)


def _log_likelihood_ratio(counts: np.ndarray, mean0: float, mean1: float) -> float:
    """Returns the log-likelihood ratio of two means of a distribution over points 0 to 1 that has given the counts."""
    if counts.sum() == 0:
        return 0.0
    counts = np.maximum(counts, NEVER_SEEN)
    values = np.linspace(0.0, 1.0, len(counts))
    seen = counts / counts.sum()
    return float(counts @ np.log(_likeliest(values, seen, mean1) / _likeliest(values, seen, mean0)))


def _likeliest(values: np.ndarray, seen: np.ndarray, mean: float) -> np.ndarray:
    """Returns the distribution with that mean under which what was seen is likeliest: seen / (1 + x (value - mean)),
    where x is the root of a falling function between the poles, found by bisection."""
    away = values - mean
    low, high = -1 / away.max(), -1 / away.min()
    for _ in range(60):
        x = (low + high) / 2
        if (seen * away / (1 + x * away)).sum() > 0:
            low = x
        else:
            high = x
    return seen / (1 + (low + high) / 2 * away)
