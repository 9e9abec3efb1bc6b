"""A search in progress: the trees of B games, whose move each of them is thinking about, and how much of its budget is
spent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from zerogo.search.tree import Tree


@dataclass
class SearchState:
    """The trees of B games with what each search needs beside its tree. The tensors change in place.

    states: the root states. budget, done: int64 [B], simulations that the present move gets, and has had (kept visits
    do not count). root_prior: float32 [B, A], with noise where the search explores; the tree itself keeps the prior
    without. gumbel: float32 [B, A], 0 without noise. kept_visits: float32 [B, A], visits of the root's children from
    before. order: int32 [B, n], how many new visits the move to be tried has, by simulation, and phase_end: int32 [B,
    n], how many are done when its phase is over (Gumbel). keys: int64 [B], the present move's key for random
    symmetries. deepest: int64 [B], no node of the tree lies deeper, the root being 0. depth_bound: the same for all
    trees, on the host. overflowed: int64 [], kept trees dropped because their next search's nodes would not have
    fitted. exact_leaves: int64 [2], simulations that ended in a finished position, and in a closed move, without an
    evaluation of the network. collisions: int64 [], simulations that were dropped because they came to a node that
    another of their step was about to make. slots: the root states once for each simulation of a step, slot by slot;
    None where they must be made anew. graph: the step as a CUDA graph (`search.graph.StepGraph`), None where there is
    none."""

    states: Any
    tree: Tree
    budget: Tensor
    done: Tensor
    root_prior: Tensor
    gumbel: Tensor
    kept_visits: Tensor
    order: Tensor
    phase_end: Tensor
    keys: Tensor
    deepest: Tensor
    depth_bound: int
    overflowed: Tensor
    exact_leaves: Tensor
    collisions: Tensor
    slots: Any = None
    graph: Any = field(
        default=None, init=False
    )  # a copy of the search state has none: it would hold the tree of this one

    @staticmethod
    def of(states: Any, tree: Tree, num_actions: int, longest: int) -> SearchState:
        """Returns a search state of empty trees: longest is the largest budget that a move may get."""
        num_games, device = tree.size.shape[0], tree.size.device
        whole = {"dtype": torch.int64, "device": device}
        numbers = {"dtype": torch.float32, "device": device}
        return SearchState(
            states=states,
            tree=tree,
            budget=torch.zeros(num_games, **whole),
            done=torch.zeros(num_games, **whole),
            root_prior=torch.zeros(num_games, num_actions, **numbers),
            gumbel=torch.zeros(num_games, num_actions, **numbers),
            kept_visits=torch.zeros(num_games, num_actions, **numbers),
            order=torch.zeros(num_games, longest, dtype=torch.int32, device=device),
            phase_end=torch.zeros(num_games, longest, dtype=torch.int32, device=device),
            keys=torch.zeros(num_games, **whole),
            deepest=torch.zeros(num_games, **whole),
            depth_bound=0,
            overflowed=torch.zeros((), **whole),
            exact_leaves=torch.zeros(2, **whole),
            collisions=torch.zeros((), **whole),
        )

    @property
    def num_games(self) -> int:
        return self.budget.shape[0]

    @property
    def longest(self) -> int:
        """The largest budget that a move may get."""
        return self.order.shape[1]

    @property
    def unspent(self) -> Tensor:
        """bool [B]: the games whose present search goes on."""
        return self.done < self.budget
