"""Simulations a second of whole searches, and which share of the raw network's speed that is.

The games start in their middle. Every search is a move's: the best move but the pass is played, the subtree below it is
kept, and games that end are replaced by others in their middle; only new simulations count. Rounds of the network alone
and of searches take turns in one run, so that what else the machine does falls on both, and of each the best round
counts; on CUDA the network, too, is replayed as a graph, if that is faster. A fresh network's priors are next to even,
and so its trees are flat; --spread gives it a policy as decided as a trained one's, and deeper trees of which more is
kept.

`efficiency` is the ratio of the simulations that the network evaluated to its evaluations alone: those that end in a
finished position or a closed move need no network, `simulations_per_s` has them and `efficiency` has not, so 1 is its
limit. The clock runs while simulations do. What lies between two searches (noise, the moves, keeping the subtrees) is
in the second pair of numbers, `..._with_moves`.

With several leaves a step the network alone is shown as many positions as a step has, games x leaves. `gain` is then
the speed beside that of one leaf a step, and `collision_share` the share of selections that were dropped, which
`simulations_per_s` has not either.

With --peer mctx searches games of pgx on the same device in a process of its own, in turn with zerogo: the same
network, simulations and threads, the same batch or the best of --peer-batch, in whichever precision is faster there.
`ratio` is zerogo's simulations a second by the peer's, whose clock, too, runs in searches alone."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time
from pathlib import Path
from typing import Any

import torch

from zerogo import board, kernels
from zerogo.bench import report, whole_numbers
from zerogo.bench.net import Setup, add_network_arguments, evals_per_second
from zerogo.bench.peer import Peer, add_peer_arguments, check_peer_size, peer_batches
from zerogo.config import SearchConfig
from zerogo.errors import InputError
from zerogo.search import Search

PEER = Path(__file__).with_name("mctx_peer.py")
WARM_SIMULATIONS = 4  # of each of two moves before the clock starts: by then all is compiled, and a tree was kept once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    add_search_arguments(parser)
    parser.add_argument(
        "--kernels", default="compiled", help="compiled or plain, which is torch alone (default compiled)"
    )
    add_peer_arguments(parser, "mctx")


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that `search` and `profile` share."""
    parser.add_argument("--sims", type=int, default=128, help="simulations of a search (default 128)")
    parser.add_argument("--algorithm", default="puct", help="puct or gumbel (default puct)")
    parser.add_argument("--leaves", type=int, default=1, help="leaves of one tree taken in one step (default 1)")
    spread = "standard deviation of the policy's logits over a board, about 2 in a trained network; 0 leaves a fresh one's (default 0)"
    parser.add_argument("--spread", type=float, default=0.0, help=spread)


def check_search_arguments(args: argparse.Namespace) -> None:
    for name in ("sims", "leaves"):
        if getattr(args, name) < 1:
            raise InputError(f"--{name} is {getattr(args, name)}; it must be at least 1")
    if not 0 <= args.spread <= 10:
        raise InputError(f"--spread is {args.spread}; it must be from 0 to 10")


