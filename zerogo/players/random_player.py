"""The player that moves at random but spares its own eyes, and what an eye is."""

from __future__ import annotations

import torch
from torch import Tensor

from zerogo import board, draws, flood
from zerogo.board.position import Position, own_and_opponent
from zerogo.board.state import exact_legal_rows
from zerogo.draws import Purpose


def eyes(own: Tensor, on_board: Tensor) -> Tensor:
    """Returns the eyes of a colour: own, on_board int32 [B, N] -> int32 [B, N].

    An eye is an empty point whose neighbours all hold own stones, and at least three of its four diagonals; at the edge all of its diagonals.
    What lies off the board counts as own, so that of an edge point's diagonals none may be missing: it has but two on the board.
    """
    n = own.shape[-1]
    inside = torch.nn.functional.pad(on_board << 1, (1, 1))  # one point of border all around
    solid = torch.nn.functional.pad(own << 1, (1, 1)) | ~inside
    up, here, down = solid[..., :n], solid[..., 1 : n + 1], solid[..., 2 : n + 2]
    beside = (here << 1) & (here >> 1) & up & down
    corners = [up << 1, up >> 1, down << 1, down >> 1]
    missing, twice = torch.zeros_like(own), torch.zeros_like(own)
    for corner in corners:
        twice = twice | (missing & ~corner)
        missing = missing | ~corner
    rim = ~inside
    is_edge = (rim[..., 1 : n + 1] << 1) | (rim[..., 1 : n + 1] >> 1) | rim[..., :n] | rim[..., 2 : n + 2]
    fits = (~is_edge & ~twice) | (is_edge & ~missing)
    return ((beside & fits) >> 1) & on_board & ~own


def sparing_rows(position: Position, on_board: Tensor, legal: Tensor) -> Tensor:
    """Returns the legal points that fill no eye of the side to move: legal int32 [B, N] -> int32 [B, N]."""
    own, _ = own_and_opponent(position)
    return legal & ~eyes(own, on_board)


def draw_point(keys: Tensor, rows: Tensor) -> Tensor:
    """Returns a point drawn evenly from each plane, P (pass) where it is empty: keys int64 [B], rows int32 [B, N] -> int64 [B]."""
    n = rows.shape[-1]
    in_row = flood.count(rows.unsqueeze(-1))
    until = in_row.cumsum(1)
    total = until[:, -1]
    rank = (draws.uniform(keys, 1).squeeze(1) * total).to(torch.int64).clamp(max=(total - 1).clamp(min=0))
    row = (until <= rank.unsqueeze(1)).sum(1).clamp(max=n - 1)
    at = row.unsqueeze(1)
    rank = rank - (until.gather(1, at) - in_row.gather(1, at)).squeeze(1)
    bits = (rows.gather(1, at) >> torch.arange(n, dtype=torch.int32, device=rows.device)) & 1
    column = (bits.cumsum(1) <= rank.unsqueeze(1)).sum(1)
    return torch.where(total > 0, row * n + column, n * n)


class RandomPlayer:
    """Moves evenly at random among the legal points that are not its own eyes, and passes when there is none."""

    name = "random"

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the moves: int64 [B]; game_ids int64 [B]. Each is a function of (seed, game, ply) alone."""
        rows = sparing_rows(states, states.on_board, exact_legal_rows(states))
        return draw_point(draws.key(seed, game_ids, states.ply, Purpose.MOVE), rows)
