"""The process that plays matches beside a run is killed, or the run is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import torch

from zerogo import checkpoint
from zerogo.pipeline.matches import BackgroundMatches, Matches
from zerogo.pipeline.snapshots import RunState
from zerogo.system.telemetry import Telemetry

HERE = Path(__file__).parent


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint of a network that has not learned."""
    checkpoint.save(checkpoint.path_of(tmp_path, 7), tiny.fresh_checkpoint(tiny.config(), step=7))
    return checkpoint.path_of(tmp_path, 7)


def matches(*overrides: str) -> Matches:
    return Matches(tiny.config(*overrides), tiny.CPU, torch.float32)


def beside(run: Matches, tmp_path: Path, lines: list[str]) -> BackgroundMatches:
    return BackgroundMatches(run, Telemetry(tmp_path / "logs"), lines.append, RunState())


def test_a_killed_process_is_a_sentence(saved: Path, tmp_path: Path) -> None:
    lines = []
    one = beside(matches("evaluation.opponents=['mcts:100000']"), tmp_path, lines)
    one.start(saved, 7, 1.0)
    one.poll_results()
    assert one.running and not lines
    os.kill(one._process.pid, signal.SIGKILL)
    one.poll_results(wait=True)
    assert not one.running and lines[-1] == "  warning: no matches: their process ended with -9"


def test_they_end_with_a_run_that_is_killed(saved: Path, tmp_path: Path) -> None:
    program = f"""if __name__ == "__main__":
        import sys; sys.path[:0] = {[str(HERE), str(HERE.parent)]!r}
        import test_background_kills as kills; from pathlib import Path
        run = kills.matches("evaluation.opponents=['mcts:100000']")
        beside = kills.beside(run, Path({str(tmp_path)!r}), [])
        beside.start(Path({str(saved)!r}), 7, 0.0)
        print(beside._process.pid, flush=True); beside.poll_results(wait=True)"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as run:
        played = int(run.stdout.readline())
        run.kill()
        try:
            run.communicate(timeout=60)  # the pipe is open until the last process that holds it has ended
        except subprocess.TimeoutExpired:
            os.kill(played, signal.SIGKILL)
            raise AssertionError("the matches of a dead run go on") from None
