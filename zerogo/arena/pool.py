"""The rating pool of a run: a file with the matches of its checkpoints, which only grows; their ratings with intervals,
the opponents that the newest checkpoint should play next, and tests whether one checkpoint is stronger than another.

    matches.jsonl    one match in each line
    matches/*.sgf    some games of each, for people

A killed process leaves at most an incomplete last line, which `read` skips."""

import json
import math
import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zerogo import sgf
from zerogo.arena import elo
from zerogo.arena.result import MatchResult, rating_lines
from zerogo.errors import InputError, refuse_os_errors
from zerogo.show.picture import learning_curve, mosaic, png
from zerogo.system import bounds
from zerogo.system.runtime import make_directory, write_atomically
from zerogo.system.telemetry import METRICS_FILE

FILE, FOLDER = "matches.jsonl", "matches"
KEPT_GAMES = 10  # of a match, some 6 KB
ELO0, ELO1 = 0.0, 20.0  # of the SPRT: no stronger, and stronger by as much as a day's change of a long run
CHECKPOINT = re.compile(r"(.*)@(\d+)")  # a checkpoint's name: its run's, and its training step
LISTED = 20  # strongest players in a table; players that a caller names are added


class Meeting(NamedTuple):
    """A match of two players on a board of side `size`. points: the player's, draws as half. pairs: the numbers of
    pairs of games in which the player got 0, 0.5, 1, 1.5 and 2 points. seed: of the match; an entry with the same
    players, size, seed and games is the same match, played again after an interruption."""

    player: str
    opponent: str
    size: int
    points: float
    games: int
    pairs: list[int]
    seed: int

    @classmethod
    def of(cls, result: MatchResult) -> "Meeting":
        """Returns the entry of a match with both colours."""
        pairs = np.bincount((2 * result.pair_points()[0]).astype(int), minlength=5).tolist()
        points = float(result.points_a.sum())
        return cls(result.name_a, result.name_b, result.rules.size, points, result.num_games, pairs, result.seed)


KINDS = Meeting.__annotations__ | {"pairs": [int]}


def add(path: Path, result: MatchResult) -> None:
    """Adds a match to the file, fsynced, and writes some of its games into a folder next to it. A match with fixed
    colours is left out, as it says less of strength."""
    if result.is_self or not result.is_paired:
        return
    with open(path, "a+b") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        is_cut = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * is_cut + json.dumps(Meeting.of(result)._asdict()).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    names, size = (result.name_a, result.name_b), result.rules.size
    with suppress(InputError, OSError):  # a full disk; nothing depends on them
        folder = make_directory(path.parent / FOLDER)
        for game in result.games[:KEPT_GAMES]:
            sgf.write(folder / f"{size}x{size}-{game.file_name(names)}", game.record(names, result.rules))


def read(path: Path) -> list[Meeting]:
    """Returns the matches of a file, each once; damaged lines are left out, and a missing file has no matches."""
    matches: dict[tuple, Meeting] = {}
    for line in path.read_bytes().splitlines() if path.exists() else []:
        with suppress(ValueError, TypeError):
            meeting = Meeting(**(row := bounds.parse_json(line)))
            if 0 <= meeting.points <= meeting.games and len(meeting.pairs) == 5 and not bounds.misfit(row, KINDS, ""):
                matches[meeting.player, meeting.opponent, meeting.size, meeting.seed, meeting.games] = meeting
    return list(matches.values())


def _meetings(meetings: Sequence[Meeting], size: int) -> tuple[dict[str, int], elo.Meetings]:
    """Returns the number of each player on boards of that side, the anchor's being 0, and their points."""
    on_board = [meeting for meeting in meetings if meeting.size == size]
    players = dict.fromkeys(name for meeting in on_board for name in meeting[:2])
    anchor = "random" if "random" in players else on_board[0].opponent
    numbers = {name: k for k, name in enumerate(dict.fromkeys([anchor, *players]))}
    points = [(one.player, one.opponent, one.points, one.games - one.points) for one in on_board]
    return numbers, elo.Meetings.of_results(numbers, points)


def rate(meetings: Sequence[Meeting], size: int, names: Collection[str] = ()) -> list[tuple[str, float, float, float]]:
    """Returns (name, Elo, low, high) of the strongest players and of `names`, the strongest first. The random player is
    at 0, or the first opponent where the random player has no match."""
    if not any(meeting.size == size for meeting in meetings):
        return []
    numbers, pairs = _meetings(meetings, size)
    players, values = list(numbers), elo.bradley_terry(pairs, of=[]).elo
    order = np.argsort(-values, kind="stable").tolist()
    listed = [k for place, k in enumerate(order) if place < LISTED or players[k] in names]
    ratings = elo.bradley_terry(pairs, of=listed)
    return [(players[k], *(float(values[k]) for values in (ratings.elo, ratings.low, ratings.high))) for k in listed]


