"""Tactics and ladders, read out exactly for every point of every game at once.

Both are loops over strings, so there is no torch version: Numba compiles them for the CPU, Triton for CUDA. Devices
without kernels, and `run.kernels=plain`, use the CPU's loops on copies of the bit rows, which waits for the device.
Without Numba the same loops run as Python (2 ms per position of 9x9, 10 to 20 ms of 19x19)."""

from collections import namedtuple
from typing import Any, NamedTuple

from torch import Tensor

from zerogo import kernels
from zerogo.kernels.shared import TACTICS

MOST_ANSWERS, MOST_OF_KATAGO = 1000, 25_000  # listed while reading one first move of a ladder


class Tactics(namedtuple("Tactics", TACTICS)):
    """Numbers for every point: int16 [B, N, N] each, 0 where they do not apply.

    liberties: of the string on a point. capture_size: the opponent's stones that a move captures. liberties_after,
    size_after: of the string after a move and its captures; a suicide has 0 liberties and the size that is lost.
    self_atari_size: that size where the liberties are 0 or 1. strings_joined: own strings next to a move. All of these,
    but liberties, are 0 where a move is illegal. opponent_capture_size: own stones that the opponent would capture
    here. weakest_opponent: the fewest liberties of the opponent's strings next to an empty point."""


class Ladders(NamedTuple):
    """The ladders of the strings of Black and of White (in this order): int32 [B, 2, N] each.

    caught: stones of strings that are caught. catching: points where the opponent starts a working ladder, against
    strings with two liberties. escaping: points where the string's own side saves a string in atari. given_up: int64
    [B], how many first moves were given up.

    A string is caught in a ladder if the attacker can keep it in atari until it is captured: a string with two
    liberties if the attacker moves first, a string with one liberty even if the defender moves first. The attacker
    plays one of the two liberties; the defender extends, or captures a string in atari that touches the one in danger.
    Three liberties save the string, and so does a ko that the attacker has just opened, on the defender's turn: ladders
    that depend on a ko do not count as working (KataGo's `searchIsLadderCaptured`). A ko ban at the start is ignored,
    suicide is no move, and superko is ignored. A first move whose reading lists more than `MOST_ANSWERS` answers counts
    as not working.

    KataGo's own ladders differ in four ways: a ladder may begin with a ko, which the defender may retake at once; a ko
    ban at the start applies to the attacker's first move, whoever attacks; the attacker wins if both liberties are ko
    captures that the defender can't connect out of; and a reading may list `MOST_OF_KATAGO` answers."""

    caught: Tensor
    catching: Tensor
    escaping: Tensor
    given_up: Tensor


def read_tactics(own_stones: Tensor, opponent: Tensor, on_board: Tensor, legal: Tensor) -> Tactics:
    """Returns the tactics of B positions, from bit rows int32 [B, N]: the stones of the side to move and of its
    opponent, and the legal points."""
    return Tactics(*_read("tactics", own_stones, opponent, on_board, legal))


def read_ladders(
    black: Tensor, white: Tensor, on_board: Tensor, mover: Tensor | None = None, ko: Tensor | None = None
) -> Ladders:
    """Returns the ladders in B positions, for either side to move, from bit rows int32 [B, N].

    mover: int8 [B]; if given, only the moves of this side are read, at half the cost: against the opponent's strings
    with two liberties, and for own strings in atari. ko: int16 [B], the point that the simple ko rule bans, -1 for
    none; if given, the ladders are KataGo's."""
    max_answers = MOST_ANSWERS if ko is None else MOST_OF_KATAGO
    return Ladders(*_read("ladders", black, white, on_board, mover, max_answers, ko))


def _read(name: str, *arguments: Any) -> list[Tensor]:
    device = arguments[0].device
    if (fast := kernels.module_for(name, device)) is not None:
        return getattr(fast, f"read_{name}")(*arguments)
    on_host = [value.cpu() if isinstance(value, Tensor) else value for value in arguments]
    return [tensor.to(device) for tensor in getattr(kernels.cpu_loops(name), f"read_{name}")(*on_host)]
