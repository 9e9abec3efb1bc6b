"""The shared parts of all front ends: the options of their command lines, the set-up by them (settings, threads,
kernels, device), and the players and analysts that words on a command line name.

Importing this module imports no torch, so that --help and mistakes in a command line are answered at once."""

from __future__ import annotations

import argparse
import math
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from zerogo.system import bounds

if TYPE_CHECKING:  # these import torch, which takes seconds
    import torch

    from zerogo.checkpoint import Checkpoint
    from zerogo.config import Config
    from zerogo.players import Player
    from zerogo.players.analyst import Analyst

OVERRIDE = re.compile(r"[a-z_]+\.[a-z_.0-9]+=.*", re.DOTALL)
LARGEST = 2.0**63  # number on a command line
# With one of these, set on some clusters, OpenMP would bind this process, and all that it starts, to the first core.
BINDING = "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"
NOT_FILES = ("human", "random", "self")  # words for players that name no file, whatever files there are


def number(kind: Callable[[str], float], low: float, high: float = LARGEST) -> Callable[[str], float]:
    """Returns a function for argparse that reads a number from low to high, and raises ArgumentTypeError for any other
    text. kind: int or float."""

    def _read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            kinds = "whole numbers" if kind is int else "numbers"
            limits = f" from {low} to {high}" if high < LARGEST else f", {low} or more"
            raise argparse.ArgumentTypeError(f"it is {text!r}; allowed are {kinds}{limits}")
        return value

    return _read


def new_file(text: str) -> Path:
    """Returns the path of a file to write, for argparse. Raises ArgumentTypeError for a folder, or in a missing one."""
    if text.endswith("/") or os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text} is a folder; give it the name of a file")
    if not os.path.isdir(os.path.dirname(text) or "."):
        raise argparse.ArgumentTypeError(f"it is {text}; it must be a file in a folder that exists")
    return Path(text)


OPTIONS: dict[str, dict[str, Any]] = {
    "simulations": {"type": number(int, 1), "metavar": "N", "help": "simulations a move (default: {key})"},
    "seed": {"type": number(int, 0), "metavar": "N", "help": "random seed (default: {key})"},
    "device": {"metavar": "D", "help": "auto, cpu, cuda or cuda:1 (default: {key})"},
    "precision": {"choices": ("auto", "float32", "bfloat16"), "help": "number format of the network (default: {key})"},
    "threads": {"type": number(int, 0), "metavar": "N", "help": "CPU threads (0: automatic; default: {key})"},
    "config": {"type": Path, "metavar": "FILE", "help": "YAML file with the settings (default: the checkpoint's)"},
    "rules": {"metavar": "NAME", "help": "tromp-taylor, chinese, japanese, aga, ... (default: the network's)"},
    "komi": {"type": number(float, -1000, 1000), "metavar": "POINTS", "help": "White's points (default: {key})"},
    "resign": {"action": argparse.BooleanOptionalAction, "default": True, "help": "give up lost games (default: yes)"},
}
# The setting that an option changes.
KEYS = {"simulations": "evaluation.simulations", "komi": "game.komi"}
KEYS |= {name: f"run.{name}" for name in ("seed", "device", "precision", "threads")}
PLAYING = ("run", "game", "evaluation")  # the sections of settings that players use


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Ends the process with one sentence, like all bad input, and without argparse's lines of usage."""
        self.exit(2, f"error: {message}; see {self.prog} --help\n")


def make_parser(name: str, description: str | None, epilog: str, **settings: Any) -> argparse.ArgumentParser:
    """Returns an empty parser for the command line of `zerogo NAME`."""
    usual = {"prog": f"zerogo {name}", "formatter_class": argparse.RawDescriptionHelpFormatter}
    return _Parser(description=description, epilog=epilog, **usual, **settings)


