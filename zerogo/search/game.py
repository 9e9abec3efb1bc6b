"""What the search needs of a game, and Go on `zerogo.board` as such a game.

The search knows no rules: it searches any game that offers these few operations on batches, such as toy games with
known values. A node of the tree stores a position packed into a few int32 words. Everything else (the rules, the
history before the root) is in `states`, the root states of all games."""

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from zerogo import kernels, scoring
from zerogo.board import Position, State, flood, legal_actions
from zerogo.board.position import legal_rows, play, point_keys
from zerogo.kernels.shared import CAPTURES, FINISHED, HASH, KO, PASSES, PLY, TO_PLAY
from zerogo.rules import SUPERKO, own_actions

LEAF_FIELDS = (*(field.name for field in fields(Position)), "recent", "moves")  # that differ by leaf


@dataclass(frozen=True)
class SearchPath:
    """The paths from the root to K leaves, with the earlier positions that encoders and superko need.

    game_index: int64 [K], the leaves' games. path: int64 [K, D], rows of the nodes in `words` and `actions`, root
    first. depth: int64 [K], index on the path of the leaf's parent; later entries are undefined. words: int32 [B * M,
    W], the packed positions of all nodes. actions: int32 [B * M], the move that led to each."""

    game_index: Tensor
    path: Tensor
    depth: Tensor
    words: Tensor
    actions: Tensor

    def rows(self, ago: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the rows of the nodes `ago` moves before the leaf's parent, and their index on the path: int64 [n] ->
        int64 [K, n] twice. Before the root the index is negative and the row is the root's."""
        index = self.depth.unsqueeze(1) - ago
        return self.path.gather(1, index.clamp(min=0)), index


def select_games(tensor: Tensor, game_index: Tensor) -> Tensor:
    """Returns the entries of some games (int64 [K], ascending, so K = B means all): [B, ...] -> [K, ...]."""
    return tensor if len(game_index) == len(tensor) else tensor.index_select(0, game_index)


@dataclass(frozen=True)
class LeafStates:
    """The positions that K moves lead to.

    words: int32 [K, W], packed. legal: bool [K, A]; moves that repeat a position may be among them, until a simulation
    tries one and the search marks it ILLEGAL. finished: bool [K], the game is over, or won by passing, too. result:
    float32 [K], as `Game.outcome`. repeats: bool [K], the move into the leaf is illegal, as it repeats one. leaf: the
    evaluator's input, with earlier positions."""

    words: Tensor
    legal: Tensor
    finished: Tensor
    result: Tensor
    repeats: Tensor
    leaf: Any


class Game(Protocol):
    """Operations on K positions of the games `game_index` (int64 [K], ascending, so K = B means all).

    states: the root states, which are positions, too. All positions are `TensorFields` with A as `num_actions`; root
    states also have `ply`, int32 [B]."""

    def root_legal(self, states: Any) -> Tensor:
        """Returns the exact legal moves at the roots: bool [B, A]."""

    def pack(self, position: Any) -> Tensor:
        """Returns the words to store: int32 [K, W]."""

    def outcome(self, states: Any, game_index: Tensor, position: Any) -> tuple[Tensor, Tensor]:
        """Returns whether the game is over, bool [K], and the side to move's result, float32 [K] in [-1, 1]; of a game
        that is not over, the least that is certain, or -1."""

    def step_leaves(self, states: Any, path: SearchPath, words: Tensor, actions: Tensor) -> LeafStates:
        """Returns the leaves: words int32 [K, W] of their parents, actions int64 [K], the moves to them."""

    def final_score(self, states: Any, game_index: Tensor, position: Any) -> Tensor:
        """Returns the side to move's lead in points if the game ended here: float32 [K]; for searches with scores."""

    def noise_places(self, states: Any, game_index: Tensor) -> Tensor | None:
        """Returns the index at which each action draws its noise, so that a board smaller than the batch's largest gets
        the same noise as alone: int64 [K, A], the last one the largest; None if it is the action's index."""
        return None


class Go(Game):
    """Go. `kernels.shared` defines the packing."""

    def noise_places(self, states: State, game_index: Tensor) -> Tensor | None:
        """Returns each action's index on the game's own board; None if all boards have the batch's size."""
        size = states.rules.size
        return None if states.rules.same_size else own_actions(select_games(size, game_index), states.board_size)

    def root_legal(self, states: State) -> Tensor:
        """Returns the legal moves, superko included."""
        game_index = torch.arange(states.num_games, device=states.device)
        return self.allowed(states, game_index, states, legal_actions(states))

    def allowed(self, states: State, game_index: Tensor, position: Position, legal: Tensor) -> Tensor:
        """Returns the legal moves (bool [K, A]) that the search may try, at roots and in trees: here all of them."""
        return legal

    def pack(self, position: Position) -> Tensor:
        """Returns the positions as words: int32 [K, W]."""
        flags = [position.to_play, position.passes, position.finished, position.ply, position.ko]
        small = torch.stack([flag.to(torch.int32) for flag in flags], dim=1)
        hashes = position.hash.unsqueeze(1).view(torch.int32)
        return torch.cat([position.black, position.white, position.atari, hashes, small, position.captures], dim=1)

    def unpack(self, words: Tensor, board_size: int) -> Position:
        """Returns the positions in packed words: int32 [K, W]."""
        rows, small = words[:, : 3 * board_size].unflatten(1, (3, board_size)), words[:, 3 * board_size :]
        return Position(
            black=rows[:, 0],
            white=rows[:, 1],
            atari=rows[:, 2],
            to_play=small[:, TO_PLAY].to(torch.int8),
            passes=small[:, PASSES].to(torch.int8),
            ply=small[:, PLY],
            ko=small[:, KO].to(torch.int16),
            hash=small[:, HASH : HASH + 2].clone(memory_format=torch.contiguous_format).view(torch.int64).squeeze(1),
            captures=small[:, CAPTURES:],
            finished=small[:, FINISHED] != 0,
        )

    def play(self, states: State, game_index: Tensor, words: Tensor, actions: Tensor) -> Position:
        """Returns the positions after the actions; superko is not checked."""
        position = self.unpack(words, states.board_size)
        on_board, cap = select_games(states.on_board, game_index), select_games(states.cap, game_index)
        after, _ = play(position, actions, on_board, self._suicide(states, game_index), cap)
        return after

    def legal(self, states: State, game_index: Tensor, position: Position) -> Tensor:
        """Returns the legal moves, superko not considered: bool [K, A]."""
        rows = legal_rows(position, select_games(states.on_board, game_index), self._suicide(states, game_index))
        legal = torch.nn.functional.pad(flood.unpack_rows(rows).flatten(1), (0, 1), value=True)
        return self.allowed(states, game_index, position, legal)

    def outcome(self, states: State, game_index: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        """Returns which games are over, and their results by `scoring.result_black`. After a pass the side to move can
        have the result of area scoring as the board stands, by passing, too."""
        by_area = select_games(states.rules.scoring, game_index) == 0  # by territory, dead stones would count as alive
        certain = position.finished | ((position.passes == 1) & by_area)
        value = -torch.ones_like(position.ply, dtype=torch.float32)
        is_readable = flood.host_read_is_free(certain)
        over = certain.nonzero().squeeze(1) if is_readable else torch.arange(len(certain), device=certain.device)
        if over.numel():
            value[over] = torch.sign(self.final_score(states, game_index, position, over))
        return position.finished, value if is_readable else torch.where(certain, value, -1.0)

    def final_score(
        self, states: State, game_index: Tensor, position: Position, rows: Tensor | slice = slice(None)
    ) -> Tensor:
        """Returns the side to move's lead by `scoring.result_black`: float32. rows: which of the positions to score."""
        games = game_index[rows]
        black, white, board = position.black[rows], position.white[rows], states.on_board[games]
        area = scoring.area_rows(black, white, board)
        score = (flood.count(area[0]) - flood.count(area[1])).to(torch.float32)
        if states.rules.any_territory:
            alive_black, alive_white = scoring.pass_alive_rows(black, white, board, states.rules.suicide[games])
            dead = (black & alive_white) | (white & alive_black)
            territory = scoring.territory_rows_score(black, white, board, position.captures[rows], dead)
            score = torch.where(states.rules.scoring[games] == 1, territory, score)
        score = score - states.rules.komi[games]
        return torch.where(position.to_play[rows] == 1, score, -score)

    def repeats(self, states: State, position: Position, path: SearchPath, actions: Tensor) -> Tensor:
        """Returns whether the move into the position was illegal because it repeats an earlier one: bool [K]. Compares
        its hash with those of the game before the root and of the nodes on the path."""
        none = torch.zeros_like(position.finished)
        if not states.rules.any_superko:
            return none
        now = position.hash.unsqueeze(1)
        in_game = select_games(states.seen[:, : states.ply_bound + 1], path.game_index) == now
        depth = path.depth.unsqueeze(1)
        back = depth - torch.arange(path.path.shape[1], device=now.device)
        nodes = path.path.masked_fill(back < 0, 0)  # beyond the parent any row is valid
        first = 3 * states.board_size + HASH
        hashes = path.words[:, first : first + 2].index_select(0, nodes.view(-1)).view(torch.int64)
        on_path = hashes.view_as(nodes) == now
        if flood.host_read_is_free(now) and not bool(in_game.any() | on_path.any()):
            return none
        superko = select_games(states.rules.superko, path.game_index)
        any_side = (superko != SUPERKO.index("situational")).unsqueeze(1)
        # How many plies before the leaf's parent each position of the game was. After an odd number of plies, the side
        # to move was the leaf's.
        ply = select_games(states.ply, path.game_index).unsqueeze(1)
        ago = ply + depth - torch.arange(in_game.shape[1], device=now.device)
        in_game = in_game & (any_side | ((ago & 1) == 1))
        on_path = on_path & (back >= 0) & (any_side | ((back & 1) == 1))
        is_pass = actions == states.board_size**2
        return (in_game.any(1) | on_path.any(1)) & ~is_pass & (superko != SUPERKO.index("simple"))

    def leaf(self, states: State, position: Position, path: SearchPath, actions: Tensor) -> State:
        """Returns the positions with the earlier moves and positions that encoders need."""
        rows, index = path.rows(torch.arange(states.moves.shape[1] - 1, device=path.depth.device))
        before_root = select_games(states.moves, path.game_index).gather(1, (-index).clamp(min=0))
        moves = torch.where(index > 0, path.actions[rows].to(torch.int16), before_root)
        moves = torch.cat([actions.to(torch.int16).unsqueeze(1), moves], dim=1)
        values = {field.name: getattr(position, field.name) for field in fields(position)}
        games = self._without_history(states, path.game_index)
        return replace(games, **values, recent=self._recent(states, path), moves=moves)

    @staticmethod
    def _recent(states: State, path: SearchPath) -> Tensor:
        """Returns the positions before the leaves, newest first: int32 [K, 7, 2, N], of the path, then of the game."""
        number, stones = states.recent.shape[1], 2 * states.board_size
        rows, index = path.rows(torch.arange(number, device=path.depth.device))
        on_path = path.words.index_select(0, rows.view(-1))[:, :stones].unflatten(0, rows.shape)
        earlier = path.game_index.unsqueeze(1) * number + (-index - 1).clamp(min=0)
        in_game = states.recent.view(-1, stones).index_select(0, earlier.view(-1)).view_as(on_path)
        return torch.where((index >= 0).unsqueeze(2), on_path, in_game).unflatten(2, (2, states.board_size))

    def step_leaves(self, states: State, path: SearchPath, words: Tensor, actions: Tensor) -> LeafStates:
        """Returns the leaves, from one kernel if there is one. The kernel's results are Go's by area; others are made
        here."""
        fast = kernels.module_for("leaf_states", words.device)
        if fast is None:
            position = self.play(states, path.game_index, words, actions)
            legal = self.legal(states, path.game_index, position)
            repeats, leaf = self.repeats(states, position, path, actions), self.leaf(states, position, path, actions)
            finished, result = self.outcome(states, path.game_index, position)
            return LeafStates(self.pack(position), legal, finished | (result == 1), result, repeats, leaf)
        after = fast.step_leaves(states, path, words, actions, point_keys(states.board_size, words.device))
        games = self._without_history(states, path.game_index)
        leaf = replace(games, **{name: after[name] for name in LEAF_FIELDS})
        legal = self.allowed(states, path.game_index, leaf, after["legal"])
        is_by_area = type(self).outcome is Go.outcome and not states.rules.any_territory
        result = after["result"] if is_by_area else self.outcome(states, path.game_index, leaf)[1]
        return LeafStates(after["words"], legal, after["finished"] | (result == 1), result, after["repeats"], leaf)

    def _without_history(self, states: State, game_index: Tensor) -> State:
        """Returns games without superko's history, which takes most of the memory and which evaluators do not need."""
        games = replace(states, seen=states.seen[:, :0], links=states.links[:, :0])
        return games if len(game_index) == states.num_games else games.select(game_index)

    @staticmethod
    def _suicide(states: State, game_index: Tensor) -> Tensor | None:
        return None if states.suicide is None else select_games(states.suicide, game_index)
