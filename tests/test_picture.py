"""Pictures: what stands where, in text and in pixels."""

import numpy as np
import torch
from tables import tables

from zerogo.players.analyst import Candidate
from zerogo.show import picture
from zerogo.show.picture import MARK, plane_image

CELL, TEXTS = 40, tables("picture")


def tried(action: int, visits: int, value: float, score: float = 0.0, prior: float = 0.5, pv: tuple = ()) -> Candidate:
    """Returns a move that a search has tried."""
    return Candidate(action, visits, value, score, prior, 0.0, pv, ())


def some_stones() -> torch.Tensor:
    """Black on C3, White on B2 of 3x3."""
    stones = torch.zeros((3, 3), dtype=torch.int8)
    stones[0, 2], stones[1, 1] = 1, 2
    return stones


def drawn(stones: torch.Tensor | None = None, last_action: int | None = None, **marks) -> np.ndarray:
    return picture.board_image(some_stones() if stones is None else stones, last_action, cell=CELL, **marks).astype(int)


def cut(image: np.ndarray, row: int, column: int, half: int = CELL // 2 - 1) -> np.ndarray:
    """Returns the pixels around a point."""
    y, x = (row + 1) * CELL, (column + 1) * CELL
    return image[y - half : y + half + 1, x - half : x + half + 1]


def changed_points(one: np.ndarray, other: np.ndarray, size: int) -> set[tuple[int, int]]:
    """Returns the points around which two pictures differ, more than by the rim of a neighbour's shadow."""
    points, half = [(row, column) for row in range(size) for column in range(size)], CELL // 2 - 4
    return {point for point in points if (cut(one, *point, half) != cut(other, *point, half)).any()}


def test_labels_on_a_grid_moves_of_a_search_as_a_table_and_short_counts():
    labels = ["12.5", "", "", "", "", "7", "", "", ""]
    assert picture.grid_text(labels, 3, some_stones()).splitlines() == TEXTS["labels"]
    lines = picture.candidates_text([tried(4, 120, 0.5, 3.25, 0.4, (4, 2, 9)), tried(9, 3, -1.0)], 3).splitlines()
    assert [" ".join(line.split()) for line in lines] == TEXTS["candidates"]
    counts = (0, 999, 1000, 1249, 9999, 34_000, 999_600)
    assert list(map(picture.shorten_count, counts)) == ["0", "999", "1.0k", "1.2k", "10k", "34k", "1.0M"]


def test_visits_are_green_and_have_their_counts():
    visits = torch.zeros(10, dtype=torch.int64)
    visits[8], visits[0] = 900, 1
    image = drawn(heat=(visits / visits.sum(), [f"{number}" if number else "" for number in visits], picture.VISITS))
    assert changed_points(image, drawn(), 3) == {(2, 2), (0, 0)}
    tint = cut(image, 2, 2)[4, 20]
    assert tint[1] > tint[0] and tint[1] > tint[2]


def test_candidates_are_green_to_red_and_the_best_has_a_ring():
    moves = [tried(0, 100, 0.4), tried(8, 20, 0.3), tried(6, 5, -0.6), tried(9, 2, 0.0)]
    image = drawn(candidates=moves, caption="x")
    assert changed_points(image, drawn(), 3) == {(0, 0), (2, 2), (2, 0)}
    best, good, bad = (cut(image, *point)[3:6, 12:15].reshape(-1, 3).mean(0) for point in ((0, 0), (2, 2), (2, 0)))
    assert best[1] > best[0] and bad[0] > bad[1] + 50 and good[0] - good[1] < bad[0] - bad[1]
    blue = [(cut(image, *point)[..., 2] > cut(image, *point)[..., 0] + 60).any() for point in ((0, 0), (2, 2))]
    assert blue == [True, False]
    assert image.shape[0] > drawn(caption="x").shape[0], "what the search found of the pass stands below"


def test_move_numbers_and_the_line_to_come():
    numbered = drawn(numbers={2: 7, 4: 8}, last_action=4)
    assert changed_points(numbered, drawn(), 3) == {(0, 2), (1, 1)}
    assert cut(numbered, 0, 2, 8).max() > 200 and cut(numbered, 1, 1, 8)[..., 1].min() < 120
    ahead = drawn(line=[(0, 1), (8, 2), (0, 1), (9, 2), (4, 1)])
    assert changed_points(ahead, drawn(), 3) == {(0, 0), (2, 2)}, "a pass and a move on a stone are not drawn"
    dark, pale = (cut(ahead, *point)[6:10, 12:16].mean() for point in ((0, 0), (2, 2)))
    assert dark < 110 < 190 < pale


def test_planes_show_their_values():
    values = torch.tensor([[0.0, 1.0, -1.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    image = plane_image(values, torch.zeros(3, 3), 20).astype(int)
    none, full, less, half = (image[y, x] for y, x in ((5, 5), (5, 25), (5, 45), (25, 5)))
    assert full[2] > full[0] + 100 and less[0] > less[2] + 100 and full[0] < half[0] < none[0]


def test_winrate_chart_marks_the_moment():
    rates = [0.5, 0.9, 0.1, 0.5]
    one, other = (picture.winrate_chart(rates, ply, 300, 200, "x").astype(int) for ply in (1, 2))
    rows, columns = np.nonzero((one == MARK).all(-1))
    later_rows, later_columns = np.nonzero((other == MARK).all(-1))
    assert rows.mean() < 60 < 120 < later_rows.mean() and columns.mean() < later_columns.mean()
