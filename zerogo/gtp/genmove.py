"""Commands that choose a move, within the clock, as `players.engine` does."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

from zerogo.game import Colour
from zerogo.gtp.engine import Command, GtpEngine
from zerogo.gtp.protocol import Reply, colour
from zerogo.players.engine import Hook
from zerogo.players.live import LiveGame
from zerogo.rules import coords

MOVES_A_POINT = 0.45  # moves of one side that a game takes, for each point of the board: it shares out the main time
MIN_MOVES_A_POINT = 0.15  # and how many there may always still be


@Command("genmove", "COLOUR", 1)
def generate(engine: GtpEngine, player: str, cleanup: bool = False) -> str:
    """Chooses a move within the clock and plays it."""
    return commit(engine, colour(player), choose(engine, colour(player), cleanup=cleanup))


# Passes only when no dead stone of the opponent is left, also where both sides have passed.
Command("kgs-genmove_cleanup", "COLOUR", 1)(partial(generate, cleanup=True))


@Command("kata-search", "COLOUR", 1)
def search(engine: GtpEngine, player: str) -> str:
    """Chooses a move within the clock, as genmove does, and does not play it."""
    return told(engine, colour(player), choose(engine, colour(player)))


@Command("kata-search_cancellable", "COLOUR", 1, streams=True)
def search_cancellable(engine: GtpEngine, reply: Reply, player: str) -> str:
    """The same; the next line, even an empty one, cancels it."""
    with ended_by(engine, reply) as is_cancelled:
        move = search(engine, player)
        return "cancelled" if is_cancelled() else move


@contextlib.contextmanager
def ended_by(engine: GtpEngine, reply: Reply) -> Iterator[Callable[[], bool]]:
    """Lets any line end the search within; yields what says whether one has come."""
    before, engine.interrupted = engine.interrupted, reply.interrupted
    try:
        yield reply.interrupted
    finally:
        engine.interrupted = before


@Command("reg_genmove", "COLOUR", 1)
def regression_generate(engine: GtpEngine, player: str) -> str:
    """Says what it would play, without a clock and without playing it; never resigns."""
    return coords.to_gtp(choose(engine, colour(player), timed=False), engine.size)


def choose(
    engine: GtpEngine, player: Colour, *, cleanup: bool = False, timed: bool = True, after_step: Hook = lambda: None
) -> int | None:
    """Returns the action that `Engine.genmove` chooses within the clock, None to resign, and takes the time off the
    clock; the game stays as it is. timed: whether the clock counts."""
    started = engine.now()
    seconds = seconds_for(engine, player) if timed else None
    action = engine.genmove(player, seconds, cleanup=cleanup, timed=timed, after_step=after_step).action
    if timed:
        engine.clock.spend(player, engine.now() - started)
    return action


def commit(engine: GtpEngine, player: Colour, action: int | None) -> str:
    """Plays what `choose` returned and returns it as GTP has it: a vertex, `pass`, or `resign`, which plays nothing."""
    engine.commit(player, action)
    return told(engine, player, action)


def told(engine: GtpEngine, player: Colour, action: int | None) -> str:
    """Returns what `choose` returned as GTP has it, and plays nothing."""
    return "resign" if action is None else coords.to_gtp(action, engine.size)


def moves_left(game: LiveGame) -> int:
    """Returns how many moves of one side the game may still take: main time is shared out over them."""
    points = game.size**2
    stones = sum(stone > 0 for row in game.state.stones() for stone in row)
    return max(4, round(MIN_MOVES_A_POINT * points), round(MOVES_A_POINT * points - stones / 2))


def seconds_for(engine: GtpEngine, player: Colour) -> float | None:
    """Returns how long the engine may think about this move, None where only the simulations count."""
    limits = (engine.clock.seconds(player, moves_left(engine.game)), engine.options.most_seconds)
    return min((limit for limit in limits if limit is not None), default=None)
