"""The measurements: `python -m zerogo.bench {board,net,features,search,profile,memory,selfplay}`. Each prints JSON
lines, one a configuration.

What every line holds is written by `report`; how fast something is, is always said beside what it is to be compared
with, in the same run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from zerogo.errors import InputError

COMMON = ("bench", "size", "batch", "device", "dtype", "threads")


def add_batch_arguments(parser: argparse.ArgumentParser, what: str, batch: int) -> None:
    """The options that most benches share. what: the batch is made of, such as "games played"; batch: its default
    size.
    """
    parser.add_argument("--size", default="9", help="side of the board, or several as 9,19 (default 9)")
    parser.add_argument(
        "--batch", default=str(batch), help=f"{what} at once, or several as 64,{batch} (default {batch})"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default auto)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 leaves the choice to torch (default 0)")


def report(line: dict[str, Any]) -> None:
    """Prints one measurement as a JSON line: at least the fields of `COMMON`, to which torch's version is added."""
    missing = [name for name in COMMON if name not in line]
    assert not missing, f"report: a line without {', '.join(missing)}"
    sys.stdout.write(json.dumps({**line, "torch": torch.__version__}) + "\n")
    sys.stdout.flush()


def show_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Writes columns for a person to stderr; stdout has the JSON lines alone. All cells but a row's first stand to the
    right.
    """
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(header))]
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        print("  ".join(cells).rstrip(), file=sys.stderr)


def whole_numbers(text: str) -> list[int]:
    """Returns the whole numbers of a list like "9,19", for an option that takes several; each is at least 1."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{text!r} is not a list of whole numbers such as 9 or 9,19") from None
    if min(numbers) < 1:
        raise InputError(f"{text!r} holds {min(numbers)}; allowed are whole numbers from 1")
    return numbers
