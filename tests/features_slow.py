"""Every group of planes and of global inputs once more, slowly: plain Python over `zerogo.game`, point by point, from
the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise

from ladder_reader import read_all
from slow_scoring import katago_area, slow_benson, slow_eye

from zerogo.features import ENCODERS, GROUPS, make_group
from zerogo.features.planes import PATTERNS
from zerogo.game import Colour, GameState, Move, Point, all_points, is_on_board, neighbours
from zerogo.kernels.shared import GLOBALS

ASKED = {group for groups in ENCODERS.values() for group in groups}
NAMED = {group.partition(":")[0] for group in ASKED}
OTHERS = {name: kind for name, kind in GROUPS.items() if name not in NAMED}
ALL = sorted(ASKED | {f"{name}:{kind.default}" if kind.max_number else name for name, kind in OTHERS.items()})
PLANES = [group for group in ALL if make_group(group).form != GLOBALS]
INPUTS = [group for group in ALL if make_group(group).form == GLOBALS]
LADDERS = {group for group in PLANES if "ladder" in group}

AROUND = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if row or column]
MOST_NODES = 500  # of one ladder; a longer one raises `ladder_reader.TooLong`
Plane = list[list[float]]
SLOW: dict[str, Callable[[Seen, int], list[Plane]]] = {}


class Seen:
    """A game that is not over, as the side to move sees it. states: from its start to now."""

    def __init__(self, states: list[GameState]) -> None:
        self.states, self.now = states, states[-1]
        self.size, self.rules, self.board = self.now.rules.size, self.now.rules, self.now.board
        self.mover, self.other = self.now.to_play, self.now.to_play.other
        self.found: dict[str, list[Plane]] = {}

    def planes(self, group: str) -> list[Plane]:
        """Returns the planes of a group, `name` or `name:number`; computed once."""
        if group not in self.found:
            name, _, number = group.partition(":")
            assert name in SLOW, f"the group {name} needs a slow version in tests/features_slow.py"
            self.found[group] = SLOW[name](self, int(number or 0))
        return self.found[group]

    def plane(self, value: Callable[[Point], float]) -> Plane:
        return [[float(value(Point(row, column))) for column in range(self.size)] for row in range(self.size)]

    def one_hot(self, number: Callable[[Point], int], most: int, exact: bool = False) -> list[Plane]:
        """Returns planes for 1, 2, … and `most` or more, or exactly `most`."""
        at = {point: number(point) for point in all_points(self.size)}
        if not exact:
            at = {point: min(value, most) for point, value in at.items()}
        return [self.plane(lambda point, wanted=wanted: at[point] == wanted) for wanted in range(1, most + 1)]

    def colour(self, point: Point, ago: int = 0) -> Colour | None:
        """Returns whose stone stood there, nobody's before the start."""
        return self.states[-1 - ago].board.colour_at(point) if ago < len(self.states) else None

    def liberties(self, point: Point) -> int:
        string = self.board.string_at(point)
        return len(string.liberties) if string else 0

    @cached_property
    def reasons(self) -> dict[Point, str]:
        """Returns why each point is illegal, by the first word; "" where it is legal."""
        whys = {point: self.now.why_illegal(Move.play(point)) for point in all_points(self.size)}
        return {point: "" if why is None else why.split(":")[0] for point, why in whys.items()}

    def legal(self, point: Point) -> bool:
        return self.reasons[point] == ""

    @cached_property
    def after(self) -> dict[Point, tuple[int, int, int]]:
        """Returns for each legal move: stones captured (none by suicide), liberties and size of its string."""
        found = {}
        for point in filter(self.legal, all_points(self.size)):
            removed = self.board.removed_by(self.mover, point)
            if point in removed:
                found[point] = 0, 0, len(removed)
                continue
            string = self.board.after(self.mover, point).string_at(point)
            found[point] = len(removed), len(string.liberties), len(string.stones)
        return found

    def made(self, point: Point, which: int) -> int:
        return self.after.get(point, (0, 0, 0))[which]

    def taken_by_other(self, point: Point) -> int:
        if self.board.string_at(point):
            return 0
        removed = self.board.removed_by(self.other, point)
        return 0 if point in removed else len(removed)

    def strings_beside(self, point: Point, player: Colour) -> set:
        if self.board.string_at(point):
            return set()
        strings = {self.board.string_at(near) for near in neighbours(point, self.size)} - {None}
        return {string for string in strings if string.colour is player}

    def is_eye(self, point: Point, extra: Point | None = None) -> bool:
        """Returns whether an empty point is an eye of the mover's, after one more stone."""
        rows = [list(row) for row in self.grid]
        if extra:
            rows[extra.row][extra.column] = self.mover.value
        return slow_eye(rows, self.mover.value, *point)

    def line(self, point: Point) -> int:
        return 1 + min(point.row, point.column, self.size - 1 - point.row, self.size - 1 - point.column)

    def komi(self) -> float:
        return -self.rules.komi if self.mover is Colour.BLACK else self.rules.komi

    def last_move(self, ago: int) -> Move | None:
        return self.states[-ago].last_move if ago < len(self.states) else None

    def ladders(self) -> dict[Colour, tuple[set, set, set]]:
        return read_all(self.board, MOST_NODES)

    def katago_ladders(self, ago: int = 0) -> dict[Colour, tuple[set, set, set]]:
        state = self.states[-1 - min(ago, len(self.states) - 1)]
        return read_all(state.board, MOST_NODES, as_katago=True, ko=state.ko)

    @property
    def lead_in_moves(self) -> int:
        """Black's moves without passes, less White's."""
        movers = [before.to_play for before, after in pairwise(self.states) if after.last_move.point]
        return movers.count(Colour.BLACK) - movers.count(Colour.WHITE)

    @cached_property
    def grid(self) -> list[list[int]]:
        return self.now.stones()


