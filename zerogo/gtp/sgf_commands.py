"""Games from files and into files."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from zerogo import sgf
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.gtp import genmove, parse
from zerogo.gtp.engine import NAME, Handler
from zerogo.gtp.score import final_score
from zerogo.players.live import LiveGame

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine


def loadsgf(engine: Engine, arguments: list[str]) -> str:
    """Goes on from a file's main line, with its komi and rules: from its end, or from where the given move is the next
    one.

    A file with an illegal move before that place is refused with the move and the reason; the game on the board stays.
    """
    if not arguments:
        raise InputError("syntax error; write: loadsgf FILE [MOVE]")
    words, before = list(arguments), None
    if len(words) > 1 and words[-1].isdigit():
        before = parse.integer(words.pop(), "move", 1, 10**6) - 1
    path = " ".join(words)
    record = sgf.read(path)
    engine.require_size(record.rules.size)
    wanted = len(record.moves) if before is None else min(before, len(record.moves))
    _, problem = sgf.replay(record, wanted)
    if problem is not None:
        raise InputError(f"{path}: {problem}")
    engine.expect_board(record.rules.size)
    engine.game = LiveGame.of_record(sgf.since_edit(record, wanted))
    engine.rules_name = "japanese" if record.rules.scoring == "territory" else ""
    engine.begin_game()
    engine.warn("\n".join(record.notes))
    return ""


def printsgf(engine: Engine, arguments: list[str]) -> str:
    """Returns the game as SGF, or writes it into the file that is named."""
    record = _record(engine)
    if not arguments:
        return sgf.to_text(record)
    path = " ".join(arguments)
    try:
        sgf.write(path, record)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    return ""


def _record(engine: Engine) -> sgf.GameRecord:
    """Returns the game with the names of the sides, as far as they are known, and the result, if it is over."""
    own, other = f"{NAME} {engine.name}", engine.opponent
    names = {Colour.BLACK: (own, other), Colour.WHITE: (other, own)}.get(engine.own_colour, ("", ""))
    result = engine.result or (final_score(engine, []) if genmove.is_over(engine.game) else sgf.UNKNOWN_RESULT)
    return dataclasses.replace(engine.game.record(result=result), black=names[0] or "Black", white=names[1] or "White")


COMMANDS: dict[str, Handler] = {"loadsgf": loadsgf, "printsgf": printsgf}
