"""Device, precision, threads, generators, the run's lock, atomic files and lines of stdin: what a process needs around
its work.

Nothing is probed or changed at import; every function says what it touches."""

import atexit
import contextlib
import ctypes
import errno
import fcntl
import gc
import hashlib
import importlib.util
import math
import os
import platform
import shutil
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from zerogo import cgroups, distributed
from zerogo.errors import InputError, Interrupted, quote
from zerogo.signals import NO_ROOM, refusal

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
INPUT_ERROR_STATUS = 2
INTERRUPTED_STATUS = 130  # 128 + SIGINT, what shells report
WARM_UP = 3  # steps without a CUDA graph, in which kernels are compiled and tables made; the last one is watched
_CHUNK = 1 << 16  # bytes that are read at a time
MOST_OF_A_LINE = 2**20  # bytes of GTP or JSON; those of a game of a thousand moves are 20,000
TOO_LONG = b"this line had more than %d bytes" % MOST_OF_A_LINE
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_… of malloc.h


def pick_device(name: str = "auto") -> torch.device:
    """Returns the device of that name; "auto" is CUDA when there is one, else the CPU. Raises InputError for what this
    machine lacks.

    A CUDA device with a number becomes the current one of the calling thread, as that is where Triton launches; nothing
    else is touched. Each rank of a run has a CUDA device of its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        if distributed.world_size() == 1:
            return torch.device(name)
    if name == "cuda" and distributed.world_size() > 1:
        name = f"cuda:{distributed.local_rank_and_size()[0]}"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise InputError(f"device is {quote(name)}; allowed are auto, cpu, cuda and cuda:0, cuda:1, …")
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise InputError(f"device is {quote(name)}, but torch finds {count} CUDA devices here; use cpu or auto")
    if distributed.world_size() > 1 and device.type == "cuda" and device.index != distributed.local_rank_and_size()[0]:
        raise InputError(
            f"device is {quote(name)}, for several processes at once; use auto or cuda, by which each has its own"
        )
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    return device


def pick_dtype(name: str, device: torch.device | str) -> torch.dtype:
    """Returns the network's dtype: "float32", "bfloat16", or for "auto" bfloat16 on CUDA and on CPUs that are faster
    with it (`has_fast_bfloat16`).

    On CUDA torch computes convolutions of float32 in TF32, with 10 bits of fraction, unless
    torch.backends.cudnn.allow_tf32 is set to False."""
    if name in PRECISIONS:
        return PRECISIONS[name]
    if name != "auto":
        raise InputError(f"precision is {quote(name)}; allowed are auto, {', '.join(PRECISIONS)}")
    kind = torch.device(device).type
    fast = torch.cuda.is_bf16_supported(including_emulation=False) if kind == "cuda" else has_fast_bfloat16()
    return torch.bfloat16 if fast else torch.float32


def has_fast_bfloat16() -> bool:
    """Says whether this CPU evaluates networks faster in bfloat16 than in float32: it has AMX, or AVX-512 BF16 and is
    not Intel's. With AVX-512 BF16 an AMD core (Zen 4) evaluates 1.5 to 2.3 times as many positions as in float32, one
    of Intel's (Sapphire Rapids, AMX out of reach) two thirds as many; AMX itself was not there to try."""
    amx, avx = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
    return bool(amx and amx()) or bool(avx and avx() and "Intel" not in _cpu_name())


def pick_compile(choice: str, device: torch.device | str) -> bool:
    """Says whether the network that plays goes through torch.compile: where "on" asks for it; "auto" has seen it win
    nowhere yet. Raises InputError where the compiler that it needs is not there."""
    if choice != "on":
        return False
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if torch.device(device).type == "cuda" and importlib.util.find_spec("triton") is None:
        lacks = "triton is not installed, which compiles for CUDA; install it"
    elif shutil.which(compiler) is None:
        lacks = f"there is no C++ compiler {compiler!r} here; install one"
    else:
        return True
    raise InputError(f"run.compile is on, but {lacks}, or set run.compile to off")


