"""When a player passes, resigns, captures dead stones, and what it counts: pinned positions for both colours, and whole
games."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from diagrams import parse
from tables import tables

from zerogo import board, scoring
from zerogo.evaluator import Evaluation
from zerogo.game import Colour
from zerogo.players.analyst import Analysis, Candidate
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import MoveChoiceSettings, decide, final_score_black, final_status
from zerogo.rules import Rules, coords

BLACK, WHITE, TABLES = Colour.BLACK, Colour.WHITE, tables("move_choice")
USUAL, CLEANUP = MoveChoiceSettings(), MoveChoiceSettings(cleanup=True)
BOTH = pytest.mark.parametrize("mirrored", [False, True], ids=["black", "white"])

SETTLED = ". X . X O \n X X X X O \n X X X O O \n O O O O . \n . O . O O"
# Black is alive on the left; White's stone there is dead. Strictly counted it spoils three of Black's points.
DEAD_WITHIN = """
. O . X O .
X X X X O O
X X X X O .
. X . X O O
X X X X O .
. X X X O O
"""
# Everything is pass-alive but for the dame in the middle.
DAME = ". X . O . \n X X . O O \n . X X O . \n X X O O O \n . X O . O"
ONE_CUT_OFF = ". . . . . \n . X X . . \n . . X O . \n . . . O . \n . . . . ."


class Owner:
    """An analyst with a fixed ownership, given for Black."""

    device = torch.device("cpu")

    def __init__(self, ownership_black: float) -> None:
        self.ownership = torch.full((5, 5), ownership_black)

    def evaluate(self, states: board.State) -> Evaluation:
        sign = 1 if int(states.to_play) == board.BLACK else -1
        return Evaluation(torch.zeros(1, 1), torch.zeros(1), sign * self.ownership.unsqueeze(0), torch.zeros(1))


def position(diagram: str, mirrored: bool = False, to_play: Colour = BLACK, passed: bool = False, **rules) -> LiveGame:
    """Returns a game from a diagram; mirrored: with all colours exchanged. passed: the other side has just passed."""
    rows = parse(diagram)
    if mirrored:
        rows = [[(0, 2, 1)[colour] for colour in row] for row in rows]
        to_play = to_play.other
        rules = {**rules, "komi": -float(rules.get("komi", 0.5))}
    game = LiveGame(Rules(**{"size": len(rows), "komi": 0.5, **rules}))
    game.set_up(rows, to_play.other if passed else to_play)
    if passed:
        game.play(to_play.other, len(rows) ** 2)
    return game


def analysis(
    game: LiveGame, values: dict[str, float], ownership: object = 0.0, value: float = 0.0, score: float = 0.0, **fields
) -> Analysis:
    """Returns an analysis with candidates in this order, each with its value; ownership for the side to move."""
    size = game.size
    actions = [coords.from_gtp(vertex, size) for vertex in values]
    pairs = zip(actions, values.values(), strict=True)
    candidates = [Candidate(action, 10, found, score, 0.1, 0.4, (action,), (10,)) for action, found in pairs]
    legal = np.array([game.why_illegal(game.to_play, action) is None for action in range(size * size + 1)])
    prior, visits_by_action = legal.astype(np.float32) / legal.sum(), np.zeros(size * size + 1, dtype=np.int64)
    ownership = np.broadcast_to(np.asarray(ownership, dtype=np.float32), (size, size))
    known = prior, legal, visits_by_action, ownership, value, score
    return Analysis(fields.get("visits", 100), value, score, candidates, *known)


def choice(
    game: LiveGame,
    found: Analysis | dict[str, float],
    settings: MoveChoiceSettings = USUAL,
    value_of: Callable[[int], float] | None = None,
) -> str:
    """Returns what is played, as a vertex, pass or resign; found: an analysis, or the values of its candidates."""
    found = analysis(game, found) if isinstance(found, dict) else found
    action = decide(game, game.to_play, found, settings, value_of)
    return "resign" if action is None else coords.to_gtp(action, game.size)


@BOTH
def test_passes_in_a_settled_position_though_the_search_would_play(mirrored: bool) -> None:
    game = position(SETTLED, mirrored)
    assert bool(scoring.all_pass_alive(game.tensor())[0])
    assert choice(game, {"A5": 0.9, "C5": 0.8}) == "pass"
    behind = position(SETTLED, mirrored, to_play=WHITE, komi=-20.5)
    assert choice(behind, analysis(behind, {"E2": -1.0}, value=-1.0, score=-30, visits=1000)) == "pass"


@BOTH
def test_captures_dead_stones_that_matter_before_it_passes(mirrored: bool) -> None:
    """With komi 9.5 Black is ahead only if White's stone is dead: a strict referee must see it gone."""
    game, sign = position(DEAD_WITHIN, mirrored, komi=9.5), -1 if mirrored else 1
    assert sign * game.state.score_black() < 0 < sign * float(scoring.final_score_black(game.tensor())[0])
    for passed in (False, True):
        game = position(DEAD_WITHIN, mirrored, komi=9.5, passed=passed)
        me, moves = game.to_play, []
        while len(moves) < 9 and (move := choice(game, {"pass": 1.0})) != "pass":
            moves.append(move)
            game.play(me, coords.from_gtp(move, 6))
            game.play(me.other, 36)
        assert len(moves) == 2 and sign * game.state.score_black() > 0


