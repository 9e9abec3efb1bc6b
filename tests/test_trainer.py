"""Learning: losses, a tiny batch by heart, averaged weights with statistics of their own."""

import copy
import dataclasses
import math

import pytest
import tiny
import torch
from boards import after_random_moves

from zerogo import board
from zerogo.board import symmetry
from zerogo.config import NetworkConfig, TrainingConfig
from zerogo.errors import InputError
from zerogo.features import make_encoder, on_board_mask
from zerogo.network import Network
from zerogo.network.trainer import LOSSES, WEIGHT_DECAY, Targets, Trainer, head_metrics, loss_terms
from zerogo.replay import TrainingBatch
from zerogo.rules import Rules

ENCODER = make_encoder("zero17", komi_input=True)
HEADS, FLOAT = {"policy": 1.0, "value": 1.0, "ownership": 0.5}, torch.float32
SCHEDULE = ((0.0, 1.0), (0.8, 0.1))
SETTINGS = TrainingConfig(batch=8, learning_rate=3e-3, warmup_samples=0, ema_samples=64, schedule=SCHEDULE)


def make_batch(seed: int = 0, rules: list[Rules] | None = None) -> TrainingBatch:
    """Returns 8 positions with made-up targets."""
    samples = tiny.samples_of(after_random_moves(rules or [Rules(5)] * 8, 6, seed), seed)
    return tiny.batch_of(samples, torch.randint(8, (8,)))


def make_trainer(settings: TrainingConfig = SETTINGS, dtype: torch.dtype = FLOAT, heads: dict = HEADS) -> Trainer:
    torch.manual_seed(2)
    shape = NetworkConfig(blocks=2, channels=16, pooling_channels=8, head_channels=16, value_hidden=16, heads=heads)
    return Trainer(Network(shape, ENCODER.num_planes, ENCODER.num_globals, 5), ENCODER, settings, heads, "cpu", dtype)


def make_targets(**changes: torch.Tensor) -> Targets:
    made = dict.fromkeys(("value", "score"), torch.zeros(2))
    made |= {"policy": torch.full((2, 5), 0.2), "policy_weight": torch.ones(2), "board_weight": torch.ones(2)}
    made |= {"reply": torch.eye(5)[:2], "has_reply": torch.ones(2, dtype=torch.bool)}
    made |= {"short_values": torch.zeros(2, 3), "ownership": torch.zeros(2, 2, 2)}
    return Targets(**made | changes)


def loss_of(name: str, output: torch.Tensor, targets: Targets, weight: float = 1.0) -> torch.Tensor:
    parts = loss_terms({name: output}, targets, {name: weight})
    loss, found = parts[0][0].sum() / weight, head_metrics({name: output.detach()}, targets, {name: weight}, parts)
    assert len(parts) == 1 and torch.isclose(found[f"{name}_loss"], loss)
    return loss


def metrics_of(name: str, output: torch.Tensor, targets: Targets) -> dict[str, torch.Tensor]:
    return head_metrics({name: output}, targets, {name: 1.0}, [])


def test_policy_loss() -> None:
    policy = torch.tensor([[1.0, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0]])
    logits = torch.log(torch.tensor([[0.5, 0.2, 0.1, 0.1, 0.1], [0.1, 0.4, 0.3, 0.1, 0.1]])) + 3
    each = torch.tensor([-math.log(0.5), -0.5 * (math.log(0.4) + math.log(0.3))])
    loss, found = (of("policy", logits, make_targets(policy=policy)) for of in (loss_of, metrics_of))
    assert torch.isclose(loss, each.mean())
    assert torch.isclose(found["policy_kl"], (each - torch.tensor([0.0, math.log(2)])).mean(), atol=1e-6)
    assert found["policy_accuracy"] == 1
    weighted = loss_of("policy", logits, make_targets(policy=policy, policy_weight=torch.tensor([3.0, 1.0])), 0.15)
    assert torch.isclose(weighted, (3 * each[0] + each[1]) / 4)
    assert loss_of("policy", logits, make_targets(policy=policy, policy_weight=torch.zeros(2))) == 0


