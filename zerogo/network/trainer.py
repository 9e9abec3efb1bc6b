"""One training step: augmentation, optimiser, learning rate, averaged weights. `losses` has the targets and losses; the
pipeline decides when to train."""

import copy
import math
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from zerogo.board import symmetry
from zerogo.config import TrainingConfig
from zerogo.errors import InputError
from zerogo.features import Encoder, on_board_mask
from zerogo.network import Network, losses
from zerogo.network.losses import LOSSES, NamedTensors, Targets, loss_terms
from zerogo.replay import TrainingBatch
from zerogo.system import distributed

# AdamW's betas: 0.9 is KataGo's momentum. 0.99 averages the squares over about 100 steps; the usual 0.999 would average
# over 1,000, too long for a run that changes its own data.
BETAS = 0.9, 0.99
WEIGHT_DECAY = 0.02  # of matrices and convolution kernels, decoupled
EARLY_HORIZON = 1 / 50  # of the averaged weights, as a share of the samples so far; with 1/8 they play worse
MAX_GRADIENT_NORM = 1.0
PARTS, NUMBERS = ("network", "averaged", "optimizer"), ("samples", "steps", "progress", "average_weight")  # of a state


class Trainer:
    """Trains in place: `network` by gradients; `averaged`, which plays, as the mean of its recent weights.

    settings: the config's section `training`. heads: head name to loss weight. dtype: bfloat16 for mixed precision,
    else float32. samples, steps: trained on so far. Raises InputError for a head without a loss."""

    def __init__(
        self,
        network: Network,
        encoder: Encoder,
        settings: TrainingConfig,
        heads: dict[str, float],
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> None:
        missing = [name for name in heads if name not in LOSSES]
        if missing:
            raise InputError(f"network.heads has {missing[0]!r}, which has no loss; allowed are {', '.join(LOSSES)}")
        self.device, self.dtype = torch.device(device), dtype
        self.encoder, self.settings, self.heads = encoder, settings, dict(heads)
        self.network = network.to(self.device, memory_format=torch.channels_last).train()
        self.averaged = copy.deepcopy(network).eval().requires_grad_(False)
        self.optimizer = make_optimizer(network, settings.learning_rate)
        self.learner = distributed.wrap_ddp(self.network, self.device)
        self.samples, self.steps, self.progress, self.average_weight = 0, 0, 0.0, 0.0
        # Parameters and batch-norm statistics are averaged, but not the count of batches.
        both = zip(self.averaged.state_dict().values(), self.network.state_dict(keep_vars=True).values(), strict=True)
        self._pairs = [(mean, ours.detach()) for mean, ours in both if mean.is_floating_point()]

    @torch.no_grad()
    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Starts with the weights of another run, by name; heads that it lacks keep their initial weights."""
        for network in (self.network, self.averaged):
            network.load_state_dict(weights, strict=False)

    def set_progress(self, progress: float) -> None:
        """Sets how much of the run is over, 0 to 1, for the learning rate's schedule."""
        self.progress = min(1.0, max(0.0, progress))

    def learning_rate(self) -> float:
        """Returns the next step's learning rate: base x warm-up x the last schedule factor reached by progress."""
        reached = [factor for start, factor in self.settings.schedule if start <= self.progress]
        warm = min(1.0, (self.samples + self.settings.batch) / max(1, self.settings.warmup_samples))
        return self.settings.learning_rate * warm * (reached[-1] if reached else 1.0)

    def step(self, batch: TrainingBatch, measures: bool = True) -> NamedTensors:
        """Trains on one batch and returns metrics as tensors on the device, without waiting for it. Each rank has an
        equal share of the batch.

        The metrics are the total `loss`, `gradient_norm` before clipping, and, with `measures`, `NAME_loss` of each
        head before its weight (0 for a weight of 0), the heads' metrics, and `learning_rate`."""
        rate = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.network.train()
        loss, metrics = self._losses(self.learner, batch, measures)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        metrics["gradient_norm"] = self._clip()
        self.optimizer.step()
        number = len(batch) * distributed.world_size()
        self.samples, self.steps = self.samples + number, self.steps + 1
        self._average(number)
        if measures:
            metrics["learning_rate"] = torch.full((), rate, device=self.device)
        return metrics

    @torch.no_grad()
    def measure(self, batch: TrainingBatch) -> NamedTensors:
        """Returns the averaged network's losses and metrics on a held-out batch, without training on it."""
        return self._losses(self.averaged, batch, True)[1]

    @torch.no_grad()
    def refresh_statistics(self, batches: Iterable[TrainingBatch]) -> None:
        """Sets the averaged network's batch-norm statistics to the mean over the given batches, if any, and over the
        ranks, so that all ranks play with the same network."""
        norms = [module for module in self.averaged.modules() if isinstance(module, nn.BatchNorm2d)]
        for number, batch in enumerate(batches, start=1):
            self.averaged.train()
            for norm in norms:
                if number == 1:
                    norm.reset_running_stats()
                norm.momentum = 1.0 / number
            self._forward(self.averaged, batch)
        distributed.all_reduce_mean_([mean for norm in norms for mean in (norm.running_mean, norm.running_var)])
        self.averaged.eval()

    def state_dict(self) -> dict[str, Any]:
        """Returns the full state for an exact continuation, as tensors, numbers and containers."""
        states = {name: getattr(self, name).state_dict() for name in PARTS}
        return states | {name: getattr(self, name) for name in NUMBERS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of `state_dict`."""
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        if "betas" in state["optimizer"]["param_groups"][0]:  # else SGD's, of an earlier version: AdamW starts afresh
            self._load_optimizer(copy.deepcopy(state["optimizer"]))  # torch would share tensors with the state
        for name in NUMBERS:
            setattr(self, name, state[name])

    def _load_optimizer(self, state: dict[str, Any]) -> None:
        """Restores the statistics but not the settings, which another version may have saved with other values."""
        groups = self.optimizer.state_dict()["param_groups"], state["param_groups"]
        if [len(group["params"]) for group in groups[0]] != [len(group["params"]) for group in groups[1]]:
            # An earlier version numbered rotary frequencies among the matrices.
            earlier = sorted(self.network.parameters(), key=lambda parameter: parameter.ndim <= 1)
            statistics = {parameter: state["state"].get(number) for number, parameter in enumerate(earlier)}
            now = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
            state["state"] = {number: statistics[one] for number, one in enumerate(now) if statistics[one]}
        state["param_groups"] = [group | {"lr": saved["lr"]} for group, saved in zip(*groups, strict=True)]
        self.optimizer.load_state_dict(state)
        for parameter, kept in self.optimizer.state.items():  # a fused step requires the parameter's memory layout
            same = {name: part for name, part in kept.items() if part is not None and part.shape == parameter.shape}
            kept |= {name: torch.empty_like(parameter).copy_(part) for name, part in same.items()}

    def encode_batch(self, batch: TrainingBatch) -> tuple[Tensor, Tensor, Targets]:
        """Returns planes, global inputs and targets on the device, each sample under its symmetry."""
        batch = batch.to(self.device)
        state = batch.state()
        size = None if state.rules.same_size else state.rules.size
        tables = symmetry.tables(batch.board_size, batch.symmetry, size, self.device)
        planes = symmetry.transform_planes(self.encoder.planes(state), tables)
        return planes, self.encoder.globals(state), Targets.of(batch.samples, tables, on_board_mask(state))

    def _forward(self, network: nn.Module, batch: TrainingBatch) -> tuple[NamedTensors, Targets]:
        """Returns the network's outputs by head, and their targets."""
        planes, inputs, targets = self.encode_batch(batch)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            outputs = network(planes, inputs, targets.on_board)
        return {name: output.to(torch.float32) for name, output in outputs.items() if name in self.heads}, targets

    def _losses(self, network: nn.Module, batch: TrainingBatch, measures: bool) -> tuple[Tensor, NamedTensors]:
        outputs, targets = self._forward(network, batch)
        loss = loss_terms(outputs, targets, self.heads)
        total = reduce(torch.add, [terms.sum() for terms, _ in loss])
        metrics = {"loss": total.detach()}
        if measures:
            with torch.no_grad():
                metrics |= losses.metrics(outputs, targets, self.heads, loss)
        return total, metrics

    def _clip(self) -> Tensor:
        """Clips the gradient's norm and returns the norm before, with the operations of `nn.utils.clip_grad_norm_`, but
        without its queries for every gradient's device."""
        gradients = [parameter.grad for parameter in self.network.parameters() if parameter.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, (MAX_GRADIENT_NORM / (norm + 1e-6)).clamp(max=1.0))
        return norm

    @torch.no_grad()
    def _average(self, new_samples: int) -> None:
        """Updates the averaged weights, an exponential mean with horizon `ema_samples`, at first `EARLY_HORIZON`: the
        weights at the start of a run are poor.

        The initial bias is divided out, so that the first step copies the weights. Batch-norm statistics are averaged
        as an estimate; `refresh_statistics` computes the right ones."""
        share = -math.expm1(-new_samples / min(self.settings.ema_samples, EARLY_HORIZON * self.samples))
        self.average_weight += (1.0 - self.average_weight) * share
        averaged, ours = zip(*self._pairs, strict=True)
        torch._foreach_lerp_(averaged, ours, share / self.average_weight)


def make_optimizer(network: Network, learning_rate: float) -> torch.optim.Optimizer:
    """Returns AdamW. Convolution kernels and matrices decay; biases, norms and rotary frequencies do not."""
    decaying = {module.weight for module in network.modules() if isinstance(module, (nn.Conv2d, nn.Linear))}
    parameters = list(network.parameters())  # frozen ones, too: optimiser states are numbered
    groups = [
        {"params": [p for p in parameters if p in decaying], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p not in decaying], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=BETAS, fused=True)
