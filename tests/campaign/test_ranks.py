"""Several ranks do what one process does: with torchrun, gloo and two processes, in one start for all that is looked at
here; what they do stands in ranks_job.py."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import ranks_job
import tiny
import torch

from zerogo import checkpoint, cli
from zerogo.pipeline import generate, snapshots
from zerogo.trainer import Trainer

HERE = Path(__file__).parent
HEARD_NOTHING = (
    "interrupted by SIGTERM; other processes gave no sign for 1 s, exiting, the last snapshot remains valid\n"
)
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
    assert "exitcode: -9" in done.stderr
    assert "goes back to step" in done.stderr and "the run goes on: the disk takes" in done.stderr
    # A refusal is said once, and again after a restart; then nothing is started any more.
    assert done.stderr.count("something is odd here") == done.stderr.count("error: rank 1: something is odd") == 2
    return folder


def require_losses_of_one_process(found: list[float], least: int, folder: Path, patch, *overrides: str) -> None:
    """Asserts that ranks had the losses of one process, as long as all learn from the games that a run begins with."""
    patch.setattr(Trainer, "step", ranks_job.noted(Trainer.step))
    ranks_job.losses.clear()
    tiny.run(folder, *ranks_job.SETTINGS, "pipeline.iterations=1", *overrides)
    steps = next(step for step, loss in enumerate(ranks_job.losses) if loss > 2)  # in whose games a policy is learned
    assert steps >= least
    torch.testing.assert_close(found[:steps], ranks_job.losses[:steps], rtol=1e-5, atol=1e-5)


def test_two_ranks_learn_as_one_process_does(two: Path, tmp_path: Path, monkeypatch) -> None:
    found = json.loads((two / "found.json").read_text())
    require_losses_of_one_process(found["losses"], 9, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 4])
def test_more_ranks_learn_as_one_process_does(number: int, tmp_path: Path, monkeypatch) -> None:
    done = torchrun(number, str(tmp_path), "steps")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "losses.json").read_text())
    require_losses_of_one_process(found, 25, tmp_path / "one", monkeypatch, *ranks_job.MORE)


@pytest.mark.parametrize("name", ["held", "killed"])
def test_stopped_or_killed_ranks_end_as_others_do(two: Path, name: str) -> None:
    """A rank that alone gets a signal, a disk that refuses the first one, and a rank that is killed with -9. In all of
    them the gate has let the first round's checkpoint play, on both ranks."""
    assert not tiny.different(two / "whole" / "tiny", two / name / "tiny")
    parts = [max((two / run / "tiny" / snapshots.FOLDER).glob("*.part")) for run in ("whole", name)]
    of_rank = [checkpoint.read(part)["games"] for part in parts]
    games, first = (
        [one["drawn"]["number"] for one in of_rank],
        checkpoint.load(snapshots.paths(two / name / "tiny")[-1]),
    )
    assert torch.equal(*games) and set((games[0] % 2).tolist()) == {1}
    of_both = torch.cat([first.run["games"]["network_steps"], *(one["network_steps"] for one in of_rank)])
    assert [*set(of_both.tolist())] == first.counters["players"] == first.counters["saved"][:1]


def test_settings_that_ranks_can_not_share_get_a_sentence(two: Path) -> None:
    refused = json.loads((two / "found.json").read_text())["refused"]
    assert refused[0].startswith("training.batch is 15, of which 2 processes") and "such as 14" in refused[0]
    assert [line.split(" is ")[0] for line in refused[1:]] == ["selfplay.slots", "pipeline.games_per_iteration"]


def test_ranks_that_can_not_go_on_end_with_one_sentence(two: Path, tmp_path: Path) -> None:
    """Other settings, code, folders or samples; a refusal of any; a signal or half an hour without a sign of life."""
    shutil.copytree(two / "whole", tmp_path / "whole")
    job = [sys.executable, str(HERE / "ranks_job.py"), str(tmp_path), "refusals"]
    done = subprocess.run(job, capture_output=True, text=True, env=ENVIRONMENT, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "refusals.json").read_text())
    for name, sentence in {
        "other_settings": "error: training.batch is 32 on rank 1 (",
        "other_code": "error: the code is digest1",
        "other_folder": "is not the folder in which the first rank is",
        "other_replay": "error: of them in memory is ",
        "refuses": "error: rank 1: something is odd here",
    }.items():
        said = [line for _, text in found[name] for line in text.splitlines() if line.startswith("error:")]
        assert len(said) == 1 and sentence in said[0], found[name]
        assert [status for status, _ in found[name]] == [2, 2]
    assert found["hangs"][0] == [128 + signal.SIGTERM, HEARD_NOTHING]
    assert found["is_slow"] == [[128 + signal.SIGTERM, "interrupted by SIGTERM\n"], [0, ""]]
    assert (
        found["is_silent"][0][0] == 2
        and "cannot be reached; the last snapshot remains valid" in found["is_silent"][0][1]
    )


def test_two_ranks_take_in_what_actors_play(two: Path) -> None:
    """Each shard once, and both have the same samples."""
    shards, replays = json.loads((two / "found.json").read_text())["beside"]
    counters = next(snapshots.starts(two / "beside" / "tiny")).counters
    assert len(shards) == len(counters["actors"]) == 4 and replays[0] == replays[1]
    assert counters["replay"]["total"] == replays[0][0] == counters["replay"]["num_random"] + sum(shards)


def test_a_run_goes_on_with_another_number_of_ranks(two: Path, tmp_path: Path, capfd) -> None:
    """The games in flight begin anew, under numbers that no other had; a snapshot without a part is none."""
    folder = shutil.copytree(two / "whole", tmp_path / "whole")
    newest = next(snapshots.starts(folder / "tiny"))
    used = int(newest.counters["games"])
    tiny.run(folder, *ranks_job.SETTINGS, "pipeline.iterations=3", resume=True)
    assert "1 processes, there were 2: the games in flight begin anew" in capfd.readouterr().err
    samples, after = tiny.all_samples(folder / "tiny"), next(snapshots.starts(folder / "tiny"))
    new = samples.game[samples.network_step > newest.step - 1]
    assert len(new) and int(new.min()) >= used and after.counters["iterations"] == 3
    assert after.run.get("ranks", 1) == 1
    older, newest = snapshots.paths(two / "whole" / "tiny")
    parts = [path.with_suffix(".1.part") for path in (older, newest)]
    shutil.copy(*parts)
    with pytest.warns(UserWarning, match="belongs to another snapshot"):
        assert next(snapshots.starts(two / "whole" / "tiny")).source == str(older)
    for part in parts:
        part.rename(part.with_suffix(".away"))
    with pytest.warns(UserWarning, match="part"):
        assert next(snapshots.starts(two / "whole" / "tiny")).run == {}


def test_games_are_split_by_number(two: Path, tmp_path: Path) -> None:
    config = ranks_job.settings(tmp_path, "games", "selfplay.slots=5")
    generate(cli.set_up(config), checkpoint.load_newest(two / "whole" / "tiny"), 11, tmp_path / "games")
    games = [tiny.files(folder / "games" / "games") for folder in (two, tmp_path)]
    assert games[0] == games[1] and len(games[0]) == 11
    assert len(list((two / "games" / "samples").glob("shard-00*"))) >= 2
