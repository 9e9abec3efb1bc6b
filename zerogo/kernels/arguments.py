"""The arguments and results of kernels: namedtuples of arrays, pointers or values for the dataclasses of board and
search."""

from collections import namedtuple
from typing import Any

import torch
from torch import Tensor

# A `board.Position`, and the history of a `board.State`, as arrays, pointers or values.
PositionFields = namedtuple("PositionFields", "black white atari to_play passes ply ko hash captures finished")
HistoryFields = namedtuple("HistoryFields", "seen links lost recent moves")

# The results of `tactics.read`, in this order, as defined in `features.readings.Tactics`.
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
