"""The board's kernels against the torch operations that they stand in for: every tensor, bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from cases import spiral
from torch import Tensor

from zerogo import board, draws, flood, kernels, scoring
from zerogo.board import State
from zerogo.board.position import find_atari, legal_rows, on_board_rows, play
from zerogo.board.state import exact_legal_rows
from zerogo.rules import SUPERKO, Rules
from zerogo.search import Go, SearchPath
from zerogo.search.go import LEAF_FIELDS

pytestmark = pytest.mark.skipif(kernels.compiled("board", torch.device("cpu")) is None, reason="numba is not installed")
GO = Go()


def kinds(size: int, copies: int = 1) -> list[Rules]:
    """Returns rules of a size with every superko kind, suicide allowed and not, so many times."""
    return [Rules(size, superko=superko, suicide=suicide) for superko in SUPERKO for suicide in (False, True)] * copies


# name -> rules, plies at the most
GAMES = {
    **{
        f"{size}": (kinds(size, copies), plies)
        for size, copies, plies in ((1, 1, 9), (2, 6, 40), (3, 5, 60), (5, 2, 80), (9, 1, 120))
    },
    "13": (kinds(13)[2:5], 40),
    "19": ([Rules(19, superko="situational", suicide=True), Rules(19)], 30),
    "25": ([Rules(25, suicide=True), Rules(24)], 12),
    "mixed": ([rule for size in (1, 2, 3, 4, 7) for rule in kinds(size)], 60),
}


def random_moves(state: State, legal: Tensor, seed: int) -> Tensor:
    """Returns uniform legal moves; a pass is rare while the board is not full, so that games get long: int64 [B]."""
    weights = legal.to(torch.float32)
    weights[:, -1] = torch.where(state.ply < 3 * state.rules.size**2, 0.02, 5.0)
    return draws.choose(draws.key(seed, torch.arange(state.num_games), state.ply), weights)


def random_games(rules: list[Rules], plies: int, seed: int = 1) -> Iterator[tuple[State, Tensor]]:
    """Yields the states of random games before each ply and the moves to be played then."""
    state = board.new_games(len(rules), rules, move_cap=plies)
    for _ in range(plies + 1):
        actions = random_moves(state, board.legal_actions(state), seed)
        yield state, actions
        state = board.step(state, actions)


def assert_same(one: object, other: object, what: str) -> None:
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
        elif dataclasses.is_dataclass(a):
            assert_same(a, b, f"{what}, {field.name}")


def coloured(size: int, number: int, empty: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns random colourings as bit rows, black, white and the board: strings without liberties among them. int32
    [number, N].
    """
    drawn = torch.rand(number, size, size, generator=torch.Generator().manual_seed(seed))
    black, white = drawn < (1 - empty) / 2, drawn > (1 + empty) / 2
    exists = on_board_rows(torch.full((number,), size, dtype=torch.int32), size)
    return flood.pack_rows(black), flood.pack_rows(white), exists


@pytest.mark.parametrize("name", GAMES)
def test_games_to_their_ends(name: str) -> None:
    """Legal moves at every ply and everything that a step changes; a game that is over stays."""
    rules, plies = GAMES[name]
    for state, actions in random_games(rules, plies):
        after, legal = board.step(state, actions), exact_legal_rows(state)
        with kernels.plain():
            assert torch.equal(legal, exact_legal_rows(state)), int(state.ply.max())
            plainly = board.step(state, actions)
            if int(state.ply.max()) % 10 == 9:
                assert torch.equal(after.atari, find_atari(after.black, after.white, after.on_board)[0])
        stays = after.finished.unsqueeze(1)  # where the plain way writes into places that nobody reads
        links = torch.where(stays, after.links, plainly.links)
        seen = torch.where(stays, after.seen, plainly.seen)
        assert_same(after, dataclasses.replace(plainly, links=links, seen=seen), f"ply {int(state.ply.max())}")
    assert state.finished.all()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9, 13, 19, 25])
@pytest.mark.parametrize("empty", [0.0, 0.1, 0.4])
def test_atari_of_any_colouring(size: int, empty: float) -> None:
    planes = coloured(size, 40 if size < 10 else 8, empty, size)
    found = find_atari(*planes)
    with kernels.plain():
        for one, other in zip(found, find_atari(*planes), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("size", [1, 2, 5, 9, 19, 25])
def test_floods_and_areas(size: int) -> None:
    for seed, empty in enumerate((0.1, 0.5, 0.9)):
        black, white, exists = coloured(size, 70 if size < 10 else 10, empty, seed)
        planes = torch.stack([black, white])
        grown, area = flood.flood(flood.neighbours(planes), exists & ~planes), scoring.area_rows(black, white, exists)
        with kernels.plain():
            assert torch.equal(grown, flood.flood(flood.neighbours(planes), exists & ~planes))
            for one, other in zip(area, scoring.area_rows(black, white, exists), strict=True):
                assert torch.equal(one, other)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 9, 19, 25])
