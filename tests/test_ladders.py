"""The batched ladder reader against a plain recursive one, and on classical cases."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from diagrams import parse
from ladder_reader import TooLong, board_of, read_all

from zerogo import board, coords, flood, symmetry
from zerogo.features import ladders
from zerogo.features.ladders import read_ladders
from zerogo.game import Colour
from zerogo.rules import Rules

PATTERNS = (
    ".XX./XO../.X../....",
    "XXX./XOO./.XX./....",
    ".X../XO../.XX./....",
    ".XX./XOO./XOX./.X..",
    "XX../XO../X.../....",
)


def ladder_positions(count: int, seed: int) -> Iterator[list[list[int]]]:
    """Yields positions with a ladder about to start or under way, of any angle and colour, with breakers strewn in."""
    rng = random.Random(seed)
    while count:
        size = rng.choice((7, 9, 9, 11, 13, 19))
        rows = [[0] * size for _ in range(size)]
        top, left = rng.randrange(size - 4), rng.randrange(size - 4)
        for row, line in enumerate(rng.choice(PATTERNS).split("/")):
            for column, sign in enumerate(line):
                rows[top + row][left + column] = ".OX".index(sign) if sign != "." else 0
        for _ in range(rng.choice((0, 1, 2, 4, 8, size))):
            row, column = rng.randrange(size), rng.randrange(size)
            if rows[row][column] == 0:
                rows[row][column] = rng.choice((1, 2))
        if rng.random() < 0.5:
            rows = [[3 - colour if colour else 0 for colour in row] for row in rows]
        for _ in range(rng.randrange(4)):
            rows = [list(row) for row in zip(*rows[::-1], strict=True)]
        if rng.random() < 0.5:
            rows = [row[::-1] for row in rows]
        rows = _played_on(rows, rng)
        if all(string.liberties for string in board_of(rows).strings()):
            count -= 1
            yield rows


def _played_on(rows: list[list[int]], rng: random.Random) -> list[list[int]]:
    """Returns the position after some plies of the ladder: the weakest string runs and is chased."""
    played = board_of(rows)
    for _ in range(rng.choice((0, 0, 1, 2, 3, 5, 8, 13))):
        weak = [string for string in played.strings() if 1 <= len(string.liberties) <= 2]
        if not weak or any(not string.liberties for string in played.strings()):
            break
        string = max(weak, key=lambda string: (len(string.stones), min(string.stones)))
        mover = string.colour if len(string.liberties) == 1 else string.colour.other
        move = rng.choice(sorted(string.liberties))
        if move in played.removed_by(mover, move):
            break
        played = played.after(mover, move)
    size = len(rows)
    return [[getattr(played.colour_at((row, column)), "value", 0) for column in range(size)] for row in range(size)]


def compare(positions: list[list[list[int]]]) -> tuple[int, int]:
    """Compares both readers on positions of one size; returns how many had a string that is caught, and how many were
    left out.
    """
    size = len(positions[0])
    state = board.from_stones(
        torch.tensor(positions, dtype=torch.int8), torch.ones(len(positions), dtype=torch.int8), Rules(size)
    )
    found = read_ladders(state)
    planes = [flood.unpack_rows(plane) for plane in (found.caught, found.catching, found.escaping)]
    with_ladder = left_out = 0
    for game, rows in enumerate(positions):
        try:
            wanted = read_all(board_of(rows))
        except TooLong:
            left_out += 1
            continue
        if found.given_up[game]:
            left_out += 1
            continue
        for colour, player in enumerate(Colour):
            for plane, points in zip(planes, wanted[player], strict=True):
                assert {tuple(point) for point in plane[game, colour].nonzero().tolist()} == {
                    tuple(p) for p in points
                }, rows
        with_ladder += any(caught for caught, _, _ in wanted.values())
    return with_ladder, left_out


def check(count: int, seed: int) -> None:
    by_size: dict[int, list] = {}
    for rows in ladder_positions(count, seed):
        by_size.setdefault(len(rows), []).append(rows)
    results = [compare(positions) for positions in by_size.values()]
    assert sum(with_ladder for with_ladder, _ in results) > 0.4 * count
    assert sum(left_out for _, left_out in results) < 0.03 * count


def test_ladders_agree_with_the_recursive_reader() -> None:
    check(600, seed=1)


@pytest.mark.slow
def test_many_ladders_agree_with_the_recursive_reader() -> None:
    check(25000, seed=2)  # 10,000 of them with a ladder that works


# Black (X) chases White (O). Name: diagram, Black's first moves that work against strings with two liberties, White's
# moves that save strings in atari, and a stone of each of White's strings that is caught.
CLASSICAL = {
    "runs into the corner": ("""
        . . . . . . . . .
        . . . . . . . . .
        . . . X X . . . .
        . . X O . . . . .
        . . . X . . . . .
        . . . . . . . . .
        . . . . . . . . .
        . . . . . . . . .
        . . . . . . . . .
        """, "", "", "D6"),
    "broken by a distant stone": ("""
        . . . . . . . . .
        . . . . . . . . .
        . . . X X . . . .
        . . X O . . . . .
        . . . X . . . . .
        . . . . . . . . .
        . . . . . . . . .
        . . . . . . . O .
        . . . . . . . . .
        """, "", "E6", ""),
    "a distant stone beside the path breaks nothing": ("""
        . . . . . . . . .
        . . . . . . . . .
        . . . X X . . . .
        . . X O . . . . .
        . . . X . . . . .
        O . . . . . . . .
        . . . . . . . . .
        . O . . . . . . .
        . . . . . . . . .
        """, "", "", "D6"),
    "the attacker begins, and only one side works": ("""
        . . . . . . . . .
        . . . . . . . . .
        . . X X . . . . .
        . X O O . . . . .
        . . X . . . . . .
        . . . . . . . . .
        . . . . . . . . .
        . . . . . . . . .
        . . . . . . . . .
        """, "E6", "", "C6"),
    "the second line crawls along the edge": ("""
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . X X . . .
        . X O O . . .
        . . X . . . .
        """, "E2", "", "C2"),
    "captures on the way": ("""
        . . . . . . . . .
        . . . . . . . . .
        . . . X X . . . .
        . . X O . . . . .
        . . O X . . . . .
        . . . O . . . . .
        . . . . . . . . .
        . . . . . . . . .
        . . . . . . . . .
        """, "", "E5 E6", ""),
    "longer than the board is wide": ("""
        . . . . .
        . X X . .
        X O . . .
        . X . . .
        . . . . .
        """, "", "", "B3"),
    # White's stone on B5 is caught from C5; from A5 Black would take A4, but in a ko, which White is taken to win.
    "not by a ko": ("""
        . O . . .
        O X X X .
        X X O . X
        X . X . X
        . . X . .
        """, "C5", "", "B5 A4 C3"),
    "three liberties are no ladder": ("""
        . . . . .
        . . X . .
        . . O . .
        . . . . .
        . . . . .
        """, "", "", ""),
}  # fmt: skip


def vertices(plane: torch.Tensor) -> set[str]:
    """Returns the points of a plane int32 [N] as GTP vertices."""
    size = len(plane)
    return {coords.to_gtp(int(point), size) for point in flood.unpack_rows(plane).flatten().nonzero()}


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
            catching, escaping, caught = (set(_vertices(plane)) for plane in back)
            assert (catching, escaping) == (set(expected[0].split()), set(expected[1].split()))
            assert {vertex for vertex in caught if vertex in expected[2].split()} == set(expected[2].split())
            assert bool(caught) == bool(expected[2])


def _vertices(plane: torch.Tensor) -> list[str]:
    return [coords.to_gtp(int(point), len(plane)) for point in plane.flatten().nonzero()]


def test_the_ladder_across_the_largest_boards() -> None:
    """Black begins in one corner and catches White in the opposite one, more than thirty moves later; one white stone
    there breaks it.
    """
    for size in (13, 19, 25):
        rows = [[0] * size for _ in range(size)]
        for row, column, colour in ((2, 3, 1), (3, 2, 1), (4, 3, 1), (2, 4, 1), (3, 3, 2)):
            rows[row][column] = colour
        broken = [list(row) for row in rows]
        broken[size - 4][size - 4] = 2
        stones = torch.tensor([rows, broken], dtype=torch.int8)
        found = read_ladders(board.from_stones(stones, torch.ones(2, dtype=torch.int8), Rules(size)))
        caught, escaping = flood.unpack_rows(found.caught[:, 1]), flood.unpack_rows(found.escaping[:, 1])
        assert caught[0].nonzero().tolist() == [[3, 3]] and not caught[1].any() and not found.given_up.any()
        assert not escaping[0].any() and escaping[1].nonzero().tolist() == [[3, 4]]


def test_what_is_read_does_not_depend_on_the_batch() -> None:
    """Boards of several sizes in one batch: each is read as if it were alone, and nothing is found off its board."""
    rng = random.Random(4)
    sizes = [rng.choice((5, 7, 9)) for _ in range(40)]
    alone, padded = [], torch.zeros(40, 9, 9, dtype=torch.int8)
    for game, size in enumerate(sizes):
        rows = [[rng.choice((0, 0, 1, 2)) for _ in range(size)] for _ in range(size)]
        padded[game, :size, :size] = torch.tensor(rows, dtype=torch.int8)
        stones = torch.tensor([rows], dtype=torch.int8)
        alone.append(read_ladders(board.from_stones(stones, torch.ones(1, dtype=torch.int8), Rules(size))))
    found = read_ladders(
        board.from_stones(padded, torch.ones(40, dtype=torch.int8), [Rules(max(size, 5)) for size in [9, *sizes[1:]]])
    )
    for game, single in enumerate(alone):
        for name in ("caught", "catching", "escaping"):
            size = sizes[game]
            if game:  # the first was given a larger board, so that the batch has that side
                assert getattr(found, name)[game, :, :size].tolist() == getattr(single, name)[0].tolist()
                assert not getattr(found, name)[game, :, size:].any()


def test_a_reading_that_grows_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as no ladder, and is reported."""
    rows = parse(CLASSICAL["runs into the corner"][0])
    state = board.from_stones(torch.tensor([rows], dtype=torch.int8), torch.ones(1, dtype=torch.int8), Rules(9))
    monkeypatch.setattr(ladders, "MOST_LANES", 3)
    found = read_ladders(state)
    assert found.given_up.tolist() == [1] and not found.caught.any() and not found.escaping.any()


def test_the_movers_ladders_are_part_of_all() -> None:
    positions = [rows for rows in ladder_positions(400, seed=3) if len(rows) == 9]
    to_play = torch.tensor([1 + game % 2 for game in range(len(positions))], dtype=torch.int8)
    state = board.from_stones(torch.tensor(positions, dtype=torch.int8), to_play, Rules(9))
    whole, part = read_ladders(state), read_ladders(state, for_mover=True)
    own = (to_play - 1).to(torch.int64).view(-1, 1, 1).expand(-1, 1, 9)
    for name, side in (("catching", 1 - own), ("escaping", own)):
        assert (getattr(whole, name).gather(1, side) == getattr(part, name).gather(1, side)).all()
        assert not getattr(part, name).gather(1, 1 - side).any()
