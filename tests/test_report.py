"""Match reports: the numbers of the match, the pictures and the links are in the page, and no name can break it."""

import base64
import io
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import tiny
from matches import some_result
from PIL import Image

from zerogo.arena.journal import game_file
from zerogo.arena.report import chosen_games, histogram_svg, write_report
from zerogo.arena.result import FORFEIT, RESIGNED, Stop, rate

EVIL = '<script>alert("1 & 2")</script>#2'


class Reader(HTMLParser):
    """Collects a page's tags, links, pictures and text; asserts that tags close in the order in which they opened."""

    VOID = {"meta", "img", "br", "line", "circle"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tags, self.links, self.images, self.words = [], [], [], [], []
        self.feed(text)
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name == "href"]
        self.images += [value for name, value in attrs if name == "src"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(path: Path) -> Reader:
    return Reader(path.read_text(encoding="UTF-8"))


def test_report_holds_ratings_colours_endings_and_pictures(tmp_path: Path):
    names = ["anna", "bert", "carl"]
    met = {("anna", "bert"): 8, ("anna", "carl"): 4, ("bert", "carl"): 2}
    results = [some_result(*pair, num_games=number) for pair, number in met.items()]
    path = write_report(tmp_path, results, names, rate(names, results), tiny.config("game.size=5").to_dict())
    assert path == tmp_path / "report.html" and [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    page = read(path)
    assert "anna scores 50.0 % of 8 games" in page.text and "95 % interval" in page.text
    assert "as Black 2 0 2 50.0 %" in page.text and "as White 2 0 2 50.0 %" in page.text
    assert "two passes 7" in page.text and "move cap, scored as it stood 1" in page.text
    assert "Points of each (row) against each (column)" in page.text and "4 of 8" in page.text
    assert '"komi"' in page.text, "the settings are there"
    assert len(page.images) == 6 + 4 + 2


def test_pictures_lie_in_the_page_and_show_the_final_boards(tmp_path: Path):
    stones = np.zeros((2, 5, 5), dtype=np.int8)
    stones[0, 1, 3], stones[1, 1, 3] = 1, 2
    result = some_result(num_games=2, game_0={"stones": stones[0]}, game_1={"stones": stones[1]})
    page = read(write_report(tmp_path, [result], ["anna", "bert"]))
    data = [source.removeprefix("data:image/png;base64,") for source in page.images]
    images = [Image.open(io.BytesIO(base64.b64decode(text))) for text in data]
    cell = images[0].width // 6
    shades = [sum(image.getpixel((4 * cell - cell // 4, 2 * cell + cell // 4))) for image in images]
    assert shades[0] < 200 < 550 < shades[1], "a black stone and a white one on D4"


def test_links_lead_to_the_games_that_are_there(tmp_path: Path):
    result = some_result("runs/a b", "mcts:9#2", num_games=3)
    name = game_file(("runs/a b", "mcts:9#2"), 1)
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / name).write_text("(;)")
    page = read(write_report(tmp_path, [result], ["runs/a b", "mcts:9#2"]))
    assert set(page.links) == {"games/runs_a_b-vs-mcts_9%232-0002.sgf"}
    assert all((tmp_path / unquote(target)).exists() for target in page.links)


def test_names_and_reasons_cannot_break_the_page(tmp_path: Path):
    result = some_result(EVIL, "b", game_0={"stop": Stop(FORFEIT, True, "<img src=x onerror=alert(1)>")})
    results = [result, some_result(EVIL, "c"), some_result("b", "c")]
    names = [EVIL, "b", "c"]
    page = read(write_report(tmp_path, results, names, rate(names, results)))
    assert "script" not in page.tags and page.tags.count("img") == len(page.images)
    assert EVIL in page.text and "<img src=x onerror=alert(1)>" in page.text


def test_stopped_games_are_told_and_have_results_of_their_own(tmp_path: Path):
    resigned = {"score_black": math.nan, "stop": Stop(RESIGNED, black_lost=True)}
    failed = {"score_black": math.nan, "stop": Stop(FORFEIT, False, "no answer within 5 s"), "capped": False}
    won, drawn = {"score_black": 3.5, "told": {"gnugo": "B+3.5"}}, {"score_black": 0.0}
    result = some_result("anna", "gnugo", 4, game_0=resigned, game_1=failed, game_2=won, game_3=drawn)
    assert [game.result_text for game in result.games] == ["W+R", "B+F", "B+3.5", "0"]
    text = read(write_report(tmp_path, [result], ["anna", "gnugo"])).text
    assert "anna resigned 1" in text and "anna lost by a fault 1" in text and "two passes 2" in text
    assert "game 2: anna: no answer within 5 s" in text
    assert "gnugo agrees with the referee's score in 1 of 1 games" in text


def test_games_to_show_hold_every_ending_and_both_colours():
    resigned, failed = {"stop": Stop(RESIGNED, True)}, {"stop": Stop(FORFEIT, False, "?")}
    shown = chosen_games(some_result(num_games=40, game_5=resigned, game_14=failed), 8)
    assert len(shown) == 8 and {1, 5, 14} <= {game.number for game in shown}
    assert {game.a_is_black for game in shown} == {True, False}
    assert [game.number for game in chosen_games(some_result(num_games=2), 8)] == [0, 1]


@pytest.mark.parametrize("size", [1, 19, 25])
def test_report_of_games_with_itself_on_any_board(tmp_path: Path, size: int):
    result = some_result("anna", "anna", 2, size, game_0={"moves": [size * size] * 2}, game_1={"moves": []})
    page = read(write_report(tmp_path, [result], ["anna"]))
    assert "anna against itself" in page.text and "Ratings" not in page.text and len(page.images) == 2


def test_page_needs_nothing_from_outside(tmp_path: Path):
    result = some_result()
    text = write_report(tmp_path, [result], ["anna", "bert"], rate(["anna", "bert"], [result])).read_text()
    assert not re.search(r"https?://|@import|url\(|<script|<link", text)


def test_histogram_counts_every_game_once():
    values = np.array([-3.0, -0.5, 0.0, 0.5, 0.5, 20.5])
    drawn = histogram_svg(values)
    counts = [int(count) for count in re.findall(r"<title>(\d+) games", drawn)]
    assert sum(counts) == 6 and counts.count(1) == 4, "a dark, a grey and a light part, and two dark ones together"
    assert "W+20.5" in drawn and "B+20.5" in drawn and histogram_svg(values[:0]) == ""