def test_reply_loss_is_the_mean_over_samples_with_a_reply() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.2, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.125, 0.125]]))
    losses = [loss_of("reply", logits, make_targets()), (math.log(2) + math.log(4)) / 2]
    one = torch.tensor([True, False])
    without = make_targets(reply=torch.eye(5)[:2] * one.unsqueeze(1), has_reply=one)
    losses += [loss_of("reply", logits, without, 0.15), math.log(2)]
    losses += [loss_of("reply", logits, make_targets(policy_weight=torch.tensor([0.0, 1.0]))), math.log(4)]
    losses += [loss_of("reply", logits, make_targets(reply=torch.zeros(2, 5), has_reply=one & ~one)), 0]
    assert [float(loss) for loss in losses[::2]] == pytest.approx(losses[1::2])


def test_score_loss_is_in_points_and_leaves_unknown_boards_out() -> None:
    targets = make_targets(score=torch.tensor([5.0, -90.0]), board_weight=torch.tensor([1.0, 0.0]))
    loss, found = (of("score", torch.tensor([9.0, 0.0]), targets) for of in (loss_of, metrics_of))
    assert float(loss) == pytest.approx((4 / 20) ** 2 / 2)
    assert float(found["score_error_points"]) == pytest.approx(4.0)


def test_the_soft_policy_is_the_fourth_root_made_to_sum_to_one() -> None:
    policy = torch.tensor([[0.8, 0.05, 0.05, 0.05, 0.05], [1.0, 0.0, 0.0, 0.0, 0.0]])
    on_board = torch.tensor([[[True, True], [True, True]], [[True, False], [False, False]]])
    exists = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 0, 1]])  # moves; the last one is the pass
    soft = (policy + 1e-7 * exists) ** 0.25
    soft /= soft.sum(1, keepdim=True)
    logits = torch.log(soft.clamp(min=1e-9))
    loss = loss_of("soft_policy", logits, make_targets(policy=policy, on_board=on_board), 0.1)
    assert float(loss) == pytest.approx(float(torch.special.entr(soft).sum(1).mean()))  # least where it is met


def test_value_loss_is_the_chance_of_winning() -> None:
    logit = torch.atanh(torch.tensor([0.6, 0.0]))
    targets = make_targets(value=torch.tensor([1.0, 0.0]))
    loss, found = loss_of("value", logit, targets, 0.5), metrics_of("value", logit, targets)
    assert torch.isclose(loss, torch.tensor((-math.log(0.8) + math.log(2)) / 2))
    assert found["value_accuracy"] == 1 and torch.isclose(found["value_mean"], torch.tensor(0.3))


def test_short_values_are_learned_where_they_are_known() -> None:
    logits = torch.atanh(torch.tensor([[0.6, 0.0, -0.2], [0.9, 0.9, 0.9]])).requires_grad_()
    short = torch.tensor([[1.0, 0.0, -1.0], [math.nan] * 3])  # of an older file
    loss = loss_of("short_values", logits, make_targets(short_values=short))
    assert float(loss.detach()) == pytest.approx(-(math.log(0.8) + math.log(0.5) + math.log(0.6)) / 3)
    loss.backward()
    assert torch.isfinite(logits.grad).all() and not logits.grad[1].any() and logits.grad[0, 0] < 0 < logits.grad[0, 2]
    assert loss_of("short_values", logits, make_targets(short_values=short[1:].repeat(2, 1))) == 0


def test_ownership_loss_counts_the_points_that_exist() -> None:
    logits = torch.atanh(torch.tensor([[[0.6, 0.6], [0.6, 0.6]], [[-0.2, 0.9], [0.9, 0.9]]]))
    on_board = on_board_mask(board.new_games(2, [Rules(2), Rules(1)]))
    loss = loss_of("ownership", logits, make_targets(ownership=torch.ones(2, 2, 2), on_board=on_board), 1.5)
    assert torch.isclose(loss, torch.tensor(-(math.log(0.8) + math.log(0.4)) / 2))
    everywhere = loss_of("ownership", logits, make_targets(ownership=torch.ones(2, 2, 2)))
    assert torch.isclose(everywhere, torch.tensor(-(4 * math.log(0.8) + math.log(0.4) + 3 * math.log(0.95)) / 8))


