"""Encoders' planes on CUDA: all of them painted in one launch, and the bit rows of some. The doors are those of
`cpu.planes`.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda.rows import from_above, from_below, load_rows, store_rows
from zerogo.kernels.shared import NUMBERS

BLOCK = 1024  # elements to a program
MOST_INT32 = 2**31 - BLOCK


def paint(
    spans: tuple[tuple[int, int], ...], rows: Tensor, numbers: Tensor, values: Tensor, dtype: torch.dtype
) -> Tensor:
    """Returns the planes of B positions: [B, N, N, C] of the dtype.

    spans: what the planes are made of, in their order: (ROWS, c) for the next c of `rows`, (NUMBERS, c) for the next
    one of `numbers`, of which v sets plane v - 1 of c, any beyond c the last and 0 none, (VALUES, c) for the next c of
    `values`. rows: int32 [B, N, R] bit rows. numbers: int16 [K, B, N, N]. values: float32 [B, N, N, V]."""
    num_games, size, num_rows = rows.shape
    num_planes = sum(width for _, width in spans)
    planes = torch.empty(num_games, size, size, num_planes, dtype=dtype, device=rows.device)
    given = rows.contiguous(), numbers.contiguous(), values.to(dtype).contiguous(), _table(spans, rows.device)
    widths = {"N": size, "C": num_planes, "R": num_rows, "V": values.shape[-1]}
    kinds = {"HAS_NUMBERS": numbers.shape[0] > 0, "HAS_VALUES": values.shape[-1] > 0}
    wide = planes.numel() > MOST_INT32
    paint_kernel[(triton.cdiv(planes.numel(), BLOCK),)](
        *given, planes, planes.numel(), **widths, **kinds, WIDE=wide, BLOCK=BLOCK
    )
    return planes


def history(black: Tensor, white: Tensor, recent: Tensor, own_first: Tensor | None, earlier: int) -> Tensor:
    """Returns the stones now and in earlier positions, newest first, Black's or the side to move's before the other's:
    int32 [B, N, 2 + 2 * earlier].

    black, white: int32 [B, N]. recent: int32 [B, 7, 2, N]. own_first: int8 [B], who is to move; None for Black's first.
    """
    num_games, size = black.shape
    rows = torch.empty(num_games, size, 2 + 2 * earlier, dtype=torch.int32, device=black.device)
    mover = black if own_first is None else own_first.contiguous()  # what is not asked for may be anything
    given = black.contiguous(), white.contiguous(), recent.contiguous(), mover
    sizes = {"N": size, "RECENT": recent.shape[1], "EARLIER": earlier, "OWN": own_first is not None}
    history_kernel[(triton.cdiv(rows.numel(), BLOCK),)](*given, rows, rows.numel(), **sizes, BLOCK=BLOCK)
    return rows


def ages(black: Tensor, white: Tensor, recent: Tensor, ply: Tensor, most: int) -> Tensor:
    """Returns the stones that have stood for 1, 2, … and for `most` or more positions (up to 8), 1 for the last move's:
    int32 [B, N, most].

    Stones of the start are the oldest. black, white: int32 [B, N]. recent: int32 [B, 7, 2, N]. ply: int32 [B].
    """
    num_games, size = black.shape
    rows = torch.empty(num_games, size, most, dtype=torch.int32, device=black.device)
    given = black.contiguous(), white.contiguous(), recent.contiguous(), ply.contiguous()
    ages_kernel[(triton.cdiv(black.numel(), BLOCK),)](
        *given, rows, black.numel(), N=size, RECENT=recent.shape[1], MOST=most, BLOCK=BLOCK
    )
    return rows


def eyes(own: Tensor, on_board: Tensor) -> Tensor:
    """Returns the eyes of a colour as `board.eyes` defines them: own, on_board int32 [B, N] -> int32 [B, N]."""
    found = torch.empty_like(own, memory_format=torch.contiguous_format)
    eyes_kernel[(len(own),)](own.contiguous(), on_board.contiguous(), found, N=own.shape[1], num_warps=1)
    return found


@cache
def _table(spans: tuple[tuple[int, int], ...], device: torch.device) -> Tensor:
    """Returns for each plane its form, its place in what is given of that form, the number that sets it, and the
    greatest of its span: int32 [4, C]."""
    met, planes = [0, 0, 0], []
    for form, width in spans:
        planes += [(form, met[form] + (0 if form == NUMBERS else k), k + 1, width) for k in range(width)]
        met[form] += 1 if form == NUMBERS else width
    return torch.tensor(planes, dtype=torch.int32).t().contiguous().to(device)


@triton.jit
def paint_kernel(
    rows, numbers, values, table, planes, total,
    N: tl.constexpr, C: tl.constexpr, R: tl.constexpr, V: tl.constexpr, HAS_NUMBERS: tl.constexpr, HAS_VALUES: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes some elements of [B, N, N, C], wherever they lie: each knows by its plane what it is made of."""
    first = tl.program_id(0).to(tl.int64) * BLOCK if WIDE else tl.program_id(0) * BLOCK
    element = first + tl.arange(0, BLOCK)
    exists = element < total
    point, plane = element // C, element % C
    form, index = tl.zeros([BLOCK], tl.int32), plane.to(tl.int32)
    if HAS_NUMBERS or HAS_VALUES:
        form, index = tl.load(table + plane, exists, 0), tl.load(table + C + plane, exists, 0)
    row, column = point // N, (point % N).to(tl.int32)
    word = tl.load(rows + row * R + index, exists & (form == 0), 0)
    result = ((word >> column) & 1).to(tl.float32)
    if HAS_NUMBERS:
        own, greatest = tl.load(table + 2 * C + plane, exists, 0), tl.load(table + 3 * C + plane, exists, 0)
        number = tl.load(numbers + index.to(tl.int64) * (total // C) + point, exists & (form == 1), 0).to(tl.int32)
        result = tl.where(form == 1, (tl.minimum(number, greatest) == own).to(tl.float32), result)
    if HAS_VALUES:
        value = tl.load(values + point * V + index, exists & (form == 2), 0)
        result = tl.where(form == 2, value.to(tl.float32), result)
    tl.store(planes + element, result.to(planes.dtype.element_ty), exists)


@triton.jit
def history_kernel(
    black, white, recent, mover, rows, total,
    N: tl.constexpr, RECENT: tl.constexpr, EARLIER: tl.constexpr, OWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes some words of [B, N, 2 + 2 * EARLIER]."""
    element = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = element < total
    place, plane = element // (2 + 2 * EARLIER), element % (2 + 2 * EARLIER)
    game, row = place // N, place % N
    ago, side = plane % (1 + EARLIER), plane // (1 + EARLIER)
    if OWN:
        side ^= (tl.load(mover + game, exists, 1) != 1).to(tl.int32)
    is_now = ago == 0
    word = tl.load(black + place, exists & is_now & (side == 0), 0) | tl.load(
        white + place, exists & is_now & (side == 1), 0
    )
    word |= tl.load(recent + ((game * RECENT + ago - 1) * 2 + side) * N + row, exists & ~is_now, 0)
    tl.store(rows + element, word, exists)


@triton.jit
def ages_kernel(
    black,
    white,
    recent,
    ply,
    rows,
    total,
    N: tl.constexpr,
    RECENT: tl.constexpr,
    MOST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Writes all ages of some rows of boards."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = place < total
    game, row = place // N, place % N
    own, other = tl.load(black + place, exists, 0), tl.load(white + place, exists, 0)
    length = tl.load(ply + game, exists, 0)
    for ago in tl.static_range(1, MOST):
        stood = own | other
        earlier = recent + ((game * RECENT + ago - 1) * 2) * N + row
        is_known = ago <= length
        own &= tl.where(is_known, tl.load(earlier, exists, 0), -1)
        other &= tl.where(is_known, tl.load(earlier + N, exists, 0), -1)
        tl.store(rows + place * MOST + ago - 1, stood & ~(own | other), exists)
    tl.store(rows + place * MOST + MOST - 1, own | other, exists)


@triton.jit
def eyes_kernel(own, on_board, found, N: tl.constexpr):
    """Finds the eyes of one game: a bit higher than on the board, so that the border on the left has a place."""
    game = tl.program_id(0).to(tl.int64)
    off = ~(load_rows(on_board, game, N) << 1)
    here = (load_rows(own, game, N) << 1) | off
    above, below = from_above(here), from_below(here)
    both_above, both_below = (above << 1) & (above >> 1), (below << 1) & (below >> 1)
    one_above, one_below = (above << 1) | (above >> 1), (below << 1) | (below >> 1)
    edge = (off << 1) | (off >> 1) | from_above(off) | from_below(off)
    corners = (both_above & both_below) | (((both_above & one_below) | (both_below & one_above)) & ~edge)
    sides = (here << 1) & (here >> 1) & above & below
    store_rows(found, game, (sides & corners & ~here) >> 1, N)
