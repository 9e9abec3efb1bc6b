"""The random player, playouts seen from both sides, and players by their names."""

import random

import pytest
import tiny
import torch
from boards import of_stones, parse
from slow_scoring import slow_eye
from tables import tables
from torch import Tensor

from zerogo import board
from zerogo.board import flood, rng
from zerogo.config import EvaluationConfig, SearchConfig
from zerogo.errors import InputError
from zerogo.game import GameState, Move, Point
from zerogo.players import playout
from zerogo.players.analyst import SearchPlayer, make_player
from zerogo.players.playout import PlayoutEvaluator
from zerogo.rules import Rules
from zerogo.search import Search
from zerogo.selfplay.opening import RandomPlayer, draw_point

BLACKS = parse([".X.X.", *["XXXXX"] * 3, ".X.X."])  # the whole board is Black's


def test_points_are_drawn_evenly_and_pass_where_there_is_none() -> None:
    rows = torch.tensor([[0b01001, 0, 0b10000, 0, 0b00001], [0, 0, 0, 0, 0]], dtype=torch.int32)
    drawn = draw_point(rng.uniform(rng.key(1, torch.arange(4000)), 1).squeeze(1), rows[:1].expand(4000, -1))
    points, counts = drawn.unique(return_counts=True)
    assert points.tolist() == [0, 3, 14, 20]
    assert bool(((counts - 1000).abs() < 130).all())  # 27 is one standard deviation
    assert draw_point(torch.tensor([0.5]), rows[1:]).tolist() == [25]


def test_the_random_player_is_legal_and_never_fills_its_own_eye() -> None:
    states, ids, player = board.new_games(16, Rules(5), move_cap=150), torch.arange(16), RandomPlayer()
    while not bool(states.finished.all()):
        actions = player.choose(states, ids, seed=4)
        legal = board.legal_actions(states)
        assert bool(legal.gather(1, actions.unsqueeze(1)).all())
        own = torch.where((states.to_play == 1).unsqueeze(1), states.black, states.white)
        spared = legal[:, :-1] & ~flood.unpack_rows(flood.eyes(own, states.on_board)).flatten(1)
        passes = actions == 25
        assert bool((passes == ~spared.any(1)).all()), "a pass while there was something to play, or the reverse"
        assert bool((passes | spared.gather(1, actions.clamp(max=24).unsqueeze(1)).squeeze(1)).all())
        states = board.step(states, actions)


@pytest.mark.parametrize(("to_play", "value"), [(1, 1.0), (2, -1.0)])
def test_playouts_of_a_won_board_are_won_by_its_owner_whoever_moves(to_play: int, value: float) -> None:
    komis = [24.5, 25.0, 25.5]
    values = PlayoutEvaluator()(of_stones([BLACKS] * 3, [Rules(5, komi) for komi in komis], to_play)).value
    assert values.tolist() == [value, 0.0, -value]
    whites = [[2 * colour for colour in row] for row in BLACKS]
    values = PlayoutEvaluator()(of_stones([whites] * 3, [Rules(5, -komi) for komi in komis], to_play)).value
    assert values.tolist() == [-value, 0.0, value]
    legal = (own := of_stones([BLACKS], Rules(5))).stones.flatten(1) == 0  # its eyes: a search may forbid the pass
    legal = torch.cat([legal, torch.zeros(1, 1, dtype=torch.bool)], dim=1)
    assert torch.equal(PlayoutEvaluator()(own, legal).prior, legal / legal.sum())


def score_of_playout(state: GameState, key: Tensor) -> float:
    """Returns Black's score after a playout of plain rules, of points that are no eye; a suicide waits for a move."""
    size, struck, num_moves = state.rules.size, {state.ko}, 0
    for drawn in ((rng.split(key.unsqueeze(0), 9 * size**2)[0] >> 40) & 0xFFFFFF).tolist():
        if state.is_over or num_moves == playout.LONGEST * size**2:
            break
        stones, colour = state.stones(), state.to_play.value
        points = [Point(row, column) for row in range(size) for column in range(size) if not stones[row][column]]
        points = [point for point in points if point not in struck and not slow_eye(stones, colour, *point)]
        move = Move.play(points[drawn * len(points) >> 24]) if points else Move.pass_turn()
        if (state.why_illegal(move) or "").startswith("suicide"):
            struck.add(move.point)
        else:
            state, num_moves = state.play(move), num_moves + 1
            struck = {state.ko}
    return state.area_score_black()


@pytest.mark.parametrize("size, plies", [(5, 0), (5, 12), (5, 30), (7, 20), (3, 4)])
def test_playouts_are_those_of_the_plain_rules(size: int, plies: int) -> None:
    """By the kernels, which `test_trials` holds against torch."""
    chance, keys = random.Random(plies), rng.key(size, torch.arange(20))
    rules = Rules(size, komi=0.0, superko="simple")
    state = GameState.new(rules)
    for _ in range(plies):
        state = state.play(chance.choice(state.legal_moves()[:-1] or [Move.pass_turn()]))
    state = GameState.from_stones(state.stones(), state.to_play, rules)
    ends, _ = playout._play_games(of_stones([state.stones()], rules, state.to_play.value), keys.unsqueeze(0))
    assert ends[0].sum((1, 2)).tolist() == [score_of_playout(state, key) for key in keys]


def test_a_network_of_another_board_size_is_refused() -> None:
    player = SearchPlayer("nine", Search(PlayoutEvaluator(), SearchConfig(algorithm="puct")), 4, sizes={9: [7.0]})
    with pytest.raises(InputError, match="9x9.*5x5"):
        player.choose(board.new_games(1, Rules(5)), torch.arange(1), seed=1)


@pytest.mark.parametrize(("simulations", "chosen", "algorithm", "considered"), tables("players")["searches"])
def test_a_network_searches_to_play_well(simulations: int, chosen: str, algorithm: str, considered: int) -> None:
    """Not by the numbers of self-play: Gumbel begins with no more moves than the simulations can tell apart."""
    config = tiny.config("search.max_considered=2", "search.c_puct=3", "search.algorithm=puct")
    settings = EvaluationConfig(simulations=simulations, algorithm=chosen)
    search = make_player(tiny.fresh_checkpoint(config), settings, torch.device("cpu"), torch.float32).search
    assert search.settings.algorithm == algorithm and search.settings.max_considered == considered
    assert search.settings.c_puct == 1.0
    assert search.root_evaluator.symmetries == ("all" if simulations >= 64 else "random")