@pytest.mark.parametrize("dtype", [FLOAT, torch.bfloat16])
def test_a_tiny_batch_is_learned_by_heart(dtype: torch.dtype) -> None:
    trainer = make_trainer(dataclasses.replace(SETTINGS, learning_rate=5e-3), dtype)
    batch = make_batch()
    first = trainer.step(batch)
    for _ in range(150):
        last = trainer.step(batch)
    assert first["policy_kl"] > 0.5
    assert all(abs(first[f"{name}_loss"] - math.log(2)) < 0.05 for name in ("value", "ownership"))
    assert last["policy_kl"] < 0.1 and last["value_loss"] < 0.1 and last["ownership_loss"] < 0.15
    assert last["value_accuracy"] == 1 and last["loss"] < first["loss"]
    trainer.refresh_statistics([batch])
    assert trainer.measure(batch)["value_loss"] < 0.2, "the averaged weights have learned it too"
    assert all(metric.ndim == 0 and not metric.requires_grad for metric in last.values())
    names = "loss policy_loss value_loss ownership_loss policy_entropy gradient_norm learning_rate"
    assert set(names.split()) <= set(last)


@pytest.mark.parametrize("sizes", [[5] * 8, [5, 3, 4, 5, 3, 2, 5, 4]])
def test_augmented_samples_are_equivariant(sizes: list[int]) -> None:
    """Planes, policy, ownership turn together: a turned sample says of a point what its place before said."""
    trainer, batch = make_trainer(), make_batch(rules=[Rules(size) for size in sizes])
    straight, _, plain = trainer.encode_batch(dataclasses.replace(batch, symmetry=torch.zeros(8, dtype=torch.int64)))
    turned, _, targets = trainer.encode_batch(dataclasses.replace(batch, symmetry=torch.arange(8)))
    policies = [policy[:, :-1].unflatten(1, (5, 5)) for policy in (targets.policy, plain.policy)]
    pairs = [(turned, straight), (targets.ownership, plain.ownership), policies]
    for s, size in enumerate(sizes):  # a smaller board is turned in its corner
        for pair in pairs:
            there, here = (tensor[s : s + 1, ..., :size, :size] for tensor in pair)
            assert torch.equal(there, symmetry.transform_planes(here, s))
        assert targets.policy[s, -1] == plain.policy[s, -1]
        assert not turned[s, :, size:].any() and not turned[s, :, :, size:].any()
    assert torch.equal(targets.value, plain.value)
    assert math.isfinite(trainer.step(batch)["loss"])


def test_learning_rate() -> None:
    schedule = ((0.0, 1.0), (0.5, 0.3), (0.8, 0.1))
    trainer = make_trainer(dataclasses.replace(SETTINGS, learning_rate=1.0, warmup_samples=32, schedule=schedule))
    for samples, rate in ((0, 0.25), (8, 0.5), (24, 1.0), (1000, 1.0)):
        trainer.samples = samples
        assert trainer.learning_rate() == rate
    for progress, rate in ((0.49, 1.0), (0.5, 0.3), (0.79, 0.3), (0.8, 0.1), (7.0, 0.1)):
        trainer.progress = progress
        assert trainer.learning_rate() == rate


