"""What the search asks of a game, and Go's answer.

The search knows no rules: whatever offers these few operations on batches can be searched, toy games with known values
too. A node of the tree stores a position packed into a few int32 words; what else a game needs (its rules, what
happened before the root) it finds in `states`, the root states of all games of the search state."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import torch
from torch import Tensor

from zerogo import flood, kernels, scoring
from zerogo.board import Position, State, legal_actions
from zerogo.board.position import legal_rows, play
from zerogo.board.state import RECENT, RECENT_MOVES
from zerogo.board.zobrist import point_keys
from zerogo.rules import SUPERKO, own_actions

LEAF_FIELDS = (*(field.name for field in dataclasses.fields(Position)), "recent", "moves")  # what a leaf has of its own


@dataclasses.dataclass(frozen=True)
class Line:
    """How K lanes came to their leaves: what an encoder or superko may want to know of the way.

    lane: int64 [K], which games. path: int64 [K, D], the nodes' rows in `words` and `actions`, root first. depth: int64
    [K], index of the leaf's parent on the path; what is behind it has no meaning. words: int32 [R, W], the packed
    positions of all nodes. actions: int32 [R], the move that led to each."""

    lane: Tensor
    path: Tensor
    depth: Tensor
    words: Tensor
    actions: Tensor

    def rows(self, ago: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the nodes so many moves before the leaf's parent, and their index on the path, negative before the
        root, whose row then stands in: ago int64 [n] -> int64 [K, n] twice."""
        index = self.depth.unsqueeze(1) - ago
        return self.path.gather(1, index.clamp(min=0)), index


def of_lanes(tensor: Tensor, lane: Tensor) -> Tensor:
    """Returns a tensor's entries for the games `lane`: [B, ...] -> [K, ...]. Lanes ascend, so all B of them are the
    tensor itself.
    """
    return tensor if len(lane) == len(tensor) else tensor.index_select(0, lane)


@dataclasses.dataclass(frozen=True)
class LeafStates:
    """What K moves lead to, all that the operations of `Game` would tell one by one.

    words: int32 [K, W], as `pack` gives them. legal: bool [K, A]. finished: bool [K], result: float32 [K], as
    `outcome`. repeats: bool [K], False too where no game forbids that. leaf: as `Game.leaf`."""

    words: Tensor
    legal: Tensor
    finished: Tensor
    result: Tensor
    repeats: Tensor
    leaf: Any


class Game(Protocol):
    """Operations on K positions of the games `lane` (int64 [K], indices into `states`, ascending: K = B means all).

    A game may also have all of them in one, `step_leaves(states, line, words, actions) -> LeafStates | None`: words
    int32 [K, W] are the leaves' parents, actions int64 [K] the moves, the games are `line.lane`. It returns None where
    it has to be asked one by one. And where its states hold numbers on the host that change from move to move,
    `lasting(states)` returns them with such as hold for later states of the same shapes, too, so that a CUDA graph may
    read those from the same tensors."""

    def num_actions(self, states: Any) -> int:
        """Returns A."""

    def numbers(self, states: Any, lane: Tensor) -> Tensor | None:
        """Returns by which number each action draws its noise: int64 [K, A], the last the largest; None where it is its
        index.

        A game whose board is smaller than the batch's so has the noise that it has alone.
        """

    def roots(self, states: Any) -> Tensor:
        """Returns the packed positions of all games: int32 [B, W]."""

    def root_legal(self, states: Any) -> Tensor:
        """Returns the exact legal moves at the roots: bool [B, A]."""

    def play(self, states: Any, lane: Tensor, words: Tensor, actions: Tensor) -> Any:
        """Returns the positions after the actions: words int32 [K, W], actions int64 [K]."""

    def pack(self, position: Any) -> Tensor:
        """Returns the words to store: int32 [K, W]."""

    def legal(self, states: Any, lane: Tensor, position: Any) -> Tensor:
        """Returns the legal moves: bool [K, A]. Moves that repeat may be among them: their child is closed when it is
        reached.
        """

    def outcome(self, states: Any, lane: Tensor, position: Any) -> tuple[Tensor, Tensor]:
        """Returns whether the game is over bool [K], and the side to move's result float32 [K] in [-1, 1] where it
        is.
        """

    def repeats(self, states: Any, position: Any, line: Line, actions: Tensor) -> Tensor | None:
        """Returns whether the move into the position was illegal because it repeats one: bool [K]; None where no game
        forbids that.
        """

    def leaf(self, states: Any, position: Any, line: Line, actions: Tensor) -> Any:
        """Returns the positions as the evaluator wants them, with what came before."""

    def take(self, leaves: Any, index: Tensor) -> Any:
        """Returns some of the leaves: int64 [J]."""


