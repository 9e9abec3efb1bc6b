"""Encoders' planes on the CPU: all bits of a row of the board are collected first, then painted point by point. Also
the bit rows of two groups, for which torch needs many small operations."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import kernel, over_games, part
from zerogo.kernels.shared import COUNTS, ROWS

# The bits of a 1, by dtype, and the integers of that width; other dtypes are painted as float32 first.
ONES = {torch.float32: (np.uint32(0x3F800000), torch.int32), torch.bfloat16: (np.uint16(0x3F80), torch.int16)}


def paint(spans: tuple[tuple[int, int], ...], rows: Tensor, counts: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the planes of B positions: [B, N, N, C] of the dtype.

    spans: the sources of the planes in order: (ROWS, c) for the next c of `rows`; (COUNTS, c) for the next one of
    `counts`, where v sets plane v - 1 of c, more than c the last and 0 none; (VALUES, c) for c planes that stay zero.
    rows: int32 [B, R, N] bit rows. counts: int16 [K, B, N, N]."""
    if dtype not in ONES:
        return paint(spans, rows, counts, torch.float32).to(dtype)
    one, integers = ONES[dtype]
    num_games, _, size = rows.shape
    planes = torch.empty(num_games, size * size, sum(width for _, width in spans), dtype=dtype)
    painted = planes.view(integers).numpy().view(one.dtype)
    over_games(_paint, num_games, _table(spans), rows.view(torch.uint32), counts, one, painted)
    return planes.unflatten(1, (size, size))


@cache
def _table(spans: tuple[tuple[int, int], ...]) -> np.ndarray:
    return np.array(spans, np.int64)


@kernel
def _paint(first, last, spans, rows, counts, one, planes):
    """Paints one row of the board at a time. A point's planes are one bit each of as many words, which the compiler
    handles 8 or 16 at a time."""
    size = rows.shape[2]
    words = np.zeros(planes.shape[2] + size, np.uint32)
    for game in range(first, last):
        for row in range(size):
            _collect(words, game, row, spans, rows, counts, planes.shape[2])
            for column in range(size):
                bit, point = np.uint32(column), planes[game, row * size + column]
                for plane in range(len(point)):
                    point[plane] = ((words[plane] >> bit) & np.uint32(1)) * one


@part
def _collect(words, game, row, spans, rows, counts, num_planes):
    """Writes the planes' bits in a row: uint32 [C + N]. Numbers that set no plane go to the last words, one for each
    column: if all went to the same word, the processor would wait."""
    plane, next_row, next_count = 0, 0, 0
    words[:] = np.uint32(0)
    for span in range(len(spans)):
        form, width = spans[span, 0], spans[span, 1]
        if form == ROWS:
            for k in range(width):
                words[plane + k] = rows[game, next_row + k, row]
            next_row += width
        elif form == COUNTS:
            for column in range(rows.shape[2]):
                number = min(np.int64(counts[next_count, game, row, column]), width)
                words[plane + number - 1 if number > 0 else num_planes + column] |= np.uint32(1) << np.uint32(column)
            next_count += 1
        plane += width


def ages(black: Tensor, white: Tensor, recent: Tensor, ply: Tensor, oldest: int) -> Tensor:
    """Returns the stones that have been on the board for 1, 2, … and for `oldest` or more positions, as in the group
    `turns_since`: int32 [B, oldest, N], from int32 [B, N] twice, [B, 7, 2, N] and [B]."""
    rows = torch.empty(len(black), oldest, black.shape[1], dtype=torch.int32)
    over_games(_ages, len(black), black, white, recent, ply, rows)
    return rows


@kernel
def _ages(first, last, black, white, recent, ply, rows):
    oldest = rows.shape[1]
    for game in range(first, last):
        for row in range(rows.shape[2]):
            black_stones, white_stones = black[game, row], white[game, row]
            for ago in range(1, oldest):
                stood = black_stones | white_stones
                if ago <= ply[game]:
                    black_stones &= recent[game, ago - 1, 0, row]
                    white_stones &= recent[game, ago - 1, 1, row]
                rows[game, ago - 1, row] = stood & ~(black_stones | white_stones)
            rows[game, oldest - 1, row] = black_stones | white_stones


def eyes(stones: Tensor, on_board: Tensor) -> Tensor:
    """Returns the eyes of a colour as `flood.eyes` defines them: int32 [B, N] twice -> int32 [B, N]."""
    eye_rows = torch.empty_like(stones, memory_format=torch.contiguous_format)
    over_games(_eyes, len(stones), *(rows.view(torch.uint32) for rows in (stones, on_board, eye_rows)))
    return eye_rows


@kernel
def _eyes(first, last, stones, on_board, eye_rows):
    size, one = stones.shape[1], np.uint32(1)
    solid, off = np.full(size + 2, ~np.uint32(0)), np.full(size + 2, ~np.uint32(0))
    for game in range(first, last):
        for row in range(size):  # shifted up by one bit, to make room for the left border
            off[row + 1] = ~(on_board[game, row] << one)
            solid[row + 1] = (stones[game, row] << one) | off[row + 1]
        for row in range(1, size + 1):
            eye_rows[game, row - 1] = eyes_of_row(solid, off, row)


@part
def eyes_of_row(solid, off, row):
    """Returns the eyes in a row; solid: points that are own or off the board, off: those off it, uint32 [N + 2] each,
    all a bit higher than on the board."""
    one, above, here, below = np.uint32(1), solid[row - 1], solid[row], solid[row + 1]
    both_above, both_below = (above << one) & (above >> one), (below << one) & (below >> one)
    one_above, one_below = (above << one) | (above >> one), (below << one) | (below >> one)
    edge = (off[row] << one) | (off[row] >> one) | off[row - 1] | off[row + 1]
    corners = (both_above & both_below) | (((both_above & one_below) | (both_below & one_above)) & ~edge)
    return ((here << one) & (here >> one) & above & below & corners & ~here) >> one
