"""What the kernels of both devices share with each other and with the torch operations that they replace: the layout of
trees and of packed positions, the arithmetic of keyed draws, and the arguments and results of kernels: namedtuples of
arrays, pointers or values for the dataclasses of board and search."""

from collections import namedtuple
from enum import IntEnum
from typing import Any

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


# Arguments and results of kernels

# A `board.Position`, and the history of a `board.State`, as arrays, pointers or values.
PositionFields = namedtuple("PositionFields", "black white atari to_play passes ply ko hash captures finished")
HistoryFields = namedtuple("HistoryFields", "seen links lost recent moves")

# The results of `read_tactics`, in this order, as defined in `features.readings.Tactics`.
TACTICS = (
    "liberties", "capture_size", "opponent_capture_size", "liberties_after", "size_after", "self_atari_size",
    "strings_joined", "weakest_opponent",
)  # fmt: skip

# The arguments of search kernels, as arrays or tensors: first a `search.tree.Tree`, with rows game * M + node.
TREE_FIELDS = "words children prior visits value_sum square_sum score_sum value terminal parent action size"
Trees = namedtuple("Trees", TREE_FIELDS)
# The parts of a `search.tree.SearchState` for a choice at a root, and of `config.SearchConfig` for any choice
# (float32).
Searches = namedtuple("Searches", "budget done root_prior forced gumbel kept_visits target_visits phase_end")
CHOICE_NUMBERS = "c_puct c_puct_log c_puct_base c_puct_variance fpu_reduction fpu_reduction_root".split()
CHOICE_NUMBERS += ["c_visit", "c_scale"]
# A `search.selection.Selection` of K = leaves * B slots.
Slots = namedtuple("Slots", "path depth action is_terminal is_used")
# K simulations: their paths (`Selection`), their leaves (`search.game.LeafStates`), and the network's evaluation.
SELECTED, LANDED = ("path", "depth", "action", "is_terminal"), ("words", "legal", "finished", "result", "repeats")
Leaves = namedtuple("Leaves", (*SELECTED, *LANDED, "prior", "value", "score"))
# A `search.game.SearchPath`; the root states and their rules; results besides the fields of the positions.
Path = namedtuple("Path", "game_index path depth words actions")
GAME_FIELDS = ("on_board", "cap", "ply", "seen", "links", "recent", "moves")
Games = namedtuple("Games", (*GAME_FIELDS, "superko", "komi", "suicide"))
LeafFields = namedtuple("LeafFields", "words legal result repeats recent moves")


def fields_of(kind: type, source: Any) -> Any:
    """Returns an object's tensors for the fields of a namedtuple, contiguous. The first tensor replaces one that is
    None, such as the scores of a tree without them; a kernel must not use it by that name."""
    tensors = [getattr(source, name) for name in kind._fields]
    return kind(*((tensors[0] if tensor is None else tensor).contiguous() for tensor in tensors))


def leaf_fields(states: Any, path: Any, words: Tensor) -> tuple[Path, Games, LeafFields, PositionFields]:
    """Returns the inputs of `step_leaves` besides the parents' words (int32 [K, W]), and memory for its results: words
    int32 [K, W]; legal bool [K, A], superko not considered; result float32 [K], the side to move's by area, 0 in
    running games; repeats bool [K], the move was illegal; recent int32 [K, 7, 2, N]; moves int16 [K, 5]; and the
    positions' fields.

    states: `board.State`. path: `search.game.SearchPath`."""
    number, rules = len(words), states.rules
    history = [getattr(states, name) for name in GAME_FIELDS]
    games = Games(*(tensor.contiguous() for tensor in (*history, rules.superko, rules.komi, rules.suicide)))

    def _room(like: Tensor) -> Tensor:
        return torch.empty(number, *like.shape[1:], dtype=like.dtype, device=like.device)

    legal = torch.empty(number, states.board_size**2 + 1, dtype=torch.bool, device=words.device)
    past = _room(states.recent), _room(states.moves)
    leaves = LeafFields(torch.empty_like(words), legal, _room(rules.komi), _room(states.finished), *past)
    after = PositionFields(*(_room(getattr(states, name)) for name in PositionFields._fields))
    return fields_of(Path, path), games, leaves, after
