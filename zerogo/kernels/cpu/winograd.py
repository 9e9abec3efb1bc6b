"""3x3 convolutions by Winograd's minimal filtering, F(3x3, 3x3) and F(4x4, 3x3) of https://arxiv.org/abs/1509.09308.

A tile of 3x3 outputs has 5x5 inputs. In another basis its convolution takes 25 multiplications for each pair of
channels instead of 81: 25 products of matrices, which torch computes. Tiles of 4x4 take 36 instead of 144. The kernels
change the basis. With AVX2 and batches of 64 that is 1.2 (7x7, 64 channels) to 1.9 times (9x9, 96) as fast as oneDNN,
and errors are 1e-6 of the result where oneDNN's are 3e-7. What is computed for a board does not depend on the number of
boards. A NaN spreads over its tile."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zerogo.kernels.cpu import array, kernel, part

AT_ONCE = 3_000_000  # bytes of tiles and products: more would not stay in the processor's cache
# By a tile's side, the change of basis for a line of three weights, in multiples of 1 / its last number.
WEIGHTS = {
    3: [[3, 0, 0], [-3, -3, -3], [-1, 1, -1], [1, 2, 4], [0, 0, 6]],
    4: [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]],
}


def _tile_for(side: int) -> int:
    return min(WEIGHTS, key=lambda tile: _products(tile) * _tiles(side, tile))


def _products(tile: int) -> int:
    return (tile + 2) ** 2


def _tiles(side: int, tile: int) -> int:
    return (-(-side // tile)) ** 2


@cache
def _of_weights(tile: int) -> tuple[Tensor, float]:
    """Returns the change of basis for 3x3 weights, float32 [products, 9], times a number, and that number."""
    line = torch.tensor(WEIGHTS[tile], dtype=torch.float32)
    return torch.kron(line, line), float(line[-1, -1] ** 2)


def in_tiles(weight: Tensor, side: int) -> Tensor:
    """Returns the weights of a convolution, [outputs, inputs, 3, 3], for `convolve`: [products, inputs, outputs], in
    the tiles with which a board of a side takes fewer multiplications; `convolve` sees which by their number."""
    change, divisor = _of_weights(_tile_for(side))
    planes = weight.permute(2, 3, 1, 0).reshape(9, -1) / divisor
    return (change @ planes).view(-1, weight.shape[1], weight.shape[0])


def convolve(x: Tensor, weights: Tensor, bias: Tensor | None, residual: Tensor | None, relu: bool) -> Tensor:
    """Returns the convolution plus bias and residual, then relu if asked for: float32 [B, C, N, N], channels_last.

    x, residual: float32 [B, C, N, N]. weights: float32 of `in_tiles`. bias: float32 [C], None for none. Without
    gradients: see `Convolution`."""
    boards = _with_channels_last(x)
    added = boards if residual is None else _with_channels_last(residual)
    tile, channels = round(len(weights) ** 0.5) - 2, boards.shape[3]
    bias = boards.new_zeros(channels) if bias is None else bias
    result = torch.empty_like(x, memory_format=torch.channels_last)
    y, from_tiles = result.permute(0, 2, 3, 1), _from_tiles(channels, tile)
    for here, tiles, sums in _parts(boards, tile):
        _to_tiles(channels, tile, False)(array(boards[here]), array(tiles))
        torch.bmm(tiles, weights, out=sums)
        from_tiles(array(sums), array(bias), array(added[here]), residual is not None, relu, array(y[here]))
    return result


def _with_channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()


def _parts(boards: Tensor, tile: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yields which boards are computed at once, and memory for two tensors of their tiles, [products, tiles, C], which
    serves the next boards, too.

    Contiguous also for the last boards: else torch rounds in another way."""
    number, side, _, channels = boards.shape
    products, tiles_a_board = _products(tile), _tiles(side, tile)
    at_once = max(1, AT_ONCE // (2 * boards.element_size() * products * tiles_a_board * channels))
    one = other = boards.new_empty(0)
    for start in range(0, number, at_once):
        here = slice(start, min(start + at_once, number))
        shape = products, (here.stop - start) * tiles_a_board, channels
        if one.shape != shape:
            one, other = boards.new_empty(shape), boards.new_empty(shape)
        yield here, one, other


class Convolution(torch.autograd.Function):
    """A convolution in training: float32 x [B, C, N, N] and weights [C, C, 3, 3]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Returns the outputs: float32 [B, C, N, N], channels_last."""
        ctx.save_for_backward(x, weight)
        return convolve(x, in_tiles(weight, x.shape[-1]), None, None, False)

    @staticmethod
    @once_differentiable
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Returns the gradients of x and of the weights, both channels_last, from those of the outputs; None for one
        that is not needed."""
        x, weight = ctx.saved_tensors
        of_inputs = of_weights = None
        if ctx.needs_input_grad[0]:
            turned = in_tiles(weight.flip(2, 3).transpose(0, 1), x.shape[-1])
            of_inputs = convolve(gradient, turned, None, None, False)
        if ctx.needs_input_grad[1]:
            of_weights = _weight_gradient(x, gradient)
        return of_inputs, of_weights


def _weight_gradient(x: Tensor, gradient: Tensor) -> Tensor:
    """Returns the gradient of the weights from the inputs and the gradient of the outputs: [C, C, 3, 3]."""
    boards, gradients = _with_channels_last(x), _with_channels_last(gradient)
    channels, tile = boards.shape[3], _tile_for(boards.shape[1])
    sums = boards.new_zeros(_products(tile), channels, channels)
    for here, inputs, outputs in _parts(boards, tile):
        _to_tiles(channels, tile, False)(array(boards[here]), array(inputs))
        _to_tiles(channels, tile, True)(array(gradients[here]), array(outputs))
        sums.baddbmm_(inputs.transpose(1, 2), outputs)
    change, divisor = _of_weights(tile)
    planes = change.T @ sums.flatten(1) / divisor
    return planes.view(3, 3, channels, channels).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


# Changes of basis for a line of up to six numbers, of which tiles of 3x3 have no sixth. The constants of the closures
# let LLVM use vectors; Numba could not cache one that holds another compiled function.


@part
def _to_basis(tile, is_gradient, a, b, c, d, e, f):
    """Returns a tile's inputs in the other basis, or the gradients of its products from those of its outputs."""
    four, bb = np.float32(4), b + b
    if is_gradient and tile == 3:
        ac = a + c
        return a, ac + b, ac - b, a + bb + four * c, c, f
    if is_gradient:
        ac, bd, less, more = a + c, b + d, a + four * c, bb + np.float32(8) * d
        return a, ac + bd, ac - bd, less + more, less - more, d
    if tile == 3:
        ac, bd = a - c, b - d
        return ac + ac - bd, d - c - bb, d - c - (c + c) + bb, -bd, e - c + bd + bd, f
    even, odd, ec, db = e - four * c, d - four * b, e - c, d - b
    return four * (a - c) + ec, even + odd, even - odd, ec + db + db, ec - db - db, four * (b - d) + f - d


@part
def _from_basis(tile, a, b, c, d, e, f):
    """Returns a tile's outputs from its products."""
    both, less, four = b + c, b - c, np.float32(4)
    if tile == 3:
        return a + both + d, less + d + d, both + four * d + e, f
    de, twice = d + e, d - e + d - e
    return a + both + de, less + twice, both + four * de, less + four * twice + f


@cache
def _to_tiles(channels: int, tile: int, is_gradient: bool) -> Callable:
    """Returns the change of basis for inputs, or for gradients of outputs."""
    spread = tile + 2
    border, lines = (0, tile) if is_gradient else (1, spread)

    @kernel
    def _write(boards, tiles):
        """Writes all tiles of the boards [B, N, N, C] in the other basis: [products, tiles, C]."""
        number, side = boards.shape[:2]
        wide, at = (side + tile - 1) // tile * tile, 0
        # With room for six numbers of a line, of which the last may not matter, behind any tile.
        padded, half = np.zeros((wide + 6, wide + 6, channels), np.float32), np.zeros((6, 6, channels), np.float32)
        for board in range(number):
            for row in range(side):
                for column in range(side):
                    for k in range(channels):
                        padded[row + border, column + border, k] = boards[board, row, column, k]
            for y in range(0, wide, tile):
                for x in range(0, wide, tile):
                    for j in range(lines):
                        for k in range(channels):
                            a, b, c = padded[y, x + j, k], padded[y + 1, x + j, k], padded[y + 2, x + j, k]
                            d, e, f = padded[y + 3, x + j, k], padded[y + 4, x + j, k], padded[y + 5, x + j, k]
                            a, b, c, d, e, f = _to_basis(tile, is_gradient, a, b, c, d, e, f)
                            half[0, j, k], half[1, j, k], half[2, j, k] = a, b, c
                            half[3, j, k], half[4, j, k], half[5, j, k] = d, e, f
                    for i in range(spread):
                        here = spread * i
                        for k in range(channels):
                            a, b, c, d = half[i, 0, k], half[i, 1, k], half[i, 2, k], half[i, 3, k]
                            a, b, c, d, e, f = _to_basis(tile, is_gradient, a, b, c, d, half[i, 4, k], half[i, 5, k])
                            tiles[here, at, k], tiles[here + 1, at, k], tiles[here + 2, at, k] = a, b, c
                            tiles[here + 3, at, k], tiles[here + 4, at, k] = d, e
                            if spread == 6:
                                tiles[here + 5, at, k] = f
                    at += 1

    return _write


@cache
def _from_tiles(channels: int, tile: int) -> Callable:
    """Returns the change back, for outputs."""
    spread = tile + 2

    @kernel
    def _write(sums, bias, added, adds, relu, boards):
        """Writes the outputs [B, N, N, C] of all products [products, tiles, C], with what is added to them."""
        number, side = boards.shape[:2]
        at, half, line = 0, np.zeros((4, 6, channels), np.float32), np.empty((4, channels), np.float32)
        for board in range(number):
            for top in range(0, side, tile):
                for left in range(0, side, tile):
                    for j in range(spread):
                        for k in range(channels):
                            a, b, c = sums[j, at, k], sums[spread + j, at, k], sums[2 * spread + j, at, k]
                            d, e = sums[3 * spread + j, at, k], sums[4 * spread + j, at, k]
                            f = sums[(spread - 1) * spread + j, at, k]
                            a, b, c, d = _from_basis(tile, a, b, c, d, e, f)
                            half[0, j, k], half[1, j, k], half[2, j, k], half[3, j, k] = a, b, c, d
                    for y in range(top, min(top + tile, side)):
                        i = y - top
                        for k in range(channels):
                            a, b, c, d = half[i, 0, k], half[i, 1, k], half[i, 2, k], half[i, 3, k]
                            a, b, c, d = _from_basis(tile, a, b, c, d, half[i, 4, k], half[i, 5, k])
                            line[0, k], line[1, k], line[2, k], line[3, k] = a, b, c, d
                        for x in range(left, min(left + tile, side)):
                            if adds:
                                for k in range(channels):
                                    line[x - left, k] += added[board, y, x, k]
                            for k in range(channels):
                                boards[board, y, x, k] = line[x - left, k] + bias[k]
                            if relu:
                                for k in range(channels):
                                    value = boards[board, y, x, k]
                                    boards[board, y, x, k] = np.float32(0) if value < 0 else value  # a NaN stays
                    at += 1

    return _write
