"""Actors: processes beside a run, on any machine that sees its folder, which play games for it.

`selfplay.py --watch RUN` follows the newest checkpoint of the run and adds shards of finished games to RUN/actors,
whole or not at all. An actor's name, from which its shards have theirs and its games their seed, is drawn anew at each
start, so that no two games are the same. The run takes each shard in once (`replay.external`): a commit names those
whose samples it holds, and they are removed when two commits do. What is damaged or foreign is moved to
RUN/actors/refused."""

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

from zerogo import bounds, cli, draws, kernels, ranks
from zerogo import checkpoint as checkpoints
from zerogo.checkpoint import Checkpoint
from zerogo.config import Config, GameConfig, with_overrides
from zerogo.draws import Purpose
from zerogo.errors import InputError, Interrupted
from zerogo.pipeline import batch_size, canaries
from zerogo.pipeline.generate import evaluator_for
from zerogo.replay import Samples, load_with_about, save_shard
from zerogo.rules import SCORING, SUPERKO
from zerogo.runtime import describe, make_directory
from zerogo.selfplay import SelfPlay, SelfPlayResult
from zerogo.signals import Signals, lasting_streams
from zerogo.telemetry import Progress

FOLDER, REFUSED, MOST_REFUSED = "actors", "refused", 100  # newest refused shards that are kept to be looked at
NAME = re.compile(r"[0-9a-f]{12}-\d{8}-(\d+)\.npz")  # actor, number of its shard, samples
LOOK = 1.0  # seconds between looks for checkpoints, or for shards where there is nothing else to do
LEFTOVER = 3600.0  # seconds after which nobody is still writing a file
RULES = ("size", "komi", "superko", "suicide", "scoring")
# What a shard tells of its games beside their samples, fields of `SelfPlayResult`, and who played them: the run's
# `begun` and encoder.
GAMES = {"lengths": [int], "scores_black": [float], "sizes": [int], "komi": [float], "ends": [int], "moves": int}
GAMES |= {"simulations": int, "overflowed": int, "seconds": float, "prior_kl": float, "prior_entropy": float}
ABOUT = {"run": int, "encoder": str, "games": GAMES}
# In which numbers are, NaN nowhere.
RANGES = {"to_play": (1, 2), "passes": (0, 2), "policy": (0, 1), "policy_weight": (0, 1), "board_weight": (0, 1)}
RANGES |= dict.fromkeys(("value", "root_value", "ownership"), (-1, 1)) | {"score": (-2000, 2000), "ply": (0, 20_000)}


class Waiting(NamedTuple):
    """A shard of an actor, with how many samples its name says."""

    path: Path
    samples: int


def waiting(directory: Path) -> list[Waiting]:
    """Returns the shards of a run's folder of actors, each actor's in their order."""
    found = [(path, NAME.fullmatch(path.name)) for path in sorted(directory.iterdir())]
    return [Waiting(path, int(match[1])) for path, match in found if match]


