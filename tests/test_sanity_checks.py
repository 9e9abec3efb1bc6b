"""SanityChecks: quiet in a healthy run, and each planted bug moves its own."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from tables import tables

from zerogo.board import symmetry
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.features import make_encoder
from zerogo.network.trainer import Trainer
from zerogo.pipeline import sanity_checks
from zerogo.pipeline.sanity_checks import SanityChecks
from zerogo.replay import Samples
from zerogo.selfplay import SelfPlayResult
from zerogo.selfplay.opening import random_games

SETTINGS = tiny.config("game.size=5", "game.komi=0.5", "game.move_cap=60", "network.heads.ownership=1.5")
LATE = 10**6  # a step at which every sanity check is looked at


@pytest.fixture(scope="module")
def collected() -> SelfPlayResult:
    """Games of the random player, whose policies count as learned on legal moves."""
    return random_games(SETTINGS.game, 120, 1, 0, tiny.CPU)


@pytest.fixture(scope="module")
def samples(collected: SelfPlayResult) -> Samples:
    made = collected.all_samples()
    legal = sanity_checks.board.legal_actions(made.state()).to(torch.float32)
    return replace(
        made, policy=(legal / legal.sum(1, keepdim=True)).to(torch.float16), policy_weight=torch.ones(len(made))
    ).packed()


class Judge:
    """A network that knows the score of the board as it stands, and plays beside its own stones."""

    device, dtype = tiny.CPU, torch.float32

    def __init__(self, value: float = 1.0, ownership: float = 1.0, turn: int = 0) -> None:
        self.signs, self.turn = (value, ownership), turn

    def __call__(self, planes, globals, on_board=None) -> dict[str, torch.Tensor]:
        own, other = planes[:, 0], planes[:, 8]  # zero17: eight of the mover, eight of the other side
        ownership = own - other
        value = ownership.sum((1, 2)) / 5
        near = torch.nn.functional.avg_pool2d(own.unsqueeze(1), 3, 1, 1).flatten(1)
        logits = torch.cat([99 * near, value.unsqueeze(1) * 0], 1)
        logits = symmetry.transform_actions(logits, self.turn)
        return {"policy": logits, "value": self.signs[0] * value, "ownership": self.signs[1] * 3 * ownership}


def evaluator(**planted: float) -> Evaluator:
    return Evaluator(Judge(**planted), make_encoder("zero17", komi_input=True))


def broken(numbers: dict[str, float]) -> set[str]:
    watch = SanityChecks(stops=False)
    watch.look(numbers, LATE)
    return watch.unhealthy


def test_all_is_quiet_where_nothing_is_wrong(collected: SelfPlayResult, samples: Samples) -> None:
    numbers = sanity_checks.of_samples(samples) | sanity_checks.of_network(samples, evaluator())
    numbers |= sanity_checks.of_games(collected, samples)
    names = "value_of_decided", "ownership_of_decided", "opening_variety"
    assert {f"sanity/{name}" for name in names} <= numbers.keys()
    assert not broken(numbers)


@pytest.mark.parametrize(("planted", "name"), tables("sanity_checks")["bugs of a network"])
def test_a_planted_bug_of_the_network_is_seen(samples: Samples, planted: dict[str, float], name: str) -> None:
    assert name in broken(sanity_checks.of_network(samples, evaluator(**planted)))


def illegal(samples: Samples) -> Samples:
    """The policy on a stone, in late positions."""
    late = samples.ply > 10
    point = (samples.state().stones[late].flatten(1) != 0).to(torch.int8).argmax(1)
    policy = samples.policy.clone()
    policy[late] = torch.nn.functional.one_hot(point, policy.shape[1]).to(policy.dtype)
    return replace(samples, policy=policy)


@pytest.mark.parametrize(("field", "source", "name"), tables("sanity_checks")["bugs of samples"])
def test_a_planted_bug_of_the_samples_is_seen(samples: Samples, field: str, source: str, name: str) -> None:
    planted = replace(samples, **{field: -getattr(samples, source)}) if field else illegal(samples)
    assert name in broken(sanity_checks.of_samples(planted))


def test_policies_that_are_turned_otherwise_than_the_board_are_seen(samples: Samples, monkeypatch) -> None:
    network, encoder = tiny.network(SETTINGS), make_encoder("zero17", True)
    trainer = Trainer(network, encoder, SETTINGS.training, SETTINGS.network.heads, "cpu", torch.float32)
    late = samples.map(lambda tensor: tensor[samples.ply > 10])
    batch = tiny.batch_of(late, torch.arange(len(late)) % 8)
    assert not broken(sanity_checks.of_batch(batch, trainer))
    right = symmetry.transform_actions
    wrong = lambda values, tables, size=None: right(values, tables.argsort(1), size)  # noqa: E731
    monkeypatch.setattr(symmetry, "transform_actions", wrong)
    assert broken(sanity_checks.of_batch(batch, trainer)) == {"target_on_stones"}


def test_a_check_warns_once_and_an_exact_one_stops() -> None:
    watch, low = SanityChecks(stops=True), {"sanity/value_spread": 0.0}
    assert watch.look(low, 10) == []  # a fresh network may be flat
    assert len(watch.look(low, 600)) == 1 and watch.look(low, 700) == []
    assert watch.look({"sanity/value_spread": 0.5}, 800) == [] and len(watch.look(low, 900)) == 1
    with pytest.raises(InputError, match="target_on_illegal_moves is 0.5 at step 3; the healthy range is 0 to 0.001"):
        watch.look({"sanity/target_on_illegal_moves": 0.5}, 3)
    assert len(SanityChecks(stops=False).look({"sanity/target_on_illegal_moves": 0.5}, 3)) == 1


def test_a_run_stops_before_it_saves(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sanity_checks, "of_samples", lambda samples: {"sanity/value_ownership_gap": 2.0})
    with pytest.raises(InputError, match="the result and the score have different winners"):
        tiny.run(tmp_path / "broken")
    assert not list((tmp_path / "broken").rglob("step-*.pt"))
    assert tiny.run(tmp_path / "warned", "pipeline.sanity_checks=warn", "pipeline.iterations=1").exists()
