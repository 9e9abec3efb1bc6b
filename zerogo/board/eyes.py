"""What an eye is, for whole batches: the one definition that the random player and the encoders share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rim:
    """What eyes ask of the boards' shape: points off the board int32 [B, N + 2] with a border all around, and edge
    points int32 [B, N].

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


# Left, right, above, below; then the diagonals: left above, right above, left below, right below. As (rows down,
# columns right).
SIDES = ((0, -1), (0, 1), (-1, 0), (1, 0))
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def eyes(own: Tensor, rim: Rim) -> Tensor:
    """Returns the eyes of a colour: own int32 [B, N] -> int32 [B, N].

    An eye is an empty point whose neighbours all hold own stones, and at least three of its four diagonals; at the edge
    all of them. What lies off the board counts as own."""
    around, here = _around(own, rim)
    return (_fits(around, rim) & ~here) >> 1


def eye_makers(own: Tensor, empty: Tensor, rim: Rim) -> Tensor:
    """Returns the points where a stone of that colour makes an eye of one of the eight points around it: own, empty
    int32 [B, N] -> int32 [B, N].

    What the stone captures is not looked at, nor whether it may be played.
    """
    around, here = _around(own, rim)
    waiting = (empty << 1) & ~(_fits(around, rim) & ~here)
    makers = torch.zeros_like(own)
    for index, (down, right) in enumerate(SIDES + CORNERS):
        filled = [*around[:index], torch.full_like(own, -1), *around[index + 1 :]]
        made = _fits(filled, rim) & waiting
        makers |= _moved(made >> 1, down, right)
    return makers & empty


def _around(own: Tensor, rim: Rim) -> tuple[list[Tensor], Tensor]:
    """Returns where the neighbours in the order of SIDES and CORNERS are solid, own or off the board, and where the
    point itself is: int32 [B, N] each, bits shifted up by one."""
    n = own.shape[-1]
    solid = torch.nn.functional.pad(own << 1, (1, 1)) | rim.outside
    left, right = solid << 1, solid >> 1
    rows = {-1: slice(0, n), 0: slice(1, n + 1), 1: slice(2, n + 2)}
    shifted = {-1: left, 0: solid, 1: right}
    return [shifted[column][..., rows[row]] for row, column in SIDES + CORNERS], solid[..., 1 : n + 1]


def _fits(around: list[Tensor], rim: Rim) -> Tensor:
    """Returns where the eight neighbours would make an eye of an empty point: int32 [B, N] each, bits shifted up by
    one.
    """
    left, right, up, down, a, b, c, d = around
    at_least_three = (a & b & (c | d)) | (c & d & (a | b))
    return left & right & up & down & ((a & b & c & d) | (at_least_three & ~rim.edge))


def _moved(rows: Tensor, down: int, right: int) -> Tensor:
    """Returns the points one step on, those that leave the rows lost; bits may run over the last column: int32 [B, N]
    -> int32 [B, N].
    """
    moved = torch.zeros_like(rows)
    if down == 0:
        moved = rows
    elif down > 0:
        moved[..., 1:] = rows[..., :-1]
    else:
        moved[..., :-1] = rows[..., 1:]
    return moved << 1 if right > 0 else moved >> 1 if right < 0 else moved
