"""What the rules need of a position, and one move in all games at once.

The key to the speed is `atari`: the stones whose string has exactly one liberty. With it, legality of every point of a
board is one look at the neighbours, and a move can only change the strings that it touches: its own, at most four of
the opponent's, and those beside what it captured. No other string is looked at. `find_atari` recomputes it from nothing
and is what the tests hold it against.

`find_atari`, `legal_rows` and `play` stand here as torch operations that never wait for a device; where there are
kernels they hand over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from zerogo import flood, kernels
from zerogo.board import zobrist
from zerogo.tensors import TensorFields

BLACK, WHITE = 1, 2


@dataclass(frozen=True)
class Position(TensorFields):
    """Positions of B games: all that the rules but superko ask for. Rows are bit rows (see `zerogo.flood`).

    black, white, atari: int32 [B, N] stones, and the stones whose string has exactly one liberty. to_play: int8 [B], 1
    or 2. passes: int8 [B], passes in a row just made. ply: int32 [B]. ko: int16 [B], the point banned by the simple ko
    rule, -1 for none. hash: int64 [B], Zobrist hash of the stones. captures: int32 [B, 2], stones captured so far by
    Black, by White. finished: bool [B]."""

    black: Tensor
    white: Tensor
    atari: Tensor
    to_play: Tensor
    passes: Tensor
    ply: Tensor
    ko: Tensor
    hash: Tensor
    captures: Tensor
    finished: Tensor

    @property
    def num_games(self) -> int:
        return self.black.shape[0]

    @property
    def board_size(self) -> int:
        """N, the side of the tensors."""
        return self.black.shape[-1]

    @property
    def device(self) -> torch.device:
        return self.black.device

    @property
    def stones(self) -> Tensor:
        """int8 [B, N, N]: 0 empty, 1 black, 2 white."""
        return flood.unpack_rows(self.black).to(torch.int8) + 2 * flood.unpack_rows(self.white).to(torch.int8)


def on_board_rows(size: Tensor, board_size: int) -> Tensor:
    """Returns the plane of the points that exist: size int32 [B] -> int32 [B, N]."""
    rows = ((1 << size.to(torch.int64)) - 1).to(torch.int32).unsqueeze(-1)
    exists = torch.arange(board_size, device=size.device) < size.unsqueeze(-1)
    return torch.where(exists, rows, 0)


def find_atari(black: Tensor, white: Tensor, on_board: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the stones whose string has exactly one liberty, and those whose string has none: int32 [B, N] each.

    By floods alone, for all strings at once: a string has one liberty exactly if, for every bit of the liberties'
    indices, it does not touch both a liberty with that bit and one without."""
    if (fast := kernels.compiled("board", black.device)) is not None:
        return fast.find_atari(black, white, on_board)
    board_size = black.shape[-1]
    empty = on_board & ~(black | white)
    index = torch.arange(board_size * board_size, device=black.device).view(board_size, board_size)
    bits = torch.arange(max(1, math.ceil(math.log2(board_size * board_size))), device=black.device)
    with_bit = flood.pack_rows(((index >> bits.view(-1, 1, 1)) & 1) != 0)
    halves = torch.cat([with_bit, ~with_bit])
    beside = flood.neighbours(empty.unsqueeze(1) & halves)
    reached = torch.zeros_like(beside)
    for stones in (black, white):
        reached |= flood.flood(beside & stones.unsqueeze(1), stones.unsqueeze(1).expand_as(beside))
    ones, zeros = reached.split(len(bits), dim=1)
    both, either = ones & zeros, ones | zeros
    several, some = both[:, 0], either[:, 0]
    for k in range(1, len(bits)):
        several, some = several | both[:, k], some | either[:, k]
    stones = black | white
    return stones & some & ~several, stones & ~some


def legal_rows(position: Position, on_board: Tensor, suicide: Tensor | None) -> Tensor:
    """Returns the points that may be played but for superko: int32 [B, N]; none in a finished game.

    suicide: bool [B], None where no game allows it. A point is legal if a neighbour is empty, an own string with
    another liberty, or an opponent's string in atari, and it is not banned by ko."""
    if (fast := kernels.compiled("board", on_board.device)) is not None:
        return fast.legal_rows(position, on_board, suicide)
    own, opponent = own_and_opponent(position)
    empty = on_board & ~(own | opponent)
    breathing = empty | (own & ~position.atari) | (opponent & position.atari)
    legal = flood.neighbours(breathing)
    if suicide is not None:
        legal = torch.where(suicide.unsqueeze(-1), -1, legal)
    legal = legal & empty & ~flood.points_to_rows(position.ko.to(torch.int64), position.board_size)
    return torch.where(position.finished.unsqueeze(-1), 0, legal)


