"""Replies: what was found of a position, under KataGo's names and from the perspective that was asked for.

Where KataGo's network knows more than zerogo's: `scoreMean` and `scoreSelfplay` are `scoreLead`; `utility` is the value
of winning alone; `scoreStdev` is that of the ownership if all points were independent, and the same for all moves;
`rawStWrError`, `rawStScoreError` and `rawVarTimeLeft` are -1, as KataGo writes them for networks without such heads."""

import hashlib
from typing import Any

import numpy as np
import torch

from zerogo import coords
from zerogo.analysis.batch import PositionResult, SearchTask
from zerogo.board import BLACK
from zerogo.players.analyst import Candidate
from zerogo.symmetry import NUM_SYMMETRIES, transform_planes

DIGITS = 6


def analysis_reply(task: SearchTask, result: PositionResult, is_during_search: bool) -> dict[str, Any]:
    """Returns the reply on a position."""
    query, sign = task.query, _sign(task.query.settings.perspective, result.to_play)
    variances = np.clip(1.0 - result.analysis.ownership.astype(np.float64) ** 2, 0.0, 1.0)
    stdev = round(float(np.sqrt(variances.sum())), DIGITS)
    moves = enumerate(result.analysis.candidates)
    reply = {
        **{"id": query.id, "isDuringSearch": is_during_search, "turnNumber": task.turn},
        "moveInfos": [_move(task, result, move, order, sign, stdev) for order, move in moves],
        "rootInfo": _root(result, sign, stdev),
    }
    if "includeOwnership" in query.included:
        reply["ownership"] = _rounded(sign * result.analysis.ownership)
    if "includeOwnershipStdev" in query.included:
        reply["ownershipStdev"] = _rounded(result.analysis.ownership_stdev)
    if "includePolicy" in query.included:
        reply["policy"] = _rounded(result.policy)
    return reply


def _sign(perspective: str, to_play: int) -> int:
    """Returns 1 where values of the side to move (1 or 2) are reported as they are, -1 where the other side's are."""
    return 1 if perspective == "SIDETOMOVE" or (perspective == "BLACK") == (to_play == BLACK) else -1


def _rounded(values: np.ndarray) -> list[float]:
    return np.round(values.astype(np.float64).ravel(), DIGITS).tolist()


def _values(value: float, score: float, sign: int, stdev: float) -> dict[str, float]:
    """Returns the fields that moves and root share: value in [-1, 1], score in points."""
    lead = round(sign * score, DIGITS)
    scores = {"scoreLead": lead, "scoreMean": lead, "scoreSelfplay": lead, "scoreStdev": stdev}
    return {"winrate": _winrate(value, sign), **scores, "utility": round(sign * value, DIGITS)}


def _winrate(value: float, sign: int) -> float:
    return round((sign * value + 1) / 2, DIGITS)


def _move(
    task: SearchTask, result: PositionResult, move: Candidate, order: int, sign: int, stdev: float
) -> dict[str, Any]:
    """Returns one entry of moveInfos."""
    size, length, lcb = task.query.rules.size, task.query.settings.pv_length + 1, 2 * move.lcb - 1
    info = {
        "move": coords.to_gtp(move.action, size),
        "visits": move.visits,
        "edgeVisits": move.visits,
        **_values(move.value, move.score, sign, stdev),
        "prior": round(move.prior, DIGITS),
        "lcb": _winrate(lcb, sign),
        "utilityLcb": round(sign * lcb, DIGITS),
        **dict.fromkeys(("weight", "edgeWeight", "playSelectionValue"), float(move.visits)),
        "order": order,
        "pv": [coords.to_gtp(action, size) for action in move.pv[:length]],
    }
    if "includePVVisits" in task.query.included:
        info["pvVisits"] = info["pvEdgeVisits"] = list(move.pv_visits[:length])
    if "includeNoResultValue" in task.query.included:
        info["noResultValue"] = 0.0  # under zerogo's rules every game has a result
    if "includeMovesOwnership" in task.query.included:
        info["ownership"] = _rounded(sign * task.previews[move.action].ownership)
    return info


def _root(result: PositionResult, sign: int, stdev: float) -> dict[str, Any]:
    """Returns rootInfo. The network alone gives no score other than that of the analysis."""
    analysis, hashes = result.analysis, _hashes(result)
    values = _values(analysis.value, analysis.score, sign, stdev)
    return {
        "currentPlayer": "B" if result.to_play == BLACK else "W",
        "thisHash": hashes[0],
        "symHash": min(hashes),
        "visits": analysis.visits,
        "weight": float(analysis.visits),
        **values,
        "rawWinrate": _winrate(analysis.raw_value, sign),
        **dict.fromkeys(("rawLead", "rawScoreSelfplay"), values["scoreLead"]),
        "rawScoreSelfplayStdev": stdev,
        "rawNoResultProb": 0.0,
        **dict.fromkeys(("rawStWrError", "rawStScoreError", "rawVarTimeLeft"), -1.0),
    }


def _hashes(result: PositionResult) -> list[str]:
    """Returns names of the stones with side to move and ko, 32 digits: as they stand, then rotated and reflected."""
    board = result.stones.astype(np.int16)
    if result.ko >= 0:
        board.flat[result.ko] = 3
    boards = torch.from_numpy(board).expand(NUM_SYMMETRIES, *board.shape)
    views = transform_planes(boards, torch.arange(NUM_SYMMETRIES)).numpy()
    texts = [bytes([result.to_play]) + view.tobytes() for view in views]
    return [hashlib.blake2b(text, digest_size=16).hexdigest().upper() for text in texts]
