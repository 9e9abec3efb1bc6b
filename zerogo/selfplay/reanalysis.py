"""Reanalysis (MuZero Reanalyse, Schrittwieser et al. 2021): old positions of the window are searched anew with the
newest network, and its policy is what is learned of them from then on."""

import torch

from zerogo.board import searchable
from zerogo.replay import Replay
from zerogo.search import Search

MOST_TOGETHER = 1024  # positions of one batch, which bounds the memory of the trees


@torch.inference_mode()
def reanalyse(
    replay: Replay, search: Search, number: int, simulations: int, seed: int, device: torch.device | str
) -> int:
    """Searches up to `number` positions of the window anew, the oldest policies first, and puts what is found in the
    place of their policies and root values; returns how many.

    Results and points stay those of the games. Superko knows the last eight positions only, and the move cap is far.
    Files on disk keep what they have, so that a run that is resumed starts with the policies of before."""
    slots = replay.oldest_policies(number)
    for some in slots.split(MOST_TOGETHER):
        samples = replay.read(some)
        states = searchable(samples.state()).to(device)
        found = search.run(states, simulations, seed, game_ids=samples.game.to(device), explore=True)
        replay.renew(some, found.policy.cpu(), found.value.cpu())
    return len(slots)
