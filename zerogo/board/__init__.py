"""Many games at once, in tensors: position, rules and history; how games begin, continue and are replaced, and their
exact legal moves, superko included. `zerogo.game` explains the rules.

Superko needs the hash of every earlier position of a game: `State.seen` [B, H] holds the hash at each ply. For the
CPU's kernels, `State.links` [B, 3H] makes it a hash table with chains. The first 2H entries hold, for each value of the
hash's low bits, the last ply with such a hash; the other H entries hold for each ply the previous one in its chain, -1
at the end. So a look-up costs about one read instead of H. Elsewhere all of `seen` is compared, and `links` is [B,
0]."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Self

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.board import flood, position
from zerogo.board.position import BLACK, Position, find_atari, hash_stones, legal_rows, play, point_keys
from zerogo.errors import InputError
from zerogo.kernels import copies
from zerogo.kernels.shared import HistoryFields
from zerogo.rules import SIMPLE, SITUATIONAL, GameRules, RulesBatch

RECENT = 7  # previous positions kept for the encoders (AlphaGo Zero uses 8 positions)
RECENT_MOVES = 5
NO_CAP = 2**30
MoveCap = int | Sequence[int] | None  # the ply at which games are finished: one for all, or one per game
NO_MOVE = -1  # of a game that does not move, and after a game's end in records
NOT_SEEN = -(2**63) + 1  # fills unused entries of `seen`; a position has this hash with probability 2^-64
FIRST_WIDTH = 32  # H after the first move; it doubles when it is full, so it is a power of two
HISTORY = HistoryFields._fields  # which a move updates
KEY_BITS, FIELD = 6, 10  # bits of a key that one sum counts, in fields that hold counts up to 625 points
HISTORY_CHUNK = 16  # remembered positions compared at a time with all points, to bound memory


@dataclass(frozen=True)
class State(Position):
    """B games: their positions (see `Position`), rules and history.

    on_board: int32 [B, N], the points that exist. cap: int32 [B], the ply at which a game is finished. seen: int64 [B,
    H], the hash of the stones at each ply (H is 0 if they were not kept). links: int32 [B, 3H], the hash table for it.
    lost: int32 [B, 2, N], points where a black or a white stone was ever removed: apart from suicide, only there can a
    move repeat a position, which must have had the stone there. recent: int32 [B, 7, 2, N], black and white stones of
    the previous positions, newest first, empty before the first. moves: int16 [B, 5], previous actions, newest first,
    -1 for none; if a side moves twice in a row in a record, all earlier entries are -1, too. start_balance: int32 [B],
    black minus white stones before the first move. ply_bound: an upper bound of the plies, on the host, by which `seen`
    is widened."""

    rules: RulesBatch
    on_board: Tensor
    cap: Tensor
    seen: Tensor
    links: Tensor
    lost: Tensor
    recent: Tensor
    moves: Tensor
    start_balance: Tensor
    ply_bound: int

    @property
    def suicide(self) -> Tensor | None:
        """bool [B]: whether a game allows suicide; None if no game of the batch does."""
        return self.rules.suicide if self.rules.any_suicide else None

    def with_max_bounds(self) -> Self:
        """Returns the games with `ply_bound` at the largest ply for which `seen` has room."""
        return replace(self, ply_bound=self.seen.shape[1] - 1)

    def to(self, device: torch.device | str) -> Self:
        """Returns the games on a device."""
        moved = super().to(torch.device(device))
        if moved.device.type == self.device.type:
            return moved
        return replace(moved, links=links_of(moved.seen, moved.seen.shape[1]))


def links_of(seen: Tensor, width: int) -> Tensor:
    """Returns the hash table for `seen`: int64 [B, n], to be widened to H = width >= n -> int32 [B, 3H]; [B, 0] if no
    kernel reads it."""
    num_games, plies = seen.shape
    if seen.device.type != "cpu":
        return seen.new_empty((num_games, 0), dtype=torch.int32)
    trash = 2 * width  # in place of a hash's low bits: unused entries are in no chain
    if plies == 1:  # new games, the frequent case, have no chain yet
        return torch.full((num_games, 3 * width), -1, dtype=torch.int32).scatter_(1, seen & (trash - 1), 0)
    links = torch.full((num_games, 3 * width + 1), -1, dtype=torch.int32)
    slot = torch.where(seen == NOT_SEEN, trash, seen & (trash - 1))
    in_slot, ply = slot.sort(dim=1, stable=True)
    follows = (in_slot[:, 1:] == in_slot[:, :-1]) & (in_slot[:, 1:] != trash)
    links.scatter_(1, trash + ply[:, 1:], torch.where(follows, ply[:, :-1], -1).to(torch.int32))
    is_newest = torch.nn.functional.pad(~follows, (0, 1), value=True) & (in_slot != trash)
    links.scatter_(1, torch.where(is_newest, in_slot, 3 * width), ply.to(torch.int32))
    return links[:, :-1].contiguous()


def with_atari(state: State) -> State:
    """Returns the games with their strings in atari, which samples lack."""
    if state.atari is not None:
        return state
    return replace(state, atari=find_atari(state.black, state.white, state.on_board)[0])


# How games begin


def new_games(
    num_games: int, rules: GameRules, device: torch.device | str = "cpu", move_cap: MoveCap = None, board_size: int = 0
) -> State:
    """Returns games before their first move, under one `Rules` or a sequence of B of them; a game is finished at ply
    `move_cap` if given, one for all or one for each. board_size: N, the side of the tensors; 0 is that of the
    largest board."""
    batch = RulesBatch.of(rules, num_games, device, board_size)
    empty = torch.zeros(num_games, batch.board_size, dtype=torch.int32, device=device)
    black_starts = torch.ones(num_games, dtype=torch.int8, device=device)
    return _without_history(empty, empty.clone(), black_starts, batch, move_cap, is_empty=True)


def from_stones(stones: Tensor, to_play: Tensor, rules: GameRules | RulesBatch, move_cap: MoveCap = None) -> State:
    """Returns games that start from positions: stones int8 [B, N, N] (0, 1, 2), to_play int8 [B] (1, 2). Any colouring
    is accepted, illegal ones too (`position.find_atari` finds strings without liberties); the position itself is the
    only one that superko remembers."""
    shape, games = list(stones.shape), list(to_play.shape)
    if stones.dtype != torch.int8 or len(shape) != 3 or shape[1] != shape[2] or games != shape[:1]:
        raise InputError(f"from_stones: int8 [B, N, N] and [B] are needed, not {stones.dtype} {shape} and {games}")
    batch = rules if isinstance(rules, RulesBatch) else RulesBatch.of(rules, shape[0], stones.device)
    if batch.board_size != shape[1]:
        raise InputError(f"from_stones: the stones' side is {shape[1]}, the rules' largest size {batch.board_size}")
    if ((stones < 0) | (stones > 2)).any() or ((to_play < 1) | (to_play > 2)).any():
        raise InputError("from_stones: stones are 0 (empty), 1 (black) or 2 (white), to_play is 1 or 2")
    black, white = flood.pack_rows(stones == 1), flood.pack_rows(stones == 2)
    return _without_history(black, white, to_play.to(torch.int8), batch, move_cap)


def _without_history(
    black: Tensor, white: Tensor, to_play: Tensor, rules: RulesBatch, move_cap: MoveCap = None, is_empty: bool = False
) -> State:
    num_games, board_size = black.shape
    rows = ((1 << rules.size.to(torch.int64)) - 1).to(torch.int32).unsqueeze(-1)
    on_board = torch.where(torch.arange(board_size, device=black.device) < rules.size.unsqueeze(-1), rows, 0)
    hashes = hash_stones(black, white)
    filled = {"dtype": torch.int32, "device": black.device}
    return State(
        black=black,
        white=white,
        atari=torch.zeros_like(black) if is_empty else find_atari(black, white, on_board)[0],
        to_play=to_play,
        passes=torch.zeros_like(to_play),
        ply=torch.zeros(num_games, **filled),
        ko=torch.full_like(to_play, -1, dtype=torch.int16),
        hash=hashes,
        captures=torch.zeros(num_games, 2, **filled),
        finished=torch.zeros_like(to_play, dtype=torch.bool),
        rules=rules,
        on_board=on_board,
        cap=torch.as_tensor(NO_CAP if move_cap is None else move_cap, **filled).expand(num_games).clone(),
        seen=hashes.unsqueeze(1).clone(),
        links=links_of(hashes.unsqueeze(1), 1),
        lost=torch.zeros(num_games, 2, board_size, **filled),
        recent=torch.zeros(num_games, RECENT, 2, board_size, **filled),
        moves=torch.full((num_games, RECENT_MOVES), -1, dtype=torch.int16, device=black.device),
        start_balance=torch.zeros(num_games, **filled) if is_empty else flood.count(black) - flood.count(white),
        ply_bound=0,
    )


# How games continue


def step(state: State, actions: Tensor) -> State:
    """Returns the games after one action each: int64 [B] points or P for pass, legal by `legal_actions` (not checked).
    Finished games stay unchanged."""
    cloned = {name: getattr(state, name).clone(memory_format=torch.contiguous_format) for name in HISTORY}
    return step_(replace(state, **cloned), actions)


def step_(state: State, actions: Tensor) -> State:
    """Does the same, but writes into the history of the given state, which must not be used again. This saves a
    copy."""
    if actions.shape != (state.num_games,):
        shape, expected = list(actions.shape), f"[{state.num_games}], one for each game"
        raise ValueError(f"step: actions are {shape}; they must be {expected}")
    if state.seen.shape[1] == 0:
        raise ValueError("step: these games came without their history; they can't be played on")
    ply_bound = state.ply_bound + 1
    if ply_bound >= state.seen.shape[1]:
        state = _widen(state, max(FIRST_WIDTH, 2 * state.seen.shape[1]))
    history = {name: getattr(state, name).contiguous() for name in HISTORY}
    if (fast := kernels.module_for("board", state.device)) is not None:
        fields = fast.step_(state, actions, point_keys(state.board_size, state.device), history)
    else:
        after, removed = play(state, actions, state.on_board, state.suicide, state.cap)
        fields, going = vars(after), ~state.finished
        _remember_(history["seen"], history["links"], after.hash, after.ply, going)
        history["lost"] |= removed
        history["recent"] = _shift(state.recent, torch.stack([state.black, state.white], dim=1), going)
        history["moves"] = _shift(state.moves, actions, going)
    return replace(state, **fields, **history, ply_bound=ply_bound)


def _remember_(seen: Tensor, links: Tensor, hashes: Tensor, ply: Tensor, goes_on: Tensor) -> None:
    """Writes the positions after a move into `seen` and `links`: hashes int64 [B], ply int32 [B]; games that are over
    stay unchanged."""
    width, game = seen.shape[1], torch.arange(len(seen), device=seen.device)
    seen.view(-1)[game * width + ply] = hashes
    if links.shape[1]:
        chains, first = links.view(-1), game * 3 * width
        slot, link = first + (hashes & (2 * width - 1)), first + 2 * width + ply
        newest = chains[slot]
        chains[link] = torch.where(goes_on, newest, chains[link])
        chains[slot] = ply


def _shift(recent: Tensor, newest: Tensor, going: Tensor) -> Tensor:
    """Returns histories [B, n, ...] with a new newest entry [B, ...] and without the oldest, in running games, bool
    [B]."""
    shifted = torch.cat([newest.to(recent.dtype).unsqueeze(1), recent[:, :-1]], dim=1)
    return torch.where(going.view(-1, *[1] * (recent.ndim - 1)), shifted, recent)


def _widen(state: State, width: int) -> State:
    """Returns the games with room for more plies in `seen` and `links`: H = width."""
    if width == state.seen.shape[1]:
        return state
    unused = state.seen.new_full((state.num_games, width - state.seen.shape[1]), NOT_SEEN)
    seen = torch.cat([state.seen, unused], dim=1)
    return replace(state, seen=seen, links=links_of(state.seen, width))


# How games are replaced


def put_(state: State, index: Tensor, games: State, ply_bound: int | None = None) -> State:
    """Returns the batch with the games at the given indices (int64 [K], all different) replaced by those of a batch of
    K. It reuses the tensors of the given state, which must not be used again.

    Reads the largest ply, so that H follows the longest running game and not the number of steps; this is the only
    wait. If `ply_bound` gives it, index and games may be on the host, and nothing waits."""
    if state.board_size != games.board_size:
        sides = f"games of side {games.board_size} into a batch of side {state.board_size}"
        raise ValueError(f"put_: {sides}; both must be the same")
    if index.dtype != torch.int64:
        raise ValueError(f"put_: the index is {index.dtype}; it must be int64, the numbers of the games")
    width = max(state.seen.shape[1], games.seen.shape[1])
    state, games = _widen(state, width), _widen(games, width)
    games = replace(games, links=games.links[:, : state.links.shape[1]])  # which some devices lack
    (copies.put_ if ply_bound is None else copies.put_from_host_)(state.tensors(), index, games.tensors())
    one, other = state.rules, games.rules
    flags = {flag: getattr(one, flag) or getattr(other, flag) for flag in vars(one) if flag.startswith("any_")}
    rules = replace(one, same_size=one.same_size and other.same_size, **flags)
    return replace(state, rules=rules, ply_bound=int(state.ply.max()) if ply_bound is None else ply_bound)


# Legal moves. A move can repeat a position only where a stone of its colour was removed before (the repeated position
# had it there), or by suicide. Kernels play these few suspects and look up their hashes in the game's history. Torch
# must not read how many there are, so it tests every point (`_repeating_rows`). A test compares the two.
#
# The CPU's kernel skips more. If a stone stands on a point where its colour never lost a stone, all positions before it
# was placed lack it, so none of them can recur while it stands. If the newest stone of either side is such a stone, a
# move can repeat a position only by capturing it, or by suicide.


def legal_actions(state: State) -> Tensor:
    """Returns the exact legal moves, superko included: bool [B, A]. Pass is always legal, and the only legal move in a
    finished game."""
    return torch.nn.functional.pad(flood.unpack_rows(exact_legal_rows(state)).flatten(1), (0, 1), value=True)


def exact_legal_rows(state: State) -> Tensor:
    """Returns the legal points, superko included: int32 [B, N].

    In games without their full history (see `State.seen`) it finds only repetitions of the last eight positions."""
    state = with_atari(state)
    if not state.rules.any_superko:
        return legal_rows(state, state.on_board, state.suicide)
    return _exact(state if state.seen.shape[1] else with_recent_history(state))


def _exact(state: State) -> Tensor:
    """Returns the legal points in games with their full history."""
    if (fast := kernels.module_for("board", state.device)) is not None:
        return fast.exact_legal_rows(state, point_keys(state.board_size, state.device))
    legal = legal_rows(state, state.on_board, state.suicide)
    suicides = torch.zeros_like(legal) if state.suicide is None else legal & ~legal_rows(state, state.on_board, None)
    is_black = (state.to_play == BLACK).unsqueeze(-1)
    suspects = (legal & torch.where(is_black, state.lost[:, 0], state.lost[:, 1])) | suicides  # may repeat a position
    repeating = suspects & _repeating_rows(state, suicides)
    return torch.where((state.rules.superko == SIMPLE).unsqueeze(-1), legal, legal & ~repeating)


def stone_history(state: State, earlier: int = RECENT) -> Tensor:
    """Returns the black and the white stones now and in earlier positions, newest first: int32 [B, 1 + earlier, 2,
    N]."""
    now = torch.stack([state.black, state.white], dim=1).unsqueeze(1)
    return torch.cat([now, state.recent[:, :earlier]], dim=1)


def with_recent_history(state: State) -> State:
    """Returns the games as if they had begun with their earliest recent position."""
    last = state.recent.shape[1]
    if state.device.type == "cpu" and (fast := kernels.module_for("board", state.device)) is not None:
        history = fast.recent_history(state, point_keys(state.board_size, state.device), NOT_SEEN)
    else:
        hashes = hash_stones(*stone_history(state).flip(1).unbind(2))
        plies = state.ply.to(torch.int64).unsqueeze(1) - torch.arange(last, -1, -1, device=hashes.device)
        seen = torch.where(plies < 0, NOT_SEEN, hashes)
        lost = reduce(torch.bitwise_or, (state.recent & ~stone_history(state, RECENT - 1)).unbind(1))
        history = {"seen": seen, "links": links_of(seen, last + 1), "lost": lost, "hash": hashes[:, -1]}
    return replace(state, **history, ply=torch.full_like(state.ply, last), ply_bound=last)


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
    own_stones, opponent = (flood.unpack_rows(rows).flatten(1) for rows in position.own_and_opponent(state))
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
    adjacent = flood.labels_beside(torch.where(is_meant, labels, labels.shape[1]), board_size)
    keys = torch.nn.functional.pad(string_key, (0, 1))  # a label is one of its string's points, or P for none
    total = torch.zeros_like(string_key)
    for side in range(4):
        is_new = (adjacent[:, :side] != adjacent[:, side : side + 1]).all(1)
        total = total ^ torch.where(is_new, keys.gather(1, adjacent[:, side]), 0)
    return total
