"""How many positions at a time keep a device busy: measured at the start of a run, in a second or two.

Small batches leave a device waiting for its next step; beyond some size a larger one gains nothing, and costs memory
and freshness. What is timed comes as a callable: neither networks nor games are known here."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from zerogo.system import runtime

GAIN = 0.05  # that a doubling must bring, and that the chosen batch may lack of the best one
PATIENCE = 2  # doublings in a row that may bring less: one may have met a busy moment of the machine
NO_MEMORY = ("out of memory", "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED")
ROUNDS = 3
ROUND_SECONDS = 0.03
LONGEST_SECONDS = 0.2  # of one call: beside it the micro- or milliseconds between calls no longer count


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

    rate: positions a second in batches of a size. It is asked for `least` and its doubles, and for `limit` at last,
    until as many doublings as `patience` brought nothing more, a batch took longer than `longest` seconds, or the
    device's memory is full."""
    assert 1 <= limit and 1 <= least, f"from {least} to {limit} positions"
    rates: dict[int, float] = {}
    size = min(least, limit)
    while size <= limit and not _is_flat(list(rates.values()), patience):
        try:
            rates[size] = rate(size)
        except RuntimeError as error:
            # Torch has an error for a lack of memory, the libraries below only words.
            is_full = isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in NO_MEMORY)
            if not rates or not is_full:
                raise
            limit = size - 1
            break
        if size / rates[size] > longest:
            break
        size = limit if size < limit < 2 * size else 2 * size
    best = max(rates.values())
    return BatchChoice(min(size for size, reached in rates.items() if reached >= (1 - GAIN) * best), rates, limit)


def _is_flat(rates: list[float], patience: int) -> bool:
    """Says whether the last doublings brought nothing worth having."""
    before, last = rates[:-patience], rates[-patience:]
    return bool(before) and max(last) < (1 + GAIN) * max(before)


def speed(
    work: Callable[[], Any],
    size: int,
    device: torch.device,
    is_replayed: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Returns how many positions a second `work` gets through, which takes `size` of them at a time.

    The best of some rounds counts, as what else the machine does only slows them down; a first call, which sets things
    up, does not. is_replayed: it counts, too, how fast the work is as a CUDA graph, where it can be one."""
    ways, best = [work, runtime.try_capture(work, device) if is_replayed else None], 0.0
    for way in filter(None, ways):
        way()
        runtime.synchronize(device)
        for _ in range(ROUNDS):
            start, times = clock(), 0
            while not times or clock() - start < ROUND_SECONDS:
                way()
                runtime.synchronize(device)
                times += 1
            best = max(best, times * size / max(clock() - start, 1e-9))
    return best
