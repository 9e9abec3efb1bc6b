"""The Go tab's routes, asked as a browser asks them, and what they refuse. Its page is tested in test_tab_page.py."""

import base64
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
import tab_runs
import torch
from tables import tables
from tensorboard.plugins.base_plugin import TBContext, TBLoader
from werkzeug.test import Client

from zerogo import board, checkpoint, sgf
from zerogo.show import picture
from zerogo.tensorboard_plugin import entry, folder, jobs
from zerogo.tensorboard_plugin.entry import GoPlugin, RequestRefused
from zerogo.tensorboard_plugin.folder import read_summary

NEW, OLD = "tiny/checkpoints/step-00000009.pt", "tiny/checkpoints/step-00000005.pt"
GAME = "tiny/games/game-00000001.sgf"
POSITION = {"size": 5, "komi": 0.5, "moves": [["b", 6], ["w", 8]]}
LOCAL = {"Host": "localhost:6006"}
TABLES = tables("tab")


class Here(entry.JobProcess):
    """Does in this process what the other one does."""

    def __init__(self) -> None:
        super().__init__()
        self.cache, self.starts = jobs.JobCache(), 0

    def start(self) -> None:
        """Nothing is to be started."""
        self.starts += 1

    def ask(self, job: str, fields: dict[str, Any], client: str = "") -> Iterator[dict[str, Any]]:
        """Yields the parts of an answer."""
        try:
            yield from jobs.JOBS[job](self.cache, json.loads(json.dumps(fields)))
        except KeyError as error:
            raise RequestRefused(400, f"the request lacks {error}") from None


@pytest.fixture(scope="module")
def here() -> Here:
    return Here()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folder, "RUNS_SECONDS", 1e6), monkeypatch.setattr(folder, "PAGE_SECONDS", 1e6)
    return tab_runs.make_log_directory(tmp_path / "logs")


@pytest.fixture
def ask(root: Path, here: Here) -> Callable[..., Any]:
    """Asks a route: fields are a query's for GET, else a body's; returns an object, or a list of a stream's parts."""
    plugin = GoPlugin(TBContext(logdir=str(root)))
    plugin._jobs = here
    apps = plugin.get_plugin_apps()

    def ask(name: str, /, _status: int = 200, _headers: dict | None = None, **fields: Any) -> Any:
        client, headers = Client(apps[f"/{name}"]), LOCAL | (_headers or {})
        is_read = name in ("runs", "games", "game", "status", "openings", "in_flight")
        how = {"query_string": fields, "method": "GET"} if is_read else {"json": fields, "method": "POST"}
        answer = client.open(headers=headers, **how)
        assert answer.status_code == _status, answer.data[:500]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return answer.get_json() if answer.is_json else [json.loads(line) for line in answer.data.splitlines()]

    return ask


CIRCLE = "leads to no file" if sys.version_info < (3, 13) else "not there"  # what a link to itself is called


# What is shown


def test_runs_and_games_are_listed_newest_first_and_filtered(root: Path, ask: Callable, here: Here):
    ask("runs", first=1)
    (run,) = ask("runs")["runs"]
    assert here.starts == 1, "a page that looks again every half a minute keeps no process alive"
    assert run["name"] == "tiny" and run["sources"] == ["self-play", "match"]
    assert run["networks"] == [[OLD, 5], [NEW, 9]]
    games = ask("games")["games"]
    assert [game["path"].removeprefix("tiny/") for game in games] == list(reversed(tab_runs.GAMES))
    assert [game["end"] for game in games] == ["passes", "unfinished", "resigned", "passes"]
    assert games[3] | {"when": 0} == TABLES["a game of the list"]
    for fields, numbers in TABLES["games that are asked for"]:
        assert [int(game["path"][-5]) for game in ask("games", **fields)["games"]] == numbers, fields


