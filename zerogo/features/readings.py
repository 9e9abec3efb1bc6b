"""Tactics and ladders: what can be read out in positions, exactly and for every point of every game at once.

Both are loops over strings, so there is no torch version: Numba compiles them for the CPU, Triton for CUDA. A device
without kernels of its own, and `run.kernels=plain`, gets them from the CPU's loops, on copies of the bit rows; that
waits for the device. Without Numba the same loops run as Python (2 ms a position of 9x9, 10 to 20 ms of 19x19)."""

from collections import namedtuple
from typing import Any, NamedTuple

from torch import Tensor

from zerogo import kernels
from zerogo.kernels.shared import TACTICS

MOST_ANSWERS, MOST_OF_KATAGO = 1000, 25_000  # that are listed in reading one first move of a ladder


class Tactics(namedtuple("Tactics", TACTICS)):
    """Numbers for every point: int16 [B, N, N] each, 0 where there is nothing to say.

    liberties: of the string on a point. capture_size: the opponent's stones that a move captures. liberties_after,
    size_after: of the string that a move makes, captures taken off; a suicide leaves 0 liberties and the size that is
    lost. self_atari_size: that size where the liberties are 0 or 1. strings_joined: own strings beside a move. All
    these only where a move is legal. opponent_capture_size: own stones that the opponent would capture here.
    weakest_opponent: the fewest liberties of the opponent's strings beside an empty point."""


class Ladders(NamedTuple):
    """The ladders of the strings of Black and of White (in this order): int32 [B, 2, N] each.

    caught: stones of strings that are caught. catching: points where the other side starts a ladder that works, against
    strings with two liberties. escaping: points where the string's own side saves one that is in atari. given_up: int64
    [B], first moves whose reading was given up.

    A string is caught in a ladder if the attacker can keep it in atari until it is taken: a string with two liberties
    where the attacker moves first, one with a single liberty where even the defender's move does not help. The attacker
    plays one of the two liberties; the defender extends, or takes a string in atari that touches the one in danger.
    Three liberties save it, and so does the defender's turn with a ko that the attacker has just opened: ladders that
    depend on a ko are not counted as working (KataGo's `searchIsLadderCaptured`). A ko that stands at the start bans
    nobody; suicide counts as no move; superko is not looked at. A first move whose reading lists more than
    `MOST_ANSWERS` answers counts as not working.

    KataGo's own ladders differ in four ways: a ladder may begin with a ko, which the defender may take back at once; a
    standing ban bans the attacker's first move, whoever attacks; the attacker has won where both liberties are takes of
    a ko that the defender can't connect out of; and a reading may list `MOST_OF_KATAGO` answers."""

    caught: Tensor
    catching: Tensor
    escaping: Tensor
    given_up: Tensor


def read_tactics(own_stones: Tensor, opponent: Tensor, on_board: Tensor, legal: Tensor) -> Tactics:
    """Returns the tactics of B positions from bit rows int32 [B, N]: own_stones, opponent: of the side to move and of
    the other; legal: where the side to move may play."""
    return Tactics(*_read("tactics", own_stones, opponent, on_board, legal))


def read_ladders(
    black: Tensor, white: Tensor, on_board: Tensor, mover: Tensor | None = None, ko: Tensor | None = None
) -> Ladders:
    """Returns what ladders there are in B positions, whoever is to move, from bit rows int32 [B, N].

    mover: int8 [B]; only the moves that this side may make at once, at half the cost: against the opponent's strings
    with two liberties, and with own strings in atari. ko: int16 [B], the point that the simple ko rule bans, -1 for
    none; with it the ladders are KataGo's."""
    max_answers = MOST_ANSWERS if ko is None else MOST_OF_KATAGO
    return Ladders(*_read("ladders", black, white, on_board, mover, max_answers, ko))


def _read(name: str, *arguments: Any) -> list[Tensor]:
    device = arguments[0].device
    fast = kernels.module_for(name, device)
    if fast is not None:
        return fast.read(*arguments)
    on_host = [value.cpu() if isinstance(value, Tensor) else value for value in arguments]
    return [tensor.to(device) for tensor in kernels.cpu_loops(name).read(*on_host)]
