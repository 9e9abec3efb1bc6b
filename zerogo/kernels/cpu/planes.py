"""What encoders need on the CPU, besides ladders: a board with one byte per point and its strings, also for ladders;
tactics, from strings whose liberties are bit sets, in one pass over the empty points; and planes, for which all bits of
a row of the board are collected first, then painted point by point. Also the bit rows of two groups, for which torch
needs many small operations."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu import bit_count, kernel, over_games, part
from zerogo.kernels.shared import COUNTS, ROWS, TACTICS

EMPTY, FIRST, SECOND, OFF = range(4)  # the content of a place; FIRST, SECOND: stones of the two loaded planes
LIBERTIES, CAPTURES, OPPONENT_CAPTURES, LIBERTIES_AFTER, SIZE_AFTER, SELF_ATARI, JOINED, WEAKEST = range(len(TACTICS))
WORD = 64  # places to a word of a set
# What a string contributes to the points next to it, as fields of a number: own stones, own stones in atari, the
# opponent's, own strings.
FIELD = (1 << 15) - 1
OWN_WEAK, TAKEN, STRINGS = 16, 32, 48
POINT, ROW, COLUMN = range(3)
MOST = 1 << 14  # more liberties than any string has
# The bits of a 1, by dtype, and the integers of that width; other dtypes are painted as float32 first.
ONES = {torch.float32: (np.uint32(0x3F800000), torch.int32), torch.bfloat16: (np.uint16(0x3F80), torch.int16)}


# A board for kernels that go point by point: one byte per point, with a border, and strings found quickly. Row r,
# column c is at place (r + 1) * (N + 1) + c, so that a step to any side, -N - 1, -1, 1 or N + 1, stays in the array:
# the end of a row is the border before the next one.


@part
def new_board(size):
    """Returns an empty flat board, int8 [(N + 2) * (N + 1) + 1], and memory for the results of `find_strings`, as long
    as the board: uint32 each, since an index that may be negative costs more."""
    board = np.full((size + 2) * (size + 1) + 1, OFF, np.int8)
    return board, np.zeros(len(board), np.uint32), np.zeros(len(board), np.uint32), np.zeros(len(board), np.uint32)


@part
def find_strings(board, stones, empty, root, first, second, on_board):
    """Loads a position. Writes the places of its stones and of its empty points, in order, and for every stone the
    place of its string's first stone. Returns the numbers of stones and of empty points."""
    _load(board, first, second, on_board)
    num_stones, num_empty = _list_points(board, len(first), stones, empty)
    _label(board, len(first), stones[:num_stones], root)
    return num_stones, num_empty


@part
def _load(board, first, second, on_board):
    """Writes a position's stones into a flat board: bit rows int32 [N] each."""
    size = len(first)
    for row in range(size):
        line = board[(row + 1) * (size + 1) : (row + 2) * (size + 1)]
        one, two, none = first[row], second[row], ~on_board[row]
        for column in range(size):
            bit = np.int32(column)
            line[column] = ((one >> bit) & 1) + 2 * ((two >> bit) & 1) + 3 * ((none >> bit) & 1)


@part
def _list_points(board, size, stones, empty):
    num_stones, num_empty = 0, 0
    for at in range(size + 1, (size + 1) * (size + 1)):
        stones[num_stones], empty[num_empty] = at, at  # always written, counted if it applies: no branch to mispredict
        num_stones += board[at] == FIRST or board[at] == SECOND
        num_empty += board[at] == EMPTY
    return num_stones, num_empty


@part
def _label(board, size, stones, root):
    root[:] = 0
    for k in range(len(stones)):
        at = stones[k]
        left, above = root[at - 1], root[at - size - 1]
        left = left if board[at - 1] == board[at] else at
        above = above if board[at - size - 1] == board[at] else at
        if left != above and left != at and above != at:
            _join_strings(root, left, above)
        root[at] = min(left, above)
    for k in range(len(stones)):
        root[stones[k]] = root[root[stones[k]]]


