"""The rules over whole batches, one warp per game: floods, legal points with superko, moves with their history; and the
moves of a search, all simulations in one launch, one warp each.

They do the same as the functions of these names in `zerogo.board`, `board.flood` and `search.game.Go`, bit for bit;
those explain what and why. A program loads its game's planes into registers, one row per lane (see `rows`), and all
other fields as scalars in every lane; between the first load and the last store nothing goes through memory. A game's
time is latency, of loads and of dependent operations, so independent floods run together, and loads come early.
`kernels.shared` defines the packing of positions; here `small` points at the first word after the rows."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo import rules
from zerogo.kernels import shared
from zerogo.kernels.cuda import launch, rows
from zerogo.kernels.shared import HistoryFields, PositionFields, fields_of, leaf_fields

SIMPLE, SITUATIONAL = tl.constexpr(rules.SIMPLE), tl.constexpr(rules.SITUATIONAL)
PLIES = tl.constexpr(256)  # hashes of the history compared at a time
SMALL_WORDS = tl.constexpr(shared.WORDS_AFTER_ROWS)
HASH, TO_PLAY, PASSES = tl.constexpr(shared.HASH), tl.constexpr(shared.TO_PLAY), tl.constexpr(shared.PASSES)
FINISHED, PLY, KO = tl.constexpr(shared.FINISHED), tl.constexpr(shared.PLY), tl.constexpr(shared.KO)
CAPTURES = tl.constexpr(shared.CAPTURES)
LEVELS = tl.constexpr(32)  # nodes of a path compared at a time


# In kernels a `PositionFields` has pointers to the tensors of all games, or the values of one: planes int32 [32],
# captures int32 [2], hash int64, finished bool, all others int32 scalars.


@triton.jit
def load_position(fields, game, N: tl.constexpr):
    """Returns the values of one game."""
    return PositionFields(
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
def sides(position):
    """Returns the stones of the side to move and of its opponent: int32 [32] each."""
    is_black = position.to_play == 1
    return tl.where(is_black, position.black, position.white), tl.where(is_black, position.white, position.black)


@triton.jit
def legal_points(position, on_board, suicide, N: tl.constexpr):
    """Returns the legal points, superko not considered, and those of them that are suicide: int32 [32] each."""
    own_stones, opponent = sides(position)
    empty = on_board & ~(own_stones | opponent)
    near = rows.neighbours(empty | (own_stones & ~position.atari) | (opponent & position.atari))
    legal = tl.where(suicide, -1, near) & empty & ~rows.point_rows(position.ko, N)
    legal = tl.where(position.finished, 0, legal)
    return legal, legal & ~near


@triton.jit
def _touched(place, own_stones, strong, weak):
    """Returns the strings that the placed stone touches: its own, all of the opponent's that were in atari, which it
    captures, and on each side one that was not. The six floods run together, so that their latencies overlap."""
    string, captured = rows.fill_sideways(place, own_stones), rows.fill_sideways(rows.neighbours(place) & weak, weak)
    left, right = rows.fill_sideways((place >> 1) & strong, strong), rows.fill_sideways((place << 1) & strong, strong)
    above = rows.fill_sideways(rows.from_below(place) & strong, strong)
    below = rows.fill_sideways(rows.from_above(place) & strong, strong)
    grows = rows.any_point(place)
    while grows:
        before, before_taken = string, captured
        string, captured = rows.grow(string, own_stones), rows.grow(captured, weak)
        new = (string ^ before) | (captured ^ before_taken)
        before_left, before_right, before_above, before_below = left, right, above, below
        left, right = rows.grow(left, strong), rows.grow(right, strong)
        above, below = rows.grow(above, strong), rows.grow(below, strong)
        new |= (left ^ before_left) | (right ^ before_right) | (above ^ before_above) | (below ^ before_below)
        grows = rows.any_point(new)
    return string, captured, left, right, above, below


@triton.jit
def _if_in_atari(string, free):
    """Returns the string if it has exactly one liberty among the free points, else nothing."""
    return tl.where(rows.count(rows.neighbours(string) & free) == 1, string, 0)


@triton.jit
def put_stone(place, own_stones, opponent, atari, on_board, suicide):
    """Returns own and the opponent's stones and those in atari after placing a stone (or none: an empty plane), what it
    captured, what it lost by suicide, and whether a ko forbids retaking the captured stone: int32 [32] five times,
    bool."""
    own_stones = own_stones | place
    string, captured, left, right, above, below = _touched(place, own_stones, opponent & ~atari, opponent & atari)
    opponent = opponent & ~captured
    empty = on_board & ~(own_stones | opponent)
    lost = tl.where(suicide & (rows.any_point(rows.neighbours(string) & empty) == 0), string, 0)
    free = empty | lost
    weak = _if_in_atari(string, free) & ~lost
    in_atari = weak | _if_in_atari(left, free) | _if_in_atari(right, free)
    in_atari |= _if_in_atari(above, free) | _if_in_atari(below, free)
    # Strings in atari next to removed stones now have two liberties or more: their last one and a new one.
    old_atari = tl.where(rows.any_point(captured), own_stones, opponent) & atari
    relieved = rows.flood(rows.neighbours(captured | lost) & old_atari, old_atari)
    own_stones = own_stones & ~lost
    atari = ((atari & ~(relieved | string)) | in_atari) & (own_stones | opponent)
    is_ko = (rows.count(captured) == 1) & (rows.count(weak) == 1)
    return own_stones, opponent, atari, captured, lost, is_ko


@triton.jit
def moved(before, action, on_board, suicide, cap, keys, N: tl.constexpr):
    """Returns the position after an action (int32, P for pass), the stones that it removed int32 [32], and whether they
    were black."""
    is_black, going = before.to_play == 1, before.finished == 0
    own_stones, opponent = sides(before)
    place = rows.point_rows(tl.where(going, action, -1), N)
    own_stones, opponent, atari, captured, lost, is_ko = put_stone(
        place, own_stones, opponent, before.atari, on_board, suicide
    )
    removed = captured | lost
    was_black = is_black ^ rows.any_point(captured)
    placed_key = tl.load(keys + action + tl.where(is_black, 0, N * N + 1), mask=going, other=0)
    removed_key = rows.hash_of(removed, keys, tl.where(was_black, 0, N * N + 1), N)
    passes = tl.where(going, tl.where(action >= N * N, before.passes + 1, 0), before.passes)
    ply = tl.where(going, before.ply + 1, before.ply)
    captor = tl.where(was_black, 1, 0)  # a suicide's stones are the opponent's captures, too
    after = PositionFields(
        tl.where(is_black, own_stones, opponent),
        tl.where(is_black, opponent, own_stones),
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


@triton.jit
def was_seen(seen, last, hashed, ply, superko):
    """Returns whether a game may not reach the hash at `ply + 1`: bool scalar.

    seen: pointer to its hashes by ply, which are read from ply 0 to `last`. Situational superko requires the same side
    to move."""
    repeats, start = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    while (repeats == 0) & (start <= last):
        at = start + tl.arange(0, PLIES)
        same = (tl.load(seen + at, mask=at <= last, other=0) == hashed) & (at <= last)
        counts = same & ((superko != SITUATIONAL) | (((at + ply) & 1) == 1))
        repeats = tl.max(counts.to(tl.int32), 0)
        start += PLIES
    return repeats != 0


@triton.jit
def _hash_after(place, is_suicide, own_stones, weak, hashed, keys, first, N: tl.constexpr):
    """Returns the hash after a stone of a colour whose keys begin at `first` is placed: int64 scalar. weak: the
    opponent's in atari."""
    other = N * N + 1 - first
    seeds, within = tl.where(is_suicide, place, rows.neighbours(place)), tl.where(is_suicide, own_stones | place, weak)
    removed = rows.flood(seeds, within)
    placed_key = rows.hash_of(place, keys, first, N)
    return hashed ^ placed_key ^ rows.hash_of(removed, keys, tl.where(is_suicide, first, other), N)


