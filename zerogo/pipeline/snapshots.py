"""Snapshots: the complete state of a run, saved often, so that a resumed run continues as if it had never stopped.

A snapshot is one file: a checkpoint (`zerogo.checkpoint`) whose part `run` also holds the games in progress with their
trees, the unfinished iteration, samples that no shard holds yet, background matches, measured choices such as the
precision, and the lengths of the logs (`Run._write_snapshot`). Finished shards are written first. The file is renamed
into place when it is complete. The two newest snapshots stay, with all files that either needs. Rank 0 writes them,
with the finished games of all ranks and its own in progress: a resumed run starts new games on the other ranks."""

import contextlib
import math
import re
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo import checkpoint, tuning
from zerogo.checkpoint import Checkpoint
from zerogo.config import Config, is_whole, load
from zerogo.errors import InputError, one_line
from zerogo.replay import Samples, TrainingBatch
from zerogo.selfplay import SelfPlayResult
from zerogo.system import distributed

FOLDER = "snapshots"
NAME = re.compile(r"snapshot-(\d{9})\.pt")
FORMAT = 4  # of a snapshot's part `run`; one more when a field is removed or changes its meaning
KEPT = 2  # newest snapshots: one may turn out to be damaged
FIRST_WAIT = 1.0  # seconds to a process's first snapshot; then twice as long each time, up to pipeline.snapshot_seconds
MOST_OF_TIME = 0.02  # share of the time that snapshots may take
# The lists in an iteration's result that have a number for each game.
OF_GAMES = "lengths", "scores_black", "sizes", "komi", "ends"
STATISTICS_BATCHES = 8  # batches from which the averaged weights get their batch-norm statistics


@dataclass(frozen=True)
class Rollback:
    """A return to an earlier state after learning has diverged. number: of rollbacks in a row, 0 for none.
    until: the training step up to which a further one counts as in a row. needed: the snapshots that it may go back
    to."""

    number: int = 0
    until: int = -1
    needed: frozenset[Path] = frozenset()


class Snapshots:
    """The snapshots of a run, and when the next one is due. seconds: between two of them at most, unless writing one
    takes long. rollback: names older ones that are kept for a while."""

    def __init__(self, directory: Path, seconds: float, rollback: Rollback) -> None:
        self.directory, self._seconds, self._wait = directory, seconds, min(FIRST_WAIT, seconds)
        self._rollback = rollback
        self._number = max((int(NAME.fullmatch(path.name)[1]) for path in paths(directory)), default=0)
        self._next = time.monotonic() + self._wait

    def is_due(self) -> bool:
        """Returns whether the next snapshot is due."""
        return time.monotonic() >= self._next and distributed.is_rank0()

    def write(self, snapshot: Checkpoint, begun: float) -> None:
        """Writes a snapshot and removes the oldest. begun: the time at which making it began, to hold `MOST_OF_TIME`.
        Raises OSError, after which it may be called again."""
        checkpoint.save(self.directory / FOLDER / f"snapshot-{self._number + 1:09d}.pt", snapshot)
        self._number += 1
        needed = self._rollback.needed if snapshot.step <= self._rollback.until else ()
        for path in paths(self.directory)[:-KEPT]:
            if path not in needed:
                with contextlib.suppress(OSError):  # the snapshot is written; what is left goes at the next one
                    path.unlink()
        now, self._wait = time.monotonic(), min(2 * self._wait, self._seconds)
        self._next = now + max(self._wait, (now - begun) / MOST_OF_TIME)


def paths(directory: Path) -> list[Path]:
    """Returns the snapshots of a run, oldest first, whole or not."""
    return sorted(path for path in (directory / FOLDER).glob("snapshot-*.pt") if NAME.fullmatch(path.name))


def starts(directory: Path) -> Iterator[Checkpoint]:
    """Yields what a run can resume from, the newest first: its snapshots, then its checkpoints. Warns of each that does
    not load, that is a network alone, or that has NaN or infinite weights. Collective call: all ranks get the same."""
    files = [*reversed(paths(directory)), *reversed(checkpoint.paths(directory))]
    for path in distributed.all_gather_object(files)[0]:
        try:
            start = distributed.run_and_sync_errors(_load_or_reason, path)
        except InputError as error:
            warnings.warn(f"skipped: {error}", stacklevel=2)
        else:
            distributed.run_and_sync_errors(_require_read, start)
            yield start


