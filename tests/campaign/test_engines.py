"""GTP engines as players: fake ones that go wrong in every way, matches that go on and resume, and GNU Go where it is
installed."""

import json
import math
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from limits import within
from matches import FAKE, Always, Last, command, config, same, written
from sgfmill.sgf import Sgf_game

from zerogo import arena, players
from zerogo.arena import play_match
from zerogo.arena.journal import GAMES_FILE, Journal
from zerogo.arena.result import FORFEIT, RESIGNED
from zerogo.config import Config
from zerogo.errors import InputError
from zerogo.pipeline import measures
from zerogo.pipeline.measures import Matches
from zerogo.players.analyst import make_player
from zerogo.players.external import MORE_FOLDERS, EngineFault, EngineProcess, ExternalPlayer, find
from zerogo.players.playout import RandomPlayer
from zerogo.rules import Rules

ROOT = Path(__file__).parents[2]
RULES = Rules(size=5, komi=0.5)


@pytest.fixture
def use() -> Iterator:
    """Makes fake engines by their mode, others by their word, and ends them after the test."""
    made = []

    def maker(mode: str, *more: str, processes: int = 2, seconds: float = 20.0) -> ExternalPlayer:
        made.append(ExternalPlayer(find(mode if ":" in mode else command(mode, *more)), seconds, processes))
        made[-1].name = mode
        return made[-1]

    yield maker
    for player in made:
        player.close()


def test_a_process_answers() -> None:
    process = EngineProcess([sys.executable, "-E", str(FAKE), "good"])
    listed, name, size = process.ask(["list_commands", "name", "boardsize 7"], 20)
    assert listed.splitlines()[:2] == ["boardsize", "clear_board"] and (name, size) == ("Fake", "")
    with pytest.raises(EngineFault, match="refused 'boardsize 25': unacceptable size"):
        process.ask(["boardsize 25", "name"], 20)
    assert process.ask(["name", "version"], 20) == ["Fake", "1.0"]  # a refusal leaves nothing behind
    process.quit()
    process.quit()


