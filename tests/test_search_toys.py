"""PUCT and Gumbel on toy games with known values, against an independent plain search and against perfect play."""

import dataclasses
import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import toys
from searches import BOTH, GUMBEL, PUCT, check_links, nodes_of, searched
from tables import tables
from toys import GAMES, Toy

from zerogo.config import SearchConfig
from zerogo.search import Search, puct
from zerogo.search.gumbel import considered_visits, phase_ends
from zerogo.search.tree import ILLEGAL, NULL_NODE, ROOT, Tree

RICH, BEST_BOUND = dataclasses.replace(PUCT, c_puct_variance=0.85, c_puct_log=0.3), tables("search")["best bound"]


def search(toy: Toy, settings: SearchConfig, **evaluator: bool) -> Search:
    return Search(toy.evaluator(**evaluator), settings, game=toy, keeps_scores=True)


@BOTH
@pytest.mark.parametrize("leaves", [1, 16])
def test_converges_to_the_true_value(settings: SearchConfig, leaves: int) -> None:
    """With an exact evaluator and an even prior, in all games at once; the move to play keeps the value, too."""
    toy, starts = toys.union(*GAMES.values())
    true = toy.exact[starts]
    found = search(toy, dataclasses.replace(settings, leaves=leaves), even=True).run(toy.new(starts), 600)
    assert found.search_state.done.tolist() == [600] * len(starts)
    errors = (found.value - true).abs()
    assert errors.max() < 0.2, dict(zip(GAMES, errors.tolist(), strict=True))
    assert not toy.repeating[starts, found.action].any()
    assert torch.equal(-toy.exact[toy.after[starts, found.action]], true)


# An independent plain search, one game at a time


class PlainNode:
    def __init__(self, toy: Toy, state: int) -> None:
        self.state, self.children, self.visits = state, {}, 1
        self.over = bool(~toy.result[state].isnan())
        self.own = float(toy.result[state] if self.over else toy.guess[state])
        self.sum, self.squares, self.points = self.own, self.own**2, float(toy.points[state])
        self.closed: set[int] = set()
        legal = [a for a, after in enumerate(toy.after[state].tolist()) if after >= 0]
        weights = {a: float(toy.prior[state, a]) for a in legal}
        self.prior = {a: math.floor(weight / sum(weights.values()) * 2**20) / 2**20 for a, weight in weights.items()}

    def open(self) -> list[int]:
        return [a for a in self.prior if a not in self.closed]


def plain_values(node: PlainNode) -> dict[int, float]:
    """Returns the value of each open move, the mixed one of Danihelka et al. 2022 where it has no visit."""
    visited = {a: child for a, child in node.children.items() if a not in node.closed}
    q = {a: -child.sum / child.visits for a, child in visited.items()}
    number, mass = sum(child.visits for child in visited.values()), sum(node.prior[a] for a in visited)
    average = sum(node.prior[a] * q[a] for a in visited) / mass if visited else 0.0
    mixed = (node.own + number * average) / (1 + number)
    return {a: q.get(a, mixed) for a in node.open()}


def plain_logits(node: PlainNode, settings: SearchConfig) -> dict[int, float]:
    """Returns the improved logits of Danihelka et al. 2022 by open move: logit + sigma(completed value)."""
    most_visits = max((child.visits for a, child in node.children.items() if a not in node.closed), default=0)
    scale = (settings.c_visit + most_visits) * settings.c_scale
    return {a: math.log(node.prior[a]) + scale * value for a, value in plain_values(node).items()}


def plain_policy(node: PlainNode, settings: SearchConfig) -> dict[int, float]:
    """Returns the improved policy, by open move."""
    logit = plain_logits(node, settings)
    weight = {a: math.exp(value - max(logit.values())) for a, value in logit.items()}
    return {a: one / sum(weight.values()) for a, one in weight.items()}


