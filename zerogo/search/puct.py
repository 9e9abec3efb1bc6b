"""PUCT (Silver et al. 2017) with KataGo's first-play urgency, shaped root noise, forced playouts and their pruning,
variance-scaled exploration, and lower confidence bounds for the move to play."""

import torch
from torch import Tensor

from zerogo.board import rng
from zerogo.config import SearchConfig
from zerogo.kernels.shared import INVERSE_PRIOR_STDEV, VARIANCE_PRIOR, VARIANCE_WEIGHT
from zerogo.search.tree import Nodes

DIRICHLET_CONCENTRATION = 10.83  # sum of the Dirichlet noise's alpha (KataGo)
# Lower bounds (KataGo): standard deviations below the mean; the largest variance of values in [-1, 1]; the share of the
# most visits that a move must have to be played for its bound; its fewest visits (zerogo's own number).
BOUND_DEVIATIONS, BOUND_VARIANCE, BOUND_SHARE, BOUND_VISITS = 5.0, 1.0, 0.15, 3


def exploration(nodes: Nodes, settings: SearchConfig) -> Tensor:
    """Returns the prior's weight, c_puct(W) * sqrt(W + 0.01), with W the children's visits (KataGo): float32 [K].
    c_puct_variance is how strongly c_puct follows the spread of the node's values."""
    below = _visits_below(nodes)
    c_puct = settings.c_puct
    if settings.c_puct_log:
        c_puct = c_puct + settings.c_puct_log * torch.log1p(below / settings.c_puct_base)
    if settings.c_puct_variance:
        c_puct = c_puct * _spread(nodes, settings.c_puct_variance)
    return c_puct * torch.sqrt(below + 0.01)


def _spread(nodes: Nodes, scale: float) -> Tensor:
    """Returns 1 + scale * (sigma / 0.40 - 1), by which c_puct is multiplied: float32 [K].

    sigma: the standard deviation of the node's simulation values (KataGo), without those under way. It is estimated as
    if 0.40 had been observed with weight 2, and is 0.40 if the node has only its own evaluation. The sum of squares is
    bounded from below by the mean, against rounding."""
    square = nodes.mean * nodes.mean
    total = torch.maximum(nodes.total_squares, nodes.total * square)
    variance = ((square + VARIANCE_PRIOR) * VARIANCE_WEIGHT + total) / (nodes.total + (VARIANCE_WEIGHT - 1.0)) - square
    variance = torch.where(nodes.total > 1, variance.clamp(min=0.0), VARIANCE_PRIOR)
    return 1.0 + scale * (torch.sqrt(variance) * INVERSE_PRIOR_STDEV - 1.0)


def _visits_below(nodes: Nodes) -> Tensor:
    """Returns the node's visits without its own evaluation, simulations under way included: float32 [K]. They are the
    children's visits, and simulations whose move turned out to repeat a position."""
    below = (nodes.total - 1.0).clamp(min=0.0)
    return below if nodes.under_way is None else below + nodes.under_way.sum(1)


def scores(nodes: Nodes, settings: SearchConfig, forced: Tensor | None = None) -> Tensor:
    """Returns the value of choosing each move: float32 [K, A], -inf where it may not be chosen.

    forced: at roots, float32 [K], the k of forced playouts: a visited move is owed sqrt(k * prior * W) visits.

    An unvisited move has its node's value less fpu_reduction * sqrt(prior of the visited moves). A simulation under way
    counts as a visit that leaves the value unchanged (Liu et al., "Watch the unobserved", 2020); counting it as a loss,
    as in KataGo, played much worse (docs/results.md). The sum is in float64, so that the order of the priors does not
    change it."""
    is_root = forced is not None
    reduction = settings.fpu_reduction_root if is_root else settings.fpu_reduction
    is_visited = nodes.visits > 0
    unvisited = nodes.mean
    if reduction:
        visited_mass = (nodes.prior * nodes.visits.clamp(max=1.0)).sum(1, dtype=torch.float64).to(torch.float32)
        unvisited = unvisited - reduction * torch.sqrt(visited_mass)
    value = torch.where(is_visited, nodes.value, unvisited.unsqueeze(1))
    visits = nodes.visits if nodes.under_way is None else nodes.visits + nodes.under_way
    explore = exploration(nodes, settings).unsqueeze(1) * nodes.prior / (1.0 + visits)
    total = value + explore
    if is_root and settings.forced_playouts:
        owed = torch.sqrt(forced.unsqueeze(1) * nodes.prior * _visits_below(nodes).unsqueeze(1))
        total = torch.where(is_visited & (visits < owed), 1e6, total)
    return torch.where(nodes.is_open, total, -torch.inf)


