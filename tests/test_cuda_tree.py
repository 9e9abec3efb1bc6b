"""The trees' CUDA kernels against torch: whole searches of toys and of Go, several leaves, kept subtrees; and they
compile.

Interpreted, where there is no GPU, and on it with `pytest -m gpu`. Torch's answers are always the CPU's; on a GPU,
whose exponentials and sums round otherwise, whole numbers are the same and fractions close."""

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
from torch.nn import functional as F

from zerogo import board, kernels
from zerogo.config import SearchConfig
from zerogo.rules import Rules
from zerogo.search import Search, SearchState, graph
from zerogo.search.games import Go, Line
from zerogo.search.graph import HostReads
from zerogo.search.leaves import select_leaves
from zerogo.search.tree import CLOSED, NULL_NODE, ROOT, UNVISITED, Tree, keep_subtree_

pytest.importorskip("triton")
CPU = torch.device("cpu")
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


def both(device: torch.device, ours: Callable = by_kernel) -> list[tuple[Callable, torch.device]]:
    """Returns torch's way on the CPU and the kernels' on the device."""
    return [(kernels.plain, CPU), (ours, device)]


def same(plain: Tensor, ours: Tensor, name: str) -> None:
    """Equal to the bit; fractions that a GPU has found are close."""
    if ours.is_floating_point() and ours.device.type == "cuda":
        torch.testing.assert_close(ours.cpu(), plain, rtol=1e-5, atol=1e-5, msg=lambda text: f"{name}: {text}")
    else:
        assert torch.equal(plain, ours.cpu()), name


def same_trees(plain: Tree, ours: Tree) -> None:
    """All that is used is the same, and what the kernels leave unused is empty."""
    same(plain.size, ours.size, "size")
    node = torch.arange(plain.num_nodes)
    used = (node > NULL_NODE) & (node < ROOT + plain.size.unsqueeze(1))
    at = used.to(ours.size.device)
    for field in dataclasses.fields(Tree):
        if field.name != "size":
            same(getattr(plain, field.name)[used], getattr(ours, field.name)[at], field.name)
    for name in ("visits", "value_sum", "terminal"):
        assert not getattr(ours, name)[~at].any(), name


def same_forests(plain: SearchState, ours: SearchState) -> None:
    for name in ("budget", "done", "deepest", "exact_leaves", "collisions", "overflowed", "kept_visits", "root_prior"):
        same(getattr(plain, name), getattr(ours, name), name)
    same_trees(plain.tree, ours.tree)


def searches(
    made: Search, states: Any, budgets: Tensor, play: Callable[[Any, Tensor], Any], moves: int = 2
) -> SearchState:
    """Makes searches one after another, each after the move that the last one found."""
    search_state, lane = made.init(states, int(budgets.max())), torch.arange(len(budgets), device=budgets.device)
    for turn in range(moves):
        made.run(states, budgets.roll(turn), seed=turn, tree=search_state, explore=True)
        if turn < moves - 1:
            actions = made.result(search_state, lane).action
            states = play(states, actions)
            made.advance(search_state, lane, actions, states)
    return search_state


def play_toy(states: toys.Positions, actions: Tensor) -> toys.Positions:
    after = TOYS.after.to(actions.device)[states.index, actions]
    return toys.Positions(torch.where(after < 0, states.index, after), states.ply + 1)


# Whole searches


@pytest.mark.parametrize(("name", "number"), [("puct", 1), ("puct with all", 4), ("gumbel", 1), ("gumbel", 4)])
def test_toys_are_searched_alike(name: str, number: int, device: torch.device) -> None:
    """Two searches in a row with the subtrees kept, budgets of their own; finished positions and moves that are found
    closed are met.
    """
    budgets, search_states = torch.tensor([0, 11, 11, 8]), []
    for way, where in both(device):
        with way():
            made = Search(told, several(SETTINGS[name], number), game=on(where, TOYS))
            search_states.append(searches(made, on(where, TOYS.new(STARTS)), budgets.to(where), play_toy))
    same_forests(*search_states)
    assert (search_states[0].exact_leaves > 0).all()
    assert number == 1 or int(search_states[0].collisions) > 0


