"""Toy games with known values for the tests of the search: any small game, written out as tables, and an evaluator that
reads one.

A toy is a set of numbered states; the players move in turn."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace

import torch
from torch import Tensor

from zerogo.search import Game, SearchPath
from zerogo.search.game import LeafStates
from zerogo.system.tensors import TensorFields


@dataclass(frozen=True)
class Positions(TensorFields):
    """K positions of a toy, its roots too: index int64 [K], the state's number; ply: int32 [K] keys their draws."""

    index: Tensor
    ply: Tensor
    num_actions: int


@dataclass(frozen=True)
class Toy(TensorFields, Game):
    """A game written out, offered to the search as a `Game`. State 0 is the start.

    after: int64 [S, A], the state after each move, -1 where illegal. result: float32 [S], that of the side to move
    where the game is over, nan elsewhere. exact: float32 [S], the value with perfect play, for the side to move. prior:
    float32 [S, A]. guess: float32 [S], wrong values within [-1, 1]. points: float32 [S], a score for the side to move
    in quarters, which sums hold exactly. repeating: bool [S, A], moves found illegal when they are tried."""

    after: Tensor
    result: Tensor
    exact: Tensor
    prior: Tensor
    guess: Tensor
    points: Tensor
    repeating: Tensor

    def new(self, index: list[int]) -> Positions:
        return Positions(torch.tensor(index), torch.zeros(len(index), dtype=torch.int32), self.after.shape[1])

    def root_legal(self, states: Positions) -> Tensor:
        return (self.after[states.index] >= 0) & ~self.repeating[states.index]

    def step_leaves(self, states: Positions, path: SearchPath, words: Tensor, actions: Tensor) -> LeafStates:
        before = words[:, 0].to(torch.int64)
        after = self.after[before, actions]
        index, repeats = torch.where(after < 0, before, after), self.repeating[before, actions]
        leaf = Positions(index, states.ply[path.game_index], states.num_actions)
        over = self.outcome(states, path.game_index, leaf)
        return LeafStates(self.pack(leaf), self.after[index] >= 0, *over, repeats, leaf)

    def pack(self, position: Positions) -> Tensor:
        return position.index.to(torch.int32).unsqueeze(1)

    def outcome(self, states: Positions, game_index: Tensor, position: Positions) -> tuple[Tensor, Tensor]:
        result = self.result[position.index]
        return ~result.isnan(), result.nan_to_num(-1.0)

    def final_score(self, states: Positions, game_index: Tensor, position: Positions) -> Tensor:
        return self.points[position.index]

    def evaluator(self, exact: bool = True, even: bool = False) -> Callable[..., SimpleNamespace]:
        """Returns an evaluator that knows the true values, or only guesses; its priors are the toy's, or even over the
        legal moves, in numbers that no order of additions rounds."""
        values = self.exact if exact else self.guess

        def evaluate(leaves: Positions, legal: Tensor, key: Tensor) -> SimpleNamespace:
            prior = legal.to(torch.float32) if even else torch.where(legal, self.prior[leaves.index], 0.0)
            prior = torch.floor(prior / prior.sum(1, keepdim=True).clamp(min=1e-9) * 2**20) / 2**20
            return SimpleNamespace(prior=prior, value=values[leaves.index], score=self.points[leaves.index])

        return evaluate

    def with_repeating(self, share: float, seed: int) -> Toy:
        """Returns the toy with a share of its moves found illegal when tried, but never a state's last move."""
        drawn = random.Random(seed)
        repeating = torch.zeros_like(self.repeating)
        for state, moves in enumerate(self.after.tolist()):
            for action in [a for a, after in enumerate(moves) if after >= 0][:-1]:
                repeating[state, action] = drawn.random() < share
        exact = exact_values(torch.where(repeating, -1, self.after).tolist(), self.result.tolist())
        return replace(self, repeating=repeating, exact=torch.tensor(exact))


