"""How the CPU's kernels are compiled and run: without Python's lock, the games shared out among as many threads as torch may use."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from torch import Tensor

FEWEST = 128  # games to a thread; fewer are seldom worth waking one
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def kernel(function: Callable) -> Callable:
    """Compiles a function when it is first called, and keeps the result on disk. Division by zero is NumPy's, indices are not checked."""
    return _compiled(function, nogil=True, no_cfunc_wrapper=True)


def inline(function: Callable) -> Callable:
    """The same for a helper that kernels call."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def part(function: Callable) -> Callable:
    """The same for a helper that is called at one place or is short: it becomes part of its caller, which hands no arrays on then."""
    return _compiled(function, nogil=True, forceinline=True)


def _compiled(function: Callable, **options: bool) -> Callable:
    """Numba takes a kept result for good while the function's own file is what it was, though helpers in others may have changed: so the
    folder of the results is named after all of them. Numba reads the folder's name here and at no later time."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(_folder())
    try:
        return numba.njit(cache=True, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = before


@cache
def _folder() -> Path:
    """Returns where compiled kernels are kept: beside the sources, or in the user's cache where those can't be written."""
    here = Path(__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))).hexdigest()[:16]
    beside = here / "__pycache__"
    home = beside if os.access(beside if beside.exists() else here, os.W_OK) else Path.home() / ".cache" / "zerogo"
    return Path(numba.config.CACHE_DIR or home) / f"kernels-{digest}"


@intrinsic
def bit_count(_context, word):
    """How many bits of a word are set; for kernels."""
    return word(word), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


@intrinsic
def first_bit(_context, word):
    """The index of the lowest set bit of a word that is not 0; for kernels."""
    return word(word), lambda context, builder, signature, arguments: builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))


@intrinsic
def copy_bytes(_context, to, source, number):
    """Copies so many bytes from one address to another, int64 each; for kernels."""

    def generate(context, builder, signature, arguments):
        pointers = [builder.inttoptr(address, ir.IntType(8).as_pointer()) for address in arguments[:2]]
        cgutils.raw_memcpy(builder, *pointers, arguments[2], 1)
        return context.get_dummy_value()

    return types.none(to, source, number), generate


def array(tensor: Tensor) -> np.ndarray:
    """Returns a tensor as kernels want it: a contiguous array, over the same memory where that is contiguous."""
    found = tensor.numpy()
    return found if found.flags.c_contiguous else np.ascontiguousarray(found)


def over_games(loop: Callable, num_games: int, *arguments: Any) -> None:
    """Calls loop(first, last, *arguments) for all games, in as many stretches as torch has threads, on torch's own threads.

    Others would compete with those for the cores: a thread of OpenMP goes on spinning for milliseconds after each operation of torch's.
    """
    threads = min(torch.get_num_threads(), num_games // FEWEST)
    if threads < 2 or _team() is None:
        loop(0, num_games, *arguments)
        return
    fork, number_of_thread = _team()
    bounds = [num_games * k // threads for k in range(threads + 1)]
    left, raised = set(range(threads)), []

    def stretch(_data: int | None) -> None:
        number = number_of_thread()
        left.discard(number)
        try:
            loop(bounds[number], bounds[number + 1], *arguments)
        except BaseException as error:  # must not be lost in a thread that isn't Python's
            raised.append(error)

    fork(_CALLBACK(stretch), None, threads, 0)
    for number in left:  # OpenMP may give fewer threads than it is asked for
        loop(bounds[number], bounds[number + 1], *arguments)
    if raised:
        raise raised[0]


@cache
def _team() -> tuple[Callable, Callable] | None:
    """Returns OpenMP's functions that run a callback in a team of threads, and that tell a thread its number; None where there are none."""
    library = ctypes.CDLL(None)  # where torch has loaded its OpenMP for all to see
    try:
        fork, number = library.GOMP_parallel, library.omp_get_thread_num
    except AttributeError:
        return None
    fork.argtypes, fork.restype = (_CALLBACK, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return fork, number
