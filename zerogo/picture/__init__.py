"""A board, and what a search or a network makes of it, as text for a terminal and as an image for TensorBoard, a file
or a report.

Everything here is for people, one board at a time, on the host: stones int8 [N, N] (0 empty, 1 black, 2 white), actions
as everywhere. Images are uint8 [height, width, 3], RGB; `png` makes a file's bytes of one."""

from zerogo.picture.board import (
    board_image,
    board_text,
    candidates_text,
    grid_text,
    mosaic,
    planes_image,
    short_count,
    winrate_chart,
)
from zerogo.picture.canvas import png

__all__ = [
    "board_image", "board_text", "candidates_text", "grid_text", "mosaic", "planes_image", "png", "short_count",
    "winrate_chart",
]  # fmt: skip