@triton.jit
def repeating_points(position, legal, dying, lost, seen, game, superko, keys, width, N: tl.constexpr):
    """Returns the legal points of a game that superko bans: int32 [32].

    dying: the legal points that are suicide. lost: where stones of the side to move were ever removed. Only at these
    points can the next stone repeat a position."""
    own_stones, opponent = sides(position)
    first, last = tl.where(position.to_play == 1, 0, N * N + 1), tl.minimum(position.ply, width - 1)
    suspects = tl.where(superko == SIMPLE, 0, legal & (lost | dying))
    banned = tl.zeros_like(suspects)
    left = rows.any_point(suspects)
    while left:
        place = rows.first_plane(suspects)
        is_suicide = rows.any_point(dying & place)
        after = _hash_after(place, is_suicide, own_stones, opponent & position.atari, position.hash, keys, first, N)
        repeats = was_seen(seen + game.to(tl.int64) * width, last, after, position.ply, superko)
        banned = tl.where(repeats, banned | place, banned)
        suspects = suspects & ~place
        left = rows.any_point(suspects)
    return banned


@triton.jit(do_not_specialize=["width"])
def exact_kernel(fields, on_board, suicide, superkos, lost, seen, keys, legal, width, N: tl.constexpr):
    """Writes one game's exact legal points; width is H."""
    game = tl.program_id(0)
    position, board = load_position(fields, game, N), rows.load_rows(on_board, game, N)
    points, dying = legal_points(position, board, tl.load(suicide + game) != 0, N)
    gone = rows.load_rows(lost, 2 * game + tl.where(position.to_play == 1, 0, 1), N)
    banned = repeating_points(position, points, dying, gone, seen, game, tl.load(superkos + game), keys, width, N)
    rows.store_rows(legal, game, points & ~banned, N)


