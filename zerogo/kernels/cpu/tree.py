"""The trees of a search on the CPU, one game after another: select, expand and back up, and keep a subtree.

The same as `search.selection.select`, `search.expand_and_backup` and `search.tree.keep_subtree_` in torch. A row
is game * M + node, as in `search.tree`. Tensors change in place.

Choices use the same float32 operations in the same order as `search.puct` and `search.gumbel`, so that equal numbers
give equal choices. Sums that could round differently are in float64 on both sides. Exponentials and logarithms may
differ from torch's in their last bit. A node has few children and many moves: loops over tried moves (those with a
child) read the children, and one loop over all moves fills in the score of an untried move."""

import math
from collections import namedtuple
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels import shared
from zerogo.kernels.cpu import array, inline, kernel, over_games
from zerogo.kernels.shared import ILLEGAL, NULL_NODE, ROOT, UNVISITED

ZERO, ONE, WORST = np.float32(0), np.float32(1), np.float32(-np.inf)
TINY = np.float32(shared.TINY)
VARIANCE_PRIOR, VARIANCE_WEIGHT = np.float32(shared.VARIANCE_PRIOR), np.float32(shared.VARIANCE_WEIGHT)
INVERSE_PRIOR_STDEV = np.float32(shared.INVERSE_PRIOR_STDEV)
NO_SCORES = np.empty(0, np.float32)

Settings = namedtuple("Settings", ("is_gumbel", "leaves", "tries", *shared.CHOICE_NUMBERS))
# One game's part of a `search.tree.Tree`, by node. under_way int32 [M], by_move int32 [A], collided bool [A]: as in
# `search.selection.VirtualVisits`. tried int64 [A], sigma, scores float32 [A]: scratch memory.
OneTree = namedtuple(
    "OneTree", "children prior visits value_sum square_sum value terminal under_way by_move collided tried sigma scores"
)


def arrays_of(tree: Any) -> shared.Trees:
    """Returns the arrays of a `search.tree.Tree`, over the same memory; an empty one if it keeps no scores."""
    tensors = (getattr(tree, name) for name in shared.Trees._fields[:-1])
    arrays = (NO_SCORES if tensor is None else tensor.flatten(0, 1).numpy() for tensor in tensors)
    return shared.Trees(*arrays, tree.size.numpy())


# Select


def select(search_state: Any, settings: Any) -> tuple[Tensor, ...]:
    """Returns the fields of `search.selection.Selection`: up to settings.leaves simulations in every game whose budget
    is not spent. Adds to search_state.collisions.

    search_state: `search.tree.SearchState`. D is its depth_bound + 1; after its end a path has NULL_NODE. The trees are
    unchanged afterwards."""
    num_games, number = search_state.num_games, settings.leaves * search_state.num_games
    flags = np.zeros((2, number), np.bool_)
    path = np.empty((number, search_state.depth_bound + 1), np.int64)
    slots = shared.Slots(path, np.zeros(number, np.int64), np.zeros(number, np.int64), *flags)
    collisions = np.zeros(num_games, np.int64)
    searches = shared.Searches(*(getattr(search_state, name).numpy() for name in shared.Searches._fields))
    numbers = (np.float32(getattr(settings, name)) for name in shared.CHOICE_NUMBERS)
    chosen_by = Settings(settings.algorithm == "gumbel", settings.leaves, shared.tries(settings.leaves), *numbers)
    over_games(_select, num_games, arrays_of(search_state.tree), searches, chosen_by, slots, collisions)
    if settings.leaves > 1:
        search_state.collisions += int(collisions.sum())
    return tuple(torch.from_numpy(field) for field in slots)


