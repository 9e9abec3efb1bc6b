"""Go inside the search: what the last moves of all simulations lead to, in one launch. One warp a simulation.

Does what `search.games.Go` does operation by operation, whose words tell what and why: play, pack, legal, outcome (by
area), repeats, leaf."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels.cuda import rows
from zerogo.kernels.cuda.board import (
    SIMPLE,
    SITUATIONAL,
    Position,
    flag_at,
    given,
    legal_points,
    moved,
    store_position,
    was_seen,
)

RECENT, RECENT_MOVES = tl.constexpr(7), tl.constexpr(5)  # as in `board.state`
LEVELS = tl.constexpr(32)  # nodes of a path that are compared at a time


class Way(NamedTuple):
    """How a simulation came to its leaf, as `search.games.Line` has it: pointers to lane [K], path [K, D], depth [K]
    (int64), the packed positions of all nodes int32 [R, W] and the moves to them int32 [R]."""

    lane: tl.tensor
    path: tl.tensor
    depth: tl.tensor
    words: tl.tensor
    actions: tl.tensor


class Games(NamedTuple):
    """What the roots' states tell: pointers to the tensors of these names in `State`, ply that of the root."""

    on_board: tl.tensor
    cap: tl.tensor
    suicide: tl.tensor
    komi: tl.tensor
    superko: tl.tensor
    ply: tl.tensor
    seen: tl.tensor
    recent: tl.tensor
    moves: tl.tensor


class Found(NamedTuple):
    """Where it is written, beside the position's own fields: pointers, see `step_leaves`."""

    words: tl.tensor
    legal: tl.tensor
    result: tl.tensor
    repeats: tl.tensor
    recent: tl.tensor
    moves: tl.tensor


@triton.jit
def _unpacked(words, first, N: tl.constexpr):
    """Returns the position in the words from `first` on; `Go` tells their order."""
    small = words + first + 3 * N
    low, high = tl.load(small).to(tl.int64) & 0xFFFFFFFF, tl.load(small + 1).to(tl.int64) << 32
    return Position(
        rows.load_rows(words + first, 0, N),
        rows.load_rows(words + first, 1, N),
        rows.load_rows(words + first, 2, N),
        tl.load(small + 2),
        tl.load(small + 3),
        tl.load(small + 5),
        tl.load(small + 6),
        high | low,
        tl.load(small + 7 + tl.arange(0, 2)),
        tl.load(small + 4) != 0,
    )


@triton.jit
def _pack(words, first, position, N: tl.constexpr):
    """Writes the position into the words from `first` on."""
    small = words + first + 3 * N
    rows.store_rows(words + first, 0, position.black, N)
    rows.store_rows(words + first, 1, position.white, N)
    rows.store_rows(words + first, 2, position.atari, N)
    tl.store(small, position.hash.to(tl.int32))
    tl.store(small + 1, (position.hash >> 32).to(tl.int32))
    tl.store(small + 2, position.to_play)
    tl.store(small + 3, position.passes)
    tl.store(small + 4, position.finished.to(tl.int32))
    tl.store(small + 5, position.ply)
    tl.store(small + 6, position.ko)
    tl.store(small + 7 + tl.arange(0, 2), position.captures)


@triton.jit
def _store_points(points, first, plane, N: tl.constexpr):
    """Writes a plane as flags point by point, and True for pass: bool [A] from `first` on."""
    lane = tl.arange(0, rows.LANES)
    for start in range(0, N * N + 1, rows.LANES):
        point = start + lane
        is_set = (rows.point_bits(plane, tl.minimum(point, N * N - 1), N) != 0) | (point == N * N)
        tl.store(points + first + point, is_set, mask=point <= N * N)


@triton.jit
def _result(position, on_board, komi):
    """Returns the side to move's result by area, as the board stands: float32 scalar in -1, 0, 1."""
    empty = on_board & ~(position.black | position.white)
    by_black, by_white = rows.flood_two(rows.neighbours(position.black), empty, rows.neighbours(position.white), empty)
    score = rows.count(position.black | (by_black & ~by_white)) - rows.count(position.white | (by_white & ~by_black))
    lead = score.to(tl.float32) - komi
    result = tl.where(lead > 0, 1.0, tl.where(lead < 0, -1.0, 0.0))
    return tl.where(position.to_play == 1, result, -result)