def exact_legal_rows(state: Any, keys: Tensor) -> Tensor:
    """Returns the legal points, superko included: int32 [B, N]. The games have their full history."""
    legal, rules = torch.empty_like(state.black, memory_format=torch.contiguous_format), state.rules
    arguments = fields_of(PositionFields, state), state.on_board, rules.suicide, rules.superko, state.lost, state.seen
    launch(exact_kernel, len(legal), *arguments, keys, legal, state.seen.shape[1], N=state.board_size, num_warps=1)
    return legal


@triton.jit
def _remember(
    history, game, before, action, hashed, gone, was_black, width, N: tl.constexpr, RECENT, MOVES, TILE: tl.constexpr
):
    """Writes a move into a game's history. Everything is read before anything is written, as lanes may write what
    others read."""
    stones, at = tl.arange(0, TILE), tl.arange(0, 8)
    is_stone, is_move = stones < (RECENT - 1) * 2 * N, at < MOVES - 1
    recent, moves = history.recent + game * (RECENT * 2 * N), history.moves + game * MOVES
    old_stones, old_moves = tl.load(recent + stones, mask=is_stone, other=0), tl.load(moves + at, mask=is_move, other=0)
    black_lost, white_lost = rows.load_rows(history.lost, 2 * game, N), rows.load_rows(history.lost, 2 * game + 1, N)
    tl.debug_barrier()
    tl.store(recent + 2 * N + stones, old_stones, mask=is_stone)
    rows.store_rows(recent, 0, before.black, N)
    rows.store_rows(recent, 1, before.white, N)
    tl.store(moves + 1 + at, old_moves, mask=is_move)
    tl.store(moves, action.to(tl.int16))
    rows.store_rows(history.lost, 2 * game, tl.where(was_black, black_lost | gone, black_lost), N)
    rows.store_rows(history.lost, 2 * game + 1, tl.where(was_black, white_lost, white_lost | gone), N)
    tl.store(history.seen + game * width + before.ply + 1, hashed)


