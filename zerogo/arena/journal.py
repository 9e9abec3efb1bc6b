"""The folder of an evaluation while it is played: every move is kept as soon as it is made and every game as soon as it
ends, so that what was interrupted goes on from there.

    match.json       who plays, and under what settings
    games.jsonl      one finished game in each line
    moves.jsonl      moves of the games under way: [match, ply of the first, {game: moves}]; removed at the end
    games/*.sgf      the same games for people; each is there before its line is

A killed process leaves at most an incomplete last line, which is dropped."""

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zerogo import sgf
from zerogo.arena.result import GAMES_FOLDER, PlayedGame, Stop
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.system import bounds, distributed
from zerogo.system.runtime import RunLock, make_directory, remove_leftovers, sync_directory, write_atomically

SETTINGS_FILE = "match.json"
GAMES_FILE = "games.jsonl"
MOVES_FILE = "moves.jsonl"
NUM_GAMES = "games"  # the setting that may grow when a match goes on


class Journal(contextlib.ExitStack):
    """Keeps the finished games of an evaluation. Use it as a context manager; rank 0 locks the folder against another
    evaluation. pairs: the players' names of each match, A first. finished: the games so far, by the match's index.
    begun: likewise the moves of games that had begun, by their numbers."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], pairs: Sequence[tuple[str, str]], rules: Rules, resume: bool
    ) -> None:
        """Opens the folder, a new one or with `resume` one that holds this very match. Raises InputError where it is
        neither."""
        super().__init__()
        self.folder, self.pairs, self.rules = folder, list(pairs), rules
        self.finished, self.begun = distributed.broadcast_from_rank0(self._open, settings, resume)
        # All ranks add whole lines to the ends of the files.
        self._lines = self.enter_context(open(folder / GAMES_FILE, "ab"))
        self._moves = self.enter_context(open(folder / MOVES_FILE, "a", encoding="ascii"))
        sync_directory(folder)

    def _open(self, settings: Mapping[str, Any], resume: bool) -> tuple[list[list[PlayedGame]], list[dict]]:
        """Locks and tidies the folder; returns the games that it holds, finished and begun."""
        folder = self.folder
        is_same = _require_fit(folder, settings, resume)
        self.enter_context(RunLock(folder, "give --out another folder"))
        make_directory(folder / GAMES_FOLDER)
        for place in (folder, folder / GAMES_FOLDER):
            remove_leftovers(place)
        finished = _read_games(folder / GAMES_FILE, len(self.pairs))
        begun = _read_moves(folder / MOVES_FILE, finished)
        if not is_same:
            text = json.dumps(settings, indent=1) + "\n"
            write_atomically(folder / SETTINGS_FILE, lambda file: file.write(text.encode()))
        if (folder / MOVES_FILE).exists():  # without what is over, and lines that were cut
            kept = [json.dumps([match, 0, games]) + "\n" for match, games in enumerate(begun) if games]
            write_atomically(folder / MOVES_FILE, lambda file: file.write("".join(kept).encode()))
        return finished, begun

    @property
    def num_finished(self) -> int:
        """Number of games that are there already."""
        return sum(map(len, self.finished))

    def add(self, match: int, games: Sequence[PlayedGame]) -> None:
        """Keeps games of a match that have just ended."""
        names = self.pairs[match]
        for game in games:
            sgf.write(self.folder / GAMES_FOLDER / game.file_name(names), game.record(names, self.rules))
        self._lines.write(b"".join(_line_of(match, game) for game in games))
        self._lines.flush()
        os.fsync(self._lines.fileno())

    def add_moves(self, match: int, ply: int, moves: Mapping[int, int]) -> None:
        """Keeps the actions of one ply in games of a match: whole after a kill, not after a power cut."""
        line = json.dumps([match, ply, {number: [action] for number, action in moves.items()}])
        self._moves.write(line + "\n")
        self._moves.flush()

    def forget_moves(self) -> None:
        """Removes the moves of games under way, of which there are none any more."""
        distributed.on_rank0((self.folder / MOVES_FILE).unlink, missing_ok=True)


def _require_fit(folder: Path, settings: Mapping[str, Any], resume: bool) -> bool:
    """Returns whether a folder holds the match of these settings, with as many games. Raises InputError where that
    can't begin, or go on, there."""
    try:
        earlier = bounds.parse_json((folder / SETTINGS_FILE).read_bytes())
    except FileNotFoundError:
        if resume and folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
            lack = f"the folder {folder} holds no match to resume ({SETTINGS_FILE} is missing)"
            raise InputError(f"{lack}; give --out that of a match") from None
        return False
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {folder / SETTINGS_FILE}: {error}") from None
    if not resume:
        holds = f"the folder {folder} already holds a match"
        raise InputError(f"{holds}; resume it with --resume, or give --out a new folder")
    for key, value in settings.items():
        before = earlier.get(key)
        if before != value and not (key == NUM_GAMES and isinstance(before, int) and before <= value):
            differs = f"the match in {folder} has {key} {_shown(before)}, not {_shown(value)}"
            raise InputError(f"{differs}; it can only be resumed with the settings that it was started with")
    return earlier == settings


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _line_of(match: int, game: PlayedGame) -> bytes:
    """Returns a game as one line of JSON, which has no nan."""
    fields = vars(game) | {
        "match": match,
        "game": game.number,
        "score_black": None if math.isnan(game.score_black) else game.score_black,
        "stop": None if game.stop is None else vars(game.stop),
        "stones": "".join(map(str, game.stones.flatten().tolist())),
    }
    del fields["number"]
    return json.dumps(fields).encode() + b"\n"


def _read_games(path: Path, num_matches: int) -> list[list[PlayedGame]]:
    """Returns the games of a file by match, and rewrites it without lines that a crash has left incomplete."""
    games_by_match: list[dict[int, PlayedGame]] = [{} for _ in range(num_matches)]
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    kept = []
    for line in lines:
        try:
            match, game = _game_of(line)
            games_by_match[match][game.number] = game
        except (ValueError, LookupError, TypeError):
            continue
        kept.append(line)
    if len(kept) < len(lines):
        write_atomically(path, lambda file: file.writelines(kept))
    return [list(games.values()) for games in games_by_match]


def _read_moves(path: Path, finished: Sequence[Sequence[PlayedGame]]) -> list[dict[int, list[int]]]:
    """Returns the moves of unfinished games by match and number, each up to a line that a crash has left incomplete."""
    begun: list[dict[int, list[int]]] = [{} for _ in finished]
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):
            match, ply, games = bounds.parse_json(line) if line.endswith(b"\n") else []
            for number, moves in games.items():
                moves_so_far = begun[match].setdefault(int(number), [])
                if len(moves_so_far) == ply:
                    moves_so_far += map(int, moves)
    for games, over in zip(begun, finished, strict=True):
        for game in over:
            games.pop(game.number, None)
    return begun


def _game_of(line: bytes) -> tuple[int, PlayedGame]:
    """Returns the match and the game of a line; raises ValueError, LookupError or TypeError where it is not whole."""
    if not line.endswith(b"\n"):
        raise ValueError("incomplete")
    fields = {**bounds.parse_json(line)}
    match, digits, stop, score = (fields.pop(name) for name in ("match", "stones", "stop", "score_black"))
    size = math.isqrt(len(digits))
    stones = np.array([int(digit) for digit in digits], dtype=np.int8).reshape(size, size)
    return match, PlayedGame(
        number=fields.pop("game"),
        score_black=math.nan if score is None else score,
        stones=stones,
        stop=None if stop is None else Stop(**stop),
        **fields,
    )
