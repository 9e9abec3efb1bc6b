"""A mind over one game: its tree follows moves and undo, bans are obeyed, and what it says is consistent and from the right side."""

from __future__ import annotations

import pytest
import torch

from zerogo.config import EvaluationConfig
from zerogo.errors import InputError
from zerogo.game import Player
from zerogo.players.live import LiveGame
from zerogo.players.mind import make_mind, mind_of_playouts
from zerogo.players.thinker import Ban, Thinker, _bytes
from zerogo.rules import Rules

CPU = torch.device("cpu")
BLACK, WHITE = Player.BLACK, Player.WHITE
# Black to move takes the whole board by C3 on 5x5 at this komi; White is alive nowhere.
RULES = Rules(5, 3.5)


@pytest.fixture
def thinker() -> Thinker:
    return Thinker(mind_of_playouts(64, leaves=4), capacity=600)


def think(thinker: Thinker, visits: int) -> None:
    while thinker.visits < visits and thinker.step():
        pass


def test_visits_add_up(thinker: Thinker) -> None:
    game = LiveGame(RULES)
    thinker.face(game)
    think(thinker, 65)
    thought = thinker.thought()
    assert thought.visits == thinker.visits == 1 + sum(candidate.visits for candidate in thought.candidates)
    assert [candidate.visits for candidate in thought.candidates] == sorted((c.visits for c in thought.candidates), reverse=True)
    assert thought.visits_by_action.sum() == thought.visits - 1
    assert thought.legal.all() and thought.prior.sum() == pytest.approx(1)
    for candidate in thought.candidates:
        assert candidate.pv[0] == candidate.action and candidate.pv_visits[0] == candidate.visits
        assert 0 <= candidate.lcb <= candidate.winrate <= 1
        assert list(candidate.pv_visits) == sorted(candidate.pv_visits, reverse=True)
        line = LiveGame(RULES)
        for action in candidate.pv:  # every move of a line is legal
            line.play(line.to_play, action)


def test_most_bounds_a_step(thinker: Thinker) -> None:
    thinker.face(LiveGame(RULES))
    assert thinker.step(1) == 1 and thinker.step(3) <= 3
    assert thinker.step() <= 4


def test_the_tree_follows_moves_and_undo(thinker: Thinker) -> None:
    game = LiveGame(RULES)
    thinker.face(game)
    think(thinker, 120)
    best = thinker.thought().best
    before = thinker.thought()
    game.play(BLACK, best.action)
    thinker.face(game)
    assert thinker.visits == best.visits
    think(thinker, best.visits + 20)
    after = thinker.thought()
    game.undo()
    thinker.face(game)
    lines = [(candidate.pv, candidate.pv_visits, candidate.value) for candidate in before.candidates]
    assert [(candidate.pv, candidate.pv_visits, candidate.value) for candidate in thinker.thought().candidates] == lines
    assert thinker.visits == before.visits
    think(thinker, before.visits + 10)  # and goes on from there
    assert thinker.visits >= before.visits + 10
    game.play(BLACK, best.action)
    thinker.face(game)
    assert thinker.visits >= after.visits - 1  # the line that was taken back is known as well


def test_another_start_is_another_tree(thinker: Thinker) -> None:
    game = LiveGame(RULES)
    thinker.face(game)
    think(thinker, 20)
    game.change_rules(komi=20.5)
    thinker.face(game)
    assert thinker.visits == 1
    think(thinker, 20)
    game.clear()
    thinker.face(game)
    assert thinker.visits == 1


