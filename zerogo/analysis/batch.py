"""Positions that are searched in lock-step in one search state; one that is finished makes room for the next."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zerogo import board
from zerogo.analysis.query import Query
from zerogo.evaluator import Evaluation
from zerogo.flood import may_look
from zerogo.players.analyst import Analysis, Analyst, Previews, analyses, evaluate_children
from zerogo.players.restrictions import RestrictedGo, RestrictedState

SEED = 0
FEWEST_NODES = 16
NODES_A_LEAF = 64  # a tree of so many nodes takes one leaf a step more, so that small searches stay sharp


@dataclass(eq=False)
class Job:
    """One position of a query, waiting or searched.

    visits: that it gets. number: in the order of arrival. lane: its place in a batch. began, next_report: seconds by
    the engine's clock. is_stopped: ends at once, with whatever was found. known, after: what the analyst said without a
    search, of the position and after moves."""

    query: Query
    turn: int
    priority: int
    visits: int
    number: int
    lane: int = -1
    began: float = math.inf
    next_report: float = math.inf
    is_stopped: bool = False
    known: Evaluation | None = None
    after: Previews = field(default_factory=dict)


class Kind(NamedTuple):
    """What positions of one batch have in common: board side, room of a tree in nodes, whether there are moves to be
    avoided.
    """

    size: int
    nodes: int
    is_banned: bool

    @staticmethod
    def of(job: Job) -> Kind:
        return Kind(
            job.query.rules.size, max(FEWEST_NODES, power_of_two(job.visits)), job.query.restrictions is not None
        )

    @property
    def lane_bytes(self) -> int:
        """About what one tree costs in memory."""
        words, actions = 3 * self.size + 9, self.size * self.size + 1
        return (self.nodes + 2) * (8 * actions + 4 * words + 32)


def power_of_two(number: int) -> int:
    """Returns the smallest power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


@dataclass(frozen=True)
class Finding:
    """What is told of one position, all from the view of its side to move.

    analysis: of the search. raw: the analyst's word without a search, a batch of one on the host. after: the same after
    moves, by action. legal: bool [A], bans apart. stones: int8 [N, N]. to_play: 1 or 2. ko: point, -1 for none."""

    analysis: Analysis
    raw: Evaluation
    after: Previews
    legal: np.ndarray
    stones: np.ndarray
    to_play: int
    ko: int


