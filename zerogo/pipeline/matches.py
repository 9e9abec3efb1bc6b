"""The matches that measure a run, played at its end or in a process of their own, its rating pool, and its gate.

Each checkpoint that is measured also plays against earlier ones of its run: the best one, and those whose games say
most about its strength. The file of the rating pool holds all results. Matches during a run are played in a process of
low priority, so that neither training nor the device waits for them.

`evaluation.gate` puts a gate before self-play. A run's newest averaged weights play until a first checkpoint has been
measured. From then on that checkpoint plays, until a later one gets at least this share of the points against it, on
all boards together, and replaces it. AlphaGo Zero had a gate of 55 % of 400 games and KataGo one of half of 200;
AlphaZero had none. A single match decides, where an SPRT of so few games seldom would: an equal player gets 55 % of 100
games in one match of five or six. A checkpoint that was refused is not measured again, as a later one soon follows.
Training, validation, exports and matches always use the newest network.

The counters of a checkpoint list the steps that have played; the last of them plays, in actors and in matches, too. A
run loads the file of that step when the player changes, as a resumed run does, and keeps the file, so that both play
with the same bits. The clock decides in which iteration the results of matches arrive. Two runs in which they arrive in
the same iterations are the same to the bit, however often either was stopped."""

import atexit
import contextlib
import multiprocessing
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from zerogo import checkpoint, cli, kernels, tuning
from zerogo.arena import MatchResult, MatchSettings, cap_for, play_match, pool, time_of_day
from zerogo.arena.result import FORFEIT, rating_table, write_report
from zerogo.checkpoint import Checkpoint
from zerogo.config import Config, with_overrides
from zerogo.errors import InputError, one_line
from zerogo.pipeline.snapshots import RunState
from zerogo.players import Player, plays_on
from zerogo.players.analyst import make_player
from zerogo.players.external import ExternalPlayer
from zerogo.rules.coords import listed
from zerogo.system import distributed, runtime, signals
from zerogo.system.telemetry import Telemetry

WHITE, OPTIONAL = "@white", "?"
FINAL = 2  # times as many games as during a run are played at its end
OF_GATE = "eval/gate_winrate"
VERDICTS = {
    "H1": "SPRT: stronger than {}",
    "H0": "SPRT: not stronger than {}",
    "continue": "SPRT: undecided whether stronger than {}",
}
NICENESS = 10  # matches get what training leaves of the cores
GAMES_AT_ONCE_ON_GPU, GPU_PERCENT = 32, "25"  # small batches, whose turns are short, on few multiprocessors


