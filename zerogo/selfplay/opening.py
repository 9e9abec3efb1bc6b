"""Under which rules the games of a run begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from zerogo import draws
from zerogo.draws import Purpose
from zerogo.rules import Rules

if TYPE_CHECKING:
    from zerogo.config import Config


def drawn_rules(config: Config, numbers: torch.Tensor, seed: int) -> list[Rules]:
    """Returns the rules of games by their numbers (int64 [K], on the host): the config's, a share of them with a drawn komi."""
    game, choices = config.game, config.game.drawn_komi()
    drawn = draws.uniform(draws.key(seed, numbers, Purpose.KOMI), 2)
    return [game.rules(choices[int(where * len(choices))] if share < game.random_komi_share else None) for share, where in drawn.tolist()]
