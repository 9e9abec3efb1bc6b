"""Processes of torch.distributed: what one alone does, how they find each other, and how a command starts them.
tests/campaign has what several do together."""

import ctypes
import logging
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import tiny
import torch
from tables import tables
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError, RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler
from torch.distributed.launcher import api

from zerogo import __main__ as commands
from zerogo import checkpoint, tuning
from zerogo.errors import InputError, Interrupted
from zerogo.pipeline import limits
from zerogo.system import distributed, runtime
from zerogo.tuning import trials

TABLES = tables("distributed")


def test_a_rank_that_comes_new_finds_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store still has the tokens of a smaller world."""
    store = torch.distributed.HashStore()
    store.set("zerogo/0", "old")
    numbers = iter(range(3))
    monkeypatch.setattr(torch.distributed, "rendezvous", lambda *_, **__: iter([(store, next(numbers), 3)]))
    with ThreadPoolExecutor(3) as threads:
        ranks = [done.result()[1:] for done in [threads.submit(distributed._fresh_store) for _ in range(3)]]
    assert sorted(ranks) == [(0, 3), (1, 3), (2, 3)]


def test_a_rank_leaves_with_its_status_and_without_the_usual_end_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(os, "_exit", ends.append)
    for main in (lambda: 0, lambda: 3, lambda: sys.exit(distributed.PEER_LOST_STATUS)):
        with pytest.raises(SystemExit):  # where `_exit` returns
            runtime.script_main(main)
    assert ends == [0, 3, distributed.PEER_LOST_STATUS]


def test_one_process_is_a_world_of_its_own() -> None:
    with distributed.process_group():
        assert (distributed.world_size(), distributed.rank(), distributed.local_count(7)) == (1, 0, 7)
        assert distributed.all_gather_object("x") == ["x"] and distributed.all_reduce_max([1, 2]) == [1, 2]
        assert distributed.all_ranks_true(True) and not distributed.all_ranks_true(False)
    rows = torch.arange(7)
    assert distributed.local_shard(rows) is rows and distributed.wrap_ddp(rows, "cpu") is rows


def test_no_two_ranks_share_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    assert [distributed.first_number(least) for least in range(6)] == [1, 1, 4, 4, 4, 7]


def test_the_rank_that_learns_has_half_an_equal_share_of_the_games_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for counts in ([128], [32, 96], [1, 1], [16, 38, 37, 37], [1, 2, 1]):
        monkeypatch.setattr(distributed, "world_size", lambda of=counts: len(of))
        for rank, count in enumerate(counts):
            monkeypatch.setattr(distributed, "rank", lambda of=rank: of)
            assert distributed.local_slots(sum(counts)) == count


@pytest.mark.parametrize(("case", "number"), TABLES["ranks that learn"].values())
def test_as_many_ranks_learn_as_keep_the_others_busy(case: list, number: int, monkeypatch) -> None:
    """Of each case: how many learn, of how many, the share of their time that players wait, and that of learning."""
    learners, world, waiting, learning = case
    monkeypatch.setattr(distributed, "world_size", lambda: world)
    monkeypatch.setattr(distributed._learners, "number", learners)
    assert distributed.balanced_learners(waiting, learning) == number


def test_the_balance_is_by_what_players_wait_on_average_in_usual_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    monkeypatch.setattr(distributed._learners, "number", 1)
    for waited, is_usual, number in (([0.4, 0.2, 0.3], True, 2), ([0.28, 0, 0], True, 1), ([0.4, 0.2, 0.3], False, 1)):
        of_ranks = [(0.0, 0.99, True), *((share, 0.99, is_usual) for share in waited)]
        monkeypatch.setattr(distributed, "all_gather_object", lambda _, of_ranks=of_ranks: of_ranks)
        assert distributed.balance(0.0, 0.99, True) == (max(waited), 0.99, number)


def test_a_restart_goes_on_with_what_its_torchrun_has_begun_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older run in the folder is refused at each restart, as it was at the start."""
    assert not distributed.restarts_run(time.time_ns())
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert distributed.restarts_run(time.time_ns()) and not distributed.restarts_run(10**18)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What `launch` has torch start: called with the settings and the program, and what that returns with words."""
    monkeypatch.setattr(api, "elastic_launch", start := Mock())
    monkeypatch.setattr(signal, "signal", Mock())
    monkeypatch.setattr(logging, "disable", Mock())
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return start


def test_a_command_starts_its_own_command_line_again(launched: Mock, monkeypatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python3", "-m", "zerogo", "train", "run.processes=3"])
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN if number == signal.SIGHUP else 0)
    distributed.launch(3)
    (config, program), words = launched.call_args.args, launched.return_value.call_args.args
    assert program == sys.executable and words == ("-m", "zerogo", "train", "run.processes=3")
    assert (config.nproc_per_node, config.max_restarts) == (3, 0)
    assert config.signals_to_handle == "SIGTERM,SIGINT,SIGQUIT"  # as under nohup
    assert os.environ[distributed.LAUNCHER] == f"{os.getpid()}:{config.logs_specs.root_log_dir}/store"
    place = RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, config.run_id, 1, 1)
    assert not get_rendezvous_handler(place).is_closed() and place.endpoint == "", "a full disk does not matter"
    monkeypatch.setattr(os, "getpid", lambda: 0)  # a system that does not list its children
    signal.signal.call_args.args[1](signal.SIGUSR1, None)


def failure(code: int) -> SimpleNamespace:
    """Returns what torch says of a process; one of status 3 has left its error, one of -39 was killed much later."""
    message = {"message": "DistBackendError: NCCL\n failed"} if code == 3 else "torch's words"
    return SimpleNamespace(exitcode=-9 if code == -39 else code, message=message, timestamp=max(0, -code))


@pytest.mark.parametrize(("codes", "said"), TABLES["what of a process that died"])
def test_one_sentence_for_a_process_that_died(codes: list[int], said: str | None, launched: Mock) -> None:
    """None for one that has said itself why it ends."""
    error = ChildFailedError.__new__(ChildFailedError)
    error.failures = {number: failure(code) for number, code in enumerate(codes) if code}
    launched.return_value.side_effect = error
    with pytest.raises(InputError if said else SystemExit) as raised:
        distributed.launch(len(codes))
    assert str(raised.value).startswith(said or "2")


@pytest.mark.parametrize("end", [SignalException("", signal.SIGTERM), RendezvousError("no\nstore")])
def test_what_ends_torchs_launcher_ends_the_command(end: Exception, launched: Mock) -> None:
    launched.return_value.side_effect = end
    with pytest.raises((Interrupted, InputError), match=r"SIGTERM$|^the launcher of 2 processes .* \(no store; its"):
        distributed.launch(2)


def test_a_process_ends_with_the_one_that_started_it(launched: Mock, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", library := Mock())
    os.environ |= {"RANK": "1", "WORLD_SIZE": "2", distributed.LAUNCHER: f"{os.getppid()}:{tmp_path}/store"}
    assert distributed._store_of_launcher()[1:] == (1, 2)
    assert library.return_value.prctl.call_args.args == (1, signal.SIGKILL) or sys.platform != "linux"
    os.environ[distributed.LAUNCHER] = f"{os.getppid() + 1}:{tmp_path}/store"
    with pytest.raises(SystemExit):
        distributed._store_of_launcher()


@pytest.mark.parametrize(("rates", "number"), TABLES["processes by their rates"].values())
def test_as_many_processes_on_a_cpu_as_are_a_gain(rates: dict | None, number: int, monkeypatch) -> None:
    machine = {"usable_cores": 6, "physical_cores": 3, "cgroup_num_cores": None, "free_bytes": 1e12}
    ask = Mock(return_value=[{"untried": ""} if rates is None else {"rates": rates}])
    monkeypatch.setattr(tuning, "pick_dtype", lambda *_: torch.float32)
    monkeypatch.setattr(tuning, "ask", ask)

    def found(**changes: float) -> int:
        for name, value in (machine | changes).items():
            monkeypatch.setattr(runtime, name, lambda *_, value=value: value)
        return tuning.num_processes(tiny.config("run.processes=auto"), lambda number: min(number, 5))

    assert found() == found(cgroup_num_cores=4.9) == number
    assert found(cgroup_num_cores=1.9) == found(free_bytes=1.9 * tuning.PROCESS_BYTES) == found(free_bytes=None) == 1
    assert [(one.args[0][0]["task"][2], one.args[0][0]["cores"]) for one in ask.call_args_list] == [(6, 3), (4, 3)]


def test_the_rates_of_several_processes() -> None:
    rates = trials.processes(tiny.config().to_dict(), 2, "float32", 0.01)["rates"]
    assert rates.keys() == {"1", "2"} and min(rates.values()) > 0


def test_the_number_of_processes(monkeypatch) -> None:
    """One for each GPU, none of which is asked; of a run as many as have the memory, each with games enough."""
    assert tuning.num_processes(tiny.config("run.processes=9"), lambda number: 5) == 9
    monkeypatch.setattr(runtime, "pick_device", torch.device)
    monkeypatch.setattr(runtime, "count_gpus", lambda: 4)
    devices = "run.device=cuda", "run.device=cuda:1"
    assert [tuning.num_processes(tiny.config("run.processes=auto", device), int) for device in devices] == [4, 1]
    monkeypatch.setattr(distributed, "launch", launched := Mock())
    for device in devices:  # a network of a run with nine processes plays on the GPUs that there are
        commands.launches(tiny.config("run.processes=9", device), int, is_training=False)
    launched.assert_called_once_with(4)
    shares = "training.batch=96", "pipeline.games_per_iteration=64", "selfplay.slots=50"
    config = tiny.config(*shares)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: pytest.fail("asked"))
    with pytest.raises(InputError, match="multiple of 5"):
        limits.require_shares(config, 5)
    assert [limits.most_processes(config, number) for number in (1, 3, 5, 64)] == [1, 3, 4, 6]
    assert limits.most_processes(tiny.config(*shares, "run.device=cuda"), 5) == 4
    for free, number in ((2.5 * tuning.PROCESS_BYTES, 2), (0, 1), (None, 4)):
        monkeypatch.setattr(runtime, "free_bytes", lambda device, free=free: free)
        assert limits.most_processes(config, 4) == number
    monkeypatch.setattr(distributed, "local_rank_and_size", lambda: (1, 2))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4), raising=False)
    monkeypatch.setattr(runtime, "cgroup_num_cores", lambda: None)
    assert runtime.usable_cores() == 2


@pytest.mark.parametrize("is_rank", [False, True])
def test_train_starts_processes(is_rank: bool, tmp_path: Path, monkeypatch, capsys) -> None:
    """As many as the settings of the run that goes on say; none within a rank."""
    calls: list = []
    monkeypatch.setattr(distributed, "launch", calls.append)
    monkeypatch.setattr(distributed, "is_rank_of_launcher", lambda: is_rank)
    monkeypatch.setattr(distributed, "process_group", nullcontext)
    monkeypatch.setattr("zerogo.pipeline.train", lambda *_: calls.append("train"))
    tiny.config("run.processes=3").dump(runtime.make_directory(tmp_path / "tiny") / "config.yaml")
    words = ["--resume", "--run", "tiny", f"run.directory={tmp_path}"]
    commands.main_train(commands.parse_train(words))
    commands.main_train(commands.parse_train([*words, "run.processes=1"]))
    (tmp_path / "tiny" / "config.yaml").unlink()
    checkpoint.save(checkpoint.path_of(tmp_path / "tiny", 1), tiny.fresh_checkpoint(tiny.config("run.processes=3")))
    commands.main_train(commands.parse_train(words))
    assert calls == ["train" if is_rank else 3, "train", "train" if is_rank else 3]
    assert is_rank or "3 processes share the work (run.processes)" in capsys.readouterr().out
