"""One game's board inside a kernel: a few planes of bit rows in scratch memory, strings on them, and one move.

Scratch memory is one flat int32 array of `WORDS`, 1.3 kB. Each plane takes `STRIDE` words of it, with row r at index r
+ 1, so that there is an empty row above and below. All planes are zero at the start, and only rows of the board are
ever set. Here rows count from 1, and a point is a row and a word with its column's bit."""

import numpy as np

from zerogo.kernels.cpu import bit_count, first_bit, inline, part

STRIDE = 32
# The planes, by their first index, and what they hold:
#   OWN, OTHER  the stones of the side to move, and of its opponent
#   ATARI       the stones of strings in atari
#   FREE        the empty points
#   TAKEN       the stones that a move removes
#   STRING      the points of the string that `string` finds
#   FRONTIER    those of them whose neighbours are still to be looked at, within `string`
#   SCRATCH     what the functions here work on or return, as each says: strings in atari, legal points
#   NO_POINTS   nothing, ever: the plane of liberties for a `string` whose liberties do not matter
#   SCRATCH_2   what `scoring` works on
OWN, OTHER, ATARI, FREE, TAKEN, STRING, FRONTIER, SCRATCH, NO_POINTS, SCRATCH_2 = (
    STRIDE * plane for plane in range(10)
)
WORDS = 10 * STRIDE
SCORED = ATARI, TAKEN, SCRATCH, SCRATCH_2  # which `scoring` uses under other names
SEVERAL = 2


@inline
def scratch():
    """Returns fresh scratch memory."""
    return np.zeros(WORDS, np.int32)


@part
def neighbours_in(work, plane, row):
    """Returns the points of a row that are next to a point of a plane."""
    here = work[plane + row]
    return (here << 1) | (here >> 1) | work[plane + row - 1] | work[plane + row + 1]


@inline
def fill(seeds, within):
    """Returns the points of a row's runs `within` that contain a seed: the carry of a sum moves up through a run,
    shifts by 1, 2, 4, … move down."""
    grown = (seeds | (seeds << 1) | (seeds >> 1)) & within
    if grown == seeds:
        return seeds
    grown |= within & ~(within + grown)
    for shift in (1, 2, 4, 8, 16):
        grown |= within & (grown >> shift)
        within &= within >> shift
    return grown


@inline
def _one_more(liberty_code, row, liberties):
    """Returns the code of a string's liberties after adding those in a row: 0 for none, the only one's code, -1 for
    several."""
    if liberties == 0:
        return liberty_code
    code = (row << 32) | liberties
    if (liberties & (liberties - 1)) != 0 or (liberty_code != 0 and liberty_code != code):
        return -1
    return code


@inline
def string(work, within, free, row, bit, stops):
    """Writes into STRING the points of a plane `within` that are connected to the given one, and returns how many
    points of the plane `free` are next to it: 0, 1 or SEVERAL. stops: whether it may stop once there are several."""
    for k in range(2 * STRIDE):
        work[STRING + k] = 0  # FRONTIER, too
    work[FRONTIER + row] = bit
    rows, liberty_code = 1 << row, 0
    while rows != 0:
        row = first_bit(rows)
        rows &= rows - 1
        new = fill(work[FRONTIER + row], work[within + row])
        work[FRONTIER + row] = 0
        work[STRING + row] |= new
        liberty_code = _one_more(liberty_code, row, ((new << 1) | (new >> 1)) & work[free + row])
        liberty_code = _one_more(liberty_code, row - 1, new & work[free + row - 1])
        liberty_code = _one_more(liberty_code, row + 1, new & work[free + row + 1])
        if stops and liberty_code < 0:
            return SEVERAL
        above = new & work[within + row - 1] & ~work[STRING + row - 1]
        if above != 0:
            work[FRONTIER + row - 1] |= above
            rows |= 1 << (row - 1)
        below = new & work[within + row + 1] & ~work[STRING + row + 1]
        if below != 0:
            work[FRONTIER + row + 1] |= below
            rows |= 1 << (row + 1)
    return SEVERAL if liberty_code < 0 else 0 if liberty_code == 0 else 1


@part
def load(work, position, k, on_board):
    """Copies position k of `PositionFields` into scratch memory; on_board: its rows."""
    is_black = position.to_play[k] == 1
    for row in range(len(on_board)):
        own_stones, other = position.black[k, row], position.white[k, row]
        work[FREE + 1 + row] = on_board[row] & ~(own_stones | other)
        work[ATARI + 1 + row] = position.atari[k, row]
        if not is_black:
            own_stones, other = other, own_stones
        work[OWN + 1 + row] = own_stones
        work[OTHER + 1 + row] = other


@inline
def neighbour_of(side, row, bit):
    """Returns row and bit of the neighbour on a side (0 to 3: left, right, above, below); may be off the board."""
    if side == 0:
        return row, bit >> 1
    if side == 1:
        return row, bit << 1
    return (row - 1, bit) if side == 2 else (row + 1, bit)


@inline
def _take_off(work, size, stones):
    """Moves STRING from the plane `stones` to TAKEN; returns its number of stones."""
    number = 0
    for row in range(1, size + 1):
        gone = work[STRING + row]
        work[stones + row] &= ~gone
        work[ATARI + row] &= ~gone
        work[FREE + row] |= gone
        work[TAKEN + row] |= gone
        number += bit_count(gone)
    return number


