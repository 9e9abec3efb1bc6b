"""A run that is killed at any moment, again and again, goes on each time and ends with the weights of a run that was
not, bit for bit; with actors beside it, it has each of their shards once.

As a script, `test_kill.py FOLDER SEED TIMES`: kills so many runs of tests/tiny.py in FOLDER, each at a drawn rename or
removal of a file, before or after it, every third at a random moment, starting anew when one comes to its end. Forked
from one process that has torch loaded, a kill takes a second. `test_kill.py FOLDER SEED TIMES actor` kills an actor
beside a run so, `… trainer` a run to which an actor adds, and `… rank` one of two ranks."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ranks_job
import tiny
import torch
from matches import dying

from zerogo import checkpoint
from zerogo.errors import Interrupted
from zerogo.pipeline import actors, snapshots, train
from zerogo.pipeline.actors import watch
from zerogo.replay.shards import find_shards, load_shard
from zerogo.system import distributed

HERE = Path(__file__).parent
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (HERE.parents[1], HERE.parent)))}
KILLS = 3
WRITING = (
    "selfplay.slots=4",
    "pipeline.iterations=4",
    "pipeline.games_per_iteration=6",
    "pipeline.snapshot_seconds=0.01",
    "pipeline.keep_checkpoints=2",
    "replay.shard_samples=16",
    "replay.min_window=100",
    "replay.capacity=200",
)  # a run that writes files all the time, and removes some


def go(folder: Path, *overrides: str) -> None:
    """Starts the run, or goes on with it."""
    config = tiny.config(f"run.directory={folder}", *WRITING, *overrides)
    train(config, resume=(folder / "tiny" / "config.yaml").exists())


def run_in_a_child(folder: Path, at_a_file: int = 0, after: bool = False, work: Callable[[Path], Any] = go) -> int:
    """Does work in a forked process, which dies at a rename or removal of a file if it is to; returns its number."""
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    torch.set_num_threads(1)
    snapshots.MOST_OF_TIME, counter = 0.5, [0]
    os.replace = dying(at_a_file, os.replace, after, counter)
    Path.unlink = dying(at_a_file, Path.unlink, after, counter)
    try:
        work(folder)
        os._exit(0)
    except Interrupted as stopped:
        os._exit(128 + stopped.number)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def look(folder: Path, newest: str) -> str:
    """Asserts that all files are whole and that no snapshot was lost; returns the name of the newest."""
    found = snapshots.paths(folder)
    assert not found or found[-1].name >= newest, "a snapshot is gone"
    for path in [*found, *checkpoint.paths(folder)]:
        checkpoint.load(path)
    for shard in find_shards(folder / "replay") if (folder / "replay").exists() else []:
        assert len(load_shard(shard.path)) == shard.count
    return found[-1].name if found else newest


def test_killed_again_and_again(tmp_path: Path) -> None:
    """GameRandomness points that a random moment would seldom meet, and a moment; a person can ask for more."""
    command = [sys.executable, __file__, str(tmp_path), "5", str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["actor", "trainer"])
def test_killed_again_and_again_beside_actors(tmp_path: Path, victim: str) -> None:
    command = [sys.executable, __file__, str(tmp_path), "5", "4", victim]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr


def kill_many(folder: Path, seed: int, times: int) -> None:
    drawn, killed = random.Random(seed), 0
    folder.mkdir(parents=True, exist_ok=True)
    assert os.waitpid(run_in_a_child(folder / "whole"), 0)[1] == 0
    while killed < times:
        newest, part = "", folder / f"part-{killed}"
        while True:
            is_moment, goes_on = killed % 3 == 0, killed < times
            child = run_in_a_child(part, drawn.randint(1, 60) if goes_on and not is_moment else 0, drawn.random() < 0.5)
            if goes_on and is_moment:
                time.sleep(drawn.uniform(0.0, 3.0))
                os.kill(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            newest = look(part / "tiny", newest)
            assert status in (0, 9, -9), f"the run ended with {status}\n{part.with_suffix('.log').read_text()}"
            if status == 0:
                break
            killed += 1
        assert not (found := tiny.different(folder / "whole" / "tiny", part / "tiny")), found
        assert not list((part / "tiny").rglob("*.tmp"))
        print(f"{killed} kills, the newest is {newest}")
        shutil.rmtree(part)


def with_actors(folder: Path) -> None:
    """Starts a run that only actors play for, or goes on with it; a shard that it removes stays in FOLDER/gone."""
    remove = Path.unlink

    def moved(path: Path, missing_ok: bool = False) -> None:
        if (name := actors.NAME.fullmatch(path.name)) and path.exists():
            (folder / "gone" / name[1]).touch()
        remove(path, missing_ok)

    Path.unlink, actors.LOOK = moved, 0.1
    go(
        folder,
        "replay.external=true",
        "pipeline.plays=false",
        "pipeline.iterations=0",
        "selfplay.random_opening_games=0",
    )


def act(folder: Path) -> None:
    actors.LOOK = 0.1
    watch(folder / "tiny", ["pipeline.snapshot_seconds=0.3", "selfplay.slots=8", "search.leaves=1"])


def account(folder: Path) -> int:
    """Asserts that the newest snapshot has the samples of all shards that it has taken in, once each; returns how many
    shards these are."""
    before, found = None, snapshots.paths(folder / "tiny")
    while before != found:  # a run that goes on may snapshot, and remove shards, meanwhile
        newest, gone = next(snapshots.starts(folder / "tiny")), list((folder / "gone").iterdir())
        before, found = found, snapshots.paths(folder / "tiny")
    names = {path.name for path in gone} | set(newest.counters["external"])
    of_round = [len(records) for records in newest.run["iteration"]["records"][:1]]
    total = newest.counters["replay"]["total"] + sum(of_round)
    assert total == sum(int(actors.NAME.fullmatch(name)[4]) for name in names)
    return len(names)


def until(holds: Callable[[], Any], seconds: float = 1800) -> None:
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < seconds, "it does not go on"
        time.sleep(0.1)


def ended(child: int, seconds: float = 1800) -> int:
    """Returns a process's exit code once it is over."""
    found = [0, 0]

    def is_over() -> bool:
        found[:] = os.waitpid(child, os.WNOHANG)
        return found[0] == child

    until(is_over, seconds)
    return os.waitstatus_to_exitcode(found[1])


