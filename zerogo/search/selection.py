"""Select: from the roots down to moves that have no node yet, one simulation in every game or several.

With several (`search.leaves`) the network's batch is filled by few games. The selections of a step then go one after
another, in all games together. Each leaves virtual visits behind, so that the next one looks elsewhere, and marks the
node that it is going to make as an end. A later one that gets there has collided: it has nothing to add and is dropped,
without cost to the budget, though its virtual visits stay until the step is over, and a few selections more are made in
place of such ones. Afterwards the trees are what they were, and all leaves go on together as if each were of a game of
its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.config import SearchConfig
from zerogo.flood import may_look
from zerogo.kernels.shared import NULL_NODE, ROOT, UNVISITED
from zerogo.search import gumbel, puct
from zerogo.search.tree import Nodes, SearchState, Tree, nodes_at
from zerogo.tensors import TensorFields


@dataclass(frozen=True)
class Selection(TensorFields):
    """Where K simulations go. `select` gives K = num_slots * B of them, number slot * B + game.

    path: int64 [K, D], rows from the root on, without meaning behind the end. depth: int64 [K], index of the last node
    on it. action: int64 [K], the move to be tried there. at_end: bool [K], the last node is a finished position and
    there is no move. counts: bool [K], which slots are used, a game's first ones before its others; what the others
    hold has no meaning, but names nodes of their game and a move. index: int64 [K], ascending, the simulations'
    numbers."""

    path: Tensor
    depth: Tensor
    action: Tensor
    at_end: Tensor
    counts: Tensor
    index: Tensor
    num_slots: int = 1

    @property
    def last(self) -> Tensor:
        """int64 [K], the rows of the last nodes."""
        return self.path.gather(1, self.depth.unsqueeze(1)).squeeze(1)

    def games(self, num_games: int) -> Tensor:
        """Returns whose simulations they are: int64 [K]."""
        return self.index if self.num_slots == 1 else self.index % num_games


def select(search_state: SearchState, settings: SearchConfig) -> Selection:
    """Returns where up to `settings.leaves` simulations go in every game whose budget is not spent."""
    compiled = kernels.compiled("selection", search_state.budget.device)
    if compiled is not None:
        index = torch.arange(settings.leaves * search_state.num_games, device=search_state.budget.device)
        return Selection(*compiled.select(search_state, settings), index, settings.leaves)
    return _select_one(search_state, settings)[0] if settings.leaves == 1 else _select_several(search_state, settings)


def _select_one(
    search_state: SearchState, settings: SearchConfig, virtual: VirtualVisits | None = None
) -> tuple[Selection, Tensor]:
    """Returns one selection in every game, and the moves chosen at the roots: int64 [B].

    All go through as many levels as the deepest node has, and stay where they are once they have arrived."""
    tree, games = search_state.tree, torch.arange(search_state.num_games, device=search_state.budget.device)
    first = games * tree.num_nodes
    root_move, children = _choose_at_roots(search_state, first, settings, virtual)
    rows, depth, action, chosen = first + ROOT, torch.zeros_like(first), root_move, root_move
    at_end, moving = torch.zeros_like(first, dtype=torch.bool), torch.ones_like(first, dtype=torch.bool)
    levels = [rows]
    for _ in range(search_state.depth_bound + (virtual is not None)):  # nodes to be made lie one deeper
        child = children.gather(1, chosen.unsqueeze(1)).squeeze(1)
        moving = moving & (child > NULL_NODE)
        if may_look(moving) and not bool(moving.any()):
            break
        rows = torch.where(moving, first + child, rows)
        levels.append(torch.where(moving, rows, first))
        depth = depth + moving.to(torch.int64)
        at_end = at_end | (moving & tree.at("terminal", rows))
        moving = moving & ~at_end
        chosen, children = _choose_inside(tree, rows, first, settings, virtual)
        action = torch.where(moving, chosen, action)
    path = torch.stack(levels, dim=1)
    return Selection(path, depth, action, at_end, search_state.unspent, games), root_move


# The moves that are chosen


def _choose_at_roots(
    search_state: SearchState, first: Tensor, settings: SearchConfig, virtual: VirtualVisits | None
) -> tuple[Tensor, Tensor]:
    """Returns the moves to try at the roots, int64 [B], and the roots' children, int32 [B, A]."""
    under_way = None if virtual is None else virtual.visits
    nodes, children = nodes_at(search_state.tree, first + ROOT, first, search_state.root_prior, under_way)
    if settings.algorithm == "puct":
        return puct.scores(nodes, settings, is_root=True).argmax(1), children
    return _halving_scores(nodes, search_state, settings, virtual).argmax(1), children


def _halving_scores(
    nodes: Nodes, search_state: SearchState, settings: SearchConfig, virtual: VirtualVisits | None
) -> Tensor:
    """Returns by what sequential halving chooses at the roots: float32 [B, A]."""
    done, new_visits, collided = search_state.done, nodes.visits - search_state.kept_visits, None
    if virtual is not None:
        done, new_visits, collided = done + virtual.started, new_visits + virtual.by_move, virtual.collided
    now = done.clamp(max=search_state.longest - 1).unsqueeze(1)
    wanted = search_state.order.gather(1, now).squeeze(1).to(torch.float32)
    return gumbel.root_scores(nodes, search_state.gumbel, new_visits, wanted, settings, collided)


