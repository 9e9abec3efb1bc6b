"""kata-raw-nn: what the network alone says of the position, in KataGo's format and from White's view.

    kata-raw-nn 0
    =
    symmetry 0
    whiteWin 0.412345
    …
    policy
    0.012000 0.034000 …            N lines of N, NAN on illegal points
    policyPass 0.001000
    whiteOwnership
    0.012000 -0.034000 …

Three keys are -1, which is how KataGo says that a network does not tell them. whiteScoreSelfplaySq, for which it has no
such number, is left out. Of plain playouts these are the means, with an even policy, the same for every symmetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zerogo import board
from zerogo.game import Colour
from zerogo.gtp import parse
from zerogo.gtp.analyze import require_thinker
from zerogo.gtp.engine import Handler
from zerogo.symmetry import NUM_SYMMETRIES

if TYPE_CHECKING:
    from zerogo.evaluator import Evaluation
    from zerogo.gtp.engine import Engine

NAME = "kata-raw-nn"
UNAVAILABLE = ("varTimeLeft", "shorttermWinlossError", "shorttermScoreError")


def kata_raw_nn(engine: Engine, arguments: list[str]) -> str:
    """Returns the network's answer for the board turned by one of the 8 symmetries, or by each of them; the search is
    not asked.
    """
    require_thinker(engine)
    parse.only(arguments, f"{NAME} 0 to {NUM_SYMMETRIES - 1}, or all", 1)
    is_all = arguments[0].lower() == "all"
    turns = range(NUM_SYMMETRIES) if is_all else [parse.integer(arguments[0], "symmetry", 0, NUM_SYMMETRIES - 1)]
    engine.require_size(engine.size)
    state = engine.game.tensor(engine.analyst.device)
    legal = board.legal_actions(state)[0].cpu().numpy()
    is_white = engine.game.to_play is Colour.WHITE
    return "\n".join(["", *(_answer(turn, engine.analyst.inform(state, turn=turn), legal, is_white) for turn in turns)])


def unavailable(engine: Engine) -> set[str]:
    """Returns the commands that this engine can't answer."""
    return set() if engine.analyst is not None else {NAME}


def _answer(turn: int, found: Evaluation, legal: np.ndarray, is_white: bool) -> str:
    """Returns the lines for one symmetry; legal: bool [A]."""
    sign = 1 if is_white else -1
    win, lead = (1 + sign * float(found.value[0])) / 2, sign * float(found.score[0])
    prior = np.where(legal, found.prior[0].float().cpu().numpy(), np.nan)
    ownership = sign * found.ownership[0].cpu().numpy()
    rows = [f"symmetry {turn}", f"whiteWin {win:.6f}", f"whiteLoss {1 - win:.6f}", "noResult 0.000000"]
    rows += [f"whiteLead {lead:.6f}", f"whiteScoreSelfplay {lead:.6f}", *(f"{name} -1.000000" for name in UNAVAILABLE)]
    rows += ["policy", *_rows(prior[:-1].reshape(ownership.shape)), f"policyPass {_number(prior[-1])}"]
    return "\n".join([*rows, "whiteOwnership", *_rows(ownership)])


def _rows(numbers: np.ndarray) -> list[str]:
    """Returns the lines of a board's numbers [N, N]."""
    return [" ".join(_number(number) for number in row) for row in numbers.tolist()]


def _number(number: float) -> str:
    return "NAN" if np.isnan(number) else f"{number:.6f}"


COMMANDS: dict[str, Handler] = {NAME: kata_raw_nn}
