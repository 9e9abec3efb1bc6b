"""What is drawn on a board's points: heat with numbers, owners, candidates of a search, the last move, move numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from zerogo import coords
from zerogo.picture.canvas import BLACK, INK, MARK, WHITE, WOOD, Canvas, Colour, fitting, mixed, readable_on

HEAT, VISITS = (30, 90, 220), (0, 120, 84)  # policy is blue, visits are green
CANDIDATES = 12  # so many of a search's moves get numbers, the others a dot
BEST = (20, 60, 200)
# Colours of candidates by how much win rate they give away against the best.
LOSSES = (
    (0.0, (64, 190, 120)),
    (0.03, (172, 206, 84)),
    (0.08, (240, 206, 72)),
    (0.15, (238, 146, 60)),
    (0.3, (214, 74, 62)),
)
PALE = 0.3  # strength of heat at which its pale shade stands
GREY = (128, 124, 116)

Place = Callable[[int], tuple[float, float]]  # a point's pixel, x and y


class Candidate(Protocol):
    """A move that a search has looked at: value in [-1, 1] for the side to move, visits of its child."""

    action: int
    visits: int
    value: float


def winrate(candidate: Candidate) -> float:
    """Returns the win rate of a candidate's side, 0 to 1."""
    return (candidate.value + 1) / 2


def short_count(count: int) -> str:
    """Returns a count in at most four characters: 950, 1.2k, 34k, 5.6M."""
    for unit, name in ((1_000_000, "M"), (1000, "k")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.1f}{name}" if count < 9.95 * unit else f"{count / unit:.0f}{name}"
    return str(count)


def draw_heat(
    canvas: Canvas,
    place: Place,
    cell: int,
    shares: Sequence[float],
    labels: Sequence[str],
    stones: Sequence[int],
    colour: Colour,
) -> None:
    """Tints the empty points by the square root of their share, 0 to 1, and writes their labels; both of every point,
    row by row.
    """
    for point, (share, label) in enumerate(zip(shares, labels, strict=True)):
        if stones[point] or (share < 0.001 and not label):
            continue
        x, y = place(point)
        tint = heat_colour(colour, min(1.0, share) ** 0.5)
        canvas.square(x, y, 0.46 * cell, tint, radius=0.14 * cell)
        if label:
            canvas.text(x, y, label, fitting(label, max(7, round(0.4 * cell)), 0.84 * cell), readable_on(tint))


def heat_colour(colour: Colour, strength: float) -> Colour:
    """Returns the tint of a point, strength 0 to 1: from wood over a pale shade, which avoids the grey between them, to
    the colour.
    """
    pale = mixed(colour, (255, 255, 255), 0.62)
    return (
        mixed(WOOD, pale, strength / PALE) if strength < PALE else mixed(pale, colour, (strength - PALE) / (1 - PALE))
    )


def draw_ownership(
    canvas: Canvas, place: Place, cell: int, owned_black: Sequence[float], stones: Sequence[int]
) -> None:
    """Draws squares in the owner's colour, their area by how sure that is: on empty points, and on stones that are not
    their owner's.
    """
    for point, owned in enumerate(owned_black):
        is_own_stone = stones[point] == (1 if owned > 0 else 2)
        half = (0.24 if stones[point] else 0.36) * cell * min(1.0, abs(owned)) ** 0.5
        if half >= 0.5 and not is_own_stone:
            x, y = place(point)
            canvas.square(x, y, half, BLACK if owned > 0 else WHITE, GREY if half > 2 else None, radius=0.2 * half)


def draw_candidates(canvas: Canvas, place: Place, cell: int, candidates: Sequence[Candidate], size: int) -> None:
    """Draws a search's moves, best first: win rate in per cent over visits, the colour by what they give away, the best
    with a ring.
    """
    best, most = winrate(candidates[0]), max(1, *(candidate.visits for candidate in candidates))
    for rank, candidate in reversed(list(enumerate(candidates))):
        if candidate.action == size * size:
            continue
        x, y = place(candidate.action)
        colour = loss_colour(best - winrate(candidate))
        if rank >= CANDIDATES:
            canvas.disc(x, y, 0.16 * cell, (*colour, 200))
            continue
        weight = (candidate.visits / most) ** 0.5
        fill = mixed(WOOD, colour, 0.55 + 0.45 * weight)
        canvas.disc(
            x,
            y,
            0.485 * cell,
            fill,
            BEST if rank == 0 else mixed(fill, BLACK, 0.35),
            max(1, 0.06 * cell) if rank == 0 else 1,
        )
        share = f"{100 * winrate(candidate):.0f}" if cell < 40 else f"{100 * winrate(candidate):.1f}"
        count = short_count(candidate.visits)
        canvas.text(x, y - 0.13 * cell, share, fitting(share, max(8, round(0.36 * cell)), 0.82 * cell), INK)
        canvas.text(x, y + 0.2 * cell, count, fitting(count, max(7, round(0.27 * cell)), 0.7 * cell), INK)


def loss_colour(loss: float) -> Colour:
    """Returns the colour for so much win rate given away, 0 to 1: green for nothing, red for 0.3 and more."""
    for (low, one), (high, other) in zip(LOSSES, LOSSES[1:], strict=False):
        if loss < high:
            return mixed(one, other, max(0.0, (loss - low) / (high - low)))
    return LOSSES[-1][1]


def draw_last_move(canvas: Canvas, x: float, y: float, cell: int) -> None:
    """Draws the red ring."""
    canvas.disc(x, y, 0.27 * cell, None, MARK, max(1.2, 0.085 * cell))


def draw_numbers(
    canvas: Canvas, place: Place, cell: int, numbers: Mapping[int, int], stones: Sequence[int], last: int | None
) -> None:
    """Writes move numbers on stones, the last move's in red."""
    for point, number in numbers.items():
        x, y = place(point)
        usual, marked = (WHITE, (255, 110, 100)) if stones[point] == 1 else (INK, MARK)
        colour = marked if point == last else usual
        canvas.text(x, y, str(number), fitting(str(number), max(7, round(0.46 * cell)), 0.72 * cell), colour)


def pass_words(candidates: Sequence[Candidate], size: int) -> str:
    """Returns what a search thinks of passing, empty where it did not look."""
    for candidate in candidates:
        if candidate.action == size * size:
            return f"{coords.GTP_PASS} {100 * winrate(candidate):.1f} %, {short_count(candidate.visits)} visits"
    return ""
