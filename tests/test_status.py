"""Dead stones, seki and the score: positions that people know, as GTP tells them; searches that end in time; and the
ends of games of GNU Go (levels 1 to 4 in turn, after a few random moves) against itself, judged by its `final_score` at
level 10.

data/positions holds a position in each file: what it is, komi, score, the dead stones and those in seki, and the board;
GNU Go 3.8 at level 10 says the same of their stones. The score is the area as it stands without the dead stones: nobody
fills what is left between the sides."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from boards import parse
from gtp_talk import ROOT, Talk, engine

from zerogo.config import EvaluationConfig
from zerogo.game import Colour, GameState
from zerogo.gtp.engine import Engine
from zerogo.players import status
from zerogo.players.analyst import Analyst, make_analyst
from zerogo.players.live import LiveGame
from zerogo.players.move_choice import Judge
from zerogo.rules import Rules, coords

FINISHED = json.loads((ROOT / "tests/data/finished.json").read_text())  # stones, to play, komi, Black's score
# Two walls, and a white stone in Black's territory that could live there against weak play.
WALLS = "\n".join([". . . . X O . . ."] * 4 + [". O . . X O . . ."] + [". . . . X O . . ."] * 4)
UNFINISHED = ". X . O . \n O . . . X \n . . X . . \n X . O . O \n . O . X ."
NETWORKS = {5: "checkpoints/quickstart-5x5.pt", 7: "checkpoints/7x7-cpu.pt", 9: "checkpoints/9x9-cpu.pt"}


class Known(NamedTuple):
    """A position of a file. score: as GTP has it, empty where the game is not over. dead, seki: points."""

    rows: list[list[int]]
    komi: float
    score: str
    dead: set[int]
    seki: set[int]


def read(path: Path) -> Known:
    """Returns the position of a file."""
    head, _, diagram = path.read_text().partition("\n\n")
    rows = parse(diagram)
    fields = dict.fromkeys(("komi", "score", "dead", "seki"), "")
    fields |= {key: text for key, _, text in (line.partition(" ") for line in head.split("\n")[1:])}
    points = ({coords.from_gtp(text, len(rows)) for text in fields[key].split()} for key in ("dead", "seki"))
    return Known(rows, float(fields["komi"]), fields["score"], *points)


POSITIONS = {path.stem: read(path) for path in sorted((ROOT / "tests/data/positions").glob("*.txt"))}
ASKED = [(name, player) for name, known in POSITIONS.items() for player in ("mcts:200", NETWORKS[len(known.rows)])]


@cache
def analyst(word: str) -> Analyst:
    path = ROOT / "checkpoints" / word
    word = str(path) if word.endswith(".pt") else word
    return make_analyst(word, EvaluationConfig(), torch.device("cpu"), torch.float32)


@cache
def engine_of(player: str, size: int) -> Engine:
    return engine(player, f"game.size={size}", "--simulations", "200", "--rules", "chinese", "--seed", "1")


def finished(rows: list[list[int]], komi: float, to_play: int = 1, num_passes: int = 2) -> LiveGame:
    """Returns a game that has ended on these stones."""
    game = LiveGame(Rules(len(rows), komi, superko="simple"))
    game.set_up(rows, Colour(to_play))
    for _ in range(num_passes):
        game.play(game.to_play, len(rows) ** 2)
    return game


@pytest.mark.parametrize(("name", "player"), ASKED)
def test_known_positions(name: str, player: str) -> None:
    """After both have passed, where the game is over."""
    known, size = POSITIONS[name], len(POSITIONS[name].rows)
    talk = Talk(engine_of(player, size))
    talk.value("clear_cache")
    talk.engine.game = finished(known.rows, known.komi, num_passes=2 if known.score else 0)
    for kind, points in (("dead", known.dead), ("seki", known.seki)):
        vertices = talk.value(f"final_status_list {kind}").split()
        assert {coords.from_gtp(vertex, size) for vertex in vertices} == points, kind
    assert known.score in ("", talk.value("final_score"))


class Watched:
    """The searches for strings, on a clock that goes on by a second with each, and by little with every look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.strings, self._search = 0.0, [], status._search_strings
        monkeypatch.setattr(status, "_search_strings", self)

    def __call__(self, state: GameState, strings: list, *first: int) -> list[float]:
        self.now += len(strings)
        self.strings += [min(string.stones) for string in strings]
        return self._search(state, strings, *first)

    def look(self) -> float:
        self.now += 0.01
        return self.now


def test_searches_end_in_time_and_verdicts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board of 19x19 took 6 to 17 s whatever the clock said, and the next command did all of it again. The order in
    which strings are searched, and how many at a time, changes nothing about them."""
    watched, game = Watched(monkeypatch), finished(parse(UNFINISHED), 7.0)
    whole = Judge(analyst("mcts:8"))(game)
    order, judge = watched.strings, Judge(analyst("mcts:8"), watched.look)
    assert len(order) == len(set(order)) > 8
    watched.strings = []
    assert judge(game) == whole == judge(game) and watched.strings == order
    judge.clear()
    assert judge(game, watched.now + 100) == whole and watched.strings == 2 * order
    for seconds, number in ((6.5, 6), (0, 0)):
        watched.strings = []
        judge.clear()
        judge(game, watched.now + seconds, keeps=False)
        assert watched.strings == order[:number]
    watched.strings = []
    assert judge(game, keeps=False) == whole and watched.strings == order, "a verdict cut short was kept"


def test_a_cleanup_takes_the_dead_stone_and_passes_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two passes on the board of two walls; what final_status_list says is not found once more for it."""
    watched, talk = Watched(monkeypatch), Talk(engine("mcts:8", "game.size=9", "--rules", "chinese"))
    talk.engine.now = talk.engine.judge.limit.now = watched.look
    for durations in (talk.engine.step_time, talk.engine.overhead):
        durations.clear()
    talk.engine.game = finished(parse(WALLS), 7.0)
    assert (talk.value("final_score"), talk.value("final_status_list dead")) == ("B+2", "B5")
    assert len(watched.strings) == len(set(watched.strings)) > 0
    moves = []
    while (moves or [""])[-1] != "pass":
        talk.value("time_settings 0 9 1")
        before = watched.now
        moves.append(talk.value("kgs-genmove_cleanup b"))
        assert watched.now - before <= 9 - 0.3
        talk.value("play w pass")
    assert {*moves[:-1]} == {"A5", "B4", "B6", "C5"} and len(moves) == 5
    assert talk.value("final_score") == "B+2"


@pytest.mark.parametrize(
    ("word", "size"), [("mcts:400", 9), ("9x9-cpu.pt", 9), ("7x7-cpu.pt", 7), ("quickstart-5x5.pt", 5)]
)
@pytest.mark.parametrize("number", [8, pytest.param(None, marks=pytest.mark.slow)])
def test_winners_of_finished_games(word: str, size: int, number: int | None) -> None:
    """At least 95 % of all; of a few, one may be wrong."""
    entries, right = FINISHED[str(size)][:number], 0
    for stones, to_play, komi, score in entries:
        rows = [[".XO".index(point) for point in stones[at : at + size]] for at in range(0, size * size, size)]
        game = finished(rows, komi, to_play)
        right += game.score_black(Judge(analyst(word))(game).dead) * score > 0
    assert right >= (0.95 * len(entries) if number is None else number - 1)
