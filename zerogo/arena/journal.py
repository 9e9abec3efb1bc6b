"""The folder of an evaluation while it runs. Every move is written at once, and every game when it ends, so that an
interrupted evaluation can be resumed.

    match.json       the players and the settings
    games.jsonl      one finished game in each line
    moves.jsonl      moves of unfinished games: [match, ply of the first, {game: moves}]; removed at the end
    games/*.sgf      the same games for people, each written before its line

A killed process may leave a part of a line, which is dropped. A line that is not a game of the match is refused."""

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zerogo import scoring, sgf
from zerogo.arena.result import GAMES_FOLDER, SAME_SCORE, PlayedGame, Stop
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.system import bounds, distributed
from zerogo.system.runtime import RunLock, make_directory, remove_leftovers, sync_directory, write_atomically

SETTINGS_FILE = "match.json"
GAMES_FILE = "games.jsonl"
MOVES_FILE = "moves.jsonl"
NUM_GAMES = "games"  # the setting that may grow when a match is resumed
MOST_SETTINGS_BYTES = 2**20
# Types of a line's fields. A counted game also has its score, another one its stop.
OF_GAME = dict(match=int, game=int, a_is_black=bool, moves=[int], area_black=int, capped=bool, stones=str)
OF_STOP = dict(kind=str, black_lost=bool, reason=str)


class Journal(contextlib.ExitStack):
    """Keeps the games of an evaluation. Use it as a context manager; rank 0 locks the folder against another
    evaluation. pairs: the players' names of each match, A first. finished: the finished games at the start, by match.
    begun: the moves of unfinished games at the start, by match and game number."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], pairs: Sequence[tuple[str, str]], rules: Rules, resume: bool
    ) -> None:
        """Opens a new folder, or with `resume` one that holds this match. Raises InputError for another folder."""
        super().__init__()
        self.folder, self.pairs, self.rules = folder, list(pairs), rules
        self.finished, self.begun = distributed.broadcast_from_rank0(self._open, settings, resume)
        # All ranks add whole lines to the ends of the files.
        self._lines = self.enter_context(open(folder / GAMES_FILE, "ab"))
        self._moves = self.enter_context(open(folder / MOVES_FILE, "a", encoding="ascii"))
        sync_directory(folder)

    def _open(self, settings: Mapping[str, Any], resume: bool) -> tuple[list[list[PlayedGame]], list[dict]]:
        """Locks the folder and removes leftovers of a crash; returns `finished` and `begun`."""
        folder = self.folder
        is_same = _require_fit(folder, settings, resume)
        self.enter_context(RunLock(folder, "give --out another folder"))
        make_directory(folder / GAMES_FOLDER)
        for place in (folder, folder / GAMES_FOLDER):
            remove_leftovers(place)
        finished = _read_games(folder / GAMES_FILE, self.rules, len(self.pairs))
        begun = _read_moves(folder / MOVES_FILE, finished)
        if not is_same:
            write_atomically(folder / SETTINGS_FILE, (json.dumps(settings, indent=1) + "\n").encode())
        if (folder / MOVES_FILE).exists():  # without what is over, and lines that were cut
            kept = [json.dumps([match, 0, games]) + "\n" for match, games in enumerate(begun) if games]
            write_atomically(folder / MOVES_FILE, "".join(kept).encode())
        return finished, begun

    def add(self, match: int, games: Sequence[PlayedGame]) -> None:
        """Writes games of a match that have just ended, fsynced."""
        names = self.pairs[match]
        for game in games:
            sgf.write(self.folder / GAMES_FOLDER / game.file_name(names), game.record(names, self.rules))
        self._lines.write(b"".join(_line_of(match, game) for game in games))
        self._lines.flush()
        os.fsync(self._lines.fileno())

    def add_moves(self, match: int, ply: int, moves: Mapping[int, int]) -> None:
        """Writes the actions of one ply in games of a match; a killed process loses none, a power cut may."""
        line = json.dumps([match, ply, {number: [action] for number, action in moves.items()}])
        self._moves.write(line + "\n")
        self._moves.flush()


def _require_fit(folder: Path, settings: Mapping[str, Any], resume: bool) -> bool:
    """Returns whether a folder holds the match of exactly these settings. Raises InputError where the match can't start
    there or, with `resume`, can't be resumed."""
    path = folder / SETTINGS_FILE
    if not path.exists():
        is_empty = folder.is_dir() and all(entry.name.startswith(".") for entry in folder.iterdir())
        if resume and not is_empty:
            lack = f"the folder {folder} holds no match to resume ({SETTINGS_FILE} is missing)"
            raise InputError(f"{lack}; give --out the folder of a match")
        return False
    text = bounds.read_file(path, MOST_SETTINGS_BYTES, "match")
    try:
        earlier = {**bounds.parse_json(text)}
    except (ValueError, TypeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if not resume:
        holds = f"the folder {folder} already holds a match"
        raise InputError(f"{holds}; resume it with --resume, or give --out a new folder")
    for key, value in settings.items():
        before = earlier.get(key)
        if before != value and not (key == NUM_GAMES and isinstance(before, int) and before <= value):
            pair = [", ".join(map(str, one)) if isinstance(one, list) else one for one in (before, value)]
            differs = "the match in {} has {} {}, not {}".format(folder, key, *pair)
            raise InputError(f"{differs}; it can only be resumed with the settings that it was started with")
    return earlier == settings


def _line_of(match: int, game: PlayedGame) -> bytes:
    """Returns a game as one line of JSON, which has no nan; `_game_of` reads it."""
    fields = vars(game) | {
        "match": match,
        "game": game.number,
        "score_black": None if math.isnan(game.score_black) else game.score_black,
        "stop": None if game.stop is None else vars(game.stop),
        "stones": "".join(map(str, game.stones.flatten().tolist())),
    }
    del fields["number"]
    return json.dumps(fields).encode() + b"\n"


def _read_games(path: Path, rules: Rules, num_matches: int) -> list[list[PlayedGame]]:
    """Returns the games of a file by match, and rewrites it without lines that are no JSON: a killed process may leave
    a part of one, after which another process goes on. Raises InputError, and leaves the file alone, where a line is no
    game of this match or comes again: then a person has changed it."""
    games_by_match: list[dict[int, PlayedGame]] = [{} for _ in range(num_matches)]
    lines, kept = path.read_bytes().splitlines(keepends=True) if path.exists() else [], []
    for place, line in enumerate(lines, 1):
        try:
            fields = bounds.parse_json(line)
        except ValueError:
            continue
        try:
            match, game = _game_of({**fields}, rules)
            if not 0 <= match < num_matches or game.number < 0 or game.number in games_by_match[match]:
                raise ValueError(f"game {game.number} of match {match} is there already, or not of this evaluation")
        except (ValueError, TypeError) as error:
            way_out = "mend the line, or remove it to have its game played again"
            raise InputError(f"{path}, line {place}: {error}; {way_out}") from None
        games_by_match[match][game.number] = game
        kept.append(line)
    if len(kept) < len(lines) or lines and not lines[-1].endswith(b"\n"):
        write_atomically(path, b"".join(line.removesuffix(b"\n") + b"\n" for line in kept))
    return [list(games.values()) for games in games_by_match]


def _read_moves(path: Path, finished: Sequence[Sequence[PlayedGame]]) -> list[dict[int, list[int]]]:
    """Returns the moves of unfinished games by match and number, up to the first damaged line of each."""
    begun: list[dict[int, list[int]]] = [{} for _ in finished]
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, OverflowError):
            match, ply, games = bounds.parse_json(line) if line.endswith(b"\n") else []
            for number, moves in games.items():
                moves_so_far = begun[match].setdefault(int(number), [])
                if len(moves_so_far) == ply:
                    moves_so_far += map(int, moves)
    for games, over in zip(begun, finished, strict=True):
        for game in over:
            games.pop(game.number, None)
    return begun


