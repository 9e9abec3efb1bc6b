"""Random legal moves per second: how fast many games are played at once, next to pgx (their rounds alternate).

A move is drawn uniformly from the exact legal mask, pass included. Every game of the batch is running: one that ends is
replaced by a fresh one before the next move, and the time for that counts. The peer does the same on the same device in
a separate process; of several --peer-batch the fastest counts."""

import argparse
import contextlib
import statistics

import torch
from torch import Tensor

from zerogo import bench, board, kernels
from zerogo.board import State, exact_legal_rows
from zerogo.rules import Rules

WARM_PLIES = 2  # times the points of the board: by then games of all ages are in the batch
PLIES = 20  # between two looks at the clock


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
        self.fresh: dict[int, State] = {}
        self.state = self._new(batch)
        self.generator = torch.Generator(device=device).manual_seed(1)

    def play_plies(self, plies: int) -> None:
        """Plays so many moves in every game."""
        for _ in range(plies):
            actions = draw(self.state, self.generator)
            self.state = board.step_(self.state, actions)
            ended = self.state.finished.nonzero().squeeze(1)
            if ended.numel():
                if len(ended) not in self.fresh:  # made once: they are only copied from
                    self.fresh[len(ended)] = self._new(len(ended))
                self.state = board.put_(self.state, ended, self.fresh[len(ended)])

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
