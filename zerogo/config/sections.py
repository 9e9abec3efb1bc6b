"""The settings of a run, one frozen dataclass for each concern; above them, how a value from YAML or a command line is
read into a field, which knows its meaning with unit, its range and its source.

A source "KataGo" is its published self-play configuration, "Gumbel" is Danihelka et al., "Policy improvement by
planning with Gumbel" (2022), "measured" is our own runs."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from zerogo.errors import InputError, quote
from zerogo.rules import MAX_SIZE, MOST_KOMI, SCORING, SUPERKO, Rules
from zerogo.rules.coords import listed

MOST_SIMULATIONS = 100_000
ALL_SAMPLES = 10**12

# YAML 1.1 reads 1e-3 as text because it wants a dot and a signed exponent; everybody writes 1e-3.
EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


def option(
    default: Any,
    meaning: str,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    choices: Sequence[str] = (),
    example: str = "",
) -> Any:
    """Returns a dataclass field that knows its meaning, with its unit and in brackets the source of its default.

    low and high are inclusive, above is exclusive; they hold for every number of a list or mapping. choices: the
    allowed words. example: of a mapping or list, as YAML."""
    metadata = {"meaning": meaning, "low": low, "above": above, "high": high, "choices": choices, "example": example}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def settings_of(section: type[Section] | Section) -> list[Field]:
    """Returns the fields of a section that are settings, those made by `option`."""
    return [entry for entry in fields(section) if entry.metadata]


def allowed(entry: Field) -> str:
    """Returns in words what a field accepts, for example "a whole number from 1 to 25"."""
    choices = ", ".join(entry.metadata["choices"])
    words = f"one of {choices}" if choices and entry.type == "str" else KINDS[str(entry.type)]
    return words.format(limits=_limits(entry), example=entry.metadata["example"])


def _limits(entry: Field) -> str:
    """Returns a numeric range in words, with a leading space or comma; empty when there is none. `high` is given with
    `low` or `above`, and `above` only with `high`."""
    low, above, high = (entry.metadata[key] for key in ("low", "above", "high"))
    if above is not None:
        return f" above {above} and at most {high}"
    if low is None:
        return ""
    return f", {low} or more" if high is None else f" from {low} to {high}"


def read(value: Any, kind: Any, entry: Field) -> Any:
    """Returns the exact value of a kind, such as float or tuple[str, ...], of what YAML or a command line gave. Raises
    ValueError where it is not allowed."""
    kinds, choices = get_args(kind), entry.metadata["choices"]
    if kind in (int, float):
        return _read_number(value, kind, entry)
    if get_origin(kind) is UnionType:
        for one in kinds:
            with suppress(ValueError, OverflowError):
                return read(value, one, entry)
        raise ValueError
    accepted = {tuple: (list, tuple), dict: Mapping}.get(get_origin(kind), kind)
    _require(isinstance(value, accepted) and (kind is not str or not choices or value in choices))
    if get_origin(kind) is dict:
        _require(all(isinstance(name, str) for name in value))
        return {name: read(part, kinds[1], entry) for name, part in value.items()}
    if get_origin(kind) is not tuple:
        return value
    kinds = kinds[:1] * len(value) if kinds[-1] is ... else kinds
    _require(len(kinds) == len(value))
    return tuple(read(part, one, entry) for part, one in zip(value, kinds, strict=True))


def _read_number(value: Any, kind: type, entry: Field) -> float:
    """Returns a finite number in the field's range, truth values not being numbers."""
    if isinstance(value, str) and EXPONENT.fullmatch(value.strip()):
        value = float(value)
    _require(isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value))
    low, above, high = (entry.metadata[key] for key in ("low", "above", "high"))
    _require((low is None or value >= low) and (above is None or value > above) and (high is None or value <= high))
    _require(kind is float or value == int(value))
    return kind(value)


def _require(is_allowed: bool) -> None:
    if not is_allowed:
        raise ValueError


def _rises(rows: Sequence[tuple[float, ...]]) -> bool:
    """Returns whether the progress in rows begins with 0, rises, and is at most 1."""
    starts = [progress for progress, _ in rows]
    return starts[:1] == [0.0] and starts == sorted(set(starts)) and starts[-1] <= 1.0


