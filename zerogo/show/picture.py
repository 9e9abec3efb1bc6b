"""A board with the marks of a search or a network, as text for a terminal and as an image for TensorBoard, a file or a
report. Also mosaics of pictures, a network's input planes, the win rate of a game, and the strength of a run over time.

Each function draws one board on the host: stones int8 [N, N] (0 empty, 1 black, 2 white), actions as everywhere; moves
of a search are `players.analyst.Candidate`s. Images are uint8 [height, width, 3], RGB; `png` makes a file of one. A
`Canvas` draws shapes in a larger image, scales it down, which smooths edges, and then draws text at its final size."""

import io
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from zerogo.rules import coords

RGB = tuple[int, ...]  # or RGBA where what is beneath shines through
Spot = tuple[float, float]  # a place in pixels, x and y

WOOD, LINE, BLACK, WHITE, MARK = (230, 190, 126), (92, 66, 28), (24, 24, 26), (246, 246, 244), (220, 40, 40)
PAPER, INK, FAINT = (252, 249, 243), (40, 36, 30), (128, 120, 108)
SCALE = 3  # pixels of the larger image for one of the finished one
PADDING = 4  # pixels around the lines below a board
HEAT, VISITS = (30, 90, 220), (0, 120, 84)  # policy is blue, visits are green
PALE = 0.3  # strength of heat at which its pale shade stands
NUMBERED = 12  # so many of a search's moves get numbers, the others a dot
BEST, GREY = (20, 60, 200), (128, 124, 116)
# Colours of a search's moves by how much win rate they give away against the best.
LOSSES = (
    (0.0, (64, 190, 120)), (0.03, (172, 206, 84)), (0.08, (240, 206, 72)), (0.15, (238, 146, 60)), (0.3, (214, 74, 62)),
)  # fmt: skip
POSITIVE, NEGATIVE, NOTHING = (24, 92, 190), (198, 56, 48), (238, 232, 220)
TITLE, GAP = 14, 8  # pixels of a line, and between pictures
NUMBERS_FROM = 22  # pixels of a cell from which values that are neither 0 nor 1 are written
LEFT, RIGHT, TOP, BOTTOM = 34, 10, 10, 20  # margins around a chart's curve, in pixels
TEXT = 11  # pixels of a chart's lines
_SIGNS = ".XO"


class Canvas:
    """A picture that is being drawn. Coordinates are pixels of the finished one and may be fractions; (0, 0) is the
    centre of its first pixel. Text is drawn last, over all shapes, in the order of the calls."""

    def __init__(self, width: int, height: int, colour: RGB) -> None:
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * SCALE, height * SCALE), colour)
        self._draw = ImageDraw.Draw(self._image, "RGBA")
        self._texts: list[tuple[Spot, str, int, RGB, str]] = []

    def box(self, corner: Spot, opposite: Spot, fill: RGB, edge: RGB | None = None, radius: float = 0) -> None:
        """Draws a filled rectangle, its edge one pixel wide, with round corners of that radius."""
        (left, top), (right, bottom) = _scale_up(corner), _scale_up(opposite)
        corners = (left, top, right - 1, bottom - 1)
        self._draw.rounded_rectangle(corners, radius * SCALE, fill=fill, outline=edge, width=SCALE if edge else 0)

    def square(self, at: Spot, half: float, fill: RGB, edge: RGB | None = None, radius: float = 0) -> None:
        """Draws a filled square around a point, as `box` does."""
        x, y = at
        self.box((x - half, y - half), (x + half, y + half), fill, edge, radius)

    def disc(self, at: Spot, radius: float, fill: RGB | None, edge: RGB | None = None, width: float = 1) -> None:
        """Draws a filled circle around a point, its edge `width` pixels wide and inside; without fill a ring."""
        x, y = at
        corners = (*_scale_up((x - radius, y - radius)), *_scale_up((x + radius, y + radius)))
        self._draw.ellipse(corners, fill=fill, outline=edge, width=max(1, round(width * SCALE)) if edge else 0)

    def line(self, points: Sequence[Spot], colour: RGB, width: float = 1) -> None:
        """Draws a line through points."""
        thickness = max(1, round(width * SCALE))
        self._draw.line([_scale_up(point) for point in points], fill=colour, width=thickness, joint="curve")

    def polygon(self, points: Sequence[Spot], fill: RGB) -> None:
        """Draws a filled polygon."""
        self._draw.polygon([_scale_up(point) for point in points], fill=fill)

    def stone(self, at: Spot, radius: float, is_black: bool, strength: float = 1.0) -> None:
        """Draws a stone with its light and shadow; strength: 1 is solid, less lets the board shine through."""
        shift = 0.09 * radius
        self.disc((at[0] + shift, at[1] + 1.6 * shift), radius, (40, 24, 0, round(70 * strength)))
        sprite = _stone(round(radius * SCALE), is_black)
        mask = sprite.getchannel("A")
        if strength < 1:
            mask = mask.point(lambda level: round(level * strength))
        x, y = _scale_up(at)
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


