"""Samples: packed positions with their history, rules and targets; and training batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo import board
from zerogo.board import NO_CAP, with_atari
from zerogo.board.position import hash_stones
from zerogo.rules import SIMPLE, RulesBatch
from zerogo.system.tensors import TensorFields

POSITIONS = 8  # the position itself and the seven before it


def _field(dtype: torch.dtype, *shape: int | str) -> Any:
    """Returns a field of `Samples` with its stored type, the narrowest exact one, and its shape after the leading K;
    "N" and "A" stand for the board's side and number of actions."""
    return field(metadata={"dtype": dtype, "shape": shape})


@dataclass(frozen=True)
class Samples(TensorFields):
    """K samples, one position per row, never planes. Values, scores and ownership belong to the side to move."""

    # Bit rows, newest first; black, white; stored as int16 if N <= 15.
    rows: Tensor = _field(torch.int32, POSITIONS, 2, "N")
    to_play: Tensor = _field(torch.int8)
    passes: Tensor = _field(torch.int8)
    ply: Tensor = _field(torch.int32)
    ko: Tensor = _field(torch.int16)  # point banned by the simple ko rule, -1 for none
    moves: Tensor = _field(torch.int16, 5)  # previous actions, newest first, -1 for none
    captures: Tensor = _field(torch.int16, 2)  # stones captured by Black, by White
    size: Tensor = _field(torch.int8)
    superko: Tensor = _field(torch.int8)
    scoring: Tensor = _field(torch.int8)
    suicide: Tensor = _field(torch.bool)
    komi: Tensor = _field(torch.float32)
    policy: Tensor = _field(torch.float16, "A")  # the search's target, sums to 1
    policy_weight: Tensor = _field(torch.float32)  # 0 if the policy is not a target
    reply: Tensor = _field(torch.int16)  # the opponent's next move, -1 if the game ended before it
    value: Tensor = _field(torch.float32)  # the game's result in [-1, 1]
    root_value: Tensor = _field(torch.float32)  # the search's value, in [-1, 1]
    short_values: Tensor = _field(torch.float16, 3)  # averages of this and later root values, NaN if they were not kept
    score: Tensor = _field(torch.float32)  # the result in points, komi included
    ownership: Tensor = _field(torch.int8, "N", "N")  # 1 the side to move's, -1 the opponent's, 0 nobody's
    board_weight: Tensor = _field(torch.float32)  # 0 if the final board is unknown: score and ownership are no targets
    game: Tensor = _field(torch.int64)  # the game's number in the run
    network_step: Tensor = _field(torch.int64)  # of the network that played; 0 or less for untrained players

    def __len__(self) -> int:
        return self.rows.shape[0]

    @property
    def board_size(self) -> int:
        """N, the side of the tensors."""
        return self.rows.shape[-1]

    @classmethod
    def of_records(cls, records: Tensor, board_size: int) -> Samples:
        """Returns the samples in records (int64 [K, W], see `record_layout`), as views."""
        words, fields = records.view(torch.uint8), {}
        for name, (dtype, shape, first) in record_layout(board_size)[0].items():
            last = first + math.prod(shape) * dtype.itemsize
            fields[name] = words[:, first:last].view(dtype).view(len(records), *shape)
        return cls(**fields)

    def records(self) -> Tensor:
        """Returns the samples in their stored types, each packed into W words: int64 [K, W]."""
        words = record_layout(self.board_size)[1]
        records = torch.zeros(len(self), words, dtype=torch.int64, device=self.rows.device)
        for name, place in vars(Samples.of_records(records, self.board_size)).items():
            tensor = getattr(self, name)
            assert tensor.shape == place.shape, f"{name} is {list(tensor.shape)}, not {list(place.shape)}"
            place.copy_(tensor)
        return records

    def packed(self) -> Samples:
        """Returns the samples on the host in their stored types; this is the only copy from the device."""
        return Samples.of_records(self.records().cpu(), self.board_size)

    def kinds(self) -> Tensor:
        """Returns the bits of KINDS that each sample's rules set: uint8 [K]."""
        flags = self.size != self.board_size, self.suicide, self.superko != SIMPLE, self.scoring != 0
        return torch.stack([flag.to(torch.uint8) << bit for bit, flag in enumerate(flags)]).sum(0, dtype=torch.uint8)

    def state(self, kinds: int | None = None, for_encoder: bool = False) -> board.State:
        """Returns the positions as games, with recent positions and moves but without superko's hashes. So superko
        finds only repetitions of the recent positions, and the games can't be continued.

        kinds: the bits of KINDS that any of the rules sets; by default the host reads them. for_encoder: leaves out
        hashes and strings in atari, which are most of the work and which zero17 never needs."""
        kinds = union(self.kinds()) if kinds is None else kinds
        is_set: dict[str, Any] = {name: bool(kinds & 1 << bit) for bit, name in enumerate(KINDS)}
        is_set["same_size"] = not is_set.pop("other_size")
        same = {name: getattr(self, name) for name in ("komi", "superko", "suicide", "scoring")}
        rules = RulesBatch(size=self.size.to(torch.int32), board_size=self.board_size, **same, **is_set)
        rows, none = self.rows.to(torch.int32), _full(0, torch.int32, self.ply.device).expand(len(self))
        state = board.State(
            black=rows[:, 0, 0],
            white=rows[:, 0, 1],
            atari=None,
            **{name: getattr(self, name) for name in ("to_play", "passes", "ply", "ko", "moves")},
            hash=None,
            captures=self.captures.to(torch.int32),
            finished=_full(False, torch.bool, none.device).expand(len(self)),
            rules=rules,
            on_board=_on_board(rules),
            cap=_full(NO_CAP, torch.int32, none.device).expand(len(self)),
            seen=none.new_empty(len(self), 0, dtype=torch.int64),
            links=none.new_empty(len(self), 0),
            lost=none.view(-1, 1, 1).expand(-1, 2, self.board_size),
            recent=rows[:, 1:],
            start_balance=none,
            ply_bound=0,
        )
        return state if for_encoder else replace(with_atari(state), hash=hash_stones(state.black, state.white))


