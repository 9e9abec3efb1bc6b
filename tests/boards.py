"""Games for the tests of the board: random ones, a spiral, and the same games by the tensor board and by `zerogo.game`
(`Lockstep`), of which everything is compared at every ply. And text diagrams: `.` empty, `X` black, `O` white, one line
for a row, the top row first; blanks between points and around lines do not matter."""

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

import torch
from slow_scoring import parts
from torch import Tensor

from zerogo import board, scoring
from zerogo.board import State, rng
from zerogo.board.position import find_atari, hash_stones
from zerogo.game import Colour, GameState, Move
from zerogo.rules import SUPERKO, Rules
from zerogo.system.tensors import TensorFields

SYMBOLS = ".XO"  # index = colour: 0 empty, 1 black, 2 white


def parse(rows: str | Iterable[str]) -> list[list[int]]:
    """Returns the stones of a square diagram, a text or its lines: rows from the top, 0 empty, 1 black, 2 white."""
    lines = ["".join(line.split()) for line in (rows.strip().splitlines() if isinstance(rows, str) else rows)]
    assert all(len(line) == len(lines) for line in lines), f"not a square diagram: {lines}"
    assert set("".join(lines)) <= set(SYMBOLS), f"unknown symbol; known are {SYMBOLS!r}: {lines}"
    return [[SYMBOLS.index(symbol) for symbol in line] for line in lines]


def show(stones: Iterable[Iterable[int]]) -> str:
    """Returns the diagram of stones (rows from the top; lists, arrays or a [N, N] tensor), the inverse of `parse`."""
    return "\n".join("".join(SYMBOLS[int(colour)] for colour in row) for row in stones)


def kinds(size: int, copies: int = 1) -> list[Rules]:
    """Returns rules of a size with every superko kind, suicide allowed and not, so many times."""
    return [Rules(size, superko=superko, suicide=suicide) for superko in SUPERKO for suicide in (False, True)] * copies


def random_moves(state: State, seed: int) -> Tensor:
    """Returns uniform legal moves; a pass is rare while the board is not full, so that games get long: int64 [B]."""
    weights = board.legal_actions(state).to(torch.float32)
    weights[:, -1] = torch.where(state.ply < 3 * state.rules.size**2, 0.03, 5.0)
    return rng.choose(rng.key(seed, torch.arange(state.num_games), state.ply), weights)


def random_games(
    rules: list[Rules], plies: int, seed: int = 1, move_cap: int | None = None, start: State | None = None
) -> Iterator[tuple[State, Tensor]]:
    """Yields the states of random games before each ply, the last after the last, and the moves to be played then."""
    state = start or board.new_games(len(rules), rules, move_cap=move_cap)
    for ply in range(plies + 1):
        actions = random_moves(state, seed)
        yield state, actions
        if ply < plies:
            state = board.step(state, actions)


def after_random_moves(rules: list[Rules], plies: int, seed: int = 1, **options: Any) -> State:
    """Returns random games after so many plies."""
    return list(random_games(rules, plies, seed, **options))[-1][0]


def of_stones(stones: Any, rules: Rules | list[Rules] | None = None, to_play: int = 1) -> State:
    """Returns positions from stones [B, N, N], under the usual rules unless others are given."""
    stones = torch.as_tensor(stones).to(torch.int8)
    movers = torch.full((len(stones),), to_play, dtype=torch.int8)
    return board.from_stones(stones, movers, rules or Rules(stones.shape[1]))


def crowded(size: int, draw: random.Random, fill: float) -> list[list[int]]:
    """Returns random stones on a share of the points, those without liberties taken off."""
    grid = [[draw.choice((1, 2)) if draw.random() < fill else 0 for _ in range(size)] for _ in range(size)]
    for colour in (1, 2):
        for points, around in parts(grid, lambda c, colour=colour: c == colour):
            if not any(grid[r][c] == 0 for r, c in around):
                for r, c in points:
                    grid[r][c] = 0
    return grid


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


def spiral(size: int) -> list[str]:
    """Returns the rows of a board of 1, 5, 9, … points a side: a spiral of Black's from the corner to the centre,
    White's string between its arms, and in the centre the last liberty of both, where White takes all of Black's."""
    if size == 1:
        return ["."]
    first, *others = spiral(size - 4)
    above = ["X" * size, "O" * (size - 1) + "X", f"XX{first}OX"]
    return [*above, *(f"XO{row}OX" for row in others), f"X{'O' * (size - 2)}X", "X" * size]


def kind_of(reason: str | None) -> str:
    """Returns the kind of reason of `why_illegal`: "" for legal, "occupied", "suicide", "ko", "superko", …"""
    return "" if reason is None else reason.split(":")[0]


@cache
def all_moves(size: int) -> list[Move]:
    """Returns all plays and the pass, in the order of actions."""
    return [Move.from_action(action, size) for action in range(size * size + 1)]


