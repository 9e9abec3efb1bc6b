"""Compiles Triton kernels for GPUs that are not here.

A test process interprets its kernels, and Triton decides that once and for all when it is imported. So another process
compiles them, one for all tests of a session. It calls what launches kernels, with tensors on the CPU or on "meta":

    found = compile_call(board.exact_legal_rows, state, keys)

Every launch in it compiles its kernel with the types that Triton finds in the arguments, tuples of tensors too, and
launches nothing; what the call returns has no meaning. A kernel that does not compile raises an AssertionError with the
compiler's words."""

import os
import pickle
import re
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ARCHITECTURES = (80, 90)  # A100, H100


def compile_call(function: Callable, *arguments: Any) -> dict[int, dict[str, dict[str, int]]]:
    """Compiles all kernels that a function of a module launches for these arguments, and returns what each uses, by
    architecture and by the kernel's name, the most of all its launches: registers of a thread, `spills` (bytes of local
    memory of a thread), `shared` (bytes of a block)."""
    call = pickle.dumps((function, arguments))  # as a pool itself would share the tensors' memory
    try:
        return _worker().submit(_call, call).result()
    except Exception as error:
        raise AssertionError(f"{function.__name__} does not compile: {error}") from error


@cache
def _worker() -> ProcessPoolExecutor:
    """Starts the process that compiles; it ends with this one."""
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_interpret_nothing)


def _interpret_nothing() -> None:
    os.environ.pop("TRITON_INTERPRET", None)


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
            driver.set_active(_AbsentDevice(architecture))
            function(*arguments)
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from None  # Triton's own can't be sent
    finally:
        JITFunction.run = launch
    return used


class _AbsentDevice:
    """What Triton asks of a driver until it launches."""

    def __init__(self, architecture: int):
        self.architecture = architecture

    def get_current_device(self) -> int:
        return self.architecture  # kernels are remembered by device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.architecture, 32)


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
