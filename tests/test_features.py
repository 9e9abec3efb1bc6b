"""The encoders as a whole: both sides' view, symmetries, boards of different sizes, samples, threads, whole runs;
zero17 once more."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import tiny
import torch
from host_reads import no_reads
from implementations import read_ladders
from positions import play_random, restoring, swap_colours
from torch import Tensor

from zerogo import board, checkpoint, flood, symmetry
from zerogo.config import Config, FeaturesConfig, SearchConfig, from_dict, with_overrides
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.features import ENCODERS, make_encoder, on_board_mask
from zerogo.pipeline.run import train
from zerogo.rules import SCORING, SUPERKO, Rules
from zerogo.search import Search


def slow_zero17(stones: list[Tensor], to_play: int, size: int, game: int) -> Tensor:
    """Returns AlphaGo Zero's planes of one game, from its stones after each ply: the paper's words as loops."""
    side = stones[0].shape[-1]
    planes = torch.zeros(17, side, side)
    for ago in range(8):
        if ago < len(stones):
            position = stones[-1 - ago][game]
            for row in range(size):
                for column in range(size):
                    colour = int(position[row, column])
                    if colour == to_play:
                        planes[ago, row, column] = 1
                    elif colour != 0:
                        planes[8 + ago, row, column] = 1
    if to_play == 1:
        planes[16, :size, :size] = 1
    return planes


@pytest.mark.parametrize("plies", [0, 1, 5, 8, 23])
def test_zero17_agrees_with_the_plain_one(plies: int) -> None:
    sizes = [5, 3, 5, 2]
    state, stones = play_random([Rules(size) for size in sizes], plies, seed=plies)
    encoder = make_encoder("zero17", komi_input=True)
    planes = encoder.planes(state)
    assert planes.shape == (4, encoder.num_planes, 5, 5) and planes.dtype == torch.float32
    assert planes.is_contiguous(memory_format=torch.channels_last)
    going = [game for game in range(4) if not state.finished[game]]
    assert going
    for game in going:
        expected = slow_zero17(stones, int(state.to_play[game]), sizes[game], game)
        assert torch.equal(planes[game], expected), f"game {game}"


@pytest.mark.parametrize("name", list(ENCODERS))
def test_swapped_colours_look_the_same_to_the_mover(name: str) -> None:
    state, _ = play_random([Rules(5, 6.5, superko) for superko in ("simple", "positional")], 9)
    state = board.restore(**restoring(state))
    other = swap_colours(state)
    encoder = make_encoder(name, komi_input=True)
    planes, mirrored, names = encoder.planes(state), encoder.planes(other), encoder.plane_names()
    for index, own in enumerate(names):
        if own in ("Black to move", "handicap given"):  # the latter is White's first move
            assert torch.equal(planes[:, index], 1 - mirrored[:, index])
        else:
            swapped = own.replace("black", "white") if "black" in own else own.replace("white", "black")
            assert torch.equal(planes[:, index], mirrored[:, names.index(swapped)]), own
    assert torch.equal(encoder.globals(state), encoder.globals(other))


def test_komi_is_the_movers() -> None:
    state = board.new_games(3, [Rules(5, komi=24.5), Rules(9, komi=7.0), Rules(19, komi=-7.5)])
    encoder = make_encoder("zero17", komi_input=True)
    black = encoder.globals(state)
    assert torch.allclose(black, torch.tensor([[-2.45], [-7 / 18], [7.5 / 38]]))
    white = board.step(state, torch.full((3,), 0))
    assert torch.allclose(encoder.globals(white), -black)
    assert make_encoder("zero17", komi_input=False).globals(state).shape == (3, 0)


def test_on_board_mask() -> None:
    assert on_board_mask(board.new_games(2, Rules(4))) is None
    state = board.new_games(2, [Rules(4), Rules(2)])
    mask = on_board_mask(state)
    assert mask.dtype == torch.bool and mask.flatten(1).sum(1).tolist() == [16, 4] and mask[1, :2, :2].all()
    assert torch.equal(mask, flood.unpack_rows(state.on_board))


@pytest.mark.parametrize("name", list(ENCODERS))
def test_shapes_ranges_and_names(name: str) -> None:
    state, _ = play_random([Rules(9), Rules(5), Rules(1)], 30)
    encoder = make_encoder(name, komi_input=True)
    planes = encoder.planes(state)
    assert planes.shape == (3, encoder.num_planes, 9, 9) and planes.is_contiguous(memory_format=torch.channels_last)
    assert encoder.globals(state).shape == (3, encoder.num_globals) and encoder.globals(state).dtype == torch.float32
    assert len(set(encoder.plane_names())) == encoder.num_planes
    assert len(set(encoder.global_names())) == encoder.num_globals
    assert encoder.num_planes == {"alphago49": 49, "handcrafted": 9}.get(name) or str(encoder.num_planes) == name[-2:]
    is_komi = torch.tensor(["komi" in plane for plane in encoder.plane_names()])
    assert planes[:, ~is_komi].min() == 0 and planes[:, ~is_komi].max() == 1
    is_whole = torch.tensor(["scaled" not in plane for plane in encoder.plane_names()]) & ~is_komi
    assert ((planes[:, is_whole] == 0) | (planes[:, is_whole] == 1)).all()
    assert not planes[1, :, 5:].any() and not planes[1, :, :, 5:].any() and not planes[2, :, 1:].any()
    half = encoder.planes(state, torch.bfloat16)
    assert half.dtype == torch.bfloat16 and torch.equal(half, planes.to(torch.bfloat16))


def test_komi_is_told_once() -> None:
    names = {name: make_encoder(name, komi_input=True).global_names() for name in ENCODERS}
    assert names["zero17"] == names["alphago48"] == ["komi"] and names["article22"] == []
    assert len(names["katago22"]) == 19 and names["katago22"][5] == "komi / 20"
    assert make_encoder("alphago48", komi_input=False).num_globals == 0


@pytest.mark.parametrize("name", list(ENCODERS))
def test_turned_games_give_turned_planes(name: str) -> None:
    """The same games played on the turned board, in a batch of two sizes with one of them turned within its corner."""
    rules, generator = [Rules(7)] * 3, torch.Generator().manual_seed(3)
    encoder, moves = make_encoder(name, komi_input=True), []
    state = board.new_games(3, rules)
    for _ in range(45):
        weights = board.legal_actions(state).to(torch.float32)
        weights[:, -1] *= 0.3
        moves.append(torch.multinomial(weights, 1, generator=generator).squeeze(1))
        state = board.step(state, moves[-1])
    given_up = read_ladders(state).given_up.any()
    for turn in range(1, 8):
        table = symmetry.action_table(7)[symmetry.INVERSE[turn]]
        turned = board.new_games(3, rules)
        for actions in moves:
            turned = board.step(turned, table[actions])
        expected = symmetry.transform_planes(encoder.planes(state), turn)
        assert given_up or torch.equal(encoder.planes(turned), expected)
        assert torch.equal(encoder.globals(turned), encoder.globals(state))


@pytest.mark.parametrize("name", list(ENCODERS))
def test_without_a_look_by_the_host(name: str, blind) -> None:
    """What torch does on CUDA without kernels gives the same."""
    sizes = [9, 5, 7, 3, 9, 2]
    rules = [Rules(size, 3.5, SUPERKO[k % 3], k % 2 == 1, SCORING[k % 2]) for k, size in enumerate(sizes)]
    encoder = make_encoder(name, komi_input=True)
    states = [play_random(rules, plies, seed=plies)[0] for plies in (0, 20, 60, 90)]
    states += [board.restore(**restoring(state)) for state in states]
    expected = [(encoder.planes(state), encoder.globals(state)) for state in states]
    blind()
    for state, (planes, numbers) in zip(states, expected, strict=True):
        with no_reads() if name == "zero17" else nullcontext():  # tactics and ladders are the CPU's
            found, told = encoder.planes(state), encoder.globals(state)
        assert torch.equal(found, planes) and torch.equal(told, numbers)


def test_samples_give_the_planes_of_their_games() -> None:
    """A sample keeps the last eight positions. They tell all but superko's bans of positions before them."""
    encoder = make_encoder(sorted({group for groups in ENCODERS.values() for group in groups}), komi_input=True)
    index, missing, found = encoder.plane_names().index("banned by ko"), 0, 0
    for superko in SUPERKO:
        rules = [Rules(size, 3.5, superko, suicide=size % 2 == 1) for size in (2, 3, 4, 5) * 6]
        for count in (3, 15, 30, 50):
            state, _ = play_random(rules, count, seed=count)
            state = state.select((~state.finished).nonzero().squeeze(1))
            restored = board.restore(**restoring(state))
            before, after = encoder.planes(state), encoder.planes(restored)
            missed = (before[:, index] != after[:, index]).flatten(1).any(1)
            assert not (after[:, index] > before[:, index]).any()
            assert torch.equal(before[~missed], after[~missed]) and not (superko == "simple" and missed.any())
            assert torch.equal(encoder.globals(state), encoder.globals(restored))
            missing, found = missing + int(missed.sum()), found + int((after[:, index] > 0).flatten(1).any(1).sum())
            assert torch.equal(board.legal_actions(state)[~missed], board.legal_actions(restored)[~missed])
    assert found > 5 * missing > 0, (found, missing)  # bans that only the whole game tells are few, even here


