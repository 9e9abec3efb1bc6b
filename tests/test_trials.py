"""Kernels that compute wrongly by one bit, each function of each module in turn, by Numba and by Triton (interpreted
where there is no GPU), are found before a program relies on them; self-play goes on by torch with the same games."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
import tiny
import torch
from implementations import ONLY_TRITON, done
from torch import Tensor

from zerogo import config, kernels, tuning
from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.evaluator import Evaluator
from zerogo.features import make_encoder
from zerogo.network import fused
from zerogo.search.tree import ROOT
from zerogo.tuning import trials

GAMES = 5  # of which the first two are over
NO_KERNELS = ("arrays_of", "kind_of", "numbers_of")  # functions of the modules that compute nothing
# What is written into, where it has a meaning.
WRITTEN = {
    "board replace_": lambda targets, index, sources: targets[0][index[0]],
    "roots begin": lambda search, search_state, *_: search_state.budget[2],
    "roots make_roots": lambda search_state, *_: search_state.tree.words[3, ROOT],
    "tree expand_and_backup": lambda search_state, *_: search_state.tree.visits[2, ROOT],
    "tree keep_subtree_": lambda tree, *_: tree.size[2],
}
FILES = dict.fromkeys((kind, kernels.FILES.get(name, name)) for kind, of in kernels.NAMES.items() for name in of)
WORDS = "game.size=4 game.move_cap=12 features.encoder=alphago48 search.leaves=2 selfplay.slots=4".split()


def flip_bit(result: Any) -> None:
    """Flips one bit of the first tensor of a result: of the exponent of a fraction, the lowest one of others."""
    part = result if isinstance(result, Tensor) else next(trials._tensors(result))
    one = part[(len(part) // 2, *[0] * (part.ndim - 1))] if part.ndim else part
    data = one.clone().reshape(1).view(torch.uint8)
    data[-1 if part.is_floating_point() else 0] ^= 0x40 if part.is_floating_point() else 1
    one.copy_(data.view(part.dtype)[0])


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Where a kind of kernels works; on small boards, and in few games."""
    pytest.importorskip(kernels.COMPILERS[request.getfixturevalue("kind")])
    monkeypatch.setattr(trials, "drawn_games", partial(trials.drawn_games, number=GAMES))
    return "cuda" if request.getfixturevalue("kind") == "cuda" and torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(("kind", "file"), FILES)
def test_one_wrong_bit_is_found(kind: str, file: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the trial of one of the kernels in the file."""
    size, names = 9 if kind == "cpu" else 3, [one for one in kernels.NAMES[kind] if kernels.FILES.get(one, one) == file]
    if kind == "cpu":  # the readers' answers are kept for more games; Triton's: test_on_cuda
        assert not any(trials.kernel(name, kind, size, device) for name in names if name not in kernels.READERS)
    module = kernels._module(names[0], kind)
    for function_name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ != module.__name__ or function_name[0] == "_" or function_name in NO_KERNELS:
            continue

        def wrong(*given: Any, function: Callable = function, of: str = f"{file} {function_name}", **named: Any) -> Any:
            result = function(*given, **named)
            flip_bit(WRITTEN[of](*given) if of in WRITTEN else result)
            return result

        with monkeypatch.context() as patch:
            patch.setattr(module, function_name, wrong)
            faults = (trials.kernel(name, kind, size, device).get("fault", "") for name in names)
            assert any(fault.startswith("computes wrongly") for fault in faults), function_name


def self_play() -> list[tuple]:
    """Returns what all know of some games of a network that sees tactics and ladders."""
    settings = tiny.config(*WORDS)
    encoder = make_encoder(settings.features.encoder, settings.features.komi_input)
    evaluator = Evaluator.from_network(tiny.network(settings).eval(), encoder, heads=("policy", "value"))
    games = tiny.self_play(settings, evaluator, seed=1).play(4).games
    return [(game.number, game.moves, game.end, game.score_black) for game in games]


@cache
def games_of_torch() -> list[tuple]:
    with kernels.plain():
        return self_play()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Takes back what was refused, with all that was imported anew for it."""
    cpu = importlib.import_module("zerogo.kernels.cpu")
    before = {name: module for name, module in sys.modules.items() if name.startswith("zerogo.kernels.cpu")}
    monkeypatch.setattr(kernels, "refused", {kind: {} for kind in kernels.COMPILERS})
    monkeypatch.setattr(kernels, "cpu", cpu)
    yield
    for name in [name for name in sys.modules if name.startswith("zerogo.kernels.cpu")]:
        del sys.modules[name]
    sys.modules.update(before)
    for function in (kernels._module, kernels._obstacle):
        function.cache_clear()


@pytest.mark.parametrize("name", kernels.NAMES["cpu"])
def test_self_play_goes_on_without_a_module(name: str, compiled: None) -> None:
    """By torch, or by Python where there are only loops: without Numba altogether."""
    pytest.importorskip("numba")
    assert kernels.refuse("cpu", name, "computes wrongly") and not kernels.refuse("cpu", name, "again")
    assert kernels.module_for(name, tiny.CPU) is None
    is_loop = name in kernels.READERS
    assert (kernels.module_for("board", tiny.CPU) is None) == (is_loop or name == "board")
    why = f"torch alone, as the kernel {name} by numba computes wrongly"
    assert kernels.in_use(tiny.CPU) == (why if is_loop else f"kernels by numba, except {name} (torch)")
    if is_loop:  # what is kept of them is what Python reads
        assert inspect.isfunction(getattr(kernels.cpu_loops(name), f"_read_{name}"))
        assert trials.readings(name, list(trials.CASES[name](trials.drawn_games(9), "cpu"))) == trials.READINGS[name]
    assert self_play() == games_of_torch()


def test_rounding_refuses_no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of earlier draws, 5 of 50 did."""
    monkeypatch.setattr(trials, "BOUND", trials.BOUND / 4)
    assert trials.kernel("winograd", "cpu", 5) == trials.kernel("winograd", "cpu", 5) == {}


@pytest.mark.parametrize("threads", [1, 2])
def test_wrong_normalisation_is_found(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a process with several threads, which would not use it."""
    norms = pytest.importorskip("zerogo.kernels.cpu.norms")
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert trials.kernel("norms", "cpu", 5) == {}
    apply = norms.FinishedNorm.apply
    monkeypatch.setattr(norms.FinishedNorm, "apply", lambda *given: [part * 1.001 for part in apply(*given)])
    assert "computes wrongly" in trials.kernel("norms", "cpu", 5)["fault"]


def test_precision_is_judged_by_batches_that_learn_in_tiles() -> None:
    sections = tuning._precision_question(config.load("configs/9x9.yaml"), tiny.CPU)["task"][1]
    assert trials._of_network(config.from_dict(sections), torch.float32, tiny.CPU)[1][1] >= fused.FEWEST_LEARNED


@ONLY_TRITON
def test_keys_of_any_integers(way: str) -> None:
    """Seeds of all sizes, more games than fit a block and none, shapes that must be broadcast."""
    for number in (0, 1, 200):
        games, plies = torch.randint(-(2**63), 2**63 - 1, (number,)), torch.arange(number).to(torch.int8)
        for seed in (0, -5, 2**62 + 1):
            key = partial(rng.key, seed, Purpose.NOISE)
            for parts in ((games,), (plies, games), (games.unsqueeze(1), plies[:5])):
                assert torch.equal(done(way, key, *parts), key(*parts))