class Lockstep:
    """B random games on both boards. Moves are uniform among the legal plays; a pass comes with the chance
    `pass_share`, and with 1/2 from ply `long` times the points on, so that games come to an end by two passes.

    reasons: how many of all candidate moves were illegal, by the kind of reason. why: each game's present kinds."""

    def __init__(
        self,
        rules: Sequence[Rules],
        seed: str,
        pass_share: float = 0.03,
        long: float = 1.5,
        device: str = "cpu",
        step: Callable[[board.State, Tensor], board.State] = board.step,
    ) -> None:
        self.random = random.Random(seed)
        self.pass_share, self.long, self.step_function = pass_share, long, step
        self.state = board.new_games(len(rules), list(rules), device)
        self.games = [GameState.new(rule) for rule in rules]
        self.reasons: Counter[str] = Counter()
        self.compare()

    def run(self, plies: int) -> None:
        """Plays and compares until all games are over, at most so many plies."""
        for _ in range(plies):
            if all(game.is_over for game in self.games):
                break
            self.step()
            self.compare()

    def step(self) -> None:
        """Plays one random legal move in every game; in a finished one a pass, which must not change it."""
        side, actions = self.state.board_size, []
        for index, game in enumerate(self.games):
            size, action = game.rules.size, None if game.is_over else self._draw(index, game)
            actions.append(side * side if action is None else action // size * side + action % size)
            if not game.is_over:
                self.games[index] = game.play(Move.from_action(size * size if action is None else action, size))
        self.state = self.step_function(self.state, torch.tensor(actions, device=self.state.device))

    def replace(self, indices: list[int]) -> None:
        """Puts new games of the same rules in place of some; all are of the batch's largest size."""
        rules = [self.games[index].rules for index in indices]
        fresh = board.new_games(len(rules), rules, self.state.device)
        self.state = board.put_(self.state, torch.tensor(indices, device=self.state.device), fresh)
        for index, rule in zip(indices, rules, strict=True):
            self.games[index] = GameState.new(rule)

    def _draw(self, index: int, game: GameState) -> int | None:
        """Returns a legal play as an action of the game's own board, None for a pass."""
        legal = [action for action, reason in enumerate(self.why[index][:-1]) if reason == ""]
        pass_share = self.pass_share if game.ply < self.long * game.rules.size**2 else 0.5
        return None if not legal or self.random.random() < pass_share else self.random.choice(legal)

    def compare(self) -> None:
        """Asserts that both boards agree on all that there is in every game."""
        state, side = self.state.to("cpu"), self.state.board_size
        legal = board.legal_actions(self.state).cpu()
        self._compare_with_itself(state)
        self.why = [[kind_of(game.why_illegal(move)) for move in all_moves(game.rules.size)] for game in self.games]
        self.reasons.update(chain.from_iterable(self.why))
        expected = torch.zeros_like(legal)
        expected_stones = torch.zeros(len(self.games), side, side, dtype=torch.int8)
        for index, game in enumerate(self.games):
            size = game.rules.size
            mask = torch.tensor([reason == "" for reason in self.why[index]])
            expected[index, :-1].view(side, side)[:size, :size] = mask[:-1].view(size, size)
            expected[index, -1] = True
            expected_stones[index, :size, :size] = torch.tensor(game.stones(), dtype=torch.int8)
        for found, wanted in ((state.stones.flatten(1), expected_stones.flatten(1)), (legal, expected)):
            wrong = (found != wanted).any(1).nonzero().flatten().tolist()
            assert not wrong, [(index, self.games[index].rules, self.games[index].ply) for index in wrong]
        self._compare_numbers(state)
        self._compare_scores(state)

    def _compare_with_itself(self, state: board.State) -> None:
        """What is carried along from move to move must equal what the stones alone tell."""
        atari, breathless = find_atari(state.black, state.white, state.on_board)
        assert torch.equal(state.atari, atari), "the carried atari differs from the flood's"
        assert not breathless.any()
        hashes = hash_stones(state.black, state.white)
        assert torch.equal(state.hash, hashes), "the hash differs from the stones'"
        assert torch.equal(state.black | state.white | state.on_board, state.on_board), "stones beyond the board"

    def _compare_numbers(self, state: board.State) -> None:
        expected = {
            "to_play": [game.to_play.value for game in self.games],
            "ply": [game.ply for game in self.games],
            "passes": [game.passes for game in self.games],
            "captures": [[game.captures[Colour.BLACK], game.captures[Colour.WHITE]] for game in self.games],
            "finished": [game.is_over for game in self.games],
            "ko": [-1 if game.ko is None else game.ko.row * state.board_size + game.ko.column for game in self.games],
        }
        for name, values in expected.items():
            assert getattr(state, name).tolist() == values, name

    def _compare_scores(self, state: board.State) -> None:
        area = scoring.area_score_black(state.stones, state.on_board).tolist()
        rows = state.black, state.white, state.on_board, state.captures, torch.zeros_like(state.black)
        territory = scoring.territory_rows_score(*rows).tolist()
        for index, game in enumerate(self.games):
            assert game.area_score_black() == area[index]
            assert game.territory_score_black() == territory[index]
