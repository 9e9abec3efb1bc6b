"""The ranks of a run: its processes, as torchrun starts them, one for each GPU, and all that they tell each other.

One process alone is rank 0 of a world of 1: nothing is set up for it, and each function here returns what it was given.
More than one do the same steps in the same order, as torch.distributed asks; so what one of them alone knows (a signal,
the clock, a file) reaches all in `all_gather_object` before any acts on it. Numbers on a GPU are added by NCCL, all
else goes through gloo."""

import contextlib
import math
import os
import pickle
import re
import signal
import socket
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from zerogo.errors import InputError

LONGEST = timedelta(minutes=30)  # that a rank waits for another one from which nothing is heard
SLICE = timedelta(seconds=0.2)  # of a wait, after which Python may heed a signal
HEARTBEAT_S = 1.0  # seconds between two signs of life of a rank that the others wait for
AGES = timedelta(days=365)
ALIVE = "zerogo/alive"  # the key under which such signs are counted
REFUSED = "zerogo/refused"  # and the one of why a rank has refused to go on
_while_waiting: list[Callable[[float], None]] = []  # asked after each slice, see `handle_signals_while_waiting`
_lost = re.compile(r"gloo|NCCL|ProcessGroup|Connection (reset|closed)|[Tt]imed out")


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Makes this process one of the ranks that torchrun's environment speaks of, if there are more than one, for as
    long as the context lasts. What ends because another rank has gone raises InputError, which says so. One rank of a
    machine has the sentence of an InputError, wherever it was raised; on the others it is empty."""
    global _control
    if int(os.environ.get("WORLD_SIZE", 1)) == 1 or dist.is_initialized():
        yield
        return
    has_gpus = torch.cuda.is_available() and dist.is_nccl_available()
    try:
        store, number, size = _fresh_store()
        how = {"store": store, "rank": number, "world_size": size, "timeout": LONGEST}
        dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpus else "gloo", **how)
        _control = dist.new_group(backend="gloo", timeout=AGES)  # whose patience `_all` has
        with warnings.catch_warnings():
            if not is_rank0():
                warnings.simplefilter("ignore")  # the first rank warns
            yield
    except InputError as error:
        if not str(error):
            raise
        raise InputError(_once(str(error) if is_rank0() else f"rank {rank()}: {error}")) from None
    except RuntimeError as error:
        if not _is_of_others(error):
            raise
        if sentence := _refusal():
            raise InputError(_once(sentence)) from None
        why = "another process of the run has ended, or cannot be reached"
        raise InputError(f"rank {rank()} of {world_size()} leaves: {why}; the last snapshot remains valid") from error
    finally:
        if dist.is_initialized() and not is_stuck:
            dist.destroy_process_group()


_control: dist.ProcessGroup | None = None
is_stuck = False  # whether this rank has left a gather to which another one did not come: closing would wait for it
_says_why = False  # whether this rank is the one of its machine that says why the run refuses to go on
_comes_again = False  # whether it said the same before torchrun's last restart
_kept: dist.Store | None = None  # torchrun's own store, which stays over restarts


def _once(sentence: str) -> str:
    """Returns why the run refuses to go on, for the first rank of each machine that comes here, "" for the others.
    Leaves it for those that only see that this one has gone."""
    global _says_why, _comes_again
    _says_why = True
    with contextlib.suppress(RuntimeError, ValueError):  # where the process has gone that kept the store
        store = dist.distributed_c10d._get_default_store()
        store.set(REFUSED, sentence)
        restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
        before = f"{REFUSED}/before/{restarts - 1}"
        _comes_again = _kept.check([before]) and _kept.get(before).decode() == sentence
        _kept.set(f"{REFUSED}/before/{restarts}", sentence)
        _says_why = store.add(f"{REFUSED}/{os.environ.get('GROUP_RANK', 0)}", 1) == 1
    return sentence if _says_why else ""


def _refusal() -> str:
    """Returns why another rank has refused to go on, "" where none has."""
    with contextlib.suppress(RuntimeError, ValueError):
        store = dist.distributed_c10d._get_default_store()
        return store.get(REFUSED).decode() if store.check([REFUSED]) else ""
    return ""


def end_restarts() -> None:
    """Ends the torchrun that has started this rank, where the run refuses to go on for what it refused before the last
    restart: what passes (a lock of a process that is about to end) has had its chance, and torchrun knows no exit
    status that forbids another one. Called when the sentence is said."""
    left = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", 0)) - int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes() if _says_why and _comes_again and left > 0 else b""
        if b"torch.distributed.run" in command or b"torchrun" in command:  # and no other program that starts ranks
            os.kill(os.getppid(), signal.SIGTERM)


def _fresh_store() -> tuple[dist.Store, int, int]:
    """Returns torchrun's store, the rank and the world size, without keys of processes from before a restart.

    torchrun keeps one store for all restarts, and torch would connect to its stale addresses. So each rank publishes a
    random token. Rank 0 echoes all tokens with a fresh key prefix; a rank that sees its own token uses that prefix, so
    keys of the previous attempt are ignored."""
    global _kept
    store, number, size = next(dist.rendezvous("env://", timeout=LONGEST))
    _kept = store
    word, others = uuid.uuid4().hex, [f"zerogo/{rank}" for rank in range(1, size)]
    if number == 0:
        while not store.check([f"{word}/{other}" for other in others]):
            found = [store.get(other).decode() if store.check([other]) else "-" for other in others]
            store.set("zerogo/0", " ".join([word, *found]))
            time.sleep(0.05)
        return dist.PrefixStore(word, store), number, size
    store.set(others[number - 1], word)
    # A world of before a restart may have been smaller, with fewer words.
    while [word] != (found := store.get("zerogo/0").decode().split())[number : number + 1]:
        time.sleep(0.05)
    store.set(f"{found[0]}/{others[number - 1]}", "")
    return dist.PrefixStore(found[0], store), number, size


def _is_of_others(error: RuntimeError) -> bool:
    """Says whether an error is that another rank does not answer."""
    return isinstance(error, dist.DistError) or _lost.search(str(error)) is not None


def world_size() -> int:
    """Returns how many ranks there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Returns the number of this one, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_rank0() -> bool:
    """Says whether this rank writes what the run leaves behind."""
    return rank() == 0


