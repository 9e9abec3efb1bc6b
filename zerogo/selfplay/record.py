"""Records of self-play: positions and searches by ply during a game, samples and results after it; and the resignation
threshold, computed from the root values of games that were played out."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from zerogo import board, sgf
from zerogo.kernels import copies
from zerogo.replay import Samples
from zerogo.replay.samples import POSITIONS, layout
from zerogo.rules import Rules
from zerogo.system.runtime import write_atomically

KNOWN_AT_THE_END = ("reply", "short_values", "value", "score", "ownership", "board_weight")  # fields of `Samples`
BOARDS_SHOWN = 9
SHORT_VALUE_RATES = (0.176, 0.056, 0.016)  # q of the horizons: 15, 5.5 and 2.3 plies on 9x9 (KataGo)
# Of resignation.
REMEMBERED = 1000  # games without resignation, from which the threshold is computed
FALSE_POSITIVE = 0.05  # largest share of wrong resignations (AlphaGo Zero)
NEEDED = 50  # such games before anybody resigns
THRESHOLDS = tuple(-0.5 - 0.01 * k for k in range(50))  # -0.50 to -0.99, the highest first


class EndReason(IntEnum):
    """What ended a game."""

    PASSES = 0
    RESIGNED = 1
    ALL_PASS_ALIVE = 2
    CAPPED = 3


# The words in SGF comments and charts, the same as in files of earlier runs.
END_TAGS = {reason: reason.name.lower() for reason in EndReason} | {EndReason.ALL_PASS_ALIVE: "settled"}


@dataclass(frozen=True)
class FinishedGame:
    """A game for SGF. moves: actions on its own board. root_values: by ply, the side to move's. score_black: points
    with komi; after a resignation 1 or -1."""

    number: int
    rules: Rules
    moves: list[int]
    root_values: list[float]
    score_black: float
    end: EndReason


@dataclass
class SelfPlayResult:
    """The results of some self-play; tensors are on the host.

    games: those written as SGF. By finished game: lengths in plies, scores_black as in `FinishedGame`, sizes, komi,
    ends (`EndReason`). last_boards, last_ownership: int8 [N, N] of the
    first few games at their end, each of its own size, in Black's view. prior_kl, prior_entropy: sums over the moves of
    KL(search policy, prior) and of the prior's entropy, in nats. overflowed: trees that ran out of nodes. is_complete:
    whether all requested games are finished."""

    samples: list[Samples] = field(default_factory=list)
    games: list[FinishedGame] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    scores_black: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    komi: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    last_boards: list[Tensor] = field(default_factory=list)
    last_ownership: list[Tensor] = field(default_factory=list)
    moves: int = 0
    simulations: int = 0
    seconds: float = 0.0
    prior_kl: float = 0.0
    prior_entropy: float = 0.0
    overflowed: int = 0
    is_complete: bool = False

    def all_samples(self) -> Samples | None:
        """Returns all samples as one batch, None if there are none."""
        return Samples.cat(self.samples) if self.samples else None

    def add_finished(self, states: board.State, score_black: Tensor, ends: Tensor, ownership: Tensor) -> None:
        """Adds K finished games. score_black: float32 [K]; ends: int64 [K]; ownership: int8 [K, N, N], Black's view."""
        sizes = states.rules.size.tolist()
        self.lengths += states.ply.tolist()
        self.scores_black += score_black.tolist()
        self.sizes += sizes
        self.komi += states.rules.komi.tolist()
        self.ends += ends.tolist()
        if new_sizes := sizes[: max(0, BOARDS_SHOWN - len(self.last_boards))]:  # several processes' may be more
            self.last_boards += [stones[:n, :n] for n, stones in zip(new_sizes, states.stones.cpu(), strict=False)]
            self.last_ownership += [owners[:n, :n] for n, owners in zip(new_sizes, ownership.cpu(), strict=False)]


