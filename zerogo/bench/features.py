"""Positions a second that an encoder turns into planes and global inputs, beside zero17 in the same run.

Rounds of the two take turns, so that what else the machine does falls on both; of each the best round counts. The
positions are from the middle of games of random moves, and every call sees them as if for the first time."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch

from zerogo.bench import add_batch_arguments, report, whole_numbers
from zerogo.bench.net import middle_games, per_second
from zerogo.board import State
from zerogo.errors import InputError
from zerogo.features import ENCODERS, Encoder, make_encoder
from zerogo.runtime import pick_device, pick_dtype, set_up_cpu

BESIDE = "zero17"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset",
        default="alphago48",
        help=f"{', '.join(ENCODERS)}, or groups as stones+liberties:8 (default alphago48)",
    )
    parser.add_argument("--without", default="", help="groups that are left out, as ladder_capture+ladder_escape")
    add_batch_arguments(parser, "positions", 1024)
    parser.add_argument("--precision", default="float32", help="auto, float32 or bfloat16 (default float32)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one round (default 0.5)")
    parser.add_argument(
        "--rounds", type=int, default=7, help="rounds; the best counts: others only slow it down (default 7)"
    )


def run(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch."""
    device = pick_device(args.device)
    dtype = pick_dtype(args.precision, device)
    set_up_cpu(args.threads)
    if args.rounds < 1 or args.seconds <= 0:
        raise InputError(
            f"{args.rounds} rounds of {args.seconds} seconds; at least one round of more than 0 seconds is needed"
        )
    encoder = _encoder(args.preset, args.without)
    for size in whole_numbers(args.size):
        for batch in whole_numbers(args.batch):
            state = middle_games(size, batch, device)
            line = {
                "bench": "features",
                "size": size,
                "batch": batch,
                "device": str(device),
                "dtype": str(dtype).removeprefix("torch."),
            }
            line |= {"threads": torch.get_num_threads(), "preset": args.preset, "without": args.without}
            report(
                line
                | {"planes": encoder.num_planes, "globals": encoder.num_globals}
                | _measure(args, encoder, state, dtype)
            )


def _encoder(preset: str, without: str) -> Encoder:
    """Returns the encoder of a preset or of groups, less some groups."""
    groups = list(ENCODERS.get(preset, preset.split("+")))
    for group in filter(None, without.split("+")):
        if group not in groups:
            raise InputError(f"--without {group!r}; {preset} holds {', '.join(groups)}")
        groups.remove(group)
    return make_encoder(groups, True)


@torch.inference_mode()
def _measure(args: argparse.Namespace, encoder: Encoder, state: State, dtype: torch.dtype) -> dict[str, Any]:
    def synchronize() -> None:
        if state.device.type == "cuda":
            torch.cuda.synchronize(state.device)

    def work(of: Encoder) -> Callable[[], None]:
        def encode() -> None:
            of.planes(state, dtype)
            of.globals(state)

        return encode

    works = {args.preset: work(encoder), BESIDE: work(make_encoder(BESIDE, True))}
    rates: dict[str, list[float]] = {name: [] for name in works}
    for encode in works.values():
        per_second(encode, synchronize, min(args.seconds, 0.2), at_least=3)
    for _ in range(args.rounds):
        for name, encode in works.items():
            rates[name].append(per_second(encode, synchronize, args.seconds) * state.num_games)
    own, beside = max(rates[args.preset]), max(rates[BESIDE])
    return {"positions_per_s": round(own), f"{BESIDE}_positions_per_s": round(beside), "ratio": round(own / beside, 4)}
