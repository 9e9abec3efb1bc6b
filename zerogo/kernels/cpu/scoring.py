"""Unconditional life, game after game: Benson's algorithm as `zerogo.scoring` defines it, on one colour's stones at a
time.

In scratch memory OWN holds the colour's stones, OTHER all other points, FREE the empty ones and ATARI those of OTHER
that a string must touch for a region to be vital to it."""

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import bit_count, inline, kernel, over_games
from zerogo.kernels.cpu.strings import (
    FREE,
    NO_POINTS,
    OTHER,
    OWN,
    SCORED,
    STRIDE,
    STRING,
    neighbours_in,
    scratch,
    string,
)

MUST, SAFE, LEFT, NEAR = SCORED
NONE = -1


def pass_alive_rows(
    black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor, by_vital: bool = True
) -> tuple[Tensor, Tensor]:
    """Returns Black's and White's pass-alive points: int32 [B, N] three times, bool [B] -> int32 [B, N] twice."""
    return _read(black, white, on_board, suicide, False, by_vital)[:2]


def all_pass_alive(black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor) -> Tensor:
    """Returns whether every point is pass-alive: bool [B]."""
    return _read(black, white, on_board, suicide, True)[2]


def _read(
    black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor, is_quick: bool, by_vital: bool = True
) -> tuple[Tensor, ...]:
    """Returns Black's and White's pass-alive areas, int32 [B, N] bit rows, and whether every point is in one, bool [B].

    is_quick: whether the areas do not matter: most games need no more than a quick look, and theirs are not written."""
    results = *torch.empty(2, *black.shape, dtype=torch.int32), torch.zeros(len(black), dtype=torch.bool)
    over_games(_pass_alive, len(black), black, white, on_board, suicide, is_quick, by_vital, *results)
    return results


@kernel
def _pass_alive(start, stop, black, white, on_board, suicide, is_quick, by_vital, black_area, white_area, is_alive):
    size = black.shape[1]
    room = size * size // 2 + 1
    # Regions and strings as rows, a region's vital strings, whether a string lives, how many vital regions it has.
    regions, strings = np.zeros((room, STRIDE), np.int32), np.zeros((room, STRIDE), np.int32)
    memory = regions, strings, np.zeros((room, 4), np.int16), np.zeros(room, np.bool_), np.zeros(room, np.int16)
    work = scratch()
    for game in range(start, stop):
        if is_quick and not _may_be_alive(work, black, white, on_board, game):
            continue
        _benson(work, memory, black, white, on_board, game, suicide[game], by_vital)
        for row in range(size):
            black_area[game, row] = work[SAFE + 1 + row]
        _benson(work, memory, white, black, on_board, game, suicide[game], by_vital)
        missing = 0
        for row in range(size):
            white_area[game, row] = work[SAFE + 1 + row]
            missing |= on_board[game, row] & ~(black_area[game, row] | white_area[game, row])
        is_alive[game] = missing == 0


@inline
def _may_be_alive(work, black, white, on_board, game):
    """Returns False for most games that are not: a quick look for two neighbouring empty points away from all stones,
    see `scoring.all_pass_alive`."""
    size, number = black.shape[1], 0
    for row in range(size):
        work[OWN + 1 + row], work[OTHER + 1 + row] = black[game, row], white[game, row]
        work[FREE + 1 + row] = on_board[game, row] & ~(black[game, row] | white[game, row])
        number += bit_count(work[FREE + 1 + row])
    for row in range(1, 1 + size):
        work[SAFE + row] = work[FREE + row] & ~neighbours_in(work, OWN, row)
        work[LEFT + row] = work[FREE + row] & ~neighbours_in(work, OTHER, row)
    for row in range(1, 1 + size):
        far = work[SAFE + row] & work[LEFT + row]
        if (far & neighbours_in(work, SAFE, row) & neighbours_in(work, LEFT, row)) != 0:
            return False
    return number >= 2


@inline
def _split_connected(work, plane, size, components):
    """Writes the connected parts of a plane as rows, and returns how many there are."""
    number = 0
    for row in range(1, 1 + size):
        work[LEFT + row] = work[plane + row]
    for row in range(1, 1 + size):
        while work[LEFT + row] != 0:
            string(work, plane, NO_POINTS, row, work[LEFT + row] & -work[LEFT + row], False)
            for k in range(1, 1 + size):
                components[number, k] = work[STRING + k]
                work[LEFT + k] &= ~work[STRING + k]
            number += 1
    return number


