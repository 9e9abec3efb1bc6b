"""What GoGui shows on its board: `gogui-analyze_commands`, and the zerogo-… commands that it names.

Each reply is in the format of the type that the list gives the command (GoGui's manual, chapter "Analyze Commands").
What tells of the search thinks first, as long as a move would take without a clock, unless it has done so already; the
game is never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zerogo import coords, scoring
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.gtp import parse
from zerogo.gtp.analyze import require_thinker
from zerogo.gtp.engine import Handler

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine, Options
    from zerogo.players.analysis import Analysis, Candidate

LEAST_SHARE = 0.005  # of the policy or the visits that a point must have to be shown
LINES = 10  # variations in the list of them
MOST_SIMULATIONS = 10**9
MOST_SECONDS = 10.0**7


def gogui_analyze_commands(engine: Engine, arguments: list[str]) -> str:
    """Returns the commands that this engine can answer: type, label in the menu, and the command, with GoGui's
    wildcards for colours.
    """
    missing = unavailable(engine)
    return "\n".join(line for line in ANALYZE_COMMANDS if line.rsplit("/", 1)[1].split()[0] not in missing)


def unavailable(engine: Engine) -> set[str]:
    """Returns the commands that this engine can't answer."""
    return set() if engine.session is not None else set(THINKING)


# What the network alone says


def ownership(engine: Engine, arguments: list[str]) -> str:
    """Returns a dboard: how surely each point will be Black's (to 1) or White's (to -1)."""
    player = _player(engine, arguments, "zerogo-ownership [COLOUR]")
    sign = 1 if player is Colour.BLACK else -1
    return _board([[f"{sign * number:.3f}" for number in row] for row in _known(engine, player).ownership.tolist()])


def policy(engine: Engine, arguments: list[str]) -> str:
    """Returns pspairs: the network's first choice of moves in per cent."""
    found = _known(engine, _player(engine, arguments, "zerogo-policy [COLOUR]"))
    return _pairs(engine, {action: _percent(share) for action, share in enumerate(found.prior) if share >= LEAST_SHARE})


def policy_colors(engine: Engine, arguments: list[str]) -> str:
    """Returns a cboard: points the redder the more the network likes a move there."""
    found, size = _known(engine, _player(engine, arguments, "zerogo-policy_colors [COLOUR]")), engine.size
    shares = found.prior[: size * size]
    most = max(float(shares.max()), 1e-9)
    names = [_colour((share / most) ** 0.5) if share >= LEAST_SHARE else '""' for share in shares.tolist()]
    return _board([names[row * size : row * size + size] for row in range(size)])


def pass_alive(engine: Engine, arguments: list[str]) -> str:
    """Returns a bwboard: what is Black's and White's whatever the other side plays."""
    parse.only(arguments, "zerogo-pass_alive", 0)
    state = engine.game.tensor()
    black, white = (plane[0].tolist() for plane in scoring.pass_alive(state.stones, suicide=engine.game.rules.suicide))
    size = engine.size
    return _board([["b" if black[r][c] else "w" if white[r][c] else '""' for c in range(size)] for r in range(size)])


# What the search says


def visits(engine: Engine, arguments: list[str]) -> str:
    """Returns pspairs: how often the search has looked at each move."""
    found = _searched(engine, _player(engine, arguments, "zerogo-visits [COLOUR]"))
    return _pairs(engine, {candidate.action: _short(candidate.visits) for candidate in _worth_showing(found)})


def value(engine: Engine, arguments: list[str]) -> str:
    """Returns gfx: the winrate of each move that was looked at in per cent, the best one marked, and Black's chances in
    the status line.
    """
    player = _player(engine, arguments, "zerogo-value [COLOUR]")
    found, size = _searched(engine, player), engine.size
    sign = 1 if player is Colour.BLACK else -1
    shown = [candidate for candidate in _worth_showing(found) if candidate.action < size * size]
    labels = " ".join(f"{coords.to_gtp(candidate.action, size)} {_percent(candidate.winrate)}" for candidate in shown)
    best = [f"CIRCLE {coords.to_gtp(shown[0].action, size)}"] if shown and found.best is shown[0] else []
    text = f"TEXT Black wins {50 + 50 * sign * found.value:.1f} %, leads by {sign * found.score:+.1f}; {found.visits} visits"
    return "\n".join(["", *([f"LABEL {labels}"] if labels else []), *best, text])


def best_variation(engine: Engine, arguments: list[str]) -> str:
    """Returns a var: the line that the search expects."""
    found = _searched(engine, _player(engine, arguments, "zerogo-best_variation [COLOUR]"))
    return _vertices(engine, found.best) if found.best else ""


def variations(engine: Engine, arguments: list[str]) -> str:
    """Returns an hpstring: the best moves with winrate, score, visits and the expected line."""
    found = _searched(engine, _player(engine, arguments, "zerogo-variations [COLOUR]"))
    rows = [
        f"{100 * candidate.winrate:5.1f} % {candidate.score:+6.1f} {candidate.visits:8d}  {_vertices(engine, candidate)}"
        for candidate in found.candidates[:LINES]
    ]
    return "\n".join(["", "Winrate Score Visits Line:", *rows])


