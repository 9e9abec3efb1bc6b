"""Ladders on the CPU: strings are read one by one, depth first on one board, and moves are undone from a list of
changes. `features.readings.Ladders` defines ladders.

A level of the reading is an attack: the string has two liberties and the attacker is to move. After the attacker's move
its answers are listed; the first one that saves the string ends the attack. The levels form a stack in memory, since
Numba can't load recursive functions from its cache."""

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu import inline, kernel, over_games
from zerogo.kernels.cpu.planes import EMPTY, OFF, find_strings, new_board

CAUGHT, SAFE, GIVEN_UP = range(3)
SEVERAL = 3  # liberties that save a string
NO_PLACE = 0  # a place of the border
# All memory is one int64 array, `work`, which is cheaper to pass than many arrays. Its layout:
#
#   from         words   what
#   0            PLACES  the stones: what stands at each place of the board, see `flat`
#   MARK         PLACES  of a flood: the number of the last flood that came by each place
#   QUEUE        PLACES  of a flood: its stones in order
#   WALKED       PLACES  the same two of a second flood, which may run while the first stands still: marks
#   PATH         PLACES  and stones
#   STEPS        4       the steps to the four sides
#   LISTED       1       answers that were listed since the first move
#   KO           1       the place of the ko that the last move opened
#   FLOODS       1       floods so far
#   LENGTH       1       stones of the last whole flood
#   AS_KATAGO    1       whether KataGo's ladders are meant
#   LIBERTY      3       the first three liberties that the last flood found
#   CHANGES_END  1       where the list of changes ends
#   LEVELS       LEVEL each, for the levels of the reading:
#     FIRST_MOVE   2       the attacker's two moves
#     TRIED        1       how many of them were tried
#     TO_TRY       1       how many may be
#     BAN          1       the place that a ko bans
#     BEFORE       1       where the list of changes ended before the move under way
#     AFTER        1       and after it
#     NEXT         1       the listed answer that comes next
#     END          1       where the level's answers end
#   behind them          the answers of all levels, one after the other
#   behind them          the changes: place * 4 + what stood there
PLACES = 704
MARK, QUEUE, WALKED, PATH, STEPS = (PLACES * board for board in range(1, 6))
LISTED, KO, FLOODS, LENGTH, AS_KATAGO, LIBERTY = (STEPS + 4 + word for word in range(6))
CHANGES_END = LIBERTY + 3
LEVELS = CHANGES_END + 1
FIRST_MOVE, TRIED, TO_TRY, BAN, BEFORE, AFTER, NEXT, END = 0, 2, 3, 4, 5, 6, 7, 8
LEVEL = 9


