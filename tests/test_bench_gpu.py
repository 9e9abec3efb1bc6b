"""The measurement of a machine with a GPU, its parts run on the CPU: what is judged, and what becomes of parts that
fail or don't end."""

import json
import os
import time
from pathlib import Path

import pytest
import tiny
import torch

from zerogo.bench import gpu
from zerogo.bench.__main__ import main
from zerogo.bench.gpu import Part, phases, sampled

TRAIN = (
    "zerogo.bench train --size 3 --batch 8 --blocks 1 --channels 4 --rounds 1 --seconds 0.01 --device cpu --threads 1"
)


def test_lines_and_verdicts(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(gpu, "pick_device", torch.device)
    monkeypatch.setattr(gpu, "describe", lambda device: {"device": str(device)})
    parts = {"learning": Part(TRAIN, 300, {"samples_per_s": 1, "taken_per_s": None}), "timeit": Part("timeit 1", 300)}
    monkeypatch.setattr(gpu, "PARTS", parts)
    assert main(["gpu", "--device", "cuda"]) == 0
    out, table = capsys.readouterr()
    first, line = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert first["device"] == "cuda" and line["bench"] == "train" and line["samples_per_s"] > 1
    rows = [line.split() for line in table.splitlines()]
    assert [row[-1] for row in rows if row[:1] == ["learning"]] == ["holds", f"{line['taken_per_s']:,}"]
    monkeypatch.setattr(gpu, "PARTS", {"timeit": Part("timeit nothing", 300)})
    with pytest.raises(SystemExit) as end:
        main(["gpu", "--device", "cuda"])
    assert end.value.code == 1 and "NameError" in capsys.readouterr().err


def test_a_part_that_does_not_end() -> None:
    assert gpu._run(Part("timeit -n 1 -s import(time) 1", 100))[1] != ""
    start, held = time.monotonic(), "import subprocess; subprocess.run(['sleep', '60'])"  # it has the pipes, too
    assert gpu._run(Part(f'timeit -n 1 "{held}"', 1)) == ({}, "not over after 1 s")
    assert time.monotonic() - start < 30


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
    assert list(gpu._judged("part", Part("pytest -q", 1, expected), line, fault)) == [row]


def test_the_whole_takes_less_than_ten_minutes() -> None:
    assert sum(part.seconds for part in gpu.PARTS.values()) < 600


def test_three_rounds(tmp_path: Path, monkeypatch) -> None:
    """With a driver whose GPU works all the time: half before the first round's end, when nothing is counted."""
    settings = tiny.config("run.name=nine")
    settings.dump(tmp_path / "9x9.yaml")
    driver = tmp_path / "nvidia-smi"
    driver.write_text(
        "#!/bin/sh\nwhile :; do echo \"$(date '+%Y/%m/%d %H:%M:%S.%N' | cut -c1-23), 97\"; sleep 0.05; done\n"
    )
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(gpu, "CONFIG", tmp_path / "9x9.yaml")
    found = gpu._rounds(tiny.CPU)
    assert found["busy_share"] == 0.97 and "peak_memory_gb" not in found
    assert found["selfplay_s"] > 0 and found["train_s"] > 0 and found["rest_s"] >= 0


def test_phases() -> None:
    rounds = [
        {"time/minutes": 1.0, "time/games": 10, "step": 5, "selfplay/games_per_s": 1.0, "train/samples_per_s": 1.0},
        {"time/minutes": 1.5, "time/games": 30, "step": 9, "selfplay/games_per_s": 2.0, "train/samples_per_s": 8.0},
        {"time/minutes": 2.0, "time/games": 40, "step": 9, "selfplay/games_per_s": 1.0},
    ]
    assert phases(rounds, 16) == {"selfplay_s": 20.0, "train_s": 8.0, "rest_s": 32.0}


def test_samples_of_the_driver() -> None:
    now = time.localtime(1_700_000_000)
    line = time.strftime("%Y/%m/%d %H:%M:%S", now) + ".250, 97\n"
    assert sampled([line, "\n", "2026/11/22 15:59:08.123, [N/A]\n", "cut o"]) == [(1_700_000_000.25, 97.0)]


def test_what_it_cannot_do_is_a_sentence(capsys) -> None:
    assert main(["gpu", "--device", "cpu"]) == 2 and "needs a CUDA device" in capsys.readouterr().err
    assert main(["gpu", "--part", "x", "--device", "cpu"]) == 2 and "kernels and rounds" in capsys.readouterr().err
