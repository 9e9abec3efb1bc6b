"""The evaluation that a person starts: players by their names, all pairings, a table of strength, and everything written down."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zerogo import elo, sgf
from zerogo.arena.match import play_match, round_robin
from zerogo.arena.result import NO_MOVE, MatchResult
from zerogo.errors import InputError
from zerogo.players import Player, make_player
from zerogo.rules import Rules
from zerogo.runtime import describe, make_directory, pick_device, pick_dtype, set_threads, write_atomically
from zerogo.telemetry import Progress

if TYPE_CHECKING:
    from zerogo.config import Config

SELF = "self"
RESULT_FILE = "result.json"
FORMAT = 1


def evaluate(players: Sequence[str], num_games: int, config: Config, out_dir: str | Path, opening_plies: int = 0) -> list[MatchResult]:
    """Plays every player against every other, prints who wins, and leaves `result.json` and one SGF per game in `out_dir`.

    players: words for `make_player`, or [one, "self"] for its games against itself. num_games: of each pair, half with each colour.
    config: rules and move cap from `game`, strength of networks from `evaluation`, device, precision and seed from `run`.
    Returns the matches. Raises InputError for an unknown player and for an odd number of games, before a game is played.
    """
    is_self = SELF in players
    if is_self and (len(players) != 2 or players[0] == SELF):
        raise InputError(f"players are {', '.join(players)}; {SELF} stands only second of two, such as: checkpoints/quickstart {SELF}")
    if len(players) < 2:
        raise InputError("players: one is not enough for a match; give two or more, or one and the word self")
    if num_games < 1 or (num_games % 2 and not is_self):
        raise InputError(f"games are {num_games}; allowed are even numbers from 2, so that each player has each colour as often")
    set_threads(config.run.threads)
    device = pick_device(config.run.device)
    dtype = pick_dtype(config.run.precision, device)
    made = named_apart([make_player(spec, config.evaluation, device, dtype) for spec in players if spec != SELF])
    rules, seed, start = config.game.rules(), config.run.seed, time.monotonic()
    _require_size(made, rules.size)
    out_dir = make_directory(out_dir)
    options = {"opening_plies": opening_plies, "move_cap": config.game.plies(), "device": device}
    print(f"{rules.size}x{rules.size}, komi {rules.komi:g}, {num_games} games a pair, {describe(device)['device']}")
    results: list[MatchResult] = []

    with Progress("match", num_games * max(1, len(made) * (len(made) - 1) // 2), "games") as progress:

        def take(result: MatchResult) -> None:
            results.append(result)
            _write_games(out_dir / "games", result)
            if len(made) > 2:
                progress.note(result.lines()[0])  # what is known so far; all of it comes at the end

        if is_self:
            take(play_match(made[0], made[0], rules, num_games, seed, colours="a_black", on_progress=progress.update, **options))
        else:
            round_robin(made, rules, num_games, seed, on_result=take, on_progress=progress.update, **options)
    names = [player.name for player in made]
    ratings = None if is_self else rate(names, results)
    _write_result(out_dir / RESULT_FILE, players, config, rules, results, names, ratings, time.monotonic() - start)
    lines = [line for result in results for line in result.lines()]
    print("\n".join(lines + ([] if ratings is None else table(names, results, ratings))))
    print(f"games and {RESULT_FILE} are in {out_dir}")
    return results


def _require_size(players: Sequence[Player], size: int) -> None:
    """Raises InputError where a player's network has learned on another board, before the others have played for hours."""
    for player in players:
        if getattr(player, "size", None) not in (None, size):
            raise InputError(f"{player.name} plays on {player.size}x{player.size} only; the match is on {size}x{size} (game.size)")


def named_apart(players: list[Player]) -> list[Player]:
    """Returns the players with different names: the second of a name becomes "name#2"."""
    seen: dict[str, int] = {}
    for player in players:
        name = player.name
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            player.name = f"{name}#{seen[name]}"
    return players


