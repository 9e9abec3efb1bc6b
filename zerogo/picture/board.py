"""One board as an image: wood, lines, stones, and whatever is thought of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from zerogo import coords
from zerogo.picture import marks
from zerogo.picture.canvas import INK, LINE, PAPER, WOOD, Canvas, wrapped
from zerogo.picture.marks import Candidate

PADDING = 4  # pixels around the lines below a board


def board_image(
    stones: Tensor,
    last_action: int | None = None,
    ownership_black: Tensor | None = None,
    policy: Tensor | None = None,
    caption: str = "",
    cell: int = 24,
    *,
    visits: Tensor | None = None,
    candidates: Sequence[Candidate] = (),
    numbers: Mapping[int, int] | None = None,
    line: Sequence[tuple[int, int]] = (),
) -> np.ndarray:
    """Returns a picture of the board with coordinates: uint8 [height, width, 3], RGB.

    last_action: marked by a red ring; a pass is written below. ownership_black: [N, N] in [-1, 1], drawn as squares in
    the owner's colour, larger the surer, on empty points and on stones that are not their owner's. policy: [A],
    probabilities, empty points tinted blue by their square root, with the percentage where it is 1 or more, pass below.
    visits: [A], likewise green, with the counts. candidates: a search's moves, best first, as discs with win rate over
    visits. numbers: move numbers to write, by point. line: (point, colour) of moves to come, drawn as pale stones with
    numbers. caption: lines below. cell: pixels between two lines of the board; the point in row and column, counted
    from 1, has its centre at row * cell, column * cell."""
    size = stones.shape[0]
    side, colours = (size + 1) * cell, stones.flatten().tolist()
    lines = [caption, _pass_line(size, last_action, policy, visits, candidates)]
    text_size = max(11, round(0.3 * cell))
    lines = wrapped("\n".join(lines), text_size, side - 2 * PADDING)
    pitch = round(1.35 * text_size)
    canvas = Canvas(side, side + (len(lines) * pitch + 2 * PADDING if lines else 0), PAPER)
    canvas.box(-0.5, -0.5, side - 0.5, side - 0.5, WOOD)
    _draw_grid(canvas, size, cell)

    def place(point: int) -> tuple[float, float]:
        row, column = divmod(point, size)
        return (column + 1) * cell, (row + 1) * cell

    if policy is not None:
        shares = _per_point(policy, size, "policy")
        marks.draw_heat(
            canvas, place, cell, shares, [f"{100 * p:.0f}" if p >= 0.01 else "" for p in shares], colours, marks.HEAT
        )
    if visits is not None:
        counts = _per_point(visits, size, "visits")
        whole, words = (
            max(1.0, float(visits.sum())),
            [marks.short_count(round(count)) if count else "" for count in counts],
        )
        marks.draw_heat(canvas, place, cell, [count / whole for count in counts], words, colours, marks.VISITS)
    for point, colour in enumerate(colours):
        if colour:
            canvas.stone(*place(point), 0.475 * cell, colour == 1)
    _draw_line(canvas, place, cell, line, colours)
    if candidates:
        marks.draw_candidates(canvas, place, cell, candidates, size)
    if ownership_black is not None:
        marks.draw_ownership(canvas, place, cell, ownership_black.flatten().tolist(), colours)
    if numbers:
        marks.draw_numbers(canvas, place, cell, numbers, colours, last_action)
    if last_action is not None and 0 <= last_action < size * size and last_action not in (numbers or {}):
        marks.draw_last_move(canvas, *place(last_action), cell)
    for i, text in enumerate(lines):
        canvas.text(PADDING, side + PADDING + (i + 0.5) * pitch, text, text_size, INK, "lm")
    return canvas.finish()


def _per_point(values: Tensor, size: int, name: str) -> list[float]:
    """Returns the values of the points, without that of the pass."""
    assert values.shape == (size * size + 1,), (
        f"{name} of a {size}x{size} board are [{size * size + 1}], not {list(values.shape)}"
    )
    return values[:-1].to(torch.float32).tolist()


def _pass_line(
    size: int, last_action: int | None, policy: Tensor | None, visits: Tensor | None, candidates: Sequence[Candidate]
) -> str:
    parts = ["last move: pass"] if last_action == size * size else []
    if policy is not None:
        parts.append(f"pass {100 * float(policy[-1]):.1f} %")
    if visits is not None and visits[-1] > 0:
        parts.append(f"pass {marks.short_count(int(visits[-1]))} visits")
    parts.append(marks.pass_words(candidates, size))
    return ", ".join(part for part in parts if part)


def _draw_grid(canvas: Canvas, size: int, cell: int) -> None:
    letters, text_size = coords.GTP_COLUMNS, max(8, round(0.36 * cell))
    first, last = cell, size * cell
    for i in range(size):
        at = (i + 1) * cell
        edge = 1.6 if i in (0, size - 1) and size > 1 else 1
        canvas.line([(first, at), (last, at)], LINE, edge)
        canvas.line([(at, first), (at, last)], LINE, edge)
        for margin in (0.26 * cell, (size + 1 - 0.26) * cell):
            canvas.text(at, margin, letters[i], text_size, LINE)
            canvas.text(margin, at, str(size - i), text_size, LINE)
    for row, column in star_points(size):
        canvas.disc((column + 1) * cell, (row + 1) * cell, max(1.5, 0.1 * cell), LINE)


def star_points(size: int) -> list[tuple[int, int]]:
    """Returns the points with a dot, (row, column): corners from 7x7, the middle of odd boards from 5x5, sides of odd
    boards from 15x15.
    """
    corners = 4 if size >= 7 else 0
    points = coords.fixed_handicap(size, 9)[:8] if size >= 15 and size % 2 else coords.fixed_handicap(size, corners)
    if size % 2 and size >= 5:
        points = [*points, size * size // 2]
    return [divmod(point, size) for point in points]


def _draw_line(
    canvas: Canvas, place: marks.Place, cell: int, line: Sequence[tuple[int, int]], colours: Sequence[int]
) -> None:
    """Draws moves to come as pale stones with numbers; of several on one point the first is shown."""
    taken: set[int] = set()
    for number, (point, colour) in enumerate(line, start=1):
        if point >= len(colours) or colours[point] or point in taken:
            continue
        taken.add(point)
        x, y = place(point)
        canvas.stone(x, y, 0.45 * cell, colour == 1, 0.72)
        canvas.text(x, y, str(number), max(7, round(0.42 * cell)), (255, 255, 255) if colour == 1 else INK)
