"""Select on CUDA: all selections of a step in one launch, one program a game, as `search.selection.select` in torch.

A node's moves are a tile: A lanes and more, the next power of two, float32 unless said otherwise; a lane behind the
last move is a closed one. A node's scores are computed in registers from tiles that are loaded once; only the path, the
virtual visits and the marks of nodes to be made are written, since the next selection of the game reads them. A
program's selections go one after another, as each depends on the last; games are what runs in parallel. Nothing is read
back and no shape depends on data, so a CUDA graph may hold the launch.

Choices are the same float32 operations in the same order as in `search.puct` and `search.gumbel`, square roots and
divisions rounded correctly, nothing fused, sums in float64; only logarithms and exponentials may differ from torch's in
the last bits. Of equal scores the lowest move is taken."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from zerogo.kernels import shared
from zerogo.kernels.cuda.tree import CLOSED, NULL_NODE, ROOT, UNVISITED, launch, trees_of
from zerogo.kernels.shared import CHOICE_NUMBERS, Searches, Slots, tries

TINY = tl.constexpr(shared.TINY)


def select(search_state: Any, settings: Any) -> Slots:
    """Returns the fields of `search.selection.Selection`: where up to settings.leaves simulations go in every game
    whose budget is not spent. D is the tree's M, so that the shape never changes; what is behind the end of a path has
    no meaning."""
    tree, leaves = search_state.tree, settings.leaves
    num_games, num_nodes, num_actions = tree.children.shape
    whole, flag = ({"dtype": dtype, "device": tree.size.device} for dtype in (torch.int64, torch.bool))
    number = leaves * num_games
    slots = Slots(
        torch.empty(number, num_nodes, **whole), torch.zeros(number, **whole), torch.zeros(number, **whole),
        torch.zeros(number, **flag), torch.zeros(number, **flag),
    )  # fmt: skip
    under_way = torch.zeros_like(tree.visits) if leaves > 1 else tree.visits  # one simulation never reads it
    searches = Searches(*(getattr(search_state, name) for name in Searches._fields))
    numbers = (float(getattr(settings, name)) for name in CHOICE_NUMBERS)
    select_kernel[(num_games,)](
        trees_of(tree), under_way, searches, search_state.collisions, slots,
        num_games, num_nodes, search_state.longest, leaves, tries(leaves), *numbers,
        ACTIONS=num_actions, SEVERAL=leaves > 1, GUMBEL=settings.algorithm == "gumbel", **launch(num_actions),
    )  # fmt: skip
    return slots


@triton.jit(do_not_specialize=["num_games", "num_nodes", "longest", "leaves", "tries"])  # so it is compiled once
def select_kernel(
    trees, under_way, searches, collisions, slots, num_games, num_nodes, longest, leaves, tries,
    c_puct, c_puct_log, c_puct_base, fpu_reduction, fpu_reduction_root, forced_playouts, c_visit, c_scale,
    ACTIONS: tl.constexpr, SEVERAL: tl.constexpr, GUMBEL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Sends the simulations of one game, one after another; tries: how many selections there may be. A game that may
    have none goes round once, for what unused slots hold."""
    game = tl.program_id(0).to(tl.int64)
    first = game * num_nodes
    new = tl.load(trees.size + game) + ROOT  # the node that the first simulation makes
    before, until = tl.load(searches.done + game), tl.load(searches.budget + game)
    if GUMBEL:
        now = game * longest + tl.minimum(before, longest - 1)
        until = tl.minimum(until, tl.load(searches.phase_end + now).to(tl.int64))
    left = tl.minimum(until - before, leaves)
    settings = (c_puct, c_puct_log, c_puct_base, fpu_reduction, fpu_reduction_root, forced_playouts, c_visit, c_scale)
    started, tried, dropped, root_move = before * 0, before * 0, before * 0, before * 0
    moves = tl.arange(0, TILE)
    by_move, collided = tl.zeros((TILE,), tl.int32), tl.zeros((TILE,), tl.int32)
    goes_on = tried == 0
    while goes_on:
        wanted = tl.load(searches.order + game * longest + tl.minimum(before + started, longest - 1))
        root_move, child = _choose_at_root(
            trees, under_way, searches, game, first, wanted, by_move, collided, settings, ACTIONS, GUMBEL, SEVERAL, TILE
        )
        slot = tl.minimum(started, leaves - 1) * num_games + game
        row, depth, action, child, at_end = _descend(
            trees, under_way, slots.path + slot * num_nodes, first, new, root_move, child, started < left, settings,
            ACTIONS, GUMBEL, SEVERAL, TILE,
        )  # fmt: skip
        collides = at_end & (child >= new)
        counts = (started < left) & (collides == 0)
        tl.store(slots.depth + slot, depth)
        tl.store(slots.action + slot, action)
        tl.store(slots.at_end + slot, at_end)
        if SEVERAL:
            if counts & (at_end == 0):
                tl.store(trees.children + row * ACTIONS + action, (new + started).to(tl.int32))
                tl.store(under_way + first + new + started, 1)
            tl.debug_barrier()  # the next selection reads what this one wrote
        by_move += ((moves == root_move) & counts).to(tl.int32)
        collided |= ((moves == root_move) & collides).to(tl.int32)
        dropped += collides.to(tl.int64)
        started += counts.to(tl.int64)
        tried += 1
        goes_on = (started < left) & (tried < tries)
    tl.atomic_add(collisions, dropped)
    _finish_slots(trees, slots, game, first, started, root_move, num_games, num_nodes, leaves, ACTIONS, SEVERAL)


