"""The ring buffer: the newest samples in memory, the window that grows by a power law, the governed ratio, and
resuming.

**Two numberings.** A sample has a number in the run, which names files, and one in the ring, which names its slot:

| sample | number in the run | number in the ring |
| --- | --- | --- |
| the oldest in memory | total - num_missing - len(self) | num_stored - len(self) |
| the oldest of the window | total - num_missing - window | num_stored - window |
| the first that no finished shard holds | num_in_shards | num_stored - (total - num_in_shards) |
| the next that is added | total | num_stored, to slot num_stored % capacity |

`total` counts the samples of the run, `num_stored` those that this process has put into the ring: fewer after a resume,
which reads only as many as the ring holds. `num_missing` were lost on the way from the oldest in memory to the newest,
with damaged files. `num_drawn` counts samples that training drew, `num_random` those of players that had not learned.

**How samples survive.** Whenever `shard_samples` of them are together they become a finished shard, whose name says the
first number and the count. The rest is in `state_dict`, which a snapshot of the run keeps after `flush`. `Replay(…,
state=…)` restores exactly what the snapshot held: of the files only the samples that the state counts.
Samples that were finished later are played again, and get the same names. The next `after_snapshot` removes files that
no snapshot needs. A damaged file is left out with a warning that names it; all others are kept."""

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
from zerogo.system.tensors import sent

VALIDATION_SHARE = 0.05  # share of games that are never learned from, only measured on
WINDOW_EXPONENT, WINDOW_SCALE = 0.65, 0.4  # a and b of the window's law, from KataGo
_FIRST_ALLOCATION = 1024
_log = logging.getLogger(__name__)


