"""Which moves would repeat a whole-board position, exactly, for all games at once.

A move can repeat a position only where a stone of its colour was removed before (the repeated position had it there), or by suicide. Those
few suspects are played as one batch and their hashes compared with all that the game has seen (`_repeating_looking`). Where the host must
not look at how many there are, every point is tested (`_repeating_bounded`). The two agree; a test holds them against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from zerogo import flood
from zerogo.board import zobrist
from zerogo.board.position import BLACK, captured, legal_rows, own_and_opponent
from zerogo.rules import SUPERKO

if TYPE_CHECKING:
    from zerogo.board.state import State

NOT_SEEN = -(2**63) + 1  # fills the unused places of `seen`; a position has this hash with a chance of 2^-64
SITUATIONAL = SUPERKO.index("situational")
SIMPLE = SUPERKO.index("simple")
CENSUS_BLACK = 181  # an odd number: with it few pairs of counts share a census
KEY_BITS, FIELD = 6, 10  # bits of a key that one sum counts, in fields that hold counts up to 625 points
HISTORY_CHUNK = 16  # remembered positions compared at a time with all points, to bound memory


def repeating_rows(state: State, legal: Tensor) -> Tensor:
    """Returns those of the given points that superko bans: legal int32 [B, N], legal otherwise -> int32 [B, N]."""
    is_black = (state.to_play == BLACK).unsqueeze(-1)
    suspects = legal & torch.where(is_black, state.lost[:, 0], state.lost[:, 1])
    suicides = torch.zeros_like(legal)
    if state.suicide is not None:
        suicides = legal & ~legal_rows(state, state.on_board, None)
    allowed = (state.rules.superko == SIMPLE).unsqueeze(-1)
    suspects, suicides = torch.where(allowed, 0, suspects), torch.where(allowed, 0, suicides)
    if not flood.may_look(suspects):
        return (suspects | suicides) & _repeating_bounded(state, suicides)
    own, opponent = own_and_opponent(state)
    removing = (suspects & flood.neighbours(opponent & state.atari)) | suicides
    return _repeating_placements(state, suspects & ~removing) | _repeating_removals(state, removing)


def _relevant(state: State, seen: Tensor, game: Tensor | slice) -> Tensor:
    """Returns the hashes that a move may not repeat: all, but under situational superko only those with the same side to move. int64 [K, H]."""
    index = torch.arange(seen.shape[1], device=seen.device)
    same_side = ((index + state.ply[game].unsqueeze(1)) & 1) == 1
    return torch.where(same_side | (state.rules.superko[game] != SITUATIONAL).unsqueeze(1), seen, NOT_SEEN)


def census(black: Tensor | int, white: Tensor | int) -> Tensor:
    """Returns a number of 16 bits that equal positions share: black and white stones counted as int32 [...] -> int16 [...]."""
    return ((black * CENSUS_BLACK + white) & 0xFFFF).to(torch.int16)


def _repeating_placements(state: State, suspects: Tensor) -> Tensor:
    """Returns the suspects whose stone, added to the position, gives one that was seen; they remove nothing.

    Seen from the history: an earlier position with one more own stone and as many of the opponent's is looked at, and whether it differs by
    the key of a single stone.
    """
    banned = torch.zeros_like(suspects)
    latest = int(state.ply.max())
    wanted = state.census.gather(1, state.ply.to(torch.int64).unsqueeze(1)) + torch.where(state.to_play == BLACK, CENSUS_BLACK, 1).to(torch.int16).unsqueeze(1)
    game, index = (state.census[:, :latest] == wanted).nonzero().unbind(1)
    if game.numel() == 0:
        return banned
    is_relevant = (((index + state.ply[game]) & 1) == 1) | (state.rules.superko[game] != SITUATIONAL)
    difference = state.hash[game] ^ state.seen[game, index]
    keys, actions = zobrist.sorted_point_keys(state.board_size, state.device)
    place = torch.searchsorted(keys, difference).clamp(max=len(keys) - 1)
    colour = torch.where(state.to_play[game] == BLACK, 0, 1)
    is_stone = is_relevant & (keys[place] == difference) & (actions[place] // state.board_size**2 == colour)
    point = actions[place] % state.board_size**2
    rows = torch.where(is_stone.unsqueeze(1), flood.points_to_rows(point, state.board_size), 0)
    return suspects & _or_rows(banned, game, rows)


def _or_rows(planes: Tensor, game: Tensor, rows: Tensor) -> Tensor:
    """Returns the planes with rows added to their games' planes: planes int32 [B, N], game int64 [K] may repeat, rows int32 [K, N]."""
    bitwise_or = planes.numpy()
    np.bitwise_or.at(bitwise_or, game.numpy(), rows.numpy())
    return torch.from_numpy(bitwise_or)


