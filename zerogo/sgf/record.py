"""One game as a file holds it, and its positions: by the plain rules, which find illegal moves, or many as a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from zerogo import board
from zerogo.errors import InputError
from zerogo.game import Colour, GameState, Move
from zerogo.rules import GameRules, Rules, coords

COLOURS = {"b": Colour.BLACK, "w": Colour.WHITE}
LETTERS = {colour: letter for letter, colour in COLOURS.items()}
UNKNOWN_RESULT = "?"
MOST_MOVES = 3000  # of a game that is played through, as each of its states has all positions before it: 0.4 GB


class Remark(NamedTuple):
    """What a file says of a move, None where it says nothing. comment: a text. winrate_black, score_black: Black's
    winrate in [0, 1] and lead in points after the move, as the mover's search saw them. visits: of that search."""

    comment: str | None = None
    winrate_black: float | None = None
    score_black: float | None = None
    visits: int | None = None


@dataclass
class Edit:
    """Stones that are added or removed in the middle of a game; history begins anew there.

    before: the number of moves before it. stones: point to colour, 0 (empty), 1 (black) or 2 (white). first: the side
    to move next, "b" or "w", empty for the side whose turn it is."""

    before: int
    stones: dict[int, int]
    first: str = ""


@dataclass
class GameRecord:
    """One game as a file holds it.

    moves: actions in turn, point or size * size for a pass; Black's first unless `first` is "w". handicap: points of
    Black's stones before the first move, after which White usually moves first. result: SGF's RE, see `result_text`.
    remarks: on each move; those on the last ones may be missing. event, round: of a match. date: YYYY-MM-DD, empty for
    today in UTC, None for unknown. comment: a text on the whole game. properties: more root properties, such as {"GN":
    "final"}, which win over all others.

    colours: "b" or "w" of each move, None where the sides take turns (also set to None where given so). setup: what
    stands on the board before the first move, rows from the top (0, 1, 2), None for the handicap stones alone. edits:
    changes in the middle, in order. notes: what a reader had to assume, one sentence each; never written. has_rules:
    whether the file that it comes from says them; never written."""

    rules: Rules
    moves: list[int]
    result: str = UNKNOWN_RESULT
    black: str = "Black"
    white: str = "White"
    remarks: list[Remark] = field(default_factory=list)
    event: str = ""
    round: str = ""
    date: str | None = ""
    comment: str = ""
    first: str = "b"
    handicap: list[int] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    colours: list[str] | None = None
    setup: list[list[int]] | None = None
    edits: list[Edit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list, compare=False)
    has_rules: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        if self.colours == self._alternating():
            self.colours = None

    def turns(self) -> list[str]:
        """Returns who played each move, "b" or "w"."""
        return self._alternating() if self.colours is None else list(self.colours)

    def played(self) -> list[tuple[Colour, int]]:
        """Returns the player and the action of each move."""
        return [(COLOURS[letter], action) for letter, action in zip(self.turns(), self.moves, strict=True)]

    def _alternating(self) -> list[str]:
        other = "w" if self.first == "b" else "b"
        return [other if ply % 2 else self.first for ply in range(len(self.moves))]

    def start(self) -> list[list[int]]:
        """Returns the stones before the first move, rows from the top: 0 empty, 1 black, 2 white."""
        size = self.rules.size
        if self.setup is not None:
            return [list(row) for row in self.setup]
        return [[int(row * size + column in self.handicap) for column in range(size)] for row in range(size)]


def result_text(score_black: float, by_resignation: bool = False) -> str:
    """Returns SGF's RE: "B+3.5", "W+2", "0" for a draw, "B+R" where White resigned (only the sign counts)."""
    if score_black == 0:
        return "0"
    winner = "B" if score_black > 0 else "W"
    return f"{winner}+R" if by_resignation else f"{winner}+{abs(score_black):g}"


def rules_text(rules: Rules) -> str:
    """Returns the RU that programs understand; for area scoring it distinguishes whether suicide is allowed."""
    if rules.scoring == "territory":
        return "Japanese"
    return "Tromp-Taylor" if rules.suicide else "Chinese"


