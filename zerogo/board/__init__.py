"""Many games at once: start, step, legal moves, captures, hashes, superko. The rules themselves are told in
`zerogo.game`.
"""

from zerogo.board.position import BLACK, WHITE, Position
from zerogo.board.record import NO_MOVE, replay
from zerogo.board.state import (
    State,
    from_stones,
    legal_actions,
    new_games,
    put,
    put_,
    restore,
    select,
    step,
    step_,
    to_device,
    unsettled_strings,
)

__all__ = [
    "BLACK",
    "NO_MOVE",
    "WHITE",
    "Position",
    "State",
    "from_stones",
    "legal_actions",
    "new_games",
    "put",
    "put_",
    "replay",
    "restore",
    "select",
    "step",
    "step_",
    "to_device",
    "unsettled_strings",
]
