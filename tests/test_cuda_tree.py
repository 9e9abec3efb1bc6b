"""The trees' CUDA kernels against torch: whole searches of toys and of Go, several leaves, kept subtrees; and they compile.

Interpreted, where there is no GPU, and on it with `pytest -m gpu`; torch does the same on the same device.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import interpreting  # noqa: F401
import pytest
import torch
import toys
from compiling import compile_for
from test_search import GUMBEL, PUCT, TableEvaluator, random_games
from torch import Tensor

from zerogo import board, kernels
from zerogo.config import SearchConfig
from zerogo.rules import Rules
from zerogo.search import Forest, Search, graph
from zerogo.search.graph import HostReads
from zerogo.search.leaves import descend_in_slots
from zerogo.search.tree import CLOSED, NOWHERE, ROOT, UNVISITED, Tree, keep_subtree_

pytest.importorskip("triton")
from zerogo.kernels.cuda import tree as kernel  # noqa: E402

RICH = dataclasses.replace(PUCT, fpu_reduction_root=0.1, forced_playouts=2.0, c_puct_log=0.3, c_puct_base=10.0)
SETTINGS = {"puct": PUCT, "puct with all": RICH, "gumbel": GUMBEL}
ALL = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
TOYS, STARTS = toys.union(
    toys.nim(2, 2), toys.tic_tac_toe("XX.OX...O"), toys.random_tree(8).with_repeating(0.4, seed=2), toys.race(-2, 3)
)


@pytest.fixture(autouse=True)
def _as_on_cuda(blind: Callable[[], None]) -> None:
    blind()


@pytest.fixture(params=["interpreted", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    if (request.param == "cuda") != torch.cuda.is_available():
        pytest.skip("interpreted without a GPU, compiled with one")
    return torch.device("cuda" if request.param == "cuda" else "cpu")


def on(device: torch.device, thing: Any) -> Any:
    """Returns a dataclass of tensors on a device, at any depth."""
    return graph._mapped(lambda tensor: tensor.to(device), thing)


@contextmanager
def by_kernel() -> Iterator[None]:
    """Lets the search use these kernels, and no others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled", lambda name, device: kernel if name == "tree" else None)
        yield


@contextmanager
def by_kernels_alone() -> Iterator[None]:
    """Lets everything use the kernels for CUDA."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled", lambda name, device: kernels._module(name, "cuda"))
        yield


def told(leaves: toys.Positions, legal: Tensor, key: Tensor) -> SimpleNamespace:
    """A toy's guesses, with priors that no order of additions rounds."""
    weight = torch.where(legal, TOYS.prior.to(key.device)[leaves.index], 0.0)
    share = weight / weight.sum(1, keepdim=True).clamp(min=1e-9)
    return SimpleNamespace(prior=torch.floor(share * 2**20) / 2**20, value=TOYS.guess.to(key.device)[leaves.index])


def several(settings: SearchConfig, number: int, keep_tree: bool = True) -> SearchConfig:
    return dataclasses.replace(settings, leaves=number, keep_tree=keep_tree, cuda_graph=False)


def same_forests(one: Forest, two: Forest) -> None:
    """All that is used is equal to the bit, and what is not is empty."""
    for name in ("budget", "done", "deepest", "exact_leaves", "collisions", "overflowed", "kept_visits", "root_prior"):
        assert torch.equal(getattr(one, name), getattr(two, name)), name
    assert torch.equal(one.tree.size, two.tree.size)
    node = torch.arange(one.tree.num_nodes, device=one.tree.size.device)
    used = (node > NOWHERE) & (node < ROOT + one.tree.size.unsqueeze(1))
    for field in dataclasses.fields(Tree):
        if field.name != "size":
            assert torch.equal(getattr(one.tree, field.name)[used], getattr(two.tree, field.name)[used]), field.name
    for name in ("visits", "value_sum", "terminal"):
        assert not getattr(two.tree, name)[~used].any(), name


def searches(made: Search, states: Any, budgets: Tensor, play: Callable[[Any, Tensor], Any], moves: int = 2) -> Forest:
    """Makes searches one after another, each after the move that the last one found."""
    forest, lane = made.plant(states, int(budgets.max())), torch.arange(len(budgets), device=budgets.device)
    for turn in range(moves):
        made.run(states, budgets.roll(turn), seed=turn, tree=forest, explore=True)
        if turn < moves - 1:
            actions = made.result(forest, lane).action
            states = play(states, actions)
            made.advance(forest, lane, actions, states)
    return forest


