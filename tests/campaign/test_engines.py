"""GTP engines as players: fake ones that go wrong in every way, matches that go on and resume, and GNU Go where it is
installed."""

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
from matches import command, config, same

from zerogo import arena, board
from zerogo.arena import MatchSettings, play_match
from zerogo.errors import InputError
from zerogo.players.analyst import make_player
from zerogo.players.external import MORE_FOLDERS, EngineFault, EngineProcess, ExternalPlayer, find_program
from zerogo.rules import Rules
from zerogo.selfplay.opening import RandomPlayer

ROOT = Path(__file__).parents[2]
RULES = Rules(size=5, komi=0.5)


class Last:
    """Plays the last legal point, and passes when the board is half full."""

    name = "last"

    def choose(self, states: board.State, game_ids: torch.Tensor, seed: int) -> torch.Tensor:
        legal = board.legal_actions(states)[:, :-1]
        last = legal.shape[1] - 1 - legal.flip(1).to(torch.int8).argmax(1)
        empty = (states.stones == 0).flatten(1).sum(1)
        return torch.where((empty > legal.shape[1] // 2) & legal.any(1), last, states.board_size**2)


@pytest.fixture
def use() -> Iterator:
    """Makes fake engines by their mode, others by their word, and ends them after the test."""
    made = []

    def maker(mode: str, *more: str, processes: int = 2, seconds: float = 20.0) -> ExternalPlayer:
        made.append(ExternalPlayer(find_program(mode if ":" in mode else command(mode, *more)), seconds, processes))
        made[-1].name = mode
        return made[-1]

    yield maker
    for player in made:
        player.close()


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


@pytest.mark.parametrize(
    ("mode", "fault"),
    [
        ("crash", r"ended with status 3 at 'genmove [bw]' \(fatal: out of ideas\), at move [67]"),
        ("hang", r"no answer to 'genmove [bw]' within 0.7 s, at move [67]"),
        ("mute", r"closed its output at 'genmove [bw]', at move [67]"),
        ("noisy", None),
        ("slow", None),
    ],
)
def test_a_match_with_processes(mode: str, fault: str | None, use) -> None:
    """The faults of tests/test_external.py as processes have them; engines of odd manners play."""
    player = use(mode, seconds=0.7 if mode == "hang" else 20.0)
    for game in play_match(Last(), player, MatchSettings(RULES, 4, seed=1, opening_plies=2)).games:
        assert (game.stop is None) if fault is None else re.fullmatch(fault, game.stop.reason)


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
        found.append(play_match(one, other, MatchSettings(Rules(5, 14.5), 4, seed=1, at_once=at_once)))
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
    result = play_match(player, RandomPlayer(), MatchSettings(rules, 4, seed=2))
    assert len(result.counted) == 4 and result.wins >= 2


@gnugo
def test_gnugo_by_its_command(tmp_path: Path) -> None:
    spec = f"gtp:{GNUGO} --mode gtp --level 0 --chinese-rules --capture-all-dead --seed 3"
    (result,) = arena.evaluate([spec, "random"], 2, config(), tmp_path)
    assert result.name_a == "gnugo" and result.wins == 2
    with pytest.raises(InputError, match="gnugo:1 refused 'boardsize 25': unacceptable size"):
        arena.evaluate(["gnugo:1", "random"], 2, config("game.size=25"), tmp_path / "large")
    assert make_player("gnugo:1", config().evaluation, torch.device("cpu"), torch.float32).name == "gnugo:1"
