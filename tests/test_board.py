"""The board against `zerogo.game`, sgfmill, enumerations and pinned cases, and what its functions promise."""

import dataclasses
import itertools
from collections.abc import Callable

import pytest
import torch
from boards import IMPLEMENTATIONS, assert_same, doing, done, kinds, random_games, random_moves, start
from cases import CASES, PERFT_2X2, spiral
from diagrams import parse, show
from lockstep import Lockstep
from positions import restoring

from zerogo import board, coords, flood
from zerogo.board import State, superko
from zerogo.board import state as states
from zerogo.board.position import find_atari, legal_rows, play
from zerogo.errors import InputError
from zerogo.game import GameState
from zerogo.rules import SIMPLE, SUPERKO, Rules, RulesBatch

LEGAL_POSITIONS = {1: 1, 2: 57, 3: 12675, 4: 24318165}  # OEIS A094777


def play_all(state: State, vertices: str) -> State:
    """Plays GTP vertices in turn in every game, and asserts that each is legal."""
    for vertex in vertices.split():
        action = coords.from_gtp(vertex, state.board_size)
        assert board.legal_actions(state)[:, action].all(), vertex
        state = board.step(state, torch.full((state.num_games,), action))
    return state


# Random games


# size, games of each of the six kinds of rules
RANDOM_GAMES = list(enumerate((1, 10, 10, 8, 6, 5, 4, 3, 4, 2, 1, 1, 1), start=1))


@pytest.mark.parametrize("size, copies", RANDOM_GAMES)
def test_random_games_agree_at_every_ply(size: int, copies: int) -> None:
    played = Lockstep(kinds(size, copies), f"random {size}")
    played.run(4 * size * size + 20)
    assert all(game.is_over for game in played.games)
    assert played.reasons["suicide"] > 0


@pytest.mark.parametrize("size", range(14, 20))
def test_random_games_on_large_boards_agree_at_every_ply(size: int) -> None:
    rules = [Rules(size, superko=SUPERKO[size % 3], suicide=suicide) for suicide in (False, True)]
    played = Lockstep(rules, f"large {size}", long=1.2)
    played.run(2 * size * size)
    assert all(game.is_over for game in played.games)


@pytest.mark.parametrize("size, least_bans", [(2, 50), (3, 150), (4, 300), (5, 300)])
def test_long_games_without_passes_meet_superko_often(size: int, least_bans: int) -> None:
    played = Lockstep(kinds(size, 4), f"long {size}", pass_share=0.0, long=1e9)
    played.run(300)
    assert played.reasons["superko"] > least_bans and (size == 2 or played.reasons["ko"] > 10)


def test_games_of_many_sizes_and_rules_share_a_batch() -> None:
    """Nothing beyond a game's board influences it: small boards lie in the corner of the largest one's tensors."""
    played = Lockstep([rule for size in (1, 2, 3, 4, 5, 7, 10) for rule in kinds(size)], "mixed sizes")
    played.run(400)
    assert all(game.is_over for game in played.games) and played.reasons["superko"] > 100


def test_games_from_dense_positions_with_long_strings() -> None:
    """Uniform random play seldom makes strings that wind through the whole board; here they stand from the start."""
    rules = [rule for size in (4, 6, 8, 9, 13) for rule in kinds(size)]
    played = Lockstep(rules, "dense", pass_share=0.0, long=1e9, dense=True)
    played.run(30)
    assert sum(max(game.captures.values()) > 10 for game in played.games) > 15


def test_the_largest_board() -> None:
    """25 columns fill a row of bits nearly to its sign; a 24x24 game lies beside it."""
    played = Lockstep([Rules(size=25), Rules(size=24, suicide=True)], "largest", pass_share=0.0)
    played.run(120)


def test_new_games_in_place_of_finished_ones_start_afresh() -> None:
    """Games that finish are replaced while the others go on, as in self-play, with the step that takes over the old
    state."""
    played = Lockstep(kinds(3, 3), "lanes", long=3, step=board.step_)
    for _ in range(120):
        played.run(1)
        over = [index for index, game in enumerate(played.games) if game.is_over]
        played.replace(over[:2] or [played.random.randrange(18)])
        played.compare()
    assert played.reasons["superko"] > 20


