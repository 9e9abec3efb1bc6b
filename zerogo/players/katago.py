"""The fields of a move and of a position under KataGo's names, for GTP's lines and JSON objects. Names that
zerogo does not support, or not as KataGo does, are in katago.tsv, with the reasons.

Values are as KataGo's, from the view of the side to move (sign 1) or of the other side (sign -1). Where KataGo's
network predicts more than zerogo's: `scoreMean` and `scoreSelfplay` are `scoreLead`; `utility` is the value of winning
alone; `scoreStdev` is that of the ownership if all points were independent, and the same for all moves; `rawStWrError`,
`rawStScoreError` and `rawVarTimeLeft` are -1, as KataGo writes them for networks without such heads."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from zerogo.game import Colour
from zerogo.players.analyst import Analysis, Candidate
from zerogo.rules import coords

# GTP's names of a move, in the order of a line, and those of them that are written on request; then lz-analyze's, of
# which shares are whole numbers, 10000 for 100 %.
INFO = """move visits edgeVisits utility winrate scoreMean scoreLead prior lcb utilityLcb weight noResultValue order pv
pvVisits pvEdgeVisits movesOwnership""".split()
INFO_EXTRAS = ("noResultValue", "pvVisits", "pvEdgeVisits", "movesOwnership")
LZ_INFO = "move visits winrate prior lcb order pv".split()
GTP_ROOT_INFO = "visits utility winrate scoreMean scoreLead rawWinrate".split()
DIGITS = {"scoreMean": 4, "scoreLead": 4, "weight": 1}  # decimals in GTP, where not 6
# kata-raw-nn's.
NOT_PREDICTED = ("varTimeLeft", "shorttermWinlossError", "shorttermScoreError")
RAW = ["whiteWin", "whiteLoss", "noResult", "whiteLead", "whiteScoreSelfplay", *NOT_PREDICTED]
RAW += ["policy", "policyPass", "whiteOwnership"]
# JSON's names of a reply, a move and a position, and the keys of a query that ask for some of them.
REPLY = "id isDuringSearch turnNumber moveInfos rootInfo ownership ownershipStdev policy noResults error field".split()
MOVE_INFO = """move visits edgeVisits winrate scoreLead scoreMean scoreSelfplay scoreStdev utility prior lcb utilityLcb
weight edgeWeight playSelectionValue order pv pvVisits pvEdgeVisits noResultValue ownership""".split()
MOVE_EXTRAS = {
    "pvVisits": "includePVVisits",
    "pvEdgeVisits": "includePVVisits",
    "noResultValue": "includeNoResultValue",
    "ownership": "includeMovesOwnership",
}
ROOT_INFO = """currentPlayer thisHash symHash visits weight winrate scoreLead scoreMean scoreSelfplay scoreStdev utility
rawWinrate rawLead rawScoreSelfplay rawScoreSelfplayStdev rawNoResultProb rawStWrError rawStScoreError
rawVarTimeLeft""".split()
ROOT_EXTRAS = {"ownership": "includeOwnership", "ownershipStdev": "includeOwnershipStdev"}  # GTP's key is the name
JSON_DIGITS = 6
COLOUR_WORDS = {"b": Colour.BLACK, "black": Colour.BLACK, "w": Colour.WHITE, "white": Colour.WHITE}  # in small letters


def move_fields(move: Candidate, order: int, size: int, sign: int = 1, longest_pv: int | None = None) -> dict[str, Any]:
    """Returns the fields of a move. order: its rank, from 0. size: N. longest_pv: moves of a line, None for all."""
    line, pv_visits = (list(moves[:longest_pv]) for moves in (move.pv, move.pv_visits))
    ownership = None if move.ownership is None else sign * move.ownership
    return {
        "move": coords.to_gtp(move.action, size),
        **dict.fromkeys(("visits", "edgeVisits"), move.visits),
        **_values(move.value, move.score, sign),
        "prior": move.prior,
        "lcb": _winrate(2 * move.lcb - 1, sign),
        "utilityLcb": sign * (2 * move.lcb - 1),
        **dict.fromkeys(("weight", "edgeWeight", "playSelectionValue"), float(move.visits)),
        "noResultValue": 0.0,  # under zerogo's rules every game has a result
        "order": order,
        "pv": [coords.to_gtp(action, size) for action in line],
        **dict.fromkeys(("pvVisits", "pvEdgeVisits"), pv_visits),  # a tree has one edge to each node
        **dict.fromkeys(("ownership", "movesOwnership"), ownership),
    }


def root_fields(analysis: Analysis, sign: int = 1) -> dict[str, Any]:
    """Returns the fields of a position except its stones."""
    variances = np.clip(1.0 - analysis.ownership.astype(np.float64) ** 2, 0.0, 1.0)
    stdev = float(np.sqrt(variances.sum()))  # of the score, if all points were independent
    return {
        "visits": analysis.visits,
        "weight": float(analysis.visits),
        **_values(analysis.value, analysis.score, sign),
        "rawWinrate": _winrate(analysis.raw_value, sign),
        **dict.fromkeys(("rawLead", "rawScoreSelfplay"), sign * analysis.raw_score),
        **dict.fromkeys(("scoreStdev", "rawScoreSelfplayStdev"), stdev),
        "rawNoResultProb": 0.0,
        **dict.fromkeys(("rawStWrError", "rawStScoreError", "rawVarTimeLeft"), -1.0),
        "ownership": sign * analysis.ownership,
        "ownershipStdev": analysis.ownership_stdev,
    }


def _values(value: float, score: float, sign: int) -> dict[str, float]:
    """Returns the fields that moves and positions share: value in [-1, 1], score in points."""
    scores = dict.fromkeys(("scoreLead", "scoreMean", "scoreSelfplay"), sign * score)
    return {"winrate": _winrate(value, sign), **scores, "utility": sign * value}


def _winrate(value: float, sign: int) -> float:
    return (sign * value + 1) / 2


def model_fields(name: str, positions: int) -> dict[str, Any]:
    """Returns the fields of a network. positions: the most that are evaluated at a time."""
    fields = {"name": name, "internalName": name, "maxBatchSize": positions, "usesHumanSLProfile": False}
    return fields | {"version": 1, "usingFP16": "false"}


def gtp_words(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    """Returns names with their values as GTP writes them, without those that are None."""
    return " ".join(f"{name} {_gtp_value(name, fields[name])}" for name in names if fields[name] is not None)


def _gtp_value(name: str, value: Any) -> str:
    """Returns a value as GTP writes it; floats with a point, as Sabaki takes others for ten-thousandths."""
    if isinstance(value, np.ndarray):  # of a board, from the top left, row by row
        return " ".join(f"{number:.4f}" for number in value.flatten().tolist())
    if isinstance(value, float):
        return f"{value:.{DIGITS.get(name, 6)}f}"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def json_fields(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns names with their values as JSON holds them."""
    return {name: json_value(fields[name]) for name in names}


def json_value(value: Any) -> Any:
    """Returns floats rounded, and arrays as lists of rounded floats; anything else stays as it is."""
    if isinstance(value, np.ndarray):
        return np.round(value.astype(np.float64).ravel(), JSON_DIGITS).tolist()
    return round(value, JSON_DIGITS) if isinstance(value, float) else value


@cache
def remarks(kind: str, is_supported: bool) -> dict[str, str]:
    """Returns the remarks of katago.tsv by name: why zerogo does not support it, or how it supports it.
    kind: of the names; "command", "key" (of kata-analyze) and "param" are GTP's."""
    rows = (row.split("\t") for row in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines())
    words = "yes" if is_supported else "no"
    return {name: why for of, names, word, why in rows if (of, word) == (kind, words) for name in names.split()}


def why_refused(kind: str, name: str, otherwise: str) -> str:
    """Returns why zerogo does not support a name of KataGo's, `otherwise` for a name that is not in katago.tsv."""
    why = remarks(kind, is_supported=False).get(name)
    return f"{name}: {why}" if why else otherwise
