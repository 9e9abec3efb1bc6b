"""The trees of all games in one set of tensors, the state of their searches, and what happens between moves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.kernels.shared import ILLEGAL, NULL_NODE, ROOT
from zerogo.system.tensors import TensorFields


@dataclass(frozen=True)
class Tree(TensorFields):
    """One tree per game. Node 1 is the root, and a node's index is above its parent's. Node 0 (NULL_NODE) is a dummy
    that takes writes without effect, so that no game has to be left out of an operation. Its visits and sums stay 0.

    words: int32 [B, M, W], the packed position. children: int32 [B, M, A], a node's index, UNVISITED (0, which is also
    NULL_NODE) or ILLEGAL (-1). prior: float32 [B, M, A]. visits: int32 [B, M], 1 for the evaluation that made the node,
    and 1 for each later simulation through it. value_sum, square_sum: float32 [B, M], the sums of the values of these
    visits, and of their squares. value: float32 [B, M], the node's own evaluation. score_sum: float32 [B, M], the sum
    of scores in points; None in a search without scores. All of these take the view of the side to move at the node.
    terminal: bool [B, M]. parent: int32 [B, M]. action: int32 [B, M], the move that led to the node. size: int64 [B],
    nodes in use, from the root on.

    A `row` (int64) names a node of a game in the flattened tensors: game * M + node."""

    words: Tensor
    children: Tensor
    prior: Tensor
    visits: Tensor
    value_sum: Tensor
    square_sum: Tensor
    value: Tensor
    terminal: Tensor
    parent: Tensor
    action: Tensor
    size: Tensor
    score_sum: Tensor | None = None

    @staticmethod
    def empty(
        num_games: int, num_nodes: int, num_actions: int, num_words: int, device: torch.device, scores: bool = False
    ) -> Tree:
        """Returns trees without nodes, with room for `num_nodes` each, NULL_NODE included. scores: with `score_sum`."""

        def _nodes(dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.zeros((num_games, num_nodes, *shape), dtype=dtype, device=device)

        moves = _nodes(torch.int32, num_words), _nodes(torch.int32, num_actions), _nodes(torch.float32, num_actions)
        ints = {name: _nodes(torch.int32) for name in ("visits", "parent", "action")}
        floats = {name: _nodes(torch.float32) for name in ("value_sum", "square_sum", "value")}
        size = torch.zeros(num_games, dtype=torch.int64, device=device)
        score_sum = _nodes(torch.float32) if scores else None
        return Tree(*moves, terminal=_nodes(torch.bool), size=size, score_sum=score_sum, **ints, **floats)

    @property
    def num_nodes(self) -> int:
        """M."""
        return self.visits.shape[1]

    @property
    def of_nodes(self) -> dict[str, Tensor]:
        """The fields with one entry per node, by name."""
        return {name: tensor for name, tensor in vars(self).items() if name != "size" and tensor is not None}

    @property
    def bytes_per_node(self) -> int:
        """The bytes of one node in all tensors."""
        return sum(tensor[0, 0].numel() * tensor.element_size() for tensor in self.of_nodes.values())

    @property
    def in_use(self) -> Tensor:
        """bool [B, M]: the nodes that exist, and NULL_NODE."""
        return torch.arange(self.num_nodes, device=self.size.device) - ROOT < self.size.unsqueeze(1)

    def at(self, name: str, rows: Tensor) -> Tensor:
        """Returns a field of some nodes: rows int64 [K] -> [K, ...]."""
        return getattr(self, name).flatten(0, 1).index_select(0, rows)


@dataclass
class SearchState:
    """The trees of B games with what each search needs besides its tree. The tensors change in place.

    states: the root states. budget, done: int64 [B], simulations that the current move gets, and has had (kept visits
    do not count). root_prior: float32 [B, A], with noise if the search explores; the tree keeps the prior without
    noise. forced: float32 [B], k of forced playouts, 0 if the search does not explore. gumbel: float32 [B, A], 0
    without noise. kept_visits: float32 [B, A], visits of the root's children before this search. With Gumbel,
    target_visits: int32 [B, max_budget]; entry s: the new visits that a root move has where simulation s tries it;
    phase_end: int32 [B, max_budget]; entry s: how many simulations may be done after its step (`gumbel.phase_ends`).
    keys: int64 [B], the current move's key for random symmetries. deepest: int64 [B], a bound of the depth of the
    tree's nodes, the root being 0. depth_bound: the same for all trees, on the host. overflowed: int64 [], kept trees
    dropped because the nodes of their next search would not have fitted. exact_leaves: int64 [2], simulations that
    did not use the network: in a finished position, and with a move that repeats one, which is then ILLEGAL.
    collisions: int64 [], simulations dropped because they reached a node that another one of their step was about to
    make. repeated_states: the root states once for each of a step's `leaves` simulations, [leaves * B]; None if they
    must be made anew. graph: the step as a CUDA graph (`search.graph.StepGraph`) or None; a copy has none."""

    states: Any
    tree: Tree
    budget: Tensor
    done: Tensor
    root_prior: Tensor
    forced: Tensor
    gumbel: Tensor
    kept_visits: Tensor
    target_visits: Tensor
    phase_end: Tensor
    keys: Tensor
    deepest: Tensor
    depth_bound: int
    overflowed: Tensor
    exact_leaves: Tensor
    collisions: Tensor
    repeated_states: Any = None
    graph: Any = field(default=None, init=False)

    @staticmethod
    def of(states: Any, tree: Tree, num_actions: int, max_budget: int) -> SearchState:
        """Returns a search state of empty trees. max_budget: the largest budget that a move may get."""
        num_games = tree.size.shape[0]

        def _zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=tree.size.device)

        by_game = {name: _zeros(num_games) for name in ("budget", "done", "keys", "deepest")}
        by_game["forced"] = _zeros(num_games, dtype=torch.float32)
        by_move = ("root_prior", "gumbel", "kept_visits")
        by_move = {name: _zeros(num_games, num_actions, dtype=torch.float32) for name in by_move}
        by_simulation = {
            name: _zeros(num_games, max_budget, dtype=torch.int32) for name in ("target_visits", "phase_end")
        }
        counts = {"overflowed": _zeros(), "exact_leaves": _zeros(2), "collisions": _zeros()}
        return SearchState(states, tree, **by_game, **by_move, **by_simulation, **counts, depth_bound=0)

    @property
    def num_games(self) -> int:
        """B."""
        return self.budget.shape[0]

    @property
    def max_budget(self) -> int:
        """The largest budget that a move may get."""
        return self.target_visits.shape[1]

    def states_of_slots(self, num_slots: int) -> Any:
        """Returns the root states once for each slot of a step: [num_slots * B, …]."""
        if num_slots == 1:
            return self.states
        if self.repeated_states is None:
            self.repeated_states = self.states.cat([self.states] * num_slots)
        return self.repeated_states

    @property
    def unspent(self) -> Tensor:
        """bool [B]: the games whose current search is not done."""
        return self.done < self.budget


@dataclass(frozen=True)
class Nodes:
    """The numbers by which a move is chosen at K nodes; float32 unless said otherwise.

    prior: [K, A]. visits: [K, A], of the children, 0 where unvisited. value: [K, A], the children's mean value from the
    node's view, 0 where unvisited. squares: [K, A], the sums of their squared values. is_open: bool [K, A], which moves
    may be chosen. total: [K], the node's visits. mean: [K], its mean value. total_squares: [K], the sum of its squared
    values. node_value: [K], its own evaluation. under_way: [K, A], simulations of this step through the children that
    have no value yet; None for none."""

    prior: Tensor
    visits: Tensor
    value: Tensor
    squares: Tensor
    is_open: Tensor
    total: Tensor
    mean: Tensor
    total_squares: Tensor
    node_value: Tensor
    under_way: Tensor | None = None


def nodes_at(
    tree: Tree, rows: Tensor, first: Tensor, prior: Tensor | None = None, under_way: Tensor | None = None
) -> tuple[Nodes, Tensor]:
    """Returns the numbers of some nodes, and their children: Nodes, int32 [K, A].

    rows: int64 [K]. first: int64 [K], the first rows of their games. prior: float32 [K, A], in place of the nodes' own.
    under_way: int32 [B, M], simulations through each node that have no value yet."""
    children = tree.at("children", rows)
    child = (children.clamp(min=NULL_NODE) + first.unsqueeze(1)).view(-1)
    # NULL_NODE has no visits and no sums, so no mask is needed.
    visits = tree.at("visits", child).view_as(children).to(torch.float32)
    value = tree.at("value_sum", child).view_as(children) / -visits.clamp(min=1.0)
    squares = tree.at("square_sum", child).view_as(children)
    total = tree.at("visits", rows).to(torch.float32)
    mean = tree.at("value_sum", rows) / total.clamp(min=1.0)
    prior = tree.at("prior", rows) if prior is None else prior
    if under_way is not None:
        under_way = under_way.view(-1).index_select(0, child).view_as(children).to(torch.float32)
    sums = (total, mean, tree.at("square_sum", rows), tree.at("value", rows))
    return Nodes(prior, visits, value, squares, children != ILLEGAL, *sums, under_way), children


def mean_scores(tree: Tree, rows: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the mean scores in points at some nodes and after each of their moves, 0 where unvisited, both from the
    nodes' view: float32 [K] and [K, A]; arguments as `nodes_at`."""
    children = tree.at("children", rows)
    child = (children.clamp(min=NULL_NODE) + first.unsqueeze(1)).view(-1)
    at_nodes, after = (tree.at("score_sum", at) / tree.at("visits", at).clamp(min=1) for at in (rows, child))
    return at_nodes, -after.view_as(children)


