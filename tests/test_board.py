"""The board against `zerogo.game` and enumerations, and what its functions promise; its hot operations and those of the
leaf step by each implementation against torch, bit for bit."""

import dataclasses

import pytest
import torch
from boards import Lockstep, after_random_moves, assert_same, kinds, random_games, random_moves, spiral
from diagrams import parse
from implementations import DEVICE, IMPLEMENTATIONS, KERNELS, NUMBA, doing, done
from tables import tables
from torch import Tensor

from zerogo import board, kernels
from zerogo.board import State, flood, rng
from zerogo.board import state as states
from zerogo.board.position import legal_rows
from zerogo.board.superko import exact_legal_rows
from zerogo.errors import InputError
from zerogo.rules import SUPERKO, Rules
from zerogo.search import Go, SearchPath
from zerogo.search.game import LEAF_FIELDS

# rules, how `Lockstep` plays, plies, what at least must ban moves how often
COPIES = {1: 1, 2: 8, 3: 8, 4: 6, 5: 4, 6: 3, 7: 2, 9: 2, 13: 1}
PLAYED = {f"{size}": (kinds(size, copies), {}, 4 * size**2 + 20, {}) for size, copies in COPIES.items()}
PLAYED |= {f"{size}, more": (kinds(size, 10 - size // 2), {}, 4 * size**2 + 20, {}) for size in range(1, 14)}
PLAYED |= {
    f"{size}, large": (kinds(size)[size % 3 * 2 :][:2], {"long": 1.2}, 2 * size**2, {}) for size in range(14, 20)
}
for size, number in ((2, 25), (3, 75), (4, 150), (5, 150)):
    least = {"superko": number} | ({"ko": 10} if size > 2 else {})
    PLAYED[f"{size}, no passes"] = kinds(size, 3), {"pass_share": 0.0, "long": 1e9}, 200, least
# Nothing beyond a game's board influences it: small boards lie in the corner of the largest one's tensors.
PLAYED["many sizes"] = [rule for size in (1, 2, 3, 4, 5, 7, 10) for rule in kinds(size)], {}, 400, {"superko": 100}
PLAYED["on CUDA"] = PLAYED["many sizes"][0], {"device": "cuda", "long": 1e9}, 150, {"superko": 100}
MARKS = {"on CUDA": pytest.mark.gpu}
MARKS |= {name: pytest.mark.slow for name in PLAYED if name.endswith(("more", "large")) and name != "19, large"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in PLAYED])
def test_random_games_agree_at_every_ply(name: str) -> None:
    rules, options, plies, least = PLAYED[name]
    played = Lockstep(rules, name, **options)
    played.run(plies)
    assert played.reasons["suicide"] > 0 and all(played.reasons[kind] > number for kind, number in least.items())
    assert all(game.is_over for game in played.games) or options.get("long") == 1e9


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


@IMPLEMENTATIONS
@pytest.mark.parametrize("size", [9, 25])
def test_a_spiral_over_the_whole_board_is_taken_in_one_move(size: int, way: str) -> None:
    stones = parse("\n".join(spiral(size)))
    both = torch.tensor([stones, stones], dtype=torch.int8)
    state = board.from_stones(both, torch.tensor([2, 1], dtype=torch.int8), Rules(size=size))
    assert torch.equal(state.atari, state.black | state.white), "both spirals have one liberty, the same"
    action = size**2 // 2
    assert done(way, board.legal_actions, state)[:, :-1].nonzero().tolist() == [[0, action], [1, action]]
    after = done(way, board.step, state, torch.tensor([action, action]))
    num_black, num_white = sum(row.count(1) for row in stones), sum(row.count(2) for row in stones)
    assert after.captures.tolist() == [[0, num_black], [num_white, 0]] and (size == 9 or num_black > 300)
    for game, colour in enumerate((2, 1)):
        assert after.stones[game].unique().tolist() == [0, colour]
    seed = flood.points_to_rows((both[0].flatten() == 1).nonzero()[0], size)
    assert torch.equal(done(way, flood.flood, seed, state.black[:1]), state.black[:1]), "one flood reaches its end"


@pytest.mark.parametrize(("superko", "expected"), tables("game")["perft of 2x2"].items())
def test_perft_2x2(superko: str, expected: list[int]) -> None:
    """Sequences of exactly 1, 2, 3, … actions from the empty board without suicide, as two other programs counted."""
    found, state = [], board.new_games(1, Rules(size=2, superko=superko))
    for _ in expected:
        game, action = (board.legal_actions(state) & ~state.finished.unsqueeze(1)).nonzero().unbind(1)
        found.append(len(action))
        state = board.step(state.select(game), action)
    assert found == expected


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


def test_fresh_games_share_no_memory_between_their_fields() -> None:
    """Else the stones put into one colour's plane come back in the other's."""
    tensors = board.new_games(3, Rules(3)).tensors()
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)


def test_bad_stones_are_refused() -> None:
    good = torch.zeros(2, 3, 3, dtype=torch.int8)
    wrong = (torch.zeros(2, 3, 4, dtype=torch.int8), good.float(), good[0], good[:1], good + 3)  # turns of two games
    for stones, rules in (*((stones, Rules(3)) for stones in wrong), (good, Rules(4)), (good, [Rules(3)] * 3)):
        with pytest.raises(InputError):
            board.from_stones(stones, torch.ones(2, dtype=torch.int8), rules)


GO = Go()

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
        if way == "triton" and DEVICE.type == "cpu" and len(rules) > 6:
            few = torch.arange(ply % 5, len(rules), 5)  # the interpreter takes its time: some games of all kinds
            state, actions = state.select(few), actions[few]
        legal, after = done(way, exact_legal_rows, state), done(way, board.step, state, actions)
        assert torch.equal(legal, done("plain", exact_legal_rows, state)), ply
        wanted = done("plain", board.step, state, actions)
        over = (~after.finished).unsqueeze(1)  # torch writes into places of a finished game that nobody reads
        seen = torch.where(over, wanted.seen, after.seen)
        links = wanted.links if way == "triton" else torch.where(over, wanted.links, after.links)
        found = dataclasses.replace(after, links=links) if way == "triton" else after
        assert_same(found, dataclasses.replace(wanted, seen=seen, links=links), f"ply {ply}")
    assert state.finished.all()


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
            moves.append(rng.choose(rng.key(seed, torch.arange(number), level), legal))
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
    roots = after_random_moves(rules, plies, 5, move_cap=plies + 7)
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
