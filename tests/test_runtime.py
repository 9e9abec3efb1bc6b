"""Devices, locks, atomic files, and what a run tells: one sentence for what is refused, nothing that blocks is left
by a killed process, no gaps or repeats in the charts after it."""

import fcntl
import io
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy
import pytest
import tiny
import torch
from limits import within
from tables import tables

from zerogo.errors import InputError
from zerogo.system import runtime
from zerogo.system.runtime import TOO_LONG, RunLock, write_atomically
from zerogo.system.telemetry import METRICS_FILE, Progress, Telemetry


def test_pick_device() -> None:
    assert runtime.pick_device("cpu") == torch.device("cpu")
    device = runtime.pick_device("auto")
    assert device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert device.type == "cpu" or runtime.describe(device)["device"] == torch.cuda.get_device_name()
    for name in ("gpu", "mps", "cuda:99", ""):
        with pytest.raises(InputError, match=f"device is '{name}'"):
            runtime.pick_device(name)


def test_a_numbered_device_becomes_the_current_one(monkeypatch) -> None:
    """Triton launches there, whatever device the tensors are on."""
    made: list[torch.device] = []
    for name, value in {"is_available": True, "init": None, "device_count": 2, "get_device_capability": (9, 0)}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU {index}")
    monkeypatch.setattr(torch.cuda, "set_device", made.append)
    assert runtime.pick_device("cuda").index is None and runtime.pick_device("cpu").type == "cpu" and not made
    with pytest.raises(InputError, match="torch finds 2 CUDA devices"):
        runtime.pick_device("cuda:2")
    assert runtime.pick_device("cuda:1").index == 1 and made == [torch.device("cuda:1")]
    for built, has_code in (("sm_80 sm_90", True), ("sm_86", False), ("sm_100a", False), ("compute_75", True)):
        monkeypatch.setattr(torch.cuda, "get_arch_list", built.split)
        assert (runtime.lacks_code(1) == "") == has_code
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_100"])
    with pytest.raises(InputError, match="no code for GPU 0 .compute capability 9.0.; use cpu, or another build"):
        runtime.pick_device("cuda")
    with pytest.warns(UserWarning, match="no code for GPU 0 .*, so the CPU is used"):
        assert runtime.pick_device("auto").type == "cpu"
    monkeypatch.setattr(runtime.distributed, "world_size", lambda: 3)
    monkeypatch.setattr(runtime.distributed, "local_rank_and_size", lambda: (2, 3))
    with pytest.raises(InputError, match="3 processes share the work, but torch finds 2 CUDA devices here; use fewer"):
        runtime.pick_device("cuda")


