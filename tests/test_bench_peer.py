"""Peers of the measurements, with a process that stands in for them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zerogo.bench import __main__ as bench
from zerogo.bench import board, pgx_peer, search

STAND_IN = Path(__file__).with_name("peer_stand_in.py")
TINY = [
    "--size",
    "9",
    "--batch",
    "2",
    "--sims",
    "2",
    "--blocks",
    "1",
    "--channels",
    "8",
    "--device",
    "cpu",
    "--threads",
    "1",
]
WORDS = ["search", *TINY, "--seconds", "0.02", "--rounds", "2", "--peer"]


@pytest.fixture
def notes(monkeypatch, tmp_path) -> Path:
    """Puts the stand-in in mctx's place; returns the file in which it notes what it hears."""
    monkeypatch.setattr(search, "PEER", STAND_IN)
    monkeypatch.setattr(board, "PEER", STAND_IN)
    monkeypatch.setenv("PEER_NOTES", str(tmp_path / "notes"))
    return tmp_path / "notes"


def test_a_peer_is_asked_in_turn_and_at_its_best(notes, capsys) -> None:
    """The first round is in both precisions, the others in the one that was faster; it gets the same sizes of
    everything.
    """
    assert bench.main(WORDS) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["peer"], line["peer_dtype"]) == ("mctx 0.0, pgx 0.0, jax 0.0 on cpu", "bfloat16")
    assert (line["peer_simulations_per_s"], line["peer_evals_per_s"], line["peer_efficiency"]) == (100, 1000, 0.1)
    assert line["ratio"] == pytest.approx(line["simulations_per_s"] / 100, abs=0.01)
    first, *asked = notes.read_text().splitlines()
    assert first == "puct 0.0 9 2 2 1 8 1 cpu"
    both = [f"{kind} {dtype} 0.02" for dtype in ("float32", "bfloat16") for kind in ("network", "search")]
    assert asked == both + both[2:]


def test_the_best_of_the_peers_batches_counts(notes, capsys) -> None:
    words = [
        "--size",
        "9",
        "--batch",
        "4",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--seconds",
        "0.02",
        "--rounds",
        "1",
        "--peer",
    ]
    assert bench.main(["board", *words, "--peer-batch", "2,3"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["peer"], line["batch"], line["peer_batch"], line["peer_moves_per_s"]) == ("pgx 0.0 on cpu", 4, 3, 90)
    assert notes.read_text().splitlines()[:2] == ["9 2 1 cpu", "9 3 1 cpu"]
    assert bench.main([*WORDS, "--peer-batch", "3"]) == 0
    assert json.loads(capsys.readouterr().out)["peer_batch"] == 3


def test_a_peer_without_the_device(notes, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PEER_LACKS", "1")
    assert bench.main(WORDS) == 2
    assert (
        f"--peer: the jax of {sys.executable} has no cpu; install one that has, or add --device cpu\n"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("error", [RuntimeError("Unable to initialize backend 'cuda'"), AssertionError()], ids=repr)
def test_a_jax_without_the_device(error: Exception, monkeypatch, capsys) -> None:
    def devices(platform: str) -> list:
        raise error

    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(devices=devices, config=None))
    for name in ("JAX_PLATFORMS", "XLA_PYTHON_CLIENT_PREALLOCATE"):
        monkeypatch.setenv(name, "")
    with pytest.raises(SystemExit):
        pgx_peer.set_up("cuda:1", 1)
    assert capsys.readouterr().out == "no cuda:1\n"
    assert (os.environ["JAX_PLATFORMS"], os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"]) == ("cuda", "false")


def test_a_peer_that_ends_in_the_middle(notes, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PEER_DIES", "1")
    assert bench.main(WORDS) == 2
    error = capsys.readouterr().err
    assert "--peer: the process that runs mctx ended in the middle" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--size", "7"], "--peer with size 7; pgx plays 9 and 19"),
        (["--peer-python", "/nowhere/python"], "can't be started (No such file or directory)"),
        (["--peer-python", sys.executable], "has no mctx that can be imported"),
    ],
)
def test_bad_input_gets_one_sentence(options: list[str], sentence: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr(search, "PEER", STAND_IN.with_name("cases.py"))  # a program that says nothing
    assert bench.main([*WORDS, *options]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
