"""A player that searches: over a network, or over playouts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zerogo import board
from zerogo.checkpoint import Checkpoint
from zerogo.config import SearchConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.players.playout import PlayoutEvaluator
from zerogo.search import Search

if TYPE_CHECKING:
    from zerogo.config import EvaluationConfig


class SearchPlayer:
    """Plays the best move of a search without noise. A fresh tree for every move, so its move is a function of (seed, game, position).

    size: the board size that its network learned on, None for any.
    """

    def __init__(self, name: str, search: Search, simulations: int, size: int | None = None) -> None:
        self.name, self.search, self.simulations, self.size = name, search, simulations, size

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the moves: int64 [B]; game_ids int64 [B]."""
        if self.size is not None and states.board_size != self.size:
            raise InputError(f"{self.name} plays on {self.size}x{self.size}; this match is on {states.board_size}x{states.board_size}")
        return self.search.run(states, self.simulations, seed, game_ids=game_ids).action

    @staticmethod
    def of_playouts(simulations: int) -> SearchPlayer:
        """Returns plain MCTS without a network: PUCT over an even prior and the value of one playout a simulation."""
        settings = SearchConfig(algorithm="puct", c_puct=1.1, fpu_reduction=0.0, keep_tree=False)
        return SearchPlayer(f"mcts:{simulations}", Search(PlayoutEvaluator(), settings), simulations)

    @staticmethod
    def of_checkpoint(
        checkpoint: Checkpoint, settings: EvaluationConfig, device: torch.device, dtype: torch.dtype, name: str | None = None
    ) -> SearchPlayer:
        """Returns the averaged network of a checkpoint with its own search settings, and evaluation's simulations and symmetries."""
        network, encoder = checkpoint.network(averaged=True), checkpoint.encoder()
        evaluator = Evaluator.from_network(network, encoder, device, dtype, settings.symmetry, heads=("policy", "value"))
        search = Search(evaluator, dataclasses.replace(checkpoint.config.search, keep_tree=False, forced_playouts=0.0))
        label = name or f"{Path(checkpoint.config.run.name).name}@{checkpoint.step}"
        return SearchPlayer(label, search, settings.simulations, checkpoint.size)
