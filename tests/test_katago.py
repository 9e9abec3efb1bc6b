"""KataGo's networks: outputs next to the engine's, where its files are there; files of all versions, whole and damaged;
as players, as the start of a run, and written again."""

import dataclasses
import gzip
import json
import math
import random
from pathlib import Path

import pytest
import tiny
import torch
from torch import Tensor

from zerogo import board, checkpoint, cli
from zerogo.bench import __main__ as bench
from zerogo.config import Config, NetworkConfig, with_overrides
from zerogo.config.sections import KATAGO_HEADS, TRUNK
from zerogo.errors import InputError
from zerogo.features import make_encoder, on_board_mask
from zerogo.network import KataGoNetwork, inference_copy, katago_format
from zerogo.network.trainer import Trainer
from zerogo.pipeline import train
from zerogo.pipeline.generate import generate
from zerogo.players.analyst import make_analyst, make_player
from zerogo.replay import TrainingBatch
from zerogo.replay.shards import load_shard
from zerogo.rules import Rules, coords
from zerogo.tensorboard_plugin.folder import Folder

SHARED = Path(__file__).parents[2] / "shared" / "katago"
with_files = pytest.mark.skipif(not SHARED.exists(), reason="KataGo's networks are not in ../shared/katago")
INPUTS = make_encoder("katago22", komi_input=True)
ACTIVATIONS = "ACTIVATION_IDENTITY", "ACTIVATION_RELU", "ACTIVATION_MISH", "ACTIVATION_SILU"


def replayed(cases: list[dict]) -> board.State:
    """Returns the positions of records as one batch."""
    side, records = max(case["size"] for case in cases), [case["moves"].split() for case in cases]
    longest = max(map(len, records))
    colours, actions = torch.zeros(len(cases), longest, dtype=torch.int8), torch.full((len(cases), longest), -1)
    for row, (case, moves) in enumerate(zip(cases, records, strict=True)):
        for ply, move in enumerate(moves):
            action = coords.from_gtp(move[2:], case["size"])
            colours[row, ply] = "BW".index(move[0]) + 1
            actions[row, ply] = coords.on_other_board(action, case["size"], side)
    rules = [Rules(*(case[key] for key in ("size", "komi", "superko", "suicide", "scoring"))) for case in cases]
    rules = [dataclasses.replace(rule, komi=float(rule.komi)) for rule in rules]
    start = torch.zeros(len(cases), side, side, dtype=torch.int8), torch.ones(len(cases), dtype=torch.int8)
    return board.replay(*start, rules, colours, actions)


def outputs_of(network: KataGoNetwork, state: board.State) -> dict[str, Tensor]:
    """Returns what the playing copy says of positions."""
    return inference_copy(network)(INPUTS.planes(state), INPUTS.globals(state), on_board_mask(state))


@with_files
@pytest.mark.parametrize("name", ["g170-b6c96-s175395328-d26788732", "b7c96h3tfrs-test5-cnorm"])
def test_outputs_are_the_engines(name: str) -> None:
    """Positions of many sizes and rules in one padded batch."""
    told = json.loads((SHARED / "raw_outputs.json").read_text())["positions"]
    cases = [case for case in told if case["network"] == name]
    state, network = replayed(cases), checkpoint.load(SHARED / f"{name}.bin.gz").network()
    network.optimism = cases[0]["optimism"]
    outputs, side = outputs_of(network, state), state.board_size
    for row, case in enumerate(cases):
        size, sign = case["size"], 1 if state.to_play[row] == 2 else -1
        policy = outputs["policy"][row, :-1].view(side, side)[:size, :size].flatten()
        logits = torch.cat([policy, outputs["policy"][row, -1:]])
        is_legal = torch.tensor([chance is not None for chance in case["policy"]])
        legal = board.legal_actions(state)[row, :-1].view(side, side)[:size, :size].flatten()
        assert torch.equal(legal, is_legal[:-1])
        prior = torch.softmax(torch.where(is_legal, logits, -torch.inf), 0)
        expected = torch.tensor([chance or 0.0 for chance in case["policy"]])
        torch.testing.assert_close(prior, expected, atol=1e-5, rtol=0)
        value = case["white_win"] - case["white_loss"]
        assert sign * float(torch.tanh(outputs["value"][row])) == pytest.approx(value, abs=1e-5)
        assert sign * float(outputs["score"][row]) == pytest.approx(case["white_lead"], abs=2e-3)
        ownership = sign * torch.tanh(outputs["ownership"][row, :size, :size]).flatten()
        torch.testing.assert_close(ownership, torch.tensor(case["white_ownership"]), atol=1e-4, rtol=0)


