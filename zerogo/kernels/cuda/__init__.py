"""Triton kernels for CUDA: one program per game (a warp, if a board row is a lane). Without a GPU they run under
TRITON_INTERPRET=1."""

from typing import Any

from torch import Tensor


def launch(kernel: Any, number: int, *arguments: Any, **options: Any) -> None:
    """Runs a kernel in `number` programs, if any. Tensors among the arguments are made contiguous; outputs must be
    contiguous already."""
    if number:
        values = (value.contiguous() if isinstance(value, Tensor) else value for value in arguments)
        kernel[(number,)](*values, **options)
