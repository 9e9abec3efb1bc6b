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
        (0, signal.SIGKILL, 2, "error: process 0 has ended by SIGKILL, as the system does where memory runs out"),
        (1, signal.SIGILL, 2, "error: process 1 has ended by SIGILL: an instruction that this machine"),
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
        assert not sentence or (lines[-1].startswith(sentence) and sum("has ended" in line for line in lines) < 2)
