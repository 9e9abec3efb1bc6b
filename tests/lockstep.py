"""Plays the same random games on the tensor board and by `zerogo.game`, and compares everything at every ply."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import torch
from diagrams import show
from torch import Tensor

from zerogo import board, scoring
from zerogo.board.position import find_atari, hash_stones
from zerogo.game import Colour, GameState, Move
from zerogo.rules import Rules


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

    reasons: how many of all candidate moves were illegal, by the kind of reason. why: the kinds for the present moves
    of each game. hashes: position on a 25x25 board -> hash, for all games ever seen, and positions, its inverse: equal
    positions must have equal hashes and different ones different hashes."""

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
        self.hashes: dict[int, int] = {}
        self.positions: dict[int, int] = {}
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
        self.why = [self._reasons(game) for game in self.games]
        expected = torch.zeros_like(legal)
        expected_stones = torch.zeros(len(self.games), side, side, dtype=torch.int8)
        for index, game in enumerate(self.games):
            size = game.rules.size
            mask = torch.tensor([reason == "" for reason in self.why[index]])
            expected[index, :-1].view(side, side)[:size, :size] = mask[:-1].view(size, size)
            expected[index, -1] = True
            expected_stones[index, :size, :size] = torch.tensor(game.stones(), dtype=torch.int8)
        for found, wanted in ((state.stones.flatten(1), expected_stones.flatten(1)), (legal, expected)):
            assert torch.equal(found, wanted), self._differing(found != wanted)
        self._compare_numbers(state)
        self._compare_hashes(state)
        self._compare_scores(state)

    def _reasons(self, game: GameState) -> list[str]:
        reasons = [kind_of(game.why_illegal(move)) for move in all_moves(game.rules.size)]
        self.reasons.update(reasons)
        return reasons

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

    def _compare_hashes(self, state: board.State) -> None:
        for game, found in zip(self.games, state.hash.tolist(), strict=True):
            row_bits = 2 * game.rules.size
            rows = [game.board.position >> row_bits * row & ((1 << row_bits) - 1) for row in range(game.rules.size)]
            position = sum(row << 50 * index for index, row in enumerate(rows))
            assert self.hashes.setdefault(position, found) == found, "one position, two hashes"
            assert self.positions.setdefault(found, position) == position, "two positions, one hash"

    def _compare_scores(self, state: board.State) -> None:
        area = scoring.area_ownership_black(state.stones, state.on_board).sum((1, 2)).tolist()
        board_rows, none_dead = (state.black, state.white, state.on_board), torch.zeros_like(state.black)
        territory = scoring.territory_rows_score(*board_rows, state.captures, none_dead).tolist()
        for index, game in enumerate(self.games):
            assert game.area_score_black() == area[index]
            assert game.territory_score_black() == territory[index]

    def _differing(self, wrong: Tensor) -> str:
        index = int(wrong.any(1).nonzero()[0])
        game = self.games[index]
        where = wrong[index].nonzero().flatten().tolist()
        which = f"game {index} ({game.rules}) at ply {game.ply}, {game.to_play}"
        return f"{which}: differs at {where}\n{show(game.stones())}"
