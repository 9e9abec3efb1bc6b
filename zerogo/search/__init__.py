"""Batched Monte Carlo tree search over any game and any evaluator, by PUCT or Gumbel; the trees of all games are
tensors. Select, step the leaves, evaluate, expand and back up, for all games at once.

A step is one call of `simulate`: one simulation in every game, or several (see `selection`). On the CPU
(`flood.host_read_is_free`) the host reads which simulations count and which leaves need the network, and computes only
those. On other devices the host reads only between moves: inside a step all simulations are computed, and those that do
not count write to NULL_NODE."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from zerogo import kernels, tuning
from zerogo.board import rng
from zerogo.board.flood import host_read_is_free
from zerogo.board.rng import Purpose
from zerogo.config import SearchConfig
from zerogo.kernels.shared import ILLEGAL, NULL_NODE, ROOT, UNVISITED
from zerogo.search import graph, gumbel, puct
from zerogo.search.game import Game, Go, LeafStates, SearchPath, select_games
from zerogo.search.selection import Selection, select
from zerogo.search.tree import Nodes, SearchState, Tree, backup, keep_subtree_, nodes_at, reset_
from zerogo.system.tensors import send

# An evaluator takes leaves or root states, and the keyword arguments legal (bool [K, A]) and key (int64 [K], for random
# draws). It returns an object with prior [K, A], 0 on illegal moves, sums to 1; value [K] of the side to move, in
# [-1, 1]; and, in a search that keeps scores, score [K] in points.
Evaluate = Callable[..., Any]


@dataclass(frozen=True)
class SearchResult:
    """The results of K searches, from the view of the side to move.

    visits: int32 [K, A], those of a kept subtree included. policy: float32 [K, A], the target to learn, 0 on illegal
    moves, sums to 1. value: float32 [K], with PUCT the root's mean, with Gumbel the expectation under the improved
    policy (the root's mean also counts moves that halving dropped). prior: float32 [K, A], the network's, without
    noise. action: int64 [K], the move to play: `puct.best_moves`, or with Gumbel the best of the most visited moves,
    noise included. search_state: an argument of the next move's search."""

    visits: Tensor
    policy: Tensor
    value: Tensor
    prior: Tensor
    action: Tensor
    search_state: SearchState


class Search:
    """A search with its evaluator and settings; the games and their trees are in a `SearchState`.

    evaluator: evaluates leaves. root_evaluator: evaluates roots, with other symmetries for example; by default the
    same. game: by default Go. keeps_scores: whether trees also sum the evaluator's scores."""

    def __init__(
        self,
        evaluator: Evaluate,
        settings: SearchConfig,
        game: Game | None = None,
        root_evaluator: Evaluate | None = None,
        keeps_scores: bool = False,
    ) -> None:
        if settings.leaves < 1:
            raise ValueError(f"Search: search.leaves is {settings.leaves}; it must be at least 1 (0 is for self-play)")
        self.evaluator, self.root_evaluator = evaluator, root_evaluator or evaluator
        self.settings, self.game, self.keeps_scores = settings, game or Go(), keeps_scores

    def run(
        self,
        states: Any,
        budget: int | Tensor,
        seed: int = 0,
        search_state: SearchState | None = None,
        *,
        game_ids: Tensor | None = None,
        explore: bool = False,
    ) -> SearchResult:
        """Returns the result of `budget` simulations in every game: an int, or int64 [B] for one budget per game.

        search_state: the last result's, after `advance` to these states. game_ids: int64 [B], by default 0, 1, …;
        random draws depend on seed, game id and ply. explore: whether to add root noise."""
        max_budget = budget if isinstance(budget, int) else int(budget.max()) if budget.numel() else 0
        search_state = search_state or self.init(states, max_budget)
        search_state.states = states
        games = torch.arange(search_state.num_games, device=search_state.budget.device)
        self.begin(search_state, games, budget, seed, game_ids=game_ids, explore=explore)
        self.run_simulations(search_state)
        return self.result(search_state, games)

    def init(self, states: Any, max_budget: int) -> SearchState:
        """Returns a search state of empty trees, each with room for `max_budget` simulations and, with
        `settings.keep_tree`, for a kept subtree of as many nodes."""
        num_actions, words = states.num_actions, self.game.pack(states)
        num_nodes = (2 * max_budget if self.settings.keep_tree else max_budget) + 2  # the root, and NULL_NODE
        tree = Tree.empty(words.shape[0], num_nodes, num_actions, words.shape[1], words.device, self.keeps_scores)
        return SearchState.of(states, tree, num_actions, max_budget)

    def begin(
        self,
        search_state: SearchState,
        games: Tensor,
        budget: int | Tensor,
        seed: int,
        *,
        game_ids: Tensor | None = None,
        explore: bool | Tensor = False,
        new_roots: Tensor | None = None,
    ) -> None:
        """Starts the next search of some games: evaluates new roots, draws the noise, sets the budgets.

        games: int64 [K], ascending. budget: int or int64 [K], at most `search_state.max_budget`; 0 for no search.
        explore: bool or bool [K], whether to add root noise. new_roots: int64 [n] on the host, indices into `games`
        where the root must be evaluated, because there is no tree or it has too little room for the budget; by default
        the host reads from the device which these are."""
        tree, max_budget = search_state.tree, search_state.max_budget
        budgets = budget if isinstance(budget, Tensor) else torch.full_like(games, budget)
        if budgets.shape != games.shape:
            raise ValueError(f"begin: budgets of shape {list(budgets.shape)} for {len(games)} games")
        largest = budget if isinstance(budget, int) else int(budget.max()) if new_roots is None else 0
        if largest > max_budget:
            raise ValueError(f"begin: a budget of {largest} simulations in trees made for {max_budget}")
        plies = select_games(search_state.states.ply, games)
        move_key = rng.key(seed, games if game_ids is None else game_ids, plies)
        search_state.repeated_states = None
        fast = kernels.module_for("roots", games.device) if self.settings.algorithm == "gumbel" else None
        if fast is not None:
            fast.begin(self, search_state, games, budgets, move_key, explore, new_roots)
            if kernels.module_for("tree", games.device) is None:  # torch's steps descend so many levels, and add one
                search_state.depth_bound = int(search_state.deepest.max())
            return
        explores = explore if isinstance(explore, Tensor) else torch.full_like(games, explore, dtype=torch.bool)
        search_state.keys[games] = rng.key(move_key, Purpose.SYMMETRY)
        self._prepare_roots(search_state, games, budgets, move_key, new_roots)
        search_state.budget[games] = torch.where(tree.terminal[games, ROOT], 0, budgets)
        search_state.done.index_fill_(0, games, 0)
        if kernels.module_for("tree", games.device) is None:  # kernels do not need it here
            search_state.depth_bound = int(search_state.deepest.max())
        nodes = self._roots(search_state, games)
        search_state.kept_visits[games] = nodes.visits
        self._explore(search_state, games, nodes, rng.key(move_key, Purpose.NOISE), explores.unsqueeze(1))

    def _explore(self, search_state: SearchState, games: Tensor, nodes: Nodes, keys: Tensor, explores: Tensor) -> None:
        """Draws the root noise where `explores` (bool [K, 1]): Dirichlet's for PUCT, Gumbel's for Gumbel. For Gumbel,
        also sets the schedule of sequential halving."""
        places, budgets = self.game.noise_places(search_state.states, games), search_state.budget[games]
        if self.settings.algorithm == "puct":
            noisy = puct.noisy_prior(nodes.prior, nodes.is_open, keys, self.settings, places)
            search_state.root_prior[games] = torch.where(explores, noisy, nodes.prior)
            search_state.forced[games] = explores.squeeze(1) * self.settings.forced_playouts
            return
        noise = rng.gumbel(keys, nodes.prior.shape[1], places)
        search_state.gumbel[games] = torch.where(explores, noise, 0.0)
        search_state.root_prior[games] = nodes.prior
        moves = nodes.is_open, budgets, self.settings.max_considered, search_state.max_budget
        search_state.target_visits[games] = gumbel.by_simulation(*moves, gumbel.considered_visits)
        search_state.phase_end[games] = gumbel.by_simulation(*moves, gumbel.phase_ends, self.settings.leaves)

    def _prepare_roots(
        self, search_state: SearchState, games: Tensor, budgets: Tensor, move_keys: Tensor, new_roots: Tensor | None
    ) -> None:
        """Evaluates the new roots, marks the illegal moves of all roots as ILLEGAL, and normalises their priors.

        A kept root was an inner node, where a move that repeats a position counts as legal until it is tried. A move
        that is marked loses its prior, so the others no longer sum to 1."""
        tree = search_state.tree
        legal, roots = self.evaluate_roots(search_state, games, budgets, move_keys, new_roots)
        if roots:
            self._write_roots(search_state, *roots)
        tree.children[games, ROOT] = torch.where(legal, tree.children[games, ROOT], ILLEGAL)
        prior = torch.where(legal, tree.prior[games, ROOT], 0.0)
        total = prior.sum(1, keepdim=True)
        even = legal / legal.sum(1, keepdim=True)
        tree.prior[games, ROOT] = torch.where(total > 0, prior / total, even)

    def evaluate_roots(
        self, search_state: SearchState, games: Tensor, budgets: Tensor, move_keys: Tensor, new_roots: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns the legal moves of the roots, bool [K, A], and a tuple: the games with new roots, int64 [n], and what
        `evaluate_new_roots` returns for them; it is empty if no root is new. new_roots: see `begin`."""
        states, tree = search_state.states, search_state.tree
        states = states if len(games) == search_state.num_games else states.select(games)
        legal = self.game.root_legal(states)
        if new_roots is None:
            size = tree.size[games]
            new_roots = ((size == 0) | (size + budgets >= tree.num_nodes)).nonzero().squeeze(1)
        number, chosen = len(new_roots), (games, legal, move_keys)
        if not number:
            return legal, ()
        if number < len(games):
            # cuDNN takes milliseconds to plan its convolutions for each new batch size, so there are only a few sizes.
            size = number if host_read_is_free(games) else min(len(games), 1 << (number - 1).bit_length())
            index = send(torch.cat([new_roots, new_roots[-1:].expand(size - number)]), games.device)
            states, chosen = states.select(index), [part.index_select(0, index) for part in chosen]
        games, some_legal, keys = chosen
        roots = self.evaluate_new_roots(states, some_legal, rng.key(keys, Purpose.ROOT_SYMMETRY))
        return legal, tuple(part[:number] for part in (games, *roots))

    def _write_roots(self, search_state: SearchState, games: Tensor, *roots: Tensor) -> None:
        """Empties the trees of games (int64 [n]) and writes their roots; counts the trees that were dropped for lack of
        room. All moves are UNVISITED afterwards; the caller marks illegal ones. roots: see `evaluate_new_roots`."""
        tree, (words, prior, value, finished, *score) = search_state.tree, roots
        search_state.overflowed += (tree.size[games] > 0).sum()
        self.reset_trees(search_state, games, search_state.states)
        tree.words[games, ROOT], tree.prior[games, ROOT] = words, prior
        tree.value_sum[games, ROOT], tree.value[games, ROOT] = value, value
        tree.square_sum[games, ROOT], tree.terminal[games, ROOT] = value * value, finished
        if score:
            tree.score_sum[games, ROOT] = score[0]
        tree.children[:, ROOT].index_fill_(0, games, UNVISITED)
        tree.visits[:, ROOT].index_fill_(0, games, 1)
        tree.parent[:, ROOT].index_fill_(0, games, NULL_NODE)
        tree.size.index_fill_(0, games, 1)

    def evaluate_new_roots(self, states: Any, legal: Tensor, keys: Tensor) -> tuple[Tensor, ...]:
        """Returns the data of root nodes: words, priors float32 [K, A], values float32 [K], finished bool [K], and, if
        the search keeps them, scores float32 [K]."""
        evaluation = self.root_evaluator(states, legal=legal, key=keys)
        games = torch.arange(len(legal), device=legal.device)
        finished, result = self.game.outcome(states, games, states)
        prior, value, *score = self.numbers_of(evaluation)
        score = [torch.where(finished, self.game.final_score(states, games, states), one) for one in score]
        value = torch.where(finished, result, torch.maximum(value, result))
        return self.game.pack(states), prior, value, finished, *score

    def numbers_of(self, evaluation: Any) -> tuple[Tensor, ...]:
        """Returns what trees store of an evaluation, float32: priors, values and, if the search keeps them, scores."""
        score = (evaluation.score.to(torch.float32),) if self.keeps_scores else ()
        return evaluation.prior.to(torch.float32), evaluation.value.to(torch.float32), *score

    def run_simulations(self, search_state: SearchState) -> None:
        """Runs simulations until all budgets are spent. The host reads the counters only when that may be so."""
        left = int((search_state.budget - search_state.done).max())
        while left:
            for steps in range(-(-left // self.settings.leaves), 0, -1):
                self.simulate(search_state, steps)
            left, search_state.depth_bound = torch.stack(
                [(search_state.budget - search_state.done).max(), search_state.deepest.max()]
            ).tolist()

    def simulate(self, search_state: SearchState, steps_left: int | None = None) -> None:
        """Runs one step: 1 to `leaves` simulations in every game whose budget is not spent. steps_left: see
        `graph.replay_step`."""
        if not graph.replay_step(self, search_state, steps_left):
            self.step(search_state)
        search_state.depth_bound += 1

    def step(self, search_state: SearchState) -> None:
        """Runs one step as `simulate` does, without a CUDA graph."""
        start = time.perf_counter()
        if host_read_is_free(search_state.deepest):
            search_state.depth_bound = int(search_state.deepest.max())
        selection = select(search_state, self.settings)
        if host_read_is_free(selection.is_used) and not bool(selection.is_used.all()):
            selection = selection.select(selection.is_used.nonzero().squeeze(1))
        if len(selection.index):
            leaves = step_leaves(self.game, search_state, selection)
            expand_and_backup(search_state, selection, leaves, *self._evaluate(search_state, selection, leaves))
        if host_read_is_free(selection.index):
            tuning.THREADS.note(len(selection.index), time.perf_counter() - start)

    def _evaluate(self, search_state: SearchState, selection: Selection, leaves: LeafStates) -> tuple[Tensor, ...]:
        """Returns priors float32 [K, A], values and, if the search keeps them, scores float32 [K]. On the CPU it
        evaluates only leaves whose value is not known."""
        keys = search_state.keys + search_state.done
        if selection.num_slots == 1:
            keys = select_games(keys, selection.index)
        else:  # each simulation of a game has the key that it would have in a separate step
            serial = torch.div(selection.index, search_state.num_games, rounding_mode="floor")
            keys = keys[selection.games(search_state.num_games)] + serial
        index = _to_evaluate(selection, leaves) if host_read_is_free(keys) else None
        if index is None:
            numbers = self.numbers_of(self.evaluator(leaves.leaf, legal=leaves.legal, key=keys))
        else:
            numbers = torch.zeros(leaves.legal.shape), *torch.zeros(1 + self.keeps_scores, len(keys))
            if index.numel():
                evaluation = self.evaluator(leaves.leaf.select(index), legal=leaves.legal[index], key=keys[index])
                for of_all, of_chosen in zip(numbers, self.numbers_of(evaluation), strict=True):
                    of_all[index] = of_chosen
        if self.keeps_scores and not (host_read_is_free(keys) and not bool(leaves.finished.any())):
            states = search_state.states_of_slots(selection.num_slots)
            final = self.game.final_score(states, selection.index, leaves.leaf)
            numbers = *numbers[:2], torch.where(leaves.finished, final, numbers[2])
        return numbers

    def _roots(self, search_state: SearchState, games: Tensor) -> Nodes:
        first = games * search_state.tree.num_nodes
        return nodes_at(search_state.tree, first + ROOT, first)[0]

    def result(self, search_state: SearchState, games: Tensor) -> SearchResult:
        """Returns the results so far of some games (int64 [K], ascending)."""
        fast = kernels.module_for("roots", games.device) if self.settings.algorithm == "gumbel" else None
        if fast is not None:
            return SearchResult(*fast.result(search_state, games, self.settings), search_state=search_state)
        nodes = self._roots(search_state, games)
        if self.settings.algorithm == "puct":
            noisy = replace(nodes, prior=search_state.root_prior[games])
            policy = puct.visit_policy(noisy, self.settings, search_state.forced[games])
            action, value = puct.best_moves(nodes, self.settings), nodes.mean
        else:
            logits = gumbel.improved_logits(nodes, self.settings)
            policy = torch.softmax(logits, dim=1)
            new = torch.where(nodes.is_open, nodes.visits - search_state.kept_visits[games], -1.0)
            is_best = new == new.amax(1, keepdim=True)
            action = torch.where(is_best, logits + search_state.gumbel[games], -torch.inf).argmax(1)
            value = (policy * gumbel.completed_values(nodes)).sum(1)
        value = torch.where(search_state.tree.terminal[games, ROOT], nodes.node_value, value)
        return SearchResult(nodes.visits.to(torch.int32), policy, value, nodes.prior, action, search_state)

    def advance(self, search_state: SearchState, games: Tensor, actions: Tensor, states: Any) -> None:
        """Makes the child by the played action the root, in some games: games, actions int64 [K]. states: the root
        states of all games after the moves. Except on the CPU, games with an action below 0 stay unchanged."""
        search_state.states = states
        if self.settings.keep_tree:
            keep_subtree_(search_state.tree, games, actions, search_state.deepest)
        else:
            stays = None if host_read_is_free(actions) else actions < 0
            reset_(search_state.tree, games, search_state.deepest, stays)

    def reset_trees(self, search_state: SearchState, games: Tensor, states: Any) -> None:
        """Empties the trees of games (int64 [K]) that were replaced. states: the root states of all games."""
        search_state.states = states
        reset_(search_state.tree, games, search_state.deepest)


# The parts of a step after the selection


def _to_evaluate(selection: Selection, leaves: LeafStates) -> Tensor | None:
    """Returns the indices of the leaves to evaluate, those that need the network: int64 [n], None for all.

    On a CPU oneDNN compiles a convolution for each batch size, which takes as long as running it, and caches only some.
    So a few other leaves fill the batch up to one of a few sizes."""
    is_known = selection.is_terminal | leaves.repeats | leaves.finished
    number = len(is_known) - int(is_known.sum())
    step = 1 if number <= 16 else 8 if number <= 256 else 32
    rounded = -(-number // step) * step
    if rounded >= len(is_known):
        return None
    return is_known.to(torch.uint8).sort(stable=True).indices[:rounded]


def step_leaves(game: Game, search_state: SearchState, selection: Selection) -> LeafStates:
    """Plays the selected move of each simulation; the result is undefined where `selection.is_terminal`."""
    tree, states = search_state.tree, search_state.states_of_slots(selection.num_slots)
    words = tree.words.flatten(0, 1)
    path = SearchPath(selection.index, selection.path, selection.depth, words, tree.action.view(-1))
    return game.step_leaves(states, path, tree.at("words", selection.last), selection.action)


def expand_and_backup(
    search_state: SearchState, selection: Selection, leaves: LeafStates, prior: Tensor, value: Tensor, *score: Tensor
) -> None:
    """Writes the new nodes, marks moves that repeat a position as ILLEGAL, and counts and backs up the simulations.

    prior: float32 [K, A], value: float32 [K], the network's, for the side to move at the leaf; finished positions get
    their result instead, others at least what is certain. score: float32 [K], the network's or the finished board's, if
    the tree keeps scores. A simulation whose move repeats a position backs up the mean value and score that the move's
    node had before."""
    fast = kernels.module_for("tree", value.device)
    if fast is not None:
        fast.expand_and_backup(search_state, selection, leaves, prior, value, *score)
        return
    tree, games, parent = search_state.tree, selection.games(search_state.num_games), selection.last
    first = games * tree.num_nodes
    repeats = leaves.repeats & ~selection.is_terminal
    stays = selection.is_terminal | repeats
    is_new = selection.is_used & ~stays
    rank = _rank(selection, is_new, search_state.num_games)
    node = torch.where(is_new, ROOT + tree.size[games] + rank, NULL_NODE)
    tree.size.index_add_(0, games, is_new.to(torch.int64))
    value = torch.where(leaves.finished, leaves.result, torch.maximum(value, leaves.result))
    _expand(tree, first, node, selection, leaves, prior, value)
    _close(tree, first, selection, repeats & selection.is_used)
    visits = tree.at("visits", parent).clamp(min=1)
    mean = tree.at("value_sum", parent) / visits
    value = torch.where(selection.is_terminal, tree.at("value", parent), torch.where(repeats, mean, value))
    # Every visit of a finished position adds the same score, so there the mean is that score.
    score = [torch.where(stays, tree.at("score_sum", parent) / visits, one) for one in score]
    path = torch.cat([selection.path, first.unsqueeze(1)], dim=1)
    path = path.scatter(1, (selection.depth + 1).unsqueeze(1), (first + node).unsqueeze(1))
    path = torch.where(selection.is_used.unsqueeze(1), path, first.unsqueeze(1))
    depth = torch.where(stays, selection.depth, selection.depth + 1)
    # A GPU adds in any order, so it backs up one slot after another: the sums of a tree are reproducible.
    step = len(path) if host_read_is_free(path) else search_state.num_games
    for start in range(0, len(path), step):
        slot = slice(start, start + step)
        backup(tree, path[slot], depth[slot], value[slot], *(one[slot] for one in score))
    ended = torch.stack([selection.is_terminal | (leaves.finished & ~repeats), repeats])
    search_state.exact_leaves += (ended & selection.is_used).sum(1)
    search_state.done.index_add_(0, games, selection.is_used.to(torch.int64))
    search_state.deepest.scatter_reduce_(0, games, torch.where(selection.is_used, depth, 0), "amax")


def _rank(selection: Selection, is_new: Tensor, num_games: int) -> Tensor | int:
    """Returns how many simulations of the same tree in earlier slots make a new node: bool [K] -> int64 [K]."""
    if selection.num_slots == 1:
        return 0
    new = torch.zeros(selection.num_slots * num_games, dtype=torch.int64, device=is_new.device)
    new = new.index_put((selection.index,), is_new.to(torch.int64)).view(selection.num_slots, num_games)
    return (new.cumsum(0) - new).view(-1).index_select(0, selection.index)


def _expand(
    tree: Tree, first: Tensor, node: Tensor, selection: Selection, leaves: LeafStates, prior: Tensor, value: Tensor
) -> None:
    """Writes the new nodes (int64 [K], NULL_NODE for none) and links them to their parents."""
    new, parent = (first + node,), selection.last
    tree.words.flatten(0, 1).index_put_(new, leaves.words)
    tree.children.flatten(0, 1).index_put_(new, leaves.legal.to(torch.int32) + ILLEGAL)  # UNVISITED is ILLEGAL + 1
    tree.prior.flatten(0, 1).index_put_(new, prior)
    tree.value.view(-1).index_put_(new, value)
    tree.terminal.view(-1).index_put_(new, leaves.finished)
    tree.parent.view(-1).index_put_(new, (parent - first).to(torch.int32))
    tree.action.view(-1).index_put_(new, selection.action.to(torch.int32))
    owner = torch.where(node == NULL_NODE, first, parent)
    tree.children.flatten(0, 1).index_put_((owner, selection.action), node.to(torch.int32))


def _close(tree: Tree, first: Tensor, selection: Selection, repeats: Tensor) -> None:
    """Marks the moves that repeat a position (bool [K]) as ILLEGAL, with prior 0."""
    if host_read_is_free(repeats) and not bool(repeats.any()):
        return
    place = (torch.where(repeats, selection.last, first), selection.action)
    tree.children.flatten(0, 1).index_put_(place, torch.full_like(selection.action, ILLEGAL, dtype=torch.int32))
    tree.prior.flatten(0, 1).index_put_(place, torch.zeros_like(selection.action, dtype=torch.float32))


def sample_moves(policy: Tensor, temperature: float | Tensor, keys: Tensor, places: Tensor | None = None) -> Tensor:
    """Returns moves drawn in proportion to policy^(1 / temperature), the best ones at temperature 0: int64 [K].

    policy: float32 [K, A]. temperature: one, or [K]. keys: int64 [K]. places: `Game.noise_places`."""
    is_one = not isinstance(temperature, Tensor)
    heat = torch.full_like(keys, temperature, dtype=torch.float32) if is_one else temperature.to(torch.float32)
    logits = torch.log(policy) / heat.clamp(min=1e-4).unsqueeze(1)
    noise = rng.gumbel(keys, policy.shape[1], places) * (heat > 0).unsqueeze(1)
    return (logits - logits.amax(1, keepdim=True) + noise).argmax(1)
