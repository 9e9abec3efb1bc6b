"""The search: select, step, evaluate, expand, back up, for all games at once.

A step is one pass through `simulate`: one simulation in every game, or several (see `leaves`). On the CPU the host
looks which lanes still descend and which leaves need the network, so that the work shrinks with them; elsewhere nothing
is read back: what must have no effect goes to the node that is nowhere (`flood.may_look` decides). Between moves, in
`begin`, the host may look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from zerogo import draws
from zerogo.draws import Purpose
from zerogo.flood import may_look
from zerogo.search import graph, gumbel, puct
from zerogo.search.arrival import Lanes, expand_and_backup, lanes_of, step_leaves
from zerogo.search.games import Game, Go, LeafStates, of_lanes
from zerogo.search.leaves import select_leaves
from zerogo.search.search_state import SearchState
from zerogo.search.tree import CLOSED, NULL_NODE, ROOT, Nodes, Tree, keep_subtree_, look_at, reset_

if TYPE_CHECKING:
    from zerogo.config import SearchConfig


class Evaluation(Protocol):
    """What the search reads of an evaluation: prior [K, A], 0 on illegal moves, sums to 1; value [K] of the side to
    move, in [-1, 1].
    """

    prior: Tensor
    value: Tensor


# Called with the game's leaves (or roots) and, by name, legal bool [K, A] and key int64 [K], which decides what is
# random about it.
Evaluate = Callable[..., Evaluation]


@dataclass(frozen=True)
class SearchResult:
    """What a search found, for K games, from the view of the side to move.

    visits: int32 [K, A], kept ones included. policy: float32 [K, A], the target to learn, 0 on illegal moves, sums to
    1. value: float32 [K], with PUCT the root's mean, with Gumbel what the improved policy expects (the root's mean is
    full of moves that were tried and dropped). prior: float32 [K, A], the network's, without noise. action: int64 [K],
    the best move by the algorithm's own measure (with Gumbel noise, where the search had it). tree: the search state,
    to be kept for the next move."""

    visits: Tensor
    policy: Tensor
    value: Tensor
    prior: Tensor
    action: Tensor
    tree: SearchState


class Search:
    """A search with its evaluator and settings; the games and their trees are in a `SearchState`.

    evaluator: what is thought of leaves. root_evaluator: stands in for it at the roots (other symmetries, say). game:
    Go by default."""

    def __init__(
        self,
        evaluator: Evaluate,
        settings: SearchConfig,
        game: Game | None = None,
        root_evaluator: Evaluate | None = None,
    ) -> None:
        if settings.leaves < 1:
            raise ValueError(
                f"Search: search.leaves is {settings.leaves}; it must be at least 1 (0 is for self-play, which replaces it)"
            )
        self.evaluator = evaluator
        self.root_evaluator = root_evaluator or evaluator
        self.settings = settings
        self.game = game or Go()

    def run(
        self,
        states: Any,
        budget: int | Tensor,
        seed: int = 0,
        tree: SearchState | None = None,
        *,
        game_ids: Tensor | None = None,
        plies: Tensor | None = None,
        explore: bool = False,
    ) -> SearchResult:
        """Returns the result of `budget` simulations in every game: an int, or int64 [B] for budgets of their own.

        tree: the search state of an earlier result, after `advance` to these states. game_ids, plies: int64 [B], what
        random draws depend on beside the seed; by default 0, 1, … and the states' own plies. explore: with root noise,
        as in self-play."""
        longest = int(budget) if isinstance(budget, int) else int(budget.max())
        search_state = tree if tree is not None else self.init(states, longest)
        search_state.states = states
        lane = torch.arange(search_state.num_games, device=search_state.budget.device)
        self.begin(search_state, lane, budget, seed, game_ids=game_ids, plies=plies, explore=explore)
        self.run_simulations(search_state)
        return self.result(search_state, lane)

    def init(self, states: Any, longest: int) -> SearchState:
        """Returns a search state of empty trees with room for budgets up to `longest`, and for as much again that is
        kept from move to move."""
        num_actions = self.game.num_actions(states)
        roots = self.game.roots(states)
        num_nodes = (2 * longest if self.settings.keep_tree else longest) + 2  # the root, and nowhere
        tree = Tree.empty(roots.shape[0], num_nodes, num_actions, roots.shape[1], roots.device)
        return SearchState.of(states, tree, num_actions, longest)

    def begin(
        self,
        search_state: SearchState,
        lane: Tensor,
        budget: int | Tensor,
        seed: int,
        *,
        game_ids: Tensor | None = None,
        plies: Tensor | None = None,
        explore: bool | Tensor = False,
    ) -> None:
        """Starts the next search of the games `lane` (int64 [K], ascending): evaluates bare roots, draws the noise,
        sets the budgets.

        budget: int or int64 [K], at most what the search state was planted for. A game that is over gets none. explore:
        bool or bool [K], with root noise. The host may look here: it is between moves."""
        tree = search_state.tree
        budgets = torch.as_tensor(budget, dtype=torch.int64, device=lane.device).expand(lane.shape)
        if int(budgets.max()) > search_state.longest:
            raise ValueError(
                f"begin: a budget of {int(budgets.max())} simulations in a forest planted for {search_state.longest}"
            )
        plies = of_lanes(search_state.states.ply.to(torch.int64), lane) if plies is None else plies
        move_key = draws.key(seed, lane if game_ids is None else game_ids, plies)
        search_state.keys[lane] = draws.key(move_key, Purpose.SYMMETRY)
        self._drop_overflowing(search_state, lane, budgets)
        self._prepare_roots(search_state, lane, draws.key(move_key, Purpose.ROOT_SYMMETRY))
        budgets = torch.where(tree.terminal[lane, ROOT], 0, budgets)
        search_state.budget[lane], search_state.done[lane] = budgets, 0
        search_state.depth_bound = int(search_state.deepest.max())
        search_state.slots = None
        nodes, _ = self._roots(search_state, lane)
        search_state.kept_visits[lane] = nodes.visits
        self._explore(search_state, lane, nodes, budgets, draws.key(move_key, Purpose.NOISE), explore)

    def _explore(
        self,
        search_state: SearchState,
        lane: Tensor,
        nodes: Nodes,
        budgets: Tensor,
        keys: Tensor,
        explore: bool | Tensor,
    ) -> None:
        """Draws the root noise: Gumbel's and its order of visits, or PUCT's Dirichlet, in the games that explore."""
        explores = torch.as_tensor(explore, device=lane.device).expand(lane.shape).unsqueeze(1)
        numbers = self.game.numbers(search_state.states, lane)
        if self.settings.algorithm == "gumbel":
            search_state.gumbel[lane] = torch.where(explores, draws.gumbel(keys, nodes.prior.shape[1], numbers), 0.0)
            search_state.root_prior[lane] = nodes.prior
            moves, width = self.settings.max_considered, search_state.longest
            search_state.order[lane] = gumbel.order(nodes.is_open, budgets, moves, width)
            search_state.phase_end[lane] = gumbel.order(nodes.is_open, budgets, moves, width, gumbel.phase_ends)
        else:
            noisy = puct.noisy_prior(nodes.prior, nodes.is_open, keys, self.settings, numbers)
            search_state.root_prior[lane] = torch.where(explores, noisy, nodes.prior)

    def _drop_overflowing(self, search_state: SearchState, lane: Tensor, budgets: Tensor) -> None:
        """Empties the trees whose kept nodes leave too little room for their budgets, and counts them."""
        overflows = lane[search_state.tree.size[lane] + budgets >= search_state.tree.num_nodes]
        reset_(search_state.tree, overflows)
        search_state.deepest[overflows] = 0
        search_state.overflowed += len(overflows)

    def _prepare_roots(self, search_state: SearchState, lane: Tensor, keys: Tensor) -> None:
        """Evaluates the roots of empty trees, and makes kept ones what a root must be.

        As inner nodes these had open moves that repeat a position, and may have lost the prior of others; a root's
        prior is over its legal moves."""
        tree = search_state.tree
        states = (
            search_state.states if len(lane) == search_state.num_games else self.game.take(search_state.states, lane)
        )
        legal = self.game.root_legal(states)
        bare = (tree.size[lane] == 0).nonzero().squeeze(1)
        if bare.numel():
            chosen = states if len(bare) == len(lane) else self.game.take(states, bare)
            self._init_roots(search_state, lane[bare], chosen, legal[bare], keys[bare])
        tree.children[lane, ROOT] = torch.where(legal, tree.children[lane, ROOT], CLOSED)
        prior = torch.where(legal, tree.prior[lane, ROOT], 0.0)
        total = prior.sum(1, keepdim=True)
        even = legal / legal.sum(1, keepdim=True)
        tree.prior[lane, ROOT] = torch.where(total > 0, prior / total, even)

    def _init_roots(self, search_state: SearchState, lane: Tensor, states: Any, legal: Tensor, keys: Tensor) -> None:
        """Evaluates and writes the roots of the games `lane`, whose trees are empty."""
        tree = search_state.tree
        found = self.root_evaluator(states, legal=legal, key=keys)
        finished, result = self.game.outcome(search_state.states, lane, states)
        value = torch.where(finished, result, found.value.to(torch.float32))
        tree.words[lane, ROOT] = self.game.roots(states)
        tree.children[lane, ROOT] = legal.to(torch.int32) + CLOSED  # UNVISITED is one above CLOSED
        tree.prior[lane, ROOT] = found.prior.to(torch.float32)
        tree.visits[lane, ROOT], tree.value_sum[lane, ROOT], tree.value[lane, ROOT] = 1, value, value
        tree.terminal[lane, ROOT], tree.parent[lane, ROOT], tree.size[lane] = finished, NULL_NODE, 1

    def run_simulations(self, search_state: SearchState) -> None:
        """Runs simulations until no budget is left. The host looks only after as many steps as it takes at best."""
        left = int((search_state.budget - search_state.done).max())
        while left:
            for steps in range(-(-left // self.settings.leaves), 0, -1):
                self.simulate(search_state, steps)
            left, search_state.depth_bound = torch.stack(
                [(search_state.budget - search_state.done).max(), search_state.deepest.max()]
            ).tolist()

    def simulate(self, search_state: SearchState, left: int | None = None) -> None:
        """Runs one step: up to `leaves` simulations, at least one, in every game whose budget is not spent. left: see
        `graph.replayed`.
        """
        if not graph.replayed(self, search_state, left):
            self.step(search_state)
        search_state.depth_bound += 1

    def step(self, search_state: SearchState) -> None:
        """The same, operation by operation."""
        if may_look(search_state.deepest):
            search_state.depth_bound = int(search_state.deepest.max())
        lanes, way = lanes_of(
            self.game, search_state, *select_leaves(search_state, self.settings), self.settings.leaves
        )
        if len(lanes.lane):
            found = step_leaves(self.game, search_state.tree, lanes, way)
            prior, value = self._evaluate(search_state, lanes, found, way.at_end)
            expand_and_backup(search_state, lanes, way, found, prior, value)

    def _evaluate(
        self, search_state: SearchState, lanes: Lanes, found: LeafStates, at_end: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns priors float32 [K, A] and values float32 [K]; where the value is known anyway a looking host spares
        the network.
        """
        keys = (
            of_lanes(search_state.keys + search_state.done, lanes.game)
            if lanes.serial is None
            else (search_state.keys + search_state.done)[lanes.game]
        )
        keys = keys if lanes.serial is None else keys + lanes.serial
        index = _wanted(at_end | found.repeats | found.finished) if may_look(keys) else None
        if index is None:
            said = self.evaluator(found.leaf, legal=found.legal, key=keys)
            return said.prior.to(torch.float32), said.value.to(torch.float32)
        prior, value = torch.zeros(found.legal.shape, dtype=torch.float32), torch.zeros_like(found.result)
        if index.numel():
            said = self.evaluator(self.game.take(found.leaf, index), legal=found.legal[index], key=keys[index])
            prior[index], value[index] = said.prior.to(torch.float32), said.value.to(torch.float32)
        return prior, value

    def _roots(self, search_state: SearchState, lane: Tensor, prior: Tensor | None = None) -> tuple[Nodes, Tensor]:
        first = lane * search_state.tree.num_nodes
        return look_at(search_state.tree, first + ROOT, first, prior)

    def result(self, search_state: SearchState, lane: Tensor) -> SearchResult:
        """Returns what the searches of the games `lane` (int64 [K], ascending) have found so far."""
        nodes, _ = self._roots(search_state, lane)
        if self.settings.algorithm == "puct":
            policy = puct.visit_policy(replace(nodes, prior=search_state.root_prior[lane]), self.settings)
            action = torch.where(nodes.is_open, nodes.visits + 0.5 * nodes.prior, -torch.inf).argmax(1)
            value = nodes.mean
        else:
            logits = gumbel.improved_logits(nodes, self.settings)
            policy = torch.softmax(logits, dim=1)
            new = torch.where(nodes.is_open, nodes.visits - search_state.kept_visits[lane], -1.0)
            is_best = new == new.amax(1, keepdim=True)
            action = torch.where(is_best, logits + search_state.gumbel[lane], -torch.inf).argmax(1)
            value = (policy * gumbel.completed_values(nodes)).sum(1)
        value = torch.where(search_state.tree.terminal[lane, ROOT], nodes.own, value)
        return SearchResult(nodes.visits.to(torch.int32), policy, value, nodes.prior, action, search_state)

    def advance(self, search_state: SearchState, lane: Tensor, actions: Tensor, states: Any) -> None:
        """Plays a move in the games `lane`: actions int64 [K]; states: the root states of all games after it. Keeps
        subtrees if so set.
        """
        search_state.states = states
        if not self.settings.keep_tree:
            self.replace(search_state, lane, states)
            return
        keep_subtree_(search_state.tree, lane, actions)
        search_state.deepest[lane] = (search_state.deepest[lane] - 1).clamp(min=0)

    def replace(self, search_state: SearchState, lane: Tensor, states: Any) -> None:
        """Puts other games in the places `lane`: their trees are emptied; states: the root states of all games."""
        search_state.states = states
        reset_(search_state.tree, lane)
        search_state.deepest[lane] = 0