class Batch:
    """Up to `lanes` positions of one kind. jobs: by lane, None where there is room."""

    def __init__(self, analyst: Analyst, kind: Kind, lanes: int) -> None:
        self.analyst, self.kind = analyst, kind
        self.jobs: list[Job | None] = [None] * lanes
        most = analyst.search.settings.leaves
        leaves = max(1, min(most, kind.nodes // NODES_A_LEAF))
        game = RestrictedGo() if kind.is_banned else None
        self.search = analyst.search_with(game, keep_tree=False, leaves=leaves)
        self.search_state = None

    @property
    def num_free(self) -> int:
        return self.jobs.count(None)

    @property
    def running(self) -> list[Job]:
        return [job for job in self.jobs if job is not None]

    @property
    def bytes(self) -> int:
        """About what its trees cost in memory."""
        return len(self.jobs) * self.kind.lane_bytes

    @torch.inference_mode()
    def place(self, jobs: Sequence[Job]) -> None:
        """Begins to search positions, at most as many as there is room for."""
        free = [lane for lane, job in enumerate(self.jobs) if job is None][: len(jobs)]
        assert len(free) == len(jobs) > 0, f"{len(jobs)} positions for {len(free)} free lanes"
        for lane, job in zip(free, jobs, strict=True):
            self.jobs[lane], job.lane = job, lane
        device = self.analyst.device
        states, lane = roots(jobs, device), torch.tensor(free, device=device)
        if self.search_state is None:
            self._plant(states)
        self.search.replace(self.search_state, lane, board.put_(self.search_state.states, lane, states))
        budget = torch.tensor([job.visits - 1 for job in jobs], device=device)
        keys = torch.tensor([job.query.key(job.turn) for job in jobs], device=device)
        self.search.begin(self.search_state, lane, budget, SEED, game_ids=keys)
        self._widen(lane, jobs)

    def _plant(self, states: board.State) -> None:
        """Makes the search state. Every lane gets a position, as where the host can't look the idle ones go through the
        motions, too.
        """
        filled = board.select(states, torch.zeros(len(self.jobs), dtype=torch.int64, device=states.device))
        self.search_state = self.search.init(filled, self.kind.nodes)
        if not may_look(filled.black):
            self.search.begin(self.search_state, torch.arange(len(self.jobs), device=states.device), 0, SEED)

    def _widen(self, lane: Tensor, jobs: Sequence[Job]) -> None:
        """Flattens or sharpens the root's prior where a query asks for it."""
        exponents = torch.tensor([job.query.settings.root_exponent for job in jobs], device=lane.device).unsqueeze(1)
        prior = self.search_state.root_prior[lane]
        wide = torch.where(prior > 0, prior**exponents, 0.0)
        self.search_state.root_prior[lane] = torch.where(exponents == 1.0, prior, wide / wide.sum(1, keepdim=True))

    @torch.inference_mode()
    def step(self) -> None:
        """Runs one step of all searches."""
        self.search.simulate(self.search_state)

    @torch.inference_mode()
    def spent(self) -> list[Job]:
        """Returns the positions that are done: out of visits, or stopped."""
        goes_on = self.search_state.unspent.tolist()
        return [job for job in self.running if job.is_stopped or not goes_on[job.lane]]

    @torch.inference_mode()
    def remove(self, jobs: Sequence[Job]) -> None:
        """Takes positions out."""
        if jobs:
            lane = torch.tensor([job.lane for job in jobs], device=self.analyst.device)
            self.search_state.budget[lane] = self.search_state.done[lane]
        for job in jobs:
            self.jobs[job.lane] = None

    @torch.inference_mode()
    def read(self, jobs: Sequence[Job]) -> list[Finding]:
        """Returns what is thought of positions now."""
        lane = torch.tensor([job.lane for job in jobs], device=self.analyst.device)
        states = board.select(self.search_state.states, lane)
        self._ask(jobs, states)
        raw, after = [job.known for job in jobs], [job.after for job in jobs]
        found = analyses(self.analyst, self.search_state, lane, states, _together(raw), after)
        # A thought looks after the best moves only.
        wanted = [
            list(analysis.candidates) if job.query.wants.moves_ownership else []
            for job, analysis in zip(jobs, found, strict=True)
        ]
        missing = [[c.action for c in many if c.action not in seen] for many, seen in zip(wanted, after, strict=True)]
        evaluate_children(self.analyst, states, missing, after)
        host = [
            tensor.cpu().numpy() for tensor in (board.legal_actions(states), states.stones, states.to_play, states.ko)
        ]
        return [
            Finding(analysis, raw[k], after[k], host[0][k], host[1][k], int(host[2][k]), int(host[3][k]))
            for k, analysis in enumerate(found)
        ]

    def _ask(self, jobs: Sequence[Job], states: board.State) -> None:
        """Asks what the analyst says without a search, once for each position."""
        unknown = [k for k, job in enumerate(jobs) if job.known is None]
        if unknown:
            found = self.analyst.evaluate(board.select(states, torch.tensor(unknown, device=states.device)))
            parts = [getattr(found, name).float().cpu() for name in _EVALUATION]
            for row, k in enumerate(unknown):
                jobs[k].known = Evaluation(*(part[row : row + 1] for part in parts))


_EVALUATION = ("prior", "value", "ownership", "score")


def _together(parts: Sequence[Evaluation]) -> Evaluation:
    return Evaluation(*(torch.cat([getattr(part, name) for part in parts]) for name in _EVALUATION))


def roots(jobs: Sequence[Job], device: torch.device) -> board.State:
    """Returns the positions of jobs with the games that led to them, as a batch, with their bans where they have any.

    After two passes a position is searched all the same, as KataGo does: as if only one pass had been made.
    """
    longest = max(job.turn for job in jobs)
    colours, actions = np.zeros((len(jobs), longest), np.int8), np.full((len(jobs), longest), -1, np.int64)
    for row, job in enumerate(jobs):
        moves = job.query.moves[: job.turn]
        colours[row, : job.turn] = [player.value for player, _ in moves]
        actions[row, : job.turn] = [action for _, action in moves]
    stones = torch.tensor([job.query.start for job in jobs], dtype=torch.int8, device=device)
    first = torch.tensor([job.query.first.value for job in jobs], dtype=torch.int8, device=device)
    rules = [job.query.rules for job in jobs]
    state = board.replay(
        stones, first, rules, torch.from_numpy(colours).to(device), torch.from_numpy(actions).to(device)
    )
    passes = torch.where(state.finished, 1, state.passes).to(torch.int8)
    state = dataclasses.replace(state, passes=passes, finished=torch.zeros_like(state.finished))
    if jobs[0].query.restrictions is None:
        return state
    return RestrictedState.of(state, [job.query.restrictions for job in jobs])
