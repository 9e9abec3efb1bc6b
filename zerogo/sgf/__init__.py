"""Game records as SGF, written for any Go program and read from any.

    write("games/1.sgf", GameRecord(Rules(9), moves=[40, 41], result="B+3"))
    record = read("games/1.sgf")                 # the main line; variations(path): all lines
    states, problem = replay(record)             # the plain game after 0, 1, 2, ... moves, up to an illegal one
    batch = positions([record], [17])            # board.State after 17 moves, with history

Conventions of written files: a pass is the empty value (`tt` is a point on boards larger than 19); KM is always there,
since programs disagree on the meaning of a missing one; RU is a word that all programs know, and where a program would
read it as other rules, our property ZGRU has the rules in full. `sgf.files` lists the assumptions about odd files."""

from zerogo.sgf.files import has_more_games, read, read_text, to_text, variations, variations_text, write
from zerogo.sgf.record import UNKNOWN_RESULT, Edit, GameRecord, Remark, positions, replay, result_text, since_edit

__all__ = [
    "UNKNOWN_RESULT", "Edit", "GameRecord", "Remark", "has_more_games", "positions", "read", "read_text", "replay",
    "result_text", "since_edit", "to_text", "variations", "variations_text", "write",
]  # fmt: skip