def _scale_up(spot: Spot) -> Spot:
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
    """Returns the font that comes with pillow."""
    return ImageFont.load_default(size)


def wrap_text(text: str, size: int, width: float) -> list[str]:
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


def mix_colours(one: RGB, other: RGB, share: float) -> RGB:
    """Returns the colour between two: share 0 is `one`, 1 is `other`."""
    return tuple(round(a + (b - a) * share) for a, b in zip(one[:3], other[:3], strict=True))


def readable_ink(colour: RGB) -> RGB:
    """Returns black or white, whichever reads better on a colour."""
    red, green, blue = colour[:3]
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else WHITE


def png(image: np.ndarray) -> bytes:
    """Returns an image as a PNG file, without loss: a palette of 256 would halve it and turn a thin red ring brown."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def board_text(stones: Sequence[Sequence[int]], last_action: int | None = None) -> str:
    """Returns the board in lines, `X` black and `O` white, with GTP's letters and numbers on all sides; the last move
    is in brackets, a pass in a line below. stones: N rows from the top of 0, 1 and 2."""
    size = len(stones)
    text = grid_text([""] * size**2, size, stones)
    if last_action == size**2:
        return f"{text}\nlast move: pass"
    if last_action is None:
        return text
    lines, (row, column) = text.split("\n"), divmod(last_action, size)
    line, at = lines[row + 1], 3 + 2 * column
    lines[row + 1] = f"{line[: at - 1]}({line[at]}){line[at + 2 :]}"
    return "\n".join(lines)


def grid_text(labels: Sequence[str], size: int, stones: Sequence[Sequence[int]] | None = None) -> str:
    """Returns a label on every point in lines, with GTP's letters and numbers on all sides, all columns equally wide.

    labels: of the points row by row, an empty one is shown as a dot. stones: N rows of 0, 1 and 2, or int8 [N, N]; `X`
    and `O` stand where a label is empty."""
    signs = ["."] * len(labels) if stones is None else [_SIGNS[colour] for row in stones for colour in row]
    texts = [label or sign for label, sign in zip(labels, signs, strict=True)]
    width = max(map(len, texts))
    head = "   " + " ".join(f"{letter:>{width}}" for letter in coords.GTP_COLUMNS[:size])
    lines = [head]
    for row in range(size):
        points = " ".join(f"{text:>{width}}" for text in texts[row * size : (row + 1) * size])
        lines.append(f"{size - row:2d} {points} {size - row}")
    return "\n".join([*lines, head])


def candidates_text(candidates: Sequence[Any], size: int, max_rows: int = 12) -> str:
    """Returns a search's moves as a table: move, visits, win rate, score, prior, and the line that it expects."""
    lines = [f"{'move':>5} {'visits':>7} {'win %':>6} {'score':>6} {'prior':>6}  line"]
    for move in candidates[:max_rows]:
        tried = f"{coords.to_gtp(move.action, size):>5} {move.visits:>7} {100 * move.winrate:>6.1f}"
        line = coords.vertices(move.pv, size)
        lines.append(f"{tried} {move.score:>+6.1f} {100 * move.prior:>6.1f}  {line}")
    return "\n".join(lines)


def shorten_count(count: int) -> str:
    """Returns a count in at most four characters: 950, 1.2k, 34k, 5.6M."""
    for unit, name in ((1_000_000, "M"), (1000, "k")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.1f}{name}" if count < 9.95 * unit else f"{count / unit:.0f}{name}"
    return str(count)


