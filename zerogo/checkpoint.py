"""A network in training, in one file: enough to play, to match and to continue training. Written atomically, and safe
to load from a stranger.

The file is a dictionary of tensors and plain values in torch's zip format. It is only ever read with
`weights_only=True`, so it can't run code."""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zerogo.config import Config, from_dict
from zerogo.errors import InputError, quote, refuse_os_errors
from zerogo.features import Encoder, make_encoder
from zerogo.network import Network, katago_format
from zerogo.network.katago import KataGoNetwork
from zerogo.rules import coords
from zerogo.system import bounds
from zerogo.system.runtime import code_revision, write_atomically

FORMAT = "zerogo checkpoint"
VERSION = 2
FOLDER = "checkpoints"
NAME = re.compile(r"step-(\d{8,})\.pt")
PARTS: dict[str, type] = {
    "config": dict, "step": int, "weights": dict, "averaged_weights": dict, "trainer": dict, "generators": dict,
    "counters": dict, "run": dict, "revision": str, "time": str,
}  # fmt: skip


@dataclass
class Checkpoint:
    """A run at a training step; or, with an empty `trainer`, a network alone.

    step: training steps so far. weights, averaged_weights: the network's state by parameter name (the averaged ones
    play, with batch-norm statistics of their own). trainer: the trainer's state (optimiser, schedule position), empty
    in a network alone. generators: state of each torch.Generator, uint8. counters: games, samples, seconds and other
    running totals. run: "logs", the length of each log file; in a snapshot also all else that a run resumes with, above
    all the running games. revision: of the code that wrote it. time: when, in UTC. source: the file it was read from,
    for messages; not saved. All values are tensors, numbers, texts, or lists and dictionaries of these."""

    config: Config
    step: int
    weights: dict[str, Tensor]
    averaged_weights: dict[str, Tensor]
    trainer: dict[str, Any] = field(default_factory=dict)
    generators: dict[str, Tensor] = field(default_factory=dict)
    counters: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    revision: str = field(default_factory=code_revision)
    time: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    source: str = "checkpoint"

    @property
    def sizes(self) -> dict[int, list[float]] | None:
        """The board sides that the network learned on, each with its komi, rising; None for any."""
        return None if katago_format.is_network(self.source) else self.config.game.komi_by_size()

    def encoder(self) -> Encoder:
        """Returns the encoder that the network was trained with."""
        return make_encoder(self.config.features.encoder, self.config.features.komi_input)

    def network(self) -> Network | KataGoNetwork:
        """Returns the network in evaluation mode on the CPU, float32, with the averaged weights."""
        network = fresh_network(self.config)
        network.load_state_dict(self.averaged_weights)
        return network.eval()

    def network_alone(self) -> Checkpoint:
        """Returns what is needed to play and to begin another run: the averaged weights, once, and the config without
        the places of its maker's files."""
        config = replace(self.config, run=replace(self.config.run, directory="checkpoints", start_from=""))
        of_maker = {"revision": self.revision, "time": self.time, "source": self.source}
        return Checkpoint(config, self.step, self.averaged_weights, self.averaged_weights, **of_maker)


def save(path: str | Path, checkpoint: Checkpoint, keep_special: bool = False) -> None:
    """Writes the checkpoint and makes its directory; after a crash the file is whole, or as it was before.
    keep_special: see `write_atomically`. Raises OSError where the disk refuses."""
    contents = {"format": FORMAT, "version": VERSION, "config": checkpoint.config.to_dict()}
    contents |= {name: portable(getattr(checkpoint, name)) for name in PARTS if name not in contents}
    if checkpoint.weights is checkpoint.averaged_weights:
        contents["weights"] = contents["averaged_weights"]  # which torch then writes once
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: torch.save(contents, file), keep_special)


def export(path: str | Path, checkpoint: Checkpoint) -> None:
    """Writes the network of a checkpoint alone, to a .bin.gz or .txt.gz for KataGo's engine where the architecture is
    KataGo's. Raises InputError where the file can't be written."""
    with refuse_os_errors(f"cannot write the network to {path}"):
        if katago_format.is_network(path):
            if checkpoint.config.network.architecture != "katago":
                what = f"cannot write {path}: KataGo's engine plays only network.architecture=katago"
                raise InputError(f"{what}, but {checkpoint.source} has {checkpoint.config.network.architecture}")
            katago_format.write(path, checkpoint.network(), f"{checkpoint.config.run.name}-{checkpoint.step}")
        else:
            save(path, checkpoint.network_alone(), keep_special=True)