def plain_choice(node: PlainNode, settings: SearchConfig, is_root: bool) -> int:
    """The formulas of PUCT (Silver et al. 2017) and of Gumbel (Danihelka et al. 2022) inside the tree, once more."""
    visited = {a: child for a, child in node.children.items() if a not in node.closed}
    q, visits = {a: -c.sum / c.visits for a, c in visited.items()}, {a: c.visits for a, c in visited.items()}
    if settings.algorithm == "puct":
        mean, weight = node.sum / node.visits, node.visits - 1
        reduction = settings.fpu_reduction_root if is_root else settings.fpu_reduction
        urgency = mean - reduction * math.sqrt(sum(node.prior[a] for a in visited))
        spread = ((mean**2 + 0.16) * 2 + node.squares) / (node.visits + 1) - mean**2 if weight else 0.16
        factor = settings.c_puct + settings.c_puct_log * math.log(1 + weight / settings.c_puct_base)
        explore = factor * (1 + settings.c_puct_variance * (math.sqrt(spread) / 0.4 - 1))
        explore *= math.sqrt(weight + 0.01)
        score = {a: q.get(a, urgency) + explore * node.prior[a] / (1 + visits.get(a, 0)) for a in node.open()}
    else:
        number, policy = sum(visits.values()), plain_policy(node, settings)
        score = {a: policy[a] - visits.get(a, 0) / (1 + number) for a in node.open()}
    return max(score, key=lambda a: score[a])


def plain_simulation(toy: Toy, root: PlainNode, settings: SearchConfig, first: int | None) -> None:
    node, path, action = root, [root], first
    while not node.over:
        action = plain_choice(node, settings, node is root) if action is None else action
        if action not in node.children:
            break
        node, action = node.children[action], None
        path.append(node)
    value, points = node.own, float(toy.points[node.state])
    if not node.over:
        if toy.repeating[node.state, action]:
            node.closed.add(action)
            value, points = node.sum / node.visits, node.points / node.visits
        else:
            child = node.children[action] = PlainNode(toy, int(toy.after[node.state, action]))
            value, points = child.own, child.points
            child.visits, child.sum, child.squares, child.points = 0, 0.0, 0.0, 0.0
            path.append(child)
    for back in reversed(path):
        back.visits, back.sum, back.squares = back.visits + 1, back.sum + value, back.squares + value**2
        back.points += points
        value, points = -value, -points


@pytest.mark.parametrize("settings", [PUCT, RICH, GUMBEL], ids=["puct", "rich", "gumbel"])
def test_a_search_is_the_plain_one(settings: SearchConfig) -> None:
    """Node by node down to the leaves, from every state of the first two plies, with budgets of their own, and in what
    comes of it; Gumbel's root follows its table of visits. `test_search_kernels` holds torch against the kernels."""
    toy, firsts = toys.union(*GAMES.values())
    states = [*firsts, *(state for first in firsts for state in toy.after[first].tolist())]
    starts = [state for state in states if state >= 0 and toy.result[state].isnan()]
    budgets = [60 - 23 * (k % 2) for k in range(len(starts))]
    result = search(toy, settings, exact=False).run(toy.new(starts), torch.tensor(budgets))
    for game, (start, budget) in enumerate(zip(starts, budgets, strict=True)):
        root = PlainNode(toy, start)
        root.closed = {a for a in root.prior if toy.repeating[start, a]}  # at the root they are known beforehand
        total = sum(root.prior[a] for a in root.open())
        root.prior = {a: p / total for a, p in root.prior.items()}
        if settings.algorithm == "gumbel":
            plain_gumbel(toy, root, settings, budget)
            policy = plain_policy(root, settings)
            value = sum(policy[a] * q for a, q in plain_values(root).items())
        else:
            for _ in range(budget):
                plain_simulation(toy, root, settings, None)
            policy, value = {a: child.visits / budget for a, child in root.children.items()}, root.sum / root.visits
        compare(result.search_state.tree, game, ROOT, root)
        expected = [policy.get(a, 0.0) for a in range(result.policy.shape[1])]
        assert result.policy[game].tolist() == pytest.approx(expected, abs=1e-4)
        assert float(result.value[game]) == pytest.approx(value, abs=1e-4)


