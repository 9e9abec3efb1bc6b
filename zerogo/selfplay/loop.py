"""The games: search, move, record, replace. Games share each step of the search; one whose budget is spent moves at
once on a CPU, within `check_every` simulations elsewhere."""

import time
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from zerogo import board, coords, draws, scoring
from zerogo.config import GameConfig, SearchConfig, SelfplayConfig
from zerogo.draws import Purpose
from zerogo.evaluator import Evaluator
from zerogo.flood import may_look
from zerogo.rules import Rules, own_actions
from zerogo.search import Search, SearchResult, tempered
from zerogo.selfplay.opening import begin
from zerogo.selfplay.record import EndReason, FinishedGame, Recorder, SelfPlayResult

REMEMBERED = 1000  # games without resignation that the threshold of resignation rests on
NEEDED = 50  # of them before anybody resigns
THRESHOLDS = tuple(-0.5 - 0.01 * k for k in range(50))  # -0.50 to -0.99, the boldest first


class SelfPlay:
    """B games played by one network against itself.

    game, search, settings: the config's sections game, search and selfplay. seed and the number of a game decide every
    draw of that game, that of its board among them: N is the side of the largest. first_game: the number of the first
    game; every number is used once. progress: see `set_progress`. game_index is int64 [K] everywhere: which of the B
    games are meant, ascending."""

    def __init__(
        self,
        game: GameConfig,
        search: SearchConfig,
        settings: SelfplayConfig,
        evaluator: Evaluator,
        device: torch.device,
        seed: int,
        first_game: int = 0,
        progress: float = 0.0,
    ) -> None:
        self.game, self.settings, self.seed, self.device = game, settings, seed, device
        self.max_plies = max(game.plies(size) for size in game.all_sizes)
        self.next_game = first_game
        self.search = Search(evaluator, search)
        self.use(evaluator, 0)
        self.resignation = Resignation(settings.resign_false_positive)
        self.num_games = settings.games
        self.set_progress(progress)
        everyone = torch.arange(self.num_games, device=device)
        self.is_first = torch.ones_like(everyone, dtype=torch.bool)  # whether no game has ended in this place yet
        self.numbers = torch.zeros_like(everyone)
        self.is_full, self.is_sample = (torch.zeros_like(everyone, dtype=torch.bool) for _ in range(2))
        self.states = self._new_games(everyone)
        self.recorder = Recorder(self.num_games, self.max_plies, game.largest_size, device)
        self.search_state = self.search.init(self.states, settings.all_simulations[-1])  # for the whole schedule
        self._begin_searches(everyone)

    def use(self, evaluator: Evaluator, network_step: int) -> None:
        """Goes on, in games under way too, with another network, which has learned for `network_step` steps."""
        self.search.evaluator = evaluator.with_symmetries(self.search.settings.symmetry_leaf)
        self.search.root_evaluator = evaluator.with_symmetries(self.search.settings.symmetry_root)
        self.network_step = network_step

    def set_progress(self, progress: float) -> None:
        """Tells how much of the run is over, 0 to 1: from the next searches on, in games under way too, the schedule's
        number of simulations is that of full ones."""
        full = self.settings.full_at(progress)
        # A cheap search is drawn only where not all are full.
        self.budgets = full, (self.settings.cheap_simulations if self.settings.full_share < 1 else full)

    def play(
        self,
        num_games: int,
        until: float | None = None,
        show: Callable[[SelfPlayResult], None] | None = None,
        every_place: bool = False,
    ) -> SelfPlayResult:
        """Plays on until that many games more are finished, or until `time.monotonic()` reaches a time, and returns
        what they gave. show: called with what there is so far, whenever moves were played.

        every_place: also until the first game of each of the B places is finished. Else the first that are finished of
        games that began together are the shortest, which are no fair sample."""
        collected, start = SelfPlayResult(), time.monotonic()
        overflowed = self.search_state.overflowed.clone()
        while until is None or time.monotonic() < until:
            if len(collected.lengths) >= num_games and not (every_place and bool(self.is_first.any())):
                break
            self._simulate(collected)
            spent = (~self.search_state.unspent).nonzero().squeeze(1)  # between simulations the host may look
            if len(spent):
                self._move(spent, collected)
                if show is not None:
                    show(collected)
        collected.seconds = time.monotonic() - start
        collected.overflowed = int(self.search_state.overflowed - overflowed)
        if self.settings.resign_share:
            self.resignation.update()
        return collected

    def _simulate(self, collected: SelfPlayResult) -> None:
        """Runs steps until a game may have spent its budget. On other devices, where reading `left` would wait, it runs
        `check_every` simulations."""
        left, done = (self.search_state.budget - self.search_state.done).clamp(min=0), self.search_state.done.clone()
        number = int(left.min()) if may_look(left) else self.settings.check_every
        for _ in range(max(1, -(-number // self.search.settings.leaves))):
            self.search.simulate(self.search_state)
        collected.simulations += int((self.search_state.done - done).sum())

    def _move(self, game_index: Tensor, collected: SelfPlayResult) -> None:
        """Plays the moves of these games, replaces those that are over, and starts the next searches."""
        is_whole = len(game_index) == self.num_games
        before = self.states if is_whole else self.states.select(game_index)
        result = self.search.result(self.search_state, game_index)
        actions = self._choose(game_index, before, result)
        found = {"actions": actions, "policy": result.policy, "root_value": result.value}
        found |= {"policy_weight": self.is_full[game_index], "is_sample": self.is_sample[game_index]}
        found["network_step"] = torch.full_like(game_index, self.network_step)
        self.recorder.write(game_index, before, game=self.numbers[game_index], **found)
        _add_diagnostics(collected, result)
        resigns = self._resigns(game_index, before, result)
        after = board.step_(before, actions)
        ends = self._ends(game_index, after, resigns)
        self.states = after if is_whole else board.put_(self.states, game_index, after)
        self.search.advance(self.search_state, game_index, actions, self.states)
        over = (ends >= 0).nonzero().squeeze(1)
        if len(over):
            self.is_first[game_index[over]] = False
            self._collect(game_index[over], ends[over], collected)
            self.states = board.put_(self.states, game_index[over], self._new_games(game_index[over]))
            self.search.replace(self.search_state, game_index[over], self.states)
        self._begin_searches(game_index)

    def _drawn(self, game_index: Tensor, *parts: Tensor | int) -> Tensor:
        """Returns a number in (0, 1) for each game by its own number and what else decides: float32 [K]."""
        return draws.uniform(draws.key(self.seed, self.numbers[game_index], *parts), 1).squeeze(1)

    def _choose(self, game_index: Tensor, states: board.State, result: SearchResult) -> Tensor:
        """Returns the moves to play: int64 [K]. In the opening drawn from the prior; then Gumbel's own choice, or
        under PUCT drawn from the visits."""
        settings, is_gumbel = self.settings, self.search.settings.algorithm == "gumbel"
        if is_gumbel and not settings.opening_plies:
            return result.action
        sizes, is_mixed = states.rules.size, not states.rules.same_size
        keys = draws.key(self.seed, self.numbers[game_index], states.ply, Purpose.MOVE)
        places = own_actions(sizes, states.board_size) if is_mixed else None
        chosen = result.action
        if not is_gumbel:
            half_life = settings.temperature_half_life or (sizes if is_mixed else states.board_size)
            decay = 0.5 ** (states.ply.to(torch.float32) / half_life)
            temperature = settings.temperature_end + (settings.temperature_start - settings.temperature_end) * decay
            chosen = tempered(result.policy, temperature, keys, places)
        if settings.opening_plies:
            drawn = tempered(result.prior, settings.opening_temperature, keys, places)
            chosen = torch.where(self._in_opening(game_index), drawn, chosen)
        return chosen

    def _in_opening(self, game_index: Tensor) -> Tensor:
        """Returns whether the next moves are drawn from the prior, so that games differ: bool [K].

        The number of such plies is drawn from an exponential distribution (KataGo), in proportion to the points."""
        mean = self.settings.opening_plies * self.states.rules.size[game_index].to(torch.float32) ** 2
        return self.states.ply[game_index] < (-mean * torch.log(self._drawn(game_index, Purpose.OPENING_PLIES))).floor()

    def _begin_searches(self, game_index: Tensor) -> None:
        """Starts the next searches, each full or cheap by a draw of its own (playout-cap randomisation)."""
        ply = self.states.ply[game_index].to(torch.int64)
        is_full = self._drawn(game_index, ply, Purpose.BUDGET) < self.settings.full_share
        is_sample = is_full | self.settings.learn_cheap
        budget = torch.where(is_full, *self.budgets)
        if self.settings.opening_plies:
            # What is drawn from the prior becomes no sample. It is searched all the same: games that moved at once
            # would be out of step with the others, and a move by a few costs as much host time as one by all.
            is_searched = ~self._in_opening(game_index)
            is_full, is_sample = is_full & is_searched, is_sample & is_searched
        self.is_full[game_index], self.is_sample[game_index] = is_full, is_sample
        # Gumbel's noise is what varies its moves, so cheap searches keep it; under PUCT the temperature does that.
        explore = torch.ones_like(is_full) if self.search.settings.algorithm == "gumbel" else is_full
        ids = self.numbers[game_index]
        self.search.begin(self.search_state, game_index, budget, self.seed, game_ids=ids, explore=explore)

    def _new_games(self, game_index: Tensor) -> board.State:
        """Returns fresh games with the next numbers, each with its own rules."""
        numbers = torch.arange(self.next_game, self.next_game + len(game_index))
        self.next_game += len(game_index)
        self.numbers[game_index] = numbers.to(self.device)
        return begin(self.game, numbers, self.seed, self.device)

    def _resigns(self, game_index: Tensor, states: board.State, result: SearchResult) -> Tensor:
        """Returns whether the side to move gives up: bool [K]."""
        if not self.settings.resign_share:
            return torch.zeros_like(states.finished)
        is_late, is_low = states.ply >= self.settings.resign_min_ply, result.value < self.resignation.threshold
        return self._may_resign(game_index) & is_late & is_low

    def _may_resign(self, game_index: Tensor) -> Tensor:
        return self._drawn(game_index, Purpose.RESIGN) < self.settings.resign_share

    def _ends(self, game_index: Tensor, after: board.State, resigns: Tensor) -> Tensor:
        """Returns what ended the games by this move: int64 [K], an `EndReason`, -1 for those that go on."""
        stops_early = self._drawn(game_index, Purpose.SETTLED) < self.settings.settled_end_share
        ends = torch.where(scoring.all_pass_alive(after) & stops_early, int(EndReason.ALL_PASS_ALIVE), -1)
        by_itself = torch.where(after.passes >= 2, int(EndReason.PASSES), int(EndReason.CAPPED))
        ends = torch.where(after.finished, by_itself, ends)
        return torch.where(resigns, int(EndReason.RESIGNED), ends)

    def _collect(self, game_index: Tensor, ends: Tensor, collected: SelfPlayResult) -> None:
        """Adds the samples and the records of finished games. ends: int64 [K]."""
        states = self.states.select(game_index)
        score, ownership = scoring.result_black(states, ends == int(EndReason.ALL_PASS_ALIVE))
        # The resigning side's last move is played all the same, so the side to move now is the winner.
        winner = torch.where(states.to_play == board.BLACK, 1.0, -1.0)
        is_resigned = ends == int(EndReason.RESIGNED)
        result, length = torch.where(is_resigned, winner, score), states.ply.to(torch.int64)
        samples = self.recorder.samples(game_index, length, result, ownership, is_resigned)
        if len(samples):
            collected.samples.append(samples.packed())
        collected.add_finished(states, result, ends, ownership)
        is_kept = self._drawn(game_index, Purpose.SGF) < self.settings.sgf_share
        for k in is_kept.nonzero().squeeze(1).tolist():
            collected.games.append(self._finished_game(int(game_index[k]), states.rules.at(k), result[k], ends[k]))
        if self.settings.resign_share:
            self._learn_resignation(game_index, length, score)

    def _finished_game(self, index: int, rules: Rules, score_black: Tensor, end: Tensor) -> FinishedGame:
        """Returns the moves and values of one of the games as they were recorded."""
        played = slice(0, int(self.states.ply[index]))
        actions, values = (self.recorder.tables[name][index, played].tolist() for name in ("actions", "root_value"))
        moves = [coords.on_other_board(action, self.game.largest_size, rules.size) for action in actions]
        return FinishedGame(int(self.numbers[index]), rules, moves, values, float(score_black), EndReason(int(end)))

    def _learn_resignation(self, game_index: Tensor, length: Tensor, score_black: Tensor) -> None:
        """Remembers the lowest value of each side from `resign_min_ply` on, of games that nobody might resign."""
        ply = torch.arange(self.max_plies, device=game_index.device)
        counts = (ply >= self.settings.resign_min_ply) & (ply < length.unsqueeze(1))
        values = self.recorder.tables["root_value"][game_index]
        is_black = self.recorder.tables["to_play"][game_index] == board.BLACK
        black = torch.where(counts & is_black, values, 1.0).amin(1)
        white = torch.where(counts & ~is_black, values, 1.0).amin(1)
        plays_out = ~self._may_resign(game_index) & (score_black != 0)
        for k in plays_out.nonzero().squeeze(1).tolist():
            pair = float(black[k]), float(white[k])
            self.resignation.add(*(pair if score_black[k] > 0 else pair[::-1]))


def _add_diagnostics(collected: SelfPlayResult, result: SearchResult) -> None:
    log_prior = torch.log(result.prior.clamp(min=1e-20))
    log_policy = torch.log(result.policy.clamp(min=1e-20))
    collected.prior_kl += float((result.policy * (log_policy - log_prior)).sum())
    collected.prior_entropy -= float((result.prior * log_prior).sum())
    collected.moves += len(result.action)


class Resignation:
    """The lowest values that winners and losers saw in games that were played out, and the boldest threshold that they
    allow.

    A player that falls below the threshold resigns. Had the players of the remembered games done so, at most
    `false_positive` of those resignations would have been by the winner (AlphaGo Zero's rule)."""

    def __init__(self, false_positive: float) -> None:
        self.false_positive = false_positive
        self.games: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        self.threshold = -2.0  # below every value: nobody resigns
        self.measured = 0.0

    def add(self, winner_lowest: float, loser_lowest: float) -> None:
        """Remembers a game that was played out: the lowest root value that each side saw, in [-1, 1], 1 for none."""
        self.games.append((winner_lowest, loser_lowest))

    def update(self) -> None:
        """Sets the threshold, and the share of false resignations measured at it."""
        self.threshold, self.measured = -2.0, 0.0
        if len(self.games) < NEEDED:
            return
        for threshold in THRESHOLDS:
            false = sum(winner < threshold for winner, _ in self.games)
            resigned = sum(min(pair) < threshold for pair in self.games)
            if false <= self.false_positive * resigned:
                self.threshold, self.measured = threshold, false / max(1, resigned)
                return

    def state_dict(self) -> dict:
        """Returns what a checkpoint keeps."""
        return {"games": [list(pair) for pair in self.games]}

    def load_state_dict(self, state: dict) -> None:
        """Goes on from a checkpoint."""
        self.games = deque((tuple(pair) for pair in state["games"]), maxlen=REMEMBERED)
        self.update()
