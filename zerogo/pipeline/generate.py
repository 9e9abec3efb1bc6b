"""Games of a trained network written to files: `zerogo selfplay --checkpoint`."""

import dataclasses
from pathlib import Path

from zerogo import kernels
from zerogo.checkpoint import Checkpoint, require_compatible
from zerogo.cli import Setup
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator, search_heads
from zerogo.pipeline import limits
from zerogo.replay import save_shard, shard_path
from zerogo.selfplay import SelfPlay, write_games
from zerogo.system import distributed
from zerogo.system.runtime import describe, make_directory
from zerogo.system.telemetry import Progress
from zerogo.tuning import slots

FAR = 10**9  # samples between the numbers of two ranks
LOOK_EVERY = 16  # finished games between two updates of the progress line


def evaluator_for(setup: Setup, checkpoint: Checkpoint) -> Evaluator:
    """Returns what self-play asks: the averaged network of a checkpoint."""
    arguments = checkpoint.network(), checkpoint.encoder(), setup.device, setup.dtype
    heads = search_heads(checkpoint.config.network.heads, setup.config.search.score_weight)
    return Evaluator.from_network(*arguments, heads=heads)


def generate(setup: Setup, checkpoint: Checkpoint, num_games: int, out_dir: Path) -> None:
    """Lets the averaged network of a checkpoint play games against itself and writes all of them: SGF into
    `out_dir`/games, samples into `out_dir`/samples as replay shards. Raises InputError where the checkpoint does not
    fit the config.

    The games are those numbered 0 to num_games - 1, not the first to be finished, which would be the short ones. Each
    rank plays and writes its share of the numbers, its samples counted from FAR times its own number."""
    if num_games < distributed.world_size():
        raise InputError(f"--games is {num_games}; {distributed.world_size()} processes need at least one game each")
    config, device = setup.config, setup.device
    limits.require_same_start(config)
    distributed.run_and_sync_errors(require_compatible, checkpoint, config, True)
    evaluator = evaluator_for(setup, checkpoint)
    whole = config.selfplay  # at the end of its schedule
    share, first = distributed.local_count(num_games), FAR * distributed.rank()
    games = max(1, distributed.local_count(whole.slots)) if whole.slots else 0
    alone = {"slots": min(games, share), "sgf_share": 1.0, "simulations_schedule": ()}
    settings = dataclasses.replace(whole, **alone, full_simulations=whole.full_at(1.0))
    arguments = config.game, config.search, settings, evaluator, device, share
    search, settings, why = slots.fit_to_device(*arguments)
    numbers = {"first_game": distributed.rank(), "stride": distributed.world_size()}
    selfplay = SelfPlay(config.game, search, settings, evaluator, device, config.run.seed, **numbers)
    selfplay.set_network(evaluator, checkpoint.step)
    make_directory(out_dir / "samples")
    machine = f"{describe(device)['device']}, {kernels.in_use(device)}"
    line = f"{out_dir}: {num_games} games of {checkpoint.source} on {machine}" + (f"\nself-play: {why}" if why else "")
    if distributed.is_rank0():
        whole = dataclasses.replace(settings, slots=settings.slots * distributed.world_size())
        dataclasses.replace(config, search=search, selfplay=whole).dump(out_dir / "config.yaml")
        print(line)
    finished = written = 0
    # Shares may take different times, through which those that are over wait.
    with distributed.on_rank0(Progress, "selfplay", num_games, "games") as progress:
        while finished < share:
            collected = selfplay.play(min(LOOK_EVERY, share - finished))
            games = [game for game in collected.games if game.number < num_games]
            finished += len(games)
            write_games(out_dir / "games", games, f"{config.run.name}@{checkpoint.step}")
            samples = collected.all_samples()
            if samples is not None:
                samples = samples.select((samples.game < num_games).nonzero().squeeze(1))
                if len(samples):
                    save_shard(shard_path(out_dir / "samples", first + written, len(samples)), samples)
                written += len(samples)
            world = distributed.world_size()
            progress.update(min(num_games, finished * world), samples=written * world)
    totals = [sum(numbers) for numbers in zip(*distributed.all_gather_object((finished, written)), strict=True)]
    if distributed.is_rank0():
        print("wrote {} games and {} samples".format(*totals))
