"""Keys of draws on CUDA, one launch each, and draws inside other kernels: the same bits as `zerogo.board.rng` in torch.
Logarithms, which come after, may round differently."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from zerogo.kernels import shared
from zerogo.kernels.cuda import launch

GOLDEN, MIX_1, MIX_2 = tl.constexpr(shared.GOLDEN), tl.constexpr(shared.MIX_1), tl.constexpr(shared.MIX_2)
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
def gumbel_at(key, place):
    """Returns a key's standard Gumbel number at a place (int64): float32."""
    bits = (mix(key + (place + 1) * GOLDEN) >> 40) & 0xFFFFFF
    uniform = tl.minimum((bits.to(tl.float32) + 0.5) * (1.0 / 16777216.0), 1.0 - 1.0 / 16777216.0)
    return -tl.log(-tl.log(uniform))


def key(words: tuple[int | Tensor, ...], mask: int) -> Tensor | None:
    """Returns `rng.key` of words, numbers and at least one tensor, or with a mask `rng.below`; None if the tensors'
    shapes differ, so that torch must broadcast them."""
    tensors = [word for word in words if isinstance(word, Tensor)]
    if any(tensor.shape != tensors[0].shape for tensor in tensors):
        return None
    first = next(k for k, word in enumerate(words) if isinstance(word, Tensor))
    inputs = tuple(word.contiguous() if isinstance(word, Tensor) else tensors[0] for word in words[first:])
    numbers = tuple(None if isinstance(word, Tensor) else int(word) for word in words[first:])
    keys = torch.empty(inputs[0].shape, dtype=torch.int64, device=inputs[0].device)
    start, total = _start(*map(int, words[:first])), keys.numel()
    launch(key_kernel, triton.cdiv(total, BLOCK), keys, inputs, start, total, WORDS=numbers, MASK=mask, BLOCK=BLOCK)
    return keys


@cache
def _start(*numbers: int) -> int:
    """Returns the mix of the numbers before the first tensor, which is the same for all games."""
    return int(shared.mix_words(numbers))


@triton.jit(do_not_specialize=["start", "total"])
def key_kernel(keys, tensors, start, total, WORDS: tl.constexpr, MASK: tl.constexpr, BLOCK: tl.constexpr):
    """Mixes a block of keys. WORDS: the numbers to mix, None for a tensor."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = tl.zeros([BLOCK], tl.int64) + start
    for k in tl.static_range(len(WORDS)):
        if WORDS[k] is None:
            mixed = mix(mixed * 5 + GOLDEN + tl.load(tensors[k] + at, mask=at < total, other=0).to(tl.int64))
        else:
            mixed = mix(mixed * 5 + GOLDEN + WORDS[k])
    if MASK:
        mixed = (mixed >> 40) & MASK
    tl.store(keys + at, mixed, mask=at < total)
