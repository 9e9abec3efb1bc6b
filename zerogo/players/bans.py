"""Go with moves that a search may not think about for so many plies, as `avoidMoves` and `allowMoves` ask; every game
has its own bans.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo.board import BLACK, Position, State
from zerogo.search import Go
from zerogo.search.games import of_lanes


@dataclass(frozen=True)
class RestrictedState(State):
    """Games with their bans. until: int32 [B, 2, A], from how many plies behind the root on Black, White may play each
    move.
    """

    until: Tensor

    @staticmethod
    def of(state: State, until: Tensor) -> RestrictedState:
        """Returns the games with bans: int32 [B, 2, A]."""
        return RestrictedState(
            **{field.name: getattr(state, field.name) for field in dataclasses.fields(state)}, until=until
        )


class RestrictedGo(Go):
    """Go on `RestrictedState`s. Where a ban would leave a side nothing at all, it may play everything."""

    def allowed(self, states: RestrictedState, lane: Tensor, position: Position, legal: Tensor) -> Tensor:
        until, depth = of_lanes(states.until, lane), position.ply - of_lanes(states.ply, lane)
        first_ply = torch.where((position.to_play == BLACK).unsqueeze(1), until[:, 0], until[:, 1])
        kept = legal & (first_ply <= depth.unsqueeze(1))
        return torch.where(kept.any(1, keepdim=True), kept, legal)
