"""The rules over whole batches: floods, legal points with superko, moves with their history; and the moves of a search,
from the stored position of a leaf's parent.

They do the same as the functions of these names in `zerogo.board`, `board.flood` and `search.game.Go`, bit for bit;
those explain what and why. In each thread a kernel handles a range of games one by one. The current game is in a few
kilobytes of scratch memory (`strings`), so that all work on it stays in the first-level cache. `kernels.shared` defines
the packing of positions; here `small` is the index of the first word after the rows."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels import shared
from zerogo.kernels.cpu import array, arrays_of, copy_bytes, first_bit, inline, kernel, over_games, part, strings
from zerogo.kernels.cpu.strings import ATARI, NO_POINTS, OTHER, OWN, SCRATCH, STRIDE, STRING, TAKEN, string
from zerogo.kernels.shared import HistoryFields, PositionFields
from zerogo.rules import SIMPLE, SITUATIONAL


def flood(seeds: Tensor, within: Tensor) -> Tensor:
    """Returns all points of `within` that are connected to a seed through it: int32 [X, N] each -> int32 [X, N]."""
    grown = torch.empty_like(within, memory_format=torch.contiguous_format)
    over_games(_flood, len(grown), seeds, within, grown)
    return grown


@kernel
def _flood(start, stop, seeds, within, grown):
    """Fills the runs of each row, then repeatedly those next to a row that grew, until no row changes."""
    size = within.shape[1]
    for plane in range(start, stop):
        rows = 0  # those that grew after their neighbours were filled
        for row in range(size):
            grown[plane, row] = strings.fill(seeds[plane, row] & within[plane, row], within[plane, row])
            rows |= np.int64(grown[plane, row] != 0) << row
        while rows != 0:
            row = first_bit(rows)
            rows &= rows - 1
            here = grown[plane, row]
            for near in (row - 1, row + 1):
                if 0 <= near < size:
                    new = here & within[plane, near] & ~grown[plane, near]
                    if new != 0:
                        grown[plane, near] |= strings.fill(new, within[plane, near])
                        rows |= np.int64(1) << near


# Legal points


def exact_legal_rows(state: Any, keys: Tensor) -> Tensor:
    """Returns the legal points, superko included: int32 [B, N]. The games have their full history. keys: int64 [2 * A],
    `board.position.point_keys`."""
    legal = torch.empty_like(state.black, memory_format=torch.contiguous_format)
    arguments = state.on_board, state.rules.superko, state.rules.suicide, keys, legal
    over_games(_exact, len(legal), arrays_of(PositionFields, state), arrays_of(HistoryFields, state), *arguments)
    return legal


def recent_history(state: Any, keys: Tensor, unknown: int) -> dict[str, Tensor]:
    """Returns `seen`, `links`, `lost` and `hash` as `board.with_recent_history` sets them. unknown: what fills `seen`
    before a game's first position."""
    num_games, earlier, _, size = state.recent.shape
    seen = torch.empty((num_games, earlier + 1), dtype=torch.int64)
    links = torch.full((num_games, 3 * (earlier + 1)), -1, dtype=torch.int32)
    lost = torch.zeros((num_games, 2, size), dtype=torch.int32)
    stones = state.black, state.white, state.recent, state.ply
    over_games(_recall, num_games, *stones, keys, unknown, seen, links, lost)
    return {"seen": seen, "links": links, "lost": lost, "hash": seen[:, -1]}


@kernel
def _recall(start, stop, black, white, recent, ply, keys, unknown, seen, links, lost):
    size, last = black.shape[1], recent.shape[1]
    width = last + 1
    for game in range(start, stop):
        key = np.int64(0)
        for at in range(width):  # oldest first
            for row in range(size):
                for colour in range(2):
                    now = black[game, row] if colour == 0 else white[game, row]
                    now = now if at == last else recent[game, last - 1 - at, colour, row]
                    before = recent[game, last - at, colour, row] if at > 0 else np.int32(0)
                    lost[game, colour, row] |= before & ~now
                    changed = before ^ now
                    while changed != 0:
                        key ^= keys[colour * (size * size + 1) + row * size + first_bit(changed)]
                        changed &= changed - 1
            seen[game, at] = unknown
            if at + ply[game] >= last:
                seen[game, at], slot = key, key & (2 * width - 1)
                links[game, 2 * width + at] = links[game, slot]
                links[game, slot] = at


@kernel
def _exact(start, stop, position, history, on_board, superko, suicide, keys, legal):
    _legal(start, stop, position, on_board, suicide, legal)
    _strike_repeating(start, stop, position, history, on_board, superko, suicide, keys, legal)


@inline
def _legal(start, stop, position, on_board, suicide, legal):
    """Writes the legal points, superko not considered."""
    size = on_board.shape[1]
    work = strings.scratch()
    for game in range(start, stop):
        if not position.finished[game]:
            strings.load(work, position, game, on_board[game])
            strings.legal_into(work, size, position.ko[game], suicide[game])
        for row in range(size):
            legal[game, row] = 0 if position.finished[game] else work[SCRATCH + 1 + row]


