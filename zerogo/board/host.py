"""The rules' two inner operations on the host: legal points, and one move in all games at once, in NumPy.

They give what `position`'s torch operations give (a test holds them against each other) and are several times faster on a CPU, for two
reasons. A NumPy call on a few thousand words costs a third of torch's. And the host may look: few moves capture, and few strings come
down to one liberty, so the work on whole boards is done for those alone. Which ones they are is seen in a window of 7x7 points around the
move, which fits one 64-bit word a game: a string that shows two liberties there is not in atari, however large it is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zerogo.board import zobrist
from zerogo.flood import flood_host, neighbours_host

if TYPE_CHECKING:
    from zerogo.board.position import Position

# A window is a uint64: byte r, bit c is the point r - 3 rows and c - 3 columns from the move; bit 7 and byte 7 stay empty.
RADIUS = 3
CENTRE = np.uint64(1 << 27)
SIDES = np.array([1 << 26, 1 << 28, 1 << 19, 1 << 35], np.uint64)  # left, right, up, down
ALL_SIDES = np.bitwise_or.reduce(SIDES)
ONE, EIGHT = np.uint64(1), np.uint64(8)
GROWTH = 3  # steps that a string is followed in the window


def rows_of(planes: Tensor) -> np.ndarray:
    """Returns a plane as a contiguous array over the same memory where it is contiguous: int32 [B, N]."""
    return np.ascontiguousarray(planes.numpy())


def own_rows(position: Position) -> np.ndarray:
    """Returns the stones of the side to move: int32 [B, N]."""
    black, white = rows_of(position.black), rows_of(position.white)
    is_black = np.repeat(-(position.to_play.numpy() == 1).astype(np.int32), black.shape[1]).reshape(black.shape)
    return white ^ ((black ^ white) & is_black)


def legal_rows(position: Position, on_board: Tensor, suicide: Tensor | None) -> np.ndarray:
    """Returns the points that may be played but for superko: int32 [B, N]; see `position.legal_rows`."""
    board_size = position.board_size
    empty = rows_of(on_board) & ~(rows_of(position.black) | rows_of(position.white))
    # Own strings with another liberty, and the opponent's in atari: where exactly one of the two planes is set.
    breathing = own_rows(position)
    breathing ^= rows_of(position.atari)
    breathing |= empty
    legal = neighbours_host(breathing)
    if suicide is not None:
        legal[suicide.numpy()] = -1
    legal &= empty
    ko = position.ko.numpy()
    banned = np.flatnonzero(ko >= 0)
    if len(banned):
        row, column = np.divmod(ko[banned].astype(np.int64), board_size)
        legal.reshape(-1)[banned * board_size + row] &= ~(1 << column).astype(np.int32)
    if position.finished.numpy().any():
        legal[position.finished.numpy()] = 0
    return legal


def find_atari(black: Tensor, white: Tensor, on_board: Tensor) -> tuple[Tensor, Tensor]:
    """See `position.find_atari`. Planes are set side by side in 64-bit words, N + 1 bits each, so that one flood serves several bits of the
    liberties' indices: int32 [B, N] each -> int32 [B, N] twice.
    """
    board_size = black.shape[1]
    width, full = board_size + 1, (1 << board_size) - 1
    planes = [rows_of(rows).astype(np.int64) for rows in (black, white, on_board)]
    empty = planes[2] & ~(planes[0] | planes[1])
    several, some = np.zeros_like(empty), np.zeros_like(empty)
    with_bit = _index_bits(board_size)
    at_once = 63 // (2 * width)  # a bit takes two fields, one for the liberties with it and one for those without
    for first in range(0, len(with_bit), at_once):
        halves = [half for rows in with_bit[first : first + at_once] for half in (rows, full & ~rows)]
        repeat = sum(1 << (width * field) for field in range(len(halves)))  # a product with it copies a plane into all fields
        beside = neighbours_host((empty * repeat) & sum(half << (width * field) for field, half in enumerate(halves)))
        reached = np.zeros_like(beside)
        for stones in planes[:2]:
            inside = stones * repeat
            reached |= flood_host(beside & inside, inside)
        for field in range(0, len(halves), 2):
            with_it, without = (reached >> (width * field)) & full, (reached >> (width * (field + 1))) & full
            several |= with_it & without
            some |= with_it | without
    stones = planes[0] | planes[1]
    return tuple(torch.from_numpy(found.astype(np.int32)) for found in (stones & some & ~several, stones & ~some))


@cache
def _index_bits(board_size: int) -> np.ndarray:
    """Returns for each bit of the points' indices the plane of the points that have it: int64 [bits, N]."""
    index = np.arange(board_size * board_size).reshape(board_size, board_size)
    bits = np.arange(max(1, int(index.max()).bit_length())).reshape(-1, 1, 1)
    return ((((index >> bits) & 1) != 0) << np.arange(board_size)).sum(-1)


