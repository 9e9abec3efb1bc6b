"""Functions of the groups of stones, now and in earlier positions; zero17 is `history` and `colour`."""

import torch
from torch import Tensor

from zerogo.board import State, flood
from zerogo.features.view import View


def as_planes(*rows: Tensor) -> Tensor:
    """Returns planes as one tensor: int32 [B, N] each -> int32 [B, c, N]."""
    return torch.stack(rows, dim=1) if len(rows) > 1 else rows[0].unsqueeze(1)


def colour(view: View) -> Tensor:
    """Returns all points if Black is to move, else none."""
    return as_planes(torch.where(view.is_black.unsqueeze(1), view.state.on_board, 0))


def history(view: View, number: int) -> Tensor:
    """Returns own stones now and in earlier positions, newest first, then the opponent's; empty before the first."""
    return torch.cat(view.colours(*_past(view.state, number)), dim=1)


def colour_history(view: View, number: int) -> Tensor:
    """Returns stones now and in earlier positions, newest first, Black's, then White's."""
    return torch.cat(_past(view.state, number), dim=1)


def _past(state: State, earlier: int) -> tuple[Tensor, Tensor]:
    """Returns the black and the white stones now and in earlier positions: int32 [B, 1 + earlier, N] each."""
    return (
        torch.cat([state.black.unsqueeze(1), state.recent[:, :earlier, 0]], dim=1),
        torch.cat([state.white.unsqueeze(1), state.recent[:, :earlier, 1]], dim=1),
    )


def turns_since(view: View, number: int) -> Tensor:
    """Returns the stones that have been on the board for 1, 2, … and for `number` or more positions; the last move's
    stone for 1. Initial stones are the oldest."""
    state = view.state
    if view.fast is not None:
        return view.fast.ages(state.black, state.white, state.recent, state.ply, number)
    is_before_start = state.ply.unsqueeze(1) < torch.arange(1, number, device=state.device)
    all_bits = -is_before_start.to(torch.int32)  # initial stones count as older than the start
    recent = state.recent[:, : number - 1] | all_bits.unsqueeze(2).unsqueeze(3)
    stood = [torch.stack([state.black, state.white], dim=1)]
    for earlier in recent.unbind(1):
        stood.append(stood[-1] & earlier)
    black, white = torch.stack(stood, dim=1).unbind(2)
    either = black | white
    return torch.cat([either[:, :-1] ^ either[:, 1:], either[:, -1:]], dim=1)


def last_move_planes(view: View, number: int) -> Tensor:
    """Returns the last moves, newest first, one plane each."""
    moves = view.last_moves[:, :number]
    rows = flood.points_to_rows(moves.flatten().to(torch.int64), view.state.board_size)
    return rows.unflatten(0, moves.shape)
