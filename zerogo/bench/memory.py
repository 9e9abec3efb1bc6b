"""Bytes a node costs, and the largest trees that fit devices of given sizes.

A device holds its context (CONTEXT_MB, a stated amount), the network, and for every game its state, its tables, what a
move needs for a while, and the nodes of its tree. All but the context are measured here: the tensors of a network, of
games and of trees as a search makes them, and as `workspace` the most that torch held at once beside them during moves,
without kernels, which need less. These are moves of few simulations: a tree has all its room from the start, and one
simulation needs what the next does. From two sizes of batch and tree follows what a game and what a node adds. A tree
that is kept from move to move has room for two searches.

With --run, a run of those settings is watched for so many minutes: what is resident when its window is full, and at the
end. What grows from there on would not stop.

Lines are JSON on stdout, one for every board, device and batch with the nodes that fit, and one for every number of
simulations with the batch that fits; on stderr the same stands as a table. Beside it stands what others quote for mctx
with pgx; it isn't measured here."""

import argparse
import contextlib
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from zerogo import bench, config, kernels
from zerogo.bench.net import NetworkSetup
from zerogo.bench.search import WARM_SIMULATIONS, SearchedGames
from zerogo.config import SearchConfig
from zerogo.errors import InputError
from zerogo.pipeline import train
from zerogo.search import Search, SearchState
from zerogo.system.runtime import synchronize
from zerogo.system.telemetry import METRICS_FILE
from zerogo.system.tensors import TensorFields

NETWORKS = {9: (6, 96), 19: (10, 128)}  # blocks and channels of configs/9x9.yaml and 19x19.yaml, up to that side
CONTEXT_MB = 600  # what CUDA and its libraries take before the first tensor: stated, not measured
QUOTED = {9: 7700, 19: 34000}  # bytes a node of mctx with pgx
GAMES, SIMULATIONS = (8, 24), (8, 2000)  # two sizes each, from which follows what one more costs
MEGA = 1e6


@torch.inference_mode()
def run_memory(args: argparse.Namespace) -> None:
    """Prints a line for every size, memory, and batch or number of simulations; or one of a run that was watched."""
    if args.run:
        with torch.inference_mode(False):
            return bench.report({"bench": "memory"} | watched(config.load(args.run), args.minutes))
    lists = {name: bench.whole_numbers(getattr(args, name)) for name in ("size", "memory", "batch", "sims")}
    for size in lists["size"]:
        costs = Costs(args, size)
        rows = []
        for memory in lists["memory"]:
            for line in costs.lines(memory, lists["batch"], lists["sims"]):
                bench.report(costs.common | line)
                rows.append(tuple(str(line[name]) for name in ("memory_gb", "given", "batch", "simulations", "nodes")))
        bench.show_table((f"{size}x{size}: GB", "given", "games", "simulations", "nodes of each"), rows)


def watched(settings: config.Config, minutes: float) -> dict[str, Any]:
    """Trains in a folder of its own for so long; returns what this process had resident when the window was full, and
    then at most and at the end [MB], with the growth."""
    found: list[tuple[float, float]] = []
    ended, start = threading.Event(), time.monotonic()

    def look() -> None:
        while not ended.wait(min(10.0, 60 * minutes / 10)):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found.append((time.monotonic() - start, pages * os.sysconf("SC_PAGE_SIZE") / MEGA))

    with tempfile.TemporaryDirectory() as folder:
        overrides = {"run.directory": folder, "run.name": "watched", "pipeline.iterations": 0}
        overrides |= {"pipeline.minutes": minutes, "pipeline.final_matches": False}
        settings = config.with_overrides(settings, [f"{key}={value}" for key, value in overrides.items()])
        thread = threading.Thread(target=look)
        thread.start()
        try:
            with contextlib.redirect_stdout(sys.stderr):
                train(settings)
        finally:
            ended.set()
            thread.join()
        lines = (Path(folder) / "watched" / "logs" / METRICS_FILE).read_text().splitlines()
    rounds = [json.loads(line) for line in lines]
    full = [60 * one["time/minutes"] for one in rounds if one.get("replay/held", 0) >= settings.replay.capacity]
    if not full or not (after := [size for seconds, size in found if seconds >= full[0]]):
        raise InputError(f"the window was not full after {minutes:g} minutes; lower replay.capacity or take longer")
    line = {"minutes": minutes, "full_after_minutes": round(full[0] / 60, 1), "rounds": len(rounds)}
    line |= {"resident_mb_full": after[0], "resident_mb_most": max(after), "resident_mb_end": after[-1]}
    return line | {"growth_percent": round(100 * (after[-1] / after[0] - 1), 2)}


