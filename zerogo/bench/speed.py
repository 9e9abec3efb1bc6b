"""Speeds: of the board (`board`), of a network and an encoder (`net`), of whole searches (`search`) and of self-play
(`selfplay`); the last two with their share of the raw network's speed.

**Board.** Random legal moves per second, next to pgx's (their rounds alternate). A move is drawn uniformly from the
exact legal mask, pass included. Every game of the batch is running: one that ends is replaced by a fresh one before the
next move, and the time for that counts. The peer does the same on the same device in a separate process; of several
--peer-batch the fastest counts.

**Network.** It is timed with fresh random weights and ready input, and a large matrix product for the device's peak. On
CUDA the forward pass is timed operation by operation and as a graph, which is how a search replays it; the faster one
counts. With --encoder, `net` also times encoding, next to zero17's; every call encodes the positions as if for the
first time. Positions are from the middle of games of random moves.

**Search.** It starts from such positions. Each search decides a move: the best move but the pass is played, the subtree
below it is kept, and games that end are replaced by other mid-game positions. Only new simulations count, in the best
round. A fresh network's trees are flat; --spread gives it a policy as sharp as a trained one's, and deeper trees.

The fields of a line, --processes and --peer are explained in docs/benchmarks.md. --profile prints the operations of
one more move by torch's profiler; Numba's kernels appear in the operation that calls them."""

import argparse
import contextlib
import dataclasses
import statistics
import sys
from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import Any

import torch
from torch import Tensor
from torch.profiler import profile

from zerogo import bench, board, kernels, tuning
from zerogo.bench import PeerProcess
from zerogo.board import State, exact_legal_rows, rng
from zerogo.checkpoint import fresh_network, load_newest
from zerogo.config import Config, FeaturesConfig, GameConfig, NetworkConfig, SearchConfig, SelfplayConfig
from zerogo.evaluator import SEARCH_HEADS, Evaluator
from zerogo.features import ENCODERS, Encoder, make_encoder
from zerogo.network import Network, inference_copy
from zerogo.pipeline.snapshots import join_results
from zerogo.rules import Rules
from zerogo.search import Search
from zerogo.selfplay import SelfPlay, SelfPlayResult
from zerogo.system import distributed
from zerogo.system.runtime import try_capture

WARM_PLIES = 2  # times the points of the board: by then games of all ages are in the batch
PLIES = 20  # between two looks at the clock
REFERENCE_ENCODER = "zero17"
PRODUCT = {"cuda": 8192, "cpu": 1024}  # sides of the matrices whose product shows what a device can do
OPENING = 0.2  # share of the points that are played before a position, at the least; at most three times that
WARM_SIMULATIONS = 4  # of each of two moves before the clock starts: by then all is compiled, and a tree was kept once
HOUR = 3600
KINDS = {"compiled": contextlib.nullcontext, "plain": kernels.plain}
PROFILED_OPERATIONS = 25


# Board


