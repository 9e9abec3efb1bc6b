"""The table of all who have met: points of each against each, and what they say of strength."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zerogo import elo
from zerogo.arena.result import MatchResult


def points_table(names: Sequence[str], results: Sequence[MatchResult]) -> np.ndarray:
    """Returns the points of each against each: float64 [n, n], row against column, draws as half."""
    points = np.zeros((len(names), len(names)))
    for result in results:
        i, j = names.index(result.name_a), names.index(result.name_b)
        points[i, j] += float(result.points_a.sum())
        points[j, i] += result.num_games - float(result.points_a.sum())
    return points


def rate(names: Sequence[str], results: Sequence[MatchResult]) -> elo.Ratings:
    """Returns the players' Elo over the weakest of them, who is at 0 without an interval of its own."""
    points = points_table(names, results)
    weakest = int(elo.bradley_terry(points).elo.argmin())
    return elo.bradley_terry(points, anchor=weakest)


def table(names: Sequence[str], results: Sequence[MatchResult], ratings: elo.Ratings) -> list[str]:
    """Returns the lines of the Elo table, the strongest first."""
    points = points_table(names, results)
    won, games = points.sum(1), (points + points.T).sum(1)
    width = max(len("player"), *(len(name) for name in names))
    lines = ["", f"{'player':<{width}}  {'Elo':>6}  {'95 % interval':>15}  {'points':>8}  {'games':>6}"]
    for k in np.argsort(-ratings.elo, kind="stable"):
        interval = f"{ratings.low[k]:.0f} to {ratings.high[k]:.0f}" if ratings.high[k] > ratings.low[k] else "anchor"
        lines.append(f"{names[k]:<{width}}  {ratings.elo[k]:>6.0f}  {interval:>15}  {won[k]:>8g}  {games[k]:>6g}")
    return lines