@kernel
def _select(first, last, trees, searches, settings, slots, collisions):
    num_games, num_actions = trees.size.shape[0], trees.children.shape[1]
    num_nodes = trees.visits.shape[0] // num_games
    under_way, by_move = np.zeros(num_nodes, np.int32), np.zeros(num_actions, np.int32)
    collided, tried = np.zeros(num_actions, np.bool_), np.empty(num_actions, np.int64)
    sigma, scores = np.empty(num_actions, np.float32), np.empty(num_actions, np.float32)
    path = np.empty(slots.path.shape[1] + 1, np.int64)
    for game in range(first, last):
        base, new = game * num_nodes, ROOT + trees.size[game]
        rows = slice(base, base + num_nodes)
        tree = OneTree(
            trees.children[rows], trees.prior[rows], trees.visits[rows], trees.value_sum[rows], trees.square_sum[rows],
            trees.value[rows], trees.terminal[rows], under_way, by_move, collided, tried, sigma, scores,
        )  # fmt: skip
        until, started = searches.budget[game], 0
        if settings.is_gumbel:  # as in `search.selection._most_done`
            now = min(searches.done[game], searches.phase_end.shape[1] - 1)
            until = min(until, np.int64(searches.phase_end[game, now]))
        left = min(until - searches.done[game], settings.leaves)
        for _ in range(settings.tries):
            if started >= left:
                break
            if settings.is_gumbel:
                root_move = _halving_move(tree, searches, game, started, settings)
            else:
                root_move = _puct_move(tree, ROOT, searches.root_prior[game], settings, searches.forced[game])
            depth, action, is_terminal = _descend(tree, settings, path, root_move)
            counts = not (is_terminal and path[depth] >= new)
            if settings.leaves > 1:
                _mark(tree, path, depth, action, root_move, is_terminal, counts, new + started)
            if counts:
                slot = started * num_games + game
                slots.depth[slot], slots.action[slot] = depth, action
                slots.is_terminal[slot], slots.is_used[slot] = is_terminal, True
                for level in range(slots.path.shape[1]):
                    slots.path[slot, level] = base + (path[level] if level <= depth else NULL_NODE)
                started += 1
            else:
                collisions[game] += 1
        for unused in range(started, settings.leaves):
            slots.path[unused * num_games + game] = base
            slots.path[unused * num_games + game, 0] += ROOT
        if settings.leaves > 1:
            under_way[: new + started] = 0
            by_move[:] = 0
            collided[:] = False
            _unmark(trees, slots, game, started)


@inline
def _descend(tree, settings, path, action):
    """Writes one selection into path, nodes from the root on; returns its depth, the move there, and whether it is a
    finished position."""
    node, depth = ROOT, 0
    path[0] = ROOT
    while tree.children[node, action] > NULL_NODE:
        node = tree.children[node, action]
        depth += 1
        path[depth] = node
        if tree.terminal[node]:
            return depth, action, True
        if settings.is_gumbel:
            action = _proportional_move(tree, node, settings)
        else:
            action = _puct_move(tree, node, tree.prior[node], settings, ZERO)
    return depth, action, False


@inline
def _mark(tree, path, depth, action, root_move, is_terminal, counts, new):
    """Adds virtual visits along the path and marks the pending child as terminal, so that later selections in this
    step collide with it."""
    for level in range(depth + 1):
        tree.under_way[path[level]] += 1
    if not is_terminal:
        tree.children[path[depth], action] = new
        tree.terminal[new] = True
        tree.under_way[new] += 1
    if counts:
        tree.by_move[root_move] += 1
    else:
        tree.collided[root_move] = True


