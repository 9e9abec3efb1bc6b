"""The measurements of `zerogo bench`.

Each prints JSON lines, one for each configuration. A speed stands next to its reference, measured in the same run: the
rounds of both alternate, so that other load on the machine affects both.

This module has the shared parts: rounds, lines and tables, and other programs that are timed next to zerogo."""

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from zerogo import tuning
from zerogo.errors import InputError
from zerogo.system import distributed
from zerogo.system.runtime import pick_device, synchronize

PEER_SCRIPT = Path(__file__).with_name("jax_peers.py")
PEER_SIZES = (9, 19)  # boards of pgx


def parse_numbers(text: str) -> list[int]:
    """Returns the whole numbers of a list like "9,19", for an option that takes several; each is at least 1."""
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"{text!r} is not a list of whole numbers such as 9 or 9,19") from None
    if min(numbers) < 1:
        raise InputError(f"{text!r} holds {min(numbers)}; allowed are whole numbers from 1")
    return numbers


def open_device(args: argparse.Namespace) -> torch.device:
    """Returns the device of --device, with the CPU set up and the kernels tried."""
    threads = args.threads or int(distributed.world_size() > 1)  # one for each of several processes
    tuning.set_up_cpu(threads or tuning.default_threads())  # fixed from here on, the same for all that is compared
    device = pick_device(args.device)
    for size in parse_numbers(args.size):
        tuning.prove_kernels(device, size)
    return device


def sizes_and_batches(args: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """Yields every size with every batch."""
    for size in parse_numbers(args.size):
        if getattr(args, "peer", False) and size not in PEER_SIZES:
            raise InputError(f"--peer with size {size}; pgx plays {' and '.join(map(str, PEER_SIZES))}")
        yield from ((size, batch) for batch in parse_numbers(args.batch))


def peer_batches(args: argparse.Namespace, batch: int) -> list[int]:
    """Returns the batches in which a peer is timed next to zerogo's."""
    return [] if not args.peer else [batch] if args.peer_batch is None else parse_numbers(args.peer_batch)


def alternate_rounds(args: argparse.Namespace, works: Mapping[Any, Callable[[float], Any]]) -> dict[Any, list[Any]]:
    """Returns the results of each work's rounds, which alternate; a work gets the seconds that it should last. Several
    processes begin together; rank 0 alone does the work "network", and all get its results."""
    results: dict[Any, list[Any]] = {name: [] for name in works}
    for _ in range(args.rounds):
        for name, work in works.items():
            distributed.barrier()
            result = distributed.broadcast_from_rank0(work, args.seconds) if name == "network" else work(args.seconds)
            results[name].append(result)
    return results


def measure_rate(work: Callable[[], Any], device: torch.device, seconds: float, at_least: int = 1) -> float:
    """Returns the calls of `work` per second, over at least so many seconds and so many calls."""
    start, times = device_time(device), 0
    while times < at_least or time.perf_counter() - start < seconds:
        work()
        times += 1
        if times % 10 == 0:
            synchronize(device)
    return times / (device_time(device) - start)


def device_time(device: torch.device) -> float:
    """Returns the time in seconds after the device has finished its queued work."""
    synchronize(device)
    return time.perf_counter()


def describe_case(bench: str, size: int, batch: int, device: torch.device, dtype: str | torch.dtype) -> dict[str, Any]:
    """Returns the fields with which every line begins."""
    line = {"bench": bench, "size": size, "batch": batch, "device": str(device), "processes": distributed.world_size()}
    return line | {"dtype": str(dtype).removeprefix("torch."), "threads": torch.get_num_threads()}


def print_line(line: dict[str, Any]) -> None:
    """Prints one measurement as a JSON line, to which torch's version is added; of several processes the first does."""
    distributed.on_rank0(print, json.dumps({**line, "torch": torch.__version__}), flush=True)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Writes aligned columns to stderr, since stdout holds JSON lines only. All but the first are aligned right."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(header))]
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        print("  ".join(cells).rstrip(), file=sys.stderr)


class PeerProcess(contextlib.AbstractContextManager):
    """mctx or pgx in a separate process (`jax_peers.py`), run by a Python that has them and need not have zerogo. It
    works while a request is open and waits otherwise. name: the library, its version and its device."""

    def __init__(self, args: argparse.Namespace, library: str, *words: Any) -> None:
        """Starts the process. library: the one that its Python must import. words: the script's further arguments.
        Raises InputError where that fails."""
        self.library, python = library, args.peer_python
        command, pipe = (python, str(PEER_SCRIPT), library, *map(str, words)), subprocess.PIPE
        try:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        except OSError as error:
            fault = f"--peer-python {python!r} can't be started ({error.strerror})"
            raise InputError(f"{fault}; name a Python that has {library}") from None
        self.name = self.process.stdout.readline().strip()
        if not self.name.startswith(f"{library} "):
            self.__exit__()
            if self.name.startswith("no "):
                device = f"the jax of {python} has {self.name}"
                raise InputError(f"--peer: {device}; install one that has, or add --device cpu")
            advice = f"install {library} there, or name another with --peer-python"
            raise InputError(f"--peer: {python} has no {library} that can be imported; {advice}")

    def request(self, *words: Any) -> float:
        """Returns the peer's answer to a line of words, which is a rate. Raises InputError where it ended instead."""
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        except (OSError, ValueError):
            fault = f"--peer: the process that runs {self.library} ended in the middle"
            raise InputError(f"{fault}; try a smaller --peer-batch") from None

    def __exit__(self, *_: object) -> None:
        """Ends the process, which leaves nothing behind."""
        self.process.kill()
        self.process.communicate()
