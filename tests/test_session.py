"""A analyst over one game: its tree follows moves and undo, bans are obeyed, and what it says is consistent and from
the right side."""

from __future__ import annotations

import pytest
import torch

from zerogo.config import EvaluationConfig
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players.analyst import analyst_of_playouts, make_analyst
from zerogo.players.live import LiveGame
from zerogo.players.restrictions import restrict
from zerogo.players.session import AnalysisSession, _bytes
from zerogo.rules import Rules

CPU = torch.device("cpu")
BLACK, WHITE = Colour.BLACK, Colour.WHITE
# Black to move takes the whole board by C3 on 5x5 at this komi; White is alive nowhere.
RULES = Rules(5, 3.5)


@pytest.fixture
def session() -> AnalysisSession:
    return AnalysisSession(analyst_of_playouts(64, leaves=4), capacity=600)


def think(session: AnalysisSession, visits: int) -> None:
    while session.visits < visits and session.step():
        pass


def test_visits_add_up(session: AnalysisSession) -> None:
    game = LiveGame(RULES)
    session.set_position(game)
    think(session, 65)
    analysis = session.analysis()
    assert analysis.visits == session.visits == 1 + sum(candidate.visits for candidate in analysis.candidates)
    assert [candidate.visits for candidate in analysis.candidates] == sorted(
        (c.visits for c in analysis.candidates), reverse=True
    )
    assert analysis.visits_by_action.sum() == analysis.visits - 1
    assert analysis.legal.all() and analysis.prior.sum() == pytest.approx(1)
    for candidate in analysis.candidates:
        assert candidate.pv[0] == candidate.action and candidate.pv_visits[0] == candidate.visits
        assert 0 <= candidate.lcb <= candidate.winrate <= 1
        assert list(candidate.pv_visits) == sorted(candidate.pv_visits, reverse=True)
        line = LiveGame(RULES)
        for action in candidate.pv:  # every move of a line is legal
            line.play(line.to_play, action)


def test_most_bounds_a_step(session: AnalysisSession) -> None:
    session.set_position(LiveGame(RULES))
    assert session.step(1) == 1 and session.step(3) <= 3
    assert session.step() <= 4


def test_the_tree_follows_moves_and_undo(session: AnalysisSession) -> None:
    game = LiveGame(RULES)
    session.set_position(game)
    think(session, 120)
    best = session.analysis().best
    before = session.analysis()
    game.play(BLACK, best.action)
    session.set_position(game)
    assert session.visits == best.visits
    think(session, best.visits + 20)
    after = session.analysis()
    game.undo()
    session.set_position(game)
    lines = [(candidate.pv, candidate.pv_visits, candidate.value) for candidate in before.candidates]
    assert [
        (candidate.pv, candidate.pv_visits, candidate.value) for candidate in session.analysis().candidates
    ] == lines
    assert session.visits == before.visits
    think(session, before.visits + 10)  # and goes on from there
    assert session.visits >= before.visits + 10
    game.play(BLACK, best.action)
    session.set_position(game)
    assert session.visits >= after.visits - 1  # the line that was taken back is known as well


def test_another_start_is_another_tree(session: AnalysisSession) -> None:
    game = LiveGame(RULES)
    session.set_position(game)
    think(session, 20)
    game.change_rules(komi=20.5)
    session.set_position(game)
    assert session.visits == 1
    think(session, 20)
    game.clear()
    session.set_position(game)
    assert session.visits == 1


