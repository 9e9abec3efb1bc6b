"""The other groups: strings, ladders, legality, area and shape point by point, and the global inputs; all from the side
to move's view, unless a name says black or white."""

import torch
from torch import Tensor

from zerogo import flood, scoring
from zerogo.board.eyes import eye_makers
from zerogo.board.state import RECENT, RECENT_MOVES
from zerogo.features.groups import group, one_hot
from zerogo.features.patterns import CLASSES, pattern_classes
from zerogo.features.stones import as_planes, last_moves
from zerogo.features.view import View
from zerogo.kernels.shared import COUNTS, GLOBALS, ROWS, VALUES
from zerogo.rules import SCORING, SUPERKO

AREA = SCORING.index("area")
MOST = 64  # planes of a group that shows numbers
MOST_SCALED = 8  # liberties that a scaled plane shows as 1
KOMI_MARGIN = 20  # points beyond the board's area at which KataGo cuts the komi


# Strings and captures


@group("liberties", COUNTS, one_hot("liberties"), default=8, most=MOST)
def _liberties(view: View, number: int) -> Tensor:
    return view.tactics.liberties


def _few_liberties(name: str, what: str, default: int, planes_of) -> None:
    """Enters a group of the strings with exactly 1, 2, … liberties. planes_of: View -> int32 [B, N], whose."""

    @group(
        name, COUNTS, lambda most: tuple(f"{what} exactly {k}" for k in range(1, most + 1)), default=default, most=MOST
    )
    def read(view: View, number: int) -> Tensor:
        liberties = view.tactics.liberties
        return torch.where((liberties <= number) & flood.unpack_rows(planes_of(view)), liberties, 0)


_few_liberties("few_liberties", "liberties", 3, lambda view: view.state.on_board)
_few_liberties("own_liberties", "own liberties", 4, lambda view: view.sides[0])
_few_liberties("opponent_liberties", "opponent's liberties", 4, lambda view: view.sides[1])


@group("capture_size", COUNTS, one_hot("captures"), default=8, most=MOST)
def _capture_size(view: View, number: int) -> Tensor:
    """The opponent's stones that a move here captures."""
    return view.tactics.capture_size


@group("opponent_capture_size", COUNTS, one_hot("opponent captures"), default=4, most=MOST)
def _opponent_capture_size(view: View, number: int) -> Tensor:
    """Own stones that the opponent would capture by a move here, a ko ban aside."""
    return view.tactics.opponent_capture_size


@group("self_atari_size", COUNTS, one_hot("self-atari"), default=8, most=MOST)
def _self_atari_size(view: View, number: int) -> Tensor:
    """Own stones that a move here puts into atari, or takes off by suicide."""
    return view.tactics.self_atari_size


@group("liberties_after", COUNTS, one_hot("liberties after"), default=8, most=MOST)
def _liberties_after(view: View, number: int) -> Tensor:
    """Liberties of the string that a move here makes."""
    return view.tactics.liberties_after


@group("captures", VALUES, "captures")
def _captures(view: View) -> Tensor:
    return (view.tactics.capture_size > 0).unsqueeze(-1)


@group("connects", VALUES, "connects")
def _connects(view: View) -> Tensor:
    return (view.tactics.strings_joined > 1).unsqueeze(-1)


@group("scaled_liberties_after", VALUES, "liberties after, scaled")
def _scaled_liberties_after(view: View) -> Tensor:
    return _scaled(view.tactics.liberties_after)


@group("scaled_weakest", VALUES, "weakest opponent, scaled")
def _scaled_weakest(view: View) -> Tensor:
    """Liberties of the opponent's weakest string beside."""
    return _scaled(view.tactics.weakest_opponent)


def _scaled(numbers: Tensor) -> Tensor:
    return (numbers.clamp(max=MOST_SCALED).to(torch.float32) / MOST_SCALED).unsqueeze(-1)


# Ladders


@group("ladder_capture", ROWS, "ladder capture")
def _ladder_capture(view: View) -> Tensor:
    """Moves that start a working ladder."""
    return as_planes(view.colours(*view.movers_ladders.catching.unbind(1))[1] & view.legal)


@group("ladder_escape", ROWS, "ladder escape")
def _ladder_escape(view: View) -> Tensor:
    """Moves that save an own string in atari."""
    return as_planes(view.colours(*view.movers_ladders.escaping.unbind(1))[0] & view.legal)


