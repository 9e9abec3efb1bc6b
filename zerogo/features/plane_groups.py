"""The plane groups: what each shows, point by point. The side to move's view, unless a name says black or white."""

from __future__ import annotations

import torch
from torch import Tensor

from zerogo import flood, scoring
from zerogo.board.eyes import eye_makers
from zerogo.board.position import BLACK
from zerogo.board.state import RECENT, RECENT_MOVES
from zerogo.features.groups import Form, Group, one, several
from zerogo.features.patterns import CLASSES, pattern_classes
from zerogo.features.view import View, points
from zerogo.rules import SCORING

AREA = SCORING.index("area")
MOST_ONE_HOT = 64
MOST_SCALED = 8  # liberties that a scaled plane shows as 1


def _rows(*rows: Tensor) -> Tensor:
    """Returns planes as one tensor: int32 [B, N] each -> int32 [B, N, c]."""
    return torch.stack(rows, dim=2)


def _where(view: View, games: Tensor) -> Tensor:
    """Returns all points of the games that are meant: bool [B] -> int32 [B, N]."""
    return torch.where(games.unsqueeze(1), view.state.on_board, 0)


def _one_hot(what: str, most: int) -> tuple[str, ...]:
    """Returns the names of planes for 1, 2, … and `most` or more."""
    return tuple(f"{what} {number}" for number in range(1, most)) + (f"{what} {most} or more",)


def _counts(what: str, most: int, read, history: int = 0) -> Group:
    return Group(Form.COUNTS, _one_hot(what, most), read, history)


# Stones


@one("on_board", "one on the board", Form.ROWS, ("on the board",))
def _on_board(view: View) -> Tensor:
    return _rows(view.state.on_board)


@several("zeros", "zeros, for planes that a list allocates and never writes", 1, MOST_ONE_HOT)
def _zeros(number: int) -> Group:
    return Group(Form.ROWS, ("zero",) * number, lambda view: _rows(*[torch.zeros_like(view.state.black)] * number))


@one("stones", "own stones, the opponent's", Form.ROWS, ("own stone", "opponent's stone"))
def _stones(view: View) -> Tensor:
    return _rows(*view.sides)


@one("colours", "black stones, white stones", Form.ROWS, ("black stone", "white stone"))
def _colours(view: View) -> Tensor:
    return _rows(view.state.black, view.state.white)


@one("empty", "empty points", Form.ROWS, ("empty",))
def _empty(view: View) -> Tensor:
    return _rows(view.empty)


@one("colour", "one where the side to move is Black", Form.ROWS, ("Black to move",))
def _colour(view: View) -> Tensor:
    return _rows(torch.where(view.is_black.view(-1, 1), view.state.on_board, 0))


def _history_names(sides: tuple[str, str], earlier: int) -> tuple[str, ...]:
    when = ["now", *(f"{ago} ago" for ago in range(1, earlier + 1))]
    return tuple(f"{side} stone {moment}" for side in sides for moment in when)


@several(
    "history", "own stones now and in earlier positions, then the opponent's; empty before the first", RECENT, RECENT
)
def _history(earlier: int) -> Group:
    names = _history_names(("own", "opponent's"), earlier)
    return Group(Form.ROWS, names, lambda view: view.history(earlier, own_first=True), earlier)


@several("colour_history", "black stones now and in earlier positions, then white ones", RECENT, RECENT)
def _colour_history(earlier: int) -> Group:
    names = _history_names(("black", "white"), earlier)
    return Group(Form.ROWS, names, lambda view: view.history(earlier, own_first=False), earlier)


@several(
    "turns_since",
    "age of the stone here in plies, 1 for the last move; stones of the start are the oldest",
    RECENT + 1,
    RECENT + 1,
)
def _turns_since(most: int) -> Group:
    return Group(Form.ROWS, _one_hot("turns since", most), lambda view: view.ages(most), most - 1)


@several(
    "last_moves",
    "the last moves, one plane each, newest first; no more than one once play has ended",
    RECENT_MOVES,
    RECENT_MOVES,
)
def _last_moves(number: int) -> Group:
    def read(view: View) -> Tensor:
        moves = last_moves(view, number)
        rows = flood.points_to_rows(moves.flatten().to(torch.int64), view.state.board_size)
        return rows.unflatten(0, moves.shape).transpose(1, 2)

    return Group(Form.ROWS, tuple(f"move {ago} ago" for ago in range(1, number + 1)), read, number)


def last_moves(view: View, number: int) -> Tensor:
    """Returns the last actions, newest first, -1 where there is none and for all but one of a game that is over: int16
    [B, number].
    """
    moves = view.state.moves[:, :number]
    is_hidden = view.state.finished.unsqueeze(1) & (torch.arange(number, device=moves.device) > 0)
    return torch.where(is_hidden, -1, moves)


# Tactics


