"""Zobrist keys of (colour, row, column) on a 25x25 board, so that a position hashes alike whatever the batch's largest
side is."""

from functools import cache

import torch
from torch import Tensor

from zerogo import draws, flood
from zerogo.rules import MAX_SIZE


@cache
def keys(device: torch.device) -> Tensor:
    """Returns the keys: int64 [2, 25, 25] for (black, white), row, column."""
    return draws.split(draws.key(0x60), 2 * MAX_SIZE * MAX_SIZE).view(2, MAX_SIZE, MAX_SIZE).to(device)


@cache
def point_keys(board_size: int, device: torch.device) -> Tensor:
    """Returns the keys of a batch's actions: int64 [2 * A], Black's points and a 0 for pass, then White's."""
    table = keys(device)[:, :board_size, :board_size].reshape(2, -1)
    return torch.nn.functional.pad(table, (0, 1)).flatten()


def hash_rows(rows: Tensor, colour: Tensor | int) -> Tensor:
    """Returns the XOR of the keys of all points of planes as stones of a colour, 0 for Black and 1 for White: int32
    [..., N], int64 [...] or one for all -> int64 [...]."""
    board_size = rows.shape[-1]
    words = torch.where(flood.unpack_rows(rows), keys(rows.device)[colour, :board_size, :board_size], 0).flatten(-2)
    while (half := words.shape[-1] // 2) > 0:  # by halves, as torch has no such reduction
        words = torch.cat([words[..., :half] ^ words[..., half : 2 * half], words[..., 2 * half :]], dim=-1)
    return words.squeeze(-1)


def hash_stones(black: Tensor, white: Tensor) -> Tensor:
    """Returns the Zobrist hash of positions: int32 [..., N] each -> int64 [...]."""
    return hash_rows(black, 0) ^ hash_rows(white, 1)
