"""What several plane groups ask of the same positions, found once: the side to move's view of a batch."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property

import torch
from torch import Tensor

from zerogo import flood, kernels
from zerogo.board import State
from zerogo.board.eyes import eyes
from zerogo.board.position import BLACK, legal_rows, own_and_opponent
from zerogo.board.state import RECENT
from zerogo.board.superko import exact_legal_rows
from zerogo.features.ladders import Ladders, read_ladders, read_rows
from zerogo.features.tactics import Tactics, read_tactics


class View:
    """A batch as the side to move sees it. Rows are bit rows int32 [B, N] (see `zerogo.flood`); everything is found
    when first asked for.

    Legal means what the rules say. Superko is exact as far as the game's history is known: all of it in a game that is
    played, the last eight positions in a leaf of the search and in a stored sample (a longer cycle is banned all the
    same, but not shown)."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.is_black = state.to_play == BLACK  # bool [B]

    @cached_property
    def sides(self) -> tuple[Tensor, Tensor]:
        """Returns the stones of the side to move and of the other."""
        return own_and_opponent(self.state)

    @cached_property
    def empty(self) -> Tensor:
        return self.state.on_board & ~(self.state.black | self.state.white)

    @cached_property
    def legal(self) -> Tensor:
        return exact_legal_rows(self.state)

    @cached_property
    def repeats(self) -> Tensor:
        """Returns the points that superko alone bans."""
        return legal_rows(self.state, self.state.on_board, self.state.suicide) & ~self.legal

    @cached_property
    def ko(self) -> Tensor:
        """Returns the point that the simple ko rule bans."""
        return flood.points_to_rows(self.state.ko.to(torch.int64), self.state.board_size)

    @cached_property
    def own_eyes(self) -> Tensor:
        own, fast = self.sides[0], kernels.compiled("planes", self.state.device)
        found = eyes(own, self.state.on_board) if fast is None else fast.eyes(own, self.state.on_board)
        return found & self.empty

    @cached_property
    def tactics(self) -> Tactics:
        return read_tactics(self.state, self.legal)

    @cached_property
    def distances(self) -> Tensor:
        """Returns the distance to the nearest edge, 1 on the edge itself and 0 off the board: int16 [B, N, N] (or [1,
        N, N], all alike).
        """
        n = self.state.board_size
        size = (self.state.rules.size[:1] if self.state.rules.same_size else self.state.rules.size).view(-1, 1)
        line = torch.arange(n, device=self.state.device).unsqueeze(0)
        nearest = torch.minimum(line + 1, size - line).clamp(min=0)
        return torch.minimum(nearest.unsqueeze(1), nearest.unsqueeze(2)).to(torch.int16)

    def ladders(self, number: int = 1) -> list[Ladders]:
        """Returns the ladders of the present position and of those before it, `number` in all, newest first; where the
        history is shorter, of the oldest again. All that were not read yet are read as one batch."""
        missing = range(len(self._ladders), number)
        if missing:
            positions = torch.cat([self._earlier(ago) for ago in missing])
            found = read_rows(positions[:, 0], positions[:, 1], self.state.on_board.repeat(len(missing), 1))
            parts = zip(
                *(getattr(found, field.name).split(self.state.num_games) for field in fields(Ladders)), strict=True
            )
            self._ladders.extend(Ladders(*part) for part in parts)
        return self._ladders[:number]

    @property
    def movers_ladders(self) -> Ladders:
        """What the side to move may do about ladders at once; cheaper than all ladders, where these are not read
        yet.
        """
        return self._ladders[0] if self._ladders else self._movers_ladders

    @cached_property
    def _movers_ladders(self) -> Ladders:
        return read_ladders(self.state, for_mover=True)

    @cached_property
    def _ladders(self) -> list[Ladders]:
        return []

    def _earlier(self, ago: int) -> Tensor:
        """Returns the black and white stones of earlier positions, of the oldest in games that are not so long: int32
        [B, 2, N].
        """
        state = self.state
        now = torch.stack([state.black, state.white], dim=1).unsqueeze(1)
        positions = torch.cat([now, state.recent[:, :ago]], dim=1)
        index = state.ply.clamp(max=ago).to(torch.int64).view(-1, 1, 1, 1).expand(-1, 1, *positions.shape[2:])
        return positions.gather(1, index).squeeze(1)

    def ages(self, most: int) -> Tensor:
        """Returns the stones that have stood for 1, 2, … and for `most` or more positions (up to 8), 1 for the last
        move's: int32 [B, N, most].

        Stones that stood at the start are the oldest.
        """
        assert most <= RECENT + 1, f"ages up to {most}; positions tell up to {RECENT + 1}"
        state, fast = self.state, kernels.compiled("planes", self.state.device)
        if fast is not None:
            return fast.ages(state.black, state.white, state.recent, state.ply, most)
        black, white = state.black, state.white
        stood = [black | white]
        for ago in range(1, most):
            before = state.recent[:, ago - 1] | -(state.ply < ago).view(-1, 1, 1).to(torch.int32)
            black, white = black & before[:, 0], white & before[:, 1]
            stood.append(black | white)
        return torch.stack([*(now & ~older for now, older in zip(stood, stood[1:], strict=False)), stood[-1]], dim=2)

    def history(self, earlier: int, own_first: bool) -> Tensor:
        """Returns the stones now and in earlier positions, newest first, of one side and then of the other: int32 [B,
        N, 2 + 2 * earlier].

        own_first: whether the side to move comes first, or Black.
        """
        state, fast = self.state, kernels.compiled("planes", self.state.device)
        if fast is not None:
            return fast.history(state.black, state.white, state.recent, state.to_play if own_first else None, earlier)
        now = torch.stack([state.black, state.white], dim=1).unsqueeze(1)
        positions = torch.cat([now, state.recent[:, :earlier]], dim=1)
        if own_first:
            positions = torch.where(self.is_black.view(-1, 1, 1, 1), positions, positions.flip(2))
        return positions.permute(0, 3, 2, 1).flatten(2)

    def colours(self, black: Tensor, white: Tensor) -> tuple[Tensor, Tensor]:
        """Returns two planes or numbers of Black and White as own and opponent's: [B, ...] each."""
        is_black = self.is_black.view(-1, *[1] * (black.ndim - 1))
        return torch.where(is_black, black, white), torch.where(is_black, white, black)


def points(rows: Tensor) -> Tensor:
    """Returns bit rows as points: int32 [..., N] -> uint8 [..., N, N], 0 or 1."""
    return flood.unpack_rows(rows).to(torch.uint8)
