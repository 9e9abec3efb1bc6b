"""Actors play for a run: each of their shards is taken in once, whatever is killed; what is damaged or foreign is set
aside."""

import errno
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from zerogo import checkpoint, sgf
from zerogo.errors import InputError, Interrupted
from zerogo.pipeline import actors, snapshots
from zerogo.pipeline.actors import Actor, Inbox
from zerogo.pipeline.snapshots import RunState
from zerogo.replay.shards import MOST_ABOUT, load_with_about, save_shard
from zerogo.selfplay import SelfPlay, SelfPlayResult
from zerogo.system.signals import Signals
from zerogo.system.telemetry import Progress

ALONE = ("replay.external=true", "pipeline.plays=false", "selfplay.random_opening_games=8", "pipeline.iterations=2")
ALONE += ("selfplay.sgf_share=1",)
FEW = ("selfplay.slots=8", "search.leaves=1")  # else the actor finds out


def leave(*_: object) -> None:
    """Does what SIGTERM to this process would do."""
    signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that waits for actors, stopped, and two shards of one of them."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inbox, "wait", leave)
        with pytest.raises(Interrupted):
            tiny.run(folder, *ALONE)
    actor = Actor(folder / "tiny", FEW, signals := Signals([].append), Progress("actor", None, "games"))
    save = actor._save

    def save_two(result: SelfPlayResult) -> None:
        save(result)
        signals.exit_signal = signal.SIGTERM if actor.shards else 0

    actor._save = save_two
    with pytest.raises(Interrupted):
        actor.run()
    return folder


def shards(run: Path) -> list[Path]:
    return [shard.path for shard in actors.waiting(run / actors.FOLDER)]


def games_of(paths: list[Path]) -> int:
    return sum(len(load_with_about(path)[1]["games"]["lengths"]) for path in paths)


def test_a_run_learns_from_actors_alone(begun: Path, tmp_path: Path) -> None:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    here = shards(tmp_path / "tiny")
    samples, games = sum(len(load_with_about(path)[0]) for path in here), games_of(here)
    lengths = [length for path in here for length in load_with_about(path)[1]["games"]["lengths"]]
    run = tiny.run(tmp_path, *ALONE, "pipeline.iterations=1", "replay.min_window=1999", resume=True)
    newest = next(snapshots.starts(run))
    before = checkpoint.load(checkpoint.paths(begun / "tiny")[0])
    assert newest.counters["replay"]["total"] == before.counters["replay"]["total"] + samples
    assert newest.counters["games"] == before.counters["games"] + games and newest.step > before.step
    assert newest.counters["simulations"] > 0 and 0 < before.counters["games"]
    told = checkpoint.load(checkpoint.paths(run)[0])  # actors hear of other settings at once
    assert (told.step, told.config.replay.min_window) == (before.step, 1999)
    numbers = tiny.lines(run / "logs" / "metrics.jsonl")[-1]
    assert numbers["selfplay/game_length_plies"] > 0 and numbers["selfplay/games_per_s"] < 1e5
    assert numbers["sanity/new_samples_age_iterations"] == 1
    shown = [sgf.read(path) for path in (run / "games").glob(f"game-{here[0].name[:12]}-*.sgf")]
    assert len(shown) == games and not any(sgf.replay(game)[1] for game in shown)
    assert sorted(len(game.moves) for game in shown) == sorted(lengths)
    own = tiny.all_samples(run).game
    assert len(own.unique()) == 8 + games and int(own.max()) < newest.counters["games"]


def inbox(run: Path, said: list[str], **changes: Any) -> Inbox:
    """Returns the inbox of a run, at rest, with what is otherwise in its place."""
    newest = next(snapshots.starts(run))
    state = RunState(**{"begun": newest.counters["begun"]} | changes)
    return Inbox(run, newest.config, newest.encoder().name, state, Signals(said.append))


def test_a_shard_is_taken_once_and_goes_when_two_snapshots_have_it(begun: Path, tmp_path: Path) -> None:
    run = shutil.copytree(begun / "tiny", tmp_path / "tiny")
    first, second = shards(run)
    games = games_of([first]), games_of([second])
    second.rename(tmp_path / second.name)
    taken, last = [], {}
    box, one, other = inbox(run, [], external=taken, actors=last), actors.SelfPlayResult(), actors.SelfPlayResult()
    assert box.take(one, 100, 1) == games[0] == len(one.lengths) and taken == [first.name]
    assert int(one.samples[0].game.min()) == 100 and int(one.samples[0].game.max()) == 99 + games[0]
    (tmp_path / second.name).rename(second)
    in_snapshot, last_in_snapshot = list(taken), dict(last)
    box.after_snapshot()
    assert box.take(one, 100, 1) == games[1] and box.take(one, 100, 1) == 0
    box.after_snapshot()
    assert shards(run) == [second.with_name(second.name + actors.TAKEN)] and taken == [second.name]
    # Killed before that snapshot was there: what it would have held is taken again, and nothing twice.
    box = inbox(run, said := [], external=in_snapshot, actors=last_in_snapshot)
    assert box.take(other, 100, 1) == games[1]
    box.after_snapshot()
    box.after_snapshot()
    assert not shards(run) and not box.external and box.last == {second.name[:12]: 1}
    # What comes back then, or under another number, is not learned again.
    for path in (first, second.with_name(second.name.replace("-00000001-", "-00000002-"))):
        shutil.copy(begun / "tiny" / actors.FOLDER / (first if path == first else second).name, path)
    assert box.take(other, 100, 1) == 0 and not shards(run)
    assert "is a duplicate" in said[0] and "its name differs" in said[1] and len(said) == 2


