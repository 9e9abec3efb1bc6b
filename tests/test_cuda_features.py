"""The encoders' CUDA kernels, interpreted, against torch and the plain ladder reader; and that they compile. A GPU, if
there is one, runs the same on many more positions."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from cases import spiral
from compiling import compile_for
from diagrams import parse
from host_reads import host_reads
from interpreting import interpreted
from test_ladders import CLASSICAL, ladder_positions
from torch import Tensor

from zerogo import board, kernels
from zerogo.board.position import own_and_opponent
from zerogo.board.state import RECENT
from zerogo.features import ENCODERS, make_encoder
from zerogo.features import ladders as plain_ladders
from zerogo.features.ladders import read_ladders
from zerogo.features.tactics import BoundedTactics
from zerogo.features.view import View
from zerogo.rules import Rules

pytest.importorskip("triton")
from zerogo.kernels.cuda import ladders, planes, tactics  # noqa: E402
from zerogo.kernels.shared import TACTICS  # noqa: E402

MODULES: dict[str, ModuleType] = {"planes": planes, "tactics": tactics, "ladders": ladders}
DOORS = {"planes": ("paint", "history", "ages", "eyes"), "tactics": ("read",), "ladders": ("read",)}
LADDERS = ("caught", "catching", "escaping", "given_up")


def positions(sizes: list[int], seed: int, empty: float = 0.4, suicide: bool = True) -> board.State:
    """Returns positions of random stones in which either side is to move, of several sizes in one batch."""
    generator = torch.Generator().manual_seed(seed)
    rules = [Rules(size, suicide=suicide) for size in sizes]
    side, number = max(sizes), len(sizes)
    stones = torch.randint(1, 3, (number, side, side), generator=generator).to(torch.int8)
    stones[torch.rand(stones.shape, generator=generator) < empty] = 0
    for game, size in enumerate(sizes):
        stones[game, size:] = stones[game, :, size:] = 0
    return board.from_stones(stones, torch.randint(1, 3, (number,), generator=generator).to(torch.int8), rules)


def games(sizes: list[int], plies: int, seed: int) -> board.State:
    """Returns games after some plies of random moves, with captures, kos and a history."""
    state, generator = board.new_games(len(sizes), [Rules(size) for size in sizes]), torch.Generator().manual_seed(seed)
    for _ in range(plies):
        legal = board.legal_actions(state).to(torch.float32)
        legal[:, -1] *= 0.01
        state = board.step(state, torch.multinomial(legal, 1, generator=generator).squeeze(1))
    return state


# Planes


def painted(module_device: str, dtype: torch.dtype) -> None:
    """Paints all three kinds of planes in one launch, in an order that mixes them."""
    generator = torch.Generator().manual_seed(5)
    rows = torch.randint(0, 2**9, (3, 9, 17), generator=generator).to(torch.int32)
    numbers = torch.randint(0, 12, (2, 3, 9, 9), generator=generator).to(torch.int16)
    values = torch.randn(3, 9, 9, 3, generator=generator)
    spans = ((0, 5), (1, 8), (2, 1), (0, 12), (1, 4), (2, 2))
    given = (tensor.to(module_device) for tensor in (rows, numbers, values))
    found = planes.paint(spans, *given, dtype).cpu()
    bits = ((rows.unsqueeze(2) >> torch.arange(9).view(-1, 1)) & 1).to(dtype)
    first, second = (
        (numbers[k].clamp(max=most).unsqueeze(-1) == torch.arange(1, most + 1)).to(dtype)
        for k, most in ((0, 8), (1, 4))
    )
    real = values.to(dtype)
    assert torch.equal(
        found, torch.cat([bits[..., :5], first, real[..., :1], bits[..., 5:], second, real[..., 1:]], dim=-1)
    )


@interpreted
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_planes_are_painted_as_told(dtype: torch.dtype) -> None:
    painted("cpu", dtype)


@interpreted
@pytest.mark.parametrize("group", ["stones", "liberties:3", "rule_planes"])
def test_planes_of_one_kind_alone(group: str, as_on_cuda: Callable[[], Any]) -> None:
    state, encoder = games([5, 6], 9, seed=4), make_encoder([group], komi_input=False)
    with kernels.plain():
        wanted = encoder.planes(state)
    as_on_cuda()
    assert torch.equal(encoder.planes(state), wanted)


@interpreted
def test_rows_of_history_ages_and_eyes(blind: Callable[[], None]) -> None:
    """Games of several lengths and sizes: young ones have no history to look at."""
    state = games([5, 9, 7], 30, seed=1)
    short = games([5, 9, 7], 3, seed=2)
    blind()
    for one in (state, short):
        mover, past = one.to_play, (one.black, one.white, one.recent)
        view = View(one)
        for earlier in (1, RECENT):
            own = make_encoder([f"history:{earlier}"], komi_input=False).planes(one)
            assert torch.equal(_points(planes.history(*past, mover, earlier)), own)
            black_first = make_encoder([f"colour_history:{earlier}"], komi_input=False).planes(one)
            assert torch.equal(_points(planes.history(*past, None, earlier)), black_first)
        for most in (1, 4, 8):
            assert torch.equal(planes.ages(*past, one.ply, most), view.ages(most))
        assert torch.equal(planes.eyes(view.sides[0], one.on_board) & view.empty, view.own_eyes)


def _points(rows: Tensor) -> Tensor:
    return ((rows.unsqueeze(2) >> torch.arange(rows.shape[1]).view(-1, 1)) & 1).permute(0, 3, 1, 2).to(torch.float32)


# Tactics


def same_tactics(state: board.State, device: str = "cpu") -> None:
    legal = View(state).legal_but_for_superko
    rows = (*own_and_opponent(state), state.on_board, legal)
    found = tactics.read(*(plane.to(device) for plane in rows)).cpu()
    wanted = BoundedTactics(state, legal)
    for name, numbers in zip(TACTICS, found, strict=True):
        assert torch.equal(numbers, getattr(wanted, name)), name


@interpreted
def test_tactics_of_crowded_boards_of_several_sizes() -> None:
    same_tactics(positions([5, 7, 9, 5, 8], seed=1, empty=0.35))


@interpreted
def test_tactics_of_a_crowded_large_board() -> None:
    same_tactics(positions([19], seed=2, empty=0.25))


@interpreted
def test_tactics_of_spirals() -> None:
    """One string winds over the whole board; the last liberty of all is where a move takes it, or dies."""
    stones = torch.tensor([spiral(9)[0]] * 2, dtype=torch.int8)
    for suicide in (True, False):
        same_tactics(board.from_stones(stones, torch.tensor([1, 2], dtype=torch.int8), Rules(9, suicide=suicide)))


# Ladders


def same_ladders(state: board.State, for_mover: bool = False, device: str = "cpu") -> int:
    """Compares with the plain reader where neither gives up; returns how many positions that leaves out."""
    with kernels.plain():
        wanted = read_ladders(state, for_mover)
    rows = (plane.to(device) for plane in (state.black, state.white, state.on_board))
    found = [
        part.cpu()
        for part in ladders.read(*rows, state.to_play.to(device) if for_mover else None, plain_ladders.MOST_LANES)
    ]
    read = (wanted.given_up == 0) & (found[3] == 0)
    for name, part in zip(LADDERS, found, strict=True):
        assert torch.equal(part[read], getattr(wanted, name)[read]), name
    return int((~read).sum())


def _classical(names: list[str], turn: int = 0) -> board.State:
    stones = torch.tensor([parse(CLASSICAL[name][0]) for name in names], dtype=torch.int8).rot90(turn, (1, 2))
    swapped = (3 - stones) * (stones != 0)
    both = torch.cat([stones, swapped]).to(torch.int8)
    return board.from_stones(both, torch.ones(len(both), dtype=torch.int8), Rules(both.shape[1]))


@interpreted
@pytest.mark.parametrize("turn", range(4))
def test_classical_ladders_of_both_colours(turn: int) -> None:
    names = (
        "captures on the way",
        "the attacker begins, and only one side works",
        "longer than the board is wide",
        "not by a ko",
    )
    assert same_ladders(_classical([names[turn]], turn)) == 0


# Black's string on D5 is caught from C5: it takes D6 in a ko, so that White may not play the more promising D6, but D4
# works as well.
BANNED = """
    O O . O X O
    . . . X O X
    O . O . O O
    X O X O O .
    X . . O O O
    X O O O . .
    """


@interpreted
def test_the_second_move_is_tried_where_a_ko_bans_the_first() -> None:
    stones = torch.tensor([parse(BANNED)], dtype=torch.int8)
    assert same_ladders(board.from_stones(stones, torch.ones(1, dtype=torch.int8), Rules(6))) == 0


@interpreted
def test_random_ladders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many programs and one: several share a game's strings, or one reads many games with one stack."""
    small = [rows for rows in ladder_positions(40, seed=5) if len(rows) == 7][:3]
    state = board.from_stones(
        torch.tensor(small, dtype=torch.int8), torch.tensor([1, 2, 1], dtype=torch.int8), Rules(7)
    )
    same_ladders(state)
    monkeypatch.setattr(ladders, "MOST_PROGRAMS", 1)
    same_ladders(state, for_mover=True)


