"""What the ranks of tests/test_ranks.py do once torchrun has started them, in FOLDER: one run that nothing stops, one
that signals and a full disk hold up, one that diverges on a rank, one that only an actor plays for, games of a network,
settings that two cannot share, and at last a run in which a rank is killed, which torchrun starts again, and which then
refuses to go on. `ranks_job.py FOLDER refusals`: what ends two ranks of such a run, in forked processes."""

import errno
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import tiny
import torch
from ranks import environments

from zerogo import checkpoint, cli, pipeline
from zerogo.errors import InputError, Interrupted
from zerogo.pipeline import run, snapshots, train
from zerogo.pipeline.actors import Actor, Inbox, generate
from zerogo.pipeline.snapshots import Snapshots
from zerogo.replay import shards
from zerogo.system import distributed, runtime, signals
from zerogo.system.distributed import Silent
from zerogo.system.runtime import script_main
from zerogo.system.signals import Signals

SETTINGS = "replay.min_window=100 replay.capacity=400 pipeline.snapshot_seconds=0.3 selfplay.sgf_share=1".split()
SETTINGS += "selfplay.slots=4 pipeline.games_per_iteration=4 selfplay.random_opening_games=10".split()
GATED = "evaluation.gate=0.5", "evaluation.every_iterations=1"


def asked_at(number: int, act: Callable[[run.Run], None]) -> None:
    """Has rank 1 act when it asks for the n-th time whether to snapshot."""
    count, is_asked = [0], run.Run._has_request

    def counted(self: run.Run) -> bool:
        count[0] += distributed.rank() == 1
        if count[0] == number:
            act(self)
        return is_asked(self)

    run.Run._has_request = counted


def settings(folder: Path, name: str, *overrides: str) -> object:
    return tiny.config(f"run.directory={folder / name}", *SETTINGS, *GATED, *overrides)


def train_and_compare(folder: Path, name: str, resume: bool = False) -> None:
    """Trains to the end and leaves sums over each rank's averaged network and window in NAME.json."""
    sums, close = [], run.Run.close

    def closed(self: run.Run) -> None:
        weights = sum(float(part.double().sum()) for part in self.trainer.averaged.state_dict().values())
        sums[:] = [weights, self.replay.total, int(self.replay.newest(len(self.replay)).records().sum())]
        close(self)

    run.Run.close = closed
    train(settings(folder, name), resume=resume)
    run.Run.close = close
    text = json.dumps(distributed.all_gather_object(sums))
    distributed.on_rank0((folder / f"{name}.json").write_text, text)
    distributed.barrier()  # a rank that fails next has torchrun kill the one that writes


def held_up(folder: Path) -> None:
    """A signal to rank 1 alone, then a disk that refuses two snapshots."""
    told = []
    asked_at(30, lambda _: (told.append(time.monotonic()), os.kill(os.getpid(), signal.SIGTERM)))
    try:
        train(settings(folder, "held"))
        raise AssertionError("the signal was not heard")
    except Interrupted as stopped:
        assert stopped.number == signal.SIGTERM and (not told or time.monotonic() - told[0] < 10)
    refusals, write = [errno.ENOSPC] * 2, Snapshots.write

    def refused(self: Snapshots, snapshot: checkpoint.Checkpoint, begun: float) -> None:
        if refusals:
            raise OSError(refusals.pop(), "no space", str(folder))
        write(self, snapshot, begun)

    Snapshots.write, signals.PATIENCE = refused, 0.3
    train_and_compare(folder, "held", resume=True)
    assert not refusals or not distributed.is_rank0()
    Snapshots.write = write


def diverges(folder: Path) -> None:
    """Weights are no numbers on one rank, once it has learned."""
    learn, ranks = run.Run._train, [1]

    def poisoned(self: run.Run) -> dict[str, float]:
        numbers = learn(self)
        if distributed.rank() in ranks:
            ranks.clear()
            with torch.no_grad():
                next(self.trainer.network.parameters()).fill_(torch.nan)
        return numbers

    run.Run._train = poisoned
    train(settings(folder, "nan", "pipeline.iterations=1", "replay.capacity=200"))
    run.Run._train = learn


def refusals(folder: Path) -> list[str]:
    """Returns what is said of settings that two ranks cannot share."""
    found = []
    for override in ("training.batch=15", "selfplay.slots=1", "pipeline.games_per_iteration=1"):
        try:
            train(settings(folder, "refused", override))
        except InputError as error:
            found.append(str(error))
    return found


def other_settings(folder: Path, rank: int) -> None:
    train(settings(folder, "new", *["training.batch=32"] * rank))


def other_code(folder: Path, rank: int) -> None:
    runtime.code_digest = lambda: f"digest{rank}"
    train(settings(folder, "new"))


