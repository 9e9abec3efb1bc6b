"""Matches: players meet in many games at once; the results are counted, rated and written to files. This file is
`zerogo evaluate`: players by their names, all pairings, a rating table, and a folder with all results."""

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from zerogo import cli, kernels
from zerogo.arena.journal import MOVES_FILE, NUM_GAMES, Journal
from zerogo.arena.match import MatchHooks, MatchSettings, cap_for, play_match
from zerogo.arena.result import MatchResult, file_word, rating_lines, rating_table, write_report
from zerogo.board import rng
from zerogo.checkpoint import Checkpoint
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.players import Player, require_size
from zerogo.players.external import ExternalPlayer
from zerogo.system import distributed
from zerogo.system.runtime import describe, device_name, make_output_folder, write_atomically
from zerogo.system.telemetry import Progress

SELF = "self"
RESULT_FILE = "result.json"
FORMAT = 2  # 2: games may end without a score


def evaluate(
    players: Sequence[str],
    num_games: int,
    config: Config,
    out_dir: str | Path | None,
    opening_plies: int = 0,
    resume: bool = False,
    checkpoints: dict[str, Checkpoint] | None = None,
) -> list[MatchResult]:
    """Plays every player against every other, prints the results, and writes `result.json`, a report and one SGF per
    game to `out_dir`, by default a new folder, see `make_output_folder`.

    players: words for `make_player`, or [one, "self"] for its games against itself. num_games: of each pair, half with
    each colour. config: rules and move cap from `game`, strength of networks from `evaluation`, device, precision and
    seed from `run`. resume: continue the match that `out_dir` holds; its finished games are kept, its players and
    settings must be the same, and it may get more games. checkpoints: those in memory, by their words.
    Returns the matches. Raises InputError for an unknown player, for one that can't play under the rules and for an odd
    number of games, before a game is played. Collective call: ranks share the games, and rank 0 prints and writes."""
    rules = config.game.rules()
    distributed.run_and_sync_errors(_require_pairing, players, num_games)
    setup = cli.set_up(config, checkpoints)
    with ExitStack() as stack:
        made = distributed.run_and_sync_errors(_make_players, stack, players, setup)
        names = {f"player {number}": player.name for number, player in enumerate(made, 1)}
        distributed.require_same(names, "give a checkpoint's file in place of the run's folder")
        tournament = Tournament(list(players), made, num_games, config, opening_plies, setup.device)
        pairs = [(made[i].name, made[j].name) for i, j in tournament.pairs]
        out_dir = Path(out_dir or distributed.broadcast_from_rank0(make_output_folder, "match"))
        journal = stack.enter_context(Journal(out_dir, tournament.settings(), pairs, rules, resume))
        machine = f"{device_name(setup.device)}, {kernels.in_use(setup.device)}"
        start, pairing = time.time(), f"komi {rules.komi:g}, {num_games} games a pair"
        distributed.on_rank0(print, f"{time_of_day()}: {rules.size}x{rules.size}, {pairing}, {machine}", flush=True)
        results = tournament.play(journal)
        distributed.on_rank0(tournament.conclude, out_dir, results, time.time() - start)
    return results


def _make_players(stack: ExitStack, words: Sequence[str], setup: cli.Setup) -> list[Player]:
    """Returns the players of these words, which the stack closes; the second of a name becomes "name#2". Raises
    InputError for players that can't play under the rules, before any game."""
    rules = setup.config.game.rules()
    players = [setup.player(spec) for spec in words if spec != SELF]
    names = [file_word(player.name) for player in players]  # also of their games' files
    for k, player in enumerate(players):
        if times := names[:k].count(names[k]):
            player.name = f"{names[k]}#{times + 1}"
        require_size(player, rules.size, "game.size is")
        if isinstance(player, ExternalPlayer):
            stack.callback(player.close)
            player.check(rules)
    return players


