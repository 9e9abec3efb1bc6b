"""The benchmark's draw among legal points as a Numba kernel: what is measured is the board, not the draw."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import array, bit_count, first_bit, kernel


def pick(rows: Tensor, numbers: Tensor) -> Tensor:
    """Returns one of the points of each plane or, as likely as any of them, the pass: int32 [B, N], float64 [B] in [0,
    1) -> int64 [B]."""
    actions = np.empty(len(rows), np.int64)
    _pick(array(rows), array(numbers), actions)
    return torch.from_numpy(actions)


@kernel
def _pick(rows, numbers, actions):
    size = rows.shape[1]
    for game in range(len(rows)):
        total = 1
        for row in range(size):
            total += bit_count(rows[game, row])
        left, row = np.int64(numbers[game] * total), 0
        while row < size and left >= bit_count(rows[game, row]):
            left -= bit_count(rows[game, row])
            row += 1
        actions[game] = size * size
        if row < size:
            bits = np.int64(rows[game, row])
            for _ in range(left):
                bits &= bits - 1
            actions[game] = row * size + first_bit(bits)