@triton.jit
def _on_the_way(way, first, depth, hashed, superko, N: tl.constexpr):
    """Returns whether a node from the root to the leaf's parent has this hash, under situational superko with the
    leaf's side to move.
    """
    found, start = tl.full((), 0, tl.int32), tl.full((), 0, tl.int64)
    while (found == 0) & (start <= depth):
        level = start + tl.arange(0, LEVELS)
        is_there = level <= depth
        row = tl.load(way.path + first + level, mask=is_there, other=0).to(tl.int64)
        small = way.words + row * (3 * N + 9) + 3 * N
        low = tl.load(small, mask=is_there, other=0).to(tl.int64) & 0xFFFFFFFF
        high = tl.load(small + 1, mask=is_there, other=0).to(tl.int64) << 32
        counts = is_there & ((high | low) == hashed) & ((superko != SITUATIONAL) | (((depth - level) & 1) == 1))
        found = tl.max(counts.to(tl.int32), 0)
        start += LEVELS
    return found != 0


@triton.jit
def _repeats(way, games, game, first, depth, action, hashed, width, N: tl.constexpr):
    """Returns whether the move to the position of this hash was illegal, since the game or the way to it had it before:
    bool scalar.
    """
    superko, ply = tl.load(games.superko + game), tl.load(games.ply + game)
    last = tl.minimum(ply, width - 1)
    seen = was_seen(games.seen + game * width, last, hashed, ply + depth, superko)
    return (seen | _on_the_way(way, first, depth, hashed, superko, N)) & (action < N * N) & (superko != SIMPLE)


@triton.jit
def _past(way, games, game, first, depth, N: tl.constexpr, TILE: tl.constexpr):
    """Returns the stones of the positions before the leaf, newest first, flat: int32 [TILE]; from the way, and behind
    the root from the game."""
    at = tl.arange(0, TILE)
    ago = at // (2 * N)
    index, is_meant = depth - ago, ago < RECENT
    is_way = is_meant & (index >= 0)
    row = tl.load(way.path + first + index, mask=is_way, other=0).to(tl.int64)
    stones = tl.load(way.words + row * (3 * N + 9) + at % (2 * N), mask=is_way, other=0)
    earlier = games.recent + game * (RECENT * 2 * N) + at - (depth + 1) * (2 * N)
    return tl.where(is_way, stones, tl.load(earlier, mask=is_meant & (index < 0), other=0))


@triton.jit
def _past_moves(way, games, game, first, depth, action):
    """Returns the last moves, newest first: int32 [8], of which `RECENT_MOVES` count."""
    at = tl.arange(0, 8)
    index = depth + 1 - at
    is_way, is_before = (index > 0) & (at > 0), (index <= 0) & (at < RECENT_MOVES)
    row = tl.load(way.path + first + index, mask=is_way, other=0).to(tl.int64)
    moves = tl.load(way.actions + row, mask=is_way, other=0)
    earlier = tl.load(games.moves + game * RECENT_MOVES - index, mask=is_before, other=0).to(tl.int32)
    return tl.where(at == 0, action, tl.where(is_way, moves, earlier))


@triton.jit
def _store_past(found, simulation, past, past_moves, N: tl.constexpr, TILE: tl.constexpr):
    """Writes what was before the leaf."""
    at, move = tl.arange(0, TILE), tl.arange(0, 8)
    tl.store(found.recent + simulation * (RECENT * 2 * N) + at, past, mask=at < RECENT * 2 * N)
    tl.store(found.moves + simulation * RECENT_MOVES + move, past_moves.to(tl.int16), mask=move < RECENT_MOVES)


