"""Self-play outside of a run: by actors, which play games for it on any machine that sees its folder, and into files.

`zerogo selfplay --watch RUN` follows the newest checkpoint of the run (with `evaluation.gate` the player that it
names), adds shards of finished games to RUN/actors, whole or not at all, and some games as SGF to RUN/games. An actor
draws a new name at each start; its files are named after it, and its games' seed depends on it, so no two games are
the same. The run takes each shard in once (`replay.external`), each actor's in their order, and renames it to .taken: a
snapshot names those whose samples it holds and the last of each actor, and a shard is removed once two snapshots hold
its samples. A shard that is damaged, of another run or a duplicate is not learned from, but moved to
RUN/actors/refused. The run checks that the shard names this run and its encoder, and that the networks that played have
no later steps than the run; it does not check their weights."""

import contextlib
import itertools
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from zerogo import checkpoint as checkpoints
from zerogo import cli, kernels, tuning
from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.checkpoint import Checkpoint
from zerogo.cli import Setup
from zerogo.config import Config, GameConfig, with_overrides
from zerogo.errors import InputError, Interrupted, one_line
from zerogo.evaluator import SEARCH_HEADS, Evaluator
from zerogo.pipeline import limits, sanity_checks
from zerogo.pipeline.matches import load_player
from zerogo.pipeline.snapshots import RunState
from zerogo.replay import Samples
from zerogo.replay.shards import load_with_about, save_shard, shard_path
from zerogo.rules import SCORING, SUPERKO
from zerogo.selfplay import EndReason, SelfPlay, SelfPlayResult
from zerogo.selfplay.record import write_games
from zerogo.system import bounds, distributed
from zerogo.system.runtime import device_name, make_directory, make_output_folder
from zerogo.system.signals import Signals, pipe_safe_streams
from zerogo.system.telemetry import Progress

FOLDER, REFUSED, MOST_REFUSED = "actors", "refused", 100  # refused shards, the newest ones, are kept to be looked at
TAKEN, MOST_ACTORS = ".taken", 10_000  # the run remembers what was taken from the latest of them
NAME = re.compile(r"(([0-9a-f]{12})-(\d{8})-(\d+)\.npz)(\.taken)?")  # actor, number of its shard, samples
LOOK = 1.0  # seconds between looks for checkpoints, or for shards where there is nothing else to do
LEFTOVER = 3600.0  # seconds after which nobody is still writing a file
MEASURED = ("selfplay.slots=0", "search.leaves=0")  # an actor measures its own; the run's fit the run's machine
RULES = ("size", "komi", "superko", "suicide", "scoring")
# What a shard tells of its games beside their samples, fields of `SelfPlayResult`, and who played them: the run's
# `begun` and encoder, the actor and the number of the shard. A process's seconds tell nothing beside those of others.
GAMES = {"lengths": [int], "scores_black": [float], "sizes": [int], "komi": [float], "ends": [int], "moves": int}
GAMES |= {"simulations": int, "overflowed": int, "prior_kl": float, "prior_entropy": float}
MOST_GAMES = 100_000  # of a shard, whose lists then have half as many numbers as `shards.MOST_ABOUT` allows
ABOUT = {"run": int, "encoder": str, "actor": str, "shard": int, "games": GAMES}
ROUNDING = 1e-3  # how far numbers may leave their ranges: a search's mean of ones, or a float16, may exceed 1
# The ranges of the samples' numbers; only short values may be NaN.
RANGES = {"to_play": (1, 2), "passes": (0, 2), "policy": (0, 1), "policy_weight": (0, 1), "board_weight": (0, 1)}
RANGES |= dict.fromkeys(("value", "root_value", "ownership"), (-1, 1)) | {"score": (-2000, 2000), "ply": (0, 20_000)}
RANGES |= {"captures": (0, 2**15), "short_values": (-1, 1)}
OF_GAMES = {"lengths": (0, 20_000), "scores_black": (-2000, 2000), "ends": (min(EndReason), max(EndReason))}
OF_GAMES |= dict.fromkeys(("moves", "simulations", "overflowed"), (0, 2**40))
OF_GAMES |= dict.fromkeys(("prior_kl", "prior_entropy"), (-(2**40), 2**40))


