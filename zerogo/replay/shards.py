"""Files of samples, called shards: zipped numpy arrays with a checksum each, written to a temporary name and renamed.

A shard is `shard-<number of its first sample>-<samples>.npz` and never changes. Shards of actors (`pipeline.actors`)
have other names, and name their run."""

import json
import math
import re
import zipfile
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from zerogo.errors import InputError, refuse_os_errors
from zerogo.replay.samples import Samples, layout
from zerogo.system import bounds
from zerogo.system.runtime import make_directory, remove_leftovers, write_atomically

FORMAT = 1
MOST_ARRAYS = 100  # of a file; samples have a quarter of them
MOST_ABOUT = 1_000_000  # values of a file about its samples
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
MAX_WAITING = 8  # finished shards that wait to be written, with their samples in memory
SNAPSHOTS = 2  # newest snapshots of a run, to which it may return
_NAME = re.compile(r"shard-(\d{12})-(\d+)\.npz")


@dataclass(frozen=True)
class Shard:
    """A file of samples, with the number of its first sample and the count, from its name."""

    path: Path
    first: int
    count: int

    @property
    def end(self) -> int:
        """The number of the next shard's first sample."""
        return self.first + self.count


def shard_path(directory: Path, first: int, count: int) -> Path:
    """Returns the path of the file that holds samples first to first + count - 1."""
    return directory / f"shard-{first:012d}-{count}.npz"


def find_shards(directory: Path) -> list[Shard]:
    """Returns the files of a directory in the order of their samples."""
    matches = [(path, _NAME.fullmatch(path.name)) for path in directory.iterdir()]
    shards = [Shard(path, int(match[1]), int(match[2])) for path, match in matches if match]
    return sorted(shards, key=lambda shard: (shard.first, shard.count))


def save_shard(path: str | Path, samples: Samples, about: Mapping[str, Any] | None = None) -> None:
    """Writes samples to a file, completely or not at all. about: plain values about their origin."""
    arrays = {name: tensor.numpy() for name, tensor in vars(samples.packed()).items()}
    arrays["format"] = np.array([FORMAT, len(samples), samples.board_size], np.int64)
    if about is not None:
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)

    def _write(file: BinaryIO) -> None:
        # Level 1: histories are repetitive, so its files are at most a third larger than the best level's, in a fifth
        # of the time.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)

    write_atomically(path, _write)


def load_shard(path: str | Path) -> Samples:
    """Returns the samples of a file, see `load_with_about`; also raises InputError if it can't be read."""
    with refuse_os_errors(f"cannot read the replay shard {path}"):
        return load_with_about(path)[0]


def load_with_about(path: str | Path) -> tuple[Samples, Any]:
    """Returns the samples of a file, and its plain values about them, or None.

    Raises InputError if the file is truncated, damaged, of another format, or would take far more memory than its size;
    OSError if the disk cannot read it."""
    path = Path(path)
    try:
        with (
            bounds.open_regular(path, "replay shard") as file,
            bounds.open_archive(file, f"replay shard {path}") as archive,
        ):
            arrays = _read_arrays(archive, f"replay shard {path}")
        about = bounds.parse_json(arrays.pop("about").tobytes(), MOST_ABOUT) if "about" in arrays else None
        return _checked(path, arrays), about
    except InputError:
        raise
    except Exception as error:  # NumPy and zipfile raise many types for a damaged archive
        if bounds.is_of_disk(error):
            raise
        what = f"is cut short or damaged ({type(error).__name__}); it must be a whole file of samples"
        raise InputError(f"replay shard {path} {what}") from error


