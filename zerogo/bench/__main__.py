"""`zerogo bench NAME`: reads the arguments and runs one measurement."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from zerogo import cli
from zerogo.errors import InputError
from zerogo.features import ENCODERS

ABOUT = """Measurements of speed. Each prints one JSON line per configuration. What is compared is measured in turns
in the same run, so that other load on the machine affects both."""
EXAMPLES = """
examples:
  zerogo bench board --size 9 --batch 1024              random legal moves a second
  zerogo bench search --size 9 --batch 256 --sims 128   simulations a second, and the share of the network's speed
  zerogo bench memory                                   the largest trees that fit a device
  zerogo bench gpu                                      all that counts on a machine with a GPU, in ten minutes

zerogo bench NAME --help lists the options of one measurement.
"""
SHARED = {"size": "9", "batch": "256", "device": "auto", "threads": 0, "seconds": 1.0, "rounds": 5}
NET = SHARED | {"blocks": 6, "channels": 96, "precision": "auto"}
TREE = NET | {"checkpoint": "", "sims": 128, "algorithm": "puct", "leaves": 1, "spread": 0.0}
BOARD = SHARED | {"batch": "1024", "seconds": 2.0, "rounds": 3, "superko": "positional"}
FEATURES = {"preset": "alphago48", "without": ""} | SHARED | {"batch": "1024", "seconds": 0.5, "rounds": 7}
MEMORY = {"size": "9,19", "memory": "8,24,80", "batch": "256,1024,4096", "sims": "64,400", "blocks": 0, "channels": 0}
MEMORY |= {"run": "", "minutes": 60.0}
LEARN = {"config": "configs/quickstart.yaml", "set": "", "minutes": 10.0, "seeds": 1, "points": 4}
LEARN |= {"opponents": "mcts:200", "games": 100, "simulations": 64, "out": "checkpoints/learn"}
# The module in which each is, as `run_NAME`, what it measures, and its options with their defaults.
BENCHES = {
    "board": ("board", "random legal moves a second, compared with pgx where installed", BOARD),
    "net": ("net", "evaluations a second of a network", NET | {"checkpoint": ""}),
    "features": ("net", "positions a second of an encoder, compared with zero17", FEATURES | {"precision": "float32"}),
    "search": (
        "search",
        "simulations a second, and which share of the raw network's speed that is",
        TREE | {"kernels": "compiled"},
    ),
    "profile": ("search", "where the time of a simulation goes, with compiled kernels and without", TREE),
    "memory": (
        "memory",
        "bytes a node, and the largest trees that fit a device",
        MEMORY | {"precision": "auto", "device": "auto", "threads": 0},
    ),
    "selfplay": ("search", "games, moves and samples of self-play", NET | {"sims": 8, "algorithm": "gumbel"}),
    "train": ("gpu", "samples learned a second", NET | {"batch": "512"}),
    "gpu": ("gpu", "all that counts on a machine with a GPU, in ten minutes", {"part": "", "device": "auto"}),
    "learn": ("learn", "strength over minutes, games and simulations of training", LEARN),
}
# What the help says of an option, of one bench's under "NAME option", before the default.
HELP = {
    "size": "side of the board, or several as 9,19",
    "batch": "positions evaluated at once, or several as 64,{}",
    "device": "auto, cpu or cuda",
    "checkpoint": "a checkpoint or a network of KataGo's, in place of a fresh network of those blocks and channels",
    "threads": "CPU threads, the same for all that is compared; 0 leaves the choice to torch",
    "seconds": "length of one round",
    "rounds": "rounds, of which the best or the median counts",
    "blocks": "residual blocks",
    "channels": "channels of the trunk",
    "precision": "auto, float32 or bfloat16",
    "sims": "simulations of a search",
    "algorithm": "puct or gumbel",
    "leaves": "leaves of one tree taken in one step",
    "spread": "standard deviation of the policy's logits over a board, about 2 in a trained network; 0 leaves a fresh "
    "one's",
    "kernels": "compiled or plain, which is torch alone",
    "superko": "positional, situational or simple",
    "preset": f"{', '.join(ENCODERS)}, or groups as stones+liberties:8",
    "without": "groups that are left out, as ladder_capture+ladder_escape",
    "memory": "the devices' memory in GB, 10^9 bytes",
    "config": "YAML file with the settings of the runs",
    "set": "settings that replace those of the file, as 'training.batch=64 search.c_scale=2'",
    "minutes": "minutes of training for each seed, matches not counted",
    "seeds": "runs, with the seeds from 1 on",
    "points": "checkpoints of each run that play",
    "opponents": "whom they play, as for zerogo evaluate, with commas between",
    "games": "games against each opponent",
    "simulations": "simulations a move in the matches",
    "out": "folder of the runs, learn.jsonl and learn.svg; the same command resumes after an interruption",
    "part": "kernels or rounds: that part alone; all parts and their verdicts without it",
    "train batch": "samples of a step, or several as 64,{}",
    "board batch": "games played at once, or several as 64,{}",
    "features batch": "positions at once, or several as 64,{}",
    "run": "settings (YAML) of a run whose process is watched instead, on the CPU's memory",
    "memory minutes": "length of that run",
    "memory size": "side of the board, or several",
    "memory batch": "games at once",
    "memory blocks": "residual blocks; 0 takes 6 up to 9x9 and 10 above",
    "memory channels": "channels of the trunk; 0 takes 96 and 128",
    "memory device": "where it is measured: auto, cpu or cuda",
    "selfplay sims": "simulations a move",
    "selfplay algorithm": "gumbel or puct",
}
PEERS = {"board": "pgx", "search": "mctx"}


def _add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the options of a bench."""
    for option, default in BENCHES[name][2].items():
        text = HELP.get(f"{name} {option}", HELP[option]).format(default)
        shown = "" if default == "" else f" (default {str(default).removesuffix('.0')})"
        parser.add_argument(f"--{option}", type=type(default), default=default, help=text + shown)
    if library := PEERS.get(name):
        add, peer = parser.add_argument, f"time {library} as well, in turn with zerogo, on its device (sizes 9 and 19)"
        batches = "the peer's games at once, or several such numbers, of which its best counts (default as --batch)"
        python = f"the Python that has {library} (default this one)"
        add("--peer", action="store_true", help=peer)
        add("--peer-batch", metavar="GAMES", help=batches)
        add("--peer-python", default=sys.executable, metavar="PATH", help=python)


