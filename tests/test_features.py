"""The encoders: what each preset shows at each index, by hand (tables in `data/planes.json`); both sides' view,
symmetries, samples, whole runs; and kernels, which give torch's planes and wait for no device."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import tiny
import torch
from compiling import compile_call
from diagrams import parse
from features_slow import LADDERS, PLANES
from host_reads import no_reads
from implementations import READERS, encode, module, read_ladders
from positions import of_stones, play_random, played, stored, swap_colours
from torch import Tensor

from zerogo import board, checkpoint, coords, flood, kernels, symmetry
from zerogo.board.position import find_atari
from zerogo.config import Config, FeaturesConfig, SearchConfig, from_dict, with_overrides
from zerogo.errors import InputError
from zerogo.evaluator import Evaluator
from zerogo.features import ENCODERS, make_encoder, on_board_mask
from zerogo.kernels.shared import COUNTS, ROWS, VALUES
from zerogo.pipeline import train
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
    state = stored(state)
    other = swap_colours(state)
    encoder = make_encoder(name, komi_input=True)
    planes, mirrored, names = encoder.planes(state), encoder.planes(other), encoder.plane_names
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
    assert len(set(encoder.plane_names)) == encoder.num_planes
    assert len(set(encoder.global_names)) == encoder.num_globals
    assert encoder.num_planes == {"alphago49": 49, "handcrafted": 9}.get(name) or str(encoder.num_planes) == name[-2:]
    is_komi = torch.tensor(["komi" in plane for plane in encoder.plane_names])
    assert planes[:, ~is_komi].min() == 0 and planes[:, ~is_komi].max() == 1
    is_whole = torch.tensor(["scaled" not in plane for plane in encoder.plane_names]) & ~is_komi
    assert ((planes[:, is_whole] == 0) | (planes[:, is_whole] == 1)).all()
    assert not planes[1, :, 5:].any() and not planes[1, :, :, 5:].any() and not planes[2, :, 1:].any()
    half = encoder.planes(state, torch.bfloat16)
    assert half.dtype == torch.bfloat16 and torch.equal(half, planes.to(torch.bfloat16))


def test_komi_is_told_once() -> None:
    names = {name: make_encoder(name, komi_input=True).global_names for name in ENCODERS}
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
    states += [stored(state) for state in states]
    expected = [(encoder.planes(state), encoder.globals(state)) for state in states]
    blind()
    for state, (planes, numbers) in zip(states, expected, strict=True):
        with no_reads() if name == "zero17" else nullcontext():  # tactics and ladders are the CPU's
            found, told = encoder.planes(state), encoder.globals(state)
        assert torch.equal(found, planes) and torch.equal(told, numbers)


def test_samples_give_the_planes_of_their_games() -> None:
    """A sample keeps the last eight positions. They tell all but superko's bans of positions before them."""
    encoder = make_encoder(sorted({group for groups in ENCODERS.values() for group in groups}), komi_input=True)
    index, missing, found = encoder.plane_names.index("banned by ko"), 0, 0
    for superko in SUPERKO:
        rules = [Rules(size, 3.5, superko, suicide=size % 2 == 1) for size in (2, 3, 4, 5) * 6]
        for count in (3, 15, 30, 50):
            state, _ = play_random(rules, count, seed=count)
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


def test_own_lists() -> None:
    encoder = make_encoder(("stones", "liberties:3", "komi_parity", "turns_since:2"), komi_input=True)
    assert encoder.name == "stones, liberties:3, komi_parity, turns_since:2"
    assert encoder.global_names == ["komi parity", "komi"]
    expected = ["own stone", "opponent's stone", "liberties 1", "liberties 2", "liberties 3 or more", "turns since 1"]
    assert encoder.plane_names == [*expected, "turns since 2 or more"]
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
    assert loaded.step > 0 and encoder.plane_names == make_encoder(name, komi_input=True).plane_names
    evaluator = Evaluator.from_network(loaded.network(), encoder, symmetries="random")
    search = Search(evaluator, SearchConfig(algorithm="puct"))
    found = search.run(play_random([Rules(3, 4.5)] * 2, 3)[0], 8, seed=1)
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


