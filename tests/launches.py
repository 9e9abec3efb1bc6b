"""Counts without a GPU what a CUDA device would be given to do, and where the host would wait for it.

Kernels are Triton's, interpreted: a call of one is a launch. Every other operation of torch is one, too, but for views
and tensors that nothing is written into or that hold nothing; operations that torch makes of others are taken apart
first, in inference mode as well, and those of which CUDA makes more than one kernel (a copy that is then written into,
a sort) count as so many (`SEVERAL`). What the interpreter itself asks of torch does not count."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from zerogo import kernels

NONE = (
    "lift_fresh",
    "detach",
    "detach_",
    "resize_",
    "_unsafe_view",
    "_local_scalar_dense",
    "is_nonzero",
    "item",
    "equal",
    "_record_function_enter_new",
    "_record_function_exit",
)
SEVERAL = {"constant_pad_nd": 2, "sort": 3, "topk": 2, "nonzero": 3, "_unique2": 6, "repeat_interleave": 3}
# Out of place, a copy comes first.
SEVERAL |= dict.fromkeys("index_put scatter scatter_add scatter_reduce index_add index_copy masked_fill".split(), 2)


class Launches(TorchDispatchMode):
    """Counts operations by name in `found`, as long as `rests` is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.rests = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: tuple = (), named: dict | None = None) -> Any:
        with self:
            parts = function.decompose(*arguments, **(named or {}))
        if parts is not NotImplemented:
            return parts
        name = function.overloadpacket.__name__
        result = function(*arguments, **(named or {}))
        is_empty = isinstance(result, Tensor) and not result.numel()
        if not (self.rests or is_empty or function.is_view or name in NONE or name.startswith(("empty", "new_empty"))):
            self.found[name] += SEVERAL.get(name, 1)
        return result

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Counts nothing inside a `with` block."""
        self.rests += 1
        try:
            yield
        finally:
            self.rests -= 1


def as_on_cuda(patch: pytest.MonkeyPatch) -> None:
    """Takes Triton's kernels wherever CUDA would."""
    patch.setattr(kernels, "module_for", lambda name, device: kernels._module(name, "cuda"))


@contextmanager
def launches(patch: pytest.MonkeyPatch) -> Iterator[Launches]:
    """Counts what is launched inside a `with` block."""
    from triton.runtime import interpreter

    counted, launch = Launches(), interpreter.GridExecutor.__call__

    def count(executor: Any, *arguments: Any, **named: Any) -> None:
        if not counted.rests:
            counted.found[executor.fn.__name__] += 1
        with _disable_current_modes():
            launch(executor, *arguments, **named)

    with patch.context() as inner:
        inner.setattr(interpreter.GridExecutor, "__call__", count)
        with counted:
            yield counted