@pytest.mark.parametrize(("name", "number"), [("puct", 1), ("puct with all", 3), ("gumbel", 1), ("gumbel", 5)])
def test_go_is_searched_alike(name: str, number: int, device: torch.device) -> None:
    """On a board of 9 points superko and the move cap are met; with a kept subtree."""
    states, _ = random_games(Rules(size=3, komi=0.5, superko="positional", suicide=True), 3, 5, move_cap=9)
    budgets, search_states = torch.tensor([12, 10, 5]), []
    for way, where in both(device):
        with way():
            made = Search(TableEvaluator(passing=3), several(SETTINGS[name], number))
            search_states.append(searches(made, on(where, states), budgets.to(where), board.step))
    same_forests(*search_states)
    assert int(search_states[0].exact_leaves[0]) > 0


@pytest.mark.parametrize(("name", "number"), [("puct", 1), ("gumbel", 3)])
def test_go_is_searched_alike_by_kernels_alone(name: str, number: int, device: torch.device) -> None:
    """With those for boards and for what moves lead to, in games of different rules and sizes; and nothing is read in a
    simulation.
    """
    rules = [Rules(size=3, komi=0.5, suicide=True), Rules(size=4, superko="situational")]
    states, budgets, search_states = random_games(rules, 2, 5, move_cap=14)[0], torch.tensor([6, 4]), []
    for way, where in both(device, by_kernels_alone):
        with way():
            made = Search(TableEvaluator(passing=3), several(SETTINGS[name], number))
            search_states.append(searches(made, on(where, states), budgets.to(where), board.step))
            made.begin(search_states[-1], torch.arange(2, device=where), 6, seed=3)
            with HostReads() as reads:
                made.simulate(search_states[-1])
            assert not reads.found
    same_forests(*search_states)


def test_a_tree_is_filled_to_its_last_node(device: torch.device) -> None:
    states, search_states = random_games(Rules(size=4, komi=0.5), 2, 4)[0], []
    for way, where in both(device):
        with way():
            made = Search(TableEvaluator(), several(PUCT, 4, keep_tree=False))
            search_states.append(made.run(on(where, states), torch.tensor([13, 6], device=where)).tree)
    same_forests(*search_states)
    assert int(search_states[1].tree.size[0]) == 14 == search_states[1].tree.num_nodes - 1


def test_a_kept_tree_that_would_overflow_is_dropped(device: torch.device) -> None:
    search_states = []
    for way, where in both(device):
        with way():
            states = on(where, TOYS.new(STARTS[3:]))
            made = Search(told, several(PUCT, 1), game=on(where, TOYS))
            search_state = made.init(states, 6)
            made.run(states, 6, tree=search_state)
            search_state.tree.size[:] = 9  # as if more were kept
            made.run(states, 6, seed=1, tree=search_state)
            search_states.append(search_state)
    same_forests(*search_states)
    assert int(search_states[1].overflowed) == 1


def test_a_long_line_is_followed_and_backed_up(device: torch.device) -> None:
    """Deeper than the nodes that are backed up at once, to its end, which is met twice; with a move beside it that is
    closed.
    """
    toy = toys.written_out(0, lambda state: {0: state + 1}, lambda state: 0.5 if state == 70 else None, num_actions=2)
    search_states = []
    for way, where in both(device):
        told_by = on(where, toy)
        made = Search(told_by.evaluator(exact=False), several(PUCT, 1), game=told_by)
        with kernels.plain():
            search_state = made.init(on(where, toy.new([0])), 75)
            made.begin(search_state, torch.arange(1, device=where), 75, seed=1)
            for _ in range(69):
                made.simulate(search_state)
        with way():
            for _ in range(3):
                made.simulate(search_state)
        search_states.append(search_state)
    plain, ours = search_states
    same_forests(plain, ours)
    assert int(ours.deepest) == 70 and ours.exact_leaves.tolist() == [3, 0] and int(ours.done) == 72


def test_a_spent_forest_stays_as_it_is(device: torch.device) -> None:
    states = on(device, TOYS.new(STARTS))
    made = Search(told, several(GUMBEL, 2), game=on(device, TOYS))
    with by_kernel():
        search_state = made.run(states, 3).tree
        before = {
            name: getattr(search_state.tree, name).clone()
            for name in ("visits", "value_sum", "children", "size", "prior", "words")
        }
        made.simulate(search_state)
    assert all(torch.equal(getattr(search_state.tree, name), tensor) for name, tensor in before.items())
    assert search_state.done.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("seed", range(2))
