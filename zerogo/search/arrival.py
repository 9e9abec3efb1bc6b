"""What the last moves of some simulations lead to, and how it is written into the trees."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.flood import may_look
from zerogo.search.descent import Selection
from zerogo.search.games import Game, LeafStates, Line
from zerogo.search.search_state import SearchState
from zerogo.search.tree import CLOSED, NULL_NODE, ROOT, Tree, backup


@dataclass(frozen=True)
class Lanes:
    """Whose K simulations these are.

    states, lane: int64 [K], the root states that the game's operations are asked with, and which of them; lanes ascend.
    game: int64 [K], the trees; with several simulations of one tree (`slots` of them at the most) lane is slot * B +
    game. first: int64 [K], the trees' first rows. active: bool [K], which simulations count, None if all do. serial:
    int64 [K], how many of the tree's present simulations were started before; None is 0."""

    states: Any
    lane: Tensor
    game: Tensor
    first: Tensor
    active: Tensor | None
    slots: int = 1
    serial: Tensor | None = None

    def among(self, mask: Tensor) -> Tensor:
        """Returns the mask (bool [K]) for the simulations that count."""
        return mask if self.active is None else mask & self.active


def lanes_of(
    game: Game, search_state: SearchState, way: Selection, counts: Tensor, slots: int
) -> tuple[Lanes, Selection]:
    """Returns whose simulations those in the slots are: counts bool [slots * B], which are used. A looking host leaves
    the others out.
    """
    states = _states_in_slots(game, search_state, slots)
    lane = torch.arange(len(counts), device=counts.device)
    if may_look(counts):
        if not bool(counts.all()):
            lane = counts.nonzero().squeeze(1)
            way = Selection(*(getattr(way, field.name)[lane] for field in fields(way)))
        counts = None
    if slots == 1:
        return Lanes(states, lane, lane, lane * search_state.tree.num_nodes, counts), way
    serial = torch.div(lane, search_state.num_games, rounding_mode="floor")
    owner = lane - serial * search_state.num_games
    return Lanes(states, lane, owner, owner * search_state.tree.num_nodes, counts, slots, serial), way


def _states_in_slots(game: Game, search_state: SearchState, slots: int) -> Any:
    if slots == 1:
        return search_state.states
    if search_state.slots is None:
        search_state.slots = game.take(
            search_state.states, torch.arange(search_state.num_games, device=search_state.budget.device).repeat(slots)
        )
    return search_state.slots


def step_leaves(game: Game, tree: Tree, lanes: Lanes, way: Selection) -> LeafStates:
    """Makes the last move of each simulation; where there is none, the game being over, what is found has no
    meaning.
    """
    states, lane, words = lanes.states, lanes.lane, tree.at("words", way.last)
    line = Line(lane, way.path, way.depth, tree.words.flatten(0, 1), tree.action.view(-1))
    found = game.step_leaves(states, line, words, way.action) if hasattr(game, "step_leaves") else None
    if found is not None:
        return found
    position = game.play(states, lane, words, way.action)
    finished, result = game.outcome(states, lane, position)
    repeats = game.repeats(states, position, line, way.action)
    repeats = torch.zeros_like(way.at_end) if repeats is None else repeats
    leaf = game.leaf(states, position, line, way.action)
    return LeafStates(game.pack(position), game.legal(states, lane, position), finished, result, repeats, leaf)


def expand_and_backup(
    search_state: SearchState, lanes: Lanes, way: Selection, found: LeafStates, prior: Tensor, value: Tensor
) -> None:
    """Writes the new nodes, closes moves that repeat, and counts and backs up the simulations.

    prior: float32 [K, A], value: float32 [K], the network's; a finished position has its result instead.
    """
    compiled = kernels.compiled("tree", value.device)
    if compiled is not None:
        compiled.expand_and_backup(search_state, lanes, way, found, prior, value)
        return
    tree, parent = search_state.tree, way.last
    repeats = found.repeats & ~way.at_end
    stays = way.at_end | repeats
    counts = lanes.among(~stays)
    node = torch.where(counts, ROOT + tree.size[lanes.game] + _rank(lanes, counts, search_state.num_games), NULL_NODE)
    tree.size.index_add_(0, lanes.game, counts.to(torch.int64))
    value = torch.where(found.finished, found.result, value)
    _expand(tree, lanes.first, node, parent, way.action, found, prior, value)
    _close(tree, lanes.first, parent, way.action, lanes.among(repeats))
    mean = tree.at("value_sum", parent) / tree.at("visits", parent).clamp(min=1)
    value = torch.where(way.at_end, tree.at("value", parent), torch.where(repeats, mean, value))
    depth = torch.where(stays, way.depth, way.depth + 1)
    path = torch.cat([way.path, lanes.first.unsqueeze(1)], dim=1)
    path = path.scatter(1, (way.depth + 1).unsqueeze(1), (lanes.first + node).unsqueeze(1))
    _back_up(tree, lanes, path, depth, value)
    _count(search_state, lanes, depth, way.at_end | (found.finished & ~repeats), repeats)


