"""Matches between two players, and all pairings of several: every game of a match in lock-step, in one batch.

A game is a function of (players, rules, seed, its number) alone, so it comes out the same alone and among thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from torch import Tensor

from zerogo import board, draws, flood, scoring
from zerogo.arena.result import NO_MOVE, MatchResult, joined
from zerogo.draws import Purpose
from zerogo.errors import InputError
from zerogo.players import Player, RandomPlayer
from zerogo.rules import Rules

COLOURS = ("paired", "a_black")
AT_ONCE = 1024  # games of one batch, which bounds the memory of trees; a game doesn't depend on it

# Called with the games played so far: a game that goes on counts as the share of the move cap that it has reached.
OnProgress = Callable[[float], None]


def play_match(
    player_a: Player,
    player_b: Player,
    rules: Rules,
    num_games: int,
    seed: int,
    *,
    colours: str = "paired",
    opening_plies: int = 0,
    move_cap: int | None = None,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
    first_game: int = 0,
    at_once: int = AT_ONCE,
) -> MatchResult:
    """Returns what came of `num_games` games of A against B.

    colours: "paired" gives A Black in games with even numbers and White in the odd ones, games 2k and 2k + 1 with one opening; "a_black"
    gives A Black in all. opening_plies: moves at the start that the random player makes, drawn from the seed and the pair's number.
    move_cap: ply at which a game ends, None for 2 * size * size. first_game: the first game's number. at_once: games of one batch.
    Where both players are one and the same object, one call chooses the moves of both sides.

    Games end by two passes or at the cap, nobody resigns. Under area scoring the final board counts AS IT STANDS: each side's stones and
    the points that it alone reaches, every stone alive, less komi. Under territory scoring, where capturing dead stones costs points,
    those inside the other side's pass-alive territory are dead (`scoring.final_score_black`).
    """
    if colours not in COLOURS:
        raise InputError(f"match: colours are {colours!r}; allowed are {', '.join(COLOURS)}")
    if num_games < 1 or opening_plies < 0 or at_once < 1:
        raise InputError(f"match: {num_games} games, {opening_plies} opening plies, {at_once} at once; allowed are 1, 0 and 1 or more")
    cap = 2 * rules.size**2 if move_cap is None else move_cap
    if cap < 1:
        raise InputError(f"match: the move cap is {cap} plies; it must be 1 or more")
    parts = []
    for start in range(0, num_games, at_once):
        numbers = torch.arange(start, min(start + at_once, num_games), device=device) + first_game
        games = _Games((player_a, player_b), rules, seed, numbers, colours == "paired", opening_plies, cap)
        while games.go_on():
            if on_progress is not None:
                on_progress(start + games.progress())
        parts.append(games.result())
    return joined(parts)


def round_robin(
    players: Sequence[Player],
    rules: Rules,
    num_games: int,
    seed: int,
    *,
    on_result: Callable[[MatchResult], None] | None = None,
    on_progress: OnProgress | None = None,
    **options,
) -> list[MatchResult]:
    """Returns the matches of every player against every other, (0, 1), (0, 2), …, (1, 2), …: `num_games` each, each with a seed of its own.

    on_result: called with each match when it is over. on_progress: with the games of all matches so far. options: as for `play_match`.
    """
    results: list[MatchResult] = []
    for index, (i, j) in enumerate(combinations(range(len(players)), 2)):
        before = index * num_games
        report = None if on_progress is None else lambda done, before=before: on_progress(before + done)
        match_seed = int(draws.key(seed, i, j)) % 2**62  # so that the games of two matches don't draw alike
        result = play_match(players[i], players[j], rules, num_games, match_seed, on_progress=report, **options)
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


class _Games:
    """The games of one batch while they are played. numbers: int64 [G].

    Only games that go on are kept in `states` (K games; `lane` int64 [K] says which they are of the G), so finished ones cost nothing.
    """

    def __init__(
        self, players: tuple[Player, Player], rules: Rules, seed: int, numbers: Tensor, is_paired: bool, opening_plies: int, cap: int
    ) -> None:
        self.players, self.rules, self.seed, self.cap = players, rules, seed, cap
        self.numbers, self.is_paired, self.opening_plies = numbers, is_paired, opening_plies
        count, size, device = len(numbers), rules.size, numbers.device
        self.opening = numbers // 2 if is_paired else numbers
        self.opening_seed = int(draws.key(seed, Purpose.OPENING)) % 2**62
        self.a_is_black = (numbers % 2 == 0) if is_paired else torch.ones(count, dtype=torch.bool, device=device)
        self.lane = torch.arange(count, device=device)
        self.states = board.new_games(count, rules, device, cap)
        self.ply = 0
        self.actions: list[Tensor] = []
        self.score = torch.zeros(count, device=device)
        self.area = torch.zeros(count, dtype=torch.int64, device=device)
        self.length = torch.zeros(count, dtype=torch.int64, device=device)
        self.capped = torch.zeros(count, dtype=torch.bool, device=device)
        self.stones = torch.zeros(count, size, size, dtype=torch.int8, device=device)

    def go_on(self) -> bool:
        """Plays one ply of all games that go on; returns False, and plays none, when there are none left."""
        if self.lane.numel() == 0:
            return False
        actions = self._choose()
        played = torch.full((len(self.numbers),), NO_MOVE, dtype=torch.int16, device=self.numbers.device)
        played[self.lane] = actions.to(torch.int16)
        self.actions.append(played)
        self.states = board.step_(self.states, actions)
        self.ply += 1
        over = self.states.finished.nonzero().squeeze(1)  # between moves the host may look
        if over.numel():
            self._take_in(self.lane[over], board.select(self.states, over))
            left = (~self.states.finished).nonzero().squeeze(1)
            self.states, self.lane = board.select(self.states, left), self.lane[left]
        return True

    def _choose(self) -> Tensor:
        """Returns the moves of the games that go on: int64 [K]."""
        if self.ply < self.opening_plies:
            return RandomPlayer().choose(self.states, self.opening[self.lane], self.opening_seed)
        player_a, player_b = self.players
        if player_a is player_b:
            return self._ask(player_a, self.states, self.numbers[self.lane])
        moves_a = (self.states.to_play == board.BLACK) == self.a_is_black[self.lane]
        actions = torch.zeros_like(self.lane)
        for player, mask in ((player_a, moves_a), (player_b, ~moves_a)):
            index = mask.nonzero().squeeze(1)
            if index.numel() == len(self.lane):
                return self._ask(player, self.states, self.numbers[self.lane])
            if index.numel():
                actions[index] = self._ask(player, board.select(self.states, index), self.numbers[self.lane[index]])
        return actions

    def _ask(self, player: Player, states: board.State, numbers: Tensor) -> Tensor:
        """Returns the player's moves; an illegal one would spoil the game without a sign, so it is caught here."""
        actions = player.choose(states, numbers, self.seed)
        legal = board.legal_actions(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        if not bool(legal.all()):
            wrong = int((~legal).nonzero()[0])
            raise ValueError(f"match: {player.name} played the illegal action {int(actions[wrong])} in game {int(numbers[wrong])}")
        return actions

    def _take_in(self, lane: Tensor, states: board.State) -> None:
        """Scores finished games: lane int64 [K], states of K games."""
        if self.rules.scoring == "territory":
            black, _ = scoring.final_rows(states)
            score = scoring.final_score_black(states)
        else:
            black, white = scoring.area_rows(states.black, states.white, states.on_board)
            score = (flood.count(black) - flood.count(white)).to(torch.float32) - states.rules.komi
        self.score[lane] = score
        self.area[lane] = flood.count(black).to(torch.int64)
        self.length[lane] = states.ply.to(torch.int64)
        self.capped[lane] = states.passes < 2
        self.stones[lane] = states.stones

    def progress(self) -> float:
        """Returns the games played so far, those that go on by their share of the move cap."""
        return len(self.numbers) - len(self.lane) * (1 - min(1.0, self.ply / self.cap))

    def result(self) -> MatchResult:
        """Returns what came of the games, on the host."""
        moves = torch.full((len(self.numbers), self.cap), NO_MOVE, dtype=torch.int16)
        moves[:, : self.ply] = torch.stack(self.actions, dim=1).cpu()
        player_a, player_b = self.players
        return MatchResult(
            name_a=player_a.name,
            name_b=player_b.name,
            rules=self.rules,
            seed=self.seed,
            opening_plies=self.opening_plies,
            is_self=player_a is player_b,
            is_paired=self.is_paired,
            first_game=int(self.numbers[0]),
            score_black=self.score.cpu().numpy(),
            area_black=self.area.cpu().numpy(),
            a_is_black=self.a_is_black.cpu().numpy(),
            lengths=self.length.cpu().numpy(),
            capped=self.capped.cpu().numpy(),
            moves=moves.numpy(),
            stones=self.stones.cpu().numpy(),
        )
