"""Where the simulations of a step go, one in every game or several.

With several the network's batch is filled by few games. The descents of a step then go one after another, in all games together. Each
leaves virtual visits behind, so that the next one looks elsewhere, and marks the node that it is going to make as an end. A later one that
gets there has collided: it has nothing to add and is dropped, without cost to the budget, though its virtual visits stay until the step is
over, and a few descents more are made in place of such ones. Afterwards the trees are what they were, and all leaves go on together as if
each were of a game of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.search import choice
from zerogo.search.choice import Flight
from zerogo.search.descent import Descent, descend
from zerogo.search.forest import Forest
from zerogo.search.tree import NOWHERE, ROOT, UNVISITED, Tree

if TYPE_CHECKING:
    from zerogo.config import SearchConfig


@dataclass(frozen=True)
class Round:
    """One descent in each of B games. serial: int64 [B], how many of the game's were started before in this step. counts: bool [B], started
    and not dropped. marked: int64 [B], the row of the node to be made, nowhere where there is none."""

    way: Descent
    serial: Tensor
    counts: Tensor
    marked: Tensor


def descend_in_slots(forest: Forest, settings: SearchConfig) -> tuple[Descent, Tensor]:
    """Returns where up to `leaves` simulations go in every game: slot * B + game, and which slots are in use, bool [leaves * B].

    A game's first slots are used before its others; what an unused one holds has no meaning.
    """
    compiled = kernels.compiled("tree", forest.budget.device)
    if compiled is not None:
        path, depth, action, at_end, counts = compiled.descend(forest, settings)
        return Descent(path, depth, action, at_end), counts
    lane = torch.arange(forest.num_games, device=forest.budget.device)
    return (_one_each if settings.leaves == 1 else _several)(forest, lane, settings)


def _one_each(forest: Forest, lane: Tensor, settings: SearchConfig) -> tuple[Descent, Tensor]:
    tree, first = forest.tree, lane * forest.tree.num_nodes
    at_root = choice.at_root(forest, lane, settings)
    way = descend(tree, first, at_root, lambda *nodes: choice.inside(tree, *nodes, settings), forest.depth_bound)
    return way, forest.unspent


def _several(forest: Forest, lane: Tensor, settings: SearchConfig) -> tuple[Descent, Tensor]:
    flight, until = Flight.of(forest), most_done(forest, settings)
    rounds = []
    for _ in range(tries(settings.leaves)):
        going = (forest.done + flight.started < until) & (flight.started < settings.leaves)
        rounds.append(_one_round(forest, flight, lane, going, settings))
    first = lane * forest.tree.num_nodes
    for done in rounds:
        _unmark(forest.tree, first, done)
    return _in_slots(forest, lane, rounds, settings.leaves)


def tries(leaves: int) -> int:
    """Returns how many descents a step may make: half as many again as it has leaves, in place of those that collide."""
    return leaves + leaves // 2


def most_done(forest: Forest, settings: SearchConfig) -> Tensor:
    """Returns how many simulations may be done after the step: int64 [B], the budget, with Gumbel not beyond the present phase: which moves
    are dropped then is not decided while simulations are under way."""
    if settings.algorithm == "puct":
        return forest.budget
    now = forest.done.clamp(max=forest.longest - 1).unsqueeze(1)
    return torch.minimum(forest.budget, forest.phase_end.gather(1, now).squeeze(1).to(torch.int64))


def _one_round(forest: Forest, flight: Flight, lane: Tensor, going: Tensor, settings: SearchConfig) -> Round:
    """Sends one more simulation into all games; where it is not going (bool [B]) it leaves no trace."""
    tree, first = forest.tree, lane * forest.tree.num_nodes
    at_root = choice.at_root(forest, lane, settings, flight)
    # The nodes to be made lie one deeper than those that there are.
    way = descend(tree, first, at_root, lambda *nodes: choice.inside(tree, *nodes, settings, flight), forest.depth_bound + 1)
    last, serial = way.last, flight.started.clone()
    collides = going & way.at_end & (last - first >= ROOT + tree.size)
    counts = going & ~collides
    makes = counts & ~way.at_end
    marked = torch.where(makes, first + ROOT + tree.size + serial, first)
    owner = torch.where(makes, last, first)
    tree.children.flatten(0, 1).index_put_((owner, way.action), (marked - first).to(torch.int32))
    tree.terminal.view(-1).index_put_((marked,), makes)
    path = torch.cat([torch.where(going.unsqueeze(1), way.path, first.unsqueeze(1)), marked.unsqueeze(1)], dim=1).view(-1)
    flight.visits.view(-1).scatter_add_(0, path, torch.ones_like(path, dtype=torch.int32))
    flight.visits[:, NOWHERE] = 0
    flight.note(lane, at_root[0], counts, collides)
    forest.collisions += collides.sum()
    return Round(way, serial, counts, marked)


def _unmark(tree: Tree, first: Tensor, done: Round) -> None:
    """Makes the trees what they were before the round."""
    owner = torch.where(done.marked == first, first, done.way.last)
    tree.children.flatten(0, 1).index_put_((owner, done.way.action), torch.full_like(owner, UNVISITED, dtype=torch.int32))
    tree.terminal.view(-1).index_put_((done.marked,), torch.zeros_like(done.counts))


def _in_slots(forest: Forest, lane: Tensor, rounds: list[Round], slots: int) -> tuple[Descent, Tensor]:
    """Returns the simulations that count in the slots of their serial numbers; in other slots is the first round's, which does not."""
    counts, serial = (torch.cat([getattr(done, name) for done in rounds]) for name in ("counts", "serial"))
    number, levels = slots * forest.num_games, max(done.way.path.shape[1] for done in rounds)
    place = torch.where(counts, serial * forest.num_games + lane.repeat(len(rounds)), number)  # the last, which is cut off, is for others
    nowhere = (lane * forest.tree.num_nodes).unsqueeze(1)

    def all_of(name: str) -> list[Tensor]:
        found = [getattr(done.way, name) for done in rounds]
        return [torch.cat([path, nowhere.expand(-1, levels - path.shape[1])], dim=1) for path in found] if name == "path" else found

    def placed(name: str) -> Tensor:
        every = all_of(name)
        first = every[0]
        return torch.cat([first.repeat(slots, *[1] * (first.ndim - 1)), first[:1]]).index_put((place,), torch.cat(every))[:number]

    way = Descent(*(placed(field.name) for field in fields(Descent)))
    is_used = torch.zeros(number + 1, dtype=torch.bool, device=lane.device).index_put((place,), torch.ones_like(counts))[:number]
    return way, is_used
