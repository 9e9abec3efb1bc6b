"""GTP engines as players of matches, in this process: the words that name them, how their replies are read, every fault
of theirs, matches that are written and resumed. tests/campaign has them as processes."""

import json
import math
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny
import torch
from limits import within
from matches import Drawing, EngineInProcess, command, config, same
from sgfmill.sgf import Sgf_game
from tables import tables

from zerogo import arena
from zerogo.arena import MatchSettings, play_match
from zerogo.arena.result import FORFEIT
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.pipeline.matches import Matches
from zerogo.players import external
from zerogo.players.analyst import make_player
from zerogo.players.external import EngineFault, ExternalPlayer, find_program
from zerogo.rules import Rules
from zerogo.system import distributed

RULES = Rules(size=5, komi=0.5)
TABLES = tables("external")


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are objects of this process, and time passes only while one hangs."""
    EngineInProcess.now[0] = 0.0
    monkeypatch.setattr(external, "EngineProcess", EngineInProcess)
    monkeypatch.setattr(os, "access", lambda *_: True)  # where /tmp allows no programs, as on some servers
    monkeypatch.setattr(external, "time", SimpleNamespace(monotonic=lambda: EngineInProcess.now[0]))


def use(mode: str, *more: str, processes: int = 2, seconds: float = 20.0) -> ExternalPlayer:
    """Returns a player of that mode, which is its name."""
    player = ExternalPlayer(find_program(command(mode, *more)), seconds, processes)
    player.name = mode
    return player


def engine(mode: str = "good", **options: object) -> EngineInProcess:
    return EngineInProcess(find_program(command(mode)).command(RULES, 1), **options)


@pytest.mark.parametrize("case", TABLES["answers"])
def test_replies_are_read(case: str) -> None:
    raw, expected = TABLES["answers"][case]
    assert engine(answer=lambda line: raw).ask(["genmove b"], 20) == [expected]


def test_a_refusal_leaves_nothing_behind() -> None:
    process = engine()
    with pytest.raises(EngineFault, match="refused 'boardsize 25': unacceptable size"):
        process.ask(["boardsize 25", "name"], 20)
    assert process.ask(["name", "version"], 20) == ["Fake", "1.0"]


@pytest.mark.parametrize(("start", "part", "times"), TABLES["endless answers"])
def test_an_answer_without_end_is_cut(start: str, part: str, times: int) -> None:
    """An engine that knows numbers is found out at the next answer; whoever repeats whole ones plays none of them
    twice in a position. Memory stays flat in any case."""
    process, text = engine(answer=lambda line: ""), (start + part * times).encode()
    process._answer_to, process._read_and_write = None, lambda seconds: read(process, text)
    with within(10):
        if part == "=1 D4\n\n":
            assert process.ask(["genmove b"], 20) == ["D4"]
        if part == "= D4\n\n":
            assert process.ask(["genmove b"] * 1000, 20) == ["D4"] * 1000
        else:
            fault = "more than 262144 bytes for an answer|where the answer to 'genmove w'"
            with pytest.raises(EngineFault, match=fault):
                process.ask(["genmove w"], 20)


def read(process: EngineInProcess, chunk: bytes) -> bool:
    process._incoming += chunk
    return True


def test_words_that_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = Config().evaluation
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("zerogo.players.external.MORE_FOLDERS", ("/nowhere",))
    for spec, sentence in TABLES["refused words"].items():
        with pytest.raises(InputError) as error:
            make_player(spec, settings, torch.device("cpu"), torch.float32)
        assert sentence in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("word", "rules", "line"), TABLES["start lines"])
def test_start_lines(word: str, rules: dict, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FOLDER is where the programs are; Pachi's files lie beside it under territory scoring."""
    for name in ("gnugo", "pachi", "katago"):
        (tmp_path / name).touch(mode=0o755)
    files = {"net.bin.gz": "katago" in word, "patterns_mm.gamma": "scoring" in rules}
    for name in (name for name, is_there in files.items() if is_there):
        (tmp_path / name).touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    program = find_program(word.replace("FOLDER", str(tmp_path)))
    assert " ".join(program.command(Rules(9, 7.0, **rules), 5)).replace(str(tmp_path), "FOLDER") == line
    assert program.name == word.partition(":FOLDER")[0]


