"""The evaluator: legal moves, symmetries, perspective, mixed sizes."""

import dataclasses
import gc
import weakref

import pytest
import tiny
import torch
from boards import after_random_moves, of_stones

from zerogo import board, scoring
from zerogo.board import symmetry
from zerogo.board.flood import pack_rows, unpack_rows
from zerogo.config.sections import VALUE_POOLING
from zerogo.errors import InputError
from zerogo.evaluator import Evaluation, Evaluator, score_of
from zerogo.features import make_encoder
from zerogo.network import Network
from zerogo.rules import Rules

ENCODER = make_encoder("zero17", komi_input=True)


def make_network(value_pooling: str = "max") -> Network:
    settings = tiny.config("game.size=5", "network.blocks=2", f"network.value_pooling={value_pooling}")
    return tiny.network(settings, is_sharp=True)


def make_evaluator(symmetries: str, dtype: torch.dtype = torch.float32) -> Evaluator:
    return Evaluator.from_network(make_network(), ENCODER, "cpu", dtype, symmetries)


def turned(state: board.State, s: int) -> board.State:
    """Returns the games with board and history turned."""

    def turn(rows: torch.Tensor) -> torch.Tensor:
        points = unpack_rows(rows)
        flat = points.reshape(-1, *points.shape[-2:])
        return pack_rows(symmetry.transform_planes(flat, s)).view_as(rows)

    names = ("black", "white", "recent", "on_board")
    return dataclasses.replace(state, **{name: turn(getattr(state, name)) for name in names})


def check(evaluation: Evaluation, legal: torch.Tensor) -> None:
    prior = evaluation.prior
    assert prior.dtype == torch.float32 and (prior[~legal] == 0).all() and (prior[legal] > 0).all()
    assert torch.allclose(prior.sum(-1), torch.ones(len(prior)), atol=1e-6)
    assert evaluation.value.abs().max() <= 1 and evaluation.ownership.abs().max() <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("symmetries", ["none", "random", "all"])
def test_only_legal_moves_have_prior(symmetries: str, dtype: torch.dtype) -> None:
    state = after_random_moves([Rules(5)] * 6, 14)
    evaluator = make_evaluator(symmetries, dtype)
    legal = board.legal_actions(state)
    evaluation = evaluator(state)
    check(evaluation, legal)
    komi = torch.where(state.to_play == board.BLACK, state.rules.komi, -state.rules.komi)
    assert torch.allclose(evaluation.score, evaluation.ownership.float().sum((1, 2)) - komi, atol=0.1)
    assert torch.equal(evaluator(state, legal).prior, evaluation.prior)
    only_pass = torch.zeros_like(legal)
    only_pass[:, -1] = True
    assert torch.equal(evaluator(state, only_pass).prior, only_pass.float())


@pytest.mark.parametrize("s", range(8))
def test_the_average_of_all_is_equivariant(s: int) -> None:
    """Turning the board turns prior and ownership and leaves the value: float32, to 1e-5."""
    state = after_random_moves([Rules(5)] * 5, 9)
    evaluator = make_evaluator("all")
    legal = board.legal_actions(state)
    straight = evaluator(state, legal)
    other = evaluator(turned(state, s), symmetry.transform_actions(legal, s))
    assert torch.allclose(other.prior, symmetry.transform_actions(straight.prior, s), atol=1e-5)
    assert torch.allclose(other.ownership, symmetry.transform_planes(straight.ownership, s), atol=1e-5)
    assert torch.allclose(other.value, straight.value, atol=1e-5)
    assert straight.prior.std(-1).min() > 0.01, "a uniform prior would prove nothing"


def test_random_symmetries_depend_on_the_key_alone() -> None:
    state = after_random_moves([Rules(5)] * 16, 7)
    evaluator = make_evaluator("random")
    keys = torch.arange(16) * 10**12
    whole = evaluator(state, key=keys).prior
    order = torch.randperm(16)
    assert torch.allclose(evaluator(state.select(order), key=keys[order]).prior, whole[order], atol=1e-6)
    assert not torch.allclose(evaluator(state, key=keys + 1).prior, whole, atol=1e-4)
    assert torch.equal(evaluator(state).prior, evaluator(state).prior)


@pytest.mark.parametrize("value_pooling", VALUE_POOLING)
@pytest.mark.parametrize("symmetries", ["none", "random", "all"])
def test_mixed_sizes(symmetries: str, value_pooling: str) -> None:
    """Each game of a padded batch is evaluated as it is alone, whichever way its board is turned."""
    evaluator = Evaluator.from_network(make_network(value_pooling), ENCODER, symmetries=symmetries)
    rules = [Rules(6), Rules(4), Rules(3)]
    state = after_random_moves(rules, 3)
    keys = torch.tensor([3, 4, 5])
    for turn in range(4):
        mixed = evaluator(state, key=keys + turn)
        check(mixed, board.legal_actions(state))
        for game, rule in enumerate(rules):
            size, n = rule.size, slice(game, game + 1)
            alone = board.from_stones(state.stones[n, :size, :size].contiguous(), state.to_play[n], rule)
            alone = dataclasses.replace(alone, recent=state.recent[n, :, :, :size])
            legal = board.legal_actions(state)[n]
            points = legal[:, :-1].view(1, 6, 6)[:, :size, :size].flatten(1)
            own = evaluator(alone, torch.cat([points, legal[:, -1:]], 1), keys[n] + turn)
            prior = mixed.prior[n, :-1].view(6, 6)[:size, :size].flatten()
            assert torch.allclose(prior, own.prior[0, :-1], atol=1e-5)
            assert torch.allclose(mixed.value[n], own.value, atol=1e-5)
            both = [evaluator.evaluate_in_symmetry(games, turn).value[at] for games, at in ((state, n), (alone, 0))]
            assert torch.allclose(*both, atol=1e-5)

            assert torch.allclose(mixed.ownership[game, :size, :size], own.ownership[0], atol=1e-5)
            assert not mixed.ownership[game, size:].any() and not mixed.ownership[game, :, size:].any()


def test_the_score_of_a_final_ownership_is_the_games_score() -> None:
    """By area and by territory, with captures, suicides and stones that stood at the start."""
    rules = [Rules(5, 0.5), Rules(5, 6.5, scoring="territory"), Rules(4, 2.0, suicide=True, scoring="territory")] * 8
    stones = torch.zeros(len(rules), 5, 5, dtype=torch.int8)
    stones[12:, 1, 2:4] = 1
    start = of_stones(stones, rules)
    for state in (start, *(after_random_moves(rules, plies, start=start) for plies in (9, 40))):
        score_black, ownership_black = scoring.result_black(state)
        sign = torch.where(state.to_play == board.BLACK, 1.0, -1.0)
        assert torch.equal(score_of(ownership_black * sign.view(-1, 1, 1), state), score_black * sign)


def test_unknown_symmetries() -> None:
    with pytest.raises(InputError, match="'both'"):
        make_evaluator("both")


def test_an_evaluator_that_is_not_used_any_more_frees_its_network() -> None:
    one = Evaluator.from_network(make_network(), ENCODER)
    other, network = one.with_symmetries("all"), weakref.ref(one.network)
    assert one.with_symmetries("all") is other and other.with_symmetries("none") is one
    gc.disable()
    try:
        del one, other
        assert network() is None
    finally:
        gc.enable()
