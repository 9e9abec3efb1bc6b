"""Every group and preset against `features_slow` on positions of random and of sensible games, of many sizes and rules
in one batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from features_slow import Seen, slow_globals
from ladder_reader import TooLong
from torch import Tensor

from zerogo import board, draws
from zerogo.features import ENCODERS, GROUPS, make_encoder
from zerogo.features.groups import Form, make_group
from zerogo.features.ladders import read_ladders
from zerogo.game import GameState, Move
from zerogo.players import RandomPlayer
from zerogo.rules import Rules

ASKED = {group for groups in ENCODERS.values() for group in groups}
NAMED = {group.partition(":")[0] for group in ASKED}
ALL = sorted(
    ASKED | {f"{name}:{kind.default}" if kind.most else name for name, kind in GROUPS.items() if name not in NAMED}
)
PLANES = [group for group in ALL if make_group(group).form is not Form.GLOBALS]
GLOBALS = [group for group in ALL if make_group(group).form is Form.GLOBALS]
LADDERS = {group for group in PLANES if "ladder" in group}
SLOW_AREA = {"area", "pass_alive"}  # the plain implementation takes seconds on a large board
RULES = [
    Rules(size, komi, superko, suicide, scoring)
    for (size, komi), superko, suicide, scoring in zip(
        itertools.cycle([(5, 24.5), (9, 7.0), (6, -0.5), (7, 6.5), (9, 0.25), (8, 5.0)]),
        ["positional", "situational", "simple", "positional", "positional", "situational", "simple"] * 4,
        itertools.cycle([False, True, False, False, True]),
        itertools.cycle(["area", "area", "territory"]),
    )
]


def positions(rules: list[Rules], plies: int, seed: int) -> Iterator[tuple[board.State, dict[int, Seen]]]:
    """Yields the games after each ply, and those that go on by their index. Even ones are played at random, passes now
    and then, odd ones by the player that spares its eyes."""
    state = board.new_games(len(rules), rules)
    games = [[GameState.new(rule)] for rule in rules]
    lanes, passing = torch.arange(len(rules)), state.board_size**2
    for ply in range(plies):
        weights = board.legal_actions(state).to(torch.float32)
        weights[:, -1] = 0.02 * weights.sum(1)
        anything = draws.choose(draws.key(seed, lanes, ply), weights)
        actions = torch.where(lanes % 2 == 0, anything, RandomPlayer().choose(state, lanes, seed))
        for played, action in zip(games, actions.tolist(), strict=True):
            if not played[-1].is_over:
                size = played[-1].rules.size
                row, column = divmod(action, state.board_size)
                narrow = size * size if action == passing else row * size + column
                played.append(played[-1].play(Move.from_action(narrow, size)))
        state = board.step(state, actions)
        yield state, {index: Seen(played) for index, played in enumerate(games) if not played[-1].is_over}


def compare(state: board.State, games: dict[int, Seen], groups: list[str]) -> int:
    """Compares the groups at all games given; returns how many positions were left out for their ladders."""
    encoder = make_encoder([*groups, *GLOBALS], komi_input=False)
    planes, numbers = encoder.planes(state).numpy(), encoder.globals(state)
    given_up = read_ladders(state).given_up if LADDERS & set(groups) else torch.zeros(state.num_games)
    left_out = 0
    for index, seen in games.items():
        size, first = seen.size, 0
        for group in groups:
            width = make_group(group).width
            found, first = planes[index, first : first + width], first + width
            assert not found[:, size:].any() and not found[:, :, size:].any(), f"{group} is set off the board"
            if group in LADDERS and given_up[index]:
                continue
            try:
                expected = seen.planes(group)
            except TooLong:
                left_out += 1
                continue
            different = np.argwhere(found[:, :size, :size] != np.float32(expected))
            assert not len(different), (
                f"{group}, [plane, row, column]: {different.tolist()}\n{seen.grid()}, {seen.mover}, {seen.rules}"
            )
        expected = [number for group in GLOBALS for number in slow_globals(seen, group)]
        assert torch.allclose(numbers[index], torch.tensor(expected)), (
            f"{encoder.global_names()}: {numbers[index]}, not {expected}"
        )
    return left_out


def picked(seed: int, games: dict[int, Seen], share: float) -> dict[int, Seen]:
    keep = torch.rand(len(games), generator=torch.Generator().manual_seed(seed)) < share
    return {index: seen for (index, seen), kept in zip(games.items(), keep.tolist(), strict=True) if kept}


def run(rules: list[Rules], plies: int, share: float, groups: list[str], seed: int) -> int:
    """Compares a share of all positions, drawn anew at each ply; returns how many."""
    number = 0
    for ply, (state, games) in enumerate(positions(rules, plies, seed)):
        chosen = picked(ply, games, share)
        compare(state, chosen, groups)
        number += len(chosen)
    return number


def test_all_groups_on_small_boards() -> None:
    assert run(RULES, 90, 0.12, [group for group in PLANES if group not in LADDERS], seed=1) > 150


def test_ladders_on_small_boards() -> None:
    assert run(RULES[:12], 60, 0.15, sorted(LADDERS), seed=2) > 60


def test_large_boards() -> None:
    rules = [Rules(size, 7.5, "simple") for size in (19, 13, 5, 11)]
    groups = [group for group in PLANES if group not in LADDERS | SLOW_AREA]
    assert run(rules, 220, 0.02, groups, seed=3) > 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_positions(seed: int) -> None:
    assert run(RULES, 120, 0.6, [group for group in PLANES if group not in LADDERS], seed=10 + seed) > 800
    rules = [Rules(size, 7.5, "positional", suicide=size % 2 == 1) for size in (19, 13, 16, 5, 11, 17)]
    assert run(rules, 400, 0.05, [group for group in PLANES if group not in LADDERS | SLOW_AREA], seed=20 + seed) > 40


def tensor_of(planes: list) -> Tensor:
    return torch.tensor(planes, dtype=torch.float32)


@pytest.mark.parametrize("name", list(ENCODERS))
def test_presets_are_their_groups(name: str) -> None:
    """The groups are compared above one by one; here a preset's planes lie one after the other in the order of its
    list.
    """
    state, games = next(itertools.islice(positions([Rules(7, 6.5)] * 4, 30, seed=4), 25, None))
    encoder = make_encoder(name, komi_input=False)
    planes, names = encoder.planes(state), encoder.plane_names()
    assert planes.shape == (4, encoder.num_planes, 7, 7) and len(set(names)) == len(names) == encoder.num_planes
    for index, seen in games.items():
        expected = [plane for group in ENCODERS[name] if group in PLANES for plane in seen.planes(group)]
        assert torch.equal(planes[index], tensor_of(expected))
