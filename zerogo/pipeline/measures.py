"""What a run shows of itself: numbers of self-play and pictures for the charts, and the matches that measure it."""

import contextlib
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from zerogo import board
from zerogo.arena import MatchResult, MatchSettings, cap_for, play_match, pool
from zerogo.arena.result import FORFEIT, rating_table, write_report
from zerogo.arena.tournament import clock
from zerogo.checkpoint import Checkpoint
from zerogo.config import EvaluationConfig, GameConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.players import Player, close, plays_on
from zerogo.players.analyst import make_player
from zerogo.players.external import ExternalPlayer
from zerogo.replay import Samples
from zerogo.rules.coords import listed
from zerogo.selfplay.record import END_TAGS, SelfPlayResult
from zerogo.show.picture import board_image, mosaic
from zerogo.system import distributed
from zerogo.system.telemetry import Telemetry

BINS = 10
WHITE, OPTIONAL = "@white", "?"


def selfplay_numbers(collected: SelfPlayResult, samples: Samples | None) -> dict[str, float]:
    """Returns the charts' numbers of an iteration of self-play, by tag."""
    if not collected.lengths:
        return {}
    seconds, moves = max(collected.seconds, 1e-9), max(1, collected.moves)
    scores, ends, lengths = (np.array(of) for of in (collected.scores_black, collected.ends, collected.lengths))
    numbers = {
        "selfplay/games_per_s": len(scores) / seconds,
        "selfplay/moves_per_s": collected.moves / seconds,
        "selfplay/simulations_per_s": collected.simulations / seconds,
        "selfplay/game_length_plies": float(np.mean(lengths)),
        "selfplay/black_winrate": _black_winrate(scores),
        "selfplay/prior_entropy_nats": collected.prior_entropy / moves,
        "selfplay/search_kl_nats": collected.prior_kl / moves,
        "selfplay/trees_overflowed": float(collected.overflowed),
        "selfplay/share_short": float(np.mean(lengths <= 4)),
    }
    numbers |= {f"selfplay/share_{tag}": float(np.mean(ends == reason)) for reason, tag in END_TAGS.items()}
    numbers |= _by_board(collected, scores, lengths)
    if samples is not None:
        numbers["selfplay/samples_per_s"] = len(samples) / seconds
        numbers["selfplay/calibration_error"] = calibration_error(samples.root_value.numpy(), samples.value.numpy())
    return numbers


def _by_board(collected: SelfPlayResult, scores: np.ndarray, lengths: np.ndarray) -> dict[str, float]:
    """Returns what depends on komi, and on the board where there are several: scores, lengths [K] of the games."""
    sizes, komi, numbers = np.array(collected.sizes), np.array(collected.komi), {}
    is_mixed = len(set(collected.sizes)) > 1
    for size in sorted(set(collected.sizes)):
        here, area = sizes == size, f"selfplay_{size}x{size}" if is_mixed else "selfplay_komi"
        if is_mixed:
            numbers[f"{area}/share_of_games"] = float(np.mean(here))
            numbers[f"{area}/game_length_plies"] = float(np.mean(lengths[here]))
            numbers[f"{area}/black_winrate"] = _black_winrate(scores[here])
        for value in sorted(set(collected.komi), key=komi[here].tolist().count)[-3:]:  # the most frequent ones
            if (komi[here] == value).any():
                numbers[f"{area}/black_winrate_at_{value:g}"] = _black_winrate(scores[here & (komi == value)])
    return numbers


def _black_winrate(scores: np.ndarray) -> float:
    return float(np.mean(np.sign(scores) * 0.5 + 0.5))


def calibration_error(values: np.ndarray, results: np.ndarray) -> float:
    """Returns how far searched values lie from the results on average over bins of equal width: both [K] in [-1, 1]."""
    index = np.clip(((values + 1) / 2 * BINS).astype(int), 0, BINS - 1)
    gap = np.bincount(index, values, BINS) - np.bincount(index, results, BINS)
    return float(np.abs(gap).sum() / max(1, len(values)))


def final_boards(collected: SelfPlayResult) -> dict[str, np.ndarray]:
    """Returns a picture of a few final boards with their owners, by tag: uint8 [height, width, 3]."""
    pairs = zip(collected.last_boards, collected.last_ownership, strict=True)
    images = [board_image(stones, ownership_black=ownership) for stones, ownership in pairs]
    return {"selfplay/final_boards": mosaic(images, columns=3)} if images else {}


