"""The trees of a search on the CPU, one game after another: what a step writes, and the subtrees that are kept.

What `search.expansion.expand_and_backup` and `search.tree.keep_subtree_` do in torch. A row is game * M + node, as in
`search.tree`. Tensors are changed in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import array, inline, kernel, over_games
from zerogo.kernels.shared import CLOSED, LANDED, NULL_NODE, ROOT, SELECTED, UNVISITED, Leaves, Trees


def arrays_of(tree: Any) -> Trees:
    """Returns the arrays of a `search.tree.Tree`, over the same memory."""
    return Trees(*(getattr(tree, name).flatten(0, 1).numpy() for name in Trees._fields[:-1]), tree.size.numpy())


def expand_and_backup(search_state: Any, selection: Any, leaves: Any, prior: Tensor, value: Tensor) -> None:
    """Writes the new nodes, closes moves that repeat, and counts and backs up the simulations, those of a game in the
    order of their slots; arguments as `search.expansion.expand_and_backup`."""
    num_games = search_state.num_games
    place = np.full(selection.num_slots * num_games, -1, np.int64)  # the simulation in each slot
    (used,) = selection.counts.numpy().nonzero()
    place[selection.index.numpy()[used]] = used
    fields = [getattr(selection, name) for name in SELECTED] + [getattr(leaves, name) for name in LANDED]
    found = Leaves(*(array(field.detach()) for field in (*fields, prior, value)))
    ended = np.zeros((num_games, 2), np.int64)
    counters = (search_state.done.numpy(), search_state.deepest.numpy(), ended)
    over_games(_expand_and_backup, num_games, arrays_of(search_state.tree), found, place, *counters)
    search_state.exact_leaves += torch.from_numpy(ended.sum(0))


@kernel
def _expand_and_backup(first, last, trees, leaves, place, done, deepest, ended):
    num_games = trees.size.shape[0]
    num_nodes, num_slots = trees.visits.shape[0] // num_games, place.shape[0] // num_games
    nodes, values = np.empty(num_slots, np.int64), np.empty(num_slots, np.float32)
    for game in range(first, last):
        for slot in range(num_slots):
            k = place[slot * num_games + game]
            if k < 0:
                continue
            parent = leaves.path[k, leaves.depth[k]]
            nodes[slot] = -1
            if leaves.at_end[k]:
                values[slot] = trees.value[parent]
            elif leaves.repeats[k]:
                values[slot] = trees.value_sum[parent] / max(np.float32(trees.visits[parent]), np.float32(1))
                trees.children[parent, leaves.action[k]] = CLOSED
                trees.prior[parent, leaves.action[k]] = 0
            else:
                values[slot] = leaves.result[k] if leaves.finished[k] else leaves.value[k]
                nodes[slot] = game * num_nodes + ROOT + trees.size[game]
                _expand(trees, leaves, k, game * num_nodes, nodes[slot], parent, values[slot])
                trees.size[game] += 1
            kind = 1 if leaves.repeats[k] and not leaves.at_end[k] else 0
            ended[game, kind] += leaves.at_end[k] or leaves.finished[k] or leaves.repeats[k]
        # Backed up only now: all simulations of a step see the sums as they were before it.
        for slot in range(num_slots):
            k = place[slot * num_games + game]
            if k >= 0:
                path, depth = leaves.path[k], leaves.depth[k]
                reached = _back_up(trees.visits, trees.value_sum, path, depth, nodes[slot], values[slot])
                done[game] += 1
                deepest[game] = max(deepest[game], reached)


@inline
def _expand(trees, leaves, k, base, row, parent, value):
    """Writes simulation k's node, without a visit, and hangs it below its parent; base is the game's first row."""
    for word in range(trees.words.shape[1]):
        trees.words[row, word] = leaves.words[k, word]
    for move in range(trees.children.shape[1]):
        trees.prior[row, move] = leaves.prior[k, move]
        trees.children[row, move] = UNVISITED if leaves.legal[k, move] else CLOSED
    trees.value[row], trees.terminal[row] = value, leaves.finished[k]
    trees.parent[row], trees.action[row] = parent - base, leaves.action[k]
    trees.children[parent, leaves.action[k]] = row - base


@inline
def _back_up(visits, value_sum, path, depth, row, value):
    """Adds a visit and the value to a new node (row, -1 for none) and those of its path, each step up the opponent's;
    returns how deep the simulation came."""
    reached = depth
    if row >= 0:
        reached += 1
        visits[row] += 1
        value_sum[row] += value
        value = -value
    for level in range(depth, -1, -1):
        visits[path[level]] += 1
        value_sum[path[level]] += value
        value = -value
    return reached


def keep_subtree_(tree: Any, games: Tensor, actions: Tensor) -> None:
    """Makes the child by each action the root of its tree, with all below it: games, actions int64 [K]."""
    over_games(_keep, len(games), arrays_of(tree), array(games), array(actions))


@kernel
def _keep(first, last, trees, games, actions):
    num_nodes = trees.visits.shape[0] // trees.size.shape[0]
    place = np.zeros(num_nodes, np.int32)
    for k in range(first, last):
        if not (0 <= games[k] < len(trees.size) and 0 <= actions[k] < trees.children.shape[1]):
            raise IndexError("a game or its action is beyond the trees")
        base, size = games[k] * num_nodes, trees.size[games[k]]
        new_root = max(trees.children[base + ROOT, actions[k]], NULL_NODE) if size > 0 else NULL_NODE
        if trees.terminal[base + new_root]:
            new_root = NULL_NODE
        kept = _number_kept(trees.parent, place, base, size, new_root)
        for node in range(new_root, ROOT + size):
            if place[node] > NULL_NODE:
                _move(trees, place, base + node, base + place[node])
        for row in range(base + ROOT + kept, base + ROOT + size):
            trees.visits[row], trees.value_sum[row], trees.terminal[row] = 0, 0, False
        trees.size[games[k]] = kept


@inline
def _number_kept(parents, place, base, size, new_root):
    """Writes each node's new index, NULL_NODE where it is dropped; returns how many are kept. A node's parent comes
    before it, so that one pass is enough."""
    place[: ROOT + size] = NULL_NODE
    if new_root == NULL_NODE:
        return 0
    kept = ROOT
    place[new_root] = ROOT
    for node in range(new_root + 1, ROOT + size):
        if place[parents[base + node]] > NULL_NODE:
            kept += 1
            place[node] = kept
    return kept


@inline
def _move(trees, place, row, target):
    """Moves a node down to its new place, from where the node there has been moved or dropped; children and parent by
    their new places."""
    trees.words[target], trees.prior[target] = trees.words[row], trees.prior[row]
    for move in range(trees.children.shape[1]):
        child = trees.children[row, move]
        trees.children[target, move] = place[child] if child > NULL_NODE else child
    trees.visits[target], trees.value_sum[target] = trees.visits[row], trees.value_sum[row]
    trees.value[target], trees.terminal[target] = trees.value[row], trees.terminal[row]
    trees.action[target], trees.parent[target] = trees.action[row], place[trees.parent[row]]
