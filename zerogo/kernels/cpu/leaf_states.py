"""Steps the leaves on the CPU, one by one: the same as `search.game.Go.step_leaves` in torch, bit for bit.

`kernels.shared` defines the packing; here `small` is the index of the first word after the rows."""

from typing import Any

import numpy as np
from torch import Tensor

from zerogo.kernels import arguments, shared
from zerogo.kernels.cpu.board import play, was_seen
from zerogo.kernels.cpu.loops import inline, kernel, over_games, part
from zerogo.kernels.cpu.strings import SCRATCH, area, legal_into, load, scratch
from zerogo.rules import SIMPLE, SITUATIONAL


def step_leaves(states: Any, path: Any, words: Tensor, actions: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Returns the leaves after the moves, as in `arguments.leaf_fields`: words of the parents, actions int64 [K], keys
    int64 [2 * A] by `board.position.point_keys`."""
    fields = arguments.leaf_fields(states, path, words)
    arrays = (type(kind)(*(field.numpy() for field in kind)) for kind in fields)
    over_games(_step_leaves, len(words), words, actions, keys, *arrays)
    _, _, leaves, after = fields
    return leaves._asdict() | after._asdict()


@kernel
def _step_leaves(start, stop, parents, actions, keys, path, games, leaves, after):
    work = scratch()
    for k in range(start, stop):
        action, game, size = actions[k], path.game_index[k], games.on_board.shape[1]
        on_board, may_die = games.on_board[game], games.suicide[game]
        _write_past(path, games, k, action, leaves)
        _unpack(k, parents, after)
        if not after.finished[k]:
            play(work, after, k, action, on_board, may_die, games.cap[game], keys)
        leaves.repeats[k] = action != leaves.legal.shape[1] - 1 and _repeats(path, games, k, after.hash[k])
        load(work, after, k, on_board)
        if after.finished[k]:
            is_black, lead = after.to_play[k] == 1, area(work, size)
            score = np.float32(lead if is_black else -lead) - games.komi[game]
            leaves.result[k], leaves.legal[k] = np.sign(score) if is_black else -np.sign(score), False
        else:
            legal_into(work, size, after.ko[k], may_die)
            for row in range(size):
                for column in range(size):
                    leaves.legal[k, row * size + column] = (work[SCRATCH + 1 + row] >> column) & 1
            leaves.result[k] = 0
        leaves.legal[k, -1] = True
        _pack(k, after, leaves.words)


@inline
def _hash_in(words, k, size):
    """Returns the hash in a packed position."""
    return (words[k, 3 * size + shared.HASH] & 0xFFFFFFFF) | (words[k, 3 * size + shared.HASH + 1] << 32)


@part
def _write_past(path, games, k, action, leaves):
    """Writes the positions and moves before the leaf, those before the root from the game."""
    size, game, depth = games.recent.shape[3], path.game_index[k], path.depth[k]
    leaves.moves[k, 0] = action
    for ago in range(leaves.moves.shape[1] - 1):
        at = depth - ago
        leaves.moves[k, 1 + ago] = path.actions[path.path[k, at]] if at > 0 else games.moves[game, -at]
    for ago in range(leaves.recent.shape[1]):
        at = depth - ago
        node = path.path[k, at] if at >= 0 else 0
        for colour in range(2):
            for row in range(size):
                stones = path.words[node, colour * size + row] if at >= 0 else games.recent[game, -at - 1, colour, row]
                leaves.recent[k, ago, colour, row] = stones


@part
def _repeats(path, games, k, key):
    """Returns whether the path to a leaf, or the game before it, has its hash already."""
    game, depth, size = path.game_index[k], path.depth[k], games.on_board.shape[1]
    is_situational = games.superko[game] == SITUATIONAL
    if games.superko[game] == SIMPLE:
        return False
    for back in range(depth + 1):
        row = path.path[k, depth - back]
        if _hash_in(path.words, row, size) == key and (not is_situational or (back & 1) == 1):
            return True
    seen = games.seen
    return seen.shape[1] > 0 and was_seen(seen, games.links, game, key, games.ply[game] + depth, is_situational)


@part
def _unpack(k, words, after):
    """Writes the packed position's fields one by one."""
    size = after.black.shape[1]
    small = 3 * size
    for row in range(size):
        after.black[k, row], after.white[k, row] = words[k, row], words[k, size + row]
        after.atari[k, row] = words[k, 2 * size + row]
    after.hash[k], after.finished[k] = _hash_in(words, k, size), words[k, small + shared.FINISHED]
    after.to_play[k], after.passes[k] = words[k, small + shared.TO_PLAY], words[k, small + shared.PASSES]
    after.ply[k], after.ko[k] = words[k, small + shared.PLY], words[k, small + shared.KO]
    for mover in range(2):
        after.captures[k, mover] = words[k, small + shared.CAPTURES + mover]


@part
def _pack(k, after, words):
    """Packs the position's fields into words."""
    size = after.black.shape[1]
    small = 3 * size
    for row in range(size):
        words[k, row], words[k, size + row] = after.black[k, row], after.white[k, row]
        words[k, 2 * size + row] = after.atari[k, row]
    words[k, small + shared.HASH] = after.hash[k] & 0xFFFFFFFF
    words[k, small + shared.HASH + 1], words[k, small + shared.FINISHED] = after.hash[k] >> 32, after.finished[k]
    words[k, small + shared.TO_PLAY], words[k, small + shared.PASSES] = after.to_play[k], after.passes[k]
    words[k, small + shared.PLY], words[k, small + shared.KO] = after.ply[k], after.ko[k]
    for mover in range(2):
        words[k, small + shared.CAPTURES + mover] = after.captures[k, mover]
