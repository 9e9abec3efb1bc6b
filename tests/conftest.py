"""Settings of every test process: one thread, as several fight for the cores of a small machine, and Triton's
interpreter without a GPU."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

# Before torch is imported, which reads them once.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
SEED = int(os.environ.get("TEST_SEED", "0"))  # another number: other draws
# A user's settings of progress bars, of the network's arithmetic, of repositories, of ranks, and Pachi's folder.
OTHERS = "TQDM_", "DNNL_", "ONEDNN_", "GIT_", "WORLD_", "RANK", "LOCAL_", "TORCHELASTIC_", "ZEROGO_", "DATA_DIR"
for name in [name for name in os.environ if name.startswith(OTHERS)]:
    del os.environ[name]

import pytest
import torch

torch.set_num_threads(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else the programs that tests interrupt would ignore it

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # must be set before the first `import triton`


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the CPU's kernels, which Numba keeps on disk, before xdist starts processes, each of which would compile
    them: half a minute, once for their sources."""
    if getattr(config.option, "numprocesses", None) and not config.option.collectonly:  # none in the processes
        from zerogo import tuning

        tuning.prove_kernels(torch.device("cpu"), tuning.CPU_SIZE)


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


def pytest_fixture_setup(fixturedef: pytest.FixtureDef) -> None:
    """Draws the same numbers for a fixture whatever ran before: xdist deals the tests out as others end."""
    torch.manual_seed(SEED + sum(fixturedef.argname.encode()))


def pytest_runtest_call(item: pytest.Item) -> None:
    """Draws the same numbers for a test whatever ran before."""
    torch.manual_seed(SEED + sum(item.nodeid.encode()))


@pytest.fixture
def use() -> Iterator[Callable[[str], None]]:
    """Chooses the implementation (see `implementations.doing`) that does the work of the rest of a test."""
    from implementations import doing

    with ExitStack() as stack:
        yield lambda way: stack.enter_context(doing(way))
