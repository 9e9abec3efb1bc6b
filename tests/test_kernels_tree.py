"""The CPU's tree kernels against torch's way: the same nodes, sums and counters after every step, to the bit."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import test_search
import torch
import toys
from test_leaves import RICH, check_sums, same_trees
from test_search import GUMBEL, PUCT, RULES, TableEvaluator, random_games
from test_search_toys import GAMES
from torch import Tensor

from zerogo import board, kernels
from zerogo.config import SearchConfig
from zerogo.rules import Rules
from zerogo.search import Search, SearchState
from zerogo.search.leaves import select_leaves, tries
from zerogo.search.tree import CLOSED, NULL_NODE, ROOT, UNVISITED, keep_subtree_

tree_kernels = kernels.compiled("tree", torch.device("cpu"))
pytestmark = pytest.mark.skipif(tree_kernels is None, reason="needs numba")
ALL = pytest.mark.parametrize("settings", [PUCT, RICH, GUMBEL], ids=["puct", "puct with all", "gumbel"])
LEAVES = pytest.mark.parametrize("leaves", [1, 4, 11])


class AnyNumbers(TableEvaluator):
    """Priors and values that round: the order of the operations counts."""

    def __call__(self, state: board.State, legal: Tensor, key: Tensor) -> SimpleNamespace:
        found = super().__call__(state, legal, key)
        prior = torch.where(legal, 1.0 / (3.0 - found.prior.to(torch.float64)), 0.0)
        return SimpleNamespace(
            prior=(prior / prior.sum(1, keepdim=True)).to(torch.float32), value=1.0 / (2.3 + found.value) - 0.4
        )


def searched(
    search: Search,
    states: Any,
    budgets: Tensor,
    search_state: SearchState | None = None,
    seed: int = 0,
    until: int | None = None,
) -> SearchState:
    """Returns the search state after a search, or after so many steps of it."""
    search_state = search_state if search_state is not None else search.init(states, int(budgets.max()))
    search.begin(search_state, torch.arange(search_state.num_games), budgets, seed, explore=True)
    if until is None:
        search.run_simulations(search_state)
    for _ in range(until or 0):
        search.simulate(search_state)
    return search_state


def same_forests(one: SearchState, two: SearchState) -> None:
    same_trees(one, two)
    assert torch.equal(one.deepest, two.deepest) and torch.equal(one.keys, two.keys)


def copied(search_state: SearchState) -> SearchState:
    """Returns a search state of its own memory."""
    tree = dataclasses.replace(
        search_state.tree,
        **{f.name: getattr(search_state.tree, f.name).clone() for f in dataclasses.fields(search_state.tree)},
    )
    own = {
        f.name: getattr(search_state, f.name).clone()
        for f in dataclasses.fields(search_state)
        if isinstance(getattr(search_state, f.name), Tensor)
    }
    return dataclasses.replace(search_state, tree=tree, **own)


# Steps


@ALL
@LEAVES
def test_every_step_is_the_same(settings: SearchConfig, leaves: int) -> None:
    """Games that end inside the trees, with suicide and superko, budgets of their own, and another search on the kept
    trees.
    """
    states, _ = random_games(RULES[1], 7, 5, move_cap=14)
    search = Search(TableEvaluator(passing=4), dataclasses.replace(settings, leaves=leaves))
    budgets = torch.tensor([0, 1, 30, 17, 30, 9, 30])
    fast = slow = None
    for turn in range(2):
        fast = searched(search, states, budgets.roll(turn), fast, turn, until=0)
        with kernels.plain():
            slow = searched(search, states, budgets.roll(turn), slow, turn, until=0)
        while bool(fast.unspent.any()):
            search.simulate(fast)
            with kernels.plain():
                search.simulate(slow)
            same_forests(fast, slow)
        check_sums(fast, is_kept=turn > 0)
        action = search.result(fast, torch.arange(7)).action
        states = board.step(states, action)
        search.advance(fast, torch.arange(7), action, states)
        with kernels.plain():
            search.advance(slow, torch.arange(7), action, states)
        same_forests(fast, slow)
    assert int(fast.exact_leaves[0]) > 0


@ALL
@LEAVES
@pytest.mark.parametrize(
    "rule", [RULES[2], RULES[4], Rules(size=2, komi=0.0, superko="positional", suicide=True)], ids=["3", "2", "2p"]
)
def test_superko_closes_the_same_moves(settings: SearchConfig, leaves: int, rule: Rules) -> None:
    states, _ = random_games(rule, 6, 5, move_cap=40)
    search = Search(TableEvaluator(), dataclasses.replace(settings, leaves=leaves))
    fast = searched(search, states, torch.tensor([40] * 6))
    with kernels.plain():
        same_forests(fast, searched(search, states, torch.tensor([40] * 6)))
    assert int(fast.exact_leaves[1]) > 0 or not fast.done.any()


@ALL
@LEAVES
def test_toys_are_searched_alike(settings: SearchConfig, leaves: int) -> None:
    """Any game can have kernels: toys whose moves repeat, down to nodes that have lost all of their moves but one."""
    toy, starts = toys.union(*GAMES.values())
    toy = toy.with_repeating(0.3, seed=2)
    search = Search(toy.evaluator(exact=False), dataclasses.replace(settings, leaves=leaves), game=toy)
    budgets = torch.full((len(starts),), 90)
    fast = searched(search, toy.new(starts), budgets)
    with kernels.plain():
        same_forests(fast, searched(search, toy.new(starts), budgets))
    assert int(fast.exact_leaves.min()) > 10


@ALL
@LEAVES
def test_a_tree_is_filled_to_its_last_node(settings: SearchConfig, leaves: int) -> None:
    states, _ = random_games(Rules(size=5, komi=6.5), 2, 6)
    search = Search(TableEvaluator(), dataclasses.replace(settings, leaves=leaves, keep_tree=False))
    fast = searched(search, states, torch.tensor([37, 20]))
    assert int(fast.tree.size[0]) == 38 == fast.tree.num_nodes - 1
    with kernels.plain():
        same_forests(fast, searched(search, states, torch.tensor([37, 20])))


@ALL
@LEAVES
def test_numbers_that_round_are_rounded_alike(settings: SearchConfig, leaves: int) -> None:
    states, _ = random_games(Rules(size=7, komi=6.5), 5, 12)
    search = Search(AnyNumbers(), dataclasses.replace(settings, leaves=leaves))
    budgets = torch.tensor([120, 60, 120, 33, 80])
    fast = searched(search, states, budgets)
    with kernels.plain():
        same_forests(fast, searched(search, states, budgets))


@pytest.mark.parametrize("settings", [PUCT, GUMBEL], ids=["puct", "gumbel"])
@pytest.mark.parametrize("leaves", [1, 3])
def test_threads_leave_no_trace(settings: SearchConfig, leaves: int) -> None:
    """200 games are shared out among two threads, or three."""
    states, _ = random_games(Rules(size=4, komi=0.5), 200, 4, move_cap=12)
    search, search_states = Search(TableEvaluator(passing=3), dataclasses.replace(settings, leaves=leaves)), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            search_state = searched(search, states, torch.full((200,), 12))
            actions = search.result(search_state, torch.arange(200)).action
            search.advance(search_state, torch.arange(200), actions, board.step(states, actions))
        finally:
            torch.set_num_threads(1)
        search_states.append(search_state)
    for other in search_states[1:]:
        same_forests(search_states[0], other)


# One selection


@test_search.BOTH
def test_slots_say_where_simulations_go(settings: SearchConfig) -> None:
    """Paths hang together and end at a move without a node or at a finished game; the trees are as they were; unused
    slots do no harm.
    """
    states, _ = random_games(Rules(size=3, komi=0.5), 6, 4, move_cap=9)
    search = Search(TableEvaluator(passing=2), dataclasses.replace(settings, leaves=5))
    search_state = searched(search, states, torch.tensor([60, 31, 60, 0, 60, 60]), until=6)
    before = copied(search_state)
    search_state.depth_bound = int(search_state.deepest.max())
    way, counts = select_leaves(search_state, search.settings)
    assert int(search_state.collisions) > int(before.collisions)
    same_forests(dataclasses.replace(search_state, collisions=before.collisions), before)
    tree = search_state.tree
    assert way.path.shape == (30, search_state.depth_bound + 1) and counts.shape == (30,)
    assert (counts.view(5, 6)[:-1] >= counts.view(5, 6)[1:]).all()  # the first slots are used first
    assert torch.equal(counts.view(5, 6).any(0), search_state.unspent) and counts.sum() > 10
    children, terminal = tree.children.flatten(0, 1), tree.terminal.view(-1)
    for slot in range(30):
        first, rows = slot % 6 * tree.num_nodes, way.path[slot].tolist()
        depth, action = int(way.depth[slot]), int(way.action[slot])
        assert rows[0] == first + ROOT and set(rows[depth + 1 :]) <= {first + NULL_NODE} and 0 <= action < 10
        if bool(counts[slot]):
            for above, below in zip(rows[:depth], rows[1 : depth + 1], strict=True):
                assert (children[above] == below - first).sum() == 1
            assert bool(terminal[rows[depth]]) == bool(way.at_end[slot])
            assert bool(way.at_end[slot]) or children[rows[depth], action] == UNVISITED


def test_a_step_makes_no_more_descents_than_it_may() -> None:
    """A line of play without a choice: all but the first of a step collide, and are counted."""
    toy = toys.written_out(6, lambda left: {0: left - 1}, lambda left: None if left else -1, 1)
    search = Search(toy.evaluator(exact=False), dataclasses.replace(PUCT, leaves=4), game=toy)
    search_state = searched(search, toy.new([0]), torch.tensor([9]), until=1)
    assert int(search_state.collisions) == tries(4) - 1 and search_state.done.tolist() == [1]


# Subtrees that are kept


@ALL
def test_kept_subtrees_are_the_same(settings: SearchConfig) -> None:
    """Every move of every root in turn: one that was searched, was not, is closed, or ends the game; other games are
    left alone.
    """
    states, _ = random_games(RULES[2], 5, 3, move_cap=8)
    states = board.step(states, torch.where(torch.arange(5) < 3, 9, board.legal_actions(states).int().argmax(1)))
    search_state = searched(Search(TableEvaluator(passing=6), settings), states, torch.tensor([50, 50, 10, 1, 50]))
    lane, kinds, ends = torch.tensor([0, 2, 3, 4]), set(), 0
    for action in range(10):
        fast, slow = copied(search_state), copied(search_state)
        child = search_state.tree.children[lane, ROOT, action]
        kinds |= set(child.clamp(max=1).tolist())
        ends += int((search_state.tree.terminal[lane, child.clamp(min=NULL_NODE).long()] & (child > NULL_NODE)).sum())
        keep_subtree_(fast.tree, lane, torch.full((4,), action))
        with kernels.plain():
            keep_subtree_(slow.tree, lane, torch.full((4,), action))
        same_forests(fast, slow)
        assert int(fast.tree.size[1]) == int(search_state.tree.size[1])
    assert kinds >= {CLOSED, UNVISITED, 1} and ends > 0


def test_an_empty_tree_stays_empty() -> None:
    states, _ = random_games(Rules(size=3), 2, 0)
    search_state = Search(TableEvaluator(), PUCT).init(states, 4)
    keep_subtree_(search_state.tree, torch.arange(2), torch.tensor([0, 9]))
    assert search_state.tree.size.tolist() == [0, 0] and not search_state.tree.visits.any()


def test_moves_that_there_are_not_are_refused() -> None:
    state = board.new_games(3, Rules(size=5))

    def even(leaves: board.State, legal: Tensor, key: Tensor) -> SimpleNamespace:
        return SimpleNamespace(prior=legal / legal.sum(1, keepdim=True), value=torch.zeros(len(legal)))

    search = Search(even, SearchConfig())
    search_state = search.run(state, 4).tree
    for action in (-1, 26, 10**7):
        with pytest.raises(IndexError):
            search.advance(search_state, torch.arange(3), torch.tensor([0, action, 1]), state)
    with pytest.raises(ValueError, match="search.leaves is 0"):
        Search(even, SearchConfig(leaves=0))