@triton.jit(do_not_specialize=["num_levels", "width"])
def arrival_kernel(
    words, actions, way, games, keys, after, found, num_levels, width,
    N: tl.constexpr, TILE: tl.constexpr, ANY_SUICIDE: tl.constexpr, ANY_SUPERKO: tl.constexpr
):  # fmt: skip
    """Writes all that one simulation's move leads to. All is read before anything is written, or each read would wait
    for the last.
    """
    simulation = tl.program_id(0)
    game, depth = tl.load(way.lane + simulation).to(tl.int64), tl.load(way.depth + simulation).to(tl.int64)
    action = tl.load(actions + simulation).to(tl.int32)
    first = simulation.to(tl.int64) * num_levels
    before = _unpacked(words, simulation * (3 * N + 9), N)
    on_board, cap, komi = rows.load_rows(games.on_board, game, N), tl.load(games.cap + game), tl.load(games.komi + game)
    suicide = flag_at(games.suicide, game, ANY_SUICIDE)
    past, past_moves = (
        _past(way, games, game, first, depth, N, TILE),
        _past_moves(way, games, game, first, depth, action),
    )
    position, _, _ = moved(before, action, on_board, suicide, cap, keys, N)
    repeats, result = tl.full((), 0, tl.int32) != 0, tl.full((), 0, tl.float32)
    if ANY_SUPERKO:
        repeats = _repeats(way, games, game, first, depth, action, position.hash, width, N)
    if position.finished:
        result = _result(position, on_board, komi)
    store_position(after, simulation, position, N)
    _pack(found.words, simulation * (3 * N + 9), position, N)
    _store_points(found.legal, simulation * (N * N + 1), legal_points(position, on_board, suicide, N), N)
    _store_past(found, simulation, past, past_moves, N, TILE)
    tl.store(found.result + simulation, result)
    tl.store(found.repeats + simulation, repeats)


def step_leaves(states: Any, line: Any, words: Tensor, actions: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Returns what the moves lead to: words int32 [K, W] are the packed positions before them, actions int64 [K], keys
    int64 [2 * A].

    words: int32 [K, W]. legal: bool [K, A], but for superko. finished: bool [K]; result: float32 [K], the side to
    move's by area, 0 where the game goes on. repeats: bool [K], the move was illegal. recent: int32 [K, 7, 2, N],
    moves: int16 [K, 5], what was before. And the fields of the position. For batches without territory scoring."""
    board_size, lanes = states.board_size, len(words)
    after, found = _room(lanes, board_size, words.device)
    way = Way(*(tensor.contiguous() for tensor in (line.lane, line.path, line.depth, line.words, line.actions)))
    rules = states.rules
    facts = (states.on_board, states.cap, given(states.suicide, states.finished), rules.komi, rules.superko)
    games = Games(*(tensor.contiguous() for tensor in (*facts, states.ply, states.seen, states.recent, states.moves)))
    if lanes:
        sizes = {"N": board_size, "TILE": triton.next_power_of_2(RECENT.value * 2 * board_size)}
        arrival_kernel[(lanes,)](
            words.contiguous(),
            actions.contiguous(),
            way,
            games,
            keys,
            after,
            found,
            way.path.shape[1],
            games.seen.shape[1],
            ANY_SUICIDE=states.suicide is not None,
            ANY_SUPERKO=rules.any_superko,
            **sizes,
            num_warps=1,
        )
    return after._asdict() | found._asdict()


def _room(lanes: int, board_size: int, device: torch.device) -> tuple[Position, Found]:
    """Returns tensors for all that is found."""

    def room(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.empty(lanes, *shape, dtype=dtype, device=device)

    after = Position(
        *(room(torch.int32, board_size) for _ in range(3)),
        room(torch.int8),
        room(torch.int8),
        room(torch.int32),
        room(torch.int16),
        room(torch.int64),
        room(torch.int32, 2),
        room(torch.bool),
    )
    return after, Found(
        room(torch.int32, 3 * board_size + 9),
        room(torch.bool, board_size**2 + 1),
        room(torch.float32),
        room(torch.bool),
        room(torch.int32, RECENT.value, 2, board_size),
        room(torch.int16, RECENT_MOVES.value),
    )
