"""`python -m zerogo.bench {board,net,features,search,profile,memory,selfplay}`: reads the arguments and runs one
measurement."""

import importlib
import sys
from collections.abc import Sequence

from zerogo import cli
from zerogo.errors import InputError
from zerogo.runtime import INPUT_ERROR_STATUS

BENCHES = {  # the module in which each is, as `add_NAME_arguments` and `run_NAME`, and what it measures
    "board": ("board", "random legal moves a second, beside pgx where it is installed"),
    "net": ("net", "evaluations a second of a network"),
    "features": ("net", "positions a second of an encoder, beside zero17"),
    "search": ("search", "simulations a second, and which share of the raw network's speed that is"),
    "profile": ("search", "where the time of a simulation goes, with compiled kernels and without"),
    "memory": ("memory", "bytes a node, and the largest trees that fit a device"),
    "selfplay": ("search", "games, moves and samples of self-play"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the measurement that the arguments name and returns the exit status: 0, or 2 after one sentence about bad
    input."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = cli.make_parser("bench", sys.modules["zerogo.bench"].__doc__, "")
    commands = parser.add_subparsers(dest="bench", required=True, metavar="{" + ",".join(BENCHES) + "}")
    chosen = next((word for word in arguments if word in BENCHES), None)
    for name, (place, text) in BENCHES.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == chosen:  # only what is asked for is imported: the board's measurement needs no network
            module = importlib.import_module(f"zerogo.bench.{place}")
            getattr(module, f"add_{name}_arguments")(command)
    args = parser.parse_args(arguments)
    try:
        getattr(module, f"run_{args.bench}")(args)
    except InputError as error:
        print(f"bench {args.bench}: {error}", file=sys.stderr)
        return INPUT_ERROR_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main())