def local_rank_and_size() -> tuple[int, int]:
    """Returns which rank this is on its machine, from 0, and how many there are on it."""
    if world_size() == 1:
        return 0, 1
    return int(os.environ.get("LOCAL_RANK", rank())), int(os.environ.get("LOCAL_WORLD_SIZE", world_size()))


def were_restarted() -> bool:
    """Says whether torchrun has started these ranks again, after one of them had ended."""
    return all_reduce_max([float(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))])[0] > 0


def restarts_run(begun: int) -> bool:
    """Says whether torchrun has started these ranks again to go on with what began then (ns since 1970): not before
    torchrun itself. Where the system does not tell when that was (it is no Linux), it does not go on."""

    def is_ours() -> bool:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            since_boot = float(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19])
            boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
            return begun > 1e9 * (int(boot.split()[1]) + since_boot / os.sysconf("SC_CLK_TCK"))
        return False

    return were_restarted() and broadcast_from_rank0(is_ours)


def local_count(number: int) -> int:
    """Returns this rank's share of a number of things: all shares together are the number, none differs by more than
    1."""
    return len(range(rank(), number, world_size()))


def local_shard(rows: Tensor) -> Tensor:
    """Returns this rank's share of the rows of a tensor, which lie together; all ranks' in their order are the
    tensor."""
    return rows if world_size() == 1 else rows.tensor_split(world_size())[rank()]


# What ranks tell each other


def all_gather_object(value: Any) -> list[Any]:
    """Returns what each rank has given, in their order: anything that pickles."""
    if world_size() == 1:
        return [value]
    data = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)
    sizes = [int(size) for size in _all(torch.tensor([len(data)]))]
    parts = _all(F.pad(data, (0, max(sizes) - len(data))))
    return [pickle.loads(part[:size].numpy().tobytes()) for part, size in zip(parts, sizes, strict=True)]


def all_reduce_max(numbers: Sequence[float]) -> list[float]:
    """Returns the largest of each of a few numbers that any rank has given."""
    if world_size() == 1:
        return list(numbers)
    return torch.stack(_all(torch.tensor(numbers, dtype=torch.float64))).amax(0).tolist()


def all_ranks_true(flag: bool) -> bool:
    """Says whether the flag is set on every rank."""
    return all_reduce_max([not flag])[0] == 0


def barrier() -> None:
    """Returns when all ranks are here."""
    all_ranks_true(True)


