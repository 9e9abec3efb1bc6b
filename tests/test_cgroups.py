"""The limits of control groups, read from made-up trees of files as Linux has them."""

from pathlib import Path

import pytest
import torch

from zerogo.system import cgroups, runtime

MB = 2**20
HYBRID = """31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
NO_LIMIT = 9223372036854771712  # as version 1 says it


def make_tree(root: Path, cgroup: str, mounts: str, files: dict[str, object]) -> Path:
    """Writes what a process sees of its groups; files: contents by paths below sys/fs/cgroup."""
    texts = {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mounts}
    texts |= {f"sys/fs/cgroup/{name}": content for name, content in files.items()}
    for name, content in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root


SYSTEMD = {  # systemd-run -p MemoryMax=500M -p CPUQuota=150% inside a slice with other limits
    "memory.stat": "anon 1\ninactive_file 7",
    "user.slice/memory.max": 900 * MB,
    "user.slice/memory.high": "max",
    "user.slice/memory.current": 500 * MB,
    "user.slice/cpu.max": "400000 100000",
    "user.slice/run.scope/memory.max": 500 * MB,
    "user.slice/run.scope/memory.current": 150 * MB,
    "user.slice/run.scope/memory.stat": f"anon 5\ninactive_file {50 * MB}\nactive_file 3",
    "user.slice/run.scope/cpu.max": "150000 100000",
}
SLURM = {  # version 1: the step has no limit of its own, the job has
    "memory/slurm/uid_7/job_1/step_0/memory.limit_in_bytes": NO_LIMIT,
    "memory/slurm/uid_7/job_1/memory.limit_in_bytes": 2000 * MB,
    "memory/slurm/uid_7/job_1/memory.usage_in_bytes": 1500 * MB,
    "memory/slurm/uid_7/job_1/memory.stat": f"inactive_file 1\ntotal_inactive_file {300 * MB}",
    "memory/memory.limit_in_bytes": NO_LIMIT,
    "cpu,cpuacct/slurm/uid_7/job_1/cpu.cfs_quota_us": 50000,
    "cpu,cpuacct/slurm/uid_7/job_1/cpu.cfs_period_us": 100000,
    "cpu,cpuacct/cpu.cfs_quota_us": -1,
    "cpu,cpuacct/cpu.cfs_period_us": 100000,
}
OF_SLURM = "4:memory:/slurm/uid_7/job_1/step_0\n2:cpu,cpuacct:/slurm/uid_7/job_1\n0::/"
DOCKER = {"memory/memory.limit_in_bytes": 700 * MB, "memory/memory.usage_in_bytes": 100 * MB}
OF_DOCKER = HYBRID.replace("0:32 / ", "0:32 /docker/abc ")  # whose mount begins at the container's own group
KUBERNETES = {"memory.max": 600 * MB, "memory.high": 400 * MB, "memory.current": 100 * MB, "cpu.max": "max 100000"}


CASES = {
    "systemd": ("0::/user.slice/run.scope", UNIFIED, SYSTEMD, 400 * MB, 1.5),
    "its slice": ("0::/user.slice", UNIFIED, SYSTEMD, 400 * MB, 4.0),
    "beside it": ("0::/", UNIFIED, SYSTEMD, None, None),
    "SLURM": (OF_SLURM, HYBRID, SLURM, 800 * MB, 0.5),
    "Docker": ("4:memory:/docker/abc\n0::/", OF_DOCKER, DOCKER, 600 * MB, None),
    "inside Docker": ("4:memory:/docker/abc/sub\n0::/", OF_DOCKER, DOCKER, 600 * MB, None),
    "Docker with another mount": ("4:memory:/docker/abc\n0::/", HYBRID, DOCKER, 600 * MB, None),
    "Kubernetes": ("0::/", UNIFIED, KUBERNETES, 300 * MB, None),
    "a group that is not seen": ("0::/../elsewhere", UNIFIED, KUBERNETES, 300 * MB, None),
    "no groups": ("", "", {}, None, None),
}


@pytest.mark.parametrize(("cgroup", "mounts", "files", "free", "cores"), CASES.values(), ids=CASES)
def test_the_smallest_limit_up_to_the_root(
    cgroup: str, mounts: str, files: dict, free: int | None, cores: float | None, tmp_path: Path
) -> None:
    root = make_tree(tmp_path, cgroup, mounts, files)
    assert cgroups.free_memory(root) == free
    assert cgroups.num_cores(root) == cores


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