class Table(NamedTuple):
    """By action, pass included: what lies around a point. The pass has a window without points.

    row: int64 [A]. bit: int32 [A], the point's bit in its row. rows: int64 [A, 8], the window's rows, those off the board replaced by some
    other. column: int32 [A, 8], the point's column. exists: int32 [A, 8], the bits of a window's row, 0 off the board.
    """

    row: np.ndarray
    bit: np.ndarray
    rows: np.ndarray
    column: np.ndarray
    exists: np.ndarray


@cache
def around(board_size: int) -> Table:
    point = np.arange(board_size * board_size + 1)
    row, column = np.divmod(point, board_size)
    row[-1] = 0
    rows = row[:, None] + np.arange(-RADIUS, 8 - RADIUS)
    exists = (rows >= 0) & (rows < board_size) & (np.arange(8) < 2 * RADIUS + 1) & (point < board_size**2)[:, None]
    bit = np.where(point < board_size**2, 1 << column, 0).astype(np.int32)
    columns = np.repeat(column.astype(np.int32)[:, None], 8, axis=1)
    return Table(row, bit, rows.clip(0, board_size - 1), columns, np.where(exists, 127, 0).astype(np.int32))


def _windows(points: np.ndarray, *planes: np.ndarray) -> list[np.ndarray]:
    """Returns the planes' windows around the points: int64 [B] (P for none), int32 [B, N] each -> uint64 [B] each."""
    num_games, board_size = planes[0].shape
    table = around(board_size)
    place = table.rows.take(points, axis=0)
    place += (np.arange(num_games) * board_size)[:, None]
    column, exists = table.column.take(points, axis=0), table.exists.take(points, axis=0)
    words = []
    for plane in planes:
        rows = plane.reshape(-1).take(place)
        rows <<= RADIUS
        rows >>= column
        rows &= exists
        words.append(rows.astype(np.uint8).view(np.uint64).reshape(-1))
    return words


def _window_rows(words: np.ndarray, points: np.ndarray, board_size: int) -> np.ndarray:
    """Returns windows as planes: uint64 [K], int64 [K] -> int32 [K, N]."""
    table = around(board_size)
    width = board_size + 7
    planes = np.zeros((len(words), width), np.int32)
    rows = words.view(np.uint8).reshape(-1, 8).astype(np.int32)
    rows <<= table.column.take(points, axis=0)
    rows >>= RADIUS
    first = np.arange(len(words)) * width + table.row.take(points)
    planes.reshape(-1)[first[:, None] + np.arange(8)] = rows
    return planes[:, RADIUS : RADIUS + board_size]


def _spread(words: np.ndarray) -> np.ndarray:
    """Returns the windows' points and their neighbours; mask the result: no window has bit 7 of a byte."""
    spread = words << ONE
    for shift, by in ((np.right_shift, ONE), (np.left_shift, EIGHT), (np.right_shift, EIGHT)):
        spread |= shift(words, by)
    spread |= words
    return spread


class Found(NamedTuple):
    """What a move touches, as its window shows it. The first index of the [5, B] fields: the placed stone's own string, then the opponent's
    on its left, right, upper and lower side.

    strings: uint64 [5, B], the parts of the strings within a few steps. is_taken: bool [5, B], captured. is_open: bool [5, B], a string
    that is not taken and does not show two liberties. weak: uint64 [B], own stones beside the placed one that were in atari. is_lone:
    bool [B], neither an own stone nor an empty point is beside the placed stone.
    """

    strings: np.ndarray
    is_taken: np.ndarray
    is_open: np.ndarray
    weak: np.ndarray
    is_lone: np.ndarray


def _look_around(points: np.ndarray, colour: np.ndarray, stones: np.ndarray, atari: np.ndarray, board: np.ndarray) -> Found:
    """points: int64 [B], P for none. colour: int64 [B], 0 where Black plays. stones: int32 [2, B, N] with the placed ones. The rest:
    int32 [B, N]."""
    num_games = len(points)
    black, white, in_atari, empty = _windows(points, stones[0], stones[1], atari, board)
    own = np.where(colour == 0, black, white)
    opponent = black ^ white ^ own
    empty &= ~(black | white)
    seeds, inside, free = np.empty((3, 5, num_games), np.uint64)
    seeds[0], inside[0], inside[1:] = own & CENTRE, own, opponent
    np.bitwise_and(opponent, SIDES[:, None], out=seeds[1:])
    strings = seeds
    for _ in range(GROWTH):
        strings = _spread(strings)
        strings &= inside
    is_taken = (seeds & in_atari) != 0
    free[:] = empty
    free[0] |= np.bitwise_or.reduce(strings, axis=0, where=is_taken)
    liberties = _spread(strings)
    liberties &= free
    is_open = (liberties & (liberties - ONE)) == 0
    is_open &= seeds != 0
    is_open &= ~is_taken
    return Found(strings, is_taken, is_open, own & in_atari & ALL_SIDES, ((own | empty) & ALL_SIDES) == 0)


