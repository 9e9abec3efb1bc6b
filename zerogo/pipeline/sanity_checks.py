"""The figures of a run for its charts; among them sanity checks: figures that a hidden bug would change, each with the
range in which it is healthy.

Learning hides bugs: a network with a mirrored policy or a value of the wrong side still grows stronger, only slower.
Exact checks follow from the rules of Go and of the samples, so outside their range something is wrong for
certain and the run stops; the others may have harmless reasons, and warn. All are charted."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from zerogo import board, scoring
from zerogo.board import symmetry
from zerogo.board.position import BLACK, WHITE
from zerogo.config import GameConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.network.trainer import Trainer
from zerogo.replay import Replay, Samples, TrainingBatch
from zerogo.selfplay import EndReason, SelfPlayResult
from zerogo.selfplay.record import END_TAGS
from zerogo.show.picture import board_image, mosaic, policy_heat

MOST_SAMPLES, MOST_TURNED = 2048, 16  # samples of an iteration that are checked, and checked in all eight symmetries
FEWEST = 16  # a share of fewer is not charted
BINS = 10  # of `calibration_error`
OPENING_PLY = 8  # at which openings are compared
STAGES = {"opening": (0.0, 1 / 3), "middle": (1 / 3, 2 / 3), "end": (2 / 3, 1.0)}  # by points on the board per point


@dataclass(frozen=True)
class SanityCheck:
    """The range in which a figure is healthy after `warm_up` training steps, and what a figure outside it points to."""

    low: float
    high: float
    points_to: str
    warm_up: int = 0
    is_exact: bool = False


CHECKS: dict[str, SanityCheck] = {
    "target_on_illegal_moves": SanityCheck(0, 1e-3, "policy targets have weight on illegal moves", is_exact=True),
    "target_on_stones": SanityCheck(0, 1e-3, "the trainer rotates policy and board differently", is_exact=True),
    "ownership_score_gap": SanityCheck(0, 0.5, "owned points and komi do not add up to the score", is_exact=True),
    "value_ownership_gap": SanityCheck(0, 0, "the result and the score have different winners", is_exact=True),
    "new_samples_age_iterations": SanityCheck(0, 3, "the newest samples come from an old network"),
    "value_of_decided": SanityCheck(0.3, 1, "the value has the wrong sign in decided positions", warm_up=500),
    "ownership_of_decided": SanityCheck(0.3, 1, "the ownership has the wrong sign in decided positions", warm_up=500),
    "value_spread": SanityCheck(0.02, 2, "the value hardly depends on the position", warm_up=500),
    "symmetry_spread": SanityCheck(0, 0.25, "rotated boards get different policies", warm_up=2000),
    "policy_kl_nats": SanityCheck(0, 3, "the network does not follow the search's policy", warm_up=2000),
    "held_out_loss_ratio": SanityCheck(0, 1.5, "the network memorises samples", warm_up=2000),
    "opening_variety": SanityCheck(0.05, 1, "nearly all games have the same opening", warm_up=500),
    "capped_share": SanityCheck(0, 0.5, "most games reach the move cap", warm_up=500),
    "first_pass_share": SanityCheck(0, 0.3, "games begin with a pass", warm_up=2000),
} | {
    f"calibration_{stage}": SanityCheck(0, 0.5, "search values are far from the results", warm_up=2000)
    for stage in STAGES
}


class SanityChecks:
    """Checks a run's figures. stops: whether an exact check that fails ends the run; else all only warn."""

    def __init__(self, stops: bool) -> None:
        self.stops = stops
        self.unhealthy: set[str] = set()

    def look(self, numbers: Mapping[str, float], step: int) -> list[str]:
        """Returns a sentence for each check that has left its range since the last look; those of a NaN stay as they
        were. Raises InputError where an exact one has and the run is to stop."""
        sentences = []
        for name, check in CHECKS.items():
            number = numbers.get(f"sanity/{name}", math.nan)
            if math.isnan(number) or step < check.warm_up:
                continue
            if check.low <= number <= check.high:
                self.unhealthy.discard(name)
                continue
            healthy = f"the healthy range is {check.low:g} to {check.high:g}"
            sentence = f"sanity/{name} is {number:.3g} at step {step}; {healthy}: {check.points_to}"
            if self.stops and check.is_exact:
                raise InputError(f"{sentence}; the run stops (pipeline.sanity_checks=warn only warns)")
            if name not in self.unhealthy:
                sentences.append(sentence)
            self.unhealthy.add(name)
        return sentences