def written_out(start: Hashable, moves: Callable, result: Callable, num_actions: int, seed: int = 0) -> Toy:
    """Returns a toy of all states in reach: moves(state) -> {action: state}, result(state) -> the mover's or None."""
    numbers, states, rows = {start: 0}, [start], []
    for state in states:
        row = [-1] * num_actions
        for action, after in (moves(state) if result(state) is None else {}).items():
            if after not in numbers:
                numbers[after] = len(states)
                states.append(after)
            row[action] = numbers[after]
        rows.append(row)
    results = [float("nan") if result(state) is None else float(result(state)) for state in states]
    drawn = random.Random(seed)
    return Toy(
        after=torch.tensor(rows),
        result=torch.tensor(results),
        exact=torch.tensor(exact_values(rows, results)),
        prior=torch.tensor([[drawn.randint(1, 40) / 64 for _ in range(num_actions)] for _ in states]),
        guess=torch.tensor([drawn.randint(-32, 32) / 32 for _ in states]),
        points=torch.tensor([drawn.randint(-80, 80) / 4 for _ in states]),
        repeating=torch.zeros(len(states), num_actions, dtype=torch.bool),
    )


def exact_values(rows: list[list[int]], results: list[float]) -> list[float]:
    """Returns each state's value with perfect play, for the side to move: plain negamax."""

    @cache
    def value(state: int) -> float:
        if results[state] == results[state]:
            return results[state]
        return max(-value(after) for after in rows[state] if after >= 0)

    return [value(state) for state in range(len(rows))]


LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def tic_tac_toe(start: str = "." * 9) -> Toy:
    """Noughts and crosses: a draw from the empty board; X and O as in `start`, the mover by their number."""

    def mover(state: str) -> str:
        return "XO"[state.count("X") - state.count("O")]

    def result(state: str) -> int | None:
        if any(state[a] == state[b] == state[c] != "." for a, b, c in LINES):
            return -1
        return None if "." in state else 0

    def moves(state: str) -> dict[int, str]:
        return {i: state[:i] + mover(state) + state[i + 1 :] for i in range(9) if state[i] == "."}

    return written_out(start, moves, result, 9)


def random_tree(seed: int, depth: int = 5, width: int = 4) -> Toy:
    """A tree with random branching and random results in steps of a quarter, that may end early."""
    drawn = random.Random(seed)
    facts: dict[tuple[int, ...], tuple[float | None, int]] = {}

    def fact(state: tuple[int, ...]) -> tuple[float | None, int]:
        if state not in facts:
            is_over = len(state) == depth or (len(state) > 1 and drawn.random() < 0.15)
            facts[state] = (drawn.randint(-4, 4) / 4 if is_over else None, drawn.randint(2, width))
        return facts[state]

    return written_out((), lambda s: {a: (*s, a) for a in range(fact(s)[1])}, lambda s: fact(s)[0], width, seed)


def union(*games: Toy) -> tuple[Toy, list[int]]:
    """Returns several toys as one, so that a batch can hold them all, and the number of each one's start."""
    width = max(game.after.shape[1] for game in games)
    starts = [sum(len(game.after) for game in games[:i]) for i in range(len(games))]

    def joined(tables: list[Tensor], fill: float) -> Tensor:
        return torch.cat([torch.nn.functional.pad(one, (0, width - one.shape[1]), value=fill) for one in tables])

    after = [torch.where(game.after < 0, -1, game.after + start) for game, start in zip(games, starts, strict=True)]
    flat = {name: torch.cat([getattr(game, name) for game in games]) for name in ("result", "exact", "guess", "points")}
    prior, repeating = joined([game.prior for game in games], 0.0), joined([game.repeating for game in games], False)
    return Toy(after=joined(after, -1), prior=prior, repeating=repeating, **flat), starts


GAMES = {
    "tic-tac-toe, drawn": tic_tac_toe("X...O...."),
    "tic-tac-toe, won by a fork": tic_tac_toe("X.......O"),
    "tic-tac-toe, lost": tic_tac_toe("XX.OX...O"),
    "random tree": random_tree(3),
    "illegal moves among the good ones": random_tree(8).with_repeating(0.4, seed=2),
}
