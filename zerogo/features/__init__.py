"""From positions to what a network sees: encoders behind one interface, made by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from zerogo import flood
from zerogo.errors import InputError
from zerogo.features.zero17 import Zero17

if TYPE_CHECKING:
    from zerogo.board import State


class Encoder(Protocol):
    """What every encoder offers: the side to move's view. Swapping the colours and the mover changes nothing but colour constants.

    name: as in the config. num_planes: C. num_globals: g, numbers that belong to a whole position. history: earlier positions that it
    looks at.
    """

    name: str
    num_planes: int
    num_globals: int
    history: int

    def planes(self, state: State, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the planes: [B, C, N, N] in channels_last memory, zero off the board."""

    def globals(self, state: State) -> Tensor:
        """Returns the global inputs: float32 [B, g]."""


ENCODERS: dict[str, Callable[[bool], Encoder]] = {"zero17": Zero17}


def make_encoder(name: str, komi_input: bool) -> Encoder:
    """Returns the encoder of that name, with komi among its global inputs if asked. Raises InputError for an unknown name."""
    if name not in ENCODERS:
        raise InputError(f"features.encoder is {name!r}; allowed are {', '.join(ENCODERS)}")
    return ENCODERS[name](komi_input)


def on_board_mask(state: State) -> Tensor | None:
    """Returns which points exist: bool [B, N, N], or None where all do, so that a batch of one size pays nothing for it."""
    return None if state.rules.same_size else flood.unpack_rows(state.on_board)
