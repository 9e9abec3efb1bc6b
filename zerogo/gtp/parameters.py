"""Settings that may be changed while the engine runs, under the names that KataGo gave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerogo.errors import InputError
from zerogo.gtp import parse
from zerogo.gtp.engine import Handler

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine

NO_LIMIT = 1e20  # KataGo's way of saying it
MOST_VISITS = 10**9
# Name: meaning, for `kata-list-params` and the refusal of another one.
PARAMETERS = ("allowResignation", "lagBuffer", "maxTime", "maxVisits", "resignThreshold")


def kata_list_params(engine: Engine, arguments: list[str]) -> str:
    return " ".join(PARAMETERS)


def kata_get_param(engine: Engine, arguments: list[str]) -> str:
    parse.only(arguments, "kata-get-param NAME", 1)
    options = engine.options
    values = {
        "allowResignation": str(options.resign).lower(),
        "lagBuffer": f"{engine.clock.lag:g}",
        "maxTime": f"{options.most_seconds or NO_LIMIT:g}",
        "maxVisits": str(options.most_simulations or options.simulations),
        "resignThreshold": f"{2 * options.resign_threshold - 1:g}",  # KataGo's is a value from -1 to 1
    }
    return values[_known(arguments[0])]


def kata_set_param(engine: Engine, arguments: list[str]) -> str:
    """Changes a setting: maxVisits and maxTime (seconds) of a move, the lag, whether and below which value from -1 to 1
    to resign.
    """
    parse.only(arguments, "kata-set-param NAME VALUE", 2)
    name, text, options = _known(arguments[0]), arguments[1], engine.options
    if name == "allowResignation":
        options.resign = parse.truth(text, name)
    elif name == "lagBuffer":
        engine.clock.lag = parse.real(text, name, 0, 3600)
    elif name == "maxTime":
        seconds = parse.real(text, name, 0.001, NO_LIMIT)
        options.most_seconds = None if seconds == NO_LIMIT else seconds
    elif name == "maxVisits":
        options.simulations = options.most_simulations = parse.integer(text, name, 1, MOST_VISITS)
    else:
        options.resign_threshold = (parse.real(text, name, -1, 1) + 1) / 2
    return ""


def _known(name: str) -> str:
    if name not in PARAMETERS:
        raise InputError(f"there is no parameter {name!r}; allowed are {', '.join(PARAMETERS)}")
    return name


COMMANDS: dict[str, Handler] = {
    "kata-list-params": kata_list_params,
    "kata-get-param": kata_get_param,
    "kata-set-param": kata_set_param,
}
