"""Nothing in a simulation or a move waits for a CUDA device: counted on the CPU, and under CUDA's own debug mode where
there is one."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from host_reads import host_reads
from interpreting import interpreted
from searches import GUMBEL, PUCT, TableEvaluator, random_games

from zerogo import board, kernels
from zerogo.config import NetworkConfig, SearchConfig
from zerogo.evaluator import SYMMETRIES, Evaluator
from zerogo.features import ENCODERS, Encoder, make_encoder
from zerogo.network import Network
from zerogo.rules import Rules
from zerogo.runtime import HostReads
from zerogo.search import Search, graph

TERRITORY = Rules(3, -3.0, "simple", scoring="territory")
RULES = [Rules(4, 0.5, "positional"), Rules(4, 0.0, "situational", suicide=True), TERRITORY]
# Encoders without tactics and ladders, for which torch alone waits: they come from the CPU's loops.
ON_THE_DEVICE = [
    "zero17",
    [group for group in ENCODERS["article22"] if group != "ko_takes"],
    [group for group in ENCODERS["katago22"] if "ladder" not in group and "liberties" not in group],
    ["stones", "sensible", "turns_since", "pattern", "makes_eye", "edge_distance", "scaled_edge_distance"],
]
BY_LEAVES = [dataclasses.replace(settings, leaves=number) for settings in (PUCT, GUMBEL) for number in (1, 4)]
SEARCHES = {f"{settings.algorithm}, {settings.leaves}": settings for settings in BY_LEAVES}
GROUP_NAMES = [groups if isinstance(groups, str) else ", ".join(groups[:2]) for groups in ON_THE_DEVICE]
EACH_RULE = pytest.mark.parametrize("rules", [*RULES, RULES], ids=["positional", "situational", "territory", "mixed"])
EACH_SEARCH = pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES)


def games(rules: Rules | list[Rules], num_games: int = 6, plies: int = 6) -> board.State:
    rules = [rules[i % len(rules)] for i in range(num_games)] if isinstance(rules, list) else rules
    return random_games(rules, num_games, plies, move_cap=40)[0]


def network_evaluator(encoder: Encoder, device: str = "cpu", symmetries: str = "random") -> Evaluator:
    settings = NetworkConfig(blocks=2, channels=8, pooling_channels=8, head_channels=8)
    network = Network(settings, encoder.num_planes, encoder.num_globals, 4)
    return Evaluator.from_network(network, encoder, device=device, symmetries=symmetries)


def test_what_is_counted() -> None:
    """The count sees each of the usual ways to wait."""
    numbers, whole = torch.arange(6), torch.tensor([1, 2])
    waits: dict[str, Callable[[], Any]] = {
        "bool": lambda: bool(numbers.any()),
        "int": lambda: int(numbers.sum()),
        "float": lambda: float(numbers.sum()),
        "item": lambda: numbers.sum().item(),
        "tolist": lambda: numbers.tolist(),
        "numpy": lambda: numbers.numpy(),
        "cpu": lambda: numbers.cpu(),
        "nonzero": lambda: numbers.nonzero(),
        "where": lambda: torch.where(numbers > 2),
        "mask": lambda: numbers[numbers > 2],
        "masked write": lambda: numbers.clone().__setitem__(numbers > 2, torch.zeros(3, dtype=torch.int64)),
        "masked_select": lambda: numbers.masked_select(numbers > 2),
        "unique": lambda: torch.unique(numbers),
        "equal": lambda: torch.equal(numbers, numbers),
        "repeat": lambda: torch.repeat_interleave(whole, whole),
        "argwhere": lambda: torch.argwhere(numbers > 2),
        "nonzero as a tuple": lambda: numbers.nonzero(as_tuple=True),
        "scatter by a mask": lambda: torch.index_put(numbers, (numbers > 2,), whole[0]),
        "bincount": lambda: torch.bincount(numbers),
        "unique in a row": lambda: torch.unique_consecutive(numbers),
        "allclose": lambda: torch.allclose(numbers, numbers),
        "list": lambda: torch.tensor([1, 2]),
        "another device": lambda: numbers.to("meta"),
        "its own device": lambda: numbers.to(torch.device("cpu")),
        "its own device by name": lambda: numbers.to(device="cpu", dtype=torch.int32),
        "a copy": lambda: torch.empty(6, dtype=torch.int64, device="meta").copy_(numbers),
        "many copies": lambda: torch._foreach_copy_([torch.empty(6, dtype=torch.int64, device="meta")], [numbers]),
        "list of numbers": lambda: numbers.clone().__setitem__(whole, 3),
        "if": lambda: 1 if numbers.sum() else 0,
        "range": lambda: range(numbers.sum()),
    }
    of_python = "tolist numpy cpu list its".split()  # no operations, so that only the tests see them on the CPU
    for name, wait in waits.items():
        for inference in (False, True):
            with torch.inference_mode(inference), host_reads() as found:
                wait()
            with torch.inference_mode(inference), HostReads() as reads:
                wait()
            assert found and (reads.found or name.split()[0] in of_python), (name, inference)
    with host_reads() as found:
        numbers.clone()[whole] = torch.where(numbers > 2, numbers, 0)[whole] + numbers.gather(
            0, whole
        ).repeat_interleave(1)
    assert not found


@pytest.mark.parametrize("rules", [RULES[1], RULES], ids=["situational", "mixed"])
def test_a_move_on_the_board_reads_nothing(rules: Rules | list[Rules], blind: Callable[[], None]) -> None:
    blind()
    state = games(rules)
    for _ in range(2):  # the first one makes tables
        actions = board.legal_actions(state).to(torch.int8).argmax(1)
        state = board.step_(state, actions)
    with host_reads() as found:
        legal = board.legal_actions(state)
        state = board.step_(state, legal.to(torch.int8).argmax(1))
        board.step(state, board.legal_actions(state).to(torch.int8).argmax(1))
    assert not found


@EACH_SEARCH
def test_a_simulation_reads_nothing(settings: SearchConfig, blind: Callable[[], None]) -> None:
    """In games of different rules, one of which is not to be searched."""
    state = games(RULES, 4)
    blind()
    made = Search(TableEvaluator(), settings)
    search_state = made.init(state, 24)
    made.begin(search_state, torch.arange(4), torch.tensor([24, 0, 3, 11]), seed=1, explore=True)
    made.simulate(search_state)
    for _ in range(3):
        with host_reads() as found:
            made.simulate(search_state)
        assert not found


@pytest.mark.parametrize("groups", ON_THE_DEVICE, ids=GROUP_NAMES)
def test_an_evaluation_reads_nothing(groups: str | list[str], blind: Callable[[], None]) -> None:
    """Boards of one size take other ways than mixed ones."""
    state = games(RULES[0], 3)
    evaluator = network_evaluator(make_encoder(groups, True))
    blind()
    legal = board.legal_actions(state)
    evaluator(state, legal=legal)
    for symmetries in SYMMETRIES:
        with host_reads() as found:
            evaluator.with_symmetries(symmetries)(state, legal=legal)
        assert not found


@pytest.mark.parametrize("settings", [PUCT, GUMBEL], ids=["puct", "gumbel"])
def test_a_move_of_the_search_reads_little(settings: SearchConfig, blind: Callable[[], None]) -> None:
    """Between simulations the host may look, but each look costs the time that the device needs to finish."""
    state, index = games(RULES[0], 4), torch.arange(4)
    blind()
    made = Search(TableEvaluator(), settings)
    search_state = made.init(state, 8)
    reads: dict[str, list[str]] = {}
    for turn in range(2):
        with host_reads() as reads["begin"]:
            made.begin(search_state, index, torch.tensor([8, 8, 5, 8]), seed=turn, explore=True)
        with host_reads() as reads["spend"]:
            made.run_simulations(search_state)
        with host_reads() as reads["result"]:
            actions = made.result(search_state, index).action
        state = board.step(state, actions)
        with host_reads() as reads["advance"]:
            made.advance(search_state, index, actions, state)
    # bool() and int() are seen twice.
    counts = {name: sum(not call.startswith("__") for call in found) for name, found in reads.items()}
    most = 6 if settings is PUCT else 10
    assert counts["begin"] <= most and counts["spend"] <= 2 and counts["result"] == 0 and counts["advance"] <= 1, reads


@pytest.mark.parametrize("settings", [PUCT, GUMBEL], ids=["puct", "gumbel"])
def test_bare_roots_come_in_few_batch_sizes(settings: SearchConfig, blind: Callable[[], None]) -> None:
    """Powers of two, or all games: cuDNN plans anew for each size that it has not seen."""
    sizes, table, everyone = [], TableEvaluator(), torch.arange(12)

    def evaluate(states: board.State, **named: Any) -> Any:
        sizes.append(states.num_games)
        return table(states, **named)

    blind()
    made, state = Search(table, settings, root_evaluator=evaluate), games(RULES[0], 12)
    search_state = made.init(state, 8)
    for number in (12, 3, 6, 1, 11):
        made.replace(search_state, everyone[:number], state)
        made.begin(search_state, everyone, 8, seed=1)
    assert sizes == [12, 4, 8, 1, 12] and int(search_state.overflowed) == 0


@interpreted
@pytest.mark.parametrize("preset", ["alphago48", "katago22", "article48", "handcrafted"])
def test_kernels_read_ladders_without_waiting(preset: str, blind: Callable[[], None], monkeypatch) -> None:
    pytest.importorskip("triton")
    blind()
    state = games(RULES[0], 1, plies=3)
    evaluator = network_evaluator(make_encoder(preset, True), symmetries="none")
    monkeypatch.setattr(kernels, "module_for", lambda name, device: kernels._module(name, "cuda"))
    for turn in range(2):
        with host_reads() if turn else nullcontext([]) as found:  # the first one makes tables
            evaluator(state)
        assert not found


# On torch's device without memory, where nothing can be read: what needs a number raises an error, and so does what
# mixes devices


def on_no_device(rules: list[Rules]) -> board.State:
    return board.new_games(3, rules, device="meta", move_cap=40)


def test_the_board_needs_no_numbers() -> None:
    state = on_no_device(RULES)
    for turn in range(2):
        with host_reads() if turn else nullcontext([]) as found:  # the first one makes tables
            state = board.step_(state, board.legal_actions(state).to(torch.int8).argmax(1))
        assert not found
    assert state.hash.device.type == "meta"


@EACH_SEARCH
def test_a_simulation_needs_no_numbers(settings: SearchConfig) -> None:
    made = Search(TableEvaluator(), settings)
    search_state = made.init(on_no_device(RULES), 12)
    search_state.depth_bound = 3
    for turn in range(2):
        with host_reads() if turn else nullcontext([]) as found:
            made.simulate(search_state)
        assert not found
    made.result(search_state, torch.arange(3, device="meta"))


@pytest.mark.parametrize("groups", ON_THE_DEVICE, ids=GROUP_NAMES)
def test_an_evaluation_needs_no_numbers(groups: str | list[str]) -> None:
    state = on_no_device(RULES)
    evaluator = network_evaluator(make_encoder(groups, True), "meta")
    for turn in range(2):
        with host_reads() if turn else nullcontext([]) as found:
            said = evaluator(state)
        assert not found and said.prior.device.type == "meta"


ON_CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@contextmanager
def no_waiting() -> Iterator[None]:
    """Lets torch raise an error wherever it waits for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def on_cuda(*marks: Any) -> Callable:
    def marked(function: Callable) -> Callable:
        for mark in (*ON_CUDA, *marks):
            function = mark(function)
        return function

    return marked