# Parameters


def param(engine: Engine, arguments: list[str]) -> str:
    """Returns the parameters as GoGui's dialog wants them, or changes one: `zerogo-param NAME VALUE`."""
    if not arguments:
        options = engine.options
        shown = {name: read(options) for name, (read, _) in PARAMETERS.items()}
        return "\n".join(
            ["", *(f"[{'bool' if name == 'resign' else 'string'}] {name} {text}" for name, text in shown.items())]
        )
    parse.only(arguments, "zerogo-param [NAME VALUE]", 0, 2)
    if arguments[0] not in PARAMETERS or len(arguments) < 2:
        raise InputError(f"write: zerogo-param NAME VALUE; names are {', '.join(PARAMETERS)}")
    _, change = PARAMETERS[arguments[0]]
    change(engine.options, arguments[1])
    return ""


def _set_simulations(options: Options, text: str) -> None:
    options.simulations = parse.integer(text, "simulations", 1, MOST_SIMULATIONS)


def _set_seconds(options: Options, text: str) -> None:
    seconds = parse.real(text, "seconds", 0, MOST_SECONDS)
    options.most_seconds = seconds or None


def _set_resign(options: Options, text: str) -> None:
    options.resign = parse.truth(text, "resign")


def _set_resign_below(options: Options, text: str) -> None:
    options.resign_threshold = parse.real(text, "resign_below_percent", 0, 100) / 100


PARAMETERS = {
    "simulations": (lambda options: str(options.simulations), _set_simulations),
    "most_seconds_a_move": (
        lambda options: f"{options.most_seconds or 0:g}",
        _set_seconds,
    ),  # 0 is no limit but the clock's
    "resign": (lambda options: str(int(options.resign)), _set_resign),
    "resign_below_percent": (lambda options: f"{100 * options.resign_threshold:g}", _set_resign_below),
}


# Small steps


def _player(engine: Engine, arguments: list[str], usage: str) -> Colour:
    parse.only(arguments, usage, 0, 1)
    return parse.colour(arguments[0]) if arguments else engine.game.to_play


def _known(engine: Engine, player: Colour) -> Analysis:
    """Returns what is thought of the position without searching on."""
    session = require_thinker(engine)
    session.face(engine.game, player)
    return session.analysis()


def _searched(engine: Engine, player: Colour) -> Analysis:
    """Returns what is thought of the position after as many visits as a move gets without a clock."""
    session = require_thinker(engine)
    session.face(engine.game, player)
    while session.visits <= engine.options.simulations and not engine.interrupted():
        if not session.step(engine.options.simulations + 1 - session.visits):
            break
    return session.analysis()


def _worth_showing(found: Analysis) -> list[Candidate]:
    least = LEAST_SHARE * sum(candidate.visits for candidate in found.candidates)
    return [candidate for candidate in found.candidates if candidate.visits >= least]


def _board(rows: list[list[str]]) -> str:
    """Returns the lines of a board; a reply that begins with a line end begins below the sign of success."""
    return "\n".join(["", *(" ".join(row) for row in rows)])


def _pairs(engine: Engine, texts: dict[int, str]) -> str:
    size = engine.size
    return " ".join(f"{coords.to_gtp(action, size)} {text}" for action, text in texts.items() if action < size * size)


def _vertices(engine: Engine, candidate: Candidate) -> str:
    return " ".join(coords.to_gtp(action, engine.size) for action in candidate.pv)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _short(number: int) -> str:
    """Returns a number in no more than four signs, as a label on a point may have."""
    if number < 10_000:
        return str(number)
    return f"{number // 1000}k" if number < 1_000_000 else f"{number // 1_000_000}M"


def _colour(strength: float) -> str:
    """Returns #rrggbb from pale yellow (0) to red (1)."""
    red, green, blue = np.rint(np.array([255, 240, 200]) + strength * np.array([-25, -190, -170])).astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"


THINKING: dict[str, Handler] = {
    "zerogo-ownership": ownership,
    "zerogo-policy": policy,
    "zerogo-policy_colors": policy_colors,
    "zerogo-visits": visits,
    "zerogo-value": value,
    "zerogo-best_variation": best_variation,
    "zerogo-variations": variations,
    "zerogo-param": param,
}
COMMANDS: dict[str, Handler] = {
    "gogui-analyze_commands": gogui_analyze_commands,
    "zerogo-pass_alive": pass_alive,
    **THINKING,
}
ANALYZE_COMMANDS = (
    "dboard/Ownership/zerogo-ownership %m",
    "pspairs/Policy/zerogo-policy %m",
    "cboard/Policy, coloured/zerogo-policy_colors %m",
    "pspairs/Visits/zerogo-visits %m",
    "gfx/Value/zerogo-value %m",
    "varc/Best variation/zerogo-best_variation %c",
    "hpstring/Search variations/zerogo-variations %c",
    "bwboard/Pass-alive/zerogo-pass_alive",
    "plist/Dead stones/final_status_list dead",
    "string/Final score/final_score",
    "none/Forget the search tree/clear_cache",
    "param/Parameters/zerogo-param",
)