def test_names_of_programs_and_what_they_do_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"sh -c true": "true", f"{sys.executable} -u /a/mine.py --x": "mine", "env X=1 nice -n 5 true": "true"}
    assert {line: find_program(f"gtp:{line}").name for line in names} == names
    for name in ("pachi", "katago"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="pachi:1000 does not support suicide"):
        ExternalPlayer(find_program("pachi:1000")).check(Rules(9, suicide=True))
    with pytest.raises(InputError, match="there is no file"):
        find_program(f"katago:9:{tmp_path}/net.bin.gz")


def test_a_match_may_grow_and_nothing_else(tmp_path: Path) -> None:
    arena.evaluate(["random", "random"], 4, config(), tmp_path / "a")
    (grown,) = arena.evaluate(["random", "random"], 8, config(), tmp_path / "a", resume=True)
    assert same(grown, arena.evaluate(["random", "random"], 8, config(), tmp_path / "b")[0])
    for names, games, overrides, what in TABLES["settings that may not change"]:
        with pytest.raises(InputError, match=what):
            arena.evaluate(names, games, config(*overrides), tmp_path / "a", resume=True)
    with pytest.raises(InputError, match="already holds a match; resume it with --resume"):
        arena.evaluate(["random", "random"], 8, config(), tmp_path / "a")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "file").write_text("x")
    with pytest.raises(InputError, match="holds no match to resume"):
        arena.evaluate(["random", "random"], 8, config(), tmp_path / "c", resume=True)


@pytest.mark.parametrize("mode", TABLES["faults"])
def test_a_fault_loses_the_game_and_the_match_goes_on(mode: str) -> None:
    bad = use(mode, seconds=0.7 if mode == "hang" else 20.0)
    result = play_match(Drawing(), bad, MatchSettings(RULES, 4, seed=1, opening_plies=2))
    assert not result.counted and result.wins == 4 and result.stopped(FORFEIT) == (0, 4)
    for game in result.games:
        assert game.stop.kind == FORFEIT and game.stop.black_lost == (not game.a_is_black)
        assert re.fullmatch(TABLES["faults"][mode], game.stop.reason), game.stop.reason
        assert math.isnan(game.score_black)
    assert result.summary()["forfeits"] == [0, 4] and result.summary()["mean_score"] is None
    assert any(f"{mode} lost by forfeit in 4 of 4 games" in line for line in result.lines())


def test_one_crash_costs_one_game(tmp_path: Path) -> None:
    """Its process served all games; the others are replayed for the next one."""
    crashing = use("crash-once", str(tmp_path / "mark"), processes=1)
    result = play_match(crashing, Drawing(), MatchSettings(RULES, 4, seed=1, opening_plies=2))
    (lost,) = [game for game in result.games if game.stop]
    assert "ended with status 7" in lost.stop.reason
    whole = play_match(use("good"), Drawing(), MatchSettings(RULES, 4, seed=1, opening_plies=2))
    assert [game.moves for game in result.counted] == [whole.games[game.number].moves for game in result.counted]


@pytest.mark.parametrize("mode", ["slow", "banner", "dos", "unnumbered", "innumerate"])
def test_engines_with_odd_manners_play(mode: str) -> None:
    """The last one says = to whatever it does not know, numbered commands included."""
    player = use(mode)
    player.check(RULES)
    assert player.label == "Fake 1.0"
    games = play_match(player, Drawing(), MatchSettings(RULES, 2, seed=1, opening_plies=2)).games
    good = play_match(use("good"), Drawing(), MatchSettings(RULES, 2, seed=1, opening_plies=2)).games
    assert [(game.moves, game.stop) for game in games] == [(game.moves, None) for game in good]


