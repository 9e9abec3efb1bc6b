"""Ladders of all strings of a whole batch, read out to the end.

A string is caught in a ladder if the attacker can keep it in atari until it is taken: a string with two liberties where
the attacker moves first, one with a single liberty where even the defender's move does not help. The attacker plays one
of the two liberties; the defender extends, or takes a string in atari that touches the one in danger. Three liberties
save it, and so does the defender's turn with a ko that the attacker has just opened: ladders that depend on a ko are
not counted as working (KataGo's `searchIsLadderCaptured`). A ko that stands at the start bans nobody; suicide counts as
no move; superko is not looked at.

A first move whose reading grows beyond `MOST_LANES` answers is given up: it counts as not working, and is reported.

Kernels read each string for itself, depth first (`zerogo.kernels`). Where there are none, all ladders are read here in
lock-step: a round plays one attack and all answers to it in every line that is still open, on bit rows, a lane a line.
An attacker's second choice waits until the first has failed (unless few lines are left), so that a ladder costs a few
lanes a ply; answers are read side by side. That is done on the host, in NumPy: most rounds have few lanes, where calls
cost more than their work."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from zerogo import kernels, scoring
from zerogo.board import State
from zerogo.features.ladder_moves import Lanes, answers, attack, count, next_to_several, two_liberties
from zerogo.features.row_floods import flood, neighbours

MOST_LANES = 1000
FEW = 2000  # so few attacks cost hardly more than the calls; both moves are then tried at once, which saves rounds
NONE = -1
UNKNOWN, CAUGHT, SAFE, GIVEN_UP = range(4)


@dataclass(frozen=True)
class Ladders:
    """What was read, for the strings of Black and of White (in this order): int32 [B, 2, N] each, on the state's
    device.

    caught: stones of strings that are caught. catching: points where the other side starts a ladder that works, against
    strings with two liberties. escaping: points where the string's own side saves one that is in atari. given_up: int64
    [B], first moves whose reading was given up."""

    caught: Tensor
    catching: Tensor
    escaping: Tensor
    given_up: Tensor


def read_ladders(state: State, for_mover: bool = False) -> Ladders:
    """Returns what ladders there are in B positions, whoever is to move.

    for_mover: only the moves that the side to move may make at once, at half the cost: the opponent's strings with two
    liberties, and own strings in atari."""
    return read_rows(state.black, state.white, state.on_board, state.to_play if for_mover else None)


def read_rows(black: Tensor, white: Tensor, on_board: Tensor, mover: Tensor | None = None) -> Ladders:
    """The same from bit rows: int32 [B, N]; mover int8 [B], whose moves alone are asked for. Without a kernel it waits
    for the device.
    """
    fast = kernels.compiled("ladders", black.device)
    if fast is not None:
        return Ladders(*fast.read(black, white, on_board, mover, MOST_LANES))
    rows = [plane.cpu().numpy() for plane in (black, white, on_board)]
    owner, strings = _weak_strings(*rows, None if mover is None else mover.cpu().numpy())
    reading = Reading(strings)
    reading.run()
    return Ladders(*(torch.from_numpy(array).to(black.device) for array in _on_boards(reading, owner, *black.shape)))


def _weak_strings(
    black: np.ndarray, white: np.ndarray, on_board: np.ndarray, mover: np.ndarray | None
) -> tuple[np.ndarray, Lanes]:
    """Returns the strings with one or two liberties as lanes, and whose they are: int64 [K], game * 2 + colour (0
    black).
    """
    board_size = black.shape[1]
    stones = np.stack([black, white], axis=1).reshape(-1, board_size)
    others = np.stack([white, black], axis=1).reshape(-1, board_size)
    exists = on_board.repeat(2, axis=0)
    empty = exists & ~(stones | others)
    # A stone next to three empty points makes its string strong; this spares the floods of most strings.
    strong = flood(next_to_several(empty, 3) & stones, stones)
    owner, targets = (tensor.numpy() for tensor in scoring.components(torch.from_numpy(stones & ~strong)))
    liberties = count(neighbours(targets) & empty[owner])
    is_weak = (liberties == 1) | (liberties == 2)
    if mover is not None:
        is_own = owner % 2 == mover[owner // 2] - 1
        is_weak &= is_own == (liberties == 1)
    weak = np.flatnonzero(is_weak)
    owner, targets = owner[weak], targets[weak]
    planes = (stones[owner], others[owner], targets, exists[owner], np.zeros_like(targets))
    narrow = np.int16 if board_size < 15 else np.int32  # with the bit that a shift adds
    return owner, Lanes(*(plane.astype(narrow) for plane in planes))


class Reading:
    """The reading of many strings: a tree of attacks and defences for each, all in arrays.

    A defence is a position after an attack, the string in atari; it is lost unless an answer saves it. attack: int64
    [D], the attack that led there, NONE at the start. start: int64 [D], the defence at the start that it is all about.
    result: int8 [D]. open_answers: int64 [D], how many answers are not settled. spent: int64 [D], lanes, counted at the
    starts. An attack is a position after an answer, the string with two liberties. defence: int64 [A], where it was
    answered. boards: its position. tried, failed: int64 [A], how many of its two moves were. outcome: int8 [A]. The
    defences at the start are those after each first move against strings with two liberties (`pairs`), then the strings
    in atari."""

    def __init__(self, strings: Lanes) -> None:
        liberties = count(neighbours(strings.target) & strings.empty)
        self.strings, self.pairs, self.ataris = strings, np.flatnonzero(liberties == 2), np.flatnonzero(liberties == 1)
        self.attack, self.start, self.open_answers, self.spent = (np.zeros(0, dtype=np.int64) for _ in range(4))
        self.defence, self.tried, self.failed = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.result, self.outcome = np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int8)
        self.boards = strings.at(np.arange(0))
        self.num_moves = 0  # first moves against strings with two liberties

    def run(self) -> None:
        """Reads everything."""
        pairs = self.strings.at(self.pairs)
        first, second = two_liberties(pairs)
        moves = np.concatenate([first, second])
        tried, lanes, is_saved = attack(Lanes.cat([pairs, pairs]), moves, np.concatenate([second, first]))
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
                tasks, is_second = (
                    np.concatenate([tasks, more]),
                    np.concatenate([is_second, np.ones(len(more), dtype=bool)]),
                )
            boards = self.boards.at(tasks)
            first, second = two_liberties(boards)
            is_second = is_second[:, None]
            tried, lanes, is_saved = attack(
                boards, np.where(is_second, second, first), np.where(is_second, first, second)
            )
            again = self._settle(failed=np.delete(tasks, tried))
            tasks = np.concatenate([again, self._defend(tasks[tried], lanes, is_saved)])

    def _is_wanted(self, tasks: np.ndarray) -> np.ndarray:
        """Returns which attacks something still depends on: bool [T]. At strings in atari every answer is wanted."""
        defence = self.defence[tasks]
        start = self.start[defence]
        is_open = (self.result[defence] == UNKNOWN) & (self.result[start] == UNKNOWN)
        return (is_open | (start >= self.num_moves)) & (self.spent[start] <= MOST_LANES)

    def _defend(self, attacks: np.ndarray, lanes: Lanes, is_saved: np.ndarray) -> np.ndarray:
        """Adds defences after the attacks (int64 [K], NONE at the start) with all answers to them; returns the attacks
        to go on with.

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
        parent, move, after, liberties = answers(lanes.at(asked), in_atari[asked])
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
        """Carries back what is known: defences saved and lost, attacks whose move failed; returns the attacks whose
        second move is due.
        """
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
    """Returns each of the ids (int64, below `number`) once; np.unique would sort them, which takes five times as
    long.
    """
    last, place = np.empty(number, dtype=np.int64), np.arange(len(ids))
    last[ids] = place
    return ids[last[ids] == place]


