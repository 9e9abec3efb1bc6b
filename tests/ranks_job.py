"""What the ranks of tests/test_ranks.py do once torchrun has started them, in FOLDER: one run that nothing stops, one
that signals and a full disk hold up, one that diverges on a rank, games of a network, settings that two cannot share,
and at last a run in which a rank is killed and which torchrun starts again."""

import errno
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import tiny
import torch

from zerogo import checkpoint, cli, ranks, signals
from zerogo.errors import InputError, Interrupted
from zerogo.pipeline import commits, generate, run, train
from zerogo.pipeline.commits import Commits
from zerogo.trainer import Trainer

SETTINGS = "replay.min_window=100 replay.capacity=400 pipeline.commit_seconds=0.3 selfplay.sgf_share=1".split()
SETTINGS += "selfplay.games=4 pipeline.games_per_iteration=4 selfplay.random_opening_games=10".split()
GATED = "evaluation.gate=0.5", "evaluation.every_iterations=1"
losses: list[float] = []


def noted(step: Callable) -> Callable:
    """Returns a training step whose losses are kept."""

    def note(self: Trainer, batch, measures: bool = True) -> dict:
        metrics = step(self, batch, measures)
        losses.append(float(metrics["loss"]))
        return metrics

    return note


def asked_at(number: int, act: Callable[[run.Run], None]) -> None:
    """Has rank 1 act when it asks for the n-th time whether to commit."""
    count, is_asked = [0], run.Run._is_asked

    def counted(self: run.Run) -> bool:
        count[0] += ranks.rank() == 1
        if count[0] == number:
            act(self)
        return is_asked(self)

    run.Run._is_asked = counted


def settings(folder: Path, name: str, *overrides: str) -> object:
    return tiny.config(f"run.directory={folder / name}", *SETTINGS, *GATED, *overrides)


def held_up(folder: Path) -> None:
    """A signal to rank 1 alone, then a disk that refuses two commits."""
    told = []
    asked_at(30, lambda _: (told.append(time.monotonic()), os.kill(os.getpid(), signal.SIGTERM)))
    try:
        train(settings(folder, "held"))
        raise AssertionError("the signal was not heard")
    except Interrupted as stopped:
        assert stopped.number == signal.SIGTERM and (not told or time.monotonic() - told[0] < 10)
    refusals, write = [errno.ENOSPC] * 2, Commits.write

    def refused(self: Commits, commit: checkpoint.Checkpoint, begun: float) -> None:
        if refusals:
            raise OSError(refusals.pop(), "no space", str(folder))
        write(self, commit, begun)

    Commits.write, signals.PATIENCE = refused, 0.3
    train(settings(folder, "held"), resume=True)
    assert not refusals or not ranks.is_first()
    Commits.write = write


def diverges(folder: Path) -> None:
    """Weights are no numbers on one rank."""

    def poison(running: run.Run) -> None:
        with torch.no_grad():
            next(running.trainer.network.parameters()).fill_(torch.nan)

    asked_at(5, poison)
    train(settings(folder, "nan", "pipeline.iterations=1", "replay.capacity=200"))


def refusals(folder: Path) -> list[str]:
    """Returns what is said of settings that two ranks cannot share."""
    found = []
    for override in ("training.batch=15", "selfplay.games=1", "pipeline.games_per_iteration=1"):
        try:
            train(settings(folder, "refused", override))
        except InputError as error:
            found.append(str(error))
    return found


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    is_asked = run.Run._is_asked
    tiny.decide_matches([0])
    with ranks.joined():
        if not ranks.were_restarted():
            Trainer.step = noted(Trainer.step)
            train(settings(folder, "whole"))
            found = {"losses": list(losses), "refused": refusals(folder)}
            held_up(folder)
            diverges(folder)
            run.Run._is_asked = is_asked
            setup = cli.set_up(settings(folder, "games", "selfplay.games=5"))
            generate(setup, checkpoint.load_newest(folder / "whole" / "tiny"), 11, folder / "games")
            if ranks.is_first():
                (folder / "found.json").write_text(json.dumps(found))
            asked_at(25, lambda _: os.kill(os.getpid(), signal.SIGKILL))
        commits.MOST_OF_TIME = 0.5
        train(settings(folder, "killed"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
