"""When a player passes, resigns, captures dead stones, and what it counts: pinned positions for both colours, and whole
games."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from boards import parse
from tables import tables

from zerogo import board, scoring
from zerogo.evaluator import Evaluation
from zerogo.game import Colour
from zerogo.players.analyst import Analysis, Candidate
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import Judge, MoveChoiceSettings, _Position, decide
from zerogo.rules import Rules, coords

BLACK, TABLES = Colour.BLACK, tables("move_choice")
USUAL, CLEANUP = MoveChoiceSettings(), MoveChoiceSettings(cleanup=True)
BOTH = pytest.mark.parametrize("mirrored", [False, True], ids=["black", "white"])


class Owner:
    """An analyst with a fixed ownership, given for Black."""

    device = torch.device("cpu")

    def __init__(self, ownership_black: float) -> None:
        self.ownership = torch.full((5, 5), ownership_black)

    def evaluate(self, states: board.State) -> Evaluation:
        sign = 1 if int(states.to_play) == board.BLACK else -1
        return Evaluation(torch.zeros(1, 1), torch.zeros(1), sign * self.ownership.unsqueeze(0), torch.zeros(1))


def position(
    name: str, mirrored: bool = False, to_play: str = "black", passed: bool = False, moves: str = "", **rules
) -> LiveGame:
    """Returns a game from a position of the table. mirrored: with all colours exchanged. passed: the other side has
    just passed. moves: what has been played there."""
    rows, colour = parse(TABLES["positions"][name]), Colour[to_play.upper()]
    if mirrored:
        rows = [[(0, 2, 1)[stone] for stone in row] for row in rows]
        colour, rules = colour.other, {**rules, "komi": -float(rules.get("komi", 0.5))}
    game = LiveGame(Rules(**{"size": len(rows), "komi": 0.5, **rules}))
    game.set_up(rows, colour.other if passed else colour)
    for vertex in [*["pass"] * passed, *moves.split()]:
        game.play(game.to_play, coords.from_gtp(vertex, game.size))
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
    found: Analysis,
    settings: MoveChoiceSettings = USUAL,
    value_of: Callable[[int], float] | None = None,
) -> str:
    """Returns what is played, as a vertex, pass or resign."""
    action = decide(game, game.to_play, found, settings, value_of)
    return "resign" if action is None else coords.to_gtp(action, game.size)


@BOTH
@pytest.mark.parametrize(("name", "changes", "values", "rest", "settings", "played", "why"), TABLES["choices"])
def test_what_is_played(
    name: str, changes: dict, values: dict, rest: dict, settings: dict, played: str, why: str, mirrored: bool
) -> None:
    game = position(name, mirrored, **changes)
    assert choice(game, analysis(game, values, **rest), MoveChoiceSettings(**settings)) == played, why


@BOTH
def test_captures_dead_stones_that_matter_before_it_passes(mirrored: bool) -> None:
    """With komi 9.5 Black is ahead only if White's stone is dead: a strict referee must see it gone."""
    game, sign = position("a dead stone within Black's area", mirrored, komi=9.5), -1 if mirrored else 1
    assert sign * game.state.score_black() < 0 < sign * float(scoring.final_score_black(game.tensor())[0])
    for passed in (False, True):
        game = position("a dead stone within Black's area", mirrored, komi=9.5, passed=passed)
        me, moves = game.to_play, []
        while len(moves) < 9 and (move := choice(game, analysis(game, {"pass": 1.0}))) != "pass":
            moves.append(move)
            game.play(me, coords.from_gtp(move, 6))
            game.play(me.other, 36)
        assert len(moves) == 2 and sign * game.state.score_black() > 0


@BOTH
def test_cleanup_comes_after_the_game(mirrored: bool) -> None:
    """It used to take dead stones in the middle of the game, and lost games that were won (4 of 8 on 5x5)."""
    game = position("one stone is cut off", mirrored)
    assert choice(game, analysis(game, {"D4": 0.5, "E3": 0.45, "pass": -0.5}, 0.9, value=0.5), CLEANUP) == "D4"
    ended = position("one stone is cut off", mirrored, komi=-30.5, passed=True)
    over = analysis(ended, {"pass": 0.99}, 0.9, value=0.99)
    asked: list[int] = []
    assert choice(ended, over, CLEANUP) == "pass", "what nobody has searched is not played"
    assert choice(ended, over, CLEANUP, lambda action: asked.append(action) or -0.3) == "pass", "it costs the game"
    assert 1 < len(asked) < 6
    move = choice(ended, over, CLEANUP, lambda action: asked.append(action) or 0.95)
    assert move != "pass" and coords.from_gtp(move, 5) == asked[-1]
    assert choice(ended, over, USUAL, lambda action: 0.95) == "pass"


def test_handicap_games_are_not_given_up_early() -> None:
    game = LiveGame(Rules(size=9))
    game.place_handicap(coords.fixed_handicap(9, 4))
    for number in range(20):
        game.play(game.to_play, 81 if number % 2 == 0 else number)
    assert choice(game, analysis(game, {"E4": -1.0}, value=-1.0, score=-60)) == "E4"


def test_a_move_that_is_tried_keeps_the_result() -> None:
    game = position("no stone")
    game.resign(Colour.BLACK)
    assert _Position(game, game.to_play, None, None, MoveChoiceSettings(), None).after(3, lambda: game.moves[:])
    assert game.result == "W+R" and not game.moves


def test_a_game_stays_over_after_further_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, game = [], position("no stone")
    monkeypatch.setattr("zerogo.players.move_choice.judge_stones", lambda state, *_, **__: seen.append(state.is_over))
    for _ in range(4):
        game.play(game.to_play, 25)
        Judge(None)(game)
    assert seen == [False, True, True, True]


def test_ownership_decides_where_nothing_is_pass_alive() -> None:
    game = position("no stone", moves="B4 D2")
    assert Judge(None)(game).dead == set()
    assert [Judge(Owner(share))(game).dead for share in (0.95, -0.95, 0.3)] == [{18}, {6}, set()]
    assert game.score_black(Judge(Owner(0.95))(game).dead) == 24.5
    game.play(BLACK, 0)
    assert Judge(Owner(0.95))(game).dead == {18}, "whoever is to move"
    assert not Judge(Owner(-1.0))(position("settled")).dead, "pass-alive stones live whatever the analyst says"
