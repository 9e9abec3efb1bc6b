"""What samples teach: targets as they come to the network's outputs, the losses of the heads, and their metrics."""

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

SOFTENED = 0.25  # power of the soft policy's target (KataGo)

Metrics = dict[str, Tensor]
Part = tuple[Tensor, dict[str, int]]  # terms of heads of a kind, and how many columns each has
SAMPLES, BY_POLICY, BY_BOARD, DECIDED = range(4)  # the weights of `metrics`
Rows = list[tuple[str, int]]  # names of numbers that samples have, and by which weight their mean is taken
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


def loss_parts(outputs: Metrics, targets: Targets, heads: Mapping[str, float]) -> list[Part]:
    """Returns the terms of the losses, each head's weighted with its entry of `heads`: a tensor for heads of one kind,
    [k, B, A] or [B, n], and the width of each head's own. The loss is the sum of all terms.

    policy, soft_policy: cross-entropy of the search's policy and of its power of 1/4, made to sum to 1 [nats], means by
    `policy_weight`; reply: that of the other side's next move, a mean over samples that have one, by the same weight,
    as who plays at random teaches no reply either. value, ownership, short_values: cross-entropy of the outcome [nats],
    (1 + tanh(logit)) / 2 being its chance, as means over samples, over existing points by `board_weight`, and over what
    is known. score: Huber's loss in units of SCORE_SCALE points, a mean by `board_weight`. ownership_sum: the same loss
    of the sum of the ownership, which is the score before komi; without it an error that all points share costs nearly
    nothing in the ownership's own loss, and is many points of score.

    Of several ranks each takes the means of its own share of the batch. Heads of a kind are computed together: a GPU
    waits longer for launches than for what they do."""
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
        parts.append((off * (factors[-1] * heads["score"]), {"score": 1}))
    if "ownership_sum" in heads:
        owned = torch.tanh(outputs["ownership"])
        owned = owned if targets.on_board is None else torch.where(targets.on_board, owned, 0.0)
        points = (owned.sum((1, 2)), targets.ownership.sum((1, 2)))
        off = F.huber_loss(*(sums / SCORE_SCALE for sums in points), reduction="none")
        parts.append((off * (factors[-1] * heads["ownership_sum"]), {"ownership_sum": 1}))
    return parts


def _move_terms(outputs: Metrics, targets: Targets, names: list[str], factors: Tensor) -> Part:
    """Returns the terms of heads of MOVES, k of them. factors: float32 [k, B], by which each sample's log-probabilities
    are multiplied."""
    wanted = {"policy": targets.policy, "reply": targets.reply}
    if "soft_policy" in names:
        soft = targets.policy**SOFTENED
        wanted["soft_policy"] = soft / soft.sum(-1, keepdim=True)
    log_priors = F.log_softmax(torch.stack([outputs[name] for name in names]), dim=-1)
    terms = torch.stack([wanted[name] for name in names]) * factors.unsqueeze(-1) * log_priors
    return terms, dict.fromkeys(names, terms.shape[-1])


def _sign_terms(outputs: Metrics, given: dict[str, tuple[Tensor, Tensor]]) -> Part:
    """Returns the terms of heads of SIGNS. given: what `_sign` returns for each."""
    wanted, factors = (torch.cat(columns, 1) for columns in zip(*given.values(), strict=True))
    logits = torch.cat([outputs[name].reshape(len(wanted), -1) for name in given], 1)
    terms = F.binary_cross_entropy_with_logits(2 * logits, (1 + wanted) / 2, factors, reduction="none")
    return terms, {name: part.shape[1] for name, (part, _) in given.items()}


def _sign(name: str, targets: Targets, weight: float, board_share: Tensor) -> tuple[Tensor, Tensor]:
    """Returns what an output of SIGNS is to be, and what each of its terms is multiplied by: float32 [B, n] each."""
    wanted = getattr(targets, name).flatten(1) if name != "value" else targets.value.unsqueeze(1)
    if name == "value":
        return wanted, _constants((weight / (len(wanted)),), wanted.device).expand_as(wanted)
    if name == "short_values":
        known = wanted == wanted  # else NaN
        return wanted.nan_to_num(0.0), known * (weight / known.sum().clamp(min=1))
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