def test_unconditional_life(size: int) -> None:
    """Colourings full of strings, where many live, and the ends of random games, where all do."""
    rules = [Rules(size, suicide=suicide) for suicide in (False, True)] * (12 if size < 9 else 2)
    found = 0
    for seed, empty in enumerate((0.1, 0.2, 0.3)):
        black, white, _ = coloured(size, len(rules), empty, seed)
        for own, other in (
            (black, white),
            (black, torch.zeros_like(white)),
            (black & ~white, white & ~torch.roll(white, 1)),
        ):
            stones = flood.unpack_rows(own).to(torch.int8) + 2 * flood.unpack_rows(other & ~own).to(torch.int8)
            state = board.from_stones(stones, torch.ones(len(rules), dtype=torch.int8), rules)
            alive, settled, final = alive_of(state)
            with kernels.plain():
                plainly = alive_of(state)
            assert torch.equal(settled, plainly[1])
            for one, same in zip((*alive, *final), (*plainly[0], *plainly[2]), strict=True):
                assert torch.equal(one, same)
            found += int((alive[0] | alive[1] != 0).sum())
    assert size < 3 or found > 0


def alive_of(state: State) -> tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, Tensor]]:
    """Returns what is pass-alive, whether all is, and whose points are whose at the end."""
    alive = scoring.pass_alive_rows(state.black, state.white, state.on_board, state.rules.suicide)
    return alive, scoring.all_pass_alive(state), scoring.final_rows(state)


@pytest.mark.parametrize("size", [5, 9, 19, 25])
def test_a_spiral_is_taken_and_flooded(size: int) -> None:
    stones, (row, column) = spiral(size)
    both = torch.tensor([stones, stones], dtype=torch.int8)
    state = board.from_stones(both, torch.tensor([2, 1], dtype=torch.int8), Rules(size))
    actions = torch.full((2,), row * size + column)
    after, legal = board.step(state, actions), board.legal_actions(state)
    first = flood.points_to_rows((both[0].flatten() == 1).nonzero()[0], size)
    assert torch.equal(flood.flood(first, state.black[:1]), state.black[:1])
    with kernels.plain():
        assert torch.equal(legal, board.legal_actions(state))
        plainly = board.step(state, actions)
    for name in ("black", "white", "atari", "captures", "hash", "ko", "lost", "recent", "moves"):
        assert torch.equal(getattr(after, name), getattr(plainly, name)), name


def test_superko_of_histories_that_are_not_whole() -> None:
    """Stored positions know eight positions; their bans are those of the plain way."""
    rules = [rule for size in (2, 3, 4) for rule in kinds(size, 2)]
    banned = 0
    for state, _ in random_games(rules, 50, seed=4):
        part = dataclasses.replace(state, seen=state.seen[:, :0], links=state.links[:, :0])
        found = exact_legal_rows(part)
        with kernels.plain():
            assert torch.equal(found, exact_legal_rows(part))
        banned += int(((legal_rows(part, part.on_board, part.suicide) & ~found) != 0).sum())
    assert banned > 20


def test_inputs_may_lie_apart_in_memory() -> None:
    for state, actions in random_games(kinds(5, 3), 30):
        wide = torch.stack([state.black, state.white, state.atari, state.on_board], dim=1)
        apart = dataclasses.replace(state, black=wide[:, 0], white=wide[:, 1], atari=wide[:, 2], on_board=wide[:, 3])
        apart = dataclasses.replace(
            apart, moves=state.moves.T.contiguous().T, lost=state.lost.transpose(0, 2).contiguous().transpose(0, 2)
        )
        assert torch.equal(exact_legal_rows(apart), exact_legal_rows(state))
        assert_same(board.step(apart, actions), board.step(state, actions), "apart")


def test_games_shared_out_among_threads() -> None:
    rules = kinds(4, 40)
    alone = [(state, exact_legal_rows(state)) for state, _ in random_games(rules, 25, seed=3)]
    torch.set_num_threads(2)
    try:
        for (state, _), (same, legal) in zip(random_games(rules, 25, seed=3), alone, strict=True):
            assert_same(state, same, "threads")
            assert torch.equal(exact_legal_rows(state), legal)
    finally:
        torch.set_num_threads(1)


