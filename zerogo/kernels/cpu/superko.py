"""Which moves would repeat a whole-board position, game after game: the few suspects are played and looked up in the
history's chains.

See `board.superko` for what makes a move suspect, and `board.history` for the chains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import array, first_bit, inline, kernel, over_games
from zerogo.kernels.cpu.strings import (
    NOTHING,
    OTHER,
    OWN,
    STRIDE,
    STRING,
    TAKEN,
    WEAK,
    beside,
    key_of,
    load,
    scratch,
    string,
)
from zerogo.rules import SUPERKO

SIMPLE, SITUATIONAL = SUPERKO.index("simple"), SUPERKO.index("situational")


def repeating_rows(state: Any, legal: Tensor, suicides: Tensor | None, keys: Tensor) -> Tensor:
    """Returns those of the given points that superko bans: legal int32 [B, N], legal otherwise -> int32 [B, N].

    suicides: int32 [B, N], which of them remove their own string, None where none do.
    """
    points = array(legal)
    banned = np.zeros_like(points)
    dying = np.empty((0, points.shape[1]), np.int32) if suicides is None else array(suicides)
    over_games(
        repeating_loop, len(points), *fields_of(state), array(state.rules.superko), points, dying, array(keys), banned
    )
    return torch.from_numpy(banned)


def fields_of(state: Any) -> list[np.ndarray]:
    """Returns what `repeating_loop` needs of games."""
    names = ("black", "white", "atari", "on_board", "to_play", "hash", "ply", "lost", "moves", "seen", "links")
    return [array(getattr(state, name)) for name in names]


@inline
def _is_new(lost, game, colour, action):
    """Returns whether a stone played there has stood since it came and was the first to stand there; False for a pass
    or no move.
    """
    size = lost.shape[2]
    return 0 <= action < size * size and (lost[game, colour, action // size] >> (action % size)) & 1 == 0


@inline
def was_seen(seen, links, game, key, ply, is_situational):
    """Returns whether a game that is at a ply may not come to a hash with its next move."""
    width = seen.shape[1]
    at = links[game, key & (2 * width - 1)]
    while at >= 0:
        if seen[game, at] == key and (not is_situational or ((at ^ ply) & 1) == 1):
            return True
        at = links[game, 2 * width + at]
    return False


@inline
def _key_of_captured(work, size, row, bit, colour, keys):
    """Returns the XOR of the keys of the strings of OTHER in WEAK beside a point: colour is theirs."""
    key = 0
    for k in range(STRIDE):
        work[TAKEN + k] = 0
    for side in range(4):
        near, at = beside(side, row, bit)
        if (work[WEAK + near] & ~work[TAKEN + near] & at) != 0:
            string(work, WEAK, NOTHING, near, at, False)
            for k in range(STRIDE):
                work[TAKEN + k] |= work[STRING + k]
            key ^= key_of(work, STRING, size, colour, keys)
    return key


@inline
def _key_of_suicide(work, size, row, bit, colour, keys):
    """Returns the XOR of the keys of the own strings beside a point."""
    work[OWN + row] |= bit
    string(work, OWN, NOTHING, row, bit, False)
    work[OWN + row] ^= bit
    return key_of(work, STRING, size, colour, keys)


@kernel
def repeating_loop(
    start,
    stop,
    black,
    white,
    atari,
    on_board,
    to_play,
    hashes,
    ply,
    lost,
    moves,
    seen,
    links,
    superko,
    legal,
    suicides,
    keys,
    banned,
):
    size = black.shape[1]
    work = scratch()
    for game in range(start, stop):
        if superko[game] == SIMPLE:
            continue
        own = to_play[game] - 1
        last, previous = moves[game, 0], moves[game, 1]
        is_new = _is_new(lost, game, 1 - own, last) or _is_new(lost, game, own, previous)
        # Without one of these stones the position can only be the one before the last move, which takes the last stone.
        is_hopeless = is_new and not (0 <= last < size * size and (atari[game, last // size] >> (last % size)) & 1 != 0)
        is_loaded = False
        for row in range(size):
            dying = suicides[game, row] if len(suicides) > 0 else 0
            suspects = dying | (0 if is_hopeless else legal[game, row] & lost[game, own, row])
            if suspects == 0:
                continue
            if not is_loaded:
                is_loaded = True
                load(work, black, white, atari, on_board, game, own == 0)
                for k in range(1, 1 + size):
                    work[WEAK + k] = work[OTHER + k] & atari[game, k - 1]
            weak = work[WEAK + 1 + row]
            captures = (weak << 1) | (weak >> 1) | work[WEAK + row] | work[WEAK + 2 + row]
            if is_new:
                suspects &= dying | captures
            while suspects != 0:
                bit = suspects & -suspects
                suspects ^= bit
                first = own * (size * size + 1) + row * size
                key = hashes[game] ^ keys[first + first_bit(bit)]
                if (dying & bit) != 0:
                    key ^= _key_of_suicide(work, size, 1 + row, bit, own, keys)
                elif (captures & bit) != 0:
                    key ^= _key_of_captured(work, size, 1 + row, bit, 1 - own, keys)
                if was_seen(seen, links, game, key, ply[game], superko[game] == SITUATIONAL):
                    banned[game, row] |= bit
