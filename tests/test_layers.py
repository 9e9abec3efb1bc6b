"""The order of the modules: imports go only to lower layers and do nothing; functions and modules stay short; ruff
finds nothing.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "zerogo"
# A module may import from lower layers only. errors, which holds nothing but an exception, lies beneath the table.
LAYERS = {
    -1: ["errors", "tensors"],
    0: ["rules", "runtime", "coords", "elo", "telemetry", "draws", "batching"],
    1: ["config", "symmetry", "flood", "rulesets", "kernels"],
    2: ["game", "board", "scoring"],
    3: ["features", "network", "replay", "sgf", "picture"],
    4: ["evaluator", "search", "checkpoint"],
    5: ["players"],
    6: ["selfplay", "trainer", "arena", "gtp", "analysis", "play", "show"],
    7: ["pipeline"],
    8: ["bench"],
}
LAYER_OF = {name: layer for layer, names in LAYERS.items() for name in names}
# Sideways imports that are allowed, (importer, imported), each with its reason.
SIDEWAYS: set[tuple[str, str]] = {("flood", "kernels")}  # a flood is what kernels do best, and they know nothing of it
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
SOURCES = sorted([*FILES, *ROOT.glob("*.py"), *(ROOT / "tests").glob("*.py")])
MOST_LINES_OF_A_FUNCTION = 60


def module_of(path: Path) -> str:
    """Returns the module's first name under zerogo: "board" for zerogo/board.py and for zerogo/board/step.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_modules(path: Path) -> list[tuple[str, int]]:
    """Returns the modules of zerogo that a file imports anywhere, functions included, with the line."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found += [
                (alias.name.split(".")[1], node.lineno) for alias in node.names if alias.name.startswith("zerogo.")
            ]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import; write zerogo.…"
            if node.module == "zerogo":
                found += [(alias.name, node.lineno) for alias in node.names if alias.name != "__version__"]
            elif (node.module or "").startswith("zerogo."):
                found.append((node.module.split(".")[1], node.lineno))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    name = module_of(path)
    assert name in LAYER_OF, f"zerogo.{name} is in no layer; add it to DESIGN's table and to this test"
    for other, line in imported_modules(path):
        if other == name or (name, other) in SIDEWAYS:
            continue
        assert other in LAYER_OF, f"{path.name}:{line} imports zerogo.{other}, which is in no layer"
        layers = f"layer {LAYER_OF[name]} imports zerogo.{other} of layer {LAYER_OF[other]}"
        assert LAYER_OF[other] < LAYER_OF[name], f"{path.name}:{line}: {layers}"


PROBE = """
import os, signal, sys, threading, warnings
import torch
def world():
    return (torch.get_num_threads(), torch.get_num_interop_threads(), torch.is_grad_enabled(), torch.is_anomaly_enabled(),
            torch.get_default_dtype(), torch.initial_seed(), torch.get_rng_state().sum().item(), torch.backends.cudnn.benchmark,
            torch.get_float32_matmul_precision(), torch.cuda.is_initialized(), threading.active_count(), dict(os.environ),
            signal.getsignal(signal.SIGINT), sorted(os.listdir(".")), len(warnings.filters))
import importlib
before = world()
for name in sys.argv[1:]:
    importlib.import_module(name)
after = world()
different = [pair for pair in zip(before, after) if pair[0] != pair[1]]
sys.exit(f"imports changed {different}" if different else 0)
"""


def test_imports_do_nothing(tmp_path: Path) -> None:
    """A process that imports every module has the threads, seeds, files and environment that it had before."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES]
    names = [
        name for name in names if not name.endswith("__main__") and "kernels" not in name
    ]  # Triton sets up caches of its own
    command = (
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.dont_write_bytecode = True\n{PROBE}",
        *names,
    )
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes(path: Path) -> None:
    lines = path.read_text().splitlines()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            assert length <= MOST_LINES_OF_A_FUNCTION, f"{path.name}:{node.lineno}: {node.name} has {length} lines"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_lint() -> None:
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff is not installed; pip install -e '.[test]' brings it")
    done = subprocess.run(
        (sys.executable, "-m", "ruff", "check", "--no-cache", "."), capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