def group(function: Callable[[Seen, int], list[Plane]]) -> Callable[[Seen, int], list[Plane]]:
    SLOW[function.__name__] = function
    return function


def constant(seen: Seen, value: float) -> Plane:
    return seen.plane(lambda _: value)


def stones_of(seen: Seen, player: Colour, ago: int = 0) -> Plane:
    return seen.plane(lambda point: seen.colour(point, ago) is player)


def of_points(seen: Seen, points: set) -> Plane:
    return seen.plane(lambda point: point in points)


def liberties_of(seen: Seen, player: Colour, most: int) -> list[Plane]:
    return seen.one_hot(lambda p: seen.liberties(p) if seen.colour(p) is player else 0, most, exact=True)


def laddered(seen: Seen, ago: int) -> Plane:
    return of_points(seen, set.union(*(caught for caught, _, _ in seen.katago_ladders(ago).values())))


def pass_alive(seen: Seen, player: Colour) -> set:
    return slow_benson(seen.grid, player.value, seen.rules.suicide)


@group
def turns_since(seen: Seen, most: int) -> list[Plane]:
    def age(point: Point) -> int:
        player, known = seen.colour(point), range(1, min(most, len(seen.states)))
        changes = (ago for ago in known if seen.colour(point, ago) is not player)
        return 0 if player is None else next(changes, most)

    return seen.one_hot(age, most)


@group
def last_moves(seen: Seen, number: int) -> list[Plane]:
    moves = [seen.last_move(ago) for ago in range(1, number + 1)]
    return [seen.plane(lambda point, move=move: move is not None and move.point == point) for move in moves]


def four_ladder_planes(seen: Seen, player: Colour) -> list[Plane]:
    caught, catching, escaping = seen.ladders()[player]
    weak = [string.stones for string in seen.board.strings() if string.colour is player and len(string.liberties) == 1]
    in_atari = set().union(*weak)
    return [of_points(seen, points) for points in (caught, in_atari - caught, catching, escaping)]


@group
def ko_takes(seen: Seen, _: int) -> list[Plane]:
    def other_takes(point: Point) -> bool:
        if seen.taken_by_other(point) != 1:
            return False
        string = seen.board.after(seen.other, point).string_at(point)
        return len(string.stones) == len(string.liberties) == 1

    return [seen.plane(lambda point: seen.after.get(point) == (1, 1, 1)), seen.plane(other_takes)]


