"""A run that is killed at any moment goes on from its newest complete checkpoint and loses nothing that was finished.

As a script, `test_kill.py FOLDER SEED TIMES`: starts the run of tests/tiny.py in FOLDER that often, each time lets it
die at a drawn rename or removal of a file, before or after it, every third time at a random moment, and looks at what
is left. Forked from one process that has torch loaded, that takes a second each."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import tiny
import torch
from matches import dying

from zerogo import checkpoint
from zerogo.pipeline import train
from zerogo.replay.shards import Shard, find_shards, load_shard

ROOT = Path(__file__).parent.parent
KILLS = 4
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}


def started(folder: Path, *more: str) -> subprocess.Popen:
    """Starts train.py as a person would, on the config of tests/tiny.py; resumes where there is something to go on
    with."""
    command = [sys.executable, str(ROOT / "train.py"), "--config", str(folder / "tiny.yaml"), *more]
    resume = ["--resume"] if (folder / "tiny" / "config.yaml").exists() else []
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command + resume, env=ENVIRONMENT, **pipes)


def killed(folder: Path, delay: float, from_start: bool) -> None:
    """Lets the run go, kills it `delay` seconds after its first line (or after its start), and sees that nothing else
    ended it."""
    process = started(folder)
    if not from_start:
        process.stdout.readline()
    time.sleep(delay)
    assert process.poll() is None, process.communicate()[1]
    process.kill()
    _, errors = process.communicate()
    assert process.returncode == -9 and "Traceback" not in errors, errors


def seconds_to_start_and_of_a_round(folder: Path) -> tuple[float, float]:
    """Starts the run, kills it at its second checkpoint, and returns how long this machine took to its first line, and
    for its second round: fixed delays would end before the first round on a busy machine."""
    begun, process = time.monotonic(), started(folder)
    process.stdout.readline()
    times = [time.monotonic()]  # of the first line, and of two checkpoints
    while len(times) < 3:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
        if len(checkpoint.paths(folder / "tiny")) >= len(times):
            times.append(time.monotonic())
    process.kill()
    process.communicate()
    return times[0] - begun, times[2] - times[1]


def test_killed_again_and_again(tmp_path: Path) -> None:
    """The program itself, by its command; most kills are those of forked processes below."""
    tiny.config(f"run.directory={tmp_path}", *WRITING).dump(tmp_path / "tiny.yaml")
    drawn, watch = random.Random(20), Watch(tmp_path / "tiny")
    start, one_round = seconds_to_start_and_of_a_round(tmp_path)
    watch.look()
    for number in range(KILLS):
        is_early = number == 2  # while it loads and opens its files; else while it plays, learns and saves
        killed(tmp_path, drawn.uniform(0.2, 0.9) * start if is_early else drawn.uniform(0.0, 3.0) * one_round, is_early)
        watch.look()
    rounds = watch.newest.counters["rounds"]
    assert rounds >= KILLS // 2, "hardly anything happened between the kills"
    process = started(tmp_path, f"pipeline.iterations={rounds + 1}")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    watch.look()
    assert watch.newest.counters["rounds"] == rounds + 1
    assert not list((tmp_path / "tiny").rglob("*.tmp"))


def test_killed_before_and_after_renames_and_removals_and_at_random_moments(tmp_path: Path) -> None:
    """16 drawn points that a random moment would seldom meet, and 8 moments."""
    command = [sys.executable, __file__, str(tmp_path), "5", "24"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr


WRITING = (
    "selfplay.games=4",
    "pipeline.iterations=0",
    "pipeline.games_per_iteration=3",
    "replay.shard_samples=16",
    "replay.min_window=100000",
    "replay.capacity=100000",
)  # a run that writes files all the time


class Watch:
    """What has been seen of a run: its finished files by name, and each sample's content by (game, ply)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.finished: dict[Path, bytes] = {}
        self.samples: dict[tuple[int, int], tuple] = {}
        self.newest: checkpoint.Checkpoint | None = None
        self.crashes_between_saves = 0

    def look(self) -> None:
        """Asserts that nothing finished was lost or changed, that all of it loads, and that the run went on from its
        newest checkpoint."""
        for path, content in self.finished.items():
            assert path.exists() and path.read_bytes() == content, f"{path.name} was lost or changed"
        self._look_at_shards()
        self._look_at_checkpoints()
        self._look_at_lines()

    def _look_at_checkpoints(self) -> None:
        for path in checkpoint.paths(self.folder):
            if path in self.finished:
                continue
            found = checkpoint.load(path)
            if self.newest is not None:
                before, after = self.newest.counters, found.counters
                assert after["rounds"] == before["rounds"] + 1, "not from the newest complete checkpoint"
                assert found.step > self.newest.step and after["seconds"] > before["seconds"]
                assert after["replay"]["total"] > before["replay"]["total"] and after["games"] >= before["games"]
            else:
                assert found.counters["rounds"] == 1
            assert found.trainer["samples"] == 16 * found.step
            self.newest, self.finished[path] = found, path.read_bytes()

    def _look_at_shards(self) -> None:
        folder = self.folder / "replay"
        shards = find_shards(folder) if folder.exists() else []
        whole = [shard for shard in shards if not shard.is_open]
        ends = [0, *(shard.end for shard in whole)]
        assert [shard.first for shard in whole] == ends[:-1], "numbers are missing or double"
        for shard in shards:
            if shard.path not in self.finished:
                self._look_at_samples(shard)
            if not shard.is_open:
                self.finished.setdefault(shard.path, shard.path.read_bytes())

    def _look_at_samples(self, shard: Shard) -> None:
        """Samples of an open shard come again in the finished one: the same content. What was never in a file may come
        otherwise."""
        samples = load_shard(shard.path)
        assert len(samples) == shard.count
        for k in range(len(samples)):
            identity = (int(samples.game[k]), int(samples.ply[k]))
            content = (shard.first + k, samples.rows[k].tolist(), samples.policy[k].tolist(), float(samples.score[k]))
            same = self.samples.setdefault(identity, content) == content
            assert same, f"game {identity[0]} stands in two shards, differently"

    def _look_at_lines(self) -> None:
        path = self.folder / "logs" / "metrics.jsonl"
        if not path.exists():
            return
        records = tiny.lines(path)
        rounds = [record["time/rounds"] for record in records]
        assert rounds == list(range(1, len(rounds) + 1)), "a round is charted twice, or not"
        done = self.newest.counters["rounds"] if self.newest else 0
        assert len(rounds) in (done, done + 1)  # the chart comes just before the checkpoint
        self.crashes_between_saves += len(rounds) == done + 1


def run_and_die(folder: Path, drawn: random.Random, at_a_file: bool) -> None:
    """Starts or resumes the run in a child process, which dies at a drawn rename or removal, or at a random moment."""
    number, after, delay = drawn.randint(1, 16), drawn.random() < 0.5, drawn.uniform(0.0, 1.5)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        counter = [0]
        if at_a_file:
            os.replace = dying(number, os.replace, after, counter)
            Path.unlink = dying(number, Path.unlink, after, counter)
        try:
            train(tiny.config(f"run.directory={folder}", *WRITING), resume=(folder / "tiny" / "config.yaml").exists())
        finally:
            os._exit(1)  # the run has no end
    if not at_a_file:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (9, -9), f"the run ended with {status} before it was to die"


def watch_many_deaths(folder: Path, seed: int, times: int) -> None:
    drawn, watch = random.Random(seed), Watch(folder / "tiny")
    for number in range(times):
        run_and_die(folder, drawn, number % 3 > 0)
        watch.look()
    print(f"{watch.newest.counters['rounds']} rounds, {len(watch.finished)} files, {len(watch.samples)} samples")


if __name__ == "__main__":
    watch_many_deaths(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