@inline
def _unmark(trees, slots, game, started):
    """Restores the game's tree as it was before the step."""
    num_games = trees.size.shape[0]
    new = game * (trees.visits.shape[0] // num_games) + ROOT + trees.size[game]
    for serial in range(started):
        slot = serial * num_games + game
        if not slots.is_terminal[slot]:
            trees.children[slots.path[slot, slots.depth[slot]], slots.action[slot]] = UNVISITED
            trees.terminal[new + serial] = False


# Choices at one node


@inline
def _list_tried(children, tried):
    """Writes the moves that have a child; returns how many there are."""
    number = 0
    for move in range(children.shape[0]):
        tried[number] = move  # always written, counted if it applies: no branch to mispredict
        number += children[move] > NULL_NODE
    return number


@inline
def _first_best(scores):
    """Returns the first of the highest scores, 0 if all are -inf."""
    best, chosen = WORST, 0
    for move in range(scores.shape[0]):
        if scores[move] > best:
            best, chosen = scores[move], move
    return chosen


@inline
def _puct_move(tree, node, prior, settings, forced):
    """Returns the move with the best of `puct.scores`; forced: the k of forced playouts."""
    children, scores, tried = tree.children[node], tree.scores, tree.tried
    number = _list_tried(children, tried)
    mass, flying = 0.0, np.int32(0)
    for k in range(number):
        child = children[tried[k]]
        flying += tree.under_way[child]
        if tree.visits[child] > 0:
            mass += np.float64(prior[tried[k]])
    total = np.float32(tree.visits[node])
    reduction = settings.fpu_reduction_root if node == ROOT else settings.fpu_reduction
    unvisited = tree.value_sum[node] / max(total, ONE) - reduction * np.float32(math.sqrt(np.float32(mass)))
    below = max(total - ONE, ZERO) + np.float32(flying)
    c_puct = settings.c_puct
    if settings.c_puct_log > ZERO:
        c_puct = c_puct + settings.c_puct_log * np.float32(math.log1p(below / settings.c_puct_base))
    if settings.c_puct_variance > ZERO:
        c_puct = c_puct * _spread(tree, node, total, settings.c_puct_variance)
    weight = c_puct * np.float32(math.sqrt(below + np.float32(0.01)))
    for move in range(children.shape[0]):
        scores[move] = unvisited + weight * prior[move] if children[move] != ILLEGAL else WORST
    for k in range(number):
        move = tried[k]
        child = children[move]
        visits = np.float32(tree.visits[child])
        all_visits = visits + np.float32(tree.under_way[child])
        value = tree.value_sum[child] / -visits if visits > ZERO else unvisited
        scores[move] = value + weight * prior[move] / (ONE + all_visits)
        if forced > ZERO and visits > ZERO and all_visits < np.float32(math.sqrt(forced * prior[move] * below)):
            scores[move] = np.float32(1e6)
    return _first_best(scores)


@inline
def _spread(tree, node, total, scale):
    """Returns `puct._spread` of a node with `total` visits."""
    variance = VARIANCE_PRIOR
    if total > ONE:
        mean = tree.value_sum[node] / total
        square = mean * mean
        squares = max(tree.square_sum[node], total * square)
        variance = ((square + VARIANCE_PRIOR) * VARIANCE_WEIGHT + squares) / (total + (VARIANCE_WEIGHT - ONE)) - square
    return ONE + scale * (np.float32(math.sqrt(max(variance, ZERO))) * INVERSE_PRIOR_STDEV - ONE)


@inline
def _sigma(tree, node, prior, settings, number):
    """Writes `gumbel.sigma` of the values of the tried moves into tree.sigma; returns that of the other moves."""
    children, tried = tree.children[node], tree.tried
    mass, total, visited, most_visits = 0.0, 0.0, 0, np.int32(0)
    for k in range(number):
        child = children[tried[k]]
        visits = tree.visits[child]
        if visits > 0:
            likely = max(prior[tried[k]], TINY)
            mass += np.float64(likely)
            total += np.float64(likely * (tree.value_sum[child] / -np.float32(visits)))
            visited += visits
            most_visits = max(most_visits, visits)
    average = np.float32(total) / max(np.float32(mass), TINY)
    mixed = (tree.value[node] + np.float32(visited) * average) / (ONE + np.float32(visited))
    scale = (settings.c_visit + np.float32(most_visits)) * settings.c_scale
    for k in range(number):
        child = children[tried[k]]
        visits = tree.visits[child]
        tree.sigma[k] = scale * (tree.value_sum[child] / -np.float32(visits)) if visits > 0 else scale * mixed
    return scale * mixed


@inline
def _halving_move(tree, searches, game, started, settings):
    """Returns the root's move with the best of `gumbel.root_scores`."""
    children, tried, prior = tree.children[ROOT], tree.tried, searches.root_prior[game]
    noise, kept_visits = searches.gumbel[game], searches.kept_visits[game]
    last = searches.target_visits.shape[1] - 1
    target_visits = searches.target_visits[game, min(searches.done[game] + started, last)]
    number = _list_tried(children, tried)
    others = _sigma(tree, ROOT, prior, settings, number)
    best, chosen, best_rank, k = WORST, 0, 0, 0
    for move in range(children.shape[0]):
        is_tried = k < number and tried[k] == move
        sigma = tree.sigma[k] if is_tried else others
        k += is_tried
        visits = tree.visits[children[move]] if is_tried else np.int32(0)
        # First those with the scheduled number that did not collide, then those that did, then all.
        is_wanted = np.float32(visits) - kept_visits[move] + np.float32(tree.by_move[move]) == np.float32(target_visits)
        rank = (1 if tree.collided[move] else 2) if is_wanted else 0
        if children[move] == ILLEGAL or rank < best_rank:
            continue
        score = np.float32(math.log(max(prior[move], TINY))) + sigma + noise[move]
        if rank > best_rank or score > best:
            best, chosen, best_rank = score, move, rank
    return chosen


@inline
def _proportional_move(tree, node, settings):
    """Returns the move with the best of `gumbel.interior_scores`."""
    children, prior, scores, tried, sigma = tree.children[node], tree.prior[node], tree.scores, tree.tried, tree.sigma
    number = _list_tried(children, tried)
    others = _sigma(tree, node, prior, settings, number)
    has_others = False
    for move in range(children.shape[0]):
        has_others |= children[move] == UNVISITED
    highest, visits = others if has_others else WORST, np.int64(0)
    for k in range(number):
        highest = max(highest, sigma[k])
        visits += tree.visits[children[tried[k]]] + tree.under_way[children[tried[k]]]
    untried = np.float32(math.exp(others - highest)) if has_others else ZERO
    for move in range(children.shape[0]):
        scores[move] = max(prior[move], TINY) * (untried if children[move] == UNVISITED else ZERO)
    for k in range(number):
        scores[tried[k]] = max(prior[tried[k]], TINY) * np.float32(math.exp(sigma[k] - highest))
    mass = 0.0
    for move in range(children.shape[0]):
        mass += np.float64(scores[move])
    total, all_visits = np.float32(mass), ONE + np.float32(visits)
    for move in range(children.shape[0]):
        scores[move] = scores[move] / total if children[move] != ILLEGAL else WORST
    for k in range(number):
        child = children[tried[k]]
        scores[tried[k]] -= np.float32(tree.visits[child] + tree.under_way[child]) / all_visits
    return _first_best(scores)


# Expand and back up


def expand_and_backup(
    search_state: Any, selection: Any, leaves: Any, prior: Tensor, value: Tensor, score: Tensor | None = None
) -> None:
    """Writes the new nodes, closes moves that repeat, and counts and backs up the simulations, those of a game in the
    order of their slots; arguments as `search.expand_and_backup`."""
    num_games = search_state.num_games
    place = np.full(selection.num_slots * num_games, -1, np.int64)  # the simulation of each slot
    (used,) = selection.is_used.numpy().nonzero()
    place[selection.index.numpy()[used]] = used
    fields = [getattr(selection, name) for name in shared.SELECTED] + [getattr(leaves, name) for name in shared.LANDED]
    arrays = (array(field.detach()) for field in (*fields, prior, value))
    leaf_arrays = shared.Leaves(*arrays, NO_SCORES if score is None else array(score.detach()))
    ended = np.zeros((num_games, 2), np.int64)
    counters = (search_state.done.numpy(), search_state.deepest.numpy(), ended)
    over_games(_expand_and_backup, num_games, arrays_of(search_state.tree), leaf_arrays, place, *counters)
    search_state.exact_leaves += torch.from_numpy(ended.sum(0))


@kernel
def _expand_and_backup(first, last, trees, leaves, place, done, deepest, ended):
    num_games = trees.size.shape[0]
    num_nodes, num_slots = trees.visits.shape[0] // num_games, place.shape[0] // num_games
    nodes, has_scores = np.empty(num_slots, np.int64), len(trees.score_sum) > 0
    values, scores = np.empty(num_slots, np.float32), np.zeros(num_slots, np.float32)
    for game in range(first, last):
        for slot in range(num_slots):
            k = place[slot * num_games + game]
            if k < 0:
                continue
            parent = leaves.path[k, leaves.depth[k]]
            nodes[slot] = -1
            if has_scores and (leaves.is_terminal[k] or leaves.repeats[k]):
                scores[slot] = trees.score_sum[parent] / max(np.float32(trees.visits[parent]), ONE)
            elif has_scores:
                scores[slot] = leaves.score[k]
            if leaves.is_terminal[k]:
                values[slot] = trees.value[parent]
            elif leaves.repeats[k]:
                values[slot] = trees.value_sum[parent] / max(np.float32(trees.visits[parent]), ONE)
                trees.children[parent, leaves.action[k]] = ILLEGAL
                trees.prior[parent, leaves.action[k]] = 0
            else:
                values[slot] = leaves.result[k] if leaves.finished[k] else max(leaves.value[k], leaves.result[k])
                nodes[slot] = game * num_nodes + ROOT + trees.size[game]
                _expand(trees, leaves, k, game * num_nodes, nodes[slot], parent, values[slot])
                trees.size[game] += 1
            kind = 1 if leaves.repeats[k] and not leaves.is_terminal[k] else 0
            ended[game, kind] += leaves.is_terminal[k] or leaves.finished[k] or leaves.repeats[k]
        # Backed up only now, so that all simulations of a step see the sums as they were before it.
        for slot in range(num_slots):
            k = place[slot * num_games + game]
            if k >= 0:
                path, depth = leaves.path[k], leaves.depth[k]
                reached = _back_up(trees, path, depth, nodes[slot], values[slot], scores[slot])
                done[game] += 1
                deepest[game] = max(deepest[game], reached)


@inline
def _expand(trees, leaves, k, base, row, parent, value):
    """Writes simulation k's node, without a visit, and links it to its parent; base is the game's first row."""
    for word in range(trees.words.shape[1]):
        trees.words[row, word] = leaves.words[k, word]
    for move in range(trees.children.shape[1]):
        trees.prior[row, move] = leaves.prior[k, move]
        trees.children[row, move] = UNVISITED if leaves.legal[k, move] else ILLEGAL
    trees.value[row], trees.terminal[row] = value, leaves.finished[k]
    trees.parent[row], trees.action[row] = parent - base, leaves.action[k]
    trees.children[parent, leaves.action[k]] = row - base


@inline
def _back_up(trees, path, depth, row, value, score):
    """Adds a visit, the value, its square and the score to a new node (row, -1 for none) and to those of its path, with
    the sign changing at each step up; returns the depth of the simulation."""
    visits, value_sum, square_sum, score_sum = trees.visits, trees.value_sum, trees.square_sum, trees.score_sum
    reached, square, has_scores = depth + (row >= 0), value * value, len(score_sum) > 0
    for level in range(reached, -1, -1):
        at = path[level] if level <= depth else row
        visits[at] += 1
        value_sum[at] += value
        square_sum[at] += square
        if has_scores:
            score_sum[at] += score
        value, score = -value, -score
    return reached


# Keep a subtree


def keep_subtree_(tree: Any, games: Tensor, actions: Tensor, deepest: Tensor | None = None) -> None:
    """Makes the child by each action the root of its tree, and keeps its subtree: games, actions int64 [K]. deepest:
    int64 [B], which falls by one."""
    if deepest is not None:
        deepest[games] = (deepest[games] - 1).clamp(min=0)
    over_games(_keep, len(games), arrays_of(tree), games, actions)


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
            trees.visits[row], trees.value_sum[row], trees.square_sum[row], trees.terminal[row] = 0, 0, 0, False
            if len(trees.score_sum) > 0:
                trees.score_sum[row] = 0
        trees.size[games[k]] = kept


@inline
def _number_kept(parents, place, base, size, new_root):
    """Writes each node's new index, NULL_NODE if it is dropped; returns how many are kept. A node's parent comes before
    it, so one pass is enough."""
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
    """Moves a node down to its new place, whose node was moved or dropped before; children and parent get their new
    indices. It uses loops, as Numba takes 3 s to compile copies of slices."""
    for word in range(trees.words.shape[1]):
        trees.words[target, word] = trees.words[row, word]
    for move in range(trees.children.shape[1]):
        child = trees.children[row, move]
        trees.children[target, move] = place[child] if child > NULL_NODE else child
        trees.prior[target, move] = trees.prior[row, move]
    trees.visits[target], trees.value_sum[target] = trees.visits[row], trees.value_sum[row]
    trees.square_sum[target], trees.value[target] = trees.square_sum[row], trees.value[row]
    trees.terminal[target] = trees.terminal[row]
    if len(trees.score_sum) > 0:
        trees.score_sum[target] = trees.score_sum[row]
    trees.action[target], trees.parent[target] = trees.action[row], place[trees.parent[row]]
