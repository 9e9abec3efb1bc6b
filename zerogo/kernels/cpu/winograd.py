"""3x3 convolutions by Winograd's minimal filtering, F(5x5, 3x3) and F(7x7, 3x3) of https://arxiv.org/abs/1509.09308.

A tile of 5x5 outputs has 7x7 inputs. In another basis its convolution takes 49 multiplications for each pair of
channels instead of 225: 49 products of matrices (`products`). Tiles of 7x7 take 81 instead of 441. The kernels
change the basis. With AVX2 and 64 boards a convolution is 1.5 to 2.5 times as fast as oneDNN's (9x9 with 32 channels,
7x7 with 64), and errors are 1e-6 to 4e-5 of the result where oneDNN's are 3e-7. What is computed for a board does not
depend on the number of boards, so one or two boards use tiles, too; oneDNN would take as long, or half the time where
torch computes the products. A NaN spreads over its tile."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zerogo.kernels import cpu
from zerogo.kernels.cpu import array, load_line, store_line
from zerogo.kernels.cpu.products import fewest_rows, multiply_

# A multiplication and the addition of its result may become one instruction, which rounds once.
kernel, part = (partial(compiled, fastmath={"contract"}) for compiled in (cpu.kernel, cpu.part))
AT_ONCE = 3_000_000  # bytes of tiles and products: more would not stay in the processor's cache
# The points of a tile, which are a polynomial's arguments: the first three for 5x5, their negatives, and infinity. Of
# nine numbers that were tried these have the smallest errors with 7x7, and nearly so with 5x5.
POINTS = 1.0, 2.0, 0.25, 0.75


def _tile_for(side: int) -> int:
    return min((5, 7), key=lambda tile: _products(tile) * _tiles(side, tile))


def _products(tile: int) -> int:
    return (tile + 2) ** 2


def _tiles(side: int, tile: int) -> int:
    return (-(-side // tile)) ** 2


@cache
def _of_weights(tile: int) -> Tensor:
    """Returns the change of basis for 3x3 weights: float32 [products, 9]."""
    points = torch.tensor([[point, -point] for point in POINTS[: (tile + 1) // 2]], dtype=torch.float64).flatten()
    away = (points.unsqueeze(1) - points).fill_diagonal_(1).prod(1, keepdim=True)
    powers = points.unsqueeze(1) ** torch.arange(3)
    line = torch.cat([powers / away, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)])
    return torch.kron(line, line).to(torch.float32)


def in_tiles(weight: Tensor, side: int) -> Tensor:
    """Returns the weights of a convolution, [outputs, inputs, 3, 3], for `convolve`: [products, inputs, outputs], in
    the tiles with which a board of a side takes fewer multiplications; `convolve` sees which by their number."""
    planes = weight.permute(2, 3, 1, 0)
    return (_of_weights(_tile_for(side)) @ planes.reshape(9, -1)).view(-1, *planes.shape[2:])


def convolve(x: Tensor, weights: Tensor, bias: Tensor | None, residual: Tensor | None, relu: bool) -> Tensor:
    """Returns the convolution plus bias and residual, then relu if asked for: float32 [B, outputs, N, N] in
    channels_last memory.

    x: float32 [B, inputs, N, N]. weights: float32 of `in_tiles`. bias: float32 [outputs], None for none. residual: like
    the result, None for none. Without gradients: see `Convolution`."""
    boards = _with_channels_last(x)
    added = boards if residual is None else _with_channels_last(residual)
    tile, (inputs, outputs) = round(len(weights) ** 0.5) - 2, weights.shape[1:]
    assert boards.shape[3] == inputs, f"{boards.shape[3]} channels, not {inputs}"
    bias = boards.new_zeros(outputs) if bias is None else bias
    result = torch.empty((len(x), outputs, *x.shape[2:]), memory_format=torch.channels_last)
    y, to_tiles, from_tiles = result.permute(0, 2, 3, 1), _to_tiles(inputs, tile, False), _from_tiles(outputs, tile)
    for here, tiles, sums in _parts(boards, tile, outputs, spare=1):
        to_tiles(array(boards[here]), array(tiles))
        multiply_(sums, tiles, weights)
        from_tiles(array(sums), array(bias), array(added[here]), residual is not None, relu, array(y[here]))
    return result


def _with_channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()


def _parts(boards: Tensor, tile: int, outputs: int, spare: int = 0) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yields which boards are computed at once, and memory for the tiles of their inputs and of their outputs,
    [products, tiles, channels] each, which serves the next boards, too.

    Contiguous, and padded with rows of zeros where tiles are few: else torch rounds differently. spare: 1 makes the
    number of rows for inputs odd, by a last one that stays unused: with 32 or 64 all numbers of a tile go to the same
    few sets of the processor's cache, and writing them takes a quarter longer."""
    number, side, _, inputs = boards.shape
    products, tiles_a_board = _products(tile), _tiles(side, tile)
    at_once = max(1, AT_ONCE // (boards.element_size() * products * tiles_a_board * (inputs + outputs)))
    at_once = -(-number // -(-number // at_once)) if number else 1  # in parts of one size: up to 5 % faster
    max_rows = max(fewest_rows(outputs), at_once * tiles_a_board)
    of_inputs, of_outputs = (boards.new_empty(products * n) for n in ((max_rows | spare) * inputs, max_rows * outputs))
    for start in range(0, number, at_once):
        here = slice(start, min(start + at_once, number))
        used = (here.stop - start) * tiles_a_board
        rows = max(fewest_rows(outputs), used)
        tiles = of_inputs[: products * (rows | spare) * inputs].view(products, -1, inputs)
        sums = of_outputs[: products * rows * outputs].view(products, -1, outputs)
        if rows > used:  # else rows of the boards before might stay
            torch._foreach_zero_([tiles, sums])
        yield here, tiles, sums


class Convolution(torch.autograd.Function):
    """A convolution in training: float32 x [B, inputs, N, N] and weights [outputs, inputs, 3, 3]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Returns the outputs: float32 [B, outputs, N, N], channels_last."""
        ctx.save_for_backward(x, weight)
        return convolve(x, in_tiles(weight, x.shape[-1]), None, None, False)

    @staticmethod
    @once_differentiable
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
        """Returns the gradients of x and of the weights, both channels_last, from those of the outputs; None for that
        of x where it is not needed.

        Each step is the transpose of one of the forward pass, so the outputs' gradients change basis once for both."""
        x, weight = ctx.saved_tensors
        boards, gradients, (outputs, inputs) = _with_channels_last(x), _with_channels_last(gradient), weight.shape[:2]
        side, of_boards = boards.shape[1], torch.empty_like(boards) if ctx.needs_input_grad[0] else None
        turned = None if of_boards is None else in_tiles(weight.detach().transpose(0, 1), side)
        tile = _tile_for(side)
        sums = boards.new_empty(_products(tile), outputs, inputs)
        to_tiles, to_gradients = _to_tiles(inputs, tile, False), _to_tiles(outputs, tile, True)
        for here, tiles, of_outputs in _parts(boards, tile, outputs):
            to_tiles(array(boards[here]), array(tiles))
            to_gradients(array(gradients[here]), array(of_outputs))
            multiply_(sums, of_outputs.transpose(1, 2), tiles, adds=here.start > 0)
            if of_boards is not None and turned is not None:
                multiply_(tiles, of_outputs, turned)
                _from_inputs(inputs, tile)(array(tiles), array(of_boards[here]))
        of_inputs = None if of_boards is None else of_boards.permute(0, 3, 1, 2)
        planes = (_of_weights(tile).T @ sums.flatten(1)).view(3, 3, outputs, inputs)
        return of_inputs, planes.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)


# Changes of basis for a line of up to nine numbers; tiles of 5x5 have no last two. The constants of the closures let
# LLVM use vectors; Numba could not cache one that holds another compiled function.


@part
def _at_points(line, p, q, r, s):
    """Returns the products of a line and the coefficients of (x + p)(x^2 - q)(x^2 - r)(x^2 - s), and of it with -p;
    of (x + p)(x^2 - q)(x^2 - r) if s is 0."""
    a, b, c, d, e, f, g, h, _ = line
    one, two, three = np.float32(-q * r * s), np.float32(q * r + q * s + r * s), np.float32(-q - r - s)
    if s == 0:
        even, odd = two * a + three * c + e, two * b + three * d + f
    else:
        even, odd = one * a + two * c + three * e + g, one * b + two * d + three * f + h
    even = np.float32(p) * even
    return odd + even, odd - even


@part
def _of_outputs(line, p):
    """Returns the values of a polynomial at p and -p."""
    a, b, c, d, e, f, g, _, _ = line
    square = np.float32(p * p)
    even, odd = a + square * (c + square * (e + square * g)), np.float32(p) * (b + square * (d + square * f))
    return even + odd, even - odd


@part
def _to_basis(tile, is_gradient, line):
    """Returns a tile's inputs in the other basis, or the gradients of its products from those of its outputs."""
    a, _, c, _, e, _, g, _, i = line
    if is_gradient:
        first = _of_outputs(line, 1) + _of_outputs(line, 2) + _of_outputs(line, 0.25)
        return first + (e, e, e) if tile == 5 else first + _of_outputs(line, 0.75) + (g,)
    if tile == 5:
        last = np.float32(4.3125) * c - np.float32(0.25) * a - np.float32(5.0625) * e + g
        one, two = _at_points(line, 1, 4, 0.0625, 0), _at_points(line, 2, 1, 0.0625, 0)
        return one + two + _at_points(line, 0.25, 1, 4, 0) + (last, last, last)
    last = np.float32(0.140625) * a - np.float32(2.67578125) * c + np.float32(7.16015625) * e
    last += i - np.float32(5.625) * g
    one, two = _at_points(line, 1, 4, 0.0625, 0.5625), _at_points(line, 2, 1, 0.0625, 0.5625)
    return one + two + _at_points(line, 0.25, 1, 4, 0.5625) + _at_points(line, 0.75, 1, 4, 0.0625) + (last,)


@part
def _powers(at_point, opposite, p):
    """Returns the products at p and -p, times the powers of these points from 0 to 6, as sums of both."""
    even, odd, square = at_point + opposite, np.float32(p) * (at_point - opposite), np.float32(p * p)
    even2, odd2 = square * even, square * odd
    return even, odd, even2, odd2, square * even2, square * odd2, square * (square * even2)


@part
def _plus(x, y):
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4], x[5] + y[5], x[6] + y[6]


