"""A run that is killed at any moment, again and again, goes on each time and ends with the weights of a run that was
not, bit for bit.

As a script, `test_kill.py FOLDER SEED TIMES`: kills so many runs of tests/tiny.py in FOLDER, each at a drawn rename or
removal of a file, before or after it, every third at a random moment, starting anew when one comes to its end. Forked
from one process that has torch loaded, a kill takes a second."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import tiny
import torch
from matches import dying

from zerogo import checkpoint
from zerogo.pipeline import commits, train
from zerogo.replay.shards import find_shards, load_shard

ROOT = Path(__file__).parent.parent
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
KILLS = 3
WRITING = (
    "selfplay.games=4",
    "pipeline.iterations=4",
    "pipeline.games_per_iteration=6",
    "pipeline.commit_seconds=0.01",
    "pipeline.keep_checkpoints=2",
    "replay.shard_samples=16",
    "replay.min_window=100",
    "replay.capacity=200",
)  # a run that writes files all the time, and removes some


def run_in_a_child(folder: Path, at_a_file: int = 0, after: bool = False) -> int:
    """Starts the run, or goes on with it, in a forked process, which dies at a rename or removal of a file if it is to;
    returns its number."""
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    torch.set_num_threads(1)
    commits.MOST_OF_TIME, counter = 0.5, [0]
    os.replace = dying(at_a_file, os.replace, after, counter)
    Path.unlink = dying(at_a_file, Path.unlink, after, counter)
    try:
        train(tiny.config(f"run.directory={folder}", *WRITING), resume=(folder / "tiny" / "config.yaml").exists())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def look(folder: Path, newest: str) -> str:
    """Asserts that all files are whole and that no commit was lost; returns the name of the newest."""
    found = commits.paths(folder)
    assert not found or found[-1].name >= newest, "a commit is gone"
    for path in [*found, *checkpoint.paths(folder)]:
        checkpoint.load(path)
    for shard in find_shards(folder / "replay") if (folder / "replay").exists() else []:
        assert len(load_shard(shard.path)) == shard.count
    return found[-1].name if found else newest


def test_killed_again_and_again(tmp_path: Path) -> None:
    """Drawn points that a random moment would seldom meet, and a moment; a person can ask for more."""
    command = [sys.executable, __file__, str(tmp_path), "5", str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr


def kill_many(folder: Path, seed: int, times: int) -> None:
    drawn, killed = random.Random(seed), 0
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


if __name__ == "__main__":
    kill_many(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
