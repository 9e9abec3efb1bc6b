"""Triton's kernels compile for GPUs that are not here, to machine code that spills nothing or little, and keys are
torch's for any integers. What all kernels compute is tried by test_trials."""

from functools import partial

import pytest
import torch
from compiling import compile_call
from implementations import ONLY_TRITON, done, module

from zerogo import kernels
from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.kernels.shared import ROWS
from zerogo.tuning import trials

SIZES = dict.fromkeys(kernels.NAMES["cuda"], (19,)) | dict.fromkeys(("draws", "scoring"), (9,))
SIZES |= {"tree": (9, 25), "planes": (9, 19)}
MOST_SPILLS = {"tree": 64, "roots": 64}  # bytes of a thread, elsewhere none
MOST_REGISTERS = dict.fromkeys(("board", "leaf_states"), 128)  # as a game's state must stay in them


def launch_all(name: str, size: int) -> None:
    """Launches the kernels of a module as the trials of them do."""
    with kernels.plain():
        cases = list(trials.CASES[name](trials.drawn_games(size), "cuda"))
    with kernels.only(name, "cuda"):
        for function, arguments in cases:
            function(*arguments)


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, sizes in SIZES.items() for size in sizes])
def test_kernels_compile(name: str, size: int) -> None:
    pytest.importorskip("triton")
    for launched in compile_call(launch_all, name, size).values():
        assert launched and all(used["spills"] <= MOST_SPILLS.get(name, 0) for used in launched.values()), launched
        assert all(used["registers"] <= MOST_REGISTERS.get(name, 255) for used in launched.values()), launched
        assert name != "scoring" or not any(used["shared"] for used in launched.values())


@ONLY_TRITON
def test_what_no_trial_launches_compiles(way: str) -> None:
    """A batch beyond 2^31 elements, which is counted in int64, and ladders as KataGo reads them."""
    num_games = 2**31 // 48 // 19
    planes = torch.empty(num_games, 48, 19, dtype=torch.int32, device="meta")
    counts = torch.empty(1, num_games, 19, 19, dtype=torch.int16, device="meta")
    rows, to_play = torch.zeros(2, 19, dtype=torch.int32), torch.ones(2, dtype=torch.int8)
    ladders = module("ladders", way).read, *[rows] * 3, to_play, 99, torch.zeros(2, dtype=torch.int16)
    for call in ((module("planes", way).paint, ((ROWS, 48),), planes, counts, torch.bfloat16), ladders):
        for launched in compile_call(*call).values():
            assert launched and not any(used["spills"] for used in launched.values()), launched


@ONLY_TRITON
def test_keys_of_any_integers(way: str) -> None:
    """Seeds of all sizes, more games than fit a block and none, shapes that must be broadcast."""
    for number in (0, 1, 200):
        games, plies = torch.randint(-(2**63), 2**63 - 1, (number,)), torch.arange(number).to(torch.int8)
        for seed in (0, -5, 2**62 + 1):
            key = partial(rng.key, seed, Purpose.NOISE)
            for parts in ((games,), (plies, games), (games.unsqueeze(1), plies[:5])):
                assert torch.equal(done(way, key, *parts), key(*parts))
