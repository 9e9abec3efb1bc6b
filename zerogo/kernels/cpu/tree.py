"""The trees of a search: selections, what a step writes, and the subtrees that are kept, game after game.

The doors stand in for `search.selection`, `search.leaves`, `search.arrival.expand_and_backup` and
`search.tree.keep_subtree_`, and change the search state's tensors in place. Choices are in `choose`. A row is game * M
+ node, as in `search.tree`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.choose import (
    CLOSED,
    NULL_NODE,
    ROOT,
    UNVISITED,
    Own,
    Rules,
    halving_move,
    proportional_move,
    puct_move,
)
from zerogo.kernels.cpu.loops import inline, kernel, over_games


class Slots(NamedTuple):
    """Where the simulations of a step go, `leaves` slots for each of B games: simulation slot * B + game, K = leaves *
    B.

    path: int64 [K, D], rows from the root on, nowhere behind the end; D = search state.depth_bound + 1. depth: int64
    [K], index of the last node on it. action: int64 [K], the move to be tried there. at_end: bool [K], the last node is
    a finished position and there is no move. counts: bool [K], there is such a simulation; a game's first slots are
    used before its others. What an unused slot holds has no meaning, but names nodes of its game and a move."""

    path: Any
    depth: Any
    action: Any
    at_end: Any
    counts: Any


class Trees(NamedTuple):
    """The arrays of a `search.tree.Tree`, nodes by row: words, children, prior [B * M, ...], the others [B * M]; size
    [B].
    """

    words: np.ndarray
    children: np.ndarray
    prior: np.ndarray
    visits: np.ndarray
    value_sum: np.ndarray
    value: np.ndarray
    terminal: np.ndarray
    parent: np.ndarray
    action: np.ndarray
    size: np.ndarray


class Searches(NamedTuple):
    """The arrays of a `search.search_state.SearchState` beside its trees, by game."""

    budget: np.ndarray
    done: np.ndarray
    prior: np.ndarray
    gumbel: np.ndarray
    kept_visits: np.ndarray
    order: np.ndarray
    phase_end: np.ndarray


class Leaves(NamedTuple):
    """What K simulations came to, as arrays: the way's fields and what was found at its end, and what the network
    said.
    """

    path: np.ndarray
    depth: np.ndarray
    action: np.ndarray
    at_end: np.ndarray
    words: np.ndarray
    legal: np.ndarray
    finished: np.ndarray
    result: np.ndarray
    repeats: np.ndarray
    prior: np.ndarray
    value: np.ndarray


def select(search_state: Any, settings: Any) -> Slots:
    """Returns where up to settings.leaves simulations go in every game whose budget is not spent; adds to
    search state.collisions.

    search state: `search.search_state.SearchState`, of which no tree is deeper than its depth_bound. settings:
    `config.SearchConfig`. A game may start min(leaves, until - done) simulations, until its budget or with Gumbel the
    end of the present phase, and makes at most leaves + leaves // 2 selections, one after another, each in view of the
    virtual visits of those before; who comes to a node that another is to make has collided and is dropped (see
    `search.leaves`). The trees are afterwards what they were."""
    num_games, number = search_state.budget.shape[0], settings.leaves * search_state.budget.shape[0]
    whole = [
        np.empty((number, search_state.depth_bound + 1), np.int64),
        np.zeros(number, np.int64),
        np.zeros(number, np.int64),
    ]
    slots = Slots(*whole, np.zeros(number, np.bool_), np.zeros(number, np.bool_))
    collisions = np.zeros(num_games, np.int64)
    over_games(
        _descend, num_games, _trees(search_state.tree), _searches(search_state), _rules(settings), slots, collisions
    )
    if settings.leaves > 1:
        search_state.collisions += int(collisions.sum())
    return Slots(*(torch.from_numpy(field) for field in slots))


def expand_and_backup(search_state: Any, lanes: Any, way: Any, found: Any, prior: Tensor, value: Tensor) -> None:
    """Writes the new nodes, closes moves that repeat, and counts and backs up the simulations, those of a game in the
    order of their slots.

    lanes: `search.arrival.Lanes`, way: `search.selection.Selection`, found: `search.games.LeafStates`, of K
    simulations. prior: float32 [K, A], value: float32 [K], the network's; a finished position has its result
    instead."""
    num_games = search_state.budget.shape[0]
    place = np.full(lanes.slots * num_games, -1, np.int64)  # the simulation in each slot
    lane, index = lanes.lane.numpy(), np.arange(len(lanes.lane))
    if lanes.active is not None:
        lane, index = lane[lanes.active.numpy()], index[lanes.active.numpy()]
    place[lane] = index
    landed = (found.words, found.legal, found.finished, found.result, found.repeats)
    leaves = Leaves(*(_array(field) for field in (way.path, way.depth, way.action, way.at_end, *landed, prior, value)))
    ended = np.zeros((num_games, 2), np.int64)
    over_games(
        _settle,
        num_games,
        _trees(search_state.tree),
        leaves,
        place,
        search_state.done.numpy(),
        search_state.deepest.numpy(),
        ended,
    )
    search_state.exact_leaves += torch.from_numpy(ended.sum(0))


def keep_subtree_(tree: Any, lane: Tensor, actions: Tensor) -> None:
    """Makes the child by each action the root of its tree, with all below it (`search.tree.keep_subtree_`): lane,
    actions int64 [K].
    """
    over_games(_keep, len(lane), _trees(tree), _array(lane), _array(actions))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().contiguous().numpy()


def _trees(tree: Any) -> Trees:
    return Trees(*(getattr(tree, name).flatten(0, 1).numpy() for name in Trees._fields[:-1]), tree.size.numpy())


def _searches(search_state: Any) -> Searches:
    names = ("budget", "done", "root_prior", "gumbel", "kept_visits", "order", "phase_end")
    return Searches(*(getattr(search_state, name).numpy() for name in names))


def _rules(settings: Any) -> Rules:
    names = (
        "c_puct",
        "c_puct_log",
        "c_puct_base",
        "fpu_reduction",
        "fpu_reduction_root",
        "forced_playouts",
        "c_visit",
        "c_scale",
    )
    return Rules(
        settings.algorithm == "gumbel", settings.leaves, *(np.float32(getattr(settings, name)) for name in names)
    )


@kernel
def _descend(first, last, trees, searches, rules, slots, collisions):
    num_games, num_actions = trees.size.shape[0], trees.children.shape[1]
    num_nodes = trees.visits.shape[0] // num_games
    under_way, by_move, collided = (
        np.zeros(num_nodes, np.int32),
        np.zeros(num_actions, np.int32),
        np.zeros(num_actions, np.bool_),
    )
    room = np.empty(num_actions, np.int64), np.empty(num_actions, np.float32), np.empty(num_actions, np.float32)
    line = np.empty(slots.path.shape[1] + 1, np.int64)
    for game in range(first, last):
        base, new = game * num_nodes, ROOT + trees.size[game]
        left = min(_until(searches, rules, game) - searches.done[game], rules.leaves)
        started = 0
        for _ in range(rules.leaves + rules.leaves // 2):
            if started >= left:
                break
            own = _own(trees, base, num_nodes, under_way, by_move, collided, room)
            first_move = _root_move(own, searches, rules, game, started)
            depth, action, at_end = _go_down(own, rules, line, first_move)
            counts = not (at_end and line[depth] >= new)
            if rules.leaves > 1:
                _mark(own, line, depth, action, first_move, at_end, counts, new + started)
            if counts:
                _write(slots, started * num_games + game, base, line, depth, action, at_end)
                started += 1
            else:
                collisions[game] += 1
        for unused in range(started, rules.leaves):
            slots.path[unused * num_games + game] = base
            slots.path[unused * num_games + game, 0] += ROOT
        if rules.leaves > 1:
            under_way[: new + started] = 0
            by_move[:] = 0
            collided[:] = False
            _unmark(trees, slots, game, started)


@inline
def _until(searches, rules, game):
    """Returns how many simulations may be done after the step (`search.leaves.most_done`)."""
    budget = searches.budget[game]
    if not rules.is_gumbel:
        return budget
    now = min(searches.done[game], searches.phase_end.shape[1] - 1)
    return min(budget, np.int64(searches.phase_end[game, now]))


@inline
def _own(trees, base, num_nodes, under_way, by_move, collided, room):
    end = base + num_nodes
    children, prior, visits, value_sum = (
        trees.children[base:end],
        trees.prior[base:end],
        trees.visits[base:end],
        trees.value_sum[base:end],
    )
    value, terminal = trees.value[base:end], trees.terminal[base:end]
    return Own(
        children, prior, visits, value_sum, value, terminal, under_way, by_move, collided, room[0], room[1], room[2]
    )


@inline
def _root_move(own, searches, rules, game, started):
    if not rules.is_gumbel:
        return puct_move(own, ROOT, searches.prior[game], rules, True)
    wanted = searches.order[game, min(searches.done[game] + started, searches.order.shape[1] - 1)]
    return halving_move(own, searches.prior[game], searches.gumbel[game], searches.kept_visits[game], wanted, rules)


@inline
def _go_down(own, rules, line, action):
    """Writes one selection into line, nodes from the root on; returns its depth, the move there, and whether it is a
    finished position.
    """
    node, depth = ROOT, 0
    line[0] = ROOT
    while own.children[node, action] > NULL_NODE:
        node = own.children[node, action]
        depth += 1
        line[depth] = node
        if own.terminal[node]:
            return depth, action, True
        action = (
            proportional_move(own, node, rules)
            if rules.is_gumbel
            else puct_move(own, node, own.prior[node], rules, False)
        )
    return depth, action, False


@inline
def _write(slots, slot, base, line, depth, action, at_end):
    slots.depth[slot], slots.action[slot], slots.at_end[slot], slots.counts[slot] = depth, action, at_end, True
    for level in range(slots.path.shape[1]):
        slots.path[slot, level] = base + (line[level] if level <= depth else NULL_NODE)


@inline
def _mark(own, line, depth, action, first_move, at_end, counts, new):
    """Leaves virtual visits and the node to be made behind."""
    for level in range(depth + 1):
        own.under_way[line[level]] += 1
    if not at_end:
        own.children[line[depth], action] = new
        own.terminal[new] = True
        own.under_way[new] += 1
    if counts:
        own.by_move[first_move] += 1
    else:
        own.collided[first_move] = True


@inline
def _unmark(trees, slots, game, started):
    """Makes the game's tree what it was before the step."""
    num_games = trees.size.shape[0]
    new = game * (trees.visits.shape[0] // num_games) + ROOT + trees.size[game]
    for order in range(started):
        slot = order * num_games + game
        if not slots.at_end[slot]:
            trees.children[slots.path[slot, slots.depth[slot]], slots.action[slot]] = UNVISITED
            trees.terminal[new + order] = False


@kernel
def _settle(first, last, trees, leaves, place, done, deepest, ended):
    num_games = trees.size.shape[0]
    num_nodes, num_slots = trees.visits.shape[0] // num_games, place.shape[0] // num_games
    nodes, values = np.empty(num_slots, np.int64), np.empty(num_slots, np.float32)
    for game in range(first, last):
        for slot in range(num_slots):
            k = place[slot * num_games + game]
            if k < 0:
                continue
            parent, action = leaves.path[k, leaves.depth[k]], leaves.action[k]
            nodes[slot] = -1
            if leaves.at_end[k]:
                values[slot] = trees.value[parent]
            elif leaves.repeats[k]:
                values[slot] = trees.value_sum[parent] / max(np.float32(trees.visits[parent]), np.float32(1))
                trees.children[parent, action] = CLOSED
                trees.prior[parent, action] = 0
            else:
                row = game * num_nodes + ROOT + trees.size[game]
                nodes[slot] = row
                values[slot] = leaves.result[k] if leaves.finished[k] else leaves.value[k]
                _copy(leaves.words[k], trees.words[row])
                _copy(leaves.prior[k], trees.prior[row])
                _set_children(leaves.legal[k], trees.children[row])
                trees.value[row], trees.terminal[row] = values[slot], leaves.finished[k]
                trees.parent[row], trees.action[row] = parent - game * num_nodes, action
                trees.children[parent, action] = ROOT + trees.size[game]
                trees.size[game] += 1
            kind = 1 if leaves.repeats[k] and not leaves.at_end[k] else 0
            ended[game, kind] += leaves.at_end[k] or leaves.finished[k] or leaves.repeats[k]
        # Only now: all of a step see the sums as they were before it.
        for slot in range(num_slots):
            k = place[slot * num_games + game]
            if k >= 0:
                depth = _back_up(
                    trees.visits, trees.value_sum, leaves.path[k], leaves.depth[k], nodes[slot], values[slot]
                )
                done[game] += 1
                deepest[game] = max(deepest[game], depth)


@inline
def _copy(source, target):
    for index in range(target.shape[0]):
        target[index] = source[index]


@inline
def _set_children(legal, children):
    for move in range(children.shape[0]):
        children[move] = UNVISITED if legal[move] else CLOSED


@inline
def _back_up(visits, value_sum, path, depth, row, value):
    """Adds a visit and the value to the nodes of a path, each step up the opponent's; returns how deep the simulation
    came.
    """
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


@kernel
def _keep(first, last, trees, lane, actions):
    num_nodes = trees.visits.shape[0] // trees.size.shape[0]
    place = np.zeros(num_nodes, np.int32)
    for k in range(first, last):
        if not (0 <= lane[k] < len(trees.size) and 0 <= actions[k] < trees.children.shape[1]):
            raise IndexError("a game or its action is beyond the trees")
        game, base, size = lane[k], lane[k] * num_nodes, trees.size[lane[k]]
        new_root = max(trees.children[base + ROOT, actions[k]], NULL_NODE) if size > 0 else NULL_NODE
        if trees.terminal[base + new_root]:
            new_root = NULL_NODE
        kept = _number_kept(trees.parent, place, base, size, new_root)
        for node in range(new_root, ROOT + size):
            if place[node] > NULL_NODE:
                _move(trees, place, base + node, base + place[node])
        for row in range(base + ROOT + kept, base + ROOT + size):
            trees.visits[row], trees.value_sum[row], trees.terminal[row] = 0, 0, False
        trees.size[game] = kept


@inline
def _number_kept(parents, place, base, size, new_root):
    """Writes each node's new index, nowhere where it is dropped; returns how many are kept. A node's index is above its
    parent's.
    """
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
    their new places.
    """
    trees.words[target] = trees.words[row]
    trees.prior[target] = trees.prior[row]
    for move in range(trees.children.shape[1]):
        child = trees.children[row, move]
        trees.children[target, move] = place[child] if child > NULL_NODE else child
    trees.visits[target], trees.value_sum[target], trees.value[target] = (
        trees.visits[row],
        trees.value_sum[row],
        trees.value[row],
    )
    trees.terminal[target], trees.action[target] = trees.terminal[row], trees.action[row]
    trees.parent[target] = place[trees.parent[row]]
