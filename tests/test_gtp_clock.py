"""The clock: what each kind of time settings leaves for a move, and whole games on a pretended clock that nobody may
lose on time."""

import random
import types
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tables import DATA, tables

from zerogo import board
from zerogo.game import Colour
from zerogo.gtp.clock import Clock, Settings, TimeLeft, moves_left, read_time
from zerogo.gtp.engine import GtpEngine
from zerogo.players import engine as players_engine
from zerogo.players.engine import Options
from zerogo.players.live import LiveGame
from zerogo.rules import Rules

TABLES = tables("gtp")
BLACK, WHITE = Colour.BLACK, Colour.WHITE


@pytest.mark.parametrize("steps", (DATA / "clocks.txt").read_text().split("\n\n")[1:])
def test_what_clocks_say(steps: str) -> None:
    """A line of data/clocks.txt, up to its comment, is a method with its arguments and, behind `=`, what it returns."""
    made = Clock(lag=0.5)
    for line in steps.strip().splitlines():
        call, _, expected = line.split("  ")[0].partition(" = ")
        name, *words = call.split()
        colour = {"b": BLACK, "w": WHITE}.get(words[0]) if words else None
        if name in ("kgs", "kata"):
            made.restart(read_time(f"{name}-time_settings", words))
        elif name == "gtp":
            made.set_gtp(*map(float, words))
        elif name == "left":
            assert [made.left[colour].seconds, made.left[colour].number] == list(map(float, expected.split())), line
        else:
            found = getattr(made, name)(*([colour] if colour else []), *map(float, words[1:]))
            assert expected in ("", str(found)) or found == pytest.approx(float(expected)), line


@dataclass
class SlowSession:
    """A search without an end whose steps take as long as `duration` says. Its clock rests while nobody works."""

    duration: Callable[[], float]
    overhead: float = 0.0
    steps: int = 0
    most: list[int | None] = field(default_factory=list)
    now: float = 1000.0

    def set_position(self, game: LiveGame, to_play: Colour) -> None:
        self.now += self.overhead / 2

    def step(self, most: int | None = None) -> int:
        self.steps += 1
        self.most.append(most)
        self.now += self.duration()
        return 1 if most is None else min(8, most)

    def analysis(self, **_: object) -> types.SimpleNamespace:
        self.now += self.overhead / 2
        return types.SimpleNamespace(of_black=lambda player: (0.5, 0.0), best=None)


def quick(state: board.State) -> types.SimpleNamespace:
    """An evaluator that likes all legal moves alike."""
    legal = board.legal_actions(state)
    return types.SimpleNamespace(prior=legal.float() / legal.sum())


def slow_engine(monkeypatch, duration: Callable[[], float], overhead: float = 0.0, **options: object) -> GtpEngine:
    """Returns an engine on 9x9 that thinks slowly and then plays the first point."""
    analyst = types.SimpleNamespace(device="cpu", size=None, search=types.SimpleNamespace(evaluator=quick))
    session = SlowSession(duration, overhead)
    monkeypatch.setattr(players_engine.move_choice, "decide", lambda *_: 0)
    parts = LiveGame(Rules(9)), analyst, session, Options(**options)
    return GtpEngine("slow", *parts, clock=Clock(lag=0.3), log=print, now=lambda: session.now)


@dataclass
class Referee:
    """A controller's clock, which also counts a lag; `move` says what is left, or that the time is over."""

    settings: Settings
    main: float = 0.0
    period: float = 0.0
    number: int = 0

    def __post_init__(self) -> None:
        self.main, self.period, self.number = self.settings.main, self.settings.period, self.settings.number

    def move(self, seconds: float) -> None:
        """Takes the time of one move; fails where the flag falls."""
        taken_from_main = min(self.main, seconds)
        self.main, seconds = self.main - taken_from_main, seconds - taken_from_main
        if self.settings.kind == "fischer" and seconds == 0:
            self.main = min(self.main + self.settings.period, self.settings.most_main)
        if self.main > 0:
            return
        assert self.settings.kind != "absolute", "the flag has fallen"
        if self.settings.kind == "canadian":
            self.period -= seconds
            assert self.period >= 0, "the flag has fallen"
            self.number -= 1
            if self.number == 0:
                self.period, self.number = self.settings.period, self.settings.number
            return
        while seconds > self.settings.period:
            seconds, self.number = seconds - self.settings.period, self.number - 1
        assert self.number > 0, "the flag has fallen"

    def shown(self) -> TimeLeft:
        """Returns what `time_left` says."""
        if self.main > 0:
            return TimeLeft(self.main, 0)
        return TimeLeft(self.period if self.settings.kind == "canadian" else self.settings.period, self.number)


