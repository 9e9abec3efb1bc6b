"""The clock of a game: how long each side may think about its next move, under any of GTP's and KGS's time settings.

    clock = Clock()
    clock.set_gtp(300, 30, 5)                       # 5 minutes, then Canadian: 5 moves in 30 seconds
    clock.seconds(Colour.BLACK, moves_left=30)      # 11.2: for this move, None where there is no limit
    clock.spend(Colour.BLACK, 9.5)                  # what it took; `report` brings the controller's own figures

The controller's clock includes its own work and the transfer of lines; each move leaves the lag unused for that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.gtp.protocol import integer, real
from zerogo.players.live import LiveGame

# The time systems that KGS and KataGo name, with the arguments behind the name: seconds, PERIODS and MOVES.
KGS_KINDS = {"none": "", "absolute": "M", "byoyomi": "M S PERIODS", "canadian": "M S MOVES"}
KATA_KINDS = KGS_KINDS | {"fischer": "M INCREMENT", "fischer-capped": "M INCREMENT MOST_MAIN MOST_A_MOVE"}
COMMAND_KINDS = {"kgs-time_settings": KGS_KINDS, "kata-time_settings": KATA_KINDS}
MIN_SECONDS = 0.01  # of a move, which has at least one step of the search
MAX_SECONDS = 10.0**9  # of main time or a period
MAX_NUMBER = 10**6  # of moves or periods
# Moves of one side in a game, per point of the board, and the fewest that are assumed to be left.
MOVES_A_POINT, MIN_MOVES_A_POINT = 0.45, 0.15


class TimeLeft(NamedTuple):
    """The time left to one side: seconds of main time while `number` is 0, else seconds of a period, with the number of
    moves in it or of periods left."""

    seconds: float
    number: int


class Settings(NamedTuple):
    """A time system. kind: one of KGS_KINDS, or fischer. main, period: seconds; Fischer's period is the increment of a
    move. number: of Canadian moves or Japanese periods. most_main, most_a_move: Fischer's caps, seconds."""

    kind: str = "none"
    main: float = 0.0
    period: float = 0.0
    number: int = 0
    most_main: float = math.inf
    most_a_move: float = math.inf