def _choose_inside(
    tree: Tree, rows: Tensor, first: Tensor, settings: SearchConfig, virtual: VirtualVisits | None
) -> tuple[Tensor, Tensor]:
    """Returns the moves to try at nodes inside the trees, and their children: int64 [K], int32 [K, A]."""
    nodes, children = nodes_at(tree, rows, first, under_way=None if virtual is None else virtual.visits)
    if settings.algorithm == "puct":
        return puct.scores(nodes, settings, is_root=False).argmax(1), children
    return gumbel.interior_scores(nodes, settings).argmax(1), children


# Several simulations of one tree


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
        by_move = torch.zeros_like(search_state.kept_visits, dtype=torch.int32)
        collided = torch.zeros_like(by_move, dtype=torch.bool)
        return VirtualVisits(torch.zeros_like(visits), torch.zeros_like(search_state.done), by_move, collided)


@dataclass(frozen=True)
class Round:
    """One selection in each of B games. serial: int64 [B], how many of the game's were started before in this step.
    marked: int64 [B], the row of the node to be made, that of NULL_NODE where there is none."""

    selection: Selection
    serial: Tensor
    marked: Tensor


def tries(leaves: int) -> int:
    """Returns how many selections a step may make: half as many again as leaves, in place of those that collide."""
    return leaves + leaves // 2


def _most_done(search_state: SearchState, settings: SearchConfig) -> Tensor:
    """Returns how many simulations may be done after the step: int64 [B], the budget, with Gumbel not beyond the
    present phase: which moves are dropped then is not decided while simulations are under way."""
    if settings.algorithm == "puct":
        return search_state.budget
    now = search_state.done.clamp(max=search_state.longest - 1).unsqueeze(1)
    return torch.minimum(search_state.budget, search_state.phase_end.gather(1, now).squeeze(1).to(torch.int64))


def _select_several(search_state: SearchState, settings: SearchConfig) -> Selection:
    virtual, until = VirtualVisits.of(search_state), _most_done(search_state, settings)
    rounds = []
    for _ in range(tries(settings.leaves)):
        going = (search_state.done + virtual.started < until) & (virtual.started < settings.leaves)
        rounds.append(_select_next(search_state, settings, virtual, going))
    for made in rounds:
        _unmark(search_state.tree, made)
    return _in_slots(search_state.tree, rounds, virtual.started, settings.leaves)


def _select_next(search_state: SearchState, settings: SearchConfig, virtual: VirtualVisits, going: Tensor) -> Round:
    """Sends one more simulation into all games; where it is not going (bool [B]) it leaves no trace."""
    tree = search_state.tree
    selection, root_move = _select_one(search_state, settings, virtual)
    last, serial = selection.last, virtual.started.clone()
    first = torch.arange(search_state.num_games, device=last.device) * tree.num_nodes
    collides = going & selection.at_end & (last - first >= ROOT + tree.size)
    counts = going & ~collides
    makes = counts & ~selection.at_end
    marked = torch.where(makes, first + ROOT + tree.size + serial, first)
    owner = torch.where(makes, last, first)
    tree.children.flatten(0, 1).index_put_((owner, selection.action), (marked - first).to(torch.int32))
    tree.terminal.view(-1).index_put_((marked,), makes)
    path = torch.where(going.unsqueeze(1), selection.path, first.unsqueeze(1))
    path = torch.cat([path, marked.unsqueeze(1)], dim=1).view(-1)
    virtual.visits.view(-1).scatter_add_(0, path, torch.ones_like(path, dtype=torch.int32))
    virtual.visits[:, NULL_NODE] = 0
    move = root_move.unsqueeze(1)
    virtual.started.add_(counts)
    virtual.by_move.scatter_add_(1, move, counts.unsqueeze(1).to(torch.int32))
    virtual.collided.scatter_(1, move, virtual.collided.gather(1, move) | collides.unsqueeze(1))
    search_state.collisions += collides.sum()
    return Round(replace(selection, counts=counts), serial, marked)


def _unmark(tree: Tree, made: Round) -> None:
    """Makes the trees what they were before the round."""
    selection, first = made.selection, torch.arange(len(made.marked), device=made.marked.device) * tree.num_nodes
    owner = torch.where(made.marked == first, first, selection.last)
    unvisited = torch.full_like(owner, UNVISITED, dtype=torch.int32)
    tree.children.flatten(0, 1).index_put_((owner, selection.action), unvisited)
    tree.terminal.view(-1).index_put_((made.marked,), torch.zeros_like(selection.at_end))


def _in_slots(tree: Tree, rounds: list[Round], started: Tensor, leaves: int) -> Selection:
    """Returns the simulations that count in the slots of their serial numbers; unused slots hold the first round's."""
    num_games = len(started)
    game, number = torch.arange(num_games, device=started.device), leaves * num_games
    levels = max(made.selection.path.shape[1] for made in rounds)
    filler = (game * tree.num_nodes).unsqueeze(1).expand(-1, levels)
    paths = [made.selection.path for made in rounds]
    paths = [torch.cat([path, filler[:, path.shape[1] :]], dim=1) for path in paths]
    every = Selection.cat([replace(made.selection, path=path) for made, path in zip(rounds, paths, strict=True)])
    slot = torch.cat([made.serial * num_games + game for made in rounds])
    slot = torch.where(every.counts, slot, number)  # the last, which is cut off, is for those that do not count
    source = game.repeat(leaves + 1).index_put((slot,), torch.arange(len(slot), device=game.device))[:number]
    serial = torch.arange(leaves, device=game.device).unsqueeze(1)
    counts, index = (serial < started).view(-1), torch.arange(number, device=game.device)
    return replace(every.select(source), counts=counts, index=index, num_slots=leaves)
