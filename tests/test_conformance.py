"""KataGo's GTP and JSON: zerogo writes the names that it supports, and each refusal gets its sentence."""

import json
import re
from collections.abc import Callable

import gtp_talk
import pytest
from gtp_talk import QUICKSTART, Talk, converse, infos

from zerogo.analysis.engine import AnalysisEngine
from zerogo.analysis.query import FIELDS
from zerogo.gtp.__main__ import parse, supported_names
from zerogo.players.katago import remarks

EVERYTHING = [name for name in FIELDS if name.startswith("include")]
SUPPORTED = {kind: set(names) for kind, names in supported_names().items()}


def refused(kind: str) -> dict[str, str]:
    """Returns KataGo's names of a kind that zerogo does not support, with the reasons."""
    assert not (names := remarks(kind, is_supported=False)).keys() & SUPPORTED[kind]
    return names


@pytest.fixture(scope="module")
def talk() -> Talk:
    return Talk(gtp_talk.engine(QUICKSTART, "--simulations", "8", "--komi", "7"))


def test_the_table_names_what_there_is(capsys: pytest.CaptureFixture) -> None:
    for kind, names in SUPPORTED.items():
        assert remarks(kind, is_supported=True).keys() <= {*names, "*"}
    with pytest.raises(SystemExit):
        parse(["--supported"])
    rows = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    supported = {(kind, name) for kind, names in SUPPORTED.items() for name in names}
    assert {(kind, name) for kind, name, word, *_ in rows if word == "yes"} == supported
    assert all(why for _, _, word, *why in rows if word == "no") and ["no" for row in rows if row[2] == "no"]


def test_commands(talk: Talk) -> None:
    for name, why in refused("command").items():
        assert talk.ask(f"{name} b") == f"? {name}: {why}"
    assert SUPPORTED["command"] - set(talk.value("list_commands").split("\n")) == {"analyze", "genmove_analyze"}


def test_keys_and_fields_of_an_analysis(talk: Talk) -> None:
    for name, why in refused("key").items():
        assert talk.ask(f"kata-analyze 1 {name} true").startswith(f"? {name}: {why}; allowed are interval")
    written = converse(talk.engine, ["kata-analyze 1 noResultValue true", infos(2), "name"])
    words = re.search("info (.*)", written)[1].split(" info ")[0].split()
    assert {*words[: words.index("pv")][::2], "pv"} == SUPPORTED["info"] | {"noResultValue"}
    keys = [word for word in talk.value("kata-raw-nn 0").split() if re.fullmatch("[a-zA-Z]+", word) and word != "NAN"]
    assert set(keys) - {"symmetry"} == SUPPORTED["raw"] and refused("info") and refused("raw")


def test_rules_times_and_parameters(talk: Talk) -> None:
    for name in SUPPORTED["ruleset"]:
        assert talk.ask(f"kata-set-rules {name}").startswith("=")
    for name in refused("ruleset"):
        assert talk.ask(f"kata-set-rules {name}").startswith("? there are no rules")
    assert SUPPORTED["time"] == set(talk.value("kata-list_time_settings").split())
    assert SUPPORTED["param"] == set(talk.value("kata-list-params").split())
    for name, why in refused("param").items():
        assert talk.ask(f"kata-get-param {name}").startswith(f"? {name}: {why}")


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
    told: list[str] = []
    assert "rootInfo" in replies(dict.fromkeys(refused("query"), True), warn=told.append)[0]
    assert {text.split(": ", 2)[2] for text in told} == set(refused("query").values())
    for name, why in refused("setting").items():
        told.clear()
        assert "rootInfo" in replies({"overrideSettings": {name: 1}}, warn=told.append)[0]
        assert [text.split("overrideSettings: ")[1] for text in told] == [f'{why}: ["{name}"]']


def test_actions_and_replies() -> None:
    end = {"id": "t", "action": "terminate", "terminateId": "1"}
    bad, none, action, whole = replies({"komi": "x"}, {}, end, dict.fromkeys(EVERYTHING, True))
    assert action == end and bad.keys() | none.keys() | whole.keys() == SUPPORTED["reply"]
    assert set().union(*whole["moveInfos"]) == SUPPORTED["moveInfo"]
    assert whole["rootInfo"].keys() == SUPPORTED["rootInfo"]
    assert refused("reply") and refused("moveInfo") and refused("rootInfo")
