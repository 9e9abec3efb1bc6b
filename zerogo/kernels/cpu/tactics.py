"""Tactics on the CPU: the strings of a game with their liberties as bit sets, then one pass over the empty points."""

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.arguments import TACTICS
from zerogo.kernels.cpu.loops import bit_count, kernel, over_games, part
from zerogo.kernels.cpu.strings import FIRST, SECOND, find_strings, new_board

LIBERTIES, CAPTURES, OPPONENT_CAPTURES, LIBERTIES_AFTER, SIZE_AFTER, SELF_ATARI, JOINED, WEAKEST = range(len(TACTICS))
WORD = 64  # places to a word of a set
# What a string contributes to the points next to it, as fields of a number: own stones, own stones in atari, the
# opponent's, own strings.
FIELD = (1 << 15) - 1
OWN_WEAK, TAKEN, STRINGS = 16, 32, 48
POINT, ROW, COLUMN = range(3)
MOST = 1 << 14  # more liberties than any string has


def read(own_stones: Tensor, opponent: Tensor, on_board: Tensor, legal: Tensor) -> Tensor:
    """Returns the tactics of B positions in the order of `TACTICS`: int16 [8, B, N, N], from bit rows int32 [B, N]
    each.

    own_stones, opponent: stones of the side to move and of its opponent. legal: the legal points."""
    num_games, size = own_stones.shape
    numbers = torch.empty(len(TACTICS), num_games, size, size, dtype=torch.int16)
    over_games(_read, num_games, own_stones, opponent, on_board, legal, numbers.flatten(2))
    return numbers


@kernel
def _read(first, last, own_stones, opponent, on_board, legal, numbers):
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
