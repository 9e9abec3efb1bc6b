"""Coordinates against sgfmill; names of rules: the table against KataGo's documentation, spellings, JSON, and what is
refused."""

import pytest
from sgfmill import common, sgf_properties
from tables import tables

from zerogo.errors import InputError
from zerogo.rules import Rules, coords, rulesets

TABLES = tables("rulesets")


@pytest.mark.parametrize("size", range(1, 26))
def test_every_action_survives_the_round_trips_and_sgfmill_agrees(size: int) -> None:
    for action in range(size * size + 1):
        vertex = coords.to_gtp(action, size)
        assert coords.from_gtp(vertex, size) == coords.from_gtp(vertex.lower(), size) == action
        assert coords.from_sgf(coords.to_sgf(action, size), size) == action
    for action in range(size * size):
        row, column = coords.row_col(action, size)
        assert coords.point(row, column, size) == action
        from_below = (size - 1 - row, column)  # sgfmill counts rows from the bottom
        assert common.format_vertex(from_below) == coords.to_gtp(action, size)
        assert sgf_properties.serialise_go_point(from_below, size).decode() == coords.to_sgf(action, size)
    assert sgf_properties.interpret_go_point(coords.to_sgf(size * size, size).encode(), size) is None


def test_pass_in_every_spelling() -> None:
    assert {coords.from_gtp(text, 9) for text in ("pass", "PASS", "Pass")} == {81}
    assert coords.to_gtp(81, 9) == "pass" and coords.to_sgf(81, 9) == ""
    assert coords.from_sgf("", 21) == 441
    assert coords.from_sgf("tt", 9) == 81 and coords.from_sgf("tt", 19) == 361
    assert coords.from_sgf("tt", 20) == coords.point(19, 19, 20)  # a point where the board has it


BAD_VERTICES = "9 A 5A I5 i5 A0 A10 K1 AA1 A-1 A+1 A\u0661 \u01311 A001 resign".split()


def test_bad_texts_name_the_value_and_what_is_allowed() -> None:
    vertices = [(coords.from_gtp, text, 9, "A1 to J9") for text in ("", "A1 ", *BAD_VERTICES)]
    points = [(coords.from_sgf, text, 9, "aa to") for text in ("a", "ja", "aj", "AA", "aaa", "a1", " ")]
    for convert, text, size, allowed in (*vertices, *points, (coords.from_sgf, "uu", 20, "aa to")):
        with pytest.raises(InputError) as caught:
            convert(text, size)
        assert repr(text) in str(caught.value) and allowed in str(caught.value)


def test_points_and_actions_that_do_not_exist() -> None:
    wrong = [(coords.point, point) for point in ((9, 0), (0, 9), (-1, 0), (0, -1))]
    wrong += [(coords.row_col, (point,)) for point in (-1, 81)]
    for convert, numbers in wrong + [(convert, (k,)) for convert in (coords.to_gtp, coords.to_sgf) for k in (-1, 82)]:
        with pytest.raises(InputError):
            convert(*numbers, 9)


@pytest.mark.parametrize(("name", "ko", "scoring", "suicide", "tax", "bonus"), TABLES["KataGo"])
def test_the_table_is_katagos(name: str, ko: str, scoring: str, suicide: bool, tax: str, bonus: str) -> None:
    """docs/GTP_Extensions.md of KataGo, "kata-set-rules": what each shorthand is equivalent to."""
    rules = rulesets.named(name, 9)
    assert rules == Rules(9, rulesets.RULESETS[name].komi, ko.lower(), suicide, scoring.lower())
    told = rulesets.deviations(name)
    assert (rulesets.SEKI in told) == (tax == "SEKI")
    assert (rulesets.HANDICAP in told) == (bonus != "0")
    assert (rulesets.CYCLES in told) == (ko == "SIMPLE")
    assert ("button" in told) == (name == "aga-button")


@pytest.mark.parametrize(("name", "spellings"), TABLES["spellings"])
def test_spellings(name: str, spellings: str) -> None:
    for spelling in spellings.split("/"):
        assert rulesets.canonical(spelling) == name
        assert rulesets.named(spelling, 13) == rulesets.named(name, 13)


@pytest.mark.parametrize("name", ["", "go", "chines", "stone-scoring", "{}", "simple"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="there are no rules .*allowed are tromp-taylor, chinese"):
        rulesets.named(name, 9)
    assert rulesets.canonical(name) == rulesets.deviations(name) == ""


@pytest.mark.parametrize(("fields", "what"), TABLES["bad fields"])
def test_bad_json_is_refused(fields: object, what: str) -> None:
    with pytest.raises(InputError, match=what):
        rulesets.from_json(fields, 9)


@pytest.mark.parametrize(("text", "size", "komi", "name"), TABLES["text of rules"])
def test_rules_that_are_written_out(text: str, size: int, komi: float | None, name: str) -> None:
    """As KataGo writes them into SGF, and names."""
    assert rulesets.parse(text, size, komi) == rulesets.named(name, size, komi)


@pytest.mark.parametrize(("text", "what"), TABLES["bad text"])
def test_bad_text_is_refused(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        rulesets.parse(text, 9)


def test_names_and_their_komi() -> None:
    assert rulesets.named("japanese", 19).komi == 6.5 and rulesets.named("chinese", 19).komi == 7.5
    assert rulesets.named("japanese", 19, 0.5).komi == 0.5 and rulesets.named("aga", 9, 0.0).komi == 0.0
    assert rulesets.named("aga-button", 19).komi == 7.0
    with pytest.raises(InputError, match="size is 26"):
        rulesets.named("chinese", 26)
