"""What the control groups of this process leave it of the machine (Linux's cgroups, version 1 and 2): containers,
Kubernetes, SLURM and systemd set limits on groups anywhere between the process and the root."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Of version 2 and 1: the limits on memory in bytes, what is used, and the part of it, in memory.stat, that are files
# which were read and can be forgotten.
MEMORY = (
    (("memory.max", "memory.high"), "memory.current", "inactive_file"),
    (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
)

GROUP = re.compile(r"^\d+:([^:\n]*):(.+)$", re.MULTILINE)
MOUNT = re.compile(r"^\S+ \S+ \S+ (\S+) (\S+) .* - (cgroup2?) \S+ (\S+)$", re.MULTILINE)


def free_memory(root: Path = Path("/")) -> int | None:
    """Returns the bytes that the limits on memory leave this process, None where there is no limit. root: the folder in
    which proc/ and sys/ lie."""
    free = []
    for folder in _groups("memory", root):
        words = _words(folder / "memory.stat")
        statistics = dict(zip(words[::2], words[1::2], strict=False))
        for limits, usage, forgettable in MEMORY:
            used = sum(_numbers(folder / usage)) - int(statistics.get(forgettable, 0))
            free += [max(0, limit - used) for name in limits for limit in _numbers(folder / name)]
    return min(free, default=None)


def num_cores(root: Path = Path("/")) -> float | None:
    """Returns how many cores' time the quotas leave this process, such as 1.5, None where there is no quota. root: as
    in `free_memory`."""
    pairs = []
    for folder in _groups("cpu", root):
        pairs.append(_numbers(folder / "cpu.max"))
        pairs.append(_numbers(folder / "cpu.cfs_quota_us") + _numbers(folder / "cpu.cfs_period_us"))
    return min((pair[0] / pair[1] for pair in pairs if len(pair) == 2), default=None)


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yields the folders of the groups that may limit this process, its own one first, then those above it."""
    paths = {}
    for controllers, path in GROUP.findall(_text(root / "proc/self/cgroup")):
        paths |= dict.fromkeys(controllers.split(","), path)  # version 2 names no controllers
    for top, place, kind, options in MOUNT.findall(_text(root / "proc/self/mountinfo")):
        name = "" if kind == "cgroup2" else controller if controller in options.split(",") else None
        if name not in paths:
            continue
        # A container sees only its part of the tree, at the root of the mount; what lies outside of it has no folder.
        path, mounted = PurePosixPath(paths[name]), root / place.lstrip("/")
        is_inside = path.is_relative_to(top) and ".." not in path.parts
        folder = mounted / path.relative_to(top) if is_inside else mounted
        yield from (one for one in (folder, *folder.parents) if one.is_relative_to(mounted))


def _numbers(path: Path) -> list[int]:
    """Returns the whole numbers of a file; none where it is missing, or says that there is no limit ("max", -1)."""
    return [int(word) for word in _words(path) if word.isdigit()]


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):  # most systems lack most of these files
        return ""
