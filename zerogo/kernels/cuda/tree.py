"""The trees of a search on CUDA, one program per game: all selections of a step in one launch, expansion and backup in
another, and keeping subtrees in a third; as `search.selection.select`, `search.expand_and_backup` and
`search.tree.keep_subtree_` in torch.

The numbers of a node's moves are a tile with the next power of two of A lanes; in a choice, lanes after the last move
are closed moves. A node's scores are computed in registers from tiles that are loaded once. Only the path, the virtual
visits and the marks of pending nodes are written, since the game's next selection reads them. A game's nodes belong to
one program, so only the counters shared by all games are atomic. The selections of a game run in sequence, as each
depends on the last, and sums are added in the order of the slots. Nothing is read back and no shape depends on data, so
a CUDA graph may hold the launches.

Choices use the same float32 operations in the same order as `search.puct` and `search.gumbel`, with correctly rounded
square roots and divisions, nothing fused, and sums in float64. Only logarithms and exponentials may differ from torch's
in the last bits. Among equal scores the lowest move wins."""

from collections import namedtuple
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels import shared
from zerogo.kernels.cuda import launch
from zerogo.kernels.shared import CHOICE_NUMBERS, LANDED, SELECTED, Leaves, Searches, Slots, Trees, fields_of, tries

NULL_NODE, ROOT = tl.constexpr(shared.NULL_NODE), tl.constexpr(shared.ROOT)
UNVISITED, ILLEGAL = tl.constexpr(shared.UNVISITED), tl.constexpr(shared.ILLEGAL)
TINY = tl.constexpr(shared.TINY)
VARIANCE_PRIOR, VARIANCE_WEIGHT = tl.constexpr(shared.VARIANCE_PRIOR), tl.constexpr(shared.VARIANCE_WEIGHT)
INVERSE_PRIOR_STDEV = tl.constexpr(shared.INVERSE_PRIOR_STDEV)
LEVELS = tl.constexpr(64)  # nodes of a path backed up at once
ROWS = tl.constexpr(8)  # nodes moved at once

# The compile-time parameters of a kernel: moves and words of a node, with the widths of their tiles; the kind of
# search; whether trees keep scores.
Kind = namedtuple("Kind", "ACTIONS TILE WORDS WORD_TILE SEVERAL GUMBEL SCORES")
Settings = namedtuple("Settings", CHOICE_NUMBERS)
# The inputs of all choices in one game. index: its number. first: the row of its first node.
Game = namedtuple("Game", "trees under_way searches index first settings")
# A node's children (int32), with their priors, visits, mean values from the node's view and simulations under way.
Node = namedtuple("Node", "row children is_open prior visits value flying")


