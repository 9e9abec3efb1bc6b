"""Training targets from samples, the losses of the heads, and their metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from zerogo.board import symmetry
from zerogo.network import SCORE_SCALE
from zerogo.replay import Samples
from zerogo.system.tensors import TensorFields

SOFTENED, SOFT_FLOOR = 0.25, 1e-7  # the soft policy's target is (probability + floor) ^ power, normalised (KataGo)

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


def policy_target(targets: Targets) -> tuple[Tensor, Tensor]:
    """The search's policy."""
    return targets.policy, targets.policy_weight


def reply_target(targets: Targets) -> tuple[Tensor, Tensor]:
    """The opponent's next move, if there is one; weighted by `policy_weight`, as random players teach no replies."""
    return targets.reply, targets.policy_weight * targets.has_reply


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


def ownership_target(targets: Targets) -> tuple[Tensor, Tensor]:
    """The owner of each point at the end; `_outcome_terms` leaves out points that do not exist."""
    return targets.ownership.flatten(1), targets.board_weight


def score_target(targets: Targets) -> tuple[Tensor, Tensor]:
    """The result in points, [B]. The loss is Huber's, in units of SCORE_SCALE points."""
    return targets.score, targets.board_weight


MOVES = {"policy": policy_target, "reply": reply_target, "soft_policy": soft_policy_target}
OUTCOMES = {"value": value_target, "ownership": ownership_target, "short_values": short_values_target}
LOSSES = MOVES | OUTCOMES | {"score": score_target}


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


def metrics(outputs: NamedTensors, targets: Targets, heads: Mapping[str, float], loss: list[Terms]) -> NamedTensors:
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


METRICS: dict[str, Callable[[Tensor, Targets], NamedTensors]] = {
    "policy": _policy_metrics,
    "value": _value_metrics,
    "score": _score_metrics,
}
