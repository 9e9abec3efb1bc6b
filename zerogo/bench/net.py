"""Network evaluations a second: the forward pass alone, with fresh random weights and ready input, and the share of the
device's peak.

On CUDA the pass is timed operation by operation and as a graph, which is how a search replays it, and the faster one
counts."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from zerogo import board, draws
from zerogo.bench import add_batch_arguments, report, whole_numbers
from zerogo.board import State
from zerogo.config import NetworkConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.features import Encoder, make_encoder
from zerogo.network import Network, inference_copy
from zerogo.rules import Rules
from zerogo.runtime import pick_device, pick_dtype, set_up_cpu
from zerogo.search.captured import captured

HEADS = ("policy", "value")  # what a search asks for
# Peaks of the matrix units in TFLOP/s by words of the device's name: the makers' figures for dense bfloat16 with
# float32 sums and for TF32, as remembered and not looked up again: check yours. Of several entries that fit a name the
# longest counts.
PEAKS = {
    "B200": (2250.0, 1125.0),
    "H200": (989.0, 495.0),
    "H200 NVL": (836.0, 418.0),
    "H100": (989.0, 495.0),
    "H100 PCIe": (756.0, 378.0),
    "H100 NVL": (836.0, 418.0),
    "GH200": (989.0, 495.0),
    "A100": (312.0, 156.0),
    "A800": (312.0, 156.0),
    "A30": (165.0, 82.0),
    "A40": (150.0, 75.0),
    "A10": (125.0, 62.5),
    "A10G": (70.0, 35.0),
    "L40S": (362.0, 183.0),
    "L40": (181.0, 90.5),
    "L4": (121.0, 60.0),
    "RTX A6000": (155.0, 77.4),
    "RTX 6000 Ada": (364.0, 182.0),
    "RTX 5090": (209.5, 104.8),
    "RTX 5080": (112.6, 56.3),
    "RTX 5070 Ti": (87.9, 43.9),
    "RTX 5070": (61.7, 30.9),
    "RTX 4090": (165.2, 82.6),
    "RTX 4080": (97.5, 48.7),
    "RTX 4080 SUPER": (104.4, 52.2),
    "RTX 4070 Ti": (80.2, 40.1),
    "RTX 4070": (58.3, 29.1),
    "RTX 4060 Ti": (44.1, 22.1),
    "RTX 4060": (30.2, 15.1),
    "RTX 3090": (71.0, 35.6),
    "RTX 3090 Ti": (80.0, 40.0),
    "RTX 3080": (59.5, 29.8),
    "RTX 3070": (40.6, 20.3),
    "RTX 3060": (25.5, 12.7),
    "MI300X": (1307.0, 654.0),
}
UNLIKE = (
    "Laptop",
    "Max-Q",
    "Mobile",
    "D",
    "Ti",
    "SUPER",
    "MIG",
)  # words of devices with other peaks than what else their names say
OPENING = 0.2  # share of the points that are played before the positions that are measured, at the least; at most three times that


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network_arguments(parser)


def add_network_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that `net` and `search` share."""
    add_batch_arguments(parser, "positions evaluated", 256)
    parser.add_argument("--blocks", type=int, default=6, help="residual blocks (default 6)")
    parser.add_argument("--channels", type=int, default=96, help="channels of the trunk (default 96)")
    parser.add_argument("--precision", default="auto", help="auto, float32 or bfloat16 (default auto)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one round (default 1)")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds; the best counts: others only slow it down (default 5)"
    )


