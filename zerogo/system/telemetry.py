"""The logs of a run: TensorBoard files, the same numbers as JSON lines, and a progress line.

TensorBoard is imported when it is first needed, as that takes a second."""

import contextlib
import io
import itertools
import json
import math
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from tqdm import tqdm

from zerogo.system.runtime import sync_directory, write_atomically

METRICS_FILE = "metrics.jsonl"
EVENTS = "events.out.tfevents.{}"  # the names that TensorBoard looks for
NUMBER = re.compile(EVENTS.format("").replace(".", r"\.") + r"(\d+)")
LINE = re.compile(rb'\{"step": (\d+).*\}\n')  # a whole one
PLAIN_SECONDS = 10.0  # between two lines of progress in a log file
EARLY = 0.03  # of the work: before so much is done, the time left is not estimated
RECENT_SECONDS = 120.0  # over which rates and the time left are measured
MOST_BYTES = 2_000_000_000  # of a run's logs


class Telemetry(contextlib.AbstractContextManager):
    """Writes a run's numbers and pictures into a directory: TensorBoard event files, and scalars also as lines of
    `metrics.jsonl`.

    Each line is one JSON object: "step", "time" (seconds since 1970) and the scalars of that call, null where not a
    finite number. It reaches the operating system whole when `scalars` returns, so a killed process loses none; a line
    that a power cut left incomplete is dropped at the next start.

    A run that resumes says from where. sizes: what a snapshot or checkpoint kept of `sizes()`, to which the files are
    cut back; None keeps all of them. resume_step: lines of later steps are dropped, which lengths do not find where
    `trim` has shortened the file since, and TensorBoard is told to forget what it may have read of them. call: makes
    the calls that write, for example with retries."""

    def __init__(
        self,
        directory: str | Path,
        resume_step: int | None = None,
        sizes: Mapping[str, int] | None = None,
        call: Callable[..., Any] = lambda work, *arguments: work(*arguments),
    ) -> None:
        self.directory, self.call = Path(directory), call
        self.directory.mkdir(parents=True, exist_ok=True)
        self.path = self.directory / METRICS_FILE
        self.path.touch()
        self._cut_back(sizes, math.inf if resume_step is None else resume_step)
        self._lines = _Appended(self.path, "a")
        self._resume_step, self._events = resume_step, None

    def _cut_back(self, sizes: Mapping[str, int] | None, last_step: float) -> None:
        """Leaves of the files what they held at a snapshot, and of the lines whole ones up to a step."""
        kept = {METRICS_FILE: 0} | (sizes or {})
        for path in [self.path, *self.directory.glob(EVENTS.format("*"))] if sizes is not None else ():
            if path.name not in kept:
                path.unlink()
            elif path.stat().st_size > kept[path.name]:
                os.truncate(path, kept[path.name])
        with open(self.path, "rb") as lines:  # one at a time: after a month they may take a gigabyte
            is_kept = [match is not None and int(match[1]) <= last_step for match in map(LINE.fullmatch, lines)]
        if not all(is_kept):
            self._keep(is_kept)

    def _keep(self, is_kept: Sequence[bool]) -> None:
        """Leaves only some of the lines."""

        def _copy(file: BinaryIO) -> None:
            with open(self.path, "rb") as lines:
                file.writelines(itertools.compress(lines, is_kept))

        self.call(write_atomically, self.path, _copy)

    def sizes(self) -> dict[str, int]:
        """Returns how many bytes each file holds, all of them on the disk: what a snapshot keeps."""
        for file in filter(None, (self._lines, self._events)):
            os.fsync(file.fileno())
        for folder in (self.directory, self.directory.parent):  # without which a power cut takes the files' names
            sync_directory(folder)
        paths = [self.path, *self.directory.glob(EVENTS.format("*"))]
        return {path.name: path.stat().st_size for path in paths}

    def trim(self) -> None:
        """Drops the oldest half of the lines and the oldest event files where the logs have more than `MOST_BYTES`. An
        event file is closed when it has an eighth of them."""
        if self._events and os.fstat(self._events.fileno()).st_size > MOST_BYTES // 8:
            os.fsync(self._events.fileno())
            self._events.close()
            self._events = self._resume_step = None
        sizes = {path: path.stat().st_size for path in sorted(self.directory.glob(EVENTS.format("*")))}
        for path in list(sizes)[:-1]:
            if sum(sizes.values()) > MOST_BYTES // 2:
                path.unlink()
                del sizes[path]
        if os.fstat(self._lines.fileno()).st_size > MOST_BYTES // 2:
            with open(self.path, "rb") as lines:
                number = sum(1 for _ in lines)
            self._keep([k >= number // 2 for k in range(number)])
            self._lines.close()
            self._lines = _Appended(self.path, "a")

    def _write_events(self, step: int, summaries: Iterable[Any], seconds: float) -> None:
        """Writes TensorBoard's records, all at once. The files' numbers rise, whatever the clock does, as TensorBoard
        reads them in the order of their names."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        stream, events = io.BytesIO(), [Event(wall_time=seconds, step=step, summary=one) for one in summaries]
        if self._events is None:
            numbers = [int(digits[0]) for path in self.directory.iterdir() if (digits := NUMBER.findall(path.name))]
            name = EVENTS.format(f"{max([int(seconds), *(n + 1 for n in numbers)]):010d}")
            self._events = self.call(_Appended, self.directory / name, "a")
            events.insert(0, Event(wall_time=seconds, file_version="brain.Event:2"))
            if self._resume_step is not None:
                forget = SessionLog(status=SessionLog.START)
                events.insert(1, Event(wall_time=seconds, step=self._resume_step + 1, session_log=forget))
        writer = RecordWriter(stream)
        for event in events:
            writer.write(event.SerializeToString())
        self.call(self._events.append, stream.getvalue())

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes a step's numbers (or one-element tensors, from their device), named "area/quantity_unit"."""
        from torch.utils.tensorboard.summary import scalar  # costs a second, which a run without scalars never needs

        numbers, now = {name: float(value) for name, value in values.items()}, time.time()
        self._write_events(step, (scalar(name, number) for name, number in numbers.items()), now)
        record = {"step": int(step), "time": round(now, 3)}
        record |= {name: number if math.isfinite(number) else None for name, number in numbers.items()}
        self.call(self._lines.append, (json.dumps(record) + "\n").encode())

    def image(self, tag: str, pixels: Any, step: int) -> None:
        """Writes a picture: an array uint8 [height, width, 3]."""
        from torch.utils.tensorboard.summary import image

        self._write_events(step, [image(tag, pixels, dataformats="HWC")], time.time())

    def close(self) -> None:
        """Closes the files; a second call does nothing."""
        for file in (self._lines, self._events):
            if file is not None:
                file.close()
        self._events = None

    def __exit__(self, *_: object) -> None:
        self.close()


class _Appended(io.FileIO):
    """A file, opened with mode "a", that grows by whole records: what the disk refuses in the middle of one is taken
    off again."""

    def append(self, record: bytes) -> None:
        """Writes a record. Raises OSError, with the file's name, and leaves the file as it was."""
        before = os.fstat(self.fileno()).st_size
        try:
            while record:
                record = record[self.write(record) :]
        except OSError as error:
            self.truncate(before)
            raise OSError(error.errno, error.strerror, str(self.name)) from None


def _has_room(stream: Any) -> bool:
    """Returns whether a stream is a terminal that can show a bar: not where it says that it has no rows or columns, as
    those of docker and `script` do."""
    with contextlib.suppress(OSError):  # no file, or no size
        return stream.isatty() and min(os.get_terminal_size(stream.fileno())) > 0
    return stream.isatty()


class Progress(contextlib.AbstractContextManager):
    """A line on stderr that says how far a job is, with its recent rates and the time left: a bar on a terminal, plain
    lines in a log file.

    total: the amount of work in `unit`s, None or 0 if unknown. done: what an earlier process did, which does not count
    for the rates. A context manager, which ends a bar with a line break."""

    _BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"

    def __init__(self, label: str, total: float | None, unit: str, done: float = 0) -> None:
        self.label, self.total, self.unit, self.stream = label, total or None, unit, sys.stderr
        self._start, self._initial, self._done = time.monotonic(), done, done
        # Recent points in time, a second or more apart, with the amounts done until then.
        self._points = deque([(self._start, {unit: done})])
        self._spoken, self._shown, self._values, self._amounts, self._bar = -math.inf, None, "", {unit: done}, None
        if _has_room(self.stream):
            shown = {"desc": label, "total": self.total, "initial": self._within(done), "unit_scale": True}
            # miniters=0: tqdm's own guess waits for as much as its largest step, such as a minute without an update.
            shown |= {"miniters": 0, "bar_format": self._BAR if total else "{desc}: {n_fmt} [{elapsed}{postfix}]"}
            self._bar = tqdm(file=self.stream, dynamic_ncols=True, **shown)

    def update(self, done: float, amounts: Mapping[str, float] | None = None, **values: float | str) -> None:
        """Shows that `done` units are done in all, and a few values; often called, seldom printed. amounts: what was
        done since the line began, such as {"games": 12}, whose rates are shown in place of the unit's."""
        self._done, self._amounts, now = done, {self.unit: done} | dict(amounts or {}), time.monotonic()
        if now >= self._points[-1][0] + 1.0:
            self._points.append((now, self._amounts))
            while len(self._points) > 2 and self._points[1][0] <= now - RECENT_SECONDS:
                self._points.popleft()
        texts = (f"{value:.4g}" if isinstance(value, float) else f"{value}" for value in values.values())
        self._values = ", ".join(map(" ".join, zip(values, texts, strict=True)))
        if self._bar is not None:
            texts = ", ".join([*self._rates(), *self._left(), self._values]).strip(", ")
            self._bar.set_postfix_str(texts, refresh=False)
            self._bar.update(self._within(done) - self._bar.n)
        elif time.monotonic() - self._spoken >= PLAIN_SECONDS:
            self._speak()

    def note(self, text: str) -> None:
        """Prints a line of its own without breaking the bar."""
        if self._bar is not None:
            self._bar.write(text, file=self.stream)
        else:
            print(text, file=self.stream, flush=True)

    def __exit__(self, *_: object) -> None:
        """Shows the last state, unless it is shown already, and ends the line."""
        if self._bar is not None:
            self._bar.close()
        elif self._shown not in (None, self._done):
            self._speak()

    def line(self) -> str:
        """Returns the plain line, such as "train: 1200/5000 games, 24 %, 31.2 games/s, 0:02:02 left, loss 1.23"."""
        is_whole = self._done == int(self._done)
        done = f"{self._done:.0f}" if is_whole else f"{self._done:.1f}"  # parts of games come with many digits
        texts = [f"{done}/{self.total:.10g} {self.unit}" if self.total else f"{done} {self.unit}"]
        texts += [f"{100 * self._within(self._done) / self.total:.0f} %"] if self.total else []
        texts += [*self._rates(), *self._left()]
        return f"{self.label}: " + ", ".join(texts + ([self._values] if self._values else []))

    def _within(self, done: float) -> float:
        """Returns what is done without what goes beyond the total, such as the last minute's matches."""
        return min(done, self.total) if self.total else done

    def _per_second(self, name: str) -> float:
        """Returns an amount's recent rate."""
        start, before = self._points[0]
        return (self._amounts[name] - before.get(name, 0)) / max(time.monotonic() - start, 1e-9)

    def _rates(self) -> list[str]:
        """Returns the recent rates in words, without those of what is not done at present, such as games while a run
        learns."""
        names = [name for name in self._amounts if name != self.unit or len(self._amounts) == 1]
        return [_rate_text(rate, name) for name in names if (rate := self._per_second(name)) > 0]

    def _left(self) -> list[str]:
        """Returns the time left in words, where it can be estimated: the first iterations of a run are slow."""
        if self.total and self.unit != "min" and self._done - self._initial < EARLY * self.total:
            return []
        mean = (self._done - self._initial) / max(time.monotonic() - self._start, 1e-9)
        rate = self._per_second(self.unit) or mean
        if not self.total or rate <= 0:
            return []
        return [f"{timedelta(seconds=int((self.total - self._within(self._done)) / rate))} left"]

    def _speak(self) -> None:
        print(self.line(), file=self.stream, flush=True)
        self._spoken, self._shown = time.monotonic(), self._done


def _rate_text(rate: float, name: str) -> str:
    """Returns a rate in words, such as "3,030 samples/s" or "0.3 games/min"."""
    seconds, unit = (1, "s") if rate >= 0.1 else (60, "min") if 60 * rate >= 0.1 else (3600, "h")
    amount = rate * seconds
    return f"{amount:,.0f} {name}/{unit}" if amount >= 1000 else f"{amount:.3g} {name}/{unit}"
