"""What `tuning` tries in a process of its own before a program relies on it: `python -m zerogo.tuning.trials`.

Whether kernels compute what torch does, module by module on drawn inputs, and how long a network takes in a precision,
or in several processes. Either may kill the process or hang; the process that asked then knows what was being tried.

A request is a line of JSON on stdin: {"device": its name, "tasks": […]}, each task the name of one of TASKS and its
arguments. The answers are lines of JSON on stdout, in the order of the tasks, after "ready": what the function
returned, or {"fault": what happened, a sentence without its subject}."""

import dataclasses
import gc
import hashlib
import itertools
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from zerogo import board, kernels, scoring, tuning
from zerogo.board import exact_legal_rows, flood, rng
from zerogo.board.rng import Purpose
from zerogo.checkpoint import fresh_network
from zerogo.config import Config, SearchConfig, from_dict
from zerogo.errors import one_line
from zerogo.evaluator import SEARCH_HEADS, Evaluation
from zerogo.features import Encoder
from zerogo.features.readings import read_ladders, read_tactics
from zerogo.kernels.shared import NULL_NODE, ROOT
from zerogo.network import inference_copy, pool
from zerogo.network.fused import finish
from zerogo.network.trainer import Targets, loss_terms
from zerogo.players.playout import PlayoutEvaluator
from zerogo.rules import Rules, own_actions
from zerogo.search import Search, SearchState, expand_and_backup, step_leaves
from zerogo.search.selection import Selection, select
from zerogo.search.tree import Tree, keep_subtree_
from zerogo.system import runtime

# The tolerance for floats, relative and absolute: on a GPU, and on a CPU in kernels that round in another order.
BOUND, ROUNDING = 1e-4, ("winograd", "norms")
PLIES, SIMULATIONS = 8, 6  # of the drawn games, after a random position, and of the drawn searches
BARRIER_SECONDS = 120.0  # for processes to start, and for the last work of one of them
ROUNDS = 3  # of every number of processes: one second in seven or so was a third slower than the others
# The network's operations in one timed evaluation, at most. With a tenth of these, 14 samples of 7x7 to learn from,
# bfloat16 won on a CPU where float32 is faster in a run, whose batches are larger. TURNS: of each precision.
OPERATIONS, TURNS = {"cpu": 2e10, "cuda": 2e12}, 2
MOST_EVALUATED = {"cpu": 256, "cuda": 2048}  # positions of an evaluation
# Encoders' groups that need no tactics and no ladders: all that `planes` kernels do for them.
GROUPS = "stones history:7 turns_since:8 sensible pattern edge_distance:4 scaled_edge_distance last_moves:5".split()
# Of what `read_tactics` and `read_ladders` find in the games drawn for a CPU: they have no version in torch.
READINGS = {"tactics": "31b86bae081a8445", "ladders": "d54df9c22fc240c9"}

GUMBEL = SearchConfig(algorithm="gumbel", max_considered=4, leaves=3, cuda_graph=False)
PUCT = SearchConfig(algorithm="puct", fpu_reduction_root=0.1, forced_playouts=2.0, c_puct_log=0.3)
PUCT = dataclasses.replace(PUCT, c_puct_variance=0.85, cuda_graph=False)
SETTINGS = PUCT, dataclasses.replace(PUCT, leaves=3), GUMBEL, dataclasses.replace(GUMBEL, leaves=1)

_barriers: list[threading.Barrier] = []  # see `_share`
Case = tuple[Callable[..., Any], tuple]  # a function and its arguments, on the CPU


# Drawn inputs


