"""`zerogo COMMAND …`: one program for training, play, analysis and measurements."""

import importlib
import sys
from collections.abc import Sequence

from zerogo import __version__, cli

COMMANDS = {
    "train": "train a network: self-play, training and evaluation in turn",
    "selfplay": "write games and samples of a network, or play for a run on another machine",
    "evaluate": "matches between networks, tree search and other engines; ratings of a run",
    "play": "play in the terminal: people, networks, tree search without a network",
    "gtp": "an engine for Sabaki, GoGui, Lizzie, KGS and other programs that speak GTP",
    "analysis": "answers KataGo's JSON analysis protocol, as KaTrain and scripts use it",
    "show": "pictures of a game's positions and of what a network thinks of them",
    "bench": "measurements of speed",
}
IN_COMMANDS = ("train", "selfplay", "evaluate", "play", "show")  # their command lines are in `zerogo.commands`


def main(words: Sequence[str] | None = None) -> None:
    """Runs a command and ends the process; an unknown one ends it with status 2. words: by default those of the command
    line."""
    command, *arguments = (sys.argv[1:] if words is None else words) or ["--help"]
    if command in ("-h", "--help"):
        print(f"usage: zerogo {{{','.join(COMMANDS)}}} …\n")
        print(*(f"  {name:9} {text}" for name, text in COMMANDS.items()), sep="\n")
        print("\nzerogo COMMAND --help says more.")
        return
    if command == "--version":
        return print(f"zerogo {__version__}")
    if command not in COMMANDS:
        print(f"error: there is no command {command!r}; allowed are {', '.join(COMMANDS)}", file=sys.stderr)
        sys.exit(2)
    if command in IN_COMMANDS:
        from zerogo import commands

        parse, run = getattr(commands, f"parse_{command}"), getattr(commands, f"main_{command}")
    else:
        module = importlib.import_module(f"zerogo.{command}.__main__")
        parse, run = module.parse, module.main
    cli.run(lambda: parse(arguments), run)


if __name__ == "__main__":
    main()
