"""`zerogo train`, `selfplay` and `evaluate`: settings that reach the package, one sentence for what is wrong, and a run
of each on the smallest config."""

import contextlib
import io
import runpy
import sys
from pathlib import Path

import pytest
import tiny
from tables import tables

from zerogo import checkpoint, commands
from zerogo.__main__ import main
from zerogo.config import Config, load, with_overrides
from zerogo.errors import InputError
from zerogo.pipeline import snapshots

ROOT = Path(__file__).parent.parent


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
    assert train_config() == load(ROOT / "configs" / "quickstart.yaml")
    (tmp_path / "mine.yaml").write_text("game: {size: 6}\n")
    config = train_config("game.komi=4", "--config", "mine.yaml", "search.c_puct=2")
    assert (config.run.name, config.game.size, config.game.komi, config.search.c_puct) == ("mine", 6, 4.0, 2.0)
    assert train_config("--config", "mine.yaml", "--run", "other").run.name == "other"


def test_a_run_that_goes_on_takes_no_other_weights(capsys) -> None:
    with pytest.raises(SystemExit):
        train_config("--resume", "--run", "mine", "--from", "checkpoints/7x7.pt")
    assert "--from is for a new run" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["quickstart", "7x7", "9x9", "mixed", "19x19"])
def test_a_run_from_a_network_has_its_encoder_and_architecture(name: str, monkeypatch, capsys) -> None:
    """So that its weights fit whatever config the run has, and says what that changes."""
    monkeypatch.chdir(ROOT)
    words = "--config", f"configs/{name}.yaml", "--from", "checkpoints/7x7.pt"
    config, network = train_config(*words), checkpoint.load("checkpoints/7x7.pt").config
    assert (config.network.blocks, config.network.channels, config.features) == (4, 64, network.features)
    assert config.game == load(ROOT / "configs" / f"{name}.yaml").game and checkpoint.weights_for(config)
    said = capsys.readouterr().out
    assert ("taken over from checkpoints/7x7.pt: " in said) == (name != "7x7") == (config.run.name != network.run.name)
    assert name != "quickstart" or "network.blocks 4 instead of 3, network.channels 64 instead of 32" in said
    explicit = train_config(*words, "network.blocks=5", "network.heads.score=0.02")
    assert (explicit.network.blocks, explicit.network.heads["score"]) == (5, 0.02)
    with pytest.raises(InputError, match="made with network.blocks 4, the config says 5; its weights fit"):
        checkpoint.weights_for(explicit)


def test_train_resumes_under_the_run_s_own_settings(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "checkpoints" / "mine"
    folder.mkdir(parents=True)
    with_overrides(Config(), ["game.size=6", "run.directory=/elsewhere", "run.name=old"]).dump(folder / "config.yaml")
    calls = []
    monkeypatch.setattr("zerogo.pipeline.train", lambda *arguments: calls.append(arguments))
    commands.main_train(commands.parse_train(["--resume", "--run", "mine", "pipeline.minutes=5"]))
    ((place, resume, overrides),) = calls
    config = snapshots.config_of(place.run.folder, None, overrides)
    assert resume and (config.game.size, config.pipeline.minutes) == (6, 5.0)
    assert (config.run.directory, config.run.name) == ("checkpoints", "mine")
    assert train_config("--run", "mine").game.size == 5  # without --resume: the quick start's


def test_evaluate_tells_players_and_settings_apart() -> None:
    parsed = commands.parse_evaluate(["a/b=c.pt", "game.size=5", "--games", "10", "mcts:200", "game.komi=24.5"])
    assert parsed.players == ["a/b=c.pt", "mcts:200"] and parsed.overrides == ["game.size=5", "game.komi=24.5"]
    for words in ("random game.size=5", "random random --games 1", "random random --opening -1"):
        with pytest.raises(SystemExit):
            commands.parse_evaluate(words.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run of two iterations on the smallest config has ended."""
    folder = tmp_path_factory.mktemp("trained")
    tiny.config("pipeline.final_matches=true").dump(folder / "tiny.yaml")
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        assert status(["train", "--config", "tiny.yaml", "--run", "mine", "selfplay.sgf_share=1"]) == 0
    assert "against random: wins" in out.getvalue() and "2/2 iterations" in errors.getvalue()
    names = {path.name for path in (folder / "checkpoints" / "mine").iterdir()}
    assert names >= {"checkpoints", "config.yaml", "games", "logs", "replay"}
    return folder


def test_train_goes_on(trained: Path, monkeypatch, capsys) -> None:
    """Without --config under the settings that the run had; with a part of a checkpoint, from the one before, which is
    said."""
    folder = trained / "checkpoints" / "mine"
    newest = snapshots.paths(folder)[-1]
    content = newest.read_bytes()
    newest.write_bytes(content[:2000])
    monkeypatch.chdir(trained)
    assert status(["train", "--resume", "--run", "mine", "pipeline.final_matches=false"]) == 0
    assert capsys.readouterr().err.startswith(f"warning: skipped: checkpoint checkpoints/mine/snapshots/{newest.name}")
    assert checkpoint.newest(folder).counters["iterations"] == 2
    newest.write_bytes(content)


def test_selfplay(trained: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(trained)
    assert status("selfplay --checkpoint checkpoints/mine --games 5 --out out".split()) == 0
    assert "wrote 5 games" in capsys.readouterr().out
    assert len(list((trained / "out" / "games").glob("*.sgf"))) == 5


CASES = tables("commands")["wrong"]


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_one_sentence_and_nothing_is_overwritten(case: str, trained: Path, monkeypatch, capsys) -> None:
    words, sentence = CASES[case][0].split(), CASES[case][1]
    (trained / "part.pt").write_bytes(checkpoint.paths(trained / "checkpoints" / "mine")[-1].read_bytes()[:-3000])
    before = tiny.files(trained)
    monkeypatch.chdir(trained)
    assert status([*words, "run.processes=1"]) == 2
    out, errors = capsys.readouterr()
    assert out == "" and errors.startswith("error: ") and errors.count("\n") == 1 and sentence in errors, errors
    assert tiny.files(trained) == before
