"""Groups: the building blocks of encoders. Each encodes one thing about a batch, as planes or as global inputs.

A config names a group, such as `stones`, or a group with a number of planes, such as `liberties:8`."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from zerogo.board.state import RECENT, RECENT_MOVES
from zerogo.errors import InputError, quote
from zerogo.features import planes
from zerogo.features.view import View, as_planes, colour, colour_history, history, last_move_planes, turns_since
from zerogo.kernels.shared import COUNTS, GLOBALS, ROWS, VALUES

MOST = 64  # planes of a group with a number
MOST_SCALED = 8  # liberties that a scaled plane encodes as 1
CAUGHT = "caught in a ladder"
LADDERS = (CAUGHT, "saved by a move now", "ladder starts here", "ladder escape here")
AREA = ("own area", "opponent's area")
Names = Callable[[int], tuple[str, ...]]  # of the planes or inputs, by the number after the group's name


@dataclass(frozen=True)
class Group:
    """One part of an encoder: the names of its planes or global inputs, and the function that computes them.

    form: the form of the result of `read`, which is zero off the board. ROWS are bit rows int32 [B, c, N], for c
    planes. COUNTS are one number int16 [B, N, N] for c planes: v sets plane v - 1, more than c the last, 0 none. VALUES
    are the planes themselves, [B, N, N, c], bool or float32. GLOBALS are numbers of whole positions, float32 [B, g].

    max_number: the largest number allowed after the name, 0 if none is. default: the number if none is given. With
    `max_number`, `names` is a function of the number, and `read` takes it as its second argument; `make_group` fills it
    in. The first result of `read` is checked. tells_komi: whether the group gives the komi."""

    form: int
    names: tuple[str, ...] | Names
    read: Callable[..., Tensor]
    default: int = 0
    max_number: int = 0
    tells_komi: bool = False


def make_group(text: str) -> Group:
    """Returns the group for `name` or `name:number`. Raises InputError if there is no such group."""
    name, colon, number = text.partition(":")
    group = GROUPS.get(name)
    if group is None:
        allowed = ", ".join(sorted(GROUPS))
        raise InputError(f"features.encoder names the plane group {quote(name)}; allowed are {allowed}")
    if colon and not group.max_number:
        raise InputError(f"features.encoder names the plane group {quote(text)}; {name} takes no number")
    if colon and not (number.isascii() and number.isdigit() and 1 <= int(number) <= group.max_number):
        allowed = f"the number is a whole one from 1 to {group.max_number}"
        raise InputError(f"features.encoder names the plane group {quote(text)}; {allowed}")
    more = [int(number) if colon else group.default] if group.max_number else []
    names = group.names(*more) if more else group.names
    return replace(group, names=names, read=planes.checked_read(text, group, names, more))


def _one_hot(what: str) -> Names:
    return lambda limit: (*(f"{what} {number}" for number in range(1, limit)), f"{what} {limit} or more")


def _exactly(what: str) -> Names:
    return lambda limit: tuple(f"{what} exactly {number}" for number in range(1, limit + 1))


def _ago(what: str) -> Names:
    return lambda number: tuple(f"{what} {ago} ago" for ago in range(1, number + 1))


def _now_and_ago(*sides: str) -> Names:
    return lambda earlier: tuple(name for side in sides for name in (f"{side} now", *_ago(side)(earlier)))


def _tactics(field: str) -> Callable[[View, int], Tensor]:
    return lambda view, _: getattr(view.tactics, field)


def _few(whose: Callable[[View], Tensor]) -> Callable[[View, int], Tensor]:
    return lambda view, limit: planes.few_liberties(view, limit, whose(view))


def _scaled(field: str) -> Callable[[View], Tensor]:
    return lambda view: (getattr(view.tactics, field).clamp(max=MOST_SCALED) / MOST_SCALED).unsqueeze(-1)


# All take the side to move's view, unless a name says black or white.
GROUPS = {
    # Stones
    "on_board": Group(ROWS, ("on the board",), lambda view: as_planes(view.state.on_board)),
    # Planes that stay empty.
    "zeros": Group(
        ROWS, lambda number: ("zero",) * number, lambda view, number: as_planes(*[view.empty & 0] * number), 1, MOST
    ),
    "stones": Group(ROWS, ("own stone", "opponent's stone"), lambda view: as_planes(*view.sides)),
    "colours": Group(ROWS, ("black stone", "white stone"), lambda view: as_planes(view.state.black, view.state.white)),
    "empty": Group(ROWS, ("empty",), lambda view: as_planes(view.empty)),
    "colour": Group(ROWS, ("Black to move",), colour),
    "history": Group(ROWS, _now_and_ago("own stone", "opponent's stone"), history, RECENT, RECENT),
    "colour_history": Group(ROWS, _now_and_ago("black stone", "white stone"), colour_history, RECENT, RECENT),
    "turns_since": Group(ROWS, _one_hot("turns since"), turns_since, RECENT + 1, RECENT + 1),
    "last_moves": Group(ROWS, _ago("move"), last_move_planes, RECENT_MOVES, RECENT_MOVES),
    # Strings and captures
    "liberties": Group(COUNTS, _one_hot("liberties"), _tactics("liberties"), 8, MOST),
    "few_liberties": Group(COUNTS, _exactly("liberties"), _few(lambda view: view.state.on_board), 3, MOST),
    "own_liberties": Group(COUNTS, _exactly("own liberties"), _few(lambda view: view.sides[0]), 4, MOST),
    "opponent_liberties": Group(COUNTS, _exactly("opponent's liberties"), _few(lambda view: view.sides[1]), 4, MOST),
    # The opponent's stones that a move here captures.
    "capture_size": Group(COUNTS, _one_hot("captures"), _tactics("capture_size"), 8, MOST),
    # Own stones that the opponent would capture by a move here, ko bans ignored.
    "opponent_capture_size": Group(COUNTS, _one_hot("opponent captures"), _tactics("opponent_capture_size"), 4, MOST),
    # Own stones that a move here puts into atari, or removes by suicide.
    "self_atari_size": Group(COUNTS, _one_hot("self-atari"), _tactics("self_atari_size"), 8, MOST),
    # Liberties of the string after a move here.
    "liberties_after": Group(COUNTS, _one_hot("liberties after"), _tactics("liberties_after"), 8, MOST),
    "captures": Group(VALUES, ("captures",), lambda view: (view.tactics.capture_size > 0).unsqueeze(-1)),
    "connects": Group(VALUES, ("connects",), lambda view: (view.tactics.strings_joined > 1).unsqueeze(-1)),
    "scaled_liberties_after": Group(VALUES, ("liberties after, scaled",), _scaled("liberties_after")),
    # Liberties of the opponent's weakest string next to the point.
    "scaled_weakest": Group(VALUES, ("weakest opponent, scaled",), _scaled("weakest_opponent")),
    # Ladders
    "ladder_capture": Group(ROWS, ("ladder capture",), planes.ladder_capture),
    "ladder_start": Group(ROWS, ("ladder start",), planes.ladder_start),
    "ladder_escape": Group(ROWS, ("ladder escape",), planes.ladder_escape),
    "laddered": Group(ROWS, lambda number: (CAUGHT, *_ago(CAUGHT)(number - 1)), planes.laddered, 3, RECENT_MOVES),
    "own_ladders": Group(ROWS, tuple(f"own: {name}" for name in LADDERS), lambda view: planes.ladders_of(view, 0)),
    "opponent_ladders": Group(
        ROWS, tuple(f"opponent's: {name}" for name in LADDERS), lambda view: planes.ladders_of(view, 1)
    ),
    # Legality, kos
    "legal": Group(ROWS, ("legal",), lambda view: as_planes(view.legal)),
    # Legal moves that fill no own eye.
    "sensible": Group(ROWS, ("sensible",), lambda view: as_planes(view.legal & ~view.own_eyes)),
    # The point banned by the simple ko rule; points banned by ko or superko.
    "ko": Group(ROWS, ("ko",), lambda view: as_planes(view.ko)),
    "bans": Group(ROWS, ("banned by ko",), planes.bans),
    "ko_takes": Group(VALUES, ("takes a ko", "opponent takes a ko"), planes.ko_takes),
    # Area and shape
    "area": Group(ROWS, AREA, planes.area),
    "area_as_if_suicide": Group(ROWS, AREA, lambda view: planes.area(view, suicide=True)),
    "pass_alive": Group(ROWS, ("own for good", "opponent's for good"), planes.pass_alive),
    # Moves that make an own eye, captures ignored.
    "makes_eye": Group(ROWS, ("makes an eye",), planes.makes_eye),
    "pattern": Group(COUNTS, planes.CLASSES, planes.pattern),
    "edge_distance": Group(COUNTS, _one_hot("line"), lambda view, _: view.distances, 4, MOST),
    "scaled_edge_distance": Group(VALUES, ("line, scaled",), planes.scaled_edge_distance),
    # Rules
    "rule_planes": Group(VALUES, planes.RULES, planes.rules, tells_komi=True),
    "komi": Group(GLOBALS, ("komi",), planes.komi, tells_komi=True),
    "last_passes": Group(GLOBALS, _ago("pass"), planes.last_passes, RECENT_MOVES, RECENT_MOVES),
    "katago_komi": Group(
        GLOBALS, ("komi / 20",), lambda view: planes.cut_komi(view).unsqueeze(1) / 20, tells_komi=True
    ),
    "katago_rules": Group(GLOBALS, planes.KATAGO_RULES, planes.katago_rules),
    "komi_parity": Group(GLOBALS, ("komi parity",), planes.komi_parity),
}
