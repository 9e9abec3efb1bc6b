"""The implementations of the board's and the leaf step's hot operations against torch, every tensor, bit for bit; and
that Triton's compile."""

import dataclasses

import boards
import pytest
import torch
from boards import IMPLEMENTATIONS, NUMBA, TRITON, assert_same, doing, done, kinds, random_games
from torch import Tensor

from zerogo import board, draws, flood, kernels, scoring
from zerogo.board import State, zobrist
from zerogo.board.position import legal_rows
from zerogo.board.superko import exact_legal_rows
from zerogo.rules import SUPERKO, Rules
from zerogo.search import Go, SearchPath
from zerogo.search.game import LEAF_FIELDS

GO = Go()
KERNELS = pytest.mark.parametrize("way", [NUMBA, TRITON])

# name -> rules, plies, and the plies from which on, and how often, the slow ways look
GAMES = {
    "1": (kinds(1, 1), 9, 0, 4),
    "2": (kinds(2, 6), 40, 6, 8),
    "3": (kinds(3, 5), 60, 20, 19),
    "5": (kinds(5, 2), 80, 20, 25),
    "9": (kinds(9), 120, 60, 29),
    "13": (kinds(13)[2:5], 40, 35, 5),
    "19": ([Rules(19, superko="situational", suicide=True), Rules(19)], 30, 28, 2),
    "25": ([Rules(25, suicide=True), Rules(24)], 12, 11, 1),
    "mixed": ([rule for size in (1, 2, 3, 4, 7) for rule in kinds(size)], 60, 15, 24),
}


@IMPLEMENTATIONS
@pytest.mark.parametrize("name", GAMES)
def test_games_to_their_ends(name: str, way: str) -> None:
    """Exact legal moves and everything that a step changes; a game that is over stays."""
    rules, plies, first, every = GAMES[name]
    for ply, (state, actions) in enumerate(random_games(rules, plies)):
        if way != "numba" and (ply < first or (ply - first) % every):
            continue
        legal, after = done(way, exact_legal_rows, state), done(way, board.step, state, actions)
        assert torch.equal(legal, done("plain", exact_legal_rows, state)), ply
        wanted = done("plain", board.step, state, actions)
        over = (~after.finished).unsqueeze(1)  # torch writes into places of a finished game that nobody reads
        seen = torch.where(over, wanted.seen, after.seen)
        links = wanted.links if way == "triton" else torch.where(over, wanted.links, after.links)
        found = dataclasses.replace(after, links=links) if way == "triton" else after
        assert_same(found, dataclasses.replace(wanted, seen=seen, links=links), f"ply {ply}")
    assert state.finished.all()


@IMPLEMENTATIONS
@pytest.mark.parametrize("size", [1, 2, 5, 9, 19, 25])
def test_floods_and_areas(size: int, way: str) -> None:
    for seed, empty in enumerate((0.1, 0.5, 0.9)):
        black, white, exists = boards.coloured(size, 4 if way == "triton" else 70 if size < 10 else 10, empty, seed)
        planes = torch.stack([black, white])
        arguments = flood.neighbours(planes), exists & ~planes
        assert torch.equal(done(way, flood.flood, *arguments), done("plain", flood.flood, *arguments))
        assert torch.equal(flood.row_counts(planes), done(way, flood.row_counts, planes))
        if way != "triton":
            found = done(way, scoring.area_rows, black, white, exists)
            for one, other in zip(found, done("plain", scoring.area_rows, black, white, exists), strict=True):
                assert torch.equal(one, other)


@pytest.mark.parametrize("way", ["torch", NUMBA])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 9, 19, 25])
def test_unconditional_life(size: int, way: str) -> None:
    """Colourings full of strings, where many live, and ends where all do."""
    rules = [Rules(size, suicide=suicide) for suicide in (False, True)] * (12 if size < 9 else 2)
    found = 0
    for seed, empty in enumerate((0.1, 0.2, 0.3)):
        black, white, _ = boards.coloured(size, len(rules), empty, seed)
        sides = ((black, white), (black, torch.zeros_like(white)), (black & ~white, white & ~torch.roll(white, 1)))
        for own, other in sides:
            stones = flood.unpack_rows(own).to(torch.int8) + 2 * flood.unpack_rows(other & ~own).to(torch.int8)
            state = board.from_stones(stones, torch.ones(len(rules), dtype=torch.int8), rules)
            alive = done(way, alive_of, state)
            for one, same in zip(alive, done("plain", alive_of, state), strict=True):
                assert torch.equal(one, same)
            assert torch.equal(done(way if way == "numba" else "plain", scoring.all_pass_alive, state), alive[-1])
            found += int((alive[0] | alive[1] != 0).sum())
    assert size < 3 or found > 0


