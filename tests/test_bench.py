"""The measurements of network, search and self-play: what their lines hold. How fast anything is, is no matter for a test."""

from __future__ import annotations

import json

import pytest

from zerogo.bench import __main__ as bench

TINY = ["--size", "3", "--batch", "4", "--blocks", "1", "--channels", "8", "--device", "cpu", "--threads", "1"]
SHORT = ["--seconds", "0.02", "--rounds", "1"]
FIELDS = {
    "net": {"evals_per_s"},
    "search": {"simulations_per_s", "evals_per_s", "efficiency", "bytes_per_node", "finished_share", "closed_share"},
    "selfplay": {"games_per_hour", "moves_per_s", "samples_per_s", "simulations_per_s", "evals_per_s"},
}


@pytest.mark.parametrize("name", FIELDS)
def test_line(name: str, capsys) -> None:
    sims = [] if name == "net" else ["--sims", "3"]
    assert bench.main([name, *TINY, *SHORT, *sims]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    line = json.loads(lines[0])
    assert {"bench", "size", "batch", "device", "dtype", "threads"} | FIELDS[name] <= line.keys()
    assert (line["bench"], line["size"], line["batch"], line["device"]) == (name, 3, 4, "cpu")
    rates = [field for field in FIELDS[name] if field.endswith(("_per_s", "_per_hour"))]
    assert all(line[field] > 0 for field in rates)


@pytest.mark.parametrize("name", ["search", "selfplay"])
def test_bad_input_gets_one_sentence(name: str, capsys) -> None:
    assert bench.main([name, *TINY, *SHORT, "--sims", "0"]) == 2
    error = capsys.readouterr().err
    assert "--sims is 0" in error and error.count("\n") == 1
