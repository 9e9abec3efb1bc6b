"""One training step: targets from samples, the losses of the heads and their metrics, augmentation, optimiser, learning
rate, averaged weights. The pipeline decides when to train."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zerogo.board import symmetry
from zerogo.config import TrainingConfig
from zerogo.errors import InputError
from zerogo.features import Encoder, on_board_mask
from zerogo.network import SCORE_SCALE, Network
from zerogo.replay import Samples, TrainingBatch
from zerogo.system import distributed
from zerogo.system.runtime import Captured
from zerogo.system.tensors import TensorFields

SOFTENED, SOFT_FLOOR = 0.25, 1e-7  # the soft policy's target is (probability + floor) ^ power, normalised (KataGo)
# AdamW's betas: 0.9 is KataGo's momentum. 0.99 averages the squares over about 100 steps; the usual 0.999 would average
# over 1,000, too long for a run that changes its own data.
BETAS = 0.9, 0.99
WEIGHT_DECAY = 0.02  # of matrices and convolution kernels, decoupled
EARLY_HORIZON = 1 / 50  # of the averaged weights, as a share of the samples so far; with 1/8 they play worse
TRAINED_HORIZON = 10_000  # samples, at least, where the weights at the start are those of another run
MAX_GRADIENT_NORM = 1.0
PARTS = ("network", "averaged", "optimizer")  # of a state
NUMBERS = ("samples", "steps", "progress", "average_weight", "least_horizon")

NamedTensors = dict[str, Tensor]
Terms = tuple[Tensor, dict[str, int]]  # of all heads of one kind, and how many columns of them each head has


@dataclass(frozen=True)
class Targets(TensorFields):
    """The targets of B samples under their symmetries: float32, otherwise as the fields of `Samples`.

    policy, reply: [B, A]; policy sums to 1; reply is 1 at the opponent's next move, and 0 everywhere if there was none
    (has_reply: bool [B]). on_board: bool [B, N, N], None if all points exist."""

    policy: Tensor
    reply: Tensor
    has_reply: Tensor
    policy_weight: Tensor
    value: Tensor
    short_values: Tensor
    score: Tensor
    ownership: Tensor
    board_weight: Tensor
    on_board: Tensor | None = None

    @classmethod
    def of(cls, samples: Samples, tables: Tensor, on_board: Tensor | None) -> Targets:
        """Returns the targets of samples under the symmetries given by tables, int64 [B, A]."""
        policy = samples.policy.to(torch.float32)
        policy = policy / policy.sum(-1, keepdim=True).clamp(min=1e-6)  # undoes the rounding to float16
        return cls(
            policy=symmetry.transform_actions(policy, tables),
            reply=(samples.reply.unsqueeze(1) == tables).to(torch.float32),
            has_reply=samples.reply >= 0,
            short_values=samples.short_values.to(torch.float32),
            ownership=symmetry.transform_planes(samples.ownership, tables).to(torch.float32),
            on_board=on_board,
            **{name: getattr(samples, name) for name in ("policy_weight", "value", "score", "board_weight")},
        )


# Each function returns a head's target and the weight of each sample in the mean, float32 [B]. Targets of MOVES are [B,
# A]; their loss is the cross-entropy in nats (`_move_terms`). Targets of OUTCOMES are [B, n], from -1 to 1; their loss
# is the mean of n cross-entropies (`_outcome_terms`), and the better outcome has probability (1 + tanh(logit)) / 2.


def soft_policy_target(targets: Targets) -> tuple[Tensor, Tensor]:
    """The search's policy to the power of 1/4, normalised; no move that exists is left at 0 (KataGo)."""
    exists = 1.0 if targets.on_board is None else F.pad(targets.on_board.flatten(1), (0, 1), value=True)
    soft = (targets.policy + SOFT_FLOOR * exists) ** SOFTENED
    return soft / soft.sum(-1, keepdim=True), targets.policy_weight


def value_target(targets: Targets) -> tuple[Tensor, Tensor]:
    """The result."""
    return targets.value.unsqueeze(1), _constants((1.0,), targets.value.device).expand_as(targets.value)


