"""Settings of every test process: one thread, as several fight for the cores of a small machine, and Triton's
interpreter without a GPU."""

import os
import signal
import sys
from collections.abc import Callable

# Before torch is imported, which reads them once.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import pytest
import torch
from numba_cache import compile_kernels

torch.set_num_threads(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else the programs that tests interrupt would ignore it

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # must be set before the first `import triton`


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the CPU's kernels before xdist starts processes, each of which would compile them."""
    if getattr(config.option, "numprocesses", None) and not config.option.collectonly:  # none in the processes
        compile_kernels()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs a GPU where there is none, also under `-m gpu`."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu") is not None:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what multiplies bfloat16 matrices on a CPU that can't."""
    if torch.bfloat16 in getattr(getattr(item, "callspec", None), "params", {}).values():
        from zerogo import tuning
        from zerogo.config import Config
        from zerogo.errors import InputError

        try:
            tuning.pick_dtype("bfloat16", "cpu", Config())
        except InputError as error:
            pytest.skip(str(error))


def look_nowhere(patch: pytest.MonkeyPatch) -> None:
    """Makes every module take the way that it takes on CUDA, where a look by the host waits for the device."""
    for name, module in list(sys.modules.items()):
        if name.startswith("zerogo") and hasattr(module, "host_read_is_free"):
            patch.setattr(module, "host_read_is_free", lambda tensor: False)


@pytest.fixture
def looks_nowhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: look_nowhere(monkeypatch)


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch, looks_nowhere: Callable[[], None]) -> Callable[[], None]:
    """Makes every module take the way that torch takes on CUDA, without kernels."""
    return lambda: monkeypatch.setattr("zerogo.kernels._in_use", False) or looks_nowhere()


@pytest.fixture(params=["interpreted", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Where Triton kernels run; what they are held against is always the CPU's."""
    if (request.param == "cuda") != torch.cuda.is_available():
        pytest.skip("interpreted without a GPU, compiled with one")
    return torch.device("cuda" if request.param == "cuda" else "cpu")
