"""Encoders: from a batch of positions to the network's planes and global inputs.

An encoder is a list of groups (see `groups`); its planes are the groups' planes one after the other."""

from collections.abc import Sequence

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.board import State, flood
from zerogo.errors import InputError, quote
from zerogo.features.groups import Group, make_group
from zerogo.features.view import View
from zerogo.kernels.shared import COUNTS, GLOBALS, ROWS, VALUES

ENCODERS: dict[str, tuple[str, ...]] = {
    # Silver et al., "Mastering the game of Go without human knowledge", 2017.
    "zero17": ("history:7", "colour"),
    # Silver et al., "Mastering the game of Go with deep neural networks and tree search", 2016, Extended Data Table 2.
    "alphago48": (
        "stones", "empty", "on_board", "turns_since:8", "liberties:8", "capture_size:8", "self_atari_size:8",
        "liberties_after:8", "ladder_capture", "ladder_escape", "sensible", "zeros:1",
    ),
    # KataGo, version 7 of its inputs, to the bit; its planes 7, 8, 20 and 21 show what zerogo's rules lack.
    "katago22": (
        "on_board", "stones", "few_liberties:3", "bans", "zeros:2", "last_moves:5", "laddered:3", "ladder_start",
        "area", "zeros:2", "last_passes:5", "katago_komi", "katago_rules", "komi_parity",
    ),
    # Two tutorial articles, which describe other planes under the names of AlphaGo's 48 and KataGo's 22.
    "article48": (
        "colours", "empty", "colour_history:7", "own_liberties:4", "opponent_liberties:4", "capture_size:4",
        "opponent_capture_size:4", "own_ladders", "opponent_ladders", "legal", "edge_distance:4",
    ),
    "article22": ("colours", "empty", "on_board", "colour", "last_moves:5", "ko", "ko_takes", "rule_planes"),
    # The features of programs before networks, without stones: combine it with `stones`.
    "handcrafted": (
        "pattern", "captures", "connects", "makes_eye", "scaled_liberties_after", "scaled_weakest",
        "scaled_edge_distance",
    ),
}  # fmt: skip
# AlphaGo's value network had one plane more than its policy network.
ENCODERS["alphago49"] = (*ENCODERS["alphago48"], "colour")


class Encoder:
    """Encodes positions from the side to move's view. Swapping the colours and the side to move changes only colour
    constants. The eight transforms of the board transform the planes and leave the global inputs unchanged.

    name: a preset's, or the names of the groups. plane_names: of the C planes; global_names: of the g global inputs;
    all are different. With `komi_input` the komi is a global input, unless a group has it already. readers: see
    `kernels.readers_of`."""

    def __init__(self, name: str, groups: Sequence[str], komi_input: bool) -> None:
        self.name, self.readers = name, kernels.readers_of(groups)
        all_groups = [make_group(group) for group in groups]
        if komi_input and not any(group.tells_komi for group in all_groups):
            all_groups.append(make_group("komi"))
        self._groups = [group for group in all_groups if group.form != GLOBALS]
        self._globals = [group for group in all_groups if group.form == GLOBALS]
        self._spans = tuple((group.form, len(group.names)) for group in self._groups)
        self.plane_names, self.global_names = _names(self._groups), _names(self._globals)
        self.num_planes, self.num_globals = len(self.plane_names), len(self.global_names)

    def planes(self, state: State, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the planes: [B, C, N, N] of the given dtype, in channels_last memory, zero off the board."""
        view, fast = View(state), kernels.module_for("planes", state.device)
        readings = [group.read(view) for group in self._groups]
        if fast is None:
            pieces = [_points(group, reading).to(dtype) for group, reading in zip(self._groups, readings, strict=True)]
            planes = torch.cat(pieces, dim=-1)
        else:
            planes = fast.paint(self._spans, *self._bits(readings, state), dtype)
            places = planes.split([width for _, width in self._spans], dim=-1)
            for group, place, reading in zip(self._groups, places, readings, strict=True):
                if group.form == VALUES:
                    place.copy_(reading)
        return planes.permute(0, 3, 1, 2)

    def _bits(self, readings: list[Tensor], state: State) -> tuple[Tensor, Tensor]:
        """Returns the bit rows and the counts of all groups: int32 [B, R, N] and int16 [K, B, N, N]."""
        rows, counts = (
            [reading for group, reading in zip(self._groups, readings, strict=True) if group.form == form]
            for form in (ROWS, COUNTS)
        )
        num_games, size = state.black.shape
        no_rows = state.black.new_zeros(num_games, 0, size)
        no_counts = state.black.new_zeros(0, num_games, size, size, dtype=torch.int16)
        return torch.cat([no_rows, *rows], dim=1), torch.stack(counts) if counts else no_counts

    def globals(self, state: State) -> Tensor:
        """Returns the global inputs: float32 [B, g]."""
        view = View(state)
        inputs = [group.read(view) for group in self._globals]
        return torch.cat(inputs, dim=1) if inputs else torch.zeros(state.num_games, 0, device=state.device)


def make_encoder(name: str | Sequence[str], komi_input: bool) -> Encoder:
    """Returns the encoder of a preset or of a list of groups. With `komi_input`, the komi is among its global inputs if
    no group has it already.

    Raises InputError for an unknown preset or group, and if no group has planes."""
    if isinstance(name, str):
        if name not in ENCODERS:
            allowed = ", ".join(ENCODERS)
            raise InputError(f"features.encoder is {quote(name)}; allowed are {allowed}, or a list of plane groups")
        return Encoder(name, ENCODERS[name], komi_input)
    encoder = Encoder(", ".join(name), name, komi_input)
    if not encoder.num_planes:
        raise InputError(f"features.encoder is [{encoder.name}]; at least one of the groups must give planes")
    return encoder


def on_board_mask(state: State) -> Tensor | None:
    """Returns which points exist: bool [B, N, N], or None if all do, so that a batch of one size costs nothing."""
    return None if state.rules.same_size else flood.unpack_rows(state.on_board)


def _points(group: Group, reading: Tensor) -> Tensor:
    """Returns a group's result as points: [B, N, N, c]."""
    if group.form == ROWS:
        columns = torch.arange(reading.shape[2], dtype=torch.int32, device=reading.device).view(-1, 1)
        return (reading.transpose(1, 2).unsqueeze(2) >> columns) & 1
    if group.form == COUNTS:
        numbers = torch.arange(1, len(group.names) + 1, dtype=reading.dtype, device=reading.device)
        return reading.clamp(max=len(group.names)).unsqueeze(-1) == numbers
    return reading


def _names(groups: Sequence[Group]) -> list[str]:
    """Returns the groups' names of planes or inputs, with a number after those that occur more than once."""
    names = [name for group in groups for name in group.names]
    return [
        f"{name} ({names[: index + 1].count(name)})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]