SCRIPT = "import sys\nfor line in sys.stdin:\n    sys.stdout.write({answer!r})\n    sys.stdout.flush()\n"
ANSWERS = {
    "plain": ("= D4\n\n", "D4"),
    "an id": ("=1 D4\n\n", "D4"),
    "carriage returns": ("= D4\r\n\r\n", "D4"),
    "no space": ("=\n\n", ""),
    "several lines": ("= a\nb\n  c\n\n", "a\nb\n  c"),
    "a first line that is empty": ("=\na\nb\n\n", "a\nb"),
    "too many blank lines": ("\n\n= D4\n\n\n\n", "D4"),
    "a banner": ("Hello\n\n= D4\n\n", "D4"),
    "a line before": ("hint: think\n= D4\n\n", "D4"),
    "other bytes": ("= \u00e9\n\n", "\u00e9"),
    "a number": ("= 5\n\n", "5"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_replies_are_read(case: str) -> None:
    raw, expected = ANSWERS[case]
    process = EngineProcess([sys.executable, "-S", "-c", SCRIPT.format(answer=raw)])
    assert process.ask(["genmove b"], 20) == [expected]
    process.kill()


def test_a_process_that_is_none() -> None:
    with pytest.raises(EngineFault, match="could not be started: No such file"):
        EngineProcess(["/nowhere/engine"])
    process = EngineProcess([sys.executable, "-c", "import sys; sys.exit('no network')"])
    with pytest.raises(EngineFault, match=r"ended with status 1 at 'name' \(no network\)"):
        process.ask(["name"], 20)
    process.kill()
    process.kill()


def test_a_process_that_does_not_read_is_not_waited_for() -> None:
    process = EngineProcess([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    begin = time.monotonic()
    with pytest.raises(EngineFault, match="no answer to 'play b A1' within 0.3 s"):
        process.ask(["play b A1"] * 50_000, 0.3)  # far more than a pipe takes
    process.kill()
    assert time.monotonic() - begin < 30


ENDLESS = {
    "a line": "= " + "x" * 5000,
    "short lines": "= 1\na\nb\n" * 500,
    "blank lines": "\n" * 5000,
    "whole answers": "= D4\n\n" * 500,
    "whole answers with numbers": "=1 D4\n\n" * 500,
    "a banner": "hello\n\n" * 500,
}


@pytest.mark.parametrize("case", ENDLESS)
def test_an_answer_without_end_is_cut(case: str) -> None:
    """An engine that knows numbers is found out at the next answer; whoever repeats whole ones plays none of them
    twice in a position. Memory stays flat in any case."""
    text = f"import os\nwhile True: os.write(1, {ENDLESS[case].encode()!r})"
    process = EngineProcess([sys.executable, "-S", "-c", text])
    with within(10):
        if "numbers" in case:
            assert process.ask(["genmove b"], 20) == ["D4"]
        if case == "whole answers":
            assert process.ask(["genmove b"] * 1000, 20) == ["D4"] * 1000
        else:
            with pytest.raises(
                EngineFault, match="more than 262144 bytes for an answer|where the answer to 'genmove w'"
            ):
                process.ask(["genmove w"], 20)
    process.kill()


def hang(told: Connection) -> None:
    """Waits for an engine that takes no notice of signals and of the end of its input, nor does what it has started."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores
    engine = EngineProcess(["/bin/sh", "-c", "trap '' HUP INT TERM; sleep 600 & echo = $$ $!; echo; wait; sleep 600"])
    told.send([int(pid) for pid in engine.ask(["name"], 60)[0].split()])
    engine.ask(["genmove b"], 600)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_engine_that_hangs_ends_with_its_parent_however_that_ends(number: int) -> None:
    forked = multiprocessing.get_context("fork")  # which imports nothing anew
    receiver, sender = forked.Pipe(duplex=False)
    parent = forked.Process(target=hang, args=(sender,))
    parent.start()
    engines = receiver.recv()
    os.kill(parent.pid, number)
    assert len(engines) == 2 and all(map(gone, engines))
    parent.join()
    assert parent.exitcode == -number


def test_all_that_an_engine_has_started_ends_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    process = EngineProcess(["/bin/sh", "-c", f"sleep 600 & echo $! > {mark}; echo '= yes'; echo; wait"])
    assert process.ask(["name"], 20) == ["yes"]
    process.kill()
    assert gone(int(mark.read_text()))


def gone(pid: int) -> bool:
    """Says whether a process has ended, or ends soon."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_games_do_not_depend_on_processes_and_batches(use) -> None:
    whole = play_match(use("good", processes=4), Last(), RULES, 8, seed=1, opening_plies=2)
    assert len(whole.counted) == 8 and whole.num_different_games == 8 and (whole.lengths > 10).all()
    assert whole.agreement("good") == (8, 8, 8)
    assert same(whole, play_match(use("good", processes=1), Last(), RULES, 8, seed=1, opening_plies=2))
    assert same(whole, play_match(use("good", processes=3), Last(), RULES, 8, seed=1, opening_plies=2, at_once=5))
    assert any("agrees with the referee's score in 8 of 8 games" in line for line in whole.lines())


def test_against_random_itself_and_another_engine(use) -> None:
    assert not isinstance(RandomPlayer(), players.StatefulPlayer) and isinstance(use("good"), players.StatefulPlayer)
    good = use("good")
    assert len(play_match(good, RandomPlayer(), RULES, 6, seed=1).counted) == 6
    alone = play_match(good, good, RULES, 3, seed=1, colours="a_black", opening_plies=3)
    assert alone.is_self and len(alone.counted) == 3 and alone.agreement("good")[2] == 3
    other = use("unsure")
    both = play_match(good, other, RULES, 4, seed=1, opening_plies=3)
    assert len(both.counted) == 4 and both.agreement("good") == (4, 4, 4) and both.agreement("unsure") == (0, 0, 0)
    one, other = play_match(Last(), good, RULES, 4, seed=1).games, play_match(good, Last(), RULES, 4, seed=1).games
    assert [game.moves for game in one[0::2]] == [game.moves for game in other[1::2]]


FAULTS = {
    "crash": r"ended with status 3 at 'genmove [bw]' \(fatal: out of ideas\), at move [67]",
    "hang": r"no answer to 'genmove [bw]' within 0.7 s, at move [67]",
    "mute": r"closed its output at 'genmove [bw]', at move [67]",
    "illegal": r"illegal move [A-E][1-5] \(occupied: a stone stands on .*\), at move [67]",
    "garbage": r"answered 'banana', which is no move, at move [67]",
    "off-board": r"answered 'T19', which is no move, at move [67]",
    "empty": r"answered '', which is no move, at move [67]",
    "refuse": r"refused 'genmove [bw]': not now, at move [67]",
    "twice": r"said '=\d+ [A-E][1-5]' where the answer to '(play [bw] [A-E][1-5]|clear_board)' was due, at move [6-9]",
    "babble": r"said 'I think C3' where a reply begins with = or \?, at move [67]",
}


@pytest.mark.parametrize("mode", FAULTS)
def test_a_fault_loses_the_game_and_the_match_goes_on(mode: str, use, tmp_path: Path) -> None:
    bad = use(mode, seconds=0.7 if mode in ("hang",) else 20.0, processes=2)
    result = play_match(Last(), bad, RULES, 4, seed=1, opening_plies=2)
    assert not result.counted and result.wins == 4 and result.stopped(FORFEIT) == (0, 4)
    for game in result.games:
        assert game.stop.kind == FORFEIT and game.stop.black_lost == (not game.a_is_black)
        assert re.fullmatch(FAULTS[mode], game.stop.reason), game.stop.reason
        assert math.isnan(game.score_black)
    assert result.summary()["forfeits"] == [0, 4] and result.summary()["mean_score"] is None
    assert any(f"{mode} lost by a fault in 4 of 4 games" in line for line in result.lines())


def test_a_resignation_ends_the_game(use, tmp_path: Path) -> None:
    result = play_match(use("resign"), Last(), RULES, 4, seed=1)
    assert not result.counted and result.losses == 4 and result.stopped(RESIGNED) == (4, 0)
    assert result.by_colour(True) == (0, 0, 2) and result.win_rate == 0.0


def test_one_crash_costs_one_game(use, tmp_path: Path) -> None:
    """Its process served all games; the others are replayed for the next one."""
    crashing = use("crash-once", str(tmp_path / "mark"), processes=1)
    result = play_match(crashing, Last(), RULES, 4, seed=1, opening_plies=2)
    (lost,) = [game for game in result.games if game.stop]
    assert "ended with status 7" in lost.stop.reason
    whole = play_match(use("good"), Last(), RULES, 4, seed=1, opening_plies=2)
    assert [game.moves for game in result.counted] == [whole.games[game.number].moves for game in result.counted]


@pytest.mark.parametrize("mode", ["noisy", "slow", "banner", "dos", "unnumbered", "innumerate"])
def test_engines_with_odd_manners_play(mode: str, use) -> None:
    """The last one says = to whatever it does not know, numbered commands included."""
    player = use(mode)
    player.check(RULES)
    assert player.label == "Fake 1.0"
    games = play_match(player, Last(), RULES, 2, seed=1, opening_plies=2).games
    good = play_match(use("good"), Last(), RULES, 2, seed=1, opening_plies=2).games
    assert [(game.moves, game.stop) for game in games] == [(game.moves, None) for game in good]


def test_an_engine_that_knows_them_is_told_rules_and_seeds(use, tmp_path: Path) -> None:
    mark = tmp_path / "told"
    play_match(use("kata", str(mark), processes=1), Last(), Rules(5, 0.5, "situational", suicide=True), 2, seed=1)
    rules, *seeds = mark.read_text().splitlines()
    told = json.loads(rules.removeprefix("kata-set-rules "))
    assert (told["ko"], told["scoring"], told["suicide"]) == ("SITUATIONAL", "AREA", True)
    assert len(set(seeds)) == len(seeds) > 10 and all(1 <= int(seed.split()[1]) < 2**31 for seed in seeds)
    before = mark.read_text()
    mark.unlink()
    play_match(use("kata", str(mark), processes=1), Last(), Rules(5, 0.5, "situational", suicide=True), 2, seed=1)
    assert mark.read_text() == before


def test_what_can_not_start_is_refused_at_once(use) -> None:
    for mode, size, sentence in (
        ("dead", 5, r"dead ended with status 1 at 'list_commands' \(cannot find my network\); it was started as: "),
        ("good", 25, "good refused 'boardsize 25': unacceptable size; it was started as: "),
        ("misleading", 5, r"misleading said '=1 boardsize.*' where the answer to 'boardsize 5' was due"),
    ):
        with pytest.raises(InputError, match=sentence):
            use(mode).check(Rules(size))
    fine = use("good")
    fine.check(RULES)
    assert fine.label == "Fake 1.0"
    settings = config("evaluation.engine_start_seconds=0.2").evaluation
    slow = make_player(command("slow"), settings, torch.device("cpu"), torch.float32)
    with pytest.raises(InputError, match=r"'list_commands' within 0.2 s; .* engine_start_seconds 0.2; it was started"):
        slow.check(RULES)


def test_bugs_of_our_own_players_stay_bugs(use) -> None:
    with pytest.raises(ValueError, match="played the illegal action -2"):
        play_match(Always(-2), use("good"), RULES, 2, seed=1)


def test_evaluate_writes_how_games_ended(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    results = arena.evaluate([command("crash"), command("resign"), "random"], 2, config(), tmp_path)
    assert [result.num_games for result in results] == [2, 2, 2]
    found = json.loads((tmp_path / "result.json").read_text())
    assert set(found["engines"]) == {"fake_engine", "fake_engine#2"}
    assert found["engines"]["fake_engine"]["says"] == "Fake 1.0"
    assert sum(found["matches"][0]["forfeits"]) + sum(found["matches"][0]["resigned"]) == 2
    assert found["matches"][0]["per_game"]["score_black"] == [None, None]
    crashed, resigned = (
        [Sgf_game.from_bytes(path.read_bytes()).get_root() for path in (tmp_path / "games").glob(f"{name}-vs-random-*")]
        for name in ("fake_engine", "fake_engine#2")
    )
    assert {game.get("RE") for game in crashed} == {"B+F", "W+F"}
    assert all("fake_engine: ended with status 3" in game.get("C") for game in crashed)
    assert resigned and {game.get("RE") for game in resigned} <= {"B+R", "W+R"}
    shown = capsys.readouterr().out
    assert "lost by a fault" in shown and "resigned in" in shown and (tmp_path / "report.html").exists()


def test_engines_that_can_not_start_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot find my network"):
        arena.evaluate([command("dead"), "random"], 2, config(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def matches_of(settings: Config) -> Matches:
    return Matches(settings.game, settings.evaluation, settings.run.seed, torch.device("cpu"), torch.float32)


def test_a_run_checks_its_engines_at_the_start() -> None:
    matches_of(config(f"evaluation.opponents=[random, '{command('good')}@white']"))
    with pytest.raises(InputError, match="cannot find my network"):
        matches_of(config(f"evaluation.opponents=['{command('dead')}']"))
    with pytest.warns(UserWarning, match="is left out: fake_engine ended with status 1"):
        some = matches_of(config(f"evaluation.opponents=['{command('dead')}?', '{command('good')}?', 'random?']"))
    assert list(map(len, some.sizes_of.values())) == [0, 1, 1]


def test_engines_get_as_many_plies_in_a_run_as_in_an_evaluation(use, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, network, game = use("good"), RandomPlayer(), config().game
    assert (arena.cap_for(game, [network], 5), arena.cap_for(game, [network, engine], 5)) == (50, 150)
    assert arena.cap_for(config("game.move_cap=9").game, [engine], 5) == 9
    overrides = (f"evaluation.opponents=[{json.dumps(command('good'))}, random]", "evaluation.engine_processes=1")
    matches = matches_of(config(*overrides))
    caps = []

    def play(*arguments: object, move_cap: int, **options: object) -> None:
        caps.append(move_cap)
        return play_match(*arguments, move_cap=move_cap, **options)

    monkeypatch.setattr(measures, "play_match", play)
    for spec in matches.sizes_of:
        matches._match(network, spec, 5, 2)
    assert caps == [150, 50]


def test_a_match_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [command("good"), "random", "random"]
    whole = arena.evaluate(names, 4, config(), tmp_path / "whole")
    add, calls = Journal.add, []

    def dying(self: Journal, match: int, games: list) -> None:
        add(self, match, games)
        calls.append(match)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "add", dying)
    with pytest.raises(KeyboardInterrupt):
        arena.evaluate(names, 4, config(), tmp_path / "part")
    before = written(tmp_path / "part")
    assert 2 <= len(before) < 12 and calls == [0, 0]
    with open(tmp_path / "part" / GAMES_FILE, "ab") as file:
        file.write(b'{"match": 0, "game"')  # as a kill in the middle of writing leaves it
    monkeypatch.setattr(Journal, "add", add)
    again = arena.evaluate(names, 4, config(), tmp_path / "part", resume=True)
    assert all(same(one, other) for one, other in zip(whole, again, strict=True))
    after = written(tmp_path / "part")
    assert len(after) == 12 and all(after[key] == line for key, line in before.items())
    sgf = {path.name for path in (tmp_path / "part" / "games").iterdir()}
    assert sgf == {path.name for path in (tmp_path / "whole" / "games").iterdir()} and len(sgf) == 12
    reread = arena.evaluate(names, 4, config(), tmp_path / "part", resume=True)  # of a finished match: shown again
    assert all(same(one, other) for one, other in zip(whole, reread, strict=True))


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Nothing that was finished is lost, and the result is that of a match without interruption."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
    line = (sys.executable, str(ROOT / "tests" / "campaign" / "killing_matches.py"), str(tmp_path), "3", "6")
    done = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1].split()[0]) > 0, "no game had ended before a kill"


def test_an_interrupt_ends_engines_that_hang(tmp_path: Path) -> None:
    mark = tmp_path / "pids"
    options = f"random --games 2 --out {tmp_path / 'out'} game.size=5".split()
    line = (sys.executable, "-m", "zerogo", "evaluate", command("hang", str(mark)), *options)
    process = subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    for _ in range(600):
        if mark.exists() and mark.read_text().strip():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and errors.strip().splitlines()[-1] == "interrupted", errors
    assert all(gone(int(pid)) for pid in mark.read_text().split())


GNUGO = shutil.which("gnugo") or shutil.which("gnugo", path=os.pathsep.join(MORE_FOLDERS))
REASON = "GNU Go is not installed (no gnugo on PATH nor in /usr/games), so no match is played with it"
gnugo = pytest.mark.skipif(GNUGO is None, reason=REASON)


@gnugo
def test_gnugo_plays_alike_whatever_plays_it(use) -> None:
    """Its moves follow from the game and the seed alone, though a process may serve several games, and one game several
    processes."""
    found = []
    for processes, at_once in ((1, 4), (3, 2)):
        one, other = (use(f"gnugo:{level}", processes=processes, seconds=60.0) for level in (0, 1))
        found.append(play_match(one, other, Rules(5, 14.5), 4, seed=1, at_once=at_once))
    assert same(*found) and len(found[0].counted) == 4 and found[0].num_different_games > 1
    assert found[0].agreement("gnugo:1")[2] == 4 and found[0].agreement("gnugo:0")[1] == 4


@gnugo
@pytest.mark.parametrize(
    "rules", [Rules(4, 0.5, "situational", suicide=True), Rules(7, 9.0, "simple"), Rules(3, 0.5, scoring="territory")]
)
def test_gnugo_is_held_to_the_rules_of_the_match(rules: Rules, use) -> None:
    player = use("gnugo:0", processes=1, seconds=60.0)
    player.check(rules)
    assert player.label == "GNU Go 3.8"
    result = play_match(player, RandomPlayer(), rules, 4, seed=2)
    assert len(result.counted) == 4 and result.wins >= 2


@gnugo
def test_gnugo_by_its_command(tmp_path: Path) -> None:
    spec = f"gtp:{GNUGO} --mode gtp --level 0 --chinese-rules --capture-all-dead --seed 3"
    (result,) = arena.evaluate([spec, "random"], 2, config(), tmp_path)
    assert result.name_a == "gnugo" and result.wins == 2
    with pytest.raises(InputError, match="gnugo:1 refused 'boardsize 25': unacceptable size"):
        arena.evaluate(["gnugo:1", "random"], 2, config("game.size=25"), tmp_path / "large")
    assert make_player("gnugo:1", config().evaluation, torch.device("cpu"), torch.float32).name == "gnugo:1"
