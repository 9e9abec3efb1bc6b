"""The board, by the CPU's kernels and by torch, against `zerogo.game`, and what its functions promise. Triton's kernels
are held against torch by `test_trials`, and play whole games in `test_on_cuda`."""

import dataclasses

import pytest
import torch
from boards import Lockstep, assert_same, kinds, parse, random_games, random_moves, spiral
from implementations import HAS_CUDA, IMPLEMENTATIONS, NUMBA, doing, done
from tables import tables

from zerogo import board
from zerogo.board import exact_legal_rows, flood
from zerogo.board.position import legal_rows
from zerogo.errors import InputError
from zerogo.rules import Rules

# rules, how `Lockstep` plays, plies, what at least must ban moves how often
COPIES = {1: 1, 2: 8, 3: 8, 4: 6, 5: 4, 6: 3, 7: 2, 9: 1}
PLAYED = {f"{size}": (kinds(size, copies), {}, 4 * size**2 + 20, {}) for size, copies in COPIES.items()}
PLAYED |= {f"{size}, more": (kinds(size, 10 - size // 2), {}, 4 * size**2 + 20, {}) for size in range(1, 14)}
PLAYED |= {
    f"{size}, large": (kinds(size)[size % 3 * 2 :][:2], {"long": 0.8}, 2 * size**2, {}) for size in range(14, 20)
}
for size, number in ((2, 16), (3, 50), (4, 100), (5, 100)):
    least = {"superko": number} | ({"ko": 10} if size > 2 else {})
    PLAYED[f"{size}, no passes"] = kinds(size, 2), {"pass_share": 0.0, "long": 1e9}, 200, least
# Nothing beyond a game's board influences it: small boards lie in the corner of the largest one's tensors.
PLAYED["many sizes"] = [rule for size in (1, 2, 3, 4, 5, 7, 10) for rule in kinds(size)], {}, 400, {"superko": 100}
PLAYED |= {f"{name}, by torch": PLAYED[name] for name in ("2", "3", "5")}
PLAYED["on CUDA"] = PLAYED["many sizes"][0], {"device": "cuda", "long": 1e9}, 150, {"superko": 100}
MARKS = {"on CUDA": pytest.mark.gpu}
MARKS |= {name: pytest.mark.slow for name in PLAYED if name.endswith(("more", "large")) and name != "19, large"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in PLAYED])
def test_random_games_agree_at_every_ply(name: str) -> None:
    rules, options, plies, least = PLAYED[name]
    with doing("plain" if name.endswith("torch") else "numba"):
        played = Lockstep(rules, name, **options)
        played.run(plies)
    assert played.reasons["suicide"] > 0 and all(played.reasons[kind] > number for kind, number in least.items())
    assert all(game.is_over for game in played.games) or options.get("long") == 1e9


def test_new_games_in_place_of_finished_ones_start_afresh() -> None:
    """Games that finish are replaced while the others go on, as in self-play; the step takes over the old state."""
    played = Lockstep(kinds(3, 3), "lanes", long=3, step=board.step_)
    for _ in range(60):
        played.run(1)
        over = [index for index, game in enumerate(played.games) if game.is_over]
        played.replace(over[:2] or [played.random.randrange(18)])
        played.compare()
    assert played.reasons["superko"] > 10


@IMPLEMENTATIONS
@pytest.mark.parametrize("size", [9, 25])
def test_a_spiral_over_the_whole_board_is_taken_in_one_move(size: int, way: str) -> None:
    size = size if way != "triton" or HAS_CUDA else min(size, 13)  # interpreted kernels take long
    stones = parse(spiral(size))
    both = torch.tensor([stones, stones], dtype=torch.int8)
    state = board.from_stones(both, torch.tensor([2, 1], dtype=torch.int8), Rules(size=size))
    assert torch.equal(state.atari, state.black | state.white), "both spirals have one liberty, the same"
    action = size**2 // 2
    assert done(way, board.legal_actions, state)[:, :-1].nonzero().tolist() == [[0, action], [1, action]]
    after = done(way, board.step, state, torch.tensor([action, action]))
    num_black, num_white = sum(row.count(1) for row in stones), sum(row.count(2) for row in stones)
    assert after.captures.tolist() == [[0, num_black], [num_white, 0]] and 2 * num_black > size**2
    for game, colour in enumerate((2, 1)):
        assert after.stones[game].unique().tolist() == [0, colour]
    seed = flood.points_to_rows((both[0].flatten() == 1).nonzero()[0], size)
    assert torch.equal(done(way, flood.flood, seed, state.black[:1]), state.black[:1]), "one flood reaches its end"


def test_sequences_on_2x2_are_as_many_as_two_other_programs_count() -> None:
    for superko, counts in tables("game")["perft of 2x2"].items():
        state = board.new_games(1, Rules(size=2, superko=superko))
        for count in counts:  # the sequences of 1, 2, 3, … actions from the empty board without suicide
            game, action = (board.legal_actions(state) & ~state.finished.unsqueeze(1)).nonzero().unbind(1)
            assert len(action) == count
            state = board.step(state.select(game), action)


def test_history_follows_the_longest_game_not_the_steps() -> None:
    """Replacing finished games for ever must not let the remembered positions grow for ever."""
    fresh = board.new_games(20, Rules(3), move_cap=15)
    state = fresh.map(torch.clone)
    for _ in range(200):
        state = board.step_(state, random_moves(state, 4))
        ended = state.finished.nonzero().squeeze(1)
        if ended.numel():
            state = board.put_(state, ended, fresh.select(ended))
    assert state.seen.shape[1] == board.FIRST_WIDTH and state.ply_bound <= 15


def test_step_leaves_the_given_state_and_finished_games_alone() -> None:
    for way in ("numba", "plain"):
        with doing(way):
            first = board.new_games(2, Rules(size=3))
            second = board.step(first, torch.tensor([9, 0]))  # from here on history need not grow
            copies = first.map(torch.clone), second.map(torch.clone)
            state = board.step(second, torch.tensor([9, 1]))
            for before, copy in zip((first, second), copies, strict=True):
                assert_same(before, copy)
            assert state.finished.tolist() == [True, False]
            assert board.legal_actions(state)[0].nonzero().flatten().tolist() == [9]
            after, one = board.step(state, torch.tensor([4, 4])), torch.tensor([0])
            assert_same(after.select(one), state.select(one), but=("seen", "links"))
            assert after.stones[1].count_nonzero() == 3


def test_bad_stones_are_refused() -> None:
    good = torch.zeros(2, 3, 3, dtype=torch.int8)
    wrong = (torch.zeros(2, 3, 4, dtype=torch.int8), good.float(), good[0], good[:1], good + 3)  # turns of two games
    for stones, rules in (*((stones, Rules(3)) for stones in wrong), (good, Rules(4)), (good, [Rules(3)] * 3)):
        with pytest.raises(InputError):
            board.from_stones(stones, torch.ones(2, dtype=torch.int8), rules)


@pytest.mark.parametrize("way", ["torch", NUMBA])
def test_superko_of_histories_that_are_not_whole(way: str) -> None:
    """Stored positions know eight positions; their bans are those of torch."""
    banned = 0
    for state, _ in random_games([rule for size in (2, 3, 4) for rule in kinds(size, 2)], 50, seed=4):
        part = dataclasses.replace(state, seen=state.seen[:, :0], links=state.links[:, :0])
        found = done(way, exact_legal_rows, part)
        assert torch.equal(found, done("plain", exact_legal_rows, part))
        banned += int(((legal_rows(part, part.on_board, part.suicide) & ~found) != 0).sum())
    assert banned > 20


def test_inputs_may_lie_apart_in_memory() -> None:
    for state, actions in random_games(kinds(5, 3), 30):
        wide = torch.stack([state.black, state.white, state.atari, state.on_board], dim=1)
        lost = state.lost.transpose(0, 2).contiguous().transpose(0, 2)
        rows = {"black": wide[:, 0], "white": wide[:, 1], "atari": wide[:, 2], "on_board": wide[:, 3], "lost": lost}
        apart = dataclasses.replace(state, **rows, moves=state.moves.T.contiguous().T)
        assert torch.equal(exact_legal_rows(apart), exact_legal_rows(state))
        assert_same(board.step(apart, actions), board.step(state, actions), "apart")


def test_what_does_not_fit_is_refused() -> None:
    """Kernels check no index, so what would read or write beyond the games must not reach them."""
    state = board.new_games(4, Rules(size=5))
    with pytest.raises(ValueError, match=r"actions are \[1\]; they must be \[4\]"):
        board.step(state, torch.tensor([3]))
    with pytest.raises(ValueError, match=r"actions are \[4, 1\]; they must be \[4\]"):
        board.step(state, torch.zeros(4, 1, dtype=torch.int64))
    for action in (-1, 26, 10**6):
        with pytest.raises(IndexError):
            board.step(state, torch.tensor([0, 1, action, 2]))
    with pytest.raises(ValueError, match=r"the index is torch.bool; it must be int64"):
        board.put_(state, torch.tensor([True] * 4), state)
    without_history = dataclasses.replace(state, seen=state.seen[:, :0], links=state.links[:, :0])
    with pytest.raises(ValueError, match="came without their history"):
        board.step(without_history, torch.zeros(4, dtype=torch.int64))
    longer = dataclasses.replace(state, ply=state.ply + 300)
    with pytest.raises(IndexError, match="longer than what is kept"):
        board.step(longer, torch.zeros(4, dtype=torch.int64))