def test_subtrees_are_kept_alike(seed: int, device: torch.device) -> None:
    """Larger than what is moved at once; of some games only, one move without a node, one to a finished position."""
    toy = toys.tic_tac_toe(("XX.O.....", "X...O....")[seed])
    with kernels.plain():
        made = Search(toy.evaluator(exact=False), several(PUCT, 1), game=toy)
        tree = made.run(toy.new([0] * 5), torch.tensor([60, 40, 50, 60, 3])).tree.tree
    best = tree.visits[torch.arange(5).unsqueeze(1), tree.children[:, ROOT].clamp(min=0).long()].argmax(1)
    if seed == 0:
        best[1] = 2  # ends the game
        assert tree.terminal[1, int(tree.children[1, ROOT, 2])]
    for name in ("visits", "value_sum", "terminal"):
        getattr(tree, name)[:, NULL_NODE] = 0  # torch has written there
    trees, lane = [], torch.tensor([[0, 9], [1, 9], [3, 9], [4, 9]])[:, 0]  # with gaps in memory
    for way, where in both(device):
        with way():
            trees.append(on(where, copy.deepcopy(tree)))
            keep_subtree_(trees[-1], on(where, lane), best[lane].to(where))
    same_trees(*trees)
    assert int(trees[0].size[0]) > 8


# Choices


