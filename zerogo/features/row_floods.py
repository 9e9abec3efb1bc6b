"""Floods of bit rows in NumPy (see `zerogo.flood`), for the plain ladder reader: most of its rounds have few lanes,
where torch's calls would cost more than their work."""

from __future__ import annotations

import numpy as np

FEW = 48  # so few boards cost no more than the calls; picking the unfinished ones from them would


def flood(seeds: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Returns all points of `within` that are connected to a seed through it: seeds (already within), within int32 or
    int16 [K, N] -> the same.

    Grows by two steps, then by four at a time, and goes on with the planes that changed: most strings are small, a few
    snake. An empty row after each plane lets one shift of the flat array serve all rows without running from board to
    board."""
    num_planes, board_size = seeds.shape
    rows = np.zeros((num_planes, board_size + 1), seeds.dtype)
    inside = np.zeros((num_planes, board_size + 1), seeds.dtype)
    rows[:, :-1], inside[:, :-1] = seeds, within
    result, lanes, steps = rows, None, 1
    while len(rows):
        before, after, scratch = rows.reshape(-1), np.empty(rows.size, rows.dtype), np.empty(rows.size, rows.dtype)
        for _ in range(steps):
            _spread(before, after, scratch)
            after &= inside.reshape(-1)
            _spread(after, before, scratch)
            before &= inside.reshape(-1)
        growing, steps = np.flatnonzero(np.not_equal(before, after).reshape(rows.shape).any(1)), 2
        if len(growing) and len(rows) < FEW:
            continue
        if len(growing) < len(rows):
            if lanes is not None:
                result[lanes] = rows
            lanes = growing if lanes is None else lanes[growing]
            rows, inside = rows.take(growing, axis=0), inside.take(growing, axis=0)
    return result[:, :-1]


def _spread(rows: np.ndarray, spread: np.ndarray, scratch: np.ndarray) -> None:
    """Writes into `spread` the points and their neighbours; flat arrays, the two results are contiguous and not the
    first.
    """
    np.left_shift(rows, 1, out=spread)
    np.right_shift(rows, 1, out=scratch)
    spread |= scratch
    spread |= rows
    spread[1:] |= rows[:-1]
    spread[:-1] |= rows[1:]


def neighbours(rows: np.ndarray) -> np.ndarray:
    """`neighbours` in NumPy: int32 [K, N] -> int32 [K, N]. Flat shifts move whole boards; the row that would run into
    the next one is emptied."""
    near, shifted = rows << 1, rows >> 1
    near |= shifted
    np.copyto(shifted, rows)
    shifted[:, -1] = 0
    near.reshape(-1)[1:] |= shifted.reshape(-1)[:-1]
    np.copyto(shifted, rows)
    shifted[:, 0] = 0
    near.reshape(-1)[:-1] |= shifted.reshape(-1)[1:]
    return near