class Inbox:
    """The run's side. directory: of the run. run: when it began, which tells it from others. taken: names of the shards
    whose samples the run has, changed in place."""

    def __init__(
        self, directory: Path, config: Config, run: int, encoder: str, taken: list[str], signals: Signals
    ) -> None:
        self.directory = make_directory(directory / FOLDER)
        self.config, self.taken, self._committed = config, taken, set()
        self._origin, self._signals, self._quiet_since = {"run": run, "encoder": encoder}, signals, 0.0

    def take_in(self, collected: SelfPlayResult, selfplay: SelfPlay, step: int) -> None:
        """Adds to a round, on the first rank, the games of all shards that wait, under numbers above all that any rank
        has used, beyond which all go on."""
        first = int(ranks.most([selfplay.next_game])[0])
        if number := ranks.of_first(self.take, collected, first, step):
            selfplay.next_game = first + number + ranks.rank()

    def take(self, collected: SelfPlayResult, first: int, step: int) -> int:
        """Adds the games of all shards that wait to a round, numbered from `first`; returns how many. step: the run's,
        from which on there are no networks, but for those of checkpoints that a resumed run is yet to reach."""
        number, newest = 0, checkpoints.paths(self.directory.parent)[-1:]
        step = max([1, step, *(int(checkpoints.NAME.fullmatch(path.name)[1]) for path in newest)])
        for path, count in waiting(self.directory):
            if path.name in self.taken:
                continue
            try:
                samples, games = self._read(path, count, step)
            except InputError as error:
                self._signals.patiently(self._refuse, path)
                self._signals.note(f"warning: set aside: {error}")
                continue
            of_shard = torch.unique(samples.game, return_inverse=True)[1]
            games["samples"] = [replace(samples, game=of_shard + first + number)]
            for name, more in games.items():
                setattr(collected, name, getattr(collected, name) + more)
            number += len(games["lengths"])
            self.taken.append(path.name)
            self._quiet_since = time.monotonic()
        return number

    def wait(self) -> None:
        """Waits for shards a moment; says so where none came for a minute."""
        if time.monotonic() - self._quiet_since > 60:
            self._signals.note(f"waits for games of actors: selfplay.py --watch {self.directory.parent}")
            self._quiet_since = float("inf")
        time.sleep(LOOK)

    def committed(self) -> None:
        """Removes the shards whose samples two commits have, the newest among them, and what killed actors left."""
        for path, _ in waiting(self.directory):
            if path.name in self._committed:
                path.unlink()
        self.taken[:] = [name for name in self.taken if name not in self._committed]
        self._committed = set(self.taken)
        for path in self.directory.glob(".*.tmp"):
            if time.time() - path.stat().st_mtime > LEFTOVER:
                path.unlink(missing_ok=True)

    def _read(self, path: Path, count: int, step: int) -> tuple[Samples, dict[str, Any]]:
        """Returns samples and games of a shard. Raises InputError where it is damaged, or not of this run."""
        samples, about = load_with_about(path)
        if wrong := bounds.misfit(about, ABOUT, "about") or _missing(about):
            raise InputError(f"shard {path}: {wrong}")
        games, game = about["games"], self.config.game
        for name, now in self._origin.items():
            if about[name] != now:
                raise InputError(f"shard {path} is of {name} {about[name]}, not of {now}: another run's")
        numbers = [len(games[name]) for name in ("lengths", "scores_black", "sizes", "komi", "ends")]
        if not len(samples) == count > 0 or len(set(numbers)) > 1 or len(samples.game.unique()) > numbers[0]:
            raise InputError(f"shard {path} holds {len(samples)} samples of {numbers} games; its name says {count}")
        if samples.board_size != game.largest_size or (other := rules_of(samples) - allowed_rules(game)):
            what = f"side {samples.board_size}" if samples.board_size != game.largest_size else f"{RULES} {min(other)}"
            raise InputError(f"shard {path} holds games of other rules than the run's: {what}")
        for name, (low, high) in (RANGES | self._places(game, step)).items():
            least, most = map(float, getattr(samples, name).to(torch.float64).aminmax())
            if not low <= least <= most <= high:
                raise InputError(f"shard {path} has {name} from {least:g} to {most:g}; allowed are {low} to {high}")
        if broken := canaries.broken(canaries.of_samples(samples)):
            raise InputError(f"shard {path}: {broken[0]}")
        return samples, games

    def _places(self, game: GameConfig, step: int) -> dict[str, tuple[int, int]]:
        points = game.largest_size**2
        return dict.fromkeys(("ko", "moves", "reply"), (-1, points)) | {"network_step": (0, step)}

    def _refuse(self, path: Path) -> None:
        refused = make_directory(self.directory / REFUSED)
        path.replace(refused / path.name)
        for old in sorted(refused.iterdir(), key=lambda one: one.stat().st_mtime)[:-MOST_REFUSED]:
            old.unlink(missing_ok=True)


def _missing(about: dict[str, Any]) -> str:
    lacks = [*(ABOUT.keys() - about.keys()), *(GAMES.keys() - about.get("games", {}).keys())]
    return f"it does not say {', '.join(sorted(lacks))}" if lacks else ""


def rules_of(samples: Samples) -> set[tuple]:
    """Returns the different rules of samples, as the numbers of `RULES`."""
    return set(zip(*(getattr(samples, name).tolist() for name in RULES), strict=True))


def allowed_rules(game: GameConfig) -> set[tuple]:
    """Returns all rules that the games of a run may have, as the numbers of `RULES`."""
    superko = [name for name, share in game.superko_shares.items() if share] or [game.superko]
    suicide = {game.suicide, game.suicide or game.suicide_share > 0}
    found: set[tuple] = set()
    for size in game.all_sizes:
        own = game.komi_of(size)
        komi = {own, *(game.drawn_komi(own) if game.random_komi_share else ())}
        parts = np.float32([*komi]).tolist(), map(SUPERKO.index, superko), suicide, [SCORING.index(game.scoring)]
        found |= {*itertools.product([size], *parts)}
    return found


def watch(directory: Path, overrides: Sequence[str] = ()) -> None:
    """Plays games for the run in a folder until a signal ends it. overrides: of the run's settings, such as this
    machine's run.device.

    Raises InputError where the folder is none or has gone, or the run takes no games of actors; Interrupted where a
    signal ended it, with all finished games written."""
    with lasting_streams(), Progress("actor", None, "games") as line, Signals(line.note) as signals:
        Actor(directory, overrides, signals, line).go()


