"""Zobrist keys of (colour, row, column) on a 25x25 board, so that a position hashes alike whatever the batch's largest
side is.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from zerogo import draws
from zerogo.rules import MAX_SIZE

CHUNK = 5  # columns that one table look-up hashes: 25 columns are 5 chunks of 32 colourings


@cache
def keys(device: torch.device) -> Tensor:
    """Returns the keys: int64 [2, 25, 25] for (black, white), row, column."""
    return draws.split(draws.key(0x60), 2 * MAX_SIZE * MAX_SIZE).view(2, MAX_SIZE, MAX_SIZE).to(device)


@cache
def point_keys(board_size: int, device: torch.device) -> Tensor:
    """Returns the keys of a batch's actions: int64 [2 * A], Black's points and a 0 for pass, then White's."""
    table = keys(device)[:, :board_size, :board_size].reshape(2, -1)
    return torch.cat([table, torch.zeros_like(table[:, :1])], dim=1).flatten()


@cache
def _chunk_table(device: torch.device) -> Tensor:
    """Returns the XOR of the keys of every colouring of 5 neighbouring columns: int64 [2, 25 rows * 5 chunks * 32]."""
    columns = keys(torch.device("cpu")).view(2, MAX_SIZE, MAX_SIZE // CHUNK, 1, CHUNK)
    colouring = torch.arange(1 << CHUNK).view(1, 1, 1, -1, 1)
    is_set = ((colouring >> torch.arange(CHUNK)) & 1) != 0
    return xor_fold(torch.where(is_set, columns, 0)).reshape(2, -1).to(device)


def xor_fold(words: Tensor) -> Tensor:
    """Returns the XOR over the last dimension: int64 [..., n] -> int64 [...]; torch has no such reduction."""
    while words.shape[-1] > 1:
        half = words.shape[-1] // 2
        folded = words[..., :half] ^ words[..., half : 2 * half]
        words = torch.cat([folded, words[..., 2 * half :]], dim=-1)
    return words.squeeze(-1)


def hash_rows_both(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the XOR of the keys of all points of a plane as Black's and as White's: int32 [..., N] -> two of int64
    [...].
    """
    board_size = rows.shape[-1]
    first, shift = _chunks(board_size, rows.device)
    index = first + ((rows.unsqueeze(-1) >> shift) & ((1 << CHUNK) - 1))
    return xor_fold(_chunk_table(rows.device)[:, index].flatten(-2)).unbind(0)


def hash_stones(black: Tensor, white: Tensor) -> Tensor:
    """Returns the Zobrist hash of positions: int32 [..., N] each -> int64 [...]."""
    return hash_rows_both(black)[0] ^ hash_rows_both(white)[1]


@cache
def _chunks(board_size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns where the chunks of a plane's rows begin in the table int64 [N, chunks], and by how much to shift a row
    int32 [chunks].
    """
    column = torch.arange(-(-board_size // CHUNK), device=device)
    row = torch.arange(board_size, device=device).unsqueeze(-1) * (MAX_SIZE // CHUNK)
    return (row + column) << CHUNK, (column * CHUNK).to(torch.int32)
