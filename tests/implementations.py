"""The implementations of the encoders' hot operations, for tests that hold each against the same oracle.

compiled: Numba's kernels. plain: torch, with the CPU's loops for tactics and ladders. interpreted: Triton's kernels by
its interpreter, where there is no GPU; so slow that it gets few positions. cuda: Triton's kernels on a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType

import pytest
import torch
from interpreting import interpreted
from torch import Tensor

from zerogo import board, kernels
from zerogo.features import Encoder
from zerogo.features.readings import MOST_ANSWERS, MOST_OF_KATAGO, Ladders

# Of tactics and ladders, which have no torch version.
READERS = ["compiled", pytest.param("interpreted", marks=interpreted), pytest.param("cuda", marks=pytest.mark.gpu)]


def module(name: str, implementation: str) -> ModuleType:
    """Returns the kernels `name` of an implementation."""
    if implementation in ("compiled", "plain"):
        pytest.importorskip("numba")
        return kernels.cpu_loops(name)
    pytest.importorskip("triton")
    return kernels._module(name, "cuda")


@contextmanager
def using(implementation: str) -> Iterator[None]:
    """Lets encoders be computed by an implementation inside a `with` block."""
    before = kernels.module_for
    if implementation == "interpreted":
        triton = {name: module(name, implementation) for name in ("planes", "tactics", "ladders")}
        kernels.module_for = lambda name, device: triton.get(name)
    try:
        with kernels.plain() if implementation == "plain" else nullcontext():
            yield
    finally:
        kernels.module_for = before


def encode(encoder: Encoder, state: board.State, implementation: str) -> tuple[Tensor, Tensor]:
    """Returns the planes and the global inputs of a state on the CPU, on the CPU."""
    moved = state.to(torch.device("cuda")) if implementation == "cuda" else state
    with using(implementation):
        return encoder.planes(moved).cpu(), encoder.globals(moved).cpu()


def read_ladders(
    state: board.State,
    implementation: str = "compiled",
    for_mover: bool = False,
    most: int | None = None,
    as_katago: bool = False,
) -> Ladders:
    """Returns the ladders of a state on the CPU; for_mover: only what the side to move may do at once."""
    given = (state.black, state.white, state.on_board, state.to_play if for_mover else None)
    most = most if most is not None else MOST_OF_KATAGO if as_katago else MOST_ANSWERS
    given = (*given, most, state.ko if as_katago else None)
    device = "cuda" if implementation == "cuda" else "cpu"
    moved = (part.to(device) if isinstance(part, Tensor) else part for part in given)
    return Ladders(*(part.cpu() for part in module("ladders", implementation).read(*moved)))
