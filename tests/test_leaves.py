"""Several leaves of one tree in a step: budgets, sums, collisions, and the same result on every way that leads
there. Kernels are held against torch in `test_search_kernels`."""

import dataclasses
import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import searches
import tiny
import torch
import toys
from searches import ALL, PUCT, RULES, TableEvaluator, check_sums, random_games, several
from torch import Tensor

from zerogo import board, kernels
from zerogo.bench import __main__ as bench
from zerogo.config import SearchConfig
from zerogo.kernels.shared import tries
from zerogo.rules import Rules
from zerogo.search import Search, puct, selection
from zerogo.search import search as steps
from zerogo.search.gumbel import considered_visits, phase_ends
from zerogo.search.tree import ROOT

BUDGETS = [0, 1, 5, 24, 17, 39, 40, 30]


@ALL
@pytest.mark.parametrize("number", [3, 16, 100])
def test_budgets_are_exact_and_sums_add_up(settings: SearchConfig, number: int) -> None:
    state, _ = random_games(Rules(size=4, komi=0.5, superko="positional"), 8, 6, move_cap=14)
    made = Search(TableEvaluator(passing=3), several(settings, number))
    found = made.run(state, torch.tensor(BUDGETS), explore=True)
    budgets = torch.where(state.finished, 0, torch.tensor(BUDGETS))
    assert torch.equal(found.visits.sum(1), budgets) and torch.equal(found.tree.done, budgets)
    check_sums(found.tree)
    after = board.step(state, found.action)
    made.advance(found.tree, torch.arange(8), found.action, after)
    kept = torch.where(found.tree.tree.size > 0, found.tree.tree.visits[:, ROOT], 1)
    again = made.run(after, torch.tensor(BUDGETS).flip(0), seed=1, tree=found.tree)
    assert torch.equal(again.tree.done, torch.where(after.finished, 0, torch.tensor(BUDGETS).flip(0)))
    assert torch.equal(again.tree.tree.visits[:, ROOT], kept + again.tree.done)
    check_sums(again.tree, is_kept=True)


@ALL
def test_no_step_makes_more_than_its_leaves_nor_none(settings: SearchConfig) -> None:
    """As many as there are leaves, less those that collided, and at least one; a full tree and a game that is over get
    none."""
    state, _ = random_games(Rules(size=3, komi=0.5), 6, 4)
    for _ in range(2):
        state = board.step(state, torch.where(torch.arange(6) == 2, 9, board.legal_actions(state).int().argmax(1)))
    made = Search(TableEvaluator(), several(settings, 8))
    search_state = made.init(state, 50)
    made.begin(search_state, torch.arange(6), torch.tensor([50, 50, 50, 3, 50, 0]), seed=1)
    assert search_state.unspent.tolist() == [True, True, False, True, True, False]
    steps = 0
    while bool(search_state.unspent.any()):
        unspent, before = search_state.unspent.clone(), search_state.done.clone()
        made.simulate(search_state)
        more = search_state.done - before
        assert ((more >= 1) & (more <= 8))[unspent].all() and (more[~unspent] == 0).all()
        check_sums(search_state)
        steps += 1
    assert steps >= 7 and search_state.done.tolist() == [50, 50, 0, 3, 50, 0]
    before = search_state.tree.visits.clone()
    made.simulate(search_state)
    assert torch.equal(before, search_state.tree.visits)


