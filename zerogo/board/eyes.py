"""What an eye is, for whole batches: the one definition that the random player and the encoders share."""

import torch
from torch import Tensor

# The neighbours as (rows down, columns right): left, right, above, below; then the diagonals.
SIDES = ((0, -1), (0, 1), (-1, 0), (1, 0))
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def eyes(own: Tensor, on_board: Tensor) -> Tensor:
    """Returns the eyes of a colour: its stones and the points on the board int32 [B, N] -> int32 [B, N].

    An eye is an empty point whose neighbours all hold own stones, and at least three of its four diagonals; at the edge
    all of them. What lies off the board counts as own. The point itself may be occupied: callers leave those out."""
    around, here, edge = _around(own, on_board)
    return (_fits(around, edge) & ~here) >> 1


def eye_makers(own: Tensor, empty: Tensor, on_board: Tensor) -> Tensor:
    """Returns the empty points where a stone of that colour makes an eye of one of the eight points around it: int32
    [B, N] each -> int32 [B, N].

    Neither what the stone captures nor whether it may be played is asked."""
    n = own.shape[-1]
    around, here, edge = _around(own, on_board)
    wanting = (empty << 1) & ~(_fits(around, edge) & ~here)
    makers = torch.zeros_like(own)
    for index, (down, right) in enumerate(SIDES + CORNERS):
        filled = [*around[:index], torch.full_like(own, -1), *around[index + 1 :]]
        made = (_fits(filled, edge) & wanting) >> 1
        made = torch.nn.functional.pad(made, (1, 1))[..., 1 - down : 1 - down + n]
        makers |= made << 1 if right > 0 else made >> 1 if right < 0 else made
    return makers & empty


def _around(own: Tensor, on_board: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
    """Returns for each of SIDES and CORNERS the points whose neighbour there is own or off the board, the points that
    are own or off the board themselves, and the points at the edge: int32 [B, N] each.

    All bits are shifted up by one, so that the border on the left has a place."""
    n = own.shape[-1]
    outside = ~torch.nn.functional.pad(on_board << 1, (1, 1))
    solid = torch.nn.functional.pad(own << 1, (1, 1)) | outside
    shifted = {-1: solid << 1, 0: solid, 1: solid >> 1}
    around = [shifted[right][..., 1 + down : 1 + down + n] for down, right in SIDES + CORNERS]
    middle = outside[..., 1 : n + 1]
    edge = (middle << 1) | (middle >> 1) | outside[..., :n] | outside[..., 2 : n + 2]
    return around, solid[..., 1 : n + 1], edge


def _fits(around: list[Tensor], edge: Tensor) -> Tensor:
    """Returns where the eight neighbours make an eye of an empty point; all as in `_around`."""
    left, right, up, down, a, b, c, d = around
    above, below = a & b, c & d
    at_least_three = (above & (c | d)) | (below & (a | b))
    return left & right & up & down & at_least_three & ((above & below) | ~edge)
