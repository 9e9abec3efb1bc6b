"""The pool of a run's matches: a file that only grows, ratings, whom to meet, and verdicts."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matches import some_result
from PIL import Image

from zerogo import __main__ as commands
from zerogo import sgf
from zerogo.arena import elo, pool
from zerogo.arena.pool import Meeting
from zerogo.errors import InputError
from zerogo.show.picture import HEAT


def meeting(player: str, opponent: str, points: float, games: int = 100, seed: int = 1, size: int = 5) -> Meeting:
    return Meeting(player, opponent, size, points, games, [0, 0, games // 2, 0, 0], seed)


def test_each_match_is_kept_once_whatever_a_kill_leaves(tmp_path: Path) -> None:
    path, result = tmp_path / pool.FILE, some_result(num_games=6, game_1={"score_black": 0.0})
    assert pool.read(path) == []
    for one in (result, replace(result, is_self=True), replace(result, is_paired=False), result):
        pool.add(path, one)
    with open(path, "a") as file:
        file.write('{"player": "a", "oppo')
    pool.add(path, replace(result, seed=8))
    for broken in ("[]", "{}", '{"player": 1}', json.dumps(meeting(5, "bert", 1)._asdict()), "null", "\xff"):
        with open(path, "a", encoding="latin-1") as file:
            file.write(broken + "\n")
    first, second = pool.read(path)
    # Black wins pairs by 3 and loses them by 1 in turn, but for the drawn game: A's pairs are 1.5, 1 and 1 points.
    assert first == Meeting("anna", "bert", 5, 3.5, 6, [0, 0, 2, 1, 0], result.seed)
    assert second == first._replace(seed=8)
    assert path.read_bytes().count(b"\n") == 3 + 1 + 6
    games = sorted((tmp_path / pool.FOLDER).iterdir())
    assert [game.name for game in games] == [f"5x5-anna-vs-bert-{number:04d}.sgf" for number in range(1, 7)]
    assert sgf.read(games[0]).moves == result.games[0].moves


def test_ratings_are_those_of_all_that_met_and_intervals_of_some() -> None:
    results = [("a@1", "random", 70, 30), ("a@2", "random", 90, 10), ("a@2", "a@1", 75, 25)]
    met = [*(meeting(*result[:3]) for result in results), meeting("b", "c", 9, size=3)]
    rows, numbers = pool.rate(met, 5), {"random": 0, "a@1": 1, "a@2": 2}
    expected = elo.bradley_terry(elo.Meetings.of_results(numbers, results))
    assert [row[0] for row in rows] == ["a@2", "a@1", "random"]
    for name, *values in rows:
        k = numbers[name]
        assert values == pytest.approx([expected.elo[k], expected.low[k], expected.high[k]])
    many = [meeting(f"x@{k}", "random", 50 + k / 2) for k in range(60)]
    assert [row[0] for row in pool.rate(many, 5, ["x@0"])] == [f"x@{k}" for k in range(59, 39, -1)] + ["x@0"]
    assert pool.rate(met, 9) == [] and pool.rate(met, 3)[0][0] == "c"


def test_who_tells_most_is_about_as_strong_and_little_known() -> None:
    met = [meeting("weak", "random", 60), meeting("even", "random", 95), meeting("known", "random", 95)]
    met += [meeting("newest", "random", 95), meeting("newest", "known", 500, games=1000)]
    order = pool.sort_by_information(met, 5, "newest", ["known", "weak", "even", "never met"], 100)
    assert order[0] == "even" and order[-1] == "never met"


def test_the_verdict_counts_pairs_of_both_directions() -> None:
    pairs = [1, 2, 20, 30, 25]
    met = [Meeting("new", "best", 5, 100, 156, pairs, 1), Meeting("best", "new", 5, 56, 156, pairs[::-1], 2)]
    met.append(Meeting("new", "best", 9, 0, 156, pairs[::-1], 3))
    assert pool.verdict(met, 5, "new", "best") == elo.sprt(2 * np.array(pairs), pool.ELO0, pool.ELO1)
    assert pool.verdict(met, 5, "new", "best").verdict == "H1" and pool.verdict(met, 9, "new", "best").verdict == "H0"
    assert pool.verdict(met, 5, "best", "new").verdict == "H0" and pool.verdict(met, 5, "new", "x").llr == 0


def test_a_person_sees_the_ratings_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(InputError, match="holds no matches; a run plays them with evaluation.every_minutes or"):
        pool.show(tmp_path)
    pool.add(tmp_path / pool.FILE, some_result(num_games=6))
    commands.main_evaluate(commands.parse_evaluate(["--ratings", str(tmp_path)]))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "5x5, 6 games" and sorted(row.split()[0] for row in shown[2:]) == ["anna", "bert"]


def test_a_person_sees_how_strength_grew(tmp_path: Path, monkeypatch, capsys) -> None:
    """The curve rises to the right in a picture with a chart for each board; one checkpoint makes no curve."""
    words = ["--ratings", str(tmp_path), "--curve", str(tmp_path / "curve.png")]
    met = [meeting(f"a@{step}", "random", 50 + step, size=size) for size in (5, 7) for step in (10, 20, 40)]
    met += [meeting("a@40", "a@30", 52), meeting("a@40", "b@30", 52)]  # the first is under a gate the player
    charts, chart = [], pool.learning_curve
    monkeypatch.setattr(pool, "learning_curve", lambda *values: charts.append(values[:2]) or chart(*values))
    (tmp_path / "logs").mkdir()
    times = [{"step": 5, "sanity/x": 1.0}, *({"step": step, "time/minutes": 2.0 * step} for step in range(0, 41, 10))]
    (tmp_path / "logs" / "metrics.jsonl").write_text("".join(f"{json.dumps(time)}\n" for time in times))
    for number in (1, len(met)):
        lines = [json.dumps(one._asdict()) for one in met[:number]]
        (tmp_path / pool.FILE).write_text("\n".join(lines))
        with pytest.raises(InputError, match="matches of two") if number == 1 else contextlib.nullcontext():
            commands.main_evaluate(commands.parse_evaluate(words))
    assert capsys.readouterr().out.endswith(f"wrote the learning curve to {tmp_path / 'curve.png'}\n")
    assert [(len(points), sorted(levels)) for points, levels in charts] == [(4, ["b@30", "random"]), (3, ["random"])]
    image = np.asarray(Image.open(tmp_path / "curve.png")).astype(int)
    assert image.shape[1] > 2 * 640
    is_curve = np.abs(image[:, :640] - HEAT).sum(2) < 60
    heights = [np.nonzero(is_curve[:, x])[0].mean() for x in np.nonzero(is_curve.any(0))[0]]
    assert len(heights) > 300 and heights[0] > heights[len(heights) // 2] > heights[-1]
    with pytest.raises(InputError, match="cannot write the learning curve to .*none/x.png: No such file"):
        pool.draw_curve(tmp_path, tmp_path / "none" / "x.png")
    (tmp_path / "logs" / "metrics.jsonl").unlink()
    with pytest.raises(InputError, match="metrics.jsonl holds no training times"):
        pool.draw_curve(tmp_path, tmp_path / "x.png")
