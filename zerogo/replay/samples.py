"""Samples: positions with their history, rules and targets, packed; and the batches that a trainer takes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo import board
from zerogo.rules import SUPERKO, RulesBatch

POSITIONS = 8  # the position itself and the seven before it
_SIMPLE_KO = SUPERKO.index("simple")


@dataclass(frozen=True)
class Samples:
    """K samples, one row a position; never planes. Values, scores and ownership belong to the side to move.

    rows: int32 [K, 8, 2, N] bit rows (int16 where kept and N <= 15), the position and the 7 before it, newest first;
    black, white. to_play, passes: int8 [K]. ply: int32 [K]. ko: int16 [K], point banned by the simple ko rule, -1 for
    none. moves: int16 [K, 5] previous actions, newest first, -1 for none. captures: int16 [K, 2] stones captured by
    Black, by White. size, superko, scoring: int8 [K]. suicide: bool [K]. komi: float32 [K]. policy: float16 [K, A], the
    search's target, sums to 1. policy_weight: float32 [K], 0 where the search was too short to be learned from. value:
    float32 [K], the game's result in [-1, 1]. root_value: float32 [K], what the search thought, in [-1, 1]. score:
    float32 [K], the result in points, komi included. ownership: int8 [K, N, N], 1 mine, -1 the other side's, 0
    nobody's. board_weight: float32 [K], 0 where the game was resigned, so that nobody knows its final board: score and
    ownership are not to be learned. game: int64 [K], the game's number in the run. network_step: int64 [K], training
    step of the network that played, 0 or less for players that have not learned."""

    rows: Tensor
    to_play: Tensor
    passes: Tensor
    ply: Tensor
    ko: Tensor
    moves: Tensor
    captures: Tensor
    size: Tensor
    superko: Tensor
    scoring: Tensor
    suicide: Tensor
    komi: Tensor
    policy: Tensor
    policy_weight: Tensor
    value: Tensor
    root_value: Tensor
    score: Tensor
    ownership: Tensor
    board_weight: Tensor
    game: Tensor
    network_step: Tensor

    def __len__(self) -> int:
        return self.rows.shape[0]

    @property
    def board_size(self) -> int:
        return self.rows.shape[-1]

    def tensors(self) -> dict[str, Tensor]:
        """Returns the fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def at(self, index: Tensor | slice) -> Samples:
        """Returns the samples with the given indices: int64 [L] or a slice."""
        return Samples(**{name: tensor[index] for name, tensor in self.tensors().items()})

    def packed(self) -> Samples:
        """Returns the samples on the host in the types in which they are kept (`layout`); this is the one copy from the
        device.
        """
        kept = {}
        for name, (dtype, shape) in layout(self.board_size).items():
            tensor = getattr(self, name)
            assert tensor.shape == (len(self), *shape), (
                f"samples: {name} is {list(tensor.shape)}, not [{len(self)}, {shape}]"
            )
            kept[name] = tensor.to(device="cpu", dtype=dtype)
        return Samples(**kept)

    @staticmethod
    def cat(parts: list[Samples]) -> Samples:
        """Returns the samples of all parts (at least one) behind each other."""
        return Samples(**{name: torch.cat([getattr(part, name) for part in parts]) for name in parts[0].tensors()})

    def state(self) -> board.State:
        """Returns the positions as games, for an encoder: with recent positions and moves, without what superko
        needs.
        """
        rows = self.rows.to(torch.int32)
        restored = board.restore(
            rows[:, 0, 0],
            rows[:, 0, 1],
            rows[:, 1:],
            self.to_play,
            self._rules(),
            moves=self.moves,
            passes=self.passes,
            ply=self.ply,
            ko=self.ko,
        )
        return dataclasses.replace(restored, captures=self.captures.to(torch.int32))

    def _rules(self) -> RulesBatch:
        """The host looks at the rules (samples lie on the host, so it waits for nothing)."""
        return RulesBatch(
            size=self.size.to(torch.int32),
            komi=self.komi,
            superko=self.superko,
            suicide=self.suicide,
            scoring=self.scoring,
            board_size=self.board_size,
            same_size=bool((self.size == self.board_size).all()),
            any_suicide=bool(self.suicide.any()),
            any_superko=bool((self.superko != _SIMPLE_KO).any()),
            any_territory=bool(self.scoring.any()),
        )


