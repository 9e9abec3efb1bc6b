"""`zerogo bench NAME`: reads the arguments and runs one measurement."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from zerogo import cli
from zerogo.errors import InputError
from zerogo.features import ENCODERS
from zerogo.system import distributed
from zerogo.system.runtime import usable_cores

ABOUT = """Measurements of speed and learning. Each prints one JSON line per configuration. What is compared
runs in alternating rounds, so that other load on the machine affects both."""
EXAMPLES = """
examples:
  zerogo bench board --size 9 --batch 1024              random legal moves per second
  zerogo bench search --size 9 --batch 256 --sims 128   simulations per second, and the share of the network's speed
  zerogo bench net --encoder alphago48                  the network's speed, and what its planes cost next to zero17's
  zerogo bench gpu                                      all important measurements on a GPU, in at most ten minutes

zerogo bench NAME --help lists the options of one measurement.
"""
SHARED = {"size": "9", "batch": "256", "device": "auto", "threads": 0, "seconds": 1.0, "rounds": 5}
NET = SHARED | {"blocks": 6, "channels": 96, "precision": "auto", "encoder": ""}
SELFPLAY = NET | {"processes": 1, "sims": 8, "algorithm": "gumbel", "leaves": 1}
SEARCH = SELFPLAY | {"sims": 128, "algorithm": "puct", "checkpoint": "", "spread": 0.0}
SEARCH |= {"kernels": "compiled", "profile": False}
BOARD = SHARED | {"batch": "1024", "seconds": 2.0, "rounds": 3, "superko": "positional"}
LEARN = {"config": "configs/quickstart.yaml", "set": "", "minutes": 10.0, "seeds": 1, "points": 4}
LEARN |= {"opponents": "mcts:200", "games": 100, "simulations": 64, "out": "checkpoints/learn"}
# What each measures, and its options with their defaults.
BENCHES = {
    "board": ("random legal moves per second; with --peer also pgx's", BOARD),
    "net": ("evaluations per second of a network, and of its encoder", NET | {"checkpoint": ""}),
    "search": ("simulations per second, and their share of the raw network's speed", SEARCH),
    "selfplay": ("games, moves and samples of self-play", SELFPLAY),
    "gpu": ("all important measurements on a GPU, in at most ten minutes", {"part": "", "device": "auto"}),
    "learn": ("strength over minutes, games and simulations of training", LEARN),
}
# What the help says of an option, before the default.
HELP = {
    "size": "side of the board, or several as 9,19",
    "batch": "games played, or positions evaluated, at once; or several such numbers as 64,256",
    "device": "auto, cpu or cuda",
    "checkpoint": "a checkpoint or a KataGo network, in place of a fresh network of those blocks and channels",
    "encoder": f"encoder of a fresh network (zero17), timed by net: {', '.join(ENCODERS)}, or stones+liberties:8",
    "threads": "CPU threads, the same for all that is compared; 0 leaves the choice to torch",
    "processes": "processes of one thread that do the same work at the same time; 0: one for each usable core",
    "seconds": "length of one round",
    "rounds": "rounds, of which the best or the median counts",
    "blocks": "residual blocks",
    "channels": "channels of the trunk",
    "precision": "number format of the network",
    "sims": "simulations per move",
    "algorithm": "search algorithm",
    "leaves": "leaves of one tree selected in one step",
    "spread": "standard deviation of the policy's logits over a board, about 2 in a trained network; 0: that of "
    "a fresh network",
    "kernels": "plain: mainly torch",
    "profile": "also print torch's profile of one more move, the most costly operations first",
    "superko": "which repetition is illegal",
    "config": "YAML file with the settings of the runs",
    "set": "settings that replace those of the file, as 'training.batch=64 search.c_scale=2'",
    "minutes": "minutes of training for each seed, matches not counted",
    "seeds": "number of runs, with the seeds 1, 2, ...",
    "points": "checkpoints of each run to evaluate",
    "opponents": "opponents of the checkpoints, as for zerogo evaluate, separated by commas",
    "games": "games against each opponent",
    "simulations": "simulations per move in the matches",
    "out": "folder of the runs, learn.jsonl and charts for TensorBoard; the same command resumes after an interruption",
    "part": "run only this part (default: all parts, with verdicts)",
}
PEERS = {"board": "pgx", "search": "mctx"}
# What an option accepts: the words, or a function that reads it; any other option what its default's type reads.
ALLOWED = dict.fromkeys(("sims", "leaves", "seeds", "points", "games", "simulations", "rounds"), cli.number(int, 1))
ALLOWED |= dict.fromkeys(("processes", "threads"), cli.number(int, 0))
ALLOWED |= {"seconds": cli.number(float, 0.001), "spread": cli.number(float, 0, 10), "kernels": ("compiled", "plain")}
ALLOWED |= {"algorithm": ("gumbel", "puct"), "superko": ("positional", "situational", "simple")}
ALLOWED |= {"precision": ("auto", "float32", "bfloat16"), "part": ("kernels", "run")}


def _add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the options of a bench."""
    for option, default in BENCHES[name][1].items():
        allowed = ALLOWED.get(option, type(default))
        if default is False:
            parser.add_argument(f"--{option}", action="store_true", help=HELP[option])
        else:
            text = HELP[option] + ("" if default == "" else f" (default: {str(default).removesuffix('.0')})")
            settings = {"type": allowed} if callable(allowed) else {"choices": allowed}
            parser.add_argument(f"--{option}", default=default, help=text, **settings)
    if library := PEERS.get(name):
        add, peer = parser.add_argument, f"time {library} as well, alternating with zerogo on its device (9x9, 19x19)"
        batches = "the peer's games at once, or several numbers, of which its best counts (default: as --batch)"
        python = f"the Python that has {library} (default: this one)"
        add("--peer", action="store_true", help=peer)
        add("--peer-batch", metavar="GAMES", help=batches)
        add("--peer-python", default=sys.executable, metavar="PATH", help=python)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings."""
    parser = cli.make_parser("bench", ABOUT, EXAMPLES)
    commands = parser.add_subparsers(dest="bench", required=True, metavar="{" + ",".join(BENCHES) + "}")
    for name, (text, _) in BENCHES.items():
        _add_options(commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + "."), name)
    return parser.parse_args(arguments)


def main(args: argparse.Namespace) -> None:
    """Runs the measurement that the command line names. Raises InputError for options that exclude each other."""
    for name in ("spread", "peer", "encoder") if getattr(args, "checkpoint", "") else ():
        if getattr(args, name, False):
            raise InputError(f"--checkpoint is {args.checkpoint}; --{name} is for a fresh network")
    if getattr(args, "peer", False) and getattr(args, "encoder", "") not in ("", "zero17"):
        raise InputError(f"--encoder is {args.encoder}; with --peer both networks read zero17")
    number = getattr(args, "processes", 1) or usable_cores()
    if number > 1 and getattr(args, "peer", False):
        raise InputError(f"--processes is {number}; --peer is for one process")
    module = args.bench if args.bench in ("gpu", "learn") else "speed"
    with distributed.process_group():
        if number > 1 and not distributed.is_rank_of_launcher():
            distributed.launch(number)
        else:
            getattr(importlib.import_module(f"zerogo.bench.{module}"), f"run_{args.bench}")(args)


if __name__ == "__main__":
    cli.run(parse, main)
