"""Random games on the CPU, one by one: the same draws and games as in `players.playout.play_out`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.arguments import PositionFields
from zerogo.kernels.cpu.loops import arrays_of, bit_count, inline, kernel, over_games, part
from zerogo.kernels.cpu.planes import eyes_of_row
from zerogo.kernels.cpu.strings import ATARI, FREE, OTHER, OWN, load, move, scratch
from zerogo.kernels.shared import GOLDEN, mix

_mix = inline(mix)


def play_out(state: Any, keys: Tensor, longest: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones at the ends of K random games, black and white, int32 [2, K, N], and the points that the side
    to move at the start was the first to play, int32 [K, N].

    state: `board.State` of B positions, K / B games from each. keys: int64 [K]. longest: int32 [B], plies after which a
    game ends."""
    last = torch.zeros(3, len(keys), state.board_size, dtype=torch.int32)
    over_games(_play_out, len(keys), arrays_of(PositionFields, state), state.on_board, keys, longest, last)
    return last[:2], last[2]


@kernel
def _play_out(start, stop, position, on_board, keys, longest, last):
    size, each = on_board.shape[1], len(keys) // len(on_board)
    work, struck, points, seen = scratch(), np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32)
    solid, off = np.full(size + 2, ~np.uint32(0)), np.full(size + 2, ~np.uint32(0))
    no_keys = np.zeros(2 * (size * size + 1), np.int64)  # a playout needs no hash
    for k in range(start, stop):
        game = k // each
        for row in range(size):
            off[row + 1] = ~(np.uint32(on_board[game, row]) << np.uint32(1))
            struck[row], seen[row] = 0, 0
        ko, key, ply = position.ko[game], keys[k], 0
        passes, is_black = 2 if position.finished[game] else position.passes[game], position.to_play[game] == 1
        load(work, position, game, on_board[game])
        while passes < 2 and ply < longest[game]:
            if ko >= 0:
                struck[ko // size] |= 1 << (ko % size)
                ko = -1
            number = _list_points(work, struck, solid, off, points)
            key += GOLDEN
            passes += 1
            if number > 0:
                rank = (((_mix(key) >> 40) & 0xFFFFFF) * number) >> 24
                row, bit = _point_of(points, rank)
                if not _is_legal(work, row, bit):
                    struck[row - 1] |= bit
                    passes -= 1
                    continue
                action = (row - 1) * size + bit_count((bit & -bit) - 1)
                _, _, _, ko = move(work, size, action, 0, False, no_keys)
                passes = 0
                if ply & 1 == 0:
                    last[2, k, row - 1] |= bit & ~seen[row - 1]
                seen[row - 1] |= bit
            struck[:] = 0
            for row in range(1, size + 1):
                work[OWN + row], work[OTHER + row] = work[OTHER + row], work[OWN + row]
            is_black, ply = not is_black, ply + 1
        for row in range(size):
            own_stones, other = work[OWN + 1 + row], work[OTHER + 1 + row]
            last[0, k, row], last[1, k, row] = (own_stones, other) if is_black else (other, own_stones)


def pick(planes: Tensor, drawn: Tensor) -> Tensor:
    """Returns one of each plane's points or the pass, all equally likely, drawn by numbers of 24 bits: int32 [B, N],
    int64 [B] -> int64 [B]."""
    actions = torch.empty_like(drawn)
    over_games(_pick, len(drawn), planes, drawn, actions)
    return actions


@kernel
def _pick(first, last, planes, drawn, actions):
    size = planes.shape[1]
    for game in range(first, last):
        number = 0
        for row in range(size):
            number += bit_count(planes[game, row])
        rank = (drawn[game] * (number + 1)) >> 24
        actions[game] = size * size
        if rank < number:
            row, bit = _point_of(planes[game], rank)
            actions[game] = (row - 1) * size + bit_count(bit - 1)


@part
def _list_points(work, struck, solid, off, points):
    """Writes the empty points that are neither struck out nor eyes of the side to move; returns how many there are."""
    size, number = len(points), 0
    for row in range(1, size + 1):
        solid[row] = (np.uint32(work[OWN + row]) << np.uint32(1)) | off[row]
    for row in range(1, size + 1):
        points[row - 1] = work[FREE + row] & ~struck[row - 1] & ~np.int32(eyes_of_row(solid, off, row))
        number += bit_count(points[row - 1])
    return number


@part
def _point_of(points, rank):
    """Returns row (from 1) and bit of the point with the given rank."""
    row = 0
    while bit_count(points[row]) <= rank:
        rank -= bit_count(points[row])
        row += 1
    bits = points[row]
    for _ in range(rank):
        bits &= bits - 1
    return row + 1, bits & -bits


@part
def _is_legal(work, row, bit):
    """Returns whether a stone there would have a liberty: an empty neighbour, an own string with another liberty, or a
    string to capture."""
    near = 0
    for at in (row - 1, row, row + 1):
        safe = (work[OWN + at] ^ work[ATARI + at]) | work[FREE + at]
        near |= (safe << 1) | (safe >> 1) if at == row else safe
    return (near & bit) != 0
