"""The commands that every controller sends: who is there, board, komi, moves, and questions about the position."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from zerogo import __version__, coords
from zerogo.errors import InputError
from zerogo.gtp import genmove, parse
from zerogo.gtp.engine import NAME, Handler
from zerogo.picture import board_text

if TYPE_CHECKING:
    from zerogo.game import Colour
    from zerogo.gtp.engine import Engine

# What lz-analyze speaks is Leela Zero's protocol since 0.16. Lizzie reads the number before the first space as Leela
# Zero's and warns of any second part below 15, so that one comes first and zerogo's own stands behind it.
VERSION = f"0.17 ({NAME} {__version__})"
MOST_KOMI = 1000.0
COLOUR_NAMES = {0: "empty", 1: "black", 2: "white"}


def protocol_version(engine: Engine, arguments: list[str]) -> str:
    return "2"


def name(engine: Engine, arguments: list[str]) -> str:
    return NAME


def version(engine: Engine, arguments: list[str]) -> str:
    return VERSION


def boardsize(engine: Engine, arguments: list[str]) -> str:
    """Takes a size, or the same one twice; the board is empty after it, also where the size was the same."""
    parse.only(arguments, "boardsize N", 1, 2)
    if len(set(arguments)) > 1:
        raise InputError("unacceptable size")
    size = parse.integer(arguments[0], "boardsize", -(10**6), 10**6)
    engine.require_size(size)
    engine.expect_board(size)
    engine.game.clear(size)
    engine.begin_game()
    return ""


def clear_board(engine: Engine, arguments: list[str]) -> str:
    engine.game.clear()
    engine.begin_game()
    return ""


def komi(engine: Engine, arguments: list[str]) -> str:
    """Sets komi at any time, also in the middle of a game; `boardsize` and `clear_board` leave it."""
    parse.only(arguments, "komi POINTS", 1)
    engine.game.change_rules(komi=parse.real(arguments[0], "komi", -MOST_KOMI, MOST_KOMI))
    return ""


def get_komi(engine: Engine, arguments: list[str]) -> str:
    return f"{engine.game.rules.komi:g}"


def query_boardsize(engine: Engine, arguments: list[str]) -> str:
    return str(engine.size)


def play(engine: Engine, arguments: list[str]) -> str:
    """Plays a move for either side. Why one is illegal stands on stderr: the reply's two words are what programs
    know.
    """
    if len(arguments) != 2:
        raise InputError(parse.BAD_PLACE)
    player, action = parse.colour(arguments[0]), parse.vertex(arguments[1], engine.size)
    place(engine, player, action)
    return ""


def place(engine: Engine, player: Colour, action: int) -> None:
    """Plays a move. Raises InputError with "illegal move" alone, and warns of the reason."""
    reason = engine.game.why_illegal(player, action)
    if reason is not None:
        engine.warn(f"{player.name.lower()} {coords.to_gtp(action, engine.size)} is illegal: {reason}")
        raise InputError("illegal move")
    engine.game.play(player, action)


def generate(engine: Engine, arguments: list[str]) -> str:
    player = _one_colour(arguments, "genmove COLOUR")
    return genmove.commit(engine, player, genmove.choose(engine, player))


def regression_generate(engine: Engine, arguments: list[str]) -> str:
    """Says what it would play, without a clock and without playing it; never resigns."""
    action = genmove.choose(engine, _one_colour(arguments, "reg_genmove COLOUR"), timed=False)
    return coords.to_gtp(action, engine.size)


def generate_cleanup(engine: Engine, arguments: list[str]) -> str:
    """Like genmove, but passes only when no dead stone of the opponent is left, also where both sides have passed."""
    player = _one_colour(arguments, "kgs-genmove_cleanup COLOUR")
    return genmove.commit(engine, player, genmove.choose(engine, player, cleanup=True))


def undo(engine: Engine, arguments: list[str]) -> str:
    engine.game.undo()
    return ""


def undo_many(engine: Engine, arguments: list[str]) -> str:
    parse.only(arguments, "gg-undo [NUMBER]", 0, 1)
    engine.game.undo(parse.integer(arguments[0], "number of moves", 0, 10**6) if arguments else 1)
    return ""


def showboard(engine: Engine, arguments: list[str]) -> str:
    """Returns the board for people, and below it whose turn it is, what was captured, and the rules."""
    game = engine.game
    black, white = game.state.captures.values()
    rules = game.rules
    named = f"{engine.rules_name}: " if engine.rules_name else ""
    suicide = "suicide allowed" if rules.suicide else "no suicide"
    superko = "simple ko" if rules.superko == "simple" else f"{rules.superko} superko"
    below = [
        f"move {len(game.moves) + 1}, {game.to_play.name.lower()} to play; black has captured {black}, white {white}",
        f"komi {rules.komi:g}; {named}{rules.scoring} scoring, {superko}, {suicide}",
        *([deviation] if (deviation := engine.deviation()) else []),
    ]
    return "\n".join(["", board_text(torch.tensor(game.state.stones()), game.last_action), *below])


def is_legal(engine: Engine, arguments: list[str]) -> str:
    """Returns 1 for a legal move, 0 for another one."""
    parse.only(arguments, "is_legal COLOUR VERTEX", 2)
    player, action = parse.colour(arguments[0]), parse.vertex(arguments[1], engine.size)
    return str(int(engine.game.why_illegal(player, action) is None))


def all_legal(engine: Engine, arguments: list[str]) -> str:
    player, size = _one_colour(arguments, "all_legal COLOUR"), engine.size
    return " ".join(
        coords.to_gtp(point, size) for point in range(size * size) if engine.game.why_illegal(player, point) is None
    )


def captures(engine: Engine, arguments: list[str]) -> str:
    """Returns how many stones a side has taken."""
    return str(engine.game.state.captures[_one_colour(arguments, "captures COLOUR")])


def list_stones(engine: Engine, arguments: list[str]) -> str:
    colour, size = _one_colour(arguments, "list_stones COLOUR").value, engine.size
    return " ".join(
        coords.to_gtp(point, size) for point, stone in enumerate(sum(engine.game.state.stones(), [])) if stone == colour
    )


def color(engine: Engine, arguments: list[str]) -> str:
    """Returns black, white or empty."""
    parse.only(arguments, "color VERTEX", 1)
    row, column = coords.row_col(parse.point(arguments[0], engine.size), engine.size)
    return COLOUR_NAMES[engine.game.state.stones()[row][column]]


def last_move(engine: Engine, arguments: list[str]) -> str:
    if not engine.game.moves:
        raise InputError("no previous move known")
    return _move(engine, *engine.game.moves[-1])


def move_history(engine: Engine, arguments: list[str]) -> str:
    """Returns the moves, the last one first, as GNU Go does."""
    return "\n".join(_move(engine, *move) for move in reversed(engine.game.moves))


def clear_cache(engine: Engine, arguments: list[str]) -> str:
    """Forgets what was thought so far."""
    if engine.session is not None:
        engine.session.clear()
    return ""


def cputime(engine: Engine, arguments: list[str]) -> str:
    """Returns the seconds of processor time that the engine has used."""
    return f"{time.process_time():.2f}"


def _one_colour(arguments: list[str], usage: str) -> Colour:
    parse.only(arguments, usage, 1)
    return parse.colour(arguments[0])


def _move(engine: Engine, player: Colour, action: int) -> str:
    return f"{player.name.lower()} {coords.to_gtp(action, engine.size)}"


COMMANDS: dict[str, Handler] = {
    "protocol_version": protocol_version,
    "name": name,
    "version": version,
    "boardsize": boardsize,
    "query_boardsize": query_boardsize,
    "clear_board": clear_board,
    "komi": komi,
    "get_komi": get_komi,
    "play": play,
    "genmove": generate,
    "reg_genmove": regression_generate,
    "kgs-genmove_cleanup": generate_cleanup,
    "undo": undo,
    "gg-undo": undo_many,
    "showboard": showboard,
    "is_legal": is_legal,
    "all_legal": all_legal,
    "captures": captures,
    "list_stones": list_stones,
    "color": color,
    "last_move": last_move,
    "move_history": move_history,
    "clear_cache": clear_cache,
    "cputime": cputime,
}
