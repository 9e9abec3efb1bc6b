"""torch.distributed for one command on several processes, which torchrun or `launch` has started: one for each GPU, or
for each core.

One process alone is rank 0 of a world of size 1: nothing is set up for it, and no function communicates. Several ranks
make the same collective calls in the same order; between two of these some may learn while the others play. What one
rank alone knows (a signal, the clock, a file) goes through `all_gather_object` or `all_reduce_max` before any rank acts
on it. Gradients on a GPU go through NCCL, everything else through gloo. A rank that dies closes its connections, which
ends the others; torchrun then starts all of them again (`--max-restarts`), and the run continues from its newest
snapshot."""

import contextlib
import ctypes
import logging
import math
import os
import re
import signal
import socket
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

from zerogo.errors import InputError, Interrupted, one_line

LAUNCHER = "ZEROGO_LAUNCHER"  # the variable in which `launch` tells its processes its process id and their store
TORCHRUN = "TORCHELASTIC_RUN_ID"  # the variable that torchrun sets in its processes, also where it starts only one
RENDEZVOUS = "in memory"  # torch's name for `_make_rendezvous`
PEER_LOST_STATUS = 3  # of a process of `launch` that ends because another one has
PR_SET_PDEATHSIG = 1  # of prctl.h
SAME_CAUSE_SECONDS = 15  # within which processes end after the one that is the cause
REASONS = {
    "SIGKILL": " (which the system sends when memory runs out)",
    "SIGILL": ": an instruction that this machine's processor lacks",
}
TWICE_AS_MANY = 1.3  # processor time of a batch that twice as many ranks share, as a multiple; measured with two
MOST_OF_TIME, MUCH_WAITING = 0.8, 0.1  # see `balanced_learners`
TIMEOUT = timedelta(days=7)  # rank 0 may play matches or wait for a full disk while the other ranks wait for it
_lost = re.compile(r"gloo|NCCL|ProcessGroup|Connection (reset|closed)|[Tt]imed out")


def is_rank_of_launcher() -> bool:
    """Returns whether torchrun or `launch` has started this process as one of several."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


def is_launched() -> bool:
    """Returns whether it was `launch`."""
    return LAUNCHER in os.environ


def launch(number: int) -> None:
    """Runs the command line of this process in `number` processes on this machine, as torchrun would, and returns when
    all have exited with status 0. Signals to this process are passed on; no process survives this one.

    Raises InputError with a sentence where one was killed or torch's launcher fails, SystemExit with the status of one
    that has printed its own error, Interrupted for a signal to this process."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import rendezvous_handler_registry
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable()  # of the launcher: the processes say what is wrong
    signals = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    heeded = [name for name in signals if signal.getsignal(getattr(signal, name)) != signal.SIG_IGN]  # not under nohup
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # no port is open to other machines
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    signal.signal(signal.SIGUSR1, _signal_children)
    rendezvous_handler_registry.register(RENDEZVOUS, _make_rendezvous)
    try:
        with tempfile.TemporaryDirectory(prefix="zerogo-") as folder:
            Path(folder, "room").write_bytes(bytes(2**20))  # OSError on a full disk, where the store would hang
            os.environ[LAUNCHER] = f"{os.getpid()}:{folder}/store"
            place = {"rdzv_backend": RENDEZVOUS, "local_addr": "localhost", "logs_specs": DefaultLogsSpecs(folder)}
            options = {"run_id": "zerogo", "max_restarts": 0, "signals_to_handle": ",".join(heeded)}
            elastic_launch(LaunchConfig(1, 1, number, **place, **options), sys.executable)(*sys.orig_argv[1:])
    except SignalException as error:
        raise Interrupted(error.sigval) from None
    except ChildFailedError as error:
        raise _failure(error.failures) from None
    except Exception as error:  # torch may raise anything
        what = f"the launcher of {number} processes has failed ({one_line(error)}; its files are in TMPDIR or /tmp)"
        raise InputError(f"{what}; what was saved remains valid") from error


def _make_rendezvous(parameters: Any) -> Any:
    """Returns an in-memory rendezvous for torch's launcher, its only member. To a file torch would add a record every
    5 s; one that a full disk has cut short is read for ever, and no signal ends that."""
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

    class _Backend(C10dRendezvousBackend):
        name = RENDEZVOUS

    store = dist.HashStore()
    return create_handler(store, _Backend(store, parameters.run_id), parameters)


def _signal_children(number: int, _: Any) -> None:
    with contextlib.suppress(OSError):  # systems other than Linux lack this file
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            os.kill(int(child), number)