def run_board(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch; the median round counts."""
    device = bench.open_device(args)
    for size, batch in bench.sizes_and_batches(args):
        games = RandomGames(Rules(size=size, superko=args.superko), batch, device)
        line = bench.describe_case("board", size, batch, device, torch.int32) | {"superko": args.superko}
        with contextlib.ExitStack() as processes:
            peers = {
                number: processes.enter_context(bench.PeerProcess(args, "pgx", size, number, line["threads"], device))
                for number in bench.peer_batches(args, batch)
            }
            games.play_plies(WARM_PLIES * size * size)
            works = {"zerogo": games.moves_per_second} | {number: peer.request for number, peer in peers.items()}
            rates = {name: statistics.median(rates) for name, rates in bench.alternate_rounds(args, works).items()}
        line["moves_per_s"] = round(rates["zerogo"])
        if peers:
            best = max(peers, key=rates.get)
            line |= {"peer": peers[best].name, "peer_batch": best, "peer_moves_per_s": round(rates[best])}
            line["ratio"] = round(rates["zerogo"] / rates[best], 2)
        bench.print_line(line)


class RandomGames:
    """A batch of games that are played at random and replaced when they end (two passes, or 2 * N * N plies)."""

    def __init__(self, rules: Rules, batch: int, device: torch.device) -> None:
        self.rules, self.device = rules, device
        self.state, self.fresh = self._new(batch), cache(self._new)  # made once: they are only copied from
        self.generator = torch.Generator(device=device).manual_seed(1)

    def play_plies(self, plies: int) -> None:
        """Plays so many moves in every game."""
        for _ in range(plies):
            actions = draw(self.state, self.generator)
            self.state = board.step_(self.state, actions)
            ended = self.state.finished.nonzero().squeeze(1)
            if ended.numel():
                self.state = board.put_(self.state, ended, self.fresh(len(ended)))

    def _new(self, number: int) -> State:
        return board.new_games(number, self.rules, device=self.device, move_cap=2 * self.rules.size**2)

    def moves_per_second(self, seconds: float) -> float:
        """Returns moves per second, over at least that many seconds."""
        rounds = bench.measure_rate(lambda: self.play_plies(PLIES), self.device, seconds)
        return rounds * PLIES * self.state.num_games


def draw(state: State, generator: torch.Generator) -> Tensor:
    """Returns a move for every game, uniform over its legal moves, pass included: int64 [B]."""
    if (fast := kernels.module_for("playouts", state.device)) is None:
        return board.legal_actions(state).to(torch.float32).multinomial(1, generator=generator).squeeze(1)
    drawn = torch.randint(2**24, (state.num_games,), generator=generator, device=state.device)
    return fast.pick(exact_legal_rows(state), drawn)


# Network


@torch.inference_mode()
def run_net(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch; the best round counts."""
    for size, batch in bench.sizes_and_batches(args):
        setup = NetworkSetup(args, size, batch)
        works = {"network": setup.evals_per_second}
        if args.encoder:
            encoders = {"encoder": setup.encoder, "reference": make_encoder(REFERENCE_ENCODER, True)}
            works |= {name: setup.prepare_encoding(encoder) for name, encoder in encoders.items()}
        rates = {name: max(rates) for name, rates in bench.alternate_rounds(args, works).items()}
        operations = rates["network"] * setup.network.num_operations(size)
        line = setup.line("net") | {"evals_per_s": round(rates["network"]), "tflops_per_s": round(operations / 1e12, 4)}
        peak = measure_peak(setup.device, setup.dtype, args.seconds)
        line |= {"peak_tflops_per_s": round(peak / 1e12, 4), "share_of_peak": round(operations / peak, 4)}
        if args.encoder:
            line["encoded_per_s"] = round(rates["encoder"])
            line[f"{REFERENCE_ENCODER}_encoded_per_s"] = round(rates["reference"])
            line["encoder_ratio"] = round(rates["encoder"] / rates["reference"], 4)
        bench.print_line(line)


def measure_peak(device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    """Returns the operations per second of a large matrix product, an upper bound for a network."""
    side = PRODUCT[device.type]
    one, other = torch.ones(2, side, side, dtype=dtype, device=device)
    return 2 * side**3 * bench.measure_rate(lambda: one @ other, device, seconds, at_least=3)


class NetworkSetup:
    """An evaluator to be measured, with fresh random weights (the same at every run) or those of a checkpoint, and the
    mid-game positions that it evaluates."""

    def __init__(self, args: argparse.Namespace, size: int, batch: int) -> None:
        self.args, self.device = args, bench.open_device(args)
        settings = NetworkConfig(blocks=args.blocks, channels=args.channels, pooling_channels=min(32, args.channels))
        encoder = args.encoder or REFERENCE_ENCODER
        features = FeaturesConfig(encoder=encoder if encoder in ENCODERS else tuple(encoder.split("+")))
        config = Config(network=settings, features=features, game=GameConfig(size=size))
        loaded = load_newest(args.checkpoint) if getattr(args, "checkpoint", "") else None
        config = config if loaded is None else loaded.config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.network = fresh_network(config) if loaded is None else loaded.network()
        self.encoder = make_encoder(config.features.encoder, config.features.komi_input)
        run = dataclasses.replace(config.run, threads=torch.get_num_threads())
        self.dtype = tuning.pick_dtype(args.precision, self.device, dataclasses.replace(config, run=run))
        self.state = play_middle_games(size, batch, self.device)
        if getattr(args, "spread", 0.0):
            _sharpen_policy_(self.network, self.encoder, self.state, args.spread)
        setup = (self.network, self.encoder, self.device, self.dtype)
        self.evaluator = Evaluator.from_network(*setup, "random", SEARCH_HEADS)

    @cached_property
    def forwards(self) -> list[Callable[[], Any]]:
        """The network alone on ready planes, after a warm-up; on CUDA as a graph, too, where it can be captured."""
        planes = self.encoder.planes(self.state, self.dtype, self.evaluator.network.padded_planes)
        inputs = self.encoder.globals(self.state)

        def _forward() -> Any:
            return self.evaluator.network(planes, inputs, None)

        bench.measure_rate(_forward, self.device, 0.2, at_least=3)
        replay = try_capture(_forward, self.device)
        return [_forward] if replay is None else [_forward, replay]

    def evals_per_second(self, seconds: float) -> float:
        """Returns the positions per second of the network alone by the faster one of its forwards, each measured over
        at least so many seconds."""
        rates = [bench.measure_rate(forward, self.device, seconds) for forward in self.forwards]
        return max(rates) * self.state.num_games

    def prepare_encoding(self, encoder: Encoder) -> Callable[[float], float]:
        """Returns a function that encodes the positions for so many seconds and returns how many per second; warm."""

        def _encode() -> None:
            encoder.planes(self.state, self.dtype)
            encoder.globals(self.state)

        bench.measure_rate(_encode, self.device, 0.2, at_least=3)
        return lambda seconds: bench.measure_rate(_encode, self.device, seconds, at_least=3) * self.state.num_games

    def line(self, name: str) -> dict[str, Any]:
        """Returns the fields that describe the device, the network and the positions."""
        line = bench.describe_case(name, self.state.board_size, self.state.num_games, self.device, self.dtype)
        shape = {"blocks": self.args.blocks, "channels": self.args.channels}
        if checkpoint := getattr(self.args, "checkpoint", ""):
            shape = {"checkpoint": checkpoint, "parameters": self.network.num_parameters()}
        if encoder := self.args.encoder:
            shape |= {"encoder": encoder, "planes": self.encoder.num_planes, "globals": self.encoder.num_globals}
        return line | shape


def play_middle_games(size: int, batch: int, device: torch.device) -> State:
    """Returns mid-game positions at different plies, after random moves that pass only where nothing else is legal."""
    games = torch.arange(batch, device=device)
    state = board.new_games(batch, Rules(size=size), device, move_cap=2 * size * size)
    first, last = int(OPENING * size * size), int(3 * OPENING * size * size)
    plies = first + (rng.key(2, games) & 0xFFFF) % max(1, last - first)
    for ply in range(last):
        weights = board.legal_actions(state).to(torch.float32)
        weights[:, -1] *= 1e-6
        after = board.step(state, rng.choose(rng.key(1, games, ply), weights))
        running = ((plies > ply) & ~after.finished).nonzero().squeeze(1)
        state = board.put_(state, running, after.select(running))
    return state


@torch.no_grad()
def _sharpen_policy_(network: Network, encoder: Encoder, state: State, spread: float) -> None:
    """Scales the policy's last layer so that its logits have this mean standard deviation over a board's points."""
    playing = inference_copy(network, state.device, heads=("policy",))
    logits = playing(encoder.planes(state, torch.float32), encoder.globals(state))["policy"]
    weight = network.map_readout.parts["policy"].weight
    weight *= (spread / logits[:, :-1].std(1).mean()).to(weight)


# Search


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
        "simulations_per_s": round(rate), "evals_per_s": round(evals),
        "efficiency": round(rate * evaluated_share / evals, 3), "simulations_per_s_with_moves": round(rate_with_moves),
        "efficiency_with_moves": round(rate_with_moves * evaluated_share / evals, 3),
    }  # fmt: skip
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
            "finished_share": round(finished, 5), "closed_share": round(closed, 5),
            "bytes_per_node": tree.bytes_per_node, "kept_nodes": round(float(tree.size.double().mean()), 1),
            "deepest": round(float(self.search_state.deepest.double().mean()), 1),
        }  # fmt: skip


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
            "peer": self.name, "peer_batch": self.batch, "peer_dtype": dtype,
            "peer_simulations_per_s": round(rate), "peer_evals_per_s": round(evals),
            "peer_efficiency": round(rate / evals, 3), "ratio": round(zerogo_rate / rate, 2),
        }  # fmt: skip


