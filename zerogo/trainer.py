"""One step of learning: losses, optimiser, learning rate, averaged weights. What to learn from and when belongs to the
pipeline."""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zerogo import symmetry
from zerogo.config import TrainingConfig
from zerogo.errors import InputError
from zerogo.features import Encoder, on_board_mask
from zerogo.network import SCORE_SCALE, Network
from zerogo.replay import TrainingBatch

# AdamW's beta 2. 0.99 averages about 100 steps; the usual 0.999 averages 1,000, too long where the run changes its
# own data.
SECOND_MOMENTUM = 0.99
STATE_FORMAT = 1
SOFTENED = 0.25  # power of the soft policy's target (KataGo)


Metrics = dict[str, Tensor]
Loss = Callable[[Tensor, TrainingBatch], tuple[Tensor, Metrics]]


def policy_loss(logits: Tensor, targets: TrainingBatch) -> tuple[Tensor, Metrics]:
    """Returns the cross-entropy of the search's policy [nats], a mean weighted by `policy_weight`: logits [B, A]."""
    log_prior = F.log_softmax(logits, dim=-1)
    share = targets.policy_weight / targets.policy_weight.sum().clamp(min=1e-6)
    loss = ((-targets.policy * log_prior).sum(-1) * share).sum()
    with torch.no_grad():
        target_entropy = (torch.special.entr(targets.policy).sum(-1) * share).sum()
        same = (logits.argmax(-1) == targets.policy.argmax(-1)).to(torch.float32)
        metrics = {
            "policy_entropy": ((-log_prior.exp() * log_prior).sum(-1) * share).sum(),
            "policy_target_entropy": target_entropy,
            "policy_kl": loss.detach() - target_entropy,
            "policy_accuracy": (same * share).sum(),
        }
    return loss, metrics


def reply_loss(logits: Tensor, targets: TrainingBatch) -> tuple[Tensor, Metrics]:
    """Returns the cross-entropy of the other side's next move [nats], a mean over samples that have one, weighted by
    `policy_weight`, as who plays at random teaches no reply either: logits [B, A]."""
    share = targets.policy_weight * targets.reply.sum(-1)
    losses = -(targets.reply * F.log_softmax(logits, dim=-1)).sum(-1)
    return (losses * share).sum() / share.sum().clamp(min=1e-6), {}


def soft_policy_loss(logits: Tensor, targets: TrainingBatch) -> tuple[Tensor, Metrics]:
    """Returns the cross-entropy of the search's policy to the power of 1/4, made to sum to 1 [nats]: logits [B, A]."""
    soft = targets.policy**SOFTENED
    soft = soft / soft.sum(-1, keepdim=True)
    share = targets.policy_weight / targets.policy_weight.sum().clamp(min=1e-6)
    return (-(soft * F.log_softmax(logits, dim=-1)).sum(-1) * share).sum(), {}


def value_loss(logit: Tensor, targets: TrainingBatch) -> tuple[Tensor, Metrics]:
    """Returns the cross-entropy of the result [nats]: logit [B], (1 + tanh(logit)) / 2 is the chance of winning."""
    loss = F.binary_cross_entropy_with_logits(2 * logit, (1 + targets.value) / 2)
    with torch.no_grad():
        value, decided = torch.tanh(logit), targets.value != 0
        right = (decided & (value.sign() == targets.value.sign())).sum() / decided.sum().clamp(min=1)
        metrics = {
            "value_accuracy": right,
            "value_mean": value.mean(),
            "value_target_mean": targets.value.mean(),
            "value_error": (value - targets.value).square().mean(),
        }
    return loss, metrics


def short_values_loss(logits: Tensor, targets: TrainingBatch) -> tuple[Tensor, Metrics]:
    """Returns the cross-entropy of the short-term values [nats], a mean over those that are known: logits [B, 3]."""
    known = ~targets.short_values.isnan()
    wins = (1 + torch.where(known, targets.short_values, 0.0)) / 2
    losses = torch.where(known, F.binary_cross_entropy_with_logits(2 * logits, wins, reduction="none"), 0.0)
    return losses.sum() / known.sum().clamp(min=1), {}