@several("liberties", "liberties of the string here", 8, MOST_ONE_HOT)
def _liberties(most: int) -> Group:
    return _counts("liberties", most, lambda view: view.tactics.liberties)


def _few(what: str, most: int, of_side) -> Group:
    """Strings with exactly 1 to `most` liberties. of_side: View -> int32 [B, N], whose."""

    def read(view: View) -> Tensor:
        liberties = view.tactics.liberties
        return torch.where((liberties <= most) & (points(of_side(view)) != 0), liberties, 0)

    return Group(Form.COUNTS, tuple(f"{what} exactly {number}" for number in range(1, most + 1)), read)


@several("few_liberties", "strings of exactly so many liberties, both sides'", 3, MOST_ONE_HOT)
def _few_liberties(most: int) -> Group:
    return _few("liberties", most, lambda view: view.state.on_board)


@several("own_liberties", "own strings of exactly so many liberties", 4, MOST_ONE_HOT)
def _own_liberties(most: int) -> Group:
    return _few("own liberties", most, lambda view: view.sides[0])


@several("opponent_liberties", "the opponent's strings of exactly so many liberties", 4, MOST_ONE_HOT)
def _opponent_liberties(most: int) -> Group:
    return _few("opponent's liberties", most, lambda view: view.sides[1])


@several("capture_size", "the opponent's stones that a move here captures", 8, MOST_ONE_HOT)
def _capture_size(most: int) -> Group:
    return _counts("captures", most, lambda view: view.tactics.capture_size)


@several(
    "opponent_capture_size",
    "own stones that the opponent would capture by a move here, a ko ban aside",
    4,
    MOST_ONE_HOT,
)
def _opponent_capture_size(most: int) -> Group:
    return _counts("opponent captures", most, lambda view: view.tactics.opponent_capture_size)


@several("self_atari_size", "own stones that a move here puts into atari, or takes off by suicide", 8, MOST_ONE_HOT)
def _self_atari_size(most: int) -> Group:
    return _counts("self-atari", most, lambda view: view.tactics.self_atari_size)


@several("liberties_after", "liberties of the string that a move here makes", 8, MOST_ONE_HOT)
def _liberties_after(most: int) -> Group:
    return _counts("liberties after", most, lambda view: view.tactics.liberties_after)


# Ladders


@one("ladder_capture", "moves that start a working ladder", Form.ROWS, ("ladder capture",))
def _ladder_capture(view: View) -> Tensor:
    return _rows(view.colours(*view.movers_ladders.catching.unbind(1))[1] & view.legal)


@one("ladder_escape", "moves that save an own string in atari", Form.ROWS, ("ladder escape",))
def _ladder_escape(view: View) -> Tensor:
    return _rows(view.colours(*view.movers_ladders.escaping.unbind(1))[0] & view.legal)


@several("laddered", "stones that are caught in a ladder, now and in earlier positions", 3, RECENT + 1)
def _laddered(number: int) -> Group:
    def read(view: View) -> Tensor:
        return _rows(*(ladders.caught[:, 0] | ladders.caught[:, 1] for ladders in view.ladders(number)))

    names = ("caught in a ladder", *(f"caught in a ladder {ago} ago" for ago in range(1, number)))
    return Group(Form.ROWS, names, read, number - 1)


LADDER_NAMES = ("caught in a ladder", "saved by a move now", "ladder starts here", "ladder escape here")


def _ladder_four(view: View, side: int) -> Tensor:
    """The ladders of one side's strings, 0 own or 1 the opponent's, whoever is to move."""
    ladders = view.ladders()[0]
    caught, catching, escaping = (
        view.colours(*rows.unbind(1))[side] for rows in (ladders.caught, ladders.catching, ladders.escaping)
    )
    return _rows(caught, view.sides[side] & view.state.atari & ~caught, catching, escaping)


@one("own_ladders", "own strings' ladders", Form.ROWS, tuple(f"own: {name}" for name in LADDER_NAMES))
def _own_ladders(view: View) -> Tensor:
    return _ladder_four(view, 0)


@one(
    "opponent_ladders",
    "the opponent's strings' ladders",
    Form.ROWS,
    tuple(f"opponent's: {name}" for name in LADDER_NAMES),
)
def _opponent_ladders(view: View) -> Tensor:
    return _ladder_four(view, 1)


# Legality, kos


@one("legal", "legal moves", Form.ROWS, ("legal",))
def _legal(view: View) -> Tensor:
    return _rows(view.legal)


@one("sensible", "legal moves that fill no own eye", Form.ROWS, ("sensible",))
def _sensible(view: View) -> Tensor:
    return _rows(view.legal & ~view.own_eyes)


@one("ko", "the point banned by the simple ko rule", Form.ROWS, ("ko",))
def _ko(view: View) -> Tensor:
    return _rows(view.ko)


@one("bans", "points banned by ko or superko", Form.ROWS, ("banned by ko",))
def _bans(view: View) -> Tensor:
    return _rows(view.ko | view.repeats)


