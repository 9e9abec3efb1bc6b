"""Steps the leaves of all simulations on CUDA in one launch, one warp per simulation.

This is `search.game.Go.step_leaves` of torch: play, pack, legal, outcome (by area), repeats, leaf. A board row is a
lane, so planes are in registers (see `rows`) and the rest are scalars. `kernels.shared` defines the packing; here
`small` points at the first word after the rows."""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels import shared
from zerogo.kernels.arguments import PositionFields, leaf_fields
from zerogo.kernels.cuda import board, launch, rows

SMALL_WORDS = tl.constexpr(shared.WORDS_AFTER_ROWS)
HASH, TO_PLAY, PASSES = tl.constexpr(shared.HASH), tl.constexpr(shared.TO_PLAY), tl.constexpr(shared.PASSES)
FINISHED, PLY, KO = tl.constexpr(shared.FINISHED), tl.constexpr(shared.PLY), tl.constexpr(shared.KO)
CAPTURES = tl.constexpr(shared.CAPTURES)
LEVELS = tl.constexpr(32)  # nodes of a path compared at a time


def step_leaves(states: Any, path: Any, words: Tensor, actions: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Returns the leaves after the moves, as `cpu.leaf_states.step_leaves`."""
    ways, games, leaves, after = leaf_fields(states, path, words)
    number, recent, _, size = leaves.recent.shape
    arguments = words, actions, ways, games, keys, after, leaves, ways.path.shape[1], games.seen.shape[1]
    sizes = {"N": size, "RECENT": recent, "MOVES": leaves.moves.shape[1], "ANY_SUPERKO": states.rules.any_superko}
    launch(leaf_kernel, number, *arguments, **sizes, TILE=triton.next_power_of_2(recent * 2 * size), num_warps=1)
    return after._asdict() | leaves._asdict()


@triton.jit(do_not_specialize=["num_levels", "width"])
def leaf_kernel(
    words, actions, path, games, keys, after, leaves, num_levels, width,
    N: tl.constexpr, RECENT: tl.constexpr, MOVES: tl.constexpr, TILE: tl.constexpr, ANY_SUPERKO: tl.constexpr,
):  # fmt: skip
    """Writes the leaf of one simulation; width is H. Everything is read before anything is written, so that reads do
    not wait for each other."""
    k = tl.program_id(0)
    game, depth = tl.load(path.game_index + k).to(tl.int64), tl.load(path.depth + k).to(tl.int64)
    action = tl.load(actions + k).to(tl.int32)
    first = k.to(tl.int64) * num_levels
    before = _unpacked(words + k * (3 * N + SMALL_WORDS), N)
    on_board, cap, komi = rows.load_rows(games.on_board, game, N), tl.load(games.cap + game), tl.load(games.komi + game)
    suicide = tl.load(games.suicide + game) != 0
    past = _past(path, games, game, first, depth, N, RECENT, TILE)
    past_moves = _past_moves(path, games, game, first, depth, action, MOVES)
    position, _, _ = board.moved(before, action, on_board, suicide, cap, keys, N)
    repeats, result = tl.full((), 0, tl.int32) != 0, tl.full((), 0, tl.float32)
    if ANY_SUPERKO:
        repeats = _repeats(path, games, game, first, depth, action, position.hash, width, N)
    if position.finished:
        result = _result(position, on_board, komi)
    board.store_position(after, k, position, N)
    _pack(leaves.words + k * (3 * N + SMALL_WORDS), position, N)
    legal, _ = board.legal_points(position, on_board, suicide, N)
    rows.store_points(leaves.legal + k * (N * N + 1), legal, N)
    at, move = tl.arange(0, TILE), tl.arange(0, 8)
    tl.store(leaves.recent + k * (RECENT * 2 * N) + at, past, mask=at < RECENT * 2 * N)
    tl.store(leaves.moves + k * MOVES + move, past_moves.to(tl.int16), mask=move < MOVES)
    tl.store(leaves.result + k, result)
    tl.store(leaves.repeats + k, repeats)


@triton.jit
def _hash_in(small, mask):
    """Returns the hash in packed positions, 0 where the mask is not set: int64."""
    low = tl.load(small + HASH, mask=mask, other=0).to(tl.int64) & 0xFFFFFFFF
    return (tl.load(small + HASH + 1, mask=mask, other=0).to(tl.int64) << 32) | low


@triton.jit
def _unpacked(words, N: tl.constexpr):
    """Returns the position in packed words."""
    small = words + 3 * N
    return PositionFields(
        rows.load_rows(words, 0, N),
        rows.load_rows(words, 1, N),
        rows.load_rows(words, 2, N),
        tl.load(small + TO_PLAY),
        tl.load(small + PASSES),
        tl.load(small + PLY),
        tl.load(small + KO),
        _hash_in(small, True),
        tl.load(small + CAPTURES + tl.arange(0, 2)),
        tl.load(small + FINISHED) != 0,
    )


@triton.jit
def _pack(words, position, N: tl.constexpr):
    """Writes a position into packed words."""
    small = words + 3 * N
    rows.store_rows(words, 0, position.black, N)
    rows.store_rows(words, 1, position.white, N)
    rows.store_rows(words, 2, position.atari, N)
    tl.store(small + HASH, position.hash.to(tl.int32))
    tl.store(small + HASH + 1, (position.hash >> 32).to(tl.int32))
    tl.store(small + TO_PLAY, position.to_play)
    tl.store(small + PASSES, position.passes)
    tl.store(small + FINISHED, position.finished.to(tl.int32))
    tl.store(small + PLY, position.ply)
    tl.store(small + KO, position.ko)
    tl.store(small + CAPTURES + tl.arange(0, 2), position.captures)


@triton.jit
def _repeats(path, games, game, first, depth, action, hashed, width, N: tl.constexpr):
    """Returns whether the move to a position with this hash was illegal because the game or the path has it already:
    bool scalar."""
    superko, ply = tl.load(games.superko + game), tl.load(games.ply + game)
    last = tl.minimum(ply, width - 1)
    seen = board.was_seen(games.seen + game * width, last, hashed, ply + depth, superko)
    return (seen | _is_on_path(path, first, depth, hashed, superko, N)) & (action < N * N) & (superko != board.SIMPLE)


@triton.jit
def _is_on_path(path, first, depth, hashed, superko, N: tl.constexpr):
    """Returns whether a node from the root to the leaf's parent has this hash, under situational superko with the
    leaf's side to move."""
    repeats, start = tl.full((), 0, tl.int32), tl.full((), 0, tl.int64)
    while (repeats == 0) & (start <= depth):
        level = start + tl.arange(0, LEVELS)
        is_there = level <= depth
        row = tl.load(path.path + first + level, mask=is_there, other=0).to(tl.int64)
        same = _hash_in(path.words + row * (3 * N + SMALL_WORDS) + 3 * N, is_there) == hashed
        counts = is_there & same & ((superko != board.SITUATIONAL) | (((depth - level) & 1) == 1))
        repeats = tl.max(counts.to(tl.int32), 0)
        start += LEVELS
    return repeats != 0


@triton.jit
def _past(path, games, game, first, depth, N: tl.constexpr, RECENT: tl.constexpr, TILE: tl.constexpr):
    """Returns the stones of the positions before the leaf, newest first, flat: int32 [TILE], from the path's nodes, or
    before the root from the game."""
    at = tl.arange(0, TILE)
    ago = at // (2 * N)
    index, is_meant = depth - ago, ago < RECENT
    is_on_path = is_meant & (index >= 0)
    row = tl.load(path.path + first + index, mask=is_on_path, other=0).to(tl.int64)
    stones = tl.load(path.words + row * (3 * N + SMALL_WORDS) + at % (2 * N), mask=is_on_path, other=0)
    earlier = games.recent + game * (RECENT * 2 * N) + at - (depth + 1) * (2 * N)
    return tl.where(is_on_path, stones, tl.load(earlier, mask=is_meant & (index < 0), other=0))


@triton.jit
def _past_moves(path, games, game, first, depth, action, MOVES: tl.constexpr):
    """Returns the last moves, newest first: int32 [8], of which `MOVES` count."""
    at = tl.arange(0, 8)
    index = depth + 1 - at
    is_on_path, is_before = (index > 0) & (at > 0), (index <= 0) & (at < MOVES)
    row = tl.load(path.path + first + index, mask=is_on_path, other=0).to(tl.int64)
    moves = tl.load(path.actions + row, mask=is_on_path, other=0)
    earlier = tl.load(games.moves + game * MOVES - index, mask=is_before, other=0).to(tl.int32)
    return tl.where(at == 0, action, tl.where(is_on_path, moves, earlier))


@triton.jit
def _result(position, on_board, komi):
    """Returns the side to move's result by area, as the board stands: float32 scalar in -1, 0, 1."""
    empty = on_board & ~(position.black | position.white)
    by_black, by_white = (
        rows.flood(rows.neighbours(position.black), empty),
        rows.flood(rows.neighbours(position.white), empty),
    )
    score = rows.count(position.black | (by_black & ~by_white)) - rows.count(position.white | (by_white & ~by_black))
    lead = score.to(tl.float32) - komi
    result = tl.where(lead > 0, 1.0, tl.where(lead < 0, -1.0, 0.0))
    return tl.where(position.to_play == 1, result, -result)