def first_moves(game: GameConfig, evaluator: Evaluator, device: torch.device) -> dict[str, np.ndarray]:
    """Returns a picture of the network's policy on the empty board of each side, by tag: uint8 [height, width, 3]."""
    pictures = {}
    for size in game.all_sizes:
        states = board.new_games(1, game.rules(size=size), device, game.plies(size))
        evaluation = evaluator.with_symmetries("all")(states)
        caption = f"value {float(evaluation.value[0]):+.2f}"
        picture = board_image(states.stones[0], policy=evaluation.prior[0], caption=caption)
        pictures["network/first_move" + (f"_{size}x{size}" if game.sizes else "")] = picture
    return pictures


class Matches:
    """Plays the run's averaged network, named by its training step, against the opponents of the settings on all of its
    boards.

    settings: the config's section evaluation. An opponent that knows only some of the boards is met on those."""

    def __init__(
        self,
        game: GameConfig,
        settings: EvaluationConfig,
        seed: int,
        device: torch.device,
        dtype: torch.dtype,
        earlier: Sequence[str] = (),
    ) -> None:
        """Raises InputError for an opponent that does not exist, before a run has spent its hours. earlier: opponents
        that the run has had, which may come back."""
        self.game, self.settings, self.seed, self.device, self.dtype = game, settings, seed, device, dtype
        self.at_once: int | None = None  # see `MatchSettings`
        self.sizes_of: dict[str, list[int]] = {}
        for spec in settings.opponents:
            try:
                self.sizes_of[spec] = self._sizes_of(spec)
            except InputError:
                if spec not in earlier:
                    raise
                self.sizes_of[spec] = list(game.all_sizes)  # `play` says what is wrong

    def _sizes_of(self, spec: str) -> list[int]:
        """Returns on which boards an opponent is met. Raises InputError where there are none."""
        all_sizes = self.game.all_sizes
        if spec == "self":
            return list(all_sizes)
        if spec.endswith(OPTIONAL):
            try:
                return self._sizes_of(spec.removesuffix(OPTIONAL))
            except InputError as error:
                warnings.warn(f"evaluation.opponents: {spec} is left out: {error}", stacklevel=2)
                return []
        with self._opponent(spec) as opponent:
            sizes = [size for size in all_sizes if plays_on(opponent, size)]
            if not sizes:
                words = f"{spec} plays on {listed(opponent.sizes)} only; this run is on {listed(all_sizes)}"
                raise InputError(f"evaluation.opponents: {words}")
            for size in sizes if isinstance(opponent, ExternalPlayer) else []:
                opponent.check(self.game.rules(size=size))
        return sizes

    @contextlib.contextmanager
    def _opponent(self, spec: str) -> Iterator[Player]:
        player = make_player(spec.removesuffix(WHITE), self.settings, self.device, self.dtype)
        try:
            yield player
        finally:
            close(player)

    def final(self, checkpoint: Checkpoint, telemetry: Telemetry, directory: Path) -> None:
        """Plays the matches at the end of the run, prints what they show, and writes a report of them. Collective call:
        rank 0 prints and writes."""
        game, on_rank0 = self.game, distributed.on_rank0
        komi = ", ".join(f"{game.komi_of(size):g} on {size}x{size}" for size in game.all_sizes)
        komi = komi if game.sizes else f"{game.komi:g}"
        on_rank0(print, f"final matches, {self.settings.simulations} simulations a move, komi {komi}:")
        results: list[MatchResult] = []
        numbers: dict[str, float] = {}
        for _, line, result, of_match in self.play(
            checkpoint, self.settings.final_games, lambda text: on_rank0(print, f"warning: {text}")
        ):
            on_rank0(print, line, flush=True)
            results.append(result)
            numbers |= of_match
            on_rank0(pool.add, directory / pool.FILE, result)
        on_rank0(self._report, results, numbers, checkpoint, telemetry, directory)

    def _report(
        self,
        results: Sequence[MatchResult],
        numbers: dict[str, float],
        checkpoint: Checkpoint,
        telemetry: Telemetry,
        directory: Path,
    ) -> None:
        """Charts the numbers and ratings of final matches, and writes a report for each board."""
        game = self.game
        for size in game.all_sizes:
            area, met = f"eval/{size}x{size}" if game.sizes else "eval", pool.read(directory / pool.FILE)
            numbers |= elo_numbers(met, size, results[0].name_a, area) if results else {}
        telemetry.scalars(checkpoint.step, numbers)
        for size in game.all_sizes:
            here = [result for result in results if result.rules.size == size]
            if here:
                paired = [result for result in here if result.is_paired]
                names = list(dict.fromkeys(name for one in paired or here for name in (one.name_a, one.name_b)))
                folder = directory / f"{size}x{size}" if game.sizes else directory
                ratings = rating_table(names, paired) if paired else []
                print(f"  {write_report(folder, here, names, ratings, checkpoint.config.to_dict())} shows them")

    def play(
        self, checkpoint: Checkpoint, num_games: int, warn: Callable[[str], None] = warnings.warn
    ) -> Iterator[tuple[str, str, MatchResult, dict[str, float]]]:
        """Yields of each match when it is over: the opponent of the settings, a line, the result, and the charts'
        numbers by tag. warn: is told of an opponent who is not there, whose match is left out."""
        player = make_player(checkpoint, self.settings, self.device, self.dtype)
        is_mixed = bool(self.game.sizes)
        for size in self.game.all_sizes:
            area, where = (f"eval/{size}x{size}", f"{size}x{size}, ") if is_mixed else ("eval", "")
            here = [spec for spec in self.settings.opponents if size in self.sizes_of[spec]]
            for spec in [spec.removesuffix(OPTIONAL) for spec in here]:
                start = time.time()
                try:
                    result = self._match(player, spec, size, num_games)
                except (InputError, OSError) as error:
                    warn(f"no match against {spec} on {size}x{size}: {error}")
                    continue
                tag = f"{area}/" + re.sub(r"[^\w.=-]+", "_", spec.replace(":", ""))
                numbers = {f"{tag}_winrate": result.win_rate, f"{tag}_score_points": result.mean_score}
                numbers[f"{tag}_whole_board_black"] = result.whole_board_black
                times = f"{time.time() - start:.0f} s until {clock(time.time())}"
                yield spec, f"  {where}{describe(spec, result)}, {times}", result, numbers

    def _match(self, player: Player, spec: str, size: int, num_games: int) -> MatchResult:
        """Plays one match; half as many games where only one colour is at stake."""
        cap, plies = self.game.plies(size), self.settings.opening_plies
        settings = MatchSettings(self.game.rules(size=size), num_games, self.seed, True, plies, cap, self.device)
        settings = replace(settings, at_once=self.at_once)
        if spec == "self" or spec.endswith(WHITE):
            settings = replace(settings, num_games=num_games // 2, is_paired=False, opening_plies=0)
        if spec == "self":
            return play_match(player, player, settings)
        with contextlib.ExitStack() as stack:
            opponent = distributed.run_and_sync_errors(stack.enter_context, self._opponent(spec))
            return play_match(player, opponent, replace(settings, move_cap=cap_for(self.game, [opponent], size)))


def elo_numbers(met: Sequence[pool.Meeting], size: int, name: str, area: str) -> dict[str, float]:
    """Returns the charts' numbers of a player's rating in a pool, by tag; none where it has met nobody."""
    for player, value, low, high in pool.rate(met, size, [name]):
        if player == name:
            return {f"{area}/elo": value, f"{area}/elo_low": low, f"{area}/elo_high": high}
    return {}


def describe(spec: str, result: MatchResult) -> str:
    """Returns what a match showed in one line."""
    number = result.num_games
    whole = f"Black takes the whole board in {round(result.whole_board_black * number)} of {number}"
    if spec == "self":
        wins = f"Black wins {result.wins} of {number}"
        return f"against itself: {wins}, {whole}; {result.num_different_games} of the games differ"
    is_white, (low, high) = spec.endswith(WHITE), result.interval
    sure = f"95 % interval: {100 * low:.1f} to {100 * high:.1f} %"
    wins = f"wins {result.wins} of {number} {'as Black ' if is_white else ''}({sure})"
    colours = whole if is_white else f"{result.by_colour(True)[0]} as Black, {result.by_colour(False)[0]} as White"
    faults = sum(result.stopped(FORFEIT))  # of an engine outside, which then loses what it might have won
    blamed = f", {faults} lost by faults of the engine" if faults else ""
    return f"against {spec.removesuffix(WHITE)}: {wins}, {colours}{blamed}"
