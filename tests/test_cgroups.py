"""The limits of control groups, read from made-up trees of files as Linux has them (data/tables/cgroups.json): of
systemd-run inside a slice with other limits; of version 1, where SLURM's job has limits and its step has none; of a
container whose mount begins at its own group."""

from pathlib import Path

import pytest
import torch
from tables import tables

from zerogo.system import cgroups, runtime

TABLES = tables("cgroups")


@pytest.mark.parametrize(("cgroup", "mounts", "tree", "free", "cores"), TABLES["cases"].values(), ids=TABLES["cases"])
def test_the_smallest_limit_up_to_the_root(
    cgroup: str, mounts: str, tree: str, free: int | None, cores: float | None, tmp_path: Path
) -> None:
    texts = {"proc/self/cgroup": cgroup, "proc/self/mountinfo": TABLES["mounts"][mounts]}
    texts |= {f"sys/fs/cgroup/{name}": content for name, content in TABLES["trees"][tree].items()}
    for name, content in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    assert cgroups.free_memory(tmp_path) == free
    assert cgroups.num_cores(tmp_path) == cores


def test_plans_and_threads_keep_to_the_limits(monkeypatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(cgroups, "free_memory", lambda: 4000)
    monkeypatch.setattr(cgroups, "num_cores", lambda: None)
    monkeypatch.setattr(runtime.os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert runtime.free_bytes(cpu) in (None, 4000) and runtime.usable_cores() == 8
    monkeypatch.setattr(cgroups, "free_memory", lambda: None)
    assert runtime.free_bytes(cpu) != 4000
    for quota, cores in ((0.2, 1), (1.5, 2), (3.0, 3), (64.0, 8)):
        monkeypatch.setattr(cgroups, "num_cores", lambda quota=quota: quota)
        assert runtime.usable_cores() == cores
