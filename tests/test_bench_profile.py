"""The profile of a simulation: its stages add up, and it leaves the search as it was."""

from __future__ import annotations

import json
import time

import pytest
import torch
from test_bench import COMMON, SHORT, TINY

from zerogo.bench import __main__ as bench
from zerogo.bench.profile import PARTS, REST, STAGES, Watch
from zerogo.search import search as steps


def test_lines(capsys) -> None:
    before = {name: getattr(steps, name) for name in PARTS}
    assert bench.main(["profile", *TINY, *SHORT, "--sims", "3"]) == 0
    assert {name: getattr(steps, name) for name in PARTS} == before
    out, table = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["kernels"] for line in lines] == ["compiled", "plain"]
    for line in lines:
        assert COMMON <= line.keys() and tuple(line["stages_us"]) == tuple(line["shares"]) == STAGES
        assert all(microseconds > 0 for microseconds in line["stages_us"].values())
        assert sum(line["stages_us"].values()) == pytest.approx(line["us_per_step"], abs=2)
        assert sum(line["shares"].values()) == pytest.approx(1, abs=1e-3)
    assert all(stage in table for stage in (*STAGES, "together"))


def test_a_stage_is_not_charged_for_those_inside_it(monkeypatch) -> None:
    """On a clock that ticks once a look, an outer stage with an inner one in its middle gets what is before and
    after.
    """
    ticks = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    watch = Watch.__new__(Watch)
    watch.device, watch.marks, watch.stage = torch.device("cpu"), [], REST
    inner = watch.timed("network", lambda: None)
    watch.timed("answer", inner)()
    assert list(watch._durations()) == [("answer", 1), ("network", 1), ("answer", 1)]
