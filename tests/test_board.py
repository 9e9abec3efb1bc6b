from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from cases import CASES, PERFT_2X2, spiral
from diagrams import parse, show
from lockstep import Lockstep

from zerogo import board, coords, flood
from zerogo.errors import InputError
from zerogo.game import GameState
from zerogo.rules import SUPERKO, Rules, RulesBatch

KINDS = [(superko, suicide) for superko in SUPERKO for suicide in (False, True)]
LEGAL_POSITIONS = {1: 1, 2: 57, 3: 12675, 4: 24318165}  # OEIS A094777


def every_kind(size: int, copies: int = 1) -> list[Rules]:
    """Returns rules of a size with every superko kind, suicide allowed and not, so many times."""
    return [Rules(size=size, superko=superko, suicide=suicide) for superko, suicide in KINDS] * copies


def start(diagram: str, to_play: int, **rules: object) -> board.State:
    stones = torch.tensor([parse(diagram)], dtype=torch.int8)
    return board.from_stones(stones, torch.tensor([to_play]), Rules(size=stones.shape[1], **rules))


def play_all(state: board.State, vertices: str) -> board.State:
    """Plays GTP vertices in turn in every game, and asserts that each is legal."""
    for vertex in vertices.split():
        action = coords.from_gtp(vertex, state.board_size)
        assert board.legal_actions(state)[:, action].all(), vertex
        state = board.step(state, torch.full((state.num_games,), action))
    return state