def _load_or_reason(path: Path) -> Checkpoint | str:
    """Returns what `_load` does, or why not, where disk or memory are to blame: another try may succeed, and a run
    that resumed from an older state would remove this one."""
    try:
        return _load(path)
    except InputError as error:
        why = error.__cause__
        if why is None or not path.exists() or not (isinstance(why, OSError) or tuning.lacks_memory(why)):
            raise
        reason = why.strerror if isinstance(why, OSError) else one_line(why)
        return f"{path} can't be read now ({reason}); try again, or move it away to resume from an older state"


def _require_read(start: Checkpoint | str) -> None:
    if isinstance(start, str):
        raise InputError(start)


def newest(directory: Path) -> Checkpoint:
    """Returns the newest state of a run, of a snapshot or a checkpoint. Raises InputError where there is none."""
    states = filter(None, (checkpoint.newest(directory), checkpoint.newest(directory, paths, _load)))
    return max(states, key=lambda state: state.step, default=None) or checkpoint.load_newest(directory)


def _load(path: Path) -> Checkpoint:
    """Returns a state to resume from. Raises InputError where it does not load, was written by another version, or has
    weights that are not finite."""
    start = checkpoint.load(path)
    if start.run.keys() - {"logs"} and start.run.get("format") != FORMAT:
        what = f"snapshot {path} has format {start.run.get('format', 1)}, but this zerogo resumes only format {FORMAT}"
        raise InputError(f"{what}; a checkpoint can be resumed from instead")
    if not start.trainer:
        what = f"checkpoint {path} holds only a network, so no run can be resumed from it"
        raise InputError(f"{what}; start a run with --from")
    if not is_finite([*start.weights.values(), *start.averaged_weights.values()]):
        raise InputError(f"checkpoint {path} has NaN or infinite weights")
    return start


def is_finite(tensors: Iterable[Tensor]) -> bool:
    """Returns whether all numbers are finite (waits for the device once)."""
    numbers = [tensor.detach() for tensor in tensors if tensor.is_floating_point()]
    return bool(torch.stack(torch._foreach_norm(numbers, math.inf)).isfinite().all())


def config_of(directory: Path, start: Checkpoint | None, overrides: list[str]) -> Config | None:
    """Returns the settings under which a run resumes: those of its start, over them those of its config.yaml, over them
    the overrides; None where there is neither. Warns of a config.yaml that was cut, and moves it away: the caller holds
    the run's lock. Raises InputError for a mistake in a whole one."""
    path = directory / "config.yaml"
    if start is None:
        return load(path, overrides, was_used=True) if path.exists() else None
    if not path.exists():
        return load(None, overrides, start.config)
    try:
        return load(path, overrides, start.config, was_used=True)
    except InputError as error:
        config = load(None, overrides, start.config)  # what is wrong with the overrides is no fault of the file
        if is_whole(path):
            saved = f"mend it, or remove the file to resume with the settings saved in {start.source}"
            raise InputError(f"{error}; {saved}") from None
        unread = path.with_name("config.yaml.unread")
        warnings.warn(f"{error}; using the settings saved in {start.source}; the file is now {unread}", stacklevel=2)
        if distributed.is_rank0():
            path.replace(unread)
        return config


def changes(old: Config, new: Config) -> list[str]:
    """Returns a line for each setting that has changed, except for the run's place."""
    before, now = old.flat(), new.flat()
    changed = [key for key in now if now[key] != before[key] and key not in ("run.directory", "run.name")]
    return [f"{key} is {now[key]}; it was {before[key]}" for key in changed]


def of_all_ranks(result: SelfPlayResult) -> SelfPlayResult:
    """Returns the results of all ranks joined; with several ranks, without `games`, which were written as SGF before.
    Collective call."""
    if distributed.world_size() == 1:
        return result
    # Thousands of small tensors would take a second to pickle.
    return join_results([_result_of(state) for state in distributed.all_gather_object(_state_of(result))])


def join_results(results: list[SelfPlayResult]) -> SelfPlayResult:
    """Returns the ranks' results joined, samples in the order of their games' numbers."""
    if len(results) == 1:
        return results[0]
    joined = {name: sum((getattr(one, name) for one in results[1:]), first) for name, first in vars(results[0]).items()}
    joined |= {"seconds": max(one.seconds for one in results), "is_complete": all(one.is_complete for one in results)}
    result = SelfPlayResult(**joined)
    if result.samples:
        samples = Samples.cat(result.samples)
        result.samples = [samples.select(samples.game.argsort(stable=True))]
    return result


def _state_of(result: SelfPlayResult) -> dict[str, Any]:
    """Returns the results of games as tensors and containers, without the games, which are written as SGF before."""
    samples = result.all_samples()
    # Tensors, as a checkpoint of a million plain values is refused: those of 200,000 games.
    of_games = {name: torch.from_numpy(np.array(getattr(result, name))) for name in OF_GAMES}
    records = [] if samples is None else [samples.records(), samples.board_size]
    return {"collected": vars(result) | {"samples": [], "games": []} | of_games, "records": records}


