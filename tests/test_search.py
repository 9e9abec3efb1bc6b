"""The search on Go: the same alone and among others, by one leaf a step or several, legal to the last node, exact at
its ends. Kernels are held against torch in `test_search_kernels`; `test_on_cuda` sees that no host waits."""

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import searches
import torch
from searches import ALL, BOTH, PUCT, RULES, TableEvaluator, check_sums, random_games, several
from torch import Tensor

from zerogo import board, kernels
from zerogo.board import rng
from zerogo.config import SearchConfig
from zerogo.evaluator import Evaluation
from zerogo.game import Colour
from zerogo.rules import Rules
from zerogo.search import Search, sample_moves
from zerogo.search.tree import NULL_NODE, ROOT


@BOTH
@pytest.mark.parametrize(("leaves", "passing"), [(1, 1), (8, 8)])
def test_every_node_is_legal_and_exact(settings: SearchConfig, leaves: int, passing: int) -> None:
    """Trees of played games, kept from move to move, on small boards where positions repeat, under all rules, with and
    without a cap."""
    tiny = [Rules(size=2, komi=1.0, superko="positional"), Rules(size=2, komi=0.0, superko="positional", suicide=True)]
    total = {"nodes": 0, "closed": 0, "finished": 0, "draws": 0}
    for rule, cap in zip([*RULES, *tiny], [60, 14, 40, 16, 40, 12, 60, 60], strict=True):
        made, games = Search(TableEvaluator(passing), several(settings, leaves, c_puct=3.0)), torch.arange(2)
        state, past = random_games(rule, 2, 5, move_cap=cap)
        result = made.run(state, 60, seed=3, explore=True)
        for turn in range(2):
            past = torch.cat([past, result.action.unsqueeze(1)], dim=1)
            state = board.step(state, result.action)
            made.advance(result.search_state, games, result.action, state)
            result = made.run(state, 60, seed=4 + turn, search_state=result.search_state, explore=True)
        for game in range(2):
            if not bool(state.finished[game]):
                *_, played = searches.replayed(rule, past[game].tolist())
                met = searches.check_nodes(result.search_state, game, played, cap)
                total = {name: total[name] + number for name, number in met.items()}
    assert total["nodes"] > 600 and total["closed"] > 8 and total["finished"] > 30 and total["draws"] > 3, total


@BOTH
@pytest.mark.parametrize("way", ["kernels", "torch"])
def test_the_cap_ends_a_game_as_it_stands(settings: SearchConfig, way: str) -> None:
    """One ply before the cap every child is final: its value is the result (draws too), and the best has it."""
    rule = Rules(size=3, komi=0.0)
    state, past = random_games(rule, 20, 7, move_cap=8)
    going = (~state.finished).nonzero().squeeze(1)[:8]
    state, past = state.select(going), past[going]

    with kernels.plain() if way == "torch" else nullcontext():
        found = Search(TableEvaluator(), dataclasses.replace(settings, max_considered=10)).run(state, 60)
    seen = set()
    for game in range(state.num_games):
        *_, plain = searches.replayed(rule, past[game].tolist())
        sign = 1 if plain.to_play is Colour.BLACK else -1
        scores = {move.action(3): sign * plain.play(move).score_black() for move in plain.legal_moves()}
        results = {action: (score > 0) - (score < 0) for action, score in scores.items()}
        tree = found.search_state.tree
        for action, child in enumerate(tree.children[game, ROOT].tolist()):
            if child > NULL_NODE:
                assert float(tree.value[game, child]) == -results[action]
                seen.add(results[action])
        assert results[int(found.action[game])] == max(results.values())
    assert seen == {-1, 0, 1}


def test_leaves_are_shown_as_played_games_would_be() -> None:
    """A leaf's stones, recent positions, moves, ko, counters and rules equal those of a game that was really played to
    it."""
    rules = [Rules(size=4, komi=float(k), superko="positional") for k in range(6)]
    state, shown = random_games(rules, 6, 5)[0], []
    played = {(game, ROOT): state.select(torch.tensor([game])) for game in range(6)}

    class Watching(TableEvaluator):
        def __call__(self, leaves: board.State, legal: Tensor, key: Tensor) -> Evaluation:
            shown.append((leaves, legal))
            return super().__call__(leaves, legal, key)

    made = Search(Watching(), dataclasses.replace(PUCT, c_puct=0.3))
    search_state = made.init(state, 40)
    made.begin(search_state, torch.arange(6), 40, seed=1)
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
    state, _ = random_games(Rules(5, 6.5), 12, 6)
    made = Search(table, settings, root_evaluator=evaluate)
    search_state = made.init(state, 8)
    for number in (12, 3, 6, 1, 11):
        made.reset_trees(search_state, everyone[:number], state)
        made.begin(search_state, everyone, 8, seed=1)
    assert sizes == [12, 4, 8, 1, 12] and int(search_state.overflowed) == 0


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


@ALL
@pytest.mark.parametrize("number", [3, 16, 100])
def test_budgets_are_exact_and_sums_add_up(settings: SearchConfig, number: int) -> None:
    state, _ = random_games(Rules(size=4, komi=0.5, superko="positional"), 8, 6, move_cap=14)
    made = Search(TableEvaluator(passing=3), several(settings, number))
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
