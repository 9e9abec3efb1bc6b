"""Positions for the tests of encoders, evaluators and training: random games, the same seen otherwise, ladders."""

import dataclasses
import json
import random
from collections.abc import Iterator
from pathlib import Path

import torch
from ladder_reader import board_of
from tables import tables
from torch import Tensor

from zerogo import board
from zerogo.game import Board, Point
from zerogo.rules import Rules


def play_random(rules: list[Rules], plies: int, seed: int = 0, start: board.State | None = None) -> board.State:
    """Returns games after random legal moves, passes only where nothing else is legal."""
    generator = torch.Generator().manual_seed(seed)
    state = start or board.new_games(len(rules), rules)
    for _ in range(plies):
        weights = board.legal_actions(state).to(torch.float32)
        weights[:, -1] = 1e-6
        state = board.step(state, torch.multinomial(weights, 1, generator=generator).squeeze(1))
    return state


def stored(state: board.State) -> board.State:
    """Returns the games without what samples do not keep."""
    nothing = {"atari": None, "hash": None, "seen": state.seen[:, :0], "links": state.links[:, :0]}
    return dataclasses.replace(state, **nothing, lost=torch.zeros_like(state.lost))


PATTERNS = tables("ladders")["patterns"]


def ladder_positions(count: int, seed: int) -> Iterator[list[list[int]]]:
    """Yields positions with a ladder about to start or under way, of any angle and colour, with breakers strewn in."""
    rng = random.Random(seed)
    while count:
        size = rng.choice((7, 9, 9, 11, 13, 19))
        rows = [[0] * size for _ in range(size)]
        top, left = rng.randrange(size - 4), rng.randrange(size - 4)
        for row, line in enumerate(rng.choice(PATTERNS).split("/")):
            for column, sign in enumerate(line):
                rows[top + row][left + column] = ".OX".index(sign) if sign != "." else 0
        for _ in range(rng.choice((0, 1, 2, 4, 8, size))):
            row, column = rng.randrange(size), rng.randrange(size)
            if rows[row][column] == 0:
                rows[row][column] = rng.choice((1, 2))
        if rng.random() < 0.5:
            rows = [[3 - colour if colour else 0 for colour in row] for row in rows]
        for _ in range(rng.randrange(4)):
            rows = [list(row) for row in zip(*rows[::-1], strict=True)]
        if rng.random() < 0.5:
            rows = [row[::-1] for row in rows]
        rows = _played_on(rows, rng)
        if all(string.liberties for string in board_of(rows).strings()):
            count -= 1
            yield rows


def _played_on(rows: list[list[int]], rng: random.Random) -> list[list[int]]:
    """Returns the position after some plies of the ladder: the weakest string runs and is chased."""
    played = board_of(rows)
    for _ in range(rng.choice((0, 0, 1, 2, 3, 5, 8, 13))):
        weak = [string for string in played.strings() if 1 <= len(string.liberties) <= 2]
        if not weak or any(not string.liberties for string in played.strings()):
            break
        string = max(weak, key=lambda string: (len(string.stones), min(string.stones)))
        mover = string.colour if len(string.liberties) == 1 else string.colour.other
        move = rng.choice(sorted(string.liberties))
        if move in played.removed_by(mover, move):
            break
        played = played.after(mover, move)
    return rows_of(played)


def rows_of(played: Board) -> list[list[int]]:
    """Returns the rows of a board of one game, the inverse of `board_of`."""
    size = range(played.size)
    return [[getattr(played.colour_at(Point(row, column)), "value", 0) for column in size] for row in size]


def with_liberties(rows: list[list[int]]) -> list[list[int]]:
    """Returns the position without the strings that have no liberty."""
    played = board_of(rows)
    return rows_of(played.without(s for string in played.strings() if not string.liberties for s in string.stones))


# Black (X) chases White (O). By name: a diagram, Black's first moves that work against strings with two liberties,
# White's moves that save strings in atari, and a stone of each of White's strings that is caught. In "not by a ko"
# White's stone on B5 is caught from C5; from A5 Black would take A4, but in a ko, which White is taken to win.
FILE = json.loads((Path(__file__).parent / "data" / "ladders.json").read_text())
CLASSICAL = {name: ("\n".join(case.pop("rows")), *case.values()) for name, case in FILE.items()}


def of_stones(rows: list[list[list[int]]] | Tensor, to_play: list[int] | int = 1, **rules) -> board.State:
    """Returns positions of boards of one size; to_play: of each, or of all."""
    stones = torch.as_tensor(rows).to(torch.int8)
    movers = torch.full((len(stones),), to_play) if isinstance(to_play, int) else torch.tensor(to_play)
    return board.from_stones(stones, movers.to(torch.int8), Rules(stones.shape[1], **rules))


def by_size(positions: Iterator[list[list[int]]]) -> list[list[list[list[int]]]]:
    """Returns the positions of each size together."""
    found: dict[int, list] = {}
    for rows in positions:
        found.setdefault(len(rows), []).append(rows)
    return list(found.values())
