"""The encoder that a list of groups makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from zerogo import flood
from zerogo.board import State
from zerogo.features.groups import Form, Group, make_group
from zerogo.features.view import View

CANVAS = 16384  # points that are painted at a time: with 48 planes 800 KB
BFLOAT16_ONE = np.uint16(0x3F80)  # the bits of a 1
CHUNK = 8  # bit planes that are unpacked at once on the host: their bits at a point make a byte


class GroupEncoder:
    """The encoder; see `features.Encoder`. With `komi_input` the komi is a global input, unless one of the groups tells it anyway."""

    def __init__(self, name: str, groups: Sequence[str], komi_input: bool) -> None:
        self.name = name
        made = [make_group(group) for group in groups]
        if komi_input and not any(group.tells_komi for group in made):
            made.append(make_group("komi"))
        self._groups = [group for group in made if group.form is not Form.GLOBALS]
        self._globals = [group for group in made if group.form is Form.GLOBALS]
        self._runs = _runs(self._groups)
        self.num_planes = sum(group.width for group in self._groups)
        self.num_globals = sum(group.width for group in self._globals)
        self.history = max((group.history for group in made), default=0)

    def plane_names(self) -> list[str]:
        """Returns what each plane shows, all different."""
        return _numbered([name for group in self._groups for name in group.names])

    def global_names(self) -> list[str]:
        """Returns what each global input tells, all different."""
        return _numbered([name for group in self._globals for name in group.names])

    def planes(self, state: State, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the planes: [B, C, N, N] of the given dtype, in channels_last memory, zero off the board."""
        if all(group.form is Form.ROWS for group in self._groups):
            # Planes innermost: the network wants that memory, and a shift then runs over all words at a time.
            planes = _unpacked(torch.cat(self._read(state), dim=2)).to(dtype)
        elif flood.may_look(state.black):
            planes = self._painted(state, dtype)
        else:
            parts = zip(self._groups, self._read(state), strict=True)
            planes = torch.cat([_points(group.form, group.width, given, dtype) for group, given in parts], dim=-1)
        return planes.permute(0, 3, 1, 2)

    def _read(self, state: State) -> list[Tensor]:
        """Returns what the plane groups give."""
        view = View(state)
        return [group.read(view) for group in self._groups]

    def globals(self, state: State) -> Tensor:
        """Returns the global inputs: float32 [B, g]."""
        if not self._globals:
            return torch.zeros(state.num_games, 0, device=state.device)
        view = View(state)
        return torch.cat([group.read(view) for group in self._globals], dim=1)

    def _painted(self, state: State, dtype: torch.dtype) -> Tensor:
        """Returns the planes [B, N, N, C], on the host. In one thread: two that share the games out take turns at Python's lock, and took
        a third longer than one."""
        size = state.board_size
        planes = torch.empty(state.num_games, size * size, self.num_planes, dtype=dtype)
        self._paint(state, planes.flatten(0, 1))
        return planes.unflatten(1, (size, size))

    def _paint(self, state: State, planes: Tensor) -> None:
        """Writes the planes into [B * P, C]: as bytes on a canvas that stays in the cache, then in the dtype; what is not 0 or 1 last.

        Planes of a point lie side by side, so up to eight are written at once, looked up by the number that they stand for.
        """
        strokes, others = self._strokes(View(state))
        canvas = np.empty((min(CANVAS, len(planes)), self.num_planes), np.uint8)
        for first in range(0, len(planes), CANVAS):
            part = canvas[: len(planes) - first]
            for columns, words, numbers in strokes:
                part[:, columns].view(words.dtype)[:, 0] = words.take(numbers[first : first + CANVAS])
            _convert(part, planes[first : first + CANVAS])
        for columns, values in others:
            planes[:, columns] = values.flatten(0, 2).to(planes.dtype)

    def _strokes(self, view: View) -> tuple[list[tuple[slice, np.ndarray, np.ndarray]], list[tuple[slice, Tensor]]]:
        """Returns what to write on the canvas: which planes, the bytes by number [2^c or c + 1] and the numbers [B * P]; and the planes
        that can't be written so."""
        strokes, others = [], []
        for columns, run in self._runs:
            given = [group.read(view) for group in run]
            if run[0].form is Form.ROWS:
                strokes += _codes(columns.start, given)
            elif run[0].form is Form.COUNTS:
                strokes.append((columns, _one_hot_words(run[0].width), np.minimum(given[0].numpy(), run[0].width).reshape(-1)))
            else:
                others.append((columns, given[0]))
        return strokes, others


