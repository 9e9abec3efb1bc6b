"""`python -m zerogo.gtp --checkpoint X`: reads the arguments, makes the engine and lets it talk on stdin and stdout."""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

EXAMPLES = """
X is one of:
  a checkpoint     a file, or a run's folder: its newest checkpoint
  mcts:200         tree search with 200 random playouts a move, without a network
  random           any legal move that doesn't fill an eye of its own

examples:
  python -m zerogo.gtp --checkpoint checkpoints/quickstart-5x5.pt
  python -m zerogo.gtp --checkpoint checkpoints/9x9 --simulations 400 --rules chinese --komi 7
  python -m zerogo.gtp --checkpoint mcts:500 --no-resign game.size=7
  gogui-twogtp -black 'python -m zerogo.gtp --checkpoint checkpoints/9x9' -white 'gnugo --mode gtp' -size 9 -komi 7 -games 10

Under a clock the engine thinks as long as that allows, or for --simulations if these are given and done before. Rules, komi and board
size are those of the checkpoint's run, unless options, section.key=value (`python train.py --keys` lists these) or the controller say
otherwise.
"""
OVERRIDE = re.compile(r"[a-z_]+\.[a-z_.0-9]+=.*", re.DOTALL)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings. Needs no torch, so that --help and mistakes are answered at once."""
    parser = argparse.ArgumentParser(
        prog="python -m zerogo.gtp",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "overrides",
        nargs="*",
        metavar="section.key=value",
        help="settings of the run that are to be others here, such as game.size=7",
    )
    add("--checkpoint", required=True, metavar="X", help="who plays: a checkpoint, a run's folder, mcts:N or random")
    add(
        "--simulations",
        type=_number(int, 1),
        metavar="N",
        help="simulations a move, at most (default: evaluation.simulations)",
    )
    leaves = "leaves of the tree that are evaluated at once; 0 measures how many keep the device busy (default: by the simulations)"
    add("--leaves", type=_number(int, 0), metavar="N", help=leaves)
    add(
        "--rules",
        metavar="NAME",
        help="tromp-taylor, chinese, japanese, korean, aga, new-zealand, … (default: those of the run)",
    )
    add(
        "--komi", type=_number(float, -1000, 1000), metavar="POINTS", help="points that White gets (default: game.komi)"
    )
    add("--resign", action=argparse.BooleanOptionalAction, default=True, help="give up lost games (default: --resign)")
    add(
        "--resign-threshold",
        type=_number(float, 0, 1),
        default=0.05,
        metavar="P",
        help="winrate below which it does so (default: 0.05)",
    )
    add(
        "--cleanup",
        action="store_true",
        help="capture dead stones, where that is safe, before passing, for referees who take none off",
    )
    add(
        "--lag",
        type=_number(float, 0),
        default=0.3,
        metavar="S",
        help="seconds of each move left to the controller (default: 0.3)",
    )
    add("--threads", type=_number(int, 0), metavar="N", help="CPU threads; 0 is torch's choice (default: run.threads)")
    add("--device", metavar="D", help="auto, cpu, cuda or cuda:1 (default: run.device)")
    add(
        "--precision",
        choices=("auto", "float32", "bfloat16"),
        help="arithmetic of the network (default: run.precision)",
    )
    add("--seed", type=_number(int, 0), metavar="N", help="seed of all draws (default: run.seed)")
    add("--config", type=Path, metavar="FILE", help="YAML file with the settings (default: those of the checkpoint)")
    add("--log", type=Path, metavar="FILE", help="add the conversation to this file")
    parsed = parser.parse_intermixed_args(arguments)
    wrong = [text for text in parsed.overrides if not OVERRIDE.fullmatch(text)]
    if wrong:
        parser.error(
            f"{wrong[0]!r} is no setting; write section.key=value, such as game.size=7, and the player behind --checkpoint"
        )
    if re.fullmatch(r"mcts(:.*)?", parsed.checkpoint) and not re.fullmatch(
        r"mcts:0*[1-9][0-9]{0,8}", parsed.checkpoint
    ):
        parser.error(
            f"--checkpoint is {parsed.checkpoint!r}; write mcts:N with the number of playouts, such as mcts:200"
        )
    if (
        parsed.checkpoint != "random"
        and not parsed.checkpoint.startswith("mcts:")
        and not Path(parsed.checkpoint).exists()
    ):
        parser.error(
            f"--checkpoint is {parsed.checkpoint!r}; there is no such file or folder, and it is neither random nor mcts:N"
        )
    return parsed


def _number(kind: Callable[[str], float], low: float, high: float = math.inf) -> Callable[[str], float]:
    """Returns what reads a number from low to high for argparse."""

    def read(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high or math.isinf(number):
            kinds = "whole numbers" if kind is int else "numbers"
            limits = f" from {low:g} to {high:g}" if math.isfinite(high) else f", {low:g} or more"
            raise argparse.ArgumentTypeError(f"it is {text!r}; allowed are {kinds}{limits}")
        return number

    return read


class Log:
    """The conversation in a file, each line with `>` (to the engine), `<` (from it) or `!` (for people) before it; or
    nowhere.
    """

    def __init__(self, file: TextIO | None) -> None:
        self._file = file

    def note(self, sign: str, text: str) -> None:
        """Writes text, and at once, since an engine is often killed."""
        if self._file is not None:
            self._file.writelines(f"{sign} {row}\n" for row in text.splitlines())
            self._file.flush()

    def say(self, text: str) -> None:
        """Writes a line for a person: on stderr, and here."""
        print(text, file=sys.stderr, flush=True)
        self.note("!", text)


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[Log]:
    """Opens the log. Raises InputError where it can't be written."""
    from zerogo.errors import InputError

    if path is None:
        yield Log(None)
        return
    try:
        file = open(path, "a", encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot write the log {path}: {error.strerror or error}") from None
    with file:
        yield Log(file)


def main(arguments: argparse.Namespace) -> None:
    """Does what the command line says, until `quit` or the end of the input."""
    from zerogo.gtp.protocol import Input, Output
    from zerogo.gtp.session import serve
    from zerogo.gtp.start import make_engine
    from zerogo.runtime import lines_of_stdin

    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    replies = sys.stdout
    # Nothing else may get between the replies: what some library prints goes to stderr.
    with opened(arguments.log) as log, contextlib.redirect_stdout(sys.stderr):
        lines = (line.decode("utf-8", "replace") for line in lines_of_stdin())
        source = Input(lines, lambda line: log.note(">", line))
        engine = make_engine(arguments, log.say)
        log.say("GTP ready")
        serve(engine, source, Output(replies, lambda text: log.note("<", text)))


if __name__ == "__main__":
    parsed = parse()  # before the imports, which take seconds: --help answers at once
    from zerogo.runtime import script_main

    script_main(lambda: main(parsed))
