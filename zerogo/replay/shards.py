"""Files of samples, called shards: zipped numpy arrays with a checksum each, written to a temporary name and renamed.

One is `shard-<number of its first sample>-<samples>.npz` and never changes. The samples of a shard that is not full yet
are saved with each checkpoint as `open-<first>-<samples>.npz`."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from zerogo import bounds
from zerogo.errors import InputError
from zerogo.replay.samples import Samples, layout
from zerogo.runtime import write_atomically

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

    Raises InputError where the file is missing, cut short, damaged, of another format, or stands for far more than it
    is."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            bounds.require_ratio(archive.zip, f"replay shard {path}")
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"replay shard {path} does not exist") from None
    except InputError:
        raise
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


def remove_open(directory: Path, but: Path | None = None) -> None:
    """Removes shards that are not full, all but one."""
    for shard in find_shards(directory):
        if shard.is_open and shard.path != but:
            shard.path.unlink(missing_ok=True)


def remove_finished(directory: Path, before: int) -> None:
    """Removes shards before the window, whose lower edge never moves back."""
    for shard in find_shards(directory):
        if not shard.is_open and shard.end <= before:
            shard.path.unlink(missing_ok=True)