def run(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch."""
    check_search_arguments(args)
    if args.kernels not in ("compiled", "plain"):
        raise InputError(f"--kernels is {args.kernels!r}; allowed are compiled and plain")
    for size in whole_numbers(args.size):
        if args.peer:
            check_peer_size(size)
        for batch in whole_numbers(args.batch):
            with kernels.plain() if args.kernels == "plain" else contextlib.nullcontext():
                _measure(args, Setup.of(args, size, batch * args.leaves), batch)


@torch.inference_mode()
def _measure(args: argparse.Namespace, setup: Setup, batch: int) -> None:
    settings = SearchConfig(algorithm=args.algorithm, leaves=args.leaves)
    games = Games(setup, Search(setup.evaluator, settings), args.sims, batch)
    single = (
        Games(setup, Search(setup.evaluator, dataclasses.replace(settings, leaves=1)), args.sims, batch)
        if args.leaves > 1
        else None
    )
    forwards = setup.forwards()
    evals, rates, singles = [], [], []
    with contextlib.ExitStack() as running:
        batches = peer_batches(args, batch) if args.peer else []
        peers = [running.enter_context(SearchPeer(args, setup, games_at_once)) for games_at_once in batches]
        for _ in range(args.rounds):
            evals.append(evals_per_second(setup, forwards, args.seconds))
            rates.append(games.play(args.seconds))
            if single is not None:
                singles.append(single.play(args.seconds))
            for peer in peers:
                peer.play(args.seconds)
    line = setup.line("search") | {
        "blocks": args.blocks,
        "channels": args.channels,
        "algorithm": args.algorithm,
        "sims": args.sims,
    }
    line |= {"batch": batch, "leaves": args.leaves, "spread": args.spread, "kernels": args.kernels} | _rates(
        games, max(evals), rates
    )
    if singles:
        gain = max(rate for rate, _ in rates) / max(rate for rate, _ in singles)
        line |= {"gain": round(gain, 3), "collision_share": round(games.collision_share, 5)}
    best = max(peers, key=lambda peer: peer.best, default=None)
    report(line | games.line() | ({} if best is None else best.line(max(rate for rate, _ in rates))))


def _rates(games: Games, raw: float, rates: list[tuple[float, float]]) -> dict[str, Any]:
    """Returns what a line says of the speed: raw is the network's, rates are simulations a second within searches and
    of whole moves.
    """
    evaluated = 1 - sum(games.shares)
    found, whole = (max(column) for column in zip(*rates, strict=True))
    return {
        "simulations_per_s": round(found),
        "evals_per_s": round(raw),
        "efficiency": round(found * evaluated / raw, 3),
        "simulations_per_s_with_moves": round(whole),
        "efficiency_with_moves": round(whole * evaluated / raw, 3),
    }


class Games:
    """B games that are searched and played on, with their kept subtrees; they are warm when they are made."""

    def __init__(self, setup: Setup, search: Search, sims: int, batch: int) -> None:
        self.setup, self.search, self.sims = setup, search, sims
        self.lanes = torch.arange(batch, device=setup.device)
        self.state = board.select(setup.state, self.lanes)
        self.search_state = search.init(self.state, sims)
        self.moves = 0
        for _ in range(2):
            self.move(min(WARM_SIMULATIONS, sims))
        self.simulations, self.exact, self.collisions, self.kept = 0, torch.zeros(2, dtype=torch.int64), 0, 0.0

    def play(self, seconds: float) -> tuple[float, float]:
        """Returns simulations a second within the searches, and of whole moves; at least so many seconds, which are
        whole moves, too.
        """
        simulations, searching, all_told = 0, 0.0, 0.0
        before, collisions = self.search_state.exact_leaves.cpu().clone(), int(self.search_state.collisions)
        while searching < seconds:
            number, search, move = self.move(self.sims)
            simulations, searching, all_told = simulations + number, searching + search, all_told + move
        self.simulations += simulations
        self.exact += self.search_state.exact_leaves.cpu() - before
        self.collisions += int(self.search_state.collisions) - collisions
        return simulations / searching, simulations / all_told

    def move(self, sims: int) -> tuple[int, float, float]:
        """Searches and plays one move in every game; returns how many simulations that were, and the seconds of
        searches and of all.
        """
        start = self._now()
        self.search.begin(self.search_state, self.lanes, sims, self.moves, explore=True)
        began = self._now()
        self.search.run_simulations(self.search_state)
        spent = self._now()
        simulations = int(self.search_state.done.sum())
        policy = self.search.result(self.search_state, self.lanes).policy
        # A fresh network would soon pass, and after a pass a search looks at little but the game's end.
        actions = torch.cat([policy[:, :-1], policy[:, -1:] * 1e-6], dim=1).argmax(1)
        self.state = board.step_(self.state, actions)
        self.search.advance(self.search_state, self.lanes, actions, self.state)
        self.moves += 1
        self._replace_ended()
        return simulations, spent - began, self._now() - start

    def _replace_ended(self) -> None:
        """Puts games in their middle in the places of those that are over."""
        over = self.state.finished.nonzero().squeeze(1)
        if over.numel():
            others = (over + self.moves) % self.setup.state.num_games
            self.state = board.put_(self.state, over, board.select(self.setup.state, others))
            self.search.replace(self.search_state, over, self.state)

    def _now(self) -> float:
        self.setup.synchronize()
        return time.perf_counter()

    @property
    def shares(self) -> tuple[float, float]:
        """Which shares of the simulations ended in a finished position, and in a closed move."""
        finished, closed = (float(number) / self.simulations for number in self.exact)
        return finished, closed

    @property
    def collision_share(self) -> float:
        return self.collisions / (self.collisions + self.simulations)

    def line(self) -> dict[str, Any]:
        """Returns what a line says of the trees: nodes kept and the deepest node by the last move, means over the
        games.
        """
        tree, (finished, closed) = self.search_state.tree, self.shares
        shape = {
            "kept_nodes": round(float(tree.size.double().mean()), 1),
            "deepest": round(float(self.search_state.deepest.double().mean()), 1),
        }
        return {
            "finished_share": round(finished, 5),
            "closed_share": round(closed, 5),
            "bytes_per_node": tree.bytes_per_node,
        } | shape


class SearchPeer(Peer):
    """mctx with pgx at the same sizes of all but the batch: rounds of its network and its searches, in the precision
    that is faster.
    """

    def __init__(self, args: argparse.Namespace, setup: Setup, batch: int) -> None:
        self.batch = batch
        sizes = [setup.state.board_size, batch, args.sims, args.blocks, args.channels, torch.get_num_threads()]
        super().__init__(args.peer_python, PEER, [args.algorithm, args.spread, *sizes, str(setup.device)], "mctx")
        self.evals: dict[str, list[float]] = {"float32": [], "bfloat16": []}
        self.rates: dict[str, list[float]] = {name: [] for name in self.evals}

    def play(self, seconds: float) -> None:
        """Times one round: the first time in both precisions, then in the better one."""
        for name in [self.dtype] if self.rates[self.dtype] else self.rates:
            self.evals[name].append(self.ask("network", name, seconds))
            self.rates[name].append(self.ask("search", name, seconds))

    @property
    def dtype(self) -> str:
        """The precision of the faster searches."""
        return max(self.rates, key=lambda name: max(self.rates[name], default=0.0))

    @property
    def best(self) -> float:
        """Its simulations a second."""
        return max(self.rates[self.dtype])

    def line(self, own: float) -> dict[str, Any]:
        """Returns what a line says of the peer beside zerogo's simulations a second."""
        found, raw = self.best, max(self.evals[self.dtype])
        numbers = {
            "peer_simulations_per_s": round(found),
            "peer_evals_per_s": round(raw),
            "peer_efficiency": round(found / raw, 3),
        }
        return (
            {"peer": self.name, "peer_batch": self.batch, "peer_dtype": self.dtype}
            | numbers
            | {"ratio": round(own / found, 2)}
        )
