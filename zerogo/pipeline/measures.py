"""What a run shows of itself: numbers of self-play and pictures for the charts."""

import numpy as np
import torch

from zerogo import board
from zerogo.config import GameConfig
from zerogo.evaluator import Evaluator
from zerogo.replay import Samples
from zerogo.selfplay.record import END_TAGS, SelfPlayResult
from zerogo.show.picture import board_image, mosaic

BINS = 10


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
