"""Building blocks of kernels: bit rows in one warp, and keyed draws with the same bits as `zerogo.board.rng` in torch
(logarithms, which come after, may round differently).

A plane of a board is a block of 32 lanes, int32: lane r holds row r, bit c is column c (see `board.flood`). Lanes
beyond the board and bits beyond its columns are 0 in every plane of existing points, so a shift that wraps around
brings in only zeros (N <= 25). A scalar is the same in all lanes. All functions on planes are for kernels of one warp,
and give the same results interpreted and compiled."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels import shared
from zerogo.kernels.cuda import launch

LANES = tl.constexpr(32)
GOLDEN, MIX_1, MIX_2 = tl.constexpr(shared.GOLDEN), tl.constexpr(shared.MIX_1), tl.constexpr(shared.MIX_2)
BLOCK = 128


@triton.jit
def from_above(rows):
    """Returns for each lane the row above it: int32 [32] -> int32 [32]."""
    return tl.gather(rows, (tl.arange(0, LANES) + 31) & 31, 0)


@triton.jit
def from_below(rows):
    """Returns for each lane the row below it: int32 [32] -> int32 [32]."""
    return tl.gather(rows, (tl.arange(0, LANES) + 1) & 31, 0)


@triton.jit
def shifts(rows):
    """Returns the points whose neighbour on the left, right, above or below is in the plane, int32 [32] each; bits and
    lanes may lie beyond the board, so mask them."""
    return rows << 1, rows >> 1, from_above(rows), from_below(rows)


@triton.jit
def neighbours(rows):
    """Returns the points next to a point of the plane; mask the result, too."""
    return (rows << 1) | (rows >> 1) | from_above(rows) | from_below(rows)


@triton.jit
def any_point(rows):
    """Returns whether a plane holds a point: int32 [32] -> bool scalar."""
    return tl.max((rows != 0).to(tl.int32), 0) != 0


@triton.jit
def row_counts(rows):
    """Returns how many points each row holds: int32 [...] -> int32 [...]. It compiles to one instruction."""
    x = rows.to(tl.uint32)
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24).to(tl.int32)


@triton.jit
def count(rows):
    """Returns how many points a plane holds: int32 [32] -> int32 scalar."""
    return tl.sum(row_counts(rows), 0)


@triton.jit
def first_column(rows):
    """Returns the column of each row's first point, 31 for an empty row: int32 [...] -> int32 [...]. Empty rows get bit
    31, since for 0 the compiler would make lanes diverge."""
    filled = rows | -2147483648
    return row_counts((filled & -filled) - 1)


@triton.jit
def first_point(rows, N: tl.constexpr):
    """Returns the index of the first point of a plane: int32 [32] -> int32 scalar, 32 * N or more if it is empty."""
    return tl.min(tl.where(rows != 0, tl.arange(0, LANES) * N + first_column(rows), LANES * N), 0)


@triton.jit
def point_rows(point, N: tl.constexpr):
    """Returns the plane of one point: int32 scalar, P or more or negative for none -> int32 [32]."""
    is_point = (point >= 0) & (point < N * N)
    row, column = point // N, tl.where(is_point, point % N, 0)
    return tl.where(is_point & (tl.arange(0, LANES) == row), 1 << column, 0)


@triton.jit
def load_rows(pointer, index, N: tl.constexpr):
    """Returns plane `index` of a tensor int32 [..., N]: int32 [32]; the index of a large tensor is int64."""
    lane = tl.arange(0, LANES)
    return tl.load(pointer + index * N + lane, mask=lane < N, other=0)


@triton.jit
def store_rows(pointer, index, rows, N: tl.constexpr):
    """Writes plane `index` of a tensor int32 [..., N]."""
    lane = tl.arange(0, LANES)
    tl.store(pointer + index * N + lane, rows, mask=lane < N)


@triton.jit
def store_points(points, plane, N: tl.constexpr):
    """Writes a plane as flags point by point, and True for pass: bool [A]."""
    for start in range(0, N * N + 1, LANES):
        point = start + tl.arange(0, LANES)
        place = tl.minimum(point, N * N - 1)
        is_set = (((tl.gather(plane, place // N, 0) >> (place % N)) & 1) != 0) | (point == N * N)
        tl.store(points + point, is_set, mask=point <= N * N)


@triton.jit
def fill_sideways(rows, within):
    """Returns the points of `within` whose run in the row contains a point of `rows`, which lie within.

    It fills higher columns by the carry of one addition, lower ones by doubling the distance."""
    rows |= within & ~(within + rows)
    for doubling in tl.static_range(5):
        rows |= within & (rows >> (1 << doubling))
        within &= within >> (1 << doubling)
    return rows


@triton.jit
def grow(rows, within):
    """Adds the points one row up and down, and then the runs that contain points; returns the result."""
    return fill_sideways(rows | ((from_above(rows) | from_below(rows)) & within), within)


@triton.jit
def flood(seeds, within):
    """Returns all points of `within` connected to a seed through it, to the fixpoint: int32 [32] each -> int32 [32].

    Seeds outside `within` do not count. It checks every two steps whether the flood still grows, since a check costs as
    much as a step."""
    rows = fill_sideways(seeds & within, within)
    grows = any_point(rows)
    while grows:
        before = grow(rows, within)
        rows = grow(before, within)
        grows = any_point(rows ^ before)
    return rows


@triton.jit
def hash_of(rows, keys, first, N: tl.constexpr):
    """Returns the XOR of the keys of all points of a plane: keys int64 [2 * A] (`board.position.point_keys`), first 0
    for Black's, A for White's -> int64 scalar."""
    lane = tl.arange(0, LANES)
    words = tl.zeros([LANES], tl.int64)
    left = any_point(rows)
    while left:
        words = words ^ tl.load(keys + first + lane * N + first_column(rows), mask=rows != 0, other=0)
        rows = rows & (rows - 1)
        left = any_point(rows)
    # In halves, as a warp reduces 32 bits in one instruction.
    low, high = tl.xor_sum(words.to(tl.int32), 0), tl.xor_sum((words >> 32).to(tl.int32), 0)
    return (high.to(tl.int64) << 32) | (low.to(tl.int64) & 0xFFFFFFFF)


@triton.jit
def first_plane(rows):
    """Returns a plane with only the first point of a plane: int32 [32] -> int32 [32], empty for an empty plane."""
    lane = tl.arange(0, LANES)
    row = tl.min(tl.where(rows != 0, lane, LANES), 0)
    return tl.where(lane == row, rows & -rows, 0)


# Keyed draws


@triton.jit
def mix(z):
    """Returns `rng.mix`: int64 -> int64."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * MIX_1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * MIX_2
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@triton.jit
def key_of(key, word):
    """Returns `rng.key` of a key and one more word: int64."""
    return mix(mix(key + GOLDEN) * 5 + GOLDEN + word)


