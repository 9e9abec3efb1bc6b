"""The same seeds give the games that they gave before the rewrite of the search (tests/data/games-5x5.json)."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_uppercase

import pytest
import tiny


# By algorithm and number of the game: a letter for each move, A to Y for the points 0 to 24 and Z for a pass.
GAMES = json.loads((Path(__file__).parent / "data" / "games-5x5.json").read_text())
SETTINGS = (
    "game.size=5",
    "game.komi=24.5",
    "game.move_cap=40",
    "search.leaves=1",
    "search.max_considered=8",
    "selfplay.games=16",
    "selfplay.sgf_share=1",
    "selfplay.full_share=0.6",
    "selfplay.full_simulations=16",
    "selfplay.cheap_simulations=6",
)


@pytest.mark.parametrize("algorithm", ["gumbel", "puct"])
def test_same_seeds_same_games(algorithm: str) -> None:
    settings = tiny.config(*SETTINGS, f"search.algorithm={algorithm}")
    played = tiny.self_play(settings, tiny.Table(), 7).play(64).games
    games = {str(game.number): "".join(ascii_uppercase[move] for move in game.moves) for game in played}
    assert len(GAMES[algorithm]) == 64
    assert {number: games.get(number) for number in GAMES[algorithm]} == GAMES[algorithm]
