"""The games: search, move, record, replace. No game waits for another; one whose budget is spent moves while the others
go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zerogo import board, coords, draws, scoring
from zerogo.draws import Purpose
from zerogo.flood import may_look
from zerogo.replay import Samples
from zerogo.rules import Rules, own_actions
from zerogo.search import Search, SearchResult, tempered
from zerogo.selfplay.opening import begin
from zerogo.selfplay.recorder import Recorder
from zerogo.selfplay.resignation import Resignation

if TYPE_CHECKING:
    from zerogo.config import Config
    from zerogo.evaluator import Evaluator


class EndReason(IntEnum):
    """What ended a game."""

    PASSES = 0
    RESIGNED = 1
    SETTLED = 2
    CAPPED = 3


@dataclass(frozen=True)
class Game:
    """A finished game as a person or a chart wants it. moves: actions of its own board. score_black: points, komi
    included; sign of the winner where it was resigned."""

    number: int
    rules: Rules
    moves: list[int]
    root_values: list[float]
    score_black: float
    end: EndReason


@dataclass
class SelfPlayResult:
    """What a stretch of self-play brought in. One entry of each list is one finished game; the tensors are on the
    host.
    """

    samples: list[Samples] = field(default_factory=list)
    games: list[Game] = field(default_factory=list)  # the share that is kept as SGF
    lengths: list[int] = field(default_factory=list)
    scores_black: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    komi: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    last_boards: list[Tensor] = field(default_factory=list)  # int8 [N, N] of a few games, each of its own size
    last_ownership: list[Tensor] = field(default_factory=list)  # int8 [N, N] of the same, Black's view
    moves: int = 0
    simulations: int = 0
    seconds: float = 0.0
    prior_kl: float = 0.0  # sums over moves: KL(search policy, prior), prior's entropy, (root value - result)^2 comes from the samples
    prior_entropy: float = 0.0
    overflowed: int = 0

    def all_samples(self) -> Samples | None:
        """Returns all samples as one batch, None where there are none."""
        return Samples.cat(self.samples) if self.samples else None


class SelfPlay:
    """B games played by one network against itself.

    config: its sections game, search and selfplay say how. seed and the number of a game decide every draw of that
    game, that of its board among them: N is the side of the largest. first_game: the number of the first game; every
    number is used once."""

    def __init__(
        self, config: Config, evaluator: Evaluator, device: torch.device, seed: int, first_game: int = 0
    ) -> None:
        self.config, self.settings, self.seed, self.device = config, config.selfplay, seed, device
        self.max_plies = max(config.game.plies(size) for size in config.game.all_sizes)
        self.next_game = first_game
        self.network_step = 0
        self.search = Search(evaluator, config.search)
        self.use(evaluator, 0)
        self.resignation = Resignation(self.settings.resign_false_positive)
        self.num_games = self.settings.games
        lanes = torch.arange(self.num_games, device=device)
        self.numbers = torch.zeros(self.num_games, dtype=torch.int64, device=device)
        self.is_full = torch.zeros(self.num_games, dtype=torch.bool, device=device)
        self.states = self._new_games(lanes)
        self.recorder = Recorder(self.num_games, self.max_plies, config.game.largest_size, device)
        self.search_state = self.search.init(self.states, max(self._budgets()))
        self._begin(lanes)

    def use(self, evaluator: Evaluator, network_step: int) -> None:
        """Goes on with another network, which has learned for `network_step` steps; games under way are finished by
        it.
        """
        self.search.evaluator = evaluator.with_symmetries(self.config.search.symmetry_leaf)
        self.search.root_evaluator = evaluator.with_symmetries(self.config.search.symmetry_root)
        self.network_step = network_step

    def play(
        self, num_games: int, until: float | None = None, show: Callable[[SelfPlayResult], None] | None = None
    ) -> SelfPlayResult:
        """Plays on until that many games more are finished, or until `time.monotonic()` reaches a time, and returns
        what they brought.

        show: called with what there is so far, whenever moves were played.
        """
        collected, start = SelfPlayResult(), time.monotonic()
        overflowed = self.search_state.overflowed.clone()
        while len(collected.lengths) < num_games and (until is None or time.monotonic() < until):
            self._simulate(collected)
            spent = (~self.search_state.unspent).nonzero().squeeze(1)  # between simulations the host may look
            if spent.numel():
                self._move(spent, collected)
                if show is not None:
                    show(collected)
        collected.seconds = time.monotonic() - start
        collected.overflowed = int(self.search_state.overflowed - overflowed)
        if self.settings.resign_share:
            self.resignation.update()
        return collected

    def _simulate(self, collected: SelfPlayResult) -> None:
        """Runs steps until a game may have spent its budget: on the CPU exactly so many, elsewhere those of
        `check_every` simulations.
        """
        left, done = (self.search_state.budget - self.search_state.done).clamp(min=0), self.search_state.done.clone()
        number = int(left.min()) if may_look(left) else self.settings.check_every
        for _ in range(max(1, -(-number // self.config.search.leaves))):
            self.search.simulate(self.search_state)
        collected.simulations += int((self.search_state.done - done).sum())

    def _move(self, lane: Tensor, collected: SelfPlayResult) -> None:
        """Plays the moves of the games `lane` (int64 [K]), takes in those that are over, and starts the next
        searches.
        """
        is_whole = len(lane) == self.num_games
        before = self.states if is_whole else board.select(self.states, lane)
        result = self.search.result(self.search_state, lane)
        actions = self._choose(lane, before, result)
        self.recorder.write(lane, before, actions, result.policy, result.value, self.is_full[lane], self.network_step)
        self._watch(result, collected)
        resigns = self._resigns(lane, before, result)
        after = board.step_(before, actions)
        ends = self._ends(lane, after, resigns)
        self.states = after if is_whole else board.put_(self.states, lane, after)
        self.search.advance(self.search_state, lane, actions, self.states)
        over = (ends >= 0).nonzero().squeeze(1)
        if over.numel():
            self._take_in(lane[over], ends[over], collected)
            fresh = self._new_games(lane[over])
            self.states = board.put_(self.states, lane[over], fresh)
            self.search.replace(self.search_state, lane[over], self.states)
        self._begin(lane)

    def _choose(self, lane: Tensor, states: board.State, result: SearchResult) -> Tensor:
        """Returns the moves to play: int64 [K]. Gumbel's own choice, varied by its noise; under PUCT drawn from the
        visits.
        """
        if self.config.search.algorithm == "gumbel":
            return result.action
        settings = self.settings
        sizes, is_mixed = states.rules.size, not states.rules.same_size
        half_life = settings.temperature_half_life or (sizes if is_mixed else states.board_size)
        decay = 0.5 ** (states.ply.to(torch.float32) / half_life)
        temperature = settings.temperature_end + (settings.temperature_start - settings.temperature_end) * decay
        keys = draws.key(self.seed, self.numbers[lane], states.ply, Purpose.MOVE)
        return tempered(result.policy, temperature, keys, own_actions(sizes, states.board_size) if is_mixed else None)

    def _begin(self, lane: Tensor) -> None:
        """Starts the searches of the games `lane`, each full or cheap by a draw of its own (playout-cap
        randomisation).
        """
        full, cheap = self._budgets()
        ply = self.states.ply[lane].to(torch.int64)
        drawn = draws.uniform(draws.key(self.seed, self.numbers[lane], ply, Purpose.BUDGET), 1).squeeze(1)
        is_full = drawn < self.settings.full_share
        self.is_full[lane] = is_full
        # Gumbel's noise is what varies its moves, so cheap searches keep it; under PUCT the temperature does that.
        explore = torch.ones_like(is_full) if self.config.search.algorithm == "gumbel" else is_full
        budget = torch.where(is_full, full, cheap)
        self.search.begin(
            self.search_state, lane, budget, self.seed, game_ids=self.numbers[lane], plies=ply, explore=explore
        )

    def _budgets(self) -> tuple[int, int]:
        full = self.settings.full_simulations
        return full, (self.settings.cheap_simulations if self.settings.full_share < 1 else full)

    def _new_games(self, lane: Tensor) -> board.State:
        """Returns fresh games for the places `lane`, with the next numbers, each with its own rules."""
        numbers = torch.arange(self.next_game, self.next_game + len(lane))
        self.next_game += len(lane)
        self.numbers[lane] = numbers.to(self.device)
        return begin(self.config, numbers, self.seed, self.device)

    def _resigns(self, lane: Tensor, states: board.State, result: SearchResult) -> Tensor:
        """Returns whether the side to move gives up: bool [K]."""
        settings = self.settings
        if not settings.resign_share:
            return torch.zeros_like(states.finished)
        return (
            self._may_resign(lane)
            & (states.ply >= settings.resign_min_ply)
            & (result.value < self.resignation.threshold)
        )

    def _may_resign(self, lane: Tensor) -> Tensor:
        drawn = draws.uniform(draws.key(self.seed, self.numbers[lane], Purpose.RESIGN), 1).squeeze(1)
        return drawn < self.settings.resign_share

    def _ends(self, lane: Tensor, after: board.State, resigns: Tensor) -> Tensor:
        """Returns what ended the games by this move: int64 [K], an `EndReason`, -1 for those that go on. The host looks
        (`all_pass_alive`).
        """
        drawn = draws.uniform(draws.key(self.seed, self.numbers[lane], Purpose.SETTLED), 1).squeeze(1)
        is_settled = scoring.all_pass_alive(after) & (drawn < self.settings.settled_end_share)
        ends = torch.full_like(lane, -1)
        ends = torch.where(is_settled, int(EndReason.SETTLED), ends)
        ends = torch.where(
            after.finished, torch.where(after.passes >= 2, int(EndReason.PASSES), int(EndReason.CAPPED)), ends
        )
        return torch.where(resigns, int(EndReason.RESIGNED), ends)

    def _watch(self, result: SearchResult, collected: SelfPlayResult) -> None:
        """Adds the moves' diagnostics."""
        log_prior = torch.log(result.prior.clamp(min=1e-20))
        log_policy = torch.log(result.policy.clamp(min=1e-20))
        collected.prior_kl += float((result.policy * (log_policy - log_prior)).sum())
        collected.prior_entropy -= float((result.prior * log_prior).sum())
        collected.moves += len(result.action)

    def _take_in(self, lane: Tensor, ends: Tensor, collected: SelfPlayResult) -> None:
        """Adds the samples and the records of finished games: lane, ends int64 [K]."""
        states = board.select(self.states, lane)
        score = scoring.final_score_black(states)
        ownership = scoring.final_ownership_black(states)
        # Whoever resigned had the move before; the resigned game's last move was still recorded, and played.
        winner = torch.where(states.to_play == board.BLACK, 1.0, -1.0)
        resigned = ends == int(EndReason.RESIGNED)
        length = states.ply.to(torch.int64)
        result = torch.where(resigned, winner, score)
        samples = self.recorder.samples(lane, length, result, ownership, self.numbers[lane], is_resigned=resigned)
        if len(samples):
            collected.samples.append(samples.packed())
        collected.lengths += length.tolist()
        collected.scores_black += result.tolist()
        sizes = states.rules.size.tolist()
        collected.sizes += sizes
        collected.komi += states.rules.komi.tolist()
        collected.ends += ends.tolist()
        if len(collected.last_boards) < 9:
            collected.last_boards += [stones[:n, :n] for stones, n in zip(states.stones.cpu(), sizes, strict=True)]
            collected.last_ownership += [owners[:n, :n] for owners, n in zip(ownership.cpu(), sizes, strict=True)]
        self._keep_records(lane, states, length, ends, collected)
        if self.settings.resign_share:
            self._learn_resignation(lane, states, length, torch.sign(score))

    def _keep_records(
        self, lane: Tensor, states: board.State, length: Tensor, ends: Tensor, collected: SelfPlayResult
    ) -> None:
        """Keeps the moves of the share of games that is written as SGF."""
        drawn = draws.uniform(draws.key(self.seed, self.numbers[lane], Purpose.SGF), 1).squeeze(1)
        for k in (drawn < self.settings.sgf_share).nonzero().squeeze(1).tolist():
            plies, rules = int(length[k]), states.rules.at(k)
            values = self.recorder.root_value[lane[k], :plies].tolist()
            moves = [
                coords.on_other_board(move, states.board_size, rules.size)
                for move in self.recorder.actions[lane[k], :plies].tolist()
            ]
            score = collected.scores_black[len(collected.scores_black) - len(lane) + k]
            collected.games.append(
                Game(int(self.numbers[lane[k]]), rules, moves, values, score, EndReason(int(ends[k])))
            )

    def _learn_resignation(self, lane: Tensor, states: board.State, length: Tensor, winner_black: Tensor) -> None:
        """Remembers, of the games in which nobody might resign, the lowest value that each side saw from
        `resign_min_ply` on.
        """
        ply = torch.arange(self.max_plies, device=lane.device)
        counts = (ply >= self.settings.resign_min_ply) & (ply < length.unsqueeze(1))
        values = self.recorder.root_value[lane]
        is_black = self.recorder.fields["to_play"][lane] == board.BLACK
        black = torch.where(counts & is_black, values, 1.0).amin(1)
        white = torch.where(counts & ~is_black, values, 1.0).amin(1)
        plays_out = ~self._may_resign(lane) & (winner_black != 0)
        for k in plays_out.nonzero().squeeze(1).tolist():
            pair = (float(black[k]), float(white[k]))
            self.resignation.add(*(pair if winner_black[k] > 0 else pair[::-1]))
