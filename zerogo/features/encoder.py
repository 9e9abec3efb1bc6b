"""The encoder that a list of groups makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.board import State
from zerogo.features.groups import Form, Group, make_group
from zerogo.features.view import View

FORMS = (Form.ROWS, Form.COUNTS, Form.VALUES)  # of planes, in the order in which kernels number them


class GroupEncoder:
    """The encoder; see `features.Encoder`. With `komi_input` the komi is a global input, unless one of the groups tells
    it anyway.
    """

    def __init__(self, name: str, groups: Sequence[str], komi_input: bool) -> None:
        self.name = name
        made = [make_group(group) for group in groups]
        if komi_input and not any(group.tells_komi for group in made):
            made.append(make_group("komi"))
        self._groups = [group for group in made if group.form is not Form.GLOBALS]
        self._globals = [group for group in made if group.form is Form.GLOBALS]
        self._spans = _spans(self._groups)
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
        view, fast = View(state), kernels.compiled("planes", state.device)
        given = [group.read(view) for group in self._groups]
        if fast is not None:
            planes = fast.paint(self._spans, *self._by_form(given, state), dtype)
        elif all(group.form is Form.ROWS for group in self._groups):
            # Planes innermost: the network wants that memory, and a shift then runs over all words at a time.
            planes = _unpacked(torch.cat(given, dim=2)).to(dtype)
        else:
            parts = zip(self._groups, given, strict=True)
            planes = torch.cat([_points(group.form, group.width, part, dtype) for group, part in parts], dim=-1)
        return planes.permute(0, 3, 1, 2)

    def _by_form(self, given: list[Tensor], state: State) -> tuple[Tensor, Tensor, Tensor]:
        """Returns what the plane groups give as bit rows int32 [B, N, R], numbers int16 [K, B, N, N] and values float32
        [B, N, N, V].
        """
        rows, counts, values = (
            [part for group, part in zip(self._groups, given, strict=True) if group.form is form] for form in FORMS
        )
        empty = state.black.unsqueeze(2)[:, :, :0]
        numbers = (
            torch.stack([part.to(torch.int16) for part in counts])
            if counts
            else empty.new_empty(0, *empty.shape, dtype=torch.int16)
        )
        points = [part.to(torch.float32) for part in values] or [
            empty.new_empty(*empty.shape[:2], 0, 0, dtype=torch.float32)
        ]
        return torch.cat([*rows, empty], dim=2), numbers, torch.cat(points, dim=3)

    def globals(self, state: State) -> Tensor:
        """Returns the global inputs: float32 [B, g]."""
        if not self._globals:
            return torch.zeros(state.num_games, 0, device=state.device)
        view = View(state)
        return torch.cat([group.read(view) for group in self._globals], dim=1)


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


def _spans(groups: list[Group]) -> tuple[tuple[int, int], ...]:
    """Returns which planes come one after the other: the place of their form in `FORMS` and how many they are. Numbers
    come one by one.
    """
    spans = []
    for form, found in groupby(groups, key=lambda group: group.form):
        widths = [group.width for group in found]
        spans += [(FORMS.index(form), width) for width in (widths if form is Form.COUNTS else [sum(widths)])]
    return tuple(spans)


def _numbered(names: list[str]) -> list[str]:
    """Returns the names with a number behind those that come more than once."""
    often, met = Counter(names), Counter()
    result = []
    for name in names:
        met[name] += 1
        result.append(f"{name} ({met[name]})" if often[name] > 1 else name)
    return result
