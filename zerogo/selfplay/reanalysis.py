"""Reanalysis (MuZero Reanalyse, Schrittwieser et al. 2021): old positions of the window are searched again with the
current self-play network, and the new policies replace the old ones as targets."""

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
    """Searches up to `number` positions of the window again, the oldest policies first, and replaces their policies and
    root values; returns how many were searched. Each rank searches its share.

    together: positions in one batch. until: the `time.monotonic()` after which no batch begins. Results and points stay
    those of the games. Superko knows only the last eight positions, and there is no move cap within reach. Shards on
    disk keep the old policies. A snapshot holds the new ones; a run that resumes from a checkpoint loses them."""
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
    """Returns the seed of the searches after a training step, which differs from that of self-play."""
    return int(rng.key(seed, Purpose.REANALYSIS, step)) % 2**62