def noisy_prior(
    prior: Tensor, legal: Tensor, keys: Tensor, settings: SearchConfig, places: Tensor | None = None
) -> Tensor:
    """Returns the root prior of a search that explores: float32, bool [B, A], keys int64 [B] -> float32 [B, A].

    Temperature comes first, then Dirichlet noise. Half of its concentration is even over the legal moves, half is in
    proportion to how far the logarithm of the prior exceeds its mean (KataGo), so that noise goes to promising moves on
    a board of any size. places: `Game.noise_places`."""
    tempered = torch.where(legal, prior.clamp(min=1e-20) ** (1.0 / settings.root_temperature), 0.0)
    tempered = tempered / tempered.sum(1, keepdim=True)
    if not settings.dirichlet_share:
        return tempered
    number = legal.sum(1, keepdim=True).to(torch.float32)
    logs = torch.where(legal, torch.log(tempered.clamp(min=1e-20, max=0.01)), 0.0)
    above = torch.where(legal, (logs - logs.sum(1, keepdim=True) / number).clamp(min=0.0), 0.0)
    total = above.sum(1, keepdim=True)
    even = legal.to(torch.float32) / number
    shaped = torch.where(total > 1e-12, 0.5 * even + 0.5 * above / total.clamp(min=1e-12), even)
    noise = rng.dirichlet(keys, DIRICHLET_CONCENTRATION * shaped, places)
    return (1.0 - settings.dirichlet_share) * tempered + settings.dirichlet_share * noise


def visit_policy(nodes: Nodes, settings: SearchConfig, forced: Tensor) -> Tensor:
    """Returns the policy to be learned: float32 [B, A], shares of the visits. Where playouts were forced (float32 [B],
    above 0), forced ones are removed."""
    weight = torch.where(nodes.is_open, nodes.visits, 0.0)
    if settings.forced_playouts:
        weight = torch.where(forced.unsqueeze(1) > 0, _prune_visits(nodes, weight, settings), weight)
    total = weight.sum(1, keepdim=True)
    return torch.where(total > 0, weight / total.clamp(min=1e-9), nodes.prior)


def _prune_visits(nodes: Nodes, weight: Tensor, settings: SearchConfig) -> Tensor:
    """Returns visits without those that exploration alone caused (KataGo's policy target pruning)."""
    merit = weight * (weight - 1.0).clamp(min=0.0) / weight.clamp(min=1.0) + 2.0 * nodes.prior
    best = torch.where(nodes.is_open, merit, -1.0).argmax(1, keepdim=True)
    explore = exploration(nodes, settings).unsqueeze(1)
    selection = nodes.value + explore * nodes.prior / (1.0 + nodes.visits)
    gap = selection.gather(1, best) - nodes.value
    needed = torch.ceil(explore * nodes.prior / gap.clamp(min=1e-9) - 1.0).clamp(min=0.0)
    kept = torch.where(gap > 0, torch.minimum(needed, weight), weight)
    kept = kept.scatter(1, best, weight.gather(1, best))
    least = (kept.amax(1, keepdim=True) / 64.0).clamp(max=1.0)
    return torch.where(kept < least, 0.0, kept)


def lower_bounds(nodes: Nodes) -> Tensor:
    """Returns lower confidence bounds of the moves' mean values, 5 standard deviations of a mean below it: float32 [K,
    A], the node's view, -inf where a move is closed or has no visit.

    The variance is that of the child's n simulation values and of 1 / n^2 more observations with the largest variance,
    so that a few equal values do not count as certain (KataGo's LCB)."""
    visits = nodes.visits.clamp(min=1.0)
    weight = 1.0 / (visits * visits)
    variance = (nodes.squares / visits - nodes.value * nodes.value).clamp(min=1e-8)
    variance = variance + BOUND_VARIANCE * weight / (visits + weight)
    sample_size = (visits + weight) ** 2 / (visits + weight * weight)
    bounds = nodes.value - BOUND_DEVIATIONS * torch.sqrt(variance / sample_size)
    return torch.where(nodes.is_open & (nodes.visits > 0), bounds, -torch.inf)


def best_moves(nodes: Nodes, settings: SearchConfig) -> Tensor:
    """Returns the moves to play: int64 [K], those with most visits; with `search.lcb` those with the best lower bound
    among moves with at least 15 % of the most visits and at least 3, if there are any."""
    by_visits = torch.where(nodes.is_open, nodes.visits + 0.5 * nodes.prior, -torch.inf).argmax(1)
    if not settings.lcb:
        return by_visits
    visits = torch.where(nodes.is_open, nodes.visits, 0.0)
    least = (BOUND_SHARE * visits.amax(1, keepdim=True)).clamp(min=BOUND_VISITS)
    bounds = torch.where(visits >= least, lower_bounds(nodes), -torch.inf)
    return torch.where((visits >= least).any(1), bounds.argmax(1), by_visits)
