"""Boards as kernels walk over them point by point: one byte a point, with a border, and the strings found at a glance.

Row r, column c lies at place (r + 1) * (N + 1) + c, so that a step to any side, -N - 1, -1, 1 or N + 1, stays in the
board: the end of a row is the border before the next."""

import numpy as np

from zerogo.kernels.cpu.loops import part

EMPTY, FIRST, SECOND, OFF = range(4)  # what stands at a place; FIRST, SECOND: stones of the two planes that were loaded


@part
def new_board(size):
    """Returns an empty flat board: int8 [(N + 2) * (N + 1) + 1]."""
    return np.full((size + 2) * (size + 1) + 1, OFF, np.int8)


@part
def new_places(board):
    """Returns room for a place of a board at each of its places: uint32, since an index that may be negative costs
    more."""
    return np.zeros(len(board), np.uint32)


@part
def load(board, first, second, on_board):
    """Writes a position's stones into a flat board: bit rows int32 [N] each."""
    size = len(first)
    for row in range(size):
        line = board[(row + 1) * (size + 1) : (row + 2) * (size + 1)]
        one, two, none = first[row], second[row], ~on_board[row]
        for column in range(size):
            bit = np.int32(column)
            line[column] = ((one >> bit) & 1) + 2 * ((two >> bit) & 1) + 3 * ((none >> bit) & 1)


@part
def steps_of(size):
    """Returns the steps to the four sides: int32 [4]."""
    return np.array((-size - 1, -1, 1, size + 1), np.int32)


@part
def list_points(board, size, stones, empty):
    """Writes the places of all stones and of all empty points, in order: uint32 each, as long as the board; returns how
    many there are."""
    num_stones, num_empty = 0, 0
    for at in range(size + 1, (size + 1) * (size + 1)):
        stones[num_stones], empty[num_empty] = at, at  # always written, counted where it fits: no branch to guess wrong
        num_stones += board[at] == FIRST or board[at] == SECOND
        num_empty += board[at] == EMPTY
    return num_stones, num_empty


@part
def label(board, size, stones, root):
    """Writes for every stone the place of its string's first one: stones uint32 [S], all in order; root uint32, as long
    as the board, 0 elsewhere."""
    root[:] = 0
    for k in range(len(stones)):
        at = stones[k]
        left, above = root[at - 1], root[at - size - 1]
        left = left if board[at - 1] == board[at] else at
        above = above if board[at - size - 1] == board[at] else at
        if left != above and left != at and above != at:
            _join(root, left, above)
        root[at] = min(left, above)
    for k in range(len(stones)):
        root[stones[k]] = root[root[stones[k]]]


@part
def _join(root, one, other):
    """Makes one string of two, of whose first stones the later one points to the earlier then."""
    while root[one] != one:
        one = root[one]
    while root[other] != other:
        other = root[other]
    root[max(one, other)] = min(one, other)