def metrics(outputs: Metrics, targets: Targets, heads: Mapping[str, float], parts: list[Part]) -> Metrics:
    """Returns what a batch shows beside its loss: `NAME_loss` of each head before its weight (0 for a weight of 0); and
    of the heads that there are

    policy_entropy, policy_target_entropy, policy_kl [nats]: of the prior, of the policy, and their divergence, and
    policy_accuracy, how often their best moves agree, means by `policy_weight`; value_mean, value_target_mean,
    value_error (squared), and value_accuracy, how often the value has the result's sign where there is a winner;
    score_error_points: the mean error by `board_weight`.

    Each is the mean of a row of numbers, one of each sample,
    by one of four weights, and all are made at once. outputs: without gradients. parts: what `loss_parts` returned for
    them."""
    number = len(targets.value)
    ones = _constants((1.0,), targets.value.device).expand(len(targets.value))
    decided = torch.ne(targets.value, 0, out=torch.empty_like(targets.value))
    weights = torch.stack([ones, targets.policy_weight, targets.board_weight, decided])
    rows = [(name, SAMPLES) for _, names in parts for name in names]
    scales = tuple(number / (heads[name] or 1.0) for name, _ in rows)
    table = [_sums(terms.detach(), names) for terms, names in parts]
    for head in [head for head in METRICS if head in heads]:
        names, own = METRICS[head](outputs[head], targets)
        rows, table = rows + names, table + own
    means = torch.cat(table) @ weights.T / weights.sum(1).clamp(min=1e-6)
    losses = means[: len(scales), SAMPLES] * _constants(scales, means.device)
    found = {f"{name}_loss": loss for (name, _), loss in zip(rows, losses.unbind(), strict=False)}
    found |= {name: means[row, by] for row, (name, by) in enumerate(rows) if row >= len(scales)}
    if "policy_kl" in found:  # so far the sum of policy x log prior
        found["policy_kl"] = -(found["policy_kl"] + found["policy_target_entropy"])
    return found


def _sums(terms: Tensor, widths: dict[str, int]) -> Tensor:
    """Returns the sum of each sample's terms by head: float32 [heads, B]."""
    if terms.ndim < 3:
        return _members(tuple(widths.values()), terms.device) @ terms.reshape(-1, sum(widths.values())).T
    return terms.sum(-1)


@cache
def _members(widths: tuple[int, ...], device: torch.device) -> Tensor:
    """Returns 1 where a column belongs to a head: float32 [heads, sum of widths]."""
    with torch.inference_mode(False):
        return torch.block_diag(*(torch.ones(1, width) for width in widths)).to(device)


def _policy_rows(logits: Tensor, targets: Targets) -> tuple[Rows, list[Tensor]]:
    log_prior = F.log_softmax(logits, dim=-1)
    both = torch.stack([log_prior.exp(), targets.policy])
    cross = (targets.policy * log_prior).sum(-1)
    best, wanted = both.argmax(-1)
    agree = torch.eq(best, wanted, out=torch.empty_like(cross))
    names = "policy_entropy", "policy_target_entropy", "policy_kl", "policy_accuracy"
    return [(name, BY_POLICY) for name in names], [torch.special.entr(both).sum(-1), cross[None], agree[None]]


def _value_rows(logit: Tensor, targets: Targets) -> tuple[Rows, list[Tensor]]:
    value, wanted = torch.tanh(logit), targets.value
    right = torch.gt(value * wanted, 0, out=torch.empty_like(value))
    error = F.mse_loss(value, wanted, reduction="none")
    names = ("value_mean", SAMPLES), ("value_target_mean", SAMPLES), ("value_error", SAMPLES)
    return [*names, ("value_accuracy", DECIDED)], [row[None] for row in (value, wanted, error, right)]


def _score_rows(score: Tensor, targets: Targets) -> tuple[Rows, list[Tensor]]:
    return [("score_error_points", BY_BOARD)], [(score - targets.score).abs()[None]]


METRICS: dict[str, Callable[[Tensor, Targets], tuple[Rows, list[Tensor]]]] = {
    "policy": _policy_rows,
    "value": _value_rows,
    "score": _score_rows,
}
