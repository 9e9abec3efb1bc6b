"""Positions whose status and score are known, asked through GTP, JSON and Python, of playouts and of the networks that
come with zerogo. data/positions holds one in each file: what it is, komi, score, the dead stones and those in seki,
and the board; GNU Go 3.8 at level 10 says the same of their stones. The score is the area
as it stands without the dead stones: nobody fills what is left between the sides."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import diagrams
import gtp_talk
import pytest
import torch
from gtp_talk import Talk

from zerogo import scoring
from zerogo.analysis.engine import AnalysisEngine
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
    def stones(self) -> list[tuple[str, str]]:
        """Colours and vertices."""
        flat = enumerate(sum(self.rows, []))
        return [("BW"[colour - 1], coords.to_gtp(point, self.size)) for point, colour in flat if colour]

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
# What the search of a network does not see yet; what begins to hold fails until it is taken out here.
UNSEEN = {"bent_four_in_the_corner", "two_walls_alone", "two_walls_and_a_lone_stone"}
WEAK = pytest.mark.xfail(strict=True, reason="the shipped 9x9 network does not see it")
JSON_ASKED = [
    pytest.param(name, player, marks=[WEAK] if name in UNSEEN and player == NETWORKS[9] else [])
    for name, player in ASKED
]


@cache
def engine_of(player: str, size: int) -> Engine:
    return gtp_talk.engine(player, f"game.size={size}", "--simulations", "200", "--rules", "chinese", "--seed", "1")


def set_up(player: str, known: Known) -> Talk:
    """Returns a conversation with a player at a position, after both have passed where the game is over."""
    talk = Talk(engine_of(player, known.size))
    stones = " ".join(f"{colour} {vertex}" for colour, vertex in known.stones)
    for line in ("clear_board", f"komi {known.komi}", f"set_position {stones}", "clear_cache"):
        talk.value(line)
    for colour in "bw" if known.score else "":
        talk.value(f"play {colour} pass")
    return talk


def points_of(reply: str, size: int) -> set[int]:
    return {coords.from_gtp(text, size) for text in reply.split()}


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
    known = POSITIONS[name]
    talk = set_up(player, known)
    assert points_of(talk.value("final_status_list dead"), known.size) == known.dead
    assert points_of(talk.value("final_status_list seki"), known.size) == known.seki
    assert known.score in ("", talk.value("final_score"))


@pytest.mark.parametrize(("name", "player"), JSON_ASKED)
def test_json(name: str, player: str) -> None:
    """The winner, by the search, but of the empty board, where the game goes on as in every analysis; and whose the
    dead stones' points are."""
    known, found = POSITIONS[name], []
    fields = {"id": name, "rules": "chinese", "komi": known.komi, "boardXSize": known.size, "boardYSize": known.size}
    fields |= {"initialStones": known.stones, "moves": [["B", "pass"], ["W", "pass"]], "initialPlayer": "B"}
    engine = AnalysisEngine(engine_of(player, known.size).analyst, found.append, warn=print)
    engine.take(json.dumps(fields | {"maxVisits": 200, "includeOwnership": True}))
    while engine.step():
        pass
    (reply,) = found
    if known.score and any(map(any, known.rows)):
        assert (reply["rootInfo"]["winrate"] > 0.5) == known.score.startswith("B")
    for point in known.dead:
        owner_black = known.rows[point // known.size][point % known.size] == 2
        assert (reply["ownership"][point] > 0) == owner_black
