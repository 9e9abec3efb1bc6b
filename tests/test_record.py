"""Replayed records stand where the plain rules stand, with twice-moving sides, added passes and games of different
lengths."""

import random

import torch

from zerogo import board
from zerogo.board import NO_MOVE, replay
from zerogo.game import Colour
from zerogo.players.live import LiveGame
from zerogo.rules import Rules

RULES = [Rules(5, 3.5), Rules(5, 0.5, "simple"), Rules(5, 7.0, "situational", True), Rules(4, 1.0, "positional", True)]
EMPTY, BLACK_FIRST = torch.zeros(2, 3, 3, dtype=torch.int8), torch.ones(2, dtype=torch.int8)


def random_game(rules: Rules, rng: random.Random, length: int) -> LiveGame:
    """Returns a game in which a side often moves twice and passes come in pairs."""
    game = LiveGame(rules)
    for _ in range(length):
        player = rng.choice(list(Colour)) if rng.random() < 0.3 else game.to_play
        legal = [action for action in range(rules.size**2 + 1) if game.why_illegal(player, action) is None]
        game.play(player, rules.size**2 if rng.random() < 0.15 else rng.choice(legal))
    return game


def arrays(games: list[LiveGame]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns colours int8 [B, T] and actions int64 [B, T]."""
    longest = max(len(game.moves) for game in games)
    colours, actions = torch.zeros(len(games), longest, dtype=torch.int8), torch.full((len(games), longest), NO_MOVE)
    for row, game in enumerate(games):
        for ply, (player, action) in enumerate(game.moves):
            colours[row, ply], actions[row, ply] = player.value, action
    return colours, actions


def test_replay_agrees_with_the_plain_game() -> None:
    rng = random.Random(5)
    for rules in RULES:
        games = [random_game(rules, rng, rng.randrange(0, 40)) for _ in range(12)]
        n = rules.size
        empty, black = torch.zeros(12, n, n, dtype=torch.int8), torch.ones(12, dtype=torch.int8)
        state = replay(empty, black, rules, *arrays(games))
        for row, game in enumerate(games):
            assert state.stones[row].tolist() == game.state.stones()
            assert state.to_play[row] == game.to_play.value
            assert bool(state.finished[row]) == game.state.is_over
            if not game.state.is_over:
                assert board.legal_actions(state)[row].tolist() == game.state.legal_mask(), (rules, game.moves)
            alone = game.tensor()
            assert alone.hash[0] == state.hash[row] and alone.ply[0] == state.ply[row]


def test_next_to_play() -> None:
    """Whoever is asked to move next has the turn; the other side is taken to have passed."""
    game = LiveGame(Rules(3, superko="positional"))
    game.play(Colour.BLACK, 4)
    assert game.tensor(to_play=Colour.WHITE).ply[0] == 1
    again = game.tensor(to_play=Colour.BLACK)
    assert (int(again.to_play[0]), int(again.ply[0]), bool(again.finished[0])) == (1, 2, False)
    colours = torch.tensor([[1, 2], [1, 0]], dtype=torch.int8)
    mixed = replay(EMPTY, BLACK_FIRST, game.rules, colours, torch.tensor([[0, 1], [4, NO_MOVE]]), BLACK_FIRST)
    assert mixed.to_play.tolist() == [1, 1] and mixed.ply.tolist() == [2, 2]


def test_without_moves() -> None:
    to_play = torch.tensor([1, 2], dtype=torch.int8)
    state = replay(EMPTY, to_play, Rules(3), EMPTY[:, 0, :0], torch.zeros(2, 0, dtype=torch.int64))
    assert state.to_play.tolist() == [1, 2] and state.ply.tolist() == [0, 0] and not state.finished.any()
