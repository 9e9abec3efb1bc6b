"""The policy and value network: a residual tower with global pooling, and the heads named by the config. `katago` has
KataGo's architecture instead.

The weights do not depend on the board's side, so one network plays every size, and games of different sizes share a
padded batch. An on-board mask keeps points off a smaller board at zero, like the padding of a convolution. A mask of
None means that all points exist, and costs nothing.

Tower: 3x3 convolution, global inputs as a bias for each channel, then blocks relu(x + conv(relu(conv(x)))), where batch
normalisation follows every convolution, and is folded into it for playing. Every k-th block pools its first channels
over the board and adds the result as a bias (Wu, "Accelerating self-play learning in Go", 2019). The heads share a 1x1
convolution, from which they read maps, and a hidden layer over its pooled channels, from which they read numbers."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zerogo import kernels
from zerogo.config import NetworkConfig
from zerogo.errors import InputError, quote
from zerogo.network.fused import Conv2d, FusedConv, fast_relu, finish, norms_for, pad_inputs_, pad_planes

OFF_BOARD_LOGIT = -5000.0  # finite, so that zero times it is zero in a cross-entropy
READOUT_STD = 1e-3  # of the last layers: a fresh network is near uniform and near zero, but passes gradients
POOLINGS = 3
SCORE_SCALE = 20.0  # points per unit of output (KataGo)


@dataclass(frozen=True)
class Head:
    """One output: the numbers of maps and of scalars that it reads, and how they become the output.

    assemble(maps [B, num_maps, N, N], scalars [B, num_scalars], on_board bool [B, N, N] or None) -> the output,
    float32."""

    num_maps: int
    num_scalars: int
    assemble: Callable[[Tensor, Tensor, Tensor | None], Tensor]


def _map(maps: Tensor, on_board: Tensor | None, outside: float) -> Tensor:
    """Returns the only map, with a constant off the board: [B, N, N]."""
    return maps[:, 0] if on_board is None else torch.where(on_board, maps[:, 0], outside)


def _moves(maps: Tensor, passes: Tensor, on_board: Tensor | None) -> Tensor:
    return torch.cat([_map(maps, on_board, OFF_BOARD_LOGIT).flatten(1), passes], dim=1)


# policy, reply (the opponent's next move), soft_policy (the policy, flattened): logits [B, A]. value: [B], its tanh is
# the value. ownership: [B, N, N], its tanh is the ownership. score: [B], points with komi. short_values: [B, 3], their
# tanh are averages of future search values, the shortest horizon last. All take the side to move's view.
HEADS: dict[str, Head] = {
    "policy": Head(1, 1, _moves),
    "value": Head(0, 1, lambda maps, scalars, on_board: scalars[:, 0]),
    "ownership": Head(1, 0, lambda maps, scalars, on_board: _map(maps, on_board, 0.0)),
    "score": Head(0, 1, lambda maps, scalars, on_board: SCORE_SCALE * scalars[:, 0]),
    "reply": Head(1, 1, _moves),
    "soft_policy": Head(1, 1, _moves),
    "short_values": Head(0, 3, lambda maps, scalars, on_board: scalars),
}


class MaskedNorm(nn.BatchNorm2d):
    """Batch normalisation with the statistics of the points on the board. It counts no batches."""

    def forward(self, x: Tensor, on_board: Tensor | None = None) -> Tensor:
        """Returns the normalised maps: [B, C, N, N]. Points off the board hold no meaningful numbers."""
        if not self.training or on_board is None:
            statistics = self.running_mean, self.running_var
            return F.batch_norm(x, *statistics, self.weight, self.bias, self.training, self.momentum, self.eps)
        counts = on_board.unsqueeze(1).to(torch.float32)
        count, values = counts.sum(), x.to(torch.float32)
        mean = (values * counts).sum((0, 2, 3)) / count
        centred = (values - mean.view(1, -1, 1, 1)) * counts
        variance = centred.square().sum((0, 2, 3)) / count
        scale = self.weight * torch.rsqrt(variance + self.eps)
        self.running_mean.add_((mean.detach() - self.running_mean) * self.momentum)
        self.running_var.add_((variance.detach() * count / (count - 1) - self.running_var) * self.momentum)
        return centred * scale.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)

    def norm_and_relu(self, x: Tensor, on_board: Tensor | None, residual: Tensor | None, relu: bool) -> Tensor:
        """Returns the normalised maps plus the residual, [B, C, N, N] or [B, C, 1, 1], then relu if asked for; zero off
        the board."""
        is_whole = residual is None or residual.shape == x.shape
        if self.training and on_board is None and is_whole and (fast := norms_for(x)) is not None:
            y, (mean, variance) = fast.FinishedNorm.apply(x, self.weight, self.bias, residual, relu, self.eps)
            points = x.numel() // x.shape[1]
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (points / (points - 1)), self.momentum)
            return y
        y = self(x, on_board)
        return finish(y if residual is None else y + residual.to(y.dtype), on_board, relu)


class ConvNorm(nn.Module):
    """A convolution with batch normalisation, plus a residual ([B, C, N, N] or [B, C, 1, 1]), then relu by default;
    zero off the board."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm = MaskedNorm(outputs)
        if not self.conv.weight.is_meta:  # for weights without memory torch would load its compiler, for seconds
            nn.init.kaiming_normal_(self.conv.weight, mode="fan_in", nonlinearity="relu")

    def forward(self, x: Tensor, on_board: Tensor | None, residual: Tensor | None = None, relu: bool = True) -> Tensor:
        """Returns the outputs: [B, inputs, N, N] -> [B, outputs, N, N]."""
        return self.norm.norm_and_relu(self.conv(x), on_board, residual, relu)