@on_cuda(EACH_RULE)
def test_cuda_plays_without_waiting(rules: Rules | list[Rules]) -> None:
    state = games(rules).to("cuda")
    for turn in range(3):
        with no_waiting() if turn else nullcontext():  # tables and kernels are made once
            legal = board.legal_actions(state)
            state = board.step_(state, legal.to(torch.int8).argmax(1))


@on_cuda(EACH_SEARCH, EACH_RULE)
@pytest.mark.parametrize("has_graph", [False, True], ids=["eager", "graph"])
def test_cuda_searches_without_waiting(settings: SearchConfig, rules: Rules | list[Rules], has_graph: bool) -> None:
    """And finds what the CPU finds."""
    state, budgets = games(rules), torch.tensor([24, 0, 3, 24, 11, 24])
    expected = Search(TableEvaluator(), settings).run(state, budgets, seed=1).visits
    made = Search(TableEvaluator(), dataclasses.replace(settings, cuda_graph=has_graph))
    index, on_device = torch.arange(6, device="cuda"), state.to("cuda")
    made.run(on_device, 8)
    search_state = made.init(on_device, 24)
    made.begin(search_state, index, budgets.cuda(), seed=1)
    for step in range(30):
        # A capture itself waits, once, when the steps before it have been watched.
        with no_waiting() if not has_graph or step > graph.WARM_UP else nullcontext():
            made.simulate(search_state)
    assert not has_graph or kernels.module_for("tree", index.device) is None or search_state.graph.play is not None
    assert torch.equal(made.result(search_state, index).visits.cpu(), expected)


@on_cuda()
@pytest.mark.parametrize("groups", ON_THE_DEVICE, ids=GROUP_NAMES)
def test_cuda_evaluates_without_waiting(groups: str | list[str]) -> None:
    state = games(RULES).to("cuda")
    evaluator = network_evaluator(make_encoder(groups, True), "cuda")
    legal = board.legal_actions(state)
    evaluator(state, legal=legal)
    with no_waiting():
        evaluator(state, legal=legal)
        evaluator(state)
