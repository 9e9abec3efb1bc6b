"""What a player is to a match: moves for many games at once; and what a guest may do besides, which is more than a
function can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from zerogo import board
from zerogo.coords import listed
from zerogo.errors import InputError
from zerogo.rules import Rules

RESIGN = -2  # what a guest's `choose` returns instead of a move where it gives the game up
FORFEIT = -3  # and where it failed to move at all; `StatefulPlayer.why` says how


class Player(Protocol):
    """Whoever plays: a name, and moves for many games at once."""

    name: str

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns one legal move for each game: int64 [B]; draws depend on game_ids (int64 [B]), the seed and the
        ply.
        """


@runtime_checkable
class StatefulPlayer(Player, Protocol):
    """A player from outside, such as a GTP engine: it follows each game, may resign, and loses a game by its own
    faults.

    Its `choose` may return RESIGN or FORFEIT, and is trusted with nothing: who asks it checks that its moves are legal.
    """

    def check(self, rules: Rules) -> None:
        """Raises InputError, before any game is played, where it cannot be started or refuses the rules."""

    def begin(self, game_ids: Sequence[int], rules: Rules) -> None:
        """Prepares for games that start now from the empty board."""

    def notify(self, game_ids: Sequence[int], actions: Sequence[int]) -> None:
        """Takes note of one move in each game, its own moves too."""

    def why(self, game_id: int) -> str:
        """Returns what went wrong in a game in which it returned FORFEIT, in a few words without its name."""

    def final_scores(self, game_ids: Sequence[int], seed: int) -> list[str | None]:
        """Returns how it counts the ends of games, as "B+3.5", None where it doesn't say."""

    def end(self, game_ids: Sequence[int], at_fault: bool = False) -> None:
        """Forgets games that are over; at_fault: it lost them by a fault, after which it is not to be relied on."""

    def close(self) -> None:
        """Lets go of what it holds, such as processes; a guest may be used again afterwards."""


def close(player: Player) -> None:
    """Lets go of what a player holds outside this process, if it holds anything."""
    if isinstance(player, StatefulPlayer):
        player.close()


def knows(player: Any, size: int) -> bool:
    """Says whether a player, or a analyst, plays on boards of a side: a network on those that it learned, its `sizes`,
    all others on any."""
    sizes = getattr(player, "sizes", None)
    return sizes is None or size in sizes


def require_size(player: Any, size: int, here: str) -> None:
    """Raises InputError where a player, or a analyst, doesn't know boards of a side. here: what has that side, such as
    "this game is on".
    """
    if not knows(player, size):
        raise InputError(f"{player.name} plays on {listed(player.sizes)} only; {here} {size}x{size}")
