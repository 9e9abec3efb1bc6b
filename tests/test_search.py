"""The search on Go: by one leaf a step or several, legal to the last node, exact at its ends; its step as a CUDA graph.
Kernels are held against torch in `test_search_kernels`; `test_on_cuda` sees that no host waits."""

import dataclasses
import gc
import weakref
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import searches
import torch
from boards import after_random_moves
from implementations import doing
from searches import ALL, BOTH, PUCT, RULES, TableEvaluator, check_sums, searched
from torch import Tensor

from zerogo import board, search
from zerogo.board import rng
from zerogo.config import SearchConfig
from zerogo.evaluator import Evaluation
from zerogo.rules import Rules
from zerogo.search import Search, graph, sample_moves
from zerogo.search.tree import ROOT
from zerogo.system import runtime


@BOTH
@pytest.mark.parametrize(("leaves", "passing", "way"), [(1, 1, "numba"), (8, 8, "numba"), (1, 1, "plain")])
def test_every_node_is_legal_and_exact(settings: SearchConfig, leaves: int, passing: int, way: str) -> None:
    """Trees of played games, kept from move to move, on small boards, under all rules, with and without a cap."""
    rules, caps = [*RULES, *[RULES[4], *RULES[6:]] * 3], [60, 14, 40, 16, 40, 12, *[60] * 11]
    state, games, met = after_random_moves(rules, 5, move_cap=caps), torch.arange(17), Counter()
    made = Search(TableEvaluator(passing), dataclasses.replace(settings, leaves=leaves, c_puct=3.0))
    number = 60 if way == "numba" else 30  # torch is slow
    with doing(way):
        result = made.run(state, number, seed=3, explore=True)
        for turn in range(2):
            state = board.step(state, result.action)
            made.advance(result.search_state, games, result.action, state)
            result = made.run(state, number, seed=4 + turn, search_state=result.search_state, explore=True)
    for game in (~state.finished).nonzero().flatten().tolist():
        met += searches.check_nodes(result.search_state, game, state.select(torch.tensor([game])), caps[game])
    assert met["nodes"] > 6 * number and met["closed"] > number // 15, met
    assert met["finished"] > number // 4 and met["draws"] > 3 and met["certain"] > 5, met


@pytest.mark.parametrize("way", ["numba", "plain"])
def test_leaves_are_shown_as_played_games_would_be(way: str, use: Callable[[str], None]) -> None:
    """A leaf's stones, recent positions, moves, ko, counters and rules equal those of a game played to it."""
    use(way)
    rules = [Rules(size=4, komi=float(k), superko="positional") for k in range(6)]
    state, shown = after_random_moves(rules, 5), []
    played = {(game, ROOT): state.select(torch.tensor([game])) for game in range(6)}

    class Watching(TableEvaluator):
        def __call__(self, leaves: board.State, legal: Tensor, key: Tensor) -> Evaluation:
            shown.append((leaves, legal))
            return super().__call__(leaves, legal, key)

    made = Search(Watching(), dataclasses.replace(PUCT, c_puct=0.3))
    search_state = searched(made, state, torch.full((6,), 40), steps=0)
    for _ in range(40):
        tree, sizes, place = search_state.tree, search_state.tree.size.tolist(), 0
        shown.clear()
        made.simulate(search_state)
        for game in [game for game, size in enumerate(sizes) if tree.size[game] > size]:
            node = ROOT + sizes[game]
            before = played[game, int(tree.parent[game, node])]
            played[game, node] = now = board.step(before, tree.action[game, node].reshape(1).to(torch.int64))
            if not tree.terminal[game, node]:
                own = dataclasses.replace(shown[0][0].select(torch.tensor([place])), ply_bound=0)
                for name in [*(field.name for field in dataclasses.fields(board.Position)), "recent", "moves", "cap"]:
                    assert torch.equal(getattr(own, name), getattr(now, name)), name
                assert torch.equal(own.rules.komi, now.rules.komi)
                assert (shown[0][1][place] | ~board.legal_actions(now)[0]).all()
                place += 1
    assert len(played) > 6 * 30


@BOTH
def test_bare_roots_come_in_few_batch_sizes(settings: SearchConfig, use: Callable) -> None:
    """On CUDA in powers of two, or all games: cuDNN plans anew for each size that it has not seen."""
    sizes, table, everyone = [], TableEvaluator(), torch.arange(12)

    def evaluate(states: board.State, **named: Any) -> Any:
        sizes.append(states.num_games)
        return table(states, **named)

    use("blind")
    state = after_random_moves([Rules(5, 6.5)] * 12, 6)
    made = Search(table, settings, root_evaluator=evaluate)
    search_state = made.init(state, 8)
    for number in (12, 3, 6, 1, 11):
        made.reset_trees(search_state, everyone[:number], state)
        made.begin(search_state, everyone, 8, seed=1)
    assert sizes == [12, 4, 8, 1, 12] and int(search_state.overflowed) == 0


