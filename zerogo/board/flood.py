"""Boards as bit rows, their neighbours, flood fills and eyes over a whole batch.

A plane of a board is int32 [..., N]: bit c of row r is the point in row r and column c (N <= 25, so a row always fits).
Most operations on a plane are then a few bitwise operations on N words instead of N*N numbers.

A flood fill is often written as a convolution with a cross-shaped kernel, masked by the region and repeated until
nothing changes: each round takes one step in every direction. Here a round takes the same steps for all points of a row
in one operation: `rows << 1` and `rows >> 1` are the horizontal taps, the rows above and below the vertical ones, `|`
is the sum and `& within` the mask. docs/benchmarks.md compares their speed.

A flood must reach its fixpoint. Kernels check for it board by board. Torch must not wait for the host to see what still
grows, so it finds strings in a number of rounds that is proven sufficient (`string_labels`). Both give the same result.
`host_read_is_free` decides everywhere whether the host may read a tensor inside a step to save work; between moves it
always may."""

import math
from functools import cache

import torch
from torch import Tensor

from zerogo import kernels


def host_read_is_free(tensor: Tensor) -> bool:
    """Returns whether the host may read this tensor into Python inside a step, so that a loop may depend on it. Reading
    waits for a GPU, so only tensors on the CPU may be read."""
    return tensor.device.type == "cpu"


def pack_rows(points: Tensor) -> Tensor:
    """Returns bit rows of a mask: bool [..., N, N] -> int32 [..., N]."""
    weights = 1 << torch.arange(points.shape[-1], dtype=torch.int32, device=points.device)
    return (points.to(torch.int32) * weights).sum(-1, dtype=torch.int32)


def unpack_rows(rows: Tensor) -> Tensor:
    """Returns the mask of bit rows: int32 [..., N] -> bool [..., N, N]."""
    bits = 1 << torch.arange(rows.shape[-1], dtype=torch.int32, device=rows.device)
    return (rows.unsqueeze(-1) & bits) != 0


@cache
def _point_table(board_size: int, device: torch.device) -> Tensor:
    """Returns the plane of each single point, and an empty one: int32 [P + 1, N]."""
    points = torch.arange(board_size * board_size + 1, device=device).unsqueeze(-1)
    row = torch.div(points, board_size, rounding_mode="floor")
    bit = (1 << (points - row * board_size)).to(torch.int32)
    return torch.where(row == torch.arange(board_size, device=device), bit, 0)


def points_to_rows(points: Tensor, board_size: int) -> Tensor:
    """Returns planes with at most one point each: int64 [K] point indices, P or negative for none -> int32 [K, N]."""
    none = board_size * board_size
    return _point_table(board_size, points.device).index_select(0, torch.where(points < 0, none, points))


def neighbours(rows: Tensor) -> Tensor:
    """Returns the points next to a point of the plane; they include a point of the plane only if a neighbour is in it:
    int32 [..., N] -> the same shape.

    Bits may lie beyond the last column: mask the result with a plane of the board."""
    near = rows << 1
    near |= rows >> 1
    near[..., 1:] |= rows[..., :-1]
    near[..., :-1] |= rows[..., 1:]
    return near


