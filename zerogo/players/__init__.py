"""Players: what chooses moves in many games at once. `make_player` knows them by the names that a person types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from zerogo import board
from zerogo import checkpoint as checkpoints
from zerogo.errors import InputError
from zerogo.players.playout import PlayoutEvaluator
from zerogo.players.random_player import RandomPlayer
from zerogo.players.search_player import SearchPlayer

if TYPE_CHECKING:
    from zerogo.config import EvaluationConfig

__all__ = ["Player", "PlayoutEvaluator", "RandomPlayer", "SearchPlayer", "make_player"]

KINDS = "random, mcts:N (N playouts a move), the path of a checkpoint, or the folder of a run"


class Player(Protocol):
    """Whoever plays: a name, and moves for many games at once."""

    name: str

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns one legal move for each game: int64 [B]; draws depend on game_ids (int64 [B]), the seed and the ply."""


def make_player(spec: str, settings: EvaluationConfig, device: torch.device, dtype: torch.dtype) -> Player:
    """Returns the player that a person means by a word such as "random", "mcts:200" or a checkpoint's path.

    settings: the config's section `evaluation`. Raises InputError for an unknown word and for a checkpoint that can't be loaded.
    """
    if spec == "random":
        return RandomPlayer()
    match = re.fullmatch(r"mcts:(\d+)", spec)
    if match and int(match[1]) > 0:
        return SearchPlayer.of_playouts(int(match[1]))
    if spec.startswith("mcts") or not Path(spec).exists():
        raise InputError(f"there is no player {spec!r}; allowed are {KINDS}")
    found = checkpoints.find(spec)
    return SearchPlayer.of_checkpoint(checkpoints.load(found), settings, device, dtype)
