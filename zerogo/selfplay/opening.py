"""Under which rules, and on which boards, the games of a run begin."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

from zerogo import board, draws
from zerogo.draws import Purpose
from zerogo.rules import Rules

if TYPE_CHECKING:
    from zerogo.config import Config


def begin(config: Config, numbers: torch.Tensor, seed: int, device: torch.device) -> board.State:
    """Returns the games of these numbers (int64 [K], on the host) before their first moves, in tensors with room for
    the largest board.
    """
    rules = drawn_rules(config, numbers, seed)
    caps = [config.game.plies(one.size) for one in rules]
    return board.new_games(len(numbers), rules, device, caps, config.game.largest_size)


def drawn_rules(config: Config, numbers: torch.Tensor, seed: int) -> list[Rules]:
    """Returns the rules of games by their numbers (int64 [K], on the host): the config's, as far as it leaves nothing
    to be drawn.
    """
    game = config.game
    sizes = _chosen(
        [(game.size, 1.0)] if not game.sizes else [(size, share) for size, share, _ in game.sizes],
        numbers,
        seed,
        Purpose.SIZE,
    )
    superko = _chosen(list(game.superko_shares.items()) or [(game.superko, 1.0)], numbers, seed, Purpose.SUPERKO)
    suicide = _chosen(
        [(True, game.suicide_share), (game.suicide, 1.0 - game.suicide_share)], numbers, seed, Purpose.SUICIDE
    )
    drawn = draws.uniform(draws.key(seed, numbers, Purpose.KOMI), 2).tolist()
    komi = [_komi(config, size, *pair) for size, pair in zip(sizes, drawn, strict=True)]
    return [Rules(*one, game.scoring) for one in zip(sizes, komi, superko, suicide, strict=True)]


def _komi(config: Config, size: int, share: float, where: float) -> float:
    """Returns a game's komi: the board's own or, in a share of the games, one of those that may be drawn; share, where:
    drawn in (0, 1).
    """
    own = config.game.komi_of(size)
    choices = config.game.drawn_komi(own)
    return choices[int(where * len(choices))] if share < config.game.random_komi_share else own


def _chosen(options: Sequence[tuple[Any, float]], numbers: torch.Tensor, seed: int, purpose: Purpose) -> list[Any]:
    """Returns one option for each game, drawn in proportion to its share."""
    edges = list(accumulate(share for _, share in options))
    drawn = draws.uniform(draws.key(seed, numbers, purpose), 1).squeeze(1).tolist()
    return [options[min(bisect(edges, where * edges[-1]), len(options) - 1)][0] for where in drawn]