def _check(args: argparse.Namespace) -> None:
    """Raises InputError for what no measurement can have."""
    for name in ("sims", "leaves", "seeds", "points", "games", "simulations"):
        number = getattr(args, name, 1)
        if isinstance(number, int) and number < 1:
            raise InputError(f"--{name} is {number}; it must be at least 1")
    if getattr(args, "checkpoint", "") and (getattr(args, "spread", 0) or getattr(args, "peer", False)):
        raise InputError(f"--checkpoint is {args.checkpoint}; --spread and --peer are for a fresh network")
    if not 0 <= getattr(args, "spread", 0) <= 10:
        raise InputError(f"--spread is {args.spread}; it must be from 0 to 10")
    if getattr(args, "rounds", 1) < 1 or getattr(args, "seconds", 1) <= 0:
        rounds = f"{args.rounds} rounds of {args.seconds} seconds"
        raise InputError(f"{rounds}; at least one round of more than 0 seconds is needed")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings."""
    parser = cli.make_parser("bench", ABOUT, EXAMPLES)
    commands = parser.add_subparsers(dest="bench", required=True, metavar="{" + ",".join(BENCHES) + "}")
    for name, (_, text, _) in BENCHES.items():
        _add_options(commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + "."), name)
    return parser.parse_args(arguments)


def main(args: argparse.Namespace) -> None:
    """Runs the measurement that the command line names. Raises InputError for options that it can't have."""
    _check(args)
    # Only the chosen one is imported: the board's measurement needs no network.
    module = importlib.import_module(f"zerogo.bench.{BENCHES[args.bench][0]}")
    getattr(module, f"run_{args.bench}")(args)


if __name__ == "__main__":
    cli.run(parse, main)
