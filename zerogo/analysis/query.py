"""From a JSON object to the positions that it asks about. Every query is checked whole before anything of it is
searched.

The keys are those of KataGo's docs/Analysis_Engine.md. Where KataGo and zerogo differ: boards are square;
`includeOwnershipStdev`, `rootFpuReductionMax` and unknown keys and settings change nothing and bring a warning;
`whiteHandicapBonus` may only be "0"."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from zerogo import coords, rulesets
from zerogo.analysis.settings import MOST_VISITS, Settings, number, shown, whole
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players.restrictions import Restrictions, restrict
from zerogo.rules import MAX_SIZE, Rules

LEAST_SIZE = 2  # KataGo's
MOST_KOMI = 150.0
MOST_PRIORITY = 2**62 - 1
PLAYERS = {"B": Colour.BLACK, "BLACK": Colour.BLACK, "W": Colour.WHITE, "WHITE": Colour.WHITE}
WITHOUT_EFFECT = {
    "includeOwnershipStdev": "ownership is the network's own word on the position, and has no spread over the search",
    "includeMovesOwnershipStdev": "ownership is the network's own word on a position, and has no spread over the search",
    "rootFpuReductionMax": "moves that were not tried have the value of their position",
}
READ_ELSEWHERE = {"id", "boardYSize", "priorities", "action"}
_XY = re.compile(r"\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")

Move = tuple[Colour, int]


class QueryError(InputError):
    """A query that can't be answered; field: the key at fault."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Wants:
    """What a reply holds beside moves and root."""

    ownership: bool = False
    moves_ownership: bool = False
    policy: bool = False
    pv_visits: bool = False


@dataclass(frozen=True)
class Query:
    """One line's positions, checked but for the legality of its moves.

    start: rows of 0, 1, 2 from the top, and first: who moves there. moves: of the game. turns: each position asked for,
    by the number of moves before it, with its priority. report_every: seconds between reports, infinite for none,
    first_report: until the first. restrictions: moves that the search may not consider. warnings: (field, sentence)."""

    id: str
    rules: Rules
    start: tuple[tuple[int, ...], ...]
    first: Colour
    moves: tuple[Move, ...]
    turns: tuple[tuple[int, int], ...]
    settings: Settings
    wants: Wants
    report_every: float = math.inf
    first_report: float = math.inf
    restrictions: Restrictions | None = None
    warnings: tuple[tuple[str, str], ...] = ()

    def key(self, turn: int) -> int:
        """Returns the number that decides every draw of a position's search, 63 bits: the same for the same position
        and way there.
        """
        played = [(player.value, action) for player, action in self.moves[:turn]]
        text = repr((self.rules, self.start, self.first.value, played))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def parse(fields: dict[str, Any], settings: Settings, only_sizes: Collection[int] | None = None) -> Query:
    """Returns what a query asks. settings: where it says nothing else. only_sizes: the board sides that the network
    knows, None for any.

    Raises QueryError with the field at fault. Whether the moves are legal is not looked at here.
    """
    size = _size(fields, only_sizes)
    start = _start(fields, size)
    with _at("moves"):
        moves = tuple(
            _moves(_needed(fields, "moves", 'a list of [player, vertex] such as ["B", "C3"]'), size, may_pass=True)
        )
    turns = _turns(fields, len(moves))
    rules, warnings = _rules(fields, size)
    settings, more = _settings(fields, settings)
    every, first_report = _reports(fields)
    warnings += more + _ignored(fields)
    return Query(
        id=fields["id"],
        rules=rules,
        start=start,
        first=_first(fields, start, moves),
        moves=moves,
        turns=turns,
        settings=settings,
        wants=Wants(
            *(
                _flag(fields, name)
                for name in ("includeOwnership", "includeMovesOwnership", "includePolicy", "includePVVisits")
            )
        ),
        report_every=every,
        first_report=first_report,
        restrictions=_restrictions(fields, size),
        warnings=tuple(warnings),
    )


@contextlib.contextmanager
def _at(field: str) -> Iterator[None]:
    """Says which field an InputError is about."""
    try:
        yield
    except QueryError:
        raise
    except InputError as error:
        raise QueryError(str(error), field) from None


def _needed(fields: dict[str, Any], name: str, what: str) -> Any:
    if name not in fields:
        raise QueryError(f"{name} is missing; it must be {what}", name)
    return fields[name]


