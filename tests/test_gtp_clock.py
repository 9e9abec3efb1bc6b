"""The clock: what each kind of time settings leaves for a move, and whole games on a pretended clock that nobody may
lose on time.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from zerogo import board
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.gtp import genmove
from zerogo.gtp.clock import MEASUREMENTS, MIN_SECONDS, Clock, Durations, Settings, TimeLeft, kgs_time
from zerogo.gtp.engine import Engine, Options
from zerogo.players.live import LiveGame
from zerogo.rules import Rules

BLACK, WHITE = Colour.BLACK, Colour.WHITE


def clock(main: float, period: float, moves: int, lag: float = 0.5) -> Clock:
    """Returns a clock under GTP's settings."""
    made = Clock(lag=lag)
    made.set_gtp(main, period, moves)
    return made


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ((0, 1, 0), "none"),
        ((0, 0, 0), "none"),
        ((300, 30, 0), "none"),
        ((300, 0, 0), "absolute"),
        ((300, 0, 5), "absolute"),
        ((300, 30, 5), "canadian"),
        ((0, 10, 1), "canadian"),
    ],
)
def test_kinds(settings: tuple, kind: str) -> None:
    assert clock(*settings).settings.kind == kind


def test_without_a_clock_there_is_no_limit() -> None:
    made = Clock()
    assert made.seconds(BLACK, 30) is None
    made.spend(BLACK, 100)
    made.report(BLACK, 1, 0)
    assert made.seconds(BLACK, 30) is None


def test_absolute_time_is_shared_out() -> None:
    made = clock(300, 0, 0)
    assert made.seconds(BLACK, 30) == pytest.approx(10 - 0.5)
    made.spend(BLACK, 9)
    assert made.left[BLACK] == TimeLeft(290.5, 0) and made.left[WHITE] == TimeLeft(300, 0)
    made.report(WHITE, 3, 0)
    assert made.seconds(WHITE, 30) == MIN_SECONDS
    made.report(WHITE, -2, 0)
    assert made.seconds(WHITE, 30) == MIN_SECONDS
    made.spend(WHITE, 5)
    assert made.left[WHITE] == TimeLeft(0, 0)


def test_seconds_a_move() -> None:
    """Lizzie's and LizGoban's `time_settings 0 S 1`."""
    made = clock(0, 10, 1)
    for _ in range(3):
        assert made.seconds(BLACK, 30) == pytest.approx(9.5)
        made.spend(BLACK, 9.5)


def test_canadian_periods() -> None:
    made = clock(60, 100, 5)
    assert made.seconds(BLACK, 30) == pytest.approx(
        20 - 0.5
    )  # the share of a period, as main time gives only 2 seconds a move
    assert made.seconds(BLACK, 2) == pytest.approx(30 - 0.5)
    made.report(BLACK, 5, 0)
    assert made.seconds(BLACK, 30) == pytest.approx(20 - 0.5)  # main time's last move goes into the period
    made.spend(BLACK, 19.5)
    assert made.left[BLACK] == TimeLeft(85.0, 4)
    assert made.seconds(BLACK, 30) == pytest.approx(
        85 / 4 - 0.5
    )  # what was saved is spent where the controller reports it
    made.is_reported = False
    assert made.seconds(BLACK, 30) == pytest.approx(20 - 0.5)
    for _ in range(4):
        made.spend(BLACK, 10)
    assert made.left[BLACK] == TimeLeft(100, 5)  # a new period
    made.report(BLACK, 12, 3)
    assert made.seconds(BLACK, 30) == pytest.approx(4 - 0.5)


def test_japanese_periods() -> None:
    made = Clock(lag=0.5)
    made.set(kgs_time("byoyomi 60 10 3".split()))
    assert made.seconds(BLACK, 3) == pytest.approx(20 - 0.5) and made.seconds(BLACK, 30) == pytest.approx(10 - 0.5)
    made.report(BLACK, 1, 0)
    assert made.seconds(BLACK, 30) == pytest.approx(10 - 0.5)
    made.spend(BLACK, 9.5)
    assert made.left[BLACK] == TimeLeft(10, 3)
    made.spend(BLACK, 9.5)
    assert made.left[BLACK] == TimeLeft(10, 3)
    made.spend(BLACK, 12)
    assert made.left[BLACK] == TimeLeft(10, 2)
    made.spend(BLACK, 99)
    assert made.left[BLACK] == TimeLeft(10, 1)
    made.report(BLACK, 4, 1)
    assert made.seconds(BLACK, 30) == pytest.approx(4 - 0.5)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("none", Settings()),
        ("absolute 300", Settings("absolute", 300)),
        ("Byoyomi 600 30 5", Settings("byoyomi", 600, 30, 5)),
        ("canadian 600 300 25", Settings("canadian", 600, 300, 25)),
        ("byoyomi 0 0 0", Settings()),
        ("canadian 60 0 5", Settings("absolute", 60)),
    ],
)
def test_kgs_words(words: str, settings: Settings) -> None:
    assert kgs_time(words.split()) == settings


