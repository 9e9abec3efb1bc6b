"""One run: its folder, its parts, and the loop over them.

Everything that a run knows is in its folder: config.yaml, checkpoints, replay, games, logs. It may be killed at any
moment. The samples and counters of a checkpoint are written before the checkpoint, which is renamed into place when it
is whole; so the newest one is always complete, and at most the games since then are lost (finished shards of theirs are
kept and count)."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from zerogo import checkpoint as checkpoints
from zerogo import kernels
from zerogo.checkpoint import Checkpoint
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.features import make_encoder
from zerogo.network import Network
from zerogo.pipeline import charts
from zerogo.pipeline.matches import Matches
from zerogo.replay import Batch, Replay
from zerogo.runtime import (
    RunLock,
    describe,
    make_directory,
    pick_compile,
    pick_device,
    pick_dtype,
    remove_leftovers,
    set_up_cpu,
)
from zerogo.selfplay import SelfPlay, SelfPlayResult, at_once, random_games, write_games
from zerogo.telemetry import Progress, Telemetry
from zerogo.trainer import Trainer

if TYPE_CHECKING:
    from zerogo.config import Config

PLAYING_HEADS = ("policy", "value")
STATISTICS_BATCHES = 8  # batches from which the averaged weights get their batch-norm statistics
GENERATORS = ("generator", "validation_generator")  # of the replay's state, kept among the checkpoint's generators
PICTURE_EVERY = 10  # rounds between pictures


def train(config: Config, resume: bool = False) -> None:
    """Trains as the config says and leaves everything in `<run.directory>/<run.name>`; resume goes on from its newest
    complete checkpoint.

    Raises InputError where the folder is in use, holds a run that was not to be resumed, or nothing that could be.
    """
    directory = Path(config.run.directory) / config.run.name
    if resume and not directory.exists():
        raise InputError(f"{directory} holds no run to resume; start one without --resume")
    with RunLock(make_directory(directory)):
        if not resume and (checkpoints.paths(directory) or any(directory.glob("replay/*.npz"))):
            raise InputError(f"{directory} already holds a run; go on with --resume, or choose another name with --run")
        newest = checkpoints.newest(directory)
        if resume and newest is None and not (directory / "config.yaml").exists():
            raise InputError(f"{directory} holds no run to resume; start one without --resume")
        if resume and newest is None and checkpoints.paths(directory):
            number = len(checkpoints.paths(directory))
            raise InputError(
                f"none of the {number} checkpoints in {directory} can be loaded; move them away to begin anew"
            )
        run = Run(config, directory, checkpoints.load(newest) if newest is not None else None)
        try:
            run.go()
        finally:
            run.close()


class Run:
    """The parts of a run and the loop over them. start: the checkpoint to go on from, None for a new run."""

    def __init__(self, config: Config, directory: Path, start: Checkpoint | None) -> None:
        self._clock = time.monotonic()
        if start is not None:
            checkpoints.require_compatible(start, config)
        self.config, self.directory = config, directory
        set_up_cpu(config.run.threads)
        kernels.choose(config.run.kernels)
        self.device = pick_device(config.run.device)
        self.dtype = pick_dtype(config.run.precision, self.device)
        self.compiled = pick_compile(config.run.compile, self.device)
        self.encoder = make_encoder(config.features.encoder, config.features.komi_input)
        with torch.random.fork_rng(
            devices=[]
        ):  # torch draws first weights from its global generator, which is nobody else's business
            torch.manual_seed(config.run.seed)
            network = Network(
                config.network, self.encoder.num_planes, self.encoder.num_globals, config.game.largest_size
            )
        self.trainer = Trainer(network, self.encoder, config.training, config.network.heads, self.device, self.dtype)
        self.seconds, self.rounds = 0.0, 0
        self.counters: dict[str, Any] = {}
        self.replay = self._open_replay(start)
        self.matches = Matches(config, self.device, self.dtype)  # says at once which opponent there is not
        if start is not None:  # what was found once stays
            config = at_once.with_numbers(config, start.config.selfplay.games, start.config.search.leaves)
        self.config, self.fit = at_once.fitted(config, self._evaluator(), self.device)
        config = self.config
        config.dump(
            directory / "config.yaml"
        )  # only now: what is wrong with the settings has been said, and the old ones still stand
        if start is not None:
            self._go_on_from(start)
        # Without a checkpoint all begins anew, and what a killed process charted will come again.
        self.telemetry = Telemetry(directory / "logs", -1 if start is None else start.step)
        if "matches" in self.counters:
            self.matches.load_state_dict(self.counters["matches"])
        if start is None:
            self._warm_up()
        first_game = max(self.replay.last_game + 1, config.selfplay.random_opening_games)
        self.selfplay = SelfPlay(config, self._evaluator(), self.device, config.run.seed, first_game)
        self.selfplay.use(self._evaluator(), self.trainer.steps)
        if "resignation" in self.counters:
            self.selfplay.resignation.load_state_dict(self.counters["resignation"])
        self._last_checkpoint, self._last_match = self.seconds, float(self.counters.get("last_match", 0.0))

    def _open_replay(self, start: Checkpoint | None) -> Replay:
        settings, size, seed = self.config.replay, self.config.game.largest_size, self.config.run.seed
        for folder in ("", checkpoints.FOLDER, "games", "logs"):
            remove_leftovers(self.directory / folder)
        replay = Replay.open(settings, size, self.directory / "replay", seed)
        if start is not None and "replay" in start.counters:
            replay.load_state_dict(start.counters["replay"] | start.generators)
        return replay

    def _go_on_from(self, start: Checkpoint) -> None:
        state = dict(start.trainer, network=start.weights, averaged=start.averaged_weights)
        self.trainer.load_state_dict(state)
        self.counters = dict(start.counters)
        self.seconds, self.rounds = float(start.counters["seconds"]), int(start.counters["rounds"])

    def _warm_up(self) -> None:
        """Plays the random games that a run begins with; after a kill on the way, those that are missing."""
        first, number = self.replay.last_game + 1, self.config.selfplay.random_opening_games
        if first < number:
            self._keep(random_games(self.config, number - first, self.config.run.seed, first, self.device))

    def _evaluator(self) -> Evaluator:
        averaged, compiled = self.trainer.averaged, self.compiled
        return Evaluator.from_network(
            averaged, self.encoder, self.device, self.dtype, heads=PLAYING_HEADS, compiled=compiled
        )

    def go(self) -> None:
        """Runs until the config says that it is over, then shows what was learned."""
        settings = self.config.pipeline
        in_minutes = bool(settings.minutes)
        total = settings.minutes if in_minutes else settings.iterations or None
        done = self.seconds / 60 if in_minutes else self.rounds
        size = self.trainer.network.num_parameters()
        machine = f"{describe(self.device)['device']}, {self.dtype}, {kernels.in_use(self.device)}"
        print(f"{self.directory}: {machine}, {size} parameters", flush=True)
        if self.fit:
            print(f"self-play: {self.fit}", flush=True)
        with Progress(self.config.run.name, total, "min" if in_minutes else "rounds", done=done) as progress:
            shown: dict[str, float | str] = {}

            def show(collected: SelfPlayResult) -> None:
                part = len(collected.lengths) / settings.games_per_iteration
                now = (self.seconds + time.monotonic() - self._clock) / 60
                progress.update(now if in_minutes else self.rounds + part, **shown)

            while not self._is_over():
                numbers = self._round(show)
                shown = {"games": str(self.selfplay.next_game), "loss": numbers.get("train/loss", float("nan"))}
                shown["length"] = numbers.get("selfplay/game_length_plies", float("nan"))
                progress.update(self.seconds / 60 if in_minutes else self.rounds, **shown)
                self._measure_if_due(progress)
        self._save()
        if settings.final_matches:
            self.matches.final(self._checkpoint(), self.telemetry, self.directory)
            self._save()  # with the results

    def _progress(self) -> float:
        """How much of the run is over, 0 to 1; 0 for a run without an end."""
        settings = self.config.pipeline
        parts = [0.0]
        if settings.minutes:
            parts.append(self.seconds / 60 / settings.minutes)
        if settings.iterations:
            parts.append(self.rounds / settings.iterations)
        return min(1.0, max(parts))

    def _is_over(self) -> bool:
        return self._progress() >= 1.0

    def _tick(self) -> None:
        """Adds the time since the last call to the run's clock."""
        now = time.monotonic()
        self.seconds, self._clock = self.seconds + now - self._clock, now

    def _round(self, show: Callable[[SelfPlayResult], None]) -> dict[str, float]:
        """One round: games, learning, charts, and a checkpoint when it is due. Returns what was charted; show is called
        on the way.
        """
        settings = self.config.pipeline
        until = self._clock + 60 * settings.minutes - self.seconds if settings.minutes else None
        collected = self.selfplay.play(settings.games_per_iteration, until, show)
        samples = self._keep(collected)
        self._tick()
        self.trainer.set_progress(self._progress())
        numbers = charts.selfplay_numbers(collected, samples) | self._learn()
        self.selfplay.use(self._evaluator(), self.trainer.steps)
        self.rounds += 1
        self._tick()
        self._chart(collected, numbers)
        if self.seconds - self._last_checkpoint >= 60 * self.config.pipeline.checkpoint_minutes:
            self._save()
        return numbers

    def _keep(self, collected: SelfPlayResult):
        """Puts the samples into the replay and the kept games into files; returns the samples, or None."""
        samples = collected.all_samples()
        if samples is not None:
            self.replay.add(samples)
        write_games(self.directory / "games", collected.games, self.config.run.name)
        return samples

    def _learn(self) -> dict[str, float]:
        """Trains for all that the replay's credit allows and returns the mean of what was seen; reads the device
        once.
        """
        batch, sums, steps, start = self.config.training.batch, {}, 0, time.monotonic()
        recent: deque[Batch] = deque(maxlen=STATISTICS_BATCHES)
        while self.replay.can_take(batch):
            recent.append(self.replay.take(batch))
            for name, value in self.trainer.step(recent[-1]).items():
                sums[name] = sums.get(name, 0.0) + value
            steps += 1
        if steps == 0:
            return {}
        seconds = time.monotonic() - start
        names = list(sums)
        means = (torch.stack([sums[name] for name in names]) / steps).tolist()
        numbers = {f"train/{name}": mean for name, mean in zip(names, means, strict=True)}
        if not math.isfinite(numbers["train/loss"]):  # before anything of it is played, saved or learned from
            raise InputError(
                f"the loss is {numbers['train/loss']} by step {self.trainer.steps}; lower training.learning_rate and --resume"
            )
        self.trainer.refresh_statistics(recent)
        numbers["train/samples_per_s"] = steps * batch / max(seconds, 1e-9)
        held_out = self.replay.validation_batch(batch)
        if held_out is not None:
            measured = self.trainer.measure(held_out)
            numbers |= {f"validation/{name}": float(value) for name, value in measured.items()}
        return numbers

    def _chart(self, collected: SelfPlayResult, numbers: dict[str, float]) -> None:
        numbers |= {f"replay/{name}": value for name, value in self.replay.statistics(self.trainer.steps).items()}
        numbers |= {
            "time/minutes": self.seconds / 60,
            "time/games": float(self.selfplay.next_game),
            "time/rounds": float(self.rounds),
        }
        if self.config.selfplay.resign_share:
            numbers["selfplay/resign_threshold"] = self.selfplay.resignation.threshold
            numbers["selfplay/resign_false_positive"] = self.selfplay.resignation.measured
        self.telemetry.scalars(self.trainer.steps, numbers)
        if self.rounds % PICTURE_EVERY == 1:
            boards = charts.final_boards(collected)
            if boards is not None:
                self.telemetry.image("selfplay/final_boards", boards, self.trainer.steps)
            for name, picture in charts.first_moves(self.config, self._evaluator(), self.device).items():
                self.telemetry.image(name, picture, self.trainer.steps)

    def _measure_if_due(self, progress: Progress) -> None:
        settings = self.config.evaluation
        by_time = settings.every_minutes and self.seconds - self._last_match >= 60 * settings.every_minutes
        by_round = settings.every_iterations and self.rounds % settings.every_iterations == 0
        if (by_time or by_round) and not self._is_over():
            for line in self.matches.on_the_way(self._checkpoint(), self.telemetry):
                progress.note(line)
            self._tick()
            self._last_match = self.seconds

    def _checkpoint(self) -> Checkpoint:
        state = self.trainer.state_dict()
        weights, averaged = state.pop("network"), state.pop("averaged")
        counters = {
            "seconds": self.seconds,
            "rounds": self.rounds,
            "games": self.selfplay.next_game,
            "samples": self.trainer.samples,
            "replay": self.replay.state_dict(),
            "resignation": self.selfplay.resignation.state_dict(),
            "matches": self.matches.state_dict(),
            "last_match": self._last_match,
        }
        generators = {name: counters["replay"].pop(name) for name in GENERATORS}
        return Checkpoint(self.config, self.trainer.steps, weights, averaged, state, generators, counters)

    def _save(self) -> None:
        """Writes the samples first, then the checkpoint that counts on them."""
        self.replay.flush()
        path = checkpoints.path_of(self.directory, self.trainer.steps)
        checkpoints.save(path, self._checkpoint())
        checkpoints.prune(self.directory, self.config.pipeline.keep_checkpoints, path)
        self.telemetry.flush()
        self._last_checkpoint = self.seconds

    def close(self) -> None:
        """Closes the files."""
        self.telemetry.close()