@dataclass
class Tournament:
    """A round robin of the players made from `specs`, or one player against itself, under the settings of `config`.
    pairs: the indices of each match's players, in the order in which they are played."""

    specs: list[str]
    players: list[Player]
    num_games: int
    config: Config
    opening_plies: int
    device: torch.device

    def __post_init__(self) -> None:
        self.is_self = SELF in self.specs
        self.names = [player.name for player in self.players]
        self.pairs = [(0, 0)] if self.is_self else list(combinations(range(len(self.players)), 2))
        self.rules = self.config.game.rules()
        self.move_cap = cap_for(self.config.game, self.players, self.rules.size)

    def settings(self) -> dict[str, Any]:
        """Returns, as plain values, the settings that a resumed match must share."""
        settings = {"players": self.specs, "names": self.names, NUM_GAMES: self.num_games}
        settings |= {"opening_plies": self.opening_plies, "seed": self.config.run.seed, "move_cap": self.move_cap}
        strength = {name: getattr(self.config.evaluation, name) for name in ("simulations", "symmetry", "algorithm")}
        return settings | vars(self.rules) | strength

    def play(self, journal: Journal) -> list[MatchResult]:
        """Returns the matches; games that the journal holds are not played again."""
        results: list[MatchResult] = []
        total, num_finished = self.num_games * len(self.pairs), sum(map(len, journal.finished))
        with distributed.on_rank0(Progress, "match", total, "games", done=num_finished) as progress:
            if num_finished:
                progress.note(f"{num_finished} of {total} games are finished already")
            if num_begun := sum(map(len, journal.begun)):
                progress.note(f"{num_begun} unfinished games are resumed")
            for index in range(len(self.pairs)):
                results.append(self._play_match(index, journal, progress))
                if len(self.pairs) > 1:
                    progress.note(f"{time_of_day()}: {results[-1].lines()[0]}")  # all of it comes at the end
        distributed.on_rank0((journal.folder / MOVES_FILE).unlink, missing_ok=True)  # no game is unfinished
        return results

    def _play_match(self, index: int, journal: Journal, progress: Progress) -> MatchResult:
        """Plays one match. Each match has its own seed, so that no two share their random draws."""
        (i, j), seed = self.pairs[index], self.config.run.seed
        seed = seed if self.is_self else int(rng.key(seed, i, j)) % 2**62
        of_all = self.opening_plies, self.move_cap, self.device
        settings = MatchSettings(self.rules, self.num_games, seed, not self.is_self, *of_all)
        kept = journal.finished[index], journal.begun[index]
        calls = partial(journal.add, index), partial(journal.add_moves, index)
        hooks = MatchHooks(*kept, lambda played: progress.update(index * self.num_games + played), *calls)
        return play_match(self.players[i], self.players[j], settings, hooks)

    def conclude(self, out_dir: Path, results: Sequence[MatchResult], seconds: float) -> None:
        """Writes and prints the results: summaries of the matches, each game's end, ratings and settings."""
        rows = [] if self.is_self else rating_table(self.names, results)
        engines = [player for player in self.players if isinstance(player, ExternalPlayer)]
        fields = {
            "format": FORMAT,
            "players": self.specs,
            "rules": vars(self.rules),
            "engines": {one.name: {"says": one.label, "started_as": " ".join(one.command)} for one in engines},
            "matches": [result.summary() | {"per_game": _per_game(result)} for result in results],
            "ratings": rows,
            "seconds": round(seconds, 3),
            "machine": describe(self.device),
            "config": self.config.to_dict(),
        }
        write_atomically(out_dir / RESULT_FILE, (json.dumps(fields, indent=1, allow_nan=False) + "\n").encode())
        write_report(out_dir, results, self.names, rows, self.config.to_dict())
        lines = [line for result in results for line in result.lines()]
        print("\n".join(lines + (["", *rating_lines(rows)] if rows else [])))
        print(f"{time_of_day()}: wrote games, {RESULT_FILE} and report.html to {out_dir}")


def _per_game(result: MatchResult) -> dict[str, list]:
    """Returns the end of each game as plain lists; a game that was not counted has no score."""
    games = result.games
    return {
        "score_black": [None if game.stop else game.score_black for game in games],
        "outcome_black": [game.outcome_black for game in games],
        "a_is_black": [game.a_is_black for game in games],
        "lengths": [len(game.moves) for game in games],
        "stopped": [None if game.stop is None else vars(game.stop) for game in games],
        "own_scores": [game.final_scores for game in games],
    }


def _require_pairing(players: Sequence[str], num_games: int) -> None:
    """Raises InputError for players who can't meet, and for an odd number of games."""
    is_self = SELF in players
    if is_self and (len(players) != 2 or players[0] == SELF):
        rule = f"{SELF} can only be the second of two players, such as: checkpoints/quickstart {SELF}"
        raise InputError(f"players are {', '.join(players)}; {rule}")
    if len(players) < 2:
        raise InputError("players: one is not enough for a match; give two or more, or one and the word self")
    if num_games < 1 or (num_games % 2 and not is_self):
        rule = "allowed are even numbers from 2, so that each player has each colour equally often"
        raise InputError(f"--games is {num_games}; {rule}")


def time_of_day() -> str:
    """Returns the local time, such as 18:42:07."""
    return time.strftime("%H:%M:%S")
