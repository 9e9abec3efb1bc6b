"""Which moves would repeat a whole-board position, exactly: a game's warp plays the few suspects and reads all that the
game has seen.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import rows
from zerogo.kernels.cuda.moves import fields_of, given, load_position

SIMPLE, SITUATIONAL = tl.constexpr(0), tl.constexpr(2)  # places in `rules.SUPERKO`
PLIES = tl.constexpr(256)  # remembered hashes that are compared at a time


@triton.jit
def was_seen(seen, last, hashed, ply, superko):
    """Returns whether a game that comes to the hash at `ply + 1` may not: bool scalar.

    seen: pointer to its hashes by ply, which are read from ply 0 to `last`. Situational superko asks for the same side
    to move."""
    found, start = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    while (found == 0) & (start <= last):
        at = start + tl.arange(0, PLIES)
        same = (tl.load(seen + at, mask=at <= last, other=0) == hashed) & (at <= last)
        counts = same & ((superko != SITUATIONAL) | (((at + ply) & 1) == 1))
        found = tl.max(counts.to(tl.int32), 0)
        start += PLIES
    return found != 0


@triton.jit
def _hash_after(place, is_suicide, own, weak, hashed, keys, first, N: tl.constexpr):
    """Returns the hash after a stone of a colour whose keys begin at `first` is placed: int64 scalar. weak: the
    opponent's in atari.
    """
    other = N * N + 1 - first
    seeds, within = tl.where(is_suicide, place, rows.neighbours(place)), tl.where(is_suicide, own | place, weak)
    removed = rows.flood(seeds, within)
    placed_key = rows.hash_of(place, keys, first, N)
    return hashed ^ placed_key ^ rows.hash_of(removed, keys, tl.where(is_suicide, first, other), N)


@triton.jit
def repeating_points(position, legal, dying, lost, seen, game, superko, keys, width, N: tl.constexpr):
    """Returns those of the legal points of a game that superko bans: int32 [32].

    dying: the legal points that are suicide. lost: where stones of the side to move were ever removed; only there can
    its next one repeat a position, or where it dies."""
    is_black = position.to_play == 1
    own, opponent = (
        tl.where(is_black, position.black, position.white),
        tl.where(is_black, position.white, position.black),
    )
    first, last = tl.where(is_black, 0, N * N + 1), tl.minimum(position.ply, width - 1)
    suspects = tl.where(superko == SIMPLE, 0, legal & (lost | dying))
    banned = tl.zeros_like(suspects)
    left = rows.any_point(suspects)
    while left:
        place = rows.point_rows(rows.first_point(suspects, N), N)
        is_suicide = rows.any_point(dying & place)
        after = _hash_after(place, is_suicide, own, opponent & position.atari, position.hash, keys, first, N)
        repeats = was_seen(seen + game.to(tl.int64) * width, last, after, position.ply, superko)
        banned = tl.where(repeats, banned | place, banned)
        suspects = suspects & ~place
        left = rows.any_point(suspects)
    return banned


@triton.jit(do_not_specialize=["width"])
def repeating_kernel(
    fields, superkos, legals, suicides, lost, seen, keys, banned, width, N: tl.constexpr, ANY_SUICIDE: tl.constexpr
):
    """Writes what superko bans in one game; pointers as `repeating_rows` has them, width is H."""
    game = tl.program_id(0)
    position, legal = load_position(fields, game, N), rows.load_rows(legals, game, N)
    dying = tl.zeros_like(legal)
    if ANY_SUICIDE:
        dying = rows.load_rows(suicides, game, N)
    gone = rows.load_rows(lost, 2 * game + tl.where(position.to_play == 1, 0, 1), N)
    found = repeating_points(position, legal, dying, gone, seen, game, tl.load(superkos + game), keys, width, N)
    rows.store_rows(banned, game, found, N)


def repeating_rows(state: Any, legal: Tensor, suicides: Tensor | None, keys: Tensor) -> Tensor:
    """Returns those of the given points that superko bans: legal int32 [B, N], legal otherwise -> int32 [B, N].

    suicides: int32 [B, N], those of them that remove their own string, None where no game allows it. keys: int64 [2 *
    A]."""
    fields, legal = fields_of(state), legal.contiguous()
    banned = torch.empty_like(legal)
    num_games, board_size = legal.shape
    if num_games:
        dying = given(suicides, legal)
        remembered = (state.lost.contiguous(), state.seen.contiguous(), keys, banned, state.seen.shape[1])
        sizes = {"N": board_size, "ANY_SUICIDE": suicides is not None}
        repeating_kernel[(num_games,)](
            fields, state.rules.superko.contiguous(), legal, dying, *remembered, **sizes, num_warps=1
        )
    return banned
