"""Keyed draws on CUDA, one launch each: the same bits as `zerogo.board.rng` in torch; logarithms, which come after, may
round otherwise."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels import keys as constants
from zerogo.kernels.cuda import launch

GOLDEN, MIX_1, MIX_2 = tl.constexpr(constants.GOLDEN), tl.constexpr(constants.MIX_1), tl.constexpr(constants.MIX_2)
BLOCK = 128


@triton.jit
def mix(z):
    """Returns `rng.mix`: int64 -> int64."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * MIX_1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * MIX_2
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@triton.jit
def key_of(key, word):
    """Returns `rng.key` of a key and one more word: int64."""
    return mix(mix(key + GOLDEN) * 5 + GOLDEN + word)


@triton.jit
def uniform_at(key, place):
    """Returns a key's number at a place (int64), uniform in (0, 1): float32."""
    bits = (mix(key + (place + 1) * GOLDEN) >> 40) & 0xFFFFFF
    return tl.minimum((bits.to(tl.float32) + 0.5) * (1.0 / 16777216.0), 1.0 - 1.0 / 16777216.0)


@triton.jit
def gumbel_at(key, place):
    """Returns a key's standard Gumbel number at a place: float32."""
    return -tl.log(-tl.log(uniform_at(key, place)))


def key(parts: tuple[int | Tensor, ...], mask: int) -> Tensor | None:
    """Returns `rng.key` of numbers and tensors, at least one, or with a mask `rng.below`; None where the tensors'
    shapes differ, so that torch has to broadcast them."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if any(tensor.shape != tensors[0].shape for tensor in tensors):
        return None
    first = next(k for k, part in enumerate(parts) if isinstance(part, Tensor))
    given = tuple(part.contiguous() if isinstance(part, Tensor) else tensors[0] for part in parts[first:])
    words = tuple(None if isinstance(part, Tensor) else int(part) for part in parts[first:])
    found = torch.empty(given[0].shape, dtype=torch.int64, device=given[0].device)
    given = given, _start(*map(int, parts[:first])), found.numel()
    launch(key_kernel, triton.cdiv(found.numel(), BLOCK), found, *given, WORDS=words, MASK=mask, BLOCK=BLOCK)
    return found


@cache
def _start(*parts: int) -> int:
    """Returns what the numbers before the first tensor come to, the same for all games."""
    return int(constants.mix_words(parts))


@triton.jit(do_not_specialize=["start", "total"])
def key_kernel(found, given, start, total, WORDS: tl.constexpr, MASK: tl.constexpr, BLOCK: tl.constexpr):
    """Mixes a block of keys. WORDS: what is mixed in, None for a tensor's."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = tl.zeros([BLOCK], tl.int64) + start
    for k in tl.static_range(len(WORDS)):
        if WORDS[k] is None:
            mixed = mix(mixed * 5 + GOLDEN + tl.load(given[k] + at, mask=at < total, other=0).to(tl.int64))
        else:
            mixed = mix(mixed * 5 + GOLDEN + WORDS[k])
    if MASK:
        mixed = (mixed >> 40) & MASK
    tl.store(found + at, mixed, mask=at < total)


def uniform(keys: Tensor, n: int, places: Tensor | None, is_gumbel: bool) -> Tensor:
    """Returns `rng.uniform`, or `rng.gumbel`: int64 [...] -> float32 [..., n]."""
    found = torch.empty(*keys.shape, n, dtype=torch.float32, device=keys.device)
    given = keys, None if places is None else places.expand_as(found), n, found.numel()
    launch(uniform_kernel, triton.cdiv(found.numel(), BLOCK), found, *given, IS_GUMBEL=is_gumbel, BLOCK=BLOCK)
    return found


