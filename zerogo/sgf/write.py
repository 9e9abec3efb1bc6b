"""A game as SGF (FF[4]) that any Go program opens, with a graph of the winrate in those that draw one."""

import datetime
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path

from sgfmill import sgf_grammar
from sgfmill.sgf import Sgf_game, Tree_node

from zerogo import __version__, coords, rulesets
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.runtime import write_atomically
from zerogo.sgf.record import COLOURS, UNKNOWN_RESULT, GameRecord, rules_text

RULES = "ZGRU"  # our own property: all of the rules as JSON, where RU's word alone would be read as others
# What `properties` may not contradict.
STRUCTURE = ("FF", "GM", "CA", "SZ", "KM", "B", "W", "AB", "AW", "AE", "PL", RULES)


def to_text(record: GameRecord) -> str:
    """Returns the game as SGF. Raises InputError for a move, stone, colour or property that can't be written."""
    _check(record)
    size = record.rules.size
    game = Sgf_game(size, encoding="UTF-8")
    node = game.get_root()
    _set_root(node, record)
    edits = {edit.before: edit for edit in record.edits}
    remarks = zip_longest(record.comments, record.winrates_black, record.scores_black, record.visits)
    for number, (colour, action) in enumerate(zip(record.turns(), record.moves, strict=True), start=1):
        node = node.new_child()
        node.set_raw(colour.upper(), _place(action, size))  # sgfmill's own pass would be the old tt
        _set_remark(node, *next(remarks, (None,) * 4))
        if number in edits:
            node = node.new_child()
            _set_stones(node, edits[number].stones, size)
            if edits[number].first:
                _set_text(node, "PL", edits[number].first.upper())
    return game.serialise().decode("UTF-8")


def write(path: str | Path, record: GameRecord) -> None:
    """Writes the game as a file, all of it or nothing. Raises InputError where the file can't be written."""
    text = to_text(record)
    try:
        write_atomically(path, lambda file: file.write(text.encode("UTF-8")))
    except OSError as error:
        raise InputError(f"cannot write the game record {path}: {error.strerror or error}") from None


def search_text(winrate_black: float, score_black: float | None, visits: int | None) -> str:
    """Returns KataGo's comment on a move as White sees it: win, loss, no result (0 to 1), lead in points, visits."""
    score = 0.0 if score_black is None else -score_black + 0.0
    text = f"{1 - winrate_black:.2f} {winrate_black:.2f} 0.00 {score:.1f}"
    return text if visits is None else f"{text} v={visits}"


def _check(record: GameRecord) -> None:
    """Raises InputError for what no file can say."""
    last = len(record.moves)
    if record.first not in COLOURS:
        raise InputError(f"SGF: the first colour is {record.first!r}; allowed are b and w")
    colours = record.turns()
    if len(colours) != last or not set(colours) <= set(COLOURS):
        raise InputError(f"SGF: {len(colours)} colours for {last} moves; one each is needed, b or w")
    for name in ("comments", "winrates_black", "scores_black", "visits"):
        number = len(getattr(record, name))
        if number > last:
            raise InputError(f"SGF: {number} {name} for {last} moves; at most one each is allowed")
    wrong = [winrate for winrate in record.winrates_black if winrate is not None and not 0 <= winrate <= 1]
    if wrong:
        raise InputError(f"SGF: a winrate of Black is {wrong[0]}; allowed are 0 to 1, and None where there is none")
    places = [edit.before for edit in record.edits]
    if places != sorted(set(places)) or not all(0 < place <= last for place in places):
        needed = f"each needs a place of its own, in order, after move 1 to {last}"
        raise InputError(f"SGF: edits before moves {places}; {needed}")
    for name in record.properties:
        if name in STRUCTURE or not re.fullmatch("[A-Z]{1,64}", name):
            allowed = f"allowed are capitals, and none of {', '.join(STRUCTURE)}"
            raise InputError(f"SGF: {name!r} among the root properties; {allowed}")
    if record.setup is not None and record.handicap:
        raise InputError("SGF: both handicap stones and a setup; the setup holds all stones")
    if record.rules.size**2 in record.handicap:
        raise InputError("SGF: a pass among the handicap stones; they must be points of the board")