def strongest(meetings: Sequence[Meeting], size: int, names: Collection[str]) -> list[str]:
    """Returns the highest rated of the names in a list; the list is empty where none of them has played."""
    if not any(meeting.size == size for meeting in meetings):
        return []
    numbers, pairs = _meetings(meetings, size)
    values = elo.bradley_terry(pairs, of=[]).elo
    return sorted((name for name in names if name in numbers), key=lambda name: -values[numbers[name]])[:1]


def sort_by_information(
    meetings: Sequence[Meeting], size: int, newest: str, others: Sequence[str], games: int
) -> list[str]:
    """Returns the others, sorted by how much `games` games against each would tell about the newest player's strength,
    the most first: log(1 + games p (1 - p) variance), with the expected win rate p and the variance of the Elo
    difference in nats. An opponent of equal strength and a wide interval comes first. The newest player must have
    played a match."""
    numbers, pairs = _meetings(meetings, size)
    rated = [name for name in others if name in numbers]
    ratings = elo.bradley_terry(pairs, numbers[newest], of=[numbers[name] for name in rated])

    def _information(name: str) -> float:
        k = numbers[name]
        rate = elo.win_rate(ratings.elo[k])
        deviation = (ratings.high[k] - ratings.elo[k]) / elo.Z95 / elo.ELO_PER_NAT
        return math.log1p(games * rate * (1 - rate) * deviation**2)

    return [*sorted(rated, key=_information, reverse=True), *(name for name in others if name not in numbers)]


def verdict(meetings: Sequence[Meeting], size: int, one: str, other: str) -> elo.Sprt:
    """Returns the SPRT of "one is not stronger than the other" against "one is `ELO1` stronger", over all pairs of
    their games on boards of that side."""
    counts = np.zeros(5)
    for meeting in meetings:
        if meeting.size == size and {meeting.player, meeting.opponent} == {one, other}:
            counts += meeting.pairs if meeting.player == one else meeting.pairs[::-1]
    return elo.sprt(counts, ELO0, ELO1)


def read_run(folder: Path) -> list[Meeting]:
    """Returns the matches of a run. Raises InputError where it has none."""
    if not (meetings := read(folder / FILE)):
        lack = f"{folder / FILE} holds no matches; a run plays them with evaluation.every_minutes or every_iterations"
        raise InputError(lack if folder.exists() else bounds.missing(folder))
    return meetings


def show(folder: Path) -> list[str]:
    """Returns the tables of a run's pool, one for each board. Raises InputError where the run has none."""
    lines, meetings, columns = [], read_run(folder), ("player", "elo", "low", "high")
    for size in sorted({meeting.size for meeting in meetings}):
        games = sum(one.games for one in meetings if one.size == size)
        rows = [dict(zip(columns, row, strict=True)) for row in rate(meetings, size)]
        lines += [f"{size}x{size}, {games} games", *rating_lines(rows)]
    return lines


def draw_curve(folder: Path, path: Path) -> None:
    """Writes a picture of the strength of a run's checkpoints over the minutes of training, with the 95 % intervals,
    one chart for each board. Raises InputError where no two of them were in matches."""
    meetings, times = read_run(folder), []
    with suppress(FileNotFoundError):
        for line in (folder / "logs" / METRICS_FILE).read_bytes().splitlines():
            with suppress(ValueError, KeyError, TypeError):  # an incomplete line, and one without a time
                record = json.loads(line)
                times.append((record["step"], record["time/minutes"]))
    if not times:
        raise InputError(f"{folder / 'logs' / METRICS_FILE} holds no training times, so there is no curve to draw")
    steps, minutes = np.array(sorted([(0, 0.0), *times]), dtype=np.float64).T
    charts, runs = {}, {match[1] for one in meetings if (match := CHECKPOINT.fullmatch(one.player))}
    for size in sorted({meeting.size for meeting in meetings}):
        names = {name for one in meetings if one.size == size for name in one[:2]}
        of_run = {name: int(match[2]) for name in names if (match := CHECKPOINT.fullmatch(name)) and match[1] in runs}
        ratings = {name: row for name, *row in rate(meetings, size, of_run)}
        points = [(float(np.interp(step, steps, minutes)), *ratings[name]) for name, step in of_run.items()]
        levels = {name: row[0] for name, row in ratings.items() if name not in of_run}
        if len({point[0] for point in points}) > 1:
            charts[f"{size}x{size}: Elo with 95 % intervals"] = learning_curve(sorted(points), levels, 640, 360)
    if not charts:
        what = "a curve needs matches of two checkpoints or more"
        raise InputError(f"{folder / FILE}: {what}; set evaluation.every_minutes or every_iterations")
    whole = mosaic([*charts.values()], columns=2, titles=[*charts])
    with refuse_os_errors(f"cannot write the learning curve to {path}"):
        write_atomically(path, png(whole))
