"""Processes of torch.distributed: what one alone does, and how they find each other."""

import queue
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny
import torch

from zerogo.errors import InputError
from zerogo.pipeline import limits
from zerogo.system import distributed


def test_a_rank_that_comes_new_finds_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store still has the tokens of a smaller world."""
    store = torch.distributed.HashStore()
    store.set("zerogo/0", "old")
    monkeypatch.setattr(torch.distributed, "rendezvous", lambda *_, **__: iter([(store, number.get(), 3)]))
    number = queue.SimpleQueue()
    for one in range(3):
        number.put(one)
    with ThreadPoolExecutor(3) as threads:
        ranks = [done.result()[1:] for done in [threads.submit(distributed._fresh_store) for _ in range(3)]]
    assert sorted(ranks) == [(0, 3), (1, 3), (2, 3)]


def test_one_process_is_a_world_of_its_own() -> None:
    with distributed.process_group():
        assert (
            distributed.world_size(),
            distributed.rank(),
            distributed.local_count(7),
            distributed.all_gather_object("x"),
        ) == (1, 0, 7, ["x"])
        assert (
            distributed.all_reduce_max([1, 2]) == [1, 2]
            and distributed.all_ranks_true(True)
            and not distributed.all_ranks_true(False)
        )
    rows = torch.arange(7)
    assert distributed.local_shard(rows) is rows and distributed.wrap_ddp(rows, "cpu") is rows


def test_a_restart_goes_on_with_what_its_torchrun_has_begun_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older run in the folder is refused at each restart, as it was at the start."""
    assert not distributed.restarts_run(time.time_ns())
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert distributed.restarts_run(time.time_ns()) and not distributed.restarts_run(10**18)


def test_settings_that_processes_can_not_share_are_refused() -> None:
    with pytest.raises(InputError, match="multiple of 3"):
        limits.require_shares(tiny.config(), 3)
