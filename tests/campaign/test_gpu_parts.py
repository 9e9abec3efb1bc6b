"""The parts of `zerogo bench gpu` as processes of their own, run on the CPU: what is judged, and what becomes of parts
that fail or don't end."""

import json
import os
import time
from pathlib import Path

import pytest
import tiny
import torch

from zerogo.bench import gpu
from zerogo.bench.__main__ import main, parse
from zerogo.bench.gpu import Part

NET = "zerogo.bench net --size 3 --batch 8 --blocks 1 --channels 4 --rounds 1 --seconds 0.01 --device cpu --threads 1"


def test_lines_and_verdicts(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(gpu, "pick_device", torch.device)
    monkeypatch.setattr(gpu, "describe", lambda device: {"device": str(device)})
    parts = {"network": Part(NET, 300, {"evals_per_s": 1, "tflops_per_s": None}), "timeit": Part("timeit 1", 300)}
    monkeypatch.setattr(gpu, "PARTS", parts)
    main(parse(["gpu", "--device", "cuda"]))
    out, table = capsys.readouterr()
    first, line = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert first["device"] == "cuda" and line["bench"] == "net" and line["evals_per_s"] > 1
    rows = [line.split() for line in table.splitlines()]
    assert [row[-1] for row in rows if row[:1] == ["network"]] == ["holds", f"{line['tflops_per_s']:,.3g}"]
    monkeypatch.setattr(gpu, "PARTS", {"timeit": Part("timeit nothing", 300)})
    with pytest.raises(SystemExit) as end:
        main(parse(["gpu", "--device", "cuda"]))
    assert end.value.code == 1 and "NameError" in capsys.readouterr().err


def test_a_part_that_does_not_end() -> None:
    assert gpu._run(Part("timeit -n 1 -s import(time) 1", 100))[1] != ""
    start, held = time.monotonic(), "import subprocess; subprocess.run(['sleep', '60'])"  # it has the pipes, too
    assert gpu._run(Part(f'timeit -n 1 "{held}"', 1)) == ({}, "not over after 1 s")
    assert time.monotonic() - start < 30


def test_three_iterations(tmp_path: Path, monkeypatch) -> None:
    """With a driver whose GPU works all the time: half before the first iteration ends, when nothing is counted."""
    settings = tiny.config("run.name=nine")
    settings.dump(tmp_path / "9x9.yaml")
    driver = tmp_path / "nvidia-smi"
    driver.write_text(
        "#!/bin/sh\nwhile :; do echo \"$(date '+%Y/%m/%d %H:%M:%S.%N' | cut -c1-23), 97\"; sleep 0.05; done\n"
    )
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(gpu, "CONFIG", tmp_path / "9x9.yaml")
    figures = gpu._run_iterations(tiny.CPU)
    assert figures["busy_share"] == 0.97 and "peak_memory_gb" not in figures
    assert figures["selfplay_s"] > 0 and figures["train_samples_per_s"] > 0 and figures["rest_s"] >= 0
