"""The rules over whole batches, game after game: floods, strings in atari, legal points, superko, moves with their history.

They do what the functions of the same names in `zerogo.board` and `zerogo.flood` do, bit for bit; those tell what and why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import array, bit_count, copy_bytes, first_bit, inline, kernel, over_games
from zerogo.kernels.cpu.strings import (
    ATARI,
    FREE,
    NOTHING,
    OTHER,
    OWN,
    SEVERAL,
    STRIDE,
    STRING,
    TAKEN,
    WEAK,
    beside,
    fill,
    key_of,
    legal_into,
    load,
    move,
    scratch,
    string,
)
from zerogo.rules import SIMPLE, SITUATIONAL

FIELDS = ("black", "white", "atari", "to_play", "passes", "ply", "ko", "hash", "captures", "finished")


def legal_rows(position: Any, on_board: Tensor, suicide: Tensor | None) -> Tensor:
    """Returns the points that may be played but for superko: int32 [B, N]; see `board.position.legal_rows`."""
    legal = np.empty(position.black.shape, np.int32)
    over_games(legal_loop, len(legal), *legal_fields(position), array(on_board), flags(suicide, len(legal)), legal)
    return torch.from_numpy(legal)


def legal_fields(position: Any) -> list[np.ndarray]:
    """Returns what `legal_loop` needs of positions."""
    return [array(getattr(position, name)) for name in ("black", "white", "atari", "to_play", "ko", "finished")]


def flags(suicide: Tensor | None, num_games: int) -> np.ndarray:
    """Returns bool [B], False throughout where there is no tensor."""
    return np.zeros(num_games, bool) if suicide is None else array(suicide)


@kernel
def legal_loop(start, stop, black, white, atari, to_play, ko, finished, on_board, suicide, legal):
    size = black.shape[1]
    work = scratch()
    for game in range(start, stop):
        if finished[game]:
            for row in range(size):
                legal[game, row] = 0
            continue
        load(work, black, white, atari, on_board, game, to_play[game] == 1)
        legal_into(work, size, OWN, ko[game], suicide[game])
        for row in range(size):
            legal[game, row] = work[WEAK + 1 + row]


def play(
    position: Any, actions: Tensor, on_board: Tensor, suicide: Tensor | None, cap: Tensor, keys: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """Returns the fields of the positions after one action each, and the removed stones int32 [B, 2, N] (black, white);
    see `board.position.play`."""
    arguments, after, removed = play_arguments(position, actions, on_board, suicide, cap, keys)
    over_games(play_loop, len(removed), *arguments)
    return {name: torch.from_numpy(field) for name, field in after.items()}, torch.from_numpy(removed)


def play_arguments(
    position: Any, actions: Tensor, on_board: Tensor, suicide: Tensor | None, cap: Tensor, keys: Tensor
) -> tuple[list[np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """Returns what `play_loop` is called with, the actions first, and what it writes: the fields and the removed
    stones.
    """
    before = [array(getattr(position, name)) for name in FIELDS]
    after = {name: np.empty_like(field) for name, field in zip(FIELDS, before, strict=True)}
    removed = np.zeros((len(before[0]), 2, before[0].shape[1]), np.int32)
    rules = (array(actions), array(on_board), flags(suicide, len(removed)), array(cap), array(keys))
    return [*rules, *before, *after.values(), removed], after, removed


@kernel
def play_loop(
    start,
    stop,
    actions,
    on_board,
    suicide,
    cap,
    keys,
    black,
    white,
    atari,
    to_play,
    passes,
    ply,
    ko,
    hashes,
    captures,
    finished,
    new_black,
    new_white,
    new_atari,
    new_to_play,
    new_passes,
    new_ply,
    new_ko,
    new_hashes,
    new_captures,
    new_finished,
    removed,
):
    size = black.shape[1]
    work = scratch()
    for game in range(start, stop):
        for row in range(size):
            new_black[game, row], new_white[game, row], new_atari[game, row] = (
                black[game, row],
                white[game, row],
                atari[game, row],
            )
        new_captures[game, 0], new_captures[game, 1] = captures[game, 0], captures[game, 1]
        new_to_play[game], new_passes[game], new_ply[game] = to_play[game], passes[game], ply[game]
        new_ko[game], new_hashes[game], new_finished[game] = ko[game], hashes[game], finished[game]
        if finished[game]:
            continue
        action, colour = actions[game], to_play[game] - 1
        if not 0 <= action <= size * size:
            raise IndexError("an action is beyond the board")
        new_to_play[game], new_ply[game], new_ko[game] = 2 - colour, ply[game] + 1, -1
        new_passes[game] = 0
        if action == size * size:
            new_passes[game] = passes[game] + 1
        else:
            load(work, black, white, atari, on_board, game, colour == 0)
            key, number, whose, new_ko[game] = move(work, size, action, colour, suicide[game], keys)
            first, second = (OWN + 1, OTHER + 1) if colour == 0 else (OTHER + 1, OWN + 1)
            for row in range(size):
                new_black[game, row], new_white[game, row] = work[first + row], work[second + row]
                new_atari[game, row] = work[ATARI + 1 + row]
            new_hashes[game] ^= key
            if number > 0:
                new_captures[game, 1 - whose] += number
                for row in range(size):
                    removed[game, whose, row] = work[TAKEN + 1 + row]
        new_finished[game] = new_passes[game] >= 2 or new_ply[game] >= cap[game]


def find_atari(black: Tensor, white: Tensor, on_board: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones whose string has exactly one liberty, and those whose string has none: int32 [B, N] each."""
    atari, without = np.zeros((2, *black.shape), np.int32)
    over_games(_find_atari, len(black), array(black), array(white), array(on_board), atari, without)
    return torch.from_numpy(atari), torch.from_numpy(without)


