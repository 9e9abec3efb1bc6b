"""The rules' inner operations, game after game: legal points, one move, strings in atari.

They stand in for the functions of the same names in `zerogo.board` and give the same, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo.kernels.cpu.loops import array, kernel, over_games
from zerogo.kernels.cpu.strings import (
    ATARI,
    FREE,
    OTHER,
    OWN,
    SEVERAL,
    STRING,
    TAKEN,
    WEAK,
    legal_into,
    load,
    move,
    scratch,
    string,
)
from zerogo.kernels.cpu.superko import repeating_rows

__all__ = ["find_atari", "legal_rows", "play", "repeating_rows"]
FIELDS = ("black", "white", "atari", "to_play", "passes", "ply", "ko", "hash", "captures", "finished")


def legal_rows(position: Any, on_board: Tensor, suicide: Tensor | None) -> Tensor:
    """Returns the points that may be played but for superko: int32 [B, N]; see `board.position.legal_rows`."""
    legal = np.empty(position.black.shape, np.int32)
    over_games(legal_loop, len(legal), *legal_fields(position), array(on_board), flags(suicide, len(legal)), legal)
    return torch.from_numpy(legal)


def legal_fields(position: Any) -> list[np.ndarray]:
    """Returns what `legal_loop` needs of positions."""
    return [array(getattr(position, name)) for name in ("black", "white", "atari", "to_play", "ko", "finished")]


def flags(suicide: Tensor | None, num_games: int) -> np.ndarray:
    """Returns bool [B], False throughout where there is no tensor."""
    return np.zeros(num_games, bool) if suicide is None else array(suicide)


@kernel
def legal_loop(start, stop, black, white, atari, to_play, ko, finished, on_board, suicide, legal):
    size = black.shape[1]
    work = scratch()
    for game in range(start, stop):
        if finished[game]:
            for row in range(size):
                legal[game, row] = 0
            continue
        load(work, black, white, atari, on_board, game, to_play[game] == 1)
        legal_into(work, size, OWN, ko[game], suicide[game])
        for row in range(size):
            legal[game, row] = work[WEAK + 1 + row]


def play(
    position: Any, actions: Tensor, on_board: Tensor, suicide: Tensor | None, cap: Tensor, keys: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """Returns the fields of the positions after one action each, and the removed stones int32 [B, 2, N] (black, white);
    see `board.position.play`."""
    arguments, after, removed = play_arguments(position, actions, on_board, suicide, cap, keys)
    over_games(play_loop, len(removed), *arguments)
    return {name: torch.from_numpy(field) for name, field in after.items()}, torch.from_numpy(removed)


def play_arguments(
    position: Any, actions: Tensor, on_board: Tensor, suicide: Tensor | None, cap: Tensor, keys: Tensor
) -> tuple[list[np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """Returns what `play_loop` is called with, the actions first, and what it writes: the fields and the removed
    stones.
    """
    before = [array(getattr(position, name)) for name in FIELDS]
    after = {name: np.empty_like(field) for name, field in zip(FIELDS, before, strict=True)}
    removed = np.zeros((len(before[0]), 2, before[0].shape[1]), np.int32)
    rules = (array(actions), array(on_board), flags(suicide, len(removed)), array(cap), array(keys))
    return [*rules, *before, *after.values(), removed], after, removed


@kernel
def play_loop(
    start,
    stop,
    actions,
    on_board,
    suicide,
    cap,
    keys,
    black,
    white,
    atari,
    to_play,
    passes,
    ply,
    ko,
    hashes,
    captures,
    finished,
    new_black,
    new_white,
    new_atari,
    new_to_play,
    new_passes,
    new_ply,
    new_ko,
    new_hashes,
    new_captures,
    new_finished,
    removed,
):
    size = black.shape[1]
    work = scratch()
    for game in range(start, stop):
        for row in range(size):
            new_black[game, row], new_white[game, row], new_atari[game, row] = (
                black[game, row],
                white[game, row],
                atari[game, row],
            )
        new_captures[game, 0], new_captures[game, 1] = captures[game, 0], captures[game, 1]
        new_to_play[game], new_passes[game], new_ply[game] = to_play[game], passes[game], ply[game]
        new_ko[game], new_hashes[game], new_finished[game] = ko[game], hashes[game], finished[game]
        if finished[game]:
            continue
        action, colour = actions[game], to_play[game] - 1
        if not 0 <= action <= size * size:
            raise IndexError("an action is beyond the board")
        new_to_play[game], new_ply[game], new_ko[game] = 2 - colour, ply[game] + 1, -1
        new_passes[game] = 0
        if action == size * size:
            new_passes[game] = passes[game] + 1
        else:
            load(work, black, white, atari, on_board, game, colour == 0)
            key, number, whose, new_ko[game] = move(work, size, action, colour, suicide[game], keys)
            first, second = (OWN + 1, OTHER + 1) if colour == 0 else (OTHER + 1, OWN + 1)
            for row in range(size):
                new_black[game, row], new_white[game, row] = work[first + row], work[second + row]
                new_atari[game, row] = work[ATARI + 1 + row]
            new_hashes[game] ^= key
            if number > 0:
                new_captures[game, 1 - whose] += number
                for row in range(size):
                    removed[game, whose, row] = work[TAKEN + 1 + row]
        new_finished[game] = new_passes[game] >= 2 or new_ply[game] >= cap[game]


def find_atari(black: Tensor, white: Tensor, on_board: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones whose string has exactly one liberty, and those whose string has none: int32 [B, N] each."""
    atari, without = np.zeros((2, *black.shape), np.int32)
    over_games(_find_atari, len(black), array(black), array(white), array(on_board), atari, without)
    return torch.from_numpy(atari), torch.from_numpy(without)


@kernel
def _find_atari(start, stop, black, white, on_board, atari, without):
    size = black.shape[1]
    work = scratch()
    for game in range(start, stop):
        load(work, black, white, atari, on_board, game, True)
        for plane in (OWN, OTHER):
            for row in range(1, 1 + size):
                while work[plane + row] != 0:
                    liberties = string(work, plane, FREE, row, work[plane + row] & -work[plane + row], False)
                    for r in range(size):
                        found = work[STRING + 1 + r]
                        work[plane + 1 + r] &= ~found
                        if liberties == 1:
                            atari[game, r] |= found
                        elif liberties != SEVERAL:
                            without[game, r] |= found
