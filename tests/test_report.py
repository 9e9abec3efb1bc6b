"""Match reports: the numbers of the match, the pictures and the links are in the page, and no name can break it."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import tiny
from PIL import Image

from zerogo.arena.journal import game_file
from zerogo.arena.page import histogram_svg
from zerogo.arena.report import chosen_games, result_words, write_report
from zerogo.arena.result import FORFEIT, RESIGNED, MatchResult, Stop
from zerogo.elo import bradley_terry
from zerogo.rules import Rules

EVIL = '<script>alert("1 & 2")</script>#2'


def some_result(name_a: str = "anna", name_b: str = "bert", num_games: int = 8, size: int = 5, **fields) -> MatchResult:
    """Returns a match without a played game: Black wins by 3 on even boards of stones, White by 1 on the others."""
    draw = np.random.default_rng(1)
    numbers = np.arange(num_games)
    moves = np.full((num_games, 6), -1, dtype=np.int16)
    moves[:, :4] = draw.integers(0, size * size, (num_games, 4))
    parts = {
        "name_a": name_a,
        "name_b": name_b,
        "rules": Rules(size, 2.0),
        "seed": 7,
        "opening_plies": 0,
        "is_self": False,
        "is_paired": True,
        "first_game": 0,
        "score_black": np.where(numbers % 4 < 2, 3.0, -1.0).astype(np.float32),
        "area_black": np.full(num_games, 14),
        "a_is_black": numbers % 2 == 0,
        "lengths": np.full(num_games, 4),
        "capped": numbers == 1,
        "moves": moves,
        "stones": draw.integers(0, 3, (num_games, size, size)).astype(np.int8),
    }
    return MatchResult(**(parts | fields))


class Reader(HTMLParser):
    """Collects a page's tags, links, pictures and text, and asserts that tags close in the order in which they were
    opened.
    """

    VOID = {"meta", "img", "br", "line", "circle"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.images: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

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

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def rated(names: list[str], results: list[MatchResult]):
    points = np.zeros((len(names), len(names)))
    for result in results:
        i, j = names.index(result.name_a), names.index(result.name_b)
        points[i, j] += result.points_a.sum()
        points[j, i] += result.num_games - result.points_a.sum()
    return bradley_terry(points)


def read(path: Path) -> Reader:
    return Reader(path.read_text(encoding="UTF-8"))


def test_report_holds_ratings_colours_endings_and_pictures(tmp_path: Path):
    names = ["anna", "bert", "carl"]
    results = [
        some_result("anna", "bert"),
        some_result("anna", "carl", num_games=4),
        some_result("bert", "carl", num_games=2),
    ]
    path = write_report(tmp_path, results, names, rated(names, results), tiny.config("game.size=5"))
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
    result = some_result(num_games=2, stones=stones)
    page = read(write_report(tmp_path, [result], ["anna", "bert"], None, result.rules))
    images = [
        Image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,"))))
        for source in page.images
    ]
    cell = images[0].width // 6
    shades = [sum(image.getpixel((4 * cell - cell // 4, 2 * cell + cell // 4))) for image in images]
    assert shades[0] < 200 < 550 < shades[1], "a black stone and a white one on D4"


def test_links_lead_to_the_games_that_are_there(tmp_path: Path):
    result = some_result("runs/a b", "mcts:9#2", num_games=3)
    name = game_file(("runs/a b", "mcts:9#2"), 1)
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / name).write_text("(;)")
    page = read(write_report(tmp_path, [result], ["runs/a b", "mcts:9#2"], None, result.rules))
    assert set(page.links) == {"games/runs_a_b-vs-mcts_9%232-0002.sgf"}
    assert all((tmp_path / unquote(target)).exists() for target in page.links)


def test_names_and_reasons_cannot_break_the_page(tmp_path: Path):
    result = some_result(EVIL, "b", stops={0: Stop(FORFEIT, True, "<img src=x onerror=alert(1)>")})
    results = [result, some_result(EVIL, "c"), some_result("b", "c")]
    names = [EVIL, "b", "c"]
    page = read(write_report(tmp_path, results, names, rated(names, results), result.rules))
    assert "script" not in page.tags and page.tags.count("img") == len(page.images)
    assert EVIL in page.text and "<img src=x onerror=alert(1)>" in page.text


def test_stopped_games_are_told_and_have_results_of_their_own(tmp_path: Path):
    score = np.array([np.nan, np.nan, 3.5, 0.0], dtype=np.float32)
    stops = {0: Stop(RESIGNED, black_lost=True), 1: Stop(FORFEIT, black_lost=False, reason="no answer within 5 s")}
    told = {2: {"gnugo": "B+3.5"}}
    result = some_result("anna", "gnugo", 4, score_black=score, capped=np.zeros(4, bool), stops=stops, told=told)
    assert [result_words(result, game) for game in range(4)] == ["W+R", "B+F", "B+3.5", "0"]
    text = read(write_report(tmp_path, [result], ["anna", "gnugo"], None, result.rules)).text
    assert "anna resigned 1" in text and "anna lost by a fault 1" in text and "two passes 2" in text
    assert "game 2: anna: no answer within 5 s" in text
    assert "gnugo counts the end as the referee does in 1 of 1 games" in text


def test_games_to_show_hold_every_ending_and_both_colours():
    stops = {5: Stop(RESIGNED, True), 14: Stop(FORFEIT, False, "?")}
    result = some_result(num_games=40, stops=stops)
    shown = chosen_games(result, 8)
    assert len(shown) == 8 and {1, 5, 14} <= set(shown)
    assert {bool(result.a_is_black[game]) for game in shown} == {True, False}
    assert chosen_games(some_result(num_games=2), 8) == [0, 1]


@pytest.mark.parametrize("size", [1, 19, 25])
def test_report_of_games_with_itself_on_any_board(tmp_path: Path, size: int):
    moves = np.full((2, 6), -1, dtype=np.int16)
    moves[0, :2] = size * size
    result = some_result("anna", "anna", 2, size, is_self=True, is_paired=False, moves=moves)
    page = read(write_report(tmp_path, [result], ["anna"], None, result.rules))
    assert "anna against itself" in page.text and "Ratings" not in page.text and len(page.images) == 2


def test_page_needs_nothing_from_outside(tmp_path: Path):
    result = some_result()
    text = write_report(
        tmp_path, [result], ["anna", "bert"], rated(["anna", "bert"], [result]), result.rules
    ).read_text()
    assert not re.search(r"https?://|@import|url\(|<script|<link", text)


def test_histogram_counts_every_game_once():
    values = np.array([-3.0, -0.5, 0.0, 0.5, 0.5, 20.5])
    drawn = histogram_svg(values, "results")
    counts = [int(count) for count in re.findall(r"<title>(\d+) games", drawn)]
    assert sum(counts) == 6 and counts.count(1) == 4, "a dark, a grey and a light part, and two dark ones together"
    assert "W+20.5" in drawn and "B+20.5" in drawn and histogram_svg(values[:0], "results") == ""
