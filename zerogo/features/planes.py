"""Functions of the other groups: strings, ladders, legality, area and shape point by point, and global inputs; all from
the side to move's view."""

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zerogo import scoring
from zerogo.board import flood, stone_history
from zerogo.board.symmetry import action_table
from zerogo.errors import InputError
from zerogo.features.readings import Ladders, read_ladders
from zerogo.features.view import View, as_planes
from zerogo.rules import POSITIONAL, SIMPLE, SITUATIONAL

KOMI_MARGIN = 20  # points beyond the board's area at which KataGo clips the komi
RULES = (
    "komi / 15", "suicide allowed", "positional superko", "situational superko", "simple ko", "area scoring",
    "territory scoring", "handicap given", "previous move was a pass",
)  # fmt: skip
KATAGO_RULES = (
    "superko", "positional +0.5, situational -0.5", "suicide", "territory scoring", "seki tax", "group tax", "encore",
    "second encore", "a pass ends the game", "playout doubling", "playout doubling / 2", "button",
)  # fmt: skip
# Dtype and shape of the results of ROWS, COUNTS, VALUES and GLOBALS.
FORMS = ("int32", "BcN"), ("int16", "BNN"), ("bool or float32", "BNNc"), ("float32", "Bc")


def checked_read(text: str, group: Any, names: Sequence[str], more: Sequence[int]) -> Callable[[View], Tensor]:
    """Returns the function that reads a group. Its first call raises InputError where the result has another form than
    the group says; `text` is the group's name in a config. names: of the c planes. more: further arguments of `read`.
    """
    is_checked = False

    def _read(view: View) -> Tensor:
        nonlocal is_checked
        reading, (dtypes, letters) = group.read(view, *more), FORMS[group.form]
        if is_checked:
            return reading
        lengths = {"B": view.state.num_games, "N": view.state.board_size, "c": len(names)}
        shape = [lengths[letter] for letter in letters]
        is_tensor = isinstance(reading, Tensor)
        came = f"{reading.dtype} {list(reading.shape)}" if is_tensor else f"a {type(reading).__name__}"
        if came not in [f"torch.{dtype} {shape}" for dtype in dtypes.split(" or ")]:
            needed = f"{dtypes} {shape}, which is [{', '.join(letters)}] for {len(names)} planes"
            raise InputError(f"the plane group {text} returns {came}; it must return {needed}")
        is_checked = True
        return reading

    return _read


def few_liberties(view: View, limit: int, whose: Tensor) -> Tensor:
    """Returns the liberties of strings with at most `limit` of them. whose: the stones, bit rows int32 [B, N]."""
    liberties = view.tactics.liberties
    return torch.where((liberties <= limit) & flood.unpack_rows(whose), liberties, 0)


def ko_takes(view: View) -> Tensor:
    """Returns the moves that take a ko, and those by which the opponent would, ko bans ignored."""
    tactics = view.tactics
    takes = (tactics.capture_size == 1) & (tactics.liberties_after == 1) & (tactics.size_after == 1)
    # The opponent's stone would be alone, its only liberty being the captured stone's point.
    crowded = flood.unpack_rows(view.empty & ~flood.neighbours(view.empty | view.sides[1]))
    return torch.stack([takes, (tactics.opponent_capture_size == 1) & crowded], dim=-1)


def ladder_capture(view: View) -> Tensor:
    """Returns the moves that start a working ladder."""
    return as_planes(view.colours(*view.movers_ladders.catching.unbind(1))[1] & view.legal)


def ladder_start(view: View) -> Tensor:
    """Returns the moves that start a working ladder by KataGo's rules, including those banned by superko."""
    return as_planes(view.colours(*katago_ladders(view, 1)[0].catching.unbind(1))[1])


def ladder_escape(view: View) -> Tensor:
    """Returns the moves that save an own string in atari."""
    return as_planes(view.colours(*view.movers_ladders.escaping.unbind(1))[0] & view.legal)