# The history of moves


@pytest.mark.parametrize(
    ("moves", "told", "passes"),
    [
        ("B:A1 B:B1 W:C1", "C1 B1", ""),  # handicap stones end the history
        ("B:A1 W:B1 B:C1 B:D1 W:pass B:E1", "E1 - D1", "1"),
        ("B:A1 W:pass B:pass W:B1 B:C1", "C1 B1 -", "2"),  # played on after the game was over
        ("B:A1 W:pass B:pass", "-", "0"),  # over: only the last move is shown
    ],
)
def test_history_counts_as_in_katago(moves: str, told: str, passes: str) -> None:
    state = replayed([{"size": 5, "komi": 7, "superko": "simple", "suicide": False, "scoring": "area", "moves": moves}])
    planes, numbers = INPUTS.planes(state)[0, 9:14], INPUTS.globals(state)[0, :5]
    shown = [[coords.to_gtp(int(point), 5) for point in plane.flatten().nonzero()] for plane in planes]
    expected = [[] if vertex == "-" else [vertex] for vertex in told.split()]
    assert shown == expected + [[]] * (5 - len(expected))
    assert numbers.nonzero().flatten().tolist() == list(map(int, passes))


def test_komi_shifts_by_stones_played_under_territory() -> None:
    """Two stones of Black's that stood at the start are not counted; a suicide and a pass are."""
    stones = torch.zeros(1, 5, 5, dtype=torch.int8)
    stones[0, 4, :2] = 1
    state = board.from_stones(stones, torch.tensor([2], dtype=torch.int8), Rules(5, 7.0, scoring="territory"))
    for action in (12, 13, 25, 7):
        state = board.step(state, torch.tensor([action]))
    assert state.to_play.tolist() == [2] and INPUTS.globals(state)[0, 5] == pytest.approx((7 + 2 - 1) / 20)


# Files


def words_of(version: int, seed: int) -> str:
    """Returns the plan of a small network of a version, with every kind of block and activation, by the document."""
    rng = random.Random(seed)

    def act() -> str:
        return f"a {rng.choice(ACTIVATIONS)}" if version >= 11 else "a"

    def norm(channels: int) -> str:
        return f"n {channels} 1e-5 {rng.randrange(2)} {rng.randrange(2)} {act()}"

    def ordinary(c: int) -> str:
        return f"ordinary_block o {norm(c)} c 3 3 {c} 5 1 1 {norm(5)} c 3 1 5 {c} 1 1"

    gpool = f"gpool_block g {norm(8)} c 3 3 8 6 1 1 c 3 3 8 4 2 2 {norm(4)} m 12 6 {norm(6)} c 3 3 6 8 1 1"
    nested = f"nested_bottleneck_block b 2 {norm(8)} c 1 1 8 4 1 1 {ordinary(4)} {ordinary(4)} {norm(4)} c 1 1 4 8 1 1"
    fixed = "transformer_attention_block t 4 2 8 4 1 0 r 8 1e-6 m 8 32 m 8 16 m 8 8 m 16 8 p 100.0"
    learned = "transformer_attention_block t 2 2 4 4 1 1 r 8 1e-6 m 8 8 m 8 8 m 8 8 m 8 8 p 2 2 2"
    plain = "transformer_attention_block t 2 1 3 3 0 0 r 8 1e-6 m 8 6 m 8 3 m 8 3 m 6 8"
    ffn = ("transformer_ffn_block f 8 12 1 r 8 1e-6 m 8 12 m 8 12 m 12 8", "transformer_ffn_block f 8 12 0 r 8 1e-6 "
           "m 8 12 m 12 8")  # fmt: skip
    blocks = [ordinary(8), gpool, nested, fixed, learned, plain, *ffn]
    is_rms = version >= 15 and seed % 2
    tip = f"t 8 1e-6 {seed // 2 % 2} 0 {act()}" if is_rms else norm(8)
    policies = 1 if version < 12 else 4 if version == 16 or (version == 17 and seed % 2) else 2
    passes = f"m 12 3 b 3 {act()} m 3 {policies}" if version >= 15 else f"m 12 {policies}"
    numbers = 4 if version == 8 else 6
    parts = [
        f"name {version} 22 19",
        "20 20 20 20 40 0.25 150" * (version >= 13),
        f"0 {seed % 2} 0 0 0 0 0 0" * (version >= 15),
        f"trunk {len(blocks)} 8 8 6 2 4",
        f"{is_rms} 0 0 0 0 0" * (version >= 15),
        "c 3 3 22 8 1 1 m 19 8",
        *blocks,
        tip,
        "policy",
        f"{policies} 0 0 0" * (version >= 17),
        f"c 1 1 8 3 1 1 c 1 1 8 4 1 1 {norm(4)} m 12 3 {norm(3)} c 1 1 3 {policies} 1 1 {passes}",
        "value",
        "0 0 0" * (version >= 17),
        f"c 1 1 8 4 1 1 {norm(4)} m 12 6 b 6 {act()} m 6 3 b 3 m 6 {numbers} b {numbers} c 1 1 4 1 1 1",
    ]
    return " ".join(filter(None, parts))


