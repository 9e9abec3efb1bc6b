"""The rules of Go in one launch: what may be played, what a move leads to, which strings are in atari. One warp a game.

They do what the functions of the same names in `board.position` and `board.superko` do.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import rows
from zerogo.kernels.cuda.moves import (
    empty_like,
    fields_of,
    flag_at,
    given,
    legal_points,
    load_position,
    moved,
    store_position,
)
from zerogo.kernels.cuda.superko import repeating_rows

__all__ = ["find_atari", "legal_rows", "play", "repeating_rows"]


@triton.jit
def legal_kernel(fields, on_board, suicide, legal, N: tl.constexpr, ANY_SUICIDE: tl.constexpr):
    """Writes one game's legal points; all arguments are pointers, as `legal_rows` has them."""
    game = tl.program_id(0)
    points = legal_points(
        load_position(fields, game, N), rows.load_rows(on_board, game, N), flag_at(suicide, game, ANY_SUICIDE), N
    )
    rows.store_rows(legal, game, points, N)


def legal_rows(position: Any, on_board: Tensor, suicide: Tensor | None) -> Tensor:
    """Returns the points that may be played but for superko: on_board int32 [B, N], suicide bool [B] or None -> int32
    [B, N].
    """
    fields = fields_of(position)
    legal = torch.empty_like(fields.black)
    num_games, board_size = legal.shape
    if num_games:
        flags = given(suicide, fields.finished)
        legal_kernel[(num_games,)](
            fields, on_board.contiguous(), flags, legal, N=board_size, ANY_SUICIDE=suicide is not None, num_warps=1
        )
    return legal


@triton.jit
def play_kernel(
    fields, actions, on_board, suicide, cap, keys, after, removed, N: tl.constexpr, ANY_SUICIDE: tl.constexpr
):
    """Writes one game's position after its action, and what was removed; all arguments are pointers, as `play` has
    them.
    """
    game = tl.program_id(0)
    before = load_position(fields, game, N)
    action = tl.load(actions + game).to(tl.int32)
    board = rows.load_rows(on_board, game, N)
    position, gone, was_black = moved(
        before, action, board, flag_at(suicide, game, ANY_SUICIDE), tl.load(cap + game), keys, N
    )
    store_position(after, game, position, N)
    rows.store_rows(removed, 2 * game, tl.where(was_black, gone, 0), N)
    rows.store_rows(removed, 2 * game + 1, tl.where(was_black, 0, gone), N)


def play(
    position: Any, actions: Tensor, on_board: Tensor, suicide: Tensor | None, cap: Tensor, keys: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """Returns the fields of the positions after one action each, and the stones removed, black and white: actions int64
    [B], cap int32 [B], keys int64 [2 * A] (`zobrist.point_keys`) -> int32 [B, 2, N]."""
    fields = fields_of(position)
    after = empty_like(fields)
    num_games, board_size = fields.black.shape
    removed = fields.black.new_empty(num_games, 2, board_size)
    if num_games:
        flags = given(suicide, fields.finished)
        play_kernel[(num_games,)](
            fields,
            actions.contiguous(),
            on_board.contiguous(),
            flags,
            cap.contiguous(),
            keys,
            after,
            removed,
            N=board_size,
            ANY_SUICIDE=suicide is not None,
            num_warps=1,
        )
    return after._asdict(), removed


@triton.jit
def atari_kernel(blacks, whites, on_board, in_atari, breathless, N: tl.constexpr, BITS: tl.constexpr):
    """Writes one game's strings in atari and without liberties: `BITS` is how many a row or a column has.

    A string has one liberty exactly if, for every bit of the liberties' rows and columns, it does not touch both a
    liberty with that bit and one without."""
    game = tl.program_id(0)
    lane = tl.arange(0, rows.LANES)
    black, white = rows.load_rows(blacks, game, N), rows.load_rows(whites, game, N)
    empty = rows.load_rows(on_board, game, N) & ~(black | white)
    several, some = tl.zeros_like(black), tl.zeros_like(black)
    for k in range(2 * BITS):
        columns = tl.sum(tl.where((lane < N) & ((lane >> (k % BITS)) & 1 != 0), 1 << lane, 0), 0)
        half = tl.where(k < BITS, columns, tl.where((lane >> (k % BITS)) & 1 != 0, -1, 0))
        near, others = rows.neighbours(empty & half), rows.neighbours(empty & ~half)
        black_with, white_with = rows.flood_two(near & black, black, near & white, white)
        black_without, white_without = rows.flood_two(others & black, black, others & white, white)
        several = several | (black_with & black_without) | (white_with & white_without)
        some = some | black_with | black_without | white_with | white_without
    rows.store_rows(in_atari, game, (black | white) & some & ~several, N)
    rows.store_rows(breathless, game, (black | white) & ~some, N)


def find_atari(black: Tensor, white: Tensor, on_board: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones whose string has exactly one liberty, and those whose string has none: int32 [B, N] each."""
    black, white, on_board = black.contiguous(), white.contiguous(), on_board.contiguous()
    atari, without = torch.empty_like(black), torch.empty_like(black)
    num_games, board_size = black.shape
    if num_games:
        bits = max(1, (board_size - 1).bit_length())
        atari_kernel[(num_games,)](black, white, on_board, atari, without, N=board_size, BITS=bits, num_warps=1)
    return atari, without
