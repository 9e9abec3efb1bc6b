"""With how many threads torch works on the CPU: measured while the work goes on."""

import contextlib
import ctypes
from functools import cache

import torch

from zerogo.errors import InputError
from zerogo.system.runtime import usable_cores

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # M_… of malloc.h


class ThreadChoice:
    """Finds out, while work goes on, with how many of torch's CPU threads it goes fastest.

    The threads of one operation wait for each other. Where other processes run, one of them comes late nearly always,
    and all together do less than one alone; on a quiet machine each is a gain. So half or double the number is tried
    now and then, and at once when the work gets slower. largest: the largest number, which is also the first."""

    TRIAL, FIRST_WAIT, LONGEST_WAIT = 0.5, 2.0, 60.0  # seconds of work at one number, and between two trials
    GAIN, LOSS = 1.05, 0.8  # rates by which another number is taken, or a slower machine is noticed

    def __init__(self, largest: int) -> None:
        self.largest = self.now = largest
        self._work = self._seconds = self._since_trial = 0.0
        self._rate: float | None = None  # work a second at the number in use
        self._before: int | None = None  # that number, while another one is tried
        self._wait, self._trials = self.FIRST_WAIT, 0

    def note(self, work: float, seconds: float) -> None:
        """Counts a piece of work, in any unit that is always the same, and changes the number when it is time to."""
        self._work, self._seconds = self._work + work, self._seconds + seconds
        if self.largest == 1 or self._seconds < self.TRIAL:
            return
        rate, earlier = self._work / self._seconds, self._rate
        self._since_trial += self._seconds
        self._work = self._seconds = 0.0
        if self._before is not None:
            self._judge(rate)
        else:
            self._rate = rate
            if self._since_trial >= self._wait or (earlier and rate < self.LOSS * earlier):
                self._try_another()

    def _try_another(self) -> None:
        """Begins a trial of half and of double the number (at most the largest) in turn."""
        others = sorted({max(1, self.now // 2), min(2 * self.now, self.largest)} - {self.now})
        self._before, self._trials = self.now, self._trials + 1
        self._use(others[self._trials % len(others)])

    def _judge(self, rate: float) -> None:
        """Keeps the number that was tried, or goes back to the one before and waits longer until the next trial."""
        is_better = rate > self.GAIN * self._rate
        if is_better:
            self._rate, self._wait = rate, self.FIRST_WAIT
        else:
            self._use(self._before)
            self._wait = min(2 * self._wait, self.LONGEST_WAIT)
        self._before, self._since_trial = None, 0.0

    def _use(self, number: int) -> None:
        self.now = number
        torch.set_num_threads(number)


THREADS = ThreadChoice(1)  # of the whole process, as torch's number is


@cache
def default_threads() -> int:
    """Returns torch's own number of threads, at most the usable cores, as it was before anything here changed it."""
    return min(torch.get_num_threads(), usable_cores())


def set_up_cpu(threads: int) -> int:
    """Sets the CPU threads of torch for the whole process and returns the number; 0 is torch's choice, at most the
    usable cores, and less while fewer are faster (`ThreadChoice`).

    Also keeps freed memory: every step frees and asks again for the same megabytes. Fresh pages from the system, which
    must be cleared, cost a third of a search with a small network (measured)."""
    if threads < 0:
        raise InputError(f"threads is {threads}; it must be 0 (torch's choice) or more")
    global THREADS
    default = default_threads()
    torch.set_num_threads(threads or default)
    THREADS = ThreadChoice(1 if threads else torch.get_num_threads())
    with contextlib.suppress(AttributeError, OSError, TypeError):  # only glibc has it
        mallopt = ctypes.CDLL(None).mallopt
        # Before 2.35 it takes no more than 32 MB; trimming alone would end glibc's own adaptation.
        if mallopt(MMAP_THRESHOLD, 2**30) or mallopt(MMAP_THRESHOLD, 2**25):
            mallopt(TRIM_THRESHOLD, 2**31 - 1)
    return torch.get_num_threads()
