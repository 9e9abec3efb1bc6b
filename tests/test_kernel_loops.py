"""How kernels run: on several threads, interrupted, and kept on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("numba")
loops = pytest.importorskip("zerogo.kernels.cpu.loops")


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_every_game_is_visited_once(two_threads: None) -> None:
    for num_games in (0, 1, 2 * loops.FEWEST, 5 * loops.FEWEST + 3):
        visits = torch.zeros(num_games, dtype=torch.int64)

        def loop(first: int, last: int, visits: torch.Tensor = visits) -> None:
            visits[first:last] += 1

        loops.over_games(loop, num_games)
        assert visits.tolist() == [1] * num_games


def test_an_error_on_any_thread_is_raised(two_threads: None) -> None:
    def loop(first: int, last: int, at: int) -> None:
        if first == at:
            raise IndexError("beyond")

    for at in (0, loops.FEWEST):
        with pytest.raises(IndexError, match="beyond"):
            loops.over_games(loop, 2 * loops.FEWEST, at)


def test_several_threads_may_ask_at_once(two_threads: None) -> None:
    totals = torch.zeros(4, dtype=torch.int64)

    def ask(number: int) -> None:
        for _ in range(50):
            seen = []
            loops.over_games(lambda first, last, seen=seen: seen.append(last - first), 2 * loops.FEWEST)
            totals[number] += sum(seen)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals.tolist() == [50 * 2 * loops.FEWEST] * 4


class Interrupted(Exception):
    """What the signal of the test raises."""


def test_no_signal_is_lost(two_threads: None, capfd: pytest.CaptureFixture[str]) -> None:
    """A signal that comes while C calls back is raised as any other, and never printed and forgotten."""
    came = raised = 0

    def handle(_number: int, _frame: object) -> None:
        nonlocal came
        came += 1
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handle)
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                while True:
                    loops.over_games(lambda first, last: None, 2 * loops.FEWEST)
            except Interrupted:
                raised += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came == raised == 300 and capfd.readouterr().err == ""


def test_compiled_kernels_are_kept_where_one_may_write(tmp_path: Path) -> None:
    """In the folder that NUMBA_CACHE_DIR names; those of earlier sources go; and without any such folder kernels work
    all the same.
    """
    old, other = tmp_path / "zerogo-kernels-0123456789abcdef", tmp_path / "zerogo-kernels-of-mine"
    old.mkdir()
    other.mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        "from zerogo.kernels.cpu import loops\nprint(loops._folder())\nprint(loops.kernel(lambda x: x + 1)(1))"
    )
    for home, is_kept in ((tmp_path, True), (Path("/proc/nowhere"), False)):
        settings = os.environ | {"NUMBA_CACHE_DIR": str(home), "PYTHONPATH": str(Path(__file__).parent.parent)}
        done = subprocess.run((sys.executable, str(script)), env=settings, capture_output=True, text=True)
        folder, number = done.stdout.split()
        assert number == "2" and (folder.startswith(str(home / "zerogo-kernels-")) if is_kept else folder == "None"), (
            done.stderr
        )
    assert not old.exists() and other.exists()
