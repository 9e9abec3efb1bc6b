"""Faults that a run survives: signals, closed pipes, disk errors, NaN weights, missing settings."""

import ctypes
import errno
import os
import re
import shutil
import signal
import threading
import warnings
from collections.abc import Callable, Container
from itertools import chain, repeat
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest
import tiny
import torch
from matches import dies
from tables import tables
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from zerogo import __main__ as commands
from zerogo import checkpoint, config
from zerogo.arena import pool
from zerogo.board import new_games
from zerogo.errors import InputError, Interrupted
from zerogo.evaluator import Evaluator
from zerogo.network.trainer import Trainer
from zerogo.pipeline import limits, run, snapshots
from zerogo.pipeline.snapshots import Snapshots
from zerogo.selfplay import SelfPlay
from zerogo.system import distributed, signals, telemetry
from zerogo.system.runtime import RunLock
from zerogo.system.signals import PipeSafeStream, Signals
from zerogo.system.telemetry import Telemetry

TWO_ITERATIONS = ("pipeline.iterations=2", "replay.min_window=100", "replay.capacity=400")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    return tiny.run(tmp_path_factory.mktemp("whole"), *TWO_ITERATIONS)


def ring(number: int) -> None:
    """Does what a signal to this process would do."""
    signal.getsignal(number)(number, None)


def asked_at(monkeypatch: pytest.MonkeyPatch, numbers: Container[int], act: Callable[[run.Run], None]) -> list[int]:
    """Acts when a run asks for the n-th time whether to snapshot; returns the count in a list."""
    count = [0]

    def is_asked(self: run.Run) -> bool:
        count[0] += 1
        if count[0] in numbers:
            act(self)
        return self.signals.has_request

    monkeypatch.setattr(run.Run, "_has_request", is_asked)
    return count


def test_a_run_that_is_often_stopped_ends_as_one_that_is_not(whole: Path, tmp_path: Path, monkeypatch) -> None:
    """Stopped in its games, between the simulations of a search, in its steps, and by each signal."""
    for number in (signal.SIGHUP, signal.SIGQUIT):  # which nohup and shells ignore for what runs in the background
        signal.signal(number, signal.SIG_DFL)
    numbers = iter([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT] * 3)
    count = asked_at(monkeypatch, {3, 9, 60, 70, 75, 80, 130}, lambda _: ring(next(numbers)))
    phases = set()
    while True:
        try:
            tiny.run(tmp_path, *TWO_ITERATIONS, resume=(tmp_path / "tiny").exists())
            break
        except Interrupted as stopped:
            assert stopped.number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
            newest = next(snapshots.starts(tmp_path / "tiny"))
            count[0] += 1
            phases.add((newest.run["iteration"]["is_learning"], "games" in newest.run))
    assert phases == {(True, False), (False, True), (True, True)}, count
    assert not tiny.different(whole, tmp_path / "tiny")
    logs = [EventAccumulator(str(folder / "logs")).Reload() for folder in (tmp_path / "tiny", whole)]
    losses = [[(event.step, event.value) for event in one.Scalars("train/loss")] for one in logs]
    assert losses[0] == losses[1]


