"""What samples teach: targets as they come to the network's outputs, the losses of the heads, and their metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from zerogo import symmetry
from zerogo.network import SCORE_SCALE
from zerogo.replay import Samples
from zerogo.tensors import TensorFields

SOFTENED = 0.25  # power of the soft policy's target (KataGo)

Metrics = dict[str, Tensor]
# How heads learn: those that tell an action by cross-entropy, those whose tanh lies between -1 and 1 by that of two
# outcomes, and the score by Huber's loss.
MOVES, SIGNS = ("policy", "reply", "soft_policy"), ("value", "ownership", "short_values")
LOSSES = (*MOVES, *SIGNS, "score")


@dataclass(frozen=True)
class Targets(TensorFields):
    """What B turned samples teach: float32, as in `Samples` where nothing else is said.

    policy, reply: [B, A], of the sum 1; reply is 1 at the other side's next move, and 0 everywhere where there was none
    (has_reply: bool [B]). on_board: bool [B, N, N], None where all points exist."""

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
        """Returns what samples teach when they are turned by tables, int64 [B, A]."""
        policy = samples.policy.to(torch.float32)
        policy = policy / policy.sum(-1, keepdim=True).clamp(min=1e-6)  # float16 has rounded it
        return cls(
            policy=symmetry.transform_actions(policy, tables),
            reply=(samples.reply.unsqueeze(1) == tables).to(torch.float32),
            has_reply=samples.reply >= 0,
            short_values=samples.short_values.to(torch.float32),
            ownership=symmetry.transform_planes(samples.ownership, tables).to(torch.float32),
            on_board=on_board,
            **{name: getattr(samples, name) for name in ("policy_weight", "value", "score", "board_weight")},
        )


def loss_parts(outputs: Metrics, targets: Targets, heads: Mapping[str, float]) -> list[tuple[Tensor, Metrics]]:
    """Returns the terms of the losses, each head's weighted with its entry of `heads`: a tensor for heads of one kind,
    of which the views by name are the heads' own. The loss is the sum of all terms.

    policy, soft_policy: cross-entropy of the search's policy and of its power of 1/4, made to sum to 1 [nats], means by
    `policy_weight`; reply: that of the other side's next move, a mean over samples that have one, by the same weight,
    as who plays at random teaches no reply either. value, ownership, short_values: cross-entropy of the outcome [nats],
    (1 + tanh(logit)) / 2 being its chance, as means over samples, over existing points by `board_weight`, and over what
    is known. score: Huber's loss in units of SCORE_SCALE points, a mean by `board_weight`.

    Heads of a kind are computed together: a GPU waits longer for launches than for what they do."""
    moves, signs = ([name for name in kind if name in heads] for kind in (MOVES, SIGNS))
    counts = [targets.policy_weight * targets.has_reply if name == "reply" else targets.policy_weight for name in moves]
    counts = torch.stack([*counts, targets.board_weight])
    weights = _constants((*(-heads[name] for name in moves), 1.0), counts.device)
    factors = counts * (weights / counts.sum(1).clamp(min=1e-6)).unsqueeze(1)
    parts = []
    if moves:
        parts.append(_move_terms(outputs, targets, moves, factors[:-1]))
    if signs:
        given = {name: _sign(name, targets, heads[name], factors[-1]) for name in signs}
        parts.append(_sign_terms(outputs, given))
    if "score" in heads:
        off = F.huber_loss(outputs["score"] / SCORE_SCALE, targets.score / SCORE_SCALE, reduction="none")
        parts.append((terms := off * (factors[-1] * heads["score"]), {"score": terms}))
    return parts


def _move_terms(outputs: Metrics, targets: Targets, names: list[str], factors: Tensor) -> tuple[Tensor, Metrics]:
    """Returns the terms of heads of MOVES, k of them. factors: float32 [k, B], by which each sample's log-probabilities
    are multiplied."""
    wanted = {"policy": targets.policy, "reply": targets.reply}
    if "soft_policy" in names:
        soft = targets.policy**SOFTENED
        wanted["soft_policy"] = soft / soft.sum(-1, keepdim=True)
    log_priors = F.log_softmax(torch.stack([outputs[name] for name in names]), dim=-1)
    terms = torch.stack([wanted[name] for name in names]) * factors.unsqueeze(-1) * log_priors
    return terms, dict(zip(names, terms.unbind(), strict=True))


def _sign_terms(outputs: Metrics, given: dict[str, tuple[Tensor, Tensor]]) -> tuple[Tensor, Metrics]:
    """Returns the terms of heads of SIGNS. given: what `_sign` returns for each."""
    wanted, factors = (torch.cat(columns, 1) for columns in zip(*given.values(), strict=True))
    logits = torch.cat([outputs[name].reshape(len(wanted), -1) for name in given], 1)
    terms = F.binary_cross_entropy_with_logits(2 * logits, (1 + wanted) / 2, factors, reduction="none")
    widths = [part.shape[1] for part, _ in given.values()]
    return terms, dict(zip(given, terms.split(widths, 1), strict=True))


def _sign(name: str, targets: Targets, weight: float, board_share: Tensor) -> tuple[Tensor, Tensor]:
    """Returns what an output of SIGNS is to be, and what each of its terms is multiplied by: float32 [B, n] each."""
    wanted = getattr(targets, name).flatten(1) if name != "value" else targets.value.unsqueeze(1)
    if name == "value":
        return wanted, torch.full_like(wanted, weight / len(wanted))
    if name == "short_values":
        known = ~wanted.isnan()
        return torch.where(known, wanted, 0.0), torch.where(known, weight / known.sum().clamp(min=1), 0.0)
    share = (board_share * weight).unsqueeze(1)
    if targets.on_board is None:
        return wanted, (share / wanted.shape[1]).expand_as(wanted)
    on_board = targets.on_board.flatten(1).to(torch.float32)
    return wanted, share / on_board.sum(1, keepdim=True) * on_board


@cache
def _constants(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Returns numbers on a device, which waits for them once."""
    with torch.inference_mode(False):
        return torch.tensor(numbers, device=device)


