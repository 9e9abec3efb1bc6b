"""The smallest runs that have all parts of large ones, and evaluators that need no network."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path

from zerogo import board, checkpoint
from zerogo.checkpoint import Checkpoint, fresh_network
from zerogo.config import Config, with_overrides
from zerogo.evaluator import Evaluation
from zerogo.network import Network
from zerogo.pipeline import snapshots, train
from zerogo.pipeline.matches import OF_GATE, BackgroundMatches, Played
from zerogo.replay import Samples, TrainingBatch
from zerogo.replay.samples import union
from zerogo.replay.shards import find_shards, load_shard
from zerogo.selfplay import SelfPlay
from zerogo.tuning.trials import Table as Table

CPU = torch.device("cpu")
FORK = multiprocessing.get_context("fork")
FORKED = patch("zerogo.pipeline.matches.multiprocessing", Mock(get_context=lambda _: FORK))
SETTINGS = """
    run.device=cpu run.processes=1 run.threads=1 run.precision=float32 run.name=tiny
    game.size=3 game.komi=4.5 game.move_cap=12
    features.encoder=zero17 selfplay.opening_plies=0
    network.blocks=1 network.channels=8 network.pooling_channels=4 network.head_channels=4 network.value_hidden=8
    search.max_considered=2 selfplay.slots=8 selfplay.full_simulations=2 selfplay.cheap_simulations=1
    selfplay.random_opening_games=16 selfplay.sgf_share=0.5 replay.min_window=2000 replay.capacity=4000
    replay.shard_samples=64 training.batch=16 training.warmup_samples=0 training.ema_samples=100
    evaluation.every_minutes=0 evaluation.games=2 evaluation.simulations=2
    evaluation.opponents=[random] evaluation.earlier_opponents=0
    pipeline.iterations=2 pipeline.games_per_iteration=8 pipeline.checkpoint_minutes=0
    pipeline.keep_checkpoints=0 pipeline.keep_games=1000 pipeline.final_matches=false
""".split()


def config(*overrides: str) -> Config:
    """Returns the smallest settings, with overrides such as "game.size=5"."""
    return with_overrides(Config(), [*SETTINGS, *overrides])


def network(settings: Config, seed: int = 1, is_sharp: bool = False) -> Network:
    """Returns a fresh network of the config's shape; is_sharp: its readouts tell positions and moves apart."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        made = fresh_network(settings)
        for name, parameter in made.named_parameters() if is_sharp else ():
            if "readout" in name:
                parameter.normal_(std=0.5)
        return made


def fresh_checkpoint(settings: Config, step: int = 1) -> Checkpoint:
    """Returns a checkpoint of a fresh network."""
    weights = network(settings, step).state_dict()
    return Checkpoint(settings, step, weights, weights)


def batch_of(samples: Samples, symmetry: Tensor) -> TrainingBatch:
    return TrainingBatch(samples.records(), symmetry, samples.board_size, union(samples.kinds()))


def self_play(settings: Config, evaluator: object, seed: int, first_game: int = 0) -> SelfPlay:
    """Returns self-play on the CPU as the config has it."""
    return SelfPlay(settings, evaluator, CPU, seed, first_game)


def samples_of(state: board.State, seed: int, **fields: Tensor) -> Samples:
    """Returns samples of these positions with random targets, but for the fields that are given."""
    newest = torch.stack((state.black, state.white), dim=1).unsqueeze(1)
    of_state = {name: getattr(state, name) for name in ("to_play", "passes", "ply", "ko", "moves")}
    of_rules = {name: getattr(state.rules, name) for name in ("superko", "scoring", "suicide", "komi")}
    narrowed = {"captures": state.captures.to(torch.int16), "size": state.rules.size.to(torch.int8)}
    games, side, drawn = state.num_games, state.board_size, torch.Generator().manual_seed(seed)
    rand = partial(torch.rand, generator=drawn)
    targets = {
        "policy": torch.softmax(6 * rand(games, side**2 + 1), dim=1).to(torch.float16),
        "value": torch.where(rand(games) < 0.5, -1.0, 1.0),
        "root_value": rand(games),
        "short_values": (2 * rand(games, 3) - 1).to(torch.float16),
        "score": rand(games),
        "ownership": torch.where(rand(games, side, side) < 0.5, -1, 1).to(torch.int8),
        "reply": torch.randint(-1, side**2 + 1, (games,), generator=drawn, dtype=torch.int16),
    }
    targets |= dict.fromkeys(("policy_weight", "board_weight"), torch.ones(games))
    targets |= dict.fromkeys(("game", "network_step"), torch.zeros(games, dtype=torch.int64))
    position = {"rows": torch.cat((newest, state.recent), dim=1)} | of_state | of_rules | narrowed
    return Samples(**position | targets | fields)


