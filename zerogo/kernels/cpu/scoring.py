"""How games end, on the CPU: random games to their end, one by one, with the same draws and games as in
`players.playout.play_out`; and unconditional life, Benson's algorithm as in `zerogo.scoring`, one game and one colour
at a time.

For Benson's algorithm OWN in scratch memory holds the colour's stones, OTHER all other points, FREE the empty ones, and
MUST those of OTHER that a string must touch for a region to be vital to it. SAFE holds the strings that are not
removed, STRUCK the others. Two planes count the vital regions of strings: ONCE for one or more, TWICE for two or
more."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu import arrays_of, bit_count, inline, kernel, over_games, part, strings
from zerogo.kernels.cpu.planes import eyes_of_row
from zerogo.kernels.cpu.strings import ATARI, FREE, NO_POINTS, OTHER, OWN, STRIDE, STRING, neighbours_in, string
from zerogo.kernels.shared import GOLDEN, PositionFields, mix

_mix = inline(mix)
MUST, SAFE, STRUCK, ONCE = strings.SCORED
TWICE = OTHER  # which is free once it is split into regions


# Random games


def play_out(state: Any, keys: Tensor, longest: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones at the ends of K random games, black and white, int32 [2, K, N], and the points that the side
    to move at the start was the first to play, int32 [K, N].

    state: `board.State` of B positions, K / B games from each. keys: int64 [K]. longest: int32 [B], plies after which a
    game ends."""
    last = torch.zeros(3, len(keys), state.board_size, dtype=torch.int32)
    over_games(_play_out, len(keys), arrays_of(PositionFields, state), state.on_board, keys, longest, last)
    return last[:2], last[2]