def area(seen: Seen, suicide: bool) -> list[Plane]:
    owned = katago_area(seen.grid, suicide) if seen.rules.scoring == "area" else {1: set(), 2: set()}
    return [of_points(seen, owned[player.value]) for player in (seen.mover, seen.other)]


@group
def bans(seen: Seen, _: int) -> list[Plane]:
    def is_lone_suicide(point: Point) -> bool:
        return seen.board.removed_by(seen.mover, point) == {point}

    return [seen.plane(lambda point: seen.reasons[point] in ("ko", "superko") and not is_lone_suicide(point))]


def pattern_class(seen: Seen, point: Point) -> int:
    """Returns the first class with a pattern that fits some turn and colouring of the eight points around a move."""
    if not seen.legal(point):
        return 0

    def sign(row: int, column: int) -> str:
        near = Point(point.row + row, point.column + column)
        if not is_on_board(near, seen.size):
            return "_"
        player = seen.colour(near)
        return "." if player is None else "X" if player is seen.mover else "O"

    around = [[sign(row, column) for column in (-1, 0, 1)] for row in (-1, 0, 1)]
    views = []
    for _ in range(4):
        around = [list(line) for line in zip(*around[::-1], strict=True)]
        for view in (around, [line[::-1] for line in around]):
            views += [view, [[{"X": "O", "O": "X"}.get(one, one) for one in line] for line in view]]
    fits = {".": ".", "X": "X", "O": "O", "x": ".O_", "o": ".X_", "?": ".XO_", "_": "_"}
    for number, patterns in enumerate(PATTERNS, start=1):
        for pattern in patterns:
            lines = pattern.split()
            for view in views:
                if all(view[r + 1][c + 1] in fits[lines[r + 1][c + 1]] for r, c in AROUND):
                    return number
    return 0


@group
def makes_eye(seen: Seen, _: int) -> list[Plane]:
    def makes(point: Point) -> bool:
        around = [Point(point.row + row, point.column + column) for row, column in AROUND]
        around = [near for near in around if is_on_board(near, seen.size)]
        return any(seen.is_eye(near, point) and not seen.is_eye(near) for near in around)

    return [seen.plane(lambda point: seen.legal(point) and makes(point))]


@group
def scaled_weakest(seen: Seen, _: int) -> list[Plane]:
    def weakest(point: Point) -> int:
        return min((len(string.liberties) for string in seen.strings_beside(point, seen.other)), default=0)

    return [seen.plane(lambda point: min(weakest(point), 8) / 8)]


@group
def rule_planes(seen: Seen, _: int) -> list[Plane]:
    rules, first = seen.rules, seen.states[0].to_play
    numbers = [seen.komi() / 15, rules.suicide]
    numbers += [rules.superko == kind for kind in ("positional", "situational", "simple")]
    numbers += [rules.scoring == kind for kind in ("area", "territory")]
    return [constant(seen, number) for number in (*numbers, first is Colour.WHITE, seen.now.passes > 0)]


