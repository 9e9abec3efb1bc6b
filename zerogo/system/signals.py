"""What a long run survives: signals that request a snapshot or an exit, output pipes that are closed, and a disk that
is full for some time."""

import contextlib
import errno
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from zerogo.errors import Interrupted
from zerogo.system import distributed

LEAVING, SAVING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT), signal.SIGUSR1
REPEAT_SECONDS = 2.0  # within which a launcher passes on a signal that each process may have had already
PATIENCE = 5.0  # seconds between two tries to write
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What a person or a server may put right.
HEALS = (*NO_ROOM, errno.EROFS, errno.EIO, errno.ESTALE, errno.EACCES)
HEALS += errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH  # of disks on a network


class Signals(contextlib.AbstractContextManager):
    """Handles the signals of this process. The first one that requests an exit is noted, and the run exits after its
    next snapshot. A second one ends the process at once, unless it is the first one passed on by a launcher; no file is
    broken, as each is written under another name and renamed. Signals ignored at the start (nohup) stay ignored.

    exit_signal: the number of the signal that requests an exit, 0 for none. snapshot_requested: whether a signal
    requests a snapshot. log: prints a line for the user; log_io: prints a line about the disk that this process writes
    to. require_folder: called before each attempt to write; raises OSError where the run's folder is gone.
    disk_seconds: how long the main thread has waited for the disk, itself or for a thread that does."""

    def __init__(self, note: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)) -> None:
        self.exit_signal, self.snapshot_requested, self.log, self.log_io = 0, False, note, note
        self.require_folder: Callable[[], None] = lambda: None
        self.disk_seconds, self._awaits_thread = 0.0, False
        self._asked_at: float | None = None  # by a signal to this process itself, not to another rank
        self._at_once, self._may_repeat = 0, distributed.is_launched() or distributed.TORCHRUN in os.environ
        self._before: dict[int, Any] = {}
        self._unraisable: Callable[[Any], object] | None = None

    def __enter__(self) -> "Signals":
        handlers = dict.fromkeys(LEAVING, self._leave) | {SAVING: self._save}
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            for number, handler in handlers.items():
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, handler)
            self._unraisable, sys.unraisablehook = sys.unraisablehook, self._report
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._unraisable is not None:
            sys.unraisablehook = self._unraisable

    def _report(self, unraisable: Any) -> None:
        """Ignores Interrupted in a callback of C code, such as a compiler's; `interruptible` raises it at its end."""
        if unraisable.exc_type is not Interrupted and self._unraisable is not None:
            self._unraisable(unraisable)

    def _leave(self, number: int, _: FrameType | None) -> None:
        if self._asked_at is None:
            self.exit_signal, self._asked_at = number, time.monotonic()
            if self._at_once:
                raise Interrupted(number)
        elif not self._may_repeat or time.monotonic() > self._asked_at + REPEAT_SECONDS:
            os._exit(128 + number)

    def _save(self, number: int, _: FrameType | None) -> None:
        self.snapshot_requested = True

    @property
    def has_request(self) -> bool:
        """Whether a signal requests a snapshot or an exit."""
        return self.snapshot_requested or self.exit_signal != 0

    def leave_if_asked(self) -> None:
        """Raises Interrupted where a signal has requested an exit: called after the snapshot."""
        if self.exit_signal:
            raise Interrupted(self.exit_signal)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Context manager: raises Interrupted on the first signal, without waiting for a snapshot."""
        self.leave_if_asked()
        self._at_once += 1
        try:
            yield
            self.leave_if_asked()
        finally:
            self._at_once -= 1

    def retry_io(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Returns work(*arguments), which writes files and may be repeated. Where the disk refuses to write, says what
        is needed and tries again until it succeeds. In any thread. Raises OSError for an error that waiting does not
        heal (not in `HEALS`), such as a folder that is gone; Interrupted where a signal requests an exit meanwhile."""
        said = ""
        while True:
            try:
                self.require_folder()
                result = work(*arguments)
            except OSError as error:
                if error.errno not in HEALS:
                    raise
                if said != (said := refusal(error)):
                    self.log_io(f"warning: {said}; the run waits and tries again every {PATIENCE:g} s")
                try:
                    self.wait(PATIENCE)
                except Interrupted as interrupted:
                    raise Interrupted(interrupted.number, f"; {said}") from None
                if self._awaits_thread or threading.current_thread() is threading.main_thread():
                    self.disk_seconds += PATIENCE
            else:
                if said:
                    self.log_io("the disk can be written to again; the run continues")
                return result

    def wait_for_thread(self, work: Callable[[], object]) -> None:
        """Calls work(), which waits until another thread has written something."""
        self._awaits_thread = True
        work()
        self._awaits_thread = False

    def wait(self, seconds: float) -> None:
        """Waits, in any thread. Raises Interrupted where a signal has requested an exit or does so meanwhile."""
        self.leave_if_asked()
        for _ in range(10):
            time.sleep(seconds / 10)
            self.leave_if_asked()


def refusal(error: OSError) -> str:
    """Returns a sentence: which file could not be written, why, and what the user can do."""
    place = Path(error.filename) if isinstance(error.filename, str) else None
    needs = "it needs a disk that can be written to"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = "" if place is None else f" ({shutil.disk_usage(existing(place)).free / 1e6:,.0f} MB are free)"
        needs = f"it needs room on the disk{free}"
    elif error.errno == errno.EFBIG:
        needs = "it needs a higher file-size limit (ulimit -f)"
    elif error.errno in (errno.EACCES, errno.EROFS):
        needs = "it needs permission to write there"
    return f"cannot write {place or 'a file'}: {error.strerror or error}; {needs}"


def existing(path: Path) -> Path:
    """Returns the path, or the nearest folder above it that is there."""
    return next((folder for folder in (path, *path.absolute().parents) if folder.exists()), Path("/"))


class PipeSafeStream:
    """A text stream whose reader may go (`| head`, a closed terminal): what is written from then on is dropped. A log
    waits in its buffer for a full disk to have room."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes or drops the text; returns its length."""
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Hands on what was written, or drops it."""
        self._try(self._stream.flush)

    def _try(self, work: Callable[..., Any], *arguments: Any) -> None:
        try:
            work(*arguments)
        except (OSError, ValueError) as error:  # a closed file is a ValueError
            if getattr(error, "errno", None) in NO_ROOM:
                return
            with contextlib.suppress(OSError, ValueError):  # for processes that are started later, too
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


@contextlib.contextmanager
def pipe_safe_streams() -> Iterator[None]:
    """Context manager in which stdout and stderr survive that their readers close."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and PipeSafeStream(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