def broken(numbers: Mapping[str, float]) -> list[str]:
    """Returns what is wrong for certain where these figures are those of a run's samples."""
    exact = [(check, numbers.get(f"sanity/{name}", check.low)) for name, check in CHECKS.items() if check.is_exact]
    return [check.points_to for check, figure in exact if not check.low <= figure <= check.high]


def of_samples(samples: Samples) -> dict[str, float]:
    """Returns what new samples say without a network, by tag."""
    samples = _thinned(samples, MOST_SAMPLES)
    state = samples.state()
    learned = samples.policy_weight > 0
    illegal = torch.where(board.legal_actions(state), 0.0, samples.policy.to(torch.float32)).sum(1)
    is_known = (samples.board_weight > 0) & (samples.scoring == scoring.AREA)
    komi = torch.where(samples.to_play == BLACK, -samples.komi, samples.komi)
    owned = samples.ownership.to(torch.float32).sum((1, 2)) + komi
    numbers = {
        "target_on_illegal_moves": _maximum(illegal[learned]),
        "ownership_score_gap": _maximum((owned - samples.score).abs()[is_known]),
        "value_ownership_gap": _maximum((samples.value - owned.sign()).abs()[is_known]),
    }
    points = samples.size.to(torch.float32) ** 2
    filled = (state.stones != 0).sum((1, 2)) / points
    for stage, (low, high) in STAGES.items():
        here = learned & (filled >= low) & (filled < high)
        values, results = samples.root_value[here].numpy(), samples.value[here].numpy()
        is_enough = len(values) >= 4 * FEWEST
        numbers[f"calibration_{stage}"] = calibration_error(values, results) if is_enough else math.nan
    return _tagged(numbers)


def of_games(collected: SelfPlayResult, samples: Samples) -> dict[str, float]:
    """Returns what an iteration's games say, by tag. samples: all of the iteration, in the games' order."""
    at_opening = samples.map(lambda tensor: tensor[samples.ply == OPENING_PLY])
    rows = at_opening.rows[:, 0].flatten(1).tolist()
    positions = Counter(zip(at_opening.size.tolist(), map(tuple, rows), strict=True))
    first = samples.ply == 1
    shares = {
        "opening_variety": len(positions) / len(rows) if len(rows) >= FEWEST else math.nan,
        "first_pass_share": _share(samples.passes[first] > 0),
        "capped_share": _share(torch.tensor(collected.ends) == int(EndReason.CAPPED)),
    }
    return _tagged(shares)


def of_network(samples: Samples, evaluator: Evaluator) -> dict[str, float]:
    """Returns what a network says of an iteration's samples, by tag."""
    last = _thinned(samples.map(lambda tensor: tensor[samples.reply < 0]), MOST_SAMPLES)
    numbers = _of_decided(last, evaluator) if len(last) else {}
    some = _thinned(samples, MOST_TURNED * 4)
    device = evaluator.network.device
    numbers["value_spread"] = float(evaluator(some.state().to(device)).value.std())
    state = _thinned(some, MOST_TURNED).state().to(device)
    turned = torch.stack([evaluator.evaluate_in_symmetry(state, turn).prior for turn in range(symmetry.NUM_SYMMETRIES)])
    numbers["symmetry_spread"] = float((turned - turned.mean(0)).abs().sum(-1).mean() / 2)
    return _tagged(numbers)


