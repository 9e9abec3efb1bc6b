"""From positions to what a network sees: encoders, made of groups of planes and of global inputs.

`encoder` names the encodings of the literature, as lists of groups. A config names one of them, or gives its own list.
The simplest, zero17, consists of two groups of stones."""

from zerogo.features.encoder import ENCODERS, Encoder, make_encoder, on_board_mask
from zerogo.features.groups import GROUPS

__all__ = ["ENCODERS", "GROUPS", "Encoder", "make_encoder", "on_board_mask"]
