"""Encoders' planes on CUDA, painted in one launch."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import launch
from zerogo.kernels.shared import COUNTS, ROWS

BLOCK = 1024  # elements per program
MOST_INT32 = 2**31 - BLOCK
IS_ROWS, IS_COUNTS = tl.constexpr(ROWS), tl.constexpr(COUNTS)


def paint(spans: tuple[tuple[int, int], ...], rows: Tensor, counts: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the planes of B positions: [B, N, N, C] of the dtype; see `cpu.planes.paint`."""
    num_games, num_rows, size = rows.shape
    num_planes = sum(width for _, width in spans)
    planes = torch.empty(num_games, size, size, num_planes, dtype=dtype, device=rows.device)
    inputs, total = (rows, counts, _table(spans, rows.device), planes), planes.numel()
    sizes = {"N": size, "C": num_planes, "R": num_rows, "ONLY_ROWS": all(form == ROWS for form, _ in spans)}
    launch(paint_kernel, triton.cdiv(total, BLOCK), *inputs, total, **sizes, WIDE=total > MOST_INT32, BLOCK=BLOCK)
    return planes


@cache
def _table(spans: tuple[tuple[int, int], ...], device: torch.device) -> Tensor:
    """Returns for each plane its form, its index among the inputs of that form, the number that sets it, and the
    largest number of its span: int32 [4, C]."""
    met, planes = dict.fromkeys((form for form, _ in spans), 0), []
    for form, width in spans:
        planes += [(form, met[form] + (0 if form == COUNTS else k), k + 1, width) for k in range(width)]
        met[form] += 1 if form == COUNTS else width
    return torch.tensor(planes, dtype=torch.int32).t().contiguous().to(device)


@triton.jit
def paint_kernel(
    rows, counts, table, planes, total,
    N: tl.constexpr, C: tl.constexpr, R: tl.constexpr,
    ONLY_ROWS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each program writes BLOCK elements of planes [B, N, N, C] in memory order; an element's plane determines its
    source. Neighbouring lanes differ in the plane, so stores are coalesced, and their loads of one point come from the
    cache. WIDE: elements are counted in int64."""
    first = tl.program_id(0).to(tl.int64) * BLOCK if WIDE else tl.program_id(0) * BLOCK
    element = first + tl.arange(0, BLOCK)
    exists = element < total
    point, plane = element // C, (element % C).to(tl.int32)
    game, place = point // (N * N), (point % (N * N)).to(tl.int32)
    row, column = place // N, place % N
    form, index = tl.zeros([BLOCK], tl.int32) + IS_ROWS, plane
    if not ONLY_ROWS:
        form, index = tl.load(table + plane, exists, 0), tl.load(table + C + plane, exists, 0)
    word = tl.load(rows + (game * R + index) * N + row, exists & (form == IS_ROWS), 0)
    result = (word >> column) & 1
    if not ONLY_ROWS:
        number, greatest = tl.load(table + 2 * C + plane, exists, 0), tl.load(table + 3 * C + plane, exists, 0)
        is_count = form == IS_COUNTS
        count = tl.load(counts + index.to(tl.int64) * (total // C) + point, exists & is_count, 0).to(tl.int32)
        result = tl.where(is_count, (tl.minimum(count, greatest) == number).to(tl.int32), result)
    tl.store(planes + element, result.to(tl.float32).to(planes.dtype.element_ty), exists)
