"""What a run tells: readable by TensorBoard and by JSON readers, without gaps or repeats after an interruption."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import tiny
import torch

from zerogo.telemetry import METRICS_FILE, Progress, Telemetry

ROOT = Path(__file__).parent.parent


def events(directory: Path) -> object:
    """Returns TensorBoard's view of a directory."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(directory), size_guidance={"scalars": 0}).Reload()


def test_scalars_reach_both(tmp_path: Path) -> None:
    with Telemetry(tmp_path) as telemetry:
        telemetry.scalars(1, {"train/loss": torch.tensor(1.5), "selfplay/games": 7})
        telemetry.scalars(2, {"train/loss": math.nan})
    records = tiny.lines(tmp_path / METRICS_FILE)
    assert [(record["step"], record["train/loss"]) for record in records] == [(1, 1.5), (2, None)]
    assert records[0]["selfplay/games"] == 7.0 and records[0]["time"] > 1.7e9
    for line in (tmp_path / METRICS_FILE).read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # NaN is not JSON
    assert [(event.step, event.value) for event in events(tmp_path).Scalars("train/loss")][0] == (1, 1.5)


def test_pictures(tmp_path: Path) -> None:
    with Telemetry(tmp_path) as telemetry:
        telemetry.image("board/final", numpy.zeros((6, 8, 3), dtype=numpy.uint8), 1)
        telemetry.flush()
        assert events(tmp_path).Tags()["images"] == ["board/final"]
    telemetry.close()


def test_resume_drops_what_comes_again(tmp_path: Path) -> None:
    with Telemetry(tmp_path) as telemetry:
        for step in range(1, 6):
            telemetry.scalars(step, {"a": step})
    with Telemetry(tmp_path, resume_step=3) as telemetry:
        telemetry.scalars(4, {"a": 40.0})
    expected = [(1, 1), (2, 2), (3, 3), (4, 40)]
    assert [(record["step"], record["a"]) for record in tiny.lines(tmp_path / METRICS_FILE)] == expected
    assert [(event.step, event.value) for event in events(tmp_path).Scalars("a")] == expected


def test_a_start_without_resume_keeps_all(tmp_path: Path) -> None:
    for step in (1, 2):
        with Telemetry(tmp_path) as telemetry:
            telemetry.scalars(step, {"a": 0.0})
    assert [record["step"] for record in tiny.lines(tmp_path / METRICS_FILE)] == [1, 2]


def test_a_line_cut_short_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / METRICS_FILE
    path.write_bytes(b'{"step": 1, "a": 1.0}\n{"step": 2, "a": 2.0}\n{"step": 3, "a"')
    with Telemetry(tmp_path) as telemetry:
        telemetry.scalars(3, {"a": 3.0})
    assert [record["step"] for record in tiny.lines(path)] == [1, 2, 3]
    path.write_bytes(path.read_bytes() + b"\x00\x00\n[]\n")
    Telemetry(tmp_path).close()
    assert len(tiny.lines(path)) == 3


def test_tensorboard_is_not_imported_before_it_is_needed() -> None:
    text = "import sys, zerogo.telemetry as t; t.Progress('a', 1, 'b'); print('tensorboard' in sys.modules)"
    done = subprocess.run((sys.executable, "-c", text), capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "False\n"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that is set by hand, in seconds."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_progress_in_a_log_file(clock: list[float], capsys: pytest.CaptureFixture) -> None:
    with Progress("train", 1000, "games", done=100) as progress:
        for second in range(0, 21):
            clock[0] = float(second)
            progress.update(100 + 10 * second, loss=1.25)
        progress.note("checkpoint written")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5  # at 0, 10 and 20 seconds, the note, and the end
    assert lines[2] == "train: 300/1000 games, 30 %, 10 games/s, 0:01:10 left, loss 1.25"
    assert lines[3] == "checkpoint written"


def test_progress_without_an_end(clock: list[float]) -> None:
    progress = Progress("play", None, "moves")
    clock[0] = 2.0
    progress.update(4000)
    assert progress.line() == "play: 4000 moves, 2e+03 moves/s"


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("train", 10, "games") as progress:
        progress.update(5, loss=0.5)
        progress.note("hello")
        progress.update(10)
    assert "hello\n" in stream.getvalue() and "100%" in stream.getvalue()


def test_progress_in_parts_of_games_is_short(clock: list[float]) -> None:
    progress = Progress("match", 8, "games")
    progress.update(0.0533333)
    assert progress.line().startswith("match: 0.1/8 games, 1 %")
    progress.update(100000)
    assert progress.line().startswith("match: 100000/8 games")
