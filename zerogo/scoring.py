"""Whose points are whose: area, territory, unconditional life (Benson), ownership, the final score; for a whole batch at once.

Two doors lead to each: `stones` int8 [B, N, N] (0 empty, 1 black, 2 white) for programs outside, bit rows int32 [B, N] (see `flood`) for
the hot path. `on_board` int32 [B, N] says which points exist where games of different sizes share a batch; without it all do.
Scores and ownership here are Black's: positive is good for Black.

**What counts as pass-alive**, for either colour; told for Black:
* A *region* is a connected set of points without a black stone, as large as it can be. A region is *vital* to a black string if it has an
  empty point and all its empty points are liberties of that string. Where the rules allow suicide ALL its points must be, stones included
  (White could empty such points by suicide, and so get an inner eye: KataGo's `calculateArea` makes the same distinction).
* Strings with fewer than two vital regions are struck off, then regions that touch a string struck off, until nothing changes; what is left
  is alive whatever White plays though Black always passes (D. B. Benson, "Life in the game of Go", Information Sciences 10, 1976).
* A region that touches living strings alone is Black's territory, dead white stones included, if it is vital to one of them (Benson), or
  if at most one of its points is not next to a living string (KataGo's `calculateArea`): White can never have two eyes in it.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from zerogo import flood
from zerogo.rules import SCORING, RulesBatch


class Position(Protocol):
    """What is needed of `board.State`: bit rows int32 [B, N] of both colours and of the board, captures int32 [B, 2] by Black and by White, rules."""

    @property
    def black(self) -> Tensor: ...
    @property
    def white(self) -> Tensor: ...
    @property
    def on_board(self) -> Tensor: ...
    @property
    def captures(self) -> Tensor: ...
    @property
    def rules(self) -> RulesBatch: ...


# Doors for stones


def area_score_black(stones: Tensor, on_board: Tensor | None = None) -> Tensor:
    """Returns Black's area less White's in points, before komi: int8 [B, N, N] -> float32 [B]. Tromp-Taylor: every stone lives."""
    black, white = area_rows(*_rows_of(stones, on_board))
    return (flood.count(black) - flood.count(white)).to(torch.float32)


def territory_score_black(stones: Tensor, captures: Tensor, dead: Tensor, on_board: Tensor | None = None) -> Tensor:
    """Returns Black's territory and prisoners less White's in points, before komi: float32 [B].

    stones: int8 [B, N, N]. captures: int [B, 2], stones captured by Black and by White. dead: bool [B, N, N], stones that are taken off as
    prisoners (other points are ignored). Territory is the empty points reached by one colour alone, eyes in seki included.
    """
    assert dead.shape == stones.shape and captures.shape == (stones.shape[0], 2), "dead is [B, N, N] and captures [B, 2], as the stones"
    black, white, board = _rows_of(stones, on_board)
    return territory_rows_score(black, white, board, captures, flood.pack_rows(dead))


def area_ownership_black(stones: Tensor, on_board: Tensor | None = None) -> Tensor:
    """Returns +1 for Black's points, -1 for White's, 0 for points that both or none reach: int8 [B, N, N] -> int8 [B, N, N]."""
    return _signed(*area_rows(*_rows_of(stones, on_board)))


def pass_alive(stones: Tensor, suicide: Tensor | bool = False, on_board: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns the points, stones and territory, that are Black's and that are White's unconditionally: int8 [B, N, N] -> two bool [B, N, N].

    suicide: whether the rules allow it, for all games or bool [B]. The definition is the module's docstring.
    """
    black, white = pass_alive_rows(*_rows_of(stones, on_board), suicide=suicide)
    return flood.unpack_rows(black), flood.unpack_rows(white)


def winner_black(score_black: Tensor) -> Tensor:
    """Returns +1 where Black wins, -1 where White does, 0 for a draw: float32 [B] points, komi included -> float32 [B]."""
    return torch.sign(score_black)


# Doors for positions


def final_ownership_black(state: Position) -> Tensor:
    """Returns whose point each is at the end of the game: int8 [B, N, N], +1 Black's, -1 White's, 0 nobody's.

    Pass-alive territory is its owner's, dead stones inside too; everything else as it stands, as area.
    """
    return _signed(*final_rows(state))


def final_score_black(state: Position) -> Tensor:
    """Returns the result in points with komi, under each game's own way of scoring: float32 [B], positive when Black wins.

    Stones inside the other side's pass-alive territory are dead; other stones live (players must capture what they call dead).
    """
    area = final_rows(state)
    score = (flood.count(area[0]) - flood.count(area[1])).to(torch.float32)
    if state.rules.any_territory:
        dead = (state.black & area[1]) | (state.white & area[0])
        territory = territory_rows_score(state.black, state.white, state.on_board, state.captures, dead)
        score = torch.where(state.rules.scoring == SCORING.index("territory"), territory, score)
    return score - state.rules.komi