def board_image(
    stones: Tensor,
    last_action: int | None = None,
    ownership_black: Tensor | None = None,
    caption: str = "",
    cell: int = 24,
    *,
    heat: tuple[Tensor, Sequence[str], RGB] | None = None,
    candidates: Sequence[Any] = (),
    numbers: Mapping[int, int] | None = None,
    line: Sequence[tuple[int, int]] = (),
) -> np.ndarray:
    """Returns a picture of the board with coordinates: uint8 [height, width, 3], RGB.

    last_action: marked by a red ring; a pass is written below. ownership_black: [N, N] in [-1, 1], drawn as squares in
    the owner's colour, larger the surer, on empty points and on stones that are not their owner's. heat: the shares of
    the moves [A], by whose square roots empty points are tinted, a label for each point, and a colour. candidates: a
    search's moves, best first, as discs with win rate over visits; a pass is written below. numbers: move numbers to
    write, by point. line: (point, colour) of moves to come, drawn as pale stones with numbers. caption: lines below.
    cell: pixels between lines of the board; row r and column c, from 1, meet at pixel r * cell, c * cell."""
    size, numbers = stones.shape[0], numbers or {}
    on_pass = ["last move: pass"] if last_action == size**2 else []
    passes = (move for move in candidates if move.action == size**2)
    on_pass += [f"pass {100 * move.winrate:.1f} %, {shorten_count(move.visits)} visits" for move in passes]
    drawing = _BoardDrawing(stones, cell, f"{caption}\n{', '.join(on_pass)}")
    if heat is not None:
        drawing.heat(*heat)
    drawing.stones()
    drawing.line(line)
    drawing.candidates(candidates)
    if ownership_black is not None:
        drawing.ownership(ownership_black.flatten().tolist())
    drawing.numbers(numbers, last_action)
    if last_action is not None and 0 <= last_action < size * size and last_action not in numbers:
        drawing.canvas.disc(drawing.spot(last_action), 0.27 * cell, None, MARK, max(1.2, 0.085 * cell))
    return drawing.canvas.finish()


def policy_heat(prior: Tensor) -> tuple[Tensor, list[str], RGB]:
    """Returns a policy [A] as `board_image` takes it as heat, with percentages from 1 on."""
    return prior, [f"{100 * share:.0f}" if share >= 0.01 else "" for share in prior[:-1].tolist()], HEAT