def _list(name: str, value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{name} is {shown(value)}; it must be a list of {what}")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise QueryError(f"{name} is {shown(value)}; it must be true or false", name)
    return value


def _size(fields: dict[str, Any], only_sizes: Collection[int] | None) -> int:
    sides = []
    for name in ("boardXSize", "boardYSize"):
        with _at(name):
            value = _needed(fields, name, f"a whole number from {LEAST_SIZE} to {MAX_SIZE}")
            sides.append(whole(name, value, LEAST_SIZE, MAX_SIZE))
    if sides[0] != sides[1]:
        raise QueryError(f"the board is {sides[0]}x{sides[1]}; zerogo plays on square boards only", "boardYSize")
    if only_sizes is not None and sides[0] not in only_sizes:
        raise QueryError(
            f"the board is {sides[0]}x{sides[0]}; this network plays on {coords.listed(only_sizes)} only", "boardXSize"
        )
    return sides[0]


def _player(value: Any) -> Colour:
    player = PLAYERS.get(value.upper()) if isinstance(value, str) else None
    if player is None:
        raise InputError(f'the player is {shown(value)}; it must be "B" or "W"')
    return player


def _vertex(value: Any, size: int) -> int:
    """Returns the action of "C3", "pass", or KataGo's "(x,y)", both from 0 at the top left."""
    if not isinstance(value, str):
        raise InputError(f"a board vertex is {shown(value)}; it must be a text such as C3")
    match = _XY.fullmatch(value)
    if match and int(match[1]) < size and int(match[2]) < size:
        return int(match[2]) * size + int(match[1])
    return coords.from_gtp(value.strip(), size)


def _moves(values: Any, size: int, may_pass: bool) -> Iterator[Move]:
    for pair in _list("the field", values, '[player, vertex] such as ["B", "C3"]'):
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f'{shown(pair)} is no pair of player and vertex such as ["B", "C3"]')
        move = _player(pair[0]), _vertex(pair[1], size)
        if move[1] == size * size and not may_pass:
            raise InputError("a pass is no stone; initial stones are pairs of player and point")
        yield move


def _start(fields: dict[str, Any], size: int) -> tuple[tuple[int, ...], ...]:
    """Returns the rows of the board at the start; of two stones on a point the later one stands."""
    points = [0] * (size * size)
    with _at("initialStones"):
        for player, point in _moves(fields.get("initialStones", []), size, may_pass=False):
            points[point] = player.value
    return tuple(tuple(points[row * size : (row + 1) * size]) for row in range(size))


def _first(fields: dict[str, Any], start: tuple[tuple[int, ...], ...], moves: tuple[Move, ...]) -> Colour:
    """Returns who moves first: as given, else who made the first move, else White where Black alone has stones (a
    handicap).
    """
    if "initialPlayer" in fields:
        with _at("initialPlayer"):
            return _player(fields["initialPlayer"])
    if moves:
        return moves[0][0]
    stones = [colour for row in start for colour in row if colour]
    return Colour.WHITE if len(stones) > 1 and set(stones) == {Colour.BLACK.value} else Colour.BLACK


def _turns(fields: dict[str, Any], last: int) -> tuple[tuple[int, int], ...]:
    """Returns the turns to analyse with their priorities, rising and each once."""
    if "priority" in fields and "priorities" in fields:
        raise QueryError("priority and priorities are both given; only one of them may be", "priority")
    with _at("analyzeTurns"):
        turns = [
            whole("a turn", turn, 0, last)
            for turn in _list("analyzeTurns", fields.get("analyzeTurns", [last]), "turn numbers")
        ]
    with _at("priority"):
        priorities = [whole("priority", fields.get("priority", 0), -MOST_PRIORITY, MOST_PRIORITY)] * len(turns)
    if "priorities" in fields:
        with _at("priorities"):
            given = _list("priorities", fields["priorities"], "whole numbers, one for each of analyzeTurns")
            if "analyzeTurns" not in fields or len(given) != len(turns):
                raise InputError(f"there are {len(given)} priorities; there must be one for each of analyzeTurns")
            priorities = [whole("a priority", value, -MOST_PRIORITY, MOST_PRIORITY) for value in given]
    return tuple(sorted(dict(zip(turns, priorities, strict=True)).items()))


