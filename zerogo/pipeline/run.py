"""One run: its folder, its parts, and the loop over them.

Everything about a run is in its folder: config.yaml, snapshots, checkpoints, replay, games, logs. A run may be killed
at any moment and resumes from its newest snapshot (`snapshots`), which holds everything that affects the result, such
as generators and counters. So a resumed run of one process and thread on a CPU is bit-identical, unless the clock
decides its end (`pipeline.minutes`)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from zerogo import checkpoint as checkpoints
from zerogo import cli, kernels, tuning
from zerogo.checkpoint import Checkpoint
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.evaluator import SEARCH_HEADS, Evaluator
from zerogo.features import Encoder, make_encoder
from zerogo.network import Network
from zerogo.network.trainer import Trainer
from zerogo.pipeline import limits, sanity_checks, snapshots
from zerogo.pipeline.actors import Inbox
from zerogo.pipeline.matches import BackgroundMatches, Matches, apply_gate, load_player
from zerogo.pipeline.sanity_checks import SanityChecks, final_boards, first_moves, selfplay_numbers
from zerogo.pipeline.snapshots import Iteration, Rollback, RunState, Snapshots
from zerogo.replay import Replay, Samples, device_for
from zerogo.selfplay import SelfPlay, SelfPlayResult
from zerogo.selfplay.opening import random_games
from zerogo.selfplay.record import write_games
from zerogo.system import distributed
from zerogo.system.runtime import code_revision, device_name, pick_device, remove_leftovers
from zerogo.system.signals import Signals
from zerogo.system.telemetry import Progress, Telemetry

METRICS_EVERY = 8  # training steps from one computation of the heads' metrics, which takes time, to the next
GENERATORS = ("generator", "validation_generator")  # of the replay's state, kept among the checkpoint's generators
HELD_OUT_BATCHES = 4  # held-out samples measured after each iteration, in batches
LEAST_SYNC_SECONDS, RANK_SYNC_SECONDS, MOST_STEPS = 0.1, 2.0, 64  # from one sync of the ranks to the next
PICTURE_EVERY = 10  # iterations between pictures


@dataclass
class LineValues:
    """What the progress line shows. first_sample: the number of the first sample since this process began. games:
    finished since then. part: the share of the iteration that is over; learning begins at a half. values: by name."""

    first_sample: int
    games: int = 0
    part: float = 0.0
    values: dict[str, float | str] = field(default_factory=dict)


class Diverged(Exception):
    """Training has produced NaN or infinite weights. step: the training step at which they were seen."""

    def __init__(self, what: str, step: int) -> None:
        super().__init__(f"{what} by step {step}")
        self.step = step


class PlayingNetworks:
    """The evaluators of a run: each is made once, and then gets new weights. start: the snapshot or checkpoint to
    resume from, whose precision is used again on a machine of the same kind, if it was measured."""

    def __init__(self, config: Config, start: Checkpoint | None) -> None:
        self.machine = device_name(pick_device(config.run.device))
        self._earlier = {} if start is None else start.run.get("precision", {})
        precision = self._earlier.get(self.machine, "")
        has_mcts = config.pipeline.final_matches and any("mcts:" in word for word in config.evaluation.opponents)
        needed = {"norms", "playouts"} if has_mcts else {"norms"}
        setup = cli.set_up(config, precision=precision, needed=needed)
        self.settings, self.device, self.dtype = config.run, setup.device, setup.dtype
        self._evaluators: dict[tuple, Evaluator] = {}

    def evaluator(self, network: Network, encoder: Encoder, heads: tuple[str, ...], purpose: str) -> Evaluator:
        """Returns the evaluator of these heads for a purpose, always the same object, with the given weights."""
        key = heads, purpose
        if key in self._evaluators:
            self._evaluators[key].network.load_(network)
        else:
            self._evaluators[key] = Evaluator.from_network(network, encoder, self.device, self.dtype, heads=heads)
        return self._evaluators[key]

    def state_dict(self) -> dict[str, dict[str, str]]:
        """Returns what a snapshot keeps: the measured precision by machine, also of earlier machines."""
        is_measured = self.settings.precision == "auto" and self.device.type not in tuning.untried_precisions
        here = {self.machine: str(self.dtype).removeprefix("torch.")} if is_measured else {}
        return {"precision": self._earlier | here}


class Run:
    """The parts of a run and the loop over them. start: the snapshot or checkpoint to resume from, None for a new run.
    rollback: how this start goes back, if learning has diverged."""

    def __init__(
        self, config: Config, directory: Path, start: Checkpoint | None, signals: Signals, rollback: Rollback
    ) -> None:
        self.signals, self.directory = signals, directory
        self._clock = self._now()
        if start is not None:
            distributed.run_and_sync_errors(checkpoints.require_compatible, start, config)
        self.state = RunState() if start is None else RunState.of(start.counters)
        if not config.evaluation.gate:
            self.state.players.clear()
        with signals.interruptible():  # the trials of a first start take a while
            self.networks = PlayingNetworks(config, start)
        self.device, self.dtype, self.revision = self.networks.device, self.networks.dtype, code_revision()
        self.trainer, self.replay = self._new_trainer(config, start), self._open_replay(config, start)
        # Raises InputError at once for an opponent that does not exist.
        earlier = () if start is None else start.config.evaluation.opponents
        self.matches = distributed.run_and_sync_errors(Matches, config, self.device, self.dtype, earlier)
        self.config = config
        self.config, why = limits.pick_slots(config, start and start.config, self._evaluator, self.device)
        if self.config.selfplay.slots != config.selfplay.slots:  # `limits.plan` did not know the number
            needed = limits.memory(self.config, self.device)["selfplay.slots"]
            distributed.run_and_sync_errors(limits.plan_disk, self.config, needed, self.device)
        for line in [] if start is None else snapshots.changes(start.config, self.config):
            signals.log(line)
        # Not earlier: the old file stays until the new settings are known to be valid.
        distributed.on_rank0(signals.retry_io, self.config.dump, directory / "config.yaml")
        if start is not None:
            weights = {"network": start.weights, "averaged": start.averaged_weights}
            self.trainer.load_state_dict(start.trainer | weights)
        if rollback.number:
            self.replay.reseed(config.run.seed + 2 * rollback.number)
        # A run that was killed before its first snapshot begins anew: its earlier logs are dropped.
        logs = (-1, {}) if start is None else (start.step, start.run.get("logs"))
        self.telemetry = distributed.on_rank0(Telemetry, directory / "logs", *logs, call=signals.retry_io)
        self._line, self.shown = distributed.on_rank0(self._introduce, why), LineValues(self.trainer.samples)
        self._next_game, self._step_seconds, self._steps_to_sync = 0, 0.0, 1  # see `_sync_ranks`
        self._game_seconds, self._sync_at, self._games_elsewhere = 0.0, 0.0, 0  # see `_play`
        self.background_matches = BackgroundMatches(self.matches, self.telemetry, self._line.note, self.state)
        self.snapshots = Snapshots(directory, config.pipeline.snapshot_seconds, rollback)
        self.iteration = Iteration()
        self.selfplay: SelfPlay | None = None
        inbox = directory, self.config, self.trainer.encoder.name, self.state, signals
        self.inbox = Inbox(*inbox) if config.replay.external else None
        if start is not None:
            self._restore_games(start)
        self.checks = SanityChecks(stops=config.pipeline.sanity_checks == "stop")

    def close(self) -> None:
        """Ends the background matches and closes the files."""
        self.background_matches.close()
        self.telemetry.close()
        self.replay.close()

    # The parts

    def _new_trainer(self, config: Config, start: Checkpoint | None) -> Trainer:
        distributed.set_learners(0)  # a run before a rollback may have set another number
        # The initial weights are drawn from torch's global generator, whose state is restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.run.seed)
            network = checkpoints.fresh_network(config)
        encoder = make_encoder(config.features.encoder, config.features.komi_input)
        trainer = Trainer(network, encoder, config.training, config.network.heads, self.device, self.dtype)
        if config.run.start_from and start is None:
            trainer.start_from(distributed.broadcast_from_rank0(checkpoints.weights_for, config))
        return trainer

    def _open_replay(self, config: Config, start: Checkpoint | None) -> Replay:
        for folder in ("", snapshots.FOLDER, checkpoints.FOLDER, "games", "matches", "logs"):
            distributed.on_rank0(remove_leftovers, self.directory / folder)
        side, shards = config.game.largest_size, self.directory / "replay"
        place = device_for(config.replay, side, self.device)
        state = start and start.counters["replay"] | start.generators | start.run.get("replay", {})
        options = {"state": state, "device": place, "call": self.signals.retry_io, "writes": distributed.is_rank0()}
        replay = Replay(config.replay, side, shards, config.run.seed, **options)
        # Ranks with other samples would learn from other batches.
        facts = {"the number of samples": replay.total, "of them in memory": len(replay)}
        facts |= {"the last game": replay.last_game}
        distributed.require_same(facts, "all ranks must see the same folder, with all of its shards")
        return replay

    def _evaluator(self, heads: tuple[str, ...] = SEARCH_HEADS, player: Checkpoint | None = None) -> Evaluator:
        """Returns the evaluator of these heads, with the present averaged weights or those of a player."""
        network, purpose = (player.network(), "player") if player else (self.trainer.averaged, "newest")
        return self.networks.evaluator(network, self.trainer.encoder, heads, purpose)

    def _player(self) -> tuple[Evaluator, int]:
        """Returns the evaluator of self-play and the training step of its weights: the newest weights, or, under a
        gate, those of the last checkpoint that passed it."""
        player = load_player(self.directory, self.state.players, self.signals.log)
        return self._evaluator(player=player), player.step if player else self.trainer.steps

    def _restore_games(self, start: Checkpoint) -> None:
        """Restores the iteration of a snapshot, and on rank 0 its games. The other ranks start new games. A checkpoint
        holds neither games nor an iteration."""
        if "iteration" in start.run:
            self.iteration = Iteration.of(start.run["iteration"], self.device)
            name = "ahead" if self.iteration.is_learning else "collected"
            self.shown.games -= len((kept := getattr(self.iteration, name)).lengths)  # which earlier processes finished
            setattr(self.iteration, name, kept if distributed.is_rank0() else SelfPlayResult())
        if (first := int(start.counters["games"])) or "iteration" not in start.run:
            self.selfplay = self._new_selfplay(first)
            self.selfplay.resignation.load_state_dict(start.counters["resignation"])
        if first and "iteration" in start.run:
            if why := self._why_anew(start):
                self.signals.log(f"{why}: games in progress start anew")
            elif distributed.is_rank0():
                self.selfplay.load_state_dict(start.run["games"])
        matches = start.run.get("background_matches", {})
        distributed.on_rank0(self.background_matches.load_state_dict, matches, self.directory)

    def _why_anew(self, start: Checkpoint) -> str:
        """Returns why the games in progress of a snapshot cannot continue, "" if they can."""
        then, now = ((c.game, c.search, c.selfplay, c.pipeline.plays) for c in (start.config, self.config))
        before, world = start.run.get("ranks", 1), distributed.world_size()
        if then != now or before != world:
            return "settings changed" if then != now else f"number of processes changed from {before} to {world}"
        before, number = len(start.run["games"]["is_first"]), self.selfplay.num_games
        # GPUs share them equally, as CPUs did in earlier versions.
        is_other = distributed.is_rank0() and before != number
        return f"games at once of the first process changed from {before} to {number}" if is_other else ""

    def _bootstrap_random_games(self) -> None:
        """Plays the random games that a run begins with, and learns from them. They teach the value head which strings
        live, which was worth 100 Elo at equal numbers of games."""
        settings, first = self.config.run, self.replay.last_game + 1
        number = 0 if settings.start_from else self.config.selfplay.random_opening_games  # trained weights need none
        if not self.iteration.is_learning:
            with self.signals.interruptible():  # a resumed run plays them again
                numbers = distributed.local_shard(torch.arange(first, max(first, number))).tolist()
                start = (numbers or [first])[0]
                games = random_games(self.config.game, len(numbers), settings.seed, start, self.device)
            self._add_to_replay(snapshots.of_all_ranks(games).all_samples())
        self._learn()
        self.state.finished = max(number, self.replay.last_game + 1)
        self.iteration, self.selfplay = Iteration(), self._new_selfplay(self.state.finished)

    def _new_selfplay(self, first: int) -> SelfPlay:
        config, (evaluator, step) = self.config, self._player()
        is_cpu = self.device.type == "cpu"  # a GPU has no room for more than an equal share
        share = distributed.local_slots if is_cpu and self._has_players else distributed.local_count
        slots, search = share(config.selfplay.slots), config.search
        if not config.pipeline.plays:  # only its game numbers are used
            slots, search = 1, replace(search, leaves=1)
        local = replace(config, search=search, selfplay=replace(config.selfplay, slots=slots))
        numbers = {"first_game": distributed.first_number(first), "stride": distributed.world_size()}
        selfplay = SelfPlay(local, evaluator, self.device, config.run.seed, progress=self._progress(), **numbers)
        # Samples of step 0 count as those of a random player. Weights of another run are trained: step 1 at least.
        selfplay.set_network(evaluator, max(step, bool(config.run.start_from)))
        return selfplay

    # The loop

    def run(self) -> None:
        """Runs until the config's end, then plays the final matches."""
        with self._line:
            self._save_snapshot()  # from here on the run can be resumed
            if self.selfplay is None:
                self._bootstrap_random_games()
            if self.inbox and distributed.broadcast_from_rank0(self.inbox.has_news, self.state.players):
                self._sync_ranks()  # which counts the games
                self._save_checkpoint()
            self._set_learners(1)
            while self._progress() < 1.0:
                self._run_iteration()
                self._apply_match_results()
                distributed.on_rank0(self._evaluate_if_due)
                self._handle_requests()
            self._save_snapshot()
            with self.signals.interruptible():
                self._apply_match_results(wait=True)
        self._save_checkpoint()
        if self.config.pipeline.final_matches:
            with self.signals.interruptible():
                self.matches.final(self._make_checkpoint(), self.telemetry, self.directory)
            self._save_checkpoint()  # with the results
        self._clock = self._now()  # matches do not count as time of the run
        self._save_snapshot()

    def _introduce(self, why: str) -> Progress:
        """Prints the device, the kernels and why self-play has its number of slots; returns the progress line."""
        run, settings = self.config.run, self.config.pipeline
        machine = f"{self.networks.machine}, {str(self.dtype).removeprefix('torch.')}, {kernels.in_use(self.device)}"
        print(f"{self.directory}: {machine}, {self.trainer.network.num_parameters()} parameters", flush=True)
        if why:
            print(f"self-play: {why}", flush=True)
        by_iterations = settings.iterations, "iterations", self.state.iterations
        by_time = settings.minutes, "min", self._minutes()  # the set-up included
        line = Progress(run.name, *(by_time if settings.minutes else by_iterations))
        if len(self.replay) < (least := limits.least_samples(self.config)):
            line.note(f"training starts when there are {least:,} samples (replay.min_window)")
        return line

    def _now(self) -> float:
        """Returns `time.monotonic()` less the time in which the run waited for the disk, in seconds."""
        return time.monotonic() - self.signals.disk_seconds

    def _minutes(self) -> float:
        """Returns the minutes that the run has taken up to now, those before it was resumed included."""
        return (self.state.seconds + self._now() - self._clock) / 60

    def _end(self) -> float | None:
        """Returns the `time.monotonic()` at which the run ends, None for one that has no such end."""
        settings = self.config.pipeline
        return time.monotonic() + 60 * (settings.minutes - self._minutes()) if settings.minutes else None

    def _progress(self) -> float:
        """Returns how much of the run is over, 0 to 1; 0 for a run without an end."""
        settings = self.config.pipeline
        by_time = self.state.seconds / 60 / settings.minutes if settings.minutes else 0.0
        by_iterations = self.state.iterations / settings.iterations if settings.iterations else 0.0
        return min(1.0, max(by_time, by_iterations))

    def _sync_ranks(self, is_over: bool = False, finish: Callable[[], list[float]] | None = None) -> tuple[bool, bool]:
        """Returns whether any rank requests a snapshot or an exit, and whether learning is over. Collective call, which
        a rank may have begun before: synchronises the clock (rank 0's), the next game number and the next call."""
        now = self._now()
        facts = finish() if finish else distributed.all_reduce_max(self._facts(now, is_over))
        self.state.seconds, used, steps, is_asked, is_over = facts
        self._clock, self._next_game = now, int(used)
        self._steps_to_sync = min(MOST_STEPS, max(1, int(steps))) if distributed.world_size() > 1 else 1
        return bool(is_asked), bool(is_over)

    def _facts(self, now: float, is_over: bool = False) -> list[float]:
        """Returns the numbers of which `_sync_ranks` takes the largest over the ranks."""
        used = 0 if self.selfplay is None else self.selfplay.next_game
        steps = RANK_SYNC_SECONDS / self._step_seconds if distributed.is_rank0() and self._step_seconds else 1.0
        seconds = self.state.seconds + (now - self._clock if distributed.is_rank0() else 0.0)
        return [seconds, used, steps, self._has_request(), is_over]

    def _show(self, collected: SelfPlayResult | None = None) -> None:
        """Updates the progress line. collected: the games so far of an unfinished iteration."""
        settings, shown, games = self.config.pipeline, self.shown, 0
        if collected is not None:
            games = len(collected.lengths) + self._games_elsewhere
            shown.part = 0.5 * min(1.0, games / settings.games_per_iteration)
        amounts = {"games": shown.games + games, "samples": self.trainer.samples - shown.first_sample}
        done = self._minutes() if settings.minutes else self.state.iterations + shown.part
        self._line.update(done, amounts, **shown.values)

    def _run_iteration(self) -> None:
        """Runs an iteration, or the rest of a snapshot's: plays, learns, charts, saves a checkpoint if one is due."""
        begun, waited, disk_seconds = time.monotonic(), distributed.waits.seconds, self.signals.disk_seconds
        if not (resumed := self.iteration.is_learning):
            self._play()
        played = time.monotonic()
        numbers, collected = self.iteration.numbers | self._learn(), self.iteration.collected
        learning, waited = time.monotonic() - played, distributed.waits.seconds - waited
        if not self.state.players:
            self.selfplay.set_network(self._evaluator(), max(self.trainer.steps, bool(self.config.run.start_from)))
        self.state.iterations, self.shown.part = self.state.iterations + 1, 0.0
        self.iteration = Iteration(self.iteration.ahead, steps_before=self.trainer.steps - self.iteration.first_step)
        self._sync_ranks()
        if distributed.world_size() > 1:
            seconds, was_usual = time.monotonic() - begun, not resumed and self.signals.disk_seconds == disk_seconds
            waiting, learning, learners = distributed.balance(waited / seconds, learning / seconds, was_usual)
            numbers["time/waiting_share"], self.shown.values["waiting"] = waiting, f"{100 * waiting:.0f} %"
            numbers["time/learning_share"], numbers["time/learners"] = learning, distributed.num_learners()
            self._set_learners(learners)
        distributed.on_rank0(self._chart, collected, numbers)
        if self.state.seconds - self.state.last_checkpoint >= 60 * self.config.pipeline.checkpoint_minutes:
            self._save_checkpoint()
        tags, total = {"loss": "train/loss", "length": "selfplay/game_length_plies"}, str(self.state.finished)
        self.shown.values |= {"games": total} | {name: numbers[tag] for name, tag in tags.items() if tag in numbers}
        self._show()

    def _play(self) -> None:
        """Plays the games of an iteration, checks them, and adds them to the replay. All ranks play until together they
        have finished enough; the first time, when nobody knows how long a game takes, each plays its share."""
        settings, collected, begun = self.config.pipeline, self.iteration.collected, self._now()
        ahead = sum(distributed.all_gather_object(len(collected.lengths)))
        self.selfplay.set_progress(self._progress())
        while settings.plays:
            finished = len(collected.lengths)
            self._games_elsewhere = sum(distributed.all_gather_object(finished)) - finished
            left = max(0, settings.games_per_iteration - finished - self._games_elsewhere)
            expected = max(LEAST_SYNC_SECONDS, left * (self._game_seconds or RANK_SYNC_SECONDS))
            self._sync_at = self._now() + min(RANK_SYNC_SECONDS, expected)  # from now on, so there is time for a step
            number = finished + (left if self._game_seconds else distributed.local_count(left))
            self.selfplay.play(number, self._end(), self._show, True, collected, self._pauses)
            if distributed.all_ranks_true(collected.is_complete):
                break
            self._handle_requests()
        if played := self._games_elsewhere + len(collected.lengths) - ahead:
            self._game_seconds = (self._now() - begun) / played
        if self.inbox:
            self.inbox.fill(collected, self.selfplay, self.trainer.steps, self._end, self._show, self._handle_requests)
        self._write_games()
        collected = self.iteration.collected = snapshots.of_all_ranks(collected)
        samples, figures, self._games_elsewhere = collected.all_samples(), {}, 0
        if samples is not None:  # wrong samples end the run before they are kept
            figures = sanity_checks.of_games(collected, samples) | sanity_checks.of_samples(samples)
            self._run_checks(figures)
        self.state.simulations, number = self.state.simulations + collected.simulations, len(collected.lengths)
        self.shown.games, self.state.finished = self.shown.games + number, self.state.finished + number
        self.iteration.numbers = selfplay_numbers(collected, samples) | figures
        self._add_to_replay(samples)

    def _has_request(self) -> bool:
        """Returns whether a snapshot is due or a signal requests something, on this rank."""
        return self.signals.has_request or self.snapshots.is_due()

    def _pauses(self) -> bool:
        """Returns whether self-play pauses, because of a request or to sync with the other ranks."""
        return self._has_request() or distributed.world_size() > 1 and self._now() > self._sync_at

    def _play_ahead(self, number: int) -> None:
        """Plays its share of a number of games of the next iteration while other ranks learn."""
        players, is_over = distributed.world_size() - distributed.num_learners(), False
        number = len(self.iteration.ahead.lengths) - (-number // players)
        while not is_over:  # pauses when the learners sync, which need not wait
            is_complete, finish = distributed.begin_all_reduce_max(self._facts(self._now()))
            self.selfplay.play(number, collected=self.iteration.ahead, pause=is_complete)
            is_over = self._handle_requests(finish=finish)

    @property
    def _has_players(self) -> bool:
        """Whether ranks can play while others learn: in a run that plays at all."""
        return self.config.pipeline.plays

    def _set_learners(self, number: int) -> None:
        """Sets how many ranks learn, except where all do. On GPUs it is one, since a step that several share can't
        be replayed as a CUDA graph, which makes it five times as fast. Collective call."""
        number = number if self.device.type == "cpu" else 1
        if self._has_players and number != distributed.num_learners():
            distributed.set_learners(number)
            self.trainer.learner = distributed.wrap_ddp(self.trainer.network, self.device)

    def _handle_requests(self, is_over: bool = False, finish: Callable[[], list[float]] | None = None) -> bool:
        """Saves a snapshot if one is due or requested, and exits if a signal requests it. Returns whether learning is
        over. Collective call, as `_sync_ranks`."""
        is_asked, is_over = self._sync_ranks(is_over, finish)
        if is_asked:
            self._save_snapshot()
            if number := int(distributed.all_reduce_max([self.signals.exit_signal])[0]):
                self.signals.exit_signal = number  # a signal meanwhile is not lost
                self.signals.log(f"the run is saved; zerogo train --resume {self.config.run.options} continues it")
                self.signals.leave_if_asked()  # now that the snapshot is whole
        return is_over

    def _run_checks(self, figures: dict[str, float]) -> None:
        """Warns of checks that these figures fail. If one ends the run, charts the figures and raises InputError."""
        try:
            for sentence in self.checks.look(figures, self.trainer.steps):
                self._line.note(f"warning: {sentence}")
        except InputError as error:  # on all ranks
            self.telemetry.scalars(self.trainer.steps, figures)
            raise error if distributed.is_rank0() else InputError() from None

    def _sanity_figures(self, numbers: dict[str, float]) -> dict[str, float]:
        """Returns the figures of an iteration's sanity checks. numbers: the means of its training metrics."""
        steps, iteration = self.trainer.steps, self.iteration
        player, learned = (self.state.players or [steps])[-1], max(steps - iteration.first_step, iteration.steps_before)
        figures = sanity_checks.of_training(numbers, self.replay, player, learned)
        if (held_out := self.replay.validation_batch(self.config.training.batch)) is not None:
            figures |= sanity_checks.of_batch(held_out, self.trainer)
        evaluator = self._evaluator(("policy", "value", "ownership"))
        return figures | sanity_checks.of_network(self.replay.newest(self.iteration.num_samples), evaluator)

    def _require_finite(self) -> None:
        """Raises Diverged for NaN or infinite weights, before they play or are saved."""
        for name, network in (("weights", self.trainer.network), ("averaged weights", self.trainer.averaged)):
            if not distributed.all_ranks_true(snapshots.is_finite(network.state_dict().values())):
                (step,) = distributed.all_reduce_max([self.trainer.steps])  # while some learn, others are behind
                raise Diverged(f"the {name} became NaN or infinite", int(step))

    def _add_to_replay(self, samples: Samples | None) -> None:
        """Adds samples to the replay, and plans the training steps that its credit allows, none if it has too few."""
        if samples is not None:
            self.signals.wait_for_thread(lambda: self.replay.add(samples))
        self.iteration.collected.samples.clear()
        batch, is_enough = self.config.training.batch, len(self.replay) >= limits.least_samples(self.config)
        self.iteration.planned_steps = max(1, self.replay.credit // batch) if is_enough else 0
        self.iteration.is_learning, self.iteration.first_step = True, self.trainer.steps
        self.iteration.num_samples = min(len(self.replay), 0 if samples is None else len(samples))

    def _write_games(self) -> None:
        """Writes the finished games that are kept as SGF."""
        for games in (self.iteration.collected.games, self.iteration.ahead.games):
            self.signals.retry_io(write_games, self.directory / "games", games, self.config.run.name)
            games.clear()

    def _learn(self) -> dict[str, float]:
        """Has the learners train while the other ranks play on; then all have the learned networks. Returns rank 0's
        metrics and figures, by tag. Collective call."""
        ahead = sum(distributed.all_gather_object(len(self.iteration.ahead.lengths)))  # of a snapshot
        numbers, figures, state = {}, {}, None
        if not distributed.is_learner():
            self._play_ahead(max(0, self.config.pipeline.games_per_iteration - ahead))
        else:
            numbers = self._train()
            if self.selfplay and self.iteration.num_samples:
                figures = self._sanity_figures(numbers)
            if distributed.num_learners() < distributed.world_size():
                self._handle_requests(is_over=True)
                state = (self.trainer.state_dict(), self.replay.counters()) if distributed.is_rank0() else None
                state = tree_map_only(Tensor, Tensor.cpu, state)  # a GPU's tensors would go to the first GPU
        numbers, figures, state = distributed.broadcast_from_rank0(lambda: (numbers, figures, state))  # shares differ
        if not distributed.is_learner():
            self.trainer.load_state_dict(state[0])
            self.replay.take_over(state[1])
        self._require_finite()
        self._run_checks(figures)
        return numbers | figures

    def _train(self) -> dict[str, float]:
        """Trains for the planned steps, or until the run is over; returns the means of their metrics, by tag."""
        batch, iteration = self.config.training.batch, self.iteration
        while iteration.planned_steps and self.replay.can_sample(batch) and self._progress() < 1.0:
            begun = time.monotonic()
            self.trainer.progress = self._progress()
            drawn, done = self.replay.sample_batch(batch), self.trainer.steps - iteration.first_step
            iteration.note(drawn, self.trainer.step(drawn, measures=done % METRICS_EVERY == 0))
            self.shown.values["learning"] = f"{100 * (learned := (done + 1) / iteration.planned_steps):.0f} %"
            self.shown.part = 0.5 + 0.5 * learned if self.selfplay else 0.0
            self._show()
            self._step_seconds = time.monotonic() - begun
            iteration.seconds += self._step_seconds
            if done % self._steps_to_sync == 0:
                self._handle_requests()
        self.shown.values.pop("learning", None)
        if (steps := self.trainer.steps - iteration.first_step) == 0:
            return {}
        begun = time.monotonic()
        numbers = iteration.means()  # waits for the steps that a GPU has yet to make
        iteration.seconds += time.monotonic() - begun
        self.trainer.refresh_statistics(iteration.recent)
        numbers["train/samples_per_s"] = steps * batch / max(iteration.seconds, 1e-9)
        if (held_out := self.replay.validation_batch(HELD_OUT_BATCHES * batch)) is not None:
            measured = self.trainer.measure(held_out)
            numbers |= {f"validation/{name}": float(value) for name, value in measured.items()}
        return numbers

    def _chart(self, collected: SelfPlayResult, numbers: dict[str, float]) -> None:
        """Charts the numbers of an iteration, the replay and the run, and every few iterations pictures."""
        step, run, resignation = self.trainer.steps, self.state, self.selfplay.resignation
        numbers |= {f"replay/{name}": value for name, value in self.replay.statistics(step).items()}
        numbers |= {"time/minutes": run.seconds / 60, "time/iterations": run.iterations, "time/games": run.finished}
        numbers |= {"selfplay/network_step": run.players[-1]} if run.players else {}
        if self.config.selfplay.resign_share:
            numbers["selfplay/resign_threshold"] = resignation.threshold
            numbers["selfplay/resign_false_positive"] = resignation.measured
        self.telemetry.scalars(step, numbers)
        if run.iterations % PICTURE_EVERY == 1:
            pictures = first_moves(self.config.game, self._evaluator(), self.device)
            for name, picture in (final_boards(collected) | pictures).items():
                self.telemetry.image(name, picture, step)

    def _apply_match_results(self, wait: bool = False) -> None:
        """Charts the background matches if they are over, applies the gate, and gives all ranks the network that plays
        from now on. wait: waits for the matches."""
        results, step = self.background_matches.poll_results(wait), self.background_matches.step
        judged = self.state.players, step, results, self.config.evaluation.gate, self._line.note
        if (players := distributed.broadcast_from_rank0(apply_gate, *judged)) != self.state.players:
            self.state.players = players
            self.signals.snapshot_requested = True  # before `limits.remove_old_files` removes an earlier player's file
            self.selfplay.set_network(*self._player())
            if self.inbox:
                self._save_checkpoint()

    def _evaluate_if_due(self) -> None:
        """Starts background matches of this step if they are due."""
        settings, begun = self.config.evaluation, self.background_matches.begun
        by_time = settings.every_minutes and self.state.seconds - begun >= 60 * settings.every_minutes
        by_iterations = settings.every_iterations and self.state.iterations % settings.every_iterations == 0
        if (by_time or by_iterations) and self._progress() < 1.0 and not self.background_matches.running:
            self.background_matches.start(self._save_checkpoint(), self.trainer.steps, self.state.seconds)

    def _make_checkpoint(self) -> Checkpoint:
        """Returns a checkpoint, with samples that no shard holds yet, but without games in progress or played ahead."""
        state, replay = self.trainer.state_dict(), self.replay.state_dict()
        weights, averaged = state.pop("network"), state.pop("averaged")
        counters = vars(self.state) | {"samples": self.trainer.samples, "games": 0, "replay": replay}
        if self.selfplay is not None:
            counters |= {"games": self._next_game, "resignation": self.selfplay.resignation.state_dict()}
        generators = {name: replay.pop(name) for name in GENERATORS}
        run = {"replay": {"pending": replay.pop("pending")}}
        contents = weights, averaged, state, generators, counters, run
        return Checkpoint(self.config, self.trainer.steps, *contents, revision=self.revision)

    def _save_snapshot(self) -> None:
        """Saves a snapshot, from which the run resumes bit for bit."""
        self._require_finite()
        self._sync_ranks()
        self._write_games()
        self.signals.wait_for_thread(self.replay.flush)
        begun, iteration = time.monotonic(), self.iteration
        name = "ahead" if iteration.is_learning else "collected"
        iteration = replace(iteration, **{name: snapshots.of_all_ranks(getattr(iteration, name))})
        if distributed.is_rank0():
            self.signals.retry_io(self._write_snapshot, iteration, time.monotonic() - begun)
            if self.inbox:
                self.inbox.after_snapshot()
        self._sync_ranks()  # rank 0 may have waited for the disk
        self.signals.snapshot_requested = False

    def _write_snapshot(self, iteration: Iteration, spent: float) -> None:
        begun, snapshot = time.monotonic() - spent, self._make_checkpoint()  # without the time of earlier tries
        self.telemetry.trim()
        snapshot.run |= {} if self.selfplay is None else {"games": self.selfplay.state_dict()}
        snapshot.run |= {"format": snapshots.FORMAT, "iteration": iteration.state_dict()}
        snapshot.run |= {"background_matches": self.background_matches.state_dict(), "logs": self.telemetry.sizes()}
        snapshot.run |= self.networks.state_dict() | {"ranks": distributed.world_size()}
        self.snapshots.write(snapshot, begun)
        self.replay.after_snapshot()

    def _save_checkpoint(self) -> Path:
        """Writes a checkpoint and returns its path; removes checkpoints and games that the settings do not keep."""
        self.state.last_checkpoint = self.state.seconds
        if not distributed.is_rank0():
            return self.directory
        self.state.saved += [self.trainer.steps] if self.trainer.steps not in self.state.saved[-1:] else []
        path = checkpoints.path_of(self.directory, self.trainer.steps)
        logs = {"logs": self.signals.retry_io(self.telemetry.sizes)}
        self.signals.retry_io(checkpoints.save, path, replace(self._make_checkpoint(), run=logs))
        kept = self.state.saved, self.state.players, self.background_matches.path
        self.signals.retry_io(limits.remove_old_files, self.config, path, *kept)
        return path
