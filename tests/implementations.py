"""The implementations of the hot operations, for tests that hold each against torch or an oracle.

A way is "numba", whose kernels are used by default; "plain", torch where the host may look; "blind", torch as on CUDA,
where a look by the host waits for the device; "torch", the same with looks refused; and "triton", whose kernels are
interpreted where there is no GPU, so slowly that they get little work."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import interpreting  # noqa: F401
import pytest
import torch
from torch import Tensor

from zerogo import board, kernels
from zerogo.features import Encoder
from zerogo.features.readings import MOST_ANSWERS, MOST_OF_KATAGO, Ladders
from zerogo.system.tensors import TensorFields

HAS_CUDA, CPU = torch.cuda.is_available(), torch.device("cpu")
DEVICE = torch.device("cuda" if HAS_CUDA else "cpu")  # Triton's
NUMBA = pytest.param("numba", marks=pytest.mark.skipif(not importlib.util.find_spec("numba"), reason="no numba"))
TRITON_MARKS = [pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="no triton")]
TRITON_MARKS += [pytest.mark.gpu] * HAS_CUDA  # where its kernels run on the GPU
TRITON = pytest.param("triton", marks=TRITON_MARKS)
IMPLEMENTATIONS = pytest.mark.parametrize("way", ["torch", NUMBA, TRITON])
KERNELS = pytest.mark.parametrize("way", [NUMBA, TRITON])
ONLY_TRITON = pytest.mark.parametrize("way", [TRITON])
LOOKS = ("item", "tolist", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__")


def _refuse(*_args: Any, **_options: Any) -> None:
    raise AssertionError("this would wait for the device")


@contextmanager
def doing(way: str, *names: str) -> Iterator[None]:
    """Lets one implementation do the work; names: of Triton's modules, by default all."""
    with pytest.MonkeyPatch.context() as patch:
        if way in ("blind", "torch", "triton"):
            for name, module in list(sys.modules.items()):
                if name.startswith("zerogo") and hasattr(module, "host_read_is_free"):
                    patch.setattr(module, "host_read_is_free", lambda tensor: False)
        if way == "triton":
            offered = {name: kernels._module(name, "cuda") for name in names or kernels.NAMES["cuda"]}
            patch.setattr(kernels, "module_for", lambda name, device: offered.get(name))
        elif way != "numba":
            patch.setattr(kernels, "_only", kernels.NOTHING)
        if way == "torch":
            for name in LOOKS:
                patch.setattr(Tensor, name, _refuse)
        yield


def device_of(way: str) -> torch.device:
    return DEVICE if way == "triton" else CPU


def on(device: torch.device, thing: Any) -> Any:
    """Returns tensors, or what holds them, on a device; the rest as it is."""
    if isinstance(thing, (tuple, list)):
        return type(thing)(on(device, part) for part in thing)
    return thing.to(device) if isinstance(thing, (Tensor, TensorFields)) else thing


def done(way: str, function: Callable, *arguments: Any, names: tuple[str, ...] = ()) -> Any:
    """Returns what a function does to arguments from the CPU, by one of the implementations; its tensors on the CPU."""
    placed = on(device_of(way), list(arguments))
    with doing(way, *names):
        result = function(*placed)
    return on(CPU, result)


def module(name: str, way: str) -> ModuleType:
    """Returns the kernels `name` of an implementation; of "plain" the CPU's loops, which torch has no version of."""
    return kernels._module(name, "cuda") if way == "triton" else kernels.cpu_loops(name)


def encode(encoder: Encoder, state: board.State, way: str) -> tuple[Tensor, Tensor]:
    """Returns the planes and the global inputs of a state."""
    names = ("planes", "tactics", "ladders")
    return done(way, lambda moved: (encoder.planes(moved), encoder.globals(moved)), state, names=names)


def read_ladders(state: board.State, way: str = "numba", most: int | None = None, as_katago: bool = False) -> Ladders:
    most = most if most is not None else MOST_OF_KATAGO if as_katago else MOST_ANSWERS
    ko = state.ko if as_katago else None
    given = on(device_of(way), [state.black, state.white, state.on_board, None, most, ko])
    return Ladders(*on(CPU, list(module("ladders", way).read_ladders(*given))))
