"""Who sits at the table: a person, or a bot that knows a move."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from zerogo.errors import InputError
from zerogo.game import Player
from zerogo.players import RandomPlayer
from zerogo.players.live import LiveGame
from zerogo.players.manners import Manners, decide
from zerogo.players.mind import Mind, make_mind
from zerogo.players.thinker import Thinker, room_for
from zerogo.players.thought import Thought

if TYPE_CHECKING:
    from zerogo.config import EvaluationConfig

HUMAN, RANDOM = "human", "random"
KINDS = "human, random, mcts:N (N playouts a move), the path of a checkpoint, or the folder of a run"


@dataclass(frozen=True)
class Answer:
    """A bot's move, None to resign, and the thought that led to it, None where it does not think."""

    action: int | None
    thought: Thought | None = None


class Bot(Protocol):
    """Whoever needs not be asked on the terminal."""

    name: str

    def choose(self, game: LiveGame, player: Player) -> Answer:
        """Returns what it does as `player`; the game stays as it is."""


class RandomBot:
    """Plays at random but spares its own eyes; its moves are a function of the seed and the ply."""

    def __init__(self, seed: int) -> None:
        self.name, self.seed = RANDOM, seed

    def choose(self, game: LiveGame, player: Player) -> Answer:
        state = game.tensor("cpu", player)
        return Answer(int(RandomPlayer().choose(state, torch.zeros(1, dtype=torch.int64), self.seed)))


class ThinkingBot:
    """Searches so many simulations a move, then behaves as `players.manners` has it."""

    def __init__(self, mind: Mind, simulations: int, manners: Manners, seed: int) -> None:
        self.name, self.mind, self.simulations, self.manners = mind.name, mind, simulations, manners
        self.thinker = Thinker(mind, room_for(simulations), seed)

    def think(self, game: LiveGame, player: Player) -> Thought:
        """Returns what it thinks after its simulations, kept ones from earlier moves not counted."""
        self.thinker.face(game, player)
        done = 0
        while done < self.simulations and (more := self.thinker.step(self.simulations - done)):
            done += more
        return self.thinker.thought()

    def choose(self, game: LiveGame, player: Player) -> Answer:
        thought = self.think(game, player)
        return Answer(decide(game, player, thought, self.manners, game.tensor(self.mind.device, player)), thought)


def make_bot(
    spec: str,
    settings: EvaluationConfig,
    device: torch.device,
    dtype: torch.dtype,
    simulations: int | None = None,
    manners: Manners | None = None,
    seed: int = 0,
) -> Bot | None:
    """Returns the bot that a word means, None for a person. simulations: of a move, None for what the word or the settings say.

    Raises InputError for an unknown word, and for a checkpoint that can't be loaded.
    """
    if spec == HUMAN:
        return None
    if spec == RANDOM:
        return RandomBot(seed)
    if not spec.startswith("mcts:") and not Path(spec).exists():
        raise InputError(f"there is no player {spec!r}; allowed are {KINDS}")
    mind = make_mind(spec, settings, device, dtype, simulations=simulations)
    return ThinkingBot(mind, mind.simulations, manners or Manners(), seed)
