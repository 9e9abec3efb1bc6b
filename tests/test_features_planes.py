"""What each preset shows at each index, on positions made by hand."""

from __future__ import annotations

import pytest
import torch
from cases import THREE_KOS
from diagrams import parse
from torch import Tensor

from zerogo import board, coords
from zerogo.features import make_encoder
from zerogo.rules import Rules

ALL = "all"
KO = """
. X O . .
X O . O .
. X O . .
. . . . .
. . . . .
"""
LADDER = """
. . . . . . . . .
. . . . . . . . .
. . X X . . . . .
. X O . . . . . .
. . . . . . . . .
. . . . . . . . .
. . . . . . . . .
. X O . . . . . .
. . X . . . . . .
"""
EYES = """
. X . X O . O
X X X X O O .
. . . X O . O
X X X X O O O
. . . . . . .
X X X X O O O
. . . X O . .
"""
SHAPES = """
. . . . . . .
. . X O . . .
. . O . . . .
. . . . . . .
. X . . . . .
. O . . . . .
. . . . . . .
"""
FIVE = "\n".join(["." * 5] * 5)
NINE = "\n".join(["." * 9] * 9)


def state_of(diagram: str, to_play: int, moves: str = "", **rules) -> board.State:
    rows = parse(diagram)
    size = len(rows)
    state = board.from_stones(
        torch.tensor([rows], dtype=torch.int8), torch.tensor([to_play], dtype=torch.int8), Rules(size, **rules)
    )
    for vertex in moves.split():
        state = board.step(state, torch.tensor([coords.from_gtp(vertex, size)]))
    return state


def vertices(plane: Tensor) -> str:
    """Returns the points of a plane that are not 0, from the top left; "all" where all are."""
    size = plane.shape[-1]
    points = plane.flatten().nonzero().flatten().tolist()
    return ALL if len(points) == size * size else " ".join(coords.to_gtp(point, size) for point in points)


def check(preset: str, state: board.State, indices: range, expected: dict[int, str]) -> None:
    """Asserts what the planes of these indices hold; those that `expected` does not name hold nothing."""
    encoder = make_encoder(preset, komi_input=False)
    planes = encoder.planes(state)[0]
    found = {index: vertices(planes[index]) for index in indices}
    names = encoder.plane_names()
    wrong = {f"{index} {names[index]}": found[index] for index in indices if found[index] != expected.get(index, "")}
    assert not wrong


def top_row(own: int, other: int, below: int, size: int = 9) -> str:
    """Returns a diagram: from the upper left corner so many black and then white stones, and white ones below the first
    points.
    """
    rows = [["."] * size for _ in range(size)]
    rows[0][: own + other] = ["X"] * own + ["O"] * other
    rows[1][:below] = ["O"] * below
    return "\n".join("".join(row) for row in rows)


# AlphaGo


def test_alphago_stones_and_constants() -> None:
    others = "D5 E5 D4 E4 A3 D3 E3 A2 B2 C2 D2 E2 A1 B1 C1 D1 E1"
    black, white = "B5 A4 B3", "C5 B4 D4 C3"
    check(
        "alphago48",
        state_of(KO, 1),
        range(4),
        {0: black, 1: white, 2: f"A5 {others}".replace("E5 D4", "E5 C4"), 3: ALL},
    )
    after = "A5 D5 E5 B4 E4 A3 D3 E3 A2 B2 C2 D2 E2 A1 B1 C1 D1 E1"
    check("alphago48", state_of(KO, 1, "C4"), range(4), {0: "C5 D4 C3", 1: "B5 A4 C4 B3", 2: after, 3: ALL})
    check("alphago49", state_of(KO, 1), range(47, 49), {48: ALL})
    check("alphago49", state_of(KO, 2), range(47, 49), {})


def test_alphago_turns_since() -> None:
    state = state_of(NINE, 1, "A9 C9 E9 G9 A7 C7 E7 G7 A5 C5")
    expected = {4: "C5", 5: "A5", 6: "G7", 7: "E7", 8: "C7", 9: "A7", 10: "G9", 11: "A9 C9 E9"}
    check("alphago48", state, range(4, 12), expected)
    check("alphago48", state_of(KO, 1, "C4 pass"), range(4, 12), {5: "C4", 11: "B5 C5 A4 D4 B3 C3"})


@pytest.mark.parametrize("number", range(1, 10))
def test_alphago_liberties(number: int) -> None:
    """A string of n - 1 stones from the corner along the edge has n liberties; one alone between two others has one."""
    diagram = top_row(number - 1, 0, 0) if number > 1 else "XO.\n...\n..."
    expected = " ".join(coords.to_gtp(point, 9) for point in range(number - 1)) if number > 1 else "A3"
    found = vertices(make_encoder("alphago48", False).planes(state_of(diagram, 1))[0, 11 + min(number, 8)])
    assert found == expected


