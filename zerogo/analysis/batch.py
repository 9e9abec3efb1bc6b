"""A batch of positions that share one search state; a finished position leaves its row to the next one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zerogo import board, sgf
from zerogo.analysis.query import Query
from zerogo.board.flood import host_read_is_free
from zerogo.evaluator import Evaluation
from zerogo.players import analyst
from zerogo.players.analyst import MAX_SCORED_MOVES, Analysis, Analyst, MoveOwnership, without_second_pass
from zerogo.players.session import RestrictedGo, RestrictedState

SEED = 0
FEWEST_NODES = 16
NODES_A_LEAF = 64  # a step selects one leaf for each 64 nodes of a tree: several leaves weaken small searches


@dataclass(eq=False)
class SearchTask:
    """One position of a query, waiting or searched. Tasks sort by falling priority, then by arrival.

    visits: its budget. number: of its arrival. index: its row in a batch, -1 while it waits. seconds: spent on its
    search so far. next_report: the value of `seconds` at which the next report is due. is_stopped: whether its search
    ends at the next step. evaluation: the network's, of one row on the host. after_moves: ownership after its moves."""

    query: Query
    turn: int
    priority: int
    visits: int
    number: int
    index: int = -1
    seconds: float = 0.0
    next_report: float = math.inf
    is_stopped: bool = False
    evaluation: Evaluation | None = None
    after_moves: MoveOwnership = field(default_factory=dict)

    def __lt__(self, other: "SearchTask") -> bool:
        return (-self.priority, self.number) < (-other.priority, other.number)


class BatchKind(NamedTuple):
    """The common properties of the positions in a batch: board side, nodes of a tree, whether moves are forbidden."""

    size: int
    nodes: int
    is_restricted: bool

    @staticmethod
    def of(task: SearchTask) -> "BatchKind":
        """Returns the kind of batch that a task belongs to."""
        query, nodes = task.query, max(FEWEST_NODES, power_of_two(task.visits))
        return BatchKind(query.game.rules.size, nodes, query.restrictions is not None)

    @property
    def tree_bytes(self) -> int:
        """An estimate of the memory of one tree."""
        words, actions = 3 * self.size + 9, self.size * self.size + 1
        return (self.nodes + 2) * (8 * actions + 4 * words + 32)