@dataclass
class Recorder:
    """The positions and searches of B games by ply: tables [B, T, …] on the games' device, T plies at most.

    There is a table for each field of `Samples` that is known during a game, and one of the actions (int16). Of the
    eight positions of a sample only the newest is kept, since earlier plies hold the others."""

    tables: dict[str, Tensor]

    @staticmethod
    def empty(num_games: int, max_plies: int, board_size: int, device: torch.device) -> "Recorder":
        """Returns an empty recorder."""
        kinds = {name: kind for name, kind in layout(board_size).items() if name not in KNOWN_AT_THE_END}
        kinds |= {"rows": (kinds["rows"][0], (2, board_size)), "actions": (torch.int16, ())}
        first = num_games, max_plies
        tables = {name: torch.zeros(*first, *s, dtype=dtype, device=device) for name, (dtype, s) in kinds.items()}
        return Recorder(tables)

    def write(self, game_index: Tensor, states: board.State, **fields: Tensor) -> None:
        """Stores positions and searches of K games (game_index: int64 [K]) under their ply, before the move is played.

        actions: int64 [K]. policy: float32 [K, A]. root_value: float32 [K], side to move. policy_weight: bool [K],
        whether the ply becomes a sample. game, network_step: int64 [K]."""
        row = torch.add(states.ply, game_index, alpha=self.tables["actions"].shape[1])
        fields["rows"] = torch.stack((states.black, states.white), dim=1)
        named = {**vars(states.rules), **vars(states), **fields}
        copies.put_([table.flatten(0, 1) for table in self.tables.values()], row, [named[name] for name in self.tables])

    def samples(self, length: Tensor, score_black: Tensor, ownership_black: Tensor, is_resigned: Tensor) -> Samples:
        """Returns a sample for each ply whose `policy_weight` is above 0, ordered by game. All games must be over.

        length: int64 [B], plies. score_black: float32 [B], komi included. ownership_black: int8 [B, N, N]. is_resigned:
        bool [B]; the final board is then unknown."""
        plies = torch.arange(self.tables["actions"].shape[1], device=length.device)
        is_kept = (self.tables["policy_weight"] > 0) & (plies < length.unsqueeze(1))
        game, ply = is_kept.nonzero().unbind(1)  # between moves the host may wait
        fields = {name: t[game, ply] for name, t in self.tables.items() if name not in ("rows", "actions")}
        following = self.tables["actions"][game, (ply + 1).clamp(max=len(plies) - 1)]
        back = ply.unsqueeze(1) - torch.arange(POSITIONS, device=ply.device)
        rows = self.tables["rows"][game.unsqueeze(1), back.clamp(min=0)]
        sign = torch.where(fields["to_play"] == board.BLACK, 1, -1)
        score = score_black[game] * sign
        return Samples(
            **fields,
            rows=torch.where((back >= 0).view(-1, POSITIONS, 1, 1), rows, 0),
            reply=torch.where(ply + 1 < length[game], following, -1),
            value=torch.sign(score),
            short_values=self.short_values_black(length, score_black)[game, ply] * sign.unsqueeze(1),
            score=score,
            ownership=(ownership_black[game] * sign.view(-1, 1, 1)).to(torch.int8),
            board_weight=(~is_resigned[game]).to(torch.float32),
        )

    def short_values_black(self, length: Tensor, score_black: Tensor) -> Tensor:
        """Returns short-term values of B games at each ply, exponential averages of the root values from this ply on
        (KataGo): float32 [B, T, 3]. Each ply takes the share 1 / (1 + area * q) of the weight that the plies before it
        left, and the result takes the rest. length: int64 [B], plies. score_black: float32 [B]."""
        values, area = self.tables["root_value"], self.tables["size"][:, 0].to(torch.float32) ** 2
        values = torch.where(self.tables["to_play"] == board.BLACK, values, -values)
        now = 1 / (1 + area.unsqueeze(1) * torch.tensor(SHORT_VALUE_RATES, device=area.device)).unsqueeze(1)
        ply, end = torch.arange(values.shape[1] + 1, device=area.device).view(1, -1, 1), length.view(-1, 1, 1)
        result = torch.where(ply == end, torch.sign(score_black).view(-1, 1, 1), 0.0)
        average = torch.where(ply < end, now * F.pad(values, (0, 1)).unsqueeze(2), result)
        step = 1
        while step < average.shape[1]:  # each pass doubles the plies that an entry sums
            average[:, :-step] += (1 - now) ** step * average[:, step:]
            step *= 2
        return average[:, :-1]


