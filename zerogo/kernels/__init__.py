"""Compiled versions of the hot operations, and the one place that chooses among them.

`cpu/` holds loops over games that Numba compiles, `cuda/` Triton kernels, one program a game. Both have modules of the
same names with functions of the same arguments and results; a few the CPU alone has (`board.replace_`). The torch
operations that they stand in for run on any device, do the same, and are what the tests hold the kernels against. Where
the compiler is missing, or does not work, they do the work alone, and that of modules that compute wrongly on a
machine (`refuse`). Tactics and ladders have no torch version: `cpu_loops` gives the CPU's for all devices."""

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

# The modules without a torch version, by what the names of the encoders' groups hold that need them.
READERS = {"ladders": "ladder", "tactics": "liberties|capture_size|captures|self_atari|connects|weakest|ko_takes"}
OPTIONAL = ("playouts", *READERS)  # which many programs don't need
COMMON = ("board", "tree", "leaf_states", "planes", "scoring", *OPTIONAL)
NAMES = {"cpu": COMMON, "cuda": (*COMMON, "draws", "roots", "epilogues")}  # the modules of each kind of device
NOTHING = "", ""  # a module that does not exist, see `only`
ALL = {*NAMES["cpu"], *NAMES["cuda"]}
COMPILERS = {"cpu": "numba", "cuda": "triton"}  # by kind of device
KEPT_FOLDERS = 4  # of compiled kernels in one place: one for each version of zerogo that is used there
OLDEST = (7, 5)  # the least compute capability that Triton compiles for
PACKAGE = Path(__file__).parents[1]
_only: tuple[str, str] | None = None  # see `only`
_refused: dict[str, dict[str, str]] = {kind: {} for kind in COMPILERS}  # why, by kind of device and module
untried: dict[str, dict[int, Callable[[], object]]] = {}  # what tries a module before its first use, by side of boards
_trying = threading.RLock()


def module_for(name: str, device: torch.device) -> ModuleType | None:
    """Returns the kernels `name` ("board", "tree", …) for a device, None where there are none or none are wanted."""
    if _only is not None:
        return _module(*_only) if name == _only[0] else None
    try_first(name)
    return _module(name, device.type) if name not in _refused.get(device.type, ()) else None


def try_first(name: str) -> None:
    """Tries a module unless that was done, lest it be tried in the middle of a game; other threads wait meanwhile."""
    if name in untried and _only is None:
        with _trying:
            for attempt in untried.get(name, {}).values():
                attempt()
            untried.pop(name, None)


def readers_of(groups: Iterable[str]) -> set[str]:
    """Returns which of `READERS` groups of an encoder need, and tries them first."""
    names = {name for name, words in READERS.items() if re.search(words, " ".join(groups))}
    for name in names:
        try_first(name)
    return names


def are_in_use(kind: str) -> bool:
    """Says whether a kind of device has kernels here, and they are wanted."""
    return _only is None and kind in COMPILERS and _obstacle(kind) is None


def refuse(kind: str, name: str, why: str) -> bool:
    """Leaves the work of a module to torch from now on, and returns whether that is new; why: a sentence without its
    subject. The CPU's tactics and ladders run as Python then, for which all of the CPU's kernels are given up."""
    if name in _refused[kind]:
        return False
    _refused[kind][name] = why
    if kind == "cpu" and name in READERS:
        for module in [module for module in sys.modules if module.startswith(f"{__name__}.cpu")]:
            del sys.modules[module]
        for function in (_module, _obstacle):
            function.cache_clear()
    return True


def cpu_loops(name: str) -> ModuleType:
    """Returns the CPU's kernels `name` ("ladders" or "tactics"), which have no torch version, for devices without
    kernels of their own; without Numba they are loops in Python."""
    try_first(name)
    return importlib.import_module(f"zerogo.kernels.cpu.{name}")


@cache
def _module(name: str, kind: str) -> ModuleType | None:
    if kind not in COMPILERS or _obstacle(kind) is not None:
        return None
    full_name = f"zerogo.kernels.{kind}.{name}"
    return importlib.import_module(full_name) if importlib.util.find_spec(full_name) is not None else None