@pytest.fixture
def without_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the way that never lets the host look, which is else taken on CUDA alone, without kernels."""
    monkeypatch.setattr(flood, "may_look", lambda tensor: False)
    monkeypatch.setattr("zerogo.kernels._in_use", False)


# size, games of each of the six kinds of rules
RANDOM_GAMES = [
    (1, 1),
    (2, 10),
    (3, 10),
    (4, 8),
    (5, 6),
    (6, 5),
    (7, 4),
    (8, 3),
    (9, 4),
    (10, 2),
    (11, 1),
    (12, 1),
    (13, 1),
]


@pytest.mark.parametrize("size, copies", RANDOM_GAMES)
def test_random_games_agree_at_every_ply(size: int, copies: int) -> None:
    played = Lockstep(every_kind(size, copies), f"random {size}")
    played.run(4 * size * size + 20)
    assert all(game.is_over for game in played.games)
    assert played.reasons["suicide"] > 0


@pytest.mark.parametrize("size", range(14, 20))
def test_random_games_on_large_boards_agree_at_every_ply(size: int) -> None:
    superko = SUPERKO[size % 3]
    played = Lockstep(
        [Rules(size=size, superko=superko, suicide=suicide) for suicide in (False, True)], f"large {size}", long=1.2
    )
    played.run(2 * size * size)
    assert all(game.is_over for game in played.games)


@pytest.mark.parametrize("size, least_bans", [(2, 50), (3, 150), (4, 300), (5, 300)])
def test_long_games_without_passes_meet_superko_often(size: int, least_bans: int) -> None:
    played = Lockstep(every_kind(size, 4), f"long {size}", pass_share=0.0, long=1e9)
    played.run(300)
    assert played.reasons["superko"] > least_bans and (size == 2 or played.reasons["ko"] > 10)


def test_games_of_many_sizes_and_rules_share_a_batch() -> None:
    """Nothing beyond a game's board influences it: small boards lie in the corner of the largest one's tensors."""
    rules = [rule for size in (1, 2, 3, 4, 5, 7, 10) for rule in every_kind(size)]
    played = Lockstep(rules, "mixed sizes")
    played.run(400)
    assert all(game.is_over for game in played.games) and played.reasons["superko"] > 100


def test_games_from_dense_positions_with_long_strings() -> None:
    """Uniform random play seldom makes strings that wind through the whole board; here they stand from the start."""
    rules = [rule for size in (4, 6, 8, 9, 13) for rule in every_kind(size)]
    played = Lockstep(rules, "dense", pass_share=0.0, long=1e9, dense=True)
    played.run(30)
    assert sum(max(game.captures.values()) > 10 for game in played.games) > 15


def test_the_largest_board() -> None:
    """25 columns fill a row of bits nearly to its sign; a 24x24 game lies beside it."""
    played = Lockstep([Rules(size=25), Rules(size=24, suicide=True)], "largest", pass_share=0.0)
    played.run(120)


def test_new_games_in_finished_lanes_start_afresh() -> None:
    """Lanes that finish get new games while the others go on, as in self-play, with the step that takes over the old
    state.
    """
    played = Lockstep(every_kind(3, 3), "lanes", long=3, step=board.step_)
    for _ in range(120):
        played.run(1)
        played.replace(
            [index for index, game in enumerate(played.games) if game.is_over][:2] or [played.random.randrange(18)]
        )
        played.compare()
    assert played.reasons["superko"] > 20


@pytest.mark.usefixtures("without_looks")
def test_the_way_without_looks_agrees_too() -> None:
    played = Lockstep([rule for size in (2, 3, 4, 5) for rule in every_kind(size)], "bounded", pass_share=0.0, long=1e9)
    played.run(60)
    assert played.reasons["superko"] > 100


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_random_games_on_cuda_agree_at_every_ply() -> None:
    played = Lockstep([rule for size in (2, 3, 4, 5, 9) for rule in every_kind(size)], "cuda", long=1e9, device="cuda")
    played.run(150)
    assert played.reasons["superko"] > 100


@pytest.mark.parametrize("way", ["looking", "bounded"])
@pytest.mark.parametrize("superko", SUPERKO)
@pytest.mark.parametrize("name", CASES)
def test_pinned_case(name: str, superko: str, way: str, request: pytest.FixtureRequest) -> None:
    if way == "bounded":
        request.getfixturevalue("without_looks")
    case = CASES[name]
    state = play_all(start(case.diagram, case.to_play, superko=superko, suicide=case.suicide), case.moves)
    action = coords.from_gtp(case.last, state.board_size)
    assert bool(board.legal_actions(state)[0, action]) == (superko in case.legal_under)
    if superko in case.legal_under and case.after:
        assert show(board.step(state, torch.tensor([action])).stones[0]) == show(parse(case.after))


@pytest.mark.parametrize("way", ["looking", "bounded"])
@pytest.mark.parametrize("size", [9, 19, 25])
def test_a_spiral_over_the_whole_board_is_taken_in_one_move(
    size: int, way: str, request: pytest.FixtureRequest
) -> None:
    if way == "bounded":
        request.getfixturevalue("without_looks")
    stones, (row, column) = spiral(size)
    both = torch.tensor([stones, stones], dtype=torch.int8)
    state = board.from_stones(both, torch.tensor([2, 1], dtype=torch.int8), Rules(size=size))
    assert torch.equal(state.atari, state.black | state.white), "both spirals have one liberty, the same"
    action = row * size + column
    assert board.legal_actions(state)[:, :-1].nonzero().tolist() == [[0, action], [1, action]]
    after = board.step(state, torch.tensor([action, action]))
    num_black, num_white = sum(row.count(1) for row in stones), sum(row.count(2) for row in stones)
    assert after.captures.tolist() == [[0, num_black], [num_white, 0]] and (size != 19 or num_black > 180)
    for game, player in enumerate((2, 1)):
        assert after.stones[game].unique().tolist() == [0, player]


@pytest.mark.parametrize("superko", SUPERKO)
def test_perft_2x2(superko: str) -> None:
    found, state = [], board.new_games(1, Rules(size=2, superko=superko))
    for _ in PERFT_2X2[superko]:
        game, action = (board.legal_actions(state) & ~state.finished.unsqueeze(1)).nonzero().unbind(1)
        found.append(len(action))
        state = board.step(board.select(state, game), action)
    assert found == PERFT_2X2[superko]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_number_of_legal_positions(size: int) -> None:
    colourings = torch.tensor(list(itertools.product((0, 1, 2), repeat=size * size)), dtype=torch.int8).view(
        -1, size, size
    )
    state = board.from_stones(colourings, torch.ones(len(colourings), dtype=torch.int8), Rules(size=size))
    assert int((~board.unsettled_strings(state)).sum()) == LEGAL_POSITIONS[size]


def test_number_of_legal_positions_4x4() -> None:
    """All 3^16 colourings: every upper half with every lower one. The board's flood asks which stones a liberty
    reaches; every now and then `from_stones` and `unsettled_strings`, which find out much more, must say the same."""
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
            assert torch.equal(board.unsettled_strings(state), ~breathes)
    assert found == LEGAL_POSITIONS[4]


def test_step_leaves_the_given_state_and_finished_games_alone() -> None:
    first = board.new_games(2, Rules(size=3))
    second = board.step(
        first, torch.tensor([9, 0])
    )  # from here on there is room for more plies, and history need not grow
    copies = first.map(torch.clone), second.map(torch.clone)
    board.step(second, torch.tensor([3, 4]))
    state = board.step(second, torch.tensor([9, 1]))
    for before, copy in zip((first, second), copies, strict=True):
        for field in dataclasses.fields(before):
            if isinstance(getattr(before, field.name), torch.Tensor):
                assert torch.equal(getattr(before, field.name), getattr(copy, field.name)), field.name
    assert state.finished.tolist() == [True, False]
    assert board.legal_actions(state)[0].nonzero().flatten().tolist() == [9]
    after = board.step(state, torch.tensor([4, 4]))
    for name in ("black", "white", "to_play", "passes", "ply", "ko", "hash", "captures", "recent", "moves"):
        assert torch.equal(getattr(after, name)[0], getattr(state, name)[0]), name
    assert after.stones[1].count_nonzero() == 3


def test_a_game_ends_at_the_move_cap() -> None:
    state = board.new_games(2, Rules(size=3), move_cap=3)
    state = play_all(state, "A1 B2")
    assert not state.finished.any()
    state = play_all(state, "C3")
    assert state.finished.all() and board.legal_actions(state)[:, :-1].sum() == 0


def test_recent_positions_and_moves_are_remembered() -> None:
    state, stones = board.new_games(1, Rules(size=5)), []
    for action in range(10):
        stones.append(state.stones)
        state = board.step(state, torch.tensor([action]))
    recent = flood.unpack_rows(state.recent[0])
    for age in range(board.state.RECENT):
        assert torch.equal(recent[age, 0] + 2 * recent[age, 1].to(torch.int8), stones[-1 - age][0])
    assert state.moves.tolist() == [[9, 8, 7, 6, 5]]


def test_restored_games_know_ko_and_moves() -> None:
    case = CASES["ko retake"]
    state = play_all(start(case.diagram, case.to_play), case.moves)
    names = ("moves", "passes", "ply", "ko")
    restored = board.restore(
        state.black, state.white, state.recent, state.to_play, state.rules, **{n: getattr(state, n) for n in names}
    )
    assert torch.equal(board.legal_actions(restored), board.legal_actions(state))
    for name in ("hash", "atari", "recent", *names):
        assert torch.equal(getattr(restored, name), getattr(state, name))


def test_a_start_from_stones_is_the_same_game_from_there() -> None:
    """The oracle and the board agree on a start with White to move, and its position counts as the first one."""
    case = CASES["suicide of one stone that repeats the situation"]
    for superko in SUPERKO:
        state = start(case.diagram, case.to_play, superko=superko, suicide=True)
        game = GameState.from_stones(parse(case.diagram), case.to_play, Rules(size=3, superko=superko, suicide=True))
        assert board.legal_actions(state)[0].tolist() == game.legal_mask()


@pytest.mark.parametrize(
    "stones, rules",
    [
        (torch.zeros(2, 3, 4, dtype=torch.int8), Rules(size=3)),
        (torch.zeros(2, 3, 3), Rules(size=3)),
        (torch.zeros(3, 3, dtype=torch.int8), Rules(size=3)),
        (torch.zeros(2, 3, 3, dtype=torch.int8), Rules(size=4)),
        (torch.zeros(2, 3, 3, dtype=torch.int8), [Rules(size=3)] * 3),
    ],
)
def test_bad_stones_are_refused(stones: torch.Tensor, rules: Rules | list[Rules]) -> None:
    with pytest.raises(InputError):
        board.from_stones(stones, torch.ones(2, dtype=torch.int8), rules)
