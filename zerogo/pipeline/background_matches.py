"""Matches on the way, played beside the run: in a process of their own, at a low priority, so that neither training nor
the device waits for them."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from zerogo import checkpoint, cli
from zerogo.config import with_overrides
from zerogo.errors import InputError
from zerogo.pipeline.measures import Matches
from zerogo.pipeline.rating import measure
from zerogo.pipeline.snapshots import RunState
from zerogo.system.telemetry import Telemetry

NICENESS = 10  # what training leaves of the cores
GAMES_AT_ONCE_ON_GPU, GPU_PERCENT = 32, "25"  # small batches, so that their turns are short; and few multiprocessors


class Played(NamedTuple):
    """What the matches of a checkpoint showed: lines to print, and the charts' numbers by tag."""

    lines: list[str]
    numbers: dict[str, float]


class BackgroundMatches:
    """At most one process that plays the matches of one checkpoint. It ends with the run, however that ends.

    note: prints a line. step: the training step of the newest matches. begun: the run's seconds when they were started.
    state: the run's, whose `last_match` follows when the results are charted: after a kill on the way the matches are
    due again."""

    def __init__(
        self, matches: Matches, telemetry: Telemetry, note: Callable[[str], None], state: RunState | None = None
    ) -> None:
        self.matches, self.telemetry, self.note, self.state = matches, telemetry, note, state or RunState()
        self.step, self.begun = 0, self.state.last_match
        self.path: Path | None = None  # of the checkpoint that they need
        self._process: multiprocessing.Process | None = None

    @property
    def running(self) -> bool:
        """Whether matches were started whose results were not taken yet."""
        return self._process is not None

    def start(self, path: Path, step: int, seconds: float) -> None:
        """Begins the matches of the checkpoint in a file, which must stay until they are concluded."""
        spawn = multiprocessing.get_context("spawn")  # a fork would share CUDA and the threads' locks
        self._results, sender = spawn.Pipe(duplex=False)
        self._process = spawn.Process(target=_play, args=(sender, self.matches, path), daemon=True)
        self._process.start()
        sender.close()  # the child's copy is the only one left, so its death is seen
        self.path, self.step, self.begun = path, step, seconds

    def state_dict(self) -> dict[str, Any]:
        """Returns which matches are on, for a snapshot."""
        return {"path": str(self.path), "step": self.step, "begun": self.begun} if self.running else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begins those of a snapshot again."""
        if state and Path(state["path"]).exists():
            self.start(Path(state["path"]), state["step"], state["begun"])

    def poll_results(self, wait: bool = False) -> dict[str, float] | None:
        """Prints and charts what the matches showed, if they are over, and returns the charts' numbers; None where they
        go on or have failed, which does not end the run.

        wait: stay until they are over."""
        if not self.running or not (wait or self._results.poll()):
            return None
        if not self._results.poll():
            self.note(f"waiting for the matches of step {self.step}")
        result = self._take()
        if isinstance(result, str):
            self.note(f"warning: no matches of step {self.step}: {result}")
        else:
            for line in (f"step {self.step}:", *result.lines):
                self.note(line)
            self.telemetry.scalars(self.step, result.numbers)
        self.path, self._process, self.state.last_match = None, None, self.begun
        return result.numbers if isinstance(result, Played) else None

    def close(self) -> None:
        """Ends matches that nobody will poll_results."""
        if self.running:
            self._process.kill()
            self._process.join()
            self.path = self._process = None

    def _take(self) -> Played | str:
        """Returns what the matches showed once they are over, or a sentence that says why there is nothing."""
        try:
            return self._results.recv()
        except (EOFError, OSError):  # before a message, and within one
            self._process.join()
            return f"their process ended with {self._process.exitcode}"


def _play(results: Connection, matches: Matches, path: Path) -> None:
    """Plays the matches of a checkpoint and sends what they showed, or a sentence that says why they could not be."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, with which this process ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _yield_to_run(matches)
    lines, numbers = [], {}
    try:
        network = checkpoint.load(path)
        cli.set_up(with_overrides(network.config, ["run.threads=1"]))  # the run's device and kernels
        for line, numbers_of_match in measure(matches, network, path):
            lines.append(line)
            numbers |= numbers_of_match
        results.send(Played(lines, numbers))
    except (InputError, OSError) as error:  # a full disk, for one, refuses a line of the pool's file
        results.send(str(error))


def _yield_to_run(matches: Matches) -> None:
    """Leaves most of the cores, or of the GPU, to the run."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    if matches.device.type == "cuda":  # which `nice` does not reach: two processes take turns there, half of it each
        matches.at_once = GAMES_AT_ONCE_ON_GPU
        os.environ.setdefault("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", GPU_PERCENT)  # read when CUDA starts, if MPS runs


def _end_with_parent() -> None:
    """Ends this process when the run has been killed: nobody would read the results."""
    multiprocessing.parent_process().join()
    os._exit(1)