def _laddered_names(number: int) -> tuple[str, ...]:
    return ("caught in a ladder", *(f"caught in a ladder {ago} ago" for ago in range(1, number)))


@group("laddered", ROWS, _laddered_names, default=3, most=RECENT + 1)
def _laddered(view: View, number: int) -> Tensor:
    """Stones that are caught in a ladder, now and in earlier positions."""
    return as_planes(*(ladders.caught[:, 0] | ladders.caught[:, 1] for ladders in view.ladders(number)))


LADDER_NAMES = ("caught in a ladder", "saved by a move now", "ladder starts here", "ladder escape here")


@group("own_ladders", ROWS, *(f"own: {name}" for name in LADDER_NAMES))
def _own_ladders(view: View) -> Tensor:
    return _ladders_of(view, 0)


@group("opponent_ladders", ROWS, *(f"opponent's: {name}" for name in LADDER_NAMES))
def _opponent_ladders(view: View) -> Tensor:
    return _ladders_of(view, 1)


def _ladders_of(view: View, side: int) -> Tensor:
    """Returns the ladders of one side's strings, 0 own or 1 the opponent's, whoever is to move."""
    caught, catching, escaping = (view.colours(*rows.unbind(1))[side] for rows in view.ladders()[0][:3])
    return as_planes(caught, view.sides[side] & view.state.atari & ~caught, catching, escaping)


# Legality, kos


@group("legal", ROWS, "legal")
def _legal(view: View) -> Tensor:
    return as_planes(view.legal)


@group("sensible", ROWS, "sensible")
def _sensible(view: View) -> Tensor:
    """Legal moves that fill no own eye."""
    return as_planes(view.legal & ~view.own_eyes)


@group("ko", ROWS, "ko")
def _ko(view: View) -> Tensor:
    """The point banned by the simple ko rule."""
    return as_planes(view.ko)


@group("bans", ROWS, "banned by ko")
def _bans(view: View) -> Tensor:
    """Points banned by ko or superko."""
    return as_planes(view.ko | view.repeats)


@group("ko_takes", VALUES, "takes a ko", "opponent takes a ko")
def _ko_takes(view: View) -> Tensor:
    """Moves that take a ko; moves by which the opponent would, a ban aside."""
    tactics = view.tactics
    takes = (tactics.capture_size == 1) & (tactics.liberties_after == 1) & (tactics.size_after == 1)
    # The opponent's stone would be a lone one, its only liberty the stone that it took.
    crowded = flood.unpack_rows(view.empty & ~flood.neighbours(view.empty | view.sides[1]))
    return torch.stack([takes, (tactics.opponent_capture_size == 1) & crowded], dim=-1)


# Area and shape


@group("area", ROWS, "own area", "opponent's area")
def _area(view: View) -> Tensor:
    """Points as area scoring counts them now, none under territory scoring."""
    area = as_planes(*view.colours(*scoring.final_rows(view.state)))
    if not view.state.rules.any_territory:
        return area
    return torch.where((view.state.rules.scoring == AREA).view(-1, 1, 1), area, 0)


@group("pass_alive", ROWS, "own for good", "opponent's for good")
def _pass_alive(view: View) -> Tensor:
    """Points that are unconditionally own and the opponent's."""
    state = view.state
    alive = scoring.pass_alive_rows(state.black, state.white, state.on_board, suicide=state.rules.suicide)
    return as_planes(*view.colours(*alive))


@group("makes_eye", ROWS, "makes an eye")
def _makes_eye(view: View) -> Tensor:
    """Moves that make an own eye, captures aside."""
    return as_planes(eye_makers(view.sides[0], view.empty, view.state.on_board) & view.legal)


@group("pattern", COUNTS, *CLASSES)
def _pattern(view: View) -> Tensor:
    """The 3x3 pattern around a legal move."""
    planes = (flood.unpack_rows(rows).to(torch.uint8) for rows in (*view.sides, view.state.on_board))
    return torch.where(flood.unpack_rows(view.legal), pattern_classes(*planes).to(torch.int16), 0)


@group("edge_distance", COUNTS, one_hot("line"), default=4, most=MOST)
def _edge_distance(view: View, number: int) -> Tensor:
    return view.distances