def test_shards_and_folders_that_others_touch(begun: Path, tmp_path: Path, monkeypatch) -> None:
    """A shard that vanishes before it is read, one that the disk does not give at first, and no folder any more."""
    run, said, result = shutil.copytree(begun / "tiny", tmp_path / "tiny"), [], actors.SelfPlayResult()
    first, second = shards(run)
    box, listed, load = inbox(run, said), actors.waiting(run / actors.FOLDER), actors.load_with_about

    def stale(path: Path) -> None:
        raise OSError(errno.ESTALE, "Stale file handle", str(path))

    monkeypatch.setattr(actors, "load_with_about", stale)
    assert box.take(result, 0, 1) == box.take(result, 0, 1) == 0 and shards(run) == [first, second]
    assert len(said) == 1 and "Stale file handle; trying again" in said[0]
    monkeypatch.setattr(actors, "load_with_about", load)
    content = first.read_bytes()
    first.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(actors, "waiting", lambda _: listed)
        assert box.take(result, 0, 1) == 0 and len(said) == 1
    first.write_bytes(content)
    assert box.take(result, 0, 1) == len(result.lengths) == games_of(shards(run))
    shutil.rmtree(run / actors.FOLDER)
    box.after_snapshot()
    box._refuse(first)
    shutil.rmtree(run / actors.FOLDER)
    assert box.take(result, 0, 1) == 0 and actors.waiting(run / actors.FOLDER) == []


def changed(path: Path, change: Callable[[dict[str, Any]], Any] = lambda about: None, **fields: Any) -> None:
    """Writes a shard anew with other samples, and with something else about it."""
    samples, about = load_with_about(path)
    change(about)
    save_shard(path, replace(samples, **{name: part(getattr(samples, name)) for name, part in fields.items()}), about)


