"""The 3x3 pattern around a point, in three classes: the patterns of MoGo (Gelly, Wang, Munos, Teytaud, "Modification of
UCT with patterns in Monte-Carlo Go", 2006), in their eight symmetries and both colours."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from zerogo.symmetry import action_table

CLASSES = ("hane", "cut", "edge move")
# X, O: stones of different colours; x, o: no such stone (the edge counts as none); ?: anything; a blank is off the
# board.
PATTERNS: tuple[tuple[str, ...], ...] = (
    ("XOX ... ???", "XO. ... ?.?", "XO? X.. x.?", ".O. X.. ..."),
    ("XO? O.o ?o?", "XO? O.X ???", "?X? O.O ooo", "OX? o.O ???"),
    ("X.? O.? ___", "OX? X.O ___", "?X? x.O ___", "?XO x.x ___", "?OX X.O ___"),
)
EMPTY, X, O, OFF = range(4)  # noqa: E741
MEANING = {
    ".": {EMPTY},
    "X": {X},
    "O": {O},
    "x": {EMPTY, O, OFF},
    "o": {EMPTY, X, OFF},
    "?": {EMPTY, X, O, OFF},
    "_": {OFF},
}
SWAPPED = str.maketrans("XOxo", "OXox")
AROUND = [point for point in range(9) if point != 4]  # of the 3x3 points, row by row


def pattern_classes(own: Tensor, opponent: Tensor, on_board: Tensor) -> Tensor:
    """Returns the class of the surroundings of each point, 1 to 3 in the order of `CLASSES`, 0 for none: uint8 [B, N,
    N] (0 or 1) three times -> uint8 [B, N, N]."""
    n = own.shape[-1]
    what = OFF * (1 - on_board) + X * own + O * opponent
    padded = torch.nn.functional.pad(what, (1, 1, 1, 1), value=OFF).to(torch.int32)
    code = torch.zeros_like(padded[:, :n, :n])
    for place, point in enumerate(AROUND):
        row, column = divmod(point, 3)
        code |= padded[:, row : row + n, column : column + n] << (2 * place)
    return _table(own.device).index_select(0, code.flatten()).view_as(own)


@cache
def _table(device: torch.device) -> Tensor:
    """Returns the class by the code of the eight points around, two bits each: uint8 [65536]."""
    codes = np.arange(1 << 16)
    table = np.zeros(1 << 16, np.uint8)
    for number, patterns in reversed(list(enumerate(PATTERNS, start=1))):  # of several classes the first
        for text in (both for one in patterns for both in (one, one.translate(SWAPPED))):
            drawn = text.replace(" ", "")
            for turned in {"".join(drawn[source] for source in turn[:-1]) for turn in action_table(3).tolist()}:
                fits = np.ones(len(codes), bool)
                for place, point in enumerate(AROUND):
                    fits &= np.isin((codes >> (2 * place)) & 3, list(MEANING[turned[point]]))
                table[fits] = number
    return torch.from_numpy(table).to(device)