def plain_gumbel(toy: Toy, root: PlainNode, settings: SearchConfig, budget: int) -> None:
    """Sequential halving without noise (Danihelka et al. 2022): phases over survivors, best by logit + sigma(q)."""

    def merit(action: int) -> float:
        return plain_logits(root, settings)[action]

    moves = root.open()
    number = min(settings.max_considered, len(moves))
    survivors = sorted(moves, key=merit, reverse=True)[:number]
    phases, spent = math.ceil(math.log2(number)) if number > 1 else 1, 0
    while spent < budget:
        each = max(1, budget // (phases * len(survivors)))
        for _ in range(each):
            waiting = list(survivors)
            while waiting and spent < budget:
                best = max(waiting, key=merit)
                waiting.remove(best)
                plain_simulation(toy, root, settings, best)
                spent += 1
        survivors = sorted(survivors, key=merit, reverse=True)[: max(2, len(survivors) // 2)]


def compare(tree: Tree, game: int, node: int, plain: PlainNode) -> None:
    assert int(tree.words[game, node, 0]) == plain.state
    assert int(tree.visits[game, node]) == plain.visits
    assert float(tree.value_sum[game, node]) == pytest.approx(plain.sum, abs=1e-4)
    assert float(tree.square_sum[game, node]) == pytest.approx(plain.squares, abs=1e-4)
    assert float(tree.score_sum[game, node]) == pytest.approx(plain.points, abs=1e-3)
    children = tree.children[game, node].tolist()
    if not plain.over:
        assert {a for a, child in enumerate(children) if child != ILLEGAL} == set(plain.open())
    assert {a for a, child in enumerate(children) if child > NULL_NODE} == set(plain.children)
    for action, child in plain.children.items():
        compare(tree, game, children[action], child)


@pytest.mark.parametrize("budget", [0, 1, 2, 7, 8, 16, 50, 64, 200])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 8, 16])
def test_phases_of_sequential_halving(number: int, budget: int) -> None:
    """Each phase tries fewer moves, all of them equally often; `plain_gumbel` has the order itself."""
    order, ends = list(considered_visits(number, budget)), phase_ends(number, budget, leaves=1000)
    assert len(order) == len(ends) == budget
    moves = [order.count(visits) for visits in order]
    for index, (end, once) in enumerate(zip(ends, phase_ends(number, budget, leaves=4), strict=True)):
        assert index < end <= budget and len(set(moves[index:end])) == 1
        assert end == budget or moves[end] < moves[index]  # fewer moves go on
        assert once == (budget - order[::-1].index(order[index]) if moves[index] >= 2 else end)  # one visit for each


@pytest.mark.parametrize(("keep", "leaves"), [(True, 1), (False, 1), (True, 2), (True, 4), (True, 16)])
def test_gumbel_spends_its_budget_on_the_considered_moves(keep: bool, leaves: int) -> None:
    toy = toys.tic_tac_toe()
    settings = dataclasses.replace(GUMBEL, max_considered=4, keep_tree=keep, leaves=leaves)
    found = search(toy, settings, exact=False).run(toy.new([0] * 20), 40, explore=True)
    assert found.visits.sum(1).tolist() == [40] * 20
    assert ((found.visits > 0).sum(1) == 4).all()
    top = found.visits.sort(1, descending=True).values[:, :4]
    assert top.tolist() == [[15, 15, 5, 5]] * 20  # 40 = 2 phases: 5 each for four moves, 10 each for two
    assert found.visits.gather(1, found.action.unsqueeze(1)).eq(15).all()
    assert len({tuple(row) for row in found.visits.tolist()}) > 5  # each game has noise of its own


def test_lower_bounds_are_those_written_by_hand() -> None:
    """Four values of mean 0.5 and mean square 0.375: variance 0.125, with a prior of weight 1 / 4^2 it is 0.1404; they
    count as 4.0625^2 / (4 + 0.0625^2) = 4.122, so the bound is 0.5 - 5 * sqrt(0.1404 / 4.122)."""
    facts = {"prior": [0.2] * 5, "is_open": [True] * 4 + [False], "value": [0.5, 0.5, 0.5, 0.0, 0.5]}
    node = nodes_of(**facts, visits=[4, 4, 100, 0, 4], squares=[1.5, 1.0, 25.0, 0.0, 1.5], total=113)
    bounds = puct.lower_bounds(node)
    assert bounds.dtype == torch.float32 and bounds.shape == (1, 5)
    # Equal values are not known for certain while they are few.
    assert bounds[0].tolist() == pytest.approx([-0.42275, 0.5 - 0.3055, 0.5, -math.inf, -math.inf], abs=1e-3)


@pytest.mark.parametrize(("visits", "value", "best"), BEST_BOUND.values(), ids=BEST_BOUND)
def test_the_move_played_has_the_best_bound(visits: list[int], value: list[float], best: int) -> None:
    squares = [number * mean**2 for number, mean in zip(visits, value, strict=True)]
    node = nodes_of(prior=[0.4, 0.3, 0.3], visits=visits, value=value, squares=squares, total=sum(visits) + 1)
    assert puct.best_moves(node, dataclasses.replace(PUCT, lcb=True)).tolist() == [best]
    assert puct.best_moves(node, PUCT).tolist() == [0]


def test_forced_playouts_are_owed_to_visited_moves() -> None:
    settings = dataclasses.replace(PUCT, forced_playouts=2.0)
    node = nodes_of(prior=[0.8, 0.1, 0.1], visits=[30, 1, 0], value=[0.9, -0.9, 0.0], total=32, mean=0.8)
    score = puct.scores(node, settings, torch.full((1,), 2.0))[0]
    # sqrt(2 * 0.1 * 31) = 2.49 visits are owed to the second, it has 1; the third has none yet: nothing is owed.
    assert int(score.argmax()) == 1 and float(score[2]) < 10
    assert int(puct.scores(node, settings)[0].argmax()) != 1


def test_cheap_searches_force_nothing() -> None:
    """Only searches that explore force playouts, and prune: in one batch, games that do not search as without."""
    toy = toys.tic_tac_toe("X.......O")
    settings = dataclasses.replace(PUCT, forced_playouts=2.0, dirichlet_share=0.0, root_temperature=1.0)
    plain = search(toy, dataclasses.replace(settings, forced_playouts=0.0)).run(toy.new([0] * 4), 60, explore=True)
    explores = torch.tensor([True, False, True, False])
    made = search(toy, settings)
    search_state = made.init(toy.new([0] * 4), 60)
    made.begin(search_state, torch.arange(4), 60, 0, explore=explores)
    made.run_simulations(search_state)
    found = made.result(search_state, torch.arange(4))
    assert torch.equal(found.visits[~explores], plain.visits[~explores])
    assert torch.equal(found.policy[~explores], plain.policy[~explores])
    assert not torch.equal(found.visits[explores], plain.visits[explores])


def test_pruning_takes_only_what_exploration_paid() -> None:
    settings = dataclasses.replace(PUCT, forced_playouts=2.0)
    node = nodes_of(prior=[0.5, 0.2, 0.2, 0.1], visits=[50, 9, 30, 1], value=[0.5, -0.5, 0.48, 0.0], total=91)
    policy = puct.visit_policy(node, settings, torch.full((1,), 2.0))[0]
    explore = 1.1 * math.sqrt(90.01)
    best = 0.5 + explore * 0.5 / 51
    kept = [50.0, math.ceil(explore * 0.2 / (best + 0.5) - 1), min(30, math.ceil(explore * 0.2 / (best - 0.48) - 1))]
    kept.append(min(1, math.ceil(explore * 0.1 / best - 1)))
    kept = [weight if weight >= min(1.0, 50 / 64) else 0.0 for weight in kept]
    assert policy.tolist() == pytest.approx([weight / sum(kept) for weight in kept], abs=1e-5)
    assert float(policy.sum()) == pytest.approx(1.0) and kept[1] < 9


def test_root_noise_sums_to_one_on_legal_moves_only() -> None:
    legal = torch.rand(200, 30) < 0.4
    legal[:, 0] = True
    prior = torch.rand(200, 30) * legal
    prior = prior / prior.sum(1, keepdim=True)
    noisy = puct.noisy_prior(prior, legal, torch.arange(200), PUCT)
    assert torch.allclose(noisy.sum(1), torch.ones(200), atol=1e-5)
    assert (noisy[~legal] == 0).all() and (noisy[legal] > 0).all()
    quiet = dataclasses.replace(PUCT, dirichlet_share=0.0, root_temperature=1.0)
    assert torch.allclose(puct.noisy_prior(prior, legal, torch.arange(200), quiet), prior, atol=1e-6)
    many = puct.noisy_prior(prior[:1].expand(4000, -1), legal[:1].expand(4000, -1), torch.arange(4000), PUCT)
    heated = prior[0].clamp(min=1e-20) ** (1 / 1.1) * legal[0]
    # The noise's mean is its alpha's share: half even, half on moves whose prior is above the mean; so no legal move
    # gets less than 1/8 of even.
    least = 0.75 * heated / heated.sum() + 0.25 * 0.5 * legal[0] / legal[0].sum()
    assert (many.mean(0) >= least - 0.01).all()


def snapshot(tree: Tree, game: int, node: int) -> tuple:
    """Returns a subtree without its numbers: everything that a node holds, and its children by action."""
    names = "words", "visits", "value_sum", "square_sum", "score_sum", "value", "prior", "terminal"
    children = tree.children[game, node].tolist()
    own = [getattr(tree, name)[game, node].tolist() for name in names] + [[min(child, 0) for child in children]]
    return (own, {action: snapshot(tree, game, child) for action, child in enumerate(children) if child > NULL_NODE})


@BOTH
def test_the_kept_subtree_is_that_of_the_old_tree(settings: SearchConfig) -> None:
    toy = toys.tic_tac_toe()
    states = [0, *(int(after) for after in toy.after[0])]
    made = search(toy, settings, exact=False)
    found = made.run(toy.new(states), 60, explore=True)
    children = found.search_state.tree.children[torch.arange(10), ROOT, found.action].tolist()
    before = [snapshot(found.search_state.tree, game, child) for game, child in enumerate(children)]
    after = toy.after[states, found.action]
    made.advance(found.search_state, torch.arange(10), found.action, toy.new(after.tolist()))
    for game in range(10):
        assert snapshot(found.search_state.tree, game, ROOT) == before[game]
        check_links(found.search_state.tree, game)
    kept = found.search_state.tree.visits[:, ROOT].clone()
    again = made.run(toy.new(after.tolist()), 60, seed=1, search_state=found.search_state, explore=True)
    assert torch.equal(found.search_state.tree.visits[:, ROOT], kept + 60)
    assert torch.equal(again.visits.sum(1), kept - 1 + 60)
    for game in range(10):
        check_links(found.search_state.tree, game)


@pytest.mark.parametrize("way", ["numba", "plain"])
def test_a_tree_that_would_overflow_is_dropped_and_counted(way: str, use: Callable[[str], None]) -> None:
    use(way)
    toy = toys.tic_tac_toe()
    made = search(toy, PUCT, exact=False)
    search_state = made.init(toy.new([0, 0]), 20)
    for turn, (budget, overflows, visits) in enumerate([(20, 0, 21), (19, 0, 40), ([2, 1], 1, [3, 41])]):
        searched(made, None, torch.tensor(budget).expand(2), search_state, seed=turn, steps=20)
        assert int(search_state.overflowed) == overflows
        assert search_state.tree.visits[:, ROOT].tolist() == (visits if isinstance(visits, list) else [visits] * 2)


@pytest.mark.parametrize("keep", [True, False])
@BOTH
def test_root_noise_stays_out_of_the_tree(settings: SearchConfig, keep: bool) -> None:
    """The tree holds the evaluator's priors wherever it goes, so a search without noise finds the same."""
    toy = toys.tic_tac_toe()
    settings = dataclasses.replace(settings, keep_tree=keep)
    made = search(toy, settings, exact=False)
    found = made.run(toy.new([0] * 4), 50, explore=True)
    assert torch.allclose(found.prior, toy.prior[:1] / toy.prior[:1].sum(), atol=1e-5)
    made.advance(found.search_state, torch.arange(4), found.action, toy.new(toy.after[0, found.action].tolist()))
    made.begin(found.search_state, torch.arange(4), 10, seed=1, explore=False)
    tree, after = found.search_state.tree, toy.after[0, found.action]
    expected = torch.where(toy.after[after] >= 0, toy.prior[after], 0.0)
    assert torch.allclose(tree.prior[:, ROOT], expected / expected.sum(1, keepdim=True), atol=1e-5)
    assert torch.equal(found.search_state.root_prior, tree.prior[:, ROOT]) and (found.search_state.gumbel == 0).all()


def test_the_evaluator_is_spared_what_is_known() -> None:
    """Finished and closed leaves are counted, and on the host they are no evaluations."""
    toy = GAMES["illegal moves among the good ones"]
    seen = []
    inner = toy.evaluator(exact=False)

    def evaluate(leaves: toys.Positions, legal: torch.Tensor, key: torch.Tensor) -> SimpleNamespace:
        seen.append(len(leaves.index))
        return inner(leaves, legal, key)

    found = Search(evaluate, PUCT, game=toy).run(toy.new([0, 1, 2]), 100)
    assert sum(seen) - 3 + int(found.search_state.exact_leaves.sum()) == 300
    assert (found.search_state.exact_leaves > 0).all()
