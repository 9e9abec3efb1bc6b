"""The games themselves: a position, its rules and its history, and the moves that superko leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo import flood
from zerogo.board import zobrist
from zerogo.board.position import Position, find_atari, legal_rows, on_board_rows, play
from zerogo.board.superko import NOT_SEEN, census, repeating_rows
from zerogo.errors import InputError
from zerogo.rules import Rules, RulesBatch

RECENT = 7  # previous positions that are remembered for the encoders (AlphaGo Zero looks at 8)
RECENT_MOVES = 5
NO_CAP = 2**30


@dataclass(frozen=True)
class State(Position):
    """B games: their positions (see `Position`), rules and history.

    on_board: int32 [B, N], the points that exist. cap: int32 [B], the ply at which a game is finished. seen: int64 [B, H], the hash of the
    stones at each ply, by ply. census: int16 [B, H], a number that equal positions share, by ply. lost: int32 [B, 2, N], points where a black, a white stone was ever removed: only there can a move repeat a
    position, since the repeated one had its stone there. recent: int32 [B, 7, 2, N], black and white stones of the previous positions, newest
    first, empty where there were none. moves: int16 [B, 5], previous actions, newest first, -1 where there were none.
    ply_bound: host-side, no game is beyond this ply; `seen` grows by it.
    """

    rules: RulesBatch
    on_board: Tensor
    cap: Tensor
    seen: Tensor
    census: Tensor
    lost: Tensor
    recent: Tensor
    moves: Tensor
    ply_bound: int

    @property
    def suicide(self) -> Tensor | None:
        """bool [B] whether a game allows suicide, None where no game of the batch does."""
        return self.rules.suicide if self.rules.any_suicide else None


def new_games(num_games: int, rules: Rules | Sequence[Rules], device: torch.device | str = "cpu", move_cap: int | None = None) -> State:
    """Returns games before their first move, under one `Rules` or a sequence of B of them; a game is finished at ply `move_cap` if given."""
    batch = RulesBatch.of(rules, num_games, device)
    empty = torch.zeros(num_games, batch.board_size, dtype=torch.int32, device=device)
    black_starts = torch.ones(num_games, dtype=torch.int8, device=device)
    return _without_history(empty, empty, black_starts, batch, move_cap)


def from_stones(stones: Tensor, to_play: Tensor, rules: Rules | Sequence[Rules] | RulesBatch, move_cap: int | None = None) -> State:
    """Returns games that start from positions: stones int8 [B, N, N] (0, 1, 2), to_play int8 [B] (1, 2). Any colouring is accepted
    (`unsettled_strings` tells which are illegal); the position itself is the only one that superko remembers.
    """
    if stones.ndim != 3 or stones.shape[1] != stones.shape[2] or stones.dtype != torch.int8:
        raise InputError(f"from_stones: stones are {stones.dtype} {list(stones.shape)}; they must be int8 [B, N, N]")
    batch = rules if isinstance(rules, RulesBatch) else RulesBatch.of(rules, stones.shape[0], stones.device)
    if batch.board_size != stones.shape[1]:
        raise InputError(f"from_stones: the stones' side is {stones.shape[1]}, but the rules' largest size is {batch.board_size}")
    return _without_history(flood.pack_rows(stones == 1), flood.pack_rows(stones == 2), to_play.to(torch.int8), batch, move_cap)


def restore(
    black: Tensor, white: Tensor, recent: Tensor, to_play: Tensor, rules: RulesBatch, *, moves: Tensor, passes: Tensor, ply: Tensor, ko: Tensor
) -> State:
    """Returns the games of stored positions as an encoder needs them: with recent positions and moves, without the hashes for superko.

    black, white: int32 [B, N]. recent: int32 [B, 7, 2, N]. to_play, passes: int8 [B]. moves: int16 [B, 5]. ply: int32 [B]. ko: int16 [B].
    """
    state = _without_history(black, white, to_play, rules, None)
    return dataclasses.replace(state, recent=recent, moves=moves, passes=passes, ply=ply, ko=ko)


def _without_history(black: Tensor, white: Tensor, to_play: Tensor, rules: RulesBatch, move_cap: int | None) -> State:
    num_games, board_size = black.shape
    device = black.device
    on_board = on_board_rows(rules.size, board_size)
    atari, _ = find_atari(black, white, on_board)
    hashes = zobrist.hash_stones(black, white)
    filled = {"dtype": torch.int32, "device": device}
    return State(
        black=black,
        white=white,
        atari=atari,
        to_play=to_play,
        passes=torch.zeros(num_games, dtype=torch.int8, device=device),
        ply=torch.zeros(num_games, **filled),
        ko=torch.full((num_games,), -1, dtype=torch.int16, device=device),
        hash=hashes,
        captures=torch.zeros(num_games, 2, **filled),
        finished=torch.zeros(num_games, dtype=torch.bool, device=device),
        rules=rules,
        on_board=on_board,
        cap=torch.full((num_games,), NO_CAP if move_cap is None else move_cap, **filled),
        seen=hashes.unsqueeze(1).clone(),
        census=census(flood.count(black), flood.count(white)).unsqueeze(1),
        lost=torch.zeros(num_games, 2, board_size, **filled),
        recent=torch.zeros(num_games, RECENT, 2, board_size, **filled),
        moves=torch.full((num_games, RECENT_MOVES), -1, dtype=torch.int16, device=device),
        ply_bound=0,
    )


def step(state: State, actions: Tensor) -> State:
    """Returns the games after one action each: int64 [B] points or P for pass, legal by `legal_actions` (not checked). Finished games stay."""
    return _step(state, actions, with_history_copied=True)


def step_(state: State, actions: Tensor) -> State:
    """The same, but takes over the history of the given state, which must not be used again: a copy less where games only go forward."""
    return _step(state, actions, with_history_copied=False)


def _step(state: State, actions: Tensor, with_history_copied: bool) -> State:
    position, removed = play(state, actions, state.on_board, state.suicide, state.cap)
    seen, counts, ply_bound = state.seen, state.census, state.ply_bound + 1
    if ply_bound >= seen.shape[1]:
        seen, counts = _widened(state)
    elif with_history_copied:
        seen, counts = seen.clone(), counts.clone()
    ply = position.ply.to(torch.int64).unsqueeze(1)
    seen.scatter_(1, ply, position.hash.unsqueeze(1))
    counts.scatter_(1, ply, census(flood.count(position.black), flood.count(position.white)).unsqueeze(1))
    going = ~state.finished
    before = torch.stack([state.black, state.white], dim=1)
    recent = torch.cat([before.unsqueeze(1), state.recent[:, :-1]], dim=1)
    moves = torch.cat([actions.to(torch.int16).unsqueeze(1), state.moves[:, :-1]], dim=1)
    return dataclasses.replace(
        state,
        **{field.name: getattr(position, field.name) for field in dataclasses.fields(position)},
        seen=seen,
        census=counts,
        lost=state.lost | torch.stack([removed.black_stones, removed.white_stones], dim=1),
        recent=torch.where(going.view(-1, 1, 1, 1), recent, state.recent),
        moves=torch.where(going.unsqueeze(1), moves, state.moves),
        ply_bound=ply_bound,
    )


def _widened(state: State, width: int = 0) -> tuple[Tensor, Tensor]:
    """Returns `seen` and `census` with room for more plies: at least `width`, by default twice as many."""
    num_games, old = state.seen.shape
    width = max(32, 2 * old) if width == 0 else width
    seen = torch.full((num_games, width), NOT_SEEN, dtype=torch.int64, device=state.device)
    counts = torch.full((num_games, width), -1, dtype=torch.int16, device=state.device)
    seen[:, :old], counts[:, :old] = state.seen, state.census
    return seen, counts


def legal_actions(state: State) -> Tensor:
    """Returns the exact legal moves, superko included: bool [B, A]. Pass is always legal; in a finished game nothing else is."""
    points = flood.unpack_rows(exact_legal_rows(state)).flatten(-2)
    return torch.cat([points, torch.ones_like(points[:, :1])], dim=1)


def exact_legal_rows(state: State) -> Tensor:
    """Returns the points that may be played, superko included: int32 [B, N]."""
    legal = legal_rows(state, state.on_board, state.suicide)
    return legal & ~repeating_rows(state, legal) if state.rules.any_superko else legal


def select(state: State, index: Tensor) -> State:
    """Returns the games with the given indices: int64 [K]."""
    return state.map(lambda tensor: tensor.index_select(0, index))


def put_(state: State, index: Tensor, games: State) -> State:
    """Returns the batch with the games at the given indices (int64 [K], all different) replaced by those of a batch of K.

    Takes over the tensors of the given state, which must not be used again.
    """
    if state.board_size != games.board_size:
        raise ValueError(f"put_: games of side {games.board_size} into a batch of side {state.board_size}; both must be the same")
    if state.seen.shape[1] != games.seen.shape[1]:
        width = max(state.seen.shape[1], games.seen.shape[1])
        state, games = (dataclasses.replace(s, **dict(zip(("seen", "census"), _widened(s, width), strict=True))) for s in (state, games))
    for old, new in ((state, games), (state.rules, games.rules)):
        for field in dataclasses.fields(old):
            if isinstance(getattr(old, field.name), Tensor):
                getattr(old, field.name)[index] = getattr(new, field.name)
    rules = dataclasses.replace(
        state.rules,
        same_size=state.rules.same_size and games.rules.same_size,
        any_suicide=state.rules.any_suicide or games.rules.any_suicide,
        any_superko=state.rules.any_superko or games.rules.any_superko,
        any_territory=state.rules.any_territory or games.rules.any_territory,
    )
    return dataclasses.replace(state, rules=rules, ply_bound=max(state.ply_bound, games.ply_bound))


def put(state: State, index: Tensor, games: State) -> State:
    """The same, and leaves the given state as it was."""
    return put_(state.map(torch.clone), index, games)


def to_device(state: State, device: torch.device | str) -> State:
    """Returns the games on another device."""
    return state.map(lambda tensor: tensor.to(device))


def unsettled_strings(state: State) -> Tensor:
    """Returns whether a string without liberties stands on the board, which makes the position illegal: bool [B]."""
    _, breathless = find_atari(state.black, state.white, state.on_board)
    return (breathless != 0).any(-1)
