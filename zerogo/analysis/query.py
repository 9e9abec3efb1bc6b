"""Parses and checks a query, a JSON object, before any of its positions is searched.

Its keys are those of KataGo's docs/Analysis_Engine.md; settings have the names of KataGo's config files,
-override-config and `overrideSettings`. Unlike in KataGo, boards are square and `whiteHandicapBonus` may only be "0";
`includeMovesOwnershipStdev`, `rootFpuReductionMax` and unknown keys and settings cause a warning on stderr."""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zerogo.errors import InputError, quote
from zerogo.game import Colour
from zerogo.players.katago import COLOUR_WORDS, remarks
from zerogo.players.session import Entry, Restrictions, restrict
from zerogo.rules import MAX_SIZE, Rules, coords, rulesets
from zerogo.sgf import GameRecord
from zerogo.sgf.record import COLOURS, LETTERS
from zerogo.system import bounds

MOST_CONFIG_BYTES = 2**18
LEAST_SIZE = 2  # KataGo's
MOST_KOMI = 150.0
MOST_PRIORITY = 2**62 - 1
MOST_VISITS = 2**50  # KataGo's; memory allows fewer, see `engine.AnalysisEngine`
PERSPECTIVES = ("BLACK", "WHITE", "SIDETOMOVE")
WITHOUT_EFFECT = remarks("query", is_supported=False)
INCLUDES = ("includeOwnership", "includeOwnershipStdev", "includeMovesOwnership", "includePolicy", "includePVVisits")
INCLUDES += ("includeNoResultValue",)
REPORTS = ("reportDuringSearchEvery", "firstReportDuringSearchAfter")
FIELDS = """id action boardXSize boardYSize initialStones initialPlayer moves analyzeTurns priority priorities rules
komi whiteHandicapBonus overrideSettings maxVisits analysisPVLen rootPolicyTemperature avoidMoves allowMoves""".split()
FIELDS = {*FIELDS, *WITHOUT_EFFECT, *INCLUDES, *REPORTS}
_XY = re.compile(r"\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")

Move = tuple[Colour, int]


class QueryError(InputError):
    """An invalid query. field: the key at fault."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class AnalysisSettings:
    """The settings of a search and its report.

    max_visits: of the root, its own evaluation included. max_time: seconds. perspective: the side for which winrates,
    scores and ownership are reported. wide_root_noise: w raises the root's prior to the power 1 / (4 w + 1), as in
    KataGo, but without KataGo's random bonus, so that replies are reproducible. root_policy_temperature: T raises the
    root's prior to the power 1 / T. pv_length: moves of a principal variation after its first."""

    max_visits: int = 500
    max_time: float = math.inf
    perspective: str = "BLACK"
    wide_root_noise: float = 0.0
    root_policy_temperature: float = 1.0
    pv_length: int = 15

    @property
    def root_exponent(self) -> float:
        """The power to which the root's prior is raised before the search."""
        return 1.0 / (self.root_policy_temperature * (4.0 * self.wide_root_noise + 1.0))

    def changed(self, values: Mapping[str, Any]) -> tuple["AnalysisSettings", list[str]]:
        """Returns the settings with the values of some of KataGo's names, and the names that zerogo does not know.
        Values may be texts, as in config files. Raises InputError for a value that is not allowed."""
        changes = {}
        for name in [name for name in values if name in SETTINGS]:
            field, check, low, high = SETTINGS[name]
            changes[field] = check(name, _plain(values[name]), low, high)
        return replace(self, **changes), [name for name in values if name not in SETTINGS]


