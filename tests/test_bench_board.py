"""The board's measurement: what it prints, and that its moves are drawn uniformly from the exact legal mask."""

from __future__ import annotations

import json

import torch

from zerogo import board
from zerogo.bench import __main__ as bench
from zerogo.bench.board import draw
from zerogo.rules import Rules


def test_draws_are_uniform_over_the_legal_moves() -> None:
    """20,000 draws in one position: no illegal move, each legal one near its share (6 standard deviations: it fails
    once in 1e6 times).
    """
    stones = torch.zeros(1, 4, 4, dtype=torch.int8)
    stones[0, 0, 1] = stones[0, 1, 0] = stones[0, 3, 3] = 2
    state = board.from_stones(stones.expand(20000, -1, -1).contiguous(), torch.ones(20000, dtype=torch.int8), Rules(4))
    legal = board.legal_actions(state)[0]
    assert not legal[0] and legal.sum() == 13  # the corner is suicide; twelve points and the pass
    counts = torch.bincount(draw(state, torch.Generator().manual_seed(3)), minlength=17)
    assert not counts[~legal].any()
    expected = 20000 / 13
    assert ((counts[legal] - expected).abs() < 6 * expected**0.5).all()


def test_line(capsys) -> None:
    words = [
        "--size",
        "3,5",
        "--batch",
        "16",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--seconds",
        "0.05",
        "--rounds",
        "1",
    ]
    assert bench.main(["board", *words]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["size"] for line in lines] == [3, 5]
    for line in lines:
        assert {"bench", "size", "batch", "device", "dtype", "threads", "torch"} <= line.keys() and line[
            "moves_per_s"
        ] > 0


def test_bad_input_gets_one_sentence(capsys) -> None:
    for words, part in (
        (["--size", "x"], "'x'"),
        (["--size", "0"], "0"),
        (["--size", "7", "--peer"], "pgx plays 9 and 19"),
    ):
        assert bench.main(["board", *words, "--batch", "4", "--device", "cpu", "--seconds", "0.05"]) == 2
        error = capsys.readouterr().err
        assert part in error and error.count("\n") == 1
