"""The moves of a ladder in many positions at once: the attacker's, the defender's, and what they capture. On the host,
in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from zerogo.features.row_floods import flood, neighbours

HANDFUL = 500  # so few lanes cost less than the calls that sorting them out would take


@dataclass(frozen=True)
class Lanes:
    """K lines being read. Planes are int32 [K, N]: own, other: stones of the defender and of the attacker; target: the
    string in danger; exists: the board; ko: where the attacker may not play."""

    own: np.ndarray
    other: np.ndarray
    target: np.ndarray
    exists: np.ndarray
    ko: np.ndarray

    def __len__(self) -> int:
        return len(self.own)

    @property
    def empty(self) -> np.ndarray:
        return self.exists & ~(self.own | self.other)

    def at(self, index: np.ndarray) -> Lanes:
        """Returns some of the lanes: int64 [J]."""
        return Lanes(
            *(getattr(self, field.name).take(index, axis=0) for field in fields(Lanes))
        )  # a fifth of the time of [index]

    @staticmethod
    def cat(parts: list[Lanes]) -> Lanes:
        return Lanes(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Lanes)))


def attack(lanes: Lanes, moves: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, Lanes, np.ndarray]:
    """Plays the attacker's moves against strings with two liberties, the other of which is left: planes int32 [K, N].

    Returns which moves could be made and may work, int64 [J], the boards after them, and whether a ko that they open
    saves the string."""
    empty = lanes.empty
    # An extension that gains three empty points at once saves the string, whatever else happens.
    is_wise = (count(neighbours(left) & empty & ~moves) < 3) & ~_any(moves & lanes.ko)
    tried = np.flatnonzero(is_wise)
    lanes, moves, empty = lanes.at(tried), moves.take(tried, axis=0), empty.take(tried, axis=0)
    empty &= ~moves
    near = neighbours(moves)
    dead = _dead(near & lanes.own & ~lanes.target, lanes.own, empty)
    after = Lanes(lanes.own & ~dead, lanes.other | moves, lanes.target, lanes.exists, np.zeros_like(moves))
    empty |= dead
    is_legal = _any(near & empty)
    doubtful = np.flatnonzero(~is_legal)
    if len(doubtful):
        strings = flood(moves[doubtful], after.other[doubtful])
        is_legal[doubtful] = _any(neighbours(strings) & empty[doubtful])
    is_ko = _is_ko(near, lanes.other, dead, empty)
    legal = np.flatnonzero(is_legal)
    return tried[legal], after.at(legal), is_ko[legal]


def answers(lanes: Lanes, in_atari: np.ndarray) -> tuple[np.ndarray, np.ndarray, Lanes, np.ndarray]:
    """Plays the defender's moves: the extension, and captures where it does not save the string, or was in atari at the
    start.

    Returns the lane before int64 [J], the move int32 [J, N], the boards after it, and the target's liberties then,
    int64 [J]."""
    empty = lanes.empty
    last = neighbours(lanes.target) & empty
    if len(lanes) <= HANDFUL:
        owner, points = _captures(lanes, empty, last)
        parent, moves = np.concatenate([np.arange(len(lanes)), owner]), np.concatenate([last, points])
        return parent, moves, *_reply(lanes.at(parent), moves)
    extended, liberties = _reply(lanes, last)
    asked = np.flatnonzero((liberties < 3) | in_atari)
    owner, points = _captures(lanes.at(asked), empty.take(asked, axis=0), last.take(asked, axis=0))
    captured, gained = _reply(lanes.at(asked[owner]), points)
    parent = np.concatenate([np.arange(len(lanes)), asked[owner]])
    return parent, np.concatenate([last, points]), Lanes.cat([extended, captured]), np.concatenate([liberties, gained])


def _reply(lanes: Lanes, moves: np.ndarray) -> tuple[Lanes, np.ndarray]:
    """Plays a move of the defender in each lane: int32 [K, N], one point each. Returns the boards and the target's
    liberties, int64 [K].

    A suicide leaves the target without liberties.
    """
    empty = lanes.empty & ~moves
    near = neighbours(moves)
    dead = _dead(near & lanes.other, lanes.other, empty)
    own, other = lanes.own | moves, lanes.other & ~dead
    empty |= dead
    touches = _any(near & lanes.target)
    target = np.where(touches[:, None], lanes.target | moves, lanes.target)
    joins = np.flatnonzero(touches & _any(near & lanes.own & ~lanes.target))
    if len(joins):
        target[joins] = flood(target[joins], own[joins])
    ko = np.where(_is_ko(near, lanes.own, dead, empty)[:, None], dead, 0)
    return Lanes(own, other, target, lanes.exists, ko), count(neighbours(target) & empty)


def _captures(lanes: Lanes, empty: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where the defender takes strings in atari that touch the target: lanes int64 [J], points int32 [J, N].

    The target's own last liberty is left out: playing there is the extension.
    """
    # A stone with two empty neighbours is not in atari, nor is any that hangs together with it.
    touching = neighbours(lanes.target) & lanes.other
    free = next_to_several(empty, 2) & lanes.other
    left = np.flatnonzero(_any(touching & ~free))
    if not len(left):
        return left, last[:0]
    strings = flood(*(planes.take(left, axis=0) for planes in (touching, lanes.other)))
    strings &= ~flood(free.take(left, axis=0) & strings, strings)
    owners, points = [left[:0]], [last[:0]]
    while len(going := np.flatnonzero(_any(strings))):
        left, strings = left[going], strings.take(going, axis=0)
        found = flood(_first(strings), strings)
        liberties = neighbours(found) & empty[left]
        is_atari = (count(liberties) == 1) & ~_any(liberties & last[left])
        owners.append(left[is_atari])
        points.append(liberties[is_atari])
        strings &= ~found
    return np.concatenate(owners), np.concatenate(points)


