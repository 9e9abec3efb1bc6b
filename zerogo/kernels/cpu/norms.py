"""Batch normalisation in training, with the residual and the relu that follow it, in two passes over the numbers and
two over their gradients. Numbers are float32 [P, C]: P points of all boards, their C channels together."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zerogo.kernels.cpu import array, kernel, load_line, store_line

ROWS = 64  # points whose sums are float32; sums of these are float64


class FinishedNorm(torch.autograd.Function):
    """float32 x [B, C, N, N], weight and bias [C], and a residual like x or None."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, relu: bool, eps: float
    ) -> tuple[Tensor, Tensor]:
        """Returns weight * (x - mean) / sqrt(variance + eps) + bias + residual, then relu if asked for, [B, C, N, N],
        channels_last; and mean and variance, float32 [2, C], which pass no gradients."""
        rows, added, y = _rows(x), residual is not None, torch.empty_like(x, memory_format=torch.channels_last)
        statistics = rows.new_empty(2, x.shape[1])
        inputs = rows, weight.detach(), bias.detach(), _rows(residual) if added else rows
        _normalise(x.shape[1])(*map(array, inputs), added, relu, eps, *map(array, (_rows(y), statistics)))
        ctx.save_for_backward(rows, weight, y if relu else None, statistics)
        ctx.added, ctx.eps = added, eps
        ctx.mark_non_differentiable(statistics)
        return y, statistics

    @staticmethod
    @once_differentiable
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of x, the weight, the bias and the residual."""
        rows, weight, y, statistics = ctx.saved_tensors
        gradients, has_relu = _rows(gradient), y is not None
        summed = torch.empty_like(gradients) if has_relu else gradients  # of the sum that the relu takes
        of_x, of_parameters = torch.empty_like(rows), rows.new_empty(2, rows.shape[1])
        inputs = gradients, rows, weight.detach(), _rows(y) if has_relu else gradients, statistics
        results = map(array, (summed, of_x, of_parameters))
        _differentiate(rows.shape[1])(*map(array, inputs), has_relu, ctx.eps, *results)
        number, channels, height, width = gradient.shape
        of_x, summed = (part.view(number, height, width, channels).permute(0, 3, 1, 2) for part in (of_x, summed))
        return of_x, *of_parameters, summed if ctx.added else None, None, None


def _rows(x: Tensor) -> Tensor:
    """Returns the channels of each point, contiguous: [B, C, N, N] -> [B * N * N, C]."""
    return x.detach().permute(0, 2, 3, 1).reshape(-1, x.shape[1]).contiguous()


@cache
def _normalise(channels: int) -> Callable:
    @kernel
    def _loop(x, weight, bias, residual, added, relu, eps, y, statistics):
        """Writes y [P, C], mean and variance [2, C]. residual counts only if it is to be added."""
        number = len(x)
        sums, partial = np.zeros((2, channels)), np.zeros((2, channels), np.float32)
        first, scale, shift = x[0].copy(), np.empty(channels, np.float32), np.empty(channels, np.float32)
        for start in range(0, number, ROWS):
            partial[:] = 0
            for row in range(start, min(start + ROWS, number)):
                for k in range(channels):
                    away = x[row, k] - first[k]  # of numbers far from 0 the sum of squares would lose the variance
                    partial[0, k] += away
                    partial[1, k] += away * away
            sums += partial
        for k in range(channels):
            mean = sums[0, k] / number
            variance = sums[1, k] / number - mean * mean
            variance = 0.0 if variance < 0 else variance  # a NaN stays
            statistics[0, k], statistics[1, k] = first[k] + mean, variance
            scale[k] = weight[k] / np.sqrt(variance + eps)
            shift[k] = bias[k] - scale[k] * (first[k] + mean)
        for row in range(number):
            for k in range(channels):
                value = load_line(x, (row, k), 0, 1, 1)[0] * load_line(scale, (k,), 0, 1, 1)[0]
                value += load_line(shift, (k,), 0, 1, 1)[0]
                if added:
                    value += load_line(residual, (row, k), 0, 1, 1)[0]
                value = np.float32(0) if relu and value < 0 else value  # a NaN stays
                store_line(y, (row, k), 0, 1, 1, (value,))

    return _loop


@cache
def _differentiate(channels: int) -> Callable:
    @kernel
    def _loop(gradients, x, weight, y, statistics, relu, eps, summed, of_x, of_parameters):
        """Writes the gradients: of the relu's input, if there is a relu, of x, and of weight and bias [2, C]."""
        number = len(x)
        sums, partial = np.zeros((2, channels)), np.zeros((2, channels), np.float32)
        mean, scale = statistics[0].copy(), np.empty(channels, np.float32)
        slope, shift = np.empty(channels, np.float32), np.empty(channels, np.float32)
        for start in range(0, number, ROWS):
            partial[:] = 0
            for row in range(start, min(start + ROWS, number)):
                if relu:
                    for k in range(channels):
                        gradient = load_line(gradients, (row, k), 0, 1, 1)[0]
                        is_cut = load_line(y, (row, k), 0, 1, 1)[0] <= 0
                        store_line(summed, (row, k), 0, 1, 1, (np.float32(0) if is_cut else gradient,))
                for k in range(channels):
                    partial[0, k] += summed[row, k] * (x[row, k] - mean[k])
                    partial[1, k] += summed[row, k]
            sums += partial
        for k in range(channels):
            inverse = 1 / np.sqrt(statistics[1, k] + eps)
            of_parameters[0, k], of_parameters[1, k] = inverse * sums[0, k], sums[1, k]
            scale[k] = weight[k] * inverse
            slope[k] = -scale[k] * inverse * of_parameters[0, k] / number
            shift[k] = -scale[k] * sums[1, k] / number - slope[k] * mean[k]
        for row in range(number):
            for k in range(channels):
                value = load_line(summed, (row, k), 0, 1, 2)[0] * load_line(scale, (k,), 0, 1, 2)[0]
                value += load_line(x, (row, k), 0, 1, 2)[0] * load_line(slope, (k,), 0, 1, 2)[0]
                store_line(of_x, (row, k), 0, 1, 2, (value + load_line(shift, (k,), 0, 1, 2)[0],))

    return _loop
