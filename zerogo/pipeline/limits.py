"""What a run may take: memory and disk, planned from its settings before it starts, and what of its files stays."""

import contextlib
import math
import shutil
from pathlib import Path
from typing import Any

import torch

from zerogo import checkpoint, tuning
from zerogo.config import Config
from zerogo.config.sections import ALL_SAMPLES
from zerogo.errors import InputError
from zerogo.pipeline.matches import best_steps
from zerogo.replay import device_for, window
from zerogo.replay.samples import record_layout
from zerogo.system import distributed, runtime, telemetry
from zerogo.system.signals import existing
from zerogo.tuning import slots

OF_MACHINE = ("run.threads", "run.processes")  # settings in which ranks may differ
MONTH = 30 * 24 * 60  # minutes
GROWS = 1.5  # while a ring on the host grows, the old one is there too, of half its size
PACKED = 1 / 6  # bytes of a sample on the disk to those in memory: 1/6 to 1/7 were seen from 5x5 to 9x9
# Bytes a parameter: in a checkpoint (weights, averages, two statistics), in memory, and of a player that a gate keeps.
WEIGHTS, LEARNING, PLAYER = 16, 20, 4
FEWEST = 8  # games at once, games of an iteration and samples of a batch, for each process of `auto`; not measured
LOG, GAME = 17_000, 4_000  # bytes of the logs of an iteration, a minute long, and of an SGF
KEEP_EVERY = 50  # each one of so many checkpoints stays for ever
FAR = 10**9  # samples, after which a window hardly grows


def require_learnable(config: Config) -> None:
    """Raises InputError for a batch that the samples of no window would ever earn."""
    largest = int(config.replay.reuse * window(FAR, config.replay))
    if config.training.batch > largest:
        what = f"training.batch is {config.training.batch}, but the window earns at most {largest} samples"
        raise InputError(f"{what} (replay.reuse times its size), so nothing would be learned; lower it to that")


def least_samples(config: Config) -> int:
    """Returns the number of samples with which learning begins. It is 0 for fresh weights. Trained weights of another
    run would overfit the first few games, which cost more than it gained; the credit of these samples is used later."""
    return min(config.replay.min_window, config.replay.capacity) if config.run.start_from else 0