def replay(record: GameRecord, num_moves: int | None = None) -> tuple[list[GameState], str | None]:
    """Returns the states after 0, 1, 2, ... legal moves (at most `num_moves`), and the error of the next move, None
    where all are legal.

    An edit is part of the state before the next move; history begins anew there. Where a side moves twice in a row the
    other one counts as having passed, and a game continues after two passes. There is no state where the position at
    the start is impossible (a string without liberties)."""
    edits = {edit.before: edit for edit in record.edits}
    try:
        states = [GameState.from_stones(record.start(), COLOURS[record.first], record.rules)]
    except InputError as error:
        return [], f"the position at the start is impossible: {error}"
    for number, (player, action) in enumerate(record.played()[:num_moves]):
        if number == MOST_MOVES:
            return states, f"move {number + 1} is beyond the {MOST_MOVES} moves that a game may have"
        before = with_to_play(states[-1], player)
        move = Move.from_action(action, record.rules.size)
        if reason := before.why_illegal(move):
            named = f"{player.name.lower()} {coords.to_gtp(action, record.rules.size)}"
            return states, f"move {number + 1}, {named}, is illegal: {reason}"
        state = before.play(move)
        if number + 1 in edits:
            try:
                state = _apply_edit(state, edits[number + 1])
            except InputError as error:
                return states, f"the stones set up after move {number + 1} make an impossible position: {error}"
        states.append(state)
    return states, None


def since_edit(record: GameRecord, num_moves: int | None = None) -> GameRecord:
    """Returns the record up to `num_moves` moves without edits: it begins with the position of the last edit until
    there. Raises InputError where the moves up to that are illegal, and for a number that the record lacks."""
    last = len(record.moves)
    num_wanted = last if num_moves is None else num_moves
    if not 0 <= num_wanted <= last:
        raise InputError(f"SGF: the position after {num_wanted} moves of a game with {last}; allowed are 0 to {last}")
    begin = max((edit.before for edit in record.edits if edit.before <= num_wanted), default=0)
    start: dict[str, object] = {}
    if begin:
        states, problem = replay(record, begin)
        if problem is not None:
            raise InputError(f"SGF: {problem}")
        start = {"setup": states[-1].stones(), "handicap": [], "first": LETTERS[states[-1].to_play]}
    lists = {"moves": record.moves, "remarks": record.remarks, "colours": record.turns()}
    return replace(record, edits=[], **{name: of_moves[begin:num_wanted] for name, of_moves in lists.items()}, **start)


def positions(
    records: Sequence[GameRecord], move_numbers: Sequence[int], device: torch.device | str = "cpu", check: bool = True
) -> board.State:
    """Returns the positions of B records, each after its number of moves, with their history, as one batch.

    The side to move is the one that moves next in the record, at its end the other side. check: whether the plain rules
    check the moves (0.3 ms each); unchecked illegal moves give a position that means nothing. Raises InputError for a
    number that a record lacks, and for an illegal move, with the record's index from 0."""
    if not records or len(records) != len(move_numbers):
        numbers = f"{len(records)} records and {len(move_numbers)} move numbers"
        raise InputError(f"SGF: {numbers}; as many of each are needed, and at least one")
    records_of_lines, to_play = [], []
    for index, (record, number) in enumerate(zip(records, move_numbers, strict=True)):
        try:
            part = since_edit(record, number)
            if check and (problem := replay(part)[1]) is not None:
                raise InputError(problem)
        except InputError as error:
            raise InputError(f"record {index}: {error}") from None
        after = COLOURS[part.turns()[-1]].other if part.moves else COLOURS[part.first]
        to_play.append((COLOURS[record.turns()[number]] if number < len(record.moves) else after).value)
        records_of_lines.append(part)
    side, longest = max(part.rules.size for part in records_of_lines), max(len(part.moves) for part in records_of_lines)
    stones = torch.zeros(len(records_of_lines), side, side, dtype=torch.int8)
    colours = torch.zeros(len(records_of_lines), longest, dtype=torch.int8)
    actions = torch.full((len(records_of_lines), longest), board.NO_MOVE, dtype=torch.int64)
    for row, part in enumerate(records_of_lines):
        size, length = part.rules.size, len(part.moves)
        stones[row, :size, :size] = torch.tensor(part.start(), dtype=torch.int8)
        colours[row, :length] = torch.tensor([1 + (colour == "w") for colour in part.turns()], dtype=torch.int8)
        moves = part.moves if size == side else [coords.on_other_board(move, size, side) for move in part.moves]
        actions[row, :length] = torch.tensor(moves, dtype=torch.int64)
    first = torch.tensor([COLOURS[part.first].value for part in records_of_lines], dtype=torch.int8)
    tensors = (stones, first, colours, actions, torch.tensor(to_play, dtype=torch.int8))
    stones, first, colours, actions, mover = (tensor.to(device) for tensor in tensors)
    return play_moves(stones, first, [part.rules for part in records_of_lines], colours, actions, mover)