class Waiting(NamedTuple):
    """A shard of an actor by its name, `name` as the actor gave it: number of the shard, how many samples, and whether
    the run has taken it, which a snapshot may not hold yet."""

    path: Path
    name: str
    actor: str
    number: int
    samples: int
    is_taken: bool


def waiting(directory: Path) -> list[Waiting]:
    """Returns the shards of a run's folder of actors, each actor's in their order; none where it can't be read."""
    try:
        matches = [(path, NAME.fullmatch(path.name)) for path in sorted(directory.iterdir())]
    except OSError:
        return []
    return [Waiting(path, m[1], m[2], int(m[3]), int(m[4]), bool(m[5])) for path, m in matches if m]


class Inbox:
    """The run's side. directory, config, encoder: of the run. state: the run's, whose `external` (names of the shards
    whose samples it has) and `actors` (number of the last shard of each that was taken) are changed here."""

    def __init__(self, directory: Path, config: Config, encoder: str, state: RunState, signals: Signals) -> None:
        self.directory, self.config = make_directory(directory / FOLDER), config
        self.external, self.last, self._in_last_snapshot = state.external, state.actors, set()
        self._origin, self._signals, self._quiet_since = {"run": state.begun, "encoder": encoder}, signals, 0.0
        self._unread: set[str] = set()  # shards whose read errors are reported
        self._since = time.monotonic()  # the end of the last iteration's games

    def has_news(self, players: list[int]) -> bool:
        """Whether actors have no checkpoint yet, or one of other settings or players (`matches`) than the run has."""
        if (newest := checkpoints.newest(self.directory.parent)) is None:
            return True
        before, now = ((one.game, one.search, one.selfplay, one.replay) for one in (newest.config, self.config))
        return before != now or newest.counters.get("players", []) != players

    def fill(
        self,
        collected: SelfPlayResult,
        selfplay: SelfPlay,
        step: int,
        end: Callable[[], float | None],
        show: Callable[[SelfPlayResult], None],
        handle_requests: Callable[[], object],
    ) -> None:
        """Adds the games of actors to an iteration, on rank 0, numbered above all games of any rank; the ranks' own
        games are then numbered above these. Where the run plays no games itself, waits for an iteration's games, or
        until the `time.monotonic()` at which the run ends, by `end`. show, handle_requests: called while it waits."""
        settings = self.config.pipeline
        while True:
            first = int(distributed.all_reduce_max([selfplay.next_game])[0])
            if number := distributed.broadcast_from_rank0(self.take, collected, first, step):
                selfplay.next_game = distributed.first_number(first + number)
            is_over = settings.plays or ((until := end()) is not None and time.monotonic() >= until)
            is_over = is_over or len(collected.lengths) >= settings.games_per_iteration
            if distributed.all_gather_object(is_over)[0]:
                break
            show(collected)
            handle_requests()
            self.wait()
        # An iteration's seconds are all since the last one's: actors play while the run learns, too.
        now = time.monotonic()
        collected.seconds, self._since = max(collected.seconds, now - self._since), now

    def take(self, collected: SelfPlayResult, first: int, step: int) -> int:
        """Adds the games of all shards that wait to an iteration, numbered from `first`; returns how many. step: the
        run's; the networks of shards may be as new as it or as the newest checkpoint, whichever is later."""
        number, newest, held = 0, self._signals.retry_io(checkpoints.paths, self.directory.parent)[-1:], set()
        step = max(1, step, *map(checkpoints.step_of, newest))
        for shard in waiting(self.directory):
            if shard.name in self.external or shard.actor in held:
                continue
            try:
                samples, games = self._read(shard, step)
            except OSError as error:  # the disk's, no fault of the shard: it comes at another look, before later ones
                held.add(shard.actor)
                self._warn_unread(shard.name, error)
                continue
            except InputError as error:
                self._signals.retry_io(self._refuse, shard.path)
                self._signals.log(f"warning: set aside: {error}")
                continue
            _, of_shard = torch.unique(samples.game, return_inverse=True)
            collected.samples.append(replace(samples, game=of_shard + first + number))
            for name in GAMES:
                setattr(collected, name, getattr(collected, name) + games[name])
            number += len(games["lengths"])
            self._note_taken(shard)
        return number

    def _note_taken(self, shard: Waiting) -> None:
        self.external.append(shard.name)
        self.last.pop(shard.actor, None)  # those heard of last stand last
        self.last[shard.actor] = shard.number
        for actor in list(self.last)[:-MOST_ACTORS]:
            del self.last[actor]
        with contextlib.suppress(OSError):  # only actors look at it
            shard.path.rename(shard.path.with_name(shard.name + TAKEN))
        self._quiet_since = time.monotonic()

    def _warn_unread(self, name: str, error: OSError) -> None:
        if name not in self._unread and not isinstance(error, FileNotFoundError):  # somebody has removed it
            self._unread.add(name)
            self._signals.log(f"warning: cannot read the shard {name}: {error.strerror or error}; trying again")

    def wait(self) -> None:
        """Waits for shards a moment; says so where none came for a minute."""
        if time.monotonic() - self._quiet_since > 60:
            self._signals.log(f"waiting for games from actors; start zerogo selfplay --watch {self.directory.parent}")
            self._quiet_since = float("inf")
        time.sleep(LOOK)

    def after_snapshot(self) -> None:
        """Removes the shards whose samples two snapshots have, the newest among them, and what killed actors left."""
        for shard in waiting(self.directory):
            if shard.name in self._in_last_snapshot:
                with contextlib.suppress(OSError):  # it is tried again
                    shard.path.unlink()
        left = {shard.name for shard in waiting(self.directory)}
        self.external[:] = [name for name in self.external if name in left or name not in self._in_last_snapshot]
        self._in_last_snapshot = set(self.external)
        with contextlib.suppress(OSError):
            for path in self.directory.glob(".*.tmp"):
                if time.time() - path.stat().st_mtime > LEFTOVER:
                    path.unlink(missing_ok=True)

    def _read(self, shard: Waiting, step: int) -> tuple[Samples, dict[str, Any]]:
        """Returns the samples of a shard and the numbers of its games. Raises InputError where it is damaged, not of
        this run, or comes again; OSError where the disk does not give it."""
        path, last = shard.path, self.last.get(shard.actor, -1)
        if shard.number <= last:
            raise InputError(f"shard {path} is a duplicate: the shards of its actor are taken up to number {last}")
        samples, about = load_with_about(path)
        if wrong := bounds.misfit(about, ABOUT, "about"):
            raise InputError(f"shard {path}: {wrong}")
        for name, now in self._origin.items():
            if about[name] != now:
                raise InputError(f"shard {path} belongs to another run: its {name} is {about[name]}, not {now}")
        if (about["actor"], about["shard"]) != (shard.actor, shard.number):
            raise InputError(f"shard {path} contains shard {about['shard']} of {about['actor'][:40]}; its name differs")
        if wrong := _of_games(about["games"], samples, shard.samples) or self._of_samples(samples, about, step):
            raise InputError(f"shard {path} {wrong}")
        for part in torch.arange(len(samples)).split(sanity_checks.MOST_SAMPLES):
            if broken := sanity_checks.broken(sanity_checks.of_samples(samples.select(part))):
                raise InputError(f"shard {path}: {broken[0]}")
        return samples, about["games"]

    def _of_samples(self, samples: Samples, about: dict[str, Any], step: int) -> str:
        """Returns what is wrong with the rules and numbers of samples and games, "" where nothing is."""
        game, games, allowed = self.config.game, about["games"], allowed_rules(self.config.game)
        rules = set(zip(*(getattr(samples, name).tolist() for name in RULES), strict=True))
        if samples.board_size != game.largest_size or (other := rules - allowed):
            what = f"side {samples.board_size}" if samples.board_size != game.largest_size else f"{RULES} {min(other)}"
            return f"holds games of other rules than the run's: {what}"
        if other := set(zip(games["sizes"], games["komi"], strict=True)) - {rules[:2] for rules in allowed}:
            return f"lists games of other rules than the run's: {RULES[:2]} {min(other)}"
        points = game.largest_size**2
        places = dict.fromkeys(("ko", "moves", "reply"), (-1, points)) | {"network_step": (0, step)}
        for name, (low, high) in (RANGES | places).items():
            numbers, slack = getattr(samples, name), ROUNDING if getattr(samples, name).is_floating_point() else 0
            numbers = numbers.to(torch.float64)
            least, largest = map(float, (numbers.nan_to_num(0.0) if name == "short_values" else numbers).aminmax())
            if not low - slack <= least <= largest <= high + slack:
                return f"has {name} from {least:g} to {largest:g}; allowed are {low} to {high}"
        both = samples.rows[:, :, 0] & samples.rows[:, :, 1]
        return "has points with a black and a white stone" if both.any() else ""

    def _refuse(self, path: Path) -> None:
        (refused := self.directory / REFUSED).mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # others tidy up, too
            path.replace(refused / path.name)
            for old in sorted(refused.iterdir(), key=lambda one: one.stat().st_mtime)[:-MOST_REFUSED]:
                old.unlink(missing_ok=True)


