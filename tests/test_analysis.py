"""KataGo's analysis protocol: what is asked, what is answered, from whose view, in which order; errors; batches; the
command line."""

import dataclasses
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import DATA, tables

from zerogo import board
from zerogo.analysis.__main__ import parse as parse_arguments
from zerogo.analysis.__main__ import read_settings
from zerogo.analysis.batch import BatchKind, SearchTask, roots
from zerogo.analysis.engine import AnalysisEngine
from zerogo.analysis.query import AnalysisSettings, parse, read_config
from zerogo.errors import InputError
from zerogo.players.analyst import Analyst, analyst_of_playouts
from zerogo.players.session import RestrictedGo
from zerogo.system.runtime import TOO_LONG

TABLES = tables("analysis")
ANALYST = analyst_of_playouts(16)


@pytest.fixture(autouse=True)
def few_playouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ownership and scores need not be exact here."""
    monkeypatch.setattr("zerogo.players.analyst.OWNERSHIP_PLAYOUTS", 8)


def query(name: str = "q", **fields: Any) -> dict[str, Any]:
    """Returns a small query; fields with None are left out."""
    usual = {"id": name, "rules": "new-zealand", "komi": 0.5, "boardXSize": 5, "boardYSize": 5, "moves": []}
    usual["maxVisits"] = 6
    return {key: value for key, value in (usual | fields).items() if value is not None}


class Session:
    """An engine whose replies are kept."""

    def __init__(self, analyst: Analyst = ANALYST, **arguments: Any) -> None:
        self.replies: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.engine = AnalysisEngine(analyst, self.replies.append, warn=self.warnings.append, **arguments)

    def take(self, *lines: dict[str, Any] | str | bytes) -> None:
        """Hands lines to the engine, which has yet to work on them."""
        for line in lines:
            self.engine.take(json.dumps(line) if isinstance(line, dict) else line)

    def ask(self, *lines: dict[str, Any] | str | bytes) -> list[dict[str, Any]]:
        """Returns the replies to lines, after all that was asked is done."""
        before = len(self.replies)
        self.take(*lines)
        while self.engine.step():
            pass
        return self.replies[before:]


def ask(*lines: dict[str, Any] | str | bytes, **arguments: Any) -> list[dict[str, Any]]:
    return Session(**arguments).ask(*lines)


def perform(script: str) -> str:
    """Returns the conversation with the requests of a script: queries that follow each other are asked together."""
    session, shown = Session(positions=1), []
    for is_sent, lines in itertools.groupby(script.splitlines(), lambda line: line.startswith("> ")):
        if is_sent:
            asked = list(lines)
            replies = session.ask(*(line[2:] for line in asked))
            shown += [*asked, *(f"< {json.dumps(reply)}" for reply in replies), *map("! {}".format, session.warnings)]
            session.warnings.clear()
    return "\n".join(shown)


@pytest.mark.parametrize("path", sorted((DATA / "analysis").glob("*.txt")), ids=lambda path: path.stem)
def test_conversations(path: Path) -> None:
    """Lines after > are requests, after < replies, after ! messages for people."""
    script = path.read_text().strip()
    assert perform(script) == script


def test_a_reply_agrees_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ANALYST.search, "settings", dataclasses.replace(ANALYST.search.settings, lcb=True))
    wants = {"includeOwnership": True, "includeMovesOwnership": True, "includePolicy": True, "includePVVisits": True}
    [reply] = ask(query(moves=[["B", "C3"], ["W", "b2"]], maxVisits=30, **wants))  # few for its best move
    assert (reply["id"], reply["isDuringSearch"], reply["turnNumber"]) == ("q", False, 2)
    root, moves = reply["rootInfo"], reply["moveInfos"]
    assert root["visits"] == 30 == 1 + sum(move["visits"] for move in moves) and root["currentPlayer"] == "B"
    by_value = sorted(moves, key=lambda move: -move["playSelectionValue"])
    assert [move["order"] for move in by_value] == [*range(len(moves))] and moves[0]["visits"] < moves[1]["visits"]
    for move in moves:
        assert len(move["pv"]) == len(move["pvVisits"]) and move["pv"][0] == move["move"]
        assert move["pvVisits"][0] == move["visits"] and len(move["ownership"]) == 25
        assert 0 <= move["winrate"] <= 1 and move["utility"] == pytest.approx(2 * move["winrate"] - 1, abs=1e-5)
    assert len(reply["ownership"]) == 25 and all(-1 <= value <= 1 for value in reply["ownership"])
    assert len(reply["policy"]) == 26 and [k for k, value in enumerate(reply["policy"]) if value == -1] == [12, 16]
    assert sum(value for value in reply["policy"] if value > 0) == pytest.approx(1, abs=1e-4)


def various(number: int) -> list[dict[str, Any]]:
    """Returns queries of several positions, komi, rules and visits."""
    draw, queries = random.Random(1), []
    for k in range(number):
        places = draw.sample(["A1", "B2", "C3", "D4", "E5", "A5", "E1", "C1"], k % 6)
        moves = [["BW"[turn % 2], place] for turn, place in enumerate(places)]
        rules = draw.choice(["tromp-taylor", "japanese", "aga", {"ko": "SITUATIONAL", "suicide": False}])
        komi, visits = draw.choice([0.5, 24.5, -3]), draw.choice([5, 9, 14])
        queries.append(query(f"v{k}", moves=moves, rules=rules, komi=komi, maxVisits=visits))
    return queries


def final(replies: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {reply["id"]: reply for reply in replies}


def test_replies_are_the_same_alone_and_among_many_and_where_the_host_must_not_look(use) -> None:
    """Rows are filled again; as on CUDA idle rows are searched along, with and without restrictions, which change no
    policy; long searches have several leaves a step."""
    avoided = {"avoidMoves": [{"player": "B", "moves": ["C3", "B2"], "untilDepth": 2}]}
    only = {"allowMoves": [{"player": "B", "moves": ["B2", "pass"], "untilDepth": 1}], "includePolicy": True}
    queries = [*various(6), query("avoided", maxVisits=14, **avoided), query("free", maxVisits=129, includePolicy=True)]
    queries += [query("avoided too", **avoided), query("only", maxVisits=14, **only)]
    together = final(ask(*queries))
    assert len(together) == len(queries)
    moves = {name: {move["move"] for move in reply["moveInfos"]} for name, reply in together.items()}
    assert moves["only"] == {"B2", "pass"} and not moves["avoided"] & {"C3", "B2"} and moves["free"] > {"C3", "B2"}
    assert together["only"]["policy"] == together["free"]["policy"]
    assert final(ask(*queries, positions=1)) == together
    use("blind")  # which is slow, so for two short searches
    blind = final(ask(*queries[5::3], positions=4))
    assert len(blind) == 2 and blind == {name: together[name] for name in blind}


def steps_until(session: Session, name: str) -> int:
    """Returns how many steps it takes until a query is answered."""
    for number in itertools.count(1):
        session.engine.step()
        if name in final(session.replies):
            return number


def test_a_query_of_higher_priority_is_searched_before_all_others() -> None:
    """It takes as many steps as alone, in which nothing else is searched, also where all places are taken."""
    alone = Session()
    alone.take(query("urgent", maxVisits=100))
    number = steps_until(alone, "urgent")
    for limits in ({}, {"positions": 4}, {"memory": 2**17}):
        session = Session(**limits)
        session.take(*(query(f"{k}", maxVisits=100) for k in range(12)))
        for _ in range(3):
            session.engine.step()
        [batch] = session.engine._batches
        before = batch.search_state.done.clone()
        session.take(query("urgent", maxVisits=100, priority=1))
        assert before.sum() > 0 and steps_until(session, "urgent") == number
        assert torch.equal(batch.search_state.done[before > 0], before[before > 0])
        assert final(session.replies) == final(alone.replies)
        session.take({"id": "t", "action": "terminate_all"})
        session.ask()


def test_the_first_replies_come_before_the_last_query_has_begun() -> None:
    """The first four positions are searched alone; then two more for each reply."""
    alone, session = Session(), Session()
    alone.take(query("0", maxVisits=60))
    number = steps_until(alone, "0")
    session.take(*(query(f"{k}", maxVisits=60) for k in range(40)))
    assert steps_until(session, "0") == number and len(session.replies) == 4
    assert steps_until(session, "39") <= 3 * number + 3 and len(session.replies) == 40
    assert [reply["id"] for reply in session.replies] == [f"{k}" for k in range(40)]


def test_time_limits_do_not_count_the_time_for_which_a_search_was_paused() -> None:
    clock = itertools.count(0, 0.1).__next__
    session = Session(clock=clock)
    limited = {"maxVisits": 1000, "overrideSettings": {"maxTime": 1.05}}
    session.take(query("limited", **limited))
    session.engine.step()
    session.take(query("urgent", maxVisits=200, priority=1))
    replies = final(session.ask())
    assert list(replies) == ["urgent", "limited"]
    assert replies["limited"]["rootInfo"]["visits"] == ask(query(**limited), clock=clock)[0]["rootInfo"]["visits"]


def test_terminate() -> None:
    session = Session(positions=1)
    session.take(query("a", maxVisits=1000), query("b", moves=[["B", "A1"]], analyzeTurns=[0, 1]))
    for _ in range(3):
        session.engine.step()
    act = {"id": "t", "action": "terminate", "terminateId": "b", "turnNumbers": [1]}
    session.take(act)
    assert session.replies == [{"id": "b", "isDuringSearch": False, "turnNumber": 1, "noResults": True}, act]
    session.take({"id": "u", "action": "terminate", "terminateId": "a"})
    stopped, last = session.ask()[-2:]
    assert stopped["id"] == "a" and 1 < stopped["rootInfo"]["visits"] < 1000 and not stopped["isDuringSearch"]
    assert (last["id"], last["turnNumber"]) == ("b", 0)
    nobody = {"id": "v", "action": "terminate", "terminateId": "nobody"}
    assert session.ask(nobody) == [nobody]
    assert "a whole number from 0 to 2147483647" in session.ask(nobody | {"turnNumbers": [1.5]})[0]["error"]
    session.take(*(query(name, maxVisits=10**6) for name in "cde"))
    session.engine.step()
    ended = session.ask({"id": "w", "action": "terminate_all"})
    replies = [(reply["id"], reply.get("noResults", False)) for reply in ended]
    assert not session.engine.is_busy and replies == [("d", True), ("e", True), ("w", False), ("c", False)]


def test_reports_during_a_search_and_time_that_ends_one() -> None:
    clock = itertools.count(0, 0.1).__next__
    replies = ask(query(maxVisits=30, reportDuringSearchEvery=0.5, includeOwnership=True), clock=clock)
    during, last = replies[:-1], replies[-1]
    assert len(during) > 2 and all(reply["isDuringSearch"] for reply in during) and not last["isDuringSearch"]
    visits = [reply["rootInfo"]["visits"] for reply in replies]
    assert visits == sorted(set(visits)) and visits[-1] == 30
    assert all(reply["ownership"] == last["ownership"] for reply in during)
    [reply] = ask(query(maxVisits=30, overrideSettings={"maxTime": 1.05}), clock=clock)
    assert 1 < reply["rootInfo"]["visits"] < 30 and not reply["isDuringSearch"]


def test_restrictions_end_at_their_depth() -> None:
    """A forbidden move is legal again as many plies behind the root as its restriction says, by colour and game."""
    forbidden = [{"player": "B", "moves": ["A1"], "untilDepth": 3}, {"player": "W", "moves": ["A1"], "untilDepth": 1}]
    queries = [parse(query(avoidMoves=forbidden, moves=moves), AnalysisSettings()) for moves in ([], [["B", "C3"]])]
    each = [{"player": player, "moves": ["C3"], "untilDepth": 1} for player in "BW"]
    assert sum(map(sum, parse(query(allowMoves=each), AnalysisSettings()).restrictions)) == 2 * 25
    states = roots([SearchTask(one, len(one.game.moves), 0, 1, 0) for one in queries], torch.device("cpu"))
    game, both, now = RestrictedGo(), torch.arange(2), states
    may = [game.root_legal(states)[:, 20].tolist()]
    for _ in range(3):
        now = board.step(now, torch.tensor([25, 25]))
        now = dataclasses.replace(now, finished=torch.zeros_like(now.finished), passes=torch.zeros_like(now.passes))
        may.append(game.legal(states, both, now)[:, 20].tolist())
    # Black moves first in the first game, White in the second.
    assert may == [[False, False], [True, False], [False, True], [True, True]]


BROKEN = [*TABLES["broken lines"], TOO_LONG, b'\xff{"id":"a"}', "[" * 100_000, '{"id": 1' + "0" * 5000 + "}"]


def test_broken_lines_are_answered() -> None:
    """The last of the table has a number that is too large for JSON."""
    session = Session()
    for line in BROKEN:
        [reply] = session.ask(line)
        assert reply.keys() == {"error"}, line[:80]
        assert session.ask("", " \n", b"\r\n") == [] and len(session.ask(query(maxVisits=2))) == 1


def test_visits_end_where_memory_does() -> None:
    session = Session(nodes=32)
    [reply] = session.ask(query(maxVisits=10**9, overrideSettings={"maxTime": 1e9}))
    assert "maxVisits: memory limits a search here to 32 visits" in session.warnings[0]
    assert reply["rootInfo"]["visits"] == 32
    [reply] = ask(query(maxVisits=10**9), memory=2**15)
    needed = BatchKind(5, reply["rootInfo"]["visits"], False).tree_bytes
    assert needed <= 2**15 < 3 * needed


def test_an_untrained_komi_is_named() -> None:
    session = Session(dataclasses.replace(ANALYST, sizes={5: [1.0, 7.0]}))
    session.ask(query())
    assert "komi is 0.5, but mcts:16 learned only" in " ".join(session.warnings)


def test_settings_of_all_queries(tmp_path: Path) -> None:
    files = "-model mcts:8 -config none.cfg -override-config maxVisits=7,homeDataDir=/x"
    arguments = parse_arguments(f"analysis {files} -fast 1 run.kernels=plain".split())
    assert arguments.checkpoint == "mcts:8" and arguments.unknown == ["-fast", "1"]
    assert arguments.overrides[-1] == "run.kernels=plain"
    with pytest.raises(InputError, match=r"none\.cfg"):
        read_settings(arguments, None)
    (tmp_path / "my.cfg").write_text("wideRootNoise = .5\nmaxTime = 10.\n")
    arguments.katago_config = [tmp_path / "my.cfg"]
    expected = AnalysisSettings(7, max_time=10.0, perspective="SIDETOMOVE", wide_root_noise=0.5)
    assert read_settings(arguments, None) == expected
    arguments.katago_config = []
    assert read_settings(arguments, None) == AnalysisSettings(max_visits=7)
    arguments.visits = 9
    assert read_settings(arguments, None).max_visits == 9


def test_config_files_of_katago(tmp_path: Path) -> None:
    lines = ["# maxVisits = 1", "maxVisits = 12 # most", "reportAnalysisWinratesAs = w", "numAnalysisThreads=2"]
    (tmp_path / "a.cfg").write_text("\n".join([*lines, "wideRootNoise=0.25"]))
    found, unknown = AnalysisSettings().changed(read_config(tmp_path / "a.cfg"))
    assert found == AnalysisSettings(max_visits=12, perspective="WHITE", wide_root_noise=0.25)
    assert unknown == ["numAnalysisThreads"] and found.root_exponent == 0.5


def test_an_even_policy_is_the_same_at_any_temperature() -> None:
    """At 0.01 the powers of its shares were 0 and their quotients no numbers, so that all visits went to one move."""
    first, *others = (ask(query(rootPolicyTemperature=temperature))[0] for temperature in (1, 0.01, 100))
    assert len(first["moveInfos"]) == 3 and all(other["moveInfos"] == first["moveInfos"] for other in others)


@pytest.mark.parametrize(("fields", "expected"), TABLES["what queries say"])
def test_what_queries_say(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Vertices by number, who moves first, rules and komi."""
    game = parse(query(**fields), AnalysisSettings()).game
    said = vars(game) | dataclasses.asdict(game.rules) | {"turns": game.turns()}
    assert {name: said[name] for name in expected} == expected


WORDS = st.sampled_from(["B", "C3", "pass", "BLACK", "AREA"])
NAMES = st.sampled_from(["player", "moves", "untilDepth", "ko", "maxTime"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(TABLES["keys of queries"]), JUNK, max_size=4), st.integers(0, 10**6))
def test_fuzzed_queries_get_an_answer(changes: dict[str, Any], cut: int) -> None:
    """Whatever stands in a line, it gets at least one reply, and after it the engine answers as before."""
    session = Session(nodes=16)
    line = json.dumps(query(boardXSize=3, boardYSize=3, maxVisits=2) | changes)
    for text in (line, line[: cut % len(line)]):
        replies = session.ask(text)
        # No turn is asked for by an empty analyzeTurns.
        assert text == "" or changes.get("analyzeTurns") == [] or replies
    json.dumps(session.replies, allow_nan=False)
    assert len(session.ask(query("after", boardXSize=2, boardYSize=2, maxVisits=1))) == 1