def _are_sizes(rows: Sequence[tuple[int, float, float]]) -> bool:
    are_allowed = all(1 <= size <= MAX_SIZE and share > 0 and abs(komi) <= MOST_KOMI for size, share, komi in rows)
    return are_allowed and len({size for size, _, _ in rows}) == len(rows)


SCHEDULE, BUDGETS = "tuple[tuple[float, float], ...]", "tuple[tuple[float, int], ...]"
SIZES = "tuple[tuple[int, float, float], ...]"
# A field's type to what it accepts in words.
KINDS = {
    "bool": "true or false",
    "int": "a whole number{limits}",
    "float": "a number{limits}",
    "int | str": "auto or a whole number{limits}",
    "str": "a string",
    "tuple[str, ...]": "a list of strings such as {example}",
    "str | tuple[str, ...]": "a string such as zero17, or a list of strings such as [stones, liberties:8]",
    "dict[str, float]": "a mapping of names to numbers{limits} such as {example}",
    SCHEDULE: "a list of [progress, factor] pairs such as [[0.0, 1.0], [0.8, 0.1]], progress rising from 0 to at most "
    "1, factors 0 or more",
    BUDGETS: "[] or a list of [progress, simulations] pairs such as [[0.0, 8], [0.5, 16]], progress rising from 0 to "
    f"at most 1, whole numbers of simulations from 1 to {MOST_SIMULATIONS}",
    SIZES: "[] or a list of [size, share, komi] such as [[7, 1, 9], [9, 2, 7]], different sizes from 1 to "
    f"{MAX_SIZE}, shares above 0, komi from -{MOST_KOMI} to {MOST_KOMI}",
}
# And what the rows of a table must be besides.
TABLES: dict[str, Callable[[Any], bool]] = {
    SCHEDULE: lambda rows: _rises(rows) and min(factor for _, factor in rows) >= 0.0,
    BUDGETS: lambda rows: not rows or _rises(rows) and all(1 <= number <= MOST_SIMULATIONS for _, number in rows),
    SIZES: _are_sizes,
}


class Section:
    """Base of the settings' dataclasses: every value is read strictly when one is made, so a section that exists is
    valid.

    Raises `InputError` that names the key, the value and what is allowed. `_check` of a subclass looks at several
    values together. NAME: of the section, "run" for RunConfig. KINDS: the types of its fields by name."""

    NAME: ClassVar[str]
    KINDS: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls.NAME, cls.KINDS = cls.__name__.removesuffix("Config").lower(), get_type_hints(cls)

    def __post_init__(self) -> None:
        for entry in settings_of(self):
            value = getattr(self, entry.name)
            try:
                exact = read(value, self.KINDS[entry.name], entry)
                _require(TABLES.get(str(entry.type), lambda _: True)(exact))
            except (ValueError, OverflowError):
                raise InputError(f"{self.NAME}.{entry.name} is {quote(value)}; it must be {allowed(entry)}") from None
            object.__setattr__(self, entry.name, exact)
        self._check()

    def _check(self) -> None:
        """Raises InputError when values that are valid alone can't hold together."""


SYMMETRIES = ("none", "random", "all")
VALUE_POOLING = ("max", "area")
ARCHITECTURES, TRUNK = ("tower", "katago"), ("ordinary", "gpool", "nested", "attention", "feed_forward")
KATAGO_HEADS = {"policy": 1.0, "value": 1.0, "ownership": 1.5, "score": 0.5}
PROCESSES_WORDS = "processes that share the work; auto: one per GPU, on a CPU as many as help in a measurement"
PRECISIONS = ("auto", "float32", "bfloat16")
ENCODERS = "zero17, alphago48, alphago49, katago22, article48, article22, handcrafted"
HEADS = {"policy": 1.0, "value": 1.0, "ownership": 1.5, "reply": 0.15}
HEADS_WORDS = (
    "loss weight of each head; policy and value are needed; score, soft_policy and short_values may be added "
    "(short_values: 1.0 weighs the three short-term values together like value, 3.0 each of them, as in KataGo)"
)
SUPERKO_SHARES_WORDS = "share of the games under each superko rule; empty: all under game.superko [KataGo]"
DECAY = ((0.0, 1.0), (0.75, 0.3), (0.9, 0.1))
OPPONENTS = (
    "random, mcts:N (N playouts a move), self, a checkpoint, gnugo:LEVEL or another engine; with @white always White, "
    "with ? at the end skipped if missing"
)
GAMES = "games against each opponent, twice as many at the end of a run; half as many against itself or with one colour"
GATE = (
    "share of the points that a checkpoint must win against the self-play network to replace it; 0: the newest weights "
)
GATE += "play. A gate costs that match and 4 bytes a parameter [KataGo 0.5, AlphaGo Zero 0.55, AlphaZero none]"


