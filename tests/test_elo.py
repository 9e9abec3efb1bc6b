"""Strength from results: against formulas, brute force, and simulations with fixed seeds."""

import math

import numpy as np
import pytest
from limits import within

from zerogo.arena import elo


def test_wilson_known_values() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3: 81/263, 15/148, 0/20, 1/29.
    known = {(81, 263): (0.2553, 0.3662), (15, 148): (0.0624, 0.1605)}
    known |= {(0, 20): (0.0, 0.1611), (1, 29): (0.0061, 0.1718)}
    for counts, interval in known.items():
        assert elo.wilson_interval(*counts) == pytest.approx(interval, abs=5e-5)
    assert elo.wilson_interval(0, 0) == (0.0, 1.0)
    assert elo.wilson_interval(200, 200) == pytest.approx((0.9812, 1.0), abs=5e-5)
    assert elo.wilson_interval(60.5, 100)[0] == pytest.approx(1 - elo.wilson_interval(39.5, 100)[1])


def test_pairs_that_cancel_narrow_the_interval_and_pairs_that_agree_widen_it() -> None:
    plain = np.subtract(*elo.wilson_interval(100, 200)[::-1])
    cancel = np.subtract(*elo.pair_interval([1.0] * 100)[::-1])
    agree = np.subtract(*elo.pair_interval([0.0, 2.0] * 50)[::-1])
    assert cancel < plain / 3 and agree == pytest.approx(plain * math.sqrt(2), rel=0.03)
    assert np.subtract(*elo.pair_interval([1.0] * 2)[::-1]) > 0.5  # two equal pairs are no certainty
    by_t = elo.wilson_interval(4 * 0.687, 8 * 0.687)  # (1.96 / 2.365)^2, by Student's t of 7 degrees of freedom
    assert elo.pair_interval([0.0, 1.0, 1.0, 2.0]) == pytest.approx(by_t, abs=1e-3)
    assert elo.pair_interval([2.0] * 50) == elo.wilson_interval(100, 100)
    assert elo.pair_interval([], [1.0, 0.0]) == elo.wilson_interval(1, 2)


def test_elo_and_win_rate_are_inverse() -> None:
    assert elo.win_rate(400) == pytest.approx(10 / 11) and elo.win_rate(0) == 0.5
    assert elo.elo_of(0.75) == pytest.approx(190.848501887)
    assert elo.elo_of(elo.win_rate(-123.4)) == pytest.approx(-123.4)
    assert elo.win_rate(1e6) == 1.0 and elo.win_rate(-1e6) == 0.0
    assert (elo.elo_of(0.0), elo.elo_of(1.0)) == (-math.inf, math.inf)


def rate(points: np.ndarray, anchor: int = 0) -> elo.Ratings:
    """Returns the ratings of a table: row i, column j is what i won against j."""
    i, j = np.nonzero(np.triu(points + points.T, 1))
    return elo.bradley_terry(elo.Meetings(len(points), i, j, np.stack([points[i, j], points[j, i]], 1)), anchor)


def test_two_players_get_their_elo_difference() -> None:
    points = np.array([[0.0, 7500.0], [2500.0, 0.0]])
    rated = rate(points, 1)
    assert rated.elo[1] == 0 and rated.elo[0] == pytest.approx(elo.elo_of(0.75), abs=0.2)
    # The variance of a logit is 1 / (n p (1 - p)).
    half = elo.Z95 * elo.ELO_PER_NAT / math.sqrt(10_000 * 0.75 * 0.25)
    assert rated.high[0] - rated.elo[0] == pytest.approx(half, rel=0.01)
    assert (rated.low[1], rated.high[1]) == (0, 0)


def test_ratings_are_the_maximum_by_brute_force() -> None:
    """Three players: a fine grid over both free ratings has no better point than Newton's."""
    points = np.array([[0, 12, 17.5], [8, 0, 14], [2.5, 6, 0]])
    rated = rate(points, 2)

    def log_posterior(ratings: np.ndarray) -> np.ndarray:
        total = -0.5 * ((ratings - ratings.mean(-1, keepdims=True)) ** 2).sum(-1) / elo.SPREAD**2
        for i in range(3):
            for j in range(3):
                if i != j:
                    rate = 1 / (1 + 10 ** ((ratings[..., j] - ratings[..., i]) / 400))
                    total = total + (points[i, j] + 0.5) * np.log(rate)
        return total

    axis = np.arange(-20.0, 20.5, 1.0)
    first, second = np.meshgrid(rated.elo[0] + axis, rated.elo[1] + axis, indexing="ij")
    values = log_posterior(np.stack([first, second, np.zeros_like(first)], -1))
    assert np.unravel_index(values.argmax(), values.shape) == (20, 20)


def test_whoever_won_all_is_finite_and_last_in_doubt() -> None:
    points = np.array([[0, 200, 200], [0, 0, 150], [0, 50, 0]], dtype=float)
    rated = rate(points, 2)
    assert np.isfinite(rated.elo).all() and rated.elo[0] > rated.elo[1] + 500
    assert rated.high[0] - rated.low[0] > rated.high[1] - rated.low[1]


def test_a_pool_of_thousands_takes_little() -> None:
    """A month of checkpoints that met two anchors and the one before them, the last at 900 Elo."""
    names = {name: k for k, name in enumerate(["a", "b", *map(str, range(4320))])}
    generator, truth = np.random.default_rng(3), [0.0, 400.0, *np.linspace(0, 900, 4320)]
    pairs = [(str(k), other) for k in range(4320) for other in ("a", "b", str(k - 1)) if other != "-1"]
    won = [generator.binomial(100, elo.win_rate(truth[names[one]] - truth[names[other]])) for one, other in pairs]
    results = [(*pair, points, 100 - points) for pair, points in zip(pairs, won, strict=True)]
    with within(30):
        rated = elo.bradley_terry(elo.Meetings.of_results(names, results), 0, of=[4321])
    assert rated.low[-1] < 900 < rated.high[-1] and np.isnan(rated.low[5]) and abs(rated.elo[1] - 400) < 30


def test_sprt_known_form() -> None:
    """Near the means the ratio is that of a normal: N (s1 - s0) (2 mean - s0 - s1) / (2 variance)."""
    losses, draws, wins, total = 4800, 100, 5100, 10_000
    found, s0, s1 = elo.sprt([losses, draws, wins], 0, 10), elo.win_rate(0), elo.win_rate(10)
    mean = (wins + draws / 2) / total
    variance = (wins + draws / 4) / total - mean**2
    assert found.llr == pytest.approx(total * (s1 - s0) * (2 * mean - s0 - s1) / (2 * variance), rel=0.01)


def test_sprt_verdicts() -> None:
    assert elo.sprt([0, 0, 0], 0, 20).verdict == "continue"
    assert elo.sprt([10, 0, 200], 0, 20).verdict == "H1"
    assert elo.sprt([200, 0, 10], 0, 20).verdict == "H0"
    assert elo.sprt([5, 20, 50, 120, 90], 0, 20).verdict == "H1"
    assert elo.sprt([0, 0, 30], 0, 20).llr > 0  # outcomes that never came don't break it
