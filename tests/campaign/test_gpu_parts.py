"""The parts of `zerogo bench gpu` as processes of their own, run on the CPU: what is judged, and what becomes of parts
that fail or don't end. On the simulated CUDA device (`tests/pretended`) all parts, and two ranks of a run. With two
GPUs games on the second (`-m gpu`)."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ranks
import tiny
import torch

from zerogo import board
from zerogo.bench import gpu
from zerogo.bench.__main__ import main, parse
from zerogo.bench.gpu import Part
from zerogo.rules import Rules
from zerogo.system import runtime

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
    assert gpu._run(Part(f'timeit -n 1 "{held}"', 1)) == ({}, "did not finish within 1 s")
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


# `zerogo bench gpu` with the smallest parts, in a file beside their config.
SMALL = """
import sys
from pathlib import Path
from zerogo.bench import gpu
from zerogo.bench.__main__ import main, parse
from zerogo.search import graph
graph.may_capture = lambda *_: False
NET = "--size 3 --batch 8 --blocks 1 --channels 4 --rounds 1 --seconds 0.01 --threads 1"
gpu.SIDES, gpu.CONFIG = (3,), Path(__file__).with_name("9x9.yaml")
gpu.PARTS = {
    "kernels": gpu.Part("small gpu --part kernels", 3000, {"triton": 1}),
    "tests": gpu.Part("pytest -q -m gpu -p no:cacheprovider tests/test_on_cuda.py -k tried_on_the_device", 3000),
    "network": gpu.Part(f"zerogo.bench net {NET}", 3000, {"evals_per_s": 1}),
    "search": gpu.Part(f"zerogo.bench search --sims 4 {NET}", 3000, {"simulations_per_s": 1}),
    "self-play": gpu.Part(f"zerogo.bench selfplay --sims 4 {NET}", 3000, {"games_per_hour": 1}),
    "iterations": gpu.Part("small gpu --part run", 3000, {"selfplay_s": 0, "train_samples_per_s": 1}),
}
main(parse(sys.argv[1:]))
"""
RANK = """
import sys
from pathlib import Path
import ranks_job
from zerogo.system import distributed
ranks_job.GATED = "run.device=cuda:0", "run.kernels=plain"
with distributed.process_group():
    ranks_job.train_and_compare(Path(sys.argv[1]), "two")
distributed.leave(0)
"""
HERE = Path(__file__).parent


def pretended(*folders: Path) -> dict[str, str]:
    """Returns the environment of a process with the simulated device, which also imports from other folders."""
    paths = map(str, (HERE.parent / "pretended", HERE.parents[1], HERE.parent, HERE, *folders))
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}


def test_the_whole_on_the_pretended_device(tmp_path: Path) -> None:
    """Every figure is seen, and nothing is wrong: kernels are in use, a run goes through its iterations."""
    words = "run.name=nine run.device=cuda selfplay.random_opening_games=4 game.move_cap=4"
    words += " selfplay.slots=2 pipeline.games_per_iteration=2 game.size=2 game.komi=0.5"
    tiny.config(*words.split()).dump(tmp_path / "9x9.yaml")
    (tmp_path / "small.py").write_text(SMALL)
    command = [sys.executable, "-m", "small", "gpu"]
    done = subprocess.run(command, env=pretended(tmp_path), capture_output=True, text=True, cwd=HERE.parents[1])
    assert done.returncode == 0 and done.stderr.count(" holds") == 7, done.stdout + done.stderr


def test_two_ranks_on_the_pretended_device(tmp_path: Path) -> None:
    """As if on two machines with a GPU each, by gloo in place of NCCL: they end with one network."""
    environments = [one | {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"} for one in ranks.environments(2)]
    command = [sys.executable, "-c", RANK, str(tmp_path)]
    processes = [subprocess.Popen(command, env=pretended() | one) for one in environments]
    assert [process.wait() for process in processes] == [0, 0]
    sums = json.loads((tmp_path / "two.json").read_text())
    assert sums[0] == sums[1]
    numbers = tiny.lines(tmp_path / "two" / "tiny" / "logs" / "metrics.jsonl")
    assert {line["time/learners"] for line in numbers if "time/learners" in line} == {1.0}, "one learns"


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_games_are_played_on_a_second_gpu() -> None:
    before = torch.cuda.current_device()
    try:
        state = board.new_games(4, Rules(5), runtime.pick_device("cuda:1"))
        assert torch.cuda.current_device() == 1
        for _ in range(5):
            state = board.step(state, board.legal_actions(state).to(torch.int8).argmax(1))
        assert state.device.index == 1 and state.ply.tolist() == [5] * 4
    finally:
        torch.cuda.set_device(before)
