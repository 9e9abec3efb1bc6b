"""The three scripts' command lines: help that answers at once, settings that reach the package, one sentence for what is wrong."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest

from zerogo import checkpoint
from zerogo.config import Config, load, with_overrides
from zerogo.errors import InputError

ROOT = Path(__file__).parent.parent
SCRIPTS = ("train", "selfplay", "evaluate")


def script(name: str) -> types.ModuleType:
    """Returns a script of the root as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    """Runs a script as a person would."""
    return subprocess.run((sys.executable, str(ROOT / f"{name}.py"), *arguments), capture_output=True, text=True, cwd=cwd)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_needs_no_torch(name: str) -> None:
    probe = f"import runpy, sys; sys.argv = ['{name}.py', '--help']\ntry: runpy.run_path('{name}.py', run_name='__main__')\n"
    probe += "except SystemExit: print('torch' in sys.modules)"
    done = subprocess.run((sys.executable, "-c", probe), capture_output=True, text=True, cwd=ROOT)
    assert "examples:" in done.stdout and done.stdout.endswith("False\n"), done.stderr


def test_keys() -> None:
    done = run("train", "--keys")
    assert done.returncode == 0 and "search.c_puct = 1.1" in done.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("train", ["--config", "none.yaml"], "error: cannot read the config none.yaml: No such file or directory"),
        ("train", ["game.sise=9"], "error: override 'game.sise=9': unknown key game.sise; did you mean game.size?"),
        ("train", ["--run", "../a"], "error: override 'run.name=../a': run.name is '../a'; it must be a plain folder name"),
    ],
)
def test_what_is_wrong_is_said(name: str, arguments: list[str], sentence: str, tmp_path: Path) -> None:
    done = run(name, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(sentence) and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def train_config(*arguments: str) -> Config:
    """Returns the config that train.py would run with."""
    module = script("train")
    return module.read_config(module.parse(list(arguments)))


def test_train_reads_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert train_config() == load(ROOT / "configs" / "quickstart.yaml")
    (tmp_path / "mine.yaml").write_text("game: {size: 6}\n")
    config = train_config("game.komi=4", "--config", "mine.yaml", "search.c_puct=2")
    assert (config.run.name, config.game.size, config.game.komi, config.search.c_puct) == ("mine", 6, 4.0, 2.0)
    assert train_config("--config", "mine.yaml", "--run", "other").run.name == "other"


def test_train_resumes_under_the_run_s_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "checkpoints" / "mine"
    folder.mkdir(parents=True)
    with_overrides(Config(), ["game.size=6", "run.directory=/elsewhere", "run.name=old"]).dump(folder / "config.yaml")
    config = train_config("--resume", "--run", "mine", "pipeline.minutes=5")
    assert (config.game.size, config.pipeline.minutes, config.run.directory, config.run.name) == (6, 5.0, "checkpoints", "mine")
    assert train_config("--run", "mine").game.size == 5  # without --resume: the quick start's


def test_evaluate_tells_players_and_settings_apart() -> None:
    module = script("evaluate")
    parsed = module.parse(["a/b=c.pt", "game.size=5", "--games", "10", "mcts:200", "game.komi=24.5"])
    assert parsed.players == ["a/b=c.pt", "mcts:200"] and parsed.overrides == ["game.size=5", "game.komi=24.5"]
    with pytest.raises(SystemExit):
        module.parse(["random", "game.size=5"])


def test_evaluate_takes_the_rules_of_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("evaluate")
    monkeypatch.setattr(checkpoint, "load", lambda path: types.SimpleNamespace(config=with_overrides(Config(), ["game.size=6"])))
    (tmp_path / "a.pt").write_bytes(b"")
    config = module.read_config(module.parse(["random", str(tmp_path / "a.pt"), "--simulations", "9", "--seed", "4"]))
    assert (config.game.size, config.evaluation.simulations, config.run.seed) == (6, 9, 4)
    assert module.read_config(module.parse(["random", "random"])) == Config()
    with pytest.raises(InputError, match="evaluation.simulations is 0"):
        module.read_config(module.parse(["random", "random", "--simulations", "0"]))