@triton.jit(do_not_specialize=["width"])
def step_kernel(
    fields, actions, on_board, suicide, cap, keys, after, history, width,
    N: tl.constexpr, RECENT: tl.constexpr, MOVES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Writes one game's position after its action, and its history; width is H."""
    game = tl.program_id(0)
    before, action = load_position(fields, game, N), tl.load(actions + game).to(tl.int32)
    board, may_die = rows.load_rows(on_board, game, N), tl.load(suicide + game) != 0
    position, gone, was_black = moved(before, action, board, may_die, tl.load(cap + game), keys, N)
    if before.finished == 0:
        _remember(
            history, game.to(tl.int64), before, action, position.hash, gone, was_black, width, N, RECENT, MOVES, TILE
        )
    store_position(after, game, position, N)


def step_(state: Any, actions: Tensor, keys: Tensor, history: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the fields of the positions after one action each, and writes the moves into the history of running
    games.

    history: the fields of `HistoryFields`, contiguous; H is greater than any ply."""
    fields, kept = fields_of(PositionFields, state), HistoryFields(*(history[name] for name in HistoryFields._fields))
    after = PositionFields(*map(torch.empty_like, fields))
    (num_games, recent, _, board_size), (_, moves) = kept.recent.shape, kept.moves.shape
    arguments = fields, actions, state.on_board, state.rules.suicide, state.cap, keys, after, kept, kept.seen.shape[1]
    sizes = {"N": board_size, "RECENT": recent, "MOVES": moves, "TILE": triton.next_power_of_2(recent * 2 * board_size)}
    launch(step_kernel, num_games, *arguments, **sizes, num_warps=1)
    return after._asdict()


@triton.jit
def flood_kernel(seeds, within, reached, N: tl.constexpr):
    """Writes the flood of plane `program_id` into `reached`."""
    plane = tl.program_id(0)
    inside = rows.load_rows(within, plane, N)
    rows.store_rows(reached, plane, rows.flood(rows.load_rows(seeds, plane, N), inside), N)


def flood(seeds: Tensor, within: Tensor) -> Tensor:
    """Returns the same as `flood.flood`, for flat planes: int32 [K, N] each -> int32 [K, N]."""
    reached = torch.empty_like(seeds, memory_format=torch.contiguous_format)
    launch(flood_kernel, len(seeds), seeds, within, reached, N=seeds.shape[1], num_warps=1)
    return reached


# The leaves of a search


def step_leaves(states: Any, path: Any, words: Tensor, actions: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Returns the leaves after the moves, as `cpu.board.step_leaves`."""
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
    position, _, _ = moved(before, action, on_board, suicide, cap, keys, N)
    repeats, result = tl.full((), 0, tl.int32) != 0, tl.full((), -1, tl.float32)
    if ANY_SUPERKO:
        repeats = _repeats(path, games, game, first, depth, action, position.hash, width, N)
    if position.finished | (position.passes == 1):
        result = _result(position, on_board, komi)
    store_position(after, k, position, N)
    _pack(leaves.words + k * (3 * N + SMALL_WORDS), position, N)
    legal, _ = legal_points(position, on_board, suicide, N)
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
    seen = was_seen(games.seen + game * width, last, hashed, ply + depth, superko)
    return (seen | _is_on_path(path, first, depth, hashed, superko, N)) & (action < N * N) & (superko != SIMPLE)


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
        counts = is_there & same & ((superko != SITUATIONAL) | (((depth - level) & 1) == 1))
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
    by_black = rows.flood(rows.neighbours(position.black), empty)
    by_white = rows.flood(rows.neighbours(position.white), empty)
    score = rows.count(position.black | (by_black & ~by_white)) - rows.count(position.white | (by_white & ~by_black))
    lead = score.to(tl.float32) - komi
    result = tl.where(lead > 0, 1.0, tl.where(lead < 0, -1.0, 0.0))
    return tl.where(position.to_play == 1, result, -result)