def _result_of(state: Mapping[str, Any]) -> SelfPlayResult:
    """Returns the results of `_state_of`."""
    kept = {name: one for name, one in state["collected"].items() if name != "is_whole"}  # an earlier name
    result = SelfPlayResult(**{name: one.tolist() if isinstance(one, Tensor) else one for name, one in kept.items()})
    result.samples = [Samples.of_records(*state["records"])] if state["records"] else []
    return result


@dataclass
class RunState:
    """What a run is besides its networks, optimiser, samples and games: the counters of its checkpoints.

    begun: when the run began [ns since 1970], which tells it from others. seconds: its time so far, by rank 0's clock.
    finished: games, with those of random players and of actors.
    last_checkpoint: the run's seconds at the newest checkpoint. last_match: the run's seconds at the start of the
    newest matches whose results are charted. saved: the steps of all checkpoints, removed ones too. players: the steps
    that the gate has let play (`matches.apply_gate`). external: the actors' shards that are in the replay and not yet
    removed. actors: the number of each actor's last shard in the replay."""

    begun: int = field(default_factory=time.time_ns)
    seconds: float = 0.0
    iterations: int = 0
    finished: int = 0
    simulations: int = 0
    last_checkpoint: float = 0.0
    last_match: float = 0.0
    saved: list[int] = field(default_factory=list)
    players: list[int] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    actors: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, counters: Mapping[str, Any]) -> "RunState":
        """Returns the state of a checkpoint's counters."""
        counters = {"finished": counters.get("games", 0), **counters}  # earlier versions counted begun games alone
        state = cls(**{entry.name: copy(counters[entry.name]) for entry in fields(cls) if entry.name in counters})
        state.actors = dict(state.actors)  # which earlier versions kept as pairs
        return state


@dataclass
class Iteration:
    """An unfinished iteration: the results of its games and its training steps so far.

    collected: the games' results; once the iteration learns, its num_samples samples are in the replay instead. ahead:
    those of games of the next iteration, which some ranks play while others learn.
    numbers: the charts' numbers by tag. first_step: the training step before the iteration. planned_steps: how many
    training steps it is to make. steps_before: how many the iteration before has made.
    sums, counts: sums of the steps' metrics, and of how many steps each. recent: the last batches. seconds: of
    learning."""

    collected: SelfPlayResult = field(default_factory=SelfPlayResult)
    ahead: SelfPlayResult = field(default_factory=SelfPlayResult)
    is_learning: bool = False
    num_samples: int = 0
    numbers: dict[str, float] = field(default_factory=dict)
    first_step: int = 0
    planned_steps: int = 0
    steps_before: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    recent: deque[TrainingBatch] = field(default_factory=lambda: deque(maxlen=STATISTICS_BATCHES))
    seconds: float = 0.0

    def note(self, batch: TrainingBatch, metrics: Mapping[str, Tensor]) -> None:
        """Adds the metrics of a training step."""
        self.recent.append(batch)
        if self.sums:  # which the first step, a measured one, has begun; one launch adds all of a step
            added = torch._foreach_add([self.sums[name] for name in metrics], list(metrics.values()))
            metrics = dict(zip(metrics, added, strict=True))
        self.sums |= metrics
        self.counts.update(metrics.keys())

    def means(self) -> dict[str, float]:
        """Returns the means of the steps' metrics, by tag; waits for the device."""
        totals = torch.stack(list(self.sums.values())).tolist() if self.sums else []
        return {f"train/{name}": total / self.counts[name] for name, total in zip(self.sums, totals, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        """Returns what a snapshot keeps."""
        state = vars(self) | _state_of(self.collected) | {"ahead": _state_of(self.ahead)}
        state["recent"] = [[batch.records, batch.symmetry, batch.board_size, batch.kinds] for batch in self.recent]
        return state

    @classmethod
    def of(cls, state: dict[str, Any], device: torch.device) -> "Iteration":
        """Returns the iteration of a snapshot, with its metrics on a device."""
        plain = ("is_learning", "num_samples", "numbers", "first_step", "planned_steps", "steps_before", "seconds")
        plain = {name: state[name] for name in plain}
        sums = {name: total.to(device) for name, total in state["sums"].items()}
        one = cls(_result_of(state), _result_of(state["ahead"]), sums=sums, counts=Counter(state["counts"]), **plain)
        one.recent.extend(TrainingBatch(*batch) for batch in state["recent"])
        return one