@dataclasses.dataclass
class Script:
    """An evaluator that wants given moves: moves[ply] of every game, and Black's value from each ply on."""

    moves: Sequence[int]
    values_black: Sequence[float] = (0.0,)

    def with_symmetries(self, symmetries: str) -> Script:
        return self

    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        moves, values = torch.tensor(self.moves), torch.tensor(self.values_black)
        move, black = (of[state.ply.to(torch.int64).clamp(max=len(of) - 1)] for of in (moves, values))
        prior = torch.nn.functional.one_hot(move, state.board_size**2 + 1).to(torch.float32)
        return Evaluation(prior=prior, value=torch.where(state.to_play == board.BLACK, black, -black))


def run(folder: Path, *overrides: str, resume: bool = False) -> Path:
    """Trains the smallest run in a folder and returns its own folder. A fork plays its matches: it imports nothing."""
    with FORKED:
        train(config(f"run.directory={folder}", *overrides), resume=resume)
    return folder / "tiny"


def decide_matches(rates: Sequence[float], patch: Callable[[object, str, object], None] = setattr) -> None:
    """Has the background matches of runs be over at once: the checkpoint of the k-th iteration gets rates[k - 1] of the
    points against the one that plays, if any does."""

    def start(self: BackgroundMatches, path: Path, step: int, seconds: float) -> None:
        self._process, self._results = Mock(), Mock()
        self.path, self.step, self.begun = path, step, seconds

    def take(self: BackgroundMatches) -> Played:
        counters = checkpoint.load(self.path).counters
        return [], {OF_GATE: rates[counters["iterations"] - 1]} if counters["players"] else {}

    patch(BackgroundMatches, "start", start)
    patch(BackgroundMatches, "_take", take)


def all_samples(folder: Path) -> Samples:
    """Returns the samples of a run, those that no shard has yet among them."""
    newest = next(snapshots.starts(folder))
    side = newest.config.game.largest_size
    shards = [load_shard(shard.path) for shard in find_shards(folder / "replay")]
    return Samples.cat([*shards, Samples.of_records(newest.run["replay"]["pending"], side)])


def files(folder: Path) -> dict[str, bytes]:
    """Returns what all files of a folder hold, by their paths within it; without the lock, which says who was there."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: content for name, content in found.items() if not name.endswith(".lock")}


def lines(path: Path) -> list[dict]:
    """Returns the records of a file of JSON lines, each of which must be whole."""
    text = path.read_text()
    assert not text or text.endswith("\n"), f"{path}: the last line is broken"
    return [json.loads(line) for line in text.splitlines()]


def events(folder: Path) -> Any:
    """Returns what TensorBoard reads of a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()


def different(one: Path, other: Path) -> list[str]:
    """Returns the names of what differs between two runs, but for times: weights, training, games, charts."""
    found = []
    for folder in (one, other):
        state = vars(next(snapshots.starts(folder)))
        kept = {name: state[name] for name in ("step", "weights", "averaged_weights", "trainer", "generators")}
        kept |= {"counters": state["counters"], "charts": lines(folder / "logs" / "metrics.jsonl"), "files": []}
        kept["run"] = {name: part for name, part in state["run"].items() if name != "logs"}
        kept["files"] = [path.name for path in sorted(folder.rglob("*.pt")) if path.name.startswith("step")]
        found.append({keystr(path): part for path, part in tree_flatten_with_path(kept)[0]})
    times = r"_per_s|seconds|'time'|minutes|last_|replay/in_memory|begun|'word'"
    names = [name for name in {**found[0], **found[1]} if not re.search(times, name)]
    return [name for name in names if not _same(*(of.get(name) for of in found))]


def _same(one: object, other: object) -> bool:
    return torch.equal(one, other) if isinstance(one, Tensor) and isinstance(other, Tensor) else one == other
