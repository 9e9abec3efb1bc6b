"""The step as a CUDA graph: what it is captured for, when anew, and that it finds what the steps themselves find."""

import dataclasses
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from searches import PUCT, TableEvaluator, random_games

from zerogo import board
from zerogo.rules import Rules
from zerogo.search import Search, SearchState, graph
from zerogo.system import runtime


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch, use: Callable[[str], None]) -> list[Callable[[], None]]:
    """Lets steps be "captured" on the CPU, where the replay makes the step itself, on the graph's own states; returns
    all that were."""
    found: list[Callable[[], None]] = []

    def record(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
        found.append(step)
        return step

    use("blind")
    monkeypatch.setattr(graph, "capture_cuda_graph", record)
    monkeypatch.setattr(graph, "may_capture", lambda search, search_state: search.settings.cuda_graph)
    monkeypatch.setattr(graph, "PAYS", 1)
    return found


def start() -> board.State:
    return random_games(Rules(size=4, komi=0.5), 3, 4)[0]


def begun(made: Search, state: board.State, budget: int = 20) -> SearchState:
    search_state = made.init(state, budget)
    made.begin(search_state, torch.arange(3), budget, seed=1)
    return search_state


def test_is_captured_anew_where_it_must_be(captured: list) -> None:
    state = start()
    made = Search(TableEvaluator(), PUCT)
    search_state = begun(made, state)
    steps = graph.WARM_UP + 1

    def goes_on(number: int) -> int:
        for _ in range(number):
            made.simulate(search_state)
        return len(captured)

    assert goes_on(graph.WARM_UP) == 0 and goes_on(3) == 1
    search_state.states = state.map(torch.clone)
    assert goes_on(1) == 1
    search_state.states = dataclasses.replace(state, seen=torch.nn.functional.pad(state.seen, (0, 8)))
    assert goes_on(steps) == 2
    made.evaluator = TableEvaluator(passing=2)
    assert goes_on(graph.WARM_UP) == 2 and goes_on(1) == 3
    made.settings = dataclasses.replace(PUCT, c_puct=2.0)
    assert goes_on(steps) == 4
    rules = dataclasses.replace(state.rules, any_suicide=True)
    search_state.states = dataclasses.replace(search_state.states, rules=rules)
    assert goes_on(steps) == 5
    assert search_state.done.tolist() == [20] * 3


def test_is_captured_where_that_pays(captured: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short search is not worth it; a long one is, and so are many short ones in the same trees, and steps whose end
    is not known."""
    monkeypatch.setattr(graph, "PAYS", 12)
    state = start()
    made = Search(TableEvaluator(), dataclasses.replace(PUCT, keep_tree=False))
    made.run(state, 12 + graph.WARM_UP - 2)
    assert not captured
    made.run(state, 12 + graph.WARM_UP - 1)
    assert len(captured) == 1
    search_state = made.init(state, 5)
    for turn, number in enumerate((1, 1, 1, 2)):
        made.reset_trees(search_state, torch.arange(3), state)
        made.run(state, 5, seed=turn, search_state=search_state)
        assert len(captured) == number
    search_state = begun(made, state)
    for _ in range(graph.WARM_UP + 1):
        made.simulate(search_state)
    assert len(captured) == 3


def test_root_states_are_copied_into_all_slots(captured: list) -> None:
    state, _ = random_games([Rules(4, superko="positional"), Rules(3, superko="situational"), Rules(4)], 3, 4)
    made = Search(TableEvaluator(), dataclasses.replace(PUCT, leaves=3))
    search_state = begun(made, state)
    for _ in range(graph.WARM_UP):
        made.simulate(search_state)
    after = board.step(state, torch.full((3,), 16))
    as_before = dataclasses.replace(after, seen=after.seen[:, : state.seen.shape[1]], links=state.links + 1)
    made.reset_trees(search_state, torch.arange(3), as_before)
    made.begin(search_state, torch.arange(3), 9, seed=2)
    made.simulate(search_state)
    wanted = search_state.graph.states.select(torch.arange(3).repeat(3))
    assert search_state.graph.states.ply.tolist() == after.ply.tolist()
    for one, other in zip(search_state.graph.repeated_states.tensors(), wanted.tensors(), strict=True):
        assert torch.equal(one, other)


def test_a_broken_capture_leaves_the_stream_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch does it: where the end of a capture fails, its stream is not taken away."""
    made, device = SimpleNamespace(stream="the process's own", streams=[]), torch.device("cuda:1")

    @contextmanager
    def on(stream: Any) -> Iterator[None]:
        before, made.stream = made.stream, stream
        try:
            yield
        finally:
            made.stream = before

    @contextmanager
    def capture(number: Any, stream: Any, capture_error_mode: str) -> Iterator[None]:
        made.stream = stream
        made.streams.append(stream)
        yield
        raise RuntimeError("capture was invalidated")

    fake = SimpleNamespace(
        device=lambda device: on(made.stream), stream=on, current_stream=lambda device: made.stream,
        Stream=lambda device: [device], CUDAGraph=object, graph=capture,
    )  # fmt: skip
    monkeypatch.setattr(runtime, "torch", SimpleNamespace(cuda=fake))
    runtime._capture_stream.cache_clear()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="invalidated"):
            runtime.capture_cuda_graph(lambda: None, device)
        assert made.stream == "the process's own"
    runtime._capture_stream.cache_clear()
    assert made.streams[0] == [device] and made.streams[0] is made.streams[1]


def test_a_step_that_cannot_be_captured_is_made_all_the_same(captured: list, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
        raise RuntimeError("operation not permitted when stream is capturing")

    state = start()
    expected = Search(TableEvaluator(), PUCT).run(state, 8, seed=1)
    monkeypatch.setattr(graph, "capture_cuda_graph", fails)
    with pytest.warns(UserWarning, match="without a CUDA graph.*not permitted"):
        found = Search(TableEvaluator(), PUCT).run(state, 8, seed=1)
    assert torch.equal(expected.visits, found.visits) and found.visits.sum(1).tolist() == [8] * 3


def test_a_search_state_is_freed_with_its_graph(captured: list) -> None:
    """Trees are large: nothing may keep one until Python looks for circles."""
    state = start()
    gc.disable()
    try:
        search_state = Search(TableEvaluator(), PUCT).run(state, 8, seed=1).search_state
        assert search_state.graph.play is not None
        gone = weakref.ref(search_state.tree.prior)
        captured.clear()
        search_state.graph.play = None  # on CUDA it holds no search state
        del search_state
        assert gone() is None
    finally:
        gc.enable()
