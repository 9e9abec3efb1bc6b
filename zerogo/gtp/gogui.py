"""What GoGui shows on its board: `gogui-analyze_commands`, and the zerogo-… commands that it names.

Each reply is in the format of the type that the list gives the command (GoGui's manual, chapter "Analyze Commands").
Commands that show the search run it first, as long as a move would take without a clock, unless it has run so already;
the game is never changed."""

from __future__ import annotations

import numpy as np

from zerogo import coords, scoring
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.gtp.clock import MAX_SECONDS
from zerogo.gtp.engine import COMMANDS, Command, Engine
from zerogo.gtp.protocol import colour, integer, real, truth, vertices
from zerogo.players.analyst import Analysis, Candidate

MIN_SHARE = 0.005  # of the policy or the visits that a point must have to be shown
MAX_VARIATIONS = 10  # in the list of them
MAX_SIMULATIONS = 10**9
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


@Command("gogui-analyze_commands")
def gogui_analyze_commands(engine: Engine) -> str:
    """Returns what this engine can answer: type, label in the menu, and the command, with GoGui's wildcards."""
    names = {line: line.split("/")[2].split()[0] for line in ANALYZE_COMMANDS}
    return "\n".join(line for line, name in names.items() if COMMANDS[name].is_offered(engine))


@Command("zerogo-ownership", "[COLOUR]", 0, 1, needs_search=True)
def ownership(engine: Engine, player: str = "") -> str:
    """Returns a dboard: how surely each point will be Black's (to 1) or White's (to -1)."""
    found, sign = _analysis(engine, player)
    return _board([[f"{sign * number:.3f}" for number in row] for row in found.ownership.tolist()])


@Command("zerogo-policy", "[COLOUR]", 0, 1, needs_search=True)
def policy(engine: Engine, player: str = "") -> str:
    """Returns pspairs: the network's first choice of moves in per cent."""
    prior = _analysis(engine, player)[0].prior
    return _pairs(engine, {action: f"{100 * share:.0f}" for action, share in enumerate(prior) if share >= MIN_SHARE})


@Command("zerogo-policy_colors", "[COLOUR]", 0, 1, needs_search=True)
def policy_colors(engine: Engine, player: str = "") -> str:
    """Returns a cboard: points the redder, from pale yellow on, the more the network likes a move there."""
    shares = _analysis(engine, player)[0].prior[:-1].reshape(engine.size, engine.size)
    strength = (shares / max(float(shares.max()), 1e-9))[..., None] ** 0.5
    colours = np.rint(np.array([255, 240, 200]) + strength * np.array([-25, -190, -170])).astype(np.uint8)
    names = [f"#{bytes(rgb).hex()}" for rgb in colours.reshape(-1, 3)]
    shown = np.where(shares >= MIN_SHARE, np.array(names).reshape(shares.shape), '""')
    return _board(shown.tolist())


@Command("zerogo-pass_alive", "", 0)
def pass_alive(engine: Engine) -> str:
    """Returns a bwboard: what is Black's and White's whatever the other side plays."""
    black, white = scoring.pass_alive(engine.game.tensor().stones, suicide=engine.game.rules.suicide)
    owners = black[0].int() + 2 * white[0].int()
    return _board([['"" b w'.split()[owner] for owner in row] for row in owners.tolist()])


@Command("zerogo-visits", "[COLOUR]", 0, 1, needs_search=True)
def visits(engine: Engine, player: str = "") -> str:
    """Returns pspairs: how often the search has looked at each move."""
    found, _ = _analysis(engine, player, search=True)
    return _pairs(engine, {move.action: _short(move.visits) for move in _worth_showing(found)})


