"""Which compiler does the work of the kernels, and what is said where it can't: then torch does it alone, without a
traceback. How Numba's run: on several threads, interrupted, and kept on disk; and rows of many tensors at once, as
torch writes them."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from implementations import NUMBA
from torch import Tensor

from zerogo import kernels
from zerogo.kernels import copies

HAS_NUMBA = importlib.util.find_spec("numba") is not None
loops = importlib.import_module("zerogo.kernels.cpu") if HAS_NUMBA else None
needs_numba = pytest.mark.skipif(not HAS_NUMBA, reason="no numba")
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets what is known of the compilers, for a test."""
    monkeypatch.setattr(kernels, "_only", None)
    for function in (kernels._obstacle, kernels._module):
        monkeypatch.setattr(kernels, function.__name__, cache(function.__wrapped__))


def pretend(monkeypatch, capability: tuple[int, int] = (9, 0), error: Exception | None = None) -> list[str]:
    """Puts a GPU of that capability into the machine, and a Triton whose driver may fail; returns its probes."""
    probes: list[str] = []

    def get_current_target() -> None:
        probes.append("driver")
        if error is not None:
            raise error

    triton = ModuleType("triton")
    active = SimpleNamespace(get_current_target=get_current_target)
    triton.runtime = SimpleNamespace(driver=SimpleNamespace(active=active))
    triton.__spec__ = importlib.util.spec_from_loader("triton", loader=None)
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    return probes


TROUBLE = {  # a GPU's compute capability, what Triton's driver raises, and what is said
    "no C compiler": ((9, 0), RuntimeError("Failed to find.\n Set CC."), "Failed to find. Set CC."),
    "an old GPU": ((7, 0), None, "the GPU has compute capability 7.0, and Triton needs 7.5 or more"),
    "without a word": ((9, 0), AssertionError(), "AssertionError"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_where_triton_fails_torch_works_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *pretended, reason = TROUBLE[name]
    probes, why = pretend(monkeypatch, *pretended), f"as triton does not work here: {reason}"
    with pytest.warns(UserWarning) as said:
        assert kernels.module_for("board", CUDA) is None and kernels.module_for("tree", CUDA) is None
        assert kernels.in_use(CUDA) == f"torch alone, {why}"
    assert [str(one.message) for one in said] == [f"torch replaces the compiled kernels, {why}"]
    assert probes == ["driver"]


def test_triton_is_tried_once_and_only_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = pretend(monkeypatch)
    with kernels.plain():
        assert kernels.module_for("board", CUDA) is None and kernels.in_use(CUDA) == "torch alone" and not probes
    assert kernels._obstacle("cuda") is None and kernels.in_use(CUDA) == "kernels by triton" and probes == ["driver"]
    for change in ((torch.cuda, "is_available", lambda: False), (os, "environ", {"TRITON_INTERPRET": "1"})):
        kernels._obstacle.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(*change)
            assert kernels._obstacle("cuda") is None and probes == ["driver"]


def test_a_broken_numba_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> ModuleType:
        raise ImportError("Numba needs NumPy 2.4 or less")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib, "import_module", fails)
    why = "as numba does not work here: Numba needs NumPy 2.4 or less"
    with pytest.warns(UserWarning, match=f"torch replaces the compiled kernels, {why}") as said:
        assert kernels.module_for("board", CPU) is None and kernels.module_for("tree", CPU) is None
    assert len(said) == 1 and kernels.in_use(CPU) == f"torch alone, {why}"


def test_a_missing_compiler_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            kernels.module_for("board", CPU) is None and kernels.in_use(CPU) == "torch alone, as numba is not installed"
        )


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@needs_numba
def test_every_game_is_visited_once(two_threads: None) -> None:
    for num_games in (0, 1, 2 * loops.FEWEST, 5 * loops.FEWEST + 3):
        visits = torch.zeros(num_games, dtype=torch.int64)

        def loop(first: int, last: int, visits: torch.Tensor = visits) -> None:
            visits[first:last] += 1

        loops.over_games(loop, num_games)
        assert visits.tolist() == [1] * num_games


