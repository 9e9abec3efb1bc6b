"""Go with moves that a search may not think about for so many plies, as `avoidMoves` and `allowMoves` ask; every game has its own bans."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo.board import BLACK, Position, State
from zerogo.search import Go
from zerogo.search.games import Landing, Line, of_lanes


@dataclass(frozen=True)
class BannedState(State):
    """Games with their bans. until: int32 [B, 2, A], from how many plies behind the root on Black, White may play each move."""

    until: Tensor

    @staticmethod
    def of(state: State, until: Tensor) -> BannedState:
        """Returns the games with bans: int32 [B, 2, A]."""
        return BannedState(**{field.name: getattr(state, field.name) for field in dataclasses.fields(state)}, until=until)


class RestrictedGo(Go):
    """Go on `BannedState`s. Where a ban would leave a side nothing at all, it may play everything."""

    def root_legal(self, states: BannedState) -> Tensor:
        return _without(super().root_legal(states), states.until, states.to_play, torch.zeros_like(states.ply))

    def legal(self, states: BannedState, lane: Tensor, position: Position) -> Tensor:
        depth = position.ply - of_lanes(states.ply, lane)
        return _without(super().legal(states, lane, position), of_lanes(states.until, lane), position.to_play, depth)

    def arrive(self, states: BannedState, line: Line, words: Tensor, actions: Tensor) -> Landing | None:
        found = super().arrive(states, line, words, actions)
        if found is None:
            return None
        depth = found.leaf.ply - of_lanes(states.ply, line.lane)
        return dataclasses.replace(found, legal=_without(found.legal, of_lanes(states.until, line.lane), found.leaf.to_play, depth))


def _without(legal: Tensor, until: Tensor, to_play: Tensor, depth: Tensor) -> Tensor:
    """Returns the legal moves (bool [K, A]) without those banned: until int32 [K, 2, A], to_play int8 [K], depth int32 [K]."""
    first_ply = torch.where((to_play == BLACK).unsqueeze(1), until[:, 0], until[:, 1])
    kept = legal & (first_ply <= depth.unsqueeze(1))
    return torch.where(kept.any(1, keepdim=True), kept, legal)
