"""The kernels of the encoders against the plain way: every preset and every group, sizes from 5 to 19 alone and in one
batch.
"""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch
from test_features_oracle import PLANES, RULES
from test_ladders import ladder_positions

from zerogo import board, kernels
from zerogo.features import ENCODERS, make_encoder, tactics
from zerogo.features.ladders import Ladders, read_ladders
from zerogo.features.tactics import BoundedTactics, Numbers
from zerogo.features.view import View
from zerogo.players import RandomPlayer
from zerogo.rules import Rules

pytest.importorskip("numba")
CPU = torch.device("cpu")
SIZES = (5, 9, 13, 19)
READ_LADDERS = {name for name, groups in ENCODERS.items() if any("ladder" in group for group in groups)}


@cache
def played(sizes: tuple[int, ...], plies: int, seed: int = 1) -> board.State:
    """Returns games after some plies; the first half played at random, the others by the player that spares its
    eyes.
    """
    state = board.new_games(len(sizes), [Rules(size, 6.5, suicide=index % 3 == 2) for index, size in enumerate(sizes)])
    lanes, generator = torch.arange(len(sizes)), torch.Generator().manual_seed(seed)
    for _ in range(plies):
        weights = board.legal_actions(state).to(torch.float32)
        weights[:, -1] = 1e-6
        anything = torch.multinomial(weights, 1, generator=generator).squeeze(1)
        state = board.step(
            state, torch.where(lanes < len(sizes) // 2, anything, RandomPlayer().choose(state, lanes, seed))
        )
    return state


def batches() -> list[board.State]:
    """Returns games of equal and of different sizes, some over, at their beginning, in the middle and late; of both
    sides to move.
    """
    states = [played((size,) * 6, size * size * share // 10 + share % 2) for size in SIZES for share in (0, 5, 9)]
    return [*states, played((5, 9, 19, 7, 12, 6) * 2, 60), played((5, 9, 16, 7, 12, 6) * 2, 131), mixed_rules()]


def mixed_rules() -> board.State:
    state = board.new_games(len(RULES), RULES)
    generator = torch.Generator().manual_seed(3)
    for _ in range(35):
        state = board.step(
            state, torch.multinomial(board.legal_actions(state).to(torch.float32), 1, generator=generator).squeeze(1)
        )
    return state


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.float64])
@pytest.mark.parametrize("name", [*ENCODERS, "all groups"])
def test_planes_agree_with_the_plain_ones(name: str, dtype: torch.dtype) -> None:
    groups = sorted(group for group in PLANES if "ladder" not in group) if name == "all groups" else name
    if dtype not in (torch.float32, torch.bfloat16) and name not in ("zero17", "handcrafted"):
        pytest.skip("other dtypes are painted alike")
    encoder = make_encoder(groups, komi_input=True)
    for state in batches() if dtype == torch.float32 else batches()[-3:]:
        found, told = encoder.planes(state, dtype), encoder.globals(state)
        with kernels.plain():
            expected, numbers = encoder.planes(state, dtype), encoder.globals(state)
            given_up = read_ladders(state).given_up if name in READ_LADDERS else torch.zeros(1)
        assert (
            found.dtype == dtype
            and found.shape == expected.shape
            and found.is_contiguous(memory_format=torch.channels_last)
        )
        assert ((found == expected).flatten(1).all(1) | (given_up != 0)).all() and torch.equal(told, numbers)


def test_tactics_agree_with_the_plain_ones() -> None:
    for state in batches():
        view = View(state)
        fast, plain = tactics.read_tactics(state, view.legal), BoundedTactics(state, view.legal)
        assert isinstance(fast, Numbers)
        for name in Numbers._fields:
            found = getattr(fast, name)
            assert found.dtype == torch.int16 and torch.equal(found, getattr(plain, name)), name


def test_ladders_agree_with_the_lock_step_reader() -> None:
    states = batches()
    by_size: dict[int, list] = {}
    for rows in ladder_positions(400, seed=7):
        by_size.setdefault(len(rows), []).append(rows)
    for size, positions in by_size.items():
        to_play = torch.tensor([1 + game % 2 for game in range(len(positions))], dtype=torch.int8)
        states.append(board.from_stones(torch.tensor(positions, dtype=torch.int8), to_play, Rules(size)))
    number = sum(compare_ladders(state, for_mover) for state in states for for_mover in (False, True))
    assert number > 800


def compare_ladders(state: board.State, for_mover: bool) -> int:
    """Compares both readers where neither gives up; returns in how many positions."""
    found = read_ladders(state, for_mover)
    with kernels.plain():
        expected = read_ladders(state, for_mover)
    read = (found.given_up == 0) & (expected.given_up == 0)
    assert found.given_up.dtype == torch.int64 and (~read).sum() <= 0.1 * len(read)
    for name in ("caught", "catching", "escaping"):
        rows = getattr(found, name)
        assert rows.dtype == torch.int32 and torch.equal(rows[read], getattr(expected, name)[read]), name
    return int(read.sum())


def test_ladders_of_stones_without_liberties() -> None:
    """No game has such positions, but whoever sets one up gets an answer, the same in every batch."""
    rng = random.Random(5)
    stones = torch.tensor(
        [[[rng.choice((0, 1, 2)) for _ in range(7)] for _ in range(7)] for _ in range(70)], dtype=torch.int8
    )
    to_play = torch.ones(70, dtype=torch.int8)
    whole = read_ladders(board.from_stones(stones, to_play, Rules(7)))
    for game in range(70):
        alone = read_ladders(board.from_stones(stones[game : game + 1], to_play[:1], Rules(7)))
        assert torch.equal(alone.caught[0], whole.caught[game]) and torch.equal(alone.escaping[0], whole.escaping[game])


def test_several_threads_give_the_same() -> None:
    state = played((9, 7, 9) * 90, 40)
    encoders = [make_encoder(name, komi_input=True) for name in ("zero17", "alphago48", "katago22", "handcrafted")]
    expected = [encoder.planes(state) for encoder in encoders]
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for encoder, planes in zip(encoders, expected, strict=True):
            assert torch.equal(encoder.planes(state), planes), encoder.name
    finally:
        torch.set_num_threads(threads)


def test_tensors_that_are_not_contiguous() -> None:
    """A batch may be a view of a larger one."""
    state = played((9,) * 12, 30)
    half = state.map(lambda tensor: tensor[::2])
    clean = half.map(torch.clone)
    for name in ("zero17", "alphago48", "katago22"):
        encoder = make_encoder(name, komi_input=True)
        assert torch.equal(encoder.planes(half), encoder.planes(clean))


def test_kernels_take_what_their_doors_say() -> None:
    """Planes, tactics and ladders are compiled for the CPU, and `plain` leaves them out."""
    for name in ("planes", "tactics", "ladders"):
        assert kernels.compiled(name, CPU) is not None
    with kernels.plain():
        assert kernels.compiled("planes", CPU) is None
    state = played((9,) * 6, 30)
    found = Ladders(*kernels.compiled("ladders", CPU).read(state.black, state.white, state.on_board, None, 0))
    assert found.given_up.sum() > 0 and not found.caught.any()  # not one answer may be tried
