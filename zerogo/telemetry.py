"""What a run tells while it goes: TensorBoard files, the same numbers as JSON lines, and a progress line.

TensorBoard is imported when it is first needed, as that takes a second."""

import contextlib
import json
import math
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from zerogo.runtime import write_atomically

METRICS_FILE = "metrics.jsonl"
PLAIN_SECONDS = 10.0  # between two lines of progress in a log file


class Telemetry(contextlib.AbstractContextManager):
    """Writes a run's numbers and pictures into a directory: TensorBoard event files, and scalars also as lines of
    `metrics.jsonl`.

    Each line is one JSON object: "step", "time" (seconds since 1970) and the scalars of that call, null where not a
    finite number. It reaches the operating system whole when `scalars` returns, so a killed process loses none; a line
    that a power cut left incomplete is dropped at the next start.

    resume_step: the step that the run goes on from. What an earlier process wrote for later steps will come again and
    is removed here, from the lines and from TensorBoard's view. None keeps every complete line."""

    def __init__(self, directory: str | Path, resume_step: int | None = None) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.path = self.directory / METRICS_FILE
        _keep_complete_lines(self.path, resume_step)
        self._lines: TextIO = open(self.path, "a", encoding="utf-8")
        self._resume_step = resume_step
        self._writer: Any = None

    @property
    def writer(self) -> Any:
        """The TensorBoard writer, made at its first use."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter  # costs a second, which a run without scalars never needs

            # A purge tells TensorBoard to forget the steps that an interrupted process had already written.
            purge_step = None if self._resume_step is None else self._resume_step + 1
            self._writer = SummaryWriter(str(self.directory), purge_step=purge_step, flush_secs=30)
        return self._writer

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes a step's numbers (or one-element tensors, from their device), named "area/quantity_unit"."""
        numbers = {name: float(value) for name, value in values.items()}
        for name, number in numbers.items():
            self.writer.add_scalar(name, number, step)
        record = {"step": int(step), "time": round(time.time(), 3)}
        record |= {name: number if math.isfinite(number) else None for name, number in numbers.items()}
        self._lines.write(json.dumps(record) + "\n")
        self._lines.flush()

    def image(self, tag: str, pixels: Any, step: int) -> None:
        """Writes a picture: an array uint8 [height, width, 3]."""
        self.writer.add_image(tag, pixels, step, dataformats="HWC")

    def flush(self) -> None:
        """Makes everything written so far readable by others."""
        self._lines.flush()
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Writes out and closes the files; a second call does nothing."""
        self._lines.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __exit__(self, *_: object) -> None:
        self.close()


def _keep_complete_lines(path: Path, last_step: int | None) -> None:
    """Rewrites a JSON-lines file without incomplete lines and records of steps after the last one. Atomic."""
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    steps = [_step(line) for line in lines]
    wanted = math.inf if last_step is None else last_step
    kept = [line for line, step in zip(lines, steps, strict=True) if step is not None and step <= wanted]
    if len(kept) < len(lines):
        write_atomically(path, lambda file: file.writelines(kept))


def _step(line: bytes) -> int | None:
    """Returns the step of a complete line's record, or None."""
    try:
        record = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    step = record.get("step") if isinstance(record, dict) else None
    return step if isinstance(step, int) else None


class Progress(contextlib.AbstractContextManager):
    """A line on stderr that says how far a job is, with its rate and the time left: a bar on a terminal, plain lines in
    a log file.

    total: the amount of work in `unit`s, None or 0 where nobody knows. done: what an earlier process had done, which
    doesn't count for the rate. A context manager, which ends a bar with a line break."""

    _BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"

    def __init__(self, label: str, total: float | None, unit: str, done: float = 0) -> None:
        self.label, self.total, self.unit, self.stream = label, total, unit, sys.stderr
        self._start, self._initial, self._done = time.monotonic(), done, done
        self._spoken, self._values, self._amounts, self._bar = -math.inf, "", {}, None
        if self.stream.isatty():
            shown = {"desc": label, "total": total or None, "initial": done, "unit_scale": True}
            # miniters=0: tqdm's own guess waits for as much as its largest step, such as a minute without an update.
            shown |= {"miniters": 0, "bar_format": self._BAR if total else "{desc}: {n_fmt} [{elapsed}{postfix}]"}
            self._bar = tqdm(file=self.stream, dynamic_ncols=True, **shown)

    def update(self, done: float, amounts: Mapping[str, float] | None = None, **values: float | str) -> None:
        """Shows that `done` units are done in all, with a few values beside it; often called, seldom printed. amounts:
        what was done since the line began, such as {"games": 12}, of which the rates are shown and not the unit's."""
        self._done, self._amounts = done, amounts or {}
        texts = (f"{value:.4g}" if isinstance(value, float) else f"{value}" for value in values.values())
        self._values = ", ".join(map(" ".join, zip(values, texts, strict=True)))
        if self._bar is not None:
            self._bar.set_postfix_str(", ".join(filter(None, (self._rates(), self._values))), refresh=False)
            self._bar.update(done - self._bar.n)
        elif time.monotonic() - self._spoken >= PLAIN_SECONDS:
            self._speak()

    def note(self, text: str) -> None:
        """Prints a line of its own without breaking the bar."""
        if self._bar is not None:
            self._bar.write(text, file=self.stream)
        else:
            print(text, file=self.stream, flush=True)

    def __exit__(self, *_: object) -> None:
        """Shows the last state and ends the line."""
        if self._bar is not None:
            self._bar.close()
        elif self._spoken > -math.inf:
            self._speak()

    def line(self) -> str:
        """Returns the plain line, such as "train: 1200/5000 games, 24 %, 31.2 games/s, 0:02:02 left, loss 1.23"."""
        rate = (self._done - self._initial) / self._seconds
        is_whole = self._done == int(self._done)
        done = f"{self._done:.6g}" if is_whole else f"{self._done:.1f}"  # parts of games come with many digits
        parts = [f"{done}/{self.total:.6g} {self.unit}" if self.total else f"{done} {self.unit}"]
        parts += [f"{100 * self._done / self.total:.0f} %"] if self.total else []
        parts.append(self._rates())
        if self.total and rate > 0:
            parts.append(f"{timedelta(seconds=max(0, int((self.total - self._done) / rate)))} left")
        return f"{self.label}: " + ", ".join(parts + ([self._values] if self._values else []))

    @property
    def _seconds(self) -> float:
        return max(time.monotonic() - self._start, 1e-9)

    def _rates(self) -> str:
        amounts = self._amounts or {self.unit: self._done - self._initial}
        return ", ".join(f"{amount / self._seconds:.3g} {name}/s" for name, amount in amounts.items())

    def _speak(self) -> None:
        print(self.line(), file=self.stream, flush=True)
        self._spoken = time.monotonic()
