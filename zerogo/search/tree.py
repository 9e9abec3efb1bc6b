"""The trees of all games in one set of tensors, and what happens to them between moves."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.kernels.shared import CLOSED, NULL_NODE, ROOT, UNVISITED

__all__ = [
    "CLOSED", "NULL_NODE", "ROOT", "UNVISITED", "Nodes", "Tree", "backup", "keep_subtree_", "look_at", "reset_",
]  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """One tree a game; node 1 is the root, and a node's index is above its parent's. Node 0 is nowhere: what must have
    no effect is written there, so that no game has to be left out of an operation, and children without a node point to
    it; its visits and its sum stay 0.

    words: int32 [B, M, W], the packed position. children: int32 [B, M, A], node index, or UNVISITED, or CLOSED. prior:
    float32 [B, M, A]. visits: int32 [B, M], the node's own evaluation and all simulations through it. value_sum:
    float32 [B, M], their values, and value: float32 [B, M], its own evaluation, all from the view of the side to move
    at the node. terminal: bool [B, M]. parent: int32 [B, M]. action: int32 [B, M], the move that led to the node. size:
    int64 [B], nodes in use, from the root on.

    A `row` (int64) names a node of a game in the flattened tensors: game * M + node.
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
        """Returns trees without nodes, with room for `num_nodes` each, one of them nowhere."""

        def nodes(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros((num_games, num_nodes, *shape), dtype=dtype, device=device)

        return Tree(
            words=nodes(num_words, dtype=torch.int32),
            children=nodes(num_actions, dtype=torch.int32),
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

    def at(self, field: str, rows: Tensor) -> Tensor:
        """Returns a field of some nodes: rows int64 [K] -> [K, ...]."""
        return getattr(self, field).flatten(0, 1).index_select(0, rows)


@dataclass(frozen=True)
class Nodes:
    """What a choice among the moves of K nodes needs; float32 unless said otherwise.

    prior: [K, A]. visits: [K, A] of the children, 0 where unvisited. value: [K, A], the children's mean value from the
    node's view, 0 where unvisited. is_open: bool [K, A], may be chosen. total: [K], the node's visits. mean: [K], its
    mean value. own: [K], its own evaluation. under_way: [K, A], simulations of this step through the children that have
    no value yet; None is none."""

    prior: Tensor
    visits: Tensor
    value: Tensor
    is_open: Tensor
    total: Tensor
    mean: Tensor
    own: Tensor
    under_way: Tensor | None = None


def look_at(
    tree: Tree, rows: Tensor, first: Tensor, prior: Tensor | None = None, under_way: Tensor | None = None
) -> tuple[Nodes, Tensor]:
    """Returns what the choice at nodes needs, and their children: Nodes, int32 [K, A].

    rows: int64 [K]. first: int64 [K], the first rows of their games. prior: float32 [K, A], stands in for the nodes'
    own. under_way: int32 [B, M], simulations through each node that have no value yet."""
    children = tree.at("children", rows)
    child = (children.clamp(min=NULL_NODE) + first.unsqueeze(1)).view(-1)
    # Nowhere has no visits and no sum, so nothing needs to be masked.
    visits = tree.at("visits", child).view_as(children).to(torch.float32)
    value = tree.at("value_sum", child).view_as(children) / -visits.clamp(min=1.0)
    total = tree.at("visits", rows).to(torch.float32)
    mean = tree.at("value_sum", rows) / total.clamp(min=1.0)
    prior = tree.at("prior", rows) if prior is None else prior
    if under_way is not None:
        under_way = under_way.view(-1).index_select(0, child).view_as(children).to(torch.float32)
    return Nodes(prior, visits, value, children != CLOSED, total, mean, tree.at("value", rows), under_way), children


def backup(tree: Tree, path: Tensor, depth: Tensor, value: Tensor) -> None:
    """Adds one visit and the value to every node of the paths; the only place where a value changes its perspective.

    path: int64 [K, D], rows from the root on, nowhere behind the end. depth: int64 [K], index of the last node. value:
    float32 [K], the result of the simulation for the side to move at the last node; each step up it is the opponent's.
    """
    step = depth.unsqueeze(1) - torch.arange(path.shape[1], device=path.device)
    value = value.unsqueeze(1)
    signed = torch.where((step & 1) == 0, value, -value)
    index = path.reshape(-1)
    tree.value_sum.view(-1).scatter_add_(0, index, signed.view(-1))
    tree.visits.view(-1).scatter_add_(0, index, torch.ones_like(index, dtype=torch.int32))
    tree.value_sum[:, NULL_NODE] = 0.0
    tree.visits[:, NULL_NODE] = 0


def reset_(tree: Tree, lane: Tensor) -> None:
    """Empties the trees of some games: int64 [K]."""
    tree.size[lane] = 0
    tree.visits[lane] = 0
    tree.value_sum[lane] = 0.0
    tree.terminal[lane] = False


def keep_subtree_(tree: Tree, lane: Tensor, actions: Tensor) -> None:
    """Makes the child by each action the root of its tree, with all below it: lane, actions int64 [K].

    Where there was no such node, or the game was over there, the tree is empty afterwards. Nodes keep their order, so a
    node's index stays above its parent's."""
    compiled = kernels.compiled("tree", lane.device)
    if hasattr(compiled, "keep_subtree_"):
        compiled.keep_subtree_(tree, lane, actions)
        return
    num_nodes = tree.num_nodes
    new_root = tree.children[lane, ROOT, actions].to(torch.int64).clamp(min=NULL_NODE)
    exists = (new_root != NULL_NODE) & (tree.size[lane] > 0) & ~tree.terminal[lane, new_root]
    index = torch.arange(num_nodes, device=lane.device).expand(len(lane), -1)
    ancestor = torch.where(index == new_root.unsqueeze(1), index, tree.parent[lane].to(torch.int64))
    ancestor[:, NULL_NODE] = NULL_NODE  # what was written there has no meaning
    for _ in range(max(1, math.ceil(math.log2(num_nodes)))):
        ancestor = ancestor.gather(1, ancestor)
    in_use = (index >= ROOT) & (index < ROOT + tree.size[lane].unsqueeze(1))
    kept = (ancestor == new_root.unsqueeze(1)) & in_use & exists.unsqueeze(1)
    place = torch.where(kept, kept.cumsum(1), NULL_NODE)
    _move_nodes(tree, lane, kept, place)
    tree.size[lane] = kept.sum(1)


def _move_nodes(tree: Tree, lane: Tensor, kept: Tensor, place: Tensor) -> None:
    """Empties the trees of some games but for the nodes kept (bool [K, M]), which go to their `place` (int64 [K, M],
    NULL_NODE for others).

    Without a kernel it reads how many they are: it is between moves, and most of a tree is dropped.
    """
    compiled = kernels.compiled("tree", lane.device)
    if hasattr(compiled, "move_nodes_"):
        compiled.move_nodes_(tree, lane, place)
        return
    game, node = kept.nonzero().unbind(1)
    first, base = lane[game] * tree.num_nodes, game * tree.num_nodes
    rows, targets, places = first + node, first + place[game, node], place.view(-1)
    moved = {field.name: tree.at(field.name, rows) for field in dataclasses.fields(tree) if field.name != "size"}
    children = moved["children"]
    followed = (
        places.index_select(0, (children.clamp(min=NULL_NODE) + base.unsqueeze(1)).view(-1))
        .view_as(children)
        .to(torch.int32)
    )
    moved["children"] = torch.where(children == CLOSED, CLOSED, followed)
    moved["parent"] = places[base + moved["parent"]].to(torch.int32)
    reset_(tree, lane)
    for name, values in moved.items():
        getattr(tree, name).flatten(0, 1).index_put_((targets,), values)
