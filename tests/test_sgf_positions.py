"""From records to positions: replay by the plain rules, and batches against it."""

from __future__ import annotations

import random

import pytest
import torch

from zerogo import board, coords
from zerogo.errors import InputError
from zerogo.game import Colour, GameState, Move
from zerogo.rules import Rules
from zerogo.sgf import Edit, GameRecord, positions, read_text, replay, since_edit


def random_record(seed: int, size: int, plies: int, rules: Rules | None = None) -> GameRecord:
    """Returns a game of random legal moves, some of them passes."""
    draw = random.Random(seed)
    rules = rules or Rules(size)
    state, moves = GameState.new(rules), []
    while len(moves) < plies and not state.is_over:
        legal = state.legal_moves()
        move = draw.choice(legal[:-1] or legal) if draw.random() < 0.95 else legal[-1]
        moves.append(move.action(size))
        state = state.play(move)
    return GameRecord(rules, moves)


def test_replay_gives_every_state() -> None:
    record = random_record(3, 5, 40)
    states, problem = replay(record)
    assert problem is None and len(states) == len(record.moves) + 1
    state = GameState.new(record.rules)
    for number, action in enumerate(record.moves):
        assert states[number].stones() == state.stones() and states[number].history == state.history
        state = state.play(Move.from_action(action, 5))
    assert states[-1].stones() == state.stones() and states[-1].captures == state.captures
    assert len(replay(record, 7)[0]) == 8


STRINGS = "impossible: stones: the string on A5 has no liberty; every string needs one"


@pytest.mark.parametrize(
    ("text", "num_states", "problem"),
    [
        (";B[aa];W[bb];B[aa]", 3, "move 3, black A5, is illegal: occupied: a stone stands on A5"),
        (";B[ba];W[cc];B[ab];W[aa]", 4, "move 4, white A5, is illegal: suicide: a white stone on A5 would have"),
        ("AB[aa]AW[ba][ab]", 0, f"the position at the start is {STRINGS}"),
        (";B[ba];W[ce];AB[ab]AW[aa]", 2, "the stones set up after move 2 make an impossible position: stones:"),
        (";B[];W[];B[aa];B[];W[]", 6, None),  # a game may go on after two passes
    ],
)  # fmt: skip
def test_replay_says_what_is_wrong(text: str, num_states: int, problem: str | None) -> None:
    states, found = replay(read_text(f"(;SZ[5]KM[0]RU[Chinese]{text})"))
    assert len(states) == num_states
    assert found is None if problem is None else found.startswith(problem)


def test_simple_ko() -> None:
    states, problem = replay(read_text("(;SZ[5]KM[0]RU[Chinese]AB[ba][ab][bc]AW[ca][bb][db][cc];B[cb];W[bb])"))
    assert len(states) == 2 and problem == "move 2, white B4, is illegal: ko: B4 may not be retaken at once"


# Send two, return one; the earlier position had White to move.
SEND_TWO = "b A2,w C2,b E5,w D1,b E6,w B1,b B2,w A1,b C1,w B1"
SEND_TWO_BLACK = "b A2,w C2,b B2,w D1,b E6,w B1,b pass,w A1,b C1,w B1"  # the same, but it had Black to move


@pytest.mark.parametrize(
    ("rules", "sequence", "legal"),
    [
        ("chinese", SEND_TWO, True), ("tromp-taylor", SEND_TWO, False), ("aga", SEND_TWO, True),
        ("chinese", SEND_TWO_BLACK, True), ("tromp-taylor", SEND_TWO_BLACK, False), ("aga", SEND_TWO_BLACK, False),
    ],
)  # fmt: skip
def test_superko_is_that_of_the_rules(rules: str, sequence: str, legal: bool) -> None:
    """As GNU Go 3.8 says with --simple-ko, --positional-superko and --situational-superko."""
    moves = [word.split() for word in sequence.split(",")]
    text = "".join(f";{colour.upper()}[{coords.to_sgf(coords.from_gtp(vertex, 9), 9)}]" for colour, vertex in moves)
    problem = replay(read_text(f"(;SZ[9]KM[0]RU[{rules}]{text})"))[1]
    assert (problem is None) == legal and (legal or problem.startswith("move 10, white B1, is illegal: superko"))


def test_two_moves_in_a_row() -> None:
    states, problem = replay(read_text("(;SZ[5]KM[0]RU[Chinese];B[aa];B[bb];B[cc];W[dd];W[ee])"))
    assert problem is None and [state.to_play for state in states[1:]] == [Colour.WHITE] * 3 + [Colour.BLACK] * 2
    assert sum(map(sum, states[-1].stones())) == 3 + 2 * 2


