"""Compiled versions of the hot operations, and the one place that selects them.

`cpu/` has loops over games, compiled by Numba, `cuda/` has Triton kernels, one program per game. Both have the same
kernels by name, in files of the same names, and functions with the same arguments and results; a few exist only for the
CPU (`board.replace_`). The torch operations that they replace run on any device and are the reference in the tests.
Torch takes over if the compiler is missing or broken, and for kernels that compute wrongly on a machine (`refuse`).
Tactics and ladders have no torch version: `cpu_loops` gives the CPU's for all devices."""

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from zerogo.errors import one_line

# The kernels without a torch version, by a pattern for the names of the groups that need them.
READERS = {"ladders": "ladder", "tactics": "liberties|capture_size|captures|self_atari|connects|weakest|ko_takes"}
COMMON = ("board", "tree", "leaf_states", "scoring", "planes", *READERS, "playouts")
OPTIONAL = (*READERS, "playouts", "winograd", "norms")  # that many programs do not need
# The kernels by device type. In this order two processes that take them in turn finish compiling together.
NAMES = {"cpu": (*COMMON, "winograd", "norms"), "cuda": (*COMMON, "draws", "roots", "epilogues")}
# Kernels whose file has another name.
FILES = {"leaf_states": "board", "tactics": "planes", "epilogues": "planes", "playouts": "scoring", "draws": "rows"}
NOTHING = "", ""  # kernels that do not exist, see `only`
ALL = {*NAMES["cpu"], *NAMES["cuda"]}
COMPILERS = {"cpu": "numba", "cuda": "triton"}  # by kind of device
KEPT_FOLDERS = 4  # of compiled kernels in one place, one per version of zerogo
OLDEST = (7, 5)  # the lowest compute capability for which Triton compiles
PACKAGE = Path(__file__).parents[1]
_only: tuple[str, str] | None = None  # see `only`
refused: dict[str, dict[str, str]] = {kind: {} for kind in COMPILERS}  # the reasons, by device type and name
untried: dict[str, dict[int, Callable[[], object]]] = {}  # trials of kernels before their first use, by side of boards
_trying = threading.RLock()


def module_for(name: str, device: torch.device) -> ModuleType | None:
    """Returns the module with the kernels `name` ("board", "tree", …) for a device, None if there are none or none are
    wanted."""
    if _only is not None:
        return _module(*_only) if name == _only[0] else None
    try_first(name)
    return _module(name, device.type) if name not in refused.get(device.type, ()) else None


def try_first(name: str) -> None:
    """Tries kernels now, unless they were tried, and not in the middle of a game; other threads wait meanwhile."""
    if name in untried and _only is None:
        with _trying:
            for attempt in untried.get(name, {}).values():
                attempt()
            untried.pop(name, None)


def readers_of(groups: Iterable[str]) -> set[str]:
    """Returns which of `READERS` an encoder's groups need, and tries them."""
    names = {name for name, words in READERS.items() if re.search(words, " ".join(groups))}
    for name in names:
        try_first(name)
    return names


def are_in_use(kind: str) -> bool:
    """Returns whether a device type has kernels here, and they are wanted."""
    return _only is None and kind in COMPILERS and _obstacle(kind) is None


def refuse(kind: str, name: str, why: str) -> bool:
    """Replaces kernels by torch from now on, and returns whether that is new. why: a sentence without its subject. The
    CPU's tactics and ladders then run as Python, which disables all of the CPU's kernels."""
    if name in refused[kind]:
        return False
    refused[kind][name] = why
    if kind == "cpu" and name in READERS:
        for module in [module for module in sys.modules if module.startswith(f"{__name__}.cpu")]:
            del sys.modules[module]
        for function in (_module, _obstacle):
            function.cache_clear()
    return True


def cpu_loops(name: str) -> ModuleType:
    """Returns the module with the CPU's kernels `name` ("ladders" or "tactics"), which have no torch version, for
    devices without kernels. Without Numba they are Python loops."""
    try_first(name)
    return _import("cpu", name)


def _import(kind: str, name: str) -> ModuleType:
    return importlib.import_module(f"zerogo.kernels.{kind}.{FILES.get(name, name)}")


@cache
def _module(name: str, kind: str) -> ModuleType | None:
    is_there = name in NAMES.get(kind, ()) and _obstacle(kind) is None
    return _import(kind, name) if is_there else None


