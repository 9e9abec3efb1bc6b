"""Pictures other than of one board: several side by side, the planes that a network sees, the win rate of a game."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from zerogo.picture.canvas import BLACK, FAINT, INK, MARK, PAPER, WHITE, Canvas, Spot, font, ink_on, mixed, wrapped

POSITIVE, NEGATIVE, NOTHING = (24, 92, 190), (198, 56, 48), (238, 232, 220)
TITLE = 14  # pixels of a line
NUMBERS_FROM = 22  # pixels of a cell from which values that are neither 0 nor 1 are written
LEFT, RIGHT, TOP, BOTTOM = 34, 10, 10, 20  # margins around a chart's curve, in pixels
TEXT = 11  # pixels of a chart's lines


def mosaic(
    images: Sequence[np.ndarray], columns: int, gap: int = 6, titles: Sequence[str] = (), heading: str = ""
) -> np.ndarray:
    """Returns pictures (uint8 [height, width, 3] of any sizes) as one, side by side in rows of `columns`.

    titles: one over each picture, or none. heading: over all of them, in as many lines as it needs.
    """
    above = TITLE + 8 if any(titles) else 0
    width = max(image.shape[1] for image in images) + gap
    whole_width = min(columns, len(images)) * width + gap
    lines = wrapped(heading, TITLE + 2, whole_width - 2 * gap)
    top = len(lines) * (TITLE + 8) + (4 if lines else 0) + gap
    places = []
    for start in range(0, len(images), columns):
        row = images[start : start + columns]
        places += [(top, gap + column * width) for column in range(len(row))]
        top += above + max(image.shape[0] for image in row) + gap
    whole = np.full((top, whole_width, 3), 255, dtype=np.uint8)
    for image, (y, x) in zip(images, places, strict=True):
        whole[y + above : y + above + image.shape[0], x : x + image.shape[1]] = image
    picture = Image.fromarray(whole)
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        draw.text((gap, gap + TITLE / 2 + 2 + number * (TITLE + 8)), line, fill=INK, font=font(TITLE + 2), anchor="lm")
    for title, (y, x) in zip(titles, places, strict=False):
        draw.text((x + 1, y + above / 2), _shortened(title, width - gap), fill=INK, font=font(TITLE - 1), anchor="lm")
    return np.asarray(picture)


def _shortened(text: str, width: int) -> str:
    """Returns a text that takes at most `width` pixels as a title, its end cut off where it must be."""
    while len(text) > 4 and font(TITLE - 1).getlength(text) > width:
        text = text[:-2].rstrip(" .…") + "…"
    return text


def plane_image(values: Tensor, stones: Tensor | None = None, cell: int = 16) -> np.ndarray:
    """Returns one plane of features as squares: uint8 [N * cell + 1, N * cell + 1, 3].

    values: [N, N], blue where positive and red where negative, the stronger the larger, up to the largest (at least 1);
    values that are neither 0 nor 1 are written where a cell has room. stones: int8 [N, N], drawn as small stones, so
    that one sees where one is."""
    size, most = values.shape[0], max(1.0, float(values.abs().max()))
    canvas = Canvas(size * cell + 1, size * cell + 1, PAPER)
    for point, value in enumerate(values.flatten().tolist()):
        row, column = divmod(point, size)
        fill = mixed(NOTHING, POSITIVE if value > 0 else NEGATIVE, min(1.0, abs(value) / most))
        canvas.box((column * cell, row * cell), ((column + 1) * cell, (row + 1) * cell), fill, (216, 208, 194))
        centre = (column + 0.5) * cell, (row + 0.5) * cell
        colour = 0 if stones is None else int(stones[row, column])
        if colour:
            canvas.disc(centre, 0.2 * cell, BLACK if colour == 1 else WHITE, FAINT)
        elif value not in (0.0, 1.0) and cell >= NUMBERS_FROM:
            canvas.text(centre, f"{value:.2g}", round(0.36 * cell), ink_on(fill))
    return canvas.finish()


def planes_image(
    planes: Tensor,
    names: Sequence[str],
    stones: Tensor | None = None,
    cell: int = 0,
    columns: int = 0,
    heading: str = "",
) -> np.ndarray:
    """Returns all planes of a position with their names, in rows: uint8 [height, width, 3].

    planes: [C, N, N]. names: C titles. stones: as in `plane_image`. cell, columns: 0 chooses what fits on a screen.
    """
    size = planes.shape[-1]
    cell = cell or max(8, min(40, 190 // size))
    columns = columns or max(1, min(len(planes), 1500 // (size * cell + 7)))
    return mosaic([plane_image(plane, stones, cell) for plane in planes], columns, 8, names, heading)


def winrate_chart(winrates_black: Sequence[float], ply: int, width: int, height: int, caption: str = "") -> np.ndarray:
    """Returns a chart of Black's win rate over the moves of a game: uint8 [height, width, 3].

    winrates_black: 0 to 1, before the first move, after it, and so on; nan leaves a gap. ply: the moment that is
    marked. caption: lines below, within the height."""
    lines = wrapped(caption, TEXT + 1, width - 8)
    canvas = Canvas(width, height, PAPER)
    bottom = height - BOTTOM - len(lines) * (TEXT + 6)
    last = max(1, len(winrates_black) - 1)

    def spot(index: float, rate: float) -> Spot:
        return LEFT + (width - LEFT - RIGHT) * index / last, TOP + (bottom - TOP) * (1 - rate)

    canvas.box((LEFT, TOP), (width - RIGHT, bottom), (226, 220, 208))
    for rate in (0, 0.25, 0.5, 0.75, 1):
        canvas.line([spot(0, rate), spot(last, rate)], FAINT if rate == 0.5 else (206, 198, 184))
        canvas.text((LEFT - 5, spot(0, rate)[1]), f"{100 * rate:.0f}", TEXT, INK, "rm")
    steps = (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000)  # between written moves, of which there are at most eight
    for index in range(0, last + 1, next((step for step in steps if last / step <= 8), steps[-1])):
        canvas.text((spot(index, 0)[0], bottom + 10), str(index), TEXT, INK)
    curve = [spot(index, rate) for index, rate in enumerate(winrates_black) if rate == rate]
    if len(curve) > 1:
        floor = spot(0, 0)[1]
        canvas.polygon([(curve[0][0], floor), *curve, (curve[-1][0], floor)], (60, 58, 56, 110))
        canvas.line(curve, INK, 1.6)
    if 0 <= ply < len(winrates_black) and winrates_black[ply] == winrates_black[ply]:
        canvas.line([spot(ply, 0), spot(ply, 1)], (*MARK, 110))
        canvas.disc(spot(ply, winrates_black[ply]), 4, MARK)
    for number, text in enumerate(lines):
        canvas.text((4, bottom + BOTTOM + (number + 0.5) * (TEXT + 6)), text, TEXT + 1, INK, "lm")
    return canvas.finish()
