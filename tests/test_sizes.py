"""Boards of different sizes in one batch: padding never influences a result, from the noise of the search to the
gradients of a step."""

import dataclasses
from collections import Counter

import pytest
import tiny
import torch
from torch import Tensor

from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.features import make_encoder
from zerogo.network.trainer import Trainer
from zerogo.replay import Samples, TrainingBatch
from zerogo.rules import Rules, RulesBatch
from zerogo.selfplay import EndReason
from zerogo.selfplay.opening import draw_rules, random_games

SIDE = 6  # of the padded batches
MIXED = "game.sizes=[[3, 2, 8.5], [4, 1, 1.5], [5, 1, 24.5]]"


def test_a_batch_may_be_larger_than_its_boards() -> None:
    same, larger = RulesBatch.of([Rules(4), Rules(4)]), RulesBatch.of([Rules(4), Rules(4)], board_size=SIDE)
    assert (same.board_size, same.same_size, larger.board_size, larger.same_size) == (4, True, SIDE, False)
    assert RulesBatch.of(Rules(3), 5, board_size=SIDE).size.tolist() == [3] * 5
    for side in (3, 26):
        with pytest.raises(InputError, match=f"a batch of side {side}; for boards of side 4 allowed are 4 to 25"):
            RulesBatch.of([Rules(4)], board_size=side)


def padded(samples: Samples, side: int) -> Samples:
    """Returns the same samples in tensors of a larger side, 0 beyond their boards."""
    size, fields = samples.board_size, vars(samples)
    places = torch.tensor([row * side + column for row in range(size) for column in range(size)] + [side * side])
    moved = {name: fields[name] for name in ("moves", "ko", "reply")}
    moved = {name: torch.where(old < 0, old, places[old.long().clamp(0)].to(old.dtype)) for name, old in moved.items()}
    moved["policy"] = samples.policy.new_zeros(len(samples), side * side + 1).index_copy(1, places, samples.policy)
    moved["rows"] = torch.nn.functional.pad(samples.rows, (0, side - size))
    moved["ownership"] = torch.nn.functional.pad(samples.ownership, (0, side - size, 0, side - size))
    return dataclasses.replace(samples, **moved)


def games_by_number(config: Config, num_games: int, evaluator: object | None = None) -> tuple[dict, Samples]:
    """Returns the games of a stretch of self-play, each with its end, and all samples."""
    selfplay = tiny.self_play(config, evaluator or tiny.Table(), 3)
    selfplay.resignation.threshold = -0.3
    collected = selfplay.play(num_games)
    assert len(collected.sizes) == len(collected.komi) == len(collected.lengths) and set(collected.sizes) <= {3, 4, 5}
    for stones, owners, size in zip(collected.last_boards, collected.last_ownership, collected.sizes, strict=False):
        assert stones.shape == owners.shape == (size, size)
    return {game.number: game for game in collected.games}, collected.all_samples()


SEARCHES = "gumbel", "puct search.forced_playouts=2 search.leaves=3 search.keep_tree=false"


@pytest.mark.parametrize("search", SEARCHES)
def test_a_game_is_the_same_among_games_of_other_sizes(search: str) -> None:
    """A run on many boards plays and records under a number, targets too, what a run on that board alone does."""
    words = f"""search.algorithm={search} search.max_considered=4 game.move_cap=0 game.random_komi_share=0.5
        game.komi_spread=3 game.suicide_share=0.5 game.superko_shares={{"simple":1,"positional":2}} selfplay.slots=6
        selfplay.full_simulations=6 selfplay.cheap_simulations=3 selfplay.full_share=0.6 selfplay.resign_share=0.5
        selfplay.resign_min_ply=4 selfplay.sgf_share=1"""
    common = words.split()
    mixed, samples = games_by_number(tiny.config(*common, MIXED), 16)
    ends = {game.end for game in mixed.values()}
    assert (EndReason.RESIGNED if search == "gumbel" else EndReason.PASSES) in ends and len(mixed) == 16
    seen = Counter()
    for size, komi in ((3, 8.5), (4, 1.5), (5, 24.5)):
        alone, own = games_by_number(tiny.config(*common, f"game.size={size}", f"game.komi={komi}"), 16)
        shared = [number for number in mixed if mixed[number].rules.size == size and number in alone]
        for number in shared:
            one, other = alone[number], mixed[number]
            for name in ("rules", "moves", "end", "score_black"):
                assert getattr(other, name) == getattr(one, name), name
            assert other.root_values == pytest.approx(one.root_values, abs=1e-5)
            found = of_game(samples, number)
            for name, values in vars(padded(of_game(own, number), 5)).items():
                tolerance = 0 if not values.is_floating_point() else 2e-3 if name == "policy" else 1e-5
                torch.testing.assert_close(getattr(found, name), values, rtol=0, atol=tolerance, msg=name)
        seen[size] = len(shared)
    assert min(seen.values()) >= 2, seen


