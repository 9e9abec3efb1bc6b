"""The game on the table: its moves with what the players thought of them, how it ended, and the file that it is kept
in.
"""

from __future__ import annotations

from pathlib import Path

from zerogo import sgf
from zerogo.errors import InputError
from zerogo.game import Colour
from zerogo.players.analyst import Analysis
from zerogo.players.live import LiveGame


class Table:
    """A game between two named players.

    game: the position and the way to it. names: of the players. path: the file that the game is written into after
    every move, None for none; a file that is there already is left alone until something is played. result: SGF's RE
    once the game is over (see `sgf.result_text`), else None."""

    def __init__(self, game: LiveGame, names: dict[Colour, str], path: Path | None = None) -> None:
        self.game, self.names, self.path = game, names, path
        self.result: str | None = None
        self._is_saved = path is not None and path.exists()
        self._thoughts: dict[
            int, tuple[float, float, int]
        ] = {}  # by move, from 0: Black's winrate and lead, and the visits

    @property
    def is_over(self) -> bool:
        """Whether somebody has resigned, or both have passed."""
        return self.result is not None or self.game.state.passes >= 2

    def play(self, player: Colour, action: int, analysis: Analysis | None = None) -> None:
        """Plays a move, with the thought that led to it. Raises InputError with the reason where it is illegal."""
        self.game.play(player, action)
        self.result, self._is_saved = None, False
        if analysis is not None:
            self._thoughts[len(self.game.moves) - 1] = _in_blacks_view(analysis, player)

    def undo(self, number: int = 1) -> None:
        """Takes back moves, and a resignation with them. Raises InputError where there are not so many."""
        if number > len(self.game.moves):
            raise InputError(f"{len(self.game.moves)} moves have been played, so {number} can't be taken back")
        self.game.undo(number)
        self.result, self._is_saved = None, False
        self._thoughts = {move: analysis for move, analysis in self._thoughts.items() if move < len(self.game.moves)}

    def resign(self, player: Colour) -> None:
        """Ends the game; the other one has won."""
        self.result, self._is_saved = sgf.result_text(-1 if player is Colour.BLACK else 1, by_resignation=True), False

    def end(self, score_black: float) -> None:
        """Ends the game with a score in points, komi included."""
        self.result, self._is_saved = sgf.result_text(score_black), False

    def record(self) -> sgf.GameRecord:
        """Returns the game for a file, with the winrates that the players saw."""
        columns = zip(
            *(self._thoughts.get(move, (None, None, None)) for move in range(len(self.game.moves))), strict=True
        )
        winrates, scores, visits = (list(column) for column in columns) if self.game.moves else ([], [], [])
        result = self.result or sgf.UNKNOWN_RESULT
        names = {"black": self.names[Colour.BLACK], "white": self.names[Colour.WHITE]}
        return self.game.record(result=result, winrates_black=winrates, scores_black=scores, visits=visits, **names)

    def save(self) -> None:
        """Writes the game into its file, if it has one and that doesn't hold it already. Raises InputError where that
        can't be.
        """
        if self.path is not None and not self._is_saved:
            sgf.write(self.path, self.record())
            self._is_saved = True


def _in_blacks_view(analysis: Analysis, player: Colour) -> tuple[float, float, int]:
    """Returns Black's winrate, Black's lead in points, and the visits."""
    if player is Colour.BLACK:
        return analysis.winrate, analysis.score, analysis.visits
    return 1 - analysis.winrate, -analysis.score, analysis.visits
