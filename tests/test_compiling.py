"""Triton's kernels compile for GPUs that are not here, to machine code that spills nothing or little.

A test process interprets its kernels, and Triton decides that once and for all when it is imported. So another process
compiles them, one for all tests of a session: it calls what launches kernels, with tensors on the CPU or on "meta".
Every launch in it compiles its kernel with the types that Triton finds in the arguments, tuples of tensors too, and
launches nothing; what the call returns has no meaning."""

import pickle
import re
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from implementations import ONLY_TRITON

from zerogo import kernels
from zerogo.kernels.shared import ROWS
from zerogo.tuning import trials

ARCHITECTURES = (80, 90)  # A100, H100
SIZES = dict.fromkeys(kernels.NAMES["cuda"], (19,)) | dict.fromkeys(("draws", "scoring"), (9,))
SIZES |= {"tree": (9, 25), "planes": (9, 19)}
MOST_SPILLS = {"tree": 64, "roots": 64}  # bytes of a thread, elsewhere none
MOST_REGISTERS = dict.fromkeys(("board", "leaf_states"), 128)  # as a game's state must stay in them


def compile_call(function: Callable, *arguments: Any) -> dict[int, dict[str, dict[str, int]]]:
    """Compiles all kernels that a function of a module launches for these arguments, and returns what each uses, by
    architecture and by the kernel's name, the most of all its launches: registers of a thread, `spills` (bytes of local
    memory of a thread), `shared` (bytes of a block). Raises an AssertionError with the compiler's words."""
    call = pickle.dumps((function, arguments))  # as a pool itself would share the tensors' memory
    try:
        return _worker().submit(_call, call).result()
    except Exception as error:
        raise AssertionError(f"{function.__name__} does not compile: {error}") from error


@cache
def _worker() -> ProcessPoolExecutor:
    """Starts the process that compiles; it ends with this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TRITON_INTERPRET", raising=False)
        pool = ProcessPoolExecutor(1, get_context("spawn"))
        pool.submit(int).result()
    return pool


def _call(call: bytes) -> dict[int, dict[str, dict[str, int]]]:
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    function, arguments = pickle.loads(call)
    launch, used = JITFunction.run, {}

    def compile_only(kernel: JITFunction, *values: Any, grid: Any, warmup: bool, **options: Any) -> None:
        compiled = launch(kernel, *values, grid=grid, warmup=True, **options)
        needs = _resources(compiled.asm["cubin"]) | {"shared": compiled.metadata.shared}
        before = used[architecture].get(kernel.__name__, needs)
        used[architecture][kernel.__name__] = {what: max(number, before[what]) for what, number in needs.items()}

    JITFunction.run = compile_only
    try:
        for architecture in ARCHITECTURES:
            used[architecture] = {}
            driver.set_active(_absent_device(architecture))
            function(*arguments)
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from None  # Triton's own can't be sent
    finally:
        JITFunction.run = launch
    return used


def _absent_device(architecture: int) -> SimpleNamespace:
    """Returns what Triton asks of a driver until it launches; it remembers kernels by device."""
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("cuda", architecture, 32)
    return SimpleNamespace(
        get_current_device=lambda: architecture, get_current_stream=lambda device: 0, get_current_target=lambda: target
    )


def _resources(cubin: bytes) -> dict[str, int]:
    """Returns what the machine code says that it needs."""
    import triton.backends.nvidia

    tool = Path(triton.backends.nvidia.__file__).parent / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run(
            [str(tool), "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    numbers = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", told))
    return {"registers": int(numbers["REG"]), "spills": int(numbers["STACK"]) + int(numbers["LOCAL"])}


def launch_all(name: str, size: int) -> None:
    """Launches the kernels of a module as the trials of them do."""
    with kernels.plain():
        cases = list(trials.CASES[name](trials.drawn_games(size), "cuda"))
    with kernels.only(name, "cuda"):
        for function, arguments in cases:
            function(*arguments)


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, sizes in SIZES.items() for size in sizes])
def test_kernels_compile(name: str, size: int) -> None:
    pytest.importorskip("triton")
    for launched in compile_call(launch_all, name, size).values():
        assert launched and all(used["spills"] <= MOST_SPILLS.get(name, 0) for used in launched.values()), launched
        assert all(used["registers"] <= MOST_REGISTERS.get(name, 255) for used in launched.values()), launched
        assert name != "scoring" or not any(used["shared"] for used in launched.values())


@ONLY_TRITON
def test_what_no_trial_launches_compiles(way: str) -> None:
    """A batch beyond 2^31 elements, which is counted in int64, and ladders as KataGo reads them."""
    num_games = 2**31 // 48 // 19
    planes = torch.empty(num_games, 48, 19, dtype=torch.int32, device="meta")
    counts = torch.empty(1, num_games, 19, 19, dtype=torch.int16, device="meta")
    rows, to_play = torch.zeros(2, 19, dtype=torch.int32), torch.ones(2, dtype=torch.int8)
    read = kernels._module("ladders", "cuda").read_ladders
    ladders = read, *[rows] * 3, to_play, 99, torch.zeros(2, dtype=torch.int16)
    for call in ((kernels._module("planes", "cuda").paint, ((ROWS, 48),), planes, counts, torch.bfloat16), ladders):
        for launched in compile_call(*call).values():
            assert launched and not any(used["spills"] for used in launched.values()), launched
