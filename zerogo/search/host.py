"""The descents of `leaves` on the host, in NumPy, whose calls on a few hundred numbers cost a third of torch's.

They choose as `choice` does (a test holds them against each other): the same float32 operations in the same order. What NumPy would round
otherwise, sums and exponentials, is left to torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from zerogo.search import gumbel
from zerogo.search.choice import Flight, gumbels_root_move
from zerogo.search.descent import Descent
from zerogo.search.forest import Forest
from zerogo.search.tree import CLOSED, NOWHERE, ROOT, UNVISITED, Nodes

if TYPE_CHECKING:
    from torch import Tensor

    from zerogo.config import SearchConfig


class HostDescents:
    """The descents of one step in the games `lane` (int64 [n]): all fields are NumPy arrays, the trees' the forest's own memory.

    until: int64 [B], simulations that may be done after the step. tries: R, descents in each game at the most. path: int64 [R, n, D] rows,
    depth, action, serial: int64 [R, n], at_end, counts: bool [R, n], as in `Descent` and `leaves.Round`.
    """

    def __init__(self, forest: Forest, lane: Tensor, settings: SearchConfig, until: Tensor, tries: int) -> None:
        tree, shape = forest.tree, (tries, len(lane))
        self.forest, self.settings, self.flight = forest, settings, Flight.of(forest)
        self.children, self.prior = (tensor.flatten(0, 1).numpy() for tensor in (tree.children, tree.prior))
        flat = (tree.visits, tree.value_sum, tree.value, tree.terminal, self.flight.visits)
        self.visits, self.value_sum, self.own, self.terminal, self.under_way = (tensor.view(-1).numpy() for tensor in flat)
        self.game = lane.numpy()
        self.first = self.game * tree.num_nodes
        self.new = self.first + ROOT + tree.size.numpy()[self.game]  # the rows that the next nodes will have
        self.left = np.minimum((until - forest.done).numpy()[self.game], settings.leaves)
        self.root_prior = forest.root_prior.numpy()
        self.started, self.root_move = np.zeros((2, shape[1]), np.int64)
        self.path = np.empty((*shape, int(forest.deepest.max()) + 2), np.int64)
        self.path[:] = self.first[:, None]
        self.depth, self.action, self.serial = np.zeros((3, *shape), np.int64)
        self.at_end, self.counts = np.zeros((2, *shape), bool)

    def descend(self) -> int:
        """Makes the descents and leaves the trees as they were; returns how many collided."""
        collisions, marked = 0, []
        for tried in range(len(self.path)):
            going = np.flatnonzero(self.started < self.left)
            if len(going) == 0:
                break
            levels = self._go_down(tried, going)
            collisions += self._mark(tried, going, levels, marked)
        for owner, action, new in marked:
            self.children[owner, action] = UNVISITED
            self.terminal[new] = False
        return collisions

    def _go_down(self, tried: int, going: np.ndarray) -> int:
        """Sends one simulation into each of the lanes `going` (int64 [m]); returns how deep the deepest went."""
        path, depth, action, at_end = self.path[tried], self.depth[tried], self.action[tried], self.at_end[tried]
        lanes, rows, level = going, self.first[going] + ROOT, 0
        path[lanes, 0] = rows
        while True:
            chosen, child = self._choose(lanes, rows, is_root=level == 0)
            action[lanes] = chosen
            goes = child > NOWHERE
            if not goes.all():
                lanes, child = lanes[goes], child[goes]
                if len(lanes) == 0:
                    return level
            level += 1
            rows = self.first[lanes] + child
            path[lanes, level], depth[lanes] = rows, level
            is_end = self.terminal[rows]
            if is_end.any():
                at_end[lanes[is_end]] = True
                lanes, rows = lanes[~is_end], rows[~is_end]
                if len(lanes) == 0:
                    return level

    def _mark(self, tried: int, going: np.ndarray, levels: int, marked: list[tuple[np.ndarray, ...]]) -> int:
        """Leaves virtual visits and the nodes to be made behind, adds what must be undone; returns how many collided."""
        path, action, at_end = self.path[tried, going], self.action[tried, going], self.at_end[tried, going]
        last = path[np.arange(len(going)), self.depth[tried, going]]
        counts = ~(at_end & (last >= self.new[going]))
        self.counts[tried, going], self.serial[tried] = counts, self.started
        makes = np.flatnonzero(~at_end)
        owner, move, new = last[makes], action[makes], (self.new + self.started)[going[makes]]
        self.children[owner, move] = new - self.first[going[makes]]
        self.terminal[new] = True
        marked.append((owner, move, new))
        self.under_way[path[:, : levels + 1]] += 1  # a path has every row once, but for nowhere
        self.under_way[new] += 1
        self.under_way[self.first] = 0
        self.started[going] += counts
        if self.settings.algorithm == "gumbel":
            self.flight.note(*(torch.from_numpy(part) for part in (self.game[going], self.root_move[going], counts, ~counts)))
        return len(going) - int(counts.sum())

    def _choose(self, lanes: np.ndarray, rows: np.ndarray, is_root: bool) -> tuple[np.ndarray, np.ndarray]:
        """Returns the chosen moves and the children there: int64 [m], int32 [m]."""
        children = self.children.take(rows, axis=0)
        child = np.maximum(children, NOWHERE) + self.first[lanes][:, None]
        prior = self.root_prior.take(self.game[lanes], axis=0) if is_root else self.prior.take(rows, axis=0)
        visits, under_way = self.visits.take(child), self.under_way.take(child)
        number = visits.astype(np.float32)
        value = self.value_sum.take(child) / -np.maximum(number, 1)
        total = self.visits.take(rows).astype(np.float32)
        mean = self.value_sum.take(rows) / np.maximum(total, 1)
        if self.settings.algorithm == "gumbel":
            own, is_open = self.own.take(rows), children != CLOSED
            fields = (prior, number, value, is_open, total, mean, own, under_way.astype(np.float32))
            chosen = self._gumbels_moves(Nodes(*(torch.from_numpy(field) for field in fields)), lanes, is_root)
        else:
            below = np.maximum(total - 1, 0) + self.under_way.take(rows)
            score = self._puct_scores(prior, number, value, mean, below.astype(np.float32), visits + under_way, is_root)
            score[children == CLOSED] = -np.inf
            chosen = score.argmax(1)
        if is_root:
            self.root_move[lanes] = chosen
        return chosen, children[np.arange(len(rows)), chosen]

    def _puct_scores(
        self, prior: np.ndarray, visits: np.ndarray, value: np.ndarray, mean: np.ndarray, below: np.ndarray, all_visits: np.ndarray,
        is_root: bool,
    ) -> np.ndarray:
        """`puct.scores` before closed moves are left out: float32 [m, A]. below: float32 [m], visits of the children, those of simulations
        under way too, all_visits: int32 [m, A], the same one by one."""
        settings = self.settings
        reduction = settings.fpu_reduction_root if is_root else settings.fpu_reduction
        urgency, is_visited = mean, visits > 0
        if reduction:
            visited_mass = torch.from_numpy(prior * np.minimum(visits, 1)).sum(1).numpy()
            urgency = urgency - reduction * np.sqrt(visited_mass)
        c_puct: float | np.ndarray = settings.c_puct
        if settings.c_puct_log:
            c_puct = (c_puct + settings.c_puct_log * torch.log1p(torch.from_numpy(below) / settings.c_puct_base)).numpy()
        explore = (c_puct * np.sqrt(below + np.float32(0.01)))[:, None] * prior
        explore /= all_visits.astype(np.float32) + 1
        score = np.where(is_visited, value, urgency[:, None])
        score += explore
        if is_root and settings.forced_playouts:
            owed = np.sqrt(settings.forced_playouts * prior * below[:, None])
            score[is_visited & (all_visits < owed)] = 1e6
        return score

    def _gumbels_moves(self, nodes: Nodes, lanes: np.ndarray, is_root: bool) -> np.ndarray:
        if is_root:
            lane = torch.from_numpy(self.game[lanes])
            return gumbels_root_move(nodes, self.forest, lane, self.settings, self.flight).numpy()
        return gumbel.interior_scores(nodes, self.settings).argmax(1).numpy()

    def result(self) -> tuple[Descent, Tensor, Tensor, Tensor]:
        """Returns where the simulations that count go, their slots in rising order, their games, and serial numbers: int64 [S]."""
        tried, lane = np.nonzero(self.counts)
        slots = self.serial[tried, lane] * self.forest.num_games + self.game[lane]
        order = slots.argsort()
        tried, lane, levels = tried[order], lane[order], int(self.depth.max()) + 1
        fields = (self.path[:, :, :levels], self.depth, self.action, self.at_end)
        way = Descent(*(torch.from_numpy(field[tried, lane]) for field in fields))
        return way, *(torch.from_numpy(field) for field in (slots[order], self.game[lane], self.serial[tried, lane]))
