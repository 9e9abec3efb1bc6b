"""The measurements: what their lines hold, and that what is drawn and counted is right; how fast anything is, is no
matter for a test."""

import contextlib
import json
import os
import sys
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import tiny
import torch
from tables import tables

from zerogo import bench, board, kernels
from zerogo.bench import __main__ as command
from zerogo.bench import gpu, jax_peers, speed
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.selfplay import SelfPlayResult
from zerogo.system import distributed
from zerogo.system.runtime import try_capture

TABLES = tables("bench")
CPU = "--device cpu --threads 1"
TINY = f"--size 3 --batch 4 --blocks 1 --channels 8 --precision float32 {CPU}"
SHORT = "--seconds 0.02 --rounds 1"


def measured(words: str, capsys: pytest.CaptureFixture[str]) -> list[dict]:
    """Runs a measurement and returns its lines."""
    command.main(command.parse(words.split()))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all({"bench", "size", "batch", "device", "dtype", "threads", "torch"} <= line.keys() for line in lines)
    return lines


@pytest.mark.parametrize(("words", "figures", "fields"), TABLES["measured"])
def test_a_line_has_its_figures(words: str, figures: str, fields: dict, capsys) -> None:
    """The fields of some words, and the figures that are above zero."""
    (line,) = measured(f"{words} {CPU} {SHORT}", capsys)
    assert all(line[figure] > 0 or "per_" not in figure for figure in figures.split()), line
    assert line | fields == line and ("collision_share" in line) == ("gain" in figures)


@pytest.mark.parametrize("name", ["net", "search", "selfplay"])
def test_the_network_alone_counts_at_its_faster_one(name: str, capsys, monkeypatch) -> None:
    """As on CUDA, where the other is a graph: here one that has no work."""
    monkeypatch.setattr(speed, "try_capture", made := Mock())
    assert measured(f"{name} {TINY} {SHORT} {'' if name == 'net' else '--sims 3'}", capsys)
    assert made.return_value.called


def test_several_processes_are_counted_together(monkeypatch, capsys) -> None:
    """Rates of two that do the same add up, next to twice what the network reaches in one."""
    words = f"search {TINY} {SHORT} --processes"
    monkeypatch.setattr(distributed, "launch", launch := Mock())
    monkeypatch.setattr(command, "usable_cores", lambda: 4)
    assert measured(f"{words} 3", capsys) == measured(f"{words} 0", capsys) == []
    assert [call.args for call in launch.call_args_list] == [(3,), (4,)]
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_gather_object", lambda value: [value, value])
    monkeypatch.setattr(distributed, "broadcast_from_rank0", lambda work, *arguments: work(*arguments))
    monkeypatch.setattr(distributed, "barrier", barrier := Mock())
    monkeypatch.setattr(speed.NetworkSetup, "evals_per_second", lambda *_: 100.0)
    monkeypatch.setattr(speed.SearchedGames, "move", lambda *_: (30, 1.0, 2.0))
    monkeypatch.setattr(speed.SelfPlay, "play", lambda *_: SelfPlayResult(simulations=30, seconds=1.0))
    for name in ("search", "selfplay"):
        (line,) = measured(f"{name} {TINY} {SHORT}", capsys)
        assert line | {"processes": 2, "simulations_per_s": 60, "evals_per_s": 200, "efficiency": 0.3} == line
    assert barrier.call_count == 4


def test_draws_are_uniform_over_the_legal_moves() -> None:
    """20,000 draws in one position: no illegal move, each legal one within 6 standard deviations of its share."""
    stones = torch.zeros(1, 4, 4, dtype=torch.int8)
    stones[0, 0, 1] = stones[0, 1, 0] = stones[0, 3, 3] = 2
    state = board.from_stones(stones.expand(20000, -1, -1).contiguous(), torch.ones(20000, dtype=torch.int8), Rules(4))
    legal = board.legal_actions(state)[0]
    assert not legal[0] and legal.sum() == 13  # the corner is suicide; twelve points and the pass
    for used in (contextlib.nullcontext(), kernels.plain()):
        with used:
            counts = torch.bincount(speed.draw(state, torch.Generator().manual_seed(3)), minlength=17)
        assert not counts[~legal].any() and ((counts[legal] - 20000 / 13).abs() < 6 * (20000 / 13) ** 0.5).all()