def ownership_loss(logits: Tensor, targets: TrainingBatch) -> tuple[Tensor, Metrics]:
    """Returns the mean cross-entropy [nats] of the owners of existing points, by `board_weight`: logits [B, N, N]."""
    losses = F.binary_cross_entropy_with_logits(2 * logits, (1 + targets.ownership) / 2, reduction="none")
    share = targets.board_weight / targets.board_weight.sum().clamp(min=1e-6)
    on_board = on_board_mask(targets.state)
    if on_board is None:
        return (losses.mean((1, 2)) * share).sum(), {}
    on_board = on_board.to(torch.float32)
    return ((losses * on_board).sum((1, 2)) / on_board.sum((1, 2)) * share).sum(), {}


def score_loss(score: Tensor, targets: TrainingBatch) -> tuple[Tensor, Metrics]:
    """Returns Huber's loss of the final score, in units of SCORE_SCALE points, a mean by `board_weight`: score [B]."""
    losses = F.huber_loss(score / SCORE_SCALE, targets.score / SCORE_SCALE, reduction="none")
    share = targets.board_weight / targets.board_weight.sum().clamp(min=1e-6)
    error = ((score.detach() - targets.score).abs() * share).sum()
    return (losses * share).sum(), {"score_error_points": error}


LOSSES: dict[str, Loss] = {
    "policy": policy_loss,
    "value": value_loss,
    "ownership": ownership_loss,
    "score": score_loss,
    "reply": reply_loss,
    "soft_policy": soft_policy_loss,
    "short_values": short_values_loss,
}


