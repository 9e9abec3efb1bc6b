"""Shared by the tests of the search: settings, rules, evaluators, random games, and what must be true of every tree."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from slow_scoring import slow_benson
from torch import Tensor

from zerogo import board, sgf
from zerogo.board import rng
from zerogo.config import SearchConfig
from zerogo.evaluator import Evaluation
from zerogo.game import Colour, GameState, Move, Point
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
RULES = [
    Rules(size=4, komi=2.5, superko="positional"),
    Rules(size=5, komi=0.0, superko="situational", suicide=True),
    Rules(size=3, komi=1.0, superko="positional", suicide=True),
    Rules(size=5, komi=24.5, superko="simple"),
    Rules(size=2, komi=0.0, superko="situational"),
    Rules(size=5, komi=-3.0, superko="positional", scoring="territory"),
]


class TableEvaluator(Table):
    """The `Table` of trials, where a pass is `passing` times likelier."""

    def __init__(self, passing: int = 1) -> None:
        self.passing = passing

    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        weight = (board.legal_actions(state) if legal is None else legal).to(torch.int64)
        weight[:, -1] *= self.passing
        return super().__call__(state, weight, key)


def several(settings: SearchConfig, leaves: int, **changes: Any) -> SearchConfig:
    """Returns the settings with so many leaves a step."""
    return dataclasses.replace(settings, leaves=leaves, **changes)


def random_games(
    rules: Rules | list[Rules], num_games: int, plies: int, move_cap: int | None = None
) -> tuple[board.State, Tensor]:
    """Returns games after random legal moves (a pass where nothing else is legal, and now and then), and the moves:
    int64 [B, plies]."""
    state, moves = board.new_games(num_games, rules, move_cap=move_cap), []
    for ply in range(plies):
        weights = board.legal_actions(state).to(torch.float32)
        weights[:, -1] = torch.where((weights[:, :-1].sum(1) > 0) & (state.passes > 0), 0.0, 0.05)
        actions = rng.choose(rng.key(1, torch.arange(num_games), ply), weights)
        moves.append(actions)
        state = board.step(state, actions)
    return state, torch.stack(moves, dim=1) if moves else torch.zeros(num_games, 0, dtype=torch.int64)


def replayed(rules: Rules, moves: list[int]) -> list[GameState]:
    """Returns the positions of a game by the plain rules, the start first."""
    return sgf.replay(sgf.GameRecord(rules, moves))[0]


def result_of(state: GameState) -> int:
    """Returns 1 where Black wins a finished game, 0 for a draw, -1 where White does."""
    rows, colours = state.stones(), () if state.rules.scoring == "area" else (1, 2)
    safe = [(*at, colour) for colour in colours for at in slow_benson(rows, colour, state.rules.suicide)]
    score = state.score_black([Point(*at) for *at, colour in safe if rows[at[0]][at[1]] == 3 - colour])
    return (score > 0) - (score < 0)


def check_nodes(search_state: SearchState, game: int, start: GameState, cap: int) -> dict[str, int]:
    """Replays every node of a tree in the plain game; returns what was met."""
    tree, size = search_state.tree, start.rules.size
    games, met = {ROOT: start}, {"nodes": 0, "closed": 0, "finished": 0, "draws": 0}
    for node in range(ROOT, ROOT + int(tree.size[game])):
        if node > ROOT:
            before = games[int(tree.parent[game, node])]
            move = Move.from_action(int(tree.action[game, node]), size)
            assert before.why_illegal(move) is None
            games[node] = before.play(move)
        now = games[node]
        position = Go().unpack(tree.words[game, node].unsqueeze(0), size)
        assert position.stones[0].tolist() == now.stones() and int(position.to_play) == now.to_play.value
        assert (int(position.passes), int(position.ply)) == (now.passes, now.ply)
        is_over = now.is_over or now.ply >= cap
        met["nodes"] += 1
        assert bool(tree.terminal[game, node]) == is_over
        if is_over:
            result = result_of(now)
            assert float(tree.value[game, node]) == (result if now.to_play is Colour.BLACK else -result)
            met["finished"] += 1
            met["draws"] += result == 0
        else:
            met["closed"] += check_children(search_state, game, node, now)
    return met


def check_children(search_state: SearchState, game: int, node: int, now: GameState) -> int:
    """Every legal move is open, what is open and illegal is a repetition that was not tried; returns the repetitions
    that were."""
    tree, closed = search_state.tree, 0
    children, prior = tree.children[game, node].tolist(), tree.prior[game, node].tolist()
    assert node != ROOT or abs(sum(prior) - 1) < 1e-5
    for action, child in enumerate(children):
        reason = now.why_illegal(Move.from_action(action, now.rules.size))
        if reason is None:
            assert child != ILLEGAL
        elif not reason.startswith("superko") or node == ROOT:
            assert child == ILLEGAL, reason
        else:
            assert child <= NULL_NODE  # never a node
            closed += child == ILLEGAL
        if child == ILLEGAL:
            assert prior[action] == 0.0
    return closed


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