def short_values_target(targets: Targets) -> tuple[Tensor, Tensor]:
    """Averages of later root values, where they are known."""
    is_known = targets.short_values[:, 0] == targets.short_values[:, 0]  # else all three are NaN
    return targets.short_values.nan_to_num(0.0), is_known.to(torch.float32)


MOVES = {
    "policy": lambda targets: (targets.policy, targets.policy_weight),
    # The opponent's next move, if there is one; weighted by `policy_weight`, as random players teach no replies.
    "reply": lambda targets: (targets.reply, targets.policy_weight * targets.has_reply),
    "soft_policy": soft_policy_target,
}
OUTCOMES = {
    "value": value_target,
    "ownership": lambda targets: (targets.ownership.flatten(1), targets.board_weight),  # see `_outcome_terms`
    "short_values": short_values_target,
}
# The score is [B]; its loss is Huber's, in units of SCORE_SCALE points.
LOSSES = MOVES | OUTCOMES | {"score": lambda targets: (targets.score, targets.board_weight)}


def loss_terms(outputs: NamedTensors, targets: Targets, heads: Mapping[str, float]) -> list[Terms]:
    """Returns the loss terms, weighted by `heads`: one tensor for all heads of a kind, [k, B, A] or [B, n], with the
    width of each head's part. The loss is the sum of all terms.

    Each of several ranks takes the means of its own share of the batch. Heads of a kind are computed together, since
    launches take a GPU longer than the computation."""
    learned = {name: function(targets) for name, function in LOSSES.items() if name in heads}
    weights = torch.stack([weight for _, weight in learned.values()])
    of_heads = _constants(tuple(heads[name] for name in learned), weights.device)
    factors = weights * (of_heads / weights.sum(1).clamp(min=1e-6)).unsqueeze(1)  # of each sample's losses: [k, B]
    moves, outcomes = ({name: learned[name][0] for name in kind if name in learned} for kind in (MOVES, OUTCOMES))
    of_moves, of_outcomes, of_score = factors.tensor_split([len(moves), len(moves) + len(outcomes)])
    terms = [_move_terms(outputs, moves, of_moves)] if moves else []
    terms += [_outcome_terms(outputs, outcomes, of_outcomes, targets.on_board)] if outcomes else []
    if "score" in heads:
        points = outputs["score"] / SCORE_SCALE, targets.score / SCORE_SCALE
        terms.append((F.huber_loss(*points, reduction="none") * of_score[0], {"score": 1}))
    return terms


def _move_terms(outputs: NamedTensors, targets: NamedTensors, factors: Tensor) -> Terms:
    """Returns the cross-entropies of k heads of MOVES, policy first. targets: by head; factors: float32 [k, B]."""
    log_priors = F.log_softmax(torch.stack([outputs[name] for name in targets]), dim=-1)
    terms = -factors.unsqueeze(-1) * torch.stack([*targets.values()]) * log_priors
    return terms, dict.fromkeys(targets, terms.shape[-1])


def _outcome_terms(outputs: NamedTensors, targets: NamedTensors, factors: Tensor, on_board: Tensor | None) -> Terms:
    """Returns the cross-entropies of k heads of OUTCOMES. targets: by head; factors: float32 [k, B]."""
    columns = []
    for (name, target), factor in zip(targets.items(), factors.unsqueeze(2), strict=True):
        share: Tensor | float = 1 / target.shape[1]
        if name == "ownership" and on_board is not None:
            exists = on_board.flatten(1).to(torch.float32)
            share = exists / exists.sum(1, keepdim=True)
        columns.append((factor * share).expand_as(target))
    logits = torch.cat([outputs[name].reshape(len(target), -1) for name, target in targets.items()], 1)
    goals = (1 + torch.cat([*targets.values()], 1)) / 2
    terms = F.binary_cross_entropy_with_logits(2 * logits, goals, torch.cat(columns, 1), reduction="none")
    return terms, {name: target.shape[1] for name, target in targets.items()}