def points_table(names: Sequence[str], results: Sequence[MatchResult]) -> np.ndarray:
    """Returns the points of each against each: float64 [n, n], row against column, draws as half."""
    points = np.zeros((len(names), len(names)))
    for result in results:
        i, j = names.index(result.name_a), names.index(result.name_b)
        points[i, j] += float(result.points_a.sum())
        points[j, i] += result.num_games - float(result.points_a.sum())
    return points


def rate(names: Sequence[str], results: Sequence[MatchResult]) -> elo.Ratings:
    """Returns the players' Elo over the weakest of them, who is at 0 without an interval of its own."""
    points = points_table(names, results)
    weakest = int(elo.bradley_terry(points).elo.argmin())
    return elo.bradley_terry(points, anchor=weakest)


def table(names: Sequence[str], results: Sequence[MatchResult], ratings: elo.Ratings) -> list[str]:
    """Returns the lines of the Elo table, the strongest first."""
    points = points_table(names, results)
    won, games = points.sum(1), (points + points.T).sum(1)
    width = max(len("player"), *(len(name) for name in names))
    lines = ["", f"{'player':<{width}}  {'Elo':>6}  {'95 % interval':>15}  {'points':>8}  {'games':>6}"]
    for k in np.argsort(-ratings.elo, kind="stable"):
        interval = f"{ratings.low[k]:.0f} to {ratings.high[k]:.0f}" if ratings.high[k] > ratings.low[k] else "anchor"
        lines.append(f"{names[k]:<{width}}  {ratings.elo[k]:>6.0f}  {interval:>15}  {won[k]:>8g}  {games[k]:>6g}")
    return lines


def records(result: MatchResult, event: str = "") -> list[sgf.GameRecord]:
    """Returns the games of a match as records for files."""
    made = []
    for game in range(result.num_games):
        names = (result.name_a, result.name_b) if result.a_is_black[game] else (result.name_b, result.name_a)
        moves = result.moves[game]
        ending = "ended at the move cap and scored as it stands" if result.capped[game] else ""
        record = sgf.GameRecord(result.rules, moves[moves != NO_MOVE].tolist(), sgf.result_text(float(result.score_black[game])), *names)
        record.event, record.round, record.comment = event, str(result.first_game + game + 1), ending
        made.append(record)
    return made


def _write_games(folder: Path, result: MatchResult) -> None:
    """Writes one SGF per game: games/A-vs-B-0001.sgf."""
    make_directory(folder)
    label = "-vs-".join(re.sub(r"[^\w.@#-]+", "_", name) for name in (result.name_a, result.name_b))
    event = f"{result.name_a} against {result.name_b}"
    for number, record in enumerate(records(result, event), start=1):
        sgf.write(folder / f"{label}-{number:04d}.sgf", record)


def _write_result(
    path: Path,
    specs: Sequence[str],
    config: Config,
    rules: Rules,
    results: Sequence[MatchResult],
    names: Sequence[str],
    ratings: elo.Ratings | None,
    seconds: float,
) -> None:
    """Writes everything that was found out as JSON: the counts of every match, each game's score, the ratings, the settings."""
    matches = []
    for result in results:
        scores = {"score_black": result.score_black.tolist(), "a_is_black": result.a_is_black.tolist(), "lengths": result.lengths.tolist()}
        matches.append(result.summary() | {"per_game": scores})
    rated = []
    if ratings is not None:
        rows = zip(names, ratings.elo, ratings.low, ratings.high, strict=True)
        rated = [{"player": name, "elo": float(value), "low": float(low), "high": float(high)} for name, value, low, high in rows]
    found = {
        "format": FORMAT,
        "players": list(specs),
        "rules": vars(rules),
        "matches": matches,
        "ratings": rated,
        "seconds": round(seconds, 3),
        "machine": describe(config.run.device if config.run.device != "auto" else pick_device()),
        "config": config.to_dict(),
    }
    write_atomically(path, lambda file: file.write((json.dumps(found, indent=1, allow_nan=False) + "\n").encode()))
