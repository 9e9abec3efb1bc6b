"""The ladder readers against a plain recursive one, and on classical cases."""

import dataclasses
import random

import pytest
import torch
from diagrams import parse
from implementations import HAS_CUDA, KERNELS, read_ladders
from ladder_reader import TooLong, board_of, read_all
from positions import CLASSICAL, by_size, ladder_positions, of_stones, with_liberties
from tables import tables

from zerogo import board
from zerogo.board import flood, symmetry
from zerogo.game import Colour
from zerogo.rules import Rules, coords


def compare(positions: list[list[list[int]]], way: str, as_katago: bool = False) -> tuple[int, int]:
    """Compares with the recursive reader on positions of one size, every second one with a banned point where KataGo's
    ladders are meant; returns how many had a string that is caught, and how many were left out."""
    state, bans = of_stones(positions), [None] * len(positions)
    if as_katago:
        weak = [[one for one in board_of(rows).strings() if len(one.liberties) == 2] for rows in positions]
        bans = [min(strings[0].liberties) if game % 2 and strings else None for game, strings in enumerate(weak)]
        ko = [-1 if ban is None else ban.row * len(positions[0]) + ban.column for ban in bans]
        state = dataclasses.replace(state, ko=torch.tensor(ko, dtype=torch.int16))
    found = read_ladders(state, way, as_katago=as_katago)
    planes = [flood.unpack_rows(plane) for plane in found[:3]]
    with_ladder = left_out = 0
    for game, rows in enumerate(positions):
        try:
            wanted = read_all(board_of(rows), as_katago=as_katago, ko=bans[game])
        except TooLong:
            left_out += 1
            continue
        if found.given_up[game]:
            left_out += 1
            continue
        for colour, player in enumerate(Colour):
            for plane, points in zip(planes, wanted[player], strict=True):
                assert set(map(tuple, plane[game, colour].nonzero().tolist())) == set(map(tuple, points)), rows
        with_ladder += any(caught for caught, _, _ in wanted.values())
    return with_ladder, left_out


CHECKS = [(600, 1, "numba", False), (300, 4, "numba", True)]


@pytest.mark.parametrize(
    ("count", "seed", "way", "as_katago"), [*CHECKS, pytest.param(600, 6, "triton", False, marks=pytest.mark.gpu)]
)
def test_ladders_agree_with_the_recursive_reader(count: int, seed: int, way: str, as_katago: bool) -> None:
    results = [compare(positions, way, as_katago) for positions in by_size(ladder_positions(count, seed))]
    assert sum(with_ladder for with_ladder, _ in results) > 0.4 * count
    assert sum(left_out for _, left_out in results) < 0.03 * count


BOARDS = {name: parse("\n".join(board["rows"])) for name, board in tables("ladders")["boards"].items()}


@KERNELS
def test_katago_ladders_of_crowded_boards(way: str) -> None:
    """Kos that begin a ladder, double kos, standing bans."""
    rng, with_ladder = random.Random(7), 0
    positions = [[[rng.choice((0, 1, 1, 2, 2)) for _ in range(5)] for _ in range(5)] for _ in range(400)]
    if way == "numba":
        read_ladders(of_stones(positions), way, as_katago=True)  # strings without a liberty get an answer, too
    for rows in [BOARDS["double ko"], *positions[: 0 if way == "triton" and not HAS_CUDA else None]]:
        with_ladder += sum(compare([with_liberties(rows)] * 2, way, as_katago=True))
    assert with_ladder > 0


@pytest.mark.parametrize("name", CLASSICAL)
def test_classical_ladders(name: str) -> None:
    """In all eight positions of the board, and with the colours swapped."""
    diagram, *expected = CLASSICAL[name]
    stones = torch.tensor([parse(diagram)], dtype=torch.int8)
    size = stones.shape[1]
    for turn in range(symmetry.NUM_SYMMETRIES):
        turned = symmetry.transform_planes(stones.unsqueeze(1), turn).squeeze(1)
        for colour, rows in ((1, turned), (0, (3 - turned) * (turned != 0))):
            found = read_ladders(board.from_stones(rows, torch.ones(1, dtype=torch.int8), Rules(size)))
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
    found = read_ladders(of_stones([parse(CLASSICAL["runs into the corner"][0])]), way, most=3)
    assert found.given_up.tolist() == [1] and not found.caught.any() and not found.escaping.any()
    nothing = read_ladders(of_stones(list(ladder_positions(1, seed=8))), most=0)
    assert nothing.given_up.sum() > 0 and not nothing.caught.any()  # not one answer may be tried


@KERNELS
def test_the_second_move_is_tried_where_a_ko_bans_the_first(way: str) -> None:
    assert compare([BOARDS["the first move is banned"]], way) == (1, 0)
