"""Floods over bit rows, plane after plane."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import array, first_bit, kernel, over_games
from zerogo.kernels.cpu.strings import fill


def flood(seeds: Tensor, within: Tensor) -> Tensor:
    """Returns all points of `within` that are connected to a seed through it: int32 [K, N] each -> int32 [K, N]; see
    `flood.flood`.
    """
    inside = array(within)
    grown = np.empty_like(inside)
    over_games(_flood, len(grown), array(seeds), inside, grown)
    return torch.from_numpy(grown)


@kernel
def _flood(start, stop, seeds, within, grown):
    size = within.shape[1]
    for plane in range(start, stop):
        rows = 0  # those with points that have not been looked at from here yet
        for row in range(size):
            grown[plane, row] = fill(seeds[plane, row] & within[plane, row], within[plane, row])
            rows |= np.int64(grown[plane, row] != 0) << row
        while rows != 0:
            row = first_bit(rows)
            rows &= rows - 1
            here = grown[plane, row]
            for near in (row - 1, row + 1):
                if 0 <= near < size:
                    new = here & within[plane, near] & ~grown[plane, near]
                    if new != 0:
                        grown[plane, near] |= fill(new, within[plane, near])
                        rows |= np.int64(1) << near
