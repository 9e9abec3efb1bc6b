"""The search: select, step, evaluate, expand, back up, for all games at once.

Every simulation of every game is one pass through `_simulate`. On the CPU the host looks which lanes still descend and which leaves need
the network, so that the work shrinks with them; elsewhere nothing is read back: what must have no effect goes to the node that is nowhere
(`flood.may_look` decides). Between moves, in `begin`, the host may look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from zerogo import draws
from zerogo.draws import Purpose
from zerogo.flood import may_look
from zerogo.search import gumbel, puct
from zerogo.search.descent import Descent, descend
from zerogo.search.forest import Forest
from zerogo.search.games import Game, Go, Line, of_lanes
from zerogo.search.tree import CLOSED, NOWHERE, ROOT, Nodes, Tree, backup, keep_subtree_, look_at, reset_

if TYPE_CHECKING:
    from zerogo.config import SearchConfig


class Evaluation(Protocol):
    """What the search reads of an evaluation: prior [K, A], 0 on illegal moves, sums to 1; value [K] of the side to move, in [-1, 1]."""

    prior: Tensor
    value: Tensor


# Called with the game's leaves (or roots) and, by name, legal bool [K, A] and key int64 [K], which decides what is random about it.
Evaluate = Callable[..., Evaluation]


@dataclass(frozen=True)
class SearchResult:
    """What a search found, for K games, from the view of the side to move.

    visits: int32 [K, A], kept ones included. policy: float32 [K, A], the target to learn, 0 on illegal moves, sums to 1. value: float32
    [K], with PUCT the root's mean, with Gumbel what the improved policy expects (the root's mean is full of moves that were tried and
    dropped). prior: float32 [K, A], the network's, without noise. action: int64 [K], the best move by the algorithm's own measure (with
    Gumbel noise, where the search had it). tree: the forest, to be kept for the next move.
    """

    visits: Tensor
    policy: Tensor
    value: Tensor
    prior: Tensor
    action: Tensor
    tree: Forest


@dataclass(frozen=True)
class Arrival:
    """Where K simulations came to by their last move.

    position: the game's own. legal: bool [K, A]. finished: bool [K], the game is over there, with result float32 [K] for its side to move.
    repeats: bool [K], the move is illegal after all. at_end: bool [K], no move was made, the game was over before. line: the way there.
    """

    position: Any
    legal: Tensor
    finished: Tensor
    result: Tensor
    repeats: Tensor
    at_end: Tensor
    line: Line


class Search:
    """A search with its evaluator and settings; the games and their trees are in a `Forest`.

    evaluator: what is thought of leaves. root_evaluator: stands in for it at the roots (other symmetries, say). game: Go by default.
    """

    def __init__(
        self, evaluator: Evaluate, settings: SearchConfig, game: Game | None = None, root_evaluator: Evaluate | None = None
    ) -> None:
        self.evaluator = evaluator
        self.root_evaluator = root_evaluator or evaluator
        self.settings = settings
        self.game = game or Go()

    def run(
        self, states: Any, budget: int | Tensor, seed: int = 0, tree: Forest | None = None, *, game_ids: Tensor | None = None,
        plies: Tensor | None = None, explore: bool = False,
    ) -> SearchResult:
        """Returns the result of `budget` simulations in every game: an int, or int64 [B] for budgets of their own.

        tree: the forest of an earlier result, after `advance` to these states. game_ids, plies: int64 [B], what random draws depend on
        beside the seed; by default 0, 1, … and the states' own plies. explore: with root noise, as in self-play.
        """
        longest = int(budget) if isinstance(budget, int) else int(budget.max())
        forest = tree if tree is not None else self.plant(states, longest)
        forest.states = states
        lane = torch.arange(forest.num_games, device=forest.budget.device)
        self.begin(forest, lane, budget, seed, game_ids=game_ids, plies=plies, explore=explore)
        for _ in range(longest):
            self.simulate(forest)
        return self.result(forest, lane)

    def plant(self, states: Any, longest: int) -> Forest:
        """Returns a forest of empty trees with room for budgets up to `longest`, and for as much again that is kept from move to move."""
        num_actions = self.game.num_actions(states)
        roots = self.game.roots(states)
        num_nodes = (2 * longest if self.settings.keep_tree else longest) + 2  # the root, and nowhere
        tree = Tree.empty(roots.shape[0], num_nodes, num_actions, roots.shape[1], roots.device)
        return Forest.of(states, tree, num_actions, longest)

    def begin(
        self, forest: Forest, lane: Tensor, budget: int | Tensor, seed: int, *, game_ids: Tensor | None = None, plies: Tensor | None = None,
        explore: bool | Tensor = False,
    ) -> None:
        """Starts the next search of the games `lane` (int64 [K], ascending): evaluates bare roots, draws the noise, sets the budgets.

        budget: int or int64 [K], at most what the forest was planted for. A game that is over gets none. explore: bool or bool [K], with
        root noise. The host may look here: it is between moves.
        """
        tree = forest.tree
        budgets = torch.as_tensor(budget, dtype=torch.int64, device=lane.device).expand(lane.shape)
        if int(budgets.max()) > forest.longest:
            raise ValueError(f"begin: a budget of {int(budgets.max())} simulations in a forest planted for {forest.longest}")
        plies = of_lanes(forest.states.ply.to(torch.int64), lane) if plies is None else plies
        move_key = draws.key(seed, lane if game_ids is None else game_ids, plies)
        forest.keys[lane] = draws.key(move_key, Purpose.SYMMETRY)
        self._drop_overflowing(forest, lane, budgets)
        self._prepare_roots(forest, lane, draws.key(move_key, Purpose.ROOT_SYMMETRY))
        budgets = torch.where(tree.terminal[lane, ROOT], 0, budgets)
        forest.budget[lane], forest.done[lane] = budgets, 0
        forest.depth_bound = int(forest.deepest.max())
        nodes, _ = self._roots(forest, lane)
        forest.kept_visits[lane] = nodes.visits
        self._explore(forest, lane, nodes, budgets, draws.key(move_key, Purpose.NOISE), explore)

    def _explore(self, forest: Forest, lane: Tensor, nodes: Nodes, budgets: Tensor, keys: Tensor, explore: bool | Tensor) -> None:
        """Draws the root noise: Gumbel's and its order of visits, or PUCT's Dirichlet, in the games that explore."""
        explores = torch.as_tensor(explore, device=lane.device).expand(lane.shape).unsqueeze(1)
        if self.settings.algorithm == "gumbel":
            forest.gumbel[lane] = torch.where(explores, draws.gumbel(keys, nodes.prior.shape[1]), 0.0)
            forest.root_prior[lane] = nodes.prior
            forest.order[lane] = gumbel.order(nodes.is_open, budgets, self.settings.max_considered, forest.longest)
        else:
            noisy = puct.noisy_prior(nodes.prior, nodes.is_open, keys, self.settings)
            forest.root_prior[lane] = torch.where(explores, noisy, nodes.prior)

    def _drop_overflowing(self, forest: Forest, lane: Tensor, budgets: Tensor) -> None:
        """Empties the trees whose kept nodes leave too little room for their budgets, and counts them."""
        overflows = lane[forest.tree.size[lane] + budgets >= forest.tree.num_nodes]
        reset_(forest.tree, overflows)
        forest.deepest[overflows] = 0
        forest.overflowed += len(overflows)

    def _prepare_roots(self, forest: Forest, lane: Tensor, keys: Tensor) -> None:
        """Evaluates the roots of empty trees, and makes kept ones what a root must be.

        As inner nodes these had open moves that repeat a position, and may have lost the prior of others; a root's prior is over its legal
        moves.
        """
        tree = forest.tree
        states = forest.states if len(lane) == forest.num_games else self.game.take(forest.states, lane)
        legal = self.game.root_legal(states)
        bare = (tree.size[lane] == 0).nonzero().squeeze(1)
        if bare.numel():
            chosen = states if len(bare) == len(lane) else self.game.take(states, bare)
            self._plant_roots(forest, lane[bare], chosen, legal[bare], keys[bare])
        tree.children[lane, ROOT] = torch.where(legal, tree.children[lane, ROOT], CLOSED)
        prior = torch.where(legal, tree.prior[lane, ROOT], 0.0)
        total = prior.sum(1, keepdim=True)
        even = legal / legal.sum(1, keepdim=True)
        tree.prior[lane, ROOT] = torch.where(total > 0, prior / total, even)

    def _plant_roots(self, forest: Forest, lane: Tensor, states: Any, legal: Tensor, keys: Tensor) -> None:
        """Evaluates and writes the roots of the games `lane`, whose trees are empty."""
        tree = forest.tree
        found = self.root_evaluator(states, legal=legal, key=keys)
        finished, result = self.game.outcome(forest.states, lane, states)
        value = torch.where(finished, result, found.value.to(torch.float32))
        tree.words[lane, ROOT] = self.game.roots(states)
        tree.children[lane, ROOT] = legal.to(torch.int32) + CLOSED  # UNVISITED is one above CLOSED
        tree.prior[lane, ROOT] = found.prior.to(torch.float32)
        tree.visits[lane, ROOT], tree.value_sum[lane, ROOT], tree.value[lane, ROOT] = 1, value, value
        tree.terminal[lane, ROOT], tree.parent[lane, ROOT], tree.size[lane] = finished, NOWHERE, 1

    def simulate(self, forest: Forest) -> None:
        """Runs one simulation in every game whose budget is not spent."""
        active = forest.unspent
        if may_look(active):
            lane = active.nonzero().squeeze(1)
            if lane.numel():
                self._simulate(forest, lane, None)
        else:
            self._simulate(forest, torch.arange(forest.num_games, device=active.device), active)
        forest.depth_bound += 1

    def _simulate(self, forest: Forest, lane: Tensor, active: Tensor | None) -> None:
        """One simulation in each of the games `lane` (ascending); active: bool [K], whether it counts, None if all do."""
        tree = forest.tree
        first = lane * tree.num_nodes
        way = descend(tree, first, self._choose_at_root(forest, lane, first), lambda *nodes: self._choose(tree, *nodes), forest.depth_bound)
        parent = way.last
        arrival = self._arrive(forest, lane, way, parent)
        prior, value = self._evaluate(forest, lane, arrival, way.action)
        stays = arrival.at_end | arrival.repeats
        counts = ~stays if active is None else ~stays & active
        node = torch.where(counts, ROOT + of_lanes(tree.size, lane), NOWHERE)
        tree.size[lane] += counts.to(torch.int64)
        self._expand(tree, first, node, parent, way.action, arrival, prior, value)
        self._close(tree, first, parent, way.action, arrival.repeats if active is None else arrival.repeats & active)
        value = self._value_at_end(tree, parent, arrival, value)
        depth = torch.where(stays, way.depth, way.depth + 1)
        path = torch.cat([way.path, first.unsqueeze(1)], dim=1)
        path = path.scatter(1, (way.depth + 1).unsqueeze(1), (first + node).unsqueeze(1))
        backup(tree, path if active is None else torch.where(active.unsqueeze(1), path, first.unsqueeze(1)), depth, value)
        forest.done[lane] += 1 if active is None else active.to(torch.int64)
        self._count(forest, lane, depth, arrival, active)

    def _arrive(self, forest: Forest, lane: Tensor, way: Descent, parent: Tensor) -> Arrival:
        """Makes the last move of each simulation: parent int64 [K], the rows of the nodes from which."""
        tree, game, states = forest.tree, self.game, forest.states
        rows = way.path.view(-1)
        words = tree.at("words", rows).unflatten(0, way.path.shape)
        moves = torch.cat([tree.at("action", rows).unflatten(0, way.path.shape)[:, 1:], way.action.to(torch.int32).unsqueeze(1)], dim=1)
        line = Line(lane, words, moves.to(torch.int64), way.depth)
        position = game.play(states, lane, tree.at("words", parent), way.action)
        finished, result = game.outcome(states, lane, position)
        repeats = game.repeats(states, position, line, way.action)
        repeats = torch.zeros_like(way.at_end) if repeats is None else repeats & ~way.at_end
        legal = game.legal(states, lane, position)
        return Arrival(position, legal, finished, result, repeats, way.at_end, line)

    def _evaluate(self, forest: Forest, lane: Tensor, arrival: Arrival, action: Tensor) -> tuple[Tensor, Tensor]:
        """Returns priors float32 [K, A] and values float32 [K]; where the value is known anyway a looking host spares the network."""
        leaves = self.game.leaf(forest.states, arrival.position, arrival.line, action)
        keys = of_lanes(forest.keys, lane) + of_lanes(forest.done, lane)
        index = _wanted(arrival.at_end | arrival.repeats | arrival.finished) if may_look(keys) else None
        if index is None:
            found = self.evaluator(leaves, legal=arrival.legal, key=keys)
            return found.prior.to(torch.float32), torch.where(arrival.finished, arrival.result, found.value.to(torch.float32))
        prior, value = torch.zeros(arrival.legal.shape, dtype=torch.float32), torch.zeros_like(arrival.result)
        if index.numel():
            found = self.evaluator(self.game.take(leaves, index), legal=arrival.legal[index], key=keys[index])
            prior[index], value[index] = found.prior.to(torch.float32), found.value.to(torch.float32)
        return prior, torch.where(arrival.finished, arrival.result, value)

    def _expand(
        self, tree: Tree, first: Tensor, node: Tensor, parent: Tensor, action: Tensor, arrival: Arrival, prior: Tensor, value: Tensor
    ) -> None:
        """Writes the new nodes (int64 [K], nowhere where there is none) and hangs them below their parents, rows int64 [K]."""
        new = (first + node,)
        tree.words.flatten(0, 1).index_put_(new, self.game.pack(arrival.position))
        tree.children.flatten(0, 1).index_put_(new, arrival.legal.to(torch.int32) + CLOSED)  # UNVISITED is one above CLOSED
        tree.prior.flatten(0, 1).index_put_(new, prior)
        tree.value.view(-1).index_put_(new, value)
        tree.terminal.view(-1).index_put_(new, arrival.finished)
        tree.parent.view(-1).index_put_(new, (parent - first).to(torch.int32))
        tree.action.view(-1).index_put_(new, action.to(torch.int32))
        owner = torch.where(node == NOWHERE, first, parent)
        tree.children.flatten(0, 1).index_put_((owner, action), node.to(torch.int32))

    @staticmethod
    def _close(tree: Tree, first: Tensor, parent: Tensor, action: Tensor, repeats: Tensor) -> None:
        """Closes the moves that repeat a position (bool [K])."""
        if may_look(repeats) and not bool(repeats.any()):
            return
        place = (torch.where(repeats, parent, first), action)
        tree.children.flatten(0, 1).index_put_(place, torch.full_like(action, CLOSED, dtype=torch.int32))
        tree.prior.flatten(0, 1).index_put_(place, torch.zeros_like(tree.value.view(-1)[parent]))

    @staticmethod
    def _value_at_end(tree: Tree, parent: Tensor, arrival: Arrival, value: Tensor) -> Tensor:
        """Returns what is backed up: float32 [K], for a finished node its result, for a closed move the mean of its parent."""
        mean = tree.at("value_sum", parent) / tree.at("visits", parent).clamp(min=1)
        return torch.where(arrival.at_end, tree.at("value", parent), torch.where(arrival.repeats, mean, value))

    @staticmethod
    def _count(forest: Forest, lane: Tensor, depth: Tensor, arrival: Arrival, active: Tensor | None) -> None:
        """Counts the leaves that need no network, and how deep the trees are."""
        ended = torch.stack([arrival.at_end | (arrival.finished & ~arrival.repeats), arrival.repeats])
        forest.exact_leaves += (ended if active is None else ended & active).sum(1)
        reached = depth if active is None else torch.where(active, depth, 0)
        forest.deepest[lane] = torch.maximum(of_lanes(forest.deepest, lane), reached)

    def _roots(self, forest: Forest, lane: Tensor, prior: Tensor | None = None) -> tuple[Nodes, Tensor]:
        first = lane * forest.tree.num_nodes
        return look_at(forest.tree, first + ROOT, first, prior)

    def _choose_at_root(self, forest: Forest, lane: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the moves to try at the roots int64 [K], and the roots' children int32 [K, A]."""
        nodes, children = look_at(forest.tree, first + ROOT, first, of_lanes(forest.root_prior, lane))
        if self.settings.algorithm == "puct":
            return puct.scores(nodes, self.settings, is_root=True).argmax(1), children
        done = of_lanes(forest.done, lane).clamp(max=forest.longest - 1)
        wanted = of_lanes(forest.order, lane).gather(1, done.unsqueeze(1)).squeeze(1).to(torch.float32)
        new_visits = nodes.visits - of_lanes(forest.kept_visits, lane)
        return gumbel.root_scores(nodes, of_lanes(forest.gumbel, lane), new_visits, wanted, self.settings).argmax(1), children

    def _choose(self, tree: Tree, rows: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """The same inside the trees: rows, and first rows of the games, int64 [K]."""
        nodes, children = look_at(tree, rows, first)
        if self.settings.algorithm == "puct":
            return puct.scores(nodes, self.settings, is_root=False).argmax(1), children
        return gumbel.interior_scores(nodes, self.settings).argmax(1), children

    def result(self, forest: Forest, lane: Tensor) -> SearchResult:
        """Returns what the searches of the games `lane` (int64 [K], ascending) have found so far."""
        nodes, _ = self._roots(forest, lane)
        if self.settings.algorithm == "puct":
            policy = puct.visit_policy(replace(nodes, prior=forest.root_prior[lane]), self.settings)
            action = torch.where(nodes.is_open, nodes.visits + 0.5 * nodes.prior, -torch.inf).argmax(1)
            value = nodes.mean
        else:
            logits = gumbel.improved_logits(nodes, self.settings)
            policy = torch.softmax(logits, dim=1)
            new = torch.where(nodes.is_open, nodes.visits - forest.kept_visits[lane], -1.0)
            is_best = new == new.amax(1, keepdim=True)
            action = torch.where(is_best, logits + forest.gumbel[lane], -torch.inf).argmax(1)
            value = (policy * gumbel.completed_values(nodes)).sum(1)
        value = torch.where(forest.tree.terminal[lane, ROOT], nodes.own, value)
        return SearchResult(nodes.visits.to(torch.int32), policy, value, nodes.prior, action, forest)

    def advance(self, forest: Forest, lane: Tensor, actions: Tensor, states: Any) -> None:
        """Plays a move in the games `lane`: actions int64 [K]; states: the root states of all games after it. Keeps subtrees if so set."""
        forest.states = states
        if not self.settings.keep_tree:
            self.replace(forest, lane, states)
            return
        keep_subtree_(forest.tree, lane, actions)
        forest.deepest[lane] = (forest.deepest[lane] - 1).clamp(min=0)

    def replace(self, forest: Forest, lane: Tensor, states: Any) -> None:
        """Puts other games in the places `lane`: their trees are emptied; states: the root states of all games."""
        forest.states = states
        reset_(forest.tree, lane)
        forest.deepest[lane] = 0


def _wanted(is_known: Tensor) -> Tensor | None:
    """Returns which leaves to evaluate, those whose value is not known (bool [K]) and a few to round the number: int64 [J]; None is all.

    A CPU's convolutions are made anew for every batch size, which takes as long as running them, and only so many are remembered: so there
    are few sizes.
    """
    number = len(is_known) - int(is_known.sum())
    step = 1 if number <= 16 else 8 if number <= 256 else 32
    rounded = -(-number // step) * step
    if rounded == len(is_known):
        return None
    index = is_known.to(torch.uint8).sort(stable=True).indices[:rounded]
    more = rounded - len(index)
    return torch.cat([index, index[:1].expand(more)]) if more > 0 else index


def tempered(policy: Tensor, temperature: float | Tensor, keys: Tensor) -> Tensor:
    """Returns moves drawn in proportion to policy^(1 / temperature): float32 [K, A], temperature [K] or one, keys int64 [K] -> int64 [K].

    Temperature 0 is the best move.
    """
    heat = torch.as_tensor(temperature, dtype=torch.float32, device=policy.device).expand(policy.shape[0]).unsqueeze(1)
    logits = torch.log(policy) / heat.clamp(min=1e-4)
    return (logits - logits.amax(1, keepdim=True) + draws.gumbel(keys, policy.shape[1]) * (heat > 0)).argmax(1)