def pool(x: Tensor, on_board: Tensor | None, by_area: bool = False, is_signed: bool = False) -> Tensor:
    """Returns each channel pooled over the board: mean, mean scaled by the board's side, maximum.

    x: [B, C, N, N], not negative and zero off the board -> float32 [B, 3C]. by_area: in place of the maximum, the mean
    scaled by the square of the side, as in KataGo's value head; these three determine the sum over a board of any size.
    is_signed: x may be negative."""
    num_games, channels, board_size, _ = x.shape
    is_plain = on_board is None and not x.requires_grad and x.is_contiguous(memory_format=torch.channels_last)
    if is_plain and (fast := kernels.module_for("epilogues", x.device)) is not None:
        return fast.pool(x, channels, None, by_area)
    # In float32, because the maximum of bfloat16 numbers is 20 times slower on a CPU.
    values = x.permute(0, 2, 3, 1).reshape(num_games, -1, channels).to(torch.float32)
    if on_board is None:
        mean, scale = values.mean(1), (board_size - 14) / 10
    else:
        area = on_board.flatten(1).sum(1, dtype=torch.float32).unsqueeze(1)
        mean, scale = values.sum(1) / area, (area.sqrt() - 14) / 10
        if is_signed and not by_area:
            values = torch.where(on_board.flatten(1).unsqueeze(2), values, -torch.inf)
    last = mean * (scale * scale - 0.1) if by_area else _maximum(values, board_size)
    return torch.cat([mean, mean * scale, last], dim=1)


def _maximum(values: Tensor, board_size: int) -> Tensor:
    """Returns the maximum over the points: [B, P, C] -> [B, C].

    On a CPU amax is twice as fast as max_pool2d for multiples of 32 channels and 9 times slower for others, and its
    gradient is slow."""
    num_games, _, channels = values.shape
    if values.device.type != "cpu" or (channels % 32 == 0 and not values.requires_grad):
        return values.amax(1)
    maps = values.view(num_games, board_size, board_size, channels).permute(0, 3, 1, 2)
    return F.max_pool2d(maps, board_size).flatten(1)