@pytest.mark.parametrize("number", range(1, 9))
def test_alphago_captures_and_self_atari(number: int) -> None:
    """n white stones between black ones die by a move at their end; n black stones between white ones are left with one
    liberty.
    """
    swapped = top_row(number, 0, number).translate(str.maketrans("XO", "OX"))
    last = coords.to_gtp(number, 9)
    check("alphago48", state_of(swapped, 1), range(20, 28), {19 + number: last})
    if number < 8:
        self_atari = vertices(
            make_encoder("alphago48", False).planes(state_of(top_row(number - 1, 0, number + 1), 1))[0, 27 + number]
        )
        assert coords.to_gtp(number - 1, 9) in self_atari.split()
        check(
            "alphago48", state_of(top_row(number - 1, 0, number), 1), range(36, 37), {36: coords.to_gtp(number - 1, 9)}
        )
    free = make_encoder("alphago48", False).planes(state_of(top_row(number - 1, 0, 0), 1))[0, 36:44]
    assert free[:, 0, number - 1].tolist() == [float(liberties == min(number + 1, 8)) for liberties in range(1, 9)]


def test_alphago_ladders_and_sense() -> None:
    check("alphago48", state_of(LADDER, 1), range(44, 46), {44: "C5"})
    check("alphago48", state_of(LADDER, 1, "C5"), range(44, 46), {})
    check("alphago48", state_of(KO, 1, "C4"), range(44, 46), {45: "D5"})
    # F5 is an eye of White's, F7 and G6 are not: each lacks the other at its only corner inside.
    check("alphago48", state_of(EYES, 2), range(46, 48), {46: "F7 G6 A5 B5 C5 A3 B3 C3 D3 E3 F3 G3 A1 B1 C1 F1 G1"})


# KataGo


def test_katago_board_stones_liberties() -> None:
    expected = {0: ALL, 1: "C5 D4 C3", 2: "B5 A4 C4 B3", 3: "C5 C4", 4: "B5 C3", 5: "A4 D4 B3", 6: "B4"}
    check("katago22", state_of(KO, 1, "C4"), range(9), expected)


def test_katago_superko_bans() -> None:
    """Three kos: White may not make the position of the start again at B2, only the simple ko rule lets it. Nor retake
    at B5 at once.
    """
    for superko, banned in (("positional", "B5 B2"), ("situational", "B5 B2"), ("simple", "B5")):
        check("katago22", state_of(THREE_KOS, 1, "C8 B5 C2 B8 C5", superko=superko), range(6, 7), {6: banned})


def test_katago_last_moves() -> None:
    state = state_of(FIVE, 1, "A1 B2 pass C3 D4 E5")
    check("katago22", state, range(7, 14), {9: "E5", 10: "D4", 11: "C3", 13: "B2"})
    check("katago22", state_of(FIVE, 1, "A1 pass pass"), range(7, 14), {})
    check("katago22", state_of(FIVE, 1, "B2"), range(7, 14), {9: "B2"})


def test_katago_ladders() -> None:
    check("katago22", state_of(LADDER, 1), range(14, 18), {14: "C6", 15: "C6", 16: "C6", 17: "C5"})
    check("katago22", state_of(LADDER, 1, "G3 D6"), range(14, 18), {15: "C6", 16: "C6"})


def test_katago_area() -> None:
    black = "A7 B7 C7 D7 A6 B6 C6 D6 A5 B5 C5 D5 A4 B4 C4 D4 A2 B2 C2 D2 A1 B1 C1 D1"
    white = "E7 F7 G7 E6 F6 G6 E5 F5 G5 E4 F4 G4 E2 F2 G2 E1 F1 G1"
    check("katago22", state_of(EYES, 1), range(18, 22), {18: black, 19: white})
    check("katago22", state_of(EYES, 2), range(18, 22), {18: white, 19: black})
    check("katago22", state_of(EYES, 1, scoring="territory"), range(18, 22), {})


