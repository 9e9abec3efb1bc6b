"""Random moves: the player that makes them, and positions evaluated by random games (playouts), with no network."""

import re

import numpy as np
import torch
from torch import Tensor

from zerogo import board, kernels, scoring
from zerogo.board import flood, rng
from zerogo.board.eyes import eyes
from zerogo.board.position import Position, own_and_opponent
from zerogo.board.rng import Purpose
from zerogo.board.superko import exact_legal_rows
from zerogo.errors import InputError
from zerogo.evaluator import Evaluation
from zerogo.search.game import utility
from zerogo.system.tensors import sent

LONGEST = 2  # a playout ends after so many plies a point; sparing eyes, nearly all have ended by passes before
MOST_PLAYOUTS = 100_000  # of a move, as many as `evaluation.simulations` may be
FIRST_WEIGHT, FIRST_TEMPERATURE = 4.0, 0.15  # of all-moves-as-first, see `_first_moves`
DROP_EVERY = 4  # tries between looks for playouts that are over
_DRAW = 2  # seed of the playouts' draws


def sparing_rows(position: Position, on_board: Tensor, legal: Tensor) -> Tensor:
    """Returns the legal points that fill no eye of the side to move: legal int32 [B, N] -> int32 [B, N]."""
    own, _ = own_and_opponent(position)
    return legal & ~eyes(own, on_board)


def draw_point(uniform: Tensor, rows: Tensor) -> Tensor:
    """Returns a point drawn from each of `rows` (int32 [B, N]), P from none, by uniform float32 [B]: int64 [B]."""
    points = flood.unpack_rows(rows).flatten(1)
    until = points.cumsum(1, dtype=torch.int32)
    # The rank is below the total, since uniform is below 1 by more than the rounding.
    rank = (uniform * until[:, -1]).to(torch.int32)
    return (until <= rank.unsqueeze(1)).sum(1)


class RandomPlayer:
    """Moves evenly at random among the legal points that are not its own eyes, and passes when there is none."""

    name = "random"

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the moves: int64 [B]; game_ids int64 [B]. Each is a function of (seed, game, ply) alone."""
        rows = sparing_rows(states, states.on_board, exact_legal_rows(states))
        keys = rng.key(seed, game_ids, states.ply, Purpose.MOVE)
        return draw_point(rng.uniform(keys, 1).squeeze(1), rows)


def playouts_of(word: str) -> int | None:
    """Returns N of "mcts:N", None for any other word. Raises InputError for an N beyond MOST_PLAYOUTS."""
    match = re.fullmatch(r"mcts:0*([1-9][0-9]*)", word)
    if match and (len(match[1]) > len(str(MOST_PLAYOUTS)) or int(match[1]) > MOST_PLAYOUTS):
        raise InputError(f"{word[:40]!r} asks for too many playouts a move; allowed are mcts:1 to mcts:{MOST_PLAYOUTS}")
    return int(match[1]) if match else None


class PlayoutEvaluator:
    """An evaluator for plain MCTS by random games (playouts): their mean value, ownership and score, and a prior by
    all-moves-as-first (Gelly and Silver 2007): a move is the likelier, the better those games went in which the side to
    move was the first to play there.

    Only moves that are legal and fill no own eye have prior, and the pass. A playout is a function of the key that the
    search gives, or else of the position, so a game comes out alike alone and among many."""

    def __init__(self, num_playouts: int = 1) -> None:
        self.num_playouts = num_playouts

    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        """Returns prior, value, ownership and score for the side to move."""
        legal = board.legal_actions(state) if legal is None else legal
        spared = flood.unpack_rows(sparing_rows(state, state.on_board, state.on_board)).flatten(1)
        sensible = legal & torch.cat([spared, torch.ones_like(spared[:, :1])], dim=1)
        keys = rng.key(state.hash, state.to_play, state.ply) if key is None else key
        serial = torch.arange(self.num_playouts, device=state.device)
        owned, first = _played(state, rng.key(_DRAW, keys.unsqueeze(1), serial))
        sign = torch.where(state.to_play == board.BLACK, 1.0, -1.0).unsqueeze(1)
        owned = owned * sign.view(-1, 1, 1, 1)
        scores = self.scores(owned, state)
        results = torch.sign(scores)
        prior = torch.where(sensible, _first_moves(first.flatten(2), results, scores, state.rules.size), 0.0)
        prior = prior / prior.sum(1, keepdim=True)
        return Evaluation(prior, results.mean(1), owned.mean(1), scores.mean(1))

    def scores(self, owned: Tensor, state: board.State) -> Tensor:
        """Returns how many points each playout is won by for the side to move: float32 [B, K], of whose each point is
        at the end, float32 [B, K, N, N]."""
        komi = torch.where(state.to_play == board.BLACK, state.rules.komi, -state.rules.komi)
        return owned.sum((2, 3)) - komi.unsqueeze(1)


def _first_moves(first: Tensor, results: Tensor, scores: Tensor, size: Tensor) -> Tensor:
    """Returns the weight of each action by all-moves-as-first: float32 [B, A], 1 for what no playout tells, as a pass.

    first: bool [B, K, P], the points where the side to move was first. results, scores: float32 [B, K], of the K
    playouts. Each is worth half its result and half its points; a move's mean counts as if FIRST_WEIGHT playouts more
    had gone like all of them."""
    points = (size.to(torch.float32) ** 2).unsqueeze(1)
    worth = torch.round(256 * utility(results, scores, points, 0.5)) / 256  # sums are exact, whatever their order
    number, total = first.sum(1), (first * worth.unsqueeze(2)).sum(1)
    gain = (total - number * worth.mean(1, keepdim=True)) / (number + FIRST_WEIGHT)
    return torch.nn.functional.pad(torch.exp(gain / FIRST_TEMPERATURE), (0, 1), value=1.0)


def _played(state: board.State, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Plays random games from each position, by keys int64 [B, K], and returns whose each point is at their ends, also
    under territory rules, as then there is hardly a difference: float32 [B, K, N, N], 1 Black's and -1 White's; and
    where the side to move was the first to play: bool [B, K, N, N].

    Both sides draw evenly among the points that are no own eye and no suicide (also where the rules allow it), by the
    simple ko rule alone, and pass when there is none. A device that has no kernel for it leaves it to the host."""
    device, shape, fast = state.device, keys.shape, kernels.module_for("playouts", state.device)
    if fast is None:
        state, keys = state.to(torch.device("cpu")), keys.cpu()
        fast = kernels.module_for("playouts", state.device) or _Playouts
    longest, exists = LONGEST * state.rules.size.to(torch.int32) ** 2, state.on_board.repeat_interleave(shape[1], 0)
    stones, first = fast.play_out(state, keys.flatten(), longest)
    black, white = scoring.area_rows(stones[0], stones[1], exists)
    black, white, first = flood.unpack_rows(sent(torch.stack([black, white, first]), device)).unflatten(1, shape)
    return black.to(torch.float32) - white.to(torch.float32), first


