"""Game records: what sgfmill reads back from the files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from sgfmill.sgf import Sgf_game

from zerogo import coords, sgf
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.sgf import GameRecord, result_text, rules_text, to_text


def read(record: GameRecord) -> Sgf_game:
    return Sgf_game.from_string(to_text(record))


def read_moves(game: Sgf_game, size: int) -> list[tuple[str, int]]:
    """Returns (colour, action) of the main line, through coords and not through the module's own conversion."""
    found = []
    for node in game.get_main_sequence()[1:]:
        colour, _ = node.get_move()
        found.append((colour, coords.from_sgf(node.get_raw(colour.upper()).decode(), size)))
    return found


@pytest.mark.parametrize("size", [1, 5, 9, 19, 20, 25])
def test_moves_and_passes_come_back(size: int) -> None:
    moves = [*range(0, size * size, 3), size * size, size * size - 1, size * size, size * size]
    game = read(GameRecord(Rules(size), moves))
    assert game.get_size() == size
    assert read_moves(game, size) == [("bw"[k % 2], move) for k, move in enumerate(moves)]


def test_a_pass_is_the_empty_value() -> None:
    assert ";B[];W[])" in to_text(GameRecord(Rules(9), [81, 81]))


def test_root_properties() -> None:
    record = GameRecord(Rules(9, komi=7.5), [40], "B+R", "zero ] \\ one", "Weiß", event="cup", round="3", date="2024-02-29", comment="hi")
    root = read(record).get_root()
    assert (root.get("FF"), root.get("GM"), root.get("CA"), root.get("SZ"), root.get("KM")) == (4, 1, "UTF-8", 9, 7.5)
    assert (root.get("PB"), root.get("PW"), root.get("RE"), root.get("DT")) == ("zero ] \\ one", "Weiß", "B+R", "2024-02-29")
    assert (root.get("EV"), root.get("RO"), root.get("C"), root.get("AP")[0]) == ("cup", "3", "hi", "zerogo")
    assert not root.has_property("HA") and not root.has_property("PL")


def test_komi_is_always_written_and_today_is_the_date() -> None:
    root = read(GameRecord(Rules(9, komi=0.0), [])).get_root()
    assert root.get("KM") == 0.0 and root.get("RE") == "?"
    assert len(root.get("DT")) == len("YYYY-MM-DD")


def test_handicap_stones_and_white_first() -> None:
    game = read(GameRecord(Rules(9), [40], handicap=[24, 56], first="w"))
    root = game.get_root()
    assert root.get("HA") == 2 and root.get("PL") == "w"
    assert set(root.get("AB")) == {(8 - row, column) for row, column in (coords.row_col(24, 9), coords.row_col(56, 9))}
    assert read_moves(game, 9) == [("w", 40)]
    single = read(GameRecord(Rules(9), [40], handicap=[24], first="w")).get_root()
    assert not single.has_property("HA") and len(single.get("AB")) == 1  # FF[4] knows no HA[1]


def test_comments_belong_to_their_moves() -> None:
    nodes = read(GameRecord(Rules(5), [0, 1, 2], comments=[None, "0.5 ] \\ a:b\nsecond line"])).get_main_sequence()
    assert [node.has_property("C") for node in nodes] == [False, False, True, False]
    assert nodes[2].get("C") == "0.5 ] \\ a:b\nsecond line"


def test_more_properties_win() -> None:
    root = read(GameRecord(Rules(5), [], properties={"GN": "final", "RU": "AGA"})).get_root()
    assert (root.get("GN"), root.get("RU")) == ("final", "AGA")


@pytest.mark.parametrize(
    ("score", "resigned", "text"),
    [(3.5, False, "B+3.5"), (-2.0, False, "W+2"), (0.0, False, "0"), (1.0, True, "B+R"), (-1.0, True, "W+R"), (360.5, False, "B+360.5")],
)
def test_results(score: float, resigned: bool, text: str) -> None:
    assert result_text(score, resigned) == text


def test_names_of_rules() -> None:
    assert rules_text(Rules()) == "Chinese"
    assert rules_text(Rules(suicide=True)) == "Tromp-Taylor"
    assert rules_text(Rules(scoring="territory")) == "Japanese"


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (GameRecord(Rules(5), [26]), "move 26 is off the board"),
        (GameRecord(Rules(5), [-1]), "move -1 is off the board"),
        (GameRecord(Rules(5), [], first="x"), "first colour is 'x'"),
        (GameRecord(Rules(5), [], comments=["a"]), "1 comments for 0 moves"),
        (GameRecord(Rules(5), [], handicap=[25]), "a pass among the handicap stones"),
    ],
)
def test_bad_records_are_refused(record: GameRecord, what: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=what):
        sgf.write(tmp_path / "game.sgf", record)
    assert not list(tmp_path.iterdir())


def test_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    path.write_text("x" * 10_000)
    sgf.write(path, GameRecord(Rules(5), [12], comments=["ü"]))
    game = Sgf_game.from_bytes(path.read_bytes())
    assert read_moves(game, 5) == [("b", 12)] and game.get_last_node().get("C") == "ü"
    assert [entry.name for entry in tmp_path.iterdir()] == ["game.sgf"]
