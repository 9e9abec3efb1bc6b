"""3x3 convolutions for playing by Winograd's minimal filtering, F(3x3, 3x3) of https://arxiv.org/abs/1509.09308.

A tile of 3x3 outputs has 5x5 inputs. In another basis its convolution takes 25 multiplications for each pair of
channels instead of 81: 25 products of matrices, which torch computes. The kernels change the basis. With AVX2 and
batches of 8 and more that is 1.2 times (7x7, 64 channels) to 1.9 times (9x9, 96) as fast as oneDNN, with errors of 1e-5
where oneDNN has 1e-6. What it computes for a board does not depend on the number of boards."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu import array, kernel, part

TILE, SPREAD = 3, 5  # sides of a tile's outputs and inputs
AT_ONCE = 3_000_000  # bytes of tiles and products: more would not stay in the processor's cache


def convolve(x: Tensor, weights: Tensor, bias: Tensor, residual: Tensor | None, relu: bool) -> Tensor:
    """Returns the convolution plus bias and residual, then relu if asked for: float32 [B, C, N, N], channels_last.

    x, residual: float32 [B, C, N, N]. weights: float32 [25, C, C] of `network.fused.in_tiles`. bias: float32 [C]."""
    boards = x.permute(0, 2, 3, 1).contiguous()
    added = boards if residual is None else residual.permute(0, 2, 3, 1).contiguous()
    number, side, _, channels = boards.shape
    y, to_tiles, from_tiles = torch.empty_like(boards), _to_basis(channels), _from_basis(channels)
    tiles_a_board, sums = (-(-side // TILE)) ** 2, boards.new_empty(0, 0, 0)
    at_once = max(1, AT_ONCE // (2 * 4 * SPREAD * SPREAD * tiles_a_board * channels))
    for first in range(0, number, at_once):
        here = slice(first, min(first + at_once, number))
        shape = SPREAD * SPREAD, (here.stop - first) * tiles_a_board, channels
        if sums.shape != shape:  # contiguous also for the last boards: else torch rounds in another way
            tiles, sums = boards.new_empty(shape), boards.new_empty(shape)
        to_tiles(array(boards[here]), array(tiles))
        torch.bmm(tiles, weights, out=sums)
        from_tiles(array(sums), array(bias), array(added[here]), residual is not None, relu, array(y[here]))
    return y.permute(0, 3, 1, 2)


@part
def _spread(a, b, c, d, e):
    """Returns five inputs of a line in the other basis."""
    ac, bd, twice = a - c, b - d, b + b
    return ac + ac - bd, d - c - twice, d - c - (c + c) + twice, -bd, e - c + bd + bd


@part
def _gather(a, b, c, d, e):
    """Returns three outputs of a line from five products."""
    both, twice = b + c, d + d
    return a + both + d, b - c + twice, both + twice + twice + e


@cache
def _to_basis(channels: int) -> Callable:
    """Returns the change of basis for a number of channels, a constant without which LLVM would use no vectors."""

    @kernel
    def _to_tiles(boards, tiles):
        """Writes all tiles of the boards [B, N, N, C] in the other basis: [25, tiles, C]."""
        number, side = boards.shape[:2]
        wide, tile = (side + TILE - 1) // TILE * TILE, 0
        padded, half = np.zeros((wide + 2, wide + 2, channels), np.float32), np.empty((5, 5, channels), np.float32)
        for board in range(number):
            for row in range(side):
                for column in range(side):
                    for k in range(channels):
                        padded[row + 1, column + 1, k] = boards[board, row, column, k]
            for y in range(0, wide, TILE):
                for x in range(0, wide, TILE):
                    for j in range(SPREAD):
                        for k in range(channels):
                            a, b, c = padded[y, x + j, k], padded[y + 1, x + j, k], padded[y + 2, x + j, k]
                            a, b, c, d, e = _spread(a, b, c, padded[y + 3, x + j, k], padded[y + 4, x + j, k])
                            half[0, j, k], half[1, j, k], half[2, j, k], half[3, j, k], half[4, j, k] = a, b, c, d, e
                    for i in range(SPREAD):
                        at = SPREAD * i
                        for k in range(channels):
                            a, b, c = half[i, 0, k], half[i, 1, k], half[i, 2, k]
                            a, b, c, d, e = _spread(a, b, c, half[i, 3, k], half[i, 4, k])
                            tiles[at, tile, k], tiles[at + 1, tile, k], tiles[at + 2, tile, k] = a, b, c
                            tiles[at + 3, tile, k], tiles[at + 4, tile, k] = d, e
                    tile += 1

    return _to_tiles


@cache
def _from_basis(channels: int) -> Callable:
    """Returns the change back, for a number of channels."""

    @kernel
    def _from_tiles(sums, bias, added, adds, relu, boards):
        """Writes the outputs [B, N, N, C] of all products [25, tiles, C], with what is added to them."""
        number, side = boards.shape[:2]
        tile, half, line = 0, np.empty((3, 5, channels), np.float32), np.empty((3, channels), np.float32)
        for board in range(number):
            for top in range(0, side, TILE):
                for left in range(0, side, TILE):
                    for j in range(SPREAD):
                        for k in range(channels):
                            a, b, c = sums[j, tile, k], sums[5 + j, tile, k], sums[10 + j, tile, k]
                            a, b, c = _gather(a, b, c, sums[15 + j, tile, k], sums[20 + j, tile, k])
                            half[0, j, k], half[1, j, k], half[2, j, k] = a, b, c
                    for y in range(top, min(top + TILE, side)):
                        for k in range(channels):
                            a, b, c = half[y - top, 0, k], half[y - top, 1, k], half[y - top, 2, k]
                            a, b, c = _gather(a, b, c, half[y - top, 3, k], half[y - top, 4, k])
                            line[0, k], line[1, k], line[2, k] = a, b, c
                        for x in range(left, min(left + TILE, side)):
                            if adds:
                                for k in range(channels):
                                    line[x - left, k] += added[board, y, x, k]
                            for k in range(channels):
                                boards[board, y, x, k] = line[x - left, k] + bias[k]
                            if relu:
                                for k in range(channels):
                                    value = boards[board, y, x, k]
                                    boards[board, y, x, k] = np.float32(0) if value < 0 else value  # a NaN stays
                    tile += 1

    return _from_tiles