def test_no_graph_of_work_that_waits_or_cannot_be_captured(monkeypatch) -> None:
    """Pretends that there is a CUDA device."""
    work, device = Mock(), torch.device("cuda")
    assert try_capture(work, torch.device("cpu")) is None and not work.called
    capture = Mock(side_effect=[work, RuntimeError("capture failed")])
    monkeypatch.setattr("zerogo.system.runtime.capture_cuda_graph", capture)
    assert try_capture(work, device) is work and try_capture(work, device) is None


def test_a_profile_lists_torchs_operations(capsys) -> None:
    command.main(command.parse(f"search {TINY} {SHORT} --sims 5 --profile".split()))
    out, table = capsys.readouterr()
    assert len(out.splitlines()) == 1 and "aten::" in table and "Self CPU" in table


# Peers, with a process that stands in for them

# Talks as mctx and pgx do, in numbers that can be told apart. It notes its arguments and every line that it is asked.
STAND_IN = """
import os, sys
library, device = sys.argv[1], sys.argv[-1]
rates = {"network float32": 400, "network bfloat16": 1000, "search float32": 50, "search bfloat16": 100}
if "PEER_LACKS" in os.environ:
    sys.exit(print(f"no {device}"))
print(f"{library} 0.0 on {device}", flush=True)
with open(os.environ["PEER_NOTES"], "a") as notes:
    print(*sys.argv[1:], file=notes, flush=True)
    for line in sys.stdin if "PEER_DIES" not in os.environ else ():
        print(line.strip(), file=notes, flush=True)
        print({"2": 70, "3": 90}[sys.argv[3]] if library == "pgx" else rates[line.rpartition(" ")[0]], flush=True)
"""
PEER = f"search --size 9 --batch 2 --sims 2 --blocks 1 --channels 8 {CPU} --seconds 0.02 --rounds 2 --peer"


@pytest.fixture
def notes(monkeypatch, tmp_path) -> Path:
    """Puts the stand-in in the peers' place; returns the file in which it notes what it hears."""
    (tmp_path / "peer.py").write_text(STAND_IN)
    monkeypatch.setattr(bench, "PEER_SCRIPT", tmp_path / "peer.py")
    monkeypatch.setenv("PEER_NOTES", str(tmp_path / "notes"))
    return tmp_path / "notes"


def test_a_peer_is_asked_in_turn_and_at_its_best(notes, capsys) -> None:
    """The first round is in both precisions, the others in the one that was faster, with the same sizes."""
    (line,) = measured(PEER, capsys)
    assert (line["peer"], line["peer_dtype"]) == ("mctx 0.0 on cpu", "bfloat16")
    assert (line["peer_simulations_per_s"], line["peer_evals_per_s"], line["peer_efficiency"]) == (100, 1000, 0.1)
    assert line["ratio"] == pytest.approx(line["simulations_per_s"] / 100, abs=0.01)
    first, *asked = notes.read_text().splitlines()
    assert first == "mctx puct 0.0 9 2 2 1 8 1 cpu"
    both = [f"{kind} {dtype} 0.02" for dtype in ("float32", "bfloat16") for kind in ("network", "search")]
    assert asked == both + both[2:]


def test_the_best_of_the_peers_batches_counts(notes, capsys) -> None:
    (line,) = measured(f"board --size 9 --batch 4 {CPU} {SHORT} --peer --peer-batch 2,3", capsys)
    assert (line["peer"], line["batch"], line["peer_batch"], line["peer_moves_per_s"]) == ("pgx 0.0 on cpu", 4, 3, 90)
    assert notes.read_text().splitlines()[:2] == ["pgx 9 2 1 cpu", "pgx 9 3 1 cpu"]
    assert measured(f"{PEER} --peer-batch 3", capsys)[0]["peer_batch"] == 3


