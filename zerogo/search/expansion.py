"""Step the leaves, expand and back up: what the selected moves lead to, and how it is written into the trees."""

from __future__ import annotations

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.flood import may_look
from zerogo.kernels.shared import CLOSED, NULL_NODE, ROOT
from zerogo.search.game import Game, LeafStates, SearchPath
from zerogo.search.selection import Selection
from zerogo.search.tree import SearchState, Tree, backup


def step_leaves(game: Game, search_state: SearchState, selection: Selection) -> LeafStates:
    """Makes the last move of each simulation; where the game is over at its last node the result has no meaning."""
    tree, states = search_state.tree, search_state.states_of_slots(selection.num_slots)
    words = tree.words.flatten(0, 1)
    path = SearchPath(selection.index, selection.path, selection.depth, words, tree.action.view(-1))
    return game.step_leaves(states, path, tree.at("words", selection.last), selection.action)


def expand_and_backup(
    search_state: SearchState, selection: Selection, leaves: LeafStates, prior: Tensor, value: Tensor
) -> None:
    """Writes the new nodes, closes moves that repeat, and counts and backs up the simulations that count.

    prior: float32 [K, A], value: float32 [K], the network's; a finished position has its result instead. A move that
    repeats has the mean value of its parent, as that was before the step."""
    compiled = kernels.compiled("tree", value.device)
    if compiled is not None:
        compiled.expand_and_backup(search_state, selection, leaves, prior, value)
        return
    tree, games, parent = search_state.tree, selection.games(search_state.num_games), selection.last
    first = games * tree.num_nodes
    repeats = leaves.repeats & ~selection.at_end
    stays = selection.at_end | repeats
    is_new = selection.counts & ~stays
    rank = _rank(selection, is_new, search_state.num_games)
    node = torch.where(is_new, ROOT + tree.size[games] + rank, NULL_NODE)
    tree.size.index_add_(0, games, is_new.to(torch.int64))
    value = torch.where(leaves.finished, leaves.result, value)
    _expand(tree, first, node, selection, leaves, prior, value)
    _close(tree, first, selection, repeats & selection.counts)
    mean = tree.at("value_sum", parent) / tree.at("visits", parent).clamp(min=1)
    value = torch.where(selection.at_end, tree.at("value", parent), torch.where(repeats, mean, value))
    path = torch.cat([selection.path, first.unsqueeze(1)], dim=1)
    path = path.scatter(1, (selection.depth + 1).unsqueeze(1), (first + node).unsqueeze(1))
    path = torch.where(selection.counts.unsqueeze(1), path, first.unsqueeze(1))
    depth = torch.where(stays, selection.depth, selection.depth + 1)
    # Several of one tree are added in their order, so that sums do not depend on chance: the CPU does so by itself.
    step = len(path) if may_look(path) else search_state.num_games
    for start in range(0, len(path), step):
        slot = slice(start, start + step)
        backup(tree, path[slot], depth[slot], value[slot])
    ended = torch.stack([selection.at_end | (leaves.finished & ~repeats), repeats])
    search_state.exact_leaves += (ended & selection.counts).sum(1)
    search_state.done.index_add_(0, games, selection.counts.to(torch.int64))
    search_state.deepest.scatter_reduce_(0, games, torch.where(selection.counts, depth, 0), "amax")


def _rank(selection: Selection, is_new: Tensor, num_games: int) -> Tensor | int:
    """Returns how many of the same tree's simulations before each have a new node: bool [K] -> int64 [K]."""
    if selection.num_slots == 1:
        return 0
    new = torch.zeros(selection.num_slots * num_games, dtype=torch.int64, device=is_new.device)
    new = new.index_put((selection.index,), is_new.to(torch.int64)).view(selection.num_slots, num_games)
    return (new.cumsum(0) - new).view(-1).index_select(0, selection.index)


def _expand(
    tree: Tree, first: Tensor, node: Tensor, selection: Selection, leaves: LeafStates, prior: Tensor, value: Tensor
) -> None:
    """Writes the new nodes (int64 [K], NULL_NODE where there is none) and hangs them below their parents."""
    new, parent = (first + node,), selection.last
    tree.words.flatten(0, 1).index_put_(new, leaves.words)
    tree.children.flatten(0, 1).index_put_(new, leaves.legal.to(torch.int32) + CLOSED)  # UNVISITED is CLOSED + 1
    tree.prior.flatten(0, 1).index_put_(new, prior)
    tree.value.view(-1).index_put_(new, value)
    tree.terminal.view(-1).index_put_(new, leaves.finished)
    tree.parent.view(-1).index_put_(new, (parent - first).to(torch.int32))
    tree.action.view(-1).index_put_(new, selection.action.to(torch.int32))
    owner = torch.where(node == NULL_NODE, first, parent)
    tree.children.flatten(0, 1).index_put_((owner, selection.action), node.to(torch.int32))


def _close(tree: Tree, first: Tensor, selection: Selection, repeats: Tensor) -> None:
    """Closes the moves that repeat a position (bool [K])."""
    if may_look(repeats) and not bool(repeats.any()):
        return
    place = (torch.where(repeats, selection.last, first), selection.action)
    tree.children.flatten(0, 1).index_put_(place, torch.full_like(selection.action, CLOSED, dtype=torch.int32))
    tree.prior.flatten(0, 1).index_put_(place, torch.zeros_like(selection.action, dtype=torch.float32))
