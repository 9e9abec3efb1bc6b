"""Which strings of a finished board are dead, alive or in seki.

Pass-alive regions decide first (Benson). For other strings ownership decides where it is sure, and a search where it is
not: plain MCTS that plays for the string alone, once with each side to move first. After two passes a dead string can't
be saved and a live one can't be killed, so both searches should agree; the verdict is their mean, since weak play
spoils one or the other. Random playouts are never sure: a lone stone in a large territory lives in every third of them.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zerogo import board, scoring
from zerogo.board import Position, State, flood
from zerogo.game import Board, Colour, GameState, Point, String, all_points, connected, neighbours
from zerogo.players.analyst import PLAIN_MCTS
from zerogo.players.playout import PlayoutEvaluator
from zerogo.rules import Rules
from zerogo.search import Go, Search
from zerogo.search.game import select_games

SURE_DEAD, SURE_ALIVE = -0.9, 0.6  # mean ownership of a string, for its owner, below and above which it is decided
DEAD = -0.1  # a string is dead if the mean of its searches is less
CLEAR = -0.5  # or, without searches, if its ownership is less
MOST_SEARCHED = 32  # strings; of further strings in doubt the ownership decides
ROOT_PLAYOUTS, LEAF_PLAYOUTS, SIMULATIONS = 96, 8, 38  # of a search for one string
AT_ONCE = 4  # strings that are searched together under a time limit, before the clock is read again
CAUTION = 1.25  # factor on the duration of the last strings, as an estimate for the next ones
MOST_SHARED = 4  # empty points that strings in seki share, on the whole board
MANY_STONES, SURELY_NO_SEKI = 6, -0.7  # of a string with an eye in seki: the least stones, the least value
FEW_POINTS = 1  # a group with no more points of eyespace can't have two eyes


class Status(NamedTuple):
    """The points of stones that are dead, and of those that live in seki; all other stones live."""

    dead: set[int]
    seki: set[int]


@dataclass
class TimeLimit:
    """The time limit of searches for strings. deadline: in seconds of `now`. seconds_each: the time of the last string.
    ran_out: whether there was no time for a string, so that its ownership decided."""

    now: Callable[[], float] = time.monotonic
    deadline: float = math.inf
    seconds_each: float = 0.0
    ran_out: bool = False

    def fitting(self, max_strings: int) -> int:
        """Returns how many of `max_strings` strings can be searched in time; one before the first measurement."""
        if self.deadline == math.inf:
            return max_strings
        left = self.deadline - self.now()
        limit = CAUTION * self.seconds_each
        number = min(AT_ONCE, max_strings, int(left / limit) if limit else 1) if left > 0 else 0
        self.ran_out |= number == 0
        return number


def judge_stones(
    state: GameState, ownership_black: Tensor | None, searches: bool = True, limit: TimeLimit | None = None
) -> Status:
    """Returns the status of all stones.

    ownership_black: float32 [N, N], None where only pass-alive regions count. searches: whether strings in doubt are
    searched; else ownership decides alone, and must be clear. limit: of the searches, which begin with the strings most
    in doubt. After two passes no large region is open to both sides: where strings next to one would live in seki, the
    weakest of them is dead, whatever its value."""
    size, alive, dead, values = state.rules.size, alive_points(state), set(), {}
    for string in state.board.strings():
        points = indices(string.stones, size)
        if points <= alive[string.colour.other]:
            dead |= points
        elif ownership_black is not None and not points <= alive[string.colour]:
            owned = float(ownership_black.flatten()[list(points)].mean())
            values[string] = string.colour.sign * owned
    if searches:
        values = _search_doubtful(state, values, limit or TimeLimit())
    for string, value in values.items():
        if value < (DEAD if searches else CLEAR) and not _is_stuck(state, string, value):
            dead |= indices(string.stones, size)
    seki, in_open = _find_seki(state, alive, dead)
    while state.is_over and (unsettled := [one for one in values if indices(one.stones, size) <= in_open]):
        dead |= indices(min(unsettled, key=values.get).stones, size)
        seki, in_open = _find_seki(state, alive, dead)
    return Status(dead, seki)


def alive_points(state: GameState) -> dict[Colour, set[int]]:
    """Returns the points, stones and territory, that are unconditionally each player's."""
    planes = scoring.pass_alive(torch.tensor([state.stones()], dtype=torch.int8), suicide=state.rules.suicide)
    black, white = (set(plane.flatten().nonzero().flatten().tolist()) for plane in planes)
    return {Colour.BLACK: black, Colour.WHITE: white}


def indices(points: frozenset[Point] | set[Point], size: int) -> set[int]:
    """Returns points as indices."""
    return {row * size + column for row, column in points}


def _search_doubtful(state: GameState, owned: dict[String, float], limit: TimeLimit) -> dict[String, float]:
    """Returns each string's value: its ownership, or, in doubt and in time, the result of a search."""
    doubtful = [string for string, value in owned.items() if SURE_DEAD <= value <= SURE_ALIVE]
    doubtful = sorted(doubtful, key=lambda string: (abs(owned[string] - DEAD), min(string.stones)))[:MOST_SEARCHED]
    values, done = dict(owned), 0
    while done < len(doubtful) and (number := limit.fitting(len(doubtful) - done)):
        before, batch = limit.now(), doubtful[done : done + number]
        values |= zip(batch, _search_strings(state, batch, done), strict=True)
        limit.seconds_each = max((limit.now() - before) / number, limit.seconds_each / 2)  # slow ones fade by half
        done += number
    return values


# The search


@dataclass(frozen=True)
class StringState(State):
    """Games that are played for one string each. string: int32 [B, N], its points as bit rows."""

    string: Tensor


