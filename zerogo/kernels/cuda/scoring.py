"""Unconditional life on CUDA, both colours of a game in one warp: Benson's algorithm as in `zerogo.scoring`.

A row of the board is a lane (see `rows`). Floods find regions and strings one by one, again in each of the few rounds.
Two planes count the vital regions of strings: one or more, and two or more."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import launch, rows


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
    board, may_die = rows.load_rows(boards, game, N), tl.load(suicides + game) != 0
    empty, goes_on = board & ~(black | white), tl.full((), 1, tl.int32) != 0
    if is_alive is not None:
        goes_on = _may_be_alive(black, white, empty)
    alive_black, alive_white = tl.zeros_like(black), tl.zeros_like(white)
    if goes_on:
        alive_black = area_for_good(black, board & ~black, empty, may_die, BY_VITAL)
        alive_white = area_for_good(white, board & ~white, empty, may_die, BY_VITAL)
    if is_alive is not None:
        missing = rows.any_point(board & ~(alive_black | alive_white))
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
