"""Matches beside a run: the run goes on meanwhile, outlives what goes wrong in them, and takes them along when it
dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
import torch

from zerogo import checkpoint, kernels
from zerogo.errors import InputError
from zerogo.pipeline import Matches, run
from zerogo.pipeline.beside import MatchesBeside
from zerogo.telemetry import Telemetry


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint of a network that has not learned."""
    settings = tiny.config()
    weights = tiny.network(settings).state_dict()
    checkpoint.save(tmp_path / "step-00000007.pt", checkpoint.Checkpoint(settings, 7, weights, weights))
    return tmp_path / "step-00000007.pt"


def matches(*overrides: str) -> Matches:
    settings = tiny.config(*overrides)
    return Matches(settings.game, settings.evaluation, 1, tiny.CPU, torch.float32)


def beside(run: Matches, tmp_path: Path, lines: list[str]) -> MatchesBeside:
    return MatchesBeside(run, Telemetry(tmp_path / "logs"), lines.append)


def test_they_show_what_matches_in_the_run_would(saved: Path, tmp_path: Path) -> None:
    of_the_run, lines = matches("evaluation.games=4"), []
    one = beside(of_the_run, tmp_path, lines)
    one.start(saved, 7, 12.5)
    assert one.are_on and (one.step, one.begun, one.concluded) == (7, 12.5, 0.0)
    one.conclude(wait=True)
    assert not one.are_on and one.concluded == 12.5
    one.conclude()  # nothing is left
    alone = matches("evaluation.games=4")
    ((_, line, _, numbers),) = alone.play(checkpoint.load(saved), 4)
    (record,) = tiny.lines(tmp_path / "logs" / "metrics.jsonl")
    assert numbers.items() <= record.items() and record["step"] == 7
    assert of_the_run.pool == alone.pool != []
    assert lines[:2] == ["waiting for the matches of step 7", "step 7:"]
    assert [one.rpartition(",")[0] for one in lines[2:]] == [line.rpartition(",")[0]]  # but for the seconds


class Telling(Matches):
    def play(self, checkpoint: checkpoint.Checkpoint, num_games: int) -> Iterator[tuple]:
        yield "", f"{kernels.in_use(self.device)}, {torch.get_num_threads()} thread", None, {}


def test_their_process_is_set_up_as_the_run_is(tmp_path: Path) -> None:
    settings, lines = tiny.config("run.kernels=plain", "run.threads=2"), []
    weights = tiny.network(settings).state_dict()
    checkpoint.save(tmp_path / "plain.pt", checkpoint.Checkpoint(settings, 7, weights, weights))
    one = beside(Telling(settings.game, settings.evaluation, 1, tiny.CPU, torch.float32), tmp_path, lines)
    one.start(tmp_path / "plain.pt", 7, 1.0)
    one.conclude(wait=True)
    with kernels.plain():
        assert lines[-1] == f"{kernels.in_use(tiny.CPU)}, 1 thread"


def test_they_end_with_a_run_that_fails_and_keep_their_checkpoint_till_then(tmp_path: Path, monkeypatch) -> None:
    started, rounds, play = [], [], run.Run._round

    def fails(self: run.Run) -> None:
        rounds.append(play(self))
        started.append((self.beside._process, self.beside.path))
        if len(rounds) == 4:
            assert self.beside.path.exists() and len(checkpoint.paths(self.directory)) == 2
            raise InputError("a canary")

    monkeypatch.setattr(run.Run, "_round", fails)
    options = "evaluation.opponents=['mcts:100000']", "evaluation.every_iterations=1", "pipeline.keep_checkpoints=1"
    with pytest.raises(InputError, match="a canary"):
        tiny.run(tmp_path, *options, "pipeline.iterations=9")
    assert started[0] == (None, None) and not started[-1][0].is_alive()


def test_a_checkpoint_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    lines = []
    one = beside(matches(), tmp_path, lines)
    one.start(tmp_path / "gone.pt", 7, 1.0)
    one.conclude(wait=True)
    assert not one.are_on and "no matches of step 7" in lines[-1] and "gone.pt" in lines[-1]


def test_a_killed_process_is_a_sentence(saved: Path, tmp_path: Path) -> None:
    lines = []
    one = beside(matches("evaluation.opponents=['mcts:100000']"), tmp_path, lines)
    one.start(saved, 7, 1.0)
    one.conclude()
    assert one.are_on and not lines
    os.kill(one._process.pid, signal.SIGKILL)
    one.conclude(wait=True)
    assert not one.are_on and lines[-1] == "warning: no matches of step 7: their process ended with -9"


def test_a_run_outlives_what_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(MatchesBeside, "_take", lambda self: "their process ended with -9")
    folder = tiny.run(tmp_path, "evaluation.every_iterations=1")
    assert checkpoint.newest(folder).counters["rounds"] == 2
    assert "no matches of step" in "".join(capsys.readouterr())


def test_they_end_with_a_run_that_is_killed(saved: Path, tmp_path: Path) -> None:
    program = f"""if __name__ == "__main__":
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_beside; from pathlib import Path
        run = test_beside.matches("evaluation.opponents=['mcts:100000']")
        beside = test_beside.beside(run, Path({str(tmp_path)!r}), [])
        beside.start(Path({str(saved)!r}), 7, 0.0)
        print(beside._process.pid, flush=True); beside.conclude(wait=True)"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as run:
        played = int(run.stdout.readline())
        run.kill()
        try:
            run.communicate(timeout=60)  # the pipe is open until the last process that holds it has ended
        except subprocess.TimeoutExpired:
            os.kill(played, signal.SIGKILL)
            raise AssertionError("the matches of a dead run go on") from None
