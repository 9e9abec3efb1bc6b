#!/usr/bin/env python3
"""Lets players meet, every one every other, and says who wins: by colour, with a 95 % interval and an Elo table."""

import argparse
import time
from pathlib import Path

from zerogo import cli

EXAMPLES = """
a player is one of:
  random           plays any legal move that doesn't fill an eye of its own
  mcts:200         tree search with 200 random playouts a move, without a network
  a checkpoint     a file, or a run's folder: its newest checkpoint
  self             as the second: the first player against itself
  gnugo:10         GNU Go at a level from 0 to 15 (Debian, Ubuntu: apt install gnugo)
  pachi:1000       Pachi with 1000 playouts a move
  katago:200       KataGo with 200 visits a move; katago:200:MODEL:CONFIG where it doesn't find its files by itself
  "gtp:COMMAND"    any engine that speaks GTP, such as "gtp:gnugo --mode gtp --level 5"

examples:
  python evaluate.py checkpoints/quickstart random --games 200
  python evaluate.py checkpoints/9x9 checkpoints/9x9-small mcts:200 --games 400 --simulations 64
  python evaluate.py random mcts:100 --games 20 game.size=5 game.komi=24.5
  python evaluate.py checkpoints/9x9 gnugo:10 --games 100 --out match && echo done
  python evaluate.py checkpoints/9x9 gnugo:10 --games 100 --out match --resume      # goes on after an interruption
  python evaluate.py --ratings checkpoints/9x9                                      # of the run's own matches

An engine that crashes, says nothing for evaluation.engine_seconds (engine_start_seconds when it starts), or plays an
illegal move loses that game, and the match goes on. The rules are those of the first checkpoint's run, unless --config
or section.key=value say otherwise (`python train.py --keys` lists them).
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings, with players and overrides told apart."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("players", nargs="*", metavar="player", help="two or more players; section.key=value may stand among them")
    add("--ratings", type=Path, metavar="RUN", help="show how strong a run's checkpoints are by its matches so far")
    add("--games", type=int, default=100, metavar="N", help="games of each pair, half with each colour (default: 100)")
    add("--opening", type=int, default=0, metavar="N", help="random moves at the start, alike for both games of a pair")
    add("--out", type=Path, metavar="FOLDER", help="new folder for the results (default: checkpoints/match-DATE-TIME)")
    add("--resume", action="store_true", help="go on with the unfinished match in --out; more --games are allowed")
    cli.add_options(
        parser,
        simulations={"type": int, "help": "simulations a move of a network (default: {key})"},
        seed={"type": int, "help": "seed of the matches (default: {key})"},
        config={"help": "YAML file with the settings (default: those of the first checkpoint)"},
    )
    parsed = parser.parse_intermixed_args(arguments)
    parsed.overrides = [text for text in parsed.players if cli.is_override(text)]
    parsed.players = [text for text in parsed.players if not cli.is_override(text)]
    if len(parsed.players) < 2 and parsed.ratings is None:
        parser.error("give two players or more, such as: checkpoints/quickstart random")
    return parsed


def main(arguments: argparse.Namespace) -> None:
    """Does what the command line says."""
    from zerogo.arena import evaluate, pool
    from zerogo.errors import InputError
    from zerogo.runtime import require_new_folder

    if arguments.ratings is not None:
        print("\n".join(pool.show(arguments.ratings)))
        return
    if arguments.games < 2:
        raise InputError(f"--games is {arguments.games}; it must be 2 or more, so that both players get both colours")
    if arguments.resume and arguments.out is None:
        raise InputError("--resume needs --out with the folder of the match")
    config, checkpoints = cli.read_config(arguments, arguments.players)
    out = arguments.out or Path("checkpoints") / time.strftime("match-%Y%m%d-%H%M%S")
    if not arguments.resume:
        require_new_folder(out, "--out")
    evaluate(arguments.players, arguments.games, config, out, arguments.opening, arguments.resume, checkpoints)


if __name__ == "__main__":
    cli.run(parse, main)
