"""Processes that are killed while they write files: what was there before is whole, and nothing blocks the next one."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny

from zerogo import checkpoint
from zerogo.checkpoint import load, save
from zerogo.errors import InputError
from zerogo.system import runtime
from zerogo.system.runtime import RunLock
from zerogo.system.telemetry import METRICS_FILE, Telemetry

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good checkpoint file."""
    settings = tiny.config()
    save(tmp_path / "good.pt", tiny.fresh_checkpoint(settings, step=7))
    return tmp_path / "good.pt"


HOLD = (
    "import sys, time; from zerogo.system import runtime as r; lock = r.RunLock(sys.argv[1]); "
    + "print('held', flush=True); time.sleep(60)"
)


def start(text: str, *arguments: str) -> subprocess.Popen:
    """Starts a Python process on a text of code."""
    command = (sys.executable, "-c", text, *arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def test_lock_ends_with_a_killed_process(tmp_path: Path) -> None:
    process = start(HOLD, str(tmp_path))
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"in use by process {process.pid}"):
            RunLock(tmp_path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    RunLock(tmp_path).close()


WRITE = """
import sys, time
from zerogo.system.runtime import write_atomically
def writer(file):
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
write_atomically(sys.argv[1], writer)
"""


def kill_when_it_writes(text: str, path: Path) -> None:
    process = start(text, str(path))
    assert process.stdout.readline() == "writing\n"
    process.kill()
    process.wait()


def test_write_atomically_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"whole")
    kill_when_it_writes(WRITE, path)
    assert path.read_bytes() == b"whole" and len(list(tmp_path.iterdir())) == 2
    runtime.remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


WRITE_LINES = """
import sys
from zerogo.system.telemetry import Telemetry
telemetry = Telemetry(sys.argv[1])
telemetry.scalars(1, {"a": 1.0})
print("writing", flush=True)
while True:
    telemetry.scalars(2, {"a": 1.0, "b" * 5000: 2.0})
"""


def test_a_killed_process_loses_no_line(tmp_path: Path) -> None:
    kill_when_it_writes(WRITE_LINES, tmp_path)
    first = (tmp_path / METRICS_FILE).read_bytes().index(b"\n") + 1
    with Telemetry(tmp_path, 1, {METRICS_FILE: first}) as telemetry:
        telemetry.scalars(2, {"a": 2.0})
    assert [record["a"] for record in tiny.lines(tmp_path / METRICS_FILE)] == [1.0, 2.0]


SAVE = """
import sys
from zerogo import checkpoint
old = checkpoint.load(sys.argv[1])
print("ready", flush=True)
for step in range(8, 100000):
    old.step = step
    checkpoint.save(checkpoint.path_of(sys.argv[2], step % 4), old)
"""


@pytest.mark.parametrize("seconds", (0.031, 0.083))
def test_kill_while_saving(file: Path, tmp_path: Path, seconds: float) -> None:
    """Whatever the moment of the kill, every file that has a checkpoint's name is whole."""
    command = (sys.executable, "-c", SAVE, str(file), str(tmp_path / "run"))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.kill()
    assert process.wait() == -9
    assert all(load(path).step >= 8 for path in checkpoint.paths(tmp_path / "run"))
