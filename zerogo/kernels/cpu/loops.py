"""How the CPU's kernels are compiled and run: without Python's lock, the games shared out among as many threads as torch may use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numba
import torch

FEWEST = 64  # games to a thread; fewer are not worth waking one


def kernel(function: Callable) -> Callable:
    """Compiles a function when it is first called, and keeps the result on disk. Division by zero is NumPy's, indices are not checked."""
    return numba.njit(nogil=True, cache=True, error_model="numpy")(function)


def inline(function: Callable) -> Callable:
    """The same for a helper that kernels call."""
    return numba.njit(nogil=True, cache=True, error_model="numpy", inline="never")(function)


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
