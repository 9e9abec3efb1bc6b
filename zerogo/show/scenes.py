"""Moments of a game, and what a network and its search think of each: looked up once, and only where a picture needs
it.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from zerogo import board, coords, kernels, sgf
from zerogo import checkpoint as checkpoints
from zerogo.config import Config, EvaluationConfig
from zerogo.errors import InputError
from zerogo.evaluator import SYMMETRIES, Evaluation, Evaluator
from zerogo.features import Encoder, make_encoder
from zerogo.game import Colour
from zerogo.players import require_size
from zerogo.players.analyst import Analysis, Analyst, make_analyst
from zerogo.players.live import LiveGame
from zerogo.players.playout import MOST_PLAYOUTS, playouts_of
from zerogo.players.session import AnalysisSession
from zerogo.rules import Rules
from zerogo.runtime import pick_device, pick_dtype, set_up_cpu
from zerogo.sgf import GameRecord

if TYPE_CHECKING:
    from zerogo.board import State

SPARE_NODES = 64
EVALUATED_AT_ONCE = 128  # positions of a game whose values are charted
_RANGE = re.compile(r"(-?\d{1,9})-(-?\d{1,9})")


@dataclasses.dataclass(frozen=True)
class Watcher:
    """Who looks at the positions. analyst: what thinks, None for nobody. simulations: of each search. encoder: of the
    planes, None for none.

    config: the checkpoint's settings, None without one.
    """

    analyst: Analyst | None
    simulations: int
    encoder: Encoder | None
    config: Config | None


def make_watcher(
    checkpoint: str | None,
    simulations: int | None = None,
    symmetries: str | None = None,
    features: str | None = None,
    device: str = "auto",
) -> Watcher:
    """Returns who looks, by the words of a command line.

    checkpoint: a file, a run's folder, mcts:N, or None. simulations: of a search, by default the checkpoint's own or
    mcts's N. symmetries: "all", "random" or "none" for everything that a network is asked, by default all for what is
    shown and its own for the search. features: name of an encoder, by default the checkpoint's. Raises InputError for
    what there is not."""
    config = _config_of(checkpoint)
    settings = EvaluationConfig() if config is None else config.evaluation
    if symmetries is not None:
        if symmetries not in SYMMETRIES:
            raise InputError(f"--symmetries is {symmetries!r}; allowed are {', '.join(SYMMETRIES)}")
        settings = dataclasses.replace(settings, symmetry=symmetries)
    if simulations is not None and not 1 <= simulations <= MOST_PLAYOUTS:
        raise InputError(f"--simulations is {simulations}; allowed are 1 to {MOST_PLAYOUTS}")
    encoder = _encoder(features, config)
    if checkpoint is None:
        return Watcher(None, 0, encoder, None)
    set_up_cpu(0 if config is None else config.run.threads)
    kernels.choose("auto" if config is None else config.run.kernels)
    where = pick_device(device)
    dtype = pick_dtype("auto" if config is None else config.run.precision, where)
    analyst = make_analyst(checkpoint, settings, where, dtype, simulations=simulations)
    if symmetries is not None and isinstance(analyst.evaluator, Evaluator):
        analyst = dataclasses.replace(analyst, evaluator=analyst.evaluator.with_symmetries(symmetries))
    return Watcher(analyst, analyst.simulations, encoder, config)


def _encoder(features: str | None, config: Config | None) -> Encoder | None:
    """Returns the encoder of a preset's name, or of groups with commas between or behind them, else the checkpoint's,
    None without one.
    """
    if features is None:
        return None if config is None else make_encoder(config.features.encoder, config.features.komi_input)
    komi_input = True if config is None else config.features.komi_input
    return make_encoder([group for group in features.split(",") if group] if "," in features else features, komi_input)


def _config_of(checkpoint: str | None) -> Config | None:
    """Returns a checkpoint's settings, None for plain playouts. Raises InputError for a word that names neither."""
    if checkpoint is None or playouts_of(checkpoint) is not None:
        return None
    if not Path(checkpoint).exists():
        raise InputError(
            f"--checkpoint is {checkpoint!r}; allowed are a checkpoint file, the folder of a run and mcts:N"
        )
    return checkpoints.load(checkpoints.find(checkpoint)).config


@dataclasses.dataclass
class Story:
    """A game as it is shown. name: for people. record: its moves. last: moves that can be played. problem: why not
    more, or None.
    """

    name: str
    record: GameRecord
    last: int
    problem: str | None = None


def read_story(path: str | Path) -> Story:
    """Returns the game of an SGF file, up to an illegal move. Raises InputError where the file can't be read."""
    record = sgf.read(path)
    states, problem = sgf.replay(record)
    return Story(Path(path).name, record, len(states) - 1, problem)


def empty_story(watcher: Watcher) -> Story:
    """Returns an empty board with the checkpoint's rules. Raises InputError where nothing says how large it is."""
    if watcher.config is None:
        raise InputError("there is nothing to show; give an SGF file, or a checkpoint, whose empty board is shown")
    return Story("empty board", GameRecord(watcher.config.game.rules(), []), 0)