SLOW |= {
    "on_board": lambda seen, _: [constant(seen, 1)],
    "zeros": lambda seen, number: [constant(seen, 0)] * number,
    "stones": lambda seen, _: [stones_of(seen, seen.mover), stones_of(seen, seen.other)],
    "colours": lambda seen, _: [stones_of(seen, Colour.BLACK), stones_of(seen, Colour.WHITE)],
    "empty": lambda seen, _: [stones_of(seen, None)],
    "colour": lambda seen, _: [constant(seen, seen.mover is Colour.BLACK)],
    "history": lambda seen, n: [stones_of(seen, who, ago) for who in (seen.mover, seen.other) for ago in range(n + 1)],
    "colour_history": lambda seen, n: [stones_of(seen, colour, ago) for colour in Colour for ago in range(n + 1)],
    "liberties": lambda seen, most: seen.one_hot(seen.liberties, most),
    "few_liberties": lambda seen, most: seen.one_hot(seen.liberties, most, exact=True),
    "own_liberties": lambda seen, most: liberties_of(seen, seen.mover, most),
    "opponent_liberties": lambda seen, most: liberties_of(seen, seen.other, most),
    "capture_size": lambda seen, most: seen.one_hot(lambda point: seen.made(point, 0), most),
    "opponent_capture_size": lambda seen, most: seen.one_hot(seen.taken_by_other, most),
    "self_atari_size": lambda seen, most: seen.one_hot(lambda p: seen.made(p, 2) if seen.made(p, 1) < 2 else 0, most),
    "liberties_after": lambda seen, most: seen.one_hot(lambda point: seen.made(point, 1), most),
    "ladder_capture": lambda seen, _: [of_points(seen, set(filter(seen.legal, seen.ladders()[seen.other][1])))],
    "ladder_start": lambda seen, _: [of_points(seen, seen.katago_ladders()[seen.other][1])],
    "area": lambda seen, _: area(seen, seen.rules.suicide),
    "area_as_if_suicide": lambda seen, _: area(seen, True),
    "ladder_escape": lambda seen, _: [of_points(seen, set(filter(seen.legal, seen.ladders()[seen.mover][2])))],
    "laddered": lambda seen, number: [laddered(seen, ago) for ago in range(number)],
    "own_ladders": lambda seen, _: four_ladder_planes(seen, seen.mover),
    "opponent_ladders": lambda seen, _: four_ladder_planes(seen, seen.other),
    "legal": lambda seen, _: [seen.plane(seen.legal)],
    "sensible": lambda seen, _: [seen.plane(lambda point: seen.legal(point) and not seen.is_eye(point))],
    "ko": lambda seen, _: [seen.plane(lambda point: seen.reasons[point] == "ko")],
    "pass_alive": lambda seen, _: [of_points(seen, pass_alive(seen, who)) for who in (seen.mover, seen.other)],
    "edge_distance": lambda seen, most: seen.one_hot(seen.line, most),
    "pattern": lambda seen, _: seen.one_hot(lambda point: pattern_class(seen, point), len(PATTERNS), exact=True),
    "captures": lambda seen, _: [seen.plane(lambda point: seen.made(point, 0) > 0)],
    "connects": lambda seen, _: [seen.plane(lambda p: seen.legal(p) and len(seen.strings_beside(p, seen.mover)) > 1)],
    "scaled_liberties_after": lambda seen, _: [seen.plane(lambda point: min(seen.made(point, 1), 8) / 8)],
    "scaled_edge_distance": lambda seen, _: [seen.plane(lambda point: seen.line(point) / math.ceil(seen.size / 2))],
}


def slow_globals(seen: Seen, name: str) -> list[float]:
    """Returns the global inputs of a group, a list of numbers."""
    name, _, number = name.partition(":")
    komi, rules = seen.komi(), seen.rules
    played = seen.lead_in_moves if rules.scoring == "territory" else 0
    whole = komi + (played if seen.mover is Colour.WHITE else -played)
    cut = max(-(seen.size**2 + 20), min(seen.size**2 + 20, whole))
    if name == "komi":
        return [komi / (2 * seen.size)]
    if name == "last_passes":
        moves = [seen.last_move(ago) for ago in range(1, int(number) + 1)]
        return [float(move is not None and move.point is None) for move in moves]
    if name == "katago_komi":
        return [cut / 20]
    if name == "katago_rules":
        kind = {"positional": 0.5, "situational": -0.5, "simple": 0.0}[rules.superko]
        told = [rules.superko != "simple", kind, rules.suicide, rules.scoring == "territory"]
        told += [rules.scoring == "territory", 0, 0, 0]
        told += [seen.now.passes == 1, 0, 0, 0]
        return [float(number) for number in told]
    assert name == "komi_parity", name
    if rules.scoring == "territory":
        return [0.0]
    below = math.floor(cut)
    while below % 2 != seen.size % 2:  # draws need a komi as even or odd as the board's area
        below -= 1
    above = cut - below
    return [above if above < 0.5 else 1 - above if above < 1.5 else above - 2]
