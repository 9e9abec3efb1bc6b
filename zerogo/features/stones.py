"""The groups of planes that show stones, now and in earlier positions; zero17 is `history` and `colour`."""

from collections.abc import Callable

import torch
from torch import Tensor

from zerogo import flood
from zerogo.board.state import RECENT, RECENT_MOVES, State
from zerogo.features.groups import group, one_hot
from zerogo.features.view import View
from zerogo.kernels.shared import ROWS


def as_planes(*rows: Tensor) -> Tensor:
    """Returns planes as one tensor: int32 [B, N] each -> int32 [B, c, N]."""
    return torch.stack(rows, dim=1)


@group("on_board", ROWS, "on the board")
def _on_board(view: View) -> Tensor:
    return as_planes(view.state.on_board)


@group("zeros", ROWS, lambda number: ("zero",) * number, default=1, most=64)
def _zeros(view: View, number: int) -> Tensor:
    """Planes that a list allocates and never writes."""
    return torch.zeros_like(view.state.black).unsqueeze(1).expand(-1, number, -1)


@group("stones", ROWS, "own stone", "opponent's stone")
def _stones(view: View) -> Tensor:
    return as_planes(*view.sides)


@group("colours", ROWS, "black stone", "white stone")
def _colours(view: View) -> Tensor:
    return as_planes(view.state.black, view.state.white)


@group("empty", ROWS, "empty")
def _empty(view: View) -> Tensor:
    return as_planes(view.empty)


@group("colour", ROWS, "Black to move")
def _colour(view: View) -> Tensor:
    return as_planes(torch.where(view.is_black.unsqueeze(1), view.state.on_board, 0))


def _history_names(*sides: str) -> Callable[[int], tuple[str, ...]]:
    return lambda earlier: tuple(
        f"{side} stone {moment}" for side in sides for moment in ("now", *(f"{k} ago" for k in range(1, earlier + 1)))
    )


@group("history", ROWS, _history_names("own", "opponent's"), default=RECENT, most=RECENT)
def _history(view: View, number: int) -> Tensor:
    """Own stones now and in earlier positions, newest first, then the opponent's; empty before the first."""
    state = view.state
    if view.fast is not None:
        return view.fast.history(state.black, state.white, state.recent, state.to_play, number)
    black, white = _past(state, number)
    return torch.cat(view.colours(black, white), dim=1)


@group("colour_history", ROWS, _history_names("black", "white"), default=RECENT, most=RECENT)
def _colour_history(view: View, number: int) -> Tensor:
    return torch.cat(_past(view.state, number), dim=1)


def _past(state: State, earlier: int) -> tuple[Tensor, Tensor]:
    """Returns the black and the white stones now and in earlier positions: int32 [B, 1 + earlier, N] each."""
    return (
        torch.cat([state.black.unsqueeze(1), state.recent[:, :earlier, 0]], dim=1),
        torch.cat([state.white.unsqueeze(1), state.recent[:, :earlier, 1]], dim=1),
    )


@group("turns_since", ROWS, one_hot("turns since"), default=RECENT + 1, most=RECENT + 1)
def _turns_since(view: View, number: int) -> Tensor:
    """The stones that have stood for 1, 2, … and for `number` or more positions, 1 for the last move's; stones of the
    start are the oldest."""
    state = view.state
    if view.fast is not None:
        return view.fast.ages(state.black, state.white, state.recent, state.ply, number)
    is_before_start = state.ply.unsqueeze(1) < torch.arange(1, number, device=state.device)
    all_bits = -is_before_start.to(torch.int32)  # what stood at the start counts as having stood before it
    recent = state.recent[:, : number - 1] | all_bits.unsqueeze(2).unsqueeze(3)
    stood = [torch.stack([state.black, state.white], dim=1)]
    for earlier in recent.unbind(1):
        stood.append(stood[-1] & earlier)
    black, white = torch.stack(stood, dim=1).unbind(2)
    either = black | white
    return torch.cat([either[:, :-1] ^ either[:, 1:], either[:, -1:]], dim=1)


def _move_names(number: int) -> tuple[str, ...]:
    return tuple(f"move {ago} ago" for ago in range(1, number + 1))


@group("last_moves", ROWS, _move_names, default=RECENT_MOVES, most=RECENT_MOVES)
def _last_moves(view: View, number: int) -> Tensor:
    moves = last_moves(view, number)
    rows = flood.points_to_rows(moves.flatten().to(torch.int64), view.state.board_size)
    return rows.unflatten(0, moves.shape)


def last_moves(view: View, number: int) -> Tensor:
    """Returns the last actions, newest first, -1 where there is none and for all but one of a game that is over: int16
    [B, number]."""
    moves = view.state.moves[:, :number]
    is_hidden = view.state.finished.unsqueeze(1) & (torch.arange(number, device=moves.device) > 0)
    return torch.where(is_hidden, -1, moves)