def play_toy(states: toys.Positions, actions: Tensor) -> toys.Positions:
    after = TOYS.after.to(actions.device)[states.index, actions]
    return toys.Positions(torch.where(after < 0, states.index, after), states.ply + 1)


# Whole searches


@pytest.mark.parametrize(("name", "number"), [("puct", 1), ("puct with all", 4), ("gumbel", 1), ("gumbel", 4)])
def test_toys_are_searched_alike(name: str, number: int, device: torch.device) -> None:
    """Two searches in a row with the subtrees kept, budgets of their own; finished positions and moves that are found closed are met."""
    budgets, toy, forests = torch.tensor([0, 11, 11, 8], device=device), on(device, TOYS), []
    for way in (kernels.plain, by_kernel):
        with way():
            made = Search(told, several(SETTINGS[name], number), game=toy)
            forests.append(searches(made, on(device, toy.new(STARTS)), budgets, play_toy))
    same_forests(*forests)
    assert (forests[0].exact_leaves > 0).all()
    assert number == 1 or int(forests[0].collisions) > 0


@pytest.mark.parametrize(("name", "number"), [("puct", 1), ("puct with all", 3), ("gumbel", 1), ("gumbel", 5)])
def test_go_is_searched_alike(name: str, number: int, device: torch.device) -> None:
    """On a board of 9 points superko and the move cap are met; with a kept subtree."""
    states, _ = random_games(Rules(size=3, komi=0.5, superko="positional", suicide=True), 3, 5, move_cap=9)
    states, budgets, forests = on(device, states), torch.tensor([12, 10, 5], device=device), []
    for way in (kernels.plain, by_kernel):
        with way():
            made = Search(TableEvaluator(passing=3), several(SETTINGS[name], number))
            forests.append(searches(made, states, budgets, board.step))
    same_forests(*forests)
    assert int(forests[0].exact_leaves[0]) > 0


@pytest.mark.parametrize(("name", "number"), [("puct", 1), ("gumbel", 3)])
def test_go_is_searched_alike_by_kernels_alone(name: str, number: int, device: torch.device) -> None:
    """With those for boards and for what moves lead to, in games of different rules and sizes; and nothing is read in a simulation."""
    rules = [Rules(size=3, komi=0.5, suicide=True), Rules(size=4, superko="situational")]
    states, budgets, forests = on(device, random_games(rules, 2, 5, move_cap=14)[0]), torch.tensor([6, 4], device=device), []
    for way in (kernels.plain, by_kernels_alone):
        with way():
            made = Search(TableEvaluator(passing=3), several(SETTINGS[name], number))
            forests.append(searches(made, states, budgets, board.step))
            made.begin(forests[-1], torch.arange(2, device=device), 6, seed=3)
            with HostReads() as reads:
                made.simulate(forests[-1])
            assert not reads.found
    same_forests(*forests)


def test_a_tree_is_filled_to_its_last_node(device: torch.device) -> None:
    states, forests = on(device, random_games(Rules(size=4, komi=0.5), 2, 4)[0]), []
    for way in (kernels.plain, by_kernel):
        with way():
            made = Search(TableEvaluator(), several(PUCT, 4, keep_tree=False))
            forests.append(made.run(states, torch.tensor([13, 6], device=device)).tree)
    same_forests(*forests)
    assert int(forests[1].tree.size[0]) == 14 == forests[1].tree.num_nodes - 1


def test_a_kept_tree_that_would_overflow_is_dropped(device: torch.device) -> None:
    toy, states, forests = on(device, TOYS), on(device, TOYS.new(STARTS[3:])), []
    for way in (kernels.plain, by_kernel):
        with way():
            made = Search(told, several(PUCT, 1), game=toy)
            forest = made.plant(states, 6)
            made.run(states, 6, tree=forest)
            forest.tree.size[:] = 9  # as if more were kept
            made.run(states, 6, seed=1, tree=forest)
            forests.append(forest)
    same_forests(*forests)
    assert int(forests[1].overflowed) == 1