def backup(tree: Tree, path: Tensor, depth: Tensor, value: Tensor, score: Tensor | None = None) -> None:
    """Adds one visit, the value, its square and, where the tree keeps scores, the score to every node of the paths.

    This is the only place where a simulation's value changes its sign on the way up (kernels do so in
    `expand_and_backup`). `nodes_at` turns a child's mean to its parent's view for the choice.

    path: int64 [K, D], rows from the root on, then rows of NULL_NODE. depth: int64 [K], index of the last node. value,
    score: float32 [K], the result of the simulation for the side to move at the last node; the sign changes at each
    step up."""
    step = depth.unsqueeze(1) - torch.arange(path.shape[1], device=path.device)
    value, index = value.unsqueeze(1), path.reshape(-1)
    signed = torch.where((step & 1) == 0, value, -value)
    if tree.score_sum is not None:
        points = torch.where((step & 1) == 0, score.unsqueeze(1), -score.unsqueeze(1))
        tree.score_sum.view(-1).scatter_add_(0, index, points.view(-1))
        tree.score_sum[:, NULL_NODE] = 0
    tree.value_sum.view(-1).scatter_add_(0, index, signed.view(-1))
    tree.square_sum.view(-1).scatter_add_(0, index, (signed * signed).view(-1))
    tree.visits.view(-1).scatter_add_(0, index, torch.ones_like(index, dtype=torch.int32))
    for total in (tree.value_sum, tree.square_sum, tree.visits):
        total[:, NULL_NODE] = 0


