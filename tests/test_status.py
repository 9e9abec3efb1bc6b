"""Dead stones, seki and the score on finished boards: positions that people know, and the ends of games of GNU Go
(levels 1 to 4 in turn, after a few random moves) against itself, judged by its `final_score` at level 10."""

import json
from functools import cache
from pathlib import Path

import pytest
import torch
from diagrams import parse

from zerogo import coords
from zerogo.config import EvaluationConfig
from zerogo.game import Colour
from zerogo.players.analyst import Analyst, make_analyst
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import final_score_black, final_status
from zerogo.players.status import Status
from zerogo.rules import Rules

ROOT = Path(__file__).parent.parent
FINISHED = json.loads((ROOT / "tests/data/finished.json").read_text())  # stones, to play, komi, Black's score
# Two walls, and a white stone in Black's territory that could live there against weak play.
WALLS = "\n".join([". . . . X O . . ."] * 4 + [". O . . X O . . ."] + [". . . . X O . . ."] * 4)
ALIVE_BELOW = """
    . X . X X X X X X
    X X X X X X X X X
    O O O O O O O O O
    . O . O O O O O O
"""
# Who plays a shared liberty loses: four in a row may be taken, but leave two eyes.
SEKI = (
    "X X X X X X X X X \n X O O O O O O O X \n X O . X X X . O X \n X O O O O O O O X \n X X X X X X X X X"
    + ALIVE_BELOW
)
# Three in a row leave one eye only.
NAKADE = (
    "X X X X X X X X X \n X X O O O O O O X \n X X O . X X . O X \n X X O O O O O O X \n X X X X X X X X X"
    + ALIVE_BELOW
)


@cache
def analyst(word: str) -> Analyst:
    path = ROOT / "checkpoints" / word
    word = str(path) if word.endswith(".pt") else word
    return make_analyst(word, EvaluationConfig(), torch.device("cpu"), torch.float32)


def finished(rows: list[list[int]], komi: float, to_play: int = 1) -> LiveGame:
    """Returns a game that has ended on these stones."""
    game = LiveGame(Rules(len(rows), komi, superko="simple"))
    game.set_up(rows, Colour(to_play))
    for _ in range(2):
        game.play(game.to_play, len(rows) ** 2)
    return game


def vertices(points: set[int], size: int = 9) -> set[str]:
    return {coords.to_gtp(point, size) for point in points}


def found(diagram: str, word: str = "mcts:8") -> Status:
    return final_status(finished(parse(diagram), 7.0), analyst(word))


@pytest.mark.parametrize("word", ["mcts:1", "mcts:400", "9x9.pt"])
def test_a_lone_stone_in_a_large_territory_is_dead(word: str) -> None:
    """Playouts from after two passes used to take every stone for alive, 64 from before them said nothing."""
    game = finished(parse(WALLS), 7.0)
    assert vertices(final_status(game, analyst(word)).dead) == {"B5"}
    assert final_score_black(game, analyst(word)) == 2.0


@pytest.mark.parametrize("swapped", [False, True])
def test_seki(swapped: bool) -> None:
    rows = [[(0, 2, 1)[point] if swapped else point for point in row] for row in parse(SEKI)]
    status = final_status(finished(rows, 7.0), analyst("mcts:8"))
    ring = {f"{column}{row}" for column in "BCDEFGH" for row in (6, 7, 8)} - {"C7", "G7"}
    assert not status.dead and vertices(status.seki) == ring


def test_what_can_be_reduced_to_one_eye_is_dead() -> None:
    status = found(NAKADE)
    assert "C8" in vertices(status.dead) and "E7" not in vertices(status.dead) and not status.seki


@pytest.mark.parametrize(("word", "size"), [("mcts:400", 9), ("9x9.pt", 9), ("7x7.pt", 7), ("quickstart-5x5.pt", 5)])
@pytest.mark.parametrize("number", [15, pytest.param(None, marks=pytest.mark.slow)])
def test_winners_of_finished_games(word: str, size: int, number: int | None) -> None:
    """At least 95 % of all; of a few, one may be wrong."""
    entries, right = FINISHED[str(size)][:number], 0
    for stones, to_play, komi, score in entries:
        rows = [[".XO".index(point) for point in stones[at : at + size]] for at in range(0, size * size, size)]
        right += final_score_black(finished(rows, komi, to_play), analyst(word)) * score > 0
    assert right >= (0.95 * len(entries) if number is None else number - 1)