def test_many_games_come_in_pages_and_only_those_of_a_page_are_read(root: Path, ask: Callable):
    data = (root / GAME).read_bytes()
    for number in range(120):
        (root / "tiny" / "games" / f"more-{number:04d}.sgf").write_bytes(data)
    first = ask("games")
    assert (len(first["games"]), first["looked"], first["total"]) == (50, 50, 124)
    second = ask("games", after=first["next"])
    third = ask("games", after=second["next"])
    every = [game["path"] for page in (first, second, third) for game in page["games"]]
    assert len(every) == len(set(every)) == 124 and not third["next"]


def test_a_list_says_of_a_game_what_its_file_says(root: Path):
    record = sgf.GameRecord(
        tab_runs.RULES, [12, 6, 25], "W+R", r"a]b", "c", [(";B[aa]", None, None, None), sgf.Remark("ended by: capped")]
    )
    seen = read_summary(sgf.to_text(record).encode())
    assert (seen.size, seen.black, seen.white, seen.moves, seen.end) == (5, "a]b", "c", 3, "capped")
    assert seen.opening == "cc,bb," and read_summary(b"\x00\x01") is None and read_summary(b"") is None
    assert read_summary(b"(;B[aa]C[a\\]W[bb]];W[cc]GC[;B[dd]").moves == 2, "a comment that is cut goes to the end"
    below = folder.Folder(root)
    assert below.summary(root / GAME, 1, 2).moves == 6
    (root / GAME).unlink()
    assert below.summary(root / GAME, 3, 2) is None, "it has changed, and can't be read"


def test_a_game_is_a_tree_with_what_its_file_says(ask: Callable):
    game = ask("game", path=GAME)
    assert (game["size"], game["komi"], game["result"], game["columns"]) == (5, 0.5, "B+2.5", "ABCDE")
    assert game["stars"] == picture.star_points(5) and len(game["nodes"]) == 7
    node = game["nodes"][2]
    assert (node["parent"], node["colour"], node["action"], node["next"], node["winrate"]) == (1, "w", 8, "b", 0.55)
    assert node["stones"][6] == "1" and node["stones"][8] == "2" and node["stones"].count("0") == 23
    text = "(;SZ[5]KM[1]RU[Chinese];B[aa](;W[bb];B[cc];AE[bb];W[dd])(;W[cc]))"
    tree = ask("load", sgf=base64.b64encode(text.encode()).decode())
    assert [node.get("parent") for node in tree["nodes"]] == [None, 0, 1, 2, 3, 1]
    assert tree["nodes"][3]["start"]["stones"][6] == "0" and tree["nodes"][5]["action"] == 12
    position = {"size": 5, "komi": 1, "start": tree["nodes"][3]["start"], "moves": [["w", 18]]}
    assert ask("move", position=position)["stones"] == tree["nodes"][4]["stones"]


def test_variations_are_saved_and_read_again(ask: Callable):
    other = POSITION | {"moves": [["b", 6], ["w", 12], ["b", 8]]}
    text = ask("text", lines=[POSITION, other], black="A", white="B", result="B+R")["sgf"]
    lines = list(sgf.variations_text(text))
    assert [line.moves for line in lines] == [[6, 8], [6, 12, 8]]
    elsewhere = POSITION | {"start": {"stones": "1" + "0" * 24}}
    assert ask("text", lines=[POSITION, elsewhere, *[other] * 120])["left_out"] == 1 + 22
    assert (lines[0].black, lines[0].result, lines[0].rules.komi) == ("A", "B+R", 0.5)


def test_what_networks_think_is_what_the_package_says(root: Path, ask: Callable, here: Here):
    parts = ask("think", position=POSITION, networks=[NEW, OLD], visits=30)
    first = next(part for part in parts if part.get("network") == 0)
    last = [part for part in parts if part.get("network") == 1][-1]
    assert first["name"] == "tiny@9" and last["visits"] == 30 and last["candidates"][0]["line"]
    assert all({"cpu", "memory"} <= part.keys() and part["memory"] > 2**20 for part in parts)
    analyst = here.cache.session(str(root / NEW), here.cache.game(POSITION)).analyst
    game = here.cache.game(POSITION)
    evaluation = analyst.evaluate(game.tensor())
    assert first["policy"] == pytest.approx(evaluation.prior[0].tolist(), abs=1e-4)
    assert first["winrate"] == pytest.approx((1 + float(evaluation.value[0])) / 2)
    parts = ask("think", position=POSITION | {"moves": [["b", 6]]}, networks=[NEW])  # White to move, told as Black's
    evaluation = analyst.evaluate(here.cache.game(POSITION | {"moves": [["b", 6]]}).tensor())
    assert parts[-1]["winrate"] == pytest.approx((1 - float(evaluation.value[0])) / 2)
    assert parts[-1]["score"] == pytest.approx(-float(evaluation.score[0]))


