"""The runs, matches, networks and games below a log directory. They are read on request, games a page at a time. The
facts of a game are kept until its file changes. Nothing here needs torch."""

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from zerogo.errors import InputError
from zerogo.system import bounds

MOST_FOLDERS, MOST_DEPTH = 10_000, 4  # that are looked at, and how far down
MOST_GAME_BYTES = 2**19  # of a game that is shown
SUMMARY_BYTES, MOST_HEAD, OPENING = 2**18, 4096, 6  # of a game in a list: read; with names and result; moves compared
KEPT_SUMMARIES = 100_000  # games, some 500 bytes each
LISTED, PAGE_SECONDS = 50, 0.7  # games of a page, and the time limit of one request for them
RUNS_SECONDS = 2.0  # seconds for which the list of runs is kept
GAME_FOLDERS = {"games": "self-play", "matches": "match", "played": "played"}  # of a run, with the kinds of their games
OF_A_RUN = {*GAME_FOLDERS, "actors", "checkpoints", "snapshots", "replay", "logs"}
NETWORKS = (".pt", ".bin.gz", ".txt.gz")  # endings of checkpoints and of KataGo's networks
STEP = re.compile(r"step-(\d{8,18})\.pt")
_COMMENT = re.compile(rb"\bG?C\[[^\]\\]*+(?:\\.[^\]\\]*+)*+\]?", re.DOTALL)  # or to the end: each byte is seen once
_MOVE = re.compile(rb"(?<![A-Z])([BW])\[([a-y]{0,2})\]")
_NAME = rb"(?<![A-Z])%s\[((?:[^\]\\]|\\.){0,200})"
_NAMES = {name: re.compile(_NAME % name.encode()) for name in "PB PW RE SZ".split()}
_END = re.compile(rb"ended by: (\w{1,20})")
_ENDS = {"R": "resigned", "T": "time", "F": "fault"}


class GameSummary(NamedTuple):
    """A game as a list shows it. size: N. end: how it ended. opening: its first moves, as SGF letters with commas."""

    size: int
    black: str
    white: str
    result: str
    moves: int
    end: str
    opening: str


class ListedRun(NamedTuple):
    """A run, a match or a folder with networks. name: its path below the log directory. sources: the kinds of its games
    with their folders. networks: files with their training steps, -1 for none. note: why it is not read, or empty."""

    name: str
    path: Path
    sources: list[tuple[str, Path]]
    networks: list[tuple[str, int]]
    note: str = ""


