"""Rows of many tensors copied in one launch on CUDA, one program a row."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


def copy_rows(
    targets: Sequence[Tensor], to: Tensor | None, sources: Sequence[Tensor], of: Tensor | None, number: int
) -> None:
    """Copies `number` rows of each source, [R, ...], into its target, whose rows have as many entries, and whose type
    they get.

    to, of: int64 [number], which rows; None are the first. Where `to` is negative nothing is copied. What a row
    holds is contiguous; rows may be further apart."""
    if not number:
        return
    widths = tuple(source[0].numel() for source in sources)
    strides = (tuple(tensor.stride(0) for tensor in tensors) for tensors in (targets, sources))
    copy_kernel[(number,)](
        tuple(targets), to, tuple(sources), of, widths, *strides, NUMBER=len(widths), BLOCK=BLOCK,
    )  # fmt: skip


@triton.jit
def copy_kernel(targets, to, sources, of, widths, to_strides, of_strides, NUMBER: tl.constexpr, BLOCK: tl.constexpr):
    """Copies one row of every tensor."""
    target = tl.program_id(0).to(tl.int64)
    source = target
    if to is not None:
        target = tl.load(to + target)
    if of is not None:
        source = tl.load(of + source)
    if target >= 0:
        for k in tl.static_range(NUMBER):
            start = 0
            while start < widths[k]:
                at = start + tl.arange(0, BLOCK)
                found = tl.load(sources[k] + source * of_strides[k] + at, mask=at < widths[k])
                tl.store(
                    targets[k] + target * to_strides[k] + at, found.to(targets[k].dtype.element_ty), mask=at < widths[k]
                )
                start += BLOCK


def put_(targets: Sequence[Tensor], index: Tensor, sources: Sequence[Tensor]) -> None:
    """Writes [K, ...] over the rows `index` (int64 [K], none where negative) of tensors [B, ...]."""
    copy_rows(targets, index.contiguous(), [source.contiguous() for source in sources], None, len(index))


def packed(tensors: Sequence[Tensor], index: Tensor | None) -> Tensor:
    """Returns rows (int64 [K]; None is all) of uint8 tensors [B, bytes], side by side: uint8 [K, bytes]."""
    number, widths = len(tensors[0]) if index is None else len(index), [tensor.shape[1] for tensor in tensors]
    found = torch.empty(number, sum(widths), dtype=torch.uint8, device=tensors[0].device)
    copy_rows(found.split(widths, dim=1), None, tensors, index, number)
    return found
