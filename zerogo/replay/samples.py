"""Samples: positions with their history, rules and targets, packed; the batches that a trainer takes; and their files.

A file is called a shard: zipped numpy arrays with a checksum each, written to a temporary name and renamed. It is
`shard-<number of its first sample>-<samples>.npz` and never changes. The samples of a shard that is not full yet are
saved with each checkpoint as `open-<first>-<samples>.npz`."""

from __future__ import annotations

import dataclasses
import re
import zipfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from zerogo import board
from zerogo.errors import InputError
from zerogo.rules import SUPERKO, RulesBatch
from zerogo.runtime import write_atomically
from zerogo.tensors import TensorFields

POSITIONS = 8  # the position itself and the seven before it
_SIMPLE_KO = SUPERKO.index("simple")


def _kept(dtype: torch.dtype, *shape: int | str) -> Any:
    """Returns a field of `Samples` with the type in which it is kept, the narrowest that is exact, and its shape behind
    the leading K; "N" and "A" stand for the board's side and number of actions."""
    return field(metadata={"dtype": dtype, "shape": shape})


@dataclass(frozen=True)
class Samples(TensorFields):
    """K samples, one row a position; never planes. Values, scores and ownership belong to the side to move."""

    rows: Tensor = _kept(
        torch.int32, POSITIONS, 2, "N"
    )  # bit rows, newest first; black, white; int16 kept where N <= 15
    to_play: Tensor = _kept(torch.int8)
    passes: Tensor = _kept(torch.int8)
    ply: Tensor = _kept(torch.int32)
    ko: Tensor = _kept(torch.int16)  # point banned by the simple ko rule, -1 for none
    moves: Tensor = _kept(torch.int16, 5)  # previous actions, newest first, -1 for none
    captures: Tensor = _kept(torch.int16, 2)  # stones captured by Black, by White
    size: Tensor = _kept(torch.int8)
    superko: Tensor = _kept(torch.int8)
    scoring: Tensor = _kept(torch.int8)
    suicide: Tensor = _kept(torch.bool)
    komi: Tensor = _kept(torch.float32)
    policy: Tensor = _kept(torch.float16, "A")  # the search's target, sums to 1
    policy_weight: Tensor = _kept(torch.float32)  # 0 where the policy is not to be learned
    reply: Tensor = _kept(torch.int16)  # the other side's next move, -1 where the game ended before it
    value: Tensor = _kept(torch.float32)  # the game's result in [-1, 1]
    root_value: Tensor = _kept(torch.float32)  # what the search said, in [-1, 1]
    short_values: Tensor = _kept(torch.float16, 3)  # averages of this and later root values, NaN where nobody kept them
    score: Tensor = _kept(torch.float32)  # the result in points, komi included
    ownership: Tensor = _kept(torch.int8, "N", "N")  # 1 mine, -1 the other side's, 0 nobody's
    board_weight: Tensor = _kept(torch.float32)  # 0 where the final board is unknown: score, ownership are not learned
    game: Tensor = _kept(torch.int64)  # the game's number in the run
    network_step: Tensor = _kept(torch.int64)  # of the network that played; 0 or less for players that have not learned

    def __len__(self) -> int:
        return self.rows.shape[0]

    @property
    def board_size(self) -> int:
        """N, the side of the tensors."""
        return self.rows.shape[-1]

    def packed(self) -> Samples:
        """Returns the samples on the host in the types in which they are kept; this is the one copy from the device."""
        kept = {}
        for name, (dtype, shape) in layout(self.board_size).items():
            tensor = getattr(self, name)
            assert tensor.shape == (len(self), *shape), f"{name} is {list(tensor.shape)}, not [{len(self)}, {shape}]"
            kept[name] = tensor.to(device="cpu", dtype=dtype)
        return Samples(**kept)

    def state(self) -> board.State:
        """Returns the positions as games for an encoder: with recent positions and moves, without superko's hashes."""
        rows, names = self.rows.to(torch.int32), ("moves", "passes", "ply", "ko")
        others = {name: getattr(self, name) for name in names}
        restored = board.restore(rows[:, 0, 0], rows[:, 0, 1], rows[:, 1:], self.to_play, self._rules(), **others)
        return dataclasses.replace(restored, captures=self.captures.to(torch.int32))

    def _rules(self) -> RulesBatch:
        """The host looks at the rules (samples lie on the host, so it waits for nothing)."""
        return RulesBatch(
            size=self.size.to(torch.int32),
            komi=self.komi,
            superko=self.superko,
            suicide=self.suicide,
            scoring=self.scoring,
            board_size=self.board_size,
            same_size=bool((self.size == self.board_size).all()),
            any_suicide=bool(self.suicide.any()),
            any_superko=bool((self.superko != _SIMPLE_KO).any()),
            any_territory=bool(self.scoring.any()),
        )


def position_fields(state: board.State) -> dict[str, Tensor]:
    """Returns the fields of `Samples` that a batch of games gives, from `rows` to `komi`; targets are the caller's."""
    newest = torch.stack((state.black, state.white), dim=1).unsqueeze(1)
    of_state = {name: getattr(state, name) for name in ("to_play", "passes", "ply", "ko", "moves")}
    of_rules = {name: getattr(state.rules, name) for name in ("superko", "scoring", "suicide", "komi")}
    narrowed = {"captures": state.captures.to(torch.int16), "size": state.rules.size.to(torch.int8)}
    return {"rows": torch.cat((newest, state.recent), dim=1)} | of_state | of_rules | narrowed


