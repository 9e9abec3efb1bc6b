"""KataGo's architecture (versions 8 to 17 of its files): pre-activation blocks with global pooling, nested bottlenecks
and transformers.

A norm is a scale and a bias per channel, into which a file's statistics are folded, so there is no batch normalisation
to continue. Every norm is followed by its activation and the on-board mask; off the board the trunk may hold anything.
`katago_format` reads and writes the files, and builds the modules from their tensors."""

import copy
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zerogo.network import OFF_BOARD_LOGIT, Network, pool
from zerogo.network.fused import FusedConv, fast_relu, finish

PLANES, GLOBALS = 22, 19
SUPERKO, TERRITORY = 6, 9  # indices of the global inputs
MOST_VALUE = 1 - 1e-6  # largest tanh of a value to which atanh is applied
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "ACTIVATION_IDENTITY": lambda x: x,
    "ACTIVATION_RELU": fast_relu,
    "ACTIVATION_MISH": F.mish,
    "ACTIVATION_SILU": F.silu,
}
RELU = "ACTIVATION_RELU"
HEADS = ("policy", "value", "ownership", "score")


class Norm(nn.Module):
    """Scale and bias of each channel, then the activation, then the mask: [B, C, N, N] -> the same shape."""

    def __init__(self, scale: Tensor, bias: Tensor, activation: str) -> None:
        super().__init__()
        self.weight, self.bias, self.activation = nn.Parameter(scale), nn.Parameter(bias), activation

    def forward(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the activated maps."""
        weight, bias = (part.to(x.dtype).view(1, -1, 1, 1) for part in (self.weight, self.bias))
        return finish(ACTIVATIONS[self.activation](torch.addcmul(bias, x, weight)), on_board, False)


class RmsNorm(nn.Module):
    """x times a weight / the root mean square over the channels of a point, or over all channels and points of a board:
    [B, C, N, N] -> the same shape, zero off the board. bias, activation: only at the trunk's tip, None in blocks."""

    def __init__(self, weight: Tensor, epsilon: float, bias: Tensor | None, is_spatial: bool, activation: str) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), None if bias is None else nn.Parameter(bias)
        self.epsilon, self.is_spatial, self.activation = epsilon, is_spatial, activation

    def forward(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the normalised maps."""
        y = x.to(torch.float32)
        square = y.square().mean(1, keepdim=True)
        if self.is_spatial and on_board is None:
            square = square.mean((2, 3), keepdim=True)
        elif self.is_spatial:
            board = on_board.unsqueeze(1)
            square = torch.where(board, square, 0.0).sum((2, 3), True) / board.sum((2, 3), True)
        y = y * torch.rsqrt(square + self.epsilon) * self.weight.view(1, -1, 1, 1)
        y = y if self.bias is None else y + self.bias.view(1, -1, 1, 1)
        return finish(ACTIVATIONS[self.activation](y.to(x.dtype)), on_board, False)


class PooledBias(nn.Module):
    """A bias per channel, computed from the pooled channels of a convolution."""

    def __init__(self, conv: nn.Conv2d, norm: Norm) -> None:
        super().__init__()
        self.conv, self.norm, self.linear = conv, norm, None  # from 3 * norm's channels

    def pooled(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the pooled channels: [B, C, N, N] -> float32 [B, 3C']."""
        return pool(_conv(self.conv, self.norm, x, on_board), on_board, is_signed=self.norm.activation != RELU)

    def forward(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the bias: float32 [B, C'', 1, 1]."""
        return self.linear(self.pooled(x, on_board)).unsqueeze(-1).unsqueeze(-1)


class Residual(nn.Module):
    """x + conv(norm(f(conv(norm(x))))), where f is the identity, a pooled bias or other blocks."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.blocks = kind, nn.ModuleList()
        self.norm1 = self.conv1 = self.pool = self.norm2 = self.conv2 = None

    def forward(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the block's output: [B, C, N, N] -> the same shape."""
        y = self.norm1(x, on_board)
        if self.pool is None and not self.blocks:
            y = _conv(self.conv1, self.norm2, y, on_board)
        else:
            z = self.conv1(y)
            if self.pool is not None:
                z = z + self.pool(y, on_board).to(z.dtype)
            for block in self.blocks:
                z = block(z, on_board)
            y = self.norm2(z, on_board)
        return self.conv2(y, None, residual=x, relu=False) if isinstance(self.conv2, FusedConv) else x + self.conv2(y)


def _conv(conv: nn.Module, norm: Norm, x: Tensor, on_board: Tensor | None) -> Tensor:
    """Returns the output of a convolution and its norm, which a `FusedConv` includes."""
    if not isinstance(conv, FusedConv):
        return norm(conv(x), on_board)
    is_relu = norm.activation == RELU
    y = conv(x, on_board if is_relu else None, relu=is_relu)
    return y if is_relu else finish(ACTIVATIONS[norm.activation](y), on_board, False)


class Attention(nn.Module):
    """x + attention of every point to all points of its board, with rotary positions if there are frequencies.

    heads, groups: numbers of query heads, and of key and value heads, which several query heads share. frequencies:
    [groups or 1, pairs, 2], radians per column and per row, or None. theta: the base of fixed frequencies, None for
    learned ones."""

    kind = "transformer_attention_block"

    def __init__(self, heads: int, groups: int, frequencies: Tensor | None, theta: float | None) -> None:
        super().__init__()
        self.heads, self.groups, self.theta = heads, groups, theta
        learns = frequencies is not None and theta is None
        self.frequencies = nn.Parameter(frequencies) if learns else None
        self.register_buffer("fixed", None if learns else frequencies, persistent=False)

    def forward(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the block's output: [B, C, N, N] -> the same shape."""
        size, z = x.shape[-1], self.norm(x, on_board).flatten(2).transpose(1, 2)
        q = self._rotate(self.query(z).unflatten(2, (self.heads, -1)).transpose(1, 2), size)
        k = self._rotate(self.key(z).unflatten(2, (self.groups, -1)).transpose(1, 2), size)
        v = self.value(z).unflatten(2, (self.groups, -1)).transpose(1, 2)
        k, v = (part.repeat_interleave(self.heads // self.groups, dim=1) for part in (k, v))
        seen = None if on_board is None else on_board.flatten(1)[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2)
        return x + finish(self.out(y).transpose(1, 2).unflatten(2, (size, size)), on_board, False)

    def _rotate(self, x: Tensor, size: int) -> Tensor:
        """Returns queries or keys rotated by the column and the row of their points: [B, heads, P, d]."""
        frequencies = self.fixed if self.frequencies is None else self.frequencies
        if frequencies is None:
            return x
        line = torch.arange(size, device=x.device, dtype=torch.float32)
        places = torch.cartesian_prod(line, line).flip(1)  # column, row
        angles = (places @ frequencies.to(torch.float32).transpose(1, 2)).repeat_interleave(
            x.shape[1] // len(frequencies), dim=0
        )
        cos, sin, (a, b) = angles.cos(), angles.sin(), x.to(torch.float32).unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).to(x.dtype)


class FeedForward(nn.Module):
    """x + W(silu(z U) * (z G)) at every point, where z = rms(x); the gate G is optional."""

    kind = "transformer_ffn_block"

    def __init__(self) -> None:
        super().__init__()
        self.gate = None

    def forward(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the block's output: [B, C, N, N] -> the same shape."""
        z = self.norm(x, on_board).permute(0, 2, 3, 1)
        y = F.silu(self.up(z))
        y = self.down(y if self.gate is None else y * self.gate(z))
        return x + finish(y.permute(0, 3, 1, 2), on_board, False)


class KataGoNetwork(nn.Module):
    """A KataGo network for its 22 planes and 19 global inputs; `katago_format` fills it with modules.

    header: the part of a file before the trunk, kept for writing. size: the (largest) board side. heads: the outputs,
    from HEADS, with the meaning of `network.HEADS`; the score is KataGo's lead. optimism: weight of the optimistic
    policy, of moves that may turn out better than expected (version 12 or later)."""

    num_planes, num_globals, padded_planes = PLANES, GLOBALS, PLANES

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.heads, self.header, self.optimism = size, list(HEADS), {}, 0.0
        self.blocks = nn.ModuleList()
        self.stem = self.global_bias = self.tip = None
        self.policy_conv = self.policy_pool = self.policy_norm = self.policy_out = self.policy_pass = None
        self.pass_bias = self.pass_activation = self.pass2 = None
        self.value_conv = self.value_norm = self.value_hidden = self.value_activation = None
        self.outcome = self.numbers = self.ownership = None

    def forward(self, planes: Tensor, globals: Tensor, on_board: Tensor | None = None) -> dict[str, Tensor]:
        """Returns each head's output in float32: planes [B, 22, N, N], globals float32 [B, 19], on_board bool
        [B, N, N]."""
        expected = f"expected [B, {PLANES}, N, N] and [B, {GLOBALS}]"
        assert planes.ndim == 4 and planes.shape[1] == PLANES, f"planes {list(planes.shape)}, {expected}"
        assert globals.shape == (len(planes), GLOBALS), f"globals {list(globals.shape)}, {expected}"
        bias = self.global_bias(globals).unsqueeze(-1).unsqueeze(-1)
        x = self.stem(planes)
        x = x + bias.to(x.dtype)
        for block in self.blocks:
            x = block(x, on_board)
        x = self.tip(x, on_board)
        outputs = {"policy": self._policy(x, on_board)} if "policy" in self.heads else {}
        v = _conv(self.value_conv, self.value_norm, x, on_board)
        hidden = ACTIVATIONS[self.value_activation](self.value_hidden(pool(v, on_board, by_area=True)))
        outputs |= self._numbers(hidden, globals)
        if "ownership" in self.heads:
            outputs["ownership"] = finish(self.ownership(v), on_board, False)[:, 0].to(torch.float32)
        return {name: outputs[name] for name in self.heads}

    def _policy(self, x: Tensor, on_board: Tensor | None) -> Tensor:
        """Returns the logits of the moves and the pass: float32 [B, A]."""
        pooled = self.policy_pool.pooled(x, on_board)
        maps = self.policy_conv(x)
        bias = self.policy_pool.linear(pooled).unsqueeze(-1).unsqueeze(-1)
        maps = self.policy_out(self.policy_norm(maps + bias.to(maps.dtype), on_board)).to(torch.float32)
        passes = self.policy_pass(pooled)
        if self.pass2 is not None:
            passes = self.pass2(ACTIVATIONS[self.pass_activation](passes + self.pass_bias))
        if on_board is not None:
            maps = torch.where(on_board.unsqueeze(1), maps, OFF_BOARD_LOGIT)
        logits = torch.cat([maps.flatten(2), passes.to(torch.float32).unsqueeze(2)], dim=2)
        return torch.lerp(logits[:, 0], logits[:, 1], self.optimism) if self.optimism else logits[:, 0]

    def _numbers(self, hidden: Tensor, globals: Tensor) -> dict[str, Tensor]:
        """Returns value and score: float32 [B] each. Under area scoring with superko, "no result" is impossible."""
        logits = self.outcome(hidden).to(torch.float32)  # autocast on a CPU would compute the rest in bfloat16
        ends = (globals[:, SUPERKO] != 0) & (globals[:, TERRITORY] == 0)
        chances = torch.softmax(logits, dim=1)
        value = torch.atanh((chances[:, 0] - chances[:, 1]).clamp(-MOST_VALUE, MOST_VALUE))
        lead = self.header["multipliers"][3] * self.numbers(hidden)[:, 2].to(torch.float32)
        return {
            "value": torch.where(ends, (logits[:, 0] - logits[:, 1]) / 2, value),
            "score": torch.where(ends, lead, lead * (1 - chances[:, 2])),
        }

    num_parameters, num_operations = Network.num_parameters, Network.num_operations

    def playing_copy(self, device: torch.device, dtype: torch.dtype, heads: Sequence[str] | None) -> "KataGoNetwork":
        """Returns a copy for playing: see `network.inference_copy`."""
        playing = copy.deepcopy(self).eval().requires_grad_(False).to(device)
        if heads is not None:
            playing.heads = [name for name in HEADS if name in heads]
        for module in list(playing.modules()):
            if isinstance(module, Residual) and module.pool is None and not module.blocks:
                _fuse_(module, "conv1", module.norm2, dtype, self.size)
            if isinstance(module, Residual):
                _fuse_(module, "conv2", None, dtype, self.size)
            if isinstance(module, PooledBias):
                _fuse_(module, "conv", module.norm, dtype, self.size)
        _fuse_(playing, "value_conv", playing.value_norm, dtype, self.size)
        for module in playing.modules():  # the small matrices after pooling stay in float32
            if isinstance(module, nn.Conv2d):
                module.to(dtype=dtype, memory_format=torch.channels_last)
            elif isinstance(module, (Attention, FeedForward)):
                for layer in module.children():
                    if isinstance(layer, nn.Linear):
                        layer.to(dtype)
        return playing


def _fuse_(module: nn.Module, name: str, norm: Norm | None, dtype: torch.dtype, size: int) -> None:
    """Replaces a convolution by a `FusedConv` that includes its norm."""
    conv = getattr(module, name)
    scale = torch.ones(conv.out_channels, device=conv.weight.device) if norm is None else norm.weight
    bias = torch.zeros_like(scale) if norm is None else norm.bias
    conv.weight = nn.Parameter(conv.weight * scale.view(-1, 1, 1, 1), requires_grad=False)
    conv.bias = nn.Parameter(bias.clone(), requires_grad=False)
    setattr(module, name, FusedConv(conv, conv.weight.device, dtype, size))
