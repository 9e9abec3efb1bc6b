"""Same seeds, same games, move for move: those of self-play before the search was rewritten, and kernels as torch."""

import json
from contextlib import nullcontext
from pathlib import Path
from string import ascii_uppercase

import pytest
import tiny

from zerogo import kernels


@pytest.mark.parametrize("way", ["kernels", "torch"])
@pytest.mark.parametrize("algorithm", ["puct", "gumbel"])
def test_the_games_of_before(algorithm: str, way: str) -> None:
    """tests/data/games-5x5.json: by algorithm and number of the game a letter for each move, A to Y for the points 0 to
    24 and Z for a pass."""
    words = "game.size=5 game.komi=24.5 game.move_cap=40 search.leaves=1 search.max_considered=8 selfplay.slots=16"
    words += " selfplay.full_simulations=16 selfplay.cheap_simulations=6 selfplay.full_share=0.6 selfplay.sgf_share=1"
    settings = tiny.config(f"search.algorithm={algorithm}", *words.split())
    expected = json.loads((Path(__file__).parent / "data" / "games-5x5.json").read_text())[algorithm]
    with kernels.plain() if way == "torch" else nullcontext():
        games = tiny.self_play(settings, tiny.Table(), 7).play(64).games
    found = {str(game.number): "".join(ascii_uppercase[move] for move in game.moves) for game in games}
    assert len(expected) == 64 and {number: found.get(number) for number in expected} == expected
