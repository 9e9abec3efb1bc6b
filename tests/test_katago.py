"""KataGo's networks: the history of moves; files of all versions, whole and damaged; as players, as the start of a run,
and written again. tests/campaign compares outputs with the engine's."""

import dataclasses
import gzip
import json
import math
import random
import re
from pathlib import Path

import pytest
import tiny
import torch
from tables import tables
from torch import Tensor

from zerogo import board, checkpoint
from zerogo.config import Config, NetworkConfig, with_overrides
from zerogo.config.sections import KATAGO_HEADS, TRUNK
from zerogo.errors import InputError
from zerogo.features import make_encoder, on_board_mask
from zerogo.network import inference_copy, katago_format
from zerogo.network.katago import KataGoNetwork
from zerogo.network.trainer import Trainer, make_optimizer
from zerogo.pipeline import adopt_architecture, train
from zerogo.players.analyst import make_analyst, make_player
from zerogo.rules import Rules, coords
from zerogo.sgf.record import play_moves
from zerogo.tensorboard_plugin.folder import Folder

INPUTS = make_encoder("katago22", komi_input=True)
TABLES = tables("katago")


def outputs_of(network: KataGoNetwork, state: board.State) -> dict[str, Tensor]:
    """Returns what the playing copy says of positions."""
    return inference_copy(network)(INPUTS.planes(state), INPUTS.globals(state), on_board_mask(state))


# The history of moves


@pytest.mark.parametrize(("moves", "told", "passes"), TABLES["histories"].values(), ids=TABLES["histories"])
def test_history_counts_as_in_katago(moves: str, told: str, passes: str) -> None:
    colours = torch.tensor([["BW".index(move[0]) + 1 for move in moves.split()]], dtype=torch.int8)
    actions = torch.tensor([[coords.from_gtp(move[2:], 5) for move in moves.split()]])
    start = torch.zeros(1, 5, 5, dtype=torch.int8), torch.ones(1, dtype=torch.int8)
    state = play_moves(*start, [Rules(5, 7.0)], colours, actions, 3 - colours[:, -1])
    planes, numbers = INPUTS.planes(state)[0, 9:14], INPUTS.globals(state)[0, :5]
    shown = [[coords.to_gtp(int(point), 5) for point in plane.flatten().nonzero()] for plane in planes]
    expected = [[] if vertex == "-" else [vertex] for vertex in told.split()]
    assert shown == expected + [[]] * (5 - len(expected))
    assert numbers.nonzero().flatten().tolist() == list(map(int, passes))


# Files


def some_network(version: str = "15") -> KataGoNetwork:
    """Returns a small network of a version with every kind of block and activation, whose weights all count."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        network = katago_format.from_plan(TABLES["plans"][version], 9)
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return network.eval()


def some_positions() -> board.State:
    state = board.new_games(4, [Rules(9), Rules(5, scoring="territory"), Rules(7, superko="simple"), Rules(2)])
    for action in (10, 20, 1, 81):
        state = board.step(state, torch.full((4,), action))
    return state


@pytest.mark.parametrize("version", TABLES["plans"])
@pytest.mark.parametrize("ending", [".bin", ".txt.gz"])
def test_written_networks_are_read_as_they_were(version: str, ending: str, tmp_path: Path) -> None:
    network, path, state = some_network(version), tmp_path / f"a{ending}", some_positions()
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
    network = some_network("17")
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
    shapes = [{name: part.shape for name, part in state.items()} for state in (network.state_dict(), expected)]
    assert shapes[0] == shapes[1]
    return ""


def test_damaged_files_get_one_sentence(tmp_path: Path) -> None:
    """Cut anywhere, with changed bytes, changed words, sizes that do not fit."""
    path, rng = tmp_path / "a.bin", random.Random(5)
    katago_format.write(path, some_network("17 with a norm"), "a")
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
    """Yields a file with a part of it left out, doubled, or replaced by a byte or a word, of lines a whole one."""
    words = [b"-1", b"0", b"2", b"99999", b"999999999999", b"nan", b"1e999", b"ordinary_block", b"@BIN@", b""]
    ends = [match.start() for match in re.finditer(b"\n", data)]
    for _ in range(number):
        at = rng.choice([rng.randrange(len(data)), rng.choice(ends) + 1])
        end = rng.choice([at + 1, at + rng.randrange(1, 40), min((end for end in ends if end >= at), default=at)])
        yield data[:at] + rng.choice([rng.randbytes(1), 2 * data[at:end], rng.choice(words)]) + data[end:]


@pytest.mark.parametrize(("before", "after", "sentence"), TABLES["what files may not say"])
def test_what_files_may_not_say(before: str, after: str, sentence: str) -> None:
    words = TABLES["plans"]["15"]
    assert before in words
    with pytest.raises(InputError, match=sentence):
        katago_format.from_plan(words.replace(before, after, 1), 9)


# As a network of runs

SMALL = ["network.architecture=katago", "features.encoder=katago22", "network.channels=32", "network.blocks=5"]
SMALL += [f"network.trunk=[{', '.join(TRUNK)}]", f"network.heads={json.dumps(KATAGO_HEADS)}"]


def test_settings_make_a_network_from_nothing() -> None:
    """Its outputs are small. Exactly the weights that its heads use learn: DDP waits for their gradients."""
    state = some_positions()
    few = tiny.network(tiny.config(*SMALL, "network.heads={policy: 1.0, value: 1.0}"))
    sum(
        part.sum() for part in few(INPUTS.planes(state), INPUTS.globals(state), on_board_mask(state)).values()
    ).backward()
    assert {part.grad is not None for part in few.parameters() if part.requires_grad} == {True}
    assert sum(len(group["params"]) for group in make_optimizer(few, 0.1).param_groups) == len([*few.parameters()])
    network = tiny.network(tiny.config(*SMALL))
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


def test_rotary_frequencies_do_not_decay() -> None:
    trainer = Trainer(network := some_network(), INPUTS, Config().training, KATAGO_HEADS, "cpu", torch.float32)
    _, others = ({id(part) for part in group["params"]} for group in trainer.optimizer.param_groups)
    kinds = {name.rpartition(".")[2]: id(part) in others for name, part in network.named_parameters() if part.ndim > 1}
    assert kinds == {"weight": False, "frequencies": True}


def test_a_run_from_a_file_is_written_again(tmp_path: Path) -> None:
    """Begun with a network, trained, resumed, written and read: the outputs stay; a tower can't be written so."""
    path, state = tmp_path / "small.bin.gz", some_positions()
    katago_format.write(path, tiny.network(tiny.config(*SMALL)).eval(), "small")
    settings = tiny.config(
        f"run.directory={tmp_path}", "pipeline.iterations=1", "replay.min_window=16", f"run.start_from={path}"
    )
    train(adopt_architecture(settings, ())[0])
    trained = checkpoint.load_newest(tmp_path / "tiny")
    assert trained.step > 1 and trained.sizes == {3: [4.5]} and trained.config.network.architecture == "katago"
    before, after = checkpoint.load(path), tmp_path / "new.bin.gz"
    checkpoint.export(after, trained)
    again = checkpoint.load(after)
    one, other = outputs_of(trained.network(), state), outputs_of(again.network(), state)
    old = outputs_of(before.network(), state)
    assert all(torch.equal(one[name], other[name]) and not torch.equal(one[name], old[name]) for name in one)
    assert (again.sizes, again.config.run.name) == (None, "new")
    train(with_overrides(trained.config, ["pipeline.iterations=2"]), resume=True)
    with pytest.raises(InputError, match="architecture=katago, but .* has tower"):
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
