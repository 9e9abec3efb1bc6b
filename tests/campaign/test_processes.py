"""What one command has started as two processes ends as one: nothing of it remains, and the run goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny

from zerogo.pipeline import snapshots

SETTINGS = "run.processes=2", "pipeline.iterations=1000000", "pipeline.snapshot_seconds=0.3"


def wait_until(is_so: Callable[[], object], seconds: float = 120) -> None:
    stop = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < stop
        time.sleep(0.05)


def lives(process: int) -> bool:
    """Returns whether a process is there, and no zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("target", "number", "status", "sentence"),
    [
        ("first", signal.SIGINT, 130, "interrupted by SIGINT"),
        ("first", signal.SIGTERM, 143, "interrupted by SIGTERM"),
        ("first", signal.SIGKILL, -9, ""),
        (0, signal.SIGKILL, 2, "error: process 0 ended with SIGKILL (which the system sends when memory runs out)"),
        (1, signal.SIGILL, 2, "error: process 1 ended with SIGILL: an instruction that this machine"),
    ],
)
def test_two_processes_end_as_one(target: object, number: int, status: int, sentence: str, tmp_path: Path) -> None:
    tiny.config(f"run.directory={tmp_path}", *SETTINGS).dump(tmp_path / "tiny.yaml")
    words = [sys.executable, "-m", "zerogo", "train", "--config", str(tmp_path / "tiny.yaml")]
    for resume in ([], ["--resume"]):
        before = len(snapshots.paths(tmp_path / "tiny")) and snapshots.paths(tmp_path / "tiny")[-1].stat().st_mtime_ns
        with open(tmp_path / "said", "w") as said:
            process = subprocess.Popen([*words, *resume], stdout=said, stderr=said)

        def has_saved(before: int = before) -> bool:
            paths = snapshots.paths(tmp_path / "tiny")
            return bool(paths) and paths[-1].exists() and paths[-1].stat().st_mtime_ns > before

        wait_until(has_saved)
        children = [int(one) for one in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        os.kill(children[0], signal.SIGUSR1)  # saves, and ends nothing
        assert len(children) == 2 and all(map(lives, children))
        os.kill(process.pid if target == "first" else children[target], number)
        assert process.wait(120) == status
        wait_until(lambda children=children: not any(map(lives, children)), 30)
        lines = (tmp_path / "said").read_text().splitlines()
        assert lines[0] == "2 processes share the work (run.processes)"
        assert [line for line in lines if "Traceback" in line or "torch/distributed" in line] == []
        assert not sentence or (lines[-1].startswith(sentence) and sum("ended with" in line for line in lines) < 2)


def descendants(process: int) -> list[int]:
    """Returns a process and all that it has started, and they, and so on."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    return [
        process,
        *(one for path in children for child in path.read_text().split() for one in descendants(int(child))),
    ]


@pytest.mark.parametrize("first", [True, False])
def test_a_service_manager_that_signals_every_process_gets_a_snapshot(first: bool, tmp_path: Path) -> None:
    """The command passes the signal on to processes that have had it. The matches in progress are played again."""
    matches = "evaluation.opponents=['mcts:100000']", "evaluation.every_iterations=1"
    tiny.config(f"run.directory={tmp_path}", *SETTINGS, *matches).dump(tmp_path / "tiny.yaml")
    words = [sys.executable, "-m", "zerogo", "train", "--config", str(tmp_path / "tiny.yaml")]
    with open(tmp_path / "said", "w") as said:
        process = subprocess.Popen(words, stdout=said, stderr=said)

    def newest() -> dict:
        start = next(snapshots.starts(tmp_path / "tiny"), None)
        return {} if start is None else start.run["background_matches"]

    wait_until(newest)
    time.sleep(10)  # until the process of the matches is set up
    everyone = descendants(process.pid)
    assert len(everyone) >= 4
    for one in everyone if first else reversed(everyone):
        os.kill(one, signal.SIGTERM)
    assert process.wait(120) == 143
    wait_until(lambda: not any(map(lives, everyone)), 30)
    text = (tmp_path / "said").read_text()
    assert "the run is saved" in text and "no matches" not in text and newest(), text
