"""A search over a network or random playouts. A `SearchPlayer` plays its best move. An `Analyst` analyses positions:
the candidate moves with winrate, score and best line, and the ownership of points."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from zerogo import board, sgf, tuning
from zerogo.checkpoint import Checkpoint, load_newest
from zerogo.config import EvaluationConfig, SearchConfig
from zerogo.errors import InputError
from zerogo.evaluator import SEARCH_HEADS, Evaluation, Evaluator, score_of
from zerogo.game import Colour
from zerogo.players import Player, external, require_size
from zerogo.players.playout import PlayoutEvaluator, playouts_of
from zerogo.rules import Rules, coords
from zerogo.search import Search, SearchState, puct
from zerogo.search.game import Go
from zerogo.search.tree import NULL_NODE, ROOT, Tree, mean_scores, nodes_at
from zerogo.selfplay.opening import RandomPlayer
from zerogo.system import bounds

MAX_LEAVES = 8  # of a step, where one game has the device to itself
HALVING_LEAVES = 4  # of a step of a match by Gumbel: each is under another move, so the search hardly changes
SIMULATIONS_A_LEAF = 8  # of a move, at least: with few simulations several leaves a step cost strength
MAX_ROOT_PLAYOUTS, MAX_LEAF_PLAYOUTS = 256, 8  # playouts of plain MCTS
OWNERSHIP_PLAYOUTS = 64
QUICK_PLAYOUTS = 16
MAX_SCORED_MOVES = 16  # candidates whose ownership is evaluated; further ones are hardly visited
MAX_PV_LENGTH = 24
MOVES_IN_WORDS = 8  # of an expected line
EVALUATED_AT_ONCE = 16  # positions of a game
PLAYER_HELP = "mcts:N (N playouts a move), the path of a checkpoint, or the folder of a run"
GUMBEL_UNTIL = 400  # simulations up to which matches use Gumbel; at 64, PUCT with the settings PLAY was as strong
MAX_CONSIDERED = 16  # moves with which Gumbel's halving starts, where the simulations allow two of each
EVERY_SYMMETRY_FROM = 64  # simulations of a move from which its root is evaluated with all eight symmetries
PLAY = {  # KataGo's constants of PUCT for play
    "c_puct": 1.0, "c_puct_log": 0.45, "c_puct_variance": 0.85, "fpu_reduction": 0.2,
    "fpu_reduction_root": 0.1, "lcb": True,
}  # fmt: skip
PLAIN_MCTS = SearchConfig(algorithm="puct", c_puct=1.1, fpu_reduction=0.0, keep_tree=False)


@dataclass(eq=False)
class SearchPlayer:
    """Plays the best move of a search without noise, from a fresh tree. The move is a function of (seed, game,
    position).

    simulations: of a move. sizes: the board sides of the network's training, each with its komi, rising; None for any.
    source: the network's file, for messages. search_states: on CUDA, the trees by board side and number of games,
    padded to a power of two. They are kept from move to move with the CUDA graph of a step, until a match ends."""

    name: str
    search: Search
    simulations: int
    sizes: Mapping[int, Sequence[float]] | None = None
    source: str = ""
    search_states: dict[tuple[int, int], SearchState] = field(default_factory=dict, init=False, repr=False)

    def choose(self, states: board.State, game_ids: Tensor, seed: int) -> Tensor:
        """Returns the moves: int64 [B]; game_ids int64 [B]. Raises InputError for boards of untrained sizes."""
        for size in {states.board_size} if states.rules.same_size else set(states.rules.size.tolist()):
            require_size(self, size, "this match is on")
        if game_ids.device.type == "cpu":
            return self.search.run(states, self.simulations, seed, game_ids=game_ids).action
        number = states.num_games
        index = torch.arange(1 << (number - 1).bit_length(), device=game_ids.device)
        rows = index.clamp(max=number - 1)  # the last game fills up the batch
        states, key = states.select(rows), (states.board_size, len(rows))
        if key in self.search_states:
            self.search.reset_trees(self.search_states[key], index, states)
        else:
            self.search_states[key] = self.search.init(states, self.simulations)
        search_state = self.search_states[key]
        return self.search.run(states, self.simulations, seed, search_state, game_ids=game_ids[rows]).action[:number]


@dataclass(eq=False)
class Analyst(SearchPlayer):
    """Analyses positions. Its search is PUCT, which can stop at any time and continue after the next move (Gumbel's
    halving needs a known number of simulations). It keeps its tree and takes several leaves a step.

    evaluator: evaluates with all heads, averaged over the symmetries. quick: evaluates by one symmetry."""

    _: KW_ONLY
    evaluator: Callable[..., Evaluation]
    quick: Callable[..., Evaluation]
    device: torch.device

    @torch.inference_mode()
    def evaluate(self, states: board.State, quick: bool = False, symmetry_index: int | None = None) -> Evaluation:
        """Returns an evaluation without a search, with ownership and score. For a network without these heads, playouts
        give the ownership, and its sum less komi is the score.

        quick: whether one symmetry is used instead of all eight. symmetry_index: the one to use, 0 to 7, None for
        the usual ones; it does not affect playouts."""
        if isinstance(self.evaluator, Evaluator):  # no network has seen a game that is over
            states = without_second_pass(states)
        if symmetry_index is not None and isinstance(self.evaluator, Evaluator):
            evaluation = self.evaluator.evaluate_in_symmetry(states, symmetry_index)
        else:
            evaluation = (self.quick if quick else self.evaluator)(states)
        ownership, score = evaluation.ownership, evaluation.score
        if ownership is None:
            ownership = PlayoutEvaluator(OWNERSHIP_PLAYOUTS)(states).ownership
        if score is None:
            score = score_of(ownership, states)
        return replace(evaluation, ownership=ownership.float(), score=score.float())

    def evaluate_game(
        self, record: sgf.GameRecord, num_moves: int, quick: bool = False
    ) -> Iterator[tuple[list[float], list[float]]]:
        """Yields Black's winrates and scores without a search after 0, 1, 2, ... moves of a legal game, up to
        `num_moves`; those of some positions at a time. quick: see `evaluate`."""
        for start in range(0, num_moves + 1, EVALUATED_AT_ONCE):
            moments = range(start, min(num_moves + 1, start + EVALUATED_AT_ONCE))
            states = sgf.positions([record] * len(moments), moments, self.device, check=False)
            evaluation = self.evaluate(states, quick)
            sign = torch.where(states.to_play == board.BLACK, 1.0, -1.0)
            yield ((1 + sign * evaluation.value.float()) / 2).tolist(), (sign * evaluation.score).tolist()

    def search_with(self, kind: type[Go] | None = None, **settings: object) -> Search:
        """Returns a search with other settings, or over another kind of game, such as Go with forbidden moves."""
        search = self.search
        settings = replace(search.settings, **settings)
        game = (kind or type(search.game))()
        return Search(search.evaluator, settings, game, search.root_evaluator, search.keeps_scores)


def without_second_pass(states: board.State) -> board.State:
    """Returns the positions with at most one pass, so that a search continues after two passes as KataGo's does."""
    passes = torch.where(states.finished, 1, states.passes).to(torch.int8)
    return replace(states, passes=passes, finished=torch.zeros_like(states.finished))


