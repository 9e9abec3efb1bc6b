"""A match between two players: many games in lock-step, with a referee for external engines.

A game is a function of (players, rules, seed, game number) alone. So it does not depend on the games of its batch, and
an interrupted match continues with the missing games."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from zerogo import board, scoring
from zerogo.arena.result import FORFEIT, NO_MOVE, RESIGNED, MatchResult, PlayedGame, Stop
from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.config import GameConfig
from zerogo.errors import InputError
from zerogo.game import GameState, Move
from zerogo.players import RESIGN, Player
from zerogo.players.analyst import SearchPlayer
from zerogo.players.external import ExternalPlayer
from zerogo.rules import Rules, coords
from zerogo.selfplay.opening import RandomPlayer
from zerogo.system import distributed

GAMES_AT_ONCE = 256  # games of one batch, which bounds the memory of trees; a game doesn't depend on it
ENGINE_GAMES_AT_ONCE = 32  # fewer where processes play one game after the other, so that games end, and are kept, early
ENGINE_PLIES = 6  # a point, where no cap is set: engines capture dead stones before they pass, which takes their time


def cap_for(game: GameConfig, players: Sequence[Player], size: int) -> int:
    """Returns the move cap for these players: the config's, or where it is not set `ENGINE_PLIES` a point for engines,
    and the cap of self-play for networks, which were trained with it."""
    has_engine = any(isinstance(player, ExternalPlayer) for player in players)
    return ENGINE_PLIES * size**2 if has_engine and not game.move_cap else game.plies(size)


@dataclass(frozen=True)
class MatchSettings:
    """The settings that determine the games of two players.

    is_paired: whether A is Black in games with even numbers and White in the odd ones, games 2k and 2k + 1 with one
    opening; else A is Black in all. opening_plies: moves of the random player at the start, drawn from the seed and the
    pair's number. move_cap: ply at which a game ends, None for 2 * size * size. at_once: games of one batch, None for a
    fitting number; a game does not depend on it."""

    rules: Rules
    num_games: int
    seed: int
    is_paired: bool = True
    opening_plies: int = 0
    move_cap: int | None = None
    device: torch.device | str = "cpu"
    at_once: int | None = None


@dataclass(frozen=True)
class MatchHooks:
    """The games of an interrupted match, and callbacks for what happens in this one.

    finished: games that are not played again. begun: the moves of unfinished games, by game number; these games
    continue after them. on_progress: called with the number of games played so far, where a running game counts as the
    share of the move cap that it has reached. on_games: called with games as soon as they end. on_moves: called after
    each ply with its number and the actions in the running games, by game number."""

    finished: Sequence[PlayedGame] = ()
    begun: Mapping[int, list[int]] = field(default_factory=dict)
    on_progress: Callable[[float], None] = lambda played: None
    on_games: Callable[[list[PlayedGame]], None] = lambda games: None
    on_moves: Callable[[int, dict[int, int]], None] = lambda ply, moves: None


def play_match(
    player_a: Player, player_b: Player, settings: MatchSettings, hooks: MatchHooks = MatchHooks()
) -> MatchResult:
    """Returns the result of a match of A against B. Where both are the same object, one call chooses the moves of both
    sides. Collective call: ranks share the pairs of games, and every rank gets the result.

    Games end by two passes or at the cap, and are scored by the rules. zerogo's players never resign. An engine may
    resign; it loses a game by an illegal move or another fault, and the match continues."""
    players, world_size = (player_a, player_b), distributed.world_size()
    games = [game for game in hooks.finished if game.number < settings.num_games]
    missing = sorted(set(range(settings.num_games)) - {game.number for game in games})
    pairs = set(sorted({number // 2 for number in missing})[distributed.rank() :: world_size])
    share = {number: hooks.begun.get(number, []) for number in missing if number // 2 in pairs}

    def _report_progress(played: float) -> None:  # assumes that all ranks progress alike
        hooks.on_progress(len(games) + min(len(missing), world_size * played))

    try:
        rank_hooks = replace(hooks, on_progress=_report_progress)
        played = distributed.run_and_sync_errors(_play, players, settings, share, rank_hooks)
    finally:
        for player in players:
            if isinstance(player, SearchPlayer):
                player.search_states.clear()
    games = sorted(sum(distributed.all_gather_object(played), games), key=lambda game: game.number)
    of_settings = settings.rules, settings.seed, settings.opening_plies
    return MatchResult(player_a.name, player_b.name, *of_settings, player_a is player_b, settings.is_paired, games)


def _play(
    players: tuple[Player, Player], settings: MatchSettings, missing: dict[int, list[int]], hooks: MatchHooks
) -> list[PlayedGame]:
    """Plays the missing games and returns them. missing: the moves with which each begins, by game number."""
    games: list[PlayedGame] = []
    at_once = settings.at_once or (ENGINE_GAMES_AT_ONCE if engines(players) else GAMES_AT_ONCE)
    while missing:
        before, plies = len(games), max(map(len, missing.values()))
        chosen = sorted(number for number, moves in missing.items() if len(moves) == plies)[:at_once]
        batch = MatchGames(players, settings, chosen, [missing.pop(number) for number in chosen])
        while len(batch.game_index):
            ended = batch.play_ply()
            games += ended
            if batch.ply > plies and batch.last_moves:
                hooks.on_moves(batch.ply - 1, batch.last_moves)
            if ended:
                hooks.on_games(ended)
            left = len(batch.game_index) * (1 - min(1.0, batch.ply / batch.moves.shape[1]))  # of running games
            hooks.on_progress(before + len(chosen) - left)
    return games


def engines(players: Sequence[Player]) -> list[ExternalPlayer]:
    """Returns those of two players that are external engines, each once."""
    each = players[:1] if players[0] is players[1] else players
    return [player for player in each if isinstance(player, ExternalPlayer)]


@dataclass(eq=False)
class MatchGames:
    """G games of a match that are played together. players: A and B. game_numbers: the games' numbers in the match.
    prefixes: the moves with which each begins, equally many. last_moves: the actions of the last ply, by game number.

    `states` holds the K running games only, so that finished games cost nothing; `game_index`, int64 [K], is their
    index among the G. Other tensors have leading G."""

    players: tuple[Player, Player]
    settings: MatchSettings
    game_numbers: Sequence[int]
    prefixes: Sequence[list[int]]

    def __post_init__(self) -> None:
        self.rules, self.seed, device = self.settings.rules, self.settings.seed, self.settings.device
        self.last_moves: dict[int, int] = {}
        self.begun = torch.tensor(self.prefixes, dtype=torch.int64, device=device)
        self.engines, self.ply, count = engines(self.players), 0, len(self.game_numbers)
        self.numbers = torch.tensor(self.game_numbers, dtype=torch.int64, device=device)
        self.opening = self.numbers // 2 if self.settings.is_paired else self.numbers
        self.opening_seed = int(rng.key(self.seed, Purpose.OPENING)) % 2**62
        self.a_is_black = (self.numbers % 2 == 0) | (not self.settings.is_paired)
        self.game_index = torch.arange(count, device=device)
        cap = 2 * self.rules.size**2 if self.settings.move_cap is None else self.settings.move_cap
        self.states = board.new_games(count, self.rules, device, cap)
        self.moves = torch.full((count, cap), NO_MOVE, dtype=torch.int16, device=device)
        for engine in self.engines:
            engine.begin(self.rules)

    @property
    def moves_a(self) -> Tensor:
        """Whether it is A's turn in the running games: bool [K]."""
        return (self.states.to_play == board.BLACK) == self.a_is_black[self.game_index]

    def play_ply(self) -> list[PlayedGame]:
        """Plays one ply of all running games and returns those that ended."""
        actions, stops = self._choose()
        ended = self._end(sorted(stops), stops) if stops else []
        if stops:
            running = [k for k in range(len(actions)) if k not in stops]
            actions = actions[running]
            self._keep(torch.tensor(running, dtype=torch.int64, device=actions.device))
        self.ply += 1
        self.last_moves = dict(zip(self.numbers[self.game_index].tolist(), actions.tolist(), strict=True))
        if not len(self.game_index):
            return ended
        self.moves[self.game_index, self.ply - 1] = actions.to(torch.int16)
        self.states = board.step_(self.states, actions)
        finished = self.states.finished.nonzero().squeeze(1)  # between moves the host may read tensors
        if finished.numel():
            ended += self._end(finished.tolist(), {})
            self._keep((~self.states.finished).nonzero().squeeze(1))
        return ended

    def _keep(self, index: Tensor) -> None:
        """Keeps some of the K running games only: index int64 [k]."""
        self.states, self.game_index = self.states.select(index), self.game_index[index]

    # The moves

    def _choose(self) -> tuple[Tensor, dict[int, Stop]]:
        """Returns the moves of the running games, int64 [K], and why games stop here, by their index among the K."""
        if self.ply < self.begun.shape[1]:
            actions = self.begun[self.game_index, self.ply]
            if not self._are_legal(actions).all():
                raise InputError(f"match: a saved move of ply {self.ply} is illegal; start a new match")
            return actions, {}
        if self.ply < self.settings.opening_plies:
            return RandomPlayer().choose(self.states, self.opening[self.game_index], self.opening_seed), {}
        actions = self._ask_players()
        wrong = (~self._are_legal(actions)).nonzero().squeeze(1).tolist()
        return actions, {k: self._stop(k, int(actions[k])) for k in wrong}

    def _are_legal(self, actions: Tensor) -> Tensor:
        """Returns which of the given actions, any int64 [K], are legal in the running games: bool [K]."""
        clamped = actions.clamp(0, self.rules.size**2)
        return board.legal_actions(self.states).gather(1, clamped.unsqueeze(1)).squeeze(1) & (actions == clamped)

    def _ask_players(self) -> Tensor:
        """Returns the players' choices in their games: int64 [K]. Engines think while zerogo's player does."""
        asks_a = self.moves_a | (self.players[0] is self.players[1])
        indices = (mask.nonzero().squeeze(1) for mask in (asks_a, ~asks_a))
        moving = [(player, index) for player, index in zip(self.players, indices, strict=True) if index.numel()]
        actions, waiting = torch.zeros_like(self.game_index), []
        with ThreadPoolExecutor(2) as threads:  # for engines only: torch's threads and modes belong to this one
            try:
                for player, index in moving:
                    if player in self.engines:
                        games = self._games(self.game_index[index].tolist())
                        waiting.append((index, threads.submit(player.choose_moves, games, self.seed)))
                for player, index in moving:
                    if player not in self.engines:
                        states = self.states if len(index) == len(actions) else self.states.select(index)
                        actions[index] = player.choose(states, self.numbers[self.game_index[index]], self.seed)
                for index, answer in waiting:
                    actions[index] = torch.tensor(answer.result(), device=actions.device)
            except BaseException:
                for engine in self.engines:
                    engine.close()  # else an interrupted match would wait for a thinking engine
                raise
        return actions

    def _stop(self, k: int, action: int) -> Stop:
        """Returns why one of the K games stops: an engine resigned, was at fault or played an illegal move. Raises
        ValueError for zerogo's own player, where it is a bug."""
        player, number = self._to_move(k), int(self.numbers[self.game_index[k]])
        if player not in self.engines:
            raise ValueError(f"match: {player.name} played the illegal action {action} in game {number}")
        black_lost, at = int(self.states.to_play[k]) == board.BLACK, f"at move {self.ply + 1}"
        if action == RESIGN:
            return Stop(RESIGNED, black_lost, f"resigned {at}")
        if action < 0:
            return Stop(FORFEIT, black_lost, f"{player.faults[number]}, {at}")
        size, game = self.rules.size, GameState.new(self.rules)
        for earlier in self._games([int(self.game_index[k])])[number]:
            game = game.play(Move.from_action(earlier, size))
        reason = game.why_illegal(Move.from_action(action, size))
        return Stop(FORFEIT, black_lost, f"illegal move {coords.to_gtp(action, size)} ({reason}), {at}")

    def _to_move(self, k: int) -> Player:
        """Returns whose turn it is in one of the K games."""
        return self.players[0 if self.moves_a[k] else 1]

    # The ends

    def _end(self, ended: list[int], stops: Mapping[int, Stop]) -> list[PlayedGame]:
        """Returns the games that end now, on the host, and ends them in the engines. ended: their indices among the K.
        stops: of all of them, or empty: then they are counted, and the engines' own scores are added."""
        index = torch.tensor(ended, dtype=torch.int64, device=self.game_index.device)
        states, rows = self.states.select(index), self.game_index[index]
        games, final_scores = self._games(rows.tolist()), [{} for _ in ended]
        numbers = list(games)
        for engine in self.engines:
            answers = [None] * len(ended) if stops else engine.final_scores(games, self.seed)
            for k, number, answer, scores_of_game in zip(ended, numbers, answers, final_scores, strict=True):
                if answer is not None:
                    scores_of_game[engine.name] = answer
                at_fault = k in stops and stops[k].kind == FORFEIT and engine is self._to_move(k)
                engine.end(number, at_fault=at_fault)
        scores, owners = scoring.result_black(states)
        facts = {"number": numbers, "a_is_black": self.a_is_black[rows].tolist(), "moves": games.values()}
        facts |= {"score_black": [math.nan] * len(ended) if stops else scores.tolist()}
        facts |= {"area_black": (owners == 1).sum((1, 2)).tolist(), "stones": states.stones.cpu().numpy()}
        facts |= {"capped": [not stops and passes < 2 for passes in states.passes.tolist()]}
        facts |= {"stop": [stops.get(k) for k in ended], "final_scores": final_scores}
        return [PlayedGame(**dict(zip(facts, values, strict=True))) for values in zip(*facts.values(), strict=True)]

    def _games(self, rows: Sequence[int]) -> dict[int, list[int]]:
        """Returns the moves so far of some of the G games, by game number."""
        games = zip(rows, self.moves[list(rows)].tolist(), strict=True)
        return {self.game_numbers[row]: [action for action in moves if action != NO_MOVE] for row, moves in games}
