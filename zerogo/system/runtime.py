"""Device, memory and cores (also in containers), generators, the run's lock, atomic files and lines of stdin.

Nothing is probed or changed at import; every docstring names the state that its function changes."""

import atexit
import contextlib
import errno
import fcntl
import gc
import hashlib
import itertools
import math
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TextIO

import torch

from zerogo.errors import InputError, Interrupted, one_line, quote, refuse_os_errors
from zerogo.system import distributed
from zerogo.system.signals import NO_ROOM, refusal

PACKAGE = Path(__file__).parents[1]
INPUT_ERROR_STATUS = 2
INTERRUPTED_STATUS = 130  # 128 + SIGINT, what shells report
WARM_UP = 3  # steps without a CUDA graph, in which kernels are compiled and tables made
_CHUNK = 1 << 16  # bytes that are read at a time
MOST_OF_A_LINE = 2**20  # bytes of GTP or JSON; those of a game of a thousand moves are 20,000
TOO_LONG = b"this line had more than %d bytes" % MOST_OF_A_LINE


def pick_device(name: str = "auto") -> torch.device:
    """Returns the device of that name; "auto" is CUDA when there is one, else the CPU. Raises InputError for what this
    machine lacks.

    A CUDA device with a number becomes the current one of the calling thread, as that is where Triton launches; nothing
    else is touched. Each rank of a run has a CUDA device of its own."""
    (rank, ranks), count = distributed.local_rank_and_size(), 0 if name == "cpu" else count_gpus()
    if name == "auto":
        fault = lacks_code(min(rank, count - 1)) if count else ""
        if fault:
            warn_once(f"{fault}, so the CPU is used")
        name = "cuda" if count and not fault else "cpu"
        if distributed.world_size() == 1:
            return torch.device(name)
    if name == "cuda" and distributed.world_size() > 1:
        name = f"cuda:{rank}"
        if rank >= count > 0:
            what = f"{ranks} processes share the work, but torch finds {count} CUDA devices here"
            raise InputError(f"{what}; use fewer (run.processes, torchrun's --nproc-per-node)")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise InputError(f"device is {quote(name)}; allowed are auto, cpu, cuda and cuda:0, cuda:1, …")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise InputError(f"device is {quote(name)}, but torch finds {count} CUDA devices here; use cpu or auto")
    if device.type == "cuda" and (fault := lacks_code(device.index or 0)):
        raise InputError(f"device is {quote(name)}, but {fault}; use cpu, or another build of torch")
    if distributed.world_size() > 1 and device.type == "cuda" and device.index != distributed.local_rank_and_size()[0]:
        what = f"device is {quote(name)}, for several processes at once"
        raise InputError(f"{what}; use auto or cuda, with which each gets its own")
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    return device


@cache
def warn_once(sentence: str) -> None:
    """Warns, unless this process has said the same before."""
    warnings.warn(sentence, stacklevel=1)


def count_gpus() -> int:
    """Returns the number of CUDA devices."""
    if not torch.cuda.is_available():
        return 0
    torch.cuda.init()  # before, torch counts a GPU that is divided (MIG) as a whole one
    return torch.cuda.device_count()