def some_network(version: int = 15, seed: int = 1) -> KataGoNetwork:
    """Returns a network with weights that all count."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        network = katago_format.from_plan(words_of(version, seed), 9)
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return network.eval()


def some_positions() -> board.State:
    state = board.new_games(4, [Rules(9), Rules(5, scoring="territory"), Rules(7, superko="simple"), Rules(2)])
    for action in (10, 20, 1, 81):
        state = board.step(state, torch.full((4,), action))
    return state


@pytest.mark.parametrize("version", katago_format.VERSIONS)
@pytest.mark.parametrize("ending", [".bin", ".txt.gz"])
def test_written_networks_are_read_as_they_were(version: int, ending: str, tmp_path: Path) -> None:
    network, path, state = some_network(version, version), tmp_path / f"a{ending}", some_positions()
    katago_format.write(path, network, "a b")
    again = katago_format.read(path, 9)
    assert again.header == network.header and again.header["name"] == "a-b"
    with torch.no_grad():
        given = INPUTS.planes(state), INPUTS.globals(state), on_board_mask(state)
        one, other, playing = network(*given), again(*given), inference_copy(again)(*given)
    for name in one:
        assert torch.equal(one[name], other[name]), name
        torch.testing.assert_close(playing[name], one[name], atol=2e-4, rtol=2e-4)
    assert katago_format.plan(again) == katago_format.plan(network)
    katago_format.write(tmp_path / f"b{ending}", again, "a b")
    assert (tmp_path / f"b{ending}").read_bytes() == path.read_bytes()


def test_a_padded_board_is_the_same_alone() -> None:
    network = some_network(17, 3)
    together, alone = some_positions(), board.new_games(1, Rules(5, scoring="territory"))
    for action in (6, 12, 1, 25):
        alone = board.step(alone, torch.tensor([action]))
    both, one = outputs_of(network, together), outputs_of(network, alone)
    torch.testing.assert_close(both["policy"][1, :-1].view(9, 9)[:5, :5], one["policy"][0, :-1].view(5, 5))
    torch.testing.assert_close(both["ownership"][1, :5, :5], one["ownership"][0])
    for name in ("value", "score"):
        torch.testing.assert_close(both[name][1], one[name][0])
    assert not both["ownership"][1, 5:].any() and (both["policy"][1, :-1].view(9, 9)[5:] == -5000).all()


def refused(data: bytes, path: Path) -> str:
    """Returns the sentence with which a file is refused, "" where it is read, with the shapes of its plan."""
    path.write_bytes(data)
    try:
        network = katago_format.read(path, 9)
    except InputError as error:
        assert "\n" not in str(error) and str(path) in str(error)
        return str(error)
    expected = katago_format.from_plan(katago_format.plan(network), 9).state_dict()
    assert {name: part.shape for name, part in network.state_dict().items()} == {
        name: part.shape for name, part in expected.items()
    }
    return ""


def test_damaged_files_get_one_sentence(tmp_path: Path) -> None:
    """Cut anywhere, with changed bytes, changed words, sizes that do not fit."""
    path, rng = tmp_path / "a.bin", random.Random(5)
    katago_format.write(path, some_network(17, 2), "a")
    data = path.read_bytes()
    assert not refused(data, path)
    for _ in range(40):
        assert refused(data[: rng.randrange(len(data) - 2)], path)
    assert "something follows" in refused(data + b"1", path)
    for mutant in mutants(data, rng, 150):
        refused(mutant, path)
    packed = gzip.compress(data)
    assert refused(packed[:-9], path) and refused(packed[:2000] + b"x" + packed[2001:], path)
    assert "more than 20 times" in refused(gzip.compress(bytes(2**25)), path)
    assert "cannot read" in str(pytest.raises(InputError, checkpoint.load, tmp_path / "none.bin.gz").value)


def mutants(data: bytes, rng: random.Random, number: int):
    """Yields a file with bytes changed, words replaced, or a part doubled or left out."""
    words = [b"-1", b"0", b"2", b"99999", b"999999999999", b"nan", b"1e999", b"ordinary_block", b"@BIN@", b""]
    for _ in range(number):
        changed, kind = bytearray(data), rng.randrange(4)
        at, length = rng.randrange(len(data)), rng.randrange(1, 40)
        if kind == 0:
            changed[at] = rng.randrange(256)
        elif kind == 1:
            spaces = [place for place in range(at, min(len(data), at + 4000)) if data[place : place + 1] == b"\n"]
            changed[at : spaces[0] if spaces else at] = rng.choice(words)
        elif kind == 2:
            changed[at:at] = changed[at : at + length]
        else:
            del changed[at : at + length]
        yield bytes(changed)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("name 15 22 19 20 20 20 20 40 0.25 150 0", "name 15 22 19 20 20 20 20 40 0.25 150 1", "metadata encoder"),
        ("name 15", "name 18", "'18', where a whole number from 8 to 17 must be"),
        ("name 15 22", "name 15 23", "'23', where 22 must be"),
        ("0 1 0 0 0 0 0 0 trunk", "0 1 0 0 0 7 0 0 trunk", "newer format"),
        ("ACTIVATION_", "ACTIVATE_", "one of ACTIVATION_IDENTITY"),
        ("c 3 3 22 8", "c 3 4 22 8", "both must be odd"),
        ("c 3 3 22 8", "c 3 3 22 9", "'9', where 8 must be"),
        ("gpool_block", "dilated_gpool_block", "one of ordinary_block"),
        ("20 20", "20 inf", "'inf', where a finite number must be"),
    ],
)
def test_what_files_may_not_say(before: str, after: str, sentence: str) -> None:
    words = words_of(15, 1)
    assert before in words
    with pytest.raises(InputError, match=sentence):
        katago_format.from_plan(words.replace(before, after, 1), 9)


# As a network of runs

SMALL = ["network.architecture=katago", "features.encoder=katago22", "network.channels=32", "network.blocks=5"]
SMALL += [f"network.trunk=[{', '.join(TRUNK)}]", f"network.heads={json.dumps(KATAGO_HEADS)}"]


def test_settings_make_a_network_from_nothing() -> None:
    """Its outputs are small, and every weight that its heads use learns."""
    network, state = tiny.network(tiny.config(*SMALL)), some_positions()
    found = network(INPUTS.planes(state), INPUTS.globals(state), on_board_mask(state))
    assert found["value"].abs().max() < 3 and torch.log_softmax(found["policy"], 1)[0].max() < math.log(0.9)
    sum(found[name].float().square().mean() for name in ("policy", "value", "score", "ownership")).backward()
    assert [name for name, part in network.named_parameters() if part.grad is None] == []
    with torch.no_grad():
        network.outcome.bias[:] = torch.tensor([30.0, -30.0, -30.0])
    network.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        network(INPUTS.planes(state), INPUTS.globals(state), on_board_mask(state))["value"].sum().backward()
    assert all(part.grad is None or torch.isfinite(part.grad).all() for part in network.parameters())
    with pytest.raises(InputError, match="for the encoder katago22, but"):
        checkpoint.fresh_network(
            tiny.config("network.architecture=katago", f"network.heads={json.dumps(KATAGO_HEADS)}")
        )
    with pytest.raises(InputError, match="'reply', which architecture katago lacks"):
        NetworkConfig(architecture="katago")


def test_a_run_from_a_file_is_written_again(tmp_path: Path) -> None:
    """Begun with a network, trained, resumed, written and read: the outputs stay; a tower can't be written so."""
    path, state = tmp_path / "small.bin.gz", some_positions()
    katago_format.write(path, tiny.network(tiny.config(*SMALL)).eval(), "small")
    settings = tiny.config(
        f"run.directory={tmp_path}", "pipeline.iterations=1", "replay.min_window=16", f"run.start_from={path}"
    )
    train(checkpoint.adopt_architecture(settings)[0])
    trained = checkpoint.load_newest(tmp_path / "tiny")
    assert trained.step > 1 and trained.sizes == {3} and trained.config.network.architecture == "katago"
    before, after = checkpoint.load(path), tmp_path / "new.bin.gz"
    checkpoint.export(after, trained)
    again = checkpoint.load(after)
    one, other = outputs_of(trained.network(), state), outputs_of(again.network(), state)
    old = outputs_of(before.network(), state)
    assert all(torch.equal(one[name], other[name]) and not torch.equal(one[name], old[name]) for name in one)
    assert (again.sizes, again.config.run.name) == (None, "new")
    train(with_overrides(trained.config, ["pipeline.iterations=2"]), resume=True)
    with pytest.raises(InputError, match="architecture katago, and .* is of tower"):
        checkpoint.export(after, checkpoint.load("checkpoints/7x7.pt"))


