"""Who sits at the table: a person, or a bot that knows a move."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players import RandomPlayer
from zerogo.players.analysis import Analysis
from zerogo.players.analyst import Analyst, make_analyst
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import MoveChoiceSettings, decide
from zerogo.players.session import AnalysisSession, room_for

if TYPE_CHECKING:
    from zerogo.config import EvaluationConfig

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

    def __init__(self, analyst: Analyst, simulations: int, move_choice: MoveChoiceSettings, seed: int) -> None:
        self.name, self.analyst, self.simulations, self.move_choice = analyst.name, analyst, simulations, move_choice
        self.session = AnalysisSession(analyst, room_for(simulations), seed)

    def think(self, game: LiveGame, player: Colour) -> Analysis:
        """Returns what it thinks after its simulations, kept ones from earlier moves not counted."""
        self.session.face(game, player)
        done = 0
        while done < self.simulations and (more := self.session.step(self.simulations - done)):
            done += more
        return self.session.analysis()

    def choose(self, game: LiveGame, player: Colour) -> Answer:
        analysis = self.think(game, player)
        return Answer(
            decide(game, player, analysis, self.move_choice, game.tensor(self.analyst.device, player)), analysis
        )


def make_bot(
    spec: str,
    settings: EvaluationConfig,
    device: torch.device,
    dtype: torch.dtype,
    simulations: int | None = None,
    move_choice: MoveChoiceSettings | None = None,
    seed: int = 0,
) -> Bot | None:
    """Returns the bot that a word means, None for a person. simulations: of a move, None for what the word or the
    settings say.

    Raises InputError for an unknown word, and for a checkpoint that can't be loaded.
    """
    if spec == HUMAN:
        return None
    if spec == RANDOM:
        return RandomBot(seed)
    if not spec.startswith("mcts:") and not Path(spec).exists():
        raise InputError(f"there is no player {spec!r}; allowed are {KINDS}")
    analyst = make_analyst(spec, settings, device, dtype, simulations=simulations)
    return ThinkingBot(analyst, analyst.simulations, move_choice or MoveChoiceSettings(), seed)