def lacks_code(index: int) -> str:
    """Returns in words that this build of torch has no code for a GPU; "" if it has."""
    here, name = torch.cuda.get_device_capability(index), torch.cuda.get_device_name(index)
    built = [re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", word) for word in torch.cuda.get_arch_list()]
    built = [(one[1], (int(one[2]), int(one[3]))) for one in built if one]  # none with ROCm
    if not built or any(to <= here and (kind == "compute" or to[0] == here[0]) for kind, to in built):
        return ""
    return f"torch {torch.__version__} has no code for {name} (compute capability {here[0]}.{here[1]})"


def usable_cores() -> int:
    """Returns the number of CPU cores that this process may use: in a container they can be fewer than there are, and
    the ranks on a machine share them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, math.ceil(min(cores, cgroup_num_cores() or cores)) // distributed.local_rank_and_size()[1])


def physical_cores(root: Path = Path("/")) -> int | None:
    """Returns how many physical cores are behind the usable ones, of which two may be hyperthreads of one; None where
    that is unknown. root: the folder in which sys/ lies."""
    numbers = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    places = (root / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list" for number in numbers)
    return len({*map(_text, places)} - {""}) or None


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def free_bytes(device: torch.device) -> int | None:
    """Returns the free memory of the device, for the CPU of the machine or container; None where it is unknown."""
    if device.type == "cuda":
        # Torch keeps some for tensors to come.
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
        limit = cgroup_free_memory()  # a container may be allowed less than the machine has
        return free if limit is None else min(free, limit)
    return None


# Control groups of Linux, version 1 and 2: containers, Kubernetes, SLURM and systemd set limits on groups anywhere
# between this process and the root.

# Of version 2 and 1: the limits on memory in bytes, what is used, and the part of it, in memory.stat, that are files
# which were read and can be forgotten.
MEMORY = (
    (("memory.max", "memory.high"), "memory.current", "inactive_file"),
    (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
)

GROUP = re.compile(r"^\d+:([^:\n]*):(.+)$", re.MULTILINE)
MOUNT = re.compile(r"^\S+ \S+ \S+ (\S+) (\S+) .* - (cgroup2?) \S+ (\S+)$", re.MULTILINE)


def cgroup_free_memory(root: Path = Path("/")) -> int | None:
    """Returns the bytes that the limits on memory leave this process, None where there is no limit. root: the folder in
    which proc/ and sys/ lie."""
    free = []
    for folder in _groups("memory", root):
        words = _text(folder / "memory.stat").split()
        statistics = dict(zip(words[::2], words[1::2], strict=False))
        for limits, usage, forgettable in MEMORY:
            used = sum(_numbers(folder / usage)) - int(statistics.get(forgettable, 0))
            free += [max(0, limit - used) for name in limits for limit in _numbers(folder / name)]
    return min(free, default=None)


def cgroup_num_cores(root: Path = Path("/")) -> float | None:
    """Returns how many cores' time the quotas leave this process, such as 1.5, None where there is no quota. root: as
    in `cgroup_free_memory`."""
    pairs = []
    for folder in _groups("cpu", root):
        pairs.append(_numbers(folder / "cpu.max"))
        pairs.append(_numbers(folder / "cpu.cfs_quota_us") + _numbers(folder / "cpu.cfs_period_us"))
    return min((pair[0] / pair[1] for pair in pairs if len(pair) == 2), default=None)


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yields the folders of the groups that may limit this process, its own one first, then those above it."""
    paths = {}
    for controllers, path in GROUP.findall(_text(root / "proc/self/cgroup")):
        paths |= dict.fromkeys(controllers.split(","), path)  # version 2 names no controllers
    for top, place, kind, options in MOUNT.findall(_text(root / "proc/self/mountinfo")):
        name = "" if kind == "cgroup2" else controller if controller in options.split(",") else None
        if name not in paths:
            continue
        # A container sees only its part of the tree, at the root of the mount; what lies outside of it has no folder.
        path, mounted = PurePosixPath(paths[name]), root / place.lstrip("/")
        is_inside = path.is_relative_to(top) and ".." not in path.parts
        folder = mounted / path.relative_to(top) if is_inside else mounted
        yield from (one for one in (folder, *folder.parents) if one.is_relative_to(mounted))


def _numbers(path: Path) -> list[int]:
    """Returns the whole numbers of a file; none where it is missing, or says that there is no limit ("max", -1)."""
    return [int(word) for word in _text(path).split() if word.isdigit()]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):  # most systems lack most of these files
        return ""


def code_revision(start: Path | None = None) -> str:
    """Returns the git revision of the code, with "+dirty" when tracked files differ from it, or "unknown" outside a
    checkout of its own.

    start: a folder of the package (default: its root)."""
    folder = (start or PACKAGE).resolve()
    root = _git(folder, "rev-parse", "--show-toplevel")
    # Installed into another project's checkout, for example into its .venv, the revision found would be that project's.
    revision = _git(folder, "rev-parse", "HEAD") if root is not None and folder.parent == Path(root) else None
    if not revision:
        return "unknown"
    return revision + ("+dirty" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    """Returns what git prints, or None where git is missing or refuses."""
    try:
        done = subprocess.run(("git", "-C", str(folder), *arguments), capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def code_digest() -> str:
    """Returns a word that changes with any source of the package, in a checkout or not."""
    sources = sorted(PACKAGE.rglob("*.py"))
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sources), digest_size=4).hexdigest()


