"""`zerogo play`: reads the arguments, sets up the game and runs it in the terminal."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from zerogo import cli

ABOUT = "Plays a game in the terminal: a person against a network, two people, or two programs."
EXAMPLES = """
a player is one of:
  human            a person at this terminal
  random           any legal move that does not fill one of its eyes
  mcts:200         tree search with 200 random playouts a move, without a network
  a checkpoint     a file, or a run's folder: its newest checkpoint

examples:
  zerogo play --size 7                                     # you are Black, against the 7x7 network
  zerogo play --white checkpoints/quickstart-5x5.pt        # the board and the rules are the network's
  zerogo play --black checkpoints/9x9 --white human --handicap 2 --save game.sgf
  zerogo play --sgf game.sgf --move 30                     # continue a game after its 30th move

During the game, type help for the commands.
"""
OPPONENT = "mcts:200"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings. Needs no torch, so that --help and mistakes are answered at once."""
    parser = cli.make_parser("play", ABOUT, EXAMPLES)
    add = parser.add_argument
    add("--black", default="human", metavar="PLAYER", help="who plays Black (default: human)")
    white = f"who plays White (default: the network in checkpoints/ that fits the board, else {OPPONENT})"
    add("--white", metavar="PLAYER", help=white)
    add("--size", type=int, metavar="N", help="side of the board, 1 to 25 (default: the network's, else 9)")
    add("--handicap", type=int, default=0, metavar="N", help="Black's stones on the fixed points; komi: 0.5")
    add("--sgf", type=Path, metavar="FILE", help="continue a game, by its main line")
    add("--move", type=int, metavar="N", help="with --sgf: after move N (default: the last)")
    add("--save", type=cli.new_file, metavar="FILE", help="write the game as SGF, after every move")
    colours = {"choices": ("auto", "always", "never"), "default": "auto"}
    add("--colour", **colours, help="use colours (default: if stdout is a terminal)")
    of_a_bot = {"help": "simulations a move of a bot (default: evaluation.simulations, or its own N)"}
    names = ("rules", "komi", "resign", "seed", "device", "precision", "threads")
    cli.add_options(parser, *names, simulations=of_a_bot)
    parsed = parser.parse_args(arguments)
    if parsed.move is not None and parsed.sgf is None:
        parser.error("--move is the move after which a game continues; give the game by --sgf FILE")
    if parsed.white is None:
        is_free = parsed.black == "human" and parsed.sgf is None  # else the board is another's
        parsed.white = (cli.shipped_network(parsed.size or 9) if is_free else None) or OPPONENT
    if parsed.handicap and parsed.sgf is not None:
        parser.error("--handicap is for a new game; with --sgf the stones are those of the file")
    return parsed


def ask(prompt: str) -> str:
    """Returns a line that was typed; it is shown where nobody types, as in a script, so that the rest can be read."""
    try:
        line = input(prompt)
    except (EOFError, KeyboardInterrupt):
        print()
        raise
    if not sys.stdin.isatty():
        print(line)
    return line


def main(arguments: argparse.Namespace) -> None:
    """Plays the game of a command line, and saves it however it ends. Raises InputError for bad settings."""
    from zerogo.play.game import make_terminal_game

    sys.stdin = sys.stdin or open(os.devnull)  # a process may be started without one
    sys.stdin.reconfigure(errors="replace")
    game = make_terminal_game(arguments, ask)
    try:
        game.run()
    finally:
        if arguments.save is not None:
            game.save()
            print(f"the game is saved in {arguments.save}")


if __name__ == "__main__":
    cli.run(parse, main)
