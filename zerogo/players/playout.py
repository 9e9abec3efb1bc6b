"""Plain Monte Carlo: positions evaluated by one random game each, with no network."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from zerogo import board, draws, flood, scoring
from zerogo.board.position import Position, legal_rows, play
from zerogo.draws import Purpose
from zerogo.evaluator import Evaluation
from zerogo.players.random_player import Rim, draw_point, sparing_rows

LONGEST = 2  # a playout ends after so many plies a point; sparing eyes, nearly all have ended by passes before
_DRAW = 2  # seed of the playouts' draws


class PlayoutEvaluator:
    """An evaluator for plain MCTS: an even prior over the legal moves that fill no own eye, and pass; the value of one playout.

    A playout is played by both sides as `RandomPlayer` does, with the simple ko rule alone, and scored as it stands. Each is a function of
    the key that the search gives (or else of the position), so a game comes out alike alone and among many.
    """

    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        """Returns prior float32 [B, A] and value float32 [B], the playouts' results (1, 0, -1) for the side to move."""
        legal = board.legal_actions(state) if legal is None else legal
        keys = draws.key(state.hash, state.to_play, state.ply) if key is None else key
        spared = flood.unpack_rows(sparing_rows(state, Rim.of(state.on_board), state.on_board)).flatten(1)
        sensible = legal & torch.cat([spared, torch.ones_like(spared[:, :1])], dim=1)
        prior = sensible.to(torch.float32) / sensible.sum(1, keepdim=True)
        score = playout_scores_black(state, keys)
        result = torch.sign(score - state.rules.komi)
        return Evaluation(prior=prior, value=torch.where(state.to_play == board.BLACK, result, -result))


def playout_scores_black(state: board.State, keys: Tensor) -> Tensor:
    """Returns Black's area less White's after one random game from each position: keys int64 [B] -> float32 [B] points, before komi."""
    position = Position(**{field.name: getattr(state, field.name) for field in dataclasses.fields(Position)})
    longest = LONGEST * state.board_size**2
    on_board, rim, cap, suicide = state.on_board, Rim.of(state.on_board), state.ply + longest, state.suicide
    uniform = draws.uniform(draws.key(_DRAW, keys, Purpose.PLAYOUT), longest)
    scores = torch.zeros(state.num_games, device=state.device)
    lane = torch.arange(state.num_games, device=state.device)
    for ply in range(longest):
        if flood.may_look(lane):
            going = (~position.finished).nonzero().squeeze(1)
            if going.numel() < len(lane):  # what is over is scored and dropped
                scores[lane] = _area(position, on_board)
                lane, position = lane[going], position.map(lambda tensor, index=going: tensor[index])
                on_board, rim, cap, uniform = on_board[going], rim.at(going), cap[going], uniform[going]
                suicide = None if suicide is None else suicide[going]
            if lane.numel() == 0:
                return scores
        rows = sparing_rows(position, rim, legal_rows(position, on_board, suicide))
        position, _ = play(position, draw_point(uniform[:, ply], rows), on_board, suicide, cap)
    scores[lane] = _area(position, on_board)
    return scores


def _area(position: Position, on_board: Tensor) -> Tensor:
    black, white = scoring.area_rows(position.black, position.white, on_board)
    return (flood.count(black) - flood.count(white)).to(torch.float32)
