"""The player that moves at random but spares its own eyes."""

from __future__ import annotations

import torch
from torch import Tensor

from zerogo import board, draws, flood
from zerogo.board.eyes import Rim, eyes
from zerogo.board.position import Position, own_and_opponent
from zerogo.board.state import exact_legal_rows
from zerogo.draws import Purpose


def sparing_rows(position: Position, rim: Rim, legal: Tensor) -> Tensor:
    """Returns the legal points that fill no eye of the side to move: legal int32 [B, N] -> int32 [B, N]."""
    own, _ = own_and_opponent(position)
    return legal & ~eyes(own, rim)


def draw_point(uniform: Tensor, rows: Tensor) -> Tensor:
    """Returns a point drawn evenly from each plane, P where it is empty: uniform float32 [B] in (0, 1), rows int32 [B,
    N] -> int64 [B].
    """
    points = flood.unpack_rows(rows).flatten(1)
    until = points.cumsum(1, dtype=torch.int32)
    rank = (uniform * until[:, -1]).to(
        torch.int32
    )  # below the total, since uniform is below 1 by more than the rounding
    return (until <= rank.unsqueeze(1)).sum(1)


class RandomPlayer:
    """Moves evenly at random among the legal points that are not its own eyes, and passes when there is none."""

    name = "random"

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the moves: int64 [B]; game_ids int64 [B]. Each is a function of (seed, game, ply) alone."""
        rows = sparing_rows(states, Rim.of(states.on_board), exact_legal_rows(states))
        keys = draws.key(seed, game_ids, states.ply, Purpose.MOVE)
        return draw_point(draws.uniform(keys, 1).squeeze(1), rows)
