"""Ladders of all strings of a whole batch, read out to the end.

A string is caught in a ladder if the attacker can keep it in atari until it is taken: a string with two liberties where the attacker moves
first, one with a single liberty where even the defender's move does not help. The attacker plays one of the two liberties; the defender
extends, or takes a string in atari that touches the one in danger. Three liberties save it, and so does the defender's turn with a ko that
the attacker has just opened: ladders that depend on a ko are not counted as working (KataGo's `searchIsLadderCaptured`). A ko that stands
at the start bans nobody; suicide counts as no move; superko is not looked at.

All ladders are read in lock-step: a round plays one attack and all answers to it in every line that is still open, on bit rows, a lane a
line. An attacker's second choice waits until the first has failed (unless few lines are left), so that a ladder costs a few lanes a ply;
answers are read side by side. A first move whose reading grows beyond `MOST_LANES` lanes is given up: it counts as not working, and
is reported.

The boards are read on the host, in NumPy: most rounds have few lanes, where calls cost more than their work.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from zerogo import scoring
from zerogo.board import State
from zerogo.flood import flood_host, neighbours_host

MOST_LANES = 1000
FEW = 2000  # so few attacks cost hardly more than the calls; both moves are then tried at once, which saves rounds
HANDFUL = 500  # so few lanes cost less than the calls that sorting them out would take
NONE = -1
UNKNOWN, CAUGHT, SAFE, GIVEN_UP = range(4)


@dataclass(frozen=True)
class Ladders:
    """What was read, for the strings of Black and of White (in this order): int32 [B, 2, N] each, on the state's device.

    caught: stones of strings that are caught. catching: points where the other side starts a ladder that works, against strings with two
    liberties. escaping: points where the string's own side saves one that is in atari. given_up: int64 [B], first moves whose reading was
    given up.
    """

    caught: Tensor
    catching: Tensor
    escaping: Tensor
    given_up: Tensor


@dataclass(frozen=True)
class Lanes:
    """K lines being read. Planes are int32 [K, N]: own, other: stones of the defender and of the attacker; target: the string in danger;
    exists: the board; ko: where the attacker may not play.
    """

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
        return Lanes(*(getattr(self, field.name).take(index, axis=0) for field in fields(Lanes)))  # a fifth of the time of [index]

    @staticmethod
    def cat(parts: list[Lanes]) -> Lanes:
        return Lanes(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Lanes)))


def read_ladders(state: State, for_mover: bool = False) -> Ladders:
    """Returns what ladders there are in B positions, whoever is to move. Waits for the device that the state is on.

    for_mover: only the moves that the side to move may make at once, at half the cost: the opponent's strings with two liberties, and own
    strings in atari.
    """
    owner, strings = _weak_strings(state, for_mover)
    reading = Reading(strings)
    reading.run()
    return _on_boards(reading, owner, state)


def _weak_strings(state: State, for_mover: bool) -> tuple[np.ndarray, Lanes]:
    """Returns the strings with one or two liberties as lanes, and whose they are: int64 [K], game * 2 + colour (0 black)."""
    black, white, on_board = (rows.cpu().numpy() for rows in (state.black, state.white, state.on_board))
    stones = np.stack([black, white], axis=1).reshape(-1, state.board_size)
    others = np.stack([white, black], axis=1).reshape(-1, state.board_size)
    exists = on_board.repeat(2, axis=0)
    empty = exists & ~(stones | others)
    # A stone next to three empty points makes its string strong; this spares the floods of most strings.
    strong = flood_host(_next_to_several(empty, 3) & stones, stones)
    owner, targets = (tensor.numpy() for tensor in scoring.components(torch.from_numpy(stones & ~strong)))
    liberties = _count(neighbours_host(targets) & empty[owner])
    is_weak = (liberties == 1) | (liberties == 2)
    if for_mover:
        is_own = owner % 2 == state.to_play.cpu().numpy()[owner // 2] - 1
        is_weak &= is_own == (liberties == 1)
    weak = np.flatnonzero(is_weak)
    owner, targets = owner[weak], targets[weak]
    planes = (stones[owner], others[owner], targets, exists[owner], np.zeros_like(targets))
    narrow = np.int16 if state.board_size < 15 else np.int32  # with the bit that a shift adds
    return owner, Lanes(*(plane.astype(narrow) for plane in planes))


class Reading:
    """The reading of many strings: a tree of attacks and defences for each, all in arrays.

    A defence is a position after an attack, the string in atari; it is lost unless an answer saves it. attack: int64 [D], the attack that
    led there, NONE at the start. start: int64 [D], the defence at the start that it is all about. result: int8 [D]. open_answers: int64
    [D], how many answers are not settled. spent: int64 [D], lanes, counted at the starts.
    An attack is a position after an answer, the string with two liberties. defence: int64 [A], where it was answered. boards: its position.
    tried, failed: int64 [A], how many of its two moves were. outcome: int8 [A].
    The defences at the start are those after each first move against strings with two liberties (`pairs`), then the strings in atari.
    """

    def __init__(self, strings: Lanes) -> None:
        liberties = _count(neighbours_host(strings.target) & strings.empty)
        self.strings, self.pairs, self.ataris = strings, np.flatnonzero(liberties == 2), np.flatnonzero(liberties == 1)
        self.attack, self.start, self.open_answers, self.spent = (np.zeros(0, dtype=np.int64) for _ in range(4))
        self.defence, self.tried, self.failed = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.result, self.outcome = np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int8)
        self.boards = strings.at(np.arange(0))
        self.num_moves = 0  # first moves against strings with two liberties

    def run(self) -> None:
        """Reads everything."""
        pairs = self.strings.at(self.pairs)
        first, second = _two_liberties(pairs)
        moves = np.concatenate([first, second])
        tried, lanes, is_saved = _attack(Lanes.cat([pairs, pairs]), moves, np.concatenate([second, first]))
        self.num_moves, self.first_moves = len(tried), moves[tried]
        self.first_strings = np.concatenate([np.concatenate([self.pairs, self.pairs])[tried], self.ataris])
        lanes = Lanes.cat([lanes, self.strings.at(self.ataris)])
        is_saved = np.concatenate([is_saved, np.zeros(len(self.ataris), dtype=bool)])
        tasks = self._defend(np.full(len(lanes), NONE), lanes, is_saved)
        while len(tasks := tasks[self._is_wanted(tasks)]):
            is_second = self.tried[tasks] == 1
            self.tried[tasks] += 1
            if len(tasks) <= FEW:
                more = tasks[~is_second]
                self.tried[more] += 1
                tasks, is_second = np.concatenate([tasks, more]), np.concatenate([is_second, np.ones(len(more), dtype=bool)])
            boards = self.boards.at(tasks)
            first, second = _two_liberties(boards)
            is_second = is_second[:, None]
            tried, lanes, is_saved = _attack(boards, np.where(is_second, second, first), np.where(is_second, first, second))
            again = self._settle(failed=np.delete(tasks, tried))
            tasks = np.concatenate([again, self._defend(tasks[tried], lanes, is_saved)])

    def _is_wanted(self, tasks: np.ndarray) -> np.ndarray:
        """Returns which attacks something still depends on: bool [T]. At strings in atari every answer is wanted."""
        defence = self.defence[tasks]
        start = self.start[defence]
        is_open = (self.result[defence] == UNKNOWN) & (self.result[start] == UNKNOWN)
        return (is_open | (start >= self.num_moves)) & (self.spent[start] <= MOST_LANES)

    def _defend(self, attacks: np.ndarray, lanes: Lanes, is_saved: np.ndarray) -> np.ndarray:
        """Adds defences after the attacks (int64 [K], NONE at the start) with all answers to them; returns the attacks to go on with.

        is_saved: bool [K], a ko has decided.
        """
        base = len(self.attack)
        at_start = attacks == NONE
        own = np.arange(base, base + len(attacks))
        self.attack = np.concatenate([self.attack, attacks])
        starts = np.where(at_start, own, self.start[self.defence[attacks]]) if base else own
        self.start = np.concatenate([self.start, starts])
        in_atari = at_start & (np.arange(len(attacks)) >= self.num_moves)
        asked = np.flatnonzero(~is_saved)
        parent, move, after, liberties = _answers(lanes.at(asked), in_atari[asked])
        parent = asked[parent]
        is_saved = is_saved.copy()
        is_saved[parent[liberties >= 3]] = True
        opens = np.flatnonzero((liberties == 2) & (~is_saved | in_atari)[parent])
        new = np.arange(len(self.defence), len(self.defence) + len(opens))
        if base == 0:
            self.first_answers = (own[parent], move, liberties, np.full(len(parent), NONE))
            self.first_answers[3][opens] = new
        self._add_attacks(own[parent[opens]], after.at(opens))
        number = np.bincount(parent[opens], minlength=len(attacks))
        self.open_answers = np.concatenate([self.open_answers, number])
        self.result = np.concatenate([self.result, np.zeros(len(attacks), dtype=np.int8)])
        self.spent = np.concatenate([self.spent, np.zeros(len(attacks), dtype=np.int64)])
        self.spent += np.bincount(starts[parent], minlength=len(self.spent))
        return np.concatenate([new, self._settle(saved=own[is_saved], lost=own[~is_saved & (number == 0)])])

    def _add_attacks(self, defences: np.ndarray, boards: Lanes) -> None:
        self.defence = np.concatenate([self.defence, defences])
        none = np.zeros(len(defences), dtype=np.int64)
        self.tried, self.failed = np.concatenate([self.tried, none]), np.concatenate([self.failed, none])
        self.outcome = np.concatenate([self.outcome, np.zeros(len(defences), dtype=np.int8)])
        last = len(self.defence)
        if last > len(self.boards):  # room for as many again, so that adding costs little
            self.boards = Lanes.cat([self.boards, boards, self.boards])
        for field in fields(Lanes):
            getattr(self.boards, field.name)[last - len(boards) : last] = getattr(boards, field.name)

    def _settle(self, saved: np.ndarray = (), lost: np.ndarray = (), failed: np.ndarray = ()) -> np.ndarray:
        """Carries back what is known: defences saved and lost, attacks whose move failed; returns the attacks whose second move is due."""
        again = []
        saved, lost, failed = (np.asarray(ids, dtype=np.int64) for ids in (saved, lost, failed))
        while len(saved) or len(lost) or len(failed):
            saved, lost = (_once(ids[self.result[ids] == UNKNOWN], len(self.result)) for ids in (saved, lost))
            self.result[saved], self.result[lost] = SAFE, CAUGHT
            failed = np.concatenate([failed, self.attack[saved]])
            won = self.attack[lost]
            failed, won = failed[failed != NONE], won[won != NONE]
            won = _once(won[self.outcome[won] == UNKNOWN], len(self.outcome))
            np.add.at(self.failed, failed, 1)
            again.append(failed[(self.failed[failed] == 1) & (self.tried[failed] == 1)])
            failed = _once(failed[self.failed[failed] == 2], len(self.failed))
            self.outcome[failed], self.outcome[won] = SAFE, CAUGHT
            beaten = self.defence[won]
            np.subtract.at(self.open_answers, beaten, 1)
            saved, lost, failed = self.defence[failed], beaten[self.open_answers[beaten] == 0], failed[:0]
        return np.concatenate(again) if again else failed


def _once(ids: np.ndarray, number: int) -> np.ndarray:
    """Returns each of the ids (int64, below `number`) once; np.unique would sort them, which takes five times as long."""
    last, place = np.empty(number, dtype=np.int64), np.arange(len(ids))
    last[ids] = place
    return ids[last[ids] == place]


def _attack(lanes: Lanes, moves: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, Lanes, np.ndarray]:
    """Plays the attacker's moves against strings with two liberties, the other of which is left: planes int32 [K, N].

    Returns which moves could be made and may work, int64 [J], the boards after them, and whether a ko that they open saves the string.
    """
    empty = lanes.empty
    # An extension that gains three empty points at once saves the string, whatever else happens.
    is_wise = (_count(neighbours_host(left) & empty & ~moves) < 3) & ~_any(moves & lanes.ko)
    tried = np.flatnonzero(is_wise)
    lanes, moves, empty = lanes.at(tried), moves.take(tried, axis=0), empty.take(tried, axis=0)
    empty &= ~moves
    near = neighbours_host(moves)
    dead = _dead(near & lanes.own & ~lanes.target, lanes.own, empty)
    after = Lanes(lanes.own & ~dead, lanes.other | moves, lanes.target, lanes.exists, np.zeros_like(moves))
    empty |= dead
    is_legal = _any(near & empty)
    doubtful = np.flatnonzero(~is_legal)
    if len(doubtful):
        strings = flood_host(moves[doubtful], after.other[doubtful])
        is_legal[doubtful] = _any(neighbours_host(strings) & empty[doubtful])
    is_ko = _is_ko(near, lanes.other, dead, empty)
    legal = np.flatnonzero(is_legal)
    return tried[legal], after.at(legal), is_ko[legal]


def _answers(lanes: Lanes, in_atari: np.ndarray) -> tuple[np.ndarray, np.ndarray, Lanes, np.ndarray]:
    """Plays the defender's moves: the extension, and captures where it does not save the string, or was in atari at the start.

    Returns the lane before int64 [J], the move int32 [J, N], the boards after it, and the target's liberties then, int64 [J].
    """
    empty = lanes.empty
    last = neighbours_host(lanes.target) & empty
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
    """Plays a move of the defender in each lane: int32 [K, N], one point each. Returns the boards and the target's liberties, int64 [K].

    A suicide leaves the target without liberties.
    """
    empty = lanes.empty & ~moves
    near = neighbours_host(moves)
    dead = _dead(near & lanes.other, lanes.other, empty)
    own, other = lanes.own | moves, lanes.other & ~dead
    empty |= dead
    touches = _any(near & lanes.target)
    target = np.where(touches[:, None], lanes.target | moves, lanes.target)
    joins = np.flatnonzero(touches & _any(near & lanes.own & ~lanes.target))
    if len(joins):
        target[joins] = flood_host(target[joins], own[joins])
    ko = np.where(_is_ko(near, lanes.own, dead, empty)[:, None], dead, 0)
    return Lanes(own, other, target, lanes.exists, ko), _count(neighbours_host(target) & empty)


def _captures(lanes: Lanes, empty: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where the defender takes strings in atari that touch the target: lanes int64 [J], points int32 [J, N].

    The target's own last liberty is left out: playing there is the extension.
    """
    # A stone with two empty neighbours is not in atari, nor is any that hangs together with it.
    touching = neighbours_host(lanes.target) & lanes.other
    free = _next_to_several(empty, 2) & lanes.other
    left = np.flatnonzero(_any(touching & ~free))
    if not len(left):
        return left, last[:0]
    strings = flood_host(*(planes.take(left, axis=0) for planes in (touching, lanes.other)))
    strings &= ~flood_host(free.take(left, axis=0) & strings, strings)
    owners, points = [left[:0]], [last[:0]]
    while len(going := np.flatnonzero(_any(strings))):
        left, strings = left[going], strings.take(going, axis=0)
        found = flood_host(_first(strings), strings)
        liberties = neighbours_host(found) & empty[left]
        is_atari = (_count(liberties) == 1) & ~_any(liberties & last[left])
        owners.append(left[is_atari])
        points.append(liberties[is_atari])
        strings &= ~found
    return np.concatenate(owners), np.concatenate(points)


