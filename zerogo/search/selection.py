"""Select: from the roots down to moves that have no node yet, one simulation in every game or several.

With several (`search.leaves`) even a few games fill the network's batch. The selections of a step then run one after
another, each in all games. Each adds virtual visits, so that the next one looks elsewhere, and marks the node that it
is going to make as terminal. A later selection that reaches a marked node collides: it costs no budget, and its virtual
visits stay until the step ends. A step makes up to half as many extra selections to replace collisions. Afterwards the
trees are as before, and all leaves are evaluated together, as if each belonged to another game."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.board.flood import host_read_is_free
from zerogo.config import SearchConfig
from zerogo.kernels.shared import NULL_NODE, ROOT, UNVISITED, tries
from zerogo.search import gumbel, puct
from zerogo.search.tree import SearchState, Tree, nodes_at
from zerogo.system.tensors import TensorFields


@dataclass(frozen=True)
class Selection(TensorFields):
    """The paths of K simulations. `select` returns K = num_slots * B of them, number slot * B + game.

    path: int64 [K, D], rows from the root on, undefined beyond the end. depth: int64 [K], index of the last node on it.
    action: int64 [K], the move to try there. is_terminal: bool [K], the last node is a finished position without a
    move. is_used: bool [K], whether a slot is used, the first ones of a game. Unused slots hold valid rows and moves of
    their game, so that indexing is safe. index: int64 [K], ascending, the simulations' numbers."""

    path: Tensor
    depth: Tensor
    action: Tensor
    is_terminal: Tensor
    is_used: Tensor
    index: Tensor
    num_slots: int = 1

    @property
    def last(self) -> Tensor:
        """int64 [K], the rows of the last nodes."""
        return self.path.gather(1, self.depth.unsqueeze(1)).squeeze(1)

    def games(self, num_games: int) -> Tensor:
        """Returns the games of the simulations: int64 [K]."""
        return self.index if self.num_slots == 1 else self.index % num_games


def select(search_state: SearchState, settings: SearchConfig) -> Selection:
    """Returns up to `settings.leaves` simulations in every game whose budget is not spent."""
    fast = kernels.module_for("tree", search_state.budget.device)
    if fast is not None:
        index = torch.arange(settings.leaves * search_state.num_games, device=search_state.budget.device)
        return Selection(*fast.select(search_state, settings), index=index, num_slots=settings.leaves)
    return _select_one(search_state, settings)[0] if settings.leaves == 1 else _select_several(search_state, settings)


def _select_one(
    search_state: SearchState, settings: SearchConfig, virtual: VirtualVisits | None = None
) -> tuple[Selection, Tensor]:
    """Returns one selection in every game, and the moves chosen at the roots: int64 [B].

    All descend as many levels as the deepest tree has; a simulation that has arrived stays where it is."""
    tree, games = search_state.tree, torch.arange(search_state.num_games, device=search_state.budget.device)
    first = games * tree.num_nodes
    root_move, children = _choose_at_roots(search_state, first, settings, virtual)
    rows, depth, action, chosen = first + ROOT, torch.zeros_like(first), root_move, root_move
    is_terminal, moving = torch.zeros_like(first, dtype=torch.bool), torch.ones_like(first, dtype=torch.bool)
    levels, under_way = [rows], None if virtual is None else virtual.visits
    scores = puct.scores if settings.algorithm == "puct" else gumbel.interior_scores
    for _ in range(search_state.depth_bound + (virtual is not None)):  # marked nodes lie one deeper
        child = children.gather(1, chosen.unsqueeze(1)).squeeze(1)
        moving = moving & (child > NULL_NODE)
        if host_read_is_free(moving) and not bool(moving.any()):
            break
        rows = torch.where(moving, first + child, rows)
        levels.append(torch.where(moving, rows, first))
        depth = depth + moving.to(torch.int64)
        is_terminal = is_terminal | (moving & tree.at("terminal", rows))
        moving = moving & ~is_terminal
        nodes, children = nodes_at(tree, rows, first, under_way=under_way)
        chosen = scores(nodes, settings).argmax(1)
        action = torch.where(moving, chosen, action)
    path = torch.stack(levels, dim=1)
    return Selection(path, depth, action, is_terminal, search_state.unspent, games), root_move


def _choose_at_roots(
    search_state: SearchState, first: Tensor, settings: SearchConfig, virtual: VirtualVisits | None
) -> tuple[Tensor, Tensor]:
    """Returns the moves to try at the roots, int64 [B], and the roots' children, int32 [B, A]."""
    under_way = None if virtual is None else virtual.visits
    nodes, children = nodes_at(search_state.tree, first + ROOT, first, search_state.root_prior, under_way)
    if settings.algorithm == "puct":
        return puct.scores(nodes, settings, search_state.forced).argmax(1), children
    done, new_visits, collided = search_state.done, nodes.visits - search_state.kept_visits, None
    if virtual is not None:
        done, new_visits, collided = done + virtual.started, new_visits + virtual.by_move, virtual.collided
    now = done.clamp(max=search_state.max_budget - 1).unsqueeze(1)
    num_wanted = search_state.target_visits.gather(1, now).squeeze(1).to(torch.float32)
    scores = gumbel.root_scores(nodes, search_state.gumbel, new_visits, num_wanted, settings, collided)
    return scores.argmax(1), children


