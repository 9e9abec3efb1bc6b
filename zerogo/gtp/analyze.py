"""Analysis that streams while the search runs: lz-analyze, kata-analyze, and both genmove_analyze.

    kata-analyze B interval 50 ownership true minmoves 30 rootInfo true = info move E5 visits 487 edgeVisits 487 utility
    0.5 winrate 0.750000 … order 0 pv E5 C3 info move … rootInfo visits … ownership …

Whoever reads this decides by what is refused what there is to ask for, so an argument that can't be answered truthfully
is an error. The numbers are in the formats of Leela Zero 0.17 (whole numbers, 10000 is 100 %) and KataGo 1.16 (floats),
from the view of the player to move. What only KataGo's network knows, such as scoreStdev, is left out. Scores and
ownership are the network's own, winrates the search's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from zerogo import coords
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.gtp import genmove, parse
from zerogo.gtp.engine import Handler, StreamHandler
from zerogo.gtp.protocol import Stream
from zerogo.players.analysis import Analysis, Candidate
from zerogo.players.session import AnalysisSession, Ban

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine

POLL_SECONDS = 0.005  # between looks for the next line where there is nothing left to search
STALE_SECONDS = 0.1  # at least, between lines that say the same
LONGEST_INTERVAL = 1e20  # centiseconds
MOST = 10**9
NUMBERS = ("interval", "minmoves", "maxmoves")
BANS = ("avoid", "allow")
# What kata-analyze may be asked to show. The standard deviations over the tree are not among it: ownership is the
# network's alone.
SHOWS = ("ownership", "movesOwnership", "pvVisits", "pvEdgeVisits", "rootInfo", "noResultValue")
NO_BANS = "moves can't be avoided in genmove; allowed are interval, minmoves, maxmoves"


@dataclass(frozen=True)
class AnalyzeRequest:
    """What an analysis was asked for.

    player: to move, None for whose turn it is. interval: seconds between lines, None for a line at the end alone.
    least, most: how many moves to tell of. ban: what the search may not play. shows: those of SHOWS that were wanted.
    """

    player: Colour | None = None
    interval: float | None = None
    least: int = 1
    most: int = MOST
    ban: Ban | None = None
    shows: frozenset[str] = frozenset()


Teller = Callable[[Analysis, AnalyzeRequest, int], str]  # thought, wish and board side to a line


def read_wish(arguments: Sequence[str], size: int, shows: Sequence[str] = (), bans: bool = True) -> AnalyzeRequest:
    """Returns the arguments' meaning: `[colour] [interval] [key value]…`, keys in any order. Raises InputError for what
    is not supported.

    shows: which of SHOWS there are. bans: whether moves may be avoided.
    """
    words = list(arguments)
    wish = AnalyzeRequest()
    if words and words[0].lower() in parse.COLOURS:
        wish = replace(wish, player=parse.colour(words.pop(0)))
    if words and not words[0][0].isalpha():
        words.insert(0, "interval")
    banned: list[tuple[str, Colour, frozenset[int], int]] = []
    rest = iter(words)
    for key in rest:
        if key in BANS and bans:
            banned.append((key, *_ban(key, _values(rest, key, 3), size)))
        elif key in NUMBERS:
            wish = _with_number(wish, key, *_values(rest, key, 1))
        elif key in shows:
            wanted = parse.truth(*_values(rest, key, 1), key)
            wish = replace(wish, shows=wish.shows | {key} if wanted else wish.shows - {key})
        else:
            raise InputError(_unsupported(key, shows, bans))
    return replace(wish, ban=_joined(banned, size))


def _unsupported(key: str, shows: Sequence[str], bans: bool) -> str:
    if key in BANS:
        return NO_BANS
    return f"{key!r} is not supported; allowed are {', '.join((*NUMBERS, *(BANS if bans else ()), *shows))}"


def _values(rest: Iterator[str], key: str, number: int) -> list[str]:
    """Returns the words behind a key."""
    found = [next(rest, "") for _ in range(number)]
    if "" in found:
        usage = f"{key} COLOUR VERTEX,VERTEX,… DEPTH" if number == 3 else f"{key} VALUE"
        raise InputError(f"syntax error; write: {usage}")
    return found


def _with_number(wish: AnalyzeRequest, key: str, text: str) -> AnalyzeRequest:
    if key == "interval":
        return replace(wish, interval=parse.real(text, key, 0, LONGEST_INTERVAL) / 100)
    number = parse.integer(text, key, 0 if key == "minmoves" else 1, MOST)
    return replace(wish, least=max(1, number)) if key == "minmoves" else replace(wish, most=number)


def _ban(key: str, values: Sequence[str], size: int) -> tuple[Colour, frozenset[int], int]:
    """Returns whose moves are banned, which, and for how many plies."""
    player = parse.colour(values[0])
    named = frozenset(parse.vertex(text, size) for text in values[1].split(","))
    actions = frozenset(range(size * size + 1)) - named if key == "allow" else named
    return player, actions, parse.integer(values[2], "depth", 1, MOST)


def _joined(banned: Sequence[tuple[str, Colour, frozenset[int], int]], size: int) -> Ban | None:
    """Returns all bans as one, None where there are none. The search knows one depth, and one `allow` a colour."""
    if not banned:
        return None
    allowing = [player for key, player, _, _ in banned if key == "allow"]
    if len(set(allowing)) < len(allowing) or (allowing and len(allowing) < len(banned)):
        raise InputError("allow is given once a colour, and not together with avoid")
    if len({plies for _, _, _, plies in banned}) > 1:
        raise InputError("avoid and allow are supported with one depth for all")
    of = {
        player: frozenset[int]().union(*(actions for _, who, actions, _ in banned if who is player))
        for player in Colour
    }
    if any(len(actions) > size * size for actions in of.values()):
        raise InputError("no move is left")
    return Ban(of[Colour.BLACK], of[Colour.WHITE], banned[0][3])


# Lines


def lz_line(analysis: Analysis, wish: AnalyzeRequest, size: int) -> str:
    """Returns Leela Zero's line: whole numbers, 10000 is 100 %; empty where there is no move to tell of."""
    parts = []
    for order, found in enumerate(told(analysis, wish)):
        rates = " ".join(f"{name} {round(10000 * rate)}" for name, rate in _rates(found))
        line = _vertices(found.pv, size)
        parts.append(
            f"info move {coords.to_gtp(found.action, size)} visits {found.visits} {rates} order {order} pv {line}"
        )
    return " ".join(parts)