def describe(device: torch.device) -> dict[str, Any]:
    """Returns what a result depends on: device name, threads, versions, code revision. All values are plain."""
    return {
        "device": device_name(device), "device_type": device.type, "cores": usable_cores(),
        "threads": torch.get_num_threads(), "torch": str(torch.__version__), "cuda": torch.version.cuda or "none",
        "python": platform.python_version(), "revision": code_revision(),
    }  # fmt: skip


def device_name(device: torch.device) -> str:
    """Returns the name of a GPU or of the processor, of which `platform` knows only the kind outside Linux."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    name = re.search(r"^model name[^:]*:(.*)", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    return name[1].strip() if name else platform.processor() or platform.machine()


class RunLock(contextlib.ExitStack):
    """Locks a run directory for this process, and makes it if it is missing; a second holder gets InputError. At the
    end it removes a directory that it made and into which nothing was written, as after a refused start.

    The lock is the kernel's (flock) on the directory itself, so that replacing a file inside does not free it; on file
    systems that cannot lock directories it is on the file inside that names the holder. The lock ends with the process,
    however the process dies, so a leftover file never blocks a resume. Use it as a context manager, or call
    `close`."""

    FILE = ".lock"

    def __init__(self, directory: str | Path, way_out: str = "choose another name with --run") -> None:
        """way_out: what the sentence for a second holder suggests besides waiting."""
        super().__init__()
        try:
            file = self._lock(directory)
        except BlockingIOError:
            self.close()
            holder = _text(self.directory / self.FILE).strip()
            what = f"the folder {directory} is already in use" + (f" by process {holder}" if holder else "")
            raise InputError(f"{what}; wait for it or {way_out}") from None
        except OSError as error:
            self.close()
            raise InputError(f"cannot lock the folder {directory}: {error.strerror}") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        if self._is_new:
            self.callback(self._remove_if_unused)

    def _lock(self, directory: str | Path, tries: int = 10) -> TextIO:
        """Makes and locks the directory and returns its open `FILE`. Starts again where another process, which made the
        directory and was refused, removes it meanwhile. Raises BlockingIOError where another process holds the lock."""
        self._is_new = not Path(directory).exists()
        self.directory = make_directory(directory)
        try:
            self._handle = os.open(self.directory, os.O_RDONLY)
            self.callback(os.close, self._handle)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EBADF, errno.EINVAL, errno.ENOTSUP):  # a network's: they lock files alone
                    raise
            file = self.enter_context(open(self.directory / self.FILE, "a+"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.require_in_place()
            return file
        except FileNotFoundError:
            self.close()
            if tries == 1:
                raise
            return self._lock(directory, tries - 1)

    def require_in_place(self) -> None:
        """Raises FileNotFoundError where the directory was removed or moved, whatever lies in its place now."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.directory), os.fstat(self._handle)):
                return
        raise FileNotFoundError(errno.ENOENT, "the folder was removed or moved", str(self.directory))

    def _remove_if_unused(self) -> None:
        with contextlib.suppress(OSError):
            self.require_in_place()
            folders = [path for path in self.directory.iterdir() if path.name != self.FILE]
            if all(path.is_dir() and not any(path.iterdir()) for path in folders):
                (self.directory / self.FILE).unlink(missing_ok=True)
                for path in (*folders, self.directory):
                    path.rmdir()


def make_directory(path: str | Path) -> Path:
    """Returns the directory, made with its parents where it is missing. Raises InputError when it can't be."""
    with refuse_os_errors(f"cannot make the directory {path}"):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)


def make_output_folder(name: str) -> Path:
    """Returns a new directory, checkpoints/NAME-DATE-TIME, or with -2, -3, … appended where other processes have made
    theirs in the same second. Raises InputError when it can't be made."""
    stem = f"checkpoints/{time.strftime(f'{name}-%Y%m%d-%H%M%S')}"
    with refuse_os_errors(f"cannot make the directory {stem}"):
        for path in map(Path, itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))):
            with contextlib.suppress(FileExistsError):
                path.mkdir(parents=True)
                return path


