"""How much memory something takes at its peak, for tests of what must stay small."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _peak() -> int:
    return int(re.search(r"VmHWM:\s*(\d+)", STATUS.read_text())[1]) * 1024


@contextmanager
def within(mebibytes: int) -> Iterator[None]:
    """Fails where what is done within takes more memory at its peak; seen on Linux alone."""
    before = 0
    if CLEAR.exists():
        CLEAR.write_text("5")  # the peak is what is resident now
        before = _peak()
    yield
    assert not before or _peak() - before < mebibytes * 2**20, f"{(_peak() - before) / 2**20:.0f} MiB"
