"""The simulated CUDA device itself: it waits where CUDA waits, and refuses what CUDA refuses. Run on it by
`test_on_cuda.test_on_the_pretended_device`."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.gpu
if (pretend_cuda := sys.modules.get("pretend_cuda")) is None:
    pytest.skip("Python has not imported the simulated device at its start", allow_module_level=True)


@pytest.mark.parametrize("inference", [False, True])
def test_all_ways_to_wait_are_seen(inference: bool) -> None:
    host = torch.arange(6)
    numbers, whole, pinned = host.cuda(), torch.tensor([1, 2]).cuda(), host.pin_memory()
    large, mask = torch.zeros(6, 6, dtype=torch.int64, device="cuda"), numbers > 2
    waits: dict[str, Callable[[], Any]] = {
        "bool": lambda: bool(numbers.any()), "int": lambda: int(numbers.sum()), "item": lambda: numbers.sum().item(),
        "tolist": lambda: numbers.tolist(), "cpu": lambda: numbers.cpu(), "nonzero": lambda: numbers.nonzero(),
        "where": lambda: torch.where(mask), "mask": lambda: numbers[mask], "equal": lambda: torch.equal(whole, whole),
        "masked write": lambda: large.__setitem__(mask, large[3:] + 1), "unique": lambda: torch.unique(numbers),
        "repeat": lambda: torch.repeat_interleave(whole, whole), "argwhere": lambda: torch.argwhere(mask),
        "bincount": lambda: torch.bincount(numbers), "allclose": lambda: torch.allclose(whole, whole),
        "list": lambda: torch.tensor([1, 2], device="cuda"), "index on the host": lambda: large[host],
        "number to an index": lambda: large.__setitem__(whole, 3), "blocking": lambda: pinned.to("cuda"),
        "pageable": lambda: host.to("cuda", non_blocking=True), "copy": lambda: large[0].copy_(host),
        "if": lambda: 1 if whole[0] else 0,
        "copies": lambda: torch._foreach_copy_([large[0]], [host]), "synchronize": torch.cuda.synchronize,
    }  # fmt: skip
    with torch.inference_mode(inference):
        for name, work in waits.items():
            with pretend_cuda.seen() as counts:
                work()
            assert counts.waits, name
        with pretend_cuda.seen() as counts:
            numbers.index_fill_(0, whole, 3)
            numbers.masked_fill_(mask, 3)
            large[whole] = torch.where(numbers > 2, numbers, 0)[whole, None] + pinned.to("cuda", non_blocking=True)
            torch.full((), 2.0, device="cuda") * numbers + torch.tensor(2)
        assert not counts.waits


def test_what_cuda_refuses_is_refused() -> None:
    host, numbers, weights = torch.arange(4), torch.arange(4, device="cuda"), torch.rand(4, 4, device="cuda")
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: host + numbers, "two devices"),
        (lambda: torch.where(host > 2, numbers, 0), "two devices"),
        (lambda: weights.index_select(0, host), "two devices"),
        (lambda: host[numbers], "on the same device as the indexed"),
        (lambda: numbers.numpy(), "to host memory|to the host"),
        (lambda: numbers.view(2, 2) @ numbers.view(2, 2), "not implemented"),
        (lambda: torch.rand(4, device="cuda", generator=torch.Generator()), "device type for generator"),
    ]
    for work, words in refused:
        with pytest.raises((RuntimeError, TypeError), match=words):
            work()
    assert str((weights @ weights + torch.tensor(1.0)).device) == "cuda:0"


def test_kernels_keep_to_their_arguments_and_wait_for_what_they_wrote() -> None:
    import triton
    import triton.language as tl

    @triton.jit
    def shift(given, found, first, WAITS: tl.constexpr, TURNS: tl.constexpr):
        at = tl.arange(0, 4)
        tl.store(found + at, tl.load(given + first + at))
        if WAITS:
            tl.debug_barrier()
        turned = tl.load(found + 3 - at)
        if TURNS:
            tl.debug_barrier()
        tl.store(found + at, turned)

    given, found = torch.arange(4, device="cuda"), torch.zeros(4, dtype=torch.int64, device="cuda")
    shift[(1,)](given, found, 0, True, True)
    assert found.tolist() == [3, 2, 1, 0]
    faults = {"illegal memory access": (1, True, True), "reads without": (0, False, True)}
    for words, arguments in (faults | {"writes without a barrier": (0, True, False)}).items():
        with pytest.raises(Exception, match=words):
            shift[(1,)](given, found, *arguments)
