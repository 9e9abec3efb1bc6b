"""Faster convolutions: in tiles, and for playing with what follows folded in and with packed weights."""

import math
from functools import cache
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zerogo import kernels

PACKED_FOR = 64  # positions in the batch for which weights are packed
# Where `kernels.cpu.winograd` is faster than oneDNN. Its changes of basis use one thread, however many there are.
LEAST_SIDE, FEWEST_CHANNELS, MOST_THREADS = 5, 32, 2
FEWEST_LEARNED = 16  # boards at which it is faster in training, where weights change their basis at every step
PADDED_TO = 32  # planes are padded to a multiple of this on CUDA: an H100 takes 57 µs for 32 planes, 500 for 17


def fast_relu(x: Tensor) -> Tensor:
    """Returns relu(x)."""
    if x.dtype == torch.bfloat16 and x.device.type == "cpu" and not torch.is_grad_enabled():
        # A bfloat16 has its sign bit where an int16 has it: this is 3 times as fast as relu (0.03 ms instead of 0.09).
        return x.view(torch.int16).clamp(min=0).view(torch.bfloat16)
    return torch.relu(x)


def finish(y: Tensor, on_board: Tensor | None, relu: bool) -> Tensor:
    """Returns what a block makes of its sums [B, C, N, N]: relu if asked for, and zero off the board."""
    y = fast_relu(y) if relu else y
    return y if on_board is None else torch.where(on_board.unsqueeze(1), y, 0.0)


def pad_planes(planes: Tensor, number: int) -> Tensor:
    """Adds planes of zeros: [..., C, N, N] -> [..., number, N, N]."""
    more = number - planes.shape[-3]
    return F.pad(planes, (0, 0, 0, 0, 0, more)) if more else planes


