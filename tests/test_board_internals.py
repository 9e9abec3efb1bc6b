"""The board's shortcuts against what they stand for: carried atari, kernels, the hash chains and the filters before
superko.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from zerogo import board, draws, flood
from zerogo.board import State, history, superko, zobrist
from zerogo.board.position import find_atari, legal_rows, play
from zerogo.rules import Rules

RULES = {
    "9": Rules(9),
    "5-situational-suicide": Rules(5, superko="situational", suicide=True),
    "3-suicide": Rules(3, suicide=True),
    "2-situational": Rules(2, superko="situational"),
    "7-simple-suicide": Rules(7, superko="simple", suicide=True),
    "13": Rules(13, superko="situational"),
    "25-suicide": Rules(25, suicide=True),
    "mixed": [
        Rules(2),
        Rules(5, suicide=True),
        Rules(7, superko="situational"),
        Rules(4, superko="simple"),
        Rules(1, suicide=True),
    ]
    * 6,
    "1-suicide": Rules(1, suicide=True),
}


def _refuse(*_args, **_options):
    raise AssertionError("this would wait for the device")


@pytest.fixture
def not_looking(monkeypatch):
    """Returns a function that runs another one as on CUDA, where the host may not look at the data."""

    def run(function, *args):
        with monkeypatch.context() as patch:
            patch.setattr(flood, "may_look", lambda tensor: False)
            patch.setattr("zerogo.kernels._in_use", False)
            for name in ("item", "tolist", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__"):
                patch.setattr(Tensor, name, _refuse)
            return function(*args)

    return run


def random_moves(state: State, seed: int) -> Tensor:
    """Returns uniform legal moves; a pass is rare, so that the games get long: int64 [B]."""
    weights = board.legal_actions(state).to(torch.float32)
    weights[:, -1] = 0.03
    return draws.choose(draws.key(seed, torch.arange(state.num_games), state.ply), weights)


def assert_same(one, other, what: str = "") -> None:
    """All tensors of two dataclasses are equal, with shapes and dtypes."""
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape, (what, field.name)
            assert torch.equal(a, b), (
                what,
                field.name,
                (a != b).reshape(len(a), -1).any(1).nonzero().flatten().tolist(),
            )


def games_of(name: str, plies: int, num_games: int = 30):
    """Yields the states of random games under the named rules."""
    rules = RULES[name]
    state = board.new_games(num_games, rules, move_cap=plies)
    for _ in range(plies):
        yield state
        state = board.step(state, random_moves(state, 7))
    yield state


@pytest.mark.parametrize("name", RULES)
def test_carried_fields_and_superko(name: str) -> None:
    """At every ply: atari and hash are what they are when made from nothing, and the few suspects of superko are all
    that it bans.
    """
    for state in games_of(
        name, 120 if name[:2] not in ("13", "25") else 250, 30 if name[:2] not in ("13", "25") else 8
    ):
        atari, breathless = find_atari(state.black, state.white, state.on_board)
        assert torch.equal(atari, state.atari) and not breathless.any()
        assert torch.equal(zobrist.hash_stones(state.black, state.white), state.hash)
        if state.board_size <= 9:
            legal = legal_rows(state, state.on_board, state.suicide)
            suicides = legal & ~legal_rows(state, state.on_board, None)
            repeating = legal & superko._repeating_bounded(
                state, suicides
            )  # tests every point, whatever was lost before
            repeating[state.rules.superko == superko.SIMPLE] = 0
            assert torch.equal(superko.repeating_rows(state, legal), repeating)


@pytest.mark.parametrize("name", RULES)
def test_host_that_may_not_look_comes_to_the_same(name: str, not_looking) -> None:
    """A game stepped as on CUDA has the fields of one stepped by the host: every tensor, the history and the chains in
    it too.
    """
    rules = RULES[name]
    plies, num_games = (60, 30) if name[:2] not in ("13", "25") else (12, 4)
    looking = board.new_games(num_games, rules, move_cap=50)
    blind = not_looking(board.new_games, num_games, rules, "cpu", 50)
    for ply in range(plies):
        assert torch.equal(board.legal_actions(looking), not_looking(board.legal_actions, blind)), ply
        actions = random_moves(looking, 3)
        looking, blind = board.step(looking, actions), not_looking(board.step, blind, actions)
        going = (~looking.finished).nonzero().flatten()
        assert_same(looking, dataclasses.replace(blind, links=looking.links), f"ply {ply}")
        assert torch.equal(looking.links[going], blind.links[going])


def test_play_takes_views_and_parts_of_a_batch() -> None:
    """The search hands over rows that lie apart in memory, and some of the games."""
    state = board.new_games(40, Rules(7), move_cap=60)
    for _ in range(30):
        state = board.step(state, random_moves(state, 5))
    actions = random_moves(state, 6)
    wide = torch.stack([state.black, state.white, state.atari, state.on_board], dim=1)
    apart = dataclasses.replace(state, black=wide[:, 0], white=wide[:, 1], atari=wide[:, 2])
    after, _ = play(apart, actions, wide[:, 3], None, state.cap)
    whole, _ = play(state, actions, state.on_board, None, state.cap)
    assert_same(after, whole)
    assert torch.equal(legal_rows(apart, wide[:, 3], None), legal_rows(state, state.on_board, None))
    index = torch.tensor([31, 2, 17])
    part, _ = play(board.select(state, index), actions[index], state.on_board[index], None, state.cap[index])
    for field in dataclasses.fields(part):
        assert torch.equal(getattr(part, field.name), getattr(whole, field.name)[index]), field.name


def test_step_leaves_the_given_state_alone() -> None:
    state = board.new_games(16, Rules(4, suicide=True), move_cap=25)
    for _ in range(30):
        before = state.map(torch.clone)
        after = board.step(state, random_moves(state, 2))
        assert_same(state, before)
        state = after


@pytest.mark.parametrize("board_size", [1, 2, 5, 9, 19, 25])
def test_floods_agree(board_size: int, not_looking) -> None:
    generator = torch.Generator().manual_seed(board_size)
    for density in (0.3, 0.6, 0.9):
        within = flood.pack_rows(torch.rand(70, board_size, board_size, generator=generator) < density)
        seeds = flood.pack_rows(torch.rand(70, board_size, board_size, generator=generator) < 0.05)
        grown = flood.flood(seeds, within)
        assert torch.equal(grown, not_looking(flood.flood, seeds, within))
        assert torch.equal(flood.row_counts(within), not_looking(flood.row_counts, within))


def test_chains_are_those_made_from_nothing() -> None:
    state = board.new_games(40, Rules(3, suicide=True), move_cap=200)
    for _ in range(100):
        state = board.step(state, random_moves(state, 9))
        going = ~state.finished
        assert torch.equal(history.links_of(state.seen, state.seen.shape[1])[going], state.links[going])
    assert going.any() and state.seen.shape[1] == 128


def test_history_follows_the_longest_game_not_the_steps() -> None:
    """Replacing finished games for ever must not let the remembered positions grow for ever."""
    fresh = board.new_games(20, Rules(3), move_cap=15)
    state = fresh.map(torch.clone)
    for _ in range(200):
        state = board.step_(state, random_moves(state, 4))
        ended = state.finished.nonzero().squeeze(1)
        if ended.numel():
            state = board.put_(state, ended, board.select(fresh, ended))
    assert state.seen.shape[1] == history.FIRST_WIDTH and state.ply_bound <= 15


def position(diagram: str, **rules) -> State:
    """Returns one game from a diagram of X, O and dots, Black to move, simple ko unless told."""
    rows = diagram.split()
    stones = torch.tensor([[{".": 0, "X": 1, "O": 2}[point] for point in row] for row in rows], dtype=torch.int8)
    return board.from_stones(
        stones.unsqueeze(0), torch.tensor([1], dtype=torch.int8), Rules(len(rows), **{"superko": "simple", **rules})
    )


CASES = {  # before, the move (row, column), after, stones in atari after
    "joins_a_string_in_atari": (".XO. .O.. .... ....", (0, 0), "XXO. .O.. .... ....", "XX.. .... .... ...."),
    "corner_capture": ("O... X... .... ....", (0, 1), ".X.. X... .... ....", ".... .... .... ...."),
    "long_row": ("OOOO XXX. .... ....", (1, 3), ".... XXXX .... ....", ".... .... .... ...."),
    "puts_in_atari": ("OO.. X... .... ....", (1, 1), "OO.. XX.. .... ....", "OO.. .... .... ...."),
}


@pytest.mark.parametrize("name", CASES)
def test_diagrams(name: str, not_looking) -> None:
    before, (row, column), after, atari = CASES[name]
    state, wanted = position(before), position(after)
    action = torch.tensor([row * state.board_size + column])
    for result in (board.step(state, action), not_looking(board.step, state, action)):
        assert torch.equal(result.stones, wanted.stones)
        assert torch.equal(result.atari, position(atari.replace("O", "X")).black)


def test_suicide_relieves_what_surrounds_it(not_looking) -> None:
    """The white stone in the corner has one liberty, where Black's two stones die; then it has two."""
    state = position("X.O OO. ...", suicide=True)
    for result in (board.step(state, torch.tensor([1])), not_looking(board.step, state, torch.tensor([1]))):
        assert torch.equal(result.stones, position("..O OO. ...").stones)
        assert result.captures.tolist() == [[0, 2]] and not result.atari.any() and result.ko.tolist() == [-1]


def test_put_right_after_the_start() -> None:
    """Fresh games must not share memory between their fields: the stones put into one colour's plane once came back in
    the other's.
    """
    games = board.new_games(3, Rules(3))
    moved = board.step(board.select(games, torch.tensor([1])), torch.tensor([4]))
    games = board.put_(games, torch.tensor([1]), moved)
    assert games.stones.flatten(1).tolist() == [[0] * 9, [0, 0, 0, 0, 1, 0, 0, 0, 0], [0] * 9]
    tensors = [
        getattr(games, field.name)
        for field in dataclasses.fields(games)
        if isinstance(getattr(games, field.name), torch.Tensor)
    ]
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)