@dataclass(frozen=True)
class Query:
    """One query, checked except for the legality of its moves.

    game: its moves may be by any colour. turns: of each position the number of moves before it, and its priority.
    included: which of INCLUDES a reply has. report_every, first_report: seconds between reports and until the first
    one, infinite for none. restrictions: moves that the search may not consider. warnings: (field, sentence)."""

    id: str
    game: GameRecord
    turns: tuple[tuple[int, int], ...]
    settings: AnalysisSettings
    included: frozenset[str] = frozenset()
    report_every: float = math.inf
    first_report: float = math.inf
    restrictions: Restrictions | None = None
    warnings: tuple[tuple[str, str], ...] = ()

    def key(self, turn: int) -> int:
        """Returns 63 bits that key the random draws of a position's search: a hash of rules, start and moves."""
        game, played = self.game, [(colour.value, action) for colour, action in self.game.played()[:turn]]
        text = repr((game.rules, tuple(map(tuple, game.start())), COLOURS[game.first].value, played))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def parse(fields: dict[str, Any], settings: AnalysisSettings, only_sizes: Collection[int] | None = None) -> Query:
    """Returns the query of a JSON object. settings: defaults. only_sizes: the board sides on which the network plays,
    None for any. Raises QueryError. The legality of the moves is not checked."""
    size = _size(fields, only_sizes)
    setup = _setup(fields, size)
    with at_field("moves"):
        moves = list(_moves(fields.get("moves"), size))
    turns = _turns(fields, len(moves))
    rules, warnings = _rules(fields, size)
    settings, unknown = _settings(fields, settings)
    if unknown:
        warnings.append(("overrideSettings", f"Unknown config params, without effect: {quote_json(unknown)}"))
    every, first = (_seconds(fields, name) for name in REPORTS)
    warnings += [(name, why) for name, why in WITHOUT_EFFECT.items() if fields.get(name, False) is not False]
    warnings += [(name, "Unexpected or unused field") for name in fields if name not in FIELDS]
    start = {"first": LETTERS[_first(fields, setup, moves)], "setup": setup}
    return Query(
        id=fields["id"],
        game=GameRecord(rules, [move[1] for move in moves], colours=[LETTERS[move[0]] for move in moves], **start),
        turns=turns,
        settings=settings,
        included=frozenset(name for name in INCLUDES if _flag(fields, name)),
        report_every=every,
        first_report=first if first < math.inf else every,
        restrictions=_restrictions(fields, size),
        warnings=tuple(warnings),
    )


def whole(name: str, value: Any, low: float, high: float) -> int:
    """Returns a whole number of a query. Raises InputError for another value, such as 3.0 or true."""
    if type(value) is not int or not low <= value <= high:
        raise InputError(f"{name} is {quote_json(value)}; it must be a whole number from {low} to {high}")
    return value


def number(name: str, value: Any, low: float, high: float) -> float:
    """Returns a number of a query. Raises InputError for another value."""
    if type(value) not in (int, float) or not low <= value <= high:
        raise InputError(f"{name} is {quote_json(value)}; it must be a number from {low:g} to {high:g}")
    return float(value)


def quote_json(value: Any) -> str:
    """Returns how a message quotes a value of a query: as JSON of at most 80 characters, "missing" for None."""
    if value is None:
        return "missing"
    text = json.dumps(value[:80] if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


@contextlib.contextmanager
def at_field(field: str) -> Iterator[None]:
    """Turns an InputError into a QueryError about this field."""
    try:
        yield
    except InputError as error:
        raise QueryError(str(error), getattr(error, "field", field)) from None


def list_of(name: str, value: Any, what: str) -> list[Any]:
    """Returns a list of a query. what: names its entries, for the error. Raises InputError for another value."""
    if not isinstance(value, list):
        raise InputError(f"{name} is {quote_json(value)}; it must be a list of {what}")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    if not isinstance(value := fields.get(name, False), bool):
        raise QueryError(f"{name} is {quote_json(value)}; it must be true or false", name)
    return value


def _seconds(fields: dict[str, Any], name: str) -> float:
    """Returns the seconds of a field, infinite where it is missing."""
    with at_field(name):
        return number(name, fields[name], 0.001, 1e6) if name in fields else math.inf


def _size(fields: dict[str, Any], only_sizes: Collection[int] | None) -> int:
    sides = []
    for name in ("boardXSize", "boardYSize"):
        with at_field(name):
            sides.append(whole(name, fields.get(name), LEAST_SIZE, MAX_SIZE))
    board = f"the board is {sides[0]}x{sides[1]}"
    if sides[0] != sides[1]:
        raise QueryError(f"{board}; zerogo plays on square boards only", "boardYSize")
    if only_sizes is not None and sides[0] not in only_sizes:
        raise QueryError(f"{board}; this network plays on {coords.listed(only_sizes)} only", "boardXSize")
    return sides[0]


def _colour(value: Any) -> Colour:
    colour = COLOUR_WORDS.get(value.lower()) if isinstance(value, str) else None
    if colour is None:
        raise InputError(f'the player is {quote_json(value)}; it must be "B" or "W"')
    return colour


def _vertex(value: Any, size: int) -> int:
    """Returns the action of "C3", "pass", or KataGo's "(x,y)", both from 0 at the top left."""
    if not isinstance(value, str):
        raise InputError(f"a board vertex is {quote_json(value)}; it must be a text such as C3")
    match = _XY.fullmatch(value)
    if match and int(match[1]) < size and int(match[2]) < size:
        return int(match[2]) * size + int(match[1])
    return coords.from_gtp(value.strip(), size)


def _moves(values: Any, size: int) -> Iterator[Move]:
    for pair in list_of("the field", values, '[player, vertex] such as ["B", "C3"]'):
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f'{quote_json(pair)} is no pair of player and vertex such as ["B", "C3"]')
        yield _colour(pair[0]), _vertex(pair[1], size)


