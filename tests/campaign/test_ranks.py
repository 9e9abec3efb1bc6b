"""Several ranks do what one process does: with torchrun, gloo and two processes, in one start for all that is looked at
here; what they do stands in ranks_job.py."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ranks_job
import tiny

from zerogo import checkpoint, cli
from zerogo.pipeline import snapshots
from zerogo.pipeline.actors import generate

HERE = Path(__file__).parent
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(map(str, (HERE.parents[1], HERE.parent, HERE))),
    "OMP_NUM_THREADS": "1",
}


def torchrun(number: int, *arguments: str) -> subprocess.CompletedProcess:
    """Starts ranks_job.py in so many ranks."""
    command = f"-m torch.distributed.run --standalone --nproc-per-node {number} --max-restarts 9".split()
    job = [sys.executable, *command, str(HERE / "ranks_job.py"), *arguments]
    return subprocess.run(job, capture_output=True, text=True, env=ENVIRONMENT, timeout=1800)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks have left."""
    folder = tmp_path_factory.mktemp("two")
    done = torchrun(2, str(folder))
    assert done.returncode != 0 and (folder / "killed").exists(), done.stdout + done.stderr
    assert "killed/tiny resumes from" in done.stderr  # torchrun names the one of two deaths that it sees first
    assert "rollback to step" in done.stderr and "the disk can be written to again" in done.stderr
    # What rank 1 refuses it says at each of torchrun's restarts.
    assert done.stderr.count("error: rank 1: something is odd") >= 1
    return folder


def test_two_ranks_end_with_one_network(two: Path) -> None:
    """All ranks play by one network and learn from one window, also after a signal to one of them and a full disk,
    and after a rank was killed with -9 and torchrun has started both again."""
    for name in ("whole", "held", "killed"):
        sums = json.loads((two / f"{name}.json").read_text())
        assert sums[0] == sums[1]
        last = next(snapshots.starts(two / name / "tiny"))
        assert last.counters["iterations"] == 2 and last.run["ranks"] == 2


def test_settings_that_ranks_can_not_share_get_a_sentence(two: Path) -> None:
    refused = json.loads((two / "found.json").read_text())["refused"]
    assert refused[0].startswith("training.batch is 15, which 2 processes") and "such as 14" in refused[0]
    assert [line.split(" is ")[0] for line in refused[1:]] == ["selfplay.slots", "pipeline.games_per_iteration"]


def test_ranks_that_can_not_go_on_end_with_one_sentence(two: Path, tmp_path: Path) -> None:
    """Other settings, code, folders, samples or commands; or a refusal of any."""
    shutil.copytree(two / "whole", tmp_path / "whole")
    job = [sys.executable, str(HERE / "ranks_job.py"), str(tmp_path), "refusals"]
    done = subprocess.run(job, capture_output=True, text=True, env=ENVIRONMENT, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "refusals.json").read_text())
    for name, sentence in {
        "other_settings": "error: training.batch is 32 on rank 1 (",
        "other_code": "error: the code is digest1",
        "other_folder": "all ranks need the same shared folder",
        "other_replay": "error: of them in memory is ",
        "refuses": "error: rank 1: something is odd here",
        "other_command": "error: out is 1 on rank 1 (",
    }.items():
        said = [line for _, text in found[name] for line in text.splitlines() if line.startswith("error:")]
        # Of a rank that refuses alone the other one says that it has ended.
        assert len(said) == 1 + (name == "refuses") and sentence in said[-1], found[name]
        assert [status for status, _ in found[name]] == [2, 2]


def test_two_ranks_take_in_what_actors_play(two: Path) -> None:
    """Each shard once, and both have the same samples. How many games a shard has differs."""
    shards, replays = json.loads((two / "found.json").read_text())["actors"]
    counters = next(snapshots.starts(two / "actors" / "tiny")).counters
    assert len(shards) == len(counters["actors"]) > 1 and replays[0] == replays[1]
    assert counters["replay"]["total"] == replays[0][0] == counters["replay"]["num_random"] + sum(shards)


def test_games_are_split_by_number(two: Path, tmp_path: Path) -> None:
    config = ranks_job.settings(tmp_path, "games", "selfplay.slots=5")
    generate(cli.set_up(config), checkpoint.load_newest(two / "whole" / "tiny"), 11, tmp_path / "games")
    games = [tiny.files(folder / "games" / "games") for folder in (two, tmp_path)]
    assert games[0] == games[1] and len(games[0]) == 11
    assert len(list((two / "games" / "samples").glob("shard-00*"))) >= 2