def test_an_engine_that_knows_them_is_told_rules_and_seeds(tmp_path: Path) -> None:
    mark, settings = tmp_path / "told", MatchSettings(Rules(5, 0.5, "situational", suicide=True), 2, seed=1)

    def told() -> str:
        """Returns what the engine was told in a match."""
        mark.unlink(missing_ok=True)
        play_match(use("kata", str(mark), processes=1), Drawing(), settings)
        return mark.read_text()

    before = told()
    rules, *seeds = before.splitlines()
    fields = json.loads(rules.removeprefix("kata-set-rules "))
    assert (fields["ko"], fields["scoring"], fields["suicide"]) == ("SITUATIONAL", "AREA", True)
    assert len(set(seeds)) == len(seeds) > 10 and all(1 <= int(seed.split()[1]) < 2**31 for seed in seeds)
    assert told() == before


def test_what_can_not_start_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, size, sentence in TABLES["what can not start"]:
        with pytest.raises(InputError, match=sentence):
            use(mode).check(Rules(size))
    monkeypatch.setattr(external, "START_SECONDS", 0.2)
    settings = config("evaluation.engine_seconds=0.1").evaluation
    slow = make_player(command("slow"), settings, torch.device("cpu"), torch.float32)
    with pytest.raises(InputError, match=r"'list_commands' within 0.2 s; .*engine_seconds is 0.1; it was started"):
        slow.check(RULES)


def test_evaluate_writes_how_games_ended(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    results = arena.evaluate([command("crash"), command("resign"), "random"], 2, config(), tmp_path)
    assert [result.num_games for result in results] == [2, 2, 2]
    found = json.loads((tmp_path / "result.json").read_text())
    assert set(found["engines"]) == {"fake_program", "fake_program#2"}
    assert found["engines"]["fake_program"]["says"] == "Fake 1.0"
    assert sum(found["matches"][0]["forfeits"]) + sum(found["matches"][0]["resigned"]) == 2
    assert found["matches"][0]["per_game"]["score_black"] == [None, None]
    crashed, resigned = (
        [Sgf_game.from_bytes(path.read_bytes()).get_root() for path in (tmp_path / "games").glob(f"{name}-vs-random-*")]
        for name in ("fake_program", "fake_program#2")
    )
    assert {game.get("RE") for game in crashed} == {"B+F", "W+F"}
    assert all("fake_program: ended with status 3" in game.get("C") for game in crashed)
    assert resigned and {game.get("RE") for game in resigned} <= {"B+R", "W+R"}
    shown = capsys.readouterr().out
    assert "lost by forfeit" in shown and "resigned in" in shown and (tmp_path / "report.html").exists()


def matches_of(settings: Config) -> Matches:
    return Matches(settings, torch.device("cpu"), torch.float32)


def test_a_run_checks_its_engines_at_the_start() -> None:
    matches_of(config(f"evaluation.opponents=[random, '{command('good')}@white']"))
    with pytest.raises(InputError, match="cannot find my network"):
        matches_of(config(f"evaluation.opponents=['{command('dead')}']"))
    with pytest.warns(UserWarning, match="is left out: fake_program ended with status 1"):
        some = matches_of(config(f"evaluation.opponents=['{command('dead')}?', '{command('good')}?', 'random?']"))
    assert list(map(len, some.sizes_of.values())) == [0, 1, 1]


def test_an_optional_opponent_is_met_where_all_ranks_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config("evaluation.opponents=['random?', 'self']")
    some, said = matches_of(settings), list[str]()
    gathered = {"random?": [5], "self": [5]}, {"random?": [], "self": [5]}
    monkeypatch.setattr(distributed, "all_gather_object", lambda v: gathered if v == some.sizes_of else [v])
    assert [spec for spec, *_ in some.play(tiny.fresh_checkpoint(settings), 2, said.append)] == ["self"]
    assert said == ["no match against random on 5x5: rank 1 has no such opponent"]


def test_games_do_not_depend_on_processes_and_batches() -> None:
    settings = MatchSettings(RULES, 8, seed=1, opening_plies=2)
    whole = play_match(use("good", processes=4), Drawing(), settings)
    assert len(whole.counted) == 8 and whole.num_different_games == 8 and (whole.lengths > 10).all()
    assert whole.agreement("good") == (8, 8, 8)
    assert same(whole, play_match(use("good", processes=1), Drawing(), settings))
    assert same(whole, play_match(use("good", processes=3), Drawing(), replace(settings, at_once=5)))
    assert any("agrees with the referee on the score in 8 of 8 games" in line for line in whole.lines())
