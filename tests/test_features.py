"""The encoders: every group and preset, by every implementation, against `features_slow` in random and sensible games
of many sizes and rules; what each preset shows at each index, by hand (`data/planes.json`); samples; whole runs."""

import itertools
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from boards import after_random_moves, crowded, of_stones, parse, spiral
from features_slow import INPUTS, LADDERS, PLANES, Seen, slow_globals
from implementations import HAS_CUDA, KERNELS, encode, read_ladders
from ladder_reader import TooLong
from tables import tables
from torch import Tensor

from zerogo import board, checkpoint, kernels
from zerogo.board import rng
from zerogo.config import SearchConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.features import COUNTS, ENCODERS, GROUPS, Encoder, Group, make_encoder, make_group, readings
from zerogo.game import GameState, Move
from zerogo.pipeline import train
from zerogo.rules import SUPERKO, Rules, coords
from zerogo.search import Search
from zerogo.selfplay.opening import RandomPlayer

RULES = [
    Rules(size, komi, superko, suicide, scoring)
    for (size, komi), superko, suicide, scoring in zip(
        itertools.cycle([(5, 24.5), (9, 7.0), (6, -0.5), (7, 6.5), (9, 0.25), (8, 5.0)]),
        ["positional", "situational", "simple", "positional", "positional", "situational", "simple"] * 4,
        itertools.cycle([False, True, False, False, True]),
        itertools.cycle(["area", "area", "territory"]),
    )
]


def random_actions(state: board.State, ply: int, seed: int) -> Tensor:
    """Returns a move for each game: even ones at random, some passes, odd ones by the player that spares its eyes."""
    game_index = torch.arange(state.num_games)
    weights = board.legal_actions(state).to(torch.float32)
    weights[:, -1] = 0.02 * weights.sum(1)
    anything = rng.choose(rng.key(seed, game_index, ply), weights)
    return torch.where(game_index % 2 == 0, anything, RandomPlayer().choose(state, game_index, seed))


def positions(rules: list[Rules], plies: int, seed: int) -> Iterator[tuple[board.State, dict[int, Seen]]]:
    """Yields the games after each ply, and those that go on by their index."""
    state = board.new_games(len(rules), rules)
    games, passing = [[GameState.new(rule)] for rule in rules], state.board_size**2
    for ply in range(plies):
        actions = random_actions(state, ply, seed)
        for played, action in zip(games, actions.tolist(), strict=True):
            if not played[-1].is_over:
                size = played[-1].rules.size
                row, column = divmod(action, state.board_size)
                narrow = size * size if action == passing else row * size + column
                played.append(played[-1].play(Move.from_action(narrow, size)))
        state = board.step(state, actions)
        yield state, {index: Seen(played) for index, played in enumerate(games) if not played[-1].is_over}


def compare(state: board.State, games: dict[int, Seen], groups: list[str], way: str) -> int:
    """Compares the groups at all games given; returns how many positions were left out for their ladders."""
    encoder = make_encoder([*groups, *INPUTS], komi_input=False)
    planes, numbers = encode(encoder, state, way)
    planes, given_up = planes.numpy(), torch.zeros(state.num_games)
    if LADDERS & set(groups):
        given_up = read_ladders(state, way if HAS_CUDA else "numba").given_up
    left_out = 0
    for index, seen in games.items():
        size, first = seen.size, 0
        for group in groups:
            width = len(make_group(group).names)
            found, first = planes[index, first : first + width], first + width
            assert not found[:, size:].any() and not found[:, :, size:].any(), f"{group} is set off the board"
            if group in LADDERS and given_up[index]:
                continue
            try:
                expected = seen.planes(group)
            except TooLong:
                left_out += 1
                continue
            # A GPU multiplies by 1 / 15 where it is told to divide.
            last_bit = 2e-7 if HAS_CUDA and group == "rule_planes" else 0
            different = np.argwhere(~np.isclose(found[:, :size, :size], np.float32(expected), last_bit, 0))
            where = f"{group}, [plane, row, column]: {different.tolist()}"
            assert not len(different), f"{where}\n{seen.grid}, {seen.mover}, {seen.rules}"
        expected = [number for group in INPUTS for number in slow_globals(seen, group)]
        assert torch.allclose(numbers[index], torch.tensor(expected)), encoder.global_names
    return left_out


