"""The benchmark's draw among legal points as a Triton kernel, one warp a game: what is measured is the board, not the
draw."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import rows


@triton.jit
def pick_kernel(planes, numbers, actions, N: tl.constexpr):
    """Writes the action that one game's number stands for: its points in their order, then the pass."""
    game = tl.program_id(0)
    lane = tl.arange(0, rows.LANES)
    points = rows.load_rows(planes, game, N)
    counts = rows.row_counts(points)
    until = tl.cumsum(counts, 0)
    # In each lane, how many points of its row come before the chosen one; the row that holds that has more.
    left = (tl.load(numbers + game) * (tl.sum(counts, 0) + 1)).to(tl.int32) - (until - counts)
    is_row = (left >= 0) & (left < counts)
    column = tl.zeros_like(points)
    for step in tl.static_range(5):  # the next 16, 8, … columns are passed where the point lies behind them
        half = 16 >> step
        before = rows.row_counts((points >> column) & ((1 << half) - 1))
        behind = left >= before
        left, column = tl.where(behind, left - before, left), tl.where(behind, column + half, column)
    chosen = tl.min(tl.where(is_row, lane * N + column, N * N), 0)
    tl.store(actions + game, chosen.to(tl.int64))


def pick(planes: Tensor, numbers: Tensor) -> Tensor:
    """Returns one of the points of each plane or, as likely as any of them, the pass: int32 [B, N], float64 [B] in [0,
    1) -> int64 [B]."""
    actions = torch.empty(len(planes), dtype=torch.int64, device=planes.device)
    if len(planes):
        pick_kernel[(len(planes),)](planes.contiguous(), numbers.contiguous(), actions, N=planes.shape[1], num_warps=1)
    return actions