def _of_decided(last: Samples, evaluator: Evaluator) -> dict[str, float]:
    """Returns how often value and ownership have the right sign in final positions, whose scores follow from the rules:
    the smaller of the shares with Black and with White to move. On 5x5 one more move may still turn a game, so 0.6 was
    seen in a healthy run; a flipped sign gives nearly 0."""
    state = last.state()
    black, owners = scoring.final_score_black(state), scoring.final_ownership_black(state)
    standing, holders = scoring.result_black(state)
    owners = torch.where(holders == owners, owners, 0)  # points with dead stones on them have no certain owner
    decided = (black.abs() > last.size.to(torch.float32)) & (standing.sign() == black.sign())
    value_shares, owner_shares = [], []
    for colour in (BLACK, WHITE):
        sign = 1 if colour == BLACK else -1
        moved = replace(last, to_play=torch.full_like(last.to_play, colour), passes=torch.zeros_like(last.passes))
        evaluation = evaluator(moved.state().to(evaluator.network.device))
        value_shares.append(_share((evaluation.value.cpu() * black * sign > 0)[decided]))
        if evaluation.ownership is not None:
            agrees = evaluation.ownership.cpu() * owners * sign > 0
            owner_shares.append(_share(agrees[(owners != 0) & decided.view(-1, 1, 1)]))
    shares = {"value_of_decided": value_shares, "ownership_of_decided": owner_shares or [math.nan]}
    return {name: float(np.min(of_colours)) for name, of_colours in shares.items()}


def of_batch(batch: TrainingBatch, trainer: Trainer) -> dict[str, float]:
    """Returns what a batch says as the trainer turns it, by tag: policies must stay off the turned stones."""
    _, _, targets = trainer.encode_batch(batch)
    state = batch.state()
    size = None if state.rules.same_size else state.rules.size
    stones = symmetry.transform_planes(state.stones, batch.symmetry, size).to(targets.policy.device)
    on_stones = (targets.policy[:, :-1] * (stones != 0).flatten(1)).sum(1)[targets.policy_weight > 0]
    return _tagged({"target_on_stones": _maximum(on_stones)})


def of_training(numbers: Mapping[str, float], replay: Replay, player: int, learned: int) -> dict[str, float]:
    """Returns what an iteration's training says, by tag. numbers: those of the charts. player: the step of the network
    that plays. learned: steps of this iteration, or of the one before if that had more: the newest samples
    may be games that were played in its time."""
    figures = {"policy_kl_nats": numbers.get("train/policy_kl", math.nan)}
    if "validation/loss" in numbers:
        figures["held_out_loss_ratio"] = numbers["validation/loss"] / numbers["train/loss"]
    if learned and replay.newest_step > 0:
        figures["new_samples_age_iterations"] = max(0, player - replay.newest_step) / learned
    return _tagged(figures)


def _tagged(numbers: Mapping[str, float]) -> dict[str, float]:
    return {f"sanity/{name}": number for name, number in numbers.items() if not math.isnan(number)}


def _thinned(samples: Samples, limit: int) -> Samples:
    """Returns at most `limit` samples, spread evenly over all."""
    if len(samples) <= limit:
        return samples
    return samples.select(torch.arange(limit) * len(samples) // limit)


def _maximum(numbers: Tensor) -> float:
    return float(numbers.max()) if len(numbers) else math.nan


def _share(flags: Tensor) -> float:
    return float(flags.to(torch.float32).mean()) if len(flags) >= FEWEST else math.nan


# Figures without a healthy range, and pictures


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
        states = board.new_games(1, game.rules(size), device, game.plies(size))
        evaluation = evaluator.with_symmetries("all")(states)
        prior, value = evaluation.prior[0], float(evaluation.value[0])
        caption = f"value {value:+.2f}, pass {100 * float(prior[-1]):.1f} %"
        picture = board_image(states.stones[0], caption=caption, heat=policy_heat(prior))
        pictures["network/first_move" + (f"_{size}x{size}" if game.sizes else "")] = picture
    return pictures