class Go:
    """Go on `zerogo.board`.

    A position's words: black, white and atari rows (N each), hash (2), then player, passes, end, ply, ko, captures (2).
    """

    def num_actions(self, states: State) -> int:
        return states.board_size**2 + 1

    def numbers(self, states: State, lane: Tensor) -> Tensor | None:
        return None if states.rules.same_size else own_actions(of_lanes(states.rules.size, lane), states.board_size)

    def roots(self, states: State) -> Tensor:
        return self.pack(states)

    def root_legal(self, states: State) -> Tensor:
        lane = torch.arange(states.num_games, device=states.device)
        return self.allowed(states, lane, states, legal_actions(states))

    def allowed(self, states: State, lane: Tensor, position: Position, legal: Tensor) -> Tensor:
        """Returns those of the legal moves (bool [K, A]) that the search may think about, at roots and in trees: here
        all of them.
        """
        return legal

    def lasting(self, states: State) -> State:
        return dataclasses.replace(states, ply_bound=states.seen.shape[1] - 1)

    def pack(self, position: Position) -> Tensor:
        flags = [position.to_play, position.passes, position.finished, position.ply, position.ko]
        small = torch.stack([flag.to(torch.int32) for flag in flags], dim=1)
        hashes = position.hash.unsqueeze(1).view(torch.int32)
        return torch.cat([position.black, position.white, position.atari, hashes, small, position.captures], dim=1)

    def _unpack(self, words: Tensor, n: int) -> Position:
        rows = words[:, : 3 * n].reshape(-1, 3, n)
        to_play, passes, finished, ply, ko = words[:, 3 * n + 2 : 3 * n + 7].unbind(1)
        return Position(
            black=rows[:, 0],
            white=rows[:, 1],
            atari=rows[:, 2],
            to_play=to_play.to(torch.int8),
            passes=passes.to(torch.int8),
            ply=ply,
            ko=ko.to(torch.int16),
            hash=_hashes(words, n),
            captures=words[:, 3 * n + 7 :],
            finished=finished != 0,
        )

    def play(self, states: State, lane: Tensor, words: Tensor, actions: Tensor) -> Position:
        position = self._unpack(words, states.board_size)
        after, _ = play(
            position, actions, of_lanes(states.on_board, lane), self._suicide(states, lane), of_lanes(states.cap, lane)
        )
        return after

    def legal(self, states: State, lane: Tensor, position: Position) -> Tensor:
        points = flood.unpack_rows(
            legal_rows(position, of_lanes(states.on_board, lane), self._suicide(states, lane))
        ).flatten(1)
        return self.allowed(states, lane, position, torch.cat([points, torch.ones_like(points[:, :1])], dim=1))

    def outcome(self, states: State, lane: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        """The score of the board as it stands: inside the tree dead stones count until they are captured, whatever is
        pass-alive.
        """
        finished, value = position.finished, torch.zeros_like(position.ply, dtype=torch.float32)
        over = (
            finished.nonzero().squeeze(1)
            if flood.may_look(finished)
            else torch.arange(len(finished), device=finished.device)
        )
        if over.numel() == 0:
            return finished, value
        games = lane[over]
        black, white, board = position.black[over], position.white[over], states.on_board[games]
        area = scoring.area_rows(black, white, board)
        score = (flood.count(area[0]) - flood.count(area[1])).to(torch.float32)
        if states.rules.any_territory:
            none_dead = torch.zeros_like(black)
            territory = scoring.territory_rows_score(black, white, board, position.captures[over], none_dead)
            score = torch.where(states.rules.scoring[games] == 1, territory, score)
        result = torch.sign(score - states.rules.komi[games])
        value[over] = torch.where(position.to_play[over] == 1, result, -result)
        return finished, value

    def repeats(self, states: State, position: Position, line: Line, actions: Tensor) -> Tensor | None:
        if not states.rules.any_superko:
            return None
        now = position.hash.unsqueeze(1)
        before = of_lanes(states.seen[:, : states.ply_bound + 1], line.lane) == now
        depth = line.depth.unsqueeze(1)
        back = depth - torch.arange(line.path.shape[1], device=now.device)
        first, path = 3 * states.board_size, line.path.masked_fill(back < 0, 0)  # row 0 is nowhere
        hashes = line.words[:, first : first + 2].index_select(0, path.view(-1)).view(torch.int64)
        way = hashes.view_as(path) == now
        if flood.may_look(now) and not bool(before.any() | way.any()):
            return torch.zeros_like(position.finished)
        superko = of_lanes(states.rules.superko, line.lane)
        any_side = (superko != SUPERKO.index("situational")).unsqueeze(1)
        # How many plies ago the position stood that the leaf's parent followed: with an odd number the same side was to
        # move as at the leaf.
        ago = of_lanes(states.ply, line.lane).unsqueeze(1) + depth - torch.arange(before.shape[1], device=now.device)
        before = before & (any_side | ((ago & 1) == 1))
        way = way & (back >= 0) & (any_side | ((back & 1) == 1))
        is_pass = actions == states.board_size**2
        return (before.any(1) | way.any(1)) & ~is_pass & (superko != SUPERKO.index("simple"))

    def leaf(self, states: State, position: Position, line: Line, actions: Tensor) -> State:
        lane = line.lane
        rows, left = line.rows(torch.arange(RECENT_MOVES - 1, device=lane.device))
        earlier = of_lanes(states.moves, lane).gather(1, (-left).clamp(min=0))
        moves = torch.where(left > 0, line.actions[rows].to(torch.int16), earlier)
        moves = torch.cat([actions.to(torch.int16).unsqueeze(1), moves], dim=1)
        fields = {field.name: getattr(position, field.name) for field in dataclasses.fields(position)}
        return dataclasses.replace(
            self._without_history(states, lane), **fields, recent=self._recent(states, line), moves=moves
        )

    @staticmethod
    def _recent(states: State, line: Line) -> Tensor:
        """Returns the positions before the leaves, newest first: int32 [K, 7, 2, N], from the way and behind the root
        from the game.
        """
        stones = 2 * states.board_size
        rows, left = line.rows(torch.arange(RECENT, device=line.depth.device))
        way = line.words.index_select(0, rows.view(-1))[:, :stones].unflatten(0, rows.shape)
        earlier = line.lane.unsqueeze(1) * RECENT + (-left - 1).clamp(min=0)
        before = states.recent.view(-1, stones).index_select(0, earlier.view(-1)).view_as(way)
        return torch.where((left >= 0).unsqueeze(2), way, before).unflatten(2, (2, states.board_size))

    def step_leaves(self, states: State, line: Line, words: Tensor, actions: Tensor) -> LeafStates | None:
        """Does all of the above in one pass over the games where there is a kernel for it; games by territory are asked
        one by one.
        """
        fast = kernels.compiled("arrival", words.device)
        if fast is None or states.rules.any_territory:
            return None
        found = fast.step_leaves(states, line, words, actions, point_keys(states.board_size, words.device))
        of_leaf = {name: found[name] for name in LEAF_FIELDS}
        leaf = dataclasses.replace(self._without_history(states, line.lane), **of_leaf)
        legal = self.allowed(states, line.lane, leaf, found["legal"])
        return LeafStates(found["words"], legal, found["finished"], found["result"], found["repeats"], leaf)

    def _without_history(self, states: State, lane: Tensor) -> State:
        """Returns the games `lane` without what superko remembers: evaluators need none, and copying it would be most
        of the work.
        """
        games = dataclasses.replace(states, seen=states.seen[:, :0], links=states.links[:, :0])
        return games if len(lane) == states.num_games else self.take(games, lane)

    def take(self, leaves: State, index: Tensor) -> State:
        return leaves.map(lambda tensor: tensor[index])

    @staticmethod
    def _suicide(states: State, lane: Tensor) -> Tensor | None:
        return None if states.suicide is None else of_lanes(states.suicide, lane)


def _hashes(words: Tensor, board_size: int) -> Tensor:
    """Returns the Zobrist hashes in packed positions: int32 [..., W] -> int64 [...]."""
    return (
        words[..., 3 * board_size : 3 * board_size + 2]
        .clone(memory_format=torch.contiguous_format)
        .view(torch.int64)
        .squeeze(-1)
    )
