"""Replies: what was found of a position, under KataGo's names and from the perspective that was asked for.

Where KataGo's network knows more than zerogo's: `scoreMean` and `scoreSelfplay` are `scoreLead`; `utility` is the value
of winning alone, without the score; `scoreStdev` is that of the ownership if all points were independent, and the same
for all moves; `rawStWrError`, `rawStScoreError` and `rawVarTimeLeft` are -1, as KataGo writes them for networks without
such heads."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from zerogo import coords
from zerogo.analysis.batch import Finding, Job
from zerogo.board import BLACK
from zerogo.players.analyst import Candidate

DIGITS = 6


def analysis(job: Job, finding: Finding, is_during_search: bool) -> dict[str, Any]:
    """Returns the reply on a position."""
    query, sign = job.query, _sign(job.query.settings.perspective, finding.to_play)
    reply = {
        "id": query.id,
        "isDuringSearch": is_during_search,
        "turnNumber": job.turn,
        "moveInfos": [
            _move(job, finding, candidate, order, sign) for order, candidate in enumerate(finding.analysis.candidates)
        ],
        "rootInfo": _root(finding, sign),
    }
    if query.wants.ownership:
        reply["ownership"] = _rounded(sign * finding.analysis.ownership)
    if query.wants.policy:
        reply["policy"] = _rounded(np.where(finding.legal, finding.raw.prior[0].numpy(), -1.0))
    return reply


def nothing(job: Job) -> dict[str, Any]:
    """Returns the reply on a position that was terminated before it was looked at."""
    return {"id": job.query.id, "isDuringSearch": False, "turnNumber": job.turn, "noResults": True}


def _sign(perspective: str, to_play: int) -> int:
    """Returns 1 where values of the side to move (1 or 2) are reported as they are, -1 where the other side's are."""
    if perspective == "SIDETOMOVE":
        return 1
    return 1 if (perspective == "BLACK") == (to_play == BLACK) else -1


def _winrate(value: float, sign: int) -> float:
    return round((sign * value + 1) / 2, DIGITS)


def _rounded(values: np.ndarray) -> list[float]:
    return np.round(values.astype(np.float64).ravel(), DIGITS).tolist()


def _stdev(ownership: np.ndarray) -> float:
    return round(float(np.sqrt(np.clip(1.0 - ownership.astype(np.float64) ** 2, 0.0, 1.0).sum())), DIGITS)


def _scores(score: float, sign: int) -> dict[str, float]:
    lead = round(sign * score, DIGITS)
    return {"scoreLead": lead, "scoreMean": lead, "scoreSelfplay": lead}


def _move(job: Job, finding: Finding, candidate: Candidate, order: int, sign: int) -> dict[str, Any]:
    """Returns one entry of moveInfos."""
    size, length = job.query.rules.size, job.query.settings.pv_length + 1
    lcb = 2 * candidate.lcb - 1
    info = {
        "move": coords.to_gtp(candidate.action, size),
        "visits": candidate.visits,
        "edgeVisits": candidate.visits,
        "winrate": _winrate(candidate.value, sign),
        **_scores(candidate.score, sign),
        "scoreStdev": _stdev(finding.analysis.ownership),
        "prior": round(candidate.prior, DIGITS),
        "utility": round(sign * candidate.value, DIGITS),
        "lcb": _winrate(lcb, sign),
        "utilityLcb": round(sign * lcb, DIGITS),
        "weight": float(candidate.visits),
        "edgeWeight": float(candidate.visits),
        "playSelectionValue": float(candidate.visits),
        "order": order,
        "pv": [coords.to_gtp(action, size) for action in candidate.pv[:length]],
    }
    if job.query.wants.pv_visits:
        info["pvVisits"] = info["pvEdgeVisits"] = list(candidate.pv_visits[:length])
    if job.query.wants.moves_ownership:
        info["ownership"] = _rounded(sign * finding.after[candidate.action].ownership)
    return info


def _root(finding: Finding, sign: int) -> dict[str, Any]:
    """Returns rootInfo."""
    analysis, raw = finding.analysis, finding.raw
    value, score = float(raw.value[0]), float(raw.score[0])
    this_hash, symmetric_hash = _hashes(finding)
    return {
        "currentPlayer": "B" if finding.to_play == BLACK else "W",
        "thisHash": this_hash,
        "symHash": symmetric_hash,
        "visits": analysis.visits,
        "weight": float(analysis.visits),
        "winrate": _winrate(analysis.value, sign),
        **_scores(analysis.score, sign),
        "scoreStdev": _stdev(analysis.ownership),
        "utility": round(sign * analysis.value, DIGITS),
        "rawWinrate": _winrate(value, sign),
        "rawLead": round(sign * score, DIGITS),
        "rawScoreSelfplay": round(sign * score, DIGITS),
        "rawScoreSelfplayStdev": _stdev(analysis.ownership),
        "rawNoResultProb": 0.0,
        "rawStWrError": -1.0,
        "rawStScoreError": -1.0,
        "rawVarTimeLeft": -1.0,
    }


def _hashes(finding: Finding) -> tuple[str, str]:
    """Returns names of the stones with side to move and ko, 32 digits: of the position, and of all its rotations and
    reflections.
    """
    board = finding.stones.astype(np.int16)
    if finding.ko >= 0:
        board.flat[finding.ko] = 3
    turned = [np.rot90(side, turns) for side in (board, board.T) for turns in range(4)]
    names = [
        hashlib.blake2b(bytes([finding.to_play]) + view.tobytes(), digest_size=16).hexdigest().upper()
        for view in turned
    ]
    return names[0], min(names)
