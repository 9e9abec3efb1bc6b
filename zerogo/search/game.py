"""What the search asks of a game.

The search knows no rules: any game that offers these few operations on batches can be searched, toy games with known
values too. A node of the tree stores a position packed into a few int32 words; what else a game needs (its rules, what
happened before the root) is in `states`, the root states of all games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True)
class SearchPath:
    """The way from the root to K leaves, for what encoders and superko need to know of earlier positions.

    game_index: int64 [K], which games. path: int64 [K, D], rows of the nodes in `words` and `actions`, root first.
    depth: int64 [K], index on the path of the leaf's parent; entries behind it have no meaning. words: int32 [B * M,
    W], the packed positions of all nodes. actions: int32 [B * M], the move that led to each."""

    game_index: Tensor
    path: Tensor
    depth: Tensor
    words: Tensor
    actions: Tensor

    def rows(self, ago: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the rows of the nodes `ago` moves before the leaf's parent, and their index on the path: int64 [n] ->
        int64 [K, n] twice. The index is negative before the root, whose row then stands in."""
        index = self.depth.unsqueeze(1) - ago
        return self.path.gather(1, index.clamp(min=0)), index


def rows_of(tensor: Tensor, game_index: Tensor) -> Tensor:
    """Returns the entries of some games (int64 [K], ascending, so K = B means all): [B, ...] -> [K, ...]."""
    return tensor if len(game_index) == len(tensor) else tensor.index_select(0, game_index)


@dataclass(frozen=True)
class LeafStates:
    """The positions that K moves lead to.

    words: int32 [K, W], packed. legal: bool [K, A]. finished: bool [K], result: float32 [K], as `Game.outcome`.
    repeats: bool [K], the move was illegal because it repeats a position. leaf: what the evaluator gets, as
    `Game.leaf`."""

    words: Tensor
    legal: Tensor
    finished: Tensor
    result: Tensor
    repeats: Tensor
    leaf: Any


class Game(Protocol):
    """Operations on K positions of the games `game_index` (int64 [K], ascending, so K = B means all).

    states: the root states. They are positions, too, and all positions are `zerogo.tensors.TensorFields`."""

    def num_actions(self, states: Any) -> int:
        """Returns A."""

    def numbers(self, states: Any, game_index: Tensor) -> Tensor | None:
        """Returns the number by which each action draws its noise, so that a board smaller than the batch's has the
        noise that it has alone: int64 [K, A], the last the largest; None where it is the action's index."""
        return None

    def root_legal(self, states: Any) -> Tensor:
        """Returns the exact legal moves at the roots: bool [B, A]."""

    def play(self, states: Any, game_index: Tensor, words: Tensor, actions: Tensor) -> Any:
        """Returns the positions after the actions: words int32 [K, W] before them, actions int64 [K]."""

    def pack(self, position: Any) -> Tensor:
        """Returns the words to store: int32 [K, W]."""

    def legal(self, states: Any, game_index: Tensor, position: Any) -> Tensor:
        """Returns the legal moves: bool [K, A]; moves that repeat may be among them, and are closed when reached."""

    def outcome(self, states: Any, game_index: Tensor, position: Any) -> tuple[Tensor, Tensor]:
        """Returns whether the game is over, bool [K], and the side to move's result there, float32 [K] in [-1, 1]."""

    def repeats(self, states: Any, position: Any, path: SearchPath, actions: Tensor) -> Tensor:
        """Returns whether the move into the position was illegal because it repeats one: bool [K]."""

    def leaf(self, states: Any, position: Any, path: SearchPath, actions: Tensor) -> Any:
        """Returns the positions as the evaluator wants them, with what came before."""
        return position

    def step_leaves(self, states: Any, path: SearchPath, words: Tensor, actions: Tensor) -> LeafStates:
        """Returns what the moves lead to: words int32 [K, W] of the leaves' parents, actions int64 [K]."""
        position = self.play(states, path.game_index, words, actions)
        finished, result = self.outcome(states, path.game_index, position)
        repeats, leaf = self.repeats(states, position, path, actions), self.leaf(states, position, path, actions)
        legal = self.legal(states, path.game_index, position)
        return LeafStates(self.pack(position), legal, finished, result, repeats, leaf)

    def lasting(self, states: Any) -> Any:
        """Returns the states with numbers on the host that hold for all later states of these shapes (CUDA graphs)."""
        return states
