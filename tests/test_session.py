"""An analyst over one game: its tree follows moves and undo, restrictions hold, and what it says is consistent and from
the right side."""

import pytest
import torch

from zerogo.config import EvaluationConfig
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players.analyst import Candidate, analyst_of_playouts, make_analyst
from zerogo.players.live import LiveGame
from zerogo.players.session import AnalysisSession, restrict
from zerogo.rules import Rules

CPU = torch.device("cpu")
BLACK, WHITE = Colour.BLACK, Colour.WHITE
# Black to move takes the whole board by C3 on 5x5 at this komi; White is alive nowhere.
RULES = Rules(5, 3.5)
ASKED = {"simulations": 30}
LEAVES = [("mcts:10", {}, (8, 1)), ("mcts:400", {}, (37, 4)), ("mcts:400", ASKED, (30, 3))]
LEAVES.append(("mcts:400", ASKED | {"leaves": 5}, (30, 5)))


@pytest.fixture
def session() -> AnalysisSession:
    return AnalysisSession(analyst_of_playouts(64, leaves=4), capacity=600)


@pytest.fixture
def game() -> LiveGame:
    return LiveGame(RULES)


def search(session: AnalysisSession, game: LiveGame, visits: int, *position: object) -> AnalysisSession:
    """Returns the session at a position, see `set_position`, with so many visits."""
    session.set_position(game, *position)
    session.run(visits - session.visits)
    return session


def lines(candidates: list[Candidate]) -> list[tuple]:
    return [(found.action, found.visits, found.value, found.pv, found.pv_visits) for found in candidates]


def test_visits_add_up(session: AnalysisSession, game: LiveGame) -> None:
    analysis = search(session, game, 65).analysis()
    assert analysis.visits == session.visits == 1 + sum(candidate.visits for candidate in analysis.candidates)
    visits = [candidate.visits for candidate in analysis.candidates]
    assert visits == sorted(visits, reverse=True) and analysis.visits_by_action.sum() == analysis.visits - 1
    assert analysis.legal.all() and analysis.prior.sum() == pytest.approx(1)
    for candidate in analysis.candidates:
        assert candidate.pv[0] == candidate.action and candidate.pv_visits[0] == candidate.visits
        assert 0 <= candidate.lcb <= candidate.winrate <= 1
        assert list(candidate.pv_visits) == sorted(candidate.pv_visits, reverse=True)
        line = LiveGame(RULES)
        for action in candidate.pv:  # every move of a line is legal
            line.play(line.to_play, action)


def test_steps_and_runs_are_bounded(session: AnalysisSession, game: LiveGame) -> None:
    session.set_position(game)
    assert session.step(1) == 1 and session.step(3) <= 3
    assert session.step() <= 4
    asked: list[int] = []
    assert session.run(10) == 10 and session.run(0) == 0
    assert 0 < session.run(100, lambda: asked.append(1) or len(asked) > 2) < 100 and len(asked) == 3


def test_the_tree_follows_moves_and_undo(session: AnalysisSession, game: LiveGame) -> None:
    before = search(session, game, 120).analysis()
    game.play(BLACK, before.best.action)
    session.set_position(game)
    assert session.visits == before.best.visits
    after = search(session, game, before.best.visits + 20).visits
    game.undo()
    session.set_position(game)
    assert lines(session.analysis().candidates) == lines(before.candidates) and session.visits == before.visits
    assert search(session, game, before.visits + 10).visits >= before.visits + 10  # and goes on from there
    game.play(BLACK, before.best.action)
    session.set_position(game)
    assert session.visits >= after - 1  # the line that was taken back is known as well


def test_another_start_is_another_tree(session: AnalysisSession, game: LiveGame) -> None:
    for change in (lambda: game.change_rules(komi=20.5), lambda: game.set_up(game.start, Colour.BLACK)):
        search(session, game, 20)
        change()
        session.set_position(game)
        assert session.visits == 1


@pytest.mark.parametrize("moves", [[], [12], [25]], ids=["Black's view", "White's view", "after a pass"])
def test_scores_are_means_over_the_search(moves: list[int]) -> None:
    """Of the root's own evaluation, which looks at all symmetries, and of what follows each move."""
    analyst = make_analyst("checkpoints/quickstart-5x5.pt", EvaluationConfig(), CPU, torch.float32, leaves=2)
    game, session = LiveGame(Rules(5, 24.5)), AnalysisSession(analyst, capacity=600)
    for action in moves:
        game.play(game.to_play, action)
    analysis = search(session, game, 64).analysis()
    total = analysis.raw_score + sum(move.visits * move.score for move in analysis.candidates)
    assert total == pytest.approx(analysis.visits * analysis.score, abs=0.1)
    assert abs(analysis.score - analysis.raw_score) > 0.01
    game.play(game.to_play, analysis.best.action)
    session.set_position(game)
    assert session.analysis().score == pytest.approx(-analysis.best.score, abs=1e-3), "kept with its tree"