def _rules(fields: dict[str, Any], size: int) -> tuple[Rules, list[tuple[str, str]]]:
    """Returns the rules with their komi, and a warning where zerogo falls short of them."""
    with _at("komi"):
        komi = number("komi", fields["komi"], -MOST_KOMI, MOST_KOMI) if "komi" in fields else None
        if komi is not None and 2 * komi != int(2 * komi):
            raise InputError(f"komi is {shown(komi)}; it must be a whole number of half points")
    if fields.get("whiteHandicapBonus", "0") not in ("0", 0):
        raise QueryError('whiteHandicapBonus may only be "0" here; add the points to komi', "whiteHandicapBonus")
    with _at("rules"):
        value = _needed(fields, "rules", 'a name such as "chinese", or an object')
        if isinstance(value, dict):
            return rulesets.from_json(value, size, komi), []
        if not isinstance(value, str):
            raise InputError(f'rules are {shown(value)}; they must be a name such as "chinese", or an object')
        short = rulesets.deviations(value) if rulesets.canonical(value) else ""
        return rulesets.parse(value, size, komi), [("rules", short)] if short else []


def _settings(fields: dict[str, Any], settings: Settings) -> tuple[Settings, list[tuple[str, str]]]:
    """Returns the settings of the query, and a warning that names what has no meaning here."""
    warnings = []
    with _at("overrideSettings"):
        given = fields.get("overrideSettings", {})
        if not isinstance(given, dict):
            raise InputError(f"overrideSettings are {shown(given)}; they must be an object")
        settings, unknown = settings.changed(given)
    if unknown:
        warnings.append(("overrideSettings", f"Unknown config params, without effect: {', '.join(unknown)}"))
    if "maxVisits" in fields:
        with _at("maxVisits"):
            settings = replace(settings, max_visits=whole("maxVisits", fields["maxVisits"], 1, MOST_VISITS))
    for name in ("analysisPVLen", "rootPolicyTemperature"):
        if name in fields:
            with _at(name):
                settings, _ = settings.changed({name: fields[name]})
    return settings, warnings


def _reports(fields: dict[str, Any]) -> tuple[float, float]:
    """Returns the seconds between reports and until the first; infinite for none."""
    found = []
    for name in ("reportDuringSearchEvery", "firstReportDuringSearchAfter"):
        with _at(name):
            found.append(number(name, fields[name], 0.001, 1e6) if name in fields else math.inf)
    every, first = found
    return every, first if first < math.inf else every


def _ignored(fields: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns warnings about fields that change nothing."""
    asked = [(name, why) for name, why in WITHOUT_EFFECT.items() if name in fields and fields[name] is not False]
    return asked + [(name, "Unexpected or unused field") for name in fields if name not in FIELDS]


def _restrictions(fields: dict[str, Any], size: int) -> Restrictions | None:
    """Returns the moves that the search may not consider, by avoidMoves or allowMoves; None where there are none."""
    if "avoidMoves" in fields and "allowMoves" in fields:
        raise QueryError("allowMoves and avoidMoves are both given; only one of them may be", "allowMoves")
    name = "allowMoves" if "allowMoves" in fields else "avoidMoves"
    with _at(name):
        entries = _list(name, fields.get(name, []), "objects with player, moves and untilDepth")
        if name == "allowMoves" and len(entries) > 1:
            raise InputError(f"allowMoves has {len(entries)} entries; it may have only one")
        return restrict(size, **{name.removesuffix("Moves"): [_restriction(name, entry, size) for entry in entries]})


def _restriction(name: str, entry: Any, size: int) -> tuple[Colour, set[int], int]:
    if not isinstance(entry, dict) or not {"player", "moves", "untilDepth"} <= entry.keys():
        raise InputError(f"{name} holds {shown(entry)}; each entry must be an object with player, moves and untilDepth")
    actions = {_vertex(value, size) for value in _list("moves", entry["moves"], "vertices")}
    return _player(entry["player"]), actions, whole("untilDepth", entry["untilDepth"], 1, 10**9)


FIELDS = {
    *WITHOUT_EFFECT,
    *READ_ELSEWHERE,
    "boardXSize",
    "initialStones",
    "initialPlayer",
    "moves",
    "analyzeTurns",
    "priority",
    "rules",
    "komi",
    "whiteHandicapBonus",
    "overrideSettings",
    "maxVisits",
    "analysisPVLen",
    "rootPolicyTemperature",
    "reportDuringSearchEvery",
    "firstReportDuringSearchAfter",
    "includeOwnership",
    "includeMovesOwnership",
    "includePolicy",
    "includePVVisits",
    "avoidMoves",
    "allowMoves",
}
