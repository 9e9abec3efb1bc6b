"""Simulations a second from the middle of games, and which share of the raw network's speed that is.

Rounds of the network alone and of whole searches take turns in one run, so that what else the machine does falls on both. Simulations that
end in a finished position or a closed move need no network: `simulations_per_s` has them, `efficiency` has not, so 1 is its limit. It is
the ratio of the simulations that the network evaluated to its evaluations alone, each in its best round.

With several leaves a step the network alone is shown as many positions as a step has, games x leaves. `gain` is then the speed beside that
of one leaf a step, and `collision_share` the share of descents that were dropped, which `simulations_per_s` has not either.
"""

from __future__ import annotations

import argparse
import dataclasses
import time

import torch

from zerogo import board
from zerogo.bench import report, whole_numbers
from zerogo.bench.net import Setup, add_network_arguments, per_second
from zerogo.config import SearchConfig
from zerogo.errors import InputError
from zerogo.search import Search


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    parser.add_argument("--sims", type=int, default=64, help="simulations of a search (default 64)")
    parser.add_argument("--algorithm", default="puct", help="puct or gumbel (default puct)")
    parser.add_argument("--leaves", type=int, default=1, help="leaves of one tree taken in one step (default 1)")


def run(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch."""
    if args.sims < 1:
        raise InputError(f"--sims is {args.sims}; it must be at least 1")
    if args.leaves < 1:
        raise InputError(f"--leaves is {args.leaves}; it must be at least 1")
    for size in whole_numbers(args.size):
        for batch in whole_numbers(args.batch):
            _measure(args, Setup.of(args, size, batch * args.leaves), batch)


@torch.inference_mode()
def _measure(args: argparse.Namespace, setup: Setup, batch: int) -> None:
    settings = SearchConfig(algorithm=args.algorithm, keep_tree=False, leaves=args.leaves)
    rounds = Rounds(setup, Search(setup.evaluator, settings), args.sims, batch)
    single = Rounds(setup, Search(setup.evaluator, dataclasses.replace(settings, leaves=1)), args.sims, batch) if args.leaves > 1 else None
    forward = setup.forward()
    per_second(forward, setup.synchronize, 0.2, at_least=3)
    rounds.simulations_per_second(min(args.seconds, 0.2))
    evals, simulations, singles = [], [], []
    for _ in range(args.rounds):
        evals.append(per_second(forward, setup.synchronize, args.seconds) * setup.state.num_games)
        simulations.append(rounds.simulations_per_second(args.seconds))
        if single is not None:
            singles.append(single.simulations_per_second(args.seconds))
    raw, found = max(evals), max(simulations)
    finished, closed = (float(number) / rounds.simulations for number in rounds.exact)
    efficiency = found * (1 - finished - closed) / raw
    line = setup.line("search") | {"blocks": args.blocks, "channels": args.channels, "algorithm": args.algorithm, "sims": args.sims}
    line |= {"batch": batch, "leaves": args.leaves}
    line |= {"simulations_per_s": round(found), "evals_per_s": round(raw), "efficiency": round(efficiency, 3)}
    if singles:
        line |= {"gain": round(found / max(singles), 3), "collision_share": round(rounds.collision_share, 5)}
    report(line | {"finished_share": round(finished, 5), "closed_share": round(closed, 5), "bytes_per_node": rounds.bytes_per_node})


class Rounds:
    """Searches of `batch` games at a time, each with a seed of its own; they take turns with the positions of the setup as their roots."""

    def __init__(self, setup: Setup, search: Search, sims: int, batch: int) -> None:
        self.setup, self.search, self.sims, self.batch, self.seed = setup, search, sims, batch, 0
        self.exact, self.simulations, self.collisions, self.bytes_per_node = torch.zeros(2, dtype=torch.int64), 0, 0, 0

    def simulations_per_second(self, seconds: float) -> float:
        """Returns simulations a second over whole searches of at least so many seconds together; planting and roots are not counted."""
        spent, simulations = 0.0, 0
        lanes = torch.arange(self.batch, device=self.setup.device)
        while spent < seconds:
            first = self.seed * self.batch % self.setup.state.num_games
            state = board.select(self.setup.state, lanes + first)
            self.seed += 1
            forest = self.search.plant(state, self.sims)
            self.search.begin(forest, lanes, self.sims, self.seed, explore=True)
            self.setup.synchronize()
            start = time.perf_counter()
            self.search.spend(forest)
            self.setup.synchronize()
            spent += time.perf_counter() - start
            simulations += int(forest.done.sum())
            self.exact += forest.exact_leaves.cpu()
            self.collisions += int(forest.collisions)
            self.bytes_per_node = forest.tree.bytes_per_node
        self.simulations += simulations
        return simulations / spent

    @property
    def collision_share(self) -> float:
        return self.collisions / (self.collisions + self.simulations)