def kill_beside(folder: Path, seed: int, times: int, victim: str) -> None:
    """Kills an actor beside a run, or a run to which an actor adds."""
    drawn, run, newest, taken = random.Random(seed), folder / "tiny", "", 0
    works, most = {"trainer": with_actors, "actor": act}, {"trainer": 60, "actor": 3}[victim]
    (folder / "gone").mkdir(parents=True)
    started = run_in_a_child(folder, work=with_actors)
    until(lambda: checkpoint.paths(run))
    os.kill(started, signal.SIGTERM)
    assert ended(started) == 128 + signal.SIGTERM
    (other,) = works.keys() - {victim}
    beside = run_in_a_child(folder, work=works[other])
    for killed in range(1, times + 1):
        at_a_file = drawn.randint(1, most) if killed % 3 else 0
        child = run_in_a_child(folder, at_a_file, drawn.random() < 0.5, works[victim])
        if not at_a_file:
            time.sleep(drawn.uniform(0.0, 6.0))
            os.kill(child, signal.SIGKILL)
        assert ended(child) in (9, -9) and os.waitpid(beside, os.WNOHANG) == (0, 0), folder.with_suffix(".log")
        if victim == "trainer":
            newest, taken = look(run, newest), account(folder)
            print(f"{killed} kills of the run, {taken} shards taken, the newest is {newest}", flush=True)
    child = run_in_a_child(folder, work=works[victim])
    until(lambda: account(folder) > taken)
    for one in (child, beside):
        os.kill(one, signal.SIGTERM)
        assert ended(one, 10) == 128 + signal.SIGTERM
    names = {
        path.name[:12] for path in [*(folder / "gone").iterdir(), *(one.path for one in actors.waiting(run / "actors"))]
    }
    print(f"{times} kills of the {victim}: {account(folder)} shards of {len(names)} actors taken once each")
    assert not (run / "actors" / actors.REFUSED).exists()


def start_ranks(folder: Path, restarts: int) -> list[int]:
    """Starts two ranks of one run in forked processes, as torchrun would, or goes on with it; returns their numbers."""
    told = ranks_job.environments(2, restarts)

    def work(rank: int) -> Callable[[Path], None]:
        def go_on(folder: Path) -> None:
            os.environ.update(told[rank])
            with distributed.process_group():
                train(tiny.config(f"run.directory={folder}", *WRITING))

        return go_on

    return [run_in_a_child(folder, work=work(rank)) for rank in range(2)]


def kill_ranks(folder: Path, seed: int, times: int) -> None:
    """Kills one of two ranks at random moments; the other one must leave by itself. The run ends with as many
    iterations as one that nothing kills, and has no position twice. Which games it has depends on the ranks' speed."""
    drawn, killed, part, newest = random.Random(seed), 0, 0, ""
    assert [ended(child) for child in start_ranks(folder / "whole", 0)] == [0, 0]
    while killed < times:
        part, restarts, newest, status = part + 1, 0, "", [1]
        while any(status):
            children = start_ranks(folder / f"part-{part}", restarts)
            if killed < times:
                time.sleep(drawn.uniform(0.0, 8.0))
                os.kill(children[drawn.randrange(2)], signal.SIGKILL)  # one that is over waits to be asked how
            status, restarts = [ended(child, 60) for child in children], restarts + 1
            killed += -9 in status
            newest = look(folder / f"part-{part}" / "tiny", newest)
        ends = [next(snapshots.starts(folder / name / "tiny")).counters for name in ("whole", f"part-{part}")]
        assert ends[0]["iterations"] == ends[1]["iterations"] and ends[1]["finished"] > 0
        samples = tiny.all_samples(folder / f"part-{part}" / "tiny")
        positions = torch.stack([samples.game, samples.ply.to(torch.int64)])
        assert positions.unique(dim=1).shape == positions.shape, "a game is there twice"
        print(f"{killed} kills of a rank, the newest is {newest}", flush=True)


if __name__ == "__main__":
    where, first, number = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    where.mkdir(parents=True, exist_ok=True)
    if sys.argv[4:] == ["rank"]:
        kill_ranks(where, first, number)
    else:
        kill_beside(where, first, number, sys.argv[4]) if sys.argv[4:] else kill_many(where, first, number)
