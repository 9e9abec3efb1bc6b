"""What the kernels of both devices and the torch operations that they stand in for must agree on."""

from __future__ import annotations

# In a search's trees.
NULL_NODE, ROOT = 0, 1  # nodes that every tree has
UNVISITED, CLOSED = (
    0,
    -1,
)  # a child that has no node yet (it is nowhere); a move that is illegal, or was found to repeat a position
TINY = 1e-20  # a prior of 0 would be a logit of -inf for a legal move

# What planes are made of, see `kernels.cpu.planes.paint`.
ROWS, NUMBERS, VALUES = range(3)

# What `tactics.read` gives, in this order; `features.tactics.Tactics` says what they are.
TACTICS = (
    "liberties", "capture_size", "opponent_capture_size", "liberties_after", "size_after", "self_atari_size", "strings_joined",
    "weakest_opponent",
)  # fmt: skip
