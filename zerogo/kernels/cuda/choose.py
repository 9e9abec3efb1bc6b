"""Which move a simulation takes at a node, as a tile of all its moves: `search.choice`, `search.puct` and
`search.gumbel` in Triton.

Tiles are float32 unless said otherwise; a lane behind the last move is a closed one. Of equal scores the lowest move is
taken. `trees` are the pointers (children, prior, visits, value_sum, value, under_way), `settings` the numbers that
`kernels.cuda.tree.rules` lists."""

from __future__ import annotations

import triton
import triton.language as tl

from zerogo.kernels import shared

NULL_NODE, ROOT = tl.constexpr(shared.NULL_NODE), tl.constexpr(shared.ROOT)
UNVISITED, CLOSED = tl.constexpr(shared.UNVISITED), tl.constexpr(shared.CLOSED)
TINY = tl.constexpr(shared.TINY)


@triton.jit
def root_move(
    trees, at_root, first, wanted, by_move, collided, settings, ACTIONS: tl.constexpr, GUMBEL: tl.constexpr, SEVERAL: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Returns the move to try at the root, and its child.

    at_root: pointers to the rows of the game (root prior, Gumbel noise, kept visits). wanted: how many new visits the
    move should have. by_move: int32, simulations under way by their root moves. collided: bool, moves by which one
    collided."""
    root_prior, noise, kept_visits = at_root
    moves = tl.arange(0, TILE)
    exists = moves < ACTIONS
    row = first + ROOT
    prior = tl.load(root_prior + moves, mask=exists, other=0.0)
    children, visits, value, under_way = _look(trees, row, first, ACTIONS, SEVERAL, TILE)
    if GUMBEL:
        new = visits - tl.load(kept_visits + moves, mask=exists, other=0.0) + by_move.to(tl.float32)
        logits = tl.where(children != CLOSED, tl.log(tl.maximum(prior, TINY)), -float("inf"))
        score = logits + _sigma(trees, row, prior, visits, value, settings)
        score = score + tl.load(noise + moves, mask=exists, other=0.0)
        is_wanted = (children != CLOSED) & (new == wanted.to(tl.float32))
        others = is_wanted & (collided == 0)
        is_wanted = tl.where(tl.max(others.to(tl.int32), 0) > 0, others, is_wanted)
        nobody = tl.max(is_wanted.to(tl.int32), 0) == 0
        score = tl.where(is_wanted | nobody, score, -float("inf"))
        score = tl.where(children != CLOSED, score, -float("inf"))
    else:
        score = _puct(
            trees, row, prior, visits, value, under_way, children != CLOSED, settings[3], settings[5], settings
        )
    return _best(score, children, TILE)


@triton.jit
def inside(
    trees, row, first, settings, ACTIONS: tl.constexpr, GUMBEL: tl.constexpr, SEVERAL: tl.constexpr, TILE: tl.constexpr
):
    """Returns the move that is chosen at a node inside the tree, and its child."""
    moves = tl.arange(0, TILE)
    prior = tl.load(trees[1] + row * ACTIONS + moves, mask=moves < ACTIONS, other=0.0)
    children, visits, value, under_way = _look(trees, row, first, ACTIONS, SEVERAL, TILE)
    if GUMBEL:
        urge = tl.where(children != CLOSED, _sigma(trees, row, prior, visits, value, settings), -float("inf"))
        weight = tl.exp(urge - tl.max(urge, 0)) * tl.maximum(prior, TINY)
        visits = visits + under_way
        share = tl.div_rn(visits, tl.zeros_like(visits) + (1.0 + tl.sum(visits, 0)))
        score = tl.div_rn(weight, tl.zeros_like(weight) + _exact_sum(weight)) - share
        score = tl.where(children != CLOSED, score, -float("inf"))
    else:
        score = _puct(trees, row, prior, visits, value, under_way, children != CLOSED, settings[4], 0.0, settings)
    return _best(score, children, TILE)


@triton.jit
def _look(trees, row, first, ACTIONS: tl.constexpr, SEVERAL: tl.constexpr, TILE: tl.constexpr):
    """Returns a node's children (int32), their visits, their mean values from the node's view, and simulations under
    way through them.
    """
    moves = tl.arange(0, TILE)
    children = tl.load(trees[0] + row * ACTIONS + moves, mask=moves < ACTIONS, other=CLOSED)
    has_node = children > NULL_NODE
    child = first + tl.maximum(children, NULL_NODE)
    visits = tl.load(trees[2] + child, mask=has_node, other=0).to(tl.float32)
    value = tl.div_rn(tl.load(trees[3] + child, mask=has_node, other=0.0), -tl.maximum(visits, 1.0))
    under_way = tl.zeros_like(visits)
    if SEVERAL:
        under_way = tl.load(trees[5] + child, mask=has_node, other=0).to(tl.float32)
    return children, visits, value, under_way


@triton.jit
def _puct(trees, row, prior, visits, value, under_way, is_open, reduction, forced_playouts, settings):
    """Returns `puct.scores`."""
    c_puct, c_puct_log, c_puct_base = settings[0], settings[1], settings[2]
    total = tl.load(trees[2] + row).to(tl.float32)
    mean = tl.div_rn(tl.load(trees[3] + row), tl.maximum(total, 1.0))
    below = tl.maximum(total - 1.0, 0.0) + tl.sum(under_way, 0)
    all_visits = visits + under_way
    urgency = mean - reduction * tl.sqrt_rn(_exact_sum(prior * tl.minimum(visits, 1.0)))
    weight = (c_puct + c_puct_log * tl.log(1.0 + tl.div_rn(below, c_puct_base + 0.0 * below))) * tl.sqrt_rn(
        below + 0.01
    )
    score = tl.where(visits > 0, value, urgency) + tl.div_rn(weight * prior, 1.0 + all_visits)
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
    mixed = tl.div_rn(tl.load(trees[4] + row) + number * average, 1.0 + number)
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
