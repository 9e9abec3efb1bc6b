"""Which move a simulation takes, at the roots and inside the trees, in view of those that are still under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from zerogo.flood import may_look
from zerogo.search import gumbel, puct
from zerogo.search.descent import Choice
from zerogo.search.games import of_lanes
from zerogo.search.search_state import SearchState
from zerogo.search.tree import ROOT, Nodes, Tree, look_at

if TYPE_CHECKING:
    from zerogo.config import SearchConfig


@dataclass(frozen=True)
class VirtualVisits:
    """The simulations of one step that were started and have no value yet, of all games. The tensors change in place.

    visits: int32 [B, M], how many go through each node, collisions too: virtual visits. started: int64 [B], how many
    count. by_move: int32 [B, A], those that count by their root move. collided: bool [B, A], root moves by which one
    came to a node that another is to make."""

    visits: Tensor
    started: Tensor
    by_move: Tensor
    collided: Tensor

    @staticmethod
    def of(search_state: SearchState) -> VirtualVisits:
        """Returns a step before its first simulation."""
        visits = search_state.tree.visits
        # NumPy's zeros cost nothing until they are touched, and a large tree is touched in a few places.
        empty = torch.from_numpy(np.zeros(visits.shape, np.int32)) if may_look(visits) else torch.zeros_like(visits)
        by_move = torch.zeros_like(search_state.kept_visits, dtype=torch.int32)
        return VirtualVisits(
            empty, torch.zeros_like(search_state.done), by_move, torch.zeros_like(by_move, dtype=torch.bool)
        )

    def note(self, lane: Tensor, move: Tensor, counts: Tensor, collides: Tensor) -> None:
        """Counts simulations by their root moves: lane, move int64 [K], counts, collides bool [K]."""
        place = (lane, move)
        self.started[lane] += counts.to(torch.int64)
        self.by_move.index_put_(place, counts.to(torch.int32), accumulate=True)
        self.collided.index_put_(place, self.collided[place] | collides)


def at_root(
    search_state: SearchState, lane: Tensor, settings: SearchConfig, virtual: VirtualVisits | None = None
) -> Choice:
    """Returns the moves to try at the roots of the games `lane` (int64 [K], ascending): int64 [K], and the roots'
    children int32 [K, A].
    """
    first = lane * search_state.tree.num_nodes
    under_way = None if virtual is None else virtual.visits
    nodes, children = look_at(
        search_state.tree, first + ROOT, first, of_lanes(search_state.root_prior, lane), under_way
    )
    if settings.algorithm == "puct":
        return puct.scores(nodes, settings, is_root=True).argmax(1), children
    return gumbels_root_move(nodes, search_state, lane, settings, virtual), children


def gumbels_root_move(
    nodes: Nodes, search_state: SearchState, lane: Tensor, settings: SearchConfig, virtual: VirtualVisits | None
) -> Tensor:
    """Returns the moves that sequential halving tries next at the roots: int64 [K]."""
    done, new_visits, collided = (
        of_lanes(search_state.done, lane),
        nodes.visits - of_lanes(search_state.kept_visits, lane),
        None,
    )
    if virtual is not None:
        done, new_visits = done + of_lanes(virtual.started, lane), new_visits + of_lanes(virtual.by_move, lane)
        collided = of_lanes(virtual.collided, lane)
    done = done.clamp(max=search_state.longest - 1)
    wanted = of_lanes(search_state.order, lane).gather(1, done.unsqueeze(1)).squeeze(1).to(torch.float32)
    return gumbel.root_scores(
        nodes, of_lanes(search_state.gumbel, lane), new_visits, wanted, settings, collided
    ).argmax(1)


def inside(
    tree: Tree, rows: Tensor, first: Tensor, settings: SearchConfig, virtual: VirtualVisits | None = None
) -> Choice:
    """The same inside the trees: rows, and first rows of the games, int64 [K]."""
    nodes, children = look_at(tree, rows, first, under_way=None if virtual is None else virtual.visits)
    if settings.algorithm == "puct":
        return puct.scores(nodes, settings, is_root=False).argmax(1), children
    return gumbel.interior_scores(nodes, settings).argmax(1), children