@group("scaled_edge_distance", VALUES, "line, scaled")
def _scaled_edge_distance(view: View) -> Tensor:
    """Distance to the nearest edge, 1 at the centre."""
    centre = ((view.state.rules.size + 1) // 2).view(-1, 1, 1)
    return (view.distances.to(torch.float32) / centre).unsqueeze(-1)


# Rules


RULE_PLANES = (
    "komi / 15", "suicide allowed", "positional superko", "situational superko", "simple ko", "area scoring",
    "territory scoring", "handicap given", "previous move was a pass",
)  # fmt: skip


@group("rule_planes", VALUES, *RULE_PLANES, tells_komi=True)
def _rule_planes(view: View) -> Tensor:
    """The rules, each on a plane of its own."""
    state, rules = view.state, view.state.rules
    white_began = view.is_black ^ (state.ply % 2 == 0)
    told = [
        _own_komi(view) / 15,
        rules.suicide,
        *(rules.superko == SUPERKO.index(kind) for kind in ("positional", "situational", "simple")),
        *(rules.scoring == SCORING.index(kind) for kind in ("area", "territory")),
        white_began,
        state.passes > 0,
    ]
    numbers = torch.stack([number.to(torch.float32) for number in told], dim=1)
    return numbers[:, None, None, :] * flood.unpack_rows(state.on_board).unsqueeze(-1)


def _own_komi(view: View) -> Tensor:
    """Returns the komi, positive where it favours the side to move: float32 [B]."""
    return torch.where(view.is_black, -view.state.rules.komi, view.state.rules.komi)


@group("komi", GLOBALS, "komi", tells_komi=True)
def _komi(view: View) -> Tensor:
    """Own komi / twice the board's side. The spread of results grows like the board's side, so a point weighs about as
    much as it decides: 7 points on 9x9 give 0.39, 7.5 on 19x19 0.20, and 24.5 on 5x5, which is nearly the whole board,
    2.45."""
    return (_own_komi(view) / (2 * view.state.rules.size)).unsqueeze(1)


def _pass_names(number: int) -> tuple[str, ...]:
    return tuple(f"pass {ago} ago" for ago in range(1, number + 1))


@group("last_passes", GLOBALS, _pass_names, default=RECENT_MOVES, most=RECENT_MOVES)
def _last_passes(view: View, number: int) -> Tensor:
    """Whether each of the last moves was a pass, newest first."""
    return (last_moves(view, number) == view.state.board_size**2).to(torch.float32)


def _cut_komi(view: View) -> Tensor:
    """Returns the own komi within the board's area and a margin: float32 [B]."""
    most = (view.state.rules.size**2 + KOMI_MARGIN).to(torch.float32)
    return torch.minimum(torch.maximum(_own_komi(view), -most), most)


@group("katago_komi", GLOBALS, "komi / 20", tells_komi=True)
def _katago_komi(view: View) -> Tensor:
    return (_cut_komi(view) / 20).unsqueeze(1)


KATAGO_RULES = (
    "superko", "positional +0.5, situational -0.5", "suicide", "territory scoring", "seki tax", "group tax", "encore",
    "second encore", "a pass ends the game", "playout doubling", "playout doubling / 2", "button",
)  # fmt: skip


@group("katago_rules", GLOBALS, *KATAGO_RULES)
def _katago_rules(view: View) -> Tensor:
    """KataGo's global inputs 6 to 17; what zerogo's rules do not have is 0."""
    state, rules = view.state, view.state.rules
    is_positional, is_situational = (rules.superko == SUPERKO.index(kind) for kind in ("positional", "situational"))
    none = torch.zeros_like(rules.komi)
    told = {
        "superko": is_positional | is_situational,
        "positional +0.5, situational -0.5": torch.where(is_positional, 0.5, torch.where(is_situational, -0.5, none)),
        "suicide": rules.suicide,
        "territory scoring": rules.scoring != AREA,
        "a pass ends the game": (state.passes > 0) & ~state.finished,
    }
    return torch.stack([told.get(name, none).to(torch.float32) for name in KATAGO_RULES], dim=1)


@group("komi_parity", GLOBALS, "komi parity")
def _komi_parity(view: View) -> Tensor:
    """How far the own komi is from one that can end in a draw, as a wave. Draws come at komi as even or odd as the
    board's area; only under area scoring."""
    komi, odd = _cut_komi(view), (view.state.rules.size % 2).to(torch.float32)
    above = (komi - (torch.floor((komi - odd) / 2) * 2 + odd)).clamp(0, 2)
    wave = torch.where(above < 0.5, above, torch.where(above < 1.5, 1 - above, above - 2))
    return torch.where(view.state.rules.scoring == AREA, wave, 0.0).unsqueeze(1)
