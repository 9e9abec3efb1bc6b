"""What strings and moves are worth at a glance, exactly and for every point of every game at once: liberties, captures,
self-atari.

Kernels find them string by string (`zerogo.kernels`). `BoundedTactics` does the same in torch without waiting for a
device: strings are known by a label, and the points that a string touches are a set of bits at its label. A test holds
them against each other."""

from __future__ import annotations

from functools import cache, cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from zerogo import flood, kernels
from zerogo.board import State
from zerogo.board.position import own_and_opponent
from zerogo.kernels.shared import TACTICS

BITS = 60  # points to a word of a set: all sums and shifts stay positive


class Tactics(Protocol):
    """Numbers for every point: int16 [B, N, N] each, 0 where there is nothing to say.

    liberties: of the string on a point. capture_size: the opponent's stones that a move captures. liberties_after,
    size_after: of the string that a move makes, captures taken off; a suicide leaves 0 liberties and the size that is
    lost. self_atari_size: that size where the liberties are 0 or 1. strings_joined: own strings beside a move. All
    these only where a move is legal. opponent_capture_size: own stones that the opponent would capture here.
    weakest_opponent: the fewest liberties of the opponent's strings beside an empty point."""

    @property
    def liberties(self) -> Tensor: ...
    @property
    def capture_size(self) -> Tensor: ...
    @property
    def opponent_capture_size(self) -> Tensor: ...
    @property
    def liberties_after(self) -> Tensor: ...
    @property
    def size_after(self) -> Tensor: ...
    @property
    def self_atari_size(self) -> Tensor: ...
    @property
    def strings_joined(self) -> Tensor: ...
    @property
    def weakest_opponent(self) -> Tensor: ...


def read_tactics(state: State, legal: Tensor) -> Tactics:
    """Returns the tactics of B positions; legal int32 [B, N], where the side to move may play."""
    fast = kernels.compiled("tactics", state.device)
    if fast is None:
        return BoundedTactics(state, legal)
    found = fast.read(*own_and_opponent(state), state.on_board, legal)
    return Numbers(**dict(zip(TACTICS, found.unbind(0), strict=True)))


class Numbers(NamedTuple):
    """See `Tactics`: all of them, as the kernels give them."""

    liberties: Tensor
    capture_size: Tensor
    opponent_capture_size: Tensor
    liberties_after: Tensor
    size_after: Tensor
    self_atari_size: Tensor
    strings_joined: Tensor
    weakest_opponent: Tensor