@dataclass(frozen=True)
class RunConfig(Section):
    """Where a run lives and what it runs on."""

    seed: int = option(1, "seed of every random draw", 0, 2**62)
    device: str = option("auto", "auto (CUDA if there is a GPU), cpu, cuda or cuda:1")
    processes: int | str = option(1, PROCESSES_WORDS, 1, 1024, choices=("auto",))
    threads: int = option(0, "CPU threads; 0: chosen automatically while running", 0, 1024)
    precision: str = option("auto", "number format of the network; auto: bfloat16 if faster", choices=PRECISIONS)
    kernels: str = option("auto", "auto: Numba or Triton if installed; plain: mainly torch", choices=("auto", "plain"))
    directory: str = option("checkpoints", "folder of all runs")
    name: str = option("", "folder of this run in `directory`; empty: the config file's name")
    start_from: str = option("", "checkpoint whose weights a new run starts with, of any board size")

    @property
    def options(self) -> str:
        """What names the run on a command line."""
        place = "" if self.directory == RunConfig.directory else f" run.directory={shlex.quote(self.directory)}"
        return f"--run {shlex.quote(self.name)}{place}"

    @property
    def folder(self) -> Path:
        """Where the run lies. Raises InputError where `directory` begins with ~ and an unknown user."""
        try:
            return Path(self.directory).expanduser() / self.name
        except RuntimeError:
            raise InputError(f"run.directory is {quote(self.directory)}; there is no such user's home") from None

    def _check(self) -> None:
        if "/" in self.name or "\\" in self.name or self.name.startswith("."):
            plain = "a plain folder name without / and without a leading dot"
            raise InputError(f"run.name is {quote(self.name)}; it must be {plain}")