@part
def _join_strings(root, one, other):
    """Joins two strings: the later one's first stone then points to the earlier one's."""
    while root[one] != one:
        one = root[one]
    while root[other] != other:
        other = root[other]
    root[max(one, other)] = min(one, other)


# Tactics


def read_tactics(own_stones: Tensor, opponent: Tensor, on_board: Tensor, legal: Tensor) -> Tensor:
    """Returns the tactics of B positions in the order of `TACTICS`: int16 [8, B, N, N], from bit rows int32 [B, N]
    each.

    own_stones, opponent: stones of the side to move and of its opponent. legal: the legal points."""
    num_games, size = own_stones.shape
    numbers = torch.empty(len(TACTICS), num_games, size, size, dtype=torch.int16)
    over_games(_read_tactics, num_games, own_stones, opponent, on_board, legal, numbers.flatten(2))
    return numbers


@kernel
def _read_tactics(first, last, own_stones, opponent, on_board, legal, numbers):
    size, (board, stones, empty, root) = own_stones.shape[1], new_board(own_stones.shape[1])
    steps, words = np.array((-size - 1, -1, 1, size + 1), np.int32), (len(board) - 1) // WORD + 1
    worth, weakness = np.zeros(len(board), np.int64), np.zeros(len(board), np.int32)
    liberties, breath = np.zeros(len(board), np.int32), np.zeros((len(board), words), np.uint64)
    free, around, points = np.zeros(words, np.uint64), _around(board, size, steps), _points(board, size)
    for game in range(first, last):
        num_stones, num_empty = find_strings(
            board, stones, empty, root, own_stones[game], opponent[game], on_board[game]
        )
        _breathe(steps, empty[:num_empty], root, breath, free)
        _weigh(board, stones[:num_stones], root, liberties, worth, weakness, breath)
        results, may_play = numbers[:, game], legal[game]
        results[:] = 0
        for k in range(num_stones):
            results[LIBERTIES, points[stones[k], POINT]] = liberties[root[stones[k]]]
        for k in range(num_empty):
            at, point = empty[k], points[empty[k], POINT]
            roots = root[at - size - 1], root[at - 1], root[at + 1], root[at + size + 1]
            total, weakest = _look(roots, worth, weakness)
            results[WEAKEST, point] = weakest % MOST
            results[OPPONENT_CAPTURES, point] = (total >> OWN_WEAK) & FIELD
            if (may_play[points[at, ROW]] >> np.int32(points[at, COLUMN])) & 1:
                num_captured, length = (total >> TAKEN) & FIELD, 1 + (total & FIELD)
                # The point itself was a liberty of each string.
                after = _union(at, roots, breath, around, free) - (length > 1)
                if num_captured:
                    after += _freed(board, size, steps, root, liberties, roots, at)
                results[CAPTURES, point], results[LIBERTIES_AFTER, point] = num_captured, after
                results[SIZE_AFTER, point], results[JOINED, point] = length, total >> STRINGS
                results[SELF_ATARI, point] = length if after <= 1 else 0


@part
def _points(board, size):
    """Returns the point, the row and the column of each place: uint32 [places, 3]; a table is faster than a
    division."""
    points = np.zeros((len(board), 3), np.uint32)
    for point in range(size * size):
        row, column = divmod(point, size)
        at = (row + 1) * (size + 1) + column
        points[at, POINT], points[at, ROW], points[at, COLUMN] = point, row, column
    return points


