"""What servers and graphical programs tell beside the game: opponents, chat, ends of games, window titles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.gtp.engine import NAME, Handler

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine


def opponent_name(engine: Engine, arguments: list[str]) -> str:
    """Takes the name that stands in the records of the game."""
    engine.opponent = " ".join(arguments)
    return ""


def taken_note_of(engine: Engine, arguments: list[str]) -> str:
    """Takes a message that changes nothing: the opponent's rating, that a game is over, that GoGui may write `#
    interrupt`.
    """
    return ""


def gogui_title(engine: Engine, arguments: list[str]) -> str:
    """Returns a title for a window."""
    rules = f", {engine.rules_name} rules" if engine.rules_name else ""
    return f"{NAME} {engine.name}, {engine.size}x{engine.size}, komi {engine.game.rules.komi:g}{rules}"


def chat(engine: Engine, arguments: list[str]) -> str:
    """Returns an answer to somebody on KGS: who this is, and what it thinks of the game if it has thought."""
    if len(arguments) < 2 or arguments[0] not in ("game", "private"):
        raise InputError("syntax error; write: kgs-chat game | private NAME TEXT")
    return f"I am {NAME} {engine.name}, a program that learned from its own games.{_preview(engine)}"


def _preview(engine: Engine) -> str:
    if engine.preview is None:
        return ""
    player, winrate = engine.preview
    black = winrate if player is Colour.BLACK else 1 - winrate
    return f" Before my last move I gave Black {100 * black:.0f} % and White {100 * (1 - black):.0f} %."


COMMANDS: dict[str, Handler] = {
    "kgs-game_over": taken_note_of,
    "kgs-chat": chat,
    "cgos-opponent_name": opponent_name,
    "cgos-opponent_rating": taken_note_of,
    "cgos-gameover": taken_note_of,
    "gogui-interrupt": taken_note_of,
    "gogui-title": gogui_title,
}
