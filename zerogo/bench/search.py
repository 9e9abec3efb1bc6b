"""Simulations a second of whole searches (`search`) and of self-play (`selfplay`), which share of the raw network's
speed that is, and where the time of a simulation goes (`profile`).

The games of `search` start in their middle. Every search is a move's: the best move but the pass is played, the subtree
below it is kept, and games that end are replaced by others in their middle; only new simulations count. Of the network
alone and of searches the best round counts; on CUDA the network, too, is replayed as a graph, if that is faster. A
fresh network's trees are flat; --spread gives it a policy as decided as a trained one's, and deeper trees.

`efficiency` is the ratio of the simulations that the network evaluated to its evaluations alone: those that end in a
finished position or a closed move need no network and count in `simulations_per_s` only, so 1 is its limit. The clock
runs while simulations do; what lies between two searches is in the second pair of numbers, `..._with_moves`. In
`selfplay` all that it does counts. With several leaves a step the network alone is shown games x leaves positions;
`gain` is then the speed beside that of one leaf a step, and `collision_share` the share of selections that were
dropped, which `simulations_per_s` has not.

With --peer mctx searches games of pgx on the same device in a process of its own, in turn with zerogo: the same
network, simulations and threads, the same batch or the best of --peer-batch, in whichever precision is faster there.
`ratio` is zerogo's simulations a second by the peer's, whose clock, too, runs in searches alone.

`profile` times the stages of a step of the search, one simulation in every game or `leaves` of them: `select`, `step`
(the last move, legality, superko, the result), `encode`, `network`, `answer` (what else the evaluator does: symmetries,
the legal mask, softmax), `expand_and_backup` and `rest`, each without stages inside it. On CUDA the steps are made
operation by operation here, not replayed as one graph, and the clock is events in the stream: a stage that waits for
the host's launches is charged for that. What the graph spares is the difference to `search`."""

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from zerogo import bench, board, kernels
from zerogo.bench import PeerProcess
from zerogo.bench.net import NetworkSetup
from zerogo.config import GameConfig, SearchConfig, SelfplayConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.search import Search, SearchState
from zerogo.search import search as steps
from zerogo.selfplay import SelfPlay
from zerogo.system.runtime import synchronize

WARM_SIMULATIONS = 4  # of each of two moves before the clock starts: by then all is compiled, and a tree was kept once
HOUR = 3600
KINDS = {"compiled": contextlib.nullcontext, "plain": kernels.plain}
REST = "rest"
STAGES = ("select", "step", "encode", "network", "answer", "expand_and_backup", REST)
# The functions of a step by the names that `Search` calls them by, and the stage that each is.
PARTS = {"select": "select", "step_leaves": "step", "expand_and_backup": "expand_and_backup"}


def tree_line(name: str, setup: NetworkSetup, batch: int) -> dict[str, Any]:
    """Returns what every line says of its network and search."""
    shown = {field: getattr(setup.args, field) for field in ("algorithm", "sims", "leaves", "spread")}
    return setup.line(name) | {"batch": batch} | shown


