"""The board's CUDA kernels against torch, bit for bit: interpreted, where there is no GPU, and on it with `pytest -m
gpu`; they compile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import CASES, spiral
from diagrams import parse
from test_board_internals import random_moves
from torch import Tensor

from zerogo import board, coords, flood, kernels
from zerogo.board import State, position, superko, zobrist
from zerogo.board.state import exact_legal_rows
from zerogo.rules import SUPERKO, Rules
from zerogo.search import Go, SearchPath

pytest.importorskip("triton")
import interpreting  # noqa: E402, F401
from compiling import ARCHITECTURES, compile_call  # noqa: E402

from zerogo.kernels.cuda import board as board_kernels  # noqa: E402
from zerogo.kernels.cuda import leaf_states as leaf_kernels  # noqa: E402

CPU = torch.device("cpu")
KINDS = [(kind, suicide) for kind in SUPERKO for suicide in (False, True)]


def on(device: torch.device, thing: Any) -> Any:
    """Returns tensors, or what holds them, on a device; the rest as it is."""
    if isinstance(thing, Tensor):
        return thing.to(device)
    if isinstance(thing, SearchPath):
        return SearchPath(*(getattr(thing, field.name).to(device) for field in dataclasses.fields(thing)))
    return board.to_device(thing, device) if isinstance(thing, State) else thing


def answers(device: torch.device, function: Callable, *arguments: Any) -> Any:
    """Returns what the kernels answer, on the CPU."""
    found = function(*(on(device, argument) for argument in arguments))
    if isinstance(found, dict):
        return {name: value.cpu() for name, value in found.items()}
    if isinstance(found, tuple):
        return tuple(
            on(CPU, part) if isinstance(part, Tensor) else {name: value.cpu() for name, value in part.items()}
            for part in found
        )
    return found.cpu()


def same(one: Tensor, other: Tensor, what: str) -> None:
    assert one.dtype == other.dtype and one.shape == other.shape, what
    assert torch.equal(one, other), what


def keys_of(state: State) -> Tensor:
    return zobrist.point_keys(state.board_size, CPU)


def check_moves(state: State, actions: Tensor, device: torch.device) -> None:
    """What may be played and what the actions lead to, as torch has it."""
    legal = position.legal_rows(state, state.on_board, state.suicide)
    same(answers(device, board_kernels.legal_rows, state, state.on_board, state.suicide), legal, "legal")
    after, removed = position.play(state, actions, state.on_board, state.suicide, state.cap)
    fields, gone = answers(
        device, board_kernels.play, state, actions, state.on_board, state.suicide, state.cap, keys_of(state)
    )
    for field in dataclasses.fields(after):
        same(fields[field.name], getattr(after, field.name), field.name)
    same(gone, removed, "removed")


def check_repeats(state: State, device: torch.device) -> int:
    """What superko bans, as torch has it. Returns how many points that are."""
    legal = position.legal_rows(state, state.on_board, state.suicide)
    suicides = None if state.suicide is None else legal & ~position.legal_rows(state, state.on_board, None)
    banned = superko.repeating_rows(state, legal)
    same(answers(device, board_kernels.repeating_rows, state, legal, suicides, keys_of(state)), banned, "banned")
    return int(flood.count(banned).sum())


def check_ataris(state: State, device: torch.device) -> None:
    found = answers(device, board_kernels.find_atari, state.black, state.white, state.on_board)
    wanted = position.find_atari(state.black, state.white, state.on_board)
    same(found[0], wanted[0], "atari")
    same(found[1], wanted[1], "without liberties")


def start(stones: list[list[int]], to_play: int, rules: Rules | list[Rules]) -> State:
    """Returns one game for each of the rules, all from the same stones."""
    number = len(rules) if isinstance(rules, list) else 1
    planes = torch.tensor([stones] * number, dtype=torch.int8)
    return board.from_stones(planes, torch.full((number,), to_play, dtype=torch.int8), rules)


GAMES = {  # rules, plies before the first look, looks, plies between two
    "small": ([Rules(5, superko=kind, suicide=suicide) for kind, suicide in KINDS], 20, 3, 9),
    "tiny": (
        [Rules(2, superko="situational"), Rules(2), Rules(3, suicide=True), Rules(1), Rules(3, superko="situational")],
        6,
        6,
        3,
    ),
    "7": ([Rules(7, superko="simple")] * 2, 60, 3, 7),
    "mixed": ([Rules(9), Rules(5, suicide=True), Rules(7, superko="situational")], 40, 3, 11),
    "19": ([Rules(19, suicide=True)], 300, 2, 40),
}


@pytest.mark.parametrize("name", GAMES)
def test_random_games(name: str, device: torch.device, request: pytest.FixtureRequest) -> None:
    rules, plies, looks, between = GAMES[name]
    state = board.new_games(len(rules), rules, move_cap=plies + (looks - 1) * between)
    seen = []
    for ply in range(plies + looks * between):
        if ply >= plies and (ply - plies) % between == 0:
            seen.append((state, random_moves(state, 7)))
        state = board.step(state, random_moves(state, 7))
    request.getfixturevalue("blind")()
    banned = 0
    for state, actions in seen:
        check_moves(state, actions, device)
        banned += check_repeats(state, device)
    check_ataris(seen[0][0], device)
    assert seen[-1][0].finished.all(), "the last look is at finished games"
    assert banned or name not in ("small", "tiny")


@pytest.mark.parametrize("name", CASES)
def test_pinned_cases(name: str, device: torch.device, blind: Callable[[], None]) -> None:
    case = CASES[name]
    stones = parse(case.diagram)
    state = start(stones, case.to_play, [Rules(len(stones), superko=kind, suicide=case.suicide) for kind in SUPERKO])
    actions = [coords.from_gtp(vertex, len(stones)) for vertex in (*case.moves.split(), case.last)]
    for action in actions[:-1]:
        state = board.step(state, torch.full((3,), action))
    blind()
    check_repeats(state, device)
    check_ataris(state, device)
    legal = position.legal_rows(state, state.on_board, state.suicide)
    row, column = divmod(actions[-1], len(stones))
    may = ((legal[:, row] >> column) & 1 != 0).nonzero().squeeze(1)
    if len(may):
        check_moves(board.select(state, may), torch.full((len(may),), actions[-1]), device)


@pytest.mark.parametrize("size", [19, 25])
def test_a_spiral_over_the_whole_board_is_taken_in_one_move(
    size: int, device: torch.device, blind: Callable[[], None]
) -> None:
    stones, (row, column) = spiral(size)
    state = start(stones, 2, Rules(size))
    blind()
    check_moves(state, torch.tensor([row * size + column]), device)
    found = answers(device, board_kernels.flood, state.black & -state.black & 1, state.black)
    assert torch.equal(found, state.black), "one flood reaches the other end"
    if size < 25:  # it takes the interpreter ten seconds
        check_ataris(state, device)


def test_a_board_that_is_full_but_for_a_point(device: torch.device, blind: Callable[[], None]) -> None:
    """Black's stones die by suicide, all of them, or are taken."""
    stones = [[1] * 5 for _ in range(5)]
    stones[2][3] = 0
    rules = [Rules(5, suicide=True), Rules(5, suicide=True, superko="situational")]
    blind()
    for to_play in (1, 2):
        state = start(stones, to_play, rules)
        check_moves(state, torch.tensor([13, 25]), device)
        check_repeats(state, device)


