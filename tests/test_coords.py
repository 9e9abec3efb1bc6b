import pytest
from sgfmill import common, sgf_properties

from zerogo.errors import InputError
from zerogo.rules import coords


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