class Table:
    """An evaluator whose answers are a fixed function of the position, in numbers that no order of additions can
    round."""

    def with_symmetries(self, symmetries: str) -> "Table":
        """Returns the same: its positions are never turned."""
        return self

    def __call__(self, state: board.State, legal: Tensor | None = None, key: Tensor | None = None) -> Evaluation:
        """Returns priors, values and scores."""
        legal = board.legal_actions(state) if legal is None else legal
        seed = rng.key(5, state.hash, state.to_play, state.passes)
        actions = own_actions(state.rules.size, state.board_size)
        weight = ((rng.key(seed.unsqueeze(1), actions) & 0xFFF) + 1) * legal
        prior = torch.div(weight << 20, weight.sum(1, keepdim=True), rounding_mode="floor").to(torch.float32) / 2**20
        value = ((seed >> 20) & 0x3FF).to(torch.float32) / 1024 - 0.5
        score = ((seed >> 40) & 0x7F).to(torch.float32) - 60
        return Evaluation(prior=prior, value=value, score=score)


def drawn_moves(games: board.State, seed: int) -> Tensor:
    """Returns a legal move for each game, a function of its position and the seed: int64 [B]."""
    legal = board.legal_actions(games)
    ranks = rng.split(rng.key(seed, games.hash), legal.shape[1]) & 0x3FFFFFFF
    return ((ranks << 10 | torch.arange(legal.shape[1])) * legal).argmax(1)


