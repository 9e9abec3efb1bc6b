import pytest
from sgfmill import common, sgf_properties

from zerogo import coords
from zerogo.errors import InputError

SIZES = range(1, 26)


@pytest.mark.parametrize(
    "vertex, size, row, column",
    [
        ("A1", 19, 18, 0), ("T19", 19, 0, 18), ("D4", 19, 15, 3), ("Q16", 19, 3, 15), ("H8", 9, 1, 7), ("J9", 9, 0, 8),
        ("A1", 1, 0, 0), ("Z25", 25, 0, 24), ("A25", 25, 0, 0),
    ],
)  # fmt: skip
def test_known_vertices(vertex: str, size: int, row: int, column: int) -> None:
    action = coords.point(row, column, size)
    assert coords.from_gtp(vertex, size) == coords.from_gtp(vertex.lower(), size) == action
    assert coords.to_gtp(action, size) == vertex
    assert coords.row_col(action, size) == (row, column)


@pytest.mark.parametrize("size", SIZES)
def test_every_action_survives_the_round_trips(size: int) -> None:
    for action in range(size * size + 1):
        assert coords.from_gtp(coords.to_gtp(action, size), size) == action
        assert coords.from_sgf(coords.to_sgf(action, size), size) == action
    for action in range(size * size):
        assert coords.point(*coords.row_col(action, size), size) == action


@pytest.mark.parametrize("size", SIZES)
def test_sgfmill_agrees(size: int) -> None:
    for action in range(size * size):
        row, column = coords.row_col(action, size)
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


@pytest.mark.parametrize("text", ["", "A1 ", *BAD_VERTICES])
def test_bad_vertices_name_the_value_and_what_is_allowed(text: str) -> None:
    with pytest.raises(InputError) as caught:
        coords.from_gtp(text, 9)
    assert repr(text) in str(caught.value) and "A1 to J9" in str(caught.value)


@pytest.mark.parametrize(
    "text, size", [("a", 9), ("ja", 9), ("aj", 9), ("AA", 9), ("aaa", 9), ("a1", 9), ("uu", 20), (" ", 9)]
)
def test_bad_sgf_points_name_the_value_and_what_is_allowed(text: str, size: int) -> None:
    with pytest.raises(InputError) as caught:
        coords.from_sgf(text, size)
    assert repr(text) in str(caught.value) and "aa to" in str(caught.value)


@pytest.mark.parametrize("point", [(9, 0), (0, 9), (-1, 0), (0, -1), -1, 81])
def test_points_off_the_board(point: int | tuple[int, int]) -> None:
    with pytest.raises(InputError):
        coords.point(*point, 9) if isinstance(point, tuple) else coords.row_col(point, 9)


@pytest.mark.parametrize("action", [-1, 82])
def test_actions_that_do_not_exist(action: int) -> None:
    for convert in (coords.to_gtp, coords.to_sgf):
        with pytest.raises(InputError):
            convert(action, 9)
