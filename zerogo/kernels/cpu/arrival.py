"""A simulation's last move, game after game: all that the search wants to know of the position that it leads to.

It stands in for what `search.games.Go` does in several steps, and gives the same, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.board import FIELDS, flags, was_seen
from zerogo.kernels.cpu.loops import array, inline, kernel, over_games
from zerogo.kernels.cpu.strings import ATARI, FREE, OTHER, OWN, WEAK, area, legal_into, move, scratch
from zerogo.rules import SIMPLE, SITUATIONAL


def step_leaves(states: Any, line: Any, words: Tensor, actions: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Returns what the moves lead to: words int32 [K, W], legal bool [K, A], finished bool [K], result float32 [K],
    repeats bool [K], the fields of the positions, recent int32 [K, 7, 2, N] and moves int16 [K, 5].

    words: int32 [K, W], the parents. actions: int64 [K]. line: `search.games.Line`. Results are by area.
    """
    lanes, size = len(words), states.black.shape[1]
    after = {"words": np.empty(tuple(words.shape), np.int32), "legal": np.zeros((lanes, size * size + 1), bool)}
    after |= {"result": np.zeros(lanes, np.float32), "repeats": np.zeros(lanes, bool)}
    for name in (*FIELDS, "recent", "moves"):
        like = array(getattr(states, name))
        after[name] = np.empty((lanes, *like.shape[1:]), like.dtype)
    suicide = flags(states.suicide, len(states.black))
    way = [array(part) for part in (line.lane, line.path, line.depth, line.words, line.actions)]
    games = [array(part) for part in (states.on_board, states.cap, states.rules.superko, states.rules.komi)]
    history = [array(part) for part in (states.ply, states.seen, states.links, states.recent, states.moves)]
    parents, last = array(words), array(actions)
    outcomes = [after[name] for name in ("words", "legal", "result", "repeats")]
    fields = [after[name] for name in FIELDS]

    def loop(start: int, stop: int) -> None:
        _history(start, stop, *way, *history[3:], last, after["recent"], after["moves"])
        _arrive(start, stop, *way[:4], *games, suicide, *history[:3], parents, last, array(keys), *outcomes)
        _unpack(start, stop, after["words"], *fields)

    over_games(loop, lanes)
    return {name: torch.from_numpy(field) for name, field in after.items()}


@kernel
def _history(start, stop, lane, path, depth, words, actions, before, moves, last, new_recent, new_moves):
    """Writes the positions and moves before the leaves, from the way and behind the root from the game."""
    size = before.shape[3]
    for k in range(start, stop):
        game, end = lane[k], depth[k]
        new_moves[k, 0] = last[k]
        for ago in range(new_moves.shape[1] - 1):
            at = end - ago
            new_moves[k, 1 + ago] = actions[path[k, at]] if at > 0 else moves[game, -at]
        for ago in range(new_recent.shape[1]):
            at = end - ago
            node = path[k, at] if at >= 0 else 0
            for colour in range(2):
                for row in range(size):
                    stones = words[node, colour * size + row] if at >= 0 else before[game, -at - 1, colour, row]
                    new_recent[k, ago, colour, row] = stones


@inline
def _hash_in(words, node, size):
    """Returns the hash in a packed position."""
    return (words[node, 3 * size] & 0xFFFFFFFF) | (words[node, 3 * size + 1] << 32)


@inline
def _repeats(words, lane, path, depth, k, key, size, superko, ply, seen, links):
    """Returns whether the game or the way to a leaf has come to its hash before."""
    game, is_situational = lane[k], superko[lane[k]] == SITUATIONAL
    if superko[game] == SIMPLE:
        return False
    for back in range(depth[k] + 1):
        if _hash_in(words, path[k, depth[k] - back], size) == key and (not is_situational or (back & 1) == 1):
            return True
    return seen.shape[1] > 0 and was_seen(seen, links, game, key, ply[game] + depth[k], is_situational)


@inline
def _load(work, words, on_board, k, game, size, is_black):
    """Copies a packed position into scratch memory."""
    own = 0 if is_black else size
    for row in range(size):
        work[OWN + 1 + row], work[OTHER + 1 + row] = words[k, own + row], words[k, size - own + row]
        work[ATARI + 1 + row] = words[k, 2 * size + row]
        work[FREE + 1 + row] = on_board[game, row] & ~(words[k, row] | words[k, size + row])


@kernel
def _arrive(
    start,
    stop,
    lane,
    path,
    depth,
    nodes,
    on_board,
    cap,
    superko,
    komi,
    suicide,
    ply,
    seen,
    links,
    parents,
    actions,
    keys,
    words,
    legal,
    result,
    repeats,
):
    size = on_board.shape[1]
    small = 3 * size + 2  # player, passes, end, ply, ko, captures
    work = scratch()
    for k in range(start, stop):
        game, action = lane[k], actions[k]
        for word in range(parents.shape[1]):
            words[k, word] = parents[k, word]
        colour, key = words[k, small] - 1, _hash_in(parents, k, size)
        _load(work, parents, on_board, k, game, size, colour == 0)
        if parents[k, small + 2] == 0:
            ko, passes = -1, parents[k, small + 1] + 1
            if 0 <= action < size * size:
                passes = 0
                change, number, whose, ko = move(work, size, action, colour, suicide[game], keys)
                key ^= change
                own = 0 if colour == 0 else size
                for row in range(size):
                    words[k, own + row], words[k, size - own + row] = work[OWN + 1 + row], work[OTHER + 1 + row]
                    words[k, 2 * size + row] = work[ATARI + 1 + row]
                words[k, small + 5 + 1 - whose] += number
                words[k, small - 2], words[k, small - 1] = key & 0xFFFFFFFF, key >> 32
            words[k, small], words[k, small + 1] = 2 - colour, passes
            words[k, small + 3] += 1
            words[k, small + 4] = ko
            words[k, small + 2] = passes >= 2 or words[k, small + 3] >= cap[game]
        if action != size * size:
            repeats[k] = _repeats(nodes, lane, path, depth, k, key, size, superko, ply, seen, links)
        mover = words[k, small] - 1
        _load(work, words, on_board, k, game, size, mover == 0)
        legal[k, size * size] = True
        if words[k, small + 2] != 0:
            lead = area(work, size)
            score = np.float32(lead if mover == 0 else -lead) - komi[game]
            result[k] = np.sign(score) if mover == 0 else -np.sign(score)
            continue
        legal_into(work, size, OWN, words[k, small + 4], suicide[game])
        for row in range(size):
            for column in range(size):
                legal[k, row * size + column] = (work[WEAK + 1 + row] >> column) & 1


@kernel
def _unpack(start, stop, words, black, white, atari, to_play, passes, ply, ko, hashes, captures, finished):
    size = black.shape[1]
    small = 3 * size + 2
    for k in range(start, stop):
        for row in range(size):
            black[k, row], white[k, row], atari[k, row] = words[k, row], words[k, size + row], words[k, 2 * size + row]
        hashes[k] = _hash_in(words, k, size)
        to_play[k], passes[k], finished[k] = words[k, small], words[k, small + 1], words[k, small + 2]
        ply[k], ko[k] = words[k, small + 3], words[k, small + 4]
        captures[k, 0], captures[k, 1] = words[k, small + 5], words[k, small + 6]
