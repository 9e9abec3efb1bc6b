"""The ring buffer: the newest samples in memory, the window that grows by a power law, the governed ratio, and
resuming.

**How samples are numbered and survive.** Samples are numbered through the run in the order in which they are added.
Whenever `shard_samples` of them are together they become a finished shard, whose name says the first number and the
count. `flush()`, called before a checkpoint is saved, writes the rest to an open shard (the one before it is removed
only after that). After a kill at any moment `Replay(…, resume=True)` loads everything in these files, also what is
newer than the checkpoint: those games were played and count once. `load_state_dict` then gives the checkpoint's
counters what these newer samples earn. Self-play must number its next games after `last_game`, so that a game that was
lost half way or saved after the checkpoint never comes a second time under the same number. A file that is damaged is
left out with a warning that names it; all others are kept, and numbers go on after it."""

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zerogo.config import ReplayConfig
from zerogo.errors import InputError
from zerogo.replay.samples import Samples, Shard, TrainingBatch, find_shards, layout, load_shard, save_shard, shard_path
from zerogo.runtime import make_directory, remove_leftovers

VALIDATION_SHARE = 0.05  # share of games that are never learned from, only measured on
_FIRST_ALLOCATION = 1024
_log = logging.getLogger(__name__)


def window(total: int, settings: ReplayConfig) -> int:
    """Returns how many of the newest samples training draws from after `total` samples: c + b (N^a - c^a) / (a c^(a -
    1)).

    At most the capacity. c is min_window, a exponent, b scale (KataGo's law, METHODS 2.7); up to c samples all of them.
    """
    c, a = settings.min_window, settings.exponent
    if total <= c:
        return total
    grown = c + settings.scale * (total**a - c**a) / (a * c ** (a - 1))
    return min(total, settings.capacity, int(grown))


def is_held_out(game: Tensor) -> Tensor:
    """Returns whether a game is held out for validation, by its number alone: int64 [K] -> bool [K]."""
    mixed = (game * 0x9E3779B1) & 0xFFFFFFFF  # Fibonacci hashing spreads neighbouring numbers evenly
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 13)) < int(VALIDATION_SHARE * 2**32)