def reset_(tree: Tree, game_index: Tensor, deepest: Tensor | None = None, stays: Tensor | None = None) -> None:
    """Empties the trees of some games, int64 [K], except those that stay, bool [K]. deepest: int64 [B], set to 0."""
    for values in (tree.size, tree.visits, tree.value_sum, tree.square_sum, tree.score_sum, tree.terminal, deepest):
        if values is None:
            continue
        if stays is None:  # `values[game_index] = 0` would copy the number to a GPU, and wait
            values.index_fill_(0, game_index, 0)
        else:
            rows = values.index_select(0, game_index)
            rows.masked_fill_(~stays if values.ndim == 1 else ~stays.unsqueeze(1), 0)
            values.index_copy_(0, game_index, rows)


def keep_subtree_(tree: Tree, game_index: Tensor, actions: Tensor, deepest: Tensor) -> None:
    """Makes the child by each action the root of its tree, and keeps its subtree: game_index, actions int64 [K].

    If there is no such node, or the game is over there, the tree is empty afterwards. Except on the CPU, an action
    below 0 leaves the tree unchanged. Nodes keep their order, so a node's index stays above its parent's. deepest:
    int64 [B], a bound of the nodes' depth, which falls by one."""
    if (fast := kernels.module_for("tree", game_index.device)) is not None:
        fast.keep_subtree_(tree, game_index, actions, deepest)
        return
    deepest[game_index] = (deepest[game_index] - (actions >= 0).to(torch.int64)).clamp(min=0)
    new_root = tree.children[game_index, ROOT, actions.clamp(min=0)].to(torch.int64).clamp(min=NULL_NODE)
    new_root = torch.where(actions < 0, ROOT, new_root)
    exists = (new_root != NULL_NODE) & (tree.size[game_index] > 0)
    exists = exists & ((actions < 0) | ~tree.terminal[game_index, new_root])
    node = torch.arange(tree.num_nodes, device=game_index.device).expand(len(game_index), -1)
    in_use = (node >= ROOT) & (node < ROOT + tree.size[game_index].unsqueeze(1))
    kept = _is_below(tree.parent[game_index], new_root) & in_use & exists.unsqueeze(1)
    place = torch.where(kept, kept.cumsum(1), NULL_NODE)
    _move_nodes(tree, game_index, place)
    tree.size[game_index] = kept.sum(1)