def test_a_position_over_time_and_a_game_as_a_curve_and_as_planes(root: Path, ask: Callable, here: Here):
    over_time, (alone, *_) = (ask(name, position=POSITION, networks=[OLD, NEW]) for name in ("over_time", "think"))
    assert [part["name"] for part in over_time] == ["tiny@5", "tiny@9"]
    assert over_time[0]["winrate"] == pytest.approx(alone["winrate"])
    moves = [["b", 12], ["w", 6], ["b", 8], ["w", 18]] * 5
    moves = [[colour, point] for ply, (colour, point) in enumerate(moves) if ply < 4] + [["b", 25], ["w", 25]] * 8
    parts = ask("curve", position=POSITION | {"moves": moves}, networks=[NEW])
    found = [rate for part in parts for rate in part["winrates"]]
    record = here.cache.game(POSITION | {"moves": moves}).record()
    analyst = here.cache.session(str(root / NEW), here.cache.game(POSITION)).analyst
    states = sgf.positions([record] * 21, range(21), check=False)
    values = analyst.evaluate(states, quick=True).value * torch.where(states.to_play == board.BLACK, 1, -1)
    assert len(found) == 21 and found == pytest.approx(((values + 1) / 2).tolist(), abs=1e-4)
    (seen,) = ask("planes", position=POSITION, networks=[NEW])
    planes = checkpoint.load(root / NEW).encoder().planes(here.cache.game(POSITION).tensor())[0]
    assert len(seen["names"]) == len(planes) and sum(seen["planes"][1]) == float(planes[1].sum())


def test_a_game_is_played_counted_and_saved(root: Path, ask: Callable, here: Here, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "JUDGE_SECONDS", 1e6)  # on a busy machine the judgement of dead stones was cut short
    game = ask("new", networks=[NEW])
    assert (game["size"], game["komi"], len(game["nodes"])) == (5, 0.5, 1)
    ask("think", position=POSITION, networks=[NEW], visits=60)  # of an analysis, which are not the opponent's
    parts = ask("genmove", position=POSITION, networks=[NEW], visits=4)
    assert max(part.get("visits", 0) for part in parts) < 20
    assert board.legal_actions(here.cache.game(POSITION).tensor())[0, parts[-1]["action"]]
    wall = [["b", 5 * row + 2] for row in range(5)]
    white = [["w", 5 * row + 3] for row in range(5)]
    moves = [move for pair in zip(wall, white, strict=True) for move in pair] + [["b", 4], ["w", 25], ["b", 25]]
    position = POSITION | {"moves": moves}
    counted = ask("score", position=position, networks=[NEW])[-1]
    assert 4 in counted["dead"] and counted["result"] == "B+4.5"
    alive = ask("score", position=position, networks=[NEW], dead=counted["dead"], toggle=4)[-1]
    assert 4 not in alive["dead"] and alive["score"] > counted["score"]
    saved = ask("save", run="tiny", position=position, black="you", white="tiny@9", result="B+4.5")["saved"]
    again = ask("save", run="tiny", file=saved, position=position, result="B+R")["saved"]
    (path,) = (root / "tiny" / "played").iterdir()
    assert path.name == saved == again and sgf.read(path).result == "B+R"
    three = ask("new", size=9, handicap=3, komi=0.5)["nodes"][0]
    assert three["next"] == "w" and len(three["start"]["handicap"]) == 3 and three["stones"].count("1") == 3


