#!/usr/bin/env python3
"""Lets a trained network play against itself and writes the games (SGF) and the samples to learn from."""

import argparse
import time
from pathlib import Path

from zerogo import cli

EXAMPLES = """
examples:
  python selfplay.py --checkpoint checkpoints/quickstart --games 100
  python selfplay.py --checkpoint checkpoints/9x9/checkpoints/step-00012000.pt --games 1000 --out games
  python selfplay.py --watch checkpoints/9x9            plays for a run with replay.external=true, on any machine that sees its folder
  torchrun --nproc-per-node 8 -- selfplay.py --checkpoint checkpoints/9x9 --games 100000         a share on each of 8 GPUs

The settings are those of the checkpoint's run, unless --config or section.key=value say otherwise (`python train.py --keys` lists them).
"""  # noqa: E501


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=raw)
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--checkpoint", type=Path, metavar="X", help="checkpoint file, or a run's folder")
    text = "run's folder: follow its newest checkpoint and play for it until a signal says to leave"
    who.add_argument("--watch", type=Path, metavar="RUN", help=text)
    parser.add_argument("--games", type=int, metavar="N", help="games to write (default: 100)")
    text = "new folder for the results (default: checkpoints/selfplay-DATE-TIME)"
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=text)
    cli.add_options(parser, "config")
    cli.add_overrides(parser)
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.watch and (parsed.games is not None or parsed.out or parsed.config):
        parser.error(
            "--watch plays without an end under the run's settings; it goes without --games, --out and --config"
        )
    return parsed


def main(arguments: argparse.Namespace) -> None:
    """Does what the command line says."""
    from zerogo import distributed
    from zerogo.errors import InputError
    from zerogo.pipeline import generate, watch
    from zerogo.runtime import require_new_folder

    if arguments.watch:
        return watch(arguments.watch, arguments.overrides)
    games = 100 if arguments.games is None else arguments.games
    if games < 1:
        raise InputError(f"--games is {games}; it must be 1 or more")
    with distributed.process_group():
        setup = cli.open_front_end(arguments, [arguments.checkpoint])
        checkpoint = setup.checkpoint(arguments.checkpoint)
        out = arguments.out or Path("checkpoints") / time.strftime("selfplay-%Y%m%d-%H%M%S")
        out = distributed.all_gather_object(out)[0]
        distributed.broadcast_from_rank0(require_new_folder, out, "--out")
        generate(setup, checkpoint, games, out)


if __name__ == "__main__":
    cli.run(parse, main)