def _is_below(parent: Tensor, new_root: Tensor) -> Tensor:
    """Returns which nodes are the new root or below it: parent int32 [K, M], new_root int64 [K] -> bool [K, M].

    Each node's ancestor pointer jumps to its ancestor's ancestor, so log2(M) rounds reach the new root or NULL_NODE."""
    num_nodes = parent.shape[1]
    node = torch.arange(num_nodes, device=parent.device).expand_as(parent)
    ancestor = torch.where(node == new_root.unsqueeze(1), node, parent.to(torch.int64))
    ancestor[:, NULL_NODE] = NULL_NODE  # which holds writes without effect
    for _ in range(max(1, math.ceil(math.log2(num_nodes)))):
        ancestor = ancestor.gather(1, ancestor)
    return ancestor == new_root.unsqueeze(1)


def _move_nodes(tree: Tree, game_index: Tensor, place: Tensor) -> None:
    """Moves the nodes of some games to their place, int64 [K, M], and drops the nodes whose place is NULL_NODE. The
    host reads how many are kept, which is allowed between moves, since most of a tree is dropped."""
    game, node = (place != NULL_NODE).nonzero().unbind(1)
    first, base = game_index[game] * tree.num_nodes, game * tree.num_nodes
    rows, targets, places = first + node, first + place[game, node], place.view(-1)
    moved = {name: tree.at(name, rows) for name in tree.of_nodes}
    children = moved["children"]
    child = (children.clamp(min=NULL_NODE) + base.unsqueeze(1)).view(-1)
    followed = places.index_select(0, child).view_as(children).to(torch.int32)
    moved["children"] = torch.where(children == ILLEGAL, ILLEGAL, followed)
    moved["parent"] = places[base + moved["parent"]].to(torch.int32)
    reset_(tree, game_index)
    for name, values in moved.items():
        getattr(tree, name).flatten(0, 1).index_put_((targets,), values)
