"""Matches on the way, played beside the run: in a process of their own, at a low priority, so that neither training nor
the device waits for them."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from zerogo import checkpoint
from zerogo.errors import InputError
from zerogo.pipeline.measures import Matches

NICENESS = 10  # what training leaves of the cores


class Played(NamedTuple):
    """What the matches of a checkpoint showed: lines to print, charts' numbers by tag, and all of the run's results
    (`Matches.pool`)."""

    lines: list[str]
    numbers: dict[str, float]
    pool: list[list[Any]]


class MatchesBeside:
    """At most one process that plays the matches of one checkpoint. It ends with the run, however that ends.

    step: the checkpoint's training step. begun: the run's seconds at which it was started."""

    def __init__(self) -> None:
        self.step, self.begun = 0, 0.0
        self._process: multiprocessing.Process | None = None

    @property
    def are_on(self) -> bool:
        """Whether matches were started whose results were not taken yet."""
        return self._process is not None

    def start(self, matches: Matches, path: Path, step: int, seconds: float) -> None:
        """Begins the matches of the checkpoint in a file."""
        spawn = multiprocessing.get_context("spawn")  # a fork would share CUDA and the threads' locks
        self._results, sender = spawn.Pipe(duplex=False)
        self._process = spawn.Process(target=_play, args=(sender, matches, path), daemon=True)
        self._process.start()
        sender.close()  # the child's copy is the only one left, so its death is seen
        self.step, self.begun = step, seconds

    def take(self, wait: bool = False) -> Played | None:
        """Returns what the matches showed once they are over, else None. wait: stay until they are.

        Raises InputError where they could not be played."""
        if self._process is None or not (wait or self._results.poll()):
            return None
        try:
            found = self._results.recv()
        except EOFError:
            self._process.join()
            found = f"their process ended with {self._process.exitcode}"
        self._process = None
        if isinstance(found, str):
            raise InputError(found)
        return found


def _play(results: Connection, matches: Matches, path: Path) -> None:
    """Plays the matches of a checkpoint and sends what they showed, or a sentence that says why they could not be."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, with which this process ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    torch.set_num_threads(1)
    lines, numbers = [], {}
    try:
        for _, line, _, found in matches.play(checkpoint.load(path), matches.settings.games):
            lines.append(line)
            numbers |= found
        results.send(Played(lines, numbers, matches.pool))
    except InputError as error:
        results.send(str(error))


def _end_with_parent() -> None:
    """Ends this process when the run has been killed: nobody would read the results."""
    multiprocessing.parent_process().join()
    os._exit(1)