@inline
def _strike_repeating(start, stop, position, history, on_board, superko, suicide, keys, legal):
    """Removes the points that repeat a position from the legal ones. This is a separate loop, as few games have
    suspects (see `board`), and only those are loaded again."""
    size, lost, moves = on_board.shape[1], history.lost, history.moves
    work, dying = strings.scratch(), np.zeros(size, np.int32)  # dying: where a stone removes its own string
    for game in range(start, stop):
        if position.finished[game] or superko[game] == SIMPLE:
            continue
        mover, last = position.to_play[game] - 1, moves[game, 0]
        is_new = _is_new(lost, game, 1 - mover, last) or _is_new(lost, game, mover, moves[game, 1])
        # Then only suicide, or a move that captures the last stone (which must be in atari), can repeat a position.
        is_point = 0 <= last < size * size
        is_hopeless = is_new and not (is_point and (position.atari[game, last // size] >> (last % size)) & 1 != 0)
        is_loaded = suicide[game]
        dying[:] = 0
        if suicide[game]:
            strings.load(work, position, game, on_board[game])
            strings.legal_into(work, size, position.ko[game], False)
            for row in range(size):
                dying[row] = legal[game, row] & ~work[SCRATCH + 1 + row]
            _find_weak(work, size)
        for row in range(size):
            suspects = dying[row] | (0 if is_hopeless else legal[game, row] & lost[game, mover, row])
            if suspects == 0:
                continue
            if not is_loaded:
                is_loaded = True
                strings.load(work, position, game, on_board[game])
                _find_weak(work, size)
            captures = strings.neighbours_in(work, SCRATCH, 1 + row)
            if is_new:
                suspects &= dying[row] | captures
            while suspects != 0:
                bit = suspects & -suspects
                suspects ^= bit
                key = position.hash[game] ^ keys[mover * (size * size + 1) + row * size + first_bit(bit)]
                if (dying[row] & bit) != 0:
                    key ^= _key_of_suicide(work, size, 1 + row, bit, mover, keys)
                elif (captures & bit) != 0:
                    key ^= _key_of_captured(work, size, 1 + row, bit, 1 - mover, keys)
                ply, is_situational = position.ply[game], superko[game] == SITUATIONAL
                if was_seen(history.seen, history.links, game, key, ply, is_situational):
                    legal[game, row] &= ~bit


@part
def _find_weak(work, size):
    """Writes the opponent's stones in atari into SCRATCH."""
    for row in range(1, 1 + size):
        work[SCRATCH + row] = work[OTHER + row] & work[ATARI + row]


@part
def _is_new(lost, game, colour, action):
    """Returns whether the stone of a move still stands and was its colour's first on that point; False for a pass or no
    move."""
    size = lost.shape[2]
    return 0 <= action < size * size and (lost[game, colour, action // size] >> (action % size)) & 1 == 0


@inline
def was_seen(seen, links, game, key, ply, is_situational):
    """Returns whether a game at a ply may not reach a hash with its next move."""
    width = seen.shape[1]
    at = links[game, key & (2 * width - 1)]
    while at >= 0:
        if seen[game, at] == key and (not is_situational or ((at ^ ply) & 1) == 1):
            return True
        at = links[game, 2 * width + at]
    return False


@inline
def _key_of_captured(work, size, row, bit, colour, keys):
    """Returns the XOR of the keys of the strings in SCRATCH next to a point. colour: that of these strings."""
    key = 0
    for k in range(STRIDE):
        work[TAKEN + k] = 0
    for side in range(4):
        near, at = strings.neighbour_of(side, row, bit)
        if (work[SCRATCH + near] & ~work[TAKEN + near] & at) != 0:
            string(work, SCRATCH, NO_POINTS, near, at, False)
            for k in range(STRIDE):
                work[TAKEN + k] |= work[STRING + k]
            key ^= strings.key_of(work, STRING, size, colour, keys)
    return key


@inline
def _key_of_suicide(work, size, row, bit, colour, keys):
    """Returns the XOR of the keys of the own strings next to a point."""
    work[OWN + row] |= bit
    string(work, OWN, NO_POINTS, row, bit, False)
    work[OWN + row] ^= bit
    return strings.key_of(work, STRING, size, colour, keys)


# Moves


def step_(state: Any, actions: Tensor, keys: Tensor, history: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the fields of the positions after one action each, and writes the moves into the history of running
    games.

    history: the fields of `HistoryFields`, contiguous; H is greater than any ply."""
    before, remembered = arrays_of(PositionFields, state), (history[name].numpy() for name in HistoryFields._fields)
    remembered = HistoryFields(*remembered)
    after = PositionFields(*(field.copy() for field in before))
    removed = np.zeros((len(actions), 2, state.board_size), np.int32)
    arguments = actions, keys, state.on_board, state.cap, state.rules.suicide, removed
    over_games(_step, len(actions), before, after, remembered, *arguments)
    return {name: torch.from_numpy(field) for name, field in after._asdict().items()}


@kernel
def _step(start, stop, before, after, history, actions, keys, on_board, cap, suicide, removed):
    _play(start, stop, after, actions, keys, on_board, cap, suicide, removed)
    _remember(start, stop, actions, before, after.hash, removed, history)


@inline
def _play(start, stop, position, actions, keys, on_board, cap, suicide, removed):
    work = strings.scratch()
    for game in range(start, stop):
        if not position.finished[game]:
            if not 0 <= actions[game] <= on_board.shape[1] ** 2:
                raise IndexError("an action is beyond the board")
            number, whose = play(work, position, game, actions[game], on_board[game], suicide[game], cap[game], keys)
            if number > 0:
                for row in range(on_board.shape[1]):
                    removed[game, whose, row] = work[TAKEN + 1 + row]


@part
def play(work, position, k, action, on_board, may_die, cap, keys):
    """Plays an action in the unfinished position k, in place; returns how many stones it removed (then in TAKEN), and
    their colour."""
    size, colour, number, whose = len(on_board), position.to_play[k] - 1, 0, 0
    ko, passes = -1, position.passes[k] + 1
    if 0 <= action < size * size:
        strings.load(work, position, k, on_board)
        key, number, whose, ko = strings.move(work, size, action, colour, may_die, keys)
        first, second = (OWN + 1, OTHER + 1) if colour == 0 else (OTHER + 1, OWN + 1)
        for row in range(size):
            position.black[k, row], position.white[k, row] = work[first + row], work[second + row]
            position.atari[k, row] = work[ATARI + 1 + row]
        position.captures[k, 1 - whose] += number
        position.hash[k] ^= key
        passes = 0
    position.to_play[k], position.passes[k], position.ko[k] = 2 - colour, passes, ko
    position.ply[k] += 1
    position.finished[k] = passes >= 2 or position.ply[k] >= cap
    return number, whose


@inline
def _remember(start, stop, actions, before, hashes, removed, history):
    """Writes the moves into the history. The chains have a separate loop: their reads seldom hit a cache, and so those
    of several games overlap."""
    seen, links, lost, recent, moves = history
    width, size = seen.shape[1], removed.shape[2]
    for game in range(start, stop):
        if not before.finished[game]:
            slot, now = hashes[game] & (2 * width - 1), before.ply[game] + 1
            if now >= width:
                raise IndexError("a game is longer than what is kept of it")
            seen[game, now] = hashes[game]
            links[game, 2 * width + now] = links[game, slot]
            links[game, slot] = now
    for game in range(start, stop):
        if before.finished[game]:
            continue
        for ago in range(recent.shape[1] - 1, 0, -1):
            for colour in range(2):
                for row in range(size):
                    recent[game, ago, colour, row] = recent[game, ago - 1, colour, row]
        for row in range(size):
            recent[game, 0, 0, row], recent[game, 0, 1, row] = before.black[game, row], before.white[game, row]
            lost[game, 0, row] |= removed[game, 0, row]
            lost[game, 1, row] |= removed[game, 1, row]
        for ago in range(moves.shape[1] - 1, 0, -1):
            moves[game, ago] = moves[game, ago - 1]
        moves[game, 0] = actions[game]


def replace_(old: list[Tensor], index: Tensor, new: list[Tensor]) -> None:
    """Overwrites the entries with the given indices, int64 [K], of tensors [B, ...] by those of tensors [K, ...], all
    contiguous and of the same types."""
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


# The leaves of a search


def step_leaves(states: Any, path: Any, words: Tensor, actions: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Returns the leaves after the moves, as in `shared.leaf_fields`: words of the parents, actions int64 [K], keys
    int64 [2 * A] by `board.position.point_keys`."""
    fields = shared.leaf_fields(states, path, words)
    arrays = (type(kind)(*(field.numpy() for field in kind)) for kind in fields)
    over_games(_step_leaves, len(words), words, actions, keys, *arrays)
    _, _, leaves, after = fields
    return leaves._asdict() | after._asdict()


@kernel
def _step_leaves(start, stop, parents, actions, keys, path, games, leaves, after):
    work = strings.scratch()
    for k in range(start, stop):
        action, game, size = actions[k], path.game_index[k], games.on_board.shape[1]
        on_board, may_die = games.on_board[game], games.suicide[game]
        _write_past(path, games, k, action, leaves)
        _unpack(k, parents, after)
        if not after.finished[k]:
            play(work, after, k, action, on_board, may_die, games.cap[game], keys)
        leaves.repeats[k] = action != leaves.legal.shape[1] - 1 and _repeats(path, games, k, after.hash[k])
        strings.load(work, after, k, on_board)
        if after.finished[k]:
            leaves.legal[k] = False
        else:
            strings.legal_into(work, size, after.ko[k], may_die)
            for row in range(size):
                for column in range(size):
                    leaves.legal[k, row * size + column] = (work[SCRATCH + 1 + row] >> column) & 1
        leaves.legal[k, -1], leaves.result[k] = True, -1
        if after.finished[k] or after.passes[k] == 1:
            strings.load(work, after, k, on_board)
            is_black, lead = after.to_play[k] == 1, strings.area(work, size)
            score = np.float32(lead if is_black else -lead) - games.komi[game]
            leaves.result[k] = np.sign(score) if is_black else -np.sign(score)
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