@pytest.mark.parametrize(
    "words", ["", "absolute", "absolute x", "none 3", "byoyomi 1 2", "byoyomi 1 2 x", "canadian -1 2 3", "fischer 1"]
)
def test_other_words(words: str) -> None:
    with pytest.raises(InputError):
        kgs_time(words.split())


def test_a_new_game_has_all_of_its_time() -> None:
    made = clock(300, 30, 5)
    made.spend(BLACK, 100)
    made.restart()
    assert made.left == {BLACK: TimeLeft(300, 0), WHITE: TimeLeft(300, 0)}


# Whole games


@dataclass
class Time:
    """A clock that stands still until somebody works."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class SlowSession:
    """A search whose steps take so long as `duration` says; it never comes to an end by itself."""

    time: Time
    duration: Callable[[], float]
    overhead: float = 0.0
    steps: int = 0
    most: list[int | None] = field(default_factory=list)

    def set_position(self, game: LiveGame, to_play: Colour) -> None:
        self.time.now += self.overhead / 2

    def step(self, most: int | None = None) -> int:
        self.steps += 1
        self.most.append(most)
        self.time.now += self.duration()
        return 1 if most is None else min(8, most)

    def analysis(self, **_: object) -> types.SimpleNamespace:
        self.time.now += self.overhead / 2
        return types.SimpleNamespace(winrate=0.5)


def quick(state: board.State) -> types.SimpleNamespace:
    """An evaluator that likes all legal moves alike."""
    legal = board.legal_actions(state)
    return types.SimpleNamespace(prior=legal.float() / legal.sum())


def slow_engine(
    monkeypatch: pytest.MonkeyPatch, duration: Callable[[], float], overhead: float = 0.0, **options: object
) -> Engine:
    """Returns an engine on 9x9 that thinks slowly and then plays the first point."""
    time = Time()
    analyst = types.SimpleNamespace(device="cpu", size=None, search=types.SimpleNamespace(evaluator=quick))
    session = SlowSession(time, duration, overhead)
    monkeypatch.setattr(genmove.move_choice, "decide", lambda *_: 0)
    return Engine("slow", LiveGame(Rules(9)), analyst, session, Clock(lag=0.3), Options(**options), log=print, now=time)


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


GAMES = {
    "one second a move": Settings("canadian", 0, 1, 1),
    "ten seconds a move": Settings("canadian", 0, 10, 1),
    "Canadian": Settings("canadian", 20, 30, 10),
    "Canadian at once": Settings("canadian", 0, 60, 25),
    "absolute": Settings("absolute", 60),
    "absolute and long": Settings("absolute", 600),
    "byo-yomi": Settings("byoyomi", 20, 3, 1),
    "several periods": Settings("byoyomi", 10, 2, 5),
}


@pytest.mark.parametrize("reports", [True, False], ids=["time_left", "settings alone"])
@pytest.mark.parametrize("name", GAMES)
def test_no_game_is_lost_on_time(name: str, reports: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty moves with steps of 20 to 100 milliseconds, an overhead, and a lag that is nearly what is kept back."""
    draw = random.Random(name)
    engine = slow_engine(monkeypatch, lambda: draw.uniform(0.02, 0.1), overhead=0.05)
    referee = Referee(GAMES[name])
    engine.clock.set(GAMES[name])
    engine.step_time.append(0.1)  # as the warming up would have found it
    for _ in range(60):
        if reports:
            engine.clock.report(BLACK, *vars(referee.shown()).values())
        begun = engine.now()
        genmove.choose(engine, BLACK)
        referee.move(engine.now() - begun + draw.uniform(0, 0.25))
    assert engine.session.steps > 60


def test_most_of_a_period_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slow_engine(monkeypatch, lambda: 0.1)
    engine.clock.set_gtp(0, 10, 1)
    genmove.choose(engine, BLACK)
    assert 9.4 <= engine.now() - 1000 <= 9.7