@Command("zerogo-value", "[COLOUR]", 0, 1, needs_search=True)
def value(engine: Engine, player: str = "") -> str:
    """Returns gfx: winrates of moves in per cent, the best one marked, and Black's chances in the status line."""
    (found, sign), pass_action = _analysis(engine, player, search=True), engine.size**2
    shown = {candidate.action: f"{100 * candidate.winrate:.0f}" for candidate in _worth_showing(found)}
    labels, best = _pairs(engine, shown), found.best.action if found.best else pass_action
    chances = f"Black wins {50 + 50 * sign * found.value:.1f} %, leads by {sign * found.score:+.1f}"
    rows = [
        "",
        f"LABEL {labels}" if labels else "",
        f"CIRCLE {coords.to_gtp(best, engine.size)}" if best != pass_action else "",
        f"TEXT {chances}; {found.visits} visits",
    ]
    return "\n".join(rows)


@Command("zerogo-best_variation", "[COLOUR]", 0, 1, needs_search=True)
def best_variation(engine: Engine, player: str = "") -> str:
    """Returns a var: the line that the search expects."""
    best = _analysis(engine, player, search=True)[0].best
    return vertices(best.pv, engine.size) if best else ""


@Command("zerogo-variations", "[COLOUR]", 0, 1, needs_search=True)
def variations(engine: Engine, player: str = "") -> str:
    """Returns an hpstring: the best moves with winrate, score, visits and the expected line."""
    candidates = _analysis(engine, player, search=True)[0].candidates[:MAX_VARIATIONS]
    rows = [
        f"{100 * found.winrate:5.1f} % {found.score:+6.1f} {found.visits:8d}  {vertices(found.pv, engine.size)}"
        for found in candidates
    ]
    return "\n".join(["", "Winrate Score Visits Line:", *rows])


@Command("zerogo-param", "[NAME VALUE]", 0, 2, needs_search=True)
def param(engine: Engine, name: str = "", text: str = "") -> str | None:
    """Returns the parameters as GoGui's dialog wants them, or changes one."""
    options = engine.options
    shown = {
        "simulations": f"[string] simulations {options.simulations}",
        "most_seconds_a_move": f"[string] most_seconds_a_move {options.most_seconds or 0:g}",  # 0: only the clock's
        "resign": f"[bool] resign {options.resign:d}",
        "resign_below_percent": f"[string] resign_below_percent {100 * options.resign_threshold:g}",
    }
    if not name:
        return "\n".join(["", *shown.values()])
    if name not in shown or not text:
        raise InputError(f"write: zerogo-param NAME VALUE; names are {', '.join(shown)}")
    if name == "simulations":
        options.simulations = integer(text, name, 1, MAX_SIMULATIONS)
    elif name == "most_seconds_a_move":
        options.most_seconds = real(text, "seconds", 0, MAX_SECONDS) or None
    elif name == "resign":
        options.resign = truth(text, name)
    else:
        options.resign_threshold = real(text, name, 0, 100) / 100
    return None


def _analysis(engine: Engine, player: str, search: bool = False) -> tuple[Analysis, int]:
    """Returns the analysis of the position for a side, by default the one to move, and the sign of its view: 1 for
    Black's. search: whether to search first, for as many visits as a move gets without a clock."""
    session, simulations = engine.session, engine.options.simulations
    to_play = colour(player) if player else engine.game.to_play
    session.set_position(engine.game, to_play)
    if search:
        session.run(simulations + 1 - session.visits, engine.interrupted)
    return session.analysis(), 1 if to_play is Colour.BLACK else -1


def _worth_showing(found: Analysis) -> list[Candidate]:
    least = MIN_SHARE * sum(candidate.visits for candidate in found.candidates)
    return [candidate for candidate in found.candidates if candidate.visits >= least]


def _board(rows: list[list[str]]) -> str:
    """Returns the lines of a board; a reply that begins with a line end begins below the sign of success."""
    return "\n".join(["", *map(" ".join, rows)])


def _pairs(engine: Engine, texts: dict[int, str]) -> str:
    """Returns points with their texts, without the pass."""
    return " ".join(
        f"{coords.to_gtp(action, engine.size)} {text}" for action, text in texts.items() if action < engine.size**2
    )


def _short(number: int) -> str:
    """Returns a number in no more than four signs, as a label on a point may have."""
    millions, thousands = number // 1_000_000, number // 1000
    return f"{millions}M" if millions else f"{thousands}k" if thousands >= 10 else str(number)
