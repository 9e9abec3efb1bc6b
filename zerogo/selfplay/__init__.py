"""Self-play: B games share each step of the search. A game whose budget is spent records and plays its move, on a CPU
soon (`SelfPlay._due`), elsewhere within `CHECK_EVERY` simulations. A new game takes the place of a finished one."""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from zerogo import board, scoring
from zerogo.board import links_of, rng
from zerogo.board.flood import host_read_is_free
from zerogo.board.rng import Purpose
from zerogo.config import Config
from zerogo.evaluator import Evaluator
from zerogo.kernels import copies
from zerogo.rules import coords, own_actions
from zerogo.search import Search, SearchResult, sample_moves
from zerogo.search.game import select_games
from zerogo.search.tree import SearchState
from zerogo.selfplay.opening import begin_games
from zerogo.selfplay.record import FALSE_POSITIVE, EndReason, FinishedGame, Recorder, Resignation, SelfPlayResult
from zerogo.system.tensors import TensorFields, restore, send, state_of

# Attributes that `state_dict` keeps; fields of the search state that it leaves out, or keeps in a form of their own.
IN_FLIGHT = "states drawn plan is_first network_steps next_game budgets fewest_left steps_left".split()
NOT_KEPT = ("states", "tree", "repeated_states", "graph")
# With PUCT, the temperature of the played move falls from START towards END, with a half-life of N plies (KataGo).
TEMPERATURE_START, TEMPERATURE_END = 0.75, 0.15
FEWEST_DUE, SOON = 0.5, 8  # a CPU moves once half of the games are due, or no other will be within 8 simulations
COLLECTED_AT_ONCE = 16  # finished games, or a quarter of all: one takes as long to collect as several
CHECK_EVERY = 4  # simulations between checks for games whose search is over, where a check waits for the device
SETTLED_END_SHARE = 0.9  # share of games that end once every point is pass-alive; the others teach when to pass
OF_SEARCHES = tuple(field.name for field in fields(SearchState) if field.name not in NOT_KEPT)


@dataclass(frozen=True)
class GameRandomness(TensorFields):
    """The random draws that each of B games makes once, keyed by its number. number: int64 [B]. opening: int32 [B], how
    many plies are drawn from the prior, so that games differ. bool [B] each: ends_settled, whether the game ends once
    every point is pass-alive; may_resign; is_kept, whether it is written as SGF."""

    number: Tensor
    opening: Tensor
    ends_settled: Tensor
    may_resign: Tensor
    is_kept: Tensor


@dataclass(frozen=True)
class Plan(TensorFields):
    """The current searches of B games. is_learned: bool [B], whether the position becomes a sample and the search's
    policy its target. budget: int64 [B], simulations, 0 in the opening."""

    is_learned: Tensor
    budget: Tensor


@dataclass(frozen=True)
class Readback(TensorFields):
    """What the host reads after the moves of K games; meaningless for games whose search is not over.

    done, budget: int64 [K], simulations of the current search. next_budget: int64 [K], of the next. num_kept: int64
    [K], nodes that the tree keeps. ply: int32 [K], passes: int8 [K], finished: bool [K], of the game after the move.
    settled: bool [K], every point is pass-alive. ends_settled: bool [K], see `GameRandomness`. kl, entropy: float32
    [K], see `diagnostics`. resigns: bool [K], None if no game may be resigned."""

    done: Tensor
    budget: Tensor
    next_budget: Tensor
    num_kept: Tensor
    ply: Tensor
    passes: Tensor
    finished: Tensor
    settled: Tensor
    ends_settled: Tensor
    kl: Tensor
    entropy: Tensor
    resigns: Tensor | None

    @property
    def has_moved(self) -> Tensor:
        """bool [K]: the search is over, so the move counts."""
        return self.done >= self.budget

    def end_reasons(self) -> Tensor:
        """Returns how games have ended (`EndReason`), -1 for running games: int64 [K]."""
        ends = torch.where(self.settled & self.ends_settled, int(EndReason.ALL_PASS_ALIVE), -1)
        by_itself = torch.where(self.passes >= 2, int(EndReason.PASSES), int(EndReason.CAPPED))
        ends = torch.where(self.finished, by_itself, ends)
        if self.resigns is not None:
            ends = torch.where(self.resigns & (ends < 0), int(EndReason.RESIGNED), ends)
        return torch.where(self.has_moved, ends, -1)


