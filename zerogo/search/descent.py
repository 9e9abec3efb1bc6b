"""From the root down to a move that has no node yet, in all trees at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo.flood import may_look
from zerogo.search.tree import NULL_NODE, ROOT, Tree

# What a choice gives for K nodes: the moves int64 [K], and the nodes' children int32 [K, A].
Choice = tuple[Tensor, Tensor]
# Chooses inside the tree: rows of the nodes int64 [K], first rows of their games int64 [K].
Choose = Callable[[Tensor, Tensor], Choice]


@dataclass(frozen=True)
class Selection:
    """Where K simulations go.

    path: int64 [K, D], rows from the root on, nowhere behind the end. depth: int64 [K], index of the last node on it.
    action: int64 [K], the move to be tried there. at_end: bool [K], the last node is a finished position and there is
    no move."""

    path: Tensor
    depth: Tensor
    action: Tensor
    at_end: Tensor

    @property
    def last(self) -> Tensor:
        """int64 [K], the rows of the last nodes."""
        return self.path.gather(1, self.depth.unsqueeze(1)).squeeze(1)


def select(tree: Tree, first: Tensor, at_root: Choice, choose: Choose, deepest: int) -> Selection:
    """Returns where the simulations go.

    first: int64 [K], the games' first rows. at_root: what was chosen at the roots. deepest: no node lies deeper; needed
    where the host may not look."""
    if may_look(first):
        return _descend_looking(tree, first, at_root, choose)
    return _descend_bounded(tree, first, at_root, choose, deepest)


def _descend_looking(tree: Tree, first: Tensor, at_root: Choice, choose: Choose) -> Selection:
    """The host looks which lanes still descend and drops the others, so that the work shrinks with them."""
    action, children = at_root
    depth, at_end = torch.zeros_like(first), torch.zeros_like(first, dtype=torch.bool)
    below, chosen, levels = torch.arange(len(first)), action.clone(), [first + ROOT]
    action = action.clone()
    while True:
        child = children.gather(1, chosen.unsqueeze(1)).squeeze(1)
        goes = (child > NULL_NODE).nonzero().squeeze(1)
        if goes.numel() == 0:
            break
        below, child = below[goes], child[goes]
        rows = first[below] + child
        depth[below] = len(levels)
        levels.append(first.index_put((below,), rows))
        is_end = tree.at("terminal", rows)
        if bool(is_end.any()):
            at_end[below] = is_end
            goes = (~is_end).nonzero().squeeze(1)
            below, rows = below[goes], rows[goes]
            if goes.numel() == 0:
                break
        chosen, children = choose(rows, first[below])
        action[below] = chosen
    return Selection(torch.stack(levels, dim=1), depth, action, at_end)


def _descend_bounded(tree: Tree, first: Tensor, at_root: Choice, choose: Choose, deepest: int) -> Selection:
    """The same without a look: every lane goes through all levels, and stays where it is once it has arrived."""
    action, children = at_root
    rows, depth = first + ROOT, torch.zeros_like(first)
    at_end, moving = torch.zeros_like(first, dtype=torch.bool), torch.ones_like(first, dtype=torch.bool)
    chosen, levels = action, [rows]
    for _ in range(deepest):
        child = children.gather(1, chosen.unsqueeze(1)).squeeze(1)
        moving = moving & (child > NULL_NODE)
        rows = torch.where(moving, first + child, rows)
        levels.append(torch.where(moving, rows, first))
        depth = depth + moving.to(torch.int64)
        at_end = at_end | (moving & tree.at("terminal", rows))
        moving = moving & ~at_end
        chosen, children = choose(rows, first)
        action = torch.where(moving, chosen, action)
    return Selection(torch.stack(levels, dim=1), depth, action, at_end)
