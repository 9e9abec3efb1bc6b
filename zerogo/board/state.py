"""The games themselves: a position, its rules and its history, and the moves that superko leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo import flood, kernels
from zerogo.board import zobrist
from zerogo.board.history import FIRST_WIDTH, NOT_SEEN, links_of, remember_
from zerogo.board.position import Position, find_atari, legal_rows, on_board_rows, play
from zerogo.board.superko import known_repeats
from zerogo.errors import InputError
from zerogo.rules import Rules, RulesBatch

RECENT = 7  # previous positions that are remembered for the encoders (AlphaGo Zero looks at 8)
RECENT_MOVES = 5
NO_CAP = 2**30
HISTORY = ("seen", "links", "lost", "recent", "moves")  # what a move is written into


@dataclass(frozen=True)
class State(Position):
    """B games: their positions (see `Position`), rules and history.

    on_board: int32 [B, N], the points that exist. cap: int32 [B], the ply at which a game is finished. seen: int64 [B,
    H], the hash of the stones at each ply, by ply (H is 0 where nobody kept them); links: int32 [B, 3H], how it is
    searched (see `history`). lost: int32 [B, 2, N], points where a black, a white stone was ever removed: only there
    can a move repeat a position, since the repeated one had its stone there. recent: int32 [B, 7, 2, N], black and
    white stones of the previous positions, newest first, empty where there were none. moves: int16 [B, 5], previous
    actions, newest first, -1 where there were none. ply_bound: host-side, no game is beyond this ply; `seen` grows by
    it."""

    rules: RulesBatch
    on_board: Tensor
    cap: Tensor
    seen: Tensor
    links: Tensor
    lost: Tensor
    recent: Tensor
    moves: Tensor
    ply_bound: int

    @property
    def suicide(self) -> Tensor | None:
        """bool [B] whether a game allows suicide, None where no game of the batch does."""
        return self.rules.suicide if self.rules.any_suicide else None


def new_games(
    num_games: int,
    rules: Rules | Sequence[Rules],
    device: torch.device | str = "cpu",
    move_cap: int | Sequence[int] | None = None,
    board_size: int | None = None,
) -> State:
    """Returns games before their first move, under one `Rules` or a sequence of B of them; a game is finished at ply
    `move_cap` if given, one for all or one for each. board_size: N, the side of the tensors; None is that of the
    largest board."""
    batch = RulesBatch.of(rules, num_games, device, board_size)
    empty = torch.zeros(num_games, batch.board_size, dtype=torch.int32, device=device)
    black_starts = torch.ones(num_games, dtype=torch.int8, device=device)
    return _without_history(empty, empty.clone(), black_starts, batch, move_cap)


def from_stones(
    stones: Tensor, to_play: Tensor, rules: Rules | Sequence[Rules] | RulesBatch, move_cap: int | None = None
) -> State:
    """Returns games that start from positions: stones int8 [B, N, N] (0, 1, 2), to_play int8 [B] (1, 2). Any colouring
    is accepted (`unsettled_strings` tells which are illegal); the position itself is the only one that superko
    remembers."""
    if stones.ndim != 3 or stones.shape[1] != stones.shape[2] or stones.dtype != torch.int8:
        raise InputError(f"from_stones: stones are {stones.dtype} {list(stones.shape)}; they must be int8 [B, N, N]")
    batch = rules if isinstance(rules, RulesBatch) else RulesBatch.of(rules, stones.shape[0], stones.device)
    if batch.board_size != stones.shape[1]:
        raise InputError(
            f"from_stones: the stones' side is {stones.shape[1]}, but the rules' largest size is {batch.board_size}"
        )
    return _without_history(
        flood.pack_rows(stones == 1), flood.pack_rows(stones == 2), to_play.to(torch.int8), batch, move_cap
    )


def restore(
    black: Tensor,
    white: Tensor,
    recent: Tensor,
    to_play: Tensor,
    rules: RulesBatch,
    *,
    moves: Tensor,
    passes: Tensor,
    ply: Tensor,
    ko: Tensor,
) -> State:
    """Returns the games of stored positions as an encoder needs them: with recent positions and moves, without the
    hashes for superko. So superko finds only repetitions of the recent positions, and the games can't be played on.

    black, white: int32 [B, N]. recent: int32 [B, 7, 2, N]. to_play, passes: int8 [B]. moves: int16 [B, 5]. ply: int32
    [B]. ko: int16 [B]."""
    state = _without_history(black, white, to_play, rules, None)
    unknown = {"seen": state.seen[:, :0], "links": state.links[:, :0]}
    return dataclasses.replace(state, **unknown, recent=recent, moves=moves, passes=passes, ply=ply, ko=ko)


def _without_history(
    black: Tensor, white: Tensor, to_play: Tensor, rules: RulesBatch, move_cap: int | Sequence[int] | None
) -> State:
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
        cap=torch.as_tensor(NO_CAP if move_cap is None else move_cap, **filled).expand(num_games).clone(),
        seen=hashes.unsqueeze(1).clone(),
        links=links_of(hashes.unsqueeze(1), 1),
        lost=torch.zeros(num_games, 2, board_size, **filled),
        recent=torch.zeros(num_games, RECENT, 2, board_size, **filled),
        moves=torch.full((num_games, RECENT_MOVES), -1, dtype=torch.int16, device=device),
        ply_bound=0,
    )


def step(state: State, actions: Tensor) -> State:
    """Returns the games after one action each: int64 [B] points or P for pass, legal by `legal_actions` (not checked).
    Finished games stay."""
    return _step(state, actions, with_history_copied=True)


def step_(state: State, actions: Tensor) -> State:
    """The same, but takes over the history of the given state, which must not be used again: a copy less where games
    only go forward.
    """
    return _step(state, actions, with_history_copied=False)


def _step(state: State, actions: Tensor, with_history_copied: bool) -> State:
    if actions.shape != (state.num_games,):
        raise ValueError(
            f"step: actions are {list(actions.shape)}; they must be [{state.num_games}], one for each game"
        )
    if state.seen.shape[1] == 0:
        raise ValueError("step: these games came without their history (see `restore`); they can't be played on")
    ply_bound = state.ply_bound + 1
    if ply_bound >= state.seen.shape[1]:
        state = _widened(state, max(FIRST_WIDTH, 2 * state.seen.shape[1]))
    own = _copied if with_history_copied else Tensor.contiguous
    history = {name: own(getattr(state, name)) for name in HISTORY}
    if (fast := kernels.compiled("board", state.device)) is not None:
        fields = fast.step_(state, actions, zobrist.point_keys(state.board_size, state.device), history)
    else:
        position, removed = play(state, actions, state.on_board, state.suicide, state.cap)
        fields = {field.name: getattr(position, field.name) for field in dataclasses.fields(position)}
        going = ~state.finished
        remember_(history["seen"], history["links"], position.hash, position.ply, going)
        history["lost"] |= removed
        history["recent"] = _shifted(state.recent, torch.stack([state.black, state.white], dim=1), going)
        history["moves"] = _shifted(state.moves, actions, going)
    return dataclasses.replace(state, **fields, **history, ply_bound=ply_bound)


def _copied(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _shifted(recent: Tensor, newest: Tensor, going: Tensor) -> Tensor:
    """Returns the history with a newest entry and without the oldest, in the games that go on: [B, n, ...], [B, ...],
    bool [B].
    """
    shifted = torch.cat([newest.to(recent.dtype).unsqueeze(1), recent[:, :-1]], dim=1)
    return torch.where(going.view(-1, *[1] * (recent.ndim - 1)), shifted, recent)


def _widened(state: State, width: int) -> State:
    """Returns the games with room for more plies in `seen` and `links`: H = width, unless that is what they have."""
    if width == state.seen.shape[1]:
        return state
    seen = torch.full((state.num_games, width), NOT_SEEN, dtype=torch.int64, device=state.device)
    seen[:, : state.seen.shape[1]] = state.seen
    return dataclasses.replace(state, seen=seen, links=links_of(state.seen, width))


def legal_actions(state: State) -> Tensor:
    """Returns the exact legal moves, superko included: bool [B, A]. Pass is always legal; in a finished game nothing
    else is.
    """
    points = flood.unpack_rows(exact_legal_rows(state)).flatten(-2)
    return torch.cat([points, torch.ones_like(points[:, :1])], dim=1)


def exact_legal_rows(state: State) -> Tensor:
    """Returns the points that may be played, superko included: int32 [B, N]."""
    fast = kernels.compiled("board", state.device)
    if fast is not None and state.rules.any_superko and state.seen.shape[1]:
        return fast.exact_legal_rows(state, zobrist.point_keys(state.board_size, state.device))
    legal = legal_rows(state, state.on_board, state.suicide)
    return legal & ~known_repeats(state, legal) if state.rules.any_superko else legal


def select(state: State, index: Tensor) -> State:
    """Returns the games with the given indices: int64 [K]."""
    return state.map(lambda tensor: tensor.index_select(0, index))


def put_(state: State, index: Tensor, games: State) -> State:
    """Returns the batch with the games at the given indices (int64 [K], all different) replaced by those of a batch of
    K.

    Takes over the tensors of the given state, which must not be used again. Looks at the greatest ply, so that H
    follows the longest game that is still played and not the number of steps: the one wait for the host here."""
    if state.board_size != games.board_size:
        raise ValueError(
            f"put_: games of side {games.board_size} into a batch of side {state.board_size}; both must be the same"
        )
    if index.dtype != torch.int64:
        raise ValueError(f"put_: the index is {index.dtype}; it must be int64, the numbers of the games")
    width = max(state.seen.shape[1], games.seen.shape[1])
    state, games = _widened(state, width), _widened(games, width)
    _replace_(_tensors(state), index, _tensors(games))
    one, other = state.rules, games.rules
    flags = {
        name: getattr(one, name) or getattr(other, name) for name in ("any_suicide", "any_superko", "any_territory")
    }
    rules = dataclasses.replace(one, same_size=one.same_size and other.same_size, **flags)
    return dataclasses.replace(state, rules=rules, ply_bound=int(state.ply.max()))


def _tensors(state: State) -> list[Tensor]:
    """Returns all tensors of the games and their rules, in the order of the fields."""
    return [value for part in (state, state.rules) for value in vars(part).values() if isinstance(value, Tensor)]


def _replace_(old: list[Tensor], index: Tensor, new: list[Tensor]) -> None:
    """Writes [K, ...] over the entries with the indices int64 [K] of [B, ...], in every tensor."""
    fast = kernels.compiled("board", index.device)
    if fast is not None and all(_are_alike(*pair, len(index)) for pair in zip(old, new, strict=True)):
        fast.replace_(old, index, new)
        return
    for one, other in zip(old, new, strict=True):
        one[index] = other


def _are_alike(one: Tensor, other: Tensor, number: int) -> bool:
    """Whether so many entries can be copied as they lie in memory."""
    alike = one.dtype == other.dtype and other.shape == (number, *one.shape[1:])
    return alike and one.is_contiguous() and other.is_contiguous()


def put(state: State, index: Tensor, games: State) -> State:
    """The same, and leaves the given state as it was."""
    return put_(state.map(torch.clone), index, games)


def to_device(state: State, device: torch.device | str) -> State:
    """Returns the games on another device."""
    return state.map(lambda tensor: tensor.to(device))


def unsettled_strings(state: State) -> Tensor:
    """Returns whether a string without liberties stands on the board, which makes the position illegal: bool [B]."""
    stones = torch.stack([state.black, state.white])
    empty = state.on_board & ~(state.black | state.white)
    alive = flood.flood(flood.neighbours(empty) & stones, stones)
    return (alive != stones).any(-1).any(0)
