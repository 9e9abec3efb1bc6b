"""One game of Go in plain Python: the rules as one would explain them, against which the tensor board is tested.

A `Board` has stones, strings (stones of one colour connected along lines) and their liberties (adjacent empty points),
but no turns. A `GameState` adds the side to move, ko, the history for superko, passes and the score. Both are
immutable: a move returns a new state, so that every state of a game can be kept and continued.

    game = GameState.new(Rules(size=9))
    game = game.play(Move.play(Point(4, 4)))        # row and column from 0 at the top left
    game.why_illegal(Move.play(Point(4, 4)))        # "occupied: a stone stands on E5"

Where rule books differ, these rules apply:
* A move places a stone, removes the opponent's strings without liberties, then the own string if it has none (suicide,
  if allowed).
* Simple ko bans recapturing at once, where a move captured one stone and its own stone is alone with that one liberty.
* Positional superko bans any earlier position of this game, situational superko any earlier position with the same side
  to move. The initial position counts. A pass is always legal, and adds its situation to the history.
* Where suicide is allowed, suicide of one stone recreates the position: positional superko bans it, situational superko
  only if that situation has occurred, and simple ko does not.
* Two passes in a row end the game. Resignation is left to the players. Komi is White's only compensation: handicap
  stones give White no points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import NamedTuple

from zerogo.errors import InputError
from zerogo.rules import Rules, coords


class Colour(Enum):
    """A player's colour; its value is that of the stones wherever boards are numbers (0 is empty)."""

    BLACK = 1
    WHITE = 2

    @property
    def other(self) -> Colour:
        """The opponent's colour."""
        return Colour.WHITE if self is Colour.BLACK else Colour.BLACK

    @property
    def sign(self) -> int:
        """1 for Black, -1 for White: it turns this side's values and scores into Black's, and back."""
        return 1 if self is Colour.BLACK else -1


class Point(NamedTuple):
    """A point of the board: row and column, from 0 at the top left."""

    row: int
    column: int


@dataclass(frozen=True)
class Move:
    """A play or a pass, made by `Move.play(point)` or `Move.pass_turn()`."""

    point: Point | None = None

    @staticmethod
    def play(point: Point) -> Move:
        """Returns the move that places a stone."""
        return Move(Point(*point))

    @staticmethod
    def pass_turn() -> Move:
        """Returns the pass."""
        return Move()

    @staticmethod
    def from_action(action: int, size: int) -> Move:
        """Returns the move for an action: row * size + column, or size * size for a pass."""
        return Move.pass_turn() if action == size * size else Move.play(Point(*coords.row_col(action, size)))

    def action(self, size: int) -> int:
        """Returns the action of the move, 0 to size * size."""
        return size * size if self.point is None else coords.point(*self.point, size)


class String(NamedTuple):
    """Stones of one colour that live and die together, and their liberties."""

    colour: Colour
    stones: frozenset[Point]
    liberties: frozenset[Point]


@cache
def neighbours(point: Point, size: int) -> tuple[Point, ...]:
    """Returns the two to four points next to a point (none on 1x1)."""
    row, column = point
    around = (Point(row - 1, column), Point(row + 1, column), Point(row, column - 1), Point(row, column + 1))
    return tuple(near for near in around if is_on_board(near, size))


def is_on_board(point: Point, size: int) -> bool:
    """Returns whether the point exists."""
    return 0 <= point.row < size and 0 <= point.column < size


@cache
def all_points(size: int) -> tuple[Point, ...]:
    """Returns all points of a board, row by row from the top left: the order of actions."""
    return tuple(Point(row, column) for row in range(size) for column in range(size))


def connected(start: Point, points: set[Point], size: int) -> set[Point]:
    """Returns `start` and the points that are connected to it through `points`."""
    region, frontier = {start}, [start]
    while frontier:
        near = points.intersection(neighbours(frontier.pop(), size)) - region
        region |= near
        frontier += near
    return region


