"""Players: what chooses moves in many games at once; some also follow each game and may resign.

`analyst.make_player` makes them from the words that a person types."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from zerogo import board
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.rules.coords import listed

RESIGN = -2  # what `StatefulPlayer.choose` returns instead of a move where it resigns
FORFEIT = -3  # and where it failed to move at all; `StatefulPlayer.why` says how


class Player(Protocol):
    """Whoever plays: a name, and moves for many games at once."""

    name: str

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns one legal move for each game: int64 [B]; draws depend on game_ids (int64 [B]), seed and ply."""


@runtime_checkable
class StatefulPlayer(Player, Protocol):
    """A player that keeps a state for each game, such as an external GTP engine: it is told when games begin and end
    and of every move in them. It may resign, and loses a game by its own failures.

    Its `choose` may return RESIGN or FORFEIT, and the caller checks that its moves are legal."""

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
        """Forgets games that are over; at_fault: it lost them by a failure, after which it starts afresh."""

    def close(self) -> None:
        """Ends what it holds, such as processes; it may be used again afterwards."""


def close(player: Player) -> None:
    """Ends what a player holds outside this process, if it holds anything."""
    if isinstance(player, StatefulPlayer):
        player.close()


def plays_on(player: Any, size: int) -> bool:
    """Says whether a player plays on boards of a side: a network on those that it learned, its `sizes`."""
    sizes = getattr(player, "sizes", None)
    return sizes is None or size in sizes


def require_size(player: Any, size: int, here: str) -> None:
    """Raises InputError where a player doesn't play on boards of a side. here: such as "this game is on"."""
    if not plays_on(player, size):
        source = getattr(player, "source", "") or player.name
        raise InputError(f"{source} plays on {listed(player.sizes)} only; {here} {size}x{size}")