@dataclass(frozen=True)
class GameConfig(Section):
    """The rules of the games, and how they vary between them."""

    size: int = option(9, "board side in points; with game.sizes, the side that players use by default", 1, MAX_SIZE)
    komi: float = option(7.0, "points that White gets (fair: 7 on 9x9, 9 on 7x7)", -1000, 1000)
    sizes: tuple[tuple[int, float, float], ...] = option((), "board sizes of the games; empty: game.size only [KataGo]")
    superko: str = option("positional", "what may not recur: a ko, a board, or board and side to move", choices=SUPERKO)
    superko_shares: dict[str, float] = option({}, SUPERKO_SHARES_WORDS, 0, example="{positional: 0.7, simple: 0.3}")
    suicide: bool = option(False, "whether a move may remove the player's own string")
    suicide_share: float = option(0.0, "share of games that allow suicide even if game.suicide is false [KataGo]", 0, 1)
    scoring: str = option("area", "how a finished game is scored", choices=SCORING)
    move_cap: int = option(0, "plies after which a game ends and is scored as it stands; 0: 2 x size x size", 0, 20000)
    random_komi_share: float = option(0.0, "share of games at random komi; needs features.komi_input [measured]", 0, 1)
    komi_low: float = option(0.0, "lowest random komi, in steps of 0.5 from the board's komi", -1000, 1000)
    komi_high: float = option(14.0, "highest random komi", -1000, 1000)
    komi_spread: float = option(
        0.0, "most points from the board's komi; replaces komi_low and komi_high; 0: off", 0, 1000
    )

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """The sides of the boards that are played, rising."""
        return tuple(sorted(size for size, _, _ in self.sizes)) or (self.size,)

    @property
    def largest_size(self) -> int:
        """The side of the largest of them, and so N of the tensors that hold all."""
        return self.all_sizes[-1]

    def komi_of(self, size: int) -> float:
        """Returns the komi on a board of the given side: that of game.sizes, else game.komi."""
        return next((komi for side, _, komi in self.sizes if side == size), self.komi)

    def rules(self, size: int | None = None) -> Rules:
        """Returns the rules of a game: on game.size at game.komi, or on a board of another side at that one's komi."""
        komi = self.komi if size is None else self.komi_of(size)
        return Rules(size or self.size, komi, self.superko, self.suicide, self.scoring)

    def komi_choices(self, komi: float | None = None) -> tuple[float, ...]:
        """Returns the values, rising, among which a game with a drawn komi chooses evenly: half a point apart, as
        KataGo draws them, so that a network learns whole and half komi alike. komi: the board's own; game.komi by
        default."""
        fair, spread = self.komi if komi is None else komi, self.komi_spread
        low, high = (fair - spread, fair + spread) if spread else (self.komi_low, self.komi_high)
        low, high = max(low, -MOST_KOMI), min(high, MOST_KOMI)  # of any game's rules
        return tuple(fair + step / 2 for step in range(math.ceil(2 * (low - fair)), math.floor(2 * (high - fair)) + 1))

    def komi_by_size(self) -> dict[int, list[float]]:
        """Returns the komi, rising, that games may have, by the side of their boards."""
        fair = {size: self.komi_of(size) for size in self.all_sizes}
        choices = self.komi_choices if self.random_komi_share else lambda komi: ()
        return {size: sorted({komi, *choices(komi)}) for size, komi in fair.items()}

    def plies(self, size: int | None = None) -> int:
        """Returns the move cap in plies, with 0 resolved, on a board of the given side, by default game.size."""
        return self.move_cap or 2 * (size or self.size) ** 2

    def _check(self) -> None:
        low, high = f"game.komi_low is {self.komi_low:g}", f"game.komi_high, which is {self.komi_high:g}"
        if self.komi_low > self.komi_high:
            raise InputError(f"{low}; it must be at most {high}")
        for komi in sorted({self.komi_of(size) for size in self.all_sizes}):
            if self.random_komi_share > 0 and not self.komi_choices(komi):
                differing = f"a komi that differs from {komi:g} by a multiple of half a point"
                raise InputError(f"{low}; from there to {high}, there must be {differing}")
        if self.sizes and self.size not in self.all_sizes:
            raise InputError(f"game.size is {self.size}; game.sizes has {listed(self.all_sizes)} only")
        unknown = [kind for kind in self.superko_shares if kind not in SUPERKO]
        if unknown or (self.superko_shares and not any(self.superko_shares.values())):
            what = quote(unknown[0]) if unknown else "no share above 0"
            kinds = f"{', '.join(SUPERKO)}, at least one of them above 0"
            raise InputError(f"game.superko_shares has {what}; allowed are {kinds}")


@dataclass(frozen=True)
class FeaturesConfig(Section):
    """What the network sees."""

    encoder: str | tuple[str, ...] = option("alphago48", f"{ENCODERS}, or a list of groups [measured]")
    komi_input: bool = option(True, "whether the komi is an input, signed for the side to move")


