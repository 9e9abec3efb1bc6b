"""A match between two players: many games in lock-step, with a referee for players from outside.

A game is a function of (players, rules, seed, its number) alone, so it comes out the same alone and among thousands,
and a match that was interrupted goes on with the games that are missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from zerogo import board, scoring
from zerogo.arena.result import FORFEIT, NO_MOVE, RESIGNED, MatchResult, PlayedGame, Stop
from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.config import GameConfig
from zerogo.errors import InputError
from zerogo.game import GameState, Move
from zerogo.players import RESIGN, Player, StatefulPlayer
from zerogo.rules import Rules, coords
from zerogo.selfplay.playout import RandomPlayer
from zerogo.system import distributed

COLOURS = ("paired", "a_black")
GAMES_AT_ONCE = 1024  # games of one batch, which bounds the memory of trees; a game doesn't depend on it
ENGINE_GAMES_AT_ONCE = 32  # fewer where processes play one game after the other, so that games end, and are kept, early
ENGINE_PLIES = 6  # a point, where no cap is set: engines capture dead stones before they pass, which takes their time


def cap_for(game: GameConfig, players: Sequence[Player], size: int) -> int:
    """Returns the ply at which these players' games end: the config's; where that leaves it open, engines get more than
    networks, who learned with it."""
    has_engine = any(isinstance(player, StatefulPlayer) for player in players)
    return ENGINE_PLIES * size**2 if has_engine and not game.move_cap else game.plies(size)


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
    on_progress: Callable[[float], None] = lambda played: None,
    on_games: Callable[[list[PlayedGame]], None] = lambda games: None,
    on_moves: Callable[[int, dict[int, int]], None] = lambda ply, moves: None,
    finished: Sequence[PlayedGame] = (),
    begun: Mapping[int, list[int]] | None = None,
    first_game: int = 0,
    at_once: int | None = None,
) -> MatchResult:
    """Returns what came of `num_games` games of A against B.

    colours: "paired" gives A Black in games with even numbers and White in the odd ones, games 2k and 2k + 1 with one
    opening; "a_black" gives A Black in all. opening_plies: moves at the start that the random player makes, drawn from
    the seed and the pair's number. move_cap: ply at which a game ends, None for 2 * size * size. on_progress: called
    with the number of games played so far; one that goes on counts as the share of the move cap that it has reached.
    on_games: called with games as soon as they end. on_moves: called at each ply with it and the actions in the games
    that go on. finished, begun: games that an interrupted match has left, which are not played again, and the moves of
    unfinished ones by their numbers, which go on from there. first_game: the first game's number. at_once: games of one
    batch, None for a fitting number. Where both players are one and the same object, one call chooses the moves of both
    sides.

    Games end by two passes or at the cap, and are counted as `score` says. Players of ours never resign; an engine
    may, and loses a game by an illegal move and whatever else goes wrong with it, while the match goes on."""
    _check(colours, num_games, opening_plies, at_once, move_cap)
    cap = 2 * rules.size**2 if move_cap is None else move_cap
    players, is_paired = (player_a, player_b), colours == "paired"
    numbers = range(first_game, first_game + num_games)
    games = [game for game in finished if game.number in numbers]
    left = sorted(set(numbers) - {game.number for game in games})
    pairs = sorted({number // 2 for number in left})[distributed.rank() :: distributed.world_size()]
    begin = partial(MatchGames, players, rules, seed, is_paired, opening_plies, cap, device)

    def note_progress(played: float) -> None:  # the other ranks have come as far as this one
        on_progress(len(games) + min(len(left), distributed.world_size() * played))

    share = {number: (begun or {}).get(number, []) for number in left if number // 2 in set(pairs)}
    at_once = at_once or (ENGINE_GAMES_AT_ONCE if engines(players) else GAMES_AT_ONCE)
    played = distributed.run_and_sync_errors(_play, share, begin, at_once, on_games, on_moves, note_progress)
    games = sorted(sum(distributed.all_gather_object(played), games), key=lambda game: game.number)
    is_self = player_a is player_b
    return MatchResult(player_a.name, player_b.name, rules, seed, opening_plies, is_self, is_paired, games)


def _play(
    missing: dict[int, list[int]],
    begin: Callable[[Sequence[int], Sequence[list[int]]], MatchGames],
    at_once: int,
    on_games: Callable[[list[PlayedGame]], None],
    on_moves: Callable[[int, dict[int, int]], None],
    on_progress: Callable[[float], None],
) -> list[PlayedGame]:
    """Returns the games of these numbers, played from the moves with which each begins, so many in a batch. begin:
    makes a batch of the numbers and moves. on_progress: called with the number of these games played so far."""
    games: list[PlayedGame] = []
    while missing:
        before, plies = len(games), max(map(len, missing.values()))
        some = sorted(number for number, moves in missing.items() if len(moves) == plies)[:at_once]
        batch = begin(some, [missing.pop(number) for number in some])
        while not batch.are_over:
            over = batch.play_ply()
            games += over
            if batch.ply > plies and batch.last_moves:
                on_moves(batch.ply - 1, batch.last_moves)
            if over:
                on_games(over)
            on_progress(before + batch.progress())
    return games


def engines(players: Sequence[Player]) -> list[StatefulPlayer]:
    """Returns the players of a match from outside, each once."""
    each = players[:1] if players[0] is players[1] else players
    return [player for player in each if isinstance(player, StatefulPlayer)]


def _check(colours: str, num_games: int, opening_plies: int, at_once: int | None, move_cap: int | None) -> None:
    """Raises InputError for options that no match can have."""
    if colours not in COLOURS:
        raise InputError(f"match: colours are {colours!r}; allowed are {', '.join(COLOURS)}")
    if num_games < 1 or opening_plies < 0 or (at_once is not None and at_once < 1):
        given = f"{num_games} games, {opening_plies} opening plies, {at_once} at once"
        raise InputError(f"match: {given}; allowed are 1, 0 and 1 or more")
    if move_cap is not None and move_cap < 1:
        raise InputError(f"match: the move cap is {move_cap} plies; it must be 1 or more")


@dataclass(eq=False)
class MatchGames:
    """G games of a match that are played together. players: A and B. is_paired: A is Black in games with even numbers,
    otherwise in all. game_numbers: theirs in the match. kept: the moves with which each begins, equally many.
    last_moves: the actions of the last ply in the games that had one, by their numbers.

    Only the K games that go on are kept in `states`, so finished ones cost nothing; `game_index`, int64 [K], says which
    of the G they are. Other tensors have leading G."""

    players: tuple[Player, Player]
    rules: Rules
    seed: int
    is_paired: bool
    opening_plies: int
    cap: int
    device: torch.device | str
    game_numbers: Sequence[int]
    kept: Sequence[list[int]] = ()

    def __post_init__(self) -> None:
        self.last_moves: dict[int, int] = {}
        self.begun = torch.tensor(self.kept or [[]] * len(self.game_numbers), dtype=torch.int64, device=self.device)
        self.engines, self.ply, count = engines(self.players), 0, len(self.game_numbers)
        self.numbers = torch.tensor(self.game_numbers, dtype=torch.int64, device=self.device)
        self.opening = self.numbers // 2 if self.is_paired else self.numbers
        self.opening_seed = int(rng.key(self.seed, Purpose.OPENING)) % 2**62
        self.a_is_black = (self.numbers % 2 == 0) | (not self.is_paired)
        self.game_index = torch.arange(count, device=self.device)
        self.states = board.new_games(count, self.rules, self.device, self.cap)
        self.moves = torch.full((count, self.cap), NO_MOVE, dtype=torch.int16, device=self.device)
        for engine in self.engines:
            engine.begin(list(self.game_numbers), self.rules)

    @property
    def are_over(self) -> bool:
        """Whether none of the games goes on."""
        return self.game_index.numel() == 0

    @property
    def moves_a(self) -> Tensor:
        """Whether it is A's turn in the games that go on: bool [K]."""
        return (self.states.to_play == board.BLACK) == self.a_is_black[self.game_index]

    def progress(self) -> float:
        """Returns the games played so far, those that go on by their share of the move cap."""
        return len(self.numbers) - len(self.game_index) * (1 - min(1.0, self.ply / self.cap))

    def play_ply(self) -> list[PlayedGame]:
        """Plays one ply of all games that go on and returns those that are over now."""
        actions, stops = self._choose()
        over = self._end(sorted(stops), stops) if stops else []
        if stops:
            going = [k for k in range(len(actions)) if k not in stops]
            actions = actions[going]
            self._keep(torch.tensor(going, dtype=torch.int64, device=actions.device))
        self.ply += 1
        self.last_moves = dict(zip(self.numbers[self.game_index].tolist(), actions.tolist(), strict=True))
        if self.are_over:
            return over
        self.moves[self.game_index, self.ply - 1] = actions.to(torch.int16)
        self.states = board.step_(self.states, actions)
        for engine in self.engines:
            engine.notify([*self.last_moves], [*self.last_moves.values()])
        finished = self.states.finished.nonzero().squeeze(1)  # between moves the host may look
        if finished.numel():
            over += self._end(finished.tolist(), {})
            self._keep((~self.states.finished).nonzero().squeeze(1))
        return over

    def _keep(self, index: Tensor) -> None:
        """Goes on with some of the K games only: index int64 [k]."""
        self.states, self.game_index = self.states.select(index), self.game_index[index]

    # The moves

    def _choose(self) -> tuple[Tensor, dict[int, Stop]]:
        """Returns the moves of the games that go on, int64 [K], and why games stop here, by their index among the K."""
        if self.ply < self.begun.shape[1]:
            actions = self.begun[self.game_index, self.ply]
            if not self._are_legal(actions).all():
                raise InputError(f"match: a saved move of ply {self.ply} is illegal; start a new match")
            return actions, {}
        if self.ply < self.opening_plies:
            return RandomPlayer().choose(self.states, self.opening[self.game_index], self.opening_seed), {}
        actions = self._ask()
        wrong = (~self._are_legal(actions)).nonzero().squeeze(1).tolist()
        return actions, {k: self._stop(k, int(actions[k])) for k in wrong}

    def _are_legal(self, actions: Tensor) -> Tensor:
        """Returns which moves of the games that go on are legal, of any numbers int64 [K]: bool [K]."""
        known = actions.clamp(0, self.rules.size**2)
        return board.legal_actions(self.states).gather(1, known.unsqueeze(1)).squeeze(1) & (actions == known)

    def _ask(self) -> Tensor:
        """Returns what the players choose in their games: int64 [K]. Engines think while a player of ours does."""
        asks_a, questions = self.moves_a | (self.players[0] is self.players[1]), []
        for player, mask in zip(self.players, (asks_a, ~asks_a), strict=True):
            index = mask.nonzero().squeeze(1)
            if index.numel():
                states = self.states if len(index) == len(mask) else self.states.select(index)
                questions.append((player, index, (states, self.numbers[self.game_index[index]], self.seed)))
        actions, waiting = torch.zeros_like(self.game_index), []
        with ThreadPoolExecutor(2) as threads:  # for engines only: torch's threads and modes belong to this one
            try:
                for player, index, question in questions:
                    if player in self.engines:
                        waiting.append((index, threads.submit(player.choose, *question)))
                for player, index, question in questions:
                    if player not in self.engines:
                        actions[index] = player.choose(*question)
                for index, answer in waiting:
                    actions[index] = answer.result()
            except BaseException:
                for engine in self.engines:
                    engine.close()  # else an interrupted match would wait for what an engine thinks
                raise
        return actions

    def _stop(self, k: int, action: int) -> Stop:
        """Returns why one of the K games stops at an action that is no legal move: an engine loses by it, of a player
        of ours it is a bug."""
        player, number = self._to_move(k), int(self.numbers[self.game_index[k]])
        if player not in self.engines:
            raise ValueError(f"match: {player.name} played the illegal action {action} in game {number}")
        black_lost, at = int(self.states.to_play[k]) == board.BLACK, f"at move {self.ply + 1}"
        if action == RESIGN:
            return Stop(RESIGNED, black_lost, f"resigned {at}")
        if action < 0:
            return Stop(FORFEIT, black_lost, f"{player.why(number)}, {at}")
        size, game = self.rules.size, GameState.new(self.rules)
        for played in self._moves_of(int(self.game_index[k])):
            game = game.play(Move.from_action(played, size))
        reason = game.why_illegal(Move.from_action(action, size))
        return Stop(FORFEIT, black_lost, f"illegal move {coords.to_gtp(action, size)} ({reason}), {at}")

    def _to_move(self, k: int) -> Player:
        """Returns whose turn it is in one of the K games."""
        return self.players[0 if self.moves_a[k] else 1]

    # The ends

    def _end(self, ended: list[int], stops: Mapping[int, Stop]) -> list[PlayedGame]:
        """Returns games that are over now, by their index among the K, on the host, and lets engines know. Those that
        do not stop here are counted, and engines say what they make of the score."""
        index = torch.tensor(ended, dtype=torch.int64, device=self.game_index.device)
        states, rows = self.states.select(index), self.game_index[index]
        numbers, told = self.numbers[rows].tolist(), [{} for _ in ended]
        for engine in self.engines:
            said = [None] * len(ended) if stops else engine.final_scores(numbers, self.seed)
            for k, number, text, texts in zip(ended, numbers, said, told, strict=True):
                if text is not None:
                    texts[engine.name] = text
                at_fault = k in stops and stops[k].kind == FORFEIT and engine is self._to_move(k)
                engine.end([number], at_fault=at_fault)
        scores, owners = scoring.result_black(states)
        scores, areas = scores.tolist(), (owners == 1).sum((1, 2)).tolist()
        stones, capped = states.stones.cpu().numpy(), (states.passes < 2).tolist()
        facts = zip(ended, rows.tolist(), self.a_is_black[rows].tolist(), strict=True)
        return [
            PlayedGame(
                number=numbers[place],
                a_is_black=a_is_black,
                moves=self._moves_of(row),
                score_black=math.nan if k in stops else scores[place],
                area_black=areas[place],
                capped=capped[place] and k not in stops,
                stones=stones[place],
                stop=stops.get(k),
                told=told[place],
            )
            for place, (k, row, a_is_black) in enumerate(facts)
        ]

    def _moves_of(self, row: int) -> list[int]:
        """Returns the moves of one of the G games so far."""
        return [action for action in self.moves[row].tolist() if action != NO_MOVE]