def of_game(samples: Samples, number: int) -> Samples:
    """Returns the samples of one game."""
    return samples.map(lambda tensor: tensor[samples.game == number])


def test_shares_of_sizes_and_rules() -> None:
    extra = ("game.suicide_share=0.25", "game.superko_shares={simple: 1, situational: 3}")
    config = tiny.config(MIXED, *extra, "game.random_komi_share=0.5", "game.komi_spread=1")
    numbers = torch.arange(4000)
    found = draw_rules(config.game, numbers, seed=1)
    count = Counter(rules.size for rules in found)
    assert abs(count[3] - 2000) < 130 and abs(count[4] - 1000) < 110 and count[3] + count[4] + count[5] == 4000
    assert abs(sum(rules.suicide for rules in found) - 1000) < 110
    superko = Counter(rules.superko for rules in found)
    assert set(superko) == {"simple", "situational"} and abs(superko["simple"] - 1000) < 110
    komi = {size: {rules.komi for rules in found if rules.size == size} for size in (3, 4, 5)}
    usual = {3: 8.5, 4: 1.5, 5: 24.5}
    assert komi == {size: {usual[size] + half / 2 for half in range(-2, 3)} for size in usual}
    assert abs(sum(rules.komi == usual[rules.size] for rules in found) - 2400) < 150  # half, and a fifth of the others
    assert draw_rules(config.game, numbers[100:200].flip(0), seed=1) == found[100:200][::-1]
    assert draw_rules(config.game, numbers, seed=2) != found


def learned(batch: TrainingBatch, precision: torch.dtype = torch.float32) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Returns the metrics and the gradients of a fresh network's first step."""
    config = tiny.config("network.blocks=2", "network.value_pooling=area")
    encoder, heads = make_encoder("zero17", True), config.network.heads
    trainer = Trainer(tiny.network(config, is_sharp=True), encoder, config.training, heads, "cpu", precision)
    trainer._clip = lambda: torch.zeros(())
    metrics = trainer.step(batch)
    gradients = {name: parameter.grad for name, parameter in trainer.network.named_parameters()}
    return {name: float(value) for name, value in metrics.items()}, gradients


@pytest.mark.parametrize("sizes", ["[]", "[[3, 1, 9], [5, 1, 24]]"])
def test_losses_and_gradients(sizes: str) -> None:
    """A batch, of one size or of two, is learned from alike in tensors of its own side and in larger ones."""
    config = tiny.config("game.size=5", "game.komi=24.5", f"game.sizes={sizes}", "game.move_cap=0")
    samples = random_games(config.game, 6, 3, 0, tiny.CPU).all_samples()
    samples = dataclasses.replace(samples, policy_weight=torch.rand(len(samples)))
    turns = torch.randint(8, (len(samples),))
    one, gradients = learned(tiny.batch_of(samples, turns))
    other, found = learned(tiny.batch_of(padded(samples, 7), turns))
    assert one == pytest.approx(other, rel=1e-4, abs=1e-5)
    largest = max(float(gradient.norm()) for gradient in gradients.values())
    for name, gradient in gradients.items():  # alike to 6e-6, or 8e-3 where a relu's sum is within rounding of 0
        assert (found[name] - gradient).norm() <= 0.02 * (gradient.norm() + 1e-3 * largest), name
