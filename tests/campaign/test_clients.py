"""`zerogo analysis` as a process of the programs that know KataGo's protocol: KaTrain, KataGo's example client."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "checkpoints" / "quickstart-5x5.pt"


def query(name: str = "q", **fields: Any) -> dict[str, Any]:
    """Returns a small query."""
    usual = {"id": name, "rules": "new-zealand", "komi": 0.5, "boardXSize": 5, "boardYSize": 5, "moves": []}
    return usual | {"maxVisits": 6} | fields


def start(*arguments: str) -> subprocess.Popen:
    """Starts the module as a program does."""
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen((sys.executable, "-m", "zerogo.analysis", *arguments), cwd=ROOT, text=True, **pipe)


def test_a_program_talks_to_it() -> None:
    """As KaTrain starts it and asks; a line is seen while a search runs; the end of input waits for what is queued."""
    command = ("analysis", "-model", str(SHIPPED), "-override-config", "homeDataDir=/tmp/x", "--threads", "1")
    process = start(*command, "-human-model", "no.bin.gz")
    slow = {"maxVisits": 10_000_000, "reportDuringSearchEvery": 0.1, "overrideSettings": {"maxTime": 500}}
    endless = query("ponder", rules="tromp-taylor", **slow)
    process.stdin.write("broken\n" + json.dumps(endless) + "\n")
    process.stdin.flush()
    assert "error" in json.loads(process.stdout.readline())
    assert json.loads(process.stdout.readline())["isDuringSearch"]
    last = query("last", maxVisits=20, moves=[["B", "C3"]])
    lines = [{"id": "t", "action": "terminate", "terminateId": "ponder"}, last]
    process.stdin.write("\n".join(map(json.dumps, lines)))
    out, errors = process.communicate(timeout=60)
    replies = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0 and "-human-model" in errors and "tromp-taylor rules differ" in errors
    assert "Started, ready to begin handling requests" in errors
    ended = {reply["id"]: reply["rootInfo"]["visits"] for reply in replies if not reply.get("isDuringSearch", True)}
    assert ended.keys() == {"ponder", "last"} and ended["last"] == 20


def test_katagos_example_client(tmp_path: Path) -> None:
    """python/query_analysis_engine_example.py of KataGo: small letters for players, Chinese rules, and the first line
    that comes is the answer to the query before it."""
    config = tmp_path / "analysis_example.cfg"
    config.write_text("logDir = analysis_logs\nreportAnalysisWinratesAs = BLACK # or WHITE\nnumAnalysisThreads = 2\n")
    process = start("analysis", "-config", str(config), "-model", "mcts:2")
    for number, moves in enumerate(([["b", "D4"]], [["b", "D4"], ["w", "Q16"]], [["b", "pass"]])):
        fields = {"moves": moves, "initialStones": [], "rules": "Chinese", "komi": 6.5, "includePolicy": True}
        fields |= {"id": str(number), "boardXSize": 19, "boardYSize": 19} | ({"maxVisits": 3} if number else {})
        process.stdin.write(json.dumps(fields) + "\n")
        process.stdin.flush()
        reply = json.loads(process.stdout.readline())
        assert (reply["id"], reply["turnNumber"], len(reply["policy"])) == (str(number), len(moves), 362)
    out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("", 0)


class KaTrain:
    """KaTrain's engine class (katrain/core/engine.py), rewritten: what it sends, and what it makes of each line."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process, self.queries, self.results, self.odd = process, {}, {}, []

    def send(self, **query: Any) -> str:
        """Sends a query under the next id."""
        query["id"] = f"QUERY:{len(self.queries) + 1}"
        self.queries[query["id"]] = True
        self.process.stdin.write(json.dumps(query) + "\n")
        self.process.stdin.flush()
        return query["id"]

    def analyse(self, rules: str, moves: list[list[str]], **more: Any) -> str:
        """Asks for one position, as `request_analysis` does."""
        settings = {"reportAnalysisWinratesAs": "BLACK", "maxTime": 8.0, "wideRootNoise": 0.04}
        wants = dict.fromkeys(("includeOwnership", "includeMovesOwnership", "includePolicy"), True)
        asked = {"rules": rules, "priority": 0, "analyzeTurns": [len(moves)], "maxVisits": 8, "komi": 6.5}
        asked |= {"boardXSize": 5, "boardYSize": 5, "initialStones": [], "initialPlayer": "B", "moves": moves}
        return self.send(**asked, **wants, overrideSettings=settings, **more)

    def read(self) -> None:
        """Takes lines until every query has its result; keeps what a person would find in the log."""
        while any(self.queries.values()):
            reply = json.loads(self.process.stdout.readline())
            if not self.queries.get(reply.get("id")) or "error" in reply or "warning" in reply:
                self.odd.append(reply)
            self.queries[reply["id"]] = reply.get("isDuringSearch", False)
            self.results.setdefault(reply["id"], []).append(reply)


def test_katrains_engine() -> None:
    """Games under its rules, other moves, a sweep, a ponder that a new game ends: all is answered, and nothing else."""
    katrain = KaTrain(start("analysis", "-model", "mcts:2", "-analysis-threads", "12", "-override-config", "maxTime=9"))
    moves, names, others = [["B", "C3"], ["W", "D4"], ["B", "pass"]], [], []
    avoided = [{"moves": ["B2", "B3"], "player": "B", "untilDepth": 1}]
    for rules in ("japanese", "chinese", "korean", "aga", "tromp-taylor", "new zealand"):
        names += [katrain.analyse(rules, moves[:turn]) for turn in range(4)]
        names += [katrain.analyse(rules, [*moves[:2], ["B", place]]) for place in ("A1", "E5")]
        others.append(katrain.analyse(rules, moves[:2], avoidMoves=avoided))
    board = {"boardXSize": 5, "boardYSize": 5, "moves": [], "rules": "japanese"}
    ponder = katrain.send(**board, maxVisits=10**7, overrideSettings={"maxTime": 500}, reportDuringSearchEvery=0.1)
    katrain.send(action="terminate", terminateId=ponder)
    katrain.read()
    assert not katrain.odd
    for name in (*names, *others):
        (reply,) = katrain.results[name]
        assert len(reply["policy"]) == 26 and len(reply["ownership"]) == 25 and reply["rootInfo"]["visits"] == 8
        assert all(len(move["ownership"]) == 25 and move["pv"] for move in reply["moveInfos"])
        assert name in names or not {"B2", "B3"} & {move["move"] for move in reply["moveInfos"]}
    katrain.process.terminate()
    assert katrain.process.wait(timeout=60) is not None


def test_the_end_of_input_need_not_be_waited_for() -> None:
    began = time.monotonic()
    process = start("--checkpoint", "mcts:8", "-quit-without-waiting")
    out, _ = process.communicate(json.dumps(query(maxVisits=100_000)) + "\n", timeout=60)
    assert process.returncode == 0 and "rootInfo" not in out and time.monotonic() - began < 50