def _set_root(root: Tree_node, record: GameRecord) -> None:
    """Sets the properties of the whole game; FF, GM, CA and SZ are there already."""
    size = record.rules.size
    texts = {
        "AP": f"zerogo:{__version__}",
        "RU": rules_text(record.rules),
        "PB": record.black,
        "PW": record.white,
        "RE": record.result or UNKNOWN_RESULT,
        "DT": datetime.datetime.now(datetime.UTC).date().isoformat() if record.date == "" else record.date,
        "EV": record.event,
        "RO": record.round,
        "C": record.comment,
        "KM": format(Decimal(repr(record.rules.komi)), "f"),  # no exponent, which SGF doesn't know
    }
    if len(record.handicap) > 1:  # HA[1] is not allowed: one stone is a game that White begins
        texts["HA"] = str(len(record.handicap))
    stones = dict.fromkeys(record.handicap, 1) if record.setup is None else _stones_of(record.setup, size)
    _set_stones(root, stones, size)
    if stones or record.first != "b" or record.turns()[:1] == ["w"]:
        texts["PL"] = record.first.upper()
    texts |= record.properties
    if not _says(texts["RU"], record.rules):
        texts[RULES] = json.dumps(rulesets.to_json(record.rules), separators=(",", ":"))
    for name, text in texts.items():
        if text:
            _set_text(root, name, text)


def _says(text: str, rules: Rules) -> bool:
    """Returns whether a reader would find these rules in an RU alone."""
    try:
        return rulesets.parse(text, rules.size, rules.komi) == rules
    except InputError:
        return False


def _stones_of(rows: Sequence[Sequence[int]], size: int) -> dict[int, int]:
    """Returns point to colour of the stones on a board. Raises InputError for another shape or colour."""
    if len(rows) != size or any(len(row) != size or not set(row) <= {0, 1, 2} for row in rows):
        raise InputError(f"SGF: the setup is not {size} rows of {size} colours, 0 (empty), 1 (black) or 2 (white)")
    colours = (colour for row in rows for colour in row)
    return {point: colour for point, colour in enumerate(colours) if colour}


def _set_stones(node: Tree_node, stones: dict[int, int], size: int) -> None:
    """Sets AB, AW and AE from point to colour."""
    for colour, name in ((1, "AB"), (2, "AW"), (0, "AE")):
        points = [_place(point, size) for point, set_to in stones.items() if set_to == colour]
        if b"" in points:
            raise InputError("SGF: a pass among the stones of an edit; they must be points of the board")
        if points:
            node.set_raw_list(name, points)


def _set_remark(
    node: Tree_node, comment: str | None, winrate: float | None, score: float | None, visits: int | None
) -> None:
    """Sets a move's comment, and what draws the graphs of Sabaki (SBKV: percent, SBKS: points, both Black's)."""
    if winrate is not None:
        _set_text(node, "SBKV", f"{100 * winrate:.2f}")
        comment = comment or search_text(round(winrate, 4), score, visits)
    if score is not None:
        _set_text(node, "SBKS", f"{score:.2f}")
    if comment:
        _set_text(node, "C", comment)


def _set_text(node: Tree_node, name: str, text: str) -> None:
    """Sets a property to a text, with what SGF would take for its end escaped."""
    node.set_raw(name, sgf_grammar.escape_text(text.encode("UTF-8", "replace")))


def _place(action: int, size: int) -> bytes:
    """Returns the SGF letters of a move, empty for a pass. Raises InputError for one that the board doesn't have."""
    if not 0 <= action <= size * size:
        allowed = f"allowed on {size}x{size} are 0 to {size * size - 1}, and {size * size} for a pass"
        raise InputError(f"SGF: move {action} is off the board; {allowed}")
    return coords.to_sgf(action, size).encode()
