"""Step the leaves on the CPU, one after another: what `search.game.Go.step_leaves` does in torch, bit for bit.

`kernels.shared` says how a position is packed; here `small` is the index of the first word after the rows."""

from typing import Any

import numpy as np
from torch import Tensor

from zerogo.kernels import shared
from zerogo.kernels.cpu.board import was_seen
from zerogo.kernels.cpu.loops import array, inline, kernel, over_games
from zerogo.kernels.cpu.strings import ATARI, FREE, OTHER, OWN, WEAK, area, legal_into, move, scratch
from zerogo.rules import SIMPLE, SITUATIONAL


def step_leaves(states: Any, path: Any, words: Tensor, actions: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Returns what the moves lead to, `shared.leaf_fields` of the parents' words: actions int64 [K], keys int64 [2 * A]
    by `board.zobrist.point_keys`."""
    fields = shared.leaf_fields(states, path, words)
    arrays = (type(kind)(*(field.numpy() for field in kind)) for kind in fields)
    over_games(_step_leaves, len(words), array(words), array(actions), array(keys), *arrays)
    _, _, found, after = fields
    return found._asdict() | after._asdict()


@kernel
def _step_leaves(start, stop, parents, actions, keys, path, games, found, after):
    work = scratch()
    for k in range(start, stop):
        _write_past(path, games, k, actions[k], found)
        key = _play(work, path, games, parents, k, actions[k], keys, found.words)
        found.repeats[k] = actions[k] != found.legal.shape[1] - 1 and _repeats(path, games, k, key)
        _judge(work, games, path.game_index[k], k, found)
        _unpack(k, found.words, after)


@inline
def _hash_in(words, k, size):
    """Returns the hash in a packed position."""
    return (words[k, 3 * size + shared.HASH] & 0xFFFFFFFF) | (words[k, 3 * size + shared.HASH + 1] << 32)


@inline
def _write_past(path, games, k, action, found):
    """Writes the positions and moves before the leaf, those before the root from the game."""
    size, game, depth = games.recent.shape[3], path.game_index[k], path.depth[k]
    found.moves[k, 0] = action
    for ago in range(found.moves.shape[1] - 1):
        at = depth - ago
        found.moves[k, 1 + ago] = path.actions[path.path[k, at]] if at > 0 else games.moves[game, -at]
    for ago in range(found.recent.shape[1]):
        at = depth - ago
        node = path.path[k, at] if at >= 0 else 0
        for colour in range(2):
            for row in range(size):
                stones = path.words[node, colour * size + row] if at >= 0 else games.recent[game, -at - 1, colour, row]
                found.recent[k, ago, colour, row] = stones


@inline
def _play(work, path, games, parents, k, action, keys, words):
    """Writes the packed position after simulation k's move; returns its hash. A finished game stays as it is."""
    size, game = games.on_board.shape[1], path.game_index[k]
    small = 3 * size
    for word in range(parents.shape[1]):
        words[k, word] = parents[k, word]
    colour, key = words[k, small + shared.TO_PLAY] - 1, _hash_in(parents, k, size)
    if words[k, small + shared.FINISHED] != 0:
        return key
    ko, passes = -1, words[k, small + shared.PASSES] + 1
    if 0 <= action < size * size:
        _load(work, parents, games.on_board, k, game, colour == 0)
        change, number, whose, ko = move(work, size, action, colour, games.suicide[game], keys)
        passes = 0
        key ^= change
        own = 0 if colour == 0 else size
        for row in range(size):
            words[k, own + row], words[k, size - own + row] = work[OWN + 1 + row], work[OTHER + 1 + row]
            words[k, 2 * size + row] = work[ATARI + 1 + row]
        words[k, small + shared.CAPTURES + 1 - whose] += number
        words[k, small + shared.HASH], words[k, small + shared.HASH + 1] = key & 0xFFFFFFFF, key >> 32
    words[k, small + shared.TO_PLAY], words[k, small + shared.PASSES] = 2 - colour, passes
    words[k, small + shared.KO] = ko
    words[k, small + shared.PLY] += 1
    words[k, small + shared.FINISHED] = passes >= 2 or words[k, small + shared.PLY] >= games.cap[game]
    return key


@inline
def _load(work, words, on_board, k, game, is_black):
    """Copies a packed position into scratch memory; is_black: whose stones are OWN."""
    size = on_board.shape[1]
    own = 0 if is_black else size
    for row in range(size):
        work[OWN + 1 + row], work[OTHER + 1 + row] = words[k, own + row], words[k, size - own + row]
        work[ATARI + 1 + row] = words[k, 2 * size + row]
        work[FREE + 1 + row] = on_board[game, row] & ~(words[k, row] | words[k, size + row])


@inline
def _repeats(path, games, k, key):
    """Returns whether the path to a leaf or the game before it has come to its hash before."""
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


@inline
def _judge(work, games, game, k, found):
    """Writes the result of a finished position, or the legal moves of another; a pass always is."""
    size = games.on_board.shape[1]
    small, words = 3 * size, found.words
    is_black = words[k, small + shared.TO_PLAY] == 1
    _load(work, words, games.on_board, k, game, is_black)
    found.legal[k], found.result[k] = False, 0
    found.legal[k, size * size] = True
    if words[k, small + shared.FINISHED] != 0:
        lead = area(work, size)
        score = np.float32(lead if is_black else -lead) - games.komi[game]
        found.result[k] = np.sign(score) if is_black else -np.sign(score)
        return
    legal_into(work, size, OWN, words[k, small + shared.KO], games.suicide[game])
    for row in range(size):
        for column in range(size):
            found.legal[k, row * size + column] = (work[WEAK + 1 + row] >> column) & 1


@inline
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
