"""The same as text for a terminal: the board, numbers on it, and a search's moves as a table."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from zerogo import coords
from zerogo.picture.marks import Candidate, winrate

_SIGNS = ".XO"


def board_text(stones: Tensor, last_action: int | None = None) -> str:
    """Returns the board in lines, `X` black and `O` white, with GTP's letters and numbers on all sides; the last move
    stands in brackets.

    A last move that was a pass is told in a line below.
    """
    size = stones.shape[0]
    head = "   " + " ".join(coords.GTP_COLUMNS[:size])
    lines = [head]
    for row, colours in enumerate(stones.tolist()):
        gaps = [" "] * (size + 1)
        if last_action is not None and 0 <= last_action < size * size and last_action // size == row:
            gaps[last_action % size : last_action % size + 2] = "()"
        points = "".join(gap + _SIGNS[colour] for gap, colour in zip(gaps, colours, strict=False))
        lines.append(f"{size - row:2d}{points}{gaps[-1]}{size - row}")
    lines.append(head)
    if last_action == size * size:
        lines.append("last move: pass")
    return "\n".join(lines)


def grid_text(labels: Sequence[str], size: int, stones: Tensor | None = None) -> str:
    """Returns a label on every point in lines, with GTP's letters and numbers on all sides, all columns equally wide.

    labels: of the points row by row, an empty one is shown as a dot. stones: int8 [N, N]; `X` and `O` stand where a
    label is empty."""
    assert len(labels) == size * size, f"{len(labels)} labels for {size * size} points"
    signs = [_SIGNS[colour] for colour in stones.flatten().tolist()] if stones is not None else ["."] * len(labels)
    shown = [label or sign for label, sign in zip(labels, signs, strict=True)]
    width = max(len(text) for text in shown)
    head = "   " + " ".join(f"{letter:>{width}}" for letter in coords.GTP_COLUMNS[:size])
    rows = [shown[row * size : (row + 1) * size] for row in range(size)]
    lines = [
        f"{size - row:2d} " + " ".join(f"{text:>{width}}" for text in texts) + f" {size - row}"
        for row, texts in enumerate(rows)
    ]
    return "\n".join([head, *lines, head])


def candidates_text(candidates: Sequence[Candidate], size: int, most: int = 12) -> str:
    """Returns a search's moves as a table: move, visits, win rate, score and prior where they are known, and the line
    that it expects.
    """
    lines = [f"{'move':>5} {'visits':>7} {'win %':>6} {'score':>6} {'prior':>6}  line"]
    for candidate in candidates[:most]:
        score, prior = getattr(candidate, "score", None), getattr(candidate, "prior", None)
        columns = [
            f"{coords.to_gtp(candidate.action, size):>5}",
            f"{candidate.visits:>7}",
            f"{100 * winrate(candidate):>6.1f}",
        ]
        columns += [
            "     -" if score is None else f"{score:>+6.1f}",
            "     -" if prior is None else f"{100 * prior:>6.1f}",
        ]
        line = " ".join(coords.to_gtp(action, size) for action in getattr(candidate, "pv", ()))
        lines.append(" ".join(columns) + f"  {line}")
    return "\n".join(lines)
