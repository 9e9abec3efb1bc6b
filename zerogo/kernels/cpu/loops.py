"""How the CPU's kernels are compiled and run: without Python's lock, the games shared out among as many threads as torch may use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from torch import Tensor

FEWEST = 64  # games to a thread; fewer are not worth waking one


def kernel(function: Callable) -> Callable:
    """Compiles a function when it is first called, and keeps the result on disk. Division by zero is NumPy's, indices are not checked."""
    return numba.njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)(function)


def inline(function: Callable) -> Callable:
    """The same for a helper that kernels call."""
    return numba.njit(cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def part(function: Callable) -> Callable:
    """The same for a helper that is called at one place or is short: it becomes part of its caller, which hands no arrays on then."""
    return numba.njit(nogil=True, cache=True, error_model="numpy", forceinline=True)(function)


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
    """Calls loop(first, last, *arguments) for all games, in as many stretches as torch has threads."""
    threads = min(torch.get_num_threads(), num_games // FEWEST)
    if threads < 2:
        loop(0, num_games, *arguments)
        return
    bounds = [num_games * k // threads for k in range(threads + 1)]
    others = [_pool(threads - 1).submit(loop, *pair, *arguments) for pair in zip(bounds[1:-1], bounds[2:], strict=True)]
    loop(bounds[0], bounds[1], *arguments)
    for other in others:
        other.result()


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="zerogo-kernel")
