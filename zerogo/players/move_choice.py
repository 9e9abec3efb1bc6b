"""How to behave at the board: when to resign, when to pass, which stones are dead, what the score is.

A search alone is poor company: it fills its own territory because that costs nothing by area rules, plays on when all
is decided, and passes with dead stones on the board since its own way of counting takes them off. Three ways of
counting are compared here, each from the view of the side to move:
* *strict*: every stone lives, as a Tromp-Taylor referee counts (area rules only);
* *counted*: stones in the other side's pass-alive territory are dead (`scoring.final_score_black`, zerogo's own
  referee);
* *agreed*: what people would agree on, dead stones taken off by pass-alive regions first and then by ownership. Dead
  stones *matter* where the agreed result is better than one of the others: then passing is no good before they are
  captured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zerogo import board, scoring
from zerogo.game import Colour, GameState, Move, Point, String, neighbours
from zerogo.sgf.record import with_to_play

if TYPE_CHECKING:
    from zerogo.players.analyst import Analysis, Analyst, Candidate
    from zerogo.players.live import LiveGame

DEAD = -0.5  # a string is dead if its points' mean ownership, for its owner, is below
CERTAIN = 0.9  # a point is decided if its ownership is as large, for either side
FREE = 0.02  # passing costs nothing if its value is so little below the best move's
TIDY = 0.1  # a move for the sake of order may be worth so much less than the best
SURE_VISITS = 8  # a move's value is taken from the search as it is if it was visited so often
MOST_LOOKS = 4  # moves against dead stones that are looked at on their own before one move

Look = Callable[[int], float]  # an action to its value, -1 to 1 for the side to move, after a search of that move alone


@dataclass(frozen=True)
class MoveChoiceSettings:
    """When a player resigns, and whether it captures dead stones before it passes.

    It resigns where its winrate is below `resign_winrate` after at least `resign_visits` visits, it is behind by more
    than `resign_points` of the board's points, and as many moves were played as `resign_after` of the board's points
    (half of them in handicap games); small boards, on which games take more moves for each point, have to wait longer
    (see `_moves_to_wait`). Shares are in [0, 1]. cleanup: where it would pass, it captures the opponent's dead stones
    before, as far as that is safe (`kgs-genmove_cleanup`)."""

    resign: bool = True
    resign_winrate: float = 0.05
    resign_points: float = 0.05
    resign_visits: int = 30
    resign_after: float = 0.2
    cleanup: bool = False


def decide(
    game: LiveGame,
    to_play: Colour,
    analysis: Analysis,
    move_choice: MoveChoiceSettings,
    state: board.State,
    look: Look | None = None,
) -> int | None:
    """Returns the action to play, None to resign.

    analysis: the search's, for `to_play`. state: the present position, one game, with `to_play` to move. look: asks the
    search about a move that it has hardly tried. Passes where the opponent has passed and that wins, and where nothing
    is left to gain; never plays inside pass-alive territory except to capture dead stones that matter, or all of them
    if `move_choice.cleanup` wants that."""
    moment = _Moment(game, to_play, analysis, state, look)
    if moment.is_settled or (moment.opponent_passed and moment.passing_wins):
        return _end(moment, move_choice.cleanup)
    if move_choice.resign and _is_hopeless(moment, move_choice):
        return None
    best = _best_open(moment)
    if best == moment.pass_action or _nothing_left(moment):
        return _end(moment, move_choice.cleanup)
    return best


def dead_stones(game: LiveGame, analyst: Analyst | None) -> set[int]:
    """Returns the points whose stones are dead: pass-alive regions decide first, the analyst's ownership decides about
    other strings.

    Without a analyst only stones in the other side's pass-alive territory are dead.
    """
    if analyst is None:
        return _dead(game.state, None)
    state = game.tensor(analyst.device)
    ownership = analyst.evaluate(state).ownership[0].to("cpu", torch.float32)
    return _dead(game.state, ownership if game.to_play is Colour.BLACK else -ownership)


def final_score_black(game: LiveGame, analyst: Analyst | None) -> float:
    """Returns Black's score less White's and komi, by the game's way of scoring, after dead stones are taken off."""
    return game.state.score_black(_points(dead_stones(game, analyst), game.rules.size))


def _dead(state: GameState, ownership_black: Tensor | None) -> set[int]:
    """Returns the points of dead stones; ownership_black: float32 [N, N], None where only pass-alive regions count."""
    alive = _alive_points(state)
    found: set[int] = set()
    for string in state.board.strings():
        points = _indices(string.stones, state.rules.size)
        if points <= alive[string.player]:
            continue
        if points <= alive[string.player.other] or (
            ownership_black is not None and _owned(string, points, ownership_black) < DEAD
        ):
            found |= points
    return found


