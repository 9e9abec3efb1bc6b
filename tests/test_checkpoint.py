"""Checkpoints: what is saved comes back, a crash leaves the old file, and no bad file gets further than one
sentence."""

import contextlib
import dataclasses
import io
import os
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy
import pytest
import tiny
import torch
from limits import within
from tables import tables

from zerogo import checkpoint
from zerogo.board.rng import Purpose
from zerogo.checkpoint import Checkpoint, load, save
from zerogo.config import Config, with_overrides
from zerogo.errors import InputError

TABLES = tables("checkpoint")


def tiny_config(*overrides: str) -> Config:
    return tiny.config("game.size=5", *overrides)


def made(step: int = 7) -> Checkpoint:
    """Returns a checkpoint with two different sets of weights, a real optimiser's state and a used generator."""
    one = tiny.fresh_checkpoint(tiny_config(), step)
    optimizer = torch.optim.AdamW(parameters := [*one.network().parameters()], lr=1e-3)
    sum(parameter.sum() for parameter in parameters).backward()
    optimizer.step()
    return dataclasses.replace(
        one,
        averaged_weights={name: torch.zeros_like(tensor) for name, tensor in one.weights.items()},
        trainer={"optimizer": optimizer.state_dict(), "samples": 12, "best": None},
        generators={"replay": torch.get_rng_state()},
        counters={"games": 3, "seconds": 1.5},
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good checkpoint file."""
    path = tmp_path / "good.pt"
    save(path, made())
    return path


def complaint(path: Path) -> str:
    """Returns the sentence that loading a file earns; nothing else may be printed or warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as caught:
            load(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    return str(caught.value)


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    saved = made()
    path = tmp_path / "new" / "folder" / "a.pt"
    save(path, saved)
    loaded = load(path)
    assert (loaded.config, loaded.step, loaded.sizes, loaded.counters) == (saved.config, 7, {5: [4.5]}, saved.counters)
    assert (loaded.revision, loaded.time, loaded.source) == (saved.revision, saved.time, str(path))
    assert loaded.weights.keys() == saved.weights.keys()
    assert all(torch.equal(loaded.weights[name], saved.weights[name]) for name in saved.weights)
    assert all(not tensor.any() for tensor in loaded.averaged_weights.values())
    assert loaded.trainer["samples"] == 12 and loaded.trainer["best"] is None
    again, before = (torch.Generator().set_state(of.generators["replay"]) for of in (loaded, saved))
    assert torch.equal(torch.rand(4, generator=again), torch.rand(4, generator=before))


def test_a_network_alone_plays_and_is_small(file: Path, tmp_path: Path) -> None:
    """Its weights are the averaged ones, written once; nothing else of the run is kept, and its name is its file's."""
    whole, path = load(file), tmp_path / "alone.pt"
    save(path, whole.network_alone())
    alone = load(path)
    assert alone.config == with_overrides(whole.config, ["run.name=alone"]) and alone.step == whole.step
    assert not alone.trainer and not alone.counters
    for name, tensor in whole.averaged_weights.items():
        assert torch.equal(alone.averaged_weights[name], tensor) and torch.equal(alone.weights[name], tensor)
    numbers = sum(tensor.numel() * tensor.element_size() for tensor in alone.weights.values())
    other = len(pickle.dumps(alone.config.to_dict())) + 400 * len(alone.weights)
    assert path.stat().st_size < numbers + 4 * other < file.stat().st_size


def test_numbers_of_other_classes_are_saved_as_plain_ones_and_objects_not_at_all(tmp_path: Path) -> None:
    odd = made()
    odd.counters = {"elo": numpy.float64(1.5), "torch": torch.__version__, Purpose.KOMI: Purpose.MOVE}
    save(tmp_path / "a.pt", odd)
    counters = load(tmp_path / "a.pt").counters
    assert counters == {"elo": 1.5, "torch": str(torch.__version__), 6: 4} and type(counters["elo"]) is float
    odd.trainer = {"path": tmp_path}
    with pytest.raises(TypeError, match="PosixPath"):
        save(tmp_path / "b.pt", odd)
    assert not (tmp_path / "b.pt").exists()


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    assert "No such file" in complaint(tmp_path / "none.pt")
    assert "it is a folder" in complaint(tmp_path)
    (folder := tmp_path / "foreign").mkdir()
    contents = {"empty": b"", "text": b"hello", "pickle": pickle.dumps({"a": 1}), "zeros": bytes(5000)}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    with zipfile.ZipFile(folder / "archive.pt", "w") as archive:
        archive.writestr("a.txt", "hello")
    for name, content in {"tensor.pt": torch.zeros(3), "weights.pt": {"conv.weight": torch.zeros(3)}}.items():
        torch.save(content, folder / name)
    assert all("is not a zerogo checkpoint" in complaint(path) for path in folder.iterdir())


class Bomb:
    """What a malicious file holds: unpickling it calls a function."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call


def test_code_is_refused_and_not_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    bomb = Bomb(os.system, ("touch exploded",))
    torch.save({"format": checkpoint.FORMAT, "version": checkpoint.VERSION, "config": bomb}, tmp_path / "bomb.pt")
    assert "could run code" in complaint(tmp_path / "bomb.pt")
    assert not (tmp_path / "exploded").exists()


def test_every_truncation_and_flipped_bits_are_noticed(file: Path, tmp_path: Path) -> None:
    """torch alone reads damaged tensors without a word; the checksums are looked at here."""
    largest = max(load(file).weights.values(), key=torch.numel).numpy().tobytes()
    content, path = file.read_bytes(), tmp_path / "damaged.pt"
    for length in [*range(0, len(content), max(1, len(content) // 37)), len(content) - 1]:
        path.write_bytes(content[:length])
        sentence = complaint(path)
        assert "cut short" in sentence or length < 4, sentence
    place = content.index(largest) + len(largest) // 2
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    assert "damaged" in complaint(path)


def changed(file: Path, **parts: object) -> Path:
    """Writes a good checkpoint again with some of its parts replaced (None: removed)."""
    content = torch.load(file, weights_only=True) | parts
    path = file.with_name("changed.pt")
    torch.save({name: part for name, part in content.items() if part is not None}, path)
    return path


@pytest.mark.parametrize(("parts", "words"), TABLES["parts"])
def test_parts_and_versions(file: Path, parts: dict, words: str) -> None:
    assert words in complaint(changed(file, **parts))
    assert load(changed(file, future="a part that this version doesn't know")).step == 7


def test_small_files_take_little_memory(file: Path, tmp_path: Path) -> None:
    """Files of at most a few hundred KB that stand for gigabytes are refused before they take any."""
    config = tiny_config("network.channels=4096", "network.blocks=4")
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in checkpoint.fresh_network(config).state_dict().items()}
    view = {name: torch.zeros(()).expand(shape) for name, shape in shapes.items()}
    deep, wide = [], list(range(100))
    for _ in range(60):
        deep, wide = [deep], [wide, wide]
    refused = {
        "its tensors would take more memory": {"config": config.to_dict(), "weights": view, "averaged_weights": view},
        "lists in lists": {"config": {"game": {"size": deep}}},
        "more than 1000000 values": {"config": {"game": wide}},
        "a whole number of 1000 bits": {"config": {"game": {"size": 1 << 999}}},
        "could run code": {"time": Bomb(bytearray, (4 * 10**9,))},  # which torch's own reader calls
    }
    paths = {
        words: changed(file, **parts).rename(tmp_path / str(k)) for k, (words, parts) in enumerate(refused.items())
    }
    paths["compressed"] = tmp_path / "deflated"
    zeros = io.BytesIO()
    torch.save({"a": torch.zeros(10_000_000)}, zeros)
    with zipfile.ZipFile(zeros) as old, zipfile.ZipFile(paths["compressed"], "w", zipfile.ZIP_DEFLATED) as new:
        for one in old.infolist():
            new.writestr(one.filename, old.read(one))
    del zeros
    with within(200):
        for words, path in paths.items():
            assert path.stat().st_size < 2_000_000 and words in complaint(path)


def test_weights_must_fit(file: Path) -> None:
    content = torch.load(file, weights_only=True)
    name = next(name for name, tensor in content["weights"].items() if tensor.ndim == 4)
    wrong_shape = content["weights"] | {name: torch.zeros(1, 2, 3, 4)}
    assert f"weights {name} have the shape (1, 2, 3, 4)" in complaint(changed(file, weights=wrong_shape))
    no_tensor = content["weights"] | {name: "text"}
    assert f"weights {name} have the shape None" in complaint(changed(file, weights=no_tensor))
    more = content["averaged_weights"] | {"other": torch.zeros(1)}
    assert "holds weights other" in complaint(changed(file, averaged_weights=more))
    assert "lacks the weights" in complaint(changed(file, averaged_weights={}))
    bigger = tiny_config("network.channels=16").to_dict()
    assert "its config requires" in complaint(changed(file, config=bigger))


@pytest.mark.parametrize(("old", "override", "only_plays", "words"), TABLES["what fits"])
def test_which_configs_fit_a_checkpoint(old: list[str], override: str, only_plays: bool, words: str | None) -> None:
    """The sizes of boards must be those that were learned; shares and komi may be others. words: of a refusal."""
    with pytest.raises(InputError, match=words) if words else contextlib.nullcontext():
        checkpoint.require_compatible(tiny.fresh_checkpoint(tiny_config(*old)), tiny_config(override), only_plays)


def test_the_newest_of_a_folder_is_read_and_what_is_damaged_is_skipped(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path) is None and checkpoint.paths(tmp_path) == []
    with pytest.raises(InputError, match="holds no complete checkpoint"):
        checkpoint.load_newest(tmp_path)
    for step in (2, 10, 123_456_789):
        save(checkpoint.path_of(tmp_path, step), made(step))
    names = ["step-00000002.pt", "step-00000010.pt", "step-123456789.pt"]
    assert [path.name for path in checkpoint.paths(tmp_path)] == names
    last = checkpoint.path_of(tmp_path, 123_456_789)
    for path in (tmp_path, tmp_path / "checkpoints", last):
        assert checkpoint.load_newest(path).source == str(last)
    last.write_bytes(last.read_bytes()[:-100])
    (tmp_path / "checkpoints" / "step-00000099.pt.tmp").write_bytes(b"")
    with pytest.warns(UserWarning, match="skipped: .*cut short"):
        assert checkpoint.newest(tmp_path).step == 10
    with pytest.raises(InputError, match="other.pt does not exist$"):
        checkpoint.load_newest(tmp_path / "other.pt")
