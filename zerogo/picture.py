"""A board, and what is thought of it, as text for a terminal and as an image for TensorBoard or a file.

Everything here is for people, one board at a time, on the host: stones int8 [N, N] (0 empty, 1 black, 2 white), actions as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from zerogo import coords

WOOD, LINE, BLACK, WHITE, MARK, HEAT = (222, 184, 120), (70, 50, 20), (20, 20, 20), (245, 245, 245), (220, 40, 40), (30, 90, 220)
_SIGNS = ".XO"


def board_text(stones: Tensor, last_action: int | None = None) -> str:
    """Returns the board in lines, `X` black and `O` white, with GTP's letters and numbers on all sides; the last move stands in brackets.

    A last move that was a pass is told in a line below.
    """
    size = stones.shape[0]
    head = "   " + " ".join(_column_letter(column, size) for column in range(size))
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


def _column_letter(column: int, size: int) -> str:
    return coords.to_gtp(column, size)[0]


def board_image(
    stones: Tensor,
    last_action: int | None = None,
    ownership_black: Tensor | None = None,
    policy: Tensor | None = None,
    caption: str = "",
    cell: int = 24,
) -> np.ndarray:
    """Returns a picture of the board with coordinates: uint8 [height, width, 3], RGB.

    last_action: marked by a red ring; a pass is written below. ownership_black: [N, N] in [-1, 1], drawn as squares in the owner's colour,
    larger the surer. policy: [A], probabilities, empty points tinted blue by their square root, with the percentage where it is 1 or more,
    pass below. caption: a line below. cell: pixels between two lines of the board.
    """
    size = stones.shape[0]
    side = (size + 1) * cell
    lines = [text for text in (_pass_line(size, last_action, policy), caption) if text]
    image = Image.new("RGB", (side, side + len(lines) * 14 + (4 if lines else 0)), WOOD)
    draw = ImageDraw.Draw(image)
    _draw_grid(draw, size, cell)
    if policy is not None:
        _draw_policy(draw, stones, policy, cell)
    _draw_stones(draw, stones, cell)
    if ownership_black is not None:
        _draw_ownership(draw, ownership_black, cell)
    if last_action is not None and 0 <= last_action < size * size:
        _ring(draw, *_centre(last_action, size, cell), cell)
    for i, text in enumerate(lines):
        draw.text((4, side + 14 * i), text, fill=LINE, font=ImageFont.load_default(11))
    return np.asarray(image)


def mosaic(images: Sequence[np.ndarray], columns: int, gap: int = 6) -> np.ndarray:
    """Returns pictures (uint8 [height, width, 3] of any sizes) side by side in rows of `columns`: uint8 [height, width, 3]."""
    height, width = (max(image.shape[axis] for image in images) + gap for axis in (0, 1))
    rows = -(-len(images) // columns)
    whole = np.full((rows * height + gap, min(columns, len(images)) * width + gap, 3), 255, dtype=np.uint8)
    for i, image in enumerate(images):
        top, left = i // columns * height + gap, i % columns * width + gap
        whole[top : top + image.shape[0], left : left + image.shape[1]] = image
    return whole


def _pass_line(size: int, last_action: int | None, policy: Tensor | None) -> str:
    parts = ["last move: pass"] if last_action == size * size else []
    if policy is not None:
        parts.append(f"pass {100 * float(policy[-1]):.1f} %")
    return ", ".join(parts)


def _centre(point: int, size: int, cell: int) -> tuple[int, int]:
    """Returns a point's pixel, x and y."""
    row, column = divmod(point, size)
    return (column + 1) * cell, (row + 1) * cell


def _draw_grid(draw: ImageDraw.ImageDraw, size: int, cell: int) -> None:
    font = ImageFont.load_default(max(8, cell // 3))
    for i in range(size):
        at, end = (i + 1) * cell, size * cell
        draw.line((cell, at, end, at), fill=LINE)
        draw.line((at, cell, at, end), fill=LINE)
        draw.text((at, cell // 4), _column_letter(i, size), fill=LINE, font=font, anchor="mm")
        draw.text((cell // 4, at), str(size - i), fill=LINE, font=font, anchor="mm")


def _draw_stones(draw: ImageDraw.ImageDraw, stones: Tensor, cell: int) -> None:
    size, radius = stones.shape[0], 0.46 * cell
    for point, colour in enumerate(stones.flatten().tolist()):
        if colour:
            x, y = _centre(point, size, cell)
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=BLACK if colour == 1 else WHITE, outline=LINE)


def _draw_ownership(draw: ImageDraw.ImageDraw, ownership_black: Tensor, cell: int) -> None:
    size = ownership_black.shape[0]
    for point, owned in enumerate(ownership_black.flatten().tolist()):
        half = 0.2 * cell * min(1.0, abs(owned)) ** 0.5
        if half >= 1:
            x, y = _centre(point, size, cell)
            draw.rectangle((x - half, y - half, x + half, y + half), fill=BLACK if owned > 0 else WHITE, outline=(128, 128, 128))


def _draw_policy(draw: ImageDraw.ImageDraw, stones: Tensor, policy: Tensor, cell: int) -> None:
    size, half = stones.shape[0], 0.44 * cell
    assert policy.shape == (size * size + 1,), f"the policy of a {size}x{size} board is [{size * size + 1}], not {list(policy.shape)}"
    font = ImageFont.load_default(max(7, int(0.36 * cell)))
    for point, share in enumerate(policy[:-1].to(torch.float32).tolist()):
        if share < 0.001 or stones.flatten()[point]:
            continue
        x, y = _centre(point, size, cell)
        strength = min(1.0, share) ** 0.5
        tint = tuple(round(wood + (heat - wood) * strength) for wood, heat in zip(WOOD, HEAT, strict=True))
        draw.rectangle((x - half, y - half, x + half, y + half), fill=tint)
        if share >= 0.01:
            draw.text((x, y), str(round(100 * share)), fill=WHITE if strength > 0.4 else LINE, font=font, anchor="mm")


def _ring(draw: ImageDraw.ImageDraw, x: int, y: int, cell: int) -> None:
    radius = 0.3 * cell
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=MARK, width=max(1, cell // 12))