WRONG: dict[str, Callable[[Path], Any]] = {
    "cut short or damaged": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "belongs to another run": lambda path: changed(path, lambda about: about.update(run=5)),
    "its encoder is katago22, not zero17": lambda path: changed(path, lambda about: about.update(encoder="katago22")),
    "other rules than the run's": lambda path: changed(path, komi=lambda komi: komi + 1),
    "network_step from": lambda path: changed(path, network_step=lambda step: step + 10_000),
    "root_value from nan": lambda path: changed(path, root_value=lambda value: value * torch.nan),
    "have different winners": lambda path: changed(path, value=lambda value: -value),
    "different winners": lambda path: changed(path, value=lambda v: v.where(torch.arange(len(v)) != len(v) // 16, -v)),
    "damaged (ValueError)": lambda path: np.savez(path, **dict(np.load(path), ply=np.zeros(1, ">i4"))),
    "its name says": lambda path: path.rename(path.with_name(f"{path.name[:22]}1.npz")),
    "about.games.ends[0]": lambda path: changed(path, lambda about: about["games"]["ends"].insert(0, "x")),
    "has moves 1180591620717411303424": lambda path: changed(path, lambda about: about["games"].update(moves=2**70)),
    "has ends 99": lambda path: changed(path, lambda about: about["games"]["ends"].__setitem__(0, 99)),
    "lists games of other rules": lambda path: changed(path, lambda about: about["games"]["sizes"].__setitem__(0, 9)),
    "short_values from": lambda path: changed(path, short_values=lambda values: values + 2),
    "captures from": lambda path: changed(path, captures=lambda captures: captures - 1),
    "a black and a white stone": lambda path: changed(path, rows=lambda rows: rows | 1),
    "about.games lacks moves": lambda path: changed(path, lambda about: about["games"].pop("moves")),
    "about is no mapping": lambda path: save_shard(path, load_with_about(path)[0]),
}


def test_what_is_damaged_or_foreign_is_set_aside_with_a_sentence(begun: Path, tmp_path: Path, monkeypatch) -> None:
    """Also where one sample of many is wrong."""
    run, said = shutil.copytree(begun / "tiny", tmp_path / "tiny"), []
    monkeypatch.setattr(actors.sanity_checks, "MOST_SAMPLES", 8)
    bad, good = shards(run)
    changed(good, root_value=lambda value: value.sign() * (1 + 1e-6))  # as means of ones are rounded
    content, box, result = bad.read_bytes(), inbox(run, said), actors.SelfPlayResult()
    good = good.rename(tmp_path / good.name)
    for words, spoil in WRONG.items():
        bad.write_bytes(content)
        spoil(bad)
        assert box.take(result, 0, 1) == 0 and not shards(run)
        assert len(said) == 1 and said[0].startswith("warning: set aside: ") and words in said.pop()
    assert len(list((run / actors.FOLDER / actors.REFUSED).iterdir())) == 2  # one of them under another name
    good.rename(bad.with_name(good.name))
    assert box.take(result, 0, 1) == len(result.lengths) > 0


def test_an_actor_that_is_stopped_on_a_full_disk_writes_no_game_twice(begun: Path, tmp_path: Path, monkeypatch) -> None:
    """The disk is full at the second shard, and the actor is asked to leave while it waits for room."""
    run, failures = shutil.copytree(begun / "tiny", tmp_path / "tiny"), [None, OSError(errno.ENOSPC, "no room")]
    for path in shards(run):
        path.unlink()
    assert 6 * actors.MOST_GAMES < MOST_ABOUT

    def leave_at_the_next_wait(signals: Signals, seconds: float) -> None:
        signals.exit_signal = signal.SIGTERM
        signals.leave_if_asked()

    monkeypatch.setattr(actors, "MOST_GAMES", 3)
    monkeypatch.setattr(Signals, "wait", leave_at_the_next_wait)
    actor = Actor(run, FEW, Signals([].append), Progress("actor", None, "games"))
    save = actor._save

    def save_or_fail(result: SelfPlayResult) -> None:
        if failures and (failure := failures.pop(0)):
            raise failure
        save(result)

    actor._save = save_or_fail
    with pytest.raises(Interrupted):
        actor.run()
    played = list((run / "games").glob(f"game-{actor.name}-*.sgf"))
    assert len(played) == actor.games == games_of(shards(run)) > 3
    assert inbox(run, said := []).take(SelfPlayResult(), 0, 1) == actor.games and not said


def test_an_actor_without_memory_writes_what_is_finished(begun: Path, tmp_path: Path, monkeypatch) -> None:
    run, play = shutil.copytree(begun / "tiny", tmp_path / "tiny"), SelfPlay.play

    def play_and_fail(one: SelfPlay, number: int, *words: Any) -> None:
        play(one, 3, *words[:4])  # without a pause
        raise torch.OutOfMemoryError("no memory left")

    monkeypatch.setattr(SelfPlay, "play", play_and_fail)
    actor, before = Actor(run, FEW, Signals([].append), Progress("actor", None, "games")), games_of(shards(run))
    with pytest.raises(InputError, match="the actor ends: no memory left; [1-9]"):
        actor.run()
    assert games_of(shards(run)) == before + actor.games


def test_an_actor_follows_the_run_and_waits_for_it(begun: Path, tmp_path: Path, monkeypatch) -> None:
    """For a checkpoint, for another one, which names the player, for room; without a run it ends with a sentence."""
    run, said = shutil.copytree(begun / "tiny", tmp_path / "tiny"), []
    (path,) = checkpoint.paths(run)
    path.rename(tmp_path / path.name)
    monkeypatch.setattr(Signals, "wait", lambda self, _: events.pop(0)())

    def follow_up() -> None:
        player = replace(checkpoint.load(path), step=76)
        checkpoint.save(checkpoint.path_of(run, 76), player)
        newest = replace(player, step=77, counters=player.counters | {"players": [76]})
        checkpoint.save(checkpoint.path_of(run, 77), newest)
        for shard in shards(run):
            shard.unlink()

    events = [lambda: None, lambda: (tmp_path / path.name).rename(path), follow_up, lambda: shutil.rmtree(run)]
    actor = Actor(run, [*FEW, "replay.min_window=60"], Signals(said.append), Progress("actor", None, "games"))
    steps, saved, save = [], [], actor._save
    actor._save = lambda *result: (steps.append(actor.step), save(*result), saved.append(shards(run)[-1]))
    with pytest.raises(InputError, match="does not exist"):
        actor.run()
    assert not events and actor.step == 76 and set(steps) <= {24, 76} and not run.exists()
    assert "no checkpoint yet" in said[0] and "waiting for the run" in said[2] and len(said) == 3
    assert said[1].startswith(f"{run}: actor {actor.name} plays on ") and "\nself-play: 8 games at once" in said[1]
