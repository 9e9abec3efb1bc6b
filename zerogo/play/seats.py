"""Who sits at the table: a person, or a bot that knows a move."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from zerogo.cli import Setup
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players import RandomPlayer
from zerogo.players.analyst import Analysis, Analyst
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import MoveChoiceSettings, decide
from zerogo.players.session import AnalysisSession, room_for

HUMAN, RANDOM = "human", "random"
KINDS = "human, random, mcts:N (N playouts a move), the path of a checkpoint, or the folder of a run"


@dataclass(frozen=True)
class Answer:
    """A bot's move, None to resign, and the thought that led to it, None where it does not think."""

    action: int | None
    analysis: Analysis | None = None


class Bot(Protocol):
    """Whoever needs not be asked on the terminal."""

    name: str

    def choose(self, game: LiveGame, player: Colour) -> Answer:
        """Returns what it does as `player`; the game stays as it is."""


class RandomBot:
    """Plays at random but spares its own eyes; its moves are a function of the seed and the ply."""

    def __init__(self, seed: int) -> None:
        self.name, self.seed = RANDOM, seed

    def choose(self, game: LiveGame, player: Colour) -> Answer:
        state = game.tensor("cpu", player)
        return Answer(int(RandomPlayer().choose(state, torch.zeros(1, dtype=torch.int64), self.seed)))


class ThinkingBot:
    """Searches so many simulations a move, then behaves as `players.move_choice` has it."""

    def __init__(self, analyst: Analyst, seed: int, settings: MoveChoiceSettings | None = None) -> None:
        self.name, self.analyst, self.simulations = analyst.name, analyst, analyst.simulations
        self.move_choice = settings or MoveChoiceSettings()
        self.session = AnalysisSession(analyst, room_for(self.simulations), seed)

    def think(self, game: LiveGame, player: Colour) -> Analysis:
        """Returns what it thinks after its simulations, kept ones from earlier moves not counted."""
        self.session.set_position(game, player)
        self.session.run(self.simulations)
        return self.session.analysis()

    def choose(self, game: LiveGame, player: Colour) -> Answer:
        analysis = self.think(game, player)
        return Answer(
            decide(game, player, analysis, self.move_choice, game.tensor(self.analyst.device, player)), analysis
        )


def make_bot(
    word: str, setup: Setup, seed: int, settings: MoveChoiceSettings, simulations: int | None = None
) -> Bot | None:
    """Returns the bot that a word means, None for a person. simulations: of a move, None for what the word or the
    config says.

    Raises InputError for an unknown word, and for a checkpoint that can't be loaded.
    """
    if word == HUMAN:
        return None
    if word == RANDOM:
        return RandomBot(seed)
    if not word.startswith("mcts:") and not Path(word).exists():
        raise InputError(f"there is no player {word!r}; allowed are {KINDS}")
    return ThinkingBot(setup.analyst(word, simulations), seed, settings)
