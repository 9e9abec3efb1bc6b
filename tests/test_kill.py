"""A run that is killed at any moment goes on from its newest complete checkpoint and loses nothing that was
finished."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import tiny
from killing import WRITING, Watch

ROOT = Path(__file__).parent.parent
KILLS = 12
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}


def started(folder: Path, *more: str) -> subprocess.Popen:
    """Starts train.py as a person would, on the config of tests/tiny.py; resumes where there is something to go on
    with."""
    command = [sys.executable, str(ROOT / "train.py"), "--config", str(folder / "tiny.yaml"), *more]
    resume = ["--resume"] if (folder / "tiny" / "config.yaml").exists() else []
    return subprocess.Popen(
        command + resume, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def killed(folder: Path, delay: float, from_start: bool) -> None:
    """Lets the run go, kills it `delay` seconds after its first line (or after its start), and sees that nothing else
    ended it."""
    process = started(folder)
    if not from_start:
        process.stdout.readline()
    time.sleep(delay)
    assert process.poll() is None, process.communicate()[1]
    process.kill()
    _, errors = process.communicate()
    assert process.returncode == -9 and "Traceback" not in errors, errors


def test_killed_a_dozen_times_at_random_moments(tmp_path: Path) -> None:
    tiny.config(f"run.directory={tmp_path}", *WRITING).dump(tmp_path / "tiny.yaml")
    drawn, watch = random.Random(20), Watch(tmp_path / "tiny")
    for number in range(KILLS):
        is_early = number % 6 == 5  # while it loads and opens its files; else while it plays, learns and saves
        killed(tmp_path, drawn.uniform(0.5, 2.5) if is_early else drawn.uniform(0.0, 1.2), is_early)
        watch.look()
    rounds = watch.newest.counters["rounds"]
    assert rounds > KILLS // 2, "hardly anything happened between the kills"
    process = started(tmp_path, f"pipeline.iterations={rounds + 1}")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    watch.look()
    assert watch.newest.counters["rounds"] == rounds + 1
    assert not list((tmp_path / "tiny").rglob("*.tmp"))


def test_killed_before_and_after_renames_and_removals(tmp_path: Path) -> None:
    """Points that a random moment would seldom meet: 16 drawn ones."""
    command = [sys.executable, str(ROOT / "tests" / "killing.py"), str(tmp_path), "5", "16"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