def _of_games(games: dict[str, Any], samples: Samples, count: int) -> str:
    """Returns what is wrong with a shard's numbers of games, "" where nothing is. count: of samples, by its name."""
    numbers = [len(games[name]) for name, kind in GAMES.items() if isinstance(kind, list)]
    if not len(samples) == count > 0 or len(set(numbers)) > 1 or len(samples.game.unique()) > numbers[0]:
        return f"holds {len(samples)} samples of {numbers} games; its name says {count}"
    for name, (low, high) in OF_GAMES.items():
        values = games[name] if isinstance(games[name], list) else [games[name]]
        if others := [number for number in values if not low <= number <= high]:
            return f"has {name} {str(others[0])[:40]}; allowed are {int(low)} to {int(high)}"
    return ""


def allowed_rules(game: GameConfig) -> set[tuple]:
    """Returns all rules that the games of a run may have, as the numbers of `RULES`."""
    superko = [name for name, share in game.superko_shares.items() if share] or [game.superko]
    suicide = {game.suicide, game.suicide or game.suicide_share > 0}
    others, sizes = [[*map(SUPERKO.index, superko)], suicide, [SCORING.index(game.scoring)]], game.komi_by_size()
    return {(size, *rest) for size in sizes for rest in itertools.product(np.float32(sizes[size]).tolist(), *others)}


