"""Signals, closed pipes and limits of the kernel that come to programs while they run: each ends, or goes on, as it
should."""

import contextlib
import gc
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import tiny
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from zerogo import checkpoint, sgf
from zerogo.errors import Interrupted
from zerogo.kernels import cpu as loops
from zerogo.pipeline import snapshots
from zerogo.system.runtime import write_atomically
from zerogo.system.signals import Signals
from zerogo.system.telemetry import Telemetry

ROOT = Path(__file__).parents[2]


@dataclass
class Process:
    """An engine as a process of its own; `ask` sends a line and waits for its reply, up to a minute."""

    arguments: Sequence[str]
    _lines: queue.Queue[str | None] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        command = (sys.executable, "-m", "zerogo.gtp", *self.arguments)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, cwd=ROOT, **pipes)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def send(self, text: str) -> None:
        """Writes text in one go."""
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def line(self) -> str:
        """Returns the next line that the engine writes."""
        line = self._lines.get(timeout=60)
        assert line is not None, f"the engine has gone: {self.process.stderr.read()}"
        return line

    def reply(self) -> str:
        """Returns the next whole reply."""
        return "\n".join(iter(self.line, ""))

    def ask(self, line: str) -> str:
        """Returns the reply to a line."""
        self.send(line + "\n")
        return self.reply()

    def end(self) -> tuple[int, str]:
        """Closes the engine's input and returns its exit status and what it wrote to stderr."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def start(*arguments: str) -> subprocess.Popen:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen((sys.executable, *arguments), cwd=ROOT, text=True, **pipes)


def test_a_signal_that_is_ignored_stays_ignored_and_long_work_ends_at_once() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Signals() as taken:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not taken.has_request
            with pytest.raises(Interrupted), taken.interruptible():
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(60)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_program_goes_on_without_its_readers_and_leaves_when_it_is_told_to(tmp_path: Path) -> None:
    tiny.config("pipeline.iterations=0", "pipeline.snapshot_seconds=600").dump(tmp_path / "endless.yaml")
    command = [sys.executable, "-m", "zerogo", "train", "--config", "endless.yaml"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=env) as process:
        process.stdout.readline()
        process.stdout.close()
        process.stderr.close()
        folder, start = tmp_path / "checkpoints" / "tiny", time.monotonic()
        while process.poll() is None and not checkpoint.paths(folder) and time.monotonic() - start < 300:
            time.sleep(0.1)
        time.sleep(2)  # so that the snapshot beside the checkpoint is old; one that is under way now will do
        told, start = time.time() - 0.5, time.monotonic()
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM and time.monotonic() - start < 10
        assert checkpoint.paths(folder) and snapshots.paths(folder)[-1].stat().st_mtime > told


def test_a_limit_of_the_size_of_files_is_waited_for(tmp_path: Path, monkeypatch) -> None:
    """The kernel's own refusal, in a process of its own; part of a record that was written is taken off again."""
    if (child := os.fork()) == 0:
        status = 1
        with contextlib.suppress(BaseException):
            telemetry, lifted = Telemetry(tmp_path, call=(taken := Signals(print)).retry_io), []
            limit = resource.getrlimit(resource.RLIMIT_FSIZE)
            taken.wait = lambda _: (lifted.append(1), resource.setrlimit(resource.RLIMIT_FSIZE, limit))
            for step in range(3):
                resource.setrlimit(resource.RLIMIT_FSIZE, (500 * step + 300, limit[1]))
                telemetry.scalars(step, {"a" * 200: step, "b" * 200: step})
            taken.retry_io(write_atomically, tmp_path / "large", lambda file: torch.save(torch.zeros(9999), file))
            telemetry.close()
            status = 0 if lifted else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [record["step"] for record in tiny.lines(tmp_path / "metrics.jsonl")] == [0, 1, 2]
    assert [event.step for event in EventAccumulator(str(tmp_path)).Reload().Scalars("a" * 200)] == [0, 1, 2]


class Rung(Exception):
    """What the signal of the test raises."""


