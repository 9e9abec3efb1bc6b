"""The trees of all games in one set of tensors, and what happens to them between moves."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

UNVISITED, CLOSED = -1, -2  # a child that has no node yet; a move that is illegal, or was found to repeat a position


@dataclass(frozen=True)
class Tree:
    """One tree a game; node 0 is the root, and a node's index is above its parent's. The last of the M nodes is scratch: what must go
    nowhere is written there, so that no game has to be left out of an operation.

    words: int32 [B, M, W], the packed position. children: int32 [B, M, A], node index, or UNVISITED, or CLOSED. prior: float32 [B, M, A].
    visits: int32 [B, M], the node's own evaluation and all simulations through it. value_sum: float32 [B, M], their values, and value:
    float32 [B, M], its own evaluation, all from the view of the side to move at the node. terminal: bool [B, M]. parent: int32 [B, M].
    action: int32 [B, M], the move that led to the node. size: int64 [B], nodes in use.
    """

    words: Tensor
    children: Tensor
    prior: Tensor
    visits: Tensor
    value_sum: Tensor
    value: Tensor
    terminal: Tensor
    parent: Tensor
    action: Tensor
    size: Tensor

    @staticmethod
    def empty(num_games: int, num_nodes: int, num_actions: int, num_words: int, device: torch.device) -> Tree:
        """Returns trees without nodes, with room for `num_nodes` each, one of them the scratch node."""

        def nodes(*shape: int, dtype: torch.dtype, fill: float = 0) -> Tensor:
            return torch.full((num_games, num_nodes, *shape), fill, dtype=dtype, device=device)

        return Tree(
            words=nodes(num_words, dtype=torch.int32),
            children=nodes(num_actions, dtype=torch.int32, fill=CLOSED),
            prior=nodes(num_actions, dtype=torch.float32),
            visits=nodes(dtype=torch.int32),
            value_sum=nodes(dtype=torch.float32),
            value=nodes(dtype=torch.float32),
            terminal=nodes(dtype=torch.bool),
            parent=nodes(dtype=torch.int32),
            action=nodes(dtype=torch.int32),
            size=torch.zeros(num_games, dtype=torch.int64, device=device),
        )

    @property
    def num_nodes(self) -> int:
        """M."""
        return self.visits.shape[1]

    @property
    def bytes_per_node(self) -> int:
        """What one node costs in memory, all told."""
        fields = (getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "size")
        return sum(tensor[0, 0].numel() * tensor.element_size() for tensor in fields)


@dataclass(frozen=True)
class Nodes:
    """What a choice among the moves of K nodes needs; float32 unless said otherwise.

    prior: [K, A]. visits: [K, A] of the children, 0 where unvisited. value: [K, A], the children's mean value from the node's view, 0 where
    unvisited. is_open: bool [K, A], may be chosen. total: [K], the node's visits. mean: [K], its mean value. own: [K], its own evaluation.
    """

    prior: Tensor
    visits: Tensor
    value: Tensor
    is_open: Tensor
    total: Tensor
    mean: Tensor
    own: Tensor


def look_at(tree: Tree, lane: Tensor, node: Tensor, prior: Tensor | None = None) -> tuple[Nodes, Tensor]:
    """Returns what the choice at nodes needs, and their children: lane, node int64 [K] -> Nodes, int32 [K, A]. prior [K, A] stands in."""
    first = lane * tree.num_nodes
    row = first + node
    num_actions = tree.children.shape[2]
    children = tree.children.view(-1, num_actions)[row]
    prior = tree.prior.view(-1, num_actions)[row] if prior is None else prior
    is_visited = children >= 0
    child = torch.where(is_visited, children, tree.num_nodes - 1) + first.unsqueeze(1)
    visits = torch.where(is_visited, tree.visits.view(-1).take(child), 0).to(torch.float32)
    value = torch.where(is_visited, -tree.value_sum.view(-1).take(child) / visits.clamp(min=1), 0.0)
    total = tree.visits.view(-1)[row].to(torch.float32)
    mean = tree.value_sum.view(-1)[row] / total.clamp(min=1)
    return Nodes(prior, visits, value, children != CLOSED, total, mean, tree.value.view(-1)[row]), children


def backup(tree: Tree, lane: Tensor, path: Tensor, depth: Tensor, value: Tensor) -> None:
    """Adds one visit and the value to every node of the paths; the only place where a value changes its perspective.

    lane: int64 [K]. path: int64 [K, D], node indices, root first, scratch behind the end. depth: int64 [K], index of the last node.
    value: float32 [K], the result of the simulation for the side to move at the last node; each step up it is the opponent's.
    """
    step = depth.unsqueeze(1) - torch.arange(path.shape[1], device=path.device)
    signed = torch.where((step & 1) == 0, value.unsqueeze(1), -value.unsqueeze(1))
    index = (lane.unsqueeze(1) * tree.num_nodes + path).view(-1)
    tree.value_sum.view(-1).scatter_add_(0, index, signed.reshape(-1))
    tree.visits.view(-1).scatter_add_(0, index, torch.ones_like(index, dtype=torch.int32))


def reset_(tree: Tree, lane: Tensor) -> None:
    """Empties the trees of some games: int64 [K]."""
    tree.size[lane] = 0
    tree.visits[lane] = 0
    tree.value_sum[lane] = 0.0
    tree.terminal[lane] = False


def keep_subtree_(tree: Tree, lane: Tensor, actions: Tensor, room: int) -> Tensor:
    """Makes the child by each action the root of its tree, with all below it: lane, actions int64 [K], room: nodes that must stay free.

    Where there was no such node, or the game was over there, the tree is empty afterwards; also where too little room would be left, and
    bool [K] says which those were. Nodes keep their order, so a node's index stays above its parent's.
    """
    num_nodes = tree.num_nodes
    new_root = tree.children[lane, 0, actions].to(torch.int64)
    exists = (new_root > 0) & ~tree.terminal[lane, new_root.clamp(min=0)]
    index = torch.arange(num_nodes, device=lane.device).expand(len(lane), -1)
    is_root = index == new_root.unsqueeze(1)
    ancestor = torch.where(is_root, index, tree.parent[lane].to(torch.int64))
    for _ in range(max(1, math.ceil(math.log2(num_nodes)))):
        ancestor = ancestor.gather(1, ancestor)
    in_use = index < tree.size[lane].unsqueeze(1)
    kept = (ancestor == new_root.unsqueeze(1)) & in_use & exists.unsqueeze(1)
    number = kept.sum(1)
    fits = number + room < num_nodes
    kept &= fits.unsqueeze(1)
    place = torch.where(kept, kept.cumsum(1) - 1, num_nodes - 1)
    source = torch.full_like(place, num_nodes - 1).scatter_(1, place, index)
    _move_nodes(tree, lane, source, place, kept)
    tree.size[lane] = torch.where(exists & fits, number, 0)
    return exists & ~fits


def _move_nodes(tree: Tree, lane: Tensor, source: Tensor, place: Tensor, kept: Tensor) -> None:
    """Rewrites the trees of some games: node i comes from `source` [K, M]; references follow `place` [K, M]; what is not kept is emptied."""
    scratch = tree.num_nodes - 1
    row = lane.unsqueeze(1) * tree.num_nodes + source
    is_used = torch.arange(tree.num_nodes, device=lane.device) < kept.sum(1, keepdim=True)
    for field in dataclasses.fields(tree):
        tensor = getattr(tree, field.name)
        if field.name in ("size", "children", "parent"):
            continue
        moved = tensor.flatten(0, 1)[row]
        if field.name in ("visits", "value_sum", "terminal"):
            moved = torch.where(is_used, moved, torch.zeros_like(moved))
        tensor[lane] = moved
    children = tree.children.flatten(0, 1)[row]
    moved = place.gather(1, children.clamp(min=0).to(torch.int64).flatten(1)).view_as(children).to(torch.int32)
    tree.children[lane] = torch.where(children >= 0, moved, children)
    parent = tree.parent.flatten(0, 1)[row].to(torch.int64)
    moved = place.gather(1, parent)
    is_root = torch.arange(tree.num_nodes, device=lane.device) == 0
    tree.parent[lane] = torch.where(is_root | (moved == scratch), 0, moved).to(torch.int32)
