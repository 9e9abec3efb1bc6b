"""What each preset shows at each index, on positions made by hand: tables in `data/planes.json`, and here what comes in
several sizes here. A case of the table names the planes it looks at; those without points hold nothing."""

import json
from pathlib import Path

import pytest
import torch
from diagrams import parse
from positions import of_stones
from torch import Tensor

from zerogo import board, coords
from zerogo.features import make_encoder

ALL = "all"
TABLE = json.loads((Path(__file__).parent / "data" / "planes.json").read_text())
DIAGRAMS = {name: "\n".join(rows) for name, rows in TABLE["diagrams"].items()}
KO, EYES, SHAPES, FIVE, NINE = (DIAGRAMS[name] for name in ("KO", "EYES", "SHAPES", "FIVE", "NINE"))


def state_of(diagram: str, to_play: int, moves: str = "", **rules) -> board.State:
    state = of_stones([parse(diagram)], to_play, **rules)
    for vertex in moves.split():
        state = board.step(state, torch.tensor([coords.from_gtp(vertex, state.board_size)]))
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
    points."""
    rows = [["."] * size for _ in range(size)]
    rows[0][: own + other] = ["X"] * own + ["O"] * other
    rows[1][:below] = ["O"] * below
    return "\n".join("".join(row) for row in rows)


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: f"{case['about']}, {case['moves']}")
def test_by_hand(case: dict) -> None:
    """Three kos, for one: White may not make the position of the start again at B2, only the simple ko rule lets it."""
    state = state_of(DIAGRAMS[case["diagram"]], case["to_play"], case["moves"], **case["rules"])
    expected = {int(index): points for index, points in case["points"].items()}
    check(case["encoder"], state, range(*case["planes"]), expected)


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
    liberty."""
    swapped = top_row(number, 0, number).translate(str.maketrans("XO", "OX"))
    last = coords.to_gtp(number, 9)
    check("alphago48", state_of(swapped, 1), range(20, 28), {19 + number: last})
    if number < 8:
        end, hemmed_in = coords.to_gtp(number - 1, 9), state_of(top_row(number - 1, 0, number + 1), 1)
        assert end in vertices(make_encoder("alphago48", False).planes(hemmed_in)[0, 27 + number]).split()
        check("alphago48", state_of(top_row(number - 1, 0, number), 1), range(36, 37), {36: end})
    free = make_encoder("alphago48", False).planes(state_of(top_row(number - 1, 0, 0), 1))[0, 36:44]
    assert free[:, 0, number - 1].tolist() == [float(liberties == min(number + 1, 8)) for liberties in range(1, 9)]


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


def test_article48_captures() -> None:
    for number in range(1, 6):
        for to_play, before in ((2, 26), (1, 30)):
            caught = state_of(top_row(number, 0, number), to_play)
            check("article48", caught, range(27, 35), {before + min(number, 4): coords.to_gtp(number, 9)})


def test_article22_komi() -> None:
    komi = make_encoder("article22", True).planes(state_of(FIVE, 1, komi=7.5))[0, 13]
    assert torch.equal(komi, torch.full((5, 5), -0.5))


def test_handcrafted_numbers() -> None:
    planes = make_encoder("handcrafted", False).planes(state_of(top_row(3, 1, 1), 2))[0]
    after, weakest, line = planes[6:]
    assert after[1, 1] == 3 / 8 and after[8, 8] == 2 / 8 and after[4, 4] == 4 / 8 and after[0, 0] == 0
    assert weakest[1, 1] == weakest[1, 2] == 2 / 8 and weakest[4, 4] == 0
    assert line[0, 0] == line[0, 5] == 1 / 5 and line[1, 1] == 2 / 5 and line[4, 4] == 1