def layout(board_size: int) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """Returns how each field is kept: its type, and its shape without the leading K."""
    letters = {"N": board_size, "A": board_size * board_size + 1}
    kinds = {
        entry.name: (entry.metadata["dtype"], tuple(letters.get(size, size) for size in entry.metadata["shape"]))
        for entry in fields(Samples)
    }
    return kinds | {"rows": (torch.int16 if board_size <= 15 else torch.int32, kinds["rows"][1])}


@dataclass(frozen=True)
class TrainingBatch(TensorFields):
    """What one training step learns from: B samples, not yet turned. The trainer applies each sample's symmetry to
    planes and targets.

    state: the positions as games, leading B. policy: float32 [B, A], sums to 1. reply: float32 [B, A], 1 at the other
    side's next move, 0 everywhere where there was none. policy_weight, value, root_value, score, board_weight: float32
    [B], short_values: float32 [B, 3], as in `Samples`. ownership: float32 [B, N, N]. symmetry: int64 [B], a random
    element of D4 (0 to 7) for every sample."""

    state: board.State
    policy: Tensor
    reply: Tensor
    policy_weight: Tensor
    value: Tensor
    root_value: Tensor
    short_values: Tensor
    score: Tensor
    ownership: Tensor
    board_weight: Tensor
    symmetry: Tensor

    @classmethod
    def of(cls, samples: Samples, symmetry: Tensor) -> TrainingBatch:
        """Returns the batch of samples on the host; symmetry int64 [B]. The policy sums to 1 again after float16."""
        policy = samples.policy.to(torch.float32)
        names = ("policy_weight", "value", "root_value", "score", "board_weight")
        return cls(
            state=samples.state(),
            policy=policy / policy.sum(-1, keepdim=True).clamp(min=1e-6),
            reply=(samples.reply.unsqueeze(1) == torch.arange(policy.shape[1])).to(torch.float32),
            short_values=samples.short_values.to(torch.float32),
            ownership=samples.ownership.to(torch.float32),
            symmetry=symmetry,
            **{name: getattr(samples, name) for name in names},
        )

    def __len__(self) -> int:
        return self.policy.shape[0]


FORMAT = 1
_NAME = re.compile(r"(shard|open)-(\d{12})-(\d+)\.npz")


@dataclass(frozen=True)
class Shard:
    """A file of samples by its name: number of its first sample, and how many."""

    path: Path
    first: int
    count: int
    is_open: bool

    @property
    def end(self) -> int:
        """The number of the next shard's first sample."""
        return self.first + self.count


def shard_path(directory: Path, first: int, count: int, is_open: bool = False) -> Path:
    """Returns the path of the file that holds samples first to first + count - 1."""
    return directory / f"{'open' if is_open else 'shard'}-{first:012d}-{count}.npz"


def find_shards(directory: Path) -> list[Shard]:
    """Returns the files of a directory in the order of their samples, finished ones before an open one."""
    matches = [(path, _NAME.fullmatch(path.name)) for path in directory.iterdir()]
    found = [Shard(path, int(match[2]), int(match[3]), match[1] == "open") for path, match in matches if match]
    return sorted(found, key=lambda shard: (shard.is_open, shard.first, shard.count))


def save_shard(path: str | Path, samples: Samples) -> None:
    """Writes samples to a file, all of them or none."""
    arrays = {name: tensor.numpy() for name, tensor in vars(samples.packed()).items()}
    arrays["format"] = np.int64([FORMAT, len(samples), samples.board_size])

    def write(file: BinaryIO) -> None:
        # Level 1: histories repeat themselves, so it comes within a third of the best level's size in a fifth of the
        # time.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)

    write_atomically(path, write)


def load_shard(path: str | Path) -> Samples:
    """Returns the samples of a file.

    Raises InputError where the file is missing, cut short, damaged, or of another format."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"replay shard {path} does not exist") from None
    except Exception as error:  # what a damaged archive makes NumPy and zipfile raise has no common kind
        what = f"is cut short or damaged ({type(error).__name__}); it must be a whole file of samples"
        raise InputError(f"replay shard {path} {what}") from error
    return _checked(path, arrays)


def _checked(path: Path, arrays: dict[str, np.ndarray]) -> Samples:
    """Returns the samples of arrays that have the types and shapes of a shard; raises InputError."""
    header = arrays.pop("format", None)
    if header is None or header.shape != (3,) or header[0] != FORMAT:
        raise InputError(f"replay shard {path} is of an unknown format; allowed is format {FORMAT}")
    count, wanted = int(header[1]), layout(int(header[2]))
    # What older files lack is learned as nothing.
    arrays.setdefault("reply", np.full(count, -1, dtype=np.int16))
    arrays.setdefault("short_values", np.full((count, 3), np.nan, dtype=np.float16))
    if others := set(arrays) ^ set(wanted):
        raise InputError(f"replay shard {path} has other fields than samples have: {', '.join(sorted(others))}")
    tensors = {name: torch.from_numpy(arrays[name]) for name in wanted}
    for name, (dtype, shape) in wanted.items():
        if tensors[name].dtype != dtype or tensors[name].shape != (count, *shape):
            found = f"{arrays[name].dtype} {list(arrays[name].shape)}"
            raise InputError(f"replay shard {path}: {name} is {found}; it must be {dtype} {[count, *shape]}")
    return Samples(**tensors)
