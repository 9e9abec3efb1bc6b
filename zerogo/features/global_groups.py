"""The groups of global inputs: numbers that belong to a whole position, from the side to move's view."""

from __future__ import annotations

import torch
from torch import Tensor

from zerogo.board.state import RECENT_MOVES
from zerogo.features.groups import Form, Group, one, several
from zerogo.features.plane_groups import AREA, last_moves
from zerogo.features.view import View
from zerogo.rules import SUPERKO

KOMI_MARGIN = 20  # points beyond the board's area at which KataGo cuts the komi


def _own_komi(view: View) -> Tensor:
    """Returns the komi, positive where it favours the side to move: float32 [B]."""
    return torch.where(view.is_black, -view.state.rules.komi, view.state.rules.komi)


@one("komi", "own komi / twice the board's side", Form.GLOBALS, ("komi",), tells_komi=True)
def _komi(view: View) -> Tensor:
    """The spread of results grows like the board's side, so a point weighs about as much as it decides: 7 points on 9x9
    give 0.39, 7.5 on 19x19 0.20, and 24.5 on 5x5, which is nearly the whole board, 2.45."""
    return (_own_komi(view) / (2 * view.state.rules.size)).unsqueeze(1)


@several("last_passes", "whether each of the last moves was a pass, newest first", RECENT_MOVES, RECENT_MOVES)
def _last_passes(number: int) -> Group:
    def read(view: View) -> Tensor:
        return (last_moves(view, number) == view.state.board_size**2).to(torch.float32)

    return Group(Form.GLOBALS, tuple(f"pass {ago} ago" for ago in range(1, number + 1)), read)


def _cut_komi(view: View) -> Tensor:
    """Returns the own komi within the board's area and a margin: float32 [B]."""
    most = (view.state.rules.size**2 + KOMI_MARGIN).to(torch.float32)
    return torch.minimum(torch.maximum(_own_komi(view), -most), most)


@one("katago_komi", "own komi / 20", Form.GLOBALS, ("komi / 20",), tells_komi=True)
def _katago_komi(view: View) -> Tensor:
    return (_cut_komi(view) / 20).unsqueeze(1)


KATAGO_RULES = (
    "superko",
    "positional +0.5, situational -0.5",
    "suicide",
    "territory scoring",
    "seki tax",
    "group tax",
    "encore",
    "second encore",
    "a pass ends the game",
    "playout doubling",
    "playout doubling / 2",
    "button",
)


@one("katago_rules", "KataGo's global inputs 6 to 17; what zerogo's rules do not have is 0", Form.GLOBALS, KATAGO_RULES)
def _katago_rules(view: View) -> Tensor:
    state, superko = view.state, view.state.rules.superko
    is_positional, is_situational = superko == SUPERKO.index("positional"), superko == SUPERKO.index("situational")
    none = torch.zeros_like(state.rules.komi)
    kind = torch.where(is_positional, 0.5, torch.where(is_situational, -0.5, none))
    ends = (state.passes > 0) & ~state.finished
    told = [
        is_positional | is_situational,
        kind,
        state.rules.suicide,
        state.rules.scoring != AREA,
        none,
        none,
        none,
        none,
        ends,
    ]
    return torch.stack([*(fact.to(torch.float32) for fact in told), none, none, none], dim=1)


@one(
    "komi_parity", "how far the own komi is from one that can end in a draw, as a wave", Form.GLOBALS, ("komi parity",)
)
def _komi_parity(view: View) -> Tensor:
    """Draws come at komi as even or odd as the board's area; only under area scoring."""
    komi, odd = _cut_komi(view), (view.state.rules.size % 2).to(torch.float32)
    above = (komi - (torch.floor((komi - odd) / 2) * 2 + odd)).clamp(0, 2)
    wave = torch.where(above < 0.5, above, torch.where(above < 1.5, 1 - above, above - 2))
    return torch.where(view.state.rules.scoring == AREA, wave, 0.0).unsqueeze(1)
