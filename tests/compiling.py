"""Compiles Triton kernels for GPUs that are not here.

A test process interprets its kernels, and Triton decides that once and for all when it is imported. So another process
compiles them, one for all tests of a session, which waits for requests:

    found = compile_for(board.play_kernel, {"black": "*i32", "ply": "*i32", "finished": "*i1", "num_games": "i32"},
    {"N": 9})

The signature gives the type of every argument that is not a `tl.constexpr` ("*i32" is a pointer; "i8", "i16", "i32",
"i64", "i1" of bool, "fp32", …), the constants give the others. The kernel is found by its module and its own name, so
it must be a module's `@triton.jit` function; the module is imported without TRITON_INTERPRET. One that does not compile
raises an AssertionError with the compiler's words.

Easier, and nearer to what happens on a GPU, is to call what launches kernels, with tensors on the CPU:

    found = compile_call(board.legal_rows, position, on_board, None)

The other process makes the same call, and every launch in it compiles its kernel with the types that Triton finds in
the arguments, tuples of tensors too, and launches nothing; what the call returns has no meaning."""

from __future__ import annotations

import atexit
import base64
import importlib
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

import torch
from torch import Tensor

ARCHITECTURES = (80, 90)  # A100, H100
ROOT = Path(__file__).resolve().parent.parent
TYPES = {
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float32: "fp32",
    int: "i32",
    float: "fp32",
}


def types_of(**examples: Any) -> dict[str, str]:
    """Returns the signature of arguments like these: tensors, whole numbers (i32) and floats (fp32)."""
    return {
        name: f"*{TYPES[value.dtype]}" if isinstance(value, Tensor) else TYPES[type(value)]
        for name, value in examples.items()
    }


def compile_for(
    kernel: Any,
    signature: dict[str, str],
    constants: dict[str, Any],
    num_warps: int = 1,
    architectures: tuple[int, ...] = ARCHITECTURES,
) -> dict[int, dict[str, int]]:
    """Compiles a kernel to machine code for each architecture and returns what it uses there, by architecture:
    registers of a thread, `spills` (bytes of local memory of a thread), `shared` (bytes of a block)."""
    function = kernel.fn
    request = {
        "module": function.__module__,
        "name": function.__name__,
        "signature": signature,
        "constants": constants,
        "num_warps": num_warps,
        "architectures": architectures,
    }
    return {int(architecture): use for architecture, use in _ask(request, function.__name__).items()}


def compile_call(
    function: Callable, *arguments: Any, architectures: tuple[int, ...] = ARCHITECTURES
) -> dict[int, dict[str, dict[str, int]]]:
    """Compiles all kernels that a function of a module launches for these arguments, and returns what each uses, by
    architecture and by the kernel's name, as `compile_for` does."""
    call = base64.b64encode(pickle.dumps((function, arguments))).decode()
    answer = _ask({"call": call, "architectures": architectures}, function.__name__)
    return {int(architecture): use for architecture, use in answer.items()}


def _ask(request: dict[str, Any], name: str) -> dict[str, Any]:
    worker = _worker()
    worker.stdin.write(json.dumps(request) + "\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    assert line, f"the compiling process ended while it compiled {name}"
    answer = json.loads(line)
    assert "error" not in answer, f"{name} does not compile: {answer['error']}"
    return answer


@cache
def _worker() -> subprocess.Popen:
    """Starts the process that compiles; it ends with this one."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    worker = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    atexit.register(worker.wait)
    atexit.register(worker.stdin.close)  # which ends it; what was registered last is done first
    return worker


def _serve() -> None:
    """Answers requests, a line each, until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what the compiler prints is no answer
    for line in sys.stdin:
        try:
            request = json.loads(line)
            answer = _call(**request) if "call" in request else _compile(**request)
        except Exception as error:  # the test tells it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _compile(
    module: str,
    name: str,
    signature: dict[str, str],
    constants: dict[str, Any],
    num_warps: int,
    architectures: list[int],
) -> dict[int, dict[str, int]]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(importlib.import_module(module), name)
    missing = set(kernel.arg_names) ^ (set(signature) | set(constants))
    assert not missing, f"arguments without a type, or types without an argument: {', '.join(sorted(missing))}"
    types = {argument: signature.get(argument, "constexpr") for argument in kernel.arg_names}
    used = {}
    for architecture in architectures:
        source = ASTSource(fn=kernel, signature=types, constexprs=constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": num_warps})
        used[architecture] = _resources(compiled.asm["cubin"]) | {"shared": compiled.metadata.shared}
    return used


def _call(call: str, architectures: list[int]) -> dict[int, dict[str, dict[str, int]]]:
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    function, arguments = pickle.loads(base64.b64decode(call))
    launch, used = JITFunction.run, {}

    def compile_only(kernel: JITFunction, *values: Any, grid: Any, warmup: bool, **options: Any) -> None:
        compiled = launch(kernel, *values, grid=grid, warmup=True, **options)
        used[architecture][kernel.__name__] = _resources(compiled.asm["cubin"]) | {"shared": compiled.metadata.shared}

    JITFunction.run = compile_only
    try:
        for architecture in architectures:
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