def test_the_other_side_to_move(session: AnalysisSession) -> None:
    """Black is about to win everything: the winrate is Black's when Black is asked, and White's when White is."""
    rows = [[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    for player, sign in ((BLACK, 1), (WHITE, -1)):
        game = LiveGame(RULES)
        game.set_up(rows, player)
        session.set_position(game)
        think(session, 60)
        analysis = session.analysis()
        assert sign * analysis.value > 0.8 and sign * analysis.score > 5
        assert (sign * analysis.ownership[:3] == 1).all()
        assert all(sign * candidate.score > 0 for candidate in analysis.candidates)
        session.set_position(game, player.other)
        think(session, 60)
        assert sign * session.analysis().value < -0.8 and (sign * session.analysis().ownership[:3] == -1).all()


def test_bans(session: AnalysisSession) -> None:
    game = LiveGame(RULES)
    allowed = {12, 13}
    restrictions = restrict(5, avoid=[(BLACK, set(range(26)) - allowed, 2), (WHITE, allowed | {25}, 2)])
    session.set_position(game, restrictions=restrictions)
    think(session, 80)
    analysis = session.analysis()
    assert {candidate.action for candidate in analysis.candidates} == allowed
    assert all(candidate.pv[1] not in (12, 13, 25) for candidate in analysis.candidates if len(candidate.pv) > 1)
    session.set_position(game)
    assert session.visits == 1  # a tree with restrictions is not taken for one without
    session.set_position(game, restrictions=restrictions)
    assert session.visits == analysis.visits


def test_nothing_left_but_everything(session: AnalysisSession) -> None:
    """Where all moves are to be avoided, all may be played."""
    session.set_position(LiveGame(RULES), restrictions=restrict(5, avoid=[(BLACK, range(26), 1)]))
    think(session, 40)
    assert len(session.analysis().candidates) > 2


def test_a_finished_game_and_a_full_tree() -> None:
    game = LiveGame(RULES)
    session = AnalysisSession(analyst_of_playouts(64, leaves=4), capacity=40)
    session.set_position(game)
    think(session, 10**6)
    assert session.step() == 0 and session.visits >= 40
    game.play(BLACK, 12)
    session.set_position(game)
    assert session.step() > 0
    game.play(WHITE, 25)
    game.play(BLACK, 25)
    session.set_position(game)
    assert session.step() == 0
    assert session.analysis().value == -1  # White to move has lost by 25 points less komi
    assert session.analysis().candidates == []


def test_a_full_tree_grows() -> None:
    """It keeps all that it has, also when it is remembered, and stops at the bytes that it may take."""
    game = LiveGame(RULES)
    session = AnalysisSession(analyst_of_playouts(64, leaves=4), capacity=20)
    session.set_position(game)
    session.most_bytes = most = 200 * session._current().tree.bytes_per_node
    think(session, 50)
    assert session.visits > 50 and session.analysis().visits == session.visits
    think(session, 10**6)
    assert 100 < session.visits <= 200 and session.step() == 0
    full = session.analysis()
    game.play(BLACK, full.best.action)
    session.set_position(game)
    assert session.visits == full.best.visits
    game.undo()
    session.set_position(game)
    assert [(found.action, found.visits, found.pv) for found in session.analysis().candidates] == [
        (found.action, found.visits, found.pv) for found in full.candidates
    ]
    for point in (0, 6, 12, 18):
        game.play(game.to_play, point)
        session.set_position(game)
        think(session, 60)
    session.set_position(LiveGame(RULES))
    remembered = session._remembered.values()
    assert 1 < len(remembered) < 5 and sum(map(_bytes, remembered)) <= max(most, 12 * 20 * most // 200)


def test_the_shipped_network() -> None:
    analyst = make_analyst("checkpoints/quickstart-5x5.pt", EvaluationConfig(), CPU, torch.float32, leaves=4)
    session, game = AnalysisSession(analyst, capacity=600), LiveGame(Rules(5, 24.5))
    session.set_position(game)
    think(session, 64)
    analysis = session.analysis()
    assert analysis.best.action == 12 and analysis.ownership.shape == (5, 5) and analysis.ownership.mean() > 0.4
    assert analysis.score == pytest.approx(analysis.ownership.sum() - 24.5, abs=1e-4)
    with pytest.raises(InputError, match="plays on 5x5 only; this game is on 9x9"):
        session.set_position(LiveGame(Rules(9)))


def test_words() -> None:
    for word in ("random", "mcts:0", "mcts", "nothing.pt"):
        with pytest.raises(InputError, match="can't think about positions; allowed are mcts:N"):
            make_analyst(word, EvaluationConfig(), CPU, torch.float32)


def test_leaves_suit_the_simulations() -> None:
    """Few simulations take one leaf a step, many take several; simulations are the word's unless others are asked
    for.
    """
    found = {}
    for word, simulations, leaves in (
        ("mcts:10", None, None),
        ("mcts:400", None, None),
        ("mcts:400", 30, None),
        ("mcts:400", 30, 5),
    ):
        analyst = make_analyst(word, EvaluationConfig(), CPU, torch.float32, simulations=simulations, leaves=leaves)
        found[word, simulations, leaves] = (analyst.name, analyst.simulations, analyst.search.settings.leaves)
    assert list(found.values()) == [("mcts:10", 10, 1), ("mcts:400", 400, 8), ("mcts:400", 30, 3), ("mcts:400", 30, 5)]


def test_the_same_thought_twice() -> None:
    made = []
    for _ in range(2):
        session = AnalysisSession(analyst_of_playouts(64, leaves=4), capacity=600, seed=3)
        session.set_position(LiveGame(RULES))
        think(session, 80)
        made.append(session.analysis().candidates)
    assert made[0] == made[1]


def test_worth_of_one_move(session: AnalysisSession) -> None:
    """It is that move's value, for the side that makes it, and what was thought before stays."""
    game = LiveGame(RULES)
    session.set_position(game)
    think(session, 60)
    before = session.analysis()
    centre, corner = (session.value_of(game, BLACK, action, 64) for action in (12, 0))
    assert -1 <= corner < centre <= 1
    assert session.analysis().visits == before.visits and session.analysis().candidates == before.candidates