@triton.jit(do_not_specialize=["n", "total"])
def uniform_kernel(found, keys, places, n, total, IS_GUMBEL: tl.constexpr, BLOCK: tl.constexpr):
    """Draws a block of numbers, n of each key, at its own places if there are any."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists, place = at < total, (at % n).to(tl.int64)
    if places is not None:
        place = tl.load(places + at, mask=exists, other=0)
    key = tl.load(keys + at // n, mask=exists, other=0)
    drawn = gumbel_at(key, place) if IS_GUMBEL else uniform_at(key, place)
    tl.store(found + at, drawn, mask=exists)


def log_gamma(keys: Tensor, alpha: Tensor, places: Tensor | None) -> Tensor:
    """Returns `rng.log_gamma`: int64 [...], float32 [..., n] -> float32 [..., n]."""
    found = torch.empty_like(alpha, memory_format=torch.contiguous_format)
    given = keys, alpha, None if places is None else places.expand_as(found), alpha.shape[-1], found.numel()
    launch(gamma_kernel, triton.cdiv(found.numel(), BLOCK), found, *given, TRIES=constants.GAMMA_TRIES, BLOCK=BLOCK)
    return found


@triton.jit(do_not_specialize=["n", "total"])
def gamma_kernel(found, keys, alphas, places, n, total, TRIES: tl.constexpr, BLOCK: tl.constexpr):
    """Draws a block of logarithms of Gamma numbers: the first try that is accepted, the first of all if none is."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists, place, last = at < total, (at % n).to(tl.int64), tl.zeros([BLOCK], tl.int64) + n - 1
    if places is not None:
        place = tl.load(places + at, mask=exists, other=0)
        last = tl.load(places + (at // n) * n + n - 1, mask=exists, other=0)
    key, alpha = tl.load(keys + at // n, mask=exists, other=0), tl.load(alphas + at, mask=exists, other=1.0)
    d = alpha + (1.0 - 1.0 / 3.0)
    c = 1.0 / tl.sqrt_rn(9.0 * d)
    chosen, is_found = tl.zeros([BLOCK], tl.float32), at < 0
    for k in tl.static_range(TRIES):
        key += GOLDEN
        one = mix(key)
        radius = tl.sqrt_rn(-2.0 * tl.log(uniform_at(one, place)))
        x = radius * tl.cos(2.0 * 3.141592653589793 * uniform_at(one, place + last + 1))
        root = 1.0 + c * x
        v = root * root * root
        safe = tl.maximum(v, 1e-30)
        bound = 0.5 * x * x + d * (1.0 - v + tl.log(safe))
        accepted = (v > 0) & (tl.log(uniform_at(one ^ GOLDEN, place)) < bound)
        chosen = tl.where(is_found | ((k > 0) & (accepted == 0)), chosen, safe)
        is_found = is_found | accepted
    boost = tl.log(uniform_at(mix(key + GOLDEN), place)) / alpha
    tl.store(found + at, tl.log(d * chosen) + boost, mask=exists)


def tempered(policy: Tensor, temperature: float | Tensor, keys: Tensor, places: Tensor | None) -> Tensor:
    """Returns `search.search.tempered`: float32 [K, A], one or [K], int64 [K] -> int64 [K]."""
    (number, actions), found = policy.shape, torch.empty_like(keys, memory_format=torch.contiguous_format)
    is_one = not isinstance(temperature, Tensor)
    heats = (None, float(temperature)) if is_one else (temperature.to(torch.float32), 0.0)
    sizes = {"TILE": triton.next_power_of_2(actions), "enable_fp_fusion": False}
    launch(tempered_kernel, number, found, policy, keys, places, *heats, actions, **sizes)
    return found


@triton.jit(do_not_specialize=["temperature", "actions"])
def tempered_kernel(found, policy, keys, places, heats, temperature, actions, TILE: tl.constexpr):
    """Draws one game's move in proportion to policy^(1 / temperature)."""
    k, move = tl.program_id(0).to(tl.int64), tl.arange(0, TILE)
    exists, place = move < actions, move.to(tl.int64)
    heat = tl.zeros([TILE], tl.float32) + temperature
    if heats is not None:
        heat = tl.zeros([TILE], tl.float32) + tl.load(heats + k)
    if places is not None:
        place = tl.load(places + k * actions + move, mask=exists, other=0)
    logit = tl.div_rn(tl.log(tl.load(policy + k * actions + move, mask=exists, other=0.0)), tl.maximum(heat, 1e-4))
    noise = tl.where(heat > 0, gumbel_at(tl.load(keys + k), place), 0.0)
    score = logit - tl.max(tl.where(exists, logit, -float("inf")), 0) + noise
    tl.store(found + k, tl.argmax(tl.where(exists, score, -float("inf")), 0).to(tl.int64))