def test_torch_without_looks_by_the_host_agrees_too(blind: Callable[[], None]) -> None:
    blind()
    played = Lockstep([rule for size in (2, 3, 4, 5) for rule in kinds(size)], "bounded", pass_share=0.0, long=1e9)
    played.run(60)
    assert played.reasons["superko"] > 100


@pytest.mark.gpu
def test_random_games_on_cuda_agree_at_every_ply() -> None:
    played = Lockstep([rule for size in (2, 3, 4, 5, 9) for rule in kinds(size)], "cuda", long=1e9, device="cuda")
    played.run(150)
    assert played.reasons["superko"] > 100


# Pinned positions


@IMPLEMENTATIONS
@pytest.mark.parametrize("name", CASES)
def test_pinned_case(name: str, way: str) -> None:
    case = CASES[name]
    rules = [Rules(len(parse(case.diagram)), superko=kind, suicide=case.suicide) for kind in SUPERKO]
    state = play_all(start(case.diagram, case.to_play, rules), case.moves)
    action = coords.from_gtp(case.last, state.board_size)
    legal = done(way, board.legal_actions, state)[:, action]
    assert legal.tolist() == [kind in case.legal_under for kind in SUPERKO]
    if case.legal_under and case.after:
        few = state.select(legal.nonzero().squeeze(1))
        after = done(way, board.step, few, torch.full((few.num_games,), action))
        assert {show(stones) for stones in after.stones} == {show(parse(case.after))}


@IMPLEMENTATIONS
@pytest.mark.parametrize("size", [9, 19, 25])
def test_a_spiral_over_the_whole_board_is_taken_in_one_move(size: int, way: str) -> None:
    stones, (row, column) = spiral(size)
    both = torch.tensor([stones, stones], dtype=torch.int8)
    state = board.from_stones(both, torch.tensor([2, 1], dtype=torch.int8), Rules(size=size))
    assert torch.equal(state.atari, state.black | state.white), "both spirals have one liberty, the same"
    action = row * size + column
    assert done(way, board.legal_actions, state)[:, :-1].nonzero().tolist() == [[0, action], [1, action]]
    after = done(way, board.step, state, torch.tensor([action, action]))
    num_black, num_white = sum(row.count(1) for row in stones), sum(row.count(2) for row in stones)
    assert after.captures.tolist() == [[0, num_black], [num_white, 0]] and (size != 19 or num_black > 180)
    for game, colour in enumerate((2, 1)):
        assert after.stones[game].unique().tolist() == [0, colour]
    seed = flood.points_to_rows((both[0].flatten() == 1).nonzero()[0], size)
    assert torch.equal(done(way, flood.flood, seed, state.black[:1]), state.black[:1]), "one flood reaches its end"


SHAPES = {  # before, the move, who plays it, after and the stones in atari then, where these are told
    "joins a string in atari": (".XO. .O.. .... ....", 0, 1, "XXO. .O.. .... ....", "XX.. .... .... ...."),
    "corner capture": ("O... X... .... ....", 1, 1, ".X.. X... .... ....", ".... .... .... ...."),
    "long row": ("OOOO XXX. .... ....", 7, 1, ".... XXXX .... ....", ".... .... .... ...."),
    "puts in atari": ("OO.. X... .... ....", 5, 1, "OO.. XX.. .... ....", "OO.. .... .... ...."),
    "four strings are taken": (".XO.. X.XO. OXO.. .O... .....", 6, 2, "", ""),
    "takes and relieves two": ("OOX.X XXOOX .XXXO XXO.O .....", 3, 1, "", ""),
    "joins strings in atari": (".X.O. X.XO. OXO.. .O... .....", 6, 1, "", ""),
    "suicide relieves what surrounds it": (
        "X.O OO. ...", 1, 1, "..O OO. ...", "... ... ..."),
}  # fmt: skip


@IMPLEMENTATIONS
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, way: str) -> None:
    """Several strings are taken, relieved, put in atari, joined."""
    before, action, to_play, after, atari = SHAPES[name]
    before, after, atari = (rows.replace(" ", "\n") for rows in (before, after, atari))
    state = start(before, to_play, superko="simple", suicide=True)
    found = done(way, board.step, state, torch.tensor([action]))
    assert_same(found, done("plain", board.step, state, torch.tensor([action])), but=("links",))
    assert torch.equal(found.atari, find_atari(found.black, found.white, found.on_board)[0])
    if after:
        assert show(found.stones[0]) == after and torch.equal(found.atari, start(atari.replace("O", "X")).black)
    if "suicide" in name:
        assert found.captures.tolist() == [[0, 2]] and found.ko.tolist() == [-1]