class Replay:
    """Samples in a ring buffer of at most `capacity`, with their files where a directory is given.

    With `resume`, what the directory's files hold is loaded, as far back as the window and the capacity reach; the
    caller holds the run's lock. Raises InputError where they are of another board size, or there without `resume`.

    total: samples added in the run. taken: samples that training drew. credit: samples that training may still draw:
    each new sample earns `reuse`, and what is not used is kept up to `reuse` times the window. last_game: largest
    number of a game seen, -1 for none. All draws come from one generator of the given seed (validation from another),
    whose states are saved."""

    def __init__(
        self,
        settings: ReplayConfig,
        board_size: int,
        directory: str | Path | None = None,
        seed: int = 0,
        *,
        resume: bool = False,
    ) -> None:
        self.settings = settings
        self.board_size = board_size
        self.directory = None if directory is None else make_directory(directory)
        self.total = self.taken = self.num_random = 0
        self.last_game = -1
        self._shard_samples = min(settings.shard_samples, settings.capacity)
        self._written = 0  # number of the first sample that is in no finished shard
        self._stored = 0  # samples ever put into the ring; sample i of them lies in slot i % capacity
        self._missing = 0  # numbers between the oldest and the newest in memory that damaged or lost files took along
        kinds = layout(board_size).items()
        self._ring = Samples(**{name: torch.empty((0, *shape), dtype=dtype) for name, (dtype, shape) in kinds})
        self._held = torch.empty(0, dtype=torch.bool)
        self._policy_time = torch.empty(0, dtype=torch.int64)  # samples there were when a policy was found
        self._slots: dict[bool, Tensor] | None = None
        self._generator = torch.Generator().manual_seed(seed)
        self._validation_generator = torch.Generator().manual_seed(seed + 1)
        if self.directory is not None:
            shards = find_shards(self.directory)
            if shards and not resume:
                holds = "already holds replay shards; resume that run or choose an empty directory"
                raise InputError(f"{self.directory} {holds}")
            remove_leftovers(self.directory)
            self._load(shards)
        self.credit = self._most_credit(settings.reuse * self.total)

    def __len__(self) -> int:
        """Samples in memory."""
        return min(self._stored, self.settings.capacity)

    # Adding

    def add(self, samples: Samples) -> None:
        """Adds K samples, oldest first; writes the shards that are full then, removes those that left the window."""
        sides = f"samples of side {samples.board_size} into a replay of side {self.board_size}"
        assert samples.board_size == self.board_size, sides
        samples = samples.packed()
        start = 0
        while start < len(samples):
            end = min(len(samples), start + max(1, self._shard_samples - (self.total - self._written)))
            self._count(samples, start, end)
            if self.total - self._written >= self._shard_samples:
                self._finish_shard()
            start = end
        self.credit = self._most_credit(self.credit + self.settings.reuse * len(samples))

    def _count(self, samples: Samples, start: int, end: int) -> None:
        samples = samples.map(lambda tensor: tensor[start:end])
        self._put(samples)
        self.total += len(samples)
        self.num_random += int((samples.network_step <= 0).sum())

    def _put(self, samples: Samples) -> None:
        """Writes samples, at most `capacity`, into the ring, which first grows as long as it may."""
        capacity = self.settings.capacity
        needed, allocated = min(capacity, self._stored + len(samples)), len(self._ring)
        if needed > allocated:
            self._grow(min(capacity, max(needed, 2 * allocated, _FIRST_ALLOCATION)))
        slots = torch.arange(self._stored, self._stored + len(samples)) % capacity
        for ring, tensor in zip(self._ring.tensors(), samples.tensors(), strict=True):
            ring[slots] = tensor  # index_copy_ would go row by row
        self._held[slots] = is_held_out(samples.game)
        self._policy_time[slots] = self.total
        self._stored += len(samples)
        if len(samples):
            self.last_game = max(self.last_game, int(samples.game.max()))
        self._slots = None

    def _grow(self, allocation: int) -> None:
        """The ring is never full while it grows, so samples keep their slots."""

        def grown(tensor: Tensor) -> Tensor:
            larger = tensor.new_empty((allocation, *tensor.shape[1:]))
            larger[: len(tensor)] = tensor
            return larger

        self._ring, self._held, self._policy_time = self._ring.map(grown), grown(self._held), grown(self._policy_time)

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
        return int(self._ring.network_step[self._newest(self.window)].max()) if len(self) else 0

    def can_take(self, batch: int) -> bool:
        """Returns whether there's credit for a batch, and anything to draw."""
        return self.credit >= batch and len(self._slots_of(held=False)) > 0

    def take(self, batch: int) -> TrainingBatch:
        """Returns a batch drawn uniformly, with replacement, from the window's games that are not held out, and spends
        its credit.

        Only where `can_take(batch)`. Uses the generator twice: the samples, then their symmetries."""
        assert self.can_take(batch), f"a batch of {batch} with a credit of {self.credit:.0f}; ask can_take first"
        self.credit -= batch
        self.taken += batch
        return self._draw(batch, self._slots_of(held=False), self._generator)

    def validation_batch(self, batch: int) -> TrainingBatch | None:
        """Returns a batch drawn from the window's held-out games, or None where there are none yet. Costs no credit."""
        slots = self._slots_of(held=True)
        return self._draw(batch, slots, self._validation_generator) if len(slots) else None

    def _draw(self, batch: int, slots: Tensor, generator: torch.Generator) -> TrainingBatch:
        index = slots[torch.randint(len(slots), (batch,), generator=generator)]
        symmetry = torch.randint(8, (batch,), generator=generator)
        return TrainingBatch.of(self.read(index), symmetry)

    def read(self, slots: Tensor) -> Samples:
        """Returns the samples in some slots of the ring: int64 [K]."""
        return self._ring.map(lambda tensor: tensor[slots])

    def oldest_policies(self, number: int) -> Tensor:
        """Returns the slots of up to `number` samples that are learned from, those with the oldest policies: int64."""
        slots = self._slots_of(held=False)
        slots = slots[self._ring.policy_weight[slots] > 0]
        return slots[self._policy_time[slots].argsort(stable=True)[:number]]

    def update_policies(self, slots: Tensor, policy: Tensor, root_value: Tensor) -> None:
        """Puts newer searches in the place of what was found: int64 [K], float32 [K, A], float32 [K]."""
        self._ring.policy[slots] = policy.to(self._ring.policy.dtype)
        self._ring.root_value[slots] = root_value
        self._policy_time[slots] = self.total

    def _newest(self, number: int) -> Tensor:
        """Returns the slots of the newest samples, oldest first: int64 [number]."""
        return torch.arange(self._stored - number, self._stored) % self.settings.capacity

    def _slots_of(self, held: bool) -> Tensor:
        """Returns the window's slots of held-out or of other samples; found once after samples were added."""
        if self._slots is None:
            newest = self._newest(self.window)
            is_held = self._held[newest]
            self._slots = {True: newest[is_held], False: newest[~is_held]}
        return self._slots[held]

    def statistics(self, network_step: int) -> dict[str, float]:
        """Returns figures of the buffer: sizes in samples, mean age in steps behind `network_step`, reuse, shares."""
        newest = self._newest(self.window)
        size = max(1, len(newest))
        made_at = self._ring.network_step[newest].clamp(min=0)
        return {
            "samples": float(self.total),
            "held": float(len(self)),
            "window": float(self.window),
            "credit": self.credit,
            "reuse": self.taken / max(1, self.total),
            "age_steps": float((network_step - made_at).sum()) / size,
            "validation_share": len(self._slots_of(held=True)) / size,
            "learned_share": float((self._ring.policy_weight[newest] > 0).sum()) / size,
            "memory_bytes": float(sum(tensor.nbytes for tensor in self._ring.tensors())),
        }

    def _most_credit(self, credit: float) -> float:
        return min(credit, self.settings.reuse * self.window)

    # Files

    def flush(self) -> None:
        """Saves the samples that are in no finished shard as the open shard; called before a checkpoint is saved."""
        if self.directory is None:
            return
        pending = self.total - self._written
        path = shard_path(self.directory, self._written, pending, is_open=True)
        if pending and not path.exists():
            save_shard(path, self.read(self._newest(pending)))
        self._remove_open(but=path)

    def _finish_shard(self) -> None:
        pending = self.total - self._written
        if self.directory is not None:
            save_shard(shard_path(self.directory, self._written, pending), self.read(self._newest(pending)))
        self._written = self.total
        if self.directory is not None:
            self._remove_open()
            self._prune()

    def _remove_open(self, but: Path | None = None) -> None:
        for shard in find_shards(self.directory):
            if shard.is_open and shard.path != but:
                shard.path.unlink(missing_ok=True)

    def _prune(self) -> None:
        """Removes shards before the window, whose lower edge never moves back."""
        for shard in [] if self.settings.keep_shards else find_shards(self.directory):
            if not shard.is_open and shard.end <= self.total - self.window - self._missing:
                shard.path.unlink(missing_ok=True)

    def _load(self, shards: list[Shard]) -> None:
        finished = [shard for shard in shards if not shard.is_open]
        end = max((shard.end for shard in finished), default=0)
        # An open shard that a finished one has overtaken was left by a kill between the two steps; of several the
        # longest holds all.
        unfinished = [shard for shard in shards if shard.is_open and shard.first >= end][-1:]
        total = max([end] + [shard.end for shard in unfinished])
        needed = [shard for shard in finished if shard.end > total - self.settings.capacity]
        for shard in needed:
            self._load_one(shard)
        loaded = [self._load_one(shard) for shard in unfinished]
        # Unwritten samples must be in memory: not so after damage, or where the capacity was lowered.
        self._written = max(end, total - len(self)) if all(loaded) else total
        self.total = total
        self._missing = max(0, total - needed[0].first - self._stored) if needed else 0

    def _load_one(self, shard: Shard) -> bool:
        """Puts one file's samples into the ring; returns False, with a warning, where it can't be read."""
        try:
            samples = load_shard(shard.path)
            if len(samples) != shard.count:
                raise InputError(f"replay shard {shard.path} holds {len(samples)} samples; its name says {shard.count}")
        except InputError as error:
            _log.warning("left out, the rest is kept: %s", error)
            return False
        if samples.board_size != self.board_size:
            sides = f"of side {samples.board_size}; this run's have side {self.board_size}"
            raise InputError(f"replay shard {shard.path} holds samples {sides}")
        for start in range(0, len(samples), self.settings.capacity):
            self._count(samples, start, start + self.settings.capacity)
        return True

    # Resuming

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint saves: counters, credit, and generators (uint8 tensors)."""
        return {
            "total": self.total,
            "taken": self.taken,
            "num_random": self.num_random,
            "credit": float(self.credit),
            "last_game": self.last_game,
            "generator": self._generator.get_state(),
            "validation_generator": self._validation_generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a checkpoint's counters; samples that are newer than the checkpoint count and earn as if just
        added.

        Where files of the checkpoint are gone, a warning names how many samples are missing, and numbers go on from the
        checkpoint's."""
        newer = self.total - state["total"]
        if newer < 0:
            _log.warning("%d samples that the checkpoint knows are missing in %s", -newer, self.directory)
            self.total = self._written = state["total"]
            self._missing -= newer
        recent = self._newest(min(max(0, newer), len(self)))
        self.num_random = state["num_random"] + int((self._ring.network_step[recent] <= 0).sum())
        self.taken = state["taken"]
        self.last_game = max(self.last_game, state["last_game"])
        self._generator.set_state(state["generator"].cpu())
        self._validation_generator.set_state(state["validation_generator"].cpu())
        self._slots = None
        self.credit = self._most_credit(state["credit"] + self.settings.reuse * max(0, newer))
