"""What KataGo's GTP and JSON have, row by row: what the table says is supported works, what it refuses is refused with
its sentence; and nothing is there that the table does not name."""

import json
import re
from collections.abc import Callable

import gtp_talk
import pytest
from gtp_talk import QUICKSTART, Talk, converse, infos

from zerogo.analysis.engine import ACTIONS, AnalysisEngine
from zerogo.analysis.query import FIELDS, SETTINGS, WITHOUT_EFFECT
from zerogo.errors import InputError
from zerogo.gtp.analyze import EXTRAS, NUMBERS, RESTRICTIONS
from zerogo.gtp.clock import KATA_KINDS
from zerogo.gtp.commands import KATA_SETTINGS
from zerogo.gtp.engine import COMMANDS, SUPPORTED
from zerogo.rules import rulesets

ROWS = [row.split("\t") for row in SUPPORTED.read_text().splitlines()]
EVERYTHING = [name for name in FIELDS if name.startswith("include")]


def rows(kind: str) -> dict[str, tuple[bool, str]]:
    """Returns of each name whether it is supported, and why or how."""
    found = {name: (is_known == "yes", why) for of, name, is_known, why in ROWS if of == kind}
    assert found and all(is_known or why for is_known, why in found.values()), "a refusal says why"
    return found


def known(kind: str) -> set[str]:
    return {name for name, (is_known, _) in rows(kind).items() if is_known}


@pytest.fixture(scope="module")
def talk() -> Talk:
    return Talk(gtp_talk.engine(QUICKSTART, "--simulations", "8", "--komi", "7"))


def test_commands(talk: Talk) -> None:
    for name, (is_known, why) in rows("command").items():
        assert (name in COMMANDS) == is_known, name
        if not is_known:
            assert talk.ask(f"{name} b") == f"? {name}: {why}"
    offered = set(talk.value("list_commands").split("\n"))
    others = {name for name in offered - known("command") if not re.match("gogui-|zerogo-|kgs-|cgos-", name)}
    plain = "all_legal captures color gg-undo is_legal last_move list_stones move_history query_boardsize reg_genmove"
    assert others == set(plain.split()), "those of GNU Go"
    assert known("command") - offered == {"analyze", "genmove_analyze"}


def test_keys_and_fields_of_an_analysis(talk: Talk) -> None:
    assert known("key") == {*NUMBERS, *RESTRICTIONS, *EXTRAS}
    for name, (is_known, why) in rows("key").items():
        if not is_known:
            assert talk.ask(f"kata-analyze 1 {name} true").startswith(f"? {name}: {why}; allowed are interval")
    written = converse(talk.engine, ["kata-analyze 1 noResultValue true", infos(2), "name"])
    words = re.search("info (.*)", written)[1].split(" info ")[0].split()
    assert {*words[: words.index("pv")][::2], "pv"} == known("info") | {"noResultValue"}
    keys = [word for word in talk.value("kata-raw-nn 0").split() if re.fullmatch("[a-zA-Z]+", word) and word != "NAN"]
    assert set(keys) - {"symmetry"} == known("raw")


def test_rules_times_and_parameters(talk: Talk) -> None:
    for name, (is_known, _) in rows("ruleset").items():
        assert talk.ask(f"kata-set-rules {name}").startswith("=" if is_known else "? there are no rules"), name
    assert known("rule") == rulesets.to_json(talk.engine.game.rules).keys()
    for name, value in (("tax", "SEKI"), ("tax", "ALL"), ("hasButton", "true"), ("whiteHandicapBonus", "N")):
        assert talk.ask(f"kata-set-rule {name} {value}").startswith(f"? rules: {name} is")
        with pytest.raises(InputError, match=f"rules: {name}"):
            rulesets.from_json({name: value == "true" or value}, 9)
    assert known("time") == set(talk.value("kata-list_time_settings").split()) == KATA_KINDS.keys()
    assert known("param") == set(KATA_SETTINGS) == set(talk.value("kata-list-params").split())
    for name, (is_known, why) in rows("param").items():
        assert is_known or talk.ask(f"kata-get-param {name}").startswith(f"? {name}: {why}")


def replies(*queries: dict, warn: Callable[[str], None] = print) -> list[dict]:
    """Returns the replies to queries on 5x5 by playouts."""
    found: list[dict] = []
    engine = AnalysisEngine(gtp_talk.engine("mcts:4").analyst, found.append, warn=warn)
    for number, fields in enumerate(queries):
        usual = {"id": str(number), "rules": "new-zealand", "boardXSize": 5, "boardYSize": 5, "moves": [["B", "C3"]]}
        engine.take(json.dumps(fields if "action" in fields else usual | {"maxVisits": 8} | fields))
    while engine.step():
        pass
    return found


def test_queries_and_their_settings() -> None:
    """What is refused here leaves the reply as it is and stands on stderr."""
    assert known("query") == FIELDS - WITHOUT_EFFECT.keys() - {"action"} and known("setting") == SETTINGS.keys()
    told: list[str] = []
    kinds = ("query", "setting")
    refused = {kind: {name: why for name, (is_known, why) in rows(kind).items() if not is_known} for kind in kinds}
    assert refused["query"] == WITHOUT_EFFECT
    assert "rootInfo" in replies(dict.fromkeys(refused["query"], True), warn=told.append)[0]
    assert {text.split(": ", 2)[2] for text in told} == set(refused["query"].values())
    for name, why in refused["setting"].items():
        told.clear()
        assert "rootInfo" in replies({"overrideSettings": {name: 1}}, warn=told.append)[0]
        assert [text.split("overrideSettings: ")[1] for text in told] == [f'{why}: ["{name}"]']


def test_actions_and_replies() -> None:
    assert known("action") == set(ACTIONS)
    end = {"id": "t", "action": "terminate", "terminateId": "1"}
    bad, none, action, whole = replies({"komi": "x"}, {}, end, dict.fromkeys(EVERYTHING, True))
    assert action == end and bad.keys() | none.keys() | whole.keys() == known("reply")
    assert set().union(*whole["moveInfos"]) == known("moveInfo")
    assert whole["rootInfo"].keys() - {"scoreMean"} == known("rootInfo")
