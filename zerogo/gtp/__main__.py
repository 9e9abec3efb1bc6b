"""`zerogo gtp --checkpoint X`: an engine that speaks GTP on stdin and stdout."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from zerogo import cli
from zerogo.errors import refuse_os_errors
from zerogo.system import bounds

ABOUT = "An engine that speaks GTP (Go Text Protocol) on stdin and stdout."
EXAMPLES = """
X is one of:
  a checkpoint     a file, or a run's folder: its newest checkpoint
  mcts:200         tree search with 200 random playouts a move, without a network
  random           any legal move that does not fill one of its eyes

examples:
  zerogo gtp --checkpoint checkpoints/quickstart-5x5.pt
  zerogo gtp --checkpoint checkpoints/9x9.pt --simulations 400 --rules chinese --komi 7
  zerogo gtp --checkpoint mcts:500 --no-resign game.size=7
  gogui-twogtp -black 'zerogo gtp --checkpoint checkpoints/9x9.pt' -white 'gnugo --mode gtp' -size 9 -komi 7 -games 10

In Sabaki (Engines, Manage Engines) the path is zerogo, the arguments are gtp --checkpoint X with the full path of X.

With a clock the engine uses its time, or less if --simulations are given and done earlier. Rules, komi and board size
are those of the checkpoint's run, unless options, section.key=value (`zerogo train --keys` lists them) or the
controller replace them.
"""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings. Needs no torch, so that --help and mistakes are answered at once."""
    parser = cli.make_parser("gtp", ABOUT, EXAMPLES)
    cli.add_overrides(parser)
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="X", help="who plays: a checkpoint, a run's folder, mcts:N or random")
    simulations = {"help": "maximum simulations a move (default: {key}; no limit with a clock)"}
    seed = {"help": "random seed (default: drawn, and printed to stderr)"}
    names = ("device", "precision", "threads", "config", "rules", "komi", "resign")
    cli.add_options(parser, *names, seed=seed, simulations=simulations)
    leaves = "leaves of the tree per step; 0: measured, to keep the device busy (default: depends on --simulations)"
    add("--leaves", type=cli.number(int, 0), metavar="N", help=leaves)
    threshold = "win rate below which it resigns (default: 0.05)"
    add("--resign-threshold", type=cli.number(float, 0, 1), default=0.05, metavar="P", help=threshold)
    cleanup = "capture dead stones before passing, if that is safe, for referees that remove none"
    add("--cleanup", action="store_true", help=cleanup)
    lag = "seconds per move reserved for the controller (default: 0.3)"
    add("--lag", type=cli.number(float, 0), default=0.3, metavar="S", help=lag)
    ponder = "keep searching while the opponent thinks (default: --no-ponder)"
    add("--ponder", action=argparse.BooleanOptionalAction, default=False, help=ponder)
    supported = "print which names of KataGo's GTP and JSON zerogo supports, and exit"
    add("--supported", action=_PrintSupported, nargs=0, help=supported)
    games = "folder to which loadsgf and printsgf are confined (default: any file)"
    add("--games", type=Path, metavar="FOLDER", help=games)
    add("--log", type=cli.new_file, metavar="FILE", help="append the conversation to this file")
    parsed = parser.parse_intermixed_args(arguments)
    if wrong := [text for text in parsed.overrides if not cli.is_override(text)]:
        setting = "write section.key=value, such as game.size=7, and the player after --checkpoint"
        parser.error(f"{wrong[0]!r} is no setting; {setting}")
    player = parsed.checkpoint
    with contextlib.suppress(OSError):  # which `main` reports
        if player != "random" and not player.startswith("mcts:") and not bounds.shipped(player).exists():
            allowed = "a checkpoint, a run's folder, mcts:N and random"
            parser.error(f"--checkpoint: {bounds.no_such_player(player, allowed)}")
    return parsed


class _PrintSupported(argparse.Action):
    """Prints a table of KataGo's names in GTP and JSON: kind, name, whether zerogo supports it, and a remark."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from zerogo.players.katago import remarks

        for kind, names in supported_names().items():
            how = remarks(kind, is_supported=True)
            rows = [(name, "yes", how.get(name, how.get("*", ""))) for name in names]
            rows += [(name, "no", why) for name, why in remarks(kind, is_supported=False).items()]
            for name, word, remark in rows:
                print(f"{kind:9} {name:31} {word:4} {remark}".rstrip())
        parser.exit()


def supported_names() -> dict[str, list[str]]:
    """Returns the names of KataGo's GTP and JSON that zerogo has, from where each is declared, by their kind."""
    from zerogo.analysis import engine, query
    from zerogo.gtp import analyze, clock, commands
    from zerogo.players import katago
    from zerogo.rules import Rules, rulesets

    return {
        "command": [*commands.COMMANDS],
        "key": [*analyze.NUMBERS, *analyze.RESTRICTIONS, *analyze.EXTRAS],
        "info": [name for name in katago.INFO if name not in katago.INFO_EXTRAS],
        "raw": katago.RAW,
        "ruleset": [*rulesets.RULESETS],
        "rule": [*rulesets.to_json(Rules())],
        "time": [*clock.KATA_KINDS],
        "param": [*commands.KATA_SETTINGS],
        "query": sorted(query.FIELDS - query.WITHOUT_EFFECT.keys() - {"action"}),
        "setting": [*query.SETTINGS],
        "action": [*engine.ACTIONS],
        "reply": katago.REPLY,
        "moveInfo": katago.MOVE_INFO,
        "rootInfo": katago.ROOT_INFO,
    }


def main(arguments: argparse.Namespace) -> None:
    """Runs an engine until `quit` or the end of the input. Raises InputError for a log that can't be opened."""
    from zerogo.gtp.commands import serve
    from zerogo.gtp.engine import make_engine
    from zerogo.gtp.protocol import Input
    from zerogo.system.runtime import lines_of_stdin

    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    replies = sys.stdout
    with refuse_os_errors(f"cannot write the log {arguments.log}"):
        file = open(arguments.log or os.devnull, "ab", buffering=0)

    def _log(sign: str, text: str) -> None:
        """Writes lines with `>` (to the engine), `<` (from it) or `!` (for people) before each, at once. A log that
        can't be written is closed; the engine continues."""
        if not file.closed:
            try:
                file.write("".join(f"{sign} {row}\n" for row in text.splitlines()).encode("utf-8", "replace"))
            except OSError as error:
                file.close()
                _print_for_person(f"cannot write the log {arguments.log}: {error.strerror or error}; it ends here")

    def _print_for_person(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        _log("!", text)

    def _reply(text: str) -> None:
        replies.write(text)
        replies.flush()
        _log("<", text)

    # Nothing else may get between the replies: what some library prints goes to stderr.
    with file, contextlib.redirect_stdout(sys.stderr):
        lines = (line.decode("utf-8", "replace") for line in lines_of_stdin())
        source = Input(lines)
        engine = make_engine(arguments, _print_for_person)
        _print_for_person("GTP ready")
        serve(engine, source, _reply, lambda line: _log(">", line))


if __name__ == "__main__":
    cli.run(parse, main)