def make_player(
    spec: str | Checkpoint, settings: EvaluationConfig, device: torch.device, dtype: torch.dtype
) -> Player | external.ExternalPlayer:
    """Returns the player of a word such as "random", "mcts:200", "gnugo:10" or a checkpoint's path, or of a checkpoint.

    settings: the config's section `evaluation`. Raises InputError for an unknown word, for a checkpoint that can't be
    loaded and for an engine that is not installed. An engine starts at its first use; its `close` ends it."""
    if isinstance(spec, Checkpoint):
        number, algorithm = settings.simulations, settings.algorithm
        if algorithm == "auto":
            algorithm = "gumbel" if number <= GUMBEL_UNTIL else "puct"
        # The leaves of a step were measured for self-play on the machine that ran it; a match must not depend on them.
        leaves = max(1, min(HALVING_LEAVES, number // 2)) if algorithm == "gumbel" else 1
        changes = {"algorithm": algorithm, "keep_tree": False, "leaves": leaves}
        search = _network_search(spec, settings, device, dtype, number, **changes)
        return SearchPlayer(_name(spec), search, settings.simulations, spec.sizes, spec.source)
    if spec == RandomPlayer.name:
        return RandomPlayer()
    if external.is_external(spec):
        return external.ExternalPlayer(external.find_program(spec), settings.engine_seconds, settings.engine_processes)
    if playouts := playouts_of(spec):
        search, simulations = _plain_search(playouts)
        return SearchPlayer(f"mcts:{playouts}", search, simulations)
    if not bounds.shipped(spec).exists():
        raise InputError(bounds.no_such_player(spec, f"random, {PLAYER_HELP}, and engines: {external.ENGINE_HELP}"))
    return make_player(load_newest(spec), settings, device, dtype)


def make_analyst(
    spec: str | Checkpoint,
    settings: EvaluationConfig,
    device: torch.device,
    dtype: torch.dtype,
    simulations: int | None = None,
    leaves: int | None = None,
) -> Analyst:
    """Returns the analyst of a word such as "mcts:200" or a checkpoint's path, or of a checkpoint.

    simulations: of a move, by default those of the word or the settings. leaves: of a step, by default one for each
    SIMULATIONS_A_LEAF simulations, up to MAX_LEAVES. Raises InputError for an unknown word (the random player does not
    analyse) and for a checkpoint that can't be loaded."""
    playouts = playouts_of(spec) if isinstance(spec, str) else None
    if playouts is not None:
        return analyst_of_playouts(playouts, device, leaves, simulations)
    if isinstance(spec, str) and not bounds.shipped(spec).exists():
        raise InputError(bounds.no_such_player(spec, PLAYER_HELP))
    number = simulations or settings.simulations
    leaves = leaves or _fitting_leaves(number)
    checkpoint = load_newest(spec) if isinstance(spec, str) else spec
    changes = {"algorithm": "puct", "keep_tree": True, "leaves": leaves}
    search = _network_search(checkpoint, settings, device, dtype, number, keeps_scores=True, **changes)
    every = Evaluator.from_network(checkpoint.network(), checkpoint.encoder(), device, dtype, "all")
    evaluators = {"evaluator": every, "quick": every.with_symmetries("random"), "device": torch.device(device)}
    return Analyst(_name(checkpoint), search, number, checkpoint.sizes, checkpoint.source, **evaluators)


def analyst_of_playouts(
    playouts: int, device: torch.device | str = "cpu", leaves: int | None = None, simulations: int | None = None
) -> Analyst:
    """Returns plain MCTS, whose values and ownership are means of playouts. playouts: of a move. simulations: of a
    move, by default as many as the playouts allow."""
    search, fitting = _plain_search(playouts)
    simulations = simulations or fitting
    changes = {"keep_tree": True, "leaves": leaves or _fitting_leaves(simulations)}
    search = Search(search.evaluator, replace(PLAIN_MCTS, **changes), None, search.root_evaluator, True)
    evaluators = {"evaluator": PlayoutEvaluator(OWNERSHIP_PLAYOUTS), "quick": PlayoutEvaluator(QUICK_PLAYOUTS)}
    return Analyst(f"mcts:{playouts}", search, simulations, **evaluators, device=torch.device(device))


def _plain_search(playouts: int) -> tuple[Search, int]:
    """Returns plain MCTS, and its simulations for so many playouts: a share of the playouts evaluates the root, and
    each leaf gets several where there are enough."""
    root = max(1, min(playouts // 4, MAX_ROOT_PLAYOUTS))
    leaf = max(1, min(playouts // 32, MAX_LEAF_PLAYOUTS))
    search = Search(PlayoutEvaluator(leaf), PLAIN_MCTS, None, PlayoutEvaluator(root))
    return search, max(1, (playouts - root) // leaf)


def _fitting_leaves(simulations: int) -> int:
    """Returns the leaves of a step for so many simulations a move."""
    return min(MAX_LEAVES, max(1, simulations // SIMULATIONS_A_LEAF))


def _network_search(
    checkpoint: Checkpoint,
    settings: EvaluationConfig,
    device: torch.device,
    dtype: torch.dtype,
    simulations: int,
    keeps_scores: bool = False,
    **changes: object,
) -> Search:
    """Returns a search over a checkpoint's averaged network for play without exploration. It keeps c_visit and c_scale
    of self-play, with which the policy was learned."""
    network, encoder = checkpoint.network(), checkpoint.encoder()
    learned = checkpoint.config.network.heads
    of_points = [name for name in ("score", "ownership") if learned.get(name, 0.0) > 0] if keeps_scores else []
    heads = (*SEARCH_HEADS, *of_points[:1])
    leaf = Evaluator.from_network(network, encoder, device, dtype, settings.symmetry, heads=heads)
    root_sees_all = settings.symmetry == "random" and simulations >= EVERY_SYMMETRY_FROM
    changes |= PLAY | {"max_considered": max(2, min(MAX_CONSIDERED, simulations // 2))}
    chosen = replace(checkpoint.config.search, **changes)
    root = leaf.with_symmetries("all") if root_sees_all else leaf
    return Search(leaf, chosen, root_evaluator=root, keeps_scores=bool(of_points))


def _name(checkpoint: Checkpoint) -> str:
    name = Path(checkpoint.config.run.name).name
    return name if checkpoint.sizes is None else f"{name}@{checkpoint.step}"


def autotune_leaves(analyst: Analyst, rules: Rules) -> tuple[Analyst, str]:
    """Returns the analyst with as many leaves a step as keep its device busy with one game, and the reason in words.

    Its evaluator is timed in growing batches, so that the number, and the moves, may differ between runs."""
    device, evaluate = analyst.device, analyst.search.evaluator

    @torch.inference_mode()
    def _rate(size: int) -> float:
        states, keys = board.new_games(size, rules, device), torch.arange(size, device=device)
        options = {"legal": board.legal_actions(states), "key": keys}
        return tuning.speed(lambda: evaluate(states, **options), size, device)

    choice = tuning.find_batch(_rate, max(1, analyst.simulations // SIMULATIONS_A_LEAF))
    fitting = replace(analyst, search=analyst.search_with(leaves=choice.size))
    return fitting, f"{choice.size} leaves of the tree in a step: {choice.why()}"


# The results of a search


@dataclass(frozen=True)
class Candidate:
    """One visited move of a search, from the view of the side that makes it.

    value: its mean in [-1, 1]. score: its mean in points, komi included, or the position's where the search keeps no
    scores. prior: 0 to 1. lcb: lower bound of the winrate by the spread of its simulations (`puct.lower_bounds`), 0 to
    1. pv: the best line from this move on, and pv_visits: the visits of each move of it. ownership: float32 [N, N]
    after the move, None where that was not evaluated."""

    action: int
    visits: int
    value: float
    score: float
    prior: float
    lcb: float
    pv: tuple[int, ...]
    pv_visits: tuple[int, ...]
    ownership: np.ndarray | None = field(default=None, compare=False)

    @property
    def winrate(self) -> float:
        """The value as a share of games, 0 to 1."""
        return (self.value + 1) / 2


@dataclass(frozen=True)
class Analysis:
    """The results of a search of one position, from the view of the side to move. Arrays are numpy on the host.

    visits, value, score: of the root, the value in [-1, 1], the score in points with komi. candidates: the visited
    moves, best first. prior: float32 [A], 0 where illegal. legal: bool [A]. visits_by_action: int64 [A]. By the network
    alone: ownership, float32 [N, N] in [-1, 1]; raw_value, raw_score, which is the score where the search keeps none.
    """

    visits: int
    value: float
    score: float
    candidates: list[Candidate]
    prior: np.ndarray
    legal: np.ndarray
    visits_by_action: np.ndarray
    ownership: np.ndarray
    raw_value: float
    raw_score: float

    @property
    def winrate(self) -> float:
        """The value as a share of games, 0 to 1."""
        return (self.value + 1) / 2

    def of_black(self, player: Colour) -> tuple[float, float]:
        """Returns Black's winrate and score. player: the side to move."""
        return (1 + player.sign * self.value) / 2, player.sign * self.score

    def text(self, player: Colour, size: int) -> str:
        """Returns "White wins 53.2 %, leads by 0.6 points, expects E5 D4 C3 (400 visits)". player: to move. size: N."""
        points = abs(self.score)
        lead = "is even" if points < 0.05 else f"{'leads' if self.score > 0 else 'is behind'} by {points:.1f} points"
        expected = f", expects {coords.vertices(self.best.pv[:MOVES_IN_WORDS], size)}" if self.best else ""
        winner = f"{player.name.capitalize()} wins {100 * self.winrate:.1f} %"
        return f"{winner}, {lead}{expected} ({self.visits} visits)"

    @property
    def best(self) -> Candidate | None:
        """The best move, None where nothing was searched."""
        return self.candidates[0] if self.candidates else None

    @property
    def ownership_stdev(self) -> np.ndarray:
        """The standard deviation of the ownership over the position and its evaluated children, weighted by their
        visits: float32 [N, N], 0 to 1."""
        evaluated = [move for move in self.candidates[:MAX_SCORED_MOVES] if move.ownership is not None]
        boards = np.stack([self.ownership, *(move.ownership for move in evaluated)])
        weights = [1, *(move.visits for move in evaluated)]
        mean = np.average(boards, axis=0, weights=weights)
        return np.sqrt(np.average((boards - mean) ** 2, axis=0, weights=weights))


MoveOwnership = dict[int, np.ndarray]  # the ownership after moves of one position, float32 [N, N], by action


@torch.inference_mode()
def read_analyses(
    tree: Tree, game_index: Tensor, evaluation: Evaluation, after_moves: list[MoveOwnership], settings: SearchConfig
) -> list[Analysis]:
    """Returns the analyses of some games of a search: game_index int64 [K].

    evaluation: of their roots, by `Analyst.evaluate`. after_moves: of their children, by `evaluate_children`. settings:
    the search's."""
    first = game_index * tree.num_nodes
    nodes, children = nodes_at(tree, first + ROOT, first)
    score = raw_score = evaluation.score.float().to(first.device)
    scores = score.unsqueeze(1).expand(children.shape)
    if tree.score_sum is not None:
        score, scores = mean_scores(tree, first + ROOT, first)
    ranked = visited_moves(tree, game_index)
    if settings.lcb:
        best_moves = puct.best_moves(nodes, settings).tolist()
        ranked = [sorted(moves, key=lambda move: move != best) for moves, best in zip(ranked, best_moves, strict=True)]
    lines = _principal_variations(tree, game_index, children.clamp(min=NULL_NODE).long(), ranked)

    value, values, bounds = (part.clamp(-1, 1).double() for part in (nodes.mean, nodes.value, puct.lower_bounds(nodes)))
    roots = {"visits": nodes.total.long(), "value": value, "score": score}  # [K]
    roots |= {"raw_value": evaluation.value.float(), "raw_score": raw_score}
    boards = {"prior": nodes.prior, "legal": nodes.is_open, "visits_by_action": nodes.visits.long()}  # [K, A]
    boards["ownership"] = evaluation.ownership.float()
    moves = {"value": values, "score": scores, "prior": nodes.prior, "lcb": (bounds + 1) / 2}  # [K, A]
    roots = {name: tensor.tolist() for name, tensor in roots.items()}
    boards = {name: tensor.cpu().numpy() for name, tensor in boards.items()}
    moves = {name: tensor.cpu().numpy() for name, tensor in moves.items()}

    def _candidate(game: int, line: list[tuple[int, int]]) -> Candidate:
        pv, pv_visits = zip(*line, strict=True)
        numbers = {name: float(array[game, pv[0]]) for name, array in moves.items()}
        ownership = after_moves[game].get(pv[0])
        return Candidate(pv[0], pv_visits[0], pv=pv, pv_visits=pv_visits, ownership=ownership, **numbers)

    return [
        Analysis(
            candidates=[_candidate(game, line) for line in lines_of_game],
            **{name: values[game] for name, values in (roots | boards).items()},
        )
        for game, lines_of_game in enumerate(lines)
    ]


def moves_to_evaluate(
    tree: Tree, game_index: Tensor, after_moves: list[MoveOwnership], limits: Iterable[int | None] = (MAX_SCORED_MOVES,)
) -> list[list[int]]:
    """Returns the best moves of each game's root that `evaluate_children` has not evaluated. limits: the number of best
    moves of each game, None for all visited ones."""
    ranked = zip(visited_moves(tree, game_index), after_moves, limits, strict=True)
    return [[action for action in actions[:limit] if action not in of_game] for actions, of_game, limit in ranked]


def evaluate_children(
    analyst: Analyst, states: board.State, actions: list[list[int]], after_moves: list[MoveOwnership]
) -> None:
    """Evaluates the positions after some moves of each game in one batch. Adds the ownership, for the side that moves,
    to `after_moves`. actions: of each game."""
    pairs = [(game, action) for game, moves in enumerate(actions) for action in moves]
    if not pairs:
        return
    game_index, moves = torch.tensor(pairs, device=states.device).unbind(1)
    evaluation = analyst.evaluate(board.step(states.select(game_index), moves), quick=True)
    for (game, action), ownership in zip(pairs, (-evaluation.ownership).cpu().numpy(), strict=True):
        after_moves[game][action] = ownership


def visited_moves(tree: Tree, game_index: Tensor) -> list[list[int]]:
    """Returns the visited moves of each game's root by falling visits; among equal visits the prior decides."""
    visits = _children(tree, game_index, torch.full_like(game_index, ROOT))[1].cpu().numpy()
    merit = np.where(visits > 0, visits + 0.5 * tree.prior[game_index, ROOT].cpu().numpy(), 0.0)
    order = np.argsort(-merit, axis=1, kind="stable")
    return [row[:number].tolist() for row, number in zip(order, (visits > 0).sum(1), strict=True)]


def _children(tree: Tree, game_index: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the children of nodes (int64 [K]) and their visits, int64 [K, A]; NULL_NODE and 0 for none."""
    children = tree.children[game_index, node].clamp(min=NULL_NODE).to(torch.int64)
    visits = tree.visits[game_index.unsqueeze(1), children].to(torch.int64)
    return children, torch.where((children == NULL_NODE) | (node == NULL_NODE).unsqueeze(1), 0, visits)


def _principal_variations(
    tree: Tree, game_index: Tensor, children: Tensor, ranked: list[list[int]]
) -> list[list[list[tuple[int, int]]]]:
    """Returns the best line from each ranked move of each game, as moves with visits; children: int64 [K, A]."""
    pairs = [(game, action) for game, actions in enumerate(ranked) for action in actions]
    if not pairs:
        return [[] for _ in ranked]
    games, first = torch.tensor(pairs, device=children.device).unbind(1)
    node, game_index = children[games, first], game_index[games]
    times = tree.visits[game_index, node].tolist()
    lines = [[(action, int(number))] for (_, action), number in zip(pairs, times, strict=True)]
    row = list(range(len(lines)))  # the lines that continue, in the order of node and game_index
    for _ in range(MAX_PV_LENGTH - 1):
        nodes, visits = _children(tree, game_index, node)
        best = torch.where(visits > 0, visits + 0.5 * tree.prior[game_index, node], 0.0).argmax(1, keepdim=True)
        number = visits.gather(1, best).squeeze(1)
        goes_on = (number > 0).nonzero().squeeze(1)
        if not len(goes_on):
            break
        node, game_index = nodes.gather(1, best).squeeze(1)[goes_on], game_index[goes_on]
        row = [row[index] for index in goes_on.tolist()]
        moves = zip(best.squeeze(1)[goes_on].tolist(), number[goes_on].tolist(), strict=True)
        for index, move in zip(row, moves, strict=True):
            lines[index].append(move)
    rest = iter(lines)
    return [[next(rest) for _ in actions] for actions in ranked]
