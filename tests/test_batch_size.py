"""How many games and leaves a run takes where the settings leave it to the machine, with pretended speeds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import tiny
import torch

from zerogo import batching, checkpoint, cli, config, kernels, runtime
from zerogo.config import Config
from zerogo.evaluator import Evaluator
from zerogo.features import make_encoder
from zerogo.pipeline import train
from zerogo.players.analyst import analyst_of_playouts, with_fitting_leaves
from zerogo.rules import Rules
from zerogo.selfplay import batch_size, generate

AUTO = ("selfplay.games=0", "search.leaves=0", "selfplay.full_simulations=40", "selfplay.cheap_simulations=40")


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes a device on which a call costs as much as 15 positions, 512 of which are enough; returns the sizes that are
    asked for."""
    asked: list[int] = []

    def speed(work, size: int, synchronize) -> float:
        asked.append(size)
        work()
        synchronize()
        return 1e6 * size / (15 + size)

    monkeypatch.setattr(batching, "speed", speed)
    return asked


def make_evaluator(settings: config.Config) -> Evaluator:
    encoder = make_encoder(settings.features.encoder, settings.features.komi_input)
    return Evaluator.from_network(tiny.network(settings), encoder)


def fitted(*overrides: str, most_games: int = batch_size.MOST) -> tuple[int, int, str]:
    settings = tiny.config(*overrides)
    return measured(settings, tiny.Table(), most_games)


def measured(settings: Config, evaluator: object, most_games: int = batch_size.MOST) -> tuple[int, int, str]:
    sections = settings.game, settings.search, settings.selfplay
    search, selfplay, why = batch_size.fitted(*sections, evaluator, tiny.CPU, most_games)
    return selfplay.games, search.leaves, why


def test_games_fill_the_batch_before_leaves_do(pretended: list[int]) -> None:
    games, leaves, why = fitted(*AUTO)
    assert (games, leaves) == (256, 1)
    rates = "944,649 evaluations/s in batches of 256, 5 % less in those of 128, 3 % more in those of 512"
    assert why.startswith(f"256 games at once: {rates}")
    assert pretended == [64, 128, 256, 512, 1024]