@needs_numba
def test_an_error_on_any_thread_is_raised(two_threads: None) -> None:
    def loop(first: int, last: int, at: int) -> None:
        if first == at:
            raise IndexError("beyond")

    for at in (0, loops.FEWEST):
        with pytest.raises(IndexError, match="beyond"):
            loops.over_games(loop, 2 * loops.FEWEST, at)


@needs_numba
def test_compiled_kernels_are_kept_where_one_may_write(tmp_path: Path) -> None:
    """In the folder that NUMBA_CACHE_DIR names; without any such folder kernels work all the same. Other versions of
    zerogo have their folders there, too: those that were used last stay. (Whether a name that is too long exists can't
    be asked, like that of a folder that may not be entered.)"""
    others = [tmp_path / f"zerogo-kernels-{number:016x}" for number in range(kernels.KEPT_FOLDERS + 1)]
    for seconds, folder in enumerate([tmp_path / "zerogo-kernels-of-mine", *others]):
        folder.mkdir()
        os.utime(folder, (seconds, seconds))
    lines = ["import os", "from zerogo import kernels", "from zerogo.kernels import cpu"]
    shown = "print(kernels.cache_folder(), cpu.kernel(lambda x: x + 1)(1))"
    lines += [shown, "os.environ['NUMBA_CACHE_DIR'] = 300 * 'x'", "kernels.cache_folder.cache_clear()", shown]
    (script := tmp_path / "script.py").write_text("\n".join(lines))
    settings = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run((sys.executable, str(script)), env=settings, capture_output=True, text=True)
    folder, *others_shown = done.stdout.split()
    assert folder.startswith(str(tmp_path / "zerogo-kernels-")) and others_shown == ["2", "None", "2"], done.stderr
    assert not any(folder.exists() for folder in others[:2]) and all(folder.exists() for folder in others[2:])
    assert (tmp_path / "zerogo-kernels-of-mine").exists()


@needs_numba
def test_compiled_kernels_follow_all_that_they_are_made_of(tmp_path: Path) -> None:
    """A constant of any module that a kernel imports, such as `keys.MIX_1`, is part of the compiled code."""
    copy = shutil.copytree(kernels.PACKAGE, tmp_path / "zerogo", ignore=shutil.ignore_patterns("__pycache__", "page"))
    imported = set()
    for path in (copy / "kernels" / "cpu").glob("*.py"):
        for module, names in re.findall(r"^from (zerogo\S*) import (.*)", path.read_text(), re.MULTILINE):
            imported |= {module, *(f"{module}.{name}" for name in names.split(", "))}
    named = [tmp_path / name.replace(".", "/") for name in imported - {"zerogo"}]
    files = [file for name in named for file in (name.with_suffix(".py"), name / "__init__.py") if file.is_file()]
    assert {"shared.py", "strings.py"} <= {file.name for file in files}
    digests = {kernels.source_digest("cpu", copy)}
    for number, file in enumerate(files, start=2):
        file.write_text(file.read_text() + "\nCONSTANT = 1\n")
        digests.add(kernels.source_digest("cpu", copy))
        assert len(digests) == number, file


EACH = pytest.mark.parametrize("way", ["plain", NUMBA])


def rows_of_all_types(number: int) -> list[Tensor]:
    """Returns tensors of all types and widths, one wider than a block, one with gaps between its rows."""
    torch.manual_seed(number)
    wide, apart = torch.randint(-9, 9, (number, 1500), dtype=torch.int16), torch.rand(number, 6, 2)[:, :4]
    narrow = torch.rand(number) < 0.5, torch.rand(number), torch.rand(number, 0, 3)
    return [*narrow, torch.randint(-(2**62), 2**62, (number, 3)), wide, apart]


@EACH
@pytest.mark.parametrize("places", [[4, 0, 7], [5], []])
def test_rows_are_put_where_they_belong(places: list[int], way: str, use: Callable) -> None:
    use(way)
    index, new = torch.tensor(places, dtype=torch.int64), rows_of_all_types(len(places))
    wanted, found = rows_of_all_types(8), rows_of_all_types(8)
    whole = [part.contiguous() for part in wanted]
    for to, source in zip(wanted, new, strict=True):
        to[index] = source
    copies.put_(found, index, new)
    copies.put_from_host_(whole, index, new)
    for some in (found, whole):
        assert all(torch.equal(one, other) for one, other in zip(some, wanted, strict=True))
