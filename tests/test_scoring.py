"""Scoring against slow plain-Python counterparts."""

import dataclasses
import random

import pytest
import torch
from boards import crowded, of_stones, parse
from implementations import HAS_CUDA, NUMBA, TRITON, doing, done
from slow_scoring import slow_area, slow_benson

from zerogo import board, scoring
from zerogo.board import flood
from zerogo.rules import Rules
from zerogo.search import Go


def stones_of(*diagrams: str) -> torch.Tensor:
    """Returns int8 [B, N, N] from diagrams with rows separated by blanks."""
    return torch.tensor([parse(diagram.split()) for diagram in diagrams], dtype=torch.int8)


def padded(grids: list[list[list[int]]], side: int) -> torch.Tensor:
    """Returns boards of several sizes in one tensor: int8 [B, side, side]."""
    stones = torch.zeros((len(grids), side, side), dtype=torch.int8)
    for k, grid in enumerate(grids):
        stones[k, : len(grid), : len(grid)] = torch.tensor(grid, dtype=torch.int8)
    return stones


def as_set(mask: torch.Tensor) -> set:
    return {tuple(p) for p in mask.nonzero().tolist()}


POSITIONS = [(2, 200), (3, 400), (4, 400), (5, 400), (7, 200), (9, 150), (13, 30), (19, 12)]


@pytest.mark.parametrize(("size", "number"), POSITIONS)
def test_area_agrees_with_plain_python(size, number):
    rng = random.Random(size)
    grids = [crowded(size, rng, rng.uniform(0.05, 0.95)) for _ in range(number)]
    stones = torch.tensor(grids, dtype=torch.int8)
    ownership = scoring.area_ownership_black(stones)
    assert ownership.dtype == torch.int8
    for i, grid in enumerate(grids):
        owned = slow_area(grid)
        assert as_set(ownership[i] == 1) == owned[1] and as_set(ownership[i] == -1) == owned[2]


@pytest.mark.parametrize("suicide", [False, True])
@pytest.mark.parametrize(("size", "number"), POSITIONS)
def test_pass_alive_agrees_with_plain_python(size, number, suicide):
    rng = random.Random(100 + size)
    grids = [crowded(size, rng, rng.uniform(0.4, 0.95)) for _ in range(number)]
    grids += [[[c and rng.choice((c, 1)) for c in row] for row in crowded(size, rng, 0.85)] for _ in range(number)]
    stones, flags = torch.tensor(grids, dtype=torch.int8), torch.full((len(grids),), suicide)
    expected = [[slow_benson(grid, colour, suicide) for grid in grids] for colour in (1, 2)]
    for way in ("numba", "plain", "blind"):
        with doing(way):
            alive = scoring.pass_alive(stones, suicide=flags)
            rows = scoring.pass_alive_rows(*scoring._rows_of(stones, None), suicide=flags)
            all_alive = scoring.all_pass_alive(of_stones(stones, Rules(size, suicide=suicide)))
        for found, found_rows, points in zip(alive, rows, expected, strict=True):
            assert torch.equal(flood.unpack_rows(found_rows), found)  # no looks
            assert list(map(as_set, found)) == points
        settled = (alive[0] | alive[1]).flatten(1).all(1)
        assert torch.equal(all_alive, settled) and (settled.any() or size != 3) and not settled.all()
    assert any(map(any, expected)) or size < 3


def test_results_count_the_board_as_it_stands_but_where_the_game_was_ended_early():
    """A white stone that could not live stands in Black's area; under area rules it counts unless all was settled."""
    stones = stones_of(".XO.X XXXXX OOOOO .O..O OOOO.", "...X. XXXXX OOOOO .OX.O OOO..")
    assert scoring.area_ownership_black(stones)[0, 0].tolist() == [1, 1, -1, 0, 1]
    of_both = scoring.final_ownership_black(of_stones(stones, Rules(size=5)))
    assert (of_both[:, :2] == 1).all() and (of_both[:, 2:] == -1).all(), "Black's dead stone is White's point as well"
    state = of_stones(stones[:1].repeat(2, 1, 1), Rules(size=5, komi=0.5))
    score, owners = scoring.result_black(state, torch.tensor([False, True]))
    assert score.tolist() == [8 - 16 - 0.5, 10 - 15 - 0.5]
    assert owners[:, 0].tolist() == [[1, 1, -1, 0, 1], [1] * 5] and (owners[:, 1:] == owners[:1, 1:]).all()
    assert scoring.result_black(state)[0].tolist() == [score[0], score[0]]
    rules = Rules(size=5, komi=0.5, scoring="territory")
    state = of_stones(stones_of(".XO.X XXXXX OOOOO .O..O OOOO."), rules)
    state = dataclasses.replace(state, captures=torch.tensor([[2, 1]], dtype=torch.int32))
    score, owners = scoring.result_black(state)
    assert torch.equal(score, scoring.final_score_black(state)) and score.tolist() == [3 + 1 + 2 - 4 - 1 - 0.5]
    assert torch.equal(owners, scoring.final_ownership_black(state))
    assert torch.equal(Go().final_score(state, torch.tensor([0]), state), score)


