"""A GTP engine as a player of matches: many games at once, each move asked of a process, every fault kept apart from
the other games.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zerogo import board, draws
from zerogo.draws import Purpose
from zerogo.errors import InputError
from zerogo.players.external.pool import GENMOVE, Pool, Request, Start, move_of
from zerogo.players.external.process import EngineFault
from zerogo.players.external.programs import Program
from zerogo.players.player import FORFEIT, RESIGN
from zerogo.rules import Rules
from zerogo.runtime import usable_cores

SHOWN = 60  # letters of an answer that a report quotes
SEEDS = 2**31 - 1  # what engines take for a seed


@dataclass(eq=False)  # two of one program are two players
class ExternalPlayer:
    """A guest (see `players.StatefulPlayer`) that asks a GTP engine.

    seconds: how long an answer may take before the game is lost. processes: how many think at once, 0 for as many as
    usable cores. label: the engine's own name and version, known after `check` or `begin`."""

    program: Program
    seconds: float = 60.0
    processes: int = 0
    start_seconds: float = 600.0
    name: str = ""
    label: str = ""
    _pool: Pool | None = None
    _rules: Rules | None = None
    _moves: dict[int, list[int]] = field(default_factory=dict)
    _faults: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = self.name or self.program.name

    def check(self, rules: Rules) -> None:
        """Starts a process and tells it the rules. Raises InputError where that fails."""
        forbidden = self.program.forbids(rules)
        if forbidden:
            raise InputError(f"{self.name} {forbidden}")
        seat = self._opened(rules).seats[0]
        try:
            seat.open()
        except EngineFault as fault:
            self.close()
            raise InputError(f"{self.name} {fault}; it was started as: {' '.join(seat.start.command)}") from None
        self.label = seat.label

    def begin(self, game_ids: Sequence[int], rules: Rules) -> None:
        """Prepares for games that start now from the empty board."""
        self._opened(rules)
        for game in game_ids:
            self._moves[game] = []
            self._faults.pop(game, None)

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the engine's moves: int64 [B], RESIGN where it gives up and FORFEIT where it failed (`why` says
        how).
        """
        games = game_ids.tolist()
        found = []
        for game, answer in zip(games, self._ask(games, GENMOVE, seed), strict=True):
            action = answer if isinstance(answer, EngineFault) else self._read(answer)
            if isinstance(action, EngineFault):
                self._faults[game], action = str(action), FORFEIT
            found.append(action)
        return torch.tensor(found, dtype=torch.int64, device=states.device)

    def notify(self, game_ids: Sequence[int], actions: Sequence[int]) -> None:
        """Takes note of one move in each game."""
        for game, action in zip(game_ids, actions, strict=True):
            self._moves[game].append(action)

    def why(self, game_id: int) -> str:
        """Returns what went wrong in a game, an empty text where nothing did."""
        return self._faults.get(game_id, "")

    def final_scores(self, game_ids: Sequence[int], seed: int) -> list[str | None]:
        """Returns what the engine answers to `final_score`, None where it refuses or fails, which costs it nothing."""
        answers = self._ask(game_ids, "final_score", seed)
        return [None if isinstance(answer, EngineFault) else answer[:SHOWN] for answer in answers]

    def end(self, game_ids: Sequence[int], at_fault: bool = False) -> None:
        """Forgets games that are over; after a fault the process is replaced."""
        for game in game_ids:
            if self._pool is not None:
                if at_fault:
                    self._pool.renew(game)
                self._pool.forget(game)
            self._moves.pop(game, None)

    def close(self) -> None:
        """Ends all processes; the next use starts others."""
        if self._pool is not None:
            self._pool.close()
        self._pool = None

    def start_line(self, rules: Rules) -> str:
        """Returns the command that is started, for a report."""
        return " ".join(self.program.command(rules, _seed_of(0)))

    def _opened(self, rules: Rules) -> Pool:
        """Returns the processes for games under these rules; none of them is started here."""
        if self._pool is None or rules != self._rules:
            self.close()
            command = tuple(self.program.command(rules, _seed_of(0)))
            self._pool = Pool(Start(command, rules, self.seconds, self.start_seconds), self.processes or usable_cores())
            self._rules = rules
        return self._pool

    def _ask(self, games: Sequence[int], command: str, seed: int) -> list[str | EngineFault]:
        requests = []
        for game in games:
            moves = tuple(self._moves[game])
            requests.append(Request(game, moves, command, _seed_of(seed, game, len(moves))))
        return self._pool.ask(requests) if requests else []

    def _read(self, answer: str) -> int | EngineFault:
        """Returns the action that an answer names, or that it names none."""
        if answer.strip().lower() == "resign":
            return RESIGN
        action = move_of(answer, self._rules.size)
        return EngineFault(f"answered {answer[:SHOWN]!r}, which is no move") if action is None else action


def _seed_of(seed: int, *parts: int) -> int:
    """Returns a seed that engines take, from 1."""
    return int(draws.key(seed, *parts, Purpose.MOVE)) % SEEDS + 1
