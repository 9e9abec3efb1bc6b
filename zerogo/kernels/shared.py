"""Definitions shared by the kernels of both devices and the torch operations that they replace."""

from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

# In a search's trees.
NULL_NODE, ROOT = 0, 1  # every tree has both; node 0 is a dummy, which takes writes without effect
UNVISITED, ILLEGAL = 0, -1  # children without a node: not expanded yet; illegal, or repeating a position
# The packed position of a node is W = 3N + 9 int32 words: the rows of the black stones, the white ones and those in
# atari, N each; then, counted from word 3N, the hash (two words, low half first) to the captures (by Black, by White).
HASH, TO_PLAY, PASSES, FINISHED, PLY, KO, CAPTURES = 0, 2, 3, 4, 5, 6, 7
WORDS_AFTER_ROWS = 9
TINY = 1e-20  # a prior of 0 would be a logit of -inf for a legal move
# For `search.puct._spread`: the prior variance of a node's values (0.40^2), its weight, and 1 / 0.40.
VARIANCE_PRIOR, VARIANCE_WEIGHT, INVERSE_PRIOR_STDEV = 0.16, 2.0, 2.5


def tries(leaves: int) -> int:
    """Returns how many selections a step may make: half as many again as leaves, to replace collisions."""
    return leaves + leaves // 2


# The forms of an encoder's groups (see `features.Group`); kernels paint the first two.
ROWS, COUNTS, VALUES, GLOBALS = range(4)

# The arithmetic of keyed draws: their purposes, and how a key is mixed from words. SplitMix64 (Steele, Lea and Flood,
# "Fast splittable pseudorandom number generators", 2014) is a bijection on 64 bits that passes BigCrush when fed with a
# counter.

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_2 = 0x94D049BB133111EB - (1 << 64)
GAMMA_TRIES = 8  # Marsaglia-Tsang accepts at least 95 % of tries, so 8 of them fail with 4e-11


class Purpose(IntEnum):
    """The purpose of a draw, so that two draws of one game and ply never share a key. Append only: games depend on
    it."""

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
    ACTOR = 17


def mix(z: Tensor | np.ndarray) -> Tensor | np.ndarray:
    """Returns SplitMix64's output function of int64 words; shifts are masked because torch shifts in the sign."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * MIX_1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * MIX_2
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def mix_words(words: tuple[Tensor | int, ...], device: torch.device | str = "cpu") -> Tensor:
    """Returns int64 keys mixed from words in order; integer tensors broadcast."""
    mixed = torch.zeros((), dtype=torch.int64, device=device)
    for word in words:
        addend = word.to(torch.int64) if isinstance(word, Tensor) else ((int(word) + 2**63) % 2**64) - 2**63
        mixed = mix(mixed * 5 + GOLDEN + addend)
    return mixed
