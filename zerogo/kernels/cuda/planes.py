"""What encoders and networks need on CUDA: tactics, one program per game, string by string, without waiting for the
host; planes, painted in one launch; and the steps after a convolution of a playing network.

A flood of a string's stones finds its liberties, and so what a move on each of them joins or captures. Tiles, with a
row of the board per lane, add up these numbers; several numbers share a word. Only moves that join several strings, or
join one and capture another, need a separate flood."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import launch
from zerogo.kernels.cuda.rows import LANES, any_point, count, first_plane, flood, load_rows, neighbours, shifts
from zerogo.kernels.shared import COUNTS, ROWS, TACTICS

# The fields of the tiles' words, for a move: `joined` has the stones that it joins, their strings, and the stones that
# the opponent would capture there; `after` has its liberties and the stones that it captures. A board has at most 625
# points.
STRING, LOST, TAKEN = tl.constexpr(1 << 10), tl.constexpr(1 << 13), tl.constexpr(1 << 12)
MANY = tl.constexpr(1 << 14)  # more liberties than any string has
BLOCK = 1024  # elements per program, of planes and of a convolution's output
POOLED_TOGETHER, POINTS = 32, 128  # of pooling: channels per program, and points at a time
MOST_INT32 = 2**31 - BLOCK
IS_ROWS, IS_COUNTS = tl.constexpr(ROWS), tl.constexpr(COUNTS)


# Tactics


def read_tactics(own_stones: Tensor, opponent: Tensor, on_board: Tensor, legal: Tensor) -> Tensor:
    """Returns the tactics of B positions: int16 [8, B, N, N]; see `cpu.planes.read_tactics`."""
    num_games, size = own_stones.shape
    numbers = torch.empty(len(TACTICS), num_games, size, size, dtype=torch.int16, device=own_stones.device)
    sizes = {"N": size, "COLUMNS": triton.next_power_of_2(size), "num_warps": 1}
    launch(tactics_kernel, num_games, own_stones, opponent, on_board, legal, numbers, **sizes)
    return numbers


@triton.jit
def tactics_kernel(owns, opponents, on_board, legal, numbers, N: tl.constexpr, COLUMNS: tl.constexpr):
    """Reads one game and writes its part of `numbers`."""
    game = tl.program_id(0).to(tl.int64)
    own_stones, opponent, moves = load_rows(owns, game, N), load_rows(opponents, game, N), load_rows(legal, game, N)
    stones = own_stones | opponent
    empty = load_rows(on_board, game, N) & ~stones
    weak, hard, joined, after, near = _strings(own_stones, opponent, empty, COLUMNS)
    after = _after_hard(own_stones, weak, empty, hard & moves, after, COLUMNS)
    row, column = tl.arange(0, LANES)[:, None], tl.arange(0, COLUMNS)[None, :]
    place, step = numbers + (game * N + row) * N + column, tl.num_programs(0).to(tl.int64) * N * N
    inside = (row < N) & (column < N)
    may, size, liberties = _tile(moves, COLUMNS), 1 + joined % STRING, after % TAKEN
    tl.store(place, near * _tile(stones, COLUMNS), inside)
    tl.store(place + step, may * (after // TAKEN), inside)
    tl.store(place + 2 * step, joined // LOST, inside)
    tl.store(place + 3 * step, may * liberties, inside)
    tl.store(place + 4 * step, may * size, inside)
    tl.store(place + 5 * step, may * tl.where(liberties < 2, size, 0), inside)
    tl.store(place + 6 * step, may * (joined % LOST // STRING), inside)
    tl.store(place + 7 * step, tl.where(near == MANY, 0, near * _tile(empty, COLUMNS)), inside)


@triton.jit
def _strings(own_stones, opponent, empty, COLUMNS: tl.constexpr):
    """Goes through the strings. Returns the opponent's strings in atari, the moves that need a flood, and three tiles:
    `joined`, `after`, and the liberties of the string on a point or of the opponent's weakest next to it."""
    none = tl.zeros_like(own_stones)
    weak, once, twice, takes = none, none, none, none
    joined, after = tl.zeros([LANES, COLUMNS], tl.int32), tl.zeros([LANES, COLUMNS], tl.int32)
    near = _tile(empty, COLUMNS) * MANY
    left = own_stones | opponent
    while any_point(left):
        seed = first_plane(left)
        is_own = any_point(seed & own_stones)
        string = flood(seed, tl.where(is_own, own_stones, opponent))
        left &= ~string
        liberties = neighbours(string) & empty
        number, size, liberty_tile = count(liberties), count(string), _tile(liberties, COLUMNS)
        near += number * _tile(string, COLUMNS)
        if is_own:
            joined += liberty_tile * (size + STRING + tl.where(number == 1, size * LOST, 0))
            after += liberty_tile * (number - 1 + _numbers_beside(empty & ~liberties, COLUMNS))
            twice |= once & liberties
            once |= liberties
        else:
            near = tl.where(liberty_tile != 0, tl.minimum(near, number), near)
            after += liberty_tile * tl.where(number == 1, size * TAKEN, 0)
            weak |= tl.where(number == 1, string, 0)
            takes |= tl.where(number == 1, liberties, 0)
    after += _tile(~once, COLUMNS) * _numbers_beside(empty | weak, COLUMNS)
    return weak, twice | (once & takes), joined, after, near


