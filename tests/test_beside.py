"""Matches beside a run: the run goes on meanwhile, outlives what goes wrong in them, and takes them along when it
dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import torch

from zerogo import checkpoint
from zerogo.errors import InputError
from zerogo.pipeline import Matches
from zerogo.pipeline.beside import MatchesBeside


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


def test_they_show_what_matches_in_the_run_would(saved: Path) -> None:
    of_the_run, beside = matches("evaluation.games=4"), MatchesBeside()
    beside.start(of_the_run, saved, 7, 12.5)
    assert beside.are_on and (beside.step, beside.begun) == (7, 12.5)
    played = beside.take(wait=True)
    assert not beside.are_on and beside.take() is None
    alone = matches("evaluation.games=4")
    ((_, line, result, numbers),) = alone.play(checkpoint.load(saved), 4)
    assert played.numbers == numbers and played.numbers["eval/random_winrate"] == result.win_rate
    assert played.pool == alone.pool != [] and of_the_run.pool == []
    assert [one.rpartition(",")[0] for one in played.lines] == [line.rpartition(",")[0]]  # but for the seconds


def test_a_checkpoint_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    beside = MatchesBeside()
    beside.start(matches(), tmp_path / "gone.pt", 7, 0.0)
    with pytest.raises(InputError, match="gone.pt"):
        beside.take(wait=True)
    assert not beside.are_on


def test_a_killed_process_is_a_sentence(saved: Path) -> None:
    beside = MatchesBeside()
    beside.start(matches("evaluation.opponents=['mcts:100000']"), saved, 7, 0.0)
    assert beside.take() is None, "they go on"
    os.kill(beside._process.pid, signal.SIGKILL)
    with pytest.raises(InputError, match="their process ended with -9"):
        beside.take(wait=True)


def test_a_run_outlives_what_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(MatchesBeside, "take", lambda self, wait=False: self.broken() if self.are_on else None)
    monkeypatch.setattr(MatchesBeside, "start", lambda self, *_: setattr(self, "_process", object()))

    def broken(self: MatchesBeside) -> None:
        self._process = None
        raise InputError("their process ended with -9")

    monkeypatch.setattr(MatchesBeside, "broken", broken, raising=False)
    folder = tiny.run(tmp_path, "evaluation.every_iterations=1")
    assert checkpoint.newest(folder).counters["rounds"] == 2
    assert "no matches of step" in "".join(capsys.readouterr())


def test_they_end_with_a_run_that_is_killed(saved: Path) -> None:
    program = f"""if __name__ == "__main__":
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_beside; from pathlib import Path
        beside = test_beside.MatchesBeside()
        beside.start(test_beside.matches("evaluation.opponents=['mcts:100000']"), Path({str(saved)!r}), 7, 0.0)
        print(beside._process.pid, flush=True); beside.take(wait=True)"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as run:
        played = int(run.stdout.readline())
        run.kill()
        try:
            run.communicate(timeout=60)  # the pipe is open until the last process that holds it has ended
        except subprocess.TimeoutExpired:
            os.kill(played, signal.SIGKILL)
            raise AssertionError("the matches of a dead run go on") from None