def run_and_sync_errors(work: Callable[..., Any], *arguments: Any) -> Any:
    """Returns work(*arguments), done on every rank; where it raises InputError on any, all do, the
    first one with its sentence."""
    result, sentence = None, None
    try:
        result = work(*arguments)
    except InputError as error:
        if world_size() == 1:
            raise
        sentence = str(error)
    for number, found in enumerate(all_gather_object(sentence)):
        if found:
            raise InputError((f"rank {number}: {found}" if number else found) if is_rank0() else "")
    return result


def require_same(facts: Mapping[str, Any], way_out: str) -> None:
    """Raises InputError on all ranks, with a sentence on the first, where a fact is another on some rank than there.
    facts: what must be the same, by name, plain values. way_out: the end of the sentence."""
    (first, host), *others = all_gather_object((dict(facts), socket.gethostname()))
    for number, (found, there) in enumerate(others, 1):
        for name in [*first, *(found.keys() - first.keys())]:
            if found.get(name) != first.get(name):
                what = (
                    f"{name} is {found.get(name)} on rank {number} ({there}) and {first.get(name)} on rank 0 ({host})"
                )
                raise InputError(f"{what}; {way_out}" if is_rank0() else "")


def broadcast_from_rank0(work: Callable[..., Any], *arguments: Any) -> Any:
    """Returns on every rank what work(*arguments) gave on the first one, which alone does it."""
    found = []
    run_and_sync_errors(lambda: found.append(work(*arguments) if is_rank0() else None))
    return all_gather_object(found[0])[0] if world_size() > 1 else found[0]


def _all(tensor: Tensor) -> list[Tensor]:
    """Returns the tensor of each rank, all of one shape and on the host. Waits as long as another rank gives signs of
    life, however long that is."""
    global is_stuck
    found = [torch.empty_like(tensor) for _ in range(world_size())]
    work = dist.all_gather(found, tensor, group=_control, async_op=True)
    try:
        _wait(work)
    finally:
        is_stuck = is_stuck or not work.is_completed()
    return found


def _wait(work: dist.Work) -> None:
    since, alive = time.monotonic(), _alive(0)
    while True:
        try:
            work.wait(SLICE)
            return
        except RuntimeError:
            if work.is_completed():  # in the moment after the slice, or with an error, which this raises
                work.wait()
                return
        if alive != (alive := _alive(0)):
            since = time.monotonic()
        quiet = time.monotonic() - since
        for ask in _while_waiting:
            ask(quiet)
        if quiet > LONGEST.total_seconds():
            raise RuntimeError(f"timed out: rank {rank()} heard nothing of another one for {LONGEST}")


def _alive(more: int) -> int:
    return dist.distributed_c10d._get_default_store().add(ALIVE, more)


@contextlib.contextmanager
def handle_signals_while_waiting(signals: Any) -> Iterator[None]:
    """Within it a rank that waits for others heeds the signals of this process, a `signals.Signals`: it does not wait
    for ever to leave. While it writes, or waits for a disk itself, the others wait."""
    if world_size() > 1:
        signals.on_wait, signals.while_writing = send_heartbeat, lambda: heartbeat_during(LONGEST.total_seconds())
    if not is_rank0():
        tell = signals.log_io  # of this rank's own disk
        signals.log, signals.log_io = lambda text: None, lambda text: tell(f"rank {rank()}: {text}")
    _while_waiting.append(signals.raise_if_peers_lost)
    try:
        yield
    except RuntimeError as error:
        if _is_of_others(error):
            signals.leave_if_asked()
        raise
    finally:
        _while_waiting.remove(signals.raise_if_peers_lost)


def send_heartbeat() -> None:
    """Tells ranks that wait for this one that it has not ended: it waits itself, for a disk."""
    if world_size() > 1:
        _alive(1)


@contextlib.contextmanager
def heartbeat_during(longest: float = math.inf) -> Iterator[None]:
    """Within it this rank does long work that the others wait for, and does as `send_heartbeat` all the time, but for
    no more than the `longest` seconds: what takes so long has come to a stop."""
    is_over, until = threading.Event(), time.monotonic() + longest

    def say() -> None:
        with contextlib.suppress(RuntimeError):  # the others have gone, which the next gather says
            while not is_over.wait(HEARTBEAT_S) and time.monotonic() < until:
                send_heartbeat()

    threading.Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


