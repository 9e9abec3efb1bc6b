"""Shared by the tests of the search: settings, rules, evaluators, random games, and what must be true of every tree."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tables import tables
from torch import Tensor

from zerogo import board, scoring, sgf
from zerogo.board import flood
from zerogo.board.position import legal_rows
from zerogo.config import SearchConfig
from zerogo.evaluator import Evaluation
from zerogo.game import GameState
from zerogo.rules import Rules
from zerogo.search import Go, Search, SearchState
from zerogo.search.tree import ILLEGAL, NULL_NODE, ROOT, Nodes, Tree
from zerogo.tuning.trials import Table, meaning, used_nodes

PUCT = SearchConfig(algorithm="puct")
GUMBEL = SearchConfig(algorithm="gumbel", max_considered=8)
RICH = dataclasses.replace(PUCT, fpu_reduction_root=0.1, forced_playouts=2.0, c_puct_log=0.3)
RICH = dataclasses.replace(RICH, c_puct_variance=0.85)
SETTINGS = {"puct": PUCT, "puct with all": RICH, "gumbel": GUMBEL}
ALL = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
BOTH = pytest.mark.parametrize("settings", [PUCT, GUMBEL], ids=["puct", "gumbel"])
RULES = [Rules(**fields) for fields in tables("search")["rules"]]


class TableEvaluator(Table):
    """The `Table` of trials, where a pass is `passing` times likelier."""

    def __init__(self, passing: int = 1) -> None:
        self.passing = passing

    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        weight = (board.legal_actions(state) if legal is None else legal).to(torch.int64)
        weight[:, -1] *= self.passing
        return super().__call__(state, weight, key)


def replayed(rules: Rules, moves: list[int]) -> list[GameState]:
    """Returns the positions of a game by the plain rules, the start first."""
    return sgf.replay(sgf.GameRecord(rules, moves))[0]


def check_nodes(search_state: SearchState, game: int, start: board.State, cap: int) -> Counter[str]:
    """Plays to every node of a tree: every legal move is open, and of others only repetitions that were not tried; ends
    have the result, and after a pass a position is won by another, or worth at least that. Returns what was met."""
    tree, games, legal_in, met = search_state.tree, {ROOT: start}, {}, Counter()
    for node in range(ROOT, ROOT + int(tree.size[game])):
        if node > ROOT:
            parent, action = int(tree.parent[game, node]), tree.action[game, node].reshape(1).to(torch.int64)
            assert legal_in[parent][action]
            games[node] = board.step(games[parent], action)
        now, children, prior = games[node], tree.children[game, node], tree.prior[game, node]
        position = Go().unpack(tree.words[game, node].unsqueeze(0), now.board_size)
        for name in ("stones", "to_play", "passes", "ply"):
            assert getattr(position, name).tolist() == getattr(now, name).tolist(), name
        assert bool(now.finished) == (int(now.passes) == 2 or int(now.ply) == cap)
        may_end = int(now.passes) == 1 and not now.finished and int(now.rules.scoring) == 0 and node > ROOT
        is_over = bool(now.finished)
        if may_end or is_over:
            score = float(scoring.result_black(now)[0]) * (1 if int(now.to_play) == board.BLACK else -1)
            value, result = float(tree.value[game, node]), (score > 0) - (score < 0)
            assert value == result if is_over else value >= result
            is_over |= result == 1
            met.update(finished=bool(now.finished), draws=score == 0, certain=may_end and value == result)
        assert bool(tree.terminal[game, node]) == is_over
        if is_over:
            met.update(nodes=1)
            continue
        legal_in[node] = legal = board.legal_actions(now)[0]
        is_illegal = children == ILLEGAL
        repeats = torch.zeros_like(legal)
        repeats[:-1] = flood.unpack_rows(legal_rows(now, now.on_board, now.suicide)).flatten() & ~legal[:-1]
        assert not is_illegal[legal].any() and is_illegal[~legal & ~repeats].all()
        assert is_illegal[repeats].all() if node == ROOT else (children[repeats] <= NULL_NODE).all()
        met.update(nodes=1, closed=int(is_illegal[repeats].sum()) * (node > ROOT))
        assert not prior[is_illegal].any() and (node > ROOT or abs(float(prior.sum()) - 1) < 1e-5)
    return met


def check_links(tree: Tree, game: int) -> None:
    """Every node in use hangs below a parent with a smaller number, and nothing else is in use."""
    for node in range(ROOT + 1, ROOT + int(tree.size[game])):
        parent, action = int(tree.parent[game, node]), int(tree.action[game, node])
        assert ROOT <= parent < node and int(tree.children[game, parent, action]) == node
    assert (tree.visits[game, ROOT + int(tree.size[game]) :] == 0).all() and int(tree.visits[game, NULL_NODE]) == 0


def nodes_of(**fields: list) -> Nodes:
    """Returns one node: children's prior, visits, value and squares, and the node's own."""
    fields = {"squares": [0.0] * len(fields["prior"]), **fields}
    children = {name: torch.tensor([fields[name]]) for name in ("prior", "visits", "value", "squares")}
    is_open = torch.tensor([fields.get("is_open", [True] * len(fields["prior"]))])
    own = {key: torch.tensor([float(fields.get(key, 0.0))]) for key in ("total", "mean", "total_squares", "node_value")}
    return Nodes(**{name: value.to(torch.float32) for name, value in children.items()}, is_open=is_open, **own)


def check_sums(search_state: SearchState, is_kept: bool = False) -> None:
    """Every node's visits are its own and its children's, every sum its own value less its children's, of the squares
    plus theirs, and nothing else is left."""
    tree = search_state.tree
    for game, size in enumerate(tree.size.tolist()):
        closings = 0
        for node in range(ROOT, ROOT + size):
            children = [c for c in tree.children[game, node].tolist() if c > NULL_NODE]
            assert all(node < child < ROOT + size for child in children)
            visits, total, own = (float(getattr(tree, name)[game, node]) for name in ("visits", "value_sum", "value"))
            squares = float(tree.square_sum[game, node])
            assert visits >= 1
            if bool(tree.terminal[game, node]):
                assert not children and total == visits * own and squares == pytest.approx(visits * own**2)
                continue
            more = visits - 1 - int(tree.visits[game, children].sum())
            closings += more
            assert more == 0 or (tree.children[game, node] == ILLEGAL).any()
            if more == 0:
                assert total == own - float(tree.value_sum[game, children].sum())
                assert squares == pytest.approx(own**2 + float(tree.square_sum[game, children].sum()), abs=1e-4)
        assert is_kept or closings <= int(search_state.exact_leaves[1])
        check_links(tree, game)
    check_unused(tree)
    assert not any(getattr(tree, name)[:, NULL_NODE].any() for name in ("visits", "value_sum", "square_sum"))


def check_unused(tree: Tree) -> None:
    """Nodes behind the last in use are empty."""
    is_unused = torch.arange(tree.num_nodes, device=tree.size.device) >= ROOT + tree.size.unsqueeze(1)
    for name in {"visits", "value_sum", "square_sum", "score_sum", "terminal"} & tree.of_nodes.keys():
        assert not getattr(tree, name)[is_unused].any(), name


def same(plain: Tensor, ours: Tensor, name: str) -> None:
    """Equal to the bit; fractions that a GPU has found are close."""
    if ours.is_floating_point() and ours.device.type == "cuda":
        torch.testing.assert_close(ours.cpu(), plain, rtol=1e-5, atol=1e-5, msg=lambda text: f"{name}: {text}")
    else:
        assert torch.equal(plain, ours.cpu()), name


def same_trees(plain: Tree, ours: Tree) -> None:
    """All nodes are the same, but for what the network says of finished positions, where it need not be asked."""
    found = used_nodes(ours)
    for name, part in used_nodes(plain).items():
        same(part, found[name], name)
    check_unused(ours)


def same_searches(plain: SearchState, ours: SearchState) -> None:
    """The trees and all that a search counts are the same."""
    same_trees(plain.tree, ours.tree)
    found = meaning(ours)
    for name, part in meaning(plain).items():
        same(part, found[name], name)


def searched(
    search: Search,
    states: Any,
    budgets: Tensor,
    search_state: SearchState | None = None,
    seed: int = 0,
    steps: int | None = None,
) -> SearchState:
    """Returns the search state after a search, or after so many steps of it."""
    search_state = search_state if search_state is not None else search.init(states, int(budgets.max()))
    games = torch.arange(search_state.num_games, device=budgets.device)
    search.begin(search_state, games, budgets, seed, explore=True)
    if steps is None:
        search.run_simulations(search_state)
    for _ in range(steps or 0):
        search.simulate(search_state)
    return search_state


def played_on(
    search: Search, states: Any, budgets: Tensor, play: Callable[[Any, Tensor], Any] = board.step, moves: int = 2
) -> SearchState:
    """Makes searches one after another, budgets rolled, each after the move that the last one found."""
    search_state, games = search.init(states, int(budgets.max())), torch.arange(len(budgets), device=budgets.device)
    for turn in range(moves):
        if turn > 0:
            actions = search.result(search_state, games).action
            states = play(states, actions)
            search.advance(search_state, games, actions, states)
        searched(search, states, budgets.roll(turn), search_state, turn)
    return search_state