@cache
def _constants(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Returns numbers on a device, copied only once."""
    with torch.inference_mode(False):
        return torch.tensor(numbers, device=device)


def head_metrics(outputs: NamedTensors, targets: Targets, heads: dict[str, float], loss: list[Terms]) -> NamedTensors:
    """Returns the metrics of a batch besides its loss: `NAME_loss` of each head before its weight (0 for a weight of
    0), and for existing heads:

    policy_entropy, policy_target_entropy, policy_kl, in nats: of the prior, of the target, and their divergence;
    policy_accuracy: how often their best moves agree; all are means weighted by `policy_weight`. value_mean,
    value_target_mean, value_error (squared); value_accuracy: how often the value has the sign of the result, among
    games with a winner. score_error_points: the mean error, weighted by `board_weight`.

    outputs: without gradients. loss: the result of `loss_terms` for them."""
    shown = {}
    for terms, widths in loss:
        of_heads = terms if terms.ndim == 3 else terms.view(len(terms), -1).split([*widths.values()], dim=1)
        for name, own_terms in zip(widths, of_heads, strict=True):
            shown[f"{name}_loss"] = own_terms.detach().sum() / (heads[name] or 1.0)
    for head in [head for head in METRICS if head in heads]:
        shown |= METRICS[head](outputs[head], targets)
    return shown


def _shares(weights: Tensor) -> Tensor:
    """Returns the factors of samples in a mean with the given weights: float32 [B]."""
    return weights / weights.sum().clamp(min=1e-6)


def _policy_metrics(logits: Tensor, targets: Targets) -> NamedTensors:
    log_prior, share = F.log_softmax(logits, dim=-1), _shares(targets.policy_weight)
    entropy, target_entropy = (
        torch.special.entr(policy).sum(-1) @ share for policy in (log_prior.exp(), targets.policy)
    )
    agree = logits.argmax(-1) == targets.policy.argmax(-1)
    return {
        "policy_entropy": entropy,
        "policy_target_entropy": target_entropy,
        "policy_kl": -((targets.policy * log_prior).sum(-1) @ share + target_entropy),
        "policy_accuracy": agree.to(torch.float32) @ share,
    }


def _value_metrics(logit: Tensor, targets: Targets) -> NamedTensors:
    value, result = torch.tanh(logit), targets.value
    is_right, is_decided = (flags.to(torch.float32) for flags in (value * result > 0, result != 0))
    return {
        "value_mean": value.mean(),
        "value_target_mean": result.mean(),
        "value_error": F.mse_loss(value, result),
        "value_accuracy": is_right @ _shares(is_decided),
    }


def _score_metrics(score: Tensor, targets: Targets) -> NamedTensors:
    return {"score_error_points": (score - targets.score).abs() @ _shares(targets.board_weight)}


METRICS = {"policy": _policy_metrics, "value": _value_metrics, "score": _score_metrics}


class Trainer:
    """Trains in place: `network` by gradients; `averaged`, which plays, as the mean of its recent weights.

    settings: the config's section `training`. heads: head name to loss weight. dtype: bfloat16 for mixed precision,
    else float32. samples, steps: so far. progress: of the run, 0 to 1. Raises InputError for a head without a loss."""

    def __init__(
        self,
        network: Network,
        encoder: Encoder,
        settings: TrainingConfig,
        heads: dict[str, float],
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> None:
        if missing := [name for name in heads if name not in LOSSES]:
            raise InputError(f"network.heads has {missing[0]!r}, which has no loss; allowed are {', '.join(LOSSES)}")
        self.device, self.dtype = torch.device(device), dtype
        self.encoder, self.settings, self.heads = encoder, settings, dict(heads)
        self.network = network.to(self.device, memory_format=torch.channels_last).train()
        self.averaged = copy.deepcopy(network).eval().requires_grad_(False)
        self.optimizer = make_optimizer(network, settings.learning_rate)
        self.learner = distributed.wrap_ddp(self.network, self.device)
        self._parameters = list(network.parameters())  # to walk through the modules takes as long as a small layer
        self.differentiate = Captured(self._differentiate, self.device, "training")
        self.samples, self.steps, self.progress, self.average_weight, self.least_horizon = 0, 0, 0.0, 0.0, 0
        # Parameters and batch-norm statistics are averaged, but not the count of batches.
        both = zip(self.averaged.state_dict().values(), self.network.state_dict(keep_vars=True).values(), strict=True)
        self._pairs = [(mean, ours.detach()) for mean, ours in both if mean.is_floating_point()]

    @torch.no_grad()
    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Starts with the weights of another run, by name; heads that it lacks keep their initial weights."""
        for network in (self.network, self.averaged):
            network.load_state_dict(weights, strict=False)
        self.average_weight, self.least_horizon = 1.0, TRAINED_HORIZON

    def learning_rate(self) -> float:
        """Returns the next step's learning rate: base x warm-up x the last schedule factor reached by progress."""
        reached = [factor for start, factor in self.settings.schedule if start <= self.progress]
        warm = min(1.0, (self.samples + self.settings.batch) / max(1, self.settings.warmup_samples))
        return self.settings.learning_rate * warm * (reached[-1] if reached else 1.0)

    def step(self, batch: TrainingBatch, measures: bool = True) -> NamedTensors:
        """Trains on one batch and returns metrics as tensors on the device, without waiting for it. Each rank
        that learns has an equal share of the batch.

        The metrics are the total `loss`, `gradient_norm` before clipping, and, with `measures`, `NAME_loss` of each
        head before its weight (0 for a weight of 0), the heads' metrics, and `learning_rate`."""
        rate = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        gradients, names, values = self.differentiate(batch.to(self.device), measures)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        metrics = dict(zip(names, values.clone().unbind(), strict=True))
        number = len(batch) * distributed.num_learners()
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
        ranks that learn, so that all have the same network."""
        norms = [module for module in self.averaged.modules() if isinstance(module, nn.BatchNorm2d)]
        for number, batch in enumerate(batches if norms else (), start=1):
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
        """Restores the state of `state_dict`; of the optimiser's settings only the learning rate, as another version
        may have saved others."""
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        for name in NUMBERS:
            setattr(self, name, state.get(name, 0))  # an earlier version had no least horizon
        optimizer = copy.deepcopy(state["optimizer"])  # torch would share tensors with the state
        if "betas" not in optimizer["param_groups"][0]:  # SGD's, of an earlier version: AdamW starts afresh
            return
        groups = self.optimizer.state_dict()["param_groups"], optimizer["param_groups"]
        optimizer["param_groups"] = [group | {"lr": saved["lr"]} for group, saved in zip(*groups, strict=True)]
        self.optimizer.load_state_dict(optimizer)
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
                metrics |= head_metrics(outputs, targets, self.heads, loss)
        return total, metrics

    def _differentiate(self, batch: TrainingBatch, measures: bool) -> tuple[list[Tensor | None], list[str], Tensor]:
        """Returns the clipped gradients of all parameters, and the names and values of the metrics."""
        self.optimizer.zero_grad(set_to_none=True)
        loss, metrics = self._losses(self.learner, batch, measures)
        loss.backward()
        metrics["gradient_norm"] = self._clip()
        gradients = [parameter.grad for parameter in self._parameters]
        return gradients, list(metrics), torch.stack(list(metrics.values()))

    def _clip(self) -> Tensor:
        """Clips the gradient's norm and returns the norm before, with the operations of `nn.utils.clip_grad_norm_`, but
        without its queries for every gradient's device."""
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, (MAX_GRADIENT_NORM / (norm + 1e-6)).clamp(max=1.0))
        return norm

    @torch.no_grad()
    def _average(self, new_samples: int) -> None:
        """Updates the averaged weights, an exponential mean with horizon `ema_samples`. Early in a run the horizon is
        the share `EARLY_HORIZON` of all samples so far, since fresh weights are poor, but at least `TRAINED_HORIZON`
        if the run began with another run's weights.

        The initial bias is divided out, so that the first step copies the weights. Batch-norm statistics are averaged
        as an estimate; `refresh_statistics` computes the right ones."""
        horizon = min(self.settings.ema_samples, max(EARLY_HORIZON * self.samples, self.least_horizon))
        share = -math.expm1(-new_samples / horizon)
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
