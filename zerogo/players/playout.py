"""Random moves: the player that makes them, and positions evaluated by random games (playouts), with no network."""

import re
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from zerogo import board, draws, flood, kernels, scoring
from zerogo.board.eyes import eyes
from zerogo.board.position import Position, own_and_opponent
from zerogo.board.superko import exact_legal_rows
from zerogo.draws import Purpose
from zerogo.errors import InputError
from zerogo.evaluator import Evaluation
from zerogo.search.game import utility
from zerogo.tensors import TensorFields, sent

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
        keys = draws.key(seed, game_ids, states.ply, Purpose.MOVE)
        return draw_point(draws.uniform(keys, 1).squeeze(1), rows)


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
        keys = draws.key(state.hash, state.to_play, state.ply) if key is None else key
        serial = torch.arange(self.num_playouts, device=state.device)
        owned, first = _played(state, draws.key(_DRAW, keys.unsqueeze(1), serial))
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


@dataclass
class _Playouts(TensorFields):
    """K random games in torch, all together, each trying one point at a time.

    stones: int32 [K, 2, N], of the side to move and of the other. on_board, struck: int32 [K, N], the points that exist
    and those that are not to be tried now (suicides, ko). played, first: int32 [K, N], where a stone was placed, and
    where the side to move at the start placed the first. passes, ply, longest: int32 [K]. keys, index: int64 [K], index
    tells which of all games they are."""

    stones: Tensor
    on_board: Tensor
    struck: Tensor
    played: Tensor
    first: Tensor
    passes: Tensor
    ply: Tensor
    longest: Tensor
    keys: Tensor
    index: Tensor

    @staticmethod
    def play_out(state: board.State, keys: Tensor, longest: Tensor) -> tuple[Tensor, Tensor]:
        """Does what `kernels.cpu.playouts.play_out` does."""
        index = torch.arange(len(keys))
        position = index // (len(keys) // state.num_games)
        state, begins = state.select(position), state.to_play[position] == board.BLACK
        stones, none = torch.stack(own_and_opponent(state), 1), torch.zeros_like(state.black)
        struck = flood.points_to_rows(state.ko.to(torch.int64), state.board_size)
        passes = torch.where(state.finished, 2, state.passes).to(torch.int32)
        of_games = passes, torch.zeros_like(state.ply), longest[position], keys, index
        games = _Playouts(stones, state.on_board, struck, none, none, *of_games)
        last = torch.zeros(len(keys), 3, state.board_size, dtype=torch.int32)  # black, white, first
        while len(games.index):
            is_black = (begins[games.index] == (games.ply % 2 == 0)).view(-1, 1, 1)
            coloured = torch.where(is_black, games.stones, games.stones.flip(1))
            last[games.index] = torch.cat([coloured, games.first.unsqueeze(1)], 1)
            games = games.select(games.going.nonzero().squeeze(1))
            for _ in range(DROP_EVERY):
                games = games.tried()
        return last[:, :2].transpose(0, 1), last[:, 2]

    @property
    def going(self) -> Tensor:
        """Which games are not over yet: bool [K]."""
        return (self.passes < 2) & (self.ply < self.longest)

    def tried(self) -> "_Playouts":
        """Returns the games after a drawn point, or a pass, was tried in each that goes on; where the point is suicide
        it is struck out instead, at no ply."""
        own, other = self.stones.unbind(1)
        keys = self.keys + draws.GOLDEN  # the next number of each, as `draws.split` has them
        points = self.on_board & ~(own | other | self.struck | eyes(own, self.on_board))
        uniform = ((draws.mix(keys) >> 40) & 0xFFFFFF).to(torch.float64) / 2**24  # times a count it is exact
        placed = flood.points_to_rows(draw_point(uniform, points), points.shape[1])
        stones = torch.stack([own | placed, other], 1)
        lost, captured = (stones & ~_with_liberties(stones, self.on_board & ~(own | other | placed))).unbind(1)
        number, is_alone = flood.count(captured), ((flood.neighbours(placed) & self.on_board & ~other) == 0).all(1)
        ko = torch.where(((number == 1) & is_alone).unsqueeze(1), captured, 0)
        is_first = torch.where((self.ply % 2 == 0).unsqueeze(1), placed & ~self.played, 0)
        is_move = self.going & ((number > 0) | (lost == 0).all(1))
        passes = torch.where((placed == 0).all(1), self.passes + 1, 0)
        row = is_move.unsqueeze(1)
        return replace(
            self,
            stones=torch.where(row.unsqueeze(1), torch.stack([other ^ captured, own | placed], 1), self.stones),
            struck=torch.where(row, ko, self.struck | placed),
            played=torch.where(row, self.played | placed, self.played),
            first=torch.where(row, self.first | is_first, self.first),
            passes=torch.where(is_move, passes, self.passes),
            ply=self.ply + is_move.to(torch.int32),
            keys=keys,
        )


def _with_liberties(stones: Tensor, liberties: Tensor) -> Tensor:
    """Returns the stones of strings that have a liberty: int32 [K, 2, N] by colour, [K, N] -> [K, 2, N]."""
    found = flood.neighbours(liberties).unsqueeze(1) & stones
    while True:
        before, found = found, found | (flood.neighbours(found) & stones)
        if torch.equal(before, found):
            return found
