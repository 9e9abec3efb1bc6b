"""The measurement of the encoders: what its lines hold."""

from __future__ import annotations

import json

import pytest

from zerogo.bench import __main__ as bench

SHORT = ["--seconds", "0.02", "--rounds", "1", "--device", "cpu", "--threads", "1", "--size", "5", "--batch", "4,8"]


def test_lines(capsys) -> None:
    assert bench.main(["features", *SHORT, "--without", "ladder_capture+ladder_escape"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["bench"], line["batch"], line["preset"], line["planes"]) for line in lines] == [
        ("features", 4, "alphago48", 46),
        ("features", 8, "alphago48", 46),
    ]
    assert all(min(line["positions_per_s"], line["zero17_positions_per_s"], line["ratio"]) > 0 for line in lines)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--without", "eyes"], "--without 'eyes'; alphago48 holds stones"),
        (["--preset", "stones+eyes"], "the plane group 'eyes'"),
        (["--rounds", "0"], "0 rounds"),
    ],
)
def test_bad_input_gets_one_sentence(options: list[str], sentence: str, capsys) -> None:
    assert bench.main(["features", *SHORT, *options]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
