"""What a ply of many games takes, a launch each: exact legal points, a draw among them, a move with its history; and
new games.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import rows
from zerogo.kernels.cuda.moves import (
    empty_like,
    fields_of,
    flag_at,
    given,
    legal_points,
    load_position,
    moved,
    store_position,
)
from zerogo.kernels.cuda.superko import repeating_points


class History(NamedTuple):
    """Pointers to the tensors of these names in `State`."""

    seen: tl.tensor
    links: tl.tensor
    lost: tl.tensor
    recent: tl.tensor
    moves: tl.tensor


@triton.jit(do_not_specialize=["width"])
def exact_kernel(
    fields, on_board, suicide, superkos, lost, seen, keys, legal, width, N: tl.constexpr, ANY_SUICIDE: tl.constexpr
):
    """Writes one game's exact legal points; width is H."""
    game = tl.program_id(0)
    position, board = load_position(fields, game, N), rows.load_rows(on_board, game, N)
    points = legal_points(position, board, flag_at(suicide, game, ANY_SUICIDE), N)
    dying = points & ~legal_points(position, board, flag_at(suicide, game, False), N)
    gone = rows.load_rows(lost, 2 * game + tl.where(position.to_play == 1, 0, 1), N)
    banned = repeating_points(position, points, dying, gone, seen, game, tl.load(superkos + game), keys, width, N)
    rows.store_rows(legal, game, points & ~banned, N)


def exact_legal_rows(state: Any, keys: Tensor) -> Tensor:
    """Returns the points that may be played, superko included: int32 [B, N]. The games have their whole history."""
    fields = fields_of(state)
    legal = torch.empty_like(fields.black)
    num_games, board_size = legal.shape
    if num_games:
        flags, seen = given(state.suicide, fields.finished), state.seen.contiguous()
        remembered = (state.rules.superko.contiguous(), state.lost.contiguous(), seen, keys, legal, seen.shape[1])
        sizes = {"N": board_size, "ANY_SUICIDE": state.suicide is not None}
        exact_kernel[(num_games,)](fields, state.on_board.contiguous(), flags, *remembered, **sizes, num_warps=1)
    return legal


@triton.jit
def pick_kernel(planes, numbers, actions, N: tl.constexpr):
    """Writes the action that one game's number stands for: its points in their order, then the pass."""
    game = tl.program_id(0)
    lane = tl.arange(0, rows.LANES)
    points = rows.load_rows(planes, game, N)
    counts = rows.row_counts(points)
    until = tl.cumsum(counts, 0)
    left = (tl.load(numbers + game) * (tl.sum(counts, 0) + 1)).to(tl.int32) - (
        until - counts
    )  # points of the row before the chosen one
    is_row = (left >= 0) & (left < counts)
    column = tl.zeros_like(points)
    for step in tl.static_range(
        5
    ):  # the next half of the row, from 16 columns to one, is passed where the point lies behind it
        half = 16 >> step
        before = rows.row_counts((points >> column) & ((1 << half) - 1))
        behind = left >= before
        left, column = tl.where(behind, left - before, left), tl.where(behind, column + half, column)
    chosen = tl.min(tl.where(is_row, lane * N + column, N * N), 0)
    tl.store(actions + game, chosen.to(tl.int64))


def pick(planes: Tensor, numbers: Tensor) -> Tensor:
    """Returns one of the points of each plane or, as likely as any of them, the pass: int32 [B, N], float64 [B] in [0,
    1) -> int64 [B].
    """
    actions = torch.empty(len(planes), dtype=torch.int64, device=planes.device)
    if len(planes):
        pick_kernel[(len(planes),)](planes.contiguous(), numbers.contiguous(), actions, N=planes.shape[1], num_warps=1)
    return actions


@triton.jit
def _remember(
    history, game, before, action, hashed, gone, was_black, width, N: tl.constexpr, RECENT, MOVES, TILE: tl.constexpr
):
    """Writes a move into a game's history. All is read before anything is written: lanes may write what others read."""
    stones, at = tl.arange(0, TILE), tl.arange(0, 8)
    is_stone, is_move = stones < (RECENT - 1) * 2 * N, at < MOVES - 1
    recent, moves = history.recent + game * (RECENT * 2 * N), history.moves + game * MOVES
    now, links = before.ply + 1, history.links + game * (3 * width)
    slot = hashed & (2 * width - 1)
    old_stones, old_moves = tl.load(recent + stones, mask=is_stone, other=0), tl.load(moves + at, mask=is_move, other=0)
    newest = tl.load(links + slot)
    black_lost, white_lost = rows.load_rows(history.lost, 2 * game, N), rows.load_rows(history.lost, 2 * game + 1, N)
    tl.debug_barrier()
    tl.store(recent + 2 * N + stones, old_stones, mask=is_stone)
    rows.store_rows(recent, 0, before.black, N)
    rows.store_rows(recent, 1, before.white, N)
    tl.store(moves + 1 + at, old_moves, mask=is_move)
    tl.store(moves, action.to(tl.int16))
    rows.store_rows(history.lost, 2 * game, tl.where(was_black, black_lost | gone, black_lost), N)
    rows.store_rows(history.lost, 2 * game + 1, tl.where(was_black, white_lost, white_lost | gone), N)
    tl.store(history.seen + game * width + now, hashed)
    tl.store(links + 2 * width + now, newest)
    tl.store(links + slot, now)


@triton.jit(do_not_specialize=["width"])
def step_kernel(
    fields, actions, on_board, suicide, cap, keys, after, history, width,
    N: tl.constexpr, RECENT: tl.constexpr, MOVES: tl.constexpr, TILE: tl.constexpr, ANY_SUICIDE: tl.constexpr
):  # fmt: skip
    """Writes one game's position after its action, and what it leaves in the history; width is H."""
    game = tl.program_id(0)
    before, action = load_position(fields, game, N), tl.load(actions + game).to(tl.int32)
    board, may_die = rows.load_rows(on_board, game, N), flag_at(suicide, game, ANY_SUICIDE)
    position, gone, was_black = moved(before, action, board, may_die, tl.load(cap + game), keys, N)
    if before.finished == 0:
        _remember(
            history, game.to(tl.int64), before, action, position.hash, gone, was_black, width, N, RECENT, MOVES, TILE
        )
    store_position(after, game, position, N)


def step_(state: Any, actions: Tensor, keys: Tensor, history: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the fields of the positions after one action each, and writes the moves into the history of the games
    that go on.

    history: the state's `seen`, `links`, `lost`, `recent` and `moves`, contiguous; H is greater than any ply.
    """
    fields, kept = fields_of(state), History(**history)
    after = empty_like(fields)
    num_games, board_size = fields.black.shape
    if num_games:
        flags, recent = given(state.suicide, fields.finished), kept.recent.shape[1]
        step_kernel[(num_games,)](
            fields,
            actions.contiguous(),
            state.on_board.contiguous(),
            flags,
            state.cap.contiguous(),
            keys,
            after,
            kept,
            kept.seen.shape[1],
            N=board_size,
            RECENT=recent,
            MOVES=kept.moves.shape[1],
            TILE=triton.next_power_of_2(recent * 2 * board_size),
            ANY_SUICIDE=state.suicide is not None,
            num_warps=1,
        )
    return after._asdict()


def replace_(old: list[Tensor], index: Tensor, new: list[Tensor]) -> None:
    """Writes the entries of tensors [K, ...] over those with an index, int64 [K], of others [B, ...]."""
    for to, source in zip(old, new, strict=True):
        to[index] = source
