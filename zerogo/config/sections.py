"""The settings of a run, one frozen dataclass for each concern. Beside every field stand its meaning with unit, its
range and its source.

A source "KataGo" is its published self-play configuration, "Gumbel" is Danihelka et al., "Policy improvement by
planning with Gumbel" (2022), "measured" is a run on 5x5 with a small network."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from zerogo.config.options import Section, option
from zerogo.coords import listed
from zerogo.errors import InputError
from zerogo.rules import MAX_SIZE, SCORING, SUPERKO, Rules

SYMMETRIES = ("none", "random", "all")
VALUE_POOLING = ("max", "area")


@dataclass(frozen=True)
class RunConfig(Section):
    """Where a run lives and what it runs on."""

    NAME = "run"
    seed: int = option(1, "every random draw of the run follows from it", 0, 2**62)
    device: str = option("auto", "auto (CUDA when there is one), cpu, cuda or cuda:1")
    threads: int = option(0, "CPU threads; 0 is torch's choice, at most the usable cores", 0, 1024)
    precision: str = option(
        "auto", "network arithmetic; auto is bfloat16 where it is fast", choices=("auto", "float32", "bfloat16")
    )
    kernels: str = option(
        "auto", "auto: Numba on the CPU, Triton on CUDA, where installed; plain: torch alone", choices=("auto", "plain")
    )
    compile: str = option(
        "auto",
        "torch.compile for the network of self-play; auto is off, as on lost on a CPU",
        choices=("auto", "off", "on"),
        source="measured",
    )
    directory: str = option("checkpoints", "folder of all runs")
    name: str = option("", "folder of this run inside `directory`; empty takes the config file's name")

    def _check(self) -> None:
        if "/" in self.name or "\\" in self.name or self.name.startswith("."):
            plain = "a plain folder name without / and without a leading dot"
            raise InputError(f"run.name is {self.name!r}; it must be {plain}")


@dataclass(frozen=True)
class GameConfig(Section):
    """The rules of the games, and how they vary between them."""

    NAME = "game"
    size: int = option(9, "board side in points; with game.sizes that which people play", 1, MAX_SIZE)
    komi: float = option(7.0, "points that White gets", -1000, 1000, source="best play draws at 7 on 9x9, 9 on 7x7")
    sizes: tuple[tuple[int, float, float], ...] = option(
        (), "several boards: side, share of the games, komi; empty is game.size alone", source="KataGo"
    )
    superko: str = option("positional", "which repetition is illegal", choices=SUPERKO)
    superko_shares: dict[str, float] = option(
        {}, "kind of superko to its share of the games; empty is game.superko", low=0, source="KataGo"
    )
    suicide: bool = option(False, "whether a move may remove its own string")
    suicide_share: float = option(
        0.0, "share of games that allow suicide where game.suicide does not", 0, 1, source="KataGo"
    )
    scoring: str = option("area", "what counts at the end", choices=SCORING)
    move_cap: int = option(0, "plies after which a game is scored as it stands; 0 is 2 x size x size", 0, 20000)
    random_komi_share: float = option(
        0.0, "share of games with a drawn komi; needs komi_input", 0, 1, source="measured"
    )
    komi_low: float = option(0.0, "lowest drawn komi; it differs from komi by whole points", -1000, 1000)
    komi_high: float = option(14.0, "highest drawn komi in points", -1000, 1000)
    komi_spread: float = option(0.0, "most points between a drawn komi and komi; 0 is komi_low to komi_high", 0, 1000)

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

    def with_listed_komi(self) -> GameConfig:
        """Returns the section with the komi that game.sizes gives to game.size."""
        return replace(self, komi=self.komi_of(self.size))

    def rules(self, komi: float | None = None, size: int | None = None) -> Rules:
        """Returns the rules of one game: of game.size at game.komi, of another side at that one's, or at the given
        komi."""
        if komi is None:
            komi = self.komi if size is None else self.komi_of(size)
        return Rules(self.size if size is None else size, komi, self.superko, self.suicide, self.scoring)

    def drawn_komi(self, komi: float | None = None) -> tuple[float, ...]:
        """Returns the values, rising, among which a game with a drawn komi chooses evenly. komi: the board's own, by
        default game.komi."""
        own, spread = self.komi if komi is None else komi, self.komi_spread
        low, high = (own - spread, own + spread) if spread else (self.komi_low, self.komi_high)
        return tuple(own + step for step in range(math.ceil(low - own), math.floor(high - own) + 1))

    def plies(self, size: int | None = None) -> int:
        """Returns the move cap in plies, with 0 resolved, on a board of the given side, by default game.size."""
        return self.move_cap or 2 * (size or self.size) ** 2

    def _check(self) -> None:
        low, high = f"game.komi_low is {self.komi_low:g}", f"game.komi_high, which is {self.komi_high:g}"
        if self.komi_low > self.komi_high:
            raise InputError(f"{low}; it must be at most {high}")
        for komi in sorted({self.komi_of(size) for size in self.all_sizes}):
            if self.random_komi_share > 0 and not self.drawn_komi(komi):
                differing = f"a komi that differs from {komi:g} by a whole number of points"
                raise InputError(f"{low}; from there to {high}, there must be {differing}")
        if self.sizes and self.size not in self.all_sizes:
            raise InputError(f"game.size is {self.size}; game.sizes has {listed(self.all_sizes)} only")
        unknown = [kind for kind in self.superko_shares if kind not in SUPERKO]
        if unknown or (self.superko_shares and not any(self.superko_shares.values())):
            what = repr(unknown[0]) if unknown else "no share above 0"
            kinds = f"{', '.join(SUPERKO)}, at least one of them above 0"
            raise InputError(f"game.superko_shares has {what}; allowed are {kinds}")


@dataclass(frozen=True)
class FeaturesConfig(Section):
    """What the network sees."""

    NAME = "features"
    encoder: str | tuple[str, ...] = option(
        "zero17",
        "zero17, alphago48 or 49, katago22, article48, article22, handcrafted, or a list of plane groups",
        source="AlphaGo Zero",
    )
    komi_input: bool = option(True, "tell the network the komi from the side to move's view")


@dataclass(frozen=True)
class NetworkConfig(Section):
    """The residual tower and its heads."""

    NAME = "network"
    blocks: int = option(6, "residual blocks of two 3x3 convolutions", 1, 200)
    channels: int = option(96, "channels of the trunk", 1, 4096, source="KataGo b6c96")
    pooling_every: int = option(2, "every k-th block pools over the whole board; 0 is none", 0, 200, source="KataGo")
    pooling_channels: int = option(32, "channels of the pooled branch of such a block", 1, 4096, source="KataGo")
    head_channels: int = option(32, "channels of each head", 1, 4096, source="KataGo")
    value_hidden: int = option(64, "width of the value head's hidden layer", 1, 8192)
    value_pooling: str = option(
        "max",
        "what the value head pools beside the mean: max, or area for boards of many sizes",
        choices=VALUE_POOLING,
        source="area is KataGo's",
    )
    heads: dict[str, float] = option(
        {"policy": 1.0, "value": 1.0, "ownership": 0.5},
        "head to loss weight; policy and value are needed",
        low=0,
        source="KataGo",
    )

    def _check(self) -> None:
        missing = [name for name in ("policy", "value") if name not in self.heads]
        if missing:
            raise InputError(f"network.heads lacks {' and '.join(missing)}; a search needs both policy and value")


@dataclass(frozen=True)
class SearchConfig(Section):
    """The tree search: Gumbel with sequential halving, or PUCT."""

    NAME = "search"
    algorithm: str = option("gumbel", "gumbel is for few simulations", choices=("gumbel", "puct"), source="Gumbel")
    c_puct: float = option(1.1, "puct: weight of the prior against the value", 0, 100, source="KataGo")
    c_puct_log: float = option(0.0, "puct: its growth with ln((visits + base) / base)", 0, 100, source="KataGo")
    c_puct_base: float = option(500.0, "puct: visits at which the growth sets in", above=0, high=10**9, source="KataGo")
    fpu_reduction: float = option(
        0.2, "puct: what an unvisited child lacks, times sqrt(visited prior)", 0, 2, source="KataGo"
    )
    fpu_reduction_root: float = option(0.0, "puct: the same at the root", 0, 2, source="KataGo")
    dirichlet_concentration: float = option(
        10.83,
        "puct: sum of the root noise's alpha over the legal moves",
        above=0,
        high=10_000,
        source="KataGo, .03 x 361",
    )
    dirichlet_share: float = option(0.25, "puct: share of noise in the root prior; 0 is none", 0, 1, source="KataGo")
    root_temperature: float = option(
        1.1, "puct: temperature of the root prior, before the noise", above=0, high=10, source="KataGo"
    )
    max_considered: int = option(16, "gumbel: moves that the root starts with", 1, 626, source="Gumbel, m = 16")
    c_visit: float = option(50.0, "gumbel: visits added to the largest count in sigma(q)", 0, 10**6, source="Gumbel")
    c_scale: float = option(1.0, "gumbel: sharpness of sigma(q)", above=0, high=100, source="Gumbel; learned best")
    keep_tree: bool = option(True, "keep the played move's subtree for the next search")
    symmetry_root: str = option(
        "random",
        "turning the board at a bare root: none, one random, all 8 averaged",
        choices=SYMMETRIES,
        source="KataGo",
    )
    symmetry_leaf: str = option("random", "turning the board at the leaves", choices=SYMMETRIES, source="KataGo")
    forced_playouts: float = option(
        0.0, "puct: k of forced playouts at roots of full searches", 0, 100, source="KataGo"
    )
    cuda_graph: bool = option(True, "on CUDA: replay the step of a search as a CUDA graph, where that can be done")
    leaves: int = option(
        1, "leaves of a tree in one step, with virtual loss; 0 finds the number for self-play", 0, 1024, source="KataGo"
    )


@dataclass(frozen=True)
class SelfplayConfig(Section):
    """How the games to learn from are played."""

    NAME = "selfplay"
    games: int = option(256, "games in lock-step; 0 finds at the start how many keep the device busy", 0, 1_000_000)
    full_simulations: int = option(64, "simulations of a full search, which is learned", 1, 100_000, source="measured")
    cheap_simulations: int = option(16, "simulations of a cheap search, which is not", 1, 100_000, source="KataGo")
    full_share: float = option(1.0, "probability of a full search", above=0, high=1, source="0.25 in KataGo")
    temperature_start: float = option(0.75, "puct: temperature of the played move at ply 0", 0, 10, source="KataGo")
    temperature_end: float = option(0.15, "puct: temperature late in the game", 0, 10, source="KataGo")
    temperature_half_life: float = option(
        0.0, "plies in which it falls half of the way; 0 is the board side", 0, 10_000, source="KataGo"
    )
    random_opening_games: int = option(
        1500, "games by the random player at the start", 0, 10_000_000, source="measured"
    )
    settled_end_share: float = option(0.9, "share of games that end once every point is pass-alive", 0, 1)
    resign_share: float = option(
        0.0, "share of games that may be resigned; the rest measures false ones; 0 is off", 0, 1
    )
    resign_false_positive: float = option(
        0.05, "share of resignations that may be wrong", above=0, high=0.5, source="AlphaGo Zero"
    )
    resign_min_ply: int = option(20, "plies before which nobody resigns", 0, 20000)
    sgf_share: float = option(0.01, "share of games that are written as SGF", 0, 1)
    check_every: int = option(4, "simulations between looks for games whose budget is spent", 1, 100_000)

    def _check(self) -> None:
        if self.full_share < 1 and self.cheap_simulations > self.full_simulations:
            limit = f"at most selfplay.full_simulations, which is {self.full_simulations}"
            raise InputError(f"selfplay.cheap_simulations is {self.cheap_simulations}; it must be {limit}")


@dataclass(frozen=True)
class ReplayConfig(Section):
    """How long samples are kept, and how often they are learned from."""

    NAME = "replay"
    min_window: int = option(250_000, "samples of the window before it grows (c)", 1, 10**10, source="KataGo")
    exponent: float = option(0.65, "exponent of the window's growth", above=0, high=1, source="KataGo")
    scale: float = option(0.4, "slope of the window where it starts to grow (beta)", 0, 1, source="KataGo")
    capacity: int = option(2_000_000, "most samples that memory holds; caps the window", 1, 10**10)
    reuse: float = option(4.0, "training samples per new one", above=0, high=1000, source="KataGo; 2 measured on 5x5")
    shard_samples: int = option(4096, "samples in one file on disk", 1, 10**8)
    keep_shards: bool = option(False, "keep the files of samples that have left the window")

    def _check(self) -> None:
        if self.min_window > self.capacity:
            limit = f"at most replay.capacity, which is {self.capacity}"
            raise InputError(f"replay.min_window is {self.min_window}; it must be {limit}")


@dataclass(frozen=True)
class TrainingConfig(Section):
    """The optimiser and its schedule."""

    NAME = "training"
    batch: int = option(512, "samples of a step", 1, 1_000_000, source="measured")
    optimizer: str = option("adamw", "what turns gradients into steps", choices=("adamw", "sgd"))
    learning_rate: float = option(1e-3, "step size before warm-up and schedule", above=0, high=10)
    momentum: float = option(0.9, "sgd: momentum; adamw: beta 1", 0, 0.9999, source="KataGo")
    warmup_samples: int = option(100_000, "samples over which the learning rate rises", 0, 10**10, source="KataGo")
    schedule: tuple[tuple[float, float], ...] = option(
        ((0.0, 1.0), (0.8, 0.1)),
        "[progress of the run, factor] pairs: the learning rate's factor from there on",
        source="KataGo",
    )
    weight_decay: float = option(1e-4, "weight decay of matrices and kernels (decoupled in adamw)", 0, 1)
    gradient_clip: float = option(1.0, "largest norm of the gradient; 0 is no limit", 0, 10**6)
    ema_samples: int = option(200_000, "averaging horizon of the weights, in samples", 1, 10**10, source="KataGo")


@dataclass(frozen=True)
class EvaluationConfig(Section):
    """The matches that measure the run."""

    NAME = "evaluation"
    every_minutes: float = option(60.0, "minutes between evaluations; 0 is never", 0, 10**6)
    every_iterations: int = option(0, "iterations between evaluations; 0 is never", 0, 10**9)
    games: int = option(
        100, "games against each opponent; half as many against itself or with one colour", 2, 1_000_000
    )
    final_games: int = option(200, "the same for the matches at the end of the run", 2, 1_000_000)
    simulations: int = option(64, "simulations a move of the network's player", 1, 100_000)
    opponents: tuple[str, ...] = option(
        ("random", "mcts:200"),
        "random, mcts:N (N playouts a move), self, a checkpoint, gnugo:LEVEL, …; with @white always White",
    )
    symmetry: str = option("random", "turning the board: none, one random, all 8 averaged", choices=SYMMETRIES)
    engine_seconds: float = option(60.0, "seconds after which a silent engine loses the game", above=0, high=10**6)
    engine_processes: int = option(0, "processes of a GTP engine that think at once; 0 is the usable cores", 0, 4096)


@dataclass(frozen=True)
class PipelineConfig(Section):
    """The loop: how long it runs and what it leaves behind."""

    NAME = "pipeline"
    iterations: int = option(0, "rounds of self-play and training; 0 is unlimited", 0, 10**9)
    games_per_iteration: int = option(256, "finished games of one round", 1, 10**7)
    minutes: float = option(0.0, "minutes of the run, resumed parts together; 0 is unlimited", 0, 10**7)
    checkpoint_minutes: float = option(10.0, "minutes between checkpoints; 0 is after every round", 0, 10**6)
    keep_checkpoints: int = option(5, "newest checkpoints that are kept; 0 keeps all", 0, 10**6)
    final_matches: bool = option(True, "end the run with matches that show what was learned")


SECTIONS: tuple[type[Section], ...] = (
    RunConfig, GameConfig, FeaturesConfig, NetworkConfig, SearchConfig, SelfplayConfig, ReplayConfig, TrainingConfig,
    EvaluationConfig, PipelineConfig,
)  # fmt: skip