def write_games(directory: Path, games: Sequence[FinishedGame], player: str, stem: str = "game") -> None:
    """Writes games as SGF with the search's values as comments, each named by the stem and its number."""
    if games:
        directory.mkdir(exist_ok=True)  # but not the folder of a run that was moved away
    for game in games:
        comments = [f"value for the side to move {value:+.3f}" for value in game.root_values]
        comments[-1:] = [f"{comments[-1]}\nended by: {END_TAGS[game.end]}"] if comments else []
        values_black = [value if ply % 2 == 0 else -value for ply, value in enumerate(game.root_values)]
        winrates = [min(1.0, max(0.0, (1 + value) / 2)) for value in values_black]
        result = sgf.result_text(game.score_black, game.end == EndReason.RESIGNED)
        remarks = list(map(sgf.Remark, comments, winrates))
        record = sgf.GameRecord(game.rules, game.moves, result, player, player, remarks)
        write_atomically(directory / f"{stem}-{game.number:08d}.sgf", sgf.to_text(record).encode())


class Resignation:
    """The threshold below which a side resigns, from games that were played out (AlphaGo Zero's rule).

    A side would have resigned such a game if its root value ever fell below the threshold, so the minimum over the game
    of each side's values is all that is remembered. The threshold is the highest at which at most the share
    `false_positive` of these resignations would have been the winner's."""

    def __init__(self, false_positive: float, min_ply: int = 0) -> None:
        self.false_positive, self.min_ply = false_positive, min_ply
        self.games: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)  # minimum of the winner's values, the loser's
        self.threshold = -2.0  # below every value: nobody resigns
        self.measured = 0.0

    def learn(self, values: Tensor, is_black: Tensor, length: Tensor, score_black: Tensor) -> None:
        """Remembers K games, all on the host: the minimum of each side's values from `min_ply` on, 1 if it has none.

        values: float32 [K, T] by ply, of the side to move. is_black: bool [K, T], whether Black is to move. length:
        int64 [K]. score_black: float32 [K], 0 for a game that does not count."""
        ply = torch.arange(values.shape[1])
        counts = (ply >= self.min_ply) & (ply < length.unsqueeze(1))
        black = torch.where(counts & is_black, values, 1.0).amin(1)
        white = torch.where(counts & ~is_black, values, 1.0).amin(1)
        for k in score_black.nonzero().squeeze(1).tolist():
            pair = float(black[k]), float(white[k])
            self.games.append(pair if score_black[k] > 0 else pair[::-1])

    def update(self) -> None:
        """Sets the threshold, and measures the share of false resignations at it."""
        self.threshold, self.measured = -2.0, 0.0
        if len(self.games) < NEEDED:
            return
        for threshold in THRESHOLDS:
            false = sum(winner < threshold for winner, _ in self.games)
            resigned = sum(min(pair) < threshold for pair in self.games)
            if false <= self.false_positive * resigned:
                self.threshold, self.measured = threshold, false / max(1, resigned)
                return

    def state_dict(self) -> dict:
        """Returns what a checkpoint keeps."""
        games = [list(pair) for pair in self.games]
        return {"games": games, "threshold": self.threshold, "measured": self.measured}

    def load_state_dict(self, state: dict) -> None:
        """Restores a checkpoint's state. Its threshold may be older than its newest games, see `update`."""
        self.games = deque((tuple(pair) for pair in state["games"]), maxlen=REMEMBERED)
        self.threshold, self.measured = state.get("threshold", -2.0), state.get("measured", 0.0)