class _BoardDrawing:
    """A picture of a board: wood, lines and coordinates, with text below. Each method draws one thing on it."""

    def __init__(self, stones: Tensor, cell: int, below: str) -> None:
        self.size, self.cell, self.colours = stones.shape[0], cell, stones.flatten().tolist()
        side, text_size = (self.size + 1) * cell, max(11, round(0.3 * cell))
        lines, pitch = wrap_text(below, text_size, side - 2 * PADDING), round(1.35 * text_size)
        self.canvas = Canvas(side, side + (len(lines) * pitch + 2 * PADDING if lines else 0), PAPER)
        self.canvas.box((-0.5, -0.5), (side - 0.5, side - 0.5), WOOD)
        self._grid()
        for number, text in enumerate(lines):
            self.canvas.text((PADDING, side + PADDING + (number + 0.5) * pitch), text, text_size, INK, "lm")

    def spot(self, point: int) -> Spot:
        """Returns the pixel of a point."""
        row, column = divmod(point, self.size)
        return (column + 1) * self.cell, (row + 1) * self.cell

    def _grid(self) -> None:
        cell, canvas, text_size = self.cell, self.canvas, max(8, round(0.36 * self.cell))
        first, last = cell, self.size * cell
        for i, letter in enumerate(coords.GTP_COLUMNS[: self.size]):
            at = (i + 1) * cell
            width = 1.6 if i in (0, self.size - 1) and self.size > 1 else 1
            canvas.line([(first, at), (last, at)], LINE, width)
            canvas.line([(at, first), (at, last)], LINE, width)
            for margin in (0.26 * cell, (self.size + 1 - 0.26) * cell):
                canvas.text((at, margin), letter, text_size, LINE)
                canvas.text((margin, at), str(self.size - i), text_size, LINE)
        for point in star_points(self.size):
            canvas.disc(self.spot(point), max(1.5, 0.1 * cell), LINE)

    def heat(self, shares: Tensor, labels: Sequence[str], colour: RGB) -> None:
        """Tints the empty points by the square roots of their shares: [A], pass ignored. labels: written on them."""
        for point, share in enumerate(shares[:-1].float().tolist()):
            label = labels[point]
            if self.colours[point] or (share < 0.001 and not label):
                continue
            tint = heat_colour(colour, min(1.0, share) ** 0.5)
            self.canvas.square(self.spot(point), 0.46 * self.cell, tint, radius=0.14 * self.cell)
            if label:
                size = max(7, round(0.4 * self.cell))
                self.canvas.text(self.spot(point), label, size, readable_ink(tint), width=0.84 * self.cell)

    def stones(self) -> None:
        """Draws the stones."""
        for point, colour in enumerate(self.colours):
            if colour:
                self.canvas.stone(self.spot(point), 0.475 * self.cell, colour == 1)

    def line(self, line: Sequence[tuple[int, int]]) -> None:
        """Draws moves to come as pale stones with numbers; of several on one point the first is shown."""
        numbered: set[int] = set()
        for number, (point, colour) in enumerate(line, start=1):
            if point >= len(self.colours) or self.colours[point] or point in numbered:
                continue
            numbered.add(point)
            self.canvas.stone(self.spot(point), 0.45 * self.cell, colour == 1, 0.72)
            ink = (255, 255, 255) if colour == 1 else INK
            self.canvas.text(self.spot(point), str(number), max(7, round(0.42 * self.cell)), ink)

    def candidates(self, moves: Sequence[Any]) -> None:
        """Draws a search's moves, best first: win rate in per cent over visits, the colour by what they give away
        against the best, which has a ring."""
        cell, max_visits = self.cell, max((1, *(move.visits for move in moves)))
        for rank, move in reversed(list(enumerate(moves))):
            if move.action == self.size**2:
                continue
            x, y = self.spot(move.action)
            colour = loss_colour(moves[0].winrate - move.winrate)
            if rank >= NUMBERED:
                self.canvas.disc((x, y), 0.16 * cell, (*colour, 200))
                continue
            fill = mix_colours(WOOD, colour, 0.55 + 0.45 * (move.visits / max_visits) ** 0.5)
            edge, width = (mix_colours(fill, BLACK, 0.35), 1) if rank else (BEST, max(1, 0.06 * cell))
            self.canvas.disc((x, y), 0.485 * cell, fill, edge, width)
            share = f"{100 * move.winrate:.{0 if cell < 40 else 1}f}"
            count, sizes = shorten_count(move.visits), (max(8, round(0.36 * cell)), max(7, round(0.27 * cell)))
            self.canvas.text((x, y - 0.13 * cell), share, sizes[0], INK, width=0.82 * cell)
            self.canvas.text((x, y + 0.2 * cell), count, sizes[1], INK, width=0.7 * cell)

    def ownership(self, owned_black: Sequence[float]) -> None:
        """Draws squares in the owner's colour, the larger the surer, on empty points and on the other side's stones."""
        for point, owned in enumerate(owned_black):
            colour = self.colours[point]
            half = (0.24 if colour else 0.36) * self.cell * min(1.0, abs(owned)) ** 0.5
            if half >= 0.5 and colour != (1 if owned > 0 else 2):
                fill, edge = BLACK if owned > 0 else WHITE, GREY if half > 2 else None
                self.canvas.square(self.spot(point), half, fill, edge, radius=0.2 * half)

    def numbers(self, numbers: Mapping[int, int], last: int | None) -> None:
        """Writes move numbers on stones, the last move's in red."""
        for point, number in numbers.items():
            usual, marked = (WHITE, (255, 110, 100)) if self.colours[point] == 1 else (INK, MARK)
            colour, size = marked if point == last else usual, max(7, round(0.46 * self.cell))
            self.canvas.text(self.spot(point), str(number), size, colour, width=0.72 * self.cell)