def _on_boards(reading: Reading, owner: np.ndarray, num_games: int, board_size: int) -> tuple[np.ndarray, ...]:
    """Returns the results on boards, the fields of `Ladders`: owner int64 [K], game * 2 + colour of each string."""
    caught, catching, escaping = (np.zeros((2 * num_games, board_size), dtype=np.int32) for _ in range(3))
    starts = reading.result[: len(reading.first_strings)]
    is_caught = np.zeros(len(owner), dtype=bool)
    is_caught[reading.first_strings[starts == CAUGHT]] = True
    np.bitwise_or.at(caught, owner[is_caught], reading.strings.target[is_caught])
    works = np.flatnonzero(starts[: reading.num_moves] == CAUGHT)
    np.bitwise_or.at(catching, owner[reading.first_strings[works]], reading.first_moves[works])
    parent, move, liberties, attack = reading.first_answers
    is_safe = (liberties >= 3) | (
        (attack != NONE) & (reading.outcome[attack] == SAFE) if len(reading.outcome) else False
    )
    saves = np.flatnonzero((parent >= reading.num_moves) & is_safe)
    np.bitwise_or.at(escaping, owner[reading.first_strings[parent[saves]]], move[saves])
    spent = reading.spent[: len(starts)] > MOST_LANES
    given_up = np.bincount(owner[reading.first_strings[spent]] // 2, minlength=num_games)
    return *(plane.reshape(num_games, 2, board_size) for plane in (caught, catching, escaping)), given_up
