"""From the moves of game records to positions with their history: many games at once, each of its own length."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from zerogo.board.state import State, from_stones, step_
from zerogo.rules import Rules

NO_MOVE = -1


def replay(
    stones: Tensor,
    to_play: Tensor,
    rules: Rules | Sequence[Rules],
    colours: Tensor,
    actions: Tensor,
    next_to_play: Tensor | None = None,
) -> State:
    """Returns the games after given moves, which are not checked.

    stones: int8 [B, N, N] and to_play: int8 [B] before the first. colours: int8 [B, T] and actions: int64 [B, T],
    NO_MOVE behind a game's end. next_to_play: int8 [B], who is to move after the last, by default the other side.

    Where one side moves twice in a row, as handicap stones and problems do, the other side is taken to have passed in
    between; such a pass ends no game. A record may go on after two passes, so a game is finished only where its last
    two moves are passes."""
    state = from_stones(stones, to_play, rules)
    plies, is_added = _with_passes(to_play, colours, actions, next_to_play, state.board_size**2)
    for ply in range(plies.shape[1]):
        action, added = plies[:, ply], is_added[:, ply]
        goes_on = action != NO_MOVE
        passes = torch.where(state.passes >= 2, 0, state.passes)
        before = torch.where(goes_on, passes, state.passes).to(torch.int8)
        state = step_(dataclasses.replace(state, passes=before, finished=~goes_on), action.clamp(min=0))
        state = dataclasses.replace(state, passes=torch.where(added, 0, state.passes).to(torch.int8))
    return dataclasses.replace(state, finished=state.passes >= 2)


def _with_passes(
    to_play: Tensor, colours: Tensor, actions: Tensor, next_to_play: Tensor | None, pass_action: int
) -> tuple[Tensor, Tensor]:
    """Returns the actions by ply with the passes between two moves of a side: int64 [B, T'], and which were added: bool
    [B, T'].
    """
    num_games, length = actions.shape
    is_move = actions != NO_MOVE
    movers = torch.cat([to_play.unsqueeze(1), torch.where(is_move, 3 - colours, 0).to(to_play.dtype)], dim=1)
    if next_to_play is None:
        wanted = torch.cat([colours, torch.zeros_like(to_play).unsqueeze(1)], dim=1)
    else:
        wanted = torch.cat([colours, next_to_play.to(colours.dtype).unsqueeze(1)], dim=1)
        # Behind a shorter game's end its last move is what next_to_play follows.
        last = is_move.sum(1, keepdim=True)
        wanted = wanted.scatter(1, last, next_to_play.to(colours.dtype).unsqueeze(1))
    index = torch.arange(length + 1, device=actions.device)
    number = is_move.sum(1, keepdim=True)
    counts = (index < number) | ((index == number) & (next_to_play is not None))
    needs_pass = counts & (wanted != movers)
    place = index + needs_pass.cumsum(1)  # of each move; a pass that it needs stands just before it
    plies = torch.full((num_games, 2 * length + 2), NO_MOVE, dtype=torch.int64, device=actions.device)
    moves = torch.cat([actions.to(torch.int64), index.new_full((num_games, 1), NO_MOVE)], dim=1)
    plies.scatter_(1, place, moves)
    is_added = torch.zeros_like(plies, dtype=torch.bool)
    before = (place - 1).clamp(min=0)
    is_added.scatter_(1, torch.where(needs_pass, before, plies.shape[1] - 1), needs_pass)
    plies = torch.where(is_added, pass_action, plies)
    used = int((plies != NO_MOVE).sum(1).max()) if num_games else 0
    return plies[:, :used], is_added[:, :used]