@cache
def _obstacle(kind: str) -> str | None:
    """Returns why a kind of device has no kernels, None where it has them. Warns where the compiler does not work."""
    compiler = COMPILERS[kind]
    if kind == "cpu" and (name := next((name for name in READERS if name in _refused[kind]), None)):
        return f"as the kernel {name} by {compiler} {_refused[kind][name]}"
    if importlib.util.find_spec(compiler) is None:
        return f"without {compiler}"
    try:
        importlib.import_module(compiler)
        if kind == "cuda" and torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
            _try_triton()
    except Exception as error:  # a broken installation may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        obstacle = f"as {compiler} does not work here: {reason}"
        warnings.warn(f"torch replaces the compiled kernels, {obstacle}", stacklevel=2)
        return obstacle
    return None


def _try_triton() -> None:
    """Raises what a launch on the current CUDA device would: Triton's driver needs a C compiler and a new GPU."""
    import triton

    triton.runtime.driver.active.get_current_target()
    capability = torch.cuda.get_device_capability()
    if capability < OLDEST:
        actual, needed = (".".join(map(str, version)) for version in (capability, OLDEST))
        raise RuntimeError(f"the GPU has compute capability {actual}, and Triton needs {needed} or more")


def choose(kernels: str) -> None:
    """Leaves everything in this process to torch where run.kernels is "plain"; "auto" changes nothing."""
    global _only
    _only = NOTHING if kernels == "plain" else _only


def in_use(device: torch.device) -> str:
    """Returns for a person what does the work of kernels on a device."""
    compiler = COMPILERS.get(device.type)
    if _only is not None or compiler is None:
        return "torch alone"
    obstacle, refused = _obstacle(device.type), _refused[device.type]
    if obstacle is not None:
        return f"torch alone, {obstacle}"
    return f"kernels by {compiler}" + (f" but for {', '.join(refused)}, by torch" if refused else "")


def plain() -> AbstractContextManager[None]:
    """Leaves everything to torch inside a `with` block: the oracle of the kernels, and what runs without a compiler."""
    return only(*NOTHING)


@contextmanager
def only(name: str, kind: str) -> Iterator[None]:
    """Leaves everything to torch inside a `with` block but for one module's kernels, those for a kind of device, on
    whatever device the tensors are."""
    global _only
    before, _only = _only, (name, kind)
    try:
        yield
    finally:
        _only = before


def source_digest(kind: str, package: Path = PACKAGE) -> str:
    """Returns a word that changes with the sources of the kernels for a kind of device, those of the constants that
    they are compiled with among them."""
    patterns = "kernels/*.py", f"kernels/{kind}/*.py", "rules/__init__.py"
    sources = [path for pattern in patterns for path in sorted(package.glob(pattern))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Makes and returns the folder of the CPU's compiled kernels and of what was measured on this machine: beside the
    sources, or where those can't be written in the user's cache or among temporary files, or in the one that
    NUMBA_CACHE_DIR names; None where nothing can be written. It is named after the sources. Of those of other sources,
    which another installed version may use, the ones used last stay (`KEPT_FOLDERS`)."""
    named_folder, digest = os.environ.get("NUMBA_CACHE_DIR"), source_digest("cpu")
    usual = [PACKAGE / "kernels" / "cpu" / "__pycache__"]
    with contextlib.suppress(RuntimeError):  # a user without a home
        usual.append(Path("~/.cache/zerogo").expanduser())
    # Numba's files are code, so nobody else may have made the folder among temporary files.
    usual.append(Path(tempfile.gettempdir(), f"zerogo-{os.getuid()}"))
    for home in [Path(named_folder)] if named_folder else usual:
        folder = home / f"zerogo-kernels-{digest}"
        is_new = not folder.exists()
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            if home == usual[-1] and (home.stat().st_uid != os.getuid() or home.stat().st_mode & 0o022):
                continue
            folder.mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
            os.utime(folder)
        except OSError:
            continue
        with contextlib.suppress(FileNotFoundError):  # another process removes them, too
            others = set(home.glob("zerogo-kernels-" + "[0-9a-f]" * len(digest))) - {folder}
            for other in sorted(others, key=os.path.getmtime)[: 1 - KEPT_FOLDERS]:
                shutil.rmtree(other, ignore_errors=True)
        if is_new:
            print("Compiling CPU kernels (first run only, about 30 s)", file=sys.stderr)
        return folder
    return None