def _on_board(rules: RulesBatch) -> Tensor:
    side, size = rules.board_size, rules.size.unsqueeze(1)
    if rules.same_size:
        return _full((1 << side) - 1, torch.int32, size.device).expand(len(size), side)
    return torch.where(torch.arange(side, device=size.device) < size, (1 << size) - 1, 0).to(torch.int32)


@cache
def _full(value: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns a number on a device, ready to be expanded: [1]."""
    with torch.inference_mode(False):
        return torch.full((1,), value, dtype=dtype, device=device)


# What a batch's rules need, in bits: `RulesBatch` has flags of these names, except the first.
KINDS = ("other_size", "any_suicide", "any_superko", "any_territory")


def union(kinds: Tensor) -> int:
    """Returns the bits that any sample's rules set: uint8 [K], preferably on the host."""
    return int(np.bitwise_or.reduce(kinds.cpu().numpy(), initial=np.uint8(0)))


def layout(board_size: int) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """Returns how each field is stored: its type, and its shape without the leading K."""
    letters = {"N": board_size, "A": board_size * board_size + 1}
    kinds = {
        entry.name: (entry.metadata["dtype"], tuple(letters.get(size) or size for size in entry.metadata["shape"]))
        for entry in fields(Samples)
    }
    return kinds | {"rows": (torch.int16 if board_size <= 15 else torch.int32, kinds["rows"][1])}


@cache
def record_layout(board_size: int) -> tuple[dict[str, tuple[torch.dtype, tuple[int, ...], int]], int]:
    """Returns the layout of a record: each field's type, shape and first byte, the widest types first for alignment;
    and W, the words of a record."""
    places, end = {}, 0
    for name, (dtype, shape) in sorted(layout(board_size).items(), key=lambda kind: -kind[1][0].itemsize):
        places[name] = dtype, shape, end
        end += math.prod(shape) * dtype.itemsize
    return {name: places[name] for name in layout(board_size)}, -(-end // torch.int64.itemsize)


@dataclass(frozen=True)
class TrainingBatch(TensorFields):
    """The samples of one training step, in their stored form, so that a device gets them in one copy. The trainer
    applies the symmetries.

    records: int64 [B, W], see `record_layout`. symmetry: int64 [B], a random element of D4 (0 to 7) for every sample.
    board_size: N. kinds: on the host, the bits of KINDS that any of the rules sets."""

    records: Tensor
    symmetry: Tensor
    board_size: int
    kinds: int

    @cached_property
    def samples(self) -> Samples:
        """The samples, as views of the records."""
        return Samples.of_records(self.records, self.board_size)

    def state(self) -> board.State:
        """Returns the positions as games for an encoder; see `Samples.state`."""
        return self.samples.state(self.kinds, for_encoder=True)

    def __len__(self) -> int:
        return self.records.shape[0]
