"""What is written down of each game while it is played, and how it becomes samples when the game is over."""

from __future__ import annotations

import torch
from torch import Tensor

from zerogo import board
from zerogo.replay import Samples, position_fields
from zerogo.replay.samples import POSITIONS


class Recorder:
    """The positions and searches of B games by ply: tensors [B, T, …] on the games' device, T plies at most.

    Of the eight positions that a sample holds only the newest is kept; the others are the ones before it.
    """

    def __init__(self, num_games: int, max_plies: int, board_size: int, device: torch.device) -> None:
        def table(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(num_games, max_plies, *shape, dtype=dtype, device=device)

        self.stones = table(2, board_size, dtype=torch.int32)
        self.actions = table(dtype=torch.int16)
        self.policy = table(board_size**2 + 1, dtype=torch.float16)
        self.is_full = table(dtype=torch.bool)
        self.root_value = table(dtype=torch.float32)
        self.network_step = table(dtype=torch.int64)
        self.fields: dict[str, Tensor] = {}
        self._shape = (num_games, max_plies)

    def write(
        self,
        lane: Tensor,
        states: board.State,
        actions: Tensor,
        policy: Tensor,
        value: Tensor,
        is_full: Tensor,
        network_step: int,
    ) -> None:
        """Writes one ply of the games `lane` (int64 [K]) before it is played: states of K games, actions int64 [K],
        policy float32 [K, A], value float32 [K] (side to move), is_full bool [K], whether the search was long enough to
        learn its policy."""
        ply = states.ply.to(torch.int64)
        given = position_fields(states)
        self.stones[lane, ply] = given.pop("rows")[:, 0]
        for name, tensor in given.items():
            if name not in self.fields:
                self.fields[name] = torch.zeros(
                    *self._shape, *tensor.shape[1:], dtype=tensor.dtype, device=tensor.device
                )
            self.fields[name][lane, ply] = tensor
        self.actions[lane, ply] = actions.to(torch.int16)
        self.policy[lane, ply] = policy.to(torch.float16)
        self.is_full[lane, ply] = is_full
        self.root_value[lane, ply] = value
        self.network_step[lane, ply] = network_step

    def samples(
        self,
        lane: Tensor,
        length: Tensor,
        score_black: Tensor,
        ownership_black: Tensor,
        game: Tensor,
        policy_weight: float = 1.0,
        is_resigned: Tensor | None = None,
    ) -> Samples:
        """Returns the samples of finished games: the plies with a full search, game by game.

        lane, length, game: int64 [K]; score_black: float32 [K], komi included; ownership_black: int8 [K, N, N].
        is_resigned: bool [K], None where no game is: the final board is then unknown.
        """
        played = torch.arange(self._shape[1], device=lane.device) < length.unsqueeze(1)
        which, ply = (played & self.is_full[lane]).nonzero().unbind(1)  # between moves the host may look
        row = lane[which]
        back = ply.unsqueeze(1) - torch.arange(POSITIONS, device=lane.device)
        rows = self.stones[row.unsqueeze(1), back.clamp(min=0)]
        rows = torch.where((back >= 0).view(-1, POSITIONS, 1, 1), rows, 0)
        fields = {name: tensor[row, ply] for name, tensor in self.fields.items()}
        is_black = fields["to_play"] == board.BLACK
        sign = torch.where(is_black, 1, -1)
        score = score_black[which] * sign
        return Samples(
            rows=rows,
            **fields,
            policy=self.policy[row, ply],
            policy_weight=torch.full_like(score, policy_weight),
            value=torch.sign(score),
            root_value=self.root_value[row, ply],
            score=score,
            ownership=(ownership_black[which] * sign.view(-1, 1, 1)).to(torch.int8),
            board_weight=torch.ones_like(score) if is_resigned is None else (~is_resigned[which]).to(torch.float32),
            game=game[which],
            network_step=self.network_step[row, ply],
        )
