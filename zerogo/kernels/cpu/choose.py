"""Which move a simulation takes: PUCT's choice and Gumbel's, at the root and inside the tree, for one node at a time.

They are `search.puct` and `search.gumbel` in the same float32 operations in the same order, so that equal numbers give
equal choices. Sums that could round otherwise are made in float64 on both sides. Exponentials and logarithms may differ
from torch's in their last bit."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from zerogo.kernels import shared
from zerogo.kernels.cpu.loops import inline
from zerogo.kernels.shared import CLOSED, NULL_NODE, ROOT, UNVISITED

ZERO, ONE, WORST = np.float32(0), np.float32(1), np.float32(-np.inf)
TINY = np.float32(shared.TINY)


class Own(NamedTuple):
    """One game's part of a `search.tree.Tree`, by node, and what a step knows of it beside.

    children: int32 [M, A]. prior: float32 [M, A]. visits: int32 [M]. value_sum, value: float32 [M]. terminal: bool [M].
    under_way: int32 [M], by_move: int32 [A], collided: bool [A], as in `search.choice.VirtualVisits`. tried: int64 [A],
    urges, scores: float32 [A], room."""

    children: np.ndarray
    prior: np.ndarray
    visits: np.ndarray
    value_sum: np.ndarray
    value: np.ndarray
    terminal: np.ndarray
    under_way: np.ndarray
    by_move: np.ndarray
    collided: np.ndarray
    tried: np.ndarray
    urges: np.ndarray
    scores: np.ndarray


class Rules(NamedTuple):
    """What of `config.SearchConfig` decides a choice; numbers float32."""

    is_gumbel: bool
    leaves: int
    c_puct: float
    c_puct_log: float
    c_puct_base: float
    reduction: float
    reduction_root: float
    forced: float
    c_visit: float
    c_scale: float


@inline
def list_tried(children, tried):
    """Writes the moves that have a node; returns how many there are."""
    number = 0
    for move in range(children.shape[0]):
        if children[move] > NULL_NODE:
            tried[number] = move
            number += 1
    return number


@inline
def first_best(scores):
    """Returns the first of the highest scores, 0 if all are -inf."""
    best, chosen = WORST, 0
    for move in range(scores.shape[0]):
        if scores[move] > best:
            best, chosen = scores[move], move
    return chosen


@inline
def puct_move(own, node, prior, rules, is_root):
    """Returns the move with the best of `puct.scores`."""
    children, scores, tried = own.children[node], own.scores, own.tried
    number = list_tried(children, tried)
    mass, flying = 0.0, np.int32(0)
    for k in range(number):
        child = children[tried[k]]
        flying += own.under_way[child]
        if own.visits[child] > 0:
            mass += np.float64(prior[tried[k]])
    total = np.float32(own.visits[node])
    reduction = rules.reduction_root if is_root else rules.reduction
    urgency = own.value_sum[node] / max(total, ONE) - reduction * np.float32(math.sqrt(np.float32(mass)))
    below = max(total - ONE, ZERO) + np.float32(flying)
    c_puct = rules.c_puct
    if rules.c_puct_log > ZERO:
        c_puct = c_puct + rules.c_puct_log * np.float32(math.log1p(below / rules.c_puct_base))
    weight = c_puct * np.float32(math.sqrt(below + np.float32(0.01)))
    for move in range(children.shape[0]):
        scores[move] = urgency + weight * prior[move] if children[move] != CLOSED else WORST
    for k in range(number):
        move = tried[k]
        child = children[move]
        visits = np.float32(own.visits[child])
        everything = visits + np.float32(own.under_way[child])
        value = own.value_sum[child] / -visits if visits > ZERO else urgency
        scores[move] = value + weight * prior[move] / (ONE + everything)
        if is_root and rules.forced > ZERO and visits > ZERO:
            if everything < np.float32(math.sqrt(rules.forced * prior[move] * below)):
                scores[move] = np.float32(1e6)
    return first_best(scores)


@inline
def _urges(own, node, prior, rules, number):
    """Writes `gumbel.sigma` of the values of the tried moves into own.urges; returns that of all others."""
    children, tried = own.children[node], own.tried
    mass, total, visited, most = 0.0, 0.0, 0, np.int32(0)
    for k in range(number):
        visits = own.visits[children[tried[k]]]
        if visits > 0:
            likely = max(prior[tried[k]], TINY)
            mass += np.float64(likely)
            total += np.float64(likely * (own.value_sum[children[tried[k]]] / -np.float32(visits)))
            visited += visits
            most = max(most, visits)
    average = np.float32(total) / max(np.float32(mass), TINY)
    mixed = (own.value[node] + np.float32(visited) * average) / (ONE + np.float32(visited))
    scale = (rules.c_visit + np.float32(most)) * rules.c_scale
    for k in range(number):
        child = children[tried[k]]
        visits = own.visits[child]
        own.urges[k] = scale * (own.value_sum[child] / -np.float32(visits)) if visits > 0 else scale * mixed
    return scale * mixed


@inline
def halving_move(own, prior, gumbel, kept_visits, wanted, rules):
    """Returns the root's move with the best of `gumbel.root_scores`."""
    children, tried = own.children[ROOT], own.tried
    number = list_tried(children, tried)
    others = _urges(own, ROOT, prior, rules, number)
    best, chosen, best_rank, k = WORST, 0, 0, 0
    for move in range(children.shape[0]):
        is_tried = k < number and tried[k] == move
        urge = own.urges[k] if is_tried else others
        k += is_tried
        visits = own.visits[children[move]] if is_tried else np.int32(0)
        # First those with the wanted number that did not collide, then those that did, then all.
        is_wanted = np.float32(visits) - kept_visits[move] + np.float32(own.by_move[move]) == np.float32(wanted)
        rank = (1 if own.collided[move] else 2) if is_wanted else 0
        if children[move] == CLOSED or rank < best_rank:
            continue
        score = np.float32(math.log(max(prior[move], TINY))) + urge + gumbel[move]
        if rank > best_rank or score > best:
            best, chosen, best_rank = score, move, rank
    return chosen


@inline
def proportional_move(own, node, rules):
    """Returns the move with the best of `gumbel.interior_scores`."""
    children, prior, scores, tried, urges = own.children[node], own.prior[node], own.scores, own.tried, own.urges
    number = list_tried(children, tried)
    others = _urges(own, node, prior, rules, number)
    has_others = False
    for move in range(children.shape[0]):
        has_others |= children[move] == UNVISITED
    highest, visits = others if has_others else WORST, np.int64(0)
    for k in range(number):
        highest = max(highest, urges[k])
        visits += own.visits[children[tried[k]]] + own.under_way[children[tried[k]]]
    untried = np.float32(math.exp(others - highest)) if has_others else ZERO
    for move in range(children.shape[0]):
        scores[move] = max(prior[move], TINY) * (untried if children[move] == UNVISITED else ZERO)
    for k in range(number):
        scores[tried[k]] = max(prior[tried[k]], TINY) * np.float32(math.exp(urges[k] - highest))
    mass = 0.0
    for move in range(children.shape[0]):
        mass += np.float64(scores[move])
    total, everything = np.float32(mass), ONE + np.float32(visits)
    for move in range(children.shape[0]):
        scores[move] = scores[move] / total if children[move] != CLOSED else WORST
    for k in range(number):
        child = children[tried[k]]
        scores[tried[k]] -= np.float32(own.visits[child] + own.under_way[child]) / everything
    return first_best(scores)