# Enumerations


@pytest.mark.parametrize("superko", SUPERKO)
def test_perft_2x2(superko: str) -> None:
    found, state = [], board.new_games(1, Rules(size=2, superko=superko))
    for _ in PERFT_2X2[superko]:
        game, action = (board.legal_actions(state) & ~state.finished.unsqueeze(1)).nonzero().unbind(1)
        found.append(len(action))
        state = board.step(state.select(game), action)
    assert found == PERFT_2X2[superko]


def has_no_liberty(state: State) -> torch.Tensor:
    return (find_atari(state.black, state.white, state.on_board)[1] != 0).any(-1)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_number_of_legal_positions(size: int) -> None:
    colourings = torch.tensor(list(itertools.product((0, 1, 2), repeat=size * size)), dtype=torch.int8)
    to_play = torch.ones(len(colourings), dtype=torch.int8)
    state = board.from_stones(colourings.view(-1, size, size), to_play, Rules(size=size))
    assert int((~has_no_liberty(state)).sum()) == LEGAL_POSITIONS[size]


def test_number_of_legal_positions_4x4() -> None:
    """All 3^16 colourings: every upper half with every lower one. The board's flood asks which stones a liberty
    reaches; every now and then `from_stones` and `find_atari`, which find out much more, must say the same."""
    halves = torch.cartesian_prod(*[torch.arange(3, dtype=torch.int8)] * 8).view(-1, 2, 4)
    rows = torch.stack([flood.pack_rows(halves == 1), flood.pack_rows(halves == 2)])
    rules = RulesBatch.of(Rules(size=4), len(halves))
    found = 0
    for index, upper in enumerate(rows.unbind(1)):
        stones = torch.cat([upper.unsqueeze(1).expand_as(rows), rows], dim=2)
        beside = flood.neighbours(~(stones[0] | stones[1]) & 0b1111)
        breathes = (flood.flood(beside & stones, stones) == stones).all(-1).all(0)
        found += int(breathes.sum())
        if index % 500 == 0:
            colourings = torch.cat([halves[index].expand_as(halves), halves], dim=1)
            state = board.from_stones(colourings, torch.ones(len(halves), dtype=torch.int8), rules)
            assert torch.equal(has_no_liberty(state), ~breathes)
    assert found == LEGAL_POSITIONS[4]


# What is carried along, against what it stands for


@pytest.mark.parametrize("size, plies", [(1, 9), (2, 80), (3, 120), (4, 80), (5, 120), (7, 120)])
def test_the_suspects_of_superko_are_all_that_it_bans(size: int, plies: int) -> None:
    """At every ply: the few points that are looked at hold all that repeats a position when every point is tested."""
    for state, _ in random_games(kinds(size, 4), plies, seed=7):
        legal = legal_rows(state, state.on_board, state.suicide)
        repeating = superko._repeating_rows(state, superko._suicides(state, legal))
        repeating[state.rules.superko == SIMPLE] = 0
        assert torch.equal(superko.exact_legal_rows(state), legal & ~repeating)


def test_chains_are_those_made_from_nothing() -> None:
    for state, _ in random_games([Rules(5, suicide=True)] * 40, 74, seed=9, move_cap=200):  # noqa: B007
        going = ~state.finished
        assert torch.equal(states.links_of(state.seen, state.seen.shape[1])[going], state.links[going])
    assert going.any() and state.seen.shape[1] == 128


def test_history_follows_the_longest_game_not_the_steps() -> None:
    """Replacing finished games for ever must not let the remembered positions grow for ever."""
    fresh = board.new_games(20, Rules(3), move_cap=15)
    state = fresh.map(torch.clone)
    for _ in range(200):
        state = board.step_(state, random_moves(state, 4))
        ended = state.finished.nonzero().squeeze(1)
        if ended.numel():
            state = board.put_(state, ended, fresh.select(ended))
    assert state.seen.shape[1] == states.FIRST_WIDTH and state.ply_bound <= 15


def test_recent_positions_and_moves_are_remembered() -> None:
    state, stones = board.new_games(1, Rules(size=5)), []
    for action in range(10):
        stones.append(state.stones)
        state = board.step(state, torch.tensor([action]))
    recent = flood.unpack_rows(state.recent[0])
    for age in range(states.RECENT):
        assert torch.equal(recent[age, 0] + 2 * recent[age, 1].to(torch.int8), stones[-1 - age][0])
    assert state.moves.tolist() == [[9, 8, 7, 6, 5]]