def _game_of(fields: dict[str, Any], rules: Rules) -> tuple[int, PlayedGame]:
    """Returns the match and the game of a line. Raises ValueError or TypeError for a line that was damaged or edited:
    under area rules the score must be that of the stones."""
    end = {"score_black": float} if fields.get("stop") is None else {"stop": OF_STOP}
    if wrong := bounds.misfit(fields, OF_GAME | end, "the game"):
        raise ValueError(wrong)
    if not {*fields["stones"]} <= {*"012"}:
        raise ValueError("its stones are not all 0, 1 or 2")
    stones = np.array([int(digit) for digit in fields["stones"]], dtype=np.int8).reshape(rules.size, rules.size)
    score = float(scoring.area_score_black(torch.from_numpy(stones).unsqueeze(0))) - rules.komi
    if "stop" not in end and rules.scoring == "area" and abs(fields["score_black"] - score) > SAME_SCORE:
        raise ValueError(f"score_black is {fields['score_black']:g}, but the stones give {score:g}")
    texts = {**fields.get("final_scores", {})}  # under another name in files of earlier versions
    return fields["match"], PlayedGame(
        number=fields["game"],
        score_black=math.nan if "stop" in end else fields["score_black"],
        stones=stones,
        stop=Stop(**fields["stop"]) if "stop" in end else None,
        final_scores={name: str(text) for name, text in texts.items()},
        **{name: fields[name] for name in ("a_is_black", "moves", "area_black", "capped")},
    )
