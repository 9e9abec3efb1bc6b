"""From positions to what a network sees: encoders behind one interface, made of groups of planes and of global inputs.

An encoder is a list of groups (`groups`): its planes are the groups' planes one after the other. `ENCODERS` holds the
encodings of the literature under their names; a config may name one, or hold a list of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from zerogo import flood
from zerogo.errors import InputError
from zerogo.features import global_groups, plane_groups  # noqa: F401 (they enter their groups)
from zerogo.features.encoder import GroupEncoder
from zerogo.features.groups import GROUPS
from zerogo.features.presets import ENCODERS

if TYPE_CHECKING:
    from zerogo.board import State

__all__ = ["GROUPS", "ENCODERS", "Encoder", "make_encoder", "on_board_mask"]


class Encoder(Protocol):
    """What every encoder offers: the side to move's view. Swapping the colours and the mover changes nothing but colour
    constants.

    name: a preset's, or the names of the groups. num_planes: C. num_globals: g, numbers that belong to a whole
    position. history: earlier positions that it looks at. The eight transforms of the board turn the planes and leave
    the global inputs alone."""

    name: str
    num_planes: int
    num_globals: int
    history: int

    def planes(self, state: State, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the planes: [B, C, N, N] in channels_last memory, zero off the board."""

    def globals(self, state: State) -> Tensor:
        """Returns the global inputs: float32 [B, g]."""

    def plane_names(self) -> list[str]:
        """Returns what each plane shows."""

    def global_names(self) -> list[str]:
        """Returns what each global input tells."""


def make_encoder(name: str | Sequence[str], komi_input: bool) -> Encoder:
    """Returns the encoder of a preset's name or of a list of groups, with komi among its global inputs if asked and not
    told already.

    Raises InputError for an unknown preset or group, and where no group gives planes.
    """
    if isinstance(name, str):
        if name not in ENCODERS:
            raise InputError(
                f"features.encoder is {name!r}; allowed are {', '.join(ENCODERS)}, or a list of plane groups"
            )
        return GroupEncoder(name, ENCODERS[name], komi_input)
    encoder = GroupEncoder(", ".join(name), name, komi_input)
    if not encoder.num_planes:
        raise InputError(f"features.encoder is [{encoder.name}]; at least one of the groups must give planes")
    return encoder


def on_board_mask(state: State) -> Tensor | None:
    """Returns which points exist: bool [B, N, N], or None where all do, so that a batch of one size pays nothing for
    it.
    """
    return None if state.rules.same_size else flood.unpack_rows(state.on_board)
