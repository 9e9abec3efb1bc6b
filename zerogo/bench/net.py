"""The cost of a position without a search: a network's evaluations per second, and an encoder's positions per second.

The network is timed with fresh random weights and ready input, and a large matrix product for the device's peak. On
CUDA the forward pass is timed operation by operation and as a graph, which is how a search replays it; the faster one
counts. With --encoder, the network reads its planes, and encoding is timed next to zero17's; every call encodes the
positions as if for the first time. Positions are from the middle of games of random moves."""

import argparse
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch

from zerogo import bench, board, tuning
from zerogo.board import State, rng
from zerogo.checkpoint import fresh_network, load_newest
from zerogo.config import Config, FeaturesConfig, GameConfig, NetworkConfig
from zerogo.evaluator import Evaluator
from zerogo.features import ENCODERS, Encoder, make_encoder
from zerogo.network import Network, inference_copy
from zerogo.rules import Rules
from zerogo.system.runtime import try_capture

REFERENCE_ENCODER = "zero17"
HEADS = ("policy", "value")  # what a search asks for
PRODUCT = {"cuda": 8192, "cpu": 1024}  # sides of the matrices whose product shows what a device can do
OPENING = 0.2  # share of the points that are played before a position, at the least; at most three times that


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
            line |= {"encoder": args.encoder, "planes": setup.encoder.num_planes, "globals": setup.encoder.num_globals}
            line["encoded_per_s"] = round(rates["encoder"])
            line[f"{REFERENCE_ENCODER}_encoded_per_s"] = round(rates["reference"])
            line["encoder_ratio"] = round(rates["encoder"] / rates["reference"], 4)
        bench.print_line(line)


def measure_peak(device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    """Returns the operations per second of a large matrix product, the most that a network can come near to."""
    side = PRODUCT[device.type]
    one, other = torch.ones(2, side, side, dtype=dtype, device=device)
    return 2 * side**3 * bench.measure_rate(lambda: one @ other, device, seconds, at_least=3)


class NetworkSetup:
    """An evaluator to be measured, with fresh random weights (the same at every run) or those of a checkpoint, and the
    mid-game positions that it evaluates."""

    def __init__(self, args: argparse.Namespace, size: int, batch: int) -> None:
        self.args, self.device = args, bench.open_device(args)
        settings = NetworkConfig(blocks=args.blocks, channels=args.channels, pooling_channels=min(32, args.channels))
        encoder = getattr(args, "encoder", "") or REFERENCE_ENCODER
        features = FeaturesConfig(encoder=encoder if encoder in ENCODERS else tuple(encoder.split("+")))
        config = Config(network=settings, features=features, game=GameConfig(size=size))
        loaded = load_newest(args.checkpoint) if getattr(args, "checkpoint", "") else None
        config = config if loaded is None else loaded.config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.network = fresh_network(config) if loaded is None else loaded.network()
        self.encoder = make_encoder(config.features.encoder, config.features.komi_input)
        self.dtype = tuning.pick_dtype(args.precision, self.device, config)
        self.state = play_middle_games(size, batch, self.device)
        if getattr(args, "spread", 0.0):
            _sharpen_policy_(self.network, self.encoder, self.state, args.spread)
        setup = (self.network, self.encoder, self.device, self.dtype)
        self.evaluator = Evaluator.from_network(*setup, "random", HEADS)
        self.epilogues = tuning.pick_epilogues(self.evaluator.network)

    @cached_property
    def forwards(self) -> list[Callable[[], Any]]:
        """The network alone on ready planes, after a warm-up; on CUDA as a graph, too, where it can be captured."""
        planes, inputs = self.encoder.planes(self.state, self.dtype), self.encoder.globals(self.state)

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
        return line | shape | {"epilogues": self.epilogues}


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