def require_new_folder(path: Path, option: str) -> None:
    """Raises InputError for a file and for a folder that is not empty, in place of the new folder of `option`."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; give {option} a new folder")
    if path.exists() and any(path.iterdir()):
        raise InputError(f"the folder {path} is not empty; give {option} a new one")


def write_atomically(path: str | Path, content: bytes | Callable[[BinaryIO], Any], keep_special: bool = False) -> None:
    """Makes `path` hold the content, or what a function writes into a binary file: all of it or, after a crash at any
    moment, what was there. keep_special: a device or a pipe is written to as it is, not replaced, as a person may mean
    it.

    The temporary file lies beside it under a name that starts with "." and ends in ".tmp" (see `remove_leftovers`)."""
    path, writer = Path(path), content if callable(content) else lambda file: file.write(content)
    if keep_special and path.exists() and not path.is_file():  # a file in the place of /dev/full would stay there
        with open(path, "wb") as file:
            writer(file)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            writer(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        why = error.__context__ if isinstance(error, RuntimeError) else error  # torch's for what a disk refuses
        if isinstance(why, OSError):
            raise OSError(why.errno, why.strerror, str(path)) from None
        raise
    sync_directory(path.parent)


def sync_directory(directory: str | Path) -> None:
    """Makes renames and new names inside a directory survive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(directory: str | Path) -> None:
    """Removes the temporary files that killed processes left in a directory; call it only under its lock."""
    for path in Path(directory).glob(".*.tmp"):
        if path.is_file():
            path.unlink(missing_ok=True)


def lines_of(handle: int) -> Iterator[bytes]:
    """Yields the lines of a file handle without their ends, each as soon as it is whole; a last one without an end
    counts, too. Of more than `MOST_OF_A_LINE` nothing is kept: `TOO_LONG` stands for such a line.

    The handle is read directly: Python can't shut down cleanly while a thread waits inside its buffered stdin."""
    pending: list[bytes] = []  # joined once, as a long line comes in many parts
    size = 0
    while chunk := os.read(handle, _CHUNK):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield TOO_LONG if size + len(end) > MOST_OF_A_LINE else b"".join([*pending, end])
            pending, size = [], 0
        size += len(rest)
        pending = [*pending, rest] if size <= MOST_OF_A_LINE else []
    if size:
        yield b"".join(pending) or TOO_LONG


def lines_of_stdin() -> Iterator[bytes]:
    """Returns the lines of stdin, see `lines_of`; none where the process was started without one."""
    return iter(()) if sys.stdin is None else lines_of(sys.stdin.fileno())


def script_main(function: Callable[[], int | None]) -> None:
    """Runs a script's main function and ends the process with its status.

    InputError and a file that can't be read or written become one sentence on stderr and status 2, Ctrl-C status 130,
    as other signals that were taken have theirs; all else is a bug and keeps its traceback. A warning is a sentence."""
    atexit.register(_silence_stderr)  # after whatever is registered later
    if hasattr(sys.stdout, "reconfigure"):  # where the terminal's encoding lacks a character, "?" stands for it
        sys.stdout.reconfigure(errors="replace")
    with _closed_pipes(), warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
        try:
            status = function() or 0
        except InputError as error:
            if str(error):  # else another rank says it
                print(f"error: {error}", file=sys.stderr, flush=True)
            status = INPUT_ERROR_STATUS
        except KeyboardInterrupt as error:
            print(str(error) or "interrupted", file=sys.stderr)
            status = 128 + error.number if isinstance(error, Interrupted) else INTERRUPTED_STATUS
        except SystemExit as error:  # of a rank that has lost its peers, or of argparse
            if not (distributed.is_rank_of_launcher() and isinstance(error.code, int)):
                raise
            status = error.code
        except BrokenPipeError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                print(f"error: {refusal(error) if error.errno in NO_ROOM else one_line(error)}", file=sys.stderr)
                status = INPUT_ERROR_STATUS
            elif distributed.is_rank_of_launcher():  # a bug; the interpreter's usual end could wait for other ranks
                traceback.print_exc()
                status = 1
            else:
                raise
    if distributed.is_rank_of_launcher():
        distributed.leave(status)
    gc.freeze()  # else Python collects all of torch once more, for 2 s, while a controller waits for the process's end
    sys.exit(status)


