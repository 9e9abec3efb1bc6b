"""Scoring of whole batches: area, territory, unconditional life (Benson), ownership, and the final score.

Functions take `stones` int8 [B, N, N] (0 empty, 1 black, 2 white) for programs outside, or bit rows int32 [B, N] (see
`flood`) for the hot path. `on_board` int32 [B, N] says which points exist, where games of different sizes share a
batch; by default all do. Scores and ownership here are Black's: positive is good for Black.

Inside a step of a search or an evaluation the host never waits for a device. Between moves it may read tensors, which
saves most of the work: functions used only between moves do so (`all_pass_alive`, `final_score_black`,
`final_ownership_black`, `result_black`, `pass_alive`); those that features use, too (`final_rows`, `pass_alive_rows`),
do so only if they `may_wait`. The result is the same.

**What counts as pass-alive**, here for Black; White is alike:
* A *region* is a maximal connected set of points without a black stone. A region is *vital* to a black
  string if it has an empty point and all its empty points are liberties of that string. Where the rules allow suicide,
  ALL its points must be, stones included, because White could empty such points by suicide and so get an inner eye
  (KataGo's `calculateArea` makes the same distinction).
* Strings with fewer than two vital regions are removed, then regions that touch a removed string, until nothing
  changes. The strings left are alive whatever White plays, even if Black always passes (D. B. Benson, "Life in the game
  of Go", Information Sciences 10, 1976).
* A region that touches only living strings is Black's territory, dead white stones included, if it is vital to one of
  them (Benson), or if at most one of its points is not next to a living string, so that White can never have two eyes
  in it (KataGo's `calculateArea`)."""

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.board import State, flood
from zerogo.rules import SCORING

AREA = SCORING.index("area")


def area_ownership_black(stones: Tensor, on_board: Tensor | None = None) -> Tensor:
    """Returns +1 for Black's points, -1 for White's, 0 for points that both or neither reach: int8 [B, N, N] -> int8
    [B, N, N]. Tromp-Taylor: every stone lives."""
    return _signed(*area_rows(*_rows_of(stones, on_board)))


def area_score_black(stones: Tensor, on_board: Tensor | None = None) -> Tensor:
    """Returns Black's area minus White's in points, before komi: int8 [B, N, N] -> float32 [B]. Tromp-Taylor: every
    stone lives."""
    return area_ownership_black(stones, on_board).sum((1, 2), dtype=torch.float32)


