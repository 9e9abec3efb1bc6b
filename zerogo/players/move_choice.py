"""When to resign, when to pass, which stones are dead, what the score is.

A search alone fills its own territory, which costs nothing by area rules; it plays on when all is decided; and it
passes with dead stones on the board, as its own scoring removes them. Three scores are compared here, each for the side
to move:
* *strict*: every stone lives, as a Tromp-Taylor referee counts (area rules only);
* *counted*: stones in the other side's pass-alive territory are dead (`scoring.final_score_black`);
* *agreed*: people's agreement, in which pass-alive regions decide first which stones are dead, and then ownership. Dead
  stones *matter* where the agreed result is better than one of the others: then they are captured before passing."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo import scoring
from zerogo.game import Colour, GameState, Move, Point, neighbours
from zerogo.players.analyst import Analysis, Analyst, Candidate
from zerogo.players.live import LiveGame
from zerogo.players.status import Status, TimeLimit, alive_points, indices, judge_stones
from zerogo.sgf.record import with_to_play

CERTAIN = 0.9  # a point is decided if its ownership is at least this, for either side
FREE = 0.02  # passing costs nothing if its value is at most this far below the best move's
TIDY = 0.1  # a capture or a move that goes on may be worth this much less than the best move
SURE_VISITS = 8  # visits from which a move's value is taken from the search as it is
FEW_STONES = 0.25  # share of points with a stone, below which it is too early to end a game
UNDECIDED = 2 / 3  # mean ownership, of either side, below which much of the board is unsettled
MOST_VALUED = 4  # moves against dead stones that are searched on their own before one move
MAX_VERDICTS = 16  # positions whose verdicts a `Judge` keeps

ValueOf = Callable[[int], float]  # an action's value, -1 to 1 for the side to move, by a search of that move alone


@dataclass
class MoveChoiceSettings:
    """When a player resigns, and whether it captures dead stones before it passes.

    It resigns where its winrate is below `resign_winrate` after at least `resign_visits` visits, it is behind by more
    than the share `resign_points` of the board's points, and as many moves were played as the share `resign_after` of
    the points (half in handicap games; see `_is_hopeless`). cleanup: before it passes, it captures the opponent's dead
    stones where that is safe. is_over: only dead stones are left to play for (`kgs-genmove_cleanup`)."""

    resign: bool = True
    resign_winrate: float = 0.05
    resign_points: float = 0.05
    resign_visits: int = 30
    resign_after: float = 0.2
    cleanup: bool = False
    is_over: bool = False


def decide(
    game: LiveGame,
    to_play: Colour,
    analysis: Analysis,
    settings: MoveChoiceSettings,
    value_of: ValueOf | None = None,
    judge: Callable[[LiveGame], Status | None] | None = None,
) -> int | None:
    """Returns the action to play, None to resign; the game does not change.

    analysis: the search's, for `to_play`. value_of: returns the value of a move that the search has hardly visited.
    judge: returns which stones are dead, for a cleanup, None where it has no time for a position after a move; without
    a judge the analysis decides.

    Passes where the opponent has passed and that wins, and where nothing is left to gain, but plays on while much of
    the board is unsettled (`is_open`), and never passes where a capture saves a lost game. Plays inside pass-alive
    territory only to capture dead stones that matter, or all of them if `settings.cleanup` wants that."""
    position = _Position(game, to_play, analysis, value_of, settings, judge)
    if settings.is_over or position.is_settled:
        return _pass_or_capture(position)
    plays_on = is_open(position.state, analysis.ownership)
    opponent_passed = game.moves[-1:] == [(to_play.other, position.pass_action)]
    # It has won if it passes, however the dead stones are counted.
    if opponent_passed and position.as_it_stands > 0 and position.agreed > 0 and not plays_on:
        return _pass_or_capture(position)
    if settings.resign and _is_hopeless(position):
        return None
    best = _best_open(position, plays_on)
    if best == position.pass_action or (_nothing_left(position) and not plays_on):
        return _pass_or_capture(position)
    return best


def is_open(state: GameState, ownership: np.ndarray | None = None) -> bool:
    """Returns whether much of the board is unsettled, so that it is too early for a pass that ends the game: few stones
    stand, or it is uncertain who owns the points. ownership: float32 [N, N] of either side, None where unknown."""
    return _has_few_stones(state) or (ownership is not None and float(abs(ownership).mean()) < UNDECIDED)


def _has_few_stones(state: GameState) -> bool:
    return sum(colour > 0 for row in state.stones() for colour in row) < FEW_STONES * state.rules.size**2


class Judge:
    """Judges which stones are dead or in seki, by `players.status` within a time limit; it keeps the last verdicts.
    analyst: without one only stones in the other side's pass-alive territory are dead."""

    def __init__(self, analyst: Analyst | None, now: Callable[[], float] = time.monotonic) -> None:
        self.analyst, self.limit = analyst, TimeLimit(now)
        self.clear()

    def clear(self) -> None:
        """Forgets all verdicts."""
        self._verdicts: dict[tuple, Status] = {}

    def __call__(self, game: LiveGame, deadline: float = math.inf, is_over: bool = False, keeps: bool = True) -> Status:
        """Returns the status of all stones. deadline: of the searches, in seconds of `now`. is_over: whether to judge
        as after two passes in any case. keeps: whether a verdict is kept whose searches had too little time."""
        state = replace(game.state, passes=2) if is_over or game.is_over else game.state
        key = tuple(map(tuple, state.stones())), state.rules, state.is_over
        if key not in self._verdicts:
            self.limit.deadline, self.limit.ran_out = deadline, False
            ownership = None if self.analyst is None else _ownership_black(game, self.analyst)
            status = judge_stones(state, ownership, limit=self.limit)
            if self.limit.ran_out and not keeps:
                return status
            self._verdicts[key] = status
            for old in list(self._verdicts)[:-MAX_VERDICTS]:
                del self._verdicts[old]
        return self._verdicts[key]


