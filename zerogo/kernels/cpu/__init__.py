"""Kernels for the CPU: loops over games, compiled by Numba. This file says how they are compiled and run: without
Python's lock, with games distributed over as many threads as torch may use."""

import ctypes
import fcntl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo import kernels

try:
    import numba
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic
except Exception:  # missing, or a broken installation: `zerogo.kernels` reports which
    numba = None
if kernels._obstacle("cpu") is not None:
    numba = None

FEWEST = 128  # games per thread; fewer are seldom worth waking one
LONGEST = 9  # numbers of a line
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _compiled(function: Callable, **options: Any) -> Callable:
    """Compiles a function at its first call, and caches the result on disk. Indices are not checked.

    Numba trusts a cached result as long as the function's own file is unchanged, although helpers in other files may
    have changed. So it gets `kernels.cache_folder`, whose name it reads only here. Without Numba the function stays as
    it is: ladders and tactics, which have no torch version, then run as Python."""
    if numba is None:
        return function
    folder, before = kernels.cache_folder(), numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        made = numba.njit(cache=folder is not None, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    if cached := getattr(getattr(made, "_cache", None), "_cache_file", None):  # none with NUMBA_DISABLE_JIT
        cached.save = partial(_save_alone, folder, cached.save)
    return made


def _save_alone(folder: Path, save: Callable, *entry: Any) -> None:
    """Saves a compiled function under a lock, without which two processes could overwrite each other's index."""
    with open(folder / ".save", "w") as file:
        with suppress(OSError):  # a disk on a network may have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        save(*entry)


kernel = partial(_compiled, nogil=True, no_cfunc_wrapper=True)
inline = partial(_compiled, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # for a helper that kernels call
# For a short helper, or one with a single call: it becomes part of its caller, and no arrays are passed.
part = partial(_compiled, nogil=True, forceinline=True)


if numba is None:
    bit_count = np.bitwise_count

    def first_bit(word):
        """Returns the index of a word's lowest set bit."""
        return bit_count((word & -word) - 1)
else:

    @intrinsic
    def bit_count(_context, word):
        """Returns how many bits of a word are set; for kernels."""
        return word(word), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])

    @intrinsic
    def first_bit(_context, word):
        """Returns the index of the lowest set bit of a word that is not 0; for kernels."""
        return word(word), lambda context, builder, signature, arguments: builder.cttz(
            arguments[0], ir.Constant(ir.IntType(1), 1)
        )

    # Before a loop LLVM checks whether what it stores overlaps what it loads, unless it is told: loads and stores of a
    # stage, a literal int, do not overlap, nor do the stores of a line. Then such a loop takes half the time.

    @intrinsic(prefer_literal=True)
    def load_line(_context, array, index, axis, number, stage):
        """Returns `LONGEST` float32 numbers: those from an index on along an axis, and zeros; for kernels."""
        made = types.UniTuple(array.dtype, LONGEST)

        def _generate(context, builder, signature, arguments):
            numbers = [ir.Constant(ir.FloatType(), 0.0)] * LONGEST
            for place, pointer in enumerate(_line(context, builder, signature, arguments)):
                numbers[place] = builder.load(pointer)
                numbers[place].set_metadata("noalias", _scopes(builder, stage, range(LONGEST)))
            return context.make_tuple(builder, made, numbers)

        return made(array, index, axis, number, stage), _generate

    @intrinsic(prefer_literal=True)
    def store_line(_context, array, index, axis, number, stage, numbers):
        """Stores the first of some numbers from an index on along an axis; for kernels."""

        def _generate(context, builder, signature, arguments):
            values = cgutils.unpack_tuple(builder, arguments[5])
            for place, pointer in enumerate(_line(context, builder, signature, arguments)):
                stored = builder.store(values[place], pointer)
                stored.set_metadata("alias.scope", _scopes(builder, stage, [place]))
                stored.set_metadata("noalias", _scopes(builder, stage, {*range(LONGEST)} - {place}))
            return context.get_dummy_value()

        return types.none(array, index, axis, number, stage, numbers), _generate

    def _line(context, builder, signature, arguments):
        """Yields the addresses of the numbers of a line."""
        kind, kinds, axis, count = signature.args[:4]
        index = zip(cgutils.unpack_tuple(builder, arguments[1]), kinds, strict=True)
        at = [context.cast(builder, number, old, types.intp) for number, old in index]
        array = context.make_array(kind)(context, builder, arguments[0])
        for place in range(count.literal_value):
            moved = list(at)
            moved[axis.literal_value] = builder.add(at[axis.literal_value], ir.Constant(ir.IntType(64), place))
            yield cgutils.get_item_pointer(context, builder, kind, array, moved, wraparound=False)

    def _scopes(builder, stage, places):
        add = builder.module.add_metadata
        return add([add([f"stage {stage.literal_value}, number {place}", add(["zerogo"])]) for place in places])

    @intrinsic
    def copy_bytes(_context, to, source, number):
        """Copies `number` bytes from one address to another, int64 each; for kernels."""

        def _generate(context, builder, signature, arguments):
            pointers = [builder.inttoptr(address, ir.IntType(8).as_pointer()) for address in arguments[:2]]
            cgutils.raw_memcpy(builder, *pointers, arguments[2], 1)
            return context.get_dummy_value()

        return types.none(to, source, number), _generate


def array(tensor: Tensor) -> np.ndarray:
    """Returns a tensor as a contiguous array, over the same memory if that is contiguous."""
    view = tensor.numpy()
    return view if view.flags.c_contiguous else np.ascontiguousarray(view)


def arrays_of(kind: type, source: Any) -> Any:
    """Returns an object's tensors for the fields of a namedtuple, as arrays."""
    return kind(*(array(getattr(source, name)) for name in kind._fields))


def over_games(loop: Callable, num_games: int, *arguments: Any, fewest: int = FEWEST) -> None:
    """Calls loop(first, last, *arguments) for all games, in as many ranges as torch has threads, on torch's own
    threads, at least `fewest` games each. Tensors among the arguments become arrays; outputs must be contiguous.

    Other threads would compete with torch's for the cores: an OpenMP thread spins for milliseconds after each
    operation."""
    arguments = [array(part) if isinstance(part, Tensor) else part for part in arguments]
    threads = min(torch.get_num_threads(), num_games // fewest)
    if threads < 2 or _team() is None:
        loop(0, num_games, *arguments)
        return
    bounds = [num_games * k // threads for k in range(threads + 1)]
    stretches, raised = list(zip(bounds[:-1], bounds[1:], strict=True)), []

    def _work(_data: int | None) -> None:
        try:
            loop(*stretches.pop(), *arguments)
        except BaseException as error:
            raised.append(error)

    with _unraisable_into(raised):
        _team()(_CALLBACK(_work), None, threads, 0)
    if raised:
        raise raised[0]
    for stretch in stretches:  # OpenMP may give fewer threads than requested
        loop(*stretch, *arguments)


@contextmanager
def _unraisable_into(raised: list[BaseException]) -> Iterator[None]:
    """Collects exceptions that a callback from C can't raise: Ctrl-C may come before its first line, and would be
    printed and lost. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: raised.append(unraisable.exc_value)
    try:
        yield
    finally:
        sys.unraisablehook = before


@cache
def _team() -> Callable | None:
    """Returns OpenMP's function that runs a callback in a team of threads; None if there is none."""
    try:
        fork = ctypes.CDLL(None).GOMP_parallel  # if torch has loaded its OpenMP globally
    except (AttributeError, OSError, TypeError):
        return None
    fork.argtypes, fork.restype = (_CALLBACK, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return fork
