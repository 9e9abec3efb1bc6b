"""A run: self-play, training and evaluation in turn, with schedules, charts and resume. This file starts one: a new
one, one that resumes, or one that rolls back because learning has diverged. `run` has the loop."""

import contextlib
import gc
import secrets
import socket
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from zerogo import checkpoint as checkpoints
from zerogo import tuning
from zerogo.checkpoint import Checkpoint
from zerogo.config import Config, SearchConfig, SelfplayConfig, from_dict, is_whole
from zerogo.config.sections import KATAGO_HEADS
from zerogo.errors import InputError, one_line
from zerogo.pipeline import limits, snapshots
from zerogo.pipeline.run import Diverged, Run
from zerogo.pipeline.snapshots import Rollback
from zerogo.system import distributed
from zerogo.system.runtime import RunLock, pick_device
from zerogo.system.signals import Signals, pipe_safe_streams
from zerogo.system.telemetry import METRICS_FILE

SEEN_WITHIN = 60.0  # seconds for a network's file system to show a new file on another machine
FAR = 1000  # steps after which learning that diverges again does so for another reason


def train(config: Config, resume: bool = False, overrides: list[str] | None = None) -> None:
    """Trains as the config says and leaves everything in `run.folder`. resume: continues from its newest snapshot or
    complete checkpoint. overrides: settings that replace some of the resumed run's own, which are used instead of
    `config`. Of several ranks (`distributed.process_group`) each does its share; ranks that torchrun has restarted
    resume.

    Raises InputError where the folder is in use, holds a run although resume is False, or holds nothing to resume from;
    Interrupted after a signal, when a snapshot holds all that was done."""
    directory = config.run.folder
    nothing, says_why = f"{directory} holds no run to resume; start one without --resume", distributed.is_rank0()

    def _require_run() -> None:
        if resume and not directory.exists():
            raise InputError(nothing)

    distributed.run_and_sync_errors(_require_run)
    with pipe_safe_streams(), Signals() as signals, contextlib.ExitStack() as held, say_what_is_saved(directory):
        if not distributed.is_rank0():
            signals.log, signals.log_io = lambda text: None, lambda text: print(f"rank {distributed.rank()}: {text}")
        distributed.broadcast_from_rank0(_lock, directory, held, signals)
        require_one_folder(directory, signals)
        files = distributed.all_gather_object(snapshots.paths(directory) + checkpoints.paths(directory))[0]
        start = next(snapshots.starts(directory), None)
        if overrides is not None:
            config = distributed.run_and_sync_errors(snapshots.config_of, directory, start, overrides) or config
        with signals.interruptible():
            limits.require_same_start(config)
        if not resume and start is not None and distributed.restarts_run(start.counters.get("begun", 0)):
            resume, rate = True, start.config.training.learning_rate  # which a rollback may have halved
            config = replace(config, training=replace(config.training, learning_rate=rate))
        if not resume and distributed.broadcast_from_rank0(lambda: bool(files) or any(directory.glob("replay/*.npz"))):
            what = f"{directory} already holds a run; resume it with --resume, or choose another name with --run"
            raise InputError(what if says_why else "")
        path = directory / "config.yaml"
        if overrides is not None and start is None and not distributed.broadcast_from_rank0(is_whole, path):
            cut = f"{path} was cut short, and no snapshot or checkpoint holds the settings that it lost; add these"
            why = f"{cut}, or start a new run under another name" if path.exists() else nothing
            raise InputError(why if says_why else "")
        if resume and start is None and files:
            what = f"none of the {len(files)} snapshots and checkpoints in {directory} can be resumed from"
            raise InputError(f"{what}; move them away to start anew" if says_why else "")
        said = [f"{directory} {distributed.run_and_sync_errors(_planned, config)}"]
        if start is not None:
            said.append(f"{directory} resumes from {Path(start.source).name}, training step {start.step:,}")
        elif resume:
            signals.log(distributed.broadcast_from_rank0(_begin_again, directory))
        if old := limits.old_games(directory, keep := config.pipeline.keep_games):
            said.append(f"warning: the oldest {len(old):,} games will be removed; pipeline.keep_games is {keep:,}")
        if warning := too_many_considered(config.search, config.selfplay):
            said.append(f"warning: {warning}")
        _run_to_end(config, directory, start, signals, said)


def adopt_architecture(
    config: Config, explicit: Collection[str], origin: Checkpoint | None = None
) -> tuple[Config, str]:
    """Returns the config with the encoder and the network of a checkpoint, so that its weights fit, and a sentence
    about what that changed, or "". origin: the checkpoint, by default `run.start_from`. explicit: "section.key" of
    settings that stay as they are. Raises InputError where the weights do not fit these."""
    checkpoint, values = origin or checkpoints.load_newest(config.run.start_from), config.to_dict()
    changed = {key: pair for key, pair in checkpoints.differences(checkpoint, config).items() if key not in explicit}
    for key, (was, _) in changed.items():
        section, _, name = key.partition(".")
        values[section][name] = was
    if values["network"]["architecture"] == "katago":
        values["network"]["heads"] = {head: config.network.heads.get(head, KATAGO_HEADS[head]) for head in KATAGO_HEADS}
        changed.pop("network.plan", None)  # a page of words
    words = ", ".join(f"{key} {was} instead of {now}" for key, (was, now) in changed.items())
    checkpoints.weights_for(adopted := from_dict(values), checkpoint)
    return adopted, f"taken over from {checkpoint.source}: {words}" if changed else ""


def _lock(directory: Path, held: contextlib.ExitStack, signals: Signals) -> None:
    """Makes and locks the run's folder; each later write first checks that the folder is still there."""
    lock = held.enter_context(RunLock(directory))
    signals.require_folder = lock.require_in_place


