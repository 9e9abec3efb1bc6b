"""The search: select, step, evaluate, expand, back up, for all games at once.

Every simulation of every game is one pass through `_simulate`. On the CPU the host looks which lanes still descend and drops the others, so
that the work shrinks with them; elsewhere nothing is read back: lanes that are done go on into the scratch node (`flood.may_look` decides).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from zerogo import draws
from zerogo.draws import Purpose
from zerogo.flood import may_look
from zerogo.search import gumbel, puct
from zerogo.search.forest import Forest
from zerogo.search.games import Game, Go, Line
from zerogo.search.tree import CLOSED, UNVISITED, Nodes, Tree, backup, keep_subtree_, look_at, reset_

if TYPE_CHECKING:
    from zerogo.config import SearchConfig
    from zerogo.evaluator import Evaluator


@dataclass(frozen=True)
class SearchResult:
    """What a search found, for K games, from the view of the side to move.

    visits: int32 [K, A], kept ones included. policy: float32 [K, A], the target to learn, 0 on illegal moves, sums to 1. value: float32 [K],
    the root's mean. prior: float32 [K, A], the network's, without noise. action: int64 [K], the best move by the algorithm's own measure (with
    Gumbel noise, where the search had it). tree: the forest, to be kept for the next move.
    """

    visits: Tensor
    policy: Tensor
    value: Tensor
    prior: Tensor
    action: Tensor
    tree: Forest


class Search:
    """A search with its evaluator and settings; the games and their trees are in a `Forest`.

    evaluator(leaves, legal=bool [K, A], key=int64 [K]) returns something with prior [K, A] and value [K] of the side to move.
    root_evaluator stands in for it at the roots (other symmetries, say).
    """

    def __init__(self, evaluator: Evaluator, settings: SearchConfig, game: Game | None = None, root_evaluator: Evaluator | None = None) -> None:
        self.evaluator = evaluator
        self.root_evaluator = root_evaluator or evaluator
        self.settings = settings
        self.game = game or Go()

    def run(
        self, states: Any, budget: int | Tensor, seed: int = 0, tree: Forest | None = None, *, game_ids: Tensor | None = None,
        plies: Tensor | None = None, explore: bool = False,
    ) -> SearchResult:
        """Returns the result of `budget` simulations in every game: an int, or int64 [B] for budgets of their own.

        tree: the forest of an earlier result, after `advance` to these states. game_ids, plies: int64 [B], what random draws depend on beside
        the seed; by default 0, 1, … and the states' own plies. explore: with root noise, as in self-play.
        """
        longest = int(budget) if isinstance(budget, int) else int(budget.max())
        forest = tree if tree is not None else self.plant(states, longest)
        lane = torch.arange(forest.num_games, device=forest.budget.device)
        self.begin(forest, lane, budget, seed, game_ids=game_ids, plies=plies, explore=explore)
        for _ in range(longest):
            self.simulate(forest)
        return self.result(forest, lane)

    def plant(self, states: Any, longest: int) -> Forest:
        """Returns a forest of empty trees with room for budgets up to `longest`, and for as much again that is kept from move to move."""
        num_actions = self.game.num_actions(states)
        roots = self.game.roots(states)
        num_nodes = (2 * longest if self.settings.keep_tree else longest) + 2  # the root and the scratch node
        tree = Tree.empty(roots.shape[0], num_nodes, num_actions, roots.shape[1], roots.device)
        return Forest.of(states, tree, num_actions, longest)

    def begin(
        self, forest: Forest, lane: Tensor, budget: int | Tensor, seed: int, *, game_ids: Tensor | None = None, plies: Tensor | None = None,
        explore: bool | Tensor = False,
    ) -> None:
        """Starts the next search of the games `lane` (int64 [K]): evaluates roots that have no node, draws the noise, sets the budgets.

        budget: int or int64 [K]. explore: bool or bool [K], with root noise. The host may look here: it is between moves.
        """
        tree = forest.tree
        states_ply = forest.states.ply.to(torch.int64)[lane] if plies is None else plies
        games = lane if game_ids is None else game_ids
        move_key = draws.key(seed, games, states_ply)
        forest.keys[lane] = draws.key(move_key, Purpose.SYMMETRY)
        budgets = torch.as_tensor(budget, dtype=torch.int64, device=lane.device).expand(lane.shape)
        forest.budget[lane], forest.done[lane] = budgets, 0
        self._plant_roots(forest, lane, draws.key(move_key, Purpose.ROOT_SYMMETRY))
        self._close_illegal(forest, lane)
        nodes, children = look_at(tree, lane, torch.zeros_like(lane))
        forest.kept_visits[lane] = nodes.visits
        explores = torch.as_tensor(explore, device=lane.device).expand(lane.shape).unsqueeze(1)
        noise_key = draws.key(move_key, Purpose.NOISE)
        if self.settings.algorithm == "gumbel":
            forest.gumbel[lane] = torch.where(explores, draws.gumbel(noise_key, nodes.prior.shape[1]), 0.0)
            forest.root_prior[lane] = nodes.prior
            forest.order[lane] = self._order(nodes.is_open, budgets, forest.order.shape[1])
        else:
            noisy = puct.noisy_prior(nodes.prior, nodes.is_open, noise_key, self.settings)
            forest.root_prior[lane] = torch.where(explores, noisy, nodes.prior)

    def _order(self, is_open: Tensor, budgets: Tensor, width: int) -> Tensor:
        """Returns the visits to be considered by simulation: bool [K, A], int64 [K] -> int32 [K, width]."""
        number = is_open.sum(1).clamp(max=self.settings.max_considered)
        order = torch.zeros(len(budgets), width, dtype=torch.int32, device=budgets.device)
        for budget in torch.unique(budgets).tolist():
            table = gumbel.schedule(self.settings.max_considered, budget, budgets.device)
            filled = torch.nn.functional.pad(table, (0, width - budget))
            order = torch.where((budgets == budget).unsqueeze(1), filled[number], order)
        return order

    def _plant_roots(self, forest: Forest, lane: Tensor, keys: Tensor) -> None:
        """Evaluates and writes the roots of those of the games whose tree is empty."""
        tree = forest.tree
        bare = (tree.size[lane] == 0).nonzero().squeeze(1)
        if bare.numel() == 0:
            return
        lane, keys = lane[bare], keys[bare]
        states = forest.states if len(lane) == forest.num_games else self.game.take(forest.states, lane)
        legal = self.game.root_legal(states)
        found = self.root_evaluator(states, legal=legal, key=keys)
        finished, result = self.game.outcome(forest.states, lane, states)
        value = torch.where(finished, result, found.value.to(torch.float32))
        tree.words[lane, 0] = self.game.roots(states)
        tree.children[lane, 0] = torch.where(legal, UNVISITED, CLOSED).to(torch.int32)
        tree.prior[lane, 0] = found.prior.to(torch.float32)
        tree.visits[lane, 0], tree.value_sum[lane, 0], tree.value[lane, 0] = 1, value, value
        tree.terminal[lane, 0], tree.parent[lane, 0], tree.size[lane] = False, 0, 1

    def _close_illegal(self, forest: Forest, lane: Tensor) -> None:
        """Closes the illegal moves of kept roots, which as inner nodes had open moves that repeat a position."""
        if self.settings.keep_tree:
            states = forest.states if len(lane) == forest.num_games else self.game.take(forest.states, lane)
            children = forest.tree.children[lane, 0]
            forest.tree.children[lane, 0] = torch.where(self.game.root_legal(states), children, CLOSED)

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
        """One simulation in each of the games `lane`; active: bool [K], whether it counts, None if all do."""
        tree = forest.tree
        scratch = tree.num_nodes - 1
        path, depth, action, at_end = self._descend(forest, lane)
        leaf_parent = path.gather(1, depth.unsqueeze(1)).squeeze(1)
        row = lane * tree.num_nodes
        words = tree.words.flatten(0, 1)[row.unsqueeze(1) + path]
        way = tree.action.view(-1)[row.unsqueeze(1) + path[:, 1:]].to(torch.int64)
        line = Line(lane, words, torch.cat([way, action.unsqueeze(1)], dim=1), depth)
        position = self.game.play(forest.states, lane, tree.words.flatten(0, 1)[row + leaf_parent], action)
        finished, result = self.game.outcome(forest.states, lane, position)
        repeats = self.game.repeats(forest.states, position, line, action)
        repeats = torch.zeros_like(at_end) if repeats is None else repeats & ~at_end
        legal = self.game.legal(forest.states, lane, position)
        keys = draws.key(forest.keys[lane], forest.done[lane])
        prior, value = self._evaluate(forest, position, line, action, legal, keys, at_end | repeats | finished)
        value = torch.where(finished, result, value)
        counts = ~(at_end | repeats) if active is None else ~(at_end | repeats) & active
        node = torch.where(counts, tree.size[lane], scratch)
        self._expand(tree, lane, node, leaf_parent, action, position, legal & ~finished.unsqueeze(1), prior, value, finished)
        tree.size[lane] += counts.to(torch.int64)
        closes = repeats if active is None else repeats & active
        self._close(tree, lane, torch.where(closes, leaf_parent, scratch), action)
        stays = at_end | repeats
        mean = tree.value_sum.view(-1)[row + leaf_parent] / tree.visits.view(-1)[row + leaf_parent].clamp(min=1)
        value = torch.where(at_end, tree.value.view(-1)[row + leaf_parent], torch.where(repeats, mean, value))
        last = torch.where(stays, depth, depth + 1)
        path = torch.cat([path, torch.full_like(path[:, :1], scratch)], dim=1)
        path = path.scatter(1, (depth + 1).unsqueeze(1), torch.where(stays, scratch, node).unsqueeze(1))
        if active is not None:
            path = torch.where(active.unsqueeze(1), path, scratch)
        backup(tree, lane, path, last, value)
        forest.done[lane] += 1 if active is None else active.to(torch.int64)
        ended = torch.stack([at_end | (finished & ~repeats), repeats]) if active is None else torch.stack([at_end | finished, repeats]) & active
        forest.exact_leaves += ended.sum(1)

    def _descend(self, forest: Forest, lane: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the way from the root to the move to be tried.

        path: int64 [K, D], node indices, scratch behind the end. depth: int64 [K], index of the last node on it. action: int64 [K], the move to
        be tried there. at_end: bool [K], the last node is a finished position and there is none.
        """
        tree, looking = forest.tree, may_look(lane)
        scratch = tree.num_nodes - 1
        node, depth = torch.zeros_like(lane), torch.zeros_like(lane)
        at_end = torch.zeros_like(lane, dtype=torch.bool)
        action, children = self._choose_at_root(forest, lane)
        chosen, levels = action, [node]
        below, moving = torch.arange(len(lane), device=lane.device), ~at_end
        for level in range(1, min(forest.depth_bound, tree.num_nodes) + 2):
            child = children.gather(1, chosen.unsqueeze(1)).squeeze(1).to(torch.int64)
            inside = child >= 0
            path_node = torch.full_like(lane, scratch)
            if looking:
                goes = inside.nonzero().squeeze(1)
                if goes.numel() == 0:
                    break
                below, child = below[goes], child[goes]
                path_node[below], depth[below] = child, level
                is_end = tree.terminal[lane[below], child]
                at_end[below] = is_end
                goes = (~is_end).nonzero().squeeze(1)
                below, child = below[goes], child[goes]
                levels.append(path_node)
                if goes.numel() == 0:
                    break
                chosen, children = self._choose_inside(tree, lane[below], child)
                action[below] = chosen
            else:
                moving = moving & inside
                node = torch.where(moving, child, node)
                levels.append(torch.where(moving, child, scratch))
                depth = depth + moving.to(torch.int64)
                at_end = at_end | (moving & tree.terminal[lane, node])
                moving = moving & ~at_end
                chosen, children = self._choose_inside(tree, lane, node)
                action = torch.where(moving, chosen, action)
        return torch.stack(levels, dim=1), depth, action, at_end

    def _choose_at_root(self, forest: Forest, lane: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the moves to try at the roots int64 [K], and the roots' children int32 [K, A]."""
        nodes, children = look_at(forest.tree, lane, torch.zeros_like(lane), forest.root_prior[lane])
        if self.settings.algorithm == "puct":
            return puct.scores(nodes, self.settings, is_root=True).argmax(1), children
        done = forest.done[lane].clamp(max=forest.order.shape[1] - 1)
        wanted = forest.order[lane, done].to(torch.float32)
        new_visits = nodes.visits - forest.kept_visits[lane]
        return gumbel.root_scores(nodes, forest.gumbel[lane], new_visits, wanted, self.settings).argmax(1), children

    def _choose_inside(self, tree: Tree, lane: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        nodes, children = look_at(tree, lane, node)
        if self.settings.algorithm == "puct":
            return puct.scores(nodes, self.settings, is_root=False).argmax(1), children
        return gumbel.interior_scores(nodes, self.settings).argmax(1), children

    def _evaluate(
        self, forest: Forest, position: Any, line: Line, action: Tensor, legal: Tensor, keys: Tensor, is_known: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns priors float32 [K, A] and values float32 [K]; where the value is known (bool [K]) a looking host spares the evaluation."""
        leaves = self.game.leaf(forest.states, position, line, action)
        index = None
        if may_look(is_known) and bool(is_known.any()):
            index = (~is_known).nonzero().squeeze(1)
        if index is None:
            found = self.evaluator(leaves, legal=legal, key=keys)
            return found.prior.to(torch.float32), found.value.to(torch.float32)
        prior = torch.zeros(legal.shape, dtype=torch.float32)
        value = torch.zeros(legal.shape[0], dtype=torch.float32)
        if index.numel():
            found = self.evaluator(self.game.take(leaves, index), legal=legal[index], key=keys[index])
            prior[index], value[index] = found.prior.to(torch.float32), found.value.to(torch.float32)
        return prior, value

    def _expand(
        self, tree: Tree, lane: Tensor, node: Tensor, parent: Tensor, action: Tensor, position: Any, legal: Tensor, prior: Tensor, value: Tensor,
        finished: Tensor,
    ) -> None:
        """Writes the new nodes (int64 [K], scratch where there is none) and hangs them below their parents."""
        row = lane * tree.num_nodes
        new = row + node
        tree.words.flatten(0, 1)[new] = self.game.pack(position)
        tree.children.flatten(0, 1)[new] = torch.where(legal, UNVISITED, CLOSED).to(torch.int32)
        tree.prior.flatten(0, 1)[new] = prior
        tree.value.view(-1)[new] = value
        tree.terminal.view(-1)[new] = finished
        tree.parent.view(-1)[new] = parent.to(torch.int32)
        tree.action.view(-1)[new] = action.to(torch.int32)
        owner = torch.where(node == tree.num_nodes - 1, node, parent)
        tree.children.flatten(0, 1)[row + owner, action] = node.to(torch.int32)

    def _close(self, tree: Tree, lane: Tensor, node: Tensor, action: Tensor) -> None:
        """Closes the moves that repeat a position; node is scratch where nothing is to be closed."""
        row = lane * tree.num_nodes + node
        tree.children.flatten(0, 1)[row, action] = CLOSED
        tree.prior.flatten(0, 1)[row, action] = 0.0

    def result(self, forest: Forest, lane: Tensor) -> SearchResult:
        """Returns what the searches of the games `lane` (int64 [K]) have found so far."""
        nodes, _ = look_at(forest.tree, lane, torch.zeros_like(lane))
        noised = Nodes(**{**vars(nodes), "prior": forest.root_prior[lane]})
        if self.settings.algorithm == "puct":
            policy = puct.visit_policy(noised, self.settings)
            action = torch.where(nodes.is_open, nodes.visits + 0.5 * nodes.prior, -torch.inf).argmax(1)
        else:
            logits = gumbel.improved_logits(nodes, self.settings)
            policy = torch.softmax(logits, dim=1)
            new = torch.where(nodes.is_open, nodes.visits - forest.kept_visits[lane], -1.0)
            is_best = new == new.amax(1, keepdim=True)
            action = torch.where(is_best, logits + forest.gumbel[lane], -torch.inf).argmax(1)
        return SearchResult(nodes.visits.to(torch.int32), policy, nodes.mean, nodes.prior, action, forest)

    def advance(self, forest: Forest, lane: Tensor, actions: Tensor, states: Any) -> None:
        """Plays a move in the games `lane`: actions int64 [K]; states: the root states of all games after it. Keeps subtrees if so set."""
        forest.states = states
        if not self.settings.keep_tree:
            reset_(forest.tree, lane)
            if len(lane) == forest.num_games:
                forest.depth_bound = 0
            return
        forest.overflowed += keep_subtree_(forest.tree, lane, actions, forest.order.shape[1]).sum()

    def replace(self, forest: Forest, lane: Tensor, states: Any) -> None:
        """Puts other games in the places `lane`: their trees are emptied; states: the root states of all games."""
        forest.states = states
        reset_(forest.tree, lane)


def tempered(policy: Tensor, temperature: float | Tensor, keys: Tensor) -> Tensor:
    """Returns moves drawn in proportion to policy^(1 / temperature): float32 [K, A], temperature [K] or one, keys int64 [K] -> int64 [K].

    Temperature 0 is the best move.
    """
    heat = torch.as_tensor(temperature, dtype=torch.float32, device=policy.device).expand(policy.shape[0]).unsqueeze(1)
    logits = torch.log(policy) / heat.clamp(min=1e-4)
    return (logits - logits.amax(1, keepdim=True) + draws.gumbel(keys, policy.shape[1]) * (heat > 0)).argmax(1)