def kind_of(tree: Any, several: bool = False, is_gumbel: bool = False) -> dict[str, Any]:
    """Returns the compile-time parameters of a kernel, and its launch options: a warp for every 128 moves, and nothing
    fused, so that scores round as torch's."""
    actions, words = tree.children.shape[2], tree.words.shape[2]
    tile = triton.next_power_of_2(actions)
    kind = Kind(actions, tile, words, triton.next_power_of_2(words), several, is_gumbel, tree.score_sum is not None)
    return {"KIND": kind, "num_warps": max(1, min(8, tile // 128)), "enable_fp_fusion": False}


def numbers_of(settings: Any) -> Settings:
    """Returns the settings for choices. settings: `config.SearchConfig`."""
    return Settings(*(float(getattr(settings, name)) for name in CHOICE_NUMBERS))


# Select


def select(search_state: Any, settings: Any) -> Slots:
    """Returns the fields of `search.selection.Selection`: up to settings.leaves simulations in every game whose budget
    is not spent. D is the tree's M, so that the shape never changes; entries after the end of a path are undefined."""
    tree, leaves = search_state.tree, settings.leaves
    num_games, num_nodes, _ = tree.children.shape
    number = leaves * num_games
    empty = (like.new_empty(number) for like in (tree.size, tree.size, tree.terminal, tree.terminal))
    slots = Slots(tree.size.new_empty(number, num_nodes), *empty)
    under_way = torch.zeros_like(tree.visits) if leaves > 1 else tree.visits  # one simulation never reads it
    arguments = fields_of(Trees, tree), under_way, fields_of(Searches, search_state), search_state.collisions, slots
    sizes = num_games, num_nodes, search_state.max_budget, leaves, tries(leaves)
    kind = kind_of(tree, leaves > 1, settings.algorithm == "gumbel")
    launch(select_kernel, num_games, *arguments, *sizes, numbers_of(settings), **kind)
    return slots


@triton.jit(do_not_specialize=["num_games", "num_nodes", "max_budget", "leaves", "tries"])  # so it is compiled once
def select_kernel(
    trees, under_way, searches, collisions, slots, num_games, num_nodes, max_budget, leaves, tries, settings,
    KIND: tl.constexpr,
):  # fmt: skip
    """Selects the simulations of one game, one by one. tries: the maximum number of selections. A game without budget
    still makes one, to fill unused slots."""
    index = tl.program_id(0).to(tl.int64)
    first = index * num_nodes
    game = Game(trees, under_way, searches, index, first, settings)
    new = tl.load(trees.size + index) + ROOT  # the node of the first simulation
    before, until = tl.load(searches.done + index), tl.load(searches.budget + index)
    if KIND.GUMBEL:
        now = index * max_budget + tl.minimum(before, max_budget - 1)
        until = tl.minimum(until, tl.load(searches.phase_end + now).to(tl.int64))
    left = tl.minimum(until - before, leaves)
    started, tried, dropped, root_move = before * 0, before * 0, before * 0, before * 0
    moves = tl.arange(0, KIND.TILE)
    by_move, collided = tl.zeros_like(moves), tl.zeros_like(moves)
    goes_on = tried == 0
    while goes_on:
        target_visits = tl.load(
            searches.target_visits + index * max_budget + tl.minimum(before + started, max_budget - 1)
        )
        root_move, child = _choose_at_root(game, target_visits, by_move, collided, KIND)
        slot = tl.minimum(started, leaves - 1) * num_games + index
        path = slots.path + slot * num_nodes
        row, depth, action, child, is_terminal = _descend(game, path, new, root_move, child, started < left, KIND)
        collides = is_terminal & (child >= new)
        counts = (started < left) & (collides == 0)
        tl.store(slots.depth + slot, depth)
        tl.store(slots.action + slot, action)
        tl.store(slots.is_terminal + slot, is_terminal)
        if KIND.SEVERAL:
            if counts & (is_terminal == 0):
                tl.store(trees.children + row * KIND.ACTIONS + action, (new + started).to(tl.int32))
                tl.store(under_way + first + new + started, 1)
            tl.debug_barrier()  # the next selection reads what this one wrote
        by_move += ((moves == root_move) & counts).to(tl.int32)
        collided |= ((moves == root_move) & collides).to(tl.int32)
        dropped += collides.to(tl.int64)
        started += counts.to(tl.int64)
        tried += 1
        goes_on = (started < left) & (tried < tries)
    tl.atomic_add(collisions, dropped)
    _finish_slots(game, slots, started, root_move, num_games, num_nodes, leaves, KIND)


@triton.jit
def _descend(game, path, new, action, child, is_going, KIND: tl.constexpr):
    """Follows one simulation from the move chosen at the root to a move without a node, or to an end, and writes its
    path. new: the first pending node; such nodes are ends for other simulations.

    Returns the row of the last node, its depth, the move there, the last child read, and whether the node is an end."""
    row, depth = game.first + ROOT, game.first * 0
    is_terminal = depth != 0
    tl.store(path, row)
    moving = is_going & (child > NULL_NODE)
    while moving:
        depth += 1
        row = game.first + child
        tl.store(path + depth, row)
        if KIND.SEVERAL:
            tl.store(game.under_way + row, tl.load(game.under_way + row) + 1)
        is_terminal = (child >= new) | (tl.load(game.trees.terminal + row) != 0)
        if is_terminal == 0:
            action, child = _choose_inside(game, row, KIND)
        moving = (is_terminal == 0) & (child > NULL_NODE)
    return row, depth, action, child, is_terminal


@triton.jit
def _finish_slots(game, slots, started, root_move, num_games, num_nodes, leaves, KIND: tl.constexpr):
    """Restores the tree, writes which slots are used, and gives the others a move at the root."""
    number = started * 0
    while number < leaves:
        slot = number * num_games + game.index
        is_used = number < started
        tl.store(slots.is_used + slot, is_used)
        if is_used:
            if KIND.SEVERAL:
                if tl.load(slots.is_terminal + slot) == 0:
                    row = tl.load(slots.path + slot * num_nodes + tl.load(slots.depth + slot))
                    tl.store(game.trees.children + row * KIND.ACTIONS + tl.load(slots.action + slot), UNVISITED)
        else:
            tl.store(slots.path + slot * num_nodes, game.first + ROOT)
            tl.store(slots.depth + slot, game.first * 0)
            tl.store(slots.action + slot, root_move)
            tl.store(slots.is_terminal + slot, is_used)
        number += 1


# Choices at one node


@triton.jit
def _choose_at_root(game, target_visits, by_move, collided, KIND: tl.constexpr):
    """Returns the move to try at the root, and its child.

    target_visits: how many new visits the move should have. by_move: int32, simulations under way by their root moves.
    collided: int32, 1 for moves with a collision."""
    settings, searches, place = game.settings, game.searches, game.index * KIND.ACTIONS
    node = _node_at(game, game.first + ROOT, searches.root_prior + place, KIND)
    if KIND.GUMBEL:
        moves = tl.arange(0, KIND.TILE)
        exists, place = moves < KIND.ACTIONS, place + moves
        new = node.visits - tl.load(searches.kept_visits + place, mask=exists, other=0.0) + by_move.to(tl.float32)
        score = tl.log(tl.maximum(node.prior, TINY)) + _sigma(game, node)
        score = score + tl.load(searches.gumbel + place, mask=exists, other=0.0)
        is_wanted = node.is_open & (new == target_visits.to(tl.float32))
        others = is_wanted & (collided == 0)
        is_wanted = tl.where(tl.max(others.to(tl.int32), 0) > 0, others, is_wanted)
        nobody = tl.max(is_wanted.to(tl.int32), 0) == 0
        score = tl.where(is_wanted | nobody, score, -float("inf"))
    else:
        score = _puct(game, node, settings.fpu_reduction_root, tl.load(searches.forced + game.index))
    return _best(node, score)


@triton.jit
def _choose_inside(game, row, KIND: tl.constexpr):
    """Returns the move chosen at a node inside the tree, and its child."""
    node = _node_at(game, row, game.trees.prior + row * KIND.ACTIONS, KIND)
    if KIND.GUMBEL:
        sigma = tl.where(node.is_open, _sigma(game, node), -float("inf"))
        weight = tl.exp(sigma - tl.max(sigma, 0)) * tl.maximum(node.prior, TINY)
        visits = node.visits + node.flying
        share = tl.div_rn(visits, tl.zeros_like(visits) + (1.0 + tl.sum(visits, 0)))
        score = tl.div_rn(weight, tl.zeros_like(weight) + _exact_sum(weight)) - share
    else:
        score = _puct(game, node, game.settings.fpu_reduction, 0.0)
    return _best(node, score)


@triton.jit
def _node_at(game, row, prior, KIND: tl.constexpr):
    """Returns the inputs of a choice at a node. prior: pointer to the prior of its moves."""
    moves, trees = tl.arange(0, KIND.TILE), game.trees
    exists = moves < KIND.ACTIONS
    prior = tl.load(prior + moves, mask=exists, other=0.0)
    children = tl.load(trees.children + row * KIND.ACTIONS + moves, mask=exists, other=ILLEGAL)
    has_node = children > NULL_NODE
    child = game.first + tl.maximum(children, NULL_NODE)
    visits = tl.load(trees.visits + child, mask=has_node, other=0).to(tl.float32)
    value = tl.div_rn(tl.load(trees.value_sum + child, mask=has_node, other=0.0), -tl.maximum(visits, 1.0))
    flying = tl.zeros_like(visits)
    if KIND.SEVERAL:
        flying = tl.load(game.under_way + child, mask=has_node, other=0).to(tl.float32)
    return Node(row, children, children != ILLEGAL, prior, visits, value, flying)


@triton.jit
def _puct(game, node, reduction, forced):
    """Returns `puct.scores`."""
    settings, visits = game.settings, node.visits
    total = tl.load(game.trees.visits + node.row).to(tl.float32)
    mean = tl.div_rn(tl.load(game.trees.value_sum + node.row), tl.maximum(total, 1.0))
    below = tl.maximum(total - 1.0, 0.0) + tl.sum(node.flying, 0)
    all_visits = visits + node.flying
    unvisited = mean - reduction * tl.sqrt_rn(_exact_sum(node.prior * tl.minimum(visits, 1.0)))
    growth = tl.log(1.0 + tl.div_rn(below, settings.c_puct_base + 0.0 * below))
    c_puct = (settings.c_puct + settings.c_puct_log * growth) * _spread(game, node, total, mean)
    weight = c_puct * tl.sqrt_rn(below + 0.01)
    score = tl.where(visits > 0, node.value, unvisited) + tl.div_rn(weight * node.prior, 1.0 + all_visits)
    owed = tl.sqrt_rn(forced * node.prior * below)
    return tl.where((visits > 0) & (all_visits < owed), 1e6, score)


@triton.jit
def _spread(game, node, total, mean):
    """Returns `puct._spread` of a node with these visits and this mean; exactly 1 where c_puct_variance is 0."""
    square = mean * mean
    squares = tl.maximum(tl.load(game.trees.square_sum + node.row), total * square)
    seen = (square + VARIANCE_PRIOR) * VARIANCE_WEIGHT + squares
    variance = tl.maximum(tl.div_rn(seen, total + (VARIANCE_WEIGHT - 1.0)) - square, 0.0)
    sigma = tl.sqrt_rn(tl.where(total > 1.0, variance, VARIANCE_PRIOR))
    return 1.0 + game.settings.c_puct_variance * (sigma * INVERSE_PRIOR_STDEV - 1.0)


@triton.jit
def _sigma(game, node):
    """Returns `gumbel.sigma` of `gumbel.completed_values`."""
    return _scale(game, node) * _completed(game, node)


@triton.jit
def _scale(game, node):
    """Returns the factor of values in `gumbel.sigma`."""
    return (game.settings.c_visit + tl.max(node.visits, 0)) * game.settings.c_scale


@triton.jit
def _completed(game, node):
    """Returns `gumbel.completed_values`."""
    visits, is_visited = node.visits, node.visits > 0
    weight = tl.where(is_visited, tl.maximum(node.prior, TINY), 0.0)
    number = tl.sum(visits, 0)
    average = tl.div_rn(_exact_sum(weight * node.value), tl.maximum(_exact_sum(weight), TINY))
    mixed = tl.div_rn(tl.load(game.trees.value + node.row) + number * average, 1.0 + number)
    return tl.where(is_visited, node.value, mixed)


@triton.jit
def _exact_sum(numbers):
    """Returns the sum of a tile, in float64, so that the order does not matter."""
    return tl.sum(numbers.to(tl.float64), 0).to(tl.float32)


@triton.jit
def _best(node, score):
    """Returns the first open move (int64) with the highest score, and its child (int32)."""
    chosen = tl.argmax(tl.where(node.is_open, score, -float("inf")), 0)
    moves = tl.arange(0, node.children.shape[0])
    return chosen.to(tl.int64), tl.sum(tl.where(moves == chosen, node.children, 0), 0)


# Expand and back up


def expand_and_backup(
    search_state: Any, selection: Any, leaves: Any, prior: Tensor, value: Tensor, score: Tensor | None = None
) -> None:
    """Writes the new nodes, closes moves that repeat, and counts and backs up the simulations; arguments as
    `search.expand_and_backup`. All slots are given: K = num_slots * B."""
    tree, num_slots = search_state.tree, selection.num_slots
    num_games, num_nodes, _ = tree.children.shape
    assert len(value) == num_slots * num_games, f"{len(value)} simulations in {num_slots} slots of {num_games} games"
    fields = [getattr(selection, name) for name in SELECTED] + [getattr(leaves, name) for name in LANDED]
    score = value if score is None else score
    leaf_tensors = Leaves(*(field.contiguous() for field in (*fields, prior, value, score)))
    arguments = fields_of(Trees, tree), leaf_tensors, selection.is_used, *map(torch.empty_like, (value, score))
    counters = search_state.done, search_state.deepest, search_state.exact_leaves
    sizes = num_games, num_nodes, leaf_tensors.path.shape[1], num_slots
    launch(expand_kernel, num_games, *arguments, *counters, *sizes, **kind_of(tree))


@triton.jit(do_not_specialize=["num_games", "num_nodes", "num_levels", "num_slots"])
def expand_kernel(
    trees, leaves, counts, backed_up, scores, done, deepest, exact_leaves, num_games, num_nodes, num_levels, num_slots,
    KIND: tl.constexpr,
):  # fmt: skip
    """Writes the new nodes of one game's simulations, in the order of their slots, then backs the simulations up, so
    that all of them see the sums as they were before the step. backed_up, scores: memory for their values and scores,
    float32 [K]."""
    game = tl.program_id(0).to(tl.int64)
    first = game * num_nodes
    used, lowest = tl.load(trees.size + game), tl.load(deepest + game)
    number, ended, closed = game * 0, game * 0, game * 0
    k, end = game, num_slots * num_games.to(tl.int64)
    while k < end:
        if tl.load(counts + k) != 0:
            last = tl.load(leaves.path + k * num_levels + tl.load(leaves.depth + k))
            action = tl.load(leaves.action + k)
            is_terminal, repeats = tl.load(leaves.is_terminal + k) != 0, tl.load(leaves.repeats + k) != 0
            is_over = tl.load(leaves.finished + k) != 0
            value, result = tl.load(leaves.value + k), tl.load(leaves.result + k)
            value = tl.where(is_over | (result > value), result, value)
            if KIND.SCORES:
                num_visits = tl.maximum(tl.load(trees.visits + last), 1).to(tl.float32)
                mean = tl.div_rn(tl.load(trees.score_sum + last), num_visits)
                score = tl.where(is_terminal | repeats, mean, tl.load(leaves.score + k))
                tl.store(scores + k, score)
            if is_terminal:
                value = tl.load(trees.value + last)
            elif repeats:
                visits = tl.maximum(tl.load(trees.visits + last), 1)
                value = tl.div_rn(tl.load(trees.value_sum + last), visits.to(tl.float32))
                tl.store(trees.children + last * KIND.ACTIONS + action, ILLEGAL)
                tl.store(trees.prior + last * KIND.ACTIONS + action, 0.0)
            else:
                _expand(trees, leaves, k, first, used + ROOT, last, action, value, KIND)
                if KIND.SCORES:
                    tl.store(trees.score_sum + first + used + ROOT, score)
                used += 1
            tl.store(backed_up + k, value)
            number += 1
            closed += ((is_terminal == 0) & repeats).to(tl.int64)
            ended += (is_terminal | (is_over & (repeats == 0))).to(tl.int64)
        k += num_games
    tl.debug_barrier()
    k = game
    while k < end:
        if tl.load(counts + k) != 0:
            depth = tl.load(leaves.depth + k)
            stays = (tl.load(leaves.is_terminal + k) != 0) | (tl.load(leaves.repeats + k) != 0)
            reached = depth + (stays == 0).to(tl.int64)
            path, score = leaves.path + k * num_levels, tl.load(scores + k) if KIND.SCORES else 0.0
            _back_up(trees, path, depth, reached, tl.load(backed_up + k), score, KIND)
            tl.debug_barrier()  # the next simulation's path shares nodes with this one's
            lowest = tl.maximum(lowest, reached)
        k += num_games
    tl.store(trees.size + game, used)
    tl.store(done + game, tl.load(done + game) + number)
    tl.store(deepest + game, lowest)
    tl.atomic_add(exact_leaves, ended)
    tl.atomic_add(exact_leaves + 1, closed)


@triton.jit
def _expand(trees, leaves, k, first, node, last, action, value, KIND: tl.constexpr):
    """Writes simulation k's node, with its own visit, and links it to its parent, the row `last`."""
    row, moves = first + node, tl.arange(0, KIND.TILE)
    is_open = tl.load(leaves.legal + k * KIND.ACTIONS + moves, mask=moves < KIND.ACTIONS, other=0) != 0
    children, parent = tl.where(is_open, UNVISITED, ILLEGAL), (last - first).to(tl.int32)
    write_node(trees, row, k, leaves.words, leaves.prior, children, value, leaves.finished, parent, KIND)
    tl.store(trees.action + row, action.to(tl.int32))
    tl.store(trees.children + last * KIND.ACTIONS + action, node.to(tl.int32))


@triton.jit
def write_node(trees, row, k, words, priors, children, value, finished, parent, KIND: tl.constexpr):
    """Writes a node with its own visit. words, priors, finished: pointers to those of all new nodes; this is the
    k-th."""
    word, moves = tl.arange(0, KIND.WORD_TILE), tl.arange(0, KIND.TILE)
    is_word, exists = word < KIND.WORDS, moves < KIND.ACTIONS
    packed = tl.load(words + k * KIND.WORDS + word, mask=is_word)
    prior = tl.load(priors + k * KIND.ACTIONS + moves, mask=exists)
    tl.store(trees.words + row * KIND.WORDS + word, packed, mask=is_word)
    tl.store(trees.children + row * KIND.ACTIONS + moves, children, mask=exists)
    tl.store(trees.prior + row * KIND.ACTIONS + moves, prior, mask=exists)
    tl.store(trees.visits + row, 1)
    tl.store(trees.value_sum + row, value)
    tl.store(trees.square_sum + row, value * value)
    tl.store(trees.value + row, value)
    tl.store(trees.terminal + row, tl.load(finished + k))
    tl.store(trees.parent + row, parent)


@triton.jit
def _back_up(trees, path, depth, reached, value, score, KIND: tl.constexpr):
    """Adds a visit, the value, its square and the score to the nodes of a path, the last of them at `depth`; the sign
    changes at each step up from `reached`."""
    start = depth * 0
    while start <= depth:
        level = start + tl.arange(0, LEVELS)
        is_meant = level <= depth
        row = tl.load(path + level, mask=is_meant, other=0)
        is_mover = ((reached - level) & 1) == 0
        signed = tl.where(is_mover, value, -value)
        if KIND.SCORES:
            points = tl.load(trees.score_sum + row, mask=is_meant, other=0.0) + tl.where(is_mover, score, -score)
            tl.store(trees.score_sum + row, points, mask=is_meant)
        visits = tl.load(trees.visits + row, mask=is_meant, other=0)
        total = tl.load(trees.value_sum + row, mask=is_meant, other=0.0)
        squares = tl.load(trees.square_sum + row, mask=is_meant, other=0.0)
        tl.store(trees.visits + row, visits + 1, mask=is_meant)
        tl.store(trees.value_sum + row, total + signed, mask=is_meant)
        tl.store(trees.square_sum + row, squares + value * value, mask=is_meant)
        start += LEVELS


# Keep a subtree


def keep_subtree_(tree: Any, games: Tensor, actions: Tensor, deepest: Tensor | None = None) -> None:
    """Makes the child by each action the root of its tree, and keeps its subtree: games, actions int64 [K]. An action
    below 0 leaves the tree unchanged. deepest: int64 [B], which falls by one."""
    place = games.new_empty(len(games), tree.num_nodes)
    arguments = fields_of(Trees, tree), games, actions, place, deepest, tree.num_nodes
    launch(keep_kernel, len(games), *arguments, **kind_of(tree))


@triton.jit(do_not_specialize=["num_nodes"])
def keep_kernel(trees, games, actions, places, deepest, num_nodes, KIND: tl.constexpr):
    """Numbers the kept nodes of one game, and moves them."""
    k, game = tl.program_id(0).to(tl.int64), tl.load(games + tl.program_id(0)).to(tl.int64)
    first, action, place = game * num_nodes, tl.load(actions + k), places + k * num_nodes
    if action >= 0:
        size = tl.load(trees.size + game)
        new_root = tl.load(trees.children + (first + ROOT) * KIND.ACTIONS + action)
        if (new_root <= NULL_NODE) | (size == 0) | (tl.load(trees.terminal + first + tl.maximum(new_root, 0)) != 0):
            new_root = new_root * 0 + NULL_NODE
        kept = _number_kept(trees, first, place, size + ROOT, new_root)
        _move_all(trees, place, first, size + ROOT, KIND)
        tl.store(trees.size + game, kept)
        if deepest is not None:
            tl.store(deepest + game, tl.maximum(tl.load(deepest + game) - 1, 0))


@triton.jit
def _number_kept(trees, first, place, end, new_root):
    """Writes each node's new index, NULL_NODE if it is dropped, and returns how many are kept.

    A node is kept if its parent is, which comes before it. So LEVELS nodes at once are right after as many passes as
    the longest chain among them."""
    kept, start = end * 0, end * 0
    while start < end:
        node = start + tl.arange(0, LEVELS)
        is_node = (node >= ROOT) & (node < end)
        parent = tl.load(trees.parent + first + node, mask=is_node & (node > ROOT), other=0).to(tl.int64)
        is_root = is_node & (node == new_root) & (new_root > NULL_NODE)
        earlier = tl.load(place + parent, mask=is_node & (parent > NULL_NODE) & (parent < start), other=0)
        marked, changes = is_root | (earlier > NULL_NODE), end > 0
        while changes:
            inside = (parent >= start) & (parent > NULL_NODE) & is_node
            above = tl.gather(marked.to(tl.int32), tl.where(inside, parent - start, 0).to(tl.int32), 0)
            after = marked | (inside & (above != 0))
            changes = tl.max((after != marked).to(tl.int32), 0) != 0
            marked = after
        number = kept + tl.cumsum(marked.to(tl.int64), 0)
        tl.store(place + node, tl.where(marked, number, NULL_NODE), mask=node < end)
        kept += tl.sum(marked.to(tl.int64), 0)
        tl.debug_barrier()
        start += LEVELS
    return kept


@triton.jit
def _move_all(trees, place, first, end, KIND: tl.constexpr):
    """Moves the nodes of one game to their places and empties the rest. place: pointer to int64 [M], NULL_NODE for
    dropped nodes, else at most the node's own index, and rising. end: one after the last node.

    Several nodes move at once, from the root on, so that no node is overwritten before it has moved."""
    start, kept = first * 0 + ROOT, first * 0
    while start < end:
        node = start + tl.arange(0, ROWS)
        target = tl.load(place + node, mask=node < end, other=0)
        stays = target > NULL_NODE
        _move(trees, place, first + node, first + target, stays, KIND)
        kept += tl.sum(stays.to(tl.int64), 0)
        start += ROWS
    empty_nodes(trees, first, kept + ROOT, end, KIND)


@triton.jit
def empty_nodes(trees, first, start, end, KIND: tl.constexpr):
    """Empties the nodes from start to before end of one game, whose first node is `first`."""
    while start < end:
        node = start + tl.arange(0, LEVELS)
        tl.store(trees.visits + first + node, 0, mask=node < end)
        tl.store(trees.value_sum + first + node, 0.0, mask=node < end)
        tl.store(trees.square_sum + first + node, 0.0, mask=node < end)
        if KIND.SCORES:
            tl.store(trees.score_sum + first + node, 0.0, mask=node < end)
        tl.store(trees.terminal + first + node, node < 0, mask=node < end)
        start += LEVELS


@triton.jit
def _move(trees, place, row, target, stays, KIND: tl.constexpr):
    """Moves nodes, and replaces the indices of children and parents by their places. Everything is read before anything
    is written, as a row may be another's place."""
    moves, word = tl.arange(0, KIND.TILE)[None, :], tl.arange(0, KIND.WORD_TILE)[None, :]
    mask, has_word = stays[:, None] & (moves < KIND.ACTIONS), stays[:, None] & (word < KIND.WORDS)
    child = tl.load(trees.children + row[:, None] * KIND.ACTIONS + moves, mask=mask, other=0)
    is_node = child > NULL_NODE
    followed = tl.load(place + tl.maximum(child, 0), mask=mask & is_node, other=0)
    prior = tl.load(trees.prior + row[:, None] * KIND.ACTIONS + moves, mask=mask, other=0.0)
    packed = tl.load(trees.words + row[:, None] * KIND.WORDS + word, mask=has_word, other=0)
    fields = trees.visits, trees.value_sum, trees.square_sum, trees.value, trees.terminal, trees.action
    numbers = [tl.load(field + row, mask=stays) for field in fields]
    points = tl.load((trees.score_sum if KIND.SCORES else trees.value) + row, mask=stays)
    parent = tl.load(place + tl.load(trees.parent + row, mask=stays, other=0), mask=stays, other=0)
    tl.debug_barrier()
    child = tl.where(is_node, followed.to(tl.int32), child)
    tl.store(trees.children + target[:, None] * KIND.ACTIONS + moves, child, mask=mask)
    tl.store(trees.prior + target[:, None] * KIND.ACTIONS + moves, prior, mask=mask)
    tl.store(trees.words + target[:, None] * KIND.WORDS + word, packed, mask=has_word)
    for k in tl.static_range(6):
        tl.store(fields[k] + target, numbers[k], mask=stays)
    if KIND.SCORES:
        tl.store(trees.score_sum + target, points, mask=stays)
    tl.store(trees.parent + target, parent.to(tl.int32), mask=stays)
