"""From self-play to training. The ring buffer has the newest samples in memory, the window that grows by a power law,
the reuse of samples, and resuming; `samples` says what a sample is, `shards` has their files.

**Two numberings.** A sample has a number in the run, by which files are named, and one in the ring, which gives its
slot:

| sample | number in the run | number in the ring |
| --- | --- | --- |
| the oldest in memory | total - num_missing - len(self) | num_stored - len(self) |
| the oldest of the window | total - num_missing - window | num_stored - window |
| the first that no finished shard holds | num_in_shards | num_stored - (total - num_in_shards) |
| the next that is added | total | num_stored, to slot num_stored % capacity |

`total` counts the samples of the run, `num_stored` those that this process has put into the ring: fewer after a resume,
which reads only as many as the ring holds. `num_missing` counts samples between the oldest and the newest in memory
that were lost with damaged files. `num_drawn` counts samples drawn for training, `num_random` those of untrained
players.

**How samples survive.** Every `shard_samples` samples become a finished shard, whose name has the first number and the
count. The rest is in `state_dict`, which a snapshot of the run keeps after `flush`. `Replay(…, state=…)` restores
exactly what the snapshot held, and ignores later samples in files: these are played again and get the same numbers. The
next `after_snapshot` removes files that no snapshot needs. A damaged file is left out, with a warning."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zerogo.config import ReplayConfig
from zerogo.errors import InputError
from zerogo.replay import shards as files
from zerogo.replay.samples import Samples, TrainingBatch, record_layout, union
from zerogo.replay.shards import Shard
from zerogo.system import distributed
from zerogo.system.runtime import free_bytes
from zerogo.system.tensors import send

VALIDATION_SHARE = 0.05  # share of games that are never trained on
WINDOW_EXPONENT, WINDOW_SCALE = 0.65, 0.4  # a and b of `window` (KataGo)
_FIRST_ALLOCATION = 1024
_log = logging.getLogger(__name__)


def window(total: int, settings: ReplayConfig) -> int:
    """Returns from how many of the newest samples training draws, where N = `total` samples exist: all up to c =
    min_window, then c + b (N^a - c^a) / (a c^(a - 1)), at most the capacity."""
    c, a = settings.min_window, WINDOW_EXPONENT
    if total <= c:
        return total
    grown = c + WINDOW_SCALE * (total**a - c**a) / (a * c ** (a - 1))
    return min(total, settings.capacity, int(grown))


def is_held_out(game: Tensor) -> Tensor:
    """Returns whether a game is held out for validation, by its number alone: int64 [K] -> bool [K]."""
    mixed = (game * 0x9E3779B1) & 0xFFFFFFFF  # Fibonacci hashing spreads neighbouring numbers evenly
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 13)) < int(VALIDATION_SHARE * 2**32)


class Replay:
    """Samples in a ring buffer of at most `capacity`, with their files where a directory is given.

    Loads the directory's files, as far back as the window and the capacity reach, without samples that `state` (from
    `state_dict`) does not count. The caller holds the run's lock. Raises InputError for files of another board size.
    call: performs writes, for example with retries. writes: whether files are written, not only loaded. device: where
    samples lie and batches are drawn; the draws are the same on every device.

    total, num_drawn, num_random: see the module. credit: samples that training may still draw: each new sample earns
    `reuse`, and unused credit is kept up to `reuse` times the window. last_game: largest game number so far, -1 for
    none. All draws come from one generator with the given seed (validation from another), whose states are saved."""

    def __init__(
        self,
        settings: ReplayConfig,
        board_size: int,
        directory: str | Path | None = None,
        seed: int = 0,
        *,
        state: dict[str, Any] | None = None,
        device: torch.device | str = "cpu",
        call: Callable[..., Any] = lambda work, *arguments: work(*arguments),
        writes: bool = True,
    ) -> None:
        self.settings, self.board_size = settings, board_size
        self._files = None if directory is None else files.ShardFolder(directory, call)
        self.total = self.num_drawn = self.num_random = 0
        self.last_game = -1
        self._shard_samples = min(settings.shard_samples, settings.capacity)
        self._num_in_shards = self._num_stored = self._num_missing = 0
        # Records; the other columns are on the host. On a GPU the ring is allocated at once: growing would take half as
        # much memory again, and other parts of a run fill what is left.
        allocation = settings.capacity if torch.device(device).type != "cpu" else 0
        self._ring = torch.empty((allocation, record_layout(board_size)[1]), dtype=torch.int64, device=device)
        # On the host, by slot.
        dtypes = {"kinds": torch.uint8, "network_step": torch.int64, "is_learned": torch.bool}
        self._columns = {name: torch.empty(0, dtype=dtype) for name, dtype in dtypes.items()}
        # The numbers of held-out and of other samples in memory, ascending, in chunks.
        self._numbers = {is_held: [torch.empty(0, dtype=torch.int64)] for is_held in (True, False)}
        self._generator = torch.Generator().manual_seed(seed)
        self._validation_generator = torch.Generator().manual_seed(seed + 1)
        if self._files is not None:
            self._load(math.inf if state is None else state["total"] - len(state.get("pending", ())))
        self.credit = self._most_credit(settings.reuse * self.total)
        if state is not None:
            self.take_over(state)
        self._files = self._files if writes else None

    def __len__(self) -> int:
        """Returns the number of samples in memory."""
        return min(self._num_stored, self.settings.capacity)

    # Adding

    def add(self, samples: Samples) -> None:
        """Adds K samples, oldest first; writes full shards, and removes those that left the window."""
        sides = f"samples of side {samples.board_size} into a replay of side {self.board_size}"
        assert samples.board_size == self.board_size, sides
        records, start = samples.records().cpu(), 0
        while start < len(samples):
            end = min(len(samples), start + max(0, self._shard_samples - (self.total - self._num_in_shards)))
            self._put(records[start:end])
            if self.total - self._num_in_shards >= self._shard_samples:
                first, self._num_in_shards = self._num_in_shards, self.total
                if self._files is not None:
                    self._files.write(first, self.newest(self.total - first))
            start = end
        self.credit = self._most_credit(self.credit + self.settings.reuse * len(samples))

    def _put(self, records: Tensor) -> None:
        """Writes samples, at most `capacity`, into the ring, which grows first if it may, and counts them."""
        samples, capacity = Samples.of_records(records, self.board_size), self.settings.capacity
        needed, allocated = min(capacity, self._num_stored + len(samples)), len(self._columns["kinds"])
        if needed > allocated:
            self._grow(min(capacity, max(needed, 2 * allocated, _FIRST_ALLOCATION)))
        numbers = torch.arange(self._num_stored, self._num_stored + len(samples))
        slots, is_held = numbers % capacity, is_held_out(samples.game)
        self._ring[send(slots, self._ring.device)] = send(records, self._ring.device)  # index_copy_ copies row by row
        self._columns["kinds"][slots] = samples.kinds()
        self._columns["network_step"][slots] = samples.network_step.clamp(min=0)
        self._columns["is_learned"][slots] = samples.policy_weight > 0
        self._numbers[True].append(numbers[is_held])
        self._numbers[False].append(numbers[~is_held])
        self._num_stored += len(samples)
        self.total += len(samples)
        self.num_random += int((samples.network_step <= 0).sum())
        if len(samples):
            self.last_game = max(self.last_game, int(samples.game.max()))

    def _grow(self, allocation: int) -> None:
        """Enlarges the ring. It is never full while it grows, so samples keep their slots."""

        def _grown(tensor: Tensor) -> Tensor:
            larger = tensor.new_empty((allocation, *tensor.shape[1:]))
            larger[: len(tensor)] = tensor
            return larger

        self._ring = _grown(self._ring) if len(self._ring) < allocation else self._ring
        self._columns = {name: _grown(column) for name, column in self._columns.items()}

    # Drawing

    @property
    def window(self) -> int:
        """The number of newest samples to draw from. Of the samples of untrained players, at most min_window count
        towards its growth."""
        counted = self.total - max(0, self.num_random - self.settings.min_window)
        return min(len(self), window(counted, self.settings))

    @property
    def newest_step(self) -> int:
        """The training step of the newest network that played a sample of the window, 0 if none was trained."""
        return max((int(steps.max()) for steps in self._in_window("network_step") if len(steps)), default=0)

    def can_sample(self, batch: int) -> bool:
        """Returns whether there are samples, and credit for a batch."""
        return self.credit >= batch and len(self._window_numbers(held_out=False)) > 0

    def sample_batch(self, batch: int) -> TrainingBatch:
        """Returns a batch drawn uniformly, with replacement, from the window's games that are not held out, and spends
        its credit. Each rank that learns gets its share of the same batch; the others may not call it.

        Requires `can_sample(batch)`. Draws twice from the generator: the samples, then their symmetries."""
        assert self.can_sample(batch), f"a batch of {batch} with a credit of {self.credit:.0f}; ask can_sample first"
        self.credit -= batch
        self.num_drawn += batch
        return self._draw(batch, self._window_numbers(held_out=False), self._generator)

    def validation_batch(self, batch: int) -> TrainingBatch | None:
        """Returns a batch of the window's held-out games, None while none has a policy target. Costs no credit."""
        numbers = self._window_numbers(held_out=True)
        is_learned = self._columns["is_learned"][numbers % self.settings.capacity]
        return self._draw(batch, numbers, self._validation_generator) if is_learned.any() else None

    def _draw(self, batch: int, numbers: Tensor, generator: torch.Generator) -> TrainingBatch:
        index = numbers[torch.randint(len(numbers), (batch,), generator=generator)] % self.settings.capacity
        symmetry = torch.randint(8, (batch,), generator=generator)
        kinds = union(self._columns["kinds"][index])
        learners = distributed.num_learners()
        index, symmetry = distributed.local_shard(index, learners), distributed.local_shard(symmetry, learners)
        return TrainingBatch(self._records(index), send(symmetry, self._ring.device), self.board_size, kinds)

    def _records(self, slots: Tensor) -> Tensor:
        return self._ring.index_select(0, send(slots, self._ring.device))

    def newest(self, number: int) -> Samples:
        """Returns up to `number` of the newest samples, oldest first, on the host."""
        return Samples.of_records(self._records(self._newest(min(number, len(self)))), self.board_size).packed()

    def _newest(self, number: int) -> Tensor:
        """Returns the slots of the newest samples, oldest first: int64 [number]."""
        return torch.arange(self._num_stored - number, self._num_stored) % self.settings.capacity

    def _window_numbers(self, held_out: bool) -> Tensor:
        """Returns the numbers of the window's held-out or other samples, ascending: int64. Sample i lies in slot i %
        capacity."""
        pieces = self._numbers[held_out]
        if len(pieces) > 1:
            numbers = torch.cat(pieces)
            pieces[:] = [numbers[torch.searchsorted(numbers, self._num_stored - len(self)) :]]
        return pieces[0][torch.searchsorted(pieces[0], self._num_stored - self.window) :]

    def _in_window(self, name: str) -> list[Tensor]:
        """Returns views of a column that hold the window's samples, oldest first."""
        column, end, size = self._columns[name], self._num_stored % self.settings.capacity, self.window
        return [column[len(column) - max(0, size - end) :], column[max(0, end - size) : end]]

    def statistics(self, network_step: int) -> dict[str, float]:
        """Returns figures for charts: sizes in samples, mean age in steps behind `network_step`, reuse, shares."""
        size = max(1, self.window)
        made_at = sum(int(steps.sum()) for steps in self._in_window("network_step"))
        return {
            "samples": float(self.total),
            "in_memory": float(len(self)),
            "window": float(self.window),
            "credit": self.credit,
            "reuse": self.num_drawn / max(1, self.total),
            "age_steps": float(network_step * self.window - made_at) / size,
            "validation_share": len(self._window_numbers(held_out=True)) / size,
            "learned_share": sum(int(learned.sum()) for learned in self._in_window("is_learned")) / size,
            "memory_bytes": float(self._ring.nbytes),
        }

    def _most_credit(self, credit: float) -> float:
        return min(credit, self.settings.reuse * self.window)

    # Files

    def flush(self) -> None:
        """Waits until all finished shards are written, or raises the error of one. Called before a snapshot."""
        if self._files is not None:
            self._files.flush()

    def after_snapshot(self) -> None:
        """Removes the files that neither of the two newest snapshots, including the one just written, needs."""
        if self._files is not None:
            self._files.after_snapshot(self.total - self.window - self._num_missing - self.settings.archive_samples)

    def close(self) -> None:
        """Waits until the files are written; raises no errors (`flush` does)."""
        if self._files is not None:
            self._files.close()

    def _load(self, limit: float) -> None:
        """Loads the samples with numbers below `limit`."""
        assert self._files is not None
        shards, end = self._files.usable(limit)
        total = int(min(max((shard.end for shard in shards), default=0), limit))
        needed = [shard for shard in shards if shard.end > total - self.settings.capacity]
        loaded = [self._load_one(shard, total) for shard in needed]
        # Unwritten samples must be in memory, but may not be after damage, or if the capacity was lowered.
        self._num_in_shards = max(end, total - len(self)) if not loaded or loaded[-1] else total
        self.total = total
        self._num_missing = max(0, total - needed[0].first - self._num_stored) if needed else 0
        if total < limit < math.inf:
            self.total = self._num_in_shards = int(limit)
            self._num_missing += int(limit) - total
        if self._num_missing:
            _log.warning("%d samples of the run are missing in %s", self._num_missing, self._files.directory)

    def _load_one(self, shard: Shard, limit: int) -> bool:
        """Puts one file's samples with numbers below `limit` into the ring; warns and returns False if the file can't
        be read."""
        try:
            samples = files.load_shard(shard.path)
            if len(samples) != shard.count:
                raise InputError(f"replay shard {shard.path} holds {len(samples)} samples; its name says {shard.count}")
        except InputError as error:
            _log.warning("left out, the rest is kept: %s", error)
            return False
        if samples.board_size != self.board_size:
            sides = f"of side {samples.board_size}; this run's have side {self.board_size}"
            raise InputError(f"replay shard {shard.path} holds samples {sides}")
        self._count_all(samples.records()[: limit - shard.first])
        return True

    def _count_all(self, records: Tensor) -> None:
        for part in records.split(self.settings.capacity):
            self._put(part)

    # Resuming

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a snapshot: counters, credit, generators (uint8), and the samples that no finished
        shard holds."""
        return self.counters() | {"pending": self._records(self._newest(self.total - self._num_in_shards)).cpu()}

    def counters(self) -> dict[str, Any]:
        """Returns the state without samples, which ranks that draw no batches take over."""
        state = {"total": self.total, "taken": self.num_drawn, "num_random": self.num_random}
        state |= {"last_game": self.last_game, "credit": float(self.credit), "generator": self._generator.get_state()}
        return state | {"validation_generator": self._validation_generator.get_state()}

    def take_over(self, state: dict[str, Any]) -> None:
        """Restores a state, after its finished shards were loaded, or that of another rank with the same samples."""
        self._count_all(state.get("pending", self._ring[:0].cpu()))
        self._num_in_shards = max(self._num_in_shards, self.total - len(self))  # if the capacity was lowered
        self.num_drawn, self.num_random, self.last_game = state["taken"], state["num_random"], state["last_game"]
        self._generator.set_state(state["generator"].cpu())
        self._validation_generator.set_state(state["validation_generator"].cpu())
        self.credit = self._most_credit(state["credit"])
        for held_out in (True, False):
            self._window_numbers(held_out)  # so that those of a rank that draws no batches do not pile up

    def reseed(self, seed: int) -> None:
        """Reseeds the draws of batches, because the next batches led to a divergence."""
        self._generator.manual_seed(seed)


def device_for(settings: ReplayConfig, board_size: int, device: torch.device) -> torch.device:
    """Returns the device for a ring: the GPU if the ring takes at most a quarter of its free memory, so that batches
    are drawn there; else the host."""
    needed = settings.capacity * record_layout(board_size)[1] * torch.int64.itemsize
    fits = device.type == "cuda" and 4 * needed <= (free_bytes(device) or 0)
    return device if fits else torch.device("cpu")
