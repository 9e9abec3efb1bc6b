"""Really killing `train.py` at random moments: what was finished stays, and the next start goes on from the last complete checkpoint."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path


from zerogo import checkpoint
from zerogo.config import load
from zerogo.replay import Replay
from zerogo.replay.shards import find_shards, load_shard
from zerogo.telemetry import read_metrics

ROOT = Path(__file__).parent.parent
KILLS = 12
TINY = """
game.size=3 game.komi=0.5 network.blocks=1 network.channels=8 network.pooling_channels=4 network.head_channels=4 network.value_hidden=4
selfplay.games=8 selfplay.full_simulations=2 selfplay.random_opening_games=16 selfplay.sgf_share=0.2 search.keep_tree=false
replay.min_window=100000 replay.capacity=100000 replay.shard_samples=64 replay.keep_shards=true training.batch=16 training.warmup_samples=0
evaluation.every_minutes=0 pipeline.games_per_iteration=8 pipeline.checkpoint_minutes=0 pipeline.keep_checkpoints=0 pipeline.minutes=0
pipeline.iterations=0 pipeline.final_matches=false run.device=cpu run.threads=1
""".split()


def start(directory: Path, *more: str) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "train.py"), "--run", "killed", f"run.directory={directory}", *TINY, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def wait_for_checkpoint(run: Path, after: int, process: subprocess.Popen) -> None:
    """Waits until a checkpoint newer than the step is there, so that every start does something."""
    for _ in range(600):
        steps = [int(path.stem.removeprefix("step-")) for path in checkpoint.paths(run)]
        if max(steps, default=-1) > after:
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    raise AssertionError("no checkpoint within a minute")


def test_kill_at_random_moments(tmp_path: Path) -> None:
    run, rng, more = tmp_path / "killed", random.Random(7), []
    steps: list[int] = []
    for _ in range(KILLS):
        before = steps[-1] if steps else -1
        process = start(tmp_path, *more)
        wait_for_checkpoint(run, before, process)
        time.sleep(rng.uniform(0.0, 0.8))
        complete = checkpoint.paths(run)
        shards = [shard.path for shard in find_shards(run / "replay") if not shard.is_open]
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert all(path.exists() for path in (*complete, *shards)), "a finished file is gone"
        for path in complete[-3:]:
            checkpoint.load(path)
        for path in shards:
            load_shard(path, 3)
        for record in read_metrics(run / "logs" / "metrics.jsonl"):
            assert isinstance(record["step"], int)
        steps.append(int(complete[-1].stem.removeprefix("step-")))
        more = ["--resume"]
    assert steps == sorted(set(steps)), "a start did not go on from the newest checkpoint"

    saved = checkpoint.load(checkpoint.newest(run))
    assert saved.step == saved.trainer["steps"] and saved.counters["rounds"] >= KILLS
    replay = Replay.open(load(run / "config.yaml").replay, 3, run / "replay")
    games, first = {}, 0
    for shard in sorted((shard for shard in find_shards(run / "replay") if not shard.is_open), key=lambda shard: shard.first):
        samples = load_shard(shard.path, 3)
        assert shard.first == first and len(samples) == shard.count
        first = shard.end
        for number, ply, rows in zip(samples.game.tolist(), samples.ply.tolist(), samples.rows, strict=True):
            assert games.setdefault((number, ply), rows) is rows, f"game {number} is there twice"
    assert replay.total >= first > 0


def test_a_run_in_use_is_refused(tmp_path: Path) -> None:
    process = start(tmp_path)
    try:
        wait_for_checkpoint(tmp_path / "killed", -1, process)
        second = start(tmp_path, "--resume")
        assert second.wait(60) == 2
        error = second.stderr.read()
        assert "already in use" in error and error.count("\n") == 1
    finally:
        process.kill()
        process.wait()
    third = start(tmp_path)
    assert third.wait(60) == 2 and "--resume" in third.stderr.read()
    assert checkpoint.newest(tmp_path / "killed") is not None
