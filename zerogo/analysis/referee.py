"""Whether the moves of a query are legal, by the plain rules."""

from __future__ import annotations

from collections import OrderedDict

from zerogo import coords
from zerogo.analysis.query import Query, QueryError
from zerogo.errors import InputError
from zerogo.players.live import LiveGame

REMEMBERED = 8  # games with all their positions, some megabytes each on 19x19


class Referee:
    """Checks games. A query that goes on where one before it stood, as a program sends them move by move, costs only
    its new moves.
    """

    def __init__(self) -> None:
        self._games: OrderedDict[tuple, LiveGame] = OrderedDict()

    def check(self, query: Query) -> None:
        """Raises QueryError for a position at the start that can't be, and for an illegal move."""
        game = self._game(query)
        same = 0
        for played, move in zip(game.moves, query.moves, strict=False):
            if played != move:
                break
            same += 1
        game.undo(len(game.moves) - same)
        for turn in range(same, len(query.moves)):
            player, action = query.moves[turn]
            try:
                game.play(player, action)
            except InputError as error:
                vertex = coords.to_gtp(action, query.rules.size)
                raise QueryError(f"Illegal move {turn}: {vertex} ({error})", "moves") from None

    def clear(self) -> None:
        """Forgets all games."""
        self._games.clear()

    def _game(self, query: Query) -> LiveGame:
        key = (query.rules, query.start, query.first)
        if key not in self._games:
            game = LiveGame(query.rules)
            try:
                game.set_up([list(row) for row in query.start], query.first)
            except InputError as error:
                raise QueryError(str(error), "initialStones") from None
            self._games[key] = game
        self._games.move_to_end(key)
        while len(self._games) > REMEMBERED:
            self._games.popitem(last=False)
        return self._games[key]
