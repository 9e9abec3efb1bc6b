"""Tactics on the host, in NumPy: what `tactics.BoundedTactics` gives, several times faster, since the host may look at what there is.

Strings get numbers, and lists of empty points and of strings take the place of whole boards. What a string can breathe through is a set
of points packed into 64-bit words; the liberties of the string that a move makes are the union of those sets. Only moves that capture, a
few in a hundred, need floods: what they free was no liberty before.

Points lie in flat boards with a border: row r, column c is (r + 1) * (N + 1) + c, so that a step to any side stays in the array.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zerogo.board.host import own_rows, rows_of
from zerogo.flood import flood_host, neighbours_host

if TYPE_CHECKING:
    from zerogo.board import State

BITS = 52  # points to a word: sums of that many different powers of two are exact in the float64 of a weighted bincount
OWN = 1 << 10  # the bit of a label that says whose the string is, above all places of flat boards
STRAGGLERS = 0.3  # share of the boards below which the unfinished ones are picked out


class HostTactics:
    """See `tactics.Tactics`. Everything is found when it is first asked for."""

    def __init__(self, state: State, legal: Tensor) -> None:
        self.own, self.on_board, self.atari = own_rows(state), rows_of(state.on_board), rows_of(state.atari)
        self.opponent = rows_of(state.black) ^ rows_of(state.white) ^ self.own
        self.empty = self.on_board & ~(self.own | self.opponent)
        self.legal, self.same_size = rows_of(legal), state.rules.same_size
        self.num_games, self.board_size = self.own.shape
        self.stride = self.board_size + 1
        self.flat_size = (self.board_size + 2) * self.stride + 1

    @cached_property
    def liberties(self) -> Tensor:
        strings = self._strings
        return self._on_boards(strings.stones, self._liberty_counts.take(strings.number))

    @cached_property
    def capture_size(self) -> Tensor:
        return self._moves[0]

    @cached_property
    def opponent_capture_size(self) -> Tensor:
        strings = self._strings
        size = np.where((self._liberty_counts == 1) & strings.is_own, strings.size, 0)
        return self._on_boards(self._around.points, self._sum_beside(size))

    @cached_property
    def liberties_after(self) -> Tensor:
        return self._moves[1]

    @cached_property
    def size_after(self) -> Tensor:
        return self._moves[2]

    @cached_property
    def self_atari_size(self) -> Tensor:
        return self._moves[3]

    @cached_property
    def strings_joined(self) -> Tensor:
        return self._on_boards(self._around.points, self._sum_beside(self._strings.is_own.astype(np.int32)), only_legal=True)

    @cached_property
    def weakest_opponent(self) -> Tensor:
        strings, none = self._strings, np.int32(np.iinfo(np.int16).max)
        liberties = np.where(strings.is_own, none, self._liberty_counts)
        liberties[-1] = none
        beside = [_with_points(liberties, self.board_size, none).take(side) for side in self._around.beside]
        weakest = np.minimum.reduce(beside)
        return self._on_boards(self._around.points, np.where(weakest == none, 0, weakest))

    @cached_property
    def _strings(self) -> Strings:
        """Gives every string a number."""
        labels = np.zeros((self.num_games, self.flat_size), np.int16)
        by_point = torch.from_numpy(string_labels(self.own, self.opponent)).flatten(0, 1)
        self._boards(labels)[:] = by_point.t().contiguous().view(-1, self.board_size, self.board_size).numpy()  # torch transposes in blocks
        stones = np.flatnonzero(labels != 0)
        first = (np.arange(self.num_games, dtype=np.int32) * self.flat_size)[:, None]
        label = (first + (labels & np.int16(OWN - 1))).reshape(-1).take(stones)
        roots = stones.compress(label == stones)
        number_at = np.empty(labels.size, np.int32)
        number_at[roots] = np.arange(len(roots), dtype=np.int32)
        number = number_at.take(label)
        is_own = np.zeros(len(roots) + 1, bool)
        is_own[:-1] = labels.reshape(-1).take(roots) & OWN
        return Strings(stones, number, np.bincount(number, minlength=len(roots) + 1).astype(np.int32), is_own)

    @cached_property
    def _around(self) -> Around:
        """Finds what lies beside each empty point."""
        strings, none = self._strings, np.int32(len(self._strings.size) - 1)
        nodes = np.empty((self.num_games, self.flat_size), np.int32)
        nodes[:] = _point_template(self.board_size) + (none + 1)
        if not self.same_size:
            self._boards(nodes)[bits_of(self.on_board) == 0] = none
        flat = nodes.reshape(-1)
        flat[strings.stones] = strings.number
        points = np.flatnonzero(flat > none)
        point, above = flat.take(points) - (none + 1), points - self.stride
        beside = np.empty((4, len(points)), np.int32)
        for side, step in enumerate((0, self.stride - 1, self.stride + 1, 2 * self.stride)):
            flat[step:].take(above, out=beside[side], mode="clip")
        different = np.minimum(beside, none)
        for side in range(1, 4):
            is_met = beside[side] == beside[0]
            for earlier in range(1, side):
                is_met |= beside[side] == beside[earlier]
            np.maximum(different[side], is_met * none, out=different[side])
        return Around(points, point, beside, different)

    @cached_property
    def _breath(self) -> np.ndarray:
        """Returns the liberties of the strings as sets of points, behind them the empty points themselves: int64 [K + 1 + P, W]."""
        around, number, words = self._around, len(self._strings.size), _words(self.board_size)
        word, bit = np.divmod(np.arange(self.board_size**2), BITS)
        pairs = np.flatnonzero(around.different < number - 1)
        point = np.concatenate([around.point] * 4).take(pairs)
        index = around.beside.reshape(-1).take(pairs) * words
        index += word.astype(np.int32).take(point)
        sums = np.bincount(index, weights=(2.0**bit).take(point), minlength=number * words)
        breath = np.empty((number + self.board_size**2, words), np.int64)
        breath[:number] = sums.reshape(number, words)
        breath[number:] = _point_sets(self.board_size)
        return breath

    @cached_property
    def _liberty_counts(self) -> np.ndarray:
        return _size_of(self._breath[: len(self._strings.size)])

    @cached_property
    def _sizes_beside(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns for each empty point the stones of the own strings beside it, and of the opponent's in atari: int32 [E] each."""
        strings, counts = self._strings, self._liberty_counts
        size = np.where(strings.is_own, strings.size, np.where(counts == 1, strings.size << 16, 0))
        both = self._sum_beside(size)
        return both & 0xFFFF, both >> 16

    def _sum_beside(self, value: np.ndarray) -> np.ndarray:
        """Returns for each empty point the sum over the different strings beside it: int32 [K + 1], the last 0 -> int32 [E]."""
        total = value.take(self._around.different[0])
        for different in self._around.different[1:]:
            total += value.take(different)
        return total

    @cached_property
    def _after(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the liberties and the size of the string that a stone of the mover's makes on each empty point: int16, int32 [E]."""
        around, (joined, captured) = self._around, self._sizes_beside
        is_empty = around.beside >= len(self._strings.size)
        liberties = is_empty.sum(0, dtype=np.int16)
        joins, captures = np.flatnonzero(joined != 0), np.flatnonzero(captured != 0)
        none = len(self._strings.size) - 1
        own = np.arange(len(self._breath), dtype=np.int32)
        own[: none + 1] = np.where(self._strings.is_own, own[: none + 1], none)
        union = np.zeros((len(joins), self._breath.shape[1]), np.int64)
        for beside in around.beside:
            union |= self._breath.take(own.take(beside.take(joins)), axis=0)
        liberties[joins] = _size_of(union) - np.int16(1)  # the point itself was a liberty of every own string beside it
        is_weak = np.append((self._liberty_counts == 1) & ~self._strings.is_own, np.zeros(self.board_size**2, bool))
        freed = is_weak.take(around.beside.take(captures, axis=1)).sum(0)
        liberties[captures] += freed.astype(np.int16)
        # Captured stones that are not beside the move may be beside the strings that it joins.
        hard = captures[(captured[captures] > freed) & (joined[captures] != 0)]
        liberties[hard] = self._liberties_after_captures(hard)
        return liberties, joined + 1

    def _liberties_after_captures(self, captures: np.ndarray) -> np.ndarray:
        """Returns the liberties after moves that capture, by floods: int64 [M] into the empty points -> int64 [M]."""
        around, index = self._around, np.arange(len(captures))
        game = around.points.take(captures) // self.flat_size
        row, column = np.divmod(around.point.take(captures), self.board_size)
        place = np.zeros((len(captures), self.board_size), np.int32)
        place[index, row] = 1 << column
        own = self.own[game] | place
        weak = (self.opponent & self.atari)[game]
        seeds = np.concatenate([place, neighbours_host(place) & weak])
        grown = flood_host(seeds, np.concatenate([own, weak]))
        string, taken = np.ascontiguousarray(grown[: len(captures)]), grown[len(captures) :]
        liberties = neighbours_host(string) & (self.empty[game] | taken) & ~place
        return np.bitwise_count(liberties).sum(1)

    @cached_property
    def _moves(self) -> list[Tensor]:
        """Returns captured stones, liberties and size after each legal move, and the size where it is in atari: int16 [B, N, N] each. They
        are written as one number of four parts."""
        liberties, size = self._after
        packed = np.empty((len(size), 4), "<i2")
        packed[:, 0], packed[:, 1], packed[:, 2], packed[:, 3] = self._sizes_beside[1], liberties, size, size * (liberties <= 1)
        flat = np.zeros((self.num_games, self.flat_size), "<i8")
        flat.reshape(-1)[self._around.points] = packed.view("<i8")[:, 0]
        flat.reshape(-1)[self._illegal] = 0
        parts = torch.from_numpy(np.ascontiguousarray(self._boards(flat)).view("<i2"))
        return list(parts.unflatten(2, (self.board_size, 4)).unbind(3))

    def _on_boards(self, places: np.ndarray, values: np.ndarray, only_legal: bool = False) -> Tensor:
        """Returns values at places of the flat boards and 0 elsewhere, also where a move is not legal if asked: int16 [B, N, N]."""
        flat = np.zeros((self.num_games, self.flat_size), np.int16)
        flat.reshape(-1)[places] = values.astype(np.int16, copy=False)
        if only_legal:
            flat.reshape(-1)[self._illegal] = 0
        return torch.from_numpy(np.ascontiguousarray(self._boards(flat)))

    @cached_property
    def _illegal(self) -> np.ndarray:
        """Returns the places of the empty points where no move is legal, which are few: int64 [I]."""
        rows = (self.empty & ~self.legal).reshape(-1)
        used = np.flatnonzero(rows)
        word, column = np.nonzero((rows[used, None] >> np.arange(self.board_size, dtype=np.int32)) & 1)
        game, row = np.divmod(used[word], self.board_size)
        return game * self.flat_size + (row + 1) * self.stride + column

    def _boards(self, flat: np.ndarray) -> np.ndarray:
        """Returns the view of the points without the border: [B, flat size] -> [B, N, N]."""
        size, stride = self.board_size, self.stride
        return flat[:, stride : stride + size * stride].reshape(self.num_games, size, stride)[:, :, :size]


class Strings(NamedTuple):
    """All strings of all games, numbered from 0 to K - 1. stones: int64 [S], places of all stones in the flat boards. number: int32 [S],
    the string of each. size: int32 [K + 1] stones, is_own: bool [K + 1], both empty for the last, which is no string."""

    stones: np.ndarray
    number: np.ndarray
    size: np.ndarray
    is_own: np.ndarray


class Around(NamedTuple):
    """All empty points and what lies beside them. points: int64 [E], places in the flat boards. point: int32 [E], row * N + column.
    beside: int32 [4, E], above, left, right, below: a string's number, K off the board, K + 1 + p for the empty point p.
    different: int32 [4, E], the number of a string that no earlier side has, K for anything else."""

    points: np.ndarray
    point: np.ndarray
    beside: np.ndarray
    different: np.ndarray


def bits_of(rows: np.ndarray) -> np.ndarray:
    """Returns bit rows as points: int32 [..., N] -> uint8 [..., N, N], 0 or 1."""
    size = rows.shape[-1]
    words = np.ascontiguousarray(rows, "<i4").view(np.uint8).reshape(*rows.shape, 4)
    return np.unpackbits(words, axis=-1, count=size, bitorder="little")


def string_labels(own: np.ndarray, opponent: np.ndarray) -> np.ndarray:
    """Returns a label for every stone, the same in all its string: int32 [B, N] twice -> int16 [N, N, B], the greatest place of its stones
    in the flat board, with `OWN` added in own strings; 0 where there is none.

    Sweeps over rows and columns, forth and back, carry the greatest label along; games come last, so that each step of a sweep is one
    operation on many games. Two sweeps do for nine boards in ten; the others are gone on with alone.
    """
    own, opponent = np.ascontiguousarray(own.T), np.ascontiguousarray(opponent.T)
    size = len(own)
    down = (own[1:] & own[:-1]) | (opponent[1:] & opponent[:-1])
    right = (own & (own >> 1)) | (opponent & (opponent >> 1))
    place = ((np.arange(size) + 1)[:, None] * (size + 1) + np.arange(size)).astype(np.int16)[:, :, None]
    labels = _masks(opponent, size)
    labels &= place
    labels |= _masks(own, size) & (place | np.int16(OWN))
    down, right = _masks(down, size), _masks(right, size)
    result, lanes = labels, None
    while True:
        for _ in range(2):
            _sweep(labels, down, right)
        differs = np.bitwise_or.reduce(((labels[1:] ^ labels[:-1]) & down).reshape(-1, labels.shape[2]), axis=0)
        differs |= np.bitwise_or.reduce(((labels[:, 1:] ^ labels[:, :-1]) & right[:, :-1]).reshape(-1, labels.shape[2]), axis=0)
        unfinished = np.flatnonzero(differs)
        if len(unfinished) and len(unfinished) > STRAGGLERS * labels.shape[2]:
            continue
        if lanes is not None:
            result[:, :, lanes] = labels
        if not len(unfinished):
            return result
        lanes = unfinished if lanes is None else lanes[unfinished]
        labels, down, right = (array.take(unfinished, axis=2) for array in (labels, down, right))


def _sweep(labels: np.ndarray, down: np.ndarray, right: np.ndarray) -> None:
    """Carries the greatest labels down, to the right, up and to the left, in place: int16 [N, N, B] each (down one row less)."""
    size, scratch = len(labels), np.empty((len(labels), labels.shape[2]), np.int16)
    for lines, joined in ((labels, down), (labels.transpose(1, 0, 2), right.transpose(1, 0, 2))):
        for line in range(1, size):
            np.bitwise_and(lines[line - 1], joined[line - 1], out=scratch)
            np.maximum(lines[line], scratch, out=lines[line])
        for line in range(size - 2, -1, -1):
            np.bitwise_and(lines[line + 1], joined[line], out=scratch)
            np.maximum(lines[line], scratch, out=lines[line])


def _masks(rows: np.ndarray, size: int) -> np.ndarray:
    """Returns points as masks, all bits set or none: bit rows int32 [R, B] of N = size columns -> int16 [R, N, B]."""
    if size <= 16:
        shift = (15 - np.arange(size, dtype=np.int16))[:, None]
        return (rows.astype(np.int16)[:, None, :] << shift) >> np.int16(15)
    shift = (31 - np.arange(size, dtype=np.int32))[:, None]
    return ((rows[:, None, :] << shift) >> np.int32(31)).astype(np.int16)


def _size_of(sets: np.ndarray) -> np.ndarray:
    """Returns how many points sets hold: int64 [..., W] -> int16 [...]. W additions are faster than a sum over so short a dimension."""
    counts = np.bitwise_count(sets)
    total = counts[..., 0].astype(np.int16)
    for word in range(1, sets.shape[-1]):
        total += counts[..., word]
    return total


def _with_points(values: np.ndarray, board_size: int, of_points: int) -> np.ndarray:
    """Returns values of strings with one for all points behind them: [K + 1] -> [K + 1 + P]."""
    return np.concatenate([values, np.full(board_size**2, of_points, values.dtype)])


def _words(board_size: int) -> int:
    """Returns W, the words of a set of points."""
    return -(-(board_size**2) // BITS)


@cache
def _point_sets(board_size: int) -> np.ndarray:
    """Returns the set of each single point: int64 [P, W]."""
    word, bit = np.divmod(np.arange(board_size**2), BITS)
    sets = np.zeros((board_size**2, _words(board_size)), np.int64)
    sets[np.arange(board_size**2), word] = 1 << bit
    return sets


@cache
def _point_template(board_size: int) -> np.ndarray:
    """Returns the point at each place of a flat board, -1 on its border: int32 [flat size]."""
    flat = np.full((board_size + 2, board_size + 1), -1, np.int32)
    flat[1:-1, :-1] = np.arange(board_size**2).reshape(board_size, board_size)
    return np.append(flat.reshape(-1), np.int32(-1))