# Several simulations of one tree


@dataclass(frozen=True)
class VirtualVisits:
    """The simulations of one step, in all games, that have no value yet. The tensors change in place.

    visits: int32 [B, M], virtual visits: how many pass through each node, collisions included. started: int64 [B], how
    many count. by_move: int32 [B, A], how many count by root move. collided: bool [B, A], root moves with a collision
    in this step."""

    visits: Tensor
    started: Tensor
    by_move: Tensor
    collided: Tensor


def _most_done(search_state: SearchState, settings: SearchConfig) -> Tensor:
    """Returns how many simulations may be done after the step: int64 [B]. That is the budget, but a Gumbel step
    never crosses the end of a halving phase, whose values decide which moves are dropped (`gumbel.phase_ends`)."""
    if settings.algorithm == "puct":
        return search_state.budget
    now = search_state.done.clamp(max=search_state.max_budget - 1).unsqueeze(1)
    return torch.minimum(search_state.budget, search_state.phase_end.gather(1, now).squeeze(1).to(torch.int64))


def _select_several(search_state: SearchState, settings: SearchConfig) -> Selection:
    """Makes one selection after another in all games, removes their marks, and puts them into slots."""
    by_move = torch.zeros_like(search_state.kept_visits, dtype=torch.int32)
    visits, started = torch.zeros_like(search_state.tree.visits), torch.zeros_like(search_state.done)
    virtual = VirtualVisits(visits, started, by_move, torch.zeros_like(by_move, dtype=torch.bool))
    until, rounds = _most_done(search_state, settings), []
    for _ in range(tries(settings.leaves)):
        going = (search_state.done + virtual.started < until) & (virtual.started < settings.leaves)
        rounds.append(_select_next(search_state, settings, virtual, going))
    for selection, marked in rounds:
        _unmark(search_state.tree, selection, marked)
    return _in_slots(search_state.tree, [selection for selection, _ in rounds], settings.leaves)


def _select_next(
    search_state: SearchState, settings: SearchConfig, virtual: VirtualVisits, going: Tensor
) -> tuple[Selection, Tensor]:
    """Selects one more simulation in all games; where `going` (bool [B]) is False, nothing changes.

    Also returns the rows of the nodes to be made, which are now marked: int64 [B], that of NULL_NODE for none."""
    tree = search_state.tree
    selection, root_move = _select_one(search_state, settings, virtual)
    last, first = selection.last, selection.index * tree.num_nodes
    collides = going & selection.is_terminal & (last - first >= ROOT + tree.size)
    counts = going & ~collides
    makes = counts & ~selection.is_terminal
    marked = torch.where(makes, first + ROOT + tree.size + virtual.started, first)
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
    return replace(selection, is_used=counts), marked


def _unmark(tree: Tree, selection: Selection, marked: Tensor) -> None:
    """Restores the trees as they were before a selection."""
    first = selection.index * tree.num_nodes
    owner = torch.where(marked == first, first, selection.last)
    unvisited = torch.full_like(owner, UNVISITED, dtype=torch.int32)
    tree.children.flatten(0, 1).index_put_((owner, selection.action), unvisited)
    tree.terminal.view(-1).index_put_((marked,), torch.zeros_like(selection.is_terminal))


def _in_slots(tree: Tree, rounds: list[Selection], leaves: int) -> Selection:
    """Returns the simulations that count, each in its game's next slot; unused slots hold those of round one."""
    games, levels = rounds[0].index, max(selection.path.shape[1] for selection in rounds)
    num_games, number = len(games), leaves * len(games)
    filler = (games * tree.num_nodes).unsqueeze(1).expand(-1, levels)
    paths = [torch.cat([selection.path, filler[:, selection.path.shape[1] :]], dim=1) for selection in rounds]
    every = Selection.cat([replace(selection, path=path) for selection, path in zip(rounds, paths, strict=True)])
    counts = every.is_used.view(-1, num_games).to(torch.int64)
    slot = ((counts.cumsum(0) - counts) * num_games + games).view(-1)
    slot = torch.where(every.is_used, slot, number)  # those that do not count go to an extra entry, which is cut off
    source = games.repeat(leaves + 1).index_put((slot,), torch.arange(len(slot), device=slot.device))[:number]
    is_used = torch.arange(leaves, device=slot.device).unsqueeze(1) < counts.sum(0)
    index = torch.arange(number, device=slot.device)
    return replace(every.select(source), is_used=is_used.view(-1), index=index, num_slots=leaves)
