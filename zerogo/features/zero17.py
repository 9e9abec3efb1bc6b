"""AlphaGo Zero's input (Silver et al., "Mastering the game of Go without human knowledge", 2017): 17 planes of stones and colour.

Planes 0 to 7: stones of the side to move, now and 1 to 7 positions ago; 8 to 15: the opponent's, likewise; 16: one where the side to move
is Black. Positions before the first are empty, and nothing is set off a smaller board in a padded batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from zerogo.board import State

HISTORY = 7
BLACK = 1


class Zero17:
    """The encoder; see `features.Encoder`. With `komi_input` its one global input is the komi from the side to move's view.

    Komi is divided by twice the board's side: the spread of results grows like the side, so a point weighs about as much as it decides.
    7 points on 9x9 give 0.39, 7.5 on 19x19 0.20, and 24.5 on 5x5, which is nearly the whole board, 2.45; one point there is 0.1.
    """

    name = "zero17"
    num_planes = 2 * (HISTORY + 1) + 1
    history = HISTORY

    def __init__(self, komi_input: bool) -> None:
        self.num_globals = 1 if komi_input else 0

    def planes(self, state: State, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the planes: 0 or 1 in [B, 17, N, N] of the given dtype, in channels_last memory."""
        # Planes innermost: the network wants that memory, and a shift then runs over 17 words at a time (0.3 ms for 256 9x9 games).
        rows = self._rows(state)
        columns = torch.arange(state.board_size, dtype=torch.int32, device=rows.device).view(-1, 1)
        return ((rows.unsqueeze(2) >> columns) & 1).to(dtype).permute(0, 3, 1, 2)

    def globals(self, state: State) -> Tensor:
        """Returns float32 [B, 1] the scaled komi, positive where it favours the side to move; or [B, 0]."""
        favour = torch.where(state.to_play == BLACK, -state.rules.komi, state.rules.komi)
        return (favour / (2 * state.rules.size)).unsqueeze(1)[:, : self.num_globals]

    def _rows(self, state: State) -> Tensor:
        """Returns the planes as bit rows: int32 [B, N, 17]."""
        now = torch.stack([state.black, state.white], dim=1).unsqueeze(1)
        positions = torch.cat([now, state.recent[:, :HISTORY]], dim=1)
        is_black = (state.to_play == BLACK).view(-1, 1, 1, 1)
        own_first = torch.where(is_black, positions, positions.flip(2))
        stones = own_first.permute(0, 3, 2, 1).flatten(2)
        black_moves = torch.where(is_black.view(-1, 1), state.on_board, 0)
        return torch.cat([stones, black_moves.unsqueeze(2)], dim=2)