# Steps, ends and starts


def test_step_leaves_the_given_state_and_finished_games_alone() -> None:
    for plain in (False, True):
        with doing("plain" if plain else "numba"):
            first = board.new_games(2, Rules(size=3))
            second = board.step(first, torch.tensor([9, 0]))  # from here on history need not grow
            copies = first.map(torch.clone), second.map(torch.clone)
            board.step(second, torch.tensor([3, 4]))
            state = board.step(second, torch.tensor([9, 1]))
            for before, copy in zip((first, second), copies, strict=True):
                assert_same(before, copy)
            assert state.finished.tolist() == [True, False]
            assert board.legal_actions(state)[0].nonzero().flatten().tolist() == [9]
            after, one = board.step(state, torch.tensor([4, 4])), torch.tensor([0])
            assert_same(after.select(one), state.select(one), but=("seen", "links"))
            assert after.stones[1].count_nonzero() == 3


def test_a_game_ends_at_the_move_cap() -> None:
    state = play_all(board.new_games(2, Rules(size=3), move_cap=3), "A1 B2")
    assert not state.finished.any()
    state = play_all(state, "C3")
    assert state.finished.all() and board.legal_actions(state)[:, :-1].sum() == 0


def test_play_takes_views_and_parts_of_a_batch() -> None:
    """The search hands over rows that lie apart in memory, and some of the games."""
    state, actions = list(random_games([Rules(7)] * 40, 30, seed=5))[-1]
    wide = torch.stack([state.black, state.white, state.atari, state.on_board], dim=1)
    apart = dataclasses.replace(state, black=wide[:, 0], white=wide[:, 1], atari=wide[:, 2])
    after, _ = play(apart, actions, wide[:, 3], None, state.cap)
    whole, _ = play(state, actions, state.on_board, None, state.cap)
    assert_same(after, whole)
    assert torch.equal(legal_rows(apart, wide[:, 3], None), legal_rows(state, state.on_board, None))
    index = torch.tensor([31, 2, 17])
    part, _ = play(state.select(index), actions[index], state.on_board[index], None, state.cap[index])
    assert_same(part, whole.select(index))


def test_restored_games_know_ko_and_moves() -> None:
    case = CASES["ko retake"]
    state = play_all(start(case.diagram, case.to_play), case.moves)
    restored = board.restore(**restoring(state))
    assert torch.equal(board.legal_actions(restored), board.legal_actions(state))
    for name in ("hash", "atari", "recent", "moves", "passes", "ply", "ko"):
        assert torch.equal(getattr(restored, name), getattr(state, name))


def test_a_start_from_stones_is_the_same_game_from_there() -> None:
    """The oracle and the board agree on a start with White to move, and its position counts as the first one."""
    case = CASES["suicide of one stone that repeats the situation"]
    for kind in SUPERKO:
        state = start(case.diagram, case.to_play, superko=kind, suicide=True)
        game = GameState.from_stones(parse(case.diagram), case.to_play, Rules(size=3, superko=kind, suicide=True))
        assert board.legal_actions(state)[0].tolist() == game.legal_mask()


def test_put_right_after_the_start() -> None:
    """Fresh games must not share memory between their fields: the stones put into one colour's plane once came back in
    the other's."""
    games = board.new_games(3, Rules(3))
    moved = board.step(games.select(torch.tensor([1])), torch.tensor([4]))
    games = board.put_(games, torch.tensor([1]), moved)
    assert games.stones.flatten(1).tolist() == [[0] * 9, [0, 0, 0, 0, 1, 0, 0, 0, 0], [0] * 9]
    tensors = games.tensors()
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)


def test_bad_stones_are_refused() -> None:
    good = torch.zeros(2, 3, 3, dtype=torch.int8)
    wrong = [(torch.zeros(2, 3, 4, dtype=torch.int8), Rules(3)), (good.float(), Rules(3)), (good[0], Rules(3))]
    for stones, rules in (*wrong, (good, Rules(4)), (good, [Rules(3)] * 3)):
        with pytest.raises(InputError):
            board.from_stones(stones, torch.ones(2, dtype=torch.int8), rules)
