"""Every position that a game has seen, found by its hash: `State.seen` and the chains that lead through it.

`seen` [B, H] holds the hash at each ply. `links` [B, 3H] makes it a hash table with chains: its first 2H entries hold,
for each value of the hash's low bits, the last ply with such a hash, the other H hold for each ply the one before it in
its chain; -1 ends a chain. So a look-up costs about one read instead of H. The CPU's kernels use it; elsewhere all of
`seen` is compared."""

from __future__ import annotations

import torch
from torch import Tensor

NOT_SEEN = -(2**63) + 1  # fills the unused places of `seen`; a position has this hash with a chance of 2^-64
FIRST_WIDTH = (
    32  # plies that `seen` has room for after the first move; it doubles when they are used up, so H is a power of two
)


def links_of(seen: Tensor, width: int) -> Tensor:
    """Returns the chains through all that was seen: int64 [B, n], to be widened to H = width >= n places -> int32 [B,
    3H].
    """
    num_games, plies = seen.shape
    trash = 2 * width
    if plies == 1:  # new games: there is no chain yet
        return torch.full((num_games, 3 * width), -1, dtype=torch.int32, device=seen.device).scatter_(
            1, seen & (trash - 1), 0
        )
    slot = torch.where(seen == NOT_SEEN, trash, seen & (trash - 1))
    in_slot, ply = slot.sort(dim=1, stable=True)
    links = torch.full((num_games, 3 * width + 1), -1, dtype=torch.int32, device=seen.device)
    follows = (in_slot[:, 1:] == in_slot[:, :-1]) & (in_slot[:, 1:] != trash)
    links.scatter_(1, trash + ply[:, 1:], torch.where(follows, ply[:, :-1], -1).to(torch.int32))
    is_newest = torch.cat([~follows, torch.ones_like(in_slot[:, :1], dtype=torch.bool)], dim=1) & (in_slot != trash)
    links.scatter_(1, torch.where(is_newest, in_slot, 3 * width), ply.to(torch.int32))
    return links[:, :-1].contiguous()


def remember_(seen: Tensor, links: Tensor, hashes: Tensor, ply: Tensor, goes_on: Tensor) -> None:
    """Writes the positions after a move into `seen` and `links`: hashes int64 [B], ply int32 [B]; games that do not go
    on stay as they are."""
    width, game = seen.shape[1], torch.arange(len(seen), device=seen.device)
    words, chains = seen.reshape(-1), links.reshape(-1)
    words[game * width + ply] = hashes
    slot = game * (3 * width)
    link = slot + (2 * width) + ply
    slot = slot + (hashes & (2 * width - 1))
    newest = chains[slot]
    chains[link] = torch.where(goes_on, newest, chains[link])
    chains[slot] = ply
