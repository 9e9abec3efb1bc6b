"""The evaluation that a person starts: players by their names, all pairings, a table of strength, and everything
written down.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerogo import elo, kernels
from zerogo.arena.journal import NUM_GAMES, Journal
from zerogo.arena.match import cap_for, play_match, round_robin
from zerogo.arena.report import write_report
from zerogo.arena.result import MatchResult
from zerogo.arena.standings import rate, table
from zerogo.errors import InputError
from zerogo.players import ExternalPlayer, Player, StatefulPlayer, close, make_player, require_size
from zerogo.rules import Rules
from zerogo.runtime import describe, pick_device, pick_dtype, set_up_cpu, write_atomically
from zerogo.telemetry import Progress

if TYPE_CHECKING:
    from zerogo.config import Config

SELF = "self"
RESULT_FILE = "result.json"
FORMAT = 2  # 2: games may end without a score


def evaluate(
    players: Sequence[str],
    num_games: int,
    config: Config,
    out_dir: str | Path,
    opening_plies: int = 0,
    resume: bool = False,
) -> list[MatchResult]:
    """Plays every player against every other, prints who wins, and leaves `result.json`, a report and one SGF per game
    in `out_dir`.

    players: words for `make_player`, or [one, "self"] for its games against itself. num_games: of each pair, half with
    each colour. config: rules and move cap from `game`, strength of networks from `evaluation`, device, precision and
    seed from `run`. resume: go on with the match that `out_dir` holds, whose finished games are kept; it must have the
    same players and settings, and may get more games. Returns the matches. Raises InputError for an unknown player, for
    one that can't play under the rules and for an odd number of games, before a game is played."""
    _require_pairing(players, num_games)
    set_up_cpu(config.run.threads)
    kernels.choose(config.run.kernels)
    device = pick_device(config.run.device)
    dtype = pick_dtype(config.run.precision, device)
    rules = config.game.rules()
    made = named_apart([make_player(spec, config.evaluation, device, dtype) for spec in players if spec != SELF])
    evaluation = Evaluation(list(players), made, num_games, config, opening_plies)
    try:
        _require_able(made, rules)
        with Journal(Path(out_dir), evaluation.settings(), evaluation.pairs, rules, resume) as journal:
            machine = f"{describe(device)['device']}, {kernels.in_use(device)}"
            print(f"{rules.size}x{rules.size}, komi {rules.komi:g}, {num_games} games a pair, {machine}", flush=True)
            start = time.monotonic()
            results = evaluation.play(journal, device)
            evaluation.conclude(Path(out_dir), results, time.monotonic() - start)
    finally:
        for player in made:
            close(player)
    return results