def watch(directory: Path, overrides: Sequence[str] = ()) -> None:
    """Plays games for the run in a folder until a signal ends it. overrides: of the run's settings, such as this
    machine's run.device.

    Raises InputError where the folder is none or has gone, or the run takes no games of actors; Interrupted where a
    signal ended it, with all finished games written."""
    with pipe_safe_streams(), Progress("actor", None, "games") as line, Signals(line.note) as signals:
        Actor(directory, overrides, signals, line).run()


class Actor:
    """Plays games for a run under the settings of its newest checkpoint. A newer network, or under a gate the one that
    this checkpoint names, takes over at once, in games under way too."""

    def __init__(self, directory: Path, overrides: Sequence[str], signals: Signals, line: Progress) -> None:
        self.directory, self.overrides, self.signals, self.line = directory, overrides, signals, line
        self.name = secrets.token_hex(6)
        self.shards = self.games = 0  # written
        self._seen: tuple[Path, int] | None = None  # the newest checkpoint's file, and when it was written
        self._reasons_said: set[str] = set()
        self._of: tuple | None = None  # which run, and under which settings, the games are
        self.collected, self._written, self._next_look = SelfPlayResult(), time.monotonic(), 0.0

    def run(self) -> None:
        """Plays until a signal requests an exit or memory is lacking, then writes the finished games. Raises InputError
        for a lack of memory and for a fault of the disk that no waiting heals."""
        try:
            while True:
                self._play()
        except Interrupted:
            self._write()
            raise
        except (OSError, MemoryError, RuntimeError) as error:
            if not isinstance(error, OSError):
                if not tuning.lacks_memory(error):
                    raise
                self._write()
            raise InputError(f"the actor ends: {one_line(error)}; {self.games} games are written") from error

    def _play(self) -> None:
        """Plays until it is time to look around, and writes what is due."""
        self._follow()
        if self._wait_while(self._is_full, "waiting for the run to take the samples that are written already"):
            self._follow()
        self._next_look, settings = time.monotonic() + LOOK, self.config.pipeline
        number = min(settings.games_per_iteration, MOST_GAMES)
        self.selfplay.play(number, None, self._show, False, self.collected, self._pauses)
        is_due = self.signals.snapshot_requested or time.monotonic() - self._written >= settings.snapshot_seconds
        if self.collected.is_complete or is_due:
            self.signals.snapshot_requested = False
            self._write()
        self.signals.leave_if_asked()

    def _pauses(self) -> bool:
        return self.signals.has_request or time.monotonic() >= self._next_look

    def _show(self, collected: SelfPlayResult) -> None:
        self.line.update(self.games + len(collected.lengths), step=self.step)

    def _wait_while(self, holds: Callable[[], bool], why: str) -> bool:
        """Waits as long as something holds, and says why, the first time; returns whether it did."""
        waits = False
        while holds():
            waits = True
            if why not in self._reasons_said:
                self.signals.log(f"{self.directory}: {why}")
            self._reasons_said.add(why)
            self.signals.wait(LOOK)
        return waits

    def _is_full(self) -> bool:
        shards = waiting(self.directory / FOLDER)
        return sum(one.samples for one in shards if not one.is_taken) >= self.config.replay.min_window

    def _newest(self) -> tuple[Path, int] | None:
        """Returns the newest checkpoint's file and when it was written, None where there is none."""
        self._require_run()
        try:
            path = checkpoints.paths(self.directory)[-1]
            return path, path.stat().st_mtime_ns
        except (IndexError, OSError):  # it may be removed between the two
            return None

    def _require_run(self) -> None:
        if not self.directory.is_dir():
            raise InputError(f"the run's folder {self.directory} does not exist, so there is no run to play for")

    def _follow(self) -> None:
        """Goes on with the newest checkpoint that loads, where it is another than before."""
        while self._of is None or self._newest() != self._seen:
            self._wait_while(lambda: self._newest() is None, "no checkpoint yet; waiting for the first one")
            self._seen = self._newest()
            if (newest := checkpoints.newest(self.directory)) is not None:
                self._use(newest)
            elif self._of is None:
                self.signals.wait(LOOK)

    def _use(self, newest: Checkpoint) -> None:
        config, run = with_overrides(newest.config, [*MEASURED, *self.overrides]), int(newest.counters.get("begun", 0))
        if not config.replay.external:
            what = f"the run {self.directory} does not accept games from actors"
            raise InputError(f"{what}; resume it with replay.external=true")
        player = load_player(self.directory, newest.counters.get("players", []), self.signals.log) or newest
        self.config, self.step, of = config, player.step, (run, config.game, config.search, config.selfplay)
        if of != self._of:
            self._write()
            self._begin(newest, run)
        self._of = of
        self.evaluator.network.load_(player.network())
        self.selfplay.set_network(self.evaluator, max(player.step, bool(config.run.start_from)))
        self.selfplay.set_progress(newest.trainer.get("progress", 0.0))

    def _begin(self, newest: Checkpoint, run: int) -> None:
        """Begins games of a run, or under other settings than before."""
        config, setup = self.config, cli.set_up(self.config)
        self.evaluator, first = evaluator_for(setup, newest), 0 if self._of is None else self.selfplay.next_game
        self.about = {"run": run, "encoder": newest.encoder().name}
        fitted, why = limits.fit_to_device(config, self.evaluator, setup.device, cap=limits.most_at_once(config))
        seed = int(rng.key(config.run.seed, Purpose.ACTOR, int(self.name, 16))) % 2**62
        self.selfplay = SelfPlay(fitted, self.evaluator, setup.device, seed, first)
        machine = f"{device_name(setup.device)}, {kernels.in_use(setup.device)}"
        plays = f"self-play: {why or f'{fitted.selfplay.slots:,} games at once'}"
        self.signals.log(f"{self.directory}: actor {self.name} plays on {machine}\n{plays}")

    def _write(self) -> None:
        """Writes the finished games, if there are any, as a shard; an iteration of games without samples is dropped."""
        if self.collected.is_complete and not self.collected.samples:
            self.collected = SelfPlayResult()
        if self.collected.samples:
            self.selfplay.resignation.update()
            self.signals.retry_io(self._save, self.collected)
            self.shards, self.games = self.shards + 1, self.games + len(self.collected.lengths)
            self.collected, self._written = SelfPlayResult(), time.monotonic()

    def _save(self, result: SelfPlayResult) -> None:
        self._require_run()
        folder, samples = self.directory / FOLDER, result.all_samples()
        folder.mkdir(exist_ok=True)
        about = self.about | {"actor": self.name, "shard": self.shards}
        about["games"] = {name: getattr(result, name) for name in GAMES}
        try:
            write_games(self.directory / "games", result.games, self.config.run.name, f"game-{self.name}")
        except (FileNotFoundError, PermissionError) as error:  # a starting run removes half-written files
            self.signals.log(f"warning: some games are not written as SGF: {error.filename}: {error.strerror}")
        save_shard(folder / f"{self.name}-{self.shards:08d}-{len(samples)}.npz", samples, about)


