"""Positions that no moves lead to: handicap stones, and stones that are put on the board."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zerogo import coords
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.gtp import parse
from zerogo.gtp.basic import place
from zerogo.gtp.engine import Handler

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine
    from zerogo.players.live import LiveGame

BAD_HANDICAP = "invalid handicap"
MOST_FIXED = 9


def fixed_handicap(engine: Engine, arguments: list[str]) -> str:
    """Puts so many stones on GTP's fixed points and returns these."""
    number = _handicap(engine, arguments)
    try:
        points = coords.fixed_handicap(engine.size, number)
    except InputError:
        raise InputError(BAD_HANDICAP) from None
    return _put(engine, points)


def place_free_handicap(engine: Engine, arguments: list[str]) -> str:
    """Puts so many stones where it likes, on fixed points as far as there are, and returns the points."""
    return _put(engine, free_handicap(engine.size, _handicap(engine, arguments)))


def set_free_handicap(engine: Engine, arguments: list[str]) -> str:
    """Puts stones on the given points: two or more, different ones, and one point left empty."""
    _require_empty(engine.game)
    points = [parse.point(text, engine.size) for text in arguments]
    if len(set(points)) < len(points):
        raise InputError("repeated vertex")
    if not 2 <= len(points) < engine.size**2:
        raise InputError(BAD_HANDICAP)
    _put(engine, points)
    return ""


def free_handicap(size: int, number: int) -> list[int]:
    """Returns `number` different points for handicap stones, 2 to size * size - 1.

    The fixed points come first, as many as the board has of them; each further stone stands as far from the edge as the
    third line (the fourth from 13x13 on) where that is not next to another one, and there as far as possible from all
    others."""
    points = next(fixed for most in range(min(number, MOST_FIXED), -1, -1) if (fixed := _fixed(size, most)) is not None)
    nearest = {
        point: min((_distance(point, other, size) for other in points), default=math.inf)
        for point in range(size * size)
    }
    while len(points) < number:
        new = max(
            (point for point in nearest if nearest[point] > 0), key=lambda point: _merit(point, nearest[point], size)
        )
        points.append(new)
        nearest = {point: min(far, _distance(point, new, size)) for point, far in nearest.items()}
    return points


def _fixed(size: int, number: int) -> list[int] | None:
    try:
        return coords.fixed_handicap(size, number)
    except InputError:
        return None


def _merit(point: int, nearest: float, size: int) -> tuple[int, float, int]:
    """Returns what orders points for a further stone: not beside another one, then the line from the edge, the
    distance, the first one.
    """
    row, column = divmod(point, size)
    line = min(row, column, size - 1 - row, size - 1 - column)
    return min(line, 3 if size >= 13 else 2) if nearest > 1 else -1, nearest, -point


def _distance(one: int, other: int, size: int) -> int:
    """Returns the square of the distance of two points."""
    return (one // size - other // size) ** 2 + (one % size - other % size) ** 2


def gogui_setup(engine: Engine, arguments: list[str]) -> str:
    """Changes points of the present position: COLOUR VERTEX pairs, `e` takes a stone off. What was played before can't
    be taken back.
    """
    changes = _stones(engine, arguments, {"e": 0, "empty": 0})
    rows = engine.game.state.stones()
    for colour, point in changes:
        rows[point // engine.size][point % engine.size] = colour
    engine.game.set_up(rows, engine.game.to_play)
    return ""


def gogui_setup_player(engine: Engine, arguments: list[str]) -> str:
    """Says whose turn it is in a position that was set up."""
    parse.only(arguments, "gogui-setup_player COLOUR", 1)
    engine.game.set_up(engine.game.state.stones(), parse.colour(arguments[0]))
    return ""


def gogui_play_sequence(engine: Engine, arguments: list[str]) -> str:
    """Plays COLOUR VERTEX pairs, all of them or none."""
    moves = parse.pairs(arguments, engine.size)
    for number, (colour, action) in enumerate(moves):
        try:
            place(engine, Colour(colour), action)
        except InputError:
            engine.game.undo(number)
            raise
    return ""


def set_position(engine: Engine, arguments: list[str]) -> str:
    """Puts COLOUR VERTEX pairs on an empty board, as KataGo does; Black is to move."""
    stones = _stones(engine, arguments)
    points = [point for _, point in stones]
    if len(set(points)) < len(points):
        raise InputError("repeated vertex")
    rows = [[0] * engine.size for _ in range(engine.size)]
    for colour, point in stones:
        rows[point // engine.size][point % engine.size] = colour
    engine.game.set_up(rows, Colour.BLACK)
    return ""


def _stones(engine: Engine, arguments: list[str], more_colours: dict[str, int] | None = None) -> list[tuple[int, int]]:
    """Returns (colour, point) of COLOUR VERTEX pairs."""
    found = parse.pairs(arguments, engine.size, more_colours)
    if any(action == engine.size**2 for _, action in found):
        raise InputError(parse.BAD_PLACE)
    return found


def _handicap(engine: Engine, arguments: list[str]) -> int:
    """Returns the number of stones that is asked for, on an empty board."""
    parse.only(arguments, "fixed_handicap NUMBER, or place_free_handicap NUMBER", 1)
    _require_empty(engine.game)
    try:
        return parse.integer(arguments[0], "handicap", 2, engine.size**2 - 1)
    except InputError:
        raise InputError(BAD_HANDICAP) from None


def _require_empty(game: LiveGame) -> None:
    if game.moves or any(map(any, game.start)):
        raise InputError("board not empty")


def _put(engine: Engine, points: list[int]) -> str:
    engine.game.place_handicap(points)
    return " ".join(coords.to_gtp(point, engine.size) for point in points)


COMMANDS: dict[str, Handler] = {
    "fixed_handicap": fixed_handicap,
    "place_free_handicap": place_free_handicap,
    "set_free_handicap": set_free_handicap,
    "gogui-setup": gogui_setup,
    "gogui-setup_player": gogui_setup_player,
    "gogui-play_sequence": gogui_play_sequence,
    "set_position": set_position,
}