@pytest.mark.parametrize("error", [RuntimeError("Unable to initialize backend 'cuda'"), AssertionError()], ids=repr)
def test_a_jax_without_the_device(error: Exception, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(devices=Mock(side_effect=error), config=None))
    monkeypatch.setattr(os, "environ", {})
    with pytest.raises(SystemExit):
        jax_peers.set_up("cuda:1", 1)
    assert capsys.readouterr().out == "no cuda:1\n"
    assert (os.environ["JAX_PLATFORMS"], os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"]) == ("cuda", "false")


def test_peers_that_fail_or_are_none(notes, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PEER_DIES", "1")
    refused(PEER, "--peer: the process that runs mctx ended in the middle", capsys)
    monkeypatch.setenv("PEER_LACKS", "1")
    refused(PEER, f"the jax of {sys.executable} has no cpu; install one that has, or add --device cpu", capsys)
    refused(f"{PEER} --peer-python /nowhere/python", "can't be started (No such file or directory)", capsys)
    notes.with_name("peer.py").write_text("")  # a program that says nothing
    refused(PEER, "has no mctx that can be imported", capsys)


def test_learning_is_measured_by_matches_that_cost_no_training_time(tmp_path: Path, capsys) -> None:
    tiny.config("game.move_cap=8").dump(tmp_path / "tiny.yaml")
    words = f"learn --config {tmp_path / 'tiny.yaml'} --minutes 0.01 --seeds 2 --points 2 --games 2 --simulations 2"
    words += f" --opponents random,mcts:2? --out {tmp_path / 'out'} --set training.batch=8"
    lines = measured(words, capsys)
    assert {(line["seed"], line["opponent"]) for line in lines} == {*product((1, 2), ("random", "mcts:2"))}
    for line in lines:
        assert line["low"] <= line["win_rate"] <= line["high"] and line["played"] == 2
        assert line["minutes"] > 0 and line["games"] >= 16 and line["simulations"] >= 0
    charts = {path.parent.name: path.read_text().count("learn/") for path in tmp_path.glob("out/seed-*/metrics.jsonl")}
    made = {seed: sum(line["seed"] == seed for line in lines) for seed in (1, 2)}
    assert charts == {f"seed-{k}-over-{axis}": made[k] for k in made for axis in ("seconds", "games", "simulations")}
    assert measured(words, capsys) == []  # all is there
    refused(words.replace("training.batch=8", "run.seeds=3"), "run.seeds", capsys)
    refused(words.replace("training.batch=8", "training.batch=4"), "another --config, --set", capsys)


def refused(words: str, sentence: str, capsys) -> None:
    with pytest.raises((InputError, SystemExit)) as caught:
        command.main(command.parse(words.split()))
    errors = capsys.readouterr().err if caught.type is SystemExit else str(caught.value)
    assert sentence in errors.splitlines()[-1] and "Traceback" not in errors


# A machine with a GPU: what is judged


@pytest.mark.parametrize(("expected", "line", "fault", "row"), TABLES["verdicts"])
def test_verdicts(expected: dict, line: dict, fault: str, row: list) -> None:
    assert list(gpu._judge("part", gpu.Part("pytest -q", 1, expected), line, fault)) == [tuple(row)]


def test_figures_of_a_run_and_samples_of_the_driver() -> None:
    rounds, figures = TABLES["phases"]
    assert gpu.phases(rounds, 16) == figures and sum(part.seconds for part in gpu.PARTS.values()) < 600
    line = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(1_700_000_000)) + ".250, 97\n"
    assert gpu.parse_samples([line, "\n", "2026/11/22 15:59:08.123, [N/A]\n", "cut o"]) == [(1_700_000_000.25, 97.0)]
