"""From positions to what a network sees: an encoder gives a batch's planes and global inputs.

An encoder is a list of groups, whose planes it puts one after the other. A group encodes one thing about a batch, as
planes or as global inputs. A config names an encoding of the literature (`ENCODERS`), or lists groups itself: `stones`,
or with a number of planes `liberties:8`. The simplest encoding, zero17, consists of two groups of stones. Most take the
side to move's view of a batch (`view`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from zerogo import kernels
from zerogo.board import RECENT, RECENT_MOVES, State, flood
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
    if (group := GROUPS.get(name)) is None:
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


# Views are the side to move's, unless a name says black or white.
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
    "katago_komi": Group(GLOBALS, ("komi / 20",), lambda view: planes.clip_komi(view)[:, None] / 20, tells_komi=True),
    "katago_rules": Group(GLOBALS, planes.KATAGO_RULES, planes.katago_rules),
    "komi_parity": Group(GLOBALS, ("komi parity",), planes.komi_parity),
}


ENCODERS: dict[str, tuple[str, ...]] = {
    # Silver et al., "Mastering the game of Go without human knowledge", 2017.
    "zero17": ("history:7", "colour"),
    # Silver et al., "Mastering the game of Go with deep neural networks and tree search", 2016, Extended Data Table 2.
    "alphago48": (
        "stones", "empty", "on_board", "turns_since:8", "liberties:8", "capture_size:8", "self_atari_size:8",
        "liberties_after:8", "ladder_capture", "ladder_escape", "sensible", "zeros:1",
    ),
    # KataGo, version 7 of its inputs, to the bit; its planes 7, 8, 20 and 21 show what zerogo's rules lack.
    "katago22": (
        "on_board", "stones", "few_liberties:3", "bans", "zeros:2", "last_moves:5", "laddered:3", "ladder_start",
        "area", "zeros:2", "last_passes:5", "katago_komi", "katago_rules", "komi_parity",
    ),
    # Two tutorial articles, which describe other planes under the names of AlphaGo's 48 and KataGo's 22.
    "article48": (
        "colours", "empty", "colour_history:7", "own_liberties:4", "opponent_liberties:4", "capture_size:4",
        "opponent_capture_size:4", "own_ladders", "opponent_ladders", "legal", "edge_distance:4",
    ),
    "article22": ("colours", "empty", "on_board", "colour", "last_moves:5", "ko", "ko_takes", "rule_planes"),
    # The features of programs before networks, without stones: combine it with `stones`.
    "handcrafted": (
        "pattern", "captures", "connects", "makes_eye", "scaled_liberties_after", "scaled_weakest",
        "scaled_edge_distance",
    ),
}  # fmt: skip
# AlphaGo's value network had one plane more than its policy network.
ENCODERS["alphago49"] = (*ENCODERS["alphago48"], "colour")


class Encoder:
    """Encodes positions from the side to move's view. Swapping the colours and the side to move changes only colour
    constants. The eight transforms of the board transform the planes and leave the global inputs unchanged.

    name: a preset's, or the names of the groups. plane_names: of the C planes; global_names: of the g global inputs;
    all are different. With `komi_input` the komi is a global input, unless a group has it already. readers: see
    `kernels.readers_of`."""

    def __init__(self, name: str, groups: Sequence[str], komi_input: bool) -> None:
        self.name, self.readers = name, kernels.readers_of(groups)
        all_groups = [make_group(group) for group in groups]
        if komi_input and not any(group.tells_komi for group in all_groups):
            all_groups.append(make_group("komi"))
        self._groups = [group for group in all_groups if group.form != GLOBALS]
        self._globals = [group for group in all_groups if group.form == GLOBALS]
        self._spans = tuple((group.form, len(group.names)) for group in self._groups)
        self.plane_names, self.global_names = _names(self._groups), _names(self._globals)
        self.num_planes, self.num_globals = len(self.plane_names), len(self.global_names)

    def planes(self, state: State, dtype: torch.dtype = torch.float32, at_least: int = 0) -> Tensor:
        """Returns the planes: [B, C, N, N] of the given dtype, in channels_last memory, zero off the board, with
        planes of zeros at the end until there are `at_least`."""
        view, fast = View(state), kernels.module_for("planes", state.device)
        readings, more = [group.read(view) for group in self._groups], max(0, at_least - self.num_planes)
        if fast is None:
            pieces = [_points(group, reading).to(dtype) for group, reading in zip(self._groups, readings, strict=True)]
            channels = torch.cat([*pieces, pieces[0].new_zeros(*pieces[0].shape[:3], more)], dim=-1)
        else:
            spans = (*self._spans, (VALUES, more)) if more else self._spans
            channels = fast.paint(spans, *self._bits(readings, state), dtype)
            places = channels.split([width for _, width in spans], dim=-1)[: len(readings)]
            for group, place, reading in zip(self._groups, places, readings, strict=True):
                if group.form == VALUES:
                    place.copy_(reading)
        return channels.permute(0, 3, 1, 2)

    def _bits(self, readings: list[Tensor], state: State) -> tuple[Tensor, Tensor]:
        """Returns the bit rows and the counts of all groups: int32 [B, R, N] and int16 [K, B, N, N]."""
        rows = [reading for group, reading in zip(self._groups, readings, strict=True) if group.form == ROWS]
        counts = [reading for group, reading in zip(self._groups, readings, strict=True) if group.form == COUNTS]
        num_games, size = state.black.shape
        no_rows = state.black.new_zeros(num_games, 0, size)
        no_counts = state.black.new_zeros(0, num_games, size, size, dtype=torch.int16)
        return torch.cat([no_rows, *rows], dim=1), torch.stack(counts) if counts else no_counts

    def globals(self, state: State) -> Tensor:
        """Returns the global inputs: float32 [B, g]."""
        view = View(state)
        inputs = [group.read(view) for group in self._globals]
        return torch.cat(inputs, dim=1) if inputs else torch.zeros(state.num_games, 0, device=state.device)


def make_encoder(name: str | Sequence[str], komi_input: bool) -> Encoder:
    """Returns the encoder of a preset or of a list of groups. With `komi_input`, the komi is among its global inputs if
    no group has it already.

    Raises InputError for an unknown preset or group, and if no group has planes."""
    if isinstance(name, str):
        if name not in ENCODERS:
            allowed = ", ".join(ENCODERS)
            raise InputError(f"features.encoder is {quote(name)}; allowed are {allowed}, or a list of plane groups")
        return Encoder(name, ENCODERS[name], komi_input)
    encoder = Encoder(", ".join(name), name, komi_input)
    if not encoder.num_planes:
        raise InputError(f"features.encoder is [{encoder.name}]; at least one of the groups must give planes")
    return encoder


def on_board_mask(state: State) -> Tensor | None:
    """Returns which points exist: bool [B, N, N], or None if all do, so that a batch of one size costs nothing."""
    return None if state.rules.same_size else flood.unpack_rows(state.on_board)


def _points(group: Group, reading: Tensor) -> Tensor:
    """Returns a group's result as points: [B, N, N, c]."""
    if group.form == ROWS:
        columns = torch.arange(reading.shape[2], dtype=torch.int32, device=reading.device).view(-1, 1)
        return (reading.transpose(1, 2).unsqueeze(2) >> columns) & 1
    if group.form == COUNTS:
        numbers = torch.arange(1, len(group.names) + 1, dtype=reading.dtype, device=reading.device)
        return reading.clamp(max=len(group.names)).unsqueeze(-1) == numbers
    return reading


def _names(groups: Sequence[Group]) -> list[str]:
    """Returns the groups' names of planes or inputs, with a number after those that occur more than once."""
    names = [name for group in groups for name in group.names]
    return [f"{name} ({names[:k].count(name)})" if names.count(name) > 1 else name for k, name in enumerate(names, 1)]
