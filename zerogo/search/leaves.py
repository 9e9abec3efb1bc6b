"""Where the simulations of a step go, one in every game or several.

With several the network's batch is filled by few games. The selections of a step then go one after another, in all
games together. Each leaves virtual visits behind, so that the next one looks elsewhere, and marks the node that it is
going to make as an end. A later one that gets there has collided: it has nothing to add and is dropped, without cost to
the budget, though its virtual visits stay until the step is over, and a few selections more are made in place of such
ones. Afterwards the trees are what they were, and all leaves go on together as if each were of a game of its own."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.search import choice
from zerogo.search.choice import VirtualVisits
from zerogo.search.descent import Selection, select
from zerogo.search.search_state import SearchState
from zerogo.search.tree import NULL_NODE, ROOT, UNVISITED, Tree

if TYPE_CHECKING:
    from zerogo.config import SearchConfig


@dataclass(frozen=True)
class Round:
    """One selection in each of B games. serial: int64 [B], how many of the game's were started before in this step.
    counts: bool [B], started and not dropped. marked: int64 [B], the row of the node to be made, nowhere where there is
    none."""

    way: Selection
    serial: Tensor
    counts: Tensor
    marked: Tensor


def select_leaves(search_state: SearchState, settings: SearchConfig) -> tuple[Selection, Tensor]:
    """Returns where up to `leaves` simulations go in every game: slot * B + game, and which slots are in use, bool
    [leaves * B].

    A game's first slots are used before its others; what an unused one holds has no meaning.
    """
    compiled = kernels.compiled("tree", search_state.budget.device)
    if compiled is not None:
        path, depth, action, at_end, counts = compiled.select(search_state, settings)
        return Selection(path, depth, action, at_end), counts
    lane = torch.arange(search_state.num_games, device=search_state.budget.device)
    return (_one_each if settings.leaves == 1 else _several)(search_state, lane, settings)


def _one_each(search_state: SearchState, lane: Tensor, settings: SearchConfig) -> tuple[Selection, Tensor]:
    tree, first = search_state.tree, lane * search_state.tree.num_nodes
    at_root = choice.at_root(search_state, lane, settings)
    way = select(tree, first, at_root, lambda *nodes: choice.inside(tree, *nodes, settings), search_state.depth_bound)
    return way, search_state.unspent


def _several(search_state: SearchState, lane: Tensor, settings: SearchConfig) -> tuple[Selection, Tensor]:
    virtual, until = VirtualVisits.of(search_state), most_done(search_state, settings)
    rounds = []
    for _ in range(tries(settings.leaves)):
        going = (search_state.done + virtual.started < until) & (virtual.started < settings.leaves)
        rounds.append(_one_round(search_state, virtual, lane, going, settings))
    first = lane * search_state.tree.num_nodes
    for done in rounds:
        _unmark(search_state.tree, first, done)
    return _in_slots(search_state, lane, rounds, settings.leaves)


def tries(leaves: int) -> int:
    """Returns how many selections a step may make: half as many again as it has leaves, in place of those that
    collide.
    """
    return leaves + leaves // 2


def most_done(search_state: SearchState, settings: SearchConfig) -> Tensor:
    """Returns how many simulations may be done after the step: int64 [B], the budget, with Gumbel not beyond the
    present phase: which moves are dropped then is not decided while simulations are under way."""
    if settings.algorithm == "puct":
        return search_state.budget
    now = search_state.done.clamp(max=search_state.longest - 1).unsqueeze(1)
    return torch.minimum(search_state.budget, search_state.phase_end.gather(1, now).squeeze(1).to(torch.int64))


def _one_round(
    search_state: SearchState, virtual: VirtualVisits, lane: Tensor, going: Tensor, settings: SearchConfig
) -> Round:
    """Sends one more simulation into all games; where it is not going (bool [B]) it leaves no trace."""
    tree, first = search_state.tree, lane * search_state.tree.num_nodes
    at_root = choice.at_root(search_state, lane, settings, virtual)
    # The nodes to be made lie one deeper than those that there are.
    way = select(
        tree,
        first,
        at_root,
        lambda *nodes: choice.inside(tree, *nodes, settings, virtual),
        search_state.depth_bound + 1,
    )
    last, serial = way.last, virtual.started.clone()
    collides = going & way.at_end & (last - first >= ROOT + tree.size)
    counts = going & ~collides
    makes = counts & ~way.at_end
    marked = torch.where(makes, first + ROOT + tree.size + serial, first)
    owner = torch.where(makes, last, first)
    tree.children.flatten(0, 1).index_put_((owner, way.action), (marked - first).to(torch.int32))
    tree.terminal.view(-1).index_put_((marked,), makes)
    path = torch.cat([torch.where(going.unsqueeze(1), way.path, first.unsqueeze(1)), marked.unsqueeze(1)], dim=1).view(
        -1
    )
    virtual.visits.view(-1).scatter_add_(0, path, torch.ones_like(path, dtype=torch.int32))
    virtual.visits[:, NULL_NODE] = 0
    virtual.note(lane, at_root[0], counts, collides)
    search_state.collisions += collides.sum()
    return Round(way, serial, counts, marked)


def _unmark(tree: Tree, first: Tensor, done: Round) -> None:
    """Makes the trees what they were before the round."""
    owner = torch.where(done.marked == first, first, done.way.last)
    tree.children.flatten(0, 1).index_put_(
        (owner, done.way.action), torch.full_like(owner, UNVISITED, dtype=torch.int32)
    )
    tree.terminal.view(-1).index_put_((done.marked,), torch.zeros_like(done.counts))


def _in_slots(search_state: SearchState, lane: Tensor, rounds: list[Round], slots: int) -> tuple[Selection, Tensor]:
    """Returns the simulations that count in the slots of their serial numbers; in other slots is the first round's,
    which does not.
    """
    counts, serial = (torch.cat([getattr(done, name) for done in rounds]) for name in ("counts", "serial"))
    number, levels = slots * search_state.num_games, max(done.way.path.shape[1] for done in rounds)
    place = torch.where(
        counts, serial * search_state.num_games + lane.repeat(len(rounds)), number
    )  # the last, which is cut off, is for others
    nowhere = (lane * search_state.tree.num_nodes).unsqueeze(1)

    def all_of(name: str) -> list[Tensor]:
        found = [getattr(done.way, name) for done in rounds]
        return (
            [torch.cat([path, nowhere.expand(-1, levels - path.shape[1])], dim=1) for path in found]
            if name == "path"
            else found
        )

    def placed(name: str) -> Tensor:
        every = all_of(name)
        first = every[0]
        return torch.cat([first.repeat(slots, *[1] * (first.ndim - 1)), first[:1]]).index_put(
            (place,), torch.cat(every)
        )[:number]

    way = Selection(*(placed(field.name) for field in fields(Selection)))
    is_used = torch.zeros(number + 1, dtype=torch.bool, device=lane.device).index_put(
        (place,), torch.ones_like(counts)
    )[:number]
    return way, is_used