SHAPES = {  # before, the move: several strings are taken, relieved, put in atari, joined
    "four strings are taken": (".XO.. X.XO. OXO.. .O... .....", 6, 2),
    "takes and relieves two": ("OOX.X XXOOX .XXXO XXO.O .....", 3, 1),
    "joins strings in atari": (".XO.. XO.X. OXOX. .O... .....", 6, 1),
    "long row": ("OOOOO XXXX. ..... ..... .....", 9, 1),
    "suicide relieves what surrounds it": ("X.O.. OO... ..... ..... .....", 1, 1),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, device: torch.device, blind: Callable[[], None]) -> None:
    diagram, action, to_play = SHAPES[name]
    state = start(parse(diagram.replace(" ", "\n")), to_play, [Rules(5, suicide=True)])
    blind()
    check_moves(state, torch.tensor([action]), device)
    check_ataris(board.step(state, torch.tensor([action])), device)


@pytest.mark.parametrize("size", [1, 2, 9, 25])
def test_floods(size: int, device: torch.device, blind: Callable[[], None]) -> None:
    generator = torch.Generator().manual_seed(size)
    within = flood.pack_rows(torch.rand(4, size, size, generator=generator) < 0.7)
    seeds = flood.pack_rows(torch.rand(4, size, size, generator=generator) < 0.05)
    blind()
    same(answers(device, board_kernels.flood, seeds, within), flood.flood(seeds, within), "flood")