class SelfPlay:
    """B games played by one network against itself.

    config: its sections game, search and selfplay count. The seed and the number of a game decide every random draw of
    that game, the size of its board included; N is the side of the largest board. first_game: the number of the first
    game; every number is used once. progress: see `set_progress`. stride: from one number to the next; other ranks use
    those between. In all methods game_index is int64 [K], ascending: some of the B games."""

    def __init__(
        self,
        config: Config,
        evaluator: Evaluator,
        device: torch.device,
        seed: int,
        first_game: int = 0,
        progress: float = 0.0,
        stride: int = 1,
    ) -> None:
        self.game, self.settings, self.seed, self.device = config.game, config.selfplay, seed, device
        game, settings = self.game, self.settings
        self.max_plies = max(game.plies(size) for size in game.all_sizes)
        self.next_game, self.stride = first_game, stride
        self.search = Search(evaluator, config.search)
        self.set_network(evaluator, 0)
        self.resignation = Resignation(FALSE_POSITIVE, settings.resign_min_ply)
        self.num_games, self.all_games = settings.slots, torch.arange(settings.slots, device=device)
        self.set_progress(progress)
        self.ended: list[tuple[Callable[[], list[Tensor]], Tensor]] = []  # see `_replace`
        self.drawn_at_once = max(32, self.num_games // 16)  # new games: one takes as long to draw as some
        self.games_ahead = self._draw_games(self.num_games)
        self.is_first = torch.ones(self.num_games, dtype=torch.bool)  # whether no game has ended in this slot yet
        states, drawn = self._next_games(self.num_games)
        self.states, self.drawn = states.to(device), drawn.to(device)
        self.recorder = Recorder.empty(self.num_games, self.max_plies, game.largest_size, device)
        self.search_state = self.search.init(self.states, settings.all_simulations[-1])  # for the whole schedule
        self._draw_plan(self.all_games)
        self.fewest_left, self.steps_left = min(self.budgets), 0
        self._begin_searches(self.all_games)

    def set_network(self, evaluator: Evaluator, network_step: int) -> None:
        """Continues all games with another network, which was trained for `network_step` steps."""
        self.search.evaluator = evaluator.with_symmetries(self.search.settings.symmetry_leaf)
        self.search.root_evaluator = evaluator.with_symmetries(self.search.settings.symmetry_root)
        self.network_steps = torch.full((self.settings.slots,), network_step, device=self.device)

    def state_dict(self) -> dict[str, Any]:
        """Returns the complete state of the running games, with the used parts of trees and records. Trees are copied
        to the host, as a GPU may have no room for a second copy."""
        search, tree, tables = self.search_state, self.search_state.tree, self.recorder.tables
        state = {name: state_of(getattr(self, name)) for name in IN_FLIGHT}
        state |= {"search": {name: getattr(search, name) for name in OF_SEARCHES}, "tree_size": tree.size}
        state["nodes"] = {name: tensor[tree.in_use].cpu() for name, tensor in tree.of_nodes.items()}
        state["records"] = {name: table[self._recorded] for name, table in tables.items()}
        return state | {"resignation": self.resignation.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the games of a state with the same number of games and the same settings."""
        search, tree, tables = self.search_state, self.search_state.tree, self.recorder.tables
        has_links = self.states.links.shape[1] > 0  # a GPU's games have none
        for one, names, kept in ((self, IN_FLIGHT, state), (search, OF_SEARCHES, state["search"])):
            for name in names:
                setattr(one, name, restore(getattr(one, name), kept[name]))
        if (self.states.links.shape[1] > 0) != has_links:  # from another device type; kernels would read out of bounds
            self.states = replace(self.states, links=links_of(self.states.seen, self.states.seen.shape[1]))
        search.states, search.repeated_states = self.states, None
        tree.size.copy_(state["tree_size"])
        for name, nodes in state["nodes"].items():
            getattr(tree, name).zero_()[tree.in_use] = nodes.to(self.device)
        for name, rows in state["records"].items():
            tables[name].zero_()[self._recorded] = rows.to(self.device)
        self.resignation.load_state_dict(state["resignation"])

    @property
    def _recorded(self) -> Tensor:
        """bool [B, T]: the plies that were played."""
        return torch.arange(self.max_plies, device=self.device) < self.states.ply.unsqueeze(1)

    def set_progress(self, progress: float) -> None:
        """Sets how much of the run is over, 0 to 1, on which `simulations_schedule` bases the budgets of the next
        searches."""
        full = self.settings.full_at(progress)
        # With full_share 1 no search is cheap.
        self.budgets = full, (self.settings.cheap_simulations if self.settings.full_share < 1 else full)

    def play(
        self,
        num_games: int,
        until: float | None = None,
        show: Callable[[SelfPlayResult], None] = lambda _: None,
        every_slot: bool = False,
        collected: SelfPlayResult | None = None,
        pause: Callable[[], bool] = lambda: False,
    ) -> SelfPlayResult:
        """Plays until `num_games` games are finished, those of `collected` included, or until `time.monotonic()` is
        `until`, and returns their results. show: called with the results so far, whenever moves were played.

        every_slot: also play until the first game of each of the B slots is finished; otherwise the first finished
        games would be biased towards short ones. pause: called before each step of the search; once it returns True,
        the incomplete result is returned (`is_complete` is False): pass it as `collected` to continue."""
        collected, start = collected or SelfPlayResult(), time.monotonic()
        collected.is_complete = False
        overflowed, done = self.search_state.overflowed.clone(), int(self.search_state.done.sum())
        while until is None or time.monotonic() < until:
            ended = sum(len(ends) for _, ends in self.ended)
            if len(collected.lengths) + ended >= num_games and not (every_slot and bool(self.is_first.any())):
                collected.is_complete = True
                break
            if not self._simulate(pause):
                break
            if ended >= min(COLLECTED_AT_ONCE, self.num_games // 4):
                self._collect_ended(collected)
            # A CPU reads between simulations which budgets are spent; other devices report that after the moves.
            moving = self._due() if host_read_is_free(self.search_state.budget) else self.all_games
            if len(moving):
                self._move(moving, collected)
                show(collected)
        else:
            collected.is_complete = True
        self._collect_ended(collected)
        collected.seconds += time.monotonic() - start
        collected.overflowed += int(self.search_state.overflowed - overflowed)
        collected.simulations += int(self.search_state.done.sum()) - done
        if self.settings.resign_share and collected.is_complete:
            self.resignation.update()
        return collected

    def _simulate(self, pause: Callable[[], bool]) -> bool:
        """Runs steps until a game may have spent its budget, and at least `CHECK_EVERY` simulations if reading budgets
        would wait for the device. Returns False if `pause` interrupted it."""
        if self.steps_left == 0:
            left = self.search_state.budget - self.search_state.done
            number = _fewest(left) if host_read_is_free(left) else max(self.fewest_left, CHECK_EVERY)
            self.steps_left = -(-number // self.search.settings.leaves)
        while self.steps_left:
            if pause():
                return False
            self.search.simulate(self.search_state)
            self.steps_left -= 1
        return True

    def _due(self) -> Tensor:
        """Returns the games whose budget is spent; none if they are few and another will soon follow."""
        left = self.search_state.budget - self.search_state.done
        due, waits = (left <= 0).nonzero().squeeze(1), 0 < _fewest(left) <= SOON
        return due[:0] if waits and len(due) < FEWEST_DUE * self.num_games else due

    def _move(self, game_index: Tensor, collected: SelfPlayResult) -> None:
        """Plays a move in the games whose budget is spent (on a CPU all the given ones), replaces finished games, and
        starts the next searches.

        The host reads the results in one copy. Games that do not move yet are computed too, but masked. Their draws are
        keyed by ply, so repeating them later gives the same values."""
        search_state, moves_all = self.search_state, len(game_index) == self.num_games
        before = self.states if moves_all else self.states.select(game_index)
        stays = None if host_read_is_free(game_index) else search_state.unspent
        result = self.search.result(search_state, game_index)
        actions = self._choose(game_index, before, result)
        self._record(game_index, before, actions, result)
        if stays is None:
            after = board.step_(before, actions)
        else:  # those stay as they are
            after = board.step_(replace(before, finished=stays), actions)
            after = replace(after, finished=after.finished > stays)
        resigns = self._resigns(game_index, before, result) if self.settings.resign_share else None
        self.states = after if moves_all else board.put_(self.states, game_index, after)
        actions = actions if stays is None else torch.where(stays, board.NO_MOVE, actions)
        self.search.advance(search_state, game_index, actions, self.states)
        self._draw_plan(game_index)
        readback = self._read_back(game_index, after, result, resigns)
        ends = readback.end_reasons()
        self._count_moves(readback, ends >= 0, collected)
        over, moved = (ends >= 0).nonzero().squeeze(1), readback.has_moved.nonzero().squeeze(1)
        if len(over):
            ply_bound = int(torch.where(ends >= 0, 0, readback.ply).max())
            self._replace(game_index[over] if stays is None else over, ends[over], ply_bound)
        if stays is None:
            self._begin_searches(game_index)
        elif len(moved):
            # A kept tree without room for the next search is dropped.
            is_full = readback.num_kept + readback.next_budget >= search_state.tree.num_nodes
            is_new_root = (ends >= 0) | (readback.num_kept == 0) | is_full
            self._begin_searches(self._on_device(moved), is_new_root[moved].nonzero().squeeze(1))

    def _read_back(
        self, game_index: Tensor, after: board.State, result: SearchResult, resigns: Tensor | None
    ) -> Readback:
        """Returns the results of moves on the host, which waits for the device only here."""
        search_state = self.search_state
        of_games = {"done": search_state.done, "budget": search_state.budget, "next_budget": self.plan.budget}
        of_games |= {"num_kept": search_state.tree.size, "ends_settled": self.drawn.ends_settled}
        of_games = {name: select_games(values, game_index) for name, values in of_games.items()}
        of_games |= {"ply": after.ply, "passes": after.passes, "finished": after.finished}
        on_device = Readback(settled=scoring.all_pass_alive(after), resigns=resigns, **of_games, **diagnostics(result))
        return on_device.with_tensors(copies.start_to_host(on_device.tensors())())

    def _count_moves(self, readback: Readback, is_over: Tensor, collected: SelfPlayResult) -> None:
        """Counts the moves that were played, and the fewest simulations that any game still needs."""
        moved = readback.has_moved.nonzero().squeeze(1)
        collected.simulations += int(readback.done[moved].sum())
        collected.prior_kl += float(readback.kl[moved].sum())
        collected.prior_entropy += float(readback.entropy[moved].sum())
        collected.moves += len(moved)
        left = torch.where(readback.has_moved, readback.next_budget, readback.budget - readback.done)
        self.fewest_left = min(_fewest(left), *self.budgets) if is_over.any() else _fewest(left)

    def _on_device(self, games: Tensor) -> Tensor:
        """Returns game indices of the host (int64 [K], ascending) on the device."""
        return self.all_games if len(games) == self.num_games else send(games, self.device)

    def _record(self, game_index: Tensor, before: board.State, actions: Tensor, result: SearchResult) -> None:
        played = {"actions": actions, "policy": result.policy, "root_value": result.value}
        of_games = {"policy_weight": self.plan.is_learned, "game": self.drawn.number}
        of_games["network_step"] = self.network_steps
        played |= {name: select_games(numbers, game_index) for name, numbers in of_games.items()}
        self.recorder.write(game_index, before, **played)

    def _choose(self, game_index: Tensor, states: board.State, result: SearchResult) -> Tensor:
        """Returns the moves to play: int64 [K]. In the opening they are drawn from the prior. Later they are the Gumbel
        search's action, or with PUCT drawn from the visits."""
        settings, is_gumbel = self.settings, self.search.settings.algorithm == "gumbel"
        if is_gumbel and not settings.opening_plies:
            return result.action
        sizes, is_mixed = states.rules.size, not states.rules.same_size
        keys = rng.key(self.seed, select_games(self.drawn.number, game_index), states.ply, Purpose.MOVE)
        places = own_actions(sizes, states.board_size) if is_mixed else None
        chosen = result.action
        if not is_gumbel:
            half_life = sizes if is_mixed else states.board_size
            decay = 0.5 ** (states.ply.to(torch.float32) / half_life)
            temperature = TEMPERATURE_END + (TEMPERATURE_START - TEMPERATURE_END) * decay
            chosen = sample_moves(result.policy, temperature, keys, places)
        if settings.opening_plies:
            drawn = sample_moves(result.prior, settings.opening_temperature, keys, places)
            chosen = torch.where(states.ply < select_games(self.drawn.opening, game_index), drawn, chosen)
        return chosen

    def _draw_plan(self, game_index: Tensor) -> None:
        """Draws whether the next search of each game is full or cheap (playout-cap randomisation)."""
        ply, number = select_games(self.states.ply, game_index), select_games(self.drawn.number, game_index)
        # Opening plies are drawn from the prior and become no samples, so they need no search.
        is_searched = ply >= select_games(self.drawn.opening, game_index)
        budget, is_learned = torch.full_like(number, self.budgets[0]), is_searched
        if self.settings.full_share < 1:
            drawn = rng.uniform(rng.key(self.seed, number, ply, Purpose.BUDGET), 1).squeeze(1)
            is_long = drawn < self.settings.full_share
            budget, is_learned = torch.where(is_long, *self.budgets), is_searched & is_long
        plan = Plan(is_learned, torch.where(is_searched, budget, 0))
        if len(game_index) == self.num_games:
            self.plan = plan
        else:
            copies.put_(self.plan.tensors(), game_index, plan.tensors())

    def _begin_searches(self, game_index: Tensor, new_roots: Tensor | None = None) -> None:
        """Starts the next searches, as planned. new_roots: see `search.Search.begin`."""
        # With Gumbel only the noise varies the moves, so cheap searches have it, too; with PUCT the temperature does.
        explore = self.search.settings.algorithm == "gumbel" or select_games(self.plan.is_learned, game_index)
        options = {"game_ids": select_games(self.drawn.number, game_index), "explore": explore, "new_roots": new_roots}
        budgets = select_games(self.plan.budget, game_index)
        self.search.begin(self.search_state, game_index, budgets, self.seed, **options)

    def _next_games(self, number: int) -> tuple[board.State, GameRandomness]:
        """Returns the next games and their random draws, from those drawn ahead if there are enough."""
        states, drawn = self.games_ahead
        if len(drawn.number) < number or int(drawn.number[0]) != self.next_game:
            states, drawn = self._draw_games(max(number, self.drawn_at_once))
        self.next_game += self.stride * number
        self.games_ahead = states.map(lambda tensor: tensor[number:]), drawn.map(lambda tensor: tensor[number:])
        return states.map(lambda tensor: tensor[:number]), drawn.map(lambda tensor: tensor[:number])

    def _draw_games(self, number: int) -> tuple[board.State, GameRandomness]:
        """Returns fresh games with the next numbers, each with its own rules, and their random draws, on the host."""
        numbers = self.next_game + self.stride * torch.arange(number)
        states = begin_games(self.game, numbers, self.seed, torch.device("cpu"))

        def _drawn(purpose: Purpose) -> Tensor:
            return rng.uniform(rng.key(self.seed, numbers, purpose), 1).squeeze(1)

        # The number of opening plies is exponentially distributed (KataGo), with a mean in proportion to the points.
        mean = self.settings.opening_plies * states.rules.size.to(torch.float32) ** 2
        return states, GameRandomness(
            number=numbers,
            opening=(-mean * torch.log(_drawn(Purpose.OPENING_PLIES))).floor().to(torch.int32),
            ends_settled=_drawn(Purpose.SETTLED) < SETTLED_END_SHARE,
            may_resign=_drawn(Purpose.RESIGN) < self.settings.resign_share,
            is_kept=_drawn(Purpose.SGF) < self.settings.sgf_share,
        )

    def _resigns(self, game_index: Tensor, states: board.State, result: SearchResult) -> Tensor:
        """Returns whether the side to move resigns: bool [K]."""
        is_late, is_low = states.ply >= self.settings.resign_min_ply, result.value < self.resignation.threshold
        return select_games(self.drawn.may_resign, game_index) & is_late & is_low

    def _replace(self, games: Tensor, ends: Tensor, ply_bound: int) -> None:
        """Sends finished games to the host, for `_collect_ended`, and puts new ones into their slots. games, ends:
        int64 [K] on the host. ply_bound: the largest ply of the running games."""
        self.is_first.index_fill_(0, games, False)
        index = self._on_device(games)
        tensors = [*self._without_history.tensors(), *self.recorder.tables.values(), *self.drawn.tensors()]
        self.ended.append((copies.start_to_host(tensors, index), ends))
        states, drawn = self._next_games(len(games))
        self.states = board.put_(self.states, games, states, None if host_read_is_free(index) else ply_bound)
        copies.put_from_host_(self.drawn.tensors(), games, drawn.tensors())
        self.search.reset_trees(self.search_state, index, self.states)
        self._draw_plan(index)

    @property
    def _without_history(self) -> board.State:
        """The games without the history that only running games need."""
        unused = {name: getattr(self.states, name)[:, :0] for name in ("seen", "links", "lost", "recent", "moves")}
        return replace(self.states, **unused)

    def _collect_ended(self, collected: SelfPlayResult) -> None:
        """Collects the games that `_replace` sent. For a GPU, which works meanwhile, it also draws the next games."""
        if self.ended:
            sent, ends = zip(*((fetch(), ends) for fetch, ends in self.ended), strict=True)
            tensors = map(torch.cat, zip(*sent, strict=True))
            states = self._without_history.with_tensors(tensors)
            recorder = Recorder({name: next(tensors) for name in self.recorder.tables})
            self._collect(states, recorder, self.drawn.with_tensors(tensors), torch.cat(ends), collected)
            self.ended.clear()
        if not host_read_is_free(self.all_games) and len(self.games_ahead[1].number) < self.drawn_at_once:
            self.games_ahead = self._draw_games(2 * self.drawn_at_once)

    def _collect(
        self, states: board.State, recorder: Recorder, drawn: GameRandomness, ends: Tensor, collected: SelfPlayResult
    ) -> None:
        """Adds the samples and the records of finished games, all on the host. ends: int64 [K]."""
        settled = ends == int(EndReason.ALL_PASS_ALIVE)
        score, ownership = scoring.result_black(states, settled if settled.any() else None)
        # The resigning side's last move was played, so the side to move now is the winner.
        winner = torch.where(states.to_play == board.BLACK, 1.0, -1.0)
        is_resigned = ends == int(EndReason.RESIGNED)
        result, length = torch.where(is_resigned, winner, score), states.ply.to(torch.int64)
        samples = recorder.samples(length, result, ownership, is_resigned)
        if len(samples):
            collected.samples.append(samples.packed())
        collected.add_finished(states, result, ends, ownership)
        for k in drawn.is_kept.nonzero().squeeze(1).tolist():
            rules, played = states.rules.at(k), slice(0, int(length[k]))
            actions, values = (recorder.tables[name][k, played].tolist() for name in ("actions", "root_value"))
            moves = [coords.on_other_board(action, self.game.largest_size, rules.size) for action in actions]
            game = int(drawn.number[k]), rules, moves, values, float(result[k]), EndReason(int(ends[k]))
            collected.games.append(FinishedGame(*game))
        if self.settings.resign_share:
            values, is_black = recorder.tables["root_value"], recorder.tables["to_play"] == board.BLACK
            self.resignation.learn(values, is_black, length, torch.where(drawn.may_resign, 0.0, score))  # 0: left out


def _fewest(left: Tensor) -> int:
    """Returns the fewest simulations that any search still needs, 0 if all are over. left: int64 [K]."""
    return int(torch.where(left > 0, left, left.amax()).min().clamp(min=0))


def diagnostics(result: SearchResult) -> dict[str, Tensor]:
    """Returns KL(search policy, prior) and the prior's entropy of each search, in nats: float32 [K] each."""
    log_prior, log_policy = (torch.log(share.clamp(min=1e-20)) for share in (result.prior, result.policy))
    kl = (result.policy * (log_policy - log_prior)).sum(1)
    return {"kl": kl, "entropy": -(result.prior * log_prior).sum(1)}