def _read_arrays(archive: zipfile.ZipFile, where: str) -> dict[str, np.ndarray]:
    """Returns the arrays of an archive by name. Raises InputError if it would take far more memory than its file, in
    total or by an array's header; for a damaged archive, whatever NumPy and zipfile raise."""
    bounds.require_ratio(archive, where)
    arrays, members = {}, archive.infolist()
    if len(members) > MOST_ARRAYS:
        raise InputError(f"{where} is refused: it holds {len(members)} arrays, more than {MOST_ARRAYS}")
    for member in members:
        with archive.open(member) as file:
            read_header = HEADERS[np.lib.format.read_magic(file)]
            shape, _, dtype = read_header(file)
        if math.prod(shape) * dtype.itemsize > member.file_size:
            raise InputError(f"{where} is refused: an array's header claims more than its {member.file_size} bytes")
        with archive.open(member) as file:
            arrays[member.filename.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
    return arrays


def _checked(path: Path, arrays: dict[str, np.ndarray]) -> Samples:
    """Returns the samples of arrays that have the types and shapes of a shard; raises InputError."""
    header = arrays.pop("format", None)
    if header is None or header.shape != (3,) or header[0] != FORMAT:
        raise InputError(f"replay shard {path} is of an unknown format; allowed is format {FORMAT}")
    count, fields = int(header[1]), layout(int(header[2]))
    if others := set(arrays) ^ set(fields):
        raise InputError(f"replay shard {path} has other fields than samples have: {', '.join(sorted(others))}")
    tensors = {name: torch.from_numpy(arrays[name]) for name in fields}
    for name, (dtype, shape) in fields.items():
        if tensors[name].dtype != dtype or tensors[name].shape != (count, *shape):
            actual = f"{arrays[name].dtype} {list(arrays[name].shape)}"
            raise InputError(f"replay shard {path}: {name} is {actual}; it must be {dtype} {[count, *shape]}")
    return Samples(**tensors)


class ShardFolder:
    """The files of a replay in a directory.

    A thread writes them one after another, since compression releases Python's lock. Once a file cannot be written, no
    later one is, because the numbers would have a gap, and `write` and `flush` raise the error. Files that no longer
    count, or have left the window, are removed once no snapshot of the run needs them. call: performs writes, for
    example with retries."""

    def __init__(self, directory: str | Path, call: Callable[..., Any]) -> None:
        self.directory = make_directory(directory)
        self._shards, self._call = find_shards(self.directory), call
        remove_leftovers(self.directory)
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self._has_failed = False
        self._edges = deque([0], maxlen=SNAPSHOTS)  # the first sample that a window needed, at the last snapshots
        self._obsolete: set[Path] = set()

    def usable(self, limit: float) -> tuple[list[Shard], int]:
        """Returns the files with samples numbered below `limit`, in order, and the end of the last file that has only
        such samples. Files with later samples become obsolete."""
        end = max((shard.end for shard in self._shards if shard.end <= limit), default=0)
        self._obsolete = {shard.path for shard in self._shards if shard.end > limit}
        return [shard for shard in self._shards if shard.first < limit], end

    def write(self, first: int, samples: Samples) -> None:
        """Hands a finished shard to the thread; waits while `MAX_WAITING` are unwritten."""
        self.flush(MAX_WAITING - 1)
        path = shard_path(self.directory, first, len(samples))
        self._thread = self._thread or ThreadPoolExecutor(1, "shards")
        self._waiting.append(self._thread.submit(self._save, path, samples))
        self._obsolete.discard(path)

    def _save(self, path: Path, samples: Samples) -> None:
        if not self._has_failed:
            self._has_failed = True  # unless the next line returns
            self._call(save_shard, path, samples)
            self._has_failed = False

    def flush(self, max_left: int = 0) -> None:
        """Waits until at most `max_left` shards are unwritten."""
        while self._waiting and (len(self._waiting) > max_left or self._waiting[0].done()):
            self._waiting[0].result()
            self._waiting.popleft()

    def close(self) -> None:
        """Waits until the thread has written its files; errors are not raised."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def after_snapshot(self, edge: int) -> None:
        """Removes the files that the newest snapshots do not need. edge: number of the first sample that a window needs
        from now on."""
        self._edges.append(edge)
        shards = [shard for shard in find_shards(self.directory) if shard.end <= self._edges[0]]
        for path in self._obsolete.union(shard.path for shard in shards):
            path.unlink(missing_ok=True)
        self._obsolete.clear()
