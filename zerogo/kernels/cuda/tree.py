"""The trees of a search on CUDA: a step's selections in one launch, and all that it writes in another, one program a
game.

The doors are those of `kernels.cpu.tree`; nothing here is read back and no shape depends on data, so a CUDA graph may
hold both launches. A node's moves are a tile of A lanes and more, the next power of two. Choices are made by the same
float32 operations in the same order as in `search.puct` and `search.gumbel`, with square roots and divisions rounded
correctly, nothing fused and sums in float64; only logarithms and exponentials may differ from torch's in the last bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda.choose import CLOSED, NULL_NODE, ROOT, UNVISITED, inside, root_move

LEVELS = tl.constexpr(64)  # nodes of a path that are backed up at once
ROWS = tl.constexpr(8)  # nodes that are moved at once


class Slots(NamedTuple):
    """Where the simulations of a step go, see `kernels.cpu.tree.Slots`. Here D is the tree's M, so that the shape never
    changes, and what is behind the end of a path has no meaning."""

    path: Tensor
    depth: Tensor
    action: Tensor
    at_end: Tensor
    counts: Tensor


def select(search_state: Any, settings: Any) -> Slots:
    """Returns where up to settings.leaves simulations go in every game whose budget is not spent
    (`kernels.cpu.tree.select`).
    """
    tree, leaves = search_state.tree, settings.leaves
    num_games, num_nodes, num_actions = tree.children.shape
    number, device = leaves * num_games, tree.size.device
    slots = Slots(
        path=torch.empty(number, num_nodes, dtype=torch.int64, device=device),
        depth=torch.zeros(number, dtype=torch.int64, device=device),
        action=torch.zeros(number, dtype=torch.int64, device=device),
        at_end=torch.zeros(number, dtype=torch.bool, device=device),
        counts=torch.zeros(number, dtype=torch.bool, device=device),
    )
    under_way = torch.zeros_like(tree.visits) if leaves > 1 else tree.visits  # one simulation never looks at it
    descend_kernel[(num_games,)](
        tree.children, tree.prior, tree.visits, tree.value_sum, tree.value, tree.terminal, tree.size, under_way,
        search_state.budget, search_state.done, search_state.root_prior, search_state.gumbel, search_state.kept_visits, search_state.order, search_state.phase_end, search_state.collisions,
        *slots, num_games, num_nodes, search_state.order.shape[1], leaves, leaves + leaves // 2, *rules(settings),
        ACTIONS=num_actions, SEVERAL=leaves > 1, GUMBEL=settings.algorithm == "gumbel", **launch(num_actions),
    )  # fmt: skip
    return slots


def rules(settings: Any) -> tuple[float, ...]:
    """Returns the settings that choices read, in the order of the kernel's arguments."""
    names = (
        "c_puct",
        "c_puct_log",
        "c_puct_base",
        "fpu_reduction_root",
        "fpu_reduction",
        "forced_playouts",
        "c_visit",
        "c_scale",
    )
    return tuple(float(getattr(settings, name)) for name in names)


def expand_and_backup(search_state: Any, lanes: Any, way: Any, found: Any, prior: Tensor, value: Tensor) -> None:
    """Writes, closes, counts and backs up what the slots' simulations found (`kernels.cpu.tree.expand_and_backup`).

    Here all slots are given: K = leaves * B, and lanes.active says which count (None is all).
    """
    tree, words = search_state.tree, found.words
    num_games, num_nodes, num_actions = tree.children.shape
    assert len(words) == lanes.slots * num_games, (
        f"{len(words)} simulations in {lanes.slots} slots of {num_games} games"
    )
    counts = torch.ones_like(way.at_end) if lanes.active is None else lanes.active
    given = (
        way.path,
        way.depth,
        way.action,
        way.at_end,
        counts,
        words,
        found.legal,
        found.finished,
        found.result,
        found.repeats,
    )
    settle_kernel[(num_games,)](
        tree.words, tree.children, tree.prior, tree.visits, tree.value_sum, tree.value, tree.terminal, tree.parent, tree.action, tree.size,
        search_state.done, search_state.deepest, search_state.exact_leaves,
        *(field.contiguous() for field in (*given, prior, value)), torch.empty_like(value),
        num_games, num_nodes, way.path.shape[1], words.shape[1], lanes.slots,
        ACTIONS=num_actions, WORDS=triton.next_power_of_2(words.shape[1]), **launch(num_actions),
    )  # fmt: skip