def test_a_ply_of_games(device: torch.device, blind: Callable[[], None]) -> None:
    """Exact legal moves, a draw among them, and a move with all that it leaves in the history."""
    state = board.new_games(
        4, [Rules(5), Rules(3, suicide=True), Rules(2), Rules(2, superko="situational")], move_cap=[100, 100, 6, 100]
    )
    for _ in range(13):
        state = board.step(state, random_moves(state, 3))
    blind()
    keys, legal = keys_of(state), exact_legal_rows(state)
    same(answers(device, board_kernels.exact_legal_rows, state, keys), legal, "exact")
    actions = random_moves(state, 3)
    wanted, written = board.step(state, actions), on(device, state.map(torch.clone))
    history = {name: getattr(written, name) for name in board_kernels.History._fields}
    fields = board_kernels.step_(written, actions.to(device), keys.to(device), history)
    for name, found in (fields | history).items():
        same(found.cpu(), getattr(wanted, name), name)
    assert not torch.equal(wanted.recent, state.recent) and state.finished.any()
    put = [torch.zeros(3, 4), torch.ones(3, dtype=torch.bool)]
    board_kernels.replace_(put, torch.tensor([2, 0]), [torch.arange(8.0).view(2, 4), torch.tensor([False, True])])
    assert put[0].tolist() == [[4, 5, 6, 7], [0] * 4, [0, 1, 2, 3]] and put[1].tolist() == [True, True, False]