class Actor:
    """Games for a run, under the settings of its newest checkpoint, whose network plays from then on, in games under
    way too."""

    def __init__(self, directory: Path, overrides: Sequence[str], signals: Signals, line: Progress) -> None:
        self.directory, self.overrides, self.signals, self.line = directory, overrides, signals, line
        self.name = secrets.token_hex(6)
        self.shards = self.games = 0  # written
        self._seen: tuple[Path, int] | None = None  # the newest checkpoint's file, and when it was written
        self._said: set[str] = set()
        self._of: tuple | None = None  # which run, and under which settings, the games are
        self.collected, self._written, self._next_look = SelfPlayResult(), time.monotonic(), 0.0

    def go(self) -> None:
        """Plays until a signal asks to leave, and writes the finished games then."""
        try:
            while True:
                self._play()
        except Interrupted:
            self._write()
            raise

    def _play(self) -> None:
        """Plays until it is time to look around, and writes what is due."""
        self._follow()
        self._wait_while(self._is_full, "as many samples as a window begins with wait for the run to take them")
        self._next_look, settings = time.monotonic() + LOOK, self.config.pipeline
        self.selfplay.play(settings.games_per_iteration, None, self._show, False, self.collected, self._is_asked)
        if self.collected.is_whole or time.monotonic() - self._written >= settings.commit_seconds:
            self._write()
        self.signals.leave_if_asked()

    def _is_asked(self) -> bool:
        return self.signals.wanted or time.monotonic() >= self._next_look

    def _show(self, collected: SelfPlayResult) -> None:
        self.line.update(self.games + len(collected.lengths), step=self.step)

    def _wait_while(self, holds: Callable[[], bool], why: str) -> None:
        """Waits as long as something holds, and says why, the first time."""
        while holds():
            if why not in self._said:
                self.signals.note(f"{self.directory}: {why}")
            self._said.add(why)
            self.signals.wait(LOOK)

    def _is_full(self) -> bool:
        folder = self.directory / FOLDER
        return folder.is_dir() and sum(one.samples for one in waiting(folder)) >= self.config.replay.min_window

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
            raise InputError(f"the run's folder {self.directory} is not there, so there is nobody to play for")

    def _follow(self) -> None:
        """Goes on with the newest checkpoint that loads, where it is another than before."""
        while self._of is None or self._newest() != self._seen:
            self._wait_while(lambda: self._newest() is None, "no checkpoint to play with yet; waits for one")
            self._seen = self._newest()
            if (found := checkpoints.newest(self.directory)) is not None:
                self._use(found)
            elif self._of is None:
                self.signals.wait(LOOK)

    def _use(self, found: Checkpoint) -> None:
        config, run = with_overrides(found.config, self.overrides), int(found.counters.get("begun", 0))
        if not config.replay.external:
            raise InputError(f"the run {self.directory} takes no games of actors; resume it with replay.external=true")
        self.config, self.step, of = config, found.step, (run, config.game, config.search, config.selfplay)
        if of != self._of:
            self._write()
            self._begin(found, run)
        self._of = of
        self.evaluator.network.load_(found.network())
        self.selfplay.use(self.evaluator, max(found.step, bool(config.run.start_from)))
        self.selfplay.set_progress(found.trainer.get("progress", 0.0))

    def _begin(self, found: Checkpoint, run: int) -> None:
        """Begins games of a run, or under other settings than before."""
        config, setup = self.config, cli.set_up(self.config)
        self.evaluator, first = evaluator_for(setup, found), 0 if self._of is None else self.selfplay.next_game
        cli.pick_epilogues(config.run.epilogues, self.evaluator.network)
        self.about = {"run": run, "encoder": found.encoder().name}
        settings = replace(config.selfplay, sgf_share=0.0)
        search, settings, why = batch_size.fitted(config.game, config.search, settings, self.evaluator, setup.device)
        seed = int(draws.key(config.run.seed, Purpose.ACTOR, int(self.name, 16))) % 2**62
        self.selfplay = SelfPlay(config.game, search, settings, self.evaluator, setup.device, seed, first)
        machine = f"{describe(setup.device)['device']}, {kernels.in_use(setup.device)}"
        self.signals.note(f"{self.directory}: actor {self.name} on {machine}, {settings.games} games at once {why}")

    def _write(self) -> None:
        """Writes the finished games, if there are any, as a shard."""
        if not self.collected.samples:
            return
        self.signals.patiently(self._save)
        self.shards, self.games = self.shards + 1, self.games + len(self.collected.lengths)
        self.collected, self._written = SelfPlayResult(), time.monotonic()
        self.selfplay.resignation.update()

    def _save(self) -> None:
        self._require_run()
        folder, samples = self.directory / FOLDER, self.collected.all_samples()
        folder.mkdir(exist_ok=True)
        games = {name: getattr(self.collected, name) for name in GAMES}
        path = folder / f"{self.name}-{self.shards:08d}-{len(samples)}.npz"
        save_shard(path, samples, self.about | {"games": games})
