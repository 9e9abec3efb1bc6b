"""The engine behind GTP, the terminal and pictures. In one game it searches, chooses moves, judges stones, ponders and
makes the record. A front end adds commands and the time limit of a move."""

import math
import time
from collections import deque
from collections.abc import Callable
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
from zerogo.selfplay.opening import RandomPlayer
from zerogo.sgf import GameRecord, result_text

CLEANUP_SHARE = 0.7  # of a move's time in a cleanup is for judging dead stones, the rest for the search
LAST_SHARE = 0.1  # of the time for judging; no further position is judged in it
VERDICT_SECONDS = 5.0  # for judging dead stones where no clock runs
LOOK_SIMULATIONS = 16  # for a move whose value `move_choice` needs and that the search has hardly visited
CAUTION = 1.25  # factor on the longest of the last steps, as an estimate of the next one
SAME = 0.1  # value that the first moves of a game may give away against the best move, so that games differ
VARIED_PLIES = 2  # per row of the board: with one, two of ten games of a strong network on 5x5 repeated others
EVEN = 1e-7  # priors that differ by less count as equal
MEASUREMENTS = 15  # the last durations that are kept
Hook = Callable[[], None]


@dataclass
class Options(MoveChoiceSettings):
    """The settings of the command line, of which `kata-set-param` changes some.

    simulations: of a move without a clock. most_simulations: of a move under a clock, None for as many as there is time
    for. most_seconds: of a move, None for the clock's limit alone. seed: of all random draws. ponder: whether the
    search continues while the other side thinks. varies: whether the first moves of a game are drawn at random."""

    simulations: int = 64
    most_simulations: int | None = None
    most_seconds: float | None = None
    seed: int = 1
    ponder: bool = False
    varies: bool = True


class Choice(NamedTuple):
    """An engine's choice. action: None to resign. analysis: of the search, None without one."""

    action: int | None
    analysis: Analysis | None = None


