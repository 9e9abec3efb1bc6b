"""Triton's kernels compile for GPUs that are not here, to machine code that spills nothing or little, and keys are
torch's for any integers. Those of boards are in test_board; what all kernels compute is tried by test_trials."""

import dataclasses
from collections.abc import Callable
from functools import partial

import pytest
import torch
from compiling import compile_call
from implementations import ONLY_TRITON, done, module
from searches import TableEvaluator, searched

from zerogo import board
from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.config import SearchConfig
from zerogo.kernels.shared import COUNTS, ROWS
from zerogo.rules import Rules, own_actions
from zerogo.search import Go, Search
from zerogo.search.search import step_leaves
from zerogo.search.selection import select


def calls_of_a_move(size: int) -> list[tuple]:
    """Returns functions and their arguments: what a move does at the roots, and around the network."""
    states, settings = board.new_games(2, Rules(size=size)), SearchConfig(algorithm="gumbel", max_considered=16)
    search_state = searched(Search(TableEvaluator(), settings), states, torch.tensor([4, 4]), steps=1)
    bare, games = dataclasses.replace(search_state, states=None, repeated_states=None), torch.arange(2)
    legal, flags = board.legal_actions(states), torch.ones(2, dtype=torch.bool)
    words, prior, value = search_state.tree.words[:, 1], torch.rand(legal.shape), torch.rand(2)
    names = ("roots", "leaf_states", "draws", "planes", "epilogues")
    roots, leaves, draws, planes, epilogues = (module(name, "triton") for name in names)
    position, places = dataclasses.replace(states, rules=None), own_actions(states.rules.size, size)
    y = torch.zeros(2, 96, size, size, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    return [
        (roots.result, bare, games, settings),
        (roots.make_roots, bare, games, words, prior, value, flags),
        (roots.begin_searches, bare, games, legal, games, games, None, None, 16),
        (roots.begin_searches, bare, games, legal, games, games, flags, places, 16),
        (leaves.pack, position),
        (leaves.outcome, position, states.on_board, states.rules.komi),
        (module("board", "triton").legal_actions, states, torch.zeros(2 * size * size + 2, dtype=torch.int64)),
        (planes.history, states.black, states.white, states.recent, states.to_play, 7),
        (module("playouts", "triton").play_out, states, games, states.rules.size),
        (epilogues.finish_, y, torch.zeros(96), None, None, False),
        (epilogues.finish_, y, torch.zeros(96), y, y[:, 0] == 0, True),
        (epilogues.finish_, y, torch.zeros(96), y[:, :, :1, :1], None, True),
    ]


def calls_of_search(size: int, leaves: int, algorithm: str) -> list[tuple]:
    states, settings = board.new_games(2, Rules(size=size)), SearchConfig(algorithm=algorithm, leaves=leaves)
    search = Search(TableEvaluator(), settings, keeps_scores=leaves > 1)
    search_state = searched(search, states, torch.tensor([4, 4]), steps=1)
    selection, tree = select(search_state, settings), module("tree", "triton")
    landed = dataclasses.replace(step_leaves(Go(), search_state, selection), leaf=None)
    bare = dataclasses.replace(search_state, states=None, repeated_states=None)
    prior, value = torch.zeros(2 * leaves, size**2 + 1), torch.zeros(2 * leaves)
    return [
        (tree.select, bare, settings),
        (tree.expand_and_backup, bare, selection, landed, prior, value, value if leaves > 1 else None),
        (tree.keep_subtree_, bare.tree, torch.arange(2), torch.tensor([3, -1])),
    ]


def calls_of_encoders(size: int) -> list[tuple]:
    """Boards that have no memory are enough; a batch beyond 2^31 elements is counted in int64."""
    calls, paint = [], module("planes", "triton").paint
    for spans, num_games in ((((ROWS, 17), (COUNTS, 31)), 2), (((ROWS, 48),), 2), (((ROWS, 48),), 2**31 // 48 // size)):
        rows = torch.empty(num_games, 48, size, dtype=torch.int32, device="meta")
        counts = torch.empty(1, num_games, size, size, dtype=torch.int16, device="meta")
        calls.append((paint, spans, rows, counts, torch.bfloat16))
    rows, to_play = torch.zeros(2, size, dtype=torch.int32), torch.ones(2, dtype=torch.int8)
    calls.append((module("tactics", "triton").read, *[rows] * 4))
    kos = (None, torch.zeros(2, dtype=torch.int16)) if size == 19 else ()
    return calls + [(module("ladders", "triton").read, *[rows] * 3, to_play, 99, ko) for ko in kos]


def calls_of_scoring() -> list[tuple]:
    rows, suicide = torch.zeros(2, 9, dtype=torch.int32), torch.zeros(2, dtype=torch.bool)
    fast = module("scoring", "triton")
    return [(fast.pass_alive_rows, *[rows] * 3, suicide), (fast.all_pass_alive, *[rows] * 3, suicide)]


def calls_of_draws() -> list[tuple]:
    fast, games, places = module("draws", "triton"), torch.arange(4), own_actions(torch.full((4,), 9), 9)
    calls = [(fast.key, (seed, games, games.to(torch.int32), Purpose.MOVE), 0) for seed in (1, 2**40, games)]
    calls.append((fast.key, (1, Purpose.SYMMETRY, games), 7))
    for at in (None, places):
        calls += [(fast.uniform, games, 82, at, is_gumbel) for is_gumbel in (False, True)]
    return calls


CALLS: dict[str, tuple[Callable[[], list[tuple]], int]] = {  # and how many bytes a thread may spill
    "move-9": (partial(calls_of_a_move, 9), 64),
    "move-19": (partial(calls_of_a_move, 19), 64),
    "search-9": (partial(calls_of_search, 9, 1, "puct"), 64),
    "search-19": (partial(calls_of_search, 19, 3, "gumbel"), 64),
    "search-25": (partial(calls_of_search, 25, 1, "gumbel"), 64),
    "encoders-9": (partial(calls_of_encoders, 9), 0),
    "encoders-19": (partial(calls_of_encoders, 19), 0),
    "scoring": (calls_of_scoring, 0),
    "draws": (calls_of_draws, 0),
}


@pytest.mark.parametrize("name", CALLS)
def test_kernels_compile(name: str, use: Callable[[str], None]) -> None:
    pytest.importorskip("triton")
    use("blind")
    calls, most_spills = CALLS[name]
    for function, *arguments in calls():
        for launched in compile_call(function, *arguments).values():
            assert launched and all(used["spills"] <= most_spills for used in launched.values()), (function, launched)
            assert name != "scoring" or not any(used["shared"] for used in launched.values())


@ONLY_TRITON
def test_keys_of_any_integers(way: str) -> None:
    """Seeds of all sizes, more games than fit a block and none, shapes that must be broadcast."""
    for number in (0, 1, 200):
        games, plies = torch.randint(-(2**63), 2**63 - 1, (number,)), torch.arange(number).to(torch.int8)
        for seed in (0, -5, 2**62 + 1):
            key = partial(rng.key, seed, Purpose.NOISE)
            for parts in ((games,), (plies, games), (games.unsqueeze(1), plies[:5])):
                assert torch.equal(done(way, key, *parts), key(*parts))