@torch.inference_mode()
def run_search(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch."""
    if args.kernels not in KINDS:
        raise InputError(f"--kernels is {args.kernels!r}; allowed are {' and '.join(KINDS)}")
    for size, batch in bench.cases(args):
        with KINDS[args.kernels]():
            _measure(args, NetworkSetup(args, size, batch * args.leaves), batch)


def _measure(args: argparse.Namespace, setup: NetworkSetup, batch: int) -> None:
    settings = SearchConfig(algorithm=args.algorithm, leaves=args.leaves)
    games = SearchedGames(setup, Search(setup.evaluator, settings), args.sims, batch)
    works = {"network": setup.evals_per_second, "search": games.play}
    if args.leaves > 1:
        one_leaf = Search(setup.evaluator, dataclasses.replace(settings, leaves=1))
        works["one leaf"] = SearchedGames(setup, one_leaf, args.sims, batch).play
    with contextlib.ExitStack() as running:
        batches = bench.peer_batches(args, batch)
        peers = [running.enter_context(SearchPeer(args, setup, number)) for number in batches]
        found = bench.in_turn(args, works | {peer: peer.play for peer in peers})
    rate, whole = (max(rates) for rates in zip(*found["search"], strict=True))
    raw, evaluated = max(found["network"]), 1 - sum(games.shares)
    line = tree_line("search", setup, batch) | {
        "kernels": args.kernels,
        "simulations_per_s": round(rate),
        "evals_per_s": round(raw),
        "efficiency": round(rate * evaluated / raw, 3),
        "simulations_per_s_with_moves": round(whole),
        "efficiency_with_moves": round(whole * evaluated / raw, 3),
    }
    if args.leaves > 1:
        gain = rate / max(single for single, _ in found["one leaf"])
        dropped = int(games.search_state.collisions) - games.collisions_before
        line |= {"gain": round(gain, 3), "collision_share": round(dropped / (dropped + games.simulations), 5)}
    best = max(peers, key=lambda peer: max(peer.rates.values()), default=None)
    bench.report(line | games.line() | ({} if best is None else best.line(rate)))


class SearchedGames:
    """B games that are searched and played on, with their kept subtrees; they are warm when they are made."""

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
        """Returns simulations a second within the searches, and of whole moves; at least so many seconds, which are
        whole moves, too."""
        simulations, searching, all_told = 0, 0.0, 0.0
        while searching < seconds:
            number, search, move = self.move(self.sims)
            simulations, searching, all_told = simulations + number, searching + search, all_told + move
        self.simulations += simulations
        return simulations / searching, simulations / all_told

    def move(self, sims: int) -> tuple[int, float, float]:
        """Searches and plays one move in every game; returns how many simulations that were, and the seconds of
        searches and of all."""
        start = bench.now(self.setup.device)
        self.search.begin(self.search_state, self.games, sims, self.moves, explore=True)
        began = bench.now(self.setup.device)
        self.search.run_simulations(self.search_state)
        spent = bench.now(self.setup.device)
        simulations = int(self.search_state.done.sum())
        policy = self.search.result(self.search_state, self.games).policy
        # A fresh network would soon pass, and after a pass a search looks at little but the game's end.
        actions = torch.cat([policy[:, :-1], policy[:, -1:] * 1e-6], dim=1).argmax(1)
        self.state = board.step_(self.state, actions)
        self.search.advance(self.search_state, self.games, actions, self.state)
        self.moves += 1
        over = self.state.finished.nonzero().squeeze(1)
        if over.numel():  # others in their middle take their places
            others = (over + self.moves) % self.setup.state.num_games
            self.state = board.put_(self.state, over, self.setup.state.select(others))
            self.search.replace(self.search_state, over, self.state)
        return simulations, spent - began, bench.now(self.setup.device) - start

    @property
    def shares(self) -> list[float]:
        """Which shares of the simulations in `play` ended in a finished position, and in a closed move."""
        return ((self.search_state.exact_leaves.cpu() - self.exact_before) / self.simulations).tolist()

    def line(self) -> dict[str, Any]:
        """Returns what a line says of the trees: nodes kept and the deepest node by the last move, means over the
        games."""
        tree, (finished, closed) = self.search_state.tree, self.shares
        return {
            "finished_share": round(finished, 5),
            "closed_share": round(closed, 5),
            "bytes_per_node": tree.bytes_per_node,
            "kept_nodes": round(float(tree.size.double().mean()), 1),
            "deepest": round(float(self.search_state.deepest.double().mean()), 1),
        }


class SearchPeer(PeerProcess):
    """mctx with pgx at the same sizes of all but the batch: rounds of its network and its searches, in the precision
    that is faster."""

    def __init__(self, args: argparse.Namespace, setup: NetworkSetup, batch: int) -> None:
        self.batch = batch
        sizes = (setup.state.board_size, batch, args.sims, args.blocks, args.channels, torch.get_num_threads())
        super().__init__(args, "mctx", args.algorithm, args.spread, *sizes, setup.device)
        self.dtypes = ["float32", "bfloat16"]
        self.evals, self.rates = dict.fromkeys(self.dtypes, 0.0), dict.fromkeys(self.dtypes, 0.0)

    def play(self, seconds: float) -> None:
        """Times one round: the first time in both precisions, then in the better one; the best rates are kept."""
        for name in self.dtypes:
            self.evals[name] = max(self.evals[name], self.ask("network", name, seconds))
            self.rates[name] = max(self.rates[name], self.ask("search", name, seconds))
        self.dtypes = [max(self.rates, key=self.rates.get)]

    def line(self, own: float) -> dict[str, Any]:
        """Returns what a line says of the peer beside zerogo's simulations a second."""
        dtype = self.dtypes[0]
        rate, raw = self.rates[dtype], self.evals[dtype]
        return {
            "peer": self.name,
            "peer_batch": self.batch,
            "peer_dtype": dtype,
            "peer_simulations_per_s": round(rate),
            "peer_evals_per_s": round(raw),
            "peer_efficiency": round(rate / raw, 3),
            "ratio": round(own / rate, 2),
        }


# Self-play


@torch.inference_mode()
def run_selfplay(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch: rounds of half as many games as the batch has, so that openings and
    endings count as often as they come."""
    for size, batch in bench.cases(args):
        setup = NetworkSetup(args, size, batch)
        moves = {"full_simulations": args.sims, "cheap_simulations": args.sims, "sgf_share": 0.0}
        sections = (GameConfig(size=size), SearchConfig(args.algorithm), SelfplayConfig(slots=batch, **moves))
        selfplay = SelfPlay(*sections, setup.evaluator, setup.device, seed=1)
        selfplay.play(batch)  # the games that begin together end together; after that they are spread
        rounds = max(1, batch // 2)
        works = {"network": setup.evals_per_second, "games": lambda _, play=selfplay.play, rounds=rounds: play(rounds)}
        found = bench.in_turn(args, works)
        results, raw = found["games"], max(found["network"])
        seconds = sum(collected.seconds for collected in results)
        samples = sum(len(part) for collected in results for part in collected.samples)
        line = setup.line("selfplay") | {
            "algorithm": args.algorithm,
            "sims": args.sims,
            "games_per_hour": round(sum(len(collected.lengths) for collected in results) / seconds * HOUR),
            "moves_per_s": round(sum(collected.moves for collected in results) / seconds),
            "samples_per_s": round(samples / seconds),
            "simulations_per_s": round(sum(collected.simulations for collected in results) / seconds),
            "evals_per_s": round(raw),
            "efficiency": round(max(collected.simulations / collected.seconds for collected in results) / raw, 3),
        }
        bench.report(line)


# The profile


@torch.inference_mode()
def run_profile(args: argparse.Namespace) -> None:
    """Prints two lines for every size and batch, with compiled kernels and plain, the round of each in which a step was
    fastest, and the same as a table to stderr."""
    for size, batch in bench.cases(args):
        setup = NetworkSetup(args, size, batch * args.leaves)
        settings = SearchConfig(algorithm=args.algorithm, leaves=args.leaves, cuda_graph=False)
        rounds = bench.in_turn(args, {kind: StageClock(setup, settings, batch, kind).play for kind in KINDS})
        columns = []
        for kind, found in rounds.items():
            stages = min(found, key=lambda stages: sum(stages.values()))
            total = sum(stages.values())
            line = tree_line("profile", setup, batch) | {"kernels": kind, "us_per_step": round(total)}
            line["stages_us"] = {name: round(microseconds, 1) for name, microseconds in stages.items()}
            line["shares"] = {name: round(microseconds / total, 4) for name, microseconds in stages.items()}
            bench.report(line)
            shown = [f"{microseconds:.0f} ({microseconds / total:.0%})" for microseconds in stages.values()]
            columns.append([kind, *shown, f"{total:.0f}"])
        header, *rows = zip(("us per step", *STAGES, "together"), *columns, strict=True)
        bench.show_table(header, rows)


class StageClock:
    """Games whose search is timed stage by stage, with kernels of one kind."""

    def __init__(self, setup: NetworkSetup, settings: SearchConfig, batch: int, kind: str) -> None:
        self.device, self.stage, self.kernels = setup.device, REST, KINDS[kind]
        self.marks: list[tuple[str, Any]] = []  # what begins when; "" is nobody's time
        network, encoder = self.timed("network", setup.evaluator.network), setup.encoder
        network.dtype = setup.dtype
        encodings = {name: self.timed("encode", getattr(encoder, name)) for name in ("planes", "globals")}
        evaluator = Evaluator(network, SimpleNamespace(**encodings), setup.evaluator.symmetries)
        search = Search(self.timed("answer", evaluator), settings, root_evaluator=setup.evaluator)
        with self.kernels():
            self.games = SearchedGames(setup, search, setup.args.sims, batch)

    def play(self, seconds: float) -> dict[str, float]:
        """Returns the microseconds that the stages of one step took, the mean over whole searches of at least so many
        seconds."""
        parts = {name: self.timed(stage, getattr(steps, name)) for name, stage in PARTS.items()}
        search, timed_step = self.games.search, self.timed(REST, self.games.search.step)

        def _step(search_state: SearchState) -> None:
            timed_step(search_state)
            self.marks.append(("", self.marks[-1][1]))

        spent, number_of_steps = dict.fromkeys(STAGES, 0.0), 0
        while sum(spent.values()) < seconds:
            self.marks = []
            with self.kernels(), mock.patch.multiple(steps, **parts), mock.patch.object(search, "step", _step):
                self.games.move(self.games.sims)
            for name, duration in self.durations():
                spent[name] += duration
            number_of_steps += sum(not stage for stage, _ in self.marks)
        return {name: 1e6 * duration / number_of_steps for name, duration in spent.items()}

    def timed(self, stage: str, function: Callable) -> Callable:
        """Returns the function, its time charged to a stage."""

        def _call(*arguments: Any, **named: Any) -> Any:
            before, self.stage = self.stage, stage
            self._mark()
            try:
                return function(*arguments, **named)
            finally:
                self.stage = before
                self._mark()

        return _call

    def _mark(self) -> None:
        """Notes that the present stage begins here, or goes on after one inside it."""
        if self.device.type == "cuda":
            moment = torch.cuda.Event(enable_timing=True)
            moment.record()
        else:
            moment = time.perf_counter()
        self.marks.append((self.stage, moment))

    def durations(self) -> Iterator[tuple[str, float]]:
        """Yields the seconds from each mark to the next with the stage that they belong to."""
        synchronize(self.device)
        for (stage, start), (_, end) in zip(self.marks, self.marks[1:], strict=False):
            if stage:
                yield stage, start.elapsed_time(end) / 1e3 if self.device.type == "cuda" else end - start