def _ownership_black(game: LiveGame, analyst: Analyst) -> Tensor:
    """Returns Black's ownership by the analyst, float32 [N, N], as if nobody had passed: playouts of a finished game
    would return the board as it stands. It is the mean over both sides to move, since one may have bad moves only."""
    ownerships = []
    for player in Colour:
        states = game.tensor(analyst.device, player)
        states = replace(states, finished=torch.zeros_like(states.finished), passes=torch.zeros_like(states.passes))
        ownerships.append(player.sign * analyst.evaluate(states).ownership[0].to("cpu", torch.float32))
    return sum(ownerships) / 2


@dataclass(eq=False)
class _Position:
    """One position before a move, with what the rules, the search and the judge conclude, each computed once.

    game: at this position; moves that are tried on it are taken back. Scores are points for `to_play`, komi included.
    num_valued: the number of calls of `value_of`. The other fields are the arguments of `decide`."""

    game: LiveGame
    to_play: Colour
    analysis: Analysis
    value_of: ValueOf | None
    settings: MoveChoiceSettings
    judge: Callable[[LiveGame], Status | None] | None
    num_valued: int = 0

    def __post_init__(self) -> None:
        self.size, self.pass_action = self.game.size, self.game.size**2
        self.state = with_to_play(self.game.state, self.to_play)

    @cached_property
    def alive(self) -> dict[Colour, set[int]]:
        """The points that are unconditionally each player's."""
        return alive_points(self.state)

    @property
    def closed(self) -> set[int]:
        """The points where no move gains anything."""
        return self.alive[Colour.BLACK] | self.alive[Colour.WHITE]

    @property
    def is_settled(self) -> bool:
        """Whether every point is pass-alive, so that no move can change the result as it is counted."""
        return len(self.closed) == self.pass_action

    @cached_property
    def dead(self) -> set[int]:
        """The points of all dead stones, as people would agree."""
        return self.judge_stones().dead

    def after(self, action: int, read: Callable[[], Any]) -> Any:
        """Returns what `read` returns after a legal move of the side to move."""
        result = self.game.result
        self.game.play(self.to_play, action)
        try:
            return read()
        finally:
            self.game.undo()
            self.game.result = result

    def judge_stones(self) -> Status | None:
        """Returns the status of the game's stones. For a cleanup the judge searches strings in doubt, and returns None
        without time for that; else the ownership of the analysed position decides, which is one move off at most."""
        if self.judge is not None and self.settings.cleanup:
            return self.judge(self.game)
        ownership = self.to_play.sign * torch.tensor(self.analysis.ownership, dtype=torch.float32)
        return judge_stones(self.game.state, ownership, searches=self.settings.cleanup)

    @cached_property
    def as_it_stands(self) -> float:
        """The worse of the strict and the counted score, which two passes guarantee."""
        return self._score()

    def _score(self) -> float:
        counted = self.to_play.sign * scoring.final_score_black(self.game.tensor())[0].item()
        is_territory = self.game.rules.scoring == "territory"
        return counted if is_territory else min(counted, self.to_play.sign * self.game.state.score_black())

    @cached_property
    def agreed(self) -> float:
        """The score without dead stones, as people would agree."""
        return self.to_play.sign * self.game.score_black(self.dead)

    @property
    def dead_stones_matter(self) -> bool:
        """Whether people would give a better result than a referee; by territory rules people decide."""
        agreed, as_it_stands = np.sign([self.agreed, self.as_it_stands])
        return self.game.rules.scoring == "area" and bool(agreed > as_it_stands)

    @property
    def good(self) -> list[Candidate]:
        """The candidates that are hardly worse than the first."""
        candidates = self.analysis.candidates
        return [candidate for candidate in candidates if candidate.value >= candidates[0].value - TIDY]

    def candidate(self, action: int) -> Candidate | None:
        """Returns the search's candidate of an action, None where it was not visited."""
        return next((candidate for candidate in self.analysis.candidates if candidate.action == action), None)