def chosen_moves(text: str | None, story: Story) -> list[int]:
    """Returns the moments that --move names: moves that have been played, 0 to all of them.

    text: numbers and ranges, "40", "10-20", "5,10-12", "all"; negative ones count from the end, -1 is after the last
    move. None is the last that can be shown. Raises InputError for another text, and for a move that the game doesn't
    have."""
    if text is None:
        return [_moment(max(0, story.last), story)]
    if text == "all":
        _moment(0, story)
        return list(range(story.last + 1))
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        match = _RANGE.fullmatch(part)
        if match:
            first, last = _moment(int(match[1]), story), _moment(int(match[2]), story)
            found += range(first, last + 1) if first <= last else range(first, last - 1, -1)
        elif re.fullmatch(r"-?\d{1,9}", part):
            found.append(_moment(int(part), story))
        else:
            raise InputError(
                f"--move is {text!r}; allowed are numbers and ranges such as 40, -1, 10-20 or 5,10,15, and all"
            )
    return list(dict.fromkeys(found))


def _moment(number: int, story: Story) -> int:
    """Returns how many moves have been played at a moment. Raises InputError where the game doesn't get there."""
    length = len(story.record.moves)
    moment = number if number >= 0 else length + 1 + number
    if not 0 <= moment <= length:
        raise InputError(
            f"--move is {number}; {story.name} has {length} moves, so 0 to {length} and -1 to {-length - 1} are allowed"
        )
    if moment > story.last:
        raise InputError(f"{story.name} can't be shown after move {moment}: {story.problem}")
    return moment


class Scene:
    """One moment of a game. What is thought of it is found when it is first asked for, and does not depend on other
    scenes.
    """

    def __init__(self, story: Story, move: int, watcher: Watcher) -> None:
        self.story, self.move, self.watcher = story, move, watcher
        self.game = LiveGame.of_record(sgf.since_edit(story.record, move))
        if watcher.analyst is not None:
            require_size(watcher.analyst, self.game.size, f"{story.name} is on")
        self.stones = torch.tensor(self.game.state.stones(), dtype=torch.int8)

    @property
    def rules(self) -> Rules:
        return self.game.rules

    @property
    def to_play(self) -> Colour:
        """Who moves next in the game, at its end the other side."""
        turns = self.story.record.turns()
        if self.move < len(turns):
            return Colour.BLACK if turns[self.move] == "b" else Colour.WHITE
        return self.game.to_play

    @property
    def sign_black(self) -> int:
        """1 where Black is to move, else -1: what turns the side to move's view into Black's."""
        return 1 if self.to_play is Colour.BLACK else -1

    @property
    def numbers(self) -> dict[int, int]:
        """The move number of each stone that a move has put on the board, by point."""
        stones, size = self.stones.flatten().tolist(), self.game.size
        placed = {
            action: number
            for number, action in enumerate(self.story.record.moves[: self.move], start=1)
            if action < size * size
        }
        return {point: number for point, number in placed.items() if stones[point]}

    @property
    def last_move_words(self) -> str:
        """The last move as "Black D4", empty before the first."""
        if self.move == 0:
            return ""
        colour = "Black" if self.story.record.turns()[self.move - 1] == "b" else "White"
        return f"{colour} {coords.to_gtp(self.story.record.moves[self.move - 1], self.game.size)}"

    @cached_property
    def state(self) -> State:
        device = self.watcher.analyst.device if self.watcher.analyst is not None else "cpu"
        return self.game.tensor(device, self.to_play)

    @cached_property
    def evaluation(self) -> Evaluation:
        """What the network says without a search, a batch of one on the host."""
        found = self._mind.evaluate(self.state)
        return Evaluation(
            *(getattr(found, name)[:1].float().cpu() for name in ("prior", "value", "ownership", "score"))
        )

    @cached_property
    def analysis(self) -> Analysis:
        """What the search says."""
        session = AnalysisSession(self._mind, capacity=2 * self.watcher.simulations + SPARE_NODES)
        session.set_position(self.game, self.to_play)
        session.run(self.watcher.simulations)
        return session.analysis()

    @cached_property
    def planes(self) -> torch.Tensor:
        """What the encoder makes of the position: float32 [C, N, N]."""
        return self.watcher.encoder.planes(self.state)[0].float().cpu()

    @property
    def _mind(self) -> Analyst:
        assert self.watcher.analyst is not None, "nobody thinks here"
        return self.watcher.analyst


def winrates_black(story: Story, watcher: Watcher) -> np.ndarray:
    """Returns Black's chances to win after 0, 1, 2, … moves, by the network alone, in few batches: float64 [moves +
    1].
    """
    found: list[float] = []
    for start in range(0, story.last + 1, EVALUATED_AT_ONCE):
        moments = range(start, min(story.last + 1, start + EVALUATED_AT_ONCE))
        states = sgf.positions([story.record] * len(moments), moments, watcher.analyst.device, check=False)
        value = watcher.analyst.evaluator(states).value.float()
        found += ((torch.where(states.to_play == board.BLACK, value, -value) + 1) / 2).tolist()
    return np.array(found)


def plane_names(encoder: Encoder) -> list[str]:
    """Returns each plane's number and what it shows."""
    return [f"{number} {name}" for number, name in enumerate(encoder.plane_names())]