def test_a_file_plays_analyses_and_is_listed(tmp_path: Path) -> None:
    path, settings = tmp_path / "some.bin.gz", Config().evaluation
    katago_format.write(path, some_network(), "some")
    loaded = checkpoint.load(path)
    assert loaded.config.network.architecture == "katago" and "area_as_if_suicide" in loaded.config.features.encoder
    checkpoint.require_compatible(loaded, with_overrides(loaded.config, ["game.size=7"]), only_plays=True)
    for size in (2, 5, 13):
        state = board.new_games(2, Rules(size))
        player = make_player(str(path), dataclasses.replace(settings, simulations=4), tiny.CPU, torch.float32)
        assert board.legal_actions(state).gather(1, player.choose(state, torch.arange(2), 1).unsqueeze(1)).all()
        found = make_analyst(str(path), settings, tiny.CPU, torch.float32, 4).evaluate(state)
        assert found.ownership.shape == (2, size, size) and found.score.abs().max() < 1000
    assert [run.networks for run in Folder(tmp_path).runs()] == [[("some.bin.gz", -1)]]
    assert Folder(tmp_path).network("some.bin.gz") == path.resolve()


def test_a_small_network_learns_from_its_games(tmp_path: Path) -> None:
    """Self-play by a file makes samples, from which a tower with another encoder learns."""
    path, out = tmp_path / "some.bin.gz", tmp_path / "out"
    katago_format.write(path, tiny.network(tiny.config(*SMALL)).eval(), "some")
    overrides = [setting for setting in tiny.SETTINGS if setting.startswith(("run.", "game.", "search.", "selfplay."))]
    teacher = checkpoint.load(path)
    generate(cli.set_up(with_overrides(teacher.config, overrides)), teacher, 8, out)
    samples = [load_shard(shard) for shard in sorted((out / "samples").glob("*.npz"))]
    assert sum(map(len, samples)) > 20 and (samples[0].network_step == 1).all()
    settings = tiny.config("training.learning_rate=0.01")
    learner = Trainer(tiny.network(settings), make_encoder("zero17", True), settings.training, settings.network.heads,
                      tiny.CPU, torch.float32)  # fmt: skip
    batch = TrainingBatch.of(samples[0], torch.zeros(len(samples[0]), dtype=torch.int64))
    losses = [float(learner.step(batch)["loss"]) for _ in range(30)]
    assert losses[-1] < 0.9 * losses[0]


def test_bench_measures_a_file(tmp_path: Path, capsys) -> None:
    path = tmp_path / "some.bin.gz"
    katago_format.write(path, tiny.network(tiny.config(*SMALL)).eval(), "some")
    words = ["net", "--checkpoint", str(path), "--size", "5", "--batch", "2", "--rounds", "1", "--seconds", "0.01"]
    bench.main(bench.parse([*words, "--device", "cpu"]))
    assert json.loads(capsys.readouterr().out)["checkpoint"] == str(path)
    with pytest.raises(InputError, match="--spread is for a fresh network"):
        bench.main(bench.parse(["search", "--checkpoint", str(path), "--spread", "1"]))
