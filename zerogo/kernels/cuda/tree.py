"""The trees of a search on CUDA, one program a game: all that a step writes in one launch, and the nodes that are kept
moved in another; as `search.expansion.expand_and_backup` and `search.tree._move_nodes` in torch.

A game's nodes are its program's alone, so nothing is atomic but the counters that all games share, and sums are added
in the order of the slots. What a node has for every move is a tile of A lanes and more, the next power of two. Nothing
is read back and no shape depends on data, so a CUDA graph may hold the launches."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels import shared
from zerogo.kernels.shared import LANDED, SELECTED, Leaves, Trees

NULL_NODE, ROOT = tl.constexpr(shared.NULL_NODE), tl.constexpr(shared.ROOT)
UNVISITED, CLOSED = tl.constexpr(shared.UNVISITED), tl.constexpr(shared.CLOSED)
LEVELS = tl.constexpr(64)  # nodes of a path that are backed up at once
ROWS = tl.constexpr(8)  # nodes that are moved at once


def trees_of(tree: Any) -> Trees:
    """Returns the tensors of a `search.tree.Tree`."""
    return Trees(*(getattr(tree, name) for name in Trees._fields))


def launch(num_actions: int) -> dict[str, Any]:
    """Returns how wide a program is: a warp for every 128 moves. Nothing is fused, so that scores round as torch's."""
    tile = triton.next_power_of_2(num_actions)
    return {"TILE": tile, "num_warps": max(1, min(8, tile // 128)), "enable_fp_fusion": False}


def expand_and_backup(search_state: Any, selection: Any, leaves: Any, prior: Tensor, value: Tensor) -> None:
    """Writes the new nodes, closes moves that repeat, and counts and backs up the simulations; arguments as
    `search.expansion.expand_and_backup`. All slots are given: K = num_slots * B."""
    tree, num_slots = search_state.tree, selection.num_slots
    num_games, num_nodes, num_actions = tree.children.shape
    num_words = tree.words.shape[2]
    assert len(value) == num_slots * num_games, f"{len(value)} simulations in {num_slots} slots of {num_games} games"
    fields = [getattr(selection, name) for name in SELECTED] + [getattr(leaves, name) for name in LANDED]
    found = Leaves(*(field.contiguous() for field in (*fields, prior, value)))
    expand_kernel[(num_games,)](
        trees_of(tree), found, selection.counts.contiguous(), torch.empty_like(value),
        search_state.done, search_state.deepest, search_state.exact_leaves, num_games, num_nodes, found.path.shape[1],
        num_words, num_slots, ACTIONS=num_actions, WORDS=triton.next_power_of_2(num_words), **launch(num_actions),
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_games", "num_nodes", "num_levels", "num_words", "num_slots"])
def expand_kernel(
    trees, leaves, counts, backed_up, done, deepest, exact_leaves, num_games, num_nodes, num_levels, num_words,
    num_slots, ACTIONS: tl.constexpr, WORDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Writes what the simulations of one game came to, in the order of their slots, then backs them up: all of them see
    the sums as they were before the step. backed_up: room for their values, float32 [K]."""
    game = tl.program_id(0).to(tl.int64)
    first = game * num_nodes
    used, lowest = tl.load(trees.size + game), tl.load(deepest + game)
    number, ended, closed = game * 0, game * 0, game * 0
    k, end = game, num_slots * num_games.to(tl.int64)
    while k < end:
        if tl.load(counts + k) != 0:
            last = tl.load(leaves.path + k * num_levels + tl.load(leaves.depth + k))
            action = tl.load(leaves.action + k)
            at_end, repeats = tl.load(leaves.at_end + k) != 0, tl.load(leaves.repeats + k) != 0
            is_over = tl.load(leaves.finished + k) != 0
            own = tl.where(is_over, tl.load(leaves.result + k), tl.load(leaves.value + k))
            if at_end:
                own = tl.load(trees.value + last)
            elif repeats:
                visits = tl.maximum(tl.load(trees.visits + last), 1)
                own = tl.div_rn(tl.load(trees.value_sum + last), visits.to(tl.float32))
                tl.store(trees.children + last * ACTIONS + action, CLOSED)
                tl.store(trees.prior + last * ACTIONS + action, 0.0)
            else:
                _expand(trees, leaves, k, first, used + ROOT, last, action, own, num_words, ACTIONS, WORDS, TILE)
                used += 1
            tl.store(backed_up + k, own)
            number += 1
            closed += ((at_end == 0) & repeats).to(tl.int64)
            ended += (at_end | (is_over & (repeats == 0))).to(tl.int64)
        k += num_games
    tl.debug_barrier()
    k = game
    while k < end:
        if tl.load(counts + k) != 0:
            depth = tl.load(leaves.depth + k)
            stays = (tl.load(leaves.at_end + k) != 0) | (tl.load(leaves.repeats + k) != 0)
            reached = depth + (stays == 0).to(tl.int64)
            _back_up(trees, leaves.path + k * num_levels, depth, reached, tl.load(backed_up + k))
            lowest = tl.maximum(lowest, reached)
        k += num_games
    tl.store(trees.size + game, used)
    tl.store(done + game, tl.load(done + game) + number)
    tl.store(deepest + game, lowest)
    tl.atomic_add(exact_leaves, ended)
    tl.atomic_add(exact_leaves + 1, closed)


@triton.jit
def _expand(
    trees, leaves, k, first, node, last, action, own, num_words,
    ACTIONS: tl.constexpr, WORDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Writes simulation k's node, with its own visit, and hangs it below its parent, the row `last`."""
    row, word, moves = first + node, tl.arange(0, WORDS), tl.arange(0, TILE)
    is_word, exists = word < num_words, moves < ACTIONS
    packed = tl.load(leaves.words + k * num_words + word, mask=is_word)
    is_open = tl.load(leaves.legal + k * ACTIONS + moves, mask=exists, other=0) != 0
    prior = tl.load(leaves.prior + k * ACTIONS + moves, mask=exists)
    tl.store(trees.words + row * num_words + word, packed, mask=is_word)
    tl.store(trees.children + row * ACTIONS + moves, tl.where(is_open, UNVISITED, CLOSED), mask=exists)
    tl.store(trees.prior + row * ACTIONS + moves, prior, mask=exists)
    tl.store(trees.visits + row, 1)
    tl.store(trees.value_sum + row, own)
    tl.store(trees.value + row, own)
    tl.store(trees.terminal + row, tl.load(leaves.finished + k))
    tl.store(trees.parent + row, (last - first).to(tl.int32))
    tl.store(trees.action + row, action.to(tl.int32))
    tl.store(trees.children + last * ACTIONS + action, node.to(tl.int32))


@triton.jit
def _back_up(trees, path, depth, reached, own):
    """Adds a visit and the value to the nodes of a path, the last of them at `depth`; each step up from `reached` is
    the opponent's.

    A node has one depth, so it is the same lane that adds to it for every simulation, and none has to wait for
    another."""
    start = depth * 0
    while start <= depth:
        level = start + tl.arange(0, LEVELS)
        is_meant = level <= depth
        row = tl.load(path + level, mask=is_meant, other=0)
        signed = tl.where(((reached - level) & 1) == 0, own, -own)
        visits = tl.load(trees.visits + row, mask=is_meant, other=0)
        total = tl.load(trees.value_sum + row, mask=is_meant, other=0.0)
        tl.store(trees.visits + row, visits + 1, mask=is_meant)
        tl.store(trees.value_sum + row, total + signed, mask=is_meant)
        start += LEVELS


def move_nodes_(tree: Any, games: Tensor, place: Tensor) -> None:
    """Moves the nodes of some games to their places and empties the rest: games int64 [K], place int64 [K, M],
    NULL_NODE for nodes that are dropped, else not above the node, and rising."""
    _, num_nodes, num_actions = tree.children.shape
    num_words = tree.words.shape[2]
    move_kernel[(len(games),)](
        trees_of(tree), games.contiguous(), place.contiguous(), num_nodes, num_words,
        ACTIONS=num_actions, WORDS=triton.next_power_of_2(num_words), **launch(num_actions),
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_nodes", "num_words"])
def move_kernel(
    trees, games, place, num_nodes, num_words, ACTIONS: tl.constexpr, WORDS: tl.constexpr, TILE: tl.constexpr
):
    """Moves the nodes of one game, several at once, from the root on: a node's place is never above it, so what is
    still to be moved is not written over."""
    game = tl.load(games + tl.program_id(0))
    first, place = game * num_nodes, place + tl.program_id(0).to(tl.int64) * num_nodes
    end = tl.load(trees.size + game) + ROOT
    start, kept = game * 0 + ROOT, game * 0
    while start < end:
        node = start + tl.arange(0, ROWS)
        target = tl.load(place + node, mask=node < end, other=0)
        stays = target > NULL_NODE
        _move_wide(trees, place, first + node, first + target, stays, num_words, ACTIONS, WORDS, TILE)
        _move_narrow(trees, place, first + node, first + target, stays)
        kept += tl.sum(stays.to(tl.int64), 0)
        start += ROWS
    tl.debug_barrier()
    start = kept + ROOT
    while start < end:
        node = start + tl.arange(0, LEVELS)
        tl.store(trees.visits + first + node, 0, mask=node < end)
        tl.store(trees.value_sum + first + node, 0.0, mask=node < end)
        tl.store(trees.terminal + first + node, node < 0, mask=node < end)
        start += LEVELS


@triton.jit
def _move_wide(
    trees, place, row, target, stays, num_words, ACTIONS: tl.constexpr, WORDS: tl.constexpr, TILE: tl.constexpr
):
    """Moves what nodes have for every move, and their words; a child's index becomes its place."""
    moves, word = tl.arange(0, TILE)[None, :], tl.arange(0, WORDS)[None, :]
    mask, has_word = stays[:, None] & (moves < ACTIONS), stays[:, None] & (word < num_words)
    child = tl.load(trees.children + row[:, None] * ACTIONS + moves, mask=mask, other=0)
    is_node = child > NULL_NODE
    followed = tl.load(place + tl.maximum(child, 0), mask=mask & is_node, other=0)
    prior = tl.load(trees.prior + row[:, None] * ACTIONS + moves, mask=mask, other=0.0)
    packed = tl.load(trees.words + row[:, None] * num_words + word, mask=has_word, other=0)
    tl.debug_barrier()  # a row may be another's place
    child = tl.where(is_node, followed.to(tl.int32), child)
    tl.store(trees.children + target[:, None] * ACTIONS + moves, child, mask=mask)
    tl.store(trees.prior + target[:, None] * ACTIONS + moves, prior, mask=mask)
    tl.store(trees.words + target[:, None] * num_words + word, packed, mask=has_word)


@triton.jit
def _move_narrow(trees, place, row, target, stays):
    """Moves the nodes' numbers; a parent's index becomes its place."""
    visits, total = tl.load(trees.visits + row, mask=stays, other=0), tl.load(trees.value_sum + row, mask=stays)
    value, terminal = tl.load(trees.value + row, mask=stays), tl.load(trees.terminal + row, mask=stays)
    action = tl.load(trees.action + row, mask=stays)
    parent = tl.load(place + tl.load(trees.parent + row, mask=stays, other=0), mask=stays, other=0)
    tl.debug_barrier()
    tl.store(trees.visits + target, visits, mask=stays)
    tl.store(trees.value_sum + target, total, mask=stays)
    tl.store(trees.value + target, value, mask=stays)
    tl.store(trees.terminal + target, terminal, mask=stays)
    tl.store(trees.action + target, action, mask=stays)
    tl.store(trees.parent + target, parent.to(tl.int32), mask=stays)