class StringGo(Go):
    """Go on `StringState`s, won by the side that owns most of the string's points at the end."""

    def outcome(self, states: StringState, game_index: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        """Returns whether games have ended, bool [K], and the result for the side to move, [K]. That a pass can be
        answered by another is left out: with it, the few simulations misjudged a seki of the tests."""
        black, white = scoring.area_rows(position.black, position.white, select_games(states.on_board, game_index))
        string = select_games(states.string, game_index)
        score = (flood.count(black & string) - flood.count(white & string)).to(torch.float32)
        result = torch.sign(torch.where(position.to_play == board.BLACK, score, -score))
        return position.finished, torch.where(position.finished, result, -1.0)


class StringEvaluator(PlayoutEvaluator):
    """Playouts that score one string."""

    def scores(self, owned: Tensor, state: StringState) -> Tensor:
        """Returns the string's points of the side to move at the end of each playout, less the other side's."""
        return (owned * flood.unpack_rows(state.string).unsqueeze(1)).sum((2, 3))


def _search_strings(state: GameState, strings: list[String], first_string: int = 0) -> list[float]:
    """Returns the mean value of both searches for each string, from -1 (dead) to 1 (alive), which does not depend on
    the other strings. first_string: the number of the first one, a key of the random draws."""
    size, both = state.rules.size, 2 * len(strings)
    rows = torch.zeros(both, size * size, dtype=torch.bool)
    for game, string in enumerate(strings):
        rows[2 * game : 2 * game + 2, list(indices(string.stones, size))] = True
    stones = torch.tensor([state.stones()], dtype=torch.int8).expand(both, -1, -1).contiguous()
    first = torch.tensor([Colour.BLACK.value, Colour.WHITE.value] * len(strings), dtype=torch.int8)
    root: Any = board.from_stones(stones, first, Rules(size, suicide=state.rules.suicide, superko="simple"))
    root = StringState(**vars(root), string=flood.pack_rows(rows.unflatten(1, (size, size))))
    evaluators = StringEvaluator(LEAF_PLAYOUTS), StringEvaluator(ROOT_PLAYOUTS)
    search, game_ids = Search(evaluators[0], PLAIN_MCTS, StringGo(), evaluators[1]), torch.arange(both)
    values = search.run(root, SIMULATIONS, seed=0, game_ids=2 * first_string + game_ids).value
    values = torch.where(first == Colour.BLACK.value, values, -values).view(-1, 2).mean(1).tolist()
    return [string.colour.sign * value for string, value in zip(strings, values, strict=True)]


# Seki


def _is_stuck(state: GameState, string: String, value: float) -> bool:
    """Returns whether a large string is likely in seki with an eye, although playouts, which pass only without another
    move, take one side for dead: the string and a large neighbour have one eye each and one liberty in common, and
    whoever plays there is in atari. The hole that a capture would leave is too large for a single eye."""
    size, board = state.rules.size, state.board
    if not state.is_over or value < SURELY_NO_SEKI or len(string.stones) < MANY_STONES or len(string.liberties) != 2:
        return False
    for liberty in string.liberties:
        others = {board.string_at(point) for point in neighbours(liberty, size)} - {string}
        other = others.pop() if len(others) == 1 else None
        if other is None or len(other.stones) < MANY_STONES or len(other.liberties) != 2:
            continue
        eyes = ((point, of) for of in (string, other) for point in of.liberties - {liberty})
        if all({board.string_at(near) for near in neighbours(point, size)} == {of} for point, of in eyes):
            return True
    return False


def _find_seki(state: GameState, alive: dict[Colour, set[int]], dead: set[int]) -> tuple[set[int], set[int]]:
    """Returns the points of stones in seki, and of unsettled stones, at a larger region that both sides share.

    A group is a set of strings that are joined by eyespace, points that it alone reaches when dead stones are removed.
    It is in seki if it has at most FEW_POINTS of eyespace, is not pass-alive, and shares a liberty with such a group of
    the other side."""
    size = state.rules.size
    cleared = state.board.without(Point(*divmod(index, size)) for index in dead)
    territory, empty = cleared.territory(), {point for point in all_points(size) if cleared.string_at(point) is None}
    weak, dame = [], {colour: set() for colour in Colour}
    for colour in Colour:
        for stones, eyespace in _groups(cleared, colour, territory[colour]):
            if len(eyespace) <= FEW_POINTS and not indices(stones, size) <= alive[colour]:
                near = {point for stone in stones for point in neighbours(stone, size)}
                free = near & empty - eyespace
                weak.append((stones, free))
                dame[colour] |= free
    shared = dame[Colour.BLACK] & dame[Colour.WHITE]
    regions = [connected(point, empty, size) for point in shared]
    large = set().union(*(region for region in regions if len(region) > MOST_SHARED))
    in_open = indices(set().union(*(stones for stones, free in weak if free & shared & large)), size)
    return indices(set().union(*(stones for stones, free in weak if free & shared)), size) - in_open, in_open


def _groups(cleared: Board, colour: Colour, territory: set[Point]) -> list[tuple[set[Point], set[Point]]]:
    """Returns the stones of each group of a colour, and its eyespace: the points of `territory` that it reaches."""
    groups, unseen = [], {string for string in cleared.strings() if string.colour is colour}
    while unseen:
        frontier = [unseen.pop()]
        stones, eyespace = set(), set()
        while frontier:
            string = frontier.pop()
            stones |= string.stones
            for liberty in string.liberties & territory - eyespace:
                eyespace |= connected(liberty, territory, cleared.size)
            joined = {other for other in unseen if other.liberties & eyespace}
            unseen -= joined
            frontier += joined
        groups.append((stones, eyespace))
    return groups
