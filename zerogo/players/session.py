"""The search of one game by an analyst, in steps; its trees are kept from move to move and through undo. Moves may be
restricted: GTP's `avoid` and `allow`, JSON's `avoidMoves` and `allowMoves`."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from zerogo.board import BLACK, Position, State
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players import analyst, require_size
from zerogo.players.analyst import Analysis, Analyst, MoveOwnership, without_second_pass
from zerogo.players.live import LiveGame
from zerogo.search import Go, SearchState
from zerogo.search.game import select_games
from zerogo.search.tree import ROOT

CAPACITY = 20_000
NODES_A_SIMULATION = 4  # of the tree: half of it is for what is kept from the last move
MAX_KEPT_TREES = 12  # positions whose trees are kept for an undo

# Of one game, for Black and for White: the depth below the root from which each of the A actions may be played.
Restrictions = tuple[tuple[int, ...], tuple[int, ...]]
Entry = tuple[Colour, Collection[int], int]  # whose moves, which actions, for how many plies


def restrict(size: int, avoid: Iterable[Entry] = (), allow: Iterable[Entry] = ()) -> Restrictions | None:
    """Returns the restrictions of one game, None where everything may be played; size: N.

    avoid: the actions may not be played; of several entries for one the last counts. allow: nothing else may be played.
    Raises InputError where a colour has both, or allow twice."""
    avoid, allow = list(avoid), list(allow)
    if len({colour for colour, _, _ in allow}) < len(allow) or {one[0] for one in avoid} & {one[0] for one in allow}:
        raise InputError("moves may be allowed once for each colour, and not together with moves to avoid")
    every = range(size * size + 1)
    until = {colour: [0] * len(every) for colour in Colour}
    for colour, actions, plies in [*avoid, *((mover, set(every) - set(kept), plies) for mover, kept, plies in allow)]:
        for action in actions:
            until[colour][action] = plies
    key = tuple(until[Colour.BLACK]), tuple(until[Colour.WHITE])
    return key if any(map(any, key)) else None


@dataclass(frozen=True)
class RestrictedState(State):
    """Games with restrictions. until: int32 [B, 2, A], see `Restrictions`."""

    until: Tensor

    @staticmethod
    def of(state: State, restrictions: Sequence[Restrictions]) -> "RestrictedState":
        """Returns the games with their restrictions."""
        until = torch.tensor(restrictions, dtype=torch.int32, device=state.device)
        return RestrictedState(**vars(state), until=until)


class RestrictedGo(Go):
    """Go on `RestrictedState`s. Where a side would have nothing left, it may play everything."""

    def allowed(self, states: RestrictedState, game_index: Tensor, position: Position, legal: Tensor) -> Tensor:
        """Returns the legal actions that may be considered: bool [K, A]."""
        until, depth = select_games(states.until, game_index), position.ply - select_games(states.ply, game_index)
        first_ply = torch.where((position.to_play == BLACK).unsqueeze(1), until[:, 0], until[:, 1])
        kept = legal & (first_ply <= depth.unsqueeze(1))
        return torch.where(kept.any(1, keepdim=True), kept, legal)

    def outcome(self, states: RestrictedState, game_index: Tensor, position: Position) -> tuple[Tensor, Tensor]:
        """Returns Go's outcomes; where passing is not considered, its result is not certain."""
        finished, result = super().outcome(states, game_index, position)
        return finished, torch.where(finished | self.legal(states, game_index, position)[:, -1], result, -1.0)


def room_for(simulations: int) -> int:
    """Returns the nodes of a tree in which every move gets so many simulations."""
    return max(CAPACITY, NODES_A_SIMULATION * simulations)


class _Key(NamedTuple):
    """The position and the restrictions of a tree."""

    start_id: int
    moves: tuple[tuple[Colour, int], ...]
    to_play: Colour
    restrictions: Restrictions | None


