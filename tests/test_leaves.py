"""Several leaves of one tree in a step: budgets, sums, collisions, and the same result on every way that leads
there.
"""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import test_search
import tiny
import torch
import toys
from test_search import GUMBEL, PUCT, RULES, NoLooking, TableEvaluator, check_nodes, random_games, replayed
from test_search_toys import GAMES, check_links, nodes_of
from torch import Tensor

from zerogo import board, kernels
from zerogo.bench import __main__ as bench
from zerogo.config import SearchConfig
from zerogo.rules import Rules
from zerogo.search import Search, SearchState, leaves, puct
from zerogo.search.gumbel import considered_visits, phase_ends
from zerogo.search.tree import CLOSED, NULL_NODE, ROOT

RICH = dataclasses.replace(PUCT, fpu_reduction_root=0.1, forced_playouts=2.0, c_puct_log=0.3, c_puct_base=10.0)
ALL = pytest.mark.parametrize("settings", [PUCT, RICH, GUMBEL], ids=["puct", "puct with all", "gumbel"])
BOTH = test_search.BOTH
BUDGETS = [0, 1, 5, 24, 17, 39, 40, 30]


in_torch = kernels.plain
compiled = nullcontext


def several(settings: SearchConfig, number: int) -> SearchConfig:
    return dataclasses.replace(settings, leaves=number)


def check_sums(search_state: SearchState, is_kept: bool = False) -> None:
    """Every node's visits are its own and its children's, every sum its own value less its children's, and nothing else
    is left.
    """
    tree = search_state.tree
    for game in range(search_state.num_games):
        size = int(tree.size[game])
        closings = 0
        for node in range(ROOT, ROOT + size):
            children = [c for c in tree.children[game, node].tolist() if c > NULL_NODE]
            assert all(node < child < ROOT + size for child in children)
            visits, total, own = (
                int(tree.visits[game, node]),
                float(tree.value_sum[game, node]),
                float(tree.value[game, node]),
            )
            assert visits >= 1
            if bool(tree.terminal[game, node]):
                assert not children and total == visits * own
            else:
                more = visits - 1 - int(tree.visits[game, children].sum())
                closings += more
                assert more == 0 or (tree.children[game, node] == CLOSED).any()
                if more == 0:
                    assert total == own - float(tree.value_sum[game, children].sum())
        assert is_kept or closings <= int(search_state.exact_leaves[1])
        check_links(tree, game)
    for name in ("visits", "value_sum"):
        used = torch.arange(tree.num_nodes) < ROOT + tree.size.unsqueeze(1)
        assert (getattr(tree, name)[~used] == 0).all()
    assert not tree.terminal[:, ROOT + 1 :][~used[:, ROOT + 1 :]].any()


def same_trees(one: SearchState, two: SearchState) -> None:
    """Nodes, sums and counters are equal to the bit, but for what the network says of finished positions, where it need
    not be asked.
    """
    used = torch.arange(one.tree.num_nodes) < ROOT + one.tree.size.unsqueeze(1)
    used[:, NULL_NODE] = False
    assert torch.equal(one.tree.size, two.tree.size) and torch.equal(one.done, two.done)
    for field in dataclasses.fields(one.tree):
        left, right = getattr(one.tree, field.name), getattr(two.tree, field.name)
        if field.name != "size":
            meant = used & ~one.tree.terminal if field.name == "prior" else used
            assert torch.equal(left[meant], right[meant]), field.name
    assert torch.equal(one.exact_leaves, two.exact_leaves) and torch.equal(one.collisions, two.collisions)


# What a step may and may not do


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
    none.
    """
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


def test_a_tree_can_be_filled_to_its_last_node() -> None:
    state, _ = random_games(Rules(size=5, komi=6.5), 2, 6)
    made = Search(TableEvaluator(), dataclasses.replace(several(PUCT, 16), keep_tree=False))
    found = made.run(state, torch.tensor([37, 20]))
    assert int(found.tree.tree.size[0]) == 38 == found.tree.tree.num_nodes - 1
    check_sums(found.tree)


@ALL
def test_one_leaf_a_step_is_the_plain_search(settings: SearchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of several with one leaf gives every bit of a search that takes one at a time."""
    state, _ = random_games(RULES[1], 8, 5, move_cap=20)
    for way in (compiled, in_torch):
        with way():
            found = Search(TableEvaluator(), settings).run(state, torch.tensor(BUDGETS), explore=True)
            with monkeypatch.context() as patch:
                patch.setattr(leaves, "_one_each", leaves._several)
                several_of_one = Search(TableEvaluator(), settings).run(state, torch.tensor(BUDGETS), explore=True)
        same_trees(found.tree, several_of_one.tree)
        assert torch.equal(found.policy, several_of_one.policy) and int(several_of_one.tree.collisions) == 0


