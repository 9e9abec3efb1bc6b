"""Players: what chooses moves in many games at once. `make_player` knows them by the names that a person types."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from zerogo import checkpoint as checkpoints
from zerogo.errors import InputError
from zerogo.players import external
from zerogo.players.external import ExternalPlayer
from zerogo.players.player import FORFEIT, RESIGN, Player, StatefulPlayer, close, knows, require_size
from zerogo.players.playout import PlayoutEvaluator, playouts_of
from zerogo.players.random_player import RandomPlayer
from zerogo.players.search_player import SearchPlayer

if TYPE_CHECKING:
    from zerogo.config import EvaluationConfig

__all__ = [
    "FORFEIT",
    "RESIGN",
    "ExternalPlayer",
    "StatefulPlayer",
    "Player",
    "PlayoutEvaluator",
    "RandomPlayer",
    "SearchPlayer",
    "close",
    "knows",
    "make_player",
    "require_size",
]

KINDS = (
    f"random, mcts:N (N playouts a move), the path of a checkpoint, the folder of a run, and engines: {external.KINDS}"
)


def make_player(
    spec: str,
    settings: EvaluationConfig,
    device: torch.device,
    dtype: torch.dtype,
    checkpoint: checkpoints.Checkpoint | None = None,
) -> Player:
    """Returns the player that a person means by a word such as "random", "mcts:200", "gnugo:10" or a checkpoint's path.

    settings: the config's section `evaluation`. checkpoint: that of the path, where it was read already. Raises
    InputError for an unknown word, for a checkpoint that can't be loaded and for an engine that is not there. An engine
    is not started yet; whoever has it play lets go of it by `close`."""
    if spec == "random":
        return RandomPlayer()
    if external.is_external(spec):
        return ExternalPlayer(external.find(spec), settings.engine_seconds, settings.engine_processes)
    playouts = playouts_of(spec)
    if playouts is not None:
        return SearchPlayer.of_playouts(playouts)
    if checkpoint is None and not Path(spec).exists():
        raise InputError(f"there is no player {spec!r}; allowed are {KINDS}")
    return SearchPlayer.of_checkpoint(checkpoint or checkpoints.load_newest(spec), settings, device, dtype)