def test_a_long_line_is_followed_and_backed_up(device: torch.device) -> None:
    """Deeper than the nodes that are backed up at once, to its end, which is met twice; with a move beside it that is closed."""
    toy = toys.written_out(0, lambda state: {0: state + 1}, lambda state: 0.5 if state == 70 else None, num_actions=2)
    toy = on(device, toy)
    made = Search(toy.evaluator(exact=False), several(PUCT, 1), game=toy)
    with kernels.plain():
        plain = made.plant(on(device, toy.new([0])), 75)
        made.begin(plain, torch.arange(1, device=device), 75, seed=1)
        for _ in range(69):
            made.simulate(plain)
        ours = copy.deepcopy(plain)
    for forest, way in ((plain, kernels.plain), (ours, by_kernel)):
        with way():
            for _ in range(3):
                made.simulate(forest)
    same_forests(plain, ours)
    assert int(ours.deepest) == 70 and ours.exact_leaves.tolist() == [3, 0] and int(ours.done) == 72


def test_a_spent_forest_stays_as_it_is(device: torch.device) -> None:
    states = on(device, TOYS.new(STARTS))
    made = Search(told, several(GUMBEL, 2), game=on(device, TOYS))
    with by_kernel():
        forest = made.run(states, 3).tree
        before = {name: getattr(forest.tree, name).clone() for name in ("visits", "value_sum", "children", "size", "prior", "words")}
        made.simulate(forest)
    assert all(torch.equal(getattr(forest.tree, name), tensor) for name, tensor in before.items())
    assert forest.done.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("seed", range(2))
def test_subtrees_are_kept_alike(seed: int, device: torch.device) -> None:
    """Larger than what is moved at once; of some games only, one move without a node, one to a finished position."""
    toy = on(device, toys.tic_tac_toe(("XX.O.....", "X...O....")[seed]))
    states, trees = on(device, toy.new([0] * 5)), []
    for way in (kernels.plain, by_kernel):
        with kernels.plain():
            made = Search(toy.evaluator(exact=False), several(PUCT, 1), game=toy)
            tree = made.run(states, torch.tensor([60, 40, 50, 60, 3], device=device)).tree.tree
        best = tree.visits[torch.arange(5, device=device).unsqueeze(1), tree.children[:, ROOT].clamp(min=0).long()].argmax(1)
        if seed == 0:
            best[1] = 2  # ends the game
            assert tree.terminal[1, int(tree.children[1, ROOT, 2])]
        with way():
            lane = torch.tensor([0, 1, 3, 4], device=device)
            keep_subtree_(tree, lane, best[lane])
        trees.append(tree)
    used = torch.arange(trees[0].num_nodes, device=device) < ROOT + trees[0].size.unsqueeze(1)
    used[:, NOWHERE] = False
    assert torch.equal(trees[0].size, trees[1].size) and int(trees[0].size[0]) > 8
    for field in dataclasses.fields(Tree):
        if field.name != "size":
            assert torch.equal(getattr(trees[0], field.name)[used], getattr(trees[1], field.name)[used]), field.name
    used[:, NOWHERE] = True  # torch has written there
    for name in ("visits", "value_sum", "terminal"):
        assert not getattr(trees[1], name)[~used].any(), name


# Choices


