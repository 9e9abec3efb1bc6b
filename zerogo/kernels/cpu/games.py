"""What a ply of many games takes, each in one pass over them: exact legal points, a draw among them, a move with its
history, new games.

They are made of the kernels of `board` and `superko`, and spare calls and turns of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu import board, superko
from zerogo.kernels.cpu.loops import array, bit_count, copy_bytes, first_bit, kernel, over_games


def exact_legal_rows(state: Any, keys: Tensor) -> Tensor:
    """Returns the points that may be played, superko included: int32 [B, N]. The games have their whole history."""
    position = board.legal_fields(state)
    exists, suicide = array(state.on_board), board.flags(state.suicide, state.num_games)
    legal, banned, never = np.empty_like(exists), np.zeros_like(exists), np.zeros_like(suicide)
    dying = np.empty_like(exists if state.suicide is not None else exists[:0])
    fields, superkos, table = superko.fields_of(state), array(state.rules.superko), array(keys)

    def loop(start: int, stop: int) -> None:
        part = slice(start, stop)
        board.legal_loop(start, stop, *position, exists, suicide, legal)
        if len(dying):
            board.legal_loop(start, stop, *position, exists, never, dying)
            dying[part] = legal[part] & ~dying[part]
        superko.repeating_loop(start, stop, *fields, superkos, legal, dying, table, banned)
        legal[part] &= ~banned[part]

    over_games(loop, len(legal))
    return torch.from_numpy(legal)


def pick(rows: Tensor, numbers: Tensor) -> Tensor:
    """Returns one of the points of each plane or, as likely as any of them, the pass: int32 [B, N], float64 [B] in [0,
    1) -> int64 [B].
    """
    actions = np.empty(len(rows), np.int64)
    _pick(0, len(rows), array(rows), array(numbers), actions)
    return torch.from_numpy(actions)


@kernel
def _pick(start, stop, rows, numbers, actions):
    size = rows.shape[1]
    for game in range(start, stop):
        total = 1
        for row in range(size):
            total += bit_count(rows[game, row])
        left, row = np.int64(numbers[game] * total), 0
        while row < size and left >= bit_count(rows[game, row]):
            left -= bit_count(rows[game, row])
            row += 1
        actions[game] = size * size
        if row < size:
            bits = np.int64(rows[game, row])
            for _ in range(left):
                bits &= bits - 1
            actions[game] = row * size + first_bit(bits)


def step_(state: Any, actions: Tensor, keys: Tensor, history: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the fields of the positions after one action each, and writes the moves into the history of the games
    that go on.

    history: the state's `seen`, `links`, `lost`, `recent` and `moves`, contiguous; H is greater than any ply.
    """
    arguments, after, removed = board.play_arguments(state, actions, state.on_board, state.suicide, state.cap, keys)
    before = [array(part) for part in (state.finished, state.ply, state.black, state.white)]
    kept = [history[name].numpy() for name in ("seen", "links", "lost", "recent", "moves")]

    def loop(start: int, stop: int) -> None:
        board.play_loop(start, stop, *arguments)
        _remember(start, stop, *before, *kept, arguments[0], after["hash"], removed)

    over_games(loop, len(removed))
    return {name: torch.from_numpy(field) for name, field in after.items()}


@kernel
def _remember(start, stop, finished, ply, black, white, seen, links, lost, recent, moves, actions, hashes, removed):
    width, size = seen.shape[1], black.shape[1]
    for game in range(
        start, stop
    ):  # apart from the rest: what is read here is seldom at hand, and several games wait for it at a time
        if not finished[game]:
            slot, now = hashes[game] & (2 * width - 1), ply[game] + 1
            if now >= width:
                raise IndexError("a game is longer than what is kept of it")
            seen[game, now] = hashes[game]
            links[game, 2 * width + now] = links[game, slot]
            links[game, slot] = now
    for game in range(start, stop):
        if finished[game]:
            continue
        for colour in range(2):
            for row in range(size):
                lost[game, colour, row] |= removed[game, colour, row]
        for ago in range(recent.shape[1] - 1, 0, -1):
            for colour in range(2):
                for row in range(size):
                    recent[game, ago, colour, row] = recent[game, ago - 1, colour, row]
        for row in range(size):
            recent[game, 0, 0, row], recent[game, 0, 1, row] = black[game, row], white[game, row]
        for ago in range(moves.shape[1] - 1, 0, -1):
            moves[game, ago] = moves[game, ago - 1]
        moves[game, 0] = actions[game]


def replace_(old: list[Tensor], index: Tensor, new: list[Tensor]) -> None:
    """Writes the entries of tensors [K, ...] over those with an index, int64 [K], of others [B, ...]: all contiguous
    and alike.
    """
    number = max(1, len(index))
    table = [(to.data_ptr(), source.data_ptr(), source.nbytes // number) for to, source in zip(old, new, strict=True)]
    _replace(np.array(table), array(index), len(old[0]))


@kernel
def _replace(table, index, num_games):
    for k in range(len(index)):
        if not 0 <= index[k] < num_games:
            raise IndexError("a game's index is beyond the batch")
        for field in range(len(table)):
            to, source, width = table[field]
            copy_bytes(to + index[k] * width, source + k * width, width)
