"""Reanalysis (MuZero Reanalyse, Schrittwieser et al. 2021): old positions of the window are searched anew with the
network that plays, without a gate the newest one, and its policy is what is learned of them from then on."""

import time
from dataclasses import replace

import torch

from zerogo.board import rng, searchable
from zerogo.board.rng import Purpose
from zerogo.replay import Replay
from zerogo.search import Search
from zerogo.system import distributed


@torch.inference_mode()
def reanalyse(
    replay: Replay,
    search: Search,
    number: int,
    simulations: int,
    seed: int,
    device: torch.device | str,
    together: int = 256,
    until: float | None = None,
) -> int:
    """Searches up to `number` positions of the window again, the oldest policies first, and puts what is found in the
    place of their policies and root values; returns how many. Each rank searches its share.

    together: positions of one batch. until: the `time.monotonic()` at which no other batch begins. Results and points
    stay those of the games. Superko knows the last eight positions only, and the move cap is far. Shards on the disk
    keep the earlier policies. A snapshot holds the new ones; a run that resumes from a checkpoint has lost them."""
    slots, searched = distributed.local_shard(replay.oldest_policies(number)), []
    search = Search(search.evaluator, replace(search.settings, keep_tree=False), search.game, search.root_evaluator)
    for some in slots.split(together) if len(slots) else ():
        if until is not None and time.monotonic() >= until:
            break
        samples = replay.read(some)
        states, ids = searchable(samples.state()).to(device), samples.game.to(device)
        result = search.run(states, simulations, seed, game_ids=ids, explore=True)
        searched.append((some, result.policy.cpu(), result.value.cpu()))
    for result in (searched := sum(distributed.all_gather_object(searched), [])):
        replay.update_policies(*result)
    return sum(len(some) for some, *_ in searched)


def seed_of(seed: int, step: int) -> int:
    """Returns the seed of the searches after a training step, other than that of self-play."""
    return int(rng.key(seed, Purpose.REANALYSIS, step)) % 2**62
