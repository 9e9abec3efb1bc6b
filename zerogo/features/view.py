"""The side to move's view of a batch, with everything that several groups share, computed once; and the groups of
stones."""

from functools import cached_property
from types import ModuleType

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.board import State, exact_legal_rows, flood, stone_history, with_atari
from zerogo.board.position import BLACK, legal_rows
from zerogo.features.readings import Ladders, Tactics, read_ladders, read_tactics


class View:
    """A batch as the side to move sees it. Planes are bit rows int32 [B, N] (see `board.flood`), computed at their
    first use.

    Legality follows the rules. Superko is exact as far as the game's history is known: fully in a played game, for the
    last eight positions in a leaf of the search and in a stored sample (longer cycles are banned, but not shown)."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.is_black = state.to_play == BLACK  # bool [B]
        self.katago_ladders: list[Ladders] = []  # of the current position, the one before, …; see `planes`

    def colours(self, black: Tensor, white: Tensor) -> tuple[Tensor, Tensor]:
        """Returns Black's and White's as the side to move's and its opponent's: [B, ...] each."""
        is_black = self.is_black.view(-1, *[1] * (black.ndim - 1))
        return torch.where(is_black, black, white), torch.where(is_black, white, black)

    @cached_property
    def fast(self) -> ModuleType | None:
        """Returns the kernels that compute some rows faster than torch; only the CPU has them."""
        fast = kernels.module_for("planes", self.state.device)
        return fast if hasattr(fast, "eyes") else None

    @cached_property
    def sides(self) -> tuple[Tensor, Tensor]:
        """Returns the stones of the side to move and of its opponent."""
        return self.colours(self.state.black, self.state.white)

    @cached_property
    def empty(self) -> Tensor:
        """Returns the empty points."""
        return self.state.on_board & ~(self.state.black | self.state.white)

    @cached_property
    def with_atari(self) -> State:
        """Returns the batch with its strings in atari."""
        return with_atari(self.state)

    @cached_property
    def legal(self) -> Tensor:
        """Returns the legal points."""
        return exact_legal_rows(self.with_atari)

    @cached_property
    def repeats(self) -> Tensor:
        """Returns the points that superko alone bans."""
        return legal_rows(self.with_atari, self.state.on_board, self.state.suicide) & ~self.legal

    @cached_property
    def ko(self) -> Tensor:
        """Returns the point that the simple ko rule bans."""
        return flood.points_to_rows(self.state.ko.to(torch.int64), self.state.board_size)

    @cached_property
    def own_eyes(self) -> Tensor:
        """Returns the eyes of the side to move."""
        if self.fast is not None:
            return self.fast.eyes(self.sides[0], self.state.on_board) & self.empty
        # Boards of one size have the same edges, which are then computed once.
        on_board = self.state.on_board[:1] if self.state.rules.same_size else self.state.on_board
        return flood.eyes(self.sides[0], on_board) & self.empty

    @cached_property
    def tactics(self) -> Tactics:
        """Returns the tactics for the side to move."""
        return read_tactics(*self.sides, self.state.on_board, self.legal)

    @cached_property
    def distances(self) -> Tensor:
        """Returns the distance to the nearest edge, 1 on the edge itself and 0 off the board: int16 [B, N, N]."""
        line = torch.arange(self.state.board_size, device=self.state.device).unsqueeze(0)
        nearest = torch.minimum(line + 1, self.state.rules.size.view(-1, 1) - line).clamp(min=0)
        return torch.minimum(nearest.unsqueeze(1), nearest.unsqueeze(2)).to(torch.int16)

    @cached_property
    def ladders(self) -> Ladders:
        """Returns the ladders of the current position."""
        return read_ladders(self.state.black, self.state.white, self.state.on_board)

    @cached_property
    def movers_ladders(self) -> Ladders:
        """The ladder moves of the side to move; cheaper than all ladders, unless those were read already."""
        if "ladders" in vars(self):
            return self.ladders
        return read_ladders(self.state.black, self.state.white, self.state.on_board, self.state.to_play)

    @cached_property
    def last_moves(self) -> Tensor:
        """Returns the last actions of alternating colours, newest first, -1 for none, and for all but one if the game
        is over: int16 [B, 5]."""
        moves = self.state.moves
        is_hidden = self.state.finished.unsqueeze(1) & (torch.arange(moves.shape[1], device=moves.device) > 0)
        is_known = ((moves >= 0) & ~is_hidden).cumprod(1) > 0
        return torch.where(is_known, moves, -1)


# Groups of stones, now and in earlier positions; zero17 is `history` and `colour`


def as_planes(*rows: Tensor) -> Tensor:
    """Returns planes as one tensor: int32 [B, N] each -> int32 [B, c, N]."""
    return torch.stack(rows, dim=1) if len(rows) > 1 else rows[0].unsqueeze(1)


def colour(view: View) -> Tensor:
    """Returns all points if Black is to move, else none."""
    return as_planes(torch.where(view.is_black.unsqueeze(1), view.state.on_board, 0))


def history(view: View, number: int) -> Tensor:
    """Returns own stones now and in earlier positions, newest first, then the opponent's; empty before the first."""
    return torch.cat(view.colours(*stone_history(view.state, number).unbind(2)), dim=1)


def colour_history(view: View, number: int) -> Tensor:
    """Returns stones now and in earlier positions, newest first, Black's, then White's."""
    return torch.cat(stone_history(view.state, number).unbind(2), dim=1)


def turns_since(view: View, number: int) -> Tensor:
    """Returns the stones that have been on the board for 1, 2, … and for `number` or more positions; the last move's
    stone for 1. Initial stones are the oldest."""
    state = view.state
    if view.fast is not None:
        return view.fast.ages(state.black, state.white, state.recent, state.ply, number)
    is_before_start = state.ply.unsqueeze(1) < torch.arange(1, number, device=state.device)
    all_bits = -is_before_start.to(torch.int32)  # initial stones count as older than the start
    recent = state.recent[:, : number - 1] | all_bits.unsqueeze(2).unsqueeze(3)
    stood = [torch.stack([state.black, state.white], dim=1)]
    for earlier in recent.unbind(1):
        stood.append(stood[-1] & earlier)
    black, white = torch.stack(stood, dim=1).unbind(2)
    either = black | white
    return torch.cat([either[:, :-1] ^ either[:, 1:], either[:, -1:]], dim=1)


def last_move_planes(view: View, number: int) -> Tensor:
    """Returns the last moves, newest first, one plane each."""
    moves = view.last_moves[:, :number]
    rows = flood.points_to_rows(moves.flatten().to(torch.int64), view.state.board_size)
    return rows.unflatten(0, moves.shape)
