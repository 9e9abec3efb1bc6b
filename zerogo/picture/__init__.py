"""A board, and what is thought of it, as text for a terminal and as an image for TensorBoard, a file or a report.

Everything here is for people, one board at a time, on the host: stones int8 [N, N] (0 empty, 1 black, 2 white), actions
as everywhere. Images are uint8 [height, width, 3], RGB; `png` makes a file's bytes of one."""

from zerogo.picture.board import board_image
from zerogo.picture.canvas import BLACK, LINE, MARK, WHITE, WOOD, png
from zerogo.picture.chart import winrate_chart
from zerogo.picture.marks import CANDIDATES, HEAT, VISITS, short_count
from zerogo.picture.panels import mosaic, plane_image, planes_image
from zerogo.picture.text import board_text, candidates_text, grid_text

__all__ = [
    "BLACK",
    "CANDIDATES",
    "HEAT",
    "LINE",
    "MARK",
    "VISITS",
    "WHITE",
    "WOOD",
    "board_image",
    "board_text",
    "candidates_text",
    "grid_text",
    "mosaic",
    "plane_image",
    "planes_image",
    "png",
    "short_count",
    "winrate_chart",
]
