"""Games, moves and samples of self-play by a fresh network, and the raw network's evaluations a second beside them, in
one run.

`efficiency` is the ratio of simulations a second, everything that self-play does included, to the evaluations of the
network alone at the same batch and precision, each in its best round; on CUDA these, too, are replayed as a graph where
that is faster."""

from __future__ import annotations

import argparse

import torch

from zerogo.bench import report, whole_numbers
from zerogo.bench.net import Setup, add_network_arguments, evals_per_second
from zerogo.config import GameConfig, SearchConfig, SelfplayConfig
from zerogo.errors import InputError
from zerogo.selfplay import SelfPlay

HOUR = 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)
    parser.add_argument("--sims", type=int, default=8, help="simulations a move (default 8)")
    parser.add_argument("--algorithm", default="gumbel", help="gumbel or puct (default gumbel)")


def run(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch."""
    if args.sims < 1:
        raise InputError(f"--sims is {args.sims}; it must be at least 1")
    for size in whole_numbers(args.size):
        for batch in whole_numbers(args.batch):
            _measure(args, Setup.of(args, size, batch))


@torch.inference_mode()
def _measure(args: argparse.Namespace, setup: Setup) -> None:
    """Plays rounds of a few games a lane, so that openings and endings count as often as they come, and rounds of the
    network alone.
    """
    size, batch = setup.state.board_size, setup.state.num_games
    sims = {"full_simulations": args.sims, "cheap_simulations": args.sims}
    sections = (
        GameConfig(size=size),
        SearchConfig(algorithm=args.algorithm),
        SelfplayConfig(games=batch, sgf_share=0.0, **sims),
    )
    selfplay = SelfPlay(*sections, setup.evaluator, setup.device, seed=1)
    forwards = setup.forwards()
    selfplay.play(batch)  # the games that begin together end together; after that they are spread
    evals, results = [], []
    for _ in range(args.rounds):
        evals.append(evals_per_second(setup, forwards, args.seconds))
        results.append(selfplay.play(max(1, batch // 2)))
    seconds = sum(collected.seconds for collected in results)
    samples = sum(len(part) for collected in results for part in collected.samples)
    line = setup.line("selfplay") | {
        "blocks": args.blocks,
        "channels": args.channels,
        "algorithm": args.algorithm,
        "sims": args.sims,
    }
    line |= {
        "games_per_hour": round(sum(len(collected.lengths) for collected in results) / seconds * HOUR),
        "moves_per_s": round(sum(collected.moves for collected in results) / seconds),
        "samples_per_s": round(samples / seconds),
        "simulations_per_s": round(sum(collected.simulations for collected in results) / seconds),
        "evals_per_s": round(max(evals)),
        "efficiency": round(max(collected.simulations / collected.seconds for collected in results) / max(evals), 3),
    }
    report(line)