def power_of_two(number: int) -> int:
    """Returns the smallest power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()


class PositionResult(NamedTuple):
    """The result of one position, from the view of its side to move.

    policy: the network's prior, float32 [A], -1 where illegal; avoided moves keep theirs. stones: int8 [N, N]. to_play:
    1 or 2. ko: point, -1 for none."""

    analysis: Analysis
    policy: np.ndarray
    stones: np.ndarray
    to_play: int
    ko: int


class SearchBatch:
    """Up to `num_rows` positions of one kind. tasks: by row, None in a free one."""

    def __init__(self, analyst: Analyst, kind: BatchKind, num_rows: int) -> None:
        self.analyst, self.kind = analyst, kind
        self.tasks: list[SearchTask | None] = [None] * num_rows
        leaves = max(1, min(analyst.search.settings.leaves, kind.nodes // NODES_A_LEAF))
        game = RestrictedGo if kind.is_restricted else None
        self.search = analyst.search_with(game, keep_tree=False, leaves=leaves)
        self.search_state = None

    @property
    def running(self) -> list[SearchTask]:
        """The tasks in the batch."""
        return [task for task in self.tasks if task is not None]

    @torch.inference_mode()
    def add(self, tasks: Sequence[SearchTask]) -> None:
        """Starts the searches of positions, at most as many as there are free rows."""
        free = [index for index, task in enumerate(self.tasks) if task is None][: len(tasks)]
        assert len(free) == len(tasks) > 0, f"{len(tasks)} positions for {len(free)} free rows"
        device = self.analyst.device
        states, index = roots(tasks, device), torch.tensor(free, device=device)
        evaluations = self.analyst.evaluate(states).map(lambda tensor: tensor.float().cpu())
        for row, (place, task) in enumerate(zip(free, tasks, strict=True)):
            self.tasks[place], task.index = task, place
            task.evaluation = evaluations.select(torch.tensor([row]))
        if self.search_state is None:
            # On CUDA a step also simulates idle rows, so every row gets a position.
            filled = states.select(torch.zeros(len(self.tasks), dtype=torch.int64, device=device))
            self.search_state = self.search.init(filled, self.kind.nodes)
            if not host_read_is_free(filled.black):
                self.search.begin(self.search_state, torch.arange(len(self.tasks), device=device), 0, SEED)
        self.search.reset_trees(self.search_state, index, board.put_(self.search_state.states, index, states))
        budget = torch.tensor([task.visits - 1 for task in tasks], device=device)
        keys = torch.tensor([task.query.key(task.turn) for task in tasks], device=device)
        self.search.begin(self.search_state, index, budget, SEED, game_ids=keys)
        self._flatten_prior(index, tasks)

    def _flatten_prior(self, index: Tensor, tasks: Sequence[SearchTask]) -> None:
        """Applies root noise and temperature of each query: raises the root's prior to the power `root_exponent`."""
        exponents = torch.tensor([[task.query.settings.root_exponent] for task in tasks], device=index.device)
        prior = self.search_state.root_prior[index]
        raised = (prior / prior.amax(1, keepdim=True)) ** exponents  # the largest is 1, so no power underflows in all
        self.search_state.root_prior[index] = torch.where(exponents == 1.0, prior, raised / raised.sum(1, keepdim=True))

    @torch.inference_mode()
    def step(self, tasks: Sequence[SearchTask]) -> None:
        """Runs one step of the searches of some tasks; except on the CPU these must be all."""
        budget = self.search_state.budget
        full, index = budget.clone(), torch.tensor([task.index for task in tasks], device=budget.device)
        budget.copy_(self.search_state.done)
        budget[index] = full[index]
        self.search.simulate(self.search_state)
        budget.copy_(full)

    @torch.inference_mode()
    def finished(self) -> list[SearchTask]:
        """Returns the tasks that are stopped or have used their visits."""
        goes_on = self.search_state.unspent.tolist()
        return [task for task in self.running if task.is_stopped or not goes_on[task.index]]

    @torch.inference_mode()
    def remove(self, tasks: Sequence[SearchTask]) -> None:
        """Removes tasks and frees their rows."""
        if tasks:
            index = torch.tensor([task.index for task in tasks], device=self.analyst.device)
            self.search_state.budget[index] = self.search_state.done[index]
        for task in tasks:
            self.tasks[task.index] = None

    @torch.inference_mode()
    def read(self, tasks: Sequence[SearchTask]) -> list[PositionResult]:
        """Returns the results of some tasks so far."""
        index = torch.tensor([task.index for task in tasks], device=self.analyst.device)
        states = self.search_state.states.select(index)
        evaluation, after_moves = Evaluation.cat([one.evaluation for one in tasks]), [one.after_moves for one in tasks]
        missing = analyst.moves_to_evaluate(self.search_state.tree, index, after_moves, map(_num_after_moves, tasks))
        analyst.evaluate_children(self.analyst, states, missing, after_moves)
        analyses = analyst.read_analyses(self.search_state.tree, index, evaluation, after_moves, self.search.settings)
        policy = torch.where(board.legal_actions(states).cpu(), evaluation.prior, -1.0)
        stones, to_play, ko = (tensor.cpu() for tensor in (states.stones, states.to_play, states.ko))
        rows = zip(analyses, policy.numpy(), stones.numpy(), to_play.tolist(), ko.tolist(), strict=True)
        return [PositionResult(*row) for row in rows]


def _num_after_moves(task: SearchTask) -> int | None:
    """Returns for how many of the best moves the ownership after the move is needed, None for all visited ones."""
    if "includeMovesOwnership" in task.query.included:
        return None
    return MAX_SCORED_MOVES if "includeOwnershipStdev" in task.query.included else 0


def roots(tasks: Sequence[SearchTask], device: torch.device) -> board.State:
    """Returns the positions of tasks with history and restrictions; a game that two passes ended continues."""
    records = [sgf.since_edit(task.query.game, task.turn) for task in tasks]
    state = without_second_pass(sgf.positions(records, [task.turn for task in tasks], device, check=False))
    if tasks[0].query.restrictions is None:
        return state
    return RestrictedState.of(state, [task.query.restrictions for task in tasks])
