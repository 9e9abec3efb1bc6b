"""Players: what chooses moves in many games at once. `make_player` makes them from the words that a person types."""

from pathlib import Path

import torch

from zerogo.checkpoint import Checkpoint, load_newest
from zerogo.config import EvaluationConfig
from zerogo.errors import InputError
from zerogo.players import external
from zerogo.players.analyst import SearchPlayer
from zerogo.players.external import ExternalPlayer
from zerogo.players.player import RESIGN, Player, StatefulPlayer, close, plays_on, require_size
from zerogo.players.playout import PlayoutEvaluator, RandomPlayer, playouts_of

__all__ = [
    "RESIGN",
    "ExternalPlayer",
    "Player",
    "PlayoutEvaluator",
    "RandomPlayer",
    "SearchPlayer",
    "StatefulPlayer",
    "close",
    "make_player",
    "plays_on",
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
    checkpoint: Checkpoint | None = None,
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
    return SearchPlayer.of_checkpoint(checkpoint or load_newest(spec), settings, device, dtype)
