"""Tactics on CUDA: one program per game, string by string, without waiting for the host.

A flood of a string's stones finds its liberties, and so what a move on each of them joins or captures. Tiles, with a
row of the board per lane, add up these numbers; several numbers share a word. Only moves that join several strings, or
join one and capture another, need a separate flood."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.arguments import TACTICS
from zerogo.kernels.cuda import launch
from zerogo.kernels.cuda.rows import LANES, any_point, count, first_plane, flood, load_rows, neighbours, shifts

# The fields of the tiles' words, for a move: `joined` has the stones that it joins, their strings, and the stones that
# the opponent would capture there; `after` has its liberties and the stones that it captures. A board has at most 625
# points.
STRING, LOST, TAKEN = tl.constexpr(1 << 10), tl.constexpr(1 << 13), tl.constexpr(1 << 12)
MANY = tl.constexpr(1 << 14)  # more liberties than any string has


def read(own_stones: Tensor, opponent: Tensor, on_board: Tensor, legal: Tensor) -> Tensor:
    """Returns the tactics of B positions: int16 [8, B, N, N]; see `cpu.tactics.read`."""
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
