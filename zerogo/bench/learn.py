"""Strength against fixed opponents over minutes, games and simulations of training.

A run is trained for every seed without matches; then its checkpoints play paired games, so that matches cost no
training time. Lines are kept in `learn.jsonl` of a folder: the same command resumes after an interruption. TensorBoard
shows the win rates over seconds of training, games and simulations; the lines have their intervals."""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from zerogo import bench, checkpoint, cli, config
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.pipeline import train
from zerogo.pipeline.matches import OPTIONAL, Matches
from zerogo.pipeline.snapshots import RunState
from zerogo.system.runtime import make_directory, write_atomically
from zerogo.system.telemetry import Telemetry

AXES = ("seconds", "games", "simulations")  # counters of a run, over which TensorBoard shows its win rates


def run_learn(args: argparse.Namespace) -> None:
    """Trains, plays, and prints a line for every checkpoint and opponent."""
    base, out = config.load(args.config, args.set.split()), make_directory(args.out)
    kept = out / "learn.jsonl"
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    label = {"config": args.config, "set": args.set}
    label |= {"match_games": args.games, "match_simulations": args.simulations}
    if any(line.get(name, value) != value for line in lines for name, value in label.items()):
        others = "another --config, --set, --games or --simulations"
        raise InputError(f"--out {args.out} holds the measurement of {others}; name another folder")
    played = {(line["seed"], line["step"], line["opponent"], line["size"]) for line in lines}
    for seed in range(1, args.seeds + 1):
        one = settings_of(base, args, seed)
        directory = one.run.folder
        newest, is_begun = checkpoint.newest(directory), (directory / "config.yaml").exists()
        if newest is None or newest.counters["seconds"] < 60 * args.minutes:
            with contextlib.redirect_stdout(sys.stderr):  # stdout has the lines alone
                train(one, resume=is_begun)
        for path in pick_evenly(checkpoint.paths(directory), args.points):
            for line in play_matches(one, path, played):
                lines.append(line | label | {"seed": seed})
                write_atomically(kept, "".join(f"{json.dumps(x)}\n" for x in lines).encode())
                _chart(out, lines[-1])
                bench.print_line(lines[-1])


def settings_of(base: Config, args: argparse.Namespace, seed: int) -> Config:
    """Returns the settings of one seed's run."""
    run = replace(base.run, seed=seed, name=f"seed-{seed}", directory=args.out)
    times = {"minutes": args.minutes, "checkpoint_minutes": args.minutes / args.points, "keep_checkpoints": 0}
    pipeline = replace(base.pipeline, **times, iterations=0, final_matches=False)
    against = {"opponents": args.opponents.split(","), "games": args.games, "simulations": args.simulations}
    evaluation = replace(base.evaluation, **against, every_minutes=0, every_iterations=0)
    return replace(base, run=run, pipeline=pipeline, evaluation=evaluation)


def pick_evenly(paths: list[Path], number: int) -> list[Path]:
    """Returns at most so many of the paths, evenly spread, the last among them."""
    return [paths[len(paths) * k // number - 1] for k in range(1, number + 1)] if len(paths) > number else paths


def play_matches(settings: Config, path: Path, played: set[tuple[int, int, str, int]]) -> Iterator[dict[str, Any]]:
    """Yields the result of each match of a checkpoint that was not played before."""
    loaded, setup = checkpoint.load(path), cli.set_up(settings)
    matches = Matches(settings, setup.device, setup.dtype)
    for spec, sizes in matches.sizes_of.items():
        key = settings.run.seed, loaded.step, spec.removesuffix(OPTIONAL)
        matches.sizes_of[spec] = [size for size in sizes if (*key, size) not in played]
    line = bench.describe_case("learn", settings.game.size, loaded.config.selfplay.slots, setup.device, setup.dtype)
    line |= {"step": loaded.step, "minutes": round(loaded.counters["seconds"] / 60, 2)}
    line |= {name: loaded.counters[name] for name in ("samples", "simulations")}
    line["games"] = RunState.of(loaded.counters).finished
    for opponent, _, result, _ in matches.play(loaded, settings.evaluation.games):
        low, high = result.interval
        scores = {"win_rate": result.win_rate, "low": low, "high": high, "mean_score": result.mean_score}
        yield line | {"size": result.rules.size, "opponent": opponent, "played": result.num_games} | scores


def _chart(out: Path, line: dict[str, Any]) -> None:
    """Adds a win rate to the charts of the folder, which have one of the counters as their steps."""
    for axis in AXES:
        with Telemetry(out / f"seed-{line['seed']}-over-{axis}") as charts:
            charts.scalars(int(line.get(axis, 60 * line["minutes"])), {f"learn/{line['opponent']}": line["win_rate"]})
