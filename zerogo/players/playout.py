"""An evaluator by random games (playouts), for plain MCTS without a network."""

import re
from dataclasses import fields, replace

import torch
from torch import Tensor

from zerogo import board, kernels, scoring
from zerogo.board import flood, rng
from zerogo.board.position import Position, legal_rows, own_and_opponent, play
from zerogo.errors import InputError
from zerogo.evaluator import Evaluation
from zerogo.selfplay.opening import sparing_rows
from zerogo.system.tensors import send

LONGEST = 2  # plies per point after which a playout ends; nearly all end earlier, by passes, as eyes are spared
MOST_PLAYOUTS = 100_000  # per move, the maximum of `evaluation.simulations`
SCORE_SPREAD = 2.0  # a lead of this many board sides, in points, is worth half of what the largest lead is (KataGo)
FIRST_WEIGHT, FIRST_TEMPERATURE = 4.0, 0.15  # of all-moves-as-first, see `_first_moves`
_DRAW = 2  # seed of the playouts' draws


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

    Only the pass and legal moves that fill no own eye have prior. A playout is a function of the search's key, or else
    of the position, so a game has the same playouts alone and among many."""

    def __init__(self, num_playouts: int = 1) -> None:
        kernels.try_first("playouts")
        self.num_playouts = num_playouts

    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        """Returns prior, value, ownership and score for the side to move."""
        legal = board.legal_actions(state) if legal is None else legal
        spared = flood.unpack_rows(sparing_rows(state, state.on_board, state.on_board)).flatten(1)
        sensible = legal & torch.cat([spared, torch.ones_like(spared[:, :1])], dim=1)
        keys = rng.key(state.hash, state.to_play, state.ply) if key is None else key
        serial = torch.arange(self.num_playouts, device=state.device)
        owned, first = _play_games(state, rng.key(_DRAW, keys.unsqueeze(1), serial))
        sign = torch.where(state.to_play == board.BLACK, 1.0, -1.0).unsqueeze(1)
        owned = owned * sign.view(-1, 1, 1, 1)
        scores = self.scores(owned, state)
        results = torch.sign(scores)
        prior = torch.where(sensible, _first_moves(first.flatten(2), results, scores, state.rules.size), 0.0)
        even = legal / legal.sum(1, keepdim=True)  # where a search forbids all sensible moves
        prior = torch.where(sensible.any(1, keepdim=True), prior / prior.sum(1, keepdim=True), even)
        return Evaluation(prior, results.mean(1), owned.mean(1), scores.mean(1))

    def scores(self, owned: Tensor, state: board.State) -> Tensor:
        """Returns the side to move's lead in points after each playout: float32 [B, K]. owned: float32 [B, K, N, N], 1
        for its points at the end, -1 for the opponent's."""
        komi = torch.where(state.to_play == board.BLACK, state.rules.komi, -state.rules.komi)
        return owned.sum((2, 3)) - komi.unsqueeze(1)


def _first_moves(first: Tensor, results: Tensor, scores: Tensor, size: Tensor) -> Tensor:
    """Returns the weight of each action by all-moves-as-first: float32 [B, A]. It is 1 for the pass, and for points
    that the side to move was never the first to play.

    first: bool [B, K, P], the points where the side to move was first. results, scores: float32 [B, K], of the K
    playouts. A playout is worth half its result and half its points. A move's mean is drawn towards the mean of all
    playouts, as if FIRST_WEIGHT more playouts had ended with that mean."""
    leads = torch.atan(scores / (SCORE_SPREAD * size.to(torch.float32)).unsqueeze(1)) * (2 / torch.pi)
    worth = torch.round(256 * (results + leads) / 2) / 256  # so that sums are exact in any order
    number, total = first.sum(1), (first * worth.unsqueeze(2)).sum(1)
    gain = (total - number * worth.mean(1, keepdim=True)) / (number + FIRST_WEIGHT)
    return torch.nn.functional.pad(torch.exp(gain / FIRST_TEMPERATURE), (0, 1), value=1.0)


def _play_games(state: board.State, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Plays random games from each position, by keys int64 [B, K]. Returns the owners of the points at their ends,
    float32 [B, K, N, N], 1 Black's and -1 White's (by area, even under territory rules, where the difference is small);
    and where the side to move was the first to play, bool [B, K, N, N].

    Both sides draw uniformly among the points that are no own eye and no suicide (even if the rules allow it), under
    simple ko alone, and pass if there is none. Without a kernel for the device, the host plays."""
    device, shape, fast = state.device, keys.shape, kernels.module_for("playouts", state.device)
    if fast is None:
        state, keys = state.to(torch.device("cpu")), keys.cpu()
        fast = kernels.module_for("playouts", state.device)
    longest, exists = LONGEST * state.rules.size.to(torch.int32) ** 2, state.on_board.repeat_interleave(shape[1], 0)
    stones, first = (fast.play_out if fast else play_out)(state, keys.flatten(), longest)
    black, white = scoring.area_rows(stones[0], stones[1], exists)
    black, white, first = flood.unpack_rows(send(torch.stack([black, white, first]), device)).unflatten(1, shape)
    return black.to(torch.float32) - white.to(torch.float32), first


def play_out(state: board.State, keys: Tensor, longest: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the same as `kernels.cpu.scoring.play_out`, with the same draws, by the rules of `board.position`."""
    parents = torch.arange(len(keys)) // (len(keys) // state.num_games)
    position = Position(**{field.name: getattr(state, field.name)[parents] for field in fields(Position)})
    on_board, cap, begun = state.on_board[parents], position.ply + longest[parents], position.ply
    struck = played = first = torch.zeros_like(on_board)  # struck: suicides drawn at this ply
    while not bool(position.finished.all()):
        own_stones, opponent = own_and_opponent(position)
        ko = flood.points_to_rows(position.ko.to(torch.int64), position.board_size)
        keys = keys + rng.GOLDEN  # the next number of each key, as of `rng.split`
        struck_out = own_stones | opponent | struck | ko | flood.eyes(own_stones, on_board)
        until = flood.unpack_rows(on_board & ~struck_out).flatten(1).cumsum(1)
        rank = (((rng.mix(keys) >> 40) & 0xFFFFFF) * until[:, -1]) >> 24
        actions = (until <= rank.unsqueeze(1)).sum(1)
        place = flood.points_to_rows(actions, position.board_size)
        waits = position.finished | ((place & ~legal_rows(position, on_board, None)) != 0).any(1)
        placed = torch.where(waits.unsqueeze(1), 0, place & ~played)
        is_own = ((position.ply - begun) % 2 == 0).unsqueeze(1)
        played, first = played | placed, first | torch.where(is_own, placed, 0)
        struck = torch.where(waits.unsqueeze(1), struck | place, 0)
        after, _ = play(replace(position, finished=waits), actions, on_board, None, cap)
        position = replace(after, finished=torch.where(waits, position.finished, after.finished))
    return torch.stack([position.black, position.white]), first