@dataclass(frozen=True)
class NetworkConfig(Section):
    """The residual tower and its heads."""

    blocks: int = option(6, "residual blocks of two 3x3 convolutions", 1, 200)
    channels: int = option(96, "channels of the trunk [KataGo b6c96]", 1, 4096)
    pooling_every: int = option(2, "every k-th block pools over the whole board; 0: none [KataGo]", 0, 200)
    pooling_channels: int = option(32, "channels of the pooled branch of such a block [KataGo]", 1, 4096)
    head_channels: int = option(32, "channels of the 1x1 convolution that all heads share [KataGo]", 1, 4096)
    value_hidden: int = option(64, "width of the hidden layer before value, pass and other scalars", 1, 8192)
    value_pooling: str = option("max", "pooled besides the mean: max, or area for several sizes", choices=VALUE_POOLING)
    heads: dict[str, float] = option(HEADS, HEADS_WORDS, 0, example="{policy: 1.0, value: 1.0}")
    architecture: str = option("tower", "katago: as in KataGo's files, with encoder katago22", choices=ARCHITECTURES)
    trunk: tuple[str, ...] = option(
        ("ordinary", "gpool"), f"katago: kinds of blocks, repeated, of {', '.join(TRUNK)}", example="[ordinary, nested]"
    )
    plan: str = option("", "katago: a network file's text without weights, in place of the keys above")

    def _check(self) -> None:
        if unknown := [kind for kind in self.trunk if kind not in TRUNK] or ([] if self.trunk else [""]):
            raise InputError(f"network.trunk has {quote(unknown[0])}; allowed are {', '.join(TRUNK)}, at least one")
        if self.architecture == "katago" and not self.heads.keys() <= KATAGO_HEADS.keys():
            one = next(name for name in self.heads if name not in KATAGO_HEADS)
            heads = "{" + ", ".join(f"{name}: {weight}" for name, weight in KATAGO_HEADS.items()) + "}"
            raise InputError(f"network.heads has {one!r}, which architecture katago lacks; allowed are {heads}")
        if missing := [name for name in ("policy", "value") if name not in self.heads]:
            raise InputError(f"network.heads lacks {' and '.join(missing)}; a search needs both policy and value")


@dataclass(frozen=True)
class SearchConfig(Section):
    """The tree search: Gumbel with sequential halving, or PUCT."""

    algorithm: str = option("gumbel", "gumbel, for few simulations [Gumbel], or puct", choices=("gumbel", "puct"))
    c_puct: float = option(1.1, "puct: weight of the prior against the value [KataGo]", 0, 100)
    max_considered: int = option(16, "gumbel: root moves at the start of halving [Gumbel, m = 16]", 1, 626)
    c_scale: float = option(1.0, "gumbel: scale of sigma(q); larger sharpens the policy [Gumbel]", above=0, high=100)
    keep_tree: bool = option(True, "keep the subtree of the played move for the next search")
    symmetry_root: str = option("random", "symmetries at fresh roots; all: the mean of 8 [KataGo]", choices=SYMMETRIES)
    symmetry_leaf: str = option("random", "symmetries at leaves; all: the mean of 8 [KataGo]", choices=SYMMETRIES)
    forced_playouts: float = option(0.0, "puct: factor k of forced playouts in full searches [KataGo]", 0, 100)
    leaves: int = option(1, "leaves of one tree per step; 0: measured at the start [KataGo]", 0, 1024)
    # No settings: numbers of KataGo's self-play and more, which players and tests replace.
    c_puct_base: ClassVar[float] = 500.0  # puct: visits at which the growth by c_puct_log sets in
    c_puct_log: float = 0.0  # puct: growth of c_puct with ln((visits + 500) / 500)
    c_puct_variance: float = 0.0  # puct: growth of c_puct with the spread of a node's values
    fpu_reduction: float = 0.2  # puct: an unvisited move has its parent's value minus this * sqrt(visited prior)
    fpu_reduction_root: float = 0.0  # puct: the same at the root
    dirichlet_share: float = 0.25  # puct: share of noise in the root prior
    root_temperature: float = 1.1  # puct: temperature of the root prior
    lcb: bool = False  # puct: the best move is that of the highest lower confidence bound
    c_visit: ClassVar[float] = 50.0  # gumbel: visits added to the largest count in sigma(q) [Gumbel]
    cuda_graph: bool = True  # CUDA: a step is replayed as a graph where that is possible


