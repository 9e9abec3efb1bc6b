"""The player that moves at random but spares its own eyes, and what an eye is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo import board, draws, flood
from zerogo.board.position import Position, own_and_opponent
from zerogo.board.state import exact_legal_rows
from zerogo.draws import Purpose


@dataclass(frozen=True)
class Rim:
    """What eyes ask of the boards' shape: points off the board int32 [B, N + 2] with a border all around, and edge points int32 [B, N].

    Bits are shifted up by one, so that the border on the left has a place.
    """

    outside: Tensor
    edge: Tensor

    @staticmethod
    def of(on_board: Tensor) -> Rim:
        """Returns the rim of boards: int32 [B, N]."""
        n = on_board.shape[-1]
        outside = ~torch.nn.functional.pad(on_board << 1, (1, 1))
        here = outside[..., 1 : n + 1]
        return Rim(outside, (here << 1) | (here >> 1) | outside[..., :n] | outside[..., 2 : n + 2])

    def at(self, index: Tensor) -> Rim:
        """Returns the rims of some games: int64 [K]."""
        return Rim(self.outside[index], self.edge[index])


def eyes(own: Tensor, rim: Rim) -> Tensor:
    """Returns the eyes of a colour: own int32 [B, N] -> int32 [B, N].

    An eye is an empty point whose neighbours all hold own stones, and at least three of its four diagonals; at the edge all of them.
    What lies off the board counts as own.
    """
    n = own.shape[-1]
    solid = torch.nn.functional.pad(own << 1, (1, 1)) | rim.outside
    up, here, down = solid[..., :n], solid[..., 1 : n + 1], solid[..., 2 : n + 2]
    left, right = solid << 1, solid >> 1
    beside = left[..., 1 : n + 1] & right[..., 1 : n + 1] & up & down
    a, b, c, d = left[..., :n], right[..., :n], left[..., 2 : n + 2], right[..., 2 : n + 2]
    all_four = a & b & c & d
    at_least_three = (a & b & (c | d)) | (c & d & (a | b))
    fits = all_four | (at_least_three & ~rim.edge)
    return (beside & fits & ~here) >> 1


def sparing_rows(position: Position, rim: Rim, legal: Tensor) -> Tensor:
    """Returns the legal points that fill no eye of the side to move: legal int32 [B, N] -> int32 [B, N]."""
    own, _ = own_and_opponent(position)
    return legal & ~eyes(own, rim)


def draw_point(uniform: Tensor, rows: Tensor) -> Tensor:
    """Returns a point drawn evenly from each plane, P where it is empty: uniform float32 [B] in (0, 1), rows int32 [B, N] -> int64 [B]."""
    points = flood.unpack_rows(rows).flatten(1)
    until = points.cumsum(1, dtype=torch.int32)
    rank = (uniform * until[:, -1]).to(torch.int32)  # below the total, since uniform is below 1 by more than the rounding
    return (until <= rank.unsqueeze(1)).sum(1)


class RandomPlayer:
    """Moves evenly at random among the legal points that are not its own eyes, and passes when there is none."""

    name = "random"

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the moves: int64 [B]; game_ids int64 [B]. Each is a function of (seed, game, ply) alone."""
        rows = sparing_rows(states, Rim.of(states.on_board), exact_legal_rows(states))
        keys = draws.key(seed, game_ids, states.ply, Purpose.MOVE)
        return draw_point(draws.uniform(keys, 1).squeeze(1), rows)
