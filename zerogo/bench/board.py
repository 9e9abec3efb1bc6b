"""Random legal moves a second: how fast many games are played at once, beside pgx (ROUNDS rounds of each, interleaved).

A move is drawn uniformly from the exact legal mask, pass included. Every game in the batch is going on: one that ends
is replaced by a fresh one before the next move, and the time for that counts. The peer does the same on the same device
in its own process, with --peer-batch in several, of which the fastest counts; only one works at a time."""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

from zerogo import board, flood, kernels
from zerogo.bench import add_batch_arguments, report, whole_numbers
from zerogo.bench.peer import Peer, add_peer_arguments, check_peer_size, peer_batches
from zerogo.board import State
from zerogo.board.state import exact_legal_rows
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.runtime import pick_device, set_up_cpu

PEER = Path(__file__).with_name("pgx_peer.py")
WARM_PLIES = 2  # times the points of the board: by then games of all ages are in the batch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_batch_arguments(parser, "games played", 1024)
    parser.add_argument(
        "--superko", default="positional", help="positional, situational or simple (default positional)"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one round (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default 3)")
    add_peer_arguments(parser, "pgx")


def run(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch."""
    device = pick_device(args.device)
    set_up_cpu(args.threads)
    if args.rounds < 1 or args.seconds <= 0:
        raise InputError(
            f"{args.rounds} rounds of {args.seconds} seconds; at least one round of more than 0 seconds is needed"
        )
    for size in whole_numbers(args.size):
        if args.peer:
            check_peer_size(size)
        for batch in whole_numbers(args.batch):
            _measure(args, size, batch, device)


def _measure(args: argparse.Namespace, size: int, batch: int, device: torch.device) -> None:
    games = RandomGames(Rules(size=size, superko=args.superko), batch, device)
    threads = torch.get_num_threads()
    line = {"bench": "board", "size": size, "batch": batch, "device": str(device), "dtype": "int32", "threads": threads}
    line["superko"] = args.superko
    with contextlib.ExitStack() as running:
        peers: dict[int, Peer] = {}
        for games_at_once in peer_batches(args, batch) if args.peer else []:
            peers[games_at_once] = running.enter_context(
                Peer(args.peer_python, PEER, [size, games_at_once, threads, str(device)], "pgx")
            )
        games.play_plies(WARM_PLIES * size * size)
        own, others = [], {games_at_once: [] for games_at_once in peers}
        for _ in range(args.rounds):
            own.append(games.moves_per_second(args.seconds))
            for games_at_once, peer in peers.items():
                others[games_at_once].append(peer.ask(args.seconds))
    line["moves_per_s"] = round(statistics.median(own))
    if peers:
        best, rates = max(others.items(), key=lambda item: statistics.median(item[1]))
        line |= {"peer": peers[best].name, "peer_batch": best, "peer_moves_per_s": round(statistics.median(rates))}
        line["ratio"] = round(statistics.median(own) / statistics.median(rates), 2)
    report(line)


class RandomGames:
    """A batch of games that are played at random and replaced when they end (two passes, or 2 * N * N plies)."""

    def __init__(self, rules: Rules, batch: int, device: torch.device) -> None:
        self.rules, self.device = rules, device
        self.fresh: dict[int, State] = {}
        self.state = self._new(batch)
        self.generator = torch.Generator(device=device).manual_seed(1)

    def play_plies(self, plies: int) -> None:
        for _ in range(plies):
            actions = draw(self.state, self.generator)
            self.state = board.step_(self.state, actions)
            ended = self.state.finished.nonzero().squeeze(1)
            if ended.numel():
                self.state = board.put_(self.state, ended, self._fresh(len(ended)))

    def _new(self, number: int) -> State:
        return board.new_games(number, self.rules, device=self.device, move_cap=2 * self.rules.size**2)

    def _fresh(self, number: int) -> State:
        """Returns so many new games, made once: they are only copied from."""
        if number not in self.fresh:
            self.fresh[number] = self._new(number)
        return self.fresh[number]

    def moves_per_second(self, seconds: float) -> float:
        """Returns moves a second, over at least that many seconds."""
        plies, step = 0, 20
        start = self._now()
        while self._now() - start < seconds:
            self.play_plies(step)
            plies += step
        return plies * self.state.num_games / (self._now() - start)

    def _now(self) -> float:
        if self.state.device.type == "cuda":
            torch.cuda.synchronize(self.state.device)
        return time.perf_counter()


def draw(state: State, generator: torch.Generator) -> Tensor:
    """Returns a move for every game, uniform over its legal moves, pass included: int64 [B]. Takes B numbers from the
    generator.

    Without kernels rows come first, [N, B]: sums over them add whole rows, which is fast.
    """
    legal, board_size = exact_legal_rows(state), state.board_size
    numbers = torch.rand(state.num_games, generator=generator, device=state.device, dtype=torch.float64)
    if (fast := kernels.compiled("board", state.device)) is not None:
        return fast.pick(legal, numbers)
    rows = legal.T.contiguous()
    up_to = flood.row_counts(rows).cumsum(0, dtype=torch.int32)
    total = up_to[-1] + 1
    chosen = (numbers * total).to(torch.int32)
    row = (up_to <= chosen).sum(0)  # N where the pass is chosen
    skipped = torch.where(row > 0, up_to.gather(0, (row - 1).clamp(min=0).unsqueeze(0)).squeeze(0), 0)
    bits = rows.gather(0, row.clamp(max=board_size - 1).unsqueeze(0))
    is_set = (bits >> torch.arange(board_size, dtype=torch.int32, device=rows.device).unsqueeze(1)) & 1
    column = (is_set.cumsum(0, dtype=torch.int32) <= chosen - skipped).sum(0)
    return torch.where(row == board_size, board_size**2, row * board_size + column)
