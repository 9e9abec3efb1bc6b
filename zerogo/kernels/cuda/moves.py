"""One move of one game, as the kernels for boards and for the search make it: planes are blocks of 32 lanes, the rest
scalars.

What is computed and why is told in `board.position`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import rows


class Position(NamedTuple):
    """The fields of `board.position.Position`: pointers to the tensors of all games, or the values of one, the planes
    int32 [32], captures int32 [2], all others scalars: int32 but for hash (int64) and finished (bool)."""

    black: tl.tensor
    white: tl.tensor
    atari: tl.tensor
    to_play: tl.tensor
    passes: tl.tensor
    ply: tl.tensor
    ko: tl.tensor
    hash: tl.tensor
    captures: tl.tensor
    finished: tl.tensor


def fields_of(position: Any) -> Position:
    """Returns the tensors of positions, as kernels read them."""
    return Position(*(getattr(position, name).contiguous() for name in Position._fields))


def empty_like(fields: Position) -> Position:
    """Returns tensors for as many other positions."""
    return Position(*(torch.empty_like(field) for field in fields))


def given(flags: Tensor | None, stand_in: Tensor) -> Tensor:
    """Returns the flags, or a tensor that stands in for a pointer that is never read."""
    return stand_in if flags is None else flags.contiguous()


@triton.jit
def load_position(fields, game, N: tl.constexpr):
    """Returns the values of one game."""
    return Position(
        rows.load_rows(fields.black, game, N),
        rows.load_rows(fields.white, game, N),
        rows.load_rows(fields.atari, game, N),
        tl.load(fields.to_play + game).to(tl.int32),
        tl.load(fields.passes + game).to(tl.int32),
        tl.load(fields.ply + game),
        tl.load(fields.ko + game).to(tl.int32),
        tl.load(fields.hash + game),
        tl.load(fields.captures + 2 * game + tl.arange(0, 2)),
        tl.load(fields.finished + game) != 0,
    )


@triton.jit
def store_position(fields, game, position, N: tl.constexpr):
    """Writes the values of one game."""
    rows.store_rows(fields.black, game, position.black, N)
    rows.store_rows(fields.white, game, position.white, N)
    rows.store_rows(fields.atari, game, position.atari, N)
    tl.store(fields.to_play + game, position.to_play.to(tl.int8))
    tl.store(fields.passes + game, position.passes.to(tl.int8))
    tl.store(fields.ply + game, position.ply)
    tl.store(fields.ko + game, position.ko.to(tl.int16))
    tl.store(fields.hash + game, position.hash)
    tl.store(fields.captures + 2 * game + tl.arange(0, 2), position.captures)
    tl.store(fields.finished + game, position.finished)


@triton.jit
def flag_at(flags, index, IS_GIVEN: tl.constexpr):
    """Returns a flag of a tensor that need not be there: bool scalar, False without it."""
    flag = tl.full((), 0, tl.int32) != 0
    if IS_GIVEN:
        flag = tl.load(flags + index) != 0
    return flag


@triton.jit
def legal_points(position, on_board, suicide, N: tl.constexpr):
    """Returns the points that may be played but for superko: int32 [32]."""
    is_black = position.to_play == 1
    own, opponent = (
        tl.where(is_black, position.black, position.white),
        tl.where(is_black, position.white, position.black),
    )
    empty = on_board & ~(own | opponent)
    near = rows.neighbours(empty | (own & ~position.atari) | (opponent & position.atari))
    legal = tl.where(suicide, -1, near) & empty & ~rows.point_rows(position.ko, N)
    return tl.where(position.finished, 0, legal)


@triton.jit
def _touched(place, own, strong, weak):
    """Returns the strings that the placed stone touches: its own, all of the opponent's that were in atari, which it
    takes, and on each side one that was not. Six floods at once, since a step's time is waiting, which they do
    together."""
    string, taken = rows.fill_sideways(place, own), rows.fill_sideways(rows.neighbours(place) & weak, weak)
    left, right = rows.fill_sideways((place >> 1) & strong, strong), rows.fill_sideways((place << 1) & strong, strong)
    above = rows.fill_sideways(rows.from_below(place) & strong, strong)
    below = rows.fill_sideways(rows.from_above(place) & strong, strong)
    grows = rows.any_point(place)
    while grows:
        string_before, taken_before, left_before, right_before, above_before, below_before = (
            string,
            taken,
            left,
            right,
            above,
            below,
        )
        string, taken = rows.grow(string, own), rows.grow(taken, weak)
        left, right = rows.grow(left, strong), rows.grow(right, strong)
        above, below = rows.grow(above, strong), rows.grow(below, strong)
        new = (string ^ string_before) | (taken ^ taken_before) | (left ^ left_before) | (right ^ right_before)
        grows = rows.any_point(new | (above ^ above_before) | (below ^ below_before))
    return string, taken, left, right, above, below


@triton.jit
def _if_in_atari(string, free):
    """Returns the string if it has exactly one liberty among the free points, else nothing."""
    return tl.where(rows.has_one_point(rows.neighbours(string) & free), string, 0)


@triton.jit
def _put_stone(place, own, opponent, atari, on_board, suicide):
    """Returns own and the opponent's stones and those in atari after a stone was placed (or none: an empty plane), what
    it took, what it lost by suicide, and whether the one stone taken must not be retaken at once: int32 [32] five
    times, bool."""
    own = own | place
    string, taken, left, right, above, below = _touched(place, own, opponent & ~atari, opponent & atari)
    opponent = opponent & ~taken
    empty = on_board & ~(own | opponent)
    lost = tl.where(suicide & (rows.any_point(rows.neighbours(string) & empty) == 0), string, 0)
    free = empty | lost
    weak = _if_in_atari(string, free) & ~lost
    in_atari = (
        weak
        | _if_in_atari(left, free)
        | _if_in_atari(right, free)
        | _if_in_atari(above, free)
        | _if_in_atari(below, free)
    )
    # Strings in atari beside removed stones have now two liberties or more: their last one and a new one.
    beside = tl.where(rows.any_point(taken), own, opponent) & atari
    relieved = rows.flood(rows.neighbours(taken | lost) & beside, beside)
    own = own & ~lost
    atari = ((atari & ~(relieved | string)) | in_atari) & (own | opponent)
    is_ko = (rows.count(taken) == 1) & rows.has_one_point(weak)
    return own, opponent, atari, taken, lost, is_ko


@triton.jit
def moved(before, action, on_board, suicide, cap, keys, N: tl.constexpr):
    """Returns the position after an action (int32, P for pass), the stones that it removed int32 [32], and whether they
    were black.
    """
    is_black, going = before.to_play == 1, before.finished == 0
    own, opponent = tl.where(is_black, before.black, before.white), tl.where(is_black, before.white, before.black)
    place = rows.point_rows(tl.where(going, action, -1), N)
    own, opponent, atari, taken, lost, is_ko = _put_stone(place, own, opponent, before.atari, on_board, suicide)
    removed = taken | lost
    was_black = is_black ^ rows.any_point(taken)
    placed_key = tl.load(keys + action + tl.where(is_black, 0, N * N + 1), mask=going, other=0)
    removed_key = rows.hash_of(removed, keys, tl.where(was_black, 0, N * N + 1), N)
    passes = tl.where(going, tl.where(action >= N * N, before.passes + 1, 0), before.passes)
    ply = tl.where(going, before.ply + 1, before.ply)
    captor = tl.where(was_black, 1, 0)  # a suicide's stones are the opponent's captures too
    after = Position(
        tl.where(is_black, own, opponent),
        tl.where(is_black, opponent, own),
        atari,
        tl.where(going, 3 - before.to_play, before.to_play),
        passes,
        ply,
        tl.where(going, tl.where(is_ko, rows.first_point(removed, N), -1), before.ko),
        before.hash ^ removed_key ^ placed_key,
        before.captures + tl.where(tl.arange(0, 2) == captor, rows.count(removed), 0),
        before.finished | (passes >= 2) | (ply >= cap),
    )
    return after, removed, was_black
