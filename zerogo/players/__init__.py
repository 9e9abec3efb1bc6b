"""Players choose moves in many games at once. `analyst.make_player` makes them from the words that a person types, also
an `external.ExternalPlayer`, which needs the moves of the games and may resign."""

from typing import Any, Protocol

from torch import Tensor

from zerogo import board
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.rules.coords import listed

RESIGN = -2  # what `ExternalPlayer.choose_moves` returns instead of a move where the engine resigns
FORFEIT = -3  # and where it failed to move at all; `ExternalPlayer.faults` says how


class Player(Protocol):
    """Whoever plays: a name, and moves for many games at once."""

    name: str

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns one legal move for each game: int64 [B]; draws depend on game_ids (int64 [B]), seed and ply."""


def plays_on(player: Any, size: int) -> bool:
    """Returns whether a player plays on boards of a side; a network plays on its `sizes`, those of its training."""
    sizes = getattr(player, "sizes", None)
    return sizes is None or size in sizes


def require_size(player: Any, size: int, here: str) -> None:
    """Raises InputError where a player doesn't play on boards of a side. here: such as "this game is on"."""
    if not plays_on(player, size):
        source = getattr(player, "source", "") or player.name
        raise InputError(f"{source} plays on {listed(player.sizes)} only; {here} {size}x{size}")


def warning_of_komi(player: Any, rules: Rules) -> str:
    """Returns a sentence where a network was trained on such boards, but never at such a komi, else an empty text."""
    komi = (getattr(player, "sizes", None) or {}).get(rules.size)
    if not komi or komi[0] <= rules.komi <= komi[-1]:
        return ""
    learned = f"komi {komi[0]:g}" if len(komi) == 1 else f"komi from {komi[0]:g} to {komi[-1]:g}"
    return f"komi is {rules.komi:g}, but {player.name} learned only {learned} and may misjudge positions"