@interpreted
def test_ladders_of_boards_of_several_sizes() -> None:
    """Random stones: captures, kos, strings that fill the board."""
    same_ladders(positions([5, 6], seed=3, empty=0.4))


@interpreted
def test_readings_that_grow_too_large_are_given_up() -> None:
    state = _classical(["runs into the corner"])
    caught, _, escaping, given_up = ladders.read(state.black, state.white, state.on_board, None, 3)
    assert given_up.tolist() == [1, 1] and not caught.any() and not escaping.any()


# Whole encoders


class Kernels:
    """Kernels that remember what they gave, to give it again in the same order without any work of their own."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.is_again = False

    def compiled(self, name: str, device: torch.device) -> SimpleNamespace | None:
        """Stands in for `kernels.compiled`."""
        doors = {
            door: self._door(module, door) for kind, module in MODULES.items() for door in DOORS[kind] if kind == name
        }
        return SimpleNamespace(**doors) if doors else None

    def _door(self, module: ModuleType, door: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self.is_again:
                return self.given.pop(0)
            self.given.append(getattr(module, door)(*arguments))
            return self.given[-1]

        return call


@pytest.fixture
def as_on_cuda(blind: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Kernels]:
    """Makes the encoders take the way that they take on CUDA with Triton, and the plain ladder reader fail."""

    def switch() -> Kernels:
        blind()
        interpreted = Kernels()
        monkeypatch.setattr(kernels, "compiled", interpreted.compiled)
        monkeypatch.setattr(plain_ladders, "Reading", None)
        return interpreted

    return switch


@interpreted
@pytest.mark.parametrize("name", [name for name in ENCODERS if name != "alphago49"])
def test_presets_as_on_cuda(name: str, as_on_cuda: Callable[[], Kernels]) -> None:
    """They show what they show without kernels, and between kernels nothing waits for the device."""
    state, encoder = games([5], 14, seed=3), make_encoder(name, komi_input=True)
    with kernels.plain():
        wanted = encoder.planes(state), encoder.globals(state)
    interpreted = as_on_cuda()
    found = encoder.planes(state)
    assert torch.equal(found, wanted[0]) and found.is_contiguous(memory_format=torch.channels_last)
    interpreted.is_again = True
    with host_reads() as reads:
        encoder.planes(state)
        told = encoder.globals(state)
    assert not reads and not interpreted.given and torch.equal(told, wanted[1])


# Compiling


def _pointers(kinds: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, f"*{kinds}")


@pytest.mark.parametrize("size", [9, 19])
def test_they_compile(size: int) -> None:
    numbers = {"total": "i32"}
    paint = _pointers("i32", "rows", "table") | _pointers("bf16", "values", "planes") | {"numbers": "*i16"} | numbers
    sizes = {"N": size, "C": 48, "R": 17, "V": 3, "BLOCK": planes.BLOCK}
    for kinds in (False, True):
        compile_for(
            planes.paint_kernel, paint, {**sizes, "HAS_NUMBERS": kinds, "HAS_VALUES": kinds, "WIDE": kinds}, num_warps=4
        )
    past = _pointers("i32", "black", "white", "recent", "rows") | numbers
    ages, history = {"N": size, "RECENT": RECENT, "BLOCK": planes.BLOCK}, {"EARLIER": RECENT, "OWN": True}
    compile_for(planes.history_kernel, past | {"mover": "*i8"}, ages | history, num_warps=4)
    compile_for(planes.ages_kernel, past | {"ply": "*i32"}, {**ages, "MOST": 8}, num_warps=4)
    compile_for(planes.eyes_kernel, _pointers("i32", "own", "on_board", "found"), {"N": size})
    rows = _pointers("i32", "owns", "opponents", "on_board", "legal") | {"numbers": "*i16"}
    used = compile_for(tactics.tactics_kernel, rows, {"N": size, "COLUMNS": 16 if size <= 16 else 32})
    assert not any(use["spills"] for use in used.values())


def test_the_ladder_reader_compiles() -> None:
    given = _pointers("i32", "black", "white", "on_board", "frames", "found", "given_up") | {"mover": "*i8"}
    numbers = dict.fromkeys(("num_games", "slots", "most"), "i32")
    used = compile_for(ladders.ladders_kernel, given | numbers, {"N": 19, "DEPTH": 199, "FOR_MOVER": True})
    assert not any(use["spills"] for use in used.values())


# On a GPU


@pytest.mark.gpu
def test_tactics_on_a_gpu() -> None:
    for sizes in ([5, 7, 9] * 40, [13, 19] * 20, [25] * 3):
        same_tactics(positions(sizes, seed=len(sizes), empty=0.3), "cuda")


@pytest.mark.gpu
def test_ladders_on_a_gpu() -> None:
    by_size: dict[int, list] = {}
    for rows in ladder_positions(500, seed=6):
        by_size.setdefault(len(rows), []).append(rows)
    left_out = 0
    for size, many in by_size.items():
        mover = torch.tensor([1 + game % 2 for game in range(len(many))], dtype=torch.int8)
        state = board.from_stones(torch.tensor(many, dtype=torch.int8), mover, Rules(size))
        left_out += same_ladders(state, device="cuda") + same_ladders(state, for_mover=True, device="cuda")
    assert left_out < 30


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_planes_on_a_gpu(dtype: torch.dtype) -> None:
    painted("cuda", dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ENCODERS)
def test_presets_on_a_gpu_never_wait(name: str) -> None:
    state, encoder = games([9, 19, 13, 5] * 8, 120, seed=3), make_encoder(name, komi_input=True)
    with kernels.plain():
        wanted = encoder.planes(state), encoder.globals(state)
    moved = state.map(lambda tensor: tensor.to("cuda"))
    encoder.planes(moved)  # compiles, and fills the tables
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = encoder.planes(moved), encoder.globals(moved)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(found[0].cpu(), wanted[0])
    torch.testing.assert_close(found[1].cpu(), wanted[1])
