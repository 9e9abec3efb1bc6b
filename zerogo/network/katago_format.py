"""KataGo's network files (`.bin.gz`, `.txt.gz`, the same without gzip), versions 8 to 17: read, written, and planned.

One description of the layout serves all three: `_network` walks through a file with a stream, which reads the next
entry (`StreamReader`) or writes a module's (`StreamWriter`). A *plan* is a text file without tensors. It describes the
architecture, and `from_plan` draws initial weights for it.

A file may come from a stranger, so every size is compared with the rest of the file before memory is allocated."""

import gzip
import io
import itertools
import math
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zerogo.config import Config, FeaturesConfig, NetworkConfig, RunConfig
from zerogo.config.sections import KATAGO_HEADS
from zerogo.errors import InputError
from zerogo.features import ENCODERS
from zerogo.network import katago
from zerogo.network.fused import Conv2d
from zerogo.network.katago import GLOBALS, PLANES, RELU, Attention, FeedForward, KataGoNetwork, Norm, Residual, RmsNorm
from zerogo.system import bounds
from zerogo.system.runtime import write_atomically

SUFFIXES = (".bin.gz", ".txt.gz", ".gz", ".bin", ".txt")
VERSIONS = range(8, 18)
MULTIPLIERS = (20.0, 20.0, 20.0, 20.0, 40.0, 0.25, 30.0)  # before version 13; later files store them, in this order
NEW_VERSION, NEW_MULTIPLIERS = 15, (20.0, 20.0, 20.0, 20.0, 40.0, 0.25, 150.0)  # of networks with random weights
EPSILON = 1e-20  # of norms without statistics
MOST_UNPACKED, LEAST_UNPACKED = 20, 2**24  # of a file: times its size, or bytes, at most
MOST, MOST_DEPTH, MOST_BLOCKS = 2**16, 8, 1000
BINARY = b"@BIN@"
SPACE, WORD = re.compile(rb"\s*"), re.compile(rb"\S+")
KINDS = ("ordinary_block", "gpool_block", "nested_bottleneck_block", Attention.kind, FeedForward.kind)
SMALL, USUAL = 0.1, 1.0  # spread of initial weights: in layers that end a block or a head; in all others


def is_network(path: str | Path) -> bool:
    """Returns whether a file has the name of a KataGo network."""
    return str(path).endswith(SUFFIXES)


def read(path: str | Path, size: int) -> KataGoNetwork:
    """Returns the network of a file, float32 on the CPU, made for boards up to a side of `size`.

    Raises InputError for a file that is missing, damaged, malformed or of another kind."""
    try:
        network = KataGoNetwork(size)
        reader = StreamReader(_unpacked(Path(path)), f"KataGo network {path}")
        _network(reader, network)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the KataGo network {path}: {why}") from None
    if SPACE.match(reader.data, reader.at).end() != len(reader.data):
        raise reader.error("something follows its last layer")
    return network.eval()


def _unpacked(path: Path) -> bytes:
    with bounds.open_regular(path, "KataGo network") as file:
        packed, limit = file.read(2), max(LEAST_UNPACKED, MOST_UNPACKED * path.stat().st_size)
        file.seek(0)
        data = (gzip.GzipFile(fileobj=file) if packed == b"\x1f\x8b" else file).read(limit + 1)
    if len(data) > limit:
        raise InputError(f"KataGo network {path} is refused: it unpacks to more than {MOST_UNPACKED} times its size")
    return data


def write(path: str | Path, network: KataGoNetwork, name: str) -> None:
    """Writes a network for KataGo's engine; as text if the file's name ends with .txt or .txt.gz. name: the network's
    name inside the file."""
    text = str(path).removesuffix(".gz")
    data = _written(network, name, "text" if text.endswith(".txt") else "binary")
    data = gzip.compress(data, mtime=0) if str(path) != text else data
    write_atomically(path, data)


def plan(network: KataGoNetwork) -> str:
    """Returns a network's plan: the words of its file without tensors."""
    return _written(network, "plan", "plan").decode().replace("\n", " ").strip()


