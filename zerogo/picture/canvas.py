"""What pictures are drawn on: shapes in a larger image that is scaled down, which smooths their edges, and text on top
in its own size."""

import io
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

RGB = tuple[int, ...]  # or RGBA where what is beneath shines through
Spot = tuple[float, float]  # a place in pixels, x and y

WOOD, LINE, BLACK, WHITE, MARK = (230, 190, 126), (92, 66, 28), (24, 24, 26), (246, 246, 244), (220, 40, 40)
PAPER, INK, FAINT = (252, 249, 243), (40, 36, 30), (128, 120, 108)
SCALE = 3  # pixels of the larger image for one of the finished one


class Canvas:
    """A picture in the making. Coordinates are pixels of the finished one and may be fractions; (0, 0) is the centre of
    its first pixel. Text comes last, over all shapes, in the order in which it was asked for."""

    def __init__(self, width: int, height: int, colour: RGB) -> None:
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * SCALE, height * SCALE), colour)
        self._draw = ImageDraw.Draw(self._image, "RGBA")
        self._texts: list[tuple[Spot, str, int, RGB, str]] = []

    def box(self, corner: Spot, opposite: Spot, fill: RGB, edge: RGB | None = None, radius: float = 0) -> None:
        """Draws a filled rectangle, its edge one pixel wide, with round corners of that radius."""
        (left, top), (right, bottom) = _large(corner), _large(opposite)
        corners = (left, top, right - 1, bottom - 1)
        self._draw.rounded_rectangle(corners, radius * SCALE, fill=fill, outline=edge, width=SCALE if edge else 0)

    def square(self, at: Spot, half: float, fill: RGB, edge: RGB | None = None, radius: float = 0) -> None:
        """Draws a filled square around a point, as `box` does."""
        x, y = at
        self.box((x - half, y - half), (x + half, y + half), fill, edge, radius)

    def disc(self, at: Spot, radius: float, fill: RGB | None, edge: RGB | None = None, width: float = 1) -> None:
        """Draws a filled circle around a point, its edge `width` pixels wide and inside; without fill a ring."""
        x, y = at
        corners = (*_large((x - radius, y - radius)), *_large((x + radius, y + radius)))
        self._draw.ellipse(corners, fill=fill, outline=edge, width=max(1, round(width * SCALE)) if edge else 0)

    def line(self, points: Sequence[Spot], colour: RGB, width: float = 1) -> None:
        """Draws a line through points."""
        thickness = max(1, round(width * SCALE))
        self._draw.line([_large(point) for point in points], fill=colour, width=thickness, joint="curve")

    def polygon(self, points: Sequence[Spot], fill: RGB) -> None:
        """Draws a filled polygon."""
        self._draw.polygon([_large(point) for point in points], fill=fill)

    def stone(self, at: Spot, radius: float, is_black: bool, strength: float = 1.0) -> None:
        """Draws a stone with its light and shadow; strength: 1 is solid, less lets the board shine through."""
        shift = 0.09 * radius
        self.disc((at[0] + shift, at[1] + 1.6 * shift), radius, (40, 24, 0, round(70 * strength)))
        sprite = _stone(round(radius * SCALE), is_black)
        mask = sprite.getchannel("A")
        if strength < 1:
            mask = mask.point(lambda level: round(level * strength))
        x, y = _large(at)
        self._image.paste(sprite, (round(x - sprite.width / 2), round(y - sprite.height / 2)), mask)

    def text(self, at: Spot, text: str, size: int, colour: RGB, anchor: str = "mm", width: float = math.inf) -> None:
        """Writes a line `size` pixels high, or less, down to 6, where it would take more than `width` pixels; anchor:
        pillow's, "mm" is centred on the point, "lm" begins there."""
        while size > 6 and font(size).getlength(text) > width:
            size -= 1
        self._texts.append((at, text, size, colour, anchor))

    def finish(self) -> np.ndarray:
        """Returns the picture: uint8 [height, width, 3]."""
        image = self._image.resize((self.width, self.height), Image.Resampling.BOX)
        draw = ImageDraw.Draw(image)
        for (x, y), text, size, colour, anchor in self._texts:
            draw.text((x + 0.5, y + 0.5), text, fill=colour, font=font(size), anchor=anchor)
        return np.asarray(image)


def _large(spot: Spot) -> Spot:
    """Returns where the centre of a pixel lies in the larger image."""
    return (spot[0] + 0.5) * SCALE, (spot[1] + 0.5) * SCALE


@cache
def _stone(radius: int, is_black: bool) -> Image.Image:
    """Returns a stone of that radius with transparent surroundings: a flat ball, lit from the top left."""
    span = np.arange(2 * radius + 1) - radius
    down, across = np.meshgrid(span, span, indexing="ij")
    from_centre = np.hypot(down, across) / max(1, radius)
    from_light = np.hypot(down / max(1, radius) + 0.45, across / max(1, radius) + 0.4)
    base = np.array(BLACK if is_black else WHITE, dtype=np.float64)
    light = 70 * np.clip(1 - from_light / 0.9, 0, 1) ** 2 if is_black else -46 * np.clip(from_light - 0.75, 0, 1) ** 1.5
    rim = 0 if is_black else -70 * np.clip((from_centre - 0.9) / 0.1, 0, 1)
    shades = np.clip(base + (light + rim)[..., None], 0, 255)
    alpha = np.clip((1 - from_centre) * max(1, radius) + 0.5, 0, 1) * 255
    return Image.fromarray(np.dstack([shades, alpha]).round().astype(np.uint8), "RGBA")


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Returns pillow's own font, which is there wherever pillow is."""
    return ImageFont.load_default(size)


def wrapped(text: str, size: int, width: float) -> list[str]:
    """Returns a text in lines no wider than `width` pixels, broken between words; a word that is wider stays whole."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}".strip()
            if line and font(size).getlength(longer) > width:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return [line for line in lines if line]


def mixed(one: RGB, other: RGB, share: float) -> RGB:
    """Returns the colour between two: share 0 is `one`, 1 is `other`."""
    return tuple(round(a + (b - a) * share) for a, b in zip(one[:3], other[:3], strict=True))


def ink_on(colour: RGB) -> RGB:
    """Returns black or white, whichever reads better on a colour."""
    red, green, blue = colour[:3]
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else WHITE


def png(image: np.ndarray) -> bytes:
    """Returns an image as a PNG file, without loss: a palette of 256 would halve it and turn a thin red ring brown."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
