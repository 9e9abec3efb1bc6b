"""Strength against fixed opponents over minutes, games and simulations: what a change of the recipe is worth.

A run is trained for every seed, without a match on the way; then its checkpoints play paired games, so that matches
cost no training time. Lines are kept in `learn.jsonl` of a folder: the same command resumes after an interruption."""

import argparse
import contextlib
import html
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from zerogo import bench, checkpoint, cli, config
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.pipeline import Matches, train
from zerogo.system.runtime import make_directory, write_atomically

AXES = {"minutes": "minutes of training", "games": "games of self-play", "simulations": "simulations of self-play"}
COLOURS = ("#2f7d5b", "#b5523f", "#3d6a9e", "#8a6bb1", "#b08a2e")
WIDTH, HEIGHT, MARGIN = 320, 220, 36  # of one panel, in pixels


def run_learn(args: argparse.Namespace) -> None:
    """Trains, plays, and prints a line for every checkpoint and opponent; writes the picture after each."""
    base, out = config.load(args.config, args.set.split()), make_directory(args.out)
    kept = out / "learn.jsonl"
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    label = {"config": args.config, "set": args.set}
    if any(line[name] != value for line in lines for name, value in label.items()):
        raise InputError(f"--out {args.out} holds the measurement of another --config or --set; name another folder")
    played = {(line["seed"], line["step"], line["opponent"]) for line in lines}
    for seed in range(1, args.seeds + 1):
        one = settings_of(base, args, seed)
        directory = one.run.folder
        newest, is_begun = checkpoint.newest(directory), (directory / "config.yaml").exists()
        if newest is None or newest.counters["seconds"] < 60 * args.minutes:
            with contextlib.redirect_stdout(sys.stderr):  # stdout has the lines alone
                train(one, resume=is_begun)
        for path in spread(checkpoint.paths(directory), args.points):
            for line in matches(one, path, played):
                lines.append(line | label | {"seed": seed})
                write_atomically(kept, lambda file: file.write("".join(f"{json.dumps(x)}\n" for x in lines).encode()))
                write_atomically(out / "learn.svg", lambda file: file.write(picture(lines).encode()))
                bench.report(lines[-1])


def settings_of(base: Config, args: argparse.Namespace, seed: int) -> Config:
    """Returns the settings of one seed's run."""
    run = replace(base.run, seed=seed, name=f"seed-{seed}", directory=args.out)
    times = {"minutes": args.minutes, "checkpoint_minutes": args.minutes / args.points, "keep_checkpoints": 0}
    pipeline = replace(base.pipeline, **times, iterations=0, final_matches=False)
    against = {"opponents": args.opponents.split(","), "games": args.games, "simulations": args.simulations}
    evaluation = replace(base.evaluation, **against, every_minutes=0, every_iterations=0)
    return replace(base, run=run, pipeline=pipeline, evaluation=evaluation)


def spread(paths: list[Path], number: int) -> list[Path]:
    """Returns at most so many of the paths, evenly spread, the last among them."""
    return [paths[len(paths) * k // number - 1] for k in range(1, number + 1)] if len(paths) > number else paths


def matches(settings: Config, path: Path, played: set[tuple[int, int, str]]) -> Iterator[dict[str, Any]]:
    """Yields what each match of a checkpoint gave, but for those that were played."""
    found, setup = checkpoint.load(path), cli.set_up(settings)
    missing = [name for name in settings.evaluation.opponents if (settings.run.seed, found.step, name) not in played]
    against = Matches(
        settings.game, replace(settings.evaluation, opponents=missing), settings.run.seed, setup.device, setup.dtype
    )
    counted = bench.line_of("learn", settings.game.size, found.config.selfplay.slots, setup.device, setup.dtype)
    counted |= {"step": found.step, "minutes": round(found.counters["seconds"] / 60, 2)}
    counted |= {name: found.counters[name] for name in ("games", "samples", "simulations")}
    for opponent, _, result, _ in against.play(found, settings.evaluation.games):
        low, high = result.interval
        scores = {"win_rate": result.win_rate, "low": low, "high": high, "mean_score": result.mean_score}
        yield counted | {"size": result.rules.size, "opponent": opponent, "played": result.num_games} | scores


def picture(lines: list[dict[str, Any]]) -> str:
    """Returns an SVG with one panel for each axis: win rates with their intervals, a colour an opponent."""
    opponents = list(dict.fromkeys(line["opponent"] for line in lines))
    panels = "".join(_panel(lines, axis, k, opponents) for k, axis in enumerate(AXES))
    legend = "".join(
        f'<text x="{MARGIN + 150 * k}" y="{HEIGHT + 18}" fill="{COLOURS[k % 5]}">{html.escape(name)}</text>'
        for k, name in enumerate(opponents)
    )
    size = f'width="{WIDTH * len(AXES)}" height="{HEIGHT + 28}"'
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{panels}{legend}</svg>\n'


def _panel(lines: list[dict[str, Any]], axis: str, column: int, opponents: list[str]) -> str:
    """Returns the curves over one axis."""
    most = max(line[axis] for line in lines) or 1
    left, tall = column * WIDTH + MARGIN, HEIGHT - 2 * MARGIN

    def at(line: dict[str, Any], rate: float) -> str:
        return f"{left + (WIDTH - 1.5 * MARGIN) * line[axis] / most:.1f},{MARGIN + tall * (1 - rate):.1f}"

    shapes = [f'<text x="{left}" y="{HEIGHT - 8}">{AXES[axis]}, to {most:g}</text>']
    for rate in (0.0, 0.5, 1.0):
        y = MARGIN + tall * (1 - rate)
        shapes.append(f'<text x="{left - 4}" y="{y + 4}" text-anchor="end">{100 * rate:.0f} %</text>')
        shapes.append(f'<path d="M{left},{y} h{WIDTH - 1.5 * MARGIN}" stroke="#ded6c8"/>')
    for seed, name in sorted({(line["seed"], line["opponent"]) for line in lines}):
        colour = COLOURS[opponents.index(name) % 5]
        own = sorted(
            (line for line in lines if (line["seed"], line["opponent"]) == (seed, name)), key=lambda x: x[axis]
        )
        curve = " ".join(at(line, line["win_rate"]) for line in own)
        shapes.append(f'<polyline points="{curve}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        bars = (f"M{at(line, line['low'])} L{at(line, line['high'])}" for line in own)
        shapes.append(f'<path d="{" ".join(bars)}" stroke="{colour}" opacity="0.4"/>')
    return "".join(shapes)