def own_and_opponent(position: Position) -> tuple[Tensor, Tensor]:
    """Returns the stones of the side to move and of the other: int32 [B, N] each."""
    is_black = (position.to_play == BLACK).unsqueeze(-1)
    return torch.where(is_black, position.black, position.white), torch.where(is_black, position.white, position.black)


def play(
    position: Position, actions: Tensor, on_board: Tensor, suicide: Tensor | None, cap: Tensor
) -> tuple[Position, Tensor]:
    """Returns the positions after one action in every game that goes on, and the stones that it took off the board,
    black and white ones int32 [B, 2, N]: actions int64 [B], legal (not checked).

    cap: int32 [B], a game is finished at this ply. Two passes in a row finish it too. Finished games stay as they are.
    """
    if (fast := kernels.compiled("board", actions.device)) is not None:
        keys = zobrist.point_keys(position.board_size, position.device)
        fields, removed = fast.play(position, actions, on_board, suicide, cap, keys)
        return Position(**fields), removed
    own, opponent = own_and_opponent(position)
    points = torch.where(position.finished, -1, actions)
    place = flood.points_to_rows(points, position.board_size)
    own = own | place
    touched = _touched_strings(points, place, own, opponent, position.atari)
    taken = touched.union(touched.is_weak)
    opponent = opponent & ~taken
    empty = on_board & ~(own | opponent)
    lost = torch.zeros_like(own) if suicide is None else _suicides(place, own, empty, suicide)
    liberties = flood.neighbours(touched.rows) & (empty | lost)[touched.game]
    in_atari = touched.union(flood.has_one_point(liberties) & ~touched.is_weak)
    relieved = _beside(taken, own & position.atari)
    if suicide is not None:
        relieved = relieved | _beside(lost, opponent & position.atari)
    own = own & ~lost
    string = touched.own()
    atari = ((position.atari & ~(relieved | string)) | in_atari) & (own | opponent)
    return _after(position, actions, own, opponent, atari, taken, lost, string & atari, cap)


@dataclass(frozen=True)
class Touched:
    """The strings that a move touches, at most five a game: the placed stone's own and the opponent's on its four
    sides.

    lane: int64 [K], game * 5 + side (side 0 is the own string). game: int64 [K]. rows: int32 [K, N], the string.
    is_weak: bool [K], an opponent's string that was in atari: the placed stone captures it. num_games: B.
    """

    lane: Tensor
    game: Tensor
    rows: Tensor
    is_weak: Tensor
    num_games: int

    def union(self, is_meant: Tensor) -> Tensor:
        """Returns the points of each game's strings that are meant: bool [K] -> int32 [B, N]."""
        sides = torch.zeros(self.num_games * 5, self.rows.shape[1], dtype=torch.int32, device=self.rows.device)
        sides[self.lane] = torch.where(is_meant.unsqueeze(1), self.rows, 0)
        side = sides.view(self.num_games, 5, -1).unbind(1)
        return side[0] | side[1] | side[2] | side[3] | side[4]

    def own(self) -> Tensor:
        """Returns the placed stones' strings: int32 [B, N], empty where none was placed."""
        return self.union(self.lane == 5 * self.game)