def test_games_of_another_number_at_once_begin_anew(tmp_path: Path, monkeypatch, capfd) -> None:
    """For example after GPUs, whose ranks have equal shares."""
    asked_at(monkeypatch, {60}, lambda _: ring(signal.SIGTERM))
    with pytest.raises(Interrupted):
        tiny.run(tmp_path, *TWO_ITERATIONS)
    monkeypatch.setattr(distributed, "local_slots", lambda number: number // 2)
    tiny.run(tmp_path, *TWO_ITERATIONS, resume=True)
    said = "games at once of the first process changed from 8 to 4: games in progress start anew"
    assert said in capfd.readouterr().err and next(snapshots.starts(tmp_path / "tiny")).counters["iterations"] == 2


def test_a_run_that_dies_at_any_of_its_file_operations_goes_on(whole: Path, tmp_path: Path, monkeypatch) -> None:
    """At the first one, then, going on, at the second one, and so on, before or after a file is renamed or removed."""
    asked_at(monkeypatch, range(20, 1000, 20), lambda run: setattr(run.signals, "snapshot_requested", True))
    folder, deaths, newest = tmp_path / "tiny", 0, ""

    def go_on() -> None:
        tiny.run(tmp_path, *TWO_ITERATIONS, resume=(folder / "config.yaml").exists())

    while dies(deaths + 1, go_on, (os, "replace"), (Path, "unlink")):
        deaths += 1
        found = snapshots.paths(folder)
        assert not found or found[-1].name >= newest, "a snapshot is gone"
        newest = found[-1].name if found else newest
        for path in [*found, *checkpoint.paths(folder)]:
            checkpoint.load(path)
    assert deaths > 8 and not tiny.different(whole, folder) and not list(folder.rglob("*.tmp"))


GATED = "evaluation.gate=0.55 evaluation.every_iterations=1 pipeline.iterations=5 pipeline.keep_checkpoints=1".split()
GATED += "selfplay.slots=2 pipeline.games_per_iteration=2 selfplay.random_opening_games=8".split()


def test_a_stopped_run_keeps_the_player_that_passed_the_gate(tmp_path: Path, monkeypatch, capfd) -> None:
    """Of five iterations' checkpoints the first meets nobody, the second and fourth lose, the third wins."""
    tiny.decide_matches([0, 0.54, 0.55, 0.54], monkeypatch.setattr)
    used, use, folder = [], SelfPlay.set_network, tmp_path / "whole" / "tiny"
    empty = new_games(1, tiny.config().game.rules(), tiny.CPU)

    def spy(self: SelfPlay, evaluator: Evaluator, step: int) -> None:
        if (path := checkpoint.path_of(folder, step)).exists():
            found = checkpoint.load(path)
            alone = Evaluator.from_network(found.network(), found.encoder(), heads=("policy", "value"))
            assert torch.equal(alone(empty).prior, evaluator(empty).prior)
        used.append(step)
        use(self, evaluator, step)

    monkeypatch.setattr(SelfPlay, "set_network", spy)
    tiny.run(tmp_path / "whole", *GATED)
    counters = next(snapshots.starts(folder)).counters
    one, two, three, _, last = counters["saved"]
    assert counters["players"] == [one, three] and used[-4:] == [one, two, one, three]
    assert checkpoint.paths(folder) == [checkpoint.path_of(folder, step) for step in (one, three, last)]
    assert set(tiny.all_samples(folder).network_step.tolist()) == {0, used[-5], one, three}
    charted = [line for line in tiny.lines(folder / "logs" / "metrics.jsonl") if "time/iterations" in line]
    assert [line.get("selfplay/network_step") for line in charted] == [None, None, one, one, three]
    assert max(line["sanity/new_samples_age_iterations"] for line in charted) <= 1
    stops, played = [(1, True), (2, False), (3, False), (4, False)], []  # iterations over, and whether it learns

    def stop(one: run.Run) -> None:
        if stops and (one.state.iterations, one.iteration.is_learning) == stops[0]:
            one.signals.exit_signal = signal.SIGTERM

    asked_at(monkeypatch, range(10**6), stop)
    while stops:
        with pytest.raises(Interrupted):
            tiny.run(tmp_path / "stopped", *GATED, resume=bool(played))
        played.append(next(snapshots.starts(tmp_path / "stopped" / "tiny")).counters["players"])
        del stops[0]
    assert played == [[], [one], [one], [one, three]]
    assert not tiny.different(folder, tiny.run(tmp_path / "stopped", *GATED, resume=True))
    checkpoint.path_of(folder, three).unlink()
    tiny.run(tmp_path / "whole", *GATED, "pipeline.iterations=6", resume=True)
    said = f"step {three} cannot be loaded, so the newest weights play until the next matches: "
    assert said in capfd.readouterr().err
    assert next(snapshots.starts(folder)).counters["players"] == [] and used[-1] > last


def test_a_signal_to_save_saves(tmp_path: Path, monkeypatch) -> None:
    asked_at(monkeypatch, {60}, lambda _: ring(signal.SIGUSR1))
    written, write = [], Snapshots.write
    monkeypatch.setattr(
        Snapshots, "write", lambda self, snapshot, begun: (written.append(snapshot), write(self, snapshot, begun))
    )
    tiny.run(tmp_path, *TWO_ITERATIONS)
    assert len(written) == 4 and 0 == written[0].step < written[1].step < written[2].step == written[3].step


@pytest.mark.parametrize("launcher", ["", distributed.LAUNCHER, distributed.TORCHRUN])
def test_a_second_signal_leaves_at_once_unless_a_launcher_passes_it_on(launcher: str, monkeypatch) -> None:
    monkeypatch.setenv(launcher or "NO_LAUNCHER", "one")
    seconds = [0.0, 0.1, 2.1] if launcher else [0.0, 0.1]
    monkeypatch.setattr(os, "_exit", Mock(side_effect=SystemExit))
    with Signals(), pytest.raises(SystemExit):
        for second in seconds:
            monkeypatch.setattr(signals, "time", Mock(monotonic=lambda second=second: second))
            ring(signal.SIGTERM)
    assert second == seconds[-1] and os._exit.call_args.args == (128 + signal.SIGTERM,)


@pytest.mark.filterwarnings("error::UserWarning")  # such as pytest's of what a callback could not raise
def test_a_signal_that_is_ignored_stays_ignored_and_long_work_ends_at_once() -> None:
    """Also where C code calls back, as Numba's compiler does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Signals() as signals:
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN and not signals.has_request
            with pytest.raises(Interrupted), signals.interruptible():
                ctypes.CFUNCTYPE(None)(lambda: ring(signal.SIGTERM))()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_stream_outlives_its_reader_and_a_full_disk(tmp_path: Path) -> None:
    """On a full disk it was once closed for good, and said not even that the run goes on."""
    reader, writer = os.pipe()
    stream = PipeSafeStream(os.fdopen(writer, "w"))
    os.close(reader)
    for _ in range(3):
        print("into nothing", file=stream, flush=True)
    stream.close()
    stream = PipeSafeStream(open("/dev/full", "w"))
    print("cannot write", file=stream, flush=True)
    with open(tmp_path / "log", "w") as disk:
        os.dup2(disk.fileno(), stream.fileno())
    print("goes on", file=stream, flush=True)
    assert (tmp_path / "log").read_text().splitlines() == ["cannot write", "goes on"]


def test_a_run_waits_for_a_failing_disk(tmp_path: Path, monkeypatch, capsys) -> None:
    """Refused are renames of snapshots, checkpoints and shards, and what is appended to the logs."""
    monkeypatch.setattr(signals, "PATIENCE", 0.01)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    calls = [full, DEFAULT, full, full, *[DEFAULT] * 6, full, full]
    monkeypatch.setattr(os, "replace", Mock(wraps=os.replace, side_effect=chain(calls, repeat(DEFAULT))))
    folder = tiny.run(tmp_path, "pipeline.iterations=1")
    assert checkpoint.newest(folder).counters["iterations"] == 1
    errors = capsys.readouterr().err
    assert "room on the disk" in errors and "the run continues" in errors and "Traceback" not in errors
    assert not list(folder.rglob("*.tmp"))


WORDS = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "room on the disk") | {errno.EFBIG: "ulimit -f"}
WORDS |= dict.fromkeys((errno.EACCES, errno.EROFS), "permission to write")


@pytest.mark.parametrize(
    "number", [*signals.HEALS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.EPERM]
)
def test_only_temporary_errors_are_retried(number: int) -> None:
    said, waits, refusals = [], [], [True, True, False]
    taken = Signals(said.append)
    taken.wait = waits.append

    def write() -> str:
        if refusals.pop(0):
            raise OSError(number, os.strerror(number), "/some/file")
        return "written"

    if number in signals.HEALS:
        assert taken.retry_io(write) == "written" and taken.disk_seconds == sum(waits) == 2 * signals.PATIENCE
        assert "cannot write /some/file" in said[0] and "the run continues" in said[1]
        assert WORDS.get(number, "it needs a disk that can be written to") in said[0]

        def write_in_a_thread() -> None:
            refusals[:] = [True, False]
            (thread := threading.Thread(target=taken.retry_io, args=(write,))).start()
            thread.join()

        write_in_a_thread()  # during which a run may be at work
        taken.wait_for_thread(write_in_a_thread)
        assert taken.disk_seconds == 3 * signals.PATIENCE
    else:
        with pytest.raises(OSError, match="/some/file"):
            taken.retry_io(write)
        assert not waits and not said


def test_final_matches_wait_for_the_disk_and_take_no_time_of_the_run(tmp_path: Path, monkeypatch) -> None:
    """A run that was resumed with more minutes trained for that much less."""
    clock, refusals, add = [0.0], [OSError(errno.ENOSPC, "no room")], pool.add

    def add_late(*words: object) -> None:
        clock[0] += 1e6
        if refusals:
            raise refusals.pop()
        add(*words)

    monkeypatch.setattr(run.Run, "_now", lambda one: clock[0])
    monkeypatch.setattr(Signals, "wait", lambda *_: None)
    monkeypatch.setattr(pool, "add", add_late)
    folder = tiny.run(tmp_path, "pipeline.final_matches=true", "pipeline.iterations=1")
    assert len(pool.read(folder / pool.FILE)) == 1 and clock[0] == 2e6
    assert checkpoint.load(snapshots.paths(folder)[-1]).counters["seconds"] == 0


FAULTS = tables("lasting")["faults of the folder"]  # what is moved away, what comes in its place, what is said


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_folder_ends_the_run_with_what_is_saved(fault: str, tmp_path: Path, monkeypatch) -> None:
    """A run in a folder that was removed once made it anew and went on, another one tried again for ever."""
    (name, put, sentence), folder = FAULTS[fault], tmp_path / "tiny"

    def spoil(one: run.Run) -> None:
        one.signals.snapshot_requested = True
        if (folder / name).exists():
            (folder / name).rename(tmp_path / "moved")
        if put is not None:
            getattr(folder / name, put)()

    asked_at(monkeypatch, {40}, spoil)
    with pytest.raises(InputError, match="the run ends: " + sentence.format(run=re.escape(str(folder)))):
        tiny.run(tmp_path, *TWO_ITERATIONS, "selfplay.sgf_share=1")
    assert not folder.exists() if fault == "removed" else fault != "another" or not [*folder.iterdir()]


def poisoning(monkeypatch: pytest.MonkeyPatch, steps: range, averaged: bool) -> None:
    """Makes the network's weights, or the averages, NaN after some of the training steps of this process."""
    count, step = iter(range(10**6)), Trainer.step

    def poisoned(self: Trainer, *arguments, **options):
        found = step(self, *arguments, **options)
        if next(count) in steps:
            network = self.averaged if averaged else self.network
            next(network.parameters()).data.fill_(torch.nan)
        return found

    monkeypatch.setattr(Trainer, "step", poisoned)


def test_nan_averages_are_never_saved(tmp_path: Path, monkeypatch, capsys) -> None:
    poisoning(monkeypatch, range(30, 31), averaged=True)
    folder = tiny.run(tmp_path, *TWO_ITERATIONS)
    assert "averaged weights became NaN or infinite" in (said := capsys.readouterr().err)
    assert len(rollbacks_of(said)) == 1
    for path in [*checkpoint.paths(folder), *snapshots.paths(folder)]:
        found = checkpoint.load(path)
        assert snapshots.is_finite([*found.weights.values(), *found.averaged_weights.values()])
    assert checkpoint.newest(folder).counters["iterations"] == 2


def rollbacks_of(said: str) -> list[tuple[str, str]]:
    """Returns the files to which a run has gone back, and with which learning rates."""
    return re.findall(r"rollback.* \(\S+/(\S+)\), with other batches and training.learning_rate=(\S+)", said)


def test_each_rollback_in_a_row_goes_further_back_until_nothing_is_left(tmp_path: Path, monkeypatch, capsys) -> None:
    """What a run saves meanwhile is never gone back to, and does not push out what may be."""
    asked_at(monkeypatch, range(10, 10**5, 10), lambda one: setattr(one.signals, "snapshot_requested", True))
    poisoning(monkeypatch, range(75, 10**6), averaged=False)
    with pytest.raises(InputError, match=r"by step \d+, even after 4 rollbacks, .*=6.25e-05; look in .*train/loss"):
        tiny.run(tmp_path, *TWO_ITERATIONS, "pipeline.iterations=9")
    names, rates = zip(*rollbacks_of(capsys.readouterr().err), strict=True)
    assert [name.partition("-")[0] for name in names] == ["snapshot", "snapshot", "step", "step"]
    assert [*names] == sorted(names[:2], reverse=True) + sorted(names[2:], reverse=True)
    assert rates == ("0.0005", "0.00025", "0.000125", "6.25e-05")
    assert len(snapshots.paths(tmp_path / "tiny")) == 4  # the two newest, and the two of before it diverged


def test_a_cause_that_was_saved_is_left_behind(tmp_path: Path, monkeypatch, capsys) -> None:
    """Both snapshots have weights that are numbers, but of which learning makes none."""
    asked_at(monkeypatch, {75}, lambda one: setattr(one.signals, "exit_signal", signal.SIGTERM))
    with pytest.raises(Interrupted):
        tiny.run(tmp_path, *TWO_ITERATIONS)
    words = f"zerogo train --resume --run tiny run.directory={tmp_path}"
    assert f"the run is saved; {words} continues it" in capsys.readouterr().err
    for path in snapshots.paths(folder := tmp_path / "tiny"):
        found = checkpoint.load(path)
        next(iter(found.weights.values())).fill_(1e30)
        checkpoint.save(path, found)
    tiny.run(tmp_path, *TWO_ITERATIONS, resume=True)
    names, _ = zip(*rollbacks_of(capsys.readouterr().err), strict=True)
    assert [name.partition("-")[0] for name in names] == ["snapshot", "snapshot", "step"]
    assert checkpoint.newest(folder).counters["iterations"] == 2
    assert next(snapshots.starts(folder)).config.training.learning_rate == 0.001 / 8


def test_settings_that_are_cut_or_gone_are_those_of_the_newest_snapshot(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "tiny")
    path, where = folder / "config.yaml", [f"run.directory={tmp_path}"]
    text, known, start = path.read_text(), config.load(path, where), next(snapshots.starts(folder))
    assert snapshots.config_of(folder, start, where) == known
    path.write_text(text.replace("learning_rate: 0.001", "learning_rate: 50000"))
    with pytest.raises(InputError, match="line .*learning_rate is 50000.*; mend it, or remove the file to resume with"):
        snapshots.config_of(folder, start, where)
    path.write_text("training: {learning_rate: 0.5}\n")
    changed = snapshots.config_of(folder, start, where)
    assert snapshots.changes(known, changed) == ["training.learning_rate is 0.5; it was 0.001"]
    path.unlink()
    assert snapshots.config_of(folder, start, where) == known
    for length in range(100, len(text), len(text) // 7):
        path.write_text(text[:length])
        with warnings.catch_warnings():  # of what can't be read
            warnings.simplefilter("ignore")
            found = snapshots.config_of(folder, start, where)
        assert all("; it was" in line for line in snapshots.changes(known, found))
        assert len(snapshots.changes(known, found)) <= 1


def test_a_run_is_read_once_and_under_its_lock(whole: Path, tmp_path: Path, monkeypatch) -> None:
    """A config.yaml that was cut is moved away by the process that holds the run, and by no other."""
    folder, calls, read = shutil.copytree(whole, tmp_path / "tiny"), [], checkpoint.read
    monkeypatch.setattr(checkpoint, "read", lambda path: (calls.append(path.name), read(path))[1])
    words = f"--resume --run tiny run.directory={tmp_path} run.processes=1 training.batch=8".split()
    (folder / "config.yaml").write_text("training: {learning_rate: 0.5")
    with RunLock(folder), pytest.raises(InputError, match="already in use"):
        commands.main_train(commands.parse_train(words))
    assert (folder / "config.yaml").exists() and not calls
    newest = snapshots.paths(folder)[-1].name
    with pytest.warns(UserWarning, match="using the settings saved in"):
        commands.main_train(commands.parse_train(words))
    assert calls.count(newest) == 1
    assert "batch: 8" in (folder / "config.yaml").read_text() and (folder / "config.yaml.unread").exists()


def test_an_opponent_that_is_gone_is_left_out(tmp_path: Path, capsys) -> None:
    """Before the run it is refused; on the way, and when the run goes on, its matches are left out."""
    checkpoint.save(tmp_path / "other.pt", tiny.fresh_checkpoint(tiny.config()))
    words = (f"evaluation.opponents=['{tmp_path}/other.pt', random]", "pipeline.final_matches=true")
    tiny.run(tmp_path, *words, "pipeline.iterations=1")
    (tmp_path / "other.pt").unlink()
    capsys.readouterr()
    tiny.run(tmp_path, *words, "pipeline.iterations=2", resume=True)
    said = capsys.readouterr().out
    assert f"warning: no match against {tmp_path}/other.pt on 3x3: " in said and "against random: " in said
    with pytest.raises(InputError, match="cannot read the checkpoint|other.pt"):
        tiny.run(tmp_path / "new", *words)


def test_impossible_settings_are_refused_at_the_start(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(InputError, match="training.batch is 9999, .* at most 1600 training samples"):
        tiny.run(tmp_path, *TWO_ITERATIONS, "training.batch=9999")
    monkeypatch.setattr(limits.runtime, "free_bytes", lambda device: 10**8)
    with pytest.raises(InputError, match=r"replay.capacity=(\d+) would fit") as caught:
        tiny.run(tmp_path, "replay.capacity=10000000")
    fits = str(caught.value).rpartition("replay.capacity=")[2].split()[0]
    assert "10000000" not in fits
    assert " of memory of 100 MB free; " in limits.plan(tiny.config(f"replay.capacity={fits}"), tiny.CPU)
    monkeypatch.setattr(limits.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 1000))
    with pytest.raises(InputError, match="may grow to .* lower"):
        tiny.run(tmp_path)
    assert not (tmp_path / "tiny").exists()
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    assert limits.stat_of(tmp_path / "gone", "st_size") == 0, "an actor may rename a file between two looks at it"


def test_the_plan_names_the_memory_of_each_device(monkeypatch) -> None:
    gpu, config = torch.device("cuda"), tiny.config()
    monkeypatch.setattr(limits.runtime, "free_bytes", lambda device: 8e10 if device.type == "cuda" else 3e10)
    for place, host in (("cuda", ""), ("cpu", r" and \S+ .B of memory of 30 GB free")):
        monkeypatch.setattr(limits, "device_for", lambda *_, place=place: torch.device(place))
        assert re.match(rf"plans \S+ .B of GPU memory of 80 GB free{host}; ", limits.plan(config, gpu))
    assert re.match(r"plans \S+ .B of memory of 30 GB free; ", limits.plan(config, tiny.CPU))
    monkeypatch.setattr(limits.runtime, "free_bytes", lambda device: 8e10 if device.type == "cuda" else 1.0)
    monkeypatch.setattr(limits, "device_for", lambda *_: tiny.CPU)
    with pytest.raises(InputError, match=r"MB of memory is planned \(replay.capacity .*\), but only 1e-06 MB is free"):
        limits.plan(config, gpu)


def test_which_checkpoints_games_and_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEEP_EVERY", 2)
    monkeypatch.setattr(telemetry, "MOST_BYTES", 4000)
    words = "pipeline.keep_checkpoints=1", "selfplay.sgf_share=1", "pipeline.keep_games=5"
    folder = tiny.run(tmp_path, *words, "pipeline.iterations=4", "evaluation.every_iterations=0")
    steps = next(snapshots.starts(folder)).counters["saved"]
    assert len(steps) == 4
    assert [path.name for path in checkpoint.paths(folder)] == [f"step-{steps[k]:08d}.pt" for k in (1, 3)]
    assert len(list((folder / "games").iterdir())) == 5
    shutil.copytree(folder / "games", folder / "matches", dirs_exist_ok=True)  # of which as many are kept
    assert len(limits.old_games(folder, 3)) == 4
    with Telemetry(tmp_path / "logs") as logs:
        for step in range(100):
            logs.scalars(step, {"a": 1.0})
            logs.trim()
            assert sum(path.stat().st_size for path in (tmp_path / "logs").iterdir()) < 5000
    steps = [record["step"] for record in tiny.lines(tmp_path / "logs" / "metrics.jsonl")]
    assert steps == list(range(100 - len(steps), 100)) and len(steps) > 10