def laddered(view: View, number: int) -> Tensor:
    """Returns the stones caught in a ladder by KataGo's rules, now and in earlier positions."""
    return as_planes(*(ladders.caught[:, 0] | ladders.caught[:, 1] for ladders in katago_ladders(view, number)))


def katago_ladders(view: View, number: int) -> list[Ladders]:
    """Returns KataGo's ladders of the current and earlier positions, `number` in all, newest first; if fewer moves are
    known, the oldest ones repeat. Ladders that were not read yet are read in one batch."""
    if missing := range(len(view.katago_ladders), number):
        stones, bans = zip(*(_earlier(view, ago) for ago in missing), strict=True)
        positions, on_board = torch.cat(stones), view.state.on_board.repeat(len(missing), 1)
        ladders = read_ladders(positions[:, 0], positions[:, 1], on_board, ko=torch.cat(bans))
        fields = (field.split(view.state.num_games) for field in ladders)
        view.katago_ladders += [Ladders(*of_position) for of_position in zip(*fields, strict=True)]
    return view.katago_ladders[:number]


def _earlier(view: View, ago: int) -> tuple[Tensor, Tensor]:
    """Returns the black and white stones of an earlier position (the oldest, if fewer moves are known), and the point
    that the simple ko rule banned there: int32 [B, 2, N] and int16 [B]."""
    state, num_known = view.state, (view.last_moves[:, :ago] >= 0).sum(1)
    positions, games = stone_history(state, ago + 1), torch.arange(len(num_known), device=num_known.device)
    stones, before, move = positions[games, num_known], positions[games, num_known + 1], state.moves[games, num_known]
    return stones, torch.where(num_known == 0, state.ko, _ko(stones, before, move, state.on_board))


def _ko(stones: Tensor, before: Tensor, move: Tensor, on_board: Tensor) -> Tensor:
    """Returns the point that the simple ko rule bans after a move, -1 for none: stones after and before it int32 [B, 2,
    N], move int16 [B] -> int16 [B]."""
    placed = flood.points_to_rows(move.to(torch.int64), on_board.shape[1])
    own_stones = torch.where((stones & placed.unsqueeze(1)).any(2, keepdim=True), stones, 0).sum(1, dtype=torch.int32)
    captured, near = (before & ~stones).sum(1, dtype=torch.int32), flood.neighbours(placed)
    empty = on_board & ~(stones[:, 0] | stones[:, 1])
    is_lone = (placed & own_stones).any(1) & ~(near & own_stones).any(1) & ((near & empty) == captured).all(1)
    return torch.where(is_lone & (flood.count(captured) == 1), flood.first_point(captured), -1).to(torch.int16)


def ladders_of(view: View, side: int) -> Tensor:
    """Returns the ladders of one side's strings, 0 own or 1 the opponent's, whoever is to move."""
    caught, catching, escaping = (view.colours(*rows.unbind(1))[side] for rows in view.ladders[:3])
    return as_planes(caught, view.sides[side] & view.with_atari.atari & ~caught, catching, escaping)


def bans(view: View) -> Tensor:
    """Returns the points banned by ko or superko, but not a single stone's suicide, which KataGo never allows."""
    own_stones, opponent = view.sides
    alive = flood.neighbours(view.empty | own_stones | (opponent & view.with_atari.atari))
    return as_planes((view.ko | view.repeats) & alive)


def area(view: View, suicide: bool | None = None) -> Tensor:
    """Returns the points as KataGo's area scoring counts them now, none under territory scoring. suicide: whether it
    counts as allowed for pass-alive stones; by default that of the rules."""
    shown = as_planes(*view.colours(*scoring.final_rows(view.state, suicide=suicide, by_vital=False)))
    return torch.where((view.state.rules.scoring == scoring.AREA).view(-1, 1, 1), shown, 0)


def pass_alive(view: View) -> Tensor:
    """Returns the points that are unconditionally own, and those that are the opponent's."""
    rows = view.state.black, view.state.white, view.state.on_board
    return as_planes(*view.colours(*scoring.pass_alive_rows(*rows, view.state.rules.suicide)))