def _wanted(is_known: Tensor) -> Tensor | None:
    """Returns which leaves to evaluate, those whose value is not known (bool [K]) and a few to round the number: int64
    [J]; None is all.

    A CPU's convolutions are made anew for every batch size, which takes as long as running them, and only so many are
    remembered: so there are few sizes."""
    number = len(is_known) - int(is_known.sum())
    step = 1 if number <= 16 else 8 if number <= 256 else 32
    rounded = -(-number // step) * step
    if rounded == len(is_known):
        return None
    index = is_known.to(torch.uint8).sort(stable=True).indices[:rounded]
    more = rounded - len(index)
    return torch.cat([index, index[:1].expand(more)]) if more > 0 else index


def tempered(policy: Tensor, temperature: float | Tensor, keys: Tensor, numbers: Tensor | None = None) -> Tensor:
    """Returns moves drawn in proportion to policy^(1 / temperature): float32 [K, A], temperature [K] or one, keys int64
    [K] -> int64 [K].

    Temperature 0 is the best move. numbers: `Game.numbers`.
    """
    heat = torch.as_tensor(temperature, dtype=torch.float32, device=policy.device).expand(policy.shape[0]).unsqueeze(1)
    logits = torch.log(policy) / heat.clamp(min=1e-4)
    return (logits - logits.amax(1, keepdim=True) + draws.gumbel(keys, policy.shape[1], numbers) * (heat > 0)).argmax(1)