class Block(nn.Module):
    """relu(x + conv(relu(conv(x) + bias))), where the bias is computed from the pooled first channels, or 0 if
    `pooling_channels` is 0."""

    def __init__(self, channels: int, pooling_channels: int) -> None:
        super().__init__()
        self.first = ConvNorm(channels, channels, 3)
        self.second = ConvNorm(channels, channels, 3)
        self.pooled = min(pooling_channels, channels)
        self.bias = nn.Linear(POOLINGS * self.pooled, channels) if self.pooled else None

    def forward(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the block's output: [B, channels, N, N] -> the same shape."""
        if self.bias is None:
            return self.second(self.first(x, on_board), on_board, residual=x)
        may_fuse = isinstance(self.first, FusedConv) and on_board is None
        y = self.first.with_pooled_bias(x, self.bias, self.pooled) if may_fuse else None
        if y is None:
            y = self.first(x, on_board, relu=False)
            board = self.bias(pool(fast_relu(y[:, : self.pooled]), on_board)).to(y.dtype)
            y = finish(y + board.unsqueeze(-1).unsqueeze(-1), on_board, relu=True)
        return self.second(y, on_board, residual=x)


class Readout(nn.Module):
    """The last linear layers of all heads. Each head has its own, so that heads can be added or dropped, but they are
    multiplied as one matrix."""

    def __init__(self, inputs: int, sizes: dict[str, int]) -> None:
        super().__init__()
        self.sizes = list(sizes.values())
        self.parts = nn.ModuleDict({name: nn.Linear(inputs, size) for name, size in sizes.items() if size})
        for part in self.parts.values():
            if not part.weight.is_meta:  # as in ConvNorm
                nn.init.normal_(part.weight, std=READOUT_STD)
            nn.init.zeros_(part.bias)
        self.joined: tuple[Tensor, Tensor] | None = None

    def freeze_(self, dtype: torch.dtype) -> None:
        """Joins the layers permanently; they multiply in `dtype`."""
        weight, bias = (joined.detach() for joined in self._join())
        self.joined = weight.to(dtype), bias

    def forward(self, x: Tensor) -> Tensor:
        """Returns the concatenated outputs of all heads: [..., inputs] -> float32 [..., sum of sizes]."""
        weight, bias = self._join() if self.joined is None else self.joined
        return F.linear(x, weight).to(torch.float32) + bias

    def _join(self) -> tuple[Tensor, Tensor]:
        layers = list(self.parts.values())
        return torch.cat([part.weight for part in layers]), torch.cat([part.bias for part in layers])


class Network(nn.Module):
    """The network for planes [B, C, N, N] and global inputs [B, g]; `settings` is the config's section `network`.

    size: the (largest) board side, which is stored, but does not affect the weights. Raises InputError for an unknown
    head."""

    def __init__(self, settings: NetworkConfig, num_planes: int, num_globals: int, size: int) -> None:
        super().__init__()
        if unknown := [name for name in settings.heads if name not in HEADS]:
            raise InputError(f"network.heads has {quote(unknown[0])}; allowed are {', '.join(HEADS)}")
        self.num_planes, self.num_globals, self.size = num_planes, num_globals, size
        self.padded_planes = num_planes  # more in a copy for playing on CUDA
        self.heads = [name for name in HEADS if name in settings.heads]  # the order of the weights
        channels, every = settings.channels, settings.pooling_every
        self.stem = ConvNorm(num_planes, channels, 3)
        self.global_bias = nn.Linear(num_globals, channels, bias=False) if num_globals else None
        if self.global_bias is not None:
            # Starting at 0, an input that never varies in training has no effect if it varies in a match.
            nn.init.zeros_(self.global_bias.weight)
        pools = [bool(every) and number % every == 0 for number in range(1, settings.blocks + 1)]
        self.blocks = nn.ModuleList([Block(channels, settings.pooling_channels if pool else 0) for pool in pools])
        self.neck = ConvNorm(channels, settings.head_channels, 1)
        self.pools_area = settings.value_pooling == "area"
        self.hidden = nn.Linear(POOLINGS * settings.head_channels, settings.value_hidden)
        self.map_readout = Readout(settings.head_channels, {name: HEADS[name].num_maps for name in self.heads})
        self.scalar_readout = Readout(settings.value_hidden, {name: HEADS[name].num_scalars for name in self.heads})

    def forward(self, planes: Tensor, globals: Tensor, on_board: Tensor | None = None) -> dict[str, Tensor]:
        """Returns each head's output in float32, see `HEADS`: planes [B, C, N, N], globals float32 [B, g], on_board
        bool [B, N, N]."""
        expected = f"expected [B, {self.padded_planes}, N, N] and [B, {self.num_globals}]"
        assert planes.ndim == 4 and planes.shape[1] == self.padded_planes, f"planes {list(planes.shape)}, {expected}"
        assert globals.shape == (len(planes), self.num_globals), f"globals {list(globals.shape)}, {expected}"
        bias = None if self.global_bias is None else self.global_bias(globals).unsqueeze(-1).unsqueeze(-1)
        x = self.stem(planes, on_board, residual=bias)
        for block in self.blocks:
            x = block(x, on_board)
        x = self.neck(x, on_board)
        scalars = self.scalar_readout(torch.relu(self.hidden(pool(x, on_board, self.pools_area))))
        maps = self.map_readout(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).split(self.map_readout.sizes, dim=1)
        scalars = scalars.split(self.scalar_readout.sizes, dim=1)
        return {
            name: HEADS[name].assemble(own_maps, own_scalars, on_board)
            for name, own_maps, own_scalars in zip(self.heads, maps, scalars, strict=True)
        }

    def playing_copy(self, device: torch.device, dtype: torch.dtype, heads: Sequence[str] | None) -> "Network":
        """Returns a copy for playing: see `inference_copy`."""
        playing = copy.deepcopy(self).eval().requires_grad_(False).to(device)
        if heads is not None:
            playing.heads = [name for name in playing.heads if name in heads]
            for readout, size_of in ((playing.map_readout, "num_maps"), (playing.scalar_readout, "num_scalars")):
                readout.sizes = [getattr(HEADS[name], size_of) for name in playing.heads]
                kept = [name for name in playing.heads if name in readout.parts]
                readout.parts = nn.ModuleDict({name: readout.parts[name] for name in kept})
        for module in list(playing.modules()):
            for name, layer in list(module.named_children()):
                if isinstance(layer, ConvNorm):
                    conv = nn.utils.fusion.fuse_conv_bn_eval(layer.conv, layer.norm)
                    if layer is playing.stem:
                        playing.padded_planes = pad_inputs_(conv, device)
                    setattr(module, name, FusedConv(conv, device, dtype, self.size))
        playing.map_readout.freeze_(dtype)
        playing.scalar_readout.freeze_(torch.float32)
        return playing

    def num_parameters(self) -> int:
        """Returns the number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def num_operations(self, board_size: int) -> int:
        """Returns the multiplications and additions of the convolutions for one position, nearly all of its cost."""
        kernels = sum(math.prod(layer.weight.shape) for layer in self.modules() if isinstance(layer, nn.Conv2d))
        return 2 * kernels * board_size * board_size


class InferenceNetwork:
    """A network's copy for playing, made by `inference_copy`. It is called like the network, and computes without
    gradients, in `dtype` inside and float32 outside. padded_planes: how many planes it computes with, `num_planes` and
    zeros. It adds these to planes without them, but an encoder does that at less cost."""

    def __init__(self, network: Network, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype, self.network = device, dtype, network
        self.num_planes, self.num_globals, self.heads = network.num_planes, network.num_globals, network.heads
        self.padded_planes = network.padded_planes

    @torch.inference_mode()
    def __call__(self, planes: Tensor, globals: Tensor, on_board: Tensor | None = None) -> dict[str, Tensor]:
        planes = pad_planes(planes, self.padded_planes) if planes.shape[1] == self.num_planes else planes
        planes = planes.to(dtype=self.dtype, memory_format=torch.channels_last)
        return self.network(planes, globals, on_board)

    @torch.no_grad()
    def load_(self, network: Network) -> None:
        """Copies the weights of a network of the same shape into the present tensors, so that captured graphs, which
        read them, stay valid."""
        new = network.playing_copy(self.device, self.dtype, self.heads)
        assert new.num_planes == self.num_planes, f"{new.num_planes} planes in place of {self.num_planes}"
        torch._foreach_copy_(_weights(self.network), _weights(new))
        for layer, new_layer in zip(self.network.modules(), new.modules(), strict=True):
            if isinstance(layer, FusedConv) and layer.conv.weight.device.type == "cpu":  # where there are no graphs
                layer.packed, layer.tiles = new_layer.packed, {}  # in oneDNN's layout; those in tiles are made anew


def _weights(playing: Network) -> list[Tensor]:
    """Returns the weights of an inference network, without those packed for oneDNN."""
    joined = [tensor for module in playing.modules() if isinstance(module, Readout) for tensor in module.joined]
    return [*playing.state_dict().values(), *joined]


def inference_copy(
    network: Network,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    heads: Sequence[str] | None = None,
) -> InferenceNetwork:
    """Returns a copy for playing, which later training does not change: convolutions in `dtype`, the small matrices
    after pooling in float32.

    heads: the outputs; None for all. Batch normalisation is folded in with its running statistics. torch.compile is not
    used, because it was slower on a CPU: 15.1 ms instead of 12.5 (2x32, 9x9, bf16, batch 256, one Zen 4 core)."""
    device = torch.device(device)
    return InferenceNetwork(network.playing_copy(device, dtype, heads), device, dtype)
