"""The steps after a convolution of a playing network on CUDA, in one pass over its output: bias, residual, relu, and
zero off the board. This replaces three or four passes over memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


def finish_(y: Tensor, bias: Tensor, residual: Tensor | None, on_board: Tensor | None, relu: bool) -> Tensor:
    """Overwrites y, [B, C, N, N] in channels_last memory, with y + bias + residual, with relu if requested, 0 off the
    board, and returns it. Sums are in float32, rounded once.

    bias: [C]. residual: [B, C, N, N] or [B, C, 1, 1]. on_board: bool [B, N, N]. The last three may be of any type."""
    num_games, channels, size, _ = y.shape
    assert y.is_contiguous(memory_format=torch.channels_last), f"y has the strides {y.stride()}, not channels_last"
    by_game = residual is not None and residual.shape[-1] != size
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    mask = None if on_board is None else on_board.contiguous()
    if total := y.numel():
        sizes = {"C": channels, "P": size * size, "BY_GAME": by_game, "RELU": relu, "BLOCK": BLOCK}
        finish_kernel[(triton.cdiv(total, BLOCK),)](y, bias, residual, mask, total, **sizes, num_warps=4)
    return y


@triton.jit(do_not_specialize=["total"])
def finish_kernel(
    y, bias, residual, on_board, total,
    C: tl.constexpr, P: tl.constexpr, BY_GAME: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Finishes BLOCK numbers in memory order: neighbours differ in the channel."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists, channel = at < total, at % C
    value = tl.load(y + at, mask=exists).to(tl.float32) + tl.load(bias + channel, mask=exists).to(tl.float32)
    if residual is not None:
        place = at // (C * P) * C + channel if BY_GAME else at
        value += tl.load(residual + place, mask=exists).to(tl.float32)
    if RELU:
        value = tl.where(value < 0, 0.0, value)  # NaN stays NaN
    if on_board is not None:
        value = tl.where(tl.load(on_board + at // C, mask=exists, other=0) != 0, value, 0.0)
    tl.store(y + at, value.to(y.dtype.element_ty), mask=exists)