# Games written to files, for no run: `zerogo selfplay --checkpoint`

FAR = 10**9  # samples between the numbers of two ranks
LOOK_EVERY = 16  # finished games between two updates of the progress line


def evaluator_for(setup: Setup, checkpoint: Checkpoint) -> Evaluator:
    """Returns the evaluator of self-play by the averaged network of a checkpoint."""
    arguments = checkpoint.network(), checkpoint.encoder(), setup.device, setup.dtype
    return Evaluator.from_network(*arguments, heads=SEARCH_HEADS)


def generate(setup: Setup, checkpoint: Checkpoint, num_games: int, out_dir: Path | None) -> None:
    """Lets the averaged network of a checkpoint play games against itself and writes all of them: SGF into
    `out_dir`/games, samples into `out_dir`/samples as replay shards; None: see `make_output_folder`. Raises InputError
    where the checkpoint does not fit the config.

    The games are those numbered 0 to num_games - 1, not the first to be finished, which would be the short ones. Each
    rank plays and writes its share of the numbers, its samples counted from FAR times its own number."""
    if num_games < distributed.world_size():
        raise InputError(f"--games is {num_games}; {distributed.world_size()} processes need at least one game each")
    config, device = setup.config, setup.device
    limits.require_same_start(config)
    distributed.require_same({"the step": checkpoint.step}, "give a checkpoint's file in place of the run's folder")
    distributed.run_and_sync_errors(checkpoints.require_compatible, checkpoint, config, True)
    evaluator = evaluator_for(setup, checkpoint)
    whole = config.selfplay  # at the end of its schedule
    share, first = distributed.local_count(num_games), FAR * distributed.rank()
    games = max(1, distributed.local_count(whole.slots)) if whole.slots else 0
    alone = {"slots": min(games, share), "sgf_share": 1.0, "simulations_schedule": ()}
    settings = replace(whole, **alone, full_simulations=whole.full_at(1.0))
    fitted, why = limits.fit_to_device(replace(config, selfplay=settings), evaluator, device, share)
    numbers = {"first_game": distributed.rank(), "stride": distributed.world_size()}
    selfplay = SelfPlay(fitted, evaluator, device, config.run.seed, **numbers)
    selfplay.set_network(evaluator, checkpoint.step)
    out_dir = out_dir or distributed.broadcast_from_rank0(make_output_folder, "selfplay")
    make_directory(out_dir / "samples")
    machine = f"{device_name(device)}, {kernels.in_use(device)}"
    line = f"{out_dir}: {num_games} games of {checkpoint.source} on {machine}" + (f"\nself-play: {why}" if why else "")
    if distributed.is_rank0():
        whole = replace(fitted.selfplay, slots=fitted.selfplay.slots * distributed.world_size())
        replace(fitted, selfplay=whole).dump(out_dir / "config.yaml")
        print(line)
    finished = written = 0
    # Shares may take different times, through which those that are over wait.
    with distributed.on_rank0(Progress, "selfplay", num_games, "games") as progress:
        while finished < share:
            collected = selfplay.play(min(LOOK_EVERY, share - finished))
            games = [game for game in collected.games if game.number < num_games]
            finished += len(games)
            write_games(out_dir / "games", games, f"{config.run.name}@{checkpoint.step}")
            if (samples := collected.all_samples()) is not None:
                samples = samples.select((samples.game < num_games).nonzero().squeeze(1))
                if len(samples):
                    save_shard(shard_path(out_dir / "samples", first + written, len(samples)), samples)
                written += len(samples)
            world = distributed.world_size()
            progress.update(min(num_games, finished * world), samples=written * world)
    totals = [sum(numbers) for numbers in zip(*distributed.all_gather_object((finished, written)), strict=True)]
    distributed.on_rank0(print, "wrote {} games and {} samples".format(*totals))