def add_options(parser: argparse.ArgumentParser, *names: str, **changes: dict[str, Any]) -> None:
    """Adds options of OPTIONS to a command line, each as `--name`; the default None stands for the config's value.

    changes: other arguments of `add_argument`, such as device={"default": "auto"}."""
    for name in (*names, *changes):
        option = OPTIONS[name] | changes.get(name, {})
        default = option.get("default", KEYS.get(name))
        parser.add_argument(f"--{name}", **option | {"help": option["help"].format(key=default)})


def add_overrides(parser: argparse.ArgumentParser, source: str = "checkpoint or config") -> None:
    """Adds settings as plain words, section.key=value, in `overrides`; such a parser needs `parse_intermixed_args`."""
    text = f"settings that replace those of the {source}, such as game.size=7"
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help=text)


def is_override(text: str) -> bool:
    """Says whether a word of a command line is a setting, section.key=value."""
    return OVERRIDE.fullmatch(text) is not None


class LineQueue:
    """Lines of an input that are not read yet: a thread collects them, so that a search can see that one waits."""

    def __init__(self, lines: Iterable[Any]) -> None:
        self._waiting: queue.Queue[Any] = queue.Queue()  # None is the end of the input
        self._ended = False
        threading.Thread(target=self._read, args=(lines,), name="input", daemon=True).start()

    def take(self) -> Any:
        """Returns the next line as soon as there is one, None at the end of the input."""
        line = None if self._ended else self._waiting.get()
        self._ended = line is None
        return line

    def is_waiting(self) -> bool:
        """Returns whether a line, even an empty one, or the end of the input has come."""
        return self._ended or not self._waiting.empty()

    def _read(self, lines: Iterable[Any]) -> None:
        try:
            for line in lines:
                self._waiting.put(line)
        except (OSError, ValueError):
            pass  # a terminal that has gone is the end of the input
        finally:
            self._waiting.put(None)


def set_up_process() -> None:
    """Does what must come before torch is imported: refuses Windows, and keeps OpenMP from binding threads."""
    if sys.platform == "win32":
        print("error: zerogo runs on Linux and macOS; on Windows, use WSL", file=sys.stderr)
        sys.exit(2)
    for name in BINDING:
        os.environ.pop(name, None)


def run(parse: Callable[[], argparse.Namespace], main: Callable[[argparse.Namespace], int | None]) -> None:
    """Runs a front end as this process and ends it: parse first, so that mistakes need no torch, then main."""
    try:
        arguments = parse()
    except BrokenPipeError:  # the reader of what an option prints has gone, as in `zerogo gtp --supported | head`
        os._exit(1)
    set_up_process()
    try:
        from zerogo.system.runtime import script_main
    except KeyboardInterrupt:  # torch takes seconds
        print("interrupted", file=sys.stderr, flush=True)
        os._exit(130)
    script_main(lambda: main(arguments))


@dataclass
class Setup:
    """The settings and devices of a front end, for which the process is set up.

    config: all settings. device, dtype: of the networks. checkpoints: those in memory, by the words that name them."""

    config: Config
    device: torch.device
    dtype: torch.dtype
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)

    def checkpoint(self, word: str | Path) -> Checkpoint:
        """Returns the checkpoint of a file or a run's folder, read once. Raises InputError where there is none."""
        return _read_once(self.checkpoints, str(word))

    def player(self, word: str) -> Player:
        """Returns the player that a word means, see `analyst.make_player`. Raises InputError for a bad word."""
        from zerogo.players.analyst import make_player

        return make_player(self._named(word), self.config.evaluation, self.device, self.dtype)

    def analyst(self, word: str, simulations: int | None = None, leaves: int | None = None) -> Analyst:
        """Returns the analyst that a word means, see `analyst.make_analyst`. Raises InputError for a bad word."""
        from zerogo.players.analyst import make_analyst

        settings = self.config.evaluation
        return make_analyst(self._named(word), settings, self.device, self.dtype, simulations, leaves)

    def _named(self, word: str) -> str | Checkpoint:
        return self.checkpoint(word) if names_checkpoint(word) else word