class _Sum(torch.autograd.Function):
    """The sum of all ranks' tensors. Each rank's loss has a part of the whole, so gradients are summed as well."""

    @staticmethod
    def forward(context: Any, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    backward = forward


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """Returns the sum of what all ranks have given, through which gradients flow; on the device of the tensors."""
    return tensor if world_size() == 1 else _Sum.apply(tensor)


def all_reduce_sums(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the sum of what all ranks have given under each name: float32 [] each."""
    if world_size() == 1:
        return tensors
    return dict(zip(tensors, all_reduce_sum(torch.stack(list(tensors.values()))).unbind(), strict=True))


def merge_moments(count: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns count, mean and variance of all ranks' points, float32 [], [C] and [C], from those of each. They tell
    each other float64, in which the difference of the squares is no less than 0 but for rounding."""
    count, mean, variance = count.double(), mean.double(), variance.double()
    own = torch.cat([count.view(1), count * mean, count * (variance + mean.square())])
    count, total, squares = all_reduce_sum(own).split([1, len(mean), len(mean)])
    mean = total / count
    return count[0].float(), mean.float(), (squares / count - mean.square()).clamp_min(0.0).float()


class _Norm(torch.autograd.Function):
    """Batch normalisation over the points of all ranks, on boards of one size. Forward uses global statistics; backward
    is torch's local kernel plus a correction for the difference between global and local means. Written out in torch
    operations it took three times as long."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, ...]:
        points = torch.full((), x[:, 0].numel(), dtype=torch.float32, device=x.device)
        # Running statistics, which stay as they are: without them the own ones would have the maps' precision.
        own = torch.batch_norm_update_stats(x, torch.zeros_like(bias), torch.ones_like(bias), 0.0)
        count, mean, variance = merge_moments(points, *own)
        inverse = torch.rsqrt(variance + eps)
        context.save_for_backward(x, weight, mean, inverse, points, count)
        context.mark_non_differentiable(count, mean, variance)
        return F.batch_norm(x, mean, variance, weight, bias, eps=eps), count, mean, variance

    @staticmethod
    def backward(context: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, points, count = context.saved_tensors
        given = gradient, x, weight, None, None, mean, inverse, True, 0.0, [True, True, True]
        of_x, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(*given)
        own = torch.stack([of_weight, of_bias])
        by_weight, by_bias = (own / points - all_reduce_sum(own) / count).unbind()
        factor, shift = inverse * by_weight, by_bias - mean * inverse * by_weight
        maps = [(weight * inverse * one).to(x.dtype).view(1, -1, 1, 1) for one in (factor, shift)]
        return of_x + torch.addcmul(maps[1], x, maps[0]), of_weight, of_bias, None


def sync_batch_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float, on_board: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns maps that are normalised by the mean and variance of all ranks' points, [B, C, N, N] of each, with
    gradients, and without them count [], mean and variance [C] of the points; float32. on_board: bool [B, N, N], the
    points that count; None: all."""
    if on_board is None:
        return _Norm.apply(x, weight, bias, eps)
    counts = on_board.unsqueeze(1).to(torch.float32)
    count = counts.sum()
    values = x.to(torch.float32)
    mean = (values * counts).sum((0, 2, 3)) / count
    centred = (values - mean.view(1, -1, 1, 1)) * counts
    variance = centred.square().sum((0, 2, 3)) / count
    if world_size() > 1:
        count, mean, variance = merge_moments(count, mean, variance)
        centred = (values - mean.view(1, -1, 1, 1)) * counts
    scale = weight * torch.rsqrt(variance + eps)
    y = centred * scale.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1)
    return y, count, mean.detach(), variance.detach()


def wrap_ddp(network: nn.Module, device: torch.device) -> nn.Module:
    """Returns what computes as the network does, and makes the mean over the ranks of its gradients. Normalisation sees
    to its own statistics (`network.MaskedNorm`)."""
    if world_size() == 1:
        return network
    devices = [device] if device.type == "cuda" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the newest torch has another name for broadcast_buffers
        return nn.parallel.DistributedDataParallel(network, device_ids=devices, broadcast_buffers=False)


class Silent(contextlib.AbstractContextManager):
    """Stands for what only the first rank has (charts, a line of progress): takes every call and does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None

    def __exit__(self, *_: object) -> None:
        pass


def on_rank0(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Returns make(…) on the first rank, and something silent on the others."""
    return make(*arguments, **named) if is_rank0() else Silent()