def _owned(string: String, points: set[int], ownership_black: Tensor) -> float:
    """Returns the mean ownership of a string's points for its owner."""
    mean = float(ownership_black.flatten()[list(points)].mean())
    return mean if string.player is Colour.BLACK else -mean


def _alive_points(state: GameState) -> dict[Colour, set[int]]:
    """Returns the points, stones and territory, that are unconditionally each player's."""
    stones = torch.tensor([state.stones()], dtype=torch.int8)
    planes = scoring.pass_alive(stones, suicide=state.rules.suicide)
    return {
        player: set(plane.flatten().nonzero().flatten().tolist()) for player, plane in zip(Colour, planes, strict=True)
    }


class _Moment:
    """What is asked about one position before a move; counts are points for the side to move."""

    def __init__(
        self, game: LiveGame, to_play: Colour, analysis: Analysis, state: board.State, look: Look | None
    ) -> None:
        self.game, self.to_play, self.analysis, self.tensor, self.look = game, to_play, analysis, state, look
        self.looks_left = MOST_LOOKS
        self.size = game.rules.size
        self.pass_action = self.size * self.size
        self.state = with_to_play(game.state, to_play)

    @property
    def opponent_passed(self) -> bool:
        return bool(self.game.moves) and self.game.moves[-1] == (self.to_play.other, self.pass_action)

    @cached_property
    def alive(self) -> dict[Colour, set[int]]:
        return _alive_points(self.state)

    @property
    def closed(self) -> set[int]:
        """The points where no move gains anything."""
        return self.alive[Colour.BLACK] | self.alive[Colour.WHITE]

    @property
    def is_settled(self) -> bool:
        """Whether every point is pass-alive, so that no move can change the result as it is counted."""
        return sum(map(len, self.alive.values())) == self.pass_action

    @cached_property
    def dead(self) -> set[int]:
        """The points of all dead stones, as people would agree."""
        ownership = torch.tensor(self.analysis.ownership, dtype=torch.float32)
        return _dead(self.state, ownership if self.to_play is Colour.BLACK else -ownership)

    @cached_property
    def as_it_stands(self) -> float:
        """The worse of the strict and the counted score: what a pass is sure of if the opponent passes too."""
        counted = self._mine(float(scoring.final_score_black(self.tensor)[0]))
        return counted if self.game.rules.scoring == "territory" else min(counted, self._mine(self.state.score_black()))

    @cached_property
    def agreed(self) -> float:
        return self._mine(self.state.score_black(_points(self.dead, self.size)))

    @property
    def passing_wins(self) -> bool:
        return self.as_it_stands > 0 and self.agreed > 0

    @property
    def dead_stones_matter(self) -> bool:
        """Whether people would give a better result than a referee who takes nothing, or little, off. By territory
        rules people decide.
        """
        return self.game.rules.scoring == "area" and _sign(self.agreed) > _sign(self.as_it_stands)

    @property
    def passing(self) -> Candidate | None:
        """What the search thinks of a pass, None where it did not look."""
        return next((found for found in self.analysis.candidates if found.action == self.pass_action), None)

    def _mine(self, score_black: float) -> float:
        return score_black if self.to_play is Colour.BLACK else -score_black


def _is_hopeless(moment: _Moment, move_choice: MoveChoiceSettings) -> bool:
    """Whether a person would resign: surely behind, by much, and late enough."""
    analysis = moment.analysis
    share = max(move_choice.resign_after, 0.5) if moment.game.handicap else move_choice.resign_after
    if len(moment.game.moves) < _moves_to_wait(share, moment.size) or analysis.visits < move_choice.resign_visits:
        return False
    return (
        analysis.winrate < move_choice.resign_winrate and analysis.score < -move_choice.resign_points * moment.size**2
    )


def _moves_to_wait(share: float, size: int) -> float:
    """Returns how many moves are played before anybody resigns: a share of the board's points, on small boards of a
    line of 13 a row.

    At a share of 0.2 that is 13 moves on 5x5, 23 on 9x9, 34 on 13x13 and 72 on 19x19; a fifth of 5x5 would be the first
    5 moves."""
    return share * size * max(size, 13)


def _best_open(moment: _Moment) -> int:
    """Returns the best move that is not inside pass-alive territory: by the search, or by the prior where nothing was
    searched.

    A move inside gains as little as a pass, so where the search likes one better than all that is open a pass does as
    well."""
    for found in _good(moment):
        if found.action not in moment.closed:
            return found.action
    analysis = moment.analysis
    if analysis.candidates:
        return moment.pass_action
    is_open = [action for action in analysis.legal.nonzero()[0].tolist() if action not in moment.closed]
    return max(is_open, key=lambda action: analysis.prior[action], default=moment.pass_action)


