"""Random games on CUDA, complete games in one launch, one warp each: the same draws and games as in
`players.playout.play_out`."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.arguments import PositionFields, fields_of
from zerogo.kernels.cuda import board, launch, rows
from zerogo.kernels.cuda.draws import GOLDEN, mix


def play_out(state: Any, keys: Tensor, longest: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones at the ends of K random games, and the points that the side to move played first; see
    `cpu.playouts.play_out`."""
    number, size = len(keys), state.board_size
    last = torch.empty(3, number, size, dtype=torch.int32, device=keys.device)
    arguments = fields_of(PositionFields, state), state.on_board, keys, longest, last, number // max(1, state.num_games)
    launch(play_kernel, number, *arguments, N=size, num_warps=1)
    return last[:2], last[2]


@triton.jit(do_not_specialize=["each"])
def play_kernel(fields, on_board, keys, longest, last, each, N: tl.constexpr):
    """Plays one game to its end. An illegal point that is drawn is struck out, and another one is drawn."""
    k = tl.program_id(0)
    game = k // each
    position, exists = board.load_position(fields, game, N), rows.load_rows(on_board, game, N)
    own_stones, other = board.sides(position)
    atari, struck, key = position.atari, rows.point_rows(position.ko, N), tl.load(keys + k)
    seen, first, none = tl.zeros_like(own_stones), tl.zeros_like(own_stones), tl.zeros_like(own_stones)
    passes, ply = tl.where(position.finished, 2, position.passes), position.ply * 0
    max_plies = tl.load(longest + game)
    goes_on = (passes < 2) & (ply < max_plies)
    while goes_on:
        empty = exists & ~(own_stones | other)
        points = empty & ~struck & ~_eyes(own_stones, exists)
        key += GOLDEN
        place = _point_of(points, (mix(key) >> 40) & 0xFFFFFF)
        is_pass = rows.any_point(points) == 0
        safe = rows.neighbours(empty | (own_stones & ~atari) | (other & atari))
        is_move = rows.any_point(place & safe)
        struck |= place
        if is_move:
            own_stones, other, atari, dead, _, is_ko = board.put_stone(place, own_stones, other, atari, exists, False)
            first |= tl.where((ply & 1) == 0, place & ~seen, 0)
            seen |= place
            struck = tl.where(is_ko, dead, 0)
        passes = tl.where(is_move, 0, passes + is_pass.to(tl.int32))
        if is_move | is_pass:
            own_stones, other, ply = other, own_stones, ply + 1
            struck = tl.where(is_pass, none, struck)
        goes_on = (passes < 2) & (ply < max_plies)
    is_black = (position.to_play == 1) == ((ply & 1) == 0)
    planes = tl.num_programs(0).to(tl.int64)
    rows.store_rows(last, k, tl.where(is_black, own_stones, other), N)
    rows.store_rows(last, planes + k, tl.where(is_black, other, own_stones), N)
    rows.store_rows(last, 2 * planes + k, first, N)


def pick(planes: Tensor, drawn: Tensor) -> Tensor:
    """Returns points or passes, as `cpu.playouts.pick`."""
    actions = torch.empty_like(drawn)
    launch(pick_kernel, len(drawn), planes, drawn, actions, N=planes.shape[1], num_warps=1)
    return actions


@triton.jit
def pick_kernel(planes, drawn, actions, N: tl.constexpr):
    """Draws the point or pass of one game."""
    game = tl.program_id(0)
    place = _point_of(rows.load_rows(planes, game, N), tl.load(drawn + game), 1)
    tl.store(actions + game, tl.minimum(rows.first_point(place, N), N * N).to(tl.int64))


@triton.jit
def _eyes(stones, exists):
    """Returns `flood.eyes`, also where they are occupied: int32 [32]."""
    off = ~exists
    solid = stones | off
    above, below = rows.from_above(solid), rows.from_below(solid)
    a, b, c, d = (above << 1) | 1, above >> 1, (below << 1) | 1, below >> 1
    edge = (off << 1) | 1 | (off >> 1) | rows.from_above(off) | rows.from_below(off)
    corners = (a & b & c & d) | (((a & b & (c | d)) | (c & d & (a | b))) & ~edge)
    return ((solid << 1) | 1) & (solid >> 1) & above & below & corners & ~solid


@triton.jit
def _point_of(points, drawn, OTHERS: tl.constexpr = 0):
    """Returns the plane of the point that a number of 24 bits draws, empty from an empty plane: int32 [32]. OTHERS: how
    many other outcomes there are, after all points."""
    in_row = rows.row_counts(points)
    until = tl.cumsum(in_row, 0)
    rank = ((drawn * (tl.sum(in_row, 0) + OTHERS)) >> 24).to(tl.int32)
    left, bits, column = rank - (until - in_row), points, tl.zeros_like(points)
    is_row = (left >= 0) & (rank < until)
    for halving in tl.static_range(5):  # the column of the bit with `left` ones below it
        low = rows.row_counts(bits & ((1 << (16 >> halving)) - 1))
        is_above = low <= left
        left, bits = tl.where(is_above, left - low, left), tl.where(is_above, bits >> (16 >> halving), bits)
        column += tl.where(is_above, 16 >> halving, 0)
    return tl.where(is_row, 1 << column, 0)