class Matches:
    """Plays the run's averaged network, named by its training step, against the opponents of the settings on all of its
    boards.

    settings: the config's section evaluation. An opponent that knows only some of the boards is met on those."""

    def __init__(self, config: Config, device: torch.device, dtype: torch.dtype, earlier: Sequence[str] = ()) -> None:
        """Raises InputError for an opponent that does not exist, before a run has spent its hours. earlier: opponents
        that the run has had, which may come back."""
        self.game, self.settings, self.seed = config.game, config.evaluation, config.run.seed
        self.device, self.dtype, self.run_name = device, dtype, Path(config.run.name).name
        self.at_once: int | None = None  # see `MatchSettings`
        self.sizes_of: dict[str, list[int]] = {}
        for spec in self.settings.opponents:
            try:
                self.sizes_of[spec] = self._sizes_of(spec)
            except InputError:
                if spec not in earlier:
                    raise
                self.sizes_of[spec] = list(self.game.all_sizes)  # `play` says what is wrong

    def _sizes_of(self, spec: str) -> list[int]:
        """Returns on which boards an opponent is met. Raises InputError where there are none."""
        all_sizes = self.game.all_sizes
        if spec == "self":
            return list(all_sizes)
        if spec.endswith(OPTIONAL):
            try:
                return self._sizes_of(spec.removesuffix(OPTIONAL))
            except InputError as error:
                warnings.warn(f"evaluation.opponents: {spec} is left out: {error}", stacklevel=2)
                return []
        with kernels.plain(), contextlib.ExitStack() as stack:  # their kernels are tried when they play
            opponent = self._opponent(spec, stack)
            if not (sizes := [size for size in all_sizes if plays_on(opponent, size)]):
                words = f"{spec} plays on {listed(opponent.sizes)} only; this run is on {listed(all_sizes)}"
                raise InputError(f"evaluation.opponents: {words}")
            for size in sizes if isinstance(opponent, ExternalPlayer) else []:
                opponent.check(self.game.rules(size))
        return sizes

    def _opponent(self, spec: str, stack: contextlib.ExitStack) -> Player:
        player = self.player(spec.removesuffix(WHITE))
        if isinstance(player, ExternalPlayer):
            stack.callback(player.close)
        if Path(spec.removesuffix(WHITE)).name == f"{self.run_name}.pt":  # no checkpoint of this run, but exported
            player.name = player.name.replace("@", ".pt@", 1)
        return player

    def player(self, spec: str | Checkpoint) -> Player:
        """Returns the player of a word or of a checkpoint, see `make_player`."""
        return make_player(spec, self.settings, self.device, self.dtype)

    def names_of_board(self, size: int) -> tuple[str, str]:
        """Returns the charts' area of a board, and how its lines begin: with its name where there are several."""
        return (f"eval/{size}x{size}", f"{size}x{size}, ") if self.game.sizes else ("eval", "")

    def final(self, checkpoint: Checkpoint, telemetry: Telemetry, directory: Path) -> None:
        """Plays the matches at the end of the run, prints what they show, and writes a report of them. Collective call:
        rank 0 prints and writes."""
        game, on_rank0 = self.game, distributed.on_rank0
        komi = [f"{game.komi_of(size):g}" + f" on {size}x{size}" * bool(game.sizes) for size in game.all_sizes]
        on_rank0(print, f"final matches, {self.settings.simulations} simulations a move, komi {', '.join(komi)}:")
        results, numbers = list[MatchResult](), dict[str, float]()
        for _, line, result, of_match in self.play(
            checkpoint, FINAL * self.settings.games, lambda text: on_rank0(print, f"warning: {text}")
        ):
            on_rank0(print, line, flush=True)
            results.append(result)
            numbers |= of_match
            on_rank0(telemetry.call, pool.add, directory / pool.FILE, result)
        if distributed.is_rank0():
            ratings = telemetry.call(self._report, results, checkpoint, directory)
            telemetry.scalars(checkpoint.step, numbers | ratings)

    def _report(self, results: Sequence[MatchResult], checkpoint: Checkpoint, directory: Path) -> dict[str, float]:
        """Writes a report of final matches for each board, and returns the charts' numbers of the ratings, by tag."""
        game, numbers = self.game, dict[str, float]()
        for size in game.all_sizes:
            if here := [result for result in results if result.rules.size == size]:
                met, paired = pool.read(directory / pool.FILE), [result for result in here if result.is_paired]
                numbers |= elo_numbers(met, size, here[0].name_a, self.names_of_board(size)[0])
                names = list(dict.fromkeys(name for one in paired or here for name in (one.name_a, one.name_b)))
                (folder := directory / f"{size}x{size}" if game.sizes else directory).mkdir(exist_ok=True)
                ratings = rating_table(names, paired) if paired else []
                print(f"  report: {write_report(folder, here, names, ratings, checkpoint.config.to_dict())}")
        return numbers

    def play(
        self, checkpoint: Checkpoint, num_games: int, warn: Callable[[str], None] = warnings.warn
    ) -> Iterator[tuple[str, str, MatchResult, dict[str, float]]]:
        """Yields of each match when it is over: the opponent of the settings, a line, the result, and the charts'
        numbers by tag. warn: called with a sentence about an opponent that is missing, whose match is left out."""
        player = self.player(checkpoint)
        by_rank = distributed.all_gather_object(self.sizes_of)  # each plays a share of every match
        for size in self.game.all_sizes:
            area, where = self.names_of_board(size)
            for word in [word for word in self.settings.opponents if size in by_rank[0][word]]:
                start, spec = time.time(), word.removesuffix(OPTIONAL)
                try:
                    if lacking := [number for number, sizes_of in enumerate(by_rank) if size not in sizes_of[word]]:
                        raise InputError(f"rank {lacking[0]} has no such opponent")
                    result = self._match(player, spec, size, num_games)
                except (InputError, OSError) as error:
                    if isinstance(error, OSError) and distributed.world_size() > 1:
                        raise  # the other ranks are in the midst of the match
                    warn(f"no match against {spec} on {size}x{size}: {error}")
                    continue
                tag = f"{area}/" + re.sub(r"[^\w.=-]+", "_", spec.replace(":", ""))
                numbers = {f"{tag}_winrate": result.win_rate, f"{tag}_score_points": result.mean_score}
                numbers[f"{tag}_whole_board_black"] = result.whole_board_black
                words = f"  {where}{describe(spec, result)} ({time.time() - start:.0f} s, ended {time_of_day()})"
                yield spec, words, result, numbers

    def _match(self, player: Player, spec: str, size: int, num_games: int) -> MatchResult:
        """Plays one match; half as many games where only one colour is at stake."""
        settings = self.match_settings(size, num_games)
        if spec == "self" or spec.endswith(WHITE):
            settings = replace(settings, num_games=num_games // 2, is_paired=False, opening_plies=0)
        if spec == "self":
            return play_match(player, player, settings)
        with contextlib.ExitStack() as stack:
            opponent = distributed.run_and_sync_errors(self._opponent, spec, stack)
            return play_match(player, opponent, replace(settings, move_cap=cap_for(self.game, [opponent], size)))

    def match_settings(self, size: int, num_games: int) -> MatchSettings:
        """Returns how networks meet on a board."""
        options = {"opening_plies": self.settings.opening_plies, "move_cap": self.game.plies(size)}
        options |= {"device": self.device, "at_once": self.at_once}
        return MatchSettings(self.game.rules(size), num_games, self.seed, **options)


def elo_numbers(met: Sequence[pool.Meeting], size: int, name: str, area: str) -> dict[str, float]:
    """Returns the charts' numbers of a player's rating in a pool, by tag; none where it has met nobody."""
    for player, value, low, high in pool.rate(met, size, [name]):
        if player == name:
            return {f"{area}/elo": value, f"{area}/elo_low": low, f"{area}/elo_high": high}
    return {}


def describe(spec: str, result: MatchResult) -> str:
    """Returns what a match showed in one line."""
    number = result.num_games
    whole = f"Black takes the whole board in {round(result.whole_board_black * number)} of {number}"
    if spec == "self":
        wins = f"Black wins {result.wins} of {number}"
        return f"against itself: {wins}, {whole}; {result.num_different_games} of the games differ"
    is_white, (low, high) = spec.endswith(WHITE), result.interval
    sure = f"95 % interval: {100 * low:.1f} to {100 * high:.1f} %"
    wins = f"wins {result.wins} of {number} {'as Black ' if is_white else ''}({sure})"
    colours = whole if is_white else f"{result.by_colour(True)[0]} as Black, {result.by_colour(False)[0]} as White"
    faults = sum(result.stopped(FORFEIT))  # of an engine outside, which then loses what it might have won
    blamed = f", {faults} lost by faults of the engine" if faults else ""
    return f"against {spec.removesuffix(WHITE)}: {wins}, {colours}{blamed}"


def measure(matches: Matches, network: Checkpoint, path: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Plays the checkpoint of a file against the opponents of the settings, and on boards where it has met any of them
    against earlier ones of its run; adds all to the run's pool, and yields lines and the charts' numbers by tag."""
    folder = path.parents[1]
    left_out: list[str] = []
    for _, line, result, numbers in matches.play(network, matches.settings.games, left_out.append):
        pool.add(folder / pool.FILE, result)
        yield line, numbers
    yield from ((f"  warning: {text}", {}) for text in left_out)
    settings, player = matches.settings, matches.player(network)
    stem, steps = player.name.rpartition("@")[0], {checkpoint.step_of(file): file for file in checkpoint.paths(folder)}
    earlier = {f"{stem}@{step}": file for step, file in steps.items() if step < network.step}
    players = [step for step in network.counters.get("players", ())[-1:] if step != network.step]
    plays = {f"{stem}@{step}": checkpoint.path_of(folder, step) for step in players}
    earlier, of_gate = earlier | plays, list[MatchResult]()
    for size in matches.game.all_sizes:
        area, where = matches.names_of_board(size)
        # Without those of a measurement that was interrupted, so that it comes out the same.
        met = [one for one in pool.read(folder / pool.FILE) if one.player != player.name or one.opponent not in earlier]
        order = list(plays)
        if any(player.name in meeting[:2] and meeting.size == size for meeting in met):
            telling = pool.sort_by_information(met, size, player.name, list(earlier), settings.games)
            order += [*pool.strongest(met, size, telling), *telling]
        for name in list(dict.fromkeys(order))[: max(settings.earlier_opponents, len(plays))]:
            try:
                other = matches.player(checkpoint.load(earlier[name]))
            except InputError as error:  # it may have been removed meanwhile
                yield f"  {where}warning: no match against {name}: {error}", {}
                continue
            result = play_match(player, other, matches.match_settings(size, settings.games))
            of_gate += [result] if name in plays else []
            pool.add(folder / pool.FILE, result)
            yield f"  {where}{result.lines()[0]}, at {time_of_day()}", {}
        yield from _standing(folder, size, player.name, list(earlier), where, area)
    if of_gate:
        rate = sum(float(one.points_a.sum()) for one in of_gate) / sum(one.num_games for one in of_gate)
        yield f"  {100 * rate:.1f} % of the points against {of_gate[0].name_b}, the self-play network", {OF_GATE: rate}


def _standing(
    folder: Path, size: int, name: str, earlier: list[str], where: str, area: str
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields what the pool says of a player: its rating, and the verdict against the best of the earlier ones."""
    met = pool.read(folder / pool.FILE)
    if numbers := elo_numbers(met, size, name, area):
        yield "  {}Elo {:.0f} ({:.0f} to {:.0f})".format(where, *numbers.values()), numbers
    for best in pool.strongest(met, size, earlier):
        if any({name, best} == {*meeting[:2]} and meeting.size == size for meeting in met):
            sprt = pool.verdict(met, size, name, best)
            games = sum(one.games for one in met if one.size == size and {name, best} == {one.player, one.opponent})
            sentence = VERDICTS[sprt.verdict].format(best)
            yield f"  {where}{sentence} ({games} games against it)", {f"{area}/sprt_llr": sprt.llr}


def apply_gate(
    players: list[int], step: int, shown: dict[str, float] | None, least: float, note: Callable[[str], None]
) -> list[int]:
    """Returns the steps that have played, now that the matches of a step have shown these numbers, None where there are
    no new ones. least: the gate, 0 for none. A checkpoint that had no opponent, as the player's file is gone, plays."""
    if not least or shown is None or shown.get(OF_GATE, 1.0) < least or step in players[-1:]:
        return players
    note(f"step {step} is the self-play network from now on")
    return [*players, step]


def load_player(folder: Path, players: list[int], note: Callable[[str], None]) -> Checkpoint | None:
    """Returns the checkpoint of the last of these steps of a run, on all ranks. Returns None, for the newest weights,
    where there are no steps, or the checkpoint does not load; then it says so and empties the list."""
    if not players:
        return None
    try:
        return distributed.run_and_sync_errors(checkpoint.load, checkpoint.path_of(folder, players[-1]))
    except InputError as error:
        what = f"step {players[-1]} cannot be loaded, so the newest weights play until the next matches"
        note(f"warning: {what}: {error}")
        players.clear()
        return None


def best_steps(folder: Path, size: int) -> list[int]:
    """Returns the step of the run's checkpoint that is rated highest on a board, none before any match there."""
    met, steps = pool.read(folder / pool.FILE), {str(checkpoint.step_of(file)) for file in checkpoint.paths(folder)}
    names = [meeting.player for meeting in met if meeting.player.rpartition("@")[2] in steps]
    return [int(name.rpartition("@")[2]) for name in pool.strongest(met, size, names)]


# What the matches of a checkpoint showed: lines to print, and the charts' numbers by tag, None where they have failed.
Played = tuple[list[str], dict[str, float] | None]


class BackgroundMatches:
    """At most one process that plays the matches of one checkpoint. The process ends with the run, however the run
    ends.

    note: prints a line. step: the training step of the newest matches. begun: the run's seconds when they were started.
    state: the run's, whose `last_match` follows when the results are charted: a kill before makes them due again."""

    def __init__(self, matches: Matches, telemetry: Telemetry, note: Callable[[str], None], state: RunState) -> None:
        self.matches, self.telemetry, self.note, self.state = matches, telemetry, note, state
        self.step, self.begun = 0, self.state.last_match
        self.path: Path | None = None  # of the checkpoint that they need
        self._process: multiprocessing.Process | None = None

    @property
    def running(self) -> bool:
        """Whether matches were started whose results `poll_results` has not returned yet."""
        return self._process is not None

    def start(self, path: Path, step: int, seconds: float) -> None:
        """Begins the matches of the checkpoint in a file, which must stay until they are concluded. Where the machine
        can't start another process, it warns, and these matches are left out."""
        try:
            self._start(path)
        except OSError as error:
            self.note(f"warning: no matches: {one_line(error)}")
            self.begun = self.state.last_match = seconds
            return
        self.path, self.step, self.begun = path, step, seconds

    def _start(self, path: Path) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would share CUDA and the threads' locks
        self._results, sender = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_play, args=(sender, self.matches, path), daemon=True)
        resource_tracker.ensure_running()  # whose start would let SIGINT through again
        # Until `_play` ignores it, Ctrl-C would end the process with a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
            self._process = process
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        atexit.register(process.kill)  # else multiprocessing sends SIGTERM, see `_play`, and waits for its end
        sender.close()  # the child's copy is the only one left, so its death is seen

    def state_dict(self) -> dict[str, Any]:
        """Returns which matches are on, for a snapshot."""
        return {"step": self.step, "begun": self.begun} if self.running else {}

    def load_state_dict(self, state: dict[str, Any], folder: Path) -> None:
        """Begins the matches of a snapshot again. folder: the run's, which may be a copy of the one in the snapshot."""
        if state and (path := checkpoint.path_of(folder, state["step"])).exists():
            self.start(path, state["step"], state["begun"])

    def poll_results(self, wait: bool = False) -> dict[str, float] | None:
        """Prints and charts the results of the matches if these are over, and returns the charts' numbers. Returns None
        while the matches are running, and where they have failed, which does not end the run.

        wait: stay until they are over."""
        if not self.running or not (wait or self._results.poll()):
            return None
        if not self._results.poll():
            self.note(f"waiting for the matches of step {self.step}")
        lines, numbers = self._take()
        for line in (f"step {self.step}:", *lines):
            self.note(line)
        if numbers is not None:
            self.telemetry.scalars(self.step, numbers)
        atexit.unregister(self._process.kill)  # which would keep its files open
        self.path, self._process, self.state.last_match = None, None, self.begun
        return numbers

    def close(self) -> None:
        """Ends the matches that are running; their results are lost."""
        if self.running:
            self._process.kill()
            self._process.join()
            atexit.unregister(self._process.kill)
            self.path = self._process = None

    def _take(self) -> Played:
        """Returns what the matches showed once they are over."""
        try:
            return self._results.recv()
        except (EOFError, OSError):  # before a message, and within one
            self._process.join()
            return [f"  warning: no matches: their process ended with {self._process.exitcode}"], None


def _play(results: Connection, matches: Matches, path: Path) -> None:
    """Plays the matches of a checkpoint and sends what they showed."""
    for number in (*signals.LEAVING, signals.SAVING):  # these are for the run, which ends this process itself
        signal.signal(number, signal.SIG_IGN)
    runtime.end_with_parent()  # when the run has been killed, nobody would read the results
    _yield_to_run(matches)
    lines, numbers = [], {}
    try:
        network = checkpoint.load(path)
        cli.set_up(with_overrides(network.config, ["run.threads=1"]))  # the run's device and kernels
        for line, numbers_of_match in measure(matches, network, path):
            lines.append(line)
            numbers |= numbers_of_match
        results.send((lines, numbers))
    except (InputError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not tuning.lacks_memory(error):
            raise
        # A full disk, for one, refuses a line of the pool's file.
        results.send(([f"  warning: no matches: {one_line(error)}"], None))


def _yield_to_run(matches: Matches) -> None:
    """Leaves most of the cores, or of the GPU, to the run."""
    os.nice(NICENESS)
    if matches.device.type == "cuda":  # which `nice` does not reach: two processes take turns there, half of it each
        matches.at_once = GAMES_AT_ONCE_ON_GPU
        os.environ.setdefault("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", GPU_PERCENT)  # read when CUDA starts, if MPS runs
