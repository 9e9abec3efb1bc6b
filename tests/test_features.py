"""The encoders: what each preset shows at each index, by hand (tables in `data/planes.json`); both sides' view,
symmetries, samples, whole runs; and kernels, which give torch's planes and wait for no device."""

import json
from pathlib import Path

import pytest
import tiny
import torch
from diagrams import parse
from positions import of_stones, play_random, stored
from tables import tables
from torch import Tensor

from zerogo import board, checkpoint
from zerogo.config import SearchConfig
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.features import ENCODERS, make_encoder
from zerogo.pipeline import train
from zerogo.rules import SUPERKO, Rules, coords
from zerogo.search import Search


@pytest.mark.parametrize("name", list(ENCODERS))
def test_numbers_and_layout(name: str) -> None:
    state, encoder = play_random([Rules(9), Rules(5), Rules(1)], 30), make_encoder(name, komi_input=True)
    planes, half = encoder.planes(state), encoder.planes(state, torch.bfloat16)
    assert planes.is_contiguous(memory_format=torch.channels_last) and encoder.globals(state).dtype == torch.float32
    assert half.dtype == torch.bfloat16 and torch.equal(half, planes.to(torch.bfloat16))
    assert encoder.num_planes == {"alphago49": 49, "handcrafted": 9}.get(name) or str(encoder.num_planes) == name[-2:]
    assert len(set(encoder.global_names)) == encoder.num_globals == encoder.globals(state).shape[1]


def test_samples_give_the_planes_of_their_games() -> None:
    """A sample keeps the last eight positions. They tell all but superko's bans of positions before them."""
    encoder = make_encoder(sorted({group for groups in ENCODERS.values() for group in groups}), komi_input=True)
    index, missing, found = encoder.plane_names.index("banned by ko"), 0, 0
    for superko in SUPERKO:
        rules = [Rules(size, 3.5, superko, suicide=size % 2 == 1) for size in (2, 3, 4, 5) * 6]
        for count in (3, 15, 30, 50):
            state = play_random(rules, count, seed=count)
            state = state.select((~state.finished).nonzero().squeeze(1))
            restored = stored(state)
            before, after = encoder.planes(state), encoder.planes(restored)
            missed = (before[:, index] != after[:, index]).flatten(1).any(1)
            assert not (after[:, index] > before[:, index]).any()
            assert torch.equal(before[~missed], after[~missed]) and not (superko == "simple" and missed.any())
            assert torch.equal(encoder.globals(state), encoder.globals(restored))
            missing, found = missing + int(missed.sum()), found + int((after[:, index] > 0).flatten(1).any(1).sum())
            assert torch.equal(board.legal_actions(state)[~missed], board.legal_actions(restored)[~missed])
    assert found > missing > 0, (found, missing)  # bans that only the whole game tells are few, even here


@pytest.mark.parametrize(("asked", "sentence"), tables("features")["unknown encoders"])
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
    assert loaded.step > 0 and encoder.plane_names == make_encoder(name, komi_input=True).plane_names
    evaluator = Evaluator.from_network(loaded.network(), encoder, symmetries="random")
    search = Search(evaluator, SearchConfig(algorithm="puct"))
    found = search.run(play_random([Rules(3, 4.5)] * 2, 3), 8, seed=1)
    assert (found.visits.sum(1) >= 8).all()
    other = "zero17" if name != "zero17" else "alphago48"
    with pytest.raises(InputError, match="features.encoder"):
        checkpoint.require_compatible(loaded, tiny.config(f"features.encoder={other}"))


ALL = "all"
TABLE = json.loads((Path(__file__).parent / "data" / "planes.json").read_text())
DIAGRAMS = {name: "\n".join(rows) for name, rows in TABLE["diagrams"].items()}
KO, EYES, SHAPES, FIVE, NINE = (DIAGRAMS[name] for name in ("KO", "EYES", "SHAPES", "FIVE", "NINE"))


def state_of(diagram: str, to_play: int, moves: str = "", **rules) -> board.State:
    state = of_stones([parse(diagram)], to_play, **rules)
    for vertex in moves.split():
        state = board.step(state, torch.tensor([coords.from_gtp(vertex, state.board_size)]))
    return state


def vertices(plane: Tensor) -> str:
    """Returns the points of a plane that are not 0, from the top left; "all" where all are."""
    size = plane.shape[-1]
    points = plane.flatten().nonzero().flatten().tolist()
    return ALL if len(points) == size * size else " ".join(coords.to_gtp(point, size) for point in points)


def check(preset: str, state: board.State, indices: range, expected: dict[int, str]) -> None:
    """Asserts what the planes of these indices hold; those that `expected` does not name hold nothing."""
    encoder = make_encoder(preset, komi_input=False)
    planes = encoder.planes(state)[0]
    found = {index: vertices(planes[index]) for index in indices}
    names = encoder.plane_names
    wrong = {f"{index} {names[index]}": found[index] for index in indices if found[index] != expected.get(index, "")}
    assert not wrong


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: f"{case['about']}, {case['moves']}")
def test_by_hand(case: dict) -> None:
    """Three kos, for one: White may not make the position of the start again at B2, only the simple ko rule lets it."""
    state = state_of(DIAGRAMS[case["diagram"]], case["to_play"], case["moves"], **case["rules"])
    expected = {int(index): points for index, points in case["points"].items()}
    check(case["encoder"], state, range(*case["planes"]), expected)


def test_katago_globals() -> None:
    encoder = make_encoder("katago22", True)

    def told(state: board.State) -> list[float]:
        return [round(number, 4) for number in encoder.globals(state)[0].tolist()]

    start = told(state_of(FIVE, 1, komi=7.0))
    assert start == [0, 0, 0, 0, 0, -0.35, 1, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    passed = told(state_of(FIVE, 1, "A1 pass C1 D1 pass", komi=7.5, superko="situational", suicide=True))
    assert passed == [1, 0, 0, 1, 0, 0.375, 1, -0.5, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0.5]
    over = told(state_of(FIVE, 1, "pass pass", komi=-100.0, superko="simple", scoring="territory"))
    assert over == [1, 0, 0, 0, 0, 2.25, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