def _setup(fields: dict[str, Any], size: int) -> list[list[int]]:
    """Returns the stones at the start: rows from the top, 0, 1 or 2."""
    points = [0] * (size * size)
    with at_field("initialStones"):
        for colour, action in _moves(fields.get("initialStones", []), size):
            if action == size * size:
                raise InputError("initial stones must be pairs of player and point, not passes")
            if points[action]:
                raise InputError(f"{coords.to_gtp(action, size)} has two stones; a point may have one")
            points[action] = colour.value
    return [points[row * size : (row + 1) * size] for row in range(size)]


def _first(fields: dict[str, Any], setup: list[list[int]], moves: list[Move]) -> Colour:
    """Returns who moves first: `initialPlayer`, else the player of the first move, else White after two or more black
    stones alone (a handicap), else Black."""
    if "initialPlayer" in fields:
        with at_field("initialPlayer"):
            return _colour(fields["initialPlayer"])
    if moves:
        return moves[0][0]
    stones = [colour for row in setup for colour in row if colour]
    return Colour.WHITE if len(stones) > 1 and set(stones) == {Colour.BLACK.value} else Colour.BLACK


def _turns(fields: dict[str, Any], last: int) -> tuple[tuple[int, int], ...]:
    """Returns the turns to analyse with their priorities, in rising order without repetition."""
    if "priority" in fields and "priorities" in fields:
        raise QueryError("priority and priorities are both given; only one of them may be", "priority")
    with at_field("analyzeTurns"):
        if not (values := list_of("analyzeTurns", fields.get("analyzeTurns", [last]), "turn numbers")):
            raise InputError("analyzeTurns is []; there must be one turn or more")
        turns = [whole("a turn", turn, 0, last) for turn in values]
    with at_field("priority"):
        priorities = [whole("priority", fields.get("priority", 0), -MOST_PRIORITY, MOST_PRIORITY)] * len(turns)
    if "priorities" in fields:
        with at_field("priorities"):
            values = list_of("priorities", fields["priorities"], "whole numbers, one for each of analyzeTurns")
            if "analyzeTurns" not in fields or len(values) != len(turns):
                raise InputError(f"there are {len(values)} priorities; there must be one for each of analyzeTurns")
            priorities = [whole("a priority", value, -MOST_PRIORITY, MOST_PRIORITY) for value in values]
    return tuple(sorted(dict(zip(turns, priorities, strict=True)).items()))


def _rules(fields: dict[str, Any], size: int) -> tuple[Rules, list[tuple[str, str]]]:
    """Returns the rules with their komi, and a warning where zerogo falls short of them."""
    with at_field("komi"):
        komi = _komi(fields["komi"]) if "komi" in fields else None
    if fields.get("whiteHandicapBonus", "0") not in ("0", 0):
        raise QueryError('whiteHandicapBonus may only be "0" here; add the points to komi', "whiteHandicapBonus")
    with at_field("rules"):
        value = fields.get("rules")
        if not isinstance(value, (str, dict)):
            raise InputError(f'rules are {quote_json(value)}; they must be a name such as "chinese", or an object')
        text = value if isinstance(value, str) else json.dumps(value)
        rules, short = rulesets.parse(text, size, komi), rulesets.deviations(text)
        _komi(rules.komi)
        return rules, [("rules", short)] if short else []