@triton.jit
def gumbel_at(key, place):
    """Returns a key's standard Gumbel number at a place (int64): float32."""
    bits = (mix(key + (place + 1) * GOLDEN) >> 40) & 0xFFFFFF
    uniform = tl.minimum((bits.to(tl.float32) + 0.5) * (1.0 / 16777216.0), 1.0 - 1.0 / 16777216.0)
    return -tl.log(-tl.log(uniform))


def key(words: tuple[int | Tensor, ...], mask: int) -> Tensor | None:
    """Returns `rng.key` of words, numbers and at least one tensor, or with a mask `rng.below`; None if the tensors'
    shapes differ, so that torch must broadcast them."""
    tensors = [word for word in words if isinstance(word, Tensor)]
    if any(tensor.shape != tensors[0].shape for tensor in tensors):
        return None
    first = next(k for k, word in enumerate(words) if isinstance(word, Tensor))
    inputs = tuple(word.contiguous() if isinstance(word, Tensor) else tensors[0] for word in words[first:])
    numbers = tuple(None if isinstance(word, Tensor) else int(word) for word in words[first:])
    keys = torch.empty(inputs[0].shape, dtype=torch.int64, device=inputs[0].device)
    start, total = _start(*map(int, words[:first])), keys.numel()
    launch(key_kernel, triton.cdiv(total, BLOCK), keys, inputs, start, total, WORDS=numbers, MASK=mask, BLOCK=BLOCK)
    return keys


@cache
def _start(*numbers: int) -> int:
    """Returns the mix of the numbers before the first tensor, which is the same for all games."""
    return int(shared.mix_words(numbers))


@triton.jit(do_not_specialize=["start", "total"])
def key_kernel(keys, tensors, start, total, WORDS: tl.constexpr, MASK: tl.constexpr, BLOCK: tl.constexpr):
    """Mixes a block of keys. WORDS: the numbers to mix, None for a tensor."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = tl.zeros([BLOCK], tl.int64) + start
    for k in tl.static_range(len(WORDS)):
        if WORDS[k] is None:
            mixed = mix(mixed * 5 + GOLDEN + tl.load(tensors[k] + at, mask=at < total, other=0).to(tl.int64))
        else:
            mixed = mix(mixed * 5 + GOLDEN + WORDS[k])
    if MASK:
        mixed = (mixed >> 40) & MASK
    tl.store(keys + at, mixed, mask=at < total)