def pad_inputs_(conv: nn.Conv2d, device: torch.device) -> int:
    """Gives a convolution a number of inputs with which it is fast on a device, and returns it."""
    if device.type == "cuda":
        conv.in_channels = -(-conv.in_channels // PADDED_TO) * PADDED_TO
        conv.weight = nn.Parameter(pad_planes(conv.weight, conv.in_channels), requires_grad=False)
    return conv.in_channels


@cache
def _can_fuse_relu(channels: tuple[int, int], kernel: int, size: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Returns whether cuDNN's convolutions of these channels that add bias and residual and end with relu work: on an
    H100 they take no longer than the convolution alone, where every further pass takes half as long again."""
    if device.type != "cuda" or not torch.backends.cudnn.is_available():
        return False

    def _numbers(*shape: int) -> Tensor:  # as good as random, and no generator has to be put back
        return torch.arange(math.prod(shape), device=device).sin().view(shape).to(dtype)

    x, z = (_numbers(PACKED_FOR, number, size, size) for number in channels)
    weight, bias = _numbers(*channels[::-1], kernel, kernel) / (kernel * channels[0] ** 0.5), _numbers(channels[1])
    x, z, weight = (part.to(memory_format=torch.channels_last) for part in (x, z, weight))
    geometry: tuple[Any, ...] = (bias, [1, 1], [kernel // 2] * 2, [1, 1])
    plain = torch.conv2d(x, weight, *geometry)
    try:
        pairs = [(torch.cudnn_convolution_relu(x, weight, *geometry, 1), plain)]
        pairs += [(torch.cudnn_convolution_add_relu(x, weight, z, 1.0, *geometry, 1), plain + z)]
    except RuntimeError as error:  # there is none for this type, or none in this build
        if isinstance(error, torch.OutOfMemoryError) or "ALLOC_FAILED" in str(error):
            raise
        return False
    pairs = [(finished.float(), torch.relu(sums).float()) for finished, sums in pairs]
    return all((finished - sums).norm() <= 0.02 * sums.norm() for finished, sums in pairs)  # not so for NaN


def is_worth_tiles(channels: int, side: int, device: torch.device) -> bool:
    """Returns whether 3x3 convolutions in tiles are faster, for at least so many channels in and out on boards of a
    side."""
    is_large = channels >= FEWEST_CHANNELS and side >= LEAST_SIDE
    return is_large and device.type == "cpu" and torch.get_num_threads() <= MOST_THREADS


def _tiles_for(conv: nn.Conv2d, x: Tensor) -> ModuleType | None:
    """Returns the kernels for a convolution of x in tiles, None where there are none or they are slower."""
    geometry = conv.kernel_size, conv.padding, conv.dilation, conv.stride, conv.groups, conv.padding_mode
    if geometry != ((3, 3), (1, 1), (1, 1), (1, 1), 1, "zeros"):
        return None
    is_plain = x.ndim == 4 and x.shape[-2] == x.shape[-1] and x.dtype == conv.weight.dtype == torch.float32
    is_plain &= x.shape[1] == conv.in_channels and not torch.is_autocast_enabled("cpu")
    is_worth = is_plain and is_worth_tiles(min(conv.in_channels, conv.out_channels), x.shape[-1], x.device)
    return kernels.module_for("winograd", x.device) if is_worth else None


class Conv2d(nn.Conv2d):
    """torch's convolution, computed in tiles where that is faster for a batch."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns the output: [B, inputs, N, N] -> [B, outputs, N, N]."""
        may_use_tiles = self.bias is None and len(x) >= FEWEST_LEARNED
        fast = _tiles_for(self, x) if may_use_tiles else None
        return super().forward(x) if fast is None else fast.Convolution.apply(x, self.weight)


def norms_for(x: Tensor) -> ModuleType | None:
    """Returns the kernels that normalise x [B, C, N, N] in training, None where there are none or they may be slower:
    they use one thread."""
    is_worth = x.dtype == torch.float32 and len(x) > 0 and torch.get_num_threads() == 1
    is_worth &= is_worth_tiles(x.shape[1], x.shape[-1], x.device)
    return kernels.module_for("norms", x.device) if is_worth else None


class FusedConv(nn.Module):
    """A convolution for playing, with normalisation folded in. Where oneDNN or cuDNN can, residual and relu are part of
    it, too.

    On 9x9, 256 games, 32 channels, one Zen 5 core, bf16: 0.90 ms for the convolution, and 0.14 and 0.09 more if
    residual and relu were separate steps. The weights are packed for oneDNN, which would otherwise pack them at every
    call: a tenth to a quarter of the network's time for one position, a twentieth for 32. size: the board's side for
    which oneDNN packs; other sides work, too. tiles: by the board's side, the weights for `kernels.cpu.winograd`, which
    is faster still in float32, where it can compute the convolution; made when first needed."""

    def __init__(self, conv: nn.Conv2d, device: torch.device, dtype: torch.dtype, size: int) -> None:
        super().__init__()
        self.conv = conv.to(device=device, dtype=dtype, memory_format=torch.channels_last)
        has_onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_convolution_pointwise")
        self.in_one_step = device.type == "cpu" and has_onednn
        self.packed, self.tiles = conv.weight.detach(), dict[int, Tensor]()
        channels = conv.in_channels, conv.out_channels
        self.fuses_relu = conv.dilation == (1, 1) and _can_fuse_relu(channels, conv.kernel_size[0], size, dtype, device)
        if self.in_one_step and hasattr(torch.ops.mkldnn, "_reorder_convolution_weight"):
            shape = [PACKED_FOR, conv.in_channels, size, size]
            self.packed = torch.ops.mkldnn._reorder_convolution_weight(
                self.packed, list(conv.padding), [1, 1], list(conv.dilation), 1, shape
            )

    def forward(self, x: Tensor, on_board: Tensor | None, residual: Tensor | None = None, relu: bool = True) -> Tensor:
        """Returns the output of the `ConvNorm`, up to rounding."""
        conv = self.conv
        if self.fuses_relu and relu and (residual is None or residual.shape[-1] == x.shape[-1]):
            geometry = conv.bias, [1, 1], list(conv.padding), [1, 1], 1
            if residual is None:
                y = torch.cudnn_convolution_relu(x, conv.weight, *geometry)
            else:
                y = torch.cudnn_convolution_add_relu(x, conv.weight, residual.to(x.dtype), 1.0, *geometry)
            return finish(y, on_board, False)
        if (fast := _tiles_for(conv, x)) is not None:
            tiles, side = self.tiles, x.shape[-1]  # which `load_` may replace meanwhile
            residual = None if residual is None else residual.expand(len(x), conv.out_channels, side, side)
            if side not in tiles:
                tiles[side] = fast.in_tiles(conv.weight, side)
            return finish(fast.convolve(x, tiles[side], conv.bias, residual, relu), on_board, False)
        if not self.in_one_step or x.shape[-1] == 1:  # torch 2.11 fails to add to a single point
            if (fast := kernels.module_for("epilogues", x.device)) is not None:
                return fast.finish_(self.sums(x), conv.bias, residual, on_board, relu)
            y = conv(x)
            return finish(y if residual is None else y.add_(residual.to(y.dtype)), on_board, relu)
        if residual is not None and residual.shape[-1] != x.shape[-1]:
            # Expanded over the points, it is added by the convolution: 0.03 ms instead of 0.14 for a separate step.
            spread = residual.expand(-1, -1, x.shape[-2], x.shape[-1]).to(x.dtype)
            residual = spread.contiguous(memory_format=torch.channels_last)
        geometry = (self.packed, conv.bias, list(conv.padding), [1, 1], list(conv.dilation), 1)
        if residual is None:
            y = torch.ops.mkldnn._convolution_pointwise(x, *geometry, "relu" if relu else "none", [], "")
        else:
            y = torch.ops.mkldnn._convolution_pointwise.binary(
                x, residual, *geometry, "add", 1.0, "relu" if relu else None, [], None
            )
        return finish(y, on_board, False)

    def with_pooled_bias(self, x: Tensor, linear: nn.Linear, pooled: int) -> Tensor | None:
        """Returns relu(y + linear(pool(relu(y's first channels)))), where y is the convolution; None without kernels.
        x: [B, inputs, N, N], all of whose points exist. pooled: how many channels are pooled."""
        if (fast := kernels.module_for("epilogues", x.device)) is None:
            return None
        y, bias = self.sums(x), self.conv.bias
        of_board = linear(fast.pool(y, pooled, bias, by_area=False)).unsqueeze(-1).unsqueeze(-1)
        return fast.finish_(y, bias, of_board, None, relu=True)

    def sums(self, x: Tensor) -> Tensor:
        """Returns the convolution without its bias: [B, inputs, N, N] -> [B, outputs, N, N], in channels_last
        memory."""
        y = F.conv2d(x, self.conv.weight, padding=self.conv.padding, dilation=self.conv.dilation)
        return y.contiguous(memory_format=torch.channels_last)
