"""What a run may take: memory and disk, planned from its settings before it starts; how many games are played at once,
and how many leaves of a tree a step takes, where the settings leave that to the machine (0); and what of the run's
files stays.

Games come first: they fill the network's batch without changing what is searched. Several leaves a step make a search a
little weaker, so they only fill what memory, or the number of games that are wanted, leaves open."""

import contextlib
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from zerogo import board, checkpoint, kernels, tuning
from zerogo.config import Config, GameConfig
from zerogo.config.sections import ALL_SAMPLES
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.kernels.shared import WORDS_AFTER_ROWS
from zerogo.pipeline.matches import best_steps
from zerogo.players.analyst import SIMULATIONS_A_LEAF
from zerogo.replay import device_for, window
from zerogo.replay.samples import record_layout
from zerogo.search.tree import Tree
from zerogo.selfplay import SelfPlay, SelfPlayResult
from zerogo.selfplay.opening import RandomPlayer, begin_games
from zerogo.selfplay.record import Recorder
from zerogo.system import distributed, runtime, telemetry
from zerogo.system.signals import existing

OF_MACHINE = ("run.threads", "run.processes")  # settings in which ranks may differ
MONTH = 30 * 24 * 60  # minutes
GROWS = 1.5  # while a ring on the host grows, the old one is there too, of half its size
PACKED = 1 / 6  # bytes of a sample on the disk to those in memory: 1/6 to 1/7 were seen from 5x5 to 9x9
# Bytes a parameter: in a checkpoint (weights, averages, two statistics), in memory, and of a player that a gate keeps.
WEIGHTS, LEARNING, PLAYER = 16, 20, 4
FEWEST = 8  # games at once, games of an iteration and samples of a batch, in equal shares of `auto`; not measured
LOG, GAME = 17_000, 4_000  # bytes of the logs of an iteration, a minute long, and of an SGF
KEEP_EVERY = 50  # each one of so many checkpoints stays for ever
FAR = 10**9  # samples after which a window hardly grows, and more games than are ever played
# For the number of games at once, and of leaves.
LEAST_TIMED, MOST_GAMES = 64, 65536  # games; smaller batches than the least are not timed
MEMORY_SHARE = 0.4  # of the free memory; training and the network's buffers need the rest
PROCESS_BYTES = 2**30  # of another process with torch and a network: on a GPU its context and libraries, an estimate
DIFFERENT = 64  # positions that are measured; larger batches repeat them
PLIES_A_POINT = 0.4
# So that a game's first moves are not by a much older network. An H100 took 32,768 games, as 16,384 were 5 % slower.
ITERATIONS_AT_ONCE = 3
LONGEST_MOVE = 2.0  # seconds of a whole move of all games, beyond which no more of them are tried
WHOLE_MOVES_SECONDS = 0.3  # of whole moves that are timed, at least one


def require_learnable(config: Config) -> None:
    """Raises InputError for a batch that the samples of no window would ever earn."""
    largest = int(config.replay.reuse * window(FAR, config.replay))
    if config.training.batch > largest:
        what = f"training.batch is {config.training.batch}, but the window allows at most {largest} training samples"
        raise InputError(f"{what} (replay.reuse times its size), so training would never start; lower the batch")


def least_samples(config: Config) -> int:
    """Returns the number of samples with which learning begins. It is 0 for fresh weights. Trained weights of another
    run would overfit the first few games, which cost more than it gained; the credit of these samples is used later."""
    return min(config.replay.min_window, config.replay.capacity) if config.run.start_from else 0


