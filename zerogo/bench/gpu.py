"""The measurements of a machine with a GPU, in ten minutes. Each part is a separate command with a time limit, and its
figures stand next to the expected ones."""

import argparse
import contextlib
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from zerogo import bench, config, kernels, tuning
from zerogo.errors import InputError
from zerogo.pipeline import train
from zerogo.system.runtime import describe, pick_device
from zerogo.system.telemetry import METRICS_FILE

ROOT = Path(__file__).parents[2]
SIDES = 9, 19  # of the boards that the parts are about
CONFIG, ITERATIONS = ROOT / "configs" / "9x9.yaml", 3
WHOLE_NET = "--blocks 6 --channels 96"
SEARCH = f"zerogo.bench search --sims 64 --rounds 3 {WHOLE_NET}"
PHASES = {"selfplay": "selfplay_s", "train": "train_s", "rest": "rest_s"}


@dataclass
class Part:
    """One command (without the `python -m` before it) and the figures of its last JSON line that are judged: their
    names with the least expected value, None for figures that are only shown."""

    command: str
    seconds: int
    expected: dict[str, float | None] = field(default_factory=dict)


# What is expected of an H100 or more; the time limits together stay below ten minutes. A search's efficiency can't pass
# 0.8, as a fifth of an untrained network's leaves are finished games; 0.67 was seen. Self-play's was never measured.
PARTS = {
    "kernels": Part("zerogo.bench gpu --part kernels", 130, {"triton": 1}),
    "tests": Part("pytest -q -m gpu -p no:cacheprovider tests", 140),
    "network 9x9": Part(f"zerogo.bench net --size 9 --batch 4096 {WHOLE_NET}", 25, {"share_of_peak": None}),
    "network 19x19": Part(
        "zerogo.bench net --size 19 --batch 1024 --blocks 10 --channels 128", 25, {"share_of_peak": 0.35}
    ),
    "search 1,024": Part(f"{SEARCH} --batch 1024", 45, {"efficiency": None}),
    "search 4,096": Part(f"{SEARCH} --batch 4096", 45, {"efficiency": 0.65}),
    "self-play": Part(f"zerogo.bench selfplay --batch 4096 --sims 32 --rounds 1 {WHOLE_NET}", 45, {"efficiency": None}),
    "three iterations of configs/9x9.yaml": Part(
        "zerogo.bench gpu --part run",
        140,
        {"busy_share": 0.85, "train_samples_per_s": 160_000, "peak_memory_gb": None} | dict.fromkeys(PHASES.values()),
    ),
}


def run_gpu(args: argparse.Namespace) -> None:
    """Runs all parts, or the one that is named, and prints their lines and a table. Raises SystemExit with status 1
    where something that is expected was not seen."""
    device = pick_device(args.device)
    if args.part:
        figures = _kernels(device) if args.part == "kernels" else _run_iterations(device)
        bench.print_line({"bench": "gpu", "part": args.part} | figures)
        return
    if device.type != "cuda":
        raise InputError(f"the device is {device}; this needs a CUDA device (--part and other benches run on a CPU)")
    bench.print_line({"bench": "gpu"} | describe(device))
    rows = [row for name, part in PARTS.items() for row in _judge(name, part, *_run(part))]
    bench.print_table(("part", "figure", "seen", "expected", "verdict"), rows)
    if any(row[-1] != "holds" for row in rows if row[-1]):
        raise SystemExit(1)