# Self-play


@torch.inference_mode()
def run_selfplay(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch: rounds of half as many games as the batch has, so that openings and
    endings count as often as they come."""
    for size, batch in bench.sizes_and_batches(args):
        setup = NetworkSetup(args, size, batch * args.leaves)
        settings = SelfplayConfig(slots=batch, full_simulations=args.sims, sgf_share=0.0)
        game, search = GameConfig(size=size), SearchConfig(args.algorithm, leaves=args.leaves)
        selfplay = SelfPlay(Config(game=game, search=search, selfplay=settings), setup.evaluator, setup.device, seed=1)
        selfplay.play(batch)  # the games that begin together end together; after that they are spread

        works = {"network": setup.evals_per_second, "games": partial(_play_together, selfplay, max(1, batch // 2))}
        rounds = bench.alternate_rounds(args, works)
        results, evals = rounds["games"], max(rounds["network"]) * distributed.world_size()
        seconds = sum(result.seconds for result in results)
        samples = sum(len(batch) for result in results for batch in result.samples)
        line = setup.line("selfplay") | {"batch": batch}
        line |= {name: getattr(args, name) for name in ("algorithm", "sims", "leaves")}
        line |= {
            "games_per_hour": round(sum(len(result.lengths) for result in results) / seconds * HOUR),
            "moves_per_s": round(sum(result.moves for result in results) / seconds),
            "samples_per_s": round(samples / seconds), "evals_per_s": round(evals),
            "simulations_per_s": round(sum(result.simulations for result in results) / seconds),
            "efficiency": round(max(result.simulations / result.seconds for result in results) / evals, 3),
        }  # fmt: skip
        bench.print_line(line)


def _play_together(selfplay: SelfPlay, games: int, _: float) -> SelfPlayResult:
    """Plays so many games in each process and returns the results of all."""
    return join_results(distributed.all_gather_object(selfplay.play(games)))