def position_fields(state: board.State) -> dict[str, Tensor]:
    """Returns the fields of `Samples` that a batch of B games gives, from `rows` to `komi`; the targets are the
    caller's to add.
    """
    now = torch.stack((state.black, state.white), dim=1).unsqueeze(1)
    rules = state.rules
    return {
        "rows": torch.cat((now, state.recent), dim=1),
        "to_play": state.to_play,
        "passes": state.passes,
        "ply": state.ply,
        "ko": state.ko,
        "moves": state.moves,
        "captures": state.captures.to(torch.int16),
        "size": rules.size.to(torch.int8),
        "superko": rules.superko,
        "scoring": rules.scoring,
        "suicide": rules.suicide,
        "komi": rules.komi,
    }


def layout(board_size: int) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """Returns how each field is kept: its type, the narrowest that is exact, and its shape without the leading K."""
    num_points = board_size * board_size
    row_type = torch.int16 if board_size <= 15 else torch.int32
    return {
        "rows": (row_type, (POSITIONS, 2, board_size)),
        "to_play": (torch.int8, ()),
        "passes": (torch.int8, ()),
        "ply": (torch.int32, ()),
        "ko": (torch.int16, ()),
        "moves": (torch.int16, (5,)),
        "captures": (torch.int16, (2,)),
        "size": (torch.int8, ()),
        "superko": (torch.int8, ()),
        "scoring": (torch.int8, ()),
        "suicide": (torch.bool, ()),
        "komi": (torch.float32, ()),
        "policy": (torch.float16, (num_points + 1,)),
        "policy_weight": (torch.float32, ()),
        "value": (torch.float32, ()),
        "root_value": (torch.float32, ()),
        "score": (torch.float32, ()),
        "ownership": (torch.int8, (board_size, board_size)),
        "board_weight": (torch.float32, ()),
        "game": (torch.int64, ()),
        "network_step": (torch.int64, ()),
    }


@dataclass(frozen=True)
class Batch:
    """What one training step learns from: B samples, not yet turned. The trainer applies each sample's symmetry to
    planes and targets.

    state: the positions as games, leading B. policy: float32 [B, A], sums to 1. policy_weight, value, root_value,
    score: float32 [B]. ownership: float32 [B, N, N]. symmetry: int64 [B], a random element of D4 (0 to 7) for every
    sample. Perspectives as in `Samples`."""

    state: board.State
    policy: Tensor
    policy_weight: Tensor
    value: Tensor
    root_value: Tensor
    score: Tensor
    ownership: Tensor
    board_weight: Tensor
    symmetry: Tensor

    @staticmethod
    def of(samples: Samples, symmetry: Tensor) -> Batch:
        """Returns the batch of samples kept on the host; symmetry int64 [B]. The policy's float16 rounding is
        normalised away.
        """
        policy = samples.policy.to(torch.float32)
        return Batch(
            state=samples.state(),
            policy=policy / policy.sum(-1, keepdim=True).clamp(min=1e-6),
            policy_weight=samples.policy_weight,
            value=samples.value,
            root_value=samples.root_value,
            score=samples.score,
            ownership=samples.ownership.to(torch.float32),
            board_weight=samples.board_weight,
            symmetry=symmetry,
        )

    def __len__(self) -> int:
        return self.policy.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        """Returns the batch on another device."""
        tensors = {f.name: getattr(self, f.name).to(device) for f in dataclasses.fields(self) if f.name != "state"}
        return Batch(state=board.to_device(self.state, device), **tensors)