def test_collisions_cost_nothing() -> None:
    """A game with one line of play: of each step only the first simulation finds anything to do, until the end is
    known.
    """
    toy = toys.written_out(6, lambda left: {0: left - 1}, lambda left: None if left else -1, 1)
    found = Search(toy.evaluator(exact=False), several(PUCT, 4), game=toy).run(toy.new([0]), 12)
    assert int(found.tree.done) == 12 and found.tree.tree.size.tolist() == [7]
    assert (
        int(found.tree.collisions) == 6 * 5
    )  # six nodes one by one; to come to the known end again and again is no collision
    assert found.tree.tree.visits[0, ROOT : ROOT + 7].tolist() == [13, 12, 11, 10, 9, 8, 7]
    check_sums(found.tree)


def test_a_failing_evaluator_leaves_the_tree_as_it_was() -> None:
    state, _ = random_games(Rules(size=5, komi=6.5), 3, 6)
    made = Search(TableEvaluator(), several(PUCT, 8))
    search_state = made.init(state, 40)
    made.begin(search_state, torch.arange(3), 40, seed=1)
    made.simulate(search_state)
    before = {
        field.name: getattr(search_state.tree, field.name).clone() for field in dataclasses.fields(search_state.tree)
    }

    def failing(*_args, **_named) -> None:
        raise RuntimeError("no memory")

    good, made.evaluator = made.evaluator, failing
    with pytest.raises(RuntimeError, match="no memory"):
        made.simulate(search_state)
    assert all(torch.equal(getattr(search_state.tree, name), value) for name, value in before.items())
    made.evaluator = good
    made.run_simulations(search_state)
    check_sums(search_state)


def test_every_simulation_has_a_key_of_its_own() -> None:
    """The keys of a search with many leaves are those of one with one, so random symmetries differ from leaf to
    leaf.
    """
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


# The same on every way


@ALL
@pytest.mark.parametrize("rule", [RULES[1], RULES[4]], ids=["5x5 suicide", "2x2"])
def test_kernels_and_torch_choose_alike(settings: SearchConfig, rule: Rules) -> None:
    """Two searches in a row on 8 trees, whose every node, visit and sum is equal."""
    state, _ = random_games(rule, 8, 6, move_cap=24)
    budgets = torch.tensor(BUDGETS)
    for number in (5, 16):
        search_states = []
        for way in (compiled, in_torch):
            made = Search(TableEvaluator(passing=2), several(settings, number))
            with way():
                found = made.run(state, budgets, explore=True)
                after = board.step(state, found.action)
                made.advance(found.tree, torch.arange(8), found.action, after)
                search_states.append(made.run(after, budgets.roll(1), seed=2, tree=found.tree, explore=True).tree)
        same_trees(*search_states)


def test_kernels_and_torch_choose_alike_with_any_numbers() -> None:
    """Priors and values that round: the order of the operations counts."""

    class Rounding(TableEvaluator):
        def __call__(self, state: board.State, legal: Tensor, key: Tensor) -> SimpleNamespace:
            found = super().__call__(state, legal, key)
            prior = torch.where(legal, 1.0 / (3.0 - found.prior.to(torch.float64)), 0.0)
            prior = (prior / prior.sum(1, keepdim=True)).to(torch.float32)
            return SimpleNamespace(prior=prior, value=1.0 / (2.3 + found.value) - 0.4)

    state, _ = random_games(Rules(size=9, komi=6.5), 10, 20)
    for settings in (PUCT, RICH, GUMBEL):
        search_states = []
        for way in (compiled, in_torch):
            with way():
                search_states.append(Search(Rounding(), several(settings, 16)).run(state, 100, explore=True).tree)
        same_trees(*search_states)