def run(rules: list[Rules], plies: int, share: float, groups: list[str], seed: int, *by: str) -> int:
    """Compares a share of all positions, drawn anew at each ply, by each implementation; returns how many."""
    number, generator = 0, torch.Generator().manual_seed(seed)
    for state, games in positions(rules, plies, seed):
        is_kept = torch.rand(len(games), generator=generator) < share
        chosen = {index: seen for (index, seen), kept in zip(games.items(), is_kept.tolist(), strict=True) if kept}
        for way in by or ("numba",) if chosen else ():
            compare(state.select(torch.tensor([*chosen])), dict(enumerate(chosen.values())), groups, way)
        number += len(chosen)
    return number


WITHOUT_LADDERS = [group for group in PLANES if group not in LADDERS]


@pytest.mark.parametrize("by", [("numba", "plain"), pytest.param(("triton",), marks=pytest.mark.gpu)])
def test_all_groups_on_small_boards(by: tuple[str, ...]) -> None:
    assert run(RULES, 60, 0.04, WITHOUT_LADDERS, 1, *by) > 60


@pytest.mark.parametrize("by", ["numba", pytest.param("triton", marks=pytest.mark.gpu)])
def test_ladders_on_small_boards(by: str) -> None:
    assert run(RULES[:12], 60, 0.15, sorted(LADDERS), 2, by) > 60


def test_katago22_on_boards_of_all_sizes() -> None:
    """KataGo's inputs in games of all rules; what the inputs show of boards of 2 to 19 points a side."""
    groups = [group for group in ENCODERS["katago22"] if group in PLANES]
    assert run([*RULES[:6], Rules(2, 0.5), Rules(3), Rules(7, suicide=True)], 80, 0.25, groups, 5) > 120
    rules = [Rules(13, 7.5), Rules(19, 6.5, "situational", True), Rules(13, 0.5, "simple", False, "territory")]
    assert run(rules, 250, 0.03, groups, 6) > 12


TACTICS = ["liberties:64", "capture_size:64", "opponent_capture_size:64", "self_atari_size:64", "liberties_after:64",
           "connects", "scaled_weakest", "ko_takes"]  # fmt: skip


@KERNELS
def test_tactics_of_crowded_boards_and_spirals(way: str) -> None:
    """Joins and captures at once; a string winds over the whole board, at whose last liberty a move takes or dies."""
    draw = random.Random(2)
    boards = [crowded(size, draw, 0.65) for size in (5, 7, 9, 5, 8)]
    boards += [parse(spiral(9)), crowded(19, draw, 0.75)]
    for number, rows in enumerate(boards[5:6] if way == "triton" and not HAS_CUDA else boards):
        for to_play in (1, 2) if len(rows) < 19 else (1,):
            rules = Rules(len(rows), suicide=(number + to_play) % 2 == 0)
            seen = {0: Seen([GameState.from_stones(rows, to_play, rules)])}
            compare(of_stones([rows], rules, to_play), seen, TACTICS, way)


@pytest.mark.parametrize("name", list(ENCODERS))
def test_presets_are_their_groups(name: str) -> None:
    """The groups are compared above one by one; here a preset's planes follow each other in the order of its list."""
    state, games = next(itertools.islice(positions([Rules(7, 6.5)] * 4, 30, seed=4), 25, None))
    encoder = make_encoder(name, komi_input=True)
    planes, names, half = encoder.planes(state), encoder.plane_names, encoder.planes(state, torch.bfloat16)
    assert planes.shape == (4, encoder.num_planes, 7, 7) and len(set(names)) == len(names) == encoder.num_planes
    assert {"alphago49": 49, "handcrafted": 9}.get(name) == encoder.num_planes or str(encoder.num_planes) == name[-2:]
    assert planes.is_contiguous(memory_format=torch.channels_last)
    assert half.dtype == torch.bfloat16 and torch.equal(half, planes.to(torch.bfloat16))
    numbers, names = encoder.globals(state), encoder.global_names
    assert numbers.dtype == torch.float32 and len(set(names)) == encoder.num_globals == numbers.shape[1]
    for index, seen in games.items():
        expected = [plane for group in ENCODERS[name] if group in PLANES for plane in seen.planes(group)]
        assert torch.equal(planes[index], torch.tensor(expected, dtype=torch.float32))