@inline
def _relieve(work, size, stones):
    """Removes the strings of the plane `stones` next to TAKEN from ATARI: they now have a second liberty."""
    for row in range(1, size + 1):
        work[SCRATCH + row] = work[stones + row] & work[ATARI + row]
    for row in range(1, size + 1):
        near = neighbours_in(work, TAKEN, row)
        while (near & work[SCRATCH + row]) != 0:
            weak = near & work[SCRATCH + row]
            string(work, SCRATCH, NO_POINTS, row, weak & -weak, False)
            for k in range(1, size + 1):
                work[SCRATCH + k] &= ~work[STRING + k]
                work[ATARI + k] &= ~work[STRING + k]


@inline
def _join(work, size, row, bit):
    """Removes own strings next to the placed stone, which has given them more liberties, from ATARI."""
    for side in range(4):
        near, at = neighbour_of(side, row, bit)
        if (work[OWN + near] & work[ATARI + near] & at) != 0:
            for k in range(1, size + 1):
                work[SCRATCH + k] = work[OWN + k] & work[ATARI + k]
            string(work, SCRATCH, NO_POINTS, near, at, False)
            for k in range(1, size + 1):
                work[ATARI + k] &= ~work[STRING + k]


@inline
def _add_atari(work, size):
    for row in range(1, size + 1):
        work[ATARI + row] |= work[STRING + row]


@inline
def _capture(work, size, row, bit):
    """Captures the opponent's strings in atari next to the placed stone; returns how many stones, and the place of one
    as row * STRIDE + column."""
    number, last = 0, 0
    for side in range(4):
        near, at = neighbour_of(side, row, bit)
        if (work[OTHER + near] & work[ATARI + near] & at) != 0:
            if number == 0:
                for k in range(STRIDE):
                    work[TAKEN + k] = 0
            string(work, OTHER, NO_POINTS, near, at, False)
            number += _take_off(work, size, OTHER)
            last = near * STRIDE + first_bit(at)
    return number, last


@inline
def move(work, size, action, colour, may_die, keys):
    """Plays a point in the loaded position, and updates OWN, OTHER, ATARI and FREE. colour: 0 if Black plays. may_die:
    whether suicide is allowed.

    Returns the change of the hash, how many stones were removed (then in TAKEN), their colour, and the point that the
    simple ko rule bans, or -1."""
    row, bit = 1 + action // size, 1 << (action % size)
    work[OWN + row] |= bit
    work[FREE + row] &= ~bit
    number, last = _capture(work, size, row, bit)
    if number > 0:
        _relieve(work, size, OWN)
    ko, whose = -1, 1 - colour
    liberties = string(work, OWN, FREE, row, bit, True)
    if liberties == 1:
        _add_atari(work, size)
        is_lone = work[STRING + row - 1] | work[STRING + row + 1] | (work[STRING + row] ^ bit)
        if number == 1 and is_lone == 0:
            ko = (last // STRIDE - 1) * size + last % STRIDE
    elif liberties == SEVERAL:
        _join(work, size, row, bit)
    elif may_die:
        whose = colour
        for k in range(STRIDE):
            work[TAKEN + k] = 0
        number = _take_off(work, size, OWN)
        _relieve(work, size, OTHER)
    for side in range(4):
        near, at = neighbour_of(side, row, bit)
        if (work[OTHER + near] & ~work[ATARI + near] & at) != 0 and string(work, OTHER, FREE, near, at, True) == 1:
            _add_atari(work, size)
    key = keys[colour * (size * size + 1) + action]
    if number > 0:
        key ^= key_of(work, TAKEN, size, whose, keys)
    return key, number, whose, ko


@inline
def legal_into(work, size, ko, may_die):
    """Writes into SCRATCH the legal points, superko not considered. ko: a point or -1."""
    for row in range(1, 1 + size):
        # Own strings with another liberty, and the opponent's in atari, are where exactly one of the two planes is set.
        work[FRONTIER + row] = (work[OWN + row] ^ work[ATARI + row]) | work[FREE + row]
    work[FRONTIER] = work[FRONTIER + 1 + size] = 0
    for row in range(1, 1 + size):
        work[SCRATCH + row] = work[FREE + row] & (-1 if may_die else neighbours_in(work, FRONTIER, row))
    if ko >= 0:
        work[SCRATCH + 1 + ko // size] &= ~(1 << (ko % size))


@inline
def area(work, size):
    """Returns the area of OWN minus that of OTHER in points; empties FREE."""
    lead = 0
    for row in range(1, 1 + size):
        lead += bit_count(work[OWN + row]) - bit_count(work[OTHER + row])
        while work[FREE + row] != 0:
            string(work, FREE, NO_POINTS, row, work[FREE + row] & -work[FREE + row], False)
            number, own_bits, other_bits = 0, 0, 0
            for k in range(1, 1 + size):
                near = neighbours_in(work, STRING, k)
                own_bits |= near & work[OWN + k]
                other_bits |= near & work[OTHER + k]
                number += bit_count(work[STRING + k])
                work[FREE + k] &= ~work[STRING + k]
            lead += number if other_bits == 0 and own_bits != 0 else 0
            lead -= number if own_bits == 0 and other_bits != 0 else 0
    return lead


@inline
def key_of(rows, plane, size, colour, keys):
    """Returns the XOR of the keys of all points of a plane as stones of a colour, 0 for Black: keys int64 [2 * A]."""
    key = 0
    for row in range(size):
        bits = rows[plane + 1 + row]
        first = colour * (size * size + 1) + row * size
        while bits != 0:
            key ^= keys[first + first_bit(bits)]
            bits &= bits - 1
    return key
