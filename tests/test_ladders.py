"""The ladder readers against a plain recursive one, and on classical cases."""

import dataclasses
import json
import random

import pytest
import torch
from boards import crowded, of_stones, parse
from implementations import HAS_CUDA, KERNELS, read_ladders
from ladder_reader import board_of, read_all
from tables import DATA, tables

from zerogo.board import flood, symmetry
from zerogo.game import Colour
from zerogo.rules import coords

# Black (X) chases White (O). By name: a diagram, Black's first moves that work against strings with two liberties,
# White's moves that save strings in atari, and a stone of each of White's strings that is caught. In "not by a ko"
# White's stone on B5 is caught from C5; from A5 Black would take A4, but in a ko, which White is taken to win.
CLASSICAL = json.loads((DATA / "ladders.json").read_text())
BOARDS = {name: parse(board["rows"]) for name, board in tables("ladders")["boards"].items()}


def compare(positions: list[list[list[int]]], way: str, as_katago: bool) -> int:
    """Compares with the recursive reader on positions of one size, every second one with a banned point where KataGo's
    ladders are meant; returns how many had a string that is caught."""
    state, bans, with_ladder = of_stones(positions), [None] * len(positions), 0
    if as_katago:
        weak = [[one for one in board_of(rows).strings() if len(one.liberties) == 2] for rows in positions]
        bans = [min(strings[0].liberties) if game % 2 and strings else None for game, strings in enumerate(weak)]
        ko = [-1 if ban is None else ban.row * len(positions[0]) + ban.column for ban in bans]
        state = dataclasses.replace(state, ko=torch.tensor(ko, dtype=torch.int16))
    found = read_ladders(state, way, as_katago=as_katago)
    planes = [flood.unpack_rows(plane) for plane in found[:3]]
    for game, rows in enumerate(positions):
        wanted = read_all(board_of(rows), as_katago=as_katago, ko=bans[game])
        for colour, player in enumerate(Colour):
            for plane, points in zip(planes, wanted[player], strict=True):
                assert set(map(tuple, plane[game, colour].nonzero().tolist())) == set(map(tuple, points)), rows
        with_ladder += any(caught for caught, _, _ in wanted.values())
    return with_ladder


@KERNELS
@pytest.mark.parametrize("as_katago", [False, True])
def test_ladders_of_crowded_boards(way: str, as_katago: bool) -> None:
    """Short ladders, ladders that begin with a ko, double kos, standing bans. `test_features` has those of games."""
    draw = random.Random(7)
    positions = [crowded(5, draw, 0.8) for _ in range(1 if way == "triton" and not HAS_CUDA else 150)]
    assert compare([BOARDS["double ko"], *positions], way, as_katago) > 0
    if way == "numba":
        read_ladders(of_stones(torch.randint(3, (99, 5, 5))), way)  # strings without a liberty get an answer, too


@pytest.mark.parametrize("name", CLASSICAL)
def test_classical_ladders(name: str) -> None:
    """In all eight positions of the board, and with the colours swapped."""
    rows, *expected = CLASSICAL[name].values()
    stones = torch.tensor([parse(rows)], dtype=torch.int8)
    size = stones.shape[1]
    for turn in range(symmetry.NUM_SYMMETRIES):
        turned = symmetry.transform_planes(stones.unsqueeze(1), turn).squeeze(1)
        for colour, rows in ((1, turned), (0, (3 - turned) * (turned != 0))):
            found = read_ladders(of_stones(rows))
            planes = [flood.unpack_rows(plane[:, colour]) for plane in (found.catching, found.escaping, found.caught)]
            back = [symmetry.transform_planes(plane.unsqueeze(1), symmetry.INVERSE[turn])[0, 0] for plane in planes]
            points = [plane.flatten().nonzero().flatten().tolist() for plane in back]
            catching, escaping, caught = ({coords.to_gtp(point, size) for point in found} for found in points)
            assert (catching, escaping) == (set(expected[0].split()), set(expected[1].split()))
            assert {vertex for vertex in caught if vertex in expected[2].split()} == set(expected[2].split())
            assert bool(caught) == bool(expected[2])


@KERNELS
def test_a_reading_that_grows_too_large_is_given_up(way: str) -> None:
    """It counts as no ladder, and is reported."""
    state = of_stones([parse(CLASSICAL["runs into the corner"]["rows"])])
    for most in (3, 0):  # at 0 not one answer may be tried
        found = read_ladders(state, way, most=most)
        assert found.given_up.tolist() == [1] and not found.caught.any() and not found.escaping.any()


@KERNELS
def test_the_second_move_is_tried_where_a_ko_bans_the_first(way: str) -> None:
    assert compare([BOARDS["the first move is banned"]], way, as_katago=False) == 1