def require_shares(config: Config, number: int) -> None:
    """Raises InputError for settings that so many ranks can't share."""
    if config.training.batch % number:
        batch, near = config.training.batch, max(1, config.training.batch // number) * number
        what = f"training.batch is {batch}, which {number} processes cannot share equally"
        raise InputError(f"{what}; it must be a multiple of {number}, such as {near}")
    few = {"selfplay.slots": config.selfplay.slots or number}
    few |= {"pipeline.games_per_iteration": config.pipeline.games_per_iteration}
    for key, games in few.items():
        if games < number:
            raise InputError(f"{key} is {games}; {number} processes need {number} or more, a game for each")


def require_same_start(config: Config) -> None:
    """Raises InputError where ranks have other code, devices or settings than the first one."""
    if distributed.world_size() == 1:
        return

    def _facts() -> dict[str, Any]:
        device = runtime.pick_device(config.run.device)
        facts = {"the code": runtime.code_digest(), "torch": torch.__version__, "the device": device.type}
        return facts | {key: value for key, value in config.flat().items() if key not in OF_MACHINE}

    way_out = "start all with the same code, settings and kind of device"
    distributed.require_same(distributed.run_and_sync_errors(_facts), way_out)


def most_processes(config: Config, number: int) -> int:
    """Returns the largest number of processes on this machine, up to `number`, that can share a run's batches equally,
    have enough work each and, on a CPU, fit into memory. A GPU is not asked: that would take some of its memory for as
    long as this process waits for the others."""
    device = runtime.pick_device(config.run.device)
    free = (runtime.free_bytes(device) if device.type == "cpu" else None) or math.inf

    def _has_room(number: int) -> bool:
        others = tuning.PROCESS_BYTES * (number - 1)
        return free == math.inf or sum(memory(config, device, number).values()) + others <= free

    batch, games = config.training.batch, config.pipeline.games_per_iteration
    largest = min(number, batch // FEWEST, games // FEWEST, (config.selfplay.slots or games) // FEWEST)
    return next(filter(_has_room, (n for n in range(largest, 1, -1) if batch % n == 0)), 1)


def memory(config: Config, device: torch.device, processes: int = 0) -> dict[str, float]:
    """Returns the bytes of what a run will hold, by setting: replay on its device, games in flight, network. Games
    whose number is still to be measured (selfplay.slots 0) count nothing. On a CPU the bytes are those of all ranks of
    this machine, on a GPU those of one rank. processes: the number of ranks, all on this machine; 0: the present
    number."""
    here, world = processes or distributed.local_rank_and_size()[1], processes or distributed.world_size()
    on_device = here if device.type == "cpu" else 1
    side = config.game.largest_size
    record, is_on_host = record_layout(side)[1] * 8, device_for(config.replay, side, device).type == "cpu"
    games = config.selfplay.slots if config.pipeline.plays else 1
    bytes_per_game = slots.bytes_of_game(config.game, config.search, config.selfplay)[1]
    return {  # each rank has all samples
        "replay.capacity": config.replay.capacity * record * (GROWS * here if is_on_host else 1.0),
        "selfplay.slots": float(games * bytes_per_game) * on_device / world,
        "network": float(on_device * (LEARNING + PLAYER * bool(config.evaluation.gate)) * _network(config)),
    }


def _network(config: Config) -> int:
    with torch.device("meta"):
        return checkpoint.fresh_network(config).num_parameters()


def disk(config: Config, games: float) -> dict[str, float]:
    """Returns the most bytes that a run's files take after a month, or at its end if that comes before, by kind. games:
    bytes of the games in flight."""
    settings, saved = config.pipeline, WEIGHTS * _network(config)
    minutes, iterations = min(settings.minutes or MONTH, MONTH), settings.iterations or math.inf
    written = min(minutes / max(1.0, settings.checkpoint_minutes), iterations)
    kept = settings.keep_checkpoints + (3 if config.evaluation.gate else 1) if settings.keep_checkpoints else written
    kept += written / KEEP_EVERY
    record = record_layout(config.game.largest_size)[1] * 8
    archived = config.replay.archive_samples % ALL_SAMPLES  # nobody knows how many samples "all" will be
    has_matches = bool(config.evaluation.every_minutes or config.evaluation.every_iterations)
    return {
        "checkpoints": kept * saved,
        # Two, and one that is being written.
        "snapshots": 3 * (saved + games + config.replay.shard_samples * record),
        "replay": (config.replay.capacity + archived) * record * PACKED,
        "games": (settings.keep_games or 100_000) * GAME * (min(1.0, 100 * config.selfplay.sgf_share) + has_matches),
        "logs": min(telemetry.MOST_BYTES, min(minutes, iterations) * LOG),
    } | ({"actors": 2 * config.replay.min_window * record * PACKED} if config.replay.external else {})


def plan(config: Config, device: torch.device) -> str:
    """Returns in a line what a run will take. Raises InputError, with what would fit, where there is not so much."""
    needed = memory(config, device)
    by_device = {device: needed}
    if (host := device_for(config.replay, config.game.largest_size, device)) != device:
        by_device[host] = {"replay.capacity": needed.pop("replay.capacity")}
    words = "plans " + " and ".join(_planned(config, sizes, place) for place, sizes in by_device.items())
    unknown = "" if config.selfplay.slots else ", without the games in progress, whose number is measured at the start"
    has_end = config.pipeline.iterations or 0 < config.pipeline.minutes <= MONTH
    when = "" if has_end else "in a month "
    return f"{words}; {when}{plan_disk(config, needed['selfplay.slots'], device)}{unknown}"


def plan_disk(config: Config, games: float, device: torch.device) -> str:
    """Returns in words what a run's files may grow to; games: bytes of those in flight that `memory` counts. Raises
    InputError where the disk has no room for that."""
    counted = distributed.local_rank_and_size()[1] if device.type == "cpu" else 1
    files, place = disk(config, games * distributed.world_size() / counted), config.run.folder
    there = sum(map(file_size, place.rglob("*"))) if place.exists() else 0
    room, total = shutil.disk_usage(existing(place)).free + there, sum(files.values())
    kinds = ", ".join(f"{name} {_size(size)}" for name, size in files.items())
    if total > room:
        what = "pipeline.keep_checkpoints and keep_games, and replay.capacity"
        raise InputError(f"{place} may grow to {_size(total)} ({kinds}); {_size(room)} are free: lower {what}")
    return f"{_size(total)} of disk at most ({kinds})"


def file_size(path: Path) -> int:
    """Returns the bytes of a file; 0 for anything else, and for a file that is gone: actors rename theirs meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size if path.is_file() else 0
    return 0


def _planned(config: Config, needed: dict[str, float], device: torch.device) -> str:
    """Returns in words what is needed of the memory of a device, by setting. Raises InputError where there is no room
    for it."""
    free, total = runtime.free_bytes(device), sum(needed.values())
    if free is None or total <= free:
        whose = "GPU memory" if device.type == "cuda" else "memory"
        return f"{_size(total)} of {whose}" + ("" if free is None else f" of {_size(free)} free")
    largest = max(needed, key=needed.__getitem__)
    room = free - (total - needed[largest])
    now = {"replay.capacity": config.replay.capacity, "selfplay.slots": config.selfplay.slots}.get(largest, 0)
    fits = int(0.9 * now * room / needed[largest])
    way_out = f"{largest}={fits} would fit" if fits > 0 else "take smaller settings"
    kinds = ", ".join(f"{name} {_size(size)}" for name, size in needed.items())
    raise InputError(f"{_size(total)} of memory are planned ({kinds}); {_size(free)} are free: {way_out}")


def _size(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.2g} MB" if size < 1e7 else f"{size / 1e6:.0f} MB"


def remove_old_files(config: Config, newest: Path, saved: list[int], players: list[int], measured: Path | None) -> None:
    """Removes the checkpoints and games of a run that the settings do not keep. newest: the checkpoint just written.
    saved: the steps of all checkpoints ever written. players: the steps of those that have played. measured: the file
    that running matches read."""
    settings, run = config.pipeline, config.run.folder
    steps = best_steps(run, config.game.size) + saved[KEEP_EVERY - 1 :: KEEP_EVERY]
    steps += players[-2:]  # the older snapshot may name the last but one, as each change makes a snapshot
    needed = {measured, *(checkpoint.path_of(run, step) for step in steps)}
    checkpoint.prune(run, settings.keep_checkpoints, newest, needed)
    for old in old_games(run, settings.keep_games):
        old.unlink(missing_ok=True)


def old_games(run: Path, keep: int) -> list[Path]:
    """Returns all but the newest SGF games of a run and of its matches; keep: how many of each, 0 is all."""
    paths = (run.glob(pattern) for pattern in ("games/*.sgf", "matches/*.sgf"))
    by_age = (sorted(of_kind, key=_time_of) for of_kind in paths)
    return [path for of_kind in by_age for path in of_kind[:-keep]] if keep else []


def _time_of(path: Path) -> float:
    """Returns when a file was written, 0 for one that has just been removed."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0