def _begin_again(directory: Path) -> str:
    """Sets a run's logs aside where nothing is left to resume from, as the new ones begin with step 0; says so."""
    logs, aside = directory / "logs", directory / time.strftime("logs-%Y%m%d-%H%M%S")
    what = f"{directory} has no snapshot or checkpoint to resume from, so the run begins again"
    if not (logs / METRICS_FILE).exists() or not (logs / METRICS_FILE).stat().st_size:
        return what
    logs.rename(aside)
    return f"{what}; its charts so far are kept in {aside}"


@contextlib.contextmanager
def say_what_is_saved(directory: Path) -> Iterator[None]:
    """Turns a lack of memory, or an OSError that waiting does not heal, into an InputError that says what is saved."""
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        is_of_disk = isinstance(error, OSError)
        if not is_of_disk and not tuning.lacks_memory(error):
            raise
        rest = "once its folder can be read again, --resume continues from what is saved there"
        with contextlib.suppress(OSError):
            saved = [*checkpoints.paths(directory), *snapshots.paths(directory)][-1:]
            if not directory.is_dir() or (isinstance(error, FileNotFoundError) and error.filename == str(directory)):
                rest = "the saved state was in that folder; if the folder was moved, --resume works in its new place"
            elif saved:
                when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(saved[0].stat().st_mtime))
                rest = f"the state of {when} is saved in {saved[0]}; --resume continues from it"
            else:
                rest = "nothing of it is saved yet"
        raise InputError(f"the run ends: {one_line(error)}; {rest}") from error


def _planned(config: Config) -> str:
    """Returns the memory and disk that the run will take, in words. Raises InputError for impossible settings."""
    limits.require_learnable(config)
    limits.require_shares(config, distributed.world_size())
    return limits.plan(config, pick_device(config.run.device))


def require_one_folder(directory: Path, signals: Signals) -> None:
    """Raises InputError where a rank does not see what the first one writes into the run's folder."""
    if distributed.world_size() == 1:
        return
    path = directory / f".ranks-{distributed.all_gather_object(secrets.token_hex(8))[0]}.tmp"
    distributed.on_rank0(signals.retry_io, path.touch)
    distributed.barrier()

    def _look() -> None:
        until = time.monotonic() + SEEN_WITHIN
        while not path.exists():
            if time.monotonic() > until:
                where = f"{directory.absolute()} on {socket.gethostname()} after {SEEN_WITHIN:g} s"
                raise InputError(f"files of rank 0 are not visible in {where}; all ranks need the same shared folder")
            time.sleep(0.1)

    distributed.run_and_sync_errors(_look)
    distributed.on_rank0(path.unlink)


def _run_to_end(config: Config, directory: Path, start: Checkpoint | None, signals: Signals, said: list[str]) -> None:
    """Runs to the end. Where learning diverges, the run resumes from a snapshot or checkpoint, one further back each
    time in a row, with other batches and half the learning rate. said: lines to print once the settings are known to be
    valid. Raises InputError where learning diverges even from the oldest snapshot or checkpoint."""
    rollback, older = Rollback(), iter(())
    while True:
        if rollback.number:
            gc.collect()  # of the run before: a trainer and its captured steps refer to each other
        run = Run(config, directory, start, signals, rollback)
        if start is not None:  # frees the games in progress, gigabytes at times, which callers still refer to
            start.run.clear()
        for line in said if not rollback.number else ():
            signals.log(line)
        try:
            run.run()
            return
        except Diverged as error:
            last = start.step if start is not None and error.step <= rollback.until else error.step
            if error.step > rollback.until:
                rollback = Rollback(needed=frozenset(snapshots.paths(directory)))
                older = snapshots.starts(directory)
            rollback = replace(rollback, number=rollback.number + 1, until=error.step + FAR)
            # A checkpoint may be younger than the older snapshot.
            start, rate = next((one for one in older if one.step <= last), None), config.training.learning_rate
            if start is None:
                sentence = _hopeless(error, rollback.number - 1, last, config)
                raise InputError(sentence if distributed.is_rank0() else "") from None
            config = replace(config, training=replace(config.training, learning_rate=rate / 2))
            again = f"rollback {rollback.number} in a row" if rollback.number > 1 else "rollback"
            again += f" to step {start.step} ({start.source})"
            signals.log(f"warning: {error}; {again}, with other batches and training.learning_rate={rate / 2:g}")
        finally:
            run.close()
            del run  # before the next one, which needs as much memory


def _hopeless(error: Diverged, rollbacks: int, last: int, config: Config) -> str:
    """Returns the sentence for a run that no rollback helps. last: the step of the last one."""
    tried, rate = "; nothing is saved to go back to", config.training.learning_rate
    if rollbacks:
        tried = f", even after {rollbacks} rollbacks, the last to step {last} with training.learning_rate={rate:g}"
    look = f"look in {config.run.folder / 'logs'} at train/loss, train/gradient_norm and the sanity checks up to then"
    return f"{error}{tried}; {look}, and start anew with a lower training.learning_rate"


def too_many_considered(search: SearchConfig, selfplay: SelfplayConfig) -> str:
    """Returns a warning where Gumbel's root considers more moves than half of the simulations, else ""."""
    fewest = selfplay.all_simulations[0]
    if search.algorithm != "gumbel" or search.max_considered <= max(1, fewest / 2):
        return ""
    many = f"search.max_considered is {search.max_considered}, more than half of self-play's {fewest} simulations"
    return f"{many}: few moves get a second visit, so the search is shallow"
