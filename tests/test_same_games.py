"""Same seeds, same games, move for move: those of self-play before the search was rewritten, and kernels as torch."""

import json
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest
import tiny

from zerogo import kernels

ALGORITHMS = pytest.mark.parametrize("algorithm", ["puct", "gumbel"])
LEAVES = pytest.mark.parametrize("leaves", [1, 4])


def played(evaluator: Any, seed: int, number: int, *words: str) -> dict[int, tuple]:
    """Returns games by their numbers: the moves, what the roots' values were, how it ended and the score."""
    settings = tiny.config("selfplay.sgf_share=1", "selfplay.full_share=0.6", "selfplay.cheap_simulations=5", *words)
    collected = tiny.self_play(settings, evaluator, seed).play(number)
    return {game.number: (game.moves, game.root_values, game.end, game.score_black) for game in collected.games}


def by_both(evaluator: Any, seed: int, number: int, *words: str) -> tuple[dict[int, tuple], dict[int, tuple]]:
    fast = played(evaluator, seed, number, *words)
    with kernels.plain():
        return fast, played(evaluator, seed, number, *words)


@ALGORITHMS
@LEAVES
@pytest.mark.parametrize("size, superko, seed", [(5, "positional", 1), (5, "situational", 2), (7, "positional", 3)])
def test_a_table_gives_the_same_games(algorithm: str, leaves: int, size: int, superko: str, seed: int) -> None:
    words = (f"game.size={size}", f"game.superko={superko}", f"search.algorithm={algorithm}", f"search.leaves={leaves}")
    words = (*words, "selfplay.slots=5", "selfplay.full_simulations=8", f"game.move_cap={3 * size}")
    fast, plain = by_both(tiny.Table(), seed, 6, *words)
    assert len(fast) >= 6 and len({tuple(moves) for moves, *_ in fast.values()}) == len(fast)
    assert [game[0] for game in fast.values()] == [game[0] for game in plain.values()]
    assert fast.keys() == plain.keys() and all(game[2:] == plain[number][2:] for number, game in fast.items())
    values = [(one, two) for number, game in fast.items() for one, two in zip(game[1], plain[number][1], strict=True)]
    assert max(abs(one - two) for one, two in values) < 1e-6


@ALGORITHMS
def test_the_games_of_before(algorithm: str) -> None:
    """tests/data/games-5x5.json: by algorithm and number of the game a letter for each move, A to Y for the points 0 to
    24 and Z for a pass."""
    words = ("game.size=5", "game.komi=24.5", "game.move_cap=40", "search.leaves=1", "search.max_considered=8")
    words = (*words, f"search.algorithm={algorithm}", "selfplay.slots=16", "selfplay.full_simulations=16")
    expected = json.loads((Path(__file__).parent / "data" / "games-5x5.json").read_text())[algorithm]
    games = played(tiny.Table(), 7, 64, *words, "selfplay.cheap_simulations=6")
    found = {str(number): "".join(ascii_uppercase[move] for move in game[0]) for number, game in games.items()}
    assert len(expected) == 64 and {number: found.get(number) for number in expected} == expected