def settled(state: Position) -> Tensor:
    """Returns whether every point is pass-alive, so that nothing can change the result: bool [B]. Asked between moves, so it is cheap.

    Most games fail a test of a few bitwise operations: two neighbouring empty points away from all black stones can't be Black's.
    """
    board, black, white = state.on_board, state.black, state.white
    empty = board & ~(black | white)
    far_black, far_white = empty & ~flood.neighbours(black), empty & ~flood.neighbours(white)
    open_points = far_black & flood.neighbours(far_black) & far_white & flood.neighbours(far_white)
    possible = (open_points == 0).all(-1) & (flood.count(empty) >= 2)
    if not flood.may_look(board):
        return possible & _all_alive(black, white, board, _suicide_of(state))
    games = possible.nonzero().squeeze(1)
    suicide = _suicide_of(state)
    if isinstance(suicide, Tensor):
        suicide = suicide[games]
    return possible.index_copy(0, games, _all_alive(black[games], white[games], board[games], suicide))


def final_rows(state: Position) -> tuple[Tensor, Tensor]:
    """Returns Black's and White's points at the end of the game as bit rows, two int32 [B, N]; see `final_ownership_black`."""
    black, white = area_rows(state.black, state.white, state.on_board)
    black_alive, white_alive = pass_alive_rows(state.black, state.white, state.on_board, suicide=_suicide_of(state))
    return (black & ~white_alive) | black_alive, (white & ~black_alive) | white_alive


# Bit rows


def area_rows(black: Tensor, white: Tensor, on_board: Tensor) -> tuple[Tensor, Tensor]:
    """Returns each side's stones and the empty points that it alone reaches: int32 [B, N] three times -> two int32 [B, N]."""
    empty = on_board & ~(black | white)
    reached = flood.flood(torch.stack((flood.neighbours(black), flood.neighbours(white))), torch.stack((empty, empty)))
    return black | (reached[0] & ~reached[1]), white | (reached[1] & ~reached[0])


def territory_rows_score(black: Tensor, white: Tensor, on_board: Tensor, captures: Tensor, dead: Tensor) -> Tensor:
    """Returns what `territory_score_black` does, from bit rows int32 [B, N]: float32 [B]."""
    alive_black, alive_white = black & ~dead, white & ~dead
    black_area, white_area = area_rows(alive_black, alive_white, on_board)
    points = flood.count(black_area & ~alive_black) - flood.count(white_area & ~alive_white)
    prisoners = captures[:, 0] + flood.count(white & dead) - captures[:, 1] - flood.count(black & dead)
    return (points + prisoners).to(torch.float32)


def pass_alive_rows(black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor | bool = False) -> tuple[Tensor, Tensor]:
    """Returns what `pass_alive` does as bit rows: int32 [B, N] three times -> two int32 [B, N]. Both colours are handled as one batch of 2B.

    The host looks at how many strings and regions there are (it's asked between moves and at the end of games, not in simulations).
    """
    own, board = torch.cat((black, white)), torch.cat((on_board, on_board))
    other = board & ~own
    empty = other & ~torch.cat((white, black))
    must_touch = empty
    if isinstance(suicide, Tensor):
        must_touch = torch.where(torch.cat((suicide, suicide)).unsqueeze(1), other, empty)
    elif suicide:
        must_touch = other
    # No string is next to all points of a region that holds a point without any own stone beside it: those regions can't be vital.
    eyes = other & ~flood.flood(must_touch & ~flood.neighbours(own), other)
    planes = (flood.count(_corners(eyes)) >= 2).nonzero().squeeze(1)
    area = torch.zeros_like(own)
    if planes.numel():
        area[planes] = _benson(own[planes], other[planes], empty[planes], must_touch[planes], eyes[planes])
    return area[: len(black)], area[len(black) :]


# Benson's algorithm on X planes: all regions and strings of all games are rows of one list