def _failure(failures: Mapping[int, Any]) -> BaseException:
    """Returns what a command ends with whose processes have failed. failures: torch's ProcessFailure by rank."""
    codes = {number: failure.exitcode for number, failure in failures.items()}
    # Errors of what the processes do together, by process.
    errors = {number: one.message["message"] for number, one in failures.items() if isinstance(one.message, Mapping)}
    # Once one has ended, torch kills the others that take longer than 30 s to end.
    until = min(failure.timestamp for failure in failures.values()) + SAME_CAUSE_SECONDS
    killed = [number for number, code in codes.items() if code < 0 and code != -signal.SIGTERM]  # which ends the others
    killed = [number for number in killed if failures[number].timestamp < until]
    said = [code for code in codes.values() if code > 0 and code != PEER_LOST_STATUS]
    if said and not killed:
        return SystemExit(said[0])
    number = (killed or [*errors] or [*codes])[0]
    name = signal.Signals(-codes[number]).name if codes[number] < 0 else f"status {codes[number]}"
    why = REASONS.get(name, "")
    if errors and not killed:
        why = f" ({'; '.join(dict.fromkeys(map(one_line, errors.values())))})"
    return InputError(f"process {number} ended with {name}{why}; what was saved remains valid")


def leave(status: int) -> NoReturn:
    """Ends a rank that has done its work, at once. The usual end of Python destroys what torch's threads may still use,
    and now and then aborts the process ("terminate called without an active exception", seen with torch 2.13 and gloo),
    which would be taken for a failure of the run."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


@contextlib.contextmanager
def process_group(words: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Makes this process one of the launcher's ranks for as long as the context lasts, if there are more than one.
    Raises InputError if another rank has ended. An InputError that one rank alone raises names that rank; one that all
    ranks raise has its sentence on rank 0 only. Under `launch` the calling process reports what has ended all. words:
    options of the command, by name; where ranks differ in one, all raise InputError, as they might wait for ever."""
    if not is_rank_of_launcher() or dist.is_initialized():
        yield
        return
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]:
        what = f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but {missing[0]} is not set"
        raise InputError(f"{what}; start several processes with torchrun, or unset WORLD_SIZE for one")
    try:
        store, number, size = _store_of_launcher() if is_launched() else _fresh_store()
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=TIMEOUT)
        with warnings.catch_warnings():
            if not is_rank0():
                warnings.simplefilter("ignore")  # rank 0 warns
            require_same(words or {}, "start all with the same command")
            yield
    except InputError as error:
        if is_rank0() or not str(error):
            raise
        raise InputError(f"rank {rank()}: {error}") from None
    except Interrupted as error:
        if is_launched():
            raise SystemExit(128 + error.number) from None
        raise
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and not _lost.search(str(error)):
            raise
        if is_launched():
            from torch.distributed.elastic.multiprocessing.errors import get_error_handler

            with contextlib.suppress(OSError):
                get_error_handler().record_exception(error)  # for `_failure`
            raise SystemExit(PEER_LOST_STATUS) from None
        why = f"another process of the run has ended, or cannot be reached ({one_line(error)})"
        raise InputError(f"rank {rank()} ends: {why}; the last snapshot remains valid") from error
    finally:
        # With NCCL it waits for the other ranks, which after an error wait for this one.
        if dist.is_initialized() and (sys.exc_info()[0] is None or not torch.cuda.is_available()):
            dist.destroy_process_group()
        _learners.__init__()


def _store_of_launcher() -> tuple[dist.Store, int, int]:
    """Returns the store of `launch`'s processes, the rank and the world size. Has the system kill this process when the
    launcher dies, its parent; ends it where that is dead already."""
    launcher, _, path = os.environ[LAUNCHER].partition(":")
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(launcher):
        raise SystemExit(PEER_LOST_STATUS)
    number, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return dist.FileStore(path, size), number, size


def _fresh_store() -> tuple[dist.Store, int, int]:
    """Returns torchrun's store, the rank and the world size, without keys of processes from before a restart.

    torchrun keeps one store for all restarts, and torch would connect to its stale addresses. So each rank publishes a
    random token. Rank 0 echoes all tokens with a fresh key prefix; a rank that sees its own token uses that prefix, so
    keys of the previous attempt are ignored."""
    store, number, size = next(dist.rendezvous("env://", timeout=TIMEOUT))
    token, others = uuid.uuid4().hex, [f"zerogo/{rank}" for rank in range(1, size)]
    if number == 0:
        while not store.check([f"{token}/{other}" for other in others]):
            echo = [store.get(other).decode() if store.check([other]) else "-" for other in others]
            store.set("zerogo/0", " ".join([token, *echo]))
            time.sleep(0.05)
        return dist.PrefixStore(token, store), number, size
    store.set(others[number - 1], token)
    # A world of before a restart may have been smaller, with fewer tokens.
    while [token] != (echo := store.get("zerogo/0").decode().split())[number : number + 1]:
        time.sleep(0.05)
    store.set(f"{echo[0]}/{others[number - 1]}", "")
    return dist.PrefixStore(echo[0], store), number, size


