"""A analyst over one game: it thinks for as long as it is let, and what it thought is kept from move to move and
through undo."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from zerogo import board
from zerogo.evaluator import Evaluation
from zerogo.game import Colour
from zerogo.players.analysis import Analysis, Previews, analyses, look_after, missing, visited
from zerogo.players.analyst import Analyst
from zerogo.players.bans import RestrictedGo, RestrictedState
from zerogo.players.live import LiveGame
from zerogo.players.player import require_size
from zerogo.search import Search
from zerogo.search.search_state import SearchState
from zerogo.search.tree import ROOT, Tree

CAPACITY = 20_000
NODES_A_SIMULATION = 4  # of the tree: half of it is for what is kept from the last move
REMEMBERED = 12  # positions whose trees are kept for an undo


def room_for(simulations: int) -> int:
    """Returns the nodes of a tree in which every move gets so many simulations."""
    return max(CAPACITY, NODES_A_SIMULATION * simulations)


@dataclass(frozen=True)
class Ban:
    """Points (and pass, N * N) that a side may not play for so many plies from the present position on, as GTP's
    `avoid` and `allow` ask.

    Where it leaves a side nothing at all, it may play everything.
    """

    black: frozenset[int] = frozenset()
    white: frozenset[int] = frozenset()
    plies: int = 1

    def until(self, num_actions: int, device: torch.device) -> Tensor:
        """Returns the ban of one game as `RestrictedState` has it: int32 [1, 2, A]."""
        plies = torch.zeros(1, 2, num_actions, dtype=torch.int32, device=device)
        for row, actions in enumerate((self.black, self.white)):
            plies[0, row, torch.tensor(sorted(actions), dtype=torch.int64, device=device)] = self.plies
        return plies


# What a tree belongs to: the start of the game, its moves, whose turn it is, and what is banned.
_Place = tuple[int, tuple[tuple[Colour, int], ...], Colour, Ban | None]


class AnalysisSession:
    """Thinks about one game at a time.

    capacity: nodes of the tree. most_bytes: a full tree doubles as long as it takes no more; then thinking stops until
    a move is played. seed: of the draws, such as the symmetries."""

    def __init__(self, analyst: Analyst, capacity: int = CAPACITY, seed: int = 0, most_bytes: int = 0) -> None:
        self.analyst, self.capacity, self.seed, self.most_bytes = analyst, capacity, seed, most_bytes
        self._lane = torch.zeros(1, dtype=torch.int64, device=analyst.device)
        self._remembered: dict[_Place, SearchState] = {}
        self._place: _Place | None = None
        self._forest: SearchState | None = None
        self._search: Search = analyst.search
        self._state: board.State | None = None
        self._known: Evaluation | None = None
        self._after: Previews = {}

    @torch.inference_mode()
    def face(self, game: LiveGame, to_play: Colour | None = None, ban: Ban | None = None) -> None:
        """Turns to a game's present position with whatever was thought of it before.

        to_play: who is to move, by default whose turn it is. Raises InputError for a board that the network doesn't
        know."""
        require_size(self.analyst, game.size, "this game is on")
        place = (game.start_id, tuple(game.moves), to_play or game.to_play, ban)
        if place == self._place:
            return
        state = game.tensor(self.analyst.device, to_play)
        if ban is not None:
            state = RestrictedState.of(state, ban.until(game.size**2 + 1, self.analyst.device))
        self._remember()
        found = self._remembered.pop(place, None)
        if found is not None:
            self._search, self._forest = self._search_for(ban), self._unfolded(found, state, self.capacity)
        elif not self._follow(place, state):
            self._search = self._search_for(ban)
            self._forest = self._search.init(state, self.capacity // 2)
        self._place, self._state, self._known, self._after = place, state, None, {}
        self._forest.states = state
        self._begin()

    @torch.inference_mode()
    def step(self, most: int | None = None) -> int:
        """Runs one step of the search, a few simulations (at most `most`); returns how many, 0 where the tree is full
        or the game over.
        """
        if not bool(self._facing().unspent) and not self._begin() and not self._grow():
            return 0
        search_state = self._facing()
        before, budget = int(search_state.done), search_state.budget.clone()
        if most is not None:
            search_state.budget.clamp_(max=before + most)
        self._search.simulate(search_state)
        search_state.depth_bound = int(
            search_state.deepest.max()
        )  # the host looks at every step here, so bounded selections need not grow with them
        search_state.budget.copy_(budget)
        return int(search_state.done) - before

    @torch.inference_mode()
    def prepare(self, most: int = 1) -> bool:
        """Asks the network for some of what a thought needs beside the search, `most` candidates' scores at a time;
        returns whether that is all, so that `analysis` will be quick. Who must answer while it thinks can look up in
        between."""
        search_state = self._facing()
        if self._known is None:
            self._known = self.analyst.inform(self._state)
            return False
        wanted = missing(visited(search_state, self._lane), self._after)
        look_after(self.analyst, self._state, [wanted[:most]], [self._after])
        return len(wanted) <= most

    @torch.inference_mode()
    def analysis(self, looks_after: bool = True) -> Analysis:
        """Returns what it thinks now; looks_after: whether the network is asked for the candidates' own scores, where
        it was not before.
        """
        search_state = self._facing()
        if self._known is None:
            self._known = self.analyst.inform(self._state)
        return analyses(self.analyst, search_state, self._lane, self._state, self._known, [self._after], looks_after)[0]

    def worth(self, game: LiveGame, to_play: Colour, action: int, simulations: int) -> float:
        """Returns a move's value, -1 to 1 for `to_play`, after a search of so many simulations that tries nothing else;
        then faces the position as before, with what was thought of it."""
        others = frozenset(range(game.size**2 + 1)) - {action}
        self.face(game, to_play, Ban(others, others, plies=1))
        done = 0
        while done < simulations and (more := self.step(simulations - done)):
            done += more
        found = self.analysis(looks_after=False)
        self.face(game, to_play)
        return found.best.value if found.best else found.value

    @property
    def visits(self) -> int:
        """Visits of the present position, kept ones included, its own evaluation too."""
        return int(self._facing().tree.visits[0, ROOT])

    def clear(self) -> None:
        """Forgets all trees."""
        self._remembered.clear()
        self._place = self._forest = self._state = self._known = None
        self._after = {}

    def _facing(self) -> SearchState:
        assert self._forest is not None, "face a game first"
        return self._forest

    def _search_for(self, ban: Ban | None) -> Search:
        return self.analyst.search if ban is None else self.analyst.of_game(RestrictedGo())

    @torch.inference_mode()
    def _begin(self) -> bool:
        """Lets the search go on with the room that is left in the tree; returns whether there is any, and anything to
        search.
        """
        search_state = self._facing()
        room = search_state.tree.num_nodes - 1 - int(search_state.tree.size)
        self._search.begin(search_state, self._lane, min(room, search_state.longest), self.seed)
        return bool(search_state.unspent)

    def _grow(self) -> bool:
        """Gives a full tree twice the room, where it may have it; returns whether there is anything to search."""
        tree = self._facing().tree
        if bool(tree.terminal[0, ROOT]) or 2 * tree.num_nodes * tree.bytes_per_node > self.most_bytes:
            return False
        self._forest = self._unfolded(self._facing(), self._state, 2 * tree.num_nodes)
        return self._begin()

    def _follow(self, place: _Place, state: board.State) -> bool:
        """Follows the moves played since, where each was the turn of the tree's side to move; returns whether it
        could.
        """
        if self._place is None or self._forest is None or place[3] is not None or self._place[3] is not None:
            return False
        start, moves, mover, _ = self._place
        if start != place[0] or len(place[1]) <= len(moves) or place[1][: len(moves)] != moves:
            return False
        played = place[1][len(moves) :]
        turns = [mover if ply % 2 == 0 else mover.other for ply in range(len(played) + 1)]
        if [player for player, _ in played] + [place[2]] != turns:
            return False
        for _, action in played:
            self._search.advance(self._forest, self._lane, torch.tensor([action], device=self.analyst.device), state)
        return True

    def _remember(self) -> None:
        """Keeps the tree of the present position, in no more memory than it needs."""
        if (
            self._place is None
            or self._forest is None
            or int(self._forest.done) + int(self._forest.kept_visits.sum()) == 0
        ):
            return
        used = ROOT + int(self._forest.tree.size)
        self._remembered.pop(self._place, None)
        small, deepest = _nodes_up_to(self._forest.tree, used), self._forest.deepest.clone()
        self._remembered[self._place] = dataclasses.replace(self._forest, tree=small, deepest=deepest)
        most = max(self.most_bytes, REMEMBERED * self.capacity * small.bytes_per_node)  # grown trees are few
        while (
            len(self._remembered) > REMEMBERED
            or sum(_bytes(search_state) for search_state in self._remembered.values()) > most
        ):
            self._remembered.pop(next(iter(self._remembered)))

    def _unfolded(self, kept: SearchState, state: board.State, nodes: int) -> SearchState:
        """Returns a tree with room for so many nodes, or for all that it has."""
        search_state = self._search.init(state, max(nodes, kept.tree.num_nodes) // 2)
        for field in dataclasses.fields(Tree):
            small, large = getattr(kept.tree, field.name), getattr(search_state.tree, field.name)
            large.copy_(small) if field.name == "size" else large[:, : small.shape[1]].copy_(small)
        search_state.deepest.copy_(kept.deepest)
        return search_state


def _bytes(search_state: SearchState) -> int:
    return search_state.tree.num_nodes * search_state.tree.bytes_per_node


def _nodes_up_to(tree: Tree, number: int) -> Tree:
    """Returns a copy of the first nodes of a tree."""
    parts = {field.name: getattr(tree, field.name) for field in dataclasses.fields(Tree)}
    return Tree(**{name: part.clone() if name == "size" else part[:, :number].clone() for name, part in parts.items()})
