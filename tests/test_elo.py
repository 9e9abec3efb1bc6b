"""Strength from results: against formulas, brute force, and simulations with fixed seeds."""

import math

import numpy as np
import pytest
from limits import within

from zerogo import elo


def test_wilson_known_values() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3: 81/263, 15/148, 0/20, 1/29.
    known = {(81, 263): (0.2553, 0.3662), (15, 148): (0.0624, 0.1605)}
    known |= {(0, 20): (0.0, 0.1611), (1, 29): (0.0061, 0.1718)}
    for counts, interval in known.items():
        assert elo.wilson_interval(*counts) == pytest.approx(interval, abs=5e-5)
    assert elo.wilson_interval(0, 0) == (0.0, 1.0)
    low, high = elo.wilson_interval(200, 200)
    assert high == 1.0 and 0.97 < low < 0.99
    assert elo.wilson_interval(60.5, 100)[0] == pytest.approx(1 - elo.wilson_interval(39.5, 100)[1])
    with pytest.raises(ValueError, match="5 points of 4 games"):
        elo.wilson_interval(5, 4)


def test_wilson_solves_its_equation() -> None:
    """Its ends are the rates from which the seen rate lies z standard errors away."""
    for end in elo.wilson_interval(37.5, 90):
        assert abs(37.5 / 90 - end) == pytest.approx(elo.Z95 * math.sqrt(end * (1 - end) / 90))


def test_pairs_that_cancel_narrow_the_interval_and_pairs_that_agree_widen_it() -> None:
    plain = np.subtract(*elo.wilson_interval(100, 200)[::-1])
    cancel = np.subtract(*elo.pair_interval([1.0] * 100)[::-1])
    agree = np.subtract(*elo.pair_interval([0.0, 2.0] * 50)[::-1])
    assert cancel < plain / 3 and agree == pytest.approx(plain * math.sqrt(2), rel=0.03)
    few = np.subtract(*elo.pair_interval([1.0] * 2)[::-1])
    assert few > 0.5  # two equal pairs are no certainty
    assert elo.pair_interval([2.0] * 50) == elo.wilson_interval(100, 100)
    assert elo.pair_interval([], [1.0, 0.0]) == elo.wilson_interval(1, 2)


@pytest.mark.parametrize("colour_decides", [0.0, 0.6])
def test_the_pair_interval_covers_the_truth(colour_decides: float) -> None:
    """In 2,000 matches of 50 pairs at a true rate of 0.6 the interval misses in about 5 %: outside 3 to 7.5 % by chance
    once in 10,000."""
    generator = np.random.default_rng(0)
    misses = 0
    for _ in range(2000):
        decided = generator.random(50) < colour_decides
        games = generator.random((50, 2)) < 0.6 + 0.1 * colour_decides / (1 - colour_decides)
        pairs = np.where(decided, 1.0, games.sum(1))
        low, high = elo.pair_interval(pairs)
        misses += not low <= 0.6 <= high
    assert 0.03 <= misses / 2000 <= 0.075


def test_elo_and_win_rate_are_inverse() -> None:
    assert elo.win_rate(400) == pytest.approx(10 / 11) and elo.win_rate(0) == 0.5
    assert elo.elo_of(0.75) == pytest.approx(190.848501887)
    assert elo.elo_of(elo.win_rate(-123.4)) == pytest.approx(-123.4)
    assert elo.win_rate(1e6) == 1.0 and elo.win_rate(-1e6) == 0.0
    assert (elo.elo_of(0.0), elo.elo_of(1.0)) == (-math.inf, math.inf)
    with pytest.raises(ValueError, match="1.5"):
        elo.elo_of(1.5)


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


def test_simulated_pool_is_found_again() -> None:
    generator = np.random.default_rng(1)
    truth = np.array([0.0, 120.0, 400.0, 700.0, 1500.0])
    points = np.zeros((5, 5))
    for i in range(5):
        for j in range(i):
            won = generator.binomial(400, elo.win_rate(truth[i] - truth[j]))
            points[i, j], points[j, i] = won, 400 - won
    rated = rate(points)
    assert ((rated.low <= truth) & (truth <= rated.high)).all()
    assert np.abs(rated.elo - truth).max() < 80


def test_whoever_won_all_is_finite_and_last_in_doubt() -> None:
    points = np.array([[0, 200, 200], [0, 0, 150], [0, 50, 0]], dtype=float)
    rated = rate(points, 2)
    assert np.isfinite(rated.elo).all() and rated.elo[0] > rated.elo[1] + 500
    assert rated.high[0] - rated.low[0] > rated.high[1] - rated.low[1]


def test_the_anchor_shifts_ratings_and_nothing_else() -> None:
    points = np.array([[0, 30, 40], [20, 0, 25], [10, 25, 0]], dtype=float)
    first, last = rate(points, 0), rate(points, 2)
    assert first.elo - first.elo[2] == pytest.approx(last.elo, abs=1e-6)
    assert first.high[2] - first.elo[2] == pytest.approx(last.high[0] - last.elo[0])


def test_players_that_never_met_have_a_wide_interval() -> None:
    points = np.zeros((4, 4))
    points[0, 1] = points[1, 0] = points[2, 3] = points[3, 2] = 50
    rated = rate(points)
    assert np.abs(rated.elo) == pytest.approx(0, abs=1e-6)
    assert rated.high[1] < 150 and rated.high[2] > 1000