def test_draws_are_uniform(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(1)
    points = (torch.rand(5, 25, 25, generator=generator) < 0.3) & torch.tensor([True, True, True, False, True]).view(
        -1, 1, 1
    )
    numbers = torch.tensor([0.0, 0.4, 1 - 2**-53, 0.5, 0.999], dtype=torch.float64)
    found = answers(device, board_kernels.pick, flood.pack_rows(points), numbers)
    for game, number in enumerate(numbers.tolist()):
        choices = [*points[game].flatten().nonzero().squeeze(1).tolist(), 625]
        assert int(found[game]) == choices[int(number * len(choices))]


def ways(roots: State, lane: Tensor, length: int, seed: int) -> tuple[SearchPath, Tensor, Tensor]:
    """Returns ways through trees of one branch each, their last positions' words, and moves from there, legal but for
    superko.

    Simulation k went so many moves that k is the remainder; behind its end a path names its first node.
    """
    go, lanes = Go(), len(lane)
    states = board.select(roots, lane)
    depth = torch.arange(lanes) % length
    words, moves = [go.pack(states)], [torch.full((lanes,), -1)]
    for level in range(length):
        now = go.unpack(words[-1], roots.board_size)
        legal = go.legal(roots, lane, now).to(torch.float32)
        legal[:, -1] = 0.05
        moves.append(torch.multinomial(legal, 1, generator=torch.Generator().manual_seed(seed + level)).squeeze(1))
        words.append(go.pack(go.play(roots, lane, words[-1], moves[-1])))
    level, k = torch.arange(length), torch.arange(lanes)
    path = torch.where(level <= depth.unsqueeze(1), level, 0) * lanes + k.unsqueeze(1)
    line = SearchPath(lane, path, depth, torch.cat(words), torch.cat(moves).to(torch.int32))
    return line, line.words[depth * lanes + k], torch.stack(moves)[depth + 1, k]


def check_arrival(roots: State, line: SearchPath, words: Tensor, actions: Tensor, device: torch.device) -> dict[str, Tensor]:
    """All that the search learns of a move, as `Go` tells it piece by piece. Returns it."""
    go = Go()
    found = answers(device, leaf_kernels.step_leaves, roots, line, words, actions, keys_of(roots))
    after = go.play(roots, line.game_index, words, actions)
    finished, result = go.outcome(roots, line.game_index, after)
    repeats = go.repeats(roots, after, line, actions)
    leaf = go.leaf(roots, after, line, actions)
    same(found["words"], go.pack(after), "words")
    same(found["legal"], go.legal(roots, line.game_index, after), "legal")
    same(found["result"], torch.where(finished, result, 0.0), "result")
    same(found["repeats"], repeats, "repeats")
    for name in (*(field.name for field in dataclasses.fields(after)), "recent", "moves"):
        same(found[name], getattr(leaf, name), name)
    return found


ARRIVALS = {  # rules, plies before the root, length of the ways, simulations of each game
    "tiny, superko": ([Rules(2, superko=kind) for kind in SUPERKO] + [Rules(3, suicide=True)], 5, 9, 5),
    "2x2, long ways": ([Rules(2, superko="simple"), Rules(2, superko="situational")], 2, 40, 20),
    "small": ([Rules(5, superko=kind, suicide=suicide) for kind, suicide in KINDS], 30, 9, 2),
    "mixed": ([Rules(9), Rules(7, superko="simple"), Rules(4, komi=0.5)], 25, 4, 2),
    "no superko, right at the start": ([Rules(5, superko="simple")] * 2, 0, 3, 2),
    "19": ([Rules(19)], 200, 3, 2),
}


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrival(name: str, device: torch.device, blind: Callable[[], None]) -> None:
    rules, plies, length, each = ARRIVALS[name]
    roots = board.new_games(len(rules), rules, move_cap=plies + 7)
    for _ in range(plies):
        roots = board.step(roots, random_moves(roots, 5))
    blind()
    lane = torch.arange(len(rules)).repeat_interleave(each)
    line, words, actions = ways(roots, lane, length, seed=11)
    found = check_arrival(roots, line, words, actions, device)
    if "superko" in name and rules[0].size == 2:
        assert found["repeats"].any() and not found["repeats"].all()
    if length > 8:
        assert found["finished"].any() and found["result"].any()


def test_arrival_of_some_games_without_their_history(device: torch.device, blind: Callable[[], None]) -> None:
    roots = board.new_games(3, [Rules(3), Rules(2), Rules(3)])
    for _ in range(9):
        roots = board.step(roots, random_moves(roots, 2))
    blind()
    roots = dataclasses.replace(roots, seen=roots.seen[:, :0], links=roots.links[:, :0])
    check_arrival(roots, *ways(roots, torch.tensor([0, 2]), 4, seed=3), device)


def test_games_are_played_through_the_kernels(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The board and the search ask the kernels wherever they are offered, and the games are those that torch plays."""
    rules = [Rules(3, suicide=True), Rules(2, superko="situational"), Rules(4)]
    with kernels.plain():
        states = [board.new_games(3, rules)]
        for _ in range(8):
            states.append(board.step(states[-1], random_moves(states[-1], 9)))
        actions = [random_moves(state, 9) for state in states]
        legal = [board.legal_actions(state) for state in states]
        line, words, moves = ways(states[-1], torch.tensor([1, 2]), 3, seed=4)
    asked = set()

    def offered(name: str, where: torch.device) -> Any:
        asked.add(name)
        return kernels._module(name, "cuda")

    monkeypatch.setattr(kernels, "compiled", offered)
    played = on(device, states[0])
    for ply, wanted in enumerate(states[1:]):
        assert torch.equal(board.legal_actions(played).cpu(), legal[ply])
        played = board.step_(played, actions[ply].to(device))
        for field in dataclasses.fields(wanted):
            if isinstance(getattr(wanted, field.name), Tensor):
                same(getattr(played, field.name).cpu(), getattr(wanted, field.name), field.name)
    played = board.put_(
        played, torch.tensor([2], device=device), board.select(played, torch.tensor([2], device=device))
    )
    landed = Go().step_leaves(played, on(device, line), on(device, words), on(device, moves))
    found = answers(device, leaf_kernels.step_leaves, states[-1], line, words, moves, keys_of(states[-1]))
    same(landed.words.cpu(), found["words"], "words")
    same(landed.leaf.recent.cpu(), found["recent"], "recent")
    assert asked >= {"board", "leaf_states"}


@pytest.mark.parametrize("size", [19])
def test_kernels_compile(size: int, blind: Callable[[], None]) -> None:
    """To machine code without memory beside the registers, since a game's state must stay in them."""
    blind()
    state = board.new_games(2, [Rules(size, suicide=True), Rules(size, superko="situational")])
    actions, keys = torch.tensor([0, 1]), keys_of(state)
    line, words, moves = ways(state, torch.arange(2), 2, seed=1)
    rows = state.on_board
    calls = [
        (board_kernels.flood, rows, rows),
        (board_kernels.legal_rows, state, rows, state.suicide),
        (board_kernels.play, state, actions, rows, state.suicide, state.cap, keys),
        (board_kernels.find_atari, state.black, state.white, rows),
        (board_kernels.repeating_rows, state, rows, rows, keys),
        (board_kernels.exact_legal_rows, state, keys),
        (board_kernels.pick, rows, torch.zeros(2, dtype=torch.float64)),
        (
            board_kernels.step_,
            state,
            actions,
            keys,
            {name: getattr(state, name) for name in board_kernels.History._fields},
        ),
        (leaf_kernels.step_leaves, state, line, words, moves, keys),
    ]
    for function, *arguments in calls:
        found = compile_call(function, *arguments)
        assert set(found) == set(ARCHITECTURES)
        for architecture, kernels_used in found.items():
            assert kernels_used, f"{function.__name__} launches nothing"
            for name, used in kernels_used.items():
                assert used["spills"] == 0 and used["registers"] <= 128, (architecture, name, used)
