"""`zerogo show`: the command line."""

import argparse

from zerogo import cli

ABOUT = "Pictures of the positions of a game, and of what a network thinks of them."
EXAMPLES = """
WHAT is one or several of these, with commas:
  board        stones, last move (--numbers: move numbers)
  policy       the network's probability of each move
  ownership    the expected owner of each point at the end
  value        Black's win rate through the whole game, as a chart
  visits       how often the search tried each move
  candidates   win rate and visits of the search's moves
  line         the moves that the search expects
  planes       every input plane of the network

examples:
  zerogo show game.sgf
  zerogo show game.sgf --move 40 --what policy,ownership --checkpoint checkpoints/9x9
  zerogo show game.sgf --move all --what candidates,value --checkpoint checkpoints/9x9 --out game.gif
  zerogo show --what policy --checkpoint checkpoints/quickstart-5x5.pt --text
  zerogo show game.sgf --move 12 --what planes --features zero17
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings."""
    parser = cli.make_parser("show", ABOUT, EXAMPLES)
    file = "the game (default: the empty board of the checkpoint)"
    move = "the position after move 40, -1 (the end), 10-20, 5,10,15 or all (default: -1)"
    symmetries = "symmetries of the network (default: all, but in a search the run's)"
    features = "encoder of the planes, or plane groups with commas (default: the checkpoint's)"
    cell = "pixels between two lines, 12 to 200 (default: by the board's size)"
    out = "the picture: .png, or .gif for several moves (default: NAME-moveM.png)"
    checkpoint = "the network or search to show: a file, the folder of a run, or mcts:N"
    simulations = {"type": cli.number(int, 1, 100_000), "help": "simulations of a search (default: the checkpoint's)"}
    parser.add_argument("file", nargs="?", metavar="FILE.sgf", help=file)
    parser.add_argument("--move", metavar="M", help=move)
    parser.add_argument("--what", help="see below (default: board, with a checkpoint policy,ownership)")
    parser.add_argument("--checkpoint", metavar="X", help=checkpoint)
    cli.add_options(parser, simulations=simulations, device={"default": "auto"})
    parser.add_argument("--symmetries", choices=("all", "random", "none"), help=symmetries)
    parser.add_argument("--features", metavar="NAME", help=features)
    parser.add_argument("--numbers", action="store_true", help="write move numbers on the stones")
    parser.add_argument("--cell", type=cli.number(int, 12, 200), default=0, metavar="PIXELS", help=cell)
    parser.add_argument("--out", type=cli.new_file, metavar="FILE.png", help=out)
    parser.add_argument("--text", action="store_true", help="print as text; write a picture only with --out")
    return parser.parse_args(arguments)


def main(arguments: argparse.Namespace) -> None:
    """Writes the pictures, or prints the texts, of a command line. Raises InputError for bad settings."""
    from zerogo.show.views import show

    show(arguments)


if __name__ == "__main__":
    cli.run(parse, main)