class _Playouts:
    """The random games in NumPy, all together, each trying one point at a time; suicides are struck out, at no ply.

    Planes are int32 [N + 2, B]: bit rows with a border of one point all around, games last, so that an operation runs
    along memory. stones: int32 [2, N + 2, B], of the side to move and of the other. struck: points that are not to be
    tried now (suicides, ko). played, first: where a stone was placed, and where the side to move at the start placed
    the first. game_index: int64 [B], the games that are not over yet."""

    OF_GAMES = "stones on_board struck is_edge black_moves passes ply keys game_index longest played first".split()

    @staticmethod
    def play_out(state: board.State, keys: Tensor, longest: Tensor) -> tuple[Tensor, Tensor]:
        """Does what `kernels.cpu.playouts.play_out` does."""
        games = torch.arange(len(keys)) // (len(keys) // state.num_games)
        return _Playouts(state.select(games), keys, longest[games]).ends()

    def __init__(self, state: board.State, keys: Tensor, longest: Tensor) -> None:
        black, white, on_board = (_bordered(rows) for rows in (state.black, state.white, state.on_board))
        self.black_moves = state.to_play.numpy() == board.BLACK
        self.stones = np.where(self.black_moves, np.stack([black, white]), np.stack([white, black]))
        self.on_board, self.keys = on_board, keys.numpy().copy()
        self.passes = np.where(state.finished.numpy(), 2, state.passes.numpy())
        self.struck = _bordered(flood.points_to_rows(state.ko.to(torch.int64), state.board_size))
        self.ply = np.zeros(len(self.keys), dtype=np.int32)
        self.is_edge = on_board & _near(~on_board)
        self.columns = np.arange(state.board_size + 2, dtype=np.int32)[:, None]
        self.game_index, self.longest = np.arange(len(self.keys)), longest.numpy()
        self.played, self.first = np.zeros_like(on_board), np.zeros_like(on_board)
        self.final = np.zeros((3, len(self.keys), state.board_size), dtype=np.int32)  # black, white, first

    def ends(self) -> tuple[Tensor, Tensor]:
        """Plays all games to the end and returns the black and the white stones, int32 [2, B, N], and `first`."""
        while self._drop_finished():
            for _ in range(DROP_EVERY):
                self._try_one()
        final = torch.from_numpy(self.final)
        return final[:2], final[2]

    def _drop_finished(self) -> bool:
        """Notes the boards of games that are over and goes on without them; returns whether any are left."""
        going = (self.passes < 2) & (self.ply < self.longest)
        if not going.all():
            over = ~going
            stones, black_moves = self.stones[:, 1:-1, over] >> 1, self.black_moves[over]
            coloured = np.where(black_moves, stones, stones[::-1])
            ends = np.concatenate([coloured, self.first[None, 1:-1, over] >> 1])
            self.final[:, self.game_index[over]] = ends.transpose(0, 2, 1)
            for name in self.OF_GAMES:
                setattr(self, name, np.ascontiguousarray(getattr(self, name)[..., going]))
        return len(self.game_index) > 0

    def _try_one(self) -> None:
        """Plays a drawn point, or a pass, in every game; where the point is suicide it is struck out instead."""
        own, other = self.stones
        empty = self.on_board & ~(own | other)
        row, bit, is_pass = self._draw_point(empty & ~self.struck & ~self._eyes(own))
        stones = self.stones.copy()
        stones[0, row, np.arange(len(row))] |= bit  # a pass has bit 0
        liberties = self.on_board & ~(stones[0] | stones[1])
        dead = stones & ~_flood(_near(liberties) & stones, stones)
        captured, own_dead = dead[1], dead[0].any(0)
        has_captured = captured.any(0)
        going = (has_captured | ~own_dead) & (self.passes < 2) & (self.ply < self.longest)
        stones[1] ^= captured
        placed = stones[0] & ~own
        self.struck = np.where(going, self._ko(placed, other, captured, has_captured), self.struck | placed)
        self.stones = np.where(going, stones[::-1], self.stones)
        new = np.where(going, placed & ~self.played, 0)
        self.first |= np.where(self.ply % 2 == 0, new, 0)
        self.played |= new
        self.black_moves = self.black_moves ^ going
        self.passes = np.where(going, np.where(is_pass, self.passes + 1, 0), self.passes)
        self.ply += going

    def _draw_point(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns an evenly drawn point of each plane: row [B], bit [B] (0 in an empty plane), is empty (bool [B])."""
        in_row = np.bitwise_count(points).astype(np.int32)
        until = in_row.cumsum(0, dtype=np.int32)
        total = until[-1]
        self.keys += rng.GOLDEN  # the next number of each, as `rng.split` has them
        drawn = (rng.mix(self.keys) >> 40) & 0xFFFFFF
        rank = ((drawn * total) >> 24).astype(np.int32)
        row = np.minimum((until <= rank).sum(0), len(until) - 1)
        games = np.arange(len(row))
        rank -= until[row, games] - in_row[row, games]
        bits = (points[row, games] >> self.columns) & 1
        column = np.minimum((bits.cumsum(0, dtype=np.int32) <= rank).sum(0, dtype=np.int32), len(bits) - 1)
        return row, np.where(total > 0, np.int32(1) << column, 0).astype(np.int32), total == 0

    def _eyes(self, own: np.ndarray) -> np.ndarray:
        """Returns the eyes of the side to move (and stones among them), as `board.eyes` has them."""
        solid = own | ~self.on_board
        left, right = solid << 1, solid >> 1
        up, down = (left[:-2], right[:-2]), (left[2:], right[2:])
        both_up, both_down = up[0] & up[1], down[0] & down[1]
        one_missing = (both_up & (down[0] | down[1])) | (both_down & (up[0] | up[1]))
        fits = (both_up & both_down) | (one_missing & ~self.is_edge[1:-1])
        eyes = np.zeros_like(own)
        eyes[1:-1] = left[1:-1] & right[1:-1] & solid[:-2] & solid[2:] & fits
        return eyes

    def _ko(self, placed: np.ndarray, other: np.ndarray, captured: np.ndarray, has_captured: np.ndarray) -> np.ndarray:
        """Returns the point banned by simple ko: one stone, captured by one that stood among the other side's alone."""
        if not has_captured.any():
            return np.zeros_like(placed)
        is_alone = ~(_near(placed) & self.on_board & ~other).any(0)
        return np.where((np.bitwise_count(captured).sum(0) == 1) & is_alone, captured, 0)


def _bordered(rows: Tensor) -> np.ndarray:
    """Returns bit rows with a border of one point all around and games last: int32 [B, N] -> int32 [N + 2, B]."""
    return np.ascontiguousarray(np.pad(rows.numpy().T << 1, ((1, 1), (0, 0))))


def _near(planes: np.ndarray) -> np.ndarray:
    """Returns the points next to a point, those over the border included: int32 [..., N + 2, B]."""
    near = planes << 1
    near |= planes >> 1
    near[..., 1:, :] |= planes[..., :-1, :]
    near[..., :-1, :] |= planes[..., 1:, :]
    return near


def _flood(seeds: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Returns all points of `within` that are connected to a seed through it, to the fixpoint."""
    while True:
        for _ in range(2):  # a look costs as much as a step
            before, near = seeds, _near(seeds)
            near &= within
            near |= before
            seeds = near
        if not (seeds != before).any():
            return seeds
