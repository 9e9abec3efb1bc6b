"""Many games at once: new games, moves, legal moves, captures, hashes, superko. `zerogo.game` explains the rules."""

from zerogo.board.position import BLACK, WHITE, Position
from zerogo.board.state import NO_MOVE, State, from_stones, new_games, put_, step, step_
from zerogo.board.superko import legal_actions

__all__ = [
    "BLACK", "NO_MOVE", "WHITE", "Position", "State", "from_stones", "legal_actions", "new_games", "put_", "step",
    "step_",
]  # fmt: skip