@pytest.mark.parametrize(("leaves", "known", "wanted"), [(25, 0, None), (25, 1, 24), (40, 15, 32), (40, 37, 3)])
def test_few_batch_sizes_and_no_leaf_twice(leaves: int, known: int, wanted: int | None) -> None:
    is_known, none = torch.arange(leaves) >= leaves - known, torch.zeros(leaves, dtype=torch.bool)
    index = search._to_evaluate(SimpleNamespace(is_terminal=is_known), SimpleNamespace(repeats=none, finished=none))
    assert index is wanted if wanted is None else sorted(index.tolist()) == [*range(wanted)]


def test_moves_are_drawn_in_proportion_to_the_power() -> None:
    policy = torch.tensor([0.5, 0.3, 0.2, 0.0])
    many = policy.expand(20000, -1)
    for temperature in (1.0, 0.5):
        expected = policy ** (1 / temperature)
        share = torch.bincount(sample_moves(many, temperature, rng.key(1, torch.arange(20000))), minlength=4) / 20000
        assert torch.allclose(share, expected / expected.sum(), atol=0.015)
    assert (sample_moves(many, 0.0, torch.arange(20000)) == 0).all()
    mixed = sample_moves(many[:200], torch.tensor([0.0, 1.0]).repeat(100), torch.arange(200))
    assert (mixed[::2] == 0).all() and (mixed[1::2] > 0).any()


BUDGETS = [0, 1, 5, 24, 17, 39, 40, 30]
TWENTY = torch.full((3,), 20)  # simulations of each of three games


@ALL
@pytest.mark.parametrize("number", [3, 16, 100])
def test_budgets_are_exact_and_sums_add_up(settings: SearchConfig, number: int) -> None:
    state = after_random_moves([Rules(size=4, komi=0.5, superko="positional")] * 8, 6, move_cap=14)
    made = Search(TableEvaluator(passing=3), dataclasses.replace(settings, leaves=number))
    found = made.run(state, torch.tensor(BUDGETS), explore=True)
    budgets = torch.where(state.finished, 0, torch.tensor(BUDGETS))
    assert torch.equal(found.visits.sum(1), budgets) and torch.equal(found.search_state.done, budgets)
    check_sums(found.search_state)
    after = board.step(state, found.action)
    made.advance(found.search_state, torch.arange(8), found.action, after)
    kept = torch.where(found.search_state.tree.size > 0, found.search_state.tree.visits[:, ROOT], 1)
    again = made.run(after, torch.tensor(BUDGETS).flip(0), seed=1, search_state=found.search_state)
    assert torch.equal(again.search_state.done, torch.where(after.finished, 0, torch.tensor(BUDGETS).flip(0)))
    assert torch.equal(again.search_state.tree.visits[:, ROOT], kept + again.search_state.done)
    check_sums(again.search_state, is_kept=True)
    for wrong in (torch.tensor(BUDGETS[1:]), torch.tensor([], dtype=torch.int64), torch.tensor(3)):
        with pytest.raises(ValueError, match=r"budgets of shape \[\d*\] for 8 games"):
            made.run(state, wrong)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch, use: Callable[[str], None]) -> list[Callable[[], None]]:
    """Lets steps be "captured" on the CPU, where the replay makes the step, on the graph's states; returns all."""
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
    return after_random_moves([Rules(size=4, komi=0.5)] * 3, 4)


def test_is_captured_anew_where_it_must_be(captured: list) -> None:
    state = start()
    made = Search(TableEvaluator(), PUCT)
    search_state = searched(made, state, TWENTY, steps=0)
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
    """A short search is not worth it; a long one is, or many in the same trees, or steps whose end is not known."""
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
    searched(made, state, TWENTY, steps=graph.WARM_UP + 1)
    assert len(captured) == 3


def test_root_states_are_copied_into_all_slots(captured: list) -> None:
    state = after_random_moves([Rules(4, superko="positional"), Rules(3, superko="situational"), Rules(4)], 4)
    made = Search(TableEvaluator(), dataclasses.replace(PUCT, leaves=3))
    search_state = searched(made, state, TWENTY, steps=graph.WARM_UP)
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
    """Where the end of a capture fails, torch does not leave its stream: the one of before is entered around it."""
    cuda, device = MagicMock(), torch.device("cuda:1")
    for context in (cuda.device, cuda.stream):
        context.return_value.__exit__.return_value = False
    cuda.graph.return_value.__exit__.side_effect = RuntimeError("capture was invalidated")
    monkeypatch.setattr(runtime, "torch", SimpleNamespace(cuda=cuda))
    runtime._capture_stream.cache_clear()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="invalidated"):
            runtime.capture_cuda_graph(lambda: None, device)
    runtime._capture_stream.cache_clear()
    cuda.stream.assert_called_with(cuda.current_stream.return_value)
    assert cuda.stream.return_value.__exit__.call_count == 2
    cuda.Stream.assert_called_once_with(device)
    assert cuda.graph.call_args.kwargs["stream"] is cuda.Stream.return_value


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
    """Trees are large: none may wait for Python's garbage collector."""
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
