"""The moves of a ladder in one warp: the attacker's, the defender's, and what they capture. See `features.ladders` for
what counts.

own, other: stones of the defender and of the attacker; target: the string in danger, all of it; exists: the board.
Planes are int32 [32]."""

from __future__ import annotations

import triton
import triton.language as tl

from zerogo.kernels.cuda.rows import any_point, count, first_plane, flood, from_above, from_below, neighbours


@triton.jit
def attacks(own, other, target, exists, ko):
    """Returns the attacker's moves against a string with two liberties, the more promising first; those not worth a try
    are empty planes, behind those that are.

    The more promising one leaves the extension with fewer new empty points; where it gains three at once, it saves the
    string. ko: where the attacker may not play."""
    empty = exists & ~(own | other)
    liberties = neighbours(target) & empty
    one = first_plane(liberties)
    two = liberties & ~one
    gained_by_two, gained_by_one = neighbours(two) & empty, neighbours(one) & empty
    is_better = count(gained_by_two) <= count(gained_by_one)
    one = tl.where((count(gained_by_two & ~one) < 3) & ~any_point(one & ko), one, 0)
    two = tl.where((count(gained_by_one & ~two) < 3) & ~any_point(two & ko), two, 0)
    comes_first = (is_better & any_point(one)) | ~any_point(two)
    return tl.where(comes_first, one, two), tl.where(comes_first, two, one)


@triton.jit
def attack(own, other, target, exists, move):
    """Returns whether an attacker's move can be made without opening a ko, which would save the string, and the stones
    that it takes.
    """
    empty = exists & ~(own | other | move)
    near = neighbours(move)
    dead = _dead(near & own & ~target, own, empty)
    empty |= dead
    is_legal = any_point(near & empty)
    if is_legal == 0:
        is_legal = any_point(neighbours(flood(move, other | move)) & empty)
    return is_legal & ~_is_ko(near, other, dead, empty), dead


@triton.jit
def defend(own, other, target, exists, move):
    """Plays a defender's move. Returns own, other and target after it, the point of a ko that it opens, and the
    target's liberties. A suicide leaves the target without any."""
    empty = exists & ~(own | other | move)
    near = neighbours(move)
    dead = _dead(near & other, other, empty)
    ko = tl.where(_is_ko(near, own, dead, empty | dead), dead, 0)
    own, other, empty = own | move, other & ~dead, empty | dead
    if any_point(near & target):
        joins = any_point(near & own & ~target)
        target |= move
        if joins:
            target = flood(target, own)
    return own, other, target, ko, count(neighbours(target) & empty)


@triton.jit
def answers(own, other, target, exists, is_all):
    """Returns the defender's moves: the extension, and where it takes strings in atari that touch the target; unless
    all are asked for no captures where the extension saves it anyway."""
    empty = exists & ~(own | other)
    near = neighbours(target)
    last, touching = near & empty, near & other
    found = last
    # A stone with two empty neighbours is not in atari, nor is any that hangs together with it.
    free = next_to_several(empty, False) & other
    if any_point(touching & ~free) & (is_all | (count(neighbours(last) & empty) < 3)):
        left = flood(touching, other)
        left &= ~flood(free & left, left)
        while any_point(left):
            string = flood(first_plane(left), left)
            left &= ~string
            liberties = neighbours(string) & empty
            found |= tl.where(count(liberties) == 1, liberties, 0)
    return found


@triton.jit
def next_answer(own, other, target, exists, left):
    """Returns the answer of those left that comes next: captures from the first point on, then the extension."""
    takes = left & ~(neighbours(target) & exists & ~(own | other))
    return tl.where(any_point(takes), first_plane(takes), left)


@triton.jit
def next_to_several(empty, THREE: tl.constexpr):
    """Returns the points next to at least two, or three, points of the plane. Bits may run over the last column."""
    left, right, up, down = empty << 1, empty >> 1, from_above(empty), from_below(empty)
    if THREE:
        found = (left & right & (up | down)) | ((left | right) & up & down)
    else:
        found = (left & right) | (up & down) | ((left | right) & (up | down))
    return found


@triton.jit
def _dead(suspects, stones, empty):
    """Returns the strings of the stones that hold a suspect and have no liberty."""
    suspects &= ~neighbours(empty)
    dead = tl.zeros_like(stones)
    if any_point(suspects):
        strings = flood(suspects, stones)
        dead = strings & ~flood(neighbours(empty) & strings, strings)
    return dead


@triton.jit
def _is_ko(near, friends, dead, empty):
    """Returns whether a move has taken one stone and stands alone with that point as its one liberty: near, the points
    beside it.
    """
    return (count(dead) == 1) & ~any_point(near & friends) & ~any_point((near & empty) ^ dead)