@dataclass(frozen=True)
class SelfplayConfig(Section):
    """How the games to learn from are played."""

    slots: int = option(
        256, "games played at once; 0: as many as keep the device busy, at most those of 3 iterations", 0, 1_000_000
    )
    full_simulations: int = option(64, "simulations of a full search, whose policy is learned [measured]", 1, 100_000)
    simulations_schedule: tuple[tuple[float, int], ...] = option((), "full_simulations by progress; []: constant")
    cheap_simulations: int = option(16, "simulations of a cheap search, for the move alone [KataGo]", 1, 100_000)
    full_share: float = option(1.0, "share of full searches [0.25 in KataGo]", above=0, high=1)
    opening_plies: float = option(0.04, "mean opening plies per point, drawn from the prior, unsearched [KataGo]", 0, 1)
    opening_temperature: float = option(2.0, "temperature of the prior for these plies", above=0, high=100)
    random_opening_games: int = option(1500, "games of random moves with which a run starts [measured]", 0, 10**7)
    resign_share: float = option(0.0, "share of games with resignation; the others measure wrong resignations", 0, 1)
    resign_min_ply: int = option(20, "plies before which nobody resigns", 0, 20000)
    sgf_share: float = option(0.01, "share of games that are written as SGF", 0, 1)

    def full_at(self, progress: float) -> int:
        """Returns the simulations of a full search when so much of the run is over, 0 to 1."""
        reached = [number for start, number in self.simulations_schedule if start <= progress]
        return reached[-1] if reached else self.full_simulations

    @property
    def all_simulations(self) -> tuple[int, ...]:
        """How many simulations the searches of a run have, the fewest first."""
        full = [number for _, number in self.simulations_schedule] or [self.full_simulations]
        return tuple(sorted({*full, self.cheap_simulations} if self.full_share < 1 else set(full)))

    def _check(self) -> None:
        fewest = min(dict(self.simulations_schedule).values(), default=self.full_simulations)
        if self.full_share < 1 and self.cheap_simulations > fewest:
            name = "simulations_schedule's fewest" if self.simulations_schedule else "full_simulations"
            limit = f"at most selfplay.{name}, which is {fewest}"
            raise InputError(f"selfplay.cheap_simulations is {self.cheap_simulations}; it must be {limit}")


@dataclass(frozen=True)
class ReplayConfig(Section):
    """How long samples are kept, and how often they are learned from."""

    min_window: int = option(250_000, "samples in the window before it grows [KataGo]", 1, 10**10)
    capacity: int = option(2_000_000, "samples in memory at most, which limits the window", 1, 10**10)
    reuse: float = option(4.0, "training samples per new sample [KataGo; 2 measured on 5x5]", above=0, high=1000)
    shard_samples: int = option(4096, "samples in one file on disk", 1, 10**8)
    archive_samples: int = option(0, "samples outside the window whose files stay; 1e12: all", 0, ALL_SAMPLES)
    external: bool = option(False, "also learn from games of actors: zerogo selfplay --watch RUN, on any machine")

    def _check(self) -> None:
        if self.min_window > self.capacity:
            limit = f"at most replay.capacity, which is {self.capacity}"
            raise InputError(f"replay.min_window is {self.min_window}; it must be {limit}")


@dataclass(frozen=True)
class TrainingConfig(Section):
    """The optimiser and its schedule."""

    batch: int = option(512, "samples in a training step [measured]", 1, 1_000_000)
    learning_rate: float = option(1e-3, "learning rate before warm-up and schedule", above=0, high=10)
    warmup_samples: int = option(100_000, "samples over which the learning rate rises from 0 [KataGo]", 0, 10**10)
    schedule: tuple[tuple[float, float], ...] = option(DECAY, "factors of the learning rate by progress [KataGo]")
    ema_samples: int = option(
        200_000, "EMA horizon in samples; early on 1/50 of all so far (with --from 10,000 or more) [KataGo]", 1, 10**10
    )