@triton.jit
def _after_hard(own_stones, weak, empty, hard, after, COLUMNS: tl.constexpr):
    """Returns the tile `after` with the liberties of moves that need a flood: the points next to the new string that
    are empty or were captured."""
    while any_point(hard):
        move = first_plane(hard)
        hard &= ~move
        string, dead = flood(move, own_stones | move), flood(neighbours(move) & weak, weak)
        number = count(neighbours(string) & (empty | dead) & ~move)
        after = tl.where(_tile(move, COLUMNS) != 0, after - after % TAKEN + number, after)
    return after


@triton.jit
def _tile(rows, COLUMNS: tl.constexpr):
    """Returns bit rows as points: int32 [32] -> int32 [32, COLUMNS], 0 or 1."""
    return (rows[:, None] >> tl.arange(0, COLUMNS)[None, :]) & 1


@triton.jit
def _numbers_beside(rows, COLUMNS: tl.constexpr):
    """Returns how many neighbours of each point are in the plane: int32 [32] -> int32 [32, COLUMNS]. The shifts are
    added bitwise."""
    left, right, up, down = shifts(rows)
    across, along = left ^ right, up ^ down
    ones = across ^ along
    twos = (left & right) ^ (up & down) ^ (across & along)
    fours = left & right & up & down
    return _tile(ones, COLUMNS) + 2 * _tile(twos, COLUMNS) + 4 * _tile(fours, COLUMNS)


# Planes


