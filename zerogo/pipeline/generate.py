"""Games of a trained network written to files: what `selfplay.py` starts."""

import dataclasses
from pathlib import Path

from zerogo import kernels
from zerogo.checkpoint import Checkpoint, require_compatible
from zerogo.cli import Setup
from zerogo.evaluator import Evaluator, search_heads
from zerogo.pipeline import batch_size
from zerogo.replay import save_shard, shard_path
from zerogo.runtime import describe, make_directory, pick_compile
from zerogo.selfplay import SelfPlay, write_games
from zerogo.telemetry import Progress

LOOK_EVERY = 16  # finished games between two updates of the progress line


def evaluator_for(setup: Setup, checkpoint: Checkpoint) -> Evaluator:
    """Returns what self-play asks: the averaged network of a checkpoint."""
    config, compiled = setup.config, pick_compile(setup.config.run.compile, setup.device)
    parts = checkpoint.network(averaged=True), checkpoint.encoder(), setup.device, setup.dtype
    heads = search_heads(checkpoint.config.network.heads, config.search.score_weight)
    return Evaluator.from_network(*parts, heads=heads, compiled=compiled)


def generate(setup: Setup, checkpoint: Checkpoint, num_games: int, out_dir: Path) -> None:
    """Lets the averaged network of a checkpoint play games against itself and writes all of them: SGF into
    `out_dir`/games, samples into `out_dir`/samples as replay shards. Raises InputError where the checkpoint does not
    fit the config.

    The games are those numbered 0 to num_games - 1, not the first to be finished, which would be the short ones."""
    config, device = setup.config, setup.device
    require_compatible(checkpoint, config, only_plays=True)
    evaluator = evaluator_for(setup, checkpoint)
    whole = config.selfplay  # at the end of its schedule
    alone = {"games": min(whole.games, num_games), "sgf_share": 1.0, "simulations_schedule": ()}
    settings = dataclasses.replace(whole, **alone, full_simulations=whole.full_at(1.0))
    search, settings, why = batch_size.fitted(config.game, config.search, settings, evaluator, device, num_games)
    selfplay = SelfPlay(config.game, search, settings, evaluator, device, config.run.seed)
    selfplay.use(evaluator, checkpoint.step)
    make_directory(out_dir / "samples")
    dataclasses.replace(config, search=search, selfplay=settings).dump(out_dir / "config.yaml")
    machine = f"{describe(device)['device']}, {kernels.in_use(device)}"
    print(f"{out_dir}: {num_games} games of {checkpoint.source} on {machine}" + (f"\nself-play: {why}" if why else ""))
    finished = written = 0
    with Progress("selfplay", num_games, "games") as progress:
        while finished < num_games:
            collected = selfplay.play(min(LOOK_EVERY, num_games - finished))
            games = [game for game in collected.games if game.number < num_games]
            finished += len(games)
            write_games(out_dir / "games", games, f"{config.run.name}@{checkpoint.step}")
            samples = collected.all_samples()
            if samples is not None:
                samples = samples.select((samples.game < num_games).nonzero().squeeze(1))
                if len(samples):
                    save_shard(shard_path(out_dir / "samples", written, len(samples)), samples)
                written += len(samples)
            progress.update(finished, samples=written)
    print(f"wrote {finished} games and {written} samples")
