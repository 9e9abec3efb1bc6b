"""Two ranks, which need no torchrun, leave what one process leaves: a match and a run, each of which one process takes
up."""

import json
import signal
import time
from pathlib import Path

import matches
import pytest
import ranks
import tiny
import torch
from ranks_job import asked_at

from zerogo import arena
from zerogo.arena import pool
from zerogo.errors import Interrupted
from zerogo.network.trainer import Trainer
from zerogo.pipeline import run, snapshots
from zerogo.pipeline.matches import Matches
from zerogo.pipeline.snapshots import Snapshots
from zerogo.search import Search
from zerogo.system import distributed


def evaluate(folder: Path, games: int, name: str, resume: bool = False) -> None:
    arena.evaluate(["random", "mcts:4"], games, matches.config("game.size=4"), folder / name, 2, resume)


def work_of_two(folder: Path) -> None:
    """A run with matches at its end, and an evaluation whose last games are left to others."""
    tiny.run(folder, "pipeline.final_matches=true", "evaluation.games=3", "selfplay.slots=4")
    evaluate(folder, 6, "two")
    assert not distributed.is_rank0() or (folder / "two" / "report.html").exists()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks have left."""
    folder = tmp_path_factory.mktemp("two")
    ranks.run_in_two(work_of_two, folder)
    return folder


def test_two_ranks_play_the_games_of_one(two: Path, capfd) -> None:
    """A match that one process takes up from two has the games of one that nothing stopped."""
    evaluate(two, 10, "two", resume=True)
    assert "6 of 10 games are finished already" in capfd.readouterr().err
    evaluate(two, 10, "one")
    assert matches.written(two / "two") == matches.written(two / "one")
    assert tiny.files(two / "two" / "games") == tiny.files(two / "one" / "games")


def test_final_matches_are_those_of_one_process(two: Path) -> None:
    last = next(snapshots.starts(two / "tiny"))
    found = Matches(tiny.config("evaluation.games=3"), tiny.CPU, torch.float32)
    ((_, _, result, _),) = found.play(last, 6)
    assert pool.read(two / "tiny" / pool.FILE) == [pool.Meeting.of(result)]


def test_a_run_goes_on_with_another_number_of_processes(two: Path, capfd) -> None:
    """Its games in progress begin anew, under numbers that no other had."""
    newest = next(snapshots.starts(two / "tiny"))
    assert newest.run["ranks"] == 2 and newest.counters["iterations"] == 2
    assert '"time/waiting_share"' in (two / "tiny" / "logs" / "metrics.jsonl").read_text()
    tiny.run(two, "pipeline.iterations=3", "selfplay.slots=4", resume=True)
    assert "number of processes changed from 2 to 1: games in progress start anew" in capfd.readouterr().err
    samples, after = tiny.all_samples(two / "tiny"), next(snapshots.starts(two / "tiny"))
    new = samples.game[samples.network_step > newest.step - 1]
    assert len(new) and int(new.min()) >= int(newest.counters["games"]) and after.counters["iterations"] == 3
    assert after.run.get("ranks", 1) == 1


GAMES = "selfplay.slots=4 pipeline.games_per_iteration=24 selfplay.sgf_share=1 replay.capacity=100000".split()


def stops_while_it_plays(folder: Path) -> None:
    asked_at(100, lambda running: setattr(running.signals, "exit_signal", signal.SIGTERM))
    with pytest.raises(Interrupted):
        tiny.run(folder, *GAMES)


def test_no_finished_game_of_any_rank_is_lost(tmp_path: Path) -> None:
    """Rank 1 is asked to leave amid its games; one process goes on."""
    ranks.run_in_two(stops_while_it_plays, tmp_path)
    iteration = next(snapshots.starts(tmp_path / "tiny")).run["iteration"]
    assert not iteration["is_learning"] and len(set(iteration["collected"]["lengths"].tolist())) > 0
    tiny.run(tmp_path, *GAMES, resume=True)
    written = {int(path.stem.split("-")[-1]) for path in (tmp_path / "tiny" / "games").glob("*.sgf")}
    learned = set(tiny.all_samples(tmp_path / "tiny").game.tolist())
    assert len(written) >= 48 and written <= learned, sorted(written - learned)


def one_is_slow(folder: Path) -> None:
    """Leaves the numbers of games of this rank by iteration. Rank 1 takes longer for each step of the search."""
    simulate, write, numbers = Search.simulate, run.Run._write_games, {}

    def slow(self: Search, *arguments: object) -> None:
        time.sleep(0.1 * distributed.rank())  # which has three quarters of the games at once
        simulate(self, *arguments)

    def counted(self: run.Run) -> None:
        if not self.iteration.is_learning:
            numbers[self.state.iterations] = len(self.iteration.collected.lengths)
        write(self)

    Search.simulate, run.Run._write_games = slow, counted
    tiny.run(folder, *"selfplay.slots=4 pipeline.games_per_iteration=40 pipeline.iterations=3".split())
    Search.simulate, run.Run._write_games = simulate, write
    (folder / f"{distributed.rank()}.json").write_text(json.dumps(numbers))


def test_no_rank_waits_for_a_slow_one(tmp_path: Path) -> None:
    """It plays more games itself, and together they play about as many as an iteration has."""
    ranks.run_in_two(one_is_slow, tmp_path)
    fast, slow = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    for iteration in "12":
        assert fast[iteration] > slow[iteration] > 0 and 40 <= fast[iteration] + slow[iteration] < 70


def diverges_while_it_learns(folder: Path) -> None:
    """Rank 0, which learns alone, saves a snapshot amid its steps; then its weights are no numbers."""
    learn, step, is_due, first, due = run.Run._train, Trainer.step, Snapshots.is_due, [], []

    def learned(self: run.Run) -> dict[str, float]:
        if self.selfplay and not first and distributed.is_rank0():
            first.append(self.trainer.steps)
        return learn(self)

    def stepped(self: Trainer, *arguments: object, **named: object) -> dict[str, torch.Tensor]:
        metrics = step(self, *arguments, **named)
        if first and self.steps - first[0] in (1, 3) and len(due) < 2:
            due.append(True)
            if len(due) == 2:
                next(self.network.parameters()).detach().fill_(torch.nan)
        return metrics

    run.Run._train, Trainer.step = learned, stepped
    Snapshots.is_due = lambda self: bool(due) and due[-1] and not due.__setitem__(-1, False)
    tiny.run(folder, "selfplay.slots=4", "pipeline.games_per_iteration=30", "pipeline.iterations=3")
    run.Run._train, Trainer.step, Snapshots.is_due = learn, step, is_due


def test_ranks_go_back_together(tmp_path: Path, capfd) -> None:
    """Also to a snapshot of the middle of an iteration, when the rank that plays has none of its steps."""
    ranks.run_in_two(diverges_while_it_learns, tmp_path)
    said = capfd.readouterr().err
    assert said.count("rollback to step") == 1 and "snapshot-" in said.partition("rollback to step")[2]
    assert next(snapshots.starts(tmp_path / "tiny")).counters["iterations"] == 3