def test_a_played_game_is_one_state_machine(tmp_path: Path):
    """Runs played.mjs in node, which needs no browser."""
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed, in which the page's state machine is tested (apt-get install nodejs)")
    for path in (*entry.PAGE.glob("*.js"), Path(__file__).with_name("played.mjs")):
        shutil.copy(path, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run([node, "--test", tmp_path / "played.mjs"], capture_output=True, text=True)
    assert done.returncode == 0 and "pass 9" in done.stdout, done.stdout


def test_how_a_run_is_doing(root: Path, ask: Callable):
    os.mkfifo(root / "tiny" / "snapshots" / "snapshot-000000010.pt")  # nothing waits for what it would say
    found = ask("status", run="tiny")
    assert found["latest"]["step"] == 3000 and [rate[1:] for rate in found["rates"]] == [[1.0, 2.5], [2.0, 2.5]]
    assert [alarm[:2] for alarm in found["alarms"]] == [["policy_kl_nats", None], ["capped_share", 0.9]]
    assert [row[0] for row in found["ratings"]["5"]] == ["tiny@9", "random"] and found["ratings"]["5"][0][1] > 0
    assert found["matches"] == [[5, "tiny@9", "random", 3.0, 4]]
    tree = ask("openings", run="tiny")
    corner = next(child for child in tree["children"] if child["action"] != 12)  # turned boards are one opening
    assert (tree["games"], tree["size"], corner["count"], corner["black"]) == (4, 5, 2, 1)
    flying = ask("in_flight", run="tiny")
    assert flying["total"] == 3 and flying["games"][0]["stones"][1] == "1" and flying["games"][0]["ply"] == 1


# What is refused


def everything(root: Path) -> dict[str, tuple[int, int]]:
    """Returns all that lies in a folder and around it, with times and sizes."""
    found = {str(path): path.lstat() for path in root.parent.rglob("*")}
    return {name: (seen.st_mtime_ns, seen.st_size) for name, seen in found.items()}


def test_nothing_outside_of_the_log_directory_is_read_and_nothing_that_is_no_game(
    root: Path, ask: Callable, here: Here
):
    outside = root.parent / "secret.sgf"
    outside.write_text("(;SZ[5])")
    (root / "link.sgf").symlink_to(outside)
    (root / "linked").symlink_to(root.parent)
    (root / "tiny" / "games" / "link.sgf").symlink_to(outside)
    (root / "circle.sgf").symlink_to("circle.sgf")
    os.mkfifo(root / "pipe.sgf")
    (root / "large.sgf").write_text("(;SZ[5]" + "C[x]" * 2**18 + ")")
    (root / "folder.sgf").mkdir()
    before = everything(root)
    out = "../secret.sgf", str(outside), "link.sgf", "linked/secret.sgf", "tiny/../../secret.sgf", f"a/../{GAME}"
    refused = dict.fromkeys(out, "leads out of") | dict.fromkeys(("", "tiny/config.yaml"), "no SGF file")
    refused |= dict.fromkeys(("pipe.sgf", "folder.sgf"), "can't be read") | {"circle.sgf": CIRCLE}
    refused |= {"large.sgf": "larger than", "x.sgf": "not there"} | dict.fromkeys(("a\0b", "x" * 2000), "a path")
    for path, words in refused.items():
        assert words in ask("game", 400, path=path)["error"], path
    for name in ("../secret.pt", "tiny/config.yaml", "tiny/snapshots/snapshot-000000009.pt", 7, "tiny", "\ud800"):
        assert "error" in ask("think", 400, position=POSITION, networks=[name])
    (root.parent / "network.pt").symlink_to(root / NEW)  # as if a link had taken a network's place meanwhile
    with pytest.raises(entry.InputError, match="no plain file"):
        here.one("planes", {"position": POSITION, "networks": [str(root.parent / "network.pt")]})
    (root.parent / "network.pt").unlink()
    with pytest.raises(entry.InputError, match="through links"):
        here.one("save_game", {"position": POSITION, "path": str(root / "linked" / "x.sgf")})
    assert "link.sgf" not in str(ask("games")["games"])
    assert [run["note"] for run in ask("runs")["runs"] if run["name"] == "linked"] == ["a link, which is not followed"]
    assert everything(root) == before


LARGE = [  # a route, fields and a word of the sentence, as in the table
    ("think", {"networks": [OLD] * 101}, "at most 100"),
    ("think", {"position": {"size": 5, "moves": [["b", 0]] * 2001}}, "2000"),
    ("load", {"text": "(;SZ[5]" + ";B[aa]" * 2001 + ")"}, "at most 2000"),
]


def test_a_request_out_of_bounds_gets_one_sentence_and_leaves_nothing(root: Path, ask: Callable):
    usual = {"think": {"position": POSITION, "networks": [NEW]}, "save": {"run": "tiny", "position": POSITION}}
    usual["score"] = usual["think"]
    before = everything(root)
    for route, fields, words in TABLES["bad requests"] + LARGE:
        if "text" in fields:
            fields = {"sgf": base64.b64encode(fields["text"].encode()).decode()}
        is_stream = route in ("think", "score") and "networks" not in fields
        answer = ask(route, 200 if is_stream else 400, **usual.get(route, {}) | fields)
        sentence = (answer[-1] if is_stream else answer)["error"]
        assert words in sentence and "\n" not in sentence and "Traceback" not in sentence, (route, fields, sentence)
    assert everything(root) == before


def test_requests_of_other_pages_are_refused_and_own_ones_are_not(root: Path, ask: Callable):
    before = everything(root)
    for headers in TABLES["headers of other pages"]:
        assert "error" in ask("runs", 403, headers), headers
        assert "error" in ask("save", 403, headers, run="tiny", position=POSITION), headers
    for headers in TABLES["headers of the tab"]:
        ask("runs", 200, headers)
    assert everything(root) == before
    flags = type("Flags", (), {"go_hosts": "go.example, b", "host": "a.example"})
    apps = GoPlugin(TBContext(logdir=str(root), flags=flags)).get_plugin_apps()
    for name, status in {"go.example:80": 200, "a.example": 200, "evil.example": 403}.items():
        assert Client(apps["/games"]).get(headers={"Host": name}).status_code == status


def test_methods_bodies_and_sizes_are_checked_before_anything_is_read(root: Path):
    apps = GoPlugin(TBContext(logdir=str(root))).get_plugin_apps()
    client = Client(apps["/save"])
    assert client.get(headers=LOCAL).status_code == 405
    assert client.post(headers=LOCAL, data="{}", content_type="text/plain").status_code == 415
    chunked = LOCAL | {"Transfer-Encoding": "chunked"}
    answer = client.post(headers=chunked, data="{}", content_type="application/json")
    assert answer.status_code == 411 and "Content-Length" in answer.get_json()["error"]
    large = {"CONTENT_LENGTH": str(10**8)}
    answer = client.post(headers=LOCAL, content_type="application/json", environ_overrides=large)
    assert answer.status_code == 413 and "100000000 bytes" in answer.get_json()["error"]
    for body in ("[]", "{", "\xff", "[" * 10**5, '{"networks": {}}'):
        answer = client.post(headers=LOCAL, data=body, content_type="application/json")
        assert answer.status_code == 400 and answer.get_json()["error"]
    nowhere = GoPlugin(TBContext(logdir="s3://bucket/logs"))
    assert Client(nowhere.get_plugin_apps()["/runs"]).get(headers=LOCAL).status_code == 404 and not nowhere.is_active()


def test_a_run_that_is_deleted_or_cut_short_breaks_nothing(root: Path, ask: Callable):
    ask("runs"), ask("games")
    games = root / "tiny" / "games"
    (games / "game-00000001.sgf").write_bytes((root / GAME).read_bytes()[:60])
    (games / "game-00000002.sgf").write_bytes(b"")
    (games / "game-00000003.sgf").unlink()
    (root / NEW).write_bytes((root / NEW).read_bytes()[:1000])
    (root / "tiny" / "matches.jsonl").write_bytes(b'{"player": "ti')
    assert "error" in ask("game", 400, path=GAME)
    assert "cut short" in ask("think", position=POSITION, networks=[NEW])[-1]["error"]
    found = ask("over_time", position=POSITION, networks=[NEW, OLD, f"{OLD}.pruned.pt"])
    assert "error" in found[0] and found[1]["name"] == "tiny@5" and "no plain file any more" in found[2]["error"]
    assert ask("status", run="tiny")["matches"] == []
    for path in sorted((root / "tiny").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / "tiny").rmdir()
    assert ask("games")["games"] == [] and ask("status", run="tiny")["latest"] == {}
    assert "not there any more" in ask("think", 400, position=POSITION, networks=[OLD])["error"]


def test_the_worker_starts_and_answers_until_it_ends(root: Path, monkeypatch: pytest.MonkeyPatch):
    (root / "torch.py").write_text("raise SystemExit")
    monkeypatch.chdir(root)  # TensorBoard may be started anywhere, and nothing there is imported
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    worker = entry.JobProcess()
    assert worker.one("play_move", {"position": POSITION})["next"] == "b"
    worker._process.kill()
    worker.start = worker._process.wait  # it has ended just after `start` has looked
    with pytest.raises(entry.InputError, match="has ended; the next request starts it again"):
        worker.one("play_move", {"position": POSITION})


def test_the_worker_answers_in_turn_and_ends_when_nobody_asks(here: Here, monkeypatch: pytest.MonkeyPatch):
    (ours, theirs), fields = socket.socketpair(), {"position": POSITION, "networks": []}
    monkeypatch.setattr(jobs, "IDLE_SECONDS", 0.0)
    loop = jobs.JobLoop(here.cache, theirs)
    loop._long.clear()  # without what compiles
    requests = [("over_time", fields, ""), ("over_time", fields, "one"), ("play_move", fields, "")]
    requests += [("play_move", {}, ""), ("curve", fields, "one"), ("endless", {}, "reads nothing")]
    monkeypatch.setattr(jobs, "SEND_TIMEOUT", jobs.struct.pack("ll", 0, 1))
    monkeypatch.setitem(jobs.JOBS, "endless", lambda *_: itertools.repeat({"text": "." * 4096}))
    pairs = [Pipe() for _ in requests]
    for (mine, its), request in zip(pairs, requests, strict=True):
        mine.send_bytes(json.dumps(dict(zip(("job", "fields", "client"), request, strict=True))).encode())
        socket.send_fds(ours, [b"+"], [its.fileno()])
    (cancelled, _), (first, _), (move, _), (bad, _), (second, _), _ = pairs
    cancelled.close()
    loop.run()
    asked = [json.loads(one.recv_bytes()) for one in (move, move, bad, first, second)]
    assert asked[0]["part"]["next"] == "b" and "lacks" in asked[2]["error"] and "error" in asked[4]
    assert asked[1] == asked[3] == {"done": True}, "a client's next request ends its last one"


# The house


def test_the_page_has_the_colours_of_pictures_and_asks_for_nothing_from_elsewhere():
    style = (entry.PAGE / "style.css").read_text()
    for name in ("WOOD", "LINE", "BLACK", "WHITE", "MARK", "BEST", "POSITIVE", "NEGATIVE", "NOTHING", "GREY"):
        assert re.search(rf"--{name.lower()}: (#{bytes(getattr(picture, name)).hex()});", style), name
    for path in entry.PAGE.iterdir():
        addresses = re.findall(r"[a-z]+://[^\"'` )]+", path.read_text())
        assert set(addresses) <= {"http://www.w3.org/2000/svg"} and "innerHTML" not in path.read_text(), path.name


def test_tensorboard_finds_the_tab():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["tensorboard_plugins"] == {"zerogo": "zerogo.tensorboard_plugin.entry:GoLoader"}
    loader = entry.GoLoader()
    plugin = loader.load(TBContext(logdir="."))
    assert isinstance(loader, TBLoader) and plugin.is_active() and plugin.frontend_metadata().tab_name == "Go"
    assert all(f"/{path.name}" in plugin.get_plugin_apps() for path in entry.PAGE.iterdir())