@dataclass(frozen=True)
class EvaluationConfig(Section):
    """The matches that measure the run."""

    every_minutes: float = option(60.0, "minutes between evaluations, played by a second process; 0: never", 0, 10**6)
    every_iterations: int = option(0, "iterations between evaluations; 0: never", 0, 10**9)
    games: int = option(100, GAMES, 2, 10**6)
    simulations: int = option(64, "simulations a move of a network", 1, 100_000)
    algorithm: str = option("auto", "search; auto: gumbel up to 400 simulations", choices=("auto", "gumbel", "puct"))
    opening_plies: int = option(2, "random moves at the start of each pair of games, so that games differ", 0, 1000)
    opponents: tuple[str, ...] = option(("random", "mcts:200"), OPPONENTS, example="[random, mcts:200]")
    earlier_opponents: int = option(2, "earlier checkpoints as opponents: the best, and the most informative", 0, 100)
    gate: float = option(0.0, GATE, 0, 1)
    symmetry: str = option("random", "symmetries; random: all 8 at the root from 64 simulations on", choices=SYMMETRIES)
    engine_seconds: float = option(60.0, "seconds after which a silent engine loses the game", above=0, high=10**6)
    engine_processes: int = option(0, "processes of a GTP engine; 0: one per usable core, KataGo's at most 4", 0, 4096)

    def _check(self) -> None:
        if self.gate and not (self.every_minutes or self.every_iterations):
            matches = "evaluation.every_minutes and every_iterations are 0; one of them must be above 0"
            raise InputError(f"evaluation.gate is {self.gate:g}, but no matches would open it: {matches}")


@dataclass(frozen=True)
class PipelineConfig(Section):
    """The loop: how long it runs and what it leaves behind."""

    iterations: int = option(0, "iterations of self-play and training until the run ends; 0: no limit", 0, 10**9)
    games_per_iteration: int = option(256, "finished games in an iteration", 1, 10**7)
    plays: bool = option(True, "whether the run plays games; if not, iterations wait for actors")
    minutes: float = option(0.0, "minutes until the run ends, all resumed parts together; 0: no limit", 0, 10**7)
    checkpoint_minutes: float = option(10.0, "minutes between checkpoints; 0: one after every iteration", 0, 10**6)
    snapshot_seconds: float = option(30.0, "seconds between snapshots; more if they take over 2 % of the time", 0, 3600)
    keep_checkpoints: int = option(5, "newest checkpoints to keep; 0: all", 0, 10**6)
    keep_games: int = option(20_000, "newest SGF games to keep; 0: all", 0, 10**8)
    sanity_checks: str = option("stop", "whether a failed exact check ends the run", choices=("stop", "warn"))
    final_matches: bool = option(True, "play matches at the end of the run and print their results")


SECTIONS: tuple[type[Section], ...] = tuple(Section.__subclasses__())

# Settings of earlier versions, and the value that each has now, or had by default if it follows from another one now.
FIXED: dict[str, Any] = {
    "run.compile": "auto", "run.epilogues": "auto", "network.activation": "relu", "search.c_puct_base": 500.0,
    "search.c_puct_log": 0.0, "search.c_puct_variance": 0.0, "search.c_visit": 50.0, "search.cuda_graph": True,
    "search.dirichlet_concentration": 10.83, "search.dirichlet_share": 0.25, "search.fpu_reduction": 0.2,
    "search.fpu_reduction_root": 0.0, "search.lcb": False, "search.root_temperature": 1.1, "search.score_weight": 0.0,
    "selfplay.check_every": 4, "selfplay.learn_cheap": False, "selfplay.reanalysed": 0.0,
    "selfplay.resign_false_positive": 0.05, "selfplay.settled_end_share": 0.9, "selfplay.temperature_end": 0.15,
    "selfplay.temperature_half_life": 0.0, "selfplay.temperature_start": 0.75, "replay.exponent": 0.65,
    "replay.keep_shards": False, "replay.scale": 0.4, "training.gradient_clip": 1.0, "training.momentum": 0.9,
    "training.optimizer": "adamw", "training.ownership_sum": 0.0, "training.weight_decay": 0.02,
    "evaluation.engine_start_seconds": 120.0, "evaluation.final_games": 200, "evaluation.score_weight": 0.0,
    "pipeline.keep_every": 50, "pipeline.logs_mb": 2000.0,
}  # fmt: skip
FOLLOWS_FROM = {
    "replay.keep_shards": "replay.archive_samples", "evaluation.engine_start_seconds": "evaluation.engine_seconds",
    "evaluation.final_games": "evaluation.games",
}  # fmt: skip
