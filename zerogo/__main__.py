"""`zerogo COMMAND …`: one command for all front ends, the same as `python -m zerogo.COMMAND …`."""

import runpy
import sys

COMMANDS = {
    "play": "play in the terminal: people, networks, tree search without a network",
    "gtp": "an engine for Sabaki, GoGui, Lizzie, KGS and other programs that speak GTP",
    "analysis": "answers KataGo's JSON analysis protocol, as KaTrain and scripts use it",
    "show": "pictures of a game's positions and of what a network thinks of them",
    "bench": "measurements of speed",
}
USAGE = "usage: zerogo {play,gtp,analysis,show,bench} …"


def main() -> None:
    """Runs the front end that the first argument names with the other arguments. An unknown one ends with status 2."""
    command, *arguments = sys.argv[1:] or ["--help"]
    if command in ("-h", "--help"):
        print(USAGE, "", sep="\n")
        print(*(f"  {name:9} {text}" for name, text in COMMANDS.items()), sep="\n")
        print("\nzerogo COMMAND --help says more. Training, self-play and matches: train.py, selfplay.py, evaluate.py.")
    elif command in COMMANDS:
        sys.argv = [f"zerogo {command}", *arguments]  # the usage line's program, see `cli.make_parser`
        runpy.run_module(f"zerogo.{command}", run_name="__main__")
    else:
        print(f"error: there is no command {command!r}; allowed are {', '.join(COMMANDS)}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
