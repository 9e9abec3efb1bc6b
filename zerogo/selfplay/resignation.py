"""When to resign: a threshold that is set from games in which nobody was allowed to."""

from __future__ import annotations

from collections import deque

REMEMBERED = 1000  # games without resignation that the threshold rests on
NEEDED = 50  # of them before anybody resigns
THRESHOLDS = tuple(-0.5 - 0.01 * k for k in range(50))  # -0.50 to -0.99, the boldest first


class Resignation:
    """The lowest values that winners and losers saw in games that were played out, and the boldest threshold that they
    allow.

    A player that falls below the threshold resigns. Had the players of the remembered games done so, at most
    `false_positive` of those resignations would have been by the winner (AlphaGo Zero's rule)."""

    def __init__(self, false_positive: float) -> None:
        self.false_positive = false_positive
        self.games: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        self.threshold = -2.0  # below every value: nobody resigns
        self.measured = 0.0

    def add(self, winner_lowest: float, loser_lowest: float) -> None:
        """Remembers a game that was played out: the lowest value of its root that each side saw, in [-1, 1], 1 for
        none.
        """
        self.games.append((winner_lowest, loser_lowest))

    def update(self) -> None:
        """Sets the threshold, and the share of false resignations measured at it."""
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
        return {"games": [list(pair) for pair in self.games]}

    def load_state_dict(self, state: dict) -> None:
        """Goes on from a checkpoint."""
        self.games = deque((tuple(pair) for pair in state["games"]), maxlen=REMEMBERED)
        self.update()
