"""The game in front of a person; what happens to it in GTP stands in golden conversations (test_gtp)."""

from zerogo.game import Colour
from zerogo.players.live import LiveGame
from zerogo.rules import Rules

BLACK, WHITE = Colour.BLACK, Colour.WHITE


def test_a_copy_goes_to_other_moves_as_far_as_they_are_legal() -> None:
    game = LiveGame(Rules(5))
    for player, action in ((BLACK, 7), (WHITE, 8), (BLACK, 25)):
        game.play(player, action)
    other = game.copy()
    assert other.go_to([*game.moves[:2], (BLACK, 8)]).startswith("illegal move of black: occupied")
    assert other.moves == game.moves[:2] != game.moves and other.go_to(game.moves) is None
