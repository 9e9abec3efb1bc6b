"""The replay: what goes in comes out, the window and the ratio, and files that survive a kill."""

import dataclasses
import logging

import numpy as np
import pytest
import tiny
import torch
from boards import after_random_moves, assert_same
from limits import within

from zerogo import board, replay
from zerogo.config import ReplayConfig
from zerogo.errors import InputError
from zerogo.replay import Replay, Samples, window
from zerogo.replay.shards import load_shard, save_shard
from zerogo.rules import Rules

SETTINGS = ReplayConfig(min_window=64, capacity=256, shard_samples=32, reuse=2.0)
KEEPING = dataclasses.replace(SETTINGS, archive_samples=10**6)


def games(count: int, size: int, seed: int) -> board.State:
    """Games of two sizes after some plies."""
    sizes = [max(1, size - 1) if i % 3 == 2 else size for i in range(count)]
    rules = [Rules(size=side, komi=i % 5 + 0.5, suicide=i % 2 == 0) for i, side in enumerate(sizes)]
    return after_random_moves(rules, 9, seed)


def make_samples(first: int, count: int, size: int = 5, network_step: int = 1) -> Samples:
    """Samples whose root_value is their number in the run and whose other targets are random; each game has four."""
    number = torch.arange(first, first + count)
    fields = {"root_value": number.float(), "game": number // 4, "network_step": torch.full((count,), network_step)}
    fields |= {"policy_weight": (number % 4 != 0).float(), "board_weight": (number % 3 != 0).float()}
    return tiny.samples_of(games(count, size, first), first, **fields)


def numbers(buffer: Replay) -> list[int]:
    """The numbers of the samples in memory, oldest first."""
    return buffer.newest(len(buffer)).root_value.to(torch.int64).tolist()


def add(buffer: Replay, first: int, last: int) -> None:
    """Adds samples by their numbers, 20 at a time."""
    for number in range(first, last, 20):
        buffer.add(make_samples(number, min(20, last - number)))


def filled(directory=None, total=100, settings=SETTINGS) -> Replay:
    buffer = Replay(settings, 5, directory)
    add(buffer, 0, total)
    buffer.close()  # its files are written
    return buffer


def reopened(directory, state, settings=SETTINGS) -> Replay:
    """A buffer as its snapshot was."""
    return Replay(settings, 5, directory, state=state)


def test_window_follows_the_published_law():
    settings = ReplayConfig(min_window=250_000, capacity=10**9)
    law = [(250e3, 250e3), (1e6, 475e3), (4e6, 1.03e6), (10e6, 1.79e6), (50e6, 4.91e6), (100e6, 7.65e6)]
    for total, expected in law:
        assert window(int(total), settings) == pytest.approx(expected, rel=0.01)


def test_window_is_everything_at_first_and_never_more_than_the_capacity():
    settings = ReplayConfig(min_window=1000, capacity=2000)
    assert [window(n, settings) for n in (0, 1, 999, 1000)] == [0, 1, 999, 1000]
    assert window(10**8, settings) == 2000
    sizes = [window(n, settings) for n in range(0, 20_000, 7)]
    assert all(0 <= b - a <= 7 for a, b in zip(sizes, sizes[1:], strict=False))


def test_a_sample_comes_back_as_it_was_added(tmp_path):
    samples = make_samples(0, 200, size=5)
    buffer = Replay(SETTINGS, 5)
    buffer.add(samples)
    held = buffer.newest(200)
    for name, tensor in vars(samples).items():
        assert torch.equal(getattr(held, name).to(tensor.dtype), tensor), name
    save_shard(tmp_path / "x.npz", samples)
    loaded = load_shard(tmp_path / "x.npz")
    for name, tensor in vars(samples.packed()).items():
        assert torch.equal(getattr(loaded, name), tensor), name


@pytest.mark.parametrize("size", [5, 19])
def test_a_batch_holds_the_state_that_was_played(size):
    played = games(12, size, 1)
    batch = tiny.batch_of(tiny.samples_of(played, 1).packed(), torch.zeros(12, dtype=torch.int64))
    assert batch.records.dtype == torch.int64 and len(batch) == 12 and batch.state().atari is None
    state = batch.samples.state()
    assert_same(state, played, but=("seen", "links", "lost", "cap", "finished", "start_balance"))
    assert (
        not state.finished.any() and state.seen.shape == (12, 0) and state.select(torch.tensor([7, 1])).num_games == 2
    )
    rules = state.rules
    assert (rules.any_suicide, rules.any_superko, rules.any_territory, rules.same_size) == (True, True, False, False)


def test_draws_are_uniform_over_the_window_and_its_symmetries(monkeypatch):
    monkeypatch.setattr(replay, "VALIDATION_SHARE", 0.0)
    buffer = filled(total=200)
    seen, symmetries = torch.zeros(200), torch.zeros(8)
    buffer.credit = 1e9
    for _ in range(40):
        batch = buffer.sample_batch(500)
        seen += torch.bincount(batch.samples.root_value.to(torch.int64), minlength=200)
        symmetries += torch.bincount(batch.symmetry, minlength=8)
    edge = 200 - buffer.window
    assert 0 < buffer.window < 200 and not seen[:edge].any()
    expected = 20_000 / buffer.window
    assert (seen[edge:] - expected).abs().max() < 6 * expected**0.5, "a 6 sigma bound: false alarms below 1e-6"
    assert (symmetries - 2500).abs().max() < 6 * 2500**0.5


def test_credit_is_earned_spent_and_capped():
    buffer = Replay(SETTINGS, 5)
    assert not buffer.can_sample(1)
    buffer.add(make_samples(0, 20))
    assert buffer.credit == 40 and buffer.can_sample(40) and not buffer.can_sample(41)
    buffer.sample_batch(30)
    assert buffer.credit == 10 and buffer.statistics(1)["reuse"] == 1.5
    with pytest.raises(AssertionError, match="can_sample"):
        buffer.sample_batch(11)
    add(buffer, 20, 400)
    assert buffer.credit == 2 * buffer.window < 2 * 400


def test_held_out_games_are_only_drawn_for_validation(monkeypatch):
    assert 4000 < int(replay.is_held_out(torch.arange(100_000)).sum()) < 6000
    monkeypatch.setattr(replay, "VALIDATION_SHARE", 0.3)
    buffer = filled(total=240)
    buffer.credit = 1e9
    trained = set((buffer.sample_batch(2000).samples.root_value.to(torch.int64) // 4).tolist())
    validated = set((buffer.validation_batch(2000).samples.root_value.to(torch.int64) // 4).tolist())
    assert trained and validated and not trained & validated
    buffer._columns["is_learned"].zero_()  # as in random games
    assert buffer.validation_batch(3) is None is Replay(SETTINGS, 5).validation_batch(3)


def test_the_ring_keeps_the_newest_and_grows_only_as_needed():
    buffer = filled(total=1000)
    assert numbers(buffer) == list(range(744, 1000))
    assert Replay(SETTINGS, 5).statistics(0)["memory_bytes"] == 0
    big = Replay(dataclasses.replace(SETTINGS, capacity=10**9), 5)
    big.add(make_samples(0, 20))
    assert big.statistics(0)["memory_bytes"] < 2_000_000


def test_the_ring_lies_on_a_gpu_with_room_for_it(monkeypatch):
    settings, needed = dataclasses.replace(SETTINGS, capacity=1000), 1000 * 608
    for free, kind in ((4 * needed, "cuda"), (4 * needed - 1, "cpu"), (None, "cpu")):
        monkeypatch.setattr(replay, "free_bytes", lambda device, free=free: free)
        assert replay.device_for(settings, 9, torch.device("cuda")).type == kind
        assert replay.device_for(settings, 9, torch.device("cpu")).type == "cpu"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_figures_of_the_window_are_known_without_the_ring(device):
    """On "meta", where nothing can be read, too: as the ring fills and goes round, while games are held out."""
    buffer = Replay(SETTINGS, 5, device=device)
    for first in range(0, 600, 20):
        buffer.add(make_samples(first, 20, network_step=first - 40))
        inside = range(first + 20 - buffer.window, first + 20)
        figures, steps = buffer.statistics(network_step=700), [max(0, number // 20 * 20 - 40) for number in inside]
        held = sum(replay.is_held_out(torch.tensor(inside) // 4).tolist())
        assert figures["age_steps"] == sum(700 - step for step in steps) / len(inside)
        assert buffer.newest_step == max(steps)
        assert figures["learned_share"] == sum(number % 4 != 0 for number in inside) / len(inside)
        assert figures["validation_share"] == held / len(inside)


def names_in(directory) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_kept_a_shard_from_the_disk_is_raised_and_nothing_follows_it(tmp_path, monkeypatch):
    buffer = filled(tmp_path, 40, KEEPING)
    buffer.flush()
    state, in_snapshot, write = buffer.state_dict(), names_in(tmp_path), replay.shards.save_shard

    def full_disk(path, samples):
        if "032-32" in path.name:
            raise OSError(28, "No space left on device")
        write(path, samples)

    monkeypatch.setattr(replay.shards, "save_shard", full_disk)
    with pytest.raises(OSError, match="No space left"):
        add(buffer, 40, 1000)
    with pytest.raises(OSError, match="No space left"):
        buffer.flush()
    assert names_in(tmp_path) == in_snapshot
    buffer.close()
    assert numbers(reopened(tmp_path, state, KEEPING)) == list(range(40))


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "missing"])
def test_a_damaged_or_missing_shard_is_left_out_and_all_others_are_kept(tmp_path, caplog, damage):
    buffer = filled(tmp_path, 100)
    buffer.flush()
    state = buffer.state_dict()
    path = tmp_path / "shard-000000000032-32.npz"
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = bytes(255 - byte for byte in content[middle : middle + 64])
    kinds = {"cut": content[:middle], "flipped": content[:middle] + flipped + content[middle + 64 :]}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes((kinds | {"empty": b"", "text": b"not a shard"})[damage])
    reason = ": No such file" if damage == "missing" else " is cut short or damaged"
    with pytest.raises(InputError, match=f"shard-000000000032-32.npz{reason}") as caught:
        load_shard(path)
    assert "\n" not in str(caught.value)
    with caplog.at_level(logging.WARNING):
        resumed = reopened(tmp_path, state)
    assert ("32 samples" if damage == "missing" else path.name) in caplog.text
    assert numbers(resumed) == [*range(32), *range(64, 100)] and resumed.total == 100
    resumed.add(make_samples(100, 40))
    assert numbers(resumed) == [*range(32), *range(64, 140)]
    resumed.flush()
    assert numbers(reopened(tmp_path, resumed.state_dict())) == [*range(32), *range(64, 140)]


def test_a_small_file_that_stands_for_gigabytes_is_left_out(tmp_path, caplog):
    buffer = filled(tmp_path, 64)
    path = tmp_path / "shard-000000000032-32.npz"
    with np.load(path) as archive:
        np.savez_compressed(path, **{**archive, "ownership": np.zeros((2_000_000, 5, 5), np.int8)})
    with within(20), pytest.raises(InputError, match="unpack to 500"):
        load_shard(path)
    assert numbers(reopened(tmp_path, buffer.state_dict())) == list(range(32)) and "is refused" in caplog.text


def test_shards_that_left_the_window_for_good_are_removed_when_no_snapshot_needs_them(tmp_path):
    buffer = filled(tmp_path / "a", 900)
    state = buffer.state_dict()
    buffer.after_snapshot()
    buffer.add(make_samples(900, 100))
    buffer.flush()
    buffer.after_snapshot()
    assert len(list((tmp_path / "a").iterdir())) < 15
    for one, newest in ((state, 899), (buffer.state_dict(), 999)):
        again = reopened(tmp_path / "a", one)
        assert numbers(again)[-again.window :] == [*range(newest + 1 - again.window, newest + 1)]
    kept = filled(tmp_path / "b", 1000, KEEPING)
    kept.after_snapshot()
    kept.after_snapshot()
    assert len(list((tmp_path / "b").glob("shard-*"))) == 1000 // 32


def test_samples_of_another_size_are_refused(tmp_path):
    filled(tmp_path, 64)
    with pytest.raises(InputError, match="side 5; this run's have side 7"):
        Replay(SETTINGS, 7, tmp_path)