def require_shares(config: Config, number: int) -> None:
    """Raises InputError for settings that this number of ranks can't share."""
    if config.training.batch % number:
        batch, near = config.training.batch, max(1, config.training.batch // number) * number
        what = f"training.batch is {batch}, which {number} processes cannot share equally"
        raise InputError(f"{what}; it must be a multiple of {number}, such as {near}")
    slots, games = config.selfplay.slots or number, config.pipeline.games_per_iteration
    for key, count in (("selfplay.slots", slots), ("pipeline.games_per_iteration", games)):
        if count < number:
            raise InputError(f"{key} is {count}; {number} processes need {number} or more, a game for each")


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
    free = runtime.free_bytes(device) if device.type == "cpu" else None

    def _has_room(number: int) -> bool:
        processes = tuning.PROCESS_BYTES * number  # beside this one, which starts them
        return free is None or sum(memory(config, device, number).values()) + processes <= free

    batch, games = config.training.batch, config.pipeline.games_per_iteration
    largest = min(number, batch // FEWEST, games // FEWEST, (config.selfplay.slots or games) // FEWEST)
    return next(filter(_has_room, (n for n in range(largest, 1, -1) if batch % n == 0)), 1)


def memory(config: Config, device: torch.device, processes: int = 0) -> dict[str, float]:
    """Returns the bytes of what a run will hold, by setting: replay on its device, games in flight, network. Games
    whose number is still to be measured (selfplay.slots 0) count nothing. On a CPU the bytes are those of all ranks of
    this machine, with an equal share of the games for each, on a GPU those of one rank. processes: the ranks, all on
    this machine; 0: as many as now."""
    here, world = processes or distributed.local_rank_and_size()[1], processes or distributed.world_size()
    on_device = here if device.type == "cpu" else 1
    side = config.game.largest_size
    record, is_on_host = record_layout(side)[1] * 8, device_for(config.replay, side, device).type == "cpu"
    games = config.selfplay.slots if config.pipeline.plays else 1
    return {  # each rank has all samples
        "replay.capacity": config.replay.capacity * record * (GROWS * here if is_on_host else 1.0),
        "selfplay.slots": float(games * bytes_of_game(config)[1]) * on_device / world,
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
    there = sum(stat_of(path, "st_size") for path in place.rglob("*")) if place.exists() else 0
    room, total = shutil.disk_usage(existing(place)).free + there, sum(files.values())
    kinds = ", ".join(f"{name} {_size(size)}" for name, size in files.items())
    if total > room:
        what = "pipeline.keep_checkpoints and keep_games, and replay.capacity"
        raise InputError(f"{place} may grow to {_size(total)} ({kinds}), but only {_size(room)} is free: lower {what}")
    return f"{_size(total)} of disk at most ({kinds})"


def stat_of(path: Path, name: str) -> float:
    """Returns a field of a file's `stat`; 0 for anything else, and for one that is gone: actors rename theirs."""
    with contextlib.suppress(FileNotFoundError):
        return getattr(path.stat(), name) if path.is_file() else 0
    return 0


def _planned(config: Config, needed: dict[str, float], device: torch.device) -> str:
    """Returns in words what is needed of a device's memory, by setting. Raises InputError where it has no room."""
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
    raise InputError(f"{_size(total)} of memory is planned ({kinds}), but only {_size(free)} is free: {way_out}")


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
    by_age = (sorted(of_kind, key=lambda path: stat_of(path, "st_mtime")) for of_kind in paths)
    return [path for of_kind in by_age for path in of_kind[:-keep]] if keep else []


# Games at once, and leaves of a step


def fit_to_device(
    config: Config, evaluator: Evaluator, device: torch.device, most_games: int = MOST_GAMES, cap: int = MOST_GAMES
) -> tuple[Config, str]:
    """Returns the config with numbers for selfplay.slots 0 and search.leaves 0, and why these; "" where both are set.

    The evaluator is timed first, on positions of random games in growing batches. Then whole moves are timed, from half
    the batch found so far upwards: what a move costs besides the network is shared by all games. most_games: an upper
    limit besides memory. cap: the largest number that is wanted; where memory has room for it, search.leaves=0 becomes
    1."""
    search, settings = config.search, config.selfplay
    games, leaves = settings.slots, search.leaves
    if games and leaves:
        return config, ""
    if not games:
        most_games = max(1, min(most_games, _games_in_memory(config, device)))
        leaves, most_games = leaves or int(most_games >= cap), min(most_games, cap)
    # Few leaves of a search with few simulations.
    fewest = settings.all_simulations[0]
    most_games, most_leaves = games or most_games, leaves or max(1, fewest // SIMULATIONS_A_LEAF)
    turned, limit = evaluator.with_symmetries(search.symmetry_leaf), most_games * most_leaves

    def _sized(size: int) -> Config:
        many = games or max(1, min(most_games, size // (leaves or 1)))
        several = leaves or min(most_leaves, max(1, size // many))
        return replace(config, search=replace(search, leaves=several), selfplay=replace(settings, slots=many))

    evaluated = _time_evaluations(turned, _random_positions(config.game, device), limit, search.cuda_graph)
    least, longest = max(1, evaluated.size // 2), LONGEST_MOVE / fewest
    whole = tuning.find_batch(lambda size: measure_moves(_sized(size), evaluator, device), limit, least, 1, longest)
    fitted = _sized(whole.size)
    words = f"{fitted.selfplay.slots:,} games at once"
    words += f", {fitted.search.leaves} leaves of each tree in a step" if fitted.search.leaves > 1 else ""
    return fitted, f"{words}: {whole.why('simulations/s of whole moves in batches')}; {evaluated.why()}"


def most_at_once(config: Config) -> int:
    """Returns how many games a run wants at once, at most."""
    return min(MOST_GAMES, ITERATIONS_AT_ONCE * config.pipeline.games_per_iteration)


def pick_slots(
    config: Config, before: Config | None, evaluator: Callable[[], Evaluator], device: torch.device
) -> tuple[Config, str]:
    """Returns a run's config with selfplay.slots, of all ranks together, and search.leaves set, and why. before: the
    config of a resumed run, whose numbers stay. evaluator: makes that of self-play."""
    search, settings = config.search, config.selfplay
    if before is not None:
        search = replace(search, leaves=search.leaves or before.search.leaves)
        settings = replace(settings, slots=settings.slots or before.selfplay.slots)
    if not config.pipeline.plays:  # actors find out for themselves
        return config, ""
    share = replace(settings, slots=distributed.local_count(settings.slots))
    local = replace(config, search=search, selfplay=share)
    cap = max(1, distributed.local_count(most_at_once(config)))
    playing = evaluator()
    max_games = min(distributed.all_gather_object(_games_in_memory(local, device, has_matches=True)))
    fitted, why = distributed.broadcast_from_rank0(lambda: fit_to_device(local, playing, device, max_games, cap))
    settings = replace(settings, slots=settings.slots or fitted.selfplay.slots * distributed.world_size())
    return replace(config, search=fitted.search, selfplay=settings), why


def measure_moves(config: Config, evaluator: Evaluator, device: torch.device) -> float:
    """Returns the simulations a second of whole moves. Caps differ, so that games end at each move, as in a run; there
    are no opening plies, of which fresh games would have more than those of a run."""
    config = replace(config, selfplay=replace(config.selfplay, opening_plies=0.0))
    playing = SelfPlay(config, evaluator, device, seed=0)
    plies = int(2 * PLIES_A_POINT * playing.states.board_size**2) + 1
    cap = torch.minimum(1 + playing.all_games % plies, playing.states.cap).to(playing.states.cap.dtype)
    playing.states = replace(playing.states, cap=cap)

    def _play(seconds: float) -> SelfPlayResult:
        until, late = time.monotonic() + seconds, [False]  # at least one move of most games
        return playing.play(FAR, show=lambda _: late.append(time.monotonic() >= until), pause=lambda: late[-1])

    _play(0.0)  # the first move sets things up
    played = _play(WHOLE_MOVES_SECONDS)
    return played.simulations / played.seconds


def _random_positions(game: GameConfig, device: torch.device) -> board.State:
    """Returns games of the run after random moves, as encoders have more to do there than on empty boards."""
    numbers, player = torch.arange(DIFFERENT), RandomPlayer()
    states = begin_games(game, numbers, 0, device)
    for _ in range(int(PLIES_A_POINT * states.board_size**2)):
        states = board.step(states, player.choose(states, numbers.to(device), 0))
    return states


def _time_evaluations(evaluator: Evaluator, states: board.State, limit: int, has_graph: bool) -> tuning.BatchChoice:
    """Returns the batch that keeps the device busy, as a CUDA graph if a search does so and that is faster."""
    device = states.device
    legal = board.legal_actions(states)
    is_replayed = has_graph and kernels.module_for("tree", device) is not None
    legal[:, -1] = True  # in games that are over, too: an evaluator wants a move

    def _rate(size: int) -> float:
        key = torch.arange(size, device=device)
        some, moves = states.select(key % DIFFERENT), legal[key % DIFFERENT]
        return tuning.speed(lambda: evaluator(some, legal=moves, key=key), size, device, is_replayed)

    return tuning.find_batch(_rate, limit, LEAST_TIMED)


def bytes_of_game(config: Config) -> tuple[int, int]:
    """Returns the bytes of a tree's node, and of a game in flight: its tree and its record."""
    game, side, meta = config.game, config.game.largest_size, torch.device("meta")
    nodes = (2 if config.search.keep_tree else 1) * config.selfplay.all_simulations[-1] + 2  # as in `Search.init`
    tree = Tree.empty(1, nodes, side * side + 1, 3 * side + WORDS_AFTER_ROWS, meta)
    records = Recorder.empty(1, max(map(game.plies, game.all_sizes)), side, meta).tables.values()
    return tree.bytes_per_node, nodes * tree.bytes_per_node + sum(table.nbytes for table in records)


def _games_in_memory(config: Config, device: torch.device, has_matches: bool = False) -> int:
    """Returns for how many games there is memory, MOST_GAMES if unknown. has_matches: whether the memory of background
    matches is left free: a process, and a tree for each player of all their games."""
    if (free := runtime.free_bytes(device)) is None:
        return MOST_GAMES
    (bytes_per_node, bytes_per_game), matches = bytes_of_game(config), config.evaluation
    if has_matches and (matches.every_minutes or matches.every_iterations):
        free -= PROCESS_BYTES + 2 * matches.games * matches.simulations * bytes_per_node
    ranks = distributed.local_rank_and_size()[1] if device.type == "cpu" else 1  # they share the rest
    return max(0, int(MEMORY_SHARE * free)) // (ranks * bytes_per_game)