def star_points(size: int) -> list[int]:
    """Returns the points with a dot: corners from 7x7, the middle of odd boards from 5x5, their sides from 15x15."""
    corners = 4 if size >= 7 else 0
    points = coords.fixed_handicap(size, 9)[:8] if size >= 15 and size % 2 else coords.fixed_handicap(size, corners)
    return [*points, size * size // 2] if size % 2 and size >= 5 else points


def heat_colour(colour: RGB, strength: float) -> RGB:
    """Returns the tint of a point, strength 0 to 1: from wood over a pale shade, which avoids grey, to the colour."""
    pale = mix_colours(colour, (255, 255, 255), 0.62)
    if strength < PALE:
        return mix_colours(WOOD, pale, strength / PALE)
    return mix_colours(pale, colour, (strength - PALE) / (1 - PALE))


def loss_colour(loss: float) -> RGB:
    """Returns the colour for so much win rate given away, 0 to 1: green for nothing, red for 0.3 and more."""
    losses, colours = zip(*LOSSES, strict=True)
    return tuple(round(float(np.interp(loss, losses, channel))) for channel in zip(*colours, strict=True))


def mosaic(images: Sequence[np.ndarray], columns: int, titles: Sequence[str] = (), heading: str = "") -> np.ndarray:
    """Returns pictures (uint8 [height, width, 3] of any sizes) as one, side by side in rows of `columns`.

    titles: one over each picture, or none. heading: over all of them, in as many lines as it needs."""
    above = TITLE + 8 if any(titles) else 0
    width = max(image.shape[1] for image in images) + GAP
    whole_width = min(columns, len(images)) * width + GAP
    lines = wrap_text(heading, TITLE + 2, whole_width - 2 * GAP)
    top = len(lines) * (TITLE + 8) + (4 if lines else 0) + GAP
    places = []
    for start in range(0, len(images), columns):
        row = images[start : start + columns]
        places += [(top, GAP + column * width) for column in range(len(row))]
        top += above + max(image.shape[0] for image in row) + GAP
    whole = np.full((top, whole_width, 3), 255, dtype=np.uint8)
    for image, (y, x) in zip(images, places, strict=True):
        whole[y + above : y + above + image.shape[0], x : x + image.shape[1]] = image
    picture = Image.fromarray(whole)
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        draw.text((GAP, GAP + TITLE / 2 + 2 + number * (TITLE + 8)), line, fill=INK, font=font(TITLE + 2), anchor="lm")
    for title, (y, x) in zip(titles, places, strict=False):
        draw.text((x + 1, y + above / 2), _shorten(title, width - GAP), fill=INK, font=font(TITLE - 1), anchor="lm")
    return np.asarray(picture)


def _shorten(text: str, width: int) -> str:
    """Returns a text that takes at most `width` pixels as a title, its end cut off where it must be."""
    while len(text) > 4 and font(TITLE - 1).getlength(text) > width:
        text = text[:-2].rstrip(" .…") + "…"
    return text


def plane_image(values: Tensor, stones: Tensor, cell: int) -> np.ndarray:
    """Returns one plane of features as squares: uint8 [N * cell + 1, N * cell + 1, 3].

    values: [N, N], blue where positive and red where negative, the stronger the larger, up to the largest (at least 1);
    values that are neither 0 nor 1 are written where a cell has room. stones: int8 [N, N], drawn small for orientation.
    """
    size, largest = values.shape[0], max(1.0, float(values.abs().max()))
    canvas = Canvas(size * cell + 1, size * cell + 1, PAPER)
    for point, value in enumerate(values.flatten().tolist()):
        row, column = divmod(point, size)
        fill = mix_colours(NOTHING, POSITIVE if value > 0 else NEGATIVE, min(1.0, abs(value) / largest))
        canvas.box((column * cell, row * cell), ((column + 1) * cell, (row + 1) * cell), fill, (216, 208, 194))
        centre = (column + 0.5) * cell, (row + 0.5) * cell
        if colour := int(stones[row, column]):
            canvas.disc(centre, 0.2 * cell, BLACK if colour == 1 else WHITE, FAINT)
        elif value not in (0.0, 1.0) and cell >= NUMBERS_FROM:
            canvas.text(centre, f"{value:.2g}", round(0.36 * cell), readable_ink(fill))
    return canvas.finish()


def planes_image(planes: Tensor, names: Sequence[str], stones: Tensor, heading: str) -> np.ndarray:
    """Returns all planes of a position with their names, as many in a row as fit on a screen: uint8 [height, width, 3].

    planes: [C, N, N]. names: C titles. stones: as in `plane_image`."""
    size = planes.shape[-1]
    cell = max(8, min(40, 190 // size))
    columns = max(1, min(len(planes), 1500 // (size * cell + 7)))
    return mosaic([plane_image(plane, stones, cell) for plane in planes], columns, names, heading)


def winrate_chart(winrates_black: Sequence[float], ply: int, width: int, height: int, caption: str) -> np.ndarray:
    """Returns a chart of Black's win rate over the moves of a game: uint8 [height, width, 3].

    winrates_black: 0 to 1, before the first move, after it, and so on. ply: the moment that is marked. caption: lines
    below, within the height."""
    lines = wrap_text(caption, TEXT + 1, width - 8)
    canvas = Canvas(width, height, PAPER)
    bottom = height - BOTTOM - len(lines) * (TEXT + 6)
    last = max(1, len(winrates_black) - 1)

    def _spot(index: float, rate: float) -> Spot:
        return LEFT + (width - LEFT - RIGHT) * index / last, TOP + (bottom - TOP) * (1 - rate)

    canvas.box((LEFT, TOP), (width - RIGHT, bottom), (226, 220, 208))
    for rate in (0, 0.25, 0.5, 0.75, 1):
        canvas.line([_spot(0, rate), _spot(last, rate)], FAINT if rate == 0.5 else (206, 198, 184))
        canvas.text((LEFT - 5, _spot(0, rate)[1]), f"{100 * rate:.0f}", TEXT, INK, "rm")
    for index in range(0, last + 1, max(1, round(round_step(last, 8)))):
        canvas.text((_spot(index, 0)[0], bottom + 10), str(index), TEXT, INK)
    curve = [_spot(index, rate) for index, rate in enumerate(winrates_black)]
    if len(curve) > 1:
        floor = _spot(0, 0)[1]
        canvas.polygon([(curve[0][0], floor), *curve, (curve[-1][0], floor)], (60, 58, 56, 110))
        canvas.line(curve, INK, 1.6)
    canvas.line([_spot(ply, 0), _spot(ply, 1)], (*MARK, 110))
    canvas.disc(curve[ply], 4, MARK)
    for number, text in enumerate(lines):
        canvas.text((4, bottom + BOTTOM + (number + 0.5) * (TEXT + 6)), text, TEXT + 1, INK, "lm")
    return canvas.finish()


def round_step(span: float, max_steps: int) -> float:
    """Returns the least of 1, 2, 5, 10, 20, 50, … that divides a span into at most so many steps."""
    power = 10.0 ** math.floor(math.log10(max(span, 1e-9) / max_steps))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if span <= max_steps * factor * power * (1 + 1e-9))


def learning_curve(
    points: Sequence[tuple[float, float, float, float]], levels: Mapping[str, float], width: int, height: int
) -> np.ndarray:
    """Returns a chart of strength over training time: uint8 [height, width, 3].

    points: minutes, Elo, and the ends of its interval, in the order of time. levels: Elo of other players by name."""
    canvas, bottom = Canvas(width, height, PAPER), height - BOTTOM - TEXT - 8
    left, right, last = LEFT + TEXT + 10, width - RIGHT, points[-1][0]
    values = [*levels.values(), *(value for point in points for value in point[2:])]
    low, high = min(values), max(values)
    low, high = low - 0.05 * (high - low + 1), high + 0.05 * (high - low + 1)

    def _spot(minutes: float, elo: float) -> Spot:
        return left + (right - left) * minutes / last, TOP + (bottom - TOP) * (high - elo) / (high - low)

    canvas.box((left, TOP), (right, bottom), (240, 235, 226))
    step = round_step(high - low, 8)
    for elo in np.arange(math.ceil(low / step) * step, high, step).tolist():
        canvas.line([_spot(0, elo), _spot(last, elo)], (216, 208, 194))
        canvas.text((left - 5, _spot(0, elo)[1]), f"{elo:g}", TEXT, INK, "rm")
    unit, name = (60, "hours") if last > 300 else (1, "minutes")
    for time in np.arange(0, last / unit * (1 + 1e-9), round_step(last / unit, 8)).tolist():
        canvas.text((_spot(time * unit, low)[0], bottom + 10), f"{time:g}", TEXT, INK)
    canvas.text(((left + right) / 2, height - 9), f"{name} of training", TEXT + 1, INK)
    for player, elo in levels.items():
        canvas.line([_spot(0, elo), _spot(last, elo)], FAINT)
        canvas.text((right - 4, _spot(0, elo)[1] - 7), player, TEXT, FAINT, "rm", right - left)
    upper, lower = ([_spot(point[0], point[k]) for point in points] for k in (3, 2))
    canvas.polygon([*upper, *reversed(lower)], (*HEAT, 50))
    canvas.line([_spot(minutes, elo) for minutes, elo, *_ in points], HEAT, 1.8)
    for minutes, elo, *interval in points:
        canvas.line([_spot(minutes, end) for end in interval], (*HEAT, 150))
        canvas.disc(_spot(minutes, elo), 2.5, HEAT)
    return canvas.finish()
