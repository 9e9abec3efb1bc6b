"""Compiles Triton kernels for GPUs that are not here.

A test process interprets its kernels, and Triton decides that once and for all when it is imported. So another process
compiles them, one for all tests of a session, which waits for requests. It calls what launches kernels, with tensors on
the CPU or on "meta":

    found = compile_call(board.exact_legal_rows, state, keys)

Every launch in it compiles its kernel with the types that Triton finds in the arguments, tuples of tensors too, and
launches nothing; what the call returns has no meaning. A kernel that does not compile raises an AssertionError with the
compiler's words."""

import atexit
import base64
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ARCHITECTURES = (80, 90)  # A100, H100
ROOT = Path(__file__).resolve().parent.parent


def compile_call(function: Callable, *arguments: Any) -> dict[int, dict[str, dict[str, int]]]:
    """Compiles all kernels that a function of a module launches for these arguments, and returns what each uses, by
    architecture and by the kernel's name, the most of all its launches: registers of a thread, `spills` (bytes of local
    memory of a thread), `shared` (bytes of a block)."""
    worker, name = _worker(), function.__name__
    call = base64.b64encode(pickle.dumps((function, arguments))).decode()
    worker.stdin.write(call + "\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    assert line, f"the compiling process ended while it compiled {name}"
    answer = json.loads(line)
    assert "error" not in answer, f"{name} does not compile: {answer['error']}"
    return {int(architecture): use for architecture, use in answer.items()}


@cache
def _worker() -> subprocess.Popen:
    """Starts the process that compiles; it ends with this one."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    worker = subprocess.Popen([sys.executable, __file__], env=environment, cwd=ROOT, **pipes)
    atexit.register(worker.wait)
    atexit.register(worker.stdin.close)  # which ends it; what was registered last is done first
    return worker


def _serve() -> None:
    """Answers requests, a line each, until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what the compiler prints is no answer
    for line in sys.stdin:
        try:
            answer = _call(line)
        except Exception as error:  # the test tells it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _call(call: str) -> dict[int, dict[str, dict[str, int]]]:
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    function, arguments = pickle.loads(base64.b64decode(call))
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


if __name__ == "__main__":
    _serve()
