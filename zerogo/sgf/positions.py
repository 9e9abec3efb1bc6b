"""From game records to positions: one game by the plain rules, which finds illegal moves, and many games as one
batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced

import torch

from zerogo import board, coords
from zerogo.errors import InputError
from zerogo.game import Colour, GameState, Move
from zerogo.sgf.record import Edit, GameRecord

PLAYERS = {"b": Colour.BLACK, "w": Colour.WHITE}


def replay(record: GameRecord, num_moves: int | None = None) -> tuple[list[GameState], str | None]:
    """Returns the states after 0, 1, 2, ... moves as far as they are legal, and what is wrong with the next one, None
    where nothing is.

    num_moves: how far to go, by default to the end. Edits are part of the state that comes before their move; history
    begins anew there. Where one side moves twice in a row the other one has passed in between, and a game goes on after
    two passes. No state at all comes back where the position at the start is impossible (a string without liberties).
    """
    wanted = len(record.moves) if num_moves is None else min(num_moves, len(record.moves))
    turns, edits = record.turns(), {edit.before: edit for edit in record.edits}
    try:
        states = [GameState.from_stones(record.start(), PLAYERS[record.first], record.rules)]
    except InputError as error:
        return [], f"the position at the start is impossible: {error}"
    for number in range(wanted):
        player, action = PLAYERS[turns[number]], record.moves[number]
        before = turned(states[-1], player)
        move = Move.from_action(action, record.rules.size)
        reason = before.why_illegal(move)
        if reason is not None:
            return states, f"move {number + 1}, {_named(player, action, record)}, is illegal: {reason}"
        state = before.play(move)
        if number + 1 in edits:
            try:
                state = _edited(state, edits[number + 1])
            except InputError as error:
                return states, f"the stones set up after move {number + 1} make an impossible position: {error}"
        states.append(state)
    return states, None


def since_edit(record: GameRecord, num_moves: int | None = None) -> GameRecord:
    """Returns the record without edits: from the last one at or before `num_moves` moves, whose position is the start,
    up to there.

    The record itself, only shortened, where there is no such edit. Raises InputError where the moves up to the edit are
    illegal."""
    wanted = len(record.moves) if num_moves is None else num_moves
    if not 0 <= wanted <= len(record.moves):
        raise InputError(
            f"SGF: the position after {wanted} moves of a game with {len(record.moves)}; allowed are 0 to {len(record.moves)}"
        )
    begin = max((edit.before for edit in record.edits if edit.before <= wanted), default=0)
    start: dict[str, object] = {}
    if begin:
        states, problem = replay(record, begin)
        if problem is not None:
            raise InputError(f"SGF: {problem}")
        start = {
            "setup": states[-1].stones(),
            "handicap": [],
            "first": "b" if states[-1].to_play is Colour.BLACK else "w",
        }
    lists = {
        name: getattr(record, name)[begin:wanted]
        for name in ("moves", "comments", "winrates_black", "scores_black", "visits")
    }
    return replaced(record, colours=record.turns()[begin:wanted], edits=[], **lists, **start)


def positions(
    records: Sequence[GameRecord], move_numbers: Sequence[int], device: torch.device | str = "cpu", check: bool = True
) -> board.State:
    """Returns the positions after so many moves of each record, with their history, as a batch: B = len(records) =
    len(move_numbers).

    The side to move is the one that moves next in the record, at its end the other side. check: whether the moves are
    looked at first, by the plain rules (0.3 ms a move); unchecked illegal moves give a position that means nothing.
    Raises InputError for a number that a record has not, and for an illegal move, with the record's index from 0."""
    if not records or len(records) != len(move_numbers):
        raise InputError(
            f"SGF: {len(records)} records and {len(move_numbers)} move numbers; as many of each are needed, and at least one"
        )
    parts, next_to_play = [], []
    for index, (record, number) in enumerate(zip(records, move_numbers, strict=True)):
        try:
            part = since_edit(record, number)
        except InputError as error:
            raise InputError(f"record {index}: {error}") from None
        problem = replay(part)[1] if check else None
        if problem is not None:
            raise InputError(f"record {index}: {problem}")
        parts.append(part)
        next_to_play.append(_next(record, number, part))
    return _batch(parts, next_to_play, device)


def _batch(parts: Sequence[GameRecord], next_to_play: Sequence[int], device: torch.device | str) -> board.State:
    """Returns the positions at the end of records without edits."""
    side, longest = max(part.rules.size for part in parts), max(len(part.moves) for part in parts)
    stones = torch.zeros(len(parts), side, side, dtype=torch.int8)
    colours = torch.zeros(len(parts), longest, dtype=torch.int8)
    actions = torch.full((len(parts), longest), board.NO_MOVE, dtype=torch.int64)
    for index, part in enumerate(parts):
        size, length = part.rules.size, len(part.moves)
        stones[index, :size, :size] = torch.tensor(part.start(), dtype=torch.int8)
        colours[index, :length] = torch.tensor([PLAYERS[colour].value for colour in part.turns()], dtype=torch.int8)
        actions[index, :length] = torch.tensor(
            [_action_in(action, size, side) for action in part.moves], dtype=torch.int64
        )
    first = torch.tensor([PLAYERS[part.first].value for part in parts], dtype=torch.int8)
    mover = torch.tensor(next_to_play, dtype=torch.int8)
    tensors = (tensor.to(device) for tensor in (stones, first, colours, actions, mover))
    on_device = list(tensors)
    return board.replay(*on_device[:2], [part.rules for part in parts], *on_device[2:])


def _action_in(action: int, size: int, side: int) -> int:
    """Returns a board's action as an action of a batch whose tensors are larger."""
    return side * side if action == size * size else action // size * side + action % size


def _next(record: GameRecord, number: int, part: GameRecord) -> int:
    """Returns who is to move after so many moves: 1 or 2."""
    if number < len(record.moves):
        return PLAYERS[record.turns()[number]].value
    if part.moves:
        return PLAYERS[part.turns()[-1]].other.value
    return PLAYERS[part.first].value


def turned(state: GameState, player: Colour) -> GameState:
    """Returns the state with the player to move: a game that was over goes on, and the other side has passed if it was
    its turn.
    """
    if state.passes >= 2:
        state = replaced(state, passes=0)
    if state.to_play is player:
        return state
    return replaced(replaced(state, passes=0).play(Move.pass_turn()), passes=0)


def _edited(state: GameState, edit: Edit) -> GameState:
    """Returns the position with the stones of an edit, without history. Raises InputError for a string without
    liberties.
    """
    rows, size = state.stones(), state.rules.size
    for point, colour in edit.stones.items():
        row, column = coords.row_col(point, size)
        rows[row][column] = colour
    return GameState.from_stones(rows, PLAYERS.get(edit.first, state.to_play), state.rules)


def _named(player: Colour, action: int, record: GameRecord) -> str:
    """Returns a move as a person says it, "black D4"."""
    return f"{player.name.lower()} {coords.to_gtp(action, record.rules.size)}"
