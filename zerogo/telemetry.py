"""What a run tells while it goes: TensorBoard files, the same numbers as JSON lines, rate meters and a progress line.

TensorBoard and tqdm are imported when they are first needed, so that playing a game needs neither.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from zerogo.errors import InputError

METRICS_FILE = "metrics.jsonl"


class Telemetry:
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
        keep_complete_lines(self.path, resume_step)
        self._lines: TextIO = open(self.path, "a", encoding="utf-8")
        self._resume_step = resume_step
        self._writer: Any = None

    @property
    def writer(self) -> Any:
        """The TensorBoard writer, made at its first use."""
        if self._writer is None:
            from torch.utils.tensorboard import (
                SummaryWriter,
            )  # costs a second, and a run without scalars never needs it

            # A purge tells TensorBoard to forget the steps that an interrupted process had already written.
            purge_step = None if self._resume_step is None else self._resume_step + 1
            self._writer = SummaryWriter(str(self.directory), purge_step=purge_step, flush_secs=30)
        return self._writer

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes numbers (or one-element tensors, which are fetched from their device) named "area/quantity_unit" for a
        step.
        """
        numbers = {name: float(value) for name, value in values.items()}
        for name, number in numbers.items():
            self.writer.add_scalar(name, number, step)
        record = {"step": int(step), "time": round(time.time(), 3)}
        record |= {name: number if math.isfinite(number) else None for name, number in numbers.items()}
        self._lines.write(json.dumps(record) + "\n")
        self._lines.flush()

    def image(self, tag: str, array: Any, step: int) -> None:
        """Writes a picture: a pillow image or an array uint8 [height, width] or [height, width, 3]."""
        import numpy

        pixels = numpy.asarray(array)
        self.writer.add_image(tag, pixels, step, dataformats="HW" if pixels.ndim == 2 else "HWC")

    def histogram(self, tag: str, values: Any, step: int) -> None:
        """Writes the distribution of an array's or a tensor's values; no values write nothing."""
        if len(values):
            self.writer.add_histogram(tag, values, step)

    def text(self, tag: str, text: str, step: int = 0) -> None:
        """Writes text, which TensorBoard shows as Markdown."""
        self.writer.add_text(tag, text, step)

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

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Returns the complete records of a `metrics.jsonl` in their order; a missing file has none."""
    try:
        lines = Path(path).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    return [record for record in map(_record, lines) if record is not None]


def keep_complete_lines(path: Path, last_step: int | None) -> None:
    """Rewrites a JSON-lines file without incomplete lines and, with a last step, without records of later ones.
    Atomic.
    """
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [
        line
        for line in lines
        if (record := _record(line)) is not None and (last_step is None or record["step"] <= last_step)
    ]
    if len(kept) == len(lines):
        return
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        file.writelines(kept)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _record(line: bytes) -> dict[str, Any] | None:
    """Returns the record of one complete line, or None."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None


class Rate:
    """Counts things and says how many came per second since it was last asked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.total = 0
        self._seen = 0
        self._since = clock()

    def add(self, count: int = 1) -> None:
        """Counts `count` more."""
        self.total += count

    def take(self) -> float:
        """Returns the count per second since the last call (or since the start), and begins anew."""
        now = self._clock()
        rate = (self.total - self._seen) / max(now - self._since, 1e-9)
        self._seen, self._since = self.total, now
        return rate


class Progress:
    """A line that says how far a job is, with its rate and the time left: a bar on a terminal, plain lines in a log
    file.

    total: the amount of work in `unit`s, None where nobody knows. done: what an earlier process had done, which doesn't
    count for the rate. every: seconds between plain lines. Use it as a context manager, so that a bar ends with a line
    break."""

    def __init__(
        self,
        label: str,
        total: float | None,
        unit: str,
        done: float = 0,
        stream: TextIO | None = None,
        every: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label, self.total, self.unit, self.every = label, total, unit, every
        self.stream = sys.stderr if stream is None else stream
        self._clock, self._start, self._initial, self._done = clock, clock(), done, done
        self._spoken = -math.inf
        self._values = ""
        self._bar: Any = None
        if self.stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                desc=label, total=total, unit=unit, initial=done, file=self.stream, dynamic_ncols=True, unit_scale=True
            )

    def update(self, done: float, **values: float | str) -> None:
        """Shows that `done` units are done in all, with a few values beside it; often called, seldom printed."""
        self._done = done
        self._values = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
        )
        if self._bar is not None:
            self._bar.set_postfix_str(self._values, refresh=False)
            self._bar.update(done - self._bar.n)
        elif self._clock() - self._spoken >= self.every:
            self._speak()

    def note(self, text: str) -> None:
        """Prints a line of its own without breaking the bar."""
        if self._bar is not None:
            self._bar.write(text, file=self.stream)
        else:
            print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Shows the last state and ends the line; a second call does nothing."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        elif self._spoken > -math.inf and self.stream is not None:
            self._speak()
        self._spoken = -math.inf

    def line(self) -> str:
        """Returns the plain line, such as "train: 1200/5000 games, 24 %, 31.2 games/s, 2:02 left, loss 1.23"."""
        seconds = max(self._clock() - self._start, 1e-9)
        rate = (self._done - self._initial) / seconds
        done = (
            f"{self._done:.6g}" if self._done == int(self._done) else f"{self._done:.1f}"
        )  # parts of games come with many digits
        parts = [f"{done} {self.unit}" if self.total is None else f"{done}/{self.total:.6g} {self.unit}"]
        if self.total:
            parts.append(f"{100 * self._done / self.total:.0f} %")
        parts.append(f"{rate:.3g} {self.unit}/s")
        if self.total and rate > 0:
            parts.append(f"{_clock_face((self.total - self._done) / rate)} left")
        return f"{self.label}: " + ", ".join(parts + ([self._values] if self._values else []))

    def _speak(self) -> None:
        print(self.line(), file=self.stream, flush=True)
        self._spoken = self._clock()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _clock_face(seconds: float) -> str:
    """Returns a duration as "h:mm:ss" or "m:ss"."""
    minutes, seconds = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
