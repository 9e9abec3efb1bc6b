"""What a person sees: the board, in colours where the terminal has them, and a bot's thoughts in words."""

from __future__ import annotations

import torch

from zerogo import coords, picture
from zerogo.game import Colour
from zerogo.players.analyst import Analysis
from zerogo.players.live import LiveGame

LONGEST_LINE = 8  # moves of an expected line that are shown
_END, _BOLD, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
_WOOD, _BLACK, _WHITE, _GRID, _MARK = (
    "\x1b[48;5;180m",
    "\x1b[38;5;16m",
    "\x1b[38;5;231m",
    "\x1b[38;5;137m",
    "\x1b[38;5;160m",
)


class Screen:
    """How things are written. in_colour: by ANSI codes; round_stones: as circles, where the terminal's encoding has
    them.
    """

    def __init__(self, in_colour: bool = False, round_stones: bool = False) -> None:
        self.in_colour, self.round_stones = in_colour, in_colour and round_stones

    def board(self, game: LiveGame) -> str:
        """Returns the board with coordinates and the last move marked, and below it the prisoners."""
        stones = torch.tensor(game.state.stones(), dtype=torch.int8)
        lines = picture.board_text(stones, game.last_action).split("\n")
        if self.in_colour:
            lines[1 : game.size + 1] = [self._row(line) for line in lines[1 : game.size + 1]]
        taken = game.state.captures
        told = [f"{self.name(player)} has taken {taken[player]}" for player in Colour]
        lines.append(f"{', '.join(told)}; komi {game.rules.komi:g}")
        return "\n".join(lines)

    def name(self, player: Colour) -> str:
        """Returns a colour's name, with its sign where the board shows letters."""
        sign = "" if self.round_stones else " (X)" if player is Colour.BLACK else " (O)"
        return name_of(player) + sign

    def _row(self, line: str) -> str:
        """Returns a row of the board, " 9 . .(X)O 9", on wood: the points and the gaps around them lie between the two
        numbers.
        """
        end = len(line.rstrip("0123456789"))
        black, white, empty = "●●·" if self.round_stones else "XO."
        drawn = {
            "X": f"{_BLACK}{black}",
            "O": f"{_WHITE}{white}",
            ".": f"{_GRID}{empty}",
            "(": f"{_MARK}{_BOLD}(",
            ")": f"{_MARK}{_BOLD}){_END}{_WOOD}",
        }
        points = "".join(drawn.get(sign, sign) for sign in line[2:end])
        return f"{line[:2]}{_WOOD}{points}{_END}{line[end:]}"

    def strong(self, text: str) -> str:
        """Returns a text that stands out."""
        return f"{_BOLD}{text}{_END}" if self.in_colour else text

    def faint(self, text: str) -> str:
        """Returns a text that stands back."""
        return f"{_DIM}{text}{_END}" if self.in_colour else text


def name_of(player: Colour) -> str:
    """Returns "Black" or "White"."""
    return player.name.capitalize()


def thought_words(analysis: Analysis, player: Colour, size: int) -> str:
    """Returns what a bot thinks, as "White wins 53 %, leads by 0.6 points, expects E5 D4 C3 (400 visits)"."""
    points = abs(analysis.score)
    lead = "is even" if points < 0.05 else f"{'leads' if analysis.score > 0 else 'is behind'} by {points:.1f} points"
    words = f"{name_of(player)} wins {100 * analysis.winrate:.0f} %, {lead}"
    if analysis.best is not None:
        line = " ".join(coords.to_gtp(action, size) for action in analysis.best.pv[:LONGEST_LINE])
        words += f", expects {line}"
    return f"{words} ({analysis.visits} visits)"


def result_words(result: str) -> str:
    """Returns an RE in words: "Black wins by 3.5 points", "White wins, Black has resigned", "a draw"."""
    winner, _, how = result.partition("+")
    if not how:
        return "a draw"
    won, lost = ("Black", "White") if winner == "B" else ("White", "Black")
    return f"{won} wins, {lost} has resigned" if how == "R" else f"{won} wins by {how} points"