def read_ladders(
    black: Tensor, white: Tensor, on_board: Tensor, mover: Tensor | None, max_answers: int, ko: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Returns the fields of `features.readings.Ladders` for B positions: strings that are caught, first moves that
    catch, moves that escape, int32 [B, 2, N] each for strings of Black and of White, and the number of first moves that
    were given up, int64 [B].

    black, white, on_board: int32 [B, N]. mover: int8 [B], the side whose moves are read; None for both. max_answers:
    answers listed after a first move before it is given up. ko: int16 [B], the point that the simple ko rule bans, -1
    for none; if given, the ladders are KataGo's."""
    ladders = torch.zeros(3, len(black), 2, black.shape[1], dtype=torch.int32)
    given_up = torch.zeros(len(black), dtype=torch.int64)
    movers = torch.zeros(len(black), dtype=torch.int8) if mover is None else mover
    bans = torch.full((len(black),), -1, dtype=torch.int16) if ko is None else ko
    over_games(
        _read_ladders, len(black), black, white, on_board, movers, max_answers, bans, ko is not None, *ladders, given_up
    )
    return *ladders.unbind(0), given_up


@kernel
def _read_ladders(
    first, last, black, white, on_board, mover, max_answers, ko, as_katago, caught, catching, escaping, given_up
):
    size = black.shape[1]
    work, (board, stones, empty, root) = _new(size, max_answers), new_board(size)
    work[AS_KATAGO] = as_katago
    for game in range(first, last):
        number, _ = find_strings(board, stones, empty, root, black[game], white[game], on_board[game])
        work[: len(board)] = board
        ban = NO_PLACE if ko[game] < 0 else (ko[game] // size + 1) * (size + 1) + ko[game] % size
        for k in range(number):
            at = np.int64(stones[k])
            if root[at] != at:
                continue
            colour, liberties = work[at], _liberties(work, at, SEVERAL)
            if liberties % SEVERAL == 0 or (mover[game] != 0 and (colour == mover[game]) != (liberties == 1)):
                continue
            if liberties == 1:
                is_caught, unread = _read_atari(work, at, size, max_answers, escaping, game)
            else:
                is_caught, unread = _read_pair(work, at, size, max_answers, ban, catching, game)
            given_up[game] += unread
            if is_caught:
                for other in range(k, number):
                    if root[stones[other]] == at:
                        _add(caught, game, colour, stones[other], size)


@inline
def _new(size, max_answers):
    """Returns memory for readings of up to `max_answers` answers. A level lists at least one answer, and its two stones
    are placed once and removed once."""
    answers = LEVELS + LEVEL * (max_answers + 4)
    changes = answers + max_answers + 4 + PLACES
    work = np.empty(changes + 4 * (max_answers + 4) + PLACES, np.int64)
    work[: LEVELS + LEVEL] = 0
    work[LEVELS + END], work[CHANGES_END] = answers, changes
    work[STEPS], work[STEPS + 1], work[STEPS + 2], work[STEPS + 3] = -size - 1, -1, 1, size + 1
    return work


@inline
def _add(rows, game, colour, at, size):
    """Adds a place to bit rows: int32 [B, 2, N]."""
    rows[game, colour - 1, at // (size + 1) - 1] |= np.int32(1) << np.int32(at % (size + 1))


@inline
def _read_pair(work, at, size, max_answers, ban, catching, game):
    """Reads a string with the two liberties of the last flood, and enters the attacker's first moves that work; returns
    whether there are any, and how many readings were given up."""
    one, other = work[LIBERTY], work[LIBERTY + 1]
    is_caught, unread = False, 0
    for _ in range(2):
        work[LISTED] = 0
        outcome = _attacked(work, at, one, other, ban, 1, max_answers)
        if outcome == CAUGHT:
            _add(catching, game, work[at], one, size)
            is_caught = True
        unread += outcome == GIVEN_UP
        one, other = other, one
    return is_caught, unread


@inline
def _read_atari(work, at, size, max_answers, escaping, game):
    """Reads a string in atari with the liberty of the last flood, and enters its own side's moves that save it; returns
    whether there are none, and whether the reading was given up, so that moves may be missing."""
    begin, start, is_caught, unread = work[LEVELS + END], work[CHANGES_END], True, 0
    work[LISTED] = 0
    work[LEVELS + END] = _list_answers(work, at, work[LIBERTY], begin, True)
    for k in range(begin, work[LEVELS + END]):
        liberties, outcome = _answer(work, at, work[k]), GIVEN_UP if work[LISTED] > max_answers else CAUGHT
        if outcome == CAUGHT and liberties == 2:
            outcome = _attacked(work, at, work[LIBERTY], work[LIBERTY + 1], work[KO], 2, max_answers)
        _take_back(work, start)
        if outcome == GIVEN_UP:
            is_caught, unread = False, 1
            break
        if liberties == SEVERAL or outcome == SAFE:
            _add(escaping, game, work[at], work[k], size)
            is_caught = False
    work[LEVELS + END] = begin
    return is_caught, unread


@inline
def _attacked(work, at, one, other, ban, to_try, max_answers):
    """Returns whether the attacker, to move, catches the string at a place; leaves the board unchanged. one, other: the
    string's liberties. to_try: how many of them the attacker may try. ban: where it may not play."""
    level, start, is_attack = LEVELS + LEVEL, work[CHANGES_END], True
    _open(work, level, one, other, ban, to_try)
    while True:
        if is_attack:
            if _attack(work, level, at):
                is_attack = False
            elif level == LEVELS + LEVEL:
                return SAFE
            else:  # the answer that led here saves the string
                level -= LEVEL
                _take_back(work, work[level + BEFORE])
        elif work[LISTED] > max_answers:
            _take_back(work, start)
            return GIVEN_UP
        elif work[level + NEXT] == work[level + END]:
            _take_back(work, work[level + BEFORE])
            if level == LEVELS + LEVEL:
                return CAUGHT
            level -= LEVEL
            _take_back(work, work[level + AFTER])
        else:
            work[level + NEXT] += 1
            liberties = _answer(work, at, work[work[level + NEXT] - 1])
            if liberties == 2:
                level, is_attack = level + LEVEL, True
                _open(work, level, work[LIBERTY], work[LIBERTY + 1], work[KO], 2)
            else:
                is_attack = liberties == SEVERAL
                _take_back(work, work[level + BEFORE] if is_attack else work[level + AFTER])


@inline
def _open(work, level, one, other, ban, to_try):
    """Enters a level. If the attacker may try both moves, the more promising one comes first: the one that leaves the
    extension with fewer new empty points, or else the earlier point, so that every implementation uses the same
    order."""
    if to_try == 2 and one > other:
        one, other = other, one
    if to_try == 2 and _empty_beside(work, other) > _empty_beside(work, one):
        one, other = other, one
    work[level + FIRST_MOVE], work[level + FIRST_MOVE + 1] = one, other
    work[level + TRIED], work[level + TO_TRY], work[level + BAN] = 0, to_try, ban


@inline
def _attack(work, level, at):
    """Plays the attacker's next move that may work, if there is one, and lists the answers; returns whether there was
    one. If a double ko kills the string, there are no answers."""
    start = work[level - LEVEL + END]
    if work[AS_KATAGO] and work[level + TO_TRY] == 2 and work[level + TRIED] == 0 and _is_double_ko(work, level, at):
        work[level + TRIED], work[level + NEXT], work[level + END] = 2, start, start
        work[level + BEFORE] = work[level + AFTER] = work[CHANGES_END]
        return True
    while work[level + TRIED] < work[level + TO_TRY]:
        move, left = work[level + FIRST_MOVE + work[level + TRIED]], work[level + FIRST_MOVE + 1 - work[level + TRIED]]
        work[level + TRIED] += 1
        if move == work[level + BAN]:
            continue
        work[level + BEFORE] = work[CHANGES_END]
        _change(work, move, 3 - work[at])
        # An extension that gains three empty points at once saves the string, whatever else happens.
        if _empty_beside(work, left) < SEVERAL:
            num_captured = _capture(work, move, 3 - work[at])
            # For KataGo a ladder may begin with a ko, which the defender may take back.
            is_ko = work[KO] != NO_PLACE and not (work[AS_KATAGO] and work[level + TO_TRY] == 1)
            if not is_ko and (num_captured > 0 or _is_alive(work, move)):
                work[level + AFTER], work[level + NEXT] = work[CHANGES_END], start
                work[level + END] = _list_answers(work, at, left, work[level + NEXT], False)
                return True
        _take_back(work, work[level + BEFORE])
    return False


@inline
def _is_double_ko(work, level, at):
    """Returns whether the attacker, to move, wins by two kos: it captures a single stone on both liberties, connecting
    at either leaves the string at most two liberties, and no string of the attacker's next to it is in atari."""
    for k in range(2):
        move, single = work[level + FIRST_MOVE + k], 0
        for side in range(4):
            near = move + work[STEPS + side]
            if work[near] != OFF and work[near] != work[at]:
                return False
            if work[near] == work[at] and _liberties(work, near, 2) == 1:
                single += 1 if work[LENGTH] == 1 else 2
        if single != 1:
            return False
        work[move] = work[at]
        liberties = _liberties(work, move, SEVERAL)
        work[move] = EMPTY
        if liberties == SEVERAL:
            return False
    end = work[level - LEVEL + END]
    return _list_captures(work, at, NO_PLACE, end) == end


@inline
def _list_answers(work, at, last, begin, is_all):
    """Lists the defender's moves from `begin` on: captures of strings in atari that touch the one at a place, then its
    last liberty; returns the end of the list. Unless `is_all`, captures are left out if the extension saves the string
    anyway."""
    end = begin
    if is_all or _empty_beside(work, last) < SEVERAL:
        end = _list_captures(work, at, last, begin)
    work[end] = last
    work[LISTED] += end + 1 - begin
    return end + 1


@inline
def _list_captures(work, at, last, begin):
    """Lists the defender's captures of strings in atari that touch the one at a place, except for the move `last`;
    returns the end of the list."""
    work[FLOODS] += 1
    number, looked, end, walk, colour = 1, 0, begin, work[FLOODS], work[at]
    work[PATH], work[WALKED + at] = at, walk
    while looked < number:
        here = work[PATH + looked]
        looked += 1
        for side in range(4):
            near = here + work[STEPS + side]
            stone = work[near]
            if stone == EMPTY or stone == OFF or work[WALKED + near] == walk:
                continue
            work[WALKED + near] = walk
            if stone == colour:
                work[PATH + number] = near
                number += 1
            elif _empty_beside(work, near) < 2 and _liberties(work, near, 2) == 1 and work[LIBERTY] != last:
                end = _list_once(work, begin, end, work[LIBERTY])
    return end


@inline
def _list_once(work, begin, end, move):
    """Inserts a move in the order of the points, unless it is listed; returns the end of the list."""
    for k in range(begin, end):
        if work[k] == move:
            return end
    place = end
    while place > begin and work[place - 1] > move:
        work[place] = work[place - 1]
        place -= 1
    work[place] = move
    return end + 1


@inline
def _answer(work, at, move):
    """Plays a move of the defender; finds the string's liberties after it, and returns their number, up to SEVERAL. A
    suicide leaves none."""
    colour = work[at]
    _change(work, move, colour)
    if _capture(work, move, colour) == 0:
        friends, liberties = 0, 0
        for side in range(4):
            near = move + work[STEPS + side]
            if work[near] == EMPTY and liberties < SEVERAL:
                work[LIBERTY + liberties] = near
                liberties += 1
            friends += work[near] == colour
        # It is the extension; if that joins no other string, there is no other liberty.
        if friends == 1 or liberties == SEVERAL:
            return liberties
    return _liberties(work, at, SEVERAL)


@inline
def _empty_beside(work, at):
    """Returns how many empty points are next to a place."""
    number = 0
    for side in range(4):
        number += work[at + work[STEPS + side]] == EMPTY
    return number


@inline
def _is_alive(work, at):
    """Returns whether the string at a place has a liberty."""
    return _empty_beside(work, at) > 0 or _liberties(work, at, 1) > 0


@inline
def _liberties(work, at, limit):
    """Finds a string's liberties up to `limit`, and all of its stones if it has fewer; returns the number of
    liberties."""
    work[FLOODS] += 1
    flood, colour, number, looked, liberties = work[FLOODS], work[at], 1, 0, 0
    work[QUEUE], work[MARK + at] = at, flood
    while looked < number:
        here = work[QUEUE + looked]
        looked += 1
        for side in range(4):
            near = here + work[STEPS + side]
            stone = work[near]
            if (stone != EMPTY and stone != colour) or work[MARK + near] == flood:
                continue
            work[MARK + near] = flood
            if stone == EMPTY:
                work[LIBERTY + liberties] = near
                liberties += 1
                if liberties == limit:
                    return liberties
            else:
                work[QUEUE + number] = near
                number += 1
    work[LENGTH] = number
    return liberties


@inline
def _capture(work, move, colour):
    """Removes what a newly placed stone captures, and returns how many stones. Notes the ko that it opens, if it has
    captured one stone and is alone with that place as its only liberty."""
    num_captured, last = 0, NO_PLACE
    for side in range(4):
        near = move + work[STEPS + side]
        if work[near] == 3 - colour and not _is_alive(work, near):
            for k in range(work[LENGTH]):
                _change(work, work[QUEUE + k], EMPTY)
            num_captured, last = num_captured + work[LENGTH], near
    work[KO] = last if num_captured == 1 else NO_PLACE
    if num_captured == 1:
        for side in range(4):
            near = move + work[STEPS + side]
            if work[near] == colour or (work[near] == EMPTY and near != last):
                work[KO] = NO_PLACE
    return num_captured


@inline
def _change(work, at, what):
    """Puts a stone, or EMPTY, on a place."""
    work[work[CHANGES_END]] = at * 4 + work[at]
    work[CHANGES_END] += 1
    work[at] = what


@inline
def _take_back(work, end):
    """Undoes the last changes, down to `end` in their list."""
    while work[CHANGES_END] > end:
        work[CHANGES_END] -= 1
        change = work[work[CHANGES_END]]
        work[change >> 2] = change & 3