def test_territory_counts_prisoners_and_the_dead_of_both_sides():
    """A wall of each side in the middle, and a dead stone behind each."""
    stones, captures = stones_of("O.XO. ..XO. ..XO. ..XO. ..XOX"), torch.tensor([[3, 1]], dtype=torch.int32)
    white, black = torch.tensor([[[1, 0, 0, 0, 0]], [[0, 0, 0, 0, 16]]], dtype=torch.int32)
    rows = *map(flood.pack_rows, (stones == 1, stones == 2, stones >= 0)), captures
    found = [scoring.territory_rows_score(*rows, dead).item() for dead in (white | black, white, black)]
    # Black has 10 points and 3 prisoners, White 5 and 1; a dead stone is a point and a prisoner, else nobody's side.
    assert found == [10 + 3 + 1 - 5 - 1 - 1, 10 + 3 + 1 - 0 - 1, 0 + 3 - 5 - 1 - 1]


# Boards of 1 point, of one colour, without a stone, with strings that have no liberty, all alive, and with so many
# regions that there can't be more.
ODD = [[[0]], [[1]], [[1, 2], [2, 1]], [[0, 1], [1, 0]], [[1, 1], [1, 1]], [[0] * 7] * 7, [[2] * 7] * 7]
ODD += [[[0, colour, colour], [colour] * 3, [colour, colour, 0]] for colour in (1, 2)]
ODD += [[[1 if (r + c) % 2 else 0 for c in range(7)] for r in range(7)]]


def scored(state: board.State) -> list[torch.Tensor]:
    """Returns all that is told of positions, without and with the rule of vital regions."""
    rows = scoring.pass_alive_rows(state.black, state.white, state.on_board, state.rules.suicide, by_vital=False)
    ends = scoring.final_score_black(state), scoring.final_ownership_black(state)
    return [scoring.all_pass_alive(state), *ends, *rows]


@pytest.mark.parametrize("way", [NUMBA, "plain", "blind", TRITON])
def test_games_of_mixed_sizes_are_scored_as_if_alone(way):
    """Suicide allowed or not, some boards full of eyes; alone they are scored by the usual kernels."""
    rng, many = random.Random(3), way != "triton" or HAS_CUDA
    grids = [crowded(n, rng, rng.uniform(0.5, 0.95)) for n in ([1, 2, 3, 4, 5, 6, 7] * 24 if many else [4, 6])]
    grids = [[[c and rng.choice((c, c, 1)) for c in row] for row in grid] for grid in grids] + ODD
    rules = [Rules(size=len(grid), komi=0.5, suicide=bool(i % 3 == 0)) for i, grid in enumerate(grids)]
    together = done(way, scored, of_stones(padded(grids, 7), rules), names=("scoring",))
    assert together[0].any() and not together[0].all() and all((rows != 0).any() for rows in together[3:])
    for i, grid in enumerate(grids):
        alone = scored(of_stones([grid], rules[i]))
        for one, whole in zip(alone, together, strict=True):
            assert torch.equal(one[0], whole[i][(slice(len(grid)),) * whole[i].ndim])
            assert one[0].count_nonzero() == whole[i].count_nonzero(), "something lies beyond the board"


def test_suicide_is_allowed_in_each_game_or_in_all():
    with pytest.raises(ValueError, match=r"suicide is \[1\]; it must be one bool, or bool \[4\]"):
        scoring.pass_alive(torch.zeros(4, 5, 5, dtype=torch.int8), suicide=torch.tensor([True]))
