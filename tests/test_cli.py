"""The command `zerogo`: help without torch, settings in their order, one reading of a checkpoint; `train`, `selfplay`
and `evaluate` on the smallest config; one sentence for what is wrong."""

import argparse
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tiny
import torch
import torch.distributed.run
from tables import tables

from zerogo import __main__ as commands
from zerogo import __version__, checkpoint, cli, kernels, sgf
from zerogo.__main__ import COMMANDS, main
from zerogo.config import Config, RunConfig, load
from zerogo.errors import InputError
from zerogo.replay import Samples
from zerogo.replay.shards import find_shards, load_shard
from zerogo.system import bounds, runtime

ROOT, TABLES = Path(__file__).parent.parent, tables("commands")
HELP = """
import contextlib, io, sys
from zerogo.__main__ import main
for name in sys.argv[1:]:
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
    main(["--version"])
    assert capsys.readouterr().out == f"zerogo {__version__}\n"
    sentence = f"error: there is no command 'dance'; allowed are {', '.join(COMMANDS)}"
    assert status(["dance"]) == 2 and capsys.readouterr() == ("", f"{sentence}\n")


def test_what_every_command_does_first(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("OMP_PLACES", "cores")
    monkeypatch.setattr(runtime, "script_main", lambda main: main())
    cli.run(lambda: "words", lambda words: print(words, os.environ.get("OMP_PLACES")))
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit):
        cli.run(lambda: None, print)
    assert capsys.readouterr() == ("words None\n", "error: zerogo runs on Linux and macOS; on Windows, use WSL\n")


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
    """All in one process, which answers at once; bench needs torch."""
    names = [name for name in COMMANDS if name != "bench"]
    done = subprocess.run((sys.executable, "-c", HELP, *names), capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines() == [f"{name} True True False" for name in names], done.stdout + done.stderr


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


def status(words: list[str]) -> int:
    """Runs `zerogo` with these words and returns its exit status."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