def test_the_other_side_to_move(thinker: Thinker) -> None:
    """Black is about to win everything: the winrate is Black's when Black is asked, and White's when White is."""
    rows = [[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    for player, sign in ((BLACK, 1), (WHITE, -1)):
        game = LiveGame(RULES)
        game.set_up(rows, player)
        thinker.face(game)
        think(thinker, 60)
        thought = thinker.thought()
        assert sign * thought.value > 0.8 and sign * thought.score > 5
        assert (sign * thought.ownership[:3] == 1).all()
        assert all(sign * candidate.score > 0 for candidate in thought.candidates)
        thinker.face(game, player.other)
        think(thinker, 60)
        assert sign * thinker.thought().value < -0.8 and (sign * thinker.thought().ownership[:3] == -1).all()


def test_bans(thinker: Thinker) -> None:
    game = LiveGame(RULES)
    allowed = {12, 13}
    ban = Ban(black=frozenset(range(26)) - allowed, white=frozenset({12, 13, 25}), plies=2)
    thinker.face(game, ban=ban)
    think(thinker, 80)
    thought = thinker.thought()
    assert {candidate.action for candidate in thought.candidates} == allowed
    assert all(candidate.pv[1] not in (12, 13, 25) for candidate in thought.candidates if len(candidate.pv) > 1)
    thinker.face(game)
    assert thinker.visits == 1  # a tree with bans is not taken for one without
    thinker.face(game, ban=ban)
    assert thinker.visits == thought.visits


def test_nothing_left_but_everything(thinker: Thinker) -> None:
    """A ban of all moves bans none."""
    thinker.face(LiveGame(RULES), ban=Ban(black=frozenset(range(26)), plies=1))
    think(thinker, 40)
    assert len(thinker.thought().candidates) > 2


def test_a_finished_game_and_a_full_tree() -> None:
    game = LiveGame(RULES)
    thinker = Thinker(mind_of_playouts(64, leaves=4), capacity=40)
    thinker.face(game)
    think(thinker, 10**6)
    assert thinker.step() == 0 and thinker.visits >= 40
    game.play(BLACK, 12)
    thinker.face(game)
    assert thinker.step() > 0
    game.play(WHITE, 25)
    game.play(BLACK, 25)
    thinker.face(game)
    assert thinker.step() == 0
    assert thinker.thought().value == -1  # White to move has lost by 25 points less komi
    assert thinker.thought().candidates == []


def test_a_full_tree_grows() -> None:
    """It keeps all that it has, also when it is remembered, and stops at the bytes that it may take."""
    game = LiveGame(RULES)
    thinker = Thinker(mind_of_playouts(64, leaves=4), capacity=20)
    thinker.face(game)
    thinker.most_bytes = most = 200 * thinker._facing().tree.bytes_per_node
    think(thinker, 50)
    assert thinker.visits > 50 and thinker.thought().visits == thinker.visits
    think(thinker, 10**6)
    assert 100 < thinker.visits <= 200 and thinker.step() == 0
    full = thinker.thought()
    game.play(BLACK, full.best.action)
    thinker.face(game)
    assert thinker.visits == full.best.visits
    game.undo()
    thinker.face(game)
    assert [(found.action, found.visits, found.pv) for found in thinker.thought().candidates] == [
        (found.action, found.visits, found.pv) for found in full.candidates
    ]
    for point in (0, 6, 12, 18):
        game.play(game.to_play, point)
        thinker.face(game)
        think(thinker, 60)
    thinker.face(LiveGame(RULES))
    remembered = thinker._remembered.values()
    assert 1 < len(remembered) < 5 and sum(map(_bytes, remembered)) <= max(most, 12 * 20 * most // 200)


def test_the_shipped_network() -> None:
    mind = make_mind("checkpoints/quickstart-5x5.pt", EvaluationConfig(), CPU, torch.float32, leaves=4)
    thinker, game = Thinker(mind, capacity=600), LiveGame(Rules(5, 24.5))
    thinker.face(game)
    think(thinker, 64)
    thought = thinker.thought()
    assert thought.best.action == 12 and thought.ownership.shape == (5, 5) and thought.ownership.mean() > 0.4
    assert thought.score == pytest.approx(thought.ownership.sum() - 24.5, abs=1e-4)
    with pytest.raises(InputError, match="plays on 5x5 only; this game is on 9x9"):
        thinker.face(LiveGame(Rules(9)))


def test_words() -> None:
    for word in ("random", "mcts:0", "mcts", "nothing.pt"):
        with pytest.raises(InputError, match="can't think about positions; allowed are mcts:N"):
            make_mind(word, EvaluationConfig(), CPU, torch.float32)


def test_leaves_suit_the_simulations() -> None:
    """Few simulations take one leaf a step, many take several; simulations are the word's unless others are asked for."""
    found = {}
    for word, simulations, leaves in (("mcts:10", None, None), ("mcts:400", None, None), ("mcts:400", 30, None), ("mcts:400", 30, 5)):
        mind = make_mind(word, EvaluationConfig(), CPU, torch.float32, simulations=simulations, leaves=leaves)
        found[word, simulations, leaves] = (mind.name, mind.simulations, mind.search.settings.leaves)
    assert list(found.values()) == [("mcts:10", 10, 1), ("mcts:400", 400, 8), ("mcts:400", 30, 3), ("mcts:400", 30, 5)]


def test_the_same_thought_twice() -> None:
    made = []
    for _ in range(2):
        thinker = Thinker(mind_of_playouts(64, leaves=4), capacity=600, seed=3)
        thinker.face(LiveGame(RULES))
        think(thinker, 80)
        made.append(thinker.thought().candidates)
    assert made[0] == made[1]


def test_worth_of_one_move(thinker: Thinker) -> None:
    """It is that move's value, for the side that makes it, and what was thought before stays."""
    game = LiveGame(RULES)
    thinker.face(game)
    think(thinker, 60)
    before = thinker.thought()
    centre, corner = (thinker.worth(game, BLACK, action, 64) for action in (12, 0))
    assert -1 <= corner < centre <= 1
    assert thinker.thought().visits == before.visits and thinker.thought().candidates == before.candidates
