"""The matches that measure a run: on the way, for the curves, and at its end, to show what was learned."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zerogo import elo
from zerogo.arena import MatchResult, cap_for, play_match
from zerogo.arena.report import write_report
from zerogo.arena.result import FORFEIT, rate
from zerogo.checkpoint import Checkpoint
from zerogo.coords import listed
from zerogo.errors import InputError
from zerogo.players import Player, SearchPlayer, StatefulPlayer, close, make_player, plays_on
from zerogo.telemetry import Telemetry

if TYPE_CHECKING:
    from zerogo.config import Config

WHITE = "@white"


class Matches:
    """Plays the run's averaged network against the config's opponents on all of its boards, and rates all that have met
    on each.

    pool: results so far, [player, opponent, wins, draws, losses, board side] each, for the ratings; players are named
    by their training step. An opponent that knows only some of the boards is met on those."""

    def __init__(self, config: Config, device: torch.device, dtype: torch.dtype) -> None:
        """Raises InputError for an opponent that there is not, before a run has spent its hours."""
        self.config, self.device, self.dtype = config, device, dtype
        self.pool: list[list[Any]] = []
        self.sizes_of = {spec: self._sizes_of(spec) for spec in config.evaluation.opponents}

    def _sizes_of(self, spec: str) -> list[int]:
        """Returns on which boards an opponent is met. Raises InputError where there are none."""
        game = self.config.game
        if spec == "self":
            return list(game.all_sizes)
        opponent = make_player(spec.removesuffix(WHITE), self.config.evaluation, self.device, self.dtype)
        try:
            sizes = [size for size in game.all_sizes if plays_on(opponent, size)]
            if not sizes:
                words = f"{spec} plays on {listed(opponent.sizes)} only; this run is on {listed(game.all_sizes)}"
                raise InputError(f"evaluation.opponents: {words}")
            if isinstance(opponent, StatefulPlayer):
                for size in sizes:
                    opponent.check(game.rules(size=size))
        finally:
            close(opponent)
        return sizes

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint keeps."""
        return {"pool": self.pool}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.pool = [[*entry[:5], entry[5] if len(entry) > 5 else self.config.game.size] for entry in state["pool"]]

    def on_the_way(self, checkpoint: Checkpoint, telemetry: Telemetry) -> list[str]:
        """Plays short matches, charts them, and returns a line to print for each."""
        return list(self._play(checkpoint, telemetry, self.config.evaluation.games))

    def final(self, checkpoint: Checkpoint, telemetry: Telemetry, directory: Path) -> None:
        """Plays the matches at the end of the run, prints what they show, and leaves a report of them in the run's
        folder.
        """
        settings, game = self.config.evaluation, self.config.game
        komi = (
            ", ".join(f"{game.komi_of(size):g} on {size}x{size}" for size in game.all_sizes)
            if game.sizes
            else f"{game.komi:g}"
        )
        print(f"what it learned, {settings.simulations} simulations a move, komi {komi}:")
        results: list[MatchResult] = []
        for line in self._play(checkpoint, telemetry, settings.final_games, results):
            print(line, flush=True)
        for size in game.all_sizes:
            here = [result for result in results if result.rules.size == size]
            if here:
                print(f"  {self._report(directory / f'{size}x{size}' if game.sizes else directory, here)} shows them")

    def _report(self, directory: Path, results: list[MatchResult]) -> Path:
        """Writes the report of the matches on one board."""
        paired = [result for result in results if result.is_paired]
        names = list(dict.fromkeys(name for result in paired or results for name in (result.name_a, result.name_b)))
        return write_report(directory, results, names, rate(names, paired) if paired else None, self.config.to_dict())

    def _play(
        self, checkpoint: Checkpoint, telemetry: Telemetry, num_games: int, results: list[MatchResult] | None = None
    ) -> Iterator[str]:
        """Yields a line for each match when it is over, puts it into `results`, and charts all of them at the end."""
        player = SearchPlayer.of_checkpoint(checkpoint, self.config.evaluation, self.device, self.dtype)
        numbers, is_mixed = {}, bool(self.config.game.sizes)
        for size in self.config.game.all_sizes:
            area, board = (f"eval/{size}x{size}", f"{size}x{size}, ") if is_mixed else ("eval", "")
            for spec in [spec for spec in self.config.evaluation.opponents if size in self.sizes_of[spec]]:
                start = time.monotonic()
                result = self._match(player, spec, size, num_games)
                if results is not None:
                    results.append(result)
                numbers |= self._numbers(area, spec, result)
                yield f"  {board}{describe(spec, result)}, {time.monotonic() - start:.0f} s"
            numbers |= self._rating(area, player.name, size)
        telemetry.scalars(checkpoint.step, numbers)

    def _match(self, player: Player, spec: str, size: int, num_games: int) -> MatchResult:
        """Plays one match; half as many games where only one colour is at stake."""
        game, seed = self.config.game, self.config.run.seed
        rules, common = game.rules(size=size), {"device": self.device}
        if spec == "self":
            return play_match(
                player, player, rules, num_games // 2, seed, colours="a_black", move_cap=game.plies(size), **common
            )
        name = spec.removesuffix(WHITE)
        opponent = make_player(name, self.config.evaluation, self.device, self.dtype)
        common |= {"move_cap": cap_for(game, [opponent], size)}
        try:
            if spec.endswith(WHITE):
                return play_match(player, opponent, rules, num_games // 2, seed, colours="a_black", **common)
            result = play_match(player, opponent, rules, num_games, seed, **common)
        finally:
            close(opponent)
        self.pool.append([player.name, opponent.name, result.wins, result.draws, result.losses, size])
        return result

    def _numbers(self, area: str, spec: str, result: MatchResult) -> dict[str, float]:
        name = re.sub(r"[^\w.=-]+", "_", spec.replace(":", ""))
        return {
            f"{area}/{name}_winrate": result.win_rate,
            f"{area}/{name}_whole_board_black": result.whole_board_black,
            f"{area}/{name}_score_points": result.mean_score,
        }

    def _rating(self, area: str, name: str, size: int) -> dict[str, float]:
        """Returns the player's Elo among all that have met on a board in this run, the random player (or the first
        opponent) at 0.
        """
        pool = [entry[:5] for entry in self.pool if entry[5] == size]
        if not pool:
            return {}
        names = sorted({entry[0] for entry in pool} | {entry[1] for entry in pool})
        points = np.zeros((len(names), len(names)))
        for one, other, wins, draws, losses in pool:
            i, j = names.index(one), names.index(other)
            points[i, j] += wins + draws / 2
            points[j, i] += losses + draws / 2
        anchor = names.index("random" if "random" in names else pool[0][1])
        return {f"{area}/elo": float(elo.bradley_terry(points, anchor).elo[names.index(name)])} if name in names else {}


def describe(spec: str, result: MatchResult) -> str:
    """Returns what a match showed in one line."""
    low, high = result.interval
    whole = f"Black takes the whole board in {round(result.whole_board_black * result.num_games)} of {result.num_games}"
    if spec == "self":
        return f"against itself: Black wins {result.wins} of {result.num_games}, {whole}; {result.num_different_games} of the games differ"
    is_white = spec.endswith(WHITE)
    wins = f"wins {result.wins} of {result.num_games} {'as Black ' if is_white else ''}(95 % sure: {100 * low:.1f} to {100 * high:.1f} %)"
    colours = whole if is_white else f"{result.by_colour(True)[0]} as Black, {result.by_colour(False)[0]} as White"
    faults = sum(result.stopped(FORFEIT))  # of an engine outside, which then loses what it might have won
    return f"against {spec.removesuffix(WHITE)}: {wins}, {colours}" + (
        f", {faults} by a fault of the engine" if faults else ""
    )
