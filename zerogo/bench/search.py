"""Simulations per second of whole searches (`search`) and of self-play (`selfplay`), and their share of the raw
network's speed.

`search` starts from mid-game positions. Each search decides a move: the best move but the pass is played, the subtree
below it is kept, and games that end are replaced by other mid-game positions. Only new simulations count, in the best
round. On CUDA the network is replayed as a graph where that is faster. A fresh network's trees are flat; --spread gives
it a policy as sharp as a trained one's, and deeper trees.

`efficiency` is the number of evaluated simulations per second, divided by the evaluations per second of the network
alone. Simulations that end in a finished position or a closed move count in `simulations_per_s` only, so the limit is
1. The clock runs during simulations; `..._with_moves` includes the time between two searches, and in `selfplay` all
time counts. With several leaves per step the network alone evaluates games x leaves positions; `gain` is the speed
relative to one leaf per step, and `collision_share` the share of selections that were dropped and do not count.

With --processes N so many processes do the same work at the same time. Rates are then the sums over all of them, and
`evals_per_s`, to which `efficiency` refers, is N times what the network reaches in one process while the others wait.

With --peer mctx searches games of pgx on the same device in another process, in rounds that alternate with zerogo's:
the same network, simulations and threads, the same batch or the best of --peer-batch, in the faster precision. `ratio`
is zerogo's simulations per second divided by the peer's, whose clock also runs during searches only.

--profile prints the operations of one more move by torch's profiler. Numba's kernels appear in the operation that calls
them."""

import argparse
import contextlib
import dataclasses
import sys
from functools import partial
from typing import Any

import torch
from torch.profiler import profile

from zerogo import bench, board, kernels
from zerogo.bench import PeerProcess
from zerogo.bench.net import NetworkSetup
from zerogo.config import GameConfig, SearchConfig, SelfplayConfig
from zerogo.pipeline.snapshots import join_results
from zerogo.search import Search
from zerogo.selfplay import SelfPlay, SelfPlayResult
from zerogo.system import distributed

WARM_SIMULATIONS = 4  # of each of two moves before the clock starts: by then all is compiled, and a tree was kept once
HOUR = 3600
KINDS = {"compiled": contextlib.nullcontext, "plain": kernels.plain}
PROFILED_OPERATIONS = 25