def git(folder: Path, *arguments: str) -> None:
    identity = "-c user.name=t -c user.email=t@example.org -c commit.gpgsign=false -c core.hooksPath=".split()
    subprocess.run(("git", "-C", str(folder), *identity, *arguments), check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_code_revision(tmp_path: Path) -> None:
    (package := tmp_path / "package").mkdir()
    assert runtime.code_revision(package) == "unknown"
    git(tmp_path, "init", "-q")
    assert runtime.code_revision(package) == "unknown"  # no commit yet
    (package / "a.py").write_text("1\n")
    git(tmp_path, "add", "."), git(tmp_path, "commit", "-qm", "a")
    assert len(revision := runtime.code_revision(package)) == 40
    (package / "a.py").write_text("2\n")
    assert runtime.code_revision(package) == revision + "+dirty"
    (tmp_path / ".venv" / "package").mkdir(parents=True)
    assert runtime.code_revision(tmp_path / ".venv" / "package") == "unknown"  # inside somebody else's checkout


def test_lock_excludes_and_frees(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the directory"):
        RunLock(tmp_path / "file" / "run")
    run = tmp_path / "runs" / "a"
    with RunLock(run):
        (run / RunLock.FILE).unlink()  # by hand: the lock is the folder's
        with pytest.raises(InputError, match="already in use"):
            RunLock(run)
    with RunLock(run):
        with pytest.raises(InputError, match=f"{run} is already in use by process {os.getpid()}"):
            RunLock(run)
        RunLock(tmp_path / "runs" / "b").close()
        (run / "empty").mkdir()
    assert not any((tmp_path / "runs").iterdir()), "what was not used is gone"
    is_removed = iter([True, False, True])  # by another process, which made it and was refused
    monkeypatch.setattr(fcntl, "flock", lambda *_: next(is_removed, False) and shutil.rmtree(run))
    with RunLock(run) as lock:
        lock.require_in_place()


def test_write_atomically(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomically(path, b"first")
    with pytest.raises(ZeroDivisionError):
        write_atomically(path, lambda file: (file.write(b"second"), 1 / 0))
    assert path.read_bytes() == b"first"
    write_atomically(path, b"third")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a.bin", b"third")]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    """`printsgf /dev/full` used to put a file in the device's place."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(path, b"game", keep_special=True)
    assert os.read(reader, 9) == b"game" and path.is_fifo()
    os.close(reader)
    write_atomically(path, b"shard")  # as a run does: nobody may ever read the other end
    assert path.read_bytes() == b"shard"


def test_results_without_a_name_get_a_folder_each(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda text: "match-now")  # the same second
    made = [runtime.make_output_folder("match").name for _ in range(2)]
    assert made == ["match-now", "match-now-2"]


def test_script_main(capsys) -> None:
    stopped, long = Mock(side_effect=[InputError("no"), KeyboardInterrupt()]), Path("x" * 300)
    cases = [(lambda: None, 0, ""), (lambda: 3, 3, ""), (stopped, 2, "error: no\n"), (stopped, 130, "interrupted\n")]
    cases.append((long.exists, 2, f"error: {long}: File name too long\n"))
    for main, status, message in cases:
        with pytest.raises(SystemExit) as ended:
            runtime.script_main(main)
        assert (capsys.readouterr().err, ended.value.code) == (message, status)


def piped(*chunks: bytes) -> list[bytes]:
    """Returns the lines of a pipe from which chunks are read in turn, each in parts as large as asked for."""
    waiting = [memoryview(chunk) for chunk in reversed(chunks)]

    def read(handle: int, most: int) -> bytes:
        chunk = waiting.pop() if waiting else memoryview(b"")
        if len(chunk) > most:
            waiting.append(chunk[most:])
        return bytes(chunk[:most])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "read", read)
        return list(runtime.lines_of(0))


def test_a_pipe_gives_whole_lines_of_bytes_and_a_missing_stdin_none(monkeypatch) -> None:
    assert piped(b"a\nb\n") == [b"a", b"b"]
    assert piped(b"na", b"me\n\nver", b"sion") == [b"name", b"", b"version"]  # the last line counts without its end
    assert piped() == []
    assert piped(b"\xff\xfe\n\xc3", b"\xa9\r\n") == [b"\xff\xfe", b"\xc3\xa9\r"]
    long = b"x" * 300_000
    assert piped(long, b"\nname\n") == [long, b"name"]
    with within(8):  # of 100 MB
        assert piped(b"a\n", *[b"x" * 10**6] * 100, b"\nb\n", b"y" * 2**21) == [b"a", TOO_LONG, b"b", TOO_LONG]
    for most in (b"z" * 2**20, b"z" * 65_536 * 2):
        assert piped(most + b"\n" + most) == [most, most]
    monkeypatch.setattr(sys, "stdin", None)
    assert list(runtime.lines_of_stdin()) == []


def test_scalars_reach_both(tmp_path: Path) -> None:
    with Telemetry(tmp_path) as telemetry:
        telemetry.scalars(1, {"train/loss": torch.tensor(1.5), "selfplay/games": 7})
        telemetry.scalars(2, {"train/loss": math.nan})
        telemetry.image("board/final", numpy.zeros((6, 8, 3), dtype=numpy.uint8), 1)
    records = tiny.lines(tmp_path / METRICS_FILE)
    assert [(record["step"], record["train/loss"]) for record in records] == [(1, 1.5), (2, None)]
    assert records[0]["selfplay/games"] == 7.0 and records[0]["time"] > 1.7e9
    for line in (tmp_path / METRICS_FILE).read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # NaN is not JSON
    read = tiny.events(tmp_path)
    assert [(event.step, event.value) for event in read.Scalars("train/loss")][0] == (1, 1.5)
    assert read.Tags()["images"] == ["board/final"]


def test_what_a_snapshot_counts_survives_a_power_cut(tmp_path: Path, monkeypatch) -> None:
    """The folder is synchronised, too: else the files' names may be gone with all that they hold."""
    synchronised, fsync = set(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synchronised.add(os.fstat(handle).st_ino), fsync(handle)))
    with Telemetry(tmp_path / "logs") as telemetry:
        telemetry.scalars(1, {"a": 1.0})
        assert len(telemetry.sizes()) == 2
    assert {path.stat().st_ino for path in (tmp_path, *tmp_path.rglob("*"))} == synchronised


@pytest.mark.parametrize("limit", [0, 1])
def test_resume_drops_what_comes_again(limit: int, tmp_path: Path, monkeypatch) -> None:
    """Also of lines that were trimmed since, where a rollback to an older checkpoint finds them shorter."""
    sizes = None
    with Telemetry(tmp_path) as telemetry:
        for step in range(1, 9):
            telemetry.scalars(step, {"a": step})
            sizes = telemetry.sizes() if step == 6 else sizes
        monkeypatch.setattr("zerogo.system.telemetry.MOST_BYTES", limit or 10**9)
        telemetry.trim()
    with Telemetry(tmp_path, 6, sizes) as telemetry:
        telemetry.scalars(7, {"a": 70.0})
    expected = [*((step, step) for step in range(1, 7)), (7, 70)]
    assert [(record["step"], record["a"]) for record in tiny.lines(tmp_path / METRICS_FILE)] == expected[4 * limit :]
    assert [(event.step, event.value) for event in tiny.events(tmp_path).Scalars("a")] == expected


def test_a_line_cut_short_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / METRICS_FILE
    path.write_bytes(b'{"step": 1, "a": 1.0}\n{"step": 2, "a": 2.0}\n{"step": 3, "a"')
    with Telemetry(tmp_path) as telemetry:
        telemetry.scalars(3, {"a": 3.0})
    assert [record["step"] for record in tiny.lines(path)] == [1, 2, 3]


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """A clock that is set by hand, in seconds."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_progress_in_a_log_file(clock: list[float], capsys) -> None:
    """At 0, 10 and 20 seconds; what is shown already is not repeated at the end."""
    endless, match = Progress("play", None, "moves"), Progress("match", 8, "games")
    match.update(0.0533333)
    assert capsys.readouterr().err.startswith("match: 0.1/8 games, 1 %")
    with Progress("train", 1000, "games", done=100) as progress:
        for second in range(0, 21):
            clock[0] = float(second)
            progress.update(100 + 10 * second, loss=1.25)
        progress.note("checkpoint written")
    lines = capsys.readouterr().err.splitlines()
    assert lines[2:4] == ["train: 300/1000 games, 30 %, 10 games/s, 0:01:10 left, loss 1.25", "checkpoint written"]
    endless.update(4000)
    assert len(lines) == 4 and endless.line() == "play: 4000 moves, 200 moves/s"
    match.update(0.02)
    assert match.line() == "match: 0.0/8 games, 0 %, 3.6 games/h", "too early for the time left"


def test_progress_shows_recent_rates_of_what_is_done_at_present(clock: list[float]) -> None:
    """No games while a run learns, nothing of a slow start, no share above 100 % and no time below 0."""
    run = Progress("5x5", 72, "iterations")
    for second in range(0, 301):  # a start without work, then an iteration in 4 s, half of it play and half learning
        clock[0], over = float(second), max(0, second - 100) / 4
        run.update(over, {"games": 256 * min(int(over), 30), "samples": 1000 * int(over)})
    assert run.line() == "5x5: 50/72 iterations, 69 %, 21.3 games/s, 250 samples/s, 0:01:28 left"
    for second in range(301, 501):
        clock[0] = float(second)
        run.update(72.5, {"games": 7680, "samples": 1000 * second})
    assert run.line() == "5x5: 72.5/72 iterations, 100 %, 1,000 samples/s, 0:00:00 left"


def test_a_bar_moves_on_after_a_long_step(monkeypatch) -> None:
    """A step of two minutes, then steps of a hundredth: tqdm by itself waits until these have summed up to two."""
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("9x9", 600, "min") as progress:
        seconds = progress._bar.start_t
        progress._bar._time = lambda: seconds
        for minutes in (0.0, 2.0, 2.01, 2.02):
            seconds += 1.0
            progress.update(minutes, {"games": 7}, learned=f"{minutes} min")
        progress.note("hello")
    assert all(words in stream.getvalue() for words in ("left, learned 2.02 min", "learned 2.01 min", "hello\n"))


def test_progress_on_a_terminal_without_a_size(monkeypatch) -> None:
    """Plain lines, as in a log file: tqdm shows nothing there."""
    stream = io.StringIO()
    stream.isatty, stream.fileno = lambda: True, lambda: 2
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(os, "get_terminal_size", lambda handle: os.terminal_size((0, 24)))
    with Progress("train", 10, "games") as progress:
        progress.update(5)
        progress.update(7)
    assert progress._bar is None
    five, seven = stream.getvalue().splitlines()
    assert five.startswith("train: 5/10 games, 50 %") and seven.startswith("train: 7/10 games, 70 %")


# Limits of control groups in made-up trees of files (data/tables/cgroups.json), as systemd, SLURM and Docker make them

TABLES = tables("cgroups")


@pytest.mark.parametrize(("cgroup", "mounts", "tree", "free", "cores"), TABLES["cases"].values(), ids=TABLES["cases"])
def test_the_smallest_limit_up_to_the_root(cgroup: str, mounts: str, tree: str, free, cores, tmp_path: Path) -> None:
    texts = {"proc/self/cgroup": cgroup, "proc/self/mountinfo": TABLES["mounts"][mounts]}
    texts |= {f"sys/fs/cgroup/{name}": content for name, content in TABLES["trees"][tree].items()}
    for name, content in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    assert runtime.cgroup_free_memory(tmp_path) == free
    assert runtime.cgroup_num_cores(tmp_path) == cores


def test_plans_and_threads_keep_to_the_limits(tmp_path: Path, monkeypatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(runtime, "cgroup_free_memory", lambda: 4000)
    monkeypatch.setattr(runtime, "cgroup_num_cores", lambda: None)
    monkeypatch.setattr(runtime.os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert runtime.free_bytes(cpu) in (None, 4000) and runtime.usable_cores() == 8
    for number, siblings in enumerate(("0,2", "1,3", "0,2")):
        folder = runtime.make_directory(tmp_path / f"sys/devices/system/cpu/cpu{number}/topology")
        (folder / "thread_siblings_list").write_text(siblings)
    assert (runtime.physical_cores(tmp_path), runtime.physical_cores(tmp_path / "none")) == (2, None)
    monkeypatch.setattr(runtime, "cgroup_free_memory", lambda: None)
    assert runtime.free_bytes(cpu) != 4000
    for quota, cores in ((0.2, 1), (1.5, 2), (3.0, 3), (64.0, 8)):
        monkeypatch.setattr(runtime, "cgroup_num_cores", lambda quota=quota: quota)
        assert runtime.usable_cores() == cores
