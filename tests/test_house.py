"""The house: imports go down and in no circle, folders keep their budgets of lines, functions are short and say what
they do, ruff is content."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from tables import tables

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "zerogo"
# A module may import from lower layers only. A module of a folder that has a layer of its own is named in full; the
# folder's other modules have the folder's.
LAYER_OF = {name: layer for layer, names in enumerate(tables("house")["layers"]) for name in names}

# Lines that the package may have, at 120 columns; 22,500 is the aim. It rises for a measured gain or a mended defect.
MOST_LINES = 31_849  # for KataGo's networks, for trials of kernels, for faster networks, for what went wrong to be said
MOST_PAGE_LINES = 1300  # of the tab's JavaScript and CSS; a played game is a state machine that needs no browser
MOST_FILES, MOST_TEST_LINES, MOST_LINES_TO_READ = 123, 13_862, 7_000
MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_NINE_IN_TEN = 60, 25
MOST_FILES_AT_THE_TOP = 10
# Words that are no name: they say that there is something, not what. `Readout.parts` is in the names of all weights.
NO_NAMES = set("found given known wanted taken most parts own beside told asked everything".split())

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
SOURCES = sorted([*FILES, *ROOT.glob("*.py"), *(ROOT / "tests").glob("*.py")])


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def num_lines(path: Path) -> int:
    return path.read_text().count("\n")


def name_of(path: Path) -> str:
    """Returns the name by which a file is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in FILES}


def imports_of(path: Path) -> dict[str, int]:
    """Returns the modules of zerogo that a file imports, in functions and TYPE_CHECKING too, with the line."""
    found = {}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name: node.lineno for alias in node.names if alias.name in MODULES}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import; write zerogo.…"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found |= {name: node.lineno for name in (full if full in MODULES else node.module,) if name in MODULES}
    return found


def layer_of(module: str) -> int:
    """Returns the layer of a module by its full name."""
    _, folder, *rest = module.split(".")
    assert folder in LAYER_OF, f"{module} is in no layer; add it to tests/data/tables/house.json"
    return LAYER_OF.get(".".join([folder, *rest]), LAYER_OF[folder])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    layer, here = layer_of(name_of(path)), name_of(path).split(".")[1]
    for name, line in imports_of(path).items():
        if layer_of(name) != layer or name.split(".")[1] != here:
            layers = f"layer {layer} imports {name} of layer {layer_of(name)}"
            assert layer_of(name) < layer, f"{path.name}:{line}: {layers}"


def test_no_circles() -> None:
    """Modules that import only modules without a circle are taken away until none is left."""
    left = {name: set(imports_of(path)) - {name} for name, path in MODULES.items()}
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    assert not left, f"these import each other in a circle, or import such: {sorted(left)}"


PROBE = """
import os, signal, sys, threading, warnings
import torch
def world():
    backends = torch.backends.cudnn.benchmark, torch.get_float32_matmul_precision(), torch.cuda.is_initialized()
    threads = torch.get_num_threads(), torch.get_num_interop_threads(), threading.active_count()
    draws = torch.initial_seed(), torch.get_rng_state().sum().item()
    modes = torch.is_grad_enabled(), torch.is_anomaly_enabled(), torch.get_default_dtype()
    process = dict(os.environ), signal.getsignal(signal.SIGINT), sorted(os.listdir(".")), len(warnings.filters)
    return (*backends, *threads, *draws, *modes, *process)
import importlib
before, file = world(), sys.argv.pop()
for name in sys.argv[1:]:
    importlib.import_module(name)
after = world()
different = [pair for pair in zip(before, after) if pair[0] != pair[1]]
importlib.import_module("zerogo.checkpoint").load(file)
late = {"tensorboard", "torch._dynamo"} & sys.modules.keys()  # imported where they are needed, after seconds
sys.exit(f"imports changed {different} {late}" if different or late else 0)
"""


def test_imports_do_nothing(tmp_path: Path) -> None:
    """Importing every module changes no threads, seeds, files or environment. Loading a network imports little."""
    # Triton sets up caches of its own.
    # The tab's entry is TensorBoard's own door, and imported by nothing else.
    apart = "__main__", "tensorboard_plugin.entry"
    names = [name for name in MODULES if not name.endswith(apart) and "kernels" not in name]
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.dont_write_bytecode = True\n"
    command = (sys.executable, "-c", start + PROBE, *names, str(ROOT / "checkpoints" / "7x7.pt"))
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_package_and_its_tests_stay_small() -> None:
    number = sum(num_lines(path) for path in [*FILES, PACKAGE / "__init__.py"])
    assert number <= MOST_LINES, f"the package has {number} lines; if yours are needed, a maintainer moves MOST_LINES"
    assert sum(map(num_lines, (PACKAGE / "tensorboard_plugin" / "page").iterdir())) <= MOST_PAGE_LINES
    assert len(FILES) + 1 <= MOST_FILES and len(list(PACKAGE.glob("*.py"))) <= MOST_FILES_AT_THE_TOP
    assert sum(num_lines(path) for path in (ROOT / "tests").glob("*.py")) <= MOST_TEST_LINES


def test_what_is_read_in_a_day() -> None:
    """The first table of docs/code.md lists what a newcomer reads, in its first column."""
    table = (ROOT / "docs" / "code.md").read_text().partition("## Reading order")[2].partition("\nAround")[0]
    names = re.findall(r"`(\S+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line))
    files = [path for name in names for path in PACKAGE.glob(f"{name}*.py" if name.endswith("/") else name)]
    assert sum(map(num_lines, files)) <= MOST_LINES_TO_READ and len(files) > len(names) >= 19


@cache
def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]


def test_functions_are_short_and_say_what_they_do() -> None:
    lengths = {(path, node.name): node.end_lineno - node.lineno + 1 for path in SOURCES for node in functions(path)}
    assert not {where: length for where, length in lengths.items() if length > MOST_LINES_OF_A_FUNCTION}
    in_package = sorted(length for (path, _), length in lengths.items() if PACKAGE in path.parents)
    assert in_package[int(0.9 * len(in_package))] <= MOST_LINES_OF_NINE_IN_TEN
    inner = {node for path in FILES for outer in functions(path) for node in ast.walk(outer) if node is not outer}
    public = [(path.name, node) for path in FILES for node in functions(path) if node.name[0] != "_"]
    assert not [f"{name} {node.name}" for name, node in public if not (node in inner or ast.get_docstring(node))]
    assert not [path for path in FILES if not ast.get_docstring(parsed(path))], "modules without a docstring"


def test_variables_are_named_for_what_they_hold() -> None:
    bad = []
    for path in FILES:
        nodes = [node for function in functions(path) for node in ast.walk(function)]
        names = [(node.id, node) for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        names += [(node.arg, node) for node in nodes if isinstance(node, ast.arg)]
        bad += [f"{path.name}:{node.lineno} {name}" for name, node in names if name in NO_NAMES]
    assert not bad


def test_class_names_are_their_own() -> None:
    classes = Counter(node.name for path in FILES for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef))
    assert not [name for name, number in classes.items() if number > 1]


def test_test_files_import_no_test_files() -> None:
    for path in (ROOT / "tests").glob("*.py"):
        for node in ast.walk(parsed(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("test_")], f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("command", ["check", "format --check"])
def test_ruff(command: str) -> None:
    pytest.importorskip("ruff", reason="pip install -e '.[test]' brings ruff")
    words = (sys.executable, "-m", "ruff", *command.split(), "--no-cache", ".")
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
