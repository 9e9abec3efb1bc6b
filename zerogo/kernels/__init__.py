"""Compiled versions of the hot operations, and the one place that chooses among them.

`cpu/` holds loops over games that Numba compiles, `cuda/` Triton kernels, one program a game. Both have the same doors: modules of the same
names with functions of the same arguments and results. The torch operations that they stand in for are where they always were; they run
on any device, do the same, and are what the tests hold the kernels against. Where the compiler is missing they do the work alone.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

import torch

COMPILERS = {"cpu": "numba", "cuda": "triton"}  # by kind of device
_in_use = True


def compiled(name: str, device: torch.device) -> ModuleType | None:
    """Returns the kernels `name` ("board", "tree", …) for a device, or None where torch must do: there are none, or they are not wanted."""
    return _module(name, device.type) if _in_use else None


@cache
def _module(name: str, kind: str) -> ModuleType | None:
    compiler = COMPILERS.get(kind)
    if compiler is None or importlib.util.find_spec(compiler) is None:
        return None
    full_name = f"zerogo.kernels.{kind}.{name}"
    return importlib.import_module(full_name) if importlib.util.find_spec(full_name) is not None else None


def choose(kernels: str) -> None:
    """Leaves everything in this process to torch where run.kernels is "plain"; "auto" leaves things as they are: compiled if possible."""
    global _in_use
    _in_use = _in_use and kernels != "plain"


def in_use(device: torch.device) -> str:
    """Returns for a person what does the work of kernels on a device."""
    compiler = COMPILERS.get(device.type)
    if not _in_use or compiler is None:
        return "torch alone"
    return f"kernels by {compiler}" if importlib.util.find_spec(compiler) is not None else f"torch alone, without {compiler}"


@contextmanager
def plain() -> Iterator[None]:
    """Leaves everything to torch inside a `with` block: the oracle of the kernels, and what runs without a compiler."""
    global _in_use
    before, _in_use = _in_use, False
    try:
        yield
    finally:
        _in_use = before