class Strings(NamedTuple):
    """Strings that a move touches. game: int64 [K]. side: int64 [K], 0 the placed stone's, 1 to 4 the opponent's. rows: int32 [K, N],
    first what the window shows of the string, after a flood all of it. within: int32 [K, N], all stones of its colour.
    """

    game: np.ndarray
    side: np.ndarray
    rows: np.ndarray
    within: np.ndarray


def _strings(chosen: np.ndarray, found: Found, points: np.ndarray, colour: np.ndarray, stones: np.ndarray) -> Strings:
    """Returns the chosen strings (bool [5, B]) as far as their windows show them."""
    num_games, board_size = stones.shape[1:]
    lane = np.flatnonzero(chosen)
    side, game = np.divmod(lane, num_games)
    within = stones.reshape(-1, board_size).take((colour[game] ^ (side > 0)) * num_games + game, axis=0)
    return Strings(game, side, _window_rows(found.strings.reshape(-1)[lane], points[game], board_size), within)


def _add(planes: np.ndarray, game: np.ndarray, rows: np.ndarray) -> None:
    """Adds rows to their games' planes: int32 [B, N], int64 [K] (a game may come again), int32 [K, N]."""
    used = np.flatnonzero(rows)
    lane, row = np.divmod(used, planes.shape[1])
    np.bitwise_or.at(planes.reshape(-1), game[lane] * planes.shape[1] + row, rows.reshape(-1)[used])


