"""Pictures side by side, and the planes that a network sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from zerogo.picture.canvas import BLACK, FAINT, INK, PAPER, WHITE, Canvas, font, mixed, readable_on, wrapped

POSITIVE, NEGATIVE, NOTHING = (24, 92, 190), (198, 56, 48), (238, 232, 220)
TITLE = 14
NUMBERS_FROM = 22  # pixels of a cell from which values that are neither 0 nor 1 are written


def mosaic(
    images: Sequence[np.ndarray], columns: int, gap: int = 6, titles: Sequence[str] = (), heading: str = ""
) -> np.ndarray:
    """Returns pictures (uint8 [height, width, 3] of any sizes) side by side in rows of `columns`: uint8 [height, width,
    3].

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
    if not (above or lines):
        return whole
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
        canvas.box(column * cell, row * cell, (column + 1) * cell, (row + 1) * cell, fill, (216, 208, 194))
        x, y = (column + 0.5) * cell, (row + 0.5) * cell
        colour = 0 if stones is None else int(stones[row, column])
        if colour:
            canvas.disc(x, y, 0.2 * cell, BLACK if colour == 1 else WHITE, FAINT)
        elif value not in (0.0, 1.0) and cell >= NUMBERS_FROM:
            canvas.text(x, y, f"{value:.2g}", round(0.36 * cell), readable_on(fill))
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