@dataclass
class Evaluation:
    """Players, made from their words `specs`, who are to meet under the settings of `config`."""

    specs: list[str]
    players: list[Player]
    num_games: int
    config: Config
    opening_plies: int

    @property
    def is_self(self) -> bool:
        return SELF in self.specs

    @property
    def names(self) -> list[str]:
        return [player.name for player in self.players]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The names of each match's players, in the order in which they are played."""
        return [(self.names[0], self.names[0])] if self.is_self else list(combinations(self.names, 2))

    @property
    def move_cap(self) -> int:
        """The ply at which a game ends."""
        return cap_for(self.config.game, self.players, self.config.game.size)

    def settings(self) -> dict[str, Any]:
        """Returns, as plain values, what a match must have in common with the one that it goes on with."""
        game, evaluation = self.config.game, self.config.evaluation
        return {
            "players": self.specs,
            "names": self.names,
            NUM_GAMES: self.num_games,
            "opening_plies": self.opening_plies,
            "seed": self.config.run.seed,
            "move_cap": self.move_cap,
            **vars(game.rules()),
            "simulations": evaluation.simulations,
            "symmetry": evaluation.symmetry,
        }

    def play(self, journal: Journal, device: Any) -> list[MatchResult]:
        """Returns the matches, played as far as the journal doesn't hold their games."""
        results: list[MatchResult] = []
        rules, seed = self.config.game.rules(), self.config.run.seed
        options = {"opening_plies": self.opening_plies, "move_cap": self.move_cap, "device": device}
        with Progress("match", self.num_games * len(self.pairs), "games", done=journal.num_finished) as progress:
            if journal.num_finished:
                progress.note(f"{journal.num_finished} of {self.num_games * len(self.pairs)} games are there already")

            def take(result: MatchResult) -> None:
                results.append(result)
                if len(self.pairs) > 1:
                    progress.note(result.lines()[0])  # what is known so far; all of it comes at the end

            options |= {"on_progress": progress.update}
            if self.is_self:
                (player,), games = (
                    self.players,
                    {"finished": journal.finished[0], "on_games": lambda games: journal.add(0, games)},
                )
                take(play_match(player, player, rules, self.num_games, seed, colours="a_black", **games, **options))
            else:
                games = {"finished": journal.finished, "on_games": journal.add}
                round_robin(self.players, rules, self.num_games, seed, on_result=take, **games, **options)
        return results

    def conclude(self, out_dir: Path, results: Sequence[MatchResult], seconds: float) -> None:
        """Writes the results down and prints them."""
        ratings = None if self.is_self else rate(self.names, results)
        self._write_result(out_dir / RESULT_FILE, results, ratings, seconds)
        write_report(out_dir, results, self.names, ratings, self.config)
        lines = [line for result in results for line in result.lines()]
        print("\n".join(lines + ([] if ratings is None else table(self.names, results, ratings))))
        print(f"games, {RESULT_FILE} and report.html are in {out_dir}")

    def _write_result(
        self, path: Path, results: Sequence[MatchResult], ratings: elo.Ratings | None, seconds: float
    ) -> None:
        """Writes everything that was found out as JSON: the counts of every match, each game's end, the ratings, the
        settings.
        """
        rated = []
        if ratings is not None:
            rows = zip(self.names, ratings.elo, ratings.low, ratings.high, strict=True)
            rated = [
                {"player": name, "elo": float(value), "low": float(low), "high": float(high)}
                for name, value, low, high in rows
            ]
        rules = self.config.game.rules()
        engines = [player for player in self.players if isinstance(player, ExternalPlayer)]
        device = self.config.run.device
        found = {
            "format": FORMAT,
            "players": self.specs,
            "rules": vars(rules),
            "engines": {
                player.name: {"says": player.label, "started_as": player.start_line(rules)} for player in engines
            },
            "matches": [result.summary() | {"per_game": _per_game(result)} for result in results],
            "ratings": rated,
            "seconds": round(seconds, 3),
            "machine": describe(device if device != "auto" else pick_device()),
            "config": self.config.to_dict(),
        }
        write_atomically(path, lambda file: file.write((json.dumps(found, indent=1, allow_nan=False) + "\n").encode()))


def _per_game(result: MatchResult) -> dict[str, list]:
    """Returns how each game ended as plain lists; a game that was not counted has no score."""
    scores = [None if game in result.stops else score for game, score in enumerate(result.score_black.tolist())]
    stops = [vars(result.stops[game]) if game in result.stops else None for game in range(result.num_games)]
    return {
        "score_black": scores,
        "outcome_black": result.outcome_black.tolist(),
        "a_is_black": result.a_is_black.tolist(),
        "lengths": result.lengths.tolist(),
        "stopped": stops,
        "own_scores": [result.told.get(game, {}) for game in range(result.num_games)],
    }


def _require_pairing(players: Sequence[str], num_games: int) -> None:
    """Raises InputError for players who can't meet each other so often."""
    is_self = SELF in players
    if is_self and (len(players) != 2 or players[0] == SELF):
        raise InputError(
            f"players are {', '.join(players)}; {SELF} stands only second of two, such as: checkpoints/quickstart {SELF}"
        )
    if len(players) < 2:
        raise InputError("players: one is not enough for a match; give two or more, or one and the word self")
    if num_games < 1 or (num_games % 2 and not is_self):
        raise InputError(
            f"games are {num_games}; allowed are even numbers from 2, so that each player has each colour as often"
        )


def _require_able(players: Sequence[Player], rules: Rules) -> None:
    """Raises InputError for a network of another board and an engine that can't be started, before the others have
    played for hours.
    """
    for player in players:
        require_size(player, rules.size, "game.size is")
        if isinstance(player, StatefulPlayer):
            player.check(rules)


def named_apart(players: list[Player]) -> list[Player]:
    """Returns the players with different names: the second of a name becomes "name#2"."""
    seen: dict[str, int] = {}
    for player in players:
        name = player.name
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            player.name = f"{name}#{seen[name]}"
    return players