def test_no_signal_is_lost(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A signal that comes while C calls back is raised as any other, and never printed and forgotten."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    came = raised = 0

    def handle(_number: int, _frame: object) -> None:
        nonlocal came
        came += 1
        raise Rung

    before = signal.signal(signal.SIGALRM, handle)
    gc.disable()  # what is raised in a callback of the collector, as Hypothesis has one, is printed and forgotten
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                late = time.monotonic() + 10
                while time.monotonic() < late:  # a lost one fails the test and does not hold it
                    loops.over_games(lambda first, last: None, 2 * loops.FEWEST)
            except Rung:
                raised += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert came == raised == 300 and capfd.readouterr().err == ""


def test_ctrl_c_ends_a_process_quietly() -> None:
    process = Process(["--checkpoint", "random"])
    assert process.ask("name") == "= zerogo"
    process.process.send_signal(signal.SIGINT)
    status, errors = process.end()
    assert status == 130 and "Traceback" not in errors


def test_a_reader_that_has_gone_ends_a_process_quietly() -> None:
    command = f"set -o pipefail; {sys.executable} -m zerogo.gtp --checkpoint random | head -n 1"
    done = subprocess.run(("bash", "-c", command), input="name\n" * 20_000, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "= zerogo\n") and "Traceback" not in done.stderr


@pytest.mark.parametrize("cause", ["ctrl-c", "nobody reads"])
def test_it_ends_quietly_while_it_waits_for_a_line(cause: str) -> None:
    process = start("-m", "zerogo.analysis", "--checkpoint", "mcts:8")
    while "Started" not in process.stderr.readline():
        pass
    if cause == "ctrl-c":
        process.send_signal(signal.SIGINT)
    else:
        process.stdout.close()
        process.stdin.write("broken\n")
        process.stdin.flush()
    assert process.wait(timeout=60) == (130 if cause == "ctrl-c" else 1)
    assert process.stderr.read() == ("interrupted\n" if cause == "ctrl-c" else "")


def test_the_process_ends_cleanly(tmp_path: Path) -> None:
    """End of input: status 0. Ctrl-C in the middle: what scripts give, no traceback, and the game is in its file."""
    command = [sys.executable, "-m", "zerogo", "play", "--size", "3", "--white", "human", "--save"]
    typed, path, pipe = "B2\n\xff\n", tmp_path / "b.sgf", subprocess.PIPE
    ended = [*command, str(tmp_path / "a.sgf")]
    done = subprocess.run(ended, input=typed, capture_output=True, cwd=ROOT, encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, "") and "the game is left unfinished" in done.stdout
    assert sgf.read(tmp_path / "a.sgf").moves == [4]
    pipes = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True}
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen([*command, str(path)], cwd=ROOT, env=environment, **pipes)
    process.stdin.write("B2\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    shown, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (130, "interrupted\n")
    assert shown.endswith(f"the game is saved in {path}\n") and sgf.read(path).moves == [4]


def test_script_main_shows_bugs_and_ignores_a_closed_pipe() -> None:
    script = "from zerogo.system.runtime import script_main\ndef main():\n    {}\nscript_main(main)"
    process = start("-c", script.format("return 1 / 0"))
    assert "ZeroDivisionError" in process.communicate()[1] and process.returncode == 1
    process = start("-c", script.format("for _ in range(100000): print('x' * 80)"))
    process.stdout.readline()
    process.stdout.close()
    start_time = time.monotonic()
    assert process.stderr.read() == ""
    assert process.wait() == 1 and time.monotonic() - start_time < 30


def test_a_process(tmp_path: Path) -> None:
    log = tmp_path / "talk.log"
    process = Process(["--checkpoint", "mcts:4", "game.size=3", "--log", str(log)])
    process.send("1 name\r\n2 genmove b\n")  # two in one write
    assert process.reply() == "=1 zerogo" and process.reply().startswith("=2 ")
    assert process.ask("\n# nothing\nshowboard").count("\n") == 7
    process.send("3 lz-analyze b 1\n")
    assert process.line() == "=3"  # and the input ends in the middle of it
    status, errors = process.end()
    assert status == 0 and "GTP ready\n" in errors and "Traceback" not in errors
    written = log.read_text()
    assert "! GTP ready\n" in written and "> 1 name\n< =1 zerogo\n< \n" in written
