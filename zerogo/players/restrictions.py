"""Moves that a search may not consider for some plies: GTP's `avoid` and `allow`, JSON's `avoidMoves`, `allowMoves`."""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo.board import BLACK, Position, State
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.search import Go
from zerogo.search.game import rows_of

# Of one game, for Black and for White: from how many plies behind the root on each of the A actions may be played.
Restrictions = tuple[tuple[int, ...], tuple[int, ...]]
Entry = tuple[Colour, Collection[int], int]  # whose moves, which actions, for how many plies


def restrict(size: int, avoid: Iterable[Entry] = (), allow: Iterable[Entry] = ()) -> Restrictions | None:
    """Returns the restrictions of one game, None where everything may be played; size: N.

    avoid: the actions may not be played; of several entries for one the last counts. allow: nothing else may be played.
    Raises InputError where allow is given together with avoid, or twice for a colour."""
    avoid, allow = list(avoid), list(allow)
    if len({colour for colour, _, _ in allow}) < len(allow) or (avoid and allow):
        raise InputError("allow is given once a colour, and not together with avoid")
    every = range(size * size + 1)
    until = {colour: [0] * len(every) for colour in Colour}
    for colour, actions, plies in [*avoid, *((mover, set(every) - set(kept), plies) for mover, kept, plies in allow)]:
        for action in actions:
            until[colour][action] = plies
    found = tuple(until[Colour.BLACK]), tuple(until[Colour.WHITE])
    return found if any(map(any, found)) else None


@dataclass(frozen=True)
class RestrictedState(State):
    """Games with restrictions of their own. until: int32 [B, 2, A], see `Restrictions`."""

    until: Tensor

    @staticmethod
    def of(state: State, restrictions: Sequence[Restrictions]) -> "RestrictedState":
        """Returns the games with their restrictions."""
        fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
        return RestrictedState(**fields, until=torch.tensor(restrictions, dtype=torch.int32, device=state.device))


class RestrictedGo(Go):
    """Go on `RestrictedState`s. Where a side would have nothing left, it may play everything."""

    def allowed(self, states: RestrictedState, game_index: Tensor, position: Position, legal: Tensor) -> Tensor:
        """Returns the legal actions that may be considered: bool [K, A]."""
        until, depth = rows_of(states.until, game_index), position.ply - rows_of(states.ply, game_index)
        first_ply = torch.where((position.to_play == BLACK).unsqueeze(1), until[:, 0], until[:, 1])
        kept = legal & (first_ply <= depth.unsqueeze(1))
        return torch.where(kept.any(1, keepdim=True), kept, legal)