@cache
def _obstacle(kind: str) -> str | None:
    """Returns why a device type has no kernels, None if it has them. Warns if the compiler does not work."""
    compiler = COMPILERS[kind]
    if kind == "cpu" and (name := next((name for name in READERS if name in refused[kind]), None)):
        return f"as the kernel {name} by {compiler} {refused[kind][name]}"
    if importlib.util.find_spec(compiler) is None:
        return f"as {compiler} is not installed"
    try:
        importlib.import_module(compiler)
        if kind == "cuda" and torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
            _try_triton()
    except Exception as error:  # a broken installation may raise anything
        obstacle = f"as {compiler} does not work here: {one_line(error)}"
        warnings.warn(f"torch replaces the compiled kernels, {obstacle}", stacklevel=2)
        return obstacle
    return None


def _try_triton() -> None:
    """Raises the error of a launch on the current CUDA device, if any: Triton needs a C compiler and a recent GPU."""
    import triton

    triton.runtime.driver.active.get_current_target()
    capability = torch.cuda.get_device_capability()
    if capability < OLDEST:
        actual, needed = (".".join(map(str, version)) for version in (capability, OLDEST))
        raise RuntimeError(f"the GPU has compute capability {actual}, and Triton needs {needed} or more")


def choose(kernels: str) -> None:
    """Disables all kernels in this process if run.kernels is "plain"; "auto" changes nothing."""
    global _only
    _only = NOTHING if kernels == "plain" else _only


def in_use(device: torch.device) -> str:
    """Returns in words what runs the kernels' operations on a device."""
    compiler = COMPILERS.get(device.type)
    if _only is not None or compiler is None:
        return "torch alone"
    obstacle, replaced = _obstacle(device.type), refused[device.type]
    if obstacle is not None:
        return f"torch alone, {obstacle}"
    return f"kernels by {compiler}" + (f", except {', '.join(replaced)} (torch)" if replaced else "")


def plain() -> AbstractContextManager[None]:
    """Disables all kernels inside a `with` block, to get the torch reference."""
    return only(*NOTHING)


@contextmanager
def only(name: str, kind: str) -> Iterator[None]:
    """Disables all kernels inside a `with` block except those of one name for a device type, regardless of the tensors'
    device."""
    global _only
    before, _only = _only, (name, kind)
    try:
        yield
    finally:
        _only = before


def source_digest(kind: str, package: Path = PACKAGE) -> str:
    """Returns a hash of the sources of the kernels for a device type, compiled-in constants included."""
    patterns = "kernels/*.py", f"kernels/{kind}/*.py", "rules/__init__.py"
    sources = [path for pattern in patterns for path in sorted(package.glob(pattern))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Makes and returns the folder for the CPU's compiled kernels and this machine's measurements: in NUMBA_CACHE_DIR
    if set, else next to the sources, in the user's cache, or among temporary files, whichever can be written; None if
    none can. Its name depends on the sources. Of the folders of other versions, which may still be in use, the last
    `KEPT_FOLDERS` used ones stay."""
    named_folder, digest = os.environ.get("NUMBA_CACHE_DIR"), source_digest("cpu")
    usual = [PACKAGE / "kernels" / "cpu" / "__pycache__"]
    with contextlib.suppress(RuntimeError):  # a user without a home
        usual.append(Path("~/.cache/zerogo").expanduser())
    # Numba's files are code, so a folder among temporary files must not be another user's.
    usual.append(Path(tempfile.gettempdir(), f"zerogo-{os.getuid()}"))
    for home in [Path(named_folder)] if named_folder else usual:
        folder = home / f"zerogo-kernels-{digest}"
        try:
            is_new = not folder.exists()  # raises an error where another user's folder may not be entered
            home.mkdir(mode=0o700 if home == usual[-1] else 0o777, parents=True, exist_ok=True)
            if home == usual[-1] and (home.stat().st_uid != os.getuid() or home.stat().st_mode & 0o022):
                continue
            folder.mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
            os.utime(folder)
        except OSError:
            continue
        with contextlib.suppress(FileNotFoundError):  # another process may remove them, too
            others = set(home.glob("zerogo-kernels-" + "[0-9a-f]" * len(digest))) - {folder}
            for other in sorted(others, key=os.path.getmtime)[: 1 - KEPT_FOLDERS]:
                shutil.rmtree(other, ignore_errors=True)
        if is_new:
            print("Compiling CPU kernels (first run only, 30 s to 2 min)", file=sys.stderr)
        return folder
    return None
