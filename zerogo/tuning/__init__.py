"""All that is chosen by measuring on this machine: whether kernels are right, precision, processes, threads, batches.

A machine may report features that do not work, so everything is tried before it is used. Kernels and precisions are
tried in another process (`questions`), as a broken feature may kill or hang the process that uses it."""

import contextlib
import ctypes
import importlib
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from zerogo import kernels
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.system import distributed, runtime
from zerogo.tuning.questions import Question, ask, cpu_facts, gpu_facts

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CPU_SIZE = 9  # of the boards that the CPU's kernels are tried on: they are compiled for all sizes at once
EVALUATIONS_A_SAMPLE = 4  # at the least, in self-play
PROCESS_BYTES, PROCESS_GAIN = 700_000_000, 0.3  # torch and compiled kernels; a gain that waiting does not use up
GAIN = 0.05  # what bfloat16 or a doubled batch must bring, and by how much the chosen batch may be below the best
PATIENCE = 2  # doublings in a row that may bring less: one may have met a busy moment of the machine
NO_MEMORY = "out of memory", "allocate memory", "bad_alloc", "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED"
NO_MEMORY += "CUDNN_STATUS_NOT_INITIALIZED", "CUBLAS_STATUS_NOT_INITIALIZED"  # said by a GPU without room, too
ROUNDS, ROUND_SECONDS = 3, 0.03
LONGEST_SECONDS = 0.2  # of one call: next to it the micro- or milliseconds between calls hardly count
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # M_… of malloc.h


def pick_proven_dtype(config: Config, device: torch.device, needed: Collection[str], earlier: str = "") -> torch.dtype:
    """Does what `prove_kernels` and then `pick_dtype` do for a config, and returns the dtype: rank 0's on all ranks.
    needed: those of `kernels.OPTIONAL` that the config needs; the others are tried before their first use, by an
    opponent's encoder for example. earlier: the precision that this run picked on such a device before. Raises
    InputError where that dtype does not work on a rank."""
    size, names = config.game.largest_size, kernels.ALL - (set(kernels.OPTIONAL) - set(needed))
    for name in kernels.ALL - names:
        if _kernel_questions(device, size, {name}):
            kernels.untried.setdefault(name, {})[size] = partial(prove_kernels, device, size, {name})
    prove_kernels(device, size, names)
    dtype = distributed.broadcast_from_rank0(pick_dtype, config.run.precision, device, config, earlier)
    return distributed.run_and_sync_errors(pick_dtype, str(dtype).removeprefix("torch."), device, config)


# Kernels


def prove_kernels(device: torch.device, size: int, names: Collection[str] = kernels.ALL) -> dict[str, str]:
    """Refuses the named modules of kernels that are wrong on this machine, with a warning, and returns what is wrong
    with each, "" for nothing, by compiler and name. size: the boards' side, for which a GPU's kernels are compiled."""
    faults, questions = {}, _kernel_questions(device, size, names)
    for question, answer in zip(questions, ask(questions, device), strict=True):
        _, name, kind, _ = question["task"]
        faults[f"{kernels.COMPILERS[kind]} {name}"] = what = answer.get("fault", answer.get("untried", ""))
        if "fault" in answer and kernels.refuse(kind, name, what):
            runtime.warn_once(f"the kernel {name} by {kernels.COMPILERS[kind]} {what} on this machine; it is not used")
    return faults


def _kernel_questions(device: torch.device, size: int, names: Collection[str]) -> list[Question]:
    """Returns the questions about the kernels that work on a device: a GPU's host has work for them, too."""
    questions = []
    for kind in filter(kernels.are_in_use, dict.fromkeys(("cpu", device.type))):
        libraries = {"cpu": ("numba", "llvmlite"), "cuda": ("triton",)}[kind]
        facts = {library: importlib.import_module(library).__version__ for library in libraries}
        facts |= gpu_facts(device) if kind == "cuda" else cpu_facts()
        facts["source"], side = kernels.source_digest(kind), size if kind == "cuda" else CPU_SIZE
        questions += [{"task": ["kernel", name, kind, side]} | facts for name in kernels.NAMES[kind] if name in names]
    return questions


# Precision

untried_precisions: set[str] = set()  # the device types on which bfloat16 could not be tried


def pick_dtype(name: str, device: torch.device | str, config: Config, earlier: str = "") -> torch.dtype:
    """Returns the dtype of a network of the config's shape: "float32", "bfloat16", or for "auto" bfloat16 where it
    works on the device and is faster by `GAIN`. Raises InputError for bfloat16 where it does not work. earlier: what
    "auto" has picked before, which stays where it works.

    On CUDA torch computes convolutions of float32 in TF32, with 10 bits of fraction, unless
    torch.backends.cudnn.allow_tf32 is set to False."""
    if name == "float32" or name == "auto" and earlier == "float32":
        return torch.float32
    device = torch.device(device)
    answer, here = ask([_precision_question(config, device)], device)[0], {"cpu": "CPU", "cuda": "GPU"}[device.type]
    if name == "bfloat16" and "fault" in answer:
        raise InputError(f"precision is bfloat16, which {answer['fault']} on this {here}; use auto or float32")
    if name == "bfloat16" or earlier and "fault" not in answer:
        return torch.bfloat16
    if what := answer.get("fault", answer.get("untried")):
        untried_precisions.update([device.type] if "untried" in answer else [])
        if "is_kept" not in answer:  # else an earlier process has said it
            runtime.warn_once(f"bfloat16 {what} on this {here}, so float32 is used")
        return torch.float32
    seconds = {way: EVALUATIONS_A_SAMPLE / answer[way][0] + 1.0 / answer[way][1] for way in PRECISIONS}  # a sample
    return PRECISIONS["bfloat16" if seconds["float32"] >= (1 + GAIN) * seconds["bfloat16"] else "float32"]