def window(total: int, settings: ReplayConfig) -> int:
    """Returns how many of the newest samples training draws from after `total` samples: c + b (N^a - c^a) / (a c^(a -
    1)), at most the capacity. c is min_window; up to c samples all of them."""
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

    What the directory's files hold is loaded, as far back as the window and the capacity reach, and no further than
    `state` counts, what `state_dict` returned; the caller holds the run's lock. Raises InputError where they are of
    another board size. call: does what writes, for example again and again.

    total, num_drawn, num_random: see the module. credit: samples that training may still draw: each new sample earns
    `reuse`, and what is not used is kept up to `reuse` times the window. last_game: largest number of a game seen, -1
    for none. All draws come from one generator of the given seed (validation from another),
    whose states are saved. writes: whether files are written, not only loaded. device: where the samples lie and
    batches are drawn; the draws are the same everywhere."""

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
        self.settings = settings
        self.board_size = board_size
        self._files = None if directory is None else files.ShardFolder(directory, call)
        self.total = self.num_drawn = self.num_random = 0
        self.last_game = -1
        self._shard_samples = min(settings.shard_samples, settings.capacity)
        self._num_in_shards = self._num_stored = self._num_missing = 0
        # Records; what else there is of each sample is on the host. A GPU's memory is taken at once: growing would take
        # half as much again, and other parts of a run fill what is left.
        allocation = settings.capacity if torch.device(device).type != "cpu" else 0
        self._ring = torch.empty((allocation, record_layout(board_size)[1]), dtype=torch.int64, device=device)
        # On the host, by slot; policy_time: how many samples there were when a policy was found.
        dtypes = {"kinds": torch.uint8, "policy_time": torch.int64, "network_step": torch.int64}
        dtypes |= {"is_learned": torch.bool, "is_reanalysed": torch.bool}
        self._columns = {name: torch.empty(0, dtype=dtype) for name, dtype in dtypes.items()}
        # The numbers of held-out and of other samples in memory, ascending, in pieces.
        self._numbers = {is_held: [torch.empty(0, dtype=torch.int64)] for is_held in (True, False)}
        self._generator = torch.Generator().manual_seed(seed)
        self._validation_generator = torch.Generator().manual_seed(seed + 1)
        if self._files is not None:
            self._load(math.inf if state is None else state["total"] - len(state.get("pending", ())))
        self.credit = self._most_credit(settings.reuse * self.total)
        if state is not None:
            self._take_over(state)
        self._files = self._files if writes else None

    def __len__(self) -> int:
        """Samples in memory."""
        return min(self._num_stored, self.settings.capacity)

    # Adding

    def add(self, samples: Samples) -> None:
        """Adds K samples, oldest first; writes the shards that are full then, removes those that left the window."""
        sides = f"samples of side {samples.board_size} into a replay of side {self.board_size}"
        assert samples.board_size == self.board_size, sides
        records, start = samples.records().cpu(), 0
        while start < len(samples):
            end = min(len(samples), start + max(0, self._shard_samples - (self.total - self._num_in_shards)))
            self._count(records[start:end])
            if self.total - self._num_in_shards >= self._shard_samples:
                self._finish_shard()
            start = end
        self.credit = self._most_credit(self.credit + self.settings.reuse * len(samples))

    def _count(self, records: Tensor) -> None:
        samples = Samples.of_records(records, self.board_size)
        self._put(records, samples)
        self.total += len(samples)
        self.num_random += int((samples.network_step <= 0).sum())

    def _put(self, records: Tensor, samples: Samples) -> None:
        """Writes samples, at most `capacity`, into the ring, which first grows as long as it may."""
        capacity = self.settings.capacity
        needed, allocated = min(capacity, self._num_stored + len(samples)), len(self._columns["kinds"])
        if needed > allocated:
            self._grow(min(capacity, max(needed, 2 * allocated, _FIRST_ALLOCATION)))
        numbers = torch.arange(self._num_stored, self._num_stored + len(samples))
        slots, is_held = numbers % capacity, is_held_out(samples.game)
        self._ring[sent(slots, self._ring.device)] = sent(records, self._ring.device)  # index_copy_ would go row by row
        of_samples = {"kinds": samples.kinds(), "network_step": samples.network_step.clamp(min=0)}
        of_samples |= {"is_learned": samples.policy_weight > 0, "policy_time": self.total, "is_reanalysed": False}
        for name, values in of_samples.items():
            self._columns[name][slots] = values
        self._numbers[True].append(numbers[is_held])
        self._numbers[False].append(numbers[~is_held])
        self._num_stored += len(samples)
        if len(samples):
            self.last_game = max(self.last_game, int(samples.game.max()))

    def _grow(self, allocation: int) -> None:
        """The ring is never full while it grows, so samples keep their slots."""

        def _grown(tensor: Tensor) -> Tensor:
            larger = tensor.new_empty((allocation, *tensor.shape[1:]))
            larger[: len(tensor)] = tensor
            return larger

        self._ring = _grown(self._ring) if len(self._ring) < allocation else self._ring
        self._columns = {name: _grown(column) for name, column in self._columns.items()}

    # Drawing

    @property
    def window(self) -> int:
        """Newest samples that are drawn from; samples of players that have not learned enlarge the window as if there
        were at most min_window of them."""
        counted = self.total - max(0, self.num_random - self.settings.min_window)
        return min(len(self), window(counted, self.settings))

    @property
    def newest_step(self) -> int:
        """The training step of the youngest network that played a sample of the window, 0 where none has learned."""
        return max((int(steps.max()) for steps in self._in_window("network_step") if len(steps)), default=0)

    def can_sample(self, batch: int) -> bool:
        """Returns whether there's credit for a batch, and anything to draw."""
        return self.credit >= batch and len(self._window_numbers(held=False)) > 0

    def sample_batch(self, batch: int) -> TrainingBatch:
        """Returns a batch drawn uniformly, with replacement, from the window's games that are not held out, and spends
        its credit. Each rank gets its share of the same batch.

        Only where `can_sample(batch)`. Uses the generator twice: the samples, then their symmetries."""
        assert self.can_sample(batch), f"a batch of {batch} with a credit of {self.credit:.0f}; ask can_sample first"
        self.credit -= batch
        self.num_drawn += batch
        return self._draw(batch, self._window_numbers(held=False), self._generator)

    def validation_batch(self, batch: int) -> TrainingBatch | None:
        """Returns a batch of the window's held-out games, None while none of them teaches a policy. Costs no credit."""
        numbers = self._window_numbers(held=True)
        is_learned = self._columns["is_learned"][numbers % self.settings.capacity]
        return self._draw(batch, numbers, self._validation_generator) if is_learned.any() else None

    def _draw(self, batch: int, numbers: Tensor, generator: torch.Generator) -> TrainingBatch:
        index = numbers[torch.randint(len(numbers), (batch,), generator=generator)] % self.settings.capacity
        symmetry = torch.randint(8, (batch,), generator=generator)
        kinds = union(self._columns["kinds"][index])
        index, symmetry = distributed.local_shard(index), distributed.local_shard(symmetry)
        return TrainingBatch(self._records(index), sent(symmetry, self._ring.device), self.board_size, kinds)

    def _records(self, slots: Tensor) -> Tensor:
        return self._ring.index_select(0, sent(slots, self._ring.device))

    def read(self, slots: Tensor) -> Samples:
        """Returns the samples in some slots of the ring, where the ring lies: int64 [K] on the host."""
        return Samples.of_records(self._records(slots), self.board_size)

    def newest(self, number: int) -> Samples:
        """Returns the newest samples, at most as many as there are, oldest first, on the host."""
        return self.read(self._newest(min(number, len(self)))).packed()

    def _column(self, name: str, slots: Tensor) -> Tensor:
        """Returns one field of the samples in some slots, on the host."""
        ring = getattr(Samples.of_records(self._ring, self.board_size), name)
        return ring[sent(slots, ring.device)].cpu()

    def oldest_policies(self, number: int) -> Tensor:
        """Returns the slots of up to `number` samples that are learned from, those with the oldest policies: int64."""
        slots = self._window_numbers(held=False) % self.settings.capacity
        slots = slots[self._columns["is_learned"][slots]]
        return slots[self._columns["policy_time"][slots].argsort(stable=True)[:number]]

    def update_policies(self, slots: Tensor, policy: Tensor, root_value: Tensor) -> None:
        """Replaces policies and root values by those of newer searches: int64 [K], float32 [K, A], float32 [K]."""
        ring, here = Samples.of_records(self._ring, self.board_size), sent(slots, self._ring.device)
        ring.policy[here] = sent(policy, here.device).to(ring.policy.dtype)
        ring.root_value[here] = sent(root_value, here.device)
        self._columns["policy_time"][slots], self._columns["is_reanalysed"][slots] = self.total, True

    def _newest(self, number: int) -> Tensor:
        """Returns the slots of the newest samples, oldest first: int64 [number]."""
        return torch.arange(self._num_stored - number, self._num_stored) % self.settings.capacity

    def _window_numbers(self, held: bool) -> Tensor:
        """Returns the numbers of the window's held-out or of its other samples, ascending: int64; sample i lies in slot
        i % capacity."""
        pieces = self._numbers[held]
        if len(pieces) > 1:
            numbers = torch.cat(pieces)
            pieces[:] = [numbers[torch.searchsorted(numbers, self._num_stored - len(self)) :]]
        return pieces[0][torch.searchsorted(pieces[0], self._num_stored - self.window) :]

    def _in_window(self, name: str) -> list[Tensor]:
        """Returns views of a column that hold the window's samples, oldest first."""
        column, end, size = self._columns[name], self._num_stored % self.settings.capacity, self.window
        return [column[len(column) - max(0, size - end) :], column[max(0, end - size) : end]]

    def statistics(self, network_step: int) -> dict[str, float]:
        """Returns figures of the buffer: sizes in samples, mean age in steps behind `network_step`, reuse, shares."""
        size = max(1, self.window)
        made_at = sum(int(steps.sum()) for steps in self._in_window("network_step"))
        return {
            "samples": float(self.total),
            "held": float(len(self)),
            "window": float(self.window),
            "credit": self.credit,
            "reuse": self.num_drawn / max(1, self.total),
            "age_steps": float(network_step * self.window - made_at) / size,
            "validation_share": len(self._window_numbers(held=True)) / size,
            "learned_share": sum(int(learned.sum()) for learned in self._in_window("is_learned")) / size,
            "memory_bytes": float(self._ring.nbytes),
        }

    def _most_credit(self, credit: float) -> float:
        return min(credit, self.settings.reuse * self.window)

    # Files

    def flush(self) -> None:
        """Waits until all finished shards are written; raises what kept one from it. Called before a snapshot."""
        if self._files is not None:
            self._files.flush()

    def after_snapshot(self) -> None:
        """Removes the files that neither of the two newest snapshots needs, the one just written among them."""
        if self._files is not None:
            edge, more = self.total - self.window - self._num_missing, self.settings.archive_samples
            self._files.after_snapshot((edge - (more or edge)) if self.settings.keep_shards else edge)

    def close(self) -> None:
        """Waits until the files are written; errors are not raised, see `flush`."""
        if self._files is not None:
            self._files.close()

    def _finish_shard(self) -> None:
        first, self._num_in_shards = self._num_in_shards, self.total
        if self._files is not None:
            self._files.write(first, self.newest(self.total - first))

    def _load(self, limit: float) -> None:
        """Loads the samples with numbers below `limit`."""
        assert self._files is not None
        shards, end = self._files.usable(limit)
        total = int(min(max((shard.end for shard in shards), default=0), limit))
        needed = [shard for shard in shards if shard.end > total - self.settings.capacity]
        loaded = [self._load_one(shard, total) for shard in needed]
        # Unwritten samples must be in memory: not so after damage, or where the capacity was lowered.
        self._num_in_shards = max(end, total - len(self)) if not loaded or loaded[-1] else total
        self.total = total
        self._num_missing = max(0, total - needed[0].first - self._num_stored) if needed else 0
        if total < limit < math.inf:
            self.total = self._num_in_shards = int(limit)
            self._num_missing += int(limit) - total
        if self._num_missing:
            _log.warning("%d samples of the run are missing in %s", self._num_missing, self._files.directory)

    def _load_one(self, shard: Shard, limit: int) -> bool:
        """Puts one file's samples below a number into the ring; returns False, with a warning, where it can't be
        read."""
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
            self._count(part)

    # Resuming

    def state_dict(self) -> dict[str, Any]:
        """Returns what a snapshot keeps: counters, credit, generators (uint8), and what is in no finished shard:
        samples, and policies that were found anew."""
        state = {"total": self.total, "taken": self.num_drawn, "num_random": self.num_random}
        state |= {"last_game": self.last_game, "credit": float(self.credit), "generator": self._generator.get_state()}
        state["validation_generator"] = self._validation_generator.get_state()
        if self._files is not None:
            state["pending"] = self._records(self._newest(self.total - self._num_in_shards)).cpu()
        is_new = self._columns["is_reanalysed"]
        slots = self._newest(len(self) if bool(is_new.any()) else 0)  # which is slow for millions of samples
        if len(places := is_new[slots].nonzero().squeeze(1)):
            state["policies"] = {name: self._column(name, slots[places]) for name in ("policy", "root_value")}
            state["policies"] |= {"time": self._columns["policy_time"][slots], "age": len(self) - places}
        return state

    def _take_over(self, state: dict[str, Any]) -> None:
        """Restores a state after its finished shards were loaded."""
        self._count_all(state.get("pending", self._ring[:0].cpu()))
        self._num_in_shards = max(self._num_in_shards, self.total - len(self))  # where the capacity was lowered
        self.num_drawn, self.num_random, self.last_game = state["taken"], state["num_random"], state["last_game"]
        self._generator.set_state(state["generator"].cpu())
        self._validation_generator.set_state(state["validation_generator"].cpu())
        if "policies" in state:
            policy, value, age, when = (state["policies"][name] for name in ("policy", "root_value", "age", "time"))
            is_there = age <= len(self)  # 1 is the newest sample; a smaller capacity holds fewer
            slots = (self._num_stored - age[is_there]) % self.settings.capacity
            self.update_policies(slots, policy[is_there], value[is_there])
            when = when[-len(self) :]
            self._columns["policy_time"][self._newest(len(when))] = when
        self.credit = self._most_credit(state["credit"])

    def redraw(self, seed: int) -> None:
        """Seeds the draws of batches anew, as the batches that would have come next led to a divergence."""
        self._generator.manual_seed(seed)


def device_for(settings: ReplayConfig, board_size: int, device: torch.device) -> torch.device:
    """Returns where a ring is to lie: in a GPU's memory where it takes at most a quarter of what is free, so that
    batches are drawn there; else on the host."""
    needed = settings.capacity * record_layout(board_size)[1] * torch.int64.itemsize
    fits = device.type == "cuda" and 4 * needed <= (free_bytes(device) or 0)
    return device if fits else torch.device("cpu")