def paint(spans: tuple[tuple[int, int], ...], rows: Tensor, counts: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the planes of B positions: [B, N, N, C] of the dtype; see `cpu.planes.paint`."""
    num_games, num_rows, size = rows.shape
    num_planes = sum(width for _, width in spans)
    planes = torch.empty(num_games, size, size, num_planes, dtype=dtype, device=rows.device)
    inputs, total = (rows, counts, _table(spans, rows.device), planes), planes.numel()
    sizes = {"N": size, "C": num_planes, "R": num_rows, "ONLY_ROWS": all(form == ROWS for form, _ in spans)}
    launch(paint_kernel, triton.cdiv(total, BLOCK), *inputs, total, **sizes, WIDE=total > MOST_INT32, BLOCK=BLOCK)
    return planes


@cache
def _table(spans: tuple[tuple[int, int], ...], device: torch.device) -> Tensor:
    """Returns for each plane its form, its index among the inputs of that form, the number that sets it, and the
    largest number of its span: int32 [4, C]."""
    met, planes = dict.fromkeys((form for form, _ in spans), 0), []
    for form, width in spans:
        planes += [(form, met[form] + (0 if form == COUNTS else k), k + 1, width) for k in range(width)]
        met[form] += 1 if form == COUNTS else width
    return torch.tensor(planes, dtype=torch.int32).t().contiguous().to(device)


@triton.jit
def paint_kernel(
    rows, counts, table, planes, total,
    N: tl.constexpr, C: tl.constexpr, R: tl.constexpr,
    ONLY_ROWS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each program writes BLOCK elements of planes [B, N, N, C] in memory order; an element's plane determines its
    source. Neighbouring lanes differ in the plane, so stores are coalesced, and their loads of one point come from the
    cache. WIDE: elements are counted in int64."""
    first = tl.program_id(0).to(tl.int64) * BLOCK if WIDE else tl.program_id(0) * BLOCK
    element = first + tl.arange(0, BLOCK)
    exists = element < total
    point, plane = element // C, (element % C).to(tl.int32)
    game, place = point // (N * N), (point % (N * N)).to(tl.int32)
    row, column = place // N, place % N
    form, index = tl.zeros([BLOCK], tl.int32) + IS_ROWS, plane
    if not ONLY_ROWS:
        form, index = tl.load(table + plane, exists, 0), tl.load(table + C + plane, exists, 0)
    word = tl.load(rows + (game * R + index) * N + row, exists & (form == IS_ROWS), 0)
    result = (word >> column) & 1
    if not ONLY_ROWS:
        number, greatest = tl.load(table + 2 * C + plane, exists, 0), tl.load(table + 3 * C + plane, exists, 0)
        is_count = form == IS_COUNTS
        count = tl.load(counts + index.to(tl.int64) * (total // C) + point, exists & is_count, 0).to(tl.int32)
        result = tl.where(is_count, (tl.minimum(count, greatest) == number).to(tl.int32), result)
    tl.store(planes + element, result.to(tl.float32).to(planes.dtype.element_ty), exists)


# The steps after a convolution: bias, residual, relu, and zero off the board, in one pass over its output; and pooling
# over the board.


def finish_(y: Tensor, bias: Tensor, residual: Tensor | None, on_board: Tensor | None, relu: bool) -> Tensor:
    """Overwrites y, [B, C, N, N] in channels_last memory, with y + bias + residual, with relu if requested, 0 off the
    board, and returns it. Sums are in float32, rounded once.

    bias: [C]. residual: [B, C, N, N] or [B, C, 1, 1]. on_board: bool [B, N, N]. The last three may be of any type."""
    num_games, channels, size, _ = y.shape
    assert y.is_contiguous(memory_format=torch.channels_last), f"y has the strides {y.stride()}, not channels_last"
    by_game = residual is not None and residual.shape[-1] != size
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    mask = None if on_board is None else on_board.contiguous()
    if total := y.numel():
        sizes = {"C": channels, "P": size * size, "BY_GAME": by_game, "RELU": relu, "BLOCK": BLOCK}
        finish_kernel[(triton.cdiv(total, BLOCK),)](y, bias, residual, mask, total, **sizes, num_warps=4)
    return y


@triton.jit
def finish_kernel(
    y, bias, residual, on_board, total,
    C: tl.constexpr, P: tl.constexpr, BY_GAME: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Finishes BLOCK numbers in memory order: neighbours differ in the channel. Divisions are in int32 except
    those of a program's first number: in int64 they take longer than the memory accesses."""
    first, lane = tl.program_id(0).to(tl.int64) * BLOCK, tl.arange(0, BLOCK)
    at, exists, place = first + lane, lane < total - first, (first % C).to(tl.int32) + lane
    channel = place % C
    value = tl.load(y + at, mask=exists).to(tl.float32) + tl.load(bias + channel).to(tl.float32)
    if residual is not None:
        source = at
        if BY_GAME:
            source = (first // (C * P) + ((first % (C * P)).to(tl.int32) + lane) // (C * P)) * C + channel
        value += tl.load(residual + source, mask=exists).to(tl.float32)
    if RELU:
        value = tl.where(value < 0, 0.0, value)  # NaN stays NaN
    if on_board is not None:
        value = tl.where(tl.load(on_board + first // C + place // C, mask=exists, other=0) != 0, value, 0.0)
    tl.store(y + at, value.to(y.dtype.element_ty), mask=exists)


def pool(y: Tensor, channels: int, bias: Tensor | None, by_area: bool) -> Tensor:
    """Returns the first channels of y, or with a bias of relu(y + bias), pooled over the board as by `network.pool`:
    float32 [B, 3 * channels].

    y: [B, C, N, N] in channels_last memory. bias: [C] of any type. A NaN shows in the means alone."""
    num_games, all_channels, size, _ = y.shape
    pooled = torch.empty(num_games, 3 * channels, dtype=torch.float32, device=y.device)
    assert y.is_contiguous(memory_format=torch.channels_last), f"y has the strides {y.stride()}, not channels_last"
    width = min(POOLED_TOGETHER, triton.next_power_of_2(channels))
    if num_games:
        sizes = {"C": all_channels, "K": channels, "P": size * size, "BY_AREA": by_area, "WIDTH": width}
        grid = num_games, triton.cdiv(channels, width)
        pool_kernel[grid](y, bias, pooled, (size - 14) / 10, **sizes, POINTS=POINTS, num_warps=4)
    return pooled


@triton.jit
def pool_kernel(
    y, bias, pooled, scale,
    C: tl.constexpr, K: tl.constexpr, P: tl.constexpr, BY_AREA: tl.constexpr, WIDTH: tl.constexpr, POINTS: tl.constexpr,
):  # fmt: skip
    """Pools WIDTH channels of one game, POINTS points at a time."""
    game, channel = tl.program_id(0).to(tl.int64), tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    exists, total, largest = channel < K, tl.zeros([WIDTH], tl.float32), tl.full([WIDTH], -float("inf"), tl.float32)
    for first in range(0, P, POINTS):
        point = first + tl.arange(0, POINTS)
        inside = (point < P)[:, None] & exists[None, :]
        value = tl.load(y + (game * P + point[:, None]) * C + channel[None, :], mask=inside, other=0).to(tl.float32)
        if bias is not None:
            value += tl.load(bias + channel, mask=exists, other=0).to(tl.float32)[None, :]
            value = tl.where(inside & ~(value < 0), value, 0.0)
        total += tl.sum(value, 0)
        largest = tl.maximum(largest, tl.max(tl.where(inside, value, -float("inf")), 0))
    mean, place = total / P, pooled + game * 3 * K + channel
    tl.store(place, mean, mask=exists)
    tl.store(place + K, mean * scale, mask=exists)
    tl.store(place + 2 * K, mean * (scale * scale - 0.1) if BY_AREA else largest, mask=exists)