def usable_cores() -> int:
    """Returns the number of CPU cores that this process may use; in a container they can be fewer than there are."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, math.ceil(min(cores, cgroups.num_cores() or cores)))


class ThreadChoice:
    """Finds out, while work goes on, with how many of torch's CPU threads it goes fastest.

    The threads of one operation wait for each other. Where other processes run, one of them comes late nearly always,
    and all together do less than one alone; on a quiet machine each is a gain. So half or double the number is tried
    now and then, and at once when the work gets slower. most: the largest number, which is also the first."""

    TRIAL, FIRST_WAIT, LONGEST_WAIT = 0.5, 2.0, 60.0  # seconds of work at one number, and between two trials
    GAIN, LOSS = 1.05, 0.8  # rates by which another number is taken, or a slower machine is noticed

    def __init__(self, most: int) -> None:
        self.most = self.now = most
        self._work = self._seconds = self._since_trial = 0.0
        self._rate: float | None = None  # work a second at the number in use
        self._before: int | None = None  # that number, while another one is tried
        self._wait, self._trials = self.FIRST_WAIT, 0

    def note(self, work: float, seconds: float) -> None:
        """Counts a piece of work, in any unit that is always the same, and changes the number when it is time to."""
        self._work, self._seconds = self._work + work, self._seconds + seconds
        if self.most == 1 or self._seconds < self.TRIAL:
            return
        rate, known = self._work / self._seconds, self._rate
        self._since_trial += self._seconds
        self._work = self._seconds = 0.0
        if self._before is not None:
            self._judge(rate)
        else:
            self._rate = rate
            if self._since_trial >= self._wait or (known and rate < self.LOSS * known):
                self._try_another()

    def _try_another(self) -> None:
        """Begins a trial of half and of double the number (at most the largest) in turn."""
        others = sorted({max(1, self.now // 2), min(2 * self.now, self.most)} - {self.now})
        self._before, self._trials = self.now, self._trials + 1
        self._use(others[self._trials % len(others)])

    def _judge(self, rate: float) -> None:
        """Keeps the number that was tried, or goes back to the one before and waits longer until the next trial."""
        is_better = rate > self.GAIN * self._rate
        if is_better:
            self._rate, self._wait = rate, self.FIRST_WAIT
        else:
            self._use(self._before)
            self._wait = min(2 * self._wait, self.LONGEST_WAIT)
        self._before, self._since_trial = None, 0.0

    def _use(self, number: int) -> None:
        self.now = number
        torch.set_num_threads(number)


THREADS = ThreadChoice(1)  # of the whole process, as torch's number is


def set_up_cpu(threads: int) -> int:
    """Sets the CPU threads of torch for the whole process and returns the number; 0 is torch's choice, at most the
    usable cores, and less while fewer are faster (`ThreadChoice`).

    Also keeps freed memory: every step frees and asks again for the same megabytes. Fresh pages from the system, which
    must be cleared, cost a third of a search with a small network (measured)."""
    if threads < 0:
        raise InputError(f"threads is {threads}; it must be 0 (torch's choice) or more")
    global THREADS
    torch.set_num_threads(threads or min(torch.get_num_threads(), usable_cores()))
    THREADS = ThreadChoice(1 if threads else torch.get_num_threads())
    with contextlib.suppress(AttributeError, OSError, TypeError):  # only glibc has it
        mallopt = ctypes.CDLL(None).mallopt
        # Before 2.35 it takes no more than 32 MB; trimming alone would end glibc's own adaptation.
        if mallopt(_MMAP_THRESHOLD, 2**30) or mallopt(_MMAP_THRESHOLD, 2**25):
            mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    return torch.get_num_threads()


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def free_bytes(device: torch.device) -> int | None:
    """Returns the free memory of the device, for the CPU of the machine or container; None where that can't be told."""
    if device.type == "cuda":
        # Torch keeps some for tensors to come.
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
        limit = cgroups.free_memory()  # a container may be allowed less than the machine has
        return free if limit is None else min(free, limit)
    return None


def code_revision(start: Path | None = None) -> str:
    """Returns the git revision of the code, with "+dirty" when tracked files differ from it, or "unknown" outside a
    checkout of its own.

    start: a folder of the package (default: where this file lies)."""
    folder = (start or Path(__file__)).resolve()
    folder = folder if folder.is_dir() else folder.parent
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
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sources), digest_size=4).hexdigest()


