"""Games of a trained network written to files: what `selfplay.py` starts, and where a run keeps the games it
samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zerogo import checkpoint as checkpoints
from zerogo import kernels, sgf
from zerogo.evaluator import Evaluator
from zerogo.replay import Samples
from zerogo.replay.shards import save_shard, shard_path
from zerogo.runtime import describe, make_directory, pick_compile, pick_device, pick_dtype, set_up_cpu
from zerogo.selfplay import at_once
from zerogo.selfplay.games import EndReason, Game, SelfPlay
from zerogo.telemetry import Progress

if TYPE_CHECKING:
    from zerogo.config import Config

LOOK_EVERY = 16  # finished games between two updates of the progress line


def write_games(directory: Path, games: Sequence[Game], player: str) -> None:
    """Writes games as SGF, each with the values that the search saw as comments, named by their numbers."""
    if games:
        make_directory(directory)
    for game in games:
        comments = [f"value for the side to move {value:+.3f}" for value in game.root_values]
        comments[-1:] = [f"{comments[-1]}\nended by: {game.end.name.lower()}"] if comments else []
        values_black = [value if ply % 2 == 0 else -value for ply, value in enumerate(game.root_values)]
        record = sgf.GameRecord(
            rules=game.rules,
            moves=game.moves,
            result=sgf.result_text(game.score_black, game.end == EndReason.RESIGNED),
            black=player,
            white=player,
            comments=comments,
            winrates_black=[min(1.0, max(0.0, (1 + value) / 2)) for value in values_black],
        )
        sgf.write(directory / f"game-{game.number:08d}.sgf", record)


def generate(config: Config, checkpoint_path: Path, num_games: int, out_dir: Path) -> None:
    """Lets the averaged network of a checkpoint play games against itself and writes all of them: SGF into
    `out_dir`/games, samples into `out_dir`/samples as replay shards. Raises InputError where the checkpoint does not
    fit the config.

    The games are those numbered 0 to num_games - 1, not the first to be finished, which would be the short ones.
    """
    checkpoint = checkpoints.load(checkpoint_path)
    checkpoints.require_compatible(checkpoint, config, only_plays=True)
    set_up_cpu(config.run.threads)
    kernels.choose(config.run.kernels)
    device = pick_device(config.run.device)
    together = dataclasses.replace(config.selfplay, games=min(config.selfplay.games, num_games), sgf_share=1.0)
    config = dataclasses.replace(config, selfplay=together)
    dtype, compiled = pick_dtype(config.run.precision, device), pick_compile(config.run.compile, device)
    network = checkpoint.network(averaged=True)
    evaluator = Evaluator.from_network(
        network, checkpoint.encoder(), device, dtype, heads=("policy", "value"), compiled=compiled
    )
    config, fit = at_once.fitted(config, evaluator, device, num_games)
    selfplay = SelfPlay(config, evaluator, device, config.run.seed)
    selfplay.use(evaluator, checkpoint.step)
    config.dump(make_directory(out_dir) / "config.yaml")
    print(
        f"{out_dir}: {num_games} games of {checkpoint_path} on {describe(device)['device']}, {kernels.in_use(device)}"
    )
    if fit:
        print(f"self-play: {fit}")
    samples = make_directory(out_dir / "samples")
    finished = written = 0
    with Progress("selfplay", num_games, "games") as progress:
        while finished < num_games:
            collected = selfplay.play(min(LOOK_EVERY, num_games - finished))
            games = [game for game in collected.games if game.number < num_games]
            finished += len(games)
            write_games(out_dir / "games", games, f"{config.run.name}@{checkpoint.step}")
            written += _write_samples(samples, collected.all_samples(), num_games, written)
            progress.update(finished, samples=written)
    print(f"wrote {finished} games and {written} samples")


def _write_samples(directory: Path, samples: Samples | None, num_games: int, first: int) -> int:
    """Writes the samples of games numbered below `num_games` as one shard and returns their number."""
    samples = None if samples is None else samples.at(samples.game < num_games)
    if samples is None or not len(samples):
        return 0
    save_shard(shard_path(directory, first, len(samples)), samples)
    return len(samples)
