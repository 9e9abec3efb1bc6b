"""When self-play resigns: below the highest root value at which at most one resignation in twenty is wrong."""

from collections import deque

import torch
from torch import Tensor

REMEMBERED = 1000  # games without resignation, from which the threshold is computed
FALSE_POSITIVE = 0.05  # largest share of wrong resignations (AlphaGo Zero)
NEEDED = 50  # such games before anybody resigns
THRESHOLDS = tuple(-0.5 - 0.01 * k for k in range(50))  # -0.50 to -0.99, the highest first


class Resignation:
    """The threshold below which a side resigns, from games that were played out (AlphaGo Zero's rule).

    A side would have resigned such a game if its root value ever fell below the threshold, so the minimum over the game
    of each side's values is all that is remembered. The threshold is the highest at which at most the share
    `false_positive` of these resignations would have been the winner's."""

    def __init__(self, false_positive: float, min_ply: int = 0) -> None:
        self.false_positive, self.min_ply = false_positive, min_ply
        self.games: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)  # minimum of the winner's values, the loser's
        self.threshold = -2.0  # below every value: nobody resigns
        self.measured = 0.0

    def learn(self, values: Tensor, is_black: Tensor, length: Tensor, score_black: Tensor) -> None:
        """Remembers K games, all on the host: the minimum of each side's values from `min_ply` on, 1 if it has none.

        values: float32 [K, T] by ply, of the side to move. is_black: bool [K, T], whether Black is to move. length:
        int64 [K]. score_black: float32 [K], 0 for a game that does not count."""
        ply = torch.arange(values.shape[1])
        counts = (ply >= self.min_ply) & (ply < length.unsqueeze(1))
        black = torch.where(counts & is_black, values, 1.0).amin(1)
        white = torch.where(counts & ~is_black, values, 1.0).amin(1)
        for k in score_black.nonzero().squeeze(1).tolist():
            pair = float(black[k]), float(white[k])
            self.games.append(pair if score_black[k] > 0 else pair[::-1])

    def update(self) -> None:
        """Sets the threshold, and measures the share of false resignations at it."""
        self.threshold, self.measured = -2.0, 0.0
        if len(self.games) < NEEDED:
            return
        for threshold in THRESHOLDS:
            false = sum(winner < threshold for winner, _ in self.games)
            resigned = sum(min(pair) < threshold for pair in self.games)
            if false <= self.false_positive * resigned:
                self.threshold, self.measured = threshold, false / max(1, resigned)
                return

    def state_dict(self) -> dict:
        """Returns what a checkpoint keeps."""
        games = [list(pair) for pair in self.games]
        return {"games": games, "threshold": self.threshold, "measured": self.measured}

    def load_state_dict(self, state: dict) -> None:
        """Restores a checkpoint's state. Its threshold may be older than its newest games, see `update`."""
        self.games = deque((tuple(pair) for pair in state["games"]), maxlen=REMEMBERED)
        self.update()  # for a state of an earlier version, without a threshold
        self.threshold = state.get("threshold", self.threshold)
        self.measured = state.get("measured", self.measured)
