"""Which compiler does the work of the kernels, and what is said where it can't: then torch does it alone, without a
traceback.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest
import torch

from zerogo import kernels

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets what is known of the compilers, before and after."""
    monkeypatch.setattr(kernels, "_in_use", True)
    for function in (kernels._obstacle, kernels._module):
        function.cache_clear()
    yield
    for function in (kernels._obstacle, kernels._module):
        function.cache_clear()


def pretend(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int] = (9, 0), error: Exception | None = None
) -> list[str]:
    """Puts a GPU of that capability into the machine, and a Triton whose driver may fail; returns its probes as they
    come.
    """
    probes: list[str] = []

    def get_current_target() -> None:
        probes.append("driver")
        if error is not None:
            raise error

    triton = ModuleType("triton")
    triton.runtime = SimpleNamespace(
        driver=SimpleNamespace(active=SimpleNamespace(get_current_target=get_current_target))
    )
    triton.__spec__ = importlib.util.spec_from_loader("triton", loader=None)
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    return probes


NO_COMPILER = RuntimeError("Failed to find C compiler.\n Please set CC.")


@pytest.mark.parametrize(
    ("capability", "error", "reason"),
    [
        ((9, 0), NO_COMPILER, "Failed to find C compiler. Please set CC."),
        ((7, 0), None, "the GPU has compute capability 7.0, and Triton needs 7.5 or more"),
        ((9, 0), AssertionError(), "AssertionError"),
    ],
    ids=["no C compiler", "an old GPU", "without a word"],
)
def test_where_triton_fails_torch_works_alone(
    capability: tuple[int, int], error: Exception | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = pretend(monkeypatch, capability, error)
    with pytest.warns(UserWarning) as said:
        assert kernels.compiled("board", CUDA) is None and kernels.compiled("tree", CUDA) is None
        assert kernels.in_use(CUDA) == f"torch alone, as triton does not work here: {reason}"
    assert [str(one.message) for one in said] == [
        f"torch does the work of the kernels alone, as triton does not work here: {reason}"
    ] and probes == ["driver"]


def test_triton_is_tried_once_and_only_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = pretend(monkeypatch)
    with kernels.plain():
        assert kernels.compiled("board", CUDA) is None and kernels.in_use(CUDA) == "torch alone" and not probes
    assert kernels._obstacle("cuda") is None and kernels.in_use(CUDA) == "kernels by triton" and probes == ["driver"]
    for without in ("a GPU", "compiling"):
        kernels._obstacle.cache_clear()
        with monkeypatch.context() as patch:
            if without == "a GPU":
                patch.setattr(torch.cuda, "is_available", lambda: False)
            else:
                patch.setenv("TRITON_INTERPRET", "1")
            assert kernels._obstacle("cuda") is None and probes == ["driver"]


def test_a_broken_numba_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> ModuleType:
        raise ImportError("Numba needs NumPy 2.4 or less")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib, "import_module", fails)
    why = "as numba does not work here: Numba needs NumPy 2.4 or less"
    with pytest.warns(UserWarning, match=f"torch does the work of the kernels alone, {why}") as said:
        assert kernels.compiled("board", CPU) is None and kernels.compiled("tree", CPU) is None
    assert len(said) == 1 and kernels.in_use(CPU) == f"torch alone, {why}"


def test_a_missing_compiler_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernels.compiled("board", CPU) is None and kernels.in_use(CPU) == "torch alone, without numba"
