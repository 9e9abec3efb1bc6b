"""What the tests of matches share: players whose moves are known, the smallest settings, and two results compared."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fake_engine import Fake, Trouble

from zerogo import board
from zerogo.arena import MatchResult
from zerogo.arena.journal import GAMES_FILE
from zerogo.arena.result import PlayedGame
from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.config import Config, with_overrides
from zerogo.players.external import EngineProcess
from zerogo.rules import Rules

FAKE = Path(__file__).parent / "campaign" / "fake_program.py"


def config(*overrides: str) -> Config:
    return with_overrides(Config(), ["game.size=5", "game.komi=0.5", "run.device=cpu", "run.threads=1", *overrides])


def command(mode: str, *more: str) -> str:
    """Returns the word of a fake engine."""
    return " ".join(["gtp:" + sys.executable, "-E", str(FAKE), mode, *more])


class EngineInProcess(EngineProcess):
    """An engine of fake_engine.py in this process, or what a function says to each line: `EngineProcess` reads it as it
    reads a pipe. One that hangs lets the time of `now` pass, a list of one number."""

    now: list[float] = [0.0]

    def __init__(self, command: Sequence[str], answer: Callable[[str], str] | None = None) -> None:
        self.command, self._trouble, self._process, self._number = command, None, None, 0
        self._incoming = self._outgoing = self._stderr = b""
        self._has_spoken = self._is_closed = self._repeats_numbers = False
        self.is_numbering, self._answer_to, self._is_new = True, answer, answer is None
        self._delay = 0.8 if "slow" in command else 0.0

    def _read_and_write(self, seconds: float) -> bool:
        delay = min(self._delay, seconds)
        self._delay, self.now[0], said = self._delay - delay, self.now[0] + delay, ""
        if self._delay > 0:
            return True
        lines, self._outgoing = self._outgoing.decode().splitlines(), b""
        try:
            if self._is_new:
                fake, self._is_new = Fake(*self.command[3:]), False
                said, self._answer_to = fake.greeting, fake.answer
            for line in lines:
                said += self._answer_to(line)
        except Trouble as trouble:
            self._trouble, self._stderr = trouble, trouble.words.encode()
        if not said:
            self.now[0] += seconds
        self._incoming += said.encode()
        return self._trouble is None or self._trouble.kind == "hang" or said != ""

    def _ending(self) -> str:
        return "closed its output" if self._trouble.kind == "mute" else f"ended with status {self._trouble.status}"

    def _last_words(self) -> str:
        words = self._stderr.decode()
        return f" ({words})" if words and self._trouble.kind == "crash" else ""

    def interrupt(self) -> None:
        pass

    quit = kill = interrupt


def written(folder: Path) -> dict[tuple[int, int], dict]:
    """Returns the finished games that a folder holds, by match and number; there is one line of each."""
    path = folder / GAMES_FILE
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    games = [json.loads(line) for line in lines if line.endswith(b"\n")]
    found = {(game["match"], game["game"]): game for game in games}
    assert len(found) == len(games), "a game was played twice"
    return found


def moves_of(result: MatchResult, plies: int = 0) -> np.ndarray:
    """Returns the moves of all games, -1 after their ends: int64 [G, longest], or the first plies: [G, plies]."""
    width = plies or result.lengths.max()
    return np.array([(game.moves + [-1] * width)[:width] for game in result.games])


def plain(game: PlayedGame) -> dict:
    """Returns all that is known of a game so that it can be compared: nan equals nothing, an array is no truth."""
    return vars(game) | {"score_black": str(game.score_black), "stones": game.stones.tolist()}


def same(one: MatchResult, other: MatchResult) -> bool:
    return list(map(plain, one.games)) == list(map(plain, other.games))


def some_result(
    name_a: str = "anna", name_b: str = "bert", num_games: int = 8, size: int = 5, first_game: int = 0, **games
) -> MatchResult:
    """Returns a match without a played game, Black winning pairs by 3 and losing them by 1 in turn, the second capped.

    games: of some games, "game_0" and so on, the fields that differ."""
    draw, is_self, made = np.random.default_rng(1), name_a == name_b, []
    for number in range(first_game, first_game + num_games):
        fields = {"score_black": 3.0 if number % 4 < 2 else -1.0, "area_black": 14, "capped": number == 1}
        fields |= {"number": number, "a_is_black": number % 2 == 0 or is_self}
        fields["stones"] = draw.integers(0, 3, (size, size)).astype(np.int8)
        fields["moves"] = draw.integers(0, size * size, 4).tolist()
        made.append(PlayedGame(**(fields | games.get(f"game_{number}", {}))))
    return MatchResult(name_a, name_b, Rules(size, 2.0), 7, 0, is_self, not is_self, made)


def dying(number: int, happens: Callable[..., Any], after: bool, counter: list[int]) -> Callable[..., Any]:
    """Returns the function, which ends the process at once when it is called for the `number`-th time by `counter`;
    what it does with compiled kernels does not count."""

    def function(*arguments: Any, **options: Any) -> Any:
        counter[0] += (counts := "__pycache__" not in str(arguments[0]))
        if counter[0] == number and counts and not after:
            os._exit(9)
        result = happens(*arguments, **options)
        if counter[0] == number and counts:
            os._exit(9)
        return result

    return function


class First:
    """Plays the first legal point while at least `leave` points are empty, then passes. Notes how it was asked."""

    def __init__(self, name: str = "first", leave: int = 4) -> None:
        self.name, self.leave = name, leave
        self.asked: list[tuple[list[int], list[int]]] = []

    def choose(self, states: board.State, game_ids: torch.Tensor, seed: int) -> torch.Tensor:
        self.asked.append((game_ids.tolist(), states.to_play.tolist()))
        first = board.legal_actions(states).to(torch.int8).argmax(1)
        empty = (states.stones == 0).flatten(1).sum(1)
        return torch.where(empty >= self.leave, first, states.board_size**2)


class Always:
    """Plays one action whether it is legal or not, None: a pass."""

    def __init__(self, action: int | None = None, name: str = "passer") -> None:
        self.action, self.name = action, name

    def choose(self, states: board.State, game_ids: torch.Tensor, seed: int) -> torch.Tensor:
        return torch.full_like(game_ids, states.board_size**2 if self.action is None else self.action)


class Drawing:
    """Moves evenly at random over all legal actions, so that games differ in length."""

    def __init__(self, name: str = "drawing") -> None:
        self.name = name

    def choose(self, states: board.State, game_ids: torch.Tensor, seed: int) -> torch.Tensor:
        return rng.choose(rng.key(seed, game_ids, states.ply, Purpose.MOVE), board.legal_actions(states))


def dies(number: int, work: Callable[[], Any], *functions: tuple[object, str]) -> bool:
    """Does work in a forked process that ends at once when the functions (an object's, by their names) are called for
    the `number`-th time, before or after that in turn; returns False where it comes to its end instead."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            counter = [0]
            for owner, name in functions:
                setattr(owner, name, dying(number, getattr(owner, name), number % 2 == 0, counter))
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9), f"the work ended with status {status}"
    return status == 9