@part
def _around(board, size, steps):
    """Returns the set of the neighbours of each place: uint64 [places, W]."""
    around = np.zeros((len(board), (len(board) - 1) // WORD + 1), np.uint64)
    for at in range(size + 1, (size + 1) * (size + 1)):
        for side in range(4):
            near = at + steps[side]
            around[at, near // WORD] |= np.uint64(1) << np.uint64(near % WORD)
    return around


@part
def _breathe(steps, empty, root, breath, free):
    """Writes for each string, at its first stone, its liberties: uint64 [places, W]; and the set of the empty points:
    uint64 [W]. Points without a string next to them go to place 0, which is never read."""
    breath[:], free[:] = 0, 0
    for k in range(len(empty)):
        at = empty[k]
        word, bit = at // np.uint32(WORD), np.uint64(1) << np.uint64(at % np.uint32(WORD))
        free[word] |= bit
        for side in range(4):
            breath[root[at + steps[side]], word] |= bit


@part
def _weigh(board, stones, root, liberties, worth, weakness, breath):
    """Writes for each string, at its first stone, its number of liberties (int32 [places]), what it adds to the numbers
    of a point next to it (int64 [places], four fields, 0 at place 0) and the opponent's liberties (int32 [places], MOST
    for own strings). Empties the opponent's sets, which are never joined."""
    worth[0], weakness[0], breath[0] = 0, MOST, 0
    for k in range(len(stones)):
        at = stones[k]
        if root[at] == at:
            number = 0
            for word in range(breath.shape[1]):
                number += np.int64(bit_count(breath[at, word]))
            liberties[at] = number
            if board[at] == FIRST:
                worth[at], weakness[at] = 1 << STRINGS, MOST
            else:
                worth[at], weakness[at], breath[at] = 0, number, 0
        is_weak = np.int64(liberties[root[at]] == 1)
        worth[root[at]] += 1 + (is_weak << OWN_WEAK) if board[at] == FIRST else is_weak << TAKEN


@part
def _look(roots, worth, weakness):
    """Returns the sum of the contributions of the distinct ones of four strings (0 for none), and the liberties of the
    opponent's weakest."""
    above, left, right, below = roots
    total = worth[above] + (worth[left] if left != above else 0)
    total += worth[right] if (right != above) & (right != left) else 0
    total += worth[below] if (below != above) & (below != left) & (below != right) else 0
    return total, min(min(weakness[above], weakness[left]), min(weakness[right], weakness[below]))


@part
def _union(at, roots, breath, around, free):
    """Returns how many empty points are next to `at`, or to own strings next to it."""
    above, left, right, below = roots
    total = 0
    for word in range(len(free)):
        union = (around[at, word] & free[word]) | breath[above, word] | breath[left, word]
        total += np.int64(bit_count(union | breath[right, word] | breath[below, word]))
    return total


@part
def _freed(board, size, steps, root, liberties, roots, at):
    """Returns how many stones captured by a move at `at` are next to the string that it makes. Captures are rare, so it
    goes through all points."""
    total = 0
    for place in range(size + 1, (size + 1) * (size + 1)):
        if board[place] == SECOND and liberties[root[place]] == 1 and _is_one_of(root[place], roots):
            is_beside = False
            for side in range(4):
                near = place + steps[side]
                is_beside |= near == at or (board[near] == FIRST and _is_one_of(root[near], roots))
            total += is_beside
    return total


@part
def _is_one_of(first, roots):
    return (roots[0] == first) | (roots[1] == first) | (roots[2] == first) | (roots[3] == first)


# Planes


def paint(spans: tuple[tuple[int, int], ...], rows: Tensor, counts: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the planes of B positions: [B, N, N, C] of the dtype.

    spans: the sources of the planes in order: (ROWS, c) for the next c of `rows`; (COUNTS, c) for the next one of
    `counts`, where v sets plane v - 1 of c, more than c the last and 0 none; (VALUES, c) for c planes that stay zero.
    rows: int32 [B, R, N] bit rows. counts: int16 [K, B, N, N]."""
    if dtype not in ONES:
        return paint(spans, rows, counts, torch.float32).to(dtype)
    one, integers = ONES[dtype]
    num_games, _, size = rows.shape
    planes = torch.empty(num_games, size * size, sum(width for _, width in spans), dtype=dtype)
    painted = planes.view(integers).numpy().view(one.dtype)
    over_games(_paint, num_games, _table(spans), rows.view(torch.uint32), counts, one, painted)
    return planes.unflatten(1, (size, size))


@cache
def _table(spans: tuple[tuple[int, int], ...]) -> np.ndarray:
    return np.array(spans, np.int64)


@kernel
def _paint(first, last, spans, rows, counts, one, planes):
    """Paints one row of the board at a time. A point's planes are one bit each of as many words, which the compiler
    handles 8 or 16 at a time."""
    size = rows.shape[2]
    words = np.zeros(planes.shape[2] + size, np.uint32)
    for game in range(first, last):
        for row in range(size):
            _collect(words, game, row, spans, rows, counts, planes.shape[2])
            for column in range(size):
                bit, point = np.uint32(column), planes[game, row * size + column]
                for plane in range(len(point)):
                    point[plane] = ((words[plane] >> bit) & np.uint32(1)) * one


@part
def _collect(words, game, row, spans, rows, counts, num_planes):
    """Writes the planes' bits in a row: uint32 [C + N]. Numbers that set no plane go to the last words, one for each
    column: if all went to the same word, the processor would wait."""
    plane, next_row, next_count = 0, 0, 0
    words[:] = np.uint32(0)
    for span in range(len(spans)):
        form, width = spans[span, 0], spans[span, 1]
        if form == ROWS:
            for k in range(width):
                words[plane + k] = rows[game, next_row + k, row]
            next_row += width
        elif form == COUNTS:
            for column in range(rows.shape[2]):
                number = min(np.int64(counts[next_count, game, row, column]), width)
                words[plane + number - 1 if number > 0 else num_planes + column] |= np.uint32(1) << np.uint32(column)
            next_count += 1
        plane += width


def ages(black: Tensor, white: Tensor, recent: Tensor, ply: Tensor, oldest: int) -> Tensor:
    """Returns the stones that have been on the board for 1, 2, … and for `oldest` or more positions, as in the group
    `turns_since`: int32 [B, oldest, N], from int32 [B, N] twice, [B, 7, 2, N] and [B]."""
    rows = torch.empty(len(black), oldest, black.shape[1], dtype=torch.int32)
    over_games(_ages, len(black), black, white, recent, ply, rows)
    return rows


@kernel
def _ages(first, last, black, white, recent, ply, rows):
    oldest = rows.shape[1]
    for game in range(first, last):
        for row in range(rows.shape[2]):
            black_stones, white_stones = black[game, row], white[game, row]
            for ago in range(1, oldest):
                stood = black_stones | white_stones
                if ago <= ply[game]:
                    black_stones &= recent[game, ago - 1, 0, row]
                    white_stones &= recent[game, ago - 1, 1, row]
                rows[game, ago - 1, row] = stood & ~(black_stones | white_stones)
            rows[game, oldest - 1, row] = black_stones | white_stones


def eyes(stones: Tensor, on_board: Tensor) -> Tensor:
    """Returns the eyes of a colour as `flood.eyes` defines them: int32 [B, N] twice -> int32 [B, N]."""
    eye_rows = torch.empty_like(stones, memory_format=torch.contiguous_format)
    over_games(_eyes, len(stones), *(rows.view(torch.uint32) for rows in (stones, on_board, eye_rows)))
    return eye_rows


@kernel
def _eyes(first, last, stones, on_board, eye_rows):
    size, one = stones.shape[1], np.uint32(1)
    solid, off = np.full(size + 2, ~np.uint32(0)), np.full(size + 2, ~np.uint32(0))
    for game in range(first, last):
        for row in range(size):  # shifted up by one bit, to make room for the left border
            off[row + 1] = ~(on_board[game, row] << one)
            solid[row + 1] = (stones[game, row] << one) | off[row + 1]
        for row in range(1, size + 1):
            eye_rows[game, row - 1] = eyes_of_row(solid, off, row)


@part
def eyes_of_row(solid, off, row):
    """Returns the eyes in a row; solid: points that are own or off the board, off: those off it, uint32 [N + 2] each,
    all a bit higher than on the board."""
    one, above, here, below = np.uint32(1), solid[row - 1], solid[row], solid[row + 1]
    both_above, both_below = (above << one) & (above >> one), (below << one) & (below >> one)
    one_above, one_below = (above << one) | (above >> one), (below << one) | (below >> one)
    edge = (off[row] << one) | (off[row] >> one) | off[row - 1] | off[row + 1]
    corners = (both_above & both_below) | (((both_above & one_below) | (both_below & one_above)) & ~edge)
    return ((here << one) & (here >> one) & above & below & corners & ~here) >> one