def _run(part: Part) -> tuple[dict[str, Any], str]:
    """Runs a command, prints its lines, and returns its last JSON line and its fault, "" for none."""
    command = [sys.executable, "-m", *shlex.split(part.command)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes) as process:
        try:
            out, errors = process.communicate(timeout=part.seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # what it started would keep the pipes open, and the GPU busy
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return {}, f"did not finish within {part.seconds} s"
    sys.stdout.write(out)
    sys.stdout.flush()
    sys.stderr.write(errors)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    last = (errors.strip() or out.strip() or "nothing was printed").splitlines()[-1]
    return json.loads(lines[-1]) if lines else {}, last[:80] if process.returncode else ""


def _judge(name: str, part: Part, line: dict[str, Any], fault: str) -> Iterator[tuple[str, ...]]:
    """Yields the table's rows of a part: an empty verdict where nothing is expected."""
    if fault or not part.expected:
        yield name, part.command.split()[0], fault or "no fault", "no fault", "FALLS SHORT" if fault else "holds"
        return
    for figure, least in part.expected.items():
        value = line.get(figure)
        text = "not measured" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
        verdict = "" if least is None else "holds" if value is not None and value >= least else "FALLS SHORT"
        yield name, figure, text, "" if least is None else f"at least {least:,}", verdict


def _kernels(device: torch.device) -> dict[str, Any]:
    """Returns the kernels in use, and prints the faults of each; triton: 1 where all are Triton's."""
    faults = [tuning.prove_kernels(device, size) for size in SIDES]
    rows = [(name, *(of_size.get(name, "not tried") or "right" for of_size in faults)) for name in faults[0]]
    bench.print_table(("kernel", *(f"{size}x{size}" for size in SIDES)), rows)
    used = kernels.in_use(device)
    return {"kernels": used, "triton": int(used == "kernels by triton")}


def _run_iterations(device: torch.device) -> dict[str, Any]:
    """Returns what three iterations of configs/9x9.yaml without matches took, after a first one as a warm-up: the
    seconds of each phase, the samples learned per second, the share of the time in which the GPU had work, and the most
    memory that torch held, in 10^9 bytes.

    The driver samples that share: a profiler's trace of three iterations would hold millions of events."""
    with tempfile.TemporaryDirectory() as folder, _sample_driver(device) as samples:
        settings = [f"run.directory={folder}", f"run.device={device}", f"pipeline.iterations={1 + ITERATIONS}"]
        settings += ["pipeline.minutes=0", "pipeline.final_matches=false", "evaluation.every_minutes=0"]
        settings = config.load(CONFIG, settings)
        with contextlib.redirect_stdout(sys.stderr):  # stdout has the lines alone
            train(settings)
        lines = (Path(folder) / settings.run.name / "logs" / METRICS_FILE).read_text().splitlines()
    iterations = [line for line in map(json.loads, lines) if "time/iterations" in line]
    figures = phases(iterations, settings.training.batch)
    if shares := [share for moment, share in samples if iterations[0]["time"] <= moment <= iterations[-1]["time"]]:
        figures["busy_share"] = round(sum(shares) / len(shares) / 100, 3)
    if device.type == "cuda":
        figures["peak_memory_gb"] = round(torch.cuda.max_memory_allocated(device) / 1e9, 2)
    return figures


def phases(iterations: list[dict[str, float]], batch: int) -> dict[str, float]:
    """Returns the seconds of self-play, of learning and of all else between the first charted iteration and the last,
    and the samples learned per second of learning.

    iterations: the lines of metrics.jsonl that chart an iteration. batch: samples of a step."""
    played = learned = samples = 0.0
    for before, after in itertools.pairwise(iterations):
        played += (after["time/games"] - before["time/games"]) / after["selfplay/games_per_s"]
        if "train/samples_per_s" in after:
            step_samples = (after["step"] - before["step"]) * batch
            samples += step_samples
            learned += step_samples / after["train/samples_per_s"]
    total = 60 * (iterations[-1]["time/minutes"] - iterations[0]["time/minutes"])
    seconds = {"selfplay": played, "train": learned, "rest": total - played - learned}
    figures = {PHASES[name]: round(value, 2) for name, value in seconds.items()}
    return figures | ({"train_samples_per_s": round(samples / learned)} if learned else {})


@contextlib.contextmanager
def _sample_driver(device: torch.device) -> Iterator[list[tuple[float, float]]]:
    """Yields a list that the end of the block fills with the driver's samples: the time in seconds since 1970, and the
    percentage of the time before in which a kernel ran. It stays empty where nvidia-smi can't tell."""
    samples: list[tuple[float, float]] = []
    # The driver numbers all GPUs, torch only those that CUDA_VISIBLE_DEVICES leaves.
    name = f"GPU-{torch.cuda.get_device_properties(device).uuid}" if device.type == "cuda" else "0"
    command = ["nvidia-smi", f"--id={name}", "--query-gpu=timestamp,utilization.gpu", "-lms", "200"]
    with tempfile.TemporaryFile("w+") as lines:
        try:
            command += ["--format=csv,noheader,nounits"]
            watch = subprocess.Popen(command, stdout=lines, stderr=subprocess.DEVNULL)
        except OSError:
            yield samples
            return
        try:
            yield samples
        finally:
            watch.terminate()
            watch.wait()
            lines.seek(0)
            samples += parse_samples(lines)


def parse_samples(lines: Iterable[str]) -> list[tuple[float, float]]:
    """Returns the time and the percentage of each line such as "2026/11/22 15:59:08.123, 97"; others are left out."""
    samples = []
    for line in lines:
        with contextlib.suppress(ValueError):
            moment, share = line.split(", ")
            samples.append((datetime.strptime(moment, "%Y/%m/%d %H:%M:%S.%f").timestamp(), float(share)))
    return samples