def _rank(lanes: Lanes, counts: Tensor, num_games: int) -> Tensor | int:
    """Returns how many of the same tree's simulations before each have a new node: counts bool [K] -> int64 [K]."""
    if lanes.slots == 1:
        return 0
    new = torch.zeros(lanes.slots * num_games, dtype=torch.int64, device=counts.device)
    new = new.index_put((lanes.lane,), counts.to(torch.int64)).view(lanes.slots, num_games)
    return (new.cumsum(0) - new).view(-1).index_select(0, lanes.lane)


def _expand(
    tree: Tree,
    first: Tensor,
    node: Tensor,
    parent: Tensor,
    action: Tensor,
    found: LeafStates,
    prior: Tensor,
    value: Tensor,
) -> None:
    """Writes the new nodes (int64 [K], nowhere where there is none) and hangs them below their parents, rows int64
    [K].
    """
    new = (first + node,)
    tree.words.flatten(0, 1).index_put_(new, found.words)
    tree.children.flatten(0, 1).index_put_(new, found.legal.to(torch.int32) + CLOSED)  # UNVISITED is one above CLOSED
    tree.prior.flatten(0, 1).index_put_(new, prior)
    tree.value.view(-1).index_put_(new, value)
    tree.terminal.view(-1).index_put_(new, found.finished)
    tree.parent.view(-1).index_put_(new, (parent - first).to(torch.int32))
    tree.action.view(-1).index_put_(new, action.to(torch.int32))
    owner = torch.where(node == NULL_NODE, first, parent)
    tree.children.flatten(0, 1).index_put_((owner, action), node.to(torch.int32))


def _close(tree: Tree, first: Tensor, parent: Tensor, action: Tensor, repeats: Tensor) -> None:
    """Closes the moves that repeat a position (bool [K])."""
    if may_look(repeats) and not bool(repeats.any()):
        return
    place = (torch.where(repeats, parent, first), action)
    tree.children.flatten(0, 1).index_put_(place, torch.full_like(action, CLOSED, dtype=torch.int32))
    tree.prior.flatten(0, 1).index_put_(place, torch.zeros_like(tree.value.view(-1)[parent]))


def _back_up(tree: Tree, lanes: Lanes, path: Tensor, depth: Tensor, value: Tensor) -> None:
    """Backs up the simulations that count. Several of one tree are added in their order, so that sums do not depend on
    chance: the host does so by itself, a device slot by slot."""
    if lanes.active is not None:
        path = torch.where(lanes.active.unsqueeze(1), path, lanes.first.unsqueeze(1))
    step = len(path) if may_look(path) else len(path) // lanes.slots
    for start in range(0, len(path), step):
        slot = slice(start, start + step)
        backup(tree, path[slot], depth[slot], value[slot])


def _count(search_state: SearchState, lanes: Lanes, depth: Tensor, finished: Tensor, repeats: Tensor) -> None:
    """Counts the simulations, the leaves that need no network, and how deep the trees are."""
    ended = torch.stack([finished, repeats])
    search_state.exact_leaves += lanes.among(ended).sum(1)
    reached, one = depth, torch.ones_like(depth)
    if lanes.active is not None:
        reached, one = torch.where(lanes.active, depth, 0), lanes.active.to(torch.int64)
    search_state.done.index_add_(0, lanes.game, one)
    search_state.deepest.scatter_reduce_(0, lanes.game, reached, "amax")