@one(
    "ko_takes",
    "moves that take a ko; moves by which the opponent would, a ban aside",
    Form.VALUES,
    ("takes a ko", "opponent takes a ko"),
)
def _ko_takes(view: View) -> Tensor:
    tactics = view.tactics
    takes = (tactics.capture_size == 1) & (tactics.liberties_after == 1) & (tactics.size_after == 1)
    # The opponent's stone would be a lone one, its only liberty the stone that it took.
    crowded = points(view.empty & ~flood.neighbours(view.empty | view.sides[1])) != 0
    return torch.stack([takes, (tactics.opponent_capture_size == 1) & crowded], dim=-1)


# Area and shape


@one(
    "area",
    "points as area scoring counts them now, none under territory scoring",
    Form.ROWS,
    ("own area", "opponent's area"),
)
def _area(view: View) -> Tensor:
    is_area = view.state.rules.scoring == AREA
    if not view.state.rules.any_territory:
        return _rows(*view.colours(*scoring.final_rows(view.state)))
    return _rows(
        *(torch.where(is_area.unsqueeze(1), rows, 0) for rows in view.colours(*scoring.final_rows(view.state)))
    )


@one(
    "pass_alive",
    "points that are unconditionally own and the opponent's",
    Form.ROWS,
    ("own for good", "opponent's for good"),
)
def _pass_alive(view: View) -> Tensor:
    state = view.state
    suicide = state.rules.suicide if state.rules.any_suicide else False
    return _rows(*view.colours(*scoring.pass_alive_rows(state.black, state.white, state.on_board, suicide=suicide)))


@several("edge_distance", "distance to the nearest edge, 1 on it", 4, MOST_ONE_HOT)
def _edge_distance(most: int) -> Group:
    return _counts("line", most, lambda view: view.distances.expand(view.state.num_games, -1, -1))


@one("pattern", "3x3 pattern around a move", Form.COUNTS, CLASSES)
def _pattern(view: View) -> Tensor:
    return torch.where(points(view.legal) != 0, pattern_classes(*map(points, (*view.sides, view.state.on_board))), 0)


@one("captures", "moves that capture", Form.VALUES, ("captures",))
def _captures(view: View) -> Tensor:
    return (view.tactics.capture_size > 0).unsqueeze(-1)


@one("connects", "moves that connect own strings", Form.VALUES, ("connects",))
def _connects(view: View) -> Tensor:
    return (view.tactics.strings_joined > 1).unsqueeze(-1)


@one("makes_eye", "moves that make an own eye, captures aside", Form.ROWS, ("makes an eye",))
def _makes_eye(view: View) -> Tensor:
    return _rows(eye_makers(view.sides[0], view.empty, view.state.on_board) & view.legal)


def _scaled(numbers: Tensor) -> Tensor:
    return (numbers.clamp(max=MOST_SCALED).to(torch.float32) / MOST_SCALED).unsqueeze(-1)


@one(
    "scaled_liberties_after",
    "liberties of the string that a move here makes, 1 for 8 or more",
    Form.VALUES,
    ("liberties after, scaled",),
)
def _scaled_liberties_after(view: View) -> Tensor:
    return _scaled(view.tactics.liberties_after)


@one(
    "scaled_weakest",
    "liberties of the opponent's weakest string beside, 1 for 8",
    Form.VALUES,
    ("weakest opponent, scaled",),
)
def _scaled_weakest(view: View) -> Tensor:
    return _scaled(view.tactics.weakest_opponent)


@one("scaled_edge_distance", "distance to the nearest edge, 1 at the centre", Form.VALUES, ("line, scaled",))
def _scaled_edge_distance(view: View) -> Tensor:
    centre = ((view.state.rules.size + 1) // 2).view(-1, 1, 1)
    return (view.distances.to(torch.float32) / centre).unsqueeze(-1)


RULE_PLANES = (
    "komi / 15",
    "suicide allowed",
    "positional superko",
    "situational superko",
    "simple ko",
    "area scoring",
    "territory scoring",
    "handicap given",
    "previous move was a pass",
)


@one("rule_planes", "the rules, each on a plane of its own", Form.VALUES, RULE_PLANES, tells_komi=True)
def _rule_planes(view: View) -> Tensor:
    state, rules = view.state, view.state.rules
    white_began = view.is_black ^ (state.ply % 2 == 0)
    told = [
        rules.suicide,
        rules.superko == 1,
        rules.superko == 2,
        rules.superko == 0,
        rules.scoring == 0,
        rules.scoring == 1,
    ]
    told += [white_began, state.passes > 0]
    komi = torch.where(state.to_play == BLACK, -rules.komi, rules.komi) / 15
    numbers = torch.stack([komi, *(fact.to(torch.float32) for fact in told)], dim=1)
    return numbers[:, None, None, :] * points(state.on_board).unsqueeze(-1)