def kata_line(analysis: Analysis, wish: AnalyzeRequest, size: int) -> str:
    """Returns KataGo's line: floats, and what else was wished for; empty where there is no move to tell of."""
    parts = [_kata_move(order, found, wish, size) for order, found in enumerate(told(analysis, wish))]
    if parts and "rootInfo" in wish.shows:
        score = f"scoreMean {analysis.score:.4f} scoreLead {analysis.score:.4f}"
        raw = f"rawWinrate {(analysis.raw_value + 1) / 2:.6f}"
        visits, winrate = analysis.visits, analysis.winrate
        parts.append(f"rootInfo visits {visits} utility {analysis.value:.6f} winrate {winrate:.6f} {score} {raw}")
    if parts and "ownership" in wish.shows:
        parts.append(f"ownership {floats(analysis.ownership)}")
    return " ".join(parts)


def _kata_move(order: int, found: Candidate, wish: AnalyzeRequest, size: int) -> str:
    """Returns what is told of one move. Every float has a decimal point: Sabaki takes numbers without one for
    ten-thousandths.
    """
    (_, winrate), (_, prior), (_, lcb) = _rates(found)
    score = f"scoreMean {found.score:.4f} scoreLead {found.score:.4f}"  # Lizzie and LizGoban read the first, Sabaki and CGOS the second
    parts = [
        f"info move {coords.to_gtp(found.action, size)} visits {found.visits} edgeVisits {found.visits} utility {found.value:.6f}"
    ]
    parts.append(
        f"winrate {winrate:.6f} {score} prior {prior:.6f} lcb {lcb:.6f} utilityLcb {2 * lcb - 1:.6f} weight {found.visits:.1f}"
    )
    if "noResultValue" in wish.shows:
        parts.append("noResultValue 0.000000")  # under zerogo's rules every game has a result
    parts.append(f"order {order} pv {_vertices(found.pv, size)}")
    visits = " ".join(map(str, found.pv_visits))  # a tree has one edge to each node, so both counts are the same
    parts += [f"{name} {visits}" for name in ("pvVisits", "pvEdgeVisits") if name in wish.shows]
    if "movesOwnership" in wish.shows and found.ownership is not None:
        parts.append(f"movesOwnership {floats(found.ownership)}")
    return " ".join(parts)


def told(analysis: Analysis, wish: AnalyzeRequest) -> list[Candidate]:
    """Returns the moves to tell of, best first: what was visited, then by prior what was not, until there are as many
    as wished.
    """
    found = analysis.candidates[: wish.most]
    lacking = min(wish.least, wish.most) - len(found)
    if lacking <= 0:
        return found
    visited = {candidate.action for candidate in analysis.candidates}
    others = [
        action
        for action in np.argsort(-analysis.prior, kind="stable").tolist()
        if analysis.legal[action] and action not in visited
    ]
    # Nothing is known of these but the prior; like the search they are taken to be worth what the position is.
    known = {"visits": 0, "value": analysis.value, "score": analysis.score, "lcb": 0.0, "pv_visits": (0,)}
    return found + [
        Candidate(action=action, prior=float(analysis.prior[action]), pv=(action,), **known)
        for action in others[:lacking]
    ]


