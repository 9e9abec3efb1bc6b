"""The opening that front ends share, and the command `zerogo`: help without torch, settings in their order, one reading
of a checkpoint."""

import argparse
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tiny
import torch
import torch.distributed.run

from zerogo import checkpoint, cli, kernels
from zerogo.__main__ import COMMANDS, main
from zerogo.config import Config, RunConfig
from zerogo.errors import InputError
from zerogo.system import bounds

ROOT = Path(__file__).parent.parent
HELP = """
import contextlib, io, sys
from zerogo.__main__ import COMMANDS, main
for name in COMMANDS:  # bench needs torch even for its help
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:
        main([name, "--help"])
    text = out.getvalue()
    print(name, text.startswith(f"usage: zerogo {name} "), "examples:" in text, "torch" in sys.modules)
"""


def parsed(words: str) -> argparse.Namespace:
    """Returns the arguments of a front end with all common options."""
    parser = cli.make_parser("test", "A test.", "")
    cli.add_options(parser, *cli.OPTIONS)
    cli.add_overrides(parser)
    return parser.parse_intermixed_args(words.split())


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A run's folder with two checkpoints of an untrained network, the newer of step 2."""
    for step in (1, 2):
        found = tiny.fresh_checkpoint(tiny.config("game.size=3", "run.seed=9"), step)
        checkpoint.save(checkpoint.path_of(tmp_path, step), found)
    return tmp_path


def test_the_command_lists_the_front_ends_and_knows_no_others(capsys) -> None:
    for words in ([], ["--help"]):
        main(words)
        out = capsys.readouterr().out
        assert out.startswith("usage: zerogo {train,selfplay,")
        assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == list(COMMANDS)
    with pytest.raises(SystemExit) as left:
        main(["dance"])
    sentence = f"error: there is no command 'dance'; allowed are {', '.join(COMMANDS)}"
    assert left.value.code == 2 and capsys.readouterr() == ("", f"{sentence}\n")


def test_what_comes_with_the_package_is_in_it_and_is_found_from_anywhere(tmp_path: Path, monkeypatch) -> None:
    globs = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["zerogo"]
    packed = {path.resolve() for glob in globs for path in (ROOT / "zerogo").glob(glob)}
    monkeypatch.chdir(tmp_path)
    for name in ("configs/quickstart.yaml", "configs/9x9.yaml", "checkpoints/7x7.pt"):
        assert bounds.shipped(name).resolve() == ROOT / name and ROOT / name in packed
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "9x9.yaml").touch()
    for name in ("configs/9x9.yaml", "configs/none.yaml", "9x9.yaml", "elsewhere/configs/9x9.yaml"):
        assert bounds.shipped(name) == Path(name), "one's own file comes first"
    assert Path(cli.shipped_network(9)).resolve() == ROOT / "checkpoints" / "9x9.pt"


def test_help_has_examples_and_needs_no_torch() -> None:
    """All in one process, which answers at once."""
    done = subprocess.run((sys.executable, "-c", HELP), capture_output=True, text=True, cwd=ROOT)
    expected = [f"{name} True True {name == 'bench'}" for name in COMMANDS]
    assert done.stdout.splitlines() == expected, done.stdout + done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_for_users(name: str, monkeypatch, capsys) -> None:
    """It names commands as they are typed, quotes no docstring, and its examples are understood."""
    monkeypatch.setattr(bounds, "shipped", lambda path: ROOT)  # their files are there
    monkeypatch.setattr(cli, "run", lambda parse, main: parse())
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out
    assert not re.search(r"python -m zerogo|train\.py|Returns|reads the arguments", text)
    examples = re.findall(r"^  ((?:zerogo|torchrun) .*?)(?=   |  #| && | <|$)", text, re.MULTILINE)
    assert examples
    for words in map(shlex.split, examples):
        if words[0] == "torchrun":  # which would read --run itself, but for the --
            words = ["zerogo", *torch.distributed.run.parse_args(words[1:]).training_script_args]
        main(words[1:])


def test_settings_come_from_the_checkpoint_then_overrides_then_options(network: Path) -> None:
    words = ("mcts:3", str(network), "random")
    without = cli.read_config(parsed(""), ("random", "self", "gnugo:3", "missing"))[0]
    assert without == Config(run=RunConfig(precision="float32"))
    options = "--simulations 3 --seed 4 --device cpu --precision float32 --threads 1"
    config, checkpoints = cli.read_config(parsed(f"{options} game.komi=2.5 run.seed=5"), words)
    run = config.run
    assert (config.game.size, config.game.komi, config.evaluation.simulations) == (3, 2.5, 3)
    assert (run.seed, run.device, run.precision, run.threads) == (4, "cpu", "float32", 1)
    assert [found.step for found in checkpoints.values()] == [2]
    file = network / "mine.yaml"
    file.write_text("game: {size: 6}\n")
    config, checkpoints = cli.read_config(parsed(f"--config {file} --seed 2"), words)
    assert (config.game.size, config.run.seed, checkpoints) == (6, 2, {})


def test_bad_options_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("--simulations 0", "--seed -1", f"--seed {10**400}", "--threads x", "--precision half", "--device"):
        with pytest.raises(SystemExit) as left:
            parsed(words)
        assert left.value.code == 2 and "error: argument --" in capsys.readouterr().err
    wrong = {"game.sise=9": "did you mean game.size", "komi=3": "section.key=value", "--device tpu": "is 'tpu'"}
    for words, sentence in wrong.items():
        with pytest.raises(InputError, match=sentence):
            cli.open_front_end(parsed(words))


def test_a_checkpoint_is_read_once(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the settings, for the analyst and for the player, though it is named by its run's folder."""
    reads, load = [], checkpoint.load
    monkeypatch.setattr(checkpoint, "load", lambda path: reads.append(path) or load(path))
    setup = cli.open_front_end(parsed("--device cpu --precision float32 --simulations 2"), ["random", str(network)])
    analyst, player = setup.analyst(str(network)), setup.player(str(network))
    assert reads == [checkpoint.path_of(network, 2)] and setup.checkpoint(network).step == 2
    assert analyst.name == player.name == "tiny@2" and analyst.simulations == player.simulations == 2
    assert setup.analyst("mcts:7", simulations=5).simulations == 5 and setup.player("random").name == "random"
    assert len(reads) == 1
    for make in (setup.analyst, setup.player, setup.checkpoint):
        with pytest.raises(InputError):
            make("missing")


def test_the_process_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, threads = [], torch.get_num_threads()
    monkeypatch.setattr(kernels, "choose", chosen.append)
    try:
        setup = cli.open_front_end(parsed("--threads 1 --device cpu --precision float32 run.kernels=plain"))
        assert (setup.device, setup.dtype, chosen) == (torch.device("cpu"), torch.float32, ["plain"])
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