@triton.jit
def _descend(
    trees, under_way, path, first, new, action, child, is_going, settings,
    ACTIONS: tl.constexpr, GUMBEL: tl.constexpr, SEVERAL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Follows one simulation from the move chosen at the root to a move without a node, or to an end, and writes its
    path; new: the first node that is only about to be made, which is an end for others.

    Returns the row of the last node, its depth, the move there, the last child read, and whether the node is an end."""
    row, depth = first + ROOT, first * 0
    at_end = depth != 0
    tl.store(path, row)
    moving = is_going & (child > NULL_NODE)
    while moving:
        depth += 1
        row = first + child
        tl.store(path + depth, row)
        if SEVERAL:
            tl.store(under_way + row, tl.load(under_way + row) + 1)
        at_end = (child >= new) | (tl.load(trees.terminal + row) != 0)
        if at_end == 0:
            action, child = _choose_inside(trees, under_way, row, first, settings, ACTIONS, GUMBEL, SEVERAL, TILE)
        moving = (at_end == 0) & (child > NULL_NODE)
    return row, depth, action, child, at_end


@triton.jit
def _finish_slots(
    trees, slots, game, first, started, root_move, num_games, num_nodes, leaves,
    ACTIONS: tl.constexpr, SEVERAL: tl.constexpr,
):  # fmt: skip
    """Makes the tree what it was, says which slots are used, and gives the others a move at the root."""
    number = started * 0
    while number < leaves:
        slot = number * num_games + game
        is_used = number < started
        tl.store(slots.counts + slot, is_used)
        if is_used:
            if SEVERAL:
                if tl.load(slots.at_end + slot) == 0:
                    row = tl.load(slots.path + slot * num_nodes + tl.load(slots.depth + slot))
                    tl.store(trees.children + row * ACTIONS + tl.load(slots.action + slot), UNVISITED)
        else:
            tl.store(slots.path + slot * num_nodes, first + ROOT)
            tl.store(slots.depth + slot, first * 0)
            tl.store(slots.action + slot, root_move)
            tl.store(slots.at_end + slot, is_used)
        number += 1


# Choices at one node


@triton.jit
def _choose_at_root(
    trees, under_way, searches, game, first, wanted, by_move, collided, settings,
    ACTIONS: tl.constexpr, GUMBEL: tl.constexpr, SEVERAL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Returns the move to try at the root, and its child.

    wanted: how many new visits the move should have. by_move: int32, simulations under way by their root moves.
    collided: int32, 1 for moves by which one collided."""
    moves = tl.arange(0, TILE)
    exists, place, row = moves < ACTIONS, game * ACTIONS + moves, first + ROOT
    prior = tl.load(searches.root_prior + place, mask=exists, other=0.0)
    children, visits, value, flying = _children_of(trees, under_way, row, first, ACTIONS, SEVERAL, TILE)
    is_open = children != CLOSED
    if GUMBEL:
        new = visits - tl.load(searches.kept_visits + place, mask=exists, other=0.0) + by_move.to(tl.float32)
        logits = tl.where(is_open, tl.log(tl.maximum(prior, TINY)), -float("inf"))
        score = logits + _sigma(trees, row, prior, visits, value, settings)
        score = score + tl.load(searches.gumbel + place, mask=exists, other=0.0)
        is_wanted = is_open & (new == wanted.to(tl.float32))
        others = is_wanted & (collided == 0)
        is_wanted = tl.where(tl.max(others.to(tl.int32), 0) > 0, others, is_wanted)
        nobody = tl.max(is_wanted.to(tl.int32), 0) == 0
        score = tl.where(is_open & (is_wanted | nobody), score, -float("inf"))
    else:
        score = _puct(trees, row, prior, visits, value, flying, is_open, settings[4], settings[5], settings)
    return _best(score, children, TILE)


@triton.jit
def _choose_inside(
    trees, under_way, row, first, settings,
    ACTIONS: tl.constexpr, GUMBEL: tl.constexpr, SEVERAL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Returns the move that is chosen at a node inside the tree, and its child."""
    moves = tl.arange(0, TILE)
    prior = tl.load(trees.prior + row * ACTIONS + moves, mask=moves < ACTIONS, other=0.0)
    children, visits, value, flying = _children_of(trees, under_way, row, first, ACTIONS, SEVERAL, TILE)
    is_open = children != CLOSED
    if GUMBEL:
        sigma = tl.where(is_open, _sigma(trees, row, prior, visits, value, settings), -float("inf"))
        weight = tl.exp(sigma - tl.max(sigma, 0)) * tl.maximum(prior, TINY)
        visits = visits + flying
        share = tl.div_rn(visits, tl.zeros_like(visits) + (1.0 + tl.sum(visits, 0)))
        score = tl.div_rn(weight, tl.zeros_like(weight) + _exact_sum(weight)) - share
        score = tl.where(is_open, score, -float("inf"))
    else:
        score = _puct(trees, row, prior, visits, value, flying, is_open, settings[3], 0.0, settings)
    return _best(score, children, TILE)


@triton.jit
def _children_of(trees, under_way, row, first, ACTIONS: tl.constexpr, SEVERAL: tl.constexpr, TILE: tl.constexpr):
    """Returns a node's children (int32), their visits, their mean values from the node's view, and simulations under
    way through them."""
    moves = tl.arange(0, TILE)
    children = tl.load(trees.children + row * ACTIONS + moves, mask=moves < ACTIONS, other=CLOSED)
    has_node = children > NULL_NODE
    child = first + tl.maximum(children, NULL_NODE)
    visits = tl.load(trees.visits + child, mask=has_node, other=0).to(tl.float32)
    value = tl.div_rn(tl.load(trees.value_sum + child, mask=has_node, other=0.0), -tl.maximum(visits, 1.0))
    flying = tl.zeros_like(visits)
    if SEVERAL:
        flying = tl.load(under_way + child, mask=has_node, other=0).to(tl.float32)
    return children, visits, value, flying


@triton.jit
def _puct(trees, row, prior, visits, value, flying, is_open, reduction, forced_playouts, settings):
    """Returns `puct.scores`."""
    c_puct, c_puct_log, c_puct_base = settings[0], settings[1], settings[2]
    total = tl.load(trees.visits + row).to(tl.float32)
    mean = tl.div_rn(tl.load(trees.value_sum + row), tl.maximum(total, 1.0))
    below = tl.maximum(total - 1.0, 0.0) + tl.sum(flying, 0)
    all_visits = visits + flying
    unvisited = mean - reduction * tl.sqrt_rn(_exact_sum(prior * tl.minimum(visits, 1.0)))
    growth = tl.log(1.0 + tl.div_rn(below, c_puct_base + 0.0 * below))
    weight = (c_puct + c_puct_log * growth) * tl.sqrt_rn(below + 0.01)
    score = tl.where(visits > 0, value, unvisited) + tl.div_rn(weight * prior, 1.0 + all_visits)
    owed = tl.sqrt_rn(forced_playouts * prior * below)
    score = tl.where((visits > 0) & (all_visits < owed), 1e6, score)
    return tl.where(is_open, score, -float("inf"))


@triton.jit
def _sigma(trees, row, prior, visits, value, settings):
    """Returns `gumbel.sigma` of `gumbel.completed_values`."""
    c_visit, c_scale = settings[6], settings[7]
    is_visited = visits > 0
    weight = tl.where(is_visited, tl.maximum(prior, TINY), 0.0)
    number = tl.sum(visits, 0)
    average = tl.div_rn(_exact_sum(weight * value), tl.maximum(_exact_sum(weight), TINY))
    mixed = tl.div_rn(tl.load(trees.value + row) + number * average, 1.0 + number)
    return (c_visit + tl.max(visits, 0)) * c_scale * tl.where(is_visited, value, mixed)


@triton.jit
def _exact_sum(numbers):
    """Returns the sum of a tile, made in float64, where the order leaves no trace."""
    return tl.sum(numbers.to(tl.float64), 0).to(tl.float32)


@triton.jit
def _best(score, children, TILE: tl.constexpr):
    """Returns the move (int64) with the highest score, the first of several, and its child (int32)."""
    chosen = tl.argmax(score, 0)
    return chosen.to(tl.int64), tl.sum(tl.where(tl.arange(0, TILE) == chosen, children, 0), 0)
