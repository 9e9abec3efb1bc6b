"""The end of a game: its score and which stones are dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerogo import coords
from zerogo.errors import InputError
from zerogo.gtp import parse
from zerogo.gtp.engine import Handler
from zerogo.players import move_choice
from zerogo.sgf import result_text

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine


def final_score(engine: Engine, arguments: list[str]) -> str:
    """Returns the result in points as the board stands, dead stones taken off: B+3.5, W+0.5, or 0 for a draw."""
    return result_text(move_choice.final_score_black(engine.game, engine.analyst))


def final_status_list(engine: Engine, arguments: list[str]) -> str:
    """Returns the stones that are dead, or alive, one string a line. What is in seki is alive: the engine doesn't tell
    these apart.
    """
    parse.only(arguments, "final_status_list alive | dead | seki", 1)
    status = arguments[0].lower()
    if status not in ("alive", "dead", "seki"):
        raise InputError("invalid status")
    if status == "seki":
        return ""
    dead, size = move_choice.dead_stones(engine.game, engine.analyst), engine.size
    strings = [
        sorted(row * size + column for row, column in string.stones) for string in engine.game.state.board.strings()
    ]
    meant = sorted(points for points in strings if (points[0] in dead) == (status == "dead"))
    return "\n".join(" ".join(coords.to_gtp(point, size) for point in points) for points in meant)


COMMANDS: dict[str, Handler] = {"final_score": final_score, "final_status_list": final_status_list}