@cache
def _sides(board_size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Returns by action the point itself and the points on its four sides, P where there is none, int64 [A, 5], and by
    point its row and column.

    The row and column of P are 0 and 31: a bit that no row has.
    """
    num_points = board_size * board_size
    points = torch.arange(num_points + 1, device=device)
    row, column = torch.div(points, board_size, rounding_mode="floor"), points % board_size
    sides = [points]
    for exists, distance in (
        (column > 0, -1),
        (column < board_size - 1, 1),
        (row > 0, -board_size),
        (row < board_size - 1, board_size),
    ):
        sides.append(torch.where(exists & (points < num_points), points + distance, num_points))
    return (
        torch.stack(sides, dim=1),
        torch.where(points < num_points, row, 0),
        torch.where(points < num_points, column, 31).to(torch.int32),
    )


def _touched_strings(points: Tensor, place: Tensor, own: Tensor, opponent: Tensor, atari: Tensor) -> Touched:
    """Returns the strings that the placed stones touch: points int64 [B], P or negative where none is placed; own with
    the placed stone.
    """
    num_games, board_size = place.shape
    sides, row_of, column_of = _sides(board_size, place.device)
    side = sides[torch.where(points < 0, board_size * board_size, points)]
    row, column = row_of[side], column_of[side]
    first_row = torch.arange(num_games, device=place.device).unsqueeze(1) * board_size
    stones = opponent.view(-1)[first_row + row]
    stones[:, 0] = place.view(-1)[(first_row + row)[:, 0]]
    is_touched = ((stones >> column) & 1) != 0
    lane = torch.arange(num_games * 5, device=place.device)
    game = torch.div(lane, 5, rounding_mode="floor")
    seed = flood.points_to_rows(torch.where(is_touched, side, -1).view(-1), board_size)
    is_own = lane == 5 * game
    is_weak = ((atari[game] & seed) != 0).any(-1) & ~is_own
    rows = flood.flood(seed, torch.where(is_own.unsqueeze(1), own[game], opponent[game]))
    return Touched(lane, game, rows, is_weak, num_games)


def _suicides(place: Tensor, own: Tensor, empty: Tensor, suicide: Tensor) -> Tensor:
    """Returns the placed stones' strings that have no liberty, in games that allow suicide (bool [B]): int32 [B, N]."""
    string = flood.flood(place, own)
    breathes = ((flood.neighbours(string) & empty) != 0).any(-1)
    return torch.where((suicide & ~breathes).unsqueeze(-1), string, 0)


def _beside(removed: Tensor, weak: Tensor) -> Tensor:
    """Returns the strings in atari beside removed stones: they have now at least two liberties, their last one and a
    new one.
    """
    return flood.flood(flood.neighbours(removed) & weak, weak)


def _after(
    before: Position,
    actions: Tensor,
    own: Tensor,
    opponent: Tensor,
    atari: Tensor,
    taken: Tensor,
    lost: Tensor,
    weak: Tensor,
    cap: Tensor,
) -> tuple[Position, Tensor]:
    """Puts the position together: colours, ko, hash, captures, counters and the end. weak: the placed stone's string
    where it is in atari."""
    is_black = before.to_play == BLACK
    goes_on = ~before.finished
    is_pass = actions >= before.board_size**2
    by_colour = is_black.unsqueeze(-1)
    table = zobrist.point_keys(before.board_size, before.device)
    placed_key = torch.where(goes_on, table[actions + torch.where(is_black, 0, before.board_size**2 + 1)], 0)
    passes = torch.where(goes_on, torch.where(is_pass, before.passes + 1, 0), before.passes).to(torch.int8)
    ply = before.ply + goes_on.to(torch.int32)
    captures, removed_key, ko = _removal(before, taken, lost, weak)
    after = Position(
        black=torch.where(by_colour, own, opponent),
        white=torch.where(by_colour, opponent, own),
        atari=atari,
        to_play=torch.where(goes_on, 3 - before.to_play, before.to_play),
        passes=passes,
        ply=ply,
        ko=torch.where(goes_on, ko, before.ko),
        hash=before.hash ^ placed_key ^ removed_key,
        captures=captures,
        finished=before.finished | (passes >= 2) | (ply >= cap),
    )
    return after, torch.stack([torch.where(by_colour, lost, taken), torch.where(by_colour, taken, lost)], dim=1)


def _removal(before: Position, taken: Tensor, lost: Tensor, weak: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns what a removal changes: captures int32 [B, 2], XOR of the removed stones' keys int64 [B], the point
    banned by ko int16 [B].

    taken: the opponent's stones removed, lost: own ones (never both in one game). weak: the placed stone's string where
    it is in atari. The simple ko rule bans a point if one stone was taken there by a lone stone whose only liberty it
    now is."""
    is_black, is_taken = before.to_play == BLACK, (taken != 0).any(-1)
    rows = taken | lost
    key = torch.where(is_black ^ is_taken, *zobrist.hash_rows_both(rows))
    by_black = (is_black == is_taken).to(torch.int32)
    number = flood.count(rows)
    captures = before.captures + torch.stack([number * by_black, number * (1 - by_black)], dim=1)
    is_ko = is_taken & (number == 1) & flood.has_one_point(weak)
    return captures, key, torch.where(is_ko, flood.first_point(rows), -1).to(torch.int16)
