"""The games of one batch of a match while they are played: in lock-step, with a referee for players from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo import board, coords, draws, flood, scoring
from zerogo.arena.result import FORFEIT, NO_MOVE, RESIGNED, Played, Stop
from zerogo.draws import Purpose
from zerogo.game import GameState, Move
from zerogo.players import RESIGN, Player, RandomPlayer, StatefulPlayer
from zerogo.rules import Rules


@dataclass(frozen=True)
class Terms:
    """What all games of a match share. players: A and B. is_paired: A is Black in games with even numbers, otherwise in
    all.
    """

    players: tuple[Player, Player]
    rules: Rules
    seed: int
    is_paired: bool
    opening_plies: int
    cap: int
    device: torch.device | str

    @property
    def stateful_players(self) -> list[StatefulPlayer]:
        """Who of the players is from outside, each once."""
        return [player for player in dict.fromkeys(self.players) if isinstance(player, StatefulPlayer)]


class Games:
    """G games of a match that are played together. numbers: theirs in the match.

    Only games that go on are kept in `states` (K games; `lane` int64 [K] says which they are of the G), so finished
    ones cost nothing."""

    def __init__(self, terms: Terms, numbers: Sequence[int]) -> None:
        self.terms, self.stateful_players = terms, terms.stateful_players
        count, device = len(numbers), terms.device
        self.numbers = torch.tensor(numbers, dtype=torch.int64, device=device)
        self.opening = self.numbers // 2 if terms.is_paired else self.numbers
        self.opening_seed = int(draws.key(terms.seed, Purpose.OPENING)) % 2**62
        self.a_is_black = (
            (self.numbers % 2 == 0) if terms.is_paired else torch.ones(count, dtype=torch.bool, device=device)
        )
        self.lane = torch.arange(count, device=device)
        self.states = board.new_games(count, terms.rules, device, terms.cap)
        self.ply = 0
        self.moves = torch.full((count, terms.cap), NO_MOVE, dtype=torch.int16, device=device)
        for stateful in self.stateful_players:
            stateful.begin(list(numbers), terms.rules)

    @property
    def are_over(self) -> bool:
        return self.lane.numel() == 0

    def play_ply(self) -> list[Played]:
        """Plays one ply of all games that go on and returns those that are over now."""
        actions, stops = self._choose()
        over = self._stop(stops)
        if stops:
            going = (
                torch.tensor([index not in stops for index in range(len(self.lane))], device=self.lane.device)
                .nonzero()
                .squeeze(1)
            )
            actions = actions[going]
            self._keep(going)
        self.ply += 1
        if self.are_over:
            return over
        self.moves[self.lane, self.ply - 1] = actions.to(torch.int16)
        self.states = board.step_(self.states, actions)
        for stateful in self.stateful_players:
            stateful.notify(self.numbers[self.lane].tolist(), actions.tolist())
        finished = self.states.finished.nonzero().squeeze(1)  # between moves the host may look
        if finished.numel():
            over += self._count(finished)
            self._keep((~self.states.finished).nonzero().squeeze(1))
        return over

    def progress(self) -> float:
        """Returns the games played so far, those that go on by their share of the move cap."""
        return len(self.numbers) - len(self.lane) * (1 - min(1.0, self.ply / self.terms.cap))

    # The moves

    def _choose(self) -> tuple[Tensor, dict[int, Stop]]:
        """Returns the moves of the games that go on, int64 [K], and why games stop here, by their index among the K."""
        if self.ply < self.terms.opening_plies:
            return RandomPlayer().choose(self.states, self.opening[self.lane], self.opening_seed), {}
        player_a, player_b = self.terms.players
        everywhere = torch.arange(len(self.lane), device=self.lane.device)
        moves_a = (self.states.to_play == board.BLACK) == self.a_is_black[self.lane]
        asked = [(player, everywhere[mask]) for player, mask in ((player_a, moves_a), (player_b, ~moves_a))]
        if player_a is player_b:
            asked = [(player_a, everywhere)]
        asked = [(player, index) for player, index in asked if index.numel()]
        actions, stops = torch.zeros_like(self.lane), {}
        for (player, index), chosen in zip(asked, self._answers(asked), strict=True):
            actions[index] = chosen
            stops |= self._stops(player, index, chosen)
        return actions, stops

    def _answers(self, asked: Sequence[tuple[Player, Tensor]]) -> list[Tensor]:
        """Returns what players choose in their games, int64 [k] among the K each. Guests think while a player of ours
        does.
        """
        positions = []
        for player, index in asked:
            states = self.states if len(index) == len(self.lane) else board.select(self.states, index)
            positions.append((player, states, self.numbers[self.lane[index]]))
        if len(asked) == 1 or not self.stateful_players:
            return [player.choose(states, numbers, self.terms.seed) for player, states, numbers in positions]
        with ThreadPoolExecutor(len(positions)) as threads:  # guests only: torch's threads and modes belong to this one
            try:
                waiting = [
                    threads.submit(player.choose, states, numbers, self.terms.seed)
                    if player in self.stateful_players
                    else None
                    for player, states, numbers in positions
                ]
                ours = [
                    player.choose(states, numbers, self.terms.seed) if future is None else None
                    for (player, states, numbers), future in zip(positions, waiting, strict=True)
                ]
                return [own if future is None else future.result() for own, future in zip(ours, waiting, strict=True)]
            except BaseException:
                for stateful in self.stateful_players:
                    stateful.close()  # else an interrupted match would wait for what an engine thinks
                raise

    def _stops(self, player: Player, index: Tensor, actions: Tensor) -> dict[int, Stop]:
        """Returns in which games a player gave up or was at fault, by their index among the K.

        An illegal move would spoil the game without a sign, so it is caught here: a guest loses by it, of a player of
        ours it is a bug."""
        states = self.states if len(index) == len(self.lane) else board.select(self.states, index)
        legal = board.legal_actions(states).gather(1, actions.clamp(min=0).unsqueeze(1)).squeeze(1) & (actions >= 0)
        if bool(legal.all()):
            return {}
        wrong = (~legal).nonzero().squeeze(1).tolist()
        if player not in self.stateful_players:
            number = int(self.numbers[self.lane[index[wrong[0]]]])
            raise ValueError(
                f"match: {player.name} played the illegal action {int(actions[wrong[0]])} in game {number}"
            )
        return {int(index[k]): self._why(player, int(index[k]), int(actions[k])) for k in wrong}

    def _why(self, stateful: StatefulPlayer, index: int, action: int) -> Stop:
        """Returns why a game among the K stops at what a guest answered."""
        black_lost = int(self.states.to_play[index]) == board.BLACK
        number = int(self.numbers[self.lane[index]])
        if action == RESIGN:
            return Stop(RESIGNED, black_lost, f"resigned at move {self.ply + 1}")
        if action < 0:
            return Stop(FORFEIT, black_lost, f"{stateful.why(number)}, at move {self.ply + 1}")
        game = GameState.new(self.terms.rules)
        for played in self._moves_of(int(self.lane[index])):
            game = game.play(Move.from_action(played, self.terms.rules.size))
        reason = game.why_illegal(Move.from_action(action, self.terms.rules.size))
        return Stop(
            FORFEIT,
            black_lost,
            f"illegal move {coords.to_gtp(action, self.terms.rules.size)} ({reason}), at move {self.ply + 1}",
        )

    # The ends

    def _stop(self, stops: dict[int, Stop]) -> list[Played]:
        """Returns the games that stop here, and lets guests know."""
        for stateful in self.stateful_players:
            for index, stop in stops.items():
                is_at_fault = stop.kind == FORFEIT and stateful is self._who_moves(index)
                stateful.end([int(self.numbers[self.lane[index]])], at_fault=is_at_fault)
        indices = torch.tensor(sorted(stops), dtype=torch.int64, device=self.lane.device)
        return self._played(indices, [stops[index] for index in sorted(stops)], [{} for _ in stops]) if stops else []

    def _who_moves(self, index: int) -> Player:
        """Returns whose turn it is in a game among the K."""
        moves_a = (int(self.states.to_play[index]) == board.BLACK) == bool(self.a_is_black[self.lane[index]])
        return self.terms.players[0 if moves_a else 1]

    def _count(self, index: Tensor) -> list[Played]:
        """Returns the games whose boards are to be counted now: int64 [k] among the K."""
        numbers = self.numbers[self.lane[index]].tolist()
        told: list[dict[str, str]] = [{} for _ in numbers]
        for stateful in self.stateful_players:
            for said, text in zip(told, stateful.final_scores(numbers, self.terms.seed), strict=True):
                if text is not None:
                    said[stateful.name] = text
            stateful.end(numbers)
        return self._played(index, [None] * len(numbers), told)

    def _played(self, index: Tensor, stops: Sequence[Stop | None], told: Sequence[dict[str, str]]) -> list[Played]:
        """Returns games as they are now, on the host: int64 [k] among the K. A stopped game is not counted."""
        states, lane = board.select(self.states, index), self.lane[index]
        scores, areas = (values.tolist() for values in score(states, self.terms.rules))
        stones = states.stones.cpu().numpy()
        capped = (states.passes < 2).tolist()
        facts = zip(
            self.numbers[lane].tolist(), self.a_is_black[lane].tolist(), lane.tolist(), stops, told, strict=True
        )
        return [
            Played(
                number=number,
                a_is_black=a_is_black,
                moves=self._moves_of(row),
                score_black=float("nan") if stop else scores[k],
                area_black=areas[k],
                capped=capped[k] and stop is None,
                stones=stones[k],
                stop=stop,
                told=said,
            )
            for k, (number, a_is_black, row, stop, said) in enumerate(facts)
        ]

    def _moves_of(self, row: int) -> list[int]:
        """Returns the moves of a game among the G so far."""
        return [action for action in self.moves[row].tolist() if action != NO_MOVE]

    def _keep(self, index: Tensor) -> None:
        """Goes on with some of the K games only: int64 [k]."""
        self.states, self.lane = board.select(self.states, index), self.lane[index]


def score(states: board.State, rules: Rules) -> tuple[Tensor, Tensor]:
    """Returns the score float32 [B] for Black, komi included, and Black's area int64 [B], of boards as the referee
    counts them.

    Under area scoring AS THEY STAND (Tromp-Taylor): each side's stones and the points that it alone reaches, every
    stone alive. Under territory scoring stones inside the other side's pass-alive territory are dead
    (`scoring.final_score_black`)."""
    if rules.scoring == "territory":
        black, _ = scoring.final_rows(states, may_look=True)
        result = scoring.final_score_black(states)
    else:
        black, white = scoring.area_rows(states.black, states.white, states.on_board)
        result = (flood.count(black) - flood.count(white)).to(torch.float32) - states.rules.komi
    return result, flood.count(black).to(torch.int64)


def play_all(
    terms: Terms,
    numbers: Sequence[int],
    at_once: int,
    on_games: Callable[[list[Played]], None],
    on_progress: Callable[[float], None],
) -> list[Played]:
    """Returns the games of these numbers, batch by batch. on_games: called with games as they end; on_progress: with
    how many there are.
    """
    played: list[Played] = []
    for start in range(0, len(numbers), at_once):
        games = Games(terms, numbers[start : start + at_once])
        while not games.are_over:
            over = games.play_ply()
            played += over
            if over:
                on_games(over)
            on_progress(start + games.progress())
    return played