class Folder:
    """A log directory. Every path of a request goes through `path`, every game through `read`."""

    def __init__(self, root: str | os.PathLike) -> None:
        self.root = Path(root).resolve()
        self.summary = lru_cache(KEPT_SUMMARIES)(_read_file_summary)
        self._listings: dict[Path, tuple[float, list[tuple[int, str, int]]]] = {}
        self._runs: tuple[float, list[ListedRun]] = (-1e9, [])
        self._lock = threading.Lock()

    def path(self, name: Any, pruned: bool = False) -> Path:
        """Returns the path of a name below the log directory, links resolved. Raises InputError for a path that leads
        out of it, and for one where nothing is, unless `pruned` allows that."""
        if not isinstance(name, str) or len(name) > 1000 or "\0" in name:
            raise InputError("a path must be a text of at most 1000 characters; take one that the tab lists")
        try:
            path = (self.root / name).resolve()
        except (RuntimeError, ValueError):  # links in a circle; half a character
            raise InputError(f"{name[:80]!r} leads to no file; take one that the tab lists") from None
        if ".." in Path(name).parts or not path.is_relative_to(self.root):
            raise InputError(f"{name[:80]!r} leads out of the log directory, and nothing outside of it is read")
        if not (pruned or path.exists()):
            raise InputError(f"{name[:80]!r} is not there any more")
        return path

    def read(self, name: str) -> bytes:
        """Returns the bytes of a game. Raises InputError for a file that is no SGF, is too large, or can't be read."""
        path = self.path(name)
        if path.suffix.lower() != ".sgf":
            raise InputError(f"{name[:80]!r} is no SGF file; allowed are games, *.sgf")
        try:
            with bounds.open_regular(path, "game", follow_links=False) as file:
                data = file.read(MOST_GAME_BYTES + 1)
        except (OSError, InputError):
            raise InputError(f"{name[:80]!r} can't be read; allowed are regular files") from None
        if len(data) > MOST_GAME_BYTES:
            raise InputError(f"{name[:80]!r} is larger than {MOST_GAME_BYTES // 2**10} KiB; no single game is")
        return data

    def network(self, name: Any, pruned: bool = False) -> Path:
        """Returns the path of a network. Raises InputError for another file. pruned: allow a file that is gone."""
        path = self.path(name, pruned)
        if not path.name.endswith(NETWORKS) or path.is_dir() or path.parent.name == "snapshots":
            raise InputError(f"{str(name)[:80]!r} is no checkpoint; allowed are the networks that the tab lists")
        return path

    def file(self, run: ListedRun, name: str) -> str | None:
        """Returns the path of a run's own file, None where there is none."""
        with suppress(InputError):
            path = self.path(f"{run.name}/{name}")
            return str(path) if path.is_file() else None
        return None

    def run(self, name: Any) -> ListedRun:
        """Returns the run of a name. Raises InputError where it is not listed."""
        if (listed := next((run for run in self.runs() if run.name == name and not run.note), None)) is None:
            raise InputError(f"there is no run {str(name)[:80]!r} in the log directory any more")
        return listed

    def runs(self) -> list[ListedRun]:
        """Returns the runs, the one that was written last first."""
        with self._lock:
            if time.monotonic() - self._runs[0] > RUNS_SECONDS:
                dated = ((_mtime(run.path, *(run.path / name for name in OF_A_RUN)), run) for run in self._find_runs())
                self._runs = time.monotonic(), [run for _, run in sorted(dated, key=lambda pair: -pair[0])]
            return self._runs[1]

    def _find_runs(self) -> Iterator[ListedRun]:
        waiting, looked = [(self.root, 0)], 0
        while waiting and looked < MOST_FOLDERS:
            (path, depth), looked = waiting.pop(0), looked + 1
            folders, files = _entries(path)
            is_run = "config.yaml" in files and bool(folders & OF_A_RUN)
            below = () if depth == MOST_DEPTH else sorted(folders - (OF_A_RUN if is_run else {"games"}))
            waiting += [(path / name, depth + 1) for name in below if not name.startswith(".")]
            for link in (path / name for name in files if (path / name).is_symlink() and (path / name).is_dir()):
                yield ListedRun(self._name(link), path, [], [], "a link, which is not followed")
            if is_run or "match.json" in files or "played" in folders or any(name.endswith(NETWORKS) for name in files):
                yield self._run(path, is_run, folders, files)

    def _run(self, path: Path, is_run: bool, folders: set[str], files: set[str]) -> ListedRun:
        name = self._name(path)
        kinds = GAME_FOLDERS if is_run else ({"games": "match"} if "match.json" in files else {}) | {"played": "played"}
        sources = [(kind, path / folder) for folder, kind in kinds.items() if folder in folders]
        networks = [(file, -1) for file in sorted(files) if file.endswith(NETWORKS)]
        saved = _entries(path / "checkpoints")[1] if is_run and "checkpoints" in folders else ()
        steps = sorted((int(match[1]), match[0]) for match in map(STEP.fullmatch, saved) if match)
        networks += [(f"checkpoints/{file}", step) for step, file in steps]
        return ListedRun(name, path, sources, [(f"{name}/{file}".removeprefix("./"), step) for file, step in networks])

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    # Games

    def listing(self, folder: Path) -> list[tuple[int, str, int]]:
        """Returns time of writing (ns), file name and size (bytes) of each game of a folder, the newest first."""
        changed = _mtime(folder)
        listed = self._listings.get(folder)
        if listed is None or listed[0] != changed:
            files = []
            with suppress(OSError), os.scandir(folder) as entries:  # it may be deleted meanwhile
                for entry in entries:
                    if entry.name.endswith(".sgf") and entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        files.append((stat.st_mtime_ns, entry.name, stat.st_size))
            listed = self._listings[folder] = changed, sorted(files, reverse=True)
        return listed[1]

    def games(self, filters: dict[str, str], after: str = "") -> dict[str, Any]:
        """Returns a page of the games that filters allow, the newest first.

        filters: run, kind, player (parts of names), result (B, W, 0), end, least and most (moves), each may be left
        out. after: the `next` of an earlier page. The page holds `games`, `next` (empty on the last page), `total`
        (games of the folders) and `looked` (how many of them this page read). Raises InputError for other filters."""
        for name in ("least", "most"):
            if not re.fullmatch(r"\d{1,5}", filters.get(name, "0")):
                raise InputError(f"{name} is {filters[name][:40]!r}; allowed are numbers of moves from 0 to 99999")
        if after and not re.fullmatch(r"\d{1,25} .*", after, re.DOTALL):
            raise InputError(f"after is {after[:80]!r}; allowed is what an earlier page called next")
        sources = [(run.name, *source) for run in self.runs() for source in run.sources]
        sources = [one for one in sources if one[:2] == (filters.get("run", one[0]), filters.get("kind", one[1]))]
        of_folder = ((*one, f"{self._name(one[2])}/", self.listing(one[2])) for one in sources)
        every = [(row[0], place + row[1], row[2], run, kind) for run, kind, _, place, rows in of_folder for row in rows]
        every.sort(reverse=True)
        begin = (int(after.split(" ")[0]), after.partition(" ")[2]) if after else (2**63, "")
        page, looked, last, until = [], 0, "", time.monotonic() + PAGE_SECONDS
        for changed, path, size, run, kind in every:
            if (changed, path) >= begin:
                continue
            if len(page) == LISTED or time.monotonic() > until:
                break
            looked, last, summary = looked + 1, f"{changed} {path}", self.summary(self.root / path, changed, size)
            if summary is not None and _passes_filters(summary, filters):
                about = {"path": path, "run": run, "kind": kind, "when": changed // 10**9}
                page.append({name: value for name, value in summary._asdict().items() if name != "opening"} | about)
        else:
            last = ""
        return {"games": page, "next": last, "total": len(every), "looked": looked}


def _read_file_summary(path: Path, changed: int, size: int) -> GameSummary | None:
    """Returns the facts of a game for a list, None where the file is no game or can't be read. changed, size: the
    time (ns) and size (bytes) of the file; the game is read again when they differ."""
    with suppress(OSError, InputError), bounds.open_regular(path, "game", follow_links=False) as file:
        return read_summary(file.read(SUMMARY_BYTES))
    return None


def read_summary(data: bytes) -> GameSummary | None:
    """Returns the facts of a game for a list, by its first bytes; None where they are no SGF. It finds what zerogo and
    most programs write; opening a game uses `zerogo.sgf`."""
    if b"(" not in data[:200] or b";" not in data[:400]:
        return None
    end, plain, text = _END.search(data), _COMMENT.sub(b"", data), {}
    for name, pattern in _NAMES.items():
        match = pattern.search(plain, 0, MOST_HEAD)
        text[name] = match[1].decode("utf-8", "replace").replace("\\", "") if match else ""
    text["RE"] = {"Draw": "0", "Void": "?"}.get(text["RE"], text["RE"])
    moves = _MOVE.findall(plain)
    how = end[1].decode() if end else "capped" if b"ended at the move cap" in data else ""
    how = how or _ENDS.get(text["RE"][2:3], "passes" if text["RE"] not in ("", "?") else "unfinished")
    size = int(text["SZ"]) if re.fullmatch(r"\d{1,2}", text["SZ"]) else 19
    opening = b",".join(move for _, move in moves[:OPENING]).decode()
    return GameSummary(size, text["PB"], text["PW"], text["RE"], len(moves), how, opening)


def _passes_filters(game: GameSummary, filters: dict[str, str]) -> bool:
    """Whether filters allow a game."""
    players = f"{game.black}\n{game.white}".lower()
    return (
        all(word in players for word in filters.get("player", "").lower().split())
        and (game.result[:1] or "?") in filters.get("result", game.result[:1] or "?")
        and filters.get("end", game.end) == game.end
        and int(filters.get("least", 0)) <= game.moves <= int(filters.get("most", 99999))
    )


def _entries(path: Path) -> tuple[set[str], set[str]]:
    """Returns the names of the folders in a folder, without links, and of all other entries; none where it is gone."""
    folders, files = set(), set()
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else files).add(entry.name)
    return folders, files


def _mtime(*paths: Path) -> float:
    """Returns when the last of some folders was written, in seconds since 1970; 0 where none is there."""
    with suppress(OSError):
        return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
    return 0.0