def _unpacked(rows: Tensor) -> Tensor:
    """Returns bit rows as points: int32 [B, N, c] -> int32 [B, N, N, c], 0 or 1."""
    columns = torch.arange(rows.shape[1], dtype=torch.int32, device=rows.device).view(-1, 1)
    return (rows.unsqueeze(2) >> columns) & 1


def _points(form: Form, width: int, given: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns what a group gives as points: [B, N, N, width] of the dtype."""
    if form is Form.ROWS:
        return _unpacked(given).to(dtype)
    if form is Form.COUNTS:
        numbers = torch.arange(1, width + 1, dtype=given.dtype, device=given.device)
        return (given.clamp(max=width).unsqueeze(-1) == numbers).to(dtype)
    return given.to(dtype)


def _runs(groups: list[Group]) -> list[tuple[slice, list[Group]]]:
    """Returns the groups that are painted together, and where: neighbours that give bit rows, every other group alone."""
    runs, end = [], 0
    for is_rows, found in groupby(groups, key=lambda group: group.form is Form.ROWS):
        together = list(found)
        for run in [together] if is_rows else [[group] for group in together]:
            start, end = end, end + sum(group.width for group in run)
            runs.append((slice(start, end), run))
    return runs


def _codes(start: int, rows: list[Tensor]) -> list[tuple[slice, np.ndarray, np.ndarray]]:
    """Returns bit planes, int32 [B, N, c] each, of which the first is plane `start`, as strokes: eight at a time, their bits at a point a
    number."""
    size, strokes = rows[0].shape[1], []
    planes = [plane for part in rows for plane in np.ascontiguousarray(part.permute(2, 0, 1).numpy(), "<i2" if size <= 16 else "<i4")]
    for first in range(0, len(planes), CHUNK):
        chunk = planes[first : first + CHUNK]
        code = _bits(chunk[-1])
        for plane in chunk[-2::-1]:
            code += code  # an eighth of the time of a shift
            code |= _bits(plane)
        code = code.reshape(-1, 8 * chunk[0].itemsize)[:, :size].reshape(-1)
        strokes.append((slice(start + first, start + first + len(chunk)), _bit_words(len(chunk)), code))
    return strokes


def _bits(plane: np.ndarray) -> np.ndarray:
    """Returns the bits of words one after the other: little-endian [B, N] -> uint8 [B * N * 16 or 32]; all of them: that is fastest."""
    return np.unpackbits(plane.reshape(-1).view(np.uint8), bitorder="little")


def _convert(canvas: np.ndarray, planes: Tensor) -> None:
    """Writes bytes 0 and 1 as numbers: uint8 [K, C], [K, C] of any dtype. In NumPy, which starts no threads of its own."""
    if planes.dtype == torch.float32:
        np.copyto(planes.numpy(), canvas)
    elif planes.dtype == torch.bfloat16:
        np.multiply(canvas, BFLOAT16_ONE, out=planes.view(torch.int16).numpy().view(np.uint16))
    else:
        planes.copy_(torch.from_numpy(canvas))


@cache
def _one_hot_words(width: int) -> np.ndarray:
    """Returns the planes of the numbers 0 to c as words of c bytes: [c + 1]."""
    return np.eye(width + 1, dtype=np.uint8)[:, 1:].copy().view(f"V{width}")[:, 0]


@cache
def _bit_words(width: int) -> np.ndarray:
    """Returns the planes that the bits of a number stand for as words of c bytes: [2^c]."""
    bits = (np.arange(1 << width)[:, None] >> np.arange(width)) & 1
    return bits.astype(np.uint8).view(f"V{width}")[:, 0]


def _numbered(names: list[str]) -> list[str]:
    """Returns the names with a number behind those that come more than once."""
    often, met = Counter(names), Counter()
    result = []
    for name in names:
        met[name] += 1
        result.append(f"{name} ({met[name]})" if often[name] > 1 else name)
    return result