def makes_eye(view: View) -> Tensor:
    """Returns the moves that make an own eye of one of the eight points around, captures ignored."""
    around, here, edge = flood.surroundings(view.sides[0], view.state.on_board)
    wanting = (view.empty << 1) & ~(flood.fits_eye(around, edge) & ~here)
    makers, n = torch.zeros_like(view.empty), view.state.board_size
    for index, (down, right) in enumerate(flood.SIDES + flood.CORNERS):
        filled = [*around[:index], torch.full_like(makers, -1), *around[index + 1 :]]
        made = (flood.fits_eye(filled, edge) & wanting) >> 1
        made = torch.nn.functional.pad(made, (1, 1))[..., 1 - down : 1 - down + n]
        makers |= made << 1 if right > 0 else made >> 1 if right < 0 else made
    return as_planes(makers & view.empty & view.legal)


def pattern(view: View) -> Tensor:
    """Returns the 3x3 pattern around a legal move."""
    points = (flood.unpack_rows(rows).to(torch.uint8) for rows in (*view.sides, view.state.on_board))
    return torch.where(flood.unpack_rows(view.legal), pattern_classes(*points).to(torch.int16), 0)


def scaled_edge_distance(view: View) -> Tensor:
    """Returns the distance to the nearest edge, 1 at the centre."""
    centre = ((view.state.rules.size + 1) // 2).view(-1, 1, 1)
    return (view.distances.to(torch.float32) / centre).unsqueeze(-1)


def rules(view: View) -> Tensor:
    """Returns the rules in `RULES`, one plane each."""
    state, of_game = view.state, view.state.rules
    values = [
        own_komi(view) / 15,
        of_game.suicide,
        *(of_game.superko == kind for kind in (POSITIONAL, SITUATIONAL, SIMPLE)),
        of_game.scoring == scoring.AREA,
        of_game.scoring != scoring.AREA,
        view.is_black ^ (state.ply % 2 == 0),  # White began
        state.passes > 0,
    ]
    numbers = torch.stack([number.to(torch.float32) for number in values], dim=1)
    return numbers[:, None, None, :] * flood.unpack_rows(state.on_board).unsqueeze(-1)


def own_komi(view: View) -> Tensor:
    """Returns the komi, positive if it favours the side to move: float32 [B]."""
    return torch.where(view.is_black, -view.state.rules.komi, view.state.rules.komi)


def clip_komi(view: View) -> Tensor:
    """Returns the side to move's komi, clipped to the board's area plus a margin: float32 [B]. Under territory scoring
    KataGo subtracts a point for each stone played."""
    state, limit = view.state, (view.state.rules.size**2 + KOMI_MARGIN).to(torch.float32)
    played = flood.count(state.black) - flood.count(state.white) - state.start_balance
    played = played - state.captures[:, 0] + state.captures[:, 1]
    shift = torch.where(state.rules.scoring == scoring.AREA, 0, torch.where(view.is_black, -played, played))
    return torch.minimum(torch.maximum(own_komi(view) + shift, -limit), limit)


def komi(view: View) -> Tensor:
    """Returns the side to move's komi / twice the board's side, because the spread of results grows with the side: 7
    points on 9x9 give 0.39, 7.5 on 19x19 0.20, and 24.5 on 5x5, nearly the whole board, 2.45."""
    return (own_komi(view) / (2 * view.state.rules.size)).unsqueeze(1)


def komi_parity(view: View) -> Tensor:
    """Returns KataGo's wave for the distance of the komi from values that allow a draw, which have the parity of the
    board's area; only under area scoring."""
    komi, odd = clip_komi(view), (view.state.rules.size % 2).to(torch.float32)
    above = (komi - (torch.floor((komi - odd) / 2) * 2 + odd)).clamp(0, 2)
    wave = torch.where(above < 0.5, above, torch.where(above < 1.5, 1 - above, above - 2))
    return torch.where(view.state.rules.scoring == scoring.AREA, wave, 0.0).unsqueeze(1)


def last_passes(view: View, number: int) -> Tensor:
    """Returns whether each of the last moves was a pass, newest first."""
    return (view.last_moves[:, :number] == view.state.board_size**2).to(torch.float32)


def katago_rules(view: View) -> Tensor:
    """Returns KataGo's global inputs 6 to 17. Those for rules that zerogo lacks are 0, except for the seki tax of
    Japanese rules."""
    state, superko = view.state, view.state.rules.superko
    none = torch.zeros_like(state.rules.komi)
    values = {
        "superko": superko != SIMPLE,
        "positional +0.5, situational -0.5": (superko == POSITIONAL) * 0.5 - (superko == SITUATIONAL) * 0.5,
        "suicide": state.rules.suicide,
        "territory scoring": state.rules.scoring != scoring.AREA,
        "seki tax": state.rules.scoring != scoring.AREA,
        "a pass ends the game": (state.passes > 0) & ~state.finished,
    }
    return torch.stack([values.get(name, none).to(torch.float32) for name in KATAGO_RULES], dim=1)


# The 3x3 pattern around a point, in three classes: the patterns of MoGo (Gelly, Wang, Munos, Teytaud, "Modification of
# UCT with patterns in Monte-Carlo Go", 2006), in their eight symmetries and both colours

CLASSES = ("hane", "cut", "edge move")
# X, O: stones of different colours; x, o: no such stone (the edge counts as none); ?: anything; a blank is off the
# board.
PATTERNS: tuple[tuple[str, ...], ...] = (
    ("XOX ... ???", "XO. ... ?.?", "XO? X.. x.?", ".O. X.. ..."),
    ("XO? O.o ?o?", "XO? O.X ???", "?X? O.O ooo", "OX? o.O ???"),
    ("X.? O.? ___", "OX? X.O ___", "?X? x.O ___", "?XO x.x ___", "?OX X.O ___"),
)
EMPTY, X, O, OFF = range(4)  # noqa: E741
ANY = {EMPTY, X, O, OFF}
MEANING = {".": {EMPTY}, "X": {X}, "O": {O}, "x": ANY - {X}, "o": ANY - {O}, "?": ANY, "_": {OFF}}
SWAPPED = str.maketrans("XOxo", "OXox")
AROUND = [point for point in range(9) if point != 4]  # of the 3x3 points, by row


def pattern_classes(own_stones: Tensor, opponent: Tensor, on_board: Tensor) -> Tensor:
    """Returns the class of each point's surroundings, 1 to 3 in the order of `CLASSES`, 0 for none: uint8 [B, N, N] (0
    or 1) three times -> uint8 [B, N, N]."""
    n = own_stones.shape[-1]
    what = OFF * (1 - on_board) + X * own_stones + O * opponent
    padded = torch.nn.functional.pad(what, (1, 1, 1, 1), value=OFF).to(torch.int32)
    code = torch.zeros_like(padded[:, :n, :n])
    for place, point in enumerate(AROUND):
        row, column = divmod(point, 3)
        code |= padded[:, row : row + n, column : column + n] << (2 * place)
    return _table(own_stones.device).index_select(0, code.flatten()).view_as(own_stones)


@cache
def _table(device: torch.device) -> Tensor:
    """Returns the class for each code of the eight points around, two bits each: uint8 [65536]."""
    table = np.zeros(1 << 16, np.uint8)
    for number, patterns in reversed(list(enumerate(PATTERNS, start=1))):  # the first of several classes wins
        for text in (both for one in patterns for both in (one, one.translate(SWAPPED))):
            drawn = text.replace(" ", "")
            for turned in {"".join(drawn[source] for source in turn[:-1]) for turn in action_table(3).tolist()}:
                # The last point has the highest bits.
                fits = [[what in MEANING[turned[point]] for what in range(4)] for point in reversed(AROUND)]
                table[reduce(np.logical_and.outer, fits).ravel()] = number
    return torch.from_numpy(table).to(device)