def other_folder(folder: Path, rank: int) -> None:
    (here := folder / f"machine{rank}").mkdir()
    os.chdir(here)
    pipeline.SEEN_WITHIN = 0.3
    train(settings(Path(), "new"))


def other_replay(folder: Path, rank: int) -> None:
    """A shard is not there for one rank."""
    find = shards.find_shards
    shards.find_shards = lambda directory: find(directory)[: -rank or None]
    train(settings(folder, "whole", "pipeline.iterations=9"), resume=True)


def refuses(folder: Path, rank: int) -> None:
    if rank:
        raise InputError("something is odd here")
    distributed.barrier()


def other_command(folder: Path, rank: int) -> None:
    raise AssertionError("ranks of different commands go no further")


ENDS = (other_settings, other_code, other_folder, other_replay, refuses, other_command)


def ends_of(folder: Path, work: Callable[[Path, int], None]) -> list[tuple[int, str]]:
    """Does work in two ranks until they have ended; returns for each its status and what it said. One that hangs is
    killed when the other one has ended, or both after two minutes."""

    def in_rank(rank: int) -> None:
        with distributed.process_group({"out": rank} if work is other_command else {}):
            work(folder, rank)

    said = [folder / f"{work.__name__}.{rank}" for rank in range(2)]
    children, status, stop = [], {}, time.monotonic() + 120
    for rank, environment in enumerate(environments(2)):
        children.append(os.fork())
        if not children[-1]:
            os.environ.update(environment)
            os.dup2(os.open(said[rank], os.O_WRONLY | os.O_CREAT), 2)
            try:
                script_main(lambda: in_rank(rank))  # noqa: B023
            except SystemExit as stopped:
                os._exit(stopped.code)
    while len(status) < 2:
        child, code = os.waitpid(-1, os.WNOHANG)
        status |= {child: os.waitstatus_to_exitcode(code)} if child else {}
        is_over = time.monotonic() > stop
        for one in children if is_over else ():
            if one not in status:
                os.kill(one, signal.SIGKILL)
        time.sleep(0.02)
    return [(status[child], path.read_text()) for child, path in zip(children, said, strict=True)]


def actors(folder: Path) -> list:
    """A run of two ranks that takes in what actors play, each of whom is in one of them in its turn. Returns how many
    samples their shards have, and of each rank's replay the number of samples and a sum of all that they are."""
    turns, shards_of, replays = iter([1, 0] * 2), [], []
    words = "replay.external=true pipeline.plays=false pipeline.games_per_iteration=9 pipeline.iterations=2".split()

    setup = cli.set_up(settings(folder, "actors", *words))

    def act(self: Inbox) -> None:
        if next(turns) == distributed.rank():
            actor = Actor(folder / "actors" / "tiny", ["selfplay.slots=8", "search.leaves=1"], Signals(), Silent())
            with patch.object(cli, "set_up", lambda config: setup):  # a collective call
                actor._follow()
            actor.selfplay.play(6, collected=actor.collected)
            shards_of.append(len(actor.collected.all_samples()))
            actor._write()
        distributed.barrier()

    def closed(self: run.Run) -> None:
        replays.append([self.replay.total, int(self.replay.newest(len(self.replay)).records().sum())])
        close(self)

    Inbox.wait, wait = act, Inbox.wait
    run.Run.close, close = closed, run.Run.close
    train(settings(folder, "actors", *words))
    Inbox.wait, run.Run.close = wait, close
    return [sum(distributed.all_gather_object(found), []) for found in (shards_of, replays)]


def main(folder: Path) -> None:
    is_asked = run.Run._has_request
    with distributed.process_group():
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            train_and_compare(folder, "whole")
            found = {"refused": refusals(folder)}
            held_up(folder)
            diverges(folder)
            run.Run._has_request = is_asked
            found["actors"] = actors(folder)
            setup = cli.set_up(settings(folder, "games", "selfplay.slots=5"))
            generate(setup, checkpoint.load_newest(folder / "whole" / "tiny"), 11, folder / "games")
            if distributed.is_rank0():
                (folder / "found.json").write_text(json.dumps(found))
            asked_at(10, lambda _: os.kill(os.getpid(), signal.SIGKILL))
        snapshots.MOST_OF_TIME = 0.5
        train_and_compare(folder, "killed")
        refuses(folder, distributed.rank())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    where, *what = Path(sys.argv[1]), *sys.argv[2:]
    torch.set_num_threads(1)
    tiny.decide_matches([0])
    if what == ["refusals"]:
        (where / "refusals.json").write_text(json.dumps({work.__name__: ends_of(where, work) for work in ENDS}))
    else:
        script_main(lambda: main(where))
