"""The exact legal moves: finds the moves that would repeat a whole-board position, in all games at once.

A move can repeat a position only where a stone of its colour was removed before (the repeated position had it there),
or by suicide. Kernels play these few suspects and look up their hashes in the game's history. Torch must not read how
many there are, so it tests every point (`_repeating_rows`). A test compares the two.

The CPU's kernel skips more. If a stone stands on a point where its colour never lost a stone, all positions before it
was placed lack it, so none of them can recur while it stands. If the newest stone of either side is such a stone, a
move can repeat a position only by capturing it, or by suicide."""

import dataclasses
from functools import reduce

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.board import flood
from zerogo.board.position import BLACK, hash_stones, legal_rows, own_and_opponent, point_keys
from zerogo.board.state import NOT_SEEN, State, links_of, with_atari
from zerogo.rules import SIMPLE, SITUATIONAL

KEY_BITS, FIELD = 6, 10  # bits of a key that one sum counts, in fields that hold counts up to 625 points
HISTORY_CHUNK = 16  # remembered positions compared at a time with all points, to bound memory


def legal_actions(state: State) -> Tensor:
    """Returns the exact legal moves, superko included: bool [B, A]. Pass is always legal, and the only legal move in a
    finished game."""
    points = flood.unpack_rows(exact_legal_rows(state)).flatten(-2)
    return torch.cat([points, torch.ones_like(points[:, :1])], dim=1)


def exact_legal_rows(state: State) -> Tensor:
    """Returns the legal points, superko included: int32 [B, N].

    In games without their full history (see `State.seen`) it finds only repetitions of the last eight positions."""
    state = with_atari(state)
    if not state.rules.any_superko:
        return legal_rows(state, state.on_board, state.suicide)
    if state.seen.shape[1]:
        return _exact(state)
    if not flood.host_read_is_free(state.black):
        return _exact(_with_recent_history(state))
    legal = legal_rows(state, state.on_board, state.suicide)
    games = (_suspects(state, legal, _recently_lost(state)) != 0).any(1).nonzero().squeeze(1)
    if len(games):
        legal[games] = _exact(_with_recent_history(state.select(games)))
    return legal


def _exact(state: State) -> Tensor:
    """Returns the legal points in games with their full history."""
    if (fast := kernels.module_for("board", state.device)) is not None:
        return fast.exact_legal_rows(state, point_keys(state.board_size, state.device))
    legal = legal_rows(state, state.on_board, state.suicide)
    repeating = _suspects(state, legal, state.lost) & _repeating_rows(state, _suicides(state, legal))
    return torch.where((state.rules.superko == SIMPLE).unsqueeze(-1), legal, legal & ~repeating)


def _suicides(state: State, legal: Tensor) -> Tensor:
    """Returns the legal points where a stone removes its own string: int32 [B, N]."""
    if state.suicide is None:
        return torch.zeros_like(legal)
    return legal & ~legal_rows(state, state.on_board, None)


def _suspects(state: State, legal: Tensor, lost: Tensor) -> Tensor:
    """Returns the legal points that may repeat a position: int32 [B, N]; lost: int32 [B, 2, N]."""
    own_lost = torch.where((state.to_play == BLACK).unsqueeze(-1), lost[:, 0], lost[:, 1])
    return (legal & own_lost) | _suicides(state, legal)


def _recently_lost(state: State) -> Tensor:
    """Returns where a stone of one of the recent positions is missing in the next one: int32 [B, 2, N]."""
    now = torch.stack([state.black, state.white], dim=1)
    lost = state.recent[:, 0] & ~now
    for ago in range(1, state.recent.shape[1]):
        lost |= state.recent[:, ago] & ~state.recent[:, ago - 1]
    return lost


def _with_recent_history(state: State) -> State:
    """Returns the games as if they had begun with their earliest recent position."""
    now = torch.stack([state.black, state.white], dim=1).unsqueeze(1)
    hashes = hash_stones(*torch.cat([state.recent.flip(1), now], dim=1).unbind(2))
    last = hashes.shape[1] - 1
    plies = state.ply.to(torch.int64).unsqueeze(1) - torch.arange(last, -1, -1, device=hashes.device)
    seen = torch.where(plies < 0, NOT_SEEN, hashes)
    history = {"seen": seen, "links": links_of(seen, last + 1), "lost": _recently_lost(state)}
    ply = torch.full_like(state.ply, last)
    return dataclasses.replace(state, **history, hash=hashes[:, -1], ply=ply, ply_bound=last)


def _repeating_rows(state: State, suicides: Tensor) -> Tensor:
    """Returns the points where a move repeats a position: suicides int32 [B, N] -> int32 [B, N].

    Tests all points without reading tensors: it computes the hash of every string, and of the captures of each point,
    and compares with all of `seen`."""
    board_size = state.board_size
    stones = state.stones.flatten(1)
    labels = flood.string_labels(stones != 0, board_size, stones)
    table = point_keys(board_size, state.device).view(2, -1)[:, :-1]
    keys = torch.where(stones == 1, table[0], torch.where(stones == 2, table[1], 0))
    string_key = _xor_by_label(keys, labels)
    own_stones, opponent = (flood.unpack_rows(rows).flatten(1) for rows in own_and_opponent(state))
    atari = flood.unpack_rows(state.atari).flatten(1)
    own_key = torch.where((state.to_play == BLACK).unsqueeze(1), table[0], table[1])
    captured_keys = _xor_beside(string_key, labels, opponent & atari, board_size)
    after = state.hash.unsqueeze(1) ^ own_key ^ captured_keys
    if state.suicide is not None:
        removed = _xor_beside(string_key, labels, own_stones, board_size)
        after = torch.where(flood.unpack_rows(suicides).flatten(1), state.hash.unsqueeze(1) ^ removed, after)
    # Under situational superko only positions with the same side to move may not be repeated.
    same_side = ((torch.arange(state.seen.shape[1], device=own_stones.device) + state.ply.unsqueeze(1)) & 1) == 1
    relevant = torch.where(same_side | (state.rules.superko != SITUATIONAL).unsqueeze(1), state.seen, NOT_SEEN)
    repeats = torch.zeros_like(own_stones)
    for seen in relevant.split(HISTORY_CHUNK, dim=1):
        repeats |= (after.unsqueeze(2) == seen.unsqueeze(1)).any(2)
    return flood.pack_rows(repeats.unflatten(1, (board_size, board_size)))


def _xor_by_label(keys: Tensor, labels: Tensor) -> Tensor:
    """Returns for every point the XOR of the keys of its string: keys, labels int64 [B, P] -> int64 [B, P].

    torch has no XOR scatter, so each bit is counted, several bits to a word, and the parity of the counts is the
    XOR."""
    result = torch.zeros_like(keys)
    for start in range(0, 64, KEY_BITS):
        bits = range(min(KEY_BITS, 64 - start))
        spread = reduce(torch.add, (((keys >> (start + j)) & 1) << (FIELD * j) for j in bits))
        counts = torch.zeros_like(keys).scatter_add_(1, labels, spread).gather(1, labels)
        for j in bits:
            result |= ((counts >> (FIELD * j)) & 1) << (start + j)
    return result


def _xor_beside(string_key: Tensor, labels: Tensor, is_meant: Tensor, board_size: int) -> Tensor:
    """Returns for every point the XOR of the keys of the different strings next to it, among those in `is_meant`: [B,
    P] each -> int64 [B, P]."""
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