@pytest.mark.parametrize("superko", ["simple", "positional", "situational"])
def test_batches_are_the_same_positions(superko: str) -> None:
    """Stones, side to move, legal moves (superko included), captures and passes, at every third move of games of
    several lengths.
    """
    rules = Rules(5, 7.0, superko, suicide=superko == "situational")
    records = [random_record(seed, 5, 60, rules) for seed in range(4)]
    asked = [(record, number) for record in records for number in range(0, len(record.moves) + 1, 3)]
    batch = positions(*zip(*asked, strict=True))
    legal = board.legal_actions(batch).tolist()
    for index, (record, number) in enumerate(asked):
        state = replay(record, number)[0][-1]
        assert batch.stones[index].tolist() == state.stones() and int(batch.to_play[index]) == state.to_play.value
        assert bool(batch.finished[index]) == state.is_over and int(batch.passes[index]) == state.passes
        if not state.is_over:
            assert legal[index] == state.legal_mask()
        assert batch.captures[index].tolist() == [state.captures[Colour.BLACK], state.captures[Colour.WHITE]]


def test_batches_of_different_boards() -> None:
    records = [random_record(1, 3, 6), random_record(2, 7, 30), GameRecord(Rules(5, 0.5), [0, 25], colours=["b", "b"])]
    batch = positions(records, [len(record.moves) for record in records])
    assert batch.board_size == 7
    for index, record in enumerate(records):
        size = record.rules.size
        assert batch.stones[index, :size, :size].tolist() == replay(record)[0][-1].stones()
        assert not batch.stones[index, size:].any() and not batch.stones[index, :, size:].any()
        assert batch.rules.at(index) == record.rules
    assert int(batch.to_play[2]) == board.WHITE


def test_the_side_to_move_is_the_records() -> None:
    record = read_text("(;SZ[5]KM[0]RU[Chinese]PL[W];B[aa];B[bb];AW[ee]PL[B])")
    batch = positions([record] * 3, [0, 1, 2])
    assert batch.to_play.tolist() == [board.BLACK, board.BLACK, board.BLACK]
    assert positions([GameRecord(Rules(5), [], first="w")], [0]).to_play.tolist() == [board.WHITE]


def test_edits() -> None:
    record = read_text("(;SZ[3]KM[0]RU[Chinese];B[aa]C[x];W[bb];AE[aa]AB[cc];B[ac]C[y];W[ca];AW[ba])")
    states, problem = replay(record)
    assert problem is None and states[2].stones() == [[0, 0, 0], [0, 2, 0], [0, 0, 1]] and len(states[2].history) == 1
    assert states[-1].stones() == [[0, 2, 2], [0, 2, 0], [1, 0, 1]]
    part = since_edit(record, 3)
    assert (part.moves, part.setup, part.comments) == ([6], states[2].stones(), ["y"])
    assert part.first == "b" and part.edits == []
    assert since_edit(record, 1).moves == [0] and since_edit(record, 1).setup is None
    batch = positions([record] * 5, range(5))
    assert batch.stones.tolist() == [state.stones() for state in states] and batch.to_play.tolist() == [1, 2, 1, 2, 1]


def test_edits_after_illegal_moves_are_refused() -> None:
    record = GameRecord(Rules(5), [0, 0, 1], edits=[Edit(2, {5: 1})])
    with pytest.raises(InputError, match="SGF: move 2, white A5, is illegal"):
        since_edit(record)
    assert since_edit(record, 1).moves == [0]


def test_what_positions_refuses() -> None:
    good, bad = GameRecord(Rules(5), [0, 1]), GameRecord(Rules(5), [0, 0])
    with pytest.raises(InputError, match="record 1: move 2, white A5, is illegal: occupied"):
        positions([good, bad], [2, 2])
    assert positions([good, bad], [2, 1]).stones.shape == (2, 5, 5)
    for records, numbers, what in (([], [], "0 records"), ([good], [1, 2], "1 records and 2 move")):
        with pytest.raises(InputError, match=what):
            positions(records, numbers)
    for number in (-1, 3):
        with pytest.raises(InputError, match="record 0: SGF: the .* allowed are 0 to 2"):
            positions([good], [number])


def test_positions_can_be_stepped_on_from() -> None:
    state = positions([GameRecord(Rules(5), [0, 1]), GameRecord(Rules(5), [12], first="w")], [2, 1])
    after = board.step(state, torch.tensor([coords.from_gtp("E5", 5), 25]))
    assert after.stones[0, 0].tolist() == [1, 2, 0, 0, 1] and after.stones[1, 2, 2] == 2