def top_row(own: int, other: int, below: int, size: int = 9) -> str:
    """Returns a diagram: from the upper left corner so many black and then white stones, and white ones below the first
    points."""
    rows = [["."] * size for _ in range(size)]
    rows[0][: own + other] = ["X"] * own + ["O"] * other
    rows[1][:below] = ["O"] * below
    return "\n".join("".join(row) for row in rows)


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: f"{case['about']}, {case['moves']}")
def test_by_hand(case: dict) -> None:
    """Three kos, for one: White may not make the position of the start again at B2, only the simple ko rule lets it."""
    state = state_of(DIAGRAMS[case["diagram"]], case["to_play"], case["moves"], **case["rules"])
    expected = {int(index): points for index, points in case["points"].items()}
    check(case["encoder"], state, range(*case["planes"]), expected)


@pytest.mark.parametrize("number", range(1, 10))
def test_alphago_liberties(number: int) -> None:
    """A string of n - 1 stones from the corner along the edge has n liberties; one alone between two others has one."""
    diagram = top_row(number - 1, 0, 0) if number > 1 else "XO.\n...\n..."
    expected = " ".join(coords.to_gtp(point, 9) for point in range(number - 1)) if number > 1 else "A3"
    found = vertices(make_encoder("alphago48", False).planes(state_of(diagram, 1))[0, 11 + min(number, 8)])
    assert found == expected


@pytest.mark.parametrize("number", range(1, 9))
def test_alphago_captures_and_self_atari(number: int) -> None:
    """n white stones between black ones die by a move at their end; n black stones between white ones are left with one
    liberty."""
    swapped = top_row(number, 0, number).translate(str.maketrans("XO", "OX"))
    last = coords.to_gtp(number, 9)
    check("alphago48", state_of(swapped, 1), range(20, 28), {19 + number: last})
    if number < 8:
        end, hemmed_in = coords.to_gtp(number - 1, 9), state_of(top_row(number - 1, 0, number + 1), 1)
        assert end in vertices(make_encoder("alphago48", False).planes(hemmed_in)[0, 27 + number]).split()
        check("alphago48", state_of(top_row(number - 1, 0, number), 1), range(36, 37), {36: end})
    free = make_encoder("alphago48", False).planes(state_of(top_row(number - 1, 0, 0), 1))[0, 36:44]
    assert free[:, 0, number - 1].tolist() == [float(liberties == min(number + 1, 8)) for liberties in range(1, 9)]


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


WAVE = [(7.0, 0), (7.25, 0.25), (7.5, 0.5), (8.25, -0.25), (8.5, -0.5), (8.75, -0.25), (8.0, 0), (-7.5, -0.5)]


@pytest.mark.parametrize(("komi", "wave"), WAVE)
def test_katago_komi_parity(komi: float, wave: float) -> None:
    """On a board of odd area draws come at odd komi; White's view of the komi."""
    assert make_encoder("katago22", True).globals(state_of(FIVE, 2, komi=komi))[0, 18] == wave


def test_article48_captures() -> None:
    for number in range(1, 6):
        for to_play, before in ((2, 26), (1, 30)):
            caught = state_of(top_row(number, 0, number), to_play)
            check("article48", caught, range(27, 35), {before + min(number, 4): coords.to_gtp(number, 9)})


def test_article22_komi() -> None:
    komi = make_encoder("article22", True).planes(state_of(FIVE, 1, komi=7.5))[0, 13]
    assert torch.equal(komi, torch.full((5, 5), -0.5))