def load(path: str | Path) -> Checkpoint:
    """Returns the checkpoint of a file, its tensors on the CPU; of a KataGo file, of which nothing else is known, the
    network under settings that fit it.

    Raises InputError, with one sentence, for a file that is missing, cut short, damaged, no checkpoint, of a newer
    format, that holds anything but tensors and plain values, or whose weights don't fit its own config."""
    if katago_format.is_network(path):
        network = katago_format.read(path, Config().game.largest_size)
        weights = {key: tensor.detach() for key, tensor in network.state_dict().items()}
        return Checkpoint(katago_format.config_of(network, path), 1, weights, weights, source=str(path))
    contents = read(Path(path))
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise InputError(f"{path} is not a zerogo checkpoint: it was written by another program")
    if (version := contents.get("version")) != VERSION:
        what = f"checkpoint {path} has format version {quote(version)}"
        raise InputError(f"{what}, written by another version of zerogo; this one reads version {VERSION}")
    if missing := [name for name, kind in PARTS.items() if not isinstance(contents.get(name), kind)]:
        raise InputError(f"checkpoint {path} lacks {', '.join(missing)}; it is damaged or was not written by zerogo")
    config = from_dict(contents["config"], f"checkpoint {path}", was_used=True)
    others = {name: contents[name] for name in PARTS if name != "config"}
    if not others["trainer"] and not NAME.fullmatch(Path(path).name):  # what was exported goes by its file's name
        config = replace(config, run=replace(config.run, name=Path(path).stem.lstrip(".")))
    checkpoint = Checkpoint(config=config, source=str(path), **others)
    with torch.device("meta"):  # shapes only
        network = fresh_network(config)
    for weights in (checkpoint.weights, checkpoint.averaged_weights):
        _require_fitting(weights, network, str(path))
    return checkpoint