def _precision_question(config: Config, device: torch.device) -> Question:
    whole = config.to_dict()
    sections = {name: whole[name] for name in ("network", "features")} | {"game": {"size": config.game.largest_size}}
    sections["run"] = {name: whole["run"][name] for name in ("kernels", "threads")}
    if device.type == "cpu":  # on which depends what is faster
        sections["run"]["threads"] = config.run.threads or default_threads()
    if kernels.refused.get(device.type):  # they might end this trial, too
        sections["run"]["kernels"] = "plain"
    facts = gpu_facts(device) if device.type == "cuda" else cpu_facts()
    # The speed of a network is that of the kernels, too.
    return {"task": ["precision", sections, device.type]} | facts | {"source": kernels.source_digest(device.type)}


# Processes


def num_processes(config: Config, limit: Callable[[int], int]) -> int:
    """Returns how many processes `run.processes` asks for on this machine. "auto" asks on CUDA for one for each visible
    GPU, unless the device names one of them, and on a CPU for as many, of one thread each, as have cores and memory and
    are a gain: one more must bring at least `PROCESS_GAIN` of what one does alone. limit: returns the largest number,
    up to its argument, that can share the work."""
    if config.run.processes != "auto":
        return int(config.run.processes)
    device = runtime.pick_device(config.run.device)
    if device.type == "cuda":
        return limit(runtime.count_gpus()) if device.index is None else 1
    # The process that starts them stays, too. Outside Linux, where several are untested, free memory is unknown: one.
    room, quota = (runtime.free_bytes(device) or 0) / PROCESS_BYTES, runtime.cgroup_num_cores() or math.inf
    cores = int(min(runtime.usable_cores(), quota, room))
    if limit(cores) < 2:
        return 1
    precision = str(pick_dtype(config.run.precision, device, config)).removeprefix("torch.")
    question = _precision_question(config, device)
    question |= {"task": ["processes", question["task"][1], cores, precision], "cores": runtime.physical_cores()}
    best, *others = [(int(number), rate) for number, rate in ask([question])[0].get("rates", {"1": 0.0}).items()]
    alone = best[1]
    for number, rate in others:
        if rate - best[1] < PROCESS_GAIN * alone * (number - best[0]):
            break
        best = number, rate
    return limit(best[0])


# How many positions at a time keep a device busy. Small batches leave it waiting for its next step; beyond some size a
# larger one gains nothing, and costs memory and freshness. What is timed is a callable: no networks or games are known


@dataclass(frozen=True)
class BatchChoice:
    """A batch that was chosen. size: positions. rates: positions a second by size, rising, of all that were tried.
    limit: the largest that may be chosen."""

    size: int
    rates: dict[int, float]
    limit: int

    def why(self, what: str = "evaluations/s in batches") -> str:
        """Returns for a person what the batch brings, and what the next smaller and larger one would."""
        words, sizes = [f"{self.rates[self.size]:,.0f} {what} of {self.size:,}"], list(self.rates)
        place = sizes.index(self.size)
        for other in sizes[max(0, place - 1) : place] + sizes[place + 1 : place + 2]:
            change = round(100 * (self.rates[other] / self.rates[self.size] - 1))
            words.append(f"{abs(change)} % {'more' if change >= 0 else 'less'} in those of {other:,}")
        if self.size == self.limit:
            words.append("the largest that fits or helps")
        return ", ".join(words)


def find_batch(
    rate: Callable[[int], float], limit: int, least: int = 1, patience: int = PATIENCE, longest: float = LONGEST_SECONDS
) -> BatchChoice:
    """Returns the smallest batch that is within `GAIN` of the fastest one.

    rate: measures the positions a second in batches of a size. It is called for `least`, its doubles, and finally
    `limit`. The search ends early where `patience` doublings in a row brought nothing more, a batch took longer than
    `longest` seconds, or the device's memory is full."""
    assert 1 <= limit and 1 <= least, f"from {least} to {limit} positions"
    rates: dict[int, float] = {}
    size = min(least, limit)
    while size <= limit:
        before, last = [*rates.values()][:-patience], [*rates.values()][-patience:]
        if before and max(last) < (1 + GAIN) * max(before):  # the last doublings brought nothing worth having
            break
        try:
            rates[size] = rate(size)
        except RuntimeError as error:
            if not rates or not lacks_memory(error):
                raise
            limit = size - 1
            break
        if size / rates[size] > longest:
            break
        size = limit if size < limit < 2 * size else 2 * size
    best = max(rates.values())
    return BatchChoice(min(size for size, reached in rates.items() if reached >= (1 - GAIN) * best), rates, limit)


