"""What the commands act on: the game, what thinks about it, the clock and the options. A command that fails changes
none of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zerogo import rulesets
from zerogo.coords import listed
from zerogo.errors import InputError
from zerogo.gtp.clock import Clock, Pace
from zerogo.gtp.protocol import Stream

if TYPE_CHECKING:
    from zerogo.game import Colour
    from zerogo.players.analyst import Analyst
    from zerogo.players.live import LiveGame
    from zerogo.players.session import AnalysisSession

NAME = "zerogo"

Handler = Callable[["Engine", list[str]], str]  # returns the reply's text; InputError is a reply that begins with ?
StreamHandler = Callable[["Engine", list[str], Stream], None]


@dataclass
class Options:
    """What may be set from the command line, and some of it by `kata-set-param`.

    simulations: of a move, where no clock runs. most_simulations: also where one runs, None for as many as there is
    time for. most_seconds: of a move, None for no limit but the clock's. resign: whether to; resign_threshold: the
    winrate from 0 to 1 below which a game is given up. cleanup: whether dead stones are captured before passing, as
    `kgs-genmove_cleanup` does. seed: of all draws."""

    simulations: int = 64
    most_simulations: int | None = None
    most_seconds: float | None = None
    resign: bool = True
    resign_threshold: float = 0.05
    cleanup: bool = False
    seed: int = 1


@dataclass
class Engine:
    """One engine at one board.

    name: of the player, for people. analyst, session: None for the random player, which thinks nothing. rules_name: the
    ruleset that was asked for by name, empty for none. game_number: of the games so far, so that the random player's
    next one is another one. opponent: the other side's name, where the controller told it. own_colour: the side that
    `genmove` played last; preview: a side and the winrate that it had before the last move that was thought out.
    interrupted: whether a person wants the move now. say: writes a line for a person. now: seconds of a clock. step,
    overhead: how long a step of the search takes, and all else of a move."""

    name: str
    game: LiveGame
    analyst: Analyst | None = None
    session: AnalysisSession | None = None
    clock: Clock = field(default_factory=Clock)
    options: Options = field(default_factory=Options)
    rules_name: str = ""
    game_number: int = 0
    opponent: str = ""
    own_colour: Colour | None = None
    preview: tuple[Colour, float] | None = None
    interrupted: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    now: Callable[[], float] = time.monotonic
    step: Pace = field(default_factory=Pace)
    overhead: Pace = field(default_factory=Pace)
    _result: tuple[tuple[int, int], str] | None = None

    @property
    def size(self) -> int:
        """N."""
        return self.game.size

    def warn(self, text: str) -> None:
        """Tells a person something on stderr, in lines that no client takes for a reply (Lizzie reads both alike)."""
        for row in text.splitlines():
            self.say(f"{NAME}: {row.replace(' -> ', ' to ')}")

    def require_size(self, size: int) -> None:
        """Raises InputError for a board that the rules or the network don't know."""
        if not 1 <= size <= 25 or (self.analyst is not None and not self.analyst.knows(size)):
            if self.analyst is not None and self.analyst.sizes is not None:
                self.warn(f"{self.analyst.name} plays on {listed(self.analyst.sizes)} only")
            raise InputError("unacceptable size")

    def expect_board(self, size: int) -> None:
        """Fits what steps of the search are taken to last to a board of another size."""
        for pace in (self.step, self.overhead):
            pace.scale((size / self.size) ** 2)

    def begin_game(self) -> None:
        """Notes that a game of its own begins: with fresh clocks, and with draws that are not the last game's."""
        self.game_number += 1
        self.own_colour = self.preview = None
        self.clock.restart()

    def deviation(self) -> str:
        """Returns where zerogo falls short of the ruleset that was asked for by name, empty where it doesn't."""
        return rulesets.deviations(self.rules_name) if self.rules_name else ""

    def note_result(self, text: str) -> None:
        """Keeps the result of the game as it stands, in SGF's words, such as B+R; it is forgotten with the next
        move.
        """
        self._result = ((self.game.start_id, len(self.game.moves)), text)

    @property
    def result(self) -> str | None:
        """The result that was noted for the present position, None where none was."""
        if self._result is None or self._result[0] != (self.game.start_id, len(self.game.moves)):
            return None
        return self._result[1]