def read(path: Path) -> Any:
    """Returns what torch reads from the file, tensors and plain values. Raises InputError with the reason when it
    can't, or may not."""
    try:
        bounds.require_checkpoint(path)
        with refuse_os_errors(f"cannot read the checkpoint {path}"):
            size, contents = path.stat().st_size, torch.load(path, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # an archive of another program: RuntimeError, KeyError, AttributeError, …
        raise InputError(f"{path} is not a zerogo checkpoint ({type(error).__name__} while reading it)") from error
    bounds.require_modest(contents, str(path), size)  # the file may be gone by now
    return contents


def portable(value: Any) -> Any:
    """Returns the value with tensors on the CPU, each with a storage of its own: a view would save all of another."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, Mapping):
        return {portable(key): portable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [portable(part) for part in value]
    if value is None:
        return value
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)  # numpy.float64 and enumerations, too, which `load` would refuse as foreign classes
    raise TypeError(f"a checkpoint holds tensors, numbers, texts, lists and dictionaries, not {type(value).__name__}")


def fresh_network(config: Config) -> Network | KataGoNetwork:
    """Returns a network of the config's shape, with first weights drawn from torch's global generator. Raises
    InputError for an architecture that sees other inputs than the encoder's."""
    encoder = make_encoder(config.features.encoder, config.features.komi_input)
    if config.network.architecture == "katago":
        inputs = encoder.num_planes, encoder.num_globals
        if inputs != (KataGoNetwork.num_planes, KataGoNetwork.num_globals):
            what = f"features.encoder {encoder.name!r} has {inputs[0]} planes and {inputs[1]} global inputs"
            raise InputError(f"network.architecture is katago, for the encoder katago22, but {what}")
        return katago_format.fresh(config.network, config.game.largest_size)
    return Network(config.network, encoder.num_planes, encoder.num_globals, config.game.largest_size)


def _require_fitting(weights: Mapping[str, Any], network: Network, where: str) -> None:
    """Raises InputError unless the weights have the network's names and shapes."""
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    actual = {name: tuple(tensor.shape) if isinstance(tensor, Tensor) else None for name, tensor in weights.items()}
    for name in sorted(expected.keys() | actual.keys(), key=str):
        if name not in actual:
            raise InputError(f"checkpoint {where} lacks the weights {name} that its config requires")
        if name not in expected:
            raise InputError(f"checkpoint {where} holds weights {name} that its config does not have")
        if expected[name] != actual[name]:
            shapes = f"the shape {actual[name]}; its config requires {expected[name]}"
            raise InputError(f"checkpoint {where}: weights {name} have {shapes}")


def require_compatible(checkpoint: Checkpoint, config: Config, only_plays: bool = False) -> None:
    """Raises InputError when a run with this config can't resume from the checkpoint: its board sizes, encoder or
    network differ.

    Loss weights, rules apart from the sizes, and all that says how to play and train may change. only_plays: nothing is
    to be learned, so that some of the checkpoint's sizes will do."""
    sizes, old, changed = {*config.game.all_sizes}, checkpoint.sizes and {*checkpoint.sizes}, {}
    if old is not None and sizes != old and not (only_plays and sizes < old):
        one = len(sizes) == len(old) == 1
        words = [max(sides) if one else coords.listed(sides) for sides in (old, sizes)]
        changed["game.size" if one else "game.sizes"] = words
    changed |= differences(checkpoint, config)
    heads = [sorted(one.network.heads) for one in (checkpoint.config, config)]
    changed |= {"network.heads": heads} if heads[0] != heads[1] else {}
    for key, (was, now) in changed.items():
        what = f"{checkpoint.source} was made with {key} {was}, but the config says {now}"
        raise InputError(f"{what}; use the same, or start a new run under another run.name")


def differences(checkpoint: Checkpoint, config: Config) -> dict[str, tuple[Any, Any]]:
    """Returns the settings of encoder and network, apart from the heads, in which a config differs from a checkpoint's:
    "section.key" to the value there and here."""
    old, new = checkpoint.config.flat(), config.flat()
    keys = [key for key in old if key.startswith(("features.", "network.")) and key != "network.heads"]
    return {key: (old[key], new[key]) for key in keys if old[key] != new[key]}


def weights_for(config: Config, checkpoint: Checkpoint | None = None) -> dict[str, Tensor]:
    """Returns the averaged weights of `run.start_from`, with which a run with this config begins.

    Board sizes, rules and heads may differ. checkpoint: the one of `run.start_from`, if it is loaded already. Raises
    InputError where it does not load, or its encoder or its tower is another."""
    checkpoint = checkpoint or load_newest(config.run.start_from)
    for key, (was, now) in differences(checkpoint, config).items():
        what = f"run.start_from: {checkpoint.source} was made with {key} {was}, but the config says {now}"
        raise InputError(f"{what}; its weights fit {key}={was} only")
    return checkpoint.averaged_weights


def path_of(run_directory: str | Path, step: int) -> Path:
    """Returns where the checkpoint of a training step lies: names sort like steps."""
    return Path(run_directory) / FOLDER / f"step-{step:08d}.pt"


def paths(run_directory: str | Path) -> list[Path]:
    """Returns the checkpoint files of a run, oldest first, whole or not."""
    files = [path for path in (Path(run_directory) / FOLDER).glob("step-*.pt") if NAME.fullmatch(path.name)]
    return sorted(files, key=step_of)


def step_of(path: Path) -> int:
    """Returns the training step of a checkpoint's file, by its name."""
    return int(NAME.fullmatch(path.name)[1])


def newest(run_directory: str | Path, find: Callable = paths, read: Callable | None = None) -> Checkpoint | None:
    """Returns the newest checkpoint of a run that loads, or None; warns of each newer one that doesn't. find: returns
    a folder's files, oldest first. read: returns the checkpoint of a file, by default as `load`."""
    for path in reversed(find(Path(run_directory))):
        try:
            return (read or load)(path)
        except InputError as error:
            warnings.warn(f"skipped: {error}", stacklevel=2)
    return None


def load_newest(path: str | Path) -> Checkpoint:
    """Returns the checkpoint that a person means: of the file, or the newest one of a run's folder that loads.

    Raises InputError where there is none; warns of each newer one that doesn't load."""
    path = bounds.shipped(path)
    if not path.exists():
        raise InputError(bounds.missing(path))
    if not path.is_dir():
        return load(path)
    if (checkpoint := newest(path.parent if path.name == FOLDER and not paths(path) else path)) is None:
        raise InputError(f"the folder {path} holds no complete checkpoint; give a checkpoint file or a run's folder")
    return checkpoint


def prune(run_directory: str | Path, keep: int, newest: Path, needed: Collection[Path]) -> None:
    """Removes all but the `keep` newest checkpoints of a run; 0 keeps all.

    newest: the one just written. Files of later steps could not be loaded, or the run would have resumed from them:
    they are neither counted nor removed. needed: files that stay, too."""
    files = paths(run_directory)
    files = files[: files.index(newest) + 1]
    for path in files[:-keep] if keep else ():
        if path not in needed:
            path.unlink(missing_ok=True)