@pytest.mark.parametrize("name", ["train", "selfplay", "evaluate"])
def test_the_scripts_at_the_root_are_the_commands(name: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(ROOT / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.startswith(f"usage: zerogo {name} ")


def test_keys(capsys) -> None:
    assert status(["train", "--keys"]) == 0 and "search.c_puct = 1.1" in capsys.readouterr().out
    assert status(["train", "--keys", "--markdown"]) == 0
    page = (ROOT / "docs" / "settings.md").read_text()
    assert capsys.readouterr().out == page, "zerogo train --keys --markdown > docs/settings.md"


def train_config(*arguments: str) -> Config:
    """Returns the config that `zerogo train` would run with."""
    return commands.train_config(commands.parse_train(list(arguments)))


def test_train_reads_its_settings(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert train_config() == load(ROOT / "configs" / "quickstart.yaml") and train_config("--run", "mine").game.size == 5
    (tmp_path / "mine.yaml").write_text("game: {size: 6}\n")
    config = train_config("game.komi=4", "--config", "mine.yaml", "search.c_puct=2")
    assert (config.run.name, config.game.size, config.game.komi, config.search.c_puct) == ("mine", 6, 4.0, 2.0)
    assert train_config("--config", "mine.yaml", "--run", "other").run.name == "other"


@pytest.mark.parametrize("name", ["quickstart", "7x7", "9x9", "mixed", "19x19"])
def test_a_run_from_a_network_has_its_encoder_and_architecture(name: str, monkeypatch, capsys) -> None:
    """So that its weights fit whatever config the run has, and says what that changes."""
    monkeypatch.chdir(ROOT)
    words = "--config", f"configs/{name}.yaml", "--from", "checkpoints/7x7-cpu.pt"
    config, network = train_config(*words), checkpoint.load("checkpoints/7x7-cpu.pt").config
    assert (config.network.blocks, config.network.channels, config.features) == (4, 64, network.features)
    assert config.game == load(ROOT / "configs" / f"{name}.yaml").game and checkpoint.weights_for(config)
    said = capsys.readouterr().out
    assert ("taken over from checkpoints/7x7-cpu.pt: " in said) == (name != "7x7") and config.run.name == name
    assert name != "quickstart" or "network.blocks 4 instead of 3, network.channels 64 instead of 32" in said
    assert train_config(*words, "network.heads.score=0.02").network.heads["score"] == 0.02
    with pytest.raises(InputError, match="made with network.blocks 4, but the config says 5; its weights fit"):
        train_config(*words, "network.blocks=5")


def test_a_run_that_is_resumed_with_its_file_keeps_its_network(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    words = "--resume", "--config", "configs/9x9-cpu.yaml", f"run.directory={tmp_path}"
    assert train_config(*words).network.channels == 64, "nothing is saved yet"
    checkpoint.save(checkpoint.path_of(tmp_path / "9x9-cpu", 7), tiny.fresh_checkpoint(tiny.config(), 7))
    assert train_config(*words).network.channels == 8
    with pytest.raises(InputError, match="made with network.channels 8, but the config says 4"):
        train_config(*words, "network.channels=4")


def test_settings_that_players_do_not_use_are_named(capsys) -> None:
    cli.warn_of_unused(["game.size=5", "search.c_puct=2", "evaluation.symmetry=all"], cli.PLAYING)
    assert capsys.readouterr().err.startswith("warning: no effect here: search.c_puct=2")


def test_evaluate_tells_players_and_settings_apart() -> None:
    parsed = commands.parse_evaluate(["a/b=c.pt", "game.size=5", "--games", "10", "mcts:200", "game.komi=24.5"])
    assert parsed.players == ["a/b=c.pt", "mcts:200"] and parsed.overrides == ["game.size=5", "game.komi=24.5"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the smallest config, in which a run has ended."""
    folder = tmp_path_factory.mktemp("trained")
    tiny.config().dump(folder / "tiny.yaml")
    tiny.run(folder / "checkpoints", "run.name=mine", "pipeline.iterations=1")
    return folder


def test_selfplay_writes_the_games_that_were_asked_for_and_their_samples(trained: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(trained)
    words = "selfplay --checkpoint checkpoints/mine --games 10 --out out selfplay.slots=4 selfplay.sgf_share=0.5"
    assert status(words.split()) == 0 and "wrote 10 games" in capsys.readouterr().out
    games = sorted(Path("out/games").iterdir())
    assert [game.name for game in games] == [f"game-{number:08d}.sgf" for number in range(10)]
    samples = Samples.cat([load_shard(shard.path) for shard in find_shards(Path("out/samples"))])
    assert set(samples.network_step.tolist()) == {checkpoint.newest(Path("checkpoints/mine")).step}
    assert samples.game.bincount().tolist() == [len(sgf.read(game).moves) for game in games]


@pytest.mark.parametrize(("words", "line", "answer"), TABLES["programs that are talked to"])
def test_a_program_starts_answers_and_ends(words: str, line: str, answer: str) -> None:
    """As a process of its own, which other programs talk to: by a line for the standard input."""
    command = (sys.executable, "-m", "zerogo", *words.split())
    done = subprocess.run(command, input=line + "\n", capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert answer in done.stdout


TOO_LARGE = [f"gtp --checkpoint random --seed {10**400}", "allowed are whole numbers, 0 or more"]


@pytest.mark.parametrize(("words", "sentence"), [*TABLES["refused options"], TOO_LARGE])
def test_refused_options(words: str, sentence: str, monkeypatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    assert status(words.split()) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ") and errors.count("\n") == 1 and sentence in errors, errors


@pytest.mark.parametrize("case", TABLES["wrong"])
def test_bad_input_gets_one_sentence_and_nothing_is_overwritten(case: str, trained: Path, monkeypatch, capsys) -> None:
    words, sentence = TABLES["wrong"][case][0].split(), TABLES["wrong"][case][1]
    (trained / "part.pt").write_bytes(checkpoint.paths(trained / "checkpoints" / "mine")[-1].read_bytes()[:-3000])
    before = tiny.files(trained)
    monkeypatch.chdir(trained)
    assert status([*words, "run.processes=1"]) == 2
    out, errors = capsys.readouterr()
    assert out == "" and errors.startswith("error: ") and errors.count("\n") == 1 and sentence in errors, errors
    assert tiny.files(trained) == before
