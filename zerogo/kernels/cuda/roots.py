"""The roots of a Gumbel search between two moves on CUDA, one program per game: the results of a search, and the
beginning of the next one, one launch each; as in `search.Search` in torch.

Sums of priors are in float64, so that torch's order of additions does not matter."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import launch, rows, tree
from zerogo.kernels.cuda.tree import ILLEGAL, LEVELS, NULL_NODE, ROOT, TINY, UNVISITED, empty_nodes, write_node
from zerogo.kernels.shared import Purpose, Searches, Trees, fields_of

NOISE, SYMMETRY = tl.constexpr(int(Purpose.NOISE)), tl.constexpr(int(Purpose.SYMMETRY))


def result(search_state: Any, games: Tensor, settings: Any) -> tuple[Tensor, ...]:
    """Returns the fields of `search.SearchResult` except the last, of some games (int64 [K]): visits, policy, value,
    prior and action."""
    searched, number = search_state.tree, len(games)
    actions = searched.children.shape[2]
    by_move = [searched.prior.new_empty(number, actions, dtype=kind) for kind in (torch.int32, *[torch.float32] * 2)]
    visits, policy, prior = by_move
    value, action = prior.new_empty(number), prior.new_empty(number, dtype=torch.int64)
    fields = fields_of(Trees, searched), fields_of(Searches, search_state)
    numbers = games, visits, policy, value, prior, action, searched.num_nodes, tree.numbers_of(settings)
    launch(result_kernel, number, *fields, *numbers, **tree.kind_of(searched))
    return visits, policy, value, prior, action


@triton.jit(do_not_specialize=["num_nodes"])
def result_kernel(
    trees, searches, games, visits, policy, value, priors, action, num_nodes, settings, KIND: tl.constexpr
):
    """Writes the results of one game's search."""
    k, game = tl.program_id(0).to(tl.int64), tl.load(games + tl.program_id(0)).to(tl.int64)
    row = game * num_nodes + ROOT
    whole = tree.Game(trees, trees.visits, searches, game, game * num_nodes, settings)
    node = tree._node_at(whole, row, trees.prior + row * KIND.ACTIONS, KIND)
    moves = tl.arange(0, KIND.TILE)
    exists, at = moves < KIND.ACTIONS, k * KIND.ACTIONS + moves
    completed = tree._completed(whole, node)
    logit = tl.log(tl.maximum(node.prior, TINY)) + tree._scale(whole, node) * completed
    logit = tl.where(node.is_open, logit, -float("inf"))
    weight = tl.exp(logit - tl.max(logit, 0))
    shares = tl.div_rn(weight, tl.zeros_like(weight) + tree._exact_sum(weight))
    new = node.visits - tl.load(searches.kept_visits + game * KIND.ACTIONS + moves, mask=exists, other=0.0)
    new = tl.where(node.is_open, new, -1.0)
    noise = tl.load(searches.gumbel + game * KIND.ACTIONS + moves, mask=exists, other=0.0)
    best = tl.argmax(tl.where(node.is_open & (new == tl.max(new, 0)), logit + noise, -float("inf")), 0)
    mean = tree._exact_sum(shares * completed)
    if tl.load(trees.terminal + row) != 0:
        mean = tl.load(trees.value + row)
    tl.store(visits + at, node.visits.to(tl.int32), mask=exists)
    tl.store(policy + at, shares, mask=exists)
    tl.store(priors + at, node.prior, mask=exists)
    tl.store(value + k, mean)
    tl.store(action + k, best.to(tl.int64))


# The next search


def make_roots(
    search_state: Any, games: Tensor, words: Tensor, prior: Tensor, value: Tensor, finished: Tensor,
    score: Tensor | None = None,
) -> None:  # fmt: skip
    """Empties the trees of some games (int64 [K], all different) and writes their roots; counts those that were not
    empty. words: int32 [K, W]. prior: float32 [K, A]. value: float32 [K]. finished: bool [K]."""
    searched = search_state.tree
    fields = fields_of(Trees, searched), search_state.deepest, search_state.overflowed, games
    numbers = words, prior, value, finished, value if score is None else score, searched.num_nodes
    launch(make_kernel, len(games), *fields, *numbers, **tree.kind_of(searched))


@triton.jit(do_not_specialize=["num_nodes"])
def make_kernel(
    trees, deepest, overflowed, games, words, priors, values, finished, scores, num_nodes, KIND: tl.constexpr
):
    """Writes the root of one game; `begin_kernel` closes illegal moves."""
    k, game = tl.program_id(0).to(tl.int64), tl.load(games + tl.program_id(0)).to(tl.int64)
    row, size, value = game * num_nodes + ROOT, tl.load(trees.size + game), tl.load(values + k)
    empty_nodes(trees, row - ROOT, size * 0 + ROOT + 1, size + ROOT, KIND)  # all after the root
    tl.atomic_add(overflowed, (size > 0).to(tl.int64))
    children = tl.arange(0, KIND.TILE) * 0 + UNVISITED
    write_node(trees, row, k, words, priors, children, value, finished, NULL_NODE, KIND)
    if KIND.SCORES:
        tl.store(trees.score_sum + row, tl.load(scores + k))
    tl.store(trees.size + game, size * 0 + 1)
    tl.store(deepest + game, size * 0)