def play_moves(
    stones: Tensor, to_play: Tensor, rules: GameRules, colours: Tensor, actions: Tensor, next_to_play: Tensor
) -> board.State:
    """Returns the games after given moves, which are not checked; games may have different numbers of moves.

    stones: int8 [B, N, N] and to_play: int8 [B] before the first. colours: int8 [B, T] and actions: int64 [B, T],
    `board.NO_MOVE` after a game's end. next_to_play: int8 [B], the side to move after the last move.

    If one side moves twice in a row, as in handicap games and problems, the other side is assumed to have passed in
    between. Such a pass ends no game, and `State.moves` starts anew after it. A record may continue after two passes;
    `State.moves` then keeps only the second. So a game is finished only if its last two moves are passes."""
    state = board.from_stones(stones, to_play, rules)
    plies, is_added = _with_passes(to_play, colours, actions, next_to_play, state.board_size**2)
    for action, added in zip(plies.unbind(1), is_added.unbind(1), strict=True):
        goes_on = action != board.NO_MOVE
        resumes, moves = goes_on & (state.passes >= 2), state.moves.clone()
        passes = torch.where(resumes, 0, state.passes)
        moves[:, 1:] = torch.where(resumes.unsqueeze(1), -1, moves[:, 1:])
        state = board.step_(replace(state, passes=passes, finished=~goes_on, moves=moves), action.clamp(min=0))
        moves = torch.where(added.unsqueeze(1), -1, state.moves)
        state = replace(state, passes=torch.where(added, 0, state.passes), moves=moves)
    return replace(state, finished=state.passes >= 2)


def _with_passes(
    to_play: Tensor, colours: Tensor, actions: Tensor, next_to_play: Tensor, pass_action: int
) -> tuple[Tensor, Tensor]:
    """Returns the actions by ply with the passes between two moves of a side: int64 [B, T'], and which were added: bool
    [B, T'].

    A last move is added to every record, by `next_to_play` and NO_MOVE, so that the pass before it is found, too."""
    num_games, length = actions.shape
    is_move = actions != board.NO_MOVE
    number, index = is_move.sum(1, keepdim=True), torch.arange(length + 1, device=actions.device)
    to_move = torch.cat([to_play.unsqueeze(1), torch.where(is_move, 3 - colours, 0).to(to_play.dtype)], dim=1)
    moves_next = torch.nn.functional.pad(colours, (0, 1)).scatter(1, number, next_to_play.unsqueeze(1))
    needs_pass = (index <= number) & (moves_next != to_move)
    place = index + needs_pass.cumsum(1)  # of each move; a pass that it needs is just before it
    plies = torch.full((num_games, 2 * length + 2), board.NO_MOVE, dtype=torch.int64, device=actions.device)
    plies.scatter_(1, place, torch.nn.functional.pad(actions.to(torch.int64), (0, 1), value=board.NO_MOVE))
    is_added = torch.zeros_like(plies, dtype=torch.bool)
    is_added.scatter_(1, torch.where(needs_pass, place - 1, plies.shape[1] - 1), needs_pass)
    plies = torch.where(is_added, pass_action, plies)
    used = int((plies != board.NO_MOVE).sum(1).max()) if num_games else 0
    return plies[:, :used], is_added[:, :used]


def with_to_play(state: GameState, player: Colour) -> GameState:
    """Returns the state with the player to move: the other side passes if it is its turn; no game is over by that."""
    if state.passes >= 2:
        state = replace(state, passes=0)
    if state.to_play is player:
        return state
    return replace(replace(state, passes=0).play(Move.pass_turn()), passes=0)


def _apply_edit(state: GameState, edit: Edit) -> GameState:
    """Returns the position with an edit's stones, without history. Raises InputError for a string without liberties."""
    rows = state.stones()
    for point, colour in edit.stones.items():
        row, column = coords.row_col(point, state.rules.size)
        rows[row][column] = colour
    return GameState.from_stones(rows, COLOURS.get(edit.first, state.to_play), state.rules)