def config_of(network: KataGoNetwork, path: str | Path) -> Config:
    """Returns settings that fit a file's network, named by the file."""
    groups: str | tuple[str, ...] = "katago22"
    if network.header["as_if_suicide"]:
        groups = tuple("area_as_if_suicide" if group == "area" else group for group in ENCODERS[groups])
    shape = {"blocks": min(200, max(1, len(network.blocks))), "channels": min(4096, network.stem.out_channels)}
    settings = NetworkConfig(architecture="katago", plan=plan(network), heads=KATAGO_HEADS, **shape)
    name = re.sub(r"(\.bin|\.txt)?(\.gz)?$", "", Path(path).name).lstrip(".")
    return Config(run=RunConfig(name=name), features=FeaturesConfig(encoder=groups), network=settings)


def _written(network: KataGoNetwork, name: str, form: str) -> bytes:
    network.header["name"] = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:96] or "network"
    writer = StreamWriter(form)
    with torch.no_grad():
        _network(writer, network)
    return writer.file.getvalue() + b"\n"


def from_plan(text: str, size: int) -> KataGoNetwork:
    """Returns a network with initial weights drawn from torch's global generator. Raises InputError if the text is no
    plan."""
    network, reader = KataGoNetwork(size), StreamReader(text.encode(), "network.plan", has_tensors=False)
    _network(reader, network)
    return network


def fresh(settings: NetworkConfig, size: int) -> KataGoNetwork:
    """Returns a network of architecture katago with initial weights. Raises InputError for impossible settings."""
    network = from_plan(settings.plan or plan_of(settings), size)
    network.heads = [name for name in network.heads if name in settings.heads]
    for name, part in (("ownership", network.ownership), ("score", network.numbers)):
        part.requires_grad_(name in network.heads)  # DDP waits for the gradient of each that learns
    return network