@inline
def _benson(work, memory, own_stones, opponent, on_board, game, may_die, by_vital):
    """Writes the pass-alive points of a colour into SAFE."""
    size = own_stones.shape[1]
    regions, strings, vital, alive, count = memory
    for row in range(size):
        work[OWN + 1 + row] = own_stones[game, row]
        work[OTHER + 1 + row] = on_board[game, row] & ~own_stones[game, row]
        work[FREE + 1 + row] = work[OTHER + 1 + row] & ~opponent[game, row]
        work[MUST + 1 + row] = work[OTHER + 1 + row] if may_die else work[FREE + 1 + row]
    num_regions = _split_connected(work, OTHER, size, regions)
    for row in range(STRIDE):
        work[SAFE + row] = 0
    if _count_eyes(work, size, regions, num_regions, vital) < 2:
        return
    num_strings = _split_connected(work, OWN, size, strings)
    for k in range(num_regions):
        if vital[k, 0] != NONE:
            _find_vital(work, size, regions[k], strings, num_strings, vital[k])
    _strike(work, size, regions, num_regions, strings, num_strings, vital, alive, count)
    _add_regions(work, size, regions, num_regions, vital, by_vital)


@inline
def _count_eyes(work, size, regions, num_regions, vital):
    """Returns how many regions could be vital to a string: they have an empty point, and no point that a string must
    touch is away from all strings. The other regions' first vital string becomes NONE."""
    number = 0
    for row in range(1, 1 + size):
        work[NEAR + row] = neighbours_in(work, OWN, row)
    for k in range(num_regions):
        empty, away = 0, 0
        for row in range(1, 1 + size):
            empty |= regions[k, row] & work[FREE + row]
            away |= regions[k, row] & work[MUST + row] & ~work[NEAR + row]
        is_eye = empty != 0 and away == 0
        vital[k] = NONE
        vital[k, 0] = 0 if is_eye else NONE
        number += is_eye
    return number


@inline
def _find_vital(work, size, region, strings, num_strings, vital):
    """Writes the strings that a region is vital to: next to all points that they must touch. As the first of these has
    four neighbours, there are at most four."""
    vital[0], number, first = NONE, 0, 1
    while (region[first] & work[MUST + first]) == 0:
        first += 1
    for k in range(num_strings):
        missed = 0
        for row in range(first, 1 + size):
            missed = region[row] & work[MUST + row] & ~neighbours_in(strings[k], 0, row)
            if missed != 0:
                break
        if missed == 0:
            vital[number] = k
            number += 1


@inline
def _strike(work, size, regions, num_regions, strings, num_strings, vital, alive, count):
    """Strikes off strings with fewer than two vital regions that touch none that was struck off; writes the others into
    SAFE, and what is next to those struck off into NEAR."""
    for row in range(1, 1 + size):
        work[SAFE + row] = work[OWN + row]
    alive[:num_strings], changes = True, True
    while changes:
        changes, count[:num_strings] = False, 0
        for row in range(1, 1 + size):
            work[LEFT + row] = work[OWN + row] & ~work[SAFE + row]
        for row in range(1, 1 + size):
            work[NEAR + row] = neighbours_in(work, LEFT, row)
        for k in range(num_regions):
            if _is_closed(work, size, regions, k):
                for index in range(4):
                    if vital[k, index] != NONE:
                        count[vital[k, index]] += 1
        for k in range(num_strings):
            if alive[k] and count[k] < 2:
                alive[k], changes = False, True
                for row in range(1, 1 + size):
                    work[SAFE + row] &= ~strings[k, row]


@inline
def _is_closed(work, size, regions, region):
    """Returns whether a region touches no string that was struck off."""
    for row in range(1, 1 + size):
        if (regions[region, row] & work[NEAR + row]) != 0:
            return False
    return True


@inline
def _add_regions(work, size, regions, num_regions, vital, by_vital):
    """Adds the regions to SAFE that are territory: of living strings alone, vital to one, if that counts, or with at
    most one point away from all."""
    for row in range(1, 1 + size):
        work[LEFT + row] = work[SAFE + row]
    for k in range(num_regions):
        if not _is_closed(work, size, regions, k):
            continue
        away = 0
        for row in range(1, 1 + size):
            away += bit_count(regions[k, row] & ~neighbours_in(work, LEFT, row))
        if (by_vital and vital[k, 0] != NONE) or away <= 1:
            for row in range(1, 1 + size):
                work[SAFE + row] |= regions[k, row]