def test_own_lists() -> None:
    encoder = make_encoder(("stones", "liberties:3", "komi_parity", "turns_since:2"), komi_input=True)
    assert encoder.name == "stones, liberties:3, komi_parity, turns_since:2"
    assert encoder.global_names() == ["komi parity", "komi"]
    expected = ["own stone", "opponent's stone", "liberties 1", "liberties 2", "liberties 3 or more", "turns since 1"]
    assert encoder.plane_names() == [*expected, "turns since 2 or more"]
    config = Config(features=FeaturesConfig(encoder=["stones", "liberties:3"]))
    assert config.features.encoder == ("stones", "liberties:3") and from_dict(config.to_dict()) == config
    for text, asked in (("[stones, history:2]", ("stones", "history:2")), ("katago22", "katago22")):
        assert with_overrides(Config(), [f"features.encoder={text}"]).features.encoder == asked


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("zero18", "zero18.*zero17"),
        (["stones", "libertys"], "'libertys'; allowed are .*liberties"),
        (["stones:2"], "stones takes no number"),
        (["liberties:x"], "a whole one from 1 to 64"),
        (["turns_since:9"], "a whole one from 1 to 8"),
        (["last_passes:2"], "at least one of the groups must give planes"),
        ([], "at least one of the groups must give planes"),
    ],
)
def test_unknown_encoders(asked: str | list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_encoder(asked, komi_input=True)


@pytest.mark.parametrize("name", [*ENCODERS, ["stones", "bans", "komi_parity"]])
def test_every_encoder_plays_and_learns(name: str | list[str], tmp_path: Path) -> None:
    """A whole tiny run: self-play, samples, training, checkpoint; then the network searches."""
    asked = name if isinstance(name, str) else json.dumps(name)
    train(tiny.config(f"features.encoder={asked}", f"run.directory={tmp_path}", "pipeline.iterations=1"))
    loaded = checkpoint.load_newest(tmp_path / "tiny")
    encoder = loaded.encoder()
    assert loaded.step > 0 and encoder.plane_names() == make_encoder(name, komi_input=True).plane_names()
    evaluator = Evaluator.from_network(loaded.network(), encoder, symmetries="random")
    search = Search(evaluator, SearchConfig(algorithm="puct"))
    found = search.run(play_random([Rules(3, 4.5)] * 2, 3)[0], 8, seed=1)
    assert (found.visits.sum(1) >= 8).all()
    other = "zero17" if name != "zero17" else "alphago48"
    with pytest.raises(InputError, match="features.encoder"):
        checkpoint.require_compatible(loaded, tiny.config(f"features.encoder={other}"))
