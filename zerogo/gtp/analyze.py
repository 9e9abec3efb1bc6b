"""Analysis that streams while the search runs (lz-analyze, kata-analyze and both genmove_analyze), kata-raw-nn, and
the commands that GoGui shows on its board.

    kata-analyze B interval 50 ownership true minmoves 30 rootInfo true
    =
    info move E5 visits 487 edgeVisits 487 utility 0.5 winrate 0.750000 … order 0 pv E5 C3 info move … rootInfo …

Clients find out by trying which arguments an engine supports, so an unsupported one is an error. Formats are Leela Zero
0.17's (whole numbers, 10000 is 100 %) and KataGo 1.16's (floats), for the player to move, without the fields that only
KataGo's network predicts. Ownership is the network's; winrates and scores are the search's.

GoGui's commands are `gogui-analyze_commands` and the zerogo-… commands that it lists, each in the format of its type
(GoGui's manual, "Analyze Commands"). Some first search as long as for a move without a clock; none changes the game."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from zerogo import board, scoring
from zerogo.board.symmetry import NUM_SYMMETRIES
from zerogo.errors import InputError, quote
from zerogo.evaluator import Evaluation
from zerogo.game import Colour
from zerogo.gtp.engine import ANY, COMMANDS, Command, GtpEngine
from zerogo.gtp.protocol import Reply, colour, integer, real, truth, vertex
from zerogo.players import katago
from zerogo.players.analyst import Analysis, Candidate, without_second_pass
from zerogo.players.katago import COLOUR_WORDS, gtp_words, why_refused
from zerogo.players.session import Entry, Restrictions, restrict
from zerogo.rules import coords
from zerogo.show.picture import candidates_text, shorten_count

POLL_SECONDS = 0.005  # between checks for the next line while the tree is full
STALE_SECONDS = 0.1  # between lines that repeat the last one, at least
MAX_INTERVAL = 1e20  # centiseconds
MAX_NUMBER = 10**9
NUMBERS = ("interval", "minmoves", "maxmoves")
RESTRICTIONS = ("avoid", "allow")
# What kata-analyze may be asked to add, and of it what needs the ownership after moves.
EXTRAS = ("ownership", "ownershipStdev", "movesOwnership", "pvVisits", "pvEdgeVisits", "rootInfo", "noResultValue")
OF_MOVES = {"ownershipStdev", "movesOwnership"}


class AnalyzeRequest(NamedTuple):
    """The arguments of an analysis.

    player: to move, None for the side whose turn it is. interval: seconds between lines, None for one line at the end.
    min_moves, max_moves: of a line. restrictions: moves that the search may not consider. extras: some of EXTRAS."""

    player: Colour | None = None
    interval: float | None = None
    min_moves: int = 1
    max_moves: int = MAX_NUMBER
    restrictions: Restrictions | None = None
    extras: frozenset[str] = frozenset()


LineFormat = Callable[[Analysis, AnalyzeRequest, int], str]  # of an analysis, what was asked for, and the board's side


def read_request(arguments: Sequence[str], size: int, keys: Sequence[str]) -> AnalyzeRequest:
    """Returns the request of `[colour] [interval] [key value]…`, keys in any order. keys: the supported ones of
    NUMBERS, RESTRICTIONS and EXTRAS. Raises InputError for other keys and bad values."""
    words, fields, extras = list(arguments), {}, {}
    entries: dict[str, list[Entry]] = {key: [] for key in RESTRICTIONS}
    if words and words[0].lower() in COLOUR_WORDS:
        fields["player"] = colour(words.pop(0))
    if words and not words[0][0].isalpha():
        words.insert(0, "interval")
    rest = iter(words)
    for key in rest:
        if key not in keys:
            why = why_refused("key", key, f"{quote(key)} is not supported")
            raise InputError(f"{why}; allowed are {', '.join(keys)}")
        if key in RESTRICTIONS:
            mover, places, depth = _values(rest, key, 3)
            actions = {vertex(text, size) for text in places.split(",") if text}
            entries[key].append((colour(mover), actions, integer(depth, "depth", 1, MAX_NUMBER)))
        elif key == "interval":
            fields["interval"] = real(*_values(rest, key), key, 0, MAX_INTERVAL) / 100
        elif key == "minmoves":
            fields["min_moves"] = max(1, integer(*_values(rest, key), key, 0, MAX_NUMBER))
        elif key == "maxmoves":
            fields["max_moves"] = integer(*_values(rest, key), key, 0, MAX_NUMBER)
        else:
            extras[key] = truth(*_values(rest, key), key)
    chosen = frozenset(key for key, is_chosen in extras.items() if is_chosen)
    return AnalyzeRequest(**fields, restrictions=restrict(size, **entries), extras=chosen)


def _values(rest: Iterator[str], key: str, number: int = 1) -> list[str]:
    """Returns the words after a key."""
    values = [next(rest, "") for _ in range(number)]
    if "" in values:
        raise InputError(f"syntax error; write: {key} {'VALUE' if number == 1 else 'COLOUR VERTEX,VERTEX,… DEPTH'}")
    return values


def lz_line(analysis: Analysis, request: AnalyzeRequest, size: int) -> str:
    """Returns Leela Zero's line: whole numbers, 10000 is 100 %; empty where there is no move to show."""
    moves = [katago.move_fields(move, order, size) for order, move in enumerate(moves_to_show(analysis, request))]
    for fields in moves:
        fields |= {name: round(10_000 * fields[name]) for name in ("winrate", "prior", "lcb")}
    return " ".join(f"info {gtp_words(fields, katago.LZ_INFO)}" for fields in moves)


