"""Analysis that streams: its arguments, its exact formats, when it begins and ends; the raw network; what GoGui
shows."""

import itertools
import re
from dataclasses import replace

import gtp_talk
import numpy as np
import pytest
from gtp_talk import QUICKSTART, converse, infos, raw
from tables import tables

from zerogo.game import Colour
from zerogo.gtp import analyze
from zerogo.gtp.analyze import AnalyzeRequest, kata_line, lz_line, read_request
from zerogo.gtp.engine import Engine
from zerogo.players.analyst import Analysis, Candidate
from zerogo.players.live import LiveGame
from zerogo.players.session import AnalysisSession, restrict

TABLES = tables("gtp")
BLACK, WHITE = Colour.BLACK, Colour.WHITE


@pytest.fixture(scope="module")
def network() -> Engine:
    return gtp_talk.engine(QUICKSTART, "--simulations", "16", "--komi", "7")


@pytest.fixture
def fresh(network: Engine) -> Engine:
    network.game = LiveGame(replace(network.game.rules, komi=7.0))
    network.session.clear()
    network.options.ponder, network.stopped = False, None
    return network


def by_hand(**changes: object) -> Analysis:
    """Returns an analysis on 3x3 with two candidates and legal moves besides."""
    candidates = [
        Candidate(4, 7, 0.5, 3.25, 0.25, 0.4, (4, 0, 9), (7, 3, 1), np.full((3, 3), 0.5, dtype=np.float32)),
        Candidate(9, 2, -1.0, -2.0, 1 / 3, 0.0, (9,), (2,), np.zeros((3, 3), dtype=np.float32)),
    ]
    prior = np.array([0.1, 0, 0, 0.2, 0.25, 0, 0, 0, 0.0, 1 / 3], dtype=np.float32)
    legal = np.array([True] * 5 + [False] * 4 + [True])
    ownership = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
    known = {"visits": 10, "value": 0.2, "score": 1.5, "candidates": candidates, "prior": prior, "legal": legal}
    known |= {"visits_by_action": np.zeros(10, dtype=np.int64), "ownership": ownership, "raw_value": 0.1}
    known["raw_score"] = 9.0
    return Analysis(**(known | changes))


def test_lz_line() -> None:
    first, second, third, only_pass = TABLES["lz moves"]
    assert lz_line(by_hand(), AnalyzeRequest(), 3) == f"{first} {second}"
    assert lz_line(by_hand(), AnalyzeRequest(max_moves=1), 3) == first
    assert lz_line(by_hand(), AnalyzeRequest(min_moves=3), 3) == f"{first} {second} {third}"
    assert lz_line(by_hand(), AnalyzeRequest(min_moves=30), 3).count("info") == 6, "no more than there are legal moves"
    assert lz_line(by_hand(), AnalyzeRequest(min_moves=30, max_moves=4), 3).count("info") == 4
    assert lz_line(by_hand(candidates=[]), AnalyzeRequest(), 3) == only_pass
    assert lz_line(by_hand(candidates=[], legal=np.zeros(10, dtype=bool)), AnalyzeRequest(), 3) == ""


def test_kata_line() -> None:
    assert kata_line(by_hand(), AnalyzeRequest(), 3) == TABLES["kata lines"]["usual"]
    request = AnalyzeRequest(max_moves=1, extras=frozenset(analyze.EXTRAS))
    assert kata_line(by_hand(), request, 3) == TABLES["kata lines"]["with all there is"]


@pytest.mark.parametrize(("text", "fields"), TABLES["arguments of analyze"])
def test_arguments(text: str, fields: dict) -> None:
    """The fields of a request but for its restrictions, which are those of `restrict`."""
    bans = {key: [(Colour[name], *rest) for name, *rest in fields.pop(key, [])] for key in ("avoid", "allow")}
    player, extras = Colour[fields.pop("player")] if "player" in fields else None, frozenset(fields.pop("extras", ()))
    expected = AnalyzeRequest(player=player, extras=extras, restrictions=restrict(5, **bans), **fields)
    keys = (*analyze.NUMBERS, *analyze.RESTRICTIONS, *analyze.EXTRAS)
    assert read_request(text.split(), 5, keys) == expected


@pytest.mark.parametrize(("command", "number"), [("lz-analyze", ""), ("kata-analyze", "12")])
def test_streams_until_the_next_line(command: str, number: str, fresh: Engine) -> None:
    before = gtp_talk.state_of(fresh)
    written = converse(fresh, [f"{number} {command} 1", infos(3), "13 name"])
    head, *lines, blank, name, end, _ = written.split("\n")
    assert (head, blank, name, end) == (f"={number}", "", "=13 zerogo", "")
    assert len(lines) >= 3 and all(line.startswith("info move ") for line in lines)
    assert gtp_talk.state_of(fresh) == before