def month(count: int) -> tuple[dict[str, int], list[tuple[str, str, float, float]]]:
    """Returns players, and results of checkpoints that met two anchors and the one before them, the last at 900 Elo."""
    generator, names = np.random.default_rng(3), {name: k for k, name in enumerate(["a", "b", *map(str, range(count))])}
    truth = [0.0, 400.0, *np.linspace(0, 900, count)]
    pairs = [(str(k), other) for k in range(count) for other in ("a", "b", str(k - 1)) if other != "-1"]
    won = [generator.binomial(100, elo.win_rate(truth[names[one]] - truth[names[other]])) for one, other in pairs]
    return names, [(*pair, points, 100 - points) for pair, points in zip(pairs, won, strict=True)]


def test_a_pool_of_thousands_takes_little() -> None:
    names, results = month(4320)
    with within(30):
        rated = elo.bradley_terry(elo.Meetings.of_results(names, results), 0, of=[4321])
    assert rated.low[-1] < 900 < rated.high[-1] and np.isnan(rated.low[5]) and abs(rated.elo[1] - 400) < 30


def test_sparse_ratings_are_those_of_whole_matrices() -> None:
    names, results = month(60)
    halves = [(two, one, lost / 2, won / 2) for one, two, won, lost in results]
    rated = elo.bradley_terry(
        elo.Meetings.of_results(names, [*halves, *(half[1::-1] + half[:1:-1] for half in halves)])
    )
    points = np.zeros((62, 62))
    for one, two, won, lost in results:
        points[names[one], names[two]], points[names[two], names[one]] = won, lost
    met = points + points.T > 0
    games, nats = points + points.T + elo.PRIOR_DRAWS * met, rated.elo / elo.ELO_PER_NAT
    expected, ridge = 1 / (1 + np.exp(nats[None] - nats[:, None])), (elo.ELO_PER_NAT / elo.SPREAD) ** 2
    gradient = (points + elo.PRIOR_DRAWS / 2 * met - games * expected).sum(1) - ridge * nats
    assert np.ptp(gradient) == pytest.approx(0, abs=1e-6)  # what the anchor's shift makes of 0 is the same for all
    weight = games * expected * (1 - expected)
    inverse = np.linalg.inv(np.diag(weight.sum(1) + ridge) - weight)
    half = elo.Z95 * elo.ELO_PER_NAT * np.sqrt(np.diag(inverse) + inverse[0, 0] - 2 * inverse[0])
    assert rated.high - rated.elo == pytest.approx(half)


def test_sprt_known_form() -> None:
    """Near the means the ratio is that of a normal: N (s1 - s0) (2 mean - s0 - s1) / (2 variance)."""
    losses, draws, wins = 4800, 100, 5100
    found = elo.sprt([losses, draws, wins], 0, 10)
    total = losses + draws + wins
    mean = (wins + draws / 2) / total
    variance = (wins + draws / 4) / total - mean**2
    s0, s1 = elo.win_rate(0), elo.win_rate(10)
    assert found.llr == pytest.approx(total * (s1 - s0) * (2 * mean - s0 - s1) / (2 * variance), rel=0.01)
    assert (found.lower, found.upper) == (pytest.approx(math.log(0.05 / 0.95)), pytest.approx(math.log(0.95 / 0.05)))


def test_sprt_likeliest_distribution_by_brute_force() -> None:
    """Of all distributions over three outcomes with the mean, a fine grid finds none likelier."""
    seen, mean = np.array([0.2, 0.3, 0.5]), 0.55
    found = elo._likeliest(np.array([0.0, 0.5, 1.0]), seen, mean)
    assert found.sum() == pytest.approx(1) and found @ [0, 0.5, 1] == pytest.approx(mean)
    draw = np.linspace(1e-6, 2 * min(mean, 1 - mean) - 1e-6, 200_001)
    grid = np.stack([1 - mean - draw / 2, draw, mean - draw / 2])
    best = grid[:, (seen @ np.log(grid)).argmax()]
    assert found == pytest.approx(best, abs=1e-4)


def test_sprt_verdicts() -> None:
    assert elo.sprt([0, 0, 0], 0, 20).verdict == "continue"
    assert elo.sprt([10, 0, 200], 0, 20).verdict == "H1"
    assert elo.sprt([200, 0, 10], 0, 20).verdict == "H0"
    assert elo.sprt([5, 20, 50, 120, 90], 0, 20).verdict == "H1"
    assert elo.sprt([0, 0, 30], 0, 20).llr > 0  # outcomes that never came don't break it
    for bad in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match="counts"):
            elo.sprt(bad, 0, 10)
    with pytest.raises(ValueError, match="elo0 < elo1"):
        elo.sprt([1, 1, 1], 10, 0)


@pytest.mark.parametrize(("true_elo", "wrong"), [(0.0, "H1"), (100.0, "H0")])
def test_sprt_errs_no_more_than_it_says(true_elo: float, wrong: str) -> None:
    """200 tests at alpha = beta = 0.05, asked every 16 games: more than 20 errors come by chance once in 1,000."""
    generator = np.random.default_rng(2)
    errors = 0
    for _ in range(200):
        counts = np.zeros(3)
        verdict = "continue"
        while verdict == "continue":
            won = generator.binomial(16, elo.win_rate(true_elo))
            counts += (16 - won, 0, won)
            verdict = elo.sprt(counts, 0, 100).verdict
        errors += verdict == wrong
    assert errors <= 20
