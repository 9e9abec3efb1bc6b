"""One engine for one game, which GTP, the terminal and pictures share: it thinks, chooses moves, judges stones, ponders
and writes the game's record. What a front end adds is how it is asked, and for how long the engine may think."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import NamedTuple

import torch

from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.game import Colour
from zerogo.players import move_choice
from zerogo.players.analyst import Analysis, Analyst, Candidate
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import Judge, MoveChoiceSettings
from zerogo.players.session import AnalysisSession, room_for
from zerogo.players.status import Status
from zerogo.selfplay.playout import RandomPlayer
from zerogo.sgf import GameRecord, result_text

CLEANUP_SHARE = 0.7  # of the time of a move in a cleanup goes to what is dead now and after it, the rest to the search
LAST_SHARE = 0.1  # of that time, in which no further position is looked at
VERDICT_SECONDS = 5.0  # that what is dead is searched for where no move's time counts
LOOK_SIMULATIONS = 16  # for a move that `move_choice` asks about and the search has hardly tried
CAUTION = 1.25  # the next step is taken to last so much longer than the longest of the last ones
SAME = 0.1  # a move may be worth so much less than the best one, and be played for variety on the first plies
VARIED_PLIES = 2  # for each row of the board: with one, ten games of a network that knows a 5x5 board were eight
EVEN = 1e-7  # differences of priors that count as none
MEASUREMENTS = 15  # that `Durations` keeps
Hook = Callable[[], None]


class Durations(deque[float]):
    """The last measurements of how long a piece of work takes, in seconds."""

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        super().__init__(seconds, maxlen=MEASUREMENTS)

    @property
    def longest(self) -> float:
        """The longest, on which deadlines are planned; 0 before the first."""
        return max(self, default=0.0)

    @property
    def median(self) -> float:
        """The median: one slow time, as when the machine was busy with something else, does not count."""
        return median_low(self) if self else 0.0


@dataclass
class Options(MoveChoiceSettings):
    """What may be set from the command line, and some of it by `kata-set-param`.

    simulations: of a move, where no clock runs. most_simulations: also where one runs, None for as many as there is
    time for. most_seconds: of a move, None for no limit but the clock's. seed: of all draws. ponder: whether the
    search goes on while the other side thinks. varies: whether the first moves of a game are drawn."""

    simulations: int = 64
    most_simulations: int | None = None
    most_seconds: float | None = None
    seed: int = 1
    ponder: bool = False
    varies: bool = True


class Choice(NamedTuple):
    """The action that an engine plays, None to resign, and the analysis that led to it, None without a search."""

    action: int | None
    analysis: Analysis | None = None


@dataclass
class Engine:
    """One player at one game.

    name: of the player, for people. analyst, session: None for the random player, which searches nothing. game_number:
    of the games so far, so that the draws of the next one are others. own_colour: the side that it played last.
    last_winrate: a side and its winrate before its last move, None where nothing was searched. interrupted: whether a
    person wants the move now. stopped: the position in which a person has ended the pondering. now: seconds of a clock.
    step_time, overhead: durations of a step of the search, and of all else of a move but the judge's. judge: says which
    stones are dead."""

    name: str
    game: LiveGame
    analyst: Analyst | None = None
    session: AnalysisSession | None = None
    options: Options = field(default_factory=Options)
    game_number: int = 0
    own_colour: Colour | None = None
    last_winrate: tuple[Colour, float] | None = None
    interrupted: Callable[[], bool] = lambda: False
    stopped: tuple[int, int] | None = None
    now: Callable[[], float] = time.monotonic
    step_time: Durations = field(default_factory=Durations)
    overhead: Durations = field(default_factory=Durations)
    judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        self.judge = Judge(self.analyst, self.now)

    @staticmethod
    def of_analyst(analyst: Analyst, game: LiveGame, options: Options) -> "Engine":
        """Returns an engine that gives each move the analyst's simulations."""
        options.simulations = analyst.simulations
        session = AnalysisSession(analyst, room_for(options.simulations), options.seed)
        return Engine(analyst.name, game, analyst, session, options)

    @property
    def position(self) -> tuple[int, int]:
        """The start of the game and the number of moves since."""
        return self.game.start_id, len(self.game.moves)

    def think(self, player: Colour) -> Analysis:
        """Returns the analysis of the position for a player after as many simulations as a move gets, kept ones from
        earlier moves not counted."""
        self.search(player)
        return self.session.analysis()

    def search(
        self,
        player: Colour,
        game: LiveGame | None = None,
        deadline: float | None = None,
        after_step: Hook = lambda: None,
    ) -> None:
        """Searches for a player, in the tree that is there: until the simulations are done, the deadline comes (in
        seconds of `now`), nothing is left to search or a person stops it. game: another than the engine's. after_step:
        called after every step of the search."""
        self.session.set_position(game or self.game, player)
        limit, done = self.options.simulations if deadline is None else self.options.most_simulations, 0
        if deadline is not None:
            deadline -= CAUTION * self.overhead.longest
        while True:
            before = self.now()
            new = self.session.step(None if limit is None else limit - done)
            after_step()
            done, now = done + new, self.now()
            self.step_time.append(now - before)
            is_late = deadline is not None and now + CAUTION * self.step_time.longest > deadline
            if new == 0 or is_late or (limit is not None and done >= limit) or self.interrupted():
                return

    def genmove(
        self,
        player: Colour,
        seconds: float | None = None,
        *,
        cleanup: bool = False,
        timed: bool = True,
        after_step: Hook = lambda: None,
    ) -> Choice:
        """Returns what the engine wants to play; the game stays as it is.

        seconds: that it may take, None where the number of simulations decides. cleanup: whether dead stones are taken
        off by playing, also after two passes. timed: whether it is a move of a game; else nobody resigns and nothing is
        drawn. after_step: called after every step of the search."""
        started, pass_action = self.now(), self.game.size**2
        if self.session is None:
            state = self.game.tensor("cpu", player)
            return Choice(int(RandomPlayer().choose(state, torch.tensor([self.game_number]), self.options.seed)))
        if self.game.is_over and not cleanup:
            return Choice(pass_action)
        game = self.game.before_passes() if cleanup else self.game  # after two passes there is nothing to search
        if seconds is not None and seconds < CAUTION * (self.step_time.median + self.overhead.median):
            choice = Choice(self._best_by_prior(game, player))
        else:
            share = 1 - CLEANUP_SHARE if cleanup else 1.0
            deadline = None if seconds is None else started + seconds
            self.search(player, game, None if seconds is None else started + share * seconds, after_step)
            settings = replace(
                self.options,
                resign=self.options.resign and timed,
                cleanup=cleanup or self.options.cleanup,
                is_over=len(game.moves) < len(self.game.moves),
                varies=self.options.varies and timed and not cleanup,
            )
            choice = self._decide(game, player, settings, deadline)
        if cleanup and choice.action is not None and self.game.why_illegal(player, choice.action) is not None:
            return Choice(pass_action)  # before the passes it was legal: they have made a situation that superko bans
        return choice

    def commit(self, player: Colour, action: int | None) -> None:
        """Plays, or resigns, as `genmove` has chosen."""
        self.own_colour = player
        if action is None:
            self.game.resign(player)
        else:
            self.game.play(player, action)

    def ponder(self, is_interrupted: Callable[[], bool]) -> None:
        """Searches the position while the other side thinks, where the options say so, until there is an interruption
        or the tree is as large as it may be; the next move goes on from that tree."""
        may_ponder = self.options.ponder and self.session is not None and self.stopped != self.position
        is_others_turn = self.own_colour is self.game.to_play.other and not self.game.is_over
        if may_ponder and is_others_turn and not is_interrupted():
            self.session.set_position(self.game)
            while self.session.step() and not is_interrupted():
                pass

    def verdict(self, seconds: float = VERDICT_SECONDS) -> Status:
        """Returns which stones are dead and in seki, the same whenever it is asked about a position; seconds: that
        strings may be searched for."""
        return self.judge(self.game, self.now() + min(seconds, self.options.most_seconds or seconds))

    def is_open(self) -> bool:
        """Returns whether much of the board is unsettled, by its stones and the network's ownership."""
        if self.analyst is None:
            return move_choice.is_open(self.game.state)
        ownership = self.analyst.evaluate(self.game.tensor(self.analyst.device)).ownership[0]
        return move_choice.is_open(self.game.state, ownership.cpu().numpy())

    def score_black(self) -> float:
        """Returns Black's points less White's and komi as the board stands, dead stones taken off."""
        return move_choice.final_score_black(self.game, self.verdict())

    def record(self, **fields: object) -> GameRecord:
        """Returns the game's record, with its result where it is over or somebody has resigned; fields: more of it."""
        if self.game.result is None and self.game.is_over:
            fields["result"] = result_text(self.score_black())
        return self.game.record(**fields)

    def _decide(self, game: LiveGame, player: Colour, settings: Options, deadline: float | None) -> Choice:
        """Returns what the search and `move_choice` lead to."""
        searched, judged = self.now(), 0.0
        until = searched + 2 * VERDICT_SECONDS if deadline is None else deadline
        analysis = self.session.analysis()

        def look(candidate: int) -> float:
            """Returns what a move is worth, the worst where there is no time to find out."""
            if deadline is not None and self.now() + LOOK_SIMULATIONS * self.step_time.longest > deadline:
                return -1.0
            return self.session.value_of(game, player, candidate, LOOK_SIMULATIONS)

        def judge(position: LiveGame) -> Status | None:
            """Returns what is dead, found in half of the time that is left, as other positions may be asked about; None
            where hardly any is left for those."""
            nonlocal judged
            before = self.now()
            if judged and until - before < LAST_SHARE * (until - searched):
                return None
            status = self.judge(position, (before + until) / 2, settings.is_over, keeps=False)
            judged += self.now() - before
            return status

        action = move_choice.decide(game, player, analysis, settings, look, judge)
        is_early = settings.varies and len(game.moves) < VARIED_PLIES * game.size
        if is_early and analysis.best and action == analysis.best.action != game.size**2:
            action = self._drawn(analysis.candidates)
        self.last_winrate = (player, analysis.winrate)
        self.overhead.append(self.now() - searched - judged)
        return Choice(action, analysis)

    def _drawn(self, candidates: list[Candidate]) -> int:
        """Returns a move drawn in proportion to the squares of the visits, among those that are hardly worse than the
        best one, so that games differ."""
        best, pass_action = candidates[0], self.game.size**2
        good = [one for one in candidates if one.value >= best.value - SAME and one.action < pass_action]
        if best not in good:
            return best.action
        places = torch.tensor([self.game_number]), torch.tensor([len(self.game.moves)])
        weights = torch.tensor([[float(one.visits**2) for one in good]])
        return good[int(rng.choose(rng.key(self.options.seed, *places, Purpose.MOVE), weights))].action

    @torch.inference_mode()
    def _best_by_prior(self, game: LiveGame, player: Colour) -> int:
        """Returns the move with the largest prior, equal ones drawn, for when there is no time for one step of the
        search. Answers a pass by a pass where the board as it stands is won and has stones enough."""
        score = game.state.score_black() if player is Colour.BLACK else -game.state.score_black()
        opponent_passed = game.moves[-1:] == [(player.other, game.size**2)]
        if opponent_passed and score > 0 and not move_choice.is_open(game.state):
            return game.size**2
        state = game.tensor(self.analyst.device, player)
        prior = self.analyst.search.evaluator(state).prior[0].to("cpu", torch.float64)
        keys = rng.key(self.options.seed, torch.tensor([self.game_number]), state.ply.cpu(), Purpose.MOVE)
        merit = prior + EVEN * rng.uniform(keys, len(prior))[0].double()
        merit[-1] -= EVEN * float(prior[-1] < 1)  # a pass is the last of equals
        return int(merit.argmax())