def test_an_empty_line_ends_an_analysis_without_a_reply_and_so_does_the_end_of_input(fresh: Engine) -> None:
    written = converse(fresh, ["1 lz-analyze 1", infos(1), "", "2 name"])
    assert re.fullmatch(r"=1\n(info .*\n)+\n=2 zerogo\n\n", written)
    assert re.fullmatch(r"=\n(info .*\n)+\n", converse(fresh, ["kata-analyze 1", infos(2)]))


def test_stops_within_one_step(fresh: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a line has come there is at most the step that is under way."""
    steps, real = [], AnalysisSession.step
    monkeypatch.setattr(AnalysisSession, "step", lambda *given: steps.append(1) or real(*given))
    converse(fresh, ["lz-analyze 1", lambda written: len(steps) == 7, "name"])
    assert len(steps) == 7


def test_a_full_tree_streams_on_without_work(fresh: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    analyses, naps = [], []
    monkeypatch.setattr(fresh, "session", AnalysisSession(fresh.analyst, capacity=40))
    real = fresh.session.analysis
    monkeypatch.setattr(fresh.session, "analysis", lambda *words: analyses.append(1) or real(*words))
    monkeypatch.setattr(analyze.time, "sleep", lambda seconds: naps.append(seconds))
    monkeypatch.setattr(analyze, "STALE_SECONDS", 0.001)
    written = converse(fresh, ["lz-analyze 1", infos(60)])
    lines = written.split("\n")[1:-2]
    assert lines[-1] == lines[-20] and len(analyses) < 40 and len(naps) >= 20
    again = converse(fresh, ["lz-analyze 1", infos(2), "4 name"])
    assert again.endswith("=4 zerogo\n\n")


@pytest.mark.parametrize("before", [[], ["kata-analyze 1", infos(2), "name"]], ids=["at once", "after an analysis"])
def test_after_two_passes_the_analysis_goes_on(before: list, fresh: Engine) -> None:
    """As in KataGo and in the JSON engine; genmove passes."""
    passes = ["play b C3", "play w pass", *before, "play b pass"]
    written = converse(fresh, [*passes, "1 kata-analyze 1 rootInfo true", infos(2 + len(before)), "2 name"])
    last = re.search(r"=1\n(?:.*\n)*(info .*)\n\n=2 zerogo", written)[1]
    moves = dict(re.findall(r"move (\S+) visits (\d+)", last))
    assert sum(map(int, moves.values())) > 2 and moves.keys() - {"pass"}
    winrate, lead = (float(re.search(rf"rootInfo .*{key} (\S+)", last)[1]) for key in ("winrate", "scoreLead"))
    assert 0 < winrate < 1 and lead
    *_, line, play = raw(fresh, "lz-genmove_analyze w").strip().split("\n")
    assert play == "play pass" and int(re.search(r"visits (\d+)", line)[1]) > 0


def test_searches_that_play_nothing(fresh: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """kata-search and its kin choose what genmove would; any line ends the cancellable ones."""
    assert raw(fresh, "kata-search b") == "= C3\n\n"
    assert re.fullmatch(r"=\ninfo move C3 .*\nplay C3\n\n", raw(fresh, "kata-search_analyze b"))
    assert converse(fresh, ["kata-search_cancellable b", lambda written: written == "= C3\n\n"]) == "= C3\n\n"
    ended = converse(fresh, ["kata-search_analyze_cancellable b", lambda written: "play C3" in written])
    assert re.fullmatch(r"=\ninfo move C3 .*\nplay C3\n\n", ended) and not fresh.game.moves
    monkeypatch.setattr(fresh.options, "simulations", 10**9)
    before = gtp_talk.state_of(fresh)
    assert raw(fresh, "kata-search_cancellable b\n\nname") == "= cancelled\n\n= zerogo\n\n"
    started = ["kata-search_analyze_cancellable b 1", infos(2), "name"]
    assert converse(fresh, started).endswith("\nplay cancelled\n\n= zerogo\n\n")
    assert gtp_talk.state_of(fresh) == before


def test_how_far_ownership_spreads(fresh: Engine) -> None:
    """The mean over the position and its moves, by visits; none where only the position was seen."""
    written = converse(fresh, ["kata-analyze 1 ownershipStdev true ownership true", infos(3)])
    spread = [float(text) for text in written.strip().split("ownershipStdev ")[-1].split()]
    assert len(spread) == 25 and all(0 <= number <= 1 for number in spread) and max(spread) > 0
    own, there = np.full((1, 1), 1.0), np.full((1, 1), -0.5)
    move = replace(by_hand().candidates[0], visits=3, ownership=there)
    found = replace(by_hand(), ownership=own, candidates=[move, replace(move, visits=9, ownership=None)])
    assert found.ownership_stdev == pytest.approx(np.std([1, -0.5, -0.5, -0.5]))
    assert replace(found, candidates=[]).ownership_stdev == 0


def test_a_fault_while_pondering_ends_nothing(fresh: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "ponder", lambda *_: 1 / 0)
    assert raw(fresh, ["name", "1 name"]) == "= zerogo\n\n=1 zerogo\n\n"
    assert "internal error in pondering: ZeroDivisionError" in fresh.said[-1]


def test_a_stop_of_pondering_lasts_until_the_next_move(fresh: Engine) -> None:
    fresh.stopped = fresh.position
    fresh.genmove(BLACK, plays=False)
    assert fresh.stopped == fresh.position
    fresh.genmove(BLACK)
    assert fresh.stopped is None


def test_pondering_keeps_its_tree(fresh: Engine) -> None:
    """Off by default. While the other side thinks the tree grows, which the next move finds; any line ends it."""

    def pause(replies: int) -> gtp_talk.Wait:
        """Holds when it is asked for the twentieth time after so many replies."""
        count = itertools.count(1)
        return lambda written: written.count("\n\n") == replies and next(count) >= 20

    converse(fresh, ["genmove b", pause(1)])
    assert fresh.session.visits <= 18
    ponders = ["undo", "kata-set-param ponderingEnabled true", "genmove b"]
    ponders.append(lambda written: written.endswith("C3\n\n") and fresh.session.visits > 200)
    written = converse(fresh, [*ponders, "stop", pause(4), "play w B2"])
    assert written == "=\n\n=\n\n= C3\n\n=\n\n=\n\n" and fresh.session.visits > 200
    grown = {move.action: move.visits for move in fresh.session.analysis().candidates}
    stopped = fresh.session.visits
    converse(fresh, ["undo", pause(1)])
    assert fresh.session.visits == stopped, "stopped in this position"
    fresh.session.set_position(fresh.game)
    best = max(grown, key=grown.get)
    fresh.game.play(WHITE, best)
    fresh.session.set_position(fresh.game)
    assert fresh.session.visits == grown[best] > 1, "the next move goes on from there"


@pytest.mark.parametrize(("command", "arguments"), TABLES["moves that are analysed"])
def test_genmove_analyze(command: str, arguments: str, fresh: Engine) -> None:
    """The last line but one has all visits and its first move is what is played; lines that wait do not end it."""
    written = raw(fresh, f"8 {command}-genmove_analyze {arguments}\n\n9 name")
    head, *lines, play, blank, name, _, _ = written.split("\n")
    assert (head, blank, name) == ("=8", "", "=9 zerogo")
    assert lines and all(line.startswith("info move ") for line in lines)
    vertex = re.fullmatch(r"play (\S+)", play)[1]
    assert fresh.game.moves == [(WHITE if arguments.startswith("w") else BLACK, 12)] and vertex == "C3"
    assert lines[-1].startswith("info move C3 ") and int(re.search(r"visits (\d+)", lines[-1])[1]) >= 8


def numbers_of(reply: str) -> dict[str, list[float]]:
    """Returns what LizGoban's reader makes of a reply: a key, then its numbers, whatever the white space."""
    pairs = re.findall(r"(\S+)((?:\s+(?:[-.0-9]+|NAN)(?=\s|$))*)", reply[1:])
    return {key: list(map(float, numbers.split())) for key, numbers in pairs}


def test_raw_nn(fresh: Engine) -> None:
    raw(fresh, "play b C3")
    reply = raw(fresh, "2 kata-raw-nn 3")
    assert reply.startswith("=2\nsymmetry 3\n") and "\n\n" not in reply[:-2]
    found = numbers_of(reply.removeprefix("=2"))
    assert found["symmetry"] == [3] and found["whiteWin"][0] + found["whiteLoss"][0] == pytest.approx(1)
    assert len(found["policy"]) == len(found["whiteOwnership"]) == 25 and np.isnan(found["policy"][12])
    assert np.nansum(found["policy"]) + found["policyPass"][0] == pytest.approx(1, abs=1e-4)
    seen = fresh.analyst.evaluate(fresh.game.tensor(), symmetry_index=3)
    assert found["whiteWin"][0] == pytest.approx((1 + float(seen.value)) / 2, abs=1e-5)  # White is to move
    assert found["whiteOwnership"] == pytest.approx(seen.ownership.flatten().tolist(), abs=1e-5)
    assert found["whiteLead"][0] == pytest.approx(sum(found["whiteOwnership"]) + 7, abs=1e-3)
    every = [numbers_of(f"=symmetry {part}") for part in raw(fresh, "kata-raw-nn all")[2:].split("symmetry ")[1:]]
    assert [part["symmetry"] for part in every] == [[turn] for turn in range(8)]
    mean = np.nan_to_num(np.mean([part["policy"] for part in every], axis=0))
    assert mean == pytest.approx(fresh.analyst.evaluate(fresh.game.tensor()).prior[0, :-1].numpy(), abs=1e-5)


def test_every_analysis_that_gogui_is_offered_answers(fresh: Engine) -> None:
    raw(fresh, "play b C3")
    for line in raw(fresh, "gogui-analyze_commands").removeprefix("= ").strip().split("\n"):
        command = line.split("/")[2]
        assert raw(fresh, f"known_command {command.split()[0]}") == "= true\n\n"
        assert raw(fresh, command.replace("%m", "w").replace("%c", "w")).startswith("="), command
