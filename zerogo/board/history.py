"""Every position that a game has seen, found by its hash: `State.seen` and the chains that lead through it.

`seen` [B, H] holds the hash at each ply. `links` [B, 3H] makes it a hash table with chains: its first 2H entries hold, for each value of
the hash's low bits, the last ply with such a hash, the other H hold for each ply the one before it in its chain; -1 ends a chain. So a
look-up costs about one read instead of H. The host's superko uses it; where the host must not look, all of `seen` is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from zerogo import flood

if TYPE_CHECKING:
    from zerogo.board.state import State

NOT_SEEN = -(2**63) + 1  # fills the unused places of `seen`; a position has this hash with a chance of 2^-64
FIRST_WIDTH = 32  # plies that `seen` has room for after the first move; it doubles when they are used up, so H is a power of two


def links_of(seen: Tensor, width: int) -> Tensor:
    """Returns the chains through all that was seen: int64 [B, n], to be widened to H = width >= n places -> int32 [B, 3H]."""
    num_games, plies = seen.shape
    trash = 2 * width
    if plies == 1:  # new games: there is no chain yet
        return torch.full((num_games, 3 * width), -1, dtype=torch.int32, device=seen.device).scatter_(1, seen & (trash - 1), 0)
    slot = torch.where(seen == NOT_SEEN, trash, seen & (trash - 1))
    in_slot, ply = slot.sort(dim=1, stable=True)
    links = torch.full((num_games, 3 * width + 1), -1, dtype=torch.int32, device=seen.device)
    follows = (in_slot[:, 1:] == in_slot[:, :-1]) & (in_slot[:, 1:] != trash)
    links.scatter_(1, trash + ply[:, 1:], torch.where(follows, ply[:, :-1], -1).to(torch.int32))
    is_newest = torch.cat([~follows, torch.ones_like(in_slot[:, :1], dtype=torch.bool)], dim=1) & (in_slot != trash)
    links.scatter_(1, torch.where(is_newest, in_slot, 3 * width), ply.to(torch.int32))
    return links[:, :-1].contiguous()


def remember_(seen: Tensor, links: Tensor, hashes: Tensor, ply: Tensor, goes_on: Tensor) -> None:
    """Writes the positions after a move into `seen` and `links`: hashes int64 [B], ply int32 [B]; games that do not go on stay as they
    are."""
    width = seen.shape[1]
    game = torch.arange(len(seen), device=seen.device)
    where = torch.where
    if flood.may_look(seen):  # the same operations, each several times faster
        where, game = np.where, game.numpy()
        seen, links, hashes, ply, goes_on = (tensor.numpy() for tensor in (seen, links, hashes, ply, goes_on))
    words, chains = seen.reshape(-1), links.reshape(-1)
    words[game * width + ply] = hashes
    slot = game * (3 * width)
    link = slot + (2 * width) + ply
    slot = slot + (hashes & (2 * width - 1))
    newest = chains[slot]
    chains[link] = where(goes_on, newest, chains[link])
    chains[slot] = ply


def was_seen(state: State, game: np.ndarray, hashes: np.ndarray, is_situational: np.ndarray) -> np.ndarray:
    """Returns whether the games may not come to these hashes with their next move: int64 [K] each -> bool [K]. On the host.

    is_situational: bool [B]; such a game may repeat a position with the other side to move.
    """
    seen, links, now = state.seen.numpy(), state.links.numpy(), state.ply.numpy()
    width = seen.shape[1]
    found = np.zeros(len(game), bool)
    ply = links.reshape(-1).take(game * (3 * width) + (hashes & (2 * width - 1)))
    asked = np.flatnonzero(ply >= 0)
    while len(asked):
        where, ply = game[asked], ply[ply >= 0]
        same = seen.reshape(-1).take(where * width + ply) == hashes[asked]
        same &= ~is_situational[where] | (((ply ^ now[where]) & 1) == 1)
        found[asked[same]] = True
        ply = np.where(same, -1, links.reshape(-1).take(where * (3 * width) + 2 * width + ply))
        asked = asked[ply >= 0]
    return found