def _two_liberties(lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
    """Returns the attacker's two moves, the more promising first: the one that leaves the extension with fewer new empty points."""
    empty = lanes.empty
    liberties = neighbours_host(lanes.target) & empty
    one = _first(liberties)
    other = liberties & ~one
    is_better = (_count(neighbours_host(other) & empty) <= _count(neighbours_host(one) & empty))[:, None]
    return np.where(is_better, one, other), np.where(is_better, other, one)


def _dead(suspects: np.ndarray, stones: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Returns the strings of the stones that hold a suspect (planes [K, N]) and have no liberty."""
    suspects = suspects & ~neighbours_host(empty)
    dead = np.zeros_like(stones)
    lanes = np.flatnonzero(_any(suspects))
    if not len(lanes):
        return dead
    strings = flood_host(suspects.take(lanes, axis=0), stones.take(lanes, axis=0))
    alive = flood_host(neighbours_host(empty.take(lanes, axis=0)) & strings, strings)
    dead[lanes] = strings & ~alive
    return dead


def _is_ko(near: np.ndarray, friends: np.ndarray, dead: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Returns whether moves have taken one stone and stand alone with that point as their one liberty: near, the points beside them."""
    return (_count(dead) == 1) & ~_any(near & friends) & ~_any((near & empty) ^ dead)


def _count(planes: np.ndarray) -> np.ndarray:
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


def _next_to_several(empty: np.ndarray, number: int) -> np.ndarray:
    """Returns the points next to at least `number`, 2 or 3, points of the plane: int32 [K, N]. Bits may run over the last column."""
    left, right = empty << 1, empty >> 1
    up, down = np.zeros_like(empty), np.zeros_like(empty)
    up[:, 1:], down[:, :-1] = empty[:, :-1], empty[:, 1:]
    if number == 2:
        return (left & right) | (up & down) | ((left | right) & (up | down))
    return (left & right & (up | down)) | ((left | right) & up & down)


def _on_boards(reading: Reading, owner: np.ndarray, state: State) -> Ladders:
    """Writes the results on boards: owner int64 [K], game * 2 + colour of each string."""
    num_games, board_size = state.num_games, state.board_size
    caught, catching, escaping = (np.zeros((2 * num_games, board_size), dtype=np.int32) for _ in range(3))
    starts = reading.result[: len(reading.first_strings)]
    is_caught = np.zeros(len(owner), dtype=bool)
    is_caught[reading.first_strings[starts == CAUGHT]] = True
    np.bitwise_or.at(caught, owner[is_caught], reading.strings.target[is_caught])
    works = np.flatnonzero(starts[: reading.num_moves] == CAUGHT)
    np.bitwise_or.at(catching, owner[reading.first_strings[works]], reading.first_moves[works])
    parent, move, liberties, attack = reading.first_answers
    is_safe = (liberties >= 3) | ((attack != NONE) & (reading.outcome[attack] == SAFE) if len(reading.outcome) else False)
    saves = np.flatnonzero((parent >= reading.num_moves) & is_safe)
    np.bitwise_or.at(escaping, owner[reading.first_strings[parent[saves]]], move[saves])
    spent = reading.spent[: len(starts)] > MOST_LANES
    given_up = np.bincount(owner[reading.first_strings[spent]] // 2, minlength=num_games)
    planes = [torch.from_numpy(plane.reshape(num_games, 2, board_size)).to(state.device) for plane in (caught, catching, escaping)]
    return Ladders(*planes, torch.from_numpy(given_up).to(state.device))
