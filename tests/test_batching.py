"""The search for a batch that keeps a device busy, on pretended devices."""

from collections.abc import Callable

import pytest
import torch

from zerogo import batching
from zerogo.batching import BatchChoice, find, speed


def device(overhead: float, each: float, asked: list[int] | None = None) -> Callable[[int], float]:
    """Returns the speed of a pretended device: seconds of a call whatever its size, and seconds of each position."""

    def rate(size: int) -> float:
        if asked is not None:
            asked.append(size)
        return size / (overhead + each * size)

    return rate


def test_the_smallest_batch_near_the_best_is_taken() -> None:
    """A call costs as much as 100 positions, so 1,024 reach 91 % of the limit, 2,048 95 %, 4,096 98 %."""
    asked: list[int] = []
    found = find(device(100e-7, 1e-7, asked), most=1 << 20, least=16)
    assert found.size == 2048 and asked == [16 << k for k in range(len(asked))]
    assert list(found.rates) == asked and asked[-1] == 8192  # two doublings without a gain of 5 %


def test_the_limit_is_tried_and_kept() -> None:
    asked: list[int] = []
    assert find(device(1e-3, 1e-7, asked), most=100, least=16).size == 100
    assert asked == [16, 32, 64, 100]
    assert find(device(1e-3, 1e-7), most=5, least=16) == BatchChoice(5, {5: pytest.approx(5 / (1e-3 + 5e-7))}, 5)
    assert find(device(1e-3, 1e-7), most=1).size == 1


def test_one_busy_moment_of_the_machine_does_not_end_it() -> None:
    quiet = device(100e-7, 1e-7)
    assert find(lambda size: quiet(size) * (0.3 if size == 64 else 1.0), 1 << 20, 16).size == 2048


def test_calls_that_last_are_large_enough() -> None:
    """Nothing is asked for beyond a call of 0.2 seconds."""
    asked: list[int] = []
    found = find(device(0.05, 1e-3, asked), 1 << 20, 16)
    assert asked == [16, 32, 64, 128, 256] and found.size == 256


CUBLAS = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
CUDNN, CUDA = RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize("error", [CUDA, CUDNN, CUBLAS], ids=str)
def test_full_memory_is_the_limit(error: RuntimeError) -> None:
    whole = device(1e-4, 1e-7)

    def rate(size: int) -> float:
        if size > 256:
            raise error
        return whole(size)

    found = find(rate, 1 << 16, 16)
    assert found.size == 256 and found.most == 511
    with pytest.raises(type(error), match="memory|ALLOC_FAILED"):
        find(rate, 1 << 16, 512)


def test_it_says_why() -> None:
    words = BatchChoice(256, {128: 9000.0, 256: 10000.0, 512: 10300.4}, 4096).why()
    assert words == "10,000 evaluations/s in batches of 256, 10 % less in those of 128, 3 % more in those of 512"
    words = BatchChoice(100, {64: 800.0, 100: 1000.0}, 100).why()
    assert words.endswith("20 % less in those of 64, the most that there is room or use for")
    assert BatchChoice(1, {1: 50.0}, 8).why() == "50 evaluations/s in batches of 1"


def test_speed_is_that_of_the_best_round() -> None:
    """Calls of 10 milliseconds, after a first one of a second and with a slow one in the second round."""
    calls, now = [], [0.0]

    def work() -> None:
        calls.append(len(calls))
        now[0] += 1.0 if len(calls) == 1 else 0.05 if len(calls) == 5 else 0.01

    waits = []
    rate = speed(work, 8, lambda: waits.append(None), clock=lambda: now[0])
    assert rate == pytest.approx(800.0) and len(waits) == len(calls)
    assert len(calls) <= 1 + batching.ROUNDS * (round(batching.ROUND_SECONDS / 0.01) + 1)