def world_size() -> int:
    """Returns how many ranks there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Returns this process's rank, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_rank0() -> bool:
    """Returns whether this is rank 0, which writes the run's files."""
    return rank() == 0


def local_rank_and_size() -> tuple[int, int]:
    """Returns which rank this is on its machine, from 0, and how many there are on it."""
    if world_size() == 1:
        return 0, 1
    return int(os.environ.get("LOCAL_RANK", rank())), int(os.environ.get("LOCAL_WORLD_SIZE", world_size()))


def restarts_run(begun: int) -> bool:
    """Returns whether torchrun has restarted these ranks and the run that began at that time (ns since 1970) is theirs:
    it began after torchrun itself. Outside Linux the start of torchrun is unknown, and the result is False."""
    is_restart = all_reduce_max([float(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))])[0] > 0

    def _is_ours() -> bool:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            since_boot = float(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19])
            boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
            return begun > 1e9 * (int(boot.split()[1]) + since_boot / os.sysconf("SC_CLK_TCK"))
        return False

    return is_restart and broadcast_from_rank0(_is_ours)


class _Waits:
    """A clock that runs while this rank waits for others in a collective call, but not to average gradients [s]."""

    seconds = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.monotonic()


waits = _Waits()


class _Learners:
    """The ranks that learn, the first ones. number: 0 for all. groups: torch's, by number of ranks. group: torch's of
    these ranks, None for all or one."""

    def __init__(self) -> None:
        self.number, self.group, self.groups = 0, None, dict[int, Any]()


_learners = _Learners()


def num_learners() -> int:
    """Returns how many ranks learn, from the first one on; the others only play."""
    return _learners.number or world_size()


def is_learner() -> bool:
    """Returns whether this is one of the ranks that learn."""
    return rank() < num_learners()