@cache
def drawn_games(size: int, number: int = 12) -> board.State:
    """Returns games of all rules on the CPU, on boards up to a size, some plies after a random position; the first two
    are over, and all points of the first are pass-alive."""
    kinds = [("positional", False), ("situational", True), ("simple", True), ("situational", False)]
    rules = [Rules(max(1, size - k // 4), k - 3.5, *kinds[k % 4]) for k in range(number)]
    empty = board.new_games(len(rules), rules)
    drawn = rng.split(rng.key(1, torch.arange(len(rules))), size * size).unflatten(1, (size, size)) >> 8
    free = flood.pack_rows(drawn % 5 > 1) & empty.on_board
    sides = [flood.pack_rows(drawn % 5 == side) & empty.on_board for side in range(2)]
    sides = [flood.flood(flood.neighbours(free) & side, side) for side in sides]  # those with liberties
    corners = torch.zeros(size, dtype=torch.int32)
    corners[0], corners[-1] = 1, 1 << (size - 1)
    sides[0][0], sides[1][0] = empty.on_board[0] & ~corners, 0  # Black's for good
    stones = flood.unpack_rows(sides[0]).to(torch.int8) + 2 * flood.unpack_rows(sides[1]).to(torch.int8)
    games = board.from_stones(stones, (1 + torch.arange(len(rules)) % 2).to(torch.int8), rules)
    for ply in range(PLIES):
        moves = drawn_moves(games, ply)
        moves[:2] = size * size
        games = board.step(games, moves)
    return games


def drawn_search(games: board.State, settings: SearchConfig) -> tuple[Search, SearchState]:
    """Returns a search of the games after some of its simulations; one game's budget is spent."""
    search = Search(Table(), settings, keeps_scores=settings.algorithm == "puct")
    search_state, everyone = search.init(games, 2 * SIMULATIONS), torch.arange(games.num_games)
    budgets = torch.where(everyone == 3, 2, 2 * SIMULATIONS)
    search.begin(search_state, everyone, budgets, seed=1, explore=everyone % 2 == 0)
    for _ in range(SIMULATIONS // settings.leaves + 1):
        search.step(search_state)
    search_state.depth_bound = int(search_state.deepest.max())
    return search, search_state


def used_nodes(tree: Tree) -> dict[str, Tensor]:
    """Returns the fields of trees, 0 where they have no meaning: unused nodes, and the priors of finished positions."""
    node = torch.arange(tree.num_nodes, device=tree.size.device)
    is_used = (node > NULL_NODE) & (node < ROOT + tree.size.unsqueeze(1))
    has_meaning = dict.fromkeys(vars(tree), is_used) | {"prior": is_used & ~tree.terminal}
    return {"size": tree.size} | {
        name: part * has_meaning[name].view(*is_used.shape, *[1] * (part.ndim - 2))
        for name, part in tree.of_nodes.items()
    }


def meaning(search_state: SearchState) -> dict[str, Tensor]:
    """Returns all of a search state that has a meaning."""
    names = "budget done root_prior gumbel kept_visits target_visits phase_end keys deepest overflowed exact_leaves"
    names += " collisions"
    return used_nodes(search_state.tree) | {name: getattr(search_state, name) for name in names.split()}


# What each module of kernels must compute. On a GPU a State has no `links`, which only the CPU's kernels read.


def _board_cases(games: board.State, kind: str) -> Iterator[Case]:
    yield flood.flood, (games.black, games.on_board & ~games.white)
    for ply in range(4):
        yield board.legal_actions, (games,)
        yield exact_legal_rows, (games,)
        moves = drawn_moves(games, PLIES + ply)
        after = board.step if kind == "cpu" else lambda *state: dataclasses.replace(board.step(*state), links=None)
        yield after, (games, moves)
        games = board.step(games, moves)
    if kind == "cpu":
        yield board.with_recent_history, (games,)
        yield board.put_, (games, torch.tensor([3, 0, 4]), games.select(torch.tensor([1, 2, 3])))


def _draws_cases(games: board.State, _kind: str) -> Iterator[Case]:
    yield (lambda keys, ply: rng.key(3, keys, ply, Purpose.MOVE)), (games.hash, games.ply)
    yield (lambda keys: rng.below(8, 1, Purpose.SYMMETRY, keys)), (games.hash,)


def _epilogues_cases(games: board.State, _kind: str) -> Iterator[Case]:
    number, size = games.black.shape
    y = torch.randn(number, 16, size, size).to(memory_format=torch.channels_last)
    on_board = flood.unpack_rows(games.on_board)
    for residual, mask, relu in ((None, None, False), (y.flip(0), on_board, True), (y[:, :, :1, :1], None, True)):
        yield _finished, (y, torch.randn(16), residual, mask, relu)
    for bias, by_area in itertools.product((None, torch.randn(16)), (False, True)):
        yield _pooled, (y, bias, by_area)
    wide = (torch.randn(number, 80, size, size) - 5).to(torch.bfloat16, memory_format=torch.channels_last)
    yield _pooled, (wide, None, False)


def _finished(y: Tensor, bias: Tensor, residual: Tensor | None, on_board: Tensor | None, relu: bool) -> Tensor:
    """Returns what an inference network makes of a convolution's sums, as `network.fused.FusedConv` does."""
    if (fast := kernels.module_for("epilogues", y.device)) is not None:
        return fast.finish_(y, bias, residual, on_board, relu)
    y = y + bias.view(1, -1, 1, 1)
    return finish(y if residual is None else y + residual, on_board, relu)


def _pooled(y: Tensor, bias: Tensor | None, by_area: bool) -> Tensor:
    """Returns what a block pools of a convolution's sums: of half of the channels."""
    channels = y.shape[1] // 2
    if (fast := kernels.module_for("epilogues", y.device)) is not None:
        return fast.pool(y, channels, bias, by_area)
    y = y if bias is None else torch.relu(y + bias.view(1, -1, 1, 1))
    return pool(y[:, :channels], None, by_area)


def _leaf_states_cases(games: board.State, _kind: str) -> Iterator[Case]:
    for search, search_state, selection in _selected(games)[::2]:
        yield step_leaves, (search.game, search_state, selection)


@cache
def _selected(games: board.State) -> list[tuple[Search, SearchState, Selection]]:
    """Returns searches of all kinds with the selections of their next step."""
    searches = [drawn_search(games, settings) for settings in SETTINGS]
    return [(search, search_state, select(search_state, search.settings)) for search, search_state in searches]


def _planes_cases(games: board.State, kind: str) -> Iterator[Case]:
    for dtype in (torch.float32, torch.bfloat16):
        yield Encoder("", GROUPS, True).planes, (games, dtype, 128)
    if kind == "cpu":
        rows = games.black, games.on_board
        yield (lambda *rows: (kernels.module_for("planes", games.device) or flood).eyes(*rows)), rows


def _playouts_cases(games: board.State, kind: str) -> Iterator[Case]:
    # Whole games by torch take 2 s on 9x9, and the CPU's loops are the same on any board.
    yield (lambda games: PlayoutEvaluator(2)(games)), (drawn_games(5) if kind == "cpu" else games,)
    yield _picked, (games.on_board & ~(games.black | games.white), games.hash & 0xFFFFFF)


def _picked(planes: Tensor, drawn: Tensor) -> Tensor:
    """Returns a point of each plane or the pass, as `kernels.cpu.scoring.pick`."""
    if (fast := kernels.module_for("playouts", planes.device)) is not None:
        return fast.pick(planes, drawn)
    until = flood.unpack_rows(planes).flatten(1).cumsum(1)
    rank = (drawn * (until[:, -1] + 1)) >> 24
    return (until <= rank.unsqueeze(1)).sum(1)


def _roots_cases(games: board.State, _kind: str) -> Iterator[Case]:
    search, search_state = drawn_search(games, GUMBEL)
    everyone = torch.arange(games.num_games)
    # Without the search state, whose games have no `links` on a GPU.
    yield (lambda *searched: dataclasses.replace(search.result(*searched), search_state=None)), (search_state, everyone)
    moves = search.result(search_state, everyone).action
    keep_subtree_(search_state.tree, everyone[::2], moves[::2], search_state.deepest)
    search_state.tree.size[1::2] = 0

    def _begun(search_state: SearchState, everyone: Tensor) -> dict[str, Tensor]:
        search.begin(search_state, everyone, 2 * SIMULATIONS, seed=2, explore=everyone % 3 > 0)
        return meaning(search_state)

    yield _begun, (search_state, everyone)


def _scoring_cases(games: board.State, _kind: str) -> Iterator[Case]:
    yield scoring.pass_alive_rows, (games.black, games.white, games.on_board, games.rules.suicide)
    yield scoring.all_pass_alive, (games,)


def _tree_cases(games: board.State, kind: str) -> Iterator[Case]:
    for search, search_state, selection in _selected(games):
        yield _paths, (search_state, search.settings)
        if kind == "cpu":
            selection = selection.select(selection.is_used.nonzero().squeeze(1))
        leaves = step_leaves(search.game, search_state, selection)
        numbers = search.numbers_of(search.evaluator(leaves.leaf, legal=leaves.legal))
        yield _expanded, (search_state, selection, leaves, *numbers)
        yield _kept, (search_state,)


def _winograd_cases(_games: board.State, _kind: str) -> Iterator[Case]:
    drawn = partial(torch.randint, -1, 2, generator=torch.Generator().manual_seed(1))  # the same in every process
    weight, bias = drawn((64, 64, 3, 3)) / 64.0, torch.arange(-32.0, 32.0) / 32
    for side in (5, 7, 9, 13):  # with tiles of both kinds, whole and not; of 9 and 13 more boards than at once
        outputs = drawn((49, 64, side, side)) / 8.0
        inputs = 32 if side == 5 else 64  # as many as outputs, and not, like a network's first convolution
        x, weights = outputs.flip(0)[:, :inputs], weight[:, :inputs]
        for residual, relu in ((None, False), (outputs, True)):
            yield _convolved, (x, weights, bias, residual, relu)
        yield _differentiated, (x, weights, outputs / 16)  # else weights' gradients are rounded by up to `BOUND`


def _convolved(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, relu: bool) -> Tensor:
    if (fast := kernels.module_for("winograd", x.device)) is not None:
        return fast.convolve(x, fast.in_tiles(weight, x.shape[-1]), bias, residual, relu)
    y = torch.conv2d(x, weight, bias, padding=1)
    return finish(y if residual is None else y + residual, None, relu)


def _norms_cases(_games: board.State, _kind: str) -> Iterator[Case]:
    drawn = partial(torch.randint, -9, 10, generator=torch.Generator().manual_seed(1))
    for channels in (32, 64):
        x, residual, gradient = drawn((3, 7, channels, 5, 5)) / 8.0
        weight, bias = torch.arange(2.0 * channels).view(2, channels) / channels
        for added, relu in ((None, False), (None, True), (residual, True)):
            yield _normalised, (x + weight.view(-1, 1, 1), weight, bias, added, relu, gradient / 16)


def _normalised(
    x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, relu: bool, gradient: Tensor
) -> list[Tensor]:
    """Returns sums x normalised in training, plus the residual, after the relu; mean and variance; all gradients."""
    leaves = [part.detach().requires_grad_() for part in (x, weight, bias, residual) if part is not None]
    added = leaves[3] if residual is not None else None
    if (fast := kernels.module_for("norms", x.device)) is not None:
        y, statistics = fast.FinishedNorm.apply(*leaves[:3], added, relu, 1e-5)
    else:
        y = torch.nn.functional.batch_norm(leaves[0], None, None, *leaves[1:3], training=True, eps=1e-5)
        y = finish(y if added is None else y + added, None, relu)
        statistics = torch.stack([x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)])
    return [y.detach(), statistics, *torch.autograd.grad(y, leaves, gradient)]


def _differentiated(x: Tensor, weight: Tensor, gradient: Tensor) -> list[Tensor]:
    """Returns a convolution in training and the gradients of its inputs and weights."""
    x, weight = (numbers.detach().requires_grad_() for numbers in (x, weight))
    fast = kernels.module_for("winograd", x.device)
    y = torch.conv2d(x, weight, padding=1) if fast is None else fast.Convolution.apply(x, weight)
    return [y.detach(), *torch.autograd.grad(y, (x, weight), gradient)]


def _paths(search_state: SearchState, settings: SearchConfig) -> list[Tensor]:
    """Returns where simulations go, without what has no meaning: int64."""
    paths, num_nodes = select(search_state, settings), search_state.tree.num_nodes
    path = torch.nn.functional.pad(paths.path, (0, num_nodes - paths.path.shape[1]))
    is_on_it = torch.arange(num_nodes, device=path.device) <= paths.depth.unsqueeze(1)
    path = torch.where(is_on_it & paths.is_used.unsqueeze(1), path, 0)
    others = [paths.depth, torch.where(paths.is_terminal, 0, paths.action), paths.is_terminal.to(torch.int64)]
    return [path, paths.is_used, *(torch.where(paths.is_used, part.to(torch.int64), 0) for part in others)]


def _expanded(search_state: SearchState, *arguments: Any) -> dict[str, Tensor]:
    expand_and_backup(search_state, *arguments)
    return meaning(search_state)


def _kept(search_state: SearchState) -> dict[str, Tensor]:
    """Returns the trees below the moves that were expanded first, and each third one below a move without a node."""
    children = search_state.tree.children[:, ROOT]
    games = torch.arange(len(children), device=children.device)
    moves = torch.where((children > NULL_NODE) | (games % 3 == 2).unsqueeze(1), children, children.numel()).argmin(1)
    keep_subtree_(search_state.tree, games, moves, search_state.deepest)
    return meaning(search_state)


def _tactics_cases(games: board.State, _kind: str) -> Iterator[Case]:
    rows = games.black, games.white, games.on_board
    yield read_tactics, (*rows, games.on_board & ~(games.black | games.white))


def _ladders_cases(games: board.State, _kind: str) -> Iterator[Case]:
    rows = games.black, games.white, games.on_board
    yield read_ladders, rows
    yield read_ladders, (*rows, games.to_play)


CASES: dict[str, Callable[[board.State, str], Iterator[Case]]] = {
    name: globals()[f"_{name}_cases"] for name in sorted(kernels.ALL)
}


def kernel(name: str, kind: str, size: int, device: str | None = None) -> dict[str, str]:
    """Returns {} where the module `name` of the kernels for a kind of device computes on a device, the current one of
    this kind by default, what torch does on the CPU, else {"fault": …}. size: the boards' largest side."""
    device = device or kind
    with kernels.plain():
        cases = [(function, _moved(arguments, "cpu")) for function, arguments in CASES[name](drawn_games(size), kind)]
    if name in READINGS and kind == "cpu":
        return {} if readings(name, cases) == READINGS[name] else {"fault": "computes wrongly"}
    for number, (function, arguments) in enumerate(cases, start=1):
        with kernels.plain():
            expected = list(_tensors(function(*_moved(arguments, "cpu"))))
        with kernels.only(name, kind):
            results = list(_tensors(function(*_moved(arguments, device))))
        is_like = partial(_is_like, 0.0 if kind == "cpu" and name not in ROUNDING else BOUND)
        if len(results) != len(expected) or not all(map(is_like, results, expected)):
            return {"fault": f"computes wrongly (case {number} of {len(cases)})"}
    return {}


def readings(name: str, cases: list[Case]) -> str:
    """Returns a hash of all that the CPU's loops read in the drawn games."""
    with kernels.only(name, "cpu"):
        results = [part.numpy().tobytes() for function, arguments in cases for part in _tensors(function(*arguments))]
    return hashlib.sha256(b"".join(results)).hexdigest()[:16]


def _is_like(bound: float, result: Tensor, expected: Tensor) -> bool:
    """Returns whether floats agree within a bound and all else exactly."""
    is_like = result.shape == expected.shape and result.dtype == expected.dtype
    bound = bound if expected.is_floating_point() else 0.0
    return is_like and torch.allclose(result.cpu(), expected, rtol=bound, atol=bound, equal_nan=True)


def _moved(value: Any, device: str) -> Any:
    """Returns copies of all tensors in tuples and dataclasses on a device."""
    if isinstance(value, Tensor):
        return value.to(device, copy=True)
    if isinstance(value, board.State) and torch.device(device).type != "cpu":
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(_moved(part, device) for part in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = (field.name for field in dataclasses.fields(value) if field.init)
    return dataclasses.replace(value, **{name: _moved(getattr(value, name), device) for name in fields})


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yields all tensors in lists, tuples, dictionaries and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict) or dataclasses.is_dataclass(value):
        yield from _tensors(list(value.values() if isinstance(value, dict) else vars(value).values()))


# How long a network takes


def precision(sections: dict[str, Any], kind: str) -> dict[str, list[float]]:
    """Returns how many positions a second a network of the config's shape evaluates on a kind of device, and how many
    samples it learns from, in each precision; they take turns. What the optimiser adds is float32 in any case."""
    config, device, rates = from_dict(sections), torch.device(kind), {}
    tuning.set_up_cpu(config.run.threads)
    works = {name: _of_network(config, dtype, device) for name, dtype in tuning.PRECISIONS.items()}
    for _ in range(TURNS):
        for name, (evaluation, learning) in works.items():
            pair = tuning.speed(*evaluation, device, is_replayed=True), tuning.speed(*learning, device)
            rates[name] = [max(both) for both in zip(pair, rates.get(name, pair), strict=True)]
    return rates


def _of_network(config: Config, dtype: torch.dtype, device: torch.device) -> list[tuple[Callable[[], Any], int]]:
    """Returns an evaluation of a network, and a step of learning but for the update, with how many positions each is
    about."""
    kernels.choose(config.run.kernels)
    network, side = fresh_network(config).to(device), config.game.largest_size
    fitting = int(OPERATIONS[device.type] / network.num_operations(side))
    number = max(tuning.EVALUATIONS_A_SAMPLE, min(MOST_EVALUATED[device.type], fitting))
    planes, inputs = torch.rand(number, network.num_planes, side, side), torch.rand(number, network.num_globals)
    planes, inputs = planes.to(device), inputs.to(device)
    playing, few = inference_copy(network, device, dtype, SEARCH_HEADS), number // tuning.EVALUATIONS_A_SAMPLE
    targets = _drawn_targets(few, side).to(device)

    def _learn() -> None:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            outputs = network(planes[:few], inputs[:few])
        outputs = {name: outputs[name].to(torch.float32) for name in config.network.heads}
        sum(terms.sum() for terms, _ in loss_terms(outputs, targets, config.network.heads)).backward()

    return [(lambda: playing(planes, inputs), number), (_learn, few)]


def processes(sections: dict[str, Any], limit: int, precision: str, seconds: float = 0.4) -> dict[str, Any]:
    """Returns under "rates" how many positions a second a network of the config's shape evaluates on the CPU in 1, 2,
    4, … and `limit` processes of one thread, together: the best of `ROUNDS` rounds of `seconds`, in which each process
    counts its CPU time. The answer is kept, and what slows a round down now may be gone later."""
    spawn, numbers = multiprocessing.get_context("spawn"), [*(2**k for k in range((limit - 1).bit_length())), limit]
    barrier = spawn.Barrier(limit, timeout=BARRIER_SECONDS)  # at which all wait that do not evaluate
    with ProcessPoolExecutor(limit, spawn, _share, (barrier,)) as pool:
        work = partial(_evaluate_together, sections, precision, numbers, seconds)
        shares = list(pool.map(work, range(limit)))
    return {"rates": {str(number): sum(column) for number, *column in zip(numbers, *shares, strict=True)}}


def _share(barrier: threading.Barrier) -> None:
    """Keeps, in one of the processes of `processes`, what all of them wait at; the process ends with its parent."""
    _barriers[:] = [barrier]
    runtime.end_with_parent()


def _evaluate_together(
    sections: dict[str, Any], precision: str, numbers: list[int], seconds: float, index: int
) -> list[float]:
    """Returns how many positions process `index` evaluates in a processor second, in its best round, while each number
    of processes are at work, 0 where it is not."""
    tuning.set_up_cpu(1)
    work, size = _of_network(from_dict(sections), tuning.PRECISIONS[precision], torch.device("cpu"))[0]
    work()
    rates = dict.fromkeys(numbers, 0.0)
    for number in numbers * ROUNDS:
        _barriers[0].wait()
        end, start, count = time.monotonic() + seconds, time.process_time(), 0
        while index < number and time.monotonic() < end:
            work()
            count += size
        if count:
            rates[number] = max(rates[number], count / (time.process_time() - start))
    return [*rates.values()]


def _drawn_targets(number: int, side: int) -> Targets:
    policy, ones = torch.full((number, side * side + 1), 1.0 / (side * side + 1)), torch.ones(number)
    of_moves = {"policy": policy, "reply": policy, "has_reply": ones > 0, "policy_weight": ones}
    of_board = {"ownership": torch.zeros(number, side, side), "board_weight": ones, "score": ones}
    return Targets(**of_moves, **of_board, value=ones, short_values=torch.zeros(number, 3))


# Errors that may be temporary and say nothing about the machine, such as a worker that was killed or came too late.
PASSING = OSError, threading.BrokenBarrierError, BrokenExecutor  # and a lack of memory
TASKS = {"kernel": kernel, "precision": precision, "processes": processes}


def main() -> None:
    """Does the tasks of the request; ends at once when the other process has gone."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=lambda: sys.stdin.read() or os._exit(1), daemon=True).start()
    gc.set_threshold(100_000)  # a compiler's garbage is small, and looking for it took 5 % of the time
    tuning.set_up_cpu(0)
    runtime.pick_device(request["device"])
    os.write(answers, b'"ready"\n')
    for task, *arguments in request["tasks"]:
        try:
            answer = TASKS[task](*arguments)
        except Exception as error:  # a compiler may raise anything
            passes = isinstance(error, PASSING) or tuning.lacks_memory(error) or "busy or unavailable" in str(error)
            key, what = ("untried", "could not be tried") if passes else ("fault", "fails")
            answer = {key: f"{what} ({type(error).__name__}: {one_line(error)})"}
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
