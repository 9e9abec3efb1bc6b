"""Random draws as pure functions of (seed, game, ply, purpose, …). So a game has the same draws alone or among
thousands, on any device. The network's outputs may still round differently in another batch or on another device; and
CUDA computes float32 convolutions in TF32 unless torch.backends.cudnn.allow_tf32 is False.

A key is an int64 tensor, mixed as in `kernels.shared`. There is no state, so nothing has to be saved."""

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.kernels.shared import GOLDEN, mix, mix_words
from zerogo.kernels.shared import Purpose as Purpose

GAMMA_TRIES = 8  # Marsaglia-Tsang accepts at least 95 % of tries, so all 8 fail with probability 4e-11


def key(seed: int | Tensor, *words: Tensor | int) -> Tensor:
    """Returns int64 keys that mix the seed with every word in order; integer tensors broadcast."""
    return _mix((seed, *words), 0)


def below(number: int, seed: int | Tensor, *words: Tensor | int) -> Tensor:
    """Returns one integer from 0 to number - 1 for each of the keys `key(seed, *words)`: int64. number: a power of two,
    at least 2."""
    return _mix((seed, *words), number - 1)


def _mix(words: tuple[Tensor | int, ...], mask: int) -> Tensor:
    """Returns the keys, or with a mask of low bits the integers that they draw."""
    tensors = [word for word in words if isinstance(word, Tensor)]
    device = tensors[0].device if tensors else torch.device("cpu")
    fast = kernels.module_for("draws", device) if tensors else None
    if fast is not None and (keys := fast.key(words, mask)) is not None:
        return keys
    mixed = mix_words(words, device)
    return (mixed >> 40) & mask if mask else mixed


def split(keys: Tensor, n: int, places: Tensor | None = None) -> Tensor:
    """Returns n different keys of each key: int64 [...] -> int64 [..., n].

    places, here and below: int64 [..., n], the indices of the draws in a key's sequence, the last one the largest; None
    for 0 to n - 1. With them a small board has the same draws inside the tensors of a larger one."""
    index = torch.arange(n, dtype=torch.int64, device=keys.device) if places is None else places
    return mix(keys.unsqueeze(-1) + (index + 1) * GOLDEN)


def uniform(keys: Tensor, n: int, places: Tensor | None = None) -> Tensor:
    """Returns n uniform numbers per key: int64 [...] -> float32 [..., n], never 0 or 1, so a logarithm is safe."""
    bits = (split(keys, n, places) >> 40) & 0xFFFFFF  # a float32 holds 24 bits exactly
    return ((bits.to(torch.float32) + 0.5) * (1.0 / 16777216.0)).clamp(max=1.0 - 2.0**-24)


def gumbel(keys: Tensor, n: int, places: Tensor | None = None) -> Tensor:
    """Returns n standard Gumbel numbers per key: int64 [...] -> float32 [..., n]."""
    return -torch.log(-torch.log(uniform(keys, n, places)))


def normal(keys: Tensor, n: int, places: Tensor | None = None) -> Tensor:
    """Returns n standard normal numbers per key (Box-Muller): int64 [...] -> float32 [..., n]."""
    both = None if places is None else torch.cat([places, places + places[..., -1:] + 1], dim=-1)
    pairs = uniform(keys, 2 * n, both)
    radius = torch.sqrt(-2.0 * torch.log(pairs[..., :n]))
    return radius * torch.cos(2.0 * torch.pi * pairs[..., n:])


def log_gamma(keys: Tensor, alpha: Tensor, places: Tensor | None = None) -> Tensor:
    """Returns the logarithm of Gamma(alpha, 1) numbers: keys int64 [...], alpha float32 [..., n] > 0 -> float32 [...,
    n].

    Marsaglia and Tsang (2000) for alpha + 1, scaled by U^(1/alpha) in logarithms, so that a small alpha does not
    underflow."""
    n = alpha.shape[-1]
    d = alpha + (1.0 - 1.0 / 3.0)
    c = 1.0 / torch.sqrt(9.0 * d)
    tries = split(keys, GAMMA_TRIES + 1)
    of_tries = None if places is None else places.unsqueeze(-2)
    x = normal(tries[..., :-1], n, of_tries)
    u = uniform(tries[..., :-1] ^ GOLDEN, n, of_tries)
    v = (1.0 + c.unsqueeze(-2) * x) ** 3
    safe = v.clamp(min=1e-30)
    accepted = (v > 0) & (torch.log(u) < 0.5 * x * x + d.unsqueeze(-2) * (1.0 - v + torch.log(safe)))
    first = accepted.to(torch.int8).argmax(dim=-2, keepdim=True)
    chosen = safe.gather(-2, first).squeeze(-2)
    boost = torch.log(uniform(tries[..., -1], n, places)) / alpha
    return torch.log(d * chosen) + boost


def dirichlet(keys: Tensor, alpha: Tensor, places: Tensor | None = None) -> Tensor:
    """Returns vectors of Dirichlet(alpha), which sum to 1: keys int64 [B], alpha float32 [B, n], 0 to exclude an entry
    -> float32 [B, n]."""
    takes_part = alpha > 0
    logs = log_gamma(keys, torch.where(takes_part, alpha, torch.ones_like(alpha)), places)
    return torch.softmax(torch.where(takes_part, logs, torch.full_like(logs, -torch.inf)), dim=-1)


def choose(keys: Tensor, weights: Tensor) -> Tensor:
    """Returns an index of each row, drawn in proportion to the weights: keys int64 [B], weights [B, n] (bool or >= 0,
    not all 0) -> int64 [B]. It uses the Gumbel trick, because a cumulative sum might round a weight of 0 into a
    choice."""
    logits = torch.log(weights.to(torch.float32))
    return (logits + gumbel(keys, weights.shape[-1])).argmax(dim=-1)
