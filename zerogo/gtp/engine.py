"""The state of a GTP engine (the game, its analysis session, the clock, the options), and how commands are declared.

    @Command("komi", "POINTS", 1)
    def komi(engine: GtpEngine, points: str) -> str | None: ...       # the reply; InputError is one with `?`

A refused command leaves the engine unchanged."""

import argparse
import math
import secrets
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from zerogo import cli
from zerogo.board import rng
from zerogo.errors import InputError, quote, shorten_path
from zerogo.game import Colour
from zerogo.gtp.clock import Clock, moves_left
from zerogo.gtp.protocol import Input, Reply, Request
from zerogo.players import require_size, warning_of_komi
from zerogo.players.analyst import autotune_leaves
from zerogo.players.engine import Engine, Hook, Options
from zerogo.players.katago import why_refused
from zerogo.players.live import LiveGame
from zerogo.players.session import AnalysisSession, room_for
from zerogo.rules import MAX_SIZE, Rules, coords, rulesets
from zerogo.rules.coords import listed

NAME = "zerogo"
RANDOM = "random"  # the player without a search
TREE_BYTES = 2**29  # of a tree at most: copying a larger one would delay the end of an analysis
ANY = sys.maxsize  # as `max_arguments` of a command


@dataclass
class GtpEngine(Engine):
    """An engine as GTP's commands act on it.

    rules_name: the name of the game's ruleset where a name chose it, else empty. default_rules, default_rules_name:
    those of the command line or the last command that sets rules; `loadsgf` plays a file without rules by them. games:
    the folder below which files are read and written, None for any. opponent: the other side's name, where the
    controller gave it. log: writes a line for a person."""

    clock: Clock = field(default_factory=Clock)
    rules_name: str = ""
    default_rules: Rules = field(init=False)
    default_rules_name: str = field(init=False)
    games: Path | None = None
    opponent: str = ""
    log: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.default_rules, self.default_rules_name = self.game.rules, self.rules_name

    @property
    def size(self) -> int:
        """N."""
        return self.game.size

    def warn(self, text: str) -> None:
        """Writes lines for a person. They begin with the engine's name and hold no arrow, so that Lizzie, which reads
        stderr like stdout, takes none for a reply."""
        for row in text.splitlines():
            self.log(f"{NAME}: {row.replace(' -> ', ' to ')}")

    def file(self, name: str) -> Path:
        """Returns the path of a file that a command names. Raises InputError outside of the folder of games."""
        path = (self.games or Path()) / name
        if self.games is not None and not path.resolve().is_relative_to(self.games.resolve()):
            raise InputError(f"{quote(name)} is not below {shorten_path(self.games)}, the folder of games")
        return path

    def require_size(self, size: int) -> None:
        """Raises InputError for a board that the rules or the network don't know."""
        sizes = None if self.analyst is None else self.analyst.sizes
        if size not in (sizes or range(1, MAX_SIZE + 1)):
            raise InputError(f"unacceptable size; allowed are {listed(sizes) if sizes else f'1 to {MAX_SIZE}'}")

    def begin_game(self, game: LiveGame) -> None:
        """Begins a game, with fresh clocks and other random draws than the last game's. The measured durations are
        scaled to the size of its board."""
        factor = (game.size / self.size) ** 2
        for durations in (self.step_time, self.overhead):
            for _ in range(len(durations)):
                durations.append(factor * durations.popleft())
        self.judge.limit.seconds_each *= factor
        self.game, self.game_number = game, self.game_number + 1
        if self.session is not None:
            self.session.seed = int(rng.key(self.options.seed, self.game_number))
        self.own_colour = self.winrate_black = None
        self.clock.restart()

    @property
    def has_clock(self) -> bool:
        """Whether games are timed."""
        return self.clock.settings.kind != "none"

    def seconds_of_move(self, player: Colour, timed: bool = True) -> float:
        """Returns the time limit of a move by maxTime and, where it is `timed`, by the clock; infinite without one."""
        limits = (self.clock.seconds(player, moves_left(self.game)) if timed else None, self.options.most_seconds)
        return min((limit for limit in limits if limit is not None), default=math.inf)

    def genmove(
        self,
        player: Colour,
        *,
        plays: bool = True,
        timed: bool = True,
        cleanup: bool = False,
        after_step: Hook = lambda: None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """Returns the move that `choose_move` finds within the clock, a vertex, `pass` or `resign`, and plays it.

        plays: without it the game does not change. timed: whether the clock counts, and the time is taken off it. The
        search ends early, and the answer is `cancelled`, when `is_cancelled` returns true."""
        started, interrupted = self.now(), self.interrupted
        seconds = self.seconds_of_move(player, timed)
        self.interrupted = is_cancelled or interrupted
        try:
            options = {"has_clock": timed and self.has_clock, "cleanup": cleanup, "timed": timed}
            action = self.choose_move(player, seconds, **options, after_step=after_step).action
        finally:
            self.interrupted = interrupted
        if timed:
            self.clock.spend(player, self.now() - started)
        if is_cancelled is not None and is_cancelled():
            return "cancelled"
        if plays:
            self.own_colour, self.stopped = player, None
            self.game.resign(player) if action is None else self.game.play(player, action)
        return "resign" if action is None else coords.to_gtp(action, self.size)


def make_engine(arguments: argparse.Namespace, log: Callable[[str], None]) -> GtpEngine:
    """Returns the engine of a command line, warmed up. log: writes for a person. Raises InputError for bad settings."""
    setup = cli.open_front_end(arguments, [arguments.checkpoint])
    config, rules, analyst, session = setup.config, setup.config.game.rules(), None, None
    if arguments.rules is not None:
        rules = rulesets.parse(arguments.rules, rules.size, rules.komi)
    moves = {"resign": arguments.resign, "resign_winrate": arguments.resign_threshold, "cleanup": arguments.cleanup}
    seed = config.run.seed
    if arguments.seed is None and not any(text.startswith("run.seed=") for text in arguments.overrides):
        seed = secrets.randbits(31)
        log(f"random seed {seed} (pass --seed {seed} to reproduce)")
    options = Options(**moves, most_simulations=arguments.simulations, seed=seed, ponder=arguments.ponder)
    options.simulations = config.evaluation.simulations
    if arguments.checkpoint != RANDOM:
        analyst = setup.analyst(arguments.checkpoint, arguments.simulations, arguments.leaves)
        require_size(analyst, rules.size, "game.size is")
        if arguments.leaves == 0:
            analyst, why = autotune_leaves(analyst, rules)
            log(why)
        options.simulations = analyst.simulations
        session = AnalysisSession(analyst, room_for(options.simulations), options.seed, TREE_BYTES)
    more = {"rules_name": rulesets.canonical(arguments.rules or ""), "games": arguments.games, "log": log}
    name, clock = analyst.name if analyst else RANDOM, Clock(lag=arguments.lag)
    engine = GtpEngine(name, LiveGame(rules), analyst, session, options, clock=clock, **more)
    engine.warn(rulesets.deviations(engine.rules_name))
    engine.warn(warning_of_komi(analyst, rules))
    if session is not None:
        # A process's first steps take several times as long as the others; the third one is measured.
        session.set_position(engine.game)
        for _ in range(3):
            before = engine.now()
            session.step()
            between = engine.now()
            session.analysis()
        engine.step_time.append(between - before)
        engine.overhead.append(engine.now() - between)
        session.clear()
    return engine


COMMANDS: dict[str, "Command"] = {}


@dataclass
class Command:
    """Declares the function below it as a GTP command; `COMMANDS` holds all of them by name.

    parameters: as the usage sentence names them. min_arguments, max_arguments: exactly `min_arguments` where there is
    no `max_arguments`; without both, arguments are ignored. needs_search: refused, and not listed, for the random
    player. streams: the function gets the `Reply` as its second argument and writes its lines. is_listed: whether
    list_commands has it. handler: the function."""

    name: str
    parameters: str = ""
    min_arguments: int | None = None
    max_arguments: int | None = None
    needs_search: bool = field(default=False, kw_only=True)
    streams: bool = field(default=False, kw_only=True)
    is_listed: bool = field(default=True, kw_only=True)
    handler: Callable[..., str | None] | None = field(default=None, kw_only=True)

    def __call__(self, handler: Callable[..., str | None]) -> Callable[..., str | None]:
        self.handler = handler
        COMMANDS[self.name] = self
        return handler

    def is_offered(self, engine: GtpEngine) -> bool:
        """Returns whether this engine can answer; the random player has no search."""
        return engine.session is not None or not self.needs_search

    def run(self, engine: GtpEngine, reply: Reply, arguments: list[str]) -> str:
        """Returns the reply's text. Raises InputError where the engine or the number of arguments does not fit."""
        if not self.is_offered(engine):
            raise InputError(f"the player {engine.name!r} has no search")
        if self.min_arguments is None:
            arguments = []
        elif not self.min_arguments <= len(arguments) <= (self.max_arguments or self.min_arguments):
            raise InputError(f"syntax error; write: {self.name} {self.parameters}")
        return self.handler(engine, *([reply] if self.streams else []), *arguments) or ""


def answer(engine: GtpEngine, request: Request, source: Input, write: Callable[[str], None]) -> None:
    """Writes the reply to one request. An unexpected exception is a refusal, too, so that it ends no game."""
    reply, problem = Reply(request.id, write, source), ""
    try:
        if request.command not in COMMANDS:
            raise InputError(why_refused("command", request.command, "unknown command"))
        text = COMMANDS[request.command].run(engine, reply, request.arguments)
        if not reply.has_begun:
            reply.send(text)
    except InputError as error:
        problem = str(error)
    except BrokenPipeError:
        raise  # the controller is gone
    except Exception as error:
        warn_of_bug(engine, request.command, error)
        problem = f"internal error: {type(error).__name__}"
    if problem and not reply.has_begun:
        reply.send(problem, sign="?")
    reply.end()


def warn_of_bug(engine: GtpEngine, at: str, error: Exception) -> None:
    """Writes an unexpected exception for a person, with its place in the code. at: the command that raised it."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} at {where.filename}, line {where.lineno}"
    engine.warn(f"internal error in {at}: {place}: {error}")