def _komi(value: Any) -> float:
    """Returns a komi of the query or of its rules. Raises InputError for one that KataGo refuses."""
    komi = number("komi", value, -MOST_KOMI, MOST_KOMI)
    if 2 * komi != int(2 * komi):
        raise InputError(f"komi is {quote_json(komi)}; it must be a whole number of half points")
    return komi


def _settings(fields: dict[str, Any], settings: AnalysisSettings) -> tuple[AnalysisSettings, list[str]]:
    """Returns the settings of the query, and the names in overrideSettings that zerogo does not know."""
    with at_field("overrideSettings"):
        overrides = fields.get("overrideSettings", {})
        if not isinstance(overrides, dict):
            raise InputError(f"overrideSettings are {quote_json(overrides)}; they must be an object")
        settings, unknown = settings.changed(overrides)
    for name in [name for name in ("maxVisits", "analysisPVLen", "rootPolicyTemperature") if name in fields]:
        with at_field(name):
            if name == "maxVisits":  # the others may be texts, as in config files
                whole(name, fields[name], 1, MOST_VISITS)
            settings, _ = settings.changed({name: fields[name]})
    return settings, unknown


def _restrictions(fields: dict[str, Any], size: int) -> Restrictions | None:
    """Returns the restrictions of avoidMoves and allowMoves, None where every move may be considered."""
    entries: dict[str, list[Entry]] = {}
    for name in ("avoidMoves", "allowMoves"):
        with at_field(name):
            values = list_of(name, fields.get(name, []), "objects with player, moves and untilDepth")
            entries[name.removesuffix("Moves")] = [_restriction(name, value, size) for value in values]
    with at_field("allowMoves"):
        return restrict(size, **entries)


def _restriction(name: str, entry: Any, size: int) -> Entry:
    if not isinstance(entry, dict) or not {"player", "moves", "untilDepth"} <= entry.keys():
        raise InputError(f"{name} holds {quote_json(entry)}; an entry must be an object: player, moves and untilDepth")
    actions = {_vertex(value, size) for value in list_of("moves", entry["moves"], "vertices")}
    return _colour(entry["player"]), actions, whole("untilDepth", entry["untilDepth"], 1, 10**9)


def _plain(value: Any) -> Any:
    """Returns the value of a text from a config file, such as "12"; other values are returned unchanged."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            return float(value) if re.fullmatch(r"-?([0-9]+\.|\.[0-9]+)", value) else json.loads(value)
    return value


def _perspective(name: str, value: Any, *_: float) -> str:
    word = {"B": "BLACK", "W": "WHITE"}.get(str(value).upper(), str(value).upper())
    if word not in PERSPECTIVES:
        raise InputError(f"{name} is {quote_json(value)}; allowed are {', '.join(PERSPECTIVES)}")
    return word


# KataGo's names: the field of `AnalysisSettings` that each sets, how its value is checked, and its range.
SETTINGS: dict[str, tuple[str, Callable[..., Any], float, float]] = {
    "maxVisits": ("max_visits", whole, 1, MOST_VISITS),
    "maxTime": ("max_time", number, 0.0, 1e20),
    "reportAnalysisWinratesAs": ("perspective", _perspective, 0, 0),
    "wideRootNoise": ("wide_root_noise", number, 0.0, 5.0),
    "rootPolicyTemperature": ("root_policy_temperature", number, 0.01, 100.0),
    "analysisPVLen": ("pv_length", whole, 1, 1000),
}


def read_config(path: str | Path) -> dict[str, str]:
    """Returns the `key = value` lines of a KataGo config file. Raises InputError for a file that can't be read."""
    text = bounds.read_file(path, MOST_CONFIG_BYTES, "config").decode("utf-8", "replace")
    return _pairs(line for line in re.sub(r"#.*", "", text).splitlines() if "=" in line)


def read_overrides(text: str) -> dict[str, str]:
    """Returns the settings of `-override-config`, "key=value,key=value". Raises InputError for a part without "="."""
    settings = [word.strip() for word in text.split(",") if word.strip()]
    for word in settings:
        if "=" not in word:
            raise InputError(f"-override-config has {quote(word)}; it must be key=value, several with commas between")
    return _pairs(settings)


def _pairs(lines: Iterable[str]) -> dict[str, str]:
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