def _is_hopeless(position: _Position) -> bool:
    """Returns whether a person would resign: surely behind, by many points, and late in the game. `resign_after` is a
    share of the board's points, with rows of at least 13: 0.2 is 13 moves on 5x5, 23 on 9x9, 34 on 13x13, 72 on 19x19.
    """
    analysis, settings, size = position.analysis, position.settings, position.size
    share = max(settings.resign_after, 0.5) if position.game.handicap else settings.resign_after
    is_late = position.game.turn >= share * size * max(size, 13)
    is_behind = analysis.score < -settings.resign_points * size**2
    is_sure = analysis.visits >= settings.resign_visits and analysis.winrate < settings.resign_winrate
    return is_late and is_behind and is_sure


def _best_open(position: _Position, plays_on: bool) -> int:
    """Returns the best move outside of pass-alive territory, by the search, or by the prior where nothing was searched.

    A move inside gains as little as a pass, so if the search likes such a move best, a pass will do. plays_on: whether
    a pass is ruled out if another move keeps a won position, or if few stones stand."""
    analysis, candidates, skipped = position.analysis, position.good, position.closed
    is_early = plays_on and _has_few_stones(position.state)
    if plays_on:
        skipped = skipped | {position.pass_action}
        candidates += [candidate for candidate in analysis.candidates if is_early or candidate.value > 0]
    for candidate in candidates:
        if candidate.action not in skipped:
            return candidate.action
    if analysis.candidates:
        return position.pass_action
    actions = [action for action in analysis.legal.nonzero()[0].tolist() if action not in skipped]
    return max(actions, key=lambda action: analysis.prior[action], default=position.pass_action)


def _nothing_left(position: _Position) -> bool:
    """Returns whether a pass gives nothing away: it is worth as much as the best move, and every point is decided. By
    territory rules, where a move into decided territory costs a point, it is enough that the best move's point is.

    Ownership alone would not do: it assumes that the side to move defends its weak points."""
    best, passing = position.analysis.best, position.candidate(position.pass_action)
    if passing is None or passing.value < best.value - FREE:
        return False
    decided = abs(torch.tensor(position.analysis.ownership)).flatten() >= CERTAIN
    if position.game.rules.scoring == "territory":
        return best.action == position.pass_action or bool(decided[best.action])
    return bool(decided.all())