def lacks_memory(error: BaseException) -> bool:
    """Returns whether memory has run out. Python and torch have errors for that, the libraries below only words."""
    is_known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return is_known or any(words in str(error) for words in NO_MEMORY)


def speed(work: Callable[[], Any], size: int, device: torch.device, is_replayed: bool = False) -> float:
    """Returns how many positions a second `work` gets through, which takes `size` of them at a time.

    The best of some rounds counts, as what else the machine does only slows them down; a first call, which sets things
    up, does not. is_replayed: whether the work is also timed as a CUDA graph, if it can be one; the faster counts."""
    ways, best = [work, runtime.try_capture(work, device) if is_replayed else None], 0.0
    for way in filter(None, ways):
        way()
        runtime.synchronize(device)
        for _ in range(ROUNDS):
            start, times = time.perf_counter(), 0
            while not times or time.perf_counter() - start < ROUND_SECONDS:
                way()
                runtime.synchronize(device)
                times += 1
            best = max(best, times * size / max(time.perf_counter() - start, 1e-9))
    return best


# Threads of a CPU, measured while the work goes on


class ThreadChoice:
    """Measures during normal work with how many of torch's CPU threads it is fastest, and sets that number.

    The threads of one operation wait for each other. If other processes run, one of the threads is nearly always late,
    and all together do less than one alone; on a quiet machine each helps. So half or double the number is tried
    now and then, and at once when the work gets slower. largest: the largest number, which is also the first."""

    TRIAL, FIRST_WAIT, LONGEST_WAIT = 0.5, 2.0, 60.0  # seconds of work at one number, and between two trials
    GAIN, LOSS = 1.05, 0.8  # rates by which another number is taken, or a slower machine is noticed

    def __init__(self, largest: int) -> None:
        self.largest = self.now = largest
        self._work = self._seconds = self._since_trial = 0.0
        self._rate: float | None = None  # work a second at the number in use
        self._before: int | None = None  # that number, while another one is tried
        self._wait, self._trials = self.FIRST_WAIT, 0

    def note(self, work: float, seconds: float) -> None:
        """Counts a piece of work, in any unit that is always the same, and changes the number when it is time to."""
        self._work, self._seconds = self._work + work, self._seconds + seconds
        if self.largest == 1 or self._seconds < self.TRIAL:
            return
        rate, earlier = self._work / self._seconds, self._rate
        self._since_trial += self._seconds
        self._work = self._seconds = 0.0
        if self._before is not None:
            self._judge(rate)
        else:
            self._rate = rate
            if self._since_trial >= self._wait or (earlier and rate < self.LOSS * earlier):
                self._try_another()

    def _try_another(self) -> None:
        """Begins a trial of half and of double the number (at most the largest) in turn."""
        others = sorted({max(1, self.now // 2), min(2 * self.now, self.largest)} - {self.now})
        self._before, self._trials = self.now, self._trials + 1
        self._use(others[self._trials % len(others)])

    def _judge(self, rate: float) -> None:
        """Keeps the number that was tried, or goes back to the one before and waits longer until the next trial."""
        if rate > self.GAIN * self._rate:
            self._rate, self._wait = rate, self.FIRST_WAIT
        else:
            self._use(self._before)
            self._wait = min(2 * self._wait, self.LONGEST_WAIT)
        self._before, self._since_trial = None, 0.0

    def _use(self, number: int) -> None:
        self.now = number
        torch.set_num_threads(number)


THREADS = ThreadChoice(1)  # of the whole process, as torch's number is


@cache
def default_threads() -> int:
    """Returns torch's own number of threads, at most the usable cores, as it was before anything here changed it."""
    return min(torch.get_num_threads(), runtime.usable_cores())


def set_up_cpu(threads: int) -> int:
    """Sets the CPU threads of torch for the whole process and returns the number; 0 is torch's choice, at most the
    usable cores, and less while fewer are faster (`ThreadChoice`).

    Also keeps freed memory: every step frees and asks again for the same megabytes. Fresh pages from the system, which
    must be cleared, cost a third of a search with a small network (measured)."""
    global THREADS
    default = default_threads()
    torch.set_num_threads(threads or default)
    THREADS = ThreadChoice(1 if threads else torch.get_num_threads())
    with contextlib.suppress(AttributeError, OSError, TypeError):  # only glibc has it
        mallopt = ctypes.CDLL(None).mallopt
        # Before 2.35 it takes no more than 32 MB; trimming alone would end glibc's own adaptation.
        if mallopt(MMAP_THRESHOLD, 2**30) or mallopt(MMAP_THRESHOLD, 2**25):
            mallopt(TRIM_THRESHOLD, 2**31 - 1)
    return torch.get_num_threads()