def warn_of_unused(overrides: Iterable[str], sections: tuple[str, ...]) -> None:
    """Warns of overrides of settings that the command does not use. sections: those that it does."""
    if unused := [text for text in overrides if text.partition(".")[0].strip() not in sections]:
        what = f"no effect here: {', '.join(unused)}; this command uses only settings of {', '.join(sections)}"
        print(f"warning: {what}", file=sys.stderr)


def open_front_end(
    arguments: argparse.Namespace, words: Sequence[str] = (), sections: tuple[str, ...] = PLAYING
) -> Setup:
    """Returns the setup that the options and overrides of a command line ask for, with the process set up for it.

    words: those for players, whose first checkpoint lends its settings if there is no --config. sections: of the
    settings that the command uses. Raises InputError."""
    settings = read_config(arguments, words)
    warn_of_unused(getattr(arguments, "overrides", []), sections)
    return set_up(*settings)


def read_config(arguments: argparse.Namespace, words: Sequence[str] = ()) -> tuple[Config, dict[str, Checkpoint]]:
    """Returns the settings, and the checkpoint that was read for them by its word: those of --config, else of the first
    checkpoint among the words, else the defaults, in float32 for want of a network; then overrides, then options."""
    from zerogo.config import Config, RunConfig, load, with_overrides

    checkpoints: dict[str, Checkpoint] = {}
    named = [word for word in words if names_checkpoint(word)]
    if getattr(arguments, "config", None) is not None:
        config = load(arguments.config)
    else:
        config = _read_once(checkpoints, named[0]).config if named else Config(run=RunConfig(precision="float32"))
    options = {key: getattr(arguments, name, None) for name, key in KEYS.items()}
    changes = [f"{key}={value}" for key, value in options.items() if value is not None]
    return with_overrides(config, [*getattr(arguments, "overrides", []), *changes]), checkpoints


def set_up(
    config: Config, checkpoints: dict[str, Checkpoint] | None = None, precision: str = "", needed: Iterable[str] = ()
) -> Setup:
    """Sets up this process by `config.run` (threads, memory, kernels, device), and returns the set-up. Collective call.
    precision: the one that a run has chosen for run.precision=auto, or "". needed: as for `pick_proven_dtype`."""
    from zerogo import kernels, tuning
    from zerogo.features import make_encoder
    from zerogo.network.fused import is_worth_tiles
    from zerogo.system import distributed, runtime

    tuning.set_up_cpu(config.run.threads)
    kernels.choose(config.run.kernels)
    device = distributed.run_and_sync_errors(runtime.pick_device, config.run.device)
    needed = {*needed, *make_encoder(config.features.encoder, False).readers}
    if config.run.precision != "bfloat16" and is_worth_tiles(config.network.channels, config.game.largest_size, device):
        needed.add("winograd")
    else:
        needed.discard("norms")  # `norms_for` would not use them
    return Setup(config, device, tuning.pick_proven_dtype(config, device, needed, precision), checkpoints or {})


def shipped_network(size: int) -> str | None:
    """Returns the file in checkpoints/, here or in the package, whose name ends with the board, such as 7x7.pt; None
    where there is none."""
    folders = Path("checkpoints"), bounds.SHIPPED / "checkpoints"
    return next((str(path) for folder in folders for path in sorted(folder.glob(f"*{size}x{size}.pt"))), None)


def names_checkpoint(word: str) -> bool:
    """Returns whether a word names an existing file or folder, and no player of another kind."""
    from zerogo.players.external import is_external

    return not (word in NOT_FILES or word.startswith("mcts:") or is_external(word)) and bounds.shipped(word).exists()


def _read_once(checkpoints: dict[str, Checkpoint], word: str) -> Checkpoint:
    from zerogo.checkpoint import load_newest

    if word not in checkpoints:
        checkpoints[word] = load_newest(word)
    return checkpoints[word]