def floats(board: np.ndarray) -> str:
    """Returns the numbers of a board, from the top left, row by row."""
    return " ".join(f"{number:.4f}" for number in board.flatten().tolist())


def _rates(found: Candidate) -> list[tuple[str, float]]:
    """Returns what both formats tell as shares of 1, in their order."""
    return [("winrate", found.winrate), ("prior", found.prior), ("lcb", found.lcb)]


def _vertices(actions: Sequence[int], size: int) -> str:
    return " ".join(coords.to_gtp(action, size) for action in actions)


# Streams


class Reporter:
    """Writes lines of what a session thinks, as often as was wished."""

    def __init__(self, engine: Engine, stream: Stream, wish: AnalyzeRequest, tell: Teller) -> None:
        self._engine, self._stream, self._wish, self._tell = engine, stream, wish, tell
        self._due = None if wish.interval is None else engine.now() + wish.interval
        self._last: tuple[int, str] | None = None  # visits, and the line about them

    @property
    def is_due(self) -> bool:
        return self._due is not None and self._engine.now() >= self._due

    @property
    def is_current(self) -> bool:
        """Whether the last line tells of all visits."""
        return self._last is not None and self._last[0] == self._engine.session.visits

    def report(self) -> None:
        """Writes a line and sets the time of the next one; no more than half of the time goes into lines."""
        started, session = self._engine.now(), self._engine.session
        pause = STALE_SECONDS if self.is_current else 0.0
        if not self.is_current:
            self._last = (session.visits, self._tell(session.analysis(), self._wish, self._engine.size))
        if self._last[1]:
            self._stream.line(self._last[1])
        if self._due is not None:
            now = self._engine.now()
            self._due = max(self._due + self._wish.interval, now + max(pause, now - started))


def _analyze(engine: Engine, arguments: list[str], stream: Stream, tell: Teller, shows: Sequence[str]) -> None:
    """Searches the position until the next line comes; the game stays as it is."""
    session = require_thinker(engine)
    wish = read_wish(arguments, engine.size, shows)
    session.face(engine.game, wish.player, wish.ban)
    stream.begin()
    reporter = Reporter(engine, stream, wish, tell)
    while not stream.interrupted():
        grew = session.step()
        if reporter.is_due and _prepared(session, stream):
            reporter.report()
        if not grew:
            time.sleep(POLL_SECONDS)
    stream.end()


def _prepared(session: AnalysisSession, stream: Stream) -> bool:
    """Asks the network for what a line needs beside the search, bit by bit; returns whether nothing came in between."""
    while not session.prepare():
        if stream.interrupted():
            return False
    return not stream.interrupted()


def _genmove_analyze(engine: Engine, arguments: list[str], stream: Stream, tell: Teller, shows: Sequence[str]) -> None:
    """Chooses and plays a move as genmove does, and tells what it thinks meanwhile, at least once. No line ends it
    before.
    """
    session = require_thinker(engine)
    wish = read_wish(arguments, engine.size, shows, bans=False)
    player = wish.player or engine.game.to_play
    session.face(engine.game, player)
    stream.begin()
    reporter = Reporter(engine, stream, wish, tell)

    def watch() -> None:
        if reporter.is_due:
            reporter.report()

    action = genmove.choose(engine, player, watch=watch)
    before = engine.now()
    session.face(engine.game, player)
    if not reporter.is_current:
        reporter.report()
    engine.overhead.note(engine.now() - before)  # the last line must be ready in time, too
    stream.line(f"play {genmove.commit(engine, player, action)}")
    stream.end()


def unavailable(engine: Engine) -> set[str]:
    """Returns the commands that this engine can't answer."""
    return set() if engine.session is not None else set(STREAMS)


def require_thinker(engine: Engine) -> AnalysisSession:
    """Returns the engine's session. Raises InputError for the random player, which has none."""
    if engine.session is None:
        raise InputError(f"the player {engine.name!r} does not think")
    return engine.session


def lz_analyze(engine: Engine, arguments: list[str], stream: Stream) -> None:
    _analyze(engine, arguments, stream, lz_line, ())


def kata_analyze(engine: Engine, arguments: list[str], stream: Stream) -> None:
    _analyze(engine, arguments, stream, kata_line, SHOWS)


def lz_genmove_analyze(engine: Engine, arguments: list[str], stream: Stream) -> None:
    _genmove_analyze(engine, arguments, stream, lz_line, ())


def kata_genmove_analyze(engine: Engine, arguments: list[str], stream: Stream) -> None:
    _genmove_analyze(engine, arguments, stream, kata_line, SHOWS)


COMMANDS: dict[str, Handler] = {}
STREAMS: dict[str, StreamHandler] = {
    "lz-analyze": lz_analyze,
    "kata-analyze": kata_analyze,
    "lz-genmove_analyze": lz_genmove_analyze,
    "kata-genmove_analyze": kata_genmove_analyze,
}
