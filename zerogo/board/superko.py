"""Which moves would repeat a whole-board position, exactly, for all games at once.

A move can repeat a position only where a stone of its colour was removed before (the repeated position had it there),
or by suicide. Kernels play those few suspects and look their hashes up in all that the game has seen. Torch must not
look at how many there are, so it tests every point (`_repeating_bounded`). The two agree; a test holds them against
each other.

Kernels leave out more, which can't repeat a position. The repeated position had every stone that stands after the move.
A stone on a point where none of its colour was ever removed has stood since it came, so no position before it is
repeated. If the last stone of either side is such a one, only the position before the last move could be, and only by
capturing the last stone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zerogo import flood, kernels
from zerogo.board import zobrist
from zerogo.board.history import NOT_SEEN, links_of
from zerogo.board.position import BLACK, legal_rows, own_and_opponent
from zerogo.rules import SIMPLE, SITUATIONAL

if TYPE_CHECKING:
    from zerogo.board.state import State

KEY_BITS, FIELD = 6, 10  # bits of a key that one sum counts, in fields that hold counts up to 625 points
HISTORY_CHUNK = 16  # remembered positions compared at a time with all points, to bound memory


def repeating_rows(state: State, legal: Tensor) -> Tensor:
    """Returns those of the given points that superko bans: legal int32 [B, N], legal otherwise -> int32 [B, N]."""
    suicides = None if state.suicide is None else legal & ~legal_rows(state, state.on_board, None)
    if (fast := kernels.compiled("board", legal.device)) is not None:
        return fast.repeating_rows(state, legal, suicides, zobrist.point_keys(state.board_size, state.device))
    is_black = (state.to_play == BLACK).unsqueeze(-1)
    suspects = legal & torch.where(is_black, state.lost[:, 0], state.lost[:, 1])
    suicides = torch.zeros_like(legal) if suicides is None else suicides
    banned = (suspects | suicides) & _repeating_bounded(state, suicides)
    return torch.where((state.rules.superko == SIMPLE).unsqueeze(-1), 0, banned)


def known_repeats(state: State, legal: Tensor) -> Tensor:
    """Returns the same for games with or without their whole history (see `State.seen`): without it, what the last
    eight positions tell.
    """
    if state.seen.shape[1]:
        return repeating_rows(state, legal)
    if not flood.may_look(legal):
        return repeating_rows(_with_recent_history(state), legal)
    lost = _recently_lost(state)
    own = torch.where((state.to_play == BLACK).unsqueeze(-1), lost[:, 0], lost[:, 1])
    suspects = (legal & own != 0).any(1)
    if state.suicide is not None:
        suspects |= (legal & ~legal_rows(state, state.on_board, None) != 0).any(1)
    games = suspects.nonzero().squeeze(1)
    banned = torch.zeros_like(legal)
    if len(games):
        few = state.map(lambda tensor: tensor.index_select(0, games))
        banned[games] = repeating_rows(_with_recent_history(few), legal[games])
    return banned


def _recently_lost(state: State) -> Tensor:
    """Returns where a stone of one of the earlier positions is missing in the next one: int32 [B, 2, N]."""
    positions = torch.cat([torch.stack([state.black, state.white], dim=1).unsqueeze(1), state.recent], dim=1)
    lost = positions[:, 1:] & ~positions[:, :-1]
    for ago in range(1, lost.shape[1]):
        lost[:, 0] |= lost[:, ago]
    return lost[:, 0].contiguous()


def _with_recent_history(state: State) -> State:
    """Returns the games as if they had begun with the earliest position that they remember."""
    recent = state.recent.flip(1)
    hashes = zobrist.hash_stones(recent[:, :, 0], recent[:, :, 1])
    ago = torch.arange(recent.shape[1], 0, -1, device=hashes.device)
    earlier = torch.where(state.ply.unsqueeze(1) < ago, NOT_SEEN, hashes)
    seen = torch.cat([earlier, state.hash.unsqueeze(1)], dim=1)
    ply = torch.full_like(state.ply, recent.shape[1])
    return replace(
        state,
        seen=seen,
        links=links_of(seen, seen.shape[1]),
        lost=_recently_lost(state),
        ply=ply,
        ply_bound=recent.shape[1],
    )


def _relevant(state: State, seen: Tensor, game: Tensor | slice) -> Tensor:
    """Returns the hashes that a move may not repeat: all, but under situational superko only those with the same side
    to move. int64 [K, H]."""
    index = torch.arange(seen.shape[1], device=seen.device)
    same_side = ((index + state.ply[game].unsqueeze(1)) & 1) == 1
    return torch.where(same_side | (state.rules.superko[game] != SITUATIONAL).unsqueeze(1), seen, NOT_SEEN)


def _repeating_bounded(state: State, suicides: Tensor) -> Tensor:
    """Tests all points without a look by the host: the hash of every string, of what each point would capture, and all
    that was seen.
    """
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
    """Returns for every point the XOR of the keys of the different strings beside it among those meant: [B, P] each ->
    int64 [B, P].
    """
    points = torch.arange(labels.shape[1], device=labels.device)
    column = points % board_size
    is_above, is_below = points >= board_size, points < len(points) - board_size
    sides = ((1, column < board_size - 1), (-1, column > 0), (board_size, is_below), (-board_size, is_above))
    total, met = torch.zeros_like(string_key), []
    for distance, exists in sides:
        label = torch.where(exists & torch.roll(is_meant, -distance, 1), torch.roll(labels, -distance, 1), -1)
        is_new = label >= 0
        for earlier in met:
            is_new = is_new & (label != earlier)
        met.append(label)
        total = total ^ torch.where(is_new, torch.roll(string_key, -distance, 1), 0)
    return total