def test_leaves_fill_what_games_leave_open(pretended: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert fitted(*AUTO, most_games=100)[:2] == (100, 2)
    assert fitted("selfplay.games=100", *AUTO[1:])[:2] == (100, 2)
    games, leaves, why = fitted(*AUTO, most_games=3)
    assert (games, leaves) == (3, 5)  # 40 simulations bear no more
    assert why.startswith("3 games at once, 5 leaves of each tree in a step: ")
    assert fitted("selfplay.full_simulations=7", "selfplay.cheap_simulations=7", *AUTO[:2], most_games=3)[:2] == (3, 1)
    assert fitted("selfplay.full_share=0.5", "selfplay.cheap_simulations=16", *AUTO[:3], most_games=3)[:2] == (3, 2)
    monkeypatch.setattr(batch_size, "_games_in_memory", lambda *_: 64)
    assert fitted(*AUTO)[:2] == (64, 4)


def test_games_fit_leaves_that_are_given(pretended: list[int]) -> None:
    assert fitted("selfplay.games=0", "search.leaves=4", *AUTO[2:])[:2] == (64, 4)


def test_numbers_that_are_given_stay(pretended: list[int]) -> None:
    assert fitted("selfplay.games=7", "search.leaves=3") == (7, 3, "")
    assert not pretended


def test_mixed_sizes_and_another_encoder_can_be_measured(pretended: list[int]) -> None:
    settings = tiny.config(*AUTO, "game.sizes=[[3, 1, 4.5], [5, 1, 0.5]]", "game.size=3", "features.encoder=alphago48")
    assert measured(settings, make_evaluator(settings))[0] == 256


def test_memory_is_that_of_the_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """A game's share of what a run of many games holds is what is reckoned for one, but for the positions that it has
    seen."""
    settings = tiny.config("selfplay.games=50", "selfplay.full_simulations=60")
    selfplay = tiny.self_play(settings, tiny.Table(), 1)
    selfplay.play(1)
    bytes_a_game = (batch_size._bytes(selfplay.search_state) + batch_size._bytes(selfplay.recorder)) / 50
    monkeypatch.setattr(runtime, "free_bytes", lambda device: int(bytes_a_game * 1000 / batch_size.MEMORY_SHARE))
    alone = tiny.self_play(tiny.config("selfplay.games=1", "selfplay.full_simulations=60"), tiny.Table(), 1)
    assert 950 <= batch_size._games_in_memory(alone) <= 1100
    monkeypatch.setattr(runtime, "free_bytes", lambda device: None)
    assert batch_size._games_in_memory(alone) == batch_size.MOST


def test_a_run_keeps_the_numbers_that_it_found(
    pretended: list[int], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = (f"run.directory={tmp_path}", *AUTO[:2], "pipeline.iterations=1")
    train(tiny.config(*words))
    assert "\nself-play: 256 games at once: " in capsys.readouterr().out
    stored = config.load(tmp_path / "tiny" / "config.yaml")
    assert (stored.selfplay.games, stored.search.leaves) == (256, 1)
    saved = checkpoint.newest(tmp_path / "tiny").config
    assert (saved.selfplay.games, saved.search.leaves) == (256, 1)
    pretended.clear()
    train(tiny.config(*words[:-1], "pipeline.iterations=2"), resume=True)
    assert not pretended and "self-play:" not in capsys.readouterr().out
    assert config.load(tmp_path / "tiny" / "config.yaml").selfplay.games == 256
    setup = cli.set_up(tiny.config(*words, "run.seed=2"))
    generate(setup, checkpoint.newest(tmp_path / "tiny"), 5, tmp_path / "games")
    assert "self-play: 5 games at once: " in capsys.readouterr().out
    assert len(list((tmp_path / "games" / "games").glob("*.sgf"))) == 5


def test_one_game_gets_leaves_as_its_simulations_bear(pretended: list[int]) -> None:
    analyst, why = with_fitting_leaves(
        dataclasses.replace(analyst_of_playouts(800, leaves=1), simulations=800), Rules(size=3)
    )
    assert analyst.search.settings.leaves == 100 and why.startswith("100 leaves of the tree in a step: ")
    assert pretended == [1, 2, 4, 8, 16, 32, 64, 100]
    analyst, _ = with_fitting_leaves(dataclasses.replace(analyst, simulations=7), Rules(size=3))
    assert analyst.search.settings.leaves == 1


def test_kernels_are_said_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, other = torch.device("cpu"), torch.device("meta")
    monkeypatch.setattr(kernels, "_in_use", True)
    kernels.choose("auto")
    assert kernels._in_use and kernels.in_use(other) == "torch alone"
    assert kernels.in_use(cpu) in ("kernels by numba", "torch alone, without numba")
    with kernels.plain():
        kernels.choose("auto")  # leaves things as they are
        assert not kernels._in_use
    kernels.choose("plain")
    assert not kernels._in_use and kernels.in_use(cpu) == "torch alone" and kernels.compiled("board", cpu) is None


def test_a_run_without_kernels_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(kernels, "_in_use", True)
    train(tiny.config(f"run.directory={tmp_path}", "run.kernels=plain", "pipeline.iterations=1"))
    assert ", torch alone, " in capsys.readouterr().out.splitlines()[0] and not kernels._in_use


def test_a_real_device_can_be_measured() -> None:
    """Whatever is found on a tiny network, it is allowed."""
    settings = tiny.config(*AUTO)
    games, leaves, why = measured(settings, make_evaluator(settings))
    assert batch_size.FEWEST <= games <= batch_size.MOST and leaves == 1 and "evaluations/s" in why
