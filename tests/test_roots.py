"""The roots of a Gumbel search between moves by Triton's kernels, interpreted where there is no GPU, as torch has them:
how a search begins, what it finds, and the subtrees that are kept, over several moves of games of their own rules."""

import dataclasses
from collections.abc import Callable, Iterator

import pytest
import torch
from compiling import compile_call
from implementations import CPU, ONLY_TRITON, device_of, doing
from searches import GUMBEL, RULES, TableEvaluator, random_games, searched

from zerogo import board, kernels
from zerogo.config import SearchConfig
from zerogo.rules import Rules, own_actions
from zerogo.search import Search, SearchState
from zerogo.selfplay.loop import _played
from zerogo.tuning.trials import meaning


def moments(rules: Rules | list[Rules], leaves: int, budget: int, moves: int, device: torch.device) -> Iterator[list]:
    """Yields all that is known of four searches after each beginning and each end, one of which has no budget, one a
    small one, and one no noise; kept trees overflow where they can."""
    states, games = random_games(rules, 4, 5, move_cap=40)[0].to(device), torch.arange(4, device=device)
    settings = dataclasses.replace(GUMBEL, max_considered=5, leaves=leaves, cuda_graph=False)
    search = Search(TableEvaluator(), settings)
    search_state = search.init(states, budget)
    explores = torch.tensor([True, True, False, True], device=device)
    for turn in range(moves):
        budgets = torch.tensor([budget, 0, 3, budget - turn % 2], device=device)
        some = games if turn % 2 == 0 else games[1:]
        search.begin(search_state, some, budgets[some], turn, explore=explores[some])
        yield [part.clone() for part in meaning(search_state).values()]
        search.run_simulations(search_state)
        found = search.result(search_state, games)
        yield [found.visits, found.policy, found.value, found.prior, found.action]
        stays = games == 3 if turn == 1 else torch.zeros_like(games, dtype=torch.bool)
        states = _played(states, found.action, stays)
        search.advance(search_state, games, torch.where(stays, board.NO_MOVE, found.action), states)
        yield [search_state.deepest.clone(), search_state.tree.size.clone()]


@ONLY_TRITON
@pytest.mark.parametrize("leaves", [1, 3])
@pytest.mark.parametrize("rules", [RULES[0], [RULES[1], RULES[2], RULES[5], RULES[4]]], ids=["one", "mixed"])
def test_searches_begin_and_end_alike(rules: Rules | list[Rules], leaves: int, way: str) -> None:
    with doing("blind"):
        wanted = list(moments(rules, leaves, 8, 4, CPU))
    with doing(way, "tree", "roots", "draws"):
        found = list(moments(rules, leaves, 8, 4, device_of(way)))
    for one, other in zip(found, wanted, strict=True):
        for ours, torchs in zip(one, other, strict=True):
            torch.testing.assert_close(ours.cpu(), torchs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [9, 19])
def test_kernels_compile(size: int, use: Callable) -> None:
    """To machine code that spills next to nothing."""
    pytest.importorskip("triton")
    use("blind")
    states, settings = board.new_games(2, Rules(size=size)), SearchConfig(algorithm="gumbel", max_considered=16)
    search_state: SearchState = searched(Search(TableEvaluator(), settings), states, torch.tensor([4, 4]), steps=1)
    bare, games = dataclasses.replace(search_state, states=None, repeated_states=None), torch.arange(2)
    legal, flags = board.legal_actions(states), torch.ones(2, dtype=torch.bool)
    words, prior, value = search_state.tree.words[:, 1], torch.rand(legal.shape), torch.rand(2)
    roots, leaves = kernels._module("roots", "cuda"), kernels._module("leaf_states", "cuda")
    position = dataclasses.replace(states, rules=None)
    places, finish_ = own_actions(states.rules.size, size), kernels._module("epilogues", "cuda").finish_
    y = torch.zeros(2, 96, size, size, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    calls = [
        (roots.result, bare, games, settings),
        (roots.entropies, prior, prior),
        (roots.make_roots, bare, games, words, prior, value, flags),
        (roots.begin_searches, bare, games, legal, games, games, None, None, 16),
        (roots.begin_searches, bare, games, legal, games, games, flags, places, 16),
        (leaves.pack, position),
        (leaves.outcome, position, states.on_board, states.rules.komi),
        (kernels._module("board", "cuda").legal_actions, states, torch.zeros(2 * size * size + 2, dtype=torch.int64)),
        (kernels._module("draws", "cuda").tempered, prior, 2.0, games, None),
        (kernels._module("draws", "cuda").tempered, prior, value, games, places),
        (kernels._module("planes", "cuda").history, states.black, states.white, states.recent, states.to_play, 7),
        (kernels._module("playouts", "cuda").play_out, states, games, states.rules.size),
        (finish_, y, torch.zeros(96), None, None, False),
        (finish_, y, torch.zeros(96), y, y[:, 0] == 0, True),
        (finish_, y, torch.zeros(96), y[:, :, :1, :1], None, True),
    ]
    for function, *arguments in calls:
        for used_by in compile_call(function, *arguments).values():
            assert used_by and all(used["spills"] <= 64 for used in used_by.values()), (function, used_by)
