"""What a game's rules are: board size, komi, superko, suicide, scoring. For one game, and for a batch whose games may
differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from zerogo.errors import InputError, quote
from zerogo.system.tensors import TensorFields

MOST_KOMI = 1000
MAX_SIZE = 25  # GTP's letters A to Z without I
SUPERKO = ("simple", "positional", "situational")
SIMPLE, POSITIONAL, SITUATIONAL = range(3)  # places in SUPERKO, as tensors hold them
SCORING = ("area", "territory")


@dataclass(frozen=True)
class Rules:
    """The rules of one game; anything that is not allowed raises `InputError`.

    size: side of the board, 1 to 25. komi: points that White gets, -1000 to 1000. superko: "simple" bans only the
    immediate retake of one stone, "positional" any earlier whole-board position, "situational" any earlier position
    with the same side to move. suicide: whether a move may remove its own string. scoring: "area" or "territory"."""

    size: int = 9
    komi: float = 7.0
    superko: str = "positional"
    suicide: bool = False
    scoring: str = "area"

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or not 1 <= self.size <= MAX_SIZE:
            raise InputError(f"rules: size is {quote(self.size)}; allowed are whole numbers from 1 to {MAX_SIZE}")
        if isinstance(self.komi, bool) or not isinstance(self.komi, (int, float)) or not abs(self.komi) <= MOST_KOMI:
            raise InputError(f"rules: komi is {quote(self.komi)}; allowed are numbers from -{MOST_KOMI} to {MOST_KOMI}")
        if self.superko not in SUPERKO:
            raise InputError(f"rules: superko is {quote(self.superko)}; allowed are {', '.join(SUPERKO)}")
        if not isinstance(self.suicide, bool):
            raise InputError(f"rules: suicide is {quote(self.suicide)}; allowed are true and false")
        if self.scoring not in SCORING:
            raise InputError(f"rules: scoring is {quote(self.scoring)}; allowed are {', '.join(SCORING)}")


GameRules = Rules | Sequence[Rules]  # of a batch: the same for all games, or one for each


@dataclass(frozen=True)
class RulesBatch(TensorFields):
    """The rules of B games as tensors, with the host-side facts that let a whole batch skip what none of its games
    needs.

    size: int32 [B]. komi: float32 [B]. superko: int8 [B], index into `SUPERKO`. suicide: bool [B]. scoring: int8 [B],
    index into `SCORING`. board_size: N, the side of the tensors (at least the largest size). same_size: all games have
    boards of that side, so that every point exists. The `any_…` flags and `same_size` are host-side and may err only on
    the side of caution: a flag that is False promises that no game of the batch needs it."""

    size: Tensor
    komi: Tensor
    superko: Tensor
    suicide: Tensor
    scoring: Tensor
    board_size: int
    same_size: bool
    any_suicide: bool
    any_superko: bool
    any_territory: bool

    @staticmethod
    def of(
        rules: GameRules, num_games: int | None = None, device: torch.device | str = "cpu", board_size: int = 0
    ) -> RulesBatch:
        """Returns the batch of `num_games` games under one `Rules`, or of one game for each entry of a sequence.

        board_size: the side of the tensors; 0 is the largest size."""
        many = [rules] * (1 if num_games is None else num_games) if isinstance(rules, Rules) else list(rules)
        if not many:
            raise InputError("rules: a batch of 0 games; at least 1 is needed")
        if num_games is not None and len(many) != num_games:
            raise InputError(f"rules: {len(many)} rules for {num_games} games; give one for all or one for each")
        different = set(many)
        largest = max(r.size for r in different)
        side = board_size or largest
        if not largest <= side <= MAX_SIZE:
            allowed = f"for boards of side {largest} allowed are {largest} to {MAX_SIZE}"
            raise InputError(f"rules: a batch of side {side}; {allowed}")
        return RulesBatch(
            size=torch.tensor([r.size for r in many], dtype=torch.int32, device=device),
            komi=torch.tensor([r.komi for r in many], dtype=torch.float32, device=device),
            superko=torch.tensor([SUPERKO.index(r.superko) for r in many], dtype=torch.int8, device=device),
            suicide=torch.tensor([r.suicide for r in many], dtype=torch.bool, device=device),
            scoring=torch.tensor([SCORING.index(r.scoring) for r in many], dtype=torch.int8, device=device),
            board_size=side,
            same_size=all(r.size == side for r in different),
            any_suicide=any(r.suicide for r in different),
            any_superko=any(r.superko != "simple" for r in different),
            any_territory=any(r.scoring == "territory" for r in different),
        )

    def at(self, game: int) -> Rules:
        """Returns the rules of one game (the host reads the tensors)."""
        size, komi, superko, suicide, scoring = (tensor[game].item() for tensor in self.tensors())
        return Rules(size, komi, SUPERKO[superko], suicide, SCORING[scoring])


def own_actions(size: Tensor, board_size: int) -> Tensor:
    """Returns for each action of an N x N board the action on the game's own board: sizes int32 [B] -> int64 [B, A].

    The last, the pass, is size * size; points off a game's board get 0, which has no meaning there."""
    return _own_actions(board_size, size.device)[size.to(torch.int64)]


@cache
def _own_actions(board_size: int, device: torch.device) -> Tensor:
    """Returns the same for every size up to N: int64 [N + 1, A]."""
    line = torch.arange(board_size)
    row, column = line.view(1, -1, 1), line.view(1, 1, -1)
    size = torch.arange(board_size + 1).view(-1, 1, 1)
    points = torch.where((row < size) & (column < size), row * size + column, 0)
    with torch.inference_mode(False):
        return torch.cat([points.flatten(1), (size * size).view(-1, 1)], dim=1).to(device)