def kata_line(analysis: Analysis, request: AnalyzeRequest, size: int) -> str:
    """Returns KataGo's line: floats, and the extras; empty where there is no move to show."""
    moves = [katago.move_fields(move, order, size) for order, move in enumerate(moves_to_show(analysis, request))]
    names = [name for name in katago.INFO if name not in katago.INFO_EXTRAS or name in request.extras]
    words = [f"info {gtp_words(fields, names)}" for fields in moves]
    root = katago.root_fields(analysis) if words else {}
    if words and "rootInfo" in request.extras:
        words.append(f"rootInfo {gtp_words(root, katago.GTP_ROOT_INFO)}")
    words += [gtp_words(root, [name]) for name in katago.ROOT_EXTRAS if words and name in request.extras]
    return " ".join(words)


def moves_to_show(analysis: Analysis, request: AnalyzeRequest) -> list[Candidate]:
    """Returns the visited moves, the best first, then others by prior up to the request's `min_moves`."""
    moves = analysis.candidates[: request.max_moves]
    lacking = max(0, min(request.min_moves, request.max_moves) - len(moves))
    visited = {candidate.action for candidate in analysis.candidates}
    by_prior = np.argsort(-analysis.prior, kind="stable").tolist()
    others = [action for action in by_prior if analysis.legal[action] and action not in visited]
    # Only the prior of these is known. As in the search, each is assumed to have the value of the position.
    numbers = {"visits": 0, "value": analysis.value, "score": analysis.score, "lcb": 0.0, "pv_visits": (0,)}
    unvisited = ((action, float(analysis.prior[action])) for action in others[:lacking])
    return moves + [Candidate(action=action, prior=prior, pv=(action,), **numbers) for action, prior in unvisited]