@dataclass
class Engine:
    """One player at one game.

    name: of the player, for people. analyst, session: None for the random player, which has no search. game_number: of
    the game in this process, a key of the random draws. own_colour: the side of its last move, None before the first.
    winrate_black: Black's before the engine's last move, None where nothing was searched. interrupted: returns
    whether a person wants the move now. stopped: the position in which a person has ended the pondering. now: returns
    the seconds of a clock. step_time, overhead: the last durations of a step of the search, and of the rest of a move
    without the judge, in seconds. judge: returns which stones are dead."""

    name: str
    game: LiveGame
    analyst: Analyst | None = None
    session: AnalysisSession | None = None
    options: Options = field(default_factory=Options)
    game_number: int = 0
    own_colour: Colour | None = None
    winrate_black: float | None = None
    interrupted: Callable[[], bool] = lambda: False
    stopped: tuple[int, int] | None = None
    now: Callable[[], float] = time.monotonic
    step_time: deque[float] = field(default_factory=lambda: deque(maxlen=MEASUREMENTS))
    overhead: deque[float] = field(default_factory=lambda: deque(maxlen=MEASUREMENTS))
    judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        self.judge = Judge(self.analyst, self.now)

    @staticmethod
    def of_analyst(analyst: Analyst, game: LiveGame, options: Options) -> "Engine":
        """Returns an engine with the analyst's simulations a move, which `options` gets, too."""
        options.simulations = analyst.simulations
        session = AnalysisSession(analyst, room_for(options.simulations), options.seed)
        return Engine(analyst.name, game, analyst, session, options)

    @property
    def position(self) -> tuple[int, int]:
        """The start's id and the number of moves since."""
        return self.game.start_id, len(self.game.moves)

    def think(self, player: Colour) -> Analysis:
        """Returns the analysis of the position for a player, after as many new simulations as a move gets."""
        self.search(player, self.game, self.options.simulations, math.inf, lambda: None)
        return self.session.analysis()

    def search(self, player: Colour, game: LiveGame, limit: int | None, deadline: float, after_step: Hook) -> None:
        """Searches for a player from the kept tree, until so many simulations are done (None for no limit), the
        deadline comes (in seconds of `now`, infinite for none), the tree is full or a person interrupts. after_step:
        called after every step of the search."""
        self.session.set_position(game, player)
        done, deadline = 0, deadline - CAUTION * max(self.overhead, default=0.0)
        while True:
            before = self.now()
            new = self.session.step(None if limit is None else limit - done)
            after_step()
            done, now = done + new, self.now()
            self.step_time.append(now - before)
            is_late = now + CAUTION * max(self.step_time) > deadline
            if new == 0 or is_late or (limit is not None and done >= limit) or self.interrupted():
                return

    def choose_move(
        self,
        player: Colour,
        seconds: float = math.inf,
        *,
        has_clock: bool = False,
        cleanup: bool = False,
        timed: bool = True,
        after_step: Hook = lambda: None,
    ) -> Choice:
        """Returns the engine's choice; the game does not change.

        seconds: its time limit. has_clock: whether a clock sets it, and `most_simulations` counts. cleanup: whether it
        captures dead stones before it passes, also after two passes. timed: whether the move is part of a game; else it
        neither resigns nor draws moves at random. after_step: called after every step of the search."""
        started, pass_action = self.now(), self.game.size**2
        if self.session is None:
            state = self.game.tensor("cpu", player)
            return Choice(int(RandomPlayer().choose(state, torch.tensor([self.game_number]), self.options.seed)))
        if self.game.is_over and not cleanup:
            return Choice(pass_action)
        game = self.game
        if cleanup:  # after two passes there is nothing to search
            game = game.copy()
            game.undo(len(game.last_passes()))
        # Medians are not changed by a single slow measurement on a busy machine.
        usual = sum(median_low(durations or [0.0]) for durations in (self.step_time, self.overhead))
        if seconds < CAUTION * usual:
            if game is not self.game and self.game.is_over:  # nothing shows that a capture is safe
                return Choice(pass_action)
            choice = Choice(self._best_by_prior(game, player))
        else:
            share = 1 - CLEANUP_SHARE if cleanup else 1.0
            limit = self.options.most_simulations if has_clock else self.options.simulations
            self.search(player, game, limit, started + share * seconds, after_step)
            settings = replace(
                self.options,
                resign=self.options.resign and timed,
                cleanup=cleanup or self.options.cleanup,
                is_over=len(game.moves) < len(self.game.moves),
                varies=self.options.varies and timed and not cleanup,
            )
            choice = self._choose_after_search(game, player, settings, started + seconds)
        if cleanup and choice.action is not None and self.game.why_illegal(player, choice.action) is not None:
            return Choice(pass_action)  # before the passes it was legal: they have made a situation that superko bans
        return choice

    def ponder(self, is_interrupted: Callable[[], bool]) -> None:
        """Searches the position while the other side thinks, if `options.ponder` is set, until an interruption comes or
        the tree is full. The next move continues with that tree."""
        may_ponder = self.options.ponder and self.session is not None and self.stopped != self.position
        is_others_turn = self.own_colour is self.game.to_play.other and not self.game.is_over
        if may_ponder and is_others_turn and not is_interrupted():
            self.session.set_position(self.game)
            while self.session.step() and not is_interrupted():
                pass

    def verdict(self, seconds: float = VERDICT_SECONDS) -> Status:
        """Returns which stones are dead and in seki, once for each position. seconds: limit of the searches."""
        return self.judge(self.game, self.now() + min(seconds, self.options.most_seconds or seconds))

    def is_open(self) -> bool:
        """Returns `move_choice.is_open` of the position, with the ownership of the analyst where there is one."""
        if self.analyst is None:
            return move_choice.is_open(self.game.state)
        ownership = self.analyst.evaluate(self.game.tensor(self.analyst.device)).ownership[0]
        return move_choice.is_open(self.game.state, ownership.cpu().numpy())

    def score_black(self) -> float:
        """Returns Black's points less White's and komi, without dead stones."""
        return self.game.score_black(self.verdict().dead)

    def record(self, **fields: object) -> GameRecord:
        """Returns the game's record, with its result where the game has ended. fields: further fields of the record."""
        if self.game.result is None and self.game.is_over:
            fields["result"] = result_text(self.score_black())
        return self.game.record(**fields)

    def _choose_after_search(self, game: LiveGame, player: Colour, settings: Options, deadline: float) -> Choice:
        """Returns the choice of `move_choice` after a search."""
        searched, judged = self.now(), 0.0
        until = searched + 2 * VERDICT_SECONDS if deadline == math.inf else deadline
        analysis = self.session.analysis()

        def _value_of(candidate: int) -> float:
            """Returns a move's value, -1 where there is no time for its search."""
            if self.now() + LOOK_SIMULATIONS * max(self.step_time) > deadline:
                return -1.0
            return self.session.value_of(game, player, candidate, LOOK_SIMULATIONS)

        def _judge(position: LiveGame) -> Status | None:
            """Returns which stones are dead. Takes half of the time left at most, as other positions may follow; for
            these it returns None where hardly any time is left."""
            nonlocal judged
            before = self.now()
            if judged and until - before < LAST_SHARE * (until - searched):
                return None
            status = self.judge(position, (before + until) / 2, settings.is_over, keeps=False)
            judged += self.now() - before
            return status

        action = move_choice.decide(game, player, analysis, settings, _value_of, _judge)
        is_early = settings.varies and game.turn < VARIED_PLIES * game.size
        if is_early and analysis.best and action == analysis.best.action != game.size**2:
            action = self._drawn(analysis.candidates)
        self.winrate_black, _ = analysis.of_black(player)
        self.overhead.append(self.now() - searched - judged)
        return Choice(action, analysis)

    def _drawn(self, candidates: list[Candidate]) -> int:
        """Returns one of the moves hardly worse than the best, drawn by squared visits, so that games differ."""
        least, pass_action = candidates[0].value - SAME, self.game.size**2
        good = [one for one in candidates if one.value >= least and one.action < pass_action]
        places = torch.tensor([self.game_number]), torch.tensor([len(self.game.moves)])
        weights = torch.tensor([[float(one.visits**2) for one in good]])
        return good[int(rng.choose(rng.key(self.options.seed, *places, Purpose.MOVE), weights))].action

    @torch.inference_mode()
    def _best_by_prior(self, game: LiveGame, player: Colour) -> int:
        """Returns the move with the largest prior, drawn among equal ones, where there is no time for one step of the
        search. Answers a pass by a pass where the board has stones enough and counts as a win."""
        opponent_passed = game.moves[-1:] == [(player.other, game.size**2)]
        if opponent_passed and player.sign * game.state.score_black() > 0 and not move_choice.is_open(game.state):
            return game.size**2
        state = game.tensor(self.analyst.device, player)
        prior = self.analyst.search.evaluator(state).prior[0].to("cpu", torch.float64)
        keys = rng.key(self.options.seed, torch.tensor([self.game_number]), state.ply.cpu(), Purpose.MOVE)
        merit = prior + EVEN * rng.uniform(keys, len(prior))[0].double()
        merit[-1] -= EVEN * float(prior[-1] < 1)  # a pass is the last of equals
        return int(merit.argmax())
