"""All commands by their names, and the three that ask about these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerogo.gtp import (
    analyze,
    basic,
    gogui,
    parameters,
    parse,
    raw_nn,
    ruling,
    score,
    servers,
    setup,
    sgf_commands,
    timing,
)
from zerogo.gtp.engine import Handler, StreamHandler

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine

QUIT = "quit"


def known_command(engine: Engine, arguments: list[str]) -> str:
    """Returns true or false."""
    parse.only(arguments, "known_command NAME", 1)
    return str(arguments[0] in offered(engine)).lower()


def list_commands(engine: Engine, arguments: list[str]) -> str:
    """Returns the names, one a line."""
    return "\n".join(sorted(offered(engine)))


def offered(engine: Engine) -> set[str]:
    """Returns the names of the commands that this engine can answer: the random player thinks nothing."""
    return {*COMMANDS, *STREAMS}.difference(*(module.unavailable(engine) for module in (analyze, gogui, raw_nn)))


def end(engine: Engine, arguments: list[str]) -> str:
    """Answers; the session ends after it."""
    return ""


MODULES = (basic, setup, timing, score, ruling, parameters, servers, sgf_commands, raw_nn, gogui, analyze)
STREAMS: dict[str, StreamHandler] = {}
COMMANDS: dict[str, Handler] = {"known_command": known_command, "list_commands": list_commands, QUIT: end}
for module in MODULES:
    COMMANDS |= module.COMMANDS
    STREAMS |= getattr(module, "STREAMS", {})
