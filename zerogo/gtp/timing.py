"""The commands that set the clock and tell what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerogo.gtp import clock, parse
from zerogo.gtp.engine import Handler

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine


def time_settings(engine: Engine, arguments: list[str]) -> str:
    """Sets both clocks: main time, then so many moves in each period, in seconds; `0 1 0` is no limit."""
    parse.only(arguments, "time_settings MAIN PERIOD MOVES", 3)
    main, period = (
        parse.real(text, name, 0, clock.MOST) for text, name in zip(arguments, ("main time", "period"), strict=False)
    )
    engine.clock.set_gtp(main, period, parse.integer(arguments[2], "number of moves", 0, 10**6))
    return ""


def kgs_time_settings(engine: Engine, arguments: list[str]) -> str:
    """Sets both clocks in KGS's words, which know Japanese byo-yomi."""
    engine.clock.set(clock.kgs_settings(arguments))
    return ""


def time_left(engine: Engine, arguments: list[str]) -> str:
    """Takes what the controller's clock shows: seconds, and moves (or Japanese periods) left in the period, 0 in main
    time.
    """
    parse.only(arguments, "time_left COLOUR SECONDS MOVES", 3)
    player = parse.colour(arguments[0])
    seconds = parse.real(arguments[1], "time", -clock.MOST, clock.MOST)
    engine.clock.tell(player, seconds, parse.integer(arguments[2], "number of moves", 0, 10**6))
    return ""


COMMANDS: dict[str, Handler] = {
    "time_settings": time_settings,
    "kgs-time_settings": kgs_time_settings,
    "time_left": time_left,
}
