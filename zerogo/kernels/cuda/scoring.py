"""How games end, on CUDA, one warp per game. Random games, complete in one launch, with the same draws and games as in
`players.playout.play_out`; and unconditional life of both colours, Benson's algorithm as in `zerogo.scoring`.

A row of the board is a lane (see `rows`). In Benson's algorithm floods find regions and strings one by one, again in
each of the few rounds. Two planes count the vital regions of strings: one or more, and two or more."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import board, launch, rows
from zerogo.kernels.cuda.rows import GOLDEN, mix
from zerogo.kernels.shared import PositionFields, fields_of

# Random games


def play_out(state: Any, keys: Tensor, longest: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones at the ends of K random games, and the points that the side to move played first; see
    `cpu.scoring.play_out`."""
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
    """Returns points or passes, as `cpu.scoring.pick`."""
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


# Unconditional life


def pass_alive_rows(
    black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor, by_vital: bool = True
) -> tuple[Tensor, Tensor]:
    """Returns Black's and White's pass-alive points: int32 [B, N] three times, bool [B] -> int32 [B, N] twice."""
    areas = [torch.empty_like(each, memory_format=torch.contiguous_format) for each in (black, white)]
    sizes = {"N": black.shape[1], "BY_VITAL": by_vital}
    launch(alive_kernel, len(black), black, white, on_board, suicide, *areas, None, **sizes, num_warps=1)
    return tuple(areas)


def all_pass_alive(black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor) -> Tensor:
    """Returns whether every point is pass-alive: bool [B]. Most games need only a quick test."""
    is_alive, sizes = torch.empty_like(suicide), {"N": black.shape[1], "BY_VITAL": True}
    launch(alive_kernel, len(black), black, white, on_board, suicide, None, None, is_alive, **sizes, num_warps=1)
    return is_alive


@triton.jit
def alive_kernel(
    blacks, whites, boards, suicides, black_area, white_area, is_alive, N: tl.constexpr, BY_VITAL: tl.constexpr
):  # fmt: skip
    """Writes the pass-alive points of one game, or whether all are."""
    game = tl.program_id(0)
    black, white = rows.load_rows(blacks, game, N), rows.load_rows(whites, game, N)
    on_board, may_die = rows.load_rows(boards, game, N), tl.load(suicides + game) != 0
    empty, goes_on = on_board & ~(black | white), tl.full((), 1, tl.int32) != 0
    if is_alive is not None:
        goes_on = _may_be_alive(black, white, empty)
    alive_black, alive_white = tl.zeros_like(black), tl.zeros_like(white)
    if goes_on:
        alive_black = area_for_good(black, on_board & ~black, empty, may_die, BY_VITAL)
        alive_white = area_for_good(white, on_board & ~white, empty, may_die, BY_VITAL)
    if is_alive is not None:
        missing = rows.any_point(on_board & ~(alive_black | alive_white))
        tl.store(is_alive + game, goes_on & (missing == 0))
    else:
        rows.store_rows(black_area, game, alive_black, N)
        rows.store_rows(white_area, game, alive_white, N)


@triton.jit
def _may_be_alive(black, white, empty):
    """Returns False for most games that are not pass-alive, see `scoring.all_pass_alive`: bool scalar."""
    far_black, far_white = empty & ~rows.neighbours(black), empty & ~rows.neighbours(white)
    open_points = far_black & rows.neighbours(far_black) & far_white & rows.neighbours(far_white)
    return (rows.any_point(open_points) == 0) & (rows.count(empty) >= 2)


@triton.jit
def area_for_good(stones, other, empty, may_die, BY_VITAL: tl.constexpr):
    """Returns the pass-alive stones and territory of the colour of `stones`: int32 [32] each, may_die a bool scalar.

    other: all points without a stone of that colour."""
    must = tl.where(may_die, other, empty)
    alive, changes = stones, rows.any_point(stones)
    while changes:
        twice = _with_two_eyes(stones, alive, other, empty, must) & alive
        changes = rows.any_point(alive ^ twice) & rows.any_point(twice)
        alive = twice
    area, left = alive, tl.where(rows.any_point(alive), other, 0)
    near, near_struck, more = rows.neighbours(alive), rows.neighbours(stones & ~alive), rows.any_point(left)
    while more:
        region = rows.flood(rows.first_plane(left), other)
        left = left & ~region
        is_closed = rows.any_point(region & near_struck) == 0
        is_small = rows.count(region & ~near) <= 1
        if BY_VITAL:
            if is_closed & (is_small == 0):
                once, _ = _count_eye(region, stones, must, tl.zeros_like(stones), tl.zeros_like(stones))
                is_small = rows.any_point(region & empty) & rows.any_point(once)
        area = tl.where(is_closed & is_small, area | region, area)
        more = rows.any_point(left)
    return area


@triton.jit
def _with_two_eyes(stones, alive, other, empty, must):
    """Returns the strings with two or more vital regions that touch no removed string."""
    once, twice = tl.zeros_like(stones), tl.zeros_like(stones)
    near, near_struck = rows.neighbours(stones), rows.neighbours(stones & ~alive)
    left, more = other, rows.any_point(other)
    while more:
        region = rows.flood(rows.first_plane(left), other)
        left = left & ~region
        bars = (region & near_struck) | (region & must & ~near)
        if rows.any_point(region & empty) & (rows.any_point(bars) == 0):
            once, twice = _count_eye(region, stones, must, once, twice)
        more = rows.any_point(left)
    return twice


@triton.jit
def _count_eye(region, stones, must, once, twice):
    """Returns the strings with one or more, and with two or more vital regions, including this region: it is vital to
    the strings next to its first point of `must` that also touch all others."""
    must_touch = region & must
    candidates = rows.neighbours(rows.first_plane(must_touch)) & stones
    more = rows.any_point(candidates)
    while more:
        string = rows.flood(rows.first_plane(candidates), stones)
        candidates = candidates & ~string
        is_vital = rows.any_point(must_touch & ~rows.neighbours(string)) == 0
        twice = tl.where(is_vital, twice | (once & string), twice)
        once = tl.where(is_vital, once | string, once)
        more = rows.any_point(candidates)
    return once, twice
