"""Game records as SGF (FF[4]): what any Go program opens. Writing over sgfmill; a `GameRecord` is also what reading will fill.

    write("games/1.sgf", GameRecord(Rules(9), moves=[40, 41], result="B+3"))

Conventions: a pass is the empty value (`tt` is a point on boards larger than 19), KM is always there, since programs disagree on what a
missing one means, and RU is a word that all of them know.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path

from sgfmill.sgf import Sgf_game, Tree_node

from zerogo import __version__, coords
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.runtime import write_atomically

COLOURS = ("b", "w")
UNKNOWN_RESULT = "?"


@dataclass
class GameRecord:
    """One game as a file holds it.

    rules: size, komi and the rest. moves: actions in turn, point or size * size for a pass; Black's first unless `first` is "w".
    handicap: points of Black's stones before the first move, after which White usually moves first. result: SGF's RE, see `result_text`.
    comments: a text or None for each move, or fewer than the moves. event, round: of a match. date: YYYY-MM-DD, empty for today in UTC.
    comment: a text on the whole game. properties: more root properties, such as {"GN": "final"}; they win over all others.
    """

    rules: Rules
    moves: list[int]
    result: str = UNKNOWN_RESULT
    black: str = "Black"
    white: str = "White"
    comments: list[str | None] = field(default_factory=list)
    event: str = ""
    round: str = ""
    date: str = ""
    comment: str = ""
    first: str = "b"
    handicap: list[int] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)


def result_text(score_black: float, by_resignation: bool = False) -> str:
    """Returns SGF's RE: "B+3.5", "W+2", "0" for a draw, "B+R" where White resigned.

    score_black: points, komi included; only its sign counts where someone resigned.
    """
    if score_black == 0:
        return "0"
    winner = "B" if score_black > 0 else "W"
    return f"{winner}+R" if by_resignation else f"{winner}+{abs(score_black):g}"


def rules_text(rules: Rules) -> str:
    """Returns the RU that programs understand: "Japanese" for territory, for area "Tromp-Taylor" with suicide and "Chinese" without."""
    if rules.scoring == "territory":
        return "Japanese"
    return "Tromp-Taylor" if rules.suicide else "Chinese"


def to_text(record: GameRecord) -> str:
    """Returns the game as SGF. Raises InputError for a move, handicap stone or first colour that the board doesn't have."""
    if record.first not in COLOURS:
        raise InputError(f"SGF: the first colour is {record.first!r}; allowed are b and w")
    if len(record.comments) > len(record.moves):
        raise InputError(f"SGF: {len(record.comments)} comments for {len(record.moves)} moves; at most one each is allowed")
    game = Sgf_game(record.rules.size, encoding="UTF-8")
    _set_root(game.get_root(), record)
    first = COLOURS.index(record.first)
    for number, action in enumerate(record.moves):
        node = game.extend_main_sequence()
        colour, place = COLOURS[(first + number) % 2], _place(action, record.rules.size)
        if place is None:
            node.set_raw(colour.upper(), coords.SGF_PASS.encode())  # sgfmill would write the old tt
        else:
            node.set_move(colour, place)
        comment = record.comments[number] if number < len(record.comments) else None
        if comment:
            node.set("C", comment)
    return game.serialise().decode("UTF-8")


def write(path: str | Path, record: GameRecord) -> None:
    """Writes the game as a file, all of it or nothing."""
    text = to_text(record)
    write_atomically(path, lambda file: file.write(text.encode("UTF-8")))


def _set_root(root: Tree_node, record: GameRecord) -> None:
    """Sets the properties of the whole game; FF, GM, CA and SZ are there already."""
    date = record.date or datetime.datetime.now(datetime.UTC).date().isoformat()
    texts = {
        "AP": ("zerogo", __version__),
        "RU": rules_text(record.rules),
        "PB": record.black,
        "PW": record.white,
        "RE": record.result or UNKNOWN_RESULT,
        "DT": date,
        "EV": record.event,
        "RO": record.round,
        "C": record.comment,
    }
    root.set("KM", record.rules.komi)
    if record.handicap:
        if record.rules.size**2 in record.handicap:
            raise InputError("SGF: a pass among the handicap stones; they must be points of the board")
        if len(record.handicap) > 1:  # HA[1] is not allowed: one stone is a game that White begins
            root.set("HA", len(record.handicap))
        root.set("AB", [_place(action, record.rules.size) for action in record.handicap])
    if record.handicap or record.first != "b":
        root.set("PL", record.first)
    for name, text in (texts | record.properties).items():
        if text:
            root.set(name, text)


def _place(action: int, size: int) -> tuple[int, int] | None:
    """Returns sgfmill's (row from the bottom, column) of a point, None for a pass."""
    if action == size * size:
        return None
    if not 0 <= action < size * size:
        allowed = f"allowed on {size}x{size} are 0 to {size * size - 1}, and {size * size} for a pass"
        raise InputError(f"SGF: move {action} is off the board; {allowed}")
    row, column = coords.row_col(action, size)
    return size - 1 - row, column
