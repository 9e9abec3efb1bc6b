"""Choosing a move: searches within the clock, then plays, passes or resigns as `players.move_choice` has it."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.game import Colour
from zerogo.gtp.engine import Command, Engine
from zerogo.gtp.protocol import Reply, colour
from zerogo.players import move_choice
from zerogo.players.analyst import Candidate
from zerogo.players.live import LiveGame
from zerogo.players.status import Status
from zerogo.rules import coords
from zerogo.selfplay.playout import RandomPlayer
from zerogo.sgf import result_text

MOVES_A_POINT = 0.45  # moves of one side that a game takes, for each point of the board: it shares out the main time
MIN_MOVES_A_POINT = 0.15  # and how many there may always still be
CLEANUP_SHARE = 0.7  # of the time of a move in a cleanup goes to what is dead now and after it, the rest to the search
LAST_SHARE = 0.1  # of that time, in which no further position is looked at
VERDICT_SECONDS = 5.0  # that what is dead is searched for where no move's time counts
LOOK_SIMULATIONS = 16  # for a move that `move_choice` asks about and the search has hardly tried
CAUTION = 1.25  # the next step is taken to last so much longer than the longest of the last ones
SAME = 0.1  # a move may be worth so much less than the best one, and be played for variety on the first plies
VARIED_PLIES = 2  # for each row of the board: with one, ten games of a network that knows a 5x5 board were eight
EVEN = 1e-7  # differences of priors that count as none
Hook = Callable[[], None]


@Command("genmove", "COLOUR", 1)
def generate(engine: Engine, player: str, cleanup: bool = False) -> str:
    """Chooses a move within the clock and plays it."""
    return commit(engine, colour(player), choose(engine, colour(player), cleanup=cleanup))


# Passes only when no dead stone of the opponent is left, also where both sides have passed.
Command("kgs-genmove_cleanup", "COLOUR", 1)(partial(generate, cleanup=True))


@Command("kata-search", "COLOUR", 1)
def search(engine: Engine, player: str) -> str:
    """Chooses a move within the clock, as genmove does, and does not play it."""
    return told(engine, colour(player), choose(engine, colour(player)))


@Command("kata-search_cancellable", "COLOUR", 1, streams=True)
def search_cancellable(engine: Engine, reply: Reply, player: str) -> str:
    """The same; the next line, even an empty one, cancels it."""
    with ended_by(engine, reply) as is_cancelled:
        move = search(engine, player)
        return "cancelled" if is_cancelled() else move


@contextlib.contextmanager
def ended_by(engine: Engine, reply: Reply) -> Iterator[Callable[[], bool]]:
    """Lets any line end the search within; yields what says whether one has come."""
    before, engine.interrupted = engine.interrupted, reply.interrupted
    try:
        yield reply.interrupted
    finally:
        engine.interrupted = before


@Command("reg_genmove", "COLOUR", 1)
def regression_generate(engine: Engine, player: str) -> str:
    """Says what it would play, without a clock and without playing it; never resigns."""
    return coords.to_gtp(choose(engine, colour(player), timed=False), engine.size)


def choose(
    engine: Engine, player: Colour, *, cleanup: bool = False, timed: bool = True, after_step: Hook = lambda: None
) -> int | None:
    """Returns the action that the engine wants to play, None to resign; the game stays as it is.

    cleanup: whether dead stones are taken off by playing, also after two passes. timed: whether the clock counts;
    without it the number of simulations decides and nobody resigns. after_step: called after every step of search."""
    pass_action = engine.size**2
    if engine.session is None:
        state = engine.game.tensor("cpu", player)
        return int(RandomPlayer().choose(state, torch.tensor([engine.game_number]), engine.options.seed))
    if engine.game.is_over and not cleanup:
        return pass_action
    started = engine.now()
    game = engine.game.before_passes() if cleanup else engine.game  # after two passes there is nothing to search
    seconds = seconds_for(engine, player) if timed else None
    if seconds is not None and seconds < CAUTION * (engine.step_time.median + engine.overhead.median):
        action = _best_by_prior(engine, game, player)
    else:
        engine.session.set_position(game, player)
        share = 1 - CLEANUP_SHARE if cleanup else 1.0
        _search(engine, started, None if seconds is None else share * seconds, after_step)
        settings = replace(
            engine.options,
            resign=engine.options.resign and timed,
            cleanup=cleanup or engine.options.cleanup,
            is_over=len(game.moves) < len(engine.game.moves),
        )
        deadline = None if seconds is None else started + seconds
        action = _decide(engine, game, player, settings, deadline, varies=timed and not cleanup)
    if cleanup and action is not None and engine.game.why_illegal(player, action) is not None:
        action = pass_action  # before the passes it was legal: they have made a situation that superko bans
    if timed:
        engine.clock.spend(player, engine.now() - started)
    return action


def commit(engine: Engine, player: Colour, action: int | None) -> str:
    """Plays what `choose` returned and returns it as GTP has it: a vertex, `pass`, or `resign`, which plays nothing."""
    engine.own_colour = player
    if action is None:
        engine.resignation = engine.position, result_text(-1 if player is Colour.BLACK else 1, by_resignation=True)
    else:
        engine.game.play(player, action)
    return told(engine, player, action)


def told(engine: Engine, player: Colour, action: int | None) -> str:
    """Returns what `choose` returned as GTP has it, and plays nothing."""
    return "resign" if action is None else coords.to_gtp(action, engine.size)


def ponder(engine: Engine, interrupted: Callable[[], bool]) -> None:
    """Searches the position while the other side thinks, where that is wanted, until a line comes or the tree is as
    large as it may be; the next move goes on from that tree."""
    game, options = engine.game, engine.options
    wanted = options.ponder and engine.session is not None and engine.stopped != engine.position
    if wanted and engine.own_colour is game.to_play.other and not game.is_over and not interrupted():
        engine.session.set_position(game)
        while engine.session.step() and not interrupted():
            pass


def moves_left(game: LiveGame) -> int:
    """Returns how many moves of one side the game may still take: main time is shared out over them."""
    points = game.size**2
    stones = sum(stone > 0 for row in game.state.stones() for stone in row)
    return max(4, round(MIN_MOVES_A_POINT * points), round(MOVES_A_POINT * points - stones / 2))


def seconds_for(engine: Engine, player: Colour) -> float | None:
    """Returns how long the engine may think about this move, None where only the simulations count."""
    limits = (engine.clock.seconds(player, moves_left(engine.game)), engine.options.most_seconds)
    return min((limit for limit in limits if limit is not None), default=None)


def verdict(engine: Engine) -> Status:
    """Returns which stones are dead and in seki, the same whenever it is asked about a position."""
    seconds = min(VERDICT_SECONDS, engine.options.most_seconds or VERDICT_SECONDS)
    return engine.judge(engine.game, engine.now() + seconds)


def _search(engine: Engine, started: float, seconds: float | None, after_step: Hook) -> None:
    """Searches until the simulations or the time are done, nothing is left to search, or a person stops it."""
    options = engine.options
    most = options.simulations if seconds is None else options.most_simulations
    deadline = None if seconds is None else started + seconds - CAUTION * engine.overhead.longest
    done = 0
    while True:
        before = engine.now()
        new = engine.session.step(None if most is None else most - done)
        after_step()
        done, now = done + new, engine.now()
        engine.step_time.append(now - before)
        too_late = deadline is not None and now + CAUTION * engine.step_time.longest > deadline
        if new == 0 or too_late or (most is not None and done >= most) or engine.interrupted():
            return


def _decide(
    engine: Engine,
    game: LiveGame,
    player: Colour,
    settings: move_choice.MoveChoiceSettings,
    deadline: float | None,
    varies: bool,
) -> int | None:
    """Returns the action that the search and `move_choice` lead to, None to resign. varies: whether the first moves of
    a game are drawn."""
    session, searched, judged = engine.session, engine.now(), 0.0
    until = searched + 2 * VERDICT_SECONDS if deadline is None else deadline
    analysis = session.analysis()

    def look(candidate: int) -> float:
        """Returns what a move is worth, the worst where there is no time to find out."""
        if deadline is not None and engine.now() + LOOK_SIMULATIONS * engine.step_time.longest > deadline:
            return -1.0
        return session.value_of(game, player, candidate, LOOK_SIMULATIONS)

    def judge(position: LiveGame) -> Status | None:
        """Returns what is dead, found in half of the time that is left, as other positions may be asked about; None
        where hardly any is left for those."""
        nonlocal judged
        before = engine.now()
        if judged and until - before < LAST_SHARE * (until - searched):
            return None
        found = engine.judge(position, (before + until) / 2, settings.is_over, keeps=False)
        judged += engine.now() - before
        return found

    action = move_choice.decide(game, player, analysis, settings, look, judge)
    is_early = varies and len(game.moves) < VARIED_PLIES * game.size
    if is_early and analysis.best and action == analysis.best.action != game.size**2:
        action = _drawn(engine, analysis.candidates)
    engine.last_winrate = (player, analysis.winrate)
    engine.overhead.append(engine.now() - searched - judged)
    return action


def _drawn(engine: Engine, candidates: list[Candidate]) -> int:
    """Returns a move drawn in proportion to the squares of the visits, among those that are hardly worse than the best
    one, so that games differ."""
    good = [
        found for found in candidates if found.value >= candidates[0].value - SAME and found.action < engine.size**2
    ]
    if candidates[0] not in good:
        return candidates[0].action
    places = torch.tensor([engine.game_number]), torch.tensor([len(engine.game.moves)])
    weights = torch.tensor([[float(found.visits**2) for found in good]])
    return good[int(rng.choose(rng.key(engine.options.seed, *places, Purpose.MOVE), weights))].action


@torch.inference_mode()
def _best_by_prior(engine: Engine, game: LiveGame, player: Colour) -> int:
    """Returns the move with the largest prior, equal ones drawn, for when there is no time for one step of the search.

    Answers a pass by a pass where the board as it stands is won and has stones enough."""
    score = game.state.score_black() if player is Colour.BLACK else -game.state.score_black()
    if (
        game.moves
        and game.moves[-1] == (player.other, game.size**2)
        and score > 0
        and not move_choice.is_open(game.state)
    ):
        return game.size**2
    state = game.tensor(engine.analyst.device, player)
    prior = engine.analyst.search.evaluator(state).prior[0].to("cpu", torch.float64)
    keys = rng.key(engine.options.seed, torch.tensor([engine.game_number]), state.ply.cpu(), Purpose.MOVE)
    merit = prior + EVEN * rng.uniform(keys, len(prior))[0].double()
    merit[-1] -= EVEN * float(prior[-1] < 1)  # a pass is the last of equals
    return int(merit.argmax())