def begin(
    search: Any, search_state: Any, games: Tensor, budgets: Tensor, move_keys: Tensor, explore: bool | Tensor,
    new_roots: Tensor | None,
) -> None:  # fmt: skip
    """Does the same as `search.Search.begin`. games, budgets, move_keys: int64 [K]. The host waits only if it does not
    know which roots are new."""
    legal, roots = search.evaluate_roots(search_state, games, budgets, move_keys, new_roots)
    if roots:
        make_roots(search_state, *roots)
    searched, places = search_state.tree, search.game.noise_places(search_state.states, games)
    if not isinstance(explore, Tensor):
        explore = None if explore else torch.zeros_like(games, dtype=torch.bool)
    fields = fields_of(Trees, searched), fields_of(Searches, search_state), search_state.keys
    of_games = games, legal, move_keys, budgets, explore, places
    settings = search.settings
    numbers = searched.num_nodes, search_state.max_budget, settings.max_considered, settings.leaves
    launch(begin_kernel, len(games), *fields, *of_games, *numbers, **tree.kind_of(searched))


@triton.jit(do_not_specialize=["num_nodes", "max_budget", "max_considered", "leaves"])
def begin_kernel(
    trees, searches, symmetry_keys, games, legal, move_keys, budgets, explores, places, num_nodes, max_budget,
    max_considered, leaves, KIND: tl.constexpr,
):  # fmt: skip
    """Begins the search of one game. explores: bool [K], None for all. places: int64 [K, A] or None, see
    `search.game.Game.noise_places`."""
    k, game = tl.program_id(0).to(tl.int64), tl.load(games + tl.program_id(0)).to(tl.int64)
    row, moves = game * num_nodes + ROOT, tl.arange(0, KIND.TILE)
    exists, at, at_root = moves < KIND.ACTIONS, row * KIND.ACTIONS + moves, game * KIND.ACTIONS + moves
    is_legal = tl.load(legal + k * KIND.ACTIONS + moves, mask=exists, other=0) != 0
    children = tl.where(is_legal, tl.load(trees.children + at, mask=exists, other=ILLEGAL), ILLEGAL)
    prior = tl.where(is_legal, tl.load(trees.prior + at, mask=exists, other=0.0), 0.0)
    total, number = tree._exact_sum(prior), tl.sum(is_legal.to(tl.int32), 0).to(tl.float32)
    even = tl.div_rn(is_legal.to(tl.float32), tl.zeros_like(prior) + number)
    prior = tl.where(total > 0.0, tl.div_rn(prior, tl.zeros_like(prior) + total), even)
    tl.store(trees.children + at, children, mask=exists)
    tl.store(trees.prior + at, prior, mask=exists)
    has_node = children > NULL_NODE
    kept = tl.load(trees.visits + game * num_nodes + tl.maximum(children, NULL_NODE), mask=has_node, other=0)
    place = moves.to(tl.int64)
    if places is not None:
        place = tl.load(places + k * KIND.ACTIONS + moves, mask=exists, other=0)
    key = tl.load(move_keys + k)
    noise = rows.gumbel_at(rows.key_of(key, NOISE), place)
    if explores is not None:
        noise = tl.where(tl.load(explores + k) != 0, noise, 0.0)
    tl.store(searches.kept_visits + at_root, kept.to(tl.float32), mask=exists)
    tl.store(searches.root_prior + at_root, prior, mask=exists)
    tl.store(searches.gumbel + at_root, noise, mask=exists)
    budget = tl.where(tl.load(trees.terminal + row) != 0, 0, tl.load(budgets + k))
    tl.store(searches.budget + game, budget)
    tl.store(searches.done + game, budget * 0)
    tl.store(symmetry_keys + game, rows.key_of(key, SYMMETRY))
    considered = tl.minimum(tl.sum((children != ILLEGAL).to(tl.int32), 0), max_considered)
    order, phase_end = searches.target_visits + game * max_budget, searches.phase_end + game * max_budget
    _halve(order, phase_end, considered, budget, max_budget, leaves, KIND)


@triton.jit
def _halve(order, phase_end, considered, budget, max_budget, leaves, KIND: tl.constexpr):
    """Writes `gumbel.considered_visits` and `gumbel.phase_ends` of a budget, 0 after it: a round gives each move of a
    phase one visit, and a step ends with it, or at the latest when the next round has fewer moves."""
    start = budget * 0
    while start < max_budget:
        at = start + tl.arange(0, LEVELS)
        tl.store(order + at, at.to(tl.int32) * 0, mask=(at >= budget) & (at < max_budget))
        tl.store(phase_end + at, at.to(tl.int32) * 0, mask=(at >= budget) & (at < max_budget))
        start += LEVELS
    phases = tl.full((), 1, tl.int32)
    while (1 << phases) < considered:
        phases += 1
    moves, width = tl.arange(0, KIND.TILE), tl.maximum(considered, 1).to(tl.int64)
    done, visits, first = budget * 0, budget * 0, budget * 0
    while done < budget:
        left = tl.maximum(1, budget // (phases * width))
        if considered <= 1:
            left = budget
        while (left > 0) & (done < budget):
            number = tl.minimum(width, budget - done)
            tl.store(order + done + moves, (moves * 0 + visits).to(tl.int32), mask=moves < number)
            done += number
            visits += 1
            left -= 1
            following = tl.where(left > 0, width, tl.maximum(2, width // 2))
            if (tl.minimum(following, budget - done) < number) | (2 * number >= leaves):
                at = first
                while at < done:
                    place = at + tl.arange(0, LEVELS)
                    tl.store(phase_end + place, (place * 0 + done).to(tl.int32), mask=place < done)
                    at += LEVELS
                first = done
        width = tl.maximum(2, width // 2)
