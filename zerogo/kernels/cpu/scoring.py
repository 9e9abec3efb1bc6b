"""Unconditional life, game after game: Benson's algorithm as `zerogo.scoring` defines it, on one colour's stones at a
time.

In scratch memory OWN holds the colour's stones, OTHER all other points, FREE the empty ones and ATARI those of OTHER
that a string must touch for a region to be vital to it."""

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import array, bit_count, first_bit, inline, kernel, over_games
from zerogo.kernels.cpu.strings import (
    ATARI,
    FREE,
    NEAR,
    NOTHING,
    OTHER,
    OWN,
    STRIDE,
    STRING,
    TAKEN,
    WEAK,
    beside,
    neighbours_in,
    scratch,
    string,
)

MUST, SAFE, LEFT = ATARI, TAKEN, WEAK
NONE = -1


def pass_alive_rows(black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor) -> tuple[Tensor, Tensor]:
    """Returns Black's and White's pass-alive points: int32 [B, N] three times, bool [B] -> int32 [B, N] twice."""
    areas = np.empty((2, *black.shape), np.int32)
    over_games(_pass_alive_rows, len(black), array(black), array(white), array(on_board), array(suicide), *areas)
    return torch.from_numpy(areas[0]), torch.from_numpy(areas[1])


def all_pass_alive(black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor) -> Tensor:
    """Returns whether every point is pass-alive: bool [B]."""
    is_alive = np.zeros(len(black), bool)
    over_games(_all_pass_alive, len(black), array(black), array(white), array(on_board), array(suicide), is_alive)
    return torch.from_numpy(is_alive)


@inline
def _memory(size):
    """Returns what `_benson` works with besides scratch memory: regions and strings as rows, strings by point, a
    region's vital strings, whether a string lives and how many vital regions it has."""
    most = size * size // 2 + 1
    regions, strings = np.zeros((most, STRIDE), np.int32), np.zeros((most, STRIDE), np.int32)
    label, vital = np.zeros(STRIDE * STRIDE, np.int16), np.zeros((most, 4), np.int16)
    return regions, strings, label, vital, np.zeros(most, np.int16), np.zeros(most, np.int16)


@kernel
def _pass_alive_rows(start, stop, black, white, on_board, suicide, black_area, white_area):
    size = black.shape[1]
    work, memory = scratch(), _memory(size)
    for game in range(start, stop):
        _benson(work, memory, black, white, on_board, game, suicide[game])
        for row in range(size):
            black_area[game, row] = work[SAFE + 1 + row]
        _benson(work, memory, white, black, on_board, game, suicide[game])
        for row in range(size):
            white_area[game, row] = work[SAFE + 1 + row]


@kernel
def _all_pass_alive(start, stop, black, white, on_board, suicide, is_alive):
    size = black.shape[1]
    work, memory, alive = scratch(), _memory(size), np.zeros(size, np.int32)
    for game in range(start, stop):
        if not _may_be_alive(work, black, white, on_board, game):
            continue
        _benson(work, memory, black, white, on_board, game, suicide[game])
        for row in range(size):
            alive[row] = work[SAFE + 1 + row]
        _benson(work, memory, white, black, on_board, game, suicide[game])
        missing = 0
        for row in range(size):
            missing |= on_board[game, row] & ~(alive[row] | work[SAFE + 1 + row])
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
    if number < 2:
        return False
    _write_near(work, OWN, size, SAFE)
    _write_near(work, OTHER, size, LEFT)
    for row in range(1, 1 + size):
        work[SAFE + row] = work[FREE + row] & ~work[SAFE + row]
        work[LEFT + row] = work[FREE + row] & ~work[LEFT + row]
    _write_near(work, SAFE, size, NEAR)
    for row in range(1, 1 + size):
        work[NEAR + row] &= work[SAFE + row]
    _write_near(work, LEFT, size, SAFE)
    for row in range(1, 1 + size):
        if (work[SAFE + row] & work[LEFT + row] & work[NEAR + row]) != 0:
            return False
    return True


@inline
def _write_near(work, plane, size, into):
    """Writes the points next to a point of a plane into another one."""
    for row in range(1, 1 + size):
        work[into + row] = neighbours_in(work, plane, row)


@inline
def _parts(work, plane, size, parts):
    """Writes the connected parts of a plane as rows, and returns how many there are."""
    number = 0
    for row in range(1, 1 + size):
        work[LEFT + row] = work[plane + row]
    for row in range(1, 1 + size):
        while work[LEFT + row] != 0:
            string(work, plane, NOTHING, row, work[LEFT + row] & -work[LEFT + row], False)
            for k in range(1, 1 + size):
                parts[number, k] = work[STRING + k]
                work[LEFT + k] &= ~work[STRING + k]
            number += 1
    return number