def _silence_stderr() -> None:
    """Keeps Triton's bindings, at the very end, from calling all that was frozen a leak, in 35 lines."""
    if gc.get_freeze_count() and "triton" in sys.modules:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@contextlib.contextmanager
def _closed_pipes() -> Iterator[None]:
    """Ends quietly when the reader of stdout has gone, as in `zerogo train --keys | head`, or its disk is full."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            if error.errno not in NO_ROOM:
                raise
            print(f"error: {refusal(error)}", file=sys.stderr)
        # Python flushes stdout once more at exit, which would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def end_with_parent() -> None:
    """Ends this process, one that `multiprocessing` started, once its parent is dead, which it may be already."""
    threading.Thread(target=lambda: multiprocessing.parent_process().join() or os._exit(1), daemon=True).start()


def try_capture(work: Callable[[], Any], device: torch.device) -> Callable[[], Any] | None:
    """Returns what replays any work as a CUDA graph, to measure what a search replays; None where that can't be."""
    if device.type != "cuda":
        return None
    for _ in range(WARM_UP):
        work()
    try:
        return capture_cuda_graph(work, device)
    except RuntimeError:  # lack of memory is one, too: a graph has tensors of its own
        return None


def capture_cuda_graph(step: Callable[[], Any], device: torch.device) -> Callable[[], None]:
    """Captures a step as a CUDA graph without running it, and returns the function that replays it. Raises RuntimeError
    if it can't be captured; torch would then leave the capture's stream current, so the current one is entered here."""
    with torch.cuda.device(device), torch.cuda.stream(torch.cuda.current_stream(device)):
        graph = torch.cuda.CUDAGraph()
        # Other threads may go on with what a capture forbids.
        with torch.cuda.graph(graph, stream=_capture_stream(device), capture_error_mode="thread_local"):
            step()
    return graph.replay


class Captured:
    """A function whose launches are replayed as one CUDA graph after `WARM_UP` calls with the same kind of arguments.
    Elsewhere, and beyond MOST_GRAPHS kinds, it is called as it is.

    function(batch, flag) -> tensors in any containers. batch: a dataclass of tensors on the device. Its shapes, its
    numbers on the host and the flag must decide all launches. A replay writes into the tensors that the capture
    returned, so each result is gone with the next call. A graph keeps the memory of a call. what: its work."""

    MOST_GRAPHS = 4

    def __init__(self, function: Callable[[Any, bool], Any], device: torch.device, what: str) -> None:
        self.function, self.device, self.what = function, device, what
        self.calls: Counter[Any] = Counter()
        self.graphs: dict[Any, tuple[Any, Callable[[], None], Any]] = {}
        self.may_capture = device.type == "cuda"

    def __call__(self, batch: Any, flag: bool) -> Any:
        kind = flag, batch.map(lambda tensor: (tensor.shape, tensor.dtype))
        self.calls[kind] += 1
        is_alone = distributed.num_learners() == 1  # others exchange gradients meanwhile
        if self.may_capture and is_alone and self.calls[kind] > WARM_UP and kind not in self.graphs:
            self._capture(kind, batch, flag)
        if kind not in self.graphs:
            with contextlib.suppress(*[torch.OutOfMemoryError] if self.graphs else []):
                return self.function(batch, flag)
            self.graphs.clear()  # each has the memory of a call
            self.may_capture = False
            return self.function(batch, flag)
        inputs, replay, result = self.graphs[kind]
        torch._foreach_copy_(inputs.tensors(), batch.tensors())
        replay()
        return result

    def _capture(self, kind: Any, batch: Any, flag: bool) -> None:
        inputs, results = batch.map(torch.clone), []
        try:
            replay = capture_cuda_graph(lambda: results.append(self.function(inputs, flag)), self.device)
        except RuntimeError as error:
            self.may_capture = False
            warnings.warn(f"{self.what} without a CUDA graph, as it could not be captured: {error}", stacklevel=3)
            return
        self.graphs[kind] = inputs, replay, results[0]
        self.may_capture = len(self.graphs) < self.MOST_GRAPHS


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Returns the stream on which a device's steps are captured: torch's own is one for all devices."""
    return torch.cuda.Stream(device)
