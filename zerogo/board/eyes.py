"""What an eye is, for whole batches: the one definition that the random player and the encoders share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


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


# Left, right, above, below; then the diagonals: left above, right above, left below, right below. As (rows down, columns right).
SIDES = ((0, -1), (0, 1), (-1, 0), (1, 0))
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def eyes(own: Tensor, rim: Rim) -> Tensor:
    """Returns the eyes of a colour: own int32 [B, N] -> int32 [B, N].

    An eye is an empty point whose neighbours all hold own stones, and at least three of its four diagonals; at the edge all of them.
    What lies off the board counts as own.
    """
    around, here = _around(own, rim)
    return (_fits(around, rim) & ~here) >> 1


def eyes_host(own: np.ndarray, on_board: np.ndarray) -> np.ndarray:
    """The same in NumPy, a quarter of the time: own int32 [B, N], on_board int32 [B, N], or [1, N] for all -> int32 [B, N]."""
    solid, off = _framed_host(own | ~on_board), _framed_host(~on_board)
    left, right = (solid << 1) | 1, solid >> 1
    above, below = left[:-2] & right[:-2], left[2:] & right[2:]
    three = (above & (left[2:] | right[2:])) | (below & (left[:-2] | right[:-2]))
    edge = (off[1:-1] << 1) | 1 | (off[1:-1] >> 1) | off[:-2] | off[2:]
    fits = (above & below) | (three & ~edge)
    fits &= left[1:-1] & right[1:-1] & solid[:-2] & solid[2:] & ~solid[1:-1]
    return np.ascontiguousarray(fits.T)


def _framed_host(rows: np.ndarray) -> np.ndarray:
    """Returns rows with a full one above and below: int32 [B, N] -> int32 [N + 2, B]; games last, where shifts of rows are whole arrays."""
    framed = np.full((rows.shape[1] + 2, len(rows)), -1, np.int32)
    framed[1:-1] = rows.T
    return framed


def eye_makers(own: Tensor, empty: Tensor, rim: Rim) -> Tensor:
    """Returns the points where a stone of that colour makes an eye of one of the eight points around it: own, empty int32 [B, N] -> int32
    [B, N].

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
    """Returns where the neighbours in the order of SIDES and CORNERS are solid, own or off the board, and where the point itself is: int32
    [B, N] each, bits shifted up by one."""
    n = own.shape[-1]
    solid = torch.nn.functional.pad(own << 1, (1, 1)) | rim.outside
    left, right = solid << 1, solid >> 1
    rows = {-1: slice(0, n), 0: slice(1, n + 1), 1: slice(2, n + 2)}
    shifted = {-1: left, 0: solid, 1: right}
    return [shifted[column][..., rows[row]] for row, column in SIDES + CORNERS], solid[..., 1 : n + 1]


def _fits(around: list[Tensor], rim: Rim) -> Tensor:
    """Returns where the eight neighbours would make an eye of an empty point: int32 [B, N] each, bits shifted up by one."""
    left, right, up, down, a, b, c, d = around
    at_least_three = (a & b & (c | d)) | (c & d & (a | b))
    return left & right & up & down & ((a & b & c & d) | (at_least_three & ~rim.edge))


def _moved(rows: Tensor, down: int, right: int) -> Tensor:
    """Returns the points one step on, those that leave the rows lost; bits may run over the last column: int32 [B, N] -> int32 [B, N]."""
    moved = torch.zeros_like(rows)
    if down == 0:
        moved = rows
    elif down > 0:
        moved[..., 1:] = rows[..., :-1]
    else:
        moved[..., :-1] = rows[..., 1:]
    return moved << 1 if right > 0 else moved >> 1 if right < 0 else moved
