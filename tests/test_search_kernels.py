"""The search's kernels against torch, by Numba, by Triton interpreted, and by Triton on a GPU (`pytest -m gpu`): equal
nodes, sums and counters, to the bit; on a GPU, whose exponentials and sums round otherwise, fractions are close.

Torch's answers are always the CPU's. The interpreter is slow, so Triton gets smaller searches and fewer settings."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import searches
import torch
import toys
from boards import after_random_moves, of_stones
from implementations import CPU, HAS_CUDA, KERNELS, NUMBA, TRITON, device_of, doing, module
from searches import PUCT, SETTINGS, TableEvaluator, same_searches, searched
from torch import Tensor

from zerogo import board, kernels
from zerogo.config import SearchConfig
from zerogo.evaluator import Evaluation
from zerogo.rules import Rules
from zerogo.search import Search, SearchState
from zerogo.search.tree import NULL_NODE, ROOT, keep_subtree_

REPEATING = toys.random_tree(8).with_repeating(0.4, seed=2)
FIRST, SECOND, LAST = map(toys.tic_tac_toe, ("X.......O", "XX.OX...O", "X...O...."))
TOYS, STARTS = toys.union(FIRST, SECOND, REPEATING, LAST)
LENGTH = 70 if HAS_CUDA else 12  # more than what Triton backs up at once, of which the interpreter gets less
LINE = toys.written_out(0, lambda state: {0: state + 1}, lambda state: 0.5 if state == LENGTH else None, num_actions=2)


def compared(way: str, run: Callable[[torch.device], SearchState]) -> tuple[SearchState, SearchState]:
    """Returns what torch finds on the CPU and what the kernels for trees find on their device, after a comparison."""
    with doing("plain" if way == "numba" else "blind"):
        plain = run(CPU)
    with doing(way, "tree"):
        ours = run(device_of(way))
    same_searches(plain, ours)
    return plain, ours


def cases(triton: list[tuple[str, int]], by_numba: tuple[int, ...] = (1, 5, 11)) -> pytest.MarkDecorator:
    """Runs a test by Numba with all settings and these leaves, and by Triton with those given: (settings, leaves)."""
    some = [(NUMBA, name, leaves) for name in SETTINGS for leaves in by_numba]
    some += [(TRITON, name, leaves) for name, leaves in triton]

    def case(way: Any, name: str, leaves: int) -> Any:
        settings = dataclasses.replace(SETTINGS[name], leaves=leaves, cuda_graph=False)
        return pytest.param(*way.values, settings, id=f"{name}-{leaves}-{way.values[0]}", marks=way.marks)

    return pytest.mark.parametrize(("way", "settings"), [case(*one) for one in some])


SOME = [("puct with all", 4), ("gumbel", 1), ("gumbel", 5)]


def search_of(toy: toys.Toy, settings: SearchConfig, device: torch.device) -> Search:
    toy = toy.to(device)
    return Search(toy.evaluator(exact=False), settings, game=toy, keeps_scores=True)


@cases(SOME)
def test_toys_are_searched_alike(way: str, settings: SearchConfig) -> None:
    """Two searches in a row keep the subtrees, with budgets of their own; they meet finished games, closed moves."""
    budgets = torch.tensor([0, 11, 11, 8])

    def run(device: torch.device) -> SearchState:
        toy = TOYS.to(device)

        def play(states: toys.Positions, actions: Tensor) -> toys.Positions:
            after = toy.after[states.index, actions]
            return toys.Positions(torch.where(after < 0, states.index, after), states.ply + 1, states.num_actions)

        search = search_of(TOYS, settings, device)
        return searches.played_on(search, TOYS.new(STARTS).to(device), budgets.to(device), play)

    plain, _ = compared(way, run)
    assert (plain.exact_leaves > 0).all()
    assert settings.leaves == 1 or int(plain.collisions) > 0


@cases([("puct", 4)])
def test_a_tree_is_filled_to_its_last_node(way: str, settings: SearchConfig) -> None:
    states = after_random_moves([Rules(size=4, komi=0.5)] * 2, 4)
    search = Search(TableEvaluator(), dataclasses.replace(settings, keep_tree=False))
    plain, ours = compared(way, lambda on: search.run(states.to(on), torch.tensor([13, 6]).to(on)).search_state)
    assert int(ours.tree.size[0]) == 14 == ours.tree.num_nodes - 1
    searches.check_sums(plain)


@KERNELS
def test_a_long_line_is_followed_and_backed_up(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deeper than the nodes that Triton backs up at once, to its end, met a second time; beside it is a closed move."""
    begun = []
    if way == "triton" and not HAS_CUDA:
        monkeypatch.setattr(module("tree", way), "LEVELS", 8)
    for device in (CPU, device_of(way)):
        search = search_of(LINE, dataclasses.replace(PUCT, leaves=1, cuda_graph=False), device)
        with kernels.plain():
            states, budgets = LINE.new([0]).to(device), torch.tensor([LENGTH + 5], device=device)
            begun.append((search, searched(search, states, budgets, steps=LENGTH)))

    def run(device: torch.device) -> SearchState:
        search, search_state = begun.pop(0)
        search.simulate(search_state)
        return search_state

    _, ours = compared(way, run)
    assert int(ours.deepest) == LENGTH and ours.exact_leaves.tolist() == [2, 0] and int(ours.done) == LENGTH + 1


