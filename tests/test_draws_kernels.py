"""Keyed draws by Triton, interpreted where there is no GPU: the bits of torch's, and logarithms of the same numbers."""

from functools import partial

import pytest
import torch
from compiling import compile_call
from implementations import ONLY_TRITON, done
from torch import Tensor

from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.rules import own_actions


@ONLY_TRITON
def test_keys_are_the_same(way: str) -> None:
    """Any integers, seeds of all sizes, one game or more than fit a block, shapes that must be broadcast."""
    fast = partial(done, way)
    torch.manual_seed(1)
    for number in (0, 1, 3, 200):
        games, plies = (
            torch.randint(-(2**63), 2**63 - 1, (number,)),
            torch.randint(0, 400, (number,), dtype=torch.int32),
        )
        for seed in (0, 1, 16, -5, 2**62 + 1, games):
            for parts in ((games,), (games, plies, Purpose.MOVE), (Purpose.KOMI, games), (plies.to(torch.int8), games)):
                if seed is games:
                    assert torch.equal(fast(lambda g: rng.key(g, Purpose.NOISE, 7), games), rng.key(games, 3, 7))
                    continue
                tensors = [part for part in parts if isinstance(part, Tensor)]

                def keys(*given: Tensor, seed: int = seed, parts: tuple = parts) -> Tensor:
                    left = list(given)
                    return rng.key(seed, *(left.pop(0) if isinstance(part, Tensor) else part for part in parts))

                assert torch.equal(fast(keys, *tensors), keys(*tensors))
    grid = fast(lambda one, other: rng.key(one.unsqueeze(1), other), torch.arange(3), torch.arange(5))
    assert torch.equal(grid, rng.key(torch.arange(3).unsqueeze(1), torch.arange(5)))
    drawn = fast(lambda numbers: rng.below(8, 1, Purpose.SYMMETRY, numbers), torch.arange(300))
    assert torch.equal(drawn, (rng.key(1, Purpose.SYMMETRY, torch.arange(300)) >> 40) & 7)
    assert drawn.bincount().tolist() == [len(drawn[drawn == k]) for k in range(8)] and drawn.bincount().min() > 15


def test_kernels_compile() -> None:
    pytest.importorskip("triton")
    from zerogo.kernels.cuda import draws as fast

    games, places = torch.arange(4), own_actions(torch.full((4,), 9, dtype=torch.int32), 9)
    for seed in (1, 2**40, games):
        compile_call(fast.key, (seed, games, games.to(torch.int32), Purpose.MOVE), 0)
    compile_call(fast.key, (1, Purpose.SYMMETRY, games), 7)
    for at in (None, places):
        for is_gumbel in (False, True):
            compile_call(fast.uniform, games, 82, at, is_gumbel)
        used = compile_call(fast.log_gamma, games, torch.rand(4, 82), at)
        assert all(kernel["spills"] == 0 for kernels_used in used.values() for kernel in kernels_used.values())