def pass_alive(stones: Tensor, suicide: Tensor | bool = False, on_board: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns the points, stones and territory, that are Black's and White's unconditionally: int8 [B, N, N] -> two
    bool [B, N, N].

    suicide: whether the rules allow it, for all games or bool [B]. The module's docstring has the definition. The host
    waits once per round of Benson's algorithm."""
    black, white = pass_alive_rows(*_rows_of(stones, on_board), suicide=suicide, may_wait=True)
    return flood.unpack_rows(black), flood.unpack_rows(white)


def final_ownership_black(state: State) -> Tensor:
    """Returns the owner of each point at the end of the game: int8 [B, N, N], +1 Black, -1 White, 0 nobody.

    Pass-alive territory is its owner's, including dead stones inside; everything else counts as area, as it stands. The
    host waits, as in `pass_alive`."""
    return _signed(*final_rows(state, may_wait=True))


def final_score_black(state: State) -> Tensor:
    """Returns the result in points with komi, by each game's own scoring: float32 [B], positive when Black wins.

    Stones inside the opponent's pass-alive territory are dead; all others live (players must capture dead stones). The
    host waits, as in `pass_alive`."""
    return _score_black(state, final_rows(state, may_wait=True))


def result_black(state: State, is_settled: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns the results of finished games: points with komi, float32 [B], and the owner of each point, int8 [B, N,
    N]; both positive for Black.

    The search scores in the same way. Area rules count the board as it stands, every stone alive (Tromp-Taylor), so
    dead stones that were not captured before the passes count as alive. In two cases dead stones in pass-alive
    territory belong to its owner, as in `final_score_black`: under territory rules, and where is_settled (bool [B]), in
    games that ended early because every point is pass-alive, before anybody could capture them. The host waits, as in
    `pass_alive`."""
    black, white = area_rows(state.black, state.white, state.on_board)
    if is_settled is not None or state.rules.any_territory:
        takes_off = state.rules.scoring != AREA
        takes_off = (takes_off if is_settled is None else takes_off | is_settled).unsqueeze(1)
        pairs = zip(final_rows(state, may_wait=True), (black, white), strict=True)
        black, white = (torch.where(takes_off, final, standing) for final, standing in pairs)
    return _score_black(state, (black, white)), _signed(black, white)


def _score_black(state: State, area: tuple[Tensor, Tensor]) -> Tensor:
    """Returns points with komi, float32 [B], from Black's and White's points at the end: int32 [B, N] twice."""
    score = (flood.count(area[0]) - flood.count(area[1])).to(torch.float32)
    if state.rules.any_territory:
        dead = (state.black & area[1]) | (state.white & area[0])
        territory = territory_rows_score(state.black, state.white, state.on_board, state.captures, dead)
        score = torch.where(state.rules.scoring == AREA, score, territory)
    return score - state.rules.komi


def all_pass_alive(state: State) -> Tensor:
    """Returns whether every point is pass-alive, so that nothing can change the result: bool [B]. It is called at every
    move, so it is cheap.

    Most games fail a test of a few bitwise operations: two neighbouring empty points away from all black stones can't
    be Black's. The host waits once to learn which games are left, and if any, once per round of Benson's algorithm.
    """
    board, black, white = state.on_board, state.black, state.white
    if (fast := kernels.module_for("scoring", board.device)) is not None:
        return fast.all_pass_alive(black, white, board, state.rules.suicide)
    empty = board & ~(black | white)
    far_black, far_white = empty & ~flood.neighbours(black), empty & ~flood.neighbours(white)
    open_points = far_black & flood.neighbours(far_black) & far_white & flood.neighbours(far_white)
    possible = (open_points == 0).all(-1) & (flood.count(empty) >= 2)
    games = possible.nonzero().squeeze(1)
    if not games.numel():
        return possible
    black_alive, white_alive = pass_alive_rows(
        black[games], white[games], board[games], state.rules.suicide[games], may_wait=True
    )
    return possible.index_copy(0, games, ((black_alive | white_alive) == board[games]).all(-1))


def final_rows(
    state: State, may_wait: bool = False, suicide: Tensor | bool | None = None, by_vital: bool = True
) -> tuple[Tensor, Tensor]:
    """Returns Black's and White's points at the end of the game as bit rows, two int32 [B, N]; see
    `final_ownership_black`.

    may_wait: whether the host may wait for the device, as between moves. suicide: by default that of the rules.
    by_vital: as in `pass_alive_rows`; False gives KataGo's `calculateArea`."""
    black, white = area_rows(state.black, state.white, state.on_board)
    suicide = state.rules.suicide if suicide is None else suicide
    black_alive, white_alive = pass_alive_rows(state.black, state.white, state.on_board, suicide, may_wait, by_vital)
    return (black & ~white_alive) | black_alive, (white & ~black_alive) | white_alive


def area_rows(black: Tensor, white: Tensor, on_board: Tensor) -> tuple[Tensor, Tensor]:
    """Returns each side's stones and the empty points that it alone reaches: int32 [B, N] three times -> two int32 [B,
    N]."""
    empty = on_board & ~(black | white)
    reached = flood.flood(torch.stack((flood.neighbours(black), flood.neighbours(white))), torch.stack((empty, empty)))
    return black | (reached[0] & ~reached[1]), white | (reached[1] & ~reached[0])


def territory_rows_score(black: Tensor, white: Tensor, on_board: Tensor, captures: Tensor, dead: Tensor) -> Tensor:
    """Returns Black's territory and prisoners minus White's in points, before komi: float32 [B].

    black, white, on_board: int32 [B, N]. captures: int [B, 2], stones captured by Black and by White. dead: int32 [B,
    N], stones to remove as prisoners (other points are ignored). Territory is the empty points reached by one colour
    only, eyes in seki included."""
    alive_black, alive_white = black & ~dead, white & ~dead
    black_area, white_area = area_rows(alive_black, alive_white, on_board)
    points = flood.count(black_area & ~alive_black) - flood.count(white_area & ~alive_white)
    prisoners = captures[:, 0] + flood.count(white & dead) - captures[:, 1] - flood.count(black & dead)
    return (points + prisoners).to(torch.float32)


def pass_alive_rows(
    black: Tensor,
    white: Tensor,
    on_board: Tensor,
    suicide: Tensor | bool = False,
    may_wait: bool = False,
    by_vital: bool = True,
) -> tuple[Tensor, Tensor]:
    """Returns the result of `pass_alive` as bit rows: int32 [B, N] three times -> two int32 [B, N]. Both colours form
    one batch of 2B. by_vital: False leaves out regions that are territory only because they are vital to a string.

    The CPU kernel's work depends on the number of strings and regions. So does that of the torch version if the host
    `may_wait` or the tensors are on it; otherwise the number of rounds depends on N alone. All give the same result."""
    flags = _flags(suicide, on_board)
    if (fast := kernels.module_for("scoring", black.device)) is not None:
        return fast.pass_alive_rows(black, white, on_board, flags, by_vital)
    stones, board = torch.cat((black, white)), torch.cat((on_board, on_board))
    other = board & ~stones
    empty = other & ~torch.cat((white, black))
    must_touch = torch.where(torch.cat((flags, flags)).unsqueeze(1), other, empty)
    area = _benson(stones, other, empty, must_touch, may_wait or flood.host_read_is_free(stones), by_vital)
    return area[: len(black)], area[len(black) :]


# Benson's algorithm on X planes of one colour's stones: strings and regions by labels, [X, P] throughout


def _benson(
    stones: Tensor, other: Tensor, empty: Tensor, must_touch: Tensor, host_read_is_free: bool, by_vital: bool
) -> Tensor:
    """Returns the pass-alive area of the stones of a colour: all planes and the result int32 [X, N].

    host_read_is_free: the host checks after each round whether anything changed; otherwise the number of rounds depends
    on N alone. must_touch: the points of a region that must be next to a string for the region to be vital to it. The
    label of a string or region is one of its points; label P means none. A region can only be vital to the strings next
    to the first of its must-touch points, at most four."""
    board_size, num_points, planes = stones.shape[1], stones.shape[1] ** 2, (stones, other, empty, must_touch)
    is_own, is_other, is_empty, is_must = (flood.unpack_rows(rows).flatten(1) for rows in planes)
    labels = flood.string_labels(is_own | is_other, board_size, colour=is_own.to(torch.int8))
    adjacent = flood.labels_beside(torch.where(is_own, labels, num_points), board_size)
    candidates, is_vital = _vital_strings(labels, adjacent, is_empty, is_must)

    alive = torch.ones_like(labels[:, :1], dtype=torch.bool).expand(-1, num_points + 1)
    # Each round but the last removes at least one string, and one colour has at most one string per two points.
    for _ in range((num_points + 1) // 2 + 1):
        is_closed = ~_touches_struck(labels, adjacent, alive)
        counted = (is_vital & is_closed.unsqueeze(1)).to(torch.int32).flatten(1)
        counts = torch.zeros_like(alive, dtype=torch.int32).scatter_add_(1, candidates.flatten(1), counted)
        before, alive = alive, alive & (counts >= 2)
        alive[:, -1] = True  # label P, none, is never removed
        if host_read_is_free and torch.equal(alive, before):
            break
    is_safe = is_own & alive.gather(1, labels)
    is_closed = ~_touches_struck(labels, adjacent, alive) & is_safe.any(1, keepdim=True)
    is_hidden = is_other & (adjacent == num_points).all(1)
    hidden = torch.zeros_like(labels).scatter_add_(1, labels, is_hidden.to(torch.int64))
    is_mine = is_closed & ((is_vital.any(1) | (hidden <= 1)) if by_vital else (hidden <= 1))
    area = is_safe | (is_other & is_mine.gather(1, labels))
    return flood.pack_rows(area.unflatten(1, (board_size, board_size)))


def _vital_strings(labels: Tensor, adjacent: Tensor, is_empty: Tensor, is_must: Tensor) -> tuple[Tensor, Tensor]:
    """Returns for each region, at its label, up to four strings int64 [X, 4, P] (P for none), and whether it's vital to
    each, bool."""
    num_points = labels.shape[1]
    points = torch.arange(num_points, device=labels.device).expand_as(labels)
    first = torch.full_like(labels, num_points).scatter_reduce_(
        1, labels, torch.where(is_must, points, num_points), "amin"
    )
    padded = torch.nn.functional.pad(adjacent, (0, 1), value=num_points)
    candidates = padded.gather(2, first.unsqueeze(1).expand(-1, 4, -1))
    for k in range(1, 4):  # a string on several sides counts once
        is_repeated = (candidates[:, :k] == candidates[:, k : k + 1]).any(1)
        candidates[:, k] = torch.where(is_repeated, num_points, candidates[:, k])
    regions = labels.unsqueeze(1).expand(-1, 4, -1)
    candidate_labels = candidates.gather(2, regions)
    touches = torch.stack([(adjacent == candidate_labels[:, k : k + 1]).any(1) for k in range(4)], dim=1)
    missed = _any_of_part(is_must.unsqueeze(1) & ~touches, regions)
    return candidates, (candidates < num_points) & ~missed & _any_of_part(is_empty, labels).unsqueeze(1)


def _any_of_part(points: Tensor, labels: Tensor) -> Tensor:
    """Returns at each label whether any of its points is set: bool, int64 [..., P] -> bool [..., P]."""
    return torch.zeros_like(points, dtype=torch.int8).scatter_reduce_(-1, labels, points.to(torch.int8), "amax") > 0


def _touches_struck(labels: Tensor, adjacent: Tensor, alive: Tensor) -> Tensor:
    """Returns at each region's label whether a removed string is next to it: bool [X, P]; alive: bool [X, P + 1] by
    label."""
    is_struck = ~alive.gather(1, adjacent.flatten(1)).unflatten(1, (4, -1)).all(1)
    return _any_of_part(is_struck, labels)


def _rows_of(stones: Tensor, on_board: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns bit rows of Black, White and the board, int32 [B, N] each, from stones int8 [B, N, N]."""
    assert stones.dim() == 3 and stones.shape[1] == stones.shape[2], f"stones are [B, N, N], not {tuple(stones.shape)}"
    if on_board is None:
        on_board = torch.full(stones.shape[:2], (1 << stones.shape[2]) - 1, dtype=torch.int32, device=stones.device)
    return flood.pack_rows(stones == 1), flood.pack_rows(stones == 2), on_board


def _flags(suicide: Tensor | bool, on_board: Tensor) -> Tensor:
    """Returns bool [B]: whether each game allows suicide."""
    if isinstance(suicide, Tensor) and suicide.shape != on_board.shape[:1]:
        raise ValueError(
            f"suicide is {list(suicide.shape)}; it must be one bool, or bool [{len(on_board)}], one for each game"
        )
    return suicide if isinstance(suicide, Tensor) else torch.full((len(on_board),), suicide, device=on_board.device)


def _signed(black: Tensor, white: Tensor) -> Tensor:
    """Returns +1 on Black's points and -1 on White's: bit rows int32 [B, N] twice -> int8 [B, N, N]."""
    return flood.unpack_rows(black).to(torch.int8) - flood.unpack_rows(white).to(torch.int8)
