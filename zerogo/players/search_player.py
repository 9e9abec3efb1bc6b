"""A player that searches: over a network, or over playouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zerogo import board
from zerogo.checkpoint import Checkpoint
from zerogo.config import SearchConfig
from zerogo.evaluator import Evaluator
from zerogo.players.player import require_size
from zerogo.players.playout import PlayoutEvaluator
from zerogo.search import Search

if TYPE_CHECKING:
    from zerogo.config import EvaluationConfig


class SearchPlayer:
    """Plays the best move of a search without noise. A fresh tree for every move, so its move is a function of (seed,
    game, position).

    sizes: the board sides that its network learned on, None for any.
    """

    def __init__(self, name: str, search: Search, simulations: int, sizes: Collection[int] | None = None) -> None:
        self.name, self.search, self.simulations, self.sizes = name, search, simulations, sizes

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the moves: int64 [B]; game_ids int64 [B]."""
        for size in {states.board_size} if states.rules.same_size else set(states.rules.size.tolist()):
            require_size(self, size, "this match is on")
        return self.search.run(states, self.simulations, seed, game_ids=game_ids).action

    @staticmethod
    def of_playouts(simulations: int) -> SearchPlayer:
        """Returns plain MCTS without a network: PUCT over an even prior and the value of one playout a simulation."""
        settings = SearchConfig(algorithm="puct", c_puct=1.1, fpu_reduction=0.0, keep_tree=False)
        return SearchPlayer(f"mcts:{simulations}", Search(PlayoutEvaluator(), settings), simulations)

    @staticmethod
    def of_checkpoint(
        checkpoint: Checkpoint,
        settings: EvaluationConfig,
        device: torch.device,
        dtype: torch.dtype,
        name: str | None = None,
    ) -> SearchPlayer:
        """Returns the averaged network of a checkpoint with its own search settings, and evaluation's simulations and
        symmetries.
        """
        network, encoder = checkpoint.network(averaged=True), checkpoint.encoder()
        evaluator = Evaluator.from_network(
            network, encoder, device, dtype, settings.symmetry, heads=("policy", "value")
        )
        # How many leaves a step takes was measured for self-play, where it ran; a match has many games, and must not
        # depend on that.
        search = Search(
            evaluator, dataclasses.replace(checkpoint.config.search, keep_tree=False, forced_playouts=0.0, leaves=1)
        )
        label = name or f"{Path(checkpoint.config.run.name).name}@{checkpoint.step}"
        return SearchPlayer(label, search, settings.simulations, checkpoint.sizes)