def count(rows: Tensor) -> Tensor:
    """Returns how many points a plane holds: int32 [..., N] -> int32 [...]."""
    x = rows - ((rows >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24).sum(-1, dtype=torch.int32)


def first_point(rows: Tensor) -> Tensor:
    """Returns the index of the only point of a plane: int32 [..., N] with exactly one point -> int64 [...]."""
    row = (rows != 0).to(torch.int8).argmax(-1)
    bit = rows.sum(-1, dtype=torch.int32).to(torch.float32)  # a power of two up to 2^24 is exact
    return row * rows.shape[-1] + torch.frexp(bit).exponent.to(torch.int64) - 1


def flood(seeds: Tensor, within: Tensor) -> Tensor:
    """Returns all points of `within` that are connected to a seed through it: int32 [..., N] each -> int32 [..., N].
    Seeds outside `within` do not count."""
    shape = seeds.shape
    seeds, within = (seeds & within).reshape(-1, shape[-1]), within.expand(shape).reshape(-1, shape[-1])
    fast = kernels.module_for("board", seeds.device)
    grown = _flood_bounded(seeds, within) if fast is None else fast.flood(seeds, within)
    return grown.reshape(shape)


def _flood_bounded(rows: Tensor, within: Tensor) -> Tensor:
    """Does the same without reading tensors: a point is reached if its string has a seed."""
    board_size = rows.shape[-1]
    inside = unpack_rows(within).flatten(-2)
    labels = string_labels(inside, board_size)
    is_seed = unpack_rows(rows).flatten(-2).to(torch.int32)
    seeded = torch.zeros_like(is_seed).scatter_reduce_(1, labels, is_seed, "amax")
    reached = inside & (seeded.gather(1, labels) != 0)
    return pack_rows(reached.unflatten(-1, (board_size, board_size)))


def string_labels(inside: Tensor, board_size: int, colour: Tensor | None = None) -> Tensor:
    """Returns for every point the label of its string, the same for all points of a string: bool [X, P] -> int64 [X,
    P]. Points outside get their own index.

    colour: int8 [X, P]; if given, only points of equal colour are connected. This is Borůvka's algorithm: in each round
    every part of a string joins a neighbouring part along its smallest edge, so the number of parts at least halves,
    and ceil(log2 P) rounds suffice. In a round pointer doubling shortens chains of joins, ceil(log2 P) times. No step
    depends on the data, so nothing waits for the host."""
    num_points = inside.shape[-1]
    rounds = max(1, math.ceil(math.log2(max(2, num_points))))
    points = torch.arange(num_points, device=inside.device)
    edges = []  # right and down: which points are connected with the next one
    for distance, has_next in (
        (1, points % board_size < board_size - 1),
        (board_size, points < num_points - board_size),
    ):
        joined = inside & torch.roll(inside, -distance, dims=-1) & has_next
        if colour is not None:
            joined = joined & (colour == torch.roll(colour, -distance, dims=-1))
        edges.append((distance, joined))
    labels = points.expand_as(inside).contiguous()
    for _ in range(rounds):
        best = torch.full_like(labels, 2 * num_points)
        for step, (distance, joined) in enumerate(edges):
            second = torch.roll(labels, -distance, dims=-1)
            edge = torch.where(joined & (labels != second), 2 * points + step, 2 * num_points)
            best.scatter_reduce_(1, labels, edge, "amin")
            best.scatter_reduce_(1, second, edge, "amin")
        parent = _join(best, labels, board_size)
        for _ in range(rounds):
            parent = parent.gather(1, parent)
        labels = parent.gather(1, labels)
    return labels


def _join(best: Tensor, labels: Tensor, board_size: int) -> Tensor:
    """Returns each part's new parent along its smallest edge; if two parts chose the same edge, the one with the
    smaller label becomes the root."""
    num_points = labels.shape[-1]
    points = torch.arange(num_points, device=labels.device)
    has_edge = best < 2 * num_points
    first = torch.where(has_edge, best >> 1, 0)
    second = torch.where(has_edge, first + torch.where((best & 1) == 0, 1, board_size), 0).clamp(max=num_points - 1)
    ends = labels.gather(1, first), labels.gather(1, second)
    other = torch.where(ends[0] == points, ends[1], ends[0])
    parent = torch.where(has_edge, other, points)
    is_mutual = (parent.gather(1, parent) == points) & (points < parent)
    return torch.where(is_mutual, points, parent)


def labels_beside(labels: Tensor, board_size: int) -> Tensor:
    """Returns the labels of each point's right, left, lower and upper neighbours: int64 [X, P] -> int64 [X, 4, P], P
    beyond the edge."""
    none = board_size * board_size
    padded = torch.nn.functional.pad(labels.unflatten(1, (board_size, board_size)), (1, 1, 1, 1), value=none)
    sides = padded[:, 1:-1, 2:], padded[:, 1:-1, :-2], padded[:, 2:, 1:-1], padded[:, :-2, 1:-1]
    return torch.stack([side.flatten(1) for side in sides], dim=1)


# Eyes, as the random player and the encoders define them

# The neighbours as (rows down, columns right): left, right, above, below; then the diagonals.
SIDES = ((0, -1), (0, 1), (-1, 0), (1, 0))
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def eyes(stones: Tensor, on_board: Tensor) -> Tensor:
    """Returns the eyes of a colour: its stones and the points on the board int32 [B, N] -> int32 [B, N].

    An eye is an empty point with own stones on all neighbours and on at least three of its four diagonals, at the edge
    on all of them. Points off the board count as own. The point itself may be occupied: callers exclude that."""
    around, here, edge = surroundings(stones, on_board)
    return (fits_eye(around, edge) & ~here) >> 1


def surroundings(stones: Tensor, on_board: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
    """Returns for each of SIDES and CORNERS the points whose neighbour there is own or off the board; the points that
    are own or off the board themselves; and the points at the edge: int32 [B, N] each.

    All bits are shifted up by one, to make room for the left border."""
    n = stones.shape[-1]
    outside = ~torch.nn.functional.pad(on_board << 1, (1, 1))
    solid = torch.nn.functional.pad(stones << 1, (1, 1)) | outside
    shifted = {-1: solid << 1, 0: solid, 1: solid >> 1}
    around = [shifted[right][..., 1 + down : 1 + down + n] for down, right in SIDES + CORNERS]
    middle = outside[..., 1 : n + 1]
    edge = (middle << 1) | (middle >> 1) | outside[..., :n] | outside[..., 2 : n + 2]
    return around, solid[..., 1 : n + 1], edge


def fits_eye(around: list[Tensor], edge: Tensor) -> Tensor:
    """Returns where the eight neighbours make an empty point an eye; arguments and result as in `surroundings`."""
    left, right, up, down, a, b, c, d = around
    above, below = a & b, c & d
    at_least_three = (above & (c | d)) | (below & (a | b))
    return left & right & up & down & at_least_three & ((above & below) | ~edge)
