"""The eight transforms of the square (D4) as index tables: planes, points, actions and their inverses.

Transform s mirrors a board left to right if s >= 4, then rotates it by s % 4 quarter turns counterclockwise; 0 is the
identity. A table gives the source of each entry: `transformed[..., i] = original[..., table[s, i]]`. Pass stays pass.

A smaller board in a padded batch lies in the top left corner, and is transformed there: given the games' sizes, a
transform moves only the points of each game's own board, so that on-board masks do not change."""

from functools import cache

import torch
from torch import Tensor

NUM_SYMMETRIES = 8
INVERSE = (0, 3, 2, 1, 4, 5, 6, 7)  # every mirror image is its own inverse


def inverse(symmetry: Tensor) -> Tensor:
    """Returns the inverse of each transform: int64 [B] -> int64 [B]."""
    return _inverses(symmetry.device)[symmetry]


@cache
def _inverses(device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(INVERSE, device=device)


def transform_planes(planes: Tensor, symmetry: int | Tensor, size: Tensor | None = None) -> Tensor:
    """Returns transformed planes: [B, C, N, N] or [B, N, N] of any dtype, under one transform or one per game (int64
    [B], or their `tables`).

    size: int32 [B], the sides of the games' own boards; None for N. Four-dimensional results are channels_last, where
    one point is one row, and rows move faster than single numbers."""
    board_size = planes.shape[-1]
    table = tables(board_size, symmetry, size, planes.device)[..., :-1]
    if planes.ndim == 3:
        return _take(planes.flatten(1), table).view_as(planes)
    num_games, channels = planes.shape[:2]
    points = planes.permute(0, 2, 3, 1).reshape(num_games, -1, channels)
    if table.ndim == 1:
        moved = points.index_select(1, table)
    else:
        first = torch.arange(0, table.numel(), board_size * board_size, device=planes.device).unsqueeze(1)
        moved = points.flatten(0, 1).index_select(0, (table + first).flatten())
    return moved.view(num_games, board_size, board_size, channels).permute(0, 3, 1, 2)


def transform_actions(values: Tensor, symmetry: int | Tensor, size: Tensor | None = None) -> Tensor:
    """Returns transformed values of actions, such as a policy: [B, A] of any dtype; otherwise as `transform_planes`."""
    board_size = round((values.shape[-1] - 1) ** 0.5)
    assert board_size * board_size + 1 == values.shape[-1], f"{values.shape[-1]} actions belong to no square board"
    return _take(values, tables(board_size, symmetry, size, values.device))


def tables(board_size: int, symmetry: int | Tensor, size: Tensor | None, device: torch.device) -> Tensor:
    """Returns the source of each action: int64 [A] if it is the same for all games, else [B, A]. The functions above
    accept it in place of a symmetry, to share it."""
    if isinstance(symmetry, Tensor) and symmetry.ndim > 1:
        return symmetry
    if size is None:
        return action_table(board_size, device)[symmetry]
    return _own_table(board_size, device)[size.to(torch.int64), symmetry]


def _take(values: Tensor, table: Tensor) -> Tensor:
    return values.index_select(1, table) if table.ndim == 1 else values.gather(1, table)


@cache
def action_table(board_size: int, device: torch.device | str = "cpu") -> Tensor:
    """Returns the source of each action of each transformed board: int64 [8, A], shared between calls."""
    # Always made outside inference mode: a table made inside it could not be used in training.
    with torch.inference_mode(False):
        board = torch.arange(board_size * board_size).view(board_size, board_size)
        boards = [torch.rot90(flipped, turns) for flipped in (board, board.flip(1)) for turns in range(4)]
        passes = torch.full((NUM_SYMMETRIES, 1), board_size * board_size)
        return torch.cat([torch.stack(boards).flatten(1), passes], dim=1).to(device)


@cache
def _own_table(board_size: int, device: torch.device) -> Tensor:
    """Returns the same for boards of every side up to N in the corner of an N x N tensor: int64 [N + 1, 8, A]."""
    with torch.inference_mode(False):
        stays = torch.arange(board_size * board_size + 1).repeat(board_size + 1, NUM_SYMMETRIES, 1)
        for size in range(1, board_size + 1):
            corner = stays[size, :, :-1].view(NUM_SYMMETRIES, board_size, board_size)[:, :size, :size]
            points = action_table(size)[:, :-1].view(NUM_SYMMETRIES, size, size)
            corner.copy_(points // size * board_size + points % size)
        return stays.to(device)