def _good(moment: _Moment) -> list[Candidate]:
    """Returns the candidates that are hardly worse than the first."""
    candidates = moment.analysis.candidates
    return [found for found in candidates if found.value >= candidates[0].value - TIDY]


def _nothing_left(moment: _Moment) -> bool:
    """Whether a pass gives nothing away: the search says so, and every point is decided. By territory rules, where a
    move into decided territory costs a point, it is enough that the best move's own point is.

    Ownership alone would not do: it expects the side to move to defend what needs defence.
    """
    analysis, passing = moment.analysis, moment.passing
    if passing is None or not analysis.candidates or passing.value < analysis.candidates[0].value - FREE:
        return False
    decided = abs(torch.tensor(analysis.ownership)).flatten() >= CERTAIN
    if moment.game.rules.scoring == "territory":
        return (
            bool(decided[analysis.candidates[0].action])
            if analysis.candidates[0].action != moment.pass_action
            else True
        )
    return bool(decided.all())


def _end(moment: _Moment, cleanup: bool) -> int:
    """Returns a pass; where dead stones matter, or all are to be captured, a move against them. Where they matter and
    can't be captured, it is a move that goes on, so that the opponent has to answer."""
    if not (cleanup or moment.dead_stones_matter):
        return moment.pass_action
    move = _capture(moment)
    if move is not None:
        return move
    if moment.is_settled or not moment.dead_stones_matter:
        return moment.pass_action
    going_on = [
        found.action
        for found in _good(moment)
        if found.action not in moment.closed and found.action != moment.pass_action
    ]
    return next((action for action in going_on if _is_sound(moment, action)), moment.pass_action)


def _capture(moment: _Moment) -> int | None:
    """Returns a move against dead stones of the opponent, None where there are none or it would harm.

    Takes what can be taken, else fills the liberty of the string that has the fewest. Own stones that are pass-alive
    stay so."""
    own = moment.to_play
    strings = [
        s
        for s in moment.state.board.strings()
        if s.player is own.other and _indices(s.stones, moment.size) <= moment.dead
    ]
    reach = {point: string for string in sorted(strings, key=_effort, reverse=True) for point in string.liberties}
    for point in sorted(reach, key=lambda point: (*_effort(reach[point]), point)):
        action = Move(point).action(moment.size)
        if _is_sound(moment, action) and _is_harmless(moment, action):
            return action
    return None


def _effort(string: String) -> tuple[int, int]:
    """Returns what orders dead strings: fewest liberties first, then most stones."""
    return len(string.liberties), -len(string.stones)


def _is_sound(moment: _Moment, action: int) -> bool:
    """Whether a move is legal, leaves own pass-alive points alive, and its own string not in atari unless it takes
    something.
    """
    before, own, move = moment.state, moment.to_play, Move.from_action(action, moment.size)
    point = move.point
    if point is None or before.why_illegal(move) is not None:
        return False
    after = before.play(move)
    kept = _alive_points(after)[own] >= moment.alive[own] - {action} if moment.alive[own] else True
    string = after.board.string_at(point)
    takes = after.captures[own] > before.captures[own]
    is_eye = all(before.board.player_at(near) is own for near in neighbours(point, moment.size))
    return kept and string is not None and (takes or (len(string.liberties) >= 2 and not is_eye))


def _is_harmless(moment: _Moment, action: int) -> bool:
    """Whether a capture costs nothing: it lies in own pass-alive territory, or the search likes it hardly less than the
    best move.

    That stones are dead is only what the network takes to be likely, and a move against them may fill the liberty that
    the own stones live by; so what the search has hardly tried is looked at, and refused where nobody can look."""
    if action in moment.alive[moment.to_play]:
        return True
    seen = next((found for found in moment.analysis.candidates if found.action == action), None)
    enough = (moment.analysis.best.value if moment.analysis.best else moment.analysis.value) - TIDY
    if seen is not None and (seen.visits >= SURE_VISITS or seen.value < enough):
        return seen.value >= enough
    if moment.look is None or moment.looks_left == 0:
        return False
    moment.looks_left -= 1
    return moment.look(action) >= enough


def _indices(points: Iterable[Point], size: int) -> set[int]:
    return {row * size + column for row, column in points}


def _points(indices: Iterable[int], size: int) -> list[Point]:
    return [Point(*divmod(index, size)) for index in indices]


def _sign(score: float) -> int:
    return (score > 0) - (score < 0)
