"""The matches that measure a run: on the way, for the curves, and at its end, to show what was learned."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zerogo import elo
from zerogo.arena import MatchResult, play_match
from zerogo.checkpoint import Checkpoint
from zerogo.errors import InputError
from zerogo.players import Player, SearchPlayer, make_player
from zerogo.telemetry import Telemetry

if TYPE_CHECKING:
    from zerogo.config import Config

WHITE = "@white"


class Matches:
    """Plays the run's averaged network against the config's opponents and rates all that have met.

    pool: results so far, [player, opponent, wins, draws, losses] each, for the ratings; players are named by their training step.
    """

    def __init__(self, config: Config, device: torch.device, dtype: torch.dtype) -> None:
        """Raises InputError for an opponent that there is not, before a run has spent its hours."""
        self.config, self.device, self.dtype = config, device, dtype
        self.pool: list[list[Any]] = []
        for spec in config.evaluation.opponents:
            if spec != "self":
                opponent = make_player(spec.removesuffix(WHITE), config.evaluation, device, dtype)
                size = getattr(opponent, "size", None)
                if size not in (None, config.game.size):
                    raise InputError(f"evaluation.opponents: {spec} plays on {size}x{size}; this run is on size {config.game.size}")

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint keeps."""
        return {"pool": self.pool}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.pool = list(state["pool"])

    def on_the_way(self, checkpoint: Checkpoint, telemetry: Telemetry) -> list[str]:
        """Plays short matches, charts them, and returns a line to print for each."""
        return list(self._play(checkpoint, telemetry, self.config.evaluation.games))

    def final(self, checkpoint: Checkpoint, telemetry: Telemetry) -> None:
        """Plays the matches at the end of the run and prints what they show."""
        settings = self.config.evaluation
        print(f"what it learned, {settings.simulations} simulations a move, komi {self.config.game.komi:g}:")
        for line in self._play(checkpoint, telemetry, settings.final_games):
            print(line, flush=True)

    def _play(self, checkpoint: Checkpoint, telemetry: Telemetry, num_games: int) -> Iterator[str]:
        """Yields a line for each match when it is over, and charts all of them at the end."""
        player = SearchPlayer.of_checkpoint(checkpoint, self.config.evaluation, self.device, self.dtype)
        numbers = {}
        for spec in self.config.evaluation.opponents:
            start = time.monotonic()
            result = self._match(player, spec, num_games)
            numbers |= self._numbers(spec, result)
            yield f"  {describe(spec, result)}, {time.monotonic() - start:.0f} s"
        numbers |= self._rating(player.name)
        telemetry.scalars(checkpoint.step, numbers)

    def _match(self, player: Player, spec: str, num_games: int) -> MatchResult:
        """Plays one match; half as many games where only one colour is at stake."""
        rules, cap, seed = self.config.game.rules(), self.config.game.plies(), self.config.run.seed
        common = {"move_cap": cap, "device": self.device}
        if spec == "self":
            return play_match(player, player, rules, num_games // 2, seed, colours="a_black", **common)
        name = spec.removesuffix(WHITE)
        opponent = make_player(name, self.config.evaluation, self.device, self.dtype)
        if spec.endswith(WHITE):
            return play_match(player, opponent, rules, num_games // 2, seed, colours="a_black", **common)
        result = play_match(player, opponent, rules, num_games, seed, **common)
        self.pool.append([player.name, opponent.name, result.wins, result.draws, result.losses])
        return result

    def _numbers(self, spec: str, result: MatchResult) -> dict[str, float]:
        name = spec.replace(":", "").replace("@", "_").replace("/", "_")
        return {
            f"eval/{name}_winrate": result.win_rate,
            f"eval/{name}_whole_board_black": result.whole_board_black,
            f"eval/{name}_score_points": result.mean_score,
        }

    def _rating(self, name: str) -> dict[str, float]:
        """Returns the player's Elo among all that have met in this run, the random player (or the first opponent) at 0."""
        if not self.pool:
            return {}
        names = sorted({entry[0] for entry in self.pool} | {entry[1] for entry in self.pool})
        points = np.zeros((len(names), len(names)))
        for one, other, wins, draws, losses in self.pool:
            i, j = names.index(one), names.index(other)
            points[i, j] += wins + draws / 2
            points[j, i] += losses + draws / 2
        anchor = names.index("random" if "random" in names else self.pool[0][1])
        return {"eval/elo": float(elo.bradley_terry(points, anchor).elo[names.index(name)])} if name in names else {}


def describe(spec: str, result: MatchResult) -> str:
    """Returns what a match showed in one line."""
    low, high = result.interval
    whole = f"Black takes the whole board in {round(result.whole_board_black * result.num_games)} of {result.num_games}"
    if spec == "self":
        return f"against itself: Black wins {result.wins} of {result.num_games}, {whole}; {result.num_different_games} of the games differ"
    is_white = spec.endswith(WHITE)
    wins = f"wins {result.wins} of {result.num_games} {'as Black ' if is_white else ''}(95 % sure: {100 * low:.1f} to {100 * high:.1f} %)"
    colours = whole if is_white else f"{result.by_colour(True)[0]} as Black, {result.by_colour(False)[0]} as White"
    return f"against {spec.removesuffix(WHITE)}: {wins}, {colours}"
