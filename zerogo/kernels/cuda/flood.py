"""Floods of whole batches in one launch, one warp a plane: however a string winds, its program goes on until it has
it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import rows


@triton.jit
def flood_kernel(seeds, within, reached, N: tl.constexpr):
    """Writes the flood of plane `program_id` into `reached`."""
    plane = tl.program_id(0)
    inside = rows.load_rows(within, plane, N)
    rows.store_rows(reached, plane, rows.flood(rows.load_rows(seeds, plane, N), inside), N)


def flood(seeds: Tensor, within: Tensor) -> Tensor:
    """Returns what `flood.flood` does, for flat planes: int32 [K, N] each -> int32 [K, N]."""
    seeds, within = seeds.contiguous(), within.contiguous()
    reached = torch.empty_like(seeds)
    if len(seeds):
        flood_kernel[(len(seeds),)](seeds, within, reached, N=seeds.shape[1], num_warps=1)
    return reached