def test_restrictions(session: AnalysisSession, game: LiveGame) -> None:
    allowed = {12, 13}
    restrictions = restrict(5, avoid=[(BLACK, set(range(26)) - allowed, 2), (WHITE, allowed | {25}, 2)])
    analysis = search(session, game, 80, None, restrictions).analysis()
    assert {candidate.action for candidate in analysis.candidates} == allowed
    assert all(candidate.pv[1] not in (12, 13, 25) for candidate in analysis.candidates if len(candidate.pv) > 1)
    session.set_position(game)
    assert session.visits == 1  # a tree with restrictions is not taken for one without
    session.set_position(game, restrictions=restrictions)
    assert session.visits == analysis.visits
    game.play(BLACK, 25)
    for avoided, is_certain in ({25}, False), ({24}, True):  # White wins by passing, too
        session.set_position(game, None, restrict(5, avoid=[(WHITE, avoided, 1)]))
        assert (session.analysis().value == 1) == is_certain
    game.undo()
    everything = restrict(5, avoid=[(BLACK, range(26), 1)])  # where all moves are to be avoided, all may be played
    assert len(search(session, game, 40, None, everything).analysis().candidates) > 2


def test_avoid_and_allow() -> None:
    black, white = restrict(2, avoid=[(BLACK, {0, 4}, 3), (WHITE, {1}, 1), (BLACK, {0}, 2)])
    assert (black, white) == ((2, 0, 0, 0, 3), (0, 1, 0, 0, 0))
    assert restrict(2, allow=[(WHITE, {4}, 6)]) == ((0,) * 5, (6, 6, 6, 6, 0))
    assert restrict(2, avoid=[(BLACK, {0}, 3)], allow=[(WHITE, {4}, 6)]) == ((3, 0, 0, 0, 0), (6, 6, 6, 6, 0))
    assert restrict(2) is None and restrict(2, allow=[(BLACK, range(5), 9)]) is None
    for wrong in ({"avoid": [(BLACK, {0}, 1)], "allow": [(BLACK, {1}, 1)]}, {"allow": [(BLACK, {0}, 1)] * 2}):
        with pytest.raises(InputError, match="moves may be allowed once for each colour, and not together"):
            restrict(2, **wrong)


def test_a_full_tree_grows(game: LiveGame) -> None:
    """It keeps all that it has, also when it is remembered, and stops at the bytes that it may take."""
    session = AnalysisSession(analyst_of_playouts(64, leaves=4), capacity=20)
    session.set_position(game)
    session.most_bytes = most = 200 * session._search_state.tree.bytes_per_node
    assert search(session, game, 51).visits > 50 and session.analysis().visits == session.visits
    assert 100 < search(session, game, 10**6).visits <= 200 and session.step() == 0
    full = session.analysis()
    game.play(BLACK, full.best.action)
    session.set_position(game)
    assert session.visits == full.best.visits
    game.undo()
    session.set_position(game)
    assert lines(session.analysis().candidates) == lines(full.candidates)
    for point in (0, 6, 12, 18):
        game.play(game.to_play, point)
        search(session, game, 60)
    session.set_position(LiveGame(RULES))
    remembered = session._kept_trees.values()
    assert 1 < len(remembered) < 5 and session._kept_bytes <= max(most, 12 * 20 * most // 200)


@pytest.mark.parametrize(("word", "asked", "expected"), LEAVES)
def test_leaves_suit_the_simulations(word: str, asked: dict[str, int], expected: tuple[int, int]) -> None:
    """Few simulations take one leaf a step, many several; they are the word's unless others are asked for."""
    analyst = make_analyst(word, EvaluationConfig(), CPU, torch.float32, **asked)
    assert (analyst.name, analyst.simulations, analyst.search.settings.leaves) == (word, *expected)


def test_the_value_of_one_move(session: AnalysisSession, game: LiveGame) -> None:
    """It is that move's value, for the side that makes it, and the analysis of before stays."""
    before = search(session, game, 60).analysis()
    centre, corner = (session.value_of(game, BLACK, action, 64) for action in (12, 0))
    assert -1 <= corner < centre <= 1
    assert session.analysis().visits == before.visits and session.analysis().candidates == before.candidates


def test_a_copy_of_a_game_goes_to_other_moves_as_far_as_they_are_legal(game: LiveGame) -> None:
    for player, action in ((BLACK, 7), (WHITE, 8), (BLACK, 25)):
        game.play(player, action)
    other = game.copy()
    assert other.go_to([*game.moves[:2], (BLACK, 8)]).startswith("illegal move of black: occupied")
    assert other.moves == game.moves[:2] != game.moves and other.go_to(game.moves) is None
