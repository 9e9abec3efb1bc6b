"""One game that GTP, the terminal and the pictures share, played by the plain, exact rules of `zerogo.game`."""

import dataclasses
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import count, takewhile

import torch

from zerogo import board, sgf
from zerogo.errors import InputError
from zerogo.game import Colour, GameState, Move, Point
from zerogo.players.analyst import Analysis
from zerogo.rules import Rules, RulesBatch, coords
from zerogo.sgf import GameRecord, Remark
from zerogo.sgf.record import LETTERS, MOST_MOVES, play_moves, with_to_play

_starts = count(1)


class LiveGame:
    """A game with undo, set-up positions and rules that may change during play.

    rules, size: the same for all moves; size is N. start: the stones before the first move, rows from the top of 0, 1,
    2. first: who moves first. handicap: points of Black's handicap stones, which stand in `start`. moves: (colour,
    action) of each move so far. result: SGF's RE (see `sgf.result_text`) after a resignation or a count, None before
    and after any change. start_id: a new number whenever the start or the rules change, which makes analyses invalid.

    A side may move twice in a row; the other side then counts as having passed. A game may go on after two passes."""

    def __init__(self, rules: Rules) -> None:
        self._begin(GameState.new(rules))

    def _begin(self, start: GameState, handicap: Iterable[int] = ()) -> None:
        self._states, self.rules, self.size = [start], start.rules, start.rules.size
        self.start, self.first = start.stones(), start.to_play
        self.moves: list[tuple[Colour, int]] = []
        self._remarks: list[Remark] = []  # of each move
        self._about: dict[str, object] = {}  # further fields of the record that it was read from
        self.handicap, self.result = list(handicap), None
        self.start_id = next(_starts)

    @property
    def state(self) -> GameState:
        """The present position."""
        return self._states[-1]

    @property
    def to_play(self) -> Colour:
        """Whose turn it is."""
        return self.state.to_play

    @property
    def last_action(self) -> int | None:
        """The last move, None before the first."""
        return self.moves[-1][1] if self.moves else None

    def change_rules(self, **changes: object) -> None:
        """Changes rules other than the size, such as komi=6.5. Moves that would not be legal now stay played."""
        if (rules := dataclasses.replace(self.rules, **changes)) != self.rules:
            self._states = [dataclasses.replace(state, rules=rules) for state in self._states]
            self.rules, self.result, self.start_id = rules, None, next(_starts)

    @property
    def turn(self) -> int:
        """The plies played so far; each stone of the start counts as one, as KataGo guesses."""
        return len(self.moves) + sum(stone > 0 for row in self.start for stone in row)

    def place_handicap(self, points: Iterable[int]) -> None:
        """Puts Black's handicap on the empty board; White moves first. Raises InputError for bad points, or stones."""
        points = list(points)
        if self.moves or any(any(row) for row in self.start):
            raise InputError("board not empty")
        places = [Point(*coords.row_col(point, self.size)) for point in points]
        self._begin(GameState.new(self.rules, places), points)

    def set_up(self, rows: list[list[int]], to_play: Colour) -> None:
        """Begins from stones without history, rows as in `start`. Raises InputError for a string without liberty."""
        self._begin(GameState.from_stones(rows, to_play, self.rules))

    def why_illegal(self, colour: Colour, action: int, allows_repetition: bool = False) -> str | None:
        """Returns why a move is not legal, None where it is: action 0 to N * N. allows_repetition: whether superko
        does not matter."""
        return self._before(colour, allows_repetition).why_illegal(Move.from_action(action, self.size))

    def _before(self, colour: Colour, allows_repetition: bool) -> GameState:
        state = with_to_play(self.state, colour)
        if not allows_repetition or self.rules.superko == "simple":
            return state
        return dataclasses.replace(state, rules=dataclasses.replace(self.rules, superko="simple"))

    def play(
        self, colour: Colour, action: int, analysis: Analysis | None = None, allows_repetition: bool = False
    ) -> None:
        """Plays a move. Raises InputError with the reason where it is illegal; the game is then as before. analysis:
        that led to the move, for the record."""
        if len(self.moves) == MOST_MOVES:
            raise InputError(f"the game has {MOST_MOVES} moves, the most that it may have")
        after = self._before(colour, allows_repetition).play(Move.from_action(action, self.size))
        self._states.append(dataclasses.replace(after, rules=self.rules))
        self._remarks.append(Remark(None, *analysis.of_black(colour), analysis.visits) if analysis else Remark())
        self.moves.append((colour, action))
        self.result = None

    def go_to(self, moves: Sequence[tuple[Colour, int]]) -> str | None:
        """Sets the moves, keeping those that agree from the start. Returns why one of them is illegal (the game then
        stops before it), None if all are legal."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.moves, moves, strict=False)))
        self.undo(len(self.moves) - same)
        for colour, action in moves[same:]:
            try:
                self.play(colour, action)
            except InputError as error:
                return str(error)
        return None

    def resign(self, colour: Colour) -> None:
        """Ends the game: the other side has won."""
        self.result = sgf.result_text(-colour.sign, by_resignation=True)

    def undo(self, number: int = 1) -> None:
        """Takes back moves. Raises InputError, and takes back none, where the game has fewer."""
        if not 0 <= number <= len(self.moves):
            raise InputError("cannot undo")
        if number:
            del self._states[-number:]
            del self.moves[-number:]
            del self._remarks[-number:]
            self.result = None

    def copy(self) -> "LiveGame":
        """Returns an independent copy of the game."""
        game = copy(self)
        game._states, game.moves, game._remarks = self._states[:], self.moves[:], self._remarks[:]
        return game

    def last_passes(self) -> list[Colour]:
        """Returns who made the passes at the end of the game."""
        return [colour for colour, _ in takewhile(lambda move: move[1] == self.size**2, reversed(self.moves))]

    @property
    def is_over(self) -> bool:
        """Whether both sides have passed since the last stone, also after further passes."""
        return len(set(self.last_passes())) == 2

    def score_black(self, dead: Iterable[int] = ()) -> float:
        """Returns Black's score less White's and komi, by the rules. dead: points of stones that count as taken."""
        return self.state.score_black([Point(*divmod(point, self.size)) for point in dead])

    def tensor(self, device: torch.device | str = "cpu", to_play: Colour | None = None) -> board.State:
        """Returns the present position with its history as a batch of one; to_play: by default whose turn it is."""
        stones = torch.tensor([self.start], dtype=torch.int8, device=device)
        first = torch.tensor([self.first.value], dtype=torch.int8, device=device)
        colours = torch.tensor([[colour.value for colour, _ in self.moves]], dtype=torch.int8, device=device)
        actions = torch.tensor([[action for _, action in self.moves]], dtype=torch.int64, device=device)
        mover = torch.tensor([(to_play or self.to_play).value], dtype=torch.int8, device=device)
        # Suicide may have been allowed when it was played.
        played = play_moves(stones, first, dataclasses.replace(self.rules, suicide=True), colours, actions, mover)
        return dataclasses.replace(played, rules=RulesBatch.of(self.rules, device=device))

    def record(self, **fields: object) -> GameRecord:
        """Returns the game as a record, with winrates, scores and visits of the searches for its moves, and with the
        comments of the record that it was read from. fields: further fields, such as result="B+R" or black="Anna"."""
        colours = [LETTERS[colour] for colour, _ in self.moves]
        setup = None if self.handicap or not any(any(row) for row in self.start) else self.start
        contents = {"colours": colours, "setup": setup, "first": LETTERS[self.first], "handicap": list(self.handicap)}
        contents |= {"remarks": self._remarks[:], "result": self.result or sgf.UNKNOWN_RESULT}
        return GameRecord(self.rules, [action for _, action in self.moves], **(self._about | contents | fields))

    @staticmethod
    def of_record(record: GameRecord, num_moves: int | None = None) -> "LiveGame":
        """Returns a record's game after its first `num_moves` moves, by default all. It begins with the last stones
        set up before that point. Raises InputError where one of the moves is illegal, with the move and the reason."""
        states, problem = sgf.replay(record, num_moves)
        if problem is not None:
            raise InputError(problem)
        part = sgf.since_edit(record, num_moves)
        begin = len(states) - 1 - len(part.moves)
        has_handicap = part.setup is None and len(part.handicap) > 1 and part.first == "w"
        game = LiveGame(part.rules)
        game._begin(states[begin], part.handicap if has_handicap else ())
        game._states, game.moves = states[begin:], part.played()
        game._remarks = [*part.remarks, *[Remark()] * (len(part.moves) - len(part.remarks))]
        game._about = {name: getattr(part, name) for name in ("comment", "event", "round", "date")}
        left_out = ("RU", "BR", "WR", "BT", "WT")  # ranks and teams are of players whom others may follow
        game._about["properties"] = {name: text for name, text in part.properties.items() if name not in left_out}
        return game
