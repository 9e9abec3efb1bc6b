"""What is charted: numbers from a stretch of self-play, and pictures of what the network thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from zerogo import board
from zerogo.picture import board_image, mosaic
from zerogo.selfplay import EndReason, SelfPlayResult

if TYPE_CHECKING:
    from zerogo.config import Config
    from zerogo.evaluator import Evaluator
    from zerogo.replay import Samples

BINS = 10
PICTURES = 9


def selfplay_numbers(collected: SelfPlayResult, samples: Samples | None) -> dict[str, float]:
    """Returns the charts' numbers of one stretch of self-play, by tag."""
    if not collected.lengths:
        return {}
    seconds, moves = max(collected.seconds, 1e-9), max(1, collected.moves)
    scores, ends = np.array(collected.scores_black), np.array(collected.ends)
    numbers = {
        "selfplay/games_per_s": len(scores) / seconds,
        "selfplay/moves_per_s": collected.moves / seconds,
        "selfplay/simulations_per_s": collected.simulations / seconds,
        "selfplay/game_length_plies": float(np.mean(collected.lengths)),
        "selfplay/black_winrate": _black_winrate(scores),
        "selfplay/prior_entropy_nats": collected.prior_entropy / moves,
        "selfplay/search_kl_nats": collected.prior_kl / moves,
        "selfplay/trees_overflowed": float(collected.overflowed),
    }
    for reason in EndReason:
        numbers[f"selfplay/share_{reason.name.lower()}"] = float(np.mean(ends == reason))
    numbers["selfplay/share_short"] = float(np.mean(np.array(collected.lengths) <= 4))
    numbers |= _by_board(collected, scores)
    if samples is not None:
        numbers["selfplay/samples_per_s"] = len(samples) / seconds
        numbers["selfplay/calibration_error"] = calibration_error(samples.root_value.numpy(), samples.value.numpy())
    return numbers


def _by_board(collected: SelfPlayResult, scores: np.ndarray) -> dict[str, float]:
    """Returns what depends on komi, and on the board where there are several: scores [K] of the finished games."""
    sizes, numbers = np.array(collected.sizes), {}
    komi, lengths = np.array(collected.komi), np.array(collected.lengths)
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
    counts = np.bincount(index, minlength=BINS)
    gap = np.bincount(index, values, BINS) - np.bincount(index, results, BINS)
    return float(np.abs(gap).sum() / max(1, counts.sum()))


def final_boards(collected: SelfPlayResult) -> np.ndarray | None:
    """Returns a picture of a few final boards with who owned what: uint8 [height, width, 3], None where no game is
    there.
    """
    pairs = list(zip(collected.last_boards, collected.last_ownership, strict=True))[:PICTURES]
    if not pairs:
        return None
    return mosaic([board_image(stones, ownership_black=ownership) for stones, ownership in pairs], columns=3)


def first_moves(config: Config, evaluator: Evaluator, device: torch.device) -> dict[str, np.ndarray]:
    """Returns a picture of the network's policy on the empty board of each side, by tag: uint8 [height, width, 3]."""
    pictures = {}
    for size in config.game.all_sizes:
        states = board.new_games(1, config.game.rules(size=size), device, config.game.plies(size))
        found = evaluator.with_symmetries("all")(states)
        picture = board_image(states.stones[0], policy=found.prior[0], caption=f"value {float(found.value[0]):+.2f}")
        pictures["network/first_move" + (f"_{size}x{size}" if config.game.sizes else "")] = picture
    return pictures