def move_nodes_(tree: Any, lane: Tensor, place: Tensor) -> None:
    """Moves the nodes of some games to their places and empties the rest, as `search.tree._move_nodes` does without a
    look: lane int64 [K], place int64 [K, M], nowhere for nodes that are dropped, else not above the node, and
    rising."""
    _, num_nodes, num_actions = tree.children.shape
    num_words = tree.words.shape[2]
    move_kernel[(len(lane),)](
        tree.words, tree.children, tree.prior, tree.visits, tree.value_sum, tree.value, tree.terminal, tree.parent, tree.action, tree.size,
        lane.contiguous(), place.contiguous(), num_nodes, num_words,
        ACTIONS=num_actions, WORDS=triton.next_power_of_2(num_words), **launch(num_actions),
    )  # fmt: skip


def launch(num_actions: int) -> dict[str, Any]:
    """Returns how wide a program is: a warp for every 128 moves. Nothing is fused, so that scores round as torch's
    do.
    """
    tile = triton.next_power_of_2(num_actions)
    return {"TILE": tile, "num_warps": max(1, min(8, tile // 128)), "enable_fp_fusion": False}


@triton.jit(
    do_not_specialize=["num_games", "num_nodes", "longest", "leaves", "tries"]
)  # none is a reason to compile anew
def descend_kernel(
    children, prior, visits, value_sum, value, terminal, size, under_way,
    budget, done, root_prior, gumbel, kept_visits, order, phase_end, collisions,
    path, depth, action, at_end, counts,
    num_games, num_nodes, longest, leaves, tries,
    c_puct, c_puct_log, c_puct_base, fpu_reduction_root, fpu_reduction, forced_playouts, c_visit, c_scale,
    ACTIONS: tl.constexpr, SEVERAL: tl.constexpr, GUMBEL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Sends the simulations of one game, one after another. A game that may have none goes round once, for what unused
    slots hold.
    """
    game = tl.program_id(0).to(tl.int64)
    first = game * num_nodes
    new = tl.load(size + game) + ROOT  # the node that the first simulation makes
    before, until = tl.load(done + game), tl.load(budget + game)
    if GUMBEL:
        until = tl.minimum(until, tl.load(phase_end + game * longest + tl.minimum(before, longest - 1)).to(tl.int64))
    left = tl.minimum(until - before, leaves)
    trees = (children, prior, visits, value_sum, value, under_way)
    at_root = (root_prior + game * ACTIONS, gumbel + game * ACTIONS, kept_visits + game * ACTIONS)
    settings = (c_puct, c_puct_log, c_puct_base, fpu_reduction_root, fpu_reduction, forced_playouts, c_visit, c_scale)
    started, tried, dropped, filler = before * 0, before * 0, before * 0, before * 0
    moves = tl.arange(0, TILE)
    by_move = tl.zeros((TILE,), tl.int32)
    collided = tl.zeros((TILE,), tl.int32)
    goes_on = tried == 0
    while goes_on:
        wanted = tl.load(order + game * longest + tl.minimum(before + started, longest - 1))
        filler, child = root_move(
            trees, at_root, first, wanted, by_move, collided, settings, ACTIONS, GUMBEL, SEVERAL, TILE
        )
        slot = tl.minimum(started, leaves - 1) * num_games + game
        way = path + slot * num_nodes
        row, levels, chosen, child, is_end = _go_down(
            trees, terminal, way, first, new, filler, child, started < left, settings, ACTIONS, GUMBEL, SEVERAL, TILE
        )
        collides = is_end & (child >= new)
        lands = (started < left) & (collides == 0)
        tl.store(depth + slot, levels)
        tl.store(action + slot, chosen)
        tl.store(at_end + slot, is_end)
        if SEVERAL:
            if lands & (is_end == 0):
                tl.store(children + row * ACTIONS + chosen, (new + started).to(tl.int32))
                tl.store(under_way + first + new + started, 1)
            tl.debug_barrier()  # the next selection reads what this one wrote
        by_move += ((moves == filler) & lands).to(tl.int32)
        collided |= ((moves == filler) & collides).to(tl.int32)
        dropped += collides.to(tl.int64)
        started += lands.to(tl.int64)
        tried += 1
        goes_on = (started < left) & (tried < tries)
    tl.atomic_add(collisions, dropped)
    _leave(
        children,
        path,
        depth,
        action,
        at_end,
        counts,
        game,
        first,
        started,
        filler,
        num_games,
        num_nodes,
        leaves,
        ACTIONS,
        SEVERAL,
    )


@triton.jit
def _go_down(
    trees, terminal, way, first, new, chosen, child, going, settings, ACTIONS: tl.constexpr, GUMBEL: tl.constexpr, SEVERAL: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Follows one simulation from the move chosen at the root to a move without a node, or to an end, and writes its
    path (`way`).

    new: the first node that is only about to be made, which is an end for others. Returns the row of the last node, its
    depth, the move there, the last child that was looked at, and whether the last node is an end."""
    row, levels = first + ROOT, first * 0
    is_end = levels != 0
    tl.store(way, row)
    moving = going & (child > NULL_NODE)
    while moving:
        levels += 1
        row = first + child
        tl.store(way + levels, row)
        if SEVERAL:
            tl.store(trees[5] + row, tl.load(trees[5] + row) + 1)
        is_end = (child >= new) | (tl.load(terminal + row) != 0)
        if is_end == 0:
            chosen, child = inside(trees, row, first, settings, ACTIONS, GUMBEL, SEVERAL, TILE)
        moving = (is_end == 0) & (child > NULL_NODE)
    return row, levels, chosen, child, is_end


@triton.jit
def _leave(
    children, path, depth, action, at_end, counts, game, first, started, filler, num_games, num_nodes, leaves,
    ACTIONS: tl.constexpr, SEVERAL: tl.constexpr,
):  # fmt: skip
    """Makes the tree what it was, says which slots are used, and gives the others a move at the root."""
    number = started * 0
    while number < leaves:
        slot = number * num_games + game
        is_used = number < started
        tl.store(counts + slot, is_used)
        if is_used:
            if SEVERAL:
                if tl.load(at_end + slot) == 0:
                    row = tl.load(path + slot * num_nodes + tl.load(depth + slot))
                    tl.store(children + row * ACTIONS + tl.load(action + slot), UNVISITED)
        else:
            tl.store(path + slot * num_nodes, first + ROOT)
            tl.store(depth + slot, first * 0)
            tl.store(action + slot, filler)
            tl.store(at_end + slot, is_used)
        number += 1


@triton.jit(do_not_specialize=["num_games", "num_nodes", "num_levels", "num_words", "slots"])
def settle_kernel(
    words, children, prior, visits, value_sum, value, terminal, parent, action, size, done, deepest, exact_leaves,
    path, depth, move, at_end, counts, leaf_words, legal, finished, result, repeats, leaf_prior, leaf_value, backed_up,
    num_games, num_nodes, num_levels, num_words, slots,
    ACTIONS: tl.constexpr, WORDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Settles the simulations of one game, in the order of their slots."""
    game = tl.program_id(0).to(tl.int64)
    first = game * num_nodes
    used = tl.load(size + game)
    number, ended, closed = game * 0, game * 0, game * 0
    lowest = tl.load(deepest + game)
    nodes = (words, children, prior, visits, value_sum, value, terminal, parent, action)
    leaves = (leaf_words, legal, leaf_prior, finished)
    k, end = game, slots * num_games.to(tl.int64)
    while k < end:
        if tl.load(counts + k) != 0:
            last = tl.load(path + k * num_levels + tl.load(depth + k))
            is_end, repeated = tl.load(at_end + k) != 0, tl.load(repeats + k) != 0
            is_over = tl.load(finished + k) != 0
            own = tl.where(is_over, tl.load(result + k), tl.load(leaf_value + k))
            if is_end:
                own = tl.load(value + last)
            elif repeated:
                own = tl.div_rn(tl.load(value_sum + last), tl.maximum(tl.load(visits + last), 1).to(tl.float32))
                _close(children, prior, last * ACTIONS + tl.load(move + k))
            else:
                _expand(
                    nodes, leaves, k, first, used + ROOT, last, tl.load(move + k), own, num_words, ACTIONS, WORDS, TILE
                )
                used += 1
            tl.store(backed_up + k, own)
            number += 1
            closed += ((is_end == 0) & repeated).to(tl.int64)
            ended += (is_end | (is_over & (repeated == 0))).to(tl.int64)
        k += num_games
    tl.debug_barrier()  # only now: all of a step see the sums as they were before it
    k = game
    while k < end:
        if tl.load(counts + k) != 0:
            levels = tl.load(depth + k)
            stays = (tl.load(at_end + k) != 0) | (tl.load(repeats + k) != 0)
            reached = levels + (stays == 0).to(tl.int64)
            _back_up(visits, value_sum, path + k * num_levels, levels, reached, tl.load(backed_up + k))
            lowest = tl.maximum(lowest, reached)
        k += num_games
    tl.store(size + game, used)
    tl.store(done + game, tl.load(done + game) + number)
    tl.store(deepest + game, lowest)
    tl.atomic_add(exact_leaves, ended)
    tl.atomic_add(exact_leaves + 1, closed)


@triton.jit
def _close(children, prior, place):
    """Closes a move that repeats a position."""
    tl.store(children + place, CLOSED)
    tl.store(prior + place, 0.0)


@triton.jit
def _expand(
    nodes,
    leaves,
    k,
    first,
    node,
    last,
    move,
    own,
    num_words,
    ACTIONS: tl.constexpr,
    WORDS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Writes simulation k's node, with its own visit, and hangs it below its parent, the row `last`."""
    words, children, prior, visits, value_sum, value, terminal, parent, action = nodes
    leaf_words, legal, leaf_prior, finished = leaves
    row = first + node
    word, moves = tl.arange(0, WORDS), tl.arange(0, TILE)
    tl.store(
        words + row * num_words + word,
        tl.load(leaf_words + k * num_words + word, mask=word < num_words),
        mask=word < num_words,
    )
    is_open = tl.load(legal + k * ACTIONS + moves, mask=moves < ACTIONS, other=0) != 0
    tl.store(children + row * ACTIONS + moves, tl.where(is_open, UNVISITED, CLOSED), mask=moves < ACTIONS)
    tl.store(
        prior + row * ACTIONS + moves,
        tl.load(leaf_prior + k * ACTIONS + moves, mask=moves < ACTIONS),
        mask=moves < ACTIONS,
    )
    tl.store(visits + row, 1)
    tl.store(value_sum + row, own)
    tl.store(value + row, own)
    tl.store(terminal + row, tl.load(finished + k))
    tl.store(parent + row, (last - first).to(tl.int32))
    tl.store(action + row, move.to(tl.int32))
    tl.store(children + last * ACTIONS + move, node.to(tl.int32))


@triton.jit
def _back_up(visits, value_sum, way, levels, reached, own):
    """Adds a visit and the value to the nodes of a path, the last of them `levels` deep; each step up from `reached` is
    the opponent's.

    A node has one depth, so it is the same lane that adds to it for every simulation, and none has to wait for another.
    """
    start = levels * 0
    while start <= levels:
        level = start + tl.arange(0, LEVELS)
        row = tl.load(way + level, mask=level <= levels, other=0)
        signed = tl.where(((reached - level) & 1) == 0, own, -own)
        tl.store(visits + row, tl.load(visits + row, mask=level <= levels, other=0) + 1, mask=level <= levels)
        tl.store(
            value_sum + row, tl.load(value_sum + row, mask=level <= levels, other=0.0) + signed, mask=level <= levels
        )
        start += LEVELS


@triton.jit(do_not_specialize=["num_nodes", "num_words"])
def move_kernel(
    words, children, prior, visits, value_sum, value, terminal, parent, action, size, lane, place, num_nodes, num_words,
    ACTIONS: tl.constexpr, WORDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Moves the nodes of one game, several at once; a node's place is never above it, so what is still to be moved is
    not written over.
    """
    game = tl.load(lane + tl.program_id(0))
    first, place = game * num_nodes, place + tl.program_id(0).to(tl.int64) * num_nodes
    end = tl.load(size + game) + ROOT
    start, kept = game * 0 + ROOT, game * 0
    while start < end:
        node = start + tl.arange(0, ROWS)
        target = tl.load(place + node, mask=node < end, other=0)
        stays = target > NULL_NODE
        _move_wide(children, prior, words, place, first + node, first + target, stays, num_words, ACTIONS, WORDS, TILE)
        _move_narrow(visits, value_sum, value, terminal, parent, action, place, first + node, first + target, stays)
        kept += tl.sum(stays.to(tl.int64), 0)
        start += ROWS
    tl.debug_barrier()
    start = kept + ROOT
    while start < end:
        node = start + tl.arange(0, LEVELS)
        row = first + node
        tl.store(visits + row, 0, mask=node < end)
        tl.store(value_sum + row, 0.0, mask=node < end)
        tl.store(terminal + row, node < 0, mask=node < end)
        start += LEVELS


@triton.jit
def _move_wide(
    children,
    prior,
    words,
    place,
    row,
    target,
    stays,
    num_words,
    ACTIONS: tl.constexpr,
    WORDS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Moves what nodes have for every move, and their words; a child's index becomes its place."""
    moves, word = tl.arange(0, TILE)[None, :], tl.arange(0, WORDS)[None, :]
    mask = stays[:, None] & (moves < ACTIONS)
    child = tl.load(children + row[:, None] * ACTIONS + moves, mask=mask, other=0)
    child = tl.where(
        child > NULL_NODE,
        tl.load(place + tl.maximum(child, 0), mask=mask & (child > NULL_NODE), other=0).to(tl.int32),
        child,
    )
    likely = tl.load(prior + row[:, None] * ACTIONS + moves, mask=mask, other=0.0)
    has_word = stays[:, None] & (word < num_words)
    packed = tl.load(words + row[:, None] * num_words + word, mask=has_word, other=0)
    tl.debug_barrier()  # a row may be another's place
    tl.store(children + target[:, None] * ACTIONS + moves, child, mask=mask)
    tl.store(prior + target[:, None] * ACTIONS + moves, likely, mask=mask)
    tl.store(words + target[:, None] * num_words + word, packed, mask=has_word)


@triton.jit
def _move_narrow(visits, value_sum, value, terminal, parent, action, place, row, target, stays):
    """Moves the nodes' numbers; a parent's index becomes its place."""
    number, total, own = (
        tl.load(visits + row, mask=stays, other=0),
        tl.load(value_sum + row, mask=stays, other=0.0),
        tl.load(value + row, mask=stays, other=0.0),
    )
    is_end, move = tl.load(terminal + row, mask=stays, other=0), tl.load(action + row, mask=stays, other=0)
    above = tl.load(place + tl.load(parent + row, mask=stays, other=0), mask=stays, other=0)
    tl.debug_barrier()
    tl.store(visits + target, number, mask=stays)
    tl.store(value_sum + target, total, mask=stays)
    tl.store(value + target, own, mask=stays)
    tl.store(terminal + target, is_end, mask=stays)
    tl.store(action + target, move, mask=stays)
    tl.store(parent + target, above.to(tl.int32), mask=stays)