@dataclass(frozen=True)
class Setup:
    """What is measured: an evaluator and the positions that it is shown."""

    evaluator: Evaluator
    network: Network
    encoder: Encoder
    state: State
    device: torch.device
    dtype: torch.dtype

    @staticmethod
    def of(args: argparse.Namespace, size: int, batch: int) -> Setup:
        """Returns a network with fresh random weights, the same at every run, and games in their middle."""
        device = pick_device(args.device)
        dtype = pick_dtype(args.precision, device)
        set_up_cpu(args.threads)
        if args.rounds < 1 or args.seconds <= 0:
            raise InputError(
                f"{args.rounds} rounds of {args.seconds} seconds; at least one round of more than 0 seconds is needed"
            )
        encoder = make_encoder("zero17", True)
        settings = NetworkConfig(blocks=args.blocks, channels=args.channels, pooling_channels=min(32, args.channels))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            network = Network(settings, encoder.num_planes, encoder.num_globals, size)
        state = middle_games(size, batch, device)
        if getattr(args, "spread", 0.0):
            _spread_(network, encoder, state, args.spread)
        evaluator = Evaluator.from_network(network, encoder, device, dtype, "random", HEADS)
        return Setup(evaluator, network, encoder, state, device, dtype)

    def forwards(self) -> list[Callable[[], Any]]:
        """Returns the network alone on planes that are ready, warm; on CUDA, where it can be, as a graph, too."""
        planes, inputs = self.encoder.planes(self.state, self.dtype), self.encoder.globals(self.state)

        def forward() -> Any:
            return self.evaluator.network(planes, inputs, None)

        per_second(forward, self.synchronize, 0.2, at_least=3)
        replay = captured(forward, self.device)
        return [forward] if replay is None else [forward, replay]

    def line(self, bench: str) -> dict[str, Any]:
        """Returns what every line says of its configuration."""
        kind = {
            "bench": bench,
            "size": self.state.board_size,
            "batch": self.state.num_games,
            "device": str(self.device),
        }
        return kind | {"dtype": str(self.dtype).removeprefix("torch."), "threads": torch.get_num_threads()}

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def middle_games(size: int, batch: int, device: torch.device) -> State:
    """Returns games in their middle, each at a ply of its own: random moves that pass only where nothing else is
    legal.
    """
    lanes = torch.arange(batch, device=device)
    state = board.new_games(batch, Rules(size=size), device, move_cap=2 * size * size)
    first, last = int(OPENING * size * size), int(3 * OPENING * size * size)
    plies = first + (draws.key(2, lanes) & 0xFFFF) % max(1, last - first)
    for ply in range(last):
        weights = board.legal_actions(state).to(torch.float32)
        weights[:, -1] *= 1e-6
        after = board.step(state, draws.choose(draws.key(1, lanes, ply), weights))
        goes_on = ((plies > ply) & ~after.finished).nonzero().squeeze(1)
        state = board.put(state, goes_on, board.select(after, goes_on))
    return state


@torch.no_grad()
def _spread_(network: Network, encoder: Encoder, state: State, spread: float) -> None:
    """Scales the policy's last layer so that over the points of a board its logits have this standard deviation, on the
    average.
    """
    playing = inference_copy(network, state.device, heads=("policy",))
    logits = playing(encoder.planes(state, torch.float32), encoder.globals(state))["policy"]
    network.map_readout.parts["policy"].weight *= (spread / logits[:, :-1].std(1).mean()).to(
        network.map_readout.parts["policy"].weight
    )


def per_second(work: Callable[[], Any], synchronize: Callable[[], None], seconds: float, at_least: int = 1) -> float:
    """Returns how often the work is done in a second, over at least so many seconds and so many times."""
    synchronize()
    start, times = time.perf_counter(), 0
    while times < at_least or time.perf_counter() - start < seconds:
        work()
        times += 1
        if times % 10 == 0:
            synchronize()
    synchronize()
    return times / (time.perf_counter() - start)


def evals_per_second(setup: Setup, forwards: list[Callable[[], Any]], seconds: float) -> float:
    """Returns the positions a second of the network alone in the faster of its ways, over at least so many seconds of
    each.
    """
    return max(per_second(forward, setup.synchronize, seconds) for forward in forwards) * setup.state.num_games


def run(args: argparse.Namespace) -> None:
    """Prints a line for every size and batch."""
    for size in whole_numbers(args.size):
        for batch in whole_numbers(args.batch):
            _measure(args, Setup.of(args, size, batch))


@torch.inference_mode()
def _measure(args: argparse.Namespace, setup: Setup) -> None:
    forwards = setup.forwards()
    evals = max(evals_per_second(setup, forwards, args.seconds) for _ in range(args.rounds))
    teraflops = evals * setup.network.num_operations(setup.state.board_size) / 1e12
    line = setup.line("net") | {"blocks": args.blocks, "channels": args.channels}
    line |= {"evals_per_s": round(evals), "tflops_per_s": round(teraflops, 4)}
    peak = _peak(setup)
    if peak is not None:
        line |= {"peak_tflops_per_s": peak, "share_of_peak": round(teraflops / peak, 4)}
    report(line)


def _peak(setup: Setup) -> float | None:
    """Returns the device's peak in TFLOP/s at the run's precision, where it is known; on a CPU it never is."""
    if setup.device.type != "cuda":
        return None
    peaks = peaks_of(torch.cuda.get_device_name(setup.device))
    return None if peaks is None else peaks[0 if setup.dtype == torch.bfloat16 else 1]


def peaks_of(name: str) -> tuple[float, float] | None:
    """Returns the entry of `PEAKS` for a device's name, or None for a device that isn't among them."""
    best = max((words for words in PEAKS if _has(name, words)), key=len, default=None)
    if best is None or any(_has(name, word) and not _has(best, word) for word in UNLIKE):
        return None
    return PEAKS[best]


def _has(name: str, words: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", name) is not None