@BOTH
def test_cleanup_comes_after_the_game(mirrored: bool) -> None:
    """It used to take what the network called dead in the middle of the game, and lost games that were won (5x5 against
    GNU Go: 4 of 8)."""
    game = position(ONE_CUT_OFF, mirrored)
    assert choice(game, analysis(game, {"D4": 0.5, "E3": 0.45, "pass": -0.5}, 0.9, value=0.5), CLEANUP) == "D4"
    ended = position(ONE_CUT_OFF, mirrored, komi=-30.5, passed=True)
    over = analysis(ended, {"pass": 0.99}, 0.9, value=0.99)
    asked: list[int] = []
    assert choice(ended, over, CLEANUP) == "pass", "what nobody has searched is not played"
    assert choice(ended, over, CLEANUP, lambda action: asked.append(action) or -0.3) == "pass", "it costs the game"
    assert 1 < len(asked) < 6
    move = choice(ended, over, CLEANUP, lambda action: asked.append(action) or 0.95)
    assert move != "pass" and coords.from_gtp(move, 5) == asked[-1]
    assert choice(ended, over, USUAL, lambda action: 0.95) == "pass"


@BOTH
def test_plays_on_while_much_is_unsettled(mirrored: bool) -> None:
    """A pass used to be answered by a pass on an empty board, since the one stone there wins by area."""
    early = position(". . . . . \n . . . . . \n . . X . . \n . . . . . \n . . . . .", mirrored, passed=True)
    for values in ({"pass": 1.0, "C4": -0.2}, {"C4": 0.3, "pass": 1.0}, {}):
        assert choice(early, analysis(early, values, 0.95)) != "pass", values
    fought = position("X X . O . \n . X O . O \n X . X O . \n . X . O . \n . . X O .", mirrored, passed=True, komi=-3.5)
    for values, ownership, expected in TABLES["a fought board, its other half"]:
        assert choice(fought, analysis(fought, values, ownership)) == expected, (values, ownership)


@BOTH
def test_never_passes_where_a_capture_turns_the_result(mirrored: bool) -> None:
    diagram = "X X . O . \n O O X O O \n . X X O . \n . X . O O \n X . X O ."
    for passed in (False, True):
        for komi, expected in ((0.5, "A3"), (-30.5, "pass"), (30.5, "pass")):
            game = position(diagram, mirrored, passed=passed, komi=komi)
            found = analysis(game, {"pass": 0.9, "A3": -0.9}, 0.95 if komi < 0 else -0.95)
            assert choice(game, found) == expected, (passed, komi)


@BOTH
def test_never_plays_inside_pass_alive_territory(mirrored: bool) -> None:
    game = position(DAME, mirrored)
    assert choice(game, {"A5": 0.5, "D1": 0.45, "C4": 0.42}) == "C4"
    assert choice(game, {"A5": 0.5, "C4": -0.5}) == "pass", "inside is worth no more than a pass; outside much less"


@BOTH
def test_does_not_fill_decided_points_when_a_pass_costs_nothing(mirrored: bool) -> None:
    sure = np.array([[1, 1, 1, 1, -1, -1, -1]] * 7) * 0.97
    ownerships = {"sure": sure, "with dame": sure * np.array([1, 1, 1, 0, 1, 1, 1])}
    for rules, values, owned, expected, why in TABLES["decided points"]:
        game = position(". . X . O . . \n" * 7, mirrored, komi=-3.5, scoring=rules)
        assert choice(game, analysis(game, values, ownerships[owned])) == expected, why


@BOTH
def test_resigns_when_hopeless_and_only_then(mirrored: bool) -> None:
    game = position(". . . . . \n" * 5, mirrored)
    for vertex in ("C3", "B3", "D3", "B2", "D2", "C2", "C4", "B4", "D4", "B1", "D1", "B5", "C5", "A3"):
        game.play(game.to_play, coords.from_gtp(vertex, 5))

    def with_c1(settings: MoveChoiceSettings = USUAL, score: float = -9.0, **fields: int) -> str:
        return choice(game, analysis(game, {"C1": -0.98}, value=-0.98, score=score, **fields), settings)

    assert with_c1() == "resign"
    assert with_c1(MoveChoiceSettings(resign=False)) == "C1"
    assert with_c1(MoveChoiceSettings(resign_winrate=0.005)) == "C1"
    assert with_c1(visits=10) == "C1", "too few visits"
    assert with_c1(score=-0.5) == "C1", "half a point behind"
    game.undo(2)
    assert with_c1() == "C1", "half of a game on 5x5 is not over"


def test_handicap_games_are_not_given_up_early() -> None:
    game = LiveGame(Rules(size=9))
    game.place_handicap(coords.fixed_handicap(9, 4))
    for number in range(20):
        game.play(game.to_play, 81 if number % 2 == 0 else number)
    assert choice(game, analysis(game, {"E4": -1.0}, value=-1.0, score=-60)) == "E4"


def test_goes_on_by_the_prior_when_nothing_was_searched() -> None:
    game = LiveGame(Rules(size=5))
    assert choice(game, {}) == "A5"
    for action in (0, 25, 25):
        game.play(game.to_play, action)
    assert choice(game, {"C3": 0.0}) == "C3", "a game may go on after two passes"


def test_ownership_decides_where_nothing_is_pass_alive() -> None:
    game = position(". . . . . \n . X . . . \n . . . . . \n . . . O . \n . . . . .")
    assert final_status(game, None).dead == set()
    assert [final_status(game, Owner(share)).dead for share in (0.95, -0.95, 0.3)] == [{18}, {6}, set()]
    assert final_score_black(game, final_status(game, Owner(0.95))) == 24.5
    game.play(BLACK, 0)
    assert final_status(game, Owner(0.95)).dead == {18}, "whoever is to move"
    assert not final_status(position(SETTLED), Owner(-1.0)).dead, "pass-alive stones live whatever the analyst says"