class AnalysisSession:
    """Analyses one game at a time.

    capacity: nodes of the tree. most_bytes: a full tree is doubled up to this size; then the search stops
    until a move is played. seed: of the draws, such as the symmetries."""

    def __init__(self, analyst: Analyst, capacity: int = CAPACITY, seed: int = 0, most_bytes: int = 0) -> None:
        self.analyst, self.capacity, self.seed, self.most_bytes = analyst, capacity, seed, most_bytes
        self._search = analyst.search
        self._game_index = torch.zeros(1, dtype=torch.int64, device=analyst.device)
        self.clear()

    def clear(self) -> None:
        """Forgets all trees."""
        self._kept_trees: dict[_Key, SearchState] = {}
        self._key = self._state = self._evaluation = None
        self._after_moves: MoveOwnership = {}

    @torch.inference_mode()
    def set_position(
        self, game: LiveGame, to_play: Colour | None = None, restrictions: Restrictions | None = None
    ) -> None:
        """Sets the position to a game's, with its tree where one is kept. to_play: None for the side whose turn it is.
        Two passes count as one, so that the search continues.

        Raises InputError for a board on which the network doesn't play."""
        require_size(self.analyst, game.size, "this game is on")
        key = _Key(game.start_id, tuple(game.moves), to_play or game.to_play, restrictions)
        if key == self._key:
            return
        played = game.tensor(self.analyst.device, to_play)
        state = without_second_pass(played)
        state = state if restrictions is None else RestrictedState.of(state, [restrictions])
        kept = self._kept_trees.pop(key, None)  # first, as keeping another may push it out
        self._keep_tree()
        # Two passes end the game within the tree, so there is nothing to follow.
        if kept is not None or bool(played.finished) or not self._follow(key, state):
            self._search = self.analyst.search if restrictions is None else self.analyst.search_with(RestrictedGo)
            if kept is None:
                self._search_state = self._search.init(state, self.capacity // 2)
            else:
                self._search_state = self._enlarge(kept, state, self.capacity)
        self._key, self._state, self._evaluation, self._after_moves = key, state, None, {}
        self._search_state.states = state
        self._begin()

    @torch.inference_mode()
    def step(self, limit: int | None = None) -> int:
        """Runs one step of the search, at limit `limit` simulations; returns how many, 0 in a full tree."""
        assert self._key is not None, "set a position first"
        if not bool(self._search_state.unspent) and not self._begin() and not self._grow():
            return 0
        search_state = self._search_state
        before, budget = int(search_state.done), search_state.budget.clone()
        if limit is not None:
            search_state.budget.clamp_(max=before + limit)
        self._search.simulate(search_state)
        # The host reads the depth after every step here, so the bound need not grow by one with each.
        search_state.depth_bound = int(search_state.deepest.max())
        search_state.budget.copy_(budget)
        return int(search_state.done) - before

    def run(self, simulations: int, interrupted: Callable[[], bool] = lambda: False) -> int:
        """Runs this many simulations, fewer in a full tree or if `interrupted`; returns how many."""
        done = 0
        while done < simulations and not interrupted() and (more := self.step(simulations - done)):
            done += more
        return done

    @torch.inference_mode()
    def analysis(self, ownerships: bool = False, interrupted: Callable[[], bool] = lambda: False) -> Analysis | None:
        """Returns the analysis so far, None if `interrupted` before all its evaluations are made, one at a time;
        ownerships: whether the best candidates get theirs."""
        assert self._key is not None, "set a position first"
        self._evaluation = self._evaluation or self.analyst.evaluate(self._state)
        root = self._search_state.tree, self._game_index
        (missing,) = analyst.moves_to_evaluate(*root, [self._after_moves]) if ownerships else ([],)
        for action in missing:
            if interrupted():
                return None
            analyst.evaluate_children(self.analyst, self._state, [[action]], [self._after_moves])
        return analyst.read_analyses(*root, self._evaluation, [self._after_moves], self._search.settings)[0]

    def value_of(self, game: LiveGame, to_play: Colour, action: int, simulations: int) -> float:
        """Returns a move's value, -1 to 1 for `to_play`, after a search of that move alone, and then restores the
        position without restrictions, and its tree."""
        self.set_position(game, to_play, restrict(game.size, allow=[(colour, {action}, 1) for colour in Colour]))
        self.run(simulations)
        analysis = self.analysis()
        self.set_position(game, to_play)
        return analysis.best.value if analysis.best else analysis.value

    @property
    def visits(self) -> int:
        """Visits of the present position, kept ones included, its own evaluation too."""
        return int(self._search_state.tree.visits[0, ROOT])

    @torch.inference_mode()
    def _begin(self) -> bool:
        """Gives the search the free nodes of the tree as its budget; returns whether it can simulate."""
        search_state = self._search_state
        room = search_state.tree.num_nodes - 1 - int(search_state.tree.size)
        self._search.begin(search_state, self._game_index, min(room, search_state.max_budget), self.seed)
        return bool(search_state.unspent)

    def _grow(self) -> bool:
        """Doubles a full tree within `most_bytes`; returns whether the search can simulate."""
        tree = self._search_state.tree
        if bool(tree.terminal[0, ROOT]) or 2 * tree.num_nodes * tree.bytes_per_node > self.most_bytes:
            return False
        self._search_state = self._enlarge(self._search_state, self._state, 2 * tree.num_nodes)
        return self._begin()

    def _follow(self, key: _Key, state: State) -> bool:
        """Plays the moves made since in the tree; returns whether it could: each must be by the side to move."""
        old = self._key
        if old is None or key.restrictions is not None or old.restrictions is not None:
            return False
        played = key.moves[len(old.moves) :]
        if old.start_id != key.start_id or not played or key.moves[: len(old.moves)] != old.moves:
            return False
        turns = [old.to_play if ply % 2 == 0 else old.to_play.other for ply in range(len(played) + 1)]
        if [colour for colour, _ in played] + [key.to_play] != turns:
            return False
        for _, action in played:
            actions = torch.tensor([action], device=self.analyst.device)
            self._search.advance(self._search_state, self._game_index, actions, state)
        return True

    def _keep_tree(self) -> None:
        """Stores the tree of the present position in as little memory as possible."""
        if self._key is None or int(self._search_state.done) + int(self._search_state.kept_visits.sum()) == 0:
            return
        tree, deepest = self._search_state.tree, self._search_state.deepest.clone()
        self._kept_trees.pop(self._key, None)
        nodes = ROOT + int(tree.size)
        small = tree.map(lambda tensor: (tensor if tensor.dim() == 1 else tensor[:, :nodes]).clone())
        self._kept_trees[self._key] = replace(self._search_state, tree=small, deepest=deepest)
        limit = max(self.most_bytes, MAX_KEPT_TREES * self.capacity * small.bytes_per_node)  # grown trees are few
        while len(self._kept_trees) > MAX_KEPT_TREES or self._kept_bytes > limit:
            self._kept_trees.pop(next(iter(self._kept_trees)))

    @property
    def _kept_bytes(self) -> int:
        return sum(kept.tree.num_nodes * kept.tree.bytes_per_node for kept in self._kept_trees.values())

    def _enlarge(self, kept: SearchState, state: State, nodes: int) -> SearchState:
        """Returns a copy of a tree with room for at least so many nodes."""
        search_state = self._search.init(state, max(nodes, kept.tree.num_nodes) // 2)
        for small, large in zip(kept.tree.tensors(), search_state.tree.tensors(), strict=True):
            (large if small.dim() == 1 else large[:, : small.shape[1]]).copy_(small)
        search_state.deepest.copy_(kept.deepest)
        return search_state