def test_handcrafted_numbers() -> None:
    planes = make_encoder("handcrafted", False).planes(state_of(top_row(3, 1, 1), 2))[0]
    after, weakest, line = planes[6:]
    assert after[1, 1] == 3 / 8 and after[8, 8] == 2 / 8 and after[4, 4] == 4 / 8 and after[0, 0] == 0
    assert weakest[1, 1] == weakest[1, 2] == 2 / 8 and weakest[4, 4] == 0
    assert line[0, 0] == line[0, 5] == 1 / 5 and line[1, 1] == 2 / 5 and line[4, 4] == 1


CPU = torch.device("cpu")
SIZES = (5, 9, 13, 19)
WITHOUT_LADDERS = sorted(set(PLANES) - LADDERS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("by", READERS)
def test_planes_are_painted_as_told(by: str, dtype: torch.dtype) -> None:
    """Bit rows and counts in an order that mixes them, and room for values."""
    generator = torch.Generator().manual_seed(5)
    rows = torch.randint(0, 2**9, (3, 17, 9), generator=generator).to(torch.int32)
    counts = torch.randint(0, 12, (2, 3, 9, 9), generator=generator).to(torch.int16)
    spans = ((ROWS, 5), (COUNTS, 8), (VALUES, 2), (ROWS, 12), (COUNTS, 4))
    device = "cuda" if by == "cuda" else "cpu"
    found = module("planes", by).paint(spans, rows.to(device), counts.to(device), dtype).cpu()
    bits = (rows.transpose(1, 2).unsqueeze(2) >> torch.arange(9).view(-1, 1)) & 1
    ranges = ((counts[0], 8), (counts[1], 4))
    first, second = (number.clamp(max=most).unsqueeze(-1) == torch.arange(1, most + 1) for number, most in ranges)
    parts = [bits[..., :5], first, torch.zeros(3, 9, 9, 2), bits[..., 5:], second]
    assert torch.equal(found, torch.cat([part.to(dtype) for part in parts], dim=-1))


def batches() -> list[board.State]:
    """Returns games of equal and of different sizes, some over, at their beginning, in the middle and late."""
    states = [played((size,) * 6, size * size * share // 10 + share % 2) for size in SIZES for share in (0, 5, 9)]
    return [*states, played((5, 9, 19, 7, 12, 6) * 2, 60), played((5, 9, 16, 7, 12, 6) * 2, 131)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.float64])
@pytest.mark.parametrize("name", [*ENCODERS, "all groups"])
def test_planes_agree_with_the_plain_ones(name: str, dtype: torch.dtype) -> None:
    if dtype not in (torch.float32, torch.bfloat16) and name not in ("zero17", "handcrafted"):
        pytest.skip("other dtypes are painted alike")
    encoder = make_encoder(WITHOUT_LADDERS if name == "all groups" else name, komi_input=True)
    for state in batches() if dtype == torch.float32 else batches()[-2:]:
        found, told = encoder.planes(state, dtype), encoder.globals(state)
        with kernels.plain():
            expected, numbers = encoder.planes(state, dtype), encoder.globals(state)
        assert found.dtype == dtype and found.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(found, expected) and torch.equal(told, numbers)


@pytest.mark.parametrize("size", [1, 2, 9, 19, 25])
def test_atari_is_found_as_by_floods(size: int) -> None:
    """On any colouring, strings without liberties among them, also of boards smaller than their tensors."""
    draw = torch.Generator().manual_seed(size)
    sides = [max(1, size - number % 3) for number in range(150)]
    on_board = board.new_games(150, [Rules(side) for side in sides], board_size=size).on_board
    crowded = torch.rand(150, 1, 1, generator=draw)
    stones = torch.randint(1, 3, (150, size, size), generator=draw)
    stones = torch.where(torch.rand(150, size, size, generator=draw) < crowded, stones, 0)
    black, white = (flood.pack_rows(stones == colour) & on_board for colour in (1, 2))
    found = kernels.module_for("planes", CPU).atari(black, white, on_board)
    assert torch.equal(found, find_atari(black, white, on_board)[0]) and (found.any() or size == 1)


def test_several_threads_give_the_same() -> None:
    state = played((9, 7, 9) * 90, 40)
    encoders = [make_encoder(name, komi_input=True) for name in ("zero17", "alphago48", "katago22", "handcrafted")]
    expected = [encoder.planes(state) for encoder in encoders]
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for encoder, planes in zip(encoders, expected, strict=True):
            assert torch.equal(encoder.planes(state), planes), encoder.name
    finally:
        torch.set_num_threads(threads)


def test_tensors_that_are_not_contiguous() -> None:
    """A batch may be a view of a larger one."""
    state = played((9,) * 12, 30)
    half = state.map(lambda tensor: tensor[::2])
    clean = half.map(torch.clone)
    for name in ("zero17", "alphago48", "katago22"):
        encoder = make_encoder(name, komi_input=True)
        assert torch.equal(encoder.planes(half), encoder.planes(clean))


def test_plain_leaves_kernels_out() -> None:
    assert all(kernels.module_for(name, CPU) is not None for name in ("planes", "tactics", "ladders"))
    with kernels.plain():
        assert kernels.module_for("planes", CPU) is None


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import torch
from zerogo import board, kernels
from zerogo.features import make_encoder
from zerogo.rules import Rules
assert kernels.module_for("planes", torch.device("cpu")) is None
stones, expected = torch.load(sys.argv[1])
state = board.from_stones(stones, torch.tensor([1, 2], dtype=torch.int8), Rules(9, suicide=True))
for name, planes in expected.items():
    assert torch.equal(make_encoder(name, True).planes(state), planes), name
"""


def test_a_machine_without_numba(tmp_path) -> None:
    """There the loops of tactics and ladders run as Python."""
    stones = played((9, 9), 45).stones
    rules = Rules(9, suicide=True)
    state = board.from_stones(stones, torch.tensor([1, 2], dtype=torch.int8), rules)
    expected = {name: make_encoder(name, True).planes(state) for name in ENCODERS}
    torch.save((stones, expected), tmp_path / "expected.pt")
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_NUMBA, str(tmp_path / "expected.pt")], check=True)


@pytest.mark.parametrize("size", [9, 19])
def test_they_compile(size: int) -> None:
    """Boards that have no memory are enough; a batch beyond 2^31 elements is counted in int64."""
    for spans, num_games in ((((ROWS, 17), (COUNTS, 31)), 2), (((ROWS, 48),), 2), (((ROWS, 48),), 2**31 // 48 // size)):
        rows = torch.empty(num_games, 48, size, dtype=torch.int32, device="meta")
        counts = torch.empty(1, num_games, size, size, dtype=torch.int16, device="meta")
        compile_call(module("planes", "cuda").paint, spans, rows, counts, torch.bfloat16)
    rows = torch.zeros(2, size, dtype=torch.int32)
    tactics, ladders = module("tactics", "cuda"), module("ladders", "cuda")
    used = list(compile_call(tactics.read, *[rows] * 4).values())
    if size == 19:
        used += compile_call(ladders.read, *[rows] * 3, torch.ones(2, dtype=torch.int8), 99).values()
    assert used and not any(use["spills"] for launched in used for use in launched.values())


@pytest.mark.gpu
@pytest.mark.parametrize("name", ENCODERS)
def test_presets_on_a_gpu_never_wait(name: str) -> None:
    state, encoder = played((9, 19, 13, 5) * 8, 120, seed=3), make_encoder(name, komi_input=True)
    planes, numbers = encode(encoder, state, "plain")
    moved = state.to(torch.device("cuda"))
    encoder.planes(moved)  # compiles, and fills the tables
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = encoder.planes(moved), encoder.globals(moved)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(found[0].cpu(), planes)
    torch.testing.assert_close(found[1].cpu(), numbers)