class Reporter:
    """Writes lines about the engine's search at the interval of a request."""

    def __init__(self, engine: GtpEngine, reply: Reply, request: AnalyzeRequest, line_format: LineFormat) -> None:
        self._engine, self._reply, self._request, self._line_format = engine, reply, request, line_format
        self._due = None if request.interval is None else engine.now() + request.interval
        self._last: tuple[int, str] | None = None  # visits, and the line about them

    @property
    def is_current(self) -> bool:
        """Whether the last line has all visits."""
        return self._last is not None and self._last[0] == self._engine.session.visits

    def report_if_due(self, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Does what `report` does when it is time for a line."""
        if self._due is not None and self._engine.now() >= self._due:
            self.report(interrupted)

    def report(self, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Writes a line and sets the time of the next one; lines take at most half of the time. Writes none if
        `interrupted` returns true while the line's positions are evaluated."""
        started, session = self._engine.now(), self._engine.session
        pause = STALE_SECONDS if self.is_current else 0.0
        if not self.is_current:
            analysis = session.analysis(bool(self._request.extras & OF_MOVES), interrupted)
            if analysis is None:
                return
            self._last = (session.visits, self._line_format(analysis, self._request, self._engine.size))
        if self._last[1]:
            self._reply.line(self._last[1])
        if self._due is not None:
            now = self._engine.now()
            self._due = max(self._due + self._request.interval, now + max(pause, now - started))


def _analyze(line_format: LineFormat, extras: Sequence[str], engine: GtpEngine, reply: Reply, *arguments: str) -> None:
    """Searches the position until the next line comes; the game stays as it is."""
    request = read_request(arguments, engine.size, (*NUMBERS, *RESTRICTIONS, *extras))
    engine.session.set_position(engine.game, request.player, request.restrictions)
    reply.begin()
    reporter = Reporter(engine, reply, request, line_format)
    while not reply.interrupted():
        done = engine.session.step()
        reporter.report_if_due(reply.interrupted)
        if not done:
            time.sleep(POLL_SECONDS)
    reply.end()


def _genmove_analyze(
    line_format: LineFormat,
    extras: Sequence[str],
    engine: GtpEngine,
    reply: Reply,
    *arguments: str,
    plays: bool = True,
    is_cancellable: bool = False,
) -> None:
    """Chooses a move as genmove does, and writes lines meanwhile, at least one. plays: whether the move is played.
    is_cancellable: whether the next line, even an empty one, ends it without a move."""
    request = read_request(arguments, engine.size, (*NUMBERS, *extras))
    player, game = request.player or engine.game.to_play, engine.game.copy()
    engine.session.set_position(game, player)
    reply.begin()
    reporter = Reporter(engine, reply, request, line_format)
    is_cancelled = reply.interrupted if is_cancellable else None
    until = engine.now() + engine.seconds_of_move(player)
    move = engine.genmove(player, plays=plays, after_step=reporter.report_if_due, is_cancelled=is_cancelled)
    before = engine.now()
    try:
        engine.session.set_position(game, player)
        if game.is_over:  # where a pass is all that is played, and the lines still tell of the position
            stop = is_cancelled or engine.interrupted
            engine.session.run(engine.options.simulations, lambda: engine.now() >= until or stop())
        if not reporter.is_current:
            reporter.report()
    finally:
        engine.overhead.append(engine.now() - before)  # the last line must be ready in time, too
        reply.line(f"play {move}")


_search_analyze = partial(_genmove_analyze, kata_line, EXTRAS, plays=False)
for _name, _function in {
    "lz-analyze": partial(_analyze, lz_line, ()),
    "lz-genmove_analyze": partial(_genmove_analyze, lz_line, ()),
    "kata-analyze": partial(_analyze, kata_line, EXTRAS),
    "kata-genmove_analyze": partial(_genmove_analyze, kata_line, EXTRAS),
    "kata-search_analyze": _search_analyze,
    "kata-search_analyze_cancellable": partial(_search_analyze, is_cancellable=True),
    "analyze": partial(_analyze, kata_line, EXTRAS),
    "genmove_analyze": partial(_genmove_analyze, kata_line, EXTRAS),
}.items():
    # As in KataGo the bare names are not listed: old Sabakis prefer them and read their numbers in ten-thousandths.
    _is_listed = "-" in _name
    Command(_name, "…", 0, ANY, needs_search=True, streams=True, is_listed=_is_listed)(_function)


@Command("kata-raw-nn", f"[COLOUR] 0 to {NUM_SYMMETRIES - 1}, or all [OPTIMISM]", 1, 3, needs_search=True)
def kata_raw_nn(engine: GtpEngine, *arguments: str) -> str:
    """Returns the network's evaluation without a search, in KataGo's format and from White's view, for the side to move
    or the named one. The board is transformed by one of the 8 symmetries, or by each of them. Playouts give their
    means, the same each time. OPTIMISM changes nothing, as there is no optimistic policy."""
    words = list(arguments)
    player = colour(words.pop(0)) if words[0].lower() in COLOUR_WORDS else engine.game.to_play
    symmetry = words.pop(0) if words else ""
    is_all = symmetry.lower() == "all"
    turns = range(NUM_SYMMETRIES) if is_all else [integer(symmetry, "symmetry", 0, NUM_SYMMETRIES - 1)]
    for word in words:
        real(word, "optimism", 0, 1)
    engine.require_size(engine.size)
    state = without_second_pass(engine.game.tensor(engine.analyst.device, player))
    legal = board.legal_actions(state)[0].cpu().numpy()
    evaluations = [engine.analyst.evaluate(state, symmetry_index=k) for k in turns]
    rows = [_raw_lines(k, one, legal, -player.sign) for k, one in zip(turns, evaluations, strict=True)]
    return "\n".join(["", *rows])


def _raw_lines(turn: int, evaluation: Evaluation, legal: np.ndarray, sign: int) -> str:
    """Returns the lines for one symmetry. legal: bool [A]. sign: -1 where the evaluation is from Black's view.

    Three keys are -1, by which KataGo marks missing heads; whiteScoreSelfplaySq has no such mark and is left out."""
    win, lead = (1 + sign * float(evaluation.value[0])) / 2, sign * float(evaluation.score[0])
    prior = np.where(legal, evaluation.prior[0].float().cpu().numpy(), np.nan)
    ownership = sign * evaluation.ownership[0].cpu().numpy()
    fields = {"symmetry": turn, "whiteWin": win, "whiteLoss": 1 - win, "noResult": 0.0, "whiteLead": lead}
    fields |= {"whiteScoreSelfplay": lead, **dict.fromkeys(katago.NOT_PREDICTED, -1.0)}
    rows = [gtp_words(fields, [name]) for name in fields]
    rows += ["policy", *_rows(prior[:-1].reshape(ownership.shape)), f"policyPass {prior[-1]:.6f}".replace("nan", "NAN")]
    return "\n".join([*rows, "whiteOwnership", *_rows(ownership)])


def _rows(numbers: np.ndarray) -> list[str]:
    """Returns the lines of a board's numbers [N, N]."""
    return [" ".join(f"{number:.6f}" for number in row).upper() for row in numbers.tolist()]


MIN_SHARE = 0.005  # of the policy or the visits that a point must have to be shown
MAX_VARIATIONS = 10  # in the list of them
ANALYZE_COMMANDS = (
    "dboard/Ownership/zerogo-ownership %m",
    "pspairs/Policy/zerogo-policy %m",
    "cboard/Policy, coloured/zerogo-policy_colors %m",
    "pspairs/Visits/zerogo-visits %m",
    "gfx/Value/zerogo-value %m",
    "varc/Best variation/zerogo-best_variation %c",
    "hpstring/Search variations/zerogo-variations %c",
    "bwboard/Pass-alive/zerogo-pass_alive",
    "plist/Dead stones/final_status_list dead",
    "string/Final score/final_score",
    "none/Forget the search tree/clear_cache",
    "param/Parameters/zerogo-param",
)


@Command("gogui-analyze_commands")
def gogui_analyze_commands(engine: GtpEngine) -> str:
    """Returns the commands of this engine for GoGui's menu: type, label, and command with GoGui's wildcards."""
    names = {line: line.split("/")[2].split()[0] for line in ANALYZE_COMMANDS}
    return "\n".join(line for line, name in names.items() if COMMANDS[name].is_offered(engine))


@Command("zerogo-ownership", "[COLOUR]", 0, 1, needs_search=True)
def ownership(engine: GtpEngine, player: str = "") -> str:
    """Returns a dboard: how surely each point will be Black's (to 1) or White's (to -1)."""
    analysis, sign = _analysis(engine, player)
    return _board([[f"{sign * number:.3f}" for number in row] for row in analysis.ownership.tolist()])


@Command("zerogo-policy", "[COLOUR]", 0, 1, needs_search=True)
def policy(engine: GtpEngine, player: str = "") -> str:
    """Returns pspairs: the network's prior of each move in per cent."""
    prior = _analysis(engine, player)[0].prior
    return _pairs(engine, {action: f"{100 * share:.0f}" for action, share in enumerate(prior) if share >= MIN_SHARE})


@Command("zerogo-policy_colors", "[COLOUR]", 0, 1, needs_search=True)
def policy_colors(engine: GtpEngine, player: str = "") -> str:
    """Returns a cboard: points the redder, from pale yellow on, the more the network likes a move there."""
    shares = _analysis(engine, player)[0].prior[:-1].reshape(engine.size, engine.size)
    strength = (shares / max(float(shares.max()), 1e-9))[..., None] ** 0.5
    colours = np.rint(np.array([255, 240, 200]) + strength * np.array([-25, -190, -170])).astype(np.uint8)
    names = [f"#{bytes(rgb).hex()}" for rgb in colours.reshape(-1, 3)]
    return _board(np.where(shares >= MIN_SHARE, np.array(names).reshape(shares.shape), '""').tolist())


@Command("zerogo-pass_alive", "", 0)
def pass_alive(engine: GtpEngine) -> str:
    """Returns a bwboard: the points that are pass-alive for Black and for White."""
    black, white = scoring.pass_alive(engine.game.tensor().stones, suicide=engine.game.rules.suicide)
    owners = black[0].int() + 2 * white[0].int()
    return _board([['"" b w'.split()[owner] for owner in row] for row in owners.tolist()])


@Command("zerogo-visits", "[COLOUR]", 0, 1, needs_search=True)
def visits(engine: GtpEngine, player: str = "") -> str:
    """Returns pspairs: the visits of each move."""
    analysis, _ = _analysis(engine, player, search=True)
    return _pairs(engine, {move.action: shorten_count(move.visits) for move in _frequent_moves(analysis)})


@Command("zerogo-value", "[COLOUR]", 0, 1, needs_search=True)
def value(engine: GtpEngine, player: str = "") -> str:
    """Returns gfx: winrates of moves in per cent, the best one marked, and Black's chances in the status line."""
    (analysis, sign), pass_action = _analysis(engine, player, search=True), engine.size**2
    winrates = {candidate.action: f"{100 * candidate.winrate:.0f}" for candidate in _frequent_moves(analysis)}
    labels, best = _pairs(engine, winrates), analysis.best.action if analysis.best else pass_action
    chances = f"Black's win rate {50 + 50 * sign * analysis.value:.1f} %, score {sign * analysis.score:+.1f}"
    rows = [
        "",
        f"LABEL {labels}" if labels else "",
        f"CIRCLE {coords.to_gtp(best, engine.size)}" if best != pass_action else "",
        f"TEXT {chances}; {analysis.visits} visits",
    ]
    return "\n".join(rows)


@Command("zerogo-best_variation", "[COLOUR]", 0, 1, needs_search=True)
def best_variation(engine: GtpEngine, player: str = "") -> str:
    """Returns a var: the line that the search expects."""
    best = _analysis(engine, player, search=True)[0].best
    return coords.vertices(best.pv, engine.size) if best else ""


@Command("zerogo-variations", "[COLOUR]", 0, 1, needs_search=True)
def variations(engine: GtpEngine, player: str = "") -> str:
    """Returns an hpstring: the best moves with visits, winrate, score, prior and the expected line."""
    candidates = _analysis(engine, player, search=True)[0].candidates
    return f"\n{candidates_text(candidates, engine.size, MAX_VARIATIONS)}"


def _analysis(engine: GtpEngine, player: str, search: bool = False) -> tuple[Analysis, int]:
    """Returns the analysis of the position for a side, by default the one to move, and the sign of its view: 1 for
    Black's. search: whether to search first, for as many visits as a move gets without a clock."""
    session, simulations = engine.session, engine.options.simulations
    to_play = colour(player) if player else engine.game.to_play
    session.set_position(engine.game, to_play)
    if search:
        until = engine.now() + engine.seconds_of_move(to_play, timed=False)
        session.run(simulations + 1 - session.visits, lambda: engine.now() >= until or engine.interrupted())
    return session.analysis(), to_play.sign


def _frequent_moves(analysis: Analysis) -> list[Candidate]:
    least = MIN_SHARE * sum(candidate.visits for candidate in analysis.candidates)
    return [candidate for candidate in analysis.candidates if candidate.visits >= least]


def _board(rows: list[list[str]]) -> str:
    """Returns the lines of a board; a leading newline puts the first row below the "=" of the reply."""
    return "\n".join(["", *map(" ".join, rows)])


def _pairs(engine: GtpEngine, texts: dict[int, str]) -> str:
    """Returns points with their texts, without the pass."""
    return " ".join(f"{coords.to_gtp(at, engine.size)} {text}" for at, text in texts.items() if at < engine.size**2)