@inline
def _benson(work, memory, own, opponent, on_board, game, may_die):
    """Writes the pass-alive points of a colour into SAFE."""
    size = own.shape[1]
    regions, strings, label, vital, alive, count = memory
    for row in range(size):
        work[OWN + 1 + row] = own[game, row]
        work[OTHER + 1 + row] = on_board[game, row] & ~own[game, row]
        work[FREE + 1 + row] = work[OTHER + 1 + row] & ~opponent[game, row]
        work[MUST + 1 + row] = work[OTHER + 1 + row] if may_die else work[FREE + 1 + row]
    num_regions = _parts(work, OTHER, size, regions)
    for row in range(STRIDE):
        work[SAFE + row] = 0
    if _count_eyes(work, size, regions, num_regions, vital) < 2:
        return
    num_strings = _parts(work, OWN, size, strings)
    for k in range(num_strings):
        for row in range(1, 1 + size):
            bits = strings[k, row]
            while bits != 0:
                label[row * STRIDE + first_bit(bits)] = k
                bits &= bits - 1
    for k in range(num_regions):
        if vital[k, 0] != NONE:
            _find_vital(work, size, regions, k, strings, label, vital)
    _strike(work, size, regions, num_regions, strings, num_strings, vital, alive, count)
    _add_regions(work, size, regions, num_regions, vital)


@inline
def _count_eyes(work, size, regions, num_regions, vital):
    """Returns how many regions could be vital to a string: they have an empty point, and no point that a string must
    touch is away from all strings. The other regions' first vital string becomes NONE."""
    number = 0
    _write_near(work, OWN, size, NEAR)
    for k in range(num_regions):
        empty, away = 0, 0
        for row in range(1, 1 + size):
            empty |= regions[k, row] & work[FREE + row]
            away |= regions[k, row] & work[MUST + row] & ~work[NEAR + row]
        is_eye = empty != 0 and away == 0
        vital[k, 0] = 0 if is_eye else NONE
        vital[k, 1] = vital[k, 2] = vital[k, 3] = NONE
        number += is_eye
    return number


@inline
def _find_vital(work, size, regions, region, strings, label, vital):
    """Writes the strings that a region is vital to: they are next to the first point that they must touch, so there are
    at most four."""
    vital[region, 0] = NONE
    first = 1
    while (regions[region, first] & work[MUST + first]) == 0:
        first += 1
    bits, number = regions[region, first] & work[MUST + first], 0
    for side in range(4):
        near, at = beside(side, first, bits & -bits)
        if (work[OWN + near] & at) == 0:
            continue
        k = label[near * STRIDE + first_bit(at)]
        missed = vital[region, 0] == k or vital[region, 1] == k or vital[region, 2] == k
        for row in range(1, 1 + size):
            here = strings[k, row]
            beside_it = (here << 1) | (here >> 1) | strings[k, row - 1] | strings[k, row + 1]
            missed |= (regions[region, row] & work[MUST + row] & ~beside_it) != 0
        if not missed:
            vital[region, number] = k
            number += 1


@inline
def _strike(work, size, regions, num_regions, strings, num_strings, vital, alive, count):
    """Strikes off strings with fewer than two vital regions that touch none that was struck off; writes the others into
    SAFE, and what is next to those struck off into NEAR."""
    for k in range(num_strings):
        alive[k] = 1
    changes = True
    while changes:
        changes = False
        for row in range(1, 1 + size):
            work[SAFE + row] = 0
        for k in range(num_strings):
            count[k] = 0
            if alive[k]:
                for row in range(1, 1 + size):
                    work[SAFE + row] |= strings[k, row]
        for row in range(1, 1 + size):
            work[LEFT + row] = work[OWN + row] & ~work[SAFE + row]
        _write_near(work, LEFT, size, NEAR)
        for k in range(num_regions):
            if _is_closed(work, size, regions, k):
                for index in range(4):
                    if vital[k, index] != NONE:
                        count[vital[k, index]] += 1
        for k in range(num_strings):
            if alive[k] and count[k] < 2:
                alive[k], changes = 0, True


@inline
def _is_closed(work, size, regions, region):
    """Returns whether a region touches no string that was struck off."""
    for row in range(1, 1 + size):
        if (regions[region, row] & work[NEAR + row]) != 0:
            return False
    return True


@inline
def _add_regions(work, size, regions, num_regions, vital):
    """Adds the regions to SAFE that are territory: of living strings alone, vital to one or with at most one point away
    from all."""
    lives = 0
    for row in range(1, 1 + size):
        lives |= work[SAFE + row]
        work[LEFT + row] = work[SAFE + row]
    if lives == 0:
        return
    for k in range(num_regions):
        if not _is_closed(work, size, regions, k):
            continue
        away = 0
        for row in range(1, 1 + size):
            away += bit_count(regions[k, row] & ~neighbours_in(work, LEFT, row))
        if vital[k, 0] != NONE or away <= 1:
            for row in range(1, 1 + size):
                work[SAFE + row] |= regions[k, row]
