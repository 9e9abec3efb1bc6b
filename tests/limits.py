"""How much memory something takes at its peak, for tests of what must stay small."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _peak() -> int:
    return int(re.search(r"VmHWM:\s*(\d+)", STATUS.read_text())[1]) * 1024


@contextmanager
def within(mebibytes: int, seconds: float = 20.0) -> Iterator[None]:
    """Fails where what is done within takes more memory at its peak, or time; memory is seen on Linux alone."""
    begin, before = time.process_time(), 0
    if CLEAR.exists():
        CLEAR.write_text("5")  # the peak is what is resident now
        before = _peak()
    yield
    assert time.process_time() - begin < seconds
    assert not before or _peak() - before < mebibytes * 2**20, f"{(_peak() - before) / 2**20:.0f} MiB"