def test_gradients_are_clipped_and_only_kernels_decay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerogo.network.trainer.MAX_GRADIENT_NORM", 1e-3)
    trainer = make_trainer()
    metrics = trainer.step(make_batch())
    norm = torch.stack([parameter.grad.norm() for parameter in trainer.network.parameters()]).norm()
    assert metrics["gradient_norm"] > 1e-2 and torch.isclose(norm, torch.tensor(1e-3), rtol=1e-2)
    decaying, others = trainer.optimizer.param_groups
    assert decaying["weight_decay"] == WEIGHT_DECAY and others["weight_decay"] == 0.0
    assert {p.ndim for p in decaying["params"]} == {2, 4} and {p.ndim for p in others["params"]} == {1}
    assert len(decaying["params"]) + len(others["params"]) == len(list(trainer.network.parameters()))


def test_the_state_of_another_optimiser_is_left() -> None:
    trainer = make_trainer()
    of_sgd = torch.optim.SGD(trainer.network.parameters(), 0.1).state_dict()
    trainer.load_state_dict(trainer.state_dict() | {"optimizer": of_sgd})
    assert math.isfinite(trainer.step(make_batch())["loss"])


@pytest.mark.parametrize("trained, horizons", [(0, (1, 2, 3, 3)), (1, (2, 2, 3, 3))])
def test_average_is_the_bias_corrected_mean(trained: int, horizons: tuple[int, ...], monkeypatch) -> None:
    """Over `ema_samples`, at first over a share of the samples so far, here an eighth; of trained weights over 2."""
    monkeypatch.setattr("zerogo.network.trainer.EARLY_HORIZON", 1 / 8)
    trainer = make_trainer(dataclasses.replace(SETTINGS, ema_samples=3))
    monkeypatch.setattr("zerogo.network.trainer.TRAINED_HORIZON", 2)
    if trained:
        trainer.start_from(trainer.network.state_dict())
    history, weights = [trainer.network.stem.conv.weight.detach().clone()], torch.tensor([float(trained), 0, 0, 0, 0])
    for number, horizon in enumerate(horizons, 1):
        trainer.step(make_batch(number))
        history.append(trainer.network.stem.conv.weight.detach().clone())
        weights *= math.exp(-8 / horizon)
        weights[number] = 1 - math.exp(-8 / horizon)
    expected = sum(w * tensor for w, tensor in zip(weights / weights.sum(), history, strict=True))
    assert torch.allclose(trainer.averaged.stem.conv.weight, expected, atol=1e-6)


@pytest.mark.parametrize("mixed", [False, True])
def test_statistics_belong_to_the_averaged_weights(mixed: bool) -> None:
    rules = [Rules(5), Rules(3)] * 4 if mixed else None
    trainer = make_trainer()
    batches = [make_batch(number, rules) for number in range(3)]
    for batch in batches:
        trainer.step(batch)
    weights = copy.deepcopy(trainer.averaged.state_dict())
    before = trainer.averaged.stem.norm.running_mean.clone()
    trainer.refresh_statistics([])
    assert torch.equal(trainer.averaged.stem.norm.running_mean, before)
    trainer.refresh_statistics(iter(batches))
    stem, means, variances = trainer.averaged.stem, [], []
    for batch in batches:
        planes, _, targets = trainer.encode_batch(batch)
        out = stem.conv(planes).permute(0, 2, 3, 1)
        points = out[targets.on_board] if mixed else out.flatten(0, 2)
        means.append(points.mean(0))
        variances.append(points.var(0))
    assert torch.allclose(stem.norm.running_mean, torch.stack(means).mean(0), atol=1e-5)
    assert torch.allclose(stem.norm.running_var, torch.stack(variances).mean(0), atol=1e-5)
    assert not torch.allclose(stem.norm.running_mean, before, atol=1e-3)
    assert not trainer.averaged.training
    for name, parameter in trainer.averaged.named_parameters():
        assert torch.equal(parameter, weights[name])


def test_heads_that_are_not_known() -> None:
    assert set(HEADS) <= set(LOSSES)
    with pytest.raises(InputError, match="'ladder'"):
        Trainer(make_trainer().network, ENCODER, SETTINGS, {"ladder": 1.0}, "cpu", torch.float32)
    fewer = make_trainer(heads={"policy": 1.0, "value": 1.0})
    assert "ownership_loss" not in fewer.step(make_batch())