class Costs:
    """Bytes of the network, of each node of a tree, and, as pairs (a game, each of its nodes), of what is held beside
    the tree and of what a move needs for a while; measured on a board. common: what all lines of it say."""

    def __init__(self, args: argparse.Namespace, size: int) -> None:
        blocks, channels = NETWORKS[9 if size <= 9 else 19]
        shape = {"blocks": args.blocks or blocks, "channels": args.channels or channels}
        setup = NetworkSetup(argparse.Namespace(**(vars(args) | shape)), size, max(GAMES))
        search = Search(setup.evaluator, SearchConfig(algorithm="puct"))
        nodes, held, workspaces = [], [], []  # of each size of tree, for one game
        with kernels.plain():
            for sims in SIMULATIONS:
                peaks = []
                for batch in GAMES:
                    games = SearchedGames(setup, search, sims, batch)
                    peaks.append(peak_bytes(partial(games.move, min(WARM_SIMULATIONS, sims)), setup.device))
                nodes.append(games.search_state.tree.num_nodes)
                held.append(_bytes_beside_tree(games.search_state) / batch)
                workspaces.append((peaks[1] - peaks[0]) / (GAMES[1] - GAMES[0]))
        network = setup.evaluator.network.network
        joined = [part for readout in (network.map_readout, network.scalar_readout) for part in readout.joined or ()]
        self.network = sum(tensor.nbytes for tensor in (*network.parameters(), *network.buffers(), *joined))
        self.node = games.search_state.tree.bytes_per_node
        self.held, self.workspace = _line(nodes, held), _line(nodes, workspaces)
        self.common = setup.line("memory") | {"bytes_per_node": self.node, "bytes_per_game": round(self.held[0])}
        self.common |= {"mctx_pgx_bytes_per_node_quoted": QUOTED[size]} if size in QUOTED else {}

    def lines(self, memory: int, batches: list[int], simulations: list[int]) -> Iterator[dict[str, Any]]:
        """Yields what fits: the trees of given batches, and the batches with given trees. memory: in GB."""
        room = memory * 1e9 - CONTEXT_MB * MEGA - self.network
        a_game, a_node = self.held[0] + self.workspace[0], self.node + self.held[1] + self.workspace[1]
        fits = [("batch", batch, max(0, int((room / batch - a_game) / a_node))) for batch in batches]
        for nodes in [2 * number + 2 for number in simulations]:
            fits.append(("simulations", max(0, int(room / (a_game + nodes * a_node))), nodes))
        for given, batch, nodes in fits:
            yield {
                "memory_gb": memory,
                "given": given,
                "batch": batch,
                "nodes": nodes,
                "simulations": max(0, (nodes - 2) // 2),
                "trees_mb": round(batch * nodes * self.node / MEGA),
                "games_mb": round(batch * (self.held[0] + nodes * self.held[1]) / MEGA),
                "workspace_mb": round(batch * (self.workspace[0] + nodes * self.workspace[1]) / MEGA),
                "network_mb": round(self.network / MEGA, 1),
                "context_mb": CONTEXT_MB,
            }


def _line(nodes: list[int], found: list[float]) -> tuple[float, float]:
    """Returns what a game without nodes and what each node costs, neither below 0, where two sizes were measured."""
    each = max(0.0, (found[1] - found[0]) / (nodes[1] - nodes[0]))
    return max(0.0, found[0] - each * nodes[0]), each


def _bytes_beside_tree(search_state: SearchState) -> int:
    """Returns what the games take without their trees: their states with all history, and the search's tables."""
    storages = {}
    for name, held in vars(search_state).items():
        tensors = held.tensors() if isinstance(held, TensorFields) else [held] if isinstance(held, Tensor) else []
        for storage in [tensor.untyped_storage() for tensor in tensors if name != "tree"]:
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Keeps off the terminal what the profiler's and the allocator's C++ parts say: starts, stops, unknown blocks."""
    sys.stderr.flush()
    before, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(sink)


def peak_bytes(work: Callable[[], Any], device: torch.device) -> int:
    """Returns the bytes that torch held at most during the work beside what it held before."""
    work()  # what stays from now on is there already
    if device.type == "cuda":
        synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    with _silent_stderr(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: (event.start_ns(), event.nbytes()))]
    return max(0, *itertools.accumulate(changes))