@torch.inference_mode()
def run_search(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch."""
    for size, batch in bench.sizes_and_batches(args):
        with KINDS[args.kernels]():
            _measure(args, NetworkSetup(args, size, batch * args.leaves), batch)


def _measure(args: argparse.Namespace, setup: NetworkSetup, batch: int) -> None:
    """Prints the line of one size and batch."""
    settings = SearchConfig(algorithm=args.algorithm, leaves=args.leaves)
    games = SearchedGames(setup, Search(setup.evaluator, settings), args.sims, batch)
    works = {"network": setup.evals_per_second, "search": games.play}
    if args.leaves > 1:
        one_leaf = Search(setup.evaluator, dataclasses.replace(settings, leaves=1))
        works["one leaf"] = SearchedGames(setup, one_leaf, args.sims, batch).play
    with contextlib.ExitStack() as processes:
        batches = bench.peer_batches(args, batch)
        peers = [processes.enter_context(SearchPeer(args, setup, number)) for number in batches]
        rounds = bench.alternate_rounds(args, works | {peer: peer.play for peer in peers})
    rate, rate_with_moves = (max(rates) for rates in zip(*rounds["search"], strict=True))
    evals, evaluated_share = max(rounds["network"]) * distributed.world_size(), 1 - sum(games.shares)
    line = setup.line("search") | {"batch": batch}
    line |= {name: getattr(args, name) for name in ("algorithm", "sims", "leaves", "spread", "kernels")}
    line |= {
        "simulations_per_s": round(rate),
        "evals_per_s": round(evals),
        "efficiency": round(rate * evaluated_share / evals, 3),
        "simulations_per_s_with_moves": round(rate_with_moves),
        "efficiency_with_moves": round(rate_with_moves * evaluated_share / evals, 3),
    }
    if args.leaves > 1:
        gain = rate / max(single for single, _ in rounds["one leaf"])
        dropped = int(games.search_state.collisions) - games.collisions_before
        line |= {"gain": round(gain, 3), "collision_share": round(dropped / (dropped + games.simulations), 5)}
    best = max(peers, key=lambda peer: max(peer.rates.values()), default=None)
    bench.print_line(line | games.line() | ({} if best is None else best.line(rate)))
    if args.profile and distributed.is_rank0():
        with profile() as profiler:
            games.move(args.sims)
        table = profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=PROFILED_OPERATIONS)
        print(table, file=sys.stderr)


class SearchedGames:
    """B games whose moves are searched and played, with their kept subtrees; warmed up when they are made."""

    def __init__(self, setup: NetworkSetup, search: Search, sims: int, batch: int) -> None:
        self.setup, self.search, self.sims = setup, search, sims
        self.games = torch.arange(batch, device=setup.device)
        self.state = setup.state.select(self.games)
        self.search_state = search.init(self.state, sims)
        self.moves = 0
        for _ in range(2):
            self.move(min(WARM_SIMULATIONS, sims))
        self.simulations = 0
        self.exact_before = self.search_state.exact_leaves.cpu().clone()
        self.collisions_before = int(self.search_state.collisions)

    def play(self, seconds: float) -> tuple[float, float]:
        """Returns simulations per second of searching, and of whole moves, over whole moves with at least so many
        seconds of searching: the sums over all processes."""
        simulations, search_seconds, move_seconds = 0, 0.0, 0.0
        while search_seconds < seconds:
            number, search, move = self.move(self.sims)
            simulations += number
            search_seconds += search
            move_seconds += move
        self.simulations += simulations
        rates = simulations / search_seconds, simulations / move_seconds
        return tuple(map(sum, zip(*distributed.all_gather_object(rates), strict=True)))

    def move(self, sims: int) -> tuple[int, float, float]:
        """Searches and plays one move in every game; returns the number of simulations, and the seconds of searching
        and of the whole move."""
        start = bench.device_time(self.setup.device)
        self.search.begin(self.search_state, self.games, sims, self.moves, explore=True)
        search_start = bench.device_time(self.setup.device)
        self.search.run_simulations(self.search_state)
        search_seconds = bench.device_time(self.setup.device) - search_start
        simulations = int(self.search_state.done.sum())
        policy = self.search.result(self.search_state, self.games).policy
        # A fresh network would soon pass, and after a pass a search looks at little but the game's end.
        actions = torch.cat([policy[:, :-1], policy[:, -1:] * 1e-6], dim=1).argmax(1)
        self.state = board.step_(self.state, actions)
        self.search.advance(self.search_state, self.games, actions, self.state)
        self.moves += 1
        finished = self.state.finished.nonzero().squeeze(1)
        if finished.numel():  # other mid-game positions take their places
            others = (finished + self.moves) % self.setup.state.num_games
            self.state = board.put_(self.state, finished, self.setup.state.select(others))
            self.search.reset_trees(self.search_state, finished, self.state)
        return simulations, search_seconds, bench.device_time(self.setup.device) - start

    @property
    def shares(self) -> list[float]:
        """The shares of the simulations of `play` that ended in a finished position, and in a closed move."""
        return ((self.search_state.exact_leaves.cpu() - self.exact_before) / self.simulations).tolist()

    def line(self) -> dict[str, Any]:
        """Returns the fields that describe the trees; kept nodes and the deepest node are means over the games."""
        tree, (finished, closed) = self.search_state.tree, self.shares
        return {
            "finished_share": round(finished, 5),
            "closed_share": round(closed, 5),
            "bytes_per_node": tree.bytes_per_node,
            "kept_nodes": round(float(tree.size.double().mean()), 1),
            "deepest": round(float(self.search_state.deepest.double().mean()), 1),
        }


class SearchPeer(PeerProcess):
    """mctx with pgx on the same board, network and simulations: rounds of its network and its searches, in the faster
    precision."""

    def __init__(self, args: argparse.Namespace, setup: NetworkSetup, batch: int) -> None:
        self.batch = batch
        sizes = (setup.state.board_size, batch, args.sims, args.blocks, args.channels, torch.get_num_threads())
        super().__init__(args, "mctx", args.algorithm, args.spread, *sizes, setup.device)
        self.dtypes = ["float32", "bfloat16"]
        self.evals, self.rates = dict.fromkeys(self.dtypes, 0.0), dict.fromkeys(self.dtypes, 0.0)

    def play(self, seconds: float) -> None:
        """Times one round, the first in both precisions, later ones in the faster; the best rates are kept."""
        for name in self.dtypes:
            self.evals[name] = max(self.evals[name], self.request("network", name, seconds))
            self.rates[name] = max(self.rates[name], self.request("search", name, seconds))
        self.dtypes = [max(self.rates, key=self.rates.get)]

    def line(self, zerogo_rate: float) -> dict[str, Any]:
        """Returns the fields that compare the peer with zerogo's simulations per second."""
        dtype = self.dtypes[0]
        rate, evals = self.rates[dtype], self.evals[dtype]
        return {
            "peer": self.name,
            "peer_batch": self.batch,
            "peer_dtype": dtype,
            "peer_simulations_per_s": round(rate),
            "peer_evals_per_s": round(evals),
            "peer_efficiency": round(rate / evals, 3),
            "ratio": round(zerogo_rate / rate, 2),
        }


# Self-play


@torch.inference_mode()
def run_selfplay(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch: rounds of half as many games as the batch has, so that openings and
    endings count as often as they come."""
    for size, batch in bench.sizes_and_batches(args):
        setup = NetworkSetup(args, size, batch)
        settings = SelfplayConfig(slots=batch, full_simulations=args.sims, sgf_share=0.0)
        sections = (GameConfig(size=size), SearchConfig(args.algorithm), settings)
        selfplay = SelfPlay(*sections, setup.evaluator, setup.device, seed=1)
        selfplay.play(batch)  # the games that begin together end together; after that they are spread

        works = {"network": setup.evals_per_second, "games": partial(_play_together, selfplay, max(1, batch // 2))}
        rounds = bench.alternate_rounds(args, works)
        results, evals = rounds["games"], max(rounds["network"]) * distributed.world_size()
        seconds = sum(result.seconds for result in results)
        samples = sum(len(batch) for result in results for batch in result.samples)
        line = setup.line("selfplay") | {
            "algorithm": args.algorithm,
            "sims": args.sims,
            "games_per_hour": round(sum(len(result.lengths) for result in results) / seconds * HOUR),
            "moves_per_s": round(sum(result.moves for result in results) / seconds),
            "samples_per_s": round(samples / seconds),
            "simulations_per_s": round(sum(result.simulations for result in results) / seconds),
            "evals_per_s": round(evals),
            "efficiency": round(max(result.simulations / result.seconds for result in results) / evals, 3),
        }
        bench.print_line(line)


def _play_together(selfplay: SelfPlay, games: int, _: float) -> SelfPlayResult:
    """Plays so many games in each process and returns the results of all."""
    return join_results(distributed.all_gather_object(selfplay.play(games)))