def strange_forest(num_actions: int, seed: int, device: torch.device) -> SearchState:
    """Trees of a root and four children, some with children of their own, of random numbers, with many moves and few
    open.
    """
    made = torch.Generator().manual_seed(seed)
    num_games, num_nodes = 3, 8
    tree = Tree.empty(num_games, num_nodes, num_actions, 1, torch.device("cpu"))
    tree.children[:] = torch.where(torch.rand(tree.children.shape, generator=made) < 0.5, UNVISITED, CLOSED).to(
        torch.int32
    )
    tree.prior[:] = torch.softmax(3 * torch.randn(tree.prior.shape, generator=made), dim=2)
    tree.visits[:, ROOT:] = torch.randint(1, 30, (num_games, num_nodes - 1), generator=made, dtype=torch.int32)
    tree.value[:, ROOT:] = torch.rand(num_games, num_nodes - 1, generator=made) * 2 - 1
    tree.value_sum[:] = tree.visits * (0.3 * tree.value)
    for node in range(ROOT + 1, num_nodes - 1):
        parent, move = (ROOT if node < 6 else 2), num_actions - node * (num_actions // 10)
        tree.children[:, parent, move] = node
        tree.parent[:, node] = parent
    tree.size[:] = num_nodes - 2
    search_state = SearchState.of(None, tree, num_actions, 20)
    search_state.depth_bound, search_state.budget[:] = 2, torch.tensor([20, 7, 0])
    search_state.root_prior[:] = tree.prior[:, ROOT].flip(1)
    search_state.gumbel[:] = torch.randn(num_games, num_actions, generator=made)
    search_state.order[:], search_state.phase_end[:] = 3, 20
    parts = {
        field.name: on(device, getattr(search_state, field.name))
        for field in dataclasses.fields(SearchState)
        if field.init
    }
    return SearchState(**parts)


@ALL
@pytest.mark.parametrize("num_actions", [82, 626])
@pytest.mark.parametrize("number", [1, 2])
def test_choices_among_many_moves(settings: SearchConfig, num_actions: int, number: int, device: torch.device) -> None:
    """Random priors and values, so that all sums and quotients round."""
    for seed in range(2):
        settings = several(settings, number)
        with kernels.plain():
            expected, counts = select_leaves(strange_forest(num_actions, seed, CPU), settings)
        with by_kernel():
            found, counted = (
                on(CPU, one) for one in select_leaves(strange_forest(num_actions, seed, device), settings)
            )
        assert torch.equal(counts, counted) and int(counts.sum()) > number
        for name in ("depth", "action", "at_end"):
            assert torch.equal(getattr(found, name)[counts], getattr(expected, name)[counts]), name
        for row in counts.nonzero().squeeze(1).tolist():
            levels = int(found.depth[row]) + 1
            assert torch.equal(found.path[row, :levels], expected.path[row, :levels])


def test_of_equal_moves_the_lowest_is_taken(device: torch.device) -> None:
    search_state = strange_forest(362, 0, device)
    search_state.tree.children[:] = torch.where(torch.arange(362, device=device) < 5, CLOSED, UNVISITED)
    search_state.root_prior[:], search_state.gumbel[:] = 1 / 512, 0.0
    with by_kernel():
        for settings in (PUCT, GUMBEL):
            found, _ = select_leaves(search_state, settings)
            assert found.action.tolist() == [5, 5, 5] and found.depth.tolist() == [0, 0, 0]


def test_unused_slots_name_a_node_and_a_move(device: torch.device) -> None:
    """What comes after the selection reads them, too."""
    search_state = strange_forest(82, 1, device)
    with by_kernel():
        found, counts = select_leaves(search_state, several(PUCT, 5))
    game = torch.arange(3, device=device).repeat(5)
    assert counts.view(5, 3).sum(0).tolist()[2] == 0
    assert torch.equal(found.last[~counts] - game[~counts] * 8, torch.full_like(game[~counts], ROOT))
    assert torch.equal(found.last, found.path[torch.arange(15, device=device), found.depth]) and (found.last < 24).all()
    assert (search_state.tree.children[game[~counts], ROOT, found.action[~counts]] != CLOSED).all()


def test_what_is_behind_the_end_of_a_path_is_not_read() -> None:
    """The kernel leaves there what was in memory, and torch looks for repetitions along whole paths."""
    states, lane = random_games(Rules(size=3, komi=0.5, superko="positional", suicide=True), 3, 5)[0], torch.arange(3)
    search_state, game = Search(TableEvaluator(), several(PUCT, 1)).run(states, 12).tree, Go()
    way, _ = select_leaves(search_state, PUCT)
    words, found = search_state.tree.words.flatten(0, 1), []
    for fill in (0, 2**40, -1):
        path = torch.where(torch.arange(way.path.shape[1] + 1) <= way.depth.unsqueeze(1), F.pad(way.path, (0, 1)), fill)
        line = Line(lane, path, way.depth, words, search_state.tree.action.view(-1))
        back = words[path[:, 0]]  # as if every move led back to the root
        position = game.play(states, lane, back, torch.full((3,), 9))
        found.append(game.repeats(states, position, line, torch.zeros(3, dtype=torch.int64)))
    assert all(torch.equal(one, found[0]) for one in found) and found[0].all()


# Compiled


POINTERS = {
    "*i32": ["children", "visits", "under_way", "order", "phase_end", "words", "parent", "leaf_words"],
    "*i64": [
        "size",
        "budget",
        "done",
        "collisions",
        "path",
        "depth",
        "deepest",
        "exact_leaves",
        "move",
        "lane",
        "place",
    ],
    "*fp32": [
        "prior",
        "value_sum",
        "value",
        "root_prior",
        "gumbel",
        "kept_visits",
        "result",
        "leaf_prior",
        "leaf_value",
        "backed_up",
    ],
    "*i1": ["terminal", "at_end", "counts", "legal", "finished", "repeats"],
    "i32": ["num_games", "num_nodes", "longest", "num_levels", "num_words", "leaves", "tries", "slots"],
    "fp32": [
        "c_puct",
        "c_puct_log",
        "c_puct_base",
        "fpu_reduction_root",
        "fpu_reduction",
        "forced_playouts",
        "c_visit",
        "c_scale",
    ],
}
TYPE_OF = {name: kind for kind, names in POINTERS.items() for name in names}


def compiles(function: Any, num_actions: int, types: dict[str, str], **constants: Any) -> None:
    launch = kernel.launch(num_actions)
    constants |= {"ACTIONS": num_actions, "TILE": launch["TILE"]}
    arguments = [
        name for name in function.fn.__code__.co_varnames[: function.fn.__code__.co_argcount] if name not in constants
    ]
    signature = {name: types.get(name, TYPE_OF.get(name)) for name in arguments}
    used = compile_for(function, signature, constants, num_warps=launch["num_warps"])
    assert all(use["spills"] <= 64 for use in used.values()), used


@pytest.mark.parametrize(
    ("num_actions", "several", "is_gumbel"), [(82, False, False), (362, True, True), (626, False, True)]
)
def test_compiles(num_actions: int, several: bool, is_gumbel: bool) -> None:
    compiles(kernel.descend_kernel, num_actions, {"action": "*i64"}, SEVERAL=several, GUMBEL=is_gumbel)
    compiles(kernel.settle_kernel, num_actions, {"action": "*i32"}, WORDS=64)
    compiles(kernel.move_kernel, num_actions, {"action": "*i32"}, WORDS=64)
