"""One run: its folder, its parts, and the loop over them.

Everything that a run knows is in its folder: config.yaml, checkpoints, replay, games, logs. It may be killed at any
moment. The samples that a checkpoint counts are written before it; it is renamed into place when it is whole. So the
newest one is always complete, and at most the games since then are lost (finished shards of theirs are kept and
count)."""

import math
import time
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from zerogo import checkpoint as checkpoints
from zerogo import cli, kernels
from zerogo.checkpoint import Checkpoint
from zerogo.config import Config, SearchConfig, SelfplayConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator, search_heads
from zerogo.features import make_encoder
from zerogo.pipeline import canaries
from zerogo.pipeline.beside import MatchesBeside
from zerogo.pipeline.canaries import Canaries
from zerogo.pipeline.measures import Matches, final_boards, first_moves, selfplay_numbers
from zerogo.replay import Replay, Samples, TrainingBatch, device_for
from zerogo.runtime import RunLock, describe, make_directory, pick_compile, remove_leftovers
from zerogo.selfplay import SelfPlay, SelfPlayResult, batch_size, random_games, reanalysis, write_games
from zerogo.telemetry import Progress, Telemetry
from zerogo.trainer import Trainer

MEASURED = 8  # every so many steps the losses of the heads and their metrics are found, half as much again as learning
STATISTICS_BATCHES = 8  # batches from which the averaged weights get their batch-norm statistics
GENERATORS = ("generator", "validation_generator")  # of the replay's state, kept among the checkpoint's generators
HELD_OUT_BATCHES = 4  # batches' worth of held-out samples that are measured after each round
PICTURE_EVERY = 10  # rounds between pictures


def train(config: Config, resume: bool = False) -> None:
    """Trains as the config says and leaves everything in `<run.directory>/<run.name>`; resume goes on from its newest
    complete checkpoint.

    Raises InputError where the folder is in use, holds a run that was not to be resumed, or nothing that could be."""
    directory = Path(config.run.directory) / config.run.name
    nothing = InputError(f"{directory} holds no run to resume; start one without --resume")
    if resume and not directory.exists():
        raise nothing
    with RunLock(make_directory(directory)):
        found = checkpoints.paths(directory)
        if not resume and (found or any(directory.glob("replay/*.npz"))):
            raise InputError(f"{directory} already holds a run; go on with --resume, or choose another name with --run")
        newest = checkpoints.newest(directory)
        if resume and newest is None and not (directory / "config.yaml").exists():
            raise nothing
        if resume and newest is None and found:
            what = f"none of the {len(found)} checkpoints in {directory} can be loaded"
            raise InputError(f"{what}; move them away to begin anew")
        run = Run(config, directory, newest)
        try:
            run.go()
        finally:
            run.beside.close()
            run.telemetry.close()
            run.replay.close()


def too_many_considered(search: SearchConfig, selfplay: SelfplayConfig) -> str:
    """Returns what is wrong where Gumbel's root considers more moves than half of the simulations, else ""."""
    fewest = selfplay.all_simulations[0]
    if search.algorithm != "gumbel" or search.max_considered <= max(1, fewest / 2):
        return ""
    many = f"search.max_considered is {search.max_considered}, more than half of self-play's {fewest} simulations"
    return f"{many}: few moves get a second visit, and little is read beyond them"