class Trainer:
    """Learns in place: `network` by gradients, `averaged` as the mean of its recent weights, which is what plays.

    settings: the config's section `training`. heads: head name to loss weight. dtype: bfloat16 for mixed precision,
    else float32. samples, steps: learned from so far. Raises InputError for a head that has no loss."""

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
        self.optimizer = make_optimizer(network, settings)
        self.samples, self.steps, self.progress, self.average_weight = 0, 0, 0.0, 0.0

    @torch.no_grad()
    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Begins with the weights of another run, by name; heads that it lacks keep their own."""
        for network in (self.network, self.averaged):
            network.load_state_dict(weights, strict=False)

    def set_progress(self, progress: float) -> None:
        """Tells how much of the run is over, 0 to 1; the learning rate's schedule follows it."""
        self.progress = min(1.0, max(0.0, progress))

    def learning_rate(self) -> float:
        """Returns the next step's learning rate: base x warm-up x the last factor that progress has reached."""
        reached = [factor for start, factor in self.settings.schedule if start <= self.progress]
        warm = min(1.0, (self.samples + self.settings.batch) / max(1, self.settings.warmup_samples))
        return self.settings.learning_rate * warm * (reached[-1] if reached else 1.0)

    def step(self, batch: TrainingBatch) -> Metrics:
        """Learns from one batch and returns what was seen as tensors on the device, without waiting for it.

        These are the total `loss`, `NAME_loss` of each head before its weight, the heads' metrics, `gradient_norm`
        before clipping, and `learning_rate`."""
        rate = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.network.train()
        loss, metrics = self._losses(self.network, batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        limit = self.settings.gradient_clip or math.inf
        metrics["gradient_norm"] = nn.utils.clip_grad_norm_(self.network.parameters(), limit).detach()
        self.optimizer.step()
        self.samples, self.steps = self.samples + len(batch.policy), self.steps + 1
        self._average(len(batch.policy))
        metrics["learning_rate"] = torch.full((), rate, device=self.device)
        return metrics

    @torch.no_grad()
    def measure(self, batch: TrainingBatch) -> Metrics:
        """Returns the averaged network's losses and metrics on a held-out batch, without learning from it."""
        return self._losses(self.averaged, batch)[1]

    @torch.no_grad()
    def refresh_statistics(self, batches: Iterable[TrainingBatch]) -> None:
        """Gives the averaged weights batch-norm statistics of their own: the even mean over batches, if any."""
        norms = [module for module in self.averaged.modules() if isinstance(module, nn.BatchNorm2d)]
        momenta = [norm.momentum for norm in norms]
        for number, batch in enumerate(batches):
            if number == 0:
                self.averaged.train()
                for norm in norms:
                    norm.reset_running_stats()
                    norm.momentum = None
            self._forward(self.averaged, batch)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        self.averaged.eval()

    def state_dict(self) -> dict[str, Any]:
        """Returns all that is needed to go on exactly: tensors, numbers and containers only."""
        return {
            "format": STATE_FORMAT,
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "samples": self.samples,
            "steps": self.steps,
            "progress": self.progress,
            "average_weight": self.average_weight,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from where `state_dict` was taken. Raises InputError when the state is of another format."""
        if state.get("format") != STATE_FORMAT:
            raise InputError(f"trainer: the state's format is {state.get('format')!r}; allowed is {STATE_FORMAT}")
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        self._load_optimizer(copy.deepcopy(state["optimizer"]))  # torch would share its tensors with the given state
        self.samples, self.steps = state["samples"], state["steps"]
        self.progress, self.average_weight = state["progress"], state["average_weight"]

    def _load_optimizer(self, state: dict[str, Any]) -> None:
        """Takes over the statistics, not the settings, which may have changed; another optimiser begins anew."""
        own = self.optimizer.state_dict()["param_groups"]
        if ("betas" in own[0]) != ("betas" in state["param_groups"][0]):
            self.optimizer.state.clear()
            return
        for group, settings in zip(state["param_groups"], own, strict=True):
            group.update(settings)
        self.optimizer.load_state_dict(state)

    def turned(self, batch: TrainingBatch) -> tuple[Tensor, Tensor, TrainingBatch]:
        """Returns planes, inputs and targets on the device, each turned by its symmetry; `state` stays as it is."""
        batch = batch.to(self.device)
        turn, size = batch.symmetry, None if batch.state.rules.same_size else batch.state.rules.size
        planes = symmetry.transform_planes(self.encoder.planes(batch.state), turn, size)
        policy, reply = (symmetry.transform_actions(moves, turn, size) for moves in (batch.policy, batch.reply))
        ownership = symmetry.transform_planes(batch.ownership, turn, size)
        targets = dataclasses.replace(batch, policy=policy, reply=reply, ownership=ownership)
        return planes, self.encoder.globals(batch.state), targets

    def _forward(self, network: Network, batch: TrainingBatch) -> tuple[dict[str, Tensor], TrainingBatch]:
        """Returns the network's outputs by head, and the targets that belong to them."""
        planes, inputs, targets = self.turned(batch)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            return network(planes, inputs, on_board_mask(targets.state)), targets

    def _losses(self, network: Network, batch: TrainingBatch) -> tuple[Tensor, Metrics]:
        outputs, targets = self._forward(network, batch)
        total = torch.zeros((), device=self.device)
        metrics: Metrics = {}
        for name, weight in self.heads.items():
            loss, more = LOSSES[name](outputs[name].to(torch.float32), targets)
            total = total + weight * loss
            metrics |= {f"{name}_loss": loss.detach(), **more}
        return total, {"loss": total.detach(), **metrics}

    @torch.no_grad()
    def _average(self, new_samples: int) -> None:
        """Moves the averaged weights: an exponential mean with horizon `ema_samples`.

        The bias of its start is divided out, so that the first step copies. Batch-norm statistics go along as a first
        guess; `refresh_statistics` gives the right ones."""
        share = -math.expm1(-new_samples / self.settings.ema_samples)
        self.average_weight += (1.0 - self.average_weight) * share
        ours = [tensor for tensor in self.network.state_dict().values() if tensor.is_floating_point()]
        averaged = [tensor for tensor in self.averaged.state_dict().values() if tensor.is_floating_point()]
        torch._foreach_lerp_(averaged, ours, share / self.average_weight)


def make_optimizer(network: Network, settings: TrainingConfig) -> torch.optim.Optimizer:
    """Returns the config's optimiser; kernels and matrices decay, biases and normalisation (one-dimensional) don't."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.momentum, fused=True)
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(settings.momentum, SECOND_MOMENTUM), fused=True)