@ALL
def test_one_leaf_a_step_is_the_plain_search(settings: SearchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Selecting several with one leaf gives every bit of a search that takes one at a time."""
    state, _ = random_games(RULES[1], 8, 5, move_cap=20)
    for kind in (nullcontext, kernels.plain):
        with kind():
            found = Search(TableEvaluator(), settings).run(state, torch.tensor(BUDGETS), explore=True)
            with monkeypatch.context() as patch:
                patch.setattr(steps, "select", selection._select_several)
                several_of_one = Search(TableEvaluator(), settings).run(state, torch.tensor(BUDGETS), explore=True)
        searches.same_trees(found.tree.tree, several_of_one.tree.tree)
        assert torch.equal(found.policy, several_of_one.policy) and int(several_of_one.tree.collisions) == 0


def test_collisions_cost_nothing() -> None:
    """A game with one line of play: of each step only the first simulation finds anything to do, until the end is
    known."""
    toy = toys.written_out(6, lambda left: {0: left - 1}, lambda left: None if left else -1, 1)
    found = Search(toy.evaluator(exact=False), several(PUCT, 4), game=toy).run(toy.new([0]), 12)
    assert int(found.tree.done) == 12 and found.tree.tree.size.tolist() == [7]
    # Six nodes one by one, each with the five other selections that a step may make; the known end is no collision.
    assert int(found.tree.collisions) == 6 * (tries(4) - 1) == 30
    assert found.tree.tree.visits[0, ROOT : ROOT + 7].tolist() == [13, 12, 11, 10, 9, 8, 7]
    check_sums(found.tree)


def test_a_failing_evaluator_leaves_the_tree_as_it_was() -> None:
    state, _ = random_games(Rules(size=5, komi=6.5), 3, 6)
    made = Search(TableEvaluator(), several(PUCT, 8))
    search_state = made.init(state, 40)
    made.begin(search_state, torch.arange(3), 40, seed=1)
    made.simulate(search_state)
    before = searches.copied(search_state)

    def failing(*_args, **_named) -> None:
        raise RuntimeError("no memory")

    good, made.evaluator = made.evaluator, failing
    with pytest.raises(RuntimeError, match="no memory"):
        made.simulate(search_state)
    for one, other in zip(search_state.tree.tensors(), before.tree.tensors(), strict=True):
        assert torch.equal(one, other)
    made.evaluator = good
    made.run_simulations(search_state)
    check_sums(search_state)


def test_every_simulation_has_a_key_of_its_own() -> None:
    """The keys of a search with many leaves are those of one with one, so random symmetries differ from leaf to
    leaf."""
    state, _ = random_games(Rules(size=5, komi=6.5), 2, 6)
    keys: dict[int, list[int]] = {}

    class Watching(TableEvaluator):
        def __call__(self, leaf: board.State, legal: Tensor, key: Tensor) -> SimpleNamespace:
            keys[number] += key.tolist()
            return super().__call__(leaf, legal, key)

    for number in (1, 5):
        keys[number] = []
        found = Search(Watching(), several(PUCT, number)).run(state, 23, seed=4)
        assert int(found.tree.exact_leaves.sum()) == 0
    assert len(set(keys[1])) == 2 * 23 + 2 and set(keys[1]) == set(keys[5])


def test_self_play_games_are_the_same_alone_and_among_others() -> None:
    """Games by their number, however many are played at once and however their searches' steps fall."""
    games = {}
    for at_once in (1, 5):
        words = ("game.size=5", "game.move_cap=12", f"selfplay.games={at_once}")
        words = (*words, "selfplay.full_simulations=7", "search.leaves=3")
        collected = tiny.self_play(tiny.config(*words, "selfplay.sgf_share=1"), tiny.Table(), 3).play(5)
        assert collected.simulations >= 7 * collected.moves
        games[at_once] = {game.number: game.moves for game in collected.games}
    assert set(games[1]) == set(range(5))
    assert all(games[5].get(number, moves) == moves for number, moves in games[1].items())
    assert len(set(games[5]) & set(games[1])) >= 3


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 16])
@pytest.mark.parametrize("budget", [0, 1, 7, 16, 50, 64, 200])
def test_a_phase_ends_where_fewer_moves_go_on(number: int, budget: int) -> None:
    order, ends = considered_visits(number, budget), phase_ends(number, budget)
    assert len(ends) == budget and list(ends) == sorted(ends)
    moves = [order.count(visits) for visits in order]
    for index in range(budget):
        assert index < ends[index] <= budget
        assert len(set(moves[index : ends[index]])) == 1
        assert ends[index] == budget or moves[ends[index]] < moves[index]


def test_a_simulation_under_way_is_a_visit_without_a_value() -> None:
    facts = {"prior": [0.5, 0.3, 0.2], "value": [0.4, 0.1, 0.0], "mean": 0.3}
    plain = searches.nodes_of(**facts, visits=[3, 2, 0], total=6)
    waiting = searches.nodes_of(**facts, visits=[3, 1, 0], total=5)
    waiting = dataclasses.replace(waiting, under_way=torch.tensor([[0.0, 1.0, 0.0]]))
    assert torch.equal(puct.scores(plain, PUCT, is_root=True), puct.scores(waiting, PUCT, is_root=True))
    none, rich = dataclasses.replace(plain, under_way=torch.zeros(1, 3)), searches.RICH
    assert torch.equal(puct.scores(plain, rich, is_root=False), puct.scores(none, rich, is_root=False))


def test_bench_compares_with_one_leaf_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    words = "search --size 3 --batch 2 --blocks 1 --channels 8 --device cpu --threads 1".split()
    assert bench.main([*words, "--seconds", "0.02", "--rounds", "1", "--sims", "8", "--leaves", "4"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["batch"], line["leaves"]) == (2, 4)
    assert line["gain"] > 0 and 0 <= line["collision_share"] < 1
    assert bench.main([*words, "--leaves", "0"]) == 2
    assert "--leaves is 0" in capsys.readouterr().err