def _benson(own: Tensor, other: Tensor, empty: Tensor, must_touch: Tensor, eyes: Tensor) -> Tensor:
    """Returns the pass-alive area of planes of own stones: all arguments and the result int32 [X, N]."""
    eye_plane, eye = _components(eyes)
    has_empty = ((eye & empty[eye_plane]) != 0).any(-1)
    eye_plane, eye = eye_plane[has_empty], eye[has_empty]
    string_plane, string = _components(flood.flood(flood.neighbours(eyes), own))
    pair_eye, pair_string = _pairs(eye_plane, string_plane, own.shape[0])
    touched = flood.neighbours(string)
    is_vital = (((eye & must_touch[eye_plane])[pair_eye] & ~touched[pair_string]) == 0).all(-1)
    pair_eye, pair_string = pair_eye[is_vital], pair_string[is_vital]

    alive = torch.ones_like(string_plane, dtype=torch.bool)
    while True:
        safe = torch.zeros_like(own).index_add_(0, string_plane[alive], string[alive])  # strings are disjoint: a sum is their union
        weak = flood.neighbours(own & ~safe)
        is_closed = ((eye & weak[eye_plane]) == 0).all(-1)
        is_vital = is_closed[pair_eye] & alive[pair_string]
        still = torch.bincount(pair_string[is_vital], minlength=string_plane.numel()) >= 2
        if torch.equal(still, alive):
            break
        alive = still
    vital = torch.zeros_like(eye_plane).index_add_(0, pair_eye, is_vital.to(torch.int64)) > 0
    area = safe.index_add(0, eye_plane[vital], eye[vital])  # strings and regions are disjoint as well
    return area | _nearly_filled(own, other, safe)


def _nearly_filled(own: Tensor, other: Tensor, safe: Tensor) -> Tensor:
    """Returns the regions that touch living strings alone and have at most one point not next to one: int32 [X, N] each -> int32 [X, N]."""
    closed = other & ~flood.flood(flood.neighbours(own & ~safe), other)
    closed = torch.where((safe != 0).any(-1, keepdim=True), closed, 0)
    plane, region = _components(closed)
    is_small = flood.count(region & ~flood.neighbours(safe)[plane]) <= 1
    return torch.zeros_like(safe).index_add_(0, plane[is_small], region[is_small])


def _corners(planes: Tensor) -> Tensor:
    """Returns the points whose left and upper neighbours are not in the plane, int32 [X, N]: at least one in every connected part."""
    above = torch.zeros_like(planes)
    above[:, 1:] = planes[:, :-1]
    return planes & ~(planes << 1) & ~above


def _components(planes: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the connected parts of all planes as one list: int32 [X, N] -> their plane int64 [K], ascending, and their points int32 [K, N].

    A part is grown from each of its corners, and kept where that corner is its first point.
    """
    plane, row, column = flood.unpack_rows(_corners(planes)).nonzero().unbind(1)
    bit = (1 << column).to(torch.int32).unsqueeze(1)
    seeds = torch.zeros((plane.numel(), planes.shape[1]), dtype=torch.int32, device=planes.device).scatter_(1, row.unsqueeze(1), bit)
    grown = flood.flood(seeds, planes[plane])
    rows = torch.arange(planes.shape[1], device=planes.device)
    earlier = torch.where(rows < row.unsqueeze(1), -1, torch.where(rows == row.unsqueeze(1), bit - 1, 0))
    is_first = ((grown & earlier) == 0).all(-1)
    return plane[is_first], grown[is_first]


def _pairs(left: Tensor, right: Tensor, num_planes: int) -> tuple[Tensor, Tensor]:
    """Returns the indices of all pairs of equal planes: int64 [L] and [R], both ascending and below num_planes -> two int64 [K]."""
    sizes = torch.bincount(right, minlength=num_planes)
    starts = torch.cumsum(sizes, 0) - sizes
    repeats = sizes[left]
    index = torch.repeat_interleave(torch.arange(left.numel(), device=left.device), repeats)
    within = torch.arange(index.numel(), device=left.device) - (torch.cumsum(repeats, 0) - repeats)[index]
    return index, starts[left][index] + within


# Small steps


def _rows_of(stones: Tensor, on_board: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns bit rows of Black, White and the board, int32 [B, N] each, from stones int8 [B, N, N]."""
    assert stones.dim() == 3 and stones.shape[1] == stones.shape[2], f"stones are [B, N, N], not {tuple(stones.shape)}"
    if on_board is None:
        on_board = torch.full(stones.shape[:2], (1 << stones.shape[2]) - 1, dtype=torch.int32, device=stones.device)
    return flood.pack_rows(stones == 1), flood.pack_rows(stones == 2), on_board


def _suicide_of(state: Position) -> Tensor | bool:
    return state.rules.suicide if state.rules.any_suicide else False


def _all_alive(black: Tensor, white: Tensor, on_board: Tensor, suicide: Tensor | bool) -> Tensor:
    black_alive, white_alive = pass_alive_rows(black, white, on_board, suicide=suicide)
    return ((black_alive | white_alive) == on_board).all(-1)


def _signed(black: Tensor, white: Tensor) -> Tensor:
    """Returns +1 on Black's points and -1 on White's: bit rows int32 [B, N] twice -> int8 [B, N, N]."""
    return flood.unpack_rows(black).to(torch.int8) - flood.unpack_rows(white).to(torch.int8)