@cache
def _digit(point: Point, colour: Colour, size: int) -> int:
    """Returns the contribution of one stone to `Board.position`."""
    return colour.value << 2 * (point.row * size + point.column)


class Board:
    """Stones and their strings. Immutable: `after` returns another board.

    position: the stones as one integer, two bits per point (0 empty, 1 black, 2 white). Two boards of one size are
    equal if and only if their positions are, so superko compares these and needs no hash."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.position = 0
        self._strings: dict[Point, String] = {}  # by stone

    def string_at(self, point: Point) -> String | None:
        """Returns the string of a point, None if it is empty."""
        return self._strings.get(point)

    def colour_at(self, point: Point) -> Colour | None:
        """Returns the colour of the stone on a point, None if it is empty."""
        string = self._strings.get(point)
        return string and string.colour

    def strings(self) -> list[String]:
        """Returns all strings."""
        return list(dict.fromkeys(self._strings.values()))

    def removed_by(self, colour: Colour, point: Point) -> frozenset[Point]:
        """Returns the stones that leave the board when a colour plays on an empty point: captures, or else its own
        string in a suicide."""
        near = [self.string_at(next_to) for next_to in neighbours(point, self.size)]
        dying = [string for string in near if string and string.colour is not colour and len(string.liberties) == 1]
        if dying:
            return frozenset().union(*(string.stones for string in dying))
        if any(string is None or (string.colour is colour and len(string.liberties) > 1) for string in near):
            return frozenset()
        return frozenset([point]).union(*(string.stones for string in near if string and string.colour is colour))

    def position_after(self, colour: Colour, point: Point) -> int:
        """Returns the position after a play on an empty point."""
        position = self.position + _digit(point, colour, self.size)
        for stone in self.removed_by(colour, point):
            position -= _digit(stone, self.colour_at(stone) or colour, self.size)
        return position

    def after(self, colour: Colour, point: Point) -> Board:
        """Returns the board after a play on an empty point, without the stones that it removes."""
        assert self.string_at(point) is None, f"{point} is occupied"
        board = Board(self.size)
        board.position, board._strings = self.position, dict(self._strings)
        board._add(colour, point)
        board._remove(self.removed_by(colour, point))
        return board

    def without(self, stones: Iterable[Point]) -> Board:
        """Returns the board without the given stones, for dead stones at the end; empty points are ignored."""
        removed = set(stones)
        left = [(string.colour, point) for point, string in self._strings.items() if point not in removed]
        return Board.of_stones(self.size, left) if removed else self

    @staticmethod
    def of_stones(size: int, stones: Iterable[tuple[Colour, Point]]) -> Board:
        """Returns the board with these stones as they stand: nothing is captured, and strings may lack liberties."""
        board = Board(size)
        for colour, point in stones:
            board._add(colour, point)
        return board

    def _set(self, string: String) -> None:
        self._strings.update(dict.fromkeys(string.stones, string))

    def _add(self, colour: Colour, point: Point) -> None:
        """Places a stone, takes the liberty from its neighbours, and joins it with strings of its colour."""
        around = neighbours(point, self.size)
        stones, liberties = {point}, {near for near in around if near not in self._strings}
        for string in {self._strings[near] for near in around if near in self._strings}:
            left = string.liberties - {point}
            if string.colour is colour:
                stones, liberties = stones | string.stones, liberties | left
            else:
                self._set(string._replace(liberties=left))
        self._set(String(colour, frozenset(stones), frozenset(liberties)))
        self.position += _digit(point, colour, self.size)

    def _remove(self, stones: frozenset[Point]) -> None:
        """Removes whole strings; adjacent strings gain their points as liberties."""
        for stone in stones:
            self.position -= _digit(stone, self._strings.pop(stone).colour, self.size)
        for stone in stones:
            for near in neighbours(stone, self.size):
                if string := self._strings.get(near):
                    self._set(string._replace(liberties=string.liberties | {stone}))

    def territory(self) -> dict[Colour, set[Point]]:
        """Returns by colour the empty points that only its stones reach; none on an empty board."""
        area: dict[Colour, set[Point]] = {colour: set() for colour in Colour}
        unseen = {point for point in all_points(self.size) if point not in self._strings}
        while unseen:
            region = connected(next(iter(unseen)), unseen, self.size)
            borders = {self.colour_at(near) for point in region for near in neighbours(point, self.size)} - {None}
            unseen -= region
            if len(borders) == 1:
                area[borders.pop()] |= region
        return area

    def count(self, colour: Colour) -> int:
        """Returns how many stones of a colour are on the board."""
        return sum(len(string.stones) for string in self.strings() if string.colour is colour)


@dataclass(frozen=True, eq=False)
class GameState:
    """One state of a game. Immutable: `play` returns the next one.

    to_play: the side to move. ply: moves and passes so far. passes: consecutive passes just now. ko: the point that
    simple ko bans now. captures: stones that each player has captured (suicides count for the opponent). history: the
    positions up to this one, alone and with the side to move, as superko compares them."""

    rules: Rules
    board: Board
    to_play: Colour = Colour.BLACK
    ply: int = 0
    passes: int = 0
    ko: Point | None = None
    captures: dict[Colour, int] = field(default_factory=lambda: dict.fromkeys(Colour, 0))
    history: frozenset = frozenset()
    last_move: Move | None = None

    @staticmethod
    def new(rules: Rules, handicap: Sequence[Point] = ()) -> GameState:
        """Returns the start of a game; with handicap stones White moves first.

        handicap: the points of the stones, two or more, with at least one point left empty."""
        points = {Point(*point) for point in handicap if is_on_board(Point(*point), rules.size)}
        if len(points) != len(handicap) or len(points) == 1 or (points and len(points) >= rules.size**2):
            counts = f"{len(handicap)} points, {len(points)} different ones on the board"
            raise InputError(f"handicap: {counts}; allowed are 0 and 2 to {rules.size**2 - 1}")
        board = Board.of_stones(rules.size, [(Colour.BLACK, point) for point in points])
        return GameState(rules, board, Colour.WHITE if points else Colour.BLACK)._with_history()

    @staticmethod
    def from_stones(stones: Sequence[Sequence[int]], to_play: Colour | int, rules: Rules) -> GameState:
        """Returns a game that starts from a position, without earlier history.

        stones: `size` rows from the top, of `size` colours each: 0 empty, 1 black, 2 white. Raises `InputError` for
        another shape or colour, or a string without a liberty."""
        size = rules.size
        if len(stones) != size or any(len(row) != size for row in stones):
            raise InputError(f"stones: rows of {[len(row) for row in stones]} points; {size} rows of {size} are needed")
        colours = {point: int(stones[point.row][point.column]) for point in all_points(size)}
        for point, colour in colours.items():
            if colour not in (0, 1, 2):
                allowed = "allowed are 0 (empty), 1 (black) and 2 (white)"
                raise InputError(f"stones: {colour} on {_name(point, size)}; {allowed}")
        board = Board.of_stones(size, [(Colour(colour), point) for point, colour in colours.items() if colour])
        for string in board.strings():
            if not string.liberties:
                where = _name(min(string.stones), size)
                raise InputError(f"stones: the string on {where} has no liberty; every string needs one")
        return GameState(rules, board, Colour(to_play))._with_history()

    @property
    def is_over(self) -> bool:
        """Whether two passes in a row have ended the game."""
        return self.passes >= 2

    def why_illegal(self, move: Move) -> str | None:
        """Returns why a move is illegal, as "kind: details"; None for a legal move."""
        if self.is_over:
            return "game over: both players have passed"
        if move.point is None:
            return None
        point, size = move.point, self.rules.size
        if not is_on_board(point, size):
            where = f"row {point.row}, column {point.column}"
            return f"off the board: {where}; both go from 0 to {size - 1} on {size}x{size}"
        if self.board.string_at(point) is not None:
            return f"occupied: a stone stands on {_name(point, size)}"
        if not self.rules.suicide and point in self.board.removed_by(self.to_play, point):
            return f"suicide: a {self.to_play.name.lower()} stone on {_name(point, size)} would have no liberty"
        if point == self.ko:
            return f"ko: {_name(point, size)} may not be retaken at once"
        after = self.board.position_after(self.to_play, point)
        situation = (after, self.to_play.other) if self.rules.superko == "situational" else after
        if self.rules.superko != "simple" and situation in self.history:
            same = "position" if self.rules.superko == "positional" else "position with the same side to move"
            return f"superko: {_name(point, size)} would repeat an earlier {same}"
        return None

    def legal_moves(self) -> list[Move]:
        """Returns all legal plays from the top left, then the pass; empty once the game is over."""
        moves = [*(Move(point) for point in all_points(self.rules.size)), Move.pass_turn()]
        return [move for move in moves if self.why_illegal(move) is None]

    def play(self, move: Move) -> GameState:
        """Returns the state after a move; raises `InputError` with the reason of `why_illegal` if it is not legal."""
        if reason := self.why_illegal(move):
            raise InputError(f"illegal move of {self.to_play.name.lower()}: {reason}")
        turned = replace(self, to_play=self.to_play.other, ply=self.ply + 1, ko=None, last_move=move)
        if move.point is None:
            return replace(turned, passes=self.passes + 1)._with_history()
        removed = self.board.removed_by(self.to_play, move.point)
        taker = self.to_play.other if move.point in removed else self.to_play
        captures = self.captures | {taker: self.captures[taker] + len(removed)}
        board = self.board.after(self.to_play, move.point)
        ko = _ko_point(board, move.point, removed)
        return replace(turned, board=board, passes=0, ko=ko, captures=captures)._with_history()

    def stones(self) -> list[list[int]]:
        """Returns the rows of the board from the top: 0 empty, 1 black, 2 white."""
        size = self.rules.size
        points = [getattr(self.board.colour_at(point), "value", 0) for point in all_points(size)]
        return [points[row * size : row * size + size] for row in range(size)]

    def area_score_black(self, dead: Iterable[Point] = ()) -> float:
        """Returns Black's area minus White's before komi, in points: stones, and empty points that only one colour
        reaches, without dead stones."""
        board = self.board.without(dead)
        territory = board.territory()
        return float(sum(side.sign * (board.count(side) + len(territory[side])) for side in Colour))

    def territory_score_black(self, dead: Iterable[Point] = ()) -> float:
        """Returns Black's territory and prisoners minus White's before komi, in points. Dead stones become prisoners;
        eyes in seki count."""
        board = self.board.without(dead)
        territory = board.territory()
        dead_of = {colour: self.board.count(colour) - board.count(colour) for colour in Colour}
        return float(sum(p.sign * (len(territory[p]) + self.captures[p] + dead_of[p.other]) for p in Colour))

    def score_black(self, dead: Iterable[Point] = ()) -> float:
        """Returns Black's score minus White's and komi, in points, for the board as it stands, by the game's rules."""
        counted = self.area_score_black(dead) if self.rules.scoring == "area" else self.territory_score_black(dead)
        return counted - self.rules.komi

    def _with_history(self) -> GameState:
        """Returns this state with its own position in the history."""
        return replace(self, history=self.history | {self.board.position, (self.board.position, self.to_play)})


def _ko_point(board: Board, point: Point, removed: frozenset[Point]) -> Point | None:
    """Returns the point that simple ko bans next, if a move captured one stone and its own stone is alone with that one
    liberty."""
    string = board.string_at(point)
    is_ko = string and len(removed) == 1 and len(string.stones) == 1 and string.liberties == removed
    return next(iter(removed)) if is_ko else None


def _name(point: Point, size: int) -> str:
    return coords.to_gtp(coords.point(*point, size), size)
