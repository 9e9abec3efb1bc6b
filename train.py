#!/usr/bin/env python3
"""Starts a training run, or goes on with one: self-play, training and evaluation in turn."""

import argparse
from pathlib import Path
from typing import Any

from zerogo import cli

QUICKSTART = Path(__file__).resolve().parent / "configs" / "quickstart.yaml"
EXAMPLES = """
examples:
  python train.py                                        the quick start: 5x5 on a CPU, about ten minutes
  python train.py --config configs/9x9.yaml              a run with other settings
  python train.py --config configs/7x7.yaml --run mine training.learning_rate=1e-3 pipeline.minutes=60
  python train.py --config mine.yaml --from checkpoints/7x7.pt            begins with weights of the same shape
  python train.py --resume --run mine                    goes on with checkpoints/mine from its newest checkpoint
  python train.py --export mine.pt --run mine            writes its newest network: to play, to give away, for --from
  python train.py --keys                                 lists every section.key with its meaning and range
  torchrun --nproc-per-node 8 --max-restarts 9 -- train.py --config configs/19x19.yaml    on 8 GPUs; see the README
  tensorboard --logdir checkpoints                       shows the curves and pictures of all runs

A run is a folder, checkpoints/NAME, with its settings (config.yaml), checkpoints, samples, games and logs.
Stop it with Ctrl-C or in any other way; --resume goes on from where it was.
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the command line's settings."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=raw)
    parser.add_argument("--config", type=Path, help="YAML file with the settings (default: configs/quickstart.yaml)")
    parser.add_argument("--run", metavar="NAME", help="the run's folder (default: run.name, or the config file's name)")
    parser.add_argument("--resume", action="store_true", help="go on with a run, without --config as it was set")
    parser.add_argument("--from", dest="origin", metavar="CHECKPOINT", help="begin with its weights, of any board size")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the run's newest network, alone, and stop")
    parser.add_argument("--keys", action="store_true", help="list every setting with its meaning, and stop")
    cli.add_overrides(parser, "config file")
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.export and (parsed.origin or parsed.resume):
        parser.error("--export writes what a run has and trains nothing; it goes without --from and --resume")
    if parsed.origin and parsed.resume:
        parser.error("--from is for a new run; --resume goes on with the run's own weights")
    return parsed


def read_config(arguments: argparse.Namespace) -> Any:
    """Returns the run's Config with its name filled in: from --config, from the run that is resumed, or the quick
    start's."""
    from zerogo.config import load, with_overrides
    from zerogo.pipeline import snapshots

    path = arguments.config or QUICKSTART
    named = {"run.name": arguments.run, "run.start_from": arguments.origin}
    overrides = arguments.overrides + [f"{key}={text}" for key, text in named.items() if text]
    if arguments.resume and arguments.config is None:
        # Where the run lies now counts, not where it lay when it was started; other overrides are for its own settings.
        run = load(path, [text for text in overrides if text.startswith("run.")]).run
        where = [*overrides, f"run.directory={run.directory}", f"run.name={run.name}"]
        if found := snapshots.config_of(run.folder, where):
            return found
    config = load(path, overrides)
    return config if config.run.name else with_overrides(config, [f"run.name={path.stem}"])


def main(arguments: argparse.Namespace) -> None:
    """Does what the command line says."""
    if arguments.keys:
        from zerogo.config import describe

        print(describe())
        return
    from zerogo import distributed

    words = {f"--{name}": getattr(arguments, name) for name in ("resume", "config", "run", "export")}
    with distributed.process_group():
        distributed.require_same(words, "start all with the same command")  # by which they ask each other the same
        go(arguments)


def go(arguments: argparse.Namespace) -> None:
    """Trains or exports as one of the processes that torchrun has started, or as the only one."""
    config = read_config(arguments)
    if arguments.export:
        from zerogo import checkpoint

        newest = checkpoint.load_newest(config.run.folder)
        checkpoint.export(arguments.export, newest)
        print(f"{arguments.export} holds the network of step {newest.step}")
        return
    from zerogo.pipeline import train

    train(config, resume=arguments.resume)


if __name__ == "__main__":
    cli.run(parse, main)