def test_katago_globals() -> None:
    encoder = make_encoder("katago22", True)

    def told(state: board.State) -> list[float]:
        return [round(number, 4) for number in encoder.globals(state)[0].tolist()]

    start = told(state_of(FIVE, 1, komi=7.0))
    assert start == [0, 0, 0, 0, 0, -0.35, 1, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    passed = told(state_of(FIVE, 1, "A1 pass C1 D1 pass", komi=7.5, superko="situational", suicide=True))
    assert passed == [1, 0, 0, 1, 0, 0.375, 1, -0.5, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0.5]
    over = told(state_of(FIVE, 1, "pass pass", komi=-100.0, superko="simple", scoring="territory"))
    assert over == [1, 0, 0, 0, 0, 2.25, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]


WAVE = [(7.0, 0), (7.25, 0.25), (7.5, 0.5), (8.25, -0.25), (8.5, -0.5), (8.75, -0.25), (8.0, 0), (-7.5, -0.5)]


@pytest.mark.parametrize(("komi", "wave"), WAVE)
def test_katago_komi_parity(komi: float, wave: float) -> None:
    """On a board of odd area draws come at odd komi; White's view of the komi."""
    assert make_encoder("katago22", True).globals(state_of(FIVE, 2, komi=komi))[0, 18] == wave


# The articles


def test_article48_stones_and_history() -> None:
    empty = "A5 D5 E5 B4 E4 A3 D3 E3 A2 B2 C2 D2 E2 A1 B1 C1 D1 E1"
    now = {0: "B5 A4 C4 B3", 1: "C5 D4 C3", 2: empty}
    past = {3: "B5 A4 C4 B3", 4: "B5 A4 B3", 11: "C5 D4 C3", 12: "C5 B4 D4 C3"}
    check("article48", state_of(KO, 1, "C4"), range(19), now | past)
    line = state_of(NINE, 1, "A9 C9 E9 G9 A7 C7 E7 G7 A5 C5")
    black, white = ["A9", "E9", "A7", "E7", "A5"], ["C9", "G9", "C7", "G7", "C5"]
    expected = {3 + ago: " ".join(black[: (11 - ago) // 2]) for ago in range(8)}
    expected |= {11 + ago: " ".join(white[: (10 - ago) // 2]) for ago in range(8)}
    ordered = {
        index: " ".join(sorted(points.split(), key=lambda vertex: coords.from_gtp(vertex, 9)))
        for index, points in expected.items()
    }
    check("article48", line, range(3, 19), ordered)


def test_article48_liberties_and_captures() -> None:
    state = state_of(KO, 1, "C4")
    check("article48", state, range(19, 35), {19: "C5", 20: "C3", 21: "D4", 23: "C4", 24: "B5", 25: "A4 B3", 31: "D5"})
    check("article48", state_of(NINE, 1, "E5 G7"), range(19, 35), {22: "E5", 26: "G7"})
    for number in range(1, 6):
        caught = state_of(top_row(number, 0, number), 2)
        check("article48", caught, range(27, 35), {26 + min(number, 4): coords.to_gtp(number, 9)})
        check(
            "article48",
            state_of(top_row(number, 0, number), 1),
            range(27, 35),
            {30 + min(number, 4): coords.to_gtp(number, 9)},
        )


def test_article48_ladders() -> None:
    check("article48", state_of(LADDER, 1), range(35, 43), {39: "C6", 41: "C5"})
    check("article48", state_of(LADDER, 2), range(35, 43), {35: "C6", 37: "C5"})
    check("article48", state_of(KO, 1, "C4"), range(35, 43), {36: "C5", 38: "D5 B4", 40: "C4", 42: "D5 B4"})


def test_article48_legal_and_edge() -> None:
    first = "A5 B5 C5 D5 E5 A4 E4 A3 E3 A2 E2 A1 B1 C1 D1 E1"
    expected = {
        43: "D5 E5 E4 A3 D3 E3 A2 B2 C2 D2 E2 A1 B1 C1 D1 E1",
        44: first,
        45: "B4 C4 D4 B3 D3 B2 C2 D2",
        46: "C3",
    }
    check("article48", state_of(KO, 1, "C4"), range(43, 48), expected)
    check("article48", state_of(NINE, 1), range(47, 48), {47: "D6 E6 F6 D5 E5 F5 D4 E4 F4"})


def test_article22() -> None:
    empty = "A5 D5 E5 C4 E4 A3 D3 E3 A2 B2 C2 D2 E2 A1 B1 C1 D1 E1"
    stones = {0: "B5 A4 B3", 1: "C5 B4 D4 C3", 2: empty, 3: ALL, 4: ALL}
    check("article22", state_of(KO, 1), range(22), stones | {11: "C4", 12: "A5", 13: ALL, 15: ALL, 18: ALL})
    banned = state_of(KO, 1, "C4", superko="situational", suicide=True, scoring="territory")
    check("article22", banned, range(5, 22), {5: "C4", 10: "B4", 13: ALL, 14: ALL, 16: ALL, 19: ALL})
    moves = {5: "", 6: "E5", 7: "D4", 8: "C3", 9: ""}
    handicap = state_of(FIVE, 2, "A1 pass C3 D4 E5 pass", superko="simple")
    check("article22", handicap, range(5, 22), moves | {13: ALL, 17: ALL, 18: ALL, 20: ALL, 21: ALL})
    komi = make_encoder("article22", True).planes(state_of(FIVE, 1, komi=7.5))[0, 13]
    assert torch.equal(komi, torch.full((5, 5), -0.5))


# Handcrafted


def test_handcrafted() -> None:
    check("handcrafted", state_of(EYES, 2), range(3, 6), {4: "F7 G6 E3 F3 G3", 5: "G6 F3 F1 G1"})
    check("handcrafted", state_of(KO, 1), range(3, 5), {3: "C4", 4: "A5 A3"})
    check("handcrafted", state_of(SHAPES, 1), range(3), {0: "B6 B5 C3 C2", 1: "D5", 2: "C7 D7 A3 A2"})
    planes = make_encoder("handcrafted", False).planes(state_of(top_row(3, 1, 1), 2))[0]
    after, weakest, line = planes[6:]
    assert after[1, 1] == 3 / 8 and after[8, 8] == 2 / 8 and after[4, 4] == 4 / 8 and after[0, 0] == 0
    assert weakest[1, 1] == weakest[1, 2] == 2 / 8 and weakest[4, 4] == 0
    assert line[0, 0] == line[0, 5] == 1 / 5 and line[1, 1] == 2 / 5 and line[4, 4] == 1
