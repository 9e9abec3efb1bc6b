"""Other programs that are timed beside zerogo: each works in a process of its own while it is asked, and waits
otherwise.

A peer is a script, run by a Python that has what it needs and need not have zerogo. When it is ready it prints its name
on one line, or "no DEVICE" where its jax can't use the device that it was given; then it answers every line of its
input with one number, which is a rate."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from zerogo.bench import whole_numbers
from zerogo.errors import InputError

SIZES = (9, 19)  # boards of pgx


def add_peer_arguments(parser: argparse.ArgumentParser, library: str) -> None:
    """The options of a bench that can time a peer as well."""
    parser.add_argument(
        "--peer",
        action="store_true",
        help=f"time {library} as well, in turn with zerogo, on its device (sizes 9 and 19)",
    )
    batches = "the peer's games at once, or several such numbers, of which its best counts (default as --batch)"
    parser.add_argument("--peer-batch", metavar="GAMES", help=batches)
    parser.add_argument(
        "--peer-python",
        default=sys.executable,
        metavar="PATH",
        help=f"the Python that has {library} (default this one)",
    )


def peer_batches(args: argparse.Namespace, batch: int) -> list[int]:
    """Returns in which batches the peer is timed beside zerogo's."""
    return [batch] if args.peer_batch is None else whole_numbers(args.peer_batch)


def check_peer_size(size: int) -> None:
    """Raises InputError for a board that pgx doesn't play."""
    if size not in SIZES:
        raise InputError(f"--peer with size {size}; pgx plays {' and '.join(map(str, SIZES))}")


class Peer:
    """One such process. name: what it calls itself, with its versions."""

    def __init__(self, python: str, script: Path, arguments: list[str | int], library: str) -> None:
        """library: what the Python must be able to import; the peer's name begins with it. Raises InputError where it
        can't be started.
        """
        self.library = library
        command = (python, str(script), *map(str, arguments))
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError as error:
            raise InputError(
                f"--peer-python {python!r} can't be started ({error.strerror}); name a Python that has {library}"
            ) from None
        self.name = self.process.stdout.readline().strip()
        if self.name.startswith("no "):
            self.close()
            raise InputError(f"--peer: the jax of {python} has {self.name}; install one that has, or add --device cpu")
        if not self.name.startswith(f"{library} "):
            self.close()
            advice = f"install {library} there, or name another with --peer-python"
            raise InputError(f"--peer: {python} has no {library} that can be imported; {advice}")

    def ask(self, *words: str | float) -> float:
        """Returns the peer's answer to a line of words. Raises InputError where it ended instead."""
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        except (OSError, ValueError):
            raise InputError(
                f"--peer: the process that runs {self.library} ended in the middle; try a smaller --peer-batch"
            ) from None

    def close(self) -> None:
        """Ends the process: it leaves when its input closes."""
        try:
            self.process.stdin.close()
        except OSError:  # it has ended before, with a line on its way
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