def alive_of(state: State) -> list[Tensor]:
    """Returns what is pass-alive, whose points are whose at the end, and whether all is pass-alive."""
    black, white = scoring.pass_alive_rows(state.black, state.white, state.on_board, state.rules.suicide)
    return [black, white, *scoring.final_rows(state), ((black | white) == state.on_board).all(1)]


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


# What the CPU's kernels promise beside


def test_inputs_may_lie_apart_in_memory() -> None:
    for state, actions in random_games(kinds(5, 3), 30):
        wide = torch.stack([state.black, state.white, state.atari, state.on_board], dim=1)
        lost = state.lost.transpose(0, 2).contiguous().transpose(0, 2)
        rows = {"black": wide[:, 0], "white": wide[:, 1], "atari": wide[:, 2], "on_board": wide[:, 3], "lost": lost}
        apart = dataclasses.replace(state, **rows, moves=state.moves.T.contiguous().T)
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
        actions, before = boards.random_moves(state, 8), state.map(torch.clone)
        after = board.step(state, actions)
        assert_same(state, before, "the given state")
        state, taken = after, board.step_(taken, actions)
        assert_same(state, taken, "taken over")


@KERNELS
def test_put_as_by_torch(way: str) -> None:
    fast = plain = board.new_games(8, kinds(3, 2)[:8], move_cap=30)
    fresh = board.new_games(2, Rules(3, superko="situational"), move_cap=9)
    for ply in range(40 if way == "numba" else 4):
        actions, index = boards.random_moves(plain, 2), torch.tensor([ply % 8, (ply + 3) % 8])
        fast = done(way, board.put, done(way, board.step, fast, actions), index, fresh)
        plain = done("plain", board.put, done("plain", board.step, plain, actions), index, fresh)
        going = (~plain.finished).nonzero().squeeze(1)
        assert fast.ply_bound == plain.ply_bound and torch.equal(fast.stones, plain.stones)
        assert_same(fast.select(going), plain.select(going), but=("links",) if way == "triton" else ())


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


# The last move of a simulation


def paths_down(roots: State, games: Tensor, length: int, seed: int) -> tuple[SearchPath, Tensor, Tensor]:
    """Returns paths through trees of one branch each, their last positions' words, and moves from there, legal but for
    superko.

    Simulation k went so many moves that k is the remainder; behind its end a path names its first node."""
    number, depth = len(games), torch.arange(len(games)) % length
    words, moves = [GO.pack(roots.select(games))], [torch.full((number,), -1)]
    with kernels.plain():
        for level in range(length):
            now = GO.unpack(words[-1], roots.board_size)
            legal = GO.legal(roots, games, now).to(torch.float32)
            legal[:, -1] = 0.1
            moves.append(draws.choose(draws.key(seed, torch.arange(number), level), legal))
            words.append(GO.pack(GO.play(roots, games, words[-1], moves[-1])))
    level, k = torch.arange(length), torch.arange(number)
    path = torch.where(level <= depth.unsqueeze(1), level, 0) * number + k.unsqueeze(1)
    line = SearchPath(games, path, depth, torch.cat(words), torch.cat(moves).to(torch.int32))
    return line, line.words[depth * number + k], torch.stack(moves)[depth + 1, k]


def check_leaves(way: str, roots: State, line: SearchPath, words: Tensor, actions: Tensor) -> dict[str, Tensor]:
    """All that the search learns of a move, as `Go` tells it piece by piece. Returns it."""
    found = done(way, step_leaves, roots, *vars(line).values(), words, actions)
    with doing("plain"):
        after = GO.play(roots, line.game_index, words, actions)
        finished, result = GO.outcome(roots, line.game_index, after)
        repeats = GO.repeats(roots, after, line, actions)
        wanted = [GO.pack(after), GO.legal(roots, line.game_index, after), finished, result * finished, repeats]
        leaf = GO.leaf(roots, after, line, actions)
    found = (*found[:3], found[3] * found[2], *found[4:])  # a result has no meaning where the game goes on
    names = ("words", "legal", "finished", "result", "repeats")
    for name, one, other in zip(names, wanted, found, strict=False):
        assert one.dtype == other.dtype and torch.equal(one, other), name
    assert_same(found[-1], leaf, "leaf", but=("links",))
    return dict(zip(names, wanted, strict=True))