def test_step_and_the_step_that_takes_over() -> None:
    state = board.new_games(12, kinds(3, 2), move_cap=60)
    taken = state.map(torch.clone)
    for _ in range(60):
        actions, before = random_moves(state, board.legal_actions(state), 8), state.map(torch.clone)
        after = board.step(state, actions)
        assert_same(state, before, "the given state")
        state, taken = after, board.step_(taken, actions)
        assert_same(state, taken, "taken over")


def test_put_as_plainly() -> None:
    games = {way: board.new_games(8, kinds(3, 2)[:8], move_cap=30) for way in ("fast", "plain")}
    fresh = board.new_games(2, Rules(3, superko="situational"), move_cap=9)
    for ply in range(40):
        actions = random_moves(games["fast"], board.legal_actions(games["fast"]), 2)
        index = torch.tensor([ply % 8, (ply + 3) % 8])
        games["fast"] = board.put_(board.step_(games["fast"], actions), index, fresh)
        with kernels.plain():
            games["plain"] = board.put(board.step(games["plain"], actions), index, fresh)
        assert (
            torch.equal(games["fast"].stones, games["plain"].stones)
            and games["fast"].ply_bound == games["plain"].ply_bound
        )
        going = ~games["fast"].finished
        for name in ("seen", "links", "recent", "moves", "cap", "hash"):
            assert torch.equal(getattr(games["fast"], name)[going], getattr(games["plain"], name)[going]), name


# The last move of a simulation


def ways_down(root: State, length: int, seed: int) -> tuple[SearchPath, Tensor, list[Tensor]]:
    """Plays random moves that may repeat from the roots on: returns the way to the last position but one, its words,
    and all moves.
    """
    num_games, size = root.num_games, root.board_size
    every = torch.arange(num_games)
    words, moves = [GO.pack(root)], []
    for level in range(length):
        position = GO.unpack(words[-1], size)
        legal = GO.legal(root, every, position).to(torch.float32)
        legal[:, -1] = 0.1
        moves.append(draws.choose(draws.key(seed, every, torch.tensor(level)), legal))
        words.append(GO.pack(GO.play(root, every, words[-1], moves[-1])))
    path = torch.arange(num_games).unsqueeze(1) + torch.arange(length) * num_games
    played = torch.cat([torch.full((num_games,), -1), *moves[:-1]]).to(torch.int32)
    line = SearchPath(every, path, torch.full((num_games,), length - 1), torch.cat(words[:-1]), played)
    return line, words[-2], moves


@pytest.mark.parametrize("sizes, before", [((2,), 0), ((2,), 9), ((3,), 25), ((9,), 40), ((1, 3, 5), 3)])
def test_arrivals(sizes: tuple[int, ...], before: int) -> None:
    """All that a leaf is asked for, some lanes or all, at several depths; repetitions and finished games among them."""
    rules = [rule for size in sizes for rule in kinds(size, 3)]
    root = list(random_games(rules, 60, seed=before))[before][0]
    met = {"repeats": 0, "finished": 0}
    for length in (1, 2, 5, 12, 20):
        line, parents, moves = ways_down(root, length, seed=length)
        for lane in (line.game_index, line.game_index[::3]):
            some = SearchPath(lane, line.path[lane], line.depth[lane], line.words, line.actions)
            found = GO.step_leaves(root, some, parents[lane], moves[-1][lane])
            with kernels.plain():
                position = GO.play(root, lane, parents[lane], moves[-1][lane])
                finished, result = GO.outcome(root, lane, position)
                repeats = GO.repeats(root, position, some, moves[-1][lane])
                leaf = GO.leaf(root, position, some, moves[-1][lane])
                wanted = {
                    "words": GO.pack(position),
                    "legal": GO.legal(root, lane, position),
                    "finished": finished,
                    "result": result,
                    "repeats": repeats,
                }
            for name, value in wanted.items():
                assert value.dtype == getattr(found, name).dtype and torch.equal(value, getattr(found, name)), (
                    length,
                    name,
                )
            assert_same(found.leaf, leaf, f"length {length}")
            met = {name: met[name] + int(wanted[name].sum()) for name in met}
    assert met["finished"] > 0 and (root.board_size > 3 or met["repeats"] > 0)
    assert set(LEAF_FIELDS) <= {field.name for field in dataclasses.fields(root)}


def test_play_tells_what_it_took() -> None:
    for state, actions in random_games([rule for size in (2, 4) for rule in kinds(size, 2)], 30, seed=5):
        after, removed = play(state, actions, state.on_board, state.suicide, state.cap)
        with kernels.plain():
            plainly, taken = play(state, actions, state.on_board, state.suicide, state.cap)
        assert_same(after, plainly, "position")
        assert torch.equal(removed, taken)


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