@BOTH
@pytest.mark.parametrize(("number", "rule"), [(4, RULES[4]), (16, RULES[1])], ids=["4, 2x2", "16, 5x5 suicide"])
def test_the_way_without_a_look_finds_the_same(settings: SearchConfig, number: int, rule: Rules, blind) -> None:
    """Two searches in a row, with budgets of their own; and in a step nothing is read back."""
    state, _ = random_games(rule, 6, 6, move_cap=30)
    budgets = torch.tensor([0, 3, 24, 24, 11, 24])

    def two_searches(check: bool) -> tuple[list[Tensor], SearchState]:
        made = Search(TableEvaluator(), several(settings, number))
        search_state = made.init(state, 24)
        found, now = [], state
        for turn in range(2):
            made.begin(search_state, torch.arange(6), budgets.roll(turn), seed=turn, explore=True)
            while bool(search_state.unspent.any()):
                if check:
                    with NoLooking():
                        made.simulate(search_state)
                else:
                    made.simulate(search_state)
            result = made.result(search_state, torch.arange(6))
            found += [result.visits, result.policy, result.value]
            if turn == 0:
                now = board.step(now, result.action)
                made.advance(search_state, torch.arange(6), result.action, now)
        return found, search_state

    looking, search_state = two_searches(check=False)
    blind()
    bounded, other = two_searches(check=True)
    for one, two in zip(looking, bounded, strict=True):
        assert torch.allclose(one.to(torch.float32), two.to(torch.float32), atol=1e-6)
    same_trees(search_state, other)
    check_sums(other, is_kept=True)


@BOTH
def test_a_game_is_searched_alike_alone_and_among_others(settings: SearchConfig) -> None:
    state, _ = random_games(Rules(size=5, komi=6.5), 8, 10)
    ids = torch.arange(8) + 100
    together = Search(TableEvaluator(), several(settings, 8)).run(
        state, torch.tensor(BUDGETS), seed=9, game_ids=ids, explore=True
    )
    for game, budget in enumerate(BUDGETS):
        one = torch.tensor([game])
        alone = Search(TableEvaluator(), several(settings, 8))
        own = alone.run(
            board.select(state, one),
            budget,
            9,
            alone.init(board.select(state, one), 64),
            game_ids=ids[one],
            explore=True,
        )
        assert torch.equal(own.visits[0], together.visits[game])
        assert torch.allclose(own.policy[0], together.policy[game], atol=1e-6)
        size = ROOT + int(own.tree.tree.size)
        assert torch.equal(own.tree.tree.value_sum[0, ROOT:size], together.tree.tree.value_sum[game, ROOT:size])


def test_games_begin_and_end_between_the_steps_of_others() -> None:
    """One game's next search begins in the middle of another's, and neither notices."""
    toy = toys.tic_tac_toe()
    made = Search(toy.evaluator(exact=False), several(PUCT, 4), game=toy)
    search_state = made.init(toy.new([0, 0]), 30)
    made.begin(search_state, torch.arange(2), torch.tensor([30, 4]), seed=3)
    made.simulate(search_state)
    first = made.result(search_state, torch.tensor([1]))
    after = int(toy.after[0, first.action])
    made.advance(search_state, torch.tensor([1]), first.action, toy.new([0, after]))
    made.begin(search_state, torch.tensor([1]), 20, seed=4, game_ids=torch.tensor([1]))
    made.run_simulations(search_state)
    alone = made.run(toy.new([0]), 30, seed=3)
    assert torch.equal(made.result(search_state, torch.tensor([0])).visits, alone.visits)
    other = made.init(toy.new([0]), 30)
    made.begin(other, torch.arange(1), 4, seed=3)
    made.simulate(other)
    made.advance(other, torch.arange(1), first.action, toy.new([after]))
    made.begin(other, torch.arange(1), 20, seed=4)
    made.run_simulations(other)
    assert torch.equal(made.result(search_state, torch.tensor([1])).visits, made.result(other, torch.arange(1)).visits)


def test_self_play_games_are_the_same_alone_and_among_others() -> None:
    """Games by their number, however many are played at once and however their searches' steps fall."""
    games = {}
    for at_once in (1, 5):
        words = (
            "game.size=5",
            "game.move_cap=12",
            f"selfplay.games={at_once}",
            "selfplay.full_simulations=7",
            "search.leaves=3",
        )
        collected = tiny.self_play(tiny.config(*words, "selfplay.sgf_share=1"), tiny.Table(), 3).play(5)
        assert collected.simulations >= 7 * collected.moves
        games[at_once] = {game.number: game.moves for game in collected.games}
    assert set(games[1]) == set(range(5)) and all(
        games[5].get(number, moves) == moves for number, moves in games[1].items()
    )
    assert len(set(games[5]) & set(games[1])) >= 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@BOTH