GAMES = {name: Settings(*fields) for name, fields in TABLES["games with a clock"].items()}


@pytest.mark.parametrize("reports", [True, False], ids=["time_left", "settings alone"])
@pytest.mark.parametrize("name", GAMES)
def test_no_game_is_lost_on_time(name: str, reports: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty moves with steps of 20 to 100 milliseconds, an overhead, and a lag that is nearly what is kept back."""
    draw = random.Random(name)
    engine = slow_engine(monkeypatch, lambda: draw.uniform(0.02, 0.1), overhead=0.05)
    referee = Referee(GAMES[name])
    engine.clock.restart(GAMES[name])
    engine.step_time.append(0.1)  # as the warming up would have found it
    for _ in range(60):
        if reports:
            engine.clock.report(BLACK, *referee.shown())
        begun = engine.now()
        engine.genmove(BLACK, plays=False)
        referee.move(engine.now() - begun + draw.uniform(0, 0.25))
    assert engine.session.steps > 60


def test_without_time_for_a_step_it_moves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step, of which nothing is known, is done; then it is known to take too long."""
    engine = slow_engine(monkeypatch, lambda: 4.0)
    engine.clock.set_gtp(40, 0, 0)
    assert engine.genmove(BLACK, plays=False) == "A9" and engine.session.steps == 1
    begun = engine.now()
    moves = [engine.genmove(BLACK, plays=False) for _ in range(6)]
    assert engine.now() == begun and "pass" not in moves
    engine.game.play(WHITE, 81)
    engine.game.change_rules(komi=-5)
    assert engine.genmove(BLACK, plays=False) != "pass", "hardly a stone stands"
    engine.game.set_up([[1] * 9] * 5 + [[0] * 9] * 4, WHITE)
    assert engine.game.turn == 45, "so it is no opening, where moves are drawn"
    engine.game.play(WHITE, 81)
    assert engine.genmove(BLACK, plays=False) == "pass" and engine.genmove(BLACK, plays=False, timed=False) == "A9"


def test_the_time_of_a_resignation_or_a_pass_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slow_engine(monkeypatch, lambda: 0.1)
    engine.clock.set_gtp(100, 0, 0)
    monkeypatch.setattr(players_engine.move_choice, "decide", lambda *_: None)
    assert engine.genmove(BLACK, plays=False) == "resign"
    spent = engine.now() - 1000
    assert spent > 1 and engine.clock.left[BLACK] == TimeLeft(pytest.approx(100 - spent - 0.3), 0)


@pytest.mark.parametrize(("settings", "options", "steps"), TABLES["what ends a search"])
def test_what_ends_a_search(settings: list, options: dict, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a clock the simulations, exactly; with a clock the time, or with --simulations whichever is first."""
    engine = slow_engine(monkeypatch, lambda: 0.1, **options)
    engine.clock.set_gtp(*settings)
    engine.genmove(BLACK, plays=False)
    assert abs(engine.session.steps - steps) <= 1
    assert steps != 3 or engine.session.most == [20, 12, 4]


def test_moves_left_shrink_and_never_end() -> None:
    game = LiveGame(Rules(9))
    first = moves_left(game)
    for action in range(0, 60, 2):
        game.play(BLACK, action)
    assert first == 36 and moves_left(game) == 21
    assert moves_left(LiveGame(Rules(1))) == 4
