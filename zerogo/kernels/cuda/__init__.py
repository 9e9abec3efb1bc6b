"""Triton kernels for CUDA: one program (a warp, where a board row is a lane) a game. Without a GPU they run under
TRITON_INTERPRET=1."""

from typing import Any

from torch import Tensor


def launch(kernel: Any, number: int, *arguments: Any, **options: Any) -> None:
    """Runs a kernel in so many programs, if any. Tensors among the arguments are made contiguous; what is written into
    is so already."""
    if number:
        values = (value.contiguous() if isinstance(value, Tensor) else value for value in arguments)
        kernel[(number,)](*values, **options)
