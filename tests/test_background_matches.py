"""Matches in the background: the run continues meanwhile, survives their faults, and ends them when it dies."""

import atexit
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from unittest.mock import Mock, call

import pytest
import tiny
import torch
from matches import some_result

from zerogo import checkpoint, kernels
from zerogo.arena import pool
from zerogo.errors import InputError
from zerogo.pipeline import matches as of_runs
from zerogo.pipeline import run
from zerogo.pipeline.matches import BackgroundMatches, Matches, measure
from zerogo.pipeline.snapshots import RunState
from zerogo.selfplay.opening import RandomPlayer
from zerogo.system.telemetry import Telemetry


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint of a network that has not learned."""
    checkpoint.save(checkpoint.path_of(tmp_path, 7), tiny.fresh_checkpoint(tiny.config(), step=7))
    return checkpoint.path_of(tmp_path, 7)


def matches(*overrides: str) -> Matches:
    return Matches(tiny.config(*overrides), tiny.CPU, torch.float32)


def background(run: Matches, tmp_path: Path, lines: list[str]) -> BackgroundMatches:
    return BackgroundMatches(run, Telemetry(tmp_path / "logs"), lines.append, RunState())


@tiny.FORKED
def test_they_show_what_matches_in_the_run_would(saved: Path, tmp_path: Path) -> None:
    lines = []
    one = background(matches("evaluation.games=4"), tmp_path, lines)
    one.start(saved, 7, 12.5)
    assert one.running and (one.step, one.begun, one.state.last_match) == (7, 12.5, 0.0)
    one.poll_results(wait=True)
    assert not one.running and one.state.last_match == 12.5
    one.poll_results()  # nothing is left
    ((_, line, result, numbers),) = matches("evaluation.games=4").play(checkpoint.load(saved), 4)
    (record,) = tiny.lines(tmp_path / "logs" / "metrics.jsonl")
    assert {name: record[name] for name in numbers} == pytest.approx(numbers) and record["step"] == 7
    assert pool.read(saved.parents[1] / pool.FILE) == [pool.Meeting.of(result)]
    assert lines[:2] == ["waiting for the matches of step 7", "step 7:"]
    assert [one.rpartition(" (")[0] for one in lines[2:3]] == [line.rpartition(" (")[0]]  # but for the seconds
    assert re.fullmatch(r"  Elo -?\d+ \(-?\d+ to -?\d+\)", lines[3]) and len(lines) == 4


def test_a_run_goes_on_without_them_where_no_process_can_start(saved: Path, tmp_path: Path, monkeypatch) -> None:
    lines = []
    one = background(matches(), tmp_path, lines)
    monkeypatch.setattr(resource_tracker, "ensure_running", Mock(side_effect=BlockingIOError(11, "no more processes")))
    one.start(saved, 7, 12.5)
    assert not one.running and one.begun == one.state.last_match == 12.5 and "no more processes" in lines[0]


def test_a_network_whose_file_has_the_name_of_the_run_is_another_player(tmp_path: Path) -> None:
    checkpoint.export(tmp_path / "tiny.pt", tiny.fresh_checkpoint(tiny.config(), step=7))
    assert matches()._opponent(str(tmp_path / "tiny.pt"), ExitStack()).name == "tiny.pt@7"


def test_a_checkpoint_enters_the_pool_and_meets_the_best_and_those_that_tell_most(tmp_path: Path) -> None:
    of_the_run, met = matches("evaluation.earlier_opponents=2"), tmp_path / pool.FILE
    for step in (7, 8, 9, 10, 11):
        checkpoint.save(checkpoint.path_of(tmp_path, step), tiny.fresh_checkpoint(tiny.config(), step))
    before = [pool.Meeting(f"tiny@{step}", "random", 3, 25 * (step - 6), 100, [0] * 5, 1) for step in (7, 8, 9)]
    met.write_text("".join(json.dumps(one._asdict()) + "\n" for one in before))
    path = checkpoint.path_of(tmp_path, 10)
    newest = checkpoint.load(path)
    lines, numbers = zip(*measure(of_the_run, newest, path), strict=True)
    (*_, last, other), found = pool.read(met)[3:], pool.read(met)
    assert [one[:2] for one in found[3:5]] == [("tiny@10", "random"), ("tiny@10", "tiny@9")], "tiny@9 is the best"
    assert (last.opponent, len(found)) == ("tiny@9", 6) and other.opponent in ("tiny@7", "tiny@8")
    assert [*numbers[-2], *numbers[-1]] == ["eval/elo", "eval/elo_low", "eval/elo_high", "eval/sprt_llr"]
    verdict = r"  SPRT: (not stronger|stronger|undecided whether stronger) than tiny@9.* \(\d+ games against it\)"
    assert lines[-2].startswith("  Elo ") and re.fullmatch(verdict, lines[-1])
    checkpoint.path_of(tmp_path, 9).write_bytes(b"")
    again = [line for line, _ in measure(of_the_run, newest, path)]  # as after a kill
    assert pool.read(met) == found and again[1].startswith("  warning: no match against tiny@9: ")
    without_times = [[line.partition(", at ")[0] for line in some[2:4]] for some in (again, lines)]
    assert without_times[0] == without_times[1]


def test_a_gate_has_the_player_met_and_goes_by_that_match(saved: Path, tmp_path: Path) -> None:
    newest, path = replace(checkpoint.load(saved), step=9, counters={"players": [7]}), checkpoint.path_of(tmp_path, 9)
    newest = replace(newest, config=tiny.config("run.name=renamed"))  # since the player was saved
    checkpoint.save(path, newest)
    *_, (line, numbers) = measure(matches("evaluation.games=4", "evaluation.opponents=[]"), newest, path)
    (met,) = pool.read(tmp_path / pool.FILE)
    assert met[:2] == ("renamed@9", "tiny@7")
    assert line.endswith(" % of the points against tiny@7, the self-play network")
    assert numbers == {of_runs.OF_GATE: met.points / 4}
    (tmp_path / pool.FILE).unlink()
    saved.unlink()
    (found,) = measure(matches("evaluation.opponents=[]"), newest, path)
    assert found[0].startswith("  warning: no match against renamed@7: ") and found[1] == {}
    cases = {(0.55, 0.55): [7, 9], (0.55, 0.54): [7], (0.0, 0.9): [7]}
    for (least, rate), players in cases.items():
        assert of_runs.apply_gate([7], 9, {of_runs.OF_GATE: rate}, least, str) == players
    assert of_runs.apply_gate([7], 9, {}, 0.5, (said := []).append) == [7, 9]
    assert said == ["step 9 is the self-play network from now on"]
    assert of_runs.apply_gate([7], 9, None, 0.5, str) == of_runs.apply_gate([7], 7, {}, 0.5, str) == [7]


class Telling(Matches):
    def play(self, checkpoint: checkpoint.Checkpoint, num_games: int, *_) -> Iterator[tuple]:
        nothing = some_result("a", "a")  # of one colour, so that no pool keeps it
        number, blocked = torch.get_num_threads(), list(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        yield "", f"{kernels.in_use(self.device)}, {number} thread, blocks {blocked}", nothing, {}


def test_their_process_leaves_signals_to_the_run(tmp_path: Path, monkeypatch) -> None:
    """A service manager sends them to both; matches that it ended would not be played again."""
    handlers = {}
    monkeypatch.setattr(of_runs.signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(of_runs.runtime, "end_with_parent", Mock())
    monkeypatch.setattr(of_runs.os, "nice", Mock())
    of_runs._play(Mock(), matches(), tmp_path / "gone.pt")
    ignored = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1
    assert handlers == dict.fromkeys(ignored, signal.SIG_IGN)


@tiny.FORKED
def test_their_process_is_set_up_as_the_run_is(tmp_path: Path) -> None:
    settings, lines = tiny.config("run.kernels=plain", "run.threads=2"), []
    checkpoint.save(tmp_path / "run" / "plain.pt", tiny.fresh_checkpoint(settings, step=7))
    one = background(Telling(settings, tiny.CPU, torch.float32), tmp_path, lines)
    one.start(tmp_path / "run" / "plain.pt", 7, 1.0)
    one.poll_results(wait=True)
    with kernels.plain():
        assert lines[-1] == f"{kernels.in_use(tiny.CPU)}, 1 thread, blocks {[signal.SIGINT]}"
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_on_a_gpu_they_play_few_games_at_once(monkeypatch) -> None:
    on_gpu, name, asked = matches("evaluation.games=2"), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", []
    monkeypatch.setattr(of_runs.os, "nice", asked.append)
    monkeypatch.setattr(of_runs, "play_match", lambda *match: asked.append(match[2].at_once))
    monkeypatch.setenv(name, "")
    monkeypatch.delenv(name)
    of_runs._yield_to_run(on_gpu)
    assert name not in os.environ
    on_gpu.device = torch.device("cuda")
    of_runs._yield_to_run(on_gpu)
    on_gpu.device = tiny.CPU
    on_gpu._match(RandomPlayer(), "random", 3, 2)
    assert asked == [10, 10, 32] and os.environ[name] == "25"


def test_they_end_with_a_run_that_fails_and_keep_their_checkpoint_till_then(tmp_path: Path, monkeypatch) -> None:
    started, iterations, play, at_exit = [], [], run.Run._run_iteration, Mock(wraps=atexit.register)
    monkeypatch.setattr(of_runs.atexit, "register", at_exit)

    def fails(self: run.Run) -> None:
        iterations.append(play(self))
        started.append((self.background_matches._process, self.background_matches.path))
        if len(iterations) == 4:
            assert self.background_matches.path.exists() and len(checkpoint.paths(self.directory)) == 2
            raise InputError("a sanity check")

    monkeypatch.setattr(run.Run, "_run_iteration", fails)
    options = "evaluation.opponents=['mcts:100000']", "evaluation.every_iterations=1", "pipeline.keep_checkpoints=1"
    with pytest.raises(InputError, match="a sanity check"):
        tiny.run(tmp_path, *options, "pipeline.iterations=9")
    assert started[0] == (None, None) and not started[-1][0].is_alive()
    assert call(started[-1][0].kill) in at_exit.mock_calls


def test_a_copy_of_a_run_resumes_with_its_own_checkpoints(saved: Path, tmp_path: Path, monkeypatch) -> None:
    """Else its matches would enter the rating pool of the run that was copied."""
    started, one = [], background(matches(), tmp_path, [])
    monkeypatch.setattr(BackgroundMatches, "start", lambda _, *arguments: started.append(arguments))
    one._process, one.path, one.step, one.begun = Mock(), checkpoint.path_of(tmp_path / "copied", 7), 7, 1.5
    for step in (7, 8):
        one.load_state_dict(one.state_dict() | {"step": step}, tmp_path)
    assert started == [(saved, 7, 1.5)]


@tiny.FORKED
def test_a_checkpoint_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    lines = []
    one = background(matches(), tmp_path, lines)
    one.start(tmp_path / "gone.pt", 7, 1.0)
    one.poll_results(wait=True)
    assert not one.running and lines[-2] == "step 7:" and "no matches: " in lines[-1] and "gone.pt" in lines[-1]