def test_samples_give_the_planes_of_their_games() -> None:
    """A sample keeps the last eight positions. They tell all but superko's bans of positions before them."""
    encoder = make_encoder(sorted({group for groups in ENCODERS.values() for group in groups}), komi_input=True)
    index, missing, found = encoder.plane_names.index("banned by ko"), 0, 0
    for superko in SUPERKO:
        rules = [Rules(size, 3.5, superko, suicide=size % 2 == 1) for size in (2, 3, 4) * 16]
        for count in (5, 11, 12, 26):
            state = after_random_moves(rules, count, seed=count)
            state = state.select((~state.finished).nonzero().squeeze(1))
            restored = tiny.samples_of(state, 1).state()
            before, after = encoder.planes(state), encoder.planes(restored)
            missed = (before[:, index] != after[:, index]).flatten(1).any(1)
            assert not (after[:, index] > before[:, index]).any()
            assert torch.equal(before[~missed], after[~missed]) and not (superko == "simple" and missed.any())
            assert torch.equal(encoder.globals(state), encoder.globals(restored))
            missing, found = missing + int(missed.sum()), found + int((after[:, index] > 0).flatten(1).any(1).sum())
            assert torch.equal(board.legal_actions(state)[~missed], board.legal_actions(restored)[~missed])
    assert found > missing > 0, (found, missing)  # bans that only the whole game tells are few, even here


@pytest.mark.parametrize("group", GROUPS)
def test_an_encoder_knows_which_readers_it_needs(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needed, encoder = set(), Encoder("", ["stones", group], False)
    monkeypatch.setattr(readings, "_read", lambda name, *_: [][needed.add(name)])
    with kernels.plain(), suppress(TypeError):
        encoder.planes(board.new_games(1, Rules(2)))
    assert encoder.readers == needed


@pytest.mark.parametrize(("asked", "sentence"), tables("features")["unknown encoders"])
def test_unknown_encoders(asked: str | list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_encoder(asked, komi_input=True)


def test_a_group_with_a_result_of_another_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GROUPS, "mine", Group(COUNTS, ("one", "two"), lambda view: view.legal))
    with pytest.raises(InputError, match=r"group mine returns torch.int32 \[2, 3\]; it must return int16 \[2, 3, 3\],"):
        make_encoder(["stones", "mine"], komi_input=True).planes(board.new_games(2, Rules(3)))


@pytest.mark.parametrize("name", ["katago22", ["stones", "bans", "komi_parity"]])
def test_encoders_play_and_learn(name: str | list[str], tmp_path: Path) -> None:
    """A whole tiny run: self-play, samples, training, checkpoint; then the network searches. Other runs have zero17."""
    asked = name if isinstance(name, str) else json.dumps(name)
    train(tiny.config(f"features.encoder={asked}", f"run.directory={tmp_path}", "pipeline.iterations=1"))
    loaded = checkpoint.load_newest(tmp_path / "tiny")
    encoder = loaded.encoder()
    assert loaded.step > 0 and encoder.plane_names == make_encoder(name, komi_input=True).plane_names
    evaluator = Evaluator.from_network(loaded.network(), encoder, symmetries="random")
    search = Search(evaluator, SearchConfig(algorithm="puct"))
    found = search.run(after_random_moves([Rules(3, 4.5)] * 2, 3), 8, seed=1)
    assert (found.visits.sum(1) >= 8).all()
    with pytest.raises(InputError, match="features.encoder"):
        checkpoint.require_compatible(loaded, tiny.config())


ALL = "all"
TABLE = json.loads((Path(__file__).parent / "data" / "planes.json").read_text())


def state_of(diagram: list[str], to_play: int, moves: str = "", **rules) -> board.State:
    state = of_stones([parse(diagram)], Rules(len(diagram), **rules), to_play)
    for vertex in moves.split():
        state = board.step(state, torch.tensor([coords.from_gtp(vertex, state.board_size)]))
    return state


def vertices(plane: Tensor) -> str:
    """Returns the points of a plane that are not 0, from the top left; "all" where all are."""
    size = plane.shape[-1]
    points = plane.flatten().nonzero().flatten().tolist()
    return ALL if len(points) == size * size else " ".join(coords.to_gtp(point, size) for point in points)


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: f"{case['about']}, {case['moves']}")
def test_by_hand(case: dict) -> None:
    """Three kos, for one: White may not make the position of the start again at B2, only the simple ko rule lets it."""
    state = state_of(TABLE["diagrams"][case["diagram"]], case["to_play"], case["moves"], **case["rules"])
    planes = make_encoder(case["encoder"], komi_input=False).planes(state)[0]
    shown = {str(index): points for index in range(*case["planes"]) if (points := vertices(planes[index]))}
    assert shown == case["points"]


@pytest.mark.parametrize(("diagram", "moves", "rules", "numbers"), TABLE["globals of katago22"])
def test_katago_globals(diagram: str, moves: str, rules: dict, numbers: list[float]) -> None:
    """For one: stones that stood at the start are none that were played."""
    state = state_of(TABLE["diagrams"][diagram], 1, moves, **rules)
    assert [round(number, 4) for number in make_encoder("katago22", True).globals(state)[0].tolist()] == numbers