@dataclass
class Clock:
    """Both sides' time.

    settings: the time system. lag: seconds of each move left unused. left: the time of each side by the controller's
    last report, less the time spent since. is_reported: whether the controller has reported anything in this game."""

    settings: Settings = field(default_factory=Settings)
    lag: float = 0.3
    left: dict[Colour, TimeLeft] = field(default_factory=lambda: dict.fromkeys(Colour, TimeLeft(0.0, 0)))
    is_reported: bool = False

    def restart(self, settings: Settings | None = None) -> None:
        """Gives both sides all of their time, for a new game; settings: None keeps the present ones."""
        self.settings = settings or self.settings
        kind, main, period, number, *_ = self.settings
        has_main = main > 0 or kind in ("none", "absolute")
        self.left = dict.fromkeys(Colour, TimeLeft(main, 0) if has_main else TimeLeft(period, number))
        self.is_reported = False

    def set_gtp(self, main: float, period: float, moves: int) -> None:
        """Sets the clocks by GTP's `time_settings`: absolute time where the period is 0, no limit where only the moves
        are 0, else Canadian. `0 0 0` is no limit, as in GNU Go."""
        if period > 0 and moves > 0:
            self.restart(Settings("canadian", main, period, moves))
        else:
            self.restart(Settings("absolute", main) if main and not period else Settings())

    def report(self, player: Colour, seconds: float, number: int) -> None:
        """Sets one clock to the controller's (`time_left`); number 0 is main time, as is any without periods."""
        self.left[player] = TimeLeft(max(0.0, seconds), number * (self.settings.kind in ("byoyomi", "canadian")))
        self.is_reported = True

    def seconds(self, player: Colour, moves_left: int) -> float | None:
        """Returns how long the player may think about this move, None without a limit.

        moves_left: an estimate of the player's moves to come, this one included, over which main time is divided. Where
        a period follows, no move gets less than its share of the period; the last move of main time may use it, too."""
        if self.settings.kind == "none":
            return None
        left, kind, period = self.left[player], self.settings.kind, self.settings.period
        # The seconds that one move has in a whole period.
        share = period / self.settings.number if kind == "canadian" else period if kind == "byoyomi" else 0.0
        if kind == "fischer":
            seconds = min(left.seconds / max(1, moves_left) + period, self.settings.most_a_move)
            available = left.seconds  # what the move adds comes after it
        elif left.number > 0:
            fair = left.seconds / (left.number if kind == "canadian" else 1)
            # Only the controller knows where a period begins; equal shares fit into every period.
            seconds, available = fair if self.is_reported else min(fair, share), left.seconds
        else:
            seconds, available = max(left.seconds / max(1, moves_left), share), left.seconds + share
        return max(MIN_SECONDS, min(seconds, available) - self.lag)

    def spend(self, player: Colour, seconds: float) -> None:
        """Subtracts the time of a move, and the lag, until the next `report`."""
        left, settings = self.left[player], self.settings
        if settings.kind == "none":
            return
        if left.number == 0:
            rest = left.seconds - seconds - self.lag
            if settings.kind == "fischer":
                self.left[player] = TimeLeft(min(max(0.0, rest) + settings.period, settings.most_main), 0)
                return
            if rest > 0 or settings.kind == "absolute":
                self.left[player] = TimeLeft(max(0.0, rest), 0)
                return
            # The period begins within this move.
            left, seconds = TimeLeft(settings.period, settings.number), max(0.0, -rest - self.lag)
        self.left[player] = self._after_move_in_period(left, seconds)

    def _after_move_in_period(self, left: TimeLeft, seconds: float) -> TimeLeft:
        """Returns the time left: a Japanese period is lost when exceeded, a Canadian one lasts several moves."""
        settings = self.settings
        if settings.kind == "byoyomi":
            lost = 0
            while seconds >= left.seconds and lost < left.number - 1:
                seconds, lost, left = seconds - left.seconds, lost + 1, left._replace(seconds=settings.period)
            return TimeLeft(settings.period, left.number - lost)
        if left.number == 1:
            return TimeLeft(settings.period, settings.number)
        return TimeLeft(max(0.0, left.seconds - seconds - self.lag), left.number - 1)


def moves_left(game: LiveGame) -> int:
    """Returns an estimate of the moves that one side has left; main time is divided over them."""
    points = game.size**2
    stones = sum(stone > 0 for row in game.state.stones() for stone in row)
    return max(4, round(MIN_MOVES_A_POINT * points), round(MOVES_A_POINT * points - stones / 2))


def read_time(command: str, words: Sequence[str]) -> Settings:
    """Returns the settings of a command's words, see COMMAND_KINDS; a cap below 0 is none. Raises InputError."""
    kind, *texts = [word.lower() for word in words] or [""]
    kinds = COMMAND_KINDS[command]
    if kind not in kinds or len(texts) != len(kinds[kind].split()):
        raise InputError(f"syntax error; write: {command} {usage(command)}")
    names = ("main time", "increment" if kind.startswith("fischer") else "period")
    main, period = (real(text, name, 0, MAX_SECONDS) for text, name in zip((*texts, "0", "0"), names, strict=False))
    if kind.startswith("fischer"):
        caps = [real(text, "cap", -MAX_SECONDS, MAX_SECONDS) for text in texts[2:]]
        most_main, most_a_move = (cap if cap >= 0 else math.inf for cap in caps or (-1, -1))
        return Settings("fischer", main, period, 0, max(main, most_main), most_a_move)
    number = integer(texts[2], "number", 0, MAX_NUMBER) if len(texts) > 2 else 0
    if kind in ("byoyomi", "canadian") and (number == 0 or period == 0):
        return Settings("absolute", main) if main and not (kind == "canadian" and period) else Settings()
    return Settings(kind, main, period, number)


def usage(command: str) -> str:
    """Returns the words that a command of COMMAND_KINDS takes."""
    return " | ".join(f"{kind} {words}".strip() for kind, words in COMMAND_KINDS[command].items())
