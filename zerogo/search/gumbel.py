"""Gumbel root selection with sequential halving, and the improved policy (Danihelka et al. 2022)."""

import math
from collections import Counter
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from zerogo.config import SearchConfig
from zerogo.kernels.shared import TINY
from zerogo.search.tree import Nodes

Table = Callable[..., tuple[int, ...]]  # (moves considered, budget, ...) -> a number for each simulation


@cache
def considered_visits(num_considered: int, budget: int) -> tuple[int, ...]:
    """Returns for each of n = `budget` simulations how many new visits the move to try must have: sequential halving of
    m = `num_considered` moves.

    Every phase gives each of its moves max(1, n / (ceil(log2 m) * moves)) visits, then halves the number of moves, but
    never below 2."""
    if num_considered <= 1:
        return tuple(range(budget))
    phases = math.ceil(math.log2(num_considered))
    visits, schedule = [0] * num_considered, []
    moves = num_considered
    while len(schedule) < budget:
        for _ in range(max(1, budget // (phases * moves))):
            schedule.extend(visits[:moves])
            for move in range(moves):
                visits[move] += 1
        moves = max(2, moves // 2)
    return tuple(schedule[:budget])


@cache
def phase_ends(num_considered: int, budget: int, leaves: int) -> tuple[int, ...]:
    """Returns for each simulation how many may be done by the end of the step that begins with it.

    Each remaining move gets one more visit, so that no simulation needs the result of another one of its step. Only if
    that would use fewer than half of the leaves, the step may go on to the end of the phase, when moves are dropped."""
    # In a phase each number of visits occurs once for each of its moves.
    moves_by_visits = Counter(considered_visits(num_considered, budget))
    ends: list[int] = []
    done = start = 0
    for visits, moves in moves_by_visits.items():
        done += moves
        if 2 * moves >= leaves or moves_by_visits[visits + 1] < moves:
            ends += [done] * (done - start)
            start = done
    return tuple(ends)


@cache
def _rows(table: Table, max_considered: int, budget: int, width: int, device: torch.device, *more: int) -> Tensor:
    """Returns a table for 0 to max_considered moves: int32 [max_considered + 1, width], 0 beyond the budget."""
    rows = [(*table(moves, budget, *more), *(0,) * (width - budget)) for moves in range(max_considered + 1)]
    return torch.tensor(rows, dtype=torch.int32, device=device)


def by_simulation(
    is_open: Tensor, budgets: Tensor, max_considered: int, width: int, table: Table, *more: int
) -> Tensor:
    """Returns the rows of a table for each game's number of open moves and budget: bool [K, A], int64 [K] -> int32 [K,
    width]. more: the table's further arguments."""
    number = is_open.sum(1).clamp(max=max_considered)
    result = torch.zeros(len(budgets), width, dtype=torch.int32, device=budgets.device)
    for budget in torch.unique(budgets).tolist():
        rows = _rows(table, max_considered, budget, width, budgets.device, *more)
        result = torch.where((budgets == budget).unsqueeze(1), rows[number], result)
    return result


def completed_values(nodes: Nodes) -> Tensor:
    """Returns the moves' values, with the node's mixed value for unvisited moves: float32 [K, A], the node's view.

    v_mix = (node_value + N * sum(prior * value) / sum(prior)) / (1 + N). The sums run over the visited moves, and N is
    the number of their visits. Sums are in float64, so that their order does not change them."""
    is_visited = nodes.visits > 0
    prior = torch.where(is_visited, nodes.prior.clamp(min=TINY), 0.0)
    number = nodes.visits.sum(1)
    total, mass = (numbers.sum(1, dtype=torch.float64).to(torch.float32) for numbers in (prior * nodes.value, prior))
    average = total / mass.clamp(min=TINY)
    mixed = (nodes.node_value + number * average) / (1.0 + number)
    return torch.where(is_visited, nodes.value, mixed.unsqueeze(1))


def sigma(values: Tensor, nodes: Nodes, settings: SearchConfig) -> Tensor:
    """Returns values on the scale of logits, (c_visit + most visits of a child) * c_scale * value: float32 [K, A].

    As in MiniZero values are from -1 to 1; mctx rescales them to 0 to 1."""
    max_visits = nodes.visits.amax(1, keepdim=True)
    return (settings.c_visit + max_visits) * settings.c_scale * values


def improved_logits(nodes: Nodes, settings: SearchConfig) -> Tensor:
    """Returns logit + sigma(completed value): float32 [K, A], -inf where a move may not be chosen; at the root its
    softmax is the policy to be learned."""
    logits = torch.where(nodes.is_open, torch.log(nodes.prior.clamp(min=TINY)), -torch.inf)
    return logits + sigma(completed_values(nodes), nodes, settings)


def interior_scores(nodes: Nodes, settings: SearchConfig) -> Tensor:
    """Returns the improved policy minus the share of visits: float32 [K, A], -inf where closed. Choosing the argmax
    makes the shares of visits follow the policy.

    Simulations under way count as visits and need no virtual loss, because one more visit already moves the choice
    elsewhere. The softmax of the improved logits is prior * exp(sigma - the highest), normalised, without
    logarithms."""
    scaled = torch.where(nodes.is_open, sigma(completed_values(nodes), nodes, settings), -torch.inf)
    weight = torch.exp(scaled - scaled.amax(1, keepdim=True)) * nodes.prior.clamp(min=TINY)
    policy = weight / weight.sum(1, keepdim=True, dtype=torch.float64).to(torch.float32)
    visits = nodes.visits if nodes.under_way is None else nodes.visits + nodes.under_way
    share = visits / (1.0 + visits.sum(1, keepdim=True))
    return torch.where(nodes.is_open, policy - share, -torch.inf)


def root_scores(
    nodes: Nodes, gumbel: Tensor, new_visits: Tensor, scheduled: Tensor, settings: SearchConfig, collided: Tensor | None
) -> Tensor:
    """Returns gumbel + logit + sigma: float32 [K, A], -inf for moves without the scheduled number of new visits.

    gumbel, new_visits: [K, A]; scheduled: [K]. If no open move has that number (because a move was closed meanwhile),
    all open moves compete. collided: bool [K, A], moves that wait until the others with that number are visited. Every
    move of a phase gets its visit, so the order does not matter."""
    score = improved_logits(nodes, settings) + gumbel
    is_due = nodes.is_open & (new_visits == scheduled.unsqueeze(1))
    if collided is not None:
        others = is_due & ~collided
        is_due = torch.where(others.any(1, keepdim=True), others, is_due)
    return torch.where(is_due | ~is_due.any(1, keepdim=True), score, -torch.inf)