@part
def _from_basis(tile, line):
    """Returns a tile's outputs from its products."""
    a, b, c, d, e, f, g, h, i = line
    y = _plus(_plus(_powers(a, b, 1), _powers(c, d, 2)), _powers(e, f, 0.25))
    if tile == 5:
        return y[0], y[1], y[2], y[3], y[4] + g, g, g
    y = _plus(y, _powers(g, h, 0.75))
    return y[0], y[1], y[2], y[3], y[4], y[5], y[6] + i


@part
def _adjoint(at_point, opposite, p, q, r, s):
    """Returns the transpose of `_at_points`, applied to two products: the first seven numbers of a line."""
    even, odd = np.float32(p) * (at_point - opposite), at_point + opposite
    one, two, three = np.float32(-q * r * s), np.float32(q * r + q * s + r * s), np.float32(-q - r - s)
    if s == 0:
        return two * even, two * odd, three * even, three * odd, even, odd, np.float32(0)
    return one * even, one * odd, two * even, two * odd, three * even, three * odd, even


@part
def _from_gradients(tile, line):
    """Returns the transpose of `_to_basis`: the gradients of a tile's inputs from those in the other basis."""
    a, b, c, d, e, f, g, h, i = line
    if tile == 5:
        y = _plus(_adjoint(a, b, 1, 4, 0.0625, 0), _adjoint(c, d, 2, 1, 0.0625, 0))
        y = _plus(y, _adjoint(e, f, 0.25, 1, 4, 0))
        first, third, fifth = np.float32(0.25) * g, np.float32(4.3125) * g, np.float32(5.0625) * g
        return y[0] - first, y[1], y[2] + third, y[3], y[4] - fifth, y[5], g, g, g
    y = _plus(_adjoint(a, b, 1, 4, 0.0625, 0.5625), _adjoint(c, d, 2, 1, 0.0625, 0.5625))
    y = _plus(_plus(y, _adjoint(e, f, 0.25, 1, 4, 0.5625)), _adjoint(g, h, 0.75, 1, 4, 0.0625))
    odd = a + b + c + d + e + f + g + h
    first, third = np.float32(0.140625) * i, np.float32(2.67578125) * i
    fifth, seventh = np.float32(7.16015625) * i, np.float32(5.625) * i
    return y[0] + first, y[1], y[2] - third, y[3], y[4] + fifth, y[5], y[6] - seventh, odd, i


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
        padded = np.zeros((wide + 2, wide + 2, channels), np.float32)
        half = np.empty((spread, lines, channels), np.float32)
        for board in range(number):
            for row in range(side):
                for column in range(side):
                    for k in range(channels):
                        padded[row + border, column + border, k] = boards[board, row, column, k]
            for y in range(0, wide, tile):
                for x in range(0, wide, tile):
                    for j in range(lines):
                        for k in range(channels):
                            line = _to_basis(tile, is_gradient, load_line(padded, (y, x + j, k), 0, lines, 1))
                            store_line(half, (0, j, k), 0, spread, 1, line)
                    for i in range(spread):
                        for k in range(channels):
                            line = _to_basis(tile, is_gradient, load_line(half, (i, 0, k), 1, lines, 2))
                            store_line(tiles, (spread * i, at, k), 0, spread, 2, line)
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
        at, half, line = 0, np.empty((tile, spread, channels), np.float32), np.empty((tile, channels), np.float32)
        grid = sums.reshape(spread, spread, sums.shape[1], channels)
        for board in range(number):
            for top in range(0, side, tile):
                for left in range(0, side, tile):
                    for j in range(spread):
                        for k in range(channels):
                            numbers = _from_basis(tile, load_line(grid, (0, j, at, k), 0, spread, 1))
                            store_line(half, (0, j, k), 0, tile, 1, numbers)
                    for y in range(top, min(top + tile, side)):
                        for k in range(channels):
                            numbers = _from_basis(tile, load_line(half, (y - top, 0, k), 1, spread, 2))
                            store_line(line, (0, k), 0, tile, 2, numbers)
                        for x in range(left, min(left + tile, side)):
                            for k in range(channels):
                                value = load_line(line, (x - left, k), 0, 1, 3)[0]
                                if adds:
                                    value += load_line(added, (board, y, x, k), 0, 1, 3)[0]
                                value += load_line(bias, (k,), 0, 1, 3)[0]
                                value = np.float32(0) if relu and value < 0 else value  # a NaN stays
                                store_line(boards, (board, y, x, k), 0, 1, 3, (value,))
                    at += 1

    return _write