def _pass_or_capture(position: _Position) -> int:
    """Returns a pass, or a move against dead stones where they matter or all are to be captured, or a capture that
    changes the result. Where dead stones matter and can't be captured, it is another sound move, to be answered."""
    if position.settings.cleanup or position.dead_stones_matter:
        move = _capture(position)
        if move is None and position.dead_stones_matter and not position.is_settled:
            going_on = (candidate.action for candidate in position.good if candidate.action not in position.closed)
            move = next((action for action in going_on if _is_sound(position, action)), None)
        if move is not None:
            return move
    return _turning_capture(position)


def _turning_capture(position: _Position) -> int:
    """Returns the capture with the best score as the board stands afterwards, where it turns a loss into a draw or a
    win, or a draw into a win; else a pass. The capture must be harmless where the agreed score is a win."""
    size, best, action = position.size, position.as_it_stands, position.pass_action
    for string in position.state.board.strings():
        if best <= 0 and string.colour is position.to_play.other and len(string.liberties) == 1:
            capture = Move(next(iter(string.liberties))).action(size)
            if position.game.why_illegal(position.to_play, capture) is not None:
                continue
            score = position.after(capture, position._score)
            if np.sign(score) > np.sign(best) and (position.agreed <= 0 or _is_harmless(position, capture)):
                best, action = score, capture
    return action


def _capture(position: _Position) -> int | None:
    """Returns a move that captures dead stones, or fills a liberty of the string with the fewest; None if it harms."""
    other, size = position.to_play.other, position.size
    strings = [string for string in position.state.board.strings() if string.colour is other]
    dead = [string for string in strings if indices(string.stones, size) <= position.dead]
    # Each liberty with the effort of the string that is easiest to take: fewest liberties first, then most stones.
    reach: dict[Point, tuple[int, int]] = {}
    for string in dead:
        effort = len(string.liberties), -len(string.stones)
        reach |= {point: min(effort, reach.get(point, effort)) for point in string.liberties}
    for point in sorted(reach, key=lambda point: (reach[point], point)):
        action = Move(point).action(size)
        if _is_sound(position, action) and _is_harmless(position, action):
            return action
    return None


def _is_sound(position: _Position, action: int) -> bool:
    """Whether a move is legal, leaves own pass-alive points alive and, unless it captures, fills no eye and does not
    put its string into atari."""
    before, mover, move = position.state, position.to_play, Move.from_action(action, position.size)
    if (point := move.point) is None or before.why_illegal(move) is not None:
        return False
    after, alive = before.play(move), position.alive[mover]
    string = after.board.string_at(point)
    if string is None or (alive and not alive_points(after)[mover] >= alive - {action}):
        return False
    is_eye = all(before.board.colour_at(near) is mover for near in neighbours(point, position.size))
    return after.captures[mover] > before.captures[mover] or (len(string.liberties) >= 2 and not is_eye)


def _is_harmless(position: _Position, action: int) -> bool:
    """Returns whether a capture costs nothing: it lies in pass-alive territory of the side to move, or is worth hardly
    less than the best move.

    The network may be wrong about dead stones, and a move against them may fill a liberty that one's own stones need.
    So a move that the search has hardly visited is searched separately, or refused where that is impossible. When the
    game is over, all stones that live must live after the capture."""
    if action in position.alive[position.to_play]:
        return True
    if position.settings.is_over:
        dead, status = position.dead, position.after(action, position.judge_stones)
        return status is not None and not status.dead - dead
    candidate, analysis = position.candidate(action), position.analysis
    enough = (analysis.best.value if analysis.best else analysis.value) - TIDY
    if candidate is not None and (candidate.visits >= SURE_VISITS or candidate.value < enough):
        return candidate.value >= enough
    if position.value_of is None or position.num_valued == MOST_VALUED:
        return False
    position.num_valued += 1
    return position.value_of(action) >= enough