def set_learners(number: int) -> None:
    """Sets how many ranks learn from now on, a divisor of W; 0: all. Collective call."""
    # All at the first call, at the start of a run, as the store may be on a disk that is full later.
    for size in range(2, world_size() // 2 + 1) if not _learners.groups else ():
        if world_size() % size == 0:
            _learners.groups[size] = dist.new_group(range(size), timeout=TIMEOUT, backend="gloo")
    _learners.number, _learners.group = number, _learners.groups[number] if 1 < number < world_size() else None


def balanced_learners(waiting: float, learning: float) -> int:
    """Returns how many ranks should learn: more where players wait for them, fewer where these have time enough.
    waiting: the share of their time that the ranks that only play have waited. learning: the share in which the others
    learned. All ranks pass the same."""
    number, world = num_learners(), world_size()
    fewer = max((n for n in range(1, number) if world % n == 0), default=number)
    more = min((n for n in range(number + 1, world + 1) if world % n == 0), default=number)
    more_time = number * (TWICE_AS_MANY ** math.log2(more / number) - 1)  # that learning would take of all ranks
    if learning > MOST_OF_TIME and waiting > max(MUCH_WAITING, more_time / max(1, world - number)):
        return more
    return fewer if learning * number / fewer < MOST_OF_TIME else number


def balance(waited: float, learned: float, was_usual: bool) -> tuple[float, float, int]:
    """Returns the largest share of its time that a rank has waited, that in which ranks learned, and how many should
    learn. waited, learned: this rank's shares. was_usual: whether they tell anything; if not, on any rank, as
    many learn as before. Collective call."""
    of_ranks = all_gather_object((waited, learned, was_usual))
    waiting, learning, _ = map(max, zip(*of_ranks, strict=True))
    if not all(usual for *_, usual in of_ranks):
        return waiting, learning, num_learners()
    players = [share for share, *_ in of_ranks[num_learners() :]]
    return waiting, learning, balanced_learners(sum(players) / max(1, len(players)), learning)


def local_count(number: int) -> int:
    """Returns this rank's share of a number of things: all shares add up to it, and differ by at most 1."""
    return len(range(rank(), number, world_size()))


def local_slots(number: int) -> int:
    """Returns this rank's share, at least 1, of all ranks' games at once where the first learns while others play: half
    an equal share for the first, so that the others' batches are larger; the others share the rest."""
    first = number if world_size() == 1 else max(1, number // (2 * world_size()))
    return first if is_rank0() else len(range(rank() - 1, number - first, world_size() - 1))


def first_number(least: int) -> int:
    """Returns this rank's first number from `least` on. Rank r of W has the numbers r, r + W, …, of games for example,
    so no two ranks share one."""
    return least + (rank() - least) % world_size()


def local_shard(rows: Tensor, world: int = 0) -> Tensor:
    """Returns this rank's share of the rows of a tensor, which lie together; all ranks' in order are the tensor.
    world: how many ranks, from the first one on, share it; 0: all."""
    world = world or world_size()
    return rows if world == 1 else rows.tensor_split(world)[rank()]


def all_gather_object(value: Any) -> list[Any]:
    """Returns the values of all ranks, by rank: anything that pickles."""
    values = [value] * world_size()
    if world_size() > 1:
        with waits:
            dist.all_gather_object(values, value)
    return values


def all_reduce_max(numbers: Sequence[float]) -> list[float]:
    """Returns the element-wise maximum of a few numbers over all ranks."""
    return list(numbers) if world_size() == 1 else begin_all_reduce_max(numbers)[1]()


def begin_all_reduce_max(numbers: Sequence[float]) -> tuple[Callable[[], bool], Callable[[], list[float]]]:
    """Begins `all_reduce_max`. Returns a function that returns whether it is over, because all other ranks have called
    it too or one has ended; and a function that waits for that and returns the maximum. Until then this rank makes no
    other collective call."""
    largest = torch.tensor(numbers, dtype=torch.float64)
    work = dist.all_reduce(largest, dist.ReduceOp.MAX, async_op=True)

    def _wait() -> list[float]:
        with waits:
            work.wait()
        return largest.tolist()

    return work.is_completed, _wait


def all_reduce_mean_(tensors: Sequence[Tensor]) -> None:
    """Replaces floating-point tensors by their mean over the ranks that learn."""
    for tensor in tensors if num_learners() > 1 else ():
        dist.all_reduce(tensor.div_(num_learners()), group=_learners.group)


def all_ranks_true(flag: bool) -> bool:
    """Returns whether the flag is set on every rank."""
    return all_reduce_max([not flag])[0] == 0


def barrier() -> None:
    """Returns when all ranks have called it."""
    all_ranks_true(True)


def run_and_sync_errors(work: Callable[..., Any], *arguments: Any) -> Any:
    """Returns work(*arguments), done on every rank without collective calls. If it raises InputError on any, all ranks
    raise it, rank 0 with the sentence."""
    result, sentence = None, None
    try:
        result = work(*arguments)
    except InputError as error:
        if world_size() == 1:
            raise
        sentence = str(error)
    for number, other in enumerate(all_gather_object(sentence)):
        if other:
            raise InputError((f"rank {number}: {other}" if number else other) if is_rank0() else "")
    return result


def require_same(facts: Mapping[str, Any], way_out: str) -> None:
    """Raises InputError on all ranks, with a sentence on rank 0, where a fact of some rank differs from rank 0's.
    facts: what must be the same, by name, plain values. way_out: the end of the sentence."""
    (first, host), *others = all_gather_object((dict(facts), socket.gethostname()))
    for number, (value, there) in enumerate(others, 1):
        for name in [*first, *(value.keys() - first.keys())]:
            if value.get(name) != first.get(name):
                what = f"{name} is {value.get(name)} on rank {number} ({there})"
                raise InputError(f"{what} and {first.get(name)} on rank 0 ({host}); {way_out}" if is_rank0() else "")


def broadcast_from_rank0(work: Callable[..., Any], *arguments: Any) -> Any:
    """Returns on every rank what work(*arguments) returns on rank 0, which alone does it."""
    values = [run_and_sync_errors(lambda: work(*arguments) if is_rank0() else None)]
    if world_size() > 1:
        with waits:
            dist.broadcast_object_list(values)
    return values[0]


def wrap_ddp(network: nn.Module, device: torch.device) -> nn.Module:
    """Returns the network, or one that averages gradients over the ranks that learn; batch statistics are each rank's
    own."""
    if num_learners() == 1 or not is_learner():
        return network
    devices = [device] if device.type == "cuda" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the newest torch has another name for broadcast_buffers
        options = {"device_ids": devices, "process_group": _learners.group, "broadcast_buffers": False}
        return nn.parallel.DistributedDataParallel(network, **options)


class Silent(contextlib.ExitStack):
    """Stands for what only the first rank has (charts, a line of progress): takes every call and does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def on_rank0(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Returns make(…) on the first rank, and something silent on the others."""
    return make(*arguments, **named) if is_rank0() else Silent()