class BoundedTactics:
    """See `Tactics`. Everything is found when it is first asked for, by operations whose number depends on N alone.

    Sets of points are W = ceil(P / 60) words, int64 [..., W]. Strings are known by a label, one of their points; P
    stands for none."""

    def __init__(self, state: State, legal: Tensor) -> None:
        self.board_size, self.num_points = state.board_size, state.board_size**2
        own, opponent = own_and_opponent(state)
        self.own, self.opponent, self.on_board, self.legal = (
            flood.unpack_rows(rows).flatten(1) for rows in (own, opponent, state.on_board, legal)
        )
        self.stone = self.own | self.opponent
        self.empty = self.on_board & ~self.stone

    @cached_property
    def liberties(self) -> Tensor:
        return self._boards(torch.where(self.stone, self._liberty_counts.gather(1, self._labels), 0))

    @cached_property
    def capture_size(self) -> Tensor:
        return self._moves(self._sum_beside(self._size, self._is_weak & self._is(self.opponent)))

    @cached_property
    def opponent_capture_size(self) -> Tensor:
        return self._boards(
            torch.where(self.empty, self._sum_beside(self._size, self._is_weak & self._is(self.own)), 0)
        )

    @cached_property
    def size_after(self) -> Tensor:
        return self._moves(1 + self._sum_beside(self._size, self._is(self.own)))

    @cached_property
    def self_atari_size(self) -> Tensor:
        return self.size_after * (self.liberties_after <= 1)

    @cached_property
    def strings_joined(self) -> Tensor:
        return self._moves(self._sum_beside(torch.ones_like(self._size), self._is(self.own)))

    @cached_property
    def weakest_opponent(self) -> Tensor:
        none = self.num_points
        counts = torch.where(self._is(self.opponent), self._of_beside(self._liberty_counts), none).amin(1)
        return self._boards(torch.where(self.empty & (counts < none), counts, 0))

    @cached_property
    def liberties_after(self) -> Tensor:
        """The new string touches what its parts touch; it breathes through what of that is empty or was captured."""
        single = _point_sets(self.board_size, self.own.device)
        touched = _beside_sets(self.board_size, self.own.device).expand(len(self.own), -1, -1)
        captured = torch.zeros_like(touched)
        joins, takes = self._is(self.own), self._is_weak & self._is(self.opponent)
        for side in range(4):
            label = self._beside[:, side].unsqueeze(2).expand_as(touched)
            touched = touched | torch.where(joins[:, side].unsqueeze(2), self._touched.gather(1, label), 0)
            captured = captured | torch.where(takes[:, side].unsqueeze(2), self._stones.gather(1, label), 0)
        free = self._set_of(self.empty).unsqueeze(1) | captured
        return self._moves(_size_of(touched & free & ~single))

    @cached_property
    def _labels(self) -> Tensor:
        """Returns the label of each point's string, its own where empty: int64 [B, P]."""
        return flood.string_labels(self.stone, self.board_size, self.own.to(torch.int8))

    @cached_property
    def _beside(self) -> Tensor:
        """Returns the labels of the strings above, left, right and below each point, P for none: int64 [B, 4, P]."""
        n, none = self.board_size, self.num_points
        labels = torch.where(self.stone, self._labels, none).unflatten(1, (n, n))
        padded = torch.nn.functional.pad(labels, (1, 1, 1, 1), value=none)
        sides = padded[:, :-2, 1:-1], padded[:, 1:-1, :-2], padded[:, 1:-1, 2:], padded[:, 2:, 1:-1]
        return torch.stack([side.flatten(1) for side in sides], dim=1)

    @cached_property
    def _is_first(self) -> Tensor:
        """Returns whether a string is beside a point that no earlier side has: bool [B, 4, P]."""
        is_first = self._beside < self.num_points
        for side in range(1, 4):
            is_first[:, side] &= (self._beside[:, :side] != self._beside[:, side : side + 1]).all(1)
        return is_first

    @cached_property
    def _touched(self) -> Tensor:
        """Returns by label the set of points beside a string: int64 [B, P + 1, W]."""
        words, single = _words(self.board_size), _point_sets(self.board_size, self.own.device)
        sets = torch.zeros(len(self.own), (self.num_points + 1) * words, dtype=torch.int64, device=self.own.device)
        for word in range(words):
            bits = torch.where(self._is_first, single[:, word], 0).flatten(1)
            sets.scatter_add_(1, self._beside.flatten(1) * words + word, bits)
        return sets.unflatten(1, (-1, words))

    @cached_property
    def _stones(self) -> Tensor:
        """Returns by label the set of a string's points: int64 [B, P + 1, W]."""
        words, single = _words(self.board_size), _point_sets(self.board_size, self.own.device)
        sets = torch.zeros(len(self.own), (self.num_points + 1) * words, dtype=torch.int64, device=self.own.device)
        for word in range(words):
            sets.scatter_add_(1, self._labels * words + word, torch.where(self.stone, single[:, word], 0))
        return sets.unflatten(1, (-1, words))

    @cached_property
    def _size(self) -> Tensor:
        """Returns by label how many stones a string has: int64 [B, P + 1]."""
        none = torch.zeros(len(self.own), self.num_points + 1, dtype=torch.int64, device=self.own.device)
        return none.scatter_add_(1, self._labels, self.stone.to(torch.int64))

    @cached_property
    def _liberty_counts(self) -> Tensor:
        """Returns by label how many liberties a string has: int64 [B, P + 1]."""
        return _size_of(self._touched & self._set_of(self.empty).unsqueeze(1))

    @cached_property
    def _is_weak(self) -> Tensor:
        """Returns whether the string on a side is in atari: bool [B, 4, P]."""
        return self._of_beside(self._liberty_counts) == 1

    def _set_of(self, points: Tensor) -> Tensor:
        """Returns points as sets: bool [B, P] -> int64 [B, W]."""
        single = _point_sets(self.board_size, points.device)
        return torch.stack([torch.where(points, word, 0).sum(1) for word in single.unbind(1)], dim=1)

    def _is(self, points: Tensor) -> Tensor:
        """Returns whether the neighbour on each side is one of the points: bool [B, P] -> bool [B, 4, P]."""
        return torch.nn.functional.pad(points, (0, 1)).gather(1, self._beside.flatten(1)).view_as(self._beside)

    def _of_beside(self, values: Tensor) -> Tensor:
        """Returns values of strings for the string on each side: int64 [B, P + 1] -> int64 [B, 4, P]."""
        return values.gather(1, self._beside.flatten(1)).view_as(self._beside)

    def _sum_beside(self, values: Tensor, is_meant: Tensor) -> Tensor:
        """Returns the sum over the different strings beside each point that are meant: int64 [B, P + 1], bool [B, 4, P]
        -> int64 [B, P].
        """
        return torch.where(self._is_first & is_meant, self._of_beside(values), 0).sum(1)

    def _moves(self, values: Tensor) -> Tensor:
        return self._boards(torch.where(self.legal, values, 0))

    def _boards(self, values: Tensor) -> Tensor:
        return values.to(torch.int16).unflatten(1, (self.board_size, self.board_size))


def _words(board_size: int) -> int:
    return -(-(board_size**2) // BITS)


@cache
def _point_sets(board_size: int, device: torch.device) -> Tensor:
    """Returns the set of each single point: int64 [P, W]."""
    points = torch.arange(board_size**2)
    sets = torch.zeros(board_size**2, _words(board_size), dtype=torch.int64)
    sets[points, torch.div(points, BITS, rounding_mode="floor")] = 1 << (points % BITS)
    return sets.to(device)


@cache
def _beside_sets(board_size: int, device: torch.device) -> Tensor:
    """Returns the set of the points beside each point: int64 [P, W]."""
    grid = _point_sets(board_size, torch.device("cpu")).unflatten(0, (board_size, board_size))
    padded = torch.nn.functional.pad(grid, (0, 0, 1, 1, 1, 1))
    sides = padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]
    return (sides[0] | sides[1] | sides[2] | sides[3]).flatten(0, 1).to(device)


def _size_of(sets: Tensor) -> Tensor:
    """Returns how many points sets hold: int64 [..., W] -> int64 [...]."""
    x = sets - ((sets >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    for shift in (8, 16, 32):
        x = x + (x >> shift)
    return (x & 0x7F).sum(-1)