def test_cuda_finds_the_same_and_waits_for_nothing(settings: SearchConfig) -> None:
    state, _ = random_games(RULES[1], 6, 6, move_cap=30)
    made = Search(TableEvaluator(), several(settings, 8))
    expected = made.run(state, 48, seed=1)
    on_device = board.to_device(state, "cuda")
    made.run(on_device, 2)  # tables and kernels are made once
    search_state = made.init(on_device, 48)
    made.begin(search_state, torch.arange(6, device="cuda"), 48, seed=1)
    made.simulate(search_state)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            made.simulate(search_state)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    made.run_simulations(search_state)
    assert torch.equal(made.result(search_state, torch.arange(6, device="cuda")).visits.cpu(), expected.visits)


# What is found


@BOTH
@pytest.mark.parametrize("passing", [1, 8])
def test_every_node_is_legal_and_exact(settings: SearchConfig, passing: int) -> None:
    """Trees of played games on small boards where positions repeat, replayed by the plain rules: superko holds inside
    the tree.
    """
    rules = [RULES[0], RULES[1], RULES[2], RULES[4], Rules(size=2, komi=0.0, superko="positional", suicide=True)]
    total = {"nodes": 0, "closed": 0, "finished": 0, "draws": 0}
    for rule, cap in zip(rules, [60, 14, 40, 40, 60], strict=True):
        made, games = (
            Search(TableEvaluator(passing), dataclasses.replace(several(settings, 8), c_puct=3.0)),
            torch.arange(2),
        )
        state, past = random_games(rule, 2, 5, move_cap=cap)
        result = made.run(state, 50, seed=3, explore=True)
        past = torch.cat([past, result.action.unsqueeze(1)], dim=1)
        state = board.step(state, result.action)
        made.advance(result.tree, games, result.action, state)
        result = made.run(state, 50, seed=4, tree=result.tree, explore=True)
        for game in range(2):
            if not bool(state.finished[game]):
                met = check_nodes(result.tree, game, replayed(rule, past[game].tolist(), rule.size), rule.size, cap)
                total = {name: total[name] + count for name, count in met.items()}
    assert total["nodes"] > 200 and total["closed"] > 2 and total["finished"] > 8, total


@BOTH
@pytest.mark.parametrize("number", [4, 16])
def test_toys_are_solved(settings: SearchConfig, number: int) -> None:
    toy, starts = toys.union(*GAMES.values())
    true = toy.exact[starts]
    found = Search(toy.evaluator(even=True), several(settings, number), game=toy).run(toy.new(starts), 600)
    assert (found.value - true).abs().max() < 0.2
    after = toy.after[starts, found.action]
    assert not toy.repeating[starts, found.action].any() and torch.equal(-toy.exact[after], true)
    assert found.tree.done.tolist() == [600] * len(starts)


@pytest.mark.parametrize("number", [2, 4, 16])
def test_gumbel_keeps_to_its_schedule(number: int) -> None:
    toy = toys.tic_tac_toe()
    settings = dataclasses.replace(several(GUMBEL, number), max_considered=4)
    found = Search(toy.evaluator(exact=False), settings, game=toy).run(toy.new([0] * 20), 40, explore=True)
    assert ((found.visits > 0).sum(1) == 4).all()
    assert found.visits.sort(1, descending=True).values[:, :4].tolist() == [[15, 15, 5, 5]] * 20
    assert found.visits.gather(1, found.action.unsqueeze(1)).eq(15).all()


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
    plain = nodes_of(**facts, visits=[3, 2, 0], total=6)
    waiting = nodes_of(**facts, visits=[3, 1, 0], total=5)
    waiting = dataclasses.replace(waiting, under_way=torch.tensor([[0.0, 1.0, 0.0]]))
    assert torch.equal(puct.scores(plain, PUCT, is_root=True), puct.scores(waiting, PUCT, is_root=True))
    none = dataclasses.replace(plain, under_way=torch.zeros(1, 3))
    assert torch.equal(puct.scores(plain, RICH, is_root=False), puct.scores(none, RICH, is_root=False))


def test_bench_compares_with_one_leaf_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "search",
        "--size",
        "3",
        "--batch",
        "2",
        "--blocks",
        "1",
        "--channels",
        "8",
        "--device",
        "cpu",
        "--threads",
        "1",
    ]
    assert bench.main([*words, "--seconds", "0.02", "--rounds", "1", "--sims", "8", "--leaves", "4"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["batch"], line["leaves"]) == (2, 4)
    assert line["gain"] > 0 and 0 <= line["collision_share"] < 1
    assert bench.main([*words, "--leaves", "0"]) == 2
    assert "--leaves is 0" in capsys.readouterr().err
