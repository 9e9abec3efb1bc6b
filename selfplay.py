#!/usr/bin/env python3
"""Lets a trained network play against itself and writes the games (SGF) and the samples to learn from."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

EXAMPLES = """
examples:
  python selfplay.py --checkpoint checkpoints/quickstart --games 100
  python selfplay.py --checkpoint checkpoints/9x9/checkpoints/step-00012000.pt --games 1000 --out games

The settings are those of the checkpoint's run, unless --config or section.key=value say otherwise (`python train.py --keys` lists them).
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="X",
        help="checkpoint file, or a run's folder (its newest one)",
    )
    parser.add_argument("--games", type=int, default=100, metavar="N", help="finished games to write (default: 100)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="new folder for the results (default: checkpoints/selfplay-DATE-TIME)",
    )
    parser.add_argument(
        "--config", type=Path, help="YAML file with the settings (default: those inside the checkpoint)"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="section.key=value",
        help="settings that replace those of the checkpoint or config",
    )
    return parser.parse_intermixed_args(arguments)


def main(arguments: argparse.Namespace) -> None:
    """Does what the command line says."""
    from zerogo import checkpoint
    from zerogo.config import load_with_overrides, with_overrides
    from zerogo.errors import InputError
    from zerogo.runtime import require_new_folder
    from zerogo.selfplay import generate

    if arguments.games < 1:
        raise InputError(f"--games is {arguments.games}; it must be 1 or more")
    path = checkpoint.find(arguments.checkpoint)
    if arguments.config is None:
        config = with_overrides(checkpoint.load(path).config, arguments.overrides)
    else:
        config = load_with_overrides(arguments.config, arguments.overrides)
    out = arguments.out or Path("checkpoints") / time.strftime("selfplay-%Y%m%d-%H%M%S")
    require_new_folder(out, "--out")
    generate(config, path, arguments.games, out)


if __name__ == "__main__":
    parsed = parse()  # before the imports, which take seconds: --help answers at once
    from zerogo.runtime import script_main

    script_main(lambda: main(parsed))