def policy_metrics(logits: Tensor, targets: Targets) -> Metrics:
    """Returns the entropies of the prior and of the policy and their divergence [nats], and how often the best moves
    agree, means weighted by `policy_weight`: logits [B, A]."""
    log_prior = F.log_softmax(logits, dim=-1)
    share = targets.policy_weight / targets.policy_weight.sum().clamp(min=1e-6)
    both = torch.stack([log_prior.exp(), targets.policy])
    entropy, target_entropy = torch.special.entr(both).sum(-1) @ share
    best, wanted = both.argmax(-1)
    return {
        "policy_entropy": entropy,
        "policy_target_entropy": target_entropy,
        "policy_kl": -((targets.policy * log_prior).sum(-1) @ share) - target_entropy,
        "policy_accuracy": (best == wanted).to(torch.float32) @ share,
    }


def value_metrics(logit: Tensor, targets: Targets) -> Metrics:
    """Returns how often the value has the result's sign, where there is a winner, means, and the squared error: logit
    [B]."""
    value, decided = torch.tanh(logit), targets.value != 0
    return {
        "value_accuracy": (decided & (value.sign() == targets.value.sign())).sum() / decided.sum().clamp(min=1),
        "value_mean": value.mean(),
        "value_target_mean": targets.value.mean(),
        "value_error": (value - targets.value).square().mean(),
    }


def score_metrics(score: Tensor, targets: Targets) -> Metrics:
    """Returns the score's mean error [points] by `board_weight`: score [B]."""
    share = targets.board_weight / targets.board_weight.sum().clamp(min=1e-6)
    return {"score_error_points": ((score - targets.score).abs() * share).sum()}


METRICS: dict[str, Callable[[Tensor, Targets], Metrics]] = {
    "policy": policy_metrics,
    "value": value_metrics,
    "score": score_metrics,
}
