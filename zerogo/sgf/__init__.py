"""Game records as SGF: what any Go program opens, and whatever Go programs have written.

    write("games/1.sgf", GameRecord(Rules(9), moves=[40, 41], result="B+3"))
    record = read("games/1.sgf")                 # the main line; variations(path): all lines
    states, problem = replay(record)             # the plain game after 0, 1, 2, ... moves, up to an illegal one
    batch = positions([record], [17])            # board.State after 17 moves, with history

Conventions of what is written: a pass is the empty value (`tt` is a point on boards larger than 19), KM is always
there, since programs disagree on what a missing one means, and RU is a word that all of them know; where that word
alone would be read as other rules, our own property ZGRU holds all of them. What a reader assumes about odd files is
said in `sgf.files`."""

from zerogo.sgf.files import read, read_text, to_text, variations, variations_text, write
from zerogo.sgf.record import UNKNOWN_RESULT, Edit, GameRecord, positions, replay, result_text, rules_text, since_edit

__all__ = [
    "UNKNOWN_RESULT", "Edit", "GameRecord", "positions", "read", "read_text", "replay", "result_text", "rules_text",
    "since_edit", "to_text", "variations", "variations_text", "write",
]  # fmt: skip