class Rounding(TableEvaluator):
    """The `Table` with priors and values of which all sums and quotients round."""

    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        found = super().__call__(state, legal, key)
        prior = found.prior**1.5
        return Evaluation(prior=prior / prior.sum(1, keepdim=True), value=1.7 * found.value, score=found.score)


@cases([("puct with all", 2), ("gumbel", 1)])
@pytest.mark.parametrize("size", [9, 25])
def test_choices_among_many_moves(way: str, settings: SearchConfig, size: int) -> None:
    search, states = Search(Rounding(), settings), after_random_moves([Rules(size)] * 3, 6)

    def run(device: torch.device) -> SearchState:
        search_state = searched(search, states.to(device), torch.tensor([40, 9, 0], device=device), steps=0)
        for _ in range(5 if way == "triton" else 20):
            search.simulate(search_state)
            search_state.tree.square_sum.mul_(0.1)  # below the mean's square, as rounding may make it
        return search_state

    compared(way, run)


def even(states: board.State, legal: Tensor, key: Tensor) -> Evaluation:
    nothing = torch.zeros(len(legal), device=legal.device)
    return Evaluation(prior=legal / legal.sum(1, keepdim=True), value=nothing, score=nothing)


@cases([("puct", 1), ("gumbel", 1)], by_numba=(1,))
def test_of_equal_moves_the_lowest_is_taken(way: str, settings: SearchConfig) -> None:
    states = of_stones([[[1] * 5 + [0] * 14] + [[0] * 19] * 18] * 2).to(device_of(way))
    with doing(way, "tree"):
        tree = Search(even, settings).run(states, 1).search_state.tree
    assert (tree.children[:, ROOT] > NULL_NODE).nonzero().tolist() == [[0, 5], [1, 5]]


@pytest.mark.parametrize("seed", range(2))
@cases([("puct", 1)])
def test_large_subtrees_are_kept_alike(way: str, settings: SearchConfig, seed: int) -> None:
    """Larger than what Triton moves at once; of some games only; a move without a node, one to a finished position."""
    toy = toys.tic_tac_toe(("XX.O.....", "X...O....")[seed])
    with kernels.plain():
        search = Search(toy.evaluator(exact=False), PUCT, game=toy)
        tree = search.run(toy.new([0] * 5), torch.tensor([60, 40, 50, 60, 3])).search_state.tree
    best = tree.visits[torch.arange(5).unsqueeze(1), tree.children[:, ROOT].clamp(min=0).long()].argmax(1)
    if seed == 0:
        best[1] = 2  # ends the game
        assert tree.terminal[1, int(tree.children[1, ROOT, 2])]
    games = torch.tensor([[0, 9], [1, 9], [3, 9], [4, 9]])[:, 0]  # with gaps in memory
    plain, ours = tree.map(torch.clone), tree.map(torch.clone).to(device_of(way))
    with kernels.plain():
        keep_subtree_(plain, games, best[games], torch.full((5,), 99))
    with doing(way, "tree"):
        there = (part.to(device_of(way)) for part in (games, best[games], torch.full((5,), 99)))
        keep_subtree_(ours, *there)
    searches.same_trees(plain, ours)
    assert int(plain.size[0]) > 8


def test_moves_that_there_are_not_are_refused() -> None:
    state = board.new_games(3, Rules(size=5))
    search = Search(TableEvaluator(), SearchConfig())
    search_state = search.run(state, 4).search_state
    for action in (-1, 26, 10**7):
        with pytest.raises(IndexError):
            search.advance(search_state, torch.arange(3), torch.tensor([0, action, 1]), state)
    with pytest.raises(ValueError, match="search.leaves is 0"):
        Search(TableEvaluator(), SearchConfig(leaves=0))