@cache
def _from_inputs(channels: int, tile: int) -> Callable:
    """Returns the change back, for gradients of inputs, which tiles share at their edges."""
    spread = tile + 2

    @kernel
    def _write(tiles, boards):
        """Writes the boards [B, N, N, C] of all tiles [products, tiles, C]."""
        number, side = boards.shape[:2]
        wide, at = (side + tile - 1) // tile * tile, 0
        padded = np.empty((wide + 2, wide + 2, channels), np.float32)
        half, line = np.empty((spread, spread, channels), np.float32), np.empty((spread, channels), np.float32)
        grid = tiles.reshape(spread, spread, tiles.shape[1], channels)
        for board in range(number):
            padded[:] = 0
            for top in range(0, wide, tile):
                for left in range(0, wide, tile):
                    for j in range(spread):
                        for k in range(channels):
                            numbers = _from_gradients(tile, load_line(grid, (0, j, at, k), 0, spread, 1))
                            store_line(half, (0, j, k), 0, spread, 1, numbers)
                    for i in range(spread):
                        for k in range(channels):
                            numbers = _from_gradients(tile, load_line(half, (i, 0, k), 1, spread, 2))
                            store_line(line, (0, k), 0, spread, 2, numbers)
                        for j in range(spread):
                            for k in range(channels):
                                padded[top + i, left + j, k] += line[j, k]
                    at += 1
            for row in range(side):
                for column in range(side):
                    for k in range(channels):
                        boards[board, row, column, k] = padded[row + 1, column + 1, k]

    return _write
