"""From positions to what a network sees: encoders, made of groups of planes and of global inputs.

`encoder` holds the encodings of the literature under their names, as lists of groups; a config may name one, or hold a
list of its own. zero17, the plainest, consists of two groups of `stones`."""

from zerogo.features.encoder import ENCODERS, Encoder, make_encoder, on_board_mask
from zerogo.features.groups import GROUPS

__all__ = ["ENCODERS", "GROUPS", "Encoder", "make_encoder", "on_board_mask"]
