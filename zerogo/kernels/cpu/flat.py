"""Boards for kernels that go point by point: one byte per point, with a border, and strings found quickly.

Row r, column c is at place (r + 1) * (N + 1) + c, so that a step to any side, -N - 1, -1, 1 or N + 1, stays in the
array: the end of a row is the border before the next one."""

import numpy as np

from zerogo.kernels.cpu.loops import part

EMPTY, FIRST, SECOND, OFF = range(4)  # the content of a place; FIRST, SECOND: stones of the two loaded planes


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
            _join(root, left, above)
        root[at] = min(left, above)
    for k in range(len(stones)):
        root[stones[k]] = root[root[stones[k]]]


@part
def _join(root, one, other):
    """Joins two strings: the later one's first stone then points to the earlier one's."""
    while root[one] != one:
        one = root[one]
    while root[other] != other:
        other = root[other]
    root[max(one, other)] = min(one, other)