def strange_forest(num_actions: int, seed: int, device: torch.device) -> Forest:
    """Trees of a root and four children, some with children of their own, of random numbers, with many moves and few open."""
    made = torch.Generator().manual_seed(seed)
    num_games, num_nodes = 3, 8
    tree = Tree.empty(num_games, num_nodes, num_actions, 1, torch.device("cpu"))
    tree.children[:] = torch.where(torch.rand(tree.children.shape, generator=made) < 0.5, UNVISITED, CLOSED).to(torch.int32)
    tree.prior[:] = torch.softmax(3 * torch.randn(tree.prior.shape, generator=made), dim=2)
    tree.visits[:, ROOT:] = torch.randint(1, 30, (num_games, num_nodes - 1), generator=made, dtype=torch.int32)
    tree.value[:, ROOT:] = torch.rand(num_games, num_nodes - 1, generator=made) * 2 - 1
    tree.value_sum[:] = tree.visits * (0.3 * tree.value)
    for node in range(ROOT + 1, num_nodes - 1):
        parent, move = (ROOT if node < 6 else 2), num_actions - node * (num_actions // 10)
        tree.children[:, parent, move] = node
        tree.parent[:, node] = parent
    tree.size[:] = num_nodes - 2
    forest = Forest.of(None, tree, num_actions, 20)
    forest.depth_bound, forest.budget[:] = 2, torch.tensor([20, 7, 0])
    forest.root_prior[:] = tree.prior[:, ROOT].flip(1)
    forest.gumbel[:] = torch.randn(num_games, num_actions, generator=made)
    forest.order[:], forest.phase_end[:] = 3, 20
    parts = {field.name: on(device, getattr(forest, field.name)) for field in dataclasses.fields(Forest) if field.init}
    return Forest(**parts)


@ALL
@pytest.mark.parametrize("num_actions", [82, 626])
@pytest.mark.parametrize("number", [1, 2])
def test_choices_among_many_moves(settings: SearchConfig, num_actions: int, number: int, device: torch.device) -> None:
    """Random priors and values, so that all sums and quotients round."""
    for seed in range(2):
        forest = strange_forest(num_actions, seed, device)
        settings = several(settings, number)
        with kernels.plain():
            expected, counts = descend_in_slots(forest, settings)
        with by_kernel():
            found, counted = descend_in_slots(forest, settings)
        assert torch.equal(counts, counted) and int(counts.sum()) > number
        for name in ("depth", "action", "at_end"):
            assert torch.equal(getattr(found, name)[counts], getattr(expected, name)[counts]), name
        for row in counts.nonzero().squeeze(1).tolist():
            levels = int(found.depth[row]) + 1
            assert torch.equal(found.path[row, :levels], expected.path[row, :levels])


def test_of_equal_moves_the_lowest_is_taken(device: torch.device) -> None:
    forest = strange_forest(362, 0, device)
    forest.tree.children[:] = torch.where(torch.arange(362, device=device) < 5, CLOSED, UNVISITED)
    forest.root_prior[:], forest.gumbel[:] = 1 / 512, 0.0
    with by_kernel():
        for settings in (PUCT, GUMBEL):
            found, _ = descend_in_slots(forest, settings)
            assert found.action.tolist() == [5, 5, 5] and found.depth.tolist() == [0, 0, 0]


def test_unused_slots_name_a_node_and_a_move(device: torch.device) -> None:
    """What comes after the descent reads them, too."""
    forest = strange_forest(82, 1, device)
    with by_kernel():
        found, counts = descend_in_slots(forest, several(PUCT, 5))
    game = torch.arange(3, device=device).repeat(5)
    assert counts.view(5, 3).sum(0).tolist()[2] == 0
    assert torch.equal(found.last[~counts] - game[~counts] * 8, torch.full_like(game[~counts], ROOT))
    assert ((found.path >= 0) & (found.path < 24)).all()
    assert (forest.tree.children[game[~counts], ROOT, found.action[~counts]] != CLOSED).all()


# Compiled


POINTERS = {
    "*i32": ["children", "visits", "under_way", "order", "phase_end", "words", "parent", "leaf_words"],
    "*i64": ["size", "budget", "done", "collisions", "path", "depth", "deepest", "exact_leaves", "move", "lane", "place"],
    "*fp32": ["prior", "value_sum", "value", "root_prior", "gumbel", "kept_visits", "result", "leaf_prior", "leaf_value", "backed_up"],
    "*i1": ["terminal", "at_end", "counts", "legal", "finished", "repeats"],
    "i32": ["num_games", "num_nodes", "longest", "num_levels", "num_words", "leaves", "tries", "slots"],
    "fp32": ["c_puct", "c_puct_log", "c_puct_base", "fpu_reduction_root", "fpu_reduction", "forced_playouts", "c_visit", "c_scale"],
}
TYPE_OF = {name: kind for kind, names in POINTERS.items() for name in names}


def compiles(function: Any, num_actions: int, types: dict[str, str], **constants: Any) -> None:
    launch = kernel.launch(num_actions)
    constants |= {"ACTIONS": num_actions, "TILE": launch["TILE"]}
    arguments = [name for name in function.fn.__code__.co_varnames[: function.fn.__code__.co_argcount] if name not in constants]
    signature = {name: types.get(name, TYPE_OF.get(name)) for name in arguments}
    used = compile_for(function, signature, constants, num_warps=launch["num_warps"])
    assert all(use["spills"] <= 64 for use in used.values()), used


@pytest.mark.parametrize(("num_actions", "several", "is_gumbel"), [(82, False, False), (362, True, True), (626, False, True)])
def test_compiles(num_actions: int, several: bool, is_gumbel: bool) -> None:
    compiles(kernel.descend_kernel, num_actions, {"action": "*i64"}, SEVERAL=several, GUMBEL=is_gumbel)
    compiles(kernel.settle_kernel, num_actions, {"action": "*i32"}, WORDS=64)
    compiles(kernel.move_kernel, num_actions, {"action": "*i32"}, WORDS=64)