def describe(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Returns what a result depends on: device name, threads, versions, code revision. All values are plain."""
    device = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name(),
        "device_type": device.type,
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda or "none",
        "python": platform.python_version(),
        "revision": code_revision(),
    }


def _cpu_name() -> str:
    """Returns the processor's name; Linux keeps it in /proc, elsewhere `platform` knows at least the kind."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class RunLock(contextlib.AbstractContextManager):
    """Holds a run directory for this process, which is made when it is missing; a second holder gets InputError.

    The lock is the kernel's (flock), on the directory itself, which nobody takes away from under the holder; file
    systems that lock no directories lock the file inside that names the holder. It ends with the process, however that
    dies, so a leftover file never blocks a resume. Use it as a context manager, or call `release`."""

    FILE = ".lock"

    def __init__(self, directory: str | Path, way_out: str = "choose another run.name") -> None:
        """way_out: what the sentence for a second holder offers him besides waiting."""
        self.directory, self._held = make_directory(directory), contextlib.ExitStack()
        try:
            self._handle = os.open(self.directory, os.O_RDONLY)
            self._held.callback(os.close, self._handle)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EBADF, errno.EINVAL, errno.ENOTSUP):  # a network's: they lock files alone
                    raise
            file = self._held.enter_context(open(self.directory / self.FILE, "a+"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._held.close()
            raise InputError(
                f"the folder {directory} is already in use{self._holder()}; wait for it or {way_out}"
            ) from None
        except OSError as error:
            self._held.close()
            raise InputError(f"cannot lock the folder {directory}: {error.strerror}") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return f" by process {(self.directory / self.FILE).read_text().strip()}"
        return ""

    def require_in_place(self) -> None:
        """Raises FileNotFoundError where the directory was removed or moved, whatever lies in its place now."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.directory), os.fstat(self._handle)):
                return
        raise FileNotFoundError(errno.ENOENT, "it is not there any more", str(self.directory))

    def release(self) -> None:
        """Frees the directory; a second call does nothing."""
        self._held.close()

    def __exit__(self, *_: object) -> None:
        self.release()


def make_directory(path: str | Path) -> Path:
    """Returns the directory, made with its parents where it is missing. Raises InputError when it can't be."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the directory {path}: {error.strerror or error}") from None
    return Path(path)


def require_new_folder(path: Path, option: str) -> None:
    """Raises InputError for a file and for a folder that is not empty, in place of the new folder of `option`."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; give {option} a new folder")
    if path.exists() and any(path.iterdir()):
        raise InputError(f"the folder {path} is not empty; give {option} a new one")


def write_atomically(path: str | Path, writer: Callable[[BinaryIO], Any], keep_special: bool = False) -> None:
    """Makes `path` hold what `writer` writes into the binary file it gets: all of it or, after a crash at any moment,
    what was there. keep_special: a device or a pipe is written to as it is, not replaced, as a person may mean it.

    The temporary file lies beside it under a name that starts with "." and ends in ".tmp" (see `remove_leftovers`)."""
    path = Path(path)
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
        why = (
            error.__context__ if isinstance(error, RuntimeError) else error
        )  # torch raises one for what a disk refuses
        if isinstance(why, OSError):
            raise OSError(why.errno, why.strerror, str(path)) from None
        raise
    sync_directory(path.parent)


class Writer:
    """A thread that does the work of writing files, one after the other in the order in which it is given: compressing
    leaves Python to others meanwhile. call: does a piece of work, for example again and again.

    Once something fails, nothing that was given after it is done, as that may rely on it, and `submit` and `wait` raise
    what it raised. The thread ends by itself with the process, when all is done."""

    MOST_WAITING = 8  # pieces of work, whose data memory holds meanwhile

    def __init__(self, call: Callable[..., Any] = lambda work, *arguments: work(*arguments)) -> None:
        self._call = call
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future] = deque()
        self._error: BaseException | None = None

    def submit(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Has work(*arguments) done; waits where much else is still to be done."""
        self.wait(self.MOST_WAITING - 1)
        self._thread = self._thread or ThreadPoolExecutor(1, "writer")
        self._waiting.append(self._thread.submit(self._do, work, *arguments))

    def wait(self, most_left: int = 0) -> None:
        """Returns when at most so many pieces of work are left. Raises the first error that there was."""
        while len(self._waiting) > most_left:
            self._waiting.popleft().result()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Waits for all work without a word of errors, and ends the thread, which new work would begin anew."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _do(self, work: Callable[..., Any], *arguments: Any) -> None:
        if self._error is None:
            try:
                self._call(work, *arguments)
            except BaseException as error:
                self._error = error


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

    InputError becomes one sentence on stderr and status 2, Ctrl-C status 130, as other signals that were taken have
    theirs; anything else is a bug and keeps its traceback. A warning is one sentence, too."""
    atexit.register(_silence_stderr)  # after whatever is registered later
    with _closed_pipes(), warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
        try:
            status = function() or 0
        except InputError as error:
            if str(error):  # else another rank says it
                print(f"error: {error}", file=sys.stderr, flush=True)
            status = INPUT_ERROR_STATUS
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            print(f"error: {refusal(error)}", file=sys.stderr)
            status = INPUT_ERROR_STATUS
        except KeyboardInterrupt as error:
            print(str(error) or "interrupted", file=sys.stderr)
            status = 128 + error.number if isinstance(error, Interrupted) else INTERRUPTED_STATUS
    gc.freeze()  # else Python collects all of torch once more, for 2 s, while a controller waits for the process's end
    sys.exit(status)


def _silence_stderr() -> None:
    """Keeps Triton's bindings, at the very end, from calling all that was frozen a leak, in 35 lines."""
    if gc.get_freeze_count() and "triton" in sys.modules:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@contextlib.contextmanager
def _closed_pipes() -> Iterator[None]:
    """Ends quietly when the reader of stdout has gone, as in `zerogo train --keys | head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more at exit, which would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


class HostReads(TorchDispatchMode):
    """Notes in `found` the names of operations that would make the host wait for the device, while they run on any
    device.

    Those are the ones whose result or its shape the host must know, and copies between devices. Operations that torch
    makes of others are taken apart, which it does not do by itself in inference mode, so that `argwhere` is seen there,
    too. `Tensor.tolist` and `Tensor.numpy` of a CPU tensor, and `Tensor.to` the device where it is, are no operations
    and stay unseen; off the CPU they copy."""

    READS = "_local_scalar_dense item is_nonzero equal allclose nonzero masked_select bincount _unique _unique2".split()
    READS += ["unique_consecutive", "unique_dim", "unique_dim_consecutive"]

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: tuple = (), named: dict | None = None) -> Any:
        named, name = named or {}, function.overloadpacket.__name__
        if name not in self.READS:
            with self:
                parts = function.decompose(*arguments, **named)
            if parts is not NotImplemented:
                return parts
        result = function(*arguments, **named)
        if name in self.READS or name == "repeat_interleave" and function._overloadname == "Tensor":
            self.found.append(name)
        elif name.startswith(("index", "_index_put")):
            indices = arguments[1] if isinstance(arguments[1], (list, tuple)) else ()  # index_select has a number there
            if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
                self.found.append(f"{name} by a mask")
        elif name in ("_to_copy", "copy_", "_copy_from", "_foreach_copy_"):
            given = [one for part in (*arguments[:2], result) for one in (part if isinstance(part, list) else [part])]
            if len({tensor.device.type for tensor in given if isinstance(tensor, Tensor)}) > 1:
                self.found.append(f"{name} from device to device")
        return result


def captured(work: Callable[[], Any], device: torch.device) -> Callable[[], Any] | None:
    """Returns what replays any work as a CUDA graph, to measure what a search replays; None where that can't be."""
    if device.type != "cuda":
        return None
    for _ in range(WARM_UP):
        work()
    with HostReads() as reads:
        work()
    if reads.found:
        return None
    try:
        return record(work, device)
    except RuntimeError:  # lack of memory is one, too: a graph has tensors of its own
        return None


def record(step: Callable[[], Any], device: torch.device) -> Callable[[], None]:
    """Returns what replays a step, which itself is not made. Raises RuntimeError where it can't be captured; then torch
    would leave the capture's stream as the present one, which is why that is entered here."""
    with torch.cuda.device(device), torch.cuda.stream(torch.cuda.current_stream(device)):
        graph = torch.cuda.CUDAGraph()
        # Other threads may go on with what a capture forbids.
        with torch.cuda.graph(graph, stream=_capture_stream(device), capture_error_mode="thread_local"):
            step()
    return graph.replay


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Returns the stream on which a device's steps are captured: torch's own is one for all devices."""
    return torch.cuda.Stream(device)
