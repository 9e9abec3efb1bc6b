"""How a game went, as a chart of the win rate over its moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zerogo.picture.canvas import FAINT, INK, MARK, PAPER, Canvas, wrapped

LEFT, RIGHT, TOP, BOTTOM = 34, 10, 10, 20  # margins around the curve, in pixels
TEXT = 11


def winrate_chart(
    winrates_black: Sequence[float], ply: int, width: int, height: int, caption: str = "", first_ply: int = 0
) -> np.ndarray:
    """Returns a chart of Black's win rate over the moves of a game: uint8 [height, width, 3].

    winrates_black: 0 to 1, before the first move, after it, and so on; nan leaves a gap. ply: the moment that is
    marked. caption: lines below, within the height. first_ply: the moment of the first entry."""
    lines = wrapped(caption, TEXT + 1, width - 8)
    canvas = Canvas(width, height, PAPER)
    bottom = height - BOTTOM - len(lines) * (TEXT + 6)
    last = max(1, len(winrates_black) - 1)

    def place(index: float, rate: float) -> tuple[float, float]:
        return LEFT + (width - LEFT - RIGHT) * index / last, TOP + (bottom - TOP) * (1 - rate)

    canvas.box(LEFT, TOP, width - RIGHT, bottom, (226, 220, 208))
    for rate in (0, 0.25, 0.5, 0.75, 1):
        canvas.line([place(0, rate), place(last, rate)], FAINT if rate == 0.5 else (206, 198, 184))
        canvas.text(LEFT - 5, place(0, rate)[1], f"{100 * rate:.0f}", TEXT, INK, "rm")
    step = _round_step(last)
    for index in range(0, last + 1, step):
        canvas.text(place(index, 0)[0], bottom + 10, str(index + first_ply), TEXT, INK)
    known = [(index, rate) for index, rate in enumerate(winrates_black) if rate == rate]
    if len(known) > 1:
        curve = [place(index, rate) for index, rate in known]
        canvas.polygon([place(known[0][0], 0), *curve, place(known[-1][0], 0)], (60, 58, 56, 110))
        canvas.line(curve, INK, 1.6)
    at = ply - first_ply
    if 0 <= at < len(winrates_black) and winrates_black[at] == winrates_black[at]:
        canvas.line([place(at, 0), place(at, 1)], (*MARK, 110))
        canvas.disc(*place(at, winrates_black[at]), 4, MARK)
    for i, text in enumerate(lines):
        canvas.text(4, bottom + BOTTOM + (i + 0.5) * (TEXT + 6), text, TEXT + 1, INK, "lm")
    return canvas.finish()


def _round_step(last: int) -> int:
    """Returns the steps between written moves: at most eight of them, round numbers."""
    for step in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500):
        if last / step <= 8:
            return step
    return 1000
