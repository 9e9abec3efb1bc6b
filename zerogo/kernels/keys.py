"""The arithmetic of keyed draws, which torch (`board.rng`) and the kernels of both devices share: what a draw is for,
and how a key is mixed from words. SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
2014) is a bijection on 64 bits that passes BigCrush when fed with a counter."""

from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_2 = 0x94D049BB133111EB - (1 << 64)
GAMMA_TRIES = 8  # Marsaglia-Tsang accepts at least 95 % of tries, so 8 leave 4e-11


class Purpose(IntEnum):
    """What a draw is for, so that two of one game and ply never share a key. Append only: a run's games hang on it."""

    OPENING = 1
    SYMMETRY = 2
    NOISE = 3
    MOVE = 4
    BUDGET = 5
    KOMI = 6
    RESIGN = 7
    PLAYOUT = 8
    SETTLED = 9
    SGF = 10
    ROOT_SYMMETRY = 11
    SIZE = 12
    SUPERKO = 13
    SUICIDE = 14
    OPENING_PLIES = 15
    REANALYSIS = 16
    ACTOR = 17


def mix(z: Tensor | np.ndarray) -> Tensor | np.ndarray:
    """Returns SplitMix64's output function of int64 words; shifts are masked because torch shifts in the sign."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * MIX_1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * MIX_2
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def mix_words(words: tuple[Tensor | int, ...], device: torch.device | str = "cpu") -> Tensor:
    """Returns int64 keys of words, mixed in in this order; tensors (integers) broadcast."""
    mixed = torch.zeros((), dtype=torch.int64, device=device)
    for word in words:
        addend = word.to(torch.int64) if isinstance(word, Tensor) else ((int(word) + 2**63) % 2**64) - 2**63
        mixed = mix(mixed * 5 + GOLDEN + addend)
    return mixed