def test_a_step_that_would_take_too_long_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 4 seconds in a period of 10: the third would end behind it."""
    engine = slow_engine(monkeypatch, lambda: 4.0)
    engine.clock.set_gtp(0, 10, 1)
    genmove.choose(engine, BLACK)
    assert engine.session.steps == 2 and engine.step_time.longest == 4.0


def test_without_time_for_a_step_it_moves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step, of which nothing is known, is done; then it is known to take too long."""
    engine = slow_engine(monkeypatch, lambda: 4.0)
    engine.clock.set_gtp(40, 0, 0)
    assert genmove.choose(engine, BLACK) == 0 and engine.session.steps == 1
    begun = engine.now()
    moves = [genmove.choose(engine, BLACK) for _ in range(6)]
    assert engine.now() == begun and all(0 <= move < 81 for move in moves)
    engine.game.play(WHITE, 81)
    engine.game.change_rules(komi=-5)
    assert genmove.choose(engine, BLACK) == 81 and genmove.choose(engine, BLACK, timed=False) == 0


def test_no_game_is_lost_by_steps_that_take_longer_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slow_engine(monkeypatch, lambda: 0.8)
    engine.clock.set_gtp(0, 1, 1)
    engine.step_time.append(0.8)
    referee = Referee(engine.clock.settings)
    for _ in range(60):
        begun = engine.now()
        genmove.choose(engine, BLACK)
        referee.move(engine.now() - begun + 0.15)


def test_the_overhead_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slow_engine(monkeypatch, lambda: 0.01, overhead=1.0)
    engine.clock.set_gtp(0, 5, 1)
    taken = []
    for _ in range(4):
        begun = engine.now()
        genmove.choose(engine, BLACK)
        taken.append(engine.now() - begun)
    assert max(taken[1:]) <= 4.7


def test_the_time_of_a_resignation_or_a_pass_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slow_engine(monkeypatch, lambda: 0.1)
    engine.clock.set_gtp(100, 0, 0)
    monkeypatch.setattr(genmove.move_choice, "decide", lambda *_: None)
    assert genmove.choose(engine, BLACK) is None
    spent = engine.now() - 1000
    assert spent > 1 and engine.clock.left[BLACK] == TimeLeft(pytest.approx(100 - spent - 0.3), 0)


@pytest.mark.parametrize(
    ("settings", "options", "steps"),
    [
        ((0, 1, 0), {"simulations": 20}, 3),  # no clock: the simulations
        ((0, 10, 1), {"simulations": 20, "most_simulations": 20}, 3),  # a clock and --simulations: whichever is first
        ((0, 1, 1), {"simulations": 8000, "most_simulations": 8000}, 6),
        ((0, 10, 1), {"simulations": 20}, 96),  # a clock alone: the time
        ((0, 10, 1), {"simulations": 20, "most_seconds": 1.0}, 9),
        ((0, 1, 0), {"simulations": 20, "most_seconds": 1.0}, 9),
    ],
)
def test_what_ends_a_search(settings: tuple, options: dict, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slow_engine(monkeypatch, lambda: 0.1, **options)
    engine.clock.set_gtp(*settings)
    genmove.choose(engine, BLACK)
    assert abs(engine.session.steps - steps) <= 1


def test_simulations_are_not_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = slow_engine(monkeypatch, lambda: 0.1, simulations=20)
    genmove.choose(engine, BLACK)
    assert engine.session.most == [20, 12, 4]


def test_one_slow_step_makes_no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = iter([0.01, 3.0, *[0.01] * 1000])
    engine = slow_engine(monkeypatch, lambda: next(durations))
    engine.clock.set_gtp(0, 1, 1)
    for steps in (2, 3, 4):
        genmove.choose(engine, BLACK)
        assert engine.session.steps == steps  # one each, until the slow one is forgotten


def test_durations() -> None:
    durations = Durations()
    assert (durations.longest, durations.median) == (0, 0)
    for seconds in (1, 9, 1.5):
        durations.append(seconds)
    assert (durations.longest, durations.median) == (9, 1.5)
    for _ in range(MEASUREMENTS):
        durations.append(1)
    assert durations.longest == 1


def test_moves_left_shrink_and_never_end() -> None:
    game = LiveGame(Rules(9))
    first = genmove.moves_left(game)
    for action in range(0, 60, 2):
        game.play(BLACK, action)
    assert first == 36 and genmove.moves_left(game) == 21
    assert genmove.moves_left(LiveGame(Rules(1))) == 4
