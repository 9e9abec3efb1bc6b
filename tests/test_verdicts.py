"""Positions whose status and score are known, asked through GTP of playouts and of the networks that come with zerogo.

data/positions holds one in each file: what it is, komi, score, the dead stones and those in seki, and the board; GNU Go
3.8 at level 10 says the same of their stones. The score is the area as it stands without the dead stones: nobody fills
what is left between the sides."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import diagrams
import gtp_talk
import pytest
import torch
from gtp_talk import Talk

from zerogo import scoring
from zerogo.game import Colour
from zerogo.gtp.engine import Engine
from zerogo.players.live import LiveGame
from zerogo.rules import Rules, coords
from zerogo.sgf import result_text

FILES = sorted((Path(__file__).parent / "data" / "positions").glob("*.txt"))
NETWORKS = {5: "checkpoints/quickstart-5x5.pt", 7: "checkpoints/7x7.pt", 9: "checkpoints/9x9.pt"}
PLAYOUTS = "mcts:200"


@dataclass
class Known:
    """A position of a file. score: as GTP has it, empty where the game is not over. dead, seki: points."""

    name: str
    komi: float
    score: str
    dead: set[int]
    seki: set[int]
    rows: list[list[int]]

    @property
    def size(self) -> int:
        return len(self.rows)

    @property
    def rules(self) -> Rules:
        return Rules(self.size, self.komi, "simple", False, "area")


def read(path: Path) -> Known:
    """Returns the position of a file."""
    head, _, diagram = path.read_text().partition("\n\n")
    rows = diagrams.parse(diagram)
    fields = dict.fromkeys(("komi", "score", "dead", "seki"), "")
    fields |= {key: text for key, _, text in (line.partition(" ") for line in head.split("\n")[1:])}
    points = ({coords.from_gtp(text, len(rows)) for text in fields[key].split()} for key in ("dead", "seki"))
    return Known(path.stem, float(fields["komi"]), fields["score"], *points, rows)


POSITIONS = {path.stem: read(path) for path in FILES}
ASKED = [(name, player) for name, known in POSITIONS.items() for player in (PLAYOUTS, NETWORKS[known.size])]


@cache
def engine_of(player: str, size: int) -> Engine:
    return gtp_talk.engine(player, f"game.size={size}", "--simulations", "200", "--rules", "chinese", "--seed", "1")


@pytest.mark.parametrize("name", POSITIONS)
def test_the_files_are_right_in_themselves(name: str) -> None:
    """Legal positions, whose score is the area without the dead stones."""
    known = POSITIONS[name]
    LiveGame(known.rules).set_up(known.rows, Colour.BLACK)
    flat = (stones := torch.tensor([known.rows], dtype=torch.int8)).flatten()
    assert all(flat[point] for point in known.dead | known.seki) and not known.dead & known.seki
    flat[list(known.dead)] = 0
    black = float(scoring.area_ownership_black(flat.view_as(stones)).sum())
    assert known.score in ("", result_text(black - known.komi))


@pytest.mark.parametrize(("name", "player"), ASKED)
def test_gtp(name: str, player: str) -> None:
    """After both have passed, where the game is over."""
    known = POSITIONS[name]
    talk, size = Talk(engine_of(player, known.size)), known.size
    stones = [
        f"{' bw'[colour]} {coords.to_gtp(point, size)}" for point, colour in enumerate(sum(known.rows, [])) if colour
    ]
    passes = ["play b pass", "play w pass"] if known.score else []
    for line in ("clear_board", f"komi {known.komi}", f"set_position {' '.join(stones)}", "clear_cache", *passes):
        talk.value(line)
    for kind, points in (("dead", known.dead), ("seki", known.seki)):
        found = talk.value(f"final_status_list {kind}").split()
        assert {coords.from_gtp(vertex, size) for vertex in found} == points, kind
    assert known.score in ("", talk.value("final_score"))