def step_leaves(roots: State, *parts: Tensor) -> tuple:
    """Returns what `Go.step_leaves` finds; its arguments' tensors one by one, as `done` moves them."""
    found = GO.step_leaves(roots, SearchPath(*parts[:-2]), *parts[-2:])
    return found.words, found.legal, found.finished, found.result, found.repeats, found.leaf


LEAVES = {  # rules, plies before the roots, length of the paths, simulations of each game
    "tiny, superko": ([Rules(2, superko=kind) for kind in SUPERKO] + [Rules(3, suicide=True)], 5, 9, 5),
    "2x2, long paths": ([Rules(2, superko="simple"), Rules(2, superko="situational")], 2, 40, 20),
    "small": (kinds(5), 30, 9, 2),
    "mixed": ([Rules(9), Rules(7, superko="simple"), Rules(4, komi=0.5)], 25, 4, 2),
    "no superko, right at the start": ([Rules(5, superko="simple")] * 2, 0, 3, 2),
    "19": ([Rules(19)], 200, 3, 2),
    "territory": ([Rules(3, scoring="territory"), Rules(3, superko="situational")], 12, 9, 9),
}  # fmt: skip


@KERNELS
@pytest.mark.parametrize("name", LEAVES)
def test_leaves(name: str, way: str) -> None:
    rules, plies, length, each = LEAVES[name]
    roots = boards.after_random_moves(rules, plies, 5, move_cap=plies + 7)
    met = {"repeats": 0, "finished": 0}
    for levels in (length,) if way == "triton" else (1, 2, length, 20):
        games = torch.arange(len(rules)).repeat_interleave(each if way == "triton" else 4 * each)
        found = check_leaves(way, roots, *paths_down(roots, games, levels, seed=3))
        met = {name: met[name] + int(found[name].sum()) for name in met}
        if levels > 8:
            assert found["finished"].any() and found["result"].any()
    assert met["finished"] or length < 9
    assert met["repeats"] or "superko" not in name or name.startswith("no")
    assert set(LEAF_FIELDS) <= {field.name for field in dataclasses.fields(roots)}


@KERNELS
def test_leaves_of_some_games_without_their_history(way: str) -> None:
    roots = boards.after_random_moves([Rules(3), Rules(2), Rules(3)], 9, 2)
    roots = dataclasses.replace(roots, seen=roots.seen[:, :0], links=roots.links[:, :0])
    check_leaves(way, roots, *paths_down(roots, torch.tensor([0, 2]), 4, seed=3))


# Triton


def test_kernels_compile() -> None:
    """To machine code without memory beside the registers, since a game's state must stay in them."""
    pytest.importorskip("triton")
    from compiling import ARCHITECTURES, compile_call

    from zerogo.kernels.cuda import board as on_cuda
    from zerogo.kernels.cuda import leaf_states
    from zerogo.kernels.shared import HistoryFields

    state = board.new_games(2, [Rules(19, suicide=True), Rules(19, superko="situational")])
    state = dataclasses.replace(state, links=state.links[:, :0])
    keys = zobrist.point_keys(19, torch.device("cpu"))
    history = {name: getattr(state, name) for name in HistoryFields._fields}
    line, words, moves = paths_down(state, torch.arange(2), 2, seed=1)
    calls = [
        (on_cuda.flood, state.on_board, state.on_board),
        (on_cuda.exact_legal_rows, state, keys),
        (on_cuda.step_, state, torch.tensor([0, 1]), keys, history),
        (leaf_states.step_leaves, state, line, words, moves, keys),
    ]
    for function, *arguments in calls:
        found = compile_call(function, *arguments)
        assert set(found) == set(ARCHITECTURES)
        for architecture, launched in found.items():
            assert launched, f"{function.__name__} launches nothing"
            for name, used in launched.items():
                assert used["spills"] == 0 and used["registers"] <= 128, (architecture, name, used)