def _repeating_removals(state: State, suspects: Tensor) -> Tensor:
    """Returns the suspects that capture, or remove their own string, and so come to a position that was seen: played and compared."""
    banned = torch.zeros_like(suspects)
    lane = flood.occupied(suspects)
    if lane.numel() == 0:
        return banned
    game, row, column = flood.unpack_rows(suspects[lane]).nonzero().unbind(1)
    game = lane[game]
    points = row * state.board_size + column
    after = _hash_after(state, game, points)
    seen = state.seen[:, : int(state.ply.max()) + 1].index_select(0, game)
    repeats = (_relevant(state, seen, game) == after.unsqueeze(1)).any(1)
    return _or_rows(banned, game[repeats], flood.points_to_rows(points[repeats], state.board_size))


def _hash_after(state: State, game: Tensor, points: Tensor) -> Tensor:
    """Returns the hash of the stones after a move at each point: game, points int64 [K] -> int64 [K]."""
    is_black = state.to_play[game] == BLACK
    keys = zobrist.point_keys(state.board_size, state.device)
    after = state.hash[game] ^ keys[points + torch.where(is_black, 0, state.board_size**2 + 1)]
    own, opponent = (rows[game] for rows in own_and_opponent(state))
    place = flood.points_to_rows(points, state.board_size)
    atari = state.atari[game]
    takes = (flood.neighbours(place) & opponent & atari != 0).any(-1).nonzero().squeeze(1)
    taken = captured(place[takes], opponent[takes], atari[takes])
    as_black, as_white = zobrist.hash_rows_both(taken)
    after[takes] ^= torch.where(is_black[takes], as_white, as_black)
    if state.suicide is not None:
        string = flood.flood(place, own | place)
        empty = state.on_board[game] & ~(own | opponent | place)
        breathes = (flood.neighbours(string) & empty != 0).any(-1)
        breathes[takes] = True
        removed = torch.where(is_black, *zobrist.hash_rows_both(string))
        after = torch.where(breathes, after, after ^ removed)
    return after


def _repeating_bounded(state: State, suicides: Tensor) -> Tensor:
    """Tests all points without a look by the host: the hash of every string, of what each point would capture, and all that was seen."""
    board_size = state.board_size
    stones = state.stones.flatten(1)
    labels = flood.string_labels(stones != 0, board_size, stones)
    table = zobrist.point_keys(board_size, state.device).view(2, -1)[:, :-1]
    keys = torch.where(stones == 1, table[0], torch.where(stones == 2, table[1], 0))
    string_key = _xor_by_label(keys, labels)
    own, opponent = (flood.unpack_rows(rows).flatten(1) for rows in own_and_opponent(state))
    atari = flood.unpack_rows(state.atari).flatten(1)
    own_key = torch.where((state.to_play == BLACK).unsqueeze(1), table[0], table[1])
    taken = _xor_beside(string_key, labels, opponent & atari, board_size)
    after = state.hash.unsqueeze(1) ^ own_key ^ taken
    if state.suicide is not None:
        removed = _xor_beside(string_key, labels, own, board_size)
        after = torch.where(flood.unpack_rows(suicides).flatten(1), state.hash.unsqueeze(1) ^ removed, after)
    seen = _relevant(state, state.seen, slice(None))
    repeats = torch.zeros_like(own)
    for start in range(0, seen.shape[1], HISTORY_CHUNK):
        repeats |= (after.unsqueeze(2) == seen[:, None, start : start + HISTORY_CHUNK]).any(2)
    return flood.pack_rows(repeats.unflatten(1, (board_size, board_size)))


def _xor_by_label(keys: Tensor, labels: Tensor) -> Tensor:
    """Returns for every point the XOR of the keys of its string: keys, labels int64 [B, P] -> int64 [B, P].

    No scatter of torch's takes XOR, so each bit is counted, several to a word, and the counts' parity is taken.
    """
    result = torch.zeros_like(keys)
    for start in range(0, 64, KEY_BITS):
        bits = range(min(KEY_BITS, 64 - start))
        spread = sum(((keys >> (start + j)) & 1) << (FIELD * j) for j in bits)
        counts = torch.zeros_like(keys).scatter_add_(1, labels, spread).gather(1, labels)
        for j in bits:
            result |= ((counts >> (FIELD * j)) & 1) << (start + j)
    return result


def _xor_beside(string_key: Tensor, labels: Tensor, is_meant: Tensor, board_size: int) -> Tensor:
    """Returns for every point the XOR of the keys of the different strings beside it among those meant: [B, P] each -> int64 [B, P]."""
    points = torch.arange(labels.shape[1], device=labels.device)
    column = points % board_size
    sides = ((1, column < board_size - 1), (-1, column > 0), (board_size, points < len(points) - board_size), (-board_size, points >= board_size))
    total, met = torch.zeros_like(string_key), []
    for distance, exists in sides:
        label = torch.where(exists & torch.roll(is_meant, -distance, 1), torch.roll(labels, -distance, 1), -1)
        is_new = label >= 0
        for earlier in met:
            is_new = is_new & (label != earlier)
        met.append(label)
        total = total ^ torch.where(is_new, torch.roll(string_key, -distance, 1), 0)
    return total