def play(before: Position, actions: Tensor, on_board: Tensor, suicide: Tensor | None, cap: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Returns the fields of the positions after the actions, and the removed stones int32 [B, 2, N] (black, white); see `position.play`."""
    num_games, board_size = before.black.shape
    finished, board, atari = before.finished.numpy(), rows_of(on_board), rows_of(before.atari)
    points = np.where(finished, board_size * board_size, actions.numpy())
    colour = before.to_play.numpy().astype(np.int64) - 1
    stones = np.empty((2, num_games, board_size), np.int32)
    stones[0], stones[1] = before.black.numpy(), before.white.numpy()
    table = around(board_size)
    stones.reshape(-1)[(colour * num_games + np.arange(num_games)) * board_size + table.row.take(points)] |= table.bit.take(points)
    found = _look_around(points, colour, stones, atari, board)
    removal = _captures(_strings(found.is_taken, found, points, colour, stones), colour, stones)
    empty = board & ~(stones[0] | stones[1])
    atari = atari & ~empty
    relieved = _window_rows(found.weak, points, board_size)
    critical = _relieve_and_finish(
        atari, removal, relieved, stones[colour, np.arange(num_games)], empty, _strings(found.is_open, found, points, colour, stones)
    )
    if suicide is not None:
        removal = _with_suicides(removal, critical, colour, stones, empty, suicide.numpy(), atari)
    _add_atari(atari, critical, empty)
    fields = _counters(before, finished, actions.numpy(), cap.numpy())
    fields.update(black=stones[0], white=stones[1], atari=atari)
    fields.update(_hash_and_captures(before, points, colour, found.is_lone, removal))
    fields["ko"] = np.where(finished, before.ko.numpy(), fields["ko"])
    removed = np.zeros((num_games, 2, board_size), np.int32)
    removed[removal.game, removal.colour] = removal.rows
    return {name: torch.from_numpy(value) for name, value in fields.items()}, torch.from_numpy(removed)


class Removal(NamedTuple):
    """What was taken off the boards. game: int64 [R], each once. colour: int64 [R], whose stones, 0 for Black's. is_suicide: bool [R].
    rows: int32 [R, N]."""

    game: np.ndarray
    colour: np.ndarray
    is_suicide: np.ndarray
    rows: np.ndarray


def _captures(taken: Strings, colour: np.ndarray, stones: np.ndarray) -> Removal:
    """Takes the captured strings off the stones (in place)."""
    num_games, board_size = stones.shape[1:]
    planes = np.zeros((num_games, board_size), np.int32)
    _add(planes, taken.game, flood_host(taken.rows, taken.within))
    loses = np.zeros(num_games, bool)
    loses[taken.game] = True
    game = np.flatnonzero(loses)
    removal = Removal(game, 1 - colour[game], np.zeros(len(game), bool), planes[game])
    stones[removal.colour, game] &= ~removal.rows
    return removal


def _relieve_and_finish(
    atari: np.ndarray, removal: Removal, relieved: np.ndarray, own: np.ndarray, empty: np.ndarray, critical: Strings
) -> Strings:
    """Returns the critical strings with all their stones, or enough of them to show two liberties; takes own relieved ones out of atari
    (in place).

    What was in atari is no longer if it joins the placed stone, whose string counts anew, or stands beside what was removed: then it has
    two liberties, its last one and a new one. One flood finds both kinds. relieved: int32 [B, N] stones beside the placed one. own: int32
    [B, N].
    """
    relieved = np.ascontiguousarray(relieved)
    relieved[removal.game] |= neighbours_host(removal.rows)
    weak = own & atari
    relieved &= weak
    game = np.flatnonzero(relieved.any(1))
    seeds = np.concatenate([critical.rows, relieved[game]])
    within = np.concatenate([critical.within, weak[game]])
    liberties = np.zeros_like(within)
    empty.take(critical.game, axis=0, out=liberties[: len(critical.game)])
    rows = flood_host(seeds, within, liberties)
    atari[game] &= ~rows[len(critical.game) :]
    return critical._replace(rows=np.ascontiguousarray(rows[: len(critical.game)]))


def _with_suicides(
    removal: Removal, critical: Strings, colour: np.ndarray, stones: np.ndarray, empty: np.ndarray, suicide: np.ndarray, atari: np.ndarray
) -> Removal:
    """Takes the placed stones' strings without a liberty off, where suicide is allowed (bool [B]): stones, empty and atari change in
    place."""
    own = np.flatnonzero((critical.side == 0) & suicide[critical.game])
    own = own[~(neighbours_host(critical.rows[own]) & empty[critical.game[own]]).any(1)]
    if len(own) == 0:
        return removal
    game, rows = critical.game[own], critical.rows[own]
    stones[colour[game], game] &= ~rows
    empty[game] |= rows
    weak = stones[1 - colour[game], game] & atari[game]  # strings of the opponent beside it have now a second liberty
    atari[game] &= ~(rows | flood_host(neighbours_host(rows) & weak, weak))
    lost = Removal(game, colour[game], np.ones(len(own), bool), rows)
    return Removal(*(np.concatenate(parts) for parts in zip(removal, lost, strict=True)))


def _add_atari(atari: np.ndarray, critical: Strings, empty: np.ndarray) -> None:
    """Adds the critical strings that have exactly one liberty: int32 [B, N], in place.

    A suicide's own string is among them and never has one: its stones are now liberties of each other, or it was a single stone without
    any.
    """
    liberties = neighbours_host(critical.rows)
    liberties &= empty.take(critical.game, axis=0)
    has_one = np.flatnonzero(np.bitwise_count(liberties).sum(1) == 1)
    _add(atari, critical.game[has_one], critical.rows[has_one])


def _counters(before: Position, finished: np.ndarray, actions: np.ndarray, cap: np.ndarray) -> dict[str, np.ndarray]:
    """Returns to_play, passes, ply and finished after the actions."""
    to_play, passes = before.to_play.numpy(), before.passes.numpy()
    ply = before.ply.numpy() + ~finished
    passes = np.where(finished, passes, np.where(actions >= before.board_size**2, passes + np.int8(1), np.int8(0)))
    return {
        "to_play": np.where(finished, to_play, np.int8(3) - to_play),
        "passes": passes,
        "ply": ply.astype(np.int32, copy=False),
        "finished": finished | (passes >= 2) | (ply >= cap),
    }


def _hash_and_captures(
    before: Position, points: np.ndarray, colour: np.ndarray, is_lone: np.ndarray, removal: Removal
) -> dict[str, np.ndarray]:
    """Returns the hash, the captures and the point that ko bans: one stone taken by a lone stone that has no other liberty."""
    board_size = before.board_size
    hashes = before.hash.numpy() ^ zobrist.point_keys(board_size, torch.device("cpu")).numpy().take(points + colour * (board_size**2 + 1))
    captures, ko = before.captures.numpy().copy(), np.full(len(points), -1, np.int16)
    if len(removal.game):
        hashes[removal.game] ^= zobrist.hash_rows_host(removal.rows, removal.colour)
        number = np.bitwise_count(removal.rows).sum(1, dtype=np.int32)
        captures[removal.game, 1 - removal.colour] += number
        bans = np.flatnonzero((number == 1) & ~removal.is_suicide & is_lone[removal.game])
        rows = removal.rows[bans]
        row, bit = (rows != 0).argmax(1), rows.max(1, initial=0)
        ko[removal.game[bans]] = row * board_size + np.frexp(bit.astype(np.float32))[1] - 1
    return {"hash": hashes, "captures": captures, "ko": ko}
