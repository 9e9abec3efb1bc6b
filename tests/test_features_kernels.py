"""The encoders' kernels: they paint what they are told, give torch's planes in every dtype and batch, wait for no
device, work without Numba, and compile for GPUs."""

import subprocess
import sys

import pytest
import torch
from compiling import compile_call
from features_slow import LADDERS, PLANES
from implementations import READERS, encode, module
from positions import played

from zerogo import board, kernels
from zerogo.features import ENCODERS, make_encoder
from zerogo.kernels.shared import COUNTS, ROWS, VALUES
from zerogo.rules import Rules

CPU = torch.device("cpu")
SIZES = (5, 9, 13, 19)
WITHOUT_LADDERS = sorted(set(PLANES) - LADDERS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("by", READERS)
def test_planes_are_painted_as_told(by: str, dtype: torch.dtype) -> None:
    """Bit rows and counts in an order that mixes them, and room for values."""
    generator = torch.Generator().manual_seed(5)
    rows = torch.randint(0, 2**9, (3, 17, 9), generator=generator).to(torch.int32)
    counts = torch.randint(0, 12, (2, 3, 9, 9), generator=generator).to(torch.int16)
    spans = ((ROWS, 5), (COUNTS, 8), (VALUES, 2), (ROWS, 12), (COUNTS, 4))
    device = "cuda" if by == "cuda" else "cpu"
    found = module("planes", by).paint(spans, rows.to(device), counts.to(device), dtype).cpu()
    bits = (rows.transpose(1, 2).unsqueeze(2) >> torch.arange(9).view(-1, 1)) & 1
    ranges = ((counts[0], 8), (counts[1], 4))
    first, second = (number.clamp(max=most).unsqueeze(-1) == torch.arange(1, most + 1) for number, most in ranges)
    parts = [bits[..., :5], first, torch.zeros(3, 9, 9, 2), bits[..., 5:], second]
    assert torch.equal(found, torch.cat([part.to(dtype) for part in parts], dim=-1))


def batches() -> list[board.State]:
    """Returns games of equal and of different sizes, some over, at their beginning, in the middle and late."""
    states = [played((size,) * 6, size * size * share // 10 + share % 2) for size in SIZES for share in (0, 5, 9)]
    return [*states, played((5, 9, 19, 7, 12, 6) * 2, 60), played((5, 9, 16, 7, 12, 6) * 2, 131)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.float64])
@pytest.mark.parametrize("name", [*ENCODERS, "all groups"])
def test_planes_agree_with_the_plain_ones(name: str, dtype: torch.dtype) -> None:
    if dtype not in (torch.float32, torch.bfloat16) and name not in ("zero17", "handcrafted"):
        pytest.skip("other dtypes are painted alike")
    encoder = make_encoder(WITHOUT_LADDERS if name == "all groups" else name, komi_input=True)
    for state in batches() if dtype == torch.float32 else batches()[-2:]:
        found, told = encoder.planes(state, dtype), encoder.globals(state)
        with kernels.plain():
            expected, numbers = encoder.planes(state, dtype), encoder.globals(state)
        assert found.dtype == dtype and found.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(found, expected) and torch.equal(told, numbers)


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


def test_plain_leaves_kernels_out() -> None:
    assert all(kernels.module_for(name, CPU) is not None for name in ("planes", "tactics", "ladders"))
    with kernels.plain():
        assert kernels.module_for("planes", CPU) is None


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import torch
from zerogo import board, kernels
from zerogo.features import make_encoder
from zerogo.rules import Rules
assert kernels.module_for("planes", torch.device("cpu")) is None
stones, expected = torch.load(sys.argv[1])
state = board.from_stones(stones, torch.tensor([1, 2], dtype=torch.int8), Rules(9, suicide=True))
for name, planes in expected.items():
    assert torch.equal(make_encoder(name, True).planes(state), planes), name
"""


def test_a_machine_without_numba(tmp_path) -> None:
    """There the loops of tactics and ladders run as Python."""
    stones = played((9, 9), 45).stones
    rules = Rules(9, suicide=True)
    state = board.from_stones(stones, torch.tensor([1, 2], dtype=torch.int8), rules)
    expected = {name: make_encoder(name, True).planes(state) for name in ENCODERS}
    torch.save((stones, expected), tmp_path / "expected.pt")
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_NUMBA, str(tmp_path / "expected.pt")], check=True)


# Triton


@pytest.mark.parametrize("size", [9, 19])
def test_they_compile(size: int) -> None:
    """Boards that have no memory are enough; a batch beyond 2^31 elements is counted in int64."""
    for spans, num_games in ((((ROWS, 17), (COUNTS, 31)), 2), (((ROWS, 48),), 2), (((ROWS, 48),), 2**31 // 48 // size)):
        rows = torch.empty(num_games, 48, size, dtype=torch.int32, device="meta")
        counts = torch.empty(1, num_games, size, size, dtype=torch.int16, device="meta")
        compile_call(module("planes", "cuda").paint, spans, rows, counts, torch.bfloat16)
    rows = torch.zeros(2, size, dtype=torch.int32)
    tactics, ladders = module("tactics", "cuda"), module("ladders", "cuda")
    used = list(compile_call(tactics.read, *[rows] * 4).values())
    if size == 19:
        used += compile_call(ladders.read, *[rows] * 3, torch.ones(2, dtype=torch.int8), 99).values()
    assert used and not any(use["spills"] for launched in used for use in launched.values())


@pytest.mark.gpu
@pytest.mark.parametrize("name", ENCODERS)
def test_presets_on_a_gpu_never_wait(name: str) -> None:
    state, encoder = played((9, 19, 13, 5) * 8, 120, seed=3), make_encoder(name, komi_input=True)
    planes, numbers = encode(encoder, state, "plain")
    moved = state.to(torch.device("cuda"))
    encoder.planes(moved)  # compiles, and fills the tables
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = encoder.planes(moved), encoder.globals(moved)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(found[0].cpu(), planes)
    torch.testing.assert_close(found[1].cpu(), numbers)
