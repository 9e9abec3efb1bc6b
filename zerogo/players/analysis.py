"""What a search thinks of positions, as a person wants it: candidate moves with winrate, score and best line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from zerogo import board, elo
from zerogo.search.search_state import SearchState
from zerogo.search.tree import NULL_NODE, ROOT, Tree

if TYPE_CHECKING:
    from zerogo.evaluator import Evaluation
    from zerogo.players.analyst import Analyst

MOST_SCORED = 16  # candidates whose own score is asked for; the others, hardly visited, are given the position's
LONGEST_LINE = 24


@dataclass(frozen=True)
class Candidate:
    """One move that the search has tried, from the view of the side to move before it.

    action: 0 to N * N. visits: of the move. value: its mean in [-1, 1]. score: expected points, komi included. prior:
    the network's, 0 to 1. lcb: lower end of the winrate's 95 % interval (Wilson's, as if every visit were a game), 0 to
    1. pv: the best line from this move on, and pv_visits: the visits of each move of it."""

    action: int
    visits: int
    value: float
    score: float
    prior: float
    lcb: float
    pv: tuple[int, ...]
    pv_visits: tuple[int, ...]
    ownership: np.ndarray | None = field(default=None, compare=False)

    @property
    def winrate(self) -> float:
        return (self.value + 1) / 2


@dataclass(frozen=True)
class Analysis:
    """What a search thinks of one position, from the view of the side to move. Arrays are numpy on the host.

    visits: of the root. value: mean of the search in [-1, 1]. score: expected points, komi included, by the network
    alone. candidates: the visited moves, best first. prior: float32 [A], 0 where illegal. legal: bool [A].
    visits_by_action: int64 [A]. ownership: float32 [N, N] in [-1, 1], by the network alone. raw_value: the network's
    alone."""

    visits: int
    value: float
    score: float
    candidates: list[Candidate]
    prior: np.ndarray
    legal: np.ndarray
    visits_by_action: np.ndarray
    ownership: np.ndarray
    raw_value: float

    @property
    def winrate(self) -> float:
        return (self.value + 1) / 2

    @property
    def best(self) -> Candidate | None:
        """The best move, None where nothing was searched."""
        return self.candidates[0] if self.candidates else None


@dataclass(frozen=True)
class Preview:
    """What the network alone thinks after a move, for the side that made it: score in points, ownership float32 [N,
    N].
    """

    score: float
    ownership: np.ndarray


Previews = dict[int, Preview]  # after the moves of one position, by action


@torch.inference_mode()
def analyses(
    analyst: Analyst,
    search_state: SearchState,
    lane: Tensor,
    states: board.State,
    known: Evaluation | None = None,
    after: list[Previews] | None = None,
    looks_after: bool = True,
) -> list[Analysis]:
    """Returns what is thought of some games of a search state: lane int64 [K], and their root states, a batch of K.

    known: what `analyst.inform(states)` gave, if it was asked before. after: what `look_after` has found for each game
    before; what is missing of it is asked for in one batch and added, if it looks after moves at all."""
    found = analyst.inform(states) if known is None else known
    after = [{} for _ in lane] if after is None else after
    read = _Reader(search_state, lane)
    ranked = read.ranked()
    if looks_after:
        look_after(
            analyst, states, [missing(actions, seen) for actions, seen in zip(ranked, after, strict=True)], after
        )
    ownership, score, value = (tensor.float().cpu() for tensor in (found.ownership, found.score, found.value))
    candidates = read.candidates(ranked, after, score.tolist())
    told = zip(candidates, score.tolist(), value.tolist(), ownership.numpy(), strict=True)
    return [read.analysis(game, *parts) for game, parts in enumerate(told)]


def missing(actions: list[int], seen: Previews) -> list[int]:
    """Returns those of the best moves that `look_after` has not seen; actions: the visited ones, best first."""
    return [action for action in actions[:MOST_SCORED] if action not in seen]


def look_after(analyst: Analyst, states: board.State, actions: list[list[int]], after: list[Previews]) -> None:
    """Adds to `after` what the network alone thinks after the given moves of each game, all in one batch."""
    pairs = [(game, action) for game, moves in enumerate(actions) for action in moves]
    if not pairs:
        return
    index, moves = torch.tensor(pairs, device=states.device).unbind(1)
    found = analyst.inform(board.step(board.select(states, index), moves), quick=True)
    for (game, action), score, ownership in zip(
        pairs, (-found.score).tolist(), (-found.ownership).cpu().numpy(), strict=True
    ):
        after[game][action] = Preview(score, ownership)


def visited(search_state: SearchState, lane: Tensor) -> list[int]:
    """Returns the visited moves of one game's root, best first: lane int64 [1]. Reads less than a whole thought
    does.
    """
    _, visits = _children(search_state.tree, lane, torch.full_like(lane, ROOT))
    return _by_merit(visits[0].cpu().numpy(), search_state.tree.prior[lane, ROOT][0].cpu().numpy())


def _by_merit(visits: np.ndarray, prior: np.ndarray) -> list[int]:
    """Returns the visited moves, the best first: by visits, with the prior to tell equals apart. Both are [A]."""
    merit = np.where(visits > 0, visits + 0.5 * prior, 0.0)
    return np.argsort(-merit, kind="stable")[: int((visits > 0).sum())].tolist()


def _children(tree: Tree, lane: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the children of nodes (int64 [J] each, by game) and their visits, int64 [J, A]: nowhere and 0 where there
    is none.
    """
    children = tree.children[lane, node].clamp(min=NULL_NODE).to(torch.int64)
    visits = tree.visits[lane.unsqueeze(1), children].to(torch.int64)
    return children, torch.where((children == NULL_NODE) | (node == NULL_NODE).unsqueeze(1), 0, visits)


def _lines(tree: Tree, lane: Tensor, node: Tensor, actions: list[int]) -> list[list[tuple[int, int]]]:
    """Returns the best lines from nodes (int64 [J], of the games `lane`) to which the given moves have led: moves with
    their visits.
    """
    found = [[(action, int(number))] for action, number in zip(actions, tree.visits[lane, node].tolist(), strict=True)]
    row = list(range(len(found)))  # of the lines that go on
    for _ in range(LONGEST_LINE - 1):
        children, visits = _children(tree, lane, node)
        best = torch.where(visits > 0, visits + 0.5 * tree.prior[lane, node], 0.0).argmax(1, keepdim=True)
        number = visits.gather(1, best).squeeze(1)
        goes_on = (number > 0).nonzero().squeeze(1)
        if not len(goes_on):
            break
        node, lane, number, best = (
            tensor[goes_on] for tensor in (children.gather(1, best).squeeze(1), lane, number, best.squeeze(1))
        )
        row = [row[index] for index in goes_on.tolist()]
        for index, action, times in zip(row, best.tolist(), number.tolist(), strict=True):
            found[index].append((action, times))
    return found


class _Reader:
    """The roots of some trees on the host, and the best lines from there."""

    def __init__(self, search_state: SearchState, lane: Tensor) -> None:
        tree, root = search_state.tree, torch.full_like(lane, ROOT)
        self.tree, self.lane = tree, lane
        self.nodes, visits = _children(tree, lane, root)
        values = tree.value_sum[lane.unsqueeze(1), self.nodes] / visits.clamp(min=1)
        self.legal, self.prior = (
            (tree.children[lane, ROOT] >= NULL_NODE).cpu().numpy(),
            tree.prior[lane, ROOT].cpu().numpy(),
        )
        self.visits, self.values = visits.cpu().numpy(), (-values).clamp(-1, 1).cpu().numpy()
        self.root_visits = tree.visits[lane, ROOT].tolist()
        self.root_values = (tree.value_sum[lane, ROOT] / tree.visits[lane, ROOT].clamp(min=1)).clamp(-1, 1).tolist()

    def ranked(self) -> list[list[int]]:
        """Returns the visited moves of each root, the best first."""
        return [_by_merit(visits, prior) for visits, prior in zip(self.visits, self.prior, strict=True)]

    def candidates(self, ranked: list[list[int]], after: list[Previews], scores: list[float]) -> list[list[Candidate]]:
        """Returns what is known of the visited moves of each root; scores: the positions', for moves that nobody looked
        after.
        """
        pairs = [(game, action) for game, actions in enumerate(ranked) for action in actions]
        if not pairs:
            return [[] for _ in ranked]
        games, actions = torch.tensor(pairs, device=self.lane.device).unbind(1)
        lines = iter(_lines(self.tree, self.lane[games], self.nodes[games, actions], [action for _, action in pairs]))
        return [
            [self._candidate(game, action, next(lines), after[game].get(action), scores[game]) for action in actions]
            for game, actions in enumerate(ranked)
        ]

    def _candidate(
        self, game: int, action: int, line: list[tuple[int, int]], after: Preview | None, score: float
    ) -> Candidate:
        visits, value = int(self.visits[game, action]), float(self.values[game, action])
        return Candidate(
            action=action,
            visits=visits,
            value=value,
            score=score if after is None else after.score,
            prior=float(self.prior[game, action]),
            lcb=elo.wilson_interval((value + 1) / 2 * visits, visits)[0],
            pv=tuple(move for move, _ in line),
            pv_visits=tuple(number for _, number in line),
            ownership=None if after is None else after.ownership,
        )

    def analysis(
        self, game: int, candidates: list[Candidate], score: float, raw_value: float, ownership: np.ndarray
    ) -> Analysis:
        return Analysis(
            visits=self.root_visits[game],
            value=self.root_values[game],
            score=score,
            candidates=candidates,
            prior=self.prior[game],
            legal=self.legal[game],
            visits_by_action=self.visits[game],
            ownership=ownership,
            raw_value=raw_value,
        )
