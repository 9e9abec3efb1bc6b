"""The measurement of a machine with a GPU, its parts run on the CPU: what is judged, and what becomes of parts that
fail or don't end."""

import time

import pytest

from zerogo.bench import gpu
from zerogo.bench.__main__ import main, parse
from zerogo.bench.gpu import Part, parse_samples, phases
from zerogo.errors import InputError


@pytest.mark.parametrize(
    "expected, line, fault, row",
    [
        ({"a": 0.9}, {"a": 0.91}, "", ("part", "a", "0.91", "at least 0.9", "holds")),
        ({"a": 0.9}, {"a": 0.89}, "", ("part", "a", "0.89", "at least 0.9", "FALLS SHORT")),
        ({"a": 180_000}, {"a": 181_234}, "", ("part", "a", "181,234", "at least 180,000", "holds")),
        ({"a": 0.9}, {}, "", ("part", "a", "not measured", "at least 0.9", "FALLS SHORT")),
        ({"a": None}, {"a": 0.1}, "", ("part", "a", "0.1", "", "")),
        ({"a": 0.9}, {"a": 1}, "killed", ("part", "pytest", "killed", "no fault", "FALLS SHORT")),
        ({}, {}, "", ("part", "pytest", "no fault", "no fault", "holds")),
    ],
)
def test_verdicts(expected: dict, line: dict, fault: str, row: tuple) -> None:
    assert list(gpu._judge("part", Part("pytest -q", 1, expected), line, fault)) == [row]


def test_the_whole_takes_less_than_ten_minutes() -> None:
    assert sum(part.seconds for part in gpu.PARTS.values()) < 600


def test_phases() -> None:
    rounds = [
        {"time/minutes": 1.0, "time/games": 10, "step": 5, "selfplay/games_per_s": 1.0, "train/samples_per_s": 1.0},
        {"time/minutes": 1.5, "time/games": 30, "step": 9, "selfplay/games_per_s": 2.0, "train/samples_per_s": 8.0},
        {"time/minutes": 2.0, "time/games": 40, "step": 9, "selfplay/games_per_s": 1.0},
    ]
    assert phases(rounds, 16) == {"selfplay_s": 20.0, "train_s": 8.0, "rest_s": 32.0, "train_samples_per_s": 8}


def test_samples_of_the_driver() -> None:
    now = time.localtime(1_700_000_000)
    line = time.strftime("%Y/%m/%d %H:%M:%S", now) + ".250, 97\n"
    assert parse_samples([line, "\n", "2026/11/22 15:59:08.123, [N/A]\n", "cut o"]) == [(1_700_000_000.25, 97.0)]


def test_what_it_cannot_do_is_a_sentence() -> None:
    for words, sentence in (([], "needs a CUDA device"), (["--part", "x"], "kernels and run")):
        with pytest.raises(InputError, match=sentence):
            main(parse(["gpu", "--device", "cpu", *words]))