@kernel
def _play_out(start, stop, position, on_board, keys, longest, last):
    size, each = on_board.shape[1], len(keys) // len(on_board)
    work, struck = strings.scratch(), np.zeros(size, np.int32)
    points, seen = np.zeros(size, np.int32), np.zeros(size, np.int32)
    solid, off = np.full(size + 2, ~np.uint32(0)), np.full(size + 2, ~np.uint32(0))
    no_keys = np.zeros(2 * (size * size + 1), np.int64)  # a playout needs no hash
    for k in range(start, stop):
        game = k // each
        for row in range(size):
            off[row + 1] = ~(np.uint32(on_board[game, row]) << np.uint32(1))
            struck[row], seen[row] = 0, 0
        ko, key, ply = position.ko[game], keys[k], 0
        passes, is_black = 2 if position.finished[game] else position.passes[game], position.to_play[game] == 1
        strings.load(work, position, game, on_board[game])
        while passes < 2 and ply < longest[game]:
            if ko >= 0:
                struck[ko // size] |= 1 << (ko % size)
                ko = -1
            number = _list_points(work, struck, solid, off, points)
            key += GOLDEN
            passes += 1
            if number > 0:
                rank = (((_mix(key) >> 40) & 0xFFFFFF) * number) >> 24
                row, bit = _point_of(points, rank)
                if not _is_legal(work, row, bit):
                    struck[row - 1] |= bit
                    passes -= 1
                    continue
                action = (row - 1) * size + bit_count((bit & -bit) - 1)
                _, _, _, ko = strings.move(work, size, action, 0, False, no_keys)
                passes = 0
                if ply & 1 == 0:
                    last[2, k, row - 1] |= bit & ~seen[row - 1]
                seen[row - 1] |= bit
            struck[:] = 0
            for row in range(1, size + 1):
                work[OWN + row], work[OTHER + row] = work[OTHER + row], work[OWN + row]
            is_black, ply = not is_black, ply + 1
        for row in range(size):
            own_stones, other = work[OWN + 1 + row], work[OTHER + 1 + row]
            last[0, k, row], last[1, k, row] = (own_stones, other) if is_black else (other, own_stones)


def pick(planes: Tensor, drawn: Tensor) -> Tensor:
    """Returns one of each plane's points or the pass, all equally likely, drawn by numbers of 24 bits: int32 [B, N],
    int64 [B] -> int64 [B]."""
    actions = torch.empty_like(drawn)
    over_games(_pick, len(drawn), planes, drawn, actions)
    return actions


@kernel
def _pick(first, last, planes, drawn, actions):
    size = planes.shape[1]
    for game in range(first, last):
        number = 0
        for row in range(size):
            number += bit_count(planes[game, row])
        rank = (drawn[game] * (number + 1)) >> 24
        actions[game] = size * size
        if rank < number:
            row, bit = _point_of(planes[game], rank)
            actions[game] = (row - 1) * size + bit_count(bit - 1)


@part
def _list_points(work, struck, solid, off, points):
    """Writes the empty points that are neither struck out nor eyes of the side to move; returns how many there are."""
    size, number = len(points), 0
    for row in range(1, size + 1):
        solid[row] = (np.uint32(work[OWN + row]) << np.uint32(1)) | off[row]
    for row in range(1, size + 1):
        points[row - 1] = work[FREE + row] & ~struck[row - 1] & ~np.int32(eyes_of_row(solid, off, row))
        number += bit_count(points[row - 1])
    return number


@part
def _point_of(points, rank):
    """Returns row (from 1) and bit of the point with the given rank."""
    row = 0
    while bit_count(points[row]) <= rank:
        rank -= bit_count(points[row])
        row += 1
    bits = points[row]
    for _ in range(rank):
        bits &= bits - 1
    return row + 1, bits & -bits


@part
def _is_legal(work, row, bit):
    """Returns whether a stone there would have a liberty: an empty neighbour, an own string with another liberty, or a
    string to capture."""
    near = 0
    for at in (row - 1, row, row + 1):
        safe = (work[OWN + at] ^ work[ATARI + at]) | work[FREE + at]
        near |= (safe << 1) | (safe >> 1) if at == row else safe
    return (near & bit) != 0


# Unconditional life


def pass_alive_rows(
    black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor, by_vital: bool = True
) -> tuple[Tensor, Tensor]:
    """Returns Black's and White's pass-alive points: int32 [B, N] three times, bool [B] -> int32 [B, N] twice."""
    areas, is_alive = torch.empty(2, *black.shape, dtype=torch.int32), torch.zeros(len(black), dtype=torch.bool)
    over_games(_pass_alive, len(black), black, white, on_board, suicide, False, by_vital, *areas, is_alive)
    return areas[0], areas[1]


def all_pass_alive(black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor) -> Tensor:
    """Returns whether every point is pass-alive: bool [B]; most games need only a quick test, which writes no areas."""
    areas, is_alive = torch.empty(2, *black.shape, dtype=torch.int32), torch.zeros(len(black), dtype=torch.bool)
    over_games(_pass_alive, len(black), black, white, on_board, suicide, True, True, *areas, is_alive)
    return is_alive


@kernel
def _pass_alive(start, stop, black, white, on_board, suicide, is_quick, by_vital, black_area, white_area, is_alive):
    size, work = black.shape[1], strings.scratch()
    regions = np.zeros((size * size // 2 + 1, STRIDE), np.int32)
    for game in range(start, stop):
        if is_quick and not _may_be_alive(work, black, white, on_board, game):
            continue
        _benson(work, regions, black, white, on_board, game, suicide[game], by_vital, black_area)
        _benson(work, regions, white, black, on_board, game, suicide[game], by_vital, white_area)
        missing = 0
        for row in range(size):
            missing |= on_board[game, row] & ~(black_area[game, row] | white_area[game, row])
        is_alive[game] = missing == 0


@inline
def _may_be_alive(work, black, white, on_board, game):
    """Returns False for most games that are not pass-alive, by a quick test for two neighbouring empty points away from
    all stones, see `scoring.all_pass_alive`."""
    size, number = black.shape[1], 0
    for row in range(size):
        work[OWN + 1 + row], work[OTHER + 1 + row] = black[game, row], white[game, row]
        work[FREE + 1 + row] = on_board[game, row] & ~(black[game, row] | white[game, row])
        number += bit_count(work[FREE + 1 + row])
    for row in range(1, 1 + size):
        work[SAFE + row] = work[FREE + row] & ~neighbours_in(work, OWN, row)
        work[STRUCK + row] = work[FREE + row] & ~neighbours_in(work, OTHER, row)
    for row in range(1, 1 + size):
        far = work[SAFE + row] & work[STRUCK + row]
        if (far & neighbours_in(work, SAFE, row) & neighbours_in(work, STRUCK, row)) != 0:
            return False
    return number >= 2


@inline
def _benson(work, regions, own_stones, opponent, on_board, game, may_die, by_vital, area):
    """Writes the pass-alive points of a colour in one game into int32 [B, N]."""
    size, living = own_stones.shape[1], 0
    for row in range(size):
        work[OWN + 1 + row] = work[SAFE + 1 + row] = own_stones[game, row]
        work[OTHER + 1 + row] = on_board[game, row] & ~own_stones[game, row]
        work[FREE + 1 + row] = work[OTHER + 1 + row] & ~opponent[game, row]
        work[MUST + 1 + row] = work[OTHER + 1 + row] if may_die else work[FREE + 1 + row]
    num_regions = _split_into_regions(work, size, regions)
    while _strike(work, size, regions, num_regions):
        pass
    for row in range(size):
        area[game, row] = work[SAFE + 1 + row]
        living |= work[SAFE + 1 + row]
    for k in range(num_regions):
        if living != 0 and _is_territory(work, size, regions[k], by_vital):
            for row in range(size):
                area[game, row] |= regions[k, 1 + row]


@inline
def _split_into_regions(work, size, regions):
    """Writes the connected parts of OTHER as rows, and returns their number; empties OTHER."""
    number = 0
    for row in range(1, 1 + size):
        while work[OTHER + row] != 0:
            string(work, OTHER, NO_POINTS, row, work[OTHER + row] & -work[OTHER + row], False)
            for k in range(1, 1 + size):
                regions[number, k] = work[STRING + k]
                work[OTHER + k] &= ~work[STRING + k]
            number += 1
    return number


@inline
def _strike(work, size, regions, num_regions):
    """Removes strings with fewer than two vital regions that touch no removed string; returns whether there were
    any."""
    changes = False
    for row in range(1, 1 + size):
        work[STRUCK + row] = work[OWN + row] & ~work[SAFE + row]
        work[ONCE + row] = work[TWICE + row] = 0
    for k in range(num_regions):
        if _may_be_vital(work, size, regions[k]):
            _count_vital(work, size, regions[k])
    for row in range(1, 1 + size):
        changes |= (work[SAFE + row] & ~work[TWICE + row]) != 0
        work[SAFE + row] &= work[TWICE + row]
    return changes


@inline
def _may_be_vital(work, size, region):
    """Returns whether a region has an empty point, touches no removed string, and has no point of MUST away from all
    strings."""
    empty, barred = 0, 0
    for row in range(1, 1 + size):
        empty |= region[row] & work[FREE + row]
        away = work[MUST + row] & ~neighbours_in(work, OWN, row)
        barred |= region[row] & (away | neighbours_in(work, STRUCK, row))
    return empty != 0 and barred == 0


@inline
def _count_vital(work, size, region):
    """Counts a region, in ONCE and TWICE, for the strings to which it is vital: those next to its first point of MUST
    that also touch all others."""
    first = 1
    while (region[first] & work[MUST + first]) == 0:
        first += 1
    bit = region[first] & work[MUST + first]
    bit &= -bit
    is_met = 0  # by side, whether its string was another side's
    for side in range(4):
        near, at = strings.neighbour_of(side, first, bit)
        if (work[OWN + near] & at) == 0 or (is_met >> side) & 1 == 1:
            continue
        string(work, OWN, NO_POINTS, near, at, False)
        for other in range(side + 1, 4):
            near, at = strings.neighbour_of(other, first, bit)
            is_met |= ((work[STRING + near] & at) != 0) << other
        missed = 0
        for row in range(first, 1 + size):
            missed |= region[row] & work[MUST + row] & ~neighbours_in(work, STRING, row)
        if missed == 0:
            for row in range(1, 1 + size):
                work[TWICE + row] |= work[ONCE + row] & work[STRING + row]
                work[ONCE + row] |= work[STRING + row]


@inline
def _is_territory(work, size, region, by_vital):
    """Returns whether a region is territory: it touches only living strings, and has at most one point away from them
    or, if that counts, is vital to one."""
    away, struck, vital = 0, 0, 0
    for row in range(1, 1 + size):
        struck |= region[row] & neighbours_in(work, STRUCK, row)
        away += bit_count(region[row] & ~neighbours_in(work, SAFE, row))
        work[ONCE + row] = work[TWICE + row] = 0
    if struck == 0 and away > 1 and by_vital and _may_be_vital(work, size, region):
        _count_vital(work, size, region)
        for row in range(1, 1 + size):
            vital |= work[ONCE + row]
    return struck == 0 and (away <= 1 or vital != 0)
