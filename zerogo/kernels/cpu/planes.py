"""Encoders' planes on the CPU: all of them painted in one pass, and the bit rows of some."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import kernel, over_games, part
from zerogo.kernels.shared import NUMBERS, ROWS, VALUES

# The bits of a 1; other dtypes are painted as float32 first.
ONES = {
    torch.float32: np.uint32(0x3F800000),
    torch.bfloat16: np.uint16(0x3F80),
    torch.float16: np.uint16(0x3C00),
    torch.uint8: np.uint8(1),
}


def paint(
    spans: tuple[tuple[int, int], ...], rows: Tensor, numbers: Tensor, values: Tensor, dtype: torch.dtype
) -> Tensor:
    """Returns the planes of B positions: [B, N, N, C] of the dtype.

    spans: what the planes are made of, in their order: (ROWS, c) for the next c of `rows`, (NUMBERS, c) for the next
    one of `numbers`, of which v sets plane v - 1 of c, any beyond c the last and 0 none, (VALUES, c) for the next c of
    `values`. rows: int32 [B, N, R] bit rows. numbers: int16 [K, B, N, N]. values: float32 [B, N, N, V]."""
    one = ONES.get(dtype)
    if one is None:
        return paint(spans, rows, numbers, values, torch.float32).to(dtype)
    size, num_planes = rows.shape[1], sum(width for _, width in spans)
    planes = torch.empty(len(rows), size, size, num_planes, dtype=dtype)
    bits = planes.view(torch.int32 if dtype == torch.float32 else torch.int16 if one.itemsize == 2 else torch.uint8)
    given = (
        bits_of(rows),
        numbers.contiguous().numpy(),
        values.to(dtype).contiguous().view(bits.dtype).numpy().view(one.dtype),
    )
    over_games(
        _paint,
        len(rows),
        _table(spans),
        *given,
        one,
        bits.numpy().view(one.dtype).reshape(len(rows), size * size, num_planes),
    )
    return planes


def history(black: Tensor, white: Tensor, recent: Tensor, own_first: Tensor | None, earlier: int) -> Tensor:
    """Returns the stones now and in earlier positions, newest first, Black's or the side to move's before the other's:
    int32 [B, N, 2 + 2 * earlier].

    black, white: int32 [B, N]. recent: int32 [B, 7, 2, N]. own_first: int8 [B], who is to move; None for Black's first.
    """
    rows = torch.empty(*black.shape, 2 + 2 * earlier, dtype=torch.int32)
    mover = torch.ones(len(black), dtype=torch.int8) if own_first is None else own_first
    over_games(
        _history, len(black), bits_of(black), bits_of(white), bits_of(recent), mover.contiguous().numpy(), bits_of(rows)
    )
    return rows


def ages(black: Tensor, white: Tensor, recent: Tensor, ply: Tensor, most: int) -> Tensor:
    """Returns the stones that have stood for 1, 2, … and for `most` or more positions (up to 8), 1 for the last move's:
    int32 [B, N, most].

    Stones of the start are the oldest. black, white: int32 [B, N]. recent: int32 [B, 7, 2, N]. ply: int32 [B].
    """
    rows = torch.empty(*black.shape, most, dtype=torch.int32)
    over_games(
        _ages, len(black), bits_of(black), bits_of(white), bits_of(recent), ply.contiguous().numpy(), bits_of(rows)
    )
    return rows


def eyes(own: Tensor, on_board: Tensor) -> Tensor:
    """Returns the eyes of a colour as `board.eyes` defines them: own, on_board int32 [B, N] -> int32 [B, N]."""
    found = torch.empty_like(own)
    over_games(_eyes, len(own), bits_of(own), bits_of(on_board), bits_of(found))
    return found


def bits_of(rows: Tensor) -> np.ndarray:
    """Returns bit rows as the kernels take them, the memory shared where it is contiguous: int32 -> uint32."""
    return rows.contiguous().numpy().view(np.uint32)


@cache
def _table(spans: tuple[tuple[int, int], ...]) -> np.ndarray:
    return np.array(spans, np.int64)


@kernel
def _paint(first, last, spans, rows, numbers, values, one, planes):
    """A row of the board at a time: numbers become bit rows too, then every point's planes are one bit of as many
    words, which the compiler takes 8 or 16 at a time."""
    words = np.zeros(planes.shape[2] + rows.shape[1], np.uint32)
    for game in range(first, last):
        for row in range(rows.shape[1]):
            _collect(words, game, row, spans, rows, numbers, planes.shape[2])
            for column in range(rows.shape[1]):
                bit, point = np.uint32(column), planes[game, row * rows.shape[1] + column]
                for plane in range(len(point)):
                    point[plane] = ((words[plane] >> bit) & np.uint32(1)) * one
        if values.shape[3]:
            _add_values(planes[game], spans, values[game])


@part
def _collect(words, game, row, spans, rows, numbers, num_planes):
    """Writes what the planes hold in a row as bits: uint32 [C + N]. Numbers that set no plane go to the last words, one
    for each column: the processor would wait where all went to the same."""
    plane, next_row, next_number = 0, 0, 0
    words[:] = np.uint32(0)
    for span in range(len(spans)):
        form, width = spans[span, 0], spans[span, 1]
        if form == ROWS:
            for k in range(width):
                words[plane + k] = rows[game, row, next_row + k]
            next_row += width
        elif form == NUMBERS:
            for column in range(rows.shape[1]):
                number = min(np.int64(numbers[next_number, game, row, column]), width)
                words[plane + number - 1 if number > 0 else num_planes + column] |= np.uint32(1) << np.uint32(column)
            next_number += 1
        plane += width


@part
def _add_values(planes, spans, values):
    """Writes the planes that hold more than bits: [P, C], [N, N, V]."""
    plane, next_value = 0, 0
    for span in range(len(spans)):
        width = spans[span, 1]
        if spans[span, 0] == VALUES:
            for point in range(len(planes)):
                row, column = divmod(point, values.shape[1])
                for k in range(width):
                    planes[point, plane + k] = values[row, column, next_value + k]
            next_value += width
        plane += width


@kernel
def _history(first, last, black, white, recent, mover, rows):
    earlier = rows.shape[2] // 2 - 1
    for game in range(first, last):
        side = mover[game] - 1
        for row in range(black.shape[1]):
            words = rows[game, row]
            words[0], words[1 + earlier] = black[game, row], white[game, row]
            if side == 1:
                words[0], words[1 + earlier] = white[game, row], black[game, row]
            for ago in range(earlier):
                words[1 + ago], words[2 + earlier + ago] = (
                    recent[game, ago, side, row],
                    recent[game, ago, 1 - side, row],
                )


@kernel
def _ages(first, last, black, white, recent, ply, rows):
    most = rows.shape[2]
    for game in range(first, last):
        for row in range(black.shape[1]):
            own, other = black[game, row], white[game, row]
            stood = own | other
            for ago in range(1, most):
                if ago <= ply[game]:
                    own &= recent[game, ago - 1, 0, row]
                    other &= recent[game, ago - 1, 1, row]
                rows[game, row, ago - 1] = stood & ~(own | other)
                stood = own | other
            rows[game, row, most - 1] = stood


@kernel
def _eyes(first, last, own, on_board, found):
    size, one = own.shape[1], np.uint32(1)
    solid, off = np.full(size + 2, ~np.uint32(0)), np.full(size + 2, ~np.uint32(0))
    for game in range(first, last):
        for row in range(size):  # a bit higher than on the board, so that the border on the left has a place
            off[row + 1] = ~(on_board[game, row] << one)
            solid[row + 1] = (own[game, row] << one) | off[row + 1]
        for row in range(1, size + 1):
            above, here, below = solid[row - 1], solid[row], solid[row + 1]
            both_above, both_below = (above << one) & (above >> one), (below << one) & (below >> one)
            one_above, one_below = (above << one) | (above >> one), (below << one) | (below >> one)
            edge = (off[row] << one) | (off[row] >> one) | off[row - 1] | off[row + 1]
            corners = (both_above & both_below) | (((both_above & one_below) | (both_below & one_above)) & ~edge)
            sides = (here << one) & (here >> one) & above & below
            found[game, row - 1] = (sides & corners & ~here) >> one
