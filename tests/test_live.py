"""The game in front of a person: rules that change, handicap and records, which stand replayed where the plain rules
stand."""

import pytest

from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players.live import LiveGame
from zerogo.rules import Rules

BLACK, WHITE = Colour.BLACK, Colour.WHITE


def played(rules: Rules, *moves: tuple[Colour, int]) -> LiveGame:
    game = LiveGame(rules)
    for colour, action in moves:
        game.play(colour, action)
    return game


def test_rules_change_under_way() -> None:
    """A suicide that was legal stays played when suicide is forbidden, and superko counts what has stood on the
    board."""
    rules = Rules(3, superko="simple", suicide=True)
    game = played(rules, (WHITE, 1), (WHITE, 3), (WHITE, 4), (BLACK, 0))
    stones, first_id = game.state.stones(), game.start_id
    game.change_rules(suicide=False, superko="positional", komi=1.5)
    assert game.state.stones() == stones and game.rules.komi == 1.5 and len(game.moves) == 4
    assert game.start_id != first_id and game.why_illegal(BLACK, 0).startswith("suicide")
    same = game.start_id
    game.change_rules(komi=1.5)
    assert game.start_id == same
    with pytest.raises(InputError, match="clear the board for another size"):
        game.change_rules(size=5)


def test_records_there_and_back() -> None:
    game = LiveGame(Rules(5, 2.5))
    game.set_up([[1, 0, 0, 0, 0]] + [[0] * 5] * 4, WHITE)
    for player, action in ((WHITE, 7), (WHITE, 8), (BLACK, 25)):
        game.play(player, action)
    again = LiveGame.of_record(game.record())
    assert (again.moves, again.start, again.first, again.rules) == (game.moves, game.start, game.first, game.rules)
    assert LiveGame.of_record(record := game.record(), 1).moves == game.moves[:1]
    other = game.copy()
    assert other.go_to([*game.moves[:2], (BLACK, 8)]).startswith("illegal move of black: occupied")
    assert other.moves == game.moves[:2] != game.moves and other.go_to(game.moves) is None
    game = LiveGame(game.rules)
    game.place_handicap([6, 18])
    again = LiveGame.of_record(game.record())
    assert (again.handicap, again.start, again.first) == ([6, 18], game.start, WHITE)
    record.moves[1] = 7
    with pytest.raises(InputError, match="move 2, white C4, is illegal: occupied"):
        LiveGame.of_record(record)


def test_the_tensor_has_the_stones_of_the_game_after_rules_change() -> None:
    """A suicide takes its stones off although the rules forbid it by now."""
    rules = Rules(2, superko="situational", suicide=True)
    game = played(rules, (BLACK, 1), (WHITE, 0), (BLACK, 2), (WHITE, 0))
    game.change_rules(suicide=False)
    state = game.tensor()
    assert state.stones[0].tolist() == game.state.stones() == [[0, 1], [1, 0]]
    assert state.captures[0].tolist() == list(game.state.captures.values())
    assert state.rules.at(0) == game.rules and not state.rules.any_suicide