class Run:
    """The parts of a run and the loop over them. start: the checkpoint to go on from, None for a new run."""

    def __init__(self, config: Config, directory: Path, start: Checkpoint | None) -> None:
        self._clock = time.monotonic()
        if start is not None:
            if not start.trainer:
                raise InputError(
                    f"{start.source} is a network alone, which no run can go on from; begin one with --from"
                )
            checkpoints.require_compatible(start, config)
        counters = {} if start is None else start.counters
        self.directory = directory
        self.seconds, self.rounds = float(counters.get("seconds", 0.0)), int(counters.get("rounds", 0))
        self.simulations = int(counters.get("simulations", 0))
        setup = cli.set_up(config)
        self.device, self.dtype = setup.device, setup.dtype
        self.compiled, self.epilogues = pick_compile(config.run.compile, self.device), config.run.epilogues
        self._evaluators: dict[tuple[str, ...], Evaluator] = {}
        self.trainer, self.replay = self._new_trainer(config, start), self._open_replay(config, start)
        # Which opponent there is not is said at once.
        self.matches = Matches(config.game, config.evaluation, config.run.seed, self.device, self.dtype)
        self.config = config
        self.config, self.why_so_many = self._with_batch_size(config, start)
        # Only now: what is wrong with the settings has been said, and the old ones still stand.
        self.config.dump(directory / "config.yaml")
        if start is not None:
            weights = {"network": start.weights, "averaged": start.averaged_weights}
            self.trainer.load_state_dict(start.trainer | weights)
        # Without a checkpoint all begins anew, and what a killed process charted will come again.
        self.telemetry = Telemetry(directory / "logs", -1 if start is None else start.step)
        self._last_checkpoint = self.seconds
        self._shown: dict[str, float | str] = {}
        self._line, self._part = self._introduce(), 0.0  # the part of a round that is over: half of it is learning
        self._games, self._samples_before = 0, self.trainer.samples  # self-play's games in this process; for the rates
        last_match = float(counters.get("last_match", 0.0))
        self.beside = MatchesBeside(self.matches, self.telemetry, self._line.note, last_match)
        self.selfplay: SelfPlay | None = None
        if start is None:
            self._play_random_games()
            self._learn()  # from random games the value learns first what living strings are: 100 Elo at equal games
        self.selfplay = self._new_selfplay()
        for part, name in ((self.matches, "matches"), (self.selfplay.resignation, "resignation")):
            if name in counters:
                part.load_state_dict(counters[name])
        self.watch = Canaries(stops=config.pipeline.canaries == "stop")

    # The parts

    def _new_trainer(self, config: Config, start: Checkpoint | None) -> Trainer:
        with torch.random.fork_rng(devices=[]):  # the global generator draws the first weights, and stays as it was
            torch.manual_seed(config.run.seed)
            network = checkpoints.fresh_network(config)
        encoder = make_encoder(config.features.encoder, config.features.komi_input)
        trainer = Trainer(network, encoder, config.training, config.network.heads, self.device, self.dtype)
        if config.run.start_from and start is None:
            trainer.start_from(checkpoints.weights_for(config))
        return trainer

    def _open_replay(self, config: Config, start: Checkpoint | None) -> Replay:
        for folder in ("", checkpoints.FOLDER, "games", "logs"):
            remove_leftovers(self.directory / folder)
        side, shards = config.game.largest_size, self.directory / "replay"
        place = device_for(config.replay, side, self.device)
        replay = Replay(config.replay, side, shards, config.run.seed, resume=True, device=place)
        if start is not None and "replay" in start.counters:
            replay.load_state_dict(start.counters["replay"] | start.generators)
        return replay

    def _with_batch_size(self, config: Config, start: Checkpoint | None) -> tuple[Config, str]:
        """Returns the config with numbers of games and leaves, and why these; what was found once stays."""
        search, settings = config.search, config.selfplay
        if start is not None:
            search = replace(search, leaves=search.leaves or start.config.search.leaves)
            settings = replace(settings, games=settings.games or start.config.selfplay.games)
        parts = config.game, search, settings, self._evaluator(), self.device
        search, settings, why = batch_size.fitted(*parts, matches=config.evaluation)
        return replace(config, search=search, selfplay=settings), why

    def _evaluator(self, heads: tuple[str, ...] | None = None) -> Evaluator:
        """Returns the evaluator that asks these heads, by default those of the search: always the same one, whose
        weights become the averaged ones of now."""
        heads = heads or search_heads(self.config.network.heads, self.config.search.score_weight)
        if heads in self._evaluators:
            self._evaluators[heads].network.load_(self.trainer.averaged)
        else:
            parts = self.trainer.averaged, self.trainer.encoder, self.device, self.dtype
            self._evaluators[heads] = Evaluator.from_network(*parts, heads=heads, compiled=self.compiled)
            self.epilogues = cli.pick_epilogues(self.epilogues, self._evaluators[heads].network)
        return self._evaluators[heads]

    def _play_random_games(self) -> None:
        """Plays the random games that a run begins with; after a kill on the way, those that are missing."""
        first, seed = self.replay.last_game + 1, self.config.run.seed
        missing = self.config.selfplay.random_opening_games - first
        if missing > 0 and not self.config.run.start_from:  # weights that have learned need none
            collected = random_games(self.config.game, missing, seed, first, self.device)
            self._keep(collected, collected.all_samples())

    def _new_selfplay(self) -> SelfPlay:
        config, evaluator = self.config, self._evaluator()
        random_games = 0 if config.run.start_from else config.selfplay.random_opening_games
        first = max(self.replay.last_game + 1, random_games)
        sections = config.game, config.search, config.selfplay
        selfplay = SelfPlay(*sections, evaluator, self.device, config.run.seed, first, self._progress())
        # Weights of another run have learned, so their first samples are not those of a player that has not.
        selfplay.use(evaluator, max(self.trainer.steps, bool(config.run.start_from)))
        return selfplay

    # The loop

    def go(self) -> None:
        """Runs until the config says that it is over, then shows what was learned."""
        with self._line:
            while self._progress() < 1.0:
                self._round()
                self._evaluate_if_due()
            self.beside.conclude(wait=True)
        self._save()
        if self.config.pipeline.final_matches:
            self.matches.final(self._checkpoint(), self.telemetry, self.directory)
            self._save()  # with the results

    def _introduce(self) -> Progress:
        """Says what runs where, and returns the line of progress."""
        run, settings = self.config.run, self.config.pipeline
        machine = f"{describe(self.device)['device']}, {self.dtype}, {kernels.in_use(self.device)}"
        print(f"{self.directory}: {machine}, {self.trainer.network.num_parameters()} parameters", flush=True)
        if self.why_so_many:
            print(f"self-play: {self.why_so_many}", flush=True)
        by_time, by_rounds = (settings.minutes, "min", self.seconds / 60), (settings.iterations, "rounds", self.rounds)
        line = Progress(run.name, *(by_time if settings.minutes else by_rounds))
        if warning := too_many_considered(self.config.search, self.config.selfplay):
            line.note(f"warning: {warning}")
        if len(self.replay) < (least := self._least_samples()):
            line.note(f"learning begins when there are {least:,} samples, replay.min_window")
        return line

    def _progress(self) -> float:
        """How much of the run is over, 0 to 1; 0 for a run without an end."""
        settings = self.config.pipeline
        by_time = self.seconds / 60 / settings.minutes if settings.minutes else 0.0
        by_rounds = self.rounds / settings.iterations if settings.iterations else 0.0
        return min(1.0, max(by_time, by_rounds))

    def _tick(self) -> None:
        """Adds the time since the last call to the run's clock."""
        now = time.monotonic()
        self.seconds, self._clock = self.seconds + now - self._clock, now

    def _show(self, collected: SelfPlayResult | None = None) -> None:
        """Updates the progress line. collected: the games so far of a round that goes on."""
        settings = self.config.pipeline
        games = 0 if collected is None else len(collected.lengths)
        if collected is not None:
            self._part = 0.5 * min(1.0, games / settings.games_per_iteration)
        minutes = (self.seconds + time.monotonic() - self._clock) / 60
        amounts = {"games": self._games + games, "samples": self.trainer.samples - self._samples_before}
        self._line.update(minutes if settings.minutes else self.rounds + self._part, amounts, **self._shown)

    def _round(self) -> None:
        """One round: play, learn, chart, and save when it is due."""
        settings = self.config.pipeline
        until = self._clock + 60 * settings.minutes - self.seconds if settings.minutes else None
        self.selfplay.set_progress(self._progress())
        collected = self.selfplay.play(settings.games_per_iteration, until, self._show, every_place=True)
        samples, found = collected.all_samples(), {}
        if samples is not None:  # what is wrong is neither kept nor learned from
            found = canaries.of_games(collected, samples) | canaries.of_samples(samples)
            self._look(found)
        self.simulations, self._games = self.simulations + collected.simulations, self._games + len(collected.lengths)
        found |= self._reanalyse(samples, until)  # before the new samples come, whose policies are as new as can be
        self._keep(collected, samples)
        self._tick()
        numbers, first = selfplay_numbers(collected, samples) | found, self.trainer.steps
        numbers |= self._learn()
        if samples is not None:
            numbers |= self._canaries(samples, numbers, self.trainer.steps - first)
        self.selfplay.use(self._evaluator(), self.trainer.steps)
        self.rounds, self._part = self.rounds + 1, 0.0
        self._tick()
        self._chart(collected, numbers)
        if self._checkpoint_is_due():
            self._save()
        self._shown["games"] = str(self.selfplay.next_game)
        found = {"loss": numbers.get("train/loss"), "length": numbers.get("selfplay/game_length_plies")}
        self._shown |= {name: number for name, number in found.items() if number is not None}
        self._show()

    def _reanalyse(self, samples: Samples | None, until: float | None) -> dict[str, float]:
        """Searches old positions again, as many as the settings want for a round's samples, or until the run's time is
        over; returns how many."""
        settings, search = self.config.selfplay, self.selfplay.search
        number, simulations = int(settings.reanalysed * len(samples or ())), settings.full_at(self._progress())
        if not number:
            return {}
        seed = reanalysis.seed_of(self.config.run.seed, self.trainer.steps)
        wanted = number, simulations, seed, self.device, self.selfplay.num_games, until
        done = reanalysis.reanalyse(self.replay, search, *wanted)
        self.simulations += done * simulations
        return {"replay/reanalysed": done}

    def _look(self, found: dict[str, float]) -> None:
        """Notes which canaries are broken by these figures. Raises InputError where an exact one is, with its figure in
        the charts."""
        try:
            for sentence in self.watch.look(found, self.trainer.steps):
                self._line.note(f"warning: {sentence}")
        except InputError:
            self.telemetry.scalars(self.trainer.steps, found)
            raise

    def _canaries(self, samples: Samples, numbers: dict[str, float], learned: int) -> dict[str, float]:
        """Returns the canaries' figures of a round that was learned from and looks at them. learned: its steps."""
        found = canaries.of_training(numbers, self.replay, self.trainer.steps, learned)
        batch = self.replay.validation_batch(self.config.training.batch)
        if batch is not None:
            found |= canaries.of_batch(batch, self.trainer)
        found |= canaries.of_network(samples, self._evaluator(("policy", "value", "ownership")))
        self._look(found)
        return found

    def _require_finite(self, loss: Tensor | float) -> None:
        """Raises InputError where learning has diverged, before anything of it is played, saved or learned from."""
        if not math.isfinite(loss):
            what = f"the loss is {float(loss)} by step {self.trainer.steps}"
            raise InputError(f"{what}; lower training.learning_rate and --resume")

    def _checkpoint_is_due(self) -> bool:
        return self.seconds - self._last_checkpoint >= 60 * self.config.pipeline.checkpoint_minutes

    def _keep(self, collected: SelfPlayResult, samples: Samples | None) -> None:
        """Puts the samples into the replay and the kept games into files."""
        if samples is not None:
            self.replay.add(samples)
        write_games(self.directory / "games", collected.games, self.config.run.name)

    def _learn(self) -> dict[str, float]:
        """Trains for all that the replay's credit allows, or until the run's time is over; returns means of what was
        seen, read at once. Checkpoints that are due on the way are saved, as a large round learns for long."""
        if len(self.replay) < self._least_samples():
            return {}
        batch, sums, start, first = self.config.training.batch, {}, time.monotonic(), self.trainer.steps
        steps = max(1, self.replay.credit // batch)
        counts: Counter[str] = Counter()
        recent: deque[TrainingBatch] = deque(maxlen=STATISTICS_BATCHES)
        while self.replay.can_take(batch) and self._progress() < 1.0:
            self.trainer.set_progress(self._progress())
            recent.append(self.replay.take(batch))
            measures = (self.trainer.steps - first) % MEASURED == 0
            seen = self.trainer.step(recent[-1], measures)
            if sums:  # which the first step, a measured one, has begun; one launch adds all of a step
                added = torch._foreach_add([sums[name] for name in seen], list(seen.values()))
                seen = dict(zip(seen, added, strict=True))
            sums |= seen
            counts.update(seen.keys())
            self._tick()
            self._shown["learned"] = f"{100 * (learned := (self.trainer.steps - first) / steps):.0f} %"
            self._part = 0.5 + 0.5 * learned if self.selfplay else 0.0
            self._show()
            if self.selfplay and self.config.pipeline.checkpoint_minutes and self._checkpoint_is_due():
                self._require_finite(sums["loss"])
                self.trainer.refresh_statistics(recent)
                self._save()
        self._shown.pop("learned", None)
        if not (steps := self.trainer.steps - first):
            return {}
        totals = torch.stack(list(sums.values())).tolist()
        seconds = time.monotonic() - start
        numbers = {f"train/{name}": total / counts[name] for name, total in zip(sums, totals, strict=True)}
        self._require_finite(numbers["train/loss"])
        self.trainer.refresh_statistics(recent)
        numbers["train/samples_per_s"] = steps * batch / max(seconds, 1e-9)
        held_out = self.replay.validation_batch(HELD_OUT_BATCHES * batch)
        if held_out is not None:
            measured = self.trainer.measure(held_out)
            numbers |= {f"validation/{name}": float(value) for name, value in measured.items()}
        return numbers

    def _least_samples(self) -> int:
        """Returns with how many samples learning begins: weights of another run would be bent to a few games, which
        was seen to cost more than it gave; what the samples earn meanwhile is learned from later."""
        settings = self.config.replay
        return min(settings.min_window, settings.capacity) if self.config.run.start_from else 0

    def _chart(self, collected: SelfPlayResult, numbers: dict[str, float]) -> None:
        """Writes the numbers of a round, with those of the replay and the run, and now and then pictures."""
        step, resignation = self.trainer.steps, self.selfplay.resignation
        numbers |= {f"replay/{name}": value for name, value in self.replay.statistics(step).items()}
        numbers |= {
            "time/minutes": self.seconds / 60,
            "time/rounds": self.rounds,
            "time/games": self.selfplay.next_game,
        }
        if self.config.selfplay.resign_share:
            numbers["selfplay/resign_threshold"] = resignation.threshold
            numbers["selfplay/resign_false_positive"] = resignation.measured
        self.telemetry.scalars(step, numbers)
        if self.rounds % PICTURE_EVERY == 1:
            pictures = first_moves(self.config.game, self._evaluator(), self.device)
            for name, picture in (final_boards(collected) | pictures).items():
                self.telemetry.image(name, picture, step)

    def _evaluate_if_due(self) -> None:
        """Charts the matches beside the run when they are over, and starts those of this step when they are due."""
        self.beside.conclude()
        settings, begun = self.config.evaluation, self.beside.begun
        by_time = settings.every_minutes and self.seconds - begun >= 60 * settings.every_minutes
        by_round = settings.every_iterations and self.rounds % settings.every_iterations == 0
        if (by_time or by_round) and self._progress() < 1.0 and not self.beside.are_on:
            self.beside.start(self._save(), self.trainer.steps, self.seconds)

    def _checkpoint(self) -> Checkpoint:
        state = self.trainer.state_dict()
        weights, averaged = state.pop("network"), state.pop("averaged")
        counters = {"seconds": self.seconds, "rounds": self.rounds, "last_match": self.beside.concluded}
        counters |= {"games": self.selfplay.next_game, "samples": self.trainer.samples, "simulations": self.simulations}
        parts = {"replay": self.replay, "resignation": self.selfplay.resignation, "matches": self.matches}
        counters |= {name: part.state_dict() for name, part in parts.items()}
        generators = {name: counters["replay"].pop(name) for name in GENERATORS}
        return Checkpoint(self.config, self.trainer.steps, weights, averaged, state, generators, counters)

    def _save(self) -> Path:
        """Writes the samples first, then the checkpoint that counts on them, and returns its path."""
        self.replay.flush()
        path = checkpoints.path_of(self.directory, self.trainer.steps)
        checkpoints.save(path, self._checkpoint())
        checkpoints.prune(self.directory, self.config.pipeline.keep_checkpoints, path, self.beside.path)
        self.telemetry.flush()
        self._last_checkpoint = self.seconds
        return path