def plan_of(settings: NetworkConfig) -> str:
    """Returns the plan for the config's section `network`."""
    c, head, hidden = settings.channels, settings.head_channels, settings.value_hidden
    pooled = max(1, min(settings.pooling_channels, c // 2))
    act = f"act {RELU}"
    norm, conv = f"norm {{}} {EPSILON} 1 1 {act}".format, "conv {0} {0} {1} {2} 1 1".format
    linear, biased = "matmul {} {}".format, "matmul {0} {1} bias {1}".format
    rest, half, heads, wide, d = max(1, c - pooled), max(1, c // 2), max(1, c // 32), 3 * c, max(4, min(32, c // 4 * 4))
    ordinary = "ordinary_block b {0} {1} {0} {1}".format
    inner, joined = ordinary(norm(half), conv(3, half, half)), heads * d
    kinds = {
        "ordinary": ordinary(norm(c), conv(3, c, c)),
        "gpool": f"gpool_block b {norm(c)} {conv(3, c, rest)} {conv(3, c, pooled)} {norm(pooled)} "
        f"{linear(3 * pooled, rest)} {norm(rest)} {conv(3, rest, c)}",
        "nested": f"nested_bottleneck_block b 2 {norm(c)} {conv(1, c, half)} {inner} {inner} {norm(half)} "
        f"{conv(1, half, c)}",
        "attention": f"{Attention.kind} b {heads} {heads} {d} {d} 1 0 rms {c} 1e-6 "
        f"{linear(c, joined)} {linear(c, joined)} {linear(c, joined)} {linear(joined, c)} rope 100.0",
        "feed_forward": f"{FeedForward.kind} b {c} {wide} 1 rms {c} 1e-6 {linear(c, wide)} {linear(c, wide)} "
        f"{linear(wide, c)}",
    }
    blocks = " ".join(itertools.islice(map(kinds.get, itertools.cycle(settings.trunk)), settings.blocks))
    is_rms = not {"attention", "feed_forward"}.isdisjoint(settings.trunk)
    return (
        f"plan {NEW_VERSION} {PLANES} {GLOBALS} {' '.join(map(str, NEW_MULTIPLIERS))} 0 0 0 0 0 0 0 0 "
        f"trunk {settings.blocks} {c} {c} {rest} {pooled} {pooled} {int(is_rms)} 0 0 0 0 0 "
        f"{conv(3, PLANES, c)} {linear(GLOBALS, c)} {blocks} {f'tip {c} 1e-6 0 0 {act}' if is_rms else norm(c)} "
        f"policyhead {conv(1, c, head)} {conv(1, c, head)} {norm(head)} {linear(3 * head, head)} {norm(head)} "
        f"{conv(1, head, 2)} {biased(3 * head, head)} {act} {linear(head, 2)} "
        f"valuehead {conv(1, c, head)} {norm(head)} {biased(3 * head, hidden)} {act} "
        f"{biased(hidden, 3)} {biased(hidden, 6)} {conv(1, head, 1)}"
    )


class StreamReader:
    """Reads a stream's words and tensors; the `value` arguments are ignored. has_tensors: if False, tensors are drawn
    with the given spread, or filled with its negative if it is not above 0."""

    def __init__(self, data: bytes, where: str, has_tensors: bool = True) -> None:
        self.data, self.where, self.at, self.has_tensors, self.version = data, where, 0, has_tensors, 0

    def error(self, what: str) -> InputError:
        """Returns the InputError to raise."""
        return InputError(f"{self.where} is not one that zerogo reads: {what}, at byte {self.at}")

    def word(self, value: Any = None, allowed: Sequence[str] = ()) -> str:
        """Returns the next word. Raises InputError if there is none, or if it is not allowed."""
        if (match := WORD.match(self.data, SPACE.match(self.data, self.at).end(), self.at + 4096)) is None:
            raise self.error("it ends too early")
        self.at, word = match.end(), match[0].decode("ascii", "replace")
        if allowed and word not in allowed:
            raise self.error(f"it says {word[:40]!r} instead of one of {', '.join(allowed)}")
        return word

    def whole(self, value: Any = None, low: int = 1, high: int = MOST) -> int:
        """Returns the next integer, from low to high."""
        word = self.word()
        if not re.fullmatch(r"-?\d{1,9}", word) or not low <= int(word) <= high:
            span = str(low) if low == high else f"a whole number from {low} to {high}"
            raise self.error(f"it says {word[:40]!r} instead of {span}")
        return int(word)

    def real(self, value: Any = None) -> float:
        """Returns the next finite number."""
        word = self.word()
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.error(f"it says {word[:40]!r} instead of a finite number")
        return number

    def tensor(self, value: Any, shape: Sequence[int], spread: float = 0.0) -> Tensor:
        """Returns the next tensor: float32 of that shape."""
        if not self.has_tensors:
            return torch.full(shape, -spread) if spread <= 0 else torch.empty(shape).normal_(std=spread)
        number, start = math.prod(shape), SPACE.match(self.data, self.at).end()
        is_binary, first = self.data.startswith(BINARY, start), start + len(BINARY)
        if first + 4 * number > len(self.data) if is_binary else 2 * number > len(self.data) - start + 1:
            raise self.error(f"it ends before {number} numbers")
        if is_binary:
            values, self.at = np.frombuffer(self.data, "<f4", number, first), first + 4 * number
        else:
            values = np.fromiter((self.real() for _ in range(number)), np.float64, number).astype(np.float32)
        if not np.isfinite(values).all():
            raise self.error("its numbers are not all finite")
        return torch.tensor(values.astype(np.float32)).view(*shape)


class StreamWriter:
    """Writes a stream. form: "binary", "text", or "plan" for text without tensors."""

    def __init__(self, form: str) -> None:
        self.form, self.file, self.version = form, io.BytesIO(), 0

    def word(self, value: Any = None, allowed: Sequence[str] = ()) -> Any:
        """Writes a word, and returns it."""
        self.file.write(f"{'x' if value is None else value}\n".encode())
        return value

    def whole(self, value: int, low: int = 1, high: int = MOST) -> int:
        """Writes an integer, and returns it."""
        return self.word(int(value))

    def real(self, value: float) -> float:
        """Writes a number so that it is read back exactly, and returns it."""
        return self.word(repr(float(value))) and value

    def tensor(self, value: Tensor, shape: Sequence[int], spread: float = 0.0) -> Tensor:
        """Writes a tensor, and returns it."""
        numbers = value.detach().to("cpu", torch.float32).contiguous().numpy()
        assert numbers.shape == tuple(shape), f"{numbers.shape} is not {shape}"
        if self.form == "binary":
            self.file.write(BINARY + numbers.astype("<f4").tobytes() + b"\n")
        elif self.form == "text":
            self.file.write(" ".join(map(repr, numbers.flatten().tolist())).encode() + b"\n")
        return value


Stream = StreamReader | StreamWriter
Layer = nn.Module | None


def _network(file: Stream, net: KataGoNetwork) -> None:
    """Reads or writes a complete file."""
    _header(file, net)
    version, header = file.version, net.header
    file.word("trunk")
    number = file.whole(len(net.blocks), 0, MOST_BLOCKS)
    channels = file.whole(net.stem.out_channels if net.stem else 0)
    header["widths"] = [file.whole(width) for width in header.get("widths", [channels] * 4)]  # inside blocks
    is_rms = version >= 15 and file.whole(isinstance(net.tip, RmsNorm), 0, 1)
    _zeros(file, 5 if version >= 15 else 0)
    net.stem = _conv(file, net.stem, PLANES, channels)
    net.global_bias = _linear(file, net.global_bias, GLOBALS, channels)
    _blocks(file, net.blocks, number, channels, 1)
    net.tip = _rms(file, net.tip, channels, True) if is_rms else _norm(file, net.tip, channels)
    file.word("policyhead")
    _policy_head(file, net, channels, header)
    file.word("valuehead")
    _value_head(file, net, channels)


def _header(file: Stream, net: KataGoNetwork) -> None:
    header = net.header
    header["name"] = file.word(header.get("name"))
    file.version = header["version"] = file.whole(header.get("version"), VERSIONS[0], VERSIONS[-1])
    file.whole(PLANES, PLANES, PLANES)
    file.whole(GLOBALS, GLOBALS, GLOBALS)
    multipliers = header.get("multipliers", MULTIPLIERS)
    header["multipliers"] = tuple(map(file.real, multipliers)) if file.version >= 13 else MULTIPLIERS
    header.setdefault("as_if_suicide", 0)
    if file.version >= 15:
        if file.whole(0, 0, 1):
            raise InputError(f"{file.where} imitates human ranks with a metadata encoder, which zerogo lacks")
        header["as_if_suicide"] = file.whole(header["as_if_suicide"], 0, 1)
        _zeros(file, 6)


def _zeros(file: Stream, number: int) -> None:
    for _ in range(number):
        if file.whole(0, -(10**9), 10**9):
            raise file.error(f"it belongs to a newer format, with {file.version} and a number where 0 was")


def _blocks(file: Stream, blocks: nn.ModuleList, number: int, channels: int, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise file.error(f"its blocks are nested {depth} deep")
    for index in range(number):
        old = blocks[index] if index < len(blocks) else None
        kind = file.word(getattr(old, "kind", None), KINDS)
        file.word("block")
        if kind == Attention.kind:
            new = _attention(file, old, channels)
        elif kind == FeedForward.kind:
            new = _feed_forward(file, old, channels)
        else:
            new = _residual(file, old or Residual(kind), channels, depth)
        if old is None:
            blocks.append(new)


def _residual(file: Stream, block: Residual, channels: int, depth: int) -> Residual:
    number = file.whole(len(block.blocks), 0, MOST_BLOCKS) if block.kind == "nested_bottleneck_block" else 0
    block.norm1 = _norm(file, block.norm1, channels)
    block.conv1 = _conv(file, block.conv1, channels)
    middle = block.conv1.out_channels
    if block.kind == "gpool_block":
        block.pool = _pooled_bias(file, block.pool, channels)
        block.pool.linear = _linear(file, block.pool.linear, 3 * block.pool.conv.out_channels, middle)
    _blocks(file, block.blocks, number, middle, depth + 1)
    block.norm2 = _norm(file, block.norm2, middle)
    block.conv2 = _conv(file, block.conv2, middle, channels, SMALL)
    return block


def _pooled_bias(file: Stream, old: katago.PooledBias | None, channels: int) -> katago.PooledBias:
    conv = _conv(file, old and old.conv, channels)
    norm = _norm(file, old and old.norm, conv.out_channels)
    return old or katago.PooledBias(conv, norm)


def _attention(file: Stream, old: Attention | None, channels: int) -> Attention:
    heads, groups = file.whole(old and old.heads), file.whole(old and old.groups)
    d, e = (file.whole(old and getattr(old, name).out_features // old.groups) for name in ("key", "value"))
    turns = old is not None and (old.frequencies is not None or old.theta is not None)
    has_rope = file.whole(turns, 0, 1)
    learns = file.whole(turns and old.theta is None, 0, 1)
    if heads % groups or (has_rope and d % (2 if learns else 4)):
        raise file.error(f"it has {heads} heads for {groups} groups of keys of {d} channels")
    norm = _rms(file, old and old.norm, channels)
    shapes = {"query": (channels, heads * d), "key": (channels, groups * d), "value": (channels, groups * e)}
    shapes["out"] = (heads * e, channels)
    layers = {
        name: _linear(file, old and getattr(old, name), *shape, SMALL if name == "out" else USUAL)
        for name, shape in shapes.items()
    }
    frequencies, theta = None, None
    if has_rope:
        file.word("rope")
    if has_rope and learns:
        sizes = [file.whole(size, size, size) for size in (groups, d // 2, 2)]
        frequencies = file.tensor(old and old.frequencies, sizes, 0.5)
    elif has_rope:
        theta = file.real(old and old.theta)
        if theta <= 0:
            raise file.error(f"the theta of its rope is {theta}")
        # The first half of the pairs rotate with the row, the others with the column.
        turns = torch.tensor([theta ** (-2 * pair / (d / 2)) for pair in range(d // 4)])
        pairs = torch.stack([turns * 0, turns], 1), torch.stack([turns, turns * 0], 1)
        frequencies = torch.cat(pairs).unsqueeze(0)
    new = old or Attention(heads, groups, frequencies, theta)
    for name, layer in ({"norm": norm} | layers).items():
        setattr(new, name, layer)
    return new


def _feed_forward(file: Stream, old: FeedForward | None, channels: int) -> FeedForward:
    file.whole(channels, channels, channels)
    hidden = file.whole(old and old.up.out_features)
    is_gated = file.whole(old is not None and old.gate is not None, 0, 1)
    new = old or FeedForward()
    new.norm = _rms(file, old and old.norm, channels)
    new.up = _linear(file, old and old.up, channels, hidden)
    if is_gated:
        new.gate = _linear(file, old and old.gate, channels, hidden)
    new.down = _linear(file, old and old.down, hidden, channels, SMALL)
    return new


def _policy_head(file: Stream, net: KataGoNetwork, channels: int, header: dict[str, Any]) -> None:
    version, policies = file.version, 1
    if version >= 17:
        policies = file.whole(header.get("policies"), 2, 4)
        _zeros(file, 3)
    elif version >= 12:
        policies = 4 if version == 16 else 2
    header["policies"] = policies
    net.policy_conv = _conv(file, net.policy_conv, channels)
    inner = net.policy_conv.out_channels
    net.policy_pool = _pooled_bias(file, net.policy_pool, channels)
    pooled = 3 * net.policy_pool.conv.out_channels
    net.policy_pool.linear = _linear(file, net.policy_pool.linear, pooled, inner)
    net.policy_norm = _norm(file, net.policy_norm, inner)
    net.policy_out = _conv(file, net.policy_out, inner, policies, SMALL)
    outputs = inner if version >= 15 else policies
    net.policy_pass = _linear(file, net.policy_pass, pooled, outputs, USUAL if version >= 15 else SMALL)
    if version >= 15:
        net.pass_bias = _bias(file, net.pass_bias, inner)
        net.pass_activation = _activation(file, net.pass_activation)
        net.pass2 = _linear(file, net.pass2, inner, policies, SMALL)


def _value_head(file: Stream, net: KataGoNetwork, channels: int) -> None:
    _zeros(file, 3 if file.version >= 17 else 0)
    net.value_conv = _conv(file, net.value_conv, channels)
    width = net.value_conv.out_channels
    net.value_norm = _norm(file, net.value_norm, width)
    net.value_hidden = _linear(file, net.value_hidden, 3 * width, None, has_bias=True)
    net.value_activation = _activation(file, net.value_activation)
    hidden, numbers = net.value_hidden.out_features, 4 if file.version == 8 else 6
    net.outcome = _linear(file, net.outcome, hidden, 3, SMALL, has_bias=True)
    net.numbers = _linear(file, net.numbers, hidden, numbers, SMALL, has_bias=True)
    net.ownership = _conv(file, net.ownership, width, 1, SMALL)


# Layers


def _conv(file: Stream, old: Layer, inputs: int, outputs: int | None = None, share: float = USUAL) -> nn.Conv2d:
    file.word("conv")
    sides = [file.whole(side) for side in (old.kernel_size if old else (0, 0))]
    if not (sides[0] % 2 and sides[1] % 2):
        raise file.error(f"a convolution is {sides[0]} by {sides[1]}; both must be odd")
    file.whole(inputs, inputs, inputs)
    limits = (1, MOST) if outputs is None else (outputs, outputs)
    outputs = file.whole(old.out_channels if old else outputs, *limits)
    dilation = [file.whole(step, 1, 64) for step in (old.dilation if old else (1, 1))]
    shape, spread = (*sides, inputs, outputs), share * math.sqrt(2 / (sides[0] * sides[1] * inputs))
    weight = file.tensor(old.weight.permute(2, 3, 1, 0) if old else None, shape, spread)
    if old:
        return old
    padding = [side // 2 * step for side, step in zip(sides, dilation, strict=True)]
    with torch.device("meta"):
        conv = Conv2d(inputs, outputs, tuple(sides), padding=tuple(padding), dilation=tuple(dilation), bias=False)
    conv.weight = nn.Parameter(weight.permute(3, 2, 0, 1).contiguous())
    return conv


def _linear(
    file: Stream, old: Layer, inputs: int, outputs: int | None, share: float = USUAL, has_bias: bool = False
) -> nn.Linear:
    file.word("matmul")
    file.whole(inputs, inputs, inputs)
    limits = (1, MOST) if outputs is None else (outputs, outputs)
    outputs = file.whole(old.out_features if old else outputs, *limits)
    weight = file.tensor(old.weight.T if old else None, (inputs, outputs), share / math.sqrt(inputs))
    bias = _bias(file, old.bias if old else None, outputs) if has_bias else None
    if old:
        return old
    with torch.device("meta"):
        linear = nn.Linear(inputs, outputs, bias=has_bias)
    linear.weight, linear.bias = nn.Parameter(weight.T.contiguous()), bias
    return linear


def _bias(file: Stream, old: nn.Parameter | None, channels: int) -> nn.Parameter:
    file.word("bias")
    file.whole(channels, channels, channels)
    bias = file.tensor(old, (channels,))
    return nn.Parameter(bias) if old is None else old


def _activation(file: Stream, kind: str | None) -> str:
    file.word("act")
    return file.word(kind, list(katago.ACTIVATIONS)) if file.version >= 11 else RELU


def _norm(file: Stream, old: Norm | None, channels: int) -> Norm:
    """Reads or writes a norm and its activation; the statistics are folded into scale and bias."""
    file.word("norm")
    file.whole(channels, channels, channels)
    epsilon = file.real(EPSILON)
    has_scale, has_bias = file.whole(1, 0, 1), file.whole(1, 0, 1)
    shape = (channels,)
    mean, variance = file.tensor(torch.zeros(shape), shape), file.tensor(torch.ones(shape), shape, -1.0)
    scale = file.tensor(old and old.weight, shape, -1.0) if has_scale else torch.ones(shape)
    bias = file.tensor(old and old.bias, shape) if has_bias else torch.zeros(shape)
    activation = _activation(file, old and old.activation)
    if old is not None:
        return old
    root = (variance.double() + epsilon).sqrt()
    scale = scale.double() / root
    norm = Norm(scale.float(), (bias.double() - scale * mean.double()).float(), activation)
    if not (norm.weight.is_meta or all(torch.isfinite(part).all() for part in norm.parameters())):
        raise file.error("a norm's variance is not above 0")
    return norm


def _rms(file: Stream, old: RmsNorm | None, channels: int, is_tip: bool = False) -> RmsNorm:
    """Reads or writes the norm of a block, or of the trunk's tip, which alone has a bias and an activation."""
    file.word("tip" if is_tip else "rms")
    file.whole(channels, channels, channels)
    epsilon, is_spatial = file.real(old and old.epsilon), False
    if is_tip:
        is_spatial = bool(file.whole(old is not None and old.is_spatial, 0, 1))
        file.whole(0, 0, 0)
    weight = file.tensor(old and old.weight, (channels,), -1.0)
    bias = file.tensor(old and old.bias, (channels,)) if is_tip else None
    activation = _activation(file, old and old.activation) if is_tip else "ACTIVATION_IDENTITY"
    return old or RmsNorm(weight, epsilon, bias, is_spatial, activation)