def two_liberties(lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
    """Returns the attacker's two moves, the more promising first: the one that leaves the extension with fewer new
    empty points.
    """
    empty = lanes.empty
    liberties = neighbours(lanes.target) & empty
    one = _first(liberties)
    other = liberties & ~one
    is_better = (count(neighbours(other) & empty) <= count(neighbours(one) & empty))[:, None]
    return np.where(is_better, one, other), np.where(is_better, other, one)


def _dead(suspects: np.ndarray, stones: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Returns the strings of the stones that hold a suspect (planes [K, N]) and have no liberty."""
    suspects = suspects & ~neighbours(empty)
    dead = np.zeros_like(stones)
    lanes = np.flatnonzero(_any(suspects))
    if not len(lanes):
        return dead
    strings = flood(suspects.take(lanes, axis=0), stones.take(lanes, axis=0))
    alive = flood(neighbours(empty.take(lanes, axis=0)) & strings, strings)
    dead[lanes] = strings & ~alive
    return dead


def _is_ko(near: np.ndarray, friends: np.ndarray, dead: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Returns whether moves have taken one stone and stand alone with that point as their one liberty: near, the points
    beside them.
    """
    return (count(dead) == 1) & ~_any(near & friends) & ~_any((near & empty) ^ dead)


def count(planes: np.ndarray) -> np.ndarray:
    """Returns how many points planes hold: int32 [K, N] -> int64 [K]."""
    return np.einsum("kn->k", np.bitwise_count(planes), dtype=np.int64, casting="safe")  # half the time of a sum


def _any(planes: np.ndarray) -> np.ndarray:
    """Returns whether planes hold a point: int32 [K, N] -> bool [K]."""
    if len(planes) < 1000:
        return planes.any(1)
    found = planes[:, 0].copy()
    for row in range(1, planes.shape[1]):  # a third of the time of any()
        found |= planes[:, row]
    return found != 0


def _first(planes: np.ndarray) -> np.ndarray:
    """Returns the first point of each plane: int32 [K, N]."""
    row = (planes != 0).argmax(1)
    first, lane = np.zeros_like(planes), np.arange(len(planes))
    bits = planes[lane, row]
    first[lane, row] = bits & -bits
    return first


def next_to_several(empty: np.ndarray, number: int) -> np.ndarray:
    """Returns the points next to at least `number`, 2 or 3, points of the plane: int32 [K, N]. Bits may run over the
    last column.
    """
    left, right = empty << 1, empty >> 1
    up, down = np.zeros_like(empty), np.zeros_like(empty)
    up[:, 1:], down[:, :-1] = empty[:, :-1], empty[:, 1:]
    if number == 2:
        return (left & right) | (up & down) | ((left | right) & (up | down))
    return (left & right & (up | down)) | ((left | right) & up & down)