@kernel
def _find_atari(start, stop, black, white, on_board, atari, without):
    size = black.shape[1]
    work = scratch()
    for game in range(start, stop):
        load(work, black, white, atari, on_board, game, True)
        for plane in (OWN, OTHER):
            for row in range(1, 1 + size):
                while work[plane + row] != 0:
                    liberties = string(work, plane, FREE, row, work[plane + row] & -work[plane + row], False)
                    for r in range(size):
                        found = work[STRING + 1 + r]
                        work[plane + 1 + r] &= ~found
                        if liberties == 1:
                            atari[game, r] |= found
                        elif liberties != SEVERAL:
                            without[game, r] |= found


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


def exact_legal_rows(state: Any, keys: Tensor) -> Tensor:
    """Returns the points that may be played, superko included: int32 [B, N]. The games have their whole history."""
    position = legal_fields(state)
    exists, suicide = array(state.on_board), flags(state.suicide, state.num_games)
    legal, banned, never = np.empty_like(exists), np.zeros_like(exists), np.zeros_like(suicide)
    dying = np.empty_like(exists if state.suicide is not None else exists[:0])
    fields, superkos, table = fields_of(state), array(state.rules.superko), array(keys)

    def loop(start: int, stop: int) -> None:
        part = slice(start, stop)
        legal_loop(start, stop, *position, exists, suicide, legal)
        if len(dying):
            legal_loop(start, stop, *position, exists, never, dying)
            dying[part] = legal[part] & ~dying[part]
        repeating_loop(start, stop, *fields, superkos, legal, dying, table, banned)
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
    arguments, after, removed = play_arguments(state, actions, state.on_board, state.suicide, state.cap, keys)
    before = [array(part) for part in (state.finished, state.ply, state.black, state.white)]
    kept = [history[name].numpy() for name in ("seen", "links", "lost", "recent", "moves")]

    def loop(start: int, stop: int) -> None:
        play_loop(start, stop, *arguments)
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


def flood(seeds: Tensor, within: Tensor) -> Tensor:
    """Returns all points of `within` that are connected to a seed through it: int32 [K, N] each -> int32 [K, N]; see
    `flood.flood`.
    """
    inside = array(within)
    grown = np.empty_like(inside)
    over_games(_flood, len(grown), array(seeds), inside, grown)
    return torch.from_numpy(grown)


@kernel
def _flood(start, stop, seeds, within, grown):
    size = within.shape[1]
    for plane in range(start, stop):
        rows = 0  # those with points that have not been looked at from here yet
        for row in range(size):
            grown[plane, row] = fill(seeds[plane, row] & within[plane, row], within[plane, row])
            rows |= np.int64(grown[plane, row] != 0) << row
        while rows != 0:
            row = first_bit(rows)
            rows &= rows - 1
            here = grown[plane, row]
            for near in (row - 1, row + 1):
                if 0 <= near < size:
                    new = here & within[plane, near] & ~grown[plane, near]
                    if new != 0:
                        grown[plane, near] |= fill(new, within[plane, near])
                        rows |= np.int64(1) << near
