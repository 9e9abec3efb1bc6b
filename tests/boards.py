"""Games for the tests of the board."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from zerogo import board
from zerogo.board import State, rng
from zerogo.rules import SUPERKO, Rules
from zerogo.system.tensors import TensorFields


def kinds(size: int, copies: int = 1) -> list[Rules]:
    """Returns rules of a size with every superko kind, suicide allowed and not, so many times."""
    return [Rules(size, superko=superko, suicide=suicide) for superko in SUPERKO for suicide in (False, True)] * copies


def random_moves(state: State, seed: int) -> Tensor:
    """Returns uniform legal moves; a pass is rare while the board is not full, so that games get long: int64 [B]."""
    weights = board.legal_actions(state).to(torch.float32)
    weights[:, -1] = torch.where(state.ply < 3 * state.rules.size**2, 0.03, 5.0)
    return rng.choose(rng.key(seed, torch.arange(state.num_games), state.ply), weights)


def random_games(rules: list[Rules], plies: int, seed: int = 1, move_cap: int = 0) -> Iterator[tuple[State, Tensor]]:
    """Yields the states of random games before each ply, the last after the last, and the moves to be played then."""
    state = board.new_games(len(rules), rules, move_cap=move_cap or plies)
    for ply in range(plies + 1):
        actions = random_moves(state, seed)
        yield state, actions
        if ply < plies:
            state = board.step(state, actions)


def after_random_moves(rules: list[Rules], plies: int, seed: int = 1, **caps: Any) -> State:
    """Returns random games after so many plies."""
    return list(random_games(rules, plies, seed, **caps))[-1][0]


def assert_same(one: TensorFields, other: TensorFields, what: str = "", but: tuple[str, ...] = ()) -> None:
    """All tensors of two dataclasses are equal, with shapes and dtypes, but for the named fields."""
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, TensorFields):
            assert_same(a, b, what)
        elif isinstance(a, Tensor) and field.name not in but:
            assert a.dtype == b.dtype and a.shape == b.shape, (what, field.name)
            wrong = (a != b).reshape(len(a), -1).any(1).nonzero().flatten().tolist()
            assert not wrong, (what, field.name, f"games {wrong}")
